// Which processors the workers of the thread pool keep to.
//
// Unpinned threads that spin may share one processor for many milliseconds. So the processors are cut
// into one share of neighbours for each thread, and every worker keeps to a share that is not the
// caller's. With as many threads as processors a share is one processor. With fewer threads it is
// several, among which the system chooses: it knows what else runs there, other processes that number
// their workers alike included. With more threads than processors nothing is to be gained.
// The caller goes where the system puts it, and callers may alternate: then at most two workers move.
#pragma once

#include <cstddef>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The processors are counted from 0, `n` in all, for `threads` <= n.
struct Shares {
  std::size_t n, threads;

  constexpr std::size_t first(std::size_t share) const { return share * n / threads; }
  /// The share that processor `p` is in: the greatest with first(share) <= p.
  constexpr std::size_t of(std::size_t p) const { return ((p + 1) * threads - 1) / n; }
  /// Each worker has the share of its own number, but for the one that would have the caller's: that
  /// one has the last.
  constexpr std::size_t of_worker(std::size_t worker, std::size_t callers) const {
    return worker == callers ? threads - 1 : worker;
  }
};

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
