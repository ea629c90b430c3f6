// custom_vmap, linear_call and closure_convert.
#include <gmock/gmock.h>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

using ::testing::HasSubstr;

// sin(x) y for one example; ten times that for a batch, so that the rule is seen.
int rule_calls = 0;
const auto tenfold =
    tl::custom_vmap([](Array x, Array y) { return tl::sin(x) * y; },
                    [](std::int64_t size, std::array<bool, 2> mapped, Array x, Array y) {
                      ++rule_calls;
                      EXPECT_EQ(size, 3);
                      EXPECT_EQ(x.ndim(), mapped[0] ? 1 : 0);
                      EXPECT_EQ(y.ndim(), mapped[1] ? 1 : 0);
                      return std::pair{10.0 * tl::sin(x) * y, mapped[0] || mapped[1]};
                    },
                    {.name = "tenfold"});

const Array kThree({0.1, 0.2, 0.3});
std::vector<double> scaled(double factor, double (*f)(double)) {
  std::vector<double> out;
  for (const double x : {0.1, 0.2, 0.3}) out.push_back(factor * f(x));
  return out;
}

TEST(CustomVmap, RuleWinsUnderVmapOnly) {
  EXPECT_NEAR(value(tenfold(0.5, 2.0)), 2 * std::sin(0.5), 1e-15);
  EXPECT_NEAR(value(tl::jit(tenfold)(0.5, 2.0)), 2 * std::sin(0.5), 1e-15);
  rule_calls = 0;
  const tl::VmapOptions first{.in_axes = {0, tl::none}};
  expect_near(tl::vmap(tenfold, first)(kThree, 2.0), scaled(20, std::sin));
  EXPECT_EQ(rule_calls, 1);
  expect_near(tl::vmap(tl::jit(tenfold), first)(kThree, 2.0), scaled(20, std::sin));
  expect_near(tl::jit(tl::vmap(tenfold, first))(kThree, 2.0), scaled(20, std::sin));
  expect_near(tl::vmap(tenfold)(kThree, kThree * 0.0 + 2.0), scaled(20, std::sin));
}

TEST(CustomVmap, DerivativesOfTheMappedFunctionAreThoseOfTheRule) {
  const auto total = [](Array x) {
    return tl::sum(tl::vmap(tenfold, {.in_axes = {0, tl::none}})(x, 2.0));
  };
  expect_near(tl::grad(total)(kThree), scaled(20, std::cos));
  expect_near(tl::jit(tl::grad(total))(kThree), scaled(20, std::cos));
  expect_near(tl::grad(tl::jit(total))(kThree), scaled(20, std::cos));
  const auto pushed = [](Array x) {
    return tl::jvp([](Array a) { return tenfold(a, 2.0); }, std::tuple{x}, std::tuple{1.0});
  };
  const auto [y, dy] = tl::vmap(pushed)(kThree);  // jvp of the rule, as in JAX
  expect_near(y, scaled(20, std::sin));
  expect_near(dy, scaled(20, std::cos));
}

TEST(CustomVmap, ReverseModeOfOneExampleIsThatOfTheFunction) {
  EXPECT_NEAR(value(tl::grad(tenfold)(0.5, 2.0)), 2 * std::cos(0.5), 1e-15);
  EXPECT_NEAR(value(tl::jit(tl::grad(tl::jit(tenfold)))(0.5, 2.0)), 2 * std::cos(0.5), 1e-15);
  EXPECT_NEAR(value(tl::hessian(tenfold)(0.5, 2.0)), -2 * std::sin(0.5), 1e-15);
  expect_near(tl::vmap(tl::grad(tenfold), {.in_axes = {0, tl::none}})(kThree, 2.0),
              scaled(2, std::cos));
}

struct Pair {
  Array a, b;
};

TEST(CustomVmap, LeavesOfOneArgumentAreMappedTogether) {
  const auto f = tl::custom_vmap([](Pair p, Array s) { return Pair{p.a + p.b, s}; },
                                 [](std::int64_t n, std::array<bool, 2> mapped, Pair p, Array s) {
                                   EXPECT_TRUE(mapped[0]);
                                   EXPECT_FALSE(mapped[1]);
                                   EXPECT_EQ(p.b.shape(), tl::Shape({n}));
                                   return std::pair{Pair{p.a - p.b, tl::full_like(p.a, s)}, true};
                                 });
  const auto g = [&](Array a, Array s) { return f(Pair{a, Array(1.0)}, s); };
  const Pair out = tl::vmap(g, {.in_axes = {0, tl::none}})(Array({5.0, 7.0}), 2.0);
  expect_near(out.a, {4, 6});
  expect_near(out.b, {2, 2});
}

TEST(CustomVmap, WrongResultsAreNamed) {
  const auto f = tl::custom_vmap(
      [](Array x) { return x; },
      [](std::int64_t, std::array<bool, 1>, Array x) { return std::pair{tl::sum(x), true}; },
      {.name = "foo"});
  EXPECT_ERROR(TypeError, tl::vmap(f)(kThree),
               "the batching rule of the custom_vmap function foo gave f64[] as result 0 where "
               "f64[3] is expected");
  const auto captures = [](Array x) {
    return tl::custom_vmap([x](Array y) { return x * y; },
                           [](std::int64_t, std::array<bool, 1> mapped, Array y) {
                             return std::pair{y, mapped[0]};
                           })(2.0);
  };
  EXPECT_ERROR(TypeError, tl::vmap(captures)(kThree), "captured a value of type");
}

TEST(CustomVmap, CallsPrintParseAndTypecheck) {
  const auto traced = tl::make_jaxpr(tenfold)(Array(0.5), Array(2.0));
  EXPECT_THAT(traced.to_string(),
              HasSubstr("custom_vmap_call [ name=tenfold num_consts=0 rule=tenfold_vmap ] a b"));
  tl::typecheck_jaxpr(traced.jaxpr);
  EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr);
}

// ---- linear_call -------------------------------------------------------------------------------

// As in JAX's documentation: r x, whose transpose says 2 r.
Array twice_back(const Array& r, const Array& x) {
  return tl::linear_call([](Array res, Array in) { return res * in; },
                         [](Array res, Array ct) { return 2.0 * res * ct; }, r, x);
}

TEST(LinearCall, IsTransposedAsItWasTold) {
  EXPECT_EQ(value(twice_back(3.0, 5.0)), 15.0);
  EXPECT_EQ(value(tl::jit(twice_back)(3.0, 5.0)), 15.0);
  EXPECT_EQ(value(tl::grad<1>(twice_back)(3.0, 5.0)), 6.0);
  EXPECT_EQ(value(tl::grad<1>(tl::jit(twice_back))(3.0, 5.0)), 6.0);
  EXPECT_EQ(value(tl::jit(tl::grad<1>(twice_back))(3.0, 5.0)), 6.0);
  const auto along_x = [](Array x) { return twice_back(3.0, x); };
  EXPECT_EQ(value(tl::jvp(along_x, std::tuple{5.0}, std::tuple{1.0}).second), 3.0);
  const auto back = tl::linear_transpose(along_x, Array(1.0));
  EXPECT_EQ(value(std::get<0>(back(Array(1.0)))), 6.0);
}

TEST(LinearCall, IsMappedWithItsTranspose) {
  const tl::VmapOptions second{.in_axes = {tl::none, 0}};
  expect_near(tl::vmap(twice_back, second)(2.0, kThree), {0.2, 0.4, 0.6});
  expect_near(tl::vmap(tl::grad<1>(twice_back), second)(2.0, kThree), {4, 4, 4});
  const auto total = [&](Array r, Array x) { return tl::sum(tl::vmap(twice_back)(r, x)); };
  expect_near(tl::grad<1>(total)(kThree, kThree), {0.2, 0.4, 0.6});
  expect_near(tl::grad<1>(tl::jit(total))(kThree, kThree), {0.2, 0.4, 0.6});
  const auto shared = [&](Array x) {
    return tl::sum(tl::vmap(twice_back, {.in_axes = {0, tl::none}})(kThree, x));
  };
  EXPECT_NEAR(value(tl::grad(shared)(1.0)), 1.2, 1e-15);
}

TEST(LinearCall, IsDifferentiatedInItsResidualsAsTheFunctionIs) {
  EXPECT_EQ(value(tl::jvp(twice_back, std::tuple{3.0, 5.0}, std::tuple{1.0, 0.0}).second), 5.0);
  EXPECT_EQ(value(tl::grad(twice_back)(3.0, 5.0)), 5.0);
  EXPECT_EQ(value(tl::jit(tl::grad(twice_back))(3.0, 5.0)), 5.0);
  EXPECT_EQ(value(tl::grad([](Array r) { return twice_back(r, r); })(3.0)), 9.0);
  // The derivative of the transpose: d(2 r)/dr
  EXPECT_EQ(value(tl::jacfwd(tl::grad<1>(twice_back))(3.0, 5.0)), 2.0);
}

TEST(LinearCall, TakesTreesAndPrints) {
  const auto f = [](Array r, Array x, Array y) {
    const auto [a, b] = tl::linear_call(
        [](std::vector<Array> res, std::pair<Array, Array> in) {
          return std::pair{res[0] * in.first, in.first + in.second};
        },
        [](std::vector<Array> res, std::pair<Array, Array> ct) {
          return std::pair{res[0] * ct.first + ct.second, ct.second};
        },
        std::vector{r}, std::pair{x, y});
    return a + 3.0 * b;
  };
  const auto [dr, dx, dy] = tl::grad<0, 1, 2>(f)(2.0, 5.0, 7.0);
  EXPECT_EQ(value(dr), 5.0);
  EXPECT_EQ(value(dx), 5.0);
  EXPECT_EQ(value(dy), 3.0);
  const auto traced = tl::make_jaxpr(f)(Array(2.0), Array(5.0), Array(7.0));
  tl::typecheck_jaxpr(traced.jaxpr);
  EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr) << traced;
}

// ---- closure_convert ---------------------------------------------------------------------------

// As JAX's test of it: a solver with a custom_vjp whose objective captured what is differentiated.
//   minimise f over x (here: returns x), bwd gives the gradient with respect to what f captured
TEST(ClosureConvert, MakesCapturedTracersArguments) {
  const auto solve = [](const auto& f, Array x) {
    const auto [g, hoisted] = tl::closure_convert(f, x);
    const auto call =
        tl::custom_vjp([](Array a, std::vector<Array>) { return a; },
                       [](Array a, std::vector<Array> c) { return std::pair{a, std::pair{a, c}}; },
                       [g = g](const std::pair<Array, std::vector<Array>>& saved, Array) {
                         const auto [y, back] = tl::vjp(
                             [&](std::vector<Array> c) { return g(saved.first, c); }, saved.second);
                         return std::tuple{Array(42.0), std::get<0>(back(Array(17.0)))};
                       });
    return call(x, hoisted);
  };
  const auto whole = [&](Array c, Array x) {
    const Array scale = c * 2.0;
    return solve([scale](Array a) { return a * scale; }, x);
  };
  EXPECT_EQ(value(whole(5.0, 3.0)), 3.0);
  const auto [dc, dx] = tl::grad<0, 1>(whole)(5.0, 3.0);
  EXPECT_EQ(value(dx), 42.0);
  EXPECT_EQ(value(dc), 17.0 * 3.0 * 2.0);
  const auto [jc, jx] = tl::jit(tl::grad<0, 1>(whole))(5.0, 3.0);
  EXPECT_EQ(value(jx), 42.0);
  EXPECT_EQ(value(jc), 102.0);
}

TEST(ClosureConvert, KeepsConstantsAndIntegersInside) {
  const Array constant({1.0, 2.0});
  const auto f = [&](Array x) { return tl::sum(x * constant); };
  const auto [g, hoisted] = tl::closure_convert(f, constant);
  EXPECT_TRUE(hoisted.empty());
  EXPECT_EQ(value(g(constant, hoisted)), 5.0);
  EXPECT_ERROR(TypeError, g(constant, {constant}), "takes 0 hoisted values, got 1");
}

TEST(ClosureConvert, SaysWhereWhatItMadeWasCalled) {
  const auto f = [](Array x, Array y) { return x * y; };
  const auto made = tl::closure_convert(f, 1.0, 2.0);
  const auto expect_place = [](int line, const std::function<void()>& call) {
    EXPECT_THAT(error_of<tl::TypeError>(call),
                testing::ContainsRegex("closure_convert.*\n  at custom_vmap_test[.]cpp:" +
                                       std::to_string(line) + " in "));
  };
  expect_place(__LINE__, [&] { (void)made.first(Array({1.0, 2.0}), 1.0, made.second); });
  expect_place(__LINE__, [&] { (void)made.first(1.0, Array(), made.second); });
  expect_place(__LINE__, [&] { (void)made.first(1.0, 2.0, {Array(3.0)}); });
  // Transformations still know what it takes.
  EXPECT_EQ(value(tl::jit(tl::grad(made.first))(3.0, 4.0, made.second)), 4.0);
}

}  // namespace
}  // namespace telamon_test
