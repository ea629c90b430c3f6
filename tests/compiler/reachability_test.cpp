// The transitive closure that fusion asks, against searches through the graph.
#include "compiler/fusion/reachability.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <set>
#include <vector>

namespace telamon_test {
namespace {

using telamon::compiler::Reachability;

class Graph {
 public:
  explicit Graph(int n) : next_(static_cast<std::size_t>(n)) {}
  bool reaches(int from, int to) const {
    if (from == to) return true;
    for (const int n : next_[static_cast<std::size_t>(from)]) {
      if (reaches(n, to)) return true;
    }
    return false;
  }
  void add_edge(int from, int to) { next_[static_cast<std::size_t>(from)].insert(to); }
  void merge(int node, int other) {
    auto& to = next_[static_cast<std::size_t>(other)];
    next_[static_cast<std::size_t>(node)].insert(to.begin(), to.end());
    to.clear();
    for (auto& edges : next_) {
      if (edges.erase(other) != 0) edges.insert(node);
    }
  }

 private:
  std::vector<std::set<int>> next_;
};

TEST(Reachability, AgreesWithASearchThroughRandomGraphs) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 20; ++round) {
    constexpr int kNodes = 70;  // more than a word of bits
    Graph graph(kNodes);
    Reachability closure;
    std::vector<int> alive;
    for (int i = 0; i < kNodes; ++i) {
      closure.add_node();
      alive.push_back(i);
    }
    int merged = 0;
    for (int step = 0; step < 150; ++step) {
      const int a = alive[static_cast<std::size_t>(below(static_cast<int>(alive.size())))];
      const int b = alive[static_cast<std::size_t>(below(static_cast<int>(alive.size())))];
      if (a == b || graph.reaches(b, a)) continue;
      if (below(8) == 0 && !graph.reaches(a, b)) {
        graph.merge(a, b);
        closure.merge(a, b);
        std::erase(alive, b);
        ++merged;
      } else {
        graph.add_edge(a, b);
        closure.add_edge(a, b);
      }
    }
    EXPECT_GT(merged, 0);
    for (const int from : alive) {
      for (const int to : alive)
        ASSERT_EQ(closure.reaches(from, to), graph.reaches(from, to)) << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace telamon_test
