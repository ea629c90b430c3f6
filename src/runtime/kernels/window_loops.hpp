// The loops over windows that the instruction sets define.
#pragma once

#include <cstdint>

#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

enum class WindowOp : std::uint8_t { gather, replace, add };

/// The offset of a window that is out of bounds and to be dropped.
inline constexpr std::int64_t kOutside = INT64_MIN;

inline constexpr std::int64_t kWindows = 512;  ///< of a block: their places are found first
inline constexpr std::int64_t kAhead = 8;      ///< windows that are fetched beforehand
inline constexpr std::int64_t kLine = 64, kFetched = 256;  ///< bytes of each of them

/// What starts along one dimension may be: from 0 to `last`, after `wrap` is added to those below 0.
/// Others are moved inside if `clips`, else their windows are dropped.
struct Starts {
  bool clips;
  std::int64_t last, wrap;
};

/// For one component of n index vectors: offsets[i] += its start times step; kOutside where the window
/// is dropped, and negative for good.
using WindowOffsets = void (*)(std::int64_t n, const char* indices, std::int64_t stride,
                               const Starts& starts, std::int64_t step, std::int64_t* offsets);
/// Places of an operand, in its rows or in bytes: those from the first on; all of them by default.
struct PlaceRange {
  std::int64_t first = 0, size = INT64_MAX;
};
/// Rows of adjacent elements, and where they go in the operand, whose rows are `step` bytes apart.
struct IndexedArrays {
  const char* indices;
  std::int64_t index_stride;
  Starts starts;
  std::int64_t step;
  char* operand;
  const char* slices;
  std::int64_t slice_stride;
  std::int64_t row_bytes;
  // Of index vectors of two numbers, the same for the second one, which lies beside the first.
  Starts second_starts = {};
  std::int64_t second_step = 0;
  // Of single indices: those that lead elsewhere are another thread's.
  PlaceRange part = {};
};
/// For n indices in order: replaces a row of the operand by one of the slices, or adds that to it.
using IndexedLoop = void (*)(std::int64_t n, const IndexedArrays& arrays);
inline constexpr int kIndexedBytes = 64;  ///< of rows that have a loop for their size, at most
/// The same for dense vectors of two indices, of which no place is farther than 2^31 bytes.
inline constexpr int kPairedBytes = 16;

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
