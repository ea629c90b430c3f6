// slice: x[start:limit:stride] in every dimension.
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "slice";

std::int64_t stride_of(const SliceParams& p, std::size_t i) {
  return p.strides.empty() ? 1 : p.strides[i];
}

Aval result_aval(const SliceParams& p, std::span<const Aval> avals) {
  check_arity(kName, avals, 1);
  const Shape& from = avals[0].shape;
  const std::size_t n = from.size();
  if (p.start_indices.size() != n || p.limit_indices.size() != n ||
      (!p.strides.empty() && p.strides.size() != n)) {
    shape_error(kName, avals,
                "start " + p.start_indices.to_string() + ", limit " + p.limit_indices.to_string() +
                    " and strides " + p.strides.to_string() + " must have one entry per dimension");
  }
  Shape shape;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t start = p.start_indices[i], limit = p.limit_indices[i],
                       stride = stride_of(p, i);
    if (start < 0 || start > limit || limit > from[i]) {
      throw IndexError(rule_message(kName, avals,
                                    "needs 0 <= start <= limit <= size, but dimension " +
                                        std::to_string(i) + " has " + std::to_string(start) + ", " +
                                        std::to_string(limit) + ", " + std::to_string(from[i])));
    }
    if (stride <= 0)
      value_error(kName, avals, "strides " + p.strides.to_string() + " must be positive");
    shape.push_back(limit == start ? 0 : (limit - start - 1) / stride + 1);
  }
  return avals[0].with_shape(shape);
}

Arrays evaluate(const SliceParams& p, std::span<const Array> x) {
  const Aval out = result_aval(p, avals_of(x));
  View from = part_of(view_of(x[0]), p.start_indices, out.shape);
  for (std::size_t i = 0; i < from.strides.size(); ++i) {
    if (out.shape[i] > 1) from.strides[i] *= stride_of(p, i);
  }
  return {copy_to_dense(out, from)};
}

/// Back in place: zeros before, behind and, for strides, between.
Array transpose(const SliceParams& p, const Array& ct, const Aval& x) {
  if (x.size() == 0)
    return lax::full(x.shape, ct.dtype(), 0);  // of any length, unlike what pad makes
  std::vector<std::array<std::int64_t, 3>> config;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const std::int64_t n = ct.shape()[i], stride = stride_of(p, i);
    const std::int64_t end = p.start_indices[i] + (n == 0 ? 0 : 1 + (n - 1) * stride);
    config.push_back({p.start_indices[i], x.shape[i] - end, n > 1 ? stride - 1 : 0});
  }
  return lax::pad(ct, lax::scalar(0.0, ct.dtype()), config);
}

std::int64_t insert_batch_axis(SliceParams& p, const Array& x, int axis) {
  p.start_indices = inserted(p.start_indices, axis, 0);
  p.limit_indices = inserted(p.limit_indices, axis, x.shape(axis));
  if (!p.strides.empty()) p.strides = inserted(p.strides, axis, 1);
  return axis;
}

Scalar read(Emitter& e, const SliceParams& p, std::span<const Source> x, const Index& index) {
  Index from = index;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (stride_of(p, i) != 1) from[i] = e.mul(from[i], e.index(stride_of(p, i)));
    if (p.start_indices[i] != 0) from[i] = e.add(from[i], e.index(p.start_indices[i]));
  }
  return x[0](from);
}

}  // namespace
}  // namespace detail

const Primitive<SliceParams> slice_p{detail::kName, [] {
                                       using namespace detail;
                                       return Rules<SliceParams>{
                                           .impl = evaluate,
                                           .abstract_eval = result_aval,
                                           .jvp = linear_jvp(slice_p),
                                           .transpose = linear_transpose<SliceParams>(transpose),
                                           .batch = batch_in_place(slice_p, insert_batch_axis),
                                           .lower = at_index<SliceParams>(read),
                                       };
                                     }};

}  // namespace v1
}  // namespace telamon
