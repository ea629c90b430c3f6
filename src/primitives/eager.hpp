// What eager rules of shape, indexing and reduction primitives share: parts of strided memory, copies of them, and indices.
// Only memory and sizes here, no tracers.
#pragma once

#include <cstdint>

#include "core/concrete.hpp"
#include "primitives/elementwise.hpp"
#include "runtime/kernels/copy.hpp"
#include "telamon/array.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

using families::view_of;
using kernels::View;

/// The part of a view that starts at `index` and has shape `shape`.
View part_of(View view, const Shape& index, const Shape& shape);
/// The view without the axis, at position 0 of it.
View without_axis(View view, std::size_t axis);
/// A new dense array with the elements of `from`, whose shape is that of the aval.
Array copy_to_dense(const Aval& aval, const View& from);

/// One element as a 64-bit integer; u64 beyond the range saturates.
std::int64_t read_index(const char* p, DType dtype);
std::int64_t read_index(const Array& scalar);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
