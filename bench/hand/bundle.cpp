// B12 by hand: blocks of the Jacobian of bundle adjustment, f64. The derivatives of each of 31843 reprojections are
// written out, for eight observations side by side.
#include <algorithm>
#include <cmath>

#include "hand.hpp"
#include "sine_and_cosine.hpp"

namespace bench {
namespace {

constexpr std::size_t kObservations = 31843, kCamera = 11, kPoint = 3, kLane = 8;

struct Lanes {
  double camera[kCamera][kLane], point[kPoint][kLane], weight[kLane], feature[2][kLane];
  double by_camera[2][kCamera][kLane], by_point[2][kPoint][kLane], by_weight[2][kLane];
};
/// The reprojection is w (f p (1 + k0 q + k1 q^2) + uv - feature), where p = (Y0, Y1) / Y2, q = p p, and Y is X - C
/// turned about the axis r by its length.
__attribute__((noinline)) void differentiate(Lanes& lanes) {
#pragma omp simd
  for (std::size_t l = 0; l < kLane; ++l) {
    const auto& in = lanes.camera;
    const double r0 = in[0][l], r1 = in[1][l], r2 = in[2][l], f = in[6][l], k0 = in[9][l],
                 k1 = in[10][l], w = lanes.weight[l];
    const double d0 = lanes.point[0][l] - in[3][l], d1 = lanes.point[1][l] - in[4][l],
                 d2 = lanes.point[2][l] - in[5][l];
    const double angle = std::sqrt(r0 * r0 + r1 * r1 + r2 * r2), each = 1 / angle;
    const double a0 = r0 * each, a1 = r1 * each, a2 = r2 * each;
    double s, c;
    sine_and_cosine(angle, s, c);
    const double x0 = a1 * d2 - a2 * d1, x1 = a2 * d0 - a0 * d2, x2 = a0 * d1 - a1 * d0;  // a x d
    const double ad = a0 * d0 + a1 * d1 + a2 * d2, rest = 1 - c, along = ad * rest;
    const double over = 1 / (d2 * c + x2 * s + a2 * along);
    const double p[2] = {(d0 * c + x0 * s + a0 * along) * over,
                         (d1 * c + x1 * s + a1 * along) * over};
    const double q = p[0] * p[0] + p[1] * p[1], bend = 1 + q * (k0 + k1 * q);
    const double slope = 2 * (k0 + 2 * k1 * q), wf = w * f;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      auto& to = lanes.by_camera[i];
      const double v = p[i] * bend;
      to[6][l] = w * v;
      to[7][l] = i == 0 ? w : 0;
      to[8][l] = i == 0 ? 0 : w;
      to[9][l] = wf * p[i] * q;
      to[10][l] = wf * p[i] * q * q;
      lanes.by_weight[i][l] = f * v + in[static_cast<std::size_t>(7 + i)][l] - lanes.feature[i][l];
      // By p, then by Y.
      const double by0 = wf * (slope * p[i] * p[0] + (i == 0 ? bend : 0)),
                   by1 = wf * (slope * p[i] * p[1] + (i == 0 ? 0 : bend));
      const double g0 = by0 * over, g1 = by1 * over, g2 = -(by0 * p[0] + by1 * p[1]) * over;
      const double ga = g0 * a0 + g1 * a1 + g2 * a2, gd = g0 * d0 + g1 * d1 + g2 * d2,
                   gx = g0 * x0 + g1 * x1 + g2 * x2;
      // By X: g turned back. By C: the same with another sign.
      const double turned[3] = {g0 * c + (g1 * a2 - g2 * a1) * s + a0 * ga * rest,
                                g1 * c + (g2 * a0 - g0 * a2) * s + a1 * ga * rest,
                                g2 * c + (g0 * a1 - g1 * a0) * s + a2 * ga * rest};
#pragma GCC unroll 3
      for (std::size_t j = 0; j < 3; ++j) {
        lanes.by_point[i][j][l] = turned[j];
        to[3 + j][l] = -turned[j];
      }
      // By the angle, and by the axis, of which what lies along it is no change of it.
      const double by_angle = c * gx - s * gd + s * ga * ad;
      const double b0 = s * (d1 * g2 - d2 * g1) + rest * (ad * g0 + ga * d0),
                   b1 = s * (d2 * g0 - d0 * g2) + rest * (ad * g1 + ga * d1),
                   b2 = s * (d0 * g1 - d1 * g0) + rest * (ad * g2 + ga * d2);
      const double ab = a0 * b0 + a1 * b1 + a2 * b2, turn = by_angle - ab * each;
      to[0][l] = a0 * turn + b0 * each;
      to[1][l] = a1 * turn + b1 * each;
      to[2][l] = a2 * turn + b2 * each;
    }
  }
}

Doubles points() {
  Doubles x = uniform(2, kObservations * kPoint);
  for (std::size_t i = 2; i < x.size(); i += kPoint) x[i] += 5;
  return x;
}
struct Bundle {
  Doubles camera = uniform(1, kObservations* kCamera), point = points(),
          weight = uniform(3, kObservations), feature = uniform(4, kObservations * 2);
  Doubles by_camera = Doubles(kObservations * 2 * kCamera),
          by_point = Doubles(kObservations * 2 * kPoint), by_weight = Doubles(kObservations * 2);
  Lanes lanes{};

  void jacobian() {
    for (std::size_t first = 0; first < kObservations; first += kLane) {
      const std::size_t count = std::min(kLane, kObservations - first);
      for (std::size_t l = 0; l < count; ++l) {
        const std::size_t at = first + l;
        for (std::size_t j = 0; j < kCamera; ++j) lanes.camera[j][l] = camera[at * kCamera + j];
        for (std::size_t j = 0; j < kPoint; ++j) lanes.point[j][l] = point[at * kPoint + j];
        for (std::size_t j = 0; j < 2; ++j) lanes.feature[j][l] = feature[at * 2 + j];
        lanes.weight[l] = weight[at];
      }
      differentiate(lanes);
      for (std::size_t l = 0; l < count; ++l) {
        const std::size_t at = (first + l) * 2;
        for (std::size_t i = 0; i < 2; ++i) {
          for (std::size_t j = 0; j < kCamera; ++j)
            by_camera[(at + i) * kCamera + j] = lanes.by_camera[i][j][l];
          for (std::size_t j = 0; j < kPoint; ++j)
            by_point[(at + i) * kPoint + j] = lanes.by_point[i][j][l];
          by_weight[at + i] = lanes.by_weight[i][l];
        }
      }
    }
  }
};
const Register block("B12.ba_block", "ns", [] {
  Case c = by_hand(
      Bundle(), [](Bundle& b) { b.jacobian(); },
      [](const Bundle& b) {
        return std::vector{output(b.by_camera), output(b.by_point), output(b.by_weight)};
      });
  return per(kObservations, std::move(c), "per 2 x 15 block, f64");
});

}  // namespace
}  // namespace bench
