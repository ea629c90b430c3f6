// The library's own access to the counters and the history of telamon/history.hpp.
#pragma once

#include <atomic>

#include "telamon/history.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The counters while they count. Relaxed increments: they order nothing.
struct LiveCounters {
  std::atomic<std::int64_t> traces{0}, lowerings{0}, compiles{0}, cache_hits{0}, kernels{0},
      executions{0}, donations{0}, donations_skipped{0};
};
TELAMON_API LiveCounters& live_counters();
inline void count(std::atomic<std::int64_t>& counter, std::int64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}
/// Adds a compiled program to the history and to the counters `compiles` and `kernels`.
TELAMON_API void record_executable(const ExecutableInfo& info);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
