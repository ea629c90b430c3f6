// Preaccumulation: a linear body that combines its tangents element by element, rewritten as partial
// derivatives times tangents.
//   3.7 x' (1 - x) - 3.7 x x'   becomes   (3.7 (1 - x) - 3.7 x) x'
// Each step of a backward loop then waits for one product instead of for the whole chain of them
// (Griewank and Walther, Evaluating Derivatives, on preaccumulation of local partial derivatives).
#pragma once

#include "control_flow/common.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

/// The rewritten body, or `body` itself where that has no more operations or is of another kind.
/// `linear` says in which inputs it is linear.
TELAMON_API Jaxpr preaccumulated(const Jaxpr& body, const Mask& linear);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
