// What a list of index items means for one array: which ranges are cut out first, what is gathered
// then, and where the axes of the result are.
#pragma once

#include <span>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/indexing.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// One item after negative numbers, defaults, ellipses and bool arrays are resolved.
struct IndexEntry {
  enum class Kind : std::uint8_t { range, integer, array, newaxis };
  Kind kind = Kind::range;
  std::int64_t dim = 0;                         ///< of the indexed array (not for newaxis)
  std::int64_t start = 0, count = 0, step = 1;  ///< range; an integer is a range of one
  Array index = {};                             ///< integer array, from the front; strong
  bool apart = false;                           ///< from the entry before, by an ellipsis
};

/// Indexing in two steps: ranges, which keep all axes; then index vectors over some of the axes.
struct IndexPlan {
  std::vector<IndexEntry> entries;  ///< in the order of the items; all axes of the array occur
  Shape shape;                      ///< of the indexed array

  Shape ranged_shape;    ///< after the ranges
  bool whole = true;     ///< the ranges leave the array as it is
  Shape gathered_axes;   ///< axes that index vectors select from (none: basic indexing)
  Arrays indices;        ///< for each gathered axis, of one shape and dtype
  Shape batch_shape;     ///< their shape
  Shape window_axes;     ///< axes of the gathered result that come from the array, in order
  Shape gathered_shape;  ///< of the result, before new axes
  Shape new_axes;        ///< their positions in the result
  Shape result_shape;
  bool is_basic() const { return gathered_axes.empty(); }
};

IndexPlan plan_index(const Array& x, std::span<const IndexItem> items);
/// The index arrays stacked along a last axis, as gather and scatter take them.
Array index_vectors(const IndexPlan& plan);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
