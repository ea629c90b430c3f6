// Roots and fixed points, with the derivatives of the implicit function: what f captures may be
// differentiated, and no iteration is.
//
//   Array root = tl::root::newton([&](Array x) { return x * x - a; }, 1.0).x;
//   Array root = tl::root::bisection([&](Array x) { return tl::cos(x) - a * x; }, 0.0, 2.0).x;
//   Array z    = tl::root::fixed_point([&](Array z) { return tl::tanh(tl::matmul(w, z) + x); }, x).x;
//
// All of it may be jitted and mapped; derivatives of any order exist, in both modes.
#pragma once

#include <cstdint>
#include <optional>

#include "telamon/custom_linear_solve.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace root {

template <class T>
struct Solution {
  T x;
  /// i32: 0, or iterations done without convergence (1 if none was allowed), or -1: no change of sign
  /// between two finite places
  Array info;
};

struct FixedPointOptions {
  /// Converged is a step of at most tol (1 + |x|), in the largest element. 16 times the precision of
  /// the dtype if not given.
  std::optional<double> tol = {};
  std::int64_t maxiter = 1000;
};

template <class T>
struct NewtonOptions {
  /// Converged is a step of at most tol (1 + |x|), in the largest element. The square root of the
  /// precision of the dtype if not given: the error after such a step is about its square.
  std::optional<double> tol = {};
  std::int64_t maxiter = 50;
  /// (g, y) -> x with g(x) = y, where g is linear, the derivative of f or its transpose. If not
  /// given: a division for one unknown, Cramer's rule for two, else bicgstab.
  std::function<T(const MapOf<T>& g, const T& y)> linear_solve = {};
};

struct BisectionOptions {
  /// Converged is a bracket of at most tol |x|. 4 times the precision of the dtype if not given.
  std::optional<double> tol = {};
  std::int64_t maxiter = 200;
};

}  // namespace root

namespace detail {

struct FlatRootOptions {
  std::optional<double> tol;
  std::int64_t maxiter;
  FlatSolve linear_solve;  // null: the default
};
/// Leaves of the solution, then info.
TELAMON_API Arrays newton_arrays(const FlatFunction& f, std::span<const Array> x0,
                                 const FlatRootOptions& options);
TELAMON_API Arrays fixed_point_arrays(const FlatFunction& f, std::span<const Array> x0,
                                      const FlatRootOptions& options);
TELAMON_API Arrays bisection_arrays(const FlatFunction& f, const Array& low, const Array& high,
                                    const FlatRootOptions& options);

}  // namespace detail

namespace root {

/// A root of f near x0 by Newton's method: x -= f'(x)^-1 f(x). f takes a tree of floats and gives one
/// of the same type, as many equations as unknowns. One unknown per problem: use vmap for many.
template <class F, class X>
auto newton(F f, const X& x0,
            const NewtonOptions<std::tuple_element_t<0, bound_arguments<F, X>>>& options = {},
            SourceLocation where = SourceLocation::current()) {
  return detail::in_call("newton", where, [&] {
    using T = std::tuple_element_t<0, bound_arguments<F, X>>;
    const T start = std::get<0>(bind_args<F>(x0));
    Arrays leaves;
    detail::flatten_into(start, leaves, "newton", "x0");
    const T prototype = detail::without_leaves(start);
    const auto function = detail::endomorphism<T>(f, prototype, "newton: f and x0");
    detail::FlatRootOptions flat{options.tol, options.maxiter, {}};
    using Solve = std::remove_const_t<decltype(options.linear_solve)>;
    Solve given = options.linear_solve;
    detail::SolverCall<T, Solve> solver(given, prototype, "newton: linear_solve and x0");
    if (given) flat.linear_solve = solver.flat();
    const Arrays outs = detail::newton_arrays(function, leaves, flat);
    return Solution<T>{detail::with_leaves(prototype, outs), outs.back()};
  });
}

/// x = f(x), by repeating x = f(x) from x0: f must be a contraction near x, any tree of floats to one
/// of the same type. So is then the derivative's system, which is solved in the same way.
template <class F, class X>
auto fixed_point(F f, const X& x0, const FixedPointOptions& options = {},
                 SourceLocation where = SourceLocation::current()) {
  return detail::in_call("fixed_point", where, [&] {
    using T = std::tuple_element_t<0, bound_arguments<F, X>>;
    const T start = std::get<0>(bind_args<F>(x0));
    Arrays leaves;
    detail::flatten_into(start, leaves, "fixed_point", "x0");
    const T prototype = detail::without_leaves(start);
    const auto function = detail::endomorphism<T>(f, prototype, "fixed_point: f and x0");
    const Arrays outs =
        detail::fixed_point_arrays(function, leaves, {options.tol, options.maxiter, {}});
    return Solution<T>{detail::with_leaves(prototype, outs), outs.back()};
  });
}

/// A root of f between low and high, where f has different signs, by halving the bracket. Arrays hold
/// one problem per element: then f works element by element. x is NaN where the signs do not differ, an
/// end is not finite, or f gave NaN in between.
template <class F>
Solution<Array> bisection(F f, const Operand& low, const Operand& high,
                          const BisectionOptions& options = {}) {
  return detail::in_call("bisection", low.where, [&]() -> Solution<Array> {
    detail::check_no_empty_leaf(low.array, "bisection", "low");
    detail::check_no_empty_leaf(high.array, "bisection", "high");
    const Array prototype;
    const auto function = detail::endomorphism<Array>(f, prototype, "bisection: f and its bracket");
    const Arrays outs = detail::bisection_arrays(function, low.array, high.array,
                                                 {options.tol, options.maxiter, {}});
    return {outs[0], outs[1]};
  });
}

}  // namespace root
}  // namespace v1
}  // namespace telamon
