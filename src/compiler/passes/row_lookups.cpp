// Numbers that are looked up in several columns of the same short rows are columns of rows that are looked up: a row is read
// at once, and its numbers put where lanes want them by shuffles.
//
//   let a = gather x (concatenate i 0), b = gather x (concatenate i 1)
//   ->   let r:f32[n,2] = gather[slice_sizes=(1,2)] x i, a = reshape (slice[0:1] r), b = reshape (slice[1:2] r)
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kLeast = 64;  // rows that are looked up
constexpr std::size_t kMostEquations = 20'000;

/// One number of each row, in a column that is known.
struct Lookup {
  std::size_t eqn;
  std::int64_t column;
  Atoms rows;  ///< the columns of indices that say which row
};

/// Look-ups in the same rows.
struct Group {
  std::vector<Lookup> lookups;
  std::optional<Atom> found;  ///< the rows, in the new program, once they are looked up
};

class RowLookups {
 public:
  explicit RowLookups(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr), producers_(detail::producers(jaxpr)), group_of_(jaxpr.eqns().size(), kNone) {
    for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) {
      if (auto lookup = lookup_of(e)) add(std::move(*lookup));
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!is_worth_it(groups_[g])) continue;
      for (const Lookup& l : groups_[g].lookups) group_of_[l.eqn] = g;
    }
  }

  Jaxpr run() {
    bool changed = false;
    JaxprBuilder b;
    detail::Renaming atoms(jaxpr_);
    atoms.push_inputs(b);
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (group_of_[e] != kNone) {
        Group& group = groups_[group_of_[e]];
        const auto same = [e](const Lookup& l) { return l.eqn == e; };
        const Lookup& lookup = *std::find_if(group.lookups.begin(), group.lookups.end(), same);
        if (!group.found) group.found = look_up(b, eqn, atoms(lookup.rows), atoms(eqn.inputs[0]));
        const Aval& out = jaxpr_.aval(eqn.outputs[0]);
        atoms.push(Atom::var(b.add_eqn1(reshape_p, Params::of(ReshapeParams{out.shape}),
                                        {column(b, *group.found, lookup.column, eqn.where)}, out,
                                        Effect::none, eqn.where)));
        changed = true;
        continue;
      }
      Params params = detail::map_jaxprs(eqn.params, join_lookups, changed);
      atoms.push(b.add_eqn(*eqn.primitive, std::move(params), atoms(eqn.inputs),
                           atoms.out_avals(eqn), eqn.effect, eqn.where));
    }
    return changed ? b.build(atoms(jaxpr_.outs())).jaxpr : jaxpr_;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  const Eqn* made_by(const Atom& a, const PrimitiveBase& p) const {
    const int e = a.is_var() ? producers_[static_cast<std::size_t>(a.var())] : -1;
    if (e < 0) return nullptr;
    const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(e)];
    return eqn.primitive == &p ? &eqn : nullptr;
  }
  /// The number that all elements are.
  std::optional<std::int64_t> splat(const Atom& a) const {
    const Eqn* const b = made_by(a, broadcast_in_dim_p);
    if (b == nullptr || b->inputs[0].is_var() || b->inputs[0].literal().size() != 1)
      return std::nullopt;
    return b->inputs[0].literal().item<std::int64_t>();
  }

  std::optional<Lookup> lookup_of(std::size_t e) const {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (eqn.primitive != &gather_p || !eqn.inputs[0].is_var()) return std::nullopt;
    const auto& p = eqn.params.as<GatherParams>();
    const GatherDimensionNumbers& d = p.dimension_numbers;
    const Aval& of = jaxpr_.aval(eqn.inputs[0]);
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Eqn* const joined = made_by(eqn.inputs[1], concatenate_p);
    const auto ndim = static_cast<std::size_t>(of.ndim());
    if (joined == nullptr || ndim < 2 || d.collapsed_slice_dims.size() != ndim ||
        d.start_index_map.size() != ndim || joined->inputs.size() != ndim ||
        !d.operand_batching_dims.empty() ||
        joined->params.as<ConcatenateParams>().dimension != out.ndim() || out.size() < kLeast ||
        of.shape.back() < 2 || of.shape.back() > kShortRow || is_complex(of.dtype))
      return std::nullopt;
    const auto is_column = [&](const Atom& a) { return jaxpr_.aval(a).shape.back() == 1; };
    if (!std::all_of(joined->inputs.begin(), joined->inputs.end(), is_column)) return std::nullopt;
    Lookup lookup{e, -1, {}};
    Atoms by_axis(ndim, joined->inputs[0]);
    for (std::size_t k = 0; k < ndim; ++k)
      by_axis[static_cast<std::size_t>(d.start_index_map[k])] = joined->inputs[k];
    const auto column = splat(by_axis.back());
    by_axis.pop_back();
    const bool known = column && *column >= 0 && *column < of.shape.back();
    if (!known ||
        std::all_of(by_axis.begin(), by_axis.end(), [&](const Atom& a) { return splat(a); }))
      return std::nullopt;
    lookup.column = *column;
    lookup.rows = std::move(by_axis);
    return lookup;
  }

  void add(Lookup lookup) {
    const Eqn& eqn = jaxpr_.eqns()[lookup.eqn];
    const auto& p = eqn.params.as<GatherParams>();
    const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      const Lookup& other = g.lookups[0];
      const Eqn& o = jaxpr_.eqns()[other.eqn];
      const auto& q = o.params.as<GatherParams>();
      return o.inputs[0] == eqn.inputs[0] && other.rows == lookup.rows && q.mode == p.mode &&
             q.fill_value == p.fill_value;
    });
    if (found != groups_.end()) found->lookups.push_back(std::move(lookup));
    else groups_.push_back({{std::move(lookup)}, {}});
  }

  // Where most of a row is wanted: reading it takes as long as reading two of its numbers.
  bool is_worth_it(const Group& group) const {
    std::set<std::int64_t> columns;
    for (const Lookup& l : group.lookups) columns.insert(l.column);
    const auto row = jaxpr_.aval(jaxpr_.eqns()[group.lookups[0].eqn].inputs[0]).shape.back();
    return columns.size() > 1 && 2 * static_cast<std::int64_t>(columns.size()) >= row;
  }

  Atom look_up(JaxprBuilder& b, const Eqn& one, Atoms rows, const Atom& operand) const {
    GatherParams p = one.params.as<GatherParams>();
    const Aval of = b.aval(operand);
    Aval out = jaxpr_.aval(one.outputs[0]);
    const std::int64_t behind = out.ndim(), last = of.ndim() - 1;
    p.dimension_numbers.offset_dims = {behind};
    p.dimension_numbers.collapsed_slice_dims = {};
    for (std::int64_t d = 0; d < last; ++d) p.dimension_numbers.collapsed_slice_dims.push_back(d);
    p.dimension_numbers.start_index_map = p.dimension_numbers.collapsed_slice_dims;
    p.slice_sizes[static_cast<std::size_t>(last)] = of.shape.back();
    p.indices_are_sorted = p.unique_indices = false;
    Atom places = rows[0];
    if (rows.size() > 1) {
      Aval vectors = b.aval(places);
      vectors.shape[static_cast<std::size_t>(behind)] = last;
      places = Atom::var(b.add_eqn1(concatenate_p, Params::of(ConcatenateParams{behind}),
                                    std::move(rows), vectors, Effect::none, one.where));
    }
    out.shape.push_back(of.shape.back());
    return Atom::var(b.add_eqn1(gather_p, Params::of(std::move(p)), {operand, places}, out,
                                Effect::none, one.where));
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // by equation
};

}  // namespace

Jaxpr join_lookups(const Jaxpr& jaxpr) {
  return jaxpr.eqns().size() > kMostEquations ? jaxpr : RowLookups(jaxpr).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
