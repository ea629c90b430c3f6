// Arrays in the neutral JSON form.
#include <cmath>
#include <limits>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "interop/json_program.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

using detail::Element;

double float_from_json(const Json& j) {
  if (j.is_number()) return j.get<double>();
  const auto text = j.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw ParseError("'" + text + "' is no floating-point element");
}

Element element_from_json(const Json& j, DType dtype) {
  switch (kind_of(dtype)) {
    case Kind::boolean:
      return {.form = Element::Form::unsigned_int,
              .u = j.is_boolean() ? j.get<bool>() : j.get<double>() != 0};
    case Kind::signed_int:
      return {.form = Element::Form::signed_int,
              .i = j.is_string() ? std::stoll(j.get<std::string>()) : j.get<std::int64_t>()};
    case Kind::unsigned_int:
      return {.form = Element::Form::unsigned_int,
              .u = j.is_string() ? std::stoull(j.get<std::string>()) : j.get<std::uint64_t>()};
    case Kind::complex:
      if (j.is_array())
        return {.form = Element::Form::complex,
                .re = float_from_json(j.at(0)),
                .im = float_from_json(j.at(1))};
      return {.form = Element::Form::complex, .re = float_from_json(j)};
    default: return {.form = Element::Form::real, .re = float_from_json(j)};
  }
}

Json float_to_json(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

Json element_to_json(const Element& e, DType dtype) {
  constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
  switch (e.form) {
    case Element::Form::signed_int:
      if (e.i > static_cast<std::int64_t>(kExact) || e.i < -static_cast<std::int64_t>(kExact))
        return std::to_string(e.i);
      return e.i;
    case Element::Form::unsigned_int:
      if (dtype == DType::bool_) return e.u != 0;
      if (e.u > kExact) return std::to_string(e.u);
      return e.u;
    case Element::Form::complex: return Json::array({float_to_json(e.re), float_to_json(e.im)});
    default: return float_to_json(e.re);
  }
}

}  // namespace

Array array_from_json(const Json& json) {
  const auto name = json.at("dtype").get<std::string>();
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw ParseError("unknown dtype '" + name + "'");
  const Shape shape(json.at("shape").get<std::vector<std::int64_t>>());
  const Json& data = json.at("data");
  if (static_cast<std::int64_t>(data.size()) != shape.num_elements()) {
    throw ParseError("an array of shape " + shape.to_string() + " has " +
                     std::to_string(data.size()) + " elements");
  }
  Array out = detail::make_uninitialized({shape, *dtype, false});
  std::byte* p = detail::concrete_node(out).data();
  for (const Json& element : data) {
    detail::store_element(p, *dtype, element_from_json(element, *dtype));
    p += size_of(*dtype);
  }
  return out;
}

Json array_to_json(const Array& x) {
  const Array dense = detail::contiguous(x);
  const std::byte* p = detail::concrete_node(dense).data();
  Json data = Json::array();
  for (std::int64_t i = 0; i < dense.size(); ++i) {
    data.push_back(element_to_json(detail::load_element(p, dense.dtype()), dense.dtype()));
    p += size_of(dense.dtype());
  }
  return {{"dtype", short_name(dense.dtype())},
          {"shape", dense.shape().to_vector()},
          {"data", std::move(data)}};
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
