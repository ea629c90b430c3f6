// How the functions of numpy.hpp bring operands together: result dtypes, broadcasting, axes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "telamon/array.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

inline TypeInfo type_of(const Array& x) { return {x.dtype(), x.weak_type()}; }
/// Integers and bools become the default float; weakness stays.
TypeInfo to_inexact(TypeInfo type);
/// The common type of all operands.
TypeInfo result_type(std::span<const Array> xs);

/// Whether x can be a C++ scalar: weak or a bool, of no dimension, and not a tracer.
bool is_weak_constant(const Array& x);
/// x in the given type. A C++ scalar is converted at once, range-checked, and no primitive is
/// applied; an array of that dtype stays as it is unless it has to become weak.
Array to_type(const Array& x, TypeInfo type);
/// x as a strong array of its own dtype.
Array strong(const Array& x);
/// Floats as they are, everything else in the default float.
Array inexact(const Array& x);
/// Bools in the default int, everything else as it is.
Array numeric(const Array& x);
/// x != 0, or x itself when it is bool.
Array truth(const Array& x);

/// The shape that all operands broadcast to. ShapeError "add got incompatible shapes ...".
Shape broadcast_shapes(std::string_view name, std::span<const Array> xs);
/// x repeated to `shape` by NumPy's rule (aligned from the right).
Array broadcast_array(const Array& x, const Shape& shape);
/// Operands of one dtype and one shape.
std::pair<Array, Array> promote(std::string_view name, const Array& x, const Array& y);
/// The same; integers and bools become floats.
std::pair<Array, Array> promote_inexact(std::string_view name, const Array& x, const Array& y);
/// All of one dtype, shapes as they are.
Arrays promote_dtypes(std::span<const Array> xs);

/// The axis counted from 0. IndexError "sum: axis 2 is out of bounds for f32[3,4]".
/// The most arrays that split and unstack make.
inline constexpr std::int64_t kMaxResults = std::int64_t{1} << 20;
/// ValueError where a function of x would have more results than that.
void check_number_of_results(std::string_view name, const Array& x, std::int64_t count);
std::int64_t canonical_axis(std::string_view name, std::int64_t axis, const Array& x);
std::int64_t canonical_axis(std::string_view name, std::int64_t axis, int ndim);
/// AxisList counted from 0, sorted; all of them for `Axes()`. ValueError when one occurs twice.
Shape canonical_axes(std::string_view name, const AxisList& axes, const Array& x);
/// 0, 1, ..., n - 1.
Shape iota_axes(int n);

[[noreturn]] void type_error(std::string_view name, std::string_view requirement, const Array& x);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
