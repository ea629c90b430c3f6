// Counters and the bounded history of compiled programs.
#include "runtime/history.hpp"

#include <pthread.h>

#include <deque>
#include <mutex>
#include <utility>

#include "jaxpr/memos.hpp"
#include "runtime/thread_nodes.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace {

constexpr std::size_t kRemembered = 256;

struct Log {
  std::mutex mutex;
  std::deque<ExecutableInfo> entries;
};
Log& history_log() {
  static auto* log = new Log;  // leaked: programs may be compiled while the process ends
  return *log;
}

}  // namespace

namespace runtime {

constinit thread_local CallCounters* own_call_counters = nullptr;

namespace {

// The counters of all threads, those that have ended included.
struct AllCallCounters : ThreadNodes<CallCounters> {
  std::int64_t cache_hits_before = 0, executions_before = 0;  // at the last reset

  std::int64_t sum(CallCounters::Counter CallCounters::* counter) const {
    std::int64_t total = 0;
    for (const Node* n = first; n != nullptr; n = n->next) total += (n->*counter).value();
    return total;
  }
};
AllCallCounters& all_call_counters() {
  static auto* const all = new AllCallCounters;  // leaked: threads may end after main
  return *all;
}

// A child after fork() has both as they are while no thread changes them. When the library is loaded: a
// thread that did it later could wait for a fork() under way, and the child for that thread.
void lock_all() {
  history_log().mutex.lock();
  all_call_counters().mutex.lock();
}
void unlock_all() {
  all_call_counters().mutex.unlock();
  history_log().mutex.unlock();
}
[[maybe_unused]] const int registered =
    (history_log(), all_call_counters(), pthread_atfork(lock_all, unlock_all, unlock_all));

}  // namespace

CallCounters& new_call_counters() {
  return new_thread_node(all_call_counters(), own_call_counters);
}

LiveCounters& live_counters() {
  static constinit LiveCounters counters;
  return counters;
}

void record_executable(const ExecutableInfo& info) {
  count(live_counters().compiles);
  count(live_counters().kernels, info.kernels);
  Log& log = history_log();
  const std::lock_guard lock(log.mutex);
  log.entries.push_back(info);
  if (log.entries.size() > kRemembered) log.entries.pop_front();
}

}  // namespace runtime

Counters counters() {
  const runtime::LiveCounters& c = runtime::live_counters();
  auto& calls = runtime::all_call_counters();
  const std::lock_guard lock(calls.mutex);
  return {.traces = c.traces,
          .lowerings = c.lowerings,
          .compiles = c.compiles,
          .cache_hits = calls.sum(&runtime::CallCounters::cache_hits) - calls.cache_hits_before,
          .kernels = c.kernels,
          .executions = calls.sum(&runtime::CallCounters::executions) - calls.executions_before,
          .donations = c.donations,
          .donations_skipped = c.donations_skipped,
          .evictions = c.evictions,
          .memo_evictions = detail::memo_evictions()};
}

void reset_counters() {
  runtime::LiveCounters& c = runtime::live_counters();
  for (auto* counter : {&c.traces, &c.lowerings, &c.compiles, &c.kernels, &c.donations,
                        &c.donations_skipped, &c.evictions, &detail::memo_evictions()}) {
    counter->store(0, std::memory_order_relaxed);
  }
  auto& calls = runtime::all_call_counters();
  const std::lock_guard lock(calls.mutex);
  calls.cache_hits_before = calls.sum(&runtime::CallCounters::cache_hits);
  calls.executions_before = calls.sum(&runtime::CallCounters::executions);
}

std::vector<ExecutableInfo> history() {
  return detail::naming_lack_of_memory("history", []() -> std::vector<ExecutableInfo> {
    Log& log = history_log();
    const std::lock_guard lock(log.mutex);
    return {log.entries.begin(), log.entries.end()};
  });
}

ExecutableInfo last_executable() {
  return detail::naming_lack_of_memory("last_executable", [] {
    Log& log = history_log();
    const std::lock_guard lock(log.mutex);
    return log.entries.empty() ? ExecutableInfo{} : log.entries.back();
  });
}

void clear_history() {
  Log& log = history_log();
  const std::lock_guard lock(log.mutex);
  log.entries.clear();
}

}  // namespace v1
}  // namespace telamon
