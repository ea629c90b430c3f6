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

/// table[the lowest bits of index] for 8 or 32 numbers. AVX-512 has permutations of two registers, which take a
/// cycle or two where a gather takes twenty.
template <int kCount> TELAMON_INLINE F64 look_up(const double (&table)[kCount], U64 index) {
  static_assert(kCount == 8 || kCount == 32);
#if defined(TELAMON_ISA_AVX512)
  const auto at = [&](int first) { return _mm512_loadu_pd(table + first); };
  const auto i = (__m512i)index;
  if constexpr (kCount == 8) return _mm512_maskz_permutexvar_pd(0xff, i, at(0));
  const __m512d upper = _mm512_maskz_permutex2var_pd(0xff, at(16), i, at(24));
  const __mmask8 is_upper = _mm512_test_epi64_mask(i, _mm512_set1_epi64(16));
  return _mm512_mask_mov_pd(_mm512_permutex2var_pd(at(0), i, at(8)), is_upper, upper);
#else
  return _mm256_i64gather_pd(table, (__m256i)(index & (kCount - 1)), sizeof(double));
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
