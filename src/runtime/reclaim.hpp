// Freeing what other threads may still be reading, without a lock or a locked instruction for readers.
//
// A reader says when it begins and ends, by plain stores to a word of its own thread. Whoever takes an
// object out of a shared structure retires it: it is freed when all that were reading at that moment
// have ended. The order between a reader's store and its first load, which readers would pay for, is
// made by the one who retires: membarrier(2) interrupts the other threads.
// Epoch-based reclamation (Fraser 2004) with an asymmetric fence.
#pragma once

#include <cstddef>
#include <memory>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// While it is in scope, nothing that this thread can reach is freed by `retire`. May be nested.
class Reading {
 public:
  Reading() : thread_(begin()) {}
  ~Reading() { end(thread_); }
  /// The two halves, for scopes of other kinds. `end` takes what `begin` gave, on the same thread.
  static TELAMON_API void* begin();
  static TELAMON_API void end(void* thread);
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  void* thread_;
};

/// Remembers the object until no reader can see it any more; it must be out of reach of those that
/// begin now. `reclaim` lets go of it. Where the system has no membarrier it is kept forever.
TELAMON_API void retire(std::shared_ptr<const void> object);

/// Lets go of what nobody can see any more; the number of objects that have to wait.
TELAMON_API std::size_t reclaim();

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
