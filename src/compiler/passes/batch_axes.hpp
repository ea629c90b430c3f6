// The axes along which a program is the same small program for each member of a batch, and what equations do with axes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

constexpr std::int64_t kMostNumbers = 256;  // of an array, for each member

/// Whether an equation but moves elements, to places that the program knows.
bool moves_to_known_places(const Eqn& eqn);
/// The arrays of which it moves elements: the first operands.
std::size_t arrays_moved(const Eqn& eqn);
/// The axis along which sorts and running sums of one array go.
std::optional<std::int64_t> axis_gone_along(const Eqn& eqn);
/// What a running sum, product or extreme does with two numbers; null for what is none of these.
const Primitive<>* running(const PrimitiveBase* cumulative);
/// By variable: whether it is made of literals and positions alone, and small.
std::vector<bool> known_variables(const Jaxpr& jaxpr);

/// An axis of the batch that an array has, and where.
struct BatchAxis {
  int axis;      ///< of the batch
  int position;  ///< in the array
};
/// All of them, in order. What has not all axes of the batch is the same for all members along the others.
using BatchAxes = std::vector<BatchAxis>;

/// The axes of a program's arrays along which no equation tells elements apart: axes of batches.
class Batch {
 public:
  explicit Batch(const Jaxpr& jaxpr);

  const BatchAxes& axes(Var v) const { return axes_[static_cast<std::size_t>(v)]; }
  /// Whether axes come in another order than elsewhere, or twice: the array is none of a batch.
  bool is_mixed(Var v) const { return mixed_[static_cast<std::size_t>(v)]; }
  std::int64_t size(int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }

 private:
  std::vector<BatchAxes> axes_;
  std::vector<bool> mixed_;
  std::vector<std::int64_t> sizes_;
};
/// Whether an array has an axis of the batch there.
inline bool is_at(const BatchAxes& axes, std::int64_t position) {
  return std::any_of(axes.begin(), axes.end(),
                     [&](const BatchAxis& a) { return a.position == position; });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
