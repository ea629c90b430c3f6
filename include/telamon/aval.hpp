// Abstract values: what a trace knows of an array. Rules, parameters, cache keys and jaxprs see
// nothing else.
#pragma once

#include <iosfwd>
#include <string>

#include "telamon/dtype.hpp"
#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {

/// The set of all arrays of one shape and dtype. `weak_type` marks values that came from C++
/// scalars: in promotion they give way to the dtype of the other operand.
struct TELAMON_API ShapedArray {
  Shape shape;
  DType dtype = DType::f32;
  bool weak_type = false;

  bool operator==(const ShapedArray&) const = default;
  /// Equality of shape and dtype, weakness aside: what type checking compares.
  bool same_type(const ShapedArray& o) const { return dtype == o.dtype && shape == o.shape; }
  int ndim() const { return shape.ndim(); }
  std::int64_t size() const { return shape.num_elements(); }
  /// The aval of tangents and cotangents: the same for floats and complex numbers, float0 otherwise.
  ShapedArray tangent() const {
    const DType d = tangent_dtype(dtype);
    return {shape, d, weak_type && d == dtype};
  }
  ShapedArray strong() const { return {shape, dtype, false}; }
  ShapedArray with_shape(Shape s) const { return {std::move(s), dtype, weak_type}; }
  ShapedArray with_dtype(DType d) const { return {shape, d, false}; }

  std::string to_string() const;       ///< "f32[2,3]"; "~f32[]" when weak
  std::string to_long_string() const;  ///< "ShapedArray(float32[2,3])", "... , weak_type=True)"
  std::size_t hash() const;
};
using Aval = ShapedArray;
TELAMON_API std::ostream& operator<<(std::ostream& os, const ShapedArray& aval);
/// The types of the results of an equation: most have one.
using Avals = detail::InlineVector<Aval, 1>;

namespace detail {
/// The bytes that an array of this type fills. ShapeError when a size is negative, when there are
/// more than 2^63 - 1 bytes, or more than kMaxDimensions dimensions: every array and every tracer is
/// checked when it is made.
TELAMON_API std::int64_t checked_bytes(const ShapedArray& aval);
}  // namespace detail

}  // namespace v1
}  // namespace telamon
