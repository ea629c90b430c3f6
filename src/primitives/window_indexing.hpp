// What gather and scatter share: an index vector picks a window of the operand, and the windows lie
// side by side in the `slices` (gather's result, scatter's updates).
//
// With d the dimension numbers, written as gather's: the dimensions of slices that are not in
// `offset_dims` count the index vectors, in the order of the dimensions of `indices` but the last; those
// in `offset_dims` run through the window, in the order of the operand dimensions that are neither
// collapsed nor batching. Component k of an index vector is the window's start in operand dimension
// start_index_map[k]; in operand_batching_dims[j] the start is the position in dimension
// start_indices_batching_dims[j] of the indices.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "primitives/eager.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/windows.hpp"
#include "runtime/native_forms.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct WindowIndexing {
  GatherDimensionNumbers numbers;
  Shape window;  ///< the window's size in each operand dimension
  GatherScatterMode mode;
  bool wraps = false;   ///< the operand's size is added to starts below 0
  bool unique = false;  ///< no two windows that are not dropped are the same
};

/// With mode promise_in_bounds a gather clips, since that is cheap, and a scatter drops: as JAX's do.
WindowIndexing window_indexing(const GatherParams& p);
/// The window's sizes are read off the updates.
WindowIndexing window_indexing(const ScatterParams& p, const Shape& operand, const Shape& updates);
GatherDimensionNumbers as_gather(const ScatterDimensionNumbers& d);
ScatterDimensionNumbers as_scatter(const GatherDimensionNumbers& d);

/// The operand dimensions that windows run through.
Shape window_axes(const GatherDimensionNumbers& d, int operand_ndim);
/// The dimensions of slices that count index vectors.
Shape batch_axes(const GatherDimensionNumbers& d, int slices_ndim);
/// The indices of a scatter that wraps as those of one that does not.
Array wrapped(const Array& indices, const ScatterParams& p, const Shape& operand);

/// Checks everything but the shape of slices, which is returned.
Shape check_indexing(const char* name, std::span<const Aval> avals, const WindowIndexing& w);

// ---- evaluation --------------------------------------------------------------------------------
/// What there is to do for arrays that lie in memory like this.
kernels::WindowLoop window_loop(kernels::WindowOp op, const WindowIndexing& w,
                                const kernels::View& operand, const kernels::View& indices,
                                const kernels::View& slices);
/// The same for the dense arrays of a compiled program; nothing where there is too little to do for a
/// function of its own.
extern const runtime::NamedFunction kNativeWindows;
std::optional<runtime::NativeCall> native_windows(kernels::WindowOp op, const WindowIndexing& w,
                                                  const Aval& operand, const Aval& indices,
                                                  const runtime::NativeOperand& slices);

// ---- batching ----------------------------------------------------------------------------------
/// The same indexing with a batch axis in the operand, in the indices (at 0), or in both, and where
/// the batch axis of slices is then.
struct BatchedIndexing {
  WindowIndexing indexing;
  int slices_axis;
};
BatchedIndexing batch_indexing(const WindowIndexing& w, BatchAxis operand, bool indices_mapped,
                               std::int64_t size);

// ---- generated code ----------------------------------------------------------------------------
/// The start of the window in each operand dimension, clamped to the operand, and whether it was in
/// bounds (nullopt: always). `read(k)` gives component k of the index vector, `batch` its place.
struct WindowStart {
  Index start;
  std::optional<Scalar> in_bounds;
};
WindowStart emit_start(Emitter& e, const WindowIndexing& w, const Shape& operand,
                       const Index& batch, const std::function<Scalar(std::int64_t)>& read);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
