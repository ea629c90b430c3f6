// Long: many programs are compiled and freed, and memory stays as it is.
#include <unistd.h>

#include <fstream>
#include <string>

#include "jaxpr/memos.hpp"
#include "support/backends.hpp"
#include "support/disk_cache.hpp"
#include "telamon/memory.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

/// What the process has of the system: resident pages, and ranges of addresses.
struct Footprint {
  double mebibytes = 0;
  int maps = 0;
};
Footprint footprint() {
  Footprint f;
  std::ifstream statm("/proc/self/statm");
  long total = 0, resident = 0;
  statm >> total >> resident;
  f.mebibytes =
      static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++f.maps;
  return f;
}

/// Compiles a program of its own for each k, runs it once and drops it.
void compile_and_free(int first, int last, const std::string& backend) {
  const Array x({0.5, 1.5, 2.5});
  for (int k = first; k < last; ++k) {
    const double c = k + 0.5;
    const auto f =
        tl::jit([c](const Array& v) { return tl::sum(v * c + v); }, {.backend = backend});
    ASSERT_EQ(value(f(x)), 4.5 * (c + 1)) << k;
  }
}

void expect_flat(int warm, int programs, const std::string& backend) {
  if (footprint().maps == 0) GTEST_SKIP() << "there is no /proc here";
  const tl::Counters before = tl::counters();
  compile_and_free(0, warm, backend);
  const Footprint start = footprint();
  const std::size_t in_use = tl::memory_stats().in_use;
  compile_and_free(warm, programs, backend);
  const Footprint end = footprint();
  EXPECT_EQ(tl::counters().compiles - before.compiles, programs);
  // 0.2 MiB, up and down, as measured: less than 24 bytes that each program might leave behind.
  EXPECT_LT(end.mebibytes - start.mebibytes, 2) << "from " << start.mebibytes << " MiB";
  EXPECT_LT(end.maps - start.maps, 100) << "from " << start.maps;
  EXPECT_LE(tl::memory_stats().in_use, in_use + 4096);
}

TEST(LONG_Soak, CompilesAndFreesOfNativeProgramsHoldMemoryFlat) {
  expect_flat(1000, 100000, "llvm");
}

// Each program is compiled and stored, then loaded in its place; the folder has room for some of them only.
TEST(LONG_Soak, StoresAndLoadsOfProgramsHoldMemoryAndTheDiskCacheFlat) {
  TELAMON_TEST_NEEDS_COMPILER();
  if (footprint().maps == 0) GTEST_SKIP() << "there is no /proc here";
  const tl::testing::CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  const auto store_and_load = [](int first, int last) {
    for (int k = first; k < last; ++k) {
      for (int i = 0; i < 2; ++i) compile_and_free(k, k + 1, "llvm");
      if (k % 10 == 0) {
        const tl::DiskCacheContents now = tl::disk_cache_contents();
        ASSERT_LE(now.bytes, now.bound) << k;
      }
    }
  };
  constexpr int kWarm = 500, kPrograms = 8000;
  const tl::testing::CacheChanges changes;
  store_and_load(0, kWarm);
  const Footprint start = footprint();
  const std::size_t in_use = tl::memory_stats().in_use;
  store_and_load(kWarm, kPrograms);
  const Footprint end = footprint();
  EXPECT_EQ(changes().stores, kPrograms);
  EXPECT_EQ(changes().hits, kPrograms);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_EQ(changes().stores - changes().evictions, tl::disk_cache_contents().files);
  // A page for each program that were kept: 29 MiB, and as many maps.
  EXPECT_LT(end.mebibytes - start.mebibytes, 2) << "from " << start.mebibytes << " MiB";
  EXPECT_LT(end.maps - start.maps, 100) << "from " << start.maps;
  EXPECT_LE(tl::memory_stats().in_use, in_use + 4096);
}

TEST(LONG_Soak, TracesAndFreesOfProgramsHoldMemoryFlat) { expect_flat(2000, 100000, "interpret"); }

/// Maps one jitted function over batches of first..last-1 elements.
void map_over_sizes(const auto& mapped, int first, int last) {
  for (int n = first; n < last; ++n) {
    const Array sums = mapped(tl::ones({n, 3}));
    ASSERT_EQ(sums.shape(), tl::Shape({n}));
    ASSERT_EQ(value(sums(n - 1)), 6);
  }
}
constexpr int kRemembered = static_cast<int>(tl::detail::kMaxMemos);

// One function, one signature, and ever new programs derived from it.
TEST(LONG_Soak, BatchesOfEverySizeHoldMemoryFlat) {
  const auto mapped = tl::vmap(tl::jit([](const Array& v) { return tl::sum(v + v); }));
  map_over_sizes(mapped, 1, 2 * kRemembered);
  const Footprint start = footprint();
  map_over_sizes(mapped, 2 * kRemembered, 10 * kRemembered);
  const Footprint end = footprint();
  // 13 KiB for each program that were kept: 104 MiB.
  EXPECT_LT(end.mebibytes - start.mebibytes, 4) << "from " << start.mebibytes << " MiB";
  EXPECT_LT(end.maps - start.maps, 100) << "from " << start.maps;
}

TEST(Soak, ForgetsProgramsForBatchesOfSizesLongPast) {
  const auto f = tl::jit([](const Array& v) { return tl::sum(v + v); }, {.backend = "interpret"});
  const auto mapped = tl::vmap(f);
  const auto derivative = tl::grad(f);
  const Array x({1.0, 2.0, 3.0});
  tl::reset_counters();
  for (int n = 1; n <= 3 * kRemembered; n += kRemembered / 2) {
    map_over_sizes(mapped, n, n + kRemembered / 2);
    derivative(x);
  }
  const tl::Counters before = tl::counters();
  EXPECT_GT(before.memo_evictions, kRemembered);
  EXPECT_LT(before.memo_evictions, 3 * kRemembered);
  derivative(x);
  EXPECT_EQ(tl::counters().compiles, before.compiles) << "what is in use is found again";
  map_over_sizes(mapped, 1, 2);
  EXPECT_EQ(tl::counters().compiles, before.compiles + 1) << "what was forgotten is made again";
}

// The same in short, for every run of the tests.
TEST(Soak, FreesTheCodeOfProgramsThatNobodyHolds) {
  compile_and_free(0, 60, "");
  const int maps = footprint().maps;
  compile_and_free(60, 360, "");
  EXPECT_LT(footprint().maps - maps, 60) << "300 programs were compiled and dropped";
}

}  // namespace
}  // namespace telamon_test
