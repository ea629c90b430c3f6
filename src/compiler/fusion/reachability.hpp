// Which node of a growing graph without cycles reaches which: the transitive closure, kept up to date
// edge by edge, so that a question costs nothing. Fusion asks it for every pair that it might merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace telamon {
inline namespace v1 {
namespace compiler {

class Reachability {
 public:
  void add_node() { rows_.emplace_back(); }

  /// Whether there is a path; every node reaches itself.
  bool reaches(int from, int to) const { return from == to || has(row(from), to); }

  void add_edge(int from, int to) {
    if (!reaches(from, to)) extend(from, to);
  }

  /// `other` becomes a part of `node`: what either reached or was reached from counts for `node`.
  void merge(int node, int other) {
    const Row before = row(node);
    add_all(mutable_row(node), row(other));
    if (has(row(node), node)) mutable_row(node)[word(node)] &= ~bit(node);  // of course it does
    // Most often nothing is new to who reaches one of them: `other` led to `node` alone.
    const bool grew = row(node) != before;
    for (Row& r : rows_) {
      const bool one = has(r, node), two = has(r, other);
      if (one ? grew && !two : two) reach(r, node);
    }
  }

 private:
  using Row = std::vector<std::uint64_t>;  // one bit per node
  static std::size_t word(int node) { return static_cast<std::size_t>(node) / 64; }
  static std::uint64_t bit(int node) { return std::uint64_t{1} << (node % 64); }
  static bool has(const Row& r, int node) {
    return word(node) < r.size() && (r[word(node)] & bit(node)) != 0;
  }
  static void add_all(Row& to, const Row& from) {
    if (to.size() < from.size()) to.resize(from.size(), 0);
    for (std::size_t i = 0; i < from.size(); ++i) to[i] |= from[i];
  }
  const Row& row(int node) const { return rows_[static_cast<std::size_t>(node)]; }
  Row& mutable_row(int node) { return rows_[static_cast<std::size_t>(node)]; }

  // r now reaches `node` and all that lies behind it.
  void reach(Row& r, int node) {
    add_all(r, row(node));
    if (r.size() <= word(node)) r.resize(word(node) + 1, 0);
    r[word(node)] |= bit(node);
  }
  void extend(int from, int to) {
    reach(mutable_row(from), to);
    for (Row& r : rows_) {
      if (has(r, from)) reach(r, to);
    }
  }

  std::vector<Row> rows_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
