// Updates of a part: those that a condition decides upon, which a loop is to do in place nevertheless, and scatters to
// one place that is known, as programs from JAX write x.at[1:-1].add(y).
#include <algorithm>

#include "compiler/passes/numbers.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

GatherParams windows_of(const ScatterParams& p, const Shape& operand, const Shape& updates) {
  const ScatterDimensionNumbers& d = p.dimension_numbers;
  GatherParams out;
  out.dimension_numbers = {d.update_window_dims, d.inserted_window_dims,
                           d.scatter_dims_to_operand_dims, d.operand_batching_dims,
                           d.scatter_indices_batching_dims};
  auto window_dim = d.update_window_dims.begin();
  for (std::int64_t k = 0; k < operand.ndim(); ++k) {
    const auto lists = [&](const Shape& dims) {
      return std::find(dims.begin(), dims.end(), k) != dims.end();
    };
    const bool one = lists(d.inserted_window_dims) || lists(d.operand_batching_dims);
    out.slice_sizes.push_back(one ? 1 : updates[static_cast<std::size_t>(*window_dim++)]);
  }
  out.mode = p.mode == GatherScatterMode::clip ? p.mode : GatherScatterMode::fill_or_drop;
  out.fill_value = 0;
  return out;
}

namespace {

/// What an equation that overwrites a part of its first operand writes there, and how to read it.
struct Overwriting {
  Eqn eqn;
  std::size_t update;  ///< which operand
  Shape window;        ///< its shape
  Atom read(Simplifier& s, const Atom& from) const {
    const Aval aval = s.aval(from).with_shape(window).strong();
    Atoms inputs{from};
    if (eqn.primitive == &dynamic_update_slice_p) {
      inputs.insert(inputs.end(), eqn.inputs.begin() + 2, eqn.inputs.end());
      return s.make(dynamic_slice_p, DynamicSliceParams{window}, std::move(inputs), aval);
    }
    inputs.push_back(eqn.inputs[1]);
    const auto& p = eqn.params.as<ScatterParams>();
    return s.make(gather_p, windows_of(p, s.aval(from).shape, window), std::move(inputs), aval);
  }
};
std::optional<Overwriting> overwriting(Simplifier& s, const Atom& a) {
  for (const PrimitiveBase* p : {static_cast<const PrimitiveBase*>(&dynamic_update_slice_p),
                                 static_cast<const PrimitiveBase*>(&scatter_p),
                                 static_cast<const PrimitiveBase*>(&scatter_add_p)}) {
    const Eqn* eqn = s.defined_by(a, *p);
    if (eqn == nullptr) continue;
    if (eqn->params.holds<ScatterParams>() && eqn->params.as<ScatterParams>().wraps)
      return std::nullopt;  // no gather reads these windows
    const std::size_t update = p == &dynamic_update_slice_p ? 1 : 2;
    return Overwriting{*eqn, update, s.aval(eqn->inputs[update]).shape};
  }
  return std::nullopt;
}
// Whether `a` is `old` with a small part overwritten, once or several times.
bool updates(Simplifier& s, Atom a, const Atom& old) {
  constexpr int kMost = 8;
  for (int i = 0; i < kMost; ++i) {
    const auto o = overwriting(s, a);
    if (!o || 2 * o->window.num_elements() > s.aval(a).size()) return false;
    a = o->eqn.inputs[0];
    if (a == old) return true;
  }
  return false;
}
}  // namespace

// select(p, y, update(y, u, i)) = update(y, select(p, y[i], u), i): the loop that carries y can do it in
// place. Reads and writes treat indices out of bounds alike, and what is written twice is written in
// the same order. Where u is added, -0 is instead.
std::optional<Atom> select_update(Simplifier& s, const Eqn& e, const Aval& out) {
  if (e.inputs.size() != 3) return std::nullopt;
  for (const std::size_t side : {1, 2}) {
    const Atom& old = e.inputs[3 - side];
    if (old.is_literal() || !updates(s, e.inputs[side], old)) continue;
    const Overwriting o = *overwriting(s, e.inputs[side]);
    const bool adds = o.eqn.primitive == &scatter_add_p;
    if (adds && !is_float(out.dtype) && !is_integer(out.dtype)) return std::nullopt;
    const auto either = [&](const Atom& which, const Atom& updated, const Atom& kept,
                            const Aval& aval) {
      Atoms inputs = {which, updated, kept};
      if (side == 2) std::swap(inputs[1], inputs[2]);
      return s.make(select_n_p, NoParams{}, std::move(inputs), aval);
    };
    Atom base = o.eqn.inputs[0];
    if (!(base == old)) base = either(e.inputs[0], base, old, out);
    const Atom which = s.aval(e.inputs[0]).shape.empty() ? e.inputs[0] : o.read(s, e.inputs[0]);
    const Aval window = out.with_shape(o.window).strong();
    const Atom kept = adds ? s.filled(-0.0, window) : o.read(s, base);
    Atoms inputs = o.eqn.inputs;
    inputs[0] = base;
    inputs[o.update] = either(which, inputs[o.update], kept, window);
    if (o.eqn.primitive == &dynamic_update_slice_p)
      return s.make(dynamic_update_slice_p, NoParams{}, std::move(inputs), out);
    const auto& scatter = adds ? scatter_add_p : scatter_p;
    return s.make(scatter, o.eqn.params.as<ScatterParams>(), std::move(inputs), out);
  }
  return std::nullopt;
}

namespace {
/// The integers that an array of one dimension is put together of.
std::optional<std::vector<std::int64_t>> whole_numbers(const Simplifier& s, const Atom& a) {
  const std::int64_t count = s.aval(a).size();
  if (const auto all = s.whole_number(a))
    return std::vector<std::int64_t>(static_cast<std::size_t>(count), *all);
  const Eqn* const parts = s.defined_by(a, concatenate_p);
  if (parts == nullptr) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const Atom& part : parts->inputs) {
    const auto some = whole_numbers(s, part);
    if (!some) return std::nullopt;
    out.insert(out.end(), some->begin(), some->end());
  }
  return out;
}

/// Where the only window of a scatter begins, if that is known and all of it is in bounds.
std::optional<Shape> known_place(const Simplifier& s, const Eqn& e, const Shape& window) {
  const auto& p = e.params.as<ScatterParams>();
  const auto starts = whole_numbers(s, e.inputs[1]);
  if (!starts) return std::nullopt;
  const Shape& operand = s.aval(e.inputs[0]).shape;
  Shape first(operand.size(), 0);
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const auto axis = static_cast<std::size_t>(p.dimension_numbers.scatter_dims_to_operand_dims[k]);
    std::int64_t start = (*starts)[k];
    if (p.wraps && start < 0) start += operand[axis];
    if (start < 0 || start > operand[axis] - window[axis]) return std::nullopt;
    first[axis] = start;
  }
  return first;
}
}  // namespace

// scatter(x, place, y) = dynamic_update_slice(x, y, place), and scatter_add(x, place, y) = x + pad(y), which fuses with
// what is before and after it, or where y is small beside x the sum of a part, which may be in place. x + -0 is x.
std::optional<Atom> scatter_at_known(Simplifier& s, const Eqn& e, const Aval& out) {
  const Aval &x = s.aval(e.inputs[0]), &updates = s.aval(e.inputs[2]);
  const auto& p = e.params.as<ScatterParams>();
  const bool adds = e.primitive == &scatter_add_p;
  if (s.aval(e.inputs[1]).ndim() != 1 || updates.size() == 0 || (adds && is_complex(out.dtype)))
    return std::nullopt;
  const Shape window = windows_of(p, x.shape, updates.shape).slice_sizes;
  const auto place = known_place(s, e, window);
  if (!place) return std::nullopt;
  const Aval part = out.with_shape(window).strong();
  Atom y = e.inputs[2];
  if (updates.shape != window) y = s.make(reshape_p, ReshapeParams{window}, {y}, part);
  if (adds) {
    if (2 * part.size() >= out.size()) {
      PadParams pad;
      for (std::size_t d = 0; d < window.size(); ++d)
        pad.padding_config.push_back({(*place)[d], x.shape[d] - window[d] - (*place)[d], 0});
      const Atom nothing = literal_of(-0.0, out.dtype);
      const Atom padded = s.make(pad_p, pad, {y, nothing}, out.strong());
      return s.make(add_p, NoParams{}, {e.inputs[0], padded}, out);
    }
    SliceParams cut{*place, *place, {}};
    for (std::size_t d = 0; d < window.size(); ++d) cut.limit_indices[d] += window[d];
    const Atom before = s.make(slice_p, cut, {e.inputs[0]}, part);
    y = s.make(add_p, NoParams{}, {before, y}, part);
  }
  Atoms inputs{e.inputs[0], y};
  for (const std::int64_t start : *place) inputs.push_back(Atom::literal(Array(start)));
  return s.make(dynamic_update_slice_p, NoParams{}, std::move(inputs), out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
