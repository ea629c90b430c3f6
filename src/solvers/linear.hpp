// The iterations of linear.cpp without their derivatives: what other solvers build on.
#pragma once

#include "telamon/solvers.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// ValueError where a tolerance, which is called so, is negative or NaN, or `maxiter` negative.
void check_limits(const char* solver, double tolerance, std::int64_t maxiter,
                  const char* name = "tol");

/// What loops count iterations in and info tells, an i32: at most its largest.
Array counter(std::int64_t value);
/// The info of no convergence after k iterations: 0, where none was allowed, would say that there was one.
Array failed_after(const Array& k);
/// f, whose results must have the shapes and dtypes of `like`, as "A" and "b" of "cg"; ValueError otherwise.
/// Numbers without a dtype of their own, on either side, take the other's. f must outlive it.
FlatFunction fitting(const FlatFunction& f, std::span<const Array> like, const char* solver,
                     const char* name_of_f, const char* name_of_like);

/// Leaves of the solution, then info.
Arrays run_bicgstab(const FlatFunction& A, const Arrays& b, const Arrays& x0,
                    const FlatSolverOptions& options);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
