// Elementwise functions: values, special values, promotion of bools and integers, activations.
#include <limits>

#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const Array& samples() {
  static const Array x({-2.0, -0.5, 0.0, 0.5, 3.0});
  return x;
}

TEST(Elementwise, TranscendentalFunctionsAgreeWithTheStandardLibrary) {
  struct Case {
    Array (*ours)(const tl::Operand&);
    double (*theirs)(double);
  };
  const Case cases[] = {
      {tl::sin, std::sin},     {tl::cos, std::cos},     {tl::tan, std::tan},
      {tl::asin, std::asin},   {tl::acos, std::acos},   {tl::atan, std::atan},
      {tl::sinh, std::sinh},   {tl::cosh, std::cosh},   {tl::tanh, std::tanh},
      {tl::asinh, std::asinh}, {tl::atanh, std::atanh}, {tl::exp, std::exp},
      {tl::exp2, std::exp2},   {tl::expm1, std::expm1}, {tl::log, std::log},
      {tl::log2, std::log2},   {tl::log10, std::log10}, {tl::log1p, std::log1p},
      {tl::sqrt, std::sqrt},   {tl::cbrt, std::cbrt},   {tl::erf, std::erf},
  };
  for (const Case& c : cases) {
    const std::vector<double> points{0.125, 0.5, 0.75};
    std::vector<double> expected;
    for (double p : points) expected.push_back(c.theirs(p));
    expect_near<double>(c.ours(Array(points)), {3}, expected, 4e-16);
  }
  expect_near<double>(tl::acosh(Array({1.5, 4.0})), {2}, {std::acosh(1.5), std::acosh(4.0)}, 4e-16);
  expect_near<double>(tl::rsqrt(Array({4.0, 0.25})), {2}, {0.5, 2.0}, 4e-16);
  expect_near<double>(tl::erf_inv(tl::erf(Array({0.5}))), {1}, {0.5}, 1e-15);
}

TEST(Elementwise, RemaindersHaveTheDivisorsSign) {
  const Array x({7, -7, 7, -7}), y({3, 3, -3, -3});
  for (const auto f : {tl::mod, tl::remainder}) {
    expect_array<int>(f(x, y), {4}, {1, 2, -2, -1});
    expect_array<double>(f(Array({5.5, -5.5}), 2.0), {2}, {1.5, 0.5});
  }
  expect_array<int>(tl::fmod(x, y), {4}, {1, -1, 1, -1});
}

TEST(Elementwise, FunctionsOfTheOperatorsNames) {
  const Array x({1.0, -2.0}), y({4.0, 8.0});
  expect_array<double>(tl::add(x, y), {2}, {5, 6});
  expect_array<double>(tl::subtract(x, y), {2}, {-3, -10});
  expect_array<double>(tl::multiply(x, y), {2}, {4, -16});
  expect_array<double>(tl::divide(x, y), {2}, {0.25, -0.25});
  expect_array<double>(tl::negative(x), {2}, {-1, 2});
  expect_array<double>(tl::sign(Array({-3.0, 0.0, 2.0})), {3}, {-1, 0, 1});
}

TEST(Elementwise, Arctan2KnowsTheQuadrant) {
  const double pi = std::acos(-1.0);
  expect_near<double>(
      tl::arctan2(Array({1.0, 1.0, -1.0, -1.0, 0.0}), Array({1.0, -1.0, -1.0, 1.0, -1.0})), {5},
      {pi / 4, 3 * pi / 4, -3 * pi / 4, -pi / 4, pi}, 4e-16);
  EXPECT_EQ(type_of(tl::arctan2(Array({1, 2}), Array({3, 4}))), "f32[2]");
}

TEST(Elementwise, RoundingGoesToEven) {
  expect_array<double>(tl::round(Array({0.5, 1.5, 2.5, -0.5, 2.675})), {5}, {0, 2, 2, -0.0, 3});
  expect_array<double>(tl::round(Array({2.675, 1.25}), 1), {2}, {2.7, 1.2});
  expect_array<int>(tl::round(Array({1, 2})), {2}, {1, 2});
  EXPECT_THAT(message_of<tl::NotImplementedError>([&] { (void)(tl::round(Array({1, 2}), -1)); }),
              HasSubstr("round: of integers, decimals must be 0 or more, got -1 for i32[2]"));
  expect_array<double>(tl::floor(Array({-1.5, 1.5})), {2}, {-2, 1});
  expect_array<double>(tl::ceil(Array({-1.5, 1.5})), {2}, {-1, 2});
}

TEST(Elementwise, ClassificationKnowsNanAndInfinity) {
  const Array x({1.0, kNan, tl::inf, -tl::inf});
  expect_array<bool>(tl::isnan(x), {4}, {false, true, false, false});
  expect_array<bool>(tl::isinf(x), {4}, {false, false, true, true});
  expect_array<bool>(tl::isfinite(x), {4}, {true, false, false, false});
  expect_array<bool>(tl::isfinite(Array({1, 2})), {2}, {true, true});
  expect_array<bool>(tl::isinf(Array({1, 2})), {2}, {false, false});
}

TEST(Elementwise, LogicalFunctionsTakeAnyNumbers) {
  expect_array<bool>(tl::logical_and(Array({1, 0, 2}), Array({1.0, 1.0, 0.0})), {3},
                     {true, false, false});
  expect_array<bool>(tl::logical_or(Array({1, 0}), Array({0, 0})), {2}, {true, false});
  expect_array<bool>(tl::logical_xor(Array({1, 2}), Array({0, 3})), {2}, {true, false});
  expect_array<bool>(tl::logical_not(Array({0.0, 0.5})), {2}, {true, false});
}

TEST(Elementwise, ExtremaKeepNan) {
  expect_array<double>(tl::maximum(Array({1.0, kNan, 3.0}), 2.0), {3}, {2, kNan, 3});
  expect_array<double>(tl::minimum(Array({1.0, kNan, 3.0}), 2.0), {3}, {1, kNan, 2});
  expect_array<bool>(tl::maximum(Array({true, false}), Array({false, false})), {2}, {true, false});
}

TEST(Elementwise, ClipLimitsEitherSide) {
  const Array x({-2, 0, 5});
  expect_array<int>(tl::clip(x, -1, 3), {3}, {-1, 0, 3});
  expect_array<int>(tl::clip(x, tl::none, 3), {3}, {-2, 0, 3});
  expect_array<int>(tl::clip(x, 0), {3}, {0, 0, 5});
}

TEST(Elementwise, WherePromotesAndBroadcasts) {
  const Array condition({true, false, true});
  expect_array<double>(tl::where(condition, Array({1.0, 2.0, 3.0}), 0), {3}, {1, 0, 3});
  expect_array<int>(tl::where(condition, Array({{1}, {2}}), -1), {2, 3}, {1, -1, 1, 2, -1, 2});
  expect_array<int>(tl::where(Array(true), Array({1, 2}), Array({3, 4})), {2}, {1, 2});
  expect_array<int>(tl::where(Array({2, 0}), 1, -1) + tl::zeros({2}, tl::i32), {2}, {1, -1});
}

TEST(Elementwise, TheSecondPowerIsASquareHoweverTheTwoIsWritten) {
  const Array x({0.1, -1.7, 3e200});
  for (const auto& squared : {tl::make_jaxpr([](Array a) { return tl::power(a, 2.0); })(x),
                              tl::make_jaxpr([](Array a) { return tl::power(a, 2); })(x)}) {
    EXPECT_EQ(squared.jaxpr.eqns().at(0).primitive->name(), "square");
  }
}

TEST(Elementwise, PowersOfIntegersWrapLikeProducts) {
  expect_array<int>(tl::power(Array({2, 3, -2}), Array({10, 4, 3})), {3}, {1024, 81, -8});
  expect_array<int>(tl::power(Array({2, 3}), 3), {2}, {8, 27});
  expect_array<double>(tl::power(Array({2.0, 4.0}), -2), {2}, {0.25, 0.0625});
  expect_array<double>(tl::power(Array({4.0, 9.0}), 0.5), {2}, {2, 3});
  expect_array<double>(tl::power(2, Array({3.0})), {1}, {8});
  expect_array<double>(tl::reciprocal(Array({4.0})), {1}, {0.25});
}

TEST(Elementwise, LogaddexpDoesNotOverflow) {
  expect_near<double>(tl::logaddexp(Array({1000.0}), 1001.0), {1}, {1001.3132616875182}, 1e-15);
  expect_array<double>(
      tl::logaddexp(Array({-tl::inf, tl::inf, -tl::inf}), Array({-tl::inf, tl::inf, 2.0})), {3},
      {-tl::inf, tl::inf, 2});
}

TEST(Elementwise, LogaddexpHasSoftmaxAsGradient) {
  const auto f = [](const Array& x) { return tl::logaddexp(x, 1.0); };
  EXPECT_NEAR(tl::grad(f)(Array(std::vector<double>{1.0}).reshape({})).item<double>(), 0.5, 1e-15);
  EXPECT_NEAR(tl::grad(f)(Array(std::vector<double>{-tl::inf}).reshape({})).item<double>(), 0.0,
              1e-15);
}

TEST(Elementwise, LogaddexpHasItsSecondDerivativeAtATieToo) {
  const auto f = [](const Array& x) { return tl::logaddexp(x(0), x(1)); };
  for (const double shift : {0.0, 1e-9, -1e-9}) {
    expect_near<double>(tl::hessian(f)(Array({2.0, 2.0 + shift})), {2, 2},
                        {0.25, -0.25, -0.25, 0.25}, 1e-9);
  }
  expect_near<double>(tl::hessian([](const Array& x) { return tl::softplus(x); })(0.0), {}, {0.25},
                      1e-15);
}

TEST(Elementwise, HypotDoesNotOverflow) {
  expect_near<double>(tl::hypot(Array({3e200, 0.0}), Array({-4e200, 0.0})), {2}, {5e200, 0}, 1e-15);
  expect_array<double>(tl::hypot(Array({tl::inf}), 1), {1}, {tl::inf});
}

TEST(Elementwise, IscloseComparesElementByElement) {
  const Array x({1.0, 1.0, kNan, tl::inf, 0.0}), y({1.0 + 1e-9, 1.1, kNan, tl::inf, 1e-9});
  expect_array<bool>(tl::isclose(x, y), {5}, {true, false, false, true, true});
  expect_array<bool>(tl::isclose(x, y, {.rtol = 0.2, .equal_nan = true}), {5},
                     {true, true, true, true, true});
}

TEST(Elementwise, ClosenessFollowsNumpy) {
  EXPECT_TRUE(tl::allclose(Array({1.0, 2.0}), Array({1.0, 2.00001})));
  EXPECT_FALSE(tl::allclose(Array({1.0, 2.0}), Array({1.0, 2.1})));
  EXPECT_TRUE(tl::allclose(Array({tl::inf}), Array({tl::inf})));
  EXPECT_FALSE(tl::allclose(Array({kNan}), Array({kNan})));
  EXPECT_TRUE(tl::allclose(Array({kNan}), Array({kNan}), {.equal_nan = true}));
  EXPECT_TRUE(tl::allclose(Array({1.0, 1.2}), 1.1, {.rtol = 0, .atol = 0.11}));
  EXPECT_TRUE(tl::array_equal(Array({1, 2}), Array({1, 2})));
  EXPECT_FALSE(tl::array_equal(Array({1, 2}), Array({1, 2, 3})));
}

// The expected numbers are those of jax.nn at the same points, in float64.
TEST(Activations, AgreeWithJax) {
  const Array& x = samples();
  expect_near<double>(
      tl::gelu(x), {5},
      {-0.04540230591222494, -0.15428599017485609, 0, 0.3457140098251439, 2.996362607918227},
      1e-14);
  expect_near<double>(
      tl::gelu_exact(x), {5},
      {-0.04550026389635841, -0.15426876936299344, 0, 0.34573123063700656, 2.99595030590511},
      1e-14);
  expect_near<double>(
      tl::silu(x), {5},
      {-0.2384058440442351, -0.1887703343990727, 0, 0.3112296656009273, 2.8577223804673}, 1e-14);
  expect_near<double>(tl::softplus(x), {5},
                      {0.1269280110429725, 0.4740769841801067, 0.6931471805599453,
                       0.9740769841801067, 3.048587351573742},
                      1e-14);
  expect_near<double>(
      tl::sigmoid(x), {5},
      {0.11920292202211755, 0.3775406687981454, 0.5, 0.6224593312018546, 0.9525741268224334},
      1e-14);
  expect_near<double>(tl::softmax(x), {5},
                      {0.005764805231382054, 0.02583606459811265, 0.042596469254090885,
                       0.07022970491594366, 0.8555729560004707},
                      1e-14);
  expect_near<double>(tl::log_softmax(x), {5},
                      {-5.155983910501031, -3.655983910501031, -3.155983910501031,
                       -2.655983910501031, -0.1559839105010309},
                      1e-14);
}

TEST(Activations, ReluHasDerivativeZeroAtZeroAndKeepsNan) {
  expect_array<double>(tl::relu(Array({-1.0, 0.0, 2.0, kNan})), {4}, {0, 0, 2, kNan});
  const Array g =
      tl::grad([](const Array& x) { return tl::sum(tl::relu(x)); })(Array({-1.0, 0.0, 2.0}));
  expect_array<double>(g, {3}, {0, 0, 1});
}

TEST(Activations, SoftmaxStaysFiniteForLargeInputs) {
  expect_array<double>(tl::softmax(Array({1000.0, 1000.0})), {2}, {0.5, 0.5});
  expect_array<double>(tl::softmax(Array({{0.0, 0.0}, {1e9, 0.0}}), 0), {2, 2}, {0, 0.5, 1, 0.5});
  const Array g =
      tl::grad([](const Array& x) { return tl::log_softmax(x)(0); })(Array({1000.0, 1000.0}));
  expect_near<double>(g, {2}, {0.5, -0.5}, 1e-15);
}

TEST(Activations, OneHotIsZeroOutOfRange) {
  expect_array<float>(tl::one_hot(Array({0, 2, 3}), 3), {3, 3}, {1, 0, 0, 0, 0, 1, 0, 0, 0});
  expect_array<int>(tl::one_hot(1, 2, tl::i32), {2}, {0, 1});
}

}  // namespace
}  // namespace telamon_test
