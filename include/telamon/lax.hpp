// The strict functions: each applies one primitive. No promotion, no broadcasting.
//
// Operands must have the shapes and dtypes that the primitive asks for; only a C++ scalar (a weak
// concrete scalar) takes the dtype and shape of the array beside it, so `lax::mul(x, 2.0)` works.
// Axes count from 0. A call that would change nothing (a transpose by the identity, a reshape to
// the same shape, a reduction over no axes) returns its operand and applies no primitive.
// The functions of numpy.hpp promote and broadcast, then call these; so do the primitives' rules.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace lax {

// ---- elementwise, one operand ------------------------------------------------------------------
TELAMON_API Array neg(const Operand& x);
TELAMON_API Array sign(const Operand& x);
TELAMON_API Array floor(const Operand& x);
TELAMON_API Array ceil(const Operand& x);
TELAMON_API Array round(const Operand& x, RoundingMethod method = RoundingMethod::away_from_zero);
TELAMON_API Array exp(const Operand& x);
TELAMON_API Array exp2(const Operand& x);
TELAMON_API Array log(const Operand& x);
TELAMON_API Array expm1(const Operand& x);
TELAMON_API Array log1p(const Operand& x);
TELAMON_API Array sin(const Operand& x);
TELAMON_API Array cos(const Operand& x);
TELAMON_API Array tan(const Operand& x);
TELAMON_API Array asin(const Operand& x);
TELAMON_API Array acos(const Operand& x);
TELAMON_API Array atan(const Operand& x);
TELAMON_API Array sinh(const Operand& x);
TELAMON_API Array cosh(const Operand& x);
TELAMON_API Array tanh(const Operand& x);
TELAMON_API Array asinh(const Operand& x);
TELAMON_API Array acosh(const Operand& x);
TELAMON_API Array atanh(const Operand& x);
TELAMON_API Array logistic(const Operand& x);
TELAMON_API Array sqrt(const Operand& x);
TELAMON_API Array rsqrt(const Operand& x);
TELAMON_API Array cbrt(const Operand& x);
TELAMON_API Array square(const Operand& x);
TELAMON_API Array integer_pow(const Operand& x, int y);
TELAMON_API Array abs(const Operand& x);
TELAMON_API Array is_finite(const Operand& x);
TELAMON_API Array bitwise_not(const Operand& x);
TELAMON_API Array erf(const Operand& x);
TELAMON_API Array erf_inv(const Operand& x);
/// The identity, whose derivative is zero.
TELAMON_API Array stop_gradient(const Operand& x);
TELAMON_API Array copy(const Operand& x);
/// Nothing to do when x has that dtype and weakness already.
TELAMON_API Array convert_element_type(const Operand& x, DType dtype, bool weak_type = false);
TELAMON_API Array bitcast_convert_type(const Operand& x, DType dtype);

// ---- elementwise, several operands -------------------------------------------------------------
TELAMON_API Array add(const Operand& x, const Operand& y);
TELAMON_API Array sub(const Operand& x, const Operand& y);
TELAMON_API Array mul(const Operand& x, const Operand& y);
/// Integers: truncates toward zero.
TELAMON_API Array div(const Operand& x, const Operand& y);
/// The remainder with the dividend's sign.
TELAMON_API Array rem(const Operand& x, const Operand& y);
TELAMON_API Array max(const Operand& x, const Operand& y);
TELAMON_API Array min(const Operand& x, const Operand& y);
TELAMON_API Array pow(const Operand& x, const Operand& y);
TELAMON_API Array atan2(const Operand& x, const Operand& y);
TELAMON_API Array bitwise_and(const Operand& x, const Operand& y);
TELAMON_API Array bitwise_or(const Operand& x, const Operand& y);
TELAMON_API Array bitwise_xor(const Operand& x, const Operand& y);
TELAMON_API Array shift_left(const Operand& x, const Operand& y);
TELAMON_API Array shift_right_logical(const Operand& x, const Operand& y);
TELAMON_API Array shift_right_arithmetic(const Operand& x, const Operand& y);
TELAMON_API Array eq(const Operand& x, const Operand& y);
TELAMON_API Array ne(const Operand& x, const Operand& y);
TELAMON_API Array lt(const Operand& x, const Operand& y);
TELAMON_API Array le(const Operand& x, const Operand& y);
TELAMON_API Array gt(const Operand& x, const Operand& y);
TELAMON_API Array ge(const Operand& x, const Operand& y);
/// on_true where pred holds, else on_false. `pred` is a bool scalar or of the cases' shape.
TELAMON_API Array select(const Operand& pred, const Operand& on_true, const Operand& on_false);
/// cases[which]: `which` is bool or i32, a scalar or of the cases' shape.
TELAMON_API Array select_n(const Operand& which, std::span<const Array> cases);
/// min(max(x, low), high); the bounds are scalars or of x's shape.
TELAMON_API Array clamp(const Operand& low, const Operand& x, const Operand& high);
/// The threefry block function on u32 arrays of one shape: two results.
TELAMON_API Arrays threefry2x32(const Operand& k0, const Operand& k1, const Operand& x0,
                                const Operand& x1);

// ---- constants ---------------------------------------------------------------------------------
/// A strong scalar of `dtype`, range-checked: no primitive is applied. `value` must be concrete.
TELAMON_API Array scalar(const Operand& value, DType dtype);
/// `value` everywhere; strong.
TELAMON_API Array full(const Shape& shape, DType dtype, double value,
                       SourceLocation where = SourceLocation::current());
TELAMON_API Array full(const Aval& aval, double value,
                       SourceLocation where = SourceLocation::current());
/// `value` everywhere, in the aval of x (nothing else of it is looked at).
TELAMON_API Array full_like(const Operand& x, double value);
TELAMON_API Array zeros_like(const Operand& x);
TELAMON_API Array ones_like(const Operand& x);
/// 0, 1, 2, ... along `dimension`.
TELAMON_API Array iota(DType dtype, const Shape& shape, Axis dimension = 0,
                       SourceLocation where = SourceLocation::current());
/// The high and the low u32 words of the row-major index.
TELAMON_API Arrays iota_2x32_shape(const Shape& shape,
                                   SourceLocation where = SourceLocation::current());

// ---- shape -------------------------------------------------------------------------------------
/// Dimension i of x becomes dimension `broadcast_dimensions[i]` of the result.
TELAMON_API Array broadcast_in_dim(const Operand& x, const Shape& shape,
                                   const Shape& broadcast_dimensions);
/// x repeated along new leading dimensions: shape is `sizes + x.shape()`.
TELAMON_API Array broadcast(const Operand& x, const Shape& sizes);
TELAMON_API Array reshape(const Operand& x, const Shape& new_sizes);
TELAMON_API Array transpose(const Operand& x, const Shape& permutation);
TELAMON_API Array squeeze(const Operand& x, const Shape& dimensions);
/// `dimensions` are positions in the result.
TELAMON_API Array expand_dims(const Operand& x, const Shape& dimensions);
TELAMON_API Array rev(const Operand& x, const Shape& dimensions);
TELAMON_API Array concatenate(std::span<const Array> xs, Axis dimension,
                              SourceLocation where = SourceLocation::current());
TELAMON_API Arrays split(const Operand& x, const Shape& sizes, Axis axis = 0);
TELAMON_API Array stack(std::span<const Array> xs, Axis axis = 0,
                        SourceLocation where = SourceLocation::current());
TELAMON_API Arrays unstack(const Operand& x, Axis axis = 0);
/// (low, high, interior) per dimension; low and high may be negative.
TELAMON_API Array pad(const Operand& x, const Operand& value,
                      const std::vector<std::array<std::int64_t, 3>>& padding_config);
TELAMON_API Array slice(const Operand& x, const Shape& start_indices, const Shape& limit_indices,
                        const Shape& strides = {});
TELAMON_API Array slice_in_dim(const Operand& x, std::int64_t start, std::int64_t limit,
                               std::int64_t stride = 1, Axis axis = 0);
/// x[..., index, ...]: the axis disappears.
TELAMON_API Array index_in_dim(const Operand& x, std::int64_t index, Axis axis = 0);
/// One scalar start per dimension (any integer dtype); starts are clamped so that the slice fits.
TELAMON_API Array dynamic_slice(const Operand& x, std::span<const Array> starts,
                                const Shape& slice_sizes);
TELAMON_API Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size,
                                       Axis axis = 0);
TELAMON_API Array dynamic_index_in_dim(const Operand& x, const Operand& index, Axis axis = 0);
TELAMON_API Array dynamic_update_slice(const Operand& x, const Operand& update,
                                       std::span<const Array> starts);
TELAMON_API Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update,
                                              const Operand& start, Axis axis = 0);

// ---- reductions --------------------------------------------------------------------------------
TELAMON_API Array reduce_sum(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_prod(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_max(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_min(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_and(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_or(const Operand& x, const Shape& axes);
TELAMON_API Array reduce_xor(const Operand& x, const Shape& axes);
TELAMON_API Array argmax(const Operand& x, Axis axis, DType index_dtype);
TELAMON_API Array argmin(const Operand& x, Axis axis, DType index_dtype);
TELAMON_API Array cumsum(const Operand& x, Axis axis = 0, bool reverse = false);
TELAMON_API Array cumprod(const Operand& x, Axis axis = 0, bool reverse = false);
TELAMON_API Array cummax(const Operand& x, Axis axis = 0, bool reverse = false);
TELAMON_API Array cummin(const Operand& x, Axis axis = 0, bool reverse = false);

// ---- products, indexing, sorting ---------------------------------------------------------------
TELAMON_API Array dot_general(const Operand& lhs, const Operand& rhs,
                              const DotDimensionNumbers& dimension_numbers,
                              std::optional<DType> preferred_element_type = std::nullopt);
TELAMON_API Array gather(const Operand& x, const Operand& indices, const GatherParams& params);
TELAMON_API Array scatter(const Operand& x, const Operand& indices, const Operand& updates,
                          const ScatterParams& params);
TELAMON_API Array scatter_add(const Operand& x, const Operand& indices, const Operand& updates,
                              const ScatterParams& params);
/// All operands are permuted alike, by the first `num_keys` of them; stable.
TELAMON_API Arrays sort(std::span<const Array> xs, Axis dimension, int num_keys = 1,
                        SourceLocation where = SourceLocation::current());
TELAMON_API Array sort(const Operand& x, Axis dimension);

}  // namespace lax
}  // namespace v1
}  // namespace telamon
