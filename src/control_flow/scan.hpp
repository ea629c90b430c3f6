// The rules of scan that have files of their own, and how a body's inputs and results are laid out.
#pragma once

#include <string>

#include "control_flow/common.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

/// How many of each kind of input and result there are.
struct ScanShape {
  std::size_t consts, carry, xs, ys;
  explicit ScanShape(const ScanParams& p)
      : consts(static_cast<std::size_t>(p.num_consts)),
        carry(static_cast<std::size_t>(p.num_carry)),
        xs(static_cast<std::size_t>(p.jaxpr.num_inputs()) - consts - carry),
        ys(static_cast<std::size_t>(p.jaxpr.num_outputs()) - carry) {}
  std::size_t fixed() const { return consts + carry; }  ///< where the xs begin
  std::size_t inputs() const { return consts + carry + xs; }
  std::size_t outputs() const { return carry + ys; }
};

/// The same loop around another body.
ScanParams with_body(const ScanParams& p, Jaxpr body, std::size_t num_consts,
                     std::size_t num_carry);
/// What distinguishes loops around one body, for memo keys.
std::string loop_text(const ScanParams& p);
/// The aval of all rows, and of one.
Aval stacked(Aval row, std::int64_t length);

PartialEvalResult split_scan(const ScanParams& p, const Jaxpr&, const Eqn&, const Mask& unknown_in,
                             const Mask& instantiate_out, const Policy& policy);
std::vector<Tangent> transpose_scan(const ScanParams& p, std::span<const Tangent> cts,
                                    std::span<const LinearInput> inputs);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
