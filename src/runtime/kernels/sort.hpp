// Stable sorting of several arrays together.
#pragma once

#include "runtime/kernels/elementwise.hpp"
#include "telamon/aval.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// Sorts along `axis`, stably and ascending, by the first `num_keys` operands in lexicographic
/// order; all operands, of one shape, are permuted alike. Floats: -0 equals 0, NaNs come last and are
/// equal; complex numbers compare by real, then imaginary part. Results are contiguous.
TELAMON_API void run_sort(std::span<const View> in, int axis, int num_keys,
                          std::span<const View> out);

/// The bytes that run_sort takes for itself with so many threads, for operands of these types that lie
/// contiguously: copies where lines are not adjacent elements, keys, and where they are sorted into.
TELAMON_API std::int64_t sort_scratch(std::span<const Aval> operands, int axis, int threads);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
