// while: a program repeated as long as a condition holds, or a batch of such loops side by side.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "control_flow/while.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

// Elements of `from` where the condition, which leads the shape, is true; those of `to` elsewhere.
void update_lanes(const Array& condition, const Array& from, const Array& to, const Array& result) {
  const auto* chosen = detail::data_of<unsigned char>(condition);
  const auto lanes = static_cast<std::size_t>(condition.size());
  if (lanes == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(from.size()) * size_of(from.dtype()) / lanes;
  for (std::size_t i = 0; i < lanes; ++i) {
    std::memcpy(detail::mutable_data_of<char>(result) + i * bytes,
                detail::data_of<char>(chosen[i] ? from : to) + i * bytes, bytes);
  }
}

Arrays run_while(const WhileParams& p, std::span<const Array> args) {
  const Arrays operands = dense(args);
  const auto body_begin = operands.begin() + p.cond_nconsts;
  const auto carry_begin = body_begin + p.body_nconsts;
  Arrays for_cond(operands.begin(), body_begin), for_body(body_begin, carry_begin);
  for_cond.insert(for_cond.end(), carry_begin, operands.end());
  for_body.insert(for_body.end(), carry_begin, operands.end());
  const auto num_carry = operands.end() - carry_begin;
  const Program condition(p.cond_jaxpr, "while"), body(p.body_jaxpr, "while");
  while (true) {
    const Array holds = detail::contiguous(condition(for_cond)[0]);
    const auto* chosen = detail::data_of<unsigned char>(holds);
    if (std::find(chosen, chosen + holds.size(), 1) == chosen + holds.size()) break;
    Arrays carry = dense(body(for_body));
    if (holds.ndim() > 0) {
      for (std::size_t i = 0; i < carry.size(); ++i) {
        const Array& old = for_body[static_cast<std::size_t>(p.body_nconsts) + i];
        const Array updated = detail::make_uninitialized(carry[i].aval());
        update_lanes(holds, carry[i], old, updated);
        carry[i] = updated;
      }
    }
    std::copy(carry.begin(), carry.end(), for_cond.end() - num_carry);
    std::copy(carry.begin(), carry.end(), for_body.end() - num_carry);
  }
  return {for_body.end() - num_carry, for_body.end()};
}

AbstractResult type_of_while(const WhileParams& p, std::span<const Aval> in) {
  const int num_carry = p.body_jaxpr.num_inputs() - p.body_nconsts;
  if (p.cond_nconsts < 0 || p.body_nconsts < 0 || num_carry < 0 ||
      p.cond_jaxpr.num_inputs() - p.cond_nconsts != num_carry ||
      p.body_jaxpr.num_outputs() != num_carry || p.cond_jaxpr.num_outputs() != 1) {
    bad_jaxpr("while", "the condition and the body do not fit each other");
  }
  const auto cond_in = p.cond_jaxpr.in_avals(), body_in = p.body_jaxpr.in_avals();
  const auto carry = body_in.subspan(static_cast<std::size_t>(p.body_nconsts));
  std::vector<Aval> expected(cond_in.begin(), cond_in.begin() + p.cond_nconsts);
  expected.insert(expected.end(), body_in.begin(), body_in.end());
  check_operands("while", in, expected);
  const Aval condition = p.cond_jaxpr.out_avals()[0];
  if (condition.dtype != DType::bool_)
    bad_jaxpr("while", "the condition must be bool, but it is " + condition.to_string());
  const std::vector<Aval> outs = p.body_jaxpr.out_avals();
  for (std::size_t i = 0; i < carry.size(); ++i) {
    const Aval& tested = cond_in[static_cast<std::size_t>(p.cond_nconsts) + i];
    if (!outs[i].same_type(carry[i]) || !tested.same_type(carry[i])) {
      bad_jaxpr("while", "the body takes carry component " + std::to_string(i) + " as " +
                             carry[i].to_string() + " and gives it back as " + outs[i].to_string() +
                             "; the condition takes " + tested.to_string());
    }
    const auto& lanes = condition.shape;
    if (lanes.ndim() > carry[i].ndim() ||
        !std::equal(lanes.begin(), lanes.end(), carry[i].shape.begin())) {
      bad_jaxpr("while", "the condition " + condition.to_string() +
                             " does not lead the shape of carry component " + std::to_string(i) +
                             ", " + carry[i].to_string());
    }
  }
  return {{carry.begin(), carry.end()}, join(p.cond_jaxpr.effect(), p.body_jaxpr.effect())};
}

// ---- jvp ---------------------------------------------------------------------------------------
// The loop carries the tangents of those carry components that have one after some step: a fixed
// point. They stand behind all primals; the condition does not see them.

struct WhileJvp {
  Jaxpr body;
  Mask nonzero;  // consts of the body, carry
};

std::shared_ptr<const WhileJvp> jvp_of_body(const WhileParams& p, const Mask& nonzero) {
  const WhileShape n(p);
  const std::string key =
      "while.jvp:" + std::to_string(p.body_nconsts) + ":" + detail::mask_text(nonzero);
  return p.body_jaxpr.memo<WhileJvp>(key, [&] {
    Mask in = nonzero;
    std::shared_ptr<const detail::JvpJaxpr> derived;
    for (bool stable = false; !stable;) {
      const Mask carry = taken(in, counting(n.body_consts, n.carry));
      derived = detail::jvp_jaxpr(p.body_jaxpr, in, carry);
      stable = true;
      for (std::size_t i = 0; i < n.carry; ++i) {
        if (!derived->nonzero_out[i] || in[n.body_consts + i]) continue;
        in[n.body_consts + i] = true;
        stable = false;
      }
    }
    const std::size_t primals = in.size();
    const std::size_t consts = places(taken(in, counting(0, n.body_consts))).size();
    const std::size_t carry = places(in).size() - consts;
    const Order order =
        joined({counting(0, n.body_consts), counting(primals, consts),
                counting(n.body_consts, n.carry), counting(primals + consts, carry)});
    return WhileJvp{rearranged(derived->jaxpr, order,
                               counting(0, static_cast<std::size_t>(derived->jaxpr.num_outputs()))),
                    in};
  });
}

// The condition over more carry components than it knows.
Jaxpr widened_condition(const Jaxpr& condition, const std::vector<Aval>& more) {
  const auto in = condition.in_avals();
  std::vector<Aval> avals(in.begin(), in.end());
  append(avals, more);
  std::string key = "while.wider:";
  for (const Aval& aval : more) key += aval.to_string();
  return *condition.memo<Jaxpr>(key, [&] {
    Atoms map;
    for (std::size_t i = 0; i < in.size(); ++i) map.push_back(Atom::var(static_cast<Var>(i)));
    return substitute_inputs(condition, avals, map);
  });
}

JvpResult differentiate(const WhileParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const WhileShape n(p);
  Mask nonzero;
  for (const Tangent& t : tangents.subspan(n.cond_consts)) nonzero.push_back(!t.is_zero());
  const auto derived = jvp_of_body(p, nonzero);
  const Order consts = places(taken(derived->nonzero, counting(0, n.body_consts)));
  const Order carry = places(taken(derived->nonzero, counting(n.body_consts, n.carry)));
  Arrays args(primals.begin(), primals.begin() + static_cast<std::ptrdiff_t>(n.consts()));
  for (const std::size_t i : consts) args.push_back(tangents[n.cond_consts + i].array());
  append(args, taken(primals, counting(n.consts(), n.carry)));
  std::vector<Aval> avals;
  for (const std::size_t i : carry) {
    args.push_back(tangents[n.consts() + i].instantiate());
    avals.push_back(args.back().aval().strong());
  }
  WhileParams q = p;
  q.body_jaxpr = derived->body;
  q.body_nconsts += static_cast<int>(consts.size());
  if (!avals.empty()) q.cond_jaxpr = widened_condition(p.cond_jaxpr, avals);
  const Arrays outs = while_p.bind(q, args);
  JvpResult result;
  std::size_t next = n.carry;
  for (std::size_t i = 0; i < n.carry; ++i) {
    result.primals.push_back(outs[i]);
    if (derived->nonzero[n.body_consts + i]) result.tangents.emplace_back(outs[next++]);
    else result.tangents.emplace_back(Zero{outs[i].aval().tangent()});
  }
  return result;
}

// ---- batch -------------------------------------------------------------------------------------
// A carry component is mapped if it is so after some step; all are if the condition is: a fixed
// point. Then each example stops by itself: the batch axis leads the condition and the carry. If the
// condition is not mapped but has lanes already, the batch axis of the carry comes behind them.

Jaxpr batched_at(const Jaxpr& jaxpr, const AxisInfo& axis, const std::vector<BatchAxis>& in_axes,
                 const std::vector<BatchAxis>& out_axes) {
  std::string key = "while.batch:" + std::to_string(axis.size) + ":" + axis.name + ":";
  for (const auto* axes : {&in_axes, &out_axes}) {
    for (const BatchAxis& a : *axes) key += a ? std::to_string(*a) + "," : "-,";
    key += ":";
  }
  return *jaxpr.memo<Jaxpr>(key, [&] {
    std::vector<Aval> avals;
    for (std::size_t i = 0; i < in_axes.size(); ++i) {
      Aval aval = jaxpr.in_avals()[i];
      if (in_axes[i]) aval.shape.insert(static_cast<std::size_t>(*in_axes[i]), axis.size);
      avals.push_back(aval);
    }
    return detail::stage_flat(
               [&](std::span<const Array> args) {
                 return detail::vmap_flat(
                     [&](std::span<const Array> x) { return eval_jaxpr(jaxpr, x); }, axis, args,
                     in_axes, [&](std::size_t) { return out_axes; });
               },
               avals)
        .jaxpr;
  });
}

BatchResult vectorise(const WhileParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const WhileShape n(p);
  const int lanes = p.cond_jaxpr.out_avals()[0].ndim();
  Mask mapped;
  for (std::size_t i = n.consts(); i < n.inputs(); ++i) mapped.push_back(axes[i].has_value());
  const auto first = axes.begin();
  const auto body_begin = first + static_cast<std::ptrdiff_t>(n.cond_consts);
  const std::vector<BatchAxis> for_cond(first, body_begin);
  const std::vector<BatchAxis> for_body(body_begin,
                                        first + static_cast<std::ptrdiff_t>(n.consts()));
  const auto carry_axes = [&](int at) {
    std::vector<BatchAxis> carry;
    for (const bool m : mapped) carry.push_back(m ? BatchAxis(at) : std::nullopt);
    return carry;
  };
  const auto with_carry = [](std::vector<BatchAxis> consts, const std::vector<BatchAxis>& carry) {
    append(consts, carry);
    return consts;
  };
  bool mapped_condition = false;
  for (bool stable = false; !stable;) {
    const Mask before = mapped;
    const std::vector<BatchAxis> carry = carry_axes(mapped_condition ? 0 : lanes);
    const auto body =
        detail::batch_jaxpr(p.body_jaxpr, axis, with_carry(for_body, carry), Mask(n.carry, false));
    for (std::size_t i = 0; i < n.carry; ++i)
      mapped[i] = mapped[i] || body->out_axes[i].has_value();
    const auto condition =
        detail::batch_jaxpr(p.cond_jaxpr, axis, with_carry(for_cond, carry), {false});
    if (!mapped_condition && condition->out_axes[0]) {
      mapped_condition = true;
      mapped.assign(n.carry, true);
    }
    stable = mapped == before;
  }
  if (mapped_condition && join(p.cond_jaxpr.effect(), p.body_jaxpr.effect()) != Effect::none) {
    throw TypeError(
        "while: vmap with a mapped condition goes on for examples that are done, so "
        "the loop must have no effects");
  }
  const int at = mapped_condition ? 0 : lanes;
  const std::vector<BatchAxis> carry = carry_axes(at);
  WhileParams q = p;
  q.body_jaxpr = batched_at(p.body_jaxpr, axis, with_carry(for_body, carry), carry);
  q.cond_jaxpr = batched_at(p.cond_jaxpr, axis, with_carry(for_cond, carry),
                            {mapped_condition ? BatchAxis(0) : std::nullopt});
  Arrays operands(args.begin(), args.end());
  for (std::size_t i = 0; i < n.carry; ++i) {
    Array& x = operands[n.consts() + i];
    if (!mapped[i]) continue;
    x = detail::move_axis(detail::batch_at_front(x, axes[n.consts() + i], axis.size), 0, at);
  }
  return {while_p.bind(q, operands), carry};
}

// ---- transpose, dce ------------------------------------------------------------------------------

std::vector<Tangent> refuse_transpose(const WhileParams&, std::span<const Tangent>,
                                      std::span<const LinearInput>) {
  const char* const call = detail::current_call_site().call;
  if (call && std::string_view(call) == "minimize") {
    throw ValueError(
        "minimize cannot be differentiated in reverse mode: it is a loop without a bound on its "
        "steps. At a minimum the gradient is zero: give that equation to custom_root, with "
        "minimize "
        "as its solver. Or use forward mode (jvp, jacfwd), which differentiates the steps.");
  }
  throw ValueError(
      "Reverse-mode differentiation does not work for tl::while_loop or tl::fori_loop with dynamic "
      "start/stop values. Try using tl::scan, or using fori_loop with static start/stop. Or give "
      "while_loop the option .max_steps, which bounds what it has to remember; or differentiate "
      "where its values, and so the number of its steps, are known: not within jit, checkpoint, "
      "scan or another loop, nor under a vmap of the derivative.");
}

DceResult prune(const WhileParams& p, const Mask& used_out) {
  const WhileShape n(p);
  const DceJaxpr condition = dce_jaxpr(p.cond_jaxpr, {true});
  Mask used = used_out;
  unite(used, taken(condition.used_in, counting(n.cond_consts, n.carry)));
  DceJaxpr body;
  for (bool stable = false; !stable;) {
    const Mask before = used;
    body = dce_jaxpr(p.body_jaxpr, used);
    unite(used, taken(body.used_in, counting(n.body_consts, n.carry)));
    stable = used == before;
  }
  const auto with_carry = [&](const DceJaxpr& pruned, std::size_t num_consts) {
    Mask all = taken(pruned.used_in, counting(0, num_consts));
    append(all, used);
    return all;
  };
  const Mask in_cond = with_carry(condition, n.cond_consts);
  const Mask in_body = with_carry(body, n.body_consts);
  DceResult result;
  WhileParams q = p;
  q.cond_jaxpr = pruned(p.cond_jaxpr, condition, in_cond, {true});
  q.body_jaxpr = pruned(p.body_jaxpr, body, in_body, used);
  const auto count = [](const Mask& mask, std::size_t size) {
    return static_cast<int>(places(taken(mask, counting(0, size))).size());
  };
  q.cond_nconsts = count(in_cond, n.cond_consts);
  q.body_nconsts = count(in_body, n.body_consts);
  result.params = Params::of(q);
  result.used_in = taken(in_cond, counting(0, n.cond_consts));
  append(result.used_in, in_body);
  result.kept_out = used;
  return result;
}

}  // namespace
}  // namespace control_flow

const Primitive<WhileParams> while_p{"while", [] {
                                       using namespace control_flow;
                                       return Rules<WhileParams>{
                                           .impl = run_while,
                                           .abstract_eval = type_of_while,
                                           .jvp = differentiate,
                                           .transpose = refuse_transpose,
                                           .batch = vectorise,
                                           .partial_eval = split_while,
                                           .partial_eval_values = split_known_loop,
                                           .dce = prune,
                                           .lower = run_by_impl(run_while)};
                                     }};

}  // namespace v1
}  // namespace telamon
