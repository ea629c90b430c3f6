// Newton's method, bisection and fixed-point iteration as solvers of custom_root.
#include "telamon/root.hpp"

#include <algorithm>
#include <cmath>

#include "solvers/linear.hpp"
#include "solvers/vectors.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/jvp.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using namespace solvers;

// ---- linear systems of the derivatives ---------------------------------------------------------

// Two equations: the columns are g(e1) and g(e2); Cramer's rule.
Arrays solve_two(const FlatFunction& g, const Arrays& y) {
  const Array rhs = ravel(y);
  const auto column = [&](int i) { return ravel(g(unravel(asarray(eye(2)(i), rhs.dtype()), y))); };
  const Array a = column(0), b = column(1);
  const Array det = a(0) * b(1) - b(0) * a(1);
  const Array x0 = (rhs(0) * b(1) - b(0) * rhs(1)) / det;
  const Array x1 = (a(0) * rhs(1) - rhs(0) * a(1)) / det;
  return unravel(stack({x0, x1}), y);
}

// Whether x, found with this info, is of no use.
using Useless = Array (*)(const Arrays& x, const Array& info);

// g(x) = y, NaN where that is of no use. The iterative method works to nearly the precision of the
// dtype: Newton's method converges as fast as its systems are solved.
Arrays solve_linear(const FlatFunction& g, std::span<const Array> rhs, Useless useless) {
  const Arrays y = list(rhs);
  const std::int64_t n = num_elements(y);
  if (n == 1) {
    const Array one = ravel(g(unravel(asarray(ones({1}), y[0].dtype()), y)));
    return unravel(ravel(y) / one, y);
  }
  if (n == 2) return solve_two(g, y);
  Arrays x = run_bicgstab(g, y, solvers::zeros_like(y), {64 * precision(y), 0, {}, {}, {}});
  const Array info = x.back();
  x.pop_back();
  const Array nothing = useless(x, info);
  for (Array& leaf : x) leaf = where(nothing, NAN, leaf);
  return x;
}

// A step may fall short, since others follow. But one of 0 would look like an arrival.
Arrays solve_step(const FlatFunction& g, std::span<const Array> rhs) {
  return solve_linear(g, rhs, [](const Arrays& x, const Array& info) {
    return logical_and(info < 0, largest(x) == 0);
  });
}

// A derivative may not, since nobody is told its info.
Arrays solve_derivative(const FlatFunction& g, std::span<const Array> rhs) {
  return solve_linear(g, rhs, [](const Arrays&, const Array& info) { return info < 0; });
}

// The derivative's system by any solver: never differentiated itself.
FlatSolve implicit(const FlatSolve& solve) {
  return [solve](const FlatFunction& g, std::span<const Array> y) {
    return custom_linear_solve_arrays(g, solve, &solve, false, y);
  };
}

// ---- iterations --------------------------------------------------------------------------------

struct IterationState {
  std::vector<Array> x;
  Array step, k;  // the last step, relative to 1 + |x|
};

// x = next(x) until a step is at most tol. Leaves of x, then info.
Arrays iterate(const Function<Arrays(const Arrays&)>& next, std::span<const Array> x0, double tol,
               const Array& most) {
  const Arrays first = list(x0);
  const DType dtype = largest(first).dtype();
  const IterationState end =
      while_loop([&](const IterationState& s) { return logical_and(s.step > tol, s.k < most); },
                 [&](const IterationState& s) {
                   IterationState n;
                   n.x = next(s.x);
                   n.step = asarray(largest(subtract(n.x, s.x)) / (1.0 + largest(n.x)), dtype);
                   n.k = s.k + 1;
                   return n;
                 },
                 IterationState{first, asarray(INFINITY, dtype), counter(0)});
  Arrays out = end.x;
  out.push_back(where(end.step <= tol, counter(0), failed_after(end.k)));
  return out;
}

// The place between two: neither a sum nor a difference overflows.
Array middle_of(const Array& low, const Array& high) {
  const Array on_both_sides = (low < 0) != (high < 0);
  return where(on_both_sides, 0.5 * (low + high), low + 0.5 * (high - low));
}

// The unknowns; numbers among them take the dtypes that f gives back.
Arrays unknowns(const char* name, const FlatFunction& f, std::span<const Array> x0,
                const char* name_of_x0 = "x0") {
  if (x0.empty()) throw ValueError(std::string(name) + ": x0 holds no arrays");
  Arrays x = list(x0);
  if (std::any_of(x.begin(), x.end(), [](const Array& a) { return a.weak_type(); })) {
    const std::vector<Aval> y = stage_arrays(f, x, name).jaxpr.out_avals();
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i].weak_type() && i < y.size()) x[i] = asarray(x[i], y[i].dtype);
  }
  for (const Array& a : x) {
    if (!is_float(a.dtype()))
      throw TypeError(std::string(name) + ": the unknowns must be floats, but " + name_of_x0 +
                      " holds " + a.aval().to_string());
  }
  return x;
}

}  // namespace

Arrays newton_arrays(const FlatFunction& given, std::span<const Array> x0,
                     const FlatRootOptions& options) {
  check_limits("newton", options.tol.value_or(0), options.maxiter);
  const Arrays guess = unknowns("newton", given, x0);
  const FlatFunction f = fitting(given, guess, "newton", "f", "x0");
  const FlatSolve given_solve = [&](const FlatFunction& g, std::span<const Array> y) {
    const FlatFunction solution = [&](std::span<const Array> rhs) {
      return options.linear_solve(g, rhs);
    };
    return fitting(solution, guess, "newton", "linear_solve", "x0")(y);
  };
  const FlatSolve step = options.linear_solve ? given_solve : FlatSolve(solve_step);
  const FlatSolve derivative = options.linear_solve ? given_solve : FlatSolve(solve_derivative);
  const FlatSolve solve = [&](const FlatFunction& function, std::span<const Array> start) {
    const double tol = options.tol.value_or(std::sqrt(precision(list(start))));
    const auto next = [&](const Arrays& x) {
      const LinearizedArrays at = linearize_arrays(function, x, "newton");
      const Arrays steps =
          step([&](std::span<const Array> dx) { return at.map.apply(dx); }, at.primals);
      // At a root f' may be zero, too.
      const Array arrived = largest(at.primals) == 0;
      Arrays moved = subtract(x, steps);
      for (std::size_t i = 0; i < x.size(); ++i) moved[i] = where(arrived, x[i], moved[i]);
      return moved;
    };
    return iterate(next, start, tol, counter(options.maxiter));
  };
  return custom_root_arrays(f, solve, implicit(derivative), guess);
}

Arrays fixed_point_arrays(const FlatFunction& given, std::span<const Array> x0,
                          const FlatRootOptions& options) {
  check_limits("fixed_point", options.tol.value_or(0), options.maxiter);
  const Arrays guess = unknowns("fixed_point", given, x0);
  const FlatFunction f = fitting(given, guess, "fixed_point", "f", "x0");
  const auto tolerance = [&](std::span<const Array> x) {
    return options.tol.value_or(16 * precision(list(x)));
  };
  const FlatFunction residual = [&](std::span<const Array> x) { return subtract(f(x), list(x)); };
  const FlatSolve solve = [&](const FlatFunction&, std::span<const Array> start) {
    return iterate([&](const Arrays& x) { return f(x); }, start, tolerance(start),
                   counter(options.maxiter));
  };
  // (f' - 1) dx = y: dx = f' dx - y is a fixed point again, of the same rate; so is the transpose.
  const FlatSolve linear = [&](const FlatFunction& g, std::span<const Array> y) {
    const Arrays rhs = list(y);
    Arrays x = iterate([&](const Arrays& dx) { return subtract(add(g(dx), dx), rhs); },
                       solvers::zeros_like(rhs), tolerance(y), counter(options.maxiter));
    x.pop_back();
    return x;
  };
  return custom_root_arrays(residual, solve, implicit(linear), guess);
}

namespace {

struct BisectionState {
  Array low, high, k;
};

}  // namespace

Arrays bisection_arrays(const FlatFunction& given, const Array& low, const Array& high,
                        const FlatRootOptions& options) {
  check_limits("bisection", options.tol.value_or(0), options.maxiter);
  const Arrays both = broadcast_arrays({low, high});
  const Array left = unknowns("bisection", given, std::span(both).first(1), "the bracket")[0];
  const Arrays ends{left, asarray(both[1], left.dtype())};
  const FlatFunction f = fitting(given, Arrays{left}, "bisection", "f", "the bracket");
  const double tol = options.tol.value_or(4 * precision(ends));
  const FlatSolve solve = [&](const FlatFunction& function, std::span<const Array>) {
    const auto value = [&](const Array& x) { return function(Arrays{x})[0]; };
    const Array at_low = value(ends[0]), at_high = value(ends[1]);
    // Halves of what is infinite are no finite places.
    const Array finite = logical_and(isfinite(ends[0]), isfinite(ends[1]));
    const Array brackets = logical_and(at_low * sign(at_high) <= 0, finite);
    const auto wide = [&](const Array& a, const Array& b) {
      return abs(b - a) > tol * maximum(abs(a), abs(b));
    };
    const BisectionState end = while_loop(
        [&](const BisectionState& s) {
          return logical_and(any(wide(s.low, s.high)), s.k < counter(options.maxiter));
        },
        [&](const BisectionState& s) {
          const Array middle = middle_of(s.low, s.high);
          const Array at_middle = value(middle);
          const Array inside = at_middle * sign(at_low) > 0;  // of the sign at the left end
          // NaN has no sign: neither half is known to hold the root. The bracket becomes NaN, too.
          const Array lost = logical_and(isnan(at_middle), wide(s.low, s.high));
          const auto known = [&](const Array& end) { return where(lost, NAN, end); };
          return BisectionState{known(where(inside, middle, s.low)),
                                known(where(inside, s.high, middle)), s.k + 1};
        },
        // A root at an end is the bracket.
        BisectionState{where(logical_and(at_high == 0, at_low != 0), ends[1], ends[0]),
                       where(at_low == 0, ends[0], ends[1]), counter(0)});
    const Array x = middle_of(end.low, end.high);
    const Array missed = logical_or(wide(end.low, end.high), isnan(x));
    const Array info =
        where(all(brackets), where(any(missed), failed_after(end.k), counter(0)), counter(-1));
    return Arrays{where(brackets, x, asarray(NAN, x.dtype())), info};
  };
  // The derivative is diagonal: every element is an equation of its own.
  const FlatSolve divide = [](const FlatFunction& g, std::span<const Array> y) {
    return Arrays{y[0] / g(Arrays{telamon::ones_like(y[0])})[0]};
  };
  return custom_root_arrays(f, solve, divide, Arrays{ends[0]});
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
