// The Runge-Kutta methods over flat lists of arrays.
#pragma once

#include "telamon/detail/function.hpp"
#include "telamon/ode.hpp"

namespace telamon {
inline namespace v1 {
namespace ode {

/// y' = f(y, t), leaf by leaf.
using Field = detail::Function<Arrays(const Arrays& y, const Array& t)>;

/// How the way to each time but the first ended, as numbers in an array.
enum class Outcome : std::int32_t { reached, out_of_steps, step_too_small };

struct Solution {
  Arrays ys;       ///< leading axis: the times
  Array outcomes;  ///< i32, one for each time but the first
};

/// The solution at increasing times.
Solution solve_dopri5(const Field& f, const Arrays& y0, const Array& ts, const Options& options);
Solution solve_rk4(const Field& f, const Arrays& y0, const Array& ts, const Options& options);

}  // namespace ode
}  // namespace v1
}  // namespace telamon
