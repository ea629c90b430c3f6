// B17 by hand: Newton's iteration in lanes, small functions and their derivatives.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

// ---- Kepler's equation ---------------------------------------------------------------------------
NOINLINE void newton_4096(const double* e, const double* M, double* out) {
  constexpr int kBlock = 16;
  for (int b = 0; b < 4096; b += kBlock) {
    double x[kBlock], d[kBlock], si[kBlock], co[kBlock];
    for (int l = 0; l < kBlock; ++l) x[l] = M[b + l], d[l] = 1;
    for (bool more = true; more;) {
      more = false;
      // In loops of their own: merged into one call of sincos they would not become vectors.
      for (int l = 0; l < kBlock; ++l) si[l] = std::sin(x[l]);
      asm volatile("" ::: "memory");
      for (int l = 0; l < kBlock; ++l) co[l] = std::cos(x[l]);
      for (int l = 0; l < kBlock; ++l) {
        const double s = (x[l] - e[b + l] * si[l] - M[b + l]) / (1 - e[b + l] * co[l]);
        d[l] = std::fabs(d[l]) > 1e-10 ? s : 0;
        x[l] -= d[l];
      }
      for (int l = 0; l < kBlock; ++l) more |= std::fabs(d[l]) > 1e-10;
    }
    std::copy(x, x + kBlock, out + b);
  }
}

struct KeplerBuffers {
  Doubles e, M, x;
};
const Register newton("B17.while_newton", "us", [] {
  KeplerBuffers b{uniform(1, 4096), uniform(2, 4096), Doubles(4096)};
  for (double& e : b.e) e *= .9;
  for (double& M : b.M) M *= 6.28;
  return by_hand(
      std::move(b), [](KeplerBuffers& k) { newton_4096(k.e.data(), k.M.data(), k.x.data()); },
      [](const KeplerBuffers& k) { return std::vector{output(k.x)}; });
});

// ---- ten operations on 16 elements ---------------------------------------------------------------
struct Sixteen {
  Floats x = uf(1, 16), y = Floats(16), dx = Floats(16);
  float sum = 0;
};
NOINLINE void chain10(const float* __restrict x, float* __restrict out) {
  for (int i = 0; i < 16; ++i) {
    float y = std::sin(x[i] * x[i]) + x[i];
    y = std::tanh(std::exp(-y) * .5f) + 1;
    out[i] = std::log(y) * x[i];
  }
}
// Sines and cosines in loops of their own: one call of sincos would not become vectors.
NOINLINE float chain10_grad(const float* __restrict x, float* __restrict out) {
  float si[16], co[16], value[16], sum = 0;
  for (int i = 0; i < 16; ++i) si[i] = std::sin(x[i] * x[i]);
  asm volatile("" ::: "memory");
  for (int i = 0; i < 16; ++i) co[i] = std::cos(x[i] * x[i]);
  for (int i = 0; i < 16; ++i) {
    const float v = x[i], y = si[i] + v, dy = 2 * v * co[i] + 1, e = std::exp(-y) * .5f;
    const float t = std::tanh(e), w = t + 1, l = std::log(w);
    value[i] = l * v;
    out[i] = l + v * (1 - t * t) * (-e * dy) / w;
  }
  for (const float v : value) sum += v;
  return sum;
}
const Register small_chain("B17.small_jit_10", "ns", [] {
  return by_hand(
      Sixteen(), [](Sixteen& s) { chain10(s.x.data(), s.y.data()); },
      [](const Sixteen& s) { return std::vector{output(s.y)}; });
});
const Register small_chain_grad("B17.small_jit_10_grad", "ns", [] {
  return by_hand(
      Sixteen(), [](Sixteen& s) { s.sum = chain10_grad(s.x.data(), s.dx.data()); },
      [](const Sixteen& s) { return std::vector{output(std::span(&s.sum, 1)), output(s.dx)}; });
});

// ---- Rosenbrock's function of ten variables ------------------------------------------------------
NOINLINE void rosenbrock_grad(const double* x, double* g) {
  std::fill(g, g + 10, 0.0);
  for (int i = 0; i < 9; ++i) {
    const double d = x[i + 1] - x[i] * x[i];
    g[i] += -400 * d * x[i] - 2 * (1 - x[i]);
    g[i + 1] += 200 * d;
  }
}
NOINLINE void rosenbrock_hessian(const double* x, double* H) {
  std::fill(H, H + 100, 0.0);
  for (int i = 0; i < 9; ++i) {
    H[11 * i] += 1200 * x[i] * x[i] - 400 * x[i + 1] + 2;
    H[11 * (i + 1)] += 200;
    H[10 * i + i + 1] = H[10 * (i + 1) + i] = -400 * x[i];
  }
}
// The Jacobian of (x[i + 1] - x[i - 2]) x[i - 1] - x[i] + 8 in a ring of 40.
NOINLINE void lorenz96_jacobian(const double* x, double* J) {
  std::fill(J, J + 1600, 0.0);
  for (int i = 0; i < 40; ++i) {
    const int next = (i + 1) % 40, before = (i + 39) % 40, second = (i + 38) % 40;
    J[40 * i + next] += x[before];
    J[40 * i + second] -= x[before];
    J[40 * i + before] += x[next] - x[second];
    J[40 * i + i] -= 1;
  }
}
struct Small {
  Doubles x, out;
};
Case small(Doubles x, std::size_t outputs, void (*f)(const double*, double*)) {
  return by_hand(
      Small{std::move(x), Doubles(outputs)}, [f](Small& s) { f(s.x.data(), s.out.data()); },
      [](const Small& s) { return std::vector{output(s.out)}; });
}
const Register grad_small("B17.grad_small", "ns",
                          [] { return small(uniform(1, 10), 10, rosenbrock_grad); });
const Register hessian_small("B17.hessian_small", "ns",
                             [] { return small(uniform(1, 10), 100, rosenbrock_hessian); });
const Register jacfwd("B17.jacfwd", "ns",
                      [] { return small(centred(1, 40), 1600, lorenz96_jacobian); });
const Register jacrev("B17.jacrev", "ns",
                      [] { return small(centred(1, 40), 1600, lorenz96_jacobian); });

}  // namespace
}  // namespace bench
