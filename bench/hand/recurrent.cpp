// B08 by hand: recurrent networks.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

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
constexpr int kTileRows = kWide == 16 ? 8 : 4;
constexpr int kBatch = 16, kHidden = 128, kGates = 3 * kHidden;

// out = a b (+ bias): tiles of rows x 3 vectors stay in registers.
template <bool kBias>
void product(const float* a, const float* b, const float* bias, float* out) {
  for (int col = 0; col < kGates; col += 3 * kWide) {
    for (int row = 0; row < kBatch; row += kTileRows) {
      FloatVector sum[kTileRows][3] = {};
      if (kBias) {
#pragma GCC unroll 8
        for (auto& r : sum) {
#pragma GCC unroll 8
          for (int v = 0; v < 3; ++v) r[v] = load(bias + col + v * kWide);
        }
      }
      for (int k = 0; k < kHidden; ++k) {
        FloatVector w[3];
#pragma GCC unroll 8
        for (int v = 0; v < 3; ++v) w[v] = load(b + k * kGates + col + v * kWide);
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < 3; ++v) sum[r][v] += a[(row + r) * kHidden + k] * w[v];
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < 3; ++v) store(out + (row + r) * kGates + col + v * kWide, sum[r][v]);
      }
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

// ---- the cases -----------------------------------------------------------------------------------
constexpr std::size_t kMain = kLayers * 8 * kWidth, kExtra = 3 * kWidth;
struct LstmBuffers {
  Doubles main = uniform(1, kMain), extra = uniform(2, kExtra),
          state = uniform(3, kLayers * 2 * kWidth), text;
  double value = 0;
  Doubles dmain = Doubles(kMain), dextra = Doubles(kExtra);
  LstmBuffers() {
    for (const double x : uniform(4, (kSteps + 1) * kWidth)) text.push_back(x > .5 ? 1 : 0);
  }
};
Output output_of(const double& x) { return output(std::span(&x, 1)); }

const Register value("B08.lstm", "ns", [] {
  const auto work = [](LstmBuffers& b) {
    b.value = lstm(b.main.data(), b.extra.data(), b.state.data(), b.text.data());
  };
  const auto results = [](const LstmBuffers& b) { return std::vector{output_of(b.value)}; };
  return per(kSteps, by_hand(LstmBuffers(), work, results), "per time step");
});
const Register value_and_gradient("B08.lstm_grad", "ns", [] {
  const auto work = [](LstmBuffers& b) {
    b.value = lstm_grad(b.main.data(), b.extra.data(), b.state.data(), b.text.data(),
                        b.dmain.data(), b.dextra.data());
  };
  const auto results = [](const LstmBuffers& b) {
    return std::vector{output_of(b.value), output(b.dmain), output(b.dextra)};
  };
  return per(kSteps, by_hand(LstmBuffers(), work, results), "per time step");
});

constexpr int kGruSteps = 256;
struct GruBuffers {
  Floats W, U, b, xs, h;
};
const Register gru_steps("B08.gru", "us", [] {
  const auto scaled = [](unsigned seed) {
    Floats w = zf(seed, kHidden * kGates);
    for (float& x : w) x *= .1f;
    return w;
  };
  const auto work = [](GruBuffers& b) {
    gru(b.W.data(), b.U.data(), b.b.data(), b.xs.data(), kGruSteps, b.h.data());
  };
  return per(kGruSteps,
             by_hand(GruBuffers{scaled(1), scaled(2), Floats(kGates),
                                zf(4, kGruSteps * kBatch * kHidden), Floats(kBatch * kHidden)},
                     work, [](const GruBuffers& b) { return std::vector{output(b.h)}; }),
             "per step");
});

}  // namespace
}  // namespace bench
