// Rules about slices, and about what turns out to be one.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
bool leaves_dimensions(const Shape& from, const SliceParams& params, std::size_t dimensions) {
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (!takes_whole_axis(params, from, d)) return false;
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
    // Of nothing, the place behind the last element may be beyond the operand.
    const std::int64_t start = out.shape[d] == 0
                                   ? q.start_indices[d]
                                   : q.start_indices[d] + p.start_indices[d] * stride_of(q, d);
    const std::int64_t stride = stride_of(p, d) * stride_of(q, d);
    both.start_indices.push_back(start);
    both.strides.push_back(stride);
    both.limit_indices.push_back(out.shape[d] == 0 ? start
                                                   : start + (out.shape[d] - 1) * stride + 1);
  }
  return s.make(slice_p, both, {inner->inputs[0]}, out);
}

namespace {
/// What a slice takes of a concatenation of single elements: these, side by side.
std::optional<Atom> some_of_single(Simplifier& s, const Eqn& c, const SliceParams& p,
                                   const Aval& out) {
  const ConcatenateParams together = c.params.as<ConcatenateParams>();
  const auto d = static_cast<std::size_t>(together.dimension);
  const Atoms all = c.inputs;  // the program grows, and its equations move
  if (std::any_of(all.begin(), all.end(), [&](const Atom& a) { return s.aval(a).shape[d] != 1; }))
    return std::nullopt;
  SliceParams others = p;
  others.start_indices[d] = 0;
  others.limit_indices[d] = 1;
  if (!others.strides.empty()) others.strides[d] = 1;
  Shape shape = out.shape;
  shape[d] = 1;
  Atoms some;
  for (std::int64_t i = p.start_indices[d]; i < p.limit_indices[d]; i += stride_of(p, d))
    some.push_back(
        s.make(slice_p, others, {all[static_cast<std::size_t>(i)]}, out.with_shape(shape)));
  return s.make(concatenate_p, together, std::move(some), out);
}
}  // namespace

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
    if (part == c->inputs.end()) return s.cut(x) ? some_of_single(s, *c, p, out) : std::nullopt;
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
  if (parts.size() > 1 && weaves(e.params, detail::avals_of(s, e.inputs), out)) return std::nullopt;
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
