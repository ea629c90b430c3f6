// The memos of a program: a list by last use, and an index into it.
#include "jaxpr/memos.hpp"

#include <pthread.h>

#include <cstdint>
#include <iterator>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

// A child after fork() has the memos of all programs as they are while no thread changes them, and may ask for them:
// one mutex for each program could not be found there. When the library is loaded: a thread that did it later could wait
// for a fork() under way, and the child for that thread. All are held at a fork(), and the thread sanitizer knows 64 locks
// of a thread.
constexpr std::size_t kMutexes = 32;
constinit std::mutex mutexes[kMutexes];

void lock_all() {
  for (std::mutex& mutex : mutexes) mutex.lock();
}
void unlock_all() {
  for (std::mutex& mutex : mutexes) mutex.unlock();
}
[[maybe_unused]] const int registered = pthread_atfork(lock_all, unlock_all, unlock_all);

}  // namespace

std::mutex& Memos::mutex() const {
  constexpr int kLine = 6;  // bits of addresses that say little
  return mutexes[(reinterpret_cast<std::uintptr_t>(this) >> kLine) % kMutexes];
}

std::atomic<std::int64_t>& memo_evictions() {
  static constinit std::atomic<std::int64_t> count{0};
  return count;
}

std::shared_ptr<const void> Memos::find_locked(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  memos_.splice(memos_.begin(), memos_, found->second);
  return found->second->value;
}

std::shared_ptr<const void> Memos::find(std::string_view key, std::type_index type) {
  const std::lock_guard lock(mutex());
  return find_locked({type, key});
}

std::shared_ptr<const void> Memos::publish(std::string_view key, std::type_index type,
                                           std::shared_ptr<const void> value) {
  List fresh, forgotten;  // destroyed after the lock is open: a whole program may go
  fresh.push_back({type, std::string(key), std::move(value)});
  const std::lock_guard lock(mutex());
  if (auto first = find_locked(key_of(fresh.front()))) return first;
  by_key_.emplace(key_of(fresh.front()), fresh.begin());
  memos_.splice(memos_.begin(), fresh);
  if (memos_.size() > kMaxMemos) {
    const auto oldest = std::prev(memos_.end());
    by_key_.erase(key_of(*oldest));
    forgotten.splice(forgotten.begin(), memos_, oldest);
    memo_evictions().fetch_add(1, std::memory_order_relaxed);
  }
  return memos_.front().value;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
