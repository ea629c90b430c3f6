// The switches of debugging, as the environment sets them at first use.
#include "telamon/debug.hpp"

#include <atomic>

#include "core/environment.hpp"

namespace telamon {
inline namespace v1 {
namespace {

bool wanted(const char* variable) { return detail::environment_word(variable) == "1"; }

std::atomic<bool>& leaks() {
  static std::atomic<bool> on = wanted("TELAMON_CHECK_LEAKS");
  return on;
}
std::atomic<bool>& constants() {
  static std::atomic<bool> on = wanted("TELAMON_CHECK_CONSTANTS");
  return on;
}
std::atomic<bool>& misses() {
  static std::atomic<bool> on = wanted("TELAMON_EXPLAIN_CACHE_MISSES");
  return on;
}

std::atomic<bool>& nans() {
  static std::atomic<bool> on = wanted("TELAMON_DEBUG_NANS");
  return on;
}

}  // namespace

bool check_leaks() { return leaks().load(std::memory_order_relaxed); }
void set_check_leaks(bool on) { leaks().store(on, std::memory_order_relaxed); }
bool check_constants() { return constants().load(std::memory_order_relaxed); }
void set_check_constants(bool on) { constants().store(on, std::memory_order_relaxed); }
bool explain_cache_misses() { return misses().load(std::memory_order_relaxed); }
void set_explain_cache_misses(bool on) { misses().store(on, std::memory_order_relaxed); }
bool debug_nans() { return nans().load(std::memory_order_relaxed); }
void set_debug_nans(bool on) { nans().store(on, std::memory_order_relaxed); }

}  // namespace v1
}  // namespace telamon
