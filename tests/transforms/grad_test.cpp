// grad, value_and_grad, vjp, linear_transpose and Jacobians.
#include <gmock/gmock.h>
#include <array>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

struct Linear {
  Array w, b;
};

Array loss(const Linear& m, const Array& x) {
  return tl::sum(tl::square(tl::matmul(x, m.w) + m.b));
}

TEST(Grad, GivesTheValuesOfTheTutorial) {
  EXPECT_DOUBLE_EQ(value(tl::grad(f)(3.0)), 2.979984993200891);
  const auto [y, pull] = tl::vjp(tl::sin, 3.0);
  EXPECT_DOUBLE_EQ(value(std::get<0>(pull(1.0))), -0.9899924966004454);
  const auto g = [](Array x) { return tl::cos(x) * 2.0; };
  const auto nested = [&](Array x) {
    return tl::jit([&](Array z) { return tl::jit(g)(z * 2.0); })(x);
  };
  EXPECT_DOUBLE_EQ(value(tl::grad(nested)(3.0)), 1.1176619927957037);
}

TEST(Grad, NestsToThirdOrder) {
  const auto cube = [](Array x) { return x * x * x; };
  EXPECT_DOUBLE_EQ(value(tl::grad(cube)(2.0)), 12.0);
  EXPECT_DOUBLE_EQ(value(tl::grad(tl::grad(cube))(2.0)), 12.0);
  EXPECT_DOUBLE_EQ(value(tl::grad(tl::grad(tl::grad(cube)))(2.0)), 6.0);
}

TEST(Grad, HasTheTypeOfTheArgument) {
  const Linear m{Array({{1.0}, {2.0}}), Array({0.5})};
  const Array x({{1.0, 1.0}, {0.0, 2.0}});
  const Linear g = tl::grad(loss)(m, x);
  expect_near(g.w, {7.0, 7.0 + 18.0});  // 2 x' (x w + b) with residuals 3.5 and 4.5
  expect_near(g.b, {16.0});
  const auto [value_, both] = tl::value_and_grad<0, 1>(loss)(m, x);
  EXPECT_DOUBLE_EQ(value(value_), 3.5 * 3.5 + 4.5 * 4.5);
  expect_near(std::get<0>(both).b, {16.0});
  EXPECT_EQ(std::get<1>(both).shape(), x.shape());
}

TEST(Grad, ChoosesArgumentsByNumber) {
  const auto g = [](Array x, Array y, Array z) { return x + 2.0 * y + 3.0 * z; };
  EXPECT_EQ(value(tl::grad<0>(g)(1.0, 1.0, 1.0)), 1.0);
  EXPECT_EQ(value(tl::grad<1>(g)(1.0, 1.0, 1.0)), 2.0);
  EXPECT_EQ(value(tl::grad<-1>(g)(1.0, 1.0, 1.0)), 3.0);
  const auto [dz, dx] = tl::grad<2, 0>(g)(1.0, 1.0, 1.0);
  EXPECT_EQ(value(dz), 3.0);
  EXPECT_EQ(value(dx), 1.0);
}

TEST(Grad, PassesAuxThrough) {
  const auto g = [](Array x) { return std::pair{x * x, std::vector<Array>{x + 1.0, tl::sin(x)}}; };
  const auto [dx, aux] = tl::grad_aux(g)(3.0);
  EXPECT_EQ(value(dx), 6.0);
  EXPECT_EQ(value(aux[0]), 4.0);
  EXPECT_FALSE(aux[1].is_tracer());
  const auto [pair, dx2] = tl::value_and_grad_aux(g)(3.0);
  EXPECT_EQ(value(pair.first), 9.0);
  EXPECT_EQ(value(pair.second[0]), 4.0);
  EXPECT_EQ(value(dx2), 6.0);
  const auto of_array = [](Array x) { return std::array<Array, 2>{x * x, x + 1.0}; };
  EXPECT_EQ(value(tl::grad_aux(of_array)(3.0).second), 4.0);
}

TEST(Grad, TakesStaticArguments) {
  const auto power = [](Array x, int n) {
    Array y = x;
    for (int i = 1; i < n; ++i) y = y * x;
    return y;
  };
  EXPECT_EQ(value(tl::grad(power)(2.0, 4)), 32.0);
}

TEST(Grad, RefusesResultsThatAreNoRealScalar) {
  const auto g = [](Array x) { return x * 2.0; };
  EXPECT_ERROR(TypeError, tl::grad(g)(Array({1.0, 2.0, 3.0})),
               "Gradient only defined for scalar-output functions. Output had shape: (3,).");
  EXPECT_ERROR(TypeError, tl::grad(g)(Array({1.0})), "output.reshape");
  EXPECT_ERROR(TypeError, tl::grad(g)(Array({1.0})), "output(0)");
  // output(0) of (1, 1) is no scalar either.
  const std::string matrix =
      telamon_test::error_of<tl::TypeError>([&] { (void)tl::grad(g)(tl::ones({1, 1})); });
  EXPECT_THAT(matrix, ::testing::HasSubstr("had shape: (1, 1). To get a scalar from it, return "
                                           "`output.reshape({})`."));
  EXPECT_THAT(matrix, ::testing::Not(::testing::HasSubstr("output(0)")));
  EXPECT_ERROR(TypeError, tl::grad([](Array x) { return tl::argmax(x); })(Array({1.0, 2.0})),
               "real-valued outputs");
}

TEST(Grad, SaysWhereItWasAskedForAndUnderWhat) {
  const auto g = [](Array x) { return x * 2.0; };
  const Array x({1.0, 2.0});
  const int line = __LINE__ + 1;
  const auto gradient = tl::grad(g);
  EXPECT_THAT(error_of([&] { gradient(x); }), tells(line, "grad"));
  EXPECT_THAT(error_of([&] { gradient(Array({1, 2})); }), tells(line, "grad")) << "integers";
  EXPECT_THAT(error_of([&] { gradient(Array()); }), tells(line, "grad")) << "an empty handle";
  EXPECT_THAT(error_of([&] { tl::jit(gradient)(x); }), tells(line, "grad, jit[(]f[)]"));
  EXPECT_THAT(error_of([&] { tl::vmap(gradient)(tl::ones({3, 2})); }), tells(line, "grad, vmap"));
  const auto pair = [](Array z) { return std::pair{z, z}; };
  const auto no_scalar = [&] { tl::value_and_grad_aux(pair)(x); };
  EXPECT_THAT(error_of(no_scalar), tells(__LINE__ - 1, "value_and_grad"));
  const auto integers = [&] { tl::jacrev(g)(Array({1, 2})); };
  EXPECT_THAT(error_of(integers), tells(__LINE__ - 1, "jacrev"));
}

TEST(Grad, LeavesTheInnermostLineToErrorsOfTheFunction) {
  const int line = __LINE__ + 1;
  const auto adds = [](Array x) { return x + tl::ones({3}); };
  EXPECT_THAT(error_of([&] { tl::grad(adds)(tl::ones({4})); }), tells(line, "grad"));
  const auto throws = [](Array) -> Array { throw tl::ValueError("no"); };
  const auto call = [&] { tl::grad(throws)(1.0); };
  EXPECT_THAT(error_of(call), tells(__LINE__ - 1, "grad"));
  EXPECT_EQ(error_of([] { throw tl::ValueError("nothing is under way"); }), "nothing is under way");
}

TEST(Grad, NamesTheIntegerLeafAndAllowsItOnRequest) {
  struct Model {
    Array w, steps;
  };
  const auto g = [](const Model& m) { return m.w * 2.0; };
  const Model m{Array(3.0), Array({1, 2})};
  EXPECT_ERROR(TypeError, tl::grad(g)(m), ".steps");
  const Model d = tl::grad(g, {.allow_int = true})(m);
  EXPECT_EQ(value(d.w), 2.0);
  EXPECT_EQ(d.steps.dtype(), tl::DType::float0);
}

TEST(Grad, SharesTiesAndBlocksStoppedGradients) {
  const auto relu2 = [](Array x) { return tl::sum(tl::square(tl::maximum(x, 0.0))); };
  const Array h = tl::hessian(relu2)(Array({-1.0, -0.5, 0.0, 0.5, 1.0}));
  const auto diagonal = values(h);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {  // at the tie a half of a half of 2, as JAX has it
      const double want = i != j ? 0.0 : i < 2 ? 0.0 : i == 2 ? 0.5 : 2.0;
      EXPECT_EQ(diagonal[5 * i + j], want) << i << ", " << j;
    }
  }
  EXPECT_EQ(value(tl::grad([](Array x) { return tl::lax::stop_gradient(x) * x; })(3.0)), 3.0);
  EXPECT_EQ(value(tl::grad(tl::relu)(0.0)), 0.0);
}

TEST(Grad, IsRightAtCorners) {
  EXPECT_EQ(value(tl::grad([](Array x) { return tl::power(x, 2.0); })(0.0)), 0.0);
  EXPECT_EQ(value(tl::grad([](Array x) { return tl::abs(x); })(0.0)), 0.0);
  EXPECT_FLOAT_EQ(static_cast<float>(value(tl::grad(tl::grad(tl::grad(tl::grad(
                      tl::grad(tl::grad([](Array x) { return 1.0 / x; }))))))(Array(4.0f)))),
                  0.0439453125f);
}

TEST(Grad, OfPowersIsRightWhereBaseOrExponentIsZero) {
  for (const int n : {0, 2, 3}) {  // whole exponents: 0 x^-1 is not formed
    const auto power = [n](Array x) { return tl::power(x, n); };
    EXPECT_EQ(value(tl::grad(power)(0.0)), 0.0) << n;
  }
  // The second derivatives of x^y at (4, 0).
  const auto power = [](Array x, Array y) { return tl::power(x, y); };
  const double x = 4.0, slope = 1 / x, curvature = std::log(x) * std::log(x);
  EXPECT_NEAR(value(tl::grad<0>(tl::grad<0>(power))(x, 0.0)), 0.0, 1e-15);
  EXPECT_NEAR(value(tl::grad<1>(tl::grad<0>(power))(x, 0.0)), slope, 1e-15);
  EXPECT_NEAR(value(tl::grad<0>(tl::grad<1>(power))(x, 0.0)), slope, 1e-15);
  EXPECT_NEAR(value(tl::grad<1>(tl::grad<1>(power))(x, 0.0)), curvature, 1e-14);
  const auto forward = [&](int i, int j) {
    const auto along = [](int k) {
      return std::tuple{Array(k == 0 ? 1.0 : 0.0), Array(k == 1 ? 1.0 : 0.0)};
    };
    const auto first = [&](Array u, Array v) {
      return tl::jvp(power, std::tuple{u, v}, along(i)).second;
    };
    return value(tl::jvp(first, std::tuple{Array(x), Array(0.0)}, along(j)).second);
  };
  EXPECT_NEAR(forward(0, 0), 0.0, 1e-15);
  EXPECT_NEAR(forward(0, 1), slope, 1e-15);
  EXPECT_NEAR(forward(1, 0), slope, 1e-15);
  EXPECT_NEAR(forward(1, 1), curvature, 1e-14);
}

TEST(Vjp, PullsBackTrees) {
  const Linear m{Array({{1.0}, {2.0}}), Array({0.5})};
  const Array x({{1.0, 1.0}, {0.0, 2.0}});
  const auto [y, pull] = tl::vjp(loss, m, x);
  const auto [dm, dx] = pull(Array(2.0));
  expect_near(dm.b, {32.0});
  EXPECT_EQ(dx.shape(), x.shape());
}

TEST(Vjp, RefusesACotangentOfAnotherType) {
  const Array a = tl::ones({2, 5}), b = tl::ones({5, 3});
  const auto [y, pull] = tl::vjp([](Array x, Array z) { return tl::matmul(x, z); }, a, b);
  EXPECT_ERROR(TypeError, (void)pull(tl::ones({2, 4})),
               "unexpected type (e.g. shape/dtype) for argument to VJP function");
  EXPECT_ERROR(TypeError, (void)pull(tl::ones({2, 4})), "expected f32[2,3]");
  const auto misfit = [&] { (void)pull(tl::ones({2, 4})); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "vjp"));
}

TEST(Vjp, PassesAuxThrough) {
  const auto g = [](Array x) { return std::pair{x * x, x + 1.0}; };
  const auto [pair, pull] = tl::vjp_aux(g, 3.0);
  EXPECT_EQ(value(pair.first), 9.0);
  EXPECT_EQ(value(pair.second), 4.0);
  EXPECT_EQ(value(std::get<0>(pull(Array(2.0)))), 12.0);
}

TEST(Vjp, RefusesACotangentOfAnotherStructure) {
  const auto g = [](Array x) { return Arrays{x, x * x}; };
  const auto [y, pull] = tl::vjp(g, 3.0);
  EXPECT_EQ(value(std::get<0>(pull(Arrays{Array(1.0), Array(2.0)}))), 13.0);
  EXPECT_ERROR(TypeError, (void)pull(Arrays{Array(1.0)}), "argument to VJP function");
  const auto misfit = [&] { (void)pull(Arrays{Array(1.0)}); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "vjp"));
}

TEST(Vjp, GivesAPullbackThatIsAFunctionLikeAnother) {
  const auto [y, pull] = tl::vjp([](Array x) { return x * x; }, 3.0);
  const auto rows = tl::vmap(pull)(Array({1.0, 2.0}));
  expect_near(std::get<0>(rows), {6, 12});
  EXPECT_EQ(value(std::get<0>(tl::jit(pull)(2.0))), 12.0);
}

TEST(LinearTranspose, TransposesAtExampleShapes) {
  const auto transpose = tl::linear_transpose([](Array x) { return 2.0 * x; }, Array({1.0, 1.0}));
  expect_near(std::get<0>(transpose(Array({3.0, 4.0}))), {6.0, 8.0});
  EXPECT_ERROR(TypeError, (void)transpose(Array({1.0f, 2.0f})), "cotangent type does not match");
  const auto misfit = [&] { (void)transpose(Array({1.0f, 2.0f})); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "linear_transpose"));
}

TEST(LinearTranspose, RefusesACotangentOfAnotherStructure) {
  const auto transpose =
      tl::linear_transpose([](Array x) { return Arrays{2.0 * x, 3.0 * x}; }, Array(1.0));
  EXPECT_EQ(value(std::get<0>(transpose(Arrays{Array(1.0), Array(2.0)}))), 8.0);
  EXPECT_ERROR(TypeError, (void)transpose(Arrays{Array(1.0)}),
               "cotangent type does not match: tree structures differ");
  const auto misfit = [&] { (void)transpose(Arrays{Array(1.0)}); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "linear_transpose"));
}

TEST(StopGradient, MakesConstantsOfArraysAndTrees) {
  EXPECT_DOUBLE_EQ(value(tl::grad([](Array x) { return x * tl::stop_gradient(x); })(3.0)), 3.0);
  const Linear m{tl::ones({2, 1}), tl::ones({1})};
  const Array x = tl::ones({3, 2});
  const auto frozen = [&](Linear p) { return loss(tl::stop_gradient(p), x) + tl::sum(p.b); };
  const Linear g = tl::grad(frozen)(m);
  EXPECT_EQ(g.w.to_vector<double>(), std::vector<double>({0, 0}));
  EXPECT_EQ(g.b.to_vector<double>(), std::vector<double>({1}));
}

TEST(LinearTranspose, IgnoresWhatTheResultDoesNotNeed) {
  const auto transpose = tl::linear_transpose(
      [](Array x) {
        (void)tl::sin(x);
        return -x;
      },
      Array(1.0));
  EXPECT_EQ(value(std::get<0>(transpose(Array(5.0)))), -5.0);
}

TEST(LinearTranspose, RefusesWhatIsNotLinear) {
  const auto square = tl::linear_transpose([](Array x) { return x * x; }, 1.0);
  EXPECT_ERROR(TypeError, square(1.0), "mul is not linear in these operands");
  const auto transpose = tl::linear_transpose([](Array x) { return tl::sin(x); }, 1.0);
  EXPECT_ERROR(NotImplementedError, (void)transpose(1.0),
               "Transpose rule (for reverse-mode differentiation) for 'sin' not implemented");
}

TEST(Jacobian, ForwardAndReverseAgree) {
  const auto g = [](Array x) { return tl::stack({x(0) * x(1), tl::sin(x(2)), x(0) + x(2)}); };
  const Array x({2.0, 3.0, 4.0});
  const std::vector<double> want = {3, 2, 0, 0, 0, std::cos(4.0), 1, 0, 1};
  expect_near(tl::jacfwd(g)(x), want);
  expect_near(tl::jacrev(g)(x), want);
  expect_near(tl::jacfwd(tl::sin)(Array({0.0, 1.0, 2.0})),
              {1, 0, 0, 0, std::cos(1.0), 0, 0, 0, std::cos(2.0)});
}

TEST(Jacobian, OfTreesHasARowPerResult) {
  const Linear m{Array({1.0, 2.0}), Array(3.0)};
  const auto g = [](const Linear& l) { return std::pair{l.w * l.b, l.b * l.b}; };
  const auto j = tl::jacrev(g)(m);
  ASSERT_EQ(j.rows.size(), 2u);
  expect_near(j.rows[0].w, {3, 0, 0, 3});
  expect_near(j.rows[0].b, {1, 2});
  expect_near(j.rows[1].b, {6});
}

TEST(Jacobian, OfATupleHasAnArrayPerElement) {
  using Pair = std::tuple<Array, Array>;
  const auto g = [](const Pair& p) { return std::get<0>(p) * std::get<1>(p); };
  const Pair x{Array({1.0, 2.0}), Array(3.0)};
  for (const Pair& j : {tl::jacrev(g)(x), tl::jacfwd(g)(x)}) {
    expect_near(std::get<0>(j), {3, 0, 0, 3});
    expect_near(std::get<1>(j), {1, 2});
  }
}

TEST(Hessian, ComposesInEveryOrder) {
  const auto g = [](Array x) { return tl::sum(tl::sin(x) * x * x); };
  const Array x({0.3, -0.7});
  const auto want = values(tl::hessian(g)(x));
  const Array forms[] = {tl::jacfwd(tl::jacfwd(g))(x),       tl::jacfwd(tl::jacrev(g))(x),
                         tl::jacrev(tl::jacfwd(g))(x),       tl::jacrev(tl::jacrev(g))(x),
                         tl::jacfwd(tl::grad(g))(x),         tl::jit(tl::jacfwd(tl::grad(g)))(x),
                         tl::jacrev(tl::jit(tl::grad(g)))(x)};
  for (const Array& h : forms) expect_near(h, want);
}

}  // namespace
}  // namespace telamon_test
