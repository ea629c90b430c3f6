// Exponentials and what is made of one. For vector_math_isa.cpp only.
#pragma once

#include "runtime/math/simd.hpp"
#include "runtime/math/split.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- exp family: x = n ln 2 + r, e^x = 2^n e^r, e^r = 1 + r + r^2 Q(r), |r| <= ln(2) / 2.

// Not within exp_tail, from whose instances gcc 12 does not take template arguments.
constexpr float kExpTailF32[] = {0.00139262504f, 0.00836323295f, 0.0416665524f, 0.166665763f, 0.5f};
constexpr double kExpTailF64[] = {
    2.5100472505694996e-08, 2.7620201591031547e-07, 2.7557268276905696e-06, 2.4801521057868204e-05,
    0.00019841269863171557, 0.0013888888917367081,  0.008333333333330039,   0.041666666666623824,
    0.16666666666666669,    0.5000000000000001};
template <bool kFewRegisters = false> TELAMON_INLINE F32 exp_tail(F32 r) {
  return kFewRegisters ? horner<kExpTailF32>(r) : estrin<kExpTailF32, true>(r);
}
template <bool kFewRegisters = false> TELAMON_INLINE F64 exp_tail(F64 r) {
  return kFewRegisters ? horner<kExpTailF64>(r) : by_halves<kExpTailF64>(r);
}

// ln 2 in two parts; the first has enough trailing zeros that n times it is exact without FMA.
template <class V> struct Ln2;
template <> struct Ln2<F32> {
  static constexpr float kHigh = 0.693359375f, kLow = -2.12194440e-4f, kInverse = 1.44269504f;
};
template <> struct Ln2<F64> {
  static constexpr double kHigh = 6.93147180369123816490e-01, kLow = 1.90821492927058770002e-10,
                          kInverse = 1.4426950408889634;
};

/// Where the scaling by 2^n needs care.
template <class V> struct ExpRange;
template <> struct ExpRange<F32> {
  static constexpr float kOverflow = 88.7228317f;                // ln of the largest finite number
  static constexpr float kZero = -103.972084f;                   // ln of half the least denormal
  static constexpr float kOverflow2 = 128.0f, kZero2 = -150.0f;  // for exp2
  static constexpr float kNormal = 87.33f, kSettled = 104;       // |x|: see exp
  static constexpr int kMantissa = 23,
                       kNone = -127;  // n of which the bits of 2^n would be those of 0
};
template <> struct ExpRange<F64> {
  static constexpr double kOverflow = 709.78271289338397, kZero = -745.13321910194122;
  static constexpr double kOverflow2 = 1024.0, kZero2 = -1075.0;
  static constexpr double kNormal = 708.39, kSettled = 746;
  static constexpr int kMantissa = 52, kNone = -1023;
};

/// p 2^n, n in the low bits of `n_bits` and twice the range of exponents at most: by two products with about 2^(n/2),
/// of which only the last rounds, overflows or gives a denormal number. Where `zero`, a product with 0, which is not
/// slow as one is that underflows. A NaN stays one, whatever n is.
template <class V> TELAMON_INLINE V scale(V p, IntOf<V> n_bits, IntOf<V> zero) {
  using Unsigned = typename Lanes<V>::Unsigned;
  constexpr int kMantissa = ExpRange<V>::kMantissa;
  const auto one = (IntOf<V>)constant<V, 1>();
  const IntOf<V> half = (IntOf<V>)((Unsigned)n_bits >> 1);
  const V first = (V)(one + (half << kMantissa)),
          second = (V)(one + ((n_bits - half) << kMantissa));
  const V last = zero ? V{} : second;
  if constexpr (kFused) return fma(p * first, last, V{});  // see product_of_small
  return p * first * last;
}

/// e^r - 1 for x = n ln 2 + r, n next to x / ln 2.
template <bool kFewRegisters = false, class V> TELAMON_INLINE V expm1_of_rest(V x, Rounded<V> n) {
  V r = fma(n.value, constant<V, -Ln2<V>::kHigh>(), x);
  r = fma(n.value, constant<V, -Ln2<V>::kLow>(), r);
  return fma(product_of_small(r, r), exp_tail<kFewRegisters>(r), r);
}
/// 2^n times kPart, a power of two.
template <auto kPart, class V> TELAMON_INLINE V power_of_two(Rounded<V> n) {
  using Bits = typename Lanes<V>::Unsigned;
  return (V)((Bits)constant<V, kPart>() + ((Bits)n.bits << ExpRange<V>::kMantissa));
}

/// e^x = value 2^n.
template <class V> struct ExpParts {
  V value;
  Rounded<V> n;
};
template <class V> TELAMON_INLINE ExpParts<V> exp_parts(V x) {
  using R = ExpRange<V>;
  V clamped = at_most(x, constant<V, R::kOverflow + 1>());
  if constexpr (!kScales) clamped = at_least(clamped, constant<V, R::kZero>());
  const auto n = round_product<Ln2<V>::kInverse>(clamped);
  return {expm1_of_rest(clamped, n) + constant<V, 1>(), n};
}
/// e^x for any x.
template <class V> TELAMON_INLINE V exp_of_any(V x) {
  using R = ExpRange<V>;
  const auto [p, n] = exp_parts(x);
  if constexpr (kScales) return times_power(p, n.value, x, R::kZero - 1);
  return scale<V>(p, n.bits, x <= constant<V, R::kZero>());
}
template <class V> __attribute__((noinline, cold)) V rare_exp(V x) { return exp_of_any(x); }

/// The same, to the bit, by one product, where no result is denormal, nor so large that 2^n is infinite (then kNormal < |x| <
/// kSettled). Further out the bits of 2^n are those of 0 or of infinity, and that is the result. kSmall: no x is above kNormal.
template <bool kSmall = false, class V> TELAMON_INLINE V usual_exp(V x) {
  using R = ExpRange<V>;
  // Above kOverflow, so that e^r - 1 is positive where 2^n is infinite.
  V clamped = kSmall ? x : at_most(x, constant<V, R::kOverflow + 1e-4>());
  clamped = at_least(clamped, constant<V, R::kNone / Ln2<V>::kInverse>());
  const auto n = round_product<Ln2<V>::kInverse>(clamped);
  const V power = power_of_two<1>(n);
  return fma(expm1_of_rest(clamped, n), power, power);
}
template <class V> TELAMON_INLINE V exp(V x) {
  using R = ExpRange<V>;
  if constexpr (kAsks) {
    return any_between<R::kNormal, R::kSettled>(x) ? rare_exp(x) : usual_exp(x);
  } else {
    return exp_of_any(x);
  }
}

// 2^x = 2^n 2^r, 2^r = 1 + r P(r), |r| <= 1/2.
TELAMON_INLINE F32 exp2_tail(F32 r) {
  static constexpr float kP[] = {1.52973244e-05f, 0.000154614449f, 0.0013333502f, 0.00961805694f,
                                 0.0555041097f,   0.240226507f,    0.693147182f};
  return estrin<kP, true>(r);
}
TELAMON_INLINE F64 exp2_tail(F64 r) {
  static constexpr double kP[] = {
      2.5729324177362305e-11, 4.4558179083360645e-10, 7.0548973041554995e-09,
      1.0178057087733941e-07, 1.3215486808705563e-06, 1.5252733841556773e-05,
      0.00015403530393370734, 0.001333355814640647,   0.00961812910762848,
      0.055504108664821625,   0.24022650695910072,    0.6931471805599453};
  return by_halves<kP>(r);
}
template <class V> TELAMON_INLINE V exp2(V x) {
  using R = ExpRange<V>;
  V clamped = at_most(x, constant<V, R::kOverflow2>());
  if constexpr (!kScales) clamped = at_least(clamped, constant<V, R::kZero2>());
  const auto n = round_to_integer(clamped);
  const V r = clamped - n.value;
  const V p = fma(r, exp2_tail(r), constant<V, 1>());
  if constexpr (kScales) return times_power(p, n.value, x, R::kZero2);
  return scale<V>(p, n.bits, x <= constant<V, R::kZero2>());
}

/// kPart (e^x - 1) = kPart 2^n (e^r - 1) + (kPart 2^n - kPart), without the special cases: x from -60 to as far as kPart 2^n
/// is finite. Half for the largest x of which e^x is finite.
template <auto kPart, bool kFewRegisters = false, class V>
TELAMON_INLINE V part_of_expm1(V x, Rounded<V> n) {
  const V power = power_of_two<kPart>(n);
  return fma(power, expm1_of_rest<kFewRegisters>(x, n), power - constant<V, kPart>());
}
template <class V> TELAMON_INLINE V expm1(V x) {
  // A little beyond the largest x of a finite result half of it is finite still, and twice that is not.
  const V clamped =
      at_most(at_least(x, constant<V, -60>()), constant<V, ExpRange<V>::kOverflow + 0.25>());
  const V y = part_of_expm1<0.5>(clamped, round_product<Ln2<V>::kInverse>(clamped)) * 2;
  // Half of a denormal number has lost a bit, and a sum the sign of zero.
  return abs(x) < constant<V, LogRange<V>::kLeastNormal>() ? x : y;
}

// tanh |x| = h / (1 - h) with h = (1 - e^(-2|x|)) / 2, which never overflows. Of |x| = r - n ln 2 / 2 it takes (1 - e^(-2r)) / 2 =
// r - r^2 T(r), where T(r) is twice exp_tail(-2r), to the bit. (That of f32 with AVX-512 is in tanh_table.hpp.)
constexpr float kTanhTailF32[] = {32 * kExpTailF32[0], -16 * kExpTailF32[1], 8 * kExpTailF32[2],
                                  -4 * kExpTailF32[3], 2 * kExpTailF32[4]};
constexpr double kTanhTailF64[] = {
    -1024 * kExpTailF64[0], 512 * kExpTailF64[1], -256 * kExpTailF64[2], 128 * kExpTailF64[3],
    -64 * kExpTailF64[4],   32 * kExpTailF64[5],  -16 * kExpTailF64[6],  8 * kExpTailF64[7],
    -4 * kExpTailF64[8],    2 * kExpTailF64[9]};
TELAMON_INLINE F32 tanh_tail(F32 r) { return estrin<kTanhTailF32, true>(r); }
TELAMON_INLINE F64 tanh_tail(F64 r) { return by_halves<kTanhTailF64>(r); }
template <class V> TELAMON_INLINE V tanh(V x) {
  const V a = abs(x), bounded = at_most(a, constant<V, 30>());
  const auto n = round_product<-2 * Ln2<V>::kInverse>(bounded);
  V r = fma(n.value, constant<V, Ln2<V>::kHigh / 2>(), bounded);
  r = fma(n.value, constant<V, Ln2<V>::kLow / 2>(), r);
  const V power = power_of_two<1>(n), half = constant<V, 0.5>();
  const V h = fma(power, fma(-product_of_small(r, r), tanh_tail(r), r), fma(power, -half, half));
  const V y = h / (constant<V, 1>() - h);
  return (V)((IntOf<V>)y ^ ((IntOf<V>)a ^ (IntOf<V>)x));  // the sign of x
}

// sinh |x| = 2 (q + q / (4 q + 1)) with q = (e^|x| - 1) / 4, cosh x = 2 (q + 1 / (16 q)) with q = e^|x| / 4; beyond kMost
// both are infinite.
template <class V> struct HyperbolicRange;
template <> struct HyperbolicRange<F32> {
  static constexpr float kMost = 89.5f;
  static constexpr bool kFewRegisters = true;
};
template <> struct HyperbolicRange<F64> {
  static constexpr double kMost = 710.5;
  static constexpr bool kFewRegisters = false;
};
template <class V> TELAMON_INLINE V sinh(V x) {
  using R = HyperbolicRange<V>;
  const V a = abs(x), bounded = at_most(a, constant<V, R::kMost>());
  const auto n = round_product<Ln2<V>::kInverse>(bounded);
  const V q = part_of_expm1<0.25, R::kFewRegisters>(bounded, n);
  const V half = q + q / fma(q, constant<V, 4>(), constant<V, 1>());
  // A fourth of a denormal number has lost two bits.
  const V y = a < constant<V, LogRange<V>::kLeastNormal>() ? a : half + half;
  return (V)((IntOf<V>)y | ((IntOf<V>)x ^ (IntOf<V>)a));  // the sign of x
}
template <class V> TELAMON_INLINE V cosh(V x) {
  using R = HyperbolicRange<V>;
  const V bounded = at_most(abs(x), constant<V, R::kMost>());
  const auto n = round_product<Ln2<V>::kInverse>(bounded);
  const V power = power_of_two<0.25>(n),
          q = fma(power, expm1_of_rest<R::kFewRegisters>(bounded, n), power);
  // Beyond, the quotient would only be a denormal number, which is slow.
  const V half = q + constant<V, 0.0625>() / at_most(q, constant<V, 0x1p60>());
  return half + half;
}

// 1 / (1 + e^-x) = e^x / (1 + e^x), which is 1 long before e^x overflows. A denormal quotient would be slow, and is e^x.
template <class V> __attribute__((noinline, cold)) V rare_logistic(V x) {
  const V e = exp_of_any(x), least = constant<V, LogRange<V>::kLeastNormal>();
  return e < least ? e : at_least(e, least) / (e + constant<V, 1>());
}
template <class V> TELAMON_INLINE V logistic(V x) {
  using R = ExpRange<V>;
  const V bounded = at_most(x, constant<V, 80>());
  if constexpr (kAsks) {
    if (any_between<R::kNormal, R::kSettled>(bounded)) return rare_logistic(bounded);
  }
  if constexpr (kScales) {  // the quotient before it is denormal
    const auto [p, n] = exp_parts(bounded);
    const V e = times_power(p, n.value, bounded, R::kZero - 1);
    return times_power(p / (e + constant<V, 1>()), n.value, bounded, R::kZero - 1);
  }
  const V e = kAsks ? usual_exp<true>(bounded) : exp_of_any(bounded);
  return e / (e + constant<V, 1>());
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
