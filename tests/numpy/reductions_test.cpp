// Reductions, arg-reductions, running reductions.
#include <limits>

#include "numpy/expect.hpp"
#include "telamon/check.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Array& matrix() {
  static const Array x({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  return x;
}

// Axes between braces would be one axis and `keepdims`.
template <class Reduction>
concept TakesNumbersInBraces = requires(Reduction reduce, Array x) { reduce(x, {0, 1}); };
template <class Reduction>
concept TakesAnAxisAndABool = requires(Reduction reduce, Array x) { reduce(x, {0, true}); };
static_assert(!TakesNumbersInBraces<decltype(tl::sum)> && !TakesNumbersInBraces<decltype(tl::var)>);
static_assert(TakesAnAxisAndABool<decltype(tl::sum)>);

TEST(Reductions, TakeNoAxisOneAxisOrAList) {
  expect_array<double>(tl::sum(matrix()), {}, {21});
  expect_array<double>(tl::sum(matrix(), 0), {3}, {5, 7, 9});
  expect_array<double>(tl::sum(matrix(), -1), {2}, {6, 15});
  expect_array<double>(tl::sum(matrix(), {.axes = {0, 1}}), {}, {21});
  expect_array<double>(tl::sum(matrix(), {.axes = 1, .keepdims = true}), {2, 1}, {6, 15});
  expect_array<double>(tl::sum(matrix(), {.keepdims = true}), {1, 1}, {21});
  expect_array<double>(tl::sum(matrix(), {.axes = Shape{}}), {2, 3}, {1, 2, 3, 4, 5, 6});
}

TEST(Reductions, CountBoolsInTheDefaultInt) {
  expect_array<int>(tl::sum(Array({true, true, false})), {}, {2});
  EXPECT_EQ(type_of(tl::sum(tl::zeros({2}, tl::i8))), "i32[]");
  EXPECT_EQ(type_of(tl::sum(tl::zeros({2}, tl::u8))), "u32[]");
  EXPECT_EQ(type_of(tl::sum(tl::zeros({2}, tl::i64))), "i64[]");
}

TEST(Reductions, OfNothingAreTheirIdentities) {
  expect_array<float>(tl::sum(tl::zeros({0})), {}, {0});
  expect_array<float>(tl::prod(tl::zeros({0, 2}), 0), {2}, {1, 1});
  expect_array<bool>(tl::all(tl::zeros({0}, tl::boolean)), {}, {true});
  expect_array<bool>(tl::any(tl::zeros({0}, tl::boolean)), {}, {false});
  EXPECT_THAT(error_of<tl::ValueError>([] { return tl::max(tl::zeros({0})); }),
              HasSubstr("max of no elements"));
}

TEST(Reductions, OfEachKind) {
  expect_array<double>(tl::prod(matrix(), 0), {3}, {4, 10, 18});
  expect_array<double>(tl::mean(matrix(), 1), {2}, {2, 5});
  expect_array<float>(tl::mean(Array({1, 2})), {}, {1.5f});
  expect_array<double>(tl::max(matrix(), 0), {3}, {4, 5, 6});
  expect_array<double>(tl::min(matrix()), {}, {1});
  expect_array<bool>(tl::all(matrix() > 1, 0), {3}, {false, true, true});
  expect_array<bool>(tl::any(matrix() > 5, 1), {2}, {false, true});
  expect_array<bool>(tl::max(Array({false, true})), {}, {true});
  EXPECT_TRUE(std::isnan(tl::max(Array({1.0, kNan})).item<double>()));
}

TEST(Reductions, VarianceDividesByTheDegreesOfFreedom) {
  const Array x({-2.0, -0.5, 0.0, 0.5, 3.0});
  expect_near<double>(tl::var(x), {}, {2.66}, 1e-15);
  expect_near<double>(tl::std_(x, {.ddof = 1}), {}, {1.823458252881047}, 1e-15);
  expect_near<double>(tl::var(matrix(), 0), {3}, {2.25, 2.25, 2.25}, 1e-15);
  expect_near<double>(tl::var(matrix(), {.axes = {1}, .keepdims = true}), {2, 1},
                      {2.0 / 3, 2.0 / 3}, 1e-15);
}

// Their sums, and those of their squares, are beyond the range of f16; so is the number of a million elements.
TEST(Reductions, MeansOf16BitFloatsStayInRange) {
  const Array x = (tl::arange(1'000'000) % 100).astype(tl::f16) + 500;
  for (const auto wrap : {false, true}) {
    const auto of = [&](const auto& f) { return wrap ? tl::jit(f)(x) : f(x); };
    const Array mean = of([](const Array& a) { return tl::mean(a); });
    EXPECT_EQ(mean.dtype(), tl::f16);
    EXPECT_EQ(mean.item<float>(), 549.5F);
    expect_near<float>(of([](const Array& a) { return tl::var(a).astype(tl::f32); }), {}, {833.25F},
                       0.001);
    expect_near<float>(of([](const Array& a) { return tl::std_(a).astype(tl::f32); }), {}, {28.86F},
                       0.02);
  }
  EXPECT_EQ(tl::grad(tl::mean)(x)(0).item<double>(),
            tl::Array(1e-6).astype(tl::f16).item<double>());
}

// Their magnitudes would have to be known.
TEST(Reductions, VarianceOfComplexNumbersIsRefused) {
  const std::string text =
      error_of<tl::NotImplementedError>([] { return tl::var(tl::zeros({3}, tl::c64)); });
  EXPECT_THAT(text,
              HasSubstr("var: the magnitudes of complex numbers are not available, got c64[3]"));
}

TEST(Reductions, LogsumexpIsStable) {
  expect_near<double>(tl::logsumexp(Array({-2.0, -0.5, 0.0, 0.5, 3.0})), {}, {3.155983910501031},
                      1e-15);
  expect_near<double>(tl::logsumexp(Array({1000.0, 1000.0})), {}, {1000.6931471805599}, 1e-15);
  expect_array<double>(tl::logsumexp(Array({-tl::inf, -tl::inf})), {}, {-tl::inf});
  expect_near<double>(tl::logsumexp(matrix(), {.axes = 1, .keepdims = true}), {2, 1},
                      {3.4076059644443806, 6.4076059644443806}, 1e-15);
}

TEST(Reductions, AxisOutOfRangeIsNamedWithTheCallersLine) {
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::IndexError>([] { return tl::sum(matrix(), 2); });
  EXPECT_THAT(text, HasSubstr("sum: axis 2 is out of bounds for f64[2,3]"));
  EXPECT_THAT(text, HasSubstr("reductions_test.cpp:" + std::to_string(line)));
  EXPECT_THROW(tl::sum(matrix(), {.axes = {0, -2}}), tl::ValueError);
}

TEST(Reductions, CanBePassedToTransformations) {
  expect_array<double>(tl::vmap(tl::sum)(matrix()), {2}, {6, 15});
  expect_array<double>(tl::grad(tl::sum)(Array({1.0, 2.0})), {2}, {1, 1});
  expect_array<double>(tl::grad(tl::max)(Array({1.0, 3.0, 2.0})), {3}, {0, 1, 0});
}

TEST(ArgReductions, GiveTheFirstAndLetNanWin) {
  expect_array<int>(tl::argmax(Array({1.0, 3.0, 3.0})), {}, {1});
  expect_array<int>(tl::argmax(Array({1.0, kNan, 3.0})), {}, {1});
  expect_array<int>(tl::argmin(matrix(), 1), {2}, {0, 0});
  expect_array<int>(tl::argmax(matrix()), {}, {5});
  expect_array<int>(tl::argmax(matrix(), 0, true), {1, 3}, {1, 1, 1});
  expect_array<int>(tl::argmax(matrix(), tl::none, true), {1, 1}, {5});
}

TEST(RunningReductions, GoAlongAnAxis) {
  expect_array<double>(tl::cumsum(matrix(), 1), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect_array<double>(tl::cumsum(matrix()), {6}, {1, 3, 6, 10, 15, 21});
  expect_array<double>(tl::cumprod(matrix(), 0), {2, 3}, {1, 2, 3, 4, 10, 18});
  expect_array<int>(tl::cumsum(Array({true, false, true})), {3}, {1, 1, 2});
  expect_array<int>(tl::cummax(Array({1, 3, 2})), {3}, {1, 3, 3});
  expect_array<int>(tl::cummin(Array({3, 1, 2})), {3}, {3, 1, 1});
  expect_array<double>(tl::diff(Array({1.0, 4.0, 9.0})), {2}, {3, 5});
  expect_array<double>(tl::diff(Array({1.0, 4.0, 9.0}), 2), {1}, {2});
}

TEST(Reductions, HaveDerivativesThatFiniteDifferencesConfirm) {
  const Array x({{0.3, -1.2, 0.7}, {1.5, 0.1, -0.4}});
  tl::check_grads([](const Array& a) { return tl::var(a, 1); }, std::tuple{x}, {});
  tl::check_grads([](const Array& a) { return tl::std_(a, {.axes = 0, .ddof = 1}); }, std::tuple{x},
                  {});
  tl::check_grads([](const Array& a) { return tl::logsumexp(a, 1); }, std::tuple{x}, {});
  tl::check_grads([](const Array& a) { return tl::softmax(a, 0); }, std::tuple{x}, {});
  tl::check_grads([](const Array& a) { return tl::norm(a, {.axes = 1}); }, std::tuple{x}, {});
  tl::check_grads([](const Array& a) { return tl::prod(a, 1); }, std::tuple{x}, {});
}

}  // namespace
}  // namespace telamon_test
