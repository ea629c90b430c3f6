// The switches of debugging, as the environment sets them at first use.
#include "telamon/debug.hpp"

#include "core/environment.hpp"
#include "core/switches.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

constinit Switch leaks_switch("TELAMON_CHECK_LEAKS"), constants_switch("TELAMON_CHECK_CONSTANTS"),
    misses_switch("TELAMON_EXPLAIN_CACHE_MISSES"), nans_switch("TELAMON_DEBUG_NANS");

// Whoever sets it at the same time is not overruled.
bool Switch::read() const {
  signed char state = kUnread;
  state_.compare_exchange_strong(state, environment_word(variable_) == "1",
                                 std::memory_order_relaxed);
  return on();
}

}  // namespace detail

bool check_leaks() { return detail::leaks_switch.on(); }
void set_check_leaks(bool on) { detail::leaks_switch.set(on); }
bool check_constants() { return detail::constants_switch.on(); }
void set_check_constants(bool on) { detail::constants_switch.set(on); }
bool explain_cache_misses() { return detail::misses_switch.on(); }
void set_explain_cache_misses(bool on) { detail::misses_switch.set(on); }
bool debug_nans() { return detail::nans_switch.on(); }
void set_debug_nans(bool on) { detail::nans_switch.set(on); }

}  // namespace v1
}  // namespace telamon
