// Kernels that read the columns of the same large arrays one after the other, run tile by tile.
//
// A softmax or a normalisation along the first dimension reads its array three times. Where all of it does
// not fit into the second cache, a thousand columns do. A column is what belongs to one index of the last
// dimension. Kernels go together if what they read of each other's results is of the same column, and if no
// two values share memory in another way than element by element.
//
// Rows are left to one kernel after the other: processors see them coming. Tiles of rows gained 5 % where
// 4 MiB are normalised, and lost as much where 16 MiB are (Zen 4).
#include "compiler/tiles.hpp"

#include <algorithm>
#include <span>

#include "compiler/emit_reduction.hpp"
#include "compiler/forms.hpp"
#include "compiler/fuse.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // bytes of a value: smaller ones stay in the cache anyway
constexpr std::int64_t kTile = 1024;      // columns, whole pages of a row: fewer are no stream
constexpr std::int64_t kTileBytes = 1 << 20;  // of all large values of a tile, at most
constexpr std::int64_t kLeastTiles = 8;       // that threads share out
constexpr std::size_t kMostMembers = 80;      // of a function

std::int64_t columns_of(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

class Tiling {
 public:
  explicit Tiling(Plan& plan) : plan_(plan) {
    for (const Scope& s : plan.scopes) producers_.push_back(producers(s.jaxpr));
  }

  void run() {
    std::vector<Step> out;
    for (std::span<Step> rest(plan_.steps); !rest.empty();) {
      const std::size_t count = steps_together(rest);
      if (count == 1) out.push_back(std::move(rest[0]));
      else out.push_back(tiles_of(rest.first(count)));
      rest = rest.subspan(count);
    }
    plan_.steps = std::move(out);
  }

 private:
  const Value& value(int v) const { return plan_.values[static_cast<std::size_t>(v)]; }
  const Scope& scope(const Step& s) const {
    return plan_.scopes[static_cast<std::size_t>(s.scope)];
  }
  static const Eqn& eqn(const Scope& scope, int e) {
    return scope.jaxpr.eqns()[static_cast<std::size_t>(e)];
  }

  // How many of these steps, from the first on, are worth to go together.
  std::size_t steps_together(std::span<const Step> steps) const {
    std::size_t best = 1;
    const std::int64_t columns = columns_of(steps[0].kernel.shape);
    for (std::size_t n = 1; n <= steps.size() && go_together(steps.first(n), columns); ++n) {
      if (is_worth_it(steps.first(n), columns)) best = n;
    }
    return best;
  }

  Step tiles_of(std::span<Step> steps) const {
    Step out;
    out.kind = Step::Kind::tiles;
    out.trips = columns_of(steps[0].kernel.shape);
    out.grain = kTile;
    std::set<int> reads, writes;
    for (const Step& s : steps) {
      reads.insert(s.reads.begin(), s.reads.end());
      writes.insert(s.writes.begin(), s.writes.end());
    }
    out.reads.assign(reads.begin(), reads.end());
    out.writes.assign(writes.begin(), writes.end());
    out.bodies.emplace_back(std::make_move_iterator(steps.begin()),
                            std::make_move_iterator(steps.end()));
    return out;
  }

  // ---- what goes together ------------------------------------------------------------------------
  // Whether the last step can go with those before it, which can go together.
  bool go_together(std::span<const Step> steps, std::int64_t columns) const {
    const Step& last = steps.back();
    if (!can_be_cut(last, columns)) return false;
    std::set<int> touched, written;
    std::size_t members = 0;
    for (const Step& s : steps) {
      const auto again = [&](int v) { return touched.contains(v); };
      if (&s == &last && &s != &steps[0] && std::none_of(s.reads.begin(), s.reads.end(), again))
        return false;
      touched.insert(s.reads.begin(), s.reads.end());
      touched.insert(s.writes.begin(), s.writes.end());
      written.insert(s.writes.begin(), s.writes.end());
      members += s.kernel.members.size();
    }
    if (members > kMostMembers) return false;
    // Results may lie where donated arguments do.
    std::set<int> by_columns = written;
    for (const int w : written) {
      const Location at = value(w).location;
      if (at.kind != Location::Kind::result) continue;
      const auto& donated = plan_.reusable[static_cast<std::size_t>(at.index)];
      by_columns.insert(donated.begin(), donated.end());
    }
    return std::all_of(steps.begin(), steps.end(),
                       [&](const Step& s) { return reads_by_columns(s, by_columns, columns); }) &&
           std::all_of(written.begin(), written.end(), [&](int w) {
             return std::all_of(touched.begin(), touched.end(), [&](int v) {
               return v == w || lie_apart(v, w, written.contains(v));
             });
           });
  }

  // Whether some columns of a kernel can be done alone (KernelContext::by_columns).
  bool can_be_cut(const Step& s, std::int64_t columns) const {
    const Kernel& k = s.kernel;
    if (s.kind != Step::Kind::kernel || columns_of(k.shape) != columns || k.segments ||
        !k.partials.empty())
      return false;
    const Scope& in = scope(s);
    const auto fits = [&](Var v) { return columns_of(in.jaxpr.aval(v).shape) == columns; };
    if (!std::all_of(k.roots.begin(), k.roots.end(), fits) ||
        !std::all_of(k.epilogue.begin(), k.epilogue.end(), fits))
      return false;
    if (k.kind == Kernel::Kind::loop) {
      const auto transposes = [&](int e) { return eqn(in, e).primitive == &transpose_p; };
      return k.woven.empty() && (!k.linear || k.shape.num_elements() == columns) &&
             std::none_of(k.members.begin(), k.members.end(), transposes);
    }
    if (k.kind != Kernel::Kind::reduction || !k.columns.empty()) return false;
    // Nothing but the columns is kept.
    const std::vector<FoldDim> dims = merged_dims(k);
    return dims.size() > 1 && dims.back().size == columns &&
           std::none_of(dims.begin(), dims.end(),
                        [&](const FoldDim& d) { return d.folded == (&d == &dims.back()); });
  }

  // Whether a step reads these values at the columns that it computes, if at all.
  bool reads_by_columns(const Step& s, const std::set<int>& values, std::int64_t columns) const {
    const Scope& in = scope(s);
    const std::vector<int>& producer = producers_[static_cast<std::size_t>(s.scope)];
    std::set<Var> made_of_them;
    for (const int e : s.kernel.members) {
      for (const Atom& a : eqn(in, e).inputs) {
        if (!a.is_var()) continue;
        const auto v = static_cast<std::size_t>(a.var());
        const bool inside = producer[v] >= 0 && s.kernel.members.contains(producer[v]);
        if (!(inside ? made_of_them.contains(a.var()) : values.contains(in.value_of[v]))) continue;
        if (!keeps_columns(in.jaxpr, eqn(in, e), a, columns)) return false;
        made_of_them.insert(eqn(in, e).outputs.begin(), eqn(in, e).outputs.end());
      }
    }
    return true;
  }

  // Whether column i of the results needs column i of the operand only.
  static bool keeps_columns(const Jaxpr& jaxpr, const Eqn& e, const Atom& operand,
                            std::int64_t columns) {
    const Shape &from = jaxpr.aval(operand).shape, &to = jaxpr.aval(e.outputs[0]).shape;
    if (columns_of(from) != columns || columns_of(to) != columns) return false;
    switch (form_of(jaxpr, e)) {
      case Form::element: return from == to;
      case Form::reshape: return true;
      case Form::reduction: return !reduction_axes(e).contains(from.ndim() - 1);
      default: break;
    }
    return e.primitive == &broadcast_in_dim_p &&
           e.params.as<BroadcastInDimParams>().broadcast_dimensions.back() + 1 == to.ndim();
  }

  // Whether two values lie apart, or one where the other did, element by element.
  bool lie_apart(int v, int w, bool both_written) const {
    using Kind = Location::Kind;
    const Location a = value(v).location, b = value(w).location;
    const std::int64_t a_end = a.index + value(v).bytes(), b_end = b.index + value(w).bytes();
    for (const Kind kind : {a.kind, b.kind}) {
      if (kind != Kind::argument && kind != Kind::result && kind != Kind::arena) return false;
    }
    if (a.kind != b.kind) return true;
    if (a.kind != Kind::arena) return a.index != b.index;
    return a_end <= b.index || b_end <= a.index ||
           (both_written && a.index == b.index && a_end == b_end &&
            value(v).aval.size() == value(w).aval.size());
  }

  // ---- is it worth it? ---------------------------------------------------------------------------
  bool is_worth_it(std::span<const Step> steps, std::int64_t columns) const {
    std::set<int> once, again;
    for (const Step& s : steps) {
      std::set<int> here(s.reads.begin(), s.reads.end());
      here.insert(s.writes.begin(), s.writes.end());
      for (const int v : here) {
        if (value(v).bytes() >= kLarge && !once.insert(v).second) again.insert(v);
      }
    }
    std::int64_t bytes = 0;
    for (const int v : once) bytes += value(v).bytes();
    return !again.empty() && columns >= kLeastTiles * kTile &&
           bytes / columns * kTile <= kTileBytes;
  }

  Plan& plan_;
  std::vector<std::vector<int>> producers_;  // of each scope
};

}  // namespace

void group_tiles(Plan& plan) { Tiling(plan).run(); }

bool has_large_arrays(const Plan& plan) {
  return std::any_of(plan.values.begin(), plan.values.end(),
                     [](const Value& v) { return v.bytes() >= kLarge; });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
