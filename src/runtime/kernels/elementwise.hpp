// Eager elementwise kernels: one precompiled inner loop per (operation, dtype), compiled for each
// instruction set, and one untemplated N-d iteration over it.
//
// Nothing here knows arrays or tracers: a View is an address, a dtype, sizes and byte strides.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cpu.hpp"
#include "telamon/dtype.hpp"
#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// The elementwise operations, by operands. Operands have one dtype; the result has it too, except
/// where noted. Semantics are those of the primitives of the same names: integers wrap,
/// x / 0 = all bits set, rem(x, 0) = x, shifts by the width or more give 0 (arithmetic right: the
/// sign); max and min propagate NaN; logical operations on bool, bitwise on integers.
enum class Op : std::uint8_t {
  // one operand
  copy,
  neg,
  sign,
  floor,
  ceil,
  round_even,
  round_away,
  exp,
  exp2,
  log,
  expm1,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  logistic,
  cbrt,
  erf,
  erfc,
  erf_inv,
  sqrt,
  rsqrt,
  square,
  abs,
  is_finite,  ///< -> bool
  not_,
  population_count,
  clz,
  integer_pow,  ///< params: const int*, the exponent
  // two operands
  add,
  sub,
  mul,
  div,
  rem,
  max,
  min,
  pow,
  atan2,
  nextafter,
  and_,
  or_,
  xor_,
  shift_left,
  shift_right_logical,
  shift_right_arithmetic,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  ///< -> bool
  eq_to,
  lt_to,
  le_to,  ///< -> bool; the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN
  // three operands
  select,  ///< (bool which, case0, case1): which ? case1 : case0; dtype of the cases
  clamp,   ///< (low, x, high): min(max(x, low), high)
  count_   ///< the number of operations
};
inline constexpr int kNumOps = static_cast<int>(Op::count_);
inline constexpr int kMaxOperands = 3;

TELAMON_API const char* op_name(Op op);  ///< the primitive's name: "add", "not", "erf_inv"
/// The dtype of the result: bool for comparisons and is_finite, else the dtype of the operands.
TELAMON_API DType op_result_dtype(Op op, DType dtype);

/// A contiguous run: out[i] = op(in[0][i], ...) for n elements. The result may be one of the operands
/// if their elements have the same size; otherwise it must not overlap one.
using ContiguousLoop = void (*)(std::int64_t n, const char* const* in, char* out,
                                const void* params);

/// An operation on a dtype as the host's instruction set has it.
struct Kernel {
  ContiguousLoop loop = nullptr;
  int arity = 0;
  DType in_dtypes[kMaxOperands] = {};  ///< of the operands in memory
  DType out_dtype = {};
  bool widens = false;          ///< the loop takes f32 for f16 and bf16
  const void* bound = nullptr;  ///< params of the loop that come with the kernel
  explicit operator bool() const { return loop != nullptr; }

  /// A strided run: operand i starts at in[i] and advances in_strides[i] bytes an element (0: one
  /// scalar for all), likewise the result. Operands that are not contiguous pass through a small
  /// buffer.
  TELAMON_API void operator()(std::int64_t n, const char* const* in, const std::int64_t* in_strides,
                              char* out, std::int64_t out_stride, const void* params) const;
};

/// The kernel of the host's instruction set; false where the operation has no meaning for the dtype.
/// `dtype` is that of the operands (of the cases for select).
TELAMON_API Kernel find_kernel(Op op, DType dtype);
TELAMON_API Kernel find_kernel(Op op, DType dtype, runtime::Isa isa);
/// The first one, where it lies: all are looked up once.
const Kernel& host_kernel(Op op, DType dtype);

/// A strided array in memory; strides are in bytes, 0 along broadcast dimensions, may be negative.
struct View {
  char* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;
};

TELAMON_API Shape contiguous_strides(const Shape& shape,
                                     std::size_t element_size);  ///< row-major, in bytes
TELAMON_API View contiguous_view(void* data, DType dtype, const Shape& shape);
TELAMON_API bool is_contiguous(const View& view);
/// `view` seen in `shape`: a scalar or sizes of 1 are repeated by stride 0.
TELAMON_API View broadcast_view(const View& view, const Shape& shape);

/// Computes out = op(in...). Each operand is a scalar or has the result's rank with equal sizes or
/// sizes of 1. Large results are computed by several threads; the answer does not depend on them.
/// Throws NotImplementedError if there is no loop for the dtype.
TELAMON_API void run_elementwise(Op op, DType dtype, std::span<const View> in, const View& out,
                                 const void* params = nullptr);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
