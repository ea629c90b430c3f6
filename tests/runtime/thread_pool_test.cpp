// The thread pool: every chunk once, exceptions, nesting, many callers.
#include "runtime/thread_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/sanitizers.hpp"
#include "runtime/allocator.hpp"
#include "runtime/placement.hpp"
#include "support/errors.hpp"

namespace {

using namespace telamon::runtime;
using telamon::num_threads;
using telamon::set_num_threads;

class ThreadPool : public ::testing::Test {
 protected:
  ~ThreadPool() override { set_num_threads(before_); }
  const int before_ = num_threads();
};

TEST_F(ThreadPool, RunsEveryChunkOnceForAnyNumberOfThreads) {
  for (int threads : {1, 2, 4, 9, 3}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (int chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> count(static_cast<std::size_t>(chunks));
      parallel_for(chunks, [&](std::int64_t i) { ++count[static_cast<std::size_t>(i)]; });
      for (const auto& c : count) ASSERT_EQ(c, 1);
    }
  }
}

// For every number of threads and processors, wherever the caller is.
TEST(Placement, GivesEveryThreadProcessorsOfItsOwn) {
  for (std::size_t n = 1; n <= 20; ++n) {
    for (std::size_t threads = 1; threads <= n; ++threads) {
      const Shares shares{n, threads};
      ASSERT_EQ(shares.first(0), 0u);
      ASSERT_EQ(shares.first(threads), n);
      for (std::size_t p = 0; p < n; ++p) {
        const std::size_t callers = shares.of(p);
        ASSERT_TRUE(shares.first(callers) <= p && p < shares.first(callers + 1)) << n << " " << p;
        std::set<std::size_t> taken{callers};
        for (std::size_t w = 0; w + 1 < threads; ++w) taken.insert(shares.of_worker(w, callers));
        ASSERT_EQ(taken.size(), threads) << "two on one share, of " << n;
        ASSERT_LT(*taken.rbegin(), threads);
      }
    }
  }
}

TEST(Placement, MovesAtMostTwoWorkersWhenTheCallerMoves) {
  constexpr Shares kShares{16, 8};
  for (std::size_t from = 0; from < 16; ++from) {
    for (std::size_t to = 0; to < 16; ++to) {
      int moved = 0;
      for (std::size_t w = 0; w < 7; ++w)
        moved += kShares.of_worker(w, kShares.of(from)) != kShares.of_worker(w, kShares.of(to));
      ASSERT_LE(moved, kShares.of(from) == kShares.of(to) ? 0 : 2) << from << " to " << to;
    }
  }
}

TEST_F(ThreadPool, RefusesNumbersOfThreadsThatCannotBe) {
  for (const int threads : {0, -1, std::numeric_limits<int>::min(), 1025}) {
    const auto set = [&] { set_num_threads(threads); };
    EXPECT_THAT(telamon_test::error_of<telamon::ValueError>(set),
                testing::AllOf(testing::HasSubstr("set_num_threads: the number of threads must be "
                                                  "between 1 and 1024, got " +
                                                  std::to_string(threads)),
                               testing::HasSubstr("at thread_pool_test.cpp:")));
    EXPECT_EQ(num_threads(), before_);
  }
}

// The number may change at any time: while another thread's loop is under way, and from inside one.
TEST_F(ThreadPool, TakesAnotherNumberOfThreadsWhileLoopsRun) {
  std::atomic<bool> done{false};
  std::thread changing([&] {
    for (int i = 0; !done; ++i) set_num_threads(1 + i % 5);
  });
  std::atomic<std::int64_t> count{0};
  for (int i = 0; i < 3000; ++i) parallel_for(7, [&](std::int64_t) { ++count; });
  done = true;
  changing.join();
  EXPECT_EQ(count, 3000 * 7);
  parallel_for(4, [&](std::int64_t) { set_num_threads(2); });
  EXPECT_EQ(num_threads(), 2);
}

#if defined(__linux__)

/// Whether the process comes to have that many threads. One that was joined may be listed for a moment.
bool comes_to_have(std::ptrdiff_t threads) {
  const auto now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (now() != threads && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(now(), threads);
  return now() == threads;
}

/// A thread that does nothing, besides those of the pool.
std::ptrdiff_t threads_without_pool() {
  set_num_threads(1);
  std::thread([] {}).join();  // the thread sanitizer has one of its own from the first on
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

TEST_F(ThreadPool, HasNoMoreThreadsThanAsked) {
  const std::ptrdiff_t others = threads_without_pool() - 1;
  for (const bool asleep : {false, true}) {
    int before = 1;
    for (const int threads : {8, 2, 5, 1, 3, 1}) {
      set_num_threads(threads);
      // They leave at once, and start when they are needed.
      ASSERT_TRUE(comes_to_have(others + std::min(threads, before)));
      before = threads;
      std::atomic<int> count{0};
      parallel_for(100, [&](std::int64_t) { ++count; });
      EXPECT_EQ(count, 100);
      ASSERT_TRUE(comes_to_have(others + threads));
      if (asleep) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

TEST_F(ThreadPool, LetsSurplusThreadsGoWhenTheLoopUnderWayHasEnded) {
  const std::ptrdiff_t others = threads_without_pool() - 1;
  for (const bool from_outside : {false, true}) {
    set_num_threads(6);
    std::thread outside;
    parallel_for(12, [&](std::int64_t chunk) {
      if (chunk != 0) return;
      if (!from_outside) return set_num_threads(2);
      outside = std::thread([] { set_num_threads(2); });
      outside.join();
    });
    ASSERT_TRUE(comes_to_have(others + 2)) << from_outside;
    std::atomic<int> count{0};
    set_num_threads(4);
    parallel_for(100, [&](std::int64_t) { ++count; });
    EXPECT_EQ(count, 100);
    ASSERT_TRUE(comes_to_have(others + 4));
  }
}

#endif

TEST_F(ThreadPool, SurvivesManyShortLoopsAndSleeps) {
  set_num_threads(4);
  std::atomic<std::int64_t> sum{0};
  for (int i = 0; i < 20000; ++i) {
    parallel_for(4, [&](std::int64_t chunk) { sum += chunk; });
    if (i % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(sum, 20000 * 6);
}

TEST_F(ThreadPool, UsesMoreThanOneThread) {
  set_num_threads(2);
  // Each chunk waits for the other: this ends only if two threads take part. Bounded, for a machine
  // that is busy elsewhere.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::atomic<int> arrived{0};
    std::atomic<bool> met{false};
    parallel_for(2, [&](std::int64_t) {
      ++arrived;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (arrived < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (arrived == 2) met = true;
    });
    if (met) return;
  }
  FAIL() << "no loop ran on two threads";
}

#if defined(__linux__)
TEST_F(ThreadPool, GivesEachWorkerAProcessorOfItsOwn) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int n = CPU_COUNT(&allowed);
  if (n < 2) GTEST_SKIP() << "there is one processor";
  set_num_threads(n);
  const auto caller = std::this_thread::get_id();
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::atomic<int> arrived{0};
    std::mutex mutex;
    std::map<std::thread::id, cpu_set_t> own;
    parallel_for(n, [&](std::int64_t) {
      ++arrived;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (arrived < n && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (std::this_thread::get_id() == caller) return;
      cpu_set_t mine;
      ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
      const std::lock_guard lock(mutex);
      own.insert_or_assign(std::this_thread::get_id(), mine);
    });
    if (static_cast<int>(own.size()) < n - 1) continue;  // not all came
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const auto& [_, one] : own) {
      EXPECT_EQ(CPU_COUNT(&one), 1);
      CPU_OR(&all, &all, &one);
    }
    EXPECT_EQ(CPU_COUNT(&all), n - 1);
    return;
  }
  FAIL() << "no loop ran on all threads";
}
#endif

// What a thread left in its caches in one loop it should find there in the next.
TEST_F(ThreadPool, GivesEachThreadNeighbouringChunks) {
  set_num_threads(2);
  const auto caller = std::this_thread::get_id();
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::atomic<int> others_first{-1};
    parallel_for(8, [&](std::int64_t chunk) {
      int none = -1;
      if (std::this_thread::get_id() != caller)
        others_first.compare_exchange_strong(none, static_cast<int>(chunk));
      // The caller goes on when the other has begun, or will not.
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (others_first < 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    // It came while the caller was at its own share.
    if (others_first == 4) return;
    ASSERT_TRUE(others_first == -1 || others_first > 4) << others_first;
  }
  FAIL() << "no loop ran on two threads";
}

// What it would have to fetch from another's caches takes longer than the other needs to do it.
TEST_F(ThreadPool, LeavesTheRestOfAShortLoopToTheThreadThatIsThere) {
  set_num_threads(2);
  const auto caller = std::this_thread::get_id();
  bool waits = false;
  std::atomic<bool> other_came{false}, caller_is_done{false};
  std::vector<std::thread::id> by(4);
  const auto run = [&] {
    parallel_for(4, [&](std::int64_t chunk) {
      const bool other = std::this_thread::get_id() != caller;
      by[static_cast<std::size_t>(chunk)] = std::this_thread::get_id();
      if (!waits) return;
      std::atomic<bool>& awaited = other ? caller_is_done : other_came;
      if (other) other_came = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (!awaited && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      // Time enough for the caller to take the last chunk.
      if (other && chunk == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (!other && chunk == 1) caller_is_done = true;
    });
  };
  for (int attempt = 0; attempt < 100; ++attempt) {
    waits = other_came = caller_is_done = false;
    for (int i = 0; i < 3; ++i) run();  // by which the pool learns that it is short
    waits = true;
    run();
    if (by[2] != caller && by[3] == by[2]) return;
  }
  FAIL() << "the caller has always taken what was left";
}

TEST_F(ThreadPool, RethrowsTheFirstExceptionAndStaysUsable) {
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    EXPECT_THROW(parallel_for(100,
                              [](std::int64_t i) {
                                if (i >= 10) throw std::runtime_error("chunk");
                              }),
                 std::runtime_error);
    std::atomic<int> count{0};
    parallel_for(10, [&](std::int64_t) { ++count; });
    EXPECT_EQ(count, 10);
    EXPECT_FALSE(in_parallel_region());
  }
}

TEST_F(ThreadPool, RunsNestedLoopsSeriallyOnTheSameThread) {
  set_num_threads(3);
  std::atomic<int> count{0}, elsewhere{0};
  parallel_for(8, [&](std::int64_t) {
    EXPECT_TRUE(in_parallel_region());
    const auto me = std::this_thread::get_id();
    parallel_for(5, [&](std::int64_t) {
      ++count;
      if (std::this_thread::get_id() != me) ++elsewhere;
    });
  });
  EXPECT_EQ(count, 40);
  EXPECT_EQ(elsewhere, 0);
}

#if !defined(TELAMON_TSAN)  // which refuses threads in a child after fork()

/// The exit status of a child that runs f; -1 if a signal, or the alarm after 20 seconds, ended it.
template <class F>
int status_of_child(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(f() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool sums_in_parallel() {
  std::atomic<std::int64_t> sum{0};
  for (int i = 0; i < 200; ++i) parallel_for(16, [&](std::int64_t chunk) { sum += chunk; });
  return sum == 200 * 120;
}

TEST_F(ThreadPool, WorksInAChildAfterFork) {
  set_num_threads(3);
  ASSERT_TRUE(sums_in_parallel());  // workers exist, and spin or sleep
  EXPECT_EQ(status_of_child([] { return num_threads() == 3 && sums_in_parallel(); }), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(status_of_child([] {
              // And in a child of the child.
              return sums_in_parallel() && status_of_child(sums_in_parallel) == 0;
            }),
            0);
  EXPECT_TRUE(sums_in_parallel());
}

#if !defined(TELAMON_ASAN)  // whose shadow is address space too
TEST_F(ThreadPool, GoesOnWithTheThreadsThatTheSystemGrants) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(status_of_child([] {
              const rlimit limit{1 << 30, 1 << 30};
              setrlimit(RLIMIT_AS, &limit);
              set_num_threads(1000);
              return sums_in_parallel() && num_threads() < 1000 && sums_in_parallel();
            }),
            0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("threads: the system refused another"));
}
#endif

TEST_F(ThreadPool, WorksInAChildThatWasForkedWhileAnotherThreadComputed) {
  set_num_threads(3);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      parallel_for(16, [](std::int64_t) {});
      deallocate(allocate(100), 100);
      deallocate(allocate(1 << 20), 1 << 20);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const auto compute = [] {
      for (const std::size_t bytes : {100, 1000, 40000, 1 << 20}) {
        void* const block = allocate(bytes);
        deallocate(block, bytes);
      }
      return sums_in_parallel();
    };
    EXPECT_EQ(status_of_child(compute), 0);
  }
  done = true;
  other.join();
}
#endif

TEST_F(ThreadPool, ServesSeveralCallersAtOnce) {
  set_num_threads(3);
  std::atomic<int> count{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) parallel_for(6, [&](std::int64_t) { ++count; });
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(count, 4 * 500 * 6);
}

}  // namespace
