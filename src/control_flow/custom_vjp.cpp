// custom_vjp_call: a function that brings its pullback. Its jvp runs fwd and binds custom_lin, of
// which nothing but the transpose is known: reverse mode, being linearization and transposition,
// finds bwd there, and forward mode an error.
#include "control_flow/calls.hpp"
#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace {

Arrays run(const CustomVjpParams& p, std::span<const Array> args) {
  return p.call ? p.call->fun(args) : eval_jaxpr(p.call_jaxpr, args);
}

std::optional<ClosedCall> close(const CustomVjpParams& p, std::span<const Aval> avals) {
  if (!p.call) return std::nullopt;
  ClosedJaxpr body = detail::stage_flat(p.call->fun, avals, "custom_vjp(" + p.name + ")");
  CustomVjpParams closed{std::move(body.jaxpr), p.call->durable(), p.name, body.num_consts(),
                         p.symbolic_zeros};
  return ClosedCall{Params::of(std::move(closed)), std::move(body.consts)};
}

AbstractResult type_of(const CustomVjpParams& p, std::span<const Aval> in) {
  if (!p.call) return detail::type_of_call("custom_vjp_call", p.call_jaxpr, in);
  const ClosedJaxpr body = detail::stage_flat(p.call->fun, in);
  return {body.jaxpr.out_avals(), body.jaxpr.effect()};
}

void check_results(const CustomVjpParams& p, const Arrays& results) {
  const std::vector<Aval> want = p.call_jaxpr.out_avals();
  bool same = results.size() == want.size();
  for (std::size_t i = 0; same && i < want.size(); ++i) same = results[i].aval().same_type(want[i]);
  if (same) return;
  std::string expected, got;
  for (const Aval& a : want) expected += (expected.empty() ? "" : ", ") + a.strong().to_string();
  for (const Array& r : results) got += (got.empty() ? "" : ", ") + r.aval().strong().to_string();
  throw TypeError("Custom VJP fwd rule of " + p.name +
                  " must produce a pair whose first element represents the primal output: the "
                  "function gives (" +
                  expected + "), but fwd gave (" + got + ")");
}

JvpResult differentiate(const CustomVjpParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  if (!p.call && !p.fwd) {
    return detail::jvp_flat([&](std::span<const Array> x) { return eval_jaxpr(p.call_jaxpr, x); },
                            primals, tangents);
  }
  const auto n = static_cast<std::size_t>(p.num_consts);
  for (const Tangent& t : tangents.first(n)) {
    if (t.is_zero()) continue;
    throw TypeError("Detected differentiation of the custom_vjp function " + p.name +
                    " with respect to a closed-over value, of type " + t.aval().to_string() +
                    ". That's not supported because the rules only specify how to differentiate "
                    "with respect to explicit input parameters. Pass it as an argument, or use "
                    "closure_convert");
  }
  const detail::FlatForward& fwd = p.call ? p.call->fwd : *p.fwd;
  detail::ForwardResult forward = fwd(primals.subspan(n));
  if (!p.call) check_results(p, forward.results);
  CustomLinParams lin;
  lin.bwd = forward.bwd;
  lin.name = p.name;
  lin.num_res = static_cast<int>(forward.residuals.size());
  Arrays operands = std::move(forward.residuals);
  const detail::DenseTangents dense = detail::dense_tangents(tangents.subspan(n));
  lin.nonzero = dense.nonzero;
  operands.insert(operands.end(), dense.arrays.begin(), dense.arrays.end());
  for (const Array& y : forward.results) {
    lin.out_shapes.push_back(y.shape());
    lin.out_dtypes.push_back(y.aval().tangent().dtype);
  }
  const Arrays outs = custom_lin_p.bind(lin, operands);
  JvpResult result;
  std::size_t next = 0;
  for (const Array& y : forward.results) {
    const Aval tangent = y.aval().tangent();
    if (tangent.dtype == DType::float0) result.tangents.emplace_back(Zero{tangent});
    else result.tangents.emplace_back(outs[next++]);
  }
  result.primals = std::move(forward.results);
  return result;
}

BatchResult vectorise(const CustomVjpParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const auto num_out = static_cast<std::size_t>(p.call_jaxpr.num_outputs());
  const auto derived = detail::batch_jaxpr(p.call_jaxpr, axis, {axes.begin(), axes.end()},
                                           std::vector<bool>(num_out, true));
  CustomVjpParams mapped = p;
  mapped.call_jaxpr = derived->jaxpr;
  mapped.fwd = detail::batched_rule(p.fwd, axis, {axes.begin() + p.num_consts, axes.end()});
  return {custom_vjp_call_p.bind(mapped, args), derived->out_axes};
}

// ---- custom_lin --------------------------------------------------------------------------------

[[noreturn]] void refuse_forward_mode(const CustomLinParams& p) {
  if (p.name == "odeint") {  // the only one that is ours and has another way
    throw TypeError(
        "odeint with the adjoint gradient cannot be differentiated in forward mode (jvp, jacfwd, "
        "hessian): that gradient says how cotangents flow back only. Give it "
        "{.gradient = tl::ode::Gradient::discrete}, or use reverse mode (grad, jacrev)");
  }
  throw TypeError("can't apply forward-mode autodiff (jvp) to a custom_vjp function (" + p.name +
                  "): its rules say how cotangents flow back, not how tangents flow forward. Use "
                  "reverse mode (grad, vjp), or give the function a rule with custom_jvp");
}

std::vector<Aval> linear_results(const CustomLinParams& p) {
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < p.out_dtypes.size(); ++i) {
    if (p.out_dtypes[i] != DType::float0)
      avals.push_back({p.out_shapes[i], p.out_dtypes[i], false});
  }
  return avals;
}

std::vector<Tangent> pull_back(const CustomLinParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> inputs) {
  const auto n = static_cast<std::size_t>(p.num_res);
  Arrays residuals;
  for (const LinearInput& in : inputs.first(n)) {
    if (in.is_linear()) {
      throw TypeError("the residuals of the custom_vjp function " + p.name +
                      " depend on what is transposed: it is not linear in it");
    }
    residuals.push_back(in.array());
  }
  std::vector<Tangent> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < p.out_dtypes.size(); ++i) {
    if (p.out_dtypes[i] == DType::float0) all.emplace_back(Zero{{p.out_shapes[i], DType::float0}});
    else all.push_back(cts[next++]);
  }
  const std::vector<Tangent> given = (*p.bwd)(residuals, all);
  std::vector<Tangent> result;
  for (const LinearInput& in : inputs.first(n)) result.emplace_back(Zero{in.aval().tangent()});
  for (std::size_t i = 0; i < p.nonzero.size(); ++i) {
    if (p.nonzero[i]) result.push_back(given[i]);
  }
  return result;
}

BatchResult vectorise_lin(const CustomLinParams& p, const AxisInfo& axis,
                          std::span<const Array> args, std::span<const BatchAxis> axes) {
  const auto n = static_cast<std::size_t>(p.num_res);
  std::vector<BatchAxis> argument_axes;
  std::size_t next = n;
  for (const bool nonzero : p.nonzero)
    argument_axes.push_back(nonzero ? axes[next++] : std::nullopt);
  CustomLinParams mapped = p;
  mapped.bwd =
      detail::batched_rule(p.bwd, axis, {axes.begin(), axes.begin() + p.num_res}, argument_axes);
  for (Shape& shape : mapped.out_shapes) shape.insert(0, axis.size);
  Arrays outs = custom_lin_p.bind(mapped, args);
  const std::size_t num_out = outs.size();
  return {std::move(outs), std::vector<BatchAxis>(num_out, 0)};
}

}  // namespace

const Primitive<CustomVjpParams> custom_vjp_call_p{
    "custom_vjp_call", [] {
      return Rules<CustomVjpParams>{
          .impl = run,
          .abstract_eval = type_of,
          .jvp = differentiate,
          .transpose =
              [](const CustomVjpParams& p, std::span<const Tangent> cts,
                 std::span<const LinearInput> inputs) {
                return detail::transpose_program(p.call_jaxpr, p.name, cts, inputs);
              },
          .batch = vectorise,
          .close = close,
          .lower = ops<CustomVjpParams>(run),
      };
    }};

/// custom_lin(residuals, tangents): transposed by bwd, and nothing else.
const Primitive<CustomLinParams> custom_lin_p{
    "custom_lin", [] {
      return Rules<CustomLinParams>{
          .impl = [](const CustomLinParams& p, std::span<const Array>) -> Arrays {
            refuse_forward_mode(p);
          },
          .abstract_eval = [](const CustomLinParams& p, std::span<const Aval>) -> AbstractResult {
            return linear_results(p);
          },
          .jvp = [](const CustomLinParams& p, std::span<const Array>,
                    std::span<const Tangent>) -> JvpResult { refuse_forward_mode(p); },
          .transpose = pull_back,
          .batch = vectorise_lin,
          .lower =
              ops<CustomLinParams>([](const CustomLinParams& p, std::span<const Array>) -> Arrays {
                refuse_forward_mode(p);
              }),
      };
    }};

namespace detail {

Arrays custom_vjp_arrays(const CustomVjpCall& call, std::span<const Array> args) {
  if (!find_top_trace(args)) return call.fun(args);
  CustomVjpParams params;
  params.name = call.name;
  params.symbolic_zeros = call.symbolic_zeros;
  params.call = &call;
  return custom_vjp_call_p.bind(params, args);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
