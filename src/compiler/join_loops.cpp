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

#include "compiler/cells.hpp"
#include "compiler/passes.hpp"
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

/// The number of inputs and results of each kind.
struct Parts {
  std::size_t consts, carry, inputs, outputs;
  explicit Parts(const ScanParams& p)
      : consts(static_cast<std::size_t>(p.num_consts)),
        carry(static_cast<std::size_t>(p.num_carry)),
        inputs(static_cast<std::size_t>(p.jaxpr.num_inputs())),
        outputs(p.jaxpr.outs().size()) {}
};

std::size_t at(Var v) { return static_cast<std::size_t>(v); }

class Join {
 public:
  explicit Join(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {}

  /// The program with one pair of loops joined; nothing where there is none.
  std::optional<Jaxpr> run() {
    const auto& eqns = jaxpr_.eqns();
    for (std::size_t second = 0; second < eqns.size(); ++second) {
      if (!is_loop(eqns[second])) continue;
      for (std::size_t first = 0; first < second; ++first) {
        if (!is_loop(eqns[first])) continue;
        const auto pair = match(first, second);
        if (!pair) continue;
        if (auto joined = rewrite(*pair)) return joined;
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

  // Inputs: consts of both, carry of both, rows of both. Results: carry of both, rows of both.
  ScanParams joined(const Pair& pair) const {
    ScanParams p = eqn(pair.first).params.as<ScanParams>();
    const auto& q = eqn(pair.second).params.as<ScanParams>();
    const Parts m(p), n(q);
    JaxprBuilder b;
    std::vector<Atom> a(m.inputs, Atom::var(0)), c(n.inputs, Atom::var(0));
    const auto take = [&](const Jaxpr& body, std::vector<Atom>& atoms, std::size_t from,
                          std::size_t to, const std::vector<int>* rows = nullptr) {
      for (std::size_t i = from; i < to; ++i) {
        if (rows && (*rows)[i] >= 0) continue;
        atoms[i] = Atom::var(b.add_input(body.in_avals()[i]));
      }
    };
    take(p.jaxpr, a, 0, m.consts);
    take(q.jaxpr, c, 0, n.consts);
    take(p.jaxpr, a, m.consts, m.consts + m.carry);
    take(q.jaxpr, c, n.consts, n.consts + n.carry);
    take(p.jaxpr, a, m.consts + m.carry, m.inputs);
    take(q.jaxpr, c, n.consts + n.carry, n.inputs, &pair.row_of);
    const std::vector<Atom> first = b.inline_jaxpr(p.jaxpr, a);
    for (std::size_t i = 0; i < n.inputs; ++i)
      if (pair.row_of[i] >= 0) c[i] = first[static_cast<std::size_t>(pair.row_of[i])];
    const std::vector<Atom> second = b.inline_jaxpr(q.jaxpr, c);
    p.jaxpr = eliminate_common_subexpressions(
        b.build(interleaved(first, m.carry, second, n.carry)).jaxpr);
    p.num_consts += q.num_consts;
    p.num_carry += q.num_carry;
    return p;
  }

  // Head of both, then the rest of both.
  template <class T>
  static std::vector<T> interleaved(const std::vector<T>& a, std::size_t head_a,
                                    const std::vector<T>& b, std::size_t head_b) {
    const auto ha = static_cast<std::ptrdiff_t>(head_a), hb = static_cast<std::ptrdiff_t>(head_b);
    std::vector<T> out(a.begin(), a.begin() + ha);
    out.insert(out.end(), b.begin(), b.begin() + hb);
    out.insert(out.end(), a.begin() + ha, a.end());
    out.insert(out.end(), b.begin() + hb, b.end());
    return out;
  }

  std::optional<Jaxpr> rewrite(const Pair& pair) const {
    const Eqn &f = eqn(pair.first), &g = eqn(pair.second);
    const auto& p = f.params.as<ScanParams>();
    const auto& q = g.params.as<ScanParams>();
    const Parts m(p), n(q);
    ScanParams both = joined(pair);

    // What waits for the first loop comes after the joined one, which stands where the second stood.
    const std::set<Var> after = after_first(pair);
    std::vector<std::size_t> order, later;
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      if (e == pair.first) continue;
      const bool between = e > pair.first && e < pair.second;
      (between && reads(eqn(e), after) ? later : order).push_back(e);
      if (e == pair.second) order.insert(order.end(), later.begin(), later.end());
    }

    JaxprBuilder b;
    std::vector<Atom> atoms(static_cast<std::size_t>(jaxpr_.num_vars()), Atom::var(0));
    for (int i = 0; i < jaxpr_.num_inputs(); ++i)
      atoms[at(i)] = Atom::var(b.add_input(jaxpr_.in_avals()[at(i)]));
    const auto mapped = [&](const std::vector<Atom>& in) {
      std::vector<Atom> out;
      for (const Atom& a : in) out.push_back(a.is_var() ? atoms[at(a.var())] : a);
      return out;
    };
    const auto avals = [&](const std::vector<Var>& vars) {
      std::vector<Aval> out;
      for (const Var v : vars) out.push_back(jaxpr_.aval(v));
      return out;
    };
    for (const std::size_t e : order) {
      if (e == pair.second) {
        std::vector<Atom> rest;  // operands of the second loop that are not the first one's rows
        for (std::size_t i = 0; i < n.inputs; ++i)
          if (pair.row_of[i] < 0) rest.push_back(g.inputs[i]);
        const auto split = static_cast<std::ptrdiff_t>(m.consts);
        std::vector<Atom> operands(f.inputs.begin(), f.inputs.begin() + split);
        operands.insert(operands.end(), rest.begin(),
                        rest.begin() + static_cast<std::ptrdiff_t>(n.consts));
        const std::vector<Atom> tail = interleaved<Atom>(
            {f.inputs.begin() + split, f.inputs.end()}, m.carry,
            {rest.begin() + static_cast<std::ptrdiff_t>(n.consts), rest.end()}, n.carry);
        operands.insert(operands.end(), tail.begin(), tail.end());
        const std::vector<Var> olds = interleaved(f.outputs, m.carry, g.outputs, n.carry);
        const std::vector<Var> news = b.add_eqn(scan_p, Params::of(both), mapped(operands),
                                                avals(olds), Effect::none, f.where);
        for (std::size_t i = 0; i < olds.size(); ++i) atoms[at(olds[i])] = Atom::var(news[i]);
        continue;
      }
      const std::vector<Var> news =
          b.add_eqn(*eqn(e).primitive, eqn(e).params, mapped(eqn(e).inputs), avals(eqn(e).outputs),
                    eqn(e).effect, eqn(e).where);
      for (std::size_t i = 0; i < news.size(); ++i)
        atoms[at(eqn(e).outputs[i])] = Atom::var(news[i]);
    }
    Jaxpr result = b.build(mapped(jaxpr_.outs())).jaxpr;
    return stays_cellular(result) ? std::optional(std::move(result)) : std::nullopt;
  }

  // Whether the joined loop is cellular: there are as many of them as before, less the one that is gone.
  bool stays_cellular(const Jaxpr& result) const {
    const auto count = [](const Jaxpr& jaxpr) {
      return std::count_if(jaxpr.eqns().begin(), jaxpr.eqns().end(),
                           [&](const Eqn& e) { return is_loop(e) && cell_loop(jaxpr, e); });
    };
    return count(result) + 1 == count(jaxpr_);
  }

  const Jaxpr& jaxpr_;
};

// The loops in the bodies of equations.
Jaxpr within_bodies(const Jaxpr& jaxpr) {
  JaxprBuilder builder;
  detail::Renaming renamed(jaxpr);
  for (const Aval& aval : jaxpr.in_avals()) renamed.push(Atom::var(builder.add_input(aval)));
  bool changed = false;
  for (const Eqn& eqn : jaxpr.eqns()) {
    renamed.push(
        builder.add_eqn(*eqn.primitive, detail::map_jaxprs(eqn.params, join_loops, changed),
                        renamed(eqn.inputs), renamed.out_avals(eqn), eqn.effect, eqn.where));
  }
  return changed ? builder.build(renamed(jaxpr.outs())).jaxpr : jaxpr;
}

}  // namespace

Jaxpr join_loops(const Jaxpr& jaxpr) {
  Jaxpr result = within_bodies(jaxpr);
  while (const auto joined = Join(result).run()) result = *joined;
  return result;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
