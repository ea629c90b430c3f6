// Functions that move, join, cut and repeat elements.
#include <algorithm>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/in_call.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {

using detail::canonical_axis;

namespace {

/// The shape with its -1 replaced by what the number of elements asks for.
Shape inferred_shape(const Array& x, const Shape& shape) {
  Shape out = shape;
  int unknown = -1;
  std::int64_t known = 1;
  bool overflow = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= 0) {
      overflow = __builtin_mul_overflow(known, out[i], &known) || overflow;
    } else if (out[i] == -1 && unknown < 0) {
      unknown = static_cast<int>(i);
    } else {
      throw ShapeError("reshape: at most one size may be -1, and none less: " + shape.to_string());
    }
  }
  if (unknown >= 0 && known > 0 && !overflow && x.size() % known == 0) {
    out[static_cast<std::size_t>(unknown)] = x.size() / known;
  }
  if (out.contains(-1) || (overflow && !out.contains(0)) || out.num_elements() != x.size()) {
    throw ShapeError("reshape: cannot reshape " + x.aval().to_string() + " (" +
                     detail::counted(x.size(), "element") + ") into shape " + shape.to_string());
  }
  return out;
}

/// a * b; ShapeError when that overflows.
std::int64_t product(const char* name, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  throw ShapeError(std::string(name) + ": " + std::to_string(a) + " * " +
                   detail::counted(b, "element") + " are more than any array has");
}

/// Diagonals beyond the corners of a matrix are all empty: the nearest of them.
std::int64_t diagonal_within(std::int64_t k, std::int64_t rows, std::int64_t columns) {
  return std::clamp(k, -rows, columns);
}

void check_not_empty_list(const char* name, const Arrays& xs) {
  if (xs.empty()) throw ValueError(std::string(name) + " needs at least one array");
}

}  // namespace

Array reshape(const Operand& x, const Shape& shape) {
  return detail::in_call("reshape", {&x},
                         [&] { return lax::reshape(x.array, inferred_shape(x.array, shape)); });
}

Array ravel(const Operand& x) {
  return detail::in_call("ravel", {&x}, [&] { return lax::reshape(x.array, {x.array.size()}); });
}

Array transpose(const Operand& x, const AxisList& permutation) {
  return detail::in_call("transpose", {&x}, [&] {
    Shape perm;
    if (permutation.all()) {
      for (int i = x.array.ndim() - 1; i >= 0; --i) perm.push_back(i);
    } else {
      for (std::int64_t a : permutation.list())
        perm.push_back(canonical_axis("transpose", a, x.array));
      Shape sorted = perm;
      std::sort(sorted.begin(), sorted.end());
      if (sorted != detail::iota_axes(x.array.ndim())) {
        throw ValueError("transpose: " + permutation.list().to_string() +
                         " is not a permutation of the axes of " + x.array.aval().to_string());
      }
    }
    return lax::transpose(x.array, perm);
  });
}

Array swapaxes(const Operand& x, Axis axis1, Axis axis2) {
  return detail::in_call("swapaxes", {&x}, [&] {
    Shape perm = detail::iota_axes(x.array.ndim());
    std::swap(perm[static_cast<std::size_t>(canonical_axis("swapaxes", axis1, x.array))],
              perm[static_cast<std::size_t>(canonical_axis("swapaxes", axis2, x.array))]);
    return lax::transpose(x.array, perm);
  });
}

Array moveaxis(const Operand& x, Axis source, Axis destination) {
  return detail::in_call("moveaxis", {&x}, [&] {
    Shape perm = detail::iota_axes(x.array.ndim());
    const std::int64_t from = canonical_axis("moveaxis", source, x.array);
    perm.erase(static_cast<std::size_t>(from));
    perm.insert(static_cast<std::size_t>(canonical_axis("moveaxis", destination, x.array)), from);
    return lax::transpose(x.array, perm);
  });
}

Array expand_dims(const Operand& x, const AxisList& axes) {
  return detail::in_call("expand_dims", {&x}, [&] {
    if (axes.all()) throw ValueError("expand_dims needs the positions of the new axes");
    const int ndim = x.array.ndim() + axes.list().ndim();
    Shape positions;
    for (std::int64_t a : axes.list()) {
      const std::int64_t p = canonical_axis("expand_dims", a, ndim);
      if (positions.contains(p))
        throw ValueError("expand_dims: position " + std::to_string(a) + " occurs twice");
      positions.push_back(p);
    }
    std::sort(positions.begin(), positions.end());
    return lax::expand_dims(x.array, positions);
  });
}

Array squeeze(const Operand& x, const AxisList& axes) {
  return detail::in_call("squeeze", {&x}, [&] {
    Shape dims;
    if (axes.all()) {
      for (int i = 0; i < x.array.ndim(); ++i) {
        if (x.array.shape(i) == 1) dims.push_back(i);
      }
    } else {
      dims = detail::canonical_axes("squeeze", axes, x.array);
      for (std::int64_t d : dims) {
        if (x.array.shape(static_cast<int>(d)) != 1) {
          throw ValueError("squeeze: axis " + std::to_string(d) + " of " +
                           x.array.aval().to_string() + " does not have size 1");
        }
      }
    }
    return lax::squeeze(x.array, dims);
  });
}

Array broadcast_to(const Operand& x, const Shape& shape) {
  return detail::in_call("broadcast_to", {&x}, [&] {
    const Shape& own = x.array.shape();
    bool fits = own.size() <= shape.size();
    for (std::size_t i = 0; fits && i < own.size(); ++i) {
      const std::int64_t wanted = shape[shape.size() - own.size() + i];
      fits = own[i] == 1 || own[i] == wanted;
    }
    detail::check_type("broadcast_to", x.array.aval().with_shape(shape));
    if (!fits) {
      throw ShapeError("broadcast_to: " + x.array.aval().to_string() +
                       " does not broadcast to shape " + shape.to_string());
    }
    return detail::broadcast_array(x.array, shape);
  });
}

Arrays broadcast_arrays(const Arrays& xs, SourceLocation where) {
  return detail::in_call("broadcast_arrays", where, xs, [&]() -> Arrays {
    if (xs.empty()) return {};
    const Shape shape = detail::broadcast_shapes("broadcast_arrays", xs);
    Arrays out;
    for (const Array& x : xs) out.push_back(detail::broadcast_array(x, shape));
    return out;
  });
}

Array flip(const Operand& x, const AxisList& axes) {
  return detail::in_call("flip", {&x}, [&] {
    return lax::rev(x.array, detail::canonical_axes("flip", axes, x.array));
  });
}

Array concatenate(const Arrays& xs, Axis axis, SourceLocation where) {
  return detail::in_call("concatenate", where, xs, [&] {
    check_not_empty_list("concatenate", xs);
    if (xs[0].ndim() == 0)
      throw ValueError("concatenate needs arrays of at least one dimension: use stack");
    return lax::concatenate(detail::promote_dtypes(xs), canonical_axis("concatenate", axis, xs[0]));
  });
}

Array stack(const Arrays& xs, Axis axis, SourceLocation where) {
  return detail::in_call("stack", where, xs, [&] {
    check_not_empty_list("stack", xs);
    for (const Array& x : xs) {
      if (x.shape() != xs[0].shape()) {
        throw ShapeError("stack needs arrays of one shape, got " + xs[0].aval().to_string() +
                         " and " + x.aval().to_string());
      }
    }
    return lax::stack(detail::promote_dtypes(xs), canonical_axis("stack", axis, xs[0].ndim() + 1));
  });
}

Arrays unstack(const Operand& x, Axis axis) {
  return detail::in_call("unstack", {&x}, [&] {
    const std::int64_t a = canonical_axis("unstack", axis, x.array);
    detail::check_number_of_results("unstack", x.array, x.array.shape(a));
    return lax::unstack(x.array, a);
  });
}

Arrays split(const Operand& x, std::int64_t sections, Axis axis) {
  return detail::in_call("split", {&x}, [&] {
    const std::int64_t a = canonical_axis("split", axis, x.array);
    const std::int64_t size = x.array.shape(static_cast<int>(a));
    if (sections <= 0 || size % sections != 0) {
      throw ValueError("split: axis " + std::to_string(a) + " of " + x.array.aval().to_string() +
                       " does not divide into " + detail::counted(sections, "equal part"));
    }
    detail::check_number_of_results("split", x.array, sections);
    return lax::split(x.array, Shape(static_cast<std::size_t>(sections), size / sections), a);
  });
}

Arrays split(const Operand& x, const Shape& indices, Axis axis) {
  return detail::in_call("split", {&x}, [&] {
    const std::int64_t a = canonical_axis("split", axis, x.array);
    const std::int64_t size = x.array.shape(static_cast<int>(a));
    Shape sizes;
    std::int64_t start = 0;
    for (std::int64_t end : indices) {
      if (end < start || end > size) {
        throw ValueError("split: the indices " + indices.to_string() + " along axis " +
                         std::to_string(a) + " of " + x.array.aval().to_string() +
                         " must not decrease, and lie between 0 and " + std::to_string(size));
      }
      sizes.push_back(end - start);
      start = end;
    }
    sizes.push_back(size - start);
    return lax::split(x.array, sizes, a);
  });
}

std::vector<PadWidths::Pair> PadWidths::of(int ndim) const {
  if (uniform_) return std::vector<Pair>(static_cast<std::size_t>(ndim), widths_[0]);
  if (static_cast<int>(widths_.size()) != ndim) {
    throw ValueError("pad: " + std::to_string(widths_.size()) + " widths for " +
                     detail::counted(ndim, "dimension"));
  }
  return widths_;
}

Array pad(const Operand& x, const PadWidths& widths, const Operand& value) {
  return detail::in_call("pad", {&x, &value}, [&] {
    std::vector<std::array<std::int64_t, 3>> config;
    for (const auto& [before, after] : widths.of(x.array.ndim())) {
      if (before < 0 || after < 0)
        throw ValueError("pad: widths must not be negative (slice, or use lax::pad)");
      config.push_back({before, after, 0});
    }
    return lax::pad(x.array, detail::to_type(value.array, detail::type_of(x.array)), config);
  });
}

// [.., n, ..] -> [.., 1, n, ..] -> [.., repetitions, n, ..] -> [.., repetitions * n, ..].
Array tile(const Operand& x, const Shape& repetitions) {
  return detail::in_call("tile", {&x}, [&] {
    Shape own = x.array.shape(), times = repetitions;
    while (own.size() < times.size()) own.insert(0, 1);
    while (times.size() < own.size()) times.insert(0, 1);
    Shape split_shape, repeated, result;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (times[i] < 0) throw ValueError("tile: negative repetitions " + repetitions.to_string());
      for (std::int64_t d : {std::int64_t{1}, own[i]}) split_shape.push_back(d);
      for (std::int64_t d : {times[i], own[i]}) repeated.push_back(d);
      result.push_back(product("tile", times[i], own[i]));
    }
    if (result == x.array.shape()) return x.array;
    detail::check_dense("tile", x.array.aval().with_shape(result));
    return lax::reshape(detail::broadcast_array(lax::reshape(x.array, split_shape), repeated),
                        result);
  });
}

Array repeat(const Operand& x, std::int64_t count, OptionalAxis axis) {
  return detail::in_call("repeat", {&x}, [&] {
    if (count < 0) throw ValueError("repeat: negative count " + std::to_string(count));
    const Array flat = axis ? x.array : ravel(x.array);
    const auto a = static_cast<std::size_t>(canonical_axis("repeat", axis.value_or(0), flat));
    Shape split_shape = flat.shape(), repeated = flat.shape(), result = flat.shape();
    split_shape.insert(a + 1, 1);
    repeated.insert(a + 1, count);
    result[a] = product("repeat", result[a], count);
    detail::check_dense("repeat", flat.aval().with_shape(result));
    return lax::reshape(detail::broadcast_array(lax::reshape(flat, split_shape), repeated), result);
  });
}

Array roll(const Operand& x, std::int64_t shift, OptionalAxis axis) {
  return detail::in_call("roll", {&x}, [&] {
    if (!axis) return lax::reshape(roll(ravel(x.array), shift, 0), x.array.shape());
    const std::int64_t a = canonical_axis("roll", *axis, x.array);
    const std::int64_t size = x.array.shape(static_cast<int>(a));
    const std::int64_t cut =
        size == 0 ? 0 : (size - shift % size) % size;  // where the result begins
    if (cut == 0) return x.array;
    const Array parts[] = {lax::slice_in_dim(x.array, cut, size, 1, a),
                           lax::slice_in_dim(x.array, 0, cut, 1, a)};
    return lax::concatenate(parts, a);
  });
}

namespace {
/// No matrix has as many rows.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 61;

/// column - row of each element of the last two axes, i32: below the k-th diagonal it is < k.
Array triangle_mask(const char* name, const Array& x, std::int64_t k) {
  if (x.ndim() < 2) detail::type_error(name, "at least two dimensions", x);
  const Shape matrix{x.shape(-2), x.shape(-1)};
  const Array rows = lax::iota(DType::i32, matrix, 0), columns = lax::iota(DType::i32, matrix, 1);
  const auto offset = static_cast<double>(diagonal_within(k, matrix[0], matrix[1]));
  const Array mask = lax::ge(lax::add(rows, lax::full_like(rows, offset)), columns);
  return detail::broadcast_array(mask, x.shape());
}
}  // namespace

Array tril(const Operand& x, std::int64_t k) {
  return detail::in_call("tril", {&x}, [&] {
    return lax::select(triangle_mask("tril", x.array, k), x.array, lax::zeros_like(x.array));
  });
}

Array triu(const Operand& x, std::int64_t k) {
  return detail::in_call("triu", {&x}, [&] {
    return lax::select(triangle_mask("triu", x.array, std::max(k, -kMaxSize) - 1),
                       lax::zeros_like(x.array), x.array);
  });
}

// In the row-major order of an n by m matrix the diagonal lies m + 1 apart.
Array diagonal(const Operand& x, std::int64_t offset, Axis axis1, Axis axis2) {
  return detail::in_call("diagonal", {&x}, [&] {
    const std::int64_t a = canonical_axis("diagonal", axis1, x.array),
                       b = canonical_axis("diagonal", axis2, x.array);
    if (a == b) throw ValueError("diagonal: the two axes must differ");
    Shape perm, outer;
    for (int i = 0; i < x.array.ndim(); ++i) {
      if (i == a || i == b) continue;
      perm.push_back(i);
      outer.push_back(x.array.shape(i));
    }
    perm.push_back(a);
    perm.push_back(b);
    const std::int64_t rows = x.array.shape(static_cast<int>(a)),
                       columns = x.array.shape(static_cast<int>(b));
    const std::int64_t k = diagonal_within(offset, rows, columns);
    const std::int64_t first_row = std::max<std::int64_t>(0, -k),
                       first_column = std::max<std::int64_t>(0, k);
    const std::int64_t count =
        std::max<std::int64_t>(0, std::min(rows - first_row, columns - first_column));
    Shape flat_shape = outer;
    flat_shape.push_back(product("diagonal", rows, columns));
    const Array flat = lax::reshape(lax::transpose(detail::strong(x.array), perm), flat_shape);
    const std::int64_t start = count == 0 ? 0 : first_row * columns + first_column;
    const std::int64_t limit = count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1;
    return lax::slice_in_dim(flat, start, limit, columns + 1, outer.ndim());
  });
}

Array diag(const Operand& x, std::int64_t k) {
  return detail::in_call("diag", {&x}, [&] {
    if (x.array.ndim() == 2) return diagonal(x.array, k);
    if (x.array.ndim() != 1) detail::type_error("diag", "a vector or a matrix", x.array);
    const std::int64_t offset = std::clamp(k, -kMaxSize, kMaxSize);
    const std::int64_t n = std::min(x.array.shape(0), kMaxSize) + std::abs(offset);
    detail::check_dense("diag", x.array.aval().with_shape({n, n}));
    const std::pair<std::int64_t, std::int64_t> widths{std::max<std::int64_t>(0, k),
                                                       std::max<std::int64_t>(0, -k)};
    const Array row = pad(x.array, {widths}, 0);  // element j of the row stands in column j
    const Array rows = lax::broadcast(row, {n});
    return lax::select(eye(n, n, k, DType::bool_), rows, lax::zeros_like(rows));
  });
}

Array Array::reshape(Shape shape, SourceLocation where) const {
  return v1::reshape({*this, where}, shape);
}

Array Array::astype(DType dtype, SourceLocation where) const {
  return detail::in_call("astype", where, {this, 1}, [&] {
    return detail::is_weak_constant(*this) ? detail::convert_scalar(*this, dtype)
                                           : lax::convert_element_type(*this, dtype);
  });
}

Array Array::T(SourceLocation where) const {
  const Operand x(*this, where);
  return detail::in_call("T()", {&x}, [&] { return transpose(x); });
}

}  // namespace v1
}  // namespace telamon
