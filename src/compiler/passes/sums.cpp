// Sums over a batch that a loop adds to a carry, as gradients of what the batch shares are: each
// element of the batch adds up for itself, and the sum over the batch is taken once, after the loop.
//
//   (g, c) = scan((g, c) -> (g + reduce_sum(f(c)), ...))    c: f32[4096], g: f32[]
// becomes
//   (G, c) = scan((G, c) -> (G + f(c), ...))                G: f32[4096]
//   g      = g0 + reduce_sum(G)
//
// Then nothing in the loop mixes the batch, and its lanes run on their own (cells.hpp). As in any
// reduction, the order in which numbers are added is not what the program says.
#include "compiler/passes/sums.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/forms.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr std::int64_t kLeastBatch = 16;

class Deferral {
 public:
  explicit Deferral(const ScanParams& p)
      : p_(p),
        body_(p.jaxpr),
        producer_(detail::producers(p.jaxpr)),
        uses_(detail::use_counts(p.jaxpr)),
        summed_(static_cast<std::size_t>(p.jaxpr.num_vars())) {
    for (const Eqn& eqn : body_.eqns()) {
      if (eqn.outputs.size() == 1) summed_[static_cast<std::size_t>(eqn.outputs[0])] = sum(eqn);
    }
  }

  /// The carries that are such sums, with the terms over the batch.
  std::map<int, Vars> find() {
    std::map<int, Vars> out;
    for (int k = 0; k < p_.num_carry; ++k) {
      const Atom& result = body_.outs()[static_cast<std::size_t>(k)];
      const Var carry = p_.num_consts + k;
      if (!result.is_var() || !is_float(body_.aval(result).dtype) || result.var() == carry ||
          uses_[static_cast<std::size_t>(carry)] != 1)
        continue;
      if (auto terms = split(result.var(), carry)) out[k] = std::move(*terms);
    }
    return out;
  }
  std::int64_t batch() const { return batch_; }
  /// The elements over which this is linear in sums over the leading dimension, all of the same size; 0: it is no sum.
  std::int64_t summed(const Atom& a) const {
    return a.is_var() ? summed_[static_cast<std::size_t>(a.var())] : 0;
  }
  const Eqn* eqn_of(Var v) const {
    const int e = producer_[static_cast<std::size_t>(v)];
    return e < 0 ? nullptr : &body_.eqns()[static_cast<std::size_t>(e)];
  }

 private:
  // The terms of v = carry + terms, if all are sums over the batch.
  std::optional<Vars> split(Var v, Var carry) {
    Vars terms, left = {v};
    bool found_carry = false;
    std::int64_t batch = batch_;
    while (!left.empty()) {
      v = left.back();
      left.pop_back();
      if (v == carry) {
        found_carry = true;
        continue;
      }
      const Eqn* eqn = eqn_of(v);
      if (eqn != nullptr && eqn->primitive == &add_p && uses_[static_cast<std::size_t>(v)] == 1) {
        for (const std::size_t i : {1, 0}) {
          const Atom& a = eqn->inputs[i];
          if (!a.is_var() || body_.aval(a).shape != body_.aval(v).shape) return std::nullopt;
          left.push_back(a.var());
        }
        continue;
      }
      const std::int64_t n = summed(Atom::var(v));
      if (n == 0 || (batch != 0 && batch != n)) return std::nullopt;
      batch = n;
      terms.push_back(v);
    }
    if (!found_carry || terms.empty()) return std::nullopt;
    batch_ = batch;
    return terms;
  }

  // summed() of its result; of its operands that is known.
  std::int64_t sum(const Eqn& eqn) const {
    const PrimitiveBase* p = eqn.primitive;
    const auto of = [&](std::size_t i) { return summed(eqn.inputs[i]); };
    if (p == &reduce_sum_p) {
      const Atom& x = eqn.inputs[0];
      if (!x.is_var() || !reduction_axes(eqn).contains(0)) return 0;
      const std::int64_t n = body_.aval(x).shape[0];
      return n < kLeastBatch ? 0 : n;
    }
    if (p == &neg_p || p == &reshape_p || p == &broadcast_in_dim_p) return of(0);
    if (p == &add_p) {
      const bool fits = body_.aval(eqn.inputs[0]).shape == body_.aval(eqn.inputs[1]).shape;
      return fits && of(0) == of(1) ? of(0) : 0;
    }
    if (p == &mul_p) return of(0) == 0 || of(1) == 0 ? of(0) + of(1) : 0;
    if (p == &pad_p) {
      const Atom& padding = eqn.inputs[1];
      return padding.is_literal() && padding.literal().item<double>() == 0 ? of(0) : 0;
    }
    return 0;
  }

  const ScanParams& p_;
  const Jaxpr& body_;
  std::vector<int> producer_, uses_;
  std::vector<std::int64_t> summed_;
  std::int64_t batch_ = 0;
};

Aval with_batch(const Aval& aval, std::int64_t n) {
  Shape shape = aval.shape;
  shape.insert(0, n);
  return aval.with_shape(shape);
}

/// Emits what sums over the batch sum.
class Unsummed {
 public:
  Unsummed(JaxprBuilder& b, const Jaxpr& body, const Deferral& terms, const Renaming& renamed,
           const std::map<int, Vars>& sums)
      : b_(b), body_(body), terms_(terms), renamed_(renamed) {
    std::set<Var> needed;
    for (const auto& [carry, vars] : sums) needed.insert(vars.begin(), vars.end());
    for (auto left = needed.rbegin(); left != needed.rend(); ++left) {
      const Eqn& eqn = *terms_.eqn_of(*left);
      if (eqn.primitive == &reduce_sum_p) continue;
      for (const Atom& a : eqn.inputs) {
        if (terms_.summed(a) != 0) needed.insert(a.var());  // of an equation before
      }
    }
    for (const Var v : needed) known_.emplace(v, emit(*terms_.eqn_of(v), v));
  }

  const Atom& operator()(const Atom& a) const { return known_.at(a.var()); }

 private:
  Atom emit(const Eqn& eqn, Var v) {
    const PrimitiveBase* p = eqn.primitive;
    const std::int64_t n = terms_.batch();
    const Aval aval = with_batch(body_.aval(v), n);
    const auto add = [&](const PrimitiveBase& q, Params params, Atoms in) {
      return Atom::var(
          b_.add_eqn1(q, std::move(params), std::move(in), aval, Effect::none, eqn.where));
    };
    if (p == &reduce_sum_p) {
      Shape axes;
      for (const std::int64_t d : reduction_axes(eqn)) {
        if (d != 0) axes.push_back(d);
      }
      const Atom x = renamed_(eqn.inputs[0]);
      return axes.empty() ? x : add(reduce_sum_p, Params::of(AxesParams{axes}), {x});
    }
    if (p == &mul_p) return scaled(eqn, aval);
    Atoms in = {(*this)(eqn.inputs[0])};
    if (p == &add_p) in.push_back((*this)(eqn.inputs[1]));
    if (p == &neg_p || p == &add_p) return add(*p, eqn.params, std::move(in));
    if (p == &reshape_p) {
      ReshapeParams to;
      to.new_sizes = aval.shape;
      return add(reshape_p, Params::of(std::move(to)), std::move(in));
    }
    if (p == &pad_p) {
      PadParams to = eqn.params.as<PadParams>();
      to.padding_config.insert(to.padding_config.begin(), {0, 0, 0});
      in.push_back(eqn.inputs[1]);
      return add(pad_p, Params::of(std::move(to)), std::move(in));
    }
    BroadcastInDimParams to;
    to.shape = aval.shape;
    to.broadcast_dimensions.push_back(0);
    for (const std::int64_t d : eqn.params.as<BroadcastInDimParams>().broadcast_dimensions)
      to.broadcast_dimensions.push_back(d + 1);
    return add(broadcast_in_dim_p, Params::of(std::move(to)), std::move(in));
  }

  // A sum times something that the batch shares.
  Atom scaled(const Eqn& eqn, const Aval& aval) {
    const std::size_t which = terms_.summed(eqn.inputs[0]) != 0 ? 0 : 1;
    const Atom& factor = eqn.inputs[1 - which];
    BroadcastInDimParams to;
    to.shape = aval.shape;
    for (int d = 0; d < body_.aval(factor).ndim(); ++d) to.broadcast_dimensions.push_back(d + 1);
    const Atom spread = Atom::var(b_.add_eqn1(broadcast_in_dim_p, Params::of(std::move(to)),
                                              {renamed_(factor)}, aval, Effect::none, eqn.where));
    return Atom::var(b_.add_eqn1(mul_p, Params(), {(*this)(eqn.inputs[which]), spread}, aval,
                                 Effect::none, eqn.where));
  }

  JaxprBuilder& b_;
  const Jaxpr& body_;
  const Deferral& terms_;
  const Renaming& renamed_;
  std::map<Var, Atom> known_;
};

}  // namespace

std::optional<DeferredSums> defer_sums(const ScanParams& p) {
  Deferral terms(p);
  const std::map<int, Vars> sums = terms.find();
  if (sums.empty()) return std::nullopt;
  DeferredSums out;
  out.params = p;
  out.batch = terms.batch();
  JaxprBuilder b;
  std::set<Var> gone;  // what added up the sums: dead, and of other types by now
  Renaming renamed(p.jaxpr);
  for (int i = 0; i < p.jaxpr.num_inputs(); ++i) {
    const auto sum = sums.find(i - p.num_consts);
    const bool wide = sum != sums.end();
    const Aval& aval = p.jaxpr.aval(i);
    renamed.push(Atom::var(b.add_input(wide ? with_batch(aval, out.batch) : aval)));
    if (!wide) continue;
    out.carries.push_back(sum->first);
    gone.insert(i);
  }
  for (const Eqn& eqn : p.jaxpr.eqns()) {
    const bool dead = std::any_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) {
      return a.is_var() && gone.contains(a.var());
    });
    if (dead) {
      for (const Var v : eqn.outputs) {
        gone.insert(v);
        renamed.push(Atom::var(0));
      }
      continue;
    }
    renamed.push_eqn(b, eqn);
  }
  Atoms outs;
  const Unsummed unsummed(b, p.jaxpr, terms, renamed, sums);
  for (std::size_t i = 0; i < p.jaxpr.outs().size(); ++i) {
    const auto sum = sums.find(static_cast<int>(i));
    if (sum == sums.end()) {
      outs.push_back(renamed(p.jaxpr.outs()[i]));
      continue;
    }
    const Var carry = p.num_consts + sum->first;
    const Aval aval = with_batch(p.jaxpr.aval(carry), out.batch);
    Atom total = renamed(Atom::var(carry));
    for (const Var v : sum->second)
      total = Atom::var(b.add_eqn1(add_p, Params(), {total, unsummed(Atom::var(v))}, aval));
    outs.push_back(total);
  }
  out.params.jaxpr = b.build(std::move(outs)).jaxpr;
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
