// 16-bit floats: f16 and bf16 to f32 and back, and their sums, which are of f32 and rounded. For *_isa.cpp files only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/kernels/loop_isa.hpp"
#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class T> constexpr bool kIsSmallFloat =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

TELAMON_INLINE float widen(Half h) {
  // The exponent moves by 127 - 15; a product does that for denormals too. Infinity and NaN get the
  // full exponent.
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(h.bits & 0x7fffu) << 13;
  const float scaled = bits_as<float>(magnitude) * 0x1p112f;
  const std::uint32_t bits =
      magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits_as<std::uint32_t>(scaled);
  return bits_as<float>(bits | sign);
}
TELAMON_INLINE float widen(BFloat16 x) {
  return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest even. Adding 1/2 to a number below 2^-14 leaves its denormal half in the low bits.
TELAMON_INLINE Half to_half(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x), sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t denormal =
      bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xc8000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  std::uint32_t half = magnitude < 0x38800000u ? denormal : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return {static_cast<std::uint16_t>(half | sign)};
}
TELAMON_INLINE BFloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x0040u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}
template <class T>
TELAMON_INLINE T narrow_to(float x) {
  if constexpr (std::is_same_v<T, Half>) return to_half(x);
  else return to_bfloat16(x);
}

template <class T>
TELAMON_INLINE T add_halves(T a, T b) {
  return narrow_to<T>(widen(a) + widen(b));
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
