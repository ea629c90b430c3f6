// Squares of 16 x 16 numbers, turned within registers.
#pragma once

#include <cstdint>
#include <utility>

namespace bench {

/// 16 numbers side by side, at any address.
using Line = float __attribute__((vector_size(64), aligned(4), may_alias));

inline Line load_line(const void* p) { return *static_cast<const Line*>(p); }
inline void store_line(void* p, Line v) { *static_cast<Line*>(p) = v; }

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

// 16 rows of N numbers, one after the other, are N lines; turned, line j holds number j of each row.
template <int N, int J, int K, int... Lane>
inline void take_column(Line& column, Line from, std::integer_sequence<int, Lane...>) {
  column = __builtin_shufflevector(column, from,
                                   ((Lane * N + J) / 16 == K ? 16 + (Lane * N + J) % 16 : Lane)...);
}
template <int N, int I, int K, int... Lane>
inline void take_row(Line& row, Line from, std::integer_sequence<int, Lane...>) {
  row = __builtin_shufflevector(row, from,
                                ((16 * I + Lane) % N == K ? 16 + (16 * I + Lane) / N : Lane)...);
}
template <int N, int... K>
inline void rows_to_columns(const float* rows, float* columns,
                            std::integer_sequence<int, K...> all) {
  constexpr auto kLanes = std::make_integer_sequence<int, 16>();
  const auto one = [&]<int J>(std::integral_constant<int, J>) {
    Line column{};
    (take_column<N, J, K>(column, load_line(rows + 16 * K), kLanes), ...);
    store_line(columns + 16 * J, column);
  };
  static_cast<void>(all);
  (one(std::integral_constant<int, K>()), ...);
}
template <int N, int... K>
inline void columns_to_rows(const float* columns, float* rows,
                            std::integer_sequence<int, K...> all) {
  constexpr auto kLanes = std::make_integer_sequence<int, 16>();
  const auto one = [&]<int I>(std::integral_constant<int, I>) {
    Line row{};
    (take_row<N, I, K>(row, load_line(columns + 16 * K), kLanes), ...);
    store_line(rows + 16 * I, row);
  };
  static_cast<void>(all);
  (one(std::integral_constant<int, K>()), ...);
}
template <int N>
inline void rows_to_columns(const float* rows, float* columns) {
  if constexpr (N % 16 != 0) {
    return rows_to_columns<N>(rows, columns, std::make_integer_sequence<int, N>());
  }
  for (int j = 0; j < N; j += 16) {
    Line square[16];
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) square[k] = load_line(rows + k * N + j);
    turn(square);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) store_line(columns + (j + k) * 16, square[k]);
  }
}
template <int N>
inline void columns_to_rows(const float* columns, float* rows) {
  if constexpr (N % 16 != 0) {
    return columns_to_rows<N>(columns, rows, std::make_integer_sequence<int, N>());
  }
  for (int j = 0; j < N; j += 16) {
    Line square[16];
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) square[k] = load_line(columns + (j + k) * 16);
    turn(square);
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) store_line(rows + k * N + j, square[k]);
  }
}

}  // namespace bench
