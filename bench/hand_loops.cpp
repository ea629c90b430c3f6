// Loops by hand: see hand_loops.hpp. HAND_LOOPS is the name of this build's table.
#include "hand_loops.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#define NOINLINE __attribute__((noinline))

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

using Floats8 = float __attribute__((vector_size(32)));

NOINLINE void logistic_1024(const float* x, float* out, long trips) {
  for (int b = 0; b < 1024; b += 64) {
    Floats8 c[8];
    std::memcpy(c, x + b, sizeof c);
    for (long t = 0; t < trips; ++t) {
      for (auto& q : c) q = 3.7f * q * (1 - q);
    }
    std::memcpy(out + b, c, sizeof c);
  }
}

// ---- LSTM of diagonal gates (ADBench's D-LSTM) ---------------------------------------------------
constexpr int kLayers = 2, kWidth = 14, kSteps = 1023;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Record {
  double x[kWidth], h[kWidth], c[kWidth], f[kWidth], i[kWidth], o[kWidth], g[kWidth], th[kWidth];
};
struct Tape {
  std::vector<Record> records = std::vector<Record>(kSteps * kLayers);
  std::vector<double> y = std::vector<double>(kSteps * kWidth), lse = std::vector<double>(kSteps);
};

template <bool kRecord>
NOINLINE double lstm_forward(const double* main, const double* ex, const double* state,
                             const double* seq, Tape& tape) {
  constexpr int B = kWidth;
  double h[kLayers][B], c[kLayers][B], total = 0;
  Record local;
  for (int k = 0; k < kLayers; ++k) {
    for (int j = 0; j < B; ++j) {
      h[k][j] = state[k * 2 * B + j];
      c[k][j] = state[(k * 2 + 1) * B + j];
    }
  }
  for (int t = 0; t < kSteps; ++t) {
    double in[B];
    for (int j = 0; j < B; ++j) in[j] = seq[t * B + j] * ex[j];
    for (int k = 0; k < kLayers; ++k) {
      Record& r =
          kRecord
              ? tape.records[static_cast<std::size_t>(t) * kLayers + static_cast<std::size_t>(k)]
              : local;
      const double *w = main + k * 8 * B, *b = w + 4 * B;
      for (int j = 0; j < B; ++j) r.x[j] = in[j], r.h[j] = h[k][j], r.c[j] = c[k][j];
      for (int j = 0; j < B; ++j) r.f[j] = sigmoid(r.x[j] * w[j] + b[j]);
      for (int j = 0; j < B; ++j) r.i[j] = sigmoid(r.h[j] * w[B + j] + b[B + j]);
      for (int j = 0; j < B; ++j) r.o[j] = sigmoid(r.x[j] * w[2 * B + j] + b[2 * B + j]);
      for (int j = 0; j < B; ++j) r.g[j] = std::tanh(r.h[j] * w[3 * B + j] + b[3 * B + j]);
      for (int j = 0; j < B; ++j) {
        c[k][j] = r.c[j] * r.f[j] + r.i[j] * r.g[j];
        r.th[j] = std::tanh(c[k][j]);
        h[k][j] = in[j] = r.o[j] * r.th[j];
      }
    }
    double e = 2, y[B];
    const double* gold = seq + (t + 1) * B;
    for (int j = 0; j < B; ++j) y[j] = in[j] * ex[B + j] + ex[2 * B + j];
    for (int j = 0; j < B; ++j) e += std::exp(y[j]);
    const double l = std::log(e);
    for (int j = 0; j < B; ++j) total += gold[j] * (y[j] - l);
    if (kRecord) {
      tape.lse[static_cast<std::size_t>(t)] = l;
      std::copy(y, y + B, &tape.y[static_cast<std::size_t>(t) * B]);
    }
  }
  return -total / (static_cast<double>(kSteps) * B);
}

NOINLINE double lstm(const double* main, const double* ex, const double* state, const double* seq) {
  static Tape none;
  return lstm_forward<false>(main, ex, state, seq, none);
}

NOINLINE double lstm_grad(const double* main, const double* ex, const double* state,
                          const double* seq, double* dmain, double* dex) {
  constexpr int B = kWidth;
  static Tape tape;
  const double value = lstm_forward<true>(main, ex, state, seq, tape);
  const double scale = -1 / (static_cast<double>(kSteps) * B);
  double dh[kLayers][B] = {}, dc[kLayers][B] = {};
  std::fill(dmain, dmain + kLayers * 8 * B, 0);
  std::fill(dex, dex + 3 * B, 0);
  for (int t = kSteps - 1; t >= 0; --t) {
    const double *gold = seq + (t + 1) * B, *y = &tape.y[static_cast<std::size_t>(t) * B];
    const Record* records = &tape.records[static_cast<std::size_t>(t) * kLayers];
    const double lse = tape.lse[static_cast<std::size_t>(t)];
    double gs = 0, up[B];
    for (int j = 0; j < B; ++j) gs += gold[j];
    for (int j = 0; j < B; ++j) {
      const double d = scale * (gold[j] - gs * std::exp(y[j] - lse));
      dex[B + j] += d * records[kLayers - 1].o[j] * records[kLayers - 1].th[j];
      dex[2 * B + j] += d;
      up[j] = d * ex[B + j];
    }
    for (int k = kLayers - 1; k >= 0; --k) {
      const Record& r = records[k];
      const double* w = main + k * 8 * B;
      double *dw = dmain + k * 8 * B, *db = dw + 4 * B;
      for (int j = 0; j < B; ++j) {
        const double H = dh[k][j] + up[j], C = dc[k][j] + H * r.o[j] * (1 - r.th[j] * r.th[j]);
        const double af = C * r.c[j] * r.f[j] * (1 - r.f[j]),
                     ai = C * r.g[j] * r.i[j] * (1 - r.i[j]);
        const double ao = H * r.th[j] * r.o[j] * (1 - r.o[j]),
                     ag = C * r.i[j] * (1 - r.g[j] * r.g[j]);
        dc[k][j] = C * r.f[j];
        dw[j] += af * r.x[j], dw[B + j] += ai * r.h[j];
        dw[2 * B + j] += ao * r.x[j], dw[3 * B + j] += ag * r.h[j];
        db[j] += af, db[B + j] += ai, db[2 * B + j] += ao, db[3 * B + j] += ag;
        up[j] = af * w[j] + ao * w[2 * B + j];
        dh[k][j] = ai * w[B + j] + ag * w[3 * B + j];
      }
    }
    for (int j = 0; j < B; ++j) dex[j] += up[j] * seq[t * B + j];
  }
  return value;
}

// ---- GRU -----------------------------------------------------------------------------------------
#ifdef __AVX512F__
constexpr int kLanes = 16, kTileRows = 8;
#else
constexpr int kLanes = 8, kTileRows = 4;
#endif
using Floats = float __attribute__((vector_size(kLanes * 4)));
constexpr int kBatch = 16, kHidden = 128, kGates = 3 * kHidden;

// out = a b (+ bias): tiles of rows x 3 vectors stay in registers.
template <bool kBias>
void product(const float* a, const float* b, const float* bias, float* out) {
  for (int col = 0; col < kGates; col += 3 * kLanes) {
    for (int row = 0; row < kBatch; row += kTileRows) {
      Floats sum[kTileRows][3];
      for (auto& r : sum) {
        for (int v = 0; v < 3; ++v) {
          if (kBias) std::memcpy(&r[v], bias + col + v * kLanes, sizeof(Floats));
          else r[v] = Floats{};
        }
      }
      for (int k = 0; k < kHidden; ++k) {
        Floats w[3];
        std::memcpy(w, b + k * kGates + col, sizeof w);
        for (int r = 0; r < kTileRows; ++r) {
          for (int v = 0; v < 3; ++v) sum[r][v] += a[(row + r) * kHidden + k] * w[v];
        }
      }
      for (int r = 0; r < kTileRows; ++r)
        std::memcpy(out + (row + r) * kGates + col, sum[r], sizeof sum[r]);
    }
  }
}

NOINLINE void gru(const float* W, const float* U, const float* b, const float* xs, long steps,
                  float* h) {
  static float a[kBatch * kGates], c[kBatch * kGates];
  std::fill(h, h + kBatch * kHidden, 0.f);
  for (long t = 0; t < steps; ++t) {
    product<true>(xs + t * kBatch * kHidden, W, b, a);
    product<false>(h, U, nullptr, c);
    for (int row = 0; row < kBatch; ++row) {
      const float* __restrict p = a + row * kGates, * __restrict q = c + row * kGates;
      float* __restrict s = h + row * kHidden;
      for (int j = 0; j < kHidden; ++j) {
        const float r = 1 / (1 + std::exp(-(p[j] + q[j])));
        const float z = 1 / (1 + std::exp(-(p[kHidden + j] + q[kHidden + j])));
        const float n = std::tanh(p[2 * kHidden + j] + r * q[2 * kHidden + j]);
        s[j] = (1 - z) * n + z * s[j];
      }
    }
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

// ---- the Lorenz system, lanes of 8 trajectories --------------------------------------------------
struct Dual {  // a value and its derivatives for three parameters
  Floats8 v, p, q, r;
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
inline Point<Floats8> eight(const float* y0, int b) {
  Point<Floats8> y{};
  for (int l = 0; l < 8; ++l) {
    y.a[l] = y0[(b + l) * 3];
    y.b[l] = y0[(b + l) * 3 + 1];
    y.c[l] = y0[(b + l) * 3 + 2];
  }
  return y;
}
inline Point<Floats8> spread(const float* p) {
  return {Floats8{} + p[0], Floats8{} + p[1], Floats8{} + p[2]};
}
template <class Use> void trajectories(const float* y0, const float* p, long steps,
                                       const Use& use) {
  const Point<Floats8> P = spread(p);
  for (int b = 0; b < kTrajectories; b += 16) {
    Point<Floats8> y = eight(y0, b), z = eight(y0, b + 8);
    for (long t = 0; t < steps; ++t) y = rk4(y, P), z = rk4(z, P);
    use(b, y);
    use(b + 8, z);
  }
}
inline float total(Floats8 x) {
  float s = 0;
  for (int l = 0; l < 8; ++l) s += x[l];
  return s;
}

NOINLINE void lorenz(const float* y0, const float* p, long steps, float* last) {
  trajectories(y0, p, steps, [&](int b, const Point<Floats8>& y) {
    for (int l = 0; l < 8; ++l) {
      last[(b + l) * 3] = y.a[l];
      last[(b + l) * 3 + 1] = y.b[l];
      last[(b + l) * 3 + 2] = y.c[l];
    }
  });
}
NOINLINE float lorenz_mean(const float* y0, const float* p, long steps) {
  Floats8 sum{};
  trajectories(y0, p, steps,
               [&](int, const Point<Floats8>& y) { sum += y.a * y.a + y.b * y.b + y.c * y.c; });
  return total(sum) / kTrajectories;
}
NOINLINE void lorenz_jacfwd(const float* y0, const float* p, long steps, float* gradient) {
  const Point<Floats8> P = spread(p);
  const Floats8 one = Floats8{} + 1, zero{};
  const Point<Dual> D{{P.a, one, zero, zero}, {P.b, zero, one, zero}, {P.c, zero, zero, one}};
  Floats8 g[3] = {};
  for (int b = 0; b < kTrajectories; b += 8) {
    const Point<Floats8> first = eight(y0, b);
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
  static std::vector<Point<Floats8>> tape;
  tape.resize(static_cast<std::size_t>(steps));
  const Point<Floats8> p = spread(parameters);
  const float h = .01f;
  Floats8 gs{}, gr{}, gb{};
  for (int b = 0; b < kTrajectories; b += 8) {
    Point<Floats8> y = eight(y0, b);
    for (auto& record : tape) record = y, y = rk4(y, p);
    Point<Floats8> g{2 * y.a, 2 * y.b, 2 * y.c};
    const auto vjp = [&](Point<Floats8> at, Point<Floats8> k) {
      gs += (at.b - at.a) * k.a;
      gr += at.a * k.b;
      gb -= at.c * k.c;
      return Point<Floats8>{-p.a * k.a + (p.b - at.c) * k.b + at.b * k.c,
                            p.a * k.a - k.b + at.a * k.c, -at.a * k.b - p.c * k.c};
    };
    for (long t = steps - 1; t >= 0; --t) {
      y = tape[static_cast<std::size_t>(t)];
      const auto y2 = axpy(y, h / 2, field(y, p)), y3 = axpy(y, h / 2, field(y2, p)),
                 y4 = axpy(y, h, field(y3, p));
      const Point<Floats8> zero{};
      const auto w4 = vjp(y4, axpy(zero, h / 6, g));
      const auto w3 = vjp(y3, axpy(axpy(zero, h / 3, g), h, w4));
      const auto w2 = vjp(y2, axpy(axpy(zero, h / 3, g), h / 2, w3));
      const auto w1 = vjp(y, axpy(axpy(zero, h / 6, g), h / 2, w2));
      g = axpy(axpy(axpy(axpy(g, 1, w1), 1, w2), 1, w3), 1, w4);
    }
  }
  const Floats8 sums[] = {gs, gr, gb};
  for (int k = 0; k < 3; ++k) gradient[k] = total(sums[k]) / kTrajectories;
}

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

}  // namespace

namespace hand {
extern const Loops HAND_LOOPS = {logistic, logistic_grad, logistic_1024, lstm,        lstm_grad,
                                 gru,      ode_rk4,       ode_rk4_grad,  scan32,      scan32_grad,
                                 lorenz,   lorenz_mean,   lorenz_jacfwd, lorenz_grad, newton_4096};
}  // namespace hand
