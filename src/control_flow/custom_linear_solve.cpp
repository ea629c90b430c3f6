// custom_linear_solve: a linear system, whose derivatives are those of the system and never of the
// iteration that solves it.
//   A x = b      dx = A^-1 (db - dA x)      b' = A'^-1 x'
#include "control_flow/solves.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

using P = CustomLinearSolveParams;

/// The operands by what they are for.
template <class T>
struct Operands {
  std::vector<T> matvec, vecmat, solve, transpose_solve, b;
  template <class All>
  Operands(const P& p, const All& all) {
    auto from = all.begin();
    const auto take = [&](int n) {
      const auto begin = from;
      return std::vector<T>(begin, from += n);
    };
    matvec = take(p.num_matvec_consts);
    vecmat = take(p.num_vecmat_consts);
    solve = take(p.num_solve_consts);
    transpose_solve = take(p.num_transpose_solve_consts);
    b.assign(from, all.end());
  }
  std::vector<T> all() const {
    std::vector<T> joined = matvec;
    for (const auto* part : {&vecmat, &solve, &transpose_solve, &b}) append(joined, *part);
    return joined;
  }
};

// The unknowns: the solution may have auxiliary results behind it.
std::size_t num_unknowns(const P& p) { return size(p.matvec.num_outputs()); }

Arrays run(const P& p, std::span<const Array> args) {
  const Operands<Array> x(p, args);
  return eval_jaxpr(p.solve, followed_by(x.solve, x.b));
}

// ---- types -------------------------------------------------------------------------------------

// One program maps `in` to `out` (and `more` of what results it likes), behind its consts.
void check_program(const char* name, const Jaxpr& program, int num_consts, std::span<const Aval> in,
                   std::span<const Aval> out, bool more) {
  const std::vector<Aval> results = program.out_avals();
  const auto takes = program.in_avals().subspan(size(num_consts));
  const bool fits = more ? results.size() >= out.size() : results.size() == out.size();
  if (fits && detail::same_types(takes, in) &&
      detail::same_types(std::span(results).first(out.size()), out))
    return;
  bad_jaxpr("custom_linear_solve", std::string(name) + " of type " + avals_text(takes) + " -> " +
                                       avals_text(results) + " where " + avals_text(in) + " -> " +
                                       avals_text(out) + " is expected");
}

AbstractResult type_of(const P& p, std::span<const Aval> in) {
  const auto num_inputs = [](const std::optional<Jaxpr>& program) {
    return program ? program->num_inputs() : 0;
  };
  for (const auto& [consts, inputs] :
       {std::pair{p.num_matvec_consts, p.matvec.num_inputs()},
        {p.num_vecmat_consts, num_inputs(p.vecmat)},
        {p.num_solve_consts, p.solve.num_inputs()},
        {p.num_transpose_solve_consts, num_inputs(p.transpose_solve)}}) {
    if (consts < 0 || consts > inputs)
      bad_jaxpr("custom_linear_solve", "a program has fewer inputs than consts");
  }
  if (p.vecmat.has_value() != p.transpose_solve.has_value())
    bad_jaxpr("custom_linear_solve", "vecmat and transpose_solve come together or not at all");
  std::vector<Aval> expected;
  const auto consts = [&](const Jaxpr& program, int n) {
    const auto avals = program.in_avals().first(size(n));
    expected.insert(expected.end(), avals.begin(), avals.end());
  };
  consts(p.matvec, p.num_matvec_consts);
  if (p.vecmat) consts(*p.vecmat, p.num_vecmat_consts);
  consts(p.solve, p.num_solve_consts);
  if (p.transpose_solve) consts(*p.transpose_solve, p.num_transpose_solve_consts);
  const auto x = p.matvec.in_avals().subspan(size(p.num_matvec_consts));
  const std::vector<Aval> b = p.matvec.out_avals();
  if (x.size() != b.size())
    bad_jaxpr("custom_linear_solve", "matvec takes " + avals_text(x) + " to " + avals_text(b) +
                                         ": as many components are needed");
  append(expected, b);
  check_operands("custom_linear_solve", in, expected);
  check_program("solve", p.solve, p.num_solve_consts, b, x, true);
  if (p.vecmat) {
    check_program("vecmat", *p.vecmat, p.num_vecmat_consts, b, x, false);
    check_program("transpose_solve", *p.transpose_solve, p.num_transpose_solve_consts, x, b, true);
  }
  return {p.solve.out_avals(), p.solve.effect()};
}

// ---- jvp, transpose ----------------------------------------------------------------------------

bool any_nonzero(const std::vector<Tangent>& tangents) {
  return std::any_of(tangents.begin(), tangents.end(),
                     [](const Tangent& t) { return !t.is_zero(); });
}

Array negative(const Array& x) { return neg_p.bind1({}, {x}); }

// What the solvers captured has no influence on the solution: their tangents are not asked for.
JvpResult differentiate(const P& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const Operands<Array> at(p, primals);
  const Operands<Tangent> along(p, tangents);
  const std::size_t n = num_unknowns(p);
  JvpResult result{custom_linear_solve_p.bind(p, primals), {}};
  for (const Array& y : result.primals) result.tangents.emplace_back(Zero{y.aval().tangent()});
  std::vector<Tangent> rhs = along.b;
  if (any_nonzero(along.matvec)) {
    const Arrays x = taken(result.primals, counting(0, n));
    std::vector<Tangent> moving = along.matvec;
    for (const Array& xi : x) moving.emplace_back(Zero{xi.aval().tangent()});
    const JvpResult moved =
        detail::jvp_flat([&](std::span<const Array> a) { return eval_jaxpr(p.matvec, a); },
                         followed_by(at.matvec, x), moving);
    for (std::size_t i = 0; i < n; ++i) {
      const Tangent& t = moved.tangents[i];
      if (!t.is_zero()) rhs[i] = detail::add_tangents(rhs[i], negative(t.array()));
    }
  }
  if (!any_nonzero(rhs)) return result;
  Operands<Array> system = at;
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_number = rhs[i].aval().dtype != DType::float0;
    system.b[i] = is_number ? rhs[i].instantiate() : zeros_of(at.b[i].aval());
  }
  const Arrays dx = custom_linear_solve_p.bind(p, system.all());
  for (std::size_t i = 0; i < n; ++i)
    if (result.tangents[i].aval().dtype != DType::float0) result.tangents[i] = dx[i];
  return result;
}

std::vector<Tangent> transposed(const P& p, std::span<const Tangent> cts,
                                std::span<const LinearInput> inputs) {
  if (!p.transpose_solve) {
    throw TypeError(
        "transpose_solve required for backwards mode automatic differentiation of "
        "custom_linear_solve. Give it a transpose_solve, or .symmetric where the map is its own "
        "transpose");
  }
  const std::size_t n = num_unknowns(p), num_consts = inputs.size() - n;
  Arrays known;
  for (const LinearInput& in : inputs.first(num_consts)) {
    if (in.is_linear())
      throw TypeError("custom_linear_solve is transposed with respect to its right-hand side only");
    known.push_back(in.array());
  }
  for (const Tangent& ct : cts.first(n)) known.push_back(ct.instantiate());
  const Operands<Array> at(p, known);
  const P q{*p.vecmat,
            p.matvec,
            *p.transpose_solve,
            p.solve,
            p.num_vecmat_consts,
            p.num_matvec_consts,
            p.num_transpose_solve_consts,
            p.num_solve_consts};
  Arrays operands = at.vecmat;
  for (const Arrays* part : {&at.matvec, &at.transpose_solve, &at.solve, &at.b})
    append(operands, *part);
  const Arrays given = custom_linear_solve_p.bind(q, operands);
  std::vector<Tangent> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_linear()) result.emplace_back(given[i - num_consts]);
    else result.emplace_back(Zero{inputs[i].aval().tangent()});
  }
  return result;
}

// ---- batch -------------------------------------------------------------------------------------
// A component of x or of b is mapped if one of the programs makes it so: a fixed point. Mapped
// components have their batch axis in front; consts keep theirs where it is.

BatchResult vectorise(const P& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const Operands<BatchAxis> given(p, axes);
  const std::size_t n = num_unknowns(p);
  Mask x(n, false), b;
  for (const BatchAxis& a : given.b) b.push_back(a.has_value());
  const auto in_front = [](const Mask& mapped) {
    std::vector<BatchAxis> out;
    for (const bool m : mapped) out.push_back(m ? BatchAxis(0) : std::nullopt);
    return out;
  };
  // The program that takes `in` to `out`; what it makes mapped is added to `out`.
  const auto mapped = [&](const Jaxpr& program, const std::vector<BatchAxis>& consts,
                          const Mask& in, Mask& out) {
    const auto num_out = size(program.num_outputs());
    Mask forced = out;
    forced.resize(num_out, false);
    while (true) {
      const auto derived =
          detail::batch_jaxpr(program, axis, followed_by(consts, in_front(in)), forced);
      const Mask before = forced;
      for (std::size_t i = 0; i < num_out; ++i)
        forced[i] = forced[i] || derived->out_axes[i].has_value();
      for (std::size_t i = 0; i < n; ++i) out[i] = forced[i];
      if (forced == before) return derived;
    }
  };
  P q = p;
  std::shared_ptr<const detail::BatchJaxpr> solve;
  for (bool stable = false; !stable;) {
    const Mask x_before = x, b_before = b;
    solve = mapped(p.solve, given.solve, b, x);
    if (p.vecmat) q.vecmat = mapped(*p.vecmat, given.vecmat, b, x)->jaxpr;
    q.matvec = mapped(p.matvec, given.matvec, x, b)->jaxpr;
    if (p.transpose_solve)
      q.transpose_solve = mapped(*p.transpose_solve, given.transpose_solve, x, b)->jaxpr;
    stable = x == x_before && b == b_before;
  }
  q.solve = solve->jaxpr;
  Operands<Array> operands(p, args);
  for (std::size_t i = 0; i < n; ++i)
    if (b[i]) operands.b[i] = detail::batch_at_front(operands.b[i], given.b[i], axis.size);
  return {custom_linear_solve_p.bind(q, operands.all()), solve->out_axes};
}

// ---- dce ---------------------------------------------------------------------------------------
// The solution is needed whole. Auxiliary results and consts that nobody reads are dropped.

DceResult prune(const P& p, const Mask& used_out) {
  const std::size_t n = num_unknowns(p);
  P q = p;
  DceResult result;
  const auto keep = [&](const Jaxpr& program, int& num_consts, const Mask& used) {
    return prune_program(program, num_consts, used, result.used_in);
  };
  const auto whole = [](const Jaxpr& program) { return Mask(size(program.num_outputs()), true); };
  result.kept_out = used_out;
  for (std::size_t i = 0; i < n; ++i) result.kept_out[i] = true;
  q.matvec = keep(p.matvec, q.num_matvec_consts, whole(p.matvec));
  if (p.vecmat) q.vecmat = keep(*p.vecmat, q.num_vecmat_consts, whole(*p.vecmat));
  q.solve = keep(p.solve, q.num_solve_consts, result.kept_out);
  if (p.transpose_solve) {
    q.transpose_solve =
        keep(*p.transpose_solve, q.num_transpose_solve_consts, whole(*p.transpose_solve));
  }
  result.used_in.resize(result.used_in.size() + n, true);
  result.params = Params::of(q);
  return result;
}

}  // namespace
}  // namespace control_flow

const Primitive<CustomLinearSolveParams> custom_linear_solve_p{
    "custom_linear_solve", [] {
      using namespace control_flow;
      return Rules<CustomLinearSolveParams>{
          .impl = run,
          .abstract_eval = type_of,
          .jvp = differentiate,
          .transpose = transposed,
          .batch = vectorise,
          .dce = prune,
          .lower = ops<CustomLinearSolveParams>(run),
      };
    }};

namespace detail {
namespace {

using namespace control_flow;

// x -> A' x, traced.
ClosedJaxpr transpose_of(const ClosedJaxpr& matvec, const std::vector<Aval>& avals) {
  return traced(
      [&](std::span<const Array> cts) {
        Arrays inputs = matvec.consts;
        inputs.resize(matvec.consts.size() + avals.size());
        const std::vector<Tangent> given{cts.begin(), cts.end()};
        Arrays out;
        for (const Tangent& ct : backward_pass(matvec.jaxpr, inputs, given))
          out.push_back(ct.instantiate());
        return out;
      },
      avals, "custom_linear_solve, transpose of matvec");
}

// The results of `what` must start with the types of b.
void check_like_b(const char* what, std::span<const Aval> outs, std::span<const Aval> b) {
  if (const auto difference = unlike(outs, b))
    throw ValueError(std::string(what) + "() output shapes and dtypes must match b: " +
                     "custom_linear_solve got " + *difference);
}

}  // namespace

Arrays custom_linear_solve_arrays(const FlatFunction& matvec, const FlatSolve& solve,
                                  const FlatSolve* transpose_solve, bool symmetric,
                                  std::span<const Array> b) {
  if (!tracing_under_way()) {
    const auto check = [](auto outs, auto like) { check_like_b("matvec", outs, like); };
    Arrays x = solve(checked(matvec, b, check), b);
    check_like_b("solve", avals_of(x), avals_of(b));
    return x;
  }
  Arrays rhs(b.begin(), b.end());
  const ClosedJaxpr forward = traced_to_fixpoint(rhs, 0, [&](const std::vector<Aval>& types) {
    return traced(matvec, types, "custom_linear_solve, matvec");
  });
  check_like_b("matvec", forward.jaxpr.out_avals(), avals_of(rhs));
  std::vector<Aval> avals;
  for (const Aval& aval : avals_of(rhs)) avals.push_back(aval.strong());
  const auto solver = [&](const FlatSolve& f, const ClosedJaxpr& map, const char* what) {
    ClosedJaxpr program =
        traced([&](std::span<const Array> x) { return f(applied(map), x); }, avals, what);
    check_like_b(what, program.jaxpr.out_avals(), avals);
    return program;
  };
  const ClosedJaxpr solution = solver(solve, forward, "solve");
  CustomLinearSolveParams p{.matvec = remembered(forward.jaxpr),
                            .vecmat = {},
                            .solve = remembered(solution.jaxpr),
                            .transpose_solve = {}};
  p.num_matvec_consts = forward.num_consts();
  p.num_solve_consts = solution.num_consts();
  ClosedJaxpr backward, back_solution;
  if (transpose_solve || symmetric) {
    backward = symmetric ? forward : transpose_of(forward, avals);
    back_solution =
        transpose_solve ? solver(*transpose_solve, backward, "transpose_solve") : solution;
    p.vecmat = remembered(backward.jaxpr);
    p.transpose_solve = remembered(back_solution.jaxpr);
    p.num_vecmat_consts = backward.num_consts();
    p.num_transpose_solve_consts = back_solution.num_consts();
  }
  Arrays operands = forward.consts;
  for (const Arrays& part : {backward.consts, solution.consts, back_solution.consts, rhs})
    append(operands, part);
  return custom_linear_solve_p.bind(p, operands);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
