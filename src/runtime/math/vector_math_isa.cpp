// Vector math, compiled once per instruction set: our own functions, and this set's column of the
// table in vector_math.cpp.
//
// Ours are those that machine learning feeds with infinities, zeros and saturated values (masked
// softmax is exp(-inf)), where libmvec falls back to scalar code for every such lane and is 5 to 20
// times slower; those of angles, where it is so, too, for infinities, NaN and large ones; pow; and those that take less
// than a call of libmvec's. They are branch-free, but for what is rare. The polynomials are near-minimax fits
// (interpolation at Chebyshev nodes or, of angles and powers, the least relative squares there, in 60 digits) on the
// stated interval.
#include "runtime/math/exponentials.hpp"
#include "runtime/math/isa_entries.hpp"
#include "runtime/math/math_list.hpp"
#include "runtime/math/simd.hpp"
#include "runtime/math/split.hpp"
#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
#include "runtime/math/angles.hpp"
#include "runtime/math/power.hpp"
#include "runtime/math/remainders.hpp"
#endif
#if defined(TELAMON_ISA_AVX2)
#include "runtime/math/roots.hpp"
#endif
#if defined(TELAMON_ISA_AVX512)
#include "runtime/math/error_functions.hpp"
#include "runtime/math/tanh_table.hpp"
#endif

#if defined(__x86_64__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define TELAMON_LIBMVEC 1
#endif
#endif

// ---- The library's functions.

using telamon::v1::simd::F32;
using telamon::v1::simd::F64;
namespace simd = telamon::v1::simd;

#define TELAMON_HIDDEN extern "C" __attribute__((visibility("hidden")))

#if defined(TELAMON_LIBMVEC)
// The x86-64 vector ABI: _ZGV, the set (b SSE, d AVX2, e AVX-512), N (no mask), lanes, v per operand.
#if defined(TELAMON_ISA_AVX512)
#define TELAMON_MVEC(params, name) _ZGVeN16##params##_##name##f
#define TELAMON_MVEC64(params, name) _ZGVeN8##params##_##name
#elif defined(TELAMON_ISA_AVX2)
#define TELAMON_MVEC(params, name) _ZGVdN8##params##_##name##f
#define TELAMON_MVEC64(params, name) _ZGVdN4##params##_##name
#else
#define TELAMON_MVEC(params, name) _ZGVbN4##params##_##name##f
#define TELAMON_MVEC64(params, name) _ZGVbN2##params##_##name
#endif
#define TELAMON_LIB_F32(params, name) TELAMON_MVEC(params, name)
#define TELAMON_LIB_F64(params, name) TELAMON_MVEC64(params, name)
#define LIB1(name, ulp32, ulp64)                \
  extern "C" F32 TELAMON_LIB_F32(v, name)(F32); \
  extern "C" F64 TELAMON_LIB_F64(v, name)(F64);
#define LIB2(name, ulp32, ulp64)                      \
  extern "C" F32 TELAMON_LIB_F32(vv, name)(F32, F32); \
  extern "C" F64 TELAMON_LIB_F64(vv, name)(F64, F64);
#else
// Without libmvec: the scalar function, lane by lane.
#define TELAMON_LIB_F32(params, name) TELAMON_ISA_SYMBOL(library_##name##_f32)
#define TELAMON_LIB_F64(params, name) TELAMON_ISA_SYMBOL(library_##name##_f64)
#define LIB1(name, ulp32, ulp64)                                                         \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(library_##name##_f32)(F32 x) {                   \
    for (int i = 0; i < simd::Lanes<F32>::kCount; ++i) x[i] = __builtin_##name##f(x[i]); \
    return x;                                                                            \
  }                                                                                      \
  TELAMON_HIDDEN F64 TELAMON_ISA_SYMBOL(library_##name##_f64)(F64 x) {                   \
    for (int i = 0; i < simd::Lanes<F64>::kCount; ++i) x[i] = __builtin_##name(x[i]);    \
    return x;                                                                            \
  }
#define LIB2(name, ulp32, ulp64)                                                               \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(library_##name##_f32)(F32 x, F32 y) {                  \
    for (int i = 0; i < simd::Lanes<F32>::kCount; ++i) x[i] = __builtin_##name##f(x[i], y[i]); \
    return x;                                                                                  \
  }                                                                                            \
  TELAMON_HIDDEN F64 TELAMON_ISA_SYMBOL(library_##name##_f64)(F64 x, F64 y) {                  \
    for (int i = 0; i < simd::Lanes<F64>::kCount; ++i) x[i] = __builtin_##name(x[i], y[i]);    \
    return x;                                                                                  \
  }
#endif

// libmvec has no fmod.
#define FMOD(name, ulp32, ulp64)                                                           \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(library_##name##_f32)(F32 x, F32 y) {              \
    for (int i = 0; i < simd::Lanes<F32>::kCount; ++i) x[i] = __builtin_fmodf(x[i], y[i]); \
    return x;                                                                              \
  }                                                                                        \
  TELAMON_HIDDEN F64 TELAMON_ISA_SYMBOL(library_##name##_f64)(F64 x, F64 y) {              \
    for (int i = 0; i < simd::Lanes<F64>::kCount; ++i) x[i] = __builtin_fmod(x[i], y[i]);  \
    return x;                                                                              \
  }

#if defined(TELAMON_ISA_AVX512)
#define TELAMON_BY_SET(avx512, avx2, generic) avx512
#elif defined(TELAMON_ISA_AVX2)
#define TELAMON_BY_SET(avx512, avx2, generic) avx2
#else
#define TELAMON_BY_SET(avx512, avx2, generic) generic
#endif
#define NONE(name, ulp32, ulp64)
TELAMON_MATH_FUNCTIONS(NONE, NONE, TELAMON_BY_SET(NONE, NONE, LIB1),
                       TELAMON_BY_SET(NONE, LIB1, LIB1), TELAMON_BY_SET(LIB1, NONE, LIB1), LIB1,
                       TELAMON_BY_SET(NONE, LIB2, LIB2), TELAMON_BY_SET(NONE, NONE, FMOD))
#undef FMOD
#undef LIB1
#undef LIB2

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- Registers. Where the build withholds the upper half of the vector registers (with AVX-512 k4 to k7, too) from
// this file (src/CMakeLists.txt), our functions leave them alone. Those of the library do not, so that none of ours
// may call one.

#if defined(TELAMON_KEEPS_REGISTERS)
constexpr bool kKeepsRegisters = true;
#else
constexpr bool kKeepsRegisters = false;
#endif

// ---- log family: x = 2^e m, f = m - 1, log x = e ln 2 + log(1 + f).

// Not within log_core, from whose instances gcc 12 does not take template arguments.
constexpr float kLogTailF32[] = {0.0428719781f, -0.0956133977f, 0.11680682f,
                                 -0.12639311f,  0.142683059f,   -0.16660817f,
                                 0.200001404f,  -0.250000566f,  0.333333343f};
constexpr double kLogTailF64[] = {0.13604015707124079, 0.1321036048513262,  0.15388834677801916,
                                  0.18181738454723026, 0.22222223037807243, 0.2857142856733919,
                                  0.400000000000078,   0.6666666666666666};

/// e ln 2 + log(1 + f) + c for a small correction c.
template <bool kFewRegisters = false> TELAMON_INLINE F32 log_core(F32 e, F32 f, F32 c) {
  // log(1 + f) = f - f^2/2 + f^3 P(f)
  const F32 z = kFewRegisters ? product_of_small(f, f) : f * f;
  const F32 rest = fma(z, constant<F32, -0.5>(), fma(e, constant<F32, Ln2<F32>::kLow>(), c));
  const F32 p = kFewRegisters ? horner<kLogTailF32>(f) : by_halves<kLogTailF32>(f);
  return fma(e, constant<F32, Ln2<F32>::kHigh>(),
             f + fma(kFewRegisters ? product_of_small(f, z) : f * z, p, rest));
}
template <bool kFewRegisters = false> TELAMON_INLINE F64 log_core(F64 e, F64 f, F64 c) {
  // s = f / (2 + f), log(1 + f) = 2 atanh s = f - (f^2/2 - s (f^2/2 + R)), R = s^2 P(s^2).
  const F64 s = f / (f + constant<F64, 2>()), z = s * s;
  const F64 half = f * f * constant<F64, 0.5>();
  const F64 r = kFewRegisters ? estrin<kLogTailF64>(z) : by_halves<kLogTailF64>(z);
  const F64 low = fma(e, constant<F64, Ln2<F64>::kLow>(), fma(s, fma(z, r, half), c));
  return fma(e, constant<F64, Ln2<F64>::kHigh>(), f - (half - low));
}

/// y but for x beyond what has a logarithm; there the one of `u`, which is 0 at the pole.
template <class V> TELAMON_INLINE V log_special(V x, V y, V u, ScalarOf<V> pole) {
  if constexpr (kHasLogOfAll<V>) return log_of_all(y, u);
  y = x == static_cast<ScalarOf<V>>(kInf) ? x : y;
  y = x < pole ? splat<V>(kNan<V>) : y;
  y = x == pole ? splat<V>(static_cast<ScalarOf<V>>(-kInf)) : y;
  return x != x ? x : y;
}

template <class V> TELAMON_INLINE V log_of_any(V x) {
  const auto [e, m, whole] = split_any(x);
  return log_special<V>(x, log_core(e, m - constant<V, 1>(), V{}), whole, 0);
}
// Without AVX-512's instructions for them, special operands take as much work as the logarithm itself: it is done
// for vectors that have one.
template <class V> __attribute__((noinline)) V log_of_special(V x) { return log_of_any(x); }
template <class V> TELAMON_INLINE V log(V x) {
  if constexpr (kScales) return log_of_any(x);
  if (!all_within<LogRange<V>::kLeastNormal, kInf>(x)) return log_of_special(x);
  const auto [e, m] = split(x);
  return log_core(e, m - constant<V, 1>(), V{});
}

// log(1 + x) = e ln 2 + log(1 + f) with 1 + f = (1 + x) 2^-e, e that of u = 1 + x rounded: f = x 2^-e + (2^-e - 1) is
// rounded but once. Both multiples are made by adding to exponents; x has one of its own wherever e is not 0. Of the
// largest u 2^-e has none, and is made 0.
template <class V> TELAMON_INLINE V log1p(V x) {
  using R = LogRange<V>;
  using Bits = typename Lanes<V>::Unsigned;
  const V one = constant<V, 1>(), u = x + one;
  const auto [e, m] = split(u);
  const bool usual =
      !kScales && all_within<R::kLeastNormal, kInf>(u);  // before u leaves its register
  const Bits shift = (Bits)m - (Bits)u;
  const V inverse = at_least((V)((Bits)one + shift), V{});
  V y = log_core<true>(e, (V)((Bits)x + shift) + (inverse - one), V{});
  y = x == 0 ? x : y;
  // As with log, but u is never denormal.
  return usual ? y : log_special<V>(x, y, u, -1);
}

// ---- Inverse hyperbolic functions: logarithms of q = m 2^e, as e ln 2 + 2 atanh s with s = (m - 1) / (m + 1). Next to
// q = 1, where the logarithm is next to 0 and e is 0, s comes from the operand itself, by another way than m.

// 2 atanh s = 2 s + s^3 P(s^2): a P for |s| <= 1/5, and one as far as 1/3.
TELAMON_INLINE F32 atanh_tail_to_fifth(F32 z) {
  static constexpr float kP[] = {0.303661287f, 0.399574846f, 0.666669548f};
  return horner<kP>(z);
}
TELAMON_INLINE F64 atanh_tail_to_fifth(F64 z) { return by_halves<kLogTailF64>(z); }
TELAMON_INLINE F32 atanh_tail_to_third(F32 z) {
  static constexpr float kP[] = {0.280344427f, 0.279968977f, 0.400218606f, 0.666664064f};
  return horner<kP>(z);
}
TELAMON_INLINE F64 atanh_tail_to_third(F64 z) {
  static constexpr double kP[] = {0.17024397503439248, 0.08336990401626702, 0.12106799614136322,
                                  0.1330088173968282,  0.15386567213621,    0.18181743556839897,
                                  0.22222223981455824, 0.2857142854762978,  0.4000000000015952,
                                  0.666666666666663};
  return by_halves<kP>(z);
}
/// e ln 2 + 2 atanh s, with the tail of s^2.
template <class V> TELAMON_INLINE V log_of_ratio(V e, V s, V z, V tail) {
  const V rest = fma(product_of_small(s, z), tail, e * constant<V, Ln2<V>::kLow>());
  return fma(e, constant<V, Ln2<V>::kHigh>(), s + s + rest);
}

// asinh x = log(x + sqrt(x^2 + 1)), acosh x = log(x + sqrt((x + 1) (x - 1))). Where squares overflow soon, the root is
// as large as x, and left out for the sum's sake.
template <class V> struct InverseHyperbolicRange;
template <> struct InverseHyperbolicRange<F32> {
  static constexpr float kLarge = 0x1p60f;
};
template <> struct InverseHyperbolicRange<F64> {
  static constexpr double kLarge = 0x1p500;
};
/// log(a + root), where a sum next to 1 is (1 + s) / (1 - s) with s = over / under.
template <class V> TELAMON_INLINE V log_of_sum(V a, V root, V over, V under) {
  const V one = constant<V, 1>();
  const auto large = a > constant<V, InverseHyperbolicRange<V>::kLarge>();
  const V sum = a + (large ? V{} : root);
  const auto [e, m] = split(sum);
  // Up to 2, where e ln 2 would take most of the rest away and leave its error.
  const auto near = sum < constant<V, 2>();
  const V whole = near ? V{} : large ? e + one : e;
  const V s = (near ? over : m - one) / (near ? under : m + one), z = product_of_small(s, s);
  const V y = log_of_ratio<V>(whole, s, z, atanh_tail_to_third(z));
  return a < constant<V, static_cast<ScalarOf<V>>(kInf)>() ? y : a;
}
template <class V> TELAMON_INLINE V asinh(V x) {
  const V a = abs(x), one = constant<V, 1>(), root = sqrt(fma(a, a, one));
  const V y = log_of_sum(a, root, a, one + root);
  // Half of a denormal number has lost a bit.
  return copysign(a < constant<V, LogRange<V>::kLeastNormal>() ? a : y, x);
}
template <class V> TELAMON_INLINE V acosh(V x) {
  const V one = constant<V, 1>(), above = x + one, root = sqrt((x - one) * above);
  return x < one ? splat<V>(kNan<V>) : log_of_sum(x, root, root, above);
}
// atanh |x| = -log(v / u) / 2, u = 1 + |x|, v = 1 - |x|. The exponent is that of v / u, nearly enough with a linear function
// for 1 / u; a power of two brings v next to u.
template <class V> TELAMON_INLINE V atanh(V x) {
  const V a = abs(x), one = constant<V, 1>(), v = one - a;
  const V w = v * fma(a, constant<V, -0.5>(), one);
  const auto [e, m] = split(w);
  using Bits = typename Lanes<V>::Unsigned;
  const V power = (V)((Bits)one + ((Bits)m - (Bits)w));
  const V next_to_u = v * power;
  const auto near = e == 0;
  const V over = (near ? V{} : next_to_u - one) - a, under = near ? one : one + a + next_to_u;
  const V s = over / under, z = product_of_small(s, s);
  const V y = log_of_ratio<V>(e, s, z, atanh_tail_to_fifth(z)) * constant<V, 0.5>();
  if constexpr (kHasLogOfAll<V>) return copysign(log_of_all(y, v), x);
  const V bounded = v == 0 ? splat<V>(static_cast<ScalarOf<V>>(kInf)) : y;
  return v >= 0 ? copysign(bounded, x) : splat<V>(kNan<V>);
}

// ---- Angles, where there is FMA; elsewhere the products with n would be rounded.

#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
template <class V> TELAMON_INLINE V sin(V x) { return of_angle<Sine>(x); }
template <class V> TELAMON_INLINE V cos(V x) { return of_angle<Cosine>(x); }
template <class V> TELAMON_INLINE V tan(V x) { return of_angle<Tangent>(x); }
#endif

// ---- Arcs: quarter turns, and a small arc s + s z P(z) with z = s^2, or (s / 2)^2 where it is twice another.

template <class V> struct QuarterTurn;  // pi / 2 in two parts
template <> struct QuarterTurn<F32> {
  static constexpr float kHigh = 0x1.921fb6p+0f, kLow = -0x1.777a5cp-25f;
};
template <> struct QuarterTurn<F64> {
  static constexpr double kHigh = 0x1.921fb54442d18p+0, kLow = 0x1.1a62633145c07p-54;
};
/// turns pi / 2 + s + s z p for 0, 1 or 2 turns; the small ones are added first.
template <class V> TELAMON_INLINE V arc(V turns, V s, V z, V p) {
  const V rest = fma(product_of_small(s, z), p, turns * constant<V, QuarterTurn<V>::kLow>());
  return fma(turns, constant<V, QuarterTurn<V>::kHigh>(), s) + rest;
}

// asin x with s = x for |x| <= 1/2; beyond, pi/2 - 2 asin r with r^2 = (1 - |x|) / 2, so that s = -2 r. The root
// is NaN where x has no arc.

TELAMON_INLINE F32 asin_tail(F32 z) {
  static constexpr float kP[] = {0.0421087146f, 0.0242115986f, 0.0454645492f, 0.07495334f,
                                 0.166667521f};
  return horner<kP>(z);
}
TELAMON_INLINE F64 asin_tail(F64 z) {
  static constexpr double kP[] = {0.031810453403294824, -0.01607383790383481, 0.01943131839174411,
                                  0.006563739590418124, 0.012160885731621687, 0.013886506972986382,
                                  0.017359576505477373, 0.022371766438304318, 0.030381958797878136,
                                  0.044642856836047275, 0.0750000000032883,   0.16666666666665433};
  return by_halves<kP>(z);
}
/// r^2 or x^2, and 2 r.
template <class V> struct ArcOfSine {
  IntOf<V> beyond;  // |x| > 1/2
  V z, twice_root;
};
template <class V> TELAMON_INLINE ArcOfSine<V> arc_of_sine(V x) {
  const V a = abs(x);
  const auto beyond = a > constant<V, 0.5>();
  return {beyond, beyond ? fma(a, constant<V, -0.5>(), constant<V, 0.5>()) : product_of_small(x, x),
          sqrt(fma(a, constant<V, -2>(), constant<V, 2>()))};
}
template <class V> TELAMON_INLINE V asin(V x) {
  const auto [beyond, z, root] = arc_of_sine(x);
  const V turns = beyond ? splat<V>(1) : V{};
  return copysign(arc(turns, beyond ? -root : abs(x), z, asin_tail(z)), x);
}
// pi/2 - asin x, which is 2 asin r or, for negative x, pi - 2 asin r.
template <class V> TELAMON_INLINE V acos(V x) {
  const auto [beyond, z, root] = arc_of_sine(x);
  const V turns = 1 - (beyond ? copysign(splat<V>(1), x) : V{});
  return arc(turns, beyond ? copysign(root, x) : -x, z, asin_tail(z));
}

// atan x with s = x for |x| <= 1; beyond, pi/2 + atan s with s = -1 / x, or -pi/2 for negative x. P is added to 1
// here, which is one operation less and half an ULP more: these sums have one part of pi only.

TELAMON_INLINE F32 atan_tail(F32 z) {
  static constexpr float kP[] = {0.00284148403f, -0.0160497576f, 0.0426927283f, -0.0750814304f,
                                 0.106453262f,   -0.142058209f,  0.199931353f,  -0.333331257f};
  return estrin<kP>(z);
}
TELAMON_INLINE F64 atan_tail(F64 z) {
  static constexpr double kP[] = {
      -1.9679704878205957e-05, 0.00021750651076053184, -0.0011398617770397238, 0.00379107896597057,
      -0.009065792879463718,   0.016820883866726817,   -0.025671478062229917,  0.03395100757075018,
      -0.04085892083728984,    0.04670950325311018,    -0.05238210471541089,   0.058770430979069886,
      -0.0666580921875936,     0.07692205738901457,    -0.09090900526802216,   0.11111110632519945,
      -0.14285714269508723,    0.1999999999971772,     -0.33333333333331583};
  return estrin<kP>(z);
}
/// c + atan(s), |s| <= 1. A zero has the sign of both.
template <class V> TELAMON_INLINE V near_quarter(V c, V s) {
  const V z = product_of_small(s, s);
  return fma(s, fma(z, atan_tail(z), constant<V, 1>()), c);
}
// Without AVX-512 libmvec's is in its place.
[[maybe_unused]] TELAMON_INLINE F32 atan(F32 x) {
  const F32 one = splat<F32>(1);
  const auto beyond = abs(x) > one;
  const F32 s = (beyond ? -one : x) / (beyond ? x : one);
  return near_quarter(copysign(beyond ? splat<F32>(QuarterTurn<F32>::kHigh) : F32{}, x), s);
}
// In f64 |x| between tan(pi/8) and its inverse is pi/4 + atan((|x| - 1) / (|x| + 1)), for half the polynomial.
[[maybe_unused]] TELAMON_INLINE F64 atan(F64 x) {
  static constexpr double kP[] = {0.021218695829214398, -0.04355535781086032, 0.05691228762769195,
                                  -0.06640853776591944, 0.07690035259171603,  -0.09090779880566523,
                                  0.1111110653524258,   -0.1428571419208286,  0.19999999999045967,
                                  -0.3333333333332994};
  constexpr double kQuarter = QuarterTurn<F64>::kHigh, kEdge = 0.41421356237309503;
  const F64 a = abs(x), one = splat<F64>(1);
  const auto middle = a > kEdge, beyond = a > 2 + kEdge;
  const F64 over = beyond ? -one : middle ? a - 1 : a, under = beyond ? a : middle ? a + 1 : one;
  const F64 turn = beyond ? splat<F64>(kQuarter) : middle ? splat<F64>(kQuarter / 2) : F64{};
  const F64 s = over / under, z = s * s;
  return copysign(turn + fma(s * z, estrin<kP>(z), s), x);
}
// The same with s = y / x for |y| <= |x|, and half a turn for negative x; beyond, s = -x / y. The quotient of two
// zeros is 0, that of two infinities 1 or -1.
template <class V> TELAMON_INLINE V atan2(V y, V x) {
  constexpr auto kQuarter = QuarterTurn<V>::kHigh;
  const V one = copysign(splat<V>(1), x);
  const auto beyond = abs(y) > abs(x);
  const V over = beyond ? -x : y, under = beyond ? y : x == 0 ? one : x;
  const V s =
      abs(over) == abs(under) ? copysign(one, (V)((IntOf<V>)x ^ (IntOf<V>)y)) : over / under;
  return near_quarter(copysign(kQuarter - (beyond ? V{} : kQuarter * one), y), s);
}

#if !defined(TELAMON_ISA_AVX512)
// ---- erf x = x + x P(x^2) for |x| < 1; and 1 - R(|x|)^4 beyond, where the fourth root of 1 - erf x is
// smooth. From 3.93 on it is 1.

TELAMON_INLINE F32 erf(F32 x) {
  static constexpr float kCentral[] = {7.87587487e-05f, -0.00080168643f, 0.00518908724f,
                                       -0.0268542115f,  0.112835944f,    -0.37612626f,
                                       0.128379166f};
  static constexpr float kTail[] = {// in |x| - 1, |x| in [1, 3.9375]
                                    -1.67355302e-06f, 3.06639813e-05f, -0.000216084823f,
                                    0.000604389177f,  0.000344768079f, -0.004535296f,
                                    -0.00426099729f,  0.0509700626f,   0.00430136174f,
                                    -0.415484279f,    0.629769504f};
  const F32 a = abs(x), one = constant<F32, 1>();
  const F32 central = fma(horner<kCentral>(product_of_small(x, x)), x, x);
  F32 r = by_halves<kTail>(at_most(a, constant<F32, 3.9375>()) - one);
  r *= r;
  return a < one ? central : copysign(one - r * r, x);
}
#endif

// ---- erf_inv(x) = x G(w), w = -log(1 - x^2): G is smooth in w for small w and in sqrt(w) beyond.
// The central coefficients are rounded one after the other, each fit for those before it: rounded all at once the largest were the
// greater part of the error. Of numbers spread evenly over (-1, 1), as random::normal has them, one in 300 is beyond (in f64, one
// in 1000), and that half of the work is left out of vectors where none is.

/// -log(t) of a t in [2^-52, 1], and whatever of others.
template <class V> TELAMON_INLINE V minus_log(V t) {
  const auto [e, m] = split(t);
  return -log_core<true>(e, m - constant<V, 1>(), V{});
}

TELAMON_INLINE F32 erf_inv(F32 x) {
  static constexpr float kCentral[] = {// in w - 2.5, w in [0, 5]
                                       -1.26570573e-10f, -8.68702887e-09f, 2.61792028e-08f,
                                       4.64630318e-07f,  -3.48705134e-06f, -4.95558879e-06f,
                                       0.000218431451f,  -0.00125275692f,  -0.00417751353f,
                                       0.246640295f,     1.50140941f};
  static constexpr float kTail[] = {// in sqrt(w) - 3, sqrt(w) in [sqrt(5), 4]
                                    -3.26353183e-05f, 0.000165715217f, -0.00027429004f,
                                    -0.000127439489f, 0.00147426489f,  -0.00356347952f,
                                    0.00568771176f,   -0.00764343096f, 0.00944530964f,
                                    1.00167525f,      2.83297682f};
  const F32 a = abs(x), one = constant<F32, 1>(), t = (one - a) * (one + a);
  const F32 w = minus_log(t);
  const F32 central = by_halves<kCentral>(w - constant<F32, 2.5>());
  if (all_above(t, constant<F32, 0.00674>())) return x * central;  // e^-5, rounded up
  F32 y = x * (w < constant<F32, 5>() ? central : by_halves<kTail>(sqrt(w) - constant<F32, 3>()));
  y = a == one ? x * kInfF : y;
  return a <= one ? y : splat<F32>(kNan<F32>);
}
TELAMON_INLINE F64 erf_inv(F64 x) {
  static constexpr double kCentral[] = {
      // in w - 3.125, w in [0, 6.25]
      -3.3879359986725436e-21, -1.6840769111503758e-19, 1.2716784305612332e-18,
      1.115321482201909e-17,   -1.3297643408196829e-16, 2.1066812622714608e-17,
      6.6329615248292559e-15,  -4.0546712221544195e-14, -8.1478971631951434e-14,
      2.6335163832422411e-12,  -1.2975360933100399e-11, -5.4154149904854254e-11,
      1.0512131171576302e-09,  -4.1126339067456282e-09, -2.9070371972681491e-08,
      4.2347877817609629e-07,  -1.3654691971329425e-06, -1.3882523362719773e-05,
      0.00018673420803164489,  -0.00074070253416627467, -0.0060336708714292331,
      0.24015818242558962,     1.6536545626831027};
  static constexpr double kMiddle[] = {
      // in sqrt(w) - 3.25, sqrt(w) in [2.5, 4]
      7.680200479077053e-09,  -1.5305397964152548e-08, -2.091453334773126e-08,
      1.3158663683192966e-07, -2.4549818963339823e-07, -2.761716223816241e-08,
      1.4815977874022539e-06, -3.985705945648173e-06,  2.93257845538535e-06,
      1.2465028224217455e-05, -4.732068066544697e-05,  6.828711739251955e-05,
      2.4031512865758357e-05, -0.0003550378137852452,  0.0009532893415794137,
      -0.0016882755354488555, 0.00249144209795696,     -0.0037512085082247342,
      0.005370914553555033,   1.0052589676941655,      3.0838856104922208};
  static constexpr double kTail[] = {
      // in sqrt(w) - 5, sqrt(w) in [4, 6.05]
      5.490944936009033e-12,   -2.055431105314157e-11,  1.6550136908395478e-11,
      7.025707132833335e-11,   -3.8433272629025555e-10, 1.3148063466158505e-09,
      -3.5303623420620313e-09, 7.82251130757271e-09,    -1.521604123593241e-08,
      2.9018094055372935e-08,  -6.757183602264799e-08,  2.2905298309556223e-07,
      -9.930256957623955e-07,  4.526052498646386e-06,   -1.9681771171607953e-05,
      7.599527809905669e-05,   -0.00021503011980053286, -0.0001387193183802193,
      1.0103004648645448,      4.849906401408584};
  const F64 a = abs(x), one = constant<F64, 1>(), t = (one - a) * (one + a);
  const F64 w = minus_log(t);
  const F64 central = by_halves<kCentral>(w - constant<F64, 3.125>());
  if (all_above(t, constant<F64, 0.001931>())) return x * central;  // e^-6.25, rounded up
  const F64 s = sqrt(w);
  F64 y = x * (w < 6.25 ? central : s < 4 ? by_halves<kMiddle>(s - 3.25) : by_halves<kTail>(s - 5));
  y = a == one ? x * kInf : y;
  return a <= one ? y : splat<F64>(kNan<F64>);
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon

// ---- Symbols. Ours are hidden: generated code reaches them through their addresses.

#define OWN1(name, ulp32, ulp64)                                                     \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(name##_f32)(F32 x) { return simd::name(x); } \
  TELAMON_HIDDEN F64 TELAMON_ISA_SYMBOL(name##_f64)(F64 x) { return simd::name(x); }

#define OWN2(name, ulp32, ulp64)                                                               \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(name##_f32)(F32 x, F32 y) { return simd::name(x, y); } \
  TELAMON_HIDDEN F64 TELAMON_ISA_SYMBOL(name##_f64)(F64 x, F64 y) { return simd::name(x, y); }

#define OWN_F32(name, ulp32, ulp64) \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(name##_f32)(F32 x) { return simd::name(x); }

#define OWN2_F32(name, ulp32, ulp64) \
  TELAMON_HIDDEN F32 TELAMON_ISA_SYMBOL(name##_f32)(F32 x, F32 y) { return simd::name(x, y); }

TELAMON_MATH_FUNCTIONS(OWN1, OWN2, TELAMON_BY_SET(OWN1, OWN1, NONE),
                       TELAMON_BY_SET(OWN1, NONE, NONE), TELAMON_BY_SET(NONE, OWN1, NONE), OWN_F32,
                       TELAMON_BY_SET(OWN2, OWN2_F32, NONE), TELAMON_BY_SET(OWN2, OWN2, NONE))
#undef OWN1
#undef OWN2
#undef OWN_F32
#undef OWN2_F32
#undef NONE

// ---- Runs of elements. The tail is a register filled up with its first element.

namespace {

template <class V>
inline V load(const void* from) {
  V x;
  __builtin_memcpy(&x, from, sizeof(V));
  return x;
}
template <class V>
inline V load_tail(const simd::ScalarOf<V>* from, std::int64_t count) {
  V x = simd::splat<V>(from[0]);
  __builtin_memcpy(&x, from, static_cast<std::size_t>(count) * sizeof(from[0]));
  return x;
}

template <class V>
inline void run1(void* function, std::int64_t n, const void* x_data, void* out_data) {
  using T = simd::ScalarOf<V>;
  constexpr int kCount = simd::Lanes<V>::kCount;
  const auto f = reinterpret_cast<V (*)(V)>(function);
  const T* x = static_cast<const T*>(x_data);
  T* out = static_cast<T*>(out_data);
  std::int64_t i = 0;
  for (; i + kCount <= n; i += kCount) {
    const V y = f(load<V>(x + i));
    __builtin_memcpy(out + i, &y, sizeof(V));
  }
  if (i < n) {
    const V y = f(load_tail<V>(x + i, n - i));
    __builtin_memcpy(out + i, &y, static_cast<std::size_t>(n - i) * sizeof(T));
  }
}

template <class V>
inline void run2(void* function, std::int64_t n, const void* x_data, const void* y_data,
                 void* out_data) {
  using T = simd::ScalarOf<V>;
  constexpr int kCount = simd::Lanes<V>::kCount;
  const auto f = reinterpret_cast<V (*)(V, V)>(function);
  const T* x = static_cast<const T*>(x_data);
  const T* y = static_cast<const T*>(y_data);
  T* out = static_cast<T*>(out_data);
  std::int64_t i = 0;
  for (; i + kCount <= n; i += kCount) {
    const V z = f(load<V>(x + i), load<V>(y + i));
    __builtin_memcpy(out + i, &z, sizeof(V));
  }
  if (i < n) {
    const V z = f(load_tail<V>(x + i, n - i), load_tail<V>(y + i, n - i));
    __builtin_memcpy(out + i, &z, static_cast<std::size_t>(n - i) * sizeof(T));
  }
}

}  // namespace

extern "C" void TELAMON_ISA_SYMBOL(math_run)(void* function, int arity, bool is_double,
                                             std::int64_t n, const void* x, const void* y,
                                             void* out) {
  if (arity == 1)
    return is_double ? run1<F64>(function, n, x, out) : run1<F32>(function, n, x, out);
  return is_double ? run2<F64>(function, n, x, y, out) : run2<F32>(function, n, x, y, out);
}

#define TELAMON_ENTRY(symbol) {reinterpret_cast<void*>(&symbol), TELAMON_STRING(symbol)}
#define TELAMON_OWN_ENTRY(symbol) \
  {reinterpret_cast<void*>(&symbol), TELAMON_STRING(symbol), telamon::simd::kKeepsRegisters}
#define OWN1(name, ulp32, ulp64)                      \
  {TELAMON_OWN_ENTRY(TELAMON_ISA_SYMBOL(name##_f32)), \
   TELAMON_OWN_ENTRY(TELAMON_ISA_SYMBOL(name##_f64))},
#define OWN2(name, ulp32, ulp64) OWN1(name, ulp32, ulp64)
#define OWN_F32(name, ulp32, ulp64) \
  {TELAMON_OWN_ENTRY(TELAMON_ISA_SYMBOL(name##_f32)), TELAMON_ENTRY(TELAMON_LIB_F64(v, name))},
#define LIB1(name, ulp32, ulp64) \
  {TELAMON_ENTRY(TELAMON_LIB_F32(v, name)), TELAMON_ENTRY(TELAMON_LIB_F64(v, name))},
#define LIB2(name, ulp32, ulp64) \
  {TELAMON_ENTRY(TELAMON_LIB_F32(vv, name)), TELAMON_ENTRY(TELAMON_LIB_F64(vv, name))},
#define OWN2_F32(name, ulp32, ulp64) \
  {TELAMON_OWN_ENTRY(TELAMON_ISA_SYMBOL(name##_f32)), TELAMON_ENTRY(TELAMON_LIB_F64(vv, name))},

#define FMOD(name, ulp32, ulp64)                            \
  {TELAMON_ENTRY(TELAMON_ISA_SYMBOL(library_##name##_f32)), \
   TELAMON_ENTRY(TELAMON_ISA_SYMBOL(library_##name##_f64))},

const telamon::math::MathEntry TELAMON_ISA_SYMBOL(math_entries)[][2] = {
    TELAMON_MATH_FUNCTIONS(OWN1, OWN2, TELAMON_BY_SET(OWN1, OWN1, LIB1),
                           TELAMON_BY_SET(OWN1, LIB1, LIB1), TELAMON_BY_SET(LIB1, OWN1, LIB1),
                           OWN_F32, TELAMON_BY_SET(OWN2, OWN2_F32, LIB2),
                           TELAMON_BY_SET(OWN2, OWN2, FMOD))};
