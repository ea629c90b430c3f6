// Transposition of as many registers as one has lanes, for *_isa.cpp files only.
#pragma once

#include "runtime/math/simd.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

/// The lower (upper) halves of two registers, lane by lane in turn.
template <class V>
TELAMON_INLINE V interleave_low(V a, V b) {
  constexpr int kN = sizeof(V) / sizeof(a[0]);
  if constexpr (kN == 2) return __builtin_shufflevector(a, b, 0, 2);
  else if constexpr (kN == 4) return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  else if constexpr (kN == 8) return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  else return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
template <class V>
TELAMON_INLINE V interleave_high(V a, V b) {
  constexpr int kN = sizeof(V) / sizeof(a[0]);
  if constexpr (kN == 2) return __builtin_shufflevector(a, b, 1, 3);
  else if constexpr (kN == 4) return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  else if constexpr (kN == 8) return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  else
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
}

/// Rows become columns: log2(lanes) perfect shuffles of the register numbers and the lanes.
template <class V>
TELAMON_INLINE void transpose(V* x) {
  constexpr int kN = sizeof(V) / sizeof(x[0][0]);
#pragma GCC unroll 4
  for (int step = 1; step < kN; step *= 2) {
    V y[kN];
#pragma GCC unroll 8
    for (int i = 0; i < kN / 2; ++i) {
      y[2 * i] = interleave_low(x[i], x[i + kN / 2]);
      y[2 * i + 1] = interleave_high(x[i], x[i + kN / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) x[i] = y[i];
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
