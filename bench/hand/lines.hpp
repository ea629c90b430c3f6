// Squares of 16 x 16 numbers, turned within registers, and matrices in such squares.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// Squares of 8 x 8 numbers in f64: pairs of lanes stay together.
template <int Distance>
inline void exchange_rows_of_pairs(Line (&square)[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if ((i & Distance) == 0) {
      exchange<2 * Distance>(square[i], square[i + Distance],
                             std::make_integer_sequence<int, 16>());
    }
  }
}
inline void turn_pairs(Line (&square)[8]) {
  exchange_rows_of_pairs<4>(square);
  exchange_rows_of_pairs<2>(square);
  exchange_rows_of_pairs<1>(square);
}

/// A matrix transposed, square by square; what is left over at the edges, number by number.
inline void transpose(const float* x, float* out, std::size_t rows, std::size_t columns) {
  const std::size_t whole_rows = rows / 16 * 16, whole_columns = columns / 16 * 16;
  const auto one = [&](std::size_t i, std::size_t j) { out[j * rows + i] = x[i * columns + j]; };
  for (std::size_t i0 = 0; i0 < whole_rows; i0 += 64) {
    const std::size_t i1 = std::min(i0 + 64, whole_rows);
    for (std::size_t j0 = 0; j0 < whole_columns; j0 += 16) {
      for (std::size_t i = i0; i < i1; i += 16) {
        Line square[16];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < 16; ++k) square[k] = load_line(x + (i + k) * columns + j0);
        turn(square);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < 16; ++k) store_line(out + (j0 + k) * rows + i, square[k]);
      }
    }
    for (std::size_t j = whole_columns; j < columns; ++j) {
      for (std::size_t i = i0; i < i1; ++i) one(i, j);
    }
  }
  for (std::size_t i = whole_rows; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) one(i, j);
  }
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
