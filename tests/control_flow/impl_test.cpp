// Evaluation and types of cond, while and scan as primitives.
#include <gtest/gtest.h>

#include "telamon/telamon.hpp"

namespace telamon {
namespace {

Jaxpr parsed(const char* text) { return parse_jaxpr(text); }

ScanParams running_sum(bool reverse) {
  return {.jaxpr = parsed("{ lambda a:f64[], b:f64[], c:f64[] . let d:f64[] = mul a c"
                          "\n e:f64[] = add b d in ( e, e ) }"),
          .length = 3,
          .num_consts = 1,
          .num_carry = 1,
          .reverse = reverse};
}

TEST(ScanPrimitive, OfASumGivesItsPrefixes) {
  const Array xs({1.0, 2.0, 3.0});
  Arrays outs = scan_p.bind(running_sum(false), {Array({2.0})(0), Array({10.0})(0), xs});
  EXPECT_EQ(outs[0].item<double>(), 22);
  EXPECT_EQ(outs[1].to_vector<double>(), (std::vector<double>{12, 16, 22}));
  outs = scan_p.bind(running_sum(true), {Array({2.0})(0), Array({10.0})(0), xs});
  EXPECT_EQ(outs[1].to_vector<double>(), (std::vector<double>{22, 20, 16}));
}

TEST(CondPrimitive, OfAnIndexAppliesThatBranch) {
  const CondParams p{{parsed("{ lambda a:f64[] . let b:f64[] = sin a in ( b ) }"),
                      parsed("{ lambda a:f64[] . let b:f64[] = neg a in ( b ) }")}};
  EXPECT_EQ(cond_p.bind(p, {Array(true), Array({3.0})(0)})[0].item<double>(), -3);
  EXPECT_EQ(cond_p.bind(p, {Array({0})(0), Array({0.0})(0)})[0].item<double>(), 0);
}

TEST(WhilePrimitive, OfAVectorOfConditionsFreezesLanesThatAreDone) {
  const WhileParams p{
      .cond_jaxpr = parsed("{ lambda a:i32[4] . let b:bool[4] = lt a a in ( b ) }"),
      .body_jaxpr = parsed("{ lambda a:i32[4] . let b:i32[4] = add a a in ( b ) }")};
  EXPECT_EQ(while_p.bind(p, {Array({0, 1, 2, 3})})[0].to_vector<int>(),
            (std::vector<int>{0, 1, 2, 3}));
  const WhileParams q{
      .cond_jaxpr =
          parsed("{ lambda a:i32[], b:i32[4], c:i32[4] . let d:i32[4] = broadcast_in_dim "
                 "[ shape=(4,) broadcast_dimensions=() ] a\n e:bool[4] = lt b d in ( e ) }"),
      .body_jaxpr = parsed("{ lambda a:i32[4], b:i32[4], c:i32[4] . let d:i32[4] = add b a"
                           "\n e:i32[4] = add c b in ( d, e ) }"),
      .cond_nconsts = 1,
      .body_nconsts = 1};
  const Arrays outs = while_p.bind(
      q, {Array({3})(0), Array({2, 2, 2, 2}), Array({0, 1, 2, 3}), Array({0, 0, 0, 0})});
  EXPECT_EQ(outs[0].to_vector<int>(), (std::vector<int>{4, 3, 4, 3}));
  EXPECT_EQ(outs[1].to_vector<int>(), (std::vector<int>{2, 1, 2, 0}));
}

}  // namespace
}  // namespace telamon
