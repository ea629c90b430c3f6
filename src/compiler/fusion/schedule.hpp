// The order of kernels for the least memory: what each leaves there, and who reads it. Finding the best
// order is NP-hard (Sethi, 1973); a few orders that are found in linear time, up to a logarithm, are
// compared instead.
#pragma once

#include <cstdint>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Kernels and places, by number. A place is written by one kernel and free once all that read it have
/// run.
struct MemoryGraph {
  std::vector<std::vector<int>> next;  ///< of each kernel: those that wait for it, each once
  std::vector<int> position;           ///< of each kernel, in the order of the program
  std::vector<std::vector<int>> writes,
      reads;                        ///< places, of each kernel; it reads none that it writes
  std::vector<bool> in_place;       ///< of each kernel: it may write over what it reads last
  std::vector<std::int64_t> bytes;  ///< of each place
};

/// The most that is alive at one time.
TELAMON_API std::int64_t peak(const MemoryGraph& graph, const std::vector<int>& order);

/// The order of the program, as far as kernels do not wait for others.
TELAMON_API std::vector<int> as_written(const MemoryGraph& graph);

/// Of those that are ready, always the kernel that adds the least to what is alive.
TELAMON_API std::vector<int> least_growth(const MemoryGraph& graph);

/// What a kernel reads right before it, and that which needs the most memory first: the best order for
/// trees (Sethi and Ullman, 1970).
TELAMON_API std::vector<int> depth_first(const MemoryGraph& graph);

/// The one of these that needs the least memory; the order of the program where none needs less.
TELAMON_API std::vector<int> least_memory(const MemoryGraph& graph);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
