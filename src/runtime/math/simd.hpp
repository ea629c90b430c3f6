// Vector types of the instruction set this file is compiled for, and the few operations on them
// that neither gcc's nor clang's vector extensions spell. For *_isa.cpp files only.
//
// Everything is in an unnamed namespace: the three builds of one source must not share a single
// inline function, or the linker could give AVX-512 code to a processor without it. For the same
// reason *_isa.cpp files instantiate nothing from the standard library.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
#include <immintrin.h>
#endif

// Compiled == eager needs every product rounded: no contraction unless a fused operation is written.
// gcc takes this from the command line (-ffp-contract=off).
#if defined(__clang__)
#pragma clang fp contract(off)
#endif

#define TELAMON_CONCAT_(a, b, c) a##b##_##c
#define TELAMON_CONCAT(a, b, c) TELAMON_CONCAT_(a, b, c)
/// telamon_avx512_exp_f32 from exp_f32: a symbol of this instruction set.
#define TELAMON_ISA_SYMBOL(name) TELAMON_CONCAT(telamon_, TELAMON_ISA, name)
#define TELAMON_STRING_(x) #x
#define TELAMON_STRING(x) TELAMON_STRING_(x)

#define TELAMON_INLINE inline __attribute__((always_inline))

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

#if defined(TELAMON_ISA_AVX512)
constexpr int kBytes = 64;
#elif defined(TELAMON_ISA_AVX2)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

using F32 = float __attribute__((vector_size(kBytes)));
using F64 = double __attribute__((vector_size(kBytes)));
using I32 = std::int32_t __attribute__((vector_size(kBytes)));
using I64 = std::int64_t __attribute__((vector_size(kBytes)));
using U32 = std::uint32_t __attribute__((vector_size(kBytes)));
using U64 = std::uint64_t __attribute__((vector_size(kBytes)));

/// What a function template over the two float types needs to know.
template <class V> struct Lanes;
template <> struct Lanes<F32> {
  using Scalar = float;
  using Int = I32;
  using Unsigned = U32;
  static constexpr int kCount = kBytes / 4;
};
template <> struct Lanes<F64> {
  using Scalar = double;
  using Int = I64;
  using Unsigned = U64;
  static constexpr int kCount = kBytes / 8;
};
template <class V> using ScalarOf = typename Lanes<V>::Scalar;
template <class V> using IntOf = typename Lanes<V>::Int;

template <class V> TELAMON_INLINE V splat(ScalarOf<V> x) { return x - V{}; }

#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
/// A register with one number in all lanes, in memory: an operand at no cost if no more than two are loaded in a cycle.
/// gcc makes an instruction of its own of any constant that it knows: `used` hides from it that nobody writes here.
template <class T> struct alignas(kBytes) Repeated {
  T lanes[kBytes / sizeof(T)];
  constexpr explicit Repeated(T value) : lanes{} {
    for (T& lane : lanes) lane = value;
  }
};
template <auto kValue> struct InMemory {
  __attribute__((used)) static inline Repeated value{kValue};
};
template <class V, auto kValue> TELAMON_INLINE V from_memory() {
  V x;
  __builtin_memcpy(&x, InMemory<kValue>::value.lanes, sizeof x);
  return x;
}
/// An integer in all lanes, from memory: with AVX-512, gcc would bring it through a general register.
template <class V, auto kBits> TELAMON_INLINE IntOf<V> constant_bits() {
  static_assert(sizeof(decltype(kBits)) == sizeof(ScalarOf<V>));
  return from_memory<IntOf<V>, kBits>();
}
#endif
/// A constant in all lanes.
template <class V, auto kValue> TELAMON_INLINE V constant() {
#if defined(TELAMON_ISA_AVX2)
  return from_memory<V, static_cast<ScalarOf<V>>(kValue)>();
#else
  return splat<V>(kValue);
#endif
}

// The first `count` lanes, one at least but not all. A copy of so many bytes would be a call, and what it writes comes back
// from the stack in more than one piece, for which processors wait (a matrix of f32 with rows of 100 times a vector took
// twice as long on Zen 3). With AVX2 they are stored in pieces: a masked store takes tens of cycles on Zen 2 and 3.
#if defined(TELAMON_ISA_AVX512)
TELAMON_INLINE unsigned lanes_mask(std::int64_t count) { return (1u << count) - 1; }
TELAMON_INLINE F32 load_some(const float* from, std::int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes_mask(count)), from);
}
TELAMON_INLINE F64 load_some(const double* from, std::int64_t count) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes_mask(count)), from);
}
TELAMON_INLINE void store_some(float* to, F32 x, std::int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(lanes_mask(count)), x);
}
TELAMON_INLINE void store_some(double* to, F64 x, std::int64_t count) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(lanes_mask(count)), x);
}
#elif defined(TELAMON_ISA_AVX2)
TELAMON_INLINE F32 load_some(const float* from, std::int64_t count) {
  const I32 lanes = {0, 1, 2, 3, 4, 5, 6, 7};
  const I32 mask = lanes < static_cast<std::int32_t>(count);
  return _mm256_maskload_ps(from, (__m256i)mask);
}
TELAMON_INLINE F64 load_some(const double* from, std::int64_t count) {
  const I64 lanes = {0, 1, 2, 3};
  const I64 mask = lanes < count;
  return _mm256_maskload_pd(from, (__m256i)mask);
}
TELAMON_INLINE void store_some(float* to, F32 x, std::int64_t count) {
  __m128 part = _mm256_castps256_ps128(x);
  if ((count & 4) != 0) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(x, 1);
    to += 4;
  }
  if ((count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_ss(to, part);
}
TELAMON_INLINE void store_some(double* to, F64 x, std::int64_t count) {
  __m128d part = _mm256_castpd256_pd128(x);
  if ((count & 2) != 0) {
    _mm_storeu_pd(to, part);
    part = _mm256_extractf128_pd(x, 1);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_sd(to, part);
}
#else
TELAMON_INLINE F32 load_some(const float* from, std::int64_t count) {
  return F32{from[0], count > 1 ? from[1] : 0, count > 2 ? from[2] : 0, 0};
}
TELAMON_INLINE F64 load_some(const double* from, std::int64_t) { return F64{from[0], 0}; }
TELAMON_INLINE void store_some(float* to, F32 x, std::int64_t count) {
  to[0] = x[0];
  if (count > 1) to[1] = x[1];
  if (count > 2) to[2] = x[2];
}
TELAMON_INLINE void store_some(double* to, F64 x, std::int64_t) { to[0] = x[0]; }
#endif

/// As many of the lanes as `count` says, at least one, no more than there are; zeros in the others.
template <class V>
TELAMON_INLINE V load_lanes(const ScalarOf<V>* from, std::int64_t count) {
  if (count < Lanes<V>::kCount) return load_some(from, count);
  V x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
/// The same vector, which from here on lies in a register: what reads it more often must not load it each time again,
/// as the compiler would to make an instruction shorter.
template <class V>
TELAMON_INLINE V in_register(V x) {
#if defined(__x86_64__)
  asm("" : "+v"(x));
#endif
  return x;
}
template <class V>
TELAMON_INLINE void store_lanes(ScalarOf<V>* to, V x, std::int64_t count) {
  if (count < Lanes<V>::kCount) return store_some(to, x, count);
  __builtin_memcpy(to, &x, sizeof x);
}

#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif
/// a * b + c, rounded once where the instruction set has it.
TELAMON_INLINE F32 fma(F32 a, F32 b, F32 c) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
TELAMON_INLINE F64 fma(F64 a, F64 b, F64 c) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_fmadd_pd(a, b, c);
#else
  return a * b + c;
#endif
}

/// a b, for factors that may be so small that it underflows, and +0 where it is -0. On Zen 3 a product that underflows takes
/// tens of cycles more than others, and a fused operation does not. In f64 numbers so small are rare.
TELAMON_INLINE F32 product_of_small(F32 a, F32 b) { return kFused ? fma(a, b, F32{}) : a * b; }
TELAMON_INLINE F64 product_of_small(F64 a, F64 b) { return a * b; }

/// The `kCount` coefficients of `kAll` from kFirst on, with x^(2^i) in powers[i].
template <const auto& kAll, int kFirst, int kCount, class V>
TELAMON_INLINE V polynomial_part(const V* powers) {
  if constexpr (kCount == 1) {
    return constant<V, kAll[kFirst]>();
  } else {
    constexpr int kLog = kCount > 8 ? 3 : kCount > 4 ? 2 : kCount > 2 ? 1 : 0;
    constexpr int kHigh = kCount - (1 << kLog);
    return fma(polynomial_part<kAll, kFirst, kHigh>(powers), powers[kLog],
               polynomial_part<kAll, kFirst + kHigh, (1 << kLog)>(powers));
  }
}

/// How many elements an array has.
template <class T, int N> constexpr int count_of(const T (&)[N]) { return N; }

/// A polynomial, highest coefficient first, by Estrin's scheme: about as many operations as Horner's
/// rule, in a chain of the logarithm of their number. kOfSmall: of an x that may be so small that powers of it underflow.
template <const auto& kAll, bool kOfSmall = false, class V> TELAMON_INLINE V estrin(V x) {
  V powers[4] = {x, {}, {}, {}};
  for (int i = 1; i < 4; ++i) {  // as far as they are used
    const V last = powers[i - 1];
    powers[i] = kOfSmall ? product_of_small(last, last) : last * last;
  }
  return polynomial_part<kAll, 0, count_of(kAll)>(powers);
}

/// The first `kCount` coefficients of `kAll`, by Horner's rule.
template <const auto& kAll, int kCount, class V> TELAMON_INLINE V horner_part(V x) {
  const V last = constant<V, kAll[kCount - 1]>();
  if constexpr (kCount == 1) {
    return last;
  } else {
    return fma(horner_part<kAll, kCount - 1>(x), x, last);
  }
}
/// A polynomial by Horner's rule, which takes fewer registers: for long ones, where values of other parts
/// wait in registers, and where |x| exceeds 1 and high powers of it would cost accuracy.
template <const auto& kAll, class V> TELAMON_INLINE V horner(V x) {
  return horner_part<kAll, count_of(kAll)>(x);
}

/// Every other of the first `kCount` coefficients of `kAll` that ends with the last, by Horner's rule.
template <const auto& kAll, int kCount, class V> TELAMON_INLINE V horner_half(V square) {
  const V last = constant<V, kAll[kCount - 1]>();
  if constexpr (kCount <= 2) {
    return last;
  } else {
    return fma(horner_half<kAll, kCount - 2>(square), square, last);
  }
}
/// A polynomial by Horner's rule for its odd powers and its even ones: two chains of half the length, for one operation and
/// two registers more. The constant comes to the odd powers first, of which a large x makes the most.
template <const auto& kAll, class V> TELAMON_INLINE V by_halves(V x) {
  const V square = x * x;
  constexpr int kCount = count_of(kAll);
  const V odd = fma(horner_half<kAll, kCount - 1>(square), x, constant<V, kAll[kCount - 1]>());
  return fma(horner_half<kAll, kCount - 2>(square), square, odd);
}

template <class V> TELAMON_INLINE IntOf<V> sign_bit() {
  return (IntOf<V>)constant<V, ScalarOf<V>(-0.0)>();
}
TELAMON_INLINE F32 abs(F32 x) { return (F32)(~sign_bit<F32>() & (I32)x); }
TELAMON_INLINE F64 abs(F64 x) { return (F64)(~sign_bit<F64>() & (I64)x); }
TELAMON_INLINE F32 copysign(F32 x, F32 sign) {
#if defined(TELAMON_ISA_AVX512)
  constexpr int kFirstChooses = 0xca;  // the bits of the second or the third
  return (F32)_mm512_ternarylogic_epi32((__m512i)(I32{} + 0x7fffffff), (__m512i)x, (__m512i)sign,
                                        kFirstChooses);
#else
  return (F32)((I32)abs(x) | (sign_bit<F32>() & (I32)sign));
#endif
}
TELAMON_INLINE F64 copysign(F64 x, F64 sign) {
  return (F64)((I64)abs(x) | (sign_bit<F64>() & (I64)sign));
}
TELAMON_INLINE F32 sqrt(F32 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_sqrt_ps(0xffff, x);  // the plain form trips -Wuninitialized in gcc 12
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_sqrt_ps(x);
#else
  for (int i = 0; i < Lanes<F32>::kCount; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
TELAMON_INLINE F64 sqrt(F64 x) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_sqrt_pd(0xff, x);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_sqrt_pd(x);
#else
  for (int i = 0; i < Lanes<F64>::kCount; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

/// The lanes' least of x and `most`, and their greatest of x and `least`: NaN where x is.
TELAMON_INLINE F32 at_most(F32 x, F32 most) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_min_ps(0xffff, most, x);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_min_ps(most, x);
#else
  return x > most ? most : x;
#endif
}
TELAMON_INLINE F64 at_most(F64 x, F64 most) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_min_pd(0xff, most, x);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_min_pd(most, x);
#else
  return x > most ? most : x;
#endif
}
TELAMON_INLINE F32 at_least(F32 x, F32 least) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_max_ps(0xffff, least, x);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_max_ps(least, x);
#else
  return x < least ? least : x;
#endif
}
TELAMON_INLINE F64 at_least(F64 x, F64 least) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_maskz_max_pd(0xff, least, x);
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_max_pd(least, x);
#else
  return x < least ? least : x;
#endif
}

#if defined(TELAMON_ISA_AVX512)
constexpr bool kScales = true;
/// p 2^n for whole n, also where that is denormal, 0 or infinite; 0 where x < zero, whatever p is.
TELAMON_INLINE F32 times_power(F32 p, F32 n, F32 x, float zero) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, splat<F32>(zero), _CMP_NLT_UQ), p, n);
}
TELAMON_INLINE F64 times_power(F64 p, F64 n, F64 x, double zero) {
  return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(x, splat<F64>(zero), _CMP_NLT_UQ), p, n);
}
/// p 2^floor(n).
TELAMON_INLINE F32 times_power(F32 p, F32 n) { return _mm512_maskz_scalef_ps(0xffff, p, n); }
TELAMON_INLINE F64 times_power(F64 p, F64 n) { return _mm512_maskz_scalef_pd(0xff, p, n); }
/// m in [3/4, 3/2) and floor(log2 |x|) of x = m 2^n, also where that is denormal; n is one more where m < 1.
TELAMON_INLINE F32 mantissa(F32 x) {
  return _mm512_maskz_getmant_ps(0xffff, x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
}
TELAMON_INLINE F64 mantissa(F64 x) {
  return _mm512_maskz_getmant_pd(0xff, x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
}
/// m in [1, 2) of |x| = m 2^n.
TELAMON_INLINE F32 mantissa_from_one(F32 x) {
  return _mm512_maskz_getmant_ps(0xffff, x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
}
TELAMON_INLINE F64 mantissa_from_one(F64 x) {
  return _mm512_maskz_getmant_pd(0xff, x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
}
TELAMON_INLINE F32 exponent(F32 x) { return _mm512_maskz_getexp_ps(0xffff, x); }
TELAMON_INLINE F64 exponent(F64 x) { return _mm512_maskz_getexp_pd(0xff, x); }
/// y = log x for x above 0; and what it is for all others.
constexpr int kLogOfOthers =
    0x03530422;  // by class of x, from NaN on: x, x, -inf, y, NaN, inf, NaN, y
TELAMON_INLINE F32 log_of_all(F32 y, F32 x) {
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(kLogOfOthers), 0);
}
TELAMON_INLINE F64 log_of_all(F64 y, F64 x) {
  return _mm512_fixupimm_pd(y, x, _mm512_set1_epi64(kLogOfOthers), 0);
}
#else
constexpr bool kScales = false;
#if defined(TELAMON_ISA_AVX2)
/// y where x is above 0 and finite, and elsewhere what log x is: x - 1 / sqrt x is -inf for 0, NaN for less, and x for infinity
/// and NaN. For no denormal x and no -0.
TELAMON_INLINE F32 log_of_all(F32 y, F32 x) {
  // As numbers that begin with the least one, the bits of those above 0 are the least.
  const I32 from_least = (I32)((U32)x + (U32)constant_bits<F32, 0x7fffffff>());
  const auto has_one = constant_bits<F32, static_cast<std::int32_t>(0xff7fffff)>() > from_least;
  return has_one ? y : x - (F32)_mm256_rsqrt_ps(x);
}
#endif
template <class V> V log_of_all(V y, V x);
template <class V> V times_power(V p, V n, V x, ScalarOf<V> zero);
template <class V> V times_power(V p, V n);
template <class V> V mantissa(V x);
template <class V> V mantissa_from_one(V x);
template <class V> V exponent(V x);
#endif

/// Whether there is a log_of_all.
#if defined(TELAMON_ISA_AVX512)
template <class V> constexpr bool kHasLogOfAll = true;
#elif defined(TELAMON_ISA_AVX2)
template <class V> constexpr bool kHasLogOfAll = sizeof(ScalarOf<V>) == 4;
#else
template <class V> constexpr bool kHasLogOfAll = false;
#endif

/// Whether x > bound in all lanes; a NaN is not.
TELAMON_INLINE bool all_above(F32 x, F32 bound) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_cmp_ps_mask(x, bound, _CMP_GT_OQ) == 0xffff;
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_movemask_ps(_mm256_cmp_ps(x, bound, _CMP_GT_OQ)) == 0xff;
#else
  bool all = true;
  for (int i = 0; i < Lanes<F32>::kCount; ++i) all &= x[i] > bound[i];
  return all;
#endif
}
TELAMON_INLINE bool all_above(F64 x, F64 bound) {
#if defined(TELAMON_ISA_AVX512)
  return _mm512_cmp_pd_mask(x, bound, _CMP_GT_OQ) == 0xff;
#elif defined(TELAMON_ISA_AVX2)
  return _mm256_movemask_pd(_mm256_cmp_pd(x, bound, _CMP_GT_OQ)) == 0xf;
#else
  bool all = true;
  for (int i = 0; i < Lanes<F64>::kCount; ++i) all &= x[i] > bound[i];
  return all;
#endif
}

#if defined(TELAMON_ISA_AVX2)
constexpr bool kAsks = true;  // what costs little here
/// Whether kLeast < |x| < kBeyond in any lane. Bits of numbers without a sign are in the order of the numbers, and integers
/// are compared by units that fused operations leave free.
template <auto kLeast, auto kBeyond, class V> TELAMON_INLINE bool any_between(V x) {
  using Int = decltype(IntOf<V>{}[0] | 0);
  using Unsigned = typename Lanes<V>::Unsigned;
  using Bits = decltype(Unsigned{}[0] | 0);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  constexpr Bits kFrom = 2 * __builtin_bit_cast(Bits, ScalarOf<V>(kLeast)) + 1,
                 kTo = 2 * __builtin_bit_cast(Bits, ScalarOf<V>(kBeyond));
  // Twice the bits, from kFrom on, as numbers that begin with the least one.
  const auto from_least =
      (Unsigned)x + (Unsigned)x + (Unsigned)constant_bits<V, static_cast<Int>(kSign - kFrom)>();
  const V found =
      (V)(constant_bits<V, static_cast<Int>(kSign + (kTo - kFrom))>() > (IntOf<V>)from_least);
  if constexpr (sizeof(ScalarOf<V>) == 4) return _mm256_movemask_ps(found) != 0;
  else return _mm256_movemask_pd(found) != 0;
}
#else
constexpr bool kAsks = false;
template <auto kLeast, auto kBeyond, class V> bool any_between(V x);
#endif

/// Whether kLeast <= x < kBeyond in all lanes, for positive bounds.
template <auto kLeast, auto kBeyond, class V> TELAMON_INLINE bool all_within(V x) {
#if defined(TELAMON_ISA_AVX2)
  using Int = decltype(IntOf<V>{}[0] | 0);
  using Unsigned = typename Lanes<V>::Unsigned;
  using Bits = decltype(Unsigned{}[0] | 0);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  constexpr Bits kFrom = __builtin_bit_cast(Bits, ScalarOf<V>(kLeast)),
                 kTo = __builtin_bit_cast(Bits, ScalarOf<V>(kBeyond));
  const auto from_least =
      (Unsigned)x + (Unsigned)constant_bits<V, static_cast<Int>(kSign - kFrom)>();
  const V outside =
      (V)((IntOf<V>)from_least > constant_bits<V, static_cast<Int>(kSign + (kTo - kFrom) - 1)>());
  if constexpr (sizeof(ScalarOf<V>) == 4) return _mm256_movemask_ps(outside) == 0;
  else return _mm256_movemask_pd(outside) == 0;
#else
  bool all = true;
  for (int i = 0; i < Lanes<V>::kCount; ++i) {
    all &= x[i] >= ScalarOf<V>(kLeast) && x[i] < ScalarOf<V>(kBeyond);
  }
  return all;
#endif
}

/// The integer next to x, for |x| < 2^21 (f32) or 2^50 (f64), as float and as integer: adding 1.5 *
/// 2^23 (2^52) leaves it in the low bits, in two's complement. Needs no conversion instruction,
/// which 64-bit integers lack before AVX-512.
template <class V> struct Rounded {
  V value;
  IntOf<V> bits;
};  // bits: above the integer, garbage
template <class V> struct Shift;
template <> struct Shift<F32> {
  static constexpr float kValue = 0x1.8p23f;
};
template <> struct Shift<F64> {
  static constexpr double kValue = 0x1.8p52;
};
template <class V> TELAMON_INLINE Rounded<V> round_to_integer(V x) {
  const V shift = constant<V, Shift<V>::kValue>(), shifted = x + shift;
  return {shifted - shift, (IntOf<V>)shifted};
}
/// The same of x y, which is not rounded first where the set has fused operations.
template <class V> TELAMON_INLINE Rounded<V> round_product(V x, V y) {
  const V shift = constant<V, Shift<V>::kValue>(), shifted = fma(x, y, shift);
  return {shifted - shift, (IntOf<V>)shifted};
}
template <auto kFactor, class V> TELAMON_INLINE Rounded<V> round_product(V x) {
  return round_product<V>(x, constant<V, kFactor>());
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
