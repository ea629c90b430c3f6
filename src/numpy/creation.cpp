// Functions that make arrays.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "core/integers.hpp"
#include "core/trace.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {

namespace {

/// The dtype of what is created from a value: C++ numbers give the defaults.
DType creation_dtype(TypeInfo type) {
  if (!type.weak || type.dtype == DType::bool_ || is_complex(type.dtype)) return type.dtype;
  return is_float(type.dtype) ? default_float() : default_int();
}

/// How many numbers first, first + by, ... lie before last.
std::int64_t integers_between(std::int64_t first, std::int64_t last, std::int64_t by) {
  if (by > 0 ? first >= last : first <= last) return 0;
  const auto as_unsigned = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  const std::uint64_t span =
      by > 0 ? as_unsigned(last) - as_unsigned(first) : as_unsigned(first) - as_unsigned(last);
  const std::uint64_t step = by > 0 ? as_unsigned(by) : 0 - as_unsigned(by);
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min((span - 1) / step + 1, kMost));
}

std::int64_t floats_between(double first, double last, double by) {
  const double count = std::ceil((last - first) / by);
  return count >= 0x1p63 ? std::numeric_limits<std::int64_t>::max()
                         : static_cast<std::int64_t>(std::max(count, 0.0));
}

// The dtype of what zeros and ones make, after a look at the type in their name.
DType checked_dtype(std::string_view name, const Shape& shape, std::optional<DType> dtype) {
  const DType d = dtype.value_or(default_float());
  detail::check_type(name, {shape, d});
  return d;
}

}  // namespace

Array asarray(const Operand& x, std::optional<DType> dtype) {
  return detail::in_call("asarray", {&x},
                         [&] { return dtype ? x.array.astype(*dtype) : detail::strong(x.array); });
}

Array detail::array_of(const Array& values, std::optional<DType> dtype, SourceLocation where) {
  return in_call("array", where, [&] {
    if (dtype && is_integer(*dtype) && is_integer(values.dtype()))
      check_integers_fit(values, *dtype);
    return asarray(values, dtype);
  });
}

Array zeros(const Shape& shape, std::optional<DType> dtype, SourceLocation where) {
  return detail::in_call("zeros", where, [&] {
    return lax::full(shape, checked_dtype("zeros", shape, dtype), 0, where);
  });
}

Array ones(const Shape& shape, std::optional<DType> dtype, SourceLocation where) {
  return detail::in_call("ones", where, [&] {
    return lax::full(shape, checked_dtype("ones", shape, dtype), 1, where);
  });
}

Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype) {
  return detail::in_call("full", {&value}, [&] {
    const Array v =
        asarray(value.array, dtype.value_or(creation_dtype(detail::type_of(value.array))));
    detail::check_type("full", {shape, v.dtype()});
    return broadcast_to(v, shape);
  });
}

Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype) {
  return detail::in_call("full_like", {&x, &value}, [&] {
    const Array v = asarray(value.array, dtype.value_or(x.array.dtype()));
    const bool weak = !dtype && x.array.weak_type();
    return broadcast_to(detail::to_type(v, {v.dtype(), weak}), x.array.shape());
  });
}

Array zeros_like(const Operand& x, std::optional<DType> dtype) {
  return detail::in_call("zeros_like", {&x}, [&] {
    return dtype ? lax::full(x.array.shape(), *dtype, 0, x.where) : lax::zeros_like(x);
  });
}

Array ones_like(const Operand& x, std::optional<DType> dtype) {
  return detail::in_call("ones_like", {&x}, [&] {
    return dtype ? lax::full(x.array.shape(), *dtype, 1, x.where) : lax::ones_like(x);
  });
}

Array eye(std::int64_t n, std::optional<std::int64_t> m, std::int64_t k, std::optional<DType> dtype,
          SourceLocation where) {
  return detail::in_call("eye", where, [&] {
    const Shape shape{n, m.value_or(n)};
    detail::check_dense("eye", {shape, dtype.value_or(default_float())});
    // Diagonals beyond the corners are all empty: the nearest of them.
    const auto offset = static_cast<double>(std::clamp(k, -shape[0], shape[1]));
    const bool large = std::max(shape[0], shape[1]) > std::numeric_limits<std::int32_t>::max() / 2;
    const DType d = large ? DType::i64 : DType::i32;
    const Array rows = lax::iota(d, shape, 0), columns = lax::iota(d, shape, 1);
    const Array on_diagonal = lax::eq(lax::add(rows, lax::full_like(rows, offset)), columns);
    return lax::convert_element_type(on_diagonal, dtype.value_or(default_float()));
  });
}

Array arange(const Operand& stop, std::optional<DType> dtype) {
  return detail::in_call("arange", {&stop}, [&] {
    const DType d = dtype.value_or(creation_dtype(detail::type_of(stop.array)));
    return arange(Operand(Array(0), stop.where), stop, 1, d);
  });
}

// start + i * step for i = 0, ..., ceil((stop - start) / step) - 1.
Array arange(const Operand& start, const Operand& stop, const Operand& step,
             std::optional<DType> dtype) {
  return detail::in_call("arange", {&start, &stop, &step}, [&] {
    const Array bounds[] = {start.array, stop.array, step.array};
    const DType d = dtype.value_or(creation_dtype(detail::result_type(bounds)));
    for (const Array& b : bounds) {
      if (b.ndim() != 0) detail::type_error("arange", "scalars", b);
      detail::concrete_value(b, "arange (its bounds decide the shape)");
      constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
      const bool large = b.dtype() == DType::u64 && b.item<std::uint64_t>() > kMost;
      if (!large && std::isfinite(b.item<double>())) continue;
      throw ValueError("arange: start, stop and step must be " +
                       std::string(large ? "below 2^63" : "finite") + ", got " + b.to_string());
    }
    if (step.array.item<double>() == 0) throw ValueError("arange: the step is 0");
    const bool integers = is_integer(detail::result_type(bounds).dtype);
    const auto count =
        integers
            ? integers_between(start.array.item<std::int64_t>(), stop.array.item<std::int64_t>(),
                               step.array.item<std::int64_t>())
            : floats_between(start.array.item<double>(), stop.array.item<double>(),
                             step.array.item<double>());
    detail::check_dense("arange", {{count}, d});
    if (integers && is_integer(d) && count > 0) {  // between them all others fit
      const std::int64_t first = start.array.item<std::int64_t>();
      for (const std::int64_t i : {std::int64_t{0}, count - 1})
        detail::convert_scalar(
            Array(detail::wrapping_add(first,
                                       detail::wrapping_mul(i, step.array.item<std::int64_t>()))),
            d);
    }
    const Array index = lax::iota(d, {count});
    const auto is = [](const Array& x, double v) { return x.item<double>() == v; };
    const Array scaled =
        is(step.array, 1) ? index : lax::mul(index, full(index.shape(), step.array, d));
    return is(start.array, 0) ? scaled : lax::add(scaled, full(index.shape(), start.array, d));
  });
}

// start * (1 - t) + stop * t for t = 0, 1/n, ..., 1: both ends come out exactly.
Array linspace(const Operand& start, const Operand& stop, std::int64_t count,
               const LinspaceOptions& options) {
  return detail::in_call("linspace", {&start, &stop}, [&] {
    if (count < 0)
      throw ValueError("linspace: the count must not be negative, got " + std::to_string(count));
    const Array ends[] = {start.array, stop.array};
    const TypeInfo type = detail::to_inexact(detail::result_type(ends));
    const DType d = options.dtype.value_or(creation_dtype(type));
    const DType computed = is_inexact(d) ? d : default_float();
    const auto [a, b] =
        detail::promote("linspace", asarray(start.array, computed), asarray(stop.array, computed));
    // The last point is `stop` itself.
    const bool closed = options.endpoint && count > 1;
    Shape shape = a.shape();
    shape.insert(0, closed ? count - 1 : count);
    detail::check_dense("linspace", {shape, computed});
    const std::int64_t intervals = closed ? count - 1 : std::max<std::int64_t>(count, 1);
    const Array t = lax::div(lax::iota(computed, shape, 0),
                             lax::full(shape, computed, static_cast<double>(intervals)));
    const Array rest = lax::sub(lax::ones_like(t), t);
    Array points = lax::add(lax::mul(detail::broadcast_array(a, shape), rest),
                            lax::mul(detail::broadcast_array(b, shape), t));
    if (closed) {
      const Array both[] = {points, lax::expand_dims(b, {0})};
      points = lax::concatenate(both, 0);
    }
    return asarray(is_integer(d) ? lax::floor(points) : points, d);
  });
}

Arrays meshgrid(const Arrays& xs, bool ij, SourceLocation where) {
  return detail::in_call("meshgrid", where, xs, [&] {
    Shape shape;
    for (const Array& x : xs) shape.push_back(x.size());
    const bool swap = !ij && xs.size() >= 2;
    if (swap) std::swap(shape[0], shape[1]);
    Arrays out;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const std::size_t axis = swap && i < 2 ? 1 - i : i;
      out.push_back(lax::broadcast_in_dim(ravel(xs[i]), shape, {static_cast<std::int64_t>(axis)}));
    }
    return out;
  });
}

}  // namespace v1
}  // namespace telamon
