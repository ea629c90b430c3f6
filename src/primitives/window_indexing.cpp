// Windows of gather and scatter: checks, types, derivatives and batches that both share.
#include "primitives/window_indexing.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/element.hpp"
#include "core/indices.hpp"

namespace telamon {
inline namespace v1 {

namespace {
constexpr std::string_view kModeNames[] = {"clip", "fill_or_drop", "promise_in_bounds"};
}
std::string_view to_string(GatherScatterMode mode) {
  return kModeNames[static_cast<std::size_t>(mode)];
}
bool enum_from_string(std::string_view text, GatherScatterMode& mode) {
  const auto* found = std::find(std::begin(kModeNames), std::end(kModeNames), text);
  if (found == std::end(kModeNames)) return false;
  mode = static_cast<GatherScatterMode>(found - std::begin(kModeNames));
  return true;
}

namespace detail {

WindowIndexing window_indexing(const GatherParams& p) {
  const bool fill = p.mode == GatherScatterMode::fill_or_drop;
  return {p.dimension_numbers, p.slice_sizes, fill ? p.mode : GatherScatterMode::clip};
}

WindowIndexing window_indexing(const ScatterParams& p, const Shape& operand, const Shape& updates) {
  WindowIndexing w{as_gather(p.dimension_numbers), Shape(operand.size(), 1), p.mode, p.wraps};
  // Vectors that differ may name one window if that is moved.
  w.unique = p.unique_indices && !p.wraps && p.mode != GatherScatterMode::clip;
  const Shape axes = window_axes(w.numbers, operand.ndim());
  for (std::size_t i = 0; i < std::min(axes.size(), w.numbers.offset_dims.size()); ++i) {
    const std::int64_t from = w.numbers.offset_dims[i];
    if (from >= 0 && from < updates.ndim()) {
      w.window[static_cast<std::size_t>(axes[i])] = updates[static_cast<std::size_t>(from)];
    }
  }
  return w;
}

GatherDimensionNumbers as_gather(const ScatterDimensionNumbers& d) {
  return {d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims,
          d.operand_batching_dims, d.scatter_indices_batching_dims};
}
ScatterDimensionNumbers as_scatter(const GatherDimensionNumbers& d) {
  return {d.offset_dims, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims,
          d.start_indices_batching_dims};
}

Shape window_axes(const GatherDimensionNumbers& d, int operand_ndim) {
  return other_axes(concatenated(d.collapsed_slice_dims, d.operand_batching_dims), operand_ndim);
}
Shape batch_axes(const GatherDimensionNumbers& d, int slices_ndim) {
  return other_axes(d.offset_dims, slices_ndim);
}

Array wrapped(const Array& indices, const ScatterParams& p, const Shape& operand) {
  const Shape& axes = p.dimension_numbers.scatter_dims_to_operand_dims;
  if (!p.wraps || axes.empty() || !is_signed_integer(indices.dtype())) return indices;
  const Array i = lax::convert_element_type(indices, DType::i64);  // which holds every sum
  Arrays sizes;
  for (const std::int64_t axis : axes) {
    const std::int64_t size = operand[static_cast<std::size_t>(axis)];
    sizes.push_back(lax::full({1}, DType::i64, static_cast<double>(size)));
  }
  const Array added = lax::broadcast_in_dim(lax::concatenate(sizes, 0), i.shape(), {i.ndim() - 1});
  return lax::select(lax::lt(i, lax::full_like(i, 0)), lax::add(i, added), i);
}

// ---- checks ------------------------------------------------------------------------------------
namespace {

void check_sorted(const char* name, std::span<const Aval> avals, const char* what,
                  const Shape& axes) {
  if (!std::is_sorted(axes.begin(), axes.end())) {
    value_error(name, avals, std::string(what) + " " + axes.to_string() + " must be ascending");
  }
}

/// The indices are integer vectors along the last dimension, one component per mapped dimension.
void check_index_vectors(const char* name, std::span<const Aval> avals,
                         const GatherDimensionNumbers& d) {
  const Aval& indices = avals[1];
  if (!is_integer(indices.dtype)) dtype_error(name, avals, "indices must be integers");
  if (indices.ndim() == 0 || indices.shape.back() != d.start_index_map.ndim()) {
    shape_error(
        name, avals,
        "the last dimension of the indices must have the size of the map to operand dimensions, " +
            std::to_string(d.start_index_map.size()));
  }
}

void check_batching(const char* name, std::span<const Aval> avals,
                    const GatherDimensionNumbers& d) {
  check_axes(name, avals, "indices batching dimension", d.start_indices_batching_dims,
             avals[1].ndim() - 1);
  if (d.operand_batching_dims.size() != d.start_indices_batching_dims.size() ||
      taken(avals[0].shape, d.operand_batching_dims) !=
          taken(avals[1].shape, d.start_indices_batching_dims)) {
    shape_error(name, avals,
                "batching dimensions " + d.operand_batching_dims.to_string() +
                    " of the operand and " + d.start_indices_batching_dims.to_string() +
                    " of the indices must have equal sizes");
  }
}

void check_window(const char* name, std::span<const Aval> avals, const WindowIndexing& w) {
  const Shape& operand = avals[0].shape;
  if (w.window.size() != operand.size()) {
    shape_error(
        name, avals,
        "slice sizes " + w.window.to_string() + " must have one entry per operand dimension");
  }
  const Shape dropped =
      concatenated(w.numbers.collapsed_slice_dims, w.numbers.operand_batching_dims);
  for (std::size_t i = 0; i < operand.size(); ++i) {
    // Of an empty batch there are no windows, though one of each element is of size 1.
    const bool empty_batch =
        operand[i] == 0 && w.numbers.operand_batching_dims.contains(static_cast<std::int64_t>(i));
    if (w.window[i] < 0 || (w.window[i] > operand[i] && !empty_batch)) {
      shape_error(name, avals,
                  "a window of shape " + w.window.to_string() + " does not fit into the operand");
    }
    if (w.window[i] > 1 && dropped.contains(static_cast<std::int64_t>(i))) {
      shape_error(name, avals,
                  "the window's size in dimension " + std::to_string(i) +
                      ", which is left out of it, must be 1");
    }
  }
}

}  // namespace

Shape check_indexing(const char* name, std::span<const Aval> avals, const WindowIndexing& w) {
  const GatherDimensionNumbers& d = w.numbers;
  const int operand_ndim = avals[0].ndim(),
            slices_ndim = avals[1].ndim() - 1 + d.offset_dims.ndim();
  check_index_vectors(name, avals, d);
  check_axes(name, avals, "window dimension", d.offset_dims, slices_ndim);
  check_sorted(name, avals, "window dimensions", d.offset_dims);
  check_axes(name, avals, "operand dimension left out of the window",
             concatenated(d.collapsed_slice_dims, d.operand_batching_dims), operand_ndim);
  check_sorted(name, avals, "dimensions left out of the window", d.collapsed_slice_dims);
  check_sorted(name, avals, "operand batching dimensions", d.operand_batching_dims);
  check_axes(name, avals, "indexed operand dimension",
             concatenated(d.start_index_map, d.operand_batching_dims), operand_ndim);
  check_batching(name, avals, d);
  check_window(name, avals, w);
  const Shape windows = taken(w.window, window_axes(d, operand_ndim));
  if (windows.size() != d.offset_dims.size()) {
    shape_error(name, avals,
                "the window dimensions " + d.offset_dims.to_string() +
                    " must be as many as the operand dimensions that stay, " +
                    std::to_string(windows.size()));
  }
  Shape slices(static_cast<std::size_t>(slices_ndim), 0);
  std::size_t i = 0, j = 0;
  for (int k = 0; k < slices_ndim; ++k) {
    slices[static_cast<std::size_t>(k)] =
        d.offset_dims.contains(k) ? windows[i++] : avals[1].shape[j++];
  }
  return slices;
}

// ---- evaluation --------------------------------------------------------------------------------
kernels::WindowLoop window_loop(kernels::WindowOp op, const WindowIndexing& w,
                                const kernels::View& operand, const kernels::View& indices,
                                const kernels::View& slices) {
  const GatherDimensionNumbers& d = w.numbers;
  const auto size = static_cast<std::int64_t>(size_of(operand.dtype));
  kernels::WindowLoop loop;
  loop.op = op;
  loop.dtype = operand.dtype;
  loop.index_dtype = indices.dtype;
  loop.clips = w.mode == GatherScatterMode::clip;
  loop.unique = w.unique;
  loop.operand_bytes = operand.shape.num_elements() * size;
  const Shape slice_strides = taken(slices.strides, batch_axes(d, slices.strides.ndim()));
  for (std::size_t i = 0; i + 1 < indices.shape.size(); ++i)
    loop.counts.push_back({indices.shape[i], indices.strides[i], slice_strides[i], 0});
  for (std::size_t j = 0; j < d.operand_batching_dims.size(); ++j) {
    loop.counts[static_cast<std::size_t>(d.start_indices_batching_dims[j])].operand_stride +=
        operand.strides[static_cast<std::size_t>(d.operand_batching_dims[j])];
  }
  for (std::size_t k = 0; k < d.start_index_map.size(); ++k) {
    const auto axis = static_cast<std::size_t>(d.start_index_map[k]);
    loop.components.push_back({static_cast<std::int64_t>(k) * indices.strides.back(),
                               operand.strides[axis], operand.shape[axis] - w.window[axis],
                               w.wraps ? operand.shape[axis] : 0});
    loop.disjoint = loop.disjoint && w.window[axis] == 1;
  }
  const Shape axes = window_axes(d, w.window.ndim());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    loop.window.push_back({w.window[axis], operand.strides[axis],
                           slices.strides[static_cast<std::size_t>(d.offset_dims[i])]});
  }
  return loop;
}

namespace {

void run_native(void* const* buffers, const std::int64_t* numbers) noexcept {
  kernels::run_windows(numbers, static_cast<char*>(buffers[0]),
                       static_cast<const char*>(buffers[1]), static_cast<char*>(buffers[2]),
                       nullptr);
}

}  // namespace

constinit const runtime::NamedFunction kNativeWindows{"telamon_native_windows", run_native};
std::optional<runtime::NativeCall> native_windows(kernels::WindowOp op, const WindowIndexing& w,
                                                  const Aval& operand, const Aval& indices,
                                                  const runtime::NativeOperand& slices) {
  constexpr std::int64_t kWorthwhile = 64;  // elements, where there are loops
  const bool loops = !is_complex(operand.dtype) && !is_small_float(operand.dtype);
  if (loops && slices.aval.size() < kWorthwhile) return std::nullopt;
  const auto dense = [](const Aval& a) {
    return kernels::contiguous_view(nullptr, a.dtype, a.shape);
  };
  kernels::View from = dense(slices.aval);
  if (slices.uniform) std::fill(from.strides.begin(), from.strides.end(), 0);
  return runtime::NativeCall{window_loop(op, w, dense(operand), dense(indices), from).numbers()};
}

// ---- batching ----------------------------------------------------------------------------------
namespace {

Shape all_shifted(const Shape& axes) { return shifted(axes, 0); }

/// Only the operand is mapped: its batch axis joins the window whole.
BatchedIndexing widen_window(WindowIndexing w, std::int64_t axis, std::int64_t size) {
  GatherDimensionNumbers& d = w.numbers;
  d.collapsed_slice_dims = shifted(d.collapsed_slice_dims, axis);
  d.operand_batching_dims = shifted(d.operand_batching_dims, axis);
  d.start_index_map = shifted(d.start_index_map, axis);
  const Shape dropped = concatenated(d.collapsed_slice_dims, d.operand_batching_dims);
  const auto before = static_cast<std::size_t>(axis - count_below(dropped, axis));
  const std::int64_t to = before == 0 ? 0 : d.offset_dims[before - 1] + 1;
  d.offset_dims = inserted(shifted(d.offset_dims, to), static_cast<std::int64_t>(before), to);
  w.window = inserted(w.window, axis, size);
  return {std::move(w), static_cast<int>(to)};
}

}  // namespace

BatchedIndexing batch_indexing(const WindowIndexing& w, BatchAxis operand, bool indices_mapped,
                               std::int64_t size) {
  if (!indices_mapped) return widen_window(w, *operand, size);
  BatchedIndexing out{w, 0};
  GatherDimensionNumbers& d = out.indexing.numbers;
  d.offset_dims = all_shifted(d.offset_dims);
  d.start_indices_batching_dims = all_shifted(d.start_indices_batching_dims);
  if (!operand) return out;
  // Both: a batching dimension, kept in ascending order of the operand's dimensions.
  const std::int64_t axis = *operand;
  d.collapsed_slice_dims = shifted(d.collapsed_slice_dims, axis);
  d.start_index_map = shifted(d.start_index_map, axis);
  d.operand_batching_dims = shifted(d.operand_batching_dims, axis);
  const std::int64_t position = count_below(d.operand_batching_dims, axis);
  d.operand_batching_dims = inserted(d.operand_batching_dims, position, axis);
  d.start_indices_batching_dims = inserted(d.start_indices_batching_dims, position, 0);
  out.indexing.window = inserted(w.window, axis, 1);
  return out;
}

// ---- generated code ----------------------------------------------------------------------------
WindowStart emit_start(Emitter& e, const WindowIndexing& w, const Shape& operand,
                       const Index& batch, const std::function<Scalar(std::int64_t)>& read) {
  const GatherDimensionNumbers& d = w.numbers;
  WindowStart out{Index(operand.size(), e.index(0)), std::nullopt};
  for (std::size_t k = 0; k < d.start_index_map.size(); ++k) {
    const auto axis = static_cast<std::size_t>(d.start_index_map[k]);
    Scalar wanted = read(static_cast<std::int64_t>(k));
    // Indices of 32 bits stay so until they are inside: vectors hold twice as many.
    if (wanted.dtype() != DType::i32 || operand[axis] > INT32_MAX) wanted = signed_index(e, wanted);
    const auto number = [&](std::int64_t n) { return e.constant_int(wanted.dtype(), n); };
    if (w.wraps) {
      wanted = e.select(e.compare(Compare::lt, wanted, number(0)),
                        e.add(wanted, number(operand[axis])), wanted);
    }
    const Scalar start =
        clamp(e, wanted, 0, std::max<std::int64_t>(operand[axis] - w.window[axis], 0));
    out.start[axis] = signed_index(e, start);
    if (w.mode == GatherScatterMode::clip) continue;
    const Scalar inside = e.compare(Compare::eq, wanted, start);
    out.in_bounds = out.in_bounds ? e.and_(*out.in_bounds, inside) : inside;
  }
  for (std::size_t j = 0; j < d.operand_batching_dims.size(); ++j) {
    out.start[static_cast<std::size_t>(d.operand_batching_dims[j])] =
        batch[static_cast<std::size_t>(d.start_indices_batching_dims[j])];
  }
  return out;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
