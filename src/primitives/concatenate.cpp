// concatenate: operands one after the other along `dimension`.
#include "core/indices.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "concatenate";

Aval result_aval(const ConcatenateParams& p, std::span<const Aval> avals) {
  if (avals.empty()) value_error(kName, avals, "needs at least one operand");
  check_same_dtype(kName, avals);
  check_axis(kName, avals, "dimension", p.dimension, avals[0].ndim());
  const auto d = static_cast<std::size_t>(p.dimension);
  Shape shape = avals[0].shape;
  for (std::size_t i = 1; i < avals.size(); ++i) {
    Shape others = avals[i].shape;
    if (others.size() == shape.size()) {
      if (__builtin_add_overflow(shape[d], others[d], &shape[d]))
        shape_error(kName, avals, "the result would have more than 2^63 - 1 elements");
      others[d] = shape[d];
    }
    if (others != shape) {
      shape_error(kName, avals,
                  "shapes must be equal except along dimension " + std::to_string(p.dimension));
    }
  }
  return {shape, avals[0].dtype, all_weak(avals)};
}

Arrays evaluate(const ConcatenateParams& p, std::span<const Array> xs) {
  Array out = make_uninitialized(result_aval(p, avals_of(xs)));
  const auto d = static_cast<std::size_t>(p.dimension);
  Shape start(out.shape().size(), 0);
  for (const Array& x : xs) {
    kernels::run_copy(view_of(x), part_of(view_of(out), start, x.shape()));
    start[d] += x.shape()[d];
  }
  return {out};
}

/// Each linear operand gets its part of the cotangent.
std::vector<Tangent> transpose(const ConcatenateParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> xs) {
  std::vector<Tangent> out = zero_cotangents(xs);
  if (cts[0].is_zero()) return out;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::int64_t size = xs[i].aval().shape[static_cast<std::size_t>(p.dimension)];
    if (xs[i].is_linear())
      out[i] = lax::slice_in_dim(cts[0].array(), start, start + size, 1, p.dimension);
    start += size;
  }
  return out;
}

/// All operands get the batch axis where the first mapped one has it.
BatchResult batch(const ConcatenateParams& p, const AxisInfo& info, std::span<const Array> xs,
                  std::span<const BatchAxis> axes) {
  const int axis = first_mapped(axes);
  Arrays batched;
  for (std::size_t i = 0; i < xs.size(); ++i)
    batched.push_back(batch_at(xs[i], axes[i], info.size, axis));
  return {{lax::concatenate(batched, shifted(p.dimension, axis))}, {axis}};
}

/// The operand that holds the index, each read at an index clamped into it.
Scalar read(Emitter& e, const ConcatenateParams& p, std::span<const Source> xs,
            const Index& index) {
  const auto d = static_cast<std::size_t>(p.dimension);
  std::optional<Scalar> result;
  std::int64_t end = 0;
  for (const Source& x : xs) {
    const std::int64_t start = end, size = x.shape()[d];
    end += size;
    if (size == 0) continue;
    Index from = index;
    from[d] = clamp(e, e.sub(index[d], e.index(start)), 0, size - 1);
    const Scalar value = x(from);
    result =
        result ? e.select(e.compare(Compare::lt, index[d], e.index(start)), *result, value) : value;
  }
  return result ? *result : e.constant(xs[0].dtype(), 0);
}

}  // namespace
}  // namespace detail

const Primitive<ConcatenateParams> concatenate_p{
    detail::kName, [] {
      using namespace detail;
      return Rules<ConcatenateParams>{
          .impl = evaluate,
          .abstract_eval = result_aval,
          .jvp = linear_jvp(concatenate_p),
          .transpose = transpose,
          .batch = batch,
          .lower = at_index<ConcatenateParams>(read).with_cost(0, 3),
      };
    }};

}  // namespace v1
}  // namespace telamon
