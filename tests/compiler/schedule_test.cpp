// Orders of kernels by the memory that they need, against the best of all orders.
#include "compiler/fusion/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace telamon_test {
namespace {

using namespace telamon::compiler;

/// Kernels in the order of the program, each of which leaves `bytes` that others read.
class Program {
 public:
  int kernel(std::int64_t bytes, const std::vector<int>& reads = {}, bool in_place = false) {
    const int k = static_cast<int>(graph.next.size());
    graph.next.emplace_back();
    graph.position.push_back(k);
    graph.writes.push_back({k});
    graph.reads.push_back(reads);
    graph.in_place.push_back(in_place);
    graph.bytes.push_back(bytes);
    for (const int r : reads) graph.next[static_cast<std::size_t>(r)].push_back(k);
    return k;
  }
  /// Kernels in a row that leave so much, n times side by side; the result reads the last of each.
  static Program branches(int n, const std::vector<std::int64_t>& sizes) {
    Program p;
    std::vector<int> ends(static_cast<std::size_t>(n), -1);
    for (const std::int64_t bytes : sizes) {
      for (int& end : ends)
        end = p.kernel(bytes, end < 0 ? std::vector<int>{} : std::vector<int>{end});
    }
    p.kernel(0, ends);
    return p;
  }
  MemoryGraph graph;
};

void expect_an_order(const MemoryGraph& graph, const std::vector<int>& order) {
  ASSERT_EQ(order.size(), graph.next.size());
  std::vector<std::size_t> when(order.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) when[static_cast<std::size_t>(order[i])] = i;
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const int next : graph.next[k]) EXPECT_LT(when[k], when[static_cast<std::size_t>(next)]);
  }
}

std::int64_t least_of_all(const MemoryGraph& graph, std::vector<int>& order,
                          std::vector<int>& waiting) {
  if (order.size() == graph.next.size()) return peak(graph, order);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t k = 0; k < waiting.size(); ++k) {
    if (waiting[k] != 0) continue;
    waiting[k] = -1;
    order.push_back(static_cast<int>(k));
    for (const int next : graph.next[k]) --waiting[static_cast<std::size_t>(next)];
    least = std::min(least, least_of_all(graph, order, waiting));
    for (const int next : graph.next[k]) ++waiting[static_cast<std::size_t>(next)];
    order.pop_back();
    waiting[k] = 0;
  }
  return least;
}
std::int64_t least_of_all(const MemoryGraph& graph) {
  std::vector<int> order, waiting(graph.next.size(), 0);
  for (const auto& next : graph.next) {
    for (const int k : next) ++waiting[static_cast<std::size_t>(k)];
  }
  return least_of_all(graph, order, waiting);
}

Program random_program(std::mt19937& random, int kernels) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Program p;
  for (int k = 0; k < kernels; ++k) {
    std::vector<int> reads;
    for (int r = std::max(0, k - 5); r < k; ++r) {
      if (below(3) == 0) reads.push_back(r);
    }
    p.kernel(1 + below(8) * below(8), reads, below(2) == 0);
  }
  return p;
}

TEST(Schedule, CountsWhatIsAliveWhileAKernelRuns) {
  Program p;
  const int a = p.kernel(8), b = p.kernel(8, {a});
  p.kernel(1, {a, b});
  EXPECT_EQ(peak(p.graph, {0, 1, 2}), 17);
}

TEST(Schedule, KnowsThatAKernelMayWriteOverWhatItReadsLast) {
  const auto peak_of = [](bool in_place, std::int64_t bytes) {
    Program p;
    p.kernel(0, {p.kernel(bytes, {p.kernel(8)}, in_place)});
    return peak(p.graph, as_written(p.graph));
  };
  EXPECT_EQ(peak_of(false, 8), 16);
  EXPECT_EQ(peak_of(true, 8), 8);
  EXPECT_EQ(peak_of(true, 6), 14);  // of another size: it gets a place of its own
}

TEST(Schedule, GoesOnWithWhatFreesMemory) {
  const MemoryGraph graph = Program::branches(6, {10, 1}).graph;
  EXPECT_EQ(peak(graph, as_written(graph)), 61);
  EXPECT_EQ(peak(graph, least_growth(graph)), 16);
  EXPECT_EQ(peak(graph, least_memory(graph)), 16);
}

TEST(Schedule, SeesWhoHasBecomeTheLastToRead) {
  Program p;
  const int a = p.kernel(10), b = p.kernel(1, {a});
  const int c = p.kernel(1, {b}), d = p.kernel(2, {a});
  const int last = p.kernel(0, {b, c, d});
  EXPECT_EQ(least_growth(p.graph), (std::vector<int>{a, b, d, c, last}));
}

TEST(Schedule, FinishesABranchThatGrowsFirst) {
  // What adds least is always the first kernel of another branch.
  const MemoryGraph graph = Program::branches(6, {2, 10, 1}).graph;
  EXPECT_EQ(peak(graph, least_growth(graph)), 22);
  EXPECT_EQ(peak(graph, depth_first(graph)), 17);
  EXPECT_EQ(peak(graph, least_memory(graph)), 17);
}

TEST(Schedule, BeginsWithTheOperandThatNeedsMost) {
  Program p;
  const int small = p.kernel(5), large = p.kernel(5, {p.kernel(50, {p.kernel(50)})});
  p.kernel(0, {small, large});
  EXPECT_EQ(peak(p.graph, depth_first(p.graph)), 100);
  EXPECT_EQ(peak(p.graph, least_memory(p.graph)), 100);
}

TEST(Schedule, KeepsTheOrderOfTheProgramWhereNoneNeedsLess) {
  const MemoryGraph graph = Program::branches(3, {4, 4}).graph;
  EXPECT_EQ(least_memory(graph), as_written(graph));
  EXPECT_NE(depth_first(graph), as_written(graph));
}

TEST(Schedule, IsNearTheBestOfAllOrders) {
  std::mt19937 random(3);
  double ratios = 0, of_program = 0;
  constexpr int kRounds = 200;
  for (int i = 0; i < kRounds; ++i) {
    const MemoryGraph graph = random_program(random, 7).graph;
    const auto best = static_cast<double>(least_of_all(graph));
    const std::vector<int> order = least_memory(graph);
    expect_an_order(graph, order);
    expect_an_order(graph, depth_first(graph));
    expect_an_order(graph, least_growth(graph));
    const auto written = static_cast<double>(peak(graph, as_written(graph)));
    const auto got = static_cast<double>(peak(graph, order));
    EXPECT_LE(got, written);
    EXPECT_LE(got, 1.5 * best);
    ratios += got / best, of_program += written / best;
  }
  EXPECT_LE(ratios / kRounds, 1.02);
  EXPECT_GE(of_program / kRounds, 1.05) << "there is nothing to gain";
}

// Minutes, were it quadratic.
TEST(Schedule, TakesTimeInProportionToTheProgram) {
  const MemoryGraph graph = Program::branches(100'000, {2, 10, 1}).graph;
  EXPECT_EQ(peak(graph, least_memory(graph)), 100'000 + 11);
}

}  // namespace
}  // namespace telamon_test
