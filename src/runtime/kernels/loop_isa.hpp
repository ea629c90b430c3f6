// Templates of contiguous loops, for *_isa.cpp files only: everything here is in an unnamed namespace,
// so that no build of an inline function can stand in for another's.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/math/simd.hpp"
#include "telamon/dtype.hpp"

// The result may be an operand, element on element: no iteration depends on another.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // some loops stay scalar
#define TELAMON_INDEPENDENT _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#else
#define TELAMON_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class F, class T, class R>
void unary(std::int64_t n, const char* const* in, char* out, const void*) {
  const T* x = reinterpret_cast<const T*>(in[0]);
  R* to = reinterpret_cast<R*>(out);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F::apply(x[i]));
}

template <class F, class T, class R>
void binary(std::int64_t n, const char* const* in, char* out, const void*) {
  const T* x = reinterpret_cast<const T*>(in[0]);
  const T* y = reinterpret_cast<const T*>(in[1]);
  R* to = reinterpret_cast<R*>(out);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F::apply(x[i], y[i]));
}

template <class F, class T, class R>
void ternary(std::int64_t n, const char* const* in, char* out, const void*) {
  const T* x = reinterpret_cast<const T*>(in[0]);
  const T* y = reinterpret_cast<const T*>(in[1]);
  const T* z = reinterpret_cast<const T*>(in[2]);
  R* to = reinterpret_cast<R*>(out);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(F::apply(x[i], y[i], z[i]));
}

/// A number that is known where a template is made.
template <int N>
struct Known {
  static constexpr int value = N;
};
/// f(Known<0>), ..., f(Known<N - 1>): an array whose indices are all constants lies in registers, while
/// loops, unrolled too late, leave it on the stack.
template <int N, int First = 0, class F>
TELAMON_INLINE void repeat(const F& f) {
  if constexpr (First < N) {
    f(Known<First>{});
    repeat<N, First + 1>(f);
  }
}

/// An unsigned type at least as wide as `int`, so that arithmetic in it wraps and is defined.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
template <class T>
using SignedBitsOf = std::make_signed_t<BitsOf<T>>;

template <class To, class From>
TELAMON_INLINE To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

template <class T> constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <class T> constexpr bool kIsComplex =
    std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;
template <class T> constexpr int kWidth = static_cast<int>(8 * sizeof(T));

/// -x, of which the compiler does not know that it is: of a difference beside a sum, as complex products have, GCC 12 makes
/// one instruction that rounds once instead of twice, in vectors but not in what is left after them, whatever it is told about
/// contraction.
template <class T>
TELAMON_INLINE T negative(T x) {
  return bits_as<T>(bits_as<BitsOf<T>>(x) ^ (BitsOf<T>{1} << (kWidth<T> - 1)));
}

struct Add {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) return a + b;
    else if constexpr (kIsComplex<T>) return {a.re + b.re, a.im + b.im};
    else return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Mul {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) return a * b;
    else if constexpr (kIsComplex<T>)
      return {a.re * b.re + negative(a.im) * b.im, a.re * b.im + a.im * b.re};
    else return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
/// NaN if either operand is.
struct Max {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      const T larger = a > b ? a : b;  // b if unordered
      return a != a ? a : larger;
    } else {
      return a > b ? a : b;
    }
  }
};
struct Min {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      const T smaller = a < b ? a : b;
      return a != a ? a : smaller;
    } else {
      return a < b ? a : b;
    }
  }
};
struct And {
  template <class T> TELAMON_INLINE static T apply(T a, T b) { return static_cast<T>(a & b); }
};
struct Or {
  template <class T> TELAMON_INLINE static T apply(T a, T b) { return static_cast<T>(a | b); }
};
struct Xor {
  template <class T> TELAMON_INLINE static T apply(T a, T b) { return static_cast<T>(a ^ b); }
};

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
