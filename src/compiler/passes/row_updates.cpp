// Scatters of many single elements whose places are computed: block by block, so that what is computed
// for them stays in a cache.
//   let i = select (lt j 0) (add j n) j, y = scatter_add x i u
//   ->   y = scan(x, block of j, block of u -> scatter_add x (select (lt j 0) (add j n) j) u)
// Updates come in the same order, one block after the other, so no bit changes.
// Index vectors that are put together of columns there are one place each (flat_places.hpp), also of short rows.
//
// Sums that are taken in parts (runtime/scatter_parts.hpp) are a loop whose trips hand each other nothing, so that
// threads share it, whether anything is computed for them or not:
//   ->   t = scan(block of j, block of u -> scatter_add -0.0 (select (lt j 0) (add j n) j) u)
//        y = scan(x, row of t -> add x t)
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/flat_places.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/row_groups.hpp"
#include "compiler/passes/row_rules.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/scatter_parts.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kMostRows = 20480;  // of a block: its operands fit into the second cache
constexpr std::int64_t kLeastRows = 4096;  // fewer do not pay for a trip of the loop
constexpr std::int64_t kLongestRow = 16;   // elements
constexpr std::int64_t kFullLanes = 16;    // blocks of whole vectors are preferred
constexpr std::size_t kMostEquations = 4000;
constexpr int kMostCost = 16;  // cycles per vector: all of it is done by the thread that updates
constexpr std::int64_t kTogether = 8;  // tables of parts that are added in one pass

/// The rows of a block: the most that divide the whole, of whole vectors if possible; 0: none.
std::int64_t rows_of_block(std::int64_t rows) {
  std::int64_t any = 0;
  for (std::int64_t r = std::min(kMostRows, rows / 2); r >= kLeastRows; --r) {
    if (rows % r != 0) continue;
    if (r % kFullLanes == 0) return r;
    any = std::max(any, r);
  }
  return any;
}

/// Whether index vectors are counted by the first dimension of indices and updates, each for a short row.
bool updates_rows(const Jaxpr& jaxpr, const Eqn& e) {
  if (!is_scatter(e) || !e.inputs[1].is_var() || !e.inputs[2].is_var()) return false;
  if (!(jaxpr.aval(e.inputs[0]) == jaxpr.aval(e.outputs[0]))) return false;  // strong and weak
  const auto& d = e.params.as<ScatterParams>().dimension_numbers;
  const Shape& indices = jaxpr.aval(e.inputs[1]).shape;
  const Shape& updates = jaxpr.aval(e.inputs[2]).shape;
  return indices.size() > 1 && indices[0] > 0 && !updates.empty() && updates[0] == indices[0] &&
         !d.update_window_dims.contains(0) && !d.scatter_indices_batching_dims.contains(0) &&
         updates.num_elements() * indices.back() <= kLongestRow * indices.num_elements();
}
/// Whether the rows are of one element.
bool updates_elements(const Jaxpr& jaxpr, const Eqn& e) {
  return jaxpr.aval(e.inputs[2]).size() == jaxpr.aval(e.inputs[2]).shape[0];
}

/// One scatter with what is computed for it alone.
struct RowUpdate {
  int eqn;
  std::int64_t rows, block;
  bool in_parts;                         ///< each block is a part of the sum
  std::set<int> made = {};               ///< equations inside the loop
  std::set<int> same = {};               ///< those of them that give each block the same
  Vars by_blocks = {}, as_a_whole = {};  ///< what these read of what others made
  int flat = -1;  ///< of `made`: index vectors that become places (flat_places.hpp)
  std::int64_t rest() const { return rows % block; }
};

class RowUpdates {
 public:
  RowUpdates(const Jaxpr& jaxpr, Places places) : jaxpr_(jaxpr), places_(places) {
    readers_.resize(static_cast<std::size_t>(jaxpr.num_vars()));
    for (int e = 0; e < static_cast<int>(jaxpr.eqns().size()); ++e) {
      for (const Atom& a : eqn(e).inputs) {
        if (a.is_var()) readers_[static_cast<std::size_t>(a.var())].insert(e);
      }
    }
    for (const Atom& a : jaxpr.outs()) {
      if (a.is_var()) readers_[static_cast<std::size_t>(a.var())].insert(kResult);
    }
  }

  Jaxpr run() {
    std::map<int, RowUpdate> updates;
    for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      if (auto update = update_of(e)) updates.emplace(e, std::move(*update));
    }
    return updates.empty() ? jaxpr_ : rewritten(updates);
  }

 private:
  static constexpr int kResult = -1;
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  const Aval& in(int e, std::size_t i) const { return jaxpr_.aval(eqn(e).inputs[i]); }

  std::optional<RowUpdate> update_of(int e) const {
    if (const std::int64_t part = part_of(e); part > 0) {
      RowUpdate u{.eqn = e, .rows = in(e, 1).shape[0], .block = part, .in_parts = true};
      if (places_ == Places::compute) {
        if (auto with_places = chain_of(u)) return with_places;
      }
      u.by_blocks = {eqn(e).inputs[1].var(), eqn(e).inputs[2].var()};
      return u;
    }
    if (places_ != Places::compute || !updates_rows(jaxpr_, eqn(e))) return std::nullopt;
    RowUpdate u{.eqn = e, .rows = in(e, 1).shape[0], .block = 0, .in_parts = false};
    u.block = rows_of_block(u.rows);
    if (u.block == 0) return std::nullopt;
    auto chain = chain_of(std::move(u));
    if (!chain) return std::nullopt;
    // What is only seen in another shape, or the same everywhere, needs no loop.
    const bool computes = std::any_of(chain->made.begin(), chain->made.end(), [&](int p) {
      return p == chain->flat || (updates_elements(jaxpr_, eqn(e)) && !chain->same.contains(p) &&
                                  form_of(jaxpr_, eqn(p)) == Form::element);
    });
    return computes ? std::move(chain) : std::nullopt;
  }

  /// The rows of a part; 0 where it is no sum in parts.
  std::int64_t part_of(int e) const {
    if (eqn(e).primitive != &scatter_add_p || in(e, 2).shape.empty()) return 0;
    const std::int64_t part =
        runtime::rows_of_part(eqn(e).params.as<ScatterParams>(), jaxpr_.aval(eqn(e).outputs[0]),
                              in(e, 1).shape, in(e, 2).shape);
    return part < in(e, 1).shape[0] ? part : 0;
  }

  /// With what is computed for it alone; nothing if others need that in another way.
  std::optional<RowUpdate> chain_of(RowUpdate u) const {
    const int e = u.eqn;
    const RowRules rules(jaxpr_, u.rows);
    std::map<Var, Need> wanted = {{eqn(e).inputs[1].var(), Need::block}};
    wanted.emplace(eqn(e).inputs[2].var(), Need::block);
    const auto want = [&](int p, const std::vector<Need>& needs) {
      for (std::size_t i = 0; i < needs.size(); ++i) {
        const Atom& a = eqn(p).inputs[i];
        if (a.is_literal()) continue;
        const auto [found, fresh] = wanted.emplace(a.var(), needs[i]);
        if (!fresh && found->second != needs[i]) return false;
      }
      return true;
    };
    int cost = 0;
    for (int p = e - 1; p >= 0; --p) {
      const auto found = eqn(p).outputs.size() == 1 ? wanted.find(eqn(p).outputs[0]) : wanted.end();
      if (found == wanted.end() || found->second != Need::block ||
          !is_fusible(form_of(jaxpr_, eqn(p))))
        continue;
      // What is updated is there as a whole, whatever else reads it.
      if (eqn(e).inputs[0].is_var() && eqn(e).inputs[0].var() == found->first) continue;
      const std::set<int>& readers = readers_[static_cast<std::size_t>(found->first)];
      const bool alone = std::all_of(readers.begin(), readers.end(),
                                     [&](int r) { return r == e || u.made.contains(r); });
      const auto needs = rules.needs(eqn(p));
      if (!(alone || repeats_one(p)) || !needs || cost + element_cost(eqn(p)) > kMostCost) continue;
      if (!want(p, *needs)) return std::nullopt;
      cost += element_cost(eqn(p));
      u.made.insert(p);
      wanted.erase(found);
    }
    for (const auto& [v, need] : wanted)
      (need == Need::block ? u.by_blocks : u.as_a_whole).push_back(v);
    find_same(u);
    for (const int p : u.made) {
      if (is_flat(u, p)) u.flat = p;
    }
    return u;
  }

  // Whether an equation writes one element again and again: whoever wants that makes it for itself.
  bool repeats_one(int p) const {
    return eqn(p).primitive == &broadcast_in_dim_p && in(p, 0).size() == 1;
  }
  // Whether only loops read what an equation gives, each of which makes it for itself.
  bool is_moved(int p, const std::map<int, RowUpdate>& updates) const {
    const std::set<int>& readers = readers_[static_cast<std::size_t>(eqn(p).outputs[0])];
    return std::all_of(readers.begin(), readers.end(), [&](int r) {
      return std::any_of(updates.begin(), updates.end(), [&](const auto& update) {
        const RowUpdate& u = update.second;
        return u.made.contains(p) && (u.eqn == r || u.made.contains(r));
      });
    });
  }
  bool is_flat(const RowUpdate& u, int p) const {
    const Atoms& inputs = eqn(p).inputs;
    return !u.same.contains(p) && eqn(u.eqn).inputs[1].var() == eqn(p).outputs[0] &&
           std::all_of(inputs.begin(), inputs.end(), [](const Atom& a) { return a.is_var(); }) &&
           has_flat_places(jaxpr_, eqn(u.eqn), eqn(p));
  }
  void find_same(RowUpdate& u) const {
    std::set<Var> differ(u.by_blocks.begin(), u.by_blocks.end());
    for (const int p : u.made) {
      const bool same =
          std::none_of(eqn(p).inputs.begin(), eqn(p).inputs.end(),
                       [&](const Atom& a) { return a.is_var() && differ.contains(a.var()); });
      if (same) u.same.insert(p);
      else differ.insert(eqn(p).outputs[0]);
    }
  }

  // The equation over so many rows, of operands that are known.
  template <class Known>
  Atom add_block(JaxprBuilder& b, std::int64_t rows, int p, const Known& known) const {
    Atoms inputs;
    for (const Atom& a : eqn(p).inputs) inputs.push_back(a.is_literal() ? a : known(a.var()));
    return Atom::var(b.add_eqn1(*eqn(p).primitive, RowRules::with_rows(eqn(p), rows),
                                std::move(inputs), with_rows(jaxpr_.aval(eqn(p).outputs[0]), rows),
                                Effect::none, eqn(p).where));
  }
  // The scatter of so many rows, with what is computed for it that is not known yet.
  Atom add_update(JaxprBuilder& b, const RowUpdate& u, std::int64_t rows, const Atom& operand,
                  std::map<Var, Atom> known) const {
    const Eqn& update = eqn(u.eqn);
    for (const int p : u.made) {
      if (p != u.flat && !known.contains(eqn(p).outputs[0]))
        known.emplace(eqn(p).outputs[0], add_block(b, rows, p, [&](Var v) { return known.at(v); }));
    }
    if (u.flat >= 0) {
      Atoms columns;
      for (const Atom& a : eqn(u.flat).inputs) columns.push_back(known.at(a.var()));
      return scatter_at_flat_places(b, update, in(u.eqn, 0).shape, operand, columns,
                                    known.at(update.inputs[2].var()));
    }
    return Atom::var(
        b.add_eqn1(*update.primitive, update.params,
                   {operand, known.at(update.inputs[1].var()), known.at(update.inputs[2].var())},
                   jaxpr_.aval(update.outputs[0]), Effect::none, update.where));
  }

  // What is updated: the operand, or its rows.
  Aval target(const RowUpdate& u) const {
    return u.flat >= 0 ? listed_rows(jaxpr_, eqn(u.eqn)) : jaxpr_.aval(eqn(u.eqn).outputs[0]);
  }

  Jaxpr rewritten(const std::map<int, RowUpdate>& updates) const {
    std::set<int> moved;
    for (const auto& [e, u] : updates) {
      for (const int p : u.made)
        if (is_moved(p, updates)) moved.insert(p);
    }
    JaxprBuilder b;
    std::map<Var, Atom> atoms;
    const auto atom = [&](const Atom& a) { return a.is_literal() ? a : atoms.at(a.var()); };
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      atoms.emplace(v, Atom::var(b.add_input(jaxpr_.aval(v))));
    for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      if (moved.contains(e)) continue;
      if (const auto found = updates.find(e); found != updates.end()) {
        const RowUpdate& u = found->second;
        const Atom operand = reshaped(b, atom(eqn(e).inputs[0]), target(u).shape);
        const Atom out =
            u.in_parts ? add_parts(b, u, operand, atoms) : add_loop(b, u, operand, atoms);
        atoms.emplace(eqn(e).outputs[0], reshaped(b, out, jaxpr_.aval(eqn(e).outputs[0]).shape));
        continue;
      }
      Atoms inputs;
      for (const Atom& a : eqn(e).inputs) inputs.push_back(atom(a));
      const Vars& made =
          b.add_eqn(*eqn(e).primitive, eqn(e).params, std::move(inputs),
                    detail::avals_of(jaxpr_, eqn(e).outputs), eqn(e).effect, eqn(e).where);
      for (std::size_t i = 0; i < made.size(); ++i)
        atoms.emplace(eqn(e).outputs[i], Atom::var(made[i]));
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(atom(a));
    return b.build(std::move(outs)).jaxpr;
  }

  // A loop over the blocks of a scatter: of one array, which it carries, or of a table for each.
  Atom add_loop(JaxprBuilder& b, const RowUpdate& u, const Atom& operand,
                const std::map<Var, Atom>& atoms) const {
    const Eqn& update = eqn(u.eqn);
    const Aval result = target(u);
    JaxprBuilder body;
    std::map<Var, Atom> same, inside;
    const auto outside = [&](Var v) {
      const auto found = same.find(v);
      return found != same.end() ? found->second : atoms.at(v);
    };
    ScanParams params{.length = u.rows / u.block};
    Atoms inputs;
    const auto add_const = [&](Var v, const Aval& aval) {
      inputs.push_back(outside(v));
      ++params.num_consts;
      return Atom::var(body.add_input(aval));
    };
    for (const Var v : u.as_a_whole) inside.emplace(v, add_const(v, jaxpr_.aval(v)));
    // Updates that are the same in each block are written once.
    for (const int p : u.same) {
      const Var v = eqn(p).outputs[0];
      same.emplace(v, add_block(b, u.block, p, outside));
      if (update.inputs[1].var() == v || update.inputs[2].var() == v)
        inside.emplace(v, add_const(v, b.aval(same.at(v))));
    }
    if (!u.in_parts) {
      inputs.push_back(operand);
      params.num_carry = 1;
    }
    const Atom to =  // -0 adds nothing
        u.in_parts ? filled(body, -0.0, result) : Atom::var(body.add_input(result));
    for (const Var v : u.by_blocks) {
      inside.emplace(v, Atom::var(body.add_input(with_rows(jaxpr_.aval(v), u.block))));
      const Atom rows = some_rows(b, atoms.at(v), 0, u.rows - u.rest());
      const Aval blocks = in_blocks(b.aval(rows), u.block);
      inputs.push_back(Atom::var(
          b.add_eqn1(reshape_p, Params::of(ReshapeParams{blocks.shape}), {rows}, blocks)));
    }
    const Atom out = add_update(body, u, u.block, to, std::move(inside));
    Aval results = result;
    if (u.in_parts) results.shape.insert(0, params.length);
    params.jaxpr = body.build({out}).jaxpr;
    return Atom::var(b.add_eqn1(scan_p, Params::of(std::move(params)), std::move(inputs), results,
                                Effect::none, update.where));
  }

  // The sum of each part, all of them, and the rows that are left over.
  Atom add_parts(JaxprBuilder& b, const RowUpdate& u, Atom operand,
                 const std::map<Var, Atom>& atoms) const {
    const Aval result = target(u);
    if (!(b.aval(operand) == result)) {  // weak and strong
      operand = Atom::var(b.add_eqn1(convert_element_type_p,
                                     Params::of(ConvertParams{result.dtype, result.weak_type}),
                                     {operand}, result));
    }
    const Atom tables = add_loop(b, u, operand, atoms);
    const Atom all = add_tables(b, operand, tables, u.rows / u.block, result);
    if (u.rest() == 0) return all;
    std::map<Var, Atom> last;
    for (const Var v : u.as_a_whole) last.emplace(v, atoms.at(v));
    for (const Var v : u.by_blocks)
      last.emplace(v, some_rows(b, atoms.at(v), u.rows - u.rest(), u.rows));
    return add_update(b, u, u.rest(), all, std::move(last));
  }

  // x + table + table + ...: in one kernel if they are few.
  static Atom add_tables(JaxprBuilder& b, Atom x, const Atom& tables, std::int64_t count,
                         const Aval& result) {
    const auto add = [&](JaxprBuilder& to, const Atom& a, const Atom& c) {
      return Atom::var(to.add_eqn1(add_p, Params(), {a, c}, result));
    };
    if (count > kTogether) {
      JaxprBuilder body;
      const Atom sum = Atom::var(body.add_input(result)), table = Atom::var(body.add_input(result));
      ScanParams params{.length = count, .num_carry = 1};
      params.jaxpr = body.build({add(body, sum, table)}).jaxpr;
      return Atom::var(b.add_eqn1(scan_p, Params::of(std::move(params)), {x, tables}, result));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      x = add(b, x, reshaped(b, some_rows(b, tables, i, i + 1), result.shape));
    }
    return x;
  }

  static Atom reshaped(JaxprBuilder& b, const Atom& x, const Shape& shape) {
    const Aval to = b.aval(x).with_shape(shape);
    if (to == b.aval(x)) return x;
    return Atom::var(b.add_eqn1(reshape_p, Params::of(ReshapeParams{shape}), {x}, to));
  }
  // From one row of an array to another.
  static Atom some_rows(JaxprBuilder& b, const Atom& x, std::int64_t first, std::int64_t last) {
    const Aval aval = b.aval(x);
    if (first == 0 && last == aval.shape[0]) return x;
    Shape from(aval.shape.size(), 0), to = aval.shape;
    from[0] = first;
    to[0] = last;
    return Atom::var(b.add_eqn1(slice_p, Params::of(SliceParams{from, to, {}}), {x},
                                with_rows(aval, last - first)));
  }

  const Jaxpr& jaxpr_;
  const Places places_;
  std::vector<std::set<int>> readers_;  // of each variable: equations, kResult
};

}  // namespace

Jaxpr group_updates(const Jaxpr& jaxpr, Places places) {
  if (jaxpr.eqns().size() > kMostEquations) places = Places::as_they_are;
  const Jaxpr inside =
      detail::map_regions(jaxpr, [&](const Jaxpr& j) { return group_updates(j, places); });
  return RowUpdates(inside, has_large_values(inside) ? places : Places::as_they_are).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
