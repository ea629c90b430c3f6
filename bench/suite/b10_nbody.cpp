// B10: gravity among 1024 bodies, arrays whose last axis has length 3, and such of other short lengths.
#include <fmt/format.h>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kBodies = 1024;

Array energy(const Array& x, const Array& m) {
  const Array r = x(slice(), newaxis) - x(newaxis), d2 = sum(square(r), -1) + 1e-4;
  return -.5 * sum(m(slice(), newaxis) * m * rsqrt(d2));
}
Array acceleration(const Array& x, const Array& m) {
  return -grad(energy)(x, m) / m(slice(), newaxis);
}
std::pair<Array, Array> leapfrog(Array x, Array v, const Array& m) {
  constexpr double h = 1e-3;
  for (int i = 0; i < 10; ++i) {
    v = v + h / 2 * acceleration(x, m);
    x = x + h * v;
    v = v + h / 2 * acceleration(x, m);
  }
  return {x, v};
}
Array final_energy(const Array& m, const Array& x0, const Array& v0) {
  const auto [x, v] = leapfrog(x0, v0, m);
  return energy(x, m) + .5 * sum(m(slice(), newaxis) * v * v);
}

Array positions() { return u(1, {kBodies, 3}); }
Array velocities() { return .1 * z(2, {kBodies, 3}); }
Array masses() { return (.5 + u(3, {kBodies})) / kBodies; }

// Operations of a pair, of which there are half as many as places (i, j): the distance 9, its root 1; of the energy 3
// more; of a force 4 for both masses over the cube, and 12 to add three components to two bodies.
constexpr double kEnergy = 13, kForce = 26;

/// n evaluations of so much each.
Case pairs(double n, double flops, Case c) {
  c.items = n * kBodies * kBodies;
  c.flops = n * flops * kBodies * (kBodies - 1) / 2;
  return c;
}
const Register energies("B10.nbody_energy", "us", [] {
  return pairs(1, kEnergy, go(compiled(energy), positions(), masses()));
});
const Register forces("B10.nbody_force", "us", [] {
  return pairs(1, kForce, go(compiled(acceleration), positions(), masses()));
});
const Register steps("B10.nbody_leapfrog10", "ms", [] {
  // The forces at the end of a step are those at the start of the next.
  return pairs(11, kForce, go(compiled(leapfrog), positions(), velocities(), masses()));
});
const Register through_steps("B10.nbody_grad", "ms", [] {
  // What is pulled back takes twice what the force takes.
  Case c =
      pairs(11, 3 * kForce, go(compiled(grad(final_energy)), masses(), positions(), velocities()));
  c.note = "by the masses, through 10 steps";
  c.tolerance = 2e-3;  // close encounters
  return c;
});

Array unit_rows(const Array& x) {
  return x * rsqrt(sum(square(x), {.axes = -1, .keepdims = true}));
}
Array turned(const Array& x, const Array& turn, const Array& by) {
  return matmul(x, turn.T()) + by;
}
/// Quaternions as matrices of 3 x 3.
Array rotations(const Array& q) {
  const Array w = q(slice(), 0), x = q(slice(), 1), y = q(slice(), 2), z = q(slice(), 3);
  return stack({stack({1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)}, -1),
                stack({2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)}, -1),
                stack({2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}, -1)},
               -2);
}
Array distances(const Array& x) { return sum(square(x(slice(), newaxis) - x(newaxis)), -1); }

/// Forces on the points of a cloth: springs between those that lie side by side or one above the other.
Array strain(const Array& x) {
  const auto of = [](const Array& d) {
    return .5 * sum(square(sqrt(sum(square(d), -1) + 1e-6) - .5));
  };
  return of(x(slice(1, {})) - x(slice({}, -1))) +
         of(x(slice(), slice(1, {})) - x(slice(), slice({}, -1)));
}
const Register cloth("B10.cloth", "us", [] {
  const auto forces = [](const Array& x) { return -grad(strain)(x); };
  return moving(8. * 3 * 256 * 256, go(compiled(forces), u(1, {256, 256, 3})));
});

const bool short_axes = [] {
  for (const std::int64_t k : {2, 3, 4}) {
    Register(fmt::format("B10.turned_points_{}", k), "us", [k] {
      Case c = go(compiled(turned), z(1, {1 << 16, k}), z(2, {k, k}), z(3, {k}));
      return moving(8. * (1 << 16) * static_cast<double>(k), std::move(c));
    });
  }
  // Points with their coordinates in another order.
  const auto swizzled = [](const Array& x) { return x(slice(), Array{2, 0, 1}); };
  const auto flipped = [](const Array& x) { return flip(x, -1); };
  const auto points = [](auto f) {
    return moving(8. * 3 * (1 << 16), go(compiled(f), z(1, {1 << 16, 3})));
  };
  Register("B10.swizzled_points", "us", [=] { return points(swizzled); });
  Register("B10.flipped_points", "us", [=] { return points(flipped); });
  Register("B10.rotations", "us", [] {
    return moving(4. * (4 + 9) * (1 << 16), go(compiled(rotations), z(1, {1 << 16, 4})));
  });
  for (const std::int64_t k : {2, 4, 5, 8, 9, 16}) {
    Register(fmt::format("B10.unit_rows_{}", k), "us", [k] {
      return moving(8. * (1 << 16) * static_cast<double>(k),
                    go(compiled(unit_rows), z(1, {1 << 16, k})));
    });
    Register(fmt::format("B10.distances_{}", k), "us", [k] {
      Case c =
          pairs(1, 3. * static_cast<double>(k) - 1, go(compiled(distances), u(1, {kBodies, k})));
      c.bytes = 4. * kBodies * kBodies;
      return c;
    });
  }
  return true;
}();

}  // namespace
}  // namespace bench
