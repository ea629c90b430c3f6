// B12 by hand: logistic regression (569 examples of 30 features), the Jacobian of three layers of 64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

// ---- logistic regression -------------------------------------------------------------------------
constexpr std::size_t kExamples = 569, kFeatures = 30, kPadded = 32;
struct Regression {
  Floats w = zf(1, kFeatures), X = zf(2, kExamples* kFeatures), y, v = zf(9, kFeatures);
  Floats rows = Floats((kExamples + 1) * kPadded), weight = Floats(kExamples),
         out = Floats(kFeatures * kFeatures);
  Regression() {
    for (float& x : w) x *= .1f;
    for (const float x : uf(3, kExamples)) y.push_back(x > .5f ? 1.f : -1.f);
  }

  float dot(std::size_t i, const float* with) const {
    float part[kLanes] = {}, sum = 0;
    const float* const x = &X[i * kFeatures];
    for (std::size_t j = 0; j < kLanes; ++j) part[j] = x[j] * with[j];
    for (std::size_t j = kLanes; j < kFeatures; ++j) part[j - kLanes] += x[j] * with[j];
    for (const float p : part) sum += p;
    return sum;
  }
  /// Of each example: the probability of the wrong label.
  void errors() {
    for (std::size_t i = 0; i < kExamples; ++i) weight[i] = -y[i] * dot(i, w.data());
    for (float& t : weight) t = 1 / (1 + std::exp(-t));
  }
  /// out = the mean of weight[i] X[i], and a thousandth of `of`.
  void mean_of_rows(const float* of) {
    float sum[kFeatures] = {};
    for (std::size_t i = 0; i < kExamples; ++i) {
      for (std::size_t j = 0; j < kFeatures; ++j) sum[j] += weight[i] * X[i * kFeatures + j];
    }
    for (std::size_t j = 0; j < kFeatures; ++j) out[j] = sum[j] / kExamples + 1e-3f * of[j];
  }

  NOINLINE void gradient() {
    errors();
    for (std::size_t i = 0; i < kExamples; ++i) weight[i] *= -y[i];
    mean_of_rows(w.data());
  }
  NOINLINE void product() {
    errors();
    for (std::size_t i = 0; i < kExamples; ++i) { weight[i] *= (1 - weight[i]) * dot(i, v.data()); }
    mean_of_rows(v.data());
  }
  NOINLINE void hessian() {
    errors();
    for (float& p : weight) p *= (1 - p) / kExamples;
    for (std::size_t i = 0; i < kExamples; ++i)
      std::copy_n(&X[i * kFeatures], kFeatures, &rows[i * kPadded]);
    // Six rows of the result at a time, in registers.
    constexpr std::size_t kRows = 6, kVectors = kPadded / kWide;
    for (std::size_t a = 0; a < kFeatures; a += kRows) {
      FloatVector sum[kRows][kVectors] = {}, x[kVectors];
      for (std::size_t i = 0; i < kExamples; ++i) {
#pragma GCC unroll 8
        for (std::size_t c = 0; c < kVectors; ++c) {
          x[c] = load(&rows[i * kPadded + c * kWide]) * weight[i];
        }
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
          for (std::size_t c = 0; c < kVectors; ++c) sum[r][c] += rows[i * kPadded + a + r] * x[c];
        }
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        float row[kPadded];
#pragma GCC unroll 8
        for (std::size_t c = 0; c < kVectors; ++c) store(row + c * kWide, sum[r][c]);
        row[a + r] += 1e-3f;
        std::copy_n(row, kFeatures, &out[(a + r) * kFeatures]);
      }
    }
  }
};
template <class Work>
Case regression(Work work, std::size_t results) {
  return by_hand(Regression(), work, [results](const Regression& r) {
    return std::vector{output(std::span(r.out).first(results))};
  });
}
const Register grad("B12.grad", "us",
                    [] { return regression([](Regression& r) { r.gradient(); }, kFeatures); });
const Register hvp("B12.hvp", "us",
                   [] { return regression([](Regression& r) { r.product(); }, kFeatures); });
const Register hessian("B12.hessian30", "us", [] {
  return regression([](Regression& r) { r.hessian(); }, kFeatures * kFeatures);
});

// ---- layers --------------------------------------------------------------------------------------
constexpr std::size_t kWidth = 64;
struct Layers {
  Floats x = zf(1, kWidth), W = zf(2, 3 * kWidth * kWidth);
  Floats J = Floats(kWidth * kWidth), next = Floats(kWidth * kWidth);
  Layers() {
    for (float& w : W) w *= .1f;
  }

  /// next = diag(slope) W J, in tiles of rows of the result that stay in registers.
  void multiply(const float* w, const float* slope) {
    constexpr std::size_t kRows = 4, kVectors = kWide == 16 ? 4 : 2;
    for (std::size_t a = 0; a < kWidth; a += kRows) {
      for (std::size_t b = 0; b < kWidth; b += kVectors * kWide) {
        FloatVector sum[kRows][kVectors] = {};
        for (std::size_t k = 0; k < kWidth; ++k) {
          FloatVector x[kVectors];
#pragma GCC unroll 8
          for (std::size_t c = 0; c < kVectors; ++c) x[c] = load(&J[k * kWidth + b + c * kWide]);
#pragma GCC unroll 8
          for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
            for (std::size_t c = 0; c < kVectors; ++c) sum[r][c] += w[(a + r) * kWidth + k] * x[c];
          }
        }
#pragma GCC unroll 8
        for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
          for (std::size_t c = 0; c < kVectors; ++c) {
            store(&next[(a + r) * kWidth + b + c * kWide], slope[a + r] * sum[r][c]);
          }
        }
      }
    }
    std::swap(J, next);
  }
  NOINLINE void jacobian() {
    float y[kWidth], z[kWidth], slope[kWidth];
    std::copy_n(x.data(), kWidth, y);
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const float* const w = &W[layer * kWidth * kWidth];
      for (std::size_t i = 0; i < kWidth; ++i) {
        float part[kLanes] = {}, sum = 0;
        for (std::size_t j = 0; j < kWidth; j += kLanes) {
          for (std::size_t l = 0; l < kLanes; ++l) part[l] += w[i * kWidth + j + l] * y[j + l];
        }
        for (const float p : part) sum += p;
        z[i] = sum;
      }
      for (std::size_t i = 0; i < kWidth; ++i) {
        y[i] = std::tanh(z[i]);
        slope[i] = 1 - y[i] * y[i];
      }
      if (layer == 0) {
        for (std::size_t i = 0; i < kWidth; ++i) {
          for (std::size_t j = 0; j < kWidth; ++j) J[i * kWidth + j] = slope[i] * w[i * kWidth + j];
        }
      } else {
        multiply(w, slope);
      }
    }
  }
};
Case layers() {
  return by_hand(
      Layers(), [](Layers& l) { l.jacobian(); },
      [](const Layers& l) { return std::vector{output(l.J)}; });
}
const Register jacfwd("B12.jacfwd_mlp64", "us", layers);
const Register jacrev("B12.jacrev_mlp64", "us", layers);

}  // namespace
}  // namespace bench
