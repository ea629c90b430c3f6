// Networks of comparisons that sort a few numbers, or find the one of some rank.
#pragma once

#include <cstddef>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Puts two of some numbers in order: the lesser comes to `low`, the greater to `high`.
struct Comparison {
  std::size_t low, high;
  bool wants_low = true, wants_high = true;  ///< what somebody asks for of the two
};
using Network = std::vector<Comparison>;

/// Sorts n numbers, whatever they are. Equal ones do not keep their order.
TELAMON_API Network sorting_network(std::size_t n);
/// What it takes of that for the number that comes to the place `rank`.
TELAMON_API Network selecting_network(std::size_t n, std::size_t rank);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
