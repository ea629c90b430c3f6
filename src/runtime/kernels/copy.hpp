// Moving and making elements without arithmetic: strided copies, conversion, fill, iota.
#pragma once

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// Copies `in` to `out`: same element size, `in` broadcast to the shape of `out`. Serves transpose,
/// broadcast, slice, reverse (negative strides), concatenate (a slice of the result) and bitcast.
/// Whole runs are moved at once, transpositions in tiles. The two must not overlap.
TELAMON_API void run_copy(const View& in, const View& out);

/// to[i, j] = from[j, i] for i < rows, j < columns, where neighbours in j of `to` and in i of `from` are adjacent.
using TransposeLoop = void (*)(std::int64_t rows, std::int64_t columns, const char* from,
                               std::int64_t from_stride, char* to, std::int64_t to_stride);

/// out = in in another dtype. Floats to integers truncate toward zero and saturate, NaN gives 0; to
/// bool: x != 0; integers to narrower ones wrap; f16 and bf16 round to nearest even; complex to real
/// drops the imaginary part.
TELAMON_API void run_convert(const View& in, const View& out);
/// One contiguous run of the conversion, or null for float0.
TELAMON_API ContiguousLoop find_convert(DType from, DType to);

/// Every element of `out` becomes the one at `value`, of the dtype of `out`.
TELAMON_API void run_fill(const void* value, const View& out);

/// Element i along `dimension` becomes i (wrapped to the dtype). Complex: the real part.
TELAMON_API void run_iota(const View& out, int dimension);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
