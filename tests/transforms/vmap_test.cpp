// vmap: axes, prefixes, errors, and what it composes to.
#include <gmock/gmock.h>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

TEST(Vmap, AddsAnUnmappedConstant) {  // a defect of the tutorial: the result gained an axis
  const Array y = tl::vmap([](Array x) { return 1.0 + x; })(tl::Array({0.0, 1.0, 2.0}));
  EXPECT_EQ(y.shape(), (tl::Shape{3}));
  expect_near(y, {1, 2, 3});
}

TEST(Vmap, GivesTheValuesOfTheTutorial) {
  const Array y = tl::vmap(tl::jit(f))(tl::arange(3.0));
  EXPECT_NEAR(values(y)[1], -0.68294197, 1e-6);
  EXPECT_NEAR(values(y)[2], 0.18140515, 1e-6);
}

TEST(Vmap, MapsAnyAxisAndMovesResults) {
  const Array x = tl::reshape(tl::arange(60), {3, 4, 5});
  for (int axis = -3; axis < 3; ++axis) {
    const Array sums = tl::vmap([](Array y) { return tl::sum(y); }, {.in_axes = axis})(x);
    tl::Shape others;
    for (int i = 0; i < 3; ++i) {
      if (i != (axis + 3) % 3) others.push_back(i);
    }
    expect_near(sums, values(tl::lax::reduce_sum(x, others)));
  }
  const auto twice = [](Array y) { return y * 2; };
  for (int in = -3; in < 3; ++in) {
    for (int out = -3; out < 3; ++out) {
      const Array moved = tl::vmap(twice, {.in_axes = in, .out_axes = out})(x);
      const Array want = tl::moveaxis(x * 2, (in + 3) % 3, (out + 3) % 3);
      EXPECT_EQ(moved.shape(), want.shape());
      expect_near(moved, values(want));
    }
  }
  for (const int axis : {-4, 3}) {
    const std::string number = std::to_string(axis);
    EXPECT_ERROR(ValueError, tl::vmap(twice, {.in_axes = axis})(x), number);
    EXPECT_ERROR(ValueError, tl::vmap(twice, {.out_axes = axis})(x), number);
  }
}

TEST(Vmap, TakesNoneAndPrefixTrees) {
  struct Layer {
    Array w, b;
  };
  const auto apply = [](const Layer& l, Array x) { return l.w * x + l.b; };
  const Layer layer{Array({1.0, 2.0}), Array(10.0)};
  expect_near(tl::vmap(apply, {.in_axes = {{0, tl::none}, tl::none}})(layer, 3.0), {13, 16});
  expect_near(
      tl::vmap(apply, {.in_axes = {tl::none, 0}})(Layer{Array(2.0), Array(1.0)}, Array({1.0, 2.0})),
      {3, 5});
}

TEST(Vmap, BroadcastsResultsThatDoNotDependOnTheArgument) {
  const Array y = tl::vmap([](Array) { return Array(7.0); })(Array({1.0, 2.0}));
  expect_near(y, {7, 7});
  const Array once =
      tl::vmap([](Array) { return Array(7.0); }, {.out_axes = tl::none})(Array({1.0, 2.0}));
  EXPECT_EQ(once.ndim(), 0);
}

TEST(Vmap, OfComparisonKeepsBatchAxis) {
  const Array y = tl::vmap([](Array x) { return x > 1.0; })(Array({0.0, 1.0, 2.0}));
  EXPECT_EQ(y.to_vector<bool>(), (std::vector<bool>{false, false, true}));
}

TEST(Vmap, OfVdotIsOneMatrixProduct) {
  const auto vdot = [](Array a, Array b) { return tl::dot(a, b); };
  const auto mat_vec = tl::vmap(vdot, {.in_axes = {0, tl::none}});
  const auto mat_mat = tl::vmap(mat_vec, {.in_axes = {tl::none, 1}, .out_axes = 1});
  const Array a({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}), b({{1.0, 0.0}, {2.0, 1.0}, {0.0, 3.0}});
  expect_near(mat_mat(a, b), values(tl::matmul(a, b)));
  const auto program = tl::make_jaxpr(mat_mat)(a, b);
  EXPECT_EQ(program.jaxpr.eqns().size(), 1u) << program;
}

TEST(Vmap, OfGradGivesPerExampleGradients) {
  struct Net {
    Array w1, w2;
  };
  const auto loss = [](const Net& n, Array x) {
    return tl::sum(tl::square(tl::matmul(tl::tanh(tl::matmul(x, n.w1)), n.w2)));
  };
  const Net net{tl::reshape(tl::linspace(-1, 1, 12), {3, 4}),
                tl::reshape(tl::linspace(0, 1, 8), {4, 2})};
  const Array xs = tl::reshape(tl::linspace(-2, 2, 15), {5, 3});
  const Net all = tl::vmap(tl::grad(loss), {.in_axes = {tl::none, 0}})(net, xs);
  EXPECT_EQ(all.w1.shape(), (tl::Shape{5, 3, 4}));
  for (int i = 0; i < 5; ++i) {
    const Net one = tl::grad(loss)(net, xs(i));
    expect_near(all.w1(i), values(one.w1), 1e-5);
    expect_near(all.w2(i), values(one.w2), 1e-5);
  }
}

TEST(Vmap, NestsInsideOut) {
  const auto outer =
      tl::vmap(tl::vmap([](Array x, Array y) { return x * y; }, {.in_axes = {tl::none, 0}}),
               {.in_axes = {0, tl::none}});
  const Array table = outer(Array({1.0, 2.0}), Array({3.0, 4.0, 5.0}));
  expect_near(table, {3, 4, 5, 6, 8, 10});
}

TEST(Vmap, ExplainsInconsistentSizes) {
  const auto g = [](Array x, Array y) { return x + y; };
  const int line = __LINE__ + 1;
  const auto misfit = [&] { tl::vmap(g)(tl::ones({3}), tl::ones({4, 2})); };
  const std::string text = error_of<tl::ValueError>(misfit);
  EXPECT_THAT(text, ::testing::HasSubstr("inconsistent sizes for array axes to be mapped"));
  EXPECT_THAT(text, ::testing::HasSubstr("axis 0 of argument args[0] of type f32[3] has size 3"));
  EXPECT_THAT(text, ::testing::HasSubstr("axis 0 of argument args[1] of type f32[4,2] has size 4"));
  EXPECT_THAT(text, tells(line, "vmap"));
}

TEST(Vmap, ExplainsOtherMisuse) {
  const auto g = [](Array x) { return x; };
  EXPECT_ERROR(ValueError, tl::vmap(g)(1.0), "rank 0");
  EXPECT_ERROR(ValueError, tl::vmap(g, {.in_axes = -4})(tl::ones({3, 4, 5})), "-4");
  EXPECT_ERROR(ValueError, tl::vmap(g, {.in_axes = tl::none})(tl::ones({3})),
               "at least one non-none value in in_axes");
  EXPECT_ERROR(ValueError, tl::vmap(g, {.out_axes = tl::none})(tl::ones({3})), "out_axes is none");
  EXPECT_ERROR(ValueError, tl::vmap(g, {.out_axes = 3})(tl::ones({3})), "out of range");
  EXPECT_ERROR(ValueError, tl::vmap(g, {.in_axes = {0, 0}})(tl::ones({3})), "in_axes");
  const int line = __LINE__ + 1;
  const auto mapped = tl::vmap(g, {.out_axes = tl::none});
  EXPECT_THAT(error_of([&] { mapped(1.0); }), tells(line, "vmap"));
  EXPECT_THAT(error_of([&] { mapped(tl::ones({3})); }), tells(line, "vmap"));
  EXPECT_THAT(error_of([&] { tl::jit(mapped)(1.0); }), tells(line, "vmap, jit[(]f[)]"));
  EXPECT_THAT(error_of([&] { tl::vmap(mapped)(tl::ones({3})); }), tells(line, "vmap, vmap"));
}

TEST(Vmap, RunsWithAxisSizeAlone) {
  expect_near(tl::vmap([](Array x) { return x * 2.0; }, {.in_axes = tl::none, .axis_size = 3})(1.5),
              {3, 3, 3});
}

TEST(Vmap, ForbidsBranchingOnABatchedValue) {
  const auto g = [](Array x) { return x > 0.0 ? x : -x; };
  EXPECT_ERROR(ConcretizationError, tl::vmap(g)(Array({1.0, -1.0})), "bool()");
}

TEST(Vmap, RefusesSizesAndAxesThatNoArrayHas) {
  const auto g = [](Array x) { return x; };
  EXPECT_ERROR(ValueError, tl::vmap(g, {.in_axes = tl::none, .axis_size = -3})(1.0),
               "vmap: axis_size must not be negative, got -3");
  EXPECT_ERROR(ValueError, tl::vmap(g)(1.0),
               "along axis 0, but the array has rank 0: a scalar has no axes. Use none");
  EXPECT_ERROR(IndexError, tl::vmap(g, {.in_axes = std::int64_t{1} << 32})(tl::ones({3})),
               "vmap: axis 4294967296 is out of bounds");
  EXPECT_ERROR(Error, tl::vmap(g, {.in_axes = tl::none, .axis_size = std::int64_t{1} << 62})(1.0),
               "more than 2^63 - 1 bytes");
}

}  // namespace
}  // namespace telamon_test
