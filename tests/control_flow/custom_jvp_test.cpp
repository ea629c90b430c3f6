// custom_jvp: the rule wins over the true derivative, under every transformation.
#include <gmock/gmock.h>

#include "control_flow/support.hpp"
#include "support/backends.hpp"

namespace telamon_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// sin with twice its derivative, so that rule and body are told apart.
Array twice_rule_body(const Array& x) { return tl::sin(x); }
const auto twice = tl::custom_jvp(
    twice_rule_body, [](Array x, Array dx) { return std::pair{tl::sin(x), 2.0 * tl::cos(x) * dx}; },
    {.name = "twice"});

constexpr double kX = 0.7;
const double kTwice = 2 * std::cos(kX);

TEST(CustomJvp, GivesTheValueOfTheFunction) {
  EXPECT_NEAR(value(twice(kX)), std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::jit(twice)(kX)), std::sin(kX), 1e-15);
  expect_near(tl::vmap(twice)(Array({0.1, 0.2})), {std::sin(0.1), std::sin(0.2)});
}

TEST(CustomJvp, RuleWinsInForwardAndReverseMode) {
  EXPECT_NEAR(value(tl::jvp(twice, std::tuple{kX}, std::tuple{1.0}).second), kTwice, 1e-15);
  EXPECT_NEAR(value(tl::grad(twice)(kX)), kTwice, 1e-15);
  EXPECT_NEAR(value(tl::linearize(twice, kX).second(1.0)), kTwice, 1e-15);
  EXPECT_NEAR(value(std::get<0>(tl::vjp(twice, kX).second(1.0))), kTwice, 1e-15);
}

TEST(CustomJvp, RuleWinsUnderEveryOrderOfTransformations) {
  const std::vector<double> slopes{2 * std::cos(0.1), kTwice};
  expect_slope_in_every_order(twice, {0.1, kX}, slopes);
  const Array xs({0.1, kX});
  const auto pushed =
      tl::jvp(tl::jit(tl::vmap(twice)), std::tuple{xs}, std::tuple{Array({1.0, 1.0})});
  expect_near(pushed.second, slopes);
}

// Second derivatives differentiate the rule: (2 cos x)' = -2 sin x, also where it calls twice.
TEST(CustomJvp, HigherDerivativesAreThoseOfTheRule) {
  EXPECT_NEAR(value(tl::grad(tl::grad(twice))(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::hessian(twice)(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::grad(tl::jit(tl::grad(twice)))(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::jacfwd(tl::jit(tl::grad(tl::jit(twice))))(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::jacfwd(tl::jacfwd(tl::jit(twice)))(kX)), -2 * std::sin(kX), 1e-15);
}

// A rule that calls its function: e = exp with derivative 3 e, so the second derivative is 9 e.
Array tripled(const Array& x) {
  return tl::custom_jvp([](Array y) { return tl::exp(y); },
                        [](Array y, Array dy) {
                          const Array e = tripled(y);
                          return std::pair{e, 3.0 * e * dy};
                        },
                        {.name = "tripled"})(x);
}

TEST(CustomJvp, RuleMayCallItsFunction) {
  const double e = std::exp(0.3);
  EXPECT_NEAR(value(tl::grad(tripled)(0.3)), 3 * e, 1e-14);
  EXPECT_NEAR(value(tl::grad(tl::grad(tripled))(0.3)), 9 * e, 1e-14);
  EXPECT_NEAR(value(tl::grad(tl::grad(tl::jit(tripled)))(0.3)), 9 * e, 1e-14);
  EXPECT_NEAR(value(tl::jit(tl::grad(tl::grad(tripled)))(0.3)), 9 * e, 1e-14);
  EXPECT_NEAR(value(tl::grad(tl::grad(tl::grad(tl::jit(tripled))))(0.3)), 27 * e, 1e-13);
}

TEST(CustomJvp, ValuesMayBeAskedForInFunctionAndRule) {
  const auto bent = tl::custom_jvp([](Array x) { return x ? tl::sin(x) : tl::cos(x); },
                                   [](Array x, Array dx) {
                                     if (x > 0.0) return std::pair{x, 2.0 * dx};
                                     return std::pair{x, 3.0 * dx};
                                   });
  EXPECT_NEAR(value(bent(0.5)), std::sin(0.5), 1e-15);
  EXPECT_EQ(value(bent(0.0)), 1.0);
  EXPECT_EQ(value(tl::grad(bent)(0.5)), 2.0);
  EXPECT_EQ(value(tl::grad(bent)(-0.5)), 3.0);
  EXPECT_ERROR(ConcretizationError, tl::jit(bent)(0.5), "custom_jvp(f)");
}

struct Point {
  Array x;
  std::vector<Array> rest;
};

TEST(CustomJvp, TakesTreesAndStaticArguments) {
  const auto f = tl::custom_jvp(
      [](Point p, int n) { return std::pair{tl::lax::integer_pow(p.x, n), p.rest[0] * p.rest[1]}; },
      [](std::tuple<Point, int> primals, std::tuple<Point, int> tangents) {
        const auto& [p, n] = primals;
        const Point& dp = std::get<0>(tangents);
        const std::pair y{tl::lax::integer_pow(p.x, n), p.rest[0] * p.rest[1]};
        return std::pair{y, std::pair{Array(double(n)) * dp.x, dp.rest[0] + dp.rest[1]}};
      });
  const Point p{3.0, {Array(4.0), Array(5.0)}};
  const auto total = [&](Point q) {
    const auto [a, b] = f(q, 2);
    return a + 10.0 * b;
  };
  EXPECT_EQ(value(total(p)), 209.0);
  for (const Point& g :
       {tl::grad(total)(p), tl::grad(tl::jit(total))(p), tl::jit(tl::grad(total))(p)}) {
    EXPECT_EQ(value(g.x), 2.0);
    EXPECT_EQ(value(g.rest[0]), 10.0);
    EXPECT_EQ(value(g.rest[1]), 10.0);
  }
}

TEST(CustomJvp, ZeroTangentsAreArraysUnlessSymbolicOnesAreAskedFor) {
  for (const bool symbolic : {false, true}) {
    int empty = -1;
    const auto f =
        tl::custom_jvp([](Array x, Array y) { return x * y; },
                       [&](std::tuple<Array, Array> primals, std::tuple<Array, Array> tangents) {
                         const auto& [x, y] = primals;
                         const auto& [dx, dy] = tangents;
                         empty = !dy.has_value();
                         if (!empty) EXPECT_EQ(values(dy), (std::vector<double>{0, 0}));
                         return std::pair{x * y, 5.0 * dx};
                       },
                       {.symbolic_zeros = symbolic});
    const Array y({1.0, 2.0});
    const auto g = tl::grad([&](Array x) { return tl::sum(f(x, y)); });
    expect_near(g(Array({3.0, 4.0})), {5, 5});
    EXPECT_EQ(empty, symbolic);
  }
}

TEST(CustomJvp, ArgumentsThatAreNotDifferentiatedHaveNoTangent) {
  const auto f =
      tl::custom_jvp<1>([](Array x, Array scale) { return x * scale; },
                        [](std::tuple<Array, Array> primals, std::tuple<Array, Array> tangents) {
                          EXPECT_FALSE(std::get<1>(tangents).has_value());
                          const auto& [x, scale] = primals;
                          return std::pair{x * scale, 7.0 * std::get<0>(tangents)};
                        },
                        {.name = "scaled"});
  EXPECT_EQ(value(tl::grad(f)(2.0, 3.0)), 7.0);
  EXPECT_EQ(value(tl::grad(tl::jit(f))(2.0, 3.0)), 7.0);
  EXPECT_ERROR(TypeError, (tl::grad<1>(f)(2.0, 3.0)), "differentiation of scaled with respect to");
}

TEST(CustomJvp, IntegerResultsAndArgumentsHaveNoTangents) {
  const auto f =
      tl::custom_jvp([](Array x, Array i) { return std::pair{x * 2.0, i + 1}; },
                     [](std::tuple<Array, Array> p, std::tuple<Array, Array> t) {
                       EXPECT_EQ(std::get<1>(t).dtype(), tl::DType::float0);
                       const std::pair y{std::get<0>(p) * 2.0, std::get<1>(p) + 1};
                       return std::pair{y, std::pair{4.0 * std::get<0>(t), std::get<1>(t)}};
                     });
  const auto g = tl::grad([&](Array x) { return f(x, Array(3)).first; });
  EXPECT_EQ(value(g(1.0)), 4.0);
  EXPECT_EQ(value(tl::grad(tl::jit([&](Array x) { return f(x, Array(3)).first; }))(1.0)), 4.0);
}

TEST(CustomJvp, CallsPrintParseAndTypecheck) {
  const tl::ClosedJaxpr traced = tl::make_jaxpr(twice)(Array(kX));
  EXPECT_THAT(traced.to_string(),
              HasSubstr("custom_jvp_call [ jvp=twice_jvp name=twice num_consts=0 ] a"))
      << traced;
  EXPECT_THAT(traced.to_string(), Not(HasSubstr("call=")));
  tl::typecheck_jaxpr(traced.jaxpr);
  const tl::Jaxpr parsed = tl::parse_jaxpr(traced.to_string());
  EXPECT_EQ(parsed, traced.jaxpr);
  const auto again = [&](Array x) { return tl::eval_jaxpr(parsed, std::vector{x})[0]; };
  EXPECT_NEAR(value(tl::grad(again)(kX)), kTwice, 1e-15);
  std::string strange = traced.to_string();
  strange.replace(strange.find("twice_jvp"), 9, "other_jvp");
  EXPECT_ERROR(ParseError, tl::parse_jaxpr(strange), "'other_jvp' names a C++ function");
}

TEST(CustomJvp, EqualCallsAreMergedAndTracedProgramsAreEqual) {
  const auto two = [](Array x) { return twice(x) + twice(x); };
  const tl::Jaxpr traced = tl::make_jaxpr(two)(Array(kX)).jaxpr;
  EXPECT_EQ(tl::count_eqns(traced, "custom_jvp_call"), 2);
  EXPECT_EQ(tl::count_eqns(tl::eliminate_common_subexpressions(traced), "custom_jvp_call"), 1);
  EXPECT_EQ(traced, tl::make_jaxpr(two)(Array(kX)).jaxpr);
  const auto mapped = tl::vmap(two);
  const Array xs({1.0, 2.0});
  EXPECT_EQ(tl::make_jaxpr(mapped)(xs).jaxpr, tl::make_jaxpr(mapped)(xs).jaxpr);
}

TEST(CustomJvp, MayCaptureTracedValuesThatAreNotDifferentiated) {
  const auto scaled = [](Array x, Array s) {
    const auto f = tl::custom_jvp([s](Array y) { return y * s; },
                                  [](Array y, Array dy) { return std::pair{y * 0.0, 3.0 * dy}; },
                                  {.name = "captures"});
    return f(x);
  };
  EXPECT_EQ(value(tl::jit(scaled)(2.0, 5.0)), 10.0);
  expect_near(tl::vmap(scaled)(Array({1.0, 2.0}), Array({3.0, 4.0})), {3, 8});
  EXPECT_EQ(value(tl::grad(tl::jit(scaled))(2.0, 5.0)), 3.0);
  EXPECT_ERROR(TypeError, (tl::grad<1>(tl::jit(scaled))(2.0, 5.0)),
               "Detected differentiation of the custom_jvp function captures with respect to a "
               "closed-over value");
}

TEST(CustomJvp, RuleThatUsesATracerOfTheDerivativeIsRefused) {
  const auto wrong = [](Array x) {
    return tl::custom_jvp([](Array y) { return y; },
                          [x](Array y, Array dy) { return std::pair{y * x, dy}; })(x);
  };
  EXPECT_ERROR(TypeError, tl::grad(wrong)(2.0), "closed-over value");
}

TEST(CustomJvp, RulesThatGiveTheWrongTypesAreNamed) {
  const auto wrong_tangent = tl::custom_jvp(
      [](Array x) { return tl::sin(x); },
      [](Array x, Array dx) { return std::pair{tl::sin(x), tl::ones({1}, tl::DType::f64) * dx}; },
      {.name = "foo"});
  EXPECT_ERROR(TypeError, tl::grad(wrong_tangent)(1.0),
               "Expected f64[] (tangent type of f64[]) but got f64[1]");
  const auto wrong_value = tl::custom_jvp([](Array x) { return tl::sin(x); },
                                          [](Array x, Array) {
                                            const Array y = tl::stack({x, x});
                                            return std::pair{y, y};
                                          },
                                          {.name = "foo"});
  EXPECT_ERROR(TypeError, tl::grad(tl::jit([&](Array x) { return tl::sum(wrong_value(x)); }))(1.0),
               "result 0 of the function is f64[], but the rule gave f64[2]");
  const auto wrong_structure = tl::custom_jvp(
      [](Array x) { return std::vector{x, x}; },
      [](Array x, Array dx) { return std::pair{std::vector{x, x}, std::vector{dx}}; },
      {.name = "foo"});
  EXPECT_ERROR(TypeError, tl::grad([&](Array x) { return wrong_structure(x)[0]; })(1.0),
               "the result and the tangent that the rule of foo gives must have one structure");
}

TEST(CustomJvp, CompilesToTheSameCodeAsItsBody) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Array x({0.1, 0.2, 0.3});
  const auto f = tl::jit([](Array a) { return 2.0 * twice(a) + 1.0; });
  f(x);
  EXPECT_EQ(tl::last_executable().kernels, 1);
  EXPECT_EQ(tl::last_executable().library_calls, 0);
}

// Against JAX: jax.nn.relu at 0 and elsewhere, by its own rule.
TEST(CustomJvp, ReluAsInJaxHasDerivativeZeroAtZero) {
  const auto relu =
      tl::custom_jvp([](Array x) { return tl::maximum(x, 0.0); },
                     [](Array x, Array dx) {
                       return std::pair{tl::maximum(x, 0.0), tl::where(x > 0.0, dx, 0.0 * dx)};
                     });
  const auto g = tl::jit(tl::vmap(tl::grad(relu)));
  expect_near(g(Array({-1.0, 0.0, 2.0})), {0, 0, 1}, 0);
}

}  // namespace
}  // namespace telamon_test
