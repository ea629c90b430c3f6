// Cube roots for AVX2, with which libmvec computes denormal numbers, infinities, NaN and zeros one lane at a time. (With
// AVX-512 it does not, and takes less than this.) For vector_math_isa.cpp only.
#pragma once

#include "runtime/math/simd.hpp"
#include "runtime/math/split.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- A guess y at x^(-1/3), within 3.6 %: bits of a float are nearly its logarithm, so that those of y are a constant
// less a third of those of x (for square roots: Blinn, Floating-Point Tricks, 1997).

TELAMON_INLINE F32 inverse_cube_root_guess(F32 x) {
  const F32 bits = __builtin_convertvector((I32)x, F32);
  const F32 guess = fma(bits, constant<F32, -1.f / 3>(), constant<F32, 0x1.5287ccp+30f>());
  return (F32) __builtin_convertvector(guess, I32);
}
/// There are no conversions of 64-bit integers: the upper bits become a double as the mantissa of one from 2^52 on, and
/// are again one afterwards.
TELAMON_INLINE F64 inverse_cube_root_guess(F64 x) {
  constexpr int kDropped = 12;
  const F64 bits = (F64)(((U64)x >> kDropped) | (U64)constant<F64, 0x1p52>());
  const F64 guess = fma(bits, constant<F64, -1. / 3>(), constant<F64, 0x1.aa943e654ec79p+52>());
  return (F64)((U64)guess << kDropped);
}

/// (1 - h)^(-2/3) for what h = 1 - x y^3 is of a guess, to 17 bits and to 30.
TELAMON_INLINE F32 square_of_inverse_cube_root(F32 h) {
  static constexpr float kP[] = {0.497770876f, 0.560289025f, 0.6666646f, 0.999993861f};
  return estrin<kP>(h);
}
TELAMON_INLINE F64 square_of_inverse_cube_root(F64 h) {
  static constexpr double kP[] = {0.40534094567828094, 0.42947988055658354, 0.45264591591606573,
                                  0.4937908081503226,  0.555555577981622,   0.6666667138512054,
                                  1.0000000000131326};
  return estrin<kP>(h);
}

/// Numbers below kSmall are raised by a cube, so that what a step of Newton's method needs of them is no denormal number.
template <class V> struct CubeRootRange;
template <> struct CubeRootRange<F32> {
  static constexpr float kSmall = 0x1p-100f, kRaise = 0x1p48f, kLower = 0x1p-16f;
};
template <> struct CubeRootRange<F64> {
  static constexpr double kSmall = 0x1p-900, kRaise = 0x1p108, kLower = 0x1p-36;
};

// cbrt x = x w with w = x^(-2/3) = y^2 (1 - h)^(-2/3), and a step of Newton's method whose slope is w / 3: no quotient.
template <class V> TELAMON_INLINE V cbrt(V x) {
  using R = CubeRootRange<V>;
  const V magnitude = abs(x), one = constant<V, 1>();
  const auto small = magnitude < constant<V, R::kSmall>();
  // A product alone is slow where an operand is denormal.
  const V a = fma(magnitude, small ? constant<V, R::kRaise>() : one, V{});
  const V y = inverse_cube_root_guess(a), square = y * y;
  const V h = fma(-(a * square), y, one);
  const V w = square * square_of_inverse_cube_root(h), z = a * w;
  const V root = fma(fma(-(z * z), z, a), w * constant<V, 1. / 3>(), z);
  const V lowered = root * (small ? constant<V, R::kLower>() : one);
  return copysign(magnitude < constant<V, kInf>() ? lowered : magnitude, x);
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
