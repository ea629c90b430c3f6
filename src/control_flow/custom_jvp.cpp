// custom_jvp_call: a function that brings its derivative. Evaluation calls the body, jvp the rule;
// the rule is a C++ function, so in both values are as concrete as they are. Interpreters that need a
// program (staging, batching, partial evaluation) have the body traced by `close`.
#include "control_flow/calls.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace {

Arrays run(const CustomJvpParams& p, std::span<const Array> args) {
  return p.call ? p.call->fun(args) : eval_jaxpr(p.call_jaxpr, args);
}

std::optional<ClosedCall> close(const CustomJvpParams& p, std::span<const Aval> avals) {
  if (!p.call) return std::nullopt;
  ClosedJaxpr body = detail::stage_flat(p.call->fun, avals, "custom_jvp(" + p.name + ")");
  CustomJvpParams closed{std::move(body.jaxpr), p.call->durable(), p.name, body.num_consts(),
                         p.symbolic_zeros};
  return ClosedCall{Params::of(std::move(closed)), std::move(body.consts)};
}

AbstractResult type_of(const CustomJvpParams& p, std::span<const Aval> in) {
  if (!p.call) return detail::type_of_call("custom_jvp_call", p.call_jaxpr, in);
  const ClosedJaxpr body = detail::stage_flat(p.call->fun, in);
  return {body.jaxpr.out_avals(), body.jaxpr.effect()};
}

void check_results(const CustomJvpParams& p, const JvpResult& r) {
  const std::vector<Aval> want = p.call_jaxpr.out_avals();
  if (r.primals.size() != want.size()) {
    throw TypeError("Custom JVP rule of " + p.name + " must give the " +
                    detail::counted(want.size(), "result") + " of the function, but gave " +
                    std::to_string(r.primals.size()));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (r.primals[i].aval().same_type(want[i])) continue;
    throw TypeError(
        "Custom JVP rule of " + p.name +
        " must produce a pair whose first element represents the primal output: result " +
        std::to_string(i) + " of the function is " + want[i].strong().to_string() +
        ", but the rule gave " + r.primals[i].aval().strong().to_string());
  }
}

JvpResult differentiate(const CustomJvpParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  if (p.call) return p.call->rule(primals, tangents);
  if (!p.jvp) {  // no rule: the body says it all
    return detail::jvp_flat([&](std::span<const Array> x) { return eval_jaxpr(p.call_jaxpr, x); },
                            primals, tangents);
  }
  const auto n = static_cast<std::size_t>(p.num_consts);
  for (const Tangent& t : tangents.first(n)) {
    if (t.is_zero()) continue;
    throw TypeError(
        "Detected differentiation of the custom_jvp function " + p.name +
        " with respect to a closed-over value. That's not supported because the custom JVP rule "
        "only specifies how to differentiate with respect to explicit input parameters. Try "
        "passing the closed-over value, of type " +
        t.aval().to_string() + ", into the function as an argument, and adapting the rule");
  }
  JvpResult result = (*p.jvp)(primals.subspan(n), tangents.subspan(n));
  check_results(p, result);
  return result;
}

BatchResult vectorise(const CustomJvpParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const auto num_out = static_cast<std::size_t>(p.call_jaxpr.num_outputs());
  const auto derived = detail::batch_jaxpr(p.call_jaxpr, axis, {axes.begin(), axes.end()},
                                           std::vector<bool>(num_out, true));
  CustomJvpParams mapped = p;
  mapped.call_jaxpr = derived->jaxpr;
  mapped.jvp = detail::batched_rule(p.jvp, axis, {axes.begin() + p.num_consts, axes.end()});
  return {custom_jvp_call_p.bind(mapped, args), derived->out_axes};
}

}  // namespace

const Primitive<CustomJvpParams> custom_jvp_call_p{
    "custom_jvp_call", [] {
      return Rules<CustomJvpParams>{
          .impl = run,
          .abstract_eval = type_of,
          .jvp = differentiate,
          // Under partial evaluation a linear function may keep its call; its body says how.
          .transpose =
              [](const CustomJvpParams& p, std::span<const Tangent> cts,
                 std::span<const LinearInput> inputs) {
                return detail::transpose_program(p.call_jaxpr, p.name, cts, inputs);
              },
          .batch = vectorise,
          .close = close,
          .lower = ops<CustomJvpParams>(run),
      };
    }};

namespace detail {

Arrays custom_jvp_arrays(const CustomJvpCall& call, std::span<const Array> args) {
  if (!find_top_trace(args)) return call.fun(args);
  CustomJvpParams params;
  params.name = call.name;
  params.symbolic_zeros = call.symbolic_zeros;
  params.call = &call;
  return custom_jvp_call_p.bind(params, args);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
