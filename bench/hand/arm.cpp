// B12 by hand: Jacobians of where an arm of six joints ends, f64. By the angle of a joint the end turns about its axis:
// the axis times what lies between them. Eight arms side by side.
#include <algorithm>
#include <cmath>

#include "hand.hpp"
#include "sine_and_cosine.hpp"

namespace bench {
namespace {

constexpr std::size_t kArms = 20000, kJoints = 6, kLane = 8;
constexpr double kJoint[kJoints][3] = {{.1, 1.57, .3}, {.4, 0, 0},   {.05, 1.57, 0},
                                       {0, -1.57, .4}, {0, 1.57, 0}, {0, 0, .1}};

struct Lanes {
  double angle[kJoints][kLane], by_angle[3][kJoints][kLane];
};
struct Twists {
  double cosine[kJoints], sine[kJoints];
};

__attribute__((noinline)) void differentiate(Lanes& lanes, const Twists& twists) {
#pragma omp simd
  for (std::size_t l = 0; l < kLane; ++l) {
    // The axes x, y and z of the frame of each joint, and where it is.
    double x[3] = {1, 0, 0}, y[3] = {0, 1, 0}, z[3] = {0, 0, 1}, at[3] = {0, 0, 0};
    double axis[kJoints][3], place[kJoints][3];
#pragma GCC unroll 6
    for (std::size_t j = 0; j < kJoints; ++j) {
      double s, c;
      sine_and_cosine(lanes.angle[j][l], s, c);
      const double ct = twists.cosine[j], st = twists.sine[j], length = kJoint[j][0],
                   offset = kJoint[j][2];
#pragma GCC unroll 3
      for (std::size_t d = 0; d < 3; ++d) {
        axis[j][d] = z[d];
        place[j][d] = at[d];
        const double turned = x[d] * c + y[d] * s, across = y[d] * c - x[d] * s;
        at[d] += turned * length + z[d] * offset;
        x[d] = turned;
        y[d] = across * ct + z[d] * st;
        z[d] = z[d] * ct - across * st;
      }
    }
#pragma GCC unroll 6
    for (std::size_t j = 0; j < kJoints; ++j) {
      const double* a = axis[j];
      const double r[3] = {at[0] - place[j][0], at[1] - place[j][1], at[2] - place[j][2]};
      lanes.by_angle[0][j][l] = a[1] * r[2] - a[2] * r[1];
      lanes.by_angle[1][j][l] = a[2] * r[0] - a[0] * r[2];
      lanes.by_angle[2][j][l] = a[0] * r[1] - a[1] * r[0];
    }
  }
}

struct Arms {
  Doubles angle = uniform(1, kArms* kJoints), jacobian = Doubles(kArms * 3 * kJoints);
  Twists twists{};
  Lanes lanes{};

  Arms() {
    for (std::size_t j = 0; j < kJoints; ++j) {
      twists.cosine[j] = std::cos(kJoint[j][1]);
      twists.sine[j] = std::sin(kJoint[j][1]);
    }
  }
  void differentiate_all() {
    for (std::size_t first = 0; first < kArms; first += kLane) {
      const std::size_t count = std::min(kLane, kArms - first);
      for (std::size_t l = 0; l < count; ++l) {
        for (std::size_t j = 0; j < kJoints; ++j)
          lanes.angle[j][l] = angle[(first + l) * kJoints + j];
      }
      differentiate(lanes, twists);
      for (std::size_t l = 0; l < count; ++l) {
        double* to = &jacobian[(first + l) * 3 * kJoints];
        for (std::size_t d = 0; d < 3; ++d) {
          for (std::size_t j = 0; j < kJoints; ++j) *to++ = lanes.by_angle[d][j][l];
        }
      }
    }
  }
};
const Register jacobian("B12.arm_jacobian", "ns", [] {
  Case c = by_hand(
      Arms(), [](Arms& a) { a.differentiate_all(); },
      [](const Arms& a) { return std::vector{output(a.jacobian)}; });
  return per(kArms, std::move(c), "per 3 x 6 Jacobian, f64");
});

}  // namespace
}  // namespace bench
