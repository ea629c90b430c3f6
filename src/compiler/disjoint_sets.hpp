// Sets of numbered things, of which any two may become one (union-find, with path halving).
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace telamon {
inline namespace v1 {
namespace compiler {

class DisjointSets {
 public:
  /// Each of `n` things by itself.
  explicit DisjointSets(std::size_t n = 0) : up_(n) { std::iota(up_.begin(), up_.end(), 0); }

  /// The member that stands for the set of a thing.
  int find(int a) {
    while (up(a) != a) a = up(a) = up(up(a));
    return a;
  }
  void join(int a, int b) { up(find(a)) = find(b); }
  /// One thing more, by itself.
  int add() {
    up_.push_back(static_cast<int>(up_.size()));
    return up_.back();
  }

 private:
  int& up(int a) { return up_[static_cast<std::size_t>(a)]; }
  std::vector<int> up_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
