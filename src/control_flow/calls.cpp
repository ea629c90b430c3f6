// What calls with rules of their own share: transposition, and rules over batches.
#include "control_flow/calls.hpp"

#include "core/concrete.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

std::vector<Tangent> transpose_program(const Jaxpr& jaxpr, const std::string& name,
                                       std::span<const Tangent> cts,
                                       std::span<const LinearInput> inputs) {
  return transpose_of_call(jaxpr, cts, inputs, [&](const Jaxpr& program, const Arrays& args) {
    return jit_p.bind({program, name, 0, {}, false}, args);
  });
}

std::string batch_key(const AxisInfo& axis, std::span<const BatchAxis> axes) {
  std::string key = "vmap:" + std::to_string(axis.size) + ":" + axis.name + ":";
  for (const BatchAxis& a : axes) key += a ? std::to_string(*a) + "," : "-,";
  return key;
}

namespace {

// The rule for one example, applied to batches.
JvpResult map_jvp_rule(const JvpRule& rule, const AxisInfo& axis,
                       const std::vector<BatchAxis>& axes, std::span<const Array> primals,
                       std::span<const Tangent> tangents) {
  const std::size_t n = primals.size();
  const DenseTangents dense = dense_tangents(tangents);
  Arrays args(primals.begin(), primals.end());
  args.insert(args.end(), dense.arrays.begin(), dense.arrays.end());
  std::vector<BatchAxis> all = axes;
  for (std::size_t i = 0; i < n; ++i) {
    if (dense.nonzero[i]) all.push_back(axes[i]);
  }
  std::vector<bool> nonzero_out;
  BatchResult out = batch_flat(
      [&](std::span<const Array> x) {
        const auto examples = x.first(n);
        JvpResult r =
            (*rule)(examples, sparse_tangents(x.subspan(n), dense.nonzero, avals_of(examples)));
        const DenseTangents t = dense_tangents(r.tangents);
        nonzero_out = t.nonzero;
        r.primals.insert(r.primals.end(), t.arrays.begin(), t.arrays.end());
        return r.primals;
      },
      axis, args, all, {});
  JvpResult result;
  const std::size_t num_out = nonzero_out.size();
  Arrays outs;
  for (std::size_t i = 0; i < out.values.size(); ++i)
    outs.push_back(batch_at_front(out.values[i], out.axes[i], axis.size));
  result.primals.assign(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(num_out));
  result.tangents = sparse_tangents(std::span<const Array>(outs).subspan(num_out), nonzero_out,
                                    avals_of(result.primals));
  return result;
}

ForwardResult map_forward(const VjpForward& rule, const AxisInfo& axis,
                          const std::vector<BatchAxis>& axes, std::span<const Array> args) {
  VjpBackward inner;
  std::size_t num_out = 0;
  BatchResult out = batch_flat(
      [&](std::span<const Array> x) {
        ForwardResult r = (*rule)(x);
        inner = r.bwd;
        num_out = r.results.size();
        r.results.insert(r.results.end(), r.residuals.begin(), r.residuals.end());
        return r.results;
      },
      axis, args, axes, {});
  ForwardResult result;
  for (std::size_t i = 0; i < num_out; ++i)
    result.results.push_back(batch_at_front(out.values[i], out.axes[i], axis.size));
  result.residuals.assign(out.values.begin() + static_cast<std::ptrdiff_t>(num_out),
                          out.values.end());
  result.bwd = batched_rule(
      inner, axis, {out.axes.begin() + static_cast<std::ptrdiff_t>(num_out), out.axes.end()}, axes);
  return result;
}

// The cotangent of an operand that is mapped along `to`, or not at all: then all examples add up.
Array cotangent_at(const Array& ct, BatchAxis from, BatchAxis to, const AxisInfo& axis) {
  const Array front = batch_at_front(ct, from, axis.size);
  if (to) return move_axis(front, 0, *to);
  return reduce_sum_p.bind1({.axes = {0}}, {front});
}

std::vector<Tangent> map_backward(const VjpBackward& rule, const AxisInfo& axis,
                                  const std::vector<BatchAxis>& residual_axes,
                                  const std::vector<BatchAxis>& argument_axes,
                                  std::span<const Array> residuals, std::span<const Tangent> cts) {
  const std::size_t n = residuals.size();
  const DenseTangents dense = dense_tangents(cts);
  Arrays args(residuals.begin(), residuals.end());
  args.insert(args.end(), dense.arrays.begin(), dense.arrays.end());
  std::vector<BatchAxis> axes = residual_axes;
  axes.insert(axes.end(), dense.arrays.size(), 0);
  std::vector<Aval> ct_avals;  // of one example
  for (const Tangent& ct : cts) {
    ct_avals.push_back(ct.aval());
    ct_avals.back().shape.erase(0);
  }
  std::vector<Tangent> examples;
  BatchResult out = batch_flat(
      [&](std::span<const Array> x) {
        examples = (*rule)(x.first(n), sparse_tangents(x.subspan(n), dense.nonzero, ct_avals));
        return dense_tangents(examples).arrays;
      },
      axis, args, axes, {});
  std::vector<Tangent> result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].is_zero()) {
      Aval aval = examples[i].aval();
      if (argument_axes[i])
        aval.shape.insert(static_cast<std::size_t>(*argument_axes[i]), axis.size);
      result.emplace_back(Zero{aval});
    } else {
      result.emplace_back(cotangent_at(out.values[next], out.axes[next], argument_axes[i], axis));
      ++next;
    }
  }
  return result;
}

}  // namespace

JvpRule batched_rule(const JvpRule& rule, const AxisInfo& axis, std::vector<BatchAxis> axes) {
  if (!rule) return rule;
  return JvpRule::make("mapped_" + rule.to_string(), batch_key(axis, axes) + rule.key(), [&] {
    return FlatJvpRule([rule, axis, axes](std::span<const Array> x, std::span<const Tangent> dx) {
      return map_jvp_rule(rule, axis, axes, x, dx);
    });
  });
}

VjpForward batched_rule(const VjpForward& rule, const AxisInfo& axis, std::vector<BatchAxis> axes) {
  if (!rule) return rule;
  return VjpForward::make("mapped_" + rule.to_string(), batch_key(axis, axes) + rule.key(), [&] {
    return FlatForward(
        [rule, axis, axes](std::span<const Array> x) { return map_forward(rule, axis, axes, x); });
  });
}

VjpBackward batched_rule(const VjpBackward& rule, const AxisInfo& axis,
                         std::vector<BatchAxis> residual_axes,
                         std::vector<BatchAxis> argument_axes) {
  const std::string key =
      batch_key(axis, residual_axes) + batch_key(axis, argument_axes) + rule.key();
  return VjpBackward::make("mapped_" + rule.to_string(), key, [&] {
    return FlatBackward([=](std::span<const Array> res, std::span<const Tangent> cts) {
      return map_backward(rule, axis, residual_axes, argument_axes, res, cts);
    });
  });
}

Arrays rule_tangents(const std::string& name, std::span<const Tangent> tangents,
                     const std::vector<bool>& differentiable, bool symbolic_zeros) {
  Arrays out;
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    const Tangent& t = tangents[i];
    if (!differentiable[i]) {
      if (!t.is_zero()) {
        throw TypeError("differentiation of " + name +
                        " with respect to an argument that was declared not to be differentiated "
                        "(nondiff), of type " +
                        t.aval().to_string());
      }
      out.emplace_back();
    } else if (t.is_zero() && symbolic_zeros) {
      out.emplace_back();
    } else if (t.aval().dtype == DType::float0) {
      out.push_back(make_uninitialized({t.aval().shape, DType::float0, false}));
    } else {
      out.push_back(t.instantiate());
    }
  }
  return out;
}

namespace {

// A weak scalar that a rule wrote down takes the dtype it stands for.
Array fitted(const Array& x, const Aval& want) {
  if (!x.is_tracer() && x.weak_type() && x.ndim() == 0 && want.shape.empty() &&
      x.dtype() != want.dtype && want.dtype != DType::float0)
    return convert_scalar(x, want.dtype);
  return x;
}

}  // namespace

JvpResult custom_jvp_result(const std::string& name, Arrays results, Arrays tangents) {
  JvpResult out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Aval want = results[i].aval().tangent();
    if (want.dtype == DType::float0 || !tangents[i].has_value()) {
      out.tangents.emplace_back(Zero{want});
      continue;
    }
    const Array t = fitted(tangents[i], want);
    if (!t.aval().same_type(want)) {
      throw TypeError(
          "Custom JVP rule of " + name +
          " must produce primal and tangent outputs with corresponding shapes and dtypes. "
          "Expected " +
          want.strong().to_string() + " (tangent type of " +
          results[i].aval().strong().to_string() + ") but got " + t.aval().strong().to_string());
    }
    out.tangents.emplace_back(t);
  }
  out.primals = std::move(results);
  return out;
}

std::vector<Tangent> custom_vjp_cotangents(const std::string& name,
                                           const std::vector<Aval>& arguments,
                                           std::span<const Array> given,
                                           const std::vector<bool>& differentiated,
                                           const LeafName& leaf_name) {
  std::vector<Tangent> cts;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Aval want = arguments[i].tangent();
    if (!differentiated[i] || want.dtype == DType::float0 || !given[i].has_value() ||
        given[i].dtype() == DType::float0) {
      cts.emplace_back(Zero{want});
      continue;
    }
    const Array ct = fitted(given[i], want);
    if (!ct.aval().same_type(want)) {
      throw ValueError(
          "Custom VJP bwd rule must produce an output with the same type as the args tuple of the "
          "primal function, but at " +
          leaf_name(i) + " the bwd rule attached to " + name + " produced an output of type " +
          ct.aval().strong().to_string() + " corresponding to an input of type " +
          arguments[i].strong().to_string() +
          (ct.shape() == want.shape ? ", so the dtypes do not match"
                                    : ", so the shapes do not match"));
    }
    cts.emplace_back(ct);
  }
  return cts;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
