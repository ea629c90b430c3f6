// What a region writes over in place: chains of equations of which each overwrites a part of what the
// one before it gave.
#pragma once

#include <string>
#include <vector>

#include "compiler/plan/plan.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Whether an equation's result is its first operand with a part overwritten.
bool overwrites(const Eqn& eqn);

/// How each carried component of a loop's body goes on.
struct CarriedUpdates {
  static constexpr int kUnchanged = 1 << 30;
  std::vector<UpdateChain> chains;
  std::vector<int> chain_of;  ///< of each component: its chain, kUnchanged, or -1 for a new value
  std::set<int> alone;        ///< equations that must have kernels of their own for that
};
/// Of `num_carry` components, of which the first is input `first` of the body. All chains together can
/// be made in place.
CarriedUpdates carried_updates(const Jaxpr& body, std::size_t first, std::size_t num_carry,
                               const PlanOptions& options);

/// The same of a program's arguments, as far as they may be donated: each chain begins with one of these and
/// ends with a result. Where such an argument is not donated after all, its chain begins with a copy of it; so does one of
/// an argument that never is, where each element would have to look for itself in a window, or where the array is read
/// between several of its updates. The latter may begin with what is computed, too, which is made where the result will be,
/// and end with what is read on.
struct ArgumentUpdates {
  std::vector<UpdateChain> chains;
  std::set<int> alone;
};
ArgumentUpdates argument_updates(const Jaxpr& jaxpr, const std::vector<bool>& donated,
                                 const PlanOptions& options);

/// The same of branches: which operand each result is, with parts overwritten in some of them.
struct BranchUpdates {
  std::vector<int> operand_of;  ///< of each result: an input of the branches, or -1
  std::vector<std::vector<UpdateChain>> chains;  ///< of each branch
  std::vector<std::set<int>> alone;              ///< of each branch
};
BranchUpdates branch_updates(const CondParams& p, const PlanOptions& options);

/// Why no result lies where a donated argument does, although it is not read after results of its size are
/// written. Empty where no reason is known.
std::string why_kept(const Plan& plan, int argument);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
