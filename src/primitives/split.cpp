// split: parts of the given sizes along an axis. stack: operands side by side along a new axis;
// unstack: its inverse.
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

// ---- split -------------------------------------------------------------------------------------
AbstractResult split_avals(const SplitParams& p, std::span<const Aval> avals) {
  check_arity("split", avals, 1);
  check_axis("split", avals, "axis", p.axis, avals[0].ndim());
  const auto d = static_cast<std::size_t>(p.axis);
  std::vector<Aval> parts;
  std::int64_t total = 0;
  for (const std::int64_t n : p.sizes) {
    if (n < 0)
      shape_error("split", avals, "sizes " + p.sizes.to_string() + " must not be negative");
    Shape part = avals[0].shape;
    if (n > part[d] - total) {
      total = -1;
      break;
    }
    total += n;
    part[d] = n;
    parts.push_back(avals[0].with_shape(part));
  }
  if (total != avals[0].shape[d]) {
    shape_error("split", avals,
                "sizes " + p.sizes.to_string() + " must add up to the size of dimension " +
                    std::to_string(p.axis));
  }
  return parts;
}

Arrays split_impl(const SplitParams& p, std::span<const Array> x) {
  const auto avals = split_avals(p, avals_of(x)).avals;
  const auto d = static_cast<std::size_t>(p.axis);
  Shape start(x[0].shape().size(), 0);
  Arrays parts;
  for (const Aval& part : avals) {
    parts.push_back(copy_to_dense(part, part_of(view_of(x[0]), start, part.shape)));
    start[d] += part.shape[d];
  }
  return parts;
}

/// The parts' cotangents, joined again.
std::vector<Tangent> split_transpose(const SplitParams& p, std::span<const Tangent> cts,
                                     std::span<const LinearInput>) {
  Arrays parts;
  for (const Tangent& ct : cts) parts.push_back(ct.instantiate());
  return {lax::concatenate(parts, p.axis)};
}

BatchResult split_batch(const SplitParams& p, const AxisInfo&, std::span<const Array> x,
                        std::span<const BatchAxis> axes) {
  Arrays parts = split_p.bind({p.sizes, shifted(p.axis, *axes[0])}, x);
  return {std::move(parts), std::vector<BatchAxis>(p.sizes.size(), axes[0])};
}

Arrays split_lower(const SplitParams& p, std::span<const Array> x) {
  Arrays parts;
  std::int64_t start = 0;
  for (const std::int64_t n : p.sizes) {
    parts.push_back(lax::slice_in_dim(x[0], start, start + n, 1, p.axis));
    start += n;
  }
  return parts;
}

// ---- stack -------------------------------------------------------------------------------------
Aval stack_aval(const StackParams& p, std::span<const Aval> avals) {
  if (avals.empty()) value_error("stack", avals, "needs at least one operand");
  check_same_dtype("stack", avals);
  check_axis("stack", avals, "axis", p.axis, avals[0].ndim() + 1);
  for (const Aval& a : avals) {
    if (a.shape != avals[0].shape) shape_error("stack", avals, "operands must have one shape");
  }
  return {inserted(avals[0].shape, p.axis, static_cast<std::int64_t>(avals.size())), avals[0].dtype,
          all_weak(avals)};
}

Arrays stack_impl(const StackParams& p, std::span<const Array> xs) {
  Array out = make_uninitialized(stack_aval(p, avals_of(xs)));
  const auto d = static_cast<std::size_t>(p.axis);
  View to = without_axis(view_of(out), d);
  for (const Array& x : xs) {
    kernels::run_copy(view_of(x), to);
    to.data += byte_strides(out)[d];
  }
  return {out};
}

std::vector<Tangent> stack_transpose(const StackParams& p, std::span<const Tangent> cts,
                                     std::span<const LinearInput> xs) {
  std::vector<Tangent> out = zero_cotangents(xs);
  if (cts[0].is_zero()) return out;
  const Arrays parts = lax::unstack(cts[0].array(), p.axis);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].is_linear()) out[i] = parts[i];
  }
  return out;
}

/// The batch axis of all operands goes where the first mapped one has it; stacking before or at it
/// moves it on.
BatchResult stack_batch(const StackParams& p, const AxisInfo& info, std::span<const Array> xs,
                        std::span<const BatchAxis> axes) {
  const int axis = first_mapped(axes);
  Arrays batched;
  for (std::size_t i = 0; i < xs.size(); ++i)
    batched.push_back(batch_at(xs[i], axes[i], info.size, axis));
  const std::int64_t at = p.axis > axis ? p.axis + 1 : p.axis;
  return {{stack_p.bind({at}, batched)[0]}, {axis + (at <= axis ? 1 : 0)}};
}

Arrays stack_lower(const StackParams& p, std::span<const Array> xs) {
  Arrays rows;
  for (const Array& x : xs) rows.push_back(lax::expand_dims(x, {p.axis}));
  return {lax::concatenate(rows, p.axis)};
}

// ---- unstack -----------------------------------------------------------------------------------
AbstractResult unstack_avals(const StackParams& p, std::span<const Aval> avals) {
  check_arity("unstack", avals, 1);
  check_axis("unstack", avals, "axis", p.axis, avals[0].ndim());
  Shape part = avals[0].shape;
  part.erase(static_cast<std::size_t>(p.axis));
  return std::vector<Aval>(
      static_cast<std::size_t>(avals[0].shape[static_cast<std::size_t>(p.axis)]),
      avals[0].with_shape(part));
}

Arrays unstack_impl(const StackParams& p, std::span<const Array> x) {
  const auto avals = unstack_avals(p, avals_of(x)).avals;
  const auto d = static_cast<std::size_t>(p.axis);
  View from = without_axis(view_of(x[0]), d);
  Arrays parts;
  for (const Aval& part : avals) {
    parts.push_back(copy_to_dense(part, from));
    from.data += byte_strides(x[0])[d];
  }
  return parts;
}

std::vector<Tangent> unstack_transpose(const StackParams& p, std::span<const Tangent> cts,
                                       std::span<const LinearInput>) {
  Arrays parts;
  for (const Tangent& ct : cts) parts.push_back(ct.instantiate());
  return {lax::stack(parts, p.axis)};
}

BatchResult unstack_batch(const StackParams& p, const AxisInfo&, std::span<const Array> x,
                          std::span<const BatchAxis> axes) {
  const std::int64_t at = shifted(p.axis, *axes[0]);
  Arrays parts = unstack_p.bind({at}, x);
  const std::size_t n = parts.size();
  return {std::move(parts), std::vector<BatchAxis>(n, *axes[0] - (at < *axes[0] ? 1 : 0))};
}

Arrays unstack_lower(const StackParams& p, std::span<const Array> x) {
  Arrays parts;
  for (std::int64_t i = 0; i < x[0].shape()[static_cast<std::size_t>(p.axis)]; ++i) {
    parts.push_back(lax::index_in_dim(x[0], i, p.axis));
  }
  return parts;
}

}  // namespace
}  // namespace detail

const Primitive<SplitParams> split_p{"split", [] {
                                       using namespace detail;
                                       return Rules<SplitParams>{
                                           .impl = split_impl,
                                           .abstract_eval = split_avals,
                                           .jvp = linear_jvp(split_p),
                                           .transpose = split_transpose,
                                           .batch = split_batch,
                                           .lower = ops<SplitParams>(split_lower),
                                       };
                                     }};

const Primitive<StackParams> stack_p{"stack", [] {
                                       using namespace detail;
                                       return Rules<StackParams>{
                                           .impl = stack_impl,
                                           .abstract_eval = stack_aval,
                                           .jvp = linear_jvp(stack_p),
                                           .transpose = stack_transpose,
                                           .batch = stack_batch,
                                           .lower = ops<StackParams>(stack_lower),
                                       };
                                     }};

const Primitive<StackParams> unstack_p{"unstack", [] {
                                         using namespace detail;
                                         return Rules<StackParams>{
                                             .impl = unstack_impl,
                                             .abstract_eval = unstack_avals,
                                             .jvp = linear_jvp(unstack_p),
                                             .transpose = unstack_transpose,
                                             .batch = unstack_batch,
                                             .lower = ops<StackParams>(unstack_lower),
                                         };
                                       }};

}  // namespace v1
}  // namespace telamon
