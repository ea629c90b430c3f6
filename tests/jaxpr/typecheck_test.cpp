// typecheck_jaxpr: types, and the messages of what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "jaxpr/parse.hpp"
#include "support/errors.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/detail/custom_calls.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"
#include "test_primitives.hpp"

using testing::HasSubstr;
using testing::StartsWith;

namespace {

std::string type_error_of(const tl::Jaxpr& jaxpr) {
  return telamon_test::message_of<tl::TypeError>([&] { typecheck_jaxpr(jaxpr); });
}

}  // namespace

TEST(Typecheck, GivesTheTypeOfAProgram) {
  const auto jaxpr = tl::detail::parse_untyped_jaxpr(
      "{ lambda a:f64[3], b:f32[] . let c:f64[] = reduce_sum [ axes=(0,) ] a in ( c, b, 1:i32 ) }");
  EXPECT_EQ(typecheck_jaxpr(jaxpr).to_string(), "(f64[3], f32[]) -> (f64[], f32[], i32[])");
}

TEST(Typecheck, ShowsTheBinderOfTheWrongTypeAndItsEquation) {
  const std::string message = type_error_of(
      tl::detail::parse_untyped_jaxpr("{ lambda a:f32[] . let b:i32[] = sin a in ( b ) }"));
  EXPECT_THAT(
      message,
      StartsWith(
          "Value for variable 'b' inconsistently typed as f32[] for let-binder of type i32[]\n"
          "in the equation\n"
          "  b:i32[] = sin a\n"));
}

// Programs made by hand, since the parser refuses such text. Debug builds check them as they are made.
std::string type_error_of(std::vector<tl::Aval> avals, std::vector<tl::Eqn> eqns, tl::Atoms outs) {
  return telamon_test::message_of<tl::TypeError>(
      [&] { typecheck_jaxpr(tl::Jaxpr(1, std::move(avals), std::move(eqns), std::move(outs))); });
}
tl::Eqn sine(tl::Var in, tl::Var out) {
  return {&tl::sin_p, {}, {tl::Atom::var(in)}, {out}, tl::Effect::none, {}};
}
const tl::Aval kReal{{}, tl::f64, false};

TEST(Typecheck, NamesVariablesThatAreUsedBeforeTheyAreBound) {
  EXPECT_THAT(type_error_of({kReal, kReal}, {sine(2, 1)}, {tl::Atom::var(1)}),
              StartsWith("variable 'c' is unbound\nin the equation\n  b:f64[] = sin c\n"));
  EXPECT_THAT(type_error_of({kReal, kReal}, {sine(1, 1)}, {tl::Atom::var(1)}),
              StartsWith("variable 'b' is unbound"));
  EXPECT_THAT(type_error_of({kReal, kReal}, {sine(0, 1)}, {tl::Atom::var(2)}),
              StartsWith("variable 'c' is unbound"));
}

TEST(Typecheck, NamesVariablesThatAreBoundTwice) {
  EXPECT_THAT(
      type_error_of({kReal, kReal}, {sine(0, 1), sine(0, 1)}, {tl::Atom::var(1)}),
      StartsWith("variable 'b' is bound twice\nin the equation\n  b:f64[] = sin a\nwhich is "
                 "number 2 of 2 in\n"));
  EXPECT_THAT(type_error_of({kReal}, {sine(0, 0)}, {tl::Atom::var(0)}),
              StartsWith("variable 'a' is bound twice"));
}

TEST(Typecheck, NamesVariablesThatAreBoundOutOfOrder) {
  EXPECT_THAT(
      type_error_of({kReal, kReal, kReal}, {sine(0, 2), sine(0, 1)}, {tl::Atom::var(1)}),
      StartsWith(
          "variable 'c' is out of order: 'b' comes next\nin the equation\n  c:f64[] = sin a"));
}

TEST(Typecheck, WantsATypeForEachVariableAndNoneBesides) {
  EXPECT_THAT(type_error_of({kReal}, {sine(0, 1)}, {tl::Atom::var(1)}),
              StartsWith("variable 'b' has no type\nin the equation\n  b:? = sin a\n"));
  EXPECT_EQ(type_error_of({kReal, kReal, kReal}, {sine(0, 1)}, {tl::Atom::var(1)}),
            "variable 'c' has a type and is not bound");
  EXPECT_EQ(type_error_of({}, {}, {}), "a jaxpr of 1 input with types of 0 variables");
}

TEST(Typecheck, WantsScalarsWithAValueForLiterals) {
  for (const tl::Array& x : {tl::Array(), tl::Array({1.0, 2.0})}) {
    EXPECT_EQ(type_error_of({kReal}, {}, {tl::Atom::literal(x)}),
              "a literal must be a scalar with a value");
  }
}

TEST(Typecheck, IgnoresWeakness) {
  EXPECT_EQ(type_error_of(tl::detail::parse_untyped_jaxpr(
                "{ lambda a:~f32[] . let b:f32[] = sin a in ( b ) }")),
            "");
}

TEST(Typecheck, CountsTheOperandsOfCalls) {
  const std::string message = type_error_of(tl::detail::parse_untyped_jaxpr(
      "{ lambda . let b:f64[] = jit [ name=f num_consts=0 ]\n { lambda "
      "a:f64[], b:f64[] . let in ( a ) }\n in ( b ) }"));
  EXPECT_THAT(
      message,
      StartsWith(
          "jit: 0 operands cannot call jaxpr with 2 inputs\nin the equation\n  a:f64[] = jit"));
}

TEST(Typecheck, CountsTheOperandsOfEveryCall) {
  const tl::Jaxpr body =
      tl::detail::parse_untyped_jaxpr("{ lambda a:f64[], b:f64[] . let in ( a ) }");
  const std::vector<std::pair<const tl::PrimitiveBase*, tl::Params>> calls = {
      {&tl::checkpoint_p, tl::Params::of(tl::CheckpointParams{body})},
      {&tl::custom_jvp_call_p, tl::Params::of(tl::CustomJvpParams{body})},
      {&tl::custom_vjp_call_p, tl::Params::of(tl::CustomVjpParams{body})},
      {&tl::custom_vmap_call_p, tl::Params::of(tl::CustomVmapParams{body})}};
  for (const auto& [primitive, params] : calls) {
    const tl::Aval f64{{}, tl::DType::f64, false};
    const tl::Jaxpr program(1, {f64, f64}, {tl::Eqn{primitive, params, {tl::Atom::var(0)}, {1}}},
                            {tl::Atom::var(1)});
    EXPECT_THAT(type_error_of(program), StartsWith(std::string(primitive->name()) +
                                                   ": 1 operand cannot call jaxpr with 2 inputs"));
  }
}

TEST(Typecheck, ComparesTheOperandsOfCalls) {
  const std::string message = type_error_of(tl::detail::parse_untyped_jaxpr(
      "{ lambda a:f32[] . let b:f64[] = jit [ name=f num_consts=0 ] a\n "
      "{ lambda a:f64[] . let in ( a ) }\n in ( b ) }"));
  EXPECT_THAT(message, HasSubstr("f32[]"));
  EXPECT_THAT(message, HasSubstr("f64[]"));
}

TEST(Typecheck, LooksIntoNestedPrograms) {
  const std::string message = type_error_of(tl::detail::parse_untyped_jaxpr(
      "{ lambda a:f64[] . let b:f64[] = jit [ name=f num_consts=0 ] a\n"
      " { lambda a:f64[] . let b:bool[] = sin a in ( a ) }\n in ( b ) }"));
  EXPECT_THAT(
      message,
      StartsWith(
          "Value for variable 'b' inconsistently typed as f64[] for let-binder of type bool[]"));
}

TEST(Typecheck, CountsResults) {
  EXPECT_THAT(type_error_of(tl::detail::parse_untyped_jaxpr(
                  "{ lambda a:f64[] . let b:f64[] = test_two_results a in ( b ) }")),
              StartsWith("primitive 'test_two_results' has 2 results, but its equation binds 1"));
}

TEST(Typecheck, MissesEffects) {
  EXPECT_THAT(type_error_of(tl::detail::parse_untyped_jaxpr(
                  "{ lambda a:f64[] . let b:f64[] = test_print a in ( b ) }")),
              StartsWith("the equation does not carry the effect of primitive 'test_print'"));
}

TEST(Typecheck, PassesTheMessageOfTheRuleOn) {
  const std::string message = type_error_of(tl::detail::parse_untyped_jaxpr(
      "{ lambda a:f64[3], b:f64[4] . let c:f64[3] = add a b in ( c ) }"));
  EXPECT_THAT(message, HasSubstr("f64[3]"));
  EXPECT_THAT(message, HasSubstr("f64[4]"));
  EXPECT_THAT(message, HasSubstr("in the equation\n  c:f64[3] = add a b"));
}

TEST(Typecheck, ShowsOnlyTheNeighbourhoodInLongPrograms) {
  std::string text = "{ lambda x0:f64[] .\n let ";
  for (int i = 1; i <= 200; ++i) {
    text += "x" + std::to_string(i) + ":" + (i == 120 ? "f32[]" : "f64[]") + " = sin x" +
            std::to_string(i == 121 ? 119 : i - 1) + "\n";
  }
  const std::string message =
      type_error_of(tl::detail::parse_untyped_jaxpr(text + " in ( x200 ) }"));
  EXPECT_THAT(message, HasSubstr("which is number 120 of 200"));
  EXPECT_LT(std::count(message.begin(), message.end(), '\n'), 40);
}

TEST(Typecheck, NamesPrimitivesWithoutRule) {
  static const tl::Primitive<> no_rules_p{"test_no_rules"};
  EXPECT_THROW(typecheck_jaxpr(tl::detail::parse_untyped_jaxpr(
                   "{ lambda a:f64[] . let b:f64[] = test_no_rules a in ( b ) }")),
               tl::NotImplementedError);
}
