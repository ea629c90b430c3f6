// B08 by hand: the logistic map, a chain of ODEs, a ring of numbers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

// ---- the logistic map ----------------------------------------------------------------------------
NOINLINE float logistic(float c, long trips) {
  for (long i = 0; i < trips; ++i) c = 3.7f * c * (1 - c);
  return c;
}

NOINLINE float logistic_grad(float r, long trips) {
  float c = .5f, d = 0;
  for (long i = 0; i < trips; ++i) {
    d = c * (1 - c) + r * (1 - 2 * c) * d;
    c = r * c * (1 - c);
  }
  return d;
}

NOINLINE void logistic_1024(const float* x, float* out, long trips) {
  constexpr int kVectors = 8;
  for (std::size_t b = 0; b < 1024; b += kVectors * kWide) {
    FloatVector c[kVectors];
    std::memcpy(c, x + b, sizeof c);
    for (long t = 0; t < trips; ++t) {
      for (auto& q : c) q = 3.7f * q * (1 - q);
    }
    std::memcpy(out + b, c, sizeof c);
  }
}

// ---- Runge-Kutta of a chain ----------------------------------------------------------------------
// y[0] is the constant 1 in front of component 0, so component i sits at y[i + 1]. All stages of a
// block of components are done together (they need NB + 3 neighbours): a step stays in the L1 cache.
struct Chain {
  static constexpr int n = 1000, s = 100, NB = 200, H = 4;  // H zeros on either side
  double h = 2.0 / s, x[H + n + H] = {}, ys[s + 1][H + n + H] = {}, g[2][n + 2 * H] = {};

  static __attribute__((always_inline)) void stages(const double* X, const double* Y, double h,
                                                    double* k1, double* k2, double* k3) {
    for (int i = -3; i < NB; ++i) k1[i + 1] = X[i] * Y[i];
    for (int i = -2; i < NB; ++i) k2[i + 1] = X[i] * (Y[i] + h / 2 * k1[i]);
    for (int i = -1; i < NB; ++i) k3[i + 1] = X[i] * (Y[i] + h / 2 * k2[i]);
  }
  NOINLINE void primal(bool tape) {
    for (auto& v : ys[0]) v = 0;
    ys[0][H] = 1;
    double a[3][NB + 2 * H] = {};
    for (int t = 0; t < s; ++t) {
      const double* __restrict Y = ys[tape ? t : t & 1];
      double* __restrict O = ys[tape ? t + 1 : (t + 1) & 1];
      O[H] = 1;
      O[0] = O[1] = O[2] = O[3] = 0;
      for (int b = 0; b < n; b += NB) {
        double* __restrict k1 = a[0] + H, * __restrict k2 = a[1] + H, * __restrict k3 = a[2] + H;
        const double* __restrict X = x + H + b, * __restrict y = Y + H + b;
        stages(X, y, h, k1, k2, k3);
        for (int i = 0; i < NB; ++i)
          O[H + b + i + 1] =
              y[i + 1] +
              h / 6 * (k1[i + 1] + 2 * (k2[i + 1] + k3[i + 1]) + X[i] * (y[i] + h * k3[i]));
      }
    }
  }
  NOINLINE void gradient(double* gx) {
    primal(true);
    std::fill(gx, gx + n, 0.0);
    for (auto& q : g) std::fill(std::begin(q), std::end(q), 0.0);
    g[0][H + 100] = 1;
    double a[7][NB + 2 * H] = {};
    for (int t = s - 1, f = 0; t >= 0; --t, f ^= 1) {
      double *q4 = a[3] + H, *q3 = a[4] + H, *q2 = a[5] + H, *q1 = a[6] + H;
      q4[NB] = q3[NB] = q2[NB] = q1[NB] = 0;
      const double* __restrict G = g[f] + H;
      double* __restrict O = g[f ^ 1] + H;
      for (int b = n - NB; b >= 0; b -= NB) {
        double* __restrict k1 = a[0] + H, * __restrict k2 = a[1] + H, * __restrict k3 = a[2] + H;
        const double* __restrict X = x + H + b, * __restrict Y = ys[t] + H + b;
        double* __restrict D = gx + b;
        stages(X, Y, h, k1, k2, k3);
        double* __restrict Q4 = q4, * __restrict Q3 = q3, * __restrict Q2 = q2, * __restrict Q1 = q1;
        for (int i = 0; i < NB; ++i) {
          const double w = h / 6 * G[b + i + 1];
          D[i] += w * (Y[i] + h * k3[i]);
          Q4[i] = w * X[i];
        }
        for (int i = 0; i < NB; ++i) {
          const double w = h / 3 * G[b + i + 1] + h * Q4[i + 1];
          D[i] += w * (Y[i] + h / 2 * k2[i]);
          Q3[i] = w * X[i];
        }
        for (int i = 0; i < NB; ++i) {
          const double w = h / 3 * G[b + i + 1] + h / 2 * Q3[i + 1];
          D[i] += w * (Y[i] + h / 2 * k1[i]);
          Q2[i] = w * X[i];
        }
        for (int i = 0; i < NB; ++i) {
          const double w = h / 6 * G[b + i + 1] + h / 2 * Q2[i + 1];
          D[i] += w * Y[i];
          Q1[i] = w * X[i];
        }
        for (int i = 0; i < NB; ++i) O[b + i] = G[b + i] + Q1[i] + Q2[i] + Q3[i] + Q4[i];
        if (b + NB == n) O[n] = G[n];
        Q4[NB] = Q4[0], Q3[NB] = Q3[0], Q2[NB] = Q2[0], Q1[NB] = Q1[0];
      }
    }
  }
};
static Chain chain;

void ode_rk4(const double* x, double* y) {
  std::copy(x, x + Chain::n, chain.x + Chain::H);
  chain.primal(false);
  std::copy_n(chain.ys[Chain::s & 1] + Chain::H + 1, Chain::n, y);
}
void ode_rk4_grad(const double* x, double* gx) {
  std::copy(x, x + Chain::n, chain.x + Chain::H);
  chain.gradient(gx);
}

// ---- 32 numbers in a ring ------------------------------------------------------------------------
constexpr int kRing = 32, kPad = 2;  // two neighbours on either side
struct Ring {
  double c[kPad + kRing + kPad];
  void close() {
    for (int i = 0; i < kPad; ++i) {
      c[i] = c[kRing + i];
      c[kPad + kRing + i] = c[kPad + i];
    }
  }
};

inline void ring_step(const Ring& from, Ring& to) {
  const double* c = from.c + kPad;
  for (int i = 0; i < kRing; ++i)
    to.c[kPad + i] = c[i] + 1e-3 * (c[i + 1] * (c[i + 2] - c[i - 1]) - c[i] + 8);
  to.close();
}

NOINLINE double scan32(const double* c, long trips) {
  Ring a, b;
  std::copy(c, c + kRing, a.c + kPad);
  a.close();
  for (long t = 0; t < trips; ++t) {
    ring_step(a, b);
    a = b;
  }
  double sum = 0;
  for (int i = 0; i < kRing; ++i) sum += a.c[kPad + i];
  return sum;
}

NOINLINE void scan32_grad(const double* c, long trips, double* gradient) {
  static std::vector<Ring> tape;
  tape.resize(static_cast<std::size_t>(trips) + 1);
  std::copy(c, c + kRing, tape[0].c + kPad);
  tape[0].close();
  for (std::size_t t = 0; t < static_cast<std::size_t>(trips); ++t) ring_step(tape[t], tape[t + 1]);
  Ring g, next;
  std::fill(std::begin(g.c), std::end(g.c), 1.0);
  for (long t = trips - 1; t >= 0; --t) {
    const double *s = tape[static_cast<std::size_t>(t)].c + kPad, *d = g.c + kPad;
    for (int i = 0; i < kRing; ++i) {
      next.c[kPad + i] = d[i] + 1e-3 * (d[i - 1] * (s[i + 1] - s[i - 2]) + d[i - 2] * s[i - 1] -
                                        d[i + 1] * s[i + 2] - d[i]);
    }
    next.close();
    g = next;
  }
  std::copy_n(g.c + kPad, kRing, gradient);
}

// ---- the cases -----------------------------------------------------------------------------------
struct One {
  float x = 0, result = 0;
};
Case of_one(float x, long trips, float (*loop)(float, long)) {
  const auto work = [=](One& b) { b.result = loop(b.x, trips); };
  const auto result = [](const One& b) { return std::vector{output(std::span(&b.result, 1))}; };
  return per(static_cast<double>(trips), by_hand(One{x}, work, result), "per trip");
}
Case million_trips() {
  return chaotic([](long trips) { return of_one(.5f, trips, logistic); }, 1'000'000);
}
const Register logistic_scan("B08.logistic_scan", "ns", million_trips);
const Register logistic_fori("B08.logistic_fori", "ns", million_trips);
const Register logistic_slope("B08.logistic_grad", "ns",
                              [] { return of_one(1.5f, 100'000, logistic_grad); });

template <class T>
struct Buffers {
  std::vector<T> in, out;
};
template <class T, class Work>
Case of_many(std::vector<T> in, std::size_t outputs, Work work) {
  const auto results = [](const Buffers<T>& b) {
    return std::vector{output(std::span<const T>(b.out))};
  };
  return by_hand(Buffers<T>{std::move(in), std::vector<T>(outputs)}, work, results);
}
const Register logistic_vmap("B08.logistic_vmap_1024", "ns", [] {
  const auto make = [](long trips) {
    return of_many(uf(1, 1024), 1024,
                   [trips](Buffers<float>& b) { logistic_1024(b.in.data(), b.out.data(), trips); });
  };
  return per(1024e3, chaotic(make, 1000), "per element and trip");
});
const Register ode("B08.ode_rk4", "us", [] {
  const auto work = [](Buffers<double>& b) { ode_rk4(b.in.data(), b.out.data()); };
  Case c = of_many(uniform(31337, Chain::n), Chain::n, work);
  c.flops = 1000 * 100 * 16;
  return c;
});
const Register ode_grad("B08.ode_rk4_grad", "us", [] {
  const auto work = [](Buffers<double>& b) { ode_rk4_grad(b.in.data(), b.out.data()); };
  return of_many(uniform(31337, Chain::n), Chain::n, work);
});
const Register ring("B08.scan32", "ns", [] {
  const auto work = [](Buffers<double>& b) { b.out[0] = scan32(b.in.data(), 10'000); };
  return per(1e4, of_many(uniform(5, kRing), 1, work), "per trip");
});
const Register ring_grad("B08.scan32_grad", "ns", [] {
  const auto work = [](Buffers<double>& b) { scan32_grad(b.in.data(), 10'000, b.out.data()); };
  Case c = of_many(uniform(5, kRing), kRing, work);
  c.outputs = [inner = c.outputs] {  // an output for each of the scalars
    const std::vector<char> all = inner()[0].bytes;
    std::vector<Output> out;
    for (std::size_t i = 0; i < kRing; ++i) out.push_back(make_output("<f8", &all[8 * i], 8));
    return out;
  };
  return per(1e4, std::move(c), "per trip");
});

}  // namespace
}  // namespace bench
