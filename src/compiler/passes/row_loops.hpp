// Groups of kernels over rows, and the program in which they are loops over blocks of rows.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "compiler/passes/row_rules.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Kernels that go together, and what of the program they evaluate.
struct RowGroup {
  std::int64_t rows = 0, block = 0;
  std::int64_t parts =
      1;  ///< in which sums are taken, several; they wait for nothing of each other
  std::set<int> steps;
  std::set<Var> stored;                 ///< what they leave in memory, and sums
  std::set<Var> sums;                   ///< of those: sums over rows
  std::map<int, Need> eqns;             ///< in the order of the program
  std::set<Var> by_blocks, as_a_whole;  ///< what they read of what others made
  Vars outputs;                         ///< of `stored` without sums, what others need
  Vars order{};  ///< what is stored, as it comes where little is to be alive at a time
};

/// The variables that a program needs where groups (null: none) compute what they store.
std::vector<bool> needed_variables(const Jaxpr& jaxpr,
                                   const std::function<const RowGroup*(Var)>& group_of);

/// The program with a loop for each group.
Jaxpr with_row_loops(const Jaxpr& jaxpr, const std::vector<RowGroup>& groups);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
