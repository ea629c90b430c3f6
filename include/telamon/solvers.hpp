// cg and bicgstab: linear systems A x = b that are known by what they do to a vector. Vectors are
// any trees of float arrays.
//
//   auto [x, info] = tl::cg([&](Array v) { return tl::matmul(a, v); }, b, {.tol = 1e-10});
//   auto y = tl::bicgstab(stencil, field, {.maxiter = 200, .x0 = guess, .M = jacobi}).x;
//
// They may be jitted, mapped and differentiated: derivatives are those of the system (see custom_linear_solve.hpp),
// solved by the same method: right where both solutions converged, NaN where its info of their system is negative.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "telamon/custom_linear_solve.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {

template <class T>
struct LinearSolverOptions {
  /// Converged is a residual b - A x of norm at most max(tol |b|, atol).
  double tol = 1e-5, atol = 0;
  std::optional<std::int64_t> maxiter = {};  ///< iterations; ten for each unknown if not given
  std::optional<T> x0 = {};                  ///< where to start; zeros if not given
  MapOf<T> M = {};                           ///< preconditioner: about the inverse of A
};

template <class T>
struct LinearSolution {
  T x;
  /// i32: 0, or iterations done without convergence (1 if none was allowed), or -1: the residual's square is not
  /// finite, or of bicgstab -10, -11 for a breakdown, as SciPy has them: it stopped before a division by
  /// zero. Where info is negative, x is NaN.
  Array info;
};

namespace detail {

struct FlatSolverOptions {
  double tol, atol;
  std::optional<std::int64_t> maxiter;
  Arrays x0;       // empty: zeros
  FlatFunction M;  // null: the identity
};
/// Leaves of the solution, then info.
TELAMON_API Arrays cg_arrays(const FlatFunction& A, std::span<const Array> b,
                             const FlatSolverOptions& options);
TELAMON_API Arrays bicgstab_arrays(const FlatFunction& A, std::span<const Array> b,
                                   const FlatSolverOptions& options);

/// The type of the unknowns: what A takes, or an Array if A is a matrix.
template <class A, class B>
struct Unknowns {
  using type = std::tuple_element_t<0, bound_arguments<A, B>>;
};
template <class A, class B>
  requires std::is_convertible_v<A, Array>
struct Unknowns<A, B> {
  using type = Array;
};
template <class A, class B>
using unknowns_of = typename Unknowns<A, B>::type;

template <class T, class A>
LinearSolution<T> solve_flat(decltype(cg_arrays)& method, const char* name, A& a, const T& b,
                             const LinearSolverOptions<T>& options) {
  FlatSolverOptions flat{options.tol, options.atol, options.maxiter, {}, {}};
  Arrays leaves;
  flatten_into(b, leaves, name, "b");
  const T prototype = without_leaves(b);
  if (options.x0) {
    check_same_structure("x0 and b", prototype, *options.x0);
    flatten_into(*options.x0, flat.x0, name, "x0");
  }
  if (options.M) flat.M = endomorphism<T>(options.M, prototype, std::string(name) + ": M and b");
  const Arrays outs = [&] {
    if constexpr (std::is_convertible_v<A, Array>) {
      const Array& matrix = a;
      check_no_empty_leaf(matrix, name, "A");
      if (matrix.ndim() != 2 || matrix.shape(0) != matrix.shape(1)) {
        throw ValueError(std::string(name) +
                         ": linear operator must be a square matrix, but has shape: " +
                         matrix.shape().to_string());
      }
      const Shape& rows = leaves[0].shape();
      if (rows.empty() || rows[rows.size() - (rows.size() > 1 ? 2 : 1)] != matrix.shape(0)) {
        throw ValueError(std::string(name) + ": A has shape " + matrix.shape().to_string() +
                         ", but b, whose rows it is for, has " + rows.to_string());
      }
      return method([&](std::span<const Array> x) { return Arrays{matmul(matrix, x[0])}; }, leaves,
                    flat);
    } else {
      return method(endomorphism<T>(a, prototype, std::string(name) + ": A and b"), leaves, flat);
    }
  }();
  return {with_leaves(prototype, outs), outs.back()};
}

}  // namespace detail

/// Solves A x = b by conjugate gradients; A is symmetric positive definite: a function from a tree to
/// one of the same type, or a square matrix. ValueError where x0 or A(b) are not like b, or a
/// limit is negative. That A is linear and symmetric is not checked, as in JAX: where it is not, x solves
/// nothing, or info says that it did not converge. Of v -> L v + c take c to the other side of the equation.
template <class A, class B>
auto cg(A a, const B& b, const LinearSolverOptions<detail::unknowns_of<A, B>>& options = {},
        SourceLocation where = SourceLocation::current()) {
  return detail::in_call("cg", where, [&] {
    return detail::solve_flat<detail::unknowns_of<A, B>>(detail::cg_arrays, "cg", a, b, options);
  });
}

/// The same for any regular A, by the stabilised biconjugate gradient method. Reverse mode solves
/// the transposed system, so A must consist of functions that can be transposed.
template <class A, class B>
auto bicgstab(A a, const B& b, const LinearSolverOptions<detail::unknowns_of<A, B>>& options = {},
              SourceLocation where = SourceLocation::current()) {
  return detail::in_call("bicgstab", where, [&] {
    return detail::solve_flat<detail::unknowns_of<A, B>>(detail::bicgstab_arrays, "bicgstab", a, b,
                                                         options);
  });
}

}  // namespace v1
}  // namespace telamon
