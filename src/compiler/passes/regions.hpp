// Loops and branches with the programs within them, to which constants are added.
#pragma once

#include <cstddef>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A program of a loop or branch, and of its inputs those that are the same each time it runs.
struct Region {
  const Jaxpr* jaxpr;
  int num_consts;       ///< its first inputs
  std::size_t operand;  ///< of the equation, for the first of them
};
/// In the order of Params::jaxprs; of other equations none.
std::vector<Region> regions_of(const Eqn& eqn);

/// The parameters of a loop or branch with other programs, each of which has first inputs more: for these constants,
/// which become operands. Branches take those of all.
Params with_constants(const Eqn& eqn, const std::vector<Jaxpr>& programs,
                      const std::vector<Atoms>& constants, Atoms& operands);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
