// Scatters of many single elements whose places are computed: block by block, so that what is computed
// for them stays in a cache.
//   let i = select (lt j 0) (add j n) j, y = scatter_add x i u
//   ->   y = scan(x, block of j, block of u -> scatter_add x (select (lt j 0) (add j n) j) u)
// Updates come in the same order, one block after the other, so no bit changes.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/row_groups.hpp"
#include "compiler/passes/row_rules.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kMostRows = 20480;  // of a block: its operands fit into the second cache
constexpr std::int64_t kLeastRows = 4096;  // fewer do not pay for a trip of the loop
constexpr std::int64_t kFullLanes = 16;    // blocks of whole vectors are preferred
constexpr std::size_t kMostEquations = 4000;
constexpr int kMostCost = 16;  // cycles per vector: all of it is done by the thread that updates

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

/// Whether index vectors are counted by the first dimension of indices and updates, each for one element.
bool updates_elements(const Jaxpr& jaxpr, const Eqn& e) {
  if (e.primitive != &scatter_p && e.primitive != &scatter_add_p) return false;
  if (!e.inputs[1].is_var() || !e.inputs[2].is_var()) return false;
  if (!(jaxpr.aval(e.inputs[0]) == jaxpr.aval(e.outputs[0]))) return false;  // strong and weak
  const auto& d = e.params.as<ScatterParams>().dimension_numbers;
  const Shape& indices = jaxpr.aval(e.inputs[1]).shape;
  const Shape& updates = jaxpr.aval(e.inputs[2]).shape;
  return indices.size() > 1 && indices[0] > 0 && !updates.empty() && updates[0] == indices[0] &&
         !d.update_window_dims.contains(0) && !d.scatter_indices_batching_dims.contains(0) &&
         updates.num_elements() * indices.back() == indices.num_elements();
}

/// One scatter with what is computed for it alone.
struct RowUpdate {
  int eqn;
  std::int64_t rows, block;
  std::set<int> made;          ///< equations inside the loop
  std::set<int> same;          ///< those of them that give each block the same
  Vars by_blocks, as_a_whole;  ///< what these read of what others made
};

class RowUpdates {
 public:
  explicit RowUpdates(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {
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

  std::optional<RowUpdate> update_of(int e) const {
    if (!updates_elements(jaxpr_, eqn(e))) return std::nullopt;
    RowUpdate u{.eqn = e, .rows = jaxpr_.aval(eqn(e).inputs[1]).shape[0]};
    u.block = rows_of_block(u.rows);
    if (u.block == 0) return std::nullopt;
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
      if (!alone || !needs || cost + element_cost(eqn(p)) > kMostCost) continue;
      if (!want(p, *needs)) return std::nullopt;
      cost += element_cost(eqn(p));
      u.made.insert(p);
      wanted.erase(found);
    }
    for (const auto& [v, need] : wanted)
      (need == Need::block ? u.by_blocks : u.as_a_whole).push_back(v);
    // What is only seen in another shape, or the same everywhere, needs no loop.
    find_same(u);
    const bool computes = std::any_of(u.made.begin(), u.made.end(), [&](int p) {
      return !u.same.contains(p) && form_of(jaxpr_, eqn(p)) == Form::element;
    });
    return computes ? std::optional(std::move(u)) : std::nullopt;
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

  // The equation over the rows of a block, of operands that are known.
  template <class Known>
  Atom add_block(JaxprBuilder& b, const RowUpdate& u, int p, const Known& known) const {
    Atoms inputs;
    for (const Atom& a : eqn(p).inputs) inputs.push_back(a.is_literal() ? a : known(a.var()));
    return Atom::var(
        b.add_eqn1(*eqn(p).primitive, RowRules::with_rows(eqn(p), u.block), std::move(inputs),
                   with_rows(jaxpr_.aval(eqn(p).outputs[0]), u.block), Effect::none, eqn(p).where));
  }

  Jaxpr rewritten(const std::map<int, RowUpdate>& updates) const {
    std::set<int> moved;
    for (const auto& [e, u] : updates) moved.insert(u.made.begin(), u.made.end());
    JaxprBuilder b;
    std::map<Var, Atom> atoms;
    const auto atom = [&](const Atom& a) { return a.is_literal() ? a : atoms.at(a.var()); };
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      atoms.emplace(v, Atom::var(b.add_input(jaxpr_.aval(v))));
    for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      if (moved.contains(e)) continue;
      if (const auto found = updates.find(e); found != updates.end()) {
        atoms.emplace(eqn(e).outputs[0], add_loop(b, found->second, atoms));
        continue;
      }
      Atoms inputs;
      for (const Atom& a : eqn(e).inputs) inputs.push_back(atom(a));
      Avals avals;
      for (const Var v : eqn(e).outputs) avals.push_back(jaxpr_.aval(v));
      const Vars& made = b.add_eqn(*eqn(e).primitive, eqn(e).params, std::move(inputs), avals,
                                   eqn(e).effect, eqn(e).where);
      for (std::size_t i = 0; i < made.size(); ++i)
        atoms.emplace(eqn(e).outputs[i], Atom::var(made[i]));
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(atom(a));
    return b.build(std::move(outs)).jaxpr;
  }

  Atom add_loop(JaxprBuilder& b, const RowUpdate& u, const std::map<Var, Atom>& atoms) const {
    const Eqn& update = eqn(u.eqn);
    const Aval& result = jaxpr_.aval(update.outputs[0]);
    JaxprBuilder body;
    std::map<Var, Atom> same, inside;
    const auto outside = [&](Var v) {
      const auto found = same.find(v);
      return found != same.end() ? found->second : atoms.at(v);
    };
    ScanParams params{.length = u.rows / u.block, .num_carry = 1};
    Atoms inputs;
    const auto add_const = [&](Var v, const Aval& aval) {
      inputs.push_back(outside(v));
      inside.emplace(v, Atom::var(body.add_input(aval)));
      ++params.num_consts;
    };
    for (const Var v : u.as_a_whole) add_const(v, jaxpr_.aval(v));
    // Updates that are the same in each block are written once.
    for (const int p : u.same) {
      const Var v = eqn(p).outputs[0];
      same.emplace(v, add_block(b, u, p, outside));
      if (update.inputs[1].var() == v || update.inputs[2].var() == v)
        add_const(v, b.aval(same.at(v)));
    }
    inputs.push_back(update.inputs[0].is_literal() ? update.inputs[0]
                                                   : atoms.at(update.inputs[0].var()));
    const Atom carry = Atom::var(body.add_input(result));
    for (const Var v : u.by_blocks) {
      inside.emplace(v, Atom::var(body.add_input(with_rows(jaxpr_.aval(v), u.block))));
      const Aval blocks = in_blocks(jaxpr_.aval(v), u.block);
      inputs.push_back(Atom::var(
          b.add_eqn1(reshape_p, Params::of(ReshapeParams{blocks.shape}), {atoms.at(v)}, blocks)));
    }
    for (const int p : u.made) {
      if (!inside.contains(eqn(p).outputs[0]))
        inside.emplace(eqn(p).outputs[0],
                       add_block(body, u, p, [&](Var v) { return inside.at(v); }));
    }
    const Atom out = Atom::var(
        body.add_eqn1(*update.primitive, update.params,
                      {carry, inside.at(update.inputs[1].var()), inside.at(update.inputs[2].var())},
                      result, Effect::none, update.where));
    params.jaxpr = body.build({out}).jaxpr;
    return Atom::var(b.add_eqn1(scan_p, Params::of(std::move(params)), std::move(inputs), result,
                                Effect::none, update.where));
  }

  const Jaxpr& jaxpr_;
  std::vector<std::set<int>> readers_;  // of each variable: equations, kResult
};

}  // namespace

Jaxpr group_updates(const Jaxpr& jaxpr) {
  if (!has_large_values(jaxpr) || jaxpr.eqns().size() > kMostEquations) return jaxpr;
  const Jaxpr inside = detail::map_regions(jaxpr, group_updates);
  return RowUpdates(inside).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
