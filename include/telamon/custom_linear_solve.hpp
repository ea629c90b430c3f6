// custom_linear_solve and custom_root: solutions of equations, with the derivatives that the
// equations imply. What solves them may be anything (an iteration until convergence, a loop without
// reverse mode): it is called, never differentiated.
//
//   auto solve = [](const auto& A, Array b) { return tl::cg(A, b).x; };
//   Array x = tl::custom_linear_solve([&](Array v) { return tl::matmul(a, v); }, b, solve,
//                                     {.symmetric = true});
//   Array r = tl::custom_root([&](Array x) { return x * x - a; }, a, newton,
//                             [](const auto& g, Array y) { return y / g(1.0); });
//
// Derivatives are with respect to what the functions capture and to b, to any order.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/solves.hpp"
#include "telamon/none.hpp"
#include "telamon/signature.hpp"

namespace telamon {
inline namespace v1 {

struct CustomLinearSolveOptions {
  bool symmetric =
      false;  ///< the map is its own transpose: `solve` solves the transposed system too
};

/// A map from a tree to one of the same structure, as solvers are given it: A in A x = b.
template <class T>
using MapOf = std::function<T(const T&)>;

namespace detail {

/// What a solver returns beside the solution.
template <class R, class T>
constexpr bool is_solution_with_aux = false;
template <class X, class Aux, class T>
constexpr bool is_solution_with_aux<std::pair<X, Aux>, T> =
    std::is_convertible_v<X, T> && !std::is_convertible_v<std::pair<X, Aux>, T>;

/// A solver of trees as one of leaves. Remembers the structure of what it returned.
template <class T, class Solve>
class SolverCall {
 public:
  using Returned = std::decay_t<std::invoke_result_t<Solve&, const MapOf<T>&, const T&>>;
  static constexpr bool has_aux = is_solution_with_aux<Returned, T>;
  static_assert(has_aux || std::is_convertible_v<Returned, T>,
                "a solver must return a solution of the type of its right-hand side, or "
                "std::pair{solution, aux}");
  static_assert(Pytree<Returned>, "the auxiliary data of a solver must be a pytree");

  SolverCall(Solve& solve, const T& b, std::string what)
      : solve_(solve), b_(b), what_(std::move(what)) {}
  FlatSolve flat() {
    if (is_null_function(solve_)) null_function_error();
    return [this](const FlatFunction& map, std::span<const Array> b) { return (*this)(map, b); };
  }
  Arrays operator()(const FlatFunction& map, std::span<const Array> b) {
    const MapOf<T> typed = [&](const T& x) {
      check_same_structure(what_, b_, x);
      Arrays leaves;
      flatten_into(x, leaves, what_);
      return with_leaves(b_, map(leaves));
    };
    Returned result = solve_(typed, with_leaves(b_, b));
    Arrays outs;
    if constexpr (has_aux) {
      check_same_structure(what_, b_, static_cast<const T&>(result.first));
    } else {
      const T& x = result;
      check_same_structure(what_, b_, x);
    }
    flatten_into(result, outs, what_);
    prototype_.emplace(without_leaves(std::move(result)));
    return outs;
  }
  Returned result(std::span<const Array> leaves) const { return with_leaves(*prototype_, leaves); }

 private:
  Solve& solve_;
  const T& b_;
  std::string what_;  // "newton: linear_solve and x0", for errors
  std::optional<Returned> prototype_;
};

/// A function from a tree to one of the same structure, as one of leaves. `what`, for errors: "cg: A and b".
template <class T, class F>
FlatFunction endomorphism(F& f, const T& prototype, std::string what) {
  constexpr bool fits = std::is_convertible_v<decltype(f(std::declval<T>())), T>;
  static_assert(fits,
                "a solver's function of the unknowns (f, A, M, matvec) must return what it takes: "
                "as many values as there are unknowns, in a tree of their type");
  if (is_null_function(f)) null_function_error();
  if constexpr (!fits) return {};
  else
    return [&f, &prototype, what = std::move(what)](std::span<const Array> leaves) {
      const T y = f(with_leaves(prototype, leaves));
      check_same_structure(what, prototype, y);
      Arrays leaves_of_y;
      flatten_into(y, leaves_of_y, what);
      return leaves_of_y;
    };
}

}  // namespace detail

/// The solution x = solve(matvec, b) of matvec(x) = b, any tree, with the derivatives of that linear
/// system: dx = solve(db - d(matvec)(x)). The invariant is not checked.
///   matvec            linear and differentiable; x, b and matvec(x) are of one type
///   solve             (matvec, b) -> x, or std::pair{x, aux}
///   transpose_solve   (vecmat, b) -> x for the transposed system, whose map vecmat is derived; for
///                     reverse mode. Not needed with `.symmetric`
/// TypeError in reverse mode without a transpose_solve; ValueError where shapes or dtypes differ.
template <class MatVec, class B, class Solve, class TransposeSolve>
auto custom_linear_solve(MatVec matvec, const B& b, Solve solve, TransposeSolve transpose_solve,
                         CustomLinearSolveOptions options = {},
                         SourceLocation where = SourceLocation::current()) {
  return detail::in_call("custom_linear_solve", where, [&] {
    using T = std::tuple_element_t<0, bound_arguments<MatVec, B>>;
    constexpr bool transposable = !std::is_same_v<TransposeSolve, std::nullopt_t>;
    const T rhs = std::get<0>(bind_args<MatVec>(b));
    Arrays leaves;
    detail::flatten_into(rhs, leaves, "custom_linear_solve", "b");
    const auto prototype = detail::without_leaves(rhs);
    const auto map =
        detail::endomorphism<T>(matvec, prototype, "custom_linear_solve: matvec and b");
    detail::SolverCall<T, Solve> forward(solve, prototype, "custom_linear_solve: solve and b");
    const detail::FlatSolve flat = forward.flat();
    if constexpr (transposable) {
      detail::SolverCall<T, TransposeSolve> backward(transpose_solve, prototype,
                                                     "custom_linear_solve: transpose_solve and b");
      const detail::FlatSolve flat_back = backward.flat();
      return forward.result(
          detail::custom_linear_solve_arrays(map, flat, &flat_back, options.symmetric, leaves));
    } else {
      return forward.result(
          detail::custom_linear_solve_arrays(map, flat, nullptr, options.symmetric, leaves));
    }
  });
}
template <class MatVec, class B, class Solve>
auto custom_linear_solve(MatVec matvec, const B& b, Solve solve,
                         CustomLinearSolveOptions options = {},
                         SourceLocation where = SourceLocation::current()) {
  return custom_linear_solve(std::move(matvec), b, std::move(solve), none, options, where);
}

/// The root x = solve(f, initial_guess) of f, any tree of floats, with the derivatives of the
/// function that f(x) = 0 defines: dx = -tangent_solve(f'(x), df). That f(x) is zero is not checked.
///   f               x -> a tree of the same type
///   solve           (f, initial_guess) -> x, or std::pair{x, aux}
///   tangent_solve   (g, y) -> dx with g(dx) = y, where g is f linearized at the root. For a scalar
///                   y / g(1.0). It is transposed in reverse mode, so loops in it need a
///                   custom_linear_solve (as tl::cg has) around them
template <class F, class X, class Solve, class TangentSolve>
auto custom_root(F f, const X& initial_guess, Solve solve, TangentSolve tangent_solve,
                 SourceLocation where = SourceLocation::current()) {
  return detail::in_call("custom_root", where, [&] {
    using T = std::tuple_element_t<0, bound_arguments<F, X>>;
    const T guess = std::get<0>(bind_args<F>(initial_guess));
    Arrays leaves;
    detail::flatten_into(guess, leaves, "custom_root", "initial_guess");
    const auto prototype = detail::without_leaves(guess);
    const auto map = detail::endomorphism<T>(f, prototype, "custom_root: f and initial_guess");
    detail::SolverCall<T, Solve> primal(solve, prototype, "custom_root: solve and initial_guess");
    detail::SolverCall<T, TangentSolve> tangent(tangent_solve, prototype,
                                                "custom_root: tangent_solve and initial_guess");
    static_assert(!decltype(tangent)::has_aux, "custom_root: tangent_solve has no auxiliary data");
    return primal.result(detail::custom_root_arrays(map, primal.flat(), tangent.flat(), leaves));
  });
}

}  // namespace v1
}  // namespace telamon
