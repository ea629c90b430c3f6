// custom_root: roots and the derivatives of the implicit function.
#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

// Newton's method for a scalar, with a loop that reverse mode cannot pass.
const auto kNewton = [](const auto& f, Array x0) {
  return tl::while_loop([&](Array x) { return tl::abs(f(x)) > 1e-13; },
                        [&](Array x) {
                          const Array slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6;
                          return x - f(x) / slope;
                        },
                        x0);
};
const auto kDivide = [](const auto& g, Array y) { return y / g(1.0); };

Array square_root(const Array& a) {
  return tl::custom_root([&](Array x) { return x * x - a; }, 1.0, kNewton, kDivide);
}

TEST(CustomRoot, HasTheDerivativesOfTheImplicitFunction) {
  EXPECT_NEAR(value(square_root(2.0)), std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(value(tl::grad(square_root)(2.0)), 0.5 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(value(tl::grad(tl::grad(square_root))(2.0)), -0.25 * std::pow(2.0, -1.5), 1e-12);
  EXPECT_NEAR(value(tl::grad(tl::grad(tl::grad(square_root)))(2.0)), 0.375 * std::pow(2.0, -2.5),
              1e-11);
  tl::check_grads(square_root, std::tuple{Array(3.0)}, {.order = 2});
  tl::check_grads(tl::jit(square_root), std::tuple{Array(3.0)}, {.order = 2});
}

TEST(CustomRoot, AgreesUnderNestsOfTransformations) {
  const Array as({2.0, 3.0, 5.0});
  std::vector<double> roots, slopes;
  for (const double a : {2.0, 3.0, 5.0}) {
    roots.push_back(std::sqrt(a));
    slopes.push_back(0.5 / std::sqrt(a));
  }
  expect_near(tl::vmap(square_root)(as), roots);
  expect_near(tl::vmap(tl::grad(square_root))(as), slopes);
  expect_near(tl::jit(tl::vmap(tl::grad(tl::jit(square_root))))(as), slopes);
  const auto total = [](Array x) { return tl::sum(tl::vmap(square_root)(x)); };
  expect_near(tl::grad(total)(as), slopes);
  expect_near(tl::jit(tl::grad(total))(as), slopes);
  const auto scanned = [](Array x) {
    return tl::sum(tl::map([](Array a) { return square_root(a); }, x));
  };
  expect_near(tl::grad(scanned)(as), slopes);
}

TEST(CustomRoot, HasNoDerivativeWithRespectToTheGuessOrTheSolver) {
  const auto f = [](Array a, Array guess, Array weight) {
    const auto solver = [&](const auto& g, Array x0) { return kNewton(g, x0 + 0.0 * weight); };
    return tl::custom_root([&](Array x) { return x * x - a; }, guess, solver, kDivide);
  };
  const auto [da, dguess, dweight] = tl::grad<0, 1, 2>(f)(2.0, 1.5, 3.0);
  EXPECT_NEAR(value(da), 0.5 / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(value(dguess), 0);
  EXPECT_EQ(value(dweight), 0);
  EXPECT_EQ(value(tl::grad<1>(f)(2.0, 1.5, 3.0)), 0);
}

TEST(CustomRoot, TakesTreesAndGivesAuxiliaryResults) {
  using Pair = std::pair<Array, Array>;
  // u + v = s, u - v = d
  const auto f = [](Array s, Array d) {
    const auto residual = [&](Pair x) {
      return Pair{x.first + x.second - s, x.first - x.second - d};
    };
    const auto exact = [](const auto& g, Pair x0) {
      const Pair r = g(x0);
      return std::pair{
          Pair{x0.first - 0.5 * (r.first + r.second), x0.second - 0.5 * (r.first - r.second)},
          Array(17)};
    };
    const auto tangents = [](const auto&, Pair y) {
      return Pair{0.5 * (y.first + y.second), 0.5 * (y.first - y.second)};
    };
    return tl::custom_root(residual, Pair{0.0, 0.0}, exact, tangents);
  };
  const auto [x, aux] = tl::jit(f)(5.0, 1.0);
  EXPECT_EQ(value(x.first), 3);
  EXPECT_EQ(value(x.second), 2);
  EXPECT_EQ(aux.item<int>(), 17);
  const auto product = [&](Array s, Array d) {
    const Pair y = f(s, d).first;
    return y.first * y.second;
  };
  const auto [ds, dd] = tl::grad<0, 1>(product)(5.0, 1.0);  // (s^2 - d^2) / 4
  EXPECT_NEAR(value(ds), 2.5, 1e-12);
  EXPECT_NEAR(value(dd), -0.5, 1e-12);
}

TEST(CustomRoot, PrintsParsesAndTypechecks) {
  expect_sound(tl::make_jaxpr(square_root)(2.0).jaxpr);
  expect_sound(tl::make_jaxpr(tl::grad(square_root))(2.0).jaxpr);
  expect_sound(tl::make_jaxpr(tl::vmap(tl::jit(square_root)))(Array({2.0, 3.0})).jaxpr);
}

TEST(CustomRoot, SaysWhatIsWrong) {
  const auto shapes = [](Array a) {
    return tl::custom_root([&](Array x) { return tl::ones({2}, tl::f64) * x * a; }, 1.0, kNewton,
                           kDivide);
  };
  const auto* const kUnlike =
      "f() output shapes and dtypes must match initial_guess: custom_root got";
  EXPECT_ERROR(TypeError, tl::jit(shapes)(1.0), kUnlike);
  EXPECT_ERROR(TypeError, shapes(1.0), kUnlike);
  const auto integers = [](Array a) {
    return tl::custom_root([&](Array x) { return x + 0 * a; }, a,
                           [](const auto&, Array x) { return x; },
                           [](const auto&, Array y) { return y; });
  };
  EXPECT_ERROR(TypeError, tl::jit(integers)(Array({1, 2})), "the unknowns must be floats");
}

}  // namespace
}  // namespace telamon_test
