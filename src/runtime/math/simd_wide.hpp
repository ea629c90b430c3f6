// Registers of f32 as two of f64, for f32 functions that need more digits than they have, and numbers chosen from a
// small table, a lane at a time. For the instruction sets with FMA, and for *_isa.cpp files only, as simd.hpp.
#pragma once

#include "runtime/math/simd.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

#if defined(TELAMON_ISA_AVX512)
#define TELAMON_LOW_LANES 0, 1, 2, 3, 4, 5, 6, 7
#define TELAMON_HIGH_LANES 8, 9, 10, 11, 12, 13, 14, 15
#else
#define TELAMON_LOW_LANES 0, 1, 2, 3
#define TELAMON_HIGH_LANES 4, 5, 6, 7
#endif

using HalfF32 = float __attribute__((vector_size(kBytes / 2)));
using HalfI32 = std::int32_t __attribute__((vector_size(kBytes / 2)));

// gcc 12 makes __builtin_convertvector of these from registers of 16 bytes.
TELAMON_INLINE F64 widen_half(HalfF32 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_cvtps_pd(0xff, x);
#else
  return _mm256_cvtps_pd(x);
#endif
}
TELAMON_INLINE HalfF32 narrow_half(F64 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_cvtpd_ps(0xff, x);
#else
  return _mm256_cvtpd_ps(x);
#endif
}

/// The lanes of a register of f32, in order.
struct Wide {
  F64 low, high;
};
TELAMON_INLINE Wide widen(F32 x) {
  return {widen_half(__builtin_shufflevector(x, x, TELAMON_LOW_LANES)),
          widen_half(__builtin_shufflevector(x, x, TELAMON_HIGH_LANES))};
}
/// Rounded once, also into denormal numbers and infinities.
TELAMON_INLINE F32 narrow(Wide x) {
  return __builtin_shufflevector(narrow_half(x.low), narrow_half(x.high), TELAMON_LOW_LANES,
                                 TELAMON_HIGH_LANES);
}

/// The lower 32 bits of each lane, those of `low` first.
TELAMON_INLINE I32 lower_bits(I64 low, I64 high) {
#if defined(TELAMON_ISA_AVX512)
  const auto half = [](I64 x) { return (HalfI32)_mm512_maskz_cvtepi64_epi32(0xff, (__m512i)x); };
  return __builtin_shufflevector(half(low), half(high), TELAMON_LOW_LANES, TELAMON_HIGH_LANES);
#else
  return __builtin_shufflevector((I32)low, (I32)high, 0, 2, 4, 6, 8, 10, 12, 14);
#endif
}

/// Eight numbers, their lower and their upper halves, twice each: a permutation of as many words as a register has then
/// takes them by the lowest bits of its lanes.
struct Words8 {
  std::uint32_t low[16], high[16];
  constexpr void set(int i, double x) {
    const auto bits = __builtin_bit_cast(std::uint64_t, x);
    low[i] = low[i + 8] = static_cast<std::uint32_t>(bits);
    high[i] = high[i + 8] = static_cast<std::uint32_t>(bits >> 32);
  }
};
TELAMON_INLINE U32 look_up_word(const std::uint32_t (&table)[16], U32 index) {
#if defined(TELAMON_ISA_AVX512)
  return (U32)_mm512_maskz_permutexvar_epi32(0xffff, (__m512i)index, _mm512_loadu_si512(table));
#else
  return (U32)_mm256_permutevar8x32_epi32(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table)), (__m256i)index);
#endif
}
/// table[the lowest bits of index].
TELAMON_INLINE Wide look_up(const Words8& table, U32 index) {
  // Words of two registers are joined in halves of 128 bits.
  const auto pairs = (U64)index;
#if defined(TELAMON_ISA_AVX512)
  index = (U32)__builtin_shufflevector(pairs, pairs, 0, 4, 1, 5, 2, 6, 3, 7);
  const auto low = (__m512i)look_up_word(table.low, index);
  const auto high = (__m512i)look_up_word(table.high, index);
  return {(F64)_mm512_maskz_unpacklo_epi32(0xffff, low, high),
          (F64)_mm512_maskz_unpackhi_epi32(0xffff, low, high)};
#else
  index = (U32)__builtin_shufflevector(pairs, pairs, 0, 2, 1, 3);
  const auto low = (__m256i)look_up_word(table.low, index);
  const auto high = (__m256i)look_up_word(table.high, index);
  return {(F64)_mm256_unpacklo_epi32(low, high), (F64)_mm256_unpackhi_epi32(low, high)};
#endif
}

/// table[the lowest bits of index] for 32 numbers. AVX-512 has permutations of two registers, which take a cycle or two;
/// without it, loads of single numbers are faster than a gather.
TELAMON_INLINE F64 look_up(const double (&table)[32], U64 index) {
#if defined(TELAMON_ISA_AVX512)
  const auto at = [&](int first) { return _mm512_loadu_pd(table + first); };
  const auto i = (__m512i)index;
  const __m512d upper = _mm512_maskz_permutex2var_pd(0xff, at(16), i, at(24));
  const __mmask8 is_upper = _mm512_test_epi64_mask(i, _mm512_set1_epi64(16));
  return _mm512_mask_mov_pd(_mm512_permutex2var_pd(at(0), i, at(8)), is_upper, upper);
#else
  const U64 i = index & 31;
  return F64{table[i[0]], table[i[1]], table[i[2]], table[i[3]]};
#endif
}

/// The integer next to x, as far as x has a fraction at all.
TELAMON_INLINE F64 nearest(F64 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_roundscale_pd(0xff, x, kNearest);
#else
  return _mm256_round_pd(x, kNearest);
#endif
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
