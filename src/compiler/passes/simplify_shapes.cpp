// Rules about shapes: what is reshaped, broadcast, reversed or folded.
#include <algorithm>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/permutations.hpp"
#include "core/element.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
std::optional<Atom> same_shape(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).shape == out.shape) return e.inputs[0];
  return std::nullopt;
}
std::optional<Atom> reshape_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  if (const auto same = same_shape(s, e, out)) return same;
  if (const Eqn* inner = s.defined_by(e.inputs[0], reshape_p)) {
    return s.make(reshape_p, ReshapeParams{out.shape}, {inner->inputs[0]}, out);
  }
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr) return std::nullopt;
  const Aval& of = s.aval(b->inputs[0]);
  if (of.shape.empty())
    return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {b->inputs[0]}, out);
  if (of.size() == out.size()) return s.make(reshape_p, e.params, {b->inputs[0]}, out);
  return std::nullopt;
}
// Short rows that are repeated side by side, as `tile` and images of colours twice as wide have them, are longer rows of
// these: their columns are read once then (short_axes.cpp). For more columns of bytes this takes too many shuffles, and
// rows of 4 and 8, of which vectors hold a whole number, are as fast as they are.
std::optional<Atom> reshape_of_repeated_rows(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::int64_t kShortest = 3, kLongest = 7, kMostOfBytes = 4, kLeastSize = 1 << 9;
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || !b->inputs[0].is_var() || out.size() < kLeastSize) return std::nullopt;
  const Atom x = b->inputs[0];
  const auto& p = b->params.as<BroadcastInDimParams>();
  Shape dims = p.broadcast_dimensions, shape = p.shape, small = s.aval(x).shape;
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (last < 1 || dims.empty() || dims.back() != last || small.back() != shape.back())
    return std::nullopt;
  const std::int64_t row = shape.back(), times = shape[static_cast<std::size_t>(last) - 1];
  const auto most = size_of(out.dtype) > 1 ? kSmallMatrix : kMostOfBytes;
  if (row < 2 || row > kLongest || row == 4 || times < 2 || row * times > most) return std::nullopt;
  // What is repeated along other dimensions, too, would be put together row by row: worth it for the shortest.
  const Eqn* seen = s.defined_by(x, reshape_p);
  const bool again =
      times * s.aval(x).size() != out.size() ||
      s.defined_by(seen != nullptr ? seen->inputs[0] : x, broadcast_in_dim_p) != nullptr;
  if (again && row > kShortest) return std::nullopt;
  // Without the dimension along which they are repeated.
  dims.pop_back();
  small.pop_back();
  shape.pop_back();
  shape.pop_back();
  if (!dims.empty() && dims.back() == last - 1) {
    if (small.back() != 1) return std::nullopt;
    dims.pop_back();
    small.pop_back();
  }
  dims.push_back(last - 1);
  small.push_back(row);
  shape.push_back(row);
  if (!again) {  // one row below the other
    small = shape = Shape{s.aval(x).size() / row, row};
    dims = Shape{0, 1};
  }
  const Aval rows = out.with_shape(shape).strong();
  const Atom once = s.make(reshape_p, ReshapeParams{small}, {x}, rows.with_shape(small));
  const Atom each = s.make(broadcast_in_dim_p, BroadcastInDimParams{shape, dims}, {once}, rows);
  ConcatenateParams side_by_side;
  side_by_side.dimension = static_cast<std::int64_t>(shape.size()) - 1;
  shape[shape.size() - 1] = row * times;
  const Atom all = s.make(concatenate_p, side_by_side, Atoms(static_cast<std::size_t>(times), each),
                          rows.with_shape(shape));
  return s.make(reshape_p, ReshapeParams{out.shape}, {all}, out);
}
namespace {

/// What is repeated along a dimension that is then seen as part of another: the array of all repeats, or a part of it, and
/// its dimensions that are seen as those before `axis`. From there on both have the same, but for ones.
struct Repeats {
  Atom all;
  Shape before;
};
std::optional<Repeats> repeats_before(Simplifier& s, const Atom& x, std::size_t axis) {
  const Eqn* r = s.defined_by(x, reshape_p);
  if (r == nullptr) return std::nullopt;
  const Eqn* part = s.defined_by(r->inputs[0], slice_p);
  const Eqn* b = s.defined_by(part != nullptr ? part->inputs[0] : r->inputs[0], broadcast_in_dim_p);
  if (b == nullptr || s.aval(b->inputs[0]).shape.empty()) return std::nullopt;
  Repeats found{r->inputs[0], s.aval(r->inputs[0]).shape};
  const Shape seen = s.aval(x).shape;
  const auto drop_ones = [&] {
    while (!found.before.empty() && found.before.back() == 1) found.before.pop_back();
  };
  drop_ones();
  for (std::size_t d = seen.size(); d-- > axis; drop_ones()) {
    if (seen[d] == 1) continue;
    if (found.before.empty() || found.before.back() != seen[d]) return std::nullopt;
    found.before.pop_back();
  }
  constexpr std::int64_t kLeast = 64;  // lanes run along the last of them
  if (found.before.size() == axis || found.before.empty() || found.before.back() < kLeast)
    return std::nullopt;
  return found;
}

/// The same array, with the dimensions that `seen` has from `axis` on behind those that are seen as the ones before.
Atom with_repeats(Simplifier& s, const Repeats& repeats, const Aval& seen, std::size_t axis) {
  Shape shape = repeats.before;
  for (std::size_t d = axis; d < seen.shape.size(); ++d) shape.push_back(seen.shape[d]);
  return s.make(reshape_p, ReshapeParams{shape}, {repeats.all}, seen.with_shape(shape));
}

}  // namespace

// Parts of the last dimensions of what is repeated along others: kernels read them where they lie, not what is repeated.
std::optional<Atom> slice_of_repeats(Simplifier& s, const Eqn& e, const Aval& out) {
  const SliceParams p = e.params.as<SliceParams>();
  const Aval x = s.aval(e.inputs[0]);
  std::size_t axis = 0;
  while (axis < x.shape.size() && out.shape[axis] == x.shape[axis]) ++axis;
  const auto repeats = repeats_before(s, e.inputs[0], axis);
  if (!repeats) return std::nullopt;
  SliceParams inner{Shape(repeats->before.size(), 0), repeats->before,
                    Shape(repeats->before.size(), 1)};
  Shape shape = repeats->before;
  for (std::size_t d = axis; d < x.shape.size(); ++d) {
    inner.start_indices.push_back(p.start_indices[d]);
    inner.limit_indices.push_back(p.limit_indices[d]);
    inner.strides.push_back(stride_of(p, d));
    shape.push_back(out.shape[d]);
  }
  const Atom all = with_repeats(s, *repeats, x, axis);
  const Atom part = s.make(slice_p, inner, {all}, out.with_shape(shape));
  return s.make(reshape_p, ReshapeParams{out.shape}, {part}, out);
}
// So are their columns side by side, in rows that are put together in registers.
std::optional<Atom> concatenation_of_repeats(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto axis = static_cast<std::size_t>(e.params.as<ConcatenateParams>().dimension);
  const Atoms operands = e.inputs;
  if (!weaves(e.params, detail::avals_of(s, operands), out)) return std::nullopt;
  std::vector<Repeats> parts;
  for (const Atom& x : operands) {
    auto repeats = repeats_before(s, x, axis);
    if (!repeats || (!parts.empty() && repeats->before != parts[0].before)) return std::nullopt;
    parts.push_back(std::move(*repeats));
  }
  Shape shape = parts[0].before;
  const auto dimension = static_cast<std::int64_t>(shape.size());
  for (std::size_t d = axis; d < out.shape.size(); ++d) shape.push_back(out.shape[d]);
  Atoms all;
  for (std::size_t i = 0; i < parts.size(); ++i)
    all.push_back(with_repeats(s, parts[i], s.aval(operands[i]), axis));
  ConcatenateParams side_by_side;
  side_by_side.dimension = dimension;
  const Atom joined = s.make(concatenate_p, side_by_side, std::move(all), out.with_shape(shape));
  return s.make(reshape_p, ReshapeParams{out.shape}, {joined}, out);
}

std::optional<Atom> transpose_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& outer = e.params.as<TransposeParams>().permutation;
  if (is_identity(outer)) return e.inputs[0];
  const Eqn* inner = s.defined_by(e.inputs[0], transpose_p);
  if (inner == nullptr) return std::nullopt;
  const Shape both = permuted(outer, inner->params.as<TransposeParams>().permutation);
  return s.make(transpose_p, TransposeParams{both}, {inner->inputs[0]}, out);
}
// Columns side by side are, of the transpose, rows one after the other, which are written as they lie.
std::optional<Atom> transpose_of_columns(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* c = s.used_once(e.inputs[0]) ? s.defined_by(e.inputs[0], concatenate_p) : nullptr;
  if (c == nullptr) return std::nullopt;
  const std::int64_t from = c->params.as<ConcatenateParams>().dimension;
  ConcatenateParams p;
  Shape others;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    const std::int64_t dim = e.params.as<TransposeParams>().permutation[d];
    if (dim == from) p.dimension = static_cast<std::int64_t>(d);
    else others.push_back(dim);
  }
  const auto is_column = [&](const Atom& a) {
    return s.aval(a).shape[static_cast<std::size_t>(from)] == 1;
  };
  if (!std::is_sorted(others.begin(), others.end()) ||
      !std::all_of(c->inputs.begin(), c->inputs.end(), is_column))
    return std::nullopt;
  Shape row = out.shape;
  row[static_cast<std::size_t>(p.dimension)] = 1;
  const Atoms columns = c->inputs;
  Atoms rows;
  for (const Atom& a : columns)
    rows.push_back(s.make(reshape_p, ReshapeParams{row}, {a}, s.aval(a).with_shape(row)));
  return s.make(concatenate_p, p, std::move(rows), out);
}
std::optional<Atom> broadcast_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& outer = e.params.as<BroadcastInDimParams>();
  if (s.aval(e.inputs[0]).shape == out.shape) return e.inputs[0];
  const Eqn* inner = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (inner == nullptr) return std::nullopt;
  const Shape both = permuted(inner->params.as<BroadcastInDimParams>().broadcast_dimensions,
                              outer.broadcast_dimensions);
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, both}, {inner->inputs[0]}, out);
}
// What is the same everywhere is so in any order.
std::optional<Atom> order_of_splat(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || !s.aval(b->inputs[0]).shape.empty()) return std::nullopt;
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {b->inputs[0]}, out);
}
// Dimensions that are reversed twice are not, nor are those of one element.
std::optional<Atom> rev_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], rev_p);
  const Shape& outer = e.params.as<DimensionsParams>().dimensions;
  DimensionsParams left;
  for (std::int64_t d = 0; d < out.ndim(); ++d) {
    const bool before =
        inner != nullptr && inner->params.as<DimensionsParams>().dimensions.contains(d);
    if (outer.contains(d) != before && out.shape[static_cast<std::size_t>(d)] != 1)
      left.dimensions.push_back(d);
  }
  if (inner == nullptr && left.dimensions.size() == outer.size()) return std::nullopt;
  const Atom& x = inner != nullptr ? inner->inputs[0] : e.inputs[0];
  if (left.dimensions.empty()) return x;
  return s.make(rev_p, left, {x}, out);
}
std::optional<Atom> pad_nothing(Simplifier&, const Eqn& e, const Aval&) {
  const auto& config = e.params.as<PadParams>().padding_config;
  const bool nothing = std::all_of(config.begin(), config.end(), pads_nothing);
  return nothing ? std::optional(e.inputs[0]) : std::nullopt;
}
// A window of the size of the array begins where that does.
std::optional<Atom> update_of_all(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[1]).shape == out.shape) return e.inputs[1];
  return std::nullopt;
}
// Along a dimension of one element there is nothing to count.
std::optional<Atom> iota_of_one(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto d = static_cast<std::size_t>(e.params.as<IotaParams>().dimension);
  if (out.shape[d] != 1 || is_complex(out.dtype)) return std::nullopt;
  return s.filled(0, out);
}
// Over axes of length 1, or none: nothing is combined.
std::optional<Atom> fold_of_one(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& in = s.aval(e.inputs[0]).shape;
  for (const std::int64_t d : e.params.as<AxesParams>().axes) {
    if (in[static_cast<std::size_t>(d)] != 1) return std::nullopt;
  }
  return s.make(reshape_p, ReshapeParams{out.shape}, {e.inputs[0]}, out);
}

namespace {

/// The arrays that are stacked along an axis, to be folded over it alone, in the shape of the result; none where there are
/// many, or others read the stack.
Atoms stacked(Simplifier& s, const Eqn& e, const Shape& axes, const Shape& shape) {
  constexpr std::size_t kMost = 32;
  const Eqn* c = s.defined_by(e.inputs[0], concatenate_p);
  const Aval all = s.aval(e.inputs[0]);
  if (c == nullptr || axes.size() != 1 || !s.used_once(e.inputs[0]) || is_complex(all.dtype) ||
      detail::is_small_float(all.dtype))
    return {};
  const auto d = static_cast<std::size_t>(axes[0]);
  Atoms parts = c->inputs;
  const auto is_one = [&](const Atom& a) { return s.aval(a).shape[d] == 1; };
  if (c->params.as<ConcatenateParams>().dimension != axes[0] || parts.size() > kMost ||
      !std::all_of(parts.begin(), parts.end(), is_one))
    return {};
  for (Atom& part : parts)
    part = s.make(reshape_p, ReshapeParams{shape}, {part}, all.with_shape(shape));
  return parts;
}

}  // namespace

// Arrays that are stacked to be folded are folded one with the other, in order: the least of nine pixels. A sum of 16-bit
// floats is rounded once, and not after each of them.
std::optional<Atom> fold_of_stack(Simplifier& s, const Eqn& e, const Aval& out) {
  std::optional<Atom> all;
  for (const Atom& x : stacked(s, e, e.params.as<AxesParams>().axes, out.shape))
    all = all ? s.make(*combination(e.primitive), NoParams{}, {*all, x}, out) : x;
  return all;
}

// The same of which of them is the largest: the first of equals, and the first NaN before all others.
std::optional<Atom> place_in_stack(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).dtype == DType::bool_) return std::nullopt;
  const Atoms parts = stacked(s, e, e.params.as<ArgReduceParams>().axes, out.shape);
  if (parts.empty()) return std::nullopt;
  const Aval numbers = s.aval(parts[0]).strong(), truths(out.shape, DType::bool_);
  const bool largest = e.primitive == &argmax_p;
  const auto compare = [&](const Primitive<>& p, const Atom& a, const Atom& b) {
    return s.make(p, NoParams{}, {a, b}, truths);
  };
  // Of floats "not as good" is not what a NaN is, which nothing is better than.
  const auto is_better = [&](const Atom& x, const Atom& best) {
    if (!is_float(numbers.dtype)) return compare(largest ? gt_p : lt_p, x, best);
    const Atom as_good = compare(largest ? le_p : ge_p, x, best);
    return s.make(and_p, NoParams{},
                  {s.make(not_p, NoParams{}, {as_good}, truths), compare(eq_p, best, best)},
                  truths);
  };
  Atom best = parts[0], place = s.filled(0, out);
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const Atom better = is_better(parts[k], best);
    place = s.make(select_n_p, NoParams{},
                   {better, place, s.filled(static_cast<std::int64_t>(k), out)}, out);
    if (k + 1 < parts.size())
      best = s.make(select_n_p, NoParams{}, {better, best, parts[k]}, numbers);
  }
  return place;
}

namespace {

/// A fold over a broadcast, of which some axes only repeat what is there.
struct Repeated {
  Atom x;                     ///< what is broadcast, without axes of one element that are repeated
  Shape axes;                 ///< of the fold that is left, counted in what is left of the space
  BroadcastInDimParams left;  ///< the broadcast without the axes that repeat
  std::int64_t count;         ///< how often each element is there
};
std::optional<Repeated> repeated(Simplifier& s, const Eqn& e) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || s.aval(e.inputs[0]).size() == 0) return std::nullopt;
  const Shape &axes = e.params.as<AxesParams>().axes, &space = s.aval(e.inputs[0]).shape;
  const Shape& dims = b->params.as<BroadcastInDimParams>().broadcast_dimensions;
  const Aval small = s.aval(b->inputs[0]);
  Shape kept_of_x;  // its sizes
  std::vector<bool> repeats(space.size());
  for (const std::int64_t d : axes) repeats[static_cast<std::size_t>(d)] = true;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims[k]);
    if (small.shape[k] == space[d]) repeats[d] = false;
    if (!repeats[d]) kept_of_x.push_back(small.shape[k]);
  }
  Repeated out{b->inputs[0], {}, {}, 1};
  Shape place(space.size(), 0);  // among the dimensions that are left
  for (std::size_t d = 0; d < space.size(); ++d) {
    if (repeats[d]) {
      out.count *= space[d];
      continue;
    }
    place[d] = out.left.shape.ndim();
    if (axes.contains(static_cast<std::int64_t>(d))) out.axes.push_back(place[d]);
    out.left.shape.push_back(space[d]);
  }
  if (out.left.shape.size() == space.size()) return std::nullopt;
  for (const std::int64_t d : dims) {
    if (!repeats[static_cast<std::size_t>(d)])
      out.left.broadcast_dimensions.push_back(place[static_cast<std::size_t>(d)]);
  }
  if (kept_of_x.size() != small.shape.size())
    out.x = s.make(reshape_p, ReshapeParams{kept_of_x}, {out.x}, small.with_shape(kept_of_x));
  return out;
}

}  // namespace

// The largest of equal numbers is that number; the sum of n equal integers is n times that. Sums of floats are
// left alone: n additions of x round otherwise than n * x.
std::optional<Atom> reduction_of_repeated(Simplifier& s, const Eqn& e, const Aval& out) {
  const bool sum = e.primitive == &reduce_sum_p;
  if (sum && !is_integer(out.dtype)) return std::nullopt;
  const auto r = repeated(s, e);
  if (!r) return std::nullopt;
  const Aval space = out.with_shape(r->left.shape).strong();
  const Atom once = s.make(broadcast_in_dim_p, r->left, {r->x}, space);
  const Atom folded = s.make(*e.primitive, Params::of(AxesParams{r->axes}), {once}, out);
  if (!sum) return folded;
  // Wrapped around, as the sum is.
  Atom count = s.make(convert_element_type_p, ConvertParams{out.dtype},
                      {Atom::literal(Array(r->count))}, {{}, out.dtype, false});
  if (!out.shape.empty())
    count = s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {count}, out.strong());
  return s.make(mul_p, NoParams{}, {folded, count}, out);
}
// What is repeated along axes that a fold keeps is folded once, and the result repeated.
std::optional<Atom> reduction_of_broadcast(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || b->inputs[0].is_literal() || out.size() == 0) return std::nullopt;
  const Atom x = b->inputs[0];
  const Aval small = s.aval(x);
  const Shape &axes = e.params.as<AxesParams>().axes, space = s.aval(e.inputs[0]).shape;
  const Shape& dims = b->params.as<BroadcastInDimParams>().broadcast_dimensions;
  Shape folded, left;  // axes of x, and sizes of those that it keeps
  BroadcastInDimParams again{out.shape, {}};
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (axes.contains(dims[k])) {
      if (small.shape[k] != space[static_cast<std::size_t>(dims[k])]) return std::nullopt;
      folded.push_back(static_cast<std::int64_t>(k));
      continue;
    }
    std::int64_t place = dims[k];
    for (const std::int64_t axis : axes) place -= axis < dims[k] ? 1 : 0;
    again.broadcast_dimensions.push_back(place);
    left.push_back(small.shape[k]);
  }
  if (folded.size() != axes.size() || left.num_elements() == out.size()) return std::nullopt;
  const Atom once = s.make(*e.primitive, Params::of(AxesParams{folded}), {x}, out.with_shape(left));
  return s.make(broadcast_in_dim_p, again, {once}, out);
}
namespace {

/// The equation that repeats numbers, and whether its result is seen in another shape.
struct Repetition {
  const Eqn* broadcast = nullptr;
  bool reshaped = false;
  const BroadcastInDimParams& params() const {
    return broadcast->params.as<BroadcastInDimParams>();
  }
};
std::optional<Repetition> repetition(const Simplifier& s, const Atom& a) {
  if (s.splat(a) != nullptr) return std::nullopt;
  const Eqn* reshape = s.defined_by(a, reshape_p);
  const Eqn* b = s.defined_by(reshape != nullptr ? reshape->inputs[0] : a, broadcast_in_dim_p);
  if (b == nullptr) return std::nullopt;
  return Repetition{b, reshape != nullptr};
}

}  // namespace

// What is computed of repeated numbers, all repeated alike, is computed once and repeated; so that what is dear is not
// computed over and over. (A single number stays where it is read: it is computed before the loop.) In another shape,
// as an image whose points become squares, by each row of twice as many, even what is cheap is dear: it would be
// picked element by element.
std::optional<Atom> element_of_broadcasts(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!works_by_element(*e.primitive)) return std::nullopt;
  const auto is_number = [&](const Atom& a) {
    return s.aval(a).shape.empty() || s.splat(a) != nullptr;
  };
  std::optional<BroadcastInDimParams> again;
  Shape small;
  bool reshaped = false;
  for (const Atom& a : e.inputs) {
    if (is_number(a)) continue;
    const auto r = repetition(s, a);
    if (!r) return std::nullopt;
    const Shape& shape = s.aval(r->broadcast->inputs[0]).shape;
    if (again && (again->broadcast_dimensions != r->params().broadcast_dimensions ||
                  again->shape != r->params().shape || small != shape || reshaped != r->reshaped))
      return std::nullopt;
    again = r->params();
    small = shape;
    reshaped = r->reshaped;
  }
  const std::int64_t least = reshaped ? 2 : 3;
  if (!again || small.num_elements() <= 1 || least * small.num_elements() > out.size())
    return std::nullopt;
  Atoms inputs;
  for (const Atom& a : e.inputs) {
    const Aval aval = s.aval(a).with_shape(small);
    if (s.aval(a).shape.empty()) {
      inputs.push_back(a);
    } else if (const Array* number = s.splat(a)) {
      inputs.push_back(s.filled(Array(*number), aval));
    } else {
      inputs.push_back(Atom(repetition(s, a)->broadcast->inputs[0]));
    }
  }
  const Atom once = s.make(*e.primitive, e.params, std::move(inputs), out.with_shape(small));
  const Atom repeated = s.make(broadcast_in_dim_p, *again, {once}, out.with_shape(again->shape));
  return reshaped ? s.make(reshape_p, ReshapeParams{out.shape}, {repeated}, out) : repeated;
}

// Operands that have nothing, as `pad` of NumPy writes them for ends that stay as they are, are left out.
std::optional<Atom> concatenation_of_nothing(Simplifier& s, const Eqn& e, const Aval& out) {
  if (out.size() == 0) return std::nullopt;
  Atoms parts;
  for (const Atom& part : e.inputs) {
    if (s.aval(part).size() > 0) parts.push_back(part);
  }
  if (parts.size() == e.inputs.size()) return std::nullopt;
  return s.make(concatenate_p, e.params, std::move(parts), out);
}
std::optional<Atom> concatenate_one(Simplifier&, const Eqn& e, const Aval&) {
  if (e.inputs.size() == 1) return e.inputs[0];
  return std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
