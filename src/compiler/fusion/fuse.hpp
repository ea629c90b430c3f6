// Fusion: which equations are evaluated in which loop nest, and which values reach memory.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/plan/plan.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// How an equation inside a kernel is indexed: by the kernel's own iteration index, by the index
/// of the reduced shape (after a reduction), or otherwise.
enum class Align : std::uint8_t { other, iteration, reduced };

/// A kernel in the making.
struct Cluster {
  Kernel kernel;
  Form form = Form::element;    ///< element (a loop), reduction, dot, kernel or host
  std::map<int, Align> align;   ///< of its members
  std::set<int> feeds;          ///< clusters that read its results
  int position = 0;             ///< of its last equation: the order among independent clusters
  std::size_t uncut = 0;        ///< members that keep it from being cut into functions
  bool outgrew = false;         ///< is larger than a function should be, since it is to be cut
  std::size_t numbers = 0;      ///< members that are single numbers, while the space is not
  int lowest = 0, highest = 0;  ///< levels of its members: how many equations wait for each other
  std::size_t calls = 0;        ///< members that take as long as a function does
  std::vector<int> stored{};    ///< large arrays that its folds read: what makes them, ascending
  std::vector<int> given{};     ///< and inputs of the program
};

struct Fusion {
  std::vector<Cluster> clusters;  ///< in an order in which they can run
  std::vector<bool> in_memory;    ///< of each equation: its results are stored
  std::vector<bool> updates_in_place;
  std::set<int>
      late_updates;  ///< of small parts, whose operand others read only later: none, in what fuse returns
};

using detail::producers;

Fusion fuse(const Jaxpr& jaxpr, const PlanOptions& options);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
