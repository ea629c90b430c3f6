// custom_root: a root of a function, whose derivative is that of the implicit function and never of
// the iteration that finds it. F(m, x(m)) = 0 gives
//   dF/dm dm + dF/dx dx = 0      dx = -(dF/dx)^-1 (dF/dm dm)
#include "control_flow/solves.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

using P = CustomRootParams;

/// The operands by what they are for.
template <class T>
struct Operands {
  std::vector<T> f, solve, tangent_solve, guess;
  template <class All>
  Operands(const P& p, const All& all) {
    auto from = all.begin();
    const auto take = [&](int n) {
      const auto begin = from;
      return std::vector<T>(begin, from += n);
    };
    f = take(p.num_f_consts);
    solve = take(p.num_solve_consts);
    tangent_solve = take(p.num_tangent_solve_consts);
    guess.assign(from, all.end());
  }
};

// The unknowns: the solution may have auxiliary results behind it.
std::size_t num_unknowns(const P& p) { return size(p.f.num_outputs()); }

Arrays run(const P& p, std::span<const Array> args) {
  const Operands<Array> x(p, args);
  return eval_jaxpr(p.solve, followed_by(x.solve, x.guess));
}

AbstractResult type_of(const P& p, std::span<const Aval> in) {
  const auto x = p.f.out_avals();
  std::vector<Aval> expected;
  const auto check = [&](const char* name, const Jaxpr& program, int num_consts, bool twice,
                         bool more) {
    const std::vector<Aval> outs = program.out_avals();
    const std::size_t takes = x.size() * (twice ? 2 : 1);
    bool fits = num_consts >= 0 && size(program.num_inputs()) == size(num_consts) + takes &&
                (more ? outs.size() >= x.size() : outs.size() == x.size());
    if (fits) {
      auto rest = program.in_avals().subspan(size(num_consts));
      for (; fits && !rest.empty(); rest = rest.subspan(x.size()))
        fits = detail::same_types(rest.first(x.size()), x);
      fits = fits && detail::same_types(std::span(outs).first(x.size()), x);
    }
    if (!fits) {
      bad_jaxpr("custom_root", std::string(name) + " of type " + avals_text(program.in_avals()) +
                                   " -> " + avals_text(outs) + " does not fit f, which gives " +
                                   avals_text(x));
    }
    const auto consts = program.in_avals().first(size(num_consts));
    expected.insert(expected.end(), consts.begin(), consts.end());
  };
  check("f", p.f, p.num_f_consts, false, false);
  check("solve", p.solve, p.num_solve_consts, false, true);
  check("tangent_solve", p.tangent_solve, p.num_tangent_solve_consts, true, false);
  append(expected, x);
  check_operands("custom_root", in, expected);
  return {p.solve.out_avals(), p.solve.effect()};
}

// Neither the initial guess nor what the solver captured has any influence on the root.
JvpResult differentiate(const P& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const Operands<Array> at(p, primals);
  const Operands<Tangent> along(p, tangents);
  const std::size_t n = num_unknowns(p);
  JvpResult result{custom_root_p.bind(p, primals), {}};
  for (const Array& y : result.primals) result.tangents.emplace_back(Zero{y.aval().tangent()});
  const Arrays x = taken(result.primals, counting(0, n));
  std::vector<Tangent> moving = along.f;
  for (const Array& xi : x) moving.emplace_back(Zero{xi.aval().tangent()});
  const JvpResult moved = detail::jvp_flat(
      [&](std::span<const Array> a) { return eval_jaxpr(p.f, a); }, followed_by(at.f, x), moving);
  bool any = false;
  Arrays args = followed_by(at.tangent_solve, x);
  for (const Tangent& t : moved.tangents) {
    any = any || !t.is_zero();
    args.push_back(t.instantiate());
  }
  if (!any) return result;
  const Arrays dx = eval_jaxpr(p.tangent_solve, args);
  for (std::size_t i = 0; i < n; ++i) result.tangents[i] = neg_p.bind1({}, {dx[i]});
  return result;
}

// Tangent programs hold tangent_solve.
std::vector<Tangent> refuse_transpose(const P&, std::span<const Tangent>,
                                      std::span<const LinearInput>) {
  throw TypeError("custom_root cannot be transposed: a root is not linear in any operand");
}

// All of x is mapped as soon as anything is.
BatchResult vectorise(const P& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const Operands<BatchAxis> given(p, axes);
  const std::vector<BatchAxis> x(num_unknowns(p), 0);
  const auto mapped = [&](const Jaxpr& program, const std::vector<BatchAxis>& in) {
    return detail::batch_jaxpr(program, axis, in, Mask(size(program.num_outputs()), true))->jaxpr;
  };
  P q = p;
  q.f = mapped(p.f, followed_by(given.f, x));
  q.solve = mapped(p.solve, followed_by(given.solve, x));
  q.tangent_solve = mapped(p.tangent_solve, followed_by(followed_by(given.tangent_solve, x), x));
  Arrays operands(args.begin(), args.end());
  for (std::size_t i = operands.size() - x.size(); i < operands.size(); ++i)
    operands[i] = detail::batch_at_front(operands[i], axes[i], axis.size);
  Arrays outs = custom_root_p.bind(q, operands);
  const std::size_t num_out = outs.size();
  return {std::move(outs), std::vector<BatchAxis>(num_out, 0)};
}

// The root is needed whole. Auxiliary results and consts that nobody reads are dropped.
DceResult prune(const P& p, const Mask& used_out) {
  const std::size_t n = num_unknowns(p);
  P q = p;
  DceResult result;
  const auto keep = [&](const Jaxpr& program, int& num_consts, const Mask& used) {
    return prune_program(program, num_consts, used, result.used_in);
  };
  result.kept_out = used_out;
  for (std::size_t i = 0; i < n; ++i) result.kept_out[i] = true;
  q.f = keep(p.f, q.num_f_consts, Mask(n, true));
  q.solve = keep(p.solve, q.num_solve_consts, result.kept_out);
  q.tangent_solve = keep(p.tangent_solve, q.num_tangent_solve_consts, Mask(n, true));
  result.used_in.resize(result.used_in.size() + n, true);
  result.params = Params::of(q);
  return result;
}

}  // namespace
}  // namespace control_flow

const Primitive<CustomRootParams> custom_root_p{"custom_root", [] {
                                                  using namespace control_flow;
                                                  return Rules<CustomRootParams>{
                                                      .impl = run,
                                                      .abstract_eval = type_of,
                                                      .jvp = differentiate,
                                                      .transpose = refuse_transpose,
                                                      .batch = vectorise,
                                                      .dce = prune,
                                                      .lower = ops<CustomRootParams>(run),
                                                  };
                                                }};

namespace detail {
namespace {

using namespace control_flow;

void check_like_x(const char* what, std::span<const Aval> outs, std::span<const Aval> x) {
  if (const auto difference = unlike(outs, x))
    throw TypeError(std::string(what) + "() output shapes and dtypes must match initial_guess: " +
                    "custom_root got " + *difference);
}

// The linearized function applied to a tangent of the given type.
Arrays pushed(const Linearized& at, std::span<const Array> dx, const std::vector<Aval>& avals) {
  Arrays tangents(dx.begin(), dx.end());
  adapt_weak(tangents, avals);
  Arrays args = at.consts;
  append(args, tangents);
  const Arrays outs = eval_jaxpr(at.jaxpr, args);
  Arrays result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < avals.size(); ++i)
    result.push_back(at.nonzero_out[i] ? outs[next++] : zeros_of(avals[i]));
  return result;
}

}  // namespace

Arrays custom_root_arrays(const FlatFunction& f, const FlatSolve& solve,
                          const FlatSolve& tangent_solve, std::span<const Array> guess) {
  if (!tracing_under_way()) {
    const auto check = [](auto outs, auto like) { check_like_x("f", outs, like); };
    Arrays x = solve(checked(f, guess, check), guess);
    check_like_x("solve", avals_of(x), avals_of(guess));
    return x;
  }
  Arrays start(guess.begin(), guess.end());
  const ClosedJaxpr function = traced_to_fixpoint(
      start, 0, [&](const std::vector<Aval>& types) { return traced(f, types, "custom_root, f"); });
  check_like_x("f", function.jaxpr.out_avals(), avals_of(start));
  std::vector<Aval> avals;
  for (const Aval& aval : avals_of(start)) {
    if (!is_inexact(aval.dtype))
      throw TypeError("custom_root: the unknowns must be floats, but initial_guess holds " +
                      aval.to_string());
    avals.push_back(aval.strong());
  }
  const FlatFunction call = applied(function);
  const ClosedJaxpr solution =
      traced([&](std::span<const Array> x) { return solve(call, x); }, avals, "custom_root, solve");
  check_like_x("solve", solution.jaxpr.out_avals(), avals);
  std::vector<Aval> twice = avals;
  append(twice, avals);
  const ClosedJaxpr tangents = traced(
      [&](std::span<const Array> xy) {
        const Linearized at = linearize_flat(call, xy.first(avals.size()), "custom_root");
        return tangent_solve([&](std::span<const Array> dx) { return pushed(at, dx, avals); },
                             xy.subspan(avals.size()));
      },
      twice, "custom_root, tangent_solve");
  check_like_x("tangent_solve", tangents.jaxpr.out_avals(), avals);
  CustomRootParams p{.f = remembered(function.jaxpr),
                     .solve = remembered(solution.jaxpr),
                     .tangent_solve = remembered(tangents.jaxpr)};
  p.num_f_consts = function.num_consts();
  p.num_solve_consts = solution.num_consts();
  p.num_tangent_solve_consts = tangents.num_consts();
  Arrays operands = function.consts;
  for (const Arrays& part : {solution.consts, tangents.consts, start}) append(operands, part);
  return custom_root_p.bind(p, operands);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
