// pow, for the instruction sets with FMA: |x|^y = 2^(y log2 |x|), with the sign of x where y is odd. For
// vector_math_isa.cpp only.
#pragma once

#include "runtime/math/exponentials.hpp"
#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"
#include "runtime/math/split.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- In f32 the exponent may be 128, and an error of it becomes a relative one of the power: it needs 7 bits more than
// the result has. f64 has them to spare.

/// e + log2(1 + f) for f in [-1/4, 1/2]: log2(1 + f) = 2 / ln 2 atanh s, s = f / (2 + f).
TELAMON_INLINE F64 log2_for_f32(F64 e, F64 f) {
  static constexpr double kP[] = {0.34838964745966455, 0.41120653671697335, 0.5770923407903296,
                                  0.9617966217643457, 2.8853900818360407};
  const F64 s = f / (f + constant<F64, 2>());
  return fma(s, by_halves<kP>(s * s), e);
}
/// 2^t, as far as f32 tells it from 0 and infinity: 2^t = 2^n 2^r, 2^r = 1 + r P(r). AVX-512 has the parts of any t in one
/// operation each; elsewhere a NaN stays one because no bits of it are as low as those of n.
TELAMON_INLINE F64 exp2_for_f32(F64 t) {
  static constexpr double kP[] = {0.00015359105782041102, 0.0013398896491660427,
                                  0.009618416537838995,   0.05550332388263011,
                                  0.24022648074436012,    0.6931472028714929};
#if defined(TELAMON_ISA_AVX512)
  const F64 r = _mm512_maskz_reduce_pd(0xff, t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_maskz_scalef_pd(0xff, fma(r, by_halves<kP>(r), constant<F64, 1>()), nearest(t));
#else
  const F64 bounded = at_least(at_most(t, constant<F64, 130>()), constant<F64, -152>());
  const auto n = round_to_integer(bounded);
  const F64 r = bounded - n.value, p = fma(r, by_halves<kP>(r), constant<F64, 1>());
  return (F64)((I64)p + (n.bits << 52));
#endif
}

// ---- What the sign of x, infinities and NaN make of it (C 2017, annex F.10.4.4).

/// From here on every number is even; the largest that is odd is one less.
template <class V> constexpr ScalarOf<V> kLeastOfEven = Shift<V>::kValue / ScalarOf<V>(0.75);
/// Whether a >= 0 is a whole number. NaN is none.
template <class V> TELAMON_INLINE IntOf<V> is_whole(V a) {
  const V shift = constant<V, kLeastOfEven<V> / 2>(), bounded = at_most(a, shift);
  return (bounded + shift) - shift == bounded;
}
/// The power of a negative x, from that of |x|. That of -1 is 1 also where y is infinite.
template <class V> __attribute__((noinline)) V of_negative_bases(V x, V y, V power) {
  constexpr auto kInfinity = static_cast<ScalarOf<V>>(kInf);
  const V a = abs(y), one = constant<V, 1>();
  const auto whole = is_whole(a), half_whole = is_whole(a * constant<V, 0.5>());
  const auto one_for_ever = (x == -one) & (a == kInfinity);
  power = one_for_ever ? one : power;
  const auto sign = whole & ~half_whole & (IntOf<V>)x & sign_bit<V>();
  power = (V)((IntOf<V>)power ^ sign);
  const auto none = (x < 0) & (x > -kInfinity) & ~whole;
  return none ? splat<V>(kNan<V>) : power;
}
/// Whether any lane has the sign bit.
template <class V> TELAMON_INLINE bool any_sign(V x) {
  constexpr bool kSingle = sizeof(ScalarOf<V>) == 4;
#if defined(TELAMON_ISA_AVX512)
  if constexpr (kSingle) return _mm512_movepi32_mask((__m512i)x) != 0;
  return _mm512_movepi64_mask((__m512i)x) != 0;
#else
  if constexpr (kSingle) return _mm256_movemask_ps((__m256)x) != 0;
  return _mm256_movemask_pd((__m256d)x) != 0;
#endif
}
template <class V> TELAMON_INLINE V of_any_base(V x, V y, V power) {
  const V one = constant<V, 1>();
  const auto is_one = (y == 0) | (x == one);  // also where the other is NaN
  power = is_one ? one : power;
  return any_sign(x) ? of_negative_bases(x, y, power) : power;
}

/// |x| in two. The exponent of 0 is -inf, that of infinity inf, that of NaN NaN.
template <class V> TELAMON_INLINE Split<V> split_magnitude(V x) {
  constexpr auto kInfinity = static_cast<ScalarOf<V>>(kInf);
  const V a = abs(x);
  auto [e, m, whole] = split_any(a);
  if constexpr (!kScales) {
    e = a < constant<V, kInfinity>() ? e : a;
    e = a == 0 ? constant<V, -kInfinity>() : e;
  }
  return {e, m};
}

TELAMON_INLINE F32 pow(F32 x, F32 y) {
  const auto [e, m] = split_magnitude(x);
  const Wide exponent = widen(e), f = widen(m - constant<F32, 1>()), by = widen(y);
  const F64 low = exp2_for_f32(by.low * log2_for_f32(exponent.low, f.low));
  const F64 high = exp2_for_f32(by.high * log2_for_f32(exponent.high, f.high));
  return of_any_base(x, y, narrow({low, high}));
}

// ---- In f64 the exponent may be 1024, and the logarithm needs 11 bits more than a double has: it and what it is made of
// are sums of two (Dekker, A Floating-Point Technique for Extending the Available Precision, 1971). FMA gives the error
// of a product. With AVX2 all this takes half of the registers' worth of constants and half as long again as libmvec's.

#if defined(TELAMON_ISA_AVX512)
struct Twofold {
  F64 high, low;
};
/// a + b for |a| >= |b| or a = 0.
TELAMON_INLINE Twofold sum_of(F64 a, F64 b) {
  const F64 sum = a + b;
  return {sum, b - (sum - a)};
}
TELAMON_INLINE Twofold product_of(Twofold a, Twofold b) {
  const F64 product = a.high * b.high;
  const F64 rest = fma(a.high, b.high, -product);
  return {product, fma(a.low, b.high, fma(a.high, b.low, rest))};
}

/// log2(m 2^e) = e + s (c1 + c3 z + z^2 Q(z)) with s = (m - 1) / (m + 1), z = s^2, c1 = 2 / ln 2, c3 = c1 / 3. To 2^-64
/// of itself at least, as the last term is less than 2^-11 of the sum.
TELAMON_INLINE Twofold log2_in_two(F64 e, F64 m) {
  static constexpr double kQ[] = {0.18133864794925786, 0.16724714472384497, 0.19247170682872095,
                                  0.22195008331232025, 0.26230823726936303, 0.32059889753100124,
                                  0.4121985831132642,  0.5770780163555814};
  const F64 one = constant<F64, 1>(), f = m - one;
  const auto [u, u_low] = sum_of(m < one ? one : m, m < one ? m : one);
  const F64 inverse = one / u, quotient = f * inverse;
  const F64 left = fma(-quotient, u_low, fma(-quotient, u, f));
  const Twofold s = {quotient, left * inverse};
  const Twofold z = product_of(s, s);
  Twofold c3 = sum_of(constant<F64, 0x1.ec709dc3a03fdp-1>(), z.high * estrin<kQ>(z.high));
  c3.low += constant<F64, 0x1.d27f05548af0cp-55>();
  const Twofold p = product_of(z, c3);
  Twofold c1 = sum_of(constant<F64, 0x1.71547652b82fep+1>(), p.high);
  c1.low += p.low + constant<F64, 0x1.777d0ffda0d24p-55>();
  const Twofold l = product_of(s, c1);
  Twofold log = sum_of(e, l.high);
  log.low += l.low;
  return log;
}
TELAMON_INLINE F64 exp2_in_two(F64 t, F64 rest) {
  const F64 bounded = at_least(at_most(t, constant<F64, 1025>()), constant<F64, -1080>());
  const auto n = round_to_integer(bounded);
  const F64 r = (bounded - n.value) + rest;
  const F64 p = fma(r, exp2_tail(r), constant<F64, 1>());
  return times_power(p, n.value, bounded, -1079);
}
TELAMON_INLINE F64 pow(F64 x, F64 y) {
  const auto [e, m] = split_magnitude(x);
  const Twofold log = log2_in_two(e, m);
  const F64 t = y * log.high, rest = fma(y, log.low, fma(y, log.high, -t));
  // Beyond, t says all, and the rest is a difference of infinities where t is one.
  const F64 power = exp2_in_two(t, abs(t) < constant<F64, 1100>() ? rest : F64{});
  return of_any_base(x, y, power);
}
#endif

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
