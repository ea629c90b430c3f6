// Splitting a while loop.
//
// A loop of `max_steps` becomes a scan over that many steps, each of which does nothing once the
// condition is false; then the scan is split. Where values are known, it becomes a scan over exactly
// the steps that it takes on them. Otherwise the known part of the carry is computed at once, and the
// whole loop waits for the unknown part.
#include <algorithm>

#include "control_flow/scan.hpp"
#include "control_flow/while.hpp"
#include "core/trace.hpp"
#include "jaxpr/interned.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

std::vector<Aval> operand_avals(const WhileParams& p) {
  const WhileShape n(p);
  const auto cond_in = p.cond_jaxpr.in_avals(), body_in = p.body_jaxpr.in_avals();
  std::vector<Aval> avals = taken(cond_in, counting(0, n.cond_consts));
  avals.insert(avals.end(), body_in.begin(), body_in.end());
  return avals;
}

// What the body makes unknown, given what is; nothing when the condition becomes unknown itself.
using Split = std::shared_ptr<const detail::PartialEvalJaxpr>;
struct Knowledge {
  Mask carry;  // unknown
  Split body;
};
std::optional<Knowledge> find_unknown(const WhileParams& p, const Mask& unknown_in,
                                      const Mask& instantiate_out) {
  const WhileShape n(p);
  Knowledge k;
  k.carry = taken(unknown_in, counting(n.consts(), n.carry));
  unite(k.carry, instantiate_out);
  for (bool stable = false; !stable;) {
    const Mask before = k.carry;
    Mask in = taken(unknown_in, counting(n.cond_consts, n.body_consts));
    append(in, k.carry);
    k.body = detail::partial_eval_jaxpr(p.body_jaxpr, in, k.carry);
    unite(k.carry, k.body->unknown_out);
    stable = k.carry == before;
  }
  Mask in = taken(unknown_in, counting(0, n.cond_consts));
  append(in, k.carry);
  const Mask used = dce_jaxpr(p.cond_jaxpr, {true}).used_in;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] && used[i]) return std::nullopt;
  }
  return k;
}

// The loop over the known part of the carry alone.
WhileParams known_loop(const WhileParams& p, const Knowledge& k) {
  const WhileShape n(p);
  Mask keep(n.cond_consts, true);
  for (const bool unknown : k.carry) keep.push_back(!unknown);
  WhileParams q = p;
  q.cond_jaxpr = with_inputs(p.cond_jaxpr, dce_jaxpr(p.cond_jaxpr, {true}), keep);
  const Jaxpr& known = k.body->known;
  const std::size_t num_carry = places(k.carry, false).size();
  q.body_jaxpr = rearranged(known, counting(0, static_cast<std::size_t>(known.num_inputs())),
                            counting(0, num_carry));
  q.body_nconsts = known.num_inputs() - static_cast<int>(num_carry);
  return q;
}

// A step that does nothing when the condition is false. Where the condition has lanes, those that are
// done go through the body with the state before their last step, for which it was made: its
// derivatives there are multiplied by zero and must be finite. `frozen` says for which carry
// components that state is kept: they follow the carry.
ScanParams bounded_scan(const WhileParams& p, const Mask& frozen, std::int64_t steps) {
  const WhileShape n(p);
  const Order kept = places(frozen);
  std::vector<Aval> avals = operand_avals(p);
  const bool lanes = p.cond_jaxpr.out_avals()[0].ndim() > 0;
  if (lanes)
    append(avals, taken(avals, joined({[&] {
                          Order order = kept;
                          for (std::size_t& i : order) i += n.consts();
                          return order;
                        }()})));
  const ClosedJaxpr body = detail::stage_flat(
      [&](std::span<const Array> args) {
        const Arrays cond_consts = taken(args, counting(0, n.cond_consts));
        const Arrays body_consts = taken(args, counting(n.cond_consts, n.body_consts));
        const Arrays carry = taken(args, counting(n.consts(), n.carry));
        Arrays for_cond = cond_consts;
        append(for_cond, carry);
        const Array active = eval_jaxpr(p.cond_jaxpr, for_cond)[0];
        if (!lanes) {
          Arrays operands{active};
          append(operands, body_consts);
          append(operands, carry);
          const auto in = p.body_jaxpr.in_avals();
          const ClosedJaxpr stay = detail::stage_flat(
              [&](std::span<const Array> x) { return taken(x, counting(n.body_consts, n.carry)); },
              {in.begin(), in.end()});
          return cond_p.bind({{stay.jaxpr, p.body_jaxpr}}, operands);
        }
        Arrays safe = carry, last;
        for (std::size_t i = 0; i < kept.size(); ++i) {
          Array& x = safe[kept[i]];
          x = where_leading(active, x, args[n.inputs() + i]);
          last.push_back(x);
        }
        Arrays for_body = body_consts;
        append(for_body, safe);
        Arrays next = eval_jaxpr(p.body_jaxpr, for_body);
        for (std::size_t i = 0; i < n.carry; ++i)
          next[i] = where_leading(active, next[i], carry[i]);
        append(next, last);
        return next;
      },
      avals);
  return {.jaxpr = detail::interned(body.jaxpr),
          .length = steps,
          .num_consts = static_cast<int>(n.consts()),
          .num_carry = static_cast<int>(n.carry + (lanes ? kept.size() : 0))};
}

// A scan in place of the loop: each of its operands is one of the loop's. The results of the loop come
// first.
struct LoopAsScan {
  ScanParams scan;
  Order operands;
};

LoopAsScan at_most(const WhileParams& p, const Knowledge& k, std::int64_t steps) {
  const WhileShape n(p);
  Mask frozen;
  for (const bool unknown : k.carry) frozen.push_back(!unknown);
  LoopAsScan loop{bounded_scan(p, frozen, steps), counting(0, n.inputs())};
  const std::size_t num_last = static_cast<std::size_t>(loop.scan.num_carry) - n.carry;
  for (std::size_t i = 0; i < num_last; ++i)
    loop.operands.push_back(n.consts() + places(frozen)[i]);
  return loop;
}

// As many steps as the loop takes: all of a batch of loops until the last is done.
LoopAsScan exactly(const WhileParams& p, const Knowledge& k, std::int64_t steps) {
  if (p.cond_jaxpr.out_avals()[0].ndim() > 0) return at_most(p, k, steps);
  const WhileShape n(p);
  return {{.jaxpr = p.body_jaxpr,
           .length = steps,
           .num_consts = static_cast<int>(n.body_consts),
           .num_carry = static_cast<int>(n.carry)},
          counting(n.cond_consts, n.body_consts + n.carry)};
}

PartialEvalResult split_as_scan(const WhileParams& p, const LoopAsScan& loop,
                                const Mask& unknown_in, const Mask& instantiate_out,
                                const Policy& policy) {
  const WhileShape n(p);
  const auto& [scan, operands] = loop;
  Mask unknown = taken(unknown_in, operands), wanted = instantiate_out;
  wanted.resize(static_cast<std::size_t>(scan.num_carry), false);
  const PartialEvalResult split = split_scan(scan, {}, {}, unknown, wanted, policy);

  PartialEvalResult r = split;
  r.unknown_out.resize(n.carry);
  const Order known_in = places(unknown_in, false), scan_known_in = places(unknown, false);
  const auto known_number = [&](std::size_t scan_known) {
    const std::size_t operand = operands[scan_known_in[scan_known]];
    return static_cast<std::size_t>(std::find(known_in.begin(), known_in.end(), operand) -
                                    known_in.begin());
  };
  // The last known results of the scan are the kept states: they are dropped.
  const std::size_t num_known = places(r.unknown_out, false).size();
  const std::size_t num_dropped = places(split.unknown_out, false).size() - num_known;
  const std::vector<Aval> avals = operand_avals(p);
  r.known_program =
      detail::stage_flat(
          [&](std::span<const Array> args) {
            Arrays scan_args;
            for (std::size_t i = 0; i < scan_known_in.size(); ++i)
              scan_args.push_back(args[known_number(i)]);
            Arrays outs = eval_jaxpr(*split.known_program, scan_args);
            outs.erase(outs.begin() + static_cast<std::ptrdiff_t>(num_known),
                       outs.begin() + static_cast<std::ptrdiff_t>(num_known + num_dropped));
            return outs;
          },
          taken(avals, known_in))
          .jaxpr;
  for (Residual& residual : r.residuals) {
    if (residual.kind == Residual::Kind::input)
      residual.index = static_cast<int>(known_number(static_cast<std::size_t>(residual.index)));
  }
  return r;
}

// Everything that is unknown waits: the loop runs again, whole, beside its unknown part.
PartialEvalResult split_unbounded(const WhileParams& p, const Mask& unknown_in,
                                  const Knowledge& k) {
  const WhileShape n(p);
  const std::vector<Aval> avals = operand_avals(p);
  const Order known_in = places(unknown_in, false);
  PartialEvalResult r = unsplit(while_p, Params::of(p), avals, unknown_in, n.carry);
  r.unknown_out = k.carry;
  const WhileParams known = known_loop(p, k);
  r.known_program = detail::stage_flat(
                        [&](std::span<const Array> args) {
                          Arrays operands;
                          for (std::size_t i = 0; i < known_in.size(); ++i) {
                            // A known initial value may belong to a carry that becomes unknown.
                            const std::size_t operand = known_in[i];
                            if (operand >= n.consts() && k.carry[operand - n.consts()]) continue;
                            operands.push_back(args[i]);
                          }
                          return while_p.bind(known, operands);
                        },
                        taken(avals, known_in))
                        .jaxpr;
  const Jaxpr whole = *r.staged_program;
  r.staged_program =
      rearranged(whole, counting(0, static_cast<std::size_t>(whole.num_inputs())), places(k.carry));
  return r;
}

// How many steps the loop takes on these values.
std::int64_t count_steps(const WhileParams& p, const Knowledge& k, Arrays operands) {
  WhileParams q = known_loop(p, k);
  const Aval condition = p.cond_jaxpr.out_avals()[0];
  const Aval counter{condition.shape, DType::i64, false};
  const auto cond_in = q.cond_jaxpr.in_avals(), body_in = q.body_jaxpr.in_avals();
  std::vector<Aval> for_cond(cond_in.begin(), cond_in.end());
  std::vector<Aval> for_body(body_in.begin(), body_in.end());
  for_cond.push_back(counter);
  for_body.push_back(counter);
  const Jaxpr old_cond = q.cond_jaxpr, old_body = q.body_jaxpr;
  const detail::EvalScope scope;
  q.cond_jaxpr = detail::interned(
      detail::stage_flat(
          [&](std::span<const Array> x) { return eval_jaxpr(old_cond, x.first(x.size() - 1)); },
          for_cond)
          .jaxpr);
  q.body_jaxpr = detail::interned(detail::stage_flat(
                                      [&](std::span<const Array> x) {
                                        Arrays outs = eval_jaxpr(old_body, x.first(x.size() - 1));
                                        outs.push_back(lax::add(x.back(), 1));
                                        return outs;
                                      },
                                      for_body)
                                      .jaxpr);
  operands.push_back(zeros_of(counter));
  std::int64_t steps = 0;
  for (const std::int64_t s : while_p.bind(q, operands).back().to_vector<std::int64_t>())
    steps = std::max(steps, s);
  return steps;
}

// A loop with effects runs once, step by step, on the values at hand: its predicate is asked and the
// known half of its body applied as long as it holds, and the residuals of each step are kept. The
// unknown half is a scan over them.
PartialEvalResult record_steps(const WhileParams& p, std::span<const std::optional<Array>> values,
                               const Knowledge& k) {
  const WhileShape n(p);
  const WhileParams known = known_loop(p, k);
  Arrays for_cond, for_body, carry, known_in;
  Mask unknown_in;
  for (std::size_t i = 0; i < values.size(); ++i) {
    unknown_in.push_back(!values[i]);
    if (!values[i]) continue;
    known_in.push_back(*values[i]);
    if (i < n.cond_consts) for_cond.push_back(*values[i]);
    else if (i < n.consts()) for_body.push_back(*values[i]);
    else if (!k.carry[i - n.consts()]) carry.push_back(*values[i]);
  }
  const auto with_carry = [&](Arrays consts) {
    append(consts, carry);
    return consts;
  };
  const std::size_t num_fresh = k.body->fresh_avals.size();
  std::vector<Arrays> residuals;  // of each step
  while (true) {
    const Array holds = eval_jaxpr(known.cond_jaxpr, with_carry(for_cond))[0];
    if (!detail::known_value(holds)->item<bool>()) break;
    const Arrays before = with_carry(for_body);
    const Arrays outs = eval_jaxpr(k.body->known, before);
    Arrays kept;
    for (const Residual& r : k.body->residuals) {
      const auto i = static_cast<std::size_t>(r.index);
      kept.push_back(r.kind == Residual::Kind::input    ? before[i]
                     : r.kind == Residual::Kind::output ? outs[i]
                                                        : outs[outs.size() - num_fresh + i]);
    }
    residuals.push_back(std::move(kept));
    carry.assign(outs.begin(), outs.end() - static_cast<std::ptrdiff_t>(num_fresh));
  }

  PartialEvalResult r;
  r.unknown_out = k.carry;
  const auto steps = static_cast<std::int64_t>(residuals.size());
  std::vector<Aval> avals;
  Arrays rows;
  for (std::size_t i = 0; i < k.body->residuals.size(); ++i) {
    const Aval row = k.body->staged.in_avals()[i];
    const Aval all = stacked(row, steps);
    Shape one = row.shape;
    one.insert(0, 1);
    Arrays parts;
    for (const Arrays& step : residuals)
      parts.push_back(reshape_p.bind1({.new_sizes = one}, {step[i]}));
    rows.push_back(parts.empty() ? zeros_of(all) : concatenate_p.bind({.dimension = 0}, parts)[0]);
    r.residuals.push_back({Residual::Kind::fresh, static_cast<int>(i)});
    r.fresh_avals.push_back(all);
    avals.push_back(all);
  }
  // Behind the rows: known initial values of what becomes unknown, then what is unknown.
  const std::vector<Aval> in = operand_avals(p);
  Order number(n.inputs(), 0);
  int next_known = 0;
  for (std::size_t i = 0; i < n.inputs(); ++i) {
    if (unknown_in[i]) continue;
    if (i >= n.consts() && k.carry[i - n.consts()]) {
      number[i] = avals.size();
      avals.push_back(in[i]);
      r.residuals.push_back({Residual::Kind::input, next_known});
    }
    ++next_known;
  }
  for (const std::size_t i : places(unknown_in)) {
    number[i] = avals.size();
    avals.push_back(in[i]);
  }
  Order consts, initial;
  for (std::size_t i = n.cond_consts; i < n.consts(); ++i)
    if (unknown_in[i]) consts.push_back(number[i]);
  for (const std::size_t i : places(k.carry)) initial.push_back(number[n.consts() + i]);
  // A step of the scan takes consts, carry, row; the staged half of the body takes its row first.
  const std::size_t fixed = consts.size() + initial.size();
  const Jaxpr& staged = k.body->staged;
  const ScanParams scan{
      .jaxpr = rearranged(staged, joined({counting(rows.size(), fixed), counting(0, rows.size())}),
                          counting(0, initial.size())),
      .length = steps,
      .num_consts = static_cast<int>(consts.size()),
      .num_carry = static_cast<int>(initial.size())};
  r.staged_program =
      detail::stage_flat(
          [&](std::span<const Array> args) {
            return scan_p.bind(scan,
                               taken(args, joined({consts, initial, counting(0, rows.size())})));
          },
          avals)
          .jaxpr;
  append(carry, rows);
  r.known_values = std::move(carry);
  return r;
}

}  // namespace

PartialEvalResult split_while(const WhileParams& p, const Jaxpr&, const Eqn&,
                              const Mask& unknown_in, const Mask& instantiate_out,
                              const Policy& policy) {
  const auto k = find_unknown(p, unknown_in, instantiate_out);
  // What runs twice must have no effects, nor the condition that each of max_steps steps asks:
  // while_loop moves one with effects into the body.
  const bool asks = p.cond_jaxpr.effect() != Effect::none;
  const bool effects = asks || p.body_jaxpr.effect() != Effect::none;
  if (!k || asks || (effects && !p.max_steps)) {
    return unsplit(while_p, Params::of(p), operand_avals(p), unknown_in, WhileShape(p).carry);
  }
  if (!p.max_steps) return split_unbounded(p, unknown_in, *k);
  return split_as_scan(p, at_most(p, *k, *p.max_steps), unknown_in, instantiate_out, policy);
}

std::optional<PartialEvalResult> split_known_loop(const WhileParams& p,
                                                  std::span<const std::optional<Array>> values) {
  const WhileShape n(p);
  Mask unknown_in;
  for (const auto& value : values) unknown_in.push_back(!value.has_value());
  const Mask instantiate_out(n.carry, false);
  const auto k = find_unknown(p, unknown_in, instantiate_out);
  if (!k) return std::nullopt;
  Arrays operands;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || (i >= n.consts() && k->carry[i - n.consts()])) continue;
    const std::optional<Array> value = detail::known_value(*values[i]);
    if (!value) return std::nullopt;
    operands.push_back(*value);
  }
  if (join(p.cond_jaxpr.effect(), p.body_jaxpr.effect()) != Effect::none) {
    if (p.cond_jaxpr.out_avals()[0].ndim() > 0) return std::nullopt;
    return record_steps(p, values, *k);
  }
  const std::int64_t steps = count_steps(p, *k, std::move(operands));
  return split_as_scan(p, exactly(p, *k, steps), unknown_in, instantiate_out, {});
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
