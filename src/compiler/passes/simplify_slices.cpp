// Rules about slices, and about what turns out to be one.
#include <algorithm>

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
};
std::optional<std::int64_t> whole_number(Simplifier& s, const Atom& a) {
  const Array* x = s.splat(a);
  if (x == nullptr || !is_integer(x->dtype())) return std::nullopt;
  return x->item<std::int64_t>();
}
/// The numbers of an integer vector, if they are a range: an iota, moved, scaled, wrapped from below 0.
std::optional<Range> range_of(Simplifier& s, const Atom& a, int depth = 0) {
  const Aval aval = s.aval(a);
  if (depth > 8 || !is_integer(aval.dtype) || a.is_literal() || aval.size() == 0)
    return std::nullopt;
  const auto inner = [&](const Atom& x) { return range_of(s, x, depth + 1); };
  if (const Eqn* e = s.defined_by(a, iota_p)) {
    const auto& p = e->params.as<IotaParams>();
    const std::int64_t count = p.shape[static_cast<std::size_t>(p.dimension)];
    if (count != aval.size()) return std::nullopt;
    return Range{0, 1, count};
  }
  for (const PrimitiveBase* p : {static_cast<const PrimitiveBase*>(&reshape_p),
                                 static_cast<const PrimitiveBase*>(&broadcast_in_dim_p),
                                 static_cast<const PrimitiveBase*>(&convert_element_type_p)}) {
    const Eqn* e = s.defined_by(a, *p);
    if (e == nullptr) continue;
    const Atom x = e->inputs[0];
    const auto r = s.aval(x).size() == aval.size() ? inner(x) : std::nullopt;
    // Conversion must not wrap: what is an index fits into 31 bits.
    const bool fits = r && std::min(r->first, r->last()) >= 0 &&
                      std::max(r->first, r->last()) < (std::int64_t{1} << 31) &&
                      size_of(aval.dtype) >= 4;
    return fits ? r : std::nullopt;
  }
  if (const Eqn* e = s.defined_by(a, add_p)) {
    const Atom x = e->inputs[0], y = e->inputs[1];
    for (const auto& [one, other] : {std::pair{x, y}, {y, x}}) {
      const auto by = whole_number(s, other);
      const auto r = by ? inner(one) : std::nullopt;
      if (r) return Range{r->first + *by, r->step, r->count};
    }
  }
  if (const Eqn* e = s.defined_by(a, select_n_p)) {  // select(i < 0, i, i + size)
    const Eqn* below = s.defined_by(e->inputs[0], lt_p);
    const Atom kept = e->inputs[1];
    if (below == nullptr || !(below->inputs[0] == kept) || !s.is(below->inputs[1], 0))
      return std::nullopt;
    const auto r = inner(kept);
    if (r && std::min(r->first, r->last()) >= 0) return r;
  }
  return std::nullopt;
}

}  // namespace

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

std::optional<Atom> slice_of_splat(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || !s.aval(b->inputs[0]).shape.empty()) return std::nullopt;
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {b->inputs[0]}, out);
}

// A part of one of the operands is a part of that operand.
std::optional<Atom> slice_of_concatenation(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* c = s.defined_by(e.inputs[0], concatenate_p);
  if (c == nullptr || out.size() == 0) return std::nullopt;
  const auto d = static_cast<std::size_t>(c->params.as<ConcatenateParams>().dimension);
  SliceParams p = e.params.as<SliceParams>();
  std::int64_t first = 0;
  for (const Atom& x : c->inputs) {
    const std::int64_t end = first + s.aval(x).shape[d];
    if (p.start_indices[d] >= first && p.limit_indices[d] <= end) {
      p.start_indices[d] -= first;
      p.limit_indices[d] -= first;
      return s.make(slice_p, p, {Atom(x)}, out);
    }
    first = end;
  }
  return std::nullopt;
}

// Starts that are known, clamped as they are at run time.
std::optional<Atom> slice_from_known(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& shape = s.aval(e.inputs[0]).shape;
  SliceParams p;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto start = whole_number(s, e.inputs[d + 1]);
    if (!start) return std::nullopt;
    const std::int64_t first = std::clamp<std::int64_t>(*start, 0, shape[d] - out.shape[d]);
    p.start_indices.push_back(first);
    p.limit_indices.push_back(first + out.shape[d]);
  }
  return s.make(slice_p, p, {e.inputs[0]}, out);
}

// x[range] along one dimension, all of the others: a slice, when the range goes up and stays inside.
std::optional<Atom> gather_of_range(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& p = e.params.as<GatherParams>();
  const GatherDimensionNumbers& dn = p.dimension_numbers;
  const Aval& x = s.aval(e.inputs[0]);
  if (dn.start_index_map.size() != 1 || dn.collapsed_slice_dims != dn.start_index_map ||
      !dn.operand_batching_dims.empty())
    return std::nullopt;
  const auto axis = static_cast<std::size_t>(dn.start_index_map[0]);
  // The gathered dimension must come out where it was, and whole slices beside it.
  if (out.ndim() != x.ndim() || dn.offset_dims.ndim() != x.ndim() - 1 ||
      dn.offset_dims.contains(static_cast<std::int64_t>(axis)))
    return std::nullopt;
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (p.slice_sizes[d] != (d == axis ? 1 : x.shape[d])) return std::nullopt;
  }
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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
