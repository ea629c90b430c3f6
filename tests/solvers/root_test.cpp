// Roots and fixed points: values, convergence, derivatives of the implicit function.
#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

Array square_root(const Array& a) {
  return tl::root::newton([&](Array x) { return x * x - a; }, 1.0).x;
}

TEST(Newton, FindsRootsToFullPrecision) {
  for (const double a : {0.25, 2.0, 9.0, 1e6}) {
    EXPECT_NEAR(value(square_root(a)), std::sqrt(a), 4e-16 * std::sqrt(a));
    EXPECT_NEAR(value(tl::jit(square_root)(a)), std::sqrt(a), 4e-16 * std::sqrt(a));
  }
  const Array single = square_root(Array(2.0f) + tl::zeros({}, tl::f32));
  EXPECT_EQ(single.dtype(), tl::f32);
  EXPECT_NEAR(value(single), std::sqrt(2.0), 2e-7);
}

Array root_of_itself(const Array& x) { return tl::root::newton(root_of_itself, x).x; }

TEST(Newton, OfItselfIsAnErrorAndNotTheEndOfTheStack) {
  EXPECT_ERROR(RecursionError, root_of_itself(1.0), "a function that calls itself");
  EXPECT_ERROR(RecursionError, tl::jit(root_of_itself)(1.0), "a function that calls itself");
}

TEST(Newton, TellsWhetherItConverged) {
  const auto f = [](Array x) { return x * x + 1.0; };
  EXPECT_EQ(tl::root::newton(f, 1.3).info.item<int>(), 50);
  EXPECT_EQ(tl::root::newton(f, 1.3, {.maxiter = 7}).info.item<int>(), 7);
  EXPECT_EQ(tl::root::newton([](Array x) { return x * x - 2.0; }, 1.0).info.item<int>(), 0);
}

// bicgstab breaks down at once where f' turns every vector by a right angle: a step of 0, and no root.
TEST(Newton, TakesABreakdownForNoArrival) {
  const auto turned = [](Array x) {
    return tl::stack({-x(1), x(0), -x(3), x(2)}) - Array({1.0, 2.0, 3.0, 4.0});
  };
  const Array start = tl::zeros({4}, tl::f64);
  EXPECT_NE(tl::root::newton(turned, start).info.item<int>(), 0);
  const auto given = [](const auto& g, Array y) { return tl::bicgstab(g, y).x; };
  EXPECT_NE(tl::root::newton(turned, start, {.linear_solve = given}).info.item<int>(), 0);
}

// The derivative's system breaks down on its way: what it has by then, (-1, 0.5, -0.5), is no derivative.
TEST(Newton, GivesNoDerivativeWhoseSystemBreaksDown) {
  const Array a({{-1.0, 0.0, 0.0}, {-1.0, 0.0, 2.0}, {1.0, 1.0, 1.0}});
  const auto solve = [&](Array theta) {
    const Array rhs = theta * Array({1.0, 0.0, 0.0});
    return tl::root::newton([&](Array x) { return tl::matmul(a, x) - rhs; },
                            tl::zeros({3}, tl::f64))
        .x;
  };
  const auto tangent = [&](Array theta) {
    return tl::jvp(solve, std::tuple{theta}, std::tuple{tl::ones_like(theta)}).second;
  };
  const auto isnan = [](const Array& y) { return bool(tl::all(tl::isnan(y))); };
  const Array one = tl::ones({}, tl::f64);
  EXPECT_TRUE(isnan(tangent(one)));
  EXPECT_TRUE(isnan(tl::jit(tangent)(one)));
  EXPECT_TRUE(isnan(tl::jit(tl::vmap(tangent))(tl::ones({2}, tl::f64))));
  // The transposed system of a cotangent (0, 0, 1) comes to an end.
  const auto last = [&](Array theta) { return solve(theta)(2); };
  EXPECT_NEAR(value(tl::grad(last)(one)), -0.5, 1e-14);
}

TEST(Newton, HasTheDerivativesOfTheImplicitFunction) {
  EXPECT_NEAR(value(tl::grad(square_root)(2.0)), 0.5 / std::sqrt(2.0), 1e-14);
  tl::check_grads(square_root, std::tuple{Array(2.0)}, {.order = 2});
  tl::check_grads(tl::jit(square_root), std::tuple{Array(2.0)}, {.order = 2});
  const Array as({1.0, 4.0, 9.0});
  expect_near(tl::vmap(square_root)(as), {1, 2, 3});
  expect_near(tl::jit(tl::vmap(tl::grad(square_root)))(as), {0.5, 0.25, 1.0 / 6});
}

struct Polar {
  Array r, angle;
};

TEST(Newton, SolvesTwoEquationsInAnyTree) {
  // (x, y) in polar coordinates, the hard way: its derivative is a rotation.
  const auto polar = [](Array x, Array y) {
    return tl::root::newton(
               [&](Polar p) {
                 return Polar{p.r * tl::cos(p.angle) - x, p.r * tl::sin(p.angle) - y};
               },
               Polar{1.0, 1.0})
        .x;
  };
  const Polar p = tl::jit(polar)(3.0, 4.0);
  EXPECT_NEAR(value(p.r), 5, 1e-14);
  EXPECT_NEAR(value(p.angle), std::atan2(4, 3), 1e-14);
  const auto angle = [&](Array x, Array y) { return polar(x, y).angle; };
  const auto [dx, dy] = tl::grad<0, 1>(angle)(3.0, 4.0);
  EXPECT_NEAR(value(dx), -4.0 / 25, 1e-14);
  EXPECT_NEAR(value(dy), 3.0 / 25, 1e-14);
}

// -u'' + u^3 = c on a grid.
Array equation(const Array& u, const Array& c) {
  const Array left = tl::pad(u(tl::slice(0, -1)), tl::PadWidths(1, 0));
  const Array right = tl::pad(u(tl::slice(1, tl::none)), tl::PadWidths(0, 1));
  return 2.0 * u - left - right + u * u * u - c;
}

TEST(Newton, SolvesManyEquations) {
  const auto solve = [](Array c) {
    return tl::root::newton([&](Array u) { return equation(u, c); }, tl::ones_like(c));
  };
  const Array c = 1.0 + 0.5 * rows({8});
  const auto [u, info] = tl::jit(solve)(c);
  EXPECT_EQ(info.item<int>(), 0);
  expect_equal(equation(u, c), tl::zeros({8}, tl::f64), 1e-12);
  const auto total = [&](Array x) { return tl::sum(tl::square(solve(x).x)); };
  tl::check_grads(total, std::tuple{c}, {.order = 1});
  expect_equal(tl::jit(tl::grad(total))(c), tl::grad(total)(c), 1e-11);
}

TEST(Newton, TakesALinearSolver) {
  const auto solve = [](Array c) {
    return tl::root::newton([&](Array u) { return equation(u, c); }, tl::ones_like(c),
                            {.linear_solve =
                                 [](const auto& g, Array y) {
                                   return tl::cg(g, y, {.tol = 1e-13}).x;  // symmetric here
                                 }})
        .x;
  };
  const Array c = 1.0 + 0.5 * rows({8});
  expect_equal(equation(solve(c), c), tl::zeros({8}, tl::f64), 1e-12);
  tl::check_grads([&](Array x) { return tl::sum(solve(x)); }, std::tuple{c}, {.order = 1});
}

Array cosine_root(const Array& a) {
  return tl::root::bisection([&](Array x) { return tl::cos(x) - a * x; }, 0.0, 2.0).x;
}

TEST(Newton, StaysAtARootWhereTheSlopeIsZero) {
  const auto [x, info] = tl::root::newton([](Array z) { return z * z; }, 0.0);
  EXPECT_EQ(value(x), 0.0);
  EXPECT_EQ(info.item<int>(), 0);
}

TEST(Newton, RefusesAFunctionOfAnotherType) {
  const auto twice = [](Array x) { return tl::stack({x, x}); };
  const Array one = Array({1.0})(0);
  EXPECT_ERROR(ValueError, tl::root::newton(twice, one),
               "newton: f must give the shapes and dtypes of x0, but gives f64[2] where x0 holds "
               "f64[]");
  EXPECT_ERROR(ValueError, tl::root::fixed_point(twice, one), "fixed_point: f must give the");
  EXPECT_ERROR(ValueError, tl::root::bisection(twice, one, 2.0),
               "bisection: f must give the shapes and dtypes of the bracket, but gives f64[2]");
}

TEST(Newton, RefusesASolverOfAnotherType) {
  const auto first = [](const auto&, const Array& y) { return y(0); };
  EXPECT_ERROR(
      ValueError,
      tl::root::newton([](Array x) { return x; }, Array({1.0, 2.0}), {.linear_solve = first}),
      "newton: linear_solve must give the shapes and dtypes of x0, but gives f64[] where "
      "x0 holds f64[2]");
}

TEST(Bisection, SaysWhatIsWrongWithItsBracket) {
  const auto same = [](Array x) { return x; };
  EXPECT_ERROR(TypeError, tl::root::bisection(same, 1, 2),
               "bisection: the unknowns must be floats, but the bracket holds i32[]");
  EXPECT_ERROR(TypeError, tl::root::bisection(same, Array({1.0, 2.0, 3.0}), Array({1.0, 2.0})),
               "bisection: broadcast_arrays got incompatible shapes");
}

TEST(Newton, RefusesLimitsThatAreNone) {
  const auto f = [](Array x) { return x - 2.0; };
  EXPECT_EQ(tl::root::newton(f, 1.0, {.maxiter = 0}).info.item<int>(), 1);  // not converged
  EXPECT_EQ(tl::root::bisection(f, 1.0, 4.0, {.maxiter = 0}).info.item<int>(), 1);
  EXPECT_ERROR(ValueError, tl::root::newton(f, 1.0, {.maxiter = -3}),
               "newton: maxiter must not be negative, got -3");
  EXPECT_ERROR(ValueError, tl::root::bisection(f, 1.0, 3.0, {.tol = -1}),
               "bisection: tol must not be negative, got -1");
  EXPECT_ERROR(ValueError, tl::root::fixed_point(f, 1.0, {.tol = NAN}),
               "fixed_point: tol must not be negative, got nan");
}

TEST(Bisection, FindsARootBetweenTheLargestNumbers) {
  const auto [x, info] =
      tl::root::bisection([](Array z) { return z - 3.0; }, -1e308, 1.5e308, {.maxiter = 2000});
  EXPECT_NEAR(value(x), 3, 1e-14);
  EXPECT_EQ(info.item<int>(), 0);
}

TEST(Bisection, FindsARootAtAnEnd) {
  for (const double root : {0.0, 1.0}) {
    const auto [x, info] = tl::root::bisection([root](Array z) { return z - root; }, 0.0, 1.0);
    EXPECT_EQ(value(x), root);
    EXPECT_EQ(info.item<int>(), 0);
  }
}

TEST(Bisection, FindsTheRootInTheBracket) {
  EXPECT_NEAR(value(cosine_root(1.0)), 0.7390851332151607, 1e-15);
  EXPECT_NEAR(value(tl::jit(cosine_root)(1.0)), 0.7390851332151607, 1e-15);
  const auto falling = [](Array x) { return 2.0 - x; };
  EXPECT_NEAR(value(tl::root::bisection(falling, -10.0, 10.0).x), 2, 1e-14);
  EXPECT_NEAR(value(tl::root::bisection(falling, 2.0, 3.0).x), 2, 1e-14);  // an end is the root
  EXPECT_EQ(tl::root::bisection(falling, 0.0, 3.0).info.item<int>(), 0);
  EXPECT_EQ(tl::root::bisection(falling, 0.0, 3.0, {.maxiter = 4}).info.item<int>(), 4);
}

TEST(Bisection, TellsThatTheSignDoesNotChange) {
  const auto [x, info] = tl::root::bisection([](Array y) { return y * y + 1.0; }, 0.0, 1.0);
  EXPECT_TRUE(std::isnan(value(x)));
  EXPECT_EQ(info.item<int>(), -1);
}

// Neither the middle of infinite ends nor the sign of NaN is known.
TEST(Bisection, TakesInfinitePlacesAndNanForNoRoot) {
  const auto itself = [](Array x) { return x; };
  const auto five_less = [](Array x) { return x - 5.0; };
  const auto gap = [](Array x) {
    return tl::where(x < 0.2, -1.0, tl::where(x < 0.8, tl::nan, 1.0));
  };
  const auto none = [](Array x) { return x * tl::nan; };
  using Map = std::function<Array(Array)>;
  const auto expect = [](const Map& f, const Array& low, const Array& high, int info) {
    const auto solve = [&](Array a, Array b) {
      const auto s = tl::root::bisection(f, a, b);
      return std::pair{s.x, s.info};
    };
    const auto mapped = [&](Array a, Array b) {
      const auto [x, infos] = tl::vmap(solve)(tl::expand_dims(a, 0), tl::expand_dims(b, 0));
      return std::pair{x(0), infos(0)};
    };
    for (const auto& [x, got] :
         {solve(low, high), tl::jit(solve)(low, high), tl::jit(mapped)(low, high)}) {
      EXPECT_TRUE(std::isnan(value(x))) << x.to_string();
      EXPECT_EQ(got.item<int>(), info);
    }
  };
  expect(itself, -tl::inf, tl::inf, -1);
  expect(five_less, 0.0, tl::inf, -1);
  expect(five_less, -tl::inf, 10.0, -1);
  expect(five_less, tl::inf, tl::inf, -1);
  expect(five_less, tl::nan, 10.0, -1);
  expect(none, 0.0, 1.0, -1);
  expect(gap, 0.0, 1.0, 1);   // after one step, which met NaN
  expect(gap, -3.0, 1.0, 3);  // -1, then 0, then 0.5
  // Other elements keep their roots.
  const auto [x, info] =
      tl::root::bisection(five_less, Array({0.0, 0.0, -1.0}), Array({10.0, tl::inf, 8.0}));
  EXPECT_NEAR(value(x(0)), 5, 1e-14);
  EXPECT_TRUE(std::isnan(value(x(1))));
  EXPECT_NEAR(value(x(2)), 5, 1e-14);
  EXPECT_EQ(info.item<int>(), -1);
}

TEST(Bisection, HasTheDerivativesOfTheImplicitFunction) {
  // (-sin x - a) dx = x da
  const double x = value(cosine_root(1.0));
  EXPECT_NEAR(value(tl::grad(cosine_root)(1.0)), -x / (std::sin(x) + 1), 1e-14);
  tl::check_grads(tl::jit(cosine_root), std::tuple{Array(1.0)}, {.order = 2});
}

TEST(Bisection, TakesOneProblemPerElement) {
  const Array as({1.0, 8.0, 27.0});
  const auto roots = [](Array a) {
    return tl::root::bisection([&](Array x) { return x * x * x - a; }, 0.0, tl::maximum(a, 1.0)).x;
  };
  expect_near(roots(as), {1, 2, 3}, 1e-14);
  expect_near(tl::jit(tl::vmap(tl::grad(roots)))(as), {1.0 / 3, 1.0 / 12, 1.0 / 27}, 1e-14);
  expect_near(tl::grad([&](Array a) { return tl::sum(roots(a)); })(as),
              {1.0 / 3, 1.0 / 12, 1.0 / 27}, 1e-14);
}

// z = tanh(w z + x)
Array settled(const Array& w, const Array& x) {
  return tl::root::fixed_point([&](Array z) { return tl::tanh(tl::matmul(w, z) + x); },
                               tl::zeros_like(x))
      .x;
}
const Array kWeights({{0.3, -0.2, 0.1}, {0.4, 0.1, 0.0}, {-0.1, 0.2, 0.5}});

TEST(FixedPoint, SettlesAndIsDifferentiatedThere) {
  const Array x({0.5, -1.0, 0.25});
  const Array z = settled(kWeights, x);
  expect_equal(tl::tanh(tl::matmul(kWeights, z) + x), z, 1e-14);
  expect_equal(tl::jit(settled)(kWeights, x), z, 1e-14);
  const auto f = [](Array w, Array u) { return tl::sum(tl::square(settled(w, u))); };
  tl::check_grads(f, std::tuple{kWeights, x}, {.order = 2});
  tl::check_grads(tl::jit(f), std::tuple{kWeights, x}, {.order = 1});
}

TEST(FixedPoint, GivesTheGradientOfTheUnrolledIteration) {
  const Array x({0.5, -1.0, 0.25});
  const auto implicit = [&](Array w) { return tl::sum(settled(w, x)); };
  const auto unrolled = [&](Array w) {
    return tl::sum(tl::fori_loop(
        0, 60, [&](Array, Array z) { return tl::tanh(tl::matmul(w, z) + x); }, tl::zeros_like(x)));
  };
  expect_equal(tl::grad(implicit)(kWeights), tl::grad(unrolled)(kWeights), 1e-13);
  const Array xs = tl::stack({x, x + 1.0});
  const auto g = tl::grad<1>([](Array w, Array u) { return tl::sum(settled(w, u)); });
  const Array mapped = tl::jit(tl::vmap(g, {.in_axes = {tl::none, 0}}))(kWeights, xs);
  expect_equal(mapped(1), g(kWeights, xs(1)), 1e-13);
}

TEST(FixedPoint, TellsThatItDidNotSettle) {
  const auto f = [](Array x) { return 2.0 * x; };
  EXPECT_EQ(tl::root::fixed_point(f, 1.0, {.maxiter = 20}).info.item<int>(), 20);
}

}  // namespace
}  // namespace telamon_test
