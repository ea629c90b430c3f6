// Every registered primitive has every rule, or says why not; and its rules agree with each other at
// the examples that the files of this folder give.
#include <algorithm>
#include <set>

#include "support.hpp"

namespace telamon_test {
namespace {

/// Those of the library: tests make their own.
std::vector<const PrimitiveBase*> registered() {
  auto all = PrimitiveBase::all();
  std::erase_if(all, [](const PrimitiveBase* p) { return p->name().starts_with("test_"); });
  return all;
}

TEST(RuleCoverage, OfEveryRegisteredPrimitiveIsCompleteOrExplained) {
  const auto primitives = registered();
  ASSERT_GT(primitives.size(), 60u);
  for (const PrimitiveBase* p : primitives) {
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

TEST(RuleCoverage, ExplainsOnlyPrimitivesThatExist) {
  for (const auto& [name, where] : CheckedElsewhere::all()) {
    EXPECT_NE(PrimitiveBase::find(name), nullptr) << name;
    EXPECT_NE(where, "") << name;
  }
}

const std::set<std::string_view> kVariadic = {"concatenate", "stack", "select_n", "sort",
                                              "optimization_barrier"};

class Rules : public testing::TestWithParam<const PrimitiveBase*> {};

TEST_P(Rules, AgreeAtEveryExample) {
  const PrimitiveBase& primitive = *GetParam();
  const std::vector<Example> examples = RuleExamples::of(primitive);
  const bool elsewhere = CheckedElsewhere::all().contains(std::string(primitive.name()));
  EXPECT_NE(examples.empty(), !elsewhere)
      << primitive.name() << " needs either RuleExamples or a CheckedElsewhere: see support.hpp";
  for (const Example& e : examples) check_rules(e);
}

// Another number of operands is refused, or (concatenate, sort, ...) is another application; it is
// never read past its end.
TEST_P(Rules, CountTheirOperands) {
  const PrimitiveBase& primitive = *GetParam();
  for (const Example& e : RuleExamples::of(primitive)) {
    std::vector<Aval> all;
    for (const Array& x : e.args()) all.push_back(x.aval());
    if (!all.empty()) all.push_back(all.back());
    for (std::size_t n = 0; n <= all.size(); ++n) {
      if (n == e.args().size()) continue;
      try {
        const auto type = primitive.rules().abstract_eval(e.params, std::span(all).first(n));
        EXPECT_TRUE(kVariadic.contains(primitive.name()))
            << primitive.name() << " accepts " << n << " operands";
      } catch (const InternalError& error) {
        ADD_FAILURE() << primitive.name() << ": " << error.what();
      } catch (const Error&) {  // as it should
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Rules, testing::ValuesIn(registered()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace telamon_test
