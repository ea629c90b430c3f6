// The built-in primitives and their parameters. Parameter names are JAX's.
//
// Operands of elementwise primitives have one shape and one dtype; the functions of numpy.hpp make
// broadcasts and conversions explicit before they bind. `docs/primitives/` gives the semantics.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

// ---- elementwise, one operand ------------------------------------------------------------------
extern TELAMON_API const Primitive<> neg_p, sign_p, floor_p, ceil_p, exp_p, exp2_p, log_p, expm1_p,
    log1p_p, sin_p, cos_p, tan_p, asin_p, acos_p, atan_p, sinh_p, cosh_p, tanh_p, asinh_p, acosh_p,
    atanh_p, logistic_p, sqrt_p, rsqrt_p, cbrt_p, square_p, abs_p, is_finite_p, not_p, erf_p,
    erf_inv_p, stop_gradient_p, copy_p;

enum class RoundingMethod : std::uint8_t { away_from_zero, to_nearest_even };
TELAMON_API std::string_view to_string(RoundingMethod method);
TELAMON_API bool enum_from_string(std::string_view text, RoundingMethod& method);
struct RoundParams {
  RoundingMethod rounding_method = RoundingMethod::away_from_zero;
};
extern TELAMON_API const Primitive<RoundParams> round_p;

struct IntegerPowParams {
  int y = 1;
};
extern TELAMON_API const Primitive<IntegerPowParams> integer_pow_p;

struct ConvertParams {
  DType new_dtype = DType::f32;
  bool weak_type = false;
};
extern TELAMON_API const Primitive<ConvertParams> convert_element_type_p;

/// To a narrower dtype adds a trailing dimension, to a wider one removes it.
struct BitcastParams {
  DType new_dtype = DType::f32;
};
extern TELAMON_API const Primitive<BitcastParams> bitcast_convert_type_p;

// ---- elementwise, several operands -------------------------------------------------------------
extern TELAMON_API const Primitive<> add_p, sub_p, mul_p, div_p, rem_p, max_p, min_p, pow_p,
    atan2_p, and_p, or_p, xor_p, shift_left_p, shift_right_logical_p, shift_right_arithmetic_p;
extern TELAMON_API const Primitive<> eq_p, ne_p, lt_p, le_p, gt_p, ge_p;
/// select_n(which, case0, case1, ...): `which` is bool or i32, a scalar or of the cases' shape.
extern TELAMON_API const Primitive<> select_n_p;
/// clamp(low, x, high): the bounds are scalars or of x's shape.
extern TELAMON_API const Primitive<> clamp_p;
/// order_statistic(x0, x1, ...): of each element, the one at `rank` when they are sorted, as sort_p has it.
struct OrderStatisticParams {
  std::int64_t rank = 0;
};
extern TELAMON_API const Primitive<OrderStatisticParams> order_statistic_p;
/// threefry2x32(k0, k1, x0, x1): u32 of one shape; two results.
extern TELAMON_API const Primitive<> threefry2x32_p;

// ---- shape -------------------------------------------------------------------------------------
struct BroadcastInDimParams {
  Shape shape, broadcast_dimensions;
};
extern TELAMON_API const Primitive<BroadcastInDimParams> broadcast_in_dim_p;
struct ReshapeParams {
  Shape new_sizes;
};
extern TELAMON_API const Primitive<ReshapeParams> reshape_p;
struct TransposeParams {
  Shape permutation;
};
extern TELAMON_API const Primitive<TransposeParams> transpose_p;
struct DimensionsParams {
  Shape dimensions;
};
extern TELAMON_API const Primitive<DimensionsParams> squeeze_p, expand_dims_p, rev_p;
struct ConcatenateParams {
  std::int64_t dimension = 0;
};
extern TELAMON_API const Primitive<ConcatenateParams> concatenate_p;
struct SplitParams {
  Shape sizes;
  std::int64_t axis = 0;
};
extern TELAMON_API const Primitive<SplitParams> split_p;
struct StackParams {
  std::int64_t axis = 0;
};
extern TELAMON_API const Primitive<StackParams> stack_p, unstack_p;
/// (low, high, interior) per dimension; low and high may be negative. Operands: x, scalar value.
struct PadParams {
  std::vector<std::array<std::int64_t, 3>> padding_config;
};
extern TELAMON_API const Primitive<PadParams> pad_p;
/// Empty strides: all 1.
struct SliceParams {
  Shape start_indices, limit_indices, strides;
};
extern TELAMON_API const Primitive<SliceParams> slice_p;
/// Operands: x, one scalar start per dimension (any integer dtype); starts are clamped.
struct DynamicSliceParams {
  Shape slice_sizes;
};
extern TELAMON_API const Primitive<DynamicSliceParams> dynamic_slice_p;
/// Operands: x, update, one scalar start per dimension; starts are clamped.
extern TELAMON_API const Primitive<> dynamic_update_slice_p;
struct IotaParams {
  DType dtype = DType::i32;
  Shape shape;
  std::int64_t dimension = 0;
};
extern TELAMON_API const Primitive<IotaParams> iota_p;
/// Two results: the high and low u32 words of the row-major index.
struct Iota2x32Params {
  Shape shape;
};
extern TELAMON_API const Primitive<Iota2x32Params> iota_2x32_shape_p;

// ---- reductions --------------------------------------------------------------------------------
struct AxesParams {
  Shape axes;
};
extern TELAMON_API const Primitive<AxesParams> reduce_sum_p, reduce_max_p, reduce_min_p,
    reduce_prod_p, reduce_and_p, reduce_or_p, reduce_xor_p;
/// One axis; the first of equals, NaN wins.
struct ArgReduceParams {
  Shape axes;
  DType index_dtype = DType::i32;
};
extern TELAMON_API const Primitive<ArgReduceParams> argmax_p, argmin_p;
struct CumulativeParams {
  std::int64_t axis = 0;
  bool reverse = false;
};
extern TELAMON_API const Primitive<CumulativeParams> cumsum_p, cumprod_p, cummax_p, cummin_p;

// ---- products, indexing, sorting ---------------------------------------------------------------
struct DotDimensionNumbers {
  Shape lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  bool operator==(const DotDimensionNumbers&) const = default;
};
/// Result dimensions: batch, free lhs, free rhs.
struct DotGeneralParams {
  DotDimensionNumbers dimension_numbers;
  std::optional<DType> preferred_element_type;
};
extern TELAMON_API const Primitive<DotGeneralParams> dot_general_p;

enum class GatherScatterMode : std::uint8_t { clip, fill_or_drop, promise_in_bounds };
TELAMON_API std::string_view to_string(GatherScatterMode mode);
TELAMON_API bool enum_from_string(std::string_view text, GatherScatterMode& mode);
struct GatherDimensionNumbers {
  Shape offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims,
      start_indices_batching_dims;
  bool operator==(const GatherDimensionNumbers&) const = default;
};
/// Operands: x, indices (index vectors along the last dimension). `fill_value` in mode fill_or_drop;
/// none means NaN for floats, lowest for signed, highest for unsigned integers, true for bool.
struct GatherParams {
  GatherDimensionNumbers dimension_numbers;
  Shape slice_sizes;
  GatherScatterMode mode = GatherScatterMode::fill_or_drop;
  std::optional<double> fill_value;
  bool unique_indices = false, indices_are_sorted = false;
};
extern TELAMON_API const Primitive<GatherParams> gather_p;
struct ScatterDimensionNumbers {
  Shape update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims,
      operand_batching_dims, scatter_indices_batching_dims;
  bool operator==(const ScatterDimensionNumbers&) const = default;
};
/// Operands: x, indices, updates. Where vectors meet, row-major order counts; long sums, in parts.
struct ScatterParams {
  ScatterDimensionNumbers dimension_numbers;
  bool indices_are_sorted = false, unique_indices = false;
  GatherScatterMode mode = GatherScatterMode::fill_or_drop;
  bool wraps = false;  ///< starts below 0 count from the end of their dimension
};
extern TELAMON_API const Primitive<ScatterParams> scatter_p, scatter_add_p;

/// The first `num_keys` operands are the keys (lexicographic); all operands are permuted alike.
/// Floats: -0 equals 0, NaNs last.
struct SortParams {
  std::int64_t dimension = 0;
  bool is_stable = true;
  int num_keys = 1;
};
extern TELAMON_API const Primitive<SortParams> sort_p;

// ---- calls -------------------------------------------------------------------------------------
/// A call of a traced function. The first `num_consts` operands are what the function captured.
struct JitParams {
  Jaxpr jaxpr;
  std::string name;
  int num_consts = 0;
  std::string backend;    ///< "" is the default backend
  bool contract = false;  ///< allow FMA contraction
};
extern TELAMON_API const Primitive<JitParams> jit_p;

// ---- control flow ------------------------------------------------------------------------------
/// Applies a program once per step, front to back or back to front.
///   jaxpr:    consts, carry, row of each xs -> carry, row of each ys
///   operands: consts, initial carry, xs     (xs and ys have `length` rows along a leading axis)
///   results:  final carry, ys
/// Carry components have one type throughout. `unroll` is a hint: steps per turn of the native loop.
struct ScanParams {
  Jaxpr jaxpr;
  std::int64_t length = 0;
  int num_consts = 0, num_carry = 0;
  bool reverse = false;
  std::int64_t unroll = 1;
};
extern TELAMON_API const Primitive<ScanParams> scan_p;

/// Applies one of several programs of the same type. Operand 0 is the index, a scalar bool (false:
/// branch 0) or i32 that is in range; the other operands go to the branch.
struct CondParams {
  std::vector<Jaxpr> branches;
};
extern TELAMON_API const Primitive<CondParams> cond_p;

/// Repeats `body_jaxpr` as long as `cond_jaxpr` holds.
///   cond_jaxpr: consts of the condition, carry -> bool
///   body_jaxpr: consts of the body, carry -> carry
///   operands:   consts of the condition, consts of the body, initial carry;  results: final carry
/// The condition may be of rank > 0 (a batch of loops). Its shape then leads that of every carry. The
/// loop goes on while any element is true, and a step changes only the elements that were true:
/// carry = select(condition, body(carry), carry), the condition broadcast over trailing dimensions.
///
/// With `max_steps` the first carry is an i32 of the condition's shape that counts steps from 0, and
/// the condition is false once it reaches `max_steps`: a promise on which reverse mode builds its
/// buffers. It does not change what the loop computes.
struct WhileParams {
  Jaxpr cond_jaxpr;
  Jaxpr body_jaxpr;
  int cond_nconsts = 0, body_nconsts = 0;
  std::optional<std::int64_t> max_steps = {};
};
extern TELAMON_API const Primitive<WhileParams> while_p;

}  // namespace v1
}  // namespace telamon
