// The work that a program stands for, counted equation by equation.
#pragma once

#include <string>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

struct Work {
  double flops = 0, transcendentals = 0;
  double bytes = 0;                  ///< operands and results of each equation
  std::vector<std::string> unknown;  ///< loops whose trips are not known: counted as one trip
};
/// Loops count as often as they run, of branches the most of each figure, calls as what they call.
Work count_work(const Jaxpr& jaxpr);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
