// The classical Runge-Kutta method of order 4 with equal steps.
#include "ode/runge_kutta.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace ode {
namespace {

Arrays moved(const Arrays& y, const Array& h, const Arrays& slope) {
  return tree_map([&](const Array& x, const Array& dx) { return x + h.astype(x.dtype()) * dx; }, y,
                  slope);
}

Arrays step(const Field& f, const Arrays& y, const Array& t, const Array& h) {
  const Array half = 0.5 * h;
  const Arrays k1 = f(y, t);
  const Arrays k2 = f(moved(y, half, k1), t + half);
  const Arrays k3 = f(moved(y, half, k2), t + half);
  const Arrays k4 = f(moved(y, h, k3), t + h);
  const auto mean = [](const Array& a, const Array& b, const Array& c, const Array& d) {
    return (a + 2 * (b + c) + d) / 6;
  };
  return moved(y, h, tree_map(mean, k1, k2, k3, k4));
}

}  // namespace

Solution solve_rk4(const Field& f, const Arrays& y0, const Array& ts, const Options& options) {
  const auto visit = [&](const Arrays& y, const std::pair<Array, Array>& interval) {
    const Array &from = interval.first, &to = interval.second;
    const Array h = (to - from) / static_cast<double>(options.steps);
    const auto body = [&](const Array& i, const Arrays& x) {
      return step(f, x, from + i.astype(h.dtype()) * h, h);
    };
    const Arrays next =
        options.steps == 1 ? step(f, y, from, h) : fori_loop(0, options.steps, body, y);
    return std::pair{next, next};
  };
  Arrays ys = scan(visit, y0, std::pair{ts(slice(none, -1)), ts(slice(1, none))}).second;
  for (std::size_t i = 0; i < ys.size(); ++i) ys[i] = concatenate({expand_dims(y0[i], 0), ys[i]});
  return {std::move(ys), zeros({ts.shape(0) - 1}, DType::i32)};
}

}  // namespace ode
}  // namespace v1
}  // namespace telamon
