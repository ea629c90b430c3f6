// jit: a call of a traced function. Each rule transforms the jaxpr it carries and binds jit again,
// so a jitted function stays jitted under every transformation. The transformed programs are memos
// of the source jaxpr: grad(jit(f)) finds its forward and backward programs again at every call.
#include <algorithm>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "runtime/executable_cache.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

JitParams with_jaxpr(const JitParams& p, Jaxpr jaxpr, int num_consts = 0) {
  return {std::move(jaxpr), p.name, num_consts, p.backend, p.contract};
}

Arrays run(const JitParams& p, std::span<const Array> args) {
  const auto executable = runtime::executable_for(
      p.jaxpr, p.backend, {.contract = p.contract, .name = p.name, .disabled = {}});
  Arrays inputs, outputs;
  inputs.reserve(args.size());
  for (const Array& x : args) inputs.push_back(detail::contiguous(x));
  executable->execute(inputs, {}, outputs, p.name.c_str());
  return outputs;
}

AbstractResult type_of_call(const JitParams& p, std::span<const Aval> in) {
  const auto expected = p.jaxpr.in_avals();
  if (in.size() != expected.size()) {
    throw TypeError("jit: " + std::to_string(in.size()) + " operands cannot call jaxpr with " +
                    std::to_string(expected.size()) + " inputs");
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].same_type(expected[i])) {
      throw TypeError("jit: operand " + std::to_string(i) + " of type " + in[i].to_string() +
                      " cannot be passed to an input of type " + expected[i].to_string());
    }
  }
  return {p.jaxpr.out_avals(), p.jaxpr.effect()};
}

JvpResult differentiate(const JitParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  Arrays args(primals.begin(), primals.end());
  std::vector<bool> nonzero;
  for (const Tangent& t : tangents) {
    nonzero.push_back(!t.is_zero());
    if (!t.is_zero()) args.push_back(t.array());
  }
  const auto num_out = static_cast<std::size_t>(p.jaxpr.num_outputs());
  const auto derived = detail::jvp_jaxpr(p.jaxpr, nonzero, std::vector<bool>(num_out, false));
  Arrays outs = jit_p.bind(with_jaxpr(p, derived->jaxpr), args);
  JvpResult result;
  std::size_t next = num_out;
  for (std::size_t i = 0; i < num_out; ++i) {
    result.primals.push_back(outs[i]);
    if (derived->nonzero_out[i]) result.tangents.emplace_back(outs[next++]);
    else result.tangents.emplace_back(Zero{outs[i].aval().tangent()});
  }
  return result;
}

BatchResult vectorise(const JitParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const auto num_out = static_cast<std::size_t>(p.jaxpr.num_outputs());
  const auto derived = detail::batch_jaxpr(p.jaxpr, axis, {axes.begin(), axes.end()},
                                           std::vector<bool>(num_out, false));
  return {jit_p.bind(with_jaxpr(p, derived->jaxpr), args), derived->out_axes};
}

PartialEvalResult split(const JitParams& p, const Jaxpr&, const Eqn&,
                        const std::vector<bool>& unknown_in,
                        const std::vector<bool>& instantiate_out, const Policy& policy) {
  // Programs split under a policy are not remembered: a policy has no name to remember them by.
  const auto halves = policy ? detail::split_jaxpr(p.jaxpr, unknown_in, instantiate_out, policy)
                             : detail::partial_eval_jaxpr(p.jaxpr, unknown_in, instantiate_out);
  return {Params::of(with_jaxpr(p, halves->known)), Params::of(with_jaxpr(p, halves->staged)),
          halves->unknown_out, halves->residuals, halves->fresh_avals};
}

std::vector<Tangent> transposed_call(const JitParams& p, std::span<const Tangent> cts,
                                     std::span<const LinearInput> inputs) {
  Arrays args;
  std::vector<bool> linear, zero;
  for (const LinearInput& in : inputs) {
    linear.push_back(in.is_linear());
    if (!in.is_linear()) args.push_back(in.array());
  }
  for (const Tangent& ct : cts) {
    zero.push_back(ct.is_zero());
    if (!ct.is_zero()) args.push_back(ct.array());
  }
  const auto derived = detail::transpose_jaxpr(p.jaxpr, linear, zero);
  const Arrays outs = jit_p.bind(with_jaxpr(p, derived->jaxpr), args);
  std::vector<Tangent> result;
  std::size_t next = 0, linear_index = 0;
  for (const LinearInput& in : inputs) {
    if (in.is_linear() && derived->nonzero_in_ct[linear_index++]) result.emplace_back(outs[next++]);
    else result.emplace_back(Zero{in.aval().tangent()});
  }
  return result;
}

DceResult prune(const JitParams& p, const std::vector<bool>& used_out) {
  DceJaxpr pruned = dce_jaxpr(p.jaxpr, used_out);
  const int num_consts = static_cast<int>(
      std::count(pruned.used_in.begin(), pruned.used_in.begin() + p.num_consts, true));
  return {Params::of(with_jaxpr(p, std::move(pruned.jaxpr), num_consts)),
          std::move(pruned.used_in)};
}

}  // namespace

const Primitive<JitParams> jit_p{"jit", [] {
                                   return Rules<JitParams>{
                                       .impl = run,
                                       .abstract_eval = type_of_call,
                                       .jvp = differentiate,
                                       .transpose = transposed_call,
                                       .batch = vectorise,
                                       .partial_eval = split,
                                       .dce = prune,
                                       .exempt = {{"lower", "the compiler inlines calls"}},
                                   };
                                 }};

}  // namespace v1
}  // namespace telamon
