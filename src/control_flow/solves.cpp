// What custom_linear_solve and custom_root share.
#include "control_flow/solves.hpp"

#include <algorithm>

namespace telamon {
inline namespace v1 {
namespace control_flow {

std::optional<std::string> unlike(std::span<const Aval> outs, std::span<const Aval> like) {
  const auto compared = outs.first(std::min(outs.size(), like.size()));
  if (detail::same_types(compared, like)) return std::nullopt;
  return avals_text(compared) + " and " + avals_text(like);
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
