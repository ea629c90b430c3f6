// scan: a program applied once per step, front to back or back to front.
#include "control_flow/scan.hpp"

#include <algorithm>
#include <cstring>

#include "core/concrete.hpp"
#include "core/counted.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

ScanParams with_body(const ScanParams& p, Jaxpr body, std::size_t num_consts,
                     std::size_t num_carry) {
  return {.jaxpr = std::move(body),
          .length = p.length,
          .num_consts = static_cast<int>(num_consts),
          .num_carry = static_cast<int>(num_carry),
          .reverse = p.reverse,
          .unroll = p.unroll};
}

std::string loop_text(const ScanParams& p) {
  return std::to_string(p.num_consts) + ":" + std::to_string(p.num_carry) + ":" +
         std::to_string(p.length) + (p.reverse ? ":r:" : ":") + std::to_string(p.unroll) + ":";
}

Aval stacked(Aval row, std::int64_t length) {
  row.shape.insert(0, length);
  return row.strong();
}

namespace {

std::size_t bytes_of(const Array& x) {
  return static_cast<std::size_t>(x.size()) * size_of(x.dtype());
}

Arrays run_scan(const ScanParams& p, std::span<const Array> args) {
  const ScanShape n(p);
  const Arrays operands = dense(args);
  const std::vector<Aval> out_avals = p.jaxpr.out_avals();
  Arrays ys;
  for (std::size_t i = n.carry; i < n.outputs(); ++i)
    ys.push_back(detail::make_uninitialized(stacked(out_avals[i], p.length)));
  Arrays inputs = operands;  // of the body
  if (p.length > 0) {
    const Program body(p.jaxpr, "scan");
    for (std::int64_t step = 0; step < p.length; ++step) {
      const auto row = static_cast<std::size_t>(p.reverse ? p.length - 1 - step : step);
      for (std::size_t i = n.fixed(); i < n.inputs(); ++i) {
        inputs[i] = detail::make_uninitialized(p.jaxpr.in_avals()[i]);
        std::memcpy(detail::mutable_data_of<char>(inputs[i]),
                    detail::data_of<char>(operands[i]) + row * bytes_of(inputs[i]),
                    bytes_of(inputs[i]));
      }
      const Arrays outs = dense(body(inputs));
      for (std::size_t i = 0; i < n.ys; ++i) {
        const Array& y = outs[n.carry + i];
        std::memcpy(detail::mutable_data_of<char>(ys[i]) + row * bytes_of(y),
                    detail::data_of<char>(y), bytes_of(y));
      }
      std::copy_n(outs.begin(), n.carry, inputs.begin() + p.num_consts);
    }
  }
  Arrays results = taken(inputs, counting(n.consts, n.carry));
  append(results, ys);
  return results;
}

AbstractResult type_of_scan(const ScanParams& p, std::span<const Aval> in) {
  const int num_xs = p.jaxpr.num_inputs() - p.num_consts - p.num_carry;
  const std::vector<Aval> outs = p.jaxpr.out_avals();
  if (p.num_consts < 0 || p.num_carry < 0 || num_xs < 0 ||
      static_cast<int>(outs.size()) < p.num_carry || p.length < 0) {
    bad_jaxpr("scan", "num_consts=" + std::to_string(p.num_consts) +
                          " num_carry=" + std::to_string(p.num_carry) +
                          " length=" + std::to_string(p.length) + " do not fit a body with " +
                          detail::counted(p.jaxpr.num_inputs(), "input") + " and " +
                          detail::counted(outs.size(), "result"));
  }
  std::vector<Aval> expected(p.jaxpr.in_avals().begin(), p.jaxpr.in_avals().end()), result;
  for (std::size_t i = expected.size() - static_cast<std::size_t>(num_xs); i < expected.size(); ++i)
    expected[i] = stacked(expected[i], p.length);
  check_operands("scan", in, expected);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (static_cast<int>(i) >= p.num_carry) {
      result.push_back(stacked(outs[i], p.length));
      continue;
    }
    const Aval& carry = expected[static_cast<std::size_t>(p.num_consts) + i];
    if (!outs[i].same_type(carry)) {
      bad_jaxpr("scan", "the body takes carry component " + std::to_string(i) + " as " +
                            carry.to_string() + " and gives it back as " + outs[i].to_string());
    }
    result.push_back(carry);
  }
  return {std::move(result), p.jaxpr.effect()};
}

// ---- jvp ---------------------------------------------------------------------------------------
// The loop carries the tangents of those carry components that have one after some step: a fixed
// point. Tangents stand behind their primals among consts, carry and rows.

struct BodyJvp {
  Jaxpr body;
  std::size_t num_consts, num_carry;
  Mask nonzero_in, nonzero_out;
};

std::shared_ptr<const BodyJvp> jvp_of_body(const ScanParams& p, const Mask& nonzero) {
  const ScanShape n(p);
  const std::string key = "scan.jvp:" + std::to_string(p.num_consts) + ":" +
                          std::to_string(p.num_carry) + ":" + detail::mask_text(nonzero);
  return p.jaxpr.memo<BodyJvp>(key, [&] {
    Mask in = nonzero;
    std::shared_ptr<const detail::JvpJaxpr> derived;
    for (bool stable = false; !stable;) {
      Mask wanted(n.outputs(), false);
      for (std::size_t i = 0; i < n.carry; ++i) wanted[i] = in[n.consts + i];
      derived = detail::jvp_jaxpr(p.jaxpr, in, wanted);
      stable = true;
      for (std::size_t i = 0; i < n.carry; ++i) {
        if (!derived->nonzero_out[i] || in[n.consts + i]) continue;
        in[n.consts + i] = true;
        stable = false;
      }
    }
    // The derivative has all primals first, then all tangents that there are.
    const auto interleaved = [](const Mask& nonzero, std::initializer_list<std::size_t> counts) {
      Order order;
      std::size_t begin = 0, next = nonzero.size();
      for (const std::size_t count : counts) {
        append(order, counting(begin, count));
        for (const std::size_t end = begin + count; begin < end; ++begin) {
          if (nonzero[begin]) order.push_back(next++);
        }
      }
      return order;
    };
    const auto count = [](const Mask& mask, std::size_t begin, std::size_t size) {
      const auto first = mask.begin() + static_cast<std::ptrdiff_t>(begin);
      return size + static_cast<std::size_t>(
                        std::count(first, first + static_cast<std::ptrdiff_t>(size), true));
    };
    return BodyJvp{rearranged(derived->jaxpr, interleaved(in, {n.consts, n.carry, n.xs}),
                              interleaved(derived->nonzero_out, {n.carry, n.ys})),
                   count(in, 0, n.consts), count(in, n.consts, n.carry), in, derived->nonzero_out};
  });
}

JvpResult differentiate(const ScanParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const ScanShape n(p);
  Mask nonzero;
  for (const Tangent& t : tangents) nonzero.push_back(!t.is_zero());
  const auto derived = jvp_of_body(p, nonzero);
  Arrays args;
  std::size_t begin = 0;
  for (const std::size_t count : {n.consts, n.carry, n.xs}) {
    append(args, taken(primals, counting(begin, count)));
    for (const std::size_t end = begin + count; begin < end; ++begin) {
      if (derived->nonzero_in[begin]) args.push_back(tangents[begin].instantiate());
    }
  }
  const Arrays outs =
      scan_p.bind(with_body(p, derived->body, derived->num_consts, derived->num_carry), args);
  JvpResult result;
  std::size_t next = 0;
  begin = 0;
  for (const std::size_t count : {n.carry, n.ys}) {
    for (std::size_t i = 0; i < count; ++i) result.primals.push_back(outs[next++]);
    for (const std::size_t end = begin + count; begin < end; ++begin) {
      if (derived->nonzero_out[begin]) result.tangents.emplace_back(outs[next++]);
      else result.tangents.emplace_back(Zero{result.primals[begin].aval().tangent()});
    }
  }
  return result;
}

// ---- batch -------------------------------------------------------------------------------------
// A carry component is mapped if it is so after some step: a fixed point. Mapped ones have their
// batch axis at 0; that of rows lies behind the axis of steps.

BatchResult vectorise(const ScanParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const ScanShape n(p);
  Arrays operands(args.begin(), args.end());
  std::vector<BatchAxis> in(axes.begin(), axes.end());
  for (std::size_t i = n.fixed(); i < n.inputs(); ++i) {
    if (!in[i]) continue;
    if (*in[i] == 0) operands[i] = detail::move_axis(operands[i], 0, 1);
    in[i] = std::max(*in[i] - 1, 0);
  }
  Mask mapped(n.outputs(), false);  // what is forced: only carry
  for (std::size_t i = 0; i < n.carry; ++i) mapped[i] = in[n.consts + i].has_value();
  std::shared_ptr<const detail::BatchJaxpr> derived;
  for (bool stable = false; !stable;) {
    for (std::size_t i = 0; i < n.carry; ++i)
      in[n.consts + i] = mapped[i] ? BatchAxis(0) : std::nullopt;
    derived = detail::batch_jaxpr(p.jaxpr, axis, in, mapped);
    stable = true;
    for (std::size_t i = 0; i < n.carry; ++i) {
      if (!derived->out_axes[i] || mapped[i]) continue;
      mapped[i] = true;
      stable = false;
    }
  }
  for (std::size_t i = 0; i < n.carry; ++i) {
    if (mapped[i])
      operands[n.consts + i] =
          detail::batch_at_front(operands[n.consts + i], axes[n.consts + i], axis.size);
  }
  BatchResult result{scan_p.bind(with_body(p, derived->jaxpr, n.consts, n.carry), operands),
                     derived->out_axes};
  for (std::size_t i = n.carry; i < n.outputs(); ++i) {
    if (result.axes[i]) result.axes[i] = *result.axes[i] + 1;
  }
  return result;
}

// ---- dce ---------------------------------------------------------------------------------------
// A carry component is used if its final value is, or if a step reads it for what is used: a fixed
// point. One that is written but never read stays an input of the body.

struct BodyDce {
  std::optional<Jaxpr> body;  // none: nothing changes
  Mask used_in, used_carry;
};

DceResult prune(const ScanParams& p, const Mask& used_out) {
  const ScanShape n(p);
  const std::string key = "scan.dce:" + std::to_string(p.num_consts) + ":" +
                          std::to_string(p.num_carry) + ":" + detail::mask_text(used_out);
  const auto memo = p.jaxpr.memo<BodyDce>(key, [&] {
    Mask used = used_out;
    DceJaxpr pruned;
    for (bool stable = false; !stable;) {
      pruned = dce_jaxpr(p.jaxpr, used);
      stable = true;
      for (std::size_t i = 0; i < n.carry; ++i) {
        if (!pruned.used_in[n.consts + i] || used[i]) continue;
        used[i] = true;
        stable = false;
      }
    }
    Mask used_in = pruned.used_in;
    for (std::size_t i = 0; i < n.carry; ++i) used_in[n.consts + i] = used[i];
    BodyDce result{{}, used_in, taken(used, counting(0, n.carry))};
    if (pruned.jaxpr.same_as(p.jaxpr)) return result;
    result.body = with_inputs(p.jaxpr, pruned, used_in);
    return result;
  });
  const auto count = [](const Mask& mask, std::size_t size) {
    return static_cast<std::size_t>(
        std::count(mask.begin(), mask.begin() + static_cast<std::ptrdiff_t>(size), true));
  };
  Mask kept = used_out;
  std::copy(memo->used_carry.begin(), memo->used_carry.end(), kept.begin());
  return {Params::of(with_body(p, memo->body.value_or(p.jaxpr), count(memo->used_in, n.consts),
                               count(memo->used_carry, n.carry))),
          memo->used_in, std::move(kept)};
}

}  // namespace
}  // namespace control_flow

const Primitive<ScanParams> scan_p{"scan", [] {
                                     using namespace control_flow;
                                     return Rules<ScanParams>{.impl = run_scan,
                                                              .abstract_eval = type_of_scan,
                                                              .jvp = differentiate,
                                                              .transpose = transpose_scan,
                                                              .batch = vectorise,
                                                              .partial_eval = split_scan,
                                                              .dce = prune,
                                                              .lower = run_by_impl(run_scan)};
                                   }};

}  // namespace v1
}  // namespace telamon
