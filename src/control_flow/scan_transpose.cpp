// Transposing a linear scan: the loop runs the other way, carrying the cotangents of the carry and,
// for consts, the sums of their cotangents so far; cotangents of the ys come in as rows, those of
// the linear xs go out as rows.
#include <algorithm>

#include "control_flow/accumulate.hpp"
#include "control_flow/preaccumulate.hpp"
#include "control_flow/scan.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

struct TransposedBody {
  Jaxpr body;
  Mask consts, carry, xs;  // which of the linear ones (of the carry: of all) get a cotangent
  std::size_t num_known_consts;
};

Mask part(const Mask& mask, std::size_t begin, std::size_t count) {
  return taken(mask, counting(begin, count));
}

// `linear`: inputs of the body; all of the carry is. `zero`: cotangents of the results.
TransposedBody transpose_body(const ScanParams& p, const Mask& linear, Mask zero) {
  const ScanShape n(p);
  const Mask consts = part(linear, 0, n.consts), xs = part(linear, n.fixed(), n.xs);
  const std::size_t num_consts = places(consts).size(), num_xs = places(xs).size();
  const Jaxpr body = preaccumulated(p.jaxpr, linear);
  std::shared_ptr<const detail::TransposedJaxpr> derived;
  for (bool stable = false; !stable;) {
    derived = detail::transpose_jaxpr(body, linear, zero);
    stable = true;
    for (std::size_t i = 0; i < n.carry; ++i) {
      if (!derived->nonzero_in_ct[num_consts + i] || !zero[i]) continue;
      zero[i] = false;
      stable = false;
    }
  }
  TransposedBody t;
  t.consts = part(derived->nonzero_in_ct, 0, num_consts);
  t.xs = part(derived->nonzero_in_ct, num_consts + n.carry, num_xs);
  for (std::size_t i = 0; i < n.carry; ++i) t.carry.push_back(!zero[i]);
  t.num_known_consts = n.consts - num_consts;

  const auto in = p.jaxpr.in_avals();
  const std::vector<Aval> out = p.jaxpr.out_avals();
  const Order sums = taken(places(consts), places(t.consts));
  std::vector<Aval> avals = taken(in, places(consts, false));
  const std::size_t num_known = avals.size();
  for (const std::size_t i : sums) avals.push_back(in[i].tangent());
  const Order carry = places(t.carry);
  for (const std::size_t i : carry) avals.push_back(out[i].tangent());
  std::size_t num_ys = 0;
  for (std::size_t i = n.carry; i < n.outputs(); ++i) {
    if (!zero[i]) avals.push_back(out[i].tangent()), ++num_ys;
  }
  for (const std::size_t i : places(xs, false)) avals.push_back(in[n.fixed() + i]);
  const ClosedJaxpr closed = detail::stage_flat(
      [&](std::span<const Array> args) {
        const std::size_t cts = num_known + sums.size(), known_xs = cts + carry.size() + num_ys;
        const Order order =
            joined({counting(0, num_known), counting(known_xs, args.size() - known_xs),
                    counting(cts, carry.size() + num_ys)});
        const Arrays in_cts = eval_jaxpr(derived->jaxpr, taken(args, order));
        Arrays outs;
        std::size_t next = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const Tangent sum = detail::add_tangents(args[num_known + i], in_cts[next++]);
          outs.push_back(sum.array());
        }
        for (std::size_t i = 0; i < n.carry; ++i) {
          if (!t.carry[i]) continue;
          outs.push_back(derived->nonzero_in_ct[num_consts + i] ? in_cts[next++]
                                                                : zeros_of(out[i].tangent()));
        }
        append(outs, taken(in_cts, counting(next, in_cts.size() - next)));
        return outs;
      },
      avals);
  t.body = accumulated(closed.jaxpr);
  return t;
}

// A carry component is linear if it is so after some step.
Mask linear_inputs(const ScanParams& p, Mask linear) {
  const ScanShape n(p);
  for (bool stable = false; !stable;) {
    Mask wanted(n.outputs(), false);
    for (std::size_t i = 0; i < n.carry; ++i) wanted[i] = linear[n.consts + i];
    const auto split = detail::partial_eval_jaxpr(p.jaxpr, linear, wanted);
    stable = true;
    for (std::size_t i = 0; i < n.carry; ++i) {
      if (!split->unknown_out[i] || linear[n.consts + i]) continue;
      linear[n.consts + i] = true;
      stable = false;
    }
  }
  return linear;
}

// With a carry component that is not linear (a counter), the loop is split first.
std::vector<Tangent> transpose_staged_half(const ScanParams& p, const Mask& linear,
                                           std::span<const Tangent> cts,
                                           std::span<const LinearInput> inputs) {
  const PartialEvalResult split = split_scan(p, {}, {}, linear, Mask(cts.size(), false), {});
  Arrays known;
  for (const std::size_t i : places(linear, false)) known.push_back(inputs[i].array());
  const Arrays outs = eval_jaxpr(*split.known_program, known);
  const std::size_t num_known_out = outs.size() - split.fresh_avals.size();
  Arrays staged;
  for (const Residual& r : split.residuals) {
    const auto i = static_cast<std::size_t>(r.index);
    staged.push_back(r.kind == Residual::Kind::input    ? known[i]
                     : r.kind == Residual::Kind::output ? outs[i]
                                                        : outs[num_known_out + i]);
  }
  staged.resize(staged.size() + places(linear).size());  // none: what it is linear in
  std::vector<Tangent> staged_cts, result;
  for (const std::size_t i : places(split.unknown_out)) staged_cts.push_back(cts[i]);
  const std::vector<Tangent> in_cts =
      detail::backward_pass(*split.staged_program, staged, staged_cts);
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (linear[i]) result.push_back(in_cts[next++]);
    else result.emplace_back(Zero{inputs[i].aval().tangent()});
  }
  return result;
}

// A loop that is linear in one number, x -> x (y_1, y_2, ...), and no larger than numbers need not run
// backwards: it gives the y for x = 1, and the cotangent of x is their product with those of the
// results. Forwards it runs along with the loop that computes what it reads, and nothing is stored.
// A cotangent of another dtype would have to be taken back through the body's conversions.
std::optional<std::size_t> only_number(const ScanParams& p, std::span<const Tangent> cts,
                                       std::span<const LinearInput> inputs) {
  const auto is_number = [](const Aval& aval) { return aval.shape.empty(); };
  const auto linear = [](const LinearInput& in) { return in.is_linear(); };
  const auto in = p.jaxpr.in_avals();
  const std::vector<Aval> out = p.jaxpr.out_avals();
  if (std::count_if(inputs.begin(), inputs.end(), linear) != 1 ||
      !std::all_of(in.begin(), in.end(), is_number) ||
      !std::all_of(out.begin(), out.end(), is_number)) {
    return std::nullopt;
  }
  const auto i =
      static_cast<std::size_t>(std::find_if(inputs.begin(), inputs.end(), linear) - inputs.begin());
  const Aval tangent = inputs[i].aval().tangent();
  const bool of_one_dtype = std::all_of(cts.begin(), cts.end(), [&](const Tangent& ct) {
    return ct.is_zero() || ct.aval().dtype == tangent.dtype;
  });
  return is_number(tangent) && of_one_dtype ? std::optional(i) : std::nullopt;
}

std::vector<Tangent> transpose_forwards(const ScanParams& p, std::size_t number,
                                        std::span<const Tangent> cts,
                                        std::span<const LinearInput> inputs) {
  const ScanShape n(p);
  Arrays args;
  Mask given;
  std::vector<Tangent> result;
  for (const LinearInput& in : inputs) {
    given.push_back(in.is_linear());
    args.push_back(in.is_linear() ? lax::full(in.aval(), 1) : in.array());
    result.emplace_back(Zero{in.aval().tangent()});
  }
  const Mask linear = linear_inputs(p, given);
  const Arrays outs =
      scan_p.bind(with_body(p, preaccumulated(p.jaxpr, linear), n.consts, n.carry), args);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (cts[i].is_zero()) continue;
    Array term = mul_p.bind1({}, {cts[i].array(), outs[i]});
    if (term.ndim() > 0) term = lax::reduce_sum(term, {0});
    result[number] = detail::add_tangents(result[number], term);
  }
  return result;
}

}  // namespace

std::vector<Tangent> transpose_scan(const ScanParams& p, std::span<const Tangent> cts,
                                    std::span<const LinearInput> inputs) {
  if (const auto number = only_number(p, cts, inputs))
    return transpose_forwards(p, *number, cts, inputs);
  const ScanShape n(p);
  Mask given, zero;
  for (const LinearInput& in : inputs) given.push_back(in.is_linear());
  for (const Tangent& ct : cts) zero.push_back(ct.is_zero());
  const Mask linear = linear_inputs(p, given);
  for (std::size_t i = 0; i < n.carry; ++i) {
    if (!linear[n.consts + i]) return transpose_staged_half(p, given, cts, inputs);
  }
  const std::string key =
      "scan.transpose:" + loop_text(p) + detail::mask_text(linear) + ":" + detail::mask_text(zero);
  const auto t = p.jaxpr.memo<TransposedBody>(key, [&] { return transpose_body(p, linear, zero); });

  Arrays args;
  const Order linear_consts = places(part(linear, 0, n.consts));
  const Order linear_xs = places(part(linear, n.fixed(), n.xs));
  for (std::size_t i = 0; i < n.consts; ++i) {
    if (!linear[i]) args.push_back(inputs[i].array());
  }
  for (const std::size_t i : taken(linear_consts, places(t->consts)))
    args.push_back(zeros_of(inputs[i].aval().tangent()));
  for (const std::size_t i : places(t->carry)) args.push_back(cts[i].instantiate());
  for (std::size_t i = n.carry; i < n.outputs(); ++i) {
    if (!zero[i]) args.push_back(cts[i].array());
  }
  for (std::size_t i = n.fixed(); i < n.inputs(); ++i) {
    if (!linear[i]) args.push_back(inputs[i].array());
  }
  ScanParams backward = with_body(p, t->body, t->num_known_consts,
                                  places(t->consts).size() + places(t->carry).size());
  backward.reverse = !p.reverse;
  const Arrays outs = scan_p.bind(backward, args);

  std::vector<Tangent> result;
  for (const LinearInput& in : inputs) result.emplace_back(Zero{in.aval().tangent()});
  std::size_t next = 0;
  for (const std::size_t i : taken(linear_consts, places(t->consts))) result[i] = outs[next++];
  for (const std::size_t i : places(t->carry)) {
    if (given[n.consts + i]) result[n.consts + i] = outs[next];
    ++next;
  }
  for (const std::size_t i : taken(linear_xs, places(t->xs))) result[n.fixed() + i] = outs[next++];
  return result;
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
