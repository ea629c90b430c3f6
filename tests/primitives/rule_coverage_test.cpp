// No primitive lacks a rule without saying why.
#include <gtest/gtest.h>

#include <string>

#include "telamon/primitive.hpp"

namespace telamon {
namespace {

TEST(RuleCoverage, OfEveryRegisteredPrimitiveIsCompleteOrExplained) {
  const auto primitives = PrimitiveBase::all();
  ASSERT_GT(primitives.size(), 60u);
  for (const PrimitiveBase* p : primitives) {
    if (p->name().starts_with("test_")) continue;  // made by other tests of this program
    for (const char* rule : {"impl", "abstract_eval", "jvp", "transpose", "batch", "lower"}) {
      const auto& exempt = p->rules().exempt;
      const auto reason = exempt.find(std::string_view(rule));
      const bool excused = reason != exempt.end() && !reason->second.empty();
      EXPECT_TRUE(p->has_rule(rule) || excused)
          << "primitive " << p->name() << " has no rule '" << rule << "' and gives no reason";
    }
  }
}

TEST(RuleCoverage, OfNamesIsUnambiguous) {
  const auto primitives = PrimitiveBase::all();
  for (std::size_t i = 1; i < primitives.size(); ++i)
    EXPECT_NE(primitives[i - 1]->name(), primitives[i]->name());
}

}  // namespace
}  // namespace telamon
