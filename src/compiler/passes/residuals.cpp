// Loops that run backwards read what the loop before them wrote down at each trip. What is cheap to
// compute again from the carry, or from the rest, is not written down.
//
//   c, s, m = scan(c -> let s = 1 - c, m = r * c in (m * s, s, m))      two rows per trip
//   g       = scan[reverse](g, s, m -> g * s * r - g * m)
// becomes
//   c, cs = scan(c -> (r * c * (1 - c), c))                            one row per trip
//   g     = scan[reverse](g, c -> let s = 1 - c, m = r * c in g * s * r - g * m)
//
// The same operations on the same numbers: no bit of any result changes.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/permutations.hpp"
#include "compiler/plan/plan.hpp"
#include "core/size_errors.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr int kCheap = 5;                       // cycles of an operation that is done again
constexpr std::int64_t kWorthIt = 8;            // operations per number that is not written down
constexpr std::int64_t kLeastBytes = 32 << 10;  // of all trips: less stays in the caches

// Of a batch of small vectors the components are written down one after the other, f32[n, 3] as
// f32[3, n]: then the lanes of a batch are side by side.
bool by_components(const Shape& shape) {
  constexpr std::int64_t kBatch = 64, kMostComponents = 8;
  return shape.size() > 1 && shape[0] >= kBatch &&
         shape.num_elements() / shape[0] <= kMostComponents && shape.num_elements() > shape[0];
}
Shape batch_last(std::size_t rank) {  // the permutation
  Shape out;
  for (std::size_t d = 1; d < rank; ++d) out.push_back(static_cast<std::int64_t>(d));
  out.push_back(0);
  return out;
}
Shape batch_first(std::size_t rank) {
  Shape out{static_cast<std::int64_t>(rank) - 1};
  for (std::size_t d = 0; d + 1 < rank; ++d) out.push_back(static_cast<std::int64_t>(d));
  return out;
}
Atom transposed(JaxprBuilder& b, const Atom& x, const Shape& order) {
  const Aval aval = b.aval(x);
  return Atom::var(b.add_eqn1(transpose_p, Params::of(TransposeParams{order}), {x},
                              aval.with_shape(permuted(order, aval.shape))));
}

/// What becomes of a pair of loops.
struct Pair {
  int forward = -1, backward = -1;  ///< equations
  std::vector<bool> dropped;        ///< of the forward body's results
  std::vector<int> row_of;          ///< of those: the operand of `backward`, else -1
  std::vector<int> carries;         ///< written down instead
  std::vector<int> consts, rows;    ///< operands of `forward` that `backward` reads, too
  std::vector<int> again;           ///< equations of the forward body, in order
};

/// Which rows of one pair of loops to compute again.
class Choice {
 public:
  Choice(const Jaxpr& body, const ScanParams& p, std::vector<int> row_of)
      : body_(body), p_(p), available_(static_cast<std::size_t>(body.num_inputs()), true) {
    pair_.row_of = std::move(row_of);
    pair_.dropped.assign(body.outs().size(), false);
  }

  std::optional<Pair> run() {
    std::vector<std::size_t> rows;  // in the order in which they are computed
    for (std::size_t i = 0; i < pair_.row_of.size(); ++i) {
      if (pair_.row_of[i] < 0) continue;
      if (body_.outs()[i].is_var()) rows.push_back(i);
      else pair_.dropped[i] = true;
    }
    const auto var = [&](std::size_t i) { return body_.outs()[i].var(); };
    std::sort(rows.begin(), rows.end(), [&](auto a, auto b) { return var(a) < var(b); });
    std::int64_t saved = 0, bytes = 0;
    for (const std::size_t i : rows) {
      const Var v = var(i);
      // A carry that is written down is what the others are computed from.
      if (!kept_.contains(v) && (is_carry(v) || !available(v))) {
        kept_.insert(v);
        continue;
      }
      pair_.dropped[i] = true;
      saved += body_.aval(v).size();
      bytes += weight_of(body_.aval(v));
    }
    std::set<Var> computed;
    for (const std::size_t i : rows) {
      if (pair_.dropped[i] && !kept_.contains(var(i))) computed.insert(var(i));
    }
    need(std::move(computed));
    for (const int c : pair_.carries) {
      saved -= body_.aval(static_cast<Var>(c)).size();
      bytes -= weight_of(body_.aval(static_cast<Var>(c)));
    }
    std::int64_t work = 0;
    for (const int e : pair_.again) {
      const Eqn& eqn = body_.eqns()[static_cast<std::size_t>(e)];
      if (form_of(body_, eqn) == Form::element)
        work += element_cost(eqn) * body_.aval(eqn.outputs[0]).size();
    }
    if (saved <= 0 || bytes * p_.length < kLeastBytes || work > kWorthIt * saved)
      return std::nullopt;
    return std::move(pair_);
  }

 private:
  bool is_const(Var v) const { return v < p_.num_consts; }
  bool is_carry(Var v) const { return !is_const(v) && v < p_.num_consts + p_.num_carry; }

  // Whether v can be computed from operands, the carry and the rows that are kept. Rows are asked for in the order in which
  // they are computed: kept_ has all those before v.
  bool available(Var v) {
    const auto known = [&](const Atom& a) {
      return a.is_literal() || kept_.contains(a.var()) ||
             available_[static_cast<std::size_t>(a.var())];
    };
    for (; available_.size() <= static_cast<std::size_t>(v); ++looked_at_) {
      const Eqn& eqn = body_.eqns()[looked_at_];
      const bool ok = eqn.effect == Effect::none && is_fusible(form_of(body_, eqn)) &&
                      (form_of(body_, eqn) != Form::element || element_cost(eqn) <= kCheap) &&
                      std::all_of(eqn.inputs.begin(), eqn.inputs.end(), known);
      available_.insert(available_.end(), eqn.outputs.size(), ok);
    }
    return available_[static_cast<std::size_t>(v)];
  }

  // What the rows that are dropped are computed from.
  void need(std::set<Var> needed) {
    for (std::size_t e = body_.eqns().size(); e-- > 0;) {
      const Eqn& eqn = body_.eqns()[e];
      if (std::none_of(eqn.outputs.begin(), eqn.outputs.end(),
                       [&](Var v) { return needed.contains(v); }))
        continue;
      pair_.again.push_back(static_cast<int>(e));
      for (const Atom& a : eqn.inputs) {
        if (a.is_var() && !kept_.contains(a.var())) needed.insert(a.var());
      }
    }
    std::reverse(pair_.again.begin(), pair_.again.end());
    for (const Var v : needed) {
      if (v >= body_.num_inputs()) break;
      (is_const(v) ? pair_.consts : is_carry(v) ? pair_.carries : pair_.rows).push_back(v);
    }
  }

  const Jaxpr& body_;
  const ScanParams& p_;
  std::set<Var> kept_;
  std::vector<bool> available_;  // of the variables of so many equations
  std::size_t looked_at_ = 0;
  Pair pair_;
};

class Residuals {
 public:
  explicit Residuals(const Jaxpr& jaxpr) : jaxpr_(jaxpr), renamed_(jaxpr) { find_pairs(); }

  Jaxpr run() {
    renamed_.push_inputs(builder_);
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (const auto f = forward_.find(static_cast<int>(e)); f != forward_.end()) {
        write_down(eqn, f->second);
      } else if (const auto b = backward_.find(static_cast<int>(e)); b != backward_.end()) {
        compute_again(eqn, forward_.at(b->second));
      } else {
        renamed_.push_eqn(builder_, eqn, inner(eqn.params));
      }
    }
    return builder_.build(renamed_(jaxpr_.outs())).jaxpr;
  }

 private:
  static Params inner(const Params& params) {
    bool changed = false;
    return detail::map_jaxprs(params, recompute_residuals, changed);
  }

  // ---- pairs -------------------------------------------------------------------------------------
  struct Use {
    int eqn = -1, operand = -1, times = 0;
  };

  void find_pairs() {
    std::vector<Use> uses(static_cast<std::size_t>(jaxpr_.num_vars()));
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
        if (!eqn.inputs[i].is_var()) continue;
        Use& use = uses[static_cast<std::size_t>(eqn.inputs[i].var())];
        use = {static_cast<int>(e), static_cast<int>(i), use.times + 1};
      }
    }
    for (const Atom& out : jaxpr_.outs()) {
      if (out.is_var()) uses[static_cast<std::size_t>(out.var())].times += 2;
    }
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (eqn.primitive == &scan_p && eqn.effect == Effect::none)
        find_pair(static_cast<int>(e), eqn, uses);
    }
  }

  void find_pair(int forward, const Eqn& eqn, const std::vector<Use>& uses) {
    const auto& p = eqn.params.as<ScanParams>();
    int backward = -1;
    std::vector<int> row_of(eqn.outputs.size(), -1);
    for (std::size_t i = static_cast<std::size_t>(p.num_carry); i < eqn.outputs.size(); ++i) {
      const Use& use = uses[static_cast<std::size_t>(eqn.outputs[i])];
      if (use.times != 1 || (backward >= 0 && use.eqn != backward)) continue;
      const Eqn& reader = jaxpr_.eqns()[static_cast<std::size_t>(use.eqn)];
      if (reader.primitive != &scan_p || backward_.contains(use.eqn)) continue;
      const auto& q = reader.params.as<ScanParams>();
      if (q.length != p.length || use.operand < q.num_consts + q.num_carry) continue;
      backward = use.eqn;
      row_of[i] = use.operand;
    }
    if (backward < 0 || forward_.contains(backward) || backward_.contains(forward)) return;
    auto pair = Choice(p.jaxpr, p, std::move(row_of)).run();
    if (!pair) return;
    pair->forward = forward;
    pair->backward = backward;
    backward_[backward] = forward;
    forward_.emplace(forward, std::move(*pair));
  }

  // ---- rewriting ---------------------------------------------------------------------------------
  void write_down(const Eqn& eqn, const Pair& pair) {
    ScanParams p = eqn.params.as<ScanParams>();
    const Jaxpr old = p.jaxpr;
    JaxprBuilder b;
    Renaming inside(old);
    inside.push_inputs(b);
    for (const Eqn& e : old.eqns()) inside.push_eqn(b, e);
    Atoms outs;
    std::vector<Aval> avals;
    for (std::size_t i = 0; i < old.outs().size(); ++i) {
      if (pair.dropped[i]) continue;
      outs.push_back(inside(old.outs()[i]));
      avals.push_back(jaxpr_.aval(eqn.outputs[i]));
    }
    for (const int c : pair.carries) {
      Atom row = inside(Atom::var(c));
      const Shape& whole = b.aval(row).shape;
      if (by_components(whole)) row = transposed(b, row, batch_last(whole.size()));
      Shape shape = b.aval(row).shape;
      shape.insert(0, p.length);
      avals.push_back(b.aval(row).with_shape(shape));
      outs.push_back(row);
    }
    p.jaxpr = b.build(std::move(outs)).jaxpr;
    const Vars results = builder_.add_eqn(scan_p, inner(Params::of(std::move(p))),
                                          renamed_(eqn.inputs), avals, eqn.effect, eqn.where);
    std::size_t next = 0;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i)
      renamed_.push(pair.dropped[i] ? Atom::var(0) : Atom::var(results[next++]));
    auto& carries = carries_[pair.forward];
    for (; next < results.size(); ++next) carries.push_back(Atom::var(results[next]));
  }

  void compute_again(const Eqn& eqn, const Pair& pair) {
    const Eqn& forward = jaxpr_.eqns()[static_cast<std::size_t>(pair.forward)];
    const Jaxpr& body = forward.params.as<ScanParams>().jaxpr;
    ScanParams p = eqn.params.as<ScanParams>();
    const Jaxpr old = p.jaxpr;
    std::set<int> gone;
    for (std::size_t i = 0; i < pair.dropped.size(); ++i) {
      if (pair.dropped[i]) gone.insert(pair.row_of[i]);
    }
    JaxprBuilder b;
    std::map<Var, Atom> again;                 // the forward body's variables
    std::vector<std::pair<Var, Atom>> turned;  // rows that are written by components
    Atoms operands, inputs(static_cast<std::size_t>(old.num_inputs()), Atom::var(0));
    const auto take = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        if (gone.contains(i)) continue;
        inputs[static_cast<std::size_t>(i)] = Atom::var(b.add_input(old.aval(i)));
        operands.push_back(renamed_(eqn.inputs[static_cast<std::size_t>(i)]));
      }
    };
    const auto take_too = [&](int v, const Atom& operand) {
      again.emplace(v, Atom::var(b.add_input(body.aval(v))));
      operands.push_back(operand);
    };
    take(0, p.num_consts);
    for (const int c : pair.consts)
      take_too(c, renamed_(forward.inputs[static_cast<std::size_t>(c)]));
    take(p.num_consts, old.num_inputs());
    for (const int r : pair.rows)
      take_too(r, renamed_(forward.inputs[static_cast<std::size_t>(r)]));
    for (std::size_t c = 0; c < pair.carries.size(); ++c) {
      const Aval& aval = body.aval(static_cast<Var>(pair.carries[c]));
      const Atom& rows = carries_.at(pair.forward)[c];
      if (!by_components(aval.shape)) {
        take_too(pair.carries[c], rows);
        continue;
      }
      Shape shape = builder_.aval(rows).shape;
      shape.erase(0);
      const Atom row = Atom::var(b.add_input(aval.with_shape(shape)));
      operands.push_back(rows);
      turned.emplace_back(pair.carries[c], row);
    }
    for (const auto& [c, row] : turned)
      again.emplace(c, transposed(b, row, batch_first(b.aval(row).shape.size())));
    p.num_consts += static_cast<int>(pair.consts.size());

    for (std::size_t i = 0; i < pair.dropped.size(); ++i) {  // rows that are read as before
      if (pair.row_of[i] >= 0 && !pair.dropped[i] && body.outs()[i].is_var())
        again.emplace(body.outs()[i].var(), inputs[static_cast<std::size_t>(pair.row_of[i])]);
    }
    const auto value = [&](const Atom& a) { return a.is_var() ? again.at(a.var()) : a; };
    for (const int e : pair.again) {
      const Eqn& f = body.eqns()[static_cast<std::size_t>(e)];
      Atoms in;
      for (const Atom& a : f.inputs) in.push_back(value(a));
      const Vars out = b.add_eqn(*f.primitive, f.params, in, detail::avals_of(body, f.outputs),
                                 Effect::none, f.where);
      for (std::size_t i = 0; i < out.size(); ++i)
        again.insert_or_assign(f.outputs[i], Atom::var(out[i]));
    }
    for (std::size_t i = 0; i < pair.dropped.size(); ++i) {
      if (pair.dropped[i]) inputs[static_cast<std::size_t>(pair.row_of[i])] = value(body.outs()[i]);
    }
    p.jaxpr = b.build(b.inline_jaxpr(old, inputs)).jaxpr;
    renamed_.push(builder_.add_eqn(scan_p, inner(Params::of(std::move(p))), operands,
                                   renamed_.out_avals(eqn), eqn.effect, eqn.where));
  }

  const Jaxpr& jaxpr_;
  Renaming renamed_;
  JaxprBuilder builder_;
  std::map<int, Pair> forward_;
  std::map<int, int> backward_;   // to forward_
  std::map<int, Atoms> carries_;  // written down, by forward loop
};

}  // namespace

Jaxpr recompute_residuals(const Jaxpr& jaxpr) {
  return detail::has_regions(jaxpr) ? Residuals(jaxpr).run() : jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
