// scan: a program applied once per step, front to back or back to front.
#include "control_flow/common.hpp"
#include "core/concrete.hpp"

#include <cstring>

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

std::size_t bytes_of(const Array& x) {
  return static_cast<std::size_t>(x.size()) * size_of(x.dtype());
}

Arrays run_scan(const ScanParams& p, std::span<const Array> args) {
  const auto num_consts = static_cast<std::size_t>(p.num_consts);
  const auto num_carry = static_cast<std::size_t>(p.num_carry), fixed = num_consts + num_carry;
  const Arrays operands = dense(args);
  const std::vector<Aval> out_avals = p.jaxpr.out_avals();
  Arrays ys;
  for (std::size_t i = num_carry; i < out_avals.size(); ++i) {
    Shape shape = out_avals[i].shape;
    shape.insert(0, p.length);
    ys.push_back(detail::make_uninitialized({std::move(shape), out_avals[i].dtype, false}));
  }
  Arrays carry(operands.begin() + p.num_consts, operands.begin() + p.num_consts + p.num_carry);
  if (p.length > 0) {
    const Program body(p.jaxpr, "scan");
    Arrays inputs(operands.begin(), operands.begin() + p.num_consts);
    inputs.resize(operands.size());
    for (std::int64_t step = 0; step < p.length; ++step) {
      const auto row = static_cast<std::size_t>(p.reverse ? p.length - 1 - step : step);
      for (std::size_t i = 0; i < num_carry; ++i) inputs[num_consts + i] = std::move(carry[i]);
      for (std::size_t i = fixed; i < operands.size(); ++i) {
        inputs[i] = detail::make_uninitialized(p.jaxpr.in_avals()[i]);
        std::memcpy(detail::mutable_data_of<char>(inputs[i]),
                    detail::data_of<char>(operands[i]) + row * bytes_of(inputs[i]),
                    bytes_of(inputs[i]));
      }
      Arrays outs = body(inputs);
      for (std::size_t i = 0; i < ys.size(); ++i) {
        const Array y = detail::contiguous(outs[num_carry + i]);
        std::memcpy(detail::mutable_data_of<char>(ys[i]) + row * bytes_of(y),
                    detail::data_of<char>(y), bytes_of(y));
      }
      outs.resize(num_carry);
      carry = dense(outs);
    }
  }
  carry.insert(carry.end(), ys.begin(), ys.end());
  return carry;
}

AbstractResult type_of_scan(const ScanParams& p, std::span<const Aval> in) {
  const int num_xs = p.jaxpr.num_inputs() - p.num_consts - p.num_carry;
  const std::vector<Aval> outs = p.jaxpr.out_avals();
  if (p.num_consts < 0 || p.num_carry < 0 || num_xs < 0 ||
      static_cast<int>(outs.size()) < p.num_carry || p.length < 0) {
    bad_jaxpr("scan", "num_consts=" + std::to_string(p.num_consts) + " num_carry=" +
                          std::to_string(p.num_carry) + " length=" + std::to_string(p.length) +
                          " do not fit a body with " + std::to_string(p.jaxpr.num_inputs()) +
                          " inputs and " + std::to_string(outs.size()) + " results");
  }
  const auto with_rows = [&p](Aval aval) {
    aval.shape.insert(0, p.length);
    return aval.strong();
  };
  std::vector<Aval> expected(p.jaxpr.in_avals().begin(), p.jaxpr.in_avals().end()), result;
  for (std::size_t i = expected.size() - static_cast<std::size_t>(num_xs); i < expected.size(); ++i)
    expected[i] = with_rows(expected[i]);
  check_operands("scan", in, expected);
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (static_cast<int>(i) >= p.num_carry) {
      result.push_back(with_rows(outs[i]));
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

}  // namespace
}  // namespace control_flow

const Primitive<ScanParams> scan_p{"scan", [] {
                                     using namespace control_flow;
                                     return Rules<ScanParams>{
                                         .impl = run_scan,
                                         .abstract_eval = type_of_scan,
                                         .lower = run_by_impl(run_scan),
                                         .exempt = {{"jvp", "being written"},
                                                    {"transpose", "being written"},
                                                    {"batch", "being written"}}};
                                   }};

}  // namespace v1
}  // namespace telamon
