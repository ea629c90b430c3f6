// Rules about slices, and about what turns out to be one.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::int64_t stride_of(const SliceParams& p, std::size_t d) {
  return p.strides.empty() ? 1 : p.strides[d];
}

/// first, first + step, first + 2 step, ...: so many integers in one dimension.
struct Range {
  std::int64_t first, step, count;
  std::int64_t last() const { return first + (count - 1) * step; }
  std::int64_t least() const { return std::min(first, last()); }
  std::int64_t most() const { return std::max(first, last()); }
};
// Sums and products of two such numbers are numbers of 64 bits.
constexpr std::int64_t kMostIndex = (std::int64_t{1} << 31) - 1;

/// Whether integers of this type hold the range: what they do not hold wraps around.
bool holds(DType dtype, const Range& r) {
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const std::int64_t most = bits >= 31 ? kMostIndex : (std::int64_t{1} << bits) - 1;
  return r.least() >= (is_signed_integer(dtype) ? -most - 1 : 0) && r.most() <= most;
}

std::optional<Range> range_of(Simplifier& s, const Atom& a, int depth = 0);

std::optional<Range> range_of_iota(Simplifier&, const Eqn& e, const Aval& out, int) {
  const auto& p = e.params.as<IotaParams>();
  const std::int64_t count = p.shape[static_cast<std::size_t>(p.dimension)];
  if (count != out.size()) return std::nullopt;
  return Range{0, 1, count};
}
// Of as many elements in another shape, or as another type.
std::optional<Range> range_of_same(Simplifier& s, const Eqn& e, const Aval& out, int depth) {
  const Atom& x = e.inputs[0];
  return s.aval(x).size() == out.size() ? range_of(s, x, depth) : std::nullopt;
}
/// The range and the number that an equation combines.
std::optional<std::pair<Range, std::int64_t>> range_and_number(Simplifier& s, const Eqn& e,
                                                               int depth) {
  for (const std::size_t i : {0, 1}) {
    const auto by = s.whole_number(e.inputs[1 - i]);
    if (!by || *by > kMostIndex || *by < -kMostIndex) continue;
    if (const auto r = range_of(s, e.inputs[i], depth)) return std::pair{*r, *by};
  }
  return std::nullopt;
}
std::optional<Range> range_of_sum(Simplifier& s, const Eqn& e, const Aval&, int depth) {
  const auto found = range_and_number(s, e, depth);
  if (!found) return std::nullopt;
  const auto& [r, by] = *found;
  return Range{r.first + by, r.step, r.count};
}
std::optional<Range> range_of_product(Simplifier& s, const Eqn& e, const Aval&, int depth) {
  const auto found = range_and_number(s, e, depth);
  if (!found || found->second < 1) return std::nullopt;
  const auto& [r, by] = *found;
  return Range{r.first * by, r.count == 1 ? 1 : r.step * by, r.count};
}
// select(i < 0, i, i + size) of what is not below 0
std::optional<Range> range_of_wrapped(Simplifier& s, const Eqn& e, const Aval&, int depth) {
  const Eqn* below = s.defined_by(e.inputs[0], lt_p);
  const Atom kept = e.inputs[1];
  if (below == nullptr || !(below->inputs[0] == kept) || !s.is(below->inputs[1], 0))
    return std::nullopt;
  const auto r = range_of(s, kept, depth);
  return r && r->least() >= 0 ? r : std::nullopt;
}

/// The numbers of an integer vector, if they are a range: an iota, moved, scaled, wrapped from below 0, none of
/// which leaves its type.
std::optional<Range> range_of(Simplifier& s, const Atom& a, int depth) {
  constexpr int kDeepest = 8;
  using RangeRule = std::optional<Range> (*)(Simplifier&, const Eqn&, const Aval&, int);
  static constexpr std::pair<const PrimitiveBase*, RangeRule> kRules[] = {
      {&iota_p, range_of_iota},
      {&reshape_p, range_of_same},
      {&broadcast_in_dim_p, range_of_same},
      {&convert_element_type_p, range_of_same},
      {&add_p, range_of_sum},
      {&mul_p, range_of_product},
      {&select_n_p, range_of_wrapped}};
  const Aval aval = s.aval(a);
  const Eqn* e = s.definition(a);
  if (e == nullptr || depth > kDeepest || !is_integer(aval.dtype) || aval.size() == 0)
    return std::nullopt;
  for (const auto& [primitive, rule] : kRules) {
    if (primitive != e->primitive) continue;
    const auto r = rule(s, *e, aval, depth + 1);
    return r && holds(aval.dtype, *r) ? r : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool leaves_dimensions(const Shape& from, const SliceParams& params, std::size_t dimensions) {
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (params.start_indices[d] != 0 || params.limit_indices[d] != from[d] ||
        stride_of(params, d) != 1)
      return false;
  }
  return true;
}

std::optional<Atom> slice_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], slice_p);
  if (inner == nullptr) return std::nullopt;
  const auto& p = e.params.as<SliceParams>();
  const auto& q = inner->params.as<SliceParams>();
  SliceParams both;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    const std::int64_t start = q.start_indices[d] + p.start_indices[d] * stride_of(q, d);
    const std::int64_t stride = stride_of(p, d) * stride_of(q, d);
    both.start_indices.push_back(start);
    both.strides.push_back(stride);
    both.limit_indices.push_back(out.shape[d] == 0 ? start
                                                   : start + (out.shape[d] - 1) * stride + 1);
  }
  return s.make(slice_p, both, {inner->inputs[0]}, out);
}

// A part of one of the operands is a part of that operand. One that goes over a seam of an operand stays a part of the
// whole: that operand alone would be put together wherever it is read.
std::optional<Atom> slice_of_concatenation(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* c = s.defined_by(e.inputs[0], concatenate_p);
  if (c == nullptr || out.size() == 0) return std::nullopt;
  const std::int64_t dimension = c->params.as<ConcatenateParams>().dimension;
  const auto d = static_cast<std::size_t>(dimension);
  SliceParams p = e.params.as<SliceParams>();
  Atom x = e.inputs[0];
  while (c != nullptr && c->params.as<ConcatenateParams>().dimension == dimension) {
    std::int64_t first = 0;
    const auto holds_all = [&](const Atom& part) {
      const std::int64_t size = s.aval(part).shape[d];
      if (p.start_indices[d] >= first && p.limit_indices[d] <= first + size) return true;
      first += size;
      return false;
    };
    const auto part = std::find_if(c->inputs.begin(), c->inputs.end(), holds_all);
    if (part == c->inputs.end()) return std::nullopt;
    p.start_indices[d] -= first;
    p.limit_indices[d] -= first;
    x = *part;
    c = s.defined_by(x, concatenate_p);
  }
  return s.make(slice_p, p, {x}, out);
}

// slice(f(x, y)) = f(slice(x), slice(y)), where slices are all that is wanted of it: see values_cut.
std::optional<Atom> slice_of_element(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* f = s.cut(e.inputs[0]) ? s.definition(e.inputs[0]) : nullptr;
  if (f == nullptr || !is_elementwise(*f)) return std::nullopt;
  Atoms inputs;
  for (const Atom& x : f->inputs) {
    const Aval aval = s.aval(x);
    if (aval.shape.empty()) inputs.push_back(x);
    else inputs.push_back(s.make(slice_p, e.params, {x}, aval.with_shape(out.shape)));
  }
  return s.make(*f->primitive, f->params, std::move(inputs), out);
}
// The dimensions of an operand are cut where they lie in the result.
std::optional<Atom> slice_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* t = s.cut(e.inputs[0]) ? s.defined_by(e.inputs[0], transpose_p) : nullptr;
  if (t == nullptr) return std::nullopt;
  const auto& p = e.params.as<SliceParams>();
  const Shape& permutation = t->params.as<TransposeParams>().permutation;
  const Aval aval = s.aval(t->inputs[0]);
  SliceParams inner{aval.shape, aval.shape, aval.shape};
  Shape shape = aval.shape;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    const auto from = static_cast<std::size_t>(permutation[d]);
    inner.start_indices[from] = p.start_indices[d];
    inner.limit_indices[from] = p.limit_indices[d];
    inner.strides[from] = stride_of(p, d);
    shape[from] = out.shape[d];
  }
  const Atom part = s.make(slice_p, inner, {t->inputs[0]}, aval.with_shape(shape));
  return s.make(transpose_p, t->params, {part}, out);
}
// What is repeated is so less often.
std::optional<Atom> slice_of_broadcast(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr) return std::nullopt;
  const Aval small = s.aval(b->inputs[0]);
  if (!small.shape.empty() && !s.cut(e.inputs[0])) return std::nullopt;
  const auto& p = e.params.as<SliceParams>();
  const Shape& dims = b->params.as<BroadcastInDimParams>().broadcast_dimensions;
  SliceParams inner;
  Shape shape = small.shape;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims[k]);
    const bool repeats = small.shape[k] == 1;
    inner.start_indices.push_back(repeats ? 0 : p.start_indices[d]);
    inner.limit_indices.push_back(repeats ? 1 : p.limit_indices[d]);
    inner.strides.push_back(repeats ? 1 : stride_of(p, d));
    if (!repeats) shape[k] = out.shape[d];
  }
  Atom x = b->inputs[0];
  if (!shape.empty()) x = s.make(slice_p, inner, {x}, small.with_shape(shape));
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, dims}, {x}, out);
}

namespace {

/// The slice that two slices side by side along d make up.
std::optional<SliceParams> joined(const SliceParams& p, const SliceParams& q, std::size_t d) {
  for (std::size_t k = 0; k < p.start_indices.size(); ++k) {
    if (stride_of(p, k) != stride_of(q, k) || (k == d && stride_of(p, k) != 1)) return std::nullopt;
    if (k != d &&
        (p.start_indices[k] != q.start_indices[k] || p.limit_indices[k] != q.limit_indices[k]))
      return std::nullopt;
  }
  if (p.limit_indices[d] != q.start_indices[d]) return std::nullopt;
  SliceParams both = p;
  both.limit_indices[d] = q.limit_indices[d];
  return both;
}

}  // namespace

// x[0:3] and x[3:7] side by side are x[0:7]. Columns of short rows, which are put together in registers, stay columns
// unless they are all of one array.
std::optional<Atom> concatenation_of_neighbours(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto d = static_cast<std::size_t>(e.params.as<ConcatenateParams>().dimension);
  Atoms parts;
  for (const Atom& part : e.inputs) {
    const Eqn* next = s.defined_by(part, slice_p);
    const Eqn* last =
        next == nullptr || parts.empty() ? nullptr : s.defined_by(parts.back(), slice_p);
    const auto both =
        last != nullptr && last->inputs[0] == next->inputs[0]
            ? joined(last->params.as<SliceParams>(), next->params.as<SliceParams>(), d)
            : std::nullopt;
    if (!both) {
      parts.push_back(part);
      continue;
    }
    const Aval aval = s.aval(part);
    Shape shape = aval.shape;
    shape[d] += s.aval(parts.back()).shape[d];
    parts.back() = s.make(slice_p, *both, {next->inputs[0]}, aval.with_shape(shape));
  }
  if (parts.size() == e.inputs.size()) return std::nullopt;
  Avals columns;
  for (const Atom& part : e.inputs) columns.push_back(s.aval(part));
  if (parts.size() > 1 && weaves(e.params, columns, out)) return std::nullopt;
  return s.make(concatenate_p, e.params, std::move(parts), out);
}

// What is put together twice along one dimension, as `pad` of NumPy does for either end, is put together once: of so many
// parts as kernels tell apart. One that others read, too, has few, as what follows may be put together of it again.
std::optional<Atom> concatenation_of_concatenations(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::size_t kMost = 8, kMostOfShared = 4;
  const std::int64_t dimension = e.params.as<ConcatenateParams>().dimension;
  Atoms parts;
  for (const Atom& part : e.inputs) {
    const Eqn* inner = s.defined_by(part, concatenate_p);
    const bool opens = inner != nullptr &&
                       inner->params.as<ConcatenateParams>().dimension == dimension &&
                       (s.used_once(part) || inner->inputs.size() <= kMostOfShared);
    if (!opens) parts.push_back(part);
    else
      for (const Atom& a : inner->inputs) parts.push_back(a);
  }
  if (parts.size() == e.inputs.size() || parts.size() > kMost) return std::nullopt;
  return s.make(concatenate_p, e.params, std::move(parts), out);
}

// Starts that are known, clamped as they are at run time.
std::optional<Atom> slice_from_known(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& shape = s.aval(e.inputs[0]).shape;
  SliceParams p;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto start = s.whole_number(e.inputs[d + 1]);
    if (!start) return std::nullopt;
    const std::int64_t first = std::clamp<std::int64_t>(*start, 0, shape[d] - out.shape[d]);
    p.start_indices.push_back(first);
    p.limit_indices.push_back(first + out.shape[d]);
  }
  return s.make(slice_p, p, {e.inputs[0]}, out);
}

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

// x[range] along one dimension, all of the others: a slice, when the range goes up and stays inside.
std::optional<Atom> gather_of_range(Simplifier& s, const Eqn& e, const Aval& out) {
  const Aval& x = s.aval(e.inputs[0]);
  const auto along = gathered_axis(x, out, e.params.as<GatherParams>());
  if (!along) return std::nullopt;
  const std::size_t axis = *along;
  const auto r = range_of(s, e.inputs[1]);
  if (!r || r->step < 1 || r->first < 0 || r->last() >= x.shape[axis] ||
      r->count != out.shape[axis])
    return std::nullopt;
  SliceParams slice{Shape(x.shape.size(), 0), x.shape, Shape(x.shape.size(), 1)};
  slice.start_indices[axis] = r->first;
  slice.limit_indices[axis] = r->last() + 1;
  slice.strides[axis] = r->step;
  return s.make(slice_p, slice, {e.inputs[0]}, out);
}

namespace {

/// The dimension along which the numbers of an array are 0, 1, 2, ..., and the same along all others: integers all the way,
/// of types that hold them.
std::optional<std::size_t> counted_dimension(Simplifier& s, const Atom& a, int depth = 0) {
  constexpr int kDeepest = 6;
  const Aval aval = s.aval(a);
  const Shape& shape = aval.shape;
  const auto counts_along = [&](std::size_t d) -> std::optional<std::size_t> {
    const bool fits = d < shape.size() && holds(aval.dtype, {0, 1, shape[d]});
    return fits ? std::optional(d) : std::nullopt;
  };
  const auto is_long = [](std::int64_t n) { return n > 1; };
  const std::ptrdiff_t longs = std::count_if(shape.begin(), shape.end(), is_long);
  if (longs == 1) {
    const auto r = range_of(s, a);
    if (!r || r->first != 0 || r->step != 1) return std::nullopt;
    return counts_along(static_cast<std::size_t>(std::find_if(shape.begin(), shape.end(), is_long) -
                                                 shape.begin()));
  }
  const Eqn* e = s.definition(a);
  if (e == nullptr || longs == 0 || depth > kDeepest || !is_integer(aval.dtype))
    return std::nullopt;
  const auto of = [&](const Atom& x) { return counted_dimension(s, x, depth + 1); };
  if (e->primitive == &iota_p)
    return counts_along(static_cast<std::size_t>(e->params.as<IotaParams>().dimension));
  if (e->primitive == &convert_element_type_p) {
    const auto d = of(e->inputs[0]);
    return d ? counts_along(*d) : std::nullopt;
  }
  if (e->primitive == &broadcast_in_dim_p) {
    const auto k = of(e->inputs[0]);
    if (!k) return std::nullopt;
    const auto d =
        static_cast<std::size_t>(e->params.as<BroadcastInDimParams>().broadcast_dimensions[*k]);
    return s.aval(e->inputs[0]).shape[*k] == shape[d] ? counts_along(d) : std::nullopt;
  }
  // Places get a last dimension of one number each.
  if (e->primitive == &reshape_p) {
    const Shape& from = s.aval(e->inputs[0]).shape;
    const auto same = static_cast<std::ptrdiff_t>(std::min(from.size(), shape.size()));
    if (!std::equal(from.begin(), from.begin() + same, shape.begin())) return std::nullopt;
    const auto d = of(e->inputs[0]);
    return d ? counts_along(*d) : std::nullopt;
  }
  const Eqn* below = e->primitive == &select_n_p ? s.defined_by(e->inputs[0], lt_p) : nullptr;
  const bool wrapped =
      below != nullptr && below->inputs[0] == e->inputs[1] && s.is(below->inputs[1], 0);
  return wrapped ? of(e->inputs[1]) : std::nullopt;
}

}  // namespace

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

/// Where a value is put together of others: along which dimension, and where they end.
struct Seams {
  std::size_t dimension = 0;
  Shape ends;
  bool operator==(const Seams&) const = default;

  bool cross(const SliceParams& p) const {
    const std::int64_t first = p.start_indices[dimension], end = p.limit_indices[dimension];
    return std::any_of(ends.begin(), ends.end(),
                       [&](std::int64_t seam) { return first < seam && seam < end; });
  }
};
using AllSeams = std::vector<std::optional<Seams>>;

// What is computed element by element of values with the same seams, and of numbers, has these seams.
std::optional<Seams> seams_of_element(const Eqn& e, const AllSeams& known,
                                      const std::vector<bool>& numbers) {
  std::optional<Seams> same;
  for (const Atom& a : e.inputs) {
    if (a.is_literal() || numbers[static_cast<std::size_t>(a.var())]) continue;
    const std::optional<Seams>& seams = known[static_cast<std::size_t>(a.var())];
    if (!seams || (same && *same != *seams)) return std::nullopt;
    same = seams;
  }
  return same;
}
AllSeams seams_of(const Jaxpr& jaxpr) {
  AllSeams out(static_cast<std::size_t>(jaxpr.num_vars()));
  std::vector<bool> numbers;
  for (Var v = 0; v < jaxpr.num_vars(); ++v) numbers.push_back(jaxpr.aval(v).shape.empty());
  for (const Eqn& e : jaxpr.eqns()) {
    const auto result = static_cast<std::size_t>(e.outputs.empty() ? 0 : e.outputs[0]);
    if (e.primitive == &concatenate_p) {
      Seams& seams = out[result].emplace();
      seams.dimension = static_cast<std::size_t>(e.params.as<ConcatenateParams>().dimension);
      std::int64_t end = 0;
      for (const Atom& a : e.inputs)
        seams.ends.push_back(end += jaxpr.aval(a).shape[seams.dimension]);
    } else if (e.primitive == &broadcast_in_dim_p) {
      numbers[result] = jaxpr.aval(e.inputs[0]).shape.empty();
    } else if (is_elementwise(e)) {
      out[result] = seams_of_element(e, out, numbers);
    }
  }
  return out;
}

/// How much is wanted of a value by all who read it.
struct Wanted {
  std::int64_t elements = 0;
  int parts = 0;
  bool across = false;  ///< whether by anything but slices between two of its seams
};
// Where parts are more than half of a value they might as well be parts of all of it, unless each is a part of one of
// those of which it is put together; so they might where they are many and not tiny, or the value is a few vectors.
bool is_cut(const Wanted& w, const Aval& aval) {
  constexpr std::int64_t kLeast = 256, kTiny = 64;
  constexpr int kMostParts = 4, kMostTinyParts = 8;
  const bool is_tiny = w.elements <= aval.size() / kTiny;
  return w.parts > 0 && w.parts <= (is_tiny ? kMostTinyParts : kMostParts) &&
         aval.size() >= kLeast && w.elements <= (w.across ? aval.size() / 2 : aval.size());
}

}  // namespace

std::vector<bool> values_cut(const Jaxpr& jaxpr) {
  std::vector<Wanted> wanted(static_cast<std::size_t>(jaxpr.num_vars()));
  const AllSeams seams = seams_of(jaxpr);
  const auto of = [&](Var v) -> Wanted& { return wanted[static_cast<std::size_t>(v)]; };
  const auto want = [&](const Atom& a, Wanted part) {
    if (!a.is_var()) return;
    const std::int64_t all = jaxpr.aval(a).size();
    Wanted& sum = of(a.var());
    sum.elements = part.elements <= all - sum.elements ? sum.elements + part.elements : all + 1;
    sum.parts += part.parts;
    sum.across |= part.across;
  };
  const auto all_of = [&](const Atom& a) { return Wanted{jaxpr.aval(a).size(), 1, true}; };
  const auto part_of = [&](const Atom& a, const Eqn& slice) {
    const std::optional<Seams>& of_whole = seams[static_cast<std::size_t>(a.var())];
    return Wanted{jaxpr.aval(slice.outputs[0]).size(), 1,
                  !of_whole || of_whole->cross(slice.params.as<SliceParams>())};
  };
  for (const Atom& a : jaxpr.outs()) want(a, all_of(a));
  const std::vector<Eqn>& eqns = jaxpr.eqns();
  for (auto e = eqns.rbegin(); e != eqns.rend(); ++e) {
    const bool same_place = is_elementwise(*e);
    const bool part = (same_place || one_of(*e, {&transpose_p, &broadcast_in_dim_p})) &&
                      is_cut(of(e->outputs[0]), jaxpr.aval(e->outputs[0]));
    for (const Atom& a : e->inputs) {
      if (a.is_literal()) continue;
      if (part) {
        Wanted some = of(e->outputs[0]);
        some.across |= !same_place || !seams[static_cast<std::size_t>(a.var())];
        want(a, some);
      } else {
        want(a, e->primitive == &slice_p ? part_of(a, *e) : all_of(a));
      }
    }
  }
  std::vector<bool> cut;
  for (std::size_t v = 0; v < wanted.size(); ++v)
    cut.push_back(is_cut(wanted[v], jaxpr.aval(static_cast<Var>(v))));
  return cut;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
