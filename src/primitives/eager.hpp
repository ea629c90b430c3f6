// What eager rules of shape, indexing and reduction primitives share: strided copies and walks over
// strided memory, and the choice of a C++ type for a dtype. Only memory and sizes here, no tracers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

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

/// Two walks over one shape, with neighbouring dimensions merged where both allow it and sizes of 1
/// left out. The last dimension is the inner run. Order of visits: row-major in `shape`.
struct Walk {
  Shape shape, a, b;
};
Walk merged_walk(const Shape& shape, const Shape& a, const Shape& b);

/// Copies elements of a walk from a to b.
void copy_along(const Walk& walk, std::size_t element_size, const char* a, char* b);

/// Calls run(pa, pb, n, stride_a, stride_b) for each inner run of the walk.
template <class Run>
void for_each_run(const Walk& walk, char* pa, char* pb, const Run& run) {
  const std::size_t rank = walk.shape.size();
  if (rank == 0) return run(pa, pb, std::int64_t{1}, std::int64_t{0}, std::int64_t{0});
  if (walk.shape.num_elements() == 0) return;
  const std::size_t inner = rank - 1;
  Shape index(rank, 0);
  while (true) {
    run(pa, pb, walk.shape[inner], walk.a[inner], walk.b[inner]);
    std::size_t d = inner;
    while (d > 0) {
      --d;
      pa += walk.a[d];
      pb += walk.b[d];
      if (++index[d] < walk.shape[d]) break;
      pa -= walk.shape[d] * walk.a[d];
      pb -= walk.shape[d] * walk.b[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (inner == 0) return;
  }
}

/// Visits all indices of `shape` in row-major order: f(index).
template <class F>
void for_each_index(const Shape& shape, const F& f) {
  if (shape.num_elements() == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    f(static_cast<const Shape&>(index));
    std::size_t d = shape.size();
    while (d > 0) {
      --d;
      if (++index[d] < shape[d]) break;
      index[d] = 0;
      if (d == 0) return;
    }
    if (shape.empty()) return;
  }
}

/// One element as a 64-bit integer; u64 beyond the range saturates.
std::int64_t read_index(const char* p, DType dtype);
std::int64_t read_index(const Array& scalar);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
