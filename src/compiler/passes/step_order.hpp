// The order of a program's equations where some of them are computed together.
#pragma once

#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Steps in the program's order, but for those that have to wait for a group. A step is an equation of no group, or a
/// group, as the last of its equations. `group_of` has the group of each equation, or -1. Equations with an effect, of
/// which no group has any, keep their order. A group that would then wait for itself is given up: its equations get -1.
std::vector<int> order_of_steps(const Jaxpr& jaxpr, std::vector<int>& group_of);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
