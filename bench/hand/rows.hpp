// Softmax, log-sum-exp and normalisation of rows by hand: rows of contiguous numbers, and "columns", rows
// that lie side by side so that their numbers are `stride` apart.
#pragma once

#include <algorithm>
#include <cmath>

#include "hand.hpp"

namespace bench {

inline void softmax_row(const float* __restrict x, float* __restrict out, std::size_t n) {
  const float most = lane_max(x, n);
  for (std::size_t j = 0; j < n; ++j) out[j] = std::exp(x[j] - most);
  const float scale = 1 / lane_sum(out, n);
  for (std::size_t j = 0; j < n; ++j) out[j] *= scale;
}
inline float logsumexp_row(const float* x, std::size_t n) {
  constexpr std::size_t kBlock = 256;
  const float most = lane_max(x, n);
  float sum = 0, e[kBlock];
  for (std::size_t b = 0; b < n; b += kBlock) {
    const std::size_t m = std::min(kBlock, n - b);
    for (std::size_t j = 0; j < m; ++j) e[j] = std::exp(x[b + j] - most);
    sum += lane_sum(e, m);
  }
  return most + std::log(sum);
}

/// Mean, and 1 / standard deviation, in two passes.
struct Moments {
  float mean, scale;
};
inline Moments moments_of_row(const float* x, std::size_t n) {
  const float count = static_cast<float>(n), mean = lane_sum(x, n) / count;
  const float square = lane_sum(x, n, [mean](auto v) { return (v - mean) * (v - mean); });
  return {mean, 1 / std::sqrt(square / count + 1e-5f)};
}
inline void layernorm_row(const float* __restrict x, const float* __restrict w,
                          const float* __restrict b, float* __restrict out, std::size_t n) {
  const auto [mean, scale] = moments_of_row(x, n);
  for (std::size_t j = 0; j < n; ++j) out[j] = (x[j] - mean) * scale * w[j] + b[j];
}

/// `Width` columns at once.
template <std::size_t Width>
void softmax_columns(const float* __restrict x, float* __restrict out, std::size_t n,
                     std::size_t stride) {
  float most[Width], sum[Width] = {};
#pragma omp simd
  for (std::size_t l = 0; l < Width; ++l) most[l] = x[l];
  for (std::size_t j = 1; j < n; ++j) {
    const float* row = x + j * stride;
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) most[l] = row[l] > most[l] ? row[l] : most[l];
  }
  for (std::size_t j = 0; j < n; ++j) {
    const float* __restrict row = x + j * stride;
    float* __restrict to = out + j * stride;
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) {
      to[l] = std::exp(row[l] - most[l]);
      sum[l] += to[l];
    }
  }
  for (float& s : sum) s = 1 / s;
  for (std::size_t j = 0; j < n; ++j) {
    float* __restrict to = out + j * stride;
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) to[l] *= sum[l];
  }
}
template <std::size_t Width>
void layernorm_columns(const float* __restrict x, const float* w, const float* b,
                       float* __restrict out, std::size_t n, std::size_t stride) {
  float mean[Width] = {}, scale[Width] = {};
  for (std::size_t j = 0; j < n; ++j) {
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) mean[l] += x[j * stride + l];
  }
  for (float& m : mean) m /= static_cast<float>(n);
  for (std::size_t j = 0; j < n; ++j) {
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) {
      const float d = x[j * stride + l] - mean[l];
      scale[l] += d * d;
    }
  }
  for (float& s : scale) s = 1 / std::sqrt(s / static_cast<float>(n) + 1e-5f);
  for (std::size_t j = 0; j < n; ++j) {
    const float* __restrict row = x + j * stride;
    float* __restrict to = out + j * stride;
#pragma omp simd
    for (std::size_t l = 0; l < Width; ++l) to[l] = (row[l] - mean[l]) * scale[l] * w[j] + b[j];
  }
}

/// Columns of a matrix: in groups of `Width`, the last ones one by one.
template <std::size_t Width, class Group, class Single>
void by_columns(std::size_t count, Group group, Single single) {
  std::size_t k = 0;
  for (; k + Width <= count; k += Width) group(k);
  for (; k < count; ++k) single(k);
}

}  // namespace bench
