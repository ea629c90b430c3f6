// Writes groups of kernels over rows as loops over blocks of rows; those that take sums as loops over parts, in which are
// such loops that carry the sums so far:
//   y = exp(x @ w), s = sum(y, 0)
//   ->   t = scan(part of x -> scan(0, block of x -> s + sum(exp(block @ w), 0))), s = sum(t, 0)
#include "compiler/passes/row_loops.hpp"

#include <algorithm>
#include <optional>

#include "compiler/passes/numbers.hpp"
#include "compiler/plan/dot.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

class RowLoops {
 public:
  RowLoops(const Jaxpr& jaxpr, const std::vector<RowGroup>& groups)
      : jaxpr_(jaxpr),
        groups_(groups),
        producer_(detail::producers(jaxpr)),
        group_of_(static_cast<std::size_t>(jaxpr.num_vars()), kNone),
        is_emitted_(jaxpr.eqns().size(), false) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const Var v : groups[g].stored)
        group_of_[static_cast<std::size_t>(v)] = static_cast<int>(g);
    }
    int previous = kNone;
    for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) {
      effect_before_.push_back(previous);
      if (jaxpr.eqns()[e].effect == Effect::ordered) previous = static_cast<int>(e);
    }
  }

  Jaxpr run() {
    atoms_.resize(static_cast<std::size_t>(jaxpr_.num_vars()));
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      atoms_[static_cast<std::size_t>(v)] = Atom::var(builder_.add_input(jaxpr_.aval(v)));
    const std::vector<bool> needed = needed_variables(jaxpr_, [&](Var v) -> const RowGroup* {
      const int g = group_of_[static_cast<std::size_t>(v)];
      return g == kNone ? nullptr : &groups_[static_cast<std::size_t>(g)];
    });
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& equation = jaxpr_.eqns()[e];
      bool any = false;
      for (const Var v : equation.outputs) {
        any = any || needed[static_cast<std::size_t>(v)];
        if (needed[static_cast<std::size_t>(v)]) atom(Atom::var(v));
      }
      if (!any && equation.effect != Effect::none) emit(static_cast<int>(e));
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(atom(a));
    return builder_.build(std::move(outs)).jaxpr;
  }

 private:
  static constexpr int kNone = -1;
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(Var v) const { return producer_[static_cast<std::size_t>(v)]; }

  // What an atom has become; first, what computes it.
  Atom atom(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& known = atoms_[static_cast<std::size_t>(a.var())];
    if (known) return *known;
    const int g = group_of_[static_cast<std::size_t>(a.var())];
    if (g != kNone) {
      emit_group(groups_[static_cast<std::size_t>(g)]);
      if (!known) throw InternalError("a value inside a group of kernels is needed outside");
      return *known;
    }
    emit(producer(a.var()));
    return *known;
  }
  void emit(int e) {
    if (is_emitted_[static_cast<std::size_t>(e)]) return;
    is_emitted_[static_cast<std::size_t>(e)] = true;
    // A loop may need what an effect gives before the program has come to the effects before that.
    if (const int before = effect_before_[static_cast<std::size_t>(e)];
        eqn(e).effect == Effect::ordered && before != kNone)
      emit(before);
    Atoms inputs;
    for (const Atom& a : eqn(e).inputs) inputs.push_back(atom(a));
    const Vars& made =
        builder_.add_eqn(*eqn(e).primitive, eqn(e).params, std::move(inputs),
                         detail::avals_of(jaxpr_, eqn(e).outputs), eqn(e).effect, eqn(e).where);
    for (std::size_t i = 0; i < made.size(); ++i)
      atoms_[static_cast<std::size_t>(eqn(e).outputs[i])] = Atom::var(made[i]);
  }

  void emit_group(const RowGroup& g) {
    Atoms inputs;
    const std::set<Var> turned = laid_by_rows(g);
    for (const Var v : g.as_a_whole) {
      inputs.push_back(atom(Atom::var(v)));
      if (turned.contains(v)) inputs.back() = by_rows(builder_, inputs.back());
    }
    for (const Var v : g.by_blocks)
      inputs.push_back(reshaped(atom(Atom::var(v)), whole_of(g, jaxpr_.aval(v))));
    const Vars made = g.parts > 1 ? add_loop(builder_, g, g.parts, false, part(g), inputs)
                                  : add_blocks(builder_, g, std::move(inputs));
    std::size_t i = 0;
    for (const Var v : g.sums) {  // of all parts
      const Atom of_parts = Atom::var(made[i++]);
      atoms_[static_cast<std::size_t>(v)] = Atom::var(
          builder_.add_eqn1(reduce_sum_p, Params::of(AxesParams{{0}}), {of_parts}, jaxpr_.aval(v)));
    }
    for (const Var v : g.outputs)
      atoms_[static_cast<std::size_t>(v)] = reshaped(Atom::var(made[i++]), jaxpr_.aval(v));
  }

  // ---- shapes: [rows, ...] as the blocks of a part, and of all parts ------------------------------
  static std::int64_t trips(const RowGroup& g) { return g.rows / g.block / g.parts; }
  static Aval part_of(const RowGroup& g, const Aval& aval) {
    return in_blocks(with_rows(aval, g.rows / g.parts), g.block);
  }
  static Aval whole_of(const RowGroup& g, Aval aval) {
    if (g.parts == 1) return in_blocks(std::move(aval), g.block);
    return stacked(part_of(g, aval), g.parts);
  }
  static Aval stacked(Aval aval, std::int64_t times) {
    aval.shape.insert(0, times);
    return aval;
  }

  // ---- loops -------------------------------------------------------------------------------------
  // Over parts, whose results are stacked, or over blocks, with a carry of sums.
  Vars add_loop(JaxprBuilder& b, const RowGroup& g, std::int64_t length, bool carries, Jaxpr body,
                Atoms inputs) const {
    std::vector<Aval> avals;
    for (const Var v : g.sums)
      avals.push_back(carries ? jaxpr_.aval(v) : stacked(jaxpr_.aval(v), length));
    for (const Var v : g.outputs)
      avals.push_back(carries ? part_of(g, jaxpr_.aval(v)) : whole_of(g, jaxpr_.aval(v)));
    ScanParams params;
    params.jaxpr = std::move(body);
    params.length = length;
    params.num_consts = static_cast<int>(g.as_a_whole.size());
    params.num_carry = carries ? static_cast<int>(g.sums.size()) : 0;
    return b.add_eqn(scan_p, Params::of(std::move(params)), std::move(inputs), avals, Effect::none,
                     eqn(g.eqns.begin()->first).where);
  }
  // Given what is the same for all of them, and the blocks: sums of these, which begin with zero, and results.
  Vars add_blocks(JaxprBuilder& b, const RowGroup& g, Atoms inputs) const {
    Atoms zeros;
    for (const Var v : g.sums) zeros.push_back(filled(b, 0, jaxpr_.aval(v)));
    const auto blocks = inputs.begin() + static_cast<std::ptrdiff_t>(g.as_a_whole.size());
    inputs.insert(blocks, zeros.begin(), zeros.end());
    return add_loop(b, g, trips(g), true, body(g), std::move(inputs));
  }
  Jaxpr part(const RowGroup& g) const {
    JaxprBuilder b;
    Atoms inputs;
    for (const Aval& aval : avals_of_whole(g)) inputs.push_back(Atom::var(b.add_input(aval)));
    for (const Var v : g.by_blocks)
      inputs.push_back(Atom::var(b.add_input(part_of(g, jaxpr_.aval(v)))));
    Atoms outs;
    for (const Var v : add_blocks(b, g, std::move(inputs))) outs.push_back(Atom::var(v));
    return b.build(std::move(outs)).jaxpr;
  }
  Atom reshaped(const Atom& a, const Aval& aval) {
    // What one group leaves another has the shape of blocks already.
    const auto found = reshaped_from_.find(a.var());
    const Atom from = found == reshaped_from_.end() ? a : found->second;
    if (builder_.aval(from).shape == aval.shape) return from;
    const Var made =
        builder_.add_eqn1(reshape_p, Params::of(ReshapeParams{aval.shape}), {from}, aval);
    reshaped_from_.emplace(made, from);
    return Atom::var(made);
  }

  Jaxpr body(const RowGroup& g) const {
    JaxprBuilder b;
    std::map<Var, Atom> whole, block;
    const auto small = [&](Var v) { return with_rows(jaxpr_.aval(v), g.block); };
    const std::set<Var> turned = laid_by_rows(g);
    const Avals avals_of = avals_of_whole(g);
    auto aval = avals_of.begin();
    for (const Var v : g.as_a_whole) whole.emplace(v, Atom::var(b.add_input(*aval++)));
    Atoms before;
    for (const Var v : g.sums) before.push_back(Atom::var(b.add_input(jaxpr_.aval(v))));
    for (const Var v : g.by_blocks) block.emplace(v, Atom::var(b.add_input(small(v))));
    const RowRules rules(jaxpr_, g.rows);
    const std::function<void(int)> emit = [&](int e) {
      const bool by_rows = g.eqns.at(e) == Need::block;
      auto& made = by_rows ? block : whole;
      if (made.contains(eqn(e).outputs[0])) return;
      const bool sums = g.sums.contains(eqn(e).outputs[0]);
      const std::vector<Need> needs = sums ? *rules.sums(eqn(e))
                                      : by_rows
                                          ? *rules.needs(eqn(e))
                                          : std::vector<Need>(eqn(e).inputs.size(), Need::whole);
      Atoms inputs;
      for (std::size_t i = 0; i < needs.size(); ++i) {
        const Atom& a = eqn(e).inputs[i];
        inputs.push_back(a);
        if (a.is_literal()) continue;
        const auto& known = needs[i] == Need::block ? block : whole;
        if (!known.contains(a.var())) emit(producer(a.var()));
        inputs.back() = known.at(a.var());
      }
      std::vector<Aval> avals;
      for (const Var v : eqn(e).outputs)
        avals.push_back(by_rows && !sums ? small(v) : jaxpr_.aval(v));
      Params params = by_rows ? RowRules::with_rows(eqn(e), g.block) : eqn(e).params;
      if (eqn(e).primitive == &dot_general_p) {
        const Atom& rhs = eqn(e).inputs[1];
        lay_by_rows(b, params, inputs, avals[0].dtype, rhs.is_var() && turned.contains(rhs.var()));
      }
      const auto results = b.add_eqn(*eqn(e).primitive, std::move(params), std::move(inputs), avals,
                                     Effect::none, eqn(e).where);
      for (std::size_t i = 0; i < results.size(); ++i)
        made.emplace(eqn(e).outputs[i], Atom::var(results[i]));
    };
    for (const Var v : g.order) emit(producer(v));
    Atoms outs;
    for (const Var v : g.sums) {
      const Atom& more = block.at(v);
      outs.push_back(Atom::var(b.add_eqn1(add_p, {}, {before[outs.size()], more}, jaxpr_.aval(v))));
    }
    for (const Var v : g.outputs) outs.push_back(block.at(v));
    return b.build(std::move(outs)).jaxpr;
  }

  // What a call takes as it is may be small enough for loops, block by block: these want the right operand by rows.
  bool wants_by_rows(const Aval& lhs, const Aval& rhs, const DotGeneralParams& params,
                     DType out) const {
    const auto product = matrix_product(lhs, rhs, params);
    return rhs.ndim() == 2 && params.dimension_numbers.rhs_contracting == Shape{1} && product &&
           wants_transpose(*product, out);
  }
  static Aval by_rows(const Aval& aval) { return aval.with_shape({aval.shape[1], aval.shape[0]}); }
  static Atom by_rows(JaxprBuilder& b, const Atom& x) {
    return Atom::var(
        b.add_eqn1(transpose_p, Params::of(TransposeParams{{1, 0}}), {x}, by_rows(b.aval(x))));
  }
  // `is_laid`: the right operand lies so already.
  void lay_by_rows(JaxprBuilder& b, Params& params, Atoms& inputs, DType out, bool is_laid) const {
    auto p = params.as<DotGeneralParams>();
    if (!is_laid) {
      if (!wants_by_rows(b.aval(inputs[0]), b.aval(inputs[1]), p, out)) return;
      inputs[1] = by_rows(b, inputs[1]);
    }
    p.dimension_numbers.rhs_contracting = {0};
    params = Params::of(std::move(p));
  }
  // What all blocks take by rows, and nothing of a group otherwise, is laid so once.
  std::set<Var> laid_by_rows(const RowGroup& g) const {
    std::map<Var, bool> all;
    for (const auto& [e, need] : g.eqns) {
      const Eqn& q = eqn(e);
      for (std::size_t i = 0; i < q.inputs.size(); ++i) {
        if (!q.inputs[i].is_var() || !g.as_a_whole.contains(q.inputs[i].var())) continue;
        const bool turns =
            i == 1 && q.primitive == &dot_general_p && need == Need::block &&
            !g.sums.contains(q.outputs[0]) && !(q.inputs[0] == q.inputs[1]) &&
            wants_by_rows(with_rows(jaxpr_.aval(q.inputs[0]), g.block), jaxpr_.aval(q.inputs[1]),
                          q.params.as<DotGeneralParams>(), jaxpr_.aval(q.outputs[0]).dtype);
        const auto found = all.emplace(q.inputs[i].var(), turns).first;
        found->second = found->second && turns;
      }
    }
    std::set<Var> turned;
    for (const auto& [v, turns] : all) {
      if (turns) turned.insert(v);
    }
    return turned;
  }
  Avals avals_of_whole(const RowGroup& g) const {
    const std::set<Var> turned = laid_by_rows(g);
    Avals avals;
    for (const Var v : g.as_a_whole)
      avals.push_back(turned.contains(v) ? by_rows(jaxpr_.aval(v)) : jaxpr_.aval(v));
    return avals;
  }

  const Jaxpr& jaxpr_;
  const std::vector<RowGroup>& groups_;
  const std::vector<int> producer_;
  std::vector<int> group_of_;       // of each variable that one stores
  std::vector<int> effect_before_;  // of each equation: the last ordered effect before it
  std::vector<bool> is_emitted_;    // of each equation
  JaxprBuilder builder_;
  std::vector<std::optional<Atom>> atoms_;  // of each variable
  std::map<Var, Atom> reshaped_from_;
};

}  // namespace

std::vector<bool> needed_variables(const Jaxpr& jaxpr,
                                   const std::function<const RowGroup*(Var)>& group_of) {
  const std::vector<int> producer = detail::producers(jaxpr);
  std::vector<bool> out(static_cast<std::size_t>(jaxpr.num_vars()), false);
  Vars todo;
  const auto want = [&](Var v) {
    if (out[static_cast<std::size_t>(v)]) return;
    out[static_cast<std::size_t>(v)] = true;
    todo.push_back(v);
  };
  const auto want_all = [&](const Atoms& atoms) {
    for (const Atom& a : atoms) {
      if (a.is_var()) want(a.var());
    }
  };
  want_all(jaxpr.outs());
  for (const Eqn& e : jaxpr.eqns()) {
    if (e.effect != Effect::none) want_all(e.inputs);
  }
  while (!todo.empty()) {
    const Var v = todo.back();
    todo.pop_back();
    if (const RowGroup* g = group_of(v)) {
      for (const Var leaf : g->by_blocks) want(leaf);
      for (const Var leaf : g->as_a_whole) want(leaf);
    } else if (const int e = producer[static_cast<std::size_t>(v)]; e >= 0) {
      want_all(jaxpr.eqns()[static_cast<std::size_t>(e)].inputs);
    }
  }
  return out;
}

Jaxpr with_row_loops(const Jaxpr& jaxpr, const std::vector<RowGroup>& groups) {
  return RowLoops(jaxpr, groups).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
