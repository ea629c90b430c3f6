// Caching size-class allocator.
//
// Small blocks (up to 32 KiB) are cut from chunks of 1 MiB, then of a huge page each, and move between a
// list per thread and class, which takes no lock (runtime/small_blocks.hpp), and a shared list per class.
// Large blocks come from the system one by one.
#include "runtime/allocator.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/sysinfo.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/sanitizers.hpp"
#include "core/size_errors.hpp"
#include "core/thread_storage.hpp"
#include "runtime/array_memory.hpp"
#include "runtime/small_blocks.hpp"
#include "telamon/memory.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

constinit thread_local ThreadCache* thread_cache = nullptr;

namespace {

constexpr std::size_t kUnit = 64;
constexpr std::size_t kHugeFrom = std::size_t{2} << 20;
constexpr std::size_t kChunk = std::size_t{1} << 20;
/// Chunks of small pages, of which a process has what it touches. Who needs more needs all of the next, and
/// to find pages one by one would take longer than to fill them.
constexpr std::int64_t kSmallPages = 4 * kChunk;
constexpr int kNumClasses = 4 * 52;
/// Blocks that kernels read and write side by side begin at different places of a page. At the same place they would
/// share the few lines of a set in the first cache: sums of 12 arrays take twice as long on Zen 4, of 7 arrays of
/// 256 KiB 1.2 times. A few lines before a page's place that is written, reads wait for the writes: an eighth of a
/// page apart they do not.
constexpr std::size_t kPage = 4096, kApart = kPage / 8;
constexpr std::size_t kApartFrom = 4 * kApart;  // blocks that begin at multiples of it
constexpr std::size_t kStaggeredFrom =
    16 * kApart;  // the next of which begins elsewhere in its page

std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : std::size_t{4} << 30;
}

std::size_t swap_space() {
#if defined(__linux__)
  struct sysinfo info{};
  if (sysinfo(&info) == 0) return static_cast<std::size_t>(info.totalswap) * info.mem_unit;
#endif
  return 0;
}

[[noreturn]] void out_of_memory(std::size_t bytes) {
  throw detail::UnnamedOutOfMemoryError(
      "out of memory: " + std::to_string(bytes) + " bytes are wanted" +
      (bytes > memory_limit() ? ", but the machine has " + std::to_string(memory_limit()) : "") +
      "; use smaller sizes, or work on a part at a time");
}

/// Throws std::bad_alloc.
void* map_memory(std::size_t bytes) {
  // Huge pages need an aligned address: map more and cut both ends off.
  const std::size_t slack = bytes >= kHugeFrom ? kHugeFrom : 0;
  void* mapped =
      mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (slack == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(begin) % kHugeFrom;
  char* const block = begin + (misaligned == 0 ? 0 : kHugeFrom - misaligned);
  if (block != begin) munmap(begin, static_cast<std::size_t>(block - begin));
  const std::size_t rest = slack - static_cast<std::size_t>(block - begin);
  if (rest != 0) munmap(block + bytes, rest);
#if defined(MADV_HUGEPAGE)
  madvise(block, bytes, MADV_HUGEPAGE);
#endif
  return block;
}

/// A large block, which begins somewhere in its first page.
void unmap(void* block, std::size_t bytes) {
  char* const begin = static_cast<char*>(block);
  munmap(begin - reinterpret_cast<std::uintptr_t>(block) % kPage, bytes + kPage);
}

// Growth: memory that the process did not have before.
void log_growth(std::size_t bytes, const char* what) {
  detail::log(detail::Subsystem::memory,
              bytes >= kHugeFrom ? detail::LogLevel::info : detail::LogLevel::debug,
              [&] { return std::to_string(bytes) + " bytes from the system for " + what; });
}

/// Free blocks of one class for all threads, in the chains in which threads gave them: a chain changes
/// hands without a look at its blocks but the first. Used under a lock.
class Chains {
 public:
  std::int64_t size() const { return size_; }
  bool empty() const { return first_ == nullptr; }
  /// `blocks` linked blocks.
  void give(FreeBlock* chain, std::int64_t blocks) {
    first_ = new (chain) First{{chain->next}, first_, blocks};
    size_ += blocks;
  }
  void give(void* block) { give(new (block) FreeBlock{nullptr}, 1); }
  /// A chain goes into the list, which is empty.
  void move_into(FreeList& list) {
    First* const chain = std::exchange(first_, first_->next_chain);
    size_ -= chain->blocks;
    list.give_all(chain, chain->blocks);
  }
  void* take() {
    First* const block = std::exchange(first_, first_->next_chain);
    size_ -= block->blocks;
    if (block->next != nullptr) give(block->next, block->blocks - 1);
    return block;
  }

 private:
  struct First : FreeBlock {
    First* next_chain;
    std::int64_t blocks;
  };
  First* first_ = nullptr;
  std::int64_t size_ = 0;
};

class Allocator {
 public:
  static Allocator& get() {
    static Allocator* const allocator = new Allocator;  // never destroyed
    return *allocator;
  }

  void* allocate(std::size_t bytes);
  void deallocate(void* block, std::size_t bytes) noexcept;
  MemoryStats stats();
  void reset_peak();
  std::size_t release_cached();
  std::size_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  ThreadCache* new_thread_cache();
  void close(ThreadCache* cache) noexcept;

 private:
  Allocator();
  void lock();
  void unlock();
  void* cut(SizeClass c);
  void cut_for_small(std::size_t bytes);
  void* map_or_release(std::size_t bytes);
  void refill(FreeList& list, SizeClass c);
  void give_back_half(FreeList& list, SizeClass c) noexcept;
  void* allocate_large(SizeClass c, std::size_t bytes);
  void deallocate_large(void* block, SizeClass c) noexcept;

  std::mutex mutex_;
  Chains shared_[kNumSmall];
  char* chunk_ = nullptr;  // the part of the current chunk that is not cut yet
  std::size_t chunk_left_ = 0;
  std::int64_t cut_ = 0;          // bytes of all small blocks, in use or free
  std::int64_t allocations_ = 0;  // of threads without a cache
  std::int64_t fresh_ = 0;        // times that blocks were cut from a chunk
  ThreadCache* registered_ = nullptr;
  ThreadCache* spare_ = nullptr;

  std::mutex large_mutex_;
  FreeList large_[kNumClasses];
  std::int64_t large_in_use_ = 0, large_cached_ = 0, large_peak_ = 0;
  std::int64_t large_allocations_ = 0, large_fresh_ = 0;
  std::atomic<std::size_t> limit_;  // beyond it, freed blocks go to the system
};

// A child after fork() has one thread, the one that forked: it finds the lists as they were when no
// other thread was changing them.
Allocator::Allocator() {
  const auto mebibytes = detail::environment_number("TELAMON_CACHE_MIB", 0);
  limit_ = mebibytes ? static_cast<std::size_t>(*mebibytes) << 20 : physical_memory() / 4;
  if (!kGuardsArrays && !detail::environment_list("TELAMON_GUARD").empty())
    detail::ignore_environment("TELAMON_GUARD",
                               "it is for a library that is built with -DTELAMON_GUARD_PAGES=ON");
  pthread_atfork([] { get().lock(); }, [] { get().unlock(); }, [] { get().unlock(); });
}
void Allocator::lock() {
  mutex_.lock();
  large_mutex_.lock();
}
void Allocator::unlock() {
  large_mutex_.unlock();
  mutex_.unlock();
}

// The thread's cache. A plain pointer outlives the thread's other objects; the closer empties the
// cache when the thread ends, and what is freed later goes to the shared lists.
TELAMON_INITIAL_EXEC constinit thread_local bool thread_closed = false;
struct ThreadCloser {
  ~ThreadCloser() {
    if (thread_cache != nullptr) Allocator::get().close(thread_cache);
    thread_cache = nullptr;
    thread_closed = true;
  }
  void touch() {}
};
thread_local ThreadCloser thread_closer;

ThreadCache* current_cache() {
  if (thread_cache != nullptr || thread_closed) return thread_cache;
  thread_closer.touch();  // constructs it, so that it is destroyed
  return thread_cache = Allocator::get().new_thread_cache();
}

ThreadCache* Allocator::new_thread_cache() {
  const std::lock_guard lock(mutex_);
  if (spare_ != nullptr) {
    ThreadCache* cache = spare_;
    spare_ = cache->next_spare;
    return cache;
  }
  auto* cache = new (std::nothrow) ThreadCache;  // not to be thrown out of deallocate
  if (cache == nullptr) return nullptr;
  cache->next_registered = registered_;
  registered_ = cache;
  return cache;
}

void Allocator::close(ThreadCache* cache) noexcept {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < kNumSmall; ++i) {
    const std::int64_t blocks = cache->lists[i].size();
    if (FreeBlock* const all = cache->lists[i].take_all()) shared_[i].give(all, blocks);
  }
  cache->next_spare = spare_;
  spare_ = cache;
}

/// A block from the chunk. Called with the lock held.
void* Allocator::cut(SizeClass c) {
  const auto unused = [&] {
    const std::size_t at = reinterpret_cast<std::uintptr_t>(chunk_) % kApart;
    return c.size < kApartFrom || at == 0 ? 0 : kApart - at;
  };
  if (chunk_left_ < unused() + c.size) {
    cut_for_small(chunk_left_);
    const std::size_t bytes = cut_ < kSmallPages ? kChunk : kHugeFrom;
    try {
      log_growth(bytes, "small blocks");
      chunk_ = static_cast<char*>(map_or_release(bytes));
    } catch (const std::bad_alloc&) { out_of_memory(bytes); }
    chunk_left_ = bytes;
  }
  cut_for_small(unused());
  chunk_left_ -= c.size;
  cut_ += static_cast<std::int64_t>(c.size);
  void* const block = std::exchange(chunk_, chunk_ + c.size);
  if (c.size >= kStaggeredFrom) cut_for_small(std::min(chunk_left_, kApart));
  return block;
}

/// What is left between larger blocks, a multiple of 64 bytes, serves small classes. Called with the lock held.
void Allocator::cut_for_small(std::size_t bytes) {
  while (bytes >= kUnit) {
    const std::size_t part = std::min(bytes, 4 * kUnit);
    shared_[part / kUnit - 1].give(chunk_);
    chunk_ += part;
    chunk_left_ -= part;
    bytes -= part;
    cut_ += static_cast<std::int64_t>(part);
  }
}

/// Moves blocks that threads gave back into `list`, or up to 16 KiB of new ones (at least one). Called
/// with the lock held.
void Allocator::refill(FreeList& list, SizeClass c) {
  if (!shared_[c.index].empty()) return shared_[c.index].move_into(list);
  const std::size_t wanted = std::max<std::size_t>(1, (std::size_t{16} << 10) / c.size);
  for (std::size_t i = 0; i < wanted; ++i) list.give(cut(c));
  ++fresh_;
}

void* Allocator::allocate(std::size_t bytes) {
  const SizeClass c = size_class(bytes);
  if (c.index >= kNumSmall) return allocate_large(c, bytes);
  if (ThreadCache* cache = current_cache()) {
    if (cache->lists[c.index].head == nullptr) {
      const std::lock_guard lock(mutex_);
      refill(cache->lists[c.index], c);
    }
    return cache->lists[c.index].take();
  }
  const std::lock_guard lock(mutex_);
  Chains& shared = shared_[c.index];
  ++allocations_;
  if (!shared.empty()) return shared.take();
  ++fresh_;
  return cut(c);
}

void Allocator::deallocate(void* block, std::size_t bytes) noexcept {
  const SizeClass c = size_class(bytes);
  if (c.index >= kNumSmall) return deallocate_large(block, c);
  if (ThreadCache* cache = current_cache()) {
    FreeList& list = cache->lists[c.index];
    list.give(block);
    if (list.size() > kMostKept.of[c.index]) give_back_half(list, c);
    return;
  }
  const std::lock_guard lock(mutex_);
  shared_[c.index].give(block);
}

void Allocator::give_back_half(FreeList& list, SizeClass c) noexcept {
  const std::lock_guard lock(mutex_);
  const std::int64_t half = list.size() / 2;
  shared_[c.index].give(list.take_back(half), half);
}

void* Allocator::allocate_large(SizeClass c, std::size_t bytes) {
  // Systems that overcommit would grant more than there is, and end the program when it is used.
  if (bytes > memory_limit() || c.index >= kNumClasses) out_of_memory(bytes);
  const auto size = static_cast<std::int64_t>(c.size);
  std::size_t place = 0;  // in its page: not beside that of the one before
  {
    const std::lock_guard lock(large_mutex_);
    large_in_use_ += size;
    large_peak_ = std::max(large_peak_, large_in_use_);
    ++large_allocations_;
    if (void* block = large_[c.index].take_back()) {
      large_cached_ -= size;
      return block;
    }
    place = static_cast<std::size_t>(large_fresh_++) * 3 * kApart % kPage;
  }
  try {
    log_growth(c.size, "a large block");
    return static_cast<char*>(map_or_release(c.size + kPage)) + place;
  } catch (const std::bad_alloc&) {
    {
      const std::lock_guard lock(large_mutex_);
      large_in_use_ -= size;
      --large_allocations_;
      --large_fresh_;
    }
    out_of_memory(bytes);
  }
}

/// What the free large blocks keep may be enough. Throws std::bad_alloc.
void* Allocator::map_or_release(std::size_t bytes) {
  try {
    return map_memory(bytes);
  } catch (const std::bad_alloc&) {
    release_cached();
    return map_memory(bytes);
  }
}

void Allocator::deallocate_large(void* block, SizeClass c) noexcept {
  const auto size = static_cast<std::int64_t>(c.size);
  {
    const std::lock_guard lock(large_mutex_);
    large_in_use_ -= size;
    if (static_cast<std::size_t>(large_cached_ + size) <= limit()) {
      large_[c.index].give(block);
      large_cached_ += size;
      return;
    }
  }
  unmap(block, c.size);
}

// Threads go on meanwhile. Under the lock their counts only grow, and those of what they gave are read before
// all of what they took: what is on its way from one thread to another is in use, and nothing is free that
// has not been so at some time since.
MemoryStats Allocator::stats() {
  const std::scoped_lock locks(mutex_, large_mutex_);
  std::int64_t blocks[kNumSmall], free = 0, allocations = allocations_ + large_allocations_;
  for (int i = 0; i < kNumSmall; ++i) {
    blocks[i] = shared_[i].size();
    for (const ThreadCache* c = registered_; c != nullptr; c = c->next_registered)
      blocks[i] += c->lists[i].given;
  }
  for (int i = 0; i < kNumSmall; ++i) {
    for (const ThreadCache* c = registered_; c != nullptr; c = c->next_registered) {
      const std::int64_t taken = c->lists[i].taken;
      blocks[i] -= taken;
      allocations += taken;
    }
    free += std::max<std::int64_t>(blocks[i], 0) * static_cast<std::int64_t>(class_size(i));
  }
  return {.in_use = static_cast<std::size_t>(cut_ - free + large_in_use_),
          .cached = static_cast<std::size_t>(free + large_cached_) + chunk_left_,
          .peak = static_cast<std::size_t>(large_peak_),
          .allocations = allocations,
          // A block is fresh before it is given out.
          .reused = std::max<std::int64_t>(allocations - fresh_ - large_fresh_, 0)};
}

void Allocator::reset_peak() {
  const std::lock_guard lock(large_mutex_);
  large_peak_ = large_in_use_;
}

std::size_t Allocator::release_cached() {
  FreeBlock* heads[kNumClasses] = {};
  std::size_t released = 0;
  {
    const std::lock_guard lock(large_mutex_);
    for (int i = kNumSmall; i < kNumClasses; ++i) { heads[i] = large_[i].take_all(); }
    released = static_cast<std::size_t>(std::exchange(large_cached_, 0));
  }
  for (int i = kNumSmall; i < kNumClasses; ++i) {
    for (FreeBlock* block = heads[i]; block != nullptr;) {
      FreeBlock* const next = block->next;
      unmap(block, class_size(i));
      block = next;
    }
  }
  return released;
}

#if defined(TELAMON_ASAN)
// Under the address sanitizer every block comes from malloc, which finds overruns and late uses.
std::atomic<std::int64_t> asan_in_use{0}, asan_peak{0}, asan_allocations{0};
#endif

}  // namespace

#if defined(TELAMON_ASAN)

void* allocate(std::size_t bytes) {
  const std::size_t align = bytes >= kApartFrom ? kApart : kUnit;
  void* block = nullptr;
  // The sanitizer ends the program on requests beyond 1 TiB.
  const std::size_t limit = std::min(memory_limit(), std::size_t{1} << 39);
  if (bytes > limit || posix_memalign(&block, align, std::max<std::size_t>(bytes, 1)) != 0)
    out_of_memory(bytes);
  const auto size = static_cast<std::int64_t>(size_class(bytes).size);
  const std::int64_t now = asan_in_use += size;
  ++asan_allocations;
  std::int64_t peak = asan_peak;
  while (peak < now && !asan_peak.compare_exchange_weak(peak, now)) {}
  return spoil(block, bytes);
}
void deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  asan_in_use -= static_cast<std::int64_t>(size_class(bytes).size);
  std::free(block);
}
static MemoryStats current_stats() {
  return {.in_use = static_cast<std::size_t>(asan_in_use.load()),
          .peak = static_cast<std::size_t>(asan_peak.load()),
          .allocations = asan_allocations};
}
static void reset_peak() { asan_peak = asan_in_use.load(); }

#else

// When the library is loaded: a thread that made it later could wait for a fork() under way, and the child
// for that thread.
[[maybe_unused]] static const Allocator& made_at_load = Allocator::get();

// Almost always the thread's cache has what is wanted, or room for what comes back.
void* allocate(std::size_t bytes) {
  const SizeClass c = size_class(bytes);
  if (c.index < kNumSmall) [[likely]] {
    if (void* block = take_kept(c.index)) [[likely]]
      return block;
  }
  return spoil(Allocator::get().allocate(bytes), bytes);
}
void deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const SizeClass c = size_class(bytes);
  if (c.index < kNumSmall && keep(block, c.index)) [[likely]]
    return;
  Allocator::get().deallocate(block, bytes);
}
static MemoryStats current_stats() { return Allocator::get().stats(); }
static void reset_peak() { Allocator::get().reset_peak(); }

#endif

std::size_t memory_limit() {
  static const std::size_t limit = physical_memory() + swap_space();
  return limit;
}
std::size_t allocation_size(std::size_t bytes) { return size_class(bytes).size; }

}  // namespace runtime

MemoryStats memory_stats() { return runtime::current_stats(); }
void reset_peak_memory() { runtime::reset_peak(); }
std::size_t trim_memory() { return runtime::Allocator::get().release_cached(); }
std::size_t memory_cache_limit() { return runtime::Allocator::get().limit(); }
void set_memory_cache_limit(std::size_t bytes) { runtime::Allocator::get().set_limit(bytes); }

}  // namespace v1
}  // namespace telamon
