// broadcast_in_dim: operand dimension i becomes result dimension broadcast_dimensions[i]; sizes of
// 1 expand, and all other result dimensions repeat the operand.
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "broadcast_in_dim";

Aval result_aval(const BroadcastInDimParams& p, std::span<const Aval> avals) {
  check_arity(kName, avals, 1);
  const Shape& from = avals[0].shape;
  const Shape& dims = p.broadcast_dimensions;
  if (dims.size() != from.size()) {
    shape_error(
        kName, avals,
        "broadcast_dimensions " + dims.to_string() + " must have one entry per operand dimension");
  }
  check_axes(kName, avals, "broadcast dimension", dims, p.shape.ndim());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0 && dims[i] <= dims[i - 1]) {
      value_error(kName, avals,
                  "broadcast_dimensions " + dims.to_string() + " must be strictly increasing");
    }
    const std::int64_t to = p.shape[static_cast<std::size_t>(dims[i])];
    if (from[i] != 1 && from[i] != to) {
      shape_error(kName, avals,
                  "dimension " + std::to_string(i) + " of size " + std::to_string(from[i]) +
                      " cannot become dimension " + std::to_string(dims[i]) + " of " +
                      p.shape.to_string());
    }
  }
  for (const std::int64_t n : p.shape) {
    if (n < 0)
      shape_error(kName, avals,
                  "sizes must not be negative, but the shape is " + p.shape.to_string());
  }
  return avals[0].with_shape(p.shape);
}

/// The result is the operand's own memory, walked with strides of zero.
Arrays evaluate(const BroadcastInDimParams& p, std::span<const Array> x) {
  const Aval out = result_aval(p, avals_of(x));
  const Shape from = byte_strides(x[0]);
  Shape strides(p.shape.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (x[0].shape()[i] != 1)
      strides[static_cast<std::size_t>(p.broadcast_dimensions[i])] = from[i];
  }
  return {broadcast_view(x[0], out, strides)};
}

/// The sum over everything that was repeated.
Array sum_repeats(const BroadcastInDimParams& p, const Array& ct, const Aval& x) {
  Shape ones, kept;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (x.shape[i] == 1) {
      ones.push_back(static_cast<std::int64_t>(i));
    } else {
      kept.push_back(p.broadcast_dimensions[i]);
    }
  }
  return lax::expand_dims(lax::reduce_sum(ct, other_axes(kept, ct.ndim())), ones);
}

/// The batch axis goes behind the result dimension of the operand's dimension before it, so that no
/// transpose is needed.
std::int64_t insert_batch_axis(BroadcastInDimParams& p, const Array& x, int axis) {
  const auto b = static_cast<std::size_t>(axis);
  const std::int64_t to = b == 0 ? 0 : p.broadcast_dimensions[b - 1] + 1;
  p.broadcast_dimensions = inserted(shifted(p.broadcast_dimensions, to), axis, to);
  p.shape = inserted(p.shape, to, x.shape()[b]);
  return to;
}

Scalar read(Emitter& e, const BroadcastInDimParams& p, std::span<const Source> x, const Index& i) {
  Index from;
  for (std::size_t d = 0; d < p.broadcast_dimensions.size(); ++d) {
    from.push_back(x[0].shape()[d] == 1 ? e.index(0)
                                        : i[static_cast<std::size_t>(p.broadcast_dimensions[d])]);
  }
  return x[0](from);
}

}  // namespace
}  // namespace detail

// d broadcast(x) = broadcast(dx); transposed: the sum over what was repeated.
const Primitive<BroadcastInDimParams> broadcast_in_dim_p{
    detail::kName, [] {
      using namespace detail;
      return Rules<BroadcastInDimParams>{
          .impl = evaluate,
          .abstract_eval = result_aval,
          .jvp = linear_jvp(broadcast_in_dim_p),
          .transpose = linear_transpose<BroadcastInDimParams>(sum_repeats),
          .batch = batch_in_place(broadcast_in_dim_p, insert_batch_axis),
          .lower = at_index<BroadcastInDimParams>(read).with_cost(0),
      };
    }};

}  // namespace v1
}  // namespace telamon
