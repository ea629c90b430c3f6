// custom_vjp: reverse mode by fwd and bwd, under every transformation; forward mode is refused.
#include <gmock/gmock.h>

#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

using ::testing::HasSubstr;

const auto twice = tl::custom_vjp(
    [](Array x) { return tl::sin(x); }, [](Array x) { return std::pair{tl::sin(x), tl::cos(x)}; },
    [](Array c, Array ct) { return std::tuple{2.0 * c * ct}; }, {.name = "twice"});

constexpr double kX = 0.7;
const double kTwice = 2 * std::cos(kX);
constexpr const char* kRefusal = "can't apply forward-mode autodiff (jvp) to a custom_vjp function";

TEST(CustomVjp, GivesTheValueOfTheFunction) {
  EXPECT_NEAR(value(twice(kX)), std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::jit(twice)(kX)), std::sin(kX), 1e-15);
  expect_near(tl::vmap(twice)(Array({0.1, 0.2})), {std::sin(0.1), std::sin(0.2)});
}

TEST(CustomVjp, BwdWinsUnderEveryOrderOfTransformations) {
  const std::vector<double> slopes{2 * std::cos(0.1), kTwice};
  expect_slope_in_every_order(twice, {0.1, kX}, slopes);
  const Array jacobian = tl::jacrev(tl::vmap(twice))(Array({0.1, kX}));
  expect_near(jacobian, {slopes[0], 0, 0, slopes[1]});
}

TEST(CustomVjp, HigherDerivativesAreThoseOfTheRules) {
  // bwd multiplies a residual that fwd computed: d(2 cos x) = -2 sin x
  EXPECT_NEAR(value(tl::grad(tl::grad(twice))(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::hessian(twice)(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::grad(tl::jit(tl::grad(tl::jit(twice))))(kX)), -2 * std::sin(kX), 1e-15);
  EXPECT_NEAR(value(tl::jit(tl::hessian(twice))(kX)), -2 * std::sin(kX), 1e-15);
}

// The branch that runs does not depend on what is differentiated: the tangent of y is known, and zero.
TEST(CustomVjp, AppliesToAConstantFromABranch) {
  const auto f = [](Array x, Array c) {
    const Array y = tl::cond(
        c > 0.0, [](Array a, Array b) { return a * b; }, [](Array, Array b) { return b + 1.0; }, x,
        c);
    return twice(y) * x;
  };
  for (const double c : {-0.5, 0.5}) {
    const double y = c > 0 ? kX * c : c + 1;
    const double slope = std::sin(y) + (c > 0 ? 2 * std::cos(y) * c * kX : 0);
    EXPECT_NEAR(value(tl::grad(f)(kX, c)), slope, 1e-15);
    EXPECT_NEAR(value(tl::jit(tl::grad(f))(kX, c)), slope, 1e-15);
  }
}

TEST(CustomVjp, ForwardModeIsRefused) {
  EXPECT_ERROR(TypeError, tl::jvp(twice, std::tuple{kX}, std::tuple{1.0}), kRefusal);
  const Array xs({0.1, 0.2});
  EXPECT_ERROR(TypeError, tl::jvp(tl::vmap(twice), std::tuple{xs}, std::tuple{xs}), kRefusal);
  EXPECT_ERROR(TypeError, tl::jvp(tl::jit(twice), std::tuple{kX}, std::tuple{1.0}), kRefusal);
  const auto pushed = [](Array x) { return tl::jvp(twice, std::tuple{x}, std::tuple{x}).second; };
  EXPECT_ERROR(TypeError, tl::jit(pushed)(kX), kRefusal);
  EXPECT_ERROR(TypeError, tl::vmap(pushed)(xs), kRefusal);
  EXPECT_ERROR(TypeError, tl::jacfwd(twice)(kX), kRefusal);
  EXPECT_ERROR(TypeError, tl::linearize(twice, kX).second(1.0), kRefusal);
  EXPECT_ERROR(TypeError, tl::grad(pushed)(kX), kRefusal);
}

// Gradients clipped to [-0.2, 0.2]; a residual of static values only.
TEST(CustomVjp, ClipsAGradient) {
  const auto clip = tl::custom_vjp(
      [](double, double, Array x) { return x; },
      [](double low, double high, Array x) { return std::pair{x, std::pair{low, high}}; },
      [](std::pair<double, double> range, Array ct) {
        return std::tuple{tl::clip(ct, range.first, range.second)};
      });
  const auto f = [&](Array x) { return tl::sin(clip(-0.2, 0.2, x)); };
  EXPECT_NEAR(value(tl::grad(f)(0.5)), 0.2, 1e-15);
  EXPECT_NEAR(value(tl::grad(tl::jit(f))(0.5)), 0.2, 1e-15);
  expect_near(tl::vmap(tl::grad(f))(Array({0.5, 1.5})), {0.2, std::cos(1.5)});
}

struct Layer {
  Array w;
  std::vector<Array> rest;
};
struct Saved {
  Array x;
  std::map<std::string, Array> more;
  int n = 0;
};

TEST(CustomVjp, ResidualsAndArgumentsAreAnyTrees) {
  const auto f = tl::custom_vjp(
      [](Layer l, int n, Array x) { return std::pair{l.w * x, l.rest[0] * double(n)}; },
      [](Layer l, int n, Array x) {
        return std::pair{std::pair{l.w * x, l.rest[0] * double(n)}, Saved{x, {{"w", l.w}}, n}};
      },
      [](const Saved& saved, const std::pair<Array, Array>& ct) {
        const Layer dl{saved.x * ct.first, {ct.second * double(saved.n), Array()}};
        return std::tuple{dl, saved.more.at("w") * ct.first * 100.0};
      });
  const Layer l{2.0, {Array(3.0), Array(4.0)}};
  const auto total = [&](Layer a, Array x) {
    const auto [u, v] = f(a, 5, x);
    return u + v;
  };
  EXPECT_EQ(value(total(l, 7.0)), 29.0);
  const auto check = [](const std::tuple<Layer, Array>& g) {
    EXPECT_EQ(value(std::get<0>(g).w), 7.0);
    EXPECT_EQ(value(std::get<0>(g).rest[0]), 5.0);
    EXPECT_EQ(value(std::get<0>(g).rest[1]), 0.0);
    EXPECT_EQ(value(std::get<1>(g)), 200.0);
  };
  check(tl::grad<0, 1>(total)(l, 7.0));
  check(tl::grad<0, 1>(tl::jit(total))(l, 7.0));
  check(tl::jit(tl::grad<0, 1>(total))(l, 7.0));
}

// Per-example gradients: what is not mapped collects the sum over the batch.
TEST(CustomVjp, CotangentsOfWhatIsNotMappedAddUp) {
  const auto product = tl::custom_vjp(
      [](Array w, Array x) { return w * x; },
      [](Array w, Array x) { return std::pair{w * x, std::pair{w, x}}; },
      [](std::pair<Array, Array> r, Array ct) { return std::tuple{r.second * ct, r.first * ct}; });
  const Array xs({1.0, 2.0, 3.0});
  const auto loss = [&](Array w, Array x) {
    return tl::sum(tl::vmap(product, {.in_axes = {tl::none, 0}})(w, x));
  };
  const auto check = [&](const std::tuple<Array, Array>& g) {
    EXPECT_EQ(value(std::get<0>(g)), 6.0);
    expect_near(std::get<1>(g), {10, 10, 10});
  };
  check(tl::grad<0, 1>(loss)(10.0, xs));
  check(tl::jit(tl::grad<0, 1>(loss))(10.0, xs));
  check(tl::grad<0, 1>(tl::jit(loss))(10.0, xs));
  // A cotangent that does not depend on the examples is still one per example.
  const auto constant =
      tl::custom_vjp([](Array w, Array x) { return w + x; },
                     [](Array w, Array x) { return std::pair{w + x, std::tuple{}}; },
                     [](std::tuple<>, Array) { return std::tuple{Array(1.5), Array()}; });
  const auto sum = [&](Array w) {
    return tl::sum(tl::vmap(constant, {.in_axes = {tl::none, 0}})(w, xs));
  };
  EXPECT_EQ(value(tl::grad(sum)(10.0)), 4.5);
}

TEST(CustomVjp, BatchAxesOtherThanTheFirstComeBackWhereTheyWere) {
  const auto f = tl::custom_vjp([](Array x) { return tl::sum(x * x); },
                                [](Array x) { return std::pair{tl::sum(x * x), x}; },
                                [](Array x, Array ct) { return std::tuple{3.0 * x * ct}; });
  const Array m({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  const auto total = [&](Array x) { return tl::sum(tl::vmap(f, {.in_axes = 1})(x)); };
  expect_near(tl::grad(total)(m), {3, 6, 9, 12, 15, 18});
  expect_near(tl::grad(tl::jit(total))(m), {3, 6, 9, 12, 15, 18});
}

TEST(CustomVjp, SymbolicZerosReachBwd) {
  for (const bool symbolic : {false, true}) {
    bool empty = false;
    const auto f = tl::custom_vjp([](Array x) { return std::pair{x, 2.0 * x}; },
                                  [](Array x) { return std::pair{std::pair{x, 2.0 * x}, x}; },
                                  [&](Array, std::pair<Array, Array> ct) {
                                    empty = !ct.second.has_value();
                                    return std::tuple{ct.first};
                                  },
                                  {.symbolic_zeros = symbolic});
    EXPECT_EQ(value(tl::grad([&](Array x) { return f(x).first; })(1.0)), 1.0);
    EXPECT_EQ(empty, symbolic);
  }
}

TEST(CustomVjp, IntegersHaveNoCotangents) {
  const auto f =
      tl::custom_vjp([](Array x, Array i) { return std::pair{x * 2.0, i + 1}; },
                     [](Array x, Array i) { return std::pair{std::pair{x * 2.0, i + 1}, i}; },
                     [](Array i, std::pair<Array, Array> ct) {
                       EXPECT_EQ(ct.second.dtype(), tl::DType::float0);
                       return std::tuple{ct.first * 7.0, i};
                     });
  const auto g = [&](Array x) { return f(x, Array(3)).first; };
  EXPECT_EQ(value(tl::grad(g)(1.0)), 7.0);
  EXPECT_EQ(value(tl::grad(tl::jit(g))(1.0)), 7.0);
}

TEST(CustomVjp, ArgumentsThatAreNotDifferentiatedHaveNoCotangent) {
  const auto f =
      tl::custom_vjp<1>([](Array x, Array scale) { return x * scale; },
                        [](Array x, Array scale) { return std::pair{x * scale, scale}; },
                        [](Array scale, Array ct) { return std::tuple{2.0 * scale * ct}; });
  EXPECT_EQ(value(tl::grad(f)(2.0, 3.0)), 6.0);
  EXPECT_EQ(value(tl::grad<1>(f)(2.0, 3.0)), 0.0);
}

TEST(CustomVjp, WrongCotangentsAreNamed) {
  const auto f = tl::custom_vjp(
      [](Array x, Array y) { return tl::sin(x) * y; },
      [](Array x, Array y) { return std::pair{tl::sin(x) * y, x}; },
      [](Array, Array ct) { return std::tuple{ct, tl::ones({3}, tl::DType::f64) * ct}; },
      {.name = "foo"});
  EXPECT_ERROR(ValueError, (tl::grad<0, 1>(f)(1.0, 2.0)),
               "at output[1] the bwd rule attached to foo produced an output of type f64[3] "
               "corresponding to an input of type f64[], so the shapes do not match");
  const auto g = tl::custom_vjp(
      [](Array x) { return tl::sin(x); }, [](Array x) { return std::pair{tl::stack({x, x}), x}; },
      [](Array, Array ct) { return std::tuple{tl::sum(ct)}; }, {.name = "foo"});
  EXPECT_ERROR(TypeError, tl::grad(tl::jit(g))(1.0),
               "the function gives (f64[]), but fwd gave (f64[2])");
}

TEST(CustomVjp, CallsPrintParseAndTypecheck) {
  const tl::ClosedJaxpr traced = tl::make_jaxpr(twice)(Array(kX));
  EXPECT_THAT(traced.to_string(),
              HasSubstr("custom_vjp_call [ fwd=twice_fwd name=twice num_consts=0 ] a"))
      << traced;
  tl::typecheck_jaxpr(traced.jaxpr);
  const tl::Jaxpr parsed = tl::parse_jaxpr(traced.to_string());
  EXPECT_EQ(parsed, traced.jaxpr);
  const auto again = [&](Array x) { return tl::eval_jaxpr(parsed, std::vector{x})[0]; };
  EXPECT_NEAR(value(tl::grad(again)(kX)), kTwice, 1e-15);

  const auto pushed = [](Array x, Array dx) {
    return tl::jvp(twice, std::tuple{x}, std::tuple{dx}).second;
  };
  const tl::ClosedJaxpr linear = tl::make_jaxpr(pushed)(Array(kX), Array(1.0));
  EXPECT_THAT(linear.to_string(), HasSubstr("custom_lin")) << linear;
  tl::typecheck_jaxpr(linear.jaxpr);
  EXPECT_EQ(tl::parse_jaxpr(linear.to_string()), linear.jaxpr);
}

TEST(CustomVjp, MayCaptureTracedValuesThatAreNotDifferentiated) {
  const auto scaled = [](Array x, Array s) {
    const auto f = tl::custom_vjp(
        [s](Array y) { return y * s; }, [](Array y) { return std::pair{y, std::tuple{}}; },
        [](std::tuple<>, Array ct) { return std::tuple{3.0 * ct}; }, {.name = "captures"});
    return f(x);
  };
  EXPECT_EQ(value(tl::jit(scaled)(2.0, 5.0)), 10.0);
  expect_near(tl::vmap(scaled)(Array({1.0, 2.0}), Array({3.0, 4.0})), {3, 8});
  EXPECT_EQ(value(tl::grad(tl::jit(scaled))(2.0, 5.0)), 3.0);
  EXPECT_ERROR(TypeError, (tl::grad<1>(tl::jit(scaled))(2.0, 5.0)),
               "the custom_vjp function captures with respect to a closed-over value");
}

TEST(CustomVjp, WithinACustomJvpRule) {
  const auto outer =
      tl::custom_jvp([](Array x) { return twice(x); },
                     [](Array x, Array dx) { return std::pair{twice(x), 10.0 * twice(x) * dx}; });
  EXPECT_NEAR(value(tl::grad(outer)(kX)), 10 * std::sin(kX), 1e-14);
  EXPECT_NEAR(value(tl::grad(tl::grad(outer))(kX)), 10 * kTwice, 1e-14);
  EXPECT_NEAR(value(tl::jit(tl::grad(tl::grad(tl::jit(outer))))(kX)), 10 * kTwice, 1e-14);
}

// jax.grad of logsumexp-like log1pexp stays finite where exp overflows: 1 - 1/(1 + inf) = 1.
TEST(CustomVjp, KeepsLog1pexpFiniteAsInJax) {
  const auto log1pexp = tl::custom_vjp(
      [](Array x) { return tl::log1p(tl::exp(x)); },
      [](Array x) {
        const Array e = tl::exp(x);
        return std::pair{tl::log1p(e), e};
      },
      [](const Array& e, const Array& ct) { return std::tuple{ct * (1 - 1 / (1 + e))}; });
  EXPECT_EQ(value(tl::grad(log1pexp)(1000.0)), 1.0);
  EXPECT_NEAR(value(tl::jit(tl::grad(log1pexp))(0.3)), 0.574442516811659, 1e-15);
}

}  // namespace
}  // namespace telamon_test
