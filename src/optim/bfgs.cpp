// The quasi-Newton methods of Broyden, Fletcher, Goldfarb and Shanno: Nocedal and Wright, "Numerical
// Optimization", 6.1 and 7.2. With s = the step, y = the change of the gradient, r = 1 / (y s), the
// estimate H of the inverse Hessian becomes (1 - r s y') H (1 - r y s') + r s s'.
#include "optim/objective.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {
namespace {

struct Change {
  Array step, gradient;  // s and y
  Array product;         // s y
  Array usable;          // bool: the curvature is positive
};
Change change_between(const Point& from, const Point& to) {
  Change c{to.x - from.x, to.gradient - from.gradient, {}, {}};
  c.product = vdot(c.step, c.gradient);
  const Array lengths = vdot(c.step, c.step) * vdot(c.gradient, c.gradient);
  c.usable = c.product > 1e-12 * sqrt(lengths);
  return c;
}
/// 1 / x, or 1 where x is not to be used.
Array reciprocal_if(const Array& usable, const Array& x) { return 1 / where(usable, x, 1.0); }

/// Before anything is known of the curvature, the first step has about the length 1.
Array first_length(const State& state) {
  const Array norm = sqrt(vdot(state.point.gradient, state.point.gradient));
  return where(state.iterations == 0, minimum(1.0, 1 / maximum(norm, 1e-30)), 1.0);
}

}  // namespace

State minimize_bfgs(const Objective& f, const State& start, const Options& options) {
  struct Carry {
    State state;
    Array inverse;  // H
  };
  const std::int64_t n = start.point.x.size();
  const auto step = [&](const Carry& c) {
    const Point& here = c.state.point;
    const Array direction = -matmul(c.inverse, here.gradient);
    const LineSearch found =
        search_line(f, here, direction, first_length(c.state), options.line_search_steps);
    const Change d = change_between(here, found.point);
    const Array r = reciprocal_if(d.usable, d.product);
    // Before the first update H takes the size of the curvature that was met.
    const Array size = d.product / maximum(vdot(d.gradient, d.gradient), 1e-300);
    const Array h = where((c.state.iterations == 0) & d.usable, size * c.inverse, c.inverse);
    const Array hy = matmul(h, d.gradient);
    const Array cross = outer(d.step, hy);
    const Array updated = h - r * (cross + transpose(cross)) +
                          (r * r * vdot(d.gradient, hy) + r) * outer(d.step, d.step);
    return Carry{next_state(c.state, found, options), where(d.usable, updated, c.inverse)};
  };
  const auto goes_on = [&](const Carry& c) { return is_running(c.state, *options.max_iterations); };
  return while_loop(goes_on, step, Carry{start, eye(n, none, 0, start.point.x.dtype())}).state;
}

State minimize_lbfgs(const Objective& f, const State& start, const Options& options) {
  struct Carry {
    State state;
    Array steps, gradients;  // the last `history` of s and y, one a row, the newest last
    Array factors;           // r of each; 0: none
    Array scale;             // H before the changes is a multiple of the identity
  };
  const std::int64_t n = start.point.x.size(), m = options.history;
  const DType dtype = start.point.x.dtype();
  // The two loops: from the newest change to the oldest, and back.
  const auto direction = [&](const Carry& c) {
    using Row = std::tuple<Array, Array, Array>;
    const Row rows{c.steps, c.gradients, c.factors};
    const auto [q, weights] = scan(
        [](const Array& g, const Row& row) {
          const auto& [s, y, r] = row;
          const Array weight = r * vdot(s, g);
          return std::pair{g - weight * y, weight};
        },
        c.state.point.gradient, rows, {.reverse = true});
    const auto forward = [](const Array& p, const std::pair<Row, Array>& row) {
      const auto& [s, y, r] = row.first;
      return std::pair{p + (row.second - r * vdot(y, p)) * s, none};
    };
    return -scan(forward, c.scale * q, std::pair{rows, weights}).first;
  };
  const auto step = [&](const Carry& c) {
    const Point& here = c.state.point;
    const LineSearch found =
        search_line(f, here, direction(c), first_length(c.state), options.line_search_steps);
    const Change d = change_between(here, found.point);
    const auto push = [&](const Array& rows, const Array& row) {
      const Array moved = concatenate({rows(slice(1, none)), expand_dims(row, 0)});
      return where(d.usable, moved, rows);
    };
    const Array size = d.product / maximum(vdot(d.gradient, d.gradient), 1e-300);
    return Carry{next_state(c.state, found, options), push(c.steps, d.step),
                 push(c.gradients, d.gradient), push(c.factors, reciprocal_if(d.usable, d.product)),
                 where(d.usable, size, c.scale)};
  };
  const Array none_yet = zeros({m, n}, dtype);
  const auto goes_on = [&](const Carry& c) { return is_running(c.state, *options.max_iterations); };
  return while_loop(goes_on, step,
                    Carry{start, none_yet, none_yet, zeros({m}, dtype), ones({}, dtype)})
      .state;
}

}  // namespace optim
}  // namespace v1
}  // namespace telamon
