// Freeing what other threads may still be reading, without a lock or a locked instruction for readers.
//
// A reader says when it begins and ends, by plain stores to a word of its own thread. Whoever takes an
// object out of a shared structure retires it: it is freed when all that were reading at that moment
// have ended. The order between a reader's store and its first load, which readers would pay for, is
// made by the one who retires: membarrier(2) interrupts the other threads.
// Epoch-based reclamation (Fraser 2004) with an asymmetric fence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/thread_storage.hpp"
#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// What a thread says of itself.
struct ReadingThread {
  std::atomic<std::uint64_t> phase{0};  ///< odd: within a Reading
  int depth = 0;
};
/// This thread's; null before its first Reading.
extern TELAMON_INITIAL_EXEC constinit thread_local ReadingThread* reading_thread;
ReadingThread& new_reading_thread();

/// While it is in scope, nothing that this thread can reach is freed by `retire`. May be nested.
class Reading {
 public:
  Reading() : thread_(begin()) {}
  ~Reading() { end(thread_); }
  /// The two halves, for scopes of other kinds. `end` takes what `begin` gave, on the same thread.
  static ReadingThread& begin() {
    ReadingThread& thread = reading_thread != nullptr ? *reading_thread : new_reading_thread();
    if (thread.depth++ > 0) return thread;
    step(thread, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the other half: fence_all_threads
    return thread;
  }
  static void end(ReadingThread& thread) {
    if (--thread.depth == 0) step(thread, std::memory_order_release);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  static void step(ReadingThread& thread, std::memory_order order) {
    thread.phase.store(thread.phase.load(std::memory_order_relaxed) + 1, order);
  }
  ReadingThread& thread_;
};

/// Remembers the object until no reader can see it any more; it must be out of reach of those that
/// begin now. `reclaim` lets go of it. It is kept forever where the system has no membarrier, or no memory
/// to remember it.
TELAMON_API void retire(std::shared_ptr<const void> object);

/// Lets go of what nobody can see any more; the number of objects that have to wait.
TELAMON_API std::size_t reclaim();

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
