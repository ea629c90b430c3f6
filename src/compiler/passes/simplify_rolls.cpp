// Rules about parts put together again: what roll, and the transpose of its derivative, come to.
#include <algorithm>
#include <cstdint>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kDeepest = 4;
constexpr std::size_t kMostParts = 4;
constexpr std::int64_t kMuchSmaller = 8;

/// Parts of one array along dimension d, in the order in which they are put together.
struct Parts {
  struct Part {
    std::int64_t start, limit;
    std::int64_t size() const { return limit - start; }
  };
  std::size_t d;
  std::vector<Part> parts;

  std::int64_t total() const {
    std::int64_t n = 0;
    for (const Part& p : parts) n += p.size();
    return n;
  }
  Shape shape_of(Shape shape) const {
    shape[d] = total();
    return shape;
  }
};

/// x cut to [start, limit) along d alone; nullopt for other slices.
std::optional<Parts::Part> part_of(const Eqn& slice, const Shape& shape, std::size_t d) {
  const auto& p = slice.params.as<SliceParams>();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == d ? stride_of(p, i) != 1 : !takes_whole_axis(p, shape, i)) return std::nullopt;
  }
  return Parts::Part{p.start_indices[d], p.limit_indices[d]};
}

/// The operand of these slices, and which parts of it they are; null if they are not parts of one.
const Atom* parts_of(Simplifier& s, const Atoms& slices, std::size_t d, Parts& out) {
  if (slices.size() > kMostParts) return nullptr;
  out.d = d;
  const Atom* whole = nullptr;
  for (const Atom& a : slices) {
    const Eqn* slice = s.defined_by(a, slice_p);
    if (slice == nullptr || (whole != nullptr && !(slice->inputs[0] == *whole))) return nullptr;
    whole = &slice->inputs[0];
    const auto part = part_of(*slice, s.aval(*whole).shape, d);
    if (!part) return nullptr;
    out.parts.push_back(*part);
  }
  return whole;
}

// Positions: j + the offset of the part that j lies in. They are the same in every row.
Atom positions(Simplifier& s, const Parts& parts, const Aval& out) {
  const Aval row = out.with_shape({parts.total()}).strong();
  const Atom j = s.make(iota_p, IotaParams{row.dtype, row.shape, 0}, {}, row);
  std::int64_t end = parts.total();
  std::optional<Atom> result;
  for (std::size_t i = parts.parts.size(); i-- > 0;) {
    const std::int64_t begin = end - parts.parts[i].size();
    const std::int64_t offset = parts.parts[i].start - begin;
    const Atom moved = offset == 0 ? j : s.make(add_p, NoParams{}, {j, s.filled(offset, row)}, row);
    if (!result) {
      result = moved;
    } else {
      const Atom before =
          s.make(lt_p, NoParams{}, {j, s.filled(end, row)}, {row.shape, DType::bool_, false});
      result = s.make(select_n_p, NoParams{}, {before, *result, moved}, row);
    }
    end = begin;
  }
  const BroadcastInDimParams p{out.shape, {static_cast<std::int64_t>(parts.d)}};
  return s.make(broadcast_in_dim_p, p, {*result}, out.strong());
}

Atom put_together(Simplifier& s, const Parts& parts, const Atom& x, std::size_t d) {
  const Aval aval = s.aval(x);
  Atoms slices;
  for (const Parts::Part& part : parts.parts) {
    SliceParams p{Shape(aval.shape.size(), 0), aval.shape, Shape(aval.shape.size(), 1)};
    p.start_indices[d] = part.start;
    p.limit_indices[d] = part.limit;
    Shape shape = aval.shape;
    shape[d] = part.size();
    slices.push_back(s.make(slice_p, p, {x}, aval.with_shape(shape)));
  }
  ConcatenateParams p;
  p.dimension = static_cast<std::int64_t>(d);
  Shape shape = aval.shape;
  shape[d] = parts.total();
  return s.make(concatenate_p, p, std::move(slices), aval.with_shape(shape));
}

std::optional<Atom> broadcast_parts(Simplifier& s, const Parts& parts, const Eqn& b,
                                    const Aval& aval) {
  BroadcastInDimParams p = b.params.as<BroadcastInDimParams>();
  const Aval small = s.aval(b.inputs[0]);
  if (small.size() * kMuchSmaller > aval.size()) return std::nullopt;
  p.shape = parts.shape_of(aval.shape);
  Atom x = b.inputs[0];
  for (std::size_t k = 0; k < small.shape.size(); ++k) {
    if (p.broadcast_dimensions[k] == static_cast<std::int64_t>(parts.d) && small.shape[k] != 1)
      x = put_together(s, parts, x, k);
  }
  const Shape shape = p.shape;
  return s.make(broadcast_in_dim_p, p, {x}, aval.with_shape(shape));
}

/// The parts of `a` put together, if that takes a few operations on positions and broadcasts.
std::optional<Atom> made_of_parts(Simplifier& s, const Parts& parts, const Atom& a, int depth) {
  const Aval aval = s.aval(a);
  if (aval.shape.empty()) return a;
  if (a.is_literal()) return std::nullopt;
  const Eqn* found = s.definition(a);
  if (found == nullptr) return std::nullopt;
  const Eqn e = *found;
  const Aval out = aval.with_shape(parts.shape_of(aval.shape));
  if (e.primitive == &broadcast_in_dim_p) return broadcast_parts(s, parts, e, aval);
  if (e.primitive == &iota_p) {
    IotaParams p = e.params.as<IotaParams>();
    if (p.dimension == static_cast<std::int64_t>(parts.d)) {
      // In narrower types positions wrap around, and are not the ones that are compared with.
      const bool known =
          p.dtype == DType::i64 || (p.dtype == DType::i32 && aval.shape[parts.d] <= INT32_MAX);
      return known ? std::optional(positions(s, parts, out)) : std::nullopt;
    }
    p.shape = out.shape;
    return s.make(iota_p, p, {}, out);
  }
  if (depth == 0 || !is_elementwise(e) || element_cost(e) > 1) return std::nullopt;
  Atoms inputs;
  for (const Atom& x : e.inputs) {
    auto made = made_of_parts(s, parts, x, depth - 1);
    if (!made) return std::nullopt;
    inputs.push_back(*made);
  }
  return s.make(*e.primitive, e.params, std::move(inputs), out);
}

/// A pad with zeros along one dimension, before or behind.
struct ZeroPad {
  const Atom* x;
  std::size_t d;
  std::int64_t before, behind;
};
std::optional<ZeroPad> zero_pad(Simplifier& s, const Atom& a) {
  const Eqn* pad = s.defined_by(a, pad_p);
  if (pad == nullptr || !s.used_once(a) || !s.is(pad->inputs[1], 0) || !is_float(s.aval(a).dtype))
    return std::nullopt;
  std::optional<ZeroPad> out;
  const auto& config = pad->params.as<PadParams>().padding_config;
  for (std::size_t d = 0; d < config.size(); ++d) {
    const auto [low, high, interior] = config[d];
    if (low == 0 && high == 0 && interior == 0) continue;
    if (out || interior != 0 || low < 0 || high < 0 || (low != 0 && high != 0)) return std::nullopt;
    out = ZeroPad{&pad->inputs[0], d, low, high};
  }
  return out;
}

/// The operands of two pads that fill each other's zeros, in order; both are parts of one array.
std::optional<Atom> filled(Simplifier& s, const Atom& a, const Atom& b) {
  const auto p = zero_pad(s, a), q = zero_pad(s, b);
  if (!p || !q || p->d != q->d) return std::nullopt;
  const ZeroPad &left = p->before == 0 ? *p : *q, &right = p->before == 0 ? *q : *p;
  const Aval out = s.aval(a);
  if (left.before != 0 || right.behind != 0 || left.behind + right.before != out.shape[p->d])
    return std::nullopt;
  const Atoms inputs{*left.x, *right.x};
  Parts parts;
  if (parts_of(s, inputs, p->d, parts) == nullptr) return std::nullopt;
  ConcatenateParams c;
  c.dimension = static_cast<std::int64_t>(p->d);
  return s.make(concatenate_p, c, inputs, out);
}

}  // namespace

// The columns of the identity, moved: comparisons of moved positions.
std::optional<Atom> concatenation_of_parts(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto d = static_cast<std::size_t>(e.params.as<ConcatenateParams>().dimension);
  Parts parts;
  const Atom* found = parts_of(s, e.inputs, d, parts);
  if (found == nullptr) return std::nullopt;
  const Atom whole = *found;
  if (s.aval(whole).size() * 2 > kMuchSmaller * out.size()) return std::nullopt;
  // A vector of positions is no better than what it was.
  return out.ndim() < 2 ? std::nullopt : made_of_parts(s, parts, whole, kDeepest);
}

// (p + pad a) + pad b = (p + 0) + (a b), where the pads are zero beside each other: each element of a
// sum is x + y + 0, in which the place of the 0 changes no bit, for it only turns a -0 into 0.
std::optional<Atom> sum_of_pads(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!is_float(out.dtype) || out.shape.empty()) return std::nullopt;
  if (const auto both = filled(s, e.inputs[0], e.inputs[1]))
    return s.make(add_p, NoParams{}, {*both, s.filled(0, out)}, out);
  for (const std::size_t i : {0, 1}) {
    const Eqn* inner = s.used_once(e.inputs[i]) ? s.defined_by(e.inputs[i], add_p) : nullptr;
    if (inner == nullptr) continue;
    const Atoms terms = inner->inputs;
    const Atom last = e.inputs[1 - i];
    for (const std::size_t j : {1, 0}) {
      const auto both = filled(s, terms[j], last);
      if (!both) continue;
      const Atom first = s.make(add_p, NoParams{}, {terms[1 - j], s.filled(0, out)}, out);
      return j == 1 ? s.make(add_p, NoParams{}, {first, *both}, out)
                    : s.make(add_p, NoParams{}, {*both, first}, out);
    }
  }
  return std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
