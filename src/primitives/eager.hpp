// What eager rules of shape, indexing and reduction primitives share: strided copies and walks over
// strided memory, and the choice of a C++ type for a dtype. Only memory and sizes here, no tracers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
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
void store_index(char* p, DType dtype, std::int64_t value);

/// Calls f(std::type_identity<T>{}) with the C++ type that arithmetic on `dtype` uses (bool: u8).
template <class F>
void with_type(DType dtype, const char* operation, const F& f) {
  switch (dtype) {
    case DType::bool_:
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::i16: return f(std::type_identity<std::int16_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::u16: return f(std::type_identity<std::uint16_t>{});
    case DType::u32: return f(std::type_identity<std::uint32_t>{});
    case DType::u64: return f(std::type_identity<std::uint64_t>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    default:
      throw NotImplementedError(std::string(operation) + " has no evaluation rule for dtype " +
                                std::string(short_name(dtype)));
  }
}

/// Integer arithmetic that wraps (and, on floats, the plain operation).
template <class T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <class T>
T wrapping_mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}
/// max and min that return NaN when either operand is NaN.
template <class T>
T nan_max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
T nan_min(T a, T b) {
  return a < b || a != a ? a : b;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
