// Where it makes a difference whether a zero is 0.0 or -0.0: sums begin with 0, so that the one of several
// -0.0 is 0.0, and that addition can be left out where nobody could tell.
#pragma once

#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// By variable: whether a result of the program, but for signs of zeros that sums take away, depends on the
/// sign of its zeros. True where that is not known.
TELAMON_API std::vector<bool> zero_signs_that_matter(const Jaxpr& jaxpr);

/// Whether an equation's result may be -0.0: squares, as of distances, are not.
bool may_be_minus_zero(const Eqn& eqn);

/// Whether the terms of a sum (reduce_sum) that is taken apart are to be added to 0, with which it begins. `matter`: where signs
/// of zeros do, by variable; null: they may anywhere.
bool begins_with_zero(const Jaxpr& jaxpr, const Eqn& sum, const std::vector<int>& producers,
                      const std::vector<bool>* matter);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
