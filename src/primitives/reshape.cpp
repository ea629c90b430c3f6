// reshape: the same elements in row-major order under another shape; squeeze and expand_dims: with
// dimensions of size 1 removed (`dimensions` of the operand) or added (`dimensions` of the result).
#include "core/counted.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

Aval reshape_aval(const ReshapeParams& p, std::span<const Aval> avals) {
  check_arity("reshape", avals, 1);
  for (const std::int64_t n : p.new_sizes) {
    if (n < 0)
      shape_error("reshape", avals,
                  "sizes must not be negative, but the new shape is " + p.new_sizes.to_string());
  }
  if (p.new_sizes.num_elements() != avals[0].size()) {
    shape_error("reshape", avals,
                "cannot become " + p.new_sizes.to_string() + ": " +
                    std::to_string(avals[0].size()) + " and " +
                    counted(p.new_sizes.num_elements(), "element"));
  }
  return avals[0].with_shape(p.new_sizes);
}

Aval squeeze_aval(const DimensionsParams& p, std::span<const Aval> avals) {
  check_arity("squeeze", avals, 1);
  check_axes("squeeze", avals, "dimension", p.dimensions, avals[0].ndim());
  for (const std::int64_t d : p.dimensions) {
    if (avals[0].shape[static_cast<std::size_t>(d)] != 1) {
      shape_error("squeeze", avals, "dimension " + std::to_string(d) + " must be of size 1");
    }
  }
  return avals[0].with_shape(taken(avals[0].shape, other_axes(p.dimensions, avals[0].ndim())));
}

Aval expand_dims_aval(const DimensionsParams& p, std::span<const Aval> avals) {
  check_arity("expand_dims", avals, 1);
  const int ndim = avals[0].ndim() + p.dimensions.ndim();
  check_axes("expand_dims", avals, "dimension", p.dimensions, ndim);
  Shape shape(static_cast<std::size_t>(ndim), 1);
  std::size_t i = 0;
  for (const std::int64_t d : other_axes(p.dimensions, ndim))
    shape[static_cast<std::size_t>(d)] = avals[0].shape[i++];
  return avals[0].with_shape(shape);
}

/// The same memory under the result's aval.
template <class P>
auto relabel(Aval (*result_aval)(const P&, std::span<const Aval>)) {
  return [result_aval](const P& p, std::span<const Array> x) {
    return Arrays{with_aval(contiguous(x[0]), result_aval(p, avals_of(x)))};
  };
}

BatchResult reshape_batch(const ReshapeParams& p, const AxisInfo& info, std::span<const Array> x,
                          std::span<const BatchAxis> axes) {
  return {
      {lax::reshape(batch_at(x[0], axes[0], info.size, 0), inserted(p.new_sizes, 0, info.size))},
      {0}};
}

std::int64_t squeeze_batch(DimensionsParams& p, const Array&, int axis) {
  p.dimensions = shifted(p.dimensions, axis);
  return axis - count_below(p.dimensions, axis);
}

std::int64_t expand_dims_batch(DimensionsParams& p, const Array& x, int axis) {
  const Shape kept = other_axes(p.dimensions, x.ndim() - 1 + p.dimensions.ndim());
  const std::int64_t to = axis == 0 ? 0 : kept[static_cast<std::size_t>(axis) - 1] + 1;
  p.dimensions = shifted(p.dimensions, to);
  return to;
}

/// The row-major number of an element within the dimensions [begin, end) of `shape`.
Scalar linear_index(Emitter& e, const Shape& shape, const Index& index, std::size_t begin,
                    std::size_t end) {
  std::optional<Scalar> linear;
  for (std::size_t k = begin; k < end; ++k) {
    if (shape[k] == 1) continue;
    linear = linear ? e.add(e.mul(*linear, e.index(shape[k])), index[k]) : index[k];
  }
  return linear ? *linear : e.index(0);
}

/// The inverse: writes the indices of element `linear` to the dimensions [begin, end) of `index`.
void split_index(Emitter& e, const Shape& shape, Scalar linear, std::size_t begin, std::size_t end,
                 Index& index) {
  std::size_t first = begin;
  while (first < end && shape[first] == 1) ++first;
  for (std::size_t k = end; k-- > first;) {
    if (shape[k] == 1) continue;
    index[k] = k == first ? linear : e.rem(linear, e.index(shape[k]));
    if (k != first) linear = e.div(linear, e.index(shape[k]));
  }
}

/// Dimensions are matched in the smallest groups of equal products, so that only what is truly
/// merged or split costs arithmetic: (2, 3, 4) -> (6, 4) divides the first index by 3 and passes the
/// last one on.
Scalar reshape_read(Emitter& e, const ReshapeParams& p, std::span<const Source> x,
                    const Index& index) {
  const Shape& from = x[0].shape();
  const Shape& to = p.new_sizes;
  Index result(from.size(), e.index(0));
  if (from.num_elements() == 0) return x[0](result);
  std::size_t i = 0, j = 0;
  while (i < from.size()) {
    const std::size_t from_begin = i, to_begin = j;
    std::int64_t n = from[i++], m = 1;
    while (n != m) m < n ? m *= to[j++] : n *= from[i++];
    split_index(e, from, linear_index(e, to, index, to_begin, j), from_begin, i, result);
  }
  return x[0](result);
}

/// squeeze and expand_dims are reshapes: to the compiler there is one way to change a shape.
template <Aval (*kAval)(const DimensionsParams&, std::span<const Aval>)>
Arrays as_reshape(const DimensionsParams& p, std::span<const Array> x) {
  return {lax::reshape(x[0], kAval(p, avals_of(x)).shape)};
}

}  // namespace
}  // namespace detail

// All three are linear; transposed, the cotangent gets the operand's shape back.
const Primitive<ReshapeParams> reshape_p{
    "reshape", [] {
      using namespace detail;
      return Rules<ReshapeParams>{
          .impl = relabel(reshape_aval),
          .abstract_eval = reshape_aval,
          .jvp = linear_jvp(reshape_p),
          .transpose = linear_transpose<ReshapeParams>(
              [](const ReshapeParams&, const Array& ct, const Aval& x) {
                return lax::reshape(ct, x.shape);
              }),
          .batch = reshape_batch,
          .lower = at_index<ReshapeParams>(reshape_read).with_cost(0),
      };
    }};

const Primitive<DimensionsParams> squeeze_p{
    "squeeze", [] {
      using namespace detail;
      return Rules<DimensionsParams>{
          .impl = relabel(squeeze_aval),
          .abstract_eval = squeeze_aval,
          .jvp = linear_jvp(squeeze_p),
          .transpose = linear_transpose<DimensionsParams>(
              [](const DimensionsParams& p, const Array& ct, const Aval&) {
                return lax::expand_dims(ct, p.dimensions);
              }),
          .batch = batch_in_place(squeeze_p, squeeze_batch),
          .lower = ops<DimensionsParams>(as_reshape<squeeze_aval>),
      };
    }};

const Primitive<DimensionsParams> expand_dims_p{
    "expand_dims", [] {
      using namespace detail;
      return Rules<DimensionsParams>{
          .impl = relabel(expand_dims_aval),
          .abstract_eval = expand_dims_aval,
          .jvp = linear_jvp(expand_dims_p),
          .transpose = linear_transpose<DimensionsParams>(
              [](const DimensionsParams& p, const Array& ct, const Aval&) {
                return lax::squeeze(ct, p.dimensions);
              }),
          .batch = batch_in_place(expand_dims_p, expand_dims_batch),
          .lower = ops<DimensionsParams>(as_reshape<expand_dims_aval>),
      };
    }};

}  // namespace v1
}  // namespace telamon
