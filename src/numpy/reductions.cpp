// Reductions, arg-reductions and running reductions.
#include <algorithm>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "core/in_call.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace {

/// The reduced result with the reduced axes put back at size 1, if that was asked for.
Array finish(const Array& reduced, const Shape& axes, bool keepdims) {
  return keepdims ? lax::expand_dims(reduced, axes) : reduced;
}

/// Bools and narrow integers add up in the width of the default int; strong.
Array widened(const Array& x) {
  const DType d = x.dtype();
  if (d == DType::bool_) return detail::numeric(x);
  if (!is_integer(d) || size_of(d) >= size_of(default_int())) return detail::strong(x);
  const bool wide = size_of(default_int()) == 8;
  const DType unsigned_int = wide ? DType::u64 : DType::u32;
  return detail::to_type(x, {is_signed_integer(d) ? default_int() : unsigned_int, false});
}

/// An array without elements along the axes has no largest one.
void check_not_empty(const char* name, const Array& x, const Shape& axes) {
  for (std::int64_t a : axes) {
    if (x.shape()[static_cast<std::size_t>(a)] == 0) {
      throw ValueError(std::string(name) + " of no elements: axis " + std::to_string(a) + " of " +
                       x.aval().to_string() + " is empty, and " + name +
                       " has no identity; look at x.size() first, or concatenate the value that "
                       "an empty array is to give");
    }
  }
}

/// A sum of 16-bit floats may leave the range that the mean stays in: it is taken in f32.
Array wide(const Array& x) {
  return detail::is_small_float(x.dtype()) ? lax::convert_element_type(x, DType::f32) : x;
}

double count_of(const Array& x, const Shape& axes) {
  double n = 1;
  for (std::int64_t a : axes) n *= static_cast<double>(x.shape()[static_cast<std::size_t>(a)]);
  return n;
}

using Strict = Array (*)(const Operand&, const Shape&);

Array reduce(const char* name, Strict strict, const Array& x, const Reduce& options) {
  const Shape axes = detail::canonical_axes(name, options.axes, x);
  return finish(strict(x, axes), axes, options.keepdims);
}

Array extremum(const char* name, Strict strict, Strict on_bool, const Operand& x,
               const Reduce& options) {
  return detail::in_call(name, {&x}, [&] {
    const Array a = detail::strong(x.array);
    check_not_empty(name, a, detail::canonical_axes(name, options.axes, a));
    return reduce(name, a.dtype() == DType::bool_ ? on_bool : strict, a, options);
  });
}

using StrictIndex = Array (*)(const Operand&, Axis, DType);

Array arg_extremum(const char* name, StrictIndex strict, const Operand& x, OptionalAxis axis,
                   bool keepdims) {
  return detail::in_call(name, {&x}, [&] {
    const Array flat = axis ? x.array : ravel(x.array);
    const std::int64_t a = detail::canonical_axis(name, axis.value_or(0), flat);
    if (flat.shape()[static_cast<std::size_t>(a)] == 0) {
      throw ValueError("attempt to get " + std::string(name) + " of an empty sequence: " +
                       (axis ? "axis " + std::to_string(a) + " of " : "") +
                       x.array.aval().to_string() +
                       " has no elements, so there is no index to give; look at x.size() first");
    }
    const Array index = strict(flat, a, default_int());
    if (!keepdims) return index;
    return axis ? lax::expand_dims(index, {a})
                : lax::reshape(index, Shape(x.array.shape().size(), 1));
  });
}

using StrictRunning = Array (*)(const Operand&, Axis, bool);

Array running(const char* name, StrictRunning strict, const Array& x, OptionalAxis axis) {
  const Array flat = axis ? x : ravel(x);
  return strict(flat, detail::canonical_axis(name, axis.value_or(0), flat), false);
}

}  // namespace

namespace detail {
namespace numpy {

Array sum(const Operand& x, const Reduce& options) {
  return detail::in_call("sum", {&x},
                         [&] { return reduce("sum", lax::reduce_sum, widened(x.array), options); });
}

Array prod(const Operand& x, const Reduce& options) {
  return detail::in_call(
      "prod", {&x}, [&] { return reduce("prod", lax::reduce_prod, widened(x.array), options); });
}

Array mean(const Operand& x, const Reduce& options) {
  return detail::in_call("mean", {&x}, [&] {
    const Array a = strong(inexact(x.array));
    const Shape axes = canonical_axes("mean", options.axes, a);
    const Array total = reduce("mean", lax::reduce_sum, wide(a), options);
    return lax::convert_element_type(divide(total, count_of(a, axes)), a.dtype());
  });
}

Array max(const Operand& x, const Reduce& options) {
  return extremum("max", lax::reduce_max, lax::reduce_or, x, options);
}

Array min(const Operand& x, const Reduce& options) {
  return extremum("min", lax::reduce_min, lax::reduce_and, x, options);
}

Array all(const Operand& x, const Reduce& options) {
  return detail::in_call(
      "all", {&x}, [&] { return reduce("all", lax::reduce_and, strong(truth(x.array)), options); });
}

Array any(const Operand& x, const Reduce& options) {
  return detail::in_call(
      "any", {&x}, [&] { return reduce("any", lax::reduce_or, strong(truth(x.array)), options); });
}

// The mean of the squared distances from the mean; n - ddof in the place of n. NaN when nothing is
// left of n.
Array var(const Operand& x, const VarianceOptions& options) {
  return detail::in_call("var", {&x}, [&] {
    const Array a = strong(inexact(x.array));
    if (is_complex(a.dtype())) {
      throw NotImplementedError("var: the magnitudes of complex numbers are not available, got " +
                                a.aval().to_string());
    }
    const Shape axes = canonical_axes("var", options.axes, a);
    const Array terms = wide(a);
    const Array centered = subtract(terms, mean(terms, {.axes = axes, .keepdims = true}));
    const Array total = lax::reduce_sum(lax::square(centered), axes);
    const double divisor = count_of(a, axes) - options.ddof;
    const Array result = divide(total, divisor > 0 ? divisor : nan);
    return finish(lax::convert_element_type(result, a.dtype()), axes, options.keepdims);
  });
}

Array std_(const Operand& x, const VarianceOptions& options) {
  return detail::in_call("std_", {&x}, [&] { return lax::sqrt(var(x, options)); });
}

// m + log(sum(exp(x - m))) with m the largest element, or 0 where that is not finite.
Array logsumexp(const Operand& x, const Reduce& options) {
  return detail::in_call("logsumexp", {&x}, [&] {
    const Array a = strong(inexact(x.array));
    const Shape axes = canonical_axes("logsumexp", options.axes, a);
    const auto empty = [&](std::int64_t axis) { return a.shape(static_cast<int>(axis)) == 0; };
    if (std::any_of(axes.begin(), axes.end(), empty))  // nothing to shift by: log(0)
      return lax::log(sum(a, options));
    const Array largest = lax::stop_gradient(
        lax::expand_dims(reduce("logsumexp", lax::reduce_max, a, {.axes = axes}), axes));
    const Array m = lax::select(lax::is_finite(largest), largest, lax::zeros_like(largest));
    const Array total = lax::reduce_sum(lax::exp(subtract(a, m)), axes);
    const Array result = lax::add(lax::log(total), lax::reshape(m, total.shape()));
    return finish(result, axes, options.keepdims);
  });
}

}  // namespace numpy
}  // namespace detail

Array argmax(const Operand& x, OptionalAxis axis, bool keepdims) {
  return arg_extremum("argmax", lax::argmax, x, axis, keepdims);
}

Array argmin(const Operand& x, OptionalAxis axis, bool keepdims) {
  return arg_extremum("argmin", lax::argmin, x, axis, keepdims);
}

Array cumsum(const Operand& x, OptionalAxis axis) {
  return detail::in_call("cumsum", {&x}, [&] {
    return running("cumsum", lax::cumsum, detail::strong(detail::numeric(x.array)), axis);
  });
}

Array cumprod(const Operand& x, OptionalAxis axis) {
  return detail::in_call("cumprod", {&x}, [&] {
    return running("cumprod", lax::cumprod, detail::strong(detail::numeric(x.array)), axis);
  });
}

Array cummax(const Operand& x, OptionalAxis axis) {
  return detail::in_call("cummax", {&x},
                         [&] { return running("cummax", lax::cummax, x.array, axis); });
}

Array cummin(const Operand& x, OptionalAxis axis) {
  return detail::in_call("cummin", {&x},
                         [&] { return running("cummin", lax::cummin, x.array, axis); });
}

Array diff(const Operand& x, std::int64_t n, Axis axis) {
  return detail::in_call("diff", {&x}, [&] {
    const std::int64_t a = detail::canonical_axis("diff", axis, x.array);
    if (n < 0) throw ValueError("diff: n must not be negative, got " + std::to_string(n));
    Array out = x.array;
    for (; n > 0; --n) {
      const std::int64_t size = out.shape(static_cast<int>(a));
      if (size == 0) break;
      const Array upper = lax::slice_in_dim(out, 1, size, 1, a),
                  lower = lax::slice_in_dim(out, 0, size - 1, 1, a);
      out = out.dtype() == DType::bool_ ? lax::ne(upper, lower) : lax::sub(upper, lower);
    }
    return out;
  });
}

}  // namespace v1
}  // namespace telamon
