// Stable sorting of several arrays together.
#pragma once

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// Sorts along `axis`, stably and ascending, by the first `num_keys` operands in lexicographic
/// order; all operands, of one shape, are permuted alike. Floats: -0 equals 0, NaNs come last and are
/// equal; complex numbers compare by real, then imaginary part. Results are contiguous.
TELAMON_API void run_sort(std::span<const View> in, int axis, int num_keys,
                          std::span<const View> out);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
