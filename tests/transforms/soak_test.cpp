// Long: many programs are compiled and freed, and memory stays as it is.
#include <unistd.h>

#include <fstream>
#include <string>

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

TEST(LONG_Soak, TracesAndFreesOfProgramsHoldMemoryFlat) { expect_flat(2000, 100000, "interpret"); }

// The same in short, for every run of the tests.
TEST(Soak, FreesTheCodeOfProgramsThatNobodyHolds) {
  compile_and_free(0, 60, "");
  const int maps = footprint().maps;
  compile_and_free(60, 360, "");
  EXPECT_LT(footprint().maps - maps, 60) << "300 programs were compiled and dropped";
}

}  // namespace
}  // namespace telamon_test
