// Matrix products of integers and complex numbers, and matrices of floats times a vector, which is of f32 where they
// are of 16 bits, for one instruction set. The other products of floats are in gemm_float_isa.cpp.
#include <utility>

#include "runtime/kernels/gemm_tile.hpp"
#include "runtime/kernels/halves_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::GemmTile;
using simd::F32;
using simd::F64;
using simd::load_lanes;
using simd::store_lanes;

/// Of each `2 * Distance` lanes in turn the first (or the last) half of a, then that of b.
template <int Distance, bool Last, class V, int... Lane>
TELAMON_INLINE V halves(V a, V b, std::integer_sequence<int, Lane...>) {
  constexpr int kLanes = simd::Lanes<V>::kCount;
  return __builtin_shufflevector(
      a, b,
      (Lane / Distance % 2 * kLanes + Lane / (2 * Distance) * (2 * Distance) + Lane % Distance +
       (Last ? Distance : 0))...);
}

/// The sum over the lanes of each of as many registers as one has lanes, in the lane of its number: lanes so far apart
/// are added, then those half as far.
template <int Distance, class V>
TELAMON_INLINE V sum_lanes(const V* x) {
  if constexpr (Distance == 0) {
    return x[0];
  } else {
    const auto lanes = std::make_integer_sequence<int, simd::Lanes<V>::kCount>();
    V halved[Distance];
    repeat<Distance>([&](auto i) __attribute__((always_inline)) {
      const V a = x[i.value], b = x[i.value + Distance];
      halved[i.value] = halves<Distance, false>(a, b, lanes) + halves<Distance, true>(a, b, lanes);
    });
    return sum_lanes<Distance / 2>(halved);
  }
}

/// `Rows` rows of a, from `row` on, times one contiguous vector b: two registers of partial sums of each along k.
/// Rows that are followed side by side share what is loaded of b, keep the additions going while each sum waits for
/// its last one, and come from memory side by side.
template <class V, int Rows, class S>
void dots_of_rows(const GemmTile& t, std::int64_t row) {
  using T = simd::ScalarOf<V>;
  constexpr int kLanes = simd::Lanes<V>::kCount, kParts = 2;
  const std::int64_t a_row = t.a_row;
  const S* const a = static_cast<const S*>(t.a) + row * a_row;
  const T* const b = static_cast<const T*>(t.b);
  V sums[Rows * kParts] = {};
  const auto add = [&](std::int64_t k, auto part,
                       std::int64_t count) __attribute__((always_inline)) {
    const V from_b = simd::in_register(load_lanes<V>(b + k, count));
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      V& sum = sums[i.value * kParts + part.value];
      sum = simd::fma(load_widened<V>(a + i.value * a_row + k, count), from_b, sum);
    });
  };
  std::int64_t k = 0;
  for (; k + kParts * kLanes <= t.k; k += kParts * kLanes) {
    repeat<kParts>([&](auto part) __attribute__((always_inline)) {
      add(k + part.value * kLanes, part, kLanes);
    });
  }
  repeat<kParts>([&](auto part) __attribute__((always_inline)) {
    const std::int64_t from = k + part.value * kLanes;
    if (from < t.k) add(from, part, t.k - from < kLanes ? t.k - from : kLanes);
  });
  constexpr int kRegisters = (Rows + kLanes - 1) / kLanes;
  V totals[kRegisters * kLanes] = {};
  repeat<Rows>([&](auto i) __attribute__((always_inline)) {
    totals[i.value] = sums[i.value * kParts] + sums[i.value * kParts + 1];
  });
  T* const c = static_cast<T*>(t.c) + row;
  repeat<kRegisters>([&](auto i) __attribute__((always_inline)) {
    constexpr int kFirst = i.value * kLanes, kLeft = Rows - kFirst;
    const V sum = sum_lanes<kLanes / 2>(totals + kFirst);
    store_lanes<V>(c + kFirst, sum, kLeft < kLanes ? kLeft : kLanes);
  });
}

/// `Rows` rows of a, from `row` on, times `Columns` columns of b, from `column` on, all of them contiguous: a register of
/// partial sums of each result.
template <class V, int Rows, int Columns>
void dots_of_tile(const GemmTile& t, std::int64_t row, std::int64_t column) {
  using T = simd::ScalarOf<V>;
  constexpr int kLanes = simd::Lanes<V>::kCount;
  constexpr int kRegisters = (Rows * Columns + kLanes - 1) / kLanes;
  const std::int64_t a_row = t.a_row, b_column = t.b_column;
  const T* const a = static_cast<const T*>(t.a) + row * a_row;
  const T* const b = static_cast<const T*>(t.b) + column * b_column;
  V sums[kRegisters * kLanes] = {};
  const auto add = [&](std::int64_t k, std::int64_t count) __attribute__((always_inline)) {
    V from_b[Columns];
    repeat<Columns>([&](auto j) __attribute__((always_inline)) {
      from_b[j.value] = simd::in_register(load_lanes<V>(b + j.value * b_column + k, count));
    });
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      const V from_a = simd::in_register(load_lanes<V>(a + i.value * a_row + k, count));
      repeat<Columns>([&](auto j) __attribute__((always_inline)) {
        V& sum = sums[i.value * Columns + j.value];
        sum = simd::fma(from_a, from_b[j.value], sum);
      });
    });
  };
  std::int64_t k = 0;
  for (; k + kLanes <= t.k; k += kLanes) add(k, kLanes);
  if (k < t.k) add(k, t.k - k);
  T totals[kRegisters * kLanes];
  repeat<kRegisters>([&](auto i) __attribute__((always_inline)) {
    const V sum = sum_lanes<kLanes / 2>(sums + i.value * kLanes);
    __builtin_memcpy(totals + i.value * kLanes, &sum, sizeof sum);
  });
  for (int i = 0; i < Rows; ++i) {
    __builtin_memcpy(static_cast<T*>(t.c) + (row + i) * t.c_row + column, totals + i * Columns,
                     Columns * sizeof(T));
  }
}
template <class V, int Rows>
void dots_of_columns(const GemmTile& t, std::int64_t row) {
  constexpr int kColumns = kernels::kThinColumns;
  std::int64_t column = 0;
  for (; column + kColumns <= t.n; column += kColumns)
    dots_of_tile<V, Rows, kColumns>(t, row, column);
  if (column + 2 == t.n) dots_of_tile<V, Rows, 2>(t, row, column);
  if (column + 1 == t.n) dots_of_tile<V, Rows, 1>(t, row, column);
}

template <class V, class S = simd::ScalarOf<V>>
void dots_with_vector(const GemmTile& t) {
  constexpr int kRows = kernels::kDotRows;
  std::int64_t row = 0;
#if defined(TELAMON_ISA_AVX512)
  // Rows of 16 bits end before memory gives them as fast as it can: there are registers for twice as many (4,096 x 4,096 on
  // Zen 4: 0.9 of the time).
  if constexpr (sizeof(S) == 2) {
    for (; row + 2 * kRows <= t.m; row += 2 * kRows) dots_of_rows<V, 2 * kRows, S>(t, row);
  }
#endif
  for (; row + kRows <= t.m; row += kRows) dots_of_rows<V, kRows, S>(t, row);
  for (; row + 2 <= t.m; row += 2) dots_of_rows<V, 2, S>(t, row);
  if (row < t.m) dots_of_rows<V, 1, S>(t, row);
}

template <class V>
void float_dots(const GemmTile& t) {
  if (t.c_row > 1) {  // several columns, or the one that is left of them
    constexpr int kThin = kernels::kThinRows;
    std::int64_t row = 0;
    const auto left = [&] { return t.m - row; };
    for (; left() >= kThin && left() != kThin + 1; row += kThin) dots_of_columns<V, kThin>(t, row);
    if (left() > 3) {  // five, which are three and two rather than four and one
      dots_of_columns<V, 3>(t, row);
      row += 3;
    }
    if (left() == 3) return dots_of_columns<V, 3>(t, row);
    if (left() == 2) return dots_of_columns<V, 2>(t, row);
    if (left() == 1) dots_of_columns<V, 1>(t, row);
    return;
  }
  dots_with_vector<V>(t);
}

/// Integers modulo 2^w, bool with or and and.
template <class Sum, class Product, class T>
void plain_gemm(const GemmTile& t) {
  for (std::int64_t i = 0; i < t.m; ++i) {
    const T* a = static_cast<const T*>(t.a) + i * t.a_row;
    T* c = static_cast<T*>(t.c) + i * t.c_row;
    for (std::int64_t j = 0; j < t.n; ++j) c[j] = 0;
    for (std::int64_t k = 0; k < t.k; ++k) {
      const T factor = a[k * t.a_column];
      const T* b = static_cast<const T*>(t.b) + k * t.b_row;
      TELAMON_INDEPENDENT
      for (std::int64_t j = 0; j < t.n; ++j) c[j] = Sum::apply(c[j], Product::apply(factor, b[j]));
    }
  }
}

template <class C>
void complex_gemm(const GemmTile& t) {
  for (std::int64_t i = 0; i < t.m; ++i) {
    const C* a = static_cast<const C*>(t.a) + i * t.a_row;
    C* c = static_cast<C*>(t.c) + i * t.c_row;
    for (std::int64_t j = 0; j < t.n; ++j) c[j] = {};
    for (std::int64_t k = 0; k < t.k; ++k) {
      const C x = a[k * t.a_column];
      const C* b = static_cast<const C*>(t.b) + k * t.b_row;
      for (std::int64_t j = 0; j < t.n; ++j) {
        c[j].re += x.re * b[j].re - x.im * b[j].im;
        c[j].im += x.re * b[j].im + x.im * b[j].re;
      }
    }
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::GemmLoop TELAMON_ISA_SYMBOL(gemm_loop)(telamon::DType dtype,
                                                                    bool dots) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  using telamon::DType;
  if (dots) {
    switch (dtype) {
      case DType::f16: return dots_with_vector<F32, telamon::Half>;
      case DType::bf16: return dots_with_vector<F32, telamon::BFloat16>;
      case DType::f32: return float_dots<F32>;
      case DType::f64: return float_dots<F64>;
      default: return nullptr;
    }
  }
  switch (dtype) {
    case DType::bool_: return plain_gemm<Or, And, std::uint8_t>;
    case DType::i8:
    case DType::u8: return plain_gemm<Add, Mul, std::uint8_t>;
    case DType::i16:
    case DType::u16: return plain_gemm<Add, Mul, std::uint16_t>;
    case DType::i32:
    case DType::u32: return plain_gemm<Add, Mul, std::uint32_t>;
    case DType::i64:
    case DType::u64: return plain_gemm<Add, Mul, std::uint64_t>;
    case DType::c64: return complex_gemm<telamon::Complex64>;
    case DType::c128: return complex_gemm<telamon::Complex128>;
    default: return nullptr;
  }
}
