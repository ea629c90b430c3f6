// Merging of equations that compute the same value.
//   let a = sin x, b = sin x, c = add a b   ->   let a = sin x, c = add a a
// Keyed on (primitive, params, inputs); effects are never merged. Linear in the number of equations.
#include <unordered_map>

#include "jaxpr/rewrite.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace {

struct Computation {
  const PrimitiveBase* primitive;
  Params params;
  Atoms inputs;
  bool operator==(const Computation&) const = default;
};

struct HashComputation {
  std::size_t operator()(const Computation& c) const {
    std::size_t h = detail::combine_hash(std::hash<const void*>{}(c.primitive), c.params.hash());
    for (const Atom& in : c.inputs) h = detail::combine_hash(h, in.hash());
    return h;
  }
};

}  // namespace

Jaxpr eliminate_common_subexpressions(const Jaxpr& jaxpr) {
  return detail::naming_lack_of_memory("eliminate_common_subexpressions", [&] {
    detail::JaxprBuilder builder;
    detail::Renaming rename(jaxpr);
    rename.push_inputs(builder);
    std::unordered_map<Computation, Vars, HashComputation> known;
    bool changed = false;
    for (const Eqn& eqn : jaxpr.eqns()) {
      const Params params =
          detail::map_jaxprs(eqn.params, eliminate_common_subexpressions, changed);
      Atoms inputs = rename(eqn.inputs);
      const bool mergeable = eqn.effect == Effect::none;
      if (mergeable) {
        const auto [entry, is_new] = known.try_emplace({eqn.primitive, params, inputs});
        if (!is_new) {
          rename.push(entry->second);
          changed = true;
          continue;
        }
        entry->second = builder.add_eqn(*eqn.primitive, params, std::move(inputs),
                                        rename.out_avals(eqn), eqn.effect, eqn.where);
        rename.push(entry->second);
      } else {
        rename.push(builder.add_eqn(*eqn.primitive, params, std::move(inputs),
                                    rename.out_avals(eqn), eqn.effect, eqn.where));
      }
    }
    if (!changed) return jaxpr;
    return builder.build(rename(jaxpr.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
  });
}

}  // namespace v1
}  // namespace telamon
