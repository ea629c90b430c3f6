// custom_linear_solve and custom_root: what their primitives carry, over flat lists of arrays.
#pragma once

#include <optional>
#include <span>

#include "telamon/detail/flat.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// The solution x of A x = b, found by a program that need not be differentiable.
///   matvec, vecmat:          own consts, x -> A x, and A' x
///   solve, transpose_solve:  own consts, b -> x and auxiliary results
///   operands:                consts of matvec, vecmat, solve, transpose_solve, then b
///   results:                 those of solve
/// Without vecmat and transpose_solve the equation cannot be transposed.
struct CustomLinearSolveParams {
  Jaxpr matvec;
  std::optional<Jaxpr> vecmat;
  Jaxpr solve;
  std::optional<Jaxpr> transpose_solve;
  int num_matvec_consts = 0, num_vecmat_consts = 0, num_solve_consts = 0,
      num_transpose_solve_consts = 0;
};
extern TELAMON_API const Primitive<CustomLinearSolveParams> custom_linear_solve_p;

/// A root x of f, found by a program that need not be differentiable.
///   f:              own consts, x -> f(x), of the type of x
///   solve:          own consts, initial guess -> x and auxiliary results
///   tangent_solve:  own consts, x, y -> dx with f'(x) dx = y, linear in y
///   operands:       consts of f, solve, tangent_solve, then the initial guess
///   results:        those of solve
struct CustomRootParams {
  Jaxpr f, solve, tangent_solve;
  int num_f_consts = 0, num_solve_consts = 0, num_tangent_solve_consts = 0;
};
extern TELAMON_API const Primitive<CustomRootParams> custom_root_p;

namespace detail {

/// (linear map, right-hand side) -> leaves of the solution, then of auxiliary results.
using FlatSolve = Function<Arrays(const FlatFunction& map, std::span<const Array> b)>;

/// `transpose_solve` may be null. `symmetric`: the map is its own transpose.
TELAMON_API Arrays custom_linear_solve_arrays(const FlatFunction& matvec, const FlatSolve& solve,
                                              const FlatSolve* transpose_solve, bool symmetric,
                                              std::span<const Array> b);
/// `solve` is given f and the guess; `tangent_solve` the linearized f and a right-hand side.
TELAMON_API Arrays custom_root_arrays(const FlatFunction& f, const FlatSolve& solve,
                                      const FlatSolve& tangent_solve, std::span<const Array> guess);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
