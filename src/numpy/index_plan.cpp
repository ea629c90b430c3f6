// From index items to a plan.
#include "numpy/index_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using Kind = IndexEntry::Kind;

int consumed_axes(const IndexItem& item) {
  switch (item.kind()) {
    case IndexItem::Kind::integer:
    case IndexItem::Kind::slice: return 1;
    case IndexItem::Kind::array:
      return item.array().dtype() == DType::bool_ ? item.array().ndim() : 1;
    default: return 0;
  }
}

/// Python's slice.indices: the range of an axis of size n.
IndexEntry range_entry(const Slice& s, std::int64_t dim, std::int64_t n) {
  // A step beyond the end takes one element, however long it is.
  const std::int64_t longest = std::max<std::int64_t>(n, 1);
  const std::int64_t step = std::clamp(s.step.value_or(1), -longest, longest);
  if (step == 0) throw ValueError("slice step must not be 0");
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
  const auto bound = [&](std::int64_t v) { return std::clamp(v < 0 ? v + n : v, lowest, highest); };
  const std::int64_t start = s.start ? bound(*s.start) : (step > 0 ? lowest : highest);
  const std::int64_t stop = s.stop ? bound(*s.stop) : (step > 0 ? highest : lowest);
  const std::int64_t distance = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return {.kind = Kind::range,
          .dim = dim,
          .start = count == 0 ? 0 : start,
          .count = count,
          .step = step};
}

IndexEntry integer_entry(std::int64_t i, std::int64_t dim, const Array& x) {
  const std::int64_t n = x.shape(static_cast<int>(dim));
  if (i < -n || i >= n) {
    throw IndexError("index " + std::to_string(i) + " is out of bounds for axis " +
                     std::to_string(dim) + " of " + x.aval().to_string());
  }
  return {.kind = Kind::integer, .dim = dim, .start = i < 0 ? i + n : i, .count = 1};
}

IndexEntry array_entry(const Array& index, std::int64_t dim, std::int64_t n) {
  if (!is_integer(index.dtype())) {
    throw TypeError("index arrays must hold integers or bools, got " + index.aval().to_string());
  }
  Array i = strong(index);
  if (size_of(i.dtype()) < 4) i = lax::convert_element_type(i, DType::i32);
  if (is_signed_integer(i.dtype())) {
    const Array shifted = lax::add(i, lax::full_like(i, static_cast<double>(n)));
    i = lax::select(lax::lt(i, lax::zeros_like(i)), shifted, i);
  }
  return {.kind = Kind::array, .dim = dim, .index = i};
}

/// One index array per axis of a bool array: the coordinates of its true elements.
void append_mask(std::vector<IndexEntry>& entries, const Array& mask, std::int64_t dim,
                 const Array& x) {
  const auto value = known_value(mask);
  if (!value) {
    throw ConcretizationError(
        "bool index arrays must be concrete, got " + mask.aval().to_string() +
        ": the shape of the result depends on their values. Use where(mask, x, y), or "
        "x.at(mask).set(scalar)");
  }
  const Shape& shape = mask.shape();
  for (int i = 0; i < mask.ndim(); ++i) {
    if (shape[static_cast<std::size_t>(i)] == x.shape(static_cast<int>(dim) + i)) continue;
    throw IndexError("bool index array " + mask.aval().to_string() + " does not fit " +
                     x.aval().to_string() + " from axis " + std::to_string(dim));
  }
  const std::vector<bool> bits = value->to_vector<bool>();
  std::vector<std::vector<std::int32_t>> coordinates(shape.size());
  for (std::size_t flat = 0; flat < bits.size(); ++flat) {
    if (!bits[flat]) continue;
    auto rest = static_cast<std::int64_t>(flat);
    for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) {
      coordinates[i].push_back(static_cast<std::int32_t>(rest % shape[i]));
    }
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    entries.push_back({.kind = Kind::array,
                       .dim = dim + static_cast<std::int64_t>(i),
                       .index = Array(coordinates[i])});
  }
}

std::vector<IndexEntry> resolve(const Array& x, std::span<const IndexItem> items) {
  int consumed = 0, ellipses = 0;
  for (const IndexItem& item : items) {
    consumed += consumed_axes(item);
    ellipses += item.kind() == IndexItem::Kind::dots;
  }
  if (ellipses > 1) throw IndexError("an index can have only one ellipsis");
  if (consumed > x.ndim()) {
    throw IndexError("too many indices: " + std::to_string(consumed) + " for " +
                     x.aval().to_string());
  }
  std::vector<IndexEntry> entries;
  std::int64_t dim = 0;
  const auto whole_axes = [&](int count) {
    for (; count > 0; --count, ++dim)
      entries.push_back(range_entry({}, dim, x.shape(static_cast<int>(dim))));
  };
  bool apart = false;  // from the item before by an ellipsis, whatever it stands for
  for (const IndexItem& item : items) {
    const std::size_t before = entries.size();
    const std::int64_t n = consumed_axes(item) > 0 ? x.shape(static_cast<int>(dim)) : 0;
    switch (item.kind()) {
      case IndexItem::Kind::absent: break;
      case IndexItem::Kind::dots: whole_axes(x.ndim() - consumed); break;
      case IndexItem::Kind::new_axis: entries.push_back({.kind = Kind::newaxis}); break;
      case IndexItem::Kind::slice: entries.push_back(range_entry(item.range(), dim++, n)); break;
      case IndexItem::Kind::integer:
        entries.push_back(integer_entry(item.integer(), dim++, x));
        break;
      case IndexItem::Kind::array:
        if (item.array().dtype() == DType::bool_) {
          if (item.array().ndim() == 0) throw TypeError("bool scalars are no indices: use where");
          append_mask(entries, item.array(), dim, x);
          dim += item.array().ndim();
        } else {
          entries.push_back(array_entry(item.array(), dim++, n));
        }
    }
    if (entries.size() > before) entries[before].apart = std::exchange(apart, false);
    apart |= item.kind() == IndexItem::Kind::dots;
  }
  if (ellipses == 0) whole_axes(x.ndim() - static_cast<int>(dim));
  return entries;
}

/// With an index array in the list, integers are index arrays as well.
bool is_gathered(const IndexEntry& e) { return e.kind == Kind::array || e.kind == Kind::integer; }

/// All index arrays, broadcast and of one dtype.
Arrays broadcast_indices(const std::vector<IndexEntry>& entries, Shape& batch_shape) {
  Arrays arrays;
  DType dtype = DType::i32;
  for (const IndexEntry& e : entries) {
    if (e.kind == Kind::array) dtype = size_of(e.index.dtype()) == 8 ? DType::i64 : dtype;
  }
  for (const IndexEntry& e : entries) {
    if (!is_gathered(e)) continue;
    arrays.push_back(e.kind == Kind::array ? lax::convert_element_type(e.index, dtype)
                                           : lax::scalar(e.start, dtype));
  }
  batch_shape = broadcast_shapes("indexing", arrays);
  for (Array& a : arrays) a = broadcast_array(a, batch_shape);
  return arrays;
}

/// Whether the index arrays stand side by side: then their axes take their place in the result, else
/// they come first.
bool side_by_side(const std::vector<IndexEntry>& entries) {
  int runs = 0;
  bool inside = false;
  for (const IndexEntry& e : entries) {
    runs += is_gathered(e) && (!inside || e.apart);
    inside = is_gathered(e);
  }
  return runs == 1;
}

}  // namespace

Array index_vectors(const IndexPlan& plan) {
  return lax::stack(plan.indices, plan.batch_shape.ndim());
}

IndexPlan plan_index(const Array& x, std::span<const IndexItem> items) {
  IndexPlan plan{.entries = resolve(x, items), .shape = x.shape()};
  const auto has = [&](Kind kind) {
    return std::any_of(plan.entries.begin(), plan.entries.end(),
                       [&](const IndexEntry& e) { return e.kind == kind; });
  };
  const bool advanced = has(Kind::array);
  plan.ranged_shape = x.shape();
  for (const IndexEntry& e : plan.entries) {
    const bool ranged = e.kind == Kind::range || (e.kind == Kind::integer && !advanced);
    if (!ranged) continue;
    std::int64_t& n = plan.ranged_shape[static_cast<std::size_t>(e.dim)];
    plan.whole = plan.whole && e.count == n && e.step == 1;
    n = e.count;
  }
  if (advanced) plan.indices = broadcast_indices(plan.entries, plan.batch_shape);

  const auto place_batch = [&] {
    for (std::int64_t n : plan.batch_shape) {
      plan.gathered_shape.push_back(n);
      plan.result_shape.push_back(n);
    }
  };
  bool placed = !advanced;
  if (advanced && !side_by_side(plan.entries)) {
    place_batch();
    placed = true;
  }
  for (const IndexEntry& e : plan.entries) {
    if (e.kind == Kind::newaxis) {
      plan.new_axes.push_back(plan.result_shape.ndim());
      plan.result_shape.push_back(1);
    } else if (e.kind == Kind::range) {
      plan.window_axes.push_back(plan.gathered_shape.ndim());
      plan.gathered_shape.push_back(e.count);
      plan.result_shape.push_back(e.count);
    } else if (advanced) {
      plan.gathered_axes.push_back(e.dim);
      if (!placed) place_batch();
      placed = true;
    }
  }
  return plan;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
