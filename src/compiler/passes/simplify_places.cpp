// Rules about places that count, up or down, along their dimensions: what is looked up there, or added to, is slices.
//
//   x[arange(100)[:, None] + arange(3)]  ->  three slices of 100 elements, side by side
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/passes/numbers.hpp"
#include "compiler/passes/progression.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/permutations.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
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
  /// Whether elements lie side by side in all slices.
  bool are_dense() const {
    return std::all_of(columns_.begin(), columns_.end(), [&](const Progression& column) {
      const auto k = static_cast<std::size_t>(&column - columns_.data());
      return axis(k) + 1 != of_.size() || !slice_of_[k] ||
             std::abs(column.steps[*slice_of_[k]]) == 1;
    });
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
    if (is_identity(permutation)) return x;
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
    y = reversed(turned(y, inverse(axes), o.taken), o.backward);
    PadParams pad;
    for (std::size_t a = 0; a < of_.size(); ++a)
      pad.padding_config.push_back(
          {o.cut.start_indices[a], of_[a] - o.cut.limit_indices[a], o.cut.strides[a] - 1});
    const Atom nothing = literal_of(-0.0, out.dtype);
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
  if (!slices.are_known() || !slices.are_dense() ||
      out.size() * slices.count() > kMuch * updates.num_elements())
    return std::nullopt;
  return slices.add_to(e.inputs[0], e.inputs[2], out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
