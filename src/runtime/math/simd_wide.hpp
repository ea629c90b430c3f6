// Registers of f32 as two of f64, for f32 functions that need more digits than they have, and numbers chosen from
// small tables, a lane at a time. For the instruction sets with FMA, and for *_isa.cpp files only, as simd.hpp.
#pragma once

#include "runtime/math/simd.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

using HalfF32 = float __attribute__((vector_size(kBytes / 2)));

// gcc 12 makes __builtin_convertvector of it from registers of 16 bytes.
TELAMON_INLINE HalfF32 narrow_half(F64 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_cvtpd_ps(0xff, x);
#else
  return _mm256_cvtpd_ps(x);
#endif
}

/// The lanes of a register of f32, two of each four in a and two in b: an order that takes fewer operations.
struct Unpacked {
  F64 a, b;
};
/// f64 from their lower and upper halves.
TELAMON_INLINE Unpacked unpack(I32 lower, I32 upper) {
#if defined(TELAMON_ISA_AVX512)
  const auto a = (__m512i)lower, b = (__m512i)upper;
  return {(F64)_mm512_maskz_unpacklo_epi32(0xffff, a, b),
          (F64)_mm512_maskz_unpackhi_epi32(0xffff, a, b)};
#else
  const auto a = (__m256i)lower, b = (__m256i)upper;
  return {(F64)_mm256_unpacklo_epi32(a, b), (F64)_mm256_unpackhi_epi32(a, b)};
#endif
}
/// Rounded once, also into denormal numbers and infinities.
TELAMON_INLINE F32 pack(Unpacked x) {
  const HalfF32 a = narrow_half(x.a), b = narrow_half(x.b);
#if defined(TELAMON_ISA_AVX512)
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
#else
  return __builtin_shufflevector(a, b, 0, 1, 4, 5, 2, 3, 6, 7);
#endif
}
/// The lower 32 bits of each lane.
TELAMON_INLINE I32 lower_bits(I64 a, I64 b) {
  constexpr int kFirstAndThird = 0x88;  // of each four words of the one, and then of the other
#if defined(TELAMON_ISA_AVX512)
  return (I32)_mm512_maskz_shuffle_ps(0xffff, (F32)a, (F32)b, kFirstAndThird);
#else
  return (I32)_mm256_shuffle_ps((F32)a, (F32)b, kFirstAndThird);
#endif
}

/// A table of eight numbers, which one permutation of f64 takes them from or, without AVX-512, two of their halves.
struct Numbers8 {
#if defined(TELAMON_ISA_AVX512)
  double numbers[8];
  constexpr void set(int i, double x) { numbers[i] = x; }
#else
  std::uint32_t lower[8], upper[8];
  constexpr void set(int i, double x) {
    const auto bits = __builtin_bit_cast(std::uint64_t, x);
    lower[i] = static_cast<std::uint32_t>(bits);
    upper[i] = static_cast<std::uint32_t>(bits >> 32);
  }
#endif
};
/// Of each lane the number at the lowest bits of index.
TELAMON_INLINE Unpacked look_up(const Numbers8& table, U32 index) {
#if defined(TELAMON_ISA_AVX512)
  const auto at = [&](F64 i) {
    return _mm512_maskz_permutexvar_pd(0xff, (__m512i)i, _mm512_loadu_pd(table.numbers));
  };
  const Unpacked indices = unpack((I32)index, (I32)index);
  return {at(indices.a), at(indices.b)};
#else
  const auto at = [&](const std::uint32_t(&words)[8]) {
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
    return (I32)_mm256_permutevar8x32_epi32(all, (__m256i)index);
  };
  return unpack(at(table.lower), at(table.upper));
#endif
}

/// A table of 32 rows of four f64, or 16 of some. AVX-512 has permutations of two registers, which take a cycle or two;
/// without it, loads of halves of rows are faster than a gather.
template <class V, int kRows, int kColumns> struct Rows;
template <int kRows, int kColumns> struct Rows<F64, kRows, kColumns> {
#if defined(TELAMON_ISA_AVX512)
  double numbers[kColumns][kRows];
  constexpr void set(int row, int column, double x) { numbers[column][row] = x; }
#else
  double numbers[kRows * kColumns];
  constexpr void set(int row, int column, double x) { numbers[kColumns * row + column] = x; }
#endif
};
template <class V, int kColumns> struct Columns {
  V numbers[kColumns];
};
/// Of each lane the row at the lowest bits of index.
template <int kRows, int kColumns>
TELAMON_INLINE Columns<F64, kColumns> look_up(const Rows<F64, kRows, kColumns>& table, U64 index) {
  Columns<F64, kColumns> found;
#if defined(TELAMON_ISA_AVX512)
  const auto i = (__m512i)index;
  for (int column = 0; column < kColumns; ++column) {
    const auto at = [&](int first) { return _mm512_loadu_pd(table.numbers[column] + first); };
    found.numbers[column] = _mm512_maskz_permutex2var_pd(0xff, at(0), i, at(8));
    if constexpr (kRows == 32) {
      const __mmask8 is_upper = _mm512_test_epi64_mask(i, _mm512_set1_epi64(16));
      const __m512d upper = _mm512_maskz_permutex2var_pd(0xff, at(16), i, at(24));
      found.numbers[column] = _mm512_mask_mov_pd(found.numbers[column], is_upper, upper);
    }
  }
#else
  const U64 i = (index & (kRows - 1)) * kColumns;
  for (int column = 0; column < kColumns; column += 2) {
    const auto half_row = [&](int lane) { return _mm_loadu_pd(table.numbers + i[lane] + column); };
    const auto half_rows = [&](int lane) {
      return _mm256_insertf128_pd(_mm256_castpd128_pd256(half_row(lane)), half_row(lane + 2), 1);
    };
    const __m256d even = half_rows(0), odd = half_rows(1);
    found.numbers[column] = _mm256_unpacklo_pd(even, odd);
    found.numbers[column + 1] = _mm256_unpackhi_pd(even, odd);
  }
#endif
  return found;
}

/// A table of 16 rows of some f32: a column is one register, or two.
template <int kColumns> struct Rows<F32, 16, kColumns> {
  float numbers[kColumns][16];
  constexpr void set(int row, int column, double x) {
    numbers[column][row] = static_cast<float>(x);
  }
};
/// Of each lane the row at the lowest bits of index.
template <int kColumns>
TELAMON_INLINE Columns<F32, kColumns> look_up(const Rows<F32, 16, kColumns>& table, U32 index) {
  Columns<F32, kColumns> found;
  for (int column = 0; column < kColumns; ++column) {
    const float* numbers = table.numbers[column];
#if defined(TELAMON_ISA_AVX512)
    found.numbers[column] =
        _mm512_maskz_permutexvar_ps(0xffff, (__m512i)index, _mm512_loadu_ps(numbers));
#else
    const auto at = [&](const float* eight) {
      return _mm256_permutevar8x32_ps(_mm256_loadu_ps(eight), (__m256i)index);
    };
    found.numbers[column] = _mm256_blendv_ps(at(numbers), at(numbers + 8), (__m256)(index << 28));
#endif
  }
  return found;
}

/// A whole number by one of the ways that instructions have.
template <int kWay> TELAMON_INLINE F32 rounded(F32 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_roundscale_ps(0xffff, x, kWay | _MM_FROUND_NO_EXC);
#else
  return _mm256_round_ps(x, kWay | _MM_FROUND_NO_EXC);
#endif
}
template <int kWay> TELAMON_INLINE F64 rounded(F64 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_roundscale_pd(0xff, x, kWay | _MM_FROUND_NO_EXC);
#else
  return _mm256_round_pd(x, kWay | _MM_FROUND_NO_EXC);
#endif
}
/// The integer next to x, as far as x has a fraction at all; and x without its fraction.
template <class V> TELAMON_INLINE V nearest(V x) { return rounded<_MM_FROUND_TO_NEAREST_INT>(x); }
template <class V> TELAMON_INLINE V truncated(V x) { return rounded<_MM_FROUND_TO_ZERO>(x); }

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
