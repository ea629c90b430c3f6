// Reductions, index reductions and scans along axes.
#pragma once

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// sum and prod wrap for integers; max and min propagate NaN; and, or, xor are bitwise (logical on
/// bool). On bool: sum and max are or, prod and min are and.
enum class ReduceOp : std::uint8_t { sum, prod, max, min, and_, or_, xor_, count_ };
inline constexpr int kNumReduceOps = static_cast<int>(ReduceOp::count_);

/// out = op over `axes` of `in`. `out` has the dtype and the remaining dimensions of `in` and is
/// contiguous. Complex numbers have sums and products only. No elements give the identity: 0, 1, the lowest, the highest,
/// all bits, 0, 0.
/// Floats are summed by many accumulators in a tree fixed by the shape, so results depend neither on
/// the number of threads nor, to within the usual sqrt(log n) rounding errors, on the order.
TELAMON_API void run_reduce(ReduceOp op, const View& in, const Shape& axes, const View& out);

/// The index along `axis` of the largest (smallest) element; the first of equals, NaN before all.
/// `out` is contiguous, of an integer dtype, and lacks the axis, which must not be empty.
TELAMON_API void run_argmax(const View& in, int axis, const View& out);
TELAMON_API void run_argmin(const View& in, int axis, const View& out);

/// Running sum, prod, max or min along `axis`; from the end if `reverse`. `out` is contiguous.
enum class Direction : std::uint8_t { forward, reverse };
TELAMON_API void run_cumulative(ReduceOp op, const View& in, int axis, Direction direction,
                                const View& out);

/// The same for generated code: buffers operand and result, dense; numbers op, dtype, outer, length,
/// inner, reverse. For the dtypes that need no memory of their own.
TELAMON_API bool has_cumulative(DType dtype);
TELAMON_API void run_dense_cumulative(void* const* buffers, const std::int64_t* numbers) noexcept;

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
