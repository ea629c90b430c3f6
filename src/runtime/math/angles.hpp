// sin, cos and tan of any angle, for the instruction sets with FMA. For vector_math_isa.cpp only.
//
// An angle is x = (n - offset) step + r with |r| <= step / 2. For what is met in practice that is the subtraction of
// n times the step in three parts (Cody & Waite, Software Manual for the Elementary Functions, 1980), of which FMA
// rounds only the results. Where n has too many bits for that, x / step is multiplied out from the digits of 1 / pi that
// count, and no others (Payne & Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 1983): those in front give
// an even number of steps. Infinities and NaN take the first way and become NaN there.
#pragma once

#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

/// The lowest bit of `n` is that of n; the others are anything.
template <class V> struct Angle {
  V r;
  IntOf<V> n;
};

// pi in three parts, all of them positive, so that r has the sign of a zero.
template <class V> struct Pi;
template <> struct Pi<F32> {
  static constexpr float kHigh = 0x1.921fb4p+1f, kMiddle = 0x1.4442d0p-23f, kLow = 0x1.846988p-47f;
  static constexpr float kInverse = 0x1.45f306p-2f;
  static constexpr float kMostAngle = 0x1p17f;  // beyond, n has too many bits for the parts
};
template <> struct Pi<F64> {
  static constexpr double kHigh = 0x1.921fb54442d18p+1, kMiddle = 0x1.1a62633145c06p-53,
                          kLow = 0x1.c1cd129024e08p-106;
  static constexpr double kInverse = 0x1.45f306dc9c883p-2;
  static constexpr double kMostAngle = 0x1p40;
};

// ---- Angles as they are met.

template <class F, class V> TELAMON_INLINE Angle<V> near_angle(V x) {
  using P = Pi<V>;
  using T = ScalarOf<V>;
  constexpr T kStep = F::kStep, kPerTurn = P::kInverse / kStep;
  Rounded<V> n;
  if constexpr (F::kOffset == 0) {
    n = round_product<kPerTurn>(x);
  } else {
    n = round_to_integer(fma(x, constant<V, kPerTurn>(), constant<V, F::kOffset>()));
    n.value -= constant<V, F::kOffset>();
  }
  V r = fma(n.value, constant<V, -kStep * P::kHigh>(), x);
  r = fma(n.value, constant<V, -kStep * P::kMiddle>(), r);
  return {fma(n.value, constant<V, -kStep * P::kLow>(), r), n.bits};
}

// ---- Large ones. x = y 2^(q w) with y in [2, 2^(w+1)) and x / pi = y (2^(q w) / pi), where y is a whole number of units
// of 2^(1-m) for a mantissa of m bits after the point: of the second factor only what is below 2^m counts, as all else
// gives even numbers. It is taken from a table by q. Smaller angles, of which nothing comes, get a y there, too:
// denormal numbers would be slow.

constexpr std::uint64_t kInversePiBits[] = {  // 1 / pi, from 1/2 on
    0x517cc1b727220a94, 0xfe13abe8fa9a6ee0, 0x6db14acc9e21c820, 0xff28b1d5ef5de2b0,
    0xdb92371d2126e970, 0x0324977504e8c90e, 0x7f0ef58e5894d39f, 0x74411afa975da242,
    0x74ce38135a2fbf20, 0x9cc8eb1cc1a99cfa, 0x4e422fc5defc941d, 0x8ffc4bffef02cc07,
    0xf79788c5ad05368f, 0xb69b3f6793e584db, 0xa7a31fb34f2ff516, 0xba93dd63f5f2f8bd,
    0x9e839cfbc5294975, 0x35fdafd88fc6ae84, 0x2b0198237e3db5d5, 0xf867de104d7a1b0e};

/// The `count` bits of 1 / pi from the one of value 2^-first on, times 2^shift.
constexpr double part_of_inverse_pi(int first, int shift, int count) {
  double part = 0, value = 1;
  for (int i = first; i < shift; ++i) value *= 2;
  for (int i = shift; i < first; ++i) value /= 2;
  for (int i = first; i < first + count; ++i, value /= 2) {
    const bool one = i > 0 && (kInversePiBits[(i - 1) / 64] >> (63 - (i - 1) % 64) & 1) != 0;
    if (one) part += value;
  }
  return part;
}

/// For f32, m = 23 and w = 16, in steps: the product with the first part has fewer than 42 bits before the point, and
/// the one with the second, which is times the step, too, is below 2^-13.
template <class F> struct InversePiF32 {
  Numbers8 first, second;
  constexpr InversePiF32() : first{}, second{} {
    for (int q = 0; q < 8; ++q) {
      first.set(q, part_of_inverse_pi(16 * q - 22, 16 * q, 53) / F::kStep);
      second.set(q, part_of_inverse_pi(16 * q + 31, 16 * q, 53) * Pi<F64>::kHigh);
    }
  }
};
template <class F> constexpr InversePiF32<F> kInversePiF32;

/// For f64, m = 52 and w = 32, in whole turns, of which fractions count: below 2^51, in four parts. With 2^51 in it,
/// the first makes products of 2^52 and more, of which the rounded ones are whole.
struct InversePiF64 {
  Rows<F64, 32, 4> parts;
  constexpr InversePiF64() : parts{} {
    for (int q = 0; q < 32; ++q) {
      const int first = 32 * q - 51, half = 32 * q - 1;
      parts.set(q, 0, 0x1p51 + part_of_inverse_pi(first, half, 52));
      for (int part = 1; part < 4; ++part) {
        parts.set(q, part, part_of_inverse_pi(first - 1 + 53 * part, half, 53));
      }
    }
  }
};
constexpr InversePiF64 kInversePiF64;

/// Of an f32: the fused operation that takes the whole number away rounds nothing but what is left.
template <class F>
TELAMON_INLINE Angle<F64> far_angle_of_f32(F64 y, F64 first_part, F64 second_part) {
  Rounded<F64> n;
  if constexpr (F::kOffset == 0) {
    n = round_product(y, first_part);
  } else {
    n = round_to_integer(fma(y, first_part, constant<F64, F::kOffset>()));
    n.value -= constant<F64, F::kOffset>();
  }
  const F64 fraction = fma(y, first_part, -n.value);
  return {fma(fraction, constant<F64, F::kStep * Pi<F64>::kHigh>(), y * second_part), n.bits};
}
template <class F> TELAMON_INLINE Angle<F32> far_angle(F32 x) {
  // As f64 of the upper half: the sign, 2^10 and the lower 4 bits of the exponent, and the mantissa.
  const I32 bits = (I32)x, kept = (bits >> 3) & constant_bits<F32, 0x80ffffff>();
  const Unpacked y = unpack(bits << 29, kept | constant_bits<F32, 0x40000000>());
  const U32 q = (U32)bits >> 27;
  const Unpacked first = look_up(kInversePiF32<F>.first, q);
  const Unpacked second = look_up(kInversePiF32<F>.second, q);
  const auto a = far_angle_of_f32<F>(y.a, first.a, second.a);
  const auto b = far_angle_of_f32<F>(y.b, first.b, second.b);
  return {pack({a.r, b.r}), lower_bits(a.n, b.n)};
}

/// The sum a + b and what it lacks: exact where a is a multiple of the last bit of b, even if it is less (Dekker, A
/// Floating-Point Technique for Extending the Available Precision, 1971).
struct Sum {
  F64 sum, rest;
};
TELAMON_INLINE Sum exact_sum(F64 a, F64 b) {
  const F64 sum = a + b;
  return {sum, b - (sum - a)};
}

/// The closest that an f64 comes to a multiple of pi / 2 is 2^-62 of one, so that 117 bits after the point count.
template <class F> TELAMON_INLINE Angle<F64> far_angle(F64 x) {
  // The sign, 2^10 and the lower 5 bits of the exponent, and the mantissa.
  const I64 kept = (I64)x & constant_bits<F64, 0xc1ffffffffffffff>();
  const F64 y = (F64)(kept | constant_bits<F64, 0x4000000000000000>());
  const auto [part] = look_up(kInversePiF64.parts, (U64)x >> 57);
  // x is, but for whole turns, rest0 + product1 + rest1 + product2 + last. The last bit of y times that of a part
  // divides the rest of its product and is no less than the last bit of the next product: these sums are exact.
  const F64 product0 = y * part[0], rest0 = fma(y, part[0], -product0);
  const F64 product1 = y * part[1], rest1 = fma(y, part[1], -product1);
  const F64 product2 = y * part[2], rest2 = fma(y, part[2], -product2);
  const F64 last = fma(y, part[3], rest2);
  F64 fraction0 = rest0 - nearest(rest0);
  if constexpr (F::kOffset != 0) fraction0 += constant<F64, F::kOffset * F::kStep / 2>();
  const F64 fraction1 = product1 - nearest(product1);
  // n steps are taken away before the sum that rounds, so that what this lacks is small beside it.
  const Rounded<F64> n = round_product<2 / F::kStep>(fraction0 + fraction1);
  fraction0 = fma(n.value, constant<F64, -F::kStep / 2>(), fraction0);
  const auto [high, lost0] = exact_sum(fraction0, fraction1);
  const auto [low, lost1] = exact_sum(rest1, product2);
  const auto [turns, lost2] = exact_sum(high, low);
  constexpr double kTurn = 2 * Pi<F64>::kHigh, kTurnLow = 2 * Pi<F64>::kMiddle;
  F64 r = fma(lost0 + (lost1 + last), constant<F64, kTurn>(), turns * constant<F64, kTurnLow>());
  r = fma(lost2, constant<F64, kTurn>(), r);
  return {fma(turns, constant<F64, kTurn>(), r), n.bits};
}

// ---- The choice between the two.

/// Lanes that are finite and beyond the parts of pi are those where `order` is above the bound. Twice the bits have no
/// sign; to infinity and NaN, the largest, so much is added that they become the least. As bits of floats, these
/// are constants that AVX2 takes from memory.
template <class V> struct Beyond;
template <> struct Beyond<F32> {
  static constexpr std::uint32_t kWrap = 0x81000000;
  static constexpr auto kBound = 2 * __builtin_bit_cast(std::uint32_t, Pi<F32>::kMostAngle) + kWrap;
};
template <> struct Beyond<F64> {
  static constexpr std::uint64_t kWrap = 0x8020000000000000;
  static constexpr auto kBound = 2 * __builtin_bit_cast(std::uint64_t, Pi<F64>::kMostAngle) + kWrap;
};
template <class V> TELAMON_INLINE IntOf<V> order_of(V x) {
  constexpr auto kWrap = __builtin_bit_cast(ScalarOf<V>, Beyond<V>::kWrap);
  using Bits = typename Lanes<V>::Unsigned;
  return (IntOf<V>)((Bits)x + (Bits)x + (Bits)constant<V, kWrap>());
}
template <class V> TELAMON_INLINE bool any_beyond(IntOf<V> order) {
  constexpr auto kBound = __builtin_bit_cast(ScalarOf<V>, Beyond<V>::kBound);
  const auto bound = (IntOf<V>)constant<V, kBound>();
#if defined(TELAMON_ISA_AVX512)
  if constexpr (sizeof(ScalarOf<V>) == 4) {
    return _mm512_cmpgt_epi32_mask((__m512i)order, (__m512i)bound) != 0;
  } else {
    return _mm512_cmpgt_epi64_mask((__m512i)order, (__m512i)bound) != 0;
  }
#else
  if constexpr (sizeof(ScalarOf<V>) == 4) {
    return _mm256_movemask_ps((F32)(order > bound)) != 0;
  } else {
    return _mm256_movemask_pd((F64)(order > bound)) != 0;
  }
#endif
}

/// F of a vector that has a large angle in it, of which the others are reduced already.
template <class F, class V>
__attribute__((noinline)) V of_far_angles(V x, IntOf<V> order, V near_r, IntOf<V> near_n) {
  const auto beyond = order > constant_bits<V, Beyond<V>::kBound>();
  const Angle<V> far = far_angle<F>(x);
  return F::of(Angle<V>{beyond ? far.r : near_r, beyond ? far.n : near_n});
}
template <class F, class V> TELAMON_INLINE V of_angle(V x) {
  const Angle<V> near = near_angle<F>(x);
  const IntOf<V> order = order_of(x);
  if (__builtin_expect(any_beyond<V>(order), false)) {
    return of_far_angles<F>(x, order, near.r, near.n);
  }
  return F::of(near);
}

/// y, which has the sign of r where it is not 0, with it also there: the sum of a 0 and a product is +0.
template <class V> TELAMON_INLINE V with_sign_of(V r, V y) {
  return (V)((IntOf<V>)y | ((IntOf<V>)r & sign_bit<V>()));
}

// ---- sin x = (-1)^n sin r with the step pi, and cos x with an offset of a half; sin r = r + r^3 P(r^2).

TELAMON_INLINE F32 sine_tail(F32 z) {
  static constexpr float kP[] = {2.6054558e-06f, -0.00019809464f, 0.008333065f, -0.1666666f};
  return horner<kP>(z);
}
TELAMON_INLINE F64 sine_tail(F64 z) {
  static constexpr double kP[] = {2.7211927462942536e-15, -7.642993343768768e-13,
                                  1.6058939785572273e-10, -2.5052106874604802e-08,
                                  2.7557319211159984e-06, -0.00019841269841209373,
                                  0.008333333333333194,   -0.16666666666666666};
  return by_halves<kP>(z);
}
struct Sine {
  static constexpr double kStep = 1, kOffset = 0;  // in pi, in steps
  template <class V> static TELAMON_INLINE V of(Angle<V> a) {
    constexpr int kSign = 8 * sizeof(ScalarOf<V>) - 1;
    const V r = (V)((IntOf<V>)a.r ^ (a.n << kSign)), z = product_of_small(r, r);
    return r * fma(z, sine_tail(z), constant<V, 1>());
  }
};
struct Cosine : Sine {
  static constexpr double kOffset = 0.5;
};

// ---- tan x = tan r with the step pi / 2, or -1 / tan r for odd n.

struct Tangent {
  static constexpr double kStep = 0.5, kOffset = 0;
  template <class V> static TELAMON_INLINE IntOf<V> is_odd(IntOf<V> n) {
    constexpr int kSign = 8 * sizeof(ScalarOf<V>) - 1;
    return (n << kSign) < 0;
  }
  // tan r = r + r^3 P(r^2)
  static TELAMON_INLINE F32 of(Angle<F32> a) {
    static constexpr float kP[] = {0.00935244374f, 0.00317800068f, 0.0243925173f,
                                   0.0534221157f,  0.133386686f,   0.333331615f};
    const F32 z = product_of_small(a.r, a.r), one = constant<F32, 1>();
    const F32 y = fma(product_of_small(z, horner<kP>(z)), a.r, a.r);
    const auto odd = is_odd<F32>(a.n);
    return (odd ? -one : y) / (odd ? y : one);
  }
  // tan r = (r + r^3 P(r^2)) / Q(r^2), in one division
  static TELAMON_INLINE F64 of(Angle<F64> a) {
    static constexpr double kP[] = {-1.7847892683846247e-05, 0.0034240636661030496,
                                    -0.13337670899065093};
    static constexpr double kQ[] = {4.975314188373983e-07, -0.0003116776979949837,
                                    0.025660744440764476, -0.4667100423239843, 1};
    const F64 z = a.r * a.r, q = estrin<kQ>(z);
    const F64 p = with_sign_of(a.r, fma(a.r * z, estrin<kP>(z), a.r));
    const auto odd = is_odd<F64>(a.n);
    return (odd ? -q : p) / (odd ? p : q);
  }
};

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
