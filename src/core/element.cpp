// Decoding and encoding of single elements.
#include "core/element.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

template <class T> T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void write(void* p, T v) { std::memcpy(p, &v, sizeof v); }

Element signed_element(std::int64_t i) { return {.form = Element::Form::signed_int, .i = i}; }
Element unsigned_element(std::uint64_t u) { return {.form = Element::Form::unsigned_int, .u = u}; }
Element real_element(double re) { return {.form = Element::Form::real, .re = re}; }

// Truncates toward zero and saturates; NaN gives 0.
template <class T> T saturate(double v) {
  if (std::isnan(v)) return 0;
  // The bounds are exact in double, or round to the power of two just above the maximum.
  if (v <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

template <class T> T to_integer(const Element& e) {
  switch (e.form) {
    case Element::Form::signed_int: return static_cast<T>(e.i);
    case Element::Form::unsigned_int: return static_cast<T>(e.u);
    default: return saturate<T>(e.re);
  }
}

/// A whole number as a double, rounded to odd where that has fewer digits: rounding it further gives the nearest to x.
template <class Int> double whole_to_odd(Int x) {
  constexpr Int kBelow = (Int{1} << (64 - 53)) - 1, kMost = Int{1} << 53;
  const bool large = x > kMost || (std::is_signed_v<Int> && x < -kMost);
  return static_cast<double>(large ? (x | ((x & kBelow) + kBelow)) & ~kBelow : x);
}

double to_odd(const Element& e) {
  switch (e.form) {
    case Element::Form::signed_int: return whole_to_odd(e.i);
    case Element::Form::unsigned_int: return whole_to_odd(e.u);
    default: return e.re;
  }
}

}  // namespace

Element load_element(const void* p, DType dtype) {
  switch (dtype) {
    case DType::bool_: return unsigned_element(read<std::uint8_t>(p) != 0);
    case DType::i8: return signed_element(read<std::int8_t>(p));
    case DType::i16: return signed_element(read<std::int16_t>(p));
    case DType::i32: return signed_element(read<std::int32_t>(p));
    case DType::i64: return signed_element(read<std::int64_t>(p));
    case DType::u8: return unsigned_element(read<std::uint8_t>(p));
    case DType::u16: return unsigned_element(read<std::uint16_t>(p));
    case DType::u32: return unsigned_element(read<std::uint32_t>(p));
    case DType::u64: return unsigned_element(read<std::uint64_t>(p));
    case DType::f16: return real_element(half_to_float(read<Half>(p)));
    case DType::bf16: return real_element(bfloat_to_float(read<BFloat16>(p)));
    case DType::f32: return real_element(read<float>(p));
    case DType::f64: return real_element(read<double>(p));
    case DType::c64: {
      const auto c = read<Complex64>(p);
      return {.form = Element::Form::complex, .re = c.re, .im = c.im};
    }
    case DType::c128: {
      const auto c = read<Complex128>(p);
      return {.form = Element::Form::complex, .re = c.re, .im = c.im};
    }
    case DType::float0: return real_element(0);
  }
  return {};
}

void store_element(void* p, DType dtype, const Element& e) {
  switch (dtype) {
    case DType::bool_: return write<std::uint8_t>(p, e.is_true() ? 1 : 0);
    case DType::i8: return write(p, to_integer<std::int8_t>(e));
    case DType::i16: return write(p, to_integer<std::int16_t>(e));
    case DType::i32: return write(p, to_integer<std::int32_t>(e));
    case DType::i64: return write(p, to_integer<std::int64_t>(e));
    case DType::u8: return write(p, to_integer<std::uint8_t>(e));
    case DType::u16: return write(p, to_integer<std::uint16_t>(e));
    case DType::u32: return write(p, to_integer<std::uint32_t>(e));
    case DType::u64: return write(p, to_integer<std::uint64_t>(e));
    case DType::f16: return write(p, half_from_double(e.as_double()));
    case DType::bf16: return write(p, bfloat_from_double(to_odd(e)));
    case DType::f32:
      switch (e.form) {  // one rounding, also for large integers
        case Element::Form::signed_int: return write(p, static_cast<float>(e.i));
        case Element::Form::unsigned_int: return write(p, static_cast<float>(e.u));
        default: return write(p, static_cast<float>(e.re));
      }
    case DType::f64: return write(p, e.as_double());
    case DType::c64:
      return write(p, Complex64{static_cast<float>(e.as_double()), static_cast<float>(e.im)});
    case DType::c128: return write(p, Complex128{e.as_double(), e.im});
    case DType::float0: return;
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
