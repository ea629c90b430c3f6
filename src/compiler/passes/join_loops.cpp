// Two loops over the same trips in the same direction, of which the second reads what the first writes
// down at each trip, become one: what one trip passes to the other stays in registers.
//
//   c, cs = scan(c -> (r * c * (1 - c), c))
//   d     = scan(d, c -> r * (1 - 2 * c) * d)
// becomes
//   c, d  = scan(c, d -> (r * c * (1 - c), r * (1 - 2 * c) * d))
//
// Only where the state of the joined loop fits into registers (cells.hpp), too: larger bodies gain
// nothing. The same operations on the same numbers: no bit of any result changes.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/passes/passes.hpp"
#include "compiler/plan/cells.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

/// What joins two scans: the second one's operands that are results of the first.
struct Pair {
  std::size_t first, second;  ///< equations
  std::vector<int> row_of;    ///< of each input of the second body: the first's result, or -1
};

/// The number of inputs of each kind.
struct Parts {
  std::size_t consts, carry, inputs;
  explicit Parts(const ScanParams& p)
      : consts(static_cast<std::size_t>(p.num_consts)),
        carry(static_cast<std::size_t>(p.num_carry)),
        inputs(static_cast<std::size_t>(p.jaxpr.num_inputs())) {}
};

std::size_t at(Var v) { return static_cast<std::size_t>(v); }

class Join {
 public:
  explicit Join(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {}

  /// The program with one pair of loops joined, of which the second is the equation `from` or a later one,
  /// which becomes the number of the joined loop; nothing where there is none.
  std::optional<Jaxpr> run(std::size_t& from) const {
    for (std::size_t second = from; second < jaxpr_.eqns().size(); ++second) {
      if (!is_loop(eqn(second))) continue;
      for (std::size_t first = 0; first < second; ++first) {
        if (!is_loop(eqn(first))) continue;
        const auto pair = match(first, second);
        if (!pair) continue;
        const Eqn joined = joined_eqn(*pair);
        if (!is_cellular(joined, detail::avals_of(jaxpr_, joined.inputs), results_of(joined)))
          continue;
        return rewritten(*pair, joined, from);
      }
    }
    return std::nullopt;
  }

 private:
  static bool is_loop(const Eqn& eqn) {
    return eqn.primitive == &scan_p && eqn.effect == Effect::none;
  }
  const Eqn& eqn(std::size_t i) const { return jaxpr_.eqns()[i]; }

  std::optional<Pair> match(std::size_t first, std::size_t second) const {
    const auto& p = eqn(first).params.as<ScanParams>();
    const auto& q = eqn(second).params.as<ScanParams>();
    if (p.length != q.length || p.reverse != q.reverse) return std::nullopt;
    const Parts m(p), n(q);
    const auto& outs = eqn(first).outputs;
    Pair pair{first, second, std::vector<int>(n.inputs, -1)};
    bool any = false;
    for (std::size_t i = n.consts + n.carry; i < n.inputs; ++i) {
      const Atom& x = eqn(second).inputs[i];
      if (!x.is_var()) continue;
      const auto found =
          std::find(outs.begin() + static_cast<std::ptrdiff_t>(m.carry), outs.end(), x.var());
      if (found == outs.end()) continue;
      pair.row_of[i] = static_cast<int>(found - outs.begin());
      any = true;
    }
    if (!any || !stands_alone(pair) || !cell_loop(jaxpr_, eqn(first)) ||
        !cell_loop(jaxpr_, eqn(second))) {
      return std::nullopt;
    }
    return pair;
  }

  // The variables that come from the first loop, of those before the second.
  std::set<Var> after_first(const Pair& pair) const {
    std::set<Var> after(eqn(pair.first).outputs.begin(), eqn(pair.first).outputs.end());
    for (std::size_t e = pair.first + 1; e < pair.second; ++e)
      if (reads(eqn(e), after)) after.insert(eqn(e).outputs.begin(), eqn(e).outputs.end());
    return after;
  }
  static bool reads(const Eqn& eqn, const std::set<Var>& variables) {
    return std::any_of(eqn.inputs.begin(), eqn.inputs.end(),
                       [&](const Atom& a) { return a.is_var() && variables.contains(a.var()); });
  }

  // Whether nothing but those rows leads from the first loop to the second, and no effect between them
  // waits for the first: it would come after others that it came before.
  bool stands_alone(const Pair& pair) const {
    const std::set<Var> after = after_first(pair);
    Eqn second = eqn(pair.second);
    for (std::size_t i = second.inputs.size(); i-- > 0;)
      if (pair.row_of[i] >= 0) second.inputs.erase(second.inputs.begin() + static_cast<long>(i));
    for (std::size_t e = pair.first + 1; e < pair.second; ++e)
      if (eqn(e).effect != Effect::none && reads(eqn(e), after)) return false;
    return !reads(second, after);
  }

  /// An input of the joined body: input `i` of the first one's or of the second one's.
  struct Input {
    bool of_second;
    std::size_t i;
  };
  // Consts of both, carry of both, rows of both but for those that lead from one to the other.
  std::vector<Input> inputs(const Pair& pair) const {
    const Parts m(eqn(pair.first).params.as<ScanParams>()),
        n(eqn(pair.second).params.as<ScanParams>());
    std::vector<Input> out;
    const auto take = [&](bool of_second, std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i)
        if (!of_second || pair.row_of[i] < 0) out.push_back({of_second, i});
    };
    take(false, 0, m.consts);
    take(true, 0, n.consts);
    take(false, m.consts, m.consts + m.carry);
    take(true, n.consts, n.consts + n.carry);
    take(false, m.consts + m.carry, m.inputs);
    take(true, n.consts + n.carry, n.inputs);
    return out;
  }
  // Results of the bodies or of the loops: carry of both, then rows of both.
  template <class List>
  static List results(const List& a, std::size_t carry_a, const List& b, std::size_t carry_b) {
    const auto ca = static_cast<std::ptrdiff_t>(carry_a), cb = static_cast<std::ptrdiff_t>(carry_b);
    List out(a.begin(), a.begin() + ca);
    out.insert(out.end(), b.begin(), b.begin() + cb);
    out.insert(out.end(), a.begin() + ca, a.end());
    out.insert(out.end(), b.begin() + cb, b.end());
    return out;
  }

  ScanParams joined(const Pair& pair) const {
    ScanParams p = eqn(pair.first).params.as<ScanParams>();
    const auto& q = eqn(pair.second).params.as<ScanParams>();
    const Parts m(p), n(q);
    JaxprBuilder b;
    Atoms a(m.inputs, Atom::var(0)), c(n.inputs, Atom::var(0));
    for (const Input& in : inputs(pair)) {
      const Jaxpr& body = in.of_second ? q.jaxpr : p.jaxpr;
      (in.of_second ? c : a)[in.i] = Atom::var(b.add_input(body.in_avals()[in.i]));
    }
    const Atoms first = b.inline_jaxpr(p.jaxpr, a);
    for (std::size_t i = 0; i < n.inputs; ++i)
      if (pair.row_of[i] >= 0) c[i] = first[static_cast<std::size_t>(pair.row_of[i])];
    const Atoms second = b.inline_jaxpr(q.jaxpr, c);
    p.jaxpr =
        eliminate_common_subexpressions(b.build(results(first, m.carry, second, n.carry)).jaxpr);
    p.num_consts += q.num_consts;
    p.num_carry += q.num_carry;
    return p;
  }
  Eqn joined_eqn(const Pair& pair) const {
    const Eqn &f = eqn(pair.first), &g = eqn(pair.second);
    Eqn both{&scan_p, Params::of(joined(pair)), {}, {}, Effect::none, f.where};
    for (const Input& in : inputs(pair))
      both.inputs.push_back(in.of_second ? g.inputs[in.i] : f.inputs[in.i]);
    const Parts m(f.params.as<ScanParams>()), n(g.params.as<ScanParams>());
    both.outputs = results(f.outputs, m.carry, g.outputs, n.carry);
    return both;
  }

  // What waits for the first loop comes after the joined one, which stands where the second stood.
  std::vector<Eqn> reordered(const Pair& pair, const Eqn& joined, std::size_t& at_joined) const {
    const std::set<Var> after = after_first(pair);
    std::vector<Eqn> order, later;
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      if (e == pair.first) continue;
      const bool between = e > pair.first && e < pair.second;
      if (between && reads(eqn(e), after)) {
        later.push_back(eqn(e));
      } else if (e == pair.second) {
        at_joined = order.size();
        order.push_back(joined);
        order.insert(order.end(), later.begin(), later.end());
      } else order.push_back(eqn(e));
    }
    return order;
  }

  Avals results_of(const Eqn& e) const { return detail::avals_of(jaxpr_, e.outputs); }

  Jaxpr rewritten(const Pair& pair, const Eqn& joined, std::size_t& at_joined) const {
    JaxprBuilder b;
    Atoms atoms(static_cast<std::size_t>(jaxpr_.num_vars()), Atom::var(0));
    for (int i = 0; i < jaxpr_.num_inputs(); ++i)
      atoms[at(i)] = Atom::var(b.add_input(jaxpr_.in_avals()[at(i)]));
    const auto mapped = [&](const Atoms& in) {
      Atoms out;
      for (const Atom& a : in) out.push_back(a.is_var() ? atoms[at(a.var())] : a);
      return out;
    };
    for (const Eqn& e : reordered(pair, joined, at_joined)) {
      const Vars news =
          b.add_eqn(*e.primitive, e.params, mapped(e.inputs), results_of(e), e.effect, e.where);
      for (std::size_t i = 0; i < news.size(); ++i) atoms[at(e.outputs[i])] = Atom::var(news[i]);
    }
    return b.build(mapped(jaxpr_.outs()), JaxprBuilder::DeadCode::keep).jaxpr;
  }

  const Jaxpr& jaxpr_;
};

}  // namespace

Jaxpr join_loops(const Jaxpr& jaxpr) {
  Jaxpr result = detail::map_regions(jaxpr, join_loops);
  bool any = false;
  // Loops before the joined one have been tried with one another.
  for (std::size_t from = 0; const auto joined = Join(result).run(from); any = true)
    result = *joined;
  return any ? eliminate_dead_code(result) : result;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
