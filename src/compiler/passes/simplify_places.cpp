// Rules about places that are looked up and follow from where they stand: slices, batches and windows.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"

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

/// The components of the index vectors of a gather or scatter, where all of them count; none where one does not.
std::vector<Progression> progressions(Simplifier& s, const Atom& places, const Shape& map) {
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

/// Where the dimensions of the places are in what is looked up: those that are no window's.
std::vector<std::size_t> dimensions_of_places(const GatherDimensionNumbers& d, const Shape& out) {
  std::vector<std::size_t> dims;
  for (std::size_t k = 0; k < out.size(); ++k)
    if (!d.offset_dims.contains(static_cast<std::int64_t>(k))) dims.push_back(k);
  return dims;
}

/// The slices of an array that are looked up: along some dimensions of the places one component each counts, and there is
/// a slice for each place along the others.
class Slices {
 public:
  /// Of an array of shape `of`, by these places; what is looked up has the shape `out`.
  Slices(Simplifier& s, const Shape& of, const Atom& places, const GatherParams& p,
         const Shape& out)
      : s_(s), p_(p), of_(of), places_(s.aval(places).shape), out_(out) {
    columns_ = progressions(s, places, p_.dimension_numbers.start_index_map);
    in_result_ = dimensions_of_places(p_.dimension_numbers, out);
    are_known_ = !columns_.empty() && p_.dimension_numbers.operand_batching_dims.empty() &&
                 are_inside() && choose();
  }
  bool are_known() const { return are_known_; }

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::size_t d : few_) n *= places_[d];
    return n;
  }
  /// What is looked up in x.
  Atom read(const Atom& x, const Aval& out) {
    aval_ = s_.aval(x).strong();
    return joined(x, out, 0);
  }
  /// What is looked up, each element added to x where it comes from, in the order in which a scatter adds.
  Atom add_to(Atom x, const Atom& updates, const Aval& out) {
    aval_ = out.strong();
    for (const Shape& at : in_order_of_updates()) x = added(x, updates, at, out);
    return x;
  }

 private:
  std::size_t axis(std::size_t component) const {
    return static_cast<std::size_t>(p_.dimension_numbers.start_index_map[component]);
  }
  bool is_collapsed(std::size_t a) const {
    return p_.dimension_numbers.collapsed_slice_dims.contains(static_cast<std::int64_t>(a));
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
    std::sort(dims.begin(), dims.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(places_[b], a) < std::pair(places_[a], b);
    });
    for (const std::size_t d : dims) {
      std::vector<std::size_t> changing;
      for (std::size_t k = 0; k < columns_.size(); ++k)
        if (columns_[k].steps[d] != 0) changing.push_back(k);
      if (changing.empty()) return false;
      const std::size_t k = changing[0];
      if (changing.size() == 1 && !slice_of_[k] && is_collapsed(axis(k))) {
        slice_of_[k] = d;
        continue;
      }
      few_.push_back(d);
      if (places_[d] >= kLeast || count() > kMost) return false;
    }
    std::sort(few_.begin(), few_.end());
    const auto is_few = [&](std::size_t k) {
      return std::any_of(few_.begin(), few_.end(),
                         [&](std::size_t d) { return in_result_[d] == k; });
    };
    for (std::size_t k = 0; !few_.empty() && k < out_.size(); ++k)
      if (out_[k] > 1 && !is_few(k) && k > in_result_[few_[0]]) return false;
    return few_.empty() || out_.num_elements() / count() >= kLeast;
  }

  /// A slice, and which dimensions of what is looked up those of the array are.
  struct One {
    SliceParams cut;
    Shape backward;                    ///< axes along which the places count down
    Shape taken;                       ///< the sizes of the slice
    std::vector<std::size_t> goes_to;  ///< of each axis; that of a single element to none
  };
  // At the places `at` along the dimensions of which there are few.
  One one(const Shape& at) const {
    One o{{Shape(of_.size(), 0), p_.slice_sizes, Shape(of_.size(), 1)},
          {},
          p_.slice_sizes,
          std::vector<std::size_t>(of_.size(), out_.size())};
    std::size_t next = 0;
    for (std::size_t a = 0; a < of_.size(); ++a)
      if (!is_collapsed(a))
        o.goes_to[a] = static_cast<std::size_t>(p_.dimension_numbers.offset_dims[next++]);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const std::size_t a = axis(k);
      std::int64_t first = columns_[k].first, count = p_.slice_sizes[a];
      for (std::size_t f = 0; f < few_.size(); ++f) first += at[f] * columns_[k].steps[few_[f]];
      if (const auto d = slice_of_[k]) {
        const std::int64_t step = columns_[k].steps[*d], way = (places_[*d] - 1) * std::abs(step);
        if (step < 0) o.backward.push_back(static_cast<std::int64_t>(a));
        if (step < 0) first -= way;
        o.taken[a] = places_[*d];
        o.cut.strides[a] = std::abs(step);
        o.goes_to[a] = in_result_[*d];
        count = way + 1;
      }
      o.cut.start_indices[a] = first;
      o.cut.limit_indices[a] = first + count;
    }
    std::sort(o.backward.begin(), o.backward.end());
    return o;
  }
  /// The axes of a slice in the order of what is looked up.
  static Shape order(const One& o) {
    Shape axes;
    for (std::size_t a = 0; a < o.goes_to.size(); ++a) axes.push_back(static_cast<std::int64_t>(a));
    const auto place = [&](std::int64_t a) {
      return std::pair(o.goes_to[static_cast<std::size_t>(a)], a);
    };
    std::sort(axes.begin(), axes.end(),
              [&](std::int64_t a, std::int64_t b) { return place(a) < place(b); });
    return axes;
  }
  Atom turned(Atom x, const Shape& permutation, const Shape& shape) {
    if (std::is_sorted(permutation.begin(), permutation.end())) return x;
    return s_.make(transpose_p, TransposeParams{permutation}, {x}, aval_.with_shape(shape));
  }
  Atom reversed(Atom x, const Shape& dimensions) {
    if (dimensions.empty()) return x;
    const Aval aval = s_.aval(x);
    return s_.make(rev_p, DimensionsParams{dimensions}, {x}, aval);
  }

  // Of x, over the places along the dimensions of few from this one on.
  Atom joined(const Atom& x, const Aval& out, std::size_t from, const Shape& at = {}) {
    if (from == few_.size()) return slice(x, at, out);
    const std::size_t d = few_[from];
    Atoms parts;
    for (std::int64_t i = 0; i < places_[d]; ++i) {
      Shape next = at;
      next.push_back(i);
      parts.push_back(joined(x, out, from + 1, next));
    }
    Shape shape = s_.aval(parts[0]).shape;
    shape[in_result_[d]] = places_[d];
    const ConcatenateParams p{static_cast<std::int64_t>(in_result_[d])};
    return s_.make(concatenate_p, p, std::move(parts), of_shape(shape, out));
  }
  // Along dimensions of few there is one element.
  Atom slice(const Atom& x, const Shape& at, const Aval& out) {
    const One o = one(at);
    const Shape axes = order(o);
    Shape result(out_.size(), 1);
    for (std::size_t a = 0; a < of_.size(); ++a)
      if (o.goes_to[a] < result.size()) result[o.goes_to[a]] = o.taken[a];
    const Atom cut = s_.make(slice_p, o.cut, {x}, aval_.with_shape(o.taken));
    const Atom y = turned(reversed(cut, o.backward), axes, permuted(axes, o.taken));
    return s_.make(reshape_p, ReshapeParams{result}, {y}, of_shape(result, out));
  }
  Aval of_shape(const Shape& shape, const Aval& out) const {
    return shape == out_ ? out : aval_.with_shape(shape);
  }

  // The places along the dimensions of few, so that for each element of x those come first whose updates do.
  std::vector<Shape> in_order_of_updates() const {
    std::vector<std::size_t> sliced;  // components, by their dimensions
    for (std::size_t k = 0; k < columns_.size(); ++k)
      if (slice_of_[k]) sliced.push_back(k);
    std::sort(sliced.begin(), sliced.end(),
              [&](std::size_t a, std::size_t b) { return *slice_of_[a] < *slice_of_[b]; });
    // How far from there the update of the same element is along each slice's dimension, in steps that are positive.
    const auto behind = [&](const Shape& at) {
      std::vector<std::int64_t> out;
      for (const std::size_t k : sliced) {
        std::int64_t moved = 0;
        for (std::size_t f = 0; f < few_.size(); ++f) moved += at[f] * columns_[k].steps[few_[f]];
        out.push_back(columns_[k].steps[*slice_of_[k]] > 0 ? -moved : moved);
      }
      return out;
    };
    const auto vector = [](const Shape& x) { return std::vector(x.begin(), x.end()); };
    std::vector<Shape> all = {{}};
    for (const std::size_t d : few_) {
      std::vector<Shape> longer;
      for (const Shape& at : all) {
        for (std::int64_t i = 0; i < places_[d]; ++i) {
          longer.push_back(at);
          longer.back().push_back(i);
        }
      }
      all = std::move(longer);
    }
    std::sort(all.begin(), all.end(), [&](const Shape& a, const Shape& b) {
      return std::pair(behind(a), vector(a)) < std::pair(behind(b), vector(b));
    });
    return all;
  }
  Atom added(const Atom& x, const Atom& updates, const Shape& at, const Aval& out) {
    const One o = one(at);
    const Shape axes = order(o), shape = permuted(axes, o.taken);
    SliceParams part{Shape(out_.size(), 0), out_, {}};
    for (std::size_t f = 0; f < few_.size(); ++f) {
      part.start_indices[in_result_[few_[f]]] = at[f];
      part.limit_indices[in_result_[few_[f]]] = at[f] + 1;
    }
    Shape one_of_few = out_;
    for (const std::size_t d : few_) one_of_few[in_result_[d]] = 1;
    Atom y = s_.make(slice_p, part, {updates}, aval_.with_shape(one_of_few));
    y = s_.make(reshape_p, ReshapeParams{shape}, {y}, aval_.with_shape(shape));
    Shape back(axes.size(), 0);
    for (std::size_t k = 0; k < axes.size(); ++k)
      back[static_cast<std::size_t>(axes[k])] = static_cast<std::int64_t>(k);
    y = reversed(turned(y, back, o.taken), o.backward);
    PadParams pad;
    for (std::size_t a = 0; a < of_.size(); ++a)
      pad.padding_config.push_back(
          {o.cut.start_indices[a], of_[a] - o.cut.limit_indices[a], o.cut.strides[a] - 1});
    const Atom nothing = Atom::literal(detail::convert_scalar(Array(-0.0), out.dtype));
    const Atom padded = s_.make(pad_p, pad, {y, nothing}, aval_);
    return s_.make(add_p, NoParams{}, {x, padded}, out);
  }

  Simplifier& s_;
  const GatherParams p_;
  const Shape of_, places_, out_;
  Aval aval_;  ///< of the array
  std::vector<Progression> columns_;
  std::vector<std::size_t> in_result_;  ///< of each dimension of the places
  std::vector<std::optional<std::size_t>>
      slice_of_;  ///< the dimension along which a component counts
  std::vector<std::size_t> few_;
  bool are_known_ = false;
};

}  // namespace

// x[range], x[2 arange(n)[:, None], arange(m)], x[arange(n)[:, None] + arange(3)]: slices, and what is put together of them.
std::optional<Atom> gather_of_slices(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape of = s.aval(e.inputs[0]).shape;
  Slices slices(s, of, e.inputs[1], e.params.as<GatherParams>(), out.shape);
  if (!slices.are_known()) return std::nullopt;
  return slices.read(e.inputs[0], out);
}

// What is added to such slices: x + pad(y) + pad(z) ..., in the order of the updates, where that is not much more.
// x + -0 is x.
std::optional<Atom> scatter_to_slices(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::int64_t kMuch = 4;
  const Shape updates = s.aval(e.inputs[2]).shape;
  const auto& p = e.params.as<ScatterParams>();
  const bool one_place = s.aval(e.inputs[1]).size() == s.aval(e.inputs[1]).shape.back();
  if (one_place || is_complex(out.dtype) || updates.num_elements() == 0) return std::nullopt;
  Slices slices(s, out.shape, e.inputs[1], windows_of(p, out.shape, updates), updates);
  if (!slices.are_known() || out.size() * slices.count() > kMuch * updates.num_elements())
    return std::nullopt;
  return slices.add_to(e.inputs[0], e.inputs[2], out);
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
  const std::int64_t length = aval.shape[found->dimension];
  p.slice_sizes[static_cast<std::size_t>(axis)] = length;
  Atoms starts;
  for (Progression start : columns) {
    if (found->down) start.first += start.steps[found->dimension] * (length - 1);
    starts.push_back(without_dimension(s, start, found->dimension, aval));
  }
  Shape shape = s.aval(starts[0]).shape;
  const std::size_t last = shape.size() - 1;
  shape[last] = static_cast<std::int64_t>(starts.size());
  const ConcatenateParams side_by_side{static_cast<std::int64_t>(last)};
  const Atom at = starts.size() == 1 ? starts[0]
                                     : s.make(concatenate_p, side_by_side, std::move(starts),
                                              {shape, aval.dtype, false});
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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
