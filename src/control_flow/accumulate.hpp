// Sums of cotangents, in place. What was read from a small part of an array has a cotangent that is zero
// elsewhere; added to a sum it overwrites a part of it:
//   s + dynamic_update_slice(zeros, u, i)   becomes   dynamic_update_slice(s, s[i] + u, i)
// so that a step of a backward loop costs what it reads, not the whole array.
#pragma once

#include "control_flow/common.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

/// The rewritten body, also where such cotangents come out of branches and loops. -0 + 0 stays -0, and
/// where parts meet, they are added to the sum one by one. Values are otherwise the same.
Jaxpr accumulated(const Jaxpr& body);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
