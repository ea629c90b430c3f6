// Sorting, and gathering along an axis.
#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {

using detail::canonical_axis;

Array sort(const Operand& x, OptionalAxis axis) {
  return detail::in_call("sort", {&x}, [&] {
    const Array a = axis ? x.array : ravel(x.array);
    return lax::sort(a, canonical_axis("sort", axis.value_or(0), a));
  });
}

Array argsort(const Operand& x, OptionalAxis axis) {
  return detail::in_call("argsort", {&x}, [&] {
    const Array a = axis ? x.array : ravel(x.array);
    const std::int64_t dimension = canonical_axis("argsort", axis.value_or(0), a);
    const Array pair[] = {a, lax::iota(default_int(), a.shape(), dimension)};
    return lax::sort(pair, dimension, 1)[1];
  });
}

namespace {

/// Negative indices count from the end of an axis of this size.
Array from_the_front(const Array& indices, std::int64_t size) {
  if (is_unsigned_integer(indices.dtype())) return indices;
  const Array shifted = lax::add(indices, lax::full_like(indices, static_cast<double>(size)));
  return lax::select(lax::lt(indices, lax::zeros_like(indices)), shifted, indices);
}

Array index_operand(const char* name, const Array& indices) {
  const Array i = detail::strong(detail::numeric(indices));
  if (!is_integer(i.dtype())) detail::type_error(name, "integer indices", indices);
  // Narrow indices could not hold the size of the axis that is added to negative ones.
  return size_of(i.dtype()) < 4 ? lax::convert_element_type(i, DType::i32) : i;
}

/// Both, with equal sizes in all dimensions but that one.
std::pair<Array, Array> broadcast_but_one(const Array& x, const Array& indices,
                                          std::int64_t dimension) {
  Shape a = x.shape(), i = indices.shape();
  bool fits = a.size() == i.size();
  for (std::size_t d = 0; fits && d < a.size(); ++d) {
    if (static_cast<std::int64_t>(d) == dimension || a[d] == i[d]) continue;
    fits = a[d] == 1 || i[d] == 1;
    (a[d] == 1 ? a : i)[d] = a[d] == 1 ? i[d] : a[d];
  }
  if (!fits) {
    throw ShapeError("take_along_axis: indices " + indices.aval().to_string() + " do not fit " +
                     x.aval().to_string() +
                     ": all axes but the indexed one must agree, or have one element");
  }
  return {broadcast_to(x, a), broadcast_to(indices, i)};
}

}  // namespace

Array take(const Operand& x, const Operand& indices, OptionalAxis axis) {
  return detail::in_call("take", {&x, &indices}, [&] {
    const Array a = axis ? x.array : ravel(x.array);
    const std::int64_t dimension = canonical_axis("take", axis.value_or(0), a);
    const std::int64_t size = a.shape(static_cast<int>(dimension));
    const Array i = from_the_front(index_operand("take", indices.array), size);
    GatherParams params;
    params.slice_sizes = a.shape();
    params.slice_sizes[static_cast<std::size_t>(dimension)] = 1;
    params.dimension_numbers.collapsed_slice_dims = {dimension};
    params.dimension_numbers.start_index_map = {dimension};
    // The axes of the indices take the place of the axis that they index.
    for (std::int64_t d = 0; d + 1 < a.ndim(); ++d) {
      params.dimension_numbers.offset_dims.push_back(d < dimension ? d : d + i.ndim());
    }
    if (size == 0) {  // no window fits into an axis without elements
      if (i.size() > 0)
        throw IndexError("take: every index is out of bounds for axis " +
                         std::to_string(dimension) + " of " + a.aval().to_string() +
                         ", which has no elements");
      Shape shape = a.shape();
      shape.erase(static_cast<std::size_t>(dimension));
      for (std::int64_t d = i.ndim(); d-- > 0;)
        shape.insert(static_cast<std::size_t>(dimension), i.shape(d));
      return lax::full(shape, a.dtype(), 0);
    }
    return lax::gather(a, lax::expand_dims(i, {i.ndim()}), params);
  });
}

// All axes but the indexed one are batching axes of the gather.
Array take_along_axis(const Operand& x, const Operand& indices, Axis axis) {
  return detail::in_call("take_along_axis", {&x, &indices}, [&] {
    const std::int64_t dimension = canonical_axis("take_along_axis", axis, x.array);
    if (indices.array.dtype() == DType::bool_)
      detail::type_error("take_along_axis", "integer indices", indices.array);
    const auto [a, given] =
        broadcast_but_one(x.array, index_operand("take_along_axis", indices.array), dimension);
    const Array i = from_the_front(given, a.shape(static_cast<int>(dimension)));
    GatherParams params;
    GatherDimensionNumbers& dims = params.dimension_numbers;
    for (std::int64_t d = 0; d < a.ndim(); ++d) {
      params.slice_sizes.push_back(1);
      if (d == dimension) continue;
      dims.operand_batching_dims.push_back(d);
      dims.start_indices_batching_dims.push_back(d);
    }
    if (a.size() == 0 && i.size() == 0) return lax::full(i.shape(), a.dtype(), 0);
    if (a.shape(static_cast<int>(dimension)) == 0) {  // all are out of bounds of one element, too
      Shape one = a.shape();
      one[static_cast<std::size_t>(dimension)] = 1;
      return take_along_axis(lax::full(one, a.dtype(), 0), lax::full_like(i, 1), axis);
    }
    dims.collapsed_slice_dims = {dimension};
    dims.start_index_map = {dimension};
    return lax::gather(a, lax::expand_dims(i, {i.ndim()}), params);
  });
}

Array segment_sum(const Operand& data, const Operand& segment_ids, std::int64_t num_segments) {
  return detail::in_call("segment_sum", {&data, &segment_ids}, [&] {
    const Array& x = data.array;
    const Array ids = index_operand("segment_sum", segment_ids.array);
    if (ids.ndim() != 1 || x.ndim() == 0 || ids.shape(0) != x.shape(0)) {
      throw ShapeError("segment_sum needs one id for each row of the data, got " +
                       x.aval().to_string() + ", " + ids.aval().to_string());
    }
    if (num_segments < 0) {
      throw ValueError("segment_sum: num_segments must not be negative, got " +
                       std::to_string(num_segments));
    }
    Shape shape = x.shape();
    shape[0] = num_segments;
    detail::check_dense("segment_sum", {shape, x.dtype()});
    if (num_segments == 0) return lax::full(shape, x.dtype(), 0);  // every id is out of range
    ScatterParams params;
    for (std::int64_t d = 1; d < x.ndim(); ++d)
      params.dimension_numbers.update_window_dims.push_back(d);
    params.dimension_numbers.inserted_window_dims = {0};
    params.dimension_numbers.scatter_dims_to_operand_dims = {0};
    const Array zeros = lax::full(shape, x.dtype(), 0);
    return lax::scatter_add(zeros, lax::expand_dims(ids, {1}), detail::strong(x), params);
  });
}

}  // namespace v1
}  // namespace telamon
