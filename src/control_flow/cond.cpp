// cond: one of several programs, chosen by an index.
#include "control_flow/common.hpp"
#include "core/concrete.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

Arrays run_cond(const CondParams& p, std::span<const Array> args) {
  const auto index = static_cast<std::size_t>(args[0].item<std::int64_t>());
  return Program(p.branches.at(index), "cond")(dense(args.subspan(1)));
}

AbstractResult type_of_cond(const CondParams& p, std::span<const Aval> in) {
  if (p.branches.empty()) bad_jaxpr("cond", "it has no branches");
  if (in.empty() || !in[0].shape.empty() ||
      (in[0].dtype != DType::i32 && in[0].dtype != DType::bool_)) {
    throw TypeError("cond: operand 0 is the index, a scalar of bool or i32, but it is " +
                    (in.empty() ? std::string("missing") : in[0].to_string()));
  }
  if (in[0].dtype == DType::bool_ && p.branches.size() > 2)
    bad_jaxpr("cond",
              "a bool chooses between two branches, not " + std::to_string(p.branches.size()));
  const Jaxpr& first = p.branches[0];
  check_operands("cond", in.subspan(1), {first.in_avals().begin(), first.in_avals().end()});
  std::vector<Aval> outs = first.out_avals();
  Effect effect = Effect::none;
  for (const Jaxpr& branch : p.branches) {
    const std::vector<Aval> other = branch.out_avals();
    const auto same = [](std::span<const Aval> a, std::span<const Aval> b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](const Aval& x, const Aval& y) { return x.same_type(y); });
    };
    if (!same(branch.in_avals(), first.in_avals()) || !same(other, outs)) {
      bad_jaxpr("cond", "branches have different types: " + avals_text(first.in_avals()) + " -> " +
                            avals_text(outs) + " and " + avals_text(branch.in_avals()) + " -> " +
                            avals_text(other));
    }
    for (std::size_t i = 0; i < outs.size(); ++i)
      outs[i].weak_type = outs[i].weak_type && other[i].weak_type;
    effect = join(effect, branch.effect());
  }
  return {std::move(outs), effect};
}

}  // namespace
}  // namespace control_flow

const Primitive<CondParams> cond_p{"cond", [] {
                                     using namespace control_flow;
                                     return Rules<CondParams>{
                                         .impl = run_cond,
                                         .abstract_eval = type_of_cond,
                                         .lower = run_by_impl(run_cond),
                                         .exempt = {{"jvp", "being written"},
                                                    {"transpose", "being written"},
                                                    {"batch", "being written"}}};
                                   }};

}  // namespace v1
}  // namespace telamon
