// What follows a product in loops, where that is cheap and all that its result is for:
//
//   let c = dot_general a b, d = add c bias, e = max d 0.0   ->   one kernel
//
// is done on the tiles of the product while they lie in registers. So are folds of its rows, which need not be the only ones
// to read it:
//
//   let c = dot_general a b, d = sub bias c, e = reduce_min[axes=(1,)] d   ->   one kernel
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
    const bool fits =
        f == Form::reduction ? !finds_place(eqn(member)) : f == Form::element || spreads;
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

void Fuser::join_epilogues() {
  for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
    if (const int k = epilogue_of(e); k >= 0) {
      join_product(e, k);
      in_memory_[static_cast<std::size_t>(e)] = false;
    } else if (const int fold = fold_of(e); fold >= 0) {
      const bool others = is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
                          consumer_clusters(e).size() > 1;
      join_product(e, fold);
      in_memory_[static_cast<std::size_t>(e)] = others;
      if (others) cluster(fold).kernel.roots.push_back(eqn(e).outputs[0]);
    }
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
