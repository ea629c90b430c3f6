// Products of arrays, and what is made from them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/in_call.hpp"
#include "numpy/labelled.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using detail::canonical_axis;

std::pair<Array, Array> promoted(const Array& x, const Array& y) {
  const Array both[] = {x, y};
  const Arrays same = detail::promote_dtypes(both);
  return {same[0], same[1]};
}

void check_contraction(const char* name, const Array& x, const Array& y, std::int64_t x_axis,
                       std::int64_t y_axis) {
  const std::int64_t nx = x.shape(static_cast<int>(x_axis)), ny = y.shape(static_cast<int>(y_axis));
  if (nx == ny) return;
  throw ShapeError(std::string(name) + " got incompatible shapes: " + x.aval().to_string() + ", " +
                   y.aval().to_string() + "\n  Axis " + std::to_string(x_axis) +
                   " of the first has size " + std::to_string(nx) + ", axis " +
                   std::to_string(y_axis) + " of the second " + std::to_string(ny) + ".");
}

/// Sums products over pairs of axes: the free axes of x come first, then those of y.
Array contract(const char* name, const Array& x, const Array& y, const Shape& x_axes,
               const Shape& y_axes) {
  for (std::size_t i = 0; i < x_axes.size(); ++i)
    check_contraction(name, x, y, x_axes[i], y_axes[i]);
  return lax::dot_general(x, y, {.lhs_contracting = x_axes, .rhs_contracting = y_axes});
}

/// Labels of the leading axes of a matrix product, aligned from the right.
std::string leading_labels(std::int64_t count) {
  std::string out;
  for (int i = count - 1; i >= 0; --i) out.push_back(static_cast<char>('A' + i));
  return out;
}

}  // namespace

// Leading axes are the labels A, B, ... (from the right), the matrix axes r k and k c.
Array matmul(const Operand& x, const Operand& y) {
  return detail::in_call("matmul", {&x, &y}, [&] {
    const auto [a, b] = promoted(x.array, y.array);
    for (const Array* m : {&a, &b}) {
      if (m->ndim() == 0)
        detail::type_error("matmul", "at least one dimension (use * for scalars)", *m);
    }
    const int a_leading = std::max(0, a.ndim() - 2), b_leading = std::max(0, b.ndim() - 2);
    check_contraction("matmul", a, b, a.ndim() - 1, b.ndim() == 1 ? 0 : b.ndim() - 2);
    const std::string row = a.ndim() == 1 ? "" : "r", column = b.ndim() == 1 ? "" : "c";
    const detail::Labelled left{a, leading_labels(a_leading) + row + "k"};
    const detail::Labelled right{b, leading_labels(b_leading) + "k" + column};
    const std::string leading = leading_labels(std::max(a_leading, b_leading));
    for (char label : leading) {
      const std::int64_t n = left.size_of(label), m = right.size_of(label);
      if (n == m || n == 1 || m == 1) continue;
      throw ShapeError("matmul got incompatible leading shapes for broadcasting: " +
                       a.aval().to_string() + ", " + b.aval().to_string());
    }
    const std::string result = leading + row + column;
    return detail::arranged(detail::contract(left, right, result), result);
  });
}

Array dot(const Operand& x, const Operand& y) {
  return detail::in_call("dot", {&x, &y}, [&] {
    if (x.array.ndim() == 0 || y.array.ndim() == 0) return multiply(x, y);
    const auto [a, b] = promoted(x.array, y.array);
    return contract("dot", a, b, {a.ndim() - 1}, {b.ndim() == 1 ? 0 : b.ndim() - 2});
  });
}

Array vdot(const Operand& x, const Operand& y) {
  return detail::in_call("vdot", {&x, &y}, [&] {
    if (is_complex(x.array.dtype()))
      detail::type_error(
          "vdot", "real numbers as its first operand, which it would conjugate (dot does not)",
          x.array);
    return dot(ravel(x.array), ravel(y.array));
  });
}

Array inner(const Operand& x, const Operand& y) {
  return detail::in_call("inner", {&x, &y}, [&] {
    if (x.array.ndim() == 0 || y.array.ndim() == 0) return multiply(x, y);
    const auto [a, b] = promoted(x.array, y.array);
    return contract("inner", a, b, {a.ndim() - 1}, {b.ndim() - 1});
  });
}

Array outer(const Operand& x, const Operand& y) {
  return detail::in_call("outer", {&x, &y}, [&] {
    detail::check_dense("outer", x.array.aval().with_shape({x.array.size(), y.array.size()}));
    return multiply(lax::expand_dims(ravel(x.array), {1}), ravel(y.array));
  });
}

Array tensordot(const Operand& x, const Operand& y, const Shape& x_axes, const Shape& y_axes) {
  return detail::in_call("tensordot", {&x, &y}, [&] {
    if (x_axes.size() != y_axes.size()) {
      throw ValueError("tensordot: " + x_axes.to_string() + " and " + y_axes.to_string() +
                       " do not pair up");
    }
    const auto [a, b] = promoted(x.array, y.array);
    Shape from_a, from_b;
    for (std::int64_t axis : x_axes) from_a.push_back(canonical_axis("tensordot", axis, a));
    for (std::int64_t axis : y_axes) from_b.push_back(canonical_axis("tensordot", axis, b));
    if (from_a.empty()) {
      Shape column = a.shape();
      column.resize(column.size() + b.shape().size(), 1);
      return multiply(lax::reshape(a, column), b);
    }
    return contract("tensordot", a, b, from_a, from_b);
  });
}

Array tensordot(const Operand& x, const Operand& y, std::int64_t axes) {
  return detail::in_call("tensordot", {&x, &y}, [&] {
    if (axes < 0 || axes > std::min(x.array.ndim(), y.array.ndim())) {
      throw ValueError("tensordot: cannot contract " + detail::counted(axes, "axis", "axes") +
                       " of " + x.array.aval().to_string() + " and " + y.array.aval().to_string());
    }
    Shape x_axes, y_axes;
    for (std::int64_t i = 0; i < axes; ++i) {
      x_axes.push_back(x.array.ndim() - axes + i);
      y_axes.push_back(i);
    }
    return tensordot(x, y, x_axes, y_axes);
  });
}

Array trace(const Operand& x, std::int64_t offset, Axis axis1, Axis axis2) {
  return detail::in_call("trace", {&x},
                         [&] { return sum(diagonal(x.array, offset, axis1, axis2), -1); });
}

// (x1 y2 - x2 y1, x2 y0 - x0 y2, x0 y1 - x1 y0)
Array cross(const Operand& x, const Operand& y) {
  return detail::in_call("cross", {&x, &y}, [&] {
    for (const Operand* o : {&x, &y}) {
      if (o->array.ndim() == 0 || o->array.shape(-1) != 3) {
        detail::type_error("cross", "a last axis of size 3", o->array);
      }
    }
    const auto [a, b] = detail::promote("cross", x.array, y.array);
    const int axis = a.ndim() - 1;
    const Arrays p = lax::unstack(a, axis), q = lax::unstack(b, axis);
    const auto minor = [&](std::size_t i, std::size_t j) {
      return lax::sub(lax::mul(p[i], q[j]), lax::mul(p[j], q[i]));
    };
    const Array components[] = {minor(1, 2), minor(2, 0), minor(0, 1)};
    return lax::stack(components, axis);
  });
}

namespace {
// The largest (or smallest) sum of absolute values: of the columns for p = 1 and -1, of the rows for
// p = inf and -inf. The first of the axes is that of the rows.
Array matrix_norm(const Array& x, double p, const Shape& axes, bool keepdims) {
  const bool columns = std::abs(p) == 1;
  if (!columns && std::abs(p) != inf) {
    throw NotImplementedError(
        fmt::format("norm: of a matrix the orders 1, -1, inf and -inf are there, not {}; leave "
                    "`ord` out for the Frobenius norm",
                    p));
  }
  const std::int64_t summed = columns ? axes[0] : axes[1], other = columns ? axes[1] : axes[0];
  const Array sums = sum(lax::abs(x), {.axes = {summed}, .keepdims = true});
  const Array extreme = p > 0 ? max(sums, {.axes = {other}, .keepdims = true})
                              : min(sums, {.axes = {other}, .keepdims = true});
  return keepdims ? extreme : lax::squeeze(extreme, axes);
}
// In the order in which they were given, where they are two.
Shape as_given(const Shape& axes, const AxisList& given, int ndim) {
  if (given.all() || axes.size() != 2) return axes;
  const std::int64_t first = given.list()[0];
  return (first < 0 ? first + ndim : first) == axes[0] ? axes : Shape{axes[1], axes[0]};
}
}  // namespace

// (sum |x|^p)^(1/p); the limits p = inf, -inf, 0 are the largest, the smallest, the count of
// elements that are not zero.
Array norm(const Operand& x, const NormOptions& options) {
  return detail::in_call("norm", {&x}, [&] {
    const Array a = detail::strong(detail::inexact(x.array));
    const Shape axes = detail::canonical_axes("norm", options.axes, a);
    const Reduce reduce{.axes = axes, .keepdims = options.keepdims};
    const double p = options.ord.value_or(2);
    if (options.ord && axes.size() == 2)
      return matrix_norm(a, p, as_given(axes, options.axes, a.ndim()), options.keepdims);
    if (options.ord && axes.size() != 1) {
      throw ValueError(
          "norm: an order needs one axis (a vector norm) or two (a matrix norm), got " +
          std::to_string(axes.size()) + " of " + a.aval().to_string());
    }
    if (p == 2) return lax::sqrt(sum(lax::square(a), reduce));
    if (p == inf && a.size() == 0) return sum(a, reduce);  // the largest of no magnitudes is 0
    if (p == inf) return max(lax::abs(a), reduce);
    if (p == -inf) return min(lax::abs(a), reduce);
    if (p == 0)
      return sum(lax::convert_element_type(lax::ne(a, lax::zeros_like(a)), a.dtype()), reduce);
    if (p == 1) return sum(lax::abs(a), reduce);
    return power(sum(power(lax::abs(a), p), reduce), 1 / p);
  });
}

}  // namespace v1
}  // namespace telamon
