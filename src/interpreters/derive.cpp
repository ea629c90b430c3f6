// Rules that follow from an `ops` lowering: a primitive that is a composition of others can be
// evaluated, typed, differentiated, transposed and batched through that composition.
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using OpsFunction = std::function<Arrays(const Params&, std::span<const Array>)>;

FlatFunction with_params(const OpsFunction& ops, const Params& params) {
  return [&ops, &params](std::span<const Array> x) { return ops(params, x); };
}

std::vector<Tangent> transpose_ops(const OpsFunction& ops, const Params& params,
                                   std::span<const Tangent> cts,
                                   std::span<const LinearInput> inputs) {
  std::vector<Aval> linear_avals;
  for (const LinearInput& in : inputs) {
    if (in.is_linear()) linear_avals.push_back(in.aval());
  }
  // The known operands are captured, so they become leading consts of the linear program.
  const ClosedJaxpr linear = stage_flat(
      [&](std::span<const Array> args) {
        Arrays all;
        std::size_t next = 0;
        for (const LinearInput& in : inputs)
          all.push_back(in.is_linear() ? args[next++] : in.array());
        return ops(params, all);
      },
      linear_avals);
  Arrays program_inputs = linear.consts;
  program_inputs.resize(linear.consts.size() + linear_avals.size());
  const std::vector<Tangent> linear_cts = backward_pass(linear.jaxpr, program_inputs, cts);
  std::vector<Tangent> result;
  std::size_t next = 0;
  for (const LinearInput& in : inputs) {
    if (in.is_linear()) result.push_back(linear_cts[next++]);
    else result.emplace_back(Zero{in.aval().tangent()});
  }
  return result;
}

}  // namespace

void derive_missing_rules(RuleTable& table) {
  const Lowering* lowering = table.lowering();
  const auto* form = lowering ? std::get_if<Lowering::Ops>(&lowering->form) : nullptr;
  if (!form) return;
  const OpsFunction ops = form->f;
  if (!table.impl) table.impl = ops;
  if (!table.abstract_eval) {
    table.abstract_eval = [ops](const Params& p, std::span<const Aval> avals) {
      const ClosedJaxpr staged = stage_flat(with_params(ops, p), avals);
      return AbstractResult(staged.jaxpr.out_avals(), staged.jaxpr.effect());
    };
  }
  if (!table.jvp && !table.exempt.contains("jvp")) {
    table.jvp = [ops](const Params& p, std::span<const Array> primals,
                      std::span<const Tangent> tangents) {
      return jvp_flat(with_params(ops, p), primals, tangents);
    };
  }
  if (!table.transpose && !table.exempt.contains("transpose")) {
    table.transpose = [ops](const Params& p, std::span<const Tangent> cts,
                            std::span<const LinearInput> inputs) {
      return transpose_ops(ops, p, cts, inputs);
    };
  }
  if (!table.batch && !table.exempt.contains("batch")) {
    table.batch = [ops](const Params& p, const AxisInfo& axis, std::span<const Array> args,
                        std::span<const BatchAxis> axes) {
      std::vector<BatchAxis> out_axes;
      Arrays values = vmap_flat(with_params(ops, p), axis, args, axes, [&](std::size_t n) {
        out_axes.assign(n, BatchAxis(0));
        return out_axes;
      });
      return BatchResult{std::move(values), out_axes};
    };
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
