// The loops over windows that the instruction sets define.
#pragma once

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace kernels {

/// The offset of a window that is out of bounds and to be dropped.
inline constexpr std::int64_t kOutside = INT64_MIN;

/// For one component of n index vectors: offsets[i] += its start, from 0 to `last`, times step. Starts
/// out of bounds are moved inside if `clips`, else the offset is kOutside, and negative for good.
using WindowOffsets = void (*)(std::int64_t n, const char* indices, std::int64_t stride, bool clips,
                               std::int64_t step, std::int64_t last, std::int64_t* offsets);
/// Adds element i of the slices, which are `stride` bytes apart, to the operand at offsets[i] >= 0, in
/// order.
using AddElements = void (*)(std::int64_t n, const std::int64_t* offsets, char* operand,
                             const char* slices, std::int64_t stride);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
