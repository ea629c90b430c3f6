// The rule that lets a loop overwrite its carry in place although a condition decides whether to.
#include <algorithm>

#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// ---- updates -------------------------------------------------------------------------------------
// The gather that reads the windows which a scatter writes to; 0 where it drops the update.
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
    Atom kept = Atom::literal(detail::convert_scalar(Array(-0.0), out.dtype));
    if (!adds) kept = o.read(s, base);
    else if (!o.window.empty())
      kept = s.make(broadcast_in_dim_p, BroadcastInDimParams{o.window, {}}, {kept}, window);
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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
