// substitute_inputs: the same program over other inputs.
//   { a b . c = mul a b in (c) } with a -> 2.0, b -> a   ->   { a . b = mul 2.0 a in (b) }
#include "core/check.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace {

bool is_identity(const Jaxpr& jaxpr, const std::vector<Aval>& new_inputs, const Atoms& map) {
  if (new_inputs.size() != map.size()) return false;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (!map[i].is_var() || map[i].var() != static_cast<Var>(i) ||
        !(new_inputs[i] == jaxpr.avals()[i]))
      return false;
  }
  return true;
}

}  // namespace

Jaxpr substitute_inputs(const Jaxpr& jaxpr, const std::vector<Aval>& new_inputs, const Atoms& map) {
  return detail::naming_lack_of_memory("substitute_inputs", [&] {
    TELAMON_CHECK(map.size() == static_cast<std::size_t>(jaxpr.num_inputs()),
                  "substitute_inputs needs one atom for each input");
    if (is_identity(jaxpr, new_inputs, map)) return jaxpr;
    detail::JaxprBuilder builder;
    for (const Aval& aval : new_inputs) builder.add_input(aval);
    for (std::size_t i = 0; i < map.size(); ++i) {
      TELAMON_CHECK(!map[i].is_var() || map[i].var() < builder.num_inputs(),
                    "substitute_inputs maps an input to something that is not a new input");
      TELAMON_CHECK(builder.aval(map[i]).same_type(jaxpr.avals()[i]),
                    "substitute_inputs puts " + builder.aval(map[i]).to_string() + " in place of " +
                        jaxpr.avals()[i].to_string());
    }
    Atoms outs = builder.inline_jaxpr(jaxpr, map);
    return builder.build(std::move(outs), detail::JaxprBuilder::DeadCode::keep).jaxpr;
  });
}

}  // namespace v1
}  // namespace telamon
