// inline_calls: every call that says nothing more than its program becomes that, at any depth.
#include <algorithm>

#include "jaxpr/rewrite.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace {

// Appends the equations of `jaxpr` applied to `args`; gives its results.
Atoms emit(detail::JaxprBuilder& builder, const Jaxpr& jaxpr, const Atoms& args, bool& changed) {
  detail::Renaming rename(jaxpr);
  rename.push(args);
  for (const Eqn& eqn : jaxpr.eqns()) {
    if (eqn.primitive->rules().inlinable) {
      changed = true;
      rename.push(emit(builder, eqn.params.jaxprs()[0], rename(eqn.inputs), changed));
      continue;
    }
    rename.push_eqn(builder, eqn, detail::map_jaxprs(eqn.params, inline_calls, changed));
  }
  return rename(jaxpr.outs());
}

}  // namespace

Jaxpr inline_calls(const Jaxpr& jaxpr) {
  return detail::naming_lack_of_memory("inline_calls", [&] {
    const bool any = std::any_of(jaxpr.eqns().begin(), jaxpr.eqns().end(), [](const Eqn& eqn) {
      return eqn.params.has_jaxprs() || eqn.primitive->rules().inlinable;
    });
    if (!any) return jaxpr;
    detail::JaxprBuilder builder;
    Atoms args;
    for (const Aval& aval : jaxpr.in_avals()) args.push_back(Atom::var(builder.add_input(aval)));
    bool changed = false;
    Atoms outs = emit(builder, jaxpr, args, changed);
    if (!changed) return jaxpr;
    return builder.build(std::move(outs), detail::JaxprBuilder::DeadCode::keep).jaxpr;
  });
}

}  // namespace v1
}  // namespace telamon
