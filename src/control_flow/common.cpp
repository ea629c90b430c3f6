// Running bodies of loops and branches; checks of their types.
#include "control_flow/common.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/nans.hpp"
#include "core/trace.hpp"
#include "jaxpr/builder.hpp"
#include "jaxpr/interned.hpp"
#include "runtime/executable_cache.hpp"
#include "telamon/debug.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

Program::Program(const Jaxpr& jaxpr, const std::string& name) : jaxpr_(jaxpr), name_(name) {
  if (!detail::finding_nan())
    executable_ =
        // Bodies are derived anew for each length of a loop, but compiled once.
        runtime::executable_for(detail::interned(jaxpr), {}, {.name = name, .disabled = {}});
}

Arrays Program::operator()(const Arrays& inputs) const {
  if (!executable_) return eval_jaxpr(jaxpr_, inputs);
  Arrays outputs;
  executable_->execute(inputs, {}, outputs);
  if (debug_nans()) detail::find_nan(jaxpr_, name_, inputs, outputs);
  return outputs;
}

Arrays dense(std::span<const Array> arrays) {
  Arrays out;
  out.reserve(arrays.size());
  for (const Array& x : arrays) out.push_back(detail::contiguous(x));
  return out;
}

Arrays arrays_of(std::span<const BufferView> views) {
  Arrays arrays;
  arrays.reserve(views.size());
  for (const BufferView& v : views)
    arrays.push_back(Array::from_data(v.data, v.dtype, Shape(v.shape)));
  return arrays;
}

void copy_to(std::span<const Array> arrays, std::span<const MutableBufferView> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Array x = detail::contiguous(arrays[i]);
    std::memcpy(views[i].data, detail::data_of<void>(x),
                static_cast<std::size_t>(x.size()) * size_of(x.dtype()));
  }
}

Jaxpr rearranged(const Jaxpr& jaxpr, const Order& inputs, const Order& outs) {
  detail::JaxprBuilder builder;
  Atoms env(static_cast<std::size_t>(jaxpr.num_inputs()), Atom::var(0));
  for (const std::size_t i : inputs) env[i] = Atom::var(builder.add_input(jaxpr.in_avals()[i]));
  const Atoms results = builder.inline_jaxpr(jaxpr, std::move(env));
  return builder.build(taken(results, outs)).jaxpr;
}

Order counting(std::size_t from, std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), from);
  return order;
}

Order places(const Mask& mask, bool value) {
  Order order;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == value) order.push_back(i);
  }
  return order;
}

Order joined(std::initializer_list<Order> parts) {
  Order all;
  for (const Order& part : parts) append(all, part);
  return all;
}

Array zeros_of(const Aval& aval) { return Tangent(Zero{aval}).instantiate(); }

bool any_of(const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

void unite(Mask& mask, const Mask& other) {
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = mask[i] || other[i];
}

Jaxpr with_inputs(const Jaxpr& jaxpr, const DceJaxpr& pruned, const Mask& used) {
  std::vector<Aval> inputs;
  Atoms map;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (pruned.used_in[i]) map.push_back(Atom::var(static_cast<Var>(inputs.size())));
    if (used[i]) inputs.push_back(jaxpr.in_avals()[i]);
  }
  return substitute_inputs(pruned.jaxpr, inputs, map);
}

Jaxpr pruned(const Jaxpr& jaxpr, const DceJaxpr& dce, const Mask& used_in, const Mask& used_out) {
  const std::string key =
      "pruned:" + detail::mask_text(used_in) + ":" + detail::mask_text(used_out);
  const auto memo = jaxpr.memo<std::optional<Jaxpr>>(key, [&]() -> std::optional<Jaxpr> {
    Jaxpr result = with_inputs(jaxpr, dce, used_in);
    if (result.same_as(jaxpr)) return std::nullopt;
    return result;
  });
  return memo->value_or(jaxpr);
}

Array where_leading(const Array& mask, const Array& chosen, const Array& other) {
  Shape dims;
  for (int i = 0; i < mask.ndim(); ++i) dims.push_back(i);
  const Array full =
      mask.ndim() == chosen.ndim() ? mask : lax::broadcast_in_dim(mask, chosen.shape(), dims);
  return lax::select(full, chosen, other);
}

PartialEvalResult unsplit(const PrimitiveBase& primitive, const Params& params,
                          const std::vector<Aval>& in_avals, const Mask& unknown_in,
                          std::size_t num_outputs) {
  PartialEvalResult r;
  r.unknown_out.assign(num_outputs, true);
  const Order known = places(unknown_in, false), unknown = places(unknown_in);
  const ClosedJaxpr nothing =
      detail::stage_flat([](std::span<const Array>) { return Arrays(); }, taken(in_avals, known));
  r.known_program = nothing.jaxpr;
  const Order order = joined({known, unknown});  // of the staged program's inputs
  const ClosedJaxpr all = detail::stage_flat(
      [&](std::span<const Array> args) {
        Arrays operands(args.size());
        for (std::size_t i = 0; i < args.size(); ++i) operands[order[i]] = args[i];
        return primitive.bind_erased(params, operands);
      },
      taken(in_avals, order));
  r.staged_program = all.jaxpr;
  for (std::size_t i = 0; i < known.size(); ++i)
    r.residuals.push_back({Residual::Kind::input, static_cast<int>(i)});
  return r;
}

Jaxpr called(const Jaxpr& jaxpr, const std::vector<Aval>& avals, const Order& inputs,
             const std::string& name) {
  detail::JaxprBuilder builder;
  Atoms all;
  for (const Aval& aval : avals) all.push_back(Atom::var(builder.add_input(aval)));
  JitParams params;
  params.jaxpr = jaxpr;
  params.name = name;
  Atoms outs;
  for (const Var v :
       builder.add_eqn(jit_p, Params::of(params), taken(all, inputs), jaxpr.out_avals(),
                       jaxpr.effect(), detail::current_call_site()))
    outs.push_back(Atom::var(v));
  return builder.build(std::move(outs)).jaxpr;
}

void check_operands(std::string_view name, std::span<const Aval> in,
                    const std::vector<Aval>& expected) {
  const std::string who(name);
  if (in.size() != expected.size()) {
    throw TypeError(who + ": " + detail::counted(in.size(), "operand") + " where its jaxprs take " +
                    std::to_string(expected.size()));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].same_type(expected[i])) continue;
    throw TypeError(who + ": operand " + std::to_string(i) + " of type " + in[i].to_string() +
                    " cannot be passed to an input of type " + expected[i].to_string());
  }
}

void bad_jaxpr(std::string_view name, const std::string& problem) {
  throw TypeError(std::string(name) + ": " + problem);
}

std::string avals_text(std::span<const Aval> avals) {
  std::string text = "(";
  for (const Aval& aval : avals) text += (text.size() > 1 ? ", " : "") + aval.to_string();
  return text + ")";
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
