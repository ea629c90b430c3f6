// Counters and the bounded history of compiled programs.
#include "runtime/history.hpp"

#include <deque>
#include <mutex>

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
  return {c.traces,  c.lowerings,  c.compiles,  c.cache_hits,
          c.kernels, c.executions, c.donations, c.donations_skipped};
}

void reset_counters() {
  runtime::LiveCounters& c = runtime::live_counters();
  for (auto* counter : {&c.traces, &c.lowerings, &c.compiles, &c.cache_hits, &c.kernels,
                        &c.executions, &c.donations, &c.donations_skipped}) {
    counter->store(0, std::memory_order_relaxed);
  }
}

std::vector<ExecutableInfo> history() {
  Log& log = history_log();
  const std::lock_guard lock(log.mutex);
  return {log.entries.begin(), log.entries.end()};
}

ExecutableInfo last_executable() {
  Log& log = history_log();
  const std::lock_guard lock(log.mutex);
  return log.entries.empty() ? ExecutableInfo{} : log.entries.back();
}

void clear_history() {
  Log& log = history_log();
  const std::lock_guard lock(log.mutex);
  log.entries.clear();
}

}  // namespace v1
}  // namespace telamon
