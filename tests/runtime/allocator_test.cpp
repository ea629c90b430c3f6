// The caching allocator: alignment, reuse, threads, accounting.
#include "runtime/allocator.hpp"

#include <gtest/gtest.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/concrete.hpp"
#include "core/sanitizers.hpp"
#include "support/errors.hpp"
#include "telamon/jit.hpp"
#include "telamon/memory.hpp"
#include "telamon/numpy.hpp"

namespace {

using namespace telamon::runtime;
using telamon::memory_stats;
using telamon::MemoryStats;
using telamon::reset_peak_memory;

TEST(Allocator, AlignsToSixtyFourBytesAndLargerBlocksToEighthsOfPages) {
  for (std::size_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 40000, 65536, 100000, 3 << 20}) {
    void* block = allocate(bytes);
    ASSERT_NE(block, nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    EXPECT_EQ(address % 64, 0u) << bytes;
    if (bytes >= 2048) EXPECT_EQ(address % 512, 0u) << bytes;
    std::memset(block, 1, bytes);
    deallocate(block, bytes);
  }
}

#if !defined(TELAMON_ASAN)
// The sets of the first cache go by the place in a page, and kernels read and write many arrays side by side.
TEST(Allocator, BeginsLargerBlocksAtDifferentPlacesOfAPage) {
  for (const std::size_t bytes : {8192, 16384, 65536, 3 << 20}) {
    std::vector<void*> blocks;  // more than are kept of any that came before
    std::vector<int> at(8);
    for (int i = 0; i < 128; ++i) {
      blocks.push_back(allocate(bytes));
      ++at[reinterpret_cast<std::uintptr_t>(blocks.back()) % 4096 / 512];
    }
    for (const int n : at) EXPECT_GE(n, 4) << bytes;
    for (void* block : blocks) deallocate(block, bytes);
    telamon::trim_memory();
  }
}
#endif

#ifdef TELAMON_DEBUG_CHECKS
// Blocks that come again, from each of the lists and from the system: what a program leaves unwritten is to be seen.
TEST(Allocator, SpoilsTheFirstMegabyteOfBlocks) {
  for (std::size_t bytes : {16, 64, 1000, 40000, 100000, 3 << 20}) {
    const auto spoilt = std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(bytes), 1 << 20);
    for (int times = 0; times < 2; ++times) {
      auto* block = static_cast<unsigned char*>(allocate(bytes));
      EXPECT_EQ(std::count(block, block + spoilt, 0xcb), spoilt) << bytes;
      std::memset(block, 0, bytes);
      deallocate(block, bytes);
    }
  }
}
#endif

#if defined(__linux__) && !defined(TELAMON_ASAN)

/// Of the mapping that `address` lies in: how many bytes are in huge pages, as /proc/self/smaps has it.
std::size_t bytes_in_huge_pages(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    std::size_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= wanted && wanted < end;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &kilobytes) == 1)
      return kilobytes << 10;
  }
  return 0;
}

/// Whether the system gives huge pages to who asks for them, as the allocator does.
bool system_grants_huge_pages() {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  void* const own =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) return false;
  madvise(own, kBytes, MADV_HUGEPAGE);
  std::memset(own, 1, kBytes);
  const bool granted = bytes_in_huge_pages(own) >= kBytes / 2;
  munmap(own, kBytes);
  return granted;
}

// Fresh pages are the largest cost of array programs: 512 times as few.
TEST(Allocator, KeepsLargeArraysInHugePages) {
  if (!system_grants_huge_pages()) GTEST_SKIP() << "this system grants no huge pages";
  telamon::trim_memory();
  for (const std::int64_t n : {std::int64_t{4} << 20, (std::int64_t{4} << 20) + 1000}) {
    const telamon::Array x = telamon::sin(telamon::arange(n, telamon::DType::f64));
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(double);
    // All but the last, which may be cut.
    const auto* node = static_cast<const telamon::detail::ConcreteNode*>(x.node_or_null());
    EXPECT_GE(bytes_in_huge_pages(node->buffer().data()), bytes - (2 << 20)) << n;
    telamon::trim_memory();
  }
}

#endif

TEST(Allocator, RoundsUpByAQuarterAtMost) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes += bytes / 7 + 1) {
    const std::size_t size = allocation_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_LE(size, bytes < 256 ? bytes + 63 : bytes + bytes / 4) << bytes;
    ASSERT_EQ(allocation_size(size), size) << "a class holds its own size";
  }
}

#if !defined(TELAMON_ASAN)  // under that sanitizer nothing is kept for reuse
TEST(Allocator, ReusesWhatWasFreedLast) {
  for (std::size_t bytes : {100, 5000, 1 << 20, 9 << 20}) {
    void* first = allocate(bytes);
    deallocate(first, bytes);
    void* second = allocate(bytes);
    EXPECT_EQ(first, second) << bytes;
    deallocate(second, bytes);
  }
}

TEST(Allocator, ReturnsCachedLargeBlocksOnRequest) {
  deallocate(allocate(32 << 20), 32 << 20);
  EXPECT_GE(telamon::memory_stats().cached, std::size_t{32} << 20);
  EXPECT_GE(telamon::trim_memory(), std::size_t{32} << 20);
  EXPECT_LT(telamon::memory_stats().cached, std::size_t{32} << 20);
  EXPECT_EQ(telamon::trim_memory(), 0u);
}

TEST(Allocator, CountsAllocationsAndThoseThatNeededNoFreshMemory) {
  for (const std::size_t bytes : {200, 5 << 20}) {
    deallocate(allocate(bytes), bytes);
    const telamon::MemoryStats before = telamon::memory_stats();
    for (int i = 0; i < 10; ++i) deallocate(allocate(bytes), bytes);
    const telamon::MemoryStats after = telamon::memory_stats();
    EXPECT_EQ(after.allocations - before.allocations, 10) << bytes;
    EXPECT_EQ(after.reused - before.reused, 10) << bytes;
    EXPECT_EQ(after.cached, before.cached);
  }
  telamon::trim_memory();
  const telamon::MemoryStats before = telamon::memory_stats();
  deallocate(allocate(5 << 20), 5 << 20);
  EXPECT_EQ(telamon::memory_stats().reused, before.reused) << "after a trim, memory is fresh";
}

TEST(Allocator, KeepsNoMoreThanItsLimit) {
  const std::size_t limit = telamon::memory_cache_limit();
  EXPECT_GT(limit, 0u);
  telamon::trim_memory();
  const std::size_t small = telamon::memory_stats().cached;  // of blocks that are not large
  telamon::set_memory_cache_limit(std::size_t{20} << 20);
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocate(8 << 20));
  for (void* block : blocks) deallocate(block, 8 << 20);
  EXPECT_EQ(telamon::memory_stats().cached - small, std::size_t{16} << 20);
  telamon::set_memory_cache_limit(0);
  deallocate(allocate(1 << 20), 1 << 20);
  EXPECT_EQ(telamon::memory_stats().cached - small, std::size_t{16} << 20);
  telamon::set_memory_cache_limit(limit);
}
#endif

TEST(Allocator, SaysHowManyBytesItCannotGive) {
  const MemoryStats before = memory_stats();
  for (const std::size_t bytes : {memory_limit() + 1, std::size_t{1} << 62, ~std::size_t{0}}) {
    const std::string text =
        telamon_test::message_of<telamon::OutOfMemoryError>([&] { allocate(bytes); });
    EXPECT_NE(text.find("out of memory: " + std::to_string(bytes) + " bytes are wanted"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(memory_stats().in_use, before.in_use);
}

TEST(Allocator, CountsBytesInUse) {
  const std::size_t before = memory_stats().in_use;
  void* small = allocate(1000);
  void* large = allocate(1 << 20);
  EXPECT_EQ(memory_stats().in_use - before, allocation_size(1000) + allocation_size(1 << 20));
  deallocate(small, 1000);
  deallocate(large, 1 << 20);
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Allocator, RemembersThePeakOfLargeBlocks) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  reset_peak_memory();
  const std::size_t start = memory_stats().peak;
  void* first = allocate(kSize);
  void* second = allocate(kSize);
  deallocate(first, kSize);
  deallocate(second, kSize);
  EXPECT_GE(memory_stats().peak - start, 2 * kSize);
  reset_peak_memory();
  void* third = allocate(kSize);
  deallocate(third, kSize);
  EXPECT_LT(memory_stats().peak - start, 2 * kSize);
}

TEST(Allocator, GivesDisjointBlocks) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  unsigned random = 1;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1664525u + 1013904223u;
    const std::size_t bytes = 1 + (random >> 16) % (i % 50 == 0 ? 60000 : 700);
    auto* block = static_cast<unsigned char*>(allocate(bytes));
    std::memset(block, i % 251, bytes);
    blocks.emplace_back(block, bytes);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    for (std::size_t j = 0; j < bytes; ++j) ASSERT_EQ(block[j], i % 251);
    deallocate(block, bytes);
  }
}

TEST(Allocator, TakesBackBlocksOnOtherThreads) {
  const std::size_t before = memory_stats().in_use;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int round = 0; round < 50; ++round) {
        std::vector<void*> mine;
        for (int i = 0; i < 200; ++i) mine.push_back(allocate(64 * (i % 20 + 1)));
        std::thread other([&] {
          for (int i = 0; i < 200; ++i) deallocate(mine[i], 64 * (i % 20 + 1));
        });
        other.join();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory_stats().in_use, before);
}

// What a thread has given another is not free in between.
TEST(Allocator, CountsNoLessThanIsInUseWhileThreadsWork) {
  std::vector<void*> held;
  for (int i = 0; i < 100; ++i) held.push_back(allocate(700));
  const MemoryStats quiet = memory_stats();
  std::atomic<void*> passed{nullptr};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        void* const other = passed.exchange(allocate(700));
        if (other != nullptr) deallocate(other, 700);
      }
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    const MemoryStats now = memory_stats();
    ASSERT_GE(now.in_use, quiet.in_use);
    ASSERT_LE(now.in_use, quiet.in_use + (std::size_t{64} << 20));
    ASSERT_LE(now.reused, now.allocations);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  deallocate(passed, 700);
  for (void* block : held) deallocate(block, 700);
}

TEST(Allocator, GivesAnArrayOneBlockOrOneBesideItsElements) {
  const auto blocks_of = [](std::int64_t n) {
    const telamon::Array x = telamon::ones({n}) + 1.0f;
    const MemoryStats before = memory_stats();
    const telamon::Array y = x + x;
    return memory_stats().allocations - before.allocations;
  };
  EXPECT_EQ(blocks_of(100), 1);
  EXPECT_EQ(blocks_of(1000), 1);
  EXPECT_EQ(blocks_of(2000), 2);
  EXPECT_EQ(blocks_of(100'000), 2);
}

// Of several classes of blocks, in runs and by turns, of more dimensions than lie within a shape, too large for a block
// of their own, and more than a thread has of any.
TEST(Allocator, MakesTheResultsOfACallInRunsOrOneByOne) {
  const std::vector<telamon::Shape> shapes = {{},    {}, {3}, {900}, {}, {900}, {1, 1, 1, 1, 2},
                                              {5000}};
  std::vector<telamon::Array> x;
  for (std::size_t i = 0; i < 320; ++i) {
    const telamon::Shape& shape = shapes[i < 120 ? i % shapes.size() : i / 40];
    x.push_back(telamon::full(shape, static_cast<float>(i)) + 0.0f);
  }
  const auto f = telamon::jit([](const std::vector<telamon::Array>& a) {
    std::vector<telamon::Array> out;
    for (const telamon::Array& one : a) out.push_back(one + 1.0f);
    return out;
  });
  f(x);
  const std::size_t before = memory_stats().in_use;
  for (int round = 0; round < 3; ++round) {
    const std::vector<telamon::Array> first = f(x), second = f(first);
    for (std::size_t i = 0; i < x.size(); ++i) {  // nobody else has written there
      ASSERT_EQ(second[i].aval(), x[i].aval()) << i;
      const auto value = static_cast<float>(i);
      const std::vector<float> a = first[i].to_vector<float>(), b = second[i].to_vector<float>();
      ASSERT_EQ(a, std::vector<float>(a.size(), value + 1)) << i;
      ASSERT_EQ(b, std::vector<float>(b.size(), value + 2)) << i;
    }
  }
  EXPECT_EQ(memory_stats().in_use, before);
}

#if defined(TELAMON_ASAN)
// Their blocks have the sizes of classes.
TEST(Allocator, ShowsTheSanitizerWhereSmallArraysEnd) {
  for (const std::int64_t n : {1, 3, 7, 100, 200}) {
    const telamon::Array x = telamon::ones({n}) + 1.0f;
    const std::byte* const data = telamon::detail::known_concrete_node(x).buffer().data();
    EXPECT_FALSE(__asan_address_is_poisoned(data + 4 * n - 1)) << n;
    EXPECT_TRUE(__asan_address_is_poisoned(data + 4 * n)) << n;
  }
}
#endif

struct FreesAtThreadExit {
  void* block = nullptr;
  ~FreesAtThreadExit() {
    deallocate(block, 200);
    deallocate(allocate(200), 200);
  }
};
thread_local FreesAtThreadExit frees_at_exit;
FreesAtThreadExit frees_at_program_exit;

TEST(Allocator, ServesDestructorsOfThreadLocalAndStaticObjects) {
  const std::size_t before = memory_stats().in_use;
  // The object is made before the thread first allocates: it is destroyed after the cache is closed.
  std::thread([] {
    frees_at_exit.block = nullptr;
    frees_at_exit.block = allocate(200);
  }).join();
  EXPECT_EQ(memory_stats().in_use, before);
  frees_at_program_exit.block = allocate(200);
}

}  // namespace
