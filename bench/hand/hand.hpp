// What the hand-written side of the side-by-side shares: short words for inputs, and a case of a loop
// over buffers that are made once. Each file of this folder is built three times: without contraction
// of products and sums, with it, and with fast math (bench/CMakeLists.txt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "../suite/harness.hpp"

namespace bench {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ints = std::vector<std::int32_t>;

inline Floats uf(unsigned seed, std::size_t n) { return to_floats(uniform(seed, n)); }
inline Floats zf(unsigned seed, std::size_t n) { return to_floats(centred(seed, n)); }

/// The optimiser must believe that *p is read and written.
template <class T>
inline void keep(T* p) {
  asm volatile("" : : "g"(p) : "memory");
}
/// Lanes of one 64-byte line: enough for any vector unit; inner loops over so many partial results
/// vectorise without permission to reorder.
inline constexpr std::size_t kLanes = 16;
/// For loops that are written in vectors: the floats of a register of this machine.
#ifdef __AVX512F__
inline constexpr int kWide = 16;
#else
inline constexpr int kWide = 8;
#endif
using FloatVector = float __attribute__((vector_size(kWide * 4)));
inline FloatVector load(const float* p) {
  FloatVector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, FloatVector v) { __builtin_memcpy(p, &v, sizeof v); }

/// The sum of n numbers, in 64 lanes.
template <class T>
inline T lane_sum(const T* x, std::size_t n) {
  constexpr std::size_t kParts = 4 * kLanes;
  T part[kParts] = {};
  std::size_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (std::size_t l = 0; l < kParts; ++l) part[l] += x[i + l];
  }
  for (std::size_t width = kParts / 2; width > 0; width /= 2) {
    for (std::size_t l = 0; l < width; ++l) part[l] += part[l + width];
  }
  T sum = part[0];
  for (; i < n; ++i) sum += x[i];
  return sum;
}
/// The largest of n numbers (none of them NaN).
template <class T>
inline T lane_max(const T* x, std::size_t n) {
  T part[kLanes];
  for (T& p : part) p = x[0];
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) part[l] = x[i + l] > part[l] ? x[i + l] : part[l];
  }
  T most = part[0];
  for (const T p : part) most = p > most ? p : most;
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

/// A case of `work(buffers)`, whose results are `results(buffers)`, a vector of Output.
template <class Buffers, class Work, class Results>
Case by_hand(Buffers buffers, Work work, Results results) {
  const auto b = std::make_shared<Buffers>(std::move(buffers));
  Case c;
  c.call = [b, work] {
    work(*b);
    keep(b.get());
  };
  c.outputs = [b, work, results] {
    work(*b);
    return results(*b);
  };
  return c;
}

}  // namespace bench
