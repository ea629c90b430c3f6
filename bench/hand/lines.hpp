// Squares of 16 x 16 numbers, turned within registers.
#pragma once

#include <cstdint>
#include <utility>

namespace bench {

/// 16 numbers side by side, at any address.
using Line = float __attribute__((vector_size(64), aligned(4), may_alias));

inline Line load(const void* p) { return *static_cast<const Line*>(p); }
inline void store(void* p, Line v) { *static_cast<Line*>(p) = v; }

/// Of each group of 2 * Distance lanes, a keeps its first half and takes b's first half; b likewise.
template <int Distance, int... Lane>
inline void exchange(Line& a, Line& b, std::integer_sequence<int, Lane...>) {
  const Line low =
      __builtin_shufflevector(a, b, ((Lane & Distance) != 0 ? 16 + Lane - Distance : Lane)...);
  b = __builtin_shufflevector(a, b, ((Lane & Distance) != 0 ? 16 + Lane : Lane + Distance)...);
  a = low;
}
template <int Distance>
inline void exchange_rows(Line (&square)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if ((i & Distance) == 0) {
      exchange<Distance>(square[i], square[i + Distance], std::make_integer_sequence<int, 16>());
    }
  }
}
inline void turn(Line (&square)[16]) {
  exchange_rows<8>(square);
  exchange_rows<4>(square);
  exchange_rows<2>(square);
  exchange_rows<1>(square);
}

}  // namespace bench
