// while: a program repeated as long as a condition holds, or a batch of such loops side by side.
#include <algorithm>
#include <cstring>

#include "control_flow/common.hpp"
#include "core/concrete.hpp"

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

}  // namespace
}  // namespace control_flow

const Primitive<WhileParams> while_p{"while", [] {
                                       using namespace control_flow;
                                       return Rules<WhileParams>{
                                           .impl = run_while,
                                           .abstract_eval = type_of_while,
                                           .lower = run_by_impl(run_while),
                                           .exempt = {{"jvp", "being written"},
                                                      {"transpose", "being written"},
                                                      {"batch", "being written"}}};
                                     }};

}  // namespace v1
}  // namespace telamon
