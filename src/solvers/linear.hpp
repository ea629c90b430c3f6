// The iterations of linear.cpp without their derivatives: what other solvers build on.
#pragma once

#include "telamon/solvers.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// ValueError where a tolerance, which is called so, is negative or NaN, or `maxiter` negative.
void check_limits(const char* solver, double tolerance, std::int64_t maxiter,
                  const char* name = "tol");

/// Leaves of the solution, then info.
Arrays run_bicgstab(const FlatFunction& A, const Arrays& b, const Arrays& x0,
                    const FlatSolverOptions& options);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
