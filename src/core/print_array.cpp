// The text of arrays, exactly as NumPy's str() writes it (numpy/core/arrayprint.py): columns are
// aligned, floats have as many digits as tell them apart but at most 8 after the point, large and small
// ones are in scientific notation, lines have at most 75 characters, and of more than 1000 elements
// only three at each end of an axis are shown.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "core/trace.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr int kPrecision = 8;
constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kThreshold = 1000, kEdgeItems = 3;

// ---- Digits of one number ------------------------------------------------------------------------

/// The number 0.d1d2d3... * 10^point; `negative` also for -0 .
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

Decimal decimal_from(std::string_view scientific) {
  Decimal d;
  d.negative = scientific.starts_with('-');
  if (d.negative) scientific.remove_prefix(1);
  const std::size_t e = scientific.find('e');
  for (const char c : scientific.substr(0, e)) {
    if (c != '.') d.digits += c;
  }
  while (d.digits.size() > 1 && d.digits.back() == '0') d.digits.pop_back();
  std::string_view exponent = scientific.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), d.point);
  d.point += 1;
  return d;
}

template <class F, class... Precision>
std::string scientific_text(F value, Precision... precision) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific, precision...)
                       .ptr;
  return {buffer.data(), end};
}

double rounded_to(double value, DType dtype) {
  switch (dtype) {
    case DType::f16: return half_to_float(half_from_double(value));
    case DType::bf16: return bfloat_to_float(bfloat_from_double(value));
    case DType::f32:
    case DType::c64: return static_cast<float>(value);
    default: return value;
  }
}

/// From here on numbers are in scientific notation; NumPy (2.3 and later) stays within the decimal
/// digits that the dtype holds.
double scientific_from(DType dtype, bool is_scalar) {
  switch (dtype) {
    case DType::f16: return 1e3;
    case DType::bf16:
    case DType::f32:
    case DType::c64: return 1e6;
    default: return is_scalar ? 1e16 : 1e8;
  }
}

/// The fewest digits that name this value among those of its dtype.
Decimal shortest(double value, DType dtype) {
  if (dtype == DType::f64 || dtype == DType::c128) return decimal_from(scientific_text(value));
  if (dtype == DType::f32 || dtype == DType::c64)
    return decimal_from(scientific_text(static_cast<float>(value)));
  for (int precision = 0;; ++precision) {  // at most 5 digits for the 16-bit floats
    const std::string text = scientific_text(value, precision);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (rounded_to(back, dtype) == value) return decimal_from(text);
  }
}

/// "12" and "5" of 12.5; no more than `max_fraction` digits behind the point.
struct Positional {
  std::string whole, fraction;
};

Positional positional(double value, DType dtype, int max_fraction = 1000) {
  const Decimal d = shortest(value, dtype);
  const int size = static_cast<int>(d.digits.size());
  Positional p;
  if (size - d.point > max_fraction) {
    std::array<char, 64> buffer;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(value),
                                   std::chars_format::fixed, max_fraction)
                         .ptr;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    p.whole = text.substr(0, text.find('.'));
    p.fraction = text.substr(text.find('.') + 1);
  } else if (d.point <= 0) {
    p.whole = "0";
    p.fraction = std::string(static_cast<std::size_t>(-d.point), '0') + d.digits;
  } else {
    p.whole = d.digits.substr(0, static_cast<std::size_t>(d.point));
    p.whole.append(static_cast<std::size_t>(std::max(0, d.point - size)), '0');
    if (size > d.point) p.fraction = d.digits.substr(static_cast<std::size_t>(d.point));
  }
  while (p.fraction.ends_with('0')) p.fraction.pop_back();
  if (d.negative) p.whole.insert(0, "-");
  return p;
}

/// "-1", "5" and "-07" of -1.5e-07.
struct Scientific {
  std::string whole, fraction, exponent;
};

Scientific split(const std::string& text) {
  const std::size_t e = text.find('e');
  const std::size_t point = std::min(text.find('.'), e);
  return {text.substr(0, point), point < e ? text.substr(point + 1, e - point - 1) : "",
          text.substr(e + 1)};
}

Scientific scientific(double value, DType dtype) {
  const Decimal d = shortest(value, dtype);
  const int digits = std::min(static_cast<int>(d.digits.size()) - 1, kPrecision);
  Scientific s = split(scientific_text(value, digits));
  while (s.fraction.ends_with('0')) s.fraction.pop_back();
  return s;
}

// ---- Columns of floats -------------------------------------------------------------------------

/// The common format of the floats of an array.
class FloatFormat {
 public:
  FloatFormat(const std::vector<double>& values, DType dtype, bool plus)
      : dtype_(dtype), plus_(plus) {
    std::vector<double> finite;
    bool any_negative_infinity = false;
    for (const double v : values) {
      if (std::isfinite(v)) finite.push_back(v);
      any_negative_infinity |= std::isinf(v) && v < 0;
    }
    scientific_ = needs_scientific(finite);
    for (const double v : finite) scientific_ ? measure_scientific(v) : measure_positional(v);
    if (finite.size() == values.size()) return;
    const std::size_t behind = pad_right_ + 1;  // with the point
    const std::size_t inf = plus_ || any_negative_infinity ? 4 : 3;
    if (inf > behind) pad_left_ = std::max(pad_left_, inf - behind);
  }

  std::string operator()(double v) const {
    if (!std::isfinite(v)) {
      const std::string text = sign_of(v) + (std::isnan(v) ? "nan" : "inf");
      return std::string(std::max(pad_left_ + pad_right_ + 1, text.size()) - text.size(), ' ') +
             text;
    }
    if (scientific_) {
      Scientific s = split(scientific_text(v, static_cast<int>(precision_)));
      s.exponent.insert(1, exponent_size_ - (s.exponent.size() - 1), '0');
      return pad_left(with_plus(s.whole, v)) + "." + s.fraction + "e" + s.exponent;
    }
    const Positional p = positional(v, dtype_, kPrecision);
    return pad_left(with_plus(p.whole, v)) + "." + p.fraction +
           std::string(pad_right_ - p.fraction.size(), ' ');
  }

 private:
  // In the array's own arithmetic, as NumPy compares.
  bool needs_scientific(const std::vector<double>& finite) const {
    double low = INFINITY, high = 0;
    for (const double v : finite) {
      if (v == 0) continue;
      low = std::min(low, std::fabs(v));
      high = std::max(high, std::fabs(v));
    }
    if (high == 0) return false;
    return high >= scientific_from(dtype_, false) || low < rounded_to(1e-4, dtype_) ||
           rounded_to(high / low, dtype_) > 1000;
  }

  void measure_scientific(double v) {
    const Scientific s = scientific(v, dtype_);
    pad_left_ = std::max(pad_left_, with_plus(s.whole, v).size());
    precision_ = std::max(precision_, s.fraction.size());
    exponent_size_ = std::max(exponent_size_, s.exponent.size() - 1);
    pad_right_ = exponent_size_ + 2 + precision_;
  }

  void measure_positional(double v) {
    const Positional p = positional(v, dtype_, kPrecision);
    pad_left_ = std::max(pad_left_, with_plus(p.whole, v).size());
    pad_right_ = std::max(pad_right_, p.fraction.size());
  }

  std::string sign_of(double v) const {
    if (!std::isnan(v) && v < 0) return "-";
    return plus_ ? "+" : "";
  }
  std::string with_plus(const std::string& whole, double v) const {
    return plus_ && !std::signbit(v) ? "+" + whole : whole;
  }
  std::string pad_left(const std::string& whole) const {
    return std::string(std::max(pad_left_, whole.size()) - whole.size(), ' ') + whole;
  }

  DType dtype_;
  bool plus_;
  bool scientific_ = false;
  std::size_t pad_left_ = 0, pad_right_ = 0, precision_ = 0, exponent_size_ = 2;
};

// ---- Scalars -----------------------------------------------------------------------------------

// As Python prints a float; the smallest number without an exponent is 1e-4.
std::string scalar_float(double v, DType dtype, bool plus, std::string_view whole_number_suffix) {
  const std::string sign = plus && !std::signbit(v) ? "+" : "";
  if (std::isnan(v)) return (plus ? "+nan" : "nan");
  if (std::isinf(v)) return v < 0 ? "-inf" : sign + "inf";
  const double a = std::fabs(v);
  if (a == 0 || (a >= 1e-4 && a < scientific_from(dtype, true))) {
    const Positional p = positional(v, dtype);
    return sign + p.whole +
           (p.fraction.empty() ? std::string(whole_number_suffix) : "." + p.fraction);
  }
  const Scientific s =
      split(scientific_text(v, static_cast<int>(shortest(v, dtype).digits.size()) - 1));
  return sign + s.whole + (s.fraction.empty() ? "" : "." + s.fraction) + "e" + s.exponent;
}

std::string integer_text(const Element& e) {
  return e.form == Element::Form::signed_int ? std::to_string(e.i) : std::to_string(e.u);
}

std::string scalar_text(const Element& e, DType dtype) {
  switch (kind_of(dtype)) {
    case Kind::boolean: return e.is_true() ? "True" : "False";
    case Kind::floating: return scalar_float(e.re, dtype, false, ".0");
    case Kind::complex:
      if (e.re == 0 && !std::signbit(e.re)) return scalar_float(e.im, dtype, false, "") + "j";
      return "(" + scalar_float(e.re, dtype, false, "") + scalar_float(e.im, dtype, true, "") +
             "j)";
    case Kind::float0: return "0";
    default: return integer_text(e);
  }
}

// ---- All elements, formatted alike -------------------------------------------------------------

std::vector<std::string> complex_words(const std::vector<Element>& elements, DType dtype) {
  std::vector<double> re, im;
  for (const Element& e : elements) {
    re.push_back(e.re);
    im.push_back(e.im);
  }
  const FloatFormat real_format(re, dtype, false), imag_format(im, dtype, true);
  std::vector<std::string> words;
  for (const Element& e : elements) {
    std::string imag = imag_format(e.im);
    imag.insert(imag.find_last_not_of(' ') + 1, "j");  // the padding stays behind
    words.push_back(real_format(e.re) + imag);
  }
  return words;
}

std::vector<std::string> float_words(const std::vector<Element>& elements, DType dtype) {
  std::vector<double> values;
  for (const Element& e : elements) values.push_back(e.re);
  const FloatFormat format(values, dtype, false);
  std::vector<std::string> words;
  for (const double v : values) words.push_back(format(v));
  return words;
}

std::vector<std::string> format_elements(const std::vector<Element>& elements, DType dtype) {
  if (is_float(dtype)) return float_words(elements, dtype);
  if (is_complex(dtype)) return complex_words(elements, dtype);
  std::vector<std::string> words;
  std::size_t width = dtype == DType::bool_ ? 5 : 0;
  for (const Element& e : elements) {
    words.push_back(scalar_text(e, dtype));
    width = std::max(width, words.back().size());
  }
  for (std::string& word : words) word.insert(0, width - word.size(), ' ');
  return words;
}

// ---- Lines and brackets --------------------------------------------------------------------------

/// The elements that are shown, and the brackets around them.
class Layout {
 public:
  explicit Layout(const Array& x)
      : shape_(x.shape()),
        strides_(byte_strides(x)),
        dtype_(x.dtype()),
        summarise_(x.size() > kThreshold) {
    std::vector<Element> elements;
    collect(concrete_node(x).data(), 0, elements);
    words_ = format_elements(elements, dtype_);
  }

  std::string text() {
    next_ = 0;
    return block(0, " ", kLineWidth);
  }

 private:
  bool summary(std::size_t axis) const { return summarise_ && shape_[axis] > 2 * kEdgeItems; }

  /// Calls `each` for the indices shown of an axis and `gap` where some are left out.
  template <class Each, class Gap>
  void visit(std::size_t axis, Each&& each, Gap&& gap) const {
    const std::int64_t n = shape_[axis];
    const bool cut = summary(axis);
    for (std::int64_t i = 0; i < n; ++i) {
      if (cut && i == kEdgeItems) {
        gap();
        i = n - kEdgeItems;
      }
      each(i);
    }
  }

  // Only what is shown is read: a view may stand for more elements than there is memory for.
  void collect(const std::byte* at, std::size_t axis, std::vector<Element>& out) const {
    if (axis == shape_.size()) {
      out.push_back(load_element(at, dtype_));
      return;
    }
    visit(axis, [&](std::int64_t i) { collect(at + i * strides_[axis], axis + 1, out); }, [] {});
  }

  std::string block(std::size_t axis, const std::string& indent, std::size_t width) {
    std::string text =
        axis + 1 == shape_.size() ? row(axis, indent, width) : rows(axis, indent, width);
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string row(std::size_t axis, const std::string& indent, std::size_t width) {
    std::string text, line = indent;
    bool first = true;
    const auto add = [&](const std::string& word) {
      if (!first) line += ' ';
      first = false;
      if (line.size() + word.size() > width - 1 &&
          line.size() > indent.size()) {  // 1 for the bracket
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word;
    };
    visit(axis, [&](std::int64_t) { add(words_[next_++]); }, [&] { add("..."); });
    return text + line;
  }

  std::string rows(std::size_t axis, const std::string& indent, std::size_t width) {
    const std::string separator(shape_.size() - axis - 1, '\n');
    std::string text;
    const auto add = [&](const std::string& part) {
      if (!text.empty()) text += separator;
      text += indent + part;
    };
    visit(
        axis, [&](std::int64_t) { add(block(axis + 1, indent + " ", width - 1)); },
        [&] { add("..."); });
    return text;
  }

  const Shape& shape_;
  Shape strides_;  // in bytes
  DType dtype_;
  bool summarise_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

}  // namespace
}  // namespace detail

std::string Array::to_string(SourceLocation where) const {
  const detail::CallSite site(where);
  return detail::naming_lack_of_memory("printing an array", [&]() -> std::string {
    if (!has_value()) return "Array()";
    if (is_tracer()) {
      // Under grad and jvp of concrete arrays there is a value to show, elsewhere only its type.
      const std::optional<Array> value = detail::known_value(*this);
      if (!value) return "Traced<" + aval().to_long_string() + ">";
      return "Traced<ConcreteArray(" + value->to_string() +
             ", dtype=" + std::string(long_name(dtype())) +
             (weak_type() ? ", weak_type=True" : "") + ")>";
    }
    if (ndim() == 0)
      return detail::scalar_text(detail::load_element(detail::concrete_node(*this).data(), dtype()),
                                 dtype());
    if (size() == 0) return "[]";
    return detail::Layout(*this).text();
  });
}

std::ostream& operator<<(std::ostream& os, const Array& x) { return os << x.to_string({}); }

template <class T>
static std::ostream& print_number(std::ostream& os, T x) {
  return os << detail::scalar_text(
             detail::load_element(reinterpret_cast<const std::byte*>(&x), dtype_of<T>),
             dtype_of<T>);
}
std::ostream& operator<<(std::ostream& os, Half x) { return print_number(os, x); }
std::ostream& operator<<(std::ostream& os, BFloat16 x) { return print_number(os, x); }
std::ostream& operator<<(std::ostream& os, Complex64 x) { return print_number(os, x); }
std::ostream& operator<<(std::ostream& os, Complex128 x) { return print_number(os, x); }

}  // namespace v1
}  // namespace telamon
