// minimize by all methods on functions whose minima are known; update rules against their formulas.
#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

namespace optim = tl::optim;
using optim::Method;
using optim::minimize;
using testing::HasSubstr;
using testing::NanSensitiveDoubleEq;
using testing::Pointwise;

constexpr Method kMethods[] = {Method::bfgs, Method::lbfgs, Method::newton_cg};
const char* name_of(Method m) {
  return m == Method::bfgs ? "bfgs" : m == Method::lbfgs ? "lbfgs" : "newton_cg";
}

Array rosenbrock(const Array& x) {
  const Array head = x(tl::slice(tl::none, -1)), tail = x(tl::slice(1, tl::none));
  return tl::sum(100.0 * tl::square(tail - tl::square(head)) + tl::square(1.0 - head));
}

TEST(Minimize, FindsTheMinimumOfRosenbrocksFunction) {
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    for (const Array& start : {Array({-1.2, 1.0}), Array({1.3, 0.7, 0.8, 1.9, 1.2})}) {
      const auto result = minimize(rosenbrock, start, {.method = method, .gtol = 1e-8});
      EXPECT_TRUE(bool(result.success)) << result.message();
      expect_near(result.x, std::vector<double>(static_cast<std::size_t>(start.size()), 1.0), 1e-6);
      EXPECT_NEAR(value(result.value), 0, 1e-12);
      EXPECT_LE(value(result.grad_norm), 1e-8);
      // SciPy needs 32, 36 and 86 iterations from the first start.
      EXPECT_LT(value(result.iterations), 90);
      EXPECT_GE(value(result.evaluations), value(result.iterations));
      EXPECT_EQ(result.message(), "converged: the gradient is below gtol");
    }
  }
}

TEST(Minimize, SolvesQuadraticsInPytrees) {
  struct Model {
    Array w;
    std::vector<Array> rest;
  };
  // sum over leaves of |a (x - c)|^2: the minimum is c.
  const auto f = [](const Model& m) {
    return tl::sum(tl::square(Array({{3.0, 1.0}, {0.5, 2.0}}) * (m.w - 2.0))) +
           tl::square(m.rest[0] + 1.0) + 10.0 * tl::square(m.rest[1] - 0.5);
  };
  const Model start{tl::zeros({2, 2}, tl::f64), {0.0, 0.0}};
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    const auto result = minimize(f, start, {.method = method, .gtol = 1e-9});
    EXPECT_TRUE(bool(result.success));
    expect_near(result.x.w, {2, 2, 2, 2}, 1e-8);
    EXPECT_NEAR(value(result.x.rest[0]), -1, 1e-8);
    EXPECT_NEAR(value(result.x.rest[1]), 0.5, 1e-8);
    EXPECT_EQ(result.gradient.w.shape().to_string(), result.x.w.shape().to_string());
  }
}

TEST(Minimize, FitsALogisticRegression) {
  const Array x = rows({40, 3});
  const Array y =
      (tl::sum(x * Array({1.0, -2.0, 0.5}), 1) + 0.4 * rows({40}, 9) > 0).astype(tl::f64);
  const auto loss = [&](const Array& w) {
    const Array z = tl::matmul(x, w);
    return tl::mean(tl::softplus(z) - y * z) + 0.01 * tl::sum(tl::square(w));
  };
  // At the minimum of a strictly convex function the gradient is zero: that proves it.
  Array first;
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    const auto result = minimize(loss, tl::zeros({3}, tl::f64), {.method = method, .gtol = 1e-9});
    EXPECT_TRUE(bool(result.success));
    EXPECT_LE(value(tl::max(tl::abs(tl::grad(loss)(result.x)))), 1e-9);
    if (!first.has_value()) first = result.x;
    expect_near(result.x, values(first), 1e-6);
  }
}

TEST(Minimize, IsJittedAndMapped) {
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    // The minimum of cosh(x - a) + x^2 / 10 is where sinh(x - a) + x / 5 = 0.
    const auto best = [&](const Array& a) {
      const auto f = [&](const Array& x) { return tl::sum(tl::cosh(x - a) + 0.1 * tl::square(x)); };
      return minimize(f, tl::zeros({2}, tl::f64), {.method = method, .gtol = 1e-9});
    };
    const Array as({-3.0, 0.0, 1.0, 2.5});
    const auto result = tl::jit(tl::vmap(best))(as);
    const Array residual = tl::sinh(result.x - as.reshape({4, 1})) + result.x / 5;
    EXPECT_LT(value(tl::max(tl::abs(residual))), 1e-8);
    EXPECT_TRUE(bool(tl::all(result.success)));
    EXPECT_EQ(value(result.iterations(1)), 0) << "it starts at the minimum";
    EXPECT_GT(value(result.iterations(3)), 0);
  }
}

TEST(Minimize, EscapesFromASaddle) {
  // x^4 / 4 - x^2 / 2 + y^2: minima at (+-1, 0), negative curvature in between.
  const auto f = [](const Array& x) {
    return 0.25 * tl::power(x(0), 4) - 0.5 * tl::square(x(0)) + tl::square(x(1));
  };
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    const auto result = minimize(f, Array({0.05, 1.0}), {.method = method, .gtol = 1e-8});
    expect_near(tl::abs(result.x), {1, 0}, 1e-6);
  }
}

TEST(Minimize, WorksInSinglePrecision) {
  for (const Method method : kMethods) {
    const auto result =
        minimize(rosenbrock, Array({-1.2f, 1.0f}), {.method = method, .gtol = 1e-3});
    EXPECT_EQ(result.x.aval().to_string(), "f32[2]");
    expect_near(result.x, {1, 1}, 5e-3);
  }
}

TEST(Minimize, SaysWhyItEnded) {
  const auto few = minimize(rosenbrock, Array({-1.2, 1.0}), {.max_iterations = 3});
  EXPECT_FALSE(bool(few.success));
  EXPECT_EQ(value(few.iterations), 3);
  EXPECT_EQ(few.message(), "max_iterations were not enough");
  const auto bad = minimize([](const Array& x) { return tl::log(x); }, -1.0);
  EXPECT_EQ(value(bad.status), static_cast<int>(optim::Status::not_finite));
  EXPECT_THAT(bad.message(), HasSubstr("not finite"));
  // Without a lower bound values fall until they are infinite.
  const auto down = minimize([](const Array& x) { return -tl::exp(x); }, 0.0);
  EXPECT_FALSE(bool(down.success));
}

// Where a gradient is infinite, so is the direction, and a step of length 0 along it is NaN.
TEST(Minimize, StaysWhereALineSearchFails) {
  const auto sum_of_logs = [](const Array& x) { return tl::sum(tl::log(x)); };
  const auto pole = [](const Array& x) { return tl::sum(-1.0 / (x * x)); };
  using Map = std::function<Array(const Array&)>;
  for (const Method method : kMethods) {
    SCOPED_TRACE(name_of(method));
    for (const Map& f : {Map(sum_of_logs), Map(pole)}) {
      for (const Array& start : {Array(1.0), Array(0.5), Array({1.0, 2.0})}) {
        const auto solve = [&](const Array& x0) { return minimize(f, x0, {.method = method}); };
        for (const auto& result : {solve(start), tl::jit(solve)(start)}) {
          EXPECT_FALSE(bool(result.success));
          for (const double x : values(result.x))
            EXPECT_FALSE(std::isnan(x)) << result.x.to_string();
          EXPECT_EQ(value(f(result.x)), value(result.value));
          EXPECT_THAT(values(tl::grad(f)(result.x)),
                      Pointwise(NanSensitiveDoubleEq(), values(result.gradient)));
        }
      }
    }
  }
}

TEST(Minimize, NamesWrongArguments) {
  EXPECT_ERROR(TypeError, minimize([](const Array& x) { return tl::sum(x); }, Array({1, 2})),
               "the variables must be of floating-point dtypes, but x0 is i32[2]");
  EXPECT_ERROR(TypeError, minimize([](const Array& x) { return x; }, Array({1.0, 2.0})),
               "must return a real scalar");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, Array({1.0, 2.0}), {.history = 0}),
               "minimize: history must be at least 1, got 0");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, Array({1.0, 2.0}), {.line_search_steps = 0}),
               "line_search_steps must be at least 1, got 0");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, Array({1.0, 2.0}), {.max_iterations = -1}),
               "max_iterations must be at least 0, got -1");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, Array({1.0, 2.0}), {.gtol = NAN}), "gtol");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, tl::zeros({0}, tl::f64)), "no elements");
  EXPECT_ERROR(ValueError, minimize(rosenbrock, Array({1.0, 2.0}), {.method = Method(9)}),
               "minimize: there is no method of number 9");
}

TEST(Minimize, SaysWhatToDoInReverseMode) {
  for (const Method method : kMethods) {
    const auto lowest = [&](const Array& a) {
      const auto f = [&](const Array& x) { return tl::sum(tl::cosh(x - a)); };
      return minimize(f, tl::ones({2}, tl::f64), {.method = method}).value;
    };
    const Array a({0.5, 2.0});
    for (const auto& text :
         {error_of<tl::ValueError>([&] { (void)tl::grad(lowest)(a); }),
          error_of<tl::ValueError>([&] { (void)tl::jit(tl::grad(lowest))(a); })}) {
      EXPECT_THAT(text, testing::StartsWith("minimize cannot be differentiated in reverse mode"));
      EXPECT_THAT(text,
                  testing::AllOf(HasSubstr("custom_root"), HasSubstr("at minimize_test.cpp:")));
    }
  }
}

// sum (x - a)^4 + x^2 is lowest where 4 (x - a)^3 + 2 x = 0: dx/da = 12 (x - a)^2 / (12 (x - a)^2 + 2).
TEST(Minimize, IsDifferentiatedAsTheRootOfTheGradient) {
  const auto f = [](const Array& x, const Array& a) {
    return tl::sum(tl::square(tl::square(x - a)) + tl::square(x));
  };
  const auto best = [&](const Array& a) {
    const auto slope = tl::grad([&](const Array& x) { return f(x, a); });
    const auto solve = [&](const auto&, const Array& x) {
      return minimize([&](const Array& y) { return f(y, a); }, x, {.gtol = 1e-12}).x;
    };
    const auto linear = [](const auto& g, const Array& y) {
      return tl::cg(g, y, {.tol = 1e-12}).x;
    };
    return tl::custom_root(slope, tl::zeros_like(a), solve, linear);
  };
  const Array a({1.0, -2.0});
  const Array d = 12.0 * tl::square(best(a) - a);
  const auto total = [&](const Array& at) { return tl::sum(best(at)); };
  EXPECT_TRUE(tl::allclose(tl::grad(total)(a), d / (d + 2.0), {.rtol = 1e-8}));
  EXPECT_TRUE(tl::allclose(tl::jit(tl::grad(total))(a), d / (d + 2.0), {.rtol = 1e-8}));
}

struct Layer {
  Array w, b;
};

TEST(Adam, IsItsFormula) {
  const Array p = rows({3}), g = rows({3}, 1);
  optim::AdamState<Array> state = optim::adam_init(p);
  Array x = p;
  double m = 0, v = 0, want = values(p)[0];
  for (int t = 1; t <= 4; ++t) {
    std::tie(x, state) = optim::adam_step(x, g * t, state, 0.1);
    const double gradient = values(g)[0] * t;
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    want -= 0.1 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    EXPECT_NEAR(values(x)[0], want, 1e-14);
  }
  EXPECT_EQ(x.aval().to_string(), "f64[3]");
}

TEST(Sgd, FollowsTheGradientWithAndWithoutMomentum) {
  const std::pair p{Array(1.0), Array({2.0, 3.0})}, g{Array(0.5), Array({1.0, -1.0})};
  const auto next = optim::sgd_step(p, g, 0.1);
  EXPECT_NEAR(value(next.first), 0.95, 1e-15);
  expect_near(next.second, {1.9, 3.1}, 1e-15);
  const auto [moved, velocity] = optim::sgd_step(p, g, g, 0.1, 0.5);
  EXPECT_NEAR(value(velocity.first), 0.75, 1e-15);
  expect_near(moved.second, {1.85, 3.15}, 1e-15);
}

TEST(UpdateRules, RefuseGradientsOfOtherShapesAndDtypes) {
  const Layer params{Array({1.0, 2.0, 3.0}), Array(1.0)};
  const Layer shorter{Array({1.0, 2.0}), Array(1.0)}, single{Array({1.0f, 2.0f, 3.0f}), Array(1.0)};
  const auto state = optim::adam_init(params);
  const std::string of_shape = "gradient.w is f64[2], but params.w is f64[3]: a gradient must have",
                    of_dtype = "gradient.w is f32[3], but params.w is f64[3]: a gradient must have";
  EXPECT_ERROR(TypeError, optim::sgd_step(params, shorter, 0.1), "sgd_step: " + of_shape);
  EXPECT_ERROR(TypeError, optim::sgd_step(params, single, 0.1), "sgd_step: " + of_dtype);
  EXPECT_ERROR(TypeError, optim::sgd_step(params, shorter, params, 0.1), "sgd_step: " + of_shape);
  EXPECT_ERROR(TypeError, optim::adam_step(params, shorter, state, 0.1), "adam_step: " + of_shape);
  EXPECT_ERROR(TypeError, optim::adam_step(params, single, state, 0.1), "adam_step: " + of_dtype);
  EXPECT_ERROR(TypeError, optim::sgd_step(params, params, shorter, 0.1),
               "sgd_step: velocity.w is f64[2], but params.w is f64[3]: a velocity must have");
  EXPECT_ERROR(TypeError, optim::adam_step(params, params, optim::adam_init(shorter), 0.1),
               "adam_step: state.mean.w is f64[2], but params.w is f64[3]");
  EXPECT_ERROR(TypeError, optim::sgd_step(Array({1, 2}), Array({1, 2}), 0.1),
               "sgd_step: params is i32[2], but parameters must be of floating-point dtypes");
  EXPECT_ERROR(TypeError, optim::sgd_step(params.w, Array(1.0), 0.1),
               "sgd_step: gradient is ~f64[], but params is f64[3]");
  EXPECT_ERROR(TypeError, optim::sgd_step(std::vector{params}, std::vector<Layer>(), 0.1),
               "sgd_step: params and gradient: tree structures differ");
}

}  // namespace
}  // namespace telamon_test
