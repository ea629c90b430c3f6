// Equations of the neutral JSON form that carry programs: calls, loops, branches, and calls with
// rules of their own. The constants of a program become operands, in front of those that it takes.
#include <algorithm>

#include "core/avals.hpp"
#include "core/counted.hpp"
#include "interop/program_reader.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/detail/solves.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

void append_captured(Scope& scope, const ClosedJaxpr& body, Atoms& operands) {
  for (const Array& c : body.consts) operands.push_back(scope.builder.capture(c));
}
// What a program captured, then `inputs`.
Atoms with_captured(Scope& scope, const ClosedJaxpr& body, const Atoms& inputs) {
  Atoms args;
  append_captured(scope, body, args);
  args.insert(args.end(), inputs.begin(), inputs.end());
  return args;
}

std::vector<Aval> avals_of(const Scope& scope, const Atoms& atoms) {
  std::vector<Aval> avals;
  for (const Atom& a : atoms) avals.push_back(scope.builder.aval(a));
  return avals;
}

// ---- calls ---------------------------------------------------------------------------------------
Atoms call_of(ProgramReader& reader, Scope& scope, const FileEqn& eqn, const char* key) {
  const ClosedJaxpr body = reader.read_closed(member(eqn.params, key));
  JitParams p;
  p.jaxpr = body.jaxpr;
  p.num_consts = body.num_consts();
  p.name = text_member(eqn.params, "name", eqn.name);
  return reader.add(scope, jit_p, Params::of(std::move(p)), with_captured(scope, body, eqn.inputs));
}
Atoms read_jit(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  return call_of(reader, scope, eqn, "jaxpr");
}
Atoms read_core_call(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  return call_of(reader, scope, eqn, "call_jaxpr");
}

Atoms read_remat(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  const ClosedJaxpr body = reader.read_closed(member(eqn.params, "jaxpr"));
  CheckpointParams p;
  p.jaxpr = body.jaxpr;
  p.name = "f";
  return reader.add(scope, checkpoint_p, Params::of(std::move(p)),
                    with_captured(scope, body, eqn.inputs));
}

Atoms read_linear_call(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  const ClosedJaxpr callee = reader.read_closed(member(eqn.params, "callee"));
  const ClosedJaxpr transpose = reader.read_closed(member(eqn.params, "transpose"));
  const LinearCallParams p{callee.jaxpr, transpose.jaxpr, callee.num_consts(),
                           transpose.num_consts(),
                           count_member(eqn.params, "num_res", eqn.inputs.size())};
  return reader.add(scope, linear_call_p, Params::of(p),
                    with_captured(scope, callee, with_captured(scope, transpose, eqn.inputs)));
}

// The index of the first list of platforms that names this one, else of null.
Atoms read_platform_index(ProgramReader&, Scope&, FileEqn eqn) {
  std::int32_t index = 0, chosen = 0;
  for (const Json& platforms : list_member(eqn.params, "platforms")) {
    const bool here = platforms.is_null() || std::any_of(platforms.begin(), platforms.end(),
                                                         [](const Json& p) { return p == "cpu"; });
    if (here) {
      chosen = index;
      break;
    }
    ++index;
  }
  return {Atom::literal(Array::from_data(&chosen, DType::i32, {}))};
}

// ---- control flow --------------------------------------------------------------------------------
// The program, whose constants are added to `operands`.
Jaxpr read_body(ProgramReader& reader, Scope& scope, const Json& closed, Atoms& operands,
                int& num_consts) {
  ClosedJaxpr body = reader.read_closed(closed);
  append_captured(scope, body, operands);
  num_consts += body.num_consts();
  return std::move(body.jaxpr);
}

Atoms read_scan(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  const std::size_t n = eqn.inputs.size();
  ScanParams p;
  p.num_consts = count_member(eqn.params, "num_consts", n);
  p.num_carry = count_member(eqn.params, "num_carry", n - static_cast<std::size_t>(p.num_consts));
  p.length = integer_member(eqn.params, "length");
  p.reverse = bool_member(eqn.params, "reverse");
  if (eqn.params.contains("unroll"))
    p.unroll = std::max<std::int64_t>(1, integer_member(eqn.params, "unroll"));
  Atoms operands;
  p.jaxpr = read_body(reader, scope, member(eqn.params, "jaxpr"), operands, p.num_consts);
  operands.insert(operands.end(), eqn.inputs.begin(), eqn.inputs.end());
  return reader.add(scope, scan_p, Params::of(std::move(p)), std::move(operands));
}

Atoms read_while(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  const std::size_t n = eqn.inputs.size();
  WhileParams p;
  p.cond_nconsts = count_member(eqn.params, "cond_nconsts", n);
  p.body_nconsts =
      count_member(eqn.params, "body_nconsts", n - static_cast<std::size_t>(p.cond_nconsts));
  const auto body_consts = eqn.inputs.begin() + p.cond_nconsts;
  Atoms operands;
  p.cond_jaxpr =
      read_body(reader, scope, member(eqn.params, "cond_jaxpr"), operands, p.cond_nconsts);
  operands.insert(operands.end(), eqn.inputs.begin(), body_consts);
  p.body_jaxpr =
      read_body(reader, scope, member(eqn.params, "body_jaxpr"), operands, p.body_nconsts);
  operands.insert(operands.end(), body_consts, eqn.inputs.end());
  return reader.add(scope, while_p, Params::of(std::move(p)), std::move(operands));
}

// Each branch takes the constants of all.
Atoms read_cond(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  eqn.needs(1);
  const Atoms args(eqn.inputs.begin() + 1, eqn.inputs.end());
  std::vector<ClosedJaxpr> branches;
  Atoms consts;
  for (const Json& branch : list_member(eqn.params, "branches")) {
    branches.push_back(reader.read_closed(branch));
    const auto takes =
        static_cast<std::size_t>(branches.back().jaxpr.num_inputs() - branches.back().num_consts());
    if (takes != args.size()) {
      throw ParseError("branch " + std::to_string(branches.size() - 1) + " takes " +
                       detail::counted(takes, "operand") + ", got " + std::to_string(args.size()));
    }
    append_captured(scope, branches.back(), consts);
  }
  Atoms operands{eqn.inputs[0]};
  operands.insert(operands.end(), consts.begin(), consts.end());
  operands.insert(operands.end(), args.begin(), args.end());
  const std::vector<Aval> avals = avals_of(scope, {operands.begin() + 1, operands.end()});
  CondParams p;
  Var next_const = 0;
  for (const ClosedJaxpr& branch : branches) {
    Atoms map;
    for (int i = 0; i < branch.num_consts(); ++i) map.push_back(Atom::var(next_const++));
    for (auto v = static_cast<Var>(consts.size()); v < static_cast<Var>(avals.size()); ++v) {
      const Aval& given = avals[static_cast<std::size_t>(v)];
      const Aval& taken = branch.jaxpr.avals()[map.size()];
      if (!given.same_type(taken)) {
        throw ParseError("a branch takes " + taken.to_string() + " where the operand is " +
                         given.to_string());
      }
      map.push_back(Atom::var(v));
    }
    p.branches.push_back(substitute_inputs(branch.jaxpr, avals, map));
  }
  return reader.add(scope, cond_p, Params::of(std::move(p)), std::move(operands));
}

// The consts of the four programs, then the right-hand side. vecmat and transpose_solve may be null.
Atoms read_linear_solve(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  const Json& lengths = member(eqn.params, "const_lengths");
  const Json& jaxprs = member(eqn.params, "jaxprs");
  CustomLinearSolveParams p;
  Atoms operands;
  std::size_t next = 0;
  const auto read = [&](const char* name, int& num_consts) -> std::optional<Jaxpr> {
    num_consts = count_member(lengths, name, eqn.inputs.size() - next);
    const Json& program = member(jaxprs, name);
    const auto first = eqn.inputs.begin() + static_cast<std::ptrdiff_t>(next);
    const Atoms given(first, first + num_consts);
    next += given.size();
    if (program.is_null()) {
      if (!given.empty()) throw ParseError("'" + std::string(name) + "' is null but has consts");
      return std::nullopt;
    }
    Jaxpr body = read_body(reader, scope, program, operands, num_consts);
    operands.insert(operands.end(), given.begin(), given.end());
    return body;
  };
  const auto required = [](std::optional<Jaxpr> program, const char* name) {
    if (!program) throw ParseError("custom_linear_solve has no '" + std::string(name) + "'");
    return *std::move(program);
  };
  p.matvec = required(read("matvec", p.num_matvec_consts), "matvec");
  p.vecmat = read("vecmat", p.num_vecmat_consts);
  p.solve = required(read("solve", p.num_solve_consts), "solve");
  p.transpose_solve = read("transpose_solve", p.num_transpose_solve_consts);
  operands.insert(operands.end(), eqn.inputs.begin() + static_cast<std::ptrdiff_t>(next),
                  eqn.inputs.end());
  return reader.add(scope, custom_linear_solve_p, Params::of(std::move(p)), std::move(operands));
}

// ---- calls with rules ----------------------------------------------------------------------------
void append_tangents(std::vector<Aval>& avals, const std::vector<Aval>& of) {
  for (const Aval& aval : of) {
    if (is_inexact(aval.dtype)) avals.push_back(aval.tangent());
  }
}

std::string type_text(std::span<const Aval> avals) {
  return JaxprType{{avals.begin(), avals.end()}, {}}.to_string();
}

// The avals must be those that a rule takes or gives; `more` says that others may follow.
void check_types(const char* what, std::span<const Aval> got, std::span<const Aval> want,
                 bool more = false) {
  const bool counted = more ? got.size() >= want.size() : got.size() == want.size();
  if (counted && detail::same_types(got.first(want.size()), want)) return;
  const auto list = [](std::span<const Aval> avals) {
    const std::string text = type_text(avals);
    return text.substr(0, text.find(" -> "));
  };
  throw ParseError(std::string(what) + " of types " + list(got) + ", but its call wants " +
                   list(want));
}

std::span<const Aval> operands_of(const ClosedJaxpr& program) {
  return program.jaxpr.in_avals().subspan(static_cast<std::size_t>(program.num_consts()));
}

// jvp: (all inputs, tangents of the float inputs) -> (all outputs, tangents of the float outputs)
void check_jvp(const CallUnderWay& call, const ClosedJaxpr& jvp) {
  std::vector<Aval> in = call.in_avals, out = call.out_avals;
  append_tangents(in, call.in_avals);
  append_tangents(out, call.out_avals);
  check_types("jvp_jaxpr takes operands", operands_of(jvp), in);
  check_types("jvp_jaxpr gives results", jvp.jaxpr.out_avals(), out);
}

// fwd: inputs -> (all outputs, residuals)
// bwd: (residuals, cotangents of the float outputs) -> cotangents of the float inputs
void check_vjp(const CallUnderWay& call, const ClosedJaxpr& fwd, const ClosedJaxpr& bwd) {
  check_types("fwd_jaxpr takes operands", operands_of(fwd), call.in_avals);
  const std::vector<Aval> results = fwd.jaxpr.out_avals();
  check_types("fwd_jaxpr gives results", results, call.out_avals, true);
  std::vector<Aval> in(results.begin() + static_cast<std::ptrdiff_t>(call.out_avals.size()),
                       results.end());
  append_tangents(in, call.out_avals);
  std::vector<Aval> out;
  append_tangents(out, call.in_avals);
  check_types("bwd_jaxpr takes operands", operands_of(bwd), in);
  check_types("bwd_jaxpr gives results", bwd.jaxpr.out_avals(), out);
}

// Reads the rules of a call; gives their number, or -1 when there is no complete rule: then the body
// is differentiated.
int read_rules(ProgramReader& reader, const Json& params, CallUnderWay call) {
  const bool forward = call.forward;
  if (member(params, forward ? "jvp_jaxpr" : "fwd_jaxpr").is_null() ||
      (!forward && member(params, "bwd_jaxpr").is_null())) {
    return -1;
  }
  call.number = reader.rules().add();
  reader.calls_under_way().push_back(call);
  if (forward) {
    ClosedJaxpr jvp = reader.read_closed(member(params, "jvp_jaxpr"));
    check_jvp(call, jvp);
    reader.rules().set_jvp(call.number, call.out_avals.size(), std::move(jvp));
  } else {
    ClosedJaxpr fwd = reader.read_closed(member(params, "fwd_jaxpr"));
    ClosedJaxpr bwd = reader.read_closed(member(params, "bwd_jaxpr"));
    check_vjp(call, fwd, bwd);
    reader.rules().set_vjp(call.number, call.out_avals.size(), std::move(fwd), std::move(bwd));
  }
  reader.calls_under_way().pop_back();
  return call.number;
}

// "same_rules_as" counts the calls whose rules are being read.
int rules_of_enclosing(const std::vector<CallUnderWay>& enclosing, const Json& params,
                       const CallUnderWay& call) {
  const int n = count_member(params, "same_rules_as", enclosing.size());
  if (static_cast<std::size_t>(n) == enclosing.size()) {
    throw ParseError("'same_rules_as' is " + std::to_string(n) + " within " +
                     detail::counted(enclosing.size(), "call with rules", "calls with rules"));
  }
  const CallUnderWay& other = enclosing[static_cast<std::size_t>(n)];
  if (other.forward != call.forward)
    throw ParseError("'same_rules_as' refers to a call with rules of another kind");
  check_types("'same_rules_as' refers to a call with operands", other.in_avals, call.in_avals);
  check_types("'same_rules_as' refers to a call with results", other.out_avals, call.out_avals);
  return other.number;
}

template <class P>
Atoms read_custom_call(ProgramReader& reader, Scope& scope, const FileEqn& eqn) {
  constexpr bool kForward = std::is_same_v<P, CustomJvpParams>;
  const ClosedJaxpr body = reader.read_closed(member(eqn.params, "call_jaxpr"));
  const bool inside = !reader.calls_under_way().empty();
  const CallUnderWay call{-1, kForward, avals_of(scope, eqn.inputs), body.jaxpr.out_avals()};
  const int number = eqn.params.contains("same_rules_as")
                         ? rules_of_enclosing(reader.calls_under_way(), eqn.params, call)
                         : read_rules(reader, eqn.params, call);
  P p;
  p.call_jaxpr = body.jaxpr;
  p.num_consts = body.num_consts();
  p.name = text_member(eqn.params, "name", "f");
  const Atoms args = with_captured(scope, body, eqn.inputs);
  if constexpr (kForward) {
    if (number >= 0) p.jvp = reader.rules().jvp(number, inside);
    return reader.add(scope, custom_jvp_call_p, Params::of(std::move(p)), args);
  } else {
    if (number >= 0) p.fwd = reader.rules().fwd(number, inside);
    return reader.add(scope, custom_vjp_call_p, Params::of(std::move(p)), args);
  }
}
Atoms read_custom_jvp(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  return read_custom_call<CustomJvpParams>(reader, scope, eqn);
}
Atoms read_custom_vjp(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  return read_custom_call<CustomVjpParams>(reader, scope, eqn);
}

}  // namespace

const std::map<std::string, EquationReader, std::less<>>& call_readers() {
  static const std::map<std::string, EquationReader, std::less<>> table = {
      {"jit", read_jit},
      {"pjit", read_jit},
      {"composite", read_jit},
      {"closed_call", read_core_call},
      {"core_call", read_core_call},
      {"remat2", read_remat},
      {"cond", read_cond},
      {"while", read_while},
      {"scan", read_scan},
      {"custom_jvp_call", read_custom_jvp},
      {"custom_vjp_call", read_custom_vjp},
      {"custom_linear_solve", read_linear_solve},
      {"linear_call", read_linear_call},
      {"platform_index", read_platform_index}};
  return table;
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
