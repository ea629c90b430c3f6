// The strict functions: thin binds, and the identities that need none.
#include "telamon/lax.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "core/trace.hpp"
#include "primitives/direct.hpp"

namespace telamon {
inline namespace v1 {
namespace lax {
namespace {

using kernels::Op;

/// Whether x can be a C++ number, which is weak.
bool is_number(const Array& x) { return x.weak_type() && x.ndim() == 0 && !x.is_tracer(); }
/// Whether x can be a C++ bool, which is as strong as an array of one.
bool is_truth(const Array& x) {
  return x.dtype() == DType::bool_ && !x.weak_type() && x.ndim() == 0 && !x.is_tracer();
}

/// A C++ number in the dtype of the array beside it. TypeError where that would be another number.
Array in_dtype_of(std::string_view name, const Array& other, const Array& number) {
  const DType dtype = other.dtype();
  Array out = detail::convert_scalar(number, dtype, other.weak_type());
  const bool may_change =
      is_float(number.dtype()) ? is_integer(dtype) || dtype == DType::bool_ : dtype == DType::bool_;
  // As doubles the ends of 64 bits are what lies just beyond.
  const auto beyond = [&] {
    const int bits = 8 * static_cast<int>(size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
    return is_integer(dtype) && number.item<double>() >= std::ldexp(1.0, bits);
  };
  if (may_change && (out.item<double>() != number.item<double>() || beyond())) {
    throw TypeError(std::string(name) + ": the number " + number.to_string() +
                    " is none of dtype " + std::string(short_name(dtype)) +
                    ", which it would take from " + other.aval().to_string() +
                    " beside it; convert the array with astype, or pass a number of its dtype");
  }
  return out;
}

/// Whether one of the operands takes on what the other is.
bool gives_way(const Array& x, const Array& y) {
  return is_number(x) != is_number(y) || is_truth(x) != is_truth(y);
}
/// Gives a C++ number among the operands the dtype and the shape of the array beside it, and a bool the shape of truth values.
std::pair<Array, Array> match(std::string_view name, const Array& x, const Array& y) {
  if (is_number(y) && !is_number(x)) return {x, broadcast(in_dtype_of(name, x, y), x.shape())};
  if (is_number(x) && !is_number(y)) return {broadcast(in_dtype_of(name, y, x), y.shape()), y};
  if (is_truth(y) && x.dtype() == DType::bool_) return {x, broadcast(y, x.shape())};
  if (is_truth(x) && y.dtype() == DType::bool_) return {broadcast(x, y.shape()), y};
  return {x, y};
}

Array unary(const Primitive<>& primitive, const Operand& x) {
  return detail::in_call(primitive.name().data(), {&x},
                         [&] { return detail::bind_held(primitive, {}, x.array); });
}
/// Of a primitive whose evaluation rule is the kernel of `op`.
Array unary(const Primitive<>& primitive, Op op, const Operand& x) {
  if (Array y = detail::apply_direct(op, x.array); y.has_value()) return y;
  return unary(primitive, x);
}

Array binary(const Primitive<>& primitive, const Operand& x, const Operand& y) {
  return detail::in_call(primitive.name().data(), {&x, &y}, [&] {
    if (!gives_way(x.array, y.array)) return detail::bind_held(primitive, {}, x.array, y.array);
    const auto [a, b] = match(primitive.name(), x.array, y.array);
    return detail::bind_held(primitive, {}, a, b);
  });
}
Array binary(const Primitive<>& primitive, Op op, const Operand& x, const Operand& y) {
  if (Array z = detail::apply_direct(op, x.array, y.array); z.has_value()) return z;
  return binary(primitive, x, y);
}

Array reduce(const Primitive<AxesParams>& primitive, const Operand& x, const Shape& axes) {
  detail::check_operands(primitive.name().data(), {&x});
  if (axes.empty()) return x.array;
  return detail::in_call(primitive.name().data(), {&x},
                         [&] { return primitive.bind1({axes}, {x.array}); });
}

Array cumulative(const Primitive<CumulativeParams>& primitive, const Operand& x, Axis axis,
                 bool reverse) {
  return detail::in_call(primitive.name().data(), {&x},
                         [&] { return primitive.bind1({axis, reverse}, {x.array}); });
}

bool is_iota(const Shape& s) {
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

void check_axis(const char* name, Axis axis, const Array& x) {
  if (axis >= 0 && axis < x.ndim()) return;
  throw IndexError(std::string(name) + ": axis " + std::to_string(axis) + " is out of bounds for " +
                   x.aval().to_string() + "; axes count from 0");
}

/// Starts of a dynamic slice: `start` along `axis`, else 0 of the same dtype.
Arrays starts_along(const Array& x, const Array& start, Axis axis) {
  check_axis("a dynamic slice", axis, x);
  Arrays starts(static_cast<std::size_t>(x.ndim()), scalar(0, start.dtype()));
  starts[static_cast<std::size_t>(axis)] = start;
  return starts;
}

}  // namespace

// ---- elementwise -------------------------------------------------------------------------------
Array neg(const Operand& x) { return unary(neg_p, Op::neg, x); }
Array sign(const Operand& x) { return unary(sign_p, Op::sign, x); }
Array floor(const Operand& x) { return unary(floor_p, Op::floor, x); }
Array ceil(const Operand& x) { return unary(ceil_p, Op::ceil, x); }
Array exp(const Operand& x) { return unary(exp_p, Op::exp, x); }
Array exp2(const Operand& x) { return unary(exp2_p, Op::exp2, x); }
Array log(const Operand& x) { return unary(log_p, Op::log, x); }
Array expm1(const Operand& x) { return unary(expm1_p, Op::expm1, x); }
Array log1p(const Operand& x) { return unary(log1p_p, Op::log1p, x); }
Array sin(const Operand& x) { return unary(sin_p, Op::sin, x); }
Array cos(const Operand& x) { return unary(cos_p, Op::cos, x); }
Array tan(const Operand& x) { return unary(tan_p, Op::tan, x); }
Array asin(const Operand& x) { return unary(asin_p, Op::asin, x); }
Array acos(const Operand& x) { return unary(acos_p, Op::acos, x); }
Array atan(const Operand& x) { return unary(atan_p, Op::atan, x); }
Array sinh(const Operand& x) { return unary(sinh_p, Op::sinh, x); }
Array cosh(const Operand& x) { return unary(cosh_p, Op::cosh, x); }
Array tanh(const Operand& x) { return unary(tanh_p, Op::tanh, x); }
Array asinh(const Operand& x) { return unary(asinh_p, Op::asinh, x); }
Array acosh(const Operand& x) { return unary(acosh_p, Op::acosh, x); }
Array atanh(const Operand& x) { return unary(atanh_p, Op::atanh, x); }
Array logistic(const Operand& x) { return unary(logistic_p, Op::logistic, x); }
Array sqrt(const Operand& x) { return unary(sqrt_p, Op::sqrt, x); }
Array rsqrt(const Operand& x) { return unary(rsqrt_p, Op::rsqrt, x); }
Array cbrt(const Operand& x) { return unary(cbrt_p, Op::cbrt, x); }
Array square(const Operand& x) { return unary(square_p, Op::square, x); }
Array abs(const Operand& x) { return unary(abs_p, Op::abs, x); }
Array is_finite(const Operand& x) { return unary(is_finite_p, Op::is_finite, x); }
Array bitwise_not(const Operand& x) { return unary(not_p, x); }
Array erf(const Operand& x) { return unary(erf_p, Op::erf, x); }
Array erf_inv(const Operand& x) { return unary(erf_inv_p, Op::erf_inv, x); }
Array stop_gradient(const Operand& x) { return unary(stop_gradient_p, x); }
Array copy(const Operand& x) { return unary(copy_p, x); }

Array round(const Operand& x, RoundingMethod method) {
  return detail::in_call("round", {&x}, [&] { return round_p.bind1({method}, {x.array}); });
}

Array integer_pow(const Operand& x, int y) {
  return detail::in_call("integer_pow", {&x}, [&] { return integer_pow_p.bind1({y}, {x.array}); });
}

Array convert_element_type(const Operand& x, DType dtype, bool weak_type) {
  detail::check_operands("convert_element_type", {&x});
  if (x.array.dtype() == dtype && x.array.weak_type() == weak_type) return x.array;
  return detail::in_call("convert_element_type", {&x}, [&] {
    return convert_element_type_p.bind1({dtype, weak_type}, {x.array});
  });
}

Array bitcast_convert_type(const Operand& x, DType dtype) {
  detail::check_operands("bitcast_convert_type", {&x});
  if (x.array.dtype() == dtype) return x.array;
  return detail::in_call("bitcast_convert_type", {&x},
                         [&] { return bitcast_convert_type_p.bind1({dtype}, {x.array}); });
}

Array add(const Operand& x, const Operand& y) { return binary(add_p, Op::add, x, y); }
Array sub(const Operand& x, const Operand& y) { return binary(sub_p, Op::sub, x, y); }
Array mul(const Operand& x, const Operand& y) { return binary(mul_p, Op::mul, x, y); }
Array div(const Operand& x, const Operand& y) { return binary(div_p, Op::div, x, y); }
Array rem(const Operand& x, const Operand& y) { return binary(rem_p, Op::rem, x, y); }
Array max(const Operand& x, const Operand& y) { return binary(max_p, Op::max, x, y); }
Array min(const Operand& x, const Operand& y) { return binary(min_p, Op::min, x, y); }
Array pow(const Operand& x, const Operand& y) { return binary(pow_p, x, y); }
Array atan2(const Operand& x, const Operand& y) { return binary(atan2_p, Op::atan2, x, y); }
Array bitwise_and(const Operand& x, const Operand& y) { return binary(and_p, x, y); }
Array bitwise_or(const Operand& x, const Operand& y) { return binary(or_p, x, y); }
Array bitwise_xor(const Operand& x, const Operand& y) { return binary(xor_p, x, y); }
Array shift_left(const Operand& x, const Operand& y) { return binary(shift_left_p, x, y); }
Array shift_right_logical(const Operand& x, const Operand& y) {
  return binary(shift_right_logical_p, x, y);
}
Array shift_right_arithmetic(const Operand& x, const Operand& y) {
  return binary(shift_right_arithmetic_p, x, y);
}
Array eq(const Operand& x, const Operand& y) { return binary(eq_p, Op::eq, x, y); }
Array ne(const Operand& x, const Operand& y) { return binary(ne_p, Op::ne, x, y); }
Array lt(const Operand& x, const Operand& y) { return binary(lt_p, Op::lt, x, y); }
Array le(const Operand& x, const Operand& y) { return binary(le_p, Op::le, x, y); }
Array gt(const Operand& x, const Operand& y) { return binary(gt_p, Op::gt, x, y); }
Array ge(const Operand& x, const Operand& y) { return binary(ge_p, Op::ge, x, y); }

Array select(const Operand& pred, const Operand& on_true, const Operand& on_false) {
  return detail::in_call("select", {&pred, &on_true, &on_false}, [&] {
    const auto [t, f] = match("select", on_true.array, on_false.array);
    return select_n_p.bind1({}, {pred.array, f, t});
  });
}

Array select_n(const Operand& which, std::span<const Array> cases) {
  return detail::in_call("select_n", {&which}, [&] {
    Arrays args{which.array};
    args.insert(args.end(), cases.begin(), cases.end());
    return detail::in_call("select_n", which.where, args,
                           [&] { return select_n_p.bind({}, args)[0]; });
  });
}

Array clamp(const Operand& low, const Operand& x, const Operand& high) {
  return detail::in_call("clamp", {&low, &x, &high}, [&] {
    const auto bound = [&](const Array& b) {
      return is_number(b) ? in_dtype_of("clamp", x.array, b) : b;
    };
    return clamp_p.bind1({}, {bound(low.array), x.array, bound(high.array)});
  });
}

Arrays threefry2x32(const Operand& k0, const Operand& k1, const Operand& x0, const Operand& x1) {
  return detail::in_call("threefry2x32", {&k0, &k1, &x0, &x1}, [&] {
    return threefry2x32_p.bind({}, {k0.array, k1.array, x0.array, x1.array});
  });
}

// ---- constants ---------------------------------------------------------------------------------
Array scalar(const Operand& value, DType dtype) {
  return detail::in_call("scalar", {&value}, [&] {
    if (value.array.ndim() != 0)
      throw ShapeError("scalar: the value must be a scalar, got " + value.array.aval().to_string());
    return detail::convert_scalar(value.array, dtype);
  });
}

namespace {
Array full_of_aval(const Aval& aval, double value, SourceLocation where) {
  return detail::in_call("full", where, [&] {
    detail::check_type("full", aval);
    // Under a dynamic trace the broadcast is staged, so that programs hold scalars and not buffers.
    if (aval.shape.empty() || !detail::has_dynamic_trace()) return detail::full_of(aval, value);
    return broadcast(detail::full_of({{}, aval.dtype, aval.weak_type}, value), aval.shape);
  });
}
}  // namespace

Array full(const Aval& aval, double value, SourceLocation where) {
  return full_of_aval(aval.strong(), value, where);
}

Array full(const Shape& shape, DType dtype, double value, SourceLocation where) {
  return full(Aval{shape, dtype, false}, value, where);
}

namespace {
Array full_as(const char* name, const Operand& x, double value) {
  return detail::in_call(name, {&x}, [&] { return full_of_aval(x.array.aval(), value, x.where); });
}
}  // namespace

Array full_like(const Operand& x, double value) { return full_as("full_like", x, value); }
Array zeros_like(const Operand& x) { return full_as("zeros_like", x, 0); }
Array ones_like(const Operand& x) { return full_as("ones_like", x, 1); }

Array iota(DType dtype, const Shape& shape, Axis dimension, SourceLocation where) {
  return detail::in_call("iota", where,
                         [&] { return iota_p.bind1({dtype, shape, dimension}, {}); });
}

Arrays iota_2x32_shape(const Shape& shape, SourceLocation where) {
  return detail::in_call("iota_2x32_shape", where,
                         [&] { return iota_2x32_shape_p.bind({shape}, {}); });
}

// ---- shape -------------------------------------------------------------------------------------
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Shape& broadcast_dimensions) {
  detail::check_operands("broadcast_in_dim", {&x});
  if (x.array.shape() == shape && broadcast_dimensions.size() == shape.size() &&
      is_iota(broadcast_dimensions))
    return x.array;
  return detail::in_call("broadcast_in_dim", {&x}, [&] {
    return broadcast_in_dim_p.bind1({shape, broadcast_dimensions}, {x.array});
  });
}

Array broadcast(const Operand& x, const Shape& sizes) {
  detail::check_operands("broadcast", {&x});
  if (sizes.empty()) return x.array;
  if (x.array.ndim() == 0 && !x.array.is_tracer() && !detail::has_dynamic_trace()) {
    return detail::in_call("broadcast", {&x}, [&] {
      detail::check_type("broadcast", x.array.aval().with_shape(sizes));
      // A constant: the view that the primitive would make. (C++ scalars come this way all the time.)
      return detail::broadcast_view(x.array, x.array.aval().with_shape(sizes),
                                    Shape(sizes.size(), 0));
    });
  }
  Shape shape = sizes;
  Shape dims;
  for (std::int64_t d : x.array.shape()) {
    dims.push_back(shape.ndim());
    shape.push_back(d);
  }
  return broadcast_in_dim(x, shape, dims);
}

Array reshape(const Operand& x, const Shape& new_sizes) {
  detail::check_operands("reshape", {&x});
  if (x.array.shape() == new_sizes) return x.array;
  return detail::in_call("reshape", {&x}, [&] { return reshape_p.bind1({new_sizes}, {x.array}); });
}

Array transpose(const Operand& x, const Shape& permutation) {
  detail::check_operands("transpose", {&x});
  if (permutation.ndim() == x.array.ndim() && is_iota(permutation)) return x.array;
  return detail::in_call("transpose", {&x},
                         [&] { return transpose_p.bind1({permutation}, {x.array}); });
}

Array squeeze(const Operand& x, const Shape& dimensions) {
  detail::check_operands("squeeze", {&x});
  if (dimensions.empty()) return x.array;
  return detail::in_call("squeeze", {&x}, [&] { return squeeze_p.bind1({dimensions}, {x.array}); });
}

Array expand_dims(const Operand& x, const Shape& dimensions) {
  detail::check_operands("expand_dims", {&x});
  if (dimensions.empty()) return x.array;
  return detail::in_call("expand_dims", {&x},
                         [&] { return expand_dims_p.bind1({dimensions}, {x.array}); });
}

Array rev(const Operand& x, const Shape& dimensions) {
  detail::check_operands("rev", {&x});
  if (dimensions.empty()) return x.array;
  return detail::in_call("rev", {&x}, [&] { return rev_p.bind1({dimensions}, {x.array}); });
}

Array concatenate(std::span<const Array> xs, Axis dimension, SourceLocation where) {
  return detail::in_call("concatenate", where, xs, [&] {
    return xs.size() == 1 ? xs[0] : concatenate_p.bind({dimension}, xs)[0];
  });
}

Arrays split(const Operand& x, const Shape& sizes, Axis axis) {
  detail::check_operands("split", {&x});
  if (sizes.size() == 1) return {x.array};
  return detail::in_call("split", {&x}, [&] { return split_p.bind({sizes, axis}, {x.array}); });
}

Array stack(std::span<const Array> xs, Axis axis, SourceLocation where) {
  return detail::in_call("stack", where, xs, [&] { return stack_p.bind({axis}, xs)[0]; });
}

Arrays unstack(const Operand& x, Axis axis) {
  return detail::in_call("unstack", {&x}, [&] { return unstack_p.bind({axis}, {x.array}); });
}

Array pad(const Operand& x, const Operand& value,
          const std::vector<std::array<std::int64_t, 3>>& padding_config) {
  detail::check_operands("pad", {&x, &value});
  const auto none = [](const std::array<std::int64_t, 3>& p) {
    return p == std::array<std::int64_t, 3>{0, 0, 0};
  };
  if (padding_config.size() == x.array.shape().size() &&
      std::all_of(padding_config.begin(), padding_config.end(), none))
    return x.array;
  return detail::in_call("pad", {&x, &value}, [&] {
    const Array fill =
        is_number(value.array) ? in_dtype_of("pad", x.array, value.array) : value.array;
    return pad_p.bind1({padding_config}, {x.array, fill});
  });
}

Array slice(const Operand& x, const Shape& start_indices, const Shape& limit_indices,
            const Shape& strides) {
  detail::check_operands("slice", {&x});
  const auto is = [](std::int64_t v) { return [v](std::int64_t d) { return d == v; }; };
  const bool unit = std::all_of(strides.begin(), strides.end(), is(1));
  const bool from_start = std::all_of(start_indices.begin(), start_indices.end(), is(0));
  const bool all_axes = start_indices.size() == limit_indices.size() &&
                        (strides.empty() || strides.size() == limit_indices.size());
  if (all_axes && unit && from_start && limit_indices == x.array.shape()) return x.array;
  return detail::in_call("slice", {&x}, [&] {
    const bool implied = unit && all_axes;
    return slice_p.bind1({start_indices, limit_indices, implied ? Shape{} : strides}, {x.array});
  });
}

Array slice_in_dim(const Operand& x, std::int64_t start, std::int64_t limit, std::int64_t stride,
                   Axis axis) {
  return detail::in_call("slice_in_dim", {&x}, [&] {
    check_axis("slice_in_dim", axis, x.array);
    const auto n = x.array.shape().size();
    const auto a = static_cast<std::size_t>(axis);
    Shape starts(n, 0), limits = x.array.shape(), strides(n, 1);
    starts[a] = start;
    limits[a] = limit;
    strides[a] = stride;
    return slice(x, starts, limits, strides);
  });
}

Array index_in_dim(const Operand& x, std::int64_t index, Axis axis) {
  return detail::in_call("index_in_dim", {&x}, [&] {
    check_axis("index_in_dim", axis, x.array);
    if (index < 0 || index >= x.array.shape(axis)) {
      throw IndexError("index_in_dim: index " + std::to_string(index) +
                       " is out of bounds for axis " + std::to_string(axis) + " of " +
                       x.array.aval().to_string() + "; indices count from 0");
    }
    return squeeze(slice_in_dim(x, index, index + 1, 1, axis), {axis});
  });
}

Array dynamic_slice(const Operand& x, std::span<const Array> starts, const Shape& slice_sizes) {
  return detail::in_call("dynamic_slice", {&x}, [&] {
    Arrays args{x.array};
    args.insert(args.end(), starts.begin(), starts.end());
    return detail::in_call("dynamic_slice", x.where, args,
                           [&] { return dynamic_slice_p.bind({slice_sizes}, args)[0]; });
  });
}

Array dynamic_slice_in_dim(const Operand& x, const Operand& start, std::int64_t size, Axis axis) {
  return detail::in_call("dynamic_slice_in_dim", {&x, &start}, [&] {
    const Arrays starts = starts_along(x.array, start.array, axis);
    Shape sizes = x.array.shape();
    sizes[static_cast<std::size_t>(axis)] = size;
    return dynamic_slice(x, starts, sizes);
  });
}

Array dynamic_index_in_dim(const Operand& x, const Operand& index, Axis axis) {
  return detail::in_call("dynamic_index_in_dim", {&x, &index},
                         [&] { return squeeze(dynamic_slice_in_dim(x, index, 1, axis), {axis}); });
}

Array dynamic_update_slice(const Operand& x, const Operand& update, std::span<const Array> starts) {
  return detail::in_call("dynamic_update_slice", {&x, &update}, [&] {
    Arrays args{x.array, update.array};
    args.insert(args.end(), starts.begin(), starts.end());
    return detail::in_call("dynamic_update_slice", x.where, args,
                           [&] { return dynamic_update_slice_p.bind({}, args)[0]; });
  });
}

Array dynamic_update_slice_in_dim(const Operand& x, const Operand& update, const Operand& start,
                                  Axis axis) {
  return detail::in_call("dynamic_update_slice_in_dim", {&x, &update, &start}, [&] {
    return dynamic_update_slice(x, update, starts_along(x.array, start.array, axis));
  });
}

// ---- reductions --------------------------------------------------------------------------------
Array reduce_sum(const Operand& x, const Shape& axes) { return reduce(reduce_sum_p, x, axes); }
Array reduce_prod(const Operand& x, const Shape& axes) { return reduce(reduce_prod_p, x, axes); }
Array reduce_max(const Operand& x, const Shape& axes) { return reduce(reduce_max_p, x, axes); }
Array reduce_min(const Operand& x, const Shape& axes) { return reduce(reduce_min_p, x, axes); }
Array reduce_and(const Operand& x, const Shape& axes) { return reduce(reduce_and_p, x, axes); }
Array reduce_or(const Operand& x, const Shape& axes) { return reduce(reduce_or_p, x, axes); }
Array reduce_xor(const Operand& x, const Shape& axes) { return reduce(reduce_xor_p, x, axes); }

Array argmax(const Operand& x, Axis axis, DType index_dtype) {
  return detail::in_call("argmax", {&x},
                         [&] { return argmax_p.bind1({{axis}, index_dtype}, {x.array}); });
}

Array argmin(const Operand& x, Axis axis, DType index_dtype) {
  return detail::in_call("argmin", {&x},
                         [&] { return argmin_p.bind1({{axis}, index_dtype}, {x.array}); });
}

Array cumsum(const Operand& x, Axis axis, bool reverse) {
  return cumulative(cumsum_p, x, axis, reverse);
}
Array cumprod(const Operand& x, Axis axis, bool reverse) {
  return cumulative(cumprod_p, x, axis, reverse);
}
Array cummax(const Operand& x, Axis axis, bool reverse) {
  return cumulative(cummax_p, x, axis, reverse);
}
Array cummin(const Operand& x, Axis axis, bool reverse) {
  return cumulative(cummin_p, x, axis, reverse);
}

// ---- products, indexing, sorting ---------------------------------------------------------------
Array dot_general(const Operand& lhs, const Operand& rhs,
                  const DotDimensionNumbers& dimension_numbers,
                  std::optional<DType> preferred_element_type) {
  return detail::in_call("dot_general", {&lhs, &rhs}, [&] {
    return dot_general_p.bind1({dimension_numbers, preferred_element_type}, {lhs.array, rhs.array});
  });
}

Array gather(const Operand& x, const Operand& indices, const GatherParams& params) {
  return detail::in_call("gather", {&x, &indices},
                         [&] { return gather_p.bind1(params, {x.array, indices.array}); });
}

Array scatter(const Operand& x, const Operand& indices, const Operand& updates,
              const ScatterParams& params) {
  return detail::in_call("scatter", {&x, &indices, &updates}, [&] {
    return scatter_p.bind1(params, {x.array, indices.array, updates.array});
  });
}

Array scatter_add(const Operand& x, const Operand& indices, const Operand& updates,
                  const ScatterParams& params) {
  return detail::in_call("scatter_add", {&x, &indices, &updates}, [&] {
    return scatter_add_p.bind1(params, {x.array, indices.array, updates.array});
  });
}

Arrays sort(std::span<const Array> xs, Axis dimension, int num_keys, SourceLocation where) {
  return detail::in_call("sort", where, xs,
                         [&] { return sort_p.bind({dimension, true, num_keys}, xs); });
}

Array sort(const Operand& x, Axis dimension) {
  return detail::in_call("sort", {&x},
                         [&] { return sort_p.bind1({dimension, true, 1}, {x.array}); });
}

}  // namespace lax
}  // namespace v1
}  // namespace telamon
