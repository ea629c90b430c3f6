// The library's own access to the counters and the history of telamon/history.hpp.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/thread_storage.hpp"
#include "telamon/history.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The counters while they count. Relaxed increments: they order nothing.
struct LiveCounters {
  std::atomic<std::int64_t> traces{0}, lowerings{0}, compiles{0}, kernels{0}, donations{0},
      donations_skipped{0}, evictions{0};
};
TELAMON_API LiveCounters& live_counters();
inline void count(std::atomic<std::int64_t>& counter, std::int64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

/// What every call counts, per thread: only its thread writes it.
struct CallCounters {
  /// Written by one thread, read by all.
  class Counter {
   public:
    void add() { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    std::int64_t value() const { return n_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::int64_t> n_{0};
  };
  Counter cache_hits, executions;
};
/// This thread's; null before it has counted anything.
extern TELAMON_INITIAL_EXEC constinit thread_local CallCounters* own_call_counters;
CallCounters& new_call_counters();
inline CallCounters& call_counters() {
  return own_call_counters != nullptr ? *own_call_counters : new_call_counters();
}
inline void count(CallCounters::Counter& counter) { counter.add(); }
/// Adds a compiled program to the history and to the counters `compiles` and `kernels`.
TELAMON_API void record_executable(const ExecutableInfo& info);

/// Whether the disk cache had the machine code: what came from elsewhere has not been generated.
inline bool came_from_disk(const ExecutableInfo& info) {
  return info.backend == "llvm" &&
         std::none_of(info.passes.begin(), info.passes.end(),
                      [](const PassTime& p) { return p.name == "codegen"; });
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
