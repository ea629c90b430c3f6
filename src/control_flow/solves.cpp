// What custom_linear_solve and custom_root share.
#include "control_flow/solves.hpp"

#include <algorithm>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace control_flow {

std::optional<std::string> unlike(std::span<const Aval> outs, std::span<const Aval> like) {
  const auto compared = outs.first(std::min(outs.size(), like.size()));
  if (detail::same_types(compared, like)) return std::nullopt;
  return avals_text(compared) + " and " + avals_text(like);
}

detail::FlatFunction checked(
    const detail::FlatFunction& map, std::span<const Array> unknowns,
    std::function<void(std::span<const Aval> outs, std::span<const Aval> like)> check) {
  return [&map, types = detail::avals_of(unknowns),
          check = std::move(check)](std::span<const Array> x) {
    Arrays outs = map(x);
    const std::vector<Aval> given = detail::avals_of(outs);
    std::vector<Aval> like = types;
    for (std::size_t i = 0; i < std::min(like.size(), given.size()); ++i)
      if (converts_to(like[i], given[i])) like[i] = given[i];
    check(given, like);
    return outs;
  };
}

detail::FlatFunction applied(const ClosedJaxpr& program) {
  return [&program](std::span<const Array> x) {
    Arrays args = program.consts;
    args.insert(args.end(), x.begin(), x.end());
    return eval_jaxpr(program.jaxpr, args);
  };
}

Jaxpr prune_program(const Jaxpr& program, int& num_consts, const Mask& used, Mask& used_in) {
  const DceJaxpr dce = dce_jaxpr(program, used);
  Mask in = taken(dce.used_in, counting(0, size(num_consts)));
  num_consts = static_cast<int>(places(in).size());
  append(used_in, in);
  in.resize(dce.used_in.size(), true);
  return pruned(program, dce, in, used);
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
