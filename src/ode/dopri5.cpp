// The adaptive method of Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980), with
// the dense output of Shampine, "Some practical Runge-Kutta formulas" (1986).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ode/runge_kutta.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace ode {
namespace {

constexpr std::size_t kStages = 7;
using Row = std::array<double, kStages>;

// Stage i is f at time t + kNodes[i] h and state y + h sum_j kStage[i][j] k_j. The last stage's state
// is the new y, so its slope is the first one of the next step.
constexpr Row kNodes = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};
constexpr std::array<Row, kStages> kStage = {{
    {},
    {1. / 5},
    {3. / 40, 9. / 40},
    {44. / 45, -56. / 15, 32. / 9},
    {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
    {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
    {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84},
}};
// The new y less the embedded solution of order 4.
constexpr Row kError = {71. / 57600,      0,         -71. / 16695, 71. / 1920,
                        -17253. / 339200, 22. / 525, -1. / 40};
// y in the middle of the step, to order 4.
constexpr Row kMiddle = {6025192743. / 30085553152 / 2,     0,
                         51252292925. / 65400821598 / 2,    -2691868925. / 45128329728 / 2,
                         187940372067. / 1594534317056 / 2, -1776094331. / 19743644256 / 2,
                         11237099. / 235043384 / 2};

/// Where the integration is, and the step that led there.
struct Progress {
  Arrays y, slope;                 // at t
  Arrays last_y, last_slope, mid;  // at last_t, and in the middle between last_t and t
  Array t, last_t, step;           // step: to be tried next
  Array too_small;                 // bool: no step that the times resolve is small enough
};

/// sum_j h weights[j] slopes[j], leaf by leaf.
Arrays combination(const Row& weights, const std::vector<Arrays>& slopes, const Array& h) {
  Arrays out;
  for (std::size_t leaf = 0; leaf < slopes[0].size(); ++leaf) {
    Array sum;
    for (std::size_t j = 0; j < slopes.size(); ++j) {
      if (weights[j] == 0) continue;
      const Array term = weights[j] * slopes[j][leaf];
      sum = sum.has_value() ? sum + term : term;
    }
    out.push_back(sum * h.astype(slopes[0][leaf].dtype()));
  }
  return out;
}
Arrays operator+(const Arrays& a, const Arrays& b) {
  return tree_map([](const Array& x, const Array& y) { return x + y; }, a, b);
}
Arrays chosen(const Array& condition, const Arrays& a, const Arrays& b) {
  return tree_map([&](const Array& x, const Array& y) { return where(condition, x, y); }, a, b);
}

/// The smallest relative tolerance that makes sense for a dtype.
double resolution(DType dtype) {
  return dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 1e-6 : 1e-2;
}

struct Tolerances {
  double rtol, atol;
  Array scale(const Array& magnitude) const {
    return atol + std::max(rtol, resolution(magnitude.dtype())) * magnitude;
  }
};

/// The root mean square over all elements of all leaves of x / scale(magnitude), as f64 or f32.
Array scaled_norm(const Arrays& x, const Arrays& magnitude, const Tolerances& tolerances,
                  DType dtype) {
  Array sum = lax::full(Shape(), dtype, 0);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum = sum + telamon::sum(square(x[i] / tolerances.scale(magnitude[i]))).astype(dtype);
    count += x[i].size();
  }
  return sqrt(sum / static_cast<double>(std::max<std::int64_t>(count, 1)));
}

/// A first step. Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4.
Array first_step(const Field& f, const Arrays& y, const Arrays& slope, const Array& t,
                 const Tolerances& tolerances) {
  const DType dtype = t.dtype();
  const Arrays magnitude = tree_map([](const Array& x) { return abs(x); }, y);
  const auto norm = [&](const Arrays& x) { return scaled_norm(x, magnitude, tolerances, dtype); };
  const Array d0 = norm(y), d1 = norm(slope);
  const Array tiny = (d0 < 1e-5) | (d1 < 1e-5);
  const Array h0 = where(tiny, 1e-6, 0.01 * d0 / where(tiny, 1.0, d1));
  const Arrays moved = y + combination({1}, {slope}, h0);
  const Arrays change =
      tree_map([](const Array& a, const Array& b) { return a - b; }, f(moved, t + h0), slope);
  const Array largest = maximum(d1, norm(change) / h0);
  const Array flat = largest <= 1e-15;
  const Array h1 =
      where(flat, maximum(1e-6, h0 * 1e-3), power(0.01 / where(flat, 1.0, largest), 1.0 / 5));
  const Array h = minimum(100 * h0, h1);
  return where(isfinite(h), h, 1e-6).astype(dtype);
}

/// The next step over the one that had this error: the error goes with the fifth power of the step.
Array growth(const Array& error) {
  constexpr double kSafety = 0.9, kShrink = 0.2, kGrow = 10;
  const Array factor = clip(kSafety * power(maximum(error, 1e-10), -1.0 / 5), kShrink, kGrow);
  return where(isfinite(error), factor, kShrink);
}

/// Tries one step, which ends at `end` at the latest. Steps are constants for derivatives: the
/// solution depends on them only by its error.
Progress advance(const Field& f, const Progress& p, const Array& end,
                 const Tolerances& tolerances) {
  const Array rest = lax::stop_gradient(end - p.t);
  const Array is_last = p.step >= rest;
  const Array h = where(is_last, rest, p.step);
  std::vector<Arrays> slopes{p.slope};
  Arrays y;
  for (std::size_t i = 1; i < kStages; ++i) {
    y = p.y + combination(kStage[i], slopes, h);
    slopes.push_back(f(y, p.t + kNodes[i] * h));
  }
  const auto size = [](const Array& a, const Array& b) { return maximum(abs(a), abs(b)); };
  const Array error = lax::stop_gradient(
      scaled_norm(combination(kError, slopes, h), tree_map(size, p.y, y), tolerances, p.t.dtype()));
  const Array accept = error <= 1.0;
  // The last step ends at `end` to the bit, and moves with t as the others do.
  const Array t =
      where(is_last, lax::stop_gradient(end) + (p.t - lax::stop_gradient(p.t)), p.t + h);
  const Array step = lax::stop_gradient(h * growth(error));
  return {
      .y = chosen(accept, y, p.y),
      .slope = chosen(accept, slopes.back(), p.slope),
      .last_y = chosen(accept, p.y, p.last_y),
      .last_slope = chosen(accept, p.slope, p.last_slope),
      .mid = chosen(accept, p.y + combination(kMiddle, slopes, h), p.mid),
      .t = where(accept, t, p.t),
      .last_t = where(accept, p.t, p.last_t),
      .step = step,
      .too_small = !(accept | (p.t + step > p.t)),
  };
}

/// y between last_t and t: the polynomial of degree 4 through both ends and the middle, with the
/// slopes at both ends. When no step was made it is y at any length, and moves with the time by the
/// slope.
Arrays interpolated(const Progress& p, const Array& time) {
  const Array length = where(p.t == p.last_t, 1.0, p.t - p.last_t);
  const Array position = (time - p.last_t) / length;
  Arrays out;
  for (std::size_t i = 0; i < p.y.size(); ++i) {
    const DType dtype = p.y[i].dtype();
    const Array x = position.astype(dtype), h = length.astype(dtype);
    const Array &y0 = p.last_y[i], &y1 = p.y[i], &mid = p.mid[i];
    const Array d0 = h * p.last_slope[i], d1 = h * p.slope[i];
    const Array a = 2 * (d1 - d0) - 8 * (y0 + y1) + 16 * mid;
    const Array b = 5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * mid;
    const Array c = d1 - 4 * d0 - 11 * y0 - 5 * y1 + 16 * mid;
    out.push_back((((a * x + b) * x + c) * x + d0) * x + y0);
  }
  return out;
}

Array outcome(Outcome o) { return lax::full(Shape(), DType::i32, static_cast<double>(o)); }

}  // namespace

Solution solve_dopri5(const Field& f, const Arrays& y0, const Array& ts, const Options& options) {
  const Tolerances tolerances{options.rtol, options.atol};
  const Array start = ts(0), end = ts(-1);
  const Arrays slope = f(y0, start);
  const Progress first{.y = y0,
                       .slope = slope,
                       .last_y = y0,
                       .last_slope = slope,
                       .mid = y0,
                       .t = start,
                       .last_t = start,
                       .step = lax::stop_gradient(first_step(f, y0, slope, start, tolerances)),
                       .too_small = lax::full(Shape(), DType::bool_, 0)};
  // Reverse mode computes the steps between two times again: it keeps what holds at the times, and
  // buffers of `max_steps` for one of these intervals only.
  const auto steps_to = checkpoint(
      [&](const Progress& p, const Array& time) {
        // Times that coincide with the first one are in the first step, too: it knows how the
        // solution moves with them.
        const auto goes_on = [&](const Progress& q) {
          const Array at_start = (q.t == q.last_t) & (q.t < end);
          return ((q.t < time) | at_start) & !q.too_small;
        };
        return while_loop(goes_on,
                          [&](const Progress& q) { return advance(f, q, end, tolerances); }, p,
                          {.max_steps = options.max_steps});
      },
      {.name = "dopri5"});
  const auto visit = [&](const Progress& p, const Array& time) {
    const Progress next = steps_to(p, time);
    const Array reached = next.t >= time;
    const auto known = [&](const Array& y) { return where(reached, y, nan); };
    const Array failure =
        where(next.too_small, outcome(Outcome::step_too_small), outcome(Outcome::out_of_steps));
    return std::pair{next, std::pair{tree_map(known, interpolated(next, time)),
                                     where(reached, outcome(Outcome::reached), failure)}};
  };
  auto [ys, outcomes] = scan(visit, first, ts(slice(1, none))).second;
  for (std::size_t i = 0; i < ys.size(); ++i) ys[i] = concatenate({expand_dims(y0[i], 0), ys[i]});
  return {std::move(ys), std::move(outcomes)};
}

}  // namespace ode
}  // namespace v1
}  // namespace telamon
