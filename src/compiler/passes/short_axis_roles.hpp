// What equations do with the last axis of an array where that is short (short_axes.cpp).
#pragma once

#include <cstdint>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Rows that vectors hold no whole number of, for the most part; those of what is much larger than what lies around it, such
/// as pairs of points.
constexpr std::int64_t kLongestRow = 15, kLongestOfPairs = 32;
constexpr std::int64_t kLeastSize = 1 << 11;  // elements of what is computed in between

/// What an equation does with the last axis.
enum class AxisRole : std::uint8_t {
  none,     ///< it needs its operands as they are
  through,  ///< component k of the result from components k of the operands
  spread,   ///< all components of the result are the same
  folded,   ///< a result without the axis from all components of the operand
  planes,   ///< the components are planes of an operand whose axes have another order
  joined,   ///< the components are those of the operands, one operand after the other
  part,     ///< some components of the operand
  turned,   ///< the components are those of the operand, the last one first
  padded,   ///< the components are those of the operand, and between and beside them one value
  counted,  ///< component k is k
  column,   ///< one component of the operand
  product,  ///< the components are sums of products of the operand's with numbers
};

AxisRole role_of(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether it can be taken apart: longer rows are where they are stacked, as those of small matrices are, or much larger than
/// what lies around them.
bool may_be_apart(const Aval& a);
/// Whether whole rows are put together in registers, from a vector of each column. More than four columns of bytes
/// take too many shuffles.
bool by_columns(const Aval& a);
/// Whether what moves elements does so along other axes than the last.
bool leaves_last_axis(const Jaxpr& jaxpr, const Eqn& eqn);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
