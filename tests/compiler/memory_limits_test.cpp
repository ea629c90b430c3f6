// Compilations under limits of memory: whatever the limit, there is a result or an OutOfMemoryError.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <vector>

#include "core/sanitizers.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

constexpr std::size_t kKiB = 1024;

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Not from 0 on: libraries that give up end a process with 0, 1 or a signal.
enum Outcome : int { computed = 40, no_memory, bare_bad_alloc, other_error };

// Straight-line code, and kernels one after the other.
Outcome compile_and_run(int operations) {
  try {
    const auto f = jit(
        [operations](Array x) {
          Array y = x;
          for (int i = 0; i < operations; ++i)
            y = i % 7 == 6 ? y / (sum(y) + 2.0) : sin(y) * x + 1.0;
          return y;
        },
        {.name = "f"});
    return f(ones({64})).size() == 64 ? computed : other_error;
  } catch (const OutOfMemoryError&) { return no_memory; } catch (const std::bad_alloc&) {
    return bare_bad_alloc;
  } catch (...) { return other_error; }
}

/// From now on this process may take so much memory more.
void allow(std::size_t bytes) {
  const std::size_t most = address_space() + bytes;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
}

/// f() of a process of its own, or minus the signal that ends it.
template <class F>
int in_a_process(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a lock that nobody opens
    try {
      _exit(f());
    } catch (...) { _exit(other_error); }
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int outcome_within(std::size_t bytes, int operations) {
  return in_a_process([&] {
    allow(bytes);
    return compile_and_run(operations);
  });
}

// Whether LLVM has worked before makes a difference: it has tables that are filled once.
void sweep(std::size_t step, std::size_t most, std::initializer_list<int> sizes) {
  for (const int operations : sizes) {
    int last = -1;
    for (std::size_t bytes = 0; bytes <= most; bytes += step) {
      last = outcome_within(bytes, operations);
      EXPECT_TRUE(last == computed || last == no_memory)
          << operations << " operations within " << bytes / kKiB << " KiB: " << last;
    }
    EXPECT_EQ(last, computed) << operations << " operations within " << most / kKiB << " KiB";
  }
}

/// How a process ends that computes with what memory it has, and a little, while a profile records.
int profiled_within(std::size_t bytes) {
  return in_a_process([&] {
    std::fclose(stderr);
    const Array x = ones({5});
    {
      const Profile profile("/dev/null");
      allow(bytes);
      try {
        for (int i = 0; i < 5; ++i) sin(x);
        // What malloc has left; volatile, or compilers could do without the calls.
        [[maybe_unused]] void* volatile kept = nullptr;
        for (std::size_t size = 1 << 20; size > 8; size /= 2) {
          do kept = std::malloc(size);
          while (kept != nullptr);
        }
        for (int i = 0; i < 5'000; ++i) sin(x);
      } catch (const OutOfMemoryError&) {}  // NOLINT(bugprone-empty-catch)
    }
    return computed;
  });
}

/// How a process ends that has filled its memory with large arrays, forgotten them, and now needs small ones and
/// a compilation.
int outcome_after_large_arrays() {
  return in_a_process([] {
    std::fclose(stderr);
    allow(200 * kKiB * kKiB);
    try {
      std::vector<Array> large;
      large.reserve(1000);
      while (true) large.push_back(ones({1 << 20}) + 1.0f);
    } catch (const OutOfMemoryError&) {}  // NOLINT(bugprone-empty-catch)
    try {
      std::vector<Array> small;
      small.reserve(100'000);
      for (int i = 0; i < 100'000; ++i) small.push_back(ones({100}) + 1.0f);
    } catch (const OutOfMemoryError&) { return no_memory; }
    return compile_and_run(30);
  });
}

class MemoryLimits : public testing::Test {
 protected:
  void SetUp() override {
#if defined(TELAMON_ASAN) || defined(TELAMON_TSAN)
    GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  }
};

TEST_F(MemoryLimits, EndNoProcessThatCompiles) {
  sweep(512 * kKiB, 24 * kKiB * kKiB, {30});
  ASSERT_EQ(compile_and_run(3), computed);
  sweep(1024 * kKiB, 24 * kKiB * kKiB, {30});
}

TEST_F(MemoryLimits, AreMetWithWhatIsKeptOfLargeArrays) {
  EXPECT_EQ(outcome_after_large_arrays(), computed);
}

TEST_F(MemoryLimits, LONG_EndNoProcessThatCompilesALot) {
  sweep(128 * kKiB, 160 * kKiB * kKiB, {1, 100, 1000});
  ASSERT_EQ(compile_and_run(3), computed);
  sweep(128 * kKiB, 160 * kKiB * kKiB, {1, 100, 1000});
}

TEST_F(MemoryLimits, EndNoProcessThatRecordsAProfile) {
  for (const std::size_t bytes : {0, 64, 128, 256, 512, 1024})
    EXPECT_EQ(profiled_within(bytes * kKiB), computed) << bytes << " KiB";
}

TEST_F(MemoryLimits, LeaveTheFunctionUsable) {
  const auto f = jit([](Array x) { return tanh(x) * 2.0; }, {.name = "f"});
  const int outcome = in_a_process([&] {
    const Array x = ones({5});
    trim_memory();  // what tests before this one have left
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = address_space() + 1024 * kKiB;
    setrlimit(RLIMIT_AS, &limit);
    bool refused = false;
    try {
      f(x);
    } catch (const OutOfMemoryError& e) {
      refused = e.message().find("jit(f): out of memory: compiling ") == 0;
    }
    limit.rlim_cur = before;
    setrlimit(RLIMIT_AS, &limit);
    return refused && f(x).size() == 5 ? computed : other_error;
  });
  EXPECT_EQ(outcome, computed);
}

// By type, operation and line, if all of it is more than there can be.
TEST(LackOfMemory, NamesTheLargestArray) {
  const std::int64_t n = std::int64_t{1} << 24;
  const auto message = [&](auto f) -> std::string {
    try {
      jit(f, {.name = "f"})(ones({n}, DType::f32));
    } catch (const OutOfMemoryError& e) { return e.message(); }
    return "";
  };
  const std::string between = message([&](Array x) { return sort(broadcast_to(x, {n, n}))(0, 0); });
  EXPECT_EQ(between.find("jit(f): out of memory: "), 0u) << between;
  EXPECT_NE(between.find("; the largest array that it makes is f32[16777216,16777216], of "),
            std::string::npos)
      << between;
  EXPECT_NE(between.find(" at memory_limits_test.cpp:"), std::string::npos) << between;
  const std::string result = message([&](Array x) { return outer(x, x); });
  EXPECT_NE(result.find("; the largest array that it makes is f32[16777216,16777216], of mul at"),
            std::string::npos)
      << result;
}

}  // namespace
}  // namespace telamon
