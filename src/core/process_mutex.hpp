// A mutex that a forked child finds open.
#pragma once

#include <unistd.h>

#include <atomic>

namespace telamon {
inline namespace v1 {
namespace detail {

/// For what takes long to make and may be made anew: a thread that has locked it when another forks does not exist
/// in the child, where a std::mutex would stay closed. What it guards is left alone but for the moment when it is done.
class ProcessMutex {
 public:
  void lock() {
    const pid_t self = getpid();
    pid_t holder = 0;
    while (!holder_.compare_exchange_weak(holder, self, std::memory_order_acquire)) {
      if (holder != self) continue;  // the parent's: it is taken from there
      holder_.wait(self);
      holder = 0;
    }
  }
  void unlock() {
    holder_.store(0, std::memory_order_release);
    holder_.notify_one();
  }

 private:
  std::atomic<pid_t> holder_{0};  ///< the process of the thread that has locked it; 0: none
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
