// pow, for the instruction sets with FMA: |x|^y = e^(y ln |x|), with the sign of x where y is odd. For vector_math_isa.cpp
// only.
#pragma once

#include "runtime/math/exponentials.hpp"
#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"
#include "runtime/math/split.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

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
template <auto kLeast, class V> TELAMON_INLINE Split<V> split_magnitude(V x) {
  constexpr auto kInfinity = static_cast<ScalarOf<V>>(kInf);
  const V a = kScales ? x : abs(x);
  auto [e, m, whole] = split_any<kLeast>(a);
  if constexpr (!kScales) {
    e = a < constant<V, kInfinity>() ? e : a;
    e = a == 0 ? constant<V, -kInfinity>() : e;
  }
  return {e, m};
}

// ---- The exponent may be 745 (f64) or 104 (f32), and the logarithm needs as many bits more than the result has: it and what
// it is made of are sums of two (Dekker, A Floating-Point Technique for Extending the Available Precision, 1971). FMA gives the
// error of a product. With the logarithms of 16 numbers at hand, little is left of which a series is to be summed, and none of
// the operations that wait for each other is a division (Tang, Table-Driven Implementation of the Logarithm Function in IEEE
// Floating-Point Arithmetic, 1990).

/// x = m 2^e with m in [kLeastOf16, 2 kLeastOf16), which is 1/64 beyond the middle between two of 16 steps from 1 to 2.
constexpr double kLeastOf16 = 0.765625;

template <class V> struct PowerRange;
template <> struct PowerRange<F32> {
  static constexpr float kMost = 89, kLeast = -105, kZero = -104;  // of t: e^t is infinite, 0, 0
  static constexpr std::int32_t kStep = 1 << 19;                   // of 16 from 1 to 2
  static constexpr int kStepBits = 19;
  static constexpr double kShift =
      0x1.8p35;  // brings an f64 to as many places as leave sums with e ln 2 exact
};
template <> struct PowerRange<F64> {
  static constexpr double kMost = 711, kLeast = -746, kZero = -745.2;
  static constexpr std::int64_t kStep = std::int64_t{1} << 48;
  static constexpr int kStepBits = 48;
  static constexpr double kShift = 0;  // has no more
};

/// By the step that m is next to: 1 / c of a c near by, so short that m / c - 1 is exact, and ln c in two. 1 is one c.
template <class V> struct Logarithms16 {
  Rows<V, 16, 4> rows;
  constexpr Logarithms16() : rows{} {
    constexpr double kAll[16][3] = {
        {1, 0, 0},
        {0x1.ep-1, 0x1.08598b59e4p-4, -0x1.7e5dd7009902cp-46},
        {0x1.c8p-1, 0x1.da72763844p-4, 0x1.a89401fa71733p-46},
        {0x1.bp-1, 0x1.5bf406b544p-3, -0x1.27023eb68981cp-46},
        {0x1.98p-1, 0x1.d1037f2656p-3, -0x1.84a7e75b6f6e4p-47},
        {0x1.88p-1, 0x1.1178e8227ep-2, 0x1.1ef78ce2d07f2p-44},
        {0x1.7p-1, 0x1.522ae0738ap-2, 0x1.ebe708164c759p-45},
        {0x1.6p-1, 0x1.7fafa3bd81p-2, 0x1.46fb79bf6d4cbp-44},
        {0x1.58p-1, 0x1.973a343135p-2, 0x1.ab73b16bf4984p-44},
        {0x1.48p+0, -0x1.fb9186d5e4p-3, 0x1.d572aab993c87p-47},
        {0x1.38p+0, -0x1.9525a9cf46p-3, 0x1.297137d9f158fp-44},
        {0x1.3p+0, -0x1.5ff3070a7ap-3, 0x1.8586f183bebf2p-44},
        {0x1.28p+0, -0x1.29552f82p-3, 0x1.5b967f4471dfcp-44},
        {0x1.18p+0, -0x1.6f0d28ae58p-4, 0x1.4b4641b664613p-44},
        {0x1.1p+0, -0x1.f0a30c0118p-5, 0x1.d599e83368e91p-45},
        {0x1.08p+0, -0x1.f829b0e78p-6, -0x1.980267c7e09e4p-45},
    };
    for (int row = 0; row < 16; ++row) {
      const auto [inverse, log, rest] = kAll[row];
      constexpr double kShift = PowerRange<V>::kShift;
      const double first = kShift == 0 ? log : (log + kShift) - kShift;
      rows.set(row, 0, inverse);
      rows.set(row, 1, first);
      rows.set(row, 2, (log - first) + rest);
    }
  }
};
template <class V> constexpr Logarithms16<V> kLogarithms16;

/// 2^(i / 16), and what that lacks as a part of it.
template <class V> struct Powers16 {
  Rows<V, 16, 2> rows;
  constexpr Powers16() : rows{} {
    constexpr double kAll[16][2] = {
        {1, 0},
        {0x1.0b5586cf9890fp+0, 0x1.79aa65d837b6dp-54},
        {0x1.172b83c7d517bp+0, -0x1.01b15eaa59348p-55},
        {0x1.2387a6e756238p+0, 0x1.68efde3a8a894p-54},
        {0x1.306fe0a31b715p+0, 0x1.34d754db0abb6p-55},
        {0x1.3dea64c123422p+0, 0x1.59f48a72a4c6dp-55},
        {0x1.4bfdad5362a27p+0, 0x1.690cebb7aafbp-56},
        {0x1.5ab07dd485429p+0, 0x1.063e1e21c5409p-54},
        {0x1.6a09e667f3bcdp+0, -0x1.3b3efbf5e2228p-54},
        {0x1.7a11473eb0187p+0, -0x1.b32dcb94da51dp-56},
        {0x1.8ace5422aa0dbp+0, 0x1.db72fc1f0eab4p-55},
        {0x1.9c49182a3f09p+0, 0x1.1affc2b91ce27p-56},
        {0x1.ae89f995ad3adp+0, 0x1.c1a7792cb3387p-55},
        {0x1.c199bdd85529cp+0, 0x1.36eae30af0cb3p-56},
        {0x1.d5818dcfba487p+0, 0x1.4a385a63d07a7p-56},
        {0x1.ea4afa2a490dap+0, -0x1.ff7128fd391fp-55},
    };
    for (int row = 0; row < 16; ++row) {
      const auto [power, rest] = kAll[row];
      const double first = ScalarOf<V>(power);
      rows.set(row, 0, first);
      rows.set(row, 1, (power - first) / first + rest);
    }
  }
};
template <class V> constexpr Powers16<V> kPowers16;

template <class V> struct Twofold {
  V high, low;
};

constexpr float kLog1pTailF32[] = {-0.16688596f, 0.2002339f, -0.24999991f, 0.33333325f};
constexpr double kLog1pTailF64[] = {0.09117510735168942,  -0.10025355372691849, 0.1111107690433034,
                                    -0.12499972831556938, 0.14285714305701663,  -0.1666666667857239,
                                    0.1999999999999489,   -0.2499999999999826,  0.3333333333333333};
TELAMON_INLINE F32 log1p_tail(F32 r) { return estrin<kLog1pTailF32>(r); }
TELAMON_INLINE F64 log1p_tail(F64 r) { return estrin<kLog1pTailF64>(r); }

/// ln(m 2^e) = e ln 2 + ln c + r - r^2 / 2 + r^3 P(r), r = m / c - 1, |r| < 0.0342. The sums are of terms of which the first
/// is the larger one, or 0.
template <class V> TELAMON_INLINE Twofold<V> log_in_two(V e, V m) {
  using R = PowerRange<V>;
  using Unsigned = typename Lanes<V>::Unsigned;
  const auto next_step = (Unsigned)((IntOf<V>)m + constant_bits<V, R::kStep / 2>());
  const auto [inverse, c, c_low, none] =
      look_up(kLogarithms16<V>.rows, next_step >> R::kStepBits).numbers;
  const V r = fma(m, inverse, -constant<V, 1>());
  const V square = r * r, half = r * constant<V, -0.5>();
  const V first = fma(e, constant<V, Ln2<V>::kHigh>(), c), second = first + r;
  const V term = half * r, third = second + term;
  V low = fma(e, constant<V, Ln2<V>::kLow>(), c_low) + ((first - second) + r);
  low += ((second - third) + term) + fma(half, r, -term);
  low = fma(square * r, log1p_tail(r), low);
  low = e - e == 0 ? low : V{};  // of 0 and infinity `first` says all
  const V high = third + low;
  return {high, (third - high) + low};
}

constexpr float kPowerTailF32[] = {0.041667596f, 0.16667016f, 0.5f};
constexpr double kPowerTailF64[] = {0.0013889117823836317, 0.008333475781819468,
                                    0.04166666666027486, 0.1666666666428039, 0.5000000000000006};
TELAMON_INLINE F32 power_tail(F32 r) { return estrin<kPowerTailF32, true>(r); }
TELAMON_INLINE F64 power_tail(F64 r) { return estrin<kPowerTailF64>(r); }

/// e^(t + rest) = 2^k e^r for multiples k of 1/16; rest means nothing where that is 0 or infinite.
template <class V> TELAMON_INLINE V exp_in_two(V t, V rest) {
  using R = PowerRange<V>;
  using Unsigned = typename Lanes<V>::Unsigned;
  const V bounded = at_least(at_most(t, constant<V, R::kMost>()), constant<V, R::kLeast>());
  const V shift = constant<V, Shift<V>::kValue / 16>();
  const V shifted = fma(bounded, constant<V, Ln2<V>::kInverse>(), shift), k = shifted - shift;
  rest = fma(k, constant<V, -Ln2<V>::kLow>(), bounded == t ? rest : V{});
  const V r = fma(k, constant<V, -Ln2<V>::kHigh>(), bounded) + rest;
  const auto [power, power_low] = look_up(kPowers16<V>.rows, (Unsigned)shifted).numbers;
  const V p = fma(product_of_small(r, r), power_tail(r), r + power_low), y = fma(power, p, power);
  if constexpr (kScales) return times_power(y, k);
  return scale<V>(y, (IntOf<V>)((Unsigned)shifted >> 4), t < constant<V, R::kZero>());
}
template <class V> TELAMON_INLINE V power_of_any(V x, V y) {
  const auto [e, m] = split_magnitude<kLeastOf16>(x);
  const auto [log, log_low] = log_in_two(e, m);
  const V t = y * log, rest = fma(y, log_low, fma(y, log, -t));
  return of_any_base(x, y, exp_in_two(t, rest));
}

TELAMON_INLINE F32 pow(F32 x, F32 y) { return power_of_any(x, y); }
#if defined(TELAMON_ISA_AVX512)
TELAMON_INLINE F64 pow(F64 x, F64 y) { return power_of_any(x, y); }
#endif

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
