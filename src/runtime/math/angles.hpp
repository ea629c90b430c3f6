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
// gives even numbers. It is taken from a table by q.

constexpr std::uint64_t kInversePiBits[] = {  // 1 / pi, from 1/2 on
    0x517cc1b727220a94, 0xfe13abe8fa9a6ee0, 0x6db14acc9e21c820, 0xff28b1d5ef5de2b0,
    0xdb92371d2126e970, 0x0324977504e8c90e, 0x7f0ef58e5894d39f, 0x74411afa975da242,
    0x74ce38135a2fbf20, 0x9cc8eb1cc1a99cfa, 0x4e422fc5defc941d, 0x8ffc4bffef02cc07,
    0xf79788c5ad05368f, 0xb69b3f6793e584db, 0xa7a31fb34f2ff516, 0xba93dd63f5f2f8bd,
    0x9e839cfbc5294975, 0x35fdafd88fc6ae84, 0x2b0198237e3db5d5, 0xf867de104d7a1b0e};

/// The 53 bits of 1 / pi from the one of value 2^-first on, times 2^shift.
constexpr double part_of_inverse_pi(int first, int shift) {
  double part = 0, value = 1;
  for (int i = first; i < shift; ++i) value *= 2;
  for (int i = shift; i < first; ++i) value /= 2;
  for (int i = first; i < first + 53; ++i, value /= 2) {
    const bool one = i > 0 && (kInversePiBits[(i - 1) / 64] >> (63 - (i - 1) % 64) & 1) != 0;
    if (one) part += value;
  }
  return part;
}

/// 2^(q w) / pi by q, below 2^m, in parts of 53 bits.
template <int kWidth, int kMantissa> constexpr double inverse_pi(int q, int part) {
  return part_of_inverse_pi(q * kWidth - kMantissa + 1 + 53 * part, q * kWidth);
}
struct InversePiF32 {
  Words8 parts[2];
  constexpr InversePiF32() : parts{} {
    for (int part = 0; part < 2; ++part) {
      for (int q = 0; q < 8; ++q) parts[part].set(q, inverse_pi<16, 23>(q, part));
    }
  }
};
constexpr InversePiF32 kInversePiF32;
struct InversePiF64 {
  double parts[4][32];
  constexpr InversePiF64() : parts{} {
    for (int part = 0; part < 4; ++part) {
      for (int q = 0; q < 32; ++q) parts[part][q] = inverse_pi<32, 52>(q, part);
    }
  }
};
constexpr InversePiF64 kInversePiF64;

/// y above, and an index of which the lowest bits are q. Smaller angles, of which nothing comes, get a y
/// there, too: denormal numbers would be slow.
template <class V> struct Scaled {
  V y;
  typename Lanes<V>::Unsigned q;
};
/// `kAll` are the bits of q, from `kShift` on: the exponents of 2 and above are q w more than those of [2, 2^(w+1)).
template <auto kAll, int kShift, class V> TELAMON_INLINE Scaled<V> scaled(V x) {
  using Unsigned = typename Lanes<V>::Unsigned;
  const auto bits = (Unsigned)x;
  return {(V)((bits & ~kAll) | (Unsigned)constant<V, 2>()), bits >> kShift};
}

/// The sum a + b and what it lacks (Knuth, The Art of Computer Programming 2, 4.2.2).
struct TwoSum {
  F64 sum, rest;
};
TELAMON_INLINE TwoSum two_sum(F64 a, F64 b) {
  const F64 sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

/// Of an f32: y has 24 bits, and the product with `high` and `low` has fewer than 41 before the point.
template <class F> TELAMON_INLINE Angle<F64> far_angle_of_f32(F64 y, F64 high, F64 low) {
  const F64 product = y * high;
  const F64 rest = fma(y, low, fma(y, high, -product));
  const Rounded<F64> n = round_to_integer(product + F::kOffset);
  const F64 fraction = (product - (n.value - F::kOffset)) + rest;
  return {fraction * (F::kStep * Pi<F64>::kHigh), n.bits};
}
template <class F> TELAMON_INLINE Angle<F32> far_angle(F32 x) {
  const auto [y, q] = scaled<7u << 27, 27>(x);
  const Wide by = widen(y * static_cast<float>(1 / F::kStep));
  const Wide high = look_up(kInversePiF32.parts[0], q), low = look_up(kInversePiF32.parts[1], q);
  const auto first = far_angle_of_f32<F>(by.low, high.low, low.low);
  const auto second = far_angle_of_f32<F>(by.high, high.high, low.high);
  return {narrow({first.r, second.r}), lower_bits(first.n, second.n)};
}

/// The closest that an f64 comes to a multiple of pi / 2 is 2^-62 of one, so that 117 bits after the point count.
template <class F> TELAMON_INLINE Angle<F64> far_angle(F64 x) {
  const auto [scaled_x, q] = scaled<std::uint64_t{31} << 57, 57>(x);
  const F64 y = scaled_x * (1 / F::kStep);
  F64 factor = look_up(kInversePiF64.parts[0], q);
  const F64 product0 = y * factor, rest0 = fma(y, factor, -product0);
  factor = look_up(kInversePiF64.parts[1], q);
  const F64 product1 = y * factor, rest1 = fma(y, factor, -product1);
  factor = look_up(kInversePiF64.parts[2], q);
  const F64 product2 = y * factor, rest2 = fma(y, factor, -product2);
  const F64 last = fma(y, look_up(kInversePiF64.parts[3], q), rest2);
  // Whole numbers leave the three that have any; what stays of the first two are multiples of 2^-53.
  const F64 fraction0 = fma(nearest(product0 * .5), splat<F64>(-2), product0);
  const Rounded<F64> n1 = round_to_integer(rest0), n2 = round_to_integer(product1);
  const auto [sum, lost] = two_sum(fraction0 + (rest0 - n1.value), product1 - n2.value);
  const Rounded<F64> n3 = round_to_integer(sum + F::kOffset);
  // Where the sum is next to 0, the large parts take each other away and leave all digits of the small ones.
  const auto [small, lost1] = two_sum(rest1, product2);
  const auto [sum2, lost2] = two_sum(sum - (n3.value - F::kOffset), small);
  const auto [sum3, lost3] = two_sum(sum2, lost);
  const F64 rest = lost1 + lost2 + lost3 + last;
  const F64 turns = sum3 + rest, lost4 = rest - (turns - sum3);
  constexpr double kHigh = F::kStep * Pi<F64>::kHigh, kMiddle = F::kStep * Pi<F64>::kMiddle;
  const F64 r = turns * kHigh;
  const F64 low = fma(turns, splat<F64>(kHigh), -r) + (turns * kMiddle + lost4 * kHigh);
  return {r + low, n1.bits + n2.bits + n3.bits};
}

// ---- The choice between the two.

/// Lanes that are finite and beyond the parts of pi are those where `order` is above the bound. Twice the bits have no
/// sign; to infinity and NaN, the largest, so much is added that they become the least. As bits of floats, these
/// are constants that AVX2 takes from memory.
template <class V> struct Beyond;
template <> struct Beyond<F32> {
  static constexpr std::uint32_t kWrap = 0x81000000;
  static constexpr float kAdded = __builtin_bit_cast(float, kWrap);
  static constexpr float kBound =
      __builtin_bit_cast(float, 2 * __builtin_bit_cast(std::uint32_t, Pi<F32>::kMostAngle) + kWrap);
};
template <> struct Beyond<F64> {
  static constexpr std::uint64_t kWrap = 0x8020000000000000;
  static constexpr double kAdded = __builtin_bit_cast(double, kWrap);
  static constexpr double kBound = __builtin_bit_cast(
      double, 2 * __builtin_bit_cast(std::uint64_t, Pi<F64>::kMostAngle) + kWrap);
};
template <class V> TELAMON_INLINE IntOf<V> order(V x) {
  return (IntOf<V>)x + (IntOf<V>)x + (IntOf<V>)constant<V, Beyond<V>::kAdded>();
}
template <class V> TELAMON_INLINE IntOf<V> bound_of_order() {
  return (IntOf<V>)constant<V, Beyond<V>::kBound>();
}
TELAMON_INLINE bool any_beyond(F32 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_cmpgt_epi32_mask((__m512i)order(x), (__m512i)bound_of_order<F32>()) != 0;
#else
  return _mm256_movemask_ps((F32)(order(x) > bound_of_order<F32>())) != 0;
#endif
}
TELAMON_INLINE bool any_beyond(F64 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_cmpgt_epi64_mask((__m512i)order(x), (__m512i)bound_of_order<F64>()) != 0;
#else
  return _mm256_movemask_pd((F64)(order(x) > bound_of_order<F64>())) != 0;
#endif
}

/// F of a vector that has a large angle in it.
template <class F, class V> __attribute__((noinline)) V of_far_angles(V x) {
  const auto beyond = order(x) > bound_of_order<V>();
  const Angle<V> near = near_angle<F>(x), far = far_angle<F>(x);
  return F::of(Angle<V>{beyond ? far.r : near.r, beyond ? far.n : near.n});
}
template <class F, class V> TELAMON_INLINE V of_angle(V x) {
  if (__builtin_expect(any_beyond(x), false)) return of_far_angles<F>(x);
  return F::of(near_angle<F>(x));
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
  return horner<kP>(z);
}
struct Sine {
  static constexpr double kStep = 1, kOffset = 0;  // in pi, in steps
  template <class V> static TELAMON_INLINE V of(Angle<V> a) {
    constexpr int kSign = 8 * sizeof(ScalarOf<V>) - 1;
    const V r = (V)((IntOf<V>)a.r ^ (a.n << kSign)), z = r * r;
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
    const F32 z = a.r * a.r, one = constant<F32, 1>();
    const F32 y = fma(a.r * z, estrin<kP>(z), a.r);
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
