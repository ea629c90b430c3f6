// checkify: calls, branches and loops, which carry programs. Each carries the checked program instead;
// loops carry the error from step to step.
#include <algorithm>
#include <map>

#include "telamon/checkpoint.hpp"
#include "telamon/custom_jvp.hpp"
#include "telamon/custom_vjp.hpp"
#include "telamon/custom_vmap.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/detail/solves.hpp"
#include "telamon/lax.hpp"
#include "transforms/checkify.hpp"

namespace telamon {
inline namespace v1 {
namespace checkify_detail {
namespace {

using control_flow::append;
using control_flow::counting;
using control_flow::taken;
using control_flow::zeros_of;
using Programs = std::vector<std::shared_ptr<const CheckedProgram>>;
using Rule = Arrays (*)(const Params&, const Programs&, std::span<const Array>, ErrorState&);

std::size_t error_size(const CheckedProgram& program) { return 1 + program.sites.slots.size(); }

// The error and the results of a program; one that cannot fail serves as it stands.
struct Outcome {
  Arrays error, results;
};
Outcome outcome(const CheckedProgram& program, Arrays outs) {
  const auto at = outs.begin() + static_cast<std::ptrdiff_t>(error_size(program));
  return {{outs.begin(), at}, {at, outs.end()}};
}
Outcome apply(const CheckedProgram& program, const Jaxpr& source, std::span<const Array> args) {
  if (!program.changed) return {error_of(program, args), eval_jaxpr(source, args)};
  return outcome(program, eval_jaxpr(program.jaxpr, args));
}

Arrays zero_error(const Sites& sites) {
  Arrays error{zeros_of({Shape(), DType::i32, false})};
  for (const Aval& aval : sites.slots) error.push_back(zeros_of(aval));
  return error;
}
// ---- calls ---------------------------------------------------------------------------------------

template <class P>
Arrays call_again(const Primitive<P>& primitive, P p, const CheckedProgram& program,
                  std::span<const Array> args, ErrorState& state) {
  p.jaxpr = program.jaxpr;
  const Outcome y = outcome(program, primitive.bind(p, args));
  state.merge(program.sites, y.error);
  return y.results;
}

Arrays of_jit(const Params& p, const Programs& programs, std::span<const Array> args,
              ErrorState& state) {
  return call_again(jit_p, p.as<JitParams>(), *programs[0], args, state);
}
Arrays of_checkpoint(const Params& p, const Programs& programs, std::span<const Array> args,
                     ErrorState& state) {
  return call_again(checkpoint_p, p.as<CheckpointParams>(), *programs[0], args, state);
}

// The error of a program, computed beside it: it has no derivative.
void add_error(const CheckedProgram& program, std::span<const Array> args, ErrorState& state) {
  Arrays constant;
  for (const Array& x : args) constant.push_back(is_inexact(x.dtype()) ? lax::stop_gradient(x) : x);
  state.merge(program.sites, error_of(program, constant));
}

// A call with rules of its own keeps them: its body goes on without the error.
template <class P>
Arrays call_with_rules(const Primitive<P>& primitive, P p, const CheckedProgram& program,
                       std::span<const Array> args, ErrorState& state) {
  if constexpr (requires { p.call_jaxpr; }) p.call_jaxpr = results_of(program);
  else p.call = results_of(program);
  Arrays results = primitive.bind(p, args);
  add_error(program, args, state);
  return results;
}
Arrays of_custom_jvp(const Params& p, const Programs& programs, std::span<const Array> args,
                     ErrorState& state) {
  return call_with_rules(custom_jvp_call_p, p.as<CustomJvpParams>(), *programs[0], args, state);
}
Arrays of_custom_vjp(const Params& p, const Programs& programs, std::span<const Array> args,
                     ErrorState& state) {
  return call_with_rules(custom_vjp_call_p, p.as<CustomVjpParams>(), *programs[0], args, state);
}
Arrays of_custom_vmap(const Params& p, const Programs& programs, std::span<const Array> args,
                      ErrorState& state) {
  return call_with_rules(custom_vmap_call_p, p.as<CustomVmapParams>(), *programs[0], args, state);
}

// Calls that carry several programs, of which one gives the results: the others serve derivatives.

Arrays without(std::span<const Array> args, std::size_t from, int count) {
  Arrays rest(args.begin(), args.end());
  const auto begin = rest.begin() + static_cast<std::ptrdiff_t>(from);
  rest.erase(begin, begin + count);
  return rest;
}
void drop_checks(Jaxpr& jaxpr, const CheckedProgram& program) {
  if (program.changed) jaxpr = results_of(program);
}

// The transpose stays as it is, like the rules of other calls.
Arrays of_linear_call(const Params& params, const Programs& programs, std::span<const Array> args,
                      ErrorState& state) {
  auto p = params.as<LinearCallParams>();
  drop_checks(p.callee, *programs[0]);
  Arrays results = linear_call_p.bind(p, args);
  add_error(*programs[0],
            without(args, static_cast<std::size_t>(p.num_callee_consts), p.num_transpose_consts),
            state);
  return results;
}

// The error of a solver with `num_consts` consts, behind `before` and in front of `after` operands of
// other programs.
void add_solver_error(const CheckedProgram& solver, std::span<const Array> args, int before,
                      int num_consts, int after, ErrorState& state) {
  const Arrays from_solver = without(args, 0, before);
  add_error(solver, without(from_solver, static_cast<std::size_t>(num_consts), after), state);
}

// Of a solve, the error of its solver is told. The programs for its derivatives hold the same function
// once more: what goes wrong in them is not looked for.
Arrays of_linear_solve(const Params& params, const Programs& programs, std::span<const Array> args,
                       ErrorState& state) {
  auto p = params.as<CustomLinearSolveParams>();
  auto program = programs.begin();
  drop_checks(p.matvec, **program++);
  if (p.vecmat) drop_checks(*p.vecmat, **program++);
  const CheckedProgram& solver = **program++;
  drop_checks(p.solve, solver);
  if (p.transpose_solve) drop_checks(*p.transpose_solve, **program);
  Arrays results = custom_linear_solve_p.bind(p, args);
  add_solver_error(solver, args, p.num_matvec_consts + p.num_vecmat_consts, p.num_solve_consts,
                   p.num_transpose_solve_consts, state);
  return results;
}
Arrays of_root(const Params& params, const Programs& programs, std::span<const Array> args,
               ErrorState& state) {
  auto p = params.as<CustomRootParams>();
  drop_checks(p.f, *programs[0]);
  drop_checks(p.solve, *programs[1]);
  drop_checks(p.tangent_solve, *programs[2]);
  Arrays results = custom_root_p.bind(p, args);
  add_solver_error(*programs[1], args, p.num_f_consts, p.num_solve_consts,
                   p.num_tangent_solve_consts, state);
  return results;
}

// ---- cond ----------------------------------------------------------------------------------------
// Every branch gives the error in the numbers and slots of all branches.

Arrays of_cond(const Params& params, const Programs& programs, std::span<const Array> args,
               ErrorState& state) {
  const auto& p = params.as<CondParams>();
  Sites all;
  std::vector<Sites::Mapping> mappings;
  for (const auto& program : programs) mappings.push_back(all.add(program->sites));
  CondParams checked;
  for (std::size_t b = 0; b < programs.size(); ++b) {
    const auto branch = [&](std::span<const Array> x) {
      ErrorState error(all, zero_error(all));
      const Outcome y = apply(*programs[b], p.branches[b], x);
      error.merge(mappings[b], y.error);
      Arrays outs = error.flat();
      append(outs, y.results);
      return outs;
    };
    checked.branches.push_back(detail::stage_flat(branch, p.branches[b].in_avals()).jaxpr);
  }
  const Arrays outs = cond_p.bind(checked, args);
  const auto at = outs.begin() + static_cast<std::ptrdiff_t>(1 + all.slots.size());
  state.merge(all, Arrays(outs.begin(), at));
  return {at, outs.end()};
}

// ---- loops ---------------------------------------------------------------------------------------

// The error stands in front of the carry.
Arrays of_scan(const Params& params, const Programs& programs, std::span<const Array> args,
               ErrorState& state) {
  const auto& p = params.as<ScanParams>();
  const CheckedProgram& body = *programs[0];
  const std::size_t size = error_size(body), consts = static_cast<std::size_t>(p.num_consts);
  Arrays operands(args.begin(), args.begin() + p.num_consts);
  append(operands, zero_error(body.sites));
  operands.insert(operands.end(), args.begin() + p.num_consts, args.end());
  std::vector<Aval> avals(body.jaxpr.in_avals().begin(), body.jaxpr.in_avals().end());
  const std::vector<Aval> error_avals = detail::avals_of(zero_error(body.sites));
  avals.insert(avals.begin() + p.num_consts, error_avals.begin(), error_avals.end());
  ScanParams checked = p;
  checked.num_carry += static_cast<int>(size);
  checked.jaxpr =
      detail::stage_flat(
          [&](std::span<const Array> x) {
            ErrorState error(body.sites, x.subspan(consts, size));
            Arrays inputs(x.begin(), x.begin() + p.num_consts);
            inputs.insert(inputs.end(), x.begin() + static_cast<std::ptrdiff_t>(consts + size),
                          x.end());
            const Outcome y = outcome(body, eval_jaxpr(body.jaxpr, inputs));
            error.merge({0, counting(0, size - 1)}, y.error);
            Arrays outs = error.flat();
            append(outs, y.results);
            return outs;
          },
          avals)
          .jaxpr;
  const Arrays outs = scan_p.bind(checked, operands);
  const auto at = outs.begin() + static_cast<std::ptrdiff_t>(size);
  state.merge(body.sites, Arrays(outs.begin(), at));
  return {at, outs.end()};
}

// The error stands behind the carry. What goes wrong in the condition is found by one evaluation in
// front of the loop, and one behind each step; the condition of the loop itself tells nothing.
Arrays of_while(const Params& params, const Programs& programs, std::span<const Array> args,
                ErrorState& state) {
  const auto& p = params.as<WhileParams>();
  if (p.cond_jaxpr.out_avals()[0].ndim() > 0) {
    throw NotImplementedError(
        "checkify does not support batched while loops (checkify of vmap of while_loop): lanes "
        "that "
        "are done go on being computed. Move vmap outside, vmap(checkify(f)), which tells the "
        "error "
        "of each example");
  }
  const CheckedProgram &condition = *programs[0], &body = *programs[1];
  Sites all;
  const Sites::Mapping of_condition = all.add(condition.sites), of_body = all.add(body.sites);
  const auto cond_consts = static_cast<std::size_t>(p.cond_nconsts);
  const auto body_consts = static_cast<std::size_t>(p.body_nconsts);
  const std::size_t num_carry = static_cast<std::size_t>(p.body_jaxpr.num_outputs());
  const std::vector<Aval> error_avals = detail::avals_of(zero_error(all));

  const auto test = [&](ErrorState& error, Arrays consts, const Arrays& carry) {
    append(consts, carry);
    error.merge(of_condition, error_of(condition, consts));
  };
  const Arrays for_cond(args.begin(), args.begin() + p.cond_nconsts);
  const Arrays initial(args.end() - static_cast<std::ptrdiff_t>(num_carry), args.end());
  ErrorState before(all, zero_error(all));
  test(before, for_cond, initial);

  WhileParams checked = p;
  std::vector<Aval> cond_avals(p.cond_jaxpr.in_avals().begin(), p.cond_jaxpr.in_avals().end());
  append(cond_avals, error_avals);
  const Jaxpr holds = condition.changed ? results_of(condition) : p.cond_jaxpr;
  checked.cond_jaxpr = detail::stage_flat(
                           [&](std::span<const Array> x) {
                             return eval_jaxpr(holds, x.first(cond_consts + num_carry));
                           },
                           cond_avals)
                           .jaxpr;
  // Consts of the body, then those of the condition.
  checked.body_nconsts += p.cond_nconsts;
  std::vector<Aval> body_avals(p.body_jaxpr.in_avals().begin(), p.body_jaxpr.in_avals().end());
  body_avals.insert(body_avals.begin() + p.body_nconsts, cond_avals.begin(),
                    cond_avals.begin() + p.cond_nconsts);
  append(body_avals, error_avals);
  checked.body_jaxpr = detail::stage_flat(
                           [&](std::span<const Array> x) {
                             const std::size_t carry = body_consts + cond_consts;
                             ErrorState error(all, x.subspan(carry + num_carry));
                             Arrays inputs = taken(x, counting(0, body_consts));
                             append(inputs, taken(x, counting(carry, num_carry)));
                             Outcome y = apply(body, p.body_jaxpr, inputs);
                             error.merge(of_body, y.error);
                             test(error, taken(x, counting(body_consts, cond_consts)), y.results);
                             append(y.results, error.flat());
                             return y.results;
                           },
                           body_avals)
                           .jaxpr;
  Arrays operands(args.begin(), args.begin() + p.cond_nconsts + p.body_nconsts);
  append(operands, for_cond);
  append(operands, initial);
  append(operands, before.flat());
  const Arrays outs = while_p.bind(checked, operands);
  const auto at = outs.begin() + static_cast<std::ptrdiff_t>(num_carry);
  state.merge(all, Arrays(at, outs.end()));
  return {outs.begin(), at};
}

Rule rule_of(const PrimitiveBase* primitive) {
  static const std::map<const PrimitiveBase*, Rule> kRules = {
      {&jit_p, of_jit},
      {&checkpoint_p, of_checkpoint},
      {&custom_jvp_call_p, of_custom_jvp},
      {&custom_vjp_call_p, of_custom_vjp},
      {&custom_vmap_call_p, of_custom_vmap},
      {&linear_call_p, of_linear_call},
      {&custom_linear_solve_p, of_linear_solve},
      {&custom_root_p, of_root},
      {&cond_p, of_cond},
      {&scan_p, of_scan},
      {&while_p, of_while},
  };
  const auto found = kRules.find(primitive);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace

std::optional<Arrays> checked_call(const Eqn& eqn, std::span<const Array> args, ErrorState& state,
                                   Checks checks) {
  const Rule rule = rule_of(eqn.primitive);
  if (!rule) return std::nullopt;
  Programs programs;
  for (const Jaxpr& jaxpr : eqn.params.jaxprs()) programs.push_back(checked_program(jaxpr, checks));
  if (std::none_of(programs.begin(), programs.end(), [](const auto& p) { return p->changed; }))
    return eqn.primitive->bind_erased(eqn.params, args);
  return rule(eqn.params, programs, args, state);
}

}  // namespace checkify_detail
}  // namespace v1
}  // namespace telamon
