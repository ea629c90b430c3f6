// What follows a product in loops, where that is cheap and all that its result is for:
//
//   let c = dot_general a b, d = add c bias, e = max d 0.0   ->   one kernel
//
// is done on the tiles of the product while they lie in registers. So are folds of its rows, which need not be the only ones
// to read it:
//
//   let c = dot_general a b, d = sub bias c, e = reduce_min[axes=(1,)] d   ->   one kernel
//
// and sums of what stands where an element of a row is the extreme that is folded there: how many are, or where.
//
// The arithmetic is emitted for each of a tile's vectors, some dozens of times: there must be little of it, and no calls of
// functions.
#include <algorithm>

#include "compiler/fusion/fuser.hpp"
#include "compiler/plan/dot.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// Whether results come as vectors along the columns, or along rows of one number.
bool comes_in_vectors(const Jaxpr& jaxpr, const Eqn& product) {
  const Aval &lhs = jaxpr.aval(product.inputs[0]), &rhs = jaxpr.aval(product.inputs[1]);
  const auto& params = product.params.as<DotGeneralParams>();
  const auto p = matrix_product(lhs, rhs, params);
  if (!p || dot_lanes(*p) == DotLanes::contraction) return false;
  const auto& dn = params.dimension_numbers;
  int dims = 0;  // that the lanes run along
  const bool columns = dot_lanes(*p) == DotLanes::columns;
  const Aval& of = columns ? rhs : lhs;
  for (const std::int64_t d : columns ? free_dims(rhs.ndim(), dn.rhs_batch, dn.rhs_contracting)
                                      : free_dims(lhs.ndim(), dn.lhs_batch, dn.lhs_contracting))
    dims += of.shape[static_cast<std::size_t>(d)] > 1 ? 1 : 0;
  return dims == 1;
}

// Whether its last dimension, and no other, is that of its columns, along which its lanes run, several vectors of them.
bool comes_in_rows(const Jaxpr& jaxpr, const Eqn& product) {
  const Aval &lhs = jaxpr.aval(product.inputs[0]), &rhs = jaxpr.aval(product.inputs[1]);
  const auto& params = product.params.as<DotGeneralParams>();
  const auto p = matrix_product(lhs, rhs, params);
  const auto& dn = params.dimension_numbers;
  const auto bytes = static_cast<std::int64_t>(size_of(jaxpr.aval(product.outputs[0]).dtype));
  return p && p->n > kRowOfOneVector / bytes && dot_lanes(*p) == DotLanes::columns &&
         free_dims(rhs.ndim(), dn.rhs_batch, dn.rhs_contracting).size() == 1;
}

}  // namespace

bool Fuser::is_product_in_loops(int e) const {
  const Eqn& product = eqn(e);
  return form(e) == Form::dot && where_[static_cast<std::size_t>(e)].size() == 1 &&
         !product.inputs[0].is_literal() && !product.inputs[1].is_literal() && size(e) >= 2 &&
         !(options_.matmul && large_product(jaxpr_, product));
}

int Fuser::epilogue_of(int e) {
  if (!is_product_in_loops(e) || is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
      !comes_in_vectors(jaxpr_, eqn(e)))
    return -1;
  const std::set<int> readers = consumer_clusters(e);
  if (readers.size() != 1) return -1;
  const int k = *readers.begin();
  const Cluster& c = cluster(k);
  if (c.form != Form::element || !(c.kernel.shape == shape(e)) || !c.kernel.woven.empty() ||
      c.kernel.members.size() > kMaxEpilogueMembers)
    return -1;
  int cycles = 0;
  for (const int member : c.kernel.members) {
    // Arithmetic alone: what moves elements may want loops of another order.
    const Form f = form(member);
    const bool spreads = eqn(member).primitive == &broadcast_in_dim_p;
    if (eqn(member).effect != Effect::none || (f != Form::element && !spreads)) return -1;
    if (size(member) > 1) cycles += element_cost(eqn(member));
  }
  if (cycles > kMaxEpilogueCycles) return -1;
  const bool at_its_index = std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& use) {
    return form(use.consumer) == Form::element && align_of(use, e, k) == Align::iteration;
  });
  return at_its_index ? k : -1;
}

bool Fuser::folds_rows_of(int e, int k) {
  const Cluster& c = cluster(k);
  const Kernel& kernel = c.kernel;
  if (c.form != Form::reduction || !(kernel.shape == shape(e)) || !kernel.columns.empty() ||
      !folds_rows(kernel.axes, kernel.shape) || kernel.members.size() > kMaxEpilogueMembers)
    return false;
  int cycles = 0;
  for (const int member : kernel.members) {
    const Form f = form(member);
    const bool spreads = eqn(member).primitive == &broadcast_in_dim_p;
    const auto is_spread = [&](const Use& u) {
      return eqn(u.consumer).primitive == &broadcast_in_dim_p;
    };
    const bool keeps_axis = f == Form::reshape && size(member) < size(e) &&
                            std::all_of(uses(member).begin(), uses(member).end(), is_spread) &&
                            !is_out_[static_cast<std::size_t>(member)];
    const bool fits = f == Form::reduction ? !finds_place(eqn(member))
                                           : f == Form::element || spreads || keeps_axis;
    if (!fits || eqn(member).effect != Effect::none) return false;
    // What is done once a row is done for one number.
    if (size(member) == size(e) || f == Form::reduction) cycles += element_cost(eqn(member));
    else if (element_cost(eqn(member)) > kMaxEpilogueCycles) return false;
  }
  if (cycles > kMaxEpilogueCycles) return false;
  return std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& use) {
    const std::vector<int>& at = where_[static_cast<std::size_t>(use.consumer)];
    if (std::find(at.begin(), at.end(), k) == at.end()) return true;
    return (form(use.consumer) == Form::element || form(use.consumer) == Form::reduction) &&
           align_of(use, e, k) == Align::iteration;
  });
}

int Fuser::fold_of(int e) {
  if (!is_product_in_loops(e) || !comes_in_rows(jaxpr_, eqn(e))) return -1;
  const std::set<int> readers = consumer_clusters(e);
  for (const int k : readers) {
    if (folds_rows_of(e, k) && may_produce(k, readers)) return k;
  }
  return -1;
}

void Fuser::join_product(int e, int k) {
  const int product = where_[static_cast<std::size_t>(e)].front();
  absorb(k, product);
  Cluster& c = cluster(k);
  c.feeds.erase(k);
  c.form = Form::dot;
  c.kernel.eqn = e;
  insert(e, c);
  c.align[e] = Align::other;
}

// Whether x is what belongs to a row, repeated along it.
bool Fuser::repeats_along_rows(const Atom& x, Var of_rows) const {
  const int spread = producer(x);
  if (spread < 0 || eqn(spread).primitive != &broadcast_in_dim_p) return false;
  const Shape& dims = eqn(spread).params.as<BroadcastInDimParams>().broadcast_dimensions;
  Atom from = eqn(spread).inputs[0];
  const int p = producer(from);
  const bool keeps_last = p >= 0 && eqn(p).primitive == &reshape_p;  // as a row of one element
  Shape once = shape(spread), all;
  if (keeps_last) {
    once[once.size() - 1] = 1;
    if (!(shape(p) == once)) return false;
    from = eqn(p).inputs[0];
  }
  for (std::int64_t d = 0; d + (keeps_last ? 0 : 1) < once.ndim(); ++d) all.push_back(d);
  return from.is_var() && from.var() == of_rows && dims == all;
}

// let f = reduce_min[axes=(1,)] x, m = eq x (broadcast f), s = reduce_sum[axes=(1,)] (select_n m 0.0 t)
//
// where kernel k folds f: the sum begins again whenever a lesser x is found. Counts of extremes are such sums of ones, and
// places of single extremes are.
std::optional<ChosenSum> Fuser::chosen_sum(int sum, int k) const {
  const auto made_by = [&](const Atom& a, const PrimitiveBase& p) {
    const int e = producer(a);
    return e >= 0 && eqn(e).primitive == &p ? e : -1;
  };
  const auto is_zero = [&](const Atom& a) {
    const int spread = made_by(a, broadcast_in_dim_p);
    const Atom& x = spread < 0 ? a : eqn(spread).inputs[0];
    return x.is_literal() && x.literal().item<double>() == 0;
  };
  const Atom& term = eqn(sum).inputs[0];
  if (eqn(sum).primitive != &reduce_sum_p || is_complex(jaxpr_.aval(term).dtype))
    return std::nullopt;
  int mask = -1;
  if (const int number = made_by(term, convert_element_type_p); number >= 0)
    mask = made_by(eqn(number).inputs[0], eq_p);
  const int choice = made_by(term, select_n_p);
  if (choice >= 0 && is_zero(eqn(choice).inputs[1])) mask = made_by(eqn(choice).inputs[0], eq_p);
  if (mask < 0) return std::nullopt;
  for (const int extreme : clusters_[static_cast<std::size_t>(k)].kernel.reductions) {
    const Eqn& f = eqn(extreme);
    if (f.primitive != &reduce_min_p && f.primitive != &reduce_max_p) continue;
    for (const std::size_t x : {0, 1}) {
      if (eqn(mask).inputs[x] == f.inputs[0] &&
          repeats_along_rows(eqn(mask).inputs[1 - x], f.outputs[0]) &&
          (choice < 0 || !needs_folds_of(k, eqn(choice).inputs[2])))
        return ChosenSum{mask, extreme};
    }
  }
  return std::nullopt;
}

// Whether x is computed from something that a kernel knows at the end of a row only.
bool Fuser::needs_folds_of(int k, const Atom& x) const {
  const std::vector<int>& folds = clusters_[static_cast<std::size_t>(k)].kernel.reductions;
  std::set<int> seen;
  std::vector<Atom> todo{x};
  while (!todo.empty()) {
    const int p = producer(todo.back());
    todo.pop_back();
    if (p < 0 || !seen.insert(p).second || eqn(p).primitive == &dot_general_p) continue;
    if (std::find(folds.begin(), folds.end(), p) != folds.end()) return true;
    if (!is_fusible(form(p)) && form(p) != Form::reduction) continue;
    todo.insert(todo.end(), eqn(p).inputs.begin(), eqn(p).inputs.end());
  }
  return false;
}

void Fuser::join_chosen_sums(int e, int k) {
  for (int l = 0; l < static_cast<int>(clusters_.size()); ++l) {
    const Kernel& kernel = cluster(l).kernel;
    if (l == k || !cluster(k).feeds.contains(l) || !kernel.roots.empty() || !folds_rows_of(e, l))
      continue;
    const bool waits = std::any_of(cluster(k).feeds.begin(), cluster(k).feeds.end(),
                                   [&](int f) { return f != l && reach_.reaches(f, l); });
    if (waits) continue;
    std::map<int, ChosenSum> sums;
    for (const int sum : kernel.reductions) {
      if (const auto found = chosen_sum(sum, k)) sums.emplace(sum, *found);
    }
    if (sums.size() != kernel.reductions.size()) continue;
    absorb(k, l);
    cluster(k).feeds.erase(k);
    cluster(k).kernel.chosen.merge(sums);
  }
}

void Fuser::join_epilogues() {
  for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
    if (const int k = epilogue_of(e); k >= 0) {
      join_product(e, k);
      in_memory_[static_cast<std::size_t>(e)] = false;
    } else if (const int fold = fold_of(e); fold >= 0) {
      join_product(e, fold);
      join_chosen_sums(e, fold);
      const bool others = is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
                          consumer_clusters(e).size() > 1;
      in_memory_[static_cast<std::size_t>(e)] = others;
      if (others) cluster(fold).kernel.roots.push_back(eqn(e).outputs[0]);
    }
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
