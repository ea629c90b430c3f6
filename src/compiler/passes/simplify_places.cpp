// Rules about places that are looked up and follow from where they stand: slices, batches and windows.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Integers that go up by so much along each dimension: first + steps[0] i[0] + steps[1] i[1] + ...
struct Progression {
  std::int64_t first = 0;
  std::vector<std::int64_t> steps;  ///< 0 along dimensions of one element
  std::int64_t least = 0, most = 0;

  /// Without what steps make of it: one number.
  bool is_number() const { return least == most; }
};

/// Whether integers of this type, and an index, hold them: what they do not hold wraps around.
bool holds(DType dtype, const Progression& p) {
  constexpr std::int64_t kMostIndex = (std::int64_t{1} << 31) - 1;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const std::int64_t most = bits >= 31 ? kMostIndex : (std::int64_t{1} << bits) - 1;
  return p.least >= (is_signed_integer(dtype) ? -most - 1 : 0) && p.most <= most;
}
/// The progression in an array of this shape; nothing where numbers are too large for an index.
std::optional<Progression> over(const Shape& shape, std::int64_t first,
                                std::vector<std::int64_t> steps) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  Progression p{first, std::move(steps), first, first};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) p.steps[d] = 0;
    const std::int64_t step = p.steps[d], trips = shape[d] - 1;
    if (step != 0 && (trips > kMost / std::abs(step))) return std::nullopt;
    (step < 0 ? p.least : p.most) += step * trips;
    if (p.least < -kMost || p.most > kMost) return std::nullopt;
  }
  return p;
}

std::optional<Progression> progression(Simplifier& s, const Atom& a, int depth = 0);

using ProgressionRule = std::optional<Progression>(Simplifier&, const Eqn&, const Shape& out,
                                                   int depth);

std::optional<Progression> counts(Simplifier&, const Eqn& e, const Shape& out, int) {
  std::vector<std::int64_t> steps(out.size(), 0);
  steps[static_cast<std::size_t>(e.params.as<IotaParams>().dimension)] = 1;
  return over(out, 0, std::move(steps));
}
std::optional<Progression> converted(Simplifier& s, const Eqn& e, const Shape&, int depth) {
  return progression(s, e.inputs[0], depth);
}
// Dimensions of one element come and go.
std::optional<Progression> reshaped(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const Shape in = s.aval(e.inputs[0]).shape;
  const auto p = progression(s, e.inputs[0], depth);
  if (!p) return std::nullopt;
  std::vector<std::int64_t> steps(out.size(), 0);
  std::size_t from = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 1) continue;
    while (from < in.size() && in[from] == 1) ++from;
    if (from == in.size() || in[from] != out[d]) return std::nullopt;
    steps[d] = p->steps[from++];
  }
  return over(out, p->first, std::move(steps));
}
std::optional<Progression> spread(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const auto p = progression(s, e.inputs[0], depth);
  if (!p) return std::nullopt;
  const Shape& dims = e.params.as<BroadcastInDimParams>().broadcast_dimensions;
  std::vector<std::int64_t> steps(out.size(), 0);
  for (std::size_t k = 0; k < dims.size(); ++k)
    steps[static_cast<std::size_t>(dims[k])] = p->steps[k];
  return over(out, p->first, std::move(steps));
}
std::optional<Progression> summed(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const auto x = progression(s, e.inputs[0], depth);
  const auto y = x ? progression(s, e.inputs[1], depth) : std::nullopt;
  if (!y) return std::nullopt;
  const std::int64_t sign = e.primitive == &sub_p ? -1 : 1;
  std::vector<std::int64_t> steps = x->steps;
  for (std::size_t d = 0; d < out.size(); ++d) steps[d] += sign * y->steps[d];
  return over(out, x->first + sign * y->first, std::move(steps));
}
std::optional<Progression> multiplied(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  for (const std::size_t i : {0, 1}) {
    const auto by = progression(s, e.inputs[1 - i], depth);
    const auto x = by && by->is_number() ? progression(s, e.inputs[i], depth) : std::nullopt;
    if (!x) continue;
    std::vector<std::int64_t> steps = x->steps;
    for (std::int64_t& step : steps) step *= by->first;
    return over(out, x->first * by->first, std::move(steps));
  }
  return std::nullopt;
}
// select(i < 0, i, i + size) of what is not below 0
std::optional<Progression> wrapped(Simplifier& s, const Eqn& e, const Shape&, int depth) {
  const Eqn* below = s.defined_by(e.inputs[0], lt_p);
  const Atom kept = e.inputs[1];
  if (below == nullptr || !(below->inputs[0] == kept) || !s.is(below->inputs[1], 0))
    return std::nullopt;
  auto p = progression(s, kept, depth);
  return p && p->least >= 0 ? p : std::nullopt;
}

/// What the elements of an integer array are, if they count: an iota, moved, scaled, repeated, added to another, wrapped
/// from below 0, none of which leaves its type.
std::optional<Progression> progression(Simplifier& s, const Atom& a, int depth) {
  constexpr int kDeepest = 10;
  static constexpr std::pair<const PrimitiveBase*, ProgressionRule*> kRules[] = {
      {&iota_p, counts},
      {&reshape_p, reshaped},
      {&broadcast_in_dim_p, spread},
      {&convert_element_type_p, converted},
      {&add_p, summed},
      {&sub_p, summed},
      {&mul_p, multiplied},
      {&select_n_p, wrapped}};
  const Aval aval = s.aval(a);
  if (!is_integer(aval.dtype) || aval.size() == 0 || depth > kDeepest) return std::nullopt;
  std::optional<Progression> found;
  if (const auto number = s.whole_number(a)) {
    found = over(aval.shape, *number, std::vector<std::int64_t>(aval.shape.size(), 0));
  } else if (const Eqn* e = s.definition(a)) {
    const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules),
                                          [&](const auto& r) { return r.first == e->primitive; });
    if (rule != std::end(kRules)) found = rule->second(s, *e, aval.shape, depth + 1);
  }
  return found && holds(aval.dtype, *found) ? found : std::nullopt;
}

/// The dimension along which the numbers of an array are 0, 1, 2, ..., and the same along all others: integers all the way,
/// of types that hold them, as they hold how many they are.
std::optional<std::size_t> counted_dimension(Simplifier& s, const Atom& a) {
  const auto p = progression(s, a);
  if (!p || p->first != 0 || p->is_number()) return std::nullopt;
  std::optional<std::size_t> along;
  for (std::size_t d = 0; d < p->steps.size(); ++d) {
    if (p->steps[d] == 0) continue;
    if (p->steps[d] != 1 || along) return std::nullopt;
    along = d;
  }
  const Aval aval = s.aval(a);
  const Progression with_size{0, {}, 0, aval.shape[*along]};
  return holds(aval.dtype, with_size) ? along : std::nullopt;
}

}  // namespace

std::optional<std::size_t> gathered_axis(const Aval& of, const Aval& out, const GatherParams& p) {
  const GatherDimensionNumbers& dn = p.dimension_numbers;
  if (dn.start_index_map.size() != 1 || dn.collapsed_slice_dims != dn.start_index_map ||
      !dn.operand_batching_dims.empty())
    return std::nullopt;
  const auto axis = static_cast<std::size_t>(dn.start_index_map[0]);
  // The gathered dimension must come out where it was, and whole slices beside it.
  if (out.ndim() != of.ndim() || dn.offset_dims.ndim() != of.ndim() - 1 ||
      dn.offset_dims.contains(static_cast<std::int64_t>(axis)))
    return std::nullopt;
  for (std::size_t d = 0; d < of.shape.size(); ++d) {
    if (p.slice_sizes[d] != (d == axis ? 1 : of.shape[d])) return std::nullopt;
  }
  return axis;
}

namespace {

/// The components of the index vectors of a gather, where all of them count; none where one does not.
std::vector<Progression> progressions(Simplifier& s, const Eqn& gather) {
  const auto& map = gather.params.as<GatherParams>().dimension_numbers.start_index_map;
  const Atom places = gather.inputs[1];
  const Eqn* stack = map.size() > 1 ? s.defined_by(places, concatenate_p) : nullptr;
  const Atoms parts = stack == nullptr ? Atoms{places} : stack->inputs;
  if (parts.size() != map.size()) return {};
  std::vector<Progression> all;
  for (const Atom& part : parts) {
    auto column = progression(s, part);
    if (!column) return {};
    all.push_back(std::move(*column));
  }
  return all;
}

/// Where the dimensions of the places are in the result: those that are no window's.
std::vector<std::size_t> dimensions_of_places(const GatherDimensionNumbers& d, const Aval& out) {
  std::vector<std::size_t> dims;
  for (std::size_t k = 0; k < out.shape.size(); ++k)
    if (!d.offset_dims.contains(static_cast<std::int64_t>(k))) dims.push_back(k);
  return dims;
}

/// What a gather looks up, as slices: along some dimensions of the places one component each counts, and there is a slice
/// for each place along the others.
class Slices {
 public:
  Slices(Simplifier& s, const Eqn& gather, const Aval& out)
      : s_(s), x_(gather.inputs[0]), p_(gather.params.as<GatherParams>()), out_(out) {
    columns_ = progressions(s, gather);
    const Aval x = s.aval(x_);
    of_ = x.shape;
    strong_ = x.strong();
    in_result_ = dimensions_of_places(p_.dimension_numbers, out);
    places_ = s.aval(gather.inputs[1]).shape;
  }

  std::optional<Atom> make() {
    if (columns_.empty() || !p_.dimension_numbers.operand_batching_dims.empty() || !are_inside() ||
        !choose())
      return std::nullopt;
    return joined(0);
  }

 private:
  std::size_t axis(std::size_t component) const {
    return static_cast<std::size_t>(p_.dimension_numbers.start_index_map[component]);
  }
  bool are_inside() const {
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (columns_[k].least < 0 || columns_[k].most > of_[axis(k)] - p_.slice_sizes[axis(k)])
        return false;
    }
    return true;
  }
  // The longest dimension along which a component counts is its slice's; others are few, and the last of the result.
  bool choose() {
    constexpr std::int64_t kMost = 32, kLeast = 8;
    slice_of_.assign(columns_.size(), std::nullopt);
    std::vector<std::size_t> dims;
    for (std::size_t d = 0; d + 1 < places_.size(); ++d)
      if (places_[d] > 1) dims.push_back(d);
    std::stable_sort(dims.begin(), dims.end(),
                     [&](std::size_t a, std::size_t b) { return places_[a] > places_[b]; });
    std::int64_t slices = 1;
    for (const std::size_t d : dims) {
      std::vector<std::size_t> changing;
      for (std::size_t k = 0; k < columns_.size(); ++k)
        if (columns_[k].steps[d] != 0) changing.push_back(k);
      if (changing.empty()) return false;
      const std::size_t k = changing[0];
      if (changing.size() == 1 && !slice_of_[k] && p_.slice_sizes[axis(k)] == 1 &&
          p_.dimension_numbers.collapsed_slice_dims.contains(
              p_.dimension_numbers.start_index_map[k])) {
        slice_of_[k] = d;
        continue;
      }
      slices *= places_[d];
      if (places_[d] >= kLeast || slices > kMost) return false;
      few_.push_back(d);
    }
    std::sort(few_.begin(), few_.end());
    if (few_.empty()) return true;
    for (std::size_t k = 0; k < out_.shape.size(); ++k) {
      const bool is_few =
          std::any_of(few_.begin(), few_.end(), [&](std::size_t d) { return in_result_[d] == k; });
      if (out_.shape[k] > 1 && !is_few && k > in_result_[few_[0]]) return false;
    }
    return out_.size() / slices >= kLeast;
  }

  // Over the places along the dimensions of few from this one on.
  Atom joined(std::size_t from) {
    if (from == few_.size()) return slice();
    const std::size_t d = few_[from];
    Atoms parts;
    for (std::int64_t i = 0; i < places_[d]; ++i) {
      const std::vector<Progression> before = columns_;
      for (Progression& column : columns_) column.first += i * column.steps[d];
      parts.push_back(joined(from + 1));
      columns_ = before;
    }
    Shape shape = s_.aval(parts[0]).shape;
    shape[in_result_[d]] = places_[d];
    const ConcatenateParams p{static_cast<std::int64_t>(in_result_[d])};
    return s_.make(concatenate_p, p, std::move(parts), of_shape(shape));
  }
  // Along dimensions of few there is one element.
  Atom slice() {
    SliceParams p{Shape(of_.size(), 0), p_.slice_sizes, Shape(of_.size(), 1)};
    Shape backward, taken = p_.slice_sizes;
    std::vector<std::size_t> goes_to(of_.size(), out_.shape.size());  // dimensions of the result
    const GatherDimensionNumbers& numbers = p_.dimension_numbers;
    std::size_t next = 0;
    for (std::size_t a = 0; a < of_.size(); ++a)
      if (!numbers.collapsed_slice_dims.contains(static_cast<std::int64_t>(a)))
        goes_to[a] = static_cast<std::size_t>(numbers.offset_dims[next++]);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const std::size_t a = axis(k);
      std::int64_t first = columns_[k].first, count = p_.slice_sizes[a];
      if (slice_of_[k]) {
        const std::int64_t step = columns_[k].steps[*slice_of_[k]];
        taken[a] = places_[*slice_of_[k]];
        const std::int64_t way = (taken[a] - 1) * std::abs(step);
        if (step < 0) first -= way;
        if (step < 0) backward.push_back(static_cast<std::int64_t>(a));
        p.strides[a] = std::abs(step);
        count = way + 1;
        goes_to[a] = in_result_[*slice_of_[k]];
      }
      p.start_indices[a] = first;
      p.limit_indices[a] = first + count;
    }
    Atom x = s_.make(slice_p, p, {x_}, of_shape(taken));
    std::sort(backward.begin(), backward.end());
    if (!backward.empty()) x = s_.make(rev_p, DimensionsParams{backward}, {x}, of_shape(taken));
    return in_order(x, taken, goes_to);
  }
  // With the dimensions of the result, from those of the operand.
  Atom in_order(Atom x, const Shape& shape, const std::vector<std::size_t>& goes_to) {
    std::vector<std::size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    std::stable_sort(axes.begin(), axes.end(),
                     [&](std::size_t a, std::size_t b) { return goes_to[a] < goes_to[b]; });
    Shape permutation, permuted, result(out_.shape.size(), 1);
    for (const std::size_t a : axes) {
      permutation.push_back(static_cast<std::int64_t>(a));
      permuted.push_back(shape[a]);
      if (goes_to[a] < result.size()) result[goes_to[a]] = shape[a];
    }
    if (!std::is_sorted(axes.begin(), axes.end()))
      x = s_.make(transpose_p, TransposeParams{permutation}, {x}, of_shape(permuted));
    return s_.make(reshape_p, ReshapeParams{result}, {x}, of_shape(result));
  }
  Aval of_shape(const Shape& shape) const {
    return shape == out_.shape ? out_ : strong_.with_shape(shape);
  }

  Simplifier& s_;
  const Atom x_;
  const GatherParams p_;
  const Aval out_;
  std::vector<Progression> columns_;
  Shape of_, places_;
  Aval strong_;
  std::vector<std::size_t> in_result_;  ///< of each dimension of the places
  std::vector<std::optional<std::size_t>>
      slice_of_;  ///< the dimension along which a component counts
  std::vector<std::size_t> few_;
};

}  // namespace

// x[range], x[2 arange(n)[:, None], arange(m)], x[arange(n)[:, None] + arange(3)]: slices, and what is put together of them.
std::optional<Atom> gather_of_slices(Simplifier& s, const Eqn& e, const Aval& out) {
  return Slices(s, e, out).make();
}

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

/// The integers of a progression without one of its dimensions, where that begins.
Atom without_dimension(Simplifier& s, const Progression& p, std::size_t dimension,
                       const Aval& all) {
  Shape shape;
  for (std::size_t d = 0; d < p.steps.size(); ++d)
    if (d != dimension) shape.push_back(d + 1 == p.steps.size() ? 1 : all.shape[d]);
  const Aval aval{shape, all.dtype, false};
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

}  // namespace

namespace {

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

}  // namespace

// x[128 arange(m)[:, None] + arange(n)] are windows, of which each is n elements side by side.
std::optional<Atom> gather_of_windows(Simplifier& s, const Eqn& e, const Aval& out) {
  GatherParams p = e.params.as<GatherParams>();
  GatherDimensionNumbers& d = p.dimension_numbers;
  const Shape of = s.aval(e.inputs[0]).shape;
  const Aval places = s.aval(e.inputs[1]);
  const std::vector<Progression> columns = progressions(s, e);
  const auto found = columns.empty() || !d.operand_batching_dims.empty()
                         ? std::nullopt
                         : counting_along_last(columns, places.shape);
  if (!found) return std::nullopt;
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
  p.slice_sizes[static_cast<std::size_t>(axis)] = places.shape[found->dimension];
  p.unique_indices = false;
  Atoms starts;
  Shape shape;
  for (const Progression& column : columns) {
    Progression start = column;
    if (found->down)
      start.first += column.steps[found->dimension] * (places.shape[found->dimension] - 1);
    starts.push_back(without_dimension(s, start, found->dimension, places));
    shape = s.aval(starts.back()).shape;
  }
  const std::int64_t last = static_cast<std::int64_t>(shape.size()) - 1;
  shape[static_cast<std::size_t>(last)] = static_cast<std::int64_t>(starts.size());
  const Atom at = starts.size() == 1 ? starts[0]
                                     : s.make(concatenate_p, ConcatenateParams{last}, starts,
                                              {shape, places.dtype, false});
  const Atom windows = s.make(gather_p, Params::of(std::move(p)), {e.inputs[0], at}, out);
  if (!found->down) return windows;
  return s.make(rev_p, DimensionsParams{{in_result}}, {windows}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
