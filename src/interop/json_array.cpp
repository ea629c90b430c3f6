// Arrays in the neutral JSON form.
#include <charconv>
#include <limits>
#include <utility>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/element.hpp"
#include "interop/json_fields.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

using detail::Element;

[[noreturn]] void wrong_element(const Json& j, DType dtype) {
  throw ParseError(found_text(j) + " is no element of an array of " +
                   std::string(short_name(dtype)));
}

double float_from_json(const Json& j, DType dtype) {
  if (j.is_number()) return j.get<double>();
  if (j == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (j == "inf") return std::numeric_limits<double>::infinity();
  if (j == "-inf") return -std::numeric_limits<double>::infinity();
  wrong_element(j, dtype);
}

// An integer, or (beyond 2^53) its decimal text, that fits T.
template <class T>
T integer_from_json(const Json& j, DType dtype) {
  if (j.is_string()) {
    const auto text = j.get<std::string>();
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  } else if (j.is_number_unsigned()) {
    const auto value = j.get<std::uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (j.is_number_integer()) {
    const auto value = j.get<std::int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  wrong_element(j, dtype);
}

Element element_from_json(const Json& j, DType dtype) {
  const auto bits = 8 * size_of(dtype);
  switch (kind_of(dtype)) {
    case Kind::boolean:
      if (!j.is_boolean() && !j.is_number()) wrong_element(j, dtype);
      return {.form = Element::Form::unsigned_int,
              .u = j.is_boolean() ? j.get<bool>() : j.get<double>() != 0};
    case Kind::signed_int: {
      const auto i = integer_from_json<std::int64_t>(j, dtype);
      const std::int64_t limit = INT64_MAX >> (64 - bits);
      if (i > limit || i < -limit - 1) wrong_element(j, dtype);
      return {.form = Element::Form::signed_int, .i = i};
    }
    case Kind::unsigned_int: {
      const auto u = integer_from_json<std::uint64_t>(j, dtype);
      if (u > UINT64_MAX >> (64 - bits)) wrong_element(j, dtype);
      return {.form = Element::Form::unsigned_int, .u = u};
    }
    case Kind::complex:
      if (j.is_array() && j.size() == 2)
        return {.form = Element::Form::complex,
                .re = float_from_json(j[0], dtype),
                .im = float_from_json(j[1], dtype)};
      return {.form = Element::Form::complex, .re = float_from_json(j, dtype)};
    default: return {.form = Element::Form::real, .re = float_from_json(j, dtype)};
  }
}

}  // namespace

Array array_from_json(const Json& json) {
  const Aval aval = aval_from_json(json);
  const DType dtype = aval.dtype;
  const Json& data = list_member(json, "data");
  if (static_cast<std::int64_t>(data.size()) != aval.size()) {
    throw ParseError("an array of shape " + aval.shape.to_string() + " has " +
                     detail::counted(data.size(), "element"));
  }
  if (dtype == DType::float0) throw ParseError("an array of float0 has no elements to read");
  Array out = detail::make_uninitialized(aval);
  std::byte* p = detail::concrete_node(out).data();
  for (const Json& element : data) {
    detail::store_element(p, dtype, element_from_json(element, dtype));
    p += size_of(dtype);
  }
  return out;
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
