// The remainder of a division, exact as the C library's fmod, for the instruction sets with FMA. For vector_math_isa.cpp
// only.
//
// |x| = n |y| + r with a whole n and 0 <= r < |y|, a number that the type has. While the quotient is small, n is its whole
// part, or one less where it was rounded up, and a fused operation gives the rest without an error. The quotient of two
// numbers that are farther apart is rounded to as many bits as it has, all of them whole; what is left of |x| then is
// exact, too (of either sign), and at most half a unit of its last bit from 0, which is the step of a long division.
#pragma once

#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"
#include "runtime/math/split.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

template <class V> struct RemainderRange;
template <> struct RemainderRange<F32> {
  static constexpr float kWhole = 0x1p22f;  // up to here a quotient has its fraction
  static constexpr float kFar = 0x1p100f, kStep = 0x1p64f;  // three such steps are any quotient
  static constexpr float kMost = 0x1.fffffep127f;
};
template <> struct RemainderRange<F64> {
  static constexpr double kWhole = 0x1p51;
  static constexpr double kFar = 0x1p900, kStep = 0x1p512;
  static constexpr double kMost = 0x1.fffffffffffffp1023;
};

/// a - n b for the whole part n of a quotient. Of an infinite b, for which n is 0, the most does as well.
template <class V> TELAMON_INLINE V what_is_left(V a, V b, V quotient) {
  return fma(-truncated(quotient), at_most(b, constant<V, RemainderRange<V>::kMost>()), a);
}
/// The same for a quotient below kWhole, from 0 on.
template <class V> TELAMON_INLINE V last_remainder(V a, V b, V quotient) {
  const V r = what_is_left(a, b, quotient);
  return r < V{} ? r + b : r;
}

/// Of any magnitudes.
template <class V> __attribute__((noinline)) V far_remainder(V a, V b) {
  using R = RemainderRange<V>;
  // Others have no remainder, and need none to be found.
  const auto has_one = (a < constant<V, kInf>()) & (b > V{});
  const V divisor = has_one ? b : constant<V, 1>();
  V r = has_one ? a : V{}, quotient = r / divisor;
  while (!all_above(constant<V, R::kWhole>(), abs(quotient))) {
    // The quotient may be infinite: a remainder by a power of two times the divisor is as good.
    V step = divisor;
    for (int i = 0; i < 3; ++i) {
      step = abs(quotient) > constant<V, R::kFar>() ? step * constant<V, R::kStep>() : step;
      quotient = r / step;
    }
    r = what_is_left(r, step, quotient);
    quotient = r / divisor;
  }
  return has_one ? last_remainder(r, divisor, quotient) : splat<V>(kNan<V>);
}

template <class V> TELAMON_INLINE V rem(V x, V y) {
  const V a = abs(x), b = abs(y), quotient = a / b;
  const bool near = all_above(constant<V, RemainderRange<V>::kWhole>(), quotient);  // nor NaN
  const V r = near ? last_remainder(a, b, quotient) : far_remainder(a, b);
  return (V)((IntOf<V>)r | ((IntOf<V>)x & sign_bit<V>()));
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
