// Reclamation: one word per thread, odd while it reads.
#include "runtime/reclaim.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime/thread_nodes.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace telamon {
inline namespace v1 {
namespace runtime {

constinit thread_local ReadingThread* reading_thread = nullptr;

namespace {

struct Retired {
  std::shared_ptr<const void> object;
  std::vector<std::pair<const ReadingThread*, std::uint64_t>> readers;  // that have not ended yet
};

/// Every thread's next loads come after this one's stores, and its stores before are visible here.
bool fence_all_threads() {
#if defined(__linux__) && defined(SYS_membarrier)
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

struct Registry : ThreadNodes<ReadingThread> {
  std::vector<Retired> retired;
};
Registry& registry() {
  static auto* const r = new Registry;  // leaked: threads may end after main
  return *r;
}

// A child after fork() has it as it is while no thread changes it. When the library is loaded: a thread that
// did it later could wait for a fork() under way, and the child for that thread.
void lock_all() { registry().mutex.lock(); }
void unlock_all() { registry().mutex.unlock(); }
[[maybe_unused]] const int registered =
    (registry(), pthread_atfork(lock_all, unlock_all, unlock_all));

/// Those that can be freed now. Called with the lock held.
std::vector<Retired> take_free(Registry& r) {
  for (Retired& x : r.retired) {
    std::erase_if(x.readers, [](const auto& reader) {
      return reader.first->phase.load(std::memory_order_acquire) != reader.second;
    });
  }
  const auto first = std::partition(r.retired.begin(), r.retired.end(),
                                    [](const Retired& x) { return !x.readers.empty(); });
  std::vector<Retired> free(std::make_move_iterator(first),
                            std::make_move_iterator(r.retired.end()));
  r.retired.erase(first, r.retired.end());
  return free;
}

void remember(const std::shared_ptr<const void>& object) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (!fence_all_threads()) {
    static auto* const kept = new std::vector<std::shared_ptr<const void>>;
    kept->push_back(object);
    return;
  }
  Retired fresh{object, {}};
  for (const auto* w = r.first; w != nullptr; w = w->next) {
    const std::uint64_t phase = w->phase.load(std::memory_order_acquire);
    if (phase % 2 == 1) fresh.readers.emplace_back(w, phase);
  }
  r.retired.push_back(std::move(fresh));  // whole: with fewer readers it would be freed too early
}

}  // namespace

ReadingThread& new_reading_thread() { return new_thread_node(registry(), reading_thread); }

void retire(std::shared_ptr<const void> object) {
  try {
    remember(object);
  } catch (const std::bad_alloc&) {
    // Its count stays as it is: there is no memory to say who may still read it.
    using Object = std::shared_ptr<const void>;
    alignas(Object) std::byte never_destroyed[sizeof(Object)];
    new (never_destroyed) Object(std::move(object));
  }
}

std::size_t reclaim() {
  Registry& r = registry();
  std::vector<Retired> free;  // destroyed after the lock is open: destructors run code of others
  const std::lock_guard lock(r.mutex);
  free = take_free(r);
  return r.retired.size();
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
