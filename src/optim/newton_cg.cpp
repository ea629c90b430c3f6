// Newton's method with conjugate gradients: Nocedal and Wright, "Numerical Optimization", 7.1. Of the
// Hessian only products with vectors are computed, as derivatives of the gradient.
#include "optim/objective.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/jvp.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {
namespace {

/// Solves H p = -g until the residual is small against g, or a direction of negative curvature comes
/// up: then p is what was found before it (at the first one, -g).
Array newton_direction(const Objective& f, const Point& here) {
  const auto product = [&](const Array& v) {
    const auto gradient = grad([&](const Array& x) { return f(x); });
    return jvp(gradient, std::tuple{here.x}, std::tuple{v}).second;
  };
  struct Carry {
    Array p, residual, direction, square, steps, done;
  };
  const Array& g = here.gradient;
  const Array size = vdot(g, g);
  // min(1/2, sqrt |g|) |g|: the error falls faster than linearly near the minimum.
  const Array enough = size * minimum(0.25, sqrt(size));
  const auto step = [&](const Carry& c) {
    const Array hd = product(c.direction);
    const Array curvature = vdot(c.direction, hd);
    const Array positive = curvature > 0;
    const Array a = c.square / where(positive, curvature, 1.0);
    const Array p = c.p + a * c.direction, residual = c.residual + a * hd;
    const Array next_square = vdot(residual, residual);
    const Array first = c.steps == 0;
    return Carry{where(positive, p, where(first, c.direction, c.p)),
                 residual,
                 next_square / c.square * c.direction - residual,
                 next_square,
                 c.steps + 1,
                 (next_square <= enough) | !positive};
  };
  const std::int64_t most = 2 * here.x.size() + 10;
  const auto goes_on = [&](const Carry& c) { return (c.steps < most) & !c.done; };
  const Carry begin{zeros_like(g), g, -g, size, count(0), size == 0};
  return while_loop(goes_on, step, begin).p;
}

}  // namespace

State minimize_newton_cg(const Objective& f, const State& start, const Options& options) {
  const auto step = [&](const State& state) {
    const Array direction = newton_direction(f, state.point);
    const LineSearch found = search_line(f, state.point, direction, ones_like(state.point.value),
                                         options.line_search_steps);
    return next_state(state, found, options);
  };
  const auto goes_on = [&](const State& s) { return is_running(s, *options.max_iterations); };
  return while_loop(goes_on, step, start);
}

}  // namespace optim
}  // namespace v1
}  // namespace telamon
