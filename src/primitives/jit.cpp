// jit: a call of a traced function. Each rule transforms the jaxpr it carries and binds jit again,
// so a jitted function stays jitted under every transformation. The transformed programs are memos
// of the source jaxpr: grad(jit(f)) finds its forward and backward programs again at every call.
#include <algorithm>

#include "core/concrete.hpp"
#include "core/nans.hpp"
#include "core/trace.hpp"
#include "interpreters/program_calls.hpp"
#include "runtime/executable_cache.hpp"
#include "telamon/debug.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

JitParams with_jaxpr(const JitParams& p, Jaxpr jaxpr, int num_consts = 0) {
  return {std::move(jaxpr), p.name, num_consts, p.backend, p.contract};
}

Arrays run(const JitParams& p, std::span<const Array> args) {
  if (detail::finding_nan()) return eval_jaxpr(p.jaxpr, args);
  const auto executable = runtime::executable_for(
      p.jaxpr, p.backend,
      {.contract = p.contract, .name = p.name, .disabled = {}, .donated = std::vector<bool>()});
  Arrays inputs, outputs;
  inputs.reserve(args.size());
  for (const Array& x : args) inputs.push_back(detail::contiguous_and_kept(x));
  executable->execute(inputs, {}, outputs, p.name.c_str());
  if (debug_nans()) detail::find_nan(p.jaxpr, "jit(" + p.name + ")", inputs, outputs);
  return outputs;
}

// Binds jit again with another program.
detail::Rebind again(const JitParams& p) {
  return [&p](const Jaxpr& program, const Arrays& args) {
    return jit_p.bind(with_jaxpr(p, program), args);
  };
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

DceResult prune(const JitParams& p, const std::vector<bool>& used_out) {
  DceJaxpr pruned = dce_jaxpr(p.jaxpr, used_out);
  const int num_consts = static_cast<int>(
      std::count(pruned.used_in.begin(), pruned.used_in.begin() + p.num_consts, true));
  return {Params::of(with_jaxpr(p, std::move(pruned.jaxpr), num_consts)),
          std::move(pruned.used_in)};
}

}  // namespace

const Primitive<JitParams> jit_p{
    "jit", [] {
      return Rules<JitParams>{
          .impl = run,
          .abstract_eval = [](const JitParams& p, std::span<const Aval> in) -> AbstractResult {
            return detail::type_of_call("jit", p.jaxpr, in);
          },
          .jvp =
              [](const JitParams& p, std::span<const Array> primals,
                 std::span<const Tangent> tangents) {
                return detail::jvp_of_call(p.jaxpr, primals, tangents, again(p));
              },
          .transpose =
              [](const JitParams& p, std::span<const Tangent> cts,
                 std::span<const LinearInput> inputs) {
                return detail::transpose_of_call(p.jaxpr, cts, inputs, again(p));
              },
          .batch =
              [](const JitParams& p, const AxisInfo& axis, std::span<const Array> args,
                 std::span<const BatchAxis> axes) {
                return detail::batch_of_call(p.jaxpr, axis, args, axes, again(p));
              },
          .partial_eval = split,
          .dce = prune,
          .exempt = {{"lower", "the compiler inlines calls"}},
          .inlinable = true,
      };
    }};

}  // namespace v1
}  // namespace telamon
