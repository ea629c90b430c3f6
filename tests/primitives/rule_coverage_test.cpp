// Every registered primitive has every rule, or says why not and raises the error that it should; and
// its rules agree with each other at the examples that the files of this folder give.
#include <algorithm>
#include <set>

#include "support.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/jit.hpp"

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

const std::set<std::string_view> kVariadic = {
    "concatenate", "stack", "select_n", "sort", "order_statistic", "optimization_barrier"};

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

// ---- exemptions --------------------------------------------------------------------------------
// What happens where a rule is missing: for each kind of rule, at one example.

std::string missing(const char* rule, const Example& e) {
  return std::string(rule) + " for '" + std::string(e.primitive->name()) + "' not implemented";
}

std::vector<std::size_t> inexact_places(const Arrays& x) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (is_inexact(x[i].dtype())) places.push_back(i);
  }
  return places;
}

/// Ones for floats and complex numbers. For the others there is nothing: they have no tangents.
Arrays inexact_ones(const Arrays& x) {
  Arrays ones(x.size());
  for (const std::size_t i : inexact_places(x)) ones[i] = lax::ones_like(x[i]);
  return ones;
}

bool uses(const Jaxpr& program, const PrimitiveBase& primitive) {
  return std::any_of(program.eqns().begin(), program.eqns().end(), [&](const Eqn& eqn) {
    const auto& inner = eqn.params.jaxprs();
    return eqn.primitive == &primitive ||
           std::any_of(inner.begin(), inner.end(),
                       [&](const Jaxpr& j) { return uses(j, primitive); });
  });
}

Function function_of(const Example& e) {
  return [&e](std::span<const Array> x) { return e.eval({x.begin(), x.end()}); };
}

/// Floats are asked for the rule. A tangent of anything else is refused; without one the primitive is
/// evaluated, and its rule not asked for.
void expect_no_derivative(const Example& e) {
  const auto push = [&](const Arrays& tangents) {
    return detail::jvp_arrays(function_of(e), e.args(), tangents, {});
  };
  if (!inexact_places(e.args()).empty()) {
    EXPECT_THAT(message_of<NotImplementedError>([&] { push(inexact_ones(e.args())); }),
                HasSubstr(missing("Differentiation rule", e)));
    return;
  }
  for (std::size_t i = 0; i < e.args().size(); ++i) {
    Arrays tangents(e.args().size());
    tangents[i] = lax::ones_like(e.args()[i]);
    EXPECT_THAT(message_of<TypeError>([&] { push(tangents); }), HasSubstr("expected float0"));
  }
  const auto pushed = push(Arrays(e.args().size()));
  const Arrays want = e.eval(e.args());
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_close(pushed.primals[i], want[i], 0, "primal");
    for (const double t : values(pushed.tangents[i])) EXPECT_EQ(t, 0);
  }
}

/// Reverse mode never meets it, as no tangent program holds it. As a linear function of its floats it
/// is asked for the rule, which, where it is derived from an `ops` lowering, meets what is not linear
/// there. A cotangent of a result without tangents is refused before.
void expect_no_transpose(const Example& e) {
  const auto places = inexact_places(e.args());
  const Arrays y = e.eval(e.args()), ct = inexact_ones(y);
  if (places.empty() || e.primitive->has_rule("jvp")) {
    const auto lin = detail::linearize_arrays(function_of(e), e.args(), "test");
    EXPECT_FALSE(uses(lin.map.jaxpr(), *e.primitive)) << lin.map.jaxpr();
    EXPECT_EQ(lin.map.transpose(ct).size(), e.args().size());
  }
  const Function of_floats = [&](std::span<const Array> x) {
    Arrays all = e.args();
    for (std::size_t k = 0; k < places.size(); ++k) all[places[k]] = x[k];
    return e.eval(all);
  };
  std::vector<Aval> linear;
  for (const std::size_t i : places) linear.push_back(e.args()[i].aval());
  const detail::LinearMap map = detail::linear_map_of(of_floats, linear);
  const bool asked = !places.empty() && !inexact_places(y).empty();
  if (asked && e.primitive->has_rule("transpose")) {
    EXPECT_THAT(message_of([&] { map.transpose(ct); }), HasSubstr("cannot be transposed"));
  } else if (asked) {
    EXPECT_THAT(message_of<NotImplementedError>([&] { map.transpose(ct); }),
                HasSubstr(missing("Transpose rule (for reverse-mode differentiation)", e)));
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (is_inexact(y[i].dtype())) continue;
    Arrays impossible = ct;
    impossible[i] = lax::ones_like(y[i]);
    EXPECT_THAT(message_of<TypeError>([&] { map.transpose(impossible); }),
                HasSubstr("expected float0"));
  }
}

/// Mapped operands are asked for the rule. What has none gives every example the same.
void expect_no_batching(const Example& e) {
  const auto map = [&](const Function& f, const Arrays& args) {
    const auto all_at_0 = [](std::size_t n) { return std::vector<BatchAxis>(n, 0); };
    return detail::vmap_arrays(f, args, {all_at_0(args.size()), all_at_0, {}, {}}, {}, "vmap");
  };
  if (!e.args().empty()) {
    Arrays batches;
    for (const Array& x : e.args()) batches.push_back(lax::broadcast(x, {2}));
    EXPECT_THAT(message_of<NotImplementedError>([&] { map(function_of(e), batches); }),
                HasSubstr(missing("Batching rule", e)));
    return;
  }
  const Arrays want = e.eval({});
  const Arrays got = map([&](std::span<const Array>) { return e.eval({}); }, {f64_sample({2})});
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_close(got[i], lax::broadcast(want[i], {2}), 0, "batch");
}

/// The compiler knows it by name: no error, but the values of eager evaluation.
void expect_known_to_the_compiler(const Example& e) {
  const Arrays want = e.eval(e.args());
  const Arrays got = jit([&e](const Arrays& x) { return e.eval(x); })(e.args());
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool wide = is_float(want[i].dtype()) && size_of(want[i].dtype()) >= 4;
    expect_close(got[i], want[i], wide ? 1e-5 : 0.05, "jit");
  }
}

const std::map<std::string_view, void (*)(const Example&)> kWithoutRule = {
    {"jvp", expect_no_derivative},
    {"transpose", expect_no_transpose},
    {"batch", expect_no_batching},
    {"lower", expect_known_to_the_compiler},
};

TEST_P(Rules, AreMissedAsTheirAbsenceIsExplained) {
  const PrimitiveBase& primitive = *GetParam();
  const std::vector<Example> examples = RuleExamples::of(primitive);
  for (const auto& [rule, reason] : primitive.rules().exempt) {
    SCOPED_TRACE("'" + rule + "' is missing: " + reason);
    const auto check = kWithoutRule.find(rule);
    ASSERT_NE(check, kWithoutRule.end()) << "a rule that every primitive must have";
    EXPECT_NE(examples.empty(), !CheckedElsewhere::all().contains(std::string(primitive.name())))
        << "no example shows what happens without the rule";
    for (const Example& e : examples) check->second(e);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Rules, testing::ValuesIn(registered()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace telamon_test
