// Rules about places of which some components count along a dimension: what is looked up there, or written to, are batches
// and windows.
//
//   x[128 arange(m)[:, None] + arange(n)]  ->  m windows of n elements, which begin at 128 arange(m)
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/progression.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
// x[arange(n)[:, None], i] takes from each row for itself: rows are a batch, and only i is looked up.
std::optional<Atom> gather_along_range(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* stack = s.defined_by(e.inputs[1], concatenate_p);
  if (stack == nullptr) return std::nullopt;
  const Atoms columns = stack->inputs;
  const Params joined = stack->params;
  const Shape of = s.aval(e.inputs[0]).shape, places = s.aval(e.inputs[1]).shape;
  GatherParams p = e.params.as<GatherParams>();
  GatherDimensionNumbers& d = p.dimension_numbers;
  if (joined.as<ConcatenateParams>().dimension + 1 != static_cast<std::int64_t>(places.size()) ||
      columns.size() != d.start_index_map.size())
    return std::nullopt;
  Atoms looked_up;
  Shape map;
  std::vector<std::pair<std::int64_t, std::int64_t>> batch;  // of the operand, and of the places
  for (std::size_t i = 0; i < d.operand_batching_dims.size(); ++i)
    batch.emplace_back(d.operand_batching_dims[i], d.start_indices_batching_dims[i]);
  const std::size_t before = batch.size();
  const auto is_taken = [&](std::int64_t dim) {
    return std::any_of(batch.begin(), batch.end(), [&](const auto& b) { return b.second == dim; });
  };
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::int64_t axis = d.start_index_map[k];
    const auto dim = counted_dimension(s, columns[k]);
    if (dim && *dim + 1 < places.size() && places[*dim] == of[static_cast<std::size_t>(axis)] &&
        d.collapsed_slice_dims.contains(axis) && !is_taken(static_cast<std::int64_t>(*dim))) {
      batch.emplace_back(axis, static_cast<std::int64_t>(*dim));
    } else {
      looked_up.push_back(columns[k]);
      map.push_back(axis);
    }
  }
  if (batch.size() == before || looked_up.empty()) return std::nullopt;
  std::sort(batch.begin(), batch.end());
  d.operand_batching_dims = d.start_indices_batching_dims = {};
  for (const auto& [axis, dim] : batch) {
    d.operand_batching_dims.push_back(axis);
    d.start_indices_batching_dims.push_back(dim);
  }
  Shape collapsed;
  for (const std::int64_t axis : d.collapsed_slice_dims)
    if (!d.operand_batching_dims.contains(axis)) collapsed.push_back(axis);
  d.collapsed_slice_dims = collapsed;
  d.start_index_map = map;
  p.indices_are_sorted = false;  // the columns in front were what sorted them
  Shape shape = places;
  shape[shape.size() - 1] = static_cast<std::int64_t>(looked_up.size());
  const Aval aval = s.aval(e.inputs[1]).with_shape(shape);
  const Atom at = looked_up.size() == 1 ? looked_up[0]
                                        : s.make(concatenate_p, joined, std::move(looked_up), aval);
  return s.make(gather_p, Params::of(std::move(p)), {e.inputs[0], at}, out);
}

namespace {

Shape without(const Shape& numbers, std::int64_t one) {
  Shape others;
  std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(others),
               [&](std::int64_t n) { return n != one; });
  return others;
}

/// The integers of a progression without one of its dimensions, where that begins: each is an index.
Atom without_dimension(Simplifier& s, const Progression& p, std::size_t dimension,
                       const Shape& all) {
  Shape shape;
  for (std::size_t d = 0; d < p.steps.size(); ++d)
    if (d != dimension) shape.push_back(d + 1 == p.steps.size() ? 1 : all[d]);
  const Aval aval{shape, DType::i32, false};
  Atom sum = s.filled(p.first, aval);
  for (std::size_t d = 0; d < p.steps.size(); ++d) {
    if (d == dimension || p.steps[d] == 0) continue;
    const auto k = static_cast<std::int64_t>(d < dimension ? d : d - 1);
    const Atom iota = s.make(iota_p, IotaParams{aval.dtype, shape, k}, {}, aval);
    const Atom scaled = s.make(mul_p, NoParams{}, {iota, s.filled(p.steps[d], aval)}, aval);
    sum = s.make(add_p, NoParams{}, {sum, scaled}, aval);
  }
  return sum;
}

/// A component of index vectors that counts, up or down, along the last dimension, in which no other changes: what it
/// looks up lies side by side.
struct Counting {
  std::size_t component, dimension;
  bool down;
};
std::optional<Counting> counting_along_last(const std::vector<Progression>& columns,
                                            const Shape& places) {
  constexpr std::int64_t kLeast = 8;
  std::size_t d = places.size() - 1;
  while (d-- > 0 && places[d] == 1) {}
  if (d >= places.size() || places[d] < kLeast) return std::nullopt;
  std::optional<std::size_t> only;
  std::size_t changing = 0;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    changing += columns[k].steps[d] != 0;
    if (std::abs(columns[k].steps[d]) == 1) only = k;
  }
  if (changing != 1 || !only) return std::nullopt;
  return Counting{*only, d, columns[*only].steps[d] < 0};
}

/// Windows that are looked up where single elements were.
struct Windows {
  GatherParams params;
  Atom starts;
  Shape backward;  ///< dimensions of what is looked up along which the places count down
};
std::optional<Windows> windows_at(Simplifier& s, const Shape& of, const Atom& places,
                                  GatherParams p, const Shape& out) {
  GatherDimensionNumbers& d = p.dimension_numbers;
  const Aval aval = s.aval(places);
  const std::vector<Progression> columns = progressions(s, places, d.start_index_map);
  const auto found = columns.empty() || !d.operand_batching_dims.empty()
                         ? std::nullopt
                         : counting_along_last(columns, aval.shape);
  const auto is_far = [](std::int64_t step) { return std::abs(step) > INT32_MAX; };
  const auto leaps = [&](const Progression& p) {
    return std::any_of(p.steps.begin(), p.steps.end(), is_far);
  };
  if (!found || std::any_of(columns.begin(), columns.end(), leaps)) return std::nullopt;
  const Progression& counting = columns[found->component];
  const std::int64_t axis = d.start_index_map[found->component];
  if (!d.collapsed_slice_dims.contains(axis) || counting.least < 0 ||
      counting.most >= of[static_cast<std::size_t>(axis)])
    return std::nullopt;
  // The windows' dimensions are in the result in the order of the operand's.
  const auto in_result = static_cast<std::int64_t>(dimensions_of_places(d, out)[found->dimension]);
  const auto below = [](std::int64_t bound) { return [=](std::int64_t x) { return x < bound; }; };
  const Shape collapsed = without(d.collapsed_slice_dims, axis);
  Shape offset = d.offset_dims;
  offset.push_back(in_result);
  std::sort(offset.begin(), offset.end());
  const std::ptrdiff_t windows_before =
      axis - std::count_if(collapsed.begin(), collapsed.end(), below(axis));
  if (std::count_if(offset.begin(), offset.end(), below(in_result)) != windows_before)
    return std::nullopt;
  d.offset_dims = offset;
  d.collapsed_slice_dims = collapsed;
  const std::int64_t length = aval.shape[found->dimension];
  p.slice_sizes[static_cast<std::size_t>(axis)] = length;
  Atoms starts;
  for (Progression start : columns) {
    if (found->down) start.first += start.steps[found->dimension] * (length - 1);
    starts.push_back(without_dimension(s, start, found->dimension, aval.shape));
  }
  Shape shape = s.aval(starts[0]).shape;
  const std::size_t last = shape.size() - 1;
  shape[last] = static_cast<std::int64_t>(starts.size());
  const ConcatenateParams side_by_side{static_cast<std::int64_t>(last)};
  const Atom at = starts.size() == 1 ? starts[0]
                                     : s.make(concatenate_p, side_by_side, std::move(starts),
                                              {shape, DType::i32, false});
  return Windows{std::move(p), at, found->down ? Shape{in_result} : Shape{}};
}

}  // namespace

// x[128 arange(m)[:, None] + arange(n)] are windows, of which each is n elements side by side.
std::optional<Atom> gather_of_windows(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape of = s.aval(e.inputs[0]).shape;
  const auto w = windows_at(s, of, e.inputs[1], e.params.as<GatherParams>(), out.shape);
  if (!w) return std::nullopt;
  GatherParams p = w->params;
  p.unique_indices = false;
  const Atom windows = s.make(gather_p, Params::of(std::move(p)), {e.inputs[0], w->starts}, out);
  if (w->backward.empty()) return windows;
  return s.make(rev_p, DimensionsParams{w->backward}, {windows}, out);
}

// And so is what is written there, in the same order.
std::optional<Atom> scatter_to_windows(Simplifier& s, const Eqn& e, const Aval& out) {
  ScatterParams p = e.params.as<ScatterParams>();
  const Aval updates = s.aval(e.inputs[2]);
  const GatherParams read = windows_of(p, out.shape, updates.shape);
  const auto w = windows_at(s, out.shape, e.inputs[1], read, updates.shape);
  if (!w) return std::nullopt;
  // Of one run of elements each: others are written row by row anyway, but for a single one.
  const Shape& window = w->params.slice_sizes;
  std::size_t first = 0;
  while (first < window.size() && window[first] == 1) ++first;
  if (s.aval(w->starts).size() == s.aval(w->starts).shape.back()) first = window.size();
  for (std::size_t a = first + 1; a < window.size(); ++a)
    if (window[a] != out.shape[a]) return std::nullopt;
  p.dimension_numbers.update_window_dims = w->params.dimension_numbers.offset_dims;
  p.dimension_numbers.inserted_window_dims = w->params.dimension_numbers.collapsed_slice_dims;
  Atom y = e.inputs[2];
  if (!w->backward.empty()) {
    p.indices_are_sorted = false;
    y = s.make(rev_p, DimensionsParams{w->backward}, {y}, updates);
  }
  return s.make(*e.primitive, Params::of(std::move(p)), {e.inputs[0], w->starts, y}, out);
}

namespace {

/// Whether the elements of an array are computed one by one of those of others at the same place in memory, numbers of at
/// most so many bytes.
bool is_flat(Simplifier& s, const Atom& a, std::size_t bytes, int depth = 0) {
  constexpr int kDeepest = 12;
  const Eqn* e = s.definition(a);
  if (s.splat(a) != nullptr) return true;
  if (size_of(s.aval(a).dtype) > bytes) return false;
  if (e == nullptr) return true;
  const bool same = e->primitive == &reshape_p || (e->primitive == &broadcast_in_dim_p &&
                                                   s.aval(e->inputs[0]).size() == s.aval(a).size());
  if (depth > kDeepest || !(same || is_elementwise(*e))) return false;
  const Atoms inputs = e->inputs;
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Atom& x) { return is_flat(s, x, bytes, depth + 1); });
}

}  // namespace

std::vector<bool> rows_folded(const Jaxpr& jaxpr) {
  std::vector<bool> folded(static_cast<std::size_t>(jaxpr.num_vars()), false);
  const auto is_folded = [&](Var v) { return folded[static_cast<std::size_t>(v)]; };
  const std::vector<Eqn>& eqns = jaxpr.eqns();
  for (auto e = eqns.rbegin(); e != eqns.rend(); ++e) {
    const bool folds = form_of(jaxpr, *e) == Form::reduction;
    const bool passes_on = is_elementwise(*e) && is_folded(e->outputs[0]);
    for (const Atom& a : e->inputs) {
      if (a.is_literal()) continue;
      const std::int64_t last = jaxpr.aval(a).ndim() - 1;
      if (passes_on || (folds && reduction_axes(*e).contains(last)))
        folded[static_cast<std::size_t>(a.var())] = true;
    }
  }
  return folded;
}

// Single elements, each at a place of its own, in short rows: as one row, unless the rows are folded.
std::optional<Atom> gather_in_one_row(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::int64_t kShort = 32, kLeast = 64;
  // Where others want the places, too, they are computed once for both, or it is little to do so again.
  const std::size_t bytes = s.used_once(e.inputs[1]) ? 8 : 4;
  const auto& p = e.params.as<GatherParams>();
  const GatherDimensionNumbers& d = p.dimension_numbers;
  if (!d.offset_dims.empty() || d.start_index_map.size() != 1 || !d.operand_batching_dims.empty() ||
      out.shape.size() < 2 || out.size() < kLeast || out.shape.back() == 1 ||
      out.shape.back() >= kShort || s.result_folded() || !is_flat(s, e.inputs[1], bytes))
    return std::nullopt;
  const Shape row = {out.size()}, places = {out.size(), 1};
  const Aval aval = s.aval(e.inputs[1]).with_shape(places);
  const Atom at = s.make(reshape_p, ReshapeParams{places}, {e.inputs[1]}, aval);
  const Atom found = s.make(gather_p, p, {e.inputs[0], at}, out.with_shape(row).strong());
  return s.make(reshape_p, ReshapeParams{out.shape}, {found}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
