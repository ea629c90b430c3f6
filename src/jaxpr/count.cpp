// count_eqns: what tests ask of a jaxpr.
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

int count_eqns(const Jaxpr& jaxpr, std::string_view primitive) {
  return detail::naming_lack_of_memory("count_eqns", [&] {
    int count = 0;
    for (const Eqn& eqn : jaxpr.eqns()) {
      if (primitive.empty() || eqn.primitive->name() == primitive) ++count;
      for (const Jaxpr& nested : eqn.params.jaxprs()) count += count_eqns(nested, primitive);
    }
    return count;
  });
}

}  // namespace v1
}  // namespace telamon
