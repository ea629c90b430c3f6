// What follows a product in loops, where that is cheap and all that its result is for:
//
//   let c = dot_general a b, d = add c bias, e = max d 0.0   ->   one kernel
//
// is done on the tiles of the product while they lie in registers. The arithmetic is emitted for each of
// a tile's vectors, some dozens of times: there must be little of it, and no calls of functions.
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

}  // namespace

int Fuser::epilogue_of(int e) {
  const Eqn& product = eqn(e);
  if (form(e) != Form::dot || where_[static_cast<std::size_t>(e)].size() != 1 ||
      is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
      product.inputs[0].is_literal() || product.inputs[1].is_literal() || size(e) < 2 ||
      (options_.matmul && large_product(jaxpr_, product)) || !comes_in_vectors(jaxpr_, product))
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

void Fuser::join_epilogues() {
  for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
    const int k = epilogue_of(e);
    if (k < 0) continue;
    const int product = where_[static_cast<std::size_t>(e)].front();
    absorb(k, product);
    Cluster& c = cluster(k);
    c.feeds.erase(k);
    c.form = Form::dot;
    c.kernel.eqn = e;
    insert(e, c);
    c.align[e] = Align::other;
    in_memory_[static_cast<std::size_t>(e)] = false;
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
