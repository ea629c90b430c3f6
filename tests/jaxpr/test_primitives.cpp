// Primitives that exist only in these tests.
#include "test_primitives.hpp"

namespace test {
namespace tl = telamon;
using tl::AbstractResult;
using tl::Arrays;
using tl::Aval;
using tl::Effect;

namespace {

tl::Rules<> pass_on(Effect effect) {
  tl::Rules<> rules;
  rules.impl = [](const tl::NoParams&, std::span<const tl::Array> x) { return Arrays{x[0]}; };
  rules.abstract_eval = [effect](const tl::NoParams&, std::span<const Aval> x) {
    return AbstractResult({x[0]}, effect);
  };
  return rules;
}

}  // namespace

const tl::Primitive<> print_p{"test_print", [] { return pass_on(Effect::ordered); }};
const tl::Primitive<> count_p{"test_count", [] { return pass_on(Effect::unordered); }};
const tl::Primitive<> send_p{
    "test_send", [] {
      tl::Rules<> rules;
      rules.impl = [](const tl::NoParams&, std::span<const tl::Array>) { return Arrays{}; };
      rules.abstract_eval = [](const tl::NoParams&, std::span<const Aval>) {
        return AbstractResult(std::vector<Aval>{}, Effect::ordered);
      };
      return rules;
    }};
const tl::Primitive<> two_results_p{"test_two_results", [] {
                                      tl::Rules<> rules;
                                      rules.abstract_eval = [](const tl::NoParams&,
                                                               std::span<const Aval> x) {
                                        return AbstractResult({x[0], x[0]});
                                      };
                                      return rules;
                                    }};
const tl::Primitive<BranchesParams> branches_p{
    "test_branches", [] {
      tl::Rules<BranchesParams> rules;
      rules.abstract_eval = [](const BranchesParams& p, std::span<const Aval>) {
        return AbstractResult(p.branches.at(0).out_avals());
      };
      return rules;
    }};
const tl::Primitive<LoopParams> loop_p{"test_loop", [] {
                                         tl::Rules<LoopParams> rules;
                                         rules.abstract_eval = [](const LoopParams& p,
                                                                  std::span<const Aval>) {
                                           return AbstractResult(p.body_jaxpr.out_avals());
                                         };
                                         return rules;
                                       }};
const tl::Primitive<ManyParams> many_p{"test_many", [] {
                                         tl::Rules<ManyParams> rules;
                                         rules.abstract_eval = [](const ManyParams&,
                                                                  std::span<const Aval> x) {
                                           return AbstractResult(x[0]);
                                         };
                                         return rules;
                                       }};
const tl::Primitive<> quoted_p{"test-quoted name", [] { return pass_on(Effect::none); }};

}  // namespace test
