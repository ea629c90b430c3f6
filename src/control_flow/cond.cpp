// cond: one of several programs, chosen by an index.
#include <algorithm>

#include "control_flow/accumulate.hpp"
#include "control_flow/common.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

// Indices out of range choose the nearest branch, as in compiled programs.
const Jaxpr& branch_at(const CondParams& p, const Array& index) {
  const auto last = static_cast<std::int64_t>(p.branches.size()) - 1;
  return p.branches[static_cast<std::size_t>(
      std::clamp<std::int64_t>(index.item<std::int64_t>(), 0, last))];
}

Arrays run_cond(const CondParams& p, std::span<const Array> args) {
  return Program(branch_at(p, args[0]), "cond")(dense(args.subspan(1)));
}

AbstractResult type_of_cond(const CondParams& p, std::span<const Aval> in) {
  if (p.branches.empty()) bad_jaxpr("cond", "it has no branches");
  if (in.empty() || !in[0].shape.empty() ||
      (in[0].dtype != DType::i32 && in[0].dtype != DType::bool_)) {
    throw TypeError("cond: operand 0 is the index, a scalar of bool or i32, but it is " +
                    (in.empty() ? std::string("missing") : in[0].to_string()));
  }
  if (in[0].dtype == DType::bool_ && p.branches.size() > 2)
    bad_jaxpr("cond",
              "a bool chooses between two branches, not " + std::to_string(p.branches.size()));
  const Jaxpr& first = p.branches[0];
  check_operands("cond", in.subspan(1), {first.in_avals().begin(), first.in_avals().end()});
  std::vector<Aval> outs = first.out_avals();
  Effect effect = Effect::none;
  for (const Jaxpr& branch : p.branches) {
    const std::vector<Aval> other = branch.out_avals();
    if (!detail::same_types(branch.in_avals(), first.in_avals()) ||
        !detail::same_types(other, outs)) {
      bad_jaxpr("cond", "branches have different types: " + avals_text(first.in_avals()) + " -> " +
                            avals_text(outs) + " and " + avals_text(branch.in_avals()) + " -> " +
                            avals_text(other));
    }
    for (std::size_t i = 0; i < outs.size(); ++i)
      outs[i].weak_type = outs[i].weak_type && other[i].weak_type;
    effect = join(effect, branch.effect());
  }
  return {std::move(outs), effect};
}

// ---- jvp ---------------------------------------------------------------------------------------
// A result has a tangent if it has one in some branch.

JvpResult differentiate(const CondParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  Mask nonzero;
  Arrays args(primals.begin(), primals.end());
  for (const Tangent& t : tangents.subspan(1)) {
    nonzero.push_back(!t.is_zero());
    if (!t.is_zero()) args.push_back(t.array());
  }
  const auto num_out = static_cast<std::size_t>(p.branches[0].num_outputs());
  Mask wanted(num_out, false);
  for (const Jaxpr& branch : p.branches)
    unite(wanted, detail::jvp_jaxpr(branch, nonzero, Mask(num_out, false))->nonzero_out);
  CondParams derived;
  for (const Jaxpr& branch : p.branches)
    derived.branches.push_back(detail::jvp_jaxpr(branch, nonzero, wanted)->jaxpr);
  const Arrays outs = cond_p.bind(derived, args);
  // Where it is known which branch runs, so is which results have no tangent.
  Mask nonzero_out = wanted;
  if (const std::optional<Array> index = detail::known_value(primals[0]))
    nonzero_out =
        detail::jvp_jaxpr(branch_at(p, *index), nonzero, Mask(num_out, false))->nonzero_out;
  JvpResult result;
  std::size_t next = num_out;
  for (std::size_t i = 0; i < num_out; ++i) {
    result.primals.push_back(outs[i]);
    if (nonzero_out[i]) result.tangents.emplace_back(outs[next]);
    else result.tangents.emplace_back(Zero{outs[i].aval().tangent()});
    if (wanted[i]) ++next;
  }
  return result;
}

// ---- batch -------------------------------------------------------------------------------------

std::vector<std::shared_ptr<const detail::BatchJaxpr>> batched_branches(
    const CondParams& p, const AxisInfo& axis, const std::vector<BatchAxis>& axes,
    const Mask& forced) {
  std::vector<std::shared_ptr<const detail::BatchJaxpr>> derived;
  for (const Jaxpr& branch : p.branches)
    derived.push_back(detail::batch_jaxpr(branch, axis, axes, forced));
  return derived;
}

// A mapped index: every branch is applied to the whole batch, and results are selected. Operands
// pass through a selection too, whose other side has no derivative: what a branch gives for examples
// that do not take it may be infinite or NaN, and this keeps it out of gradients.
BatchResult select_branches(const CondParams& p, const AxisInfo& axis, std::span<const Array> args,
                            std::span<const BatchAxis> axes) {
  const auto num_out = static_cast<std::size_t>(p.branches[0].num_outputs());
  for (const Jaxpr& branch : p.branches) {
    if (branch.effect() != Effect::none)
      throw TypeError(
          "cond: vmap with a mapped predicate runs every branch, so no branch may have "
          "effects");
  }
  Arrays operands;
  for (std::size_t i = 1; i < args.size(); ++i)
    operands.push_back(detail::batch_at_front(args[i], axes[i], axis.size));
  const auto derived = batched_branches(
      p, axis, std::vector<BatchAxis>(operands.size(), BatchAxis(0)), Mask(num_out, true));
  std::vector<Arrays> results;
  for (std::size_t b = 0; b < derived.size(); ++b) {
    const Array taken_here =
        args[0].dtype() != DType::bool_
            ? lax::eq(args[0], lax::full(args[0].aval(), static_cast<double>(b)))
        : b == 0 ? lax::bitwise_not(args[0])
                 : args[0];
    Arrays safe;
    for (const Array& x : operands) {
      safe.push_back(is_inexact(x.dtype()) ? where_leading(taken_here, x, lax::stop_gradient(x))
                                           : x);
    }
    results.push_back(eval_jaxpr(derived[b]->jaxpr, safe));
  }
  BatchResult out;
  for (std::size_t i = 0; i < num_out; ++i) {
    Arrays cases;
    for (const Arrays& r : results) cases.push_back(r[i]);
    const Array which =
        cases[0].ndim() == 1 ? args[0] : lax::broadcast_in_dim(args[0], cases[0].shape(), {0});
    out.values.push_back(lax::select_n(which, cases));
    out.axes.emplace_back(0);
  }
  return out;
}

BatchResult vectorise(const CondParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  if (axes[0]) return select_branches(p, axis, args, axes);
  const std::vector<BatchAxis> in(axes.begin() + 1, axes.end());
  const auto num_out = static_cast<std::size_t>(p.branches[0].num_outputs());
  Mask mapped(num_out, false);
  for (const auto& b : batched_branches(p, axis, in, mapped)) {
    for (std::size_t i = 0; i < num_out; ++i) mapped[i] = mapped[i] || b->out_axes[i].has_value();
  }
  CondParams derived;
  for (const auto& b : batched_branches(p, axis, in, mapped)) derived.branches.push_back(b->jaxpr);
  BatchResult result{cond_p.bind(derived, args), {}};
  for (const bool m : mapped) result.axes.push_back(m ? BatchAxis(0) : std::nullopt);
  return result;
}

// ---- partial evaluation --------------------------------------------------------------------------
// Each branch is split. The residuals of all of them travel between the two halves, side by side:
// inputs and results are shared, and new values of one type share a slot, because one branch runs.
// A branch fills slots that it does not use with zeros.

using Split = std::shared_ptr<const detail::PartialEvalJaxpr>;

Split split_branch(const Jaxpr& branch, const Mask& unknown_in, const Mask& wanted,
                   const Policy& policy) {
  return policy ? detail::split_jaxpr(branch, unknown_in, wanted, policy)
                : detail::partial_eval_jaxpr(branch, unknown_in, wanted);
}

struct Slots {
  std::vector<Aval> avals;
  std::vector<Order> of_branch;  // slot of each fresh residual
  Order inputs, outputs;         // known operands and known results that are residuals

  explicit Slots(const std::vector<Split>& splits) {
    for (const Split& split : splits) {
      Order mine;
      for (const Aval& aval : split->fresh_avals) mine.push_back(slot_for(aval, mine));
      of_branch.push_back(std::move(mine));
      for (const Residual& r : split->residuals) {
        if (r.kind == Residual::Kind::input) add(inputs, r.index);
        if (r.kind == Residual::Kind::output) add(outputs, r.index);
      }
    }
  }
  static void add(Order& to, int index) {
    const auto i = static_cast<std::size_t>(index);
    if (std::find(to.begin(), to.end(), i) == to.end()) to.push_back(i);
  }
  std::size_t slot_for(const Aval& aval, const Order& used) {
    std::size_t slot = 0;
    while (slot < avals.size() && (!avals[slot].same_type(aval) ||
                                   std::find(used.begin(), used.end(), slot) != used.end()))
      ++slot;
    if (slot == avals.size()) avals.push_back(aval);
    return slot;
  }
  std::string text(std::size_t branch) const {
    std::string text;
    for (const Aval& aval : avals) text += aval.to_string();
    for (const Order* order : {&of_branch[branch], &inputs, &outputs}) {
      text += ":";
      for (const std::size_t i : *order) text += std::to_string(i) + ",";
    }
    return text;
  }
};

// Known operands -> known results, slots.
Jaxpr known_branch(const detail::PartialEvalJaxpr& split, const Slots& slots, std::size_t branch) {
  const auto in = split.known.in_avals();
  return detail::stage_flat(
             [&](std::span<const Array> args) {
               Arrays outs = eval_jaxpr(split.known, args);
               const std::size_t num_known = outs.size() - split.fresh_avals.size();
               Arrays filled(slots.avals.size());
               for (std::size_t i = 0; i < split.fresh_avals.size(); ++i)
                 filled[slots.of_branch[branch][i]] = outs[num_known + i];
               outs.resize(num_known);
               for (std::size_t s = 0; s < filled.size(); ++s)
                 outs.push_back(filled[s].has_value() ? filled[s] : zeros_of(slots.avals[s]));
               return outs;
             },
             std::vector<Aval>(in.begin(), in.end()))
      .jaxpr;
}

// Residual operands, residual results, slots, unknown operands -> unknown results.
Jaxpr staged_branch(const detail::PartialEvalJaxpr& split, const Slots& slots, std::size_t branch,
                    const std::vector<Aval>& avals) {
  detail::JaxprBuilder builder;
  Atoms inputs, args;
  for (const Aval& aval : avals) inputs.push_back(Atom::var(builder.add_input(aval)));
  const auto at = [](const Order& order, std::size_t i) {
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), i) - order.begin());
  };
  const std::size_t outputs = slots.inputs.size(), fresh = outputs + slots.outputs.size();
  for (const Residual& r : split.residuals) {
    const auto i = static_cast<std::size_t>(r.index);
    args.push_back(inputs[r.kind == Residual::Kind::input    ? at(slots.inputs, i)
                          : r.kind == Residual::Kind::output ? outputs + at(slots.outputs, i)
                                                             : fresh + slots.of_branch[branch][i]]);
  }
  args.insert(args.end(), inputs.begin() + static_cast<std::ptrdiff_t>(fresh + slots.avals.size()),
              inputs.end());
  return builder.build(builder.inline_jaxpr(split.staged, std::move(args))).jaxpr;
}

PartialEvalResult split_cond(const CondParams& p, const Jaxpr& around, const Eqn& eqn,
                             const Mask& unknown_in, const Mask& instantiate_out,
                             const Policy& policy) {
  const auto in = p.branches[0].in_avals();
  if (unknown_in[0]) {
    std::vector<Aval> avals{around.aval(eqn.inputs[0])};
    avals.insert(avals.end(), in.begin(), in.end());
    return unsplit(cond_p, Params::of(p), avals, unknown_in, instantiate_out.size());
  }
  const Mask unknown(unknown_in.begin() + 1, unknown_in.end());
  Mask wanted = instantiate_out;
  for (const Jaxpr& branch : p.branches)
    unite(wanted, split_branch(branch, unknown, wanted, policy)->unknown_out);
  std::vector<Split> splits;
  for (const Jaxpr& branch : p.branches)
    splits.push_back(split_branch(branch, unknown, wanted, policy));
  const Slots slots(splits);

  std::vector<Aval> staged_in;
  const Order known_in = places(unknown, false), known_out = places(wanted, false);
  const std::vector<Aval> out = p.branches[0].out_avals();
  for (const std::size_t i : slots.inputs) staged_in.push_back(in[known_in[i]]);
  for (const std::size_t i : slots.outputs) staged_in.push_back(out[known_out[i]]);
  append(staged_in, slots.avals);
  for (const std::size_t i : places(unknown)) staged_in.push_back(in[i]);

  CondParams known, staged;
  const std::string masks = detail::mask_text(unknown) + ":" + detail::mask_text(wanted) + ":";
  for (std::size_t b = 0; b < p.branches.size(); ++b) {
    const auto make_known = [&] { return known_branch(*splits[b], slots, b); };
    const auto make_staged = [&] { return staged_branch(*splits[b], slots, b, staged_in); };
    if (policy) {
      known.branches.push_back(make_known());
      staged.branches.push_back(make_staged());
      continue;
    }
    const std::string key = masks + slots.text(b);
    known.branches.push_back(*p.branches[b].memo<Jaxpr>("cond.known:" + key, make_known));
    staged.branches.push_back(*p.branches[b].memo<Jaxpr>("cond.staged:" + key, make_staged));
  }
  PartialEvalResult r{Params::of(known), Params::of(staged), wanted, {}, slots.avals};
  r.residuals.push_back({Residual::Kind::input, 0});
  for (const std::size_t i : slots.inputs)
    r.residuals.push_back({Residual::Kind::input, static_cast<int>(i) + 1});
  for (const std::size_t i : slots.outputs)
    r.residuals.push_back({Residual::Kind::output, static_cast<int>(i)});
  for (std::size_t i = 0; i < slots.avals.size(); ++i)
    r.residuals.push_back({Residual::Kind::fresh, static_cast<int>(i)});
  return r;
}

bool has_unbounded_loop(const Jaxpr& jaxpr) {
  return std::any_of(jaxpr.eqns().begin(), jaxpr.eqns().end(), [](const Eqn& eqn) {
    if (eqn.primitive == &while_p) return !eqn.params.as<WhileParams>().max_steps;
    if (eqn.primitive != &cond_p) return false;
    const auto branches = eqn.params.jaxprs();
    return std::any_of(branches.begin(), branches.end(), has_unbounded_loop);
  });
}

// The branch on the values at hand, which say how many steps its loops take.
PartialEvalResult run_known_half(const Jaxpr& branch,
                                 std::span<const std::optional<Array>> values) {
  detail::PartiallyEvaluated halves = detail::partial_eval_flat(
      [&](std::span<const Array> args) { return eval_jaxpr(branch, args); }, values,
      branch.in_avals());
  PartialEvalResult r;
  Arrays known;
  for (const std::optional<Array>& out : halves.known_out) {
    r.unknown_out.push_back(!out.has_value());
    if (out) known.push_back(*out);
  }
  for (std::size_t i = 0; i < halves.consts.size(); ++i) {
    r.residuals.push_back({Residual::Kind::fresh, static_cast<int>(i)});
    r.fresh_avals.push_back(halves.consts[i].aval());
  }
  append(known, halves.consts);
  r.known_values = std::move(known);
  r.staged_program = halves.jaxpr;
  return r;
}

// Where the index has a value, its branch is all there is.
std::optional<PartialEvalResult> split_known_branch(const CondParams& p,
                                                    std::span<const std::optional<Array>> values) {
  if (!values[0]) return std::nullopt;
  const std::optional<Array> index = detail::known_value(*values[0]);
  if (!index) return std::nullopt;
  const Jaxpr& branch = branch_at(p, *index);
  if (has_unbounded_loop(branch)) return run_known_half(branch, values.subspan(1));
  Mask unknown;
  for (const auto& value : values.subspan(1)) unknown.push_back(!value.has_value());
  const Split split = detail::partial_eval_jaxpr(
      branch, unknown, Mask(static_cast<std::size_t>(branch.num_outputs()), false));
  std::vector<Aval> known{values[0]->aval()};
  append(known, taken(branch.in_avals(), places(unknown, false)));
  const auto staged = split->staged.in_avals();
  PartialEvalResult r{{}, {}, split->unknown_out, split->residuals, split->fresh_avals};
  for (Residual& residual : r.residuals) residual.index += residual.kind == Residual::Kind::input;
  r.known_program = called(split->known, known, counting(1, known.size() - 1), "cond");
  r.staged_program =
      called(split->staged, {staged.begin(), staged.end()}, counting(0, staged.size()), "cond");
  return r;
}

// ---- transpose ---------------------------------------------------------------------------------

// (known operands, cotangents) -> cotangents of the linear operands in `wanted`.
Jaxpr transposed_branch(const Jaxpr& branch, const Mask& linear, const Mask& zero,
                        const Mask& wanted) {
  const std::string key = "cond.transpose:" + detail::mask_text(linear) + ":" +
                          detail::mask_text(zero) + ":" + detail::mask_text(wanted);
  return *branch.memo<Jaxpr>(key, [&] {
    const auto derived = detail::transpose_jaxpr(branch, linear, zero);
    const auto in = derived->jaxpr.in_avals();
    const Order operands = places(linear);
    return accumulated(detail::stage_flat(
                           [&](std::span<const Array> args) {
                             const Arrays cts = eval_jaxpr(derived->jaxpr, args);
                             Arrays outs;
                             std::size_t next = 0;
                             for (std::size_t i = 0; i < wanted.size(); ++i) {
                               if (derived->nonzero_in_ct[i]) outs.push_back(cts[next++]);
                               else if (wanted[i])
                                 outs.push_back(zeros_of(branch.in_avals()[operands[i]].tangent()));
                             }
                             return outs;
                           },
                           std::vector<Aval>(in.begin(), in.end()))
                           .jaxpr);
  });
}

std::vector<Tangent> transposed(const CondParams& p, std::span<const Tangent> cts,
                                std::span<const LinearInput> inputs) {
  if (inputs[0].is_linear()) throw TypeError("cond: the index of a linear cond must be known");
  Arrays args{inputs[0].array()};
  Mask linear, zero;
  for (const LinearInput& in : inputs.subspan(1)) {
    linear.push_back(in.is_linear());
    if (!in.is_linear()) args.push_back(in.array());
  }
  for (const Tangent& ct : cts) {
    zero.push_back(ct.is_zero());
    if (!ct.is_zero()) args.push_back(ct.array());
  }
  Mask wanted(places(linear).size(), false);
  for (const Jaxpr& branch : p.branches)
    unite(wanted, detail::transpose_jaxpr(branch, linear, zero)->nonzero_in_ct);
  CondParams derived;
  for (const Jaxpr& branch : p.branches)
    derived.branches.push_back(transposed_branch(branch, linear, zero, wanted));
  const Arrays outs = cond_p.bind(derived, args);
  std::vector<Tangent> result;
  std::size_t next = 0, linear_index = 0;
  for (const LinearInput& in : inputs) {
    if (in.is_linear() && wanted[linear_index++]) result.emplace_back(outs[next++]);
    else result.emplace_back(Zero{in.aval().tangent()});
  }
  return result;
}

// ---- dce ---------------------------------------------------------------------------------------

DceResult prune(const CondParams& p, const Mask& used_out) {
  Mask used(static_cast<std::size_t>(p.branches[0].num_inputs()), false);
  for (const Jaxpr& branch : p.branches) unite(used, dce_jaxpr(branch, used_out).used_in);
  const std::string key = "cond.dce:" + detail::mask_text(used_out) + ":" + detail::mask_text(used);
  CondParams pruned;
  for (const Jaxpr& branch : p.branches) {
    const auto memo = branch.memo<std::optional<Jaxpr>>(key, [&]() -> std::optional<Jaxpr> {
      const DceJaxpr mine = dce_jaxpr(branch, used_out);
      if (mine.jaxpr.same_as(branch)) return std::nullopt;
      return with_inputs(branch, mine, used);
    });
    pruned.branches.push_back(memo->value_or(branch));
  }
  DceResult result{Params::of(pruned), {true}};
  result.used_in.insert(result.used_in.end(), used.begin(), used.end());
  return result;
}

}  // namespace
}  // namespace control_flow

const Primitive<CondParams> cond_p{"cond", [] {
                                     using namespace control_flow;
                                     return Rules<CondParams>{
                                         .impl = run_cond,
                                         .abstract_eval = type_of_cond,
                                         .jvp = differentiate,
                                         .transpose = transposed,
                                         .batch = vectorise,
                                         .partial_eval = split_cond,
                                         .partial_eval_values = split_known_branch,
                                         .dce = prune,
                                         .lower = run_by_impl(run_cond)};
                                   }};

}  // namespace v1
}  // namespace telamon
