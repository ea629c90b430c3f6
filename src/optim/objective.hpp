// What the methods of minimize share: the function over one vector, the line search, their results.
#pragma once

#include <utility>

#include "telamon/detail/function.hpp"
#include "telamon/optim.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {

/// A scalar-valued function of a vector.
using Objective = detail::Function<Array(const Array& x)>;

/// A place: x, f(x) and the gradient there.
struct Point {
  Array x, value, gradient;
};
Point evaluate(const Objective& f, const Array& x);

struct LineSearch {
  Point point;
  Array evaluations;  ///< i32
  Array succeeded;    ///< bool: the point is better than the start
};
/// A point x + a p, a > 0, that fulfils the strong Wolfe conditions; or, when `max_steps` evaluations
/// do not find it, the best one with a sufficient decrease. The first a tried is `first`.
LineSearch search_line(const Objective& f, const Point& start, const Array& direction,
                       const Array& first, std::int64_t max_steps);

/// What all methods carry from iteration to iteration.
struct State {
  Point point;
  Array iterations, evaluations, status;  ///< i32; status is `kRunning` until the end
};
inline constexpr std::int32_t kRunning = -1;

State initial_state(const Objective& f, const Array& x0, double gtol);
/// The state after an iteration that ended in `found`.
State next_state(const State& state, const LineSearch& found, const Options& options);
/// While iterations are to be made.
Array is_running(const State& state, std::int64_t max_iterations);

State minimize_bfgs(const Objective& f, const State& start, const Options& options);
State minimize_lbfgs(const Objective& f, const State& start, const Options& options);
State minimize_newton_cg(const Objective& f, const State& start, const Options& options);

/// An i32 scalar.
Array count(std::int64_t n);

}  // namespace optim
}  // namespace v1
}  // namespace telamon
