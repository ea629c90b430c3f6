// What a loop reads of other arrays at the index that it is at, through windows of these.
//   y = dynamic_update_slice(x, sub(slice(x, 1, n), slice(z, 0, n - 1)), 1)   ->   x, but not z
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/fusion/fuse.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// How far from the index that a loop is at its members are computed. `producer`: of each variable, its equation or -1.
class Windows {
 public:
  Windows(const Jaxpr& jaxpr, const std::vector<int>& producer, const Cluster& loop);

  /// Whether equation `e` reads its operand `i`, an array of the loop's shape, only where the loop is.
  bool is_read_in_place(int e, std::size_t i) const;

 private:
  using Offset = std::optional<Shape>;  ///< nothing: it is not known, or there are several
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  Offset of_operand(int e, std::size_t i) const;
  void note(int e, const Offset& offset);

  const Jaxpr& jaxpr_;
  const Shape& shape_;  // of the loop
  std::map<int, Offset> offsets_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
