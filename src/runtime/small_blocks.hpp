// Small blocks of memory, for those who take and give back one for each array: what of the allocator is
// worth having inline. Everybody else calls runtime/allocator.hpp, whose blocks these are.
//
// Each thread keeps lists of free blocks, one per size class, which take no lock. A free block holds the
// link in its first bytes.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "core/sanitizers.hpp"
#include "core/thread_storage.hpp"
#include "runtime/allocator.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

inline constexpr int kNumSmall = 32;  // classes, up to 32 KiB

struct SizeClass {
  int index;
  std::size_t size;
};

/// In units of 64 bytes: 1, 2, 3, 4, then four steps to each doubling: 5 6 7 8, 10 12 14 16, 20 ...
constexpr SizeClass size_class(std::size_t bytes) {
  constexpr std::size_t kUnit = 64;
  const std::size_t units = bytes == 0 ? 0 : (bytes - 1) / kUnit;  // one less than needed
  if (units < 4) return {static_cast<int>(units), (units + 1) * kUnit};
  const int log = std::bit_width(units) - 1, shift = log - 2;
  const std::size_t step = (units >> shift) - 4;
  return {4 * (log - 1) + static_cast<int>(step), ((step + 5) << shift) * kUnit};
}
constexpr std::size_t class_size(int index) {
  if (index < 4) return static_cast<std::size_t>(index + 1) * 64;
  const int log = index / 4 + 1, step = index % 4;
  return (static_cast<std::size_t>(step + 5) << (log - 2)) * 64;
}

/// A number that one thread writes, or several under a lock, and any may read. Who has read one finds those
/// that were written before it at least as they were then.
class Count {
 public:
  operator std::int64_t() const { return n_.load(std::memory_order_acquire); }
  void add(std::int64_t amount) { set(n_.load(std::memory_order_relaxed) + amount); }
  void set(std::int64_t n) { n_.store(n, std::memory_order_release); }

 private:
  std::atomic<std::int64_t> n_{0};
};

struct FreeBlock {
  FreeBlock* next;
};

/// The processor begins to read what is written next: a list that was long has blocks which no cache holds.
inline void fetch(const FreeBlock* block) { __builtin_prefetch(block, 1); }

/// Blocks that can be taken. What a thread took from its list is an allocation; what moves between lists
/// is none.
struct FreeList {
  FreeBlock* head = nullptr;
  Count given, taken;

  std::int64_t size() const { return given - taken; }
  void give(void* block) {
    head = new (block) FreeBlock{head};
    given.add(1);
  }
  /// The same unless there are `most` already; whether it did. Reads the count once, for it is what a thread that
  /// gives many blocks waits for.
  bool give_up_to(std::int64_t most, void* block) {
    const std::int64_t before = given;
    if (before - taken >= most) return false;
    head = new (block) FreeBlock{head};
    given.set(before + 1);
    return true;
  }
  /// Null where there is none.
  void* take() {
    FreeBlock* const block = head;
    if (block != nullptr) {
      head = block->next;
      fetch(head);
      taken.add(1);
    }
    return block;
  }
  /// The block that was given last, as if it never had been.
  void* take_back() {
    FreeBlock* const block = head;
    if (block != nullptr) {
      head = block->next;
      given.add(-1);
    }
    return block;
  }
  /// The `n` blocks that were given last, linked, as if they never had been; there are more.
  FreeBlock* take_back(std::int64_t n) {
    FreeBlock* const first = head;
    FreeBlock* last = head;
    for (std::int64_t i = 1; i < n; ++i) last = last->next;
    head = std::exchange(last->next, nullptr);
    given.add(-n);
    return first;
  }
  /// All, linked, as if they never had been given.
  FreeBlock* take_all() {
    given.add(-size());
    return std::exchange(head, nullptr);
  }
  /// Blocks that are linked already; the list is empty.
  void give_all(FreeBlock* first, std::int64_t count) {
    head = first;
    given.add(count);
  }
};

/// Written by its thread only; the numbers are read by memory_stats.
struct ThreadCache {
  FreeList lists[kNumSmall];
  ThreadCache* next_registered = nullptr;
  ThreadCache* next_spare = nullptr;
};

/// How many blocks of a class a thread keeps: beyond, half of them go to all threads.
constexpr std::int64_t most_kept(int index) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 10;  // of one class
  const std::int64_t most = kBytes / static_cast<std::int64_t>(class_size(index));
  return most < 4 ? 4 : most;
}
struct MostKept {
  std::int64_t of[kNumSmall] = {};
  constexpr MostKept() {
    for (int i = 0; i < kNumSmall; ++i) of[i] = most_kept(i);
  }
};
inline constexpr MostKept kMostKept;

/// This thread's; null before its first block and after its last.
extern TELAMON_INITIAL_EXEC constinit thread_local ThreadCache* thread_cache;

/// Where invariants are checked, nobody finds in a block what was there by chance: not a right result, say.
inline void* spoil([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#ifdef TELAMON_DEBUG_CHECKS
  constexpr std::size_t kMost = std::size_t{1} << 20;  // pages that nobody touches should stay so
  if (block != nullptr) std::memset(block, 0xcb, bytes < kMost ? bytes : kMost);
#endif
  return block;
}

/// A block of class `index`, which is a small one, that this thread has kept; null where there is none.
inline void* take_kept([[maybe_unused]] int index) {
#if !defined(TELAMON_ASAN)  // which is to see every block come and go
  if (ThreadCache* cache = thread_cache; cache != nullptr) [[likely]]
    return spoil(cache->lists[index].take(), class_size(index));
#endif
  return nullptr;
}
/// And back. False where this thread keeps no more.
inline bool keep([[maybe_unused]] void* block, [[maybe_unused]] int index) noexcept {
#if !defined(TELAMON_ASAN)
  if (ThreadCache* cache = thread_cache; cache != nullptr) [[likely]]
    return cache->lists[index].give_up_to(kMostKept.of[index], block);
#endif
  return false;
}

/// A block of a small class, and back: what allocate and deallocate do for sizes that are known before.
inline void* take_block(int index) {
  void* const block = take_kept(index);
  return block != nullptr ? block : allocate(class_size(index));
}
inline void give_block(void* block, int index) noexcept {
  if (!keep(block, index)) deallocate(block, class_size(index));
}

/// Takes blocks of one class, one after the other, from those that this thread has kept. The head of their list
/// stays in a register meanwhile: through memory each would wait for the one before. Nobody else takes or gives
/// back blocks on this thread as long as this is there.
class BlockTaker {
 public:
  explicit BlockTaker([[maybe_unused]] int index) : bytes_(class_size(index)) {
#if !defined(TELAMON_ASAN)
    if (thread_cache == nullptr) return;
    list_ = &thread_cache->lists[index];
    head_ = list_->head;
#endif
  }
  ~BlockTaker() {
    if (taken_ == 0) return;
    list_->head = head_;
    list_->taken.add(taken_);
  }
  BlockTaker(const BlockTaker&) = delete;
  BlockTaker& operator=(const BlockTaker&) = delete;

  /// Null where there are no more: `take_block` has them.
  void* take() {
    FreeBlock* const block = head_;
    if (block == nullptr) [[unlikely]]
      return nullptr;
    head_ = block->next;
    fetch(head_);
    ++taken_;
    return spoil(block, bytes_);
  }

 private:
  std::size_t bytes_;
  FreeList* list_ = nullptr;
  FreeBlock* head_ = nullptr;
  std::int64_t taken_ = 0;
};

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
