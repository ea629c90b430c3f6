// The switches of telamon/debug.hpp, for the library's own hot paths.
#pragma once

#include <atomic>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// On or off as an environment variable says at first use, until it is set.
class Switch {
 public:
  constexpr explicit Switch(const char* variable) : variable_(variable) {}
  bool on() const {
    const signed char state = state_.load(std::memory_order_relaxed);
    return state == kUnread ? read() : state != 0;
  }
  void set(bool on) { state_.store(on, std::memory_order_relaxed); }

 private:
  static constexpr signed char kUnread = -1;
  bool read() const;
  const char* variable_;
  mutable std::atomic<signed char> state_{kUnread};
};

extern constinit Switch leaks_switch, constants_switch, misses_switch, nans_switch;

}  // namespace detail
}  // namespace v1
}  // namespace telamon
