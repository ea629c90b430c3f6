// Transposes of what is made on the spot: a value that is computed from iotas and broadcasts of
// something smaller only can as well be computed in the order in which it is wanted.
//
//   let i = iota[dimension=0, (n,m)], b = broadcast[(1,)] x, c = mul i b, d = transpose[(1,0)] c
//   ->  let i = iota[dimension=1, (m,n)], b = broadcast[(0,)] x, d = mul i b
//
// That is what derivatives column by column come to: jacfwd maps over the columns of the identity, and
// puts the columns that it finds side by side. Everything between the identity and the transpose moves
// elements or works on them one by one.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/permutations.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMuchSmaller = 8;
constexpr std::size_t kMostEquations = 20'000;
constexpr std::size_t kMostVisits = 200'000;  // of equations, for one transpose after the other

std::vector<std::size_t> long_dims(const Shape& shape) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) out.push_back(d);
  }
  return out;
}

/// The order of a reshape's operand when its result has this order; sizes of 1 come first. nullopt
/// where the reshape does more than to add and to drop them.
std::optional<Shape> order_before_reshape(const Shape& from, const Shape& to, const Shape& order) {
  const auto before = long_dims(from), after = long_dims(to);
  if (before.size() != after.size()) return std::nullopt;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (from[before[i]] != to[after[i]]) return std::nullopt;
  }
  Shape out;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) out.push_back(static_cast<std::int64_t>(d));
  }
  for (const std::int64_t d : order) {
    const auto at = std::find(after.begin(), after.end(), static_cast<std::size_t>(d));
    if (at != after.end())
      out.push_back(
          static_cast<std::int64_t>(before[static_cast<std::size_t>(at - after.begin())]));
  }
  return out;
}

/// Where the dimensions of a broadcast's operand go when the result has this order.
Shape places(const Eqn& broadcast, const Shape& order) {
  const Shape at = inverse(order);
  Shape out;
  for (const std::int64_t d : broadcast.params.as<BroadcastInDimParams>().broadcast_dimensions)
    out.push_back(at[static_cast<std::size_t>(d)]);
  return out;
}

/// Equations that are computed in another order: dimension d of the new result is order[d] of the old.
using Orders = std::map<int, Shape>;

/// Finds what has to change its order for some transposes to vanish.
class Search {
 public:
  Search(const Jaxpr& jaxpr, const std::vector<int>& producers, const std::vector<int>& uses)
      : jaxpr_(jaxpr), producers_(producers), uses_(uses) {}

  /// False where something would have to be transposed or computed twice.
  bool run(const std::vector<int>& transposes) {
    for (const int t : transposes) {
      const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(t)];
      ++inner_uses_[eqn.inputs[0].var()];
      if (!want(eqn.inputs[0], eqn.params.as<TransposeParams>().permutation)) return false;
    }
    while (!open_.empty()) {
      const int e = open_.back();
      open_.pop_back();
      ++visits;
      if (!visit(e)) return false;
    }
    return std::all_of(inner_.begin(), inner_.end(), [&](int e) {
      const Var v = jaxpr_.eqns()[static_cast<std::size_t>(e)].outputs[0];
      return uses_[static_cast<std::size_t>(v)] == inner_uses_[v];
    });
  }
  const Orders& orders() const { return orders_; }
  std::size_t visits = 0;  ///< of equations

 private:
  bool want(const Atom& a, const Shape& order) {
    if (is_identity(order)) return true;
    if (a.is_literal()) return false;
    const int e = producers_[static_cast<std::size_t>(a.var())];
    if (e < 0) return false;
    const auto [at, fresh] = orders_.emplace(e, order);
    if (fresh) open_.push_back(e);
    return at->second == order;
  }
  bool want_inner(const Atom& a, const Shape& order) {
    if (a.is_var() && !is_identity(order)) ++inner_uses_[a.var()];
    return want(a, order);
  }

  bool visit(int e) {
    const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(e)];
    if (eqn.effect != Effect::none || eqn.outputs.size() != 1) return false;
    const Shape order = orders_.at(e);
    const PrimitiveBase* p = eqn.primitive;
    if (p == &iota_p) return true;
    if (p == &broadcast_in_dim_p) return visit_broadcast(e, order);
    inner_.push_back(e);
    if (p == &slice_p || p == &pad_p) return want_inner(eqn.inputs[0], order);
    if (p == &reshape_p) {
      if (eqn.inputs[0].is_literal()) return false;
      const auto before = order_before_reshape(jaxpr_.aval(eqn.inputs[0]).shape,
                                               jaxpr_.aval(eqn.outputs[0]).shape, order);
      return before && want_inner(eqn.inputs[0], *before);
    }
    if (p != &concatenate_p && !works_by_element(*p)) return false;
    return std::all_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) {
      return jaxpr_.aval(a).shape.empty() || want_inner(a, order);
    });
  }

  // Of something much smaller it is made anew; else the operand has to change its order, too.
  bool visit_broadcast(int e, const Shape& order) {
    const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(e)];
    const Aval& from = jaxpr_.aval(eqn.inputs[0]);
    if (from.size() * kMuchSmaller <= jaxpr_.aval(eqn.outputs[0]).size()) return true;
    inner_.push_back(e);
    return want_inner(eqn.inputs[0], sorting(places(eqn, order)));
  }

  const Jaxpr& jaxpr_;
  const std::vector<int>&producers_, &uses_;
  Orders orders_;
  std::vector<int> open_, inner_;
  std::map<Var, int> inner_uses_;
};

class Reorder {
 public:
  explicit Reorder(const Jaxpr& jaxpr) : jaxpr_(jaxpr), renamed_(jaxpr) {}

  Jaxpr run() {
    choose();
    bool changed = !vanish_.empty();
    if (!changed && !detail::has_regions(jaxpr_)) return jaxpr_;
    renamed_.push_inputs(b_);
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (vanish_.contains(static_cast<int>(e))) {
        renamed_.push(operand(eqn.inputs[0], eqn.params.as<TransposeParams>().permutation));
        continue;
      }
      renamed_.push_eqn(b_, eqn, detail::map_jaxprs(eqn.params, reorder, changed));
      if (const auto order = orders_.find(static_cast<int>(e)); order != orders_.end())
        in_order_.insert_or_assign(eqn.outputs[0], made_in(eqn, order->second));
    }
    // What was made in the other order is for the next pass to drop.
    return changed ? b_.build(renamed_(jaxpr_.outs())).jaxpr : jaxpr_;
  }

 private:
  // All transposes together, for they may share what they transpose; else each that can on its own.
  void choose() {
    std::vector<int> all;
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (eqn.primitive == &transpose_p && eqn.inputs[0].is_var())
        all.push_back(static_cast<int>(e));
    }
    if (all.empty()) return;
    producers_ = detail::producers(jaxpr_);
    const std::vector<int> uses = detail::use_counts(jaxpr_);
    const auto take = [&](const std::vector<int>& transposes) {
      Search search(jaxpr_, producers_, uses);
      if (!search.run(transposes)) return false;
      for (const auto& [e, order] : search.orders()) orders_.emplace(e, order);
      vanish_.insert(transposes.begin(), transposes.end());
      return true;
    };
    if (take(all) || all.size() == 1) return;
    // Many of them may go through most of the program each.
    std::size_t visits = 0;
    for (const int t : all) {
      if (visits > kMostVisits) return;
      Search search(jaxpr_, producers_, uses);
      const bool alone =
          search.run({t}) && std::none_of(search.orders().begin(), search.orders().end(),
                                          [&](const auto& o) { return orders_.contains(o.first); });
      visits += search.visits;
      if (alone) take({t});
    }
  }

  Atom operand(const Atom& a, const Shape& order) {
    if (is_identity(order) || a.is_literal()) return renamed_(a);
    return in_order_.at(a.var());
  }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out, SourceLocation where) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, where));
  }

  /// The result of the equation in another order.
  Atom made_in(const Eqn& eqn, const Shape& order) {
    const Aval& old = jaxpr_.aval(eqn.outputs[0]);
    const Aval out = old.with_shape(permuted(order, old.shape));
    const PrimitiveBase* p = eqn.primitive;
    const Shape at = inverse(order);
    if (p == &broadcast_in_dim_p) return made_broadcast(eqn, order, out);
    if (p == &reshape_p) {
      const Atom& x = eqn.inputs[0];
      const Shape before = *order_before_reshape(jaxpr_.aval(x).shape, old.shape, order);
      return add(*p, Params::of(ReshapeParams{out.shape}), {operand(x, before)}, out, eqn.where);
    }
    Params params = eqn.params;
    if (p == &iota_p) {
      IotaParams iota = params.as<IotaParams>();
      iota.dimension = at[static_cast<std::size_t>(iota.dimension)];
      iota.shape = out.shape;
      params = Params::of(std::move(iota));
    } else if (p == &concatenate_p) {
      ConcatenateParams parts = params.as<ConcatenateParams>();
      parts.dimension = at[static_cast<std::size_t>(parts.dimension)];
      params = Params::of(std::move(parts));
    } else if (p == &slice_p) {
      SliceParams slice = params.as<SliceParams>();
      for (Shape* s : {&slice.start_indices, &slice.limit_indices, &slice.strides}) {
        if (!s->empty()) *s = permuted(order, *s);
      }
      params = Params::of(std::move(slice));
    } else if (p == &pad_p) {
      PadParams pad = params.as<PadParams>();
      const auto sides = pad.padding_config;
      for (std::size_t d = 0; d < order.size(); ++d)
        pad.padding_config[d] = sides[static_cast<std::size_t>(order[d])];
      params = Params::of(std::move(pad));
    }
    Atoms in;
    for (const Atom& a : eqn.inputs)
      in.push_back(jaxpr_.aval(a).shape.empty() ? renamed_(a) : operand(a, order));
    return add(*p, std::move(params), std::move(in), out, eqn.where);
  }

  Atom made_broadcast(const Eqn& eqn, const Shape& order, const Aval& out) {
    const Atom& x = eqn.inputs[0];
    const Aval& from = jaxpr_.aval(x);
    Shape dims = places(eqn, order);
    const Shape inner = sorting(dims);
    const bool known = x.is_var() && in_order_.contains(x.var()) &&
                       orders_.at(producers_[static_cast<std::size_t>(x.var())]) == inner;
    Atom small = is_identity(inner) || known ? operand(x, inner) : renamed_(x);
    if (!is_identity(inner) && !known) {
      small = add(transpose_p, Params::of(TransposeParams{inner}), {small},
                  from.with_shape(permuted(inner, from.shape)), eqn.where);
    }
    std::sort(dims.begin(), dims.end());
    return add(broadcast_in_dim_p, Params::of(BroadcastInDimParams{out.shape, dims}), {small}, out,
               eqn.where);
  }

  const Jaxpr& jaxpr_;
  std::vector<int> producers_;
  detail::Renaming renamed_;
  detail::JaxprBuilder b_;
  Orders orders_;
  std::set<int> vanish_;          // transposes
  std::map<Var, Atom> in_order_;  // what is made in another order
};

}  // namespace

Jaxpr reorder(const Jaxpr& jaxpr) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  return Reorder(jaxpr).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
