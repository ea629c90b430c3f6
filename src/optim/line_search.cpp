// A line search for the strong Wolfe conditions: Nocedal and Wright, "Numerical Optimization", 3.5.
//
//   f(a) <= f(0) + c1 a f'(0)   and   |f'(a)| <= c2 |f'(0)|
//
// Their two phases are one loop here. `low` is the best point so far with a sufficient decrease, and
// an interval from it to `high` holds a solution; while there is no `high` yet the points grow.
#include "optim/objective.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1, c2
constexpr double kGrow = 2.5;

/// A point of the line: where, the value, and the slope along the line.
struct Sample {
  Array a, value, slope;
};
struct Search {
  Sample low, high;
  Array bracketed;      // bool: high is a point
  Array next;           // to be tried
  Array best_gradient;  // the gradient at low
  Array steps, found;
};

Sample chosen(const Array& condition, const Sample& x, const Sample& y) {
  return tree_map([&](const Array& p, const Array& q) { return where(condition, p, q); }, x, y);
}

/// The minimum of the cubic through both samples with their slopes, or the middle where there is none
/// well inside the interval.
Array minimum_between(const Sample& low, const Sample& high) {
  const Array width = high.a - low.a;
  const Array d1 =
      low.slope + high.slope - 3 * (high.value - low.value) / where(width == 0, 1.0, width);
  const Array d2 = lax::sign(width) * sqrt(maximum(square(d1) - low.slope * high.slope, 0.0));
  const Array below = high.slope - low.slope + 2 * d2;
  const Array part = 1 - (high.slope + d2 - d1) / where(below == 0, 1.0, below);
  const Array good = (below != 0) & (part > 0.1) & (part < 0.9);  // NaN is not
  return low.a + where(good, part, 0.5) * width;
}

}  // namespace

Point evaluate(const Objective& f, const Array& x) {
  const auto [value, gradient] = value_and_grad([&](const Array& at) { return f(at); })(x);
  return {x, value, gradient};
}

Array count(std::int64_t n) { return lax::full(Shape(), DType::i32, static_cast<double>(n)); }

LineSearch search_line(const Objective& f, const Point& start, const Array& direction,
                       const Array& first, std::int64_t max_steps) {
  const Array slope = vdot(start.gradient, direction);
  const Sample origin{zeros_like(start.value), start.value, slope};
  const Array no = lax::full(Shape(), DType::bool_, 0);
  const Search begin{origin,         origin,   no, first.astype(start.value.dtype()),
                     start.gradient, count(0), no};
  const double resolution = start.value.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const Array noise = 4 * resolution * abs(origin.value);
  const auto step = [&](const Search& s) {
    const Point point = evaluate(f, start.x + s.next * direction);
    const Sample sample{s.next, point.value, vdot(point.gradient, direction)};
    const Array flat = abs(sample.slope) <= -kCurvature * slope;
    // Where values differ by rounding only, slopes decide (Hager and Zhang, 2005).
    const Array same = abs(sample.value - origin.value) <= noise;
    const Array decreased = ((sample.value <= origin.value + kDecrease * sample.a * slope) &
                             (sample.value < s.low.value)) |
                            (same & flat);
    const Array found = decreased & flat;
    // Behind the sample as seen from low, f rises: the minimum lies between the two.
    const Array towards = where(s.bracketed, s.high.a - s.low.a, 1.0);
    const Array rises = decreased & (sample.slope * towards >= 0);
    Search next;
    next.high = chosen(!decreased, sample, chosen(rises, s.low, s.high));
    next.low = chosen(decreased, sample, s.low);
    next.best_gradient = where(decreased, point.gradient, s.best_gradient);
    next.bracketed = s.bracketed | !decreased | rises;
    next.next = where(next.bracketed, minimum_between(next.low, next.high), kGrow * s.next);
    next.steps = s.steps + 1;
    next.found = found;
    return next;
  };
  const auto goes_on = [&](const Search& s) { return (s.steps < max_steps) & !s.found; };
  const Search end = while_loop(goes_on, step, begin);
  const Array better = end.low.a > 0;
  // Not a step of length 0: the direction may be infinite or NaN.
  const Array x = where(better, start.x + end.low.a * direction, start.x);
  return {{x, end.low.value, end.best_gradient}, end.steps, better};
}

}  // namespace optim
}  // namespace v1
}  // namespace telamon
