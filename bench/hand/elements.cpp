// B12 by hand: Hessians of the elastic energy of tetrahedra, f64. Eight elements side by side.
//
// With edges D (rows x_j - x_0) and K the inverse of those at rest, the deformation is F = D^T K, and the energy
// (F : F - 3) / 2 - v + v^2 / 2 where v = log det F. Let g_j be the gradient of corner j's shape function at rest (a row of
// K; those of all corners add up to none), and p_j the same in what is deformed (a row of D^-T). Then the Hessian by corner i
// and corner j is
//   (g_i g_j) I + p_i p_j^T + (1 - v) p_j p_i^T.
#include <cmath>

#include "hand.hpp"
#include "lines.hpp"

namespace bench {
namespace {

constexpr std::size_t kElements = 4000, kLane = 8, kCorners = 4, kCoordinates = 12;

/// A number of each of eight elements.
using Lane = Vector<double>;
struct Lanes {
  Lane corner[kCorners][3], inverse[3][3], shape[kCorners][3], deformed[kCorners][3], log_det;
  Lane hessian[kCoordinates][kCoordinates];
};

Lane dot(const Lane* a, const Lane* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
void cross(const Lane* a, const Lane* b, Lane* out) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}
/// The shape functions' gradients, and log det F.
void deform(Lanes& lanes) {
  Lane d[3][3], p[3][3], area[3];
  const auto& k = lanes.inverse;
#pragma GCC unroll 3
  for (std::size_t j = 0; j < 3; ++j) {
#pragma GCC unroll 3
    for (std::size_t a = 0; a < 3; ++a) d[j][a] = lanes.corner[j + 1][a] - lanes.corner[0][a];
  }
  // The inverse of D, transposed, but for the determinant.
  cross(d[1], d[2], p[0]), cross(d[2], d[0], p[1]), cross(d[0], d[1], p[2]);
  cross(k[1], k[2], area);
  const Lane of_edges = dot(d[0], p[0]), each = 1 / of_edges;
  const Lane det = of_edges * dot(k[0], area);
  for (std::size_t l = 0; l < kLane; ++l) lanes.log_det[l] = std::log(det[l]);
#pragma GCC unroll 3
  for (std::size_t a = 0; a < 3; ++a) {
#pragma GCC unroll 3
    for (std::size_t j = 0; j < 3; ++j) {
      lanes.shape[j + 1][a] = k[j][a];
      lanes.deformed[j + 1][a] = p[j][a] * each;
    }
    lanes.shape[0][a] = -(k[0][a] + k[1][a] + k[2][a]);
    lanes.deformed[0][a] = -(p[0][a] + p[1][a] + p[2][a]) * each;
  }
}
void differentiate(Lanes& lanes) {
  deform(lanes);
  const Lane rest = 1 - lanes.log_det;
  for (std::size_t i = 0; i < kCorners; ++i) {
    for (std::size_t j = i; j < kCorners; ++j) {  // and the block below the diagonal
      const Lane *p = lanes.deformed[i], *q = lanes.deformed[j];
      const Lane stretch = dot(lanes.shape[i], lanes.shape[j]);
#pragma GCC unroll 3
      for (std::size_t a = 0; a < 3; ++a) {
#pragma GCC unroll 3
        for (std::size_t b = 0; b < 3; ++b) {
          Lane h = p[a] * q[b] + rest * (p[b] * q[a]);
          if (a == b) h += stretch;
          lanes.hessian[3 * i + a][3 * j + b] = h;
          lanes.hessian[3 * j + b][3 * i + a] = h;
        }
      }
    }
  }
}
/// Eight numbers of each of eight elements, which lie `stride` apart, and back.
void load_square(const double* from, std::size_t stride, Lane* to) {
  Line square[kLane];
#pragma GCC unroll 8
  for (std::size_t l = 0; l < kLane; ++l) square[l] = load_line(from + l * stride);
  turn_pairs(square);
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kLane; ++k) store_line(to + k, square[k]);
}
void store_square(const Lane* from, double* to, std::size_t stride) {
  Line square[kLane];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kLane; ++k) square[k] = load_line(from + k);
  turn_pairs(square);
#pragma GCC unroll 8
  for (std::size_t l = 0; l < kLane; ++l) store_line(to + l * stride, square[l]);
}

Doubles corners() {
  Doubles x = uniform(1, kElements * kCoordinates);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = i % kCoordinates;  // 3, 7 and 11 are the ones of the three edges
    x[i] = x[i] * .2 + (at % 4 == 3 ? 1 : 0);
  }
  return x;
}
Doubles inverses() {
  Doubles x = uniform(2, kElements * 9);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * .1 + (i % 9 % 4 == 0 ? 1 : 0);
  return x;
}
struct Elements {
  Doubles corner = corners(), inverse = inverses();
  Doubles hessian = Doubles(kElements * kCoordinates * kCoordinates);
  Lanes lanes{};

  void differentiate_all() {
    static_assert(kElements % kLane == 0);
    constexpr std::size_t kSize = kCoordinates * kCoordinates;
    for (std::size_t first = 0; first < kElements; first += kLane) {
      const double *x = &corner[first * kCoordinates], *k = &inverse[first * 9];
      Lane *corners_of = lanes.corner[0], *inverse_of = lanes.inverse[0];
      load_square(x, kCoordinates, corners_of);
      load_square(x + kCoordinates - kLane, kCoordinates, corners_of + kCoordinates - kLane);
      load_square(k, 9, inverse_of);
      for (std::size_t l = 0; l < kLane; ++l) inverse_of[8][l] = k[l * 9 + 8];
      differentiate(lanes);
      for (std::size_t j = 0; j < kSize; j += kLane)
        store_square(lanes.hessian[0] + j, &hessian[first * kSize + j], kSize);
    }
  }
};
const Register hessian("B12.element_hessian", "ns", [] {
  Case c = by_hand(
      Elements(), [](Elements& e) { e.differentiate_all(); },
      [](const Elements& e) { return std::vector{output(e.hessian)}; });
  return per(kElements, std::move(c), "per 12 x 12 Hessian, f64");
});

}  // namespace
}  // namespace bench
