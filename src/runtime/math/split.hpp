// Infinity and NaN; numbers in two: x = m 2^e with m in [3/4, 3/2). For vector_math_isa.cpp only.
#pragma once

#include "runtime/math/simd.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

constexpr float kInfF = __builtin_inff();
constexpr double kInf = __builtin_inf();
template <class V> constexpr ScalarOf<V> kNan = static_cast<ScalarOf<V>>(__builtin_nan(""));

// ---- x = m 2^e, m in [kLeast, 2 kLeast), kLeast from 1/2 to 1

template <class V> struct Split {
  V exponent, mantissa;
};
template <auto kLeast> TELAMON_INLINE Split<F32> split_bits(F32 x) {
  const U32 bits = (U32)x;
  const U32 above = bits - (U32)constant<F32, kLeast>();
  const U32 whole = above & (U32)constant<F32, -kInfF>();  // e 2^23: the bits of sign and exponent
  return {__builtin_convertvector((I32)above >> 23, F32), (F32)(bits - whole)};
}
template <auto kLeast> TELAMON_INLINE Split<F64> split_bits(F64 x) {
  // There is no 64-bit arithmetic shift nor conversion before AVX-512: the exponent is kept
  // positive and becomes a double through the mantissa of 2^52.
  const U64 bits = (U64)x;
  constexpr auto kBits = __builtin_bit_cast(std::uint64_t, double{kLeast});
  const U64 e = (bits - kBits + (std::uint64_t{2048} << 52 >> 1)) >> 52;  // + 1024
  const F64 exponent = (F64)(e | 0x4330000000000000u) - (0x1p52 + 1024);
  return {exponent, (F64)(bits - ((e - 1024) << 52))};
}

template <class V> struct LogRange;
template <> struct LogRange<F32> {
  static constexpr float kLeastNormal = 0x1p-126f, kRaise = 0x1p23f, kRaiseExponent = 23;
};
template <> struct LogRange<F64> {
  static constexpr double kLeastNormal = 0x1p-1022, kRaise = 0x1p52, kRaiseExponent = 52;
};

/// Of positive normal numbers.
template <auto kLeast = 0.75, class V> TELAMON_INLINE Split<V> split(V x) {
  if constexpr (kScales) {
    const V e = exponent(x);
    if constexpr (kLeast == 0.75) {
      const V m = mantissa(x);
      return {m < 1 ? e + 1 : e, m};
    } else {
      const V m = mantissa_from_one(x);
      const auto halved = m >= constant<V, 2 * kLeast>();
      return {halved ? e + 1 : e, halved ? m * constant<V, 0.5>() : m};
    }
  }
  return split_bits<kLeast>(x);
}
/// Of denormal ones, too, and what has been split: of those a multiple that is none, and with FMA +0 of both zeros.
template <class V> struct SplitAny {
  V exponent, mantissa, whole;
};
template <auto kLeast = 0.75, class V> TELAMON_INLINE SplitAny<V> split_any(V x) {
  if constexpr (kScales) {
    const auto [e, m] = split<kLeast>(x);
    return {e, m, x};
  }
  using R = LogRange<V>;
  const auto denormal = x < constant<V, R::kLeastNormal>();
  const V whole = denormal ? fma(x, constant<V, R::kRaise>(), V{}) : x;
  const auto [e, m] = split_bits<kLeast>(whole);
  return {denormal ? e - constant<V, R::kRaiseExponent>() : e, m, whole};
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
