// Chains of kernels over the rows of arrays that do not fit into a cache, run block by block.
//
// A row is what belongs to one index of the first dimension. A group is a set of kernels and matrix
// products of a plan whose values have the same number of rows, and which read what others of the group
// made at the same row only. It becomes a loop without a carry, which is
// planned as any other: blocks are views of what lies around the loop, values of the body have memory
// for one block per thread, and chunks of blocks run in parallel.
//
// What the group sums over rows (of gradients: what examples have in common, as weights and centres) comes with it: there
// are two loops then, over parts and, with the sums so far as carries, over blocks of each; the parts are added after that.
//
// Which values would be in memory at all is for fusion to say: so a program is planned, then rewritten,
// and planned again.
#include "compiler/passes/row_groups.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/row_loops.hpp"
#include "compiler/plan/dot.hpp"
#include "core/integers.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/kernels/gemm.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// ---- what is worth it ----------------------------------------------------------------------------
// Measured on Zen 5 (1 MiB of L2 per core) with the mixtures and networks of bench/suite.
constexpr std::int64_t kCache = 1 << 20;  // values that take less stay there anyway
// Bytes of all values of a block, about. Without products it takes little time, and half of the cache is for what is read
// and written around it (the gradient of a factorisation by 200,000 pairs: 0.8 of the time).
constexpr std::int64_t kBlock = 384 << 10, kBlockOfElements = 192 << 10;
constexpr std::int64_t kWhole = 512 << 10;      // bytes that each block reads again, at most
constexpr std::int64_t kLeastWork = 4096;       // elements of a block
constexpr std::int64_t kLeastRows = 16;         // of blocks of short rows: a multiple of all lanes
constexpr std::int64_t kLeastProductRows = 32;  // fewer do not pay for reading the other operand
constexpr std::int64_t kSmall = 1024;           // elements that each block may compute again
// Of sums:
constexpr std::int64_t kSums = 448 << 10;   // bytes, which each block reads and writes, at most
constexpr std::int64_t kLeastShare = 2;     // of what a group touches, so much stays inside
constexpr std::int64_t kPartsOfInside = 8;  // of what stays inside, parts take so much at most
constexpr std::int64_t kLeastParts = 8, kLeastTrips = 4;  // and blocks of each
constexpr std::int64_t kShortBlock = 24 << 10;  // bytes of a block of products with vectors
constexpr std::size_t kMostEquations = 4000, kMostSteps = 300;

class Grouping {
 public:
  Grouping(const Jaxpr& jaxpr, const PlanOptions& options)
      : jaxpr_(jaxpr),
        plan_(plan_kernels(jaxpr, options)),
        producer_(detail::producers(jaxpr)),
        writer_(plan_->values.size(), kNobody) {
    for (std::size_t s = 0; s < steps().size(); ++s) note_writes(steps()[s], static_cast<int>(s));
  }

  Jaxpr run() {
    if (steps().size() > kMostSteps) return jaxpr_;
    std::set<int> taken,
        in_vain;  // in_vain: of a group that is not worth it, and would grow from them again
    for (std::size_t s = 0; s < steps().size(); ++s) {
      if (taken.contains(static_cast<int>(s)) || in_vain.contains(static_cast<int>(s))) continue;
      std::optional<RowGroup> group = grow(static_cast<int>(s), taken, true);
      if (group && !group->sums.empty() && !is_worth_it(*group))
        group = grow(static_cast<int>(s), taken, false);
      if (!group) continue;
      if (!is_worth_it(*group)) {
        in_vain.insert(group->steps.begin(), group->steps.end());
        continue;
      }
      taken.insert(group->steps.begin(), group->steps.end());
      group->order = in_order(*group);
      groups_.push_back(std::move(*group));
    }
    return groups_.empty() ? jaxpr_ : with_row_loops(jaxpr_, groups_);
  }

 private:
  static constexpr int kNobody = -1, kSeveral = -2;

  const std::vector<Step>& steps() const { return plan_->steps; }
  const Step& step(int s) const { return steps()[static_cast<std::size_t>(s)]; }
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(Var v) const { return producer_[static_cast<std::size_t>(v)]; }
  int value_of(Var v) const { return plan_->scopes[0].value_of[static_cast<std::size_t>(v)]; }
  int writer(Var v) const {
    const int value = value_of(v);
    return value < 0 ? kNobody : writer_[static_cast<std::size_t>(value)];
  }
  std::int64_t bytes(Var v) const { return weight_of(jaxpr_.aval(v)); }

  void note_writes(const Step& s, int number) {
    for (const int v : s.writes) {
      int& writer = writer_[static_cast<std::size_t>(v)];
      writer = writer == kNobody ? number : kSeveral;
    }
    for (const auto& body : s.bodies) {
      for (const Step& inner : body) note_writes(inner, kSeveral);
    }
  }

  // ---- groups ------------------------------------------------------------------------------------
  // What a step leaves in memory; empty where it cannot be part of a group.
  Vars stored_by(int number) const {
    const Step& s = step(number);
    const Kernel& k = s.kernel;
    Vars out;
    const bool product = s.kind == Step::Kind::kernel && k.kind == Kernel::Kind::dot;
    if (s.kind == Step::Kind::host || (product && !k.goes_on())) {
      const int e = s.kind == Step::Kind::host ? s.eqn : k.eqn;
      if (eqn(e).primitive != &dot_general_p) return {};
      out = eqn(e).outputs;
    } else if (product || (s.kind == Step::Kind::kernel &&
                           (k.kind == Kernel::Kind::loop || k.kind == Kernel::Kind::reduction))) {
      out = k.roots;
      out.insert(out.end(), k.epilogue.begin(), k.epilogue.end());
      for (const std::vector<int>& all : {k.reductions, k.columns}) {
        for (const int e : all) {
          if (value_of(eqn(e).outputs[0]) >= 0) out.push_back(eqn(e).outputs[0]);
        }
      }
    }
    const bool alone =
        std::all_of(out.begin(), out.end(), [&](Var v) { return writer(v) == number; });
    return alone ? out : Vars();
  }
  // The same by rows, with the sums over rows that it takes instead of what it computes from these alone.
  Vars made_by(int number, std::int64_t rows) const {
    const Kernel& k = step(number).kernel;
    // Parts of the sum of a row depend on how much there is to sum.
    if (!k.partials.empty() && k.columns.empty() && !are_sums(k.reductions, rows)) return {};
    std::set<Var> made;
    for (const Var v : stored_by(number)) {
      if (has_rows(jaxpr_.aval(v), rows) && !is_sum(v, rows)) made.insert(v);
      else if (!add_sums(v, number, rows, made)) return {};
    }
    return {made.begin(), made.end()};
  }
  // The sums that a step computes something from; false where it needs more of rows than these.
  bool add_sums(Var from, int number, std::int64_t rows, std::set<Var>& made) const {
    std::set<Var> seen{from};
    Vars todo{from};
    while (!todo.empty()) {
      const Var v = todo.back();
      todo.pop_back();
      if (is_sum(v, rows)) {
        made.insert(v);
        continue;
      }
      if (v < jaxpr_.num_inputs() || (value_of(v) >= 0 && writer(v) != number)) continue;
      if (has_rows(jaxpr_.aval(v), rows)) return false;
      for (const Atom& a : eqn(producer(v)).inputs) {
        if (a.is_var() && seen.insert(a.var()).second) todo.push_back(a.var());
      }
    }
    return true;
  }
  bool are_sums(const std::vector<int>& eqns, std::int64_t rows) const {
    return std::all_of(eqns.begin(), eqns.end(),
                       [&](int e) { return is_sum(eqn(e).outputs[0], rows); });
  }
  bool is_sum(Var v, std::int64_t rows) const {
    return v >= jaxpr_.num_inputs() && RowRules(jaxpr_, rows).sums(eqn(producer(v)));
  }

  // The group of these steps, with all they need; nothing where that is not by rows.
  std::optional<RowGroup> group_of(std::set<int> steps, std::int64_t rows) const {
    RowGroup g;
    g.rows = rows;
    g.steps = std::move(steps);
    std::vector<std::pair<Var, Need>> todo;
    for (const int s : g.steps) {
      for (const Var v : made_by(s, rows)) {
        g.stored.insert(v);
        if (is_sum(v, rows)) g.sums.insert(v);
        todo.emplace_back(v, Need::block);
      }
    }
    std::int64_t sums = 0;
    for (const Var v : g.sums) sums += bytes(v);
    if (sums > kSums) return std::nullopt;
    const RowRules rules(jaxpr_, rows);
    while (!todo.empty()) {
      const auto [v, need] = todo.back();
      todo.pop_back();
      const Aval& aval = jaxpr_.aval(v);
      const bool sum = g.sums.contains(v);
      if (need == Need::block && !sum && !has_rows(aval, rows)) return std::nullopt;
      const bool elsewhere = value_of(v) >= 0 && !g.steps.contains(writer(v));
      if (v < jaxpr_.num_inputs() || elsewhere) {
        (need == Need::block ? g.by_blocks : g.as_a_whole).insert(v);
        continue;
      }
      const int e = producer(v);
      const auto [found, fresh] = g.eqns.emplace(e, need);
      if (!fresh) {
        if (found->second != need) return std::nullopt;
        continue;
      }
      std::vector<Need> needs(eqn(e).inputs.size(), Need::whole);
      if (need == Need::block) {
        const auto by_rule = sum ? rules.sums(eqn(e)) : rules.needs(eqn(e));
        if (!by_rule) return std::nullopt;
        needs = *by_rule;
      } else if (aval.size() > kSmall || !is_fusible(form_of(jaxpr_, eqn(e))) ||
                 eqn(e).effect != Effect::none || value_of(v) >= 0) {
        return std::nullopt;
      }
      for (std::size_t i = 0; i < needs.size(); ++i) {
        if (eqn(e).inputs[i].is_var()) todo.emplace_back(eqn(e).inputs[i].var(), needs[i]);
      }
    }
    return waits_for_itself(g) ? std::nullopt : std::optional(std::move(g));
  }

  // Whether something that the group reads comes after its results: it is computed from them, by an
  // ordered effect that follows one that is, or by a group that reads what is.
  bool waits_for_itself(const RowGroup& g) const {
    std::vector<bool> after(static_cast<std::size_t>(jaxpr_.num_vars()), false);
    const auto is_after = [&](Var v) -> bool { return after[static_cast<std::size_t>(v)]; };
    const auto reads_later = [&](const RowGroup& of) {
      return std::any_of(of.by_blocks.begin(), of.by_blocks.end(), is_after) ||
             std::any_of(of.as_a_whole.begin(), of.as_a_whole.end(), is_after);
    };
    for (const Var v : g.stored) after[static_cast<std::size_t>(v)] = true;
    std::vector<bool> seen(groups_.size(), false);
    for (bool again = true; again;) {
      again = false;
      bool effects = false;  // whether ordered effects wait, from here on
      for (const Eqn& e : jaxpr_.eqns()) {
        const bool ordered = e.effect == Effect::ordered;
        const bool any = (ordered && effects) ||
                         std::any_of(e.inputs.begin(), e.inputs.end(), [&](const Atom& a) {
                           return a.is_var() && is_after(a.var());
                         });
        effects = effects || (ordered && any);
        for (const Var v : e.outputs) after[static_cast<std::size_t>(v)] = is_after(v) || any;
      }
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (seen[i] || !reads_later(groups_[i])) continue;
        for (const Var v : groups_[i].stored) after[static_cast<std::size_t>(v)] = true;
        seen[i] = again = true;
      }
    }
    return reads_later(g);
  }

  std::optional<RowGroup> grow(int seed, const std::set<int>& taken, bool sums) const {
    const Vars stored = stored_by(seed);
    if (stored.empty() || jaxpr_.aval(stored[0]).shape.empty()) return std::nullopt;
    const std::int64_t rows = jaxpr_.aval(stored[0]).shape[0];
    if (rows < 2 || made_by(seed, rows).empty()) return std::nullopt;
    std::optional<RowGroup> group = group_of({seed}, rows);
    if (group && !group->sums.empty() && !sums) return std::nullopt;
    for (std::size_t before = 0; group && before < group->steps.size();) {
      before = group->steps.size();
      for (int s = 0; s < static_cast<int>(steps().size()); ++s) {
        if (taken.contains(s) || group->steps.contains(s) || made_by(s, rows).empty() ||
            !(reads_from(s, *group) || writes_for(s, *group)))
          continue;
        std::set<int> more = group->steps;
        more.insert(s);
        auto larger = group_of(std::move(more), rows);
        if (larger && (sums || larger->sums.empty())) group = std::move(larger);
      }
    }
    return group;
  }
  bool reads_from(int s, const RowGroup& g) const {
    return std::any_of(step(s).reads.begin(), step(s).reads.end(), [&](int v) {
      return g.steps.contains(writer_[static_cast<std::size_t>(v)]);
    });
  }

  bool writes_for(int s, const RowGroup& g) const {
    return std::any_of(g.by_blocks.begin(), g.by_blocks.end(),
                       [&](Var v) { return writer(v) == s && is_large(jaxpr_.aval(v)); });
  }

  // ---- is it worth it? ---------------------------------------------------------------------------
  // Sets the outputs, the number of rows of a block and that of parts.
  bool is_worth_it(RowGroup& g) const {
    if (g.steps.size() < 2) return false;
    const Sizes sizes = measure(g);
    if (sizes.inside < kCache || sizes.whole > kWhole || (g.outputs.empty() && g.sums.empty()))
      return false;
    const Products products = products_of(g);
    // Without products, tiles take sums, too (plan/tiles.hpp).
    if (!g.sums.empty() && (products == Products::none || sizes.inside < sizes.all / kLeastShare))
      return false;
    return find_block(g, sizes, products);
  }

  /// Bytes: of values that others do not need and, with sums, of reading again what several steps read; of all that is by
  /// blocks; of what each block reads again; of sums. And the most elements of a value: that is stored or, with sums, read.
  struct Sizes {
    std::int64_t inside = 0, all = 0, whole = 0, sums = 0, elements = 0;
  };
  // Sets the outputs.
  Sizes measure(RowGroup& g) const {
    const std::set<Var> needed = needed_outside(g);
    Sizes sizes;
    g.outputs.clear();
    for (const Var v : g.stored) {
      if (g.sums.contains(v)) {
        sizes.sums += bytes(v);
        continue;
      }
      if (needed.contains(v)) g.outputs.push_back(v);
      else sizes.inside += bytes(v);
      sizes.all += bytes(v);
      sizes.elements = std::max(sizes.elements, jaxpr_.aval(v).size());
    }
    for (const Var v : g.by_blocks) {
      sizes.all += bytes(v);
      if (g.sums.empty()) continue;
      sizes.inside += (readers(v, g) - 1) * bytes(v);
      sizes.elements = std::max(sizes.elements, jaxpr_.aval(v).size());
    }
    for (const Var v : g.as_a_whole) {
      if (!is_looked_up(v, g)) sizes.whole += bytes(v);
    }
    return sizes;
  }
  // Whether blocks read of an array just what they look up there, and their own rows.
  bool is_looked_up(Var v, const RowGroup& g) const {
    const RowRules rules(jaxpr_, g.rows);
    return std::all_of(g.eqns.begin(), g.eqns.end(), [&](const auto& one) {
      const Eqn& e = eqn(one.first);
      const auto is_v = [&](const Atom& a) { return a.is_var() && a.var() == v; };
      const std::size_t first = e.primitive == &gather_p ? 1 : 0;
      if (std::none_of(e.inputs.begin() + static_cast<std::ptrdiff_t>(first), e.inputs.end(), is_v))
        return true;
      if (one.second == Need::whole) return false;
      const auto needs = g.sums.contains(e.outputs[0]) ? rules.sums(e) : rules.needs(e);
      for (std::size_t i = first; i < e.inputs.size(); ++i) {
        if (is_v(e.inputs[i]) && (!needs || (*needs)[i] == Need::whole)) return false;
      }
      return true;
    });
  }

  enum class Products : std::uint8_t { none, with_vectors, of_matrices };
  Products products_of(const RowGroup& g) const {
    Products found = Products::none;
    for (const auto& [e, need] : g.eqns) {
      if (eqn(e).primitive != &dot_general_p) continue;
      const auto p = matrix_product(jaxpr_.aval(eqn(e).inputs[0]), jaxpr_.aval(eqn(e).inputs[1]),
                                    eqn(e).params.as<DotGeneralParams>());
      if (!p || (p->m > 1 && p->n > 1 && p->k > 1)) return Products::of_matrices;
      found = Products::with_vectors;
    }
    return found;
  }
  std::int64_t readers(Var v, const RowGroup& g) const {
    return std::count_if(g.steps.begin(), g.steps.end(), [&](int s) { return reads(s, v); });
  }
  bool reads(int s, Var v) const {
    const std::vector<int>& all = step(s).reads;
    return std::find(all.begin(), all.end(), value_of(v)) != all.end();
  }
  // In which so many blocks are summed, a matter of shapes: enough for threads to share, and few beside what stays inside, as
  // is what each block reads and writes of sums. 0: there is no such number.
  static std::int64_t most_parts(std::int64_t blocks, const Sizes& sizes) {
    const std::int64_t saved = sizes.inside / std::max<std::int64_t>(sizes.sums, 1);
    if (blocks > saved) return 0;
    for (std::int64_t n =
             std::min({saved / kPartsOfInside, blocks / kLeastTrips, Step::kMaxChunks});
         n >= kLeastParts; --n) {
      if (blocks % n == 0) return n;
    }
    return 0;
  }

  // The most rows that divide the whole and fit; false if there is no such number. Products with vectors take as long as
  // memory does: of many short blocks a processor begins the next one meanwhile (a regression on 1,000,000 x 32 in f32 0.8
  // of the time).
  bool find_block(RowGroup& g, const Sizes& sizes, Products products) const {
    const std::int64_t each = std::max<std::int64_t>(sizes.all / g.rows, 1);
    const std::int64_t row = std::max<std::int64_t>(sizes.elements / g.rows, 1);
    std::int64_t least = detail::ceil_div(kLeastWork, row);
    if (least > 1) least = std::max(least, kLeastRows);
    least = std::max(least, least_product_rows(g));
    const bool sums = !g.sums.empty();
    std::int64_t room = products == Products::none ? kBlockOfElements : kBlock;
    if (sums && products == Products::with_vectors) room = kShortBlock;
    const std::int64_t most = std::max(room / each, least);
    const auto fits = [&](std::int64_t rows) {
      if (g.rows % rows != 0) return false;
      if (sums) g.parts = most_parts(g.rows / rows, sizes);
      return g.parts > 0;
    };
    std::int64_t r = std::min(most, g.rows / 2);
    while (r >= least && !fits(r)) --r;
    if (r < least && sums) {
      const std::int64_t end = std::min(2 * most, g.rows / 2);
      for (r = most + 1; r <= end && !fits(r);) ++r;
      if (r > end) return false;
    }
    g.block = r;
    return r >= least && r * each <= 3 * kCache && 4 * r >= std::min(most, g.rows / 2);
  }

  std::int64_t least_product_rows(const RowGroup& g) const {
    std::int64_t least = 1;
    for (const auto& [e, need] : g.eqns) {
      if (eqn(e).primitive != &dot_general_p) continue;
      const auto& params = eqn(e).params.as<DotGeneralParams>();
      const auto p =
          matrix_product(jaxpr_.aval(eqn(e).inputs[0]), jaxpr_.aval(eqn(e).inputs[1]), params);
      if (!p) return g.rows;
      if (!params.dimension_numbers.lhs_batch.empty()) continue;
      // A large matrix is packed again for each block.
      const bool packs =
          !g.sums.contains(eqn(e).outputs[0]) && bytes(eqn(e).inputs[1].var()) > kWhole / 2;
      least = std::max(least, packs ? 4 * kLeastProductRows : kLeastProductRows);
      if (g.sums.contains(eqn(e).outputs[0])) continue;
      const std::int64_t row = std::max<std::int64_t>(p->m / g.rows * p->n * p->k, 1);
      // What is a call as a whole is one in blocks, and sums in the same way, but for products with a vector that are
      // summed in parts after that anyway.
      if (row * g.rows < kLeastLargeProduct || p->k == 1 || (p->n == 1 && !g.sums.empty()))
        continue;
      const DType dtype = jaxpr_.aval(eqn(e).outputs[0]).dtype;
      const std::int64_t rows =
          kernels::least_rows_of_block(dtype, {p->batch, p->m, p->n, p->k}, p->rhs.row == 1);
      least = std::max({least, detail::ceil_div(kLeastLargeProduct, row),
                        detail::ceil_div(rows * g.rows, p->m)});
    }
    return least;
  }

  // Of what the group stores, what the rest of the program reads.
  std::set<Var> needed_outside(const RowGroup& g) const {
    const std::vector<bool> needed =
        needed_variables(jaxpr_, [&](Var v) { return g.stored.contains(v) ? &g : nullptr; });
    std::set<Var> out;
    for (const Var v : g.stored) {
      if (needed[static_cast<std::size_t>(v)]) out.insert(v);
    }
    return out;
  }

  // The steps in an order in which little is alive at a time: of those that can run, the one that leaves
  // the fewest bytes more than before.
  Vars in_order(const RowGroup& g) const {
    std::set<int> left = g.steps;
    Vars out;
    while (!left.empty()) {
      int best = -1;
      std::int64_t least = 0;
      for (const int s : left) {
        std::int64_t more = 0;
        bool ready = true;
        for (const Var v : made_by(s, g.rows)) more += bytes(v);
        for (const Var v : g.stored) {
          if (!reads(s, v)) continue;
          ready = ready && !left.contains(writer(v));
          const bool last =
              std::none_of(left.begin(), left.end(), [&](int t) { return t != s && reads(t, v); });
          if (last) more -= bytes(v);
        }
        if (ready && (best < 0 || more < least)) {
          best = s;
          least = more;
        }
      }
      left.erase(best);
      const Vars stored = made_by(best, g.rows);
      out.insert(out.end(), stored.begin(), stored.end());
    }
    return out;
  }

  const Jaxpr& jaxpr_;
  const std::unique_ptr<Plan> plan_;
  std::vector<int> producer_;
  std::vector<int> writer_;  // of each value: the step
  std::vector<RowGroup> groups_;
};

}  // namespace

Jaxpr group_rows(const Jaxpr& jaxpr, const PlanOptions& options) {
  if (!has_large_values(jaxpr) || jaxpr.eqns().size() > kMostEquations) return jaxpr;
  const Jaxpr inside =
      detail::map_regions(jaxpr, [&](const Jaxpr& j) { return group_rows(j, options); });
  const bool large = std::any_of(inside.avals().begin(), inside.avals().end(), is_large);
  return large ? Grouping(inside, options).run() : inside;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
