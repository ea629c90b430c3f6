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

// No iteration of the loop that follows depends on another.
#if defined(__clang__)
#define HAND_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HAND_INDEPENDENT _Pragma("GCC ivdep")
#endif

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
/// Partial results in so many lanes vectorise without permission to reorder.
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

/// 64 bytes of numbers, at any address.
template <class T>
using Vector [[gnu::vector_size(64), gnu::aligned(sizeof(T)), gnu::may_alias]] = T;
template <class T>
inline Vector<T> vector_at(const T* p) {
  return *reinterpret_cast<const Vector<T>*>(p);
}
template <class T>
inline constexpr std::size_t kLanesOf = 64 / sizeof(T);

/// The lanes of a vector put together by f, half with half.
template <class T, class F>
inline T across(Vector<T> v, F f) {
  T lane[kLanesOf<T>];
#pragma GCC unroll 16
  for (std::size_t l = 0; l < kLanesOf<T>; ++l) lane[l] = v[l];
#pragma GCC unroll 4
  for (std::size_t width = kLanesOf<T> / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
    for (std::size_t l = 0; l < width; ++l) lane[l] = f(lane[l], lane[l + width]);
  }
  return lane[0];
}
/// The sum of f(x[i]) over n numbers, in four vectors.
template <class T, class F>
inline T lane_sum(const T* x, std::size_t n, F f) {
  constexpr std::size_t kLanes = kLanesOf<T>;
  Vector<T> a{}, b{}, c{}, d{};
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += f(vector_at(x + i));
    b += f(vector_at(x + i + kLanes));
    c += f(vector_at(x + i + 2 * kLanes));
    d += f(vector_at(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a += f(vector_at(x + i));
  T sum = across<T>((a + b) + (c + d), [](T p, T q) { return p + q; });
  for (; i < n; ++i) sum += f(x[i]);
  return sum;
}
template <class T>
inline T lane_sum(const T* x, std::size_t n) {
  return lane_sum(x, n, [](auto v) { return v; });
}
/// The largest of n numbers (none of them NaN).
template <class T>
inline T lane_max(const T* x, std::size_t n) {
  constexpr std::size_t kLanes = kLanesOf<T>;
  const auto larger = [](auto p, auto q) { return p > q ? p : q; };
  T most = x[0];
  std::size_t i = 0;
  if (n >= 2 * kLanes) {
    Vector<T> a = vector_at(x), b = vector_at(x + kLanes);
    for (i = 2 * kLanes; i + 2 * kLanes <= n; i += 2 * kLanes) {
      a = larger(a, vector_at(x + i));
      b = larger(b, vector_at(x + i + kLanes));
    }
    most = across<T>(larger(a, b), larger);
  }
  for (; i < n; ++i) most = larger(most, x[i]);
  return most;
}

/// A case of `work(buffers)`, whose results are `results(buffers)`, a vector of Output.
template <class Buffers, class Work, class Results>
Case by_hand(Buffers buffers, Work work, Results results) {
  const auto b = std::make_shared<Buffers>(std::move(buffers));
  Case c;
  c.threads = 1;
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
