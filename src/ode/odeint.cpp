// odeint: traces the field, checks it, and chooses method and gradient.
//
// The adjoint method (Pontryagin; Chen et al., "Neural Ordinary Differential Equations", 2018): with
// lambda(t) = dL/dy(t), for y' = f(y, t, p),
//   lambda' = -lambda df/dy,   dL/dp = integral of lambda df/dp,
// solved backwards from each requested time, where dL/dy(t_i) is added, to the one before, together
// with y itself. A requested time moves the solution by f.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/counted.hpp"
#include "core/trace.hpp"
#include "ode/runge_kutta.hpp"
#include "telamon/custom_vjp.hpp"
#include "telamon/jvp.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace ode {
namespace {

/// y' = f(y, t, args) that uses no traced value but its arguments.
using FieldOfArgs = detail::Function<Arrays(const Arrays& y, const Array& t, const Arrays& args)>;

/// The solution at times that increase or decrease: in s = t or s = -t they increase.
Solution solve(const FieldOfArgs& f, const Arrays& y0, const Array& ts, const Arrays& args,
               const Options& options) {
  const Array one = lax::full(Shape(), ts.dtype(), 1);
  const Array sign = where(ts(-1) < ts(0), -one, one);
  const Field field = [&](const Arrays& y, const Array& s) {
    const auto scaled = [&](const Array& slope) { return sign.astype(slope.dtype()) * slope; };
    return tree_map(scaled, f(y, sign * s, args));
  };
  const Array times = sign * ts;
  return options.method == Method::rk4 ? solve_rk4(field, y0, times, options)
                                       : solve_dopri5(field, y0, times, options);
}

bool is_differentiable(const Array& x) { return is_inexact(x.dtype()); }

Solution solve_with_adjoint(const FieldOfArgs& f, const Arrays& y0, const Array& ts,
                            const Arrays& args, const Options& options);

/// What the backward pass integrates.
struct Adjoint {
  Arrays y, lambda, args;  // args: dL/dargs of those that are differentiable
};

/// The field of the adjoint equation, as a field of flat leaves.
FieldOfArgs adjoint_field(const FieldOfArgs& f, const Adjoint& example) {
  return [f, example = detail::without_leaves(example)](const Arrays& leaves, const Array& t,
                                                        const Arrays& args) {
    const Adjoint z = tree_unflatten(example, leaves);
    const auto at_time = [&](const Arrays& y, const Arrays& p) {
      Arrays all = args;
      for (std::size_t i = 0, k = 0; i < all.size(); ++i)
        if (is_differentiable(all[i])) all[i] = p[k++];
      return f(y, t, all);
    };
    Arrays differentiable;
    std::copy_if(args.begin(), args.end(), std::back_inserter(differentiable), is_differentiable);
    const auto [slope, pullback] = vjp(at_time, z.y, differentiable);
    const auto [y_bar, args_bar] = pullback(z.lambda);
    const auto minus = [](const Array& x) { return -x; };
    return tree_leaves(Adjoint{slope, tree_map(minus, y_bar), tree_map(minus, args_bar)});
  };
}

Array inner_product(const Arrays& a, const Arrays& b, DType dtype) {
  Array total = lax::full(Shape(), dtype, 0);
  for (std::size_t i = 0; i < a.size(); ++i) total = total + sum(a[i] * b[i]).astype(dtype);
  return total;
}

Arrays rows(const Arrays& xs, const IndexItem& index) {
  return tree_map([&](const Array& x) { return x(index); }, xs);
}

struct Cotangents {
  Arrays y0;
  Array ts;
  Arrays args;
};

Cotangents adjoint_gradient(const FieldOfArgs& f, const Arrays& ys, const Array& ts,
                            const Arrays& args, const Arrays& ys_bar, const Options& options) {
  struct Row {
    Arrays y, y_bar;
    Array from, to;
  };
  struct Carry {
    Arrays lambda, args;
  };
  const auto zeros_of = [](const Array& x) { return zeros_like(x); };
  const Arrays y0 = rows(ys, 0);
  Carry start{tree_map(zeros_of, y0), {}};
  for (const Array& x : args)
    if (is_differentiable(x)) start.args.push_back(zeros_like(x));
  const FieldOfArgs field = adjoint_field(f, {y0, start.lambda, start.args});
  const auto add = [](const Array& a, const Array& b) { return a + b; };
  // From time `from`, where y_bar comes in, back to time `to`.
  const auto back = [&](const Carry& carry, const Row& row) {
    const Array time_bar = inner_product(row.y_bar, f(row.y, row.from, args), ts.dtype());
    const Adjoint at_from{row.y, tree_map(add, carry.lambda, row.y_bar), carry.args};
    const Solution way =
        solve_with_adjoint(field, tree_leaves(at_from), stack({row.from, row.to}), args, options);
    const Adjoint at_to = tree_unflatten(at_from, rows(way.ys, 1));
    return std::pair{Carry{at_to.lambda, at_to.args}, time_bar};
  };
  const Slice later = slice(1, none);
  const auto [end, times_bar] =
      scan(back, start, Row{rows(ys, later), rows(ys_bar, later), ts(later), ts(slice(none, -1))},
           {.reverse = true});
  const Array start_bar = -inner_product(end.lambda, f(y0, ts(0), args), ts.dtype());
  Arrays args_bar(args.size());  // empty: zero
  for (std::size_t i = 0, k = 0; i < args.size(); ++i)
    if (is_differentiable(args[i])) args_bar[i] = end.args[k++];
  return {tree_map(add, end.lambda, rows(ys_bar, 0)),
          concatenate({expand_dims(start_bar, 0), times_bar}), args_bar};
}

Solution solve_with_adjoint(const FieldOfArgs& f, const Arrays& y0, const Array& ts,
                            const Arrays& args, const Options& options) {
  const auto primal = [f, options](const Arrays& y, const Array& times, const Arrays& p) {
    return solve(f, y, times, p, options);
  };
  struct Residuals {
    Arrays ys;
    Array ts;
    Arrays args;
  };
  const auto forward = [primal](const Arrays& y, const Array& times, const Arrays& p) {
    const Solution solution = primal(y, times, p);
    return std::pair{solution, Residuals{solution.ys, times, p}};
  };
  const auto backward = [f, options](const Residuals& r, const Solution& ct) {
    const Cotangents c = adjoint_gradient(f, r.ys, r.ts, r.args, ct.ys, options);
    return std::tuple{c.y0, c.ts, c.args};
  };
  return custom_vjp(primal, forward, backward, {.name = "odeint"})(y0, ts, args);
}

void check_options(const Options& options) {
  const auto refuse = [](const std::string& what) { throw ValueError("odeint: " + what); };
  if (!(options.rtol >= 0) || !(options.atol >= 0) || options.rtol + options.atol == 0)
    refuse("rtol and atol must not be negative, nor both zero");
  if (options.max_steps < 1)
    refuse("max_steps must be positive, got " + std::to_string(options.max_steps));
  if (options.steps < 1) refuse("steps must be positive, got " + std::to_string(options.steps));
  if (options.method > Method::rk4)
    refuse("there is no method of number " + std::to_string(static_cast<int>(options.method)));
  if (options.gradient > Gradient::discrete)
    refuse("there is no gradient of number " + std::to_string(static_cast<int>(*options.gradient)));
}

Array checked_times(const Array& given) {
  if (given.ndim() != 1 || given.shape(0) == 0 ||
      !(is_float(given.dtype()) || is_integer(given.dtype())))
    throw TypeError(
        "odeint: the times must be a vector of real numbers, the time of y0 at least, got " +
        given.aval().to_string());
  const Array ts = is_float(given.dtype()) ? asarray(given) : given.astype(default_float());
  if (const auto known = detail::known_value(ts)) {
    const std::vector<double> t = known->to_vector<double>();
    if (!std::all_of(t.begin(), t.end(), [](double time) { return std::isfinite(time); }))
      throw ValueError("odeint: the times must be finite, got " + known->to_string());
    if (!std::is_sorted(t.begin(), t.end()) && !std::is_sorted(t.rbegin(), t.rend()))
      throw ValueError("odeint: the times must increase or decrease, got " + known->to_string());
  }
  return ts;
}

/// The derivative in the types of the state; TypeError when it does not fit.
Arrays checked_slope(const Arrays& slope, const Arrays& y, const TreeDef& state) {
  Arrays out = slope;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Aval &want = y[i].aval(), &got = slope[i].aval();
    const bool fits =
        got.shape == want.shape && (got.dtype == want.dtype || (got.weak_type && !want.weak_type));
    if (!fits) {
      throw TypeError("odeint: the derivative of " + state.leaf_paths()[i].to_string("y") + " is " +
                      got.to_string() + ", but the state is " + want.to_string() +
                      "; f(y, t, ...) must give the derivative in the state's shape and dtype");
    }
    if (got.weak_type) out[i] = out[i].astype(want.dtype);
  }
  return out;
}

/// ValueError when it is known that a time was not reached.
void check_outcomes(const Solution& solution, const Array& ts, const Options& options) {
  const auto known = detail::known_value(solution.outcomes);
  if (!known) return;
  const std::vector<int> outcomes = known->to_vector<int>();
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](int o) { return o != 0; });
  if (failed == outcomes.end()) return;
  const auto at = static_cast<std::int64_t>(failed - outcomes.begin());
  const auto time = [&](std::int64_t i) {
    const auto value = detail::known_value(ts(i));
    return value ? "t = " + value->to_string() : "time " + std::to_string(i);
  };
  const std::string way = " between " + time(at) + " and " + time(at + 1);
  if (*failed == static_cast<int>(Outcome::out_of_steps)) {
    throw ValueError("odeint: no end after " + detail::counted(options.max_steps, "step") + way +
                     ". Raise max_steps, loosen rtol and atol, or ask for times in between; a "
                     "stiff equation needs another method");
  }
  throw ValueError("odeint: the step became too small" + way +
                   ". The solution may have no finite value there, or f gives NaN");
}

}  // namespace
}  // namespace ode

namespace detail {

Arrays odeint_arrays(const TracedBody& f, const TreeDef& state, std::span<const Array> operands,
                     const ode::Options& options) {
  using namespace ode;
  check_options(options);
  const std::size_t n = state.num_leaves();
  Arrays y0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_float(operands[i].dtype())) {
      throw TypeError("odeint: the state must be of floating-point dtypes, but " +
                      state.leaf_paths()[i].to_string("y") + " is " +
                      operands[i].aval().to_string());
    }
    y0.push_back(asarray(operands[i]));
  }
  const Array ts = checked_times(operands[n]);

  Arrays example = y0;
  example.push_back(ts(0));
  example.insert(example.end(), operands.begin() + static_cast<std::ptrdiff_t>(n) + 1,
                 operands.end());
  const ClosedJaxpr program = stage_arrays(
      [&](std::span<const Array> leaves) {
        Arrays slope = f.f(leaves);
        const TreeDef given = f.structure();
        if (!(given == state))
          structures_differ("odeint: the derivative and the state", given, state);
        return checked_slope(slope, y0, state);
      },
      example, "odeint");

  // Traced values that f captured are arguments like the others.
  Arrays args(example.begin() + static_cast<std::ptrdiff_t>(n) + 1, example.end());
  const std::size_t num_args = args.size();
  Arrays consts = program.consts;
  std::vector<bool> is_argument;
  for (Array& c : consts) {
    is_argument.push_back(c.is_tracer());
    if (c.is_tracer()) args.push_back(std::exchange(c, Array()));
  }
  const FieldOfArgs field = [jaxpr = program.jaxpr, consts, is_argument, num_args](
                                const Arrays& y, const Array& t, const Arrays& given) {
    Arrays all = consts;
    for (std::size_t i = 0, k = num_args; i < all.size(); ++i)
      if (is_argument[i]) all[i] = given[k++];
    all.insert(all.end(), y.begin(), y.end());
    all.push_back(t);
    all.insert(all.end(), given.begin(), given.begin() + static_cast<std::ptrdiff_t>(num_args));
    return eval_jaxpr(jaxpr, all);
  };

  const Gradient gradient = options.gradient.value_or(
      options.method == Method::rk4 ? Gradient::discrete : Gradient::adjoint);
  Solution solution = gradient == Gradient::adjoint
                          ? solve_with_adjoint(field, y0, ts, args, options)
                          : solve(field, y0, ts, args, options);
  check_outcomes(solution, ts, options);
  return std::move(solution.ys);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
