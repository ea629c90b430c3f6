// Promotion, broadcasting, axes: what comes before a primitive is applied.
#include "numpy/promote.hpp"

#include <algorithm>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

TypeInfo to_inexact(TypeInfo type) {
  return is_inexact(type.dtype) ? type : TypeInfo{default_float(), type.weak};
}

TypeInfo result_type(std::span<const Array> xs) {
  TypeInfo type = type_of(xs[0]);
  for (const Array& x : xs.subspan(1)) type = promote_types(type, type_of(x));
  return type;
}

bool is_weak_constant(const Array& x) {
  return (x.weak_type() || x.dtype() == DType::bool_) && x.ndim() == 0 && !x.is_tracer();
}

Array to_type(const Array& x, TypeInfo type) {
  if (is_weak_constant(x)) return convert_scalar(x, type.dtype, type.weak);
  // A weak array among strong ones of its dtype may stay weak: the results are strong anyway.
  if (x.dtype() == type.dtype && (x.weak_type() || !type.weak)) return x;
  return lax::convert_element_type(x, type.dtype, type.weak);
}

Array strong(const Array& x) {
  if (is_weak_constant(x)) return convert_scalar(x, x.dtype());
  return lax::convert_element_type(x, x.dtype());
}

Array inexact(const Array& x) { return to_type(x, to_inexact(type_of(x))); }

Array numeric(const Array& x) {
  return x.dtype() == DType::bool_ ? to_type(x, {default_int(), false}) : x;
}

Array truth(const Array& x) {
  if (x.dtype() == DType::bool_) return x;
  return lax::ne(x, lax::zeros_like(x));
}

Shape broadcast_shapes(std::string_view name, std::span<const Array> xs) {
  Shape out = xs[0].shape();
  for (const Array& x : xs.subspan(1)) {
    const Shape& s = x.shape();
    if (s == out) continue;
    while (out.size() < s.size()) out.insert(0, 1);
    const std::size_t offset = out.size() - s.size();
    for (std::size_t i = 0; i < s.size(); ++i) {
      std::int64_t& d = out[offset + i];
      if (d == 1) {
        d = s[i];
      } else if (s[i] != 1 && s[i] != d) {
        std::string text = std::string(name) + " got incompatible shapes for broadcasting: ";
        for (const Array& a : xs) text += (&a == xs.data() ? "" : ", ") + a.aval().to_string();
        throw ShapeError(text +
                         "\n  Shapes are aligned from the right; sizes must be equal or 1. "
                         "Insert an axis with expand_dims or reshape.");
      }
    }
  }
  return out;
}

Array broadcast_array(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.ndim() == 0) return lax::broadcast(x, shape);
  Shape dims;
  for (int i = 0; i < x.ndim(); ++i) dims.push_back(shape.ndim() - x.ndim() + i);
  return lax::broadcast_in_dim(x, shape, dims);
}

namespace {
std::pair<Array, Array> promote_to(TypeInfo type, std::string_view name, const Array& x,
                                   const Array& y) {
  if (x.shape() == y.shape()) return {to_type(x, type), to_type(y, type)};
  const Array both[] = {x, y};
  const Shape shape = broadcast_shapes(name, both);
  return {broadcast_array(to_type(x, type), shape), broadcast_array(to_type(y, type), shape)};
}
}  // namespace

std::pair<Array, Array> promote(std::string_view name, const Array& x, const Array& y) {
  return promote_to(promote_types(type_of(x), type_of(y)), name, x, y);
}

std::pair<Array, Array> promote_inexact(std::string_view name, const Array& x, const Array& y) {
  return promote_to(to_inexact(promote_types(type_of(x), type_of(y))), name, x, y);
}

Arrays promote_dtypes(std::span<const Array> xs) {
  const TypeInfo type = result_type(xs);
  Arrays out;
  for (const Array& x : xs) out.push_back(to_type(x, type));
  return out;
}

void check_number_of_results(std::string_view name, const Array& x, std::int64_t count) {
  if (count <= kMaxResults) return;
  throw ValueError(std::string(name) + " of " + x.aval().to_string() + " into " +
                   counted(count, "array") + ": the most is " + std::to_string(kMaxResults) +
                   "; reshape keeps the parts in one array");
}

std::int64_t canonical_axis(std::string_view name, std::int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    throw IndexError(std::string(name) + ": axis " + std::to_string(axis) +
                     " is out of bounds for " + counted(ndim, "dimension"));
  }
  return axis < 0 ? axis + ndim : axis;
}

std::int64_t canonical_axis(std::string_view name, std::int64_t axis, const Array& x) {
  if (axis < -x.ndim() || axis >= x.ndim()) {
    throw IndexError(std::string(name) + ": axis " + std::to_string(axis) +
                     " is out of bounds for " + x.aval().to_string());
  }
  return axis < 0 ? axis + x.ndim() : axis;
}

Shape canonical_axes(std::string_view name, const AxisList& axes, const Array& x) {
  if (axes.all()) return iota_axes(x.ndim());
  Shape out;
  for (std::int64_t axis : axes.list()) {
    const std::int64_t a = canonical_axis(name, axis, x);
    if (out.contains(a)) {
      throw ValueError(std::string(name) + ": axis " + std::to_string(axis) + " occurs twice in " +
                       axes.list().to_string());
    }
    out.push_back(a);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Shape iota_axes(int n) {
  Shape out(static_cast<std::size_t>(n), 0);
  for (int i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = i;
  return out;
}

void type_error(std::string_view name, std::string_view requirement, const Array& x) {
  throw TypeError(std::string(name) + " requires " + std::string(requirement) + ", got " +
                  x.aval().to_string());
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
