// The rules of while that have a file of their own, and how its operands are laid out.
#pragma once

#include "control_flow/common.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

/// How many of each kind of operand there are.
struct WhileShape {
  std::size_t cond_consts, body_consts, carry;
  explicit WhileShape(const WhileParams& p)
      : cond_consts(static_cast<std::size_t>(p.cond_nconsts)),
        body_consts(static_cast<std::size_t>(p.body_nconsts)),
        carry(static_cast<std::size_t>(p.body_jaxpr.num_outputs())) {}
  std::size_t consts() const { return cond_consts + body_consts; }
  std::size_t inputs() const { return consts() + carry; }
};

PartialEvalResult split_while(const WhileParams& p, const Jaxpr& around, const Eqn& eqn,
                              const Mask& unknown_in, const Mask& instantiate_out,
                              const Policy& policy);
std::optional<PartialEvalResult> split_known_loop(const WhileParams& p,
                                                  std::span<const std::optional<Array>> values);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
