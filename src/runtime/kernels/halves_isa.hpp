// 16-bit floats: f16 and bf16 to f32 and back, and their sums, which are of f32 and rounded. For *_isa.cpp files only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/kernels/loop_isa.hpp"
#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class T> constexpr bool kIsSmallFloat =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

TELAMON_INLINE float widen(Half h) {
  // The exponent moves by 127 - 15; a product does that for denormals too. Infinity and NaN get the
  // full exponent.
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(h.bits & 0x7fffu) << 13;
  const float scaled = bits_as<float>(magnitude) * 0x1p112f;
  const std::uint32_t bits =
      magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits_as<std::uint32_t>(scaled);
  return bits_as<float>(bits | sign);
}
TELAMON_INLINE float widen(BFloat16 x) {
  return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest even. Adding 1/2 to a number below 2^-14 leaves its denormal half in the low bits. Of one number, or of
/// those of a register.
template <class Bits, class Number>
TELAMON_INLINE Bits half_bits(Number x) {
  const Bits bits = bits_as<Bits>(x), sign = (bits >> 16) & 0x8000u;
  const Bits magnitude = bits & 0x7fffffffu;
  const Bits denormal = bits_as<Bits>(bits_as<Number>(magnitude) + 0.5f) - 0x3f000000u;
  const Bits normal = (magnitude + 0xc8000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  Bits half = magnitude < 0x38800000u ? denormal : normal;
  half = magnitude >= 0x47800000u ? Bits{} + 0x7c00u : half;
  half = magnitude > 0x7f800000u ? Bits{} + 0x7e00u : half;
  return half | sign;
}
template <class Bits, class Number>
TELAMON_INLINE Bits bfloat16_bits(Number x) {
  const Bits bits = bits_as<Bits>(x);
  const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Bits nan = (bits >> 16) | 0x0040u;
  return (bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded;
}
/// The bits of f16 or bf16, T, in 32.
template <class T, class Bits, class Number>
TELAMON_INLINE Bits narrow_bits(Number x) {
  if constexpr (std::is_same_v<T, Half>) return half_bits<Bits>(x);
  else return bfloat16_bits<Bits>(x);
}
template <class T>
TELAMON_INLINE T narrow_to(float x) {
  return {static_cast<std::uint16_t>(narrow_bits<T, std::uint32_t>(x))};
}

/// As many as a register of f32 has lanes.
using NarrowLanes = std::uint16_t __attribute__((vector_size(simd::kBytes / 2)));

template <class T>
TELAMON_INLINE simd::F32 widen_register(NarrowLanes bits) {
#if defined(TELAMON_ISA_AVX512)
  const auto all = (__m256i)bits;
  if constexpr (std::is_same_v<T, Half>) return _mm512_maskz_cvtph_ps(0xffff, all);
  const __m512i words = _mm512_maskz_cvtepu16_epi32(0xffff, all);
  return (simd::F32)_mm512_maskz_slli_epi32(0xffff, words, 16);
#elif defined(TELAMON_ISA_AVX2)
  const auto all = (__m128i)bits;
  if constexpr (std::is_same_v<T, Half>) return _mm256_cvtph_ps(all);
  // gcc 12 makes __builtin_convertvector of two halves.
  return (simd::F32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(all), 16);
#else
  if constexpr (std::is_same_v<T, Half>) {
    simd::F32 x;
    for (int j = 0; j < simd::Lanes<simd::F32>::kCount; ++j) x[j] = widen(Half{bits[j]});
    return x;
  } else {
    return (simd::F32)(__builtin_convertvector(bits, simd::U32) << 16);
  }
#endif
}
/// Rounded to T.
template <class T>
TELAMON_INLINE NarrowLanes narrow_register(simd::F32 x) {
  return __builtin_convertvector((narrow_bits<T, simd::U32>(x)), NarrowLanes);
}
template <class T>
TELAMON_INLINE simd::F32 widen_lanes(const T* from) {
  NarrowLanes bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return widen_register<T>(bits);
}
template <class T>
TELAMON_INLINE void narrow_lanes(T* to, simd::F32 x) {
  const NarrowLanes bits = narrow_register<T>(x);
  __builtin_memcpy(static_cast<void*>(to), &bits, sizeof bits);
}
#if defined(TELAMON_ISA_AVX512) || defined(TELAMON_ISA_AVX2)
/// The first four lanes, or eight; zeros in the others.
template <int kCount, class T>
TELAMON_INLINE simd::F32 widen_first(const T* from) {
  const auto* const at = reinterpret_cast<const __m128i*>(from);
  const __m128i bits = kCount == 8 ? _mm_loadu_si128(at) : _mm_loadl_epi64(at);
#if defined(TELAMON_ISA_AVX512)
  return widen_register<T>((NarrowLanes)_mm256_zextsi128_si256(bits));
#else
  return widen_register<T>((NarrowLanes)bits);
#endif
}
template <int kCount, class T>
TELAMON_INLINE void narrow_first(T* to, simd::F32 x) {
  auto* const at = reinterpret_cast<__m128i*>(to);
#if defined(TELAMON_ISA_AVX512)
  const __m128i bits = _mm256_castsi256_si128((__m256i)narrow_register<T>(x));
#else
  const auto bits = (__m128i)narrow_register<T>(x);
#endif
  if constexpr (kCount == 8) _mm_storeu_si128(at, bits);
  else _mm_storel_epi64(at, bits);
}
#endif
/// `count` numbers of any floating type, at least one, as a register of what is computed with; zeros in the other lanes.
template <class V, class S>
TELAMON_INLINE V load_widened(const S* from, std::int64_t count) {
  if constexpr (kIsSmallFloat<S>) {
    constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
    if (count >= kLanes) return widen_lanes(from);
    S some[kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) some[i] = from[i];
    return widen_lanes(some);
  } else {
    return simd::load_lanes<V>(from, count);
  }
}
template <class T>
TELAMON_INLINE T add_halves(T a, T b) {
  return narrow_to<T>(widen(a) + widen(b));
}
/// Adds n numbers to others, in pieces of one size each: a row that comes back soon reads what was just stored.
template <class T>
TELAMON_INLINE void add_row_of_halves(T* to, const T* from, std::int64_t n) {
  constexpr std::int64_t kLanes = simd::Lanes<simd::F32>::kCount;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    narrow_lanes(to + i, widen_lanes(to + i) + widen_lanes(from + i));
#if defined(TELAMON_ISA_AVX512) || defined(TELAMON_ISA_AVX2)
  const auto add_first = [&]<int kCount>() __attribute__((always_inline)) {
    if (i + kCount > n) return;
    narrow_first<kCount>(to + i, widen_first<kCount>(to + i) + widen_first<kCount>(from + i));
    i += kCount;
  };
  if constexpr (kLanes > 8) add_first.template operator()<8>();
  add_first.template operator()<4>();
#endif
  for (; i < n; ++i) to[i] = add_halves(to[i], from[i]);
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
