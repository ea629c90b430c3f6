// B10 by hand: gravity among 1024 bodies, coordinates in arrays of their own.
#include <algorithm>
#include <cmath>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

constexpr std::size_t kBodies = 1024;
struct Vectors {
  float k[3][kBodies];
};
struct Bodies {
  Vectors x{}, v{}, x0{}, v0{}, a{};
  float m[kBodies] = {}, dm[kBodies] = {}, energy = 0;

  Bodies() {
    const Floats x_in = uf(1, 3 * kBodies), v_in = zf(2, 3 * kBodies), m_in = uf(3, kBodies);
    for (std::size_t i = 0; i < kBodies; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        x0.k[k][i] = x_in[3 * i + k];
        v0.k[k][i] = .1f * v_in[3 * i + k];
      }
      m[i] = (.5f + m_in[i]) / kBodies;
    }
    x = x0;
    v = v0;
  }
};

NOINLINE void energy(Bodies& b) {
  const float *X = b.x.k[0], *Y = b.x.k[1], *Z = b.x.k[2];
  float e = 0;
  for (std::size_t i = 0; i < kBodies; ++i) {
    float s[kLanes] = {};
    for (std::size_t j = 0; j < kBodies; j += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float dx = X[i] - X[j + l], dy = Y[i] - Y[j + l], dz = Z[i] - Z[j + l];
        s[l] += b.m[j + l] / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-4f);
      }
    }
    for (const float part : s) e -= .5f * b.m[i] * part;
  }
  b.energy = e;
}

NOINLINE void acceleration(Bodies& b) {
  const float *X = b.x.k[0], *Y = b.x.k[1], *Z = b.x.k[2];
  for (std::size_t i = 0; i < kBodies; ++i) {
    float s[3][kLanes] = {};
    for (std::size_t j = 0; j < kBodies; j += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float dx = X[i] - X[j + l], dy = Y[i] - Y[j + l], dz = Z[i] - Z[j + l];
        const float r = 1 / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-4f);
        const float f = b.m[j + l] * r * r * r;
        s[0][l] -= f * dx;
        s[1][l] -= f * dy;
        s[2][l] -= f * dz;
      }
    }
    for (std::size_t k = 0; k < 3; ++k) {
      float sum = 0;
      for (const float part : s[k]) sum += part;
      b.a.k[k][i] = sum;
    }
  }
}

void advance(Vectors& to, float h, const Vectors& by) {
  for (std::size_t k = 0; k < 3; ++k) {
    for (std::size_t i = 0; i < kBodies; ++i) to.k[k][i] += h * by.k[k][i];
  }
}
/// Ten steps; the acceleration at the end of one is that at the start of the next.
void leapfrog(Bodies& b) {
  constexpr float h = 1e-3f;
  b.x = b.x0;
  b.v = b.v0;
  acceleration(b);
  for (int i = 0; i < 10; ++i) {
    advance(b.v, h / 2, b.a);
    advance(b.x, h, b.v);
    acceleration(b);
    advance(b.v, h / 2, b.a);
  }
}

// ---- the gradient of the final energy by the masses ----------------------------------------------
/// Adds to gx and gm what A, a cotangent of the accelerations at x, gives. Of a pair with d = x_i - x_j
/// and u = m_j A_i - m_i A_j:  gx_i -= u / s^3 - 3 d (d u) / s^5,  gm_i += d A_j / s^3.
NOINLINE void pull_acceleration(const Vectors& x, const float* m, const Vectors& A, Vectors& gx,
                                float* gm) {
  for (std::size_t i = 0; i < kBodies; ++i) {
    float s[4][kLanes] = {};
    for (std::size_t j = 0; j < kBodies; j += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        float d[3], u[3], d2 = 1e-4f, du = 0, dA = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          d[k] = x.k[k][i] - x.k[k][j + l];
          u[k] = m[j + l] * A.k[k][i] - m[i] * A.k[k][j + l];
          d2 += d[k] * d[k];
          du += d[k] * u[k];
          dA += d[k] * A.k[k][j + l];
        }
        const float r = 1 / std::sqrt(d2), r3 = r * r * r, f = 3 * du * r3 * r * r;
        for (std::size_t k = 0; k < 3; ++k) s[k][l] += f * d[k] - r3 * u[k];
        s[3][l] += r3 * dA;
      }
    }
    for (std::size_t k = 0; k < 4; ++k) {
      float sum = 0;
      for (const float part : s[k]) sum += part;
      (k < 3 ? gx.k[k][i] : gm[i]) += sum;
    }
  }
}

/// The sum of m_j / s over j: the derivative of the energy by m_i is its negative.
NOINLINE void attraction(const Vectors& x, const float* m, float* out) {
  const float *X = x.k[0], *Y = x.k[1], *Z = x.k[2];
  for (std::size_t i = 0; i < kBodies; ++i) {
    float s[kLanes] = {}, sum = 0;
    for (std::size_t j = 0; j < kBodies; j += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        const float dx = X[i] - X[j + l], dy = Y[i] - Y[j + l], dz = Z[i] - Z[j + l];
        s[l] += m[j + l] / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-4f);
      }
    }
    for (const float part : s) sum += part;
    out[i] = sum;
  }
}

void gradient(Bodies& b) {
  constexpr float h = 1e-3f;
  constexpr std::size_t kSteps = 10;
  static Vectors path[kSteps + 1], gx, gv, A;
  b.x = b.x0;
  b.v = b.v0;
  acceleration(b);
  path[0] = b.x;
  for (std::size_t t = 1; t <= kSteps; ++t) {
    advance(b.v, h / 2, b.a);
    advance(b.x, h, b.v);
    acceleration(b);
    advance(b.v, h / 2, b.a);
    path[t] = b.x;
  }
  attraction(b.x, b.m, b.dm);
  for (std::size_t i = 0; i < kBodies; ++i) {
    b.dm[i] = -b.dm[i];
    for (std::size_t k = 0; k < 3; ++k) {
      b.dm[i] += .5f * b.v.k[k][i] * b.v.k[k][i];
      gx.k[k][i] = -b.m[i] * b.a.k[k][i];
      gv.k[k][i] = b.m[i] * b.v.k[k][i];
    }
  }
  A = Vectors();
  advance(A, h / 2, gv);
  for (std::size_t t = kSteps; t >= 1; --t) {
    pull_acceleration(path[t], b.m, A, gx, b.dm);
    advance(gv, h, gx);
    A = Vectors();
    advance(A, t > 1 ? h : h / 2, gv);  // the end of one step and the start of the next
  }
  pull_acceleration(path[0], b.m, A, gx, b.dm);
}

Output rows(const Vectors& v) {
  Floats out;
  for (std::size_t i = 0; i < kBodies; ++i) {
    for (const auto& axis : v.k) out.push_back(axis[i]);
  }
  return output(out);
}
template <class Results>
Case pairs(double n, void (*work)(Bodies&), Results results) {
  Case c = by_hand(Bodies(), work, results);
  c.items = n * kBodies * kBodies;
  return c;
}

const Register nbody_energy("B10.nbody_energy", "us", [] {
  return pairs(1, energy,
               [](const Bodies& b) { return std::vector{output(std::span(&b.energy, 1))}; });
});
const Register nbody_force("B10.nbody_force", "us", [] {
  return pairs(1, acceleration, [](const Bodies& b) { return std::vector{rows(b.a)}; });
});
const Register nbody_leapfrog("B10.nbody_leapfrog10", "ms", [] {
  return pairs(20, leapfrog, [](const Bodies& b) { return std::vector{rows(b.x), rows(b.v)}; });
});
const Register nbody_grad("B10.nbody_grad", "ms", [] {
  Case c =
      pairs(20, gradient, [](const Bodies& b) { return std::vector{output(std::span(b.dm))}; });
  c.tolerance = 2e-3;
  return c;
});

}  // namespace
}  // namespace bench
