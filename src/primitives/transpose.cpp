// transpose: result dimension i is operand dimension permutation[i]. rev: the named dimensions backwards.
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

Aval transpose_aval(const TransposeParams& p, std::span<const Aval> avals) {
  check_arity("transpose", avals, 1);
  if (p.permutation.ndim() != avals[0].ndim()) {
    shape_error("transpose", avals,
                "permutation " + p.permutation.to_string() + " must have one entry per dimension");
  }
  check_axes("transpose", avals, "permutation", p.permutation, avals[0].ndim());
  return avals[0].with_shape(taken(avals[0].shape, p.permutation));
}

Arrays transpose_impl(const TransposeParams& p, std::span<const Array> x) {
  const Aval out = transpose_aval(p, avals_of(x));
  View from = view_of(x[0]);
  from.strides = taken(from.strides, p.permutation);
  from.shape = out.shape;
  return {copy_to_dense(out, from)};
}

/// The batch axis becomes the first one, whatever it was: one transpose does both.
std::int64_t transpose_batch(TransposeParams& p, const Array&, int axis) {
  p.permutation = inserted(shifted(p.permutation, axis), 0, axis);
  return 0;
}

Scalar transpose_read(Emitter&, const TransposeParams& p, std::span<const Source> x,
                      const Index& index) {
  Index from(index.size());
  for (std::size_t i = 0; i < index.size(); ++i)
    from[static_cast<std::size_t>(p.permutation[i])] = index[i];
  return x[0](from);
}

Aval rev_aval(const DimensionsParams& p, std::span<const Aval> avals) {
  check_arity("rev", avals, 1);
  check_axes("rev", avals, "dimension", p.dimensions, avals[0].ndim());
  return avals[0];
}

/// A copy that starts at the end of each reversed dimension and walks back.
Arrays rev_impl(const DimensionsParams& p, std::span<const Array> x) {
  const Aval out = rev_aval(p, avals_of(x));
  View from = view_of(x[0]);
  if (out.size() == 0) return {x[0]};
  for (const std::int64_t d : p.dimensions) {
    const auto i = static_cast<std::size_t>(d);
    from.data += (out.shape[i] - 1) * from.strides[i];
    from.strides[i] = -from.strides[i];
  }
  return {copy_to_dense(out, from)};
}

std::int64_t rev_batch(DimensionsParams& p, const Array&, int axis) {
  p.dimensions = shifted(p.dimensions, axis);
  return axis;
}

Scalar rev_read(Emitter& e, const DimensionsParams& p, std::span<const Source> x,
                const Index& index) {
  Index from = index;
  for (const std::int64_t d : p.dimensions) {
    const auto i = static_cast<std::size_t>(d);
    from[i] = e.sub(e.index(x[0].shape()[i] - 1), index[i]);
  }
  return x[0](from);
}

}  // namespace
}  // namespace detail

const Primitive<TransposeParams> transpose_p{
    "transpose", [] {
      using namespace detail;
      return Rules<TransposeParams>{
          .impl = transpose_impl,
          .abstract_eval = transpose_aval,
          .jvp = linear_jvp(transpose_p),
          .transpose = linear_transpose<TransposeParams>(
              [](const TransposeParams& p, const Array& ct, const Aval&) {
                return lax::transpose(ct, inverse_permutation(p.permutation));
              }),
          .batch = batch_in_place(transpose_p, transpose_batch),
          .lower = at_index<TransposeParams>(transpose_read),
      };
    }};

const Primitive<DimensionsParams> rev_p{
    "rev", [] {
      using namespace detail;
      return Rules<DimensionsParams>{
          .impl = rev_impl,
          .abstract_eval = rev_aval,
          .jvp = linear_jvp(rev_p),
          .transpose = linear_transpose<DimensionsParams>(
              [](const DimensionsParams& p, const Array& ct, const Aval&) {
                return lax::rev(ct, p.dimensions);
              }),
          .batch = batch_in_place(rev_p, rev_batch),
          .lower = at_index<DimensionsParams>(rev_read),
      };
    }};

}  // namespace v1
}  // namespace telamon
