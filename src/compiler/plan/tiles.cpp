// Kernels that read the same large arrays one after the other, run tile by tile.
//
// A softmax or a normalisation reads its array three times. Where all of it does not fit into the second
// cache, some rows do; and where it goes along the first dimension, a thousand columns. A row is what belongs
// to one index of the first dimension, a column to one of the last. Kernels go together if what they read of
// each other's results is of the same row (or column), and if no two values share memory in another way than
// element by element.
//
// Where sums over all rows are among what is done, as in the gradient of a normalisation, seven passes over
// memory become two. Such sums are folded in parts of the rows; a tile is of one part, adds to its partial
// results, and what these amount to is there after all tiles.
#include "compiler/plan/tiles.hpp"

#include <algorithm>
#include <span>

#include "compiler/emit/emit_reduction.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/fuse.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // bytes of a value: smaller ones stay in the cache anyway
constexpr std::int64_t kColumns = 1024;   // whole pages of a row: fewer side by side are no stream
constexpr std::int64_t kLongRow = 4 << 10;    // elements: lanes run along it, and it may be a tile
constexpr std::int64_t kTileBytes = 1 << 20;  // of all large values of a tile, at most
constexpr std::int64_t kBestTile = 32 << 10;  // about as many, if rows allow it
constexpr std::int64_t kLeastTiles = 8;       // that threads share out
constexpr std::size_t kMostMembers = 120;     // of a function

/// Which way arrays are cut.
struct Cut {
  bool by_columns;
  std::int64_t extent;  ///< of the dimension: rows or columns

  static std::int64_t extent_of(const Shape& shape, bool by_columns) {
    return shape.empty() ? 1 : by_columns ? shape.back() : shape[0];
  }
  bool fits(const Shape& shape) const { return extent_of(shape, by_columns) == extent; }
  std::int64_t dim(const Shape& shape) const { return by_columns ? shape.ndim() - 1 : 0; }
};

/// Steps that go together.
struct TileGroup {
  std::size_t count = 1;
  Cut cut{};
  std::int64_t width = 0;  ///< of a tile
};

class TileGrouper {
 public:
  explicit TileGrouper(const Plan& plan) : plan_(plan) {
    for (const Scope& s : plan.scopes) producers_.push_back(producers(s.jaxpr));
  }

  std::vector<Step> grouped(std::span<Step> steps) const {
    std::vector<Step> out;
    for (std::span<Step> rest = steps; !rest.empty();) {
      const TileGroup group = steps_together(rest);
      if (group.count == 1) out.push_back(std::move(rest[0]));
      else out.push_back(tiles_of(rest.first(group.count), group));
      rest = rest.subspan(group.count);
    }
    return out;
  }
  std::vector<std::size_t> heads() const {
    std::vector<std::size_t> out;
    for (std::span<const Step> rest(plan_.steps); !rest.empty();) {
      const std::size_t head = out.size(), count = steps_together(rest).count;
      out.resize(head + count, head);
      rest = rest.subspan(count);
    }
    return out;
  }

 private:
  const Value& value(int v) const { return plan_.values[static_cast<std::size_t>(v)]; }
  const Scope& scope(const Step& s) const {
    return plan_.scopes[static_cast<std::size_t>(s.scope)];
  }
  static const Eqn& eqn(const Scope& scope, int e) {
    return scope.jaxpr.eqns()[static_cast<std::size_t>(e)];
  }

  // Those of these steps, from the first on, that are worth to go together.
  TileGroup steps_together(std::span<const Step> steps) const {
    TileGroup best;
    for (const bool by_columns : {false, true}) {
      const Cut cut{by_columns, Cut::extent_of(steps[0].kernel.shape, by_columns)};
      for (std::size_t n = 1; n <= steps.size() && go_together(steps.first(n), cut); ++n) {
        const std::int64_t width = tile_width(steps.first(n), cut);
        if (width > 0 && n > best.count) best = {n, cut, width};
      }
    }
    return best;
  }

  Step tiles_of(std::span<Step> steps, const TileGroup& group) const {
    Step out;
    out.kind = Step::Kind::tiles;
    out.trips = group.cut.extent;
    out.grain = group.width;
    out.by_columns = group.cut.by_columns;
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
  bool go_together(std::span<const Step> steps, const Cut& cut) const {
    const Step& last = steps.back();
    if (!can_be_cut(last, cut)) return false;
    std::set<int> touched, written, late;
    std::size_t members = 0;
    std::int64_t part = 0;  // rows; the same for all
    for (const Step& s : steps) {
      const auto again = [&](int v) { return touched.contains(v); };
      if (&s == &last && &s != &steps[0] && std::none_of(s.reads.begin(), s.reads.end(), again))
        return false;
      if (std::any_of(s.reads.begin(), s.reads.end(), [&](int v) { return late.contains(v); }))
        return false;
      add_late(s, late);
      if (!s.kernel.columns.empty()) {
        if (part > 0 && part != rows_of_part(s.kernel)) return false;
        part = rows_of_part(s.kernel);
      }
      touched.insert(s.reads.begin(), s.reads.end());
      touched.insert(s.writes.begin(), s.writes.end());
      written.insert(s.writes.begin(), s.writes.end());
      members += s.kernel.members.size();
    }
    if (members > kMostMembers) return false;
    // Results may lie where donated arguments do.
    std::set<int> alike = written;
    for (const int w : written) {
      const Location at = value(w).location;
      if (at.kind != Location::Kind::result || late.contains(w)) continue;
      for (const int a : plan_.reusable[static_cast<std::size_t>(at.index)]) {
        if (touched.contains(a) && value(a).aval.size() != value(w).aval.size()) return false;
        alike.insert(a);
      }
    }
    return std::all_of(steps.begin(), steps.end(),
                       [&](const Step& s) { return reads_alike(s, alike, cut); }) &&
           std::all_of(written.begin(), written.end(), [&](int w) {
             return std::all_of(touched.begin(), touched.end(), [&](int v) {
               const bool in_tiles = !late.contains(v) && !late.contains(w);
               return v == w || lie_apart(v, w, in_tiles && written.contains(v));
             });
           });
  }

  // What a step that folds rows and columns has of the columns: it is there after all tiles.
  void add_late(const Step& s, std::set<int>& late) const {
    late.insert(s.kernel.partials.begin(), s.kernel.partials.end());
    for (const int e : s.kernel.columns) {
      const Var v = eqn(scope(s), e).outputs[0];
      late.insert(scope(s).value_of[static_cast<std::size_t>(v)]);
    }
  }
  // Whether the rows of a fold both ways are in parts that tiles can be cut from.
  static bool parts_can_be_cut(const Kernel& k, const Cut& cut) {
    if (cut.by_columns || k.columns.empty()) return false;
    const std::vector<FoldDim> dims = merged_dims(k);
    return dims.size() == 2 && dims[0].size == cut.extent && rows_of_part(k) % kRowsOfTile == 0;
  }

  // Whether some rows or columns of a kernel can be done alone.
  bool can_be_cut(const Step& s, const Cut& cut) const {
    const Kernel& k = s.kernel;
    if (s.kind != Step::Kind::kernel || !cut.fits(k.shape) || k.segments) return false;
    if ((!k.partials.empty() || !k.columns.empty()) && !parts_can_be_cut(k, cut)) return false;
    const Scope& in = scope(s);
    std::set<int> late;
    add_late(s, late);
    const auto fits = [&](Var v) {
      return late.contains(in.value_of[static_cast<std::size_t>(v)]) ||
             cut.fits(in.jaxpr.aval(v).shape);
    };
    if (!std::all_of(k.roots.begin(), k.roots.end(), fits) ||
        !std::all_of(k.epilogue.begin(), k.epilogue.end(), fits))
      return false;
    if (k.kind == Kernel::Kind::loop) {
      const auto transposes = [&](int e) { return eqn(in, e).primitive == &transpose_p; };
      const bool flat = k.linear && k.shape.num_elements() != cut.extent;
      return std::none_of(k.members.begin(), k.members.end(), transposes) &&
             (!cut.by_columns || (k.woven.empty() && !flat));
    }
    if (k.kind != Kernel::Kind::reduction) return false;
    if (!k.columns.empty()) return true;
    const std::vector<FoldDim> dims = merged_dims(k);
    const auto kept = std::count_if(dims.begin(), dims.end(), [](auto& d) { return !d.folded; });
    if (kept == static_cast<std::int64_t>(dims.size())) return false;
    // Nothing but the columns is kept; or rows are what is kept first.
    return cut.by_columns ? kept == 1 && !dims.back().folded && dims.back().size == cut.extent
                          : !dims[0].folded;
  }

  // Whether a step reads these values at the rows or columns that it computes, if at all.
  bool reads_alike(const Step& s, const std::set<int>& values, const Cut& cut) const {
    const Scope& in = scope(s);
    const std::vector<int>& producer = producers_[static_cast<std::size_t>(s.scope)];
    std::set<Var> made_of_them;
    const std::vector<int>& late = s.kernel.columns;
    for (const int e : s.kernel.members) {
      if (std::find(late.begin(), late.end(), e) != late.end()) continue;
      for (const Atom& a : eqn(in, e).inputs) {
        if (!a.is_var()) continue;
        const auto v = static_cast<std::size_t>(a.var());
        const bool inside = producer[v] >= 0 && s.kernel.members.contains(producer[v]);
        if (!(inside ? made_of_them.contains(a.var()) : values.contains(in.value_of[v]))) continue;
        if (!keeps_place(in.jaxpr, eqn(in, e), a, cut)) return false;
        made_of_them.insert(eqn(in, e).outputs.begin(), eqn(in, e).outputs.end());
      }
    }
    return true;
  }

  // Whether row (or column) i of the results needs that of the operand only.
  static bool keeps_place(const Jaxpr& jaxpr, const Eqn& e, const Atom& operand, const Cut& cut) {
    const Shape &from = jaxpr.aval(operand).shape, &to = jaxpr.aval(e.outputs[0]).shape;
    if (!cut.fits(from) || !cut.fits(to)) return false;
    switch (form_of(jaxpr, e)) {
      case Form::element: return from == to;
      case Form::reshape: return true;
      case Form::reduction: return !reduction_axes(e).contains(cut.dim(from));
      default: break;
    }
    const auto dim = static_cast<std::size_t>(cut.dim(from));
    if (e.primitive == &broadcast_in_dim_p)
      return e.params.as<BroadcastInDimParams>().broadcast_dimensions[dim] == cut.dim(to);
    // What moves elements along other dimensions.
    if (e.primitive == &slice_p) return true;  // as long as before: all of it
    if (e.primitive == &concatenate_p)
      return e.params.as<ConcatenateParams>().dimension != cut.dim(to);
    return e.primitive == &pad_p && pads_nothing(e.params.as<PadParams>().padding_config[dim]);
  }

  /// Bytes of an argument, a result or the arena; others have no kind.
  struct Extent {
    Location::Kind kind = Location::Kind::none;
    std::int64_t of = 0, begin = 0, end = 0;
  };
  Extent extent_of(int v) const {
    using Kind = Location::Kind;
    const Location at = value(v).location;
    const std::int64_t bytes = value(v).bytes();
    switch (at.kind) {
      case Kind::argument:
      case Kind::result: return {at.kind, at.index, 0, bytes};
      case Kind::in_result: {
        const auto [result, offset] = plan_.in_result(at);
        return {Kind::result, result, offset, offset + bytes};
      }
      case Kind::arena: return {at.kind, 0, at.index, at.index + bytes};
      default: return {};
    }
  }
  bool has_no_place(int v) const {
    return value(v).slot < 0 && value(v).location.kind == Location::Kind::none;
  }
  // Whether two values lie apart, or one where the other did, element by element.
  bool lie_apart(int v, int w, bool both_written) const {
    if (has_no_place(v) || has_no_place(w)) return true;
    const Extent a = extent_of(v), b = extent_of(w);
    if (a.kind == Location::Kind::none || b.kind == Location::Kind::none) return false;
    if (a.kind != b.kind || a.of != b.of) return true;
    const bool same_place = both_written && a.begin == b.begin && a.end == b.end &&
                            value(v).aval.size() == value(w).aval.size();
    return a.end <= b.begin || b.end <= a.begin || same_place;
  }

  // ---- is it worth it? ---------------------------------------------------------------------------
  // The rows or columns of a tile; 0 where nothing large is read again.
  std::int64_t tile_width(std::span<const Step> steps, const Cut& cut) const {
    std::set<int> once, again, late;
    std::int64_t part = 0;  // rows
    for (const Step& s : steps) {
      std::set<int> here(s.reads.begin(), s.reads.end());
      here.insert(s.writes.begin(), s.writes.end());
      add_late(s, late);
      std::erase_if(here, [&](int v) { return late.contains(v); });
      if (!s.kernel.columns.empty()) part = rows_of_part(s.kernel);
      for (const int v : here) {
        if (value(v).bytes() >= kLarge && !once.insert(v).second) again.insert(v);
      }
    }
    if (again.empty()) return 0;
    std::int64_t bytes = 0;
    for (const int v : once) bytes += weight_of(value(v).aval);
    const std::int64_t each = std::max<std::int64_t>(bytes / cut.extent, 1);
    // Kernels over single elements of the rows may be among them.
    const auto may_do_one = [&](const Step& s) {
      const std::int64_t row = s.kernel.shape.num_elements() / cut.extent;
      return (row >= kLongRow && row % kRowsOfTile == 0) ||
             (row == 1 && s.kernel.kind == Kernel::Kind::loop);
    };
    const std::int64_t rows = std::all_of(steps.begin(), steps.end(), may_do_one) ? 1 : kRowsOfTile;
    std::int64_t width =
        cut.by_columns ? kColumns : std::max(kBestTile / each / rows, std::int64_t{1}) * rows;
    if (part > 0) {  // tiles of it, all equal
      for (width = std::min(std::max(width, kRowsOfTile) / kRowsOfTile * kRowsOfTile, part);
           part % width != 0;)
        width -= kRowsOfTile;
    }
    return width * each <= kTileBytes && cut.extent >= kLeastTiles * width ? width : 0;
  }

  const Plan& plan_;
  std::vector<std::vector<int>> producers_;  // of each scope
};

}  // namespace

void group_tiles(Plan& plan) { plan.steps = TileGrouper(plan).grouped(plan.steps); }

bool may_have_tiles(const Plan& plan) {
  return std::any_of(plan.scopes.begin(), plan.scopes.end(),
                     [](const Scope& s) { return has_large_values(s.jaxpr); });
}

std::vector<std::size_t> heads_of_tiles(const Plan& plan) { return TileGrouper(plan).heads(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
