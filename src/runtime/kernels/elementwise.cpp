// The table of elementwise operations, and running them over views.
#include "runtime/kernels/elementwise.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "core/check.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/kernels/cursor.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/math/vector_math.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

enum class Result : std::uint8_t { same, boolean };
struct OpInfo {
  Op op;
  const char* name;
  int arity;
  int cost = 2;  // tenths of a nanosecond an element
  Result result = Result::same;
};

// In the order of Op. A name that is also a vector math function is computed by it on floats.
constexpr OpInfo kOps[] = {
    {Op::copy, "copy", 1},
    {Op::neg, "neg", 1},
    {Op::sign, "sign", 1},
    {Op::floor, "floor", 1},
    {Op::ceil, "ceil", 1},
    {Op::round_even, "round", 1},
    {Op::round_away, "round", 1},
    {Op::exp, "exp", 1, 5},
    {Op::exp2, "exp2", 1, 5},
    {Op::log, "log", 1, 5},
    {Op::expm1, "expm1", 1, 5},
    {Op::log1p, "log1p", 1, 8},
    {Op::sin, "sin", 1, 5},
    {Op::cos, "cos", 1, 5},
    {Op::tan, "tan", 1, 6},
    {Op::asin, "asin", 1, 6},
    {Op::acos, "acos", 1, 6},
    {Op::atan, "atan", 1, 6},
    {Op::sinh, "sinh", 1, 6},
    {Op::cosh, "cosh", 1, 6},
    {Op::tanh, "tanh", 1, 6},
    {Op::asinh, "asinh", 1, 10},
    {Op::acosh, "acosh", 1, 10},
    {Op::atanh, "atanh", 1, 10},
    {Op::logistic, "logistic", 1, 6},
    {Op::cbrt, "cbrt", 1, 6},
    {Op::erf, "erf", 1, 8},
    {Op::erfc, "erfc", 1, 10},
    {Op::erf_inv, "erf_inv", 1, 12},
    {Op::sqrt, "sqrt", 1, 4},
    {Op::rsqrt, "rsqrt", 1, 6},
    {Op::square, "square", 1},
    {Op::abs, "abs", 1},
    {Op::is_finite, "is_finite", 1, 2, Result::boolean},
    {Op::not_, "not", 1},
    {Op::population_count, "population_count", 1},
    {Op::clz, "clz", 1},
    {Op::integer_pow, "integer_pow", 1, 5},
    {Op::add, "add", 2},
    {Op::sub, "sub", 2},
    {Op::mul, "mul", 2},
    {Op::div, "div", 2, 5},
    {Op::rem, "rem", 2, 50},
    {Op::max, "max", 2},
    {Op::min, "min", 2},
    {Op::pow, "pow", 2, 30},
    {Op::atan2, "atan2", 2, 15},
    {Op::nextafter, "nextafter", 2, 5},
    {Op::and_, "and", 2},
    {Op::or_, "or", 2},
    {Op::xor_, "xor", 2},
    {Op::shift_left, "shift_left", 2},
    {Op::shift_right_logical, "shift_right_logical", 2},
    {Op::shift_right_arithmetic, "shift_right_arithmetic", 2},
    {Op::eq, "eq", 2, 2, Result::boolean},
    {Op::ne, "ne", 2, 2, Result::boolean},
    {Op::lt, "lt", 2, 2, Result::boolean},
    {Op::le, "le", 2, 2, Result::boolean},
    {Op::gt, "gt", 2, 2, Result::boolean},
    {Op::ge, "ge", 2, 2, Result::boolean},
    {Op::eq_to, "eq_to", 2, 2, Result::boolean},
    {Op::lt_to, "lt_to", 2, 2, Result::boolean},
    {Op::le_to, "le_to", 2, 2, Result::boolean},
    {Op::select, "select_n", 3},
    {Op::clamp, "clamp", 3},
};
static_assert(std::size(kOps) == kNumOps);
static_assert([] {
  for (int i = 0; i < kNumOps; ++i) {
    if (static_cast<int>(kOps[i].op) != i) return false;
  }
  return true;
}());

const OpInfo& info(Op op) { return kOps[static_cast<int>(op)]; }
/// Operations that move bytes need no arithmetic on small floats.
bool is_move(Op op) { return op == Op::copy || op == Op::select; }

}  // namespace

const char* op_name(Op op) { return info(op).name; }
DType op_result_dtype(Op op, DType dtype) {
  return info(op).result == Result::boolean ? DType::bool_ : dtype;
}

// Finding a math function by name costs more than a small loop.
const Kernel& host_kernel(Op op, DType dtype) {
  static const auto* const kernels = [] {
    auto* all = new std::array<std::array<Kernel, kNumDTypes>, kNumOps>;  // never destroyed
    for (int o = 0; o < kNumOps; ++o) {
      for (int d = 0; d < kNumDTypes; ++d) {
        (*all)[static_cast<std::size_t>(o)][static_cast<std::size_t>(d)] =
            find_kernel(static_cast<Op>(o), static_cast<DType>(d), runtime::host_isa());
      }
    }
    return all;
  }();
  return (*kernels)[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
}

Kernel find_kernel(Op op, DType dtype, runtime::Isa isa) {
  constexpr decltype(&telamon_generic_elementwise_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(elementwise_loop);
  Kernel kernel;
  const bool widen = detail::is_small_float(dtype) && !is_move(op);
  if (widen && op == Op::nextafter) return kernel;  // a step in f32 is none in f16
  const DType compute = widen ? DType::f32 : dtype;
  kernel.loop = kLoops[static_cast<int>(isa)](op, compute);
  kernel.arity = info(op).arity;
  kernel.widens = widen;
  kernel.out_dtype = op_result_dtype(op, dtype);
  for (int i = 0; i < kernel.arity; ++i) kernel.in_dtypes[i] = dtype;
  if (op == Op::select) kernel.in_dtypes[0] = DType::bool_;
  if (compute == DType::f32 || compute == DType::f64) {
    kernel.bound = math::find_math(info(op).name, compute, isa).address;
  }
  return kernel;
}
Kernel find_kernel(Op op, DType dtype) { return host_kernel(op, dtype); }

// Where a dimension is 0 the product of the others may overflow; then no element is at these strides.
Shape contiguous_strides(const Shape& shape, std::size_t element_size) {
  Shape strides(shape.size(), 0);
  auto stride = static_cast<std::int64_t>(element_size);
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride = detail::wrapping_mul(stride, shape[d]);
  }
  return strides;
}
View contiguous_view(void* data, DType dtype, const Shape& shape) {
  return {static_cast<char*>(data), dtype, shape, contiguous_strides(shape, size_of(dtype))};
}
bool is_contiguous(const View& view) {
  auto stride = static_cast<std::int64_t>(size_of(view.dtype));
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] != 1 && view.strides[d] != stride) return false;
    stride = detail::wrapping_mul(stride, view.shape[d]);
  }
  return true;
}

View broadcast_view(const View& view, const Shape& shape) {
  if (view.shape == shape) return view;
  View wide{view.data, view.dtype, shape, Shape(shape.size(), 0)};
  if (view.shape.empty()) return wide;
  TELAMON_CHECK(view.shape.size() == shape.size(),
                "a kernel's operand of shape " + view.shape.to_string() +
                    " does not broadcast to " + shape.to_string());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    TELAMON_CHECK(view.shape[d] == shape[d] || view.shape[d] == 1,
                  "a kernel's operand of shape " + view.shape.to_string() +
                      " does not broadcast to " + shape.to_string());
    wide.strides[d] = view.shape[d] == shape[d] ? view.strides[d] : 0;
  }
  return wide;
}

void run_elementwise(Op op, DType dtype, std::span<const View> in, const View& out,
                     const void* params) {
  const Kernel& kernel = host_kernel(op, dtype);
  if (!kernel) {
    throw NotImplementedError(std::string(op_name(op)) + " has no evaluation rule for dtype " +
                              std::string(short_name(dtype)));
  }
  TELAMON_CHECK(static_cast<int>(in.size()) == kernel.arity,
                std::string(op_name(op)) + " got " + std::to_string(in.size()) + " operands");
  const auto same_shape = [&](const View& view) { return view.shape == out.shape; };
  if (std::all_of(in.begin(), in.end(), same_shape))
    return run_kernel(kernel, in, out, params, info(op).cost);
  std::array<View, kMaxOperands> operands;
  for (std::size_t i = 0; i < in.size(); ++i) operands[i] = broadcast_view(in[i], out.shape);
  run_kernel(kernel, {operands.data(), in.size()}, out, params, info(op).cost);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
