// Scalar literals as text.
#include "jaxpr/literal.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/concrete.hpp"
#include "core/decimal.hpp"
#include "core/element.hpp"
#include "telamon/detail/text.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

// ---- Writing -------------------------------------------------------------------------------------

constexpr std::uint64_t plain_nan(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x7e00;
    case DType::bf16: return 0x7fc0;
    case DType::f32: return 0x7fc00000;
    default: return 0x7ff8000000000000;
  }
}

std::string nan_text(const std::byte* p, DType dtype) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, size_of(dtype));  // little endian, as everywhere here
  if (bits == plain_nan(dtype)) return "nan";
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "nan(0x";
  for (int shift = static_cast<int>(size_of(dtype)) * 8 - 4; shift >= 0; shift -= 4) {
    text += kHex[(bits >> shift) & 15];
  }
  return text + ")";
}

std::string float_text(const std::byte* p, DType dtype) {
  const double value = load_element(p, dtype).re;
  if (std::isnan(value)) return nan_text(p, dtype);
  std::string text;
  // Widening a 16-bit float is exact, so the shortest f32 text names it too.
  if (dtype == DType::f64) {
    append_float(text, value);
  } else {
    append_float(text, static_cast<float>(value));
  }
  return text;
}

std::string complex_text(const std::byte* p, DType part) {
  std::string im = float_text(p + size_of(part), part);
  if (im[0] != '-') im.insert(0, "+");
  return "(" + float_text(p, part) + im + "j)";
}

std::string value_text(const Array& scalar) {
  const auto* p = data_of<std::byte>(scalar);
  const DType dtype = scalar.dtype();
  switch (kind_of(dtype)) {
    case Kind::boolean: return load_element(p, dtype).is_true() ? "True" : "False";
    case Kind::signed_int: return std::to_string(load_element(p, dtype).i);
    case Kind::unsigned_int: return std::to_string(load_element(p, dtype).u);
    case Kind::floating: return float_text(p, dtype);
    case Kind::complex: return complex_text(p, dtype == DType::c64 ? DType::f32 : DType::f64);
    case Kind::float0: return "0";
  }
  return "";
}

// ---- Reading -------------------------------------------------------------------------------------

template <class T>
bool parse_integer(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

template <class F>
bool parse_float(std::string_view text, F& value) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "nan") {
    value = std::numeric_limits<F>::quiet_NaN();
  } else if (text == "inf") {
    value = std::numeric_limits<F>::infinity();
  } else if (!detail::read_decimal(text, value)) {
    return false;
  }
  if (negative) value = -value;
  return true;
}

bool store_nan(std::byte* to, DType dtype, std::string_view text) {
  std::uint64_t bits = 0;
  if (!text.starts_with('x') || text.size() != 1 + 2 * size_of(dtype)) return false;
  if (!parse_integer(text.substr(1), bits, 16)) return false;
  std::memcpy(to, &bits, size_of(dtype));
  return true;
}

// Digits go straight to the width they are stored in. 16-bit floats go by way of f64, which rounds twice where digits that
// f64 has not decide.
bool store_float(std::byte* to, DType dtype, const NumberText& text) {
  if (!text.nan_bits.empty()) return store_nan(to, dtype, text.nan_bits);
  Element e{.form = Element::Form::real};
  float narrow = 0;
  if (dtype == DType::f32) {
    if (!parse_float(text.digits, narrow)) return false;
    e.re = narrow;
  } else if (!parse_float(text.digits, e.re)) {
    return false;
  }
  store_element(to, dtype, e);
  return true;
}

bool store_signed(std::byte* to, DType dtype, std::string_view text) {
  Element e{.form = Element::Form::signed_int};
  if (!parse_integer(text, e.i)) return false;
  store_element(to, dtype, e);
  return load_element(to, dtype).i == e.i;  // narrower integers wrap
}

bool store_unsigned(std::byte* to, DType dtype, std::string_view text) {
  Element e{.form = Element::Form::unsigned_int};
  if (!parse_integer(text, e.u)) return false;
  store_element(to, dtype, e);
  return load_element(to, dtype).u == e.u;
}

bool store_bool(std::byte* to, std::string_view text) {
  *to = std::byte{text == "True"};
  return text == "True" || text == "False";
}

}  // namespace

std::string literal_text(const Array& scalar) {
  std::string text = value_text(scalar);
  const DType d = scalar.dtype();
  const bool plain =
      !scalar.weak_type() && (d == DType::f64 || d == DType::i64 || d == DType::bool_);
  if (plain) return text;
  text += scalar.weak_type() ? ":~" : ":";
  return text += short_name(d);
}

DType undecorated_dtype(const LiteralText& text) {
  if (text.is_complex) return DType::c128;
  const std::string_view digits = text.re.digits;
  if (digits == "True" || digits == "False") return DType::bool_;
  return digits.find_first_of(".en") == std::string_view::npos ? DType::i64 : DType::f64;
}

bool read_literal(const LiteralText& text, const Array& scalar) {
  auto* to = mutable_data_of<std::byte>(scalar);
  const DType dtype = scalar.dtype();
  if (text.is_complex != is_complex(dtype)) return false;
  if (!text.re.nan_bits.empty() && !is_inexact(dtype)) return false;
  switch (kind_of(dtype)) {
    case Kind::boolean: return store_bool(to, text.re.digits);
    case Kind::signed_int: return store_signed(to, dtype, text.re.digits);
    case Kind::unsigned_int: return store_unsigned(to, dtype, text.re.digits);
    case Kind::floating: return store_float(to, dtype, text.re);
    case Kind::float0: return text.re.digits == "0";
    case Kind::complex: break;
  }
  const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
  return store_float(to, part, text.re) && store_float(to + size_of(part), part, text.im);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
