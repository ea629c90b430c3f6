// Gathers and scatters over memory: windows of an operand, at places that index vectors name.
//
// All that is known beforehand of one is a list of numbers, which programs keep as a constant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernels/elementwise.hpp"
#include "runtime/kernels/window_loops.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

struct WindowLoop {
  WindowOp op = WindowOp::gather;
  DType dtype = DType::f32;        ///< of operand and slices
  DType index_dtype = DType::i32;  ///< an integer
  bool clips = false;  ///< windows are moved inside; else those out of bounds are dropped
  /// No two windows overlap unless they are the same.
  bool disjoint = true;
  bool unique = false;  ///< no two windows are the same
  std::int64_t operand_bytes = 0;
  /// One of the dimensions that count index vectors, and what a step along it means, in bytes.
  struct Count {
    std::int64_t size, index_stride, slice_stride, operand_stride;
  };
  std::vector<Count> counts;
  /// A component of index vectors: where it lies, the bytes of one step, the highest start, and what
  /// is added to one below 0.
  struct Component {
    std::int64_t index_offset, operand_stride, last, wrap = 0;
  };
  std::vector<Component> components;
  /// A dimension of the window.
  struct Extent {
    std::int64_t size, operand_stride, slice_stride;
  };
  std::vector<Extent> window;

  /// Neighbouring dimensions merged where all strides allow it; as what run_windows reads.
  TELAMON_API std::vector<std::int64_t> numbers() const;
};

/// Index vectors are taken in row-major order, where windows may meet: the last of several updates of one place
/// wins, sums have this order. `fill`: the element that a gather gives out of bounds; unused by scatters.
TELAMON_API void run_windows(const std::int64_t* numbers, char* operand, const char* indices,
                             char* slices, const char* fill) noexcept;

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
