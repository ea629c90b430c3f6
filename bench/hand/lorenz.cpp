// B09 by hand: the Lorenz system, its derivatives in forward and in reverse mode.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

// ---- the Lorenz system, a trajectory in each lane --------------------------------------------------
struct Dual {  // a value and its derivatives for three parameters
  FloatVector v, p, q, r;
};
inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.v + b.v, a.p + b.p, a.q + b.q, a.r + b.r};
}
inline Dual operator-(const Dual& a, const Dual& b) {
  return {a.v - b.v, a.p - b.p, a.q - b.q, a.r - b.r};
}
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.v * b.v, a.p * b.v + a.v * b.p, a.q * b.v + a.v * b.q, a.r * b.v + a.v * b.r};
}
inline Dual operator*(float a, const Dual& b) { return {a * b.v, a * b.p, a * b.q, a * b.r}; }

template <class V> struct Point {
  V a, b, c;
};
template <class V> inline Point<V> field(Point<V> y, Point<V> p) {
  return {p.a * (y.b - y.a), y.a * (p.b - y.c) - y.b, y.a * y.b - p.c * y.c};
}
template <class V> inline Point<V> axpy(Point<V> y, float h, Point<V> k) {
  return {y.a + h * k.a, y.b + h * k.b, y.c + h * k.c};
}
template <class V> inline Point<V> rk4(Point<V> y, Point<V> p) {
  Point<V> k = field(y, p), s = k, q;
  q = field(axpy(y, .005f, k), p), s = axpy(s, 2, q), k = q;
  q = field(axpy(y, .005f, k), p), s = axpy(s, 2, q), k = q;
  q = field(axpy(y, .01f, k), p), s = axpy(s, 1, q);
  return axpy(y, .01f / 6, s);
}

constexpr int kTrajectories = 4096;
inline Point<FloatVector> lanes_of(const float* y0, int b) {
  Point<FloatVector> y{};
  for (int l = 0; l < kWide; ++l) {
    y.a[l] = y0[(b + l) * 3];
    y.b[l] = y0[(b + l) * 3 + 1];
    y.c[l] = y0[(b + l) * 3 + 2];
  }
  return y;
}
inline Point<FloatVector> spread(const float* p) {
  return {FloatVector{} + p[0], FloatVector{} + p[1], FloatVector{} + p[2]};
}
inline void store(const Point<FloatVector>& y, float* to, std::size_t apart) {
  for (int l = 0; l < kWide; ++l) {
    float* const of_lane = to + static_cast<std::size_t>(l) * apart;
    of_lane[0] = y.a[l];
    of_lane[1] = y.b[l];
    of_lane[2] = y.c[l];
  }
}
template <class Use> void trajectories(const float* y0, const float* p, long steps,
                                       const Use& use) {
  const Point<FloatVector> P = spread(p);
  for (int b = 0; b < kTrajectories; b += 2 * kWide) {
    Point<FloatVector> y = lanes_of(y0, b), z = lanes_of(y0, b + kWide);
    for (long t = 0; t < steps; ++t) y = rk4(y, P), z = rk4(z, P);
    use(b, y);
    use(b + kWide, z);
  }
}
inline float total(FloatVector x) {
  float s = 0;
  for (int l = 0; l < kWide; ++l) s += x[l];
  return s;
}

NOINLINE void lorenz(const float* y0, const float* p, long steps, float* last) {
  trajectories(y0, p, steps,
               [&](int b, const Point<FloatVector>& y) { store(y, last + b * 3, 3); });
}
NOINLINE void lorenz_states(const float* y0, const float* p, long steps, float* states) {
  const Point<FloatVector> P = spread(p);
  const auto apart = static_cast<std::size_t>(steps) * 3;
  for (int b = 0; b < kTrajectories; b += 2 * kWide) {
    Point<FloatVector> y = lanes_of(y0, b), z = lanes_of(y0, b + kWide);
    for (long t = 0; t < steps; ++t) {
      y = rk4(y, P), z = rk4(z, P);
      store(y, states + static_cast<std::size_t>(b) * apart + t * 3, apart);
      store(z, states + static_cast<std::size_t>(b + kWide) * apart + t * 3, apart);
    }
  }
}
NOINLINE float lorenz_mean(const float* y0, const float* p, long steps) {
  FloatVector sum{};
  trajectories(y0, p, steps,
               [&](int, const Point<FloatVector>& y) { sum += y.a * y.a + y.b * y.b + y.c * y.c; });
  return total(sum) / kTrajectories;
}
NOINLINE void lorenz_jacfwd(const float* y0, const float* p, long steps, float* gradient) {
  const Point<FloatVector> P = spread(p);
  const FloatVector one = FloatVector{} + 1, zero{};
  const Point<Dual> D{{P.a, one, zero, zero}, {P.b, zero, one, zero}, {P.c, zero, zero, one}};
  FloatVector g[3] = {};
  for (int b = 0; b < kTrajectories; b += kWide) {
    const Point<FloatVector> first = lanes_of(y0, b);
    Point<Dual> y{
        {first.a, zero, zero, zero}, {first.b, zero, zero, zero}, {first.c, zero, zero, zero}};
    for (long t = 0; t < steps; ++t) y = rk4(y, D);
    g[0] += y.a.v * y.a.p + y.b.v * y.b.p + y.c.v * y.c.p;
    g[1] += y.a.v * y.a.q + y.b.v * y.b.q + y.c.v * y.c.q;
    g[2] += y.a.v * y.a.r + y.b.v * y.b.r + y.c.v * y.c.r;
  }
  for (int k = 0; k < 3; ++k) gradient[k] = 2 * total(g[k]) / kTrajectories;
}
NOINLINE void lorenz_grad(const float* y0, const float* parameters, long steps, float* gradient) {
  static std::vector<Point<FloatVector>> tape;
  tape.resize(static_cast<std::size_t>(steps));
  const Point<FloatVector> p = spread(parameters);
  const float h = .01f;
  FloatVector gs{}, gr{}, gb{};
  for (int b = 0; b < kTrajectories; b += kWide) {
    Point<FloatVector> y = lanes_of(y0, b);
    for (auto& record : tape) record = y, y = rk4(y, p);
    Point<FloatVector> g{2 * y.a, 2 * y.b, 2 * y.c};
    const auto vjp = [&](Point<FloatVector> at, Point<FloatVector> k) {
      gs += (at.b - at.a) * k.a;
      gr += at.a * k.b;
      gb -= at.c * k.c;
      return Point<FloatVector>{-p.a * k.a + (p.b - at.c) * k.b + at.b * k.c,
                                p.a * k.a - k.b + at.a * k.c, -at.a * k.b - p.c * k.c};
    };
    for (long t = steps - 1; t >= 0; --t) {
      y = tape[static_cast<std::size_t>(t)];
      const auto y2 = axpy(y, h / 2, field(y, p)), y3 = axpy(y, h / 2, field(y2, p)),
                 y4 = axpy(y, h, field(y3, p));
      const Point<FloatVector> zero{};
      const auto w4 = vjp(y4, axpy(zero, h / 6, g));
      const auto w3 = vjp(y3, axpy(axpy(zero, h / 3, g), h, w4));
      const auto w2 = vjp(y2, axpy(axpy(zero, h / 3, g), h / 2, w3));
      const auto w1 = vjp(y, axpy(axpy(zero, h / 6, g), h / 2, w2));
      g = axpy(axpy(axpy(axpy(g, 1, w1), 1, w2), 1, w3), 1, w4);
    }
  }
  const FloatVector sums[] = {gs, gr, gb};
  for (int k = 0; k < 3; ++k) gradient[k] = total(sums[k]) / kTrajectories;
}

// ---- the cases -----------------------------------------------------------------------------------
struct Buffers {
  Floats y0, p = {10, 28, 8.f / 3}, out;
};
Case ensemble(long steps, std::size_t outputs, void (*work)(Buffers&, long)) {
  Floats y0 = zf(1, kTrajectories * 3);
  for (std::size_t i = 0; i < y0.size(); ++i) y0[i] += i % 3 == 2 ? 20.f : 1.f;
  Case c = by_hand(
      Buffers{y0, {10, 28, 8.f / 3}, Floats(outputs)},
      [work, steps](Buffers& b) { work(b, steps); },
      [](const Buffers& b) { return std::vector{output(b.out)}; });
  c.tolerance = 2e-2;
  return per(kTrajectories * static_cast<double>(steps), std::move(c), "per trajectory and step");
}
const Register last("B09.vmap_ode", "ns", [] {
  const auto make = [](long steps) {
    return ensemble(steps, kTrajectories * 3,
                    [](Buffers& b, long n) { lorenz(b.y0.data(), b.p.data(), n, b.out.data()); });
  };
  Case c = chaotic(make, 1000, 200);
  c.tolerance = 2e-3;
  return c;
});
const Register states("B09.states_T100", "ns", [] {
  Case c = ensemble(100, kTrajectories * 300, [](Buffers& b, long n) {
    lorenz_states(b.y0.data(), b.p.data(), n, b.out.data());
  });
  c.tolerance = 2e-3;
  return c;
});
const Register primal("B09.primal_T200", "ns", [] {
  return ensemble(200, 1,
                  [](Buffers& b, long n) { b.out[0] = lorenz_mean(b.y0.data(), b.p.data(), n); });
});
const Register forward("B09.jacfwd_T200", "ns", [] {
  return ensemble(
      200, 3, [](Buffers& b, long n) { lorenz_jacfwd(b.y0.data(), b.p.data(), n, b.out.data()); });
});
const Register reverse("B09.grad_T200", "ns", [] {
  return ensemble(
      200, 3, [](Buffers& b, long n) { lorenz_grad(b.y0.data(), b.p.data(), n, b.out.data()); });
});

}  // namespace
}  // namespace bench
