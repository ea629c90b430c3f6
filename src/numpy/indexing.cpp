// Reading and updating by index: slices for ranges, gather and scatter for index arrays.
#include "telamon/indexing.hpp"

#include <algorithm>
#include <array>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "numpy/index_plan.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using detail::IndexEntry;
using detail::IndexPlan;

/// The ranges of a plan as an ascending strided slice of every axis, and which axes run backwards.
struct Ranges {
  Shape starts, counts, strides, reversed;
};

Ranges ranges_of(const IndexPlan& plan) {
  const std::size_t n = plan.shape.size();
  Ranges r{.starts = Shape(n, 0), .counts = plan.ranged_shape, .strides = Shape(n, 1)};
  for (const IndexEntry& e : plan.entries) {
    const auto d = static_cast<std::size_t>(e.dim);
    const bool used = e.kind == IndexEntry::Kind::range ||
                      (e.kind == IndexEntry::Kind::integer && plan.is_basic());
    if (!used) continue;
    r.starts[d] = e.step > 0 || e.count == 0 ? e.start : e.start + (e.count - 1) * e.step;
    r.strides[d] = e.step > 0 ? e.step : -e.step;
    if (e.step < 0) r.reversed.push_back(e.dim);
  }
  return r;
}

Array read_ranges(const Array& x, const IndexPlan& plan) {
  if (plan.whole) return x;
  const Ranges r = ranges_of(plan);
  Shape limits = r.starts;
  for (std::size_t d = 0; d < limits.size(); ++d) {
    if (r.counts[d] > 0) limits[d] += (r.counts[d] - 1) * r.strides[d] + 1;
  }
  return lax::rev(lax::slice(x, r.starts, limits, r.strides), r.reversed);
}

/// The values at the ranges' places in the shape of the indexed array, `fill` elsewhere.
Array spread_ranges(const Array& values, const Array& fill, const IndexPlan& plan) {
  const Ranges r = ranges_of(plan);
  std::vector<std::array<std::int64_t, 3>> config;
  for (std::size_t d = 0; d < r.starts.size(); ++d) {
    const std::int64_t end = r.starts[d] + (r.counts[d] - 1) * r.strides[d] + 1;
    config.push_back({r.starts[d], plan.shape[d] - end, r.strides[d] - 1});
  }
  return lax::pad(lax::rev(values, r.reversed), fill, config);
}

Array write_ranges(const Array& x, const Array& values, const IndexPlan& plan) {
  if (plan.whole) return values;
  if (plan.ranged_shape.num_elements() == 0) return x;
  const Ranges r = ranges_of(plan);
  if (std::all_of(r.strides.begin(), r.strides.end(), [](std::int64_t s) { return s == 1; })) {
    Arrays starts;
    for (std::int64_t s : r.starts) starts.push_back(lax::scalar(s, DType::i64));
    return lax::dynamic_update_slice(x, lax::rev(values, r.reversed), starts);
  }
  const Array written = lax::full(plan.ranged_shape, DType::bool_, 1);
  const Array mask = spread_ranges(written, lax::scalar(false, DType::bool_), plan);
  return lax::select(mask, spread_ranges(values, lax::scalar(0, x.dtype()), plan), x);
}

/// The axis without elements that index arrays go to, as far as there is one: no window of one element fits into it.
std::optional<std::int64_t> empty_axis(const IndexPlan& plan) {
  for (const std::int64_t axis : plan.gathered_axes)
    if (plan.ranged_shape[static_cast<std::size_t>(axis)] == 0) return axis;
  return std::nullopt;
}

[[noreturn]] void out_of_bounds(const char* name, std::int64_t axis, DType dtype,
                                const IndexPlan& plan) {
  throw IndexError(std::string(name) + ": every index is out of bounds for axis " +
                   std::to_string(axis) + " of " + Aval{plan.shape, dtype}.to_string() +
                   ", which has no elements");
}

/// Scalar indices only: a dynamic slice, whose starts are clamped too.
Array read_scalars(const Array& y, const IndexPlan& plan) {
  Arrays starts(static_cast<std::size_t>(y.ndim()), lax::scalar(0, plan.indices[0].dtype()));
  Shape sizes = y.shape();
  for (std::size_t k = 0; k < plan.gathered_axes.size(); ++k) {
    const auto axis = static_cast<std::size_t>(plan.gathered_axes[k]);
    starts[axis] = plan.indices[k];
    sizes[axis] = 1;
  }
  return lax::squeeze(lax::dynamic_slice(y, starts, sizes), plan.gathered_axes);
}

/// The elements at the index vectors, before new axes are put in.
Array read_gathered(const Array& y, const IndexPlan& plan) {
  if (const auto axis = empty_axis(plan)) {
    if (plan.batch_shape.num_elements() > 0) out_of_bounds("indexing", *axis, y.dtype(), plan);
    return lax::full(plan.gathered_shape, y.dtype(), 0);
  }
  if (plan.batch_shape.empty()) return read_scalars(y, plan);
  GatherParams params{.slice_sizes = y.shape(), .mode = GatherScatterMode::clip};
  for (std::int64_t axis : plan.gathered_axes)
    params.slice_sizes[static_cast<std::size_t>(axis)] = 1;
  params.dimension_numbers = {.offset_dims = plan.window_axes,
                              .collapsed_slice_dims = plan.gathered_axes,
                              .start_index_map = plan.gathered_axes};
  return lax::gather(y, index_vectors(plan), params);
}

Array read_index(const Array& x, const IndexPlan& plan) {
  const Array y = read_ranges(x, plan);
  if (plan.is_basic()) {  // integers are ranges of one, whose axes are dropped
    Shape dropped;
    for (const IndexEntry& e : plan.entries) {
      if (e.kind == IndexEntry::Kind::integer) dropped.push_back(e.dim);
    }
    return lax::expand_dims(lax::squeeze(y, dropped), plan.new_axes);
  }
  return lax::expand_dims(read_gathered(y, plan), plan.new_axes);
}

// ---- updates -----------------------------------------------------------------------------------
enum class Update : std::uint8_t { set, add, multiply, divide, min, max };

const char* name_of(Update update) {
  constexpr const char* kNames[] = {"x.at(...).set",    "x.at(...).add", "x.at(...).multiply",
                                    "x.at(...).divide", "x.at(...).min", "x.at(...).max"};
  return kNames[static_cast<int>(update)];
}

/// TypeError for an empty handle: x is operand 0, what it is indexed by follows.
void check_operands(const char* name, const Array& x, const std::vector<IndexItem>& items) {
  if (!x.has_value()) detail::empty_operand_error(name, 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind() == IndexItem::Kind::array && !items[i].array().has_value())
      detail::empty_operand_error(name, i + 1);
  }
}
void check_operands(const char* name, const Array& x, const std::vector<IndexItem>& items,
                    const Array& value) {
  check_operands(name, x, items);
  if (!value.has_value()) detail::empty_operand_error(name, items.size() + 1);
}

/// bool < integer < float < complex.
int number_kind(DType d) { return is_complex(d) ? 3 : is_float(d) ? 2 : is_integer(d) ? 1 : 0; }

/// TypeError when x's dtype is of a kind that cannot hold such values: 2.7 among integers.
void check_kind(const char* name, const Array& x, const Array& value) {
  if (number_kind(value.dtype()) <= number_kind(x.dtype())) return;
  throw TypeError(std::string(name) + " got values of type " + value.aval().to_string() +
                  " for an array x of type " + x.aval().to_string() +
                  ", which would lose a part of them: convert the values with astype(" +
                  std::string(short_name(x.dtype())) + "), or x with astype(" +
                  std::string(short_name(value.dtype())) + ")");
}

/// The new elements from the old ones and the values, which have one shape.
Array combine(Update update, const Array& old, const Array& value) {
  switch (update) {
    case Update::set: return value;
    case Update::add: return add(old, value);
    case Update::multiply: return multiply(old, value);
    case Update::divide: return divide(old, value).astype(old.dtype());
    case Update::min: return minimum(old, value);
    case Update::max: return maximum(old, value);
  }
  return value;
}

/// The value in x's dtype and in the shape of the indexed elements, before new axes.
Array prepare(const Array& x, const Array& value, const IndexPlan& plan) {
  const Array v = detail::is_weak_constant(value) ? detail::convert_scalar(value, x.dtype())
                                                  : lax::convert_element_type(value, x.dtype());
  // As in NumPy, leading axes of size 1 may be too many.
  Shape shape = v.shape();
  while (shape.size() > plan.result_shape.size() && shape[0] == 1) shape.erase(0);
  const Array trimmed = lax::reshape(v, shape);
  return lax::squeeze(broadcast_to(trimmed, plan.result_shape), plan.new_axes);
}

Array scatter_into(const Array& y, const Array& values, Update update, const IndexPlan& plan) {
  if (const auto axis = empty_axis(plan)) {  // updates out of bounds are dropped, but not one alone
    if (plan.batch_shape.empty()) out_of_bounds(name_of(update), *axis, y.dtype(), plan);
    return y;
  }
  ScatterParams params;
  params.dimension_numbers = {.update_window_dims = plan.window_axes,
                              .inserted_window_dims = plan.gathered_axes,
                              .scatter_dims_to_operand_dims = plan.gathered_axes};
  if (update == Update::add) return lax::scatter_add(y, index_vectors(plan), values, params);
  const Array result =
      update == Update::set ? values : combine(update, read_gathered(y, plan), values);
  return lax::scatter(y, index_vectors(plan), result, params);
}

/// A bool array as the only index, and a scalar value: a selection, whose mask may be traced.
std::optional<Array> update_by_mask(const Array& x, const std::vector<IndexItem>& items,
                                    const Array& value, Update update) {
  if (items.size() != 1 || items[0].kind() != IndexItem::Kind::array || value.ndim() != 0)
    return std::nullopt;
  const Array& mask = items[0].array();
  if (mask.dtype() != DType::bool_ || mask.ndim() == 0 || mask.ndim() > x.ndim())
    return std::nullopt;
  if (!std::equal(mask.shape().begin(), mask.shape().end(), x.shape().begin())) return std::nullopt;
  const Array everywhere = lax::broadcast_in_dim(mask, x.shape(), detail::iota_axes(mask.ndim()));
  const Array v = detail::is_weak_constant(value) ? detail::convert_scalar(value, x.dtype())
                                                  : lax::convert_element_type(value, x.dtype());
  return lax::select(everywhere, combine(update, x, lax::broadcast(v, x.shape())), x);
}

Array update_index(const Array& x, const std::vector<IndexItem>& items, const Operand& value,
                   Update update) {
  return detail::in_call(name_of(update), value.where, [&] {
    check_operands(name_of(update), x, items, value.array);
    check_kind(name_of(update), x, value.array);
    if (const auto masked = update_by_mask(x, items, value.array, update)) return *masked;
    const IndexPlan plan = detail::plan_index(x, items);
    const Array values = prepare(x, value.array, plan);
    if (!plan.is_basic()) {
      return write_ranges(x, scatter_into(read_ranges(x, plan), values, update, plan), plan);
    }
    const Array ranged = lax::reshape(values, plan.ranged_shape);
    const bool sums = update == Update::add && x.dtype() != DType::bool_;
    if (sums && !plan.whole && ranged.size() > 0) {  // -0 is what leaves every number as it is
      return lax::add(x, spread_ranges(ranged, lax::scalar(-0.0, x.dtype()), plan));
    }
    return write_ranges(
        x, update == Update::set ? ranged : combine(update, read_ranges(x, plan), ranged), plan);
  });
}

std::vector<IndexItem> given_items(std::initializer_list<const IndexItem*> items) {
  std::vector<IndexItem> out;
  for (const IndexItem* item : items) {
    if (item->kind() != IndexItem::Kind::absent) out.push_back(*item);
  }
  return out;
}

}  // namespace

namespace detail {
const IndexItem& no_index() {
  static const IndexItem item;
  return item;
}
}  // namespace detail

Array Array::operator()(const IndexItem& i, const IndexItem& j, const IndexItem& k,
                        const IndexItem& l, const IndexItem& m, const IndexItem& n) const {
  return detail::naming_lack_of_memory("indexing", [&] { return at(i, j, k, l, m, n).get(); });
}

AtIndex Array::at(const IndexItem& i, const IndexItem& j, const IndexItem& k, const IndexItem& l,
                  const IndexItem& m, const IndexItem& n) const {
  return detail::naming_lack_of_memory(
      "indexing", [&] { return AtIndex(*this, given_items({&i, &j, &k, &l, &m, &n})); });
}

Array AtIndex::get() const {
  return detail::in_call("indexing", items_.empty() ? SourceLocation{} : items_[0].where(), [&] {
    check_operands("indexing", x_, items_);
    return read_index(x_, detail::plan_index(x_, items_));
  });
}

Array AtIndex::set(const Operand& value) const {
  return update_index(x_, items_, value, Update::set);
}
Array AtIndex::add(const Operand& value) const {
  return update_index(x_, items_, value, Update::add);
}
Array AtIndex::multiply(const Operand& value) const {
  return update_index(x_, items_, value, Update::multiply);
}
Array AtIndex::divide(const Operand& value) const {
  return update_index(x_, items_, value, Update::divide);
}
Array AtIndex::min(const Operand& value) const {
  return update_index(x_, items_, value, Update::min);
}
Array AtIndex::max(const Operand& value) const {
  return update_index(x_, items_, value, Update::max);
}
Array AtIndex::subtract(const Operand& value) const {
  constexpr const char* kName = "x.at(...).subtract";
  return detail::in_call(kName, value.where, [&] {
    check_operands(kName, x_, items_, value.array);
    check_kind(kName, x_, value.array);
    return add(negative(asarray(value.array, x_.dtype())));
  });
}

}  // namespace v1
}  // namespace telamon
