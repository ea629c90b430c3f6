// custom_vmap_call: a function that brings its batching rule; and closure_convert.
#include <algorithm>

#include "control_flow/calls.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"
#include "telamon/detail/linear_call.hpp"

namespace telamon {
inline namespace v1 {
namespace {

Arrays run(const CustomVmapParams& p, std::span<const Array> args) {
  return eval_jaxpr(p.call, args);
}

// The rule of the derivative: the derivative of the rule. A primal and its tangent are mapped
// together.
detail::VmapRule differentiated(const detail::VmapRule& rule, const std::vector<bool>& nonzero,
                                const std::vector<bool>& nonzero_out) {
  if (!rule) return rule;
  const std::string key =
      "jvp:" + detail::mask_text(nonzero) + ":" + detail::mask_text(nonzero_out) + rule.key();
  return detail::VmapRule::make("jvp_" + rule.to_string(), key, [&] {
    return detail::FlatVmapRule([=](std::int64_t size, const std::vector<bool>& mapped,
                                    std::span<const Array> args) {
      const std::size_t n = nonzero.size();
      Arrays primals(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(n));
      std::vector<bool> together(mapped.begin(), mapped.begin() + static_cast<std::ptrdiff_t>(n));
      std::vector<Tangent> tangents;
      std::size_t next = n;
      for (std::size_t i = 0; i < n; ++i) {
        if (!nonzero[i]) {
          tangents.emplace_back(Zero{primals[i].aval().tangent()});
          continue;
        }
        Array t = args[next];
        const bool t_mapped = mapped[next++];
        if (t_mapped && !together[i]) primals[i] = detail::batch_at_front(primals[i], {}, size);
        if (!t_mapped && together[i]) t = detail::batch_at_front(t, {}, size);
        together[i] = together[i] || t_mapped;
        tangents.emplace_back(t);
      }
      std::vector<bool> out_mapped;
      const JvpResult r = detail::jvp_flat(
          [&](std::span<const Array> x) {
            detail::MappedResults results = (*rule)(size, together, x);
            out_mapped = results.mapped;
            return results.values;
          },
          primals, tangents);
      detail::MappedResults out{r.primals, out_mapped};
      for (std::size_t i = 0; i < r.tangents.size(); ++i) {
        if (!nonzero_out[i]) continue;
        out.values.push_back(r.tangents[i].instantiate());
        out.mapped.push_back(out_mapped[i]);
      }
      return out;
    });
  });
}

JvpResult differentiate(const CustomVmapParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const detail::DenseTangents dense = detail::dense_tangents(tangents);
  Arrays args(primals.begin(), primals.end());
  args.insert(args.end(), dense.arrays.begin(), dense.arrays.end());
  std::vector<bool> inexact;
  for (const Aval& a : p.call.out_avals()) inexact.push_back(a.tangent().dtype != DType::float0);
  const auto derived = detail::jvp_jaxpr(p.call, dense.nonzero, inexact);
  CustomVmapParams pushed = p;
  pushed.call = derived->jaxpr;
  const bool of_consts = std::find(dense.nonzero.begin(), dense.nonzero.begin() + p.num_consts,
                                   true) != dense.nonzero.begin() + p.num_consts;
  if (of_consts) pushed.rule = {};  // the rule does not know of them; the body does
  else
    pushed.rule = differentiated(
        p.rule, {dense.nonzero.begin() + p.num_consts, dense.nonzero.end()}, derived->nonzero_out);
  const Arrays outs = custom_vmap_call_p.bind(pushed, args);
  JvpResult result;
  std::size_t next = inexact.size();
  for (std::size_t i = 0; i < inexact.size(); ++i) {
    result.primals.push_back(outs[i]);
    if (derived->nonzero_out[i]) result.tangents.emplace_back(outs[next++]);
    else result.tangents.emplace_back(Zero{outs[i].aval().tangent()});
  }
  return result;
}

BatchResult vectorise(const CustomVmapParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const auto n = static_cast<std::size_t>(p.num_consts);
  if (!p.rule) {
    const auto num_out = static_cast<std::size_t>(p.call.num_outputs());
    const auto derived = detail::batch_jaxpr(p.call, axis, {axes.begin(), axes.end()},
                                             std::vector<bool>(num_out, false));
    CustomVmapParams mapped = p;
    mapped.call = derived->jaxpr;
    return {custom_vmap_call_p.bind(mapped, args), derived->out_axes};
  }
  std::vector<bool> mapped;
  Arrays moved;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (i < n) {
      if (!axes[i]) continue;
      throw TypeError("the custom_vmap function " + p.name + " captured a value of type " +
                      args[i].aval().to_string() +
                      " that is mapped; pass it as an argument, so that its rule sees it");
    }
    mapped.push_back(axes[i].has_value());
    moved.push_back(axes[i] ? detail::move_axis(args[i], *axes[i], 0) : args[i]);
  }
  const detail::MappedResults out = (*p.rule)(axis.size, mapped, moved);
  BatchResult result;
  const std::vector<Aval> examples = p.call.out_avals();
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    Aval want = examples.at(i);
    if (out.mapped[i]) want.shape.insert(0, axis.size);
    if (!out.values[i].aval().same_type(want)) {
      throw TypeError("the batching rule of the custom_vmap function " + p.name + " gave " +
                      out.values[i].aval().strong().to_string() + " as result " +
                      std::to_string(i) + " where " + want.strong().to_string() + " is expected" +
                      (out.mapped[i] ? " (mapped along axis 0)" : " (not mapped)"));
    }
    result.values.push_back(out.values[i]);
    result.axes.push_back(out.mapped[i] ? BatchAxis(0) : std::nullopt);
  }
  return result;
}

// The halves are other functions, of which no rule is known: their bodies are mapped.
PartialEvalResult split(const CustomVmapParams& p, const Jaxpr&, const Eqn&,
                        const std::vector<bool>& unknown_in,
                        const std::vector<bool>& instantiate_out, const Policy& policy) {
  const auto halves = policy ? detail::split_jaxpr(p.call, unknown_in, instantiate_out, policy)
                             : detail::partial_eval_jaxpr(p.call, unknown_in, instantiate_out);
  return {Params::of(CustomVmapParams{halves->known, {}, p.name, 0}),
          Params::of(CustomVmapParams{halves->staged, {}, p.name, 0}), halves->unknown_out,
          halves->residuals, halves->fresh_avals};
}

}  // namespace

const Primitive<CustomVmapParams> custom_vmap_call_p{
    "custom_vmap_call", [] {
      return Rules<CustomVmapParams>{
          .impl = run,
          .abstract_eval = [](const CustomVmapParams& p, std::span<const Aval> in)
              -> AbstractResult { return detail::type_of_call("custom_vmap_call", p.call, in); },
          .jvp = differentiate,
          .transpose =
              [](const CustomVmapParams& p, std::span<const Tangent> cts,
                 std::span<const LinearInput> inputs) {
                return detail::transpose_program(p.call, p.name, cts, inputs);
              },
          .batch = vectorise,
          .partial_eval = split,
          .lower = ops<CustomVmapParams>(run),
      };
    }};

namespace detail {

Arrays custom_vmap_arrays(const FlatFunction& f, const Function<VmapRule()>& rule,
                          std::span<const Array> args, const std::string& name) {
  if (!tracing_under_way()) return f(args);
  const std::vector<Aval> avals = avals_of(args);
  ClosedJaxpr body = stage_flat(f, avals, "custom_vmap(" + name + ")");
  const int num_consts = body.num_consts();
  Arrays operands = std::move(body.consts);
  operands.insert(operands.end(), args.begin(), args.end());
  return custom_vmap_call_p.bind({std::move(body.jaxpr), rule(), name, num_consts}, operands);
}

Array mapped_at_front(const Array& x, std::int64_t size) { return batch_at_front(x, {}, size); }

ConvertedClosure convert_closure(const FlatFunction& f, std::span<const Array> args) {
  const std::vector<Aval> avals = avals_of(args);
  ClosedJaxpr body = stage_flat(f, avals, "closure_convert");
  ConvertedClosure converted;
  converted.jaxpr = std::move(body.jaxpr);
  for (const Array& c : body.consts) {
    converted.is_hoisted.push_back(c.is_tracer() && is_inexact(c.dtype()));
    (converted.is_hoisted.back() ? converted.hoisted : converted.kept).push_back(c);
  }
  return converted;
}

Arrays ConvertedClosure::call(std::span<const Array> args, std::span<const Array> values) const {
  const auto wanted =
      static_cast<std::size_t>(std::count(is_hoisted.begin(), is_hoisted.end(), true));
  if (values.size() != wanted) {
    throw TypeError("the function that closure_convert made takes " +
                    counted(wanted, "hoisted value") + ", got " + std::to_string(values.size()));
  }
  Arrays all;
  std::size_t next_kept = 0, next_value = 0;
  for (const bool h : is_hoisted) all.push_back(h ? values[next_value++] : kept[next_kept++]);
  all.insert(all.end(), args.begin(), args.end());
  return eval_jaxpr(jaxpr, all);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
