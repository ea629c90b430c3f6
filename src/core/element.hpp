// Single elements of any dtype: decoding to and encoding from a wide C++ value. Used where one value
// at a time is read (item(), literals, printing); kernels convert whole arrays.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// f16 and bf16, which memory holds and arithmetic is not done in.
inline bool is_small_float(DType d) { return is_float(d) && size_of(d) == 2; }

/// IEEE binary16 to binary32.
inline float half_to_float(Half h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (h.bits >> 10) & 0x1f, mantissa = h.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
/// binary64 to binary16, rounding once to nearest even.
inline Half half_from_double(double v) {
  const std::uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) return {static_cast<std::uint16_t>(sign | 0x7e00)};
  const double a = std::fabs(v);
  if (a >= 65520.0) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  if (a < 0x1p-14)
    return {static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(a * 0x1p24)))};
  int e = 0;
  const double m = std::frexp(a, &e);                               // a = m 2^e, m in [0.5, 1)
  const int scaled = static_cast<int>(std::nearbyint(m * 2048.0));  // 11 bits; may reach 2048
  return {static_cast<std::uint16_t>(sign | (((e + 14) << 10) + (scaled - 1024)))};
}
inline float bfloat_to_float(BFloat16 b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b.bits) << 16);
}
/// binary64 to bfloat16, rounding once to nearest even.
inline BFloat16 bfloat_from_double(double v) {
  const float nearest = static_cast<float>(v);
  auto u = std::bit_cast<std::uint32_t>(nearest);
  if (std::isnan(v)) return {static_cast<std::uint16_t>((u >> 16) | 0x40)};
  if (nearest != v) u = (u - (std::fabs(nearest) > std::fabs(v) ? 1 : 0)) | 1;  // to odd: inexact
  return {static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}

/// One element, decoded: integers keep all their bits.
struct Element {
  enum class Form : std::uint8_t { signed_int, unsigned_int, real, complex } form = Form::real;
  std::int64_t i = 0;
  std::uint64_t u = 0;
  double re = 0, im = 0;

  double as_double() const {
    switch (form) {
      case Form::signed_int: return static_cast<double>(i);
      case Form::unsigned_int: return static_cast<double>(u);
      default: return re;
    }
  }
  bool is_true() const {
    switch (form) {
      case Form::signed_int: return i != 0;
      case Form::unsigned_int: return u != 0;
      default: return re != 0 || im != 0;
    }
  }
};

Element load_element(const void* p, DType dtype);
/// As convert_element_type: floats to integers truncate and saturate, NaN gives 0; to bool: x != 0;
/// integers wrap.
void store_element(void* p, DType dtype, const Element& value);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
