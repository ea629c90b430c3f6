// Edges of the functions of arrays: division by zero, bools, unsigned integers, nothing at all,
// weak types. Every expected value and dtype is what JAX 0.10 gives (x64 off, where the defaults
// are ours), unless a comment says otherwise.
#include <cmath>
#include <limits>

#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
constexpr double kNan = tl::nan, kInf = tl::inf;
constexpr float kInfF = std::numeric_limits<float>::infinity();

Array u8(const std::vector<int>& values) { return Array(values).astype(tl::u8); }
Array i8(const std::vector<int>& values) { return Array(values).astype(tl::i8); }
Array scalar(double value) { return tl::asarray(value); }
const Array& bools() {
  static const Array x({true, false, true});
  return x;
}
/// A weak array that is no scalar.
Array weak_vector(const Array& value) { return tl::lax::broadcast(value, {2}); }

TEST(Constants, AreSpelledAsInNumpy) {
  EXPECT_EQ(tl::bool_, tl::boolean);
  EXPECT_TRUE(std::isnan(tl::nan));
  EXPECT_EQ(tl::pi, std::acos(-1.0));
}

// ---- division and powers -----------------------------------------------------------------------
TEST(DivisionByZero, OfFloatsIsWhatDivisionGives) {
  const Array x({7.0, -7.0, 0.0, kInf});
  expect_array<double>(tl::floor_divide(x, 0.0), {4}, {kInf, -kInf, kNan, kInf});
  expect_array<double>(tl::remainder(x, 0.0), {4}, {kNan, kNan, kNan, kNan});
  expect_array<double>(tl::fmod(x, 0.0), {4}, {kNan, kNan, kNan, kNan});
  expect_array<double>(tl::floor_divide(Array({7.5, -7.5}), 2.0), {2}, {3, -4});
}

TEST(DivisionByZero, OfIntegersHasTheRemainderZero) {
  const Array x({7, 0, -7});
  expect_array<int>(tl::remainder(x, 0), {3}, {0, 0, 0});
  expect_array<int>(tl::fmod(x, 0), {3}, {0, 0, 0});
  expect_array<int>(tl::floor_divide(x, 0), {3}, {-2, -1, -2});
  expect_array<std::uint8_t>(tl::floor_divide(u8({7, 0}), 0), {2}, {255, 255});
  expect_array<std::uint8_t>(tl::remainder(u8({7, 0}), 0), {2}, {0, 0});
}

TEST(DivisionByZero, IsTheSameInCompiledPrograms) {
  const auto all = tl::jit([](const Array& x, const Array& y) {
    return Arrays{tl::floor_divide(x, y), tl::remainder(x, y), tl::fmod(x, y)};
  });
  const Arrays ints = all(Array({7, 0, -7}), Array({0, 0, 0}));
  expect_array<int>(ints[0], {3}, {-2, -1, -2});
  expect_array<int>(ints[1], {3}, {0, 0, 0});
  expect_array<int>(ints[2], {3}, {0, 0, 0});
  const Arrays floats = all(Array({7.0, -7.0}), Array({0.0, 0.0}));
  expect_array<double>(floats[0], {2}, {kInf, -kInf});
  expect_array<double>(floats[1], {2}, {kNan, kNan});
}

TEST(Power, OfIntegersToNegativeConstantsIsRefused) {
  const std::string text = error_of<tl::TypeError>([] { return tl::power(Array({1, 2}), -1); });
  EXPECT_THAT(text, HasSubstr("integers cannot be raised to negative powers"));
  EXPECT_THAT(text, HasSubstr("power(i32[2], -1)"));
  EXPECT_THROW(tl::power(bools(), -2), tl::TypeError);
  expect_array<double>(tl::power(Array({2.0}), -1), {1}, {0.5});
}

TEST(Power, ToTwoPromotesLikeAnyOther) {
  EXPECT_EQ(type_of(tl::power(2.0f, 2.0)), type_of(tl::power(2.0f, 3.0)));
  EXPECT_DOUBLE_EQ(tl::power(1e30f, 2.0).item<double>(), double{1e30f} * double{1e30f});
  EXPECT_EQ(type_of(tl::power(Array({1.f, 2.f}), 2.0)), "f32[2]");
}

TEST(Power, ToAnOddIntegerKeepsTheSignWhereNoFloatIsOdd) {
  const auto expect = [](tl::DType dtype, std::int64_t n) {
    const Array x = Array({-1.0, -2.0, -0.0, 0.0, 1.0, -kInf}).astype(dtype);
    const auto ours = tl::power(x, n).astype(tl::f64).to_vector<double>();
    const std::vector<double> up{-1, -kInf, -0.0, 0, 1, -kInf},
        down{-1, -0.0, -kInf, kInf, 1, -0.0};
    const std::vector<double>& want = n > 0 ? up : down;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(ours[i], want[i]) << n << " at " << i;
      EXPECT_EQ(std::signbit(ours[i]), std::signbit(want[i])) << n << " at " << i;
    }
  };
  for (const std::int64_t sign : {1, -1}) {
    for (const auto dtype : {tl::f16, tl::bf16, tl::f32}) {
      for (const std::int64_t n : {4097, 65537, 16777217, 2147483647}) expect(dtype, sign * n);
    }
    expect(tl::f64, sign * 9007199254740993);
    expect(tl::f64, sign * std::numeric_limits<std::int64_t>::max());
  }
}

TEST(Power, OfBoolsIsAnInteger) {
  expect_array<int>(tl::power(bools(), 2), {3}, {1, 0, 1});
  expect_array<int>(tl::power(bools(), bools()), {3}, {1, 1, 1});
}

TEST(Power, OfAWeakFloatToAnIntegerArrayIsStrong) {
  EXPECT_EQ(type_of(tl::power(2.5f, Array({1, 2}))), "f32[2]");
  EXPECT_EQ(type_of(tl::power(2.5, Array({1, 2}))), "f32[2]");
  EXPECT_EQ(type_of(tl::power(2.5f, 3)), "~f32[]");
  expect_array<float>(tl::power(2.5f, Array({-1, 0, 2})), {3}, {0.4f, 1, 6.25f});
}

TEST(Power, HasADerivativeAtZeroForIntegerArrays) {
  const auto slope = [](int exponent) {
    const Array y = tl::asarray(exponent);
    return tl::grad([y](const Array& x) { return tl::power(x, y); })(scalar(0)).item<double>();
  };
  EXPECT_EQ(slope(0), 0);
  EXPECT_EQ(slope(1), 1);
  EXPECT_EQ(slope(2), 0);
}

TEST(Hypot, IsInfiniteWhereEitherIs) {
  expect_array<double>(tl::hypot(Array({kInf, kNan, kNan, -kInf}), Array({kNan, -kInf, 1.0, 2.0})),
                       {4}, {kInf, kInf, kNan, kInf});
}

TEST(Hypot, PromotesBeforeItTakesMagnitudes) {
  expect_array<float>(tl::hypot(i8({-128}), i8({0})), {1}, {128});  // |-128| is -128 in i8
  EXPECT_EQ(type_of(tl::hypot(u8({3}), u8({4}))), "f32[1]");
  EXPECT_EQ(type_of(tl::hypot(bools(), bools())), "f32[3]");
  EXPECT_EQ(type_of(tl::hypot(3.0f, 4.0f)), "~f32[]");
}

TEST(Hypot, SharesTheDerivativeAtTheOrigin) {
  const auto slopes = [](double x, double y) {
    const auto [a, b] = tl::grad<0, 1>(
        [](const Array& p, const Array& q) { return tl::hypot(p, q); })(scalar(x), scalar(y));
    return std::pair{a.item<double>(), b.item<double>()};
  };
  EXPECT_EQ(slopes(0, 0), (std::pair{0.5, 0.5}));
  EXPECT_EQ(slopes(3, 0), (std::pair{1.0, 0.0}));
  EXPECT_EQ(slopes(0, -2), (std::pair{0.0, -1.0}));
}

// ---- bools and narrow integers -----------------------------------------------------------------
TEST(Bools, CountAsIntegersInArithmetic) {
  expect_array<int>(tl::square(bools()), {3}, {1, 0, 1});
  expect_array<int>(tl::floor_divide(bools(), Array({true, true, true})), {3}, {1, 0, 1});
  expect_array<int>(tl::remainder(bools(), Array({true, true, true})), {3}, {0, 0, 0});
  expect_array<int>(tl::fmod(bools(), Array({true, true, true})), {3}, {0, 0, 0});
  expect_array<int>(bools() << Array({true, true, false}), {3}, {2, 0, 1});
  expect_array<int>(bools() >> Array({true, true, false}), {3}, {0, 0, 1});
  expect_array<int>(tl::cumprod(bools()), {3}, {1, 0, 0});
}

TEST(Bools, StayBoolsWhereNothingIsCounted) {
  expect_array<bool>(tl::abs(bools()), {3}, {true, false, true});
  expect_array<bool>(tl::diag(Array({true, false})), {2, 2}, {true, false, false, false});
  expect_array<bool>(tl::einsum("i,i->i", bools(), Array({true, true, false})), {3},
                     {true, false, false});
  expect_array<bool>(bools().at(1).add(true), {3}, {true, true, true});
}

TEST(Bools, OfReluAreWeakIntegers) {
  EXPECT_EQ(type_of(tl::relu(bools())), "~i32[3]");
  EXPECT_EQ(tl::relu(bools()).to_vector<int>(), (std::vector{1, 0, 1}));
}

TEST(Unsigned, IntegersAreTheirMagnitudes) {
  expect_array<std::uint8_t>(tl::abs(u8({0, 200})), {2}, {0, 200});
  EXPECT_EQ(type_of(tl::jit([](const Array& x) { return tl::abs(x); })(u8({1}))), "u8[1]");
}

TEST(Unsigned, RunningSumsKeepTheirDtype) {
  expect_array<std::uint8_t>(tl::cumsum(u8({100, 100, 100})), {3}, {100, 200, 44});
  expect_array<std::uint8_t>(tl::cumprod(u8({2, 100, 2})), {3}, {2, 200, 144});
  EXPECT_EQ(type_of(tl::cumsum(i8({1}))), "i8[1]");
  EXPECT_EQ(type_of(tl::sum(u8({1}))), "u32[]");
}

// JAX wraps the bounds around: clip(u8, -1, 1) is 1 everywhere there. Ours mean what they say.
TEST(Clip, TakesBoundsThatTheDtypeCannotHold) {
  expect_array<std::uint8_t>(tl::clip(u8({0, 1, 200}), -1, 1), {3}, {0, 1, 1});
  expect_array<std::uint8_t>(tl::clip(u8({0, 200}), -1, 1000), {2}, {0, 200});
  expect_array<std::uint8_t>(tl::clip(u8({0, 200}), 300), {2}, {255, 255});
  expect_array<std::int8_t>(tl::clip(i8({-100, 100}), -1000, 1000), {2}, {-100, 100});
  EXPECT_THROW(tl::maximum(u8({1}), -1), tl::TypeError);  // only clip knows what is meant
}

// ---- nothing at all ----------------------------------------------------------------------------
TEST(NoElements, HaveALogsumexpAndASoftmax) {
  expect_array<float>(tl::logsumexp(tl::zeros({0})), {}, {-kInfF});
  expect_array<float>(tl::logsumexp(tl::zeros({2, 0}), {.axes = 1, .keepdims = true}), {2, 1},
                      {-kInfF, -kInfF});
  EXPECT_EQ(type_of(tl::softmax(tl::zeros({0}))), "f32[0]");
  EXPECT_EQ(type_of(tl::log_softmax(tl::zeros({0}))), "f32[0]");
  expect_array<float>(tl::norm(tl::zeros({0}), {.ord = tl::inf}), {}, {0});
}

TEST(NoElements, AreWhatNoSegmentsGive) {
  const Array ids({0, 1});
  EXPECT_EQ(type_of(tl::segment_sum(Array({1.0, 2.0}), ids, 0)), "f64[0]");
  EXPECT_EQ(type_of(tl::segment_sum(Array({{1, 2}, {3, 4}}), ids, 0)), "i32[0,2]");
}

TEST(Variance, IsNanWhenNoDegreeOfFreedomIsLeft) {
  const Array x({1.0, 2.0, 4.0});
  for (const double ddof : {3.0, 4.0, 99.0}) {
    expect_array<double>(tl::var(x, {.ddof = ddof}), {}, {kNan});
    expect_array<double>(tl::std_(x, {.ddof = ddof}), {}, {kNan});
  }
  expect_array<float>(tl::var(tl::zeros({0})), {}, {std::nanf("")});
  expect_near<double>(tl::var(x, {.ddof = 2}), {}, {14.0 / 3}, 1e-15);
}

// ---- creation, shapes --------------------------------------------------------------------------
TEST(Linspace, EndsExactlyAtAnInfiniteStop) {
  expect_array<double>(tl::linspace(Array({-kInf, 1.0}), 5, 3), {3, 2}, {-kInf, 1, -kInf, 3, 5, 5});
  expect_array<double>(tl::linspace(0, 1, 5, {.dtype = tl::f64}), {5}, {0, 0.25, 0.5, 0.75, 1});
  expect_array<double>(tl::linspace(0.1, 0.1, 3, {.dtype = tl::f64}), {3}, {0.1, 0.1, 0.1});
  expect_array<float>(tl::linspace(2, 5, 1), {1}, {2});
  EXPECT_EQ(type_of(tl::linspace(2, 5, 0)), "f32[0]");
}

TEST(Arange, NeedsFiniteBounds) {
  EXPECT_THROW(tl::arange(kInf), tl::ValueError);
  EXPECT_THROW(tl::arange(0.0, kNan), tl::ValueError);
}

TEST(Pad, TakesOneWidthForAllSides) {
  const Array x({{1, 2}});
  expect_array<int>(tl::pad(x, 1), {3, 4}, {0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0});
  expect_array<int>(tl::pad(x, {1, 0}, 7), {2, 3}, {7, 7, 7, 7, 1, 2});
  expect_array<int>(tl::pad(x, {{0, 0}, {0, 1}}), {1, 3}, {1, 2, 0});
  EXPECT_THROW(tl::pad(x, {{1, 1}}), tl::ValueError);
  EXPECT_THROW(tl::pad(x, -1), tl::ValueError);
}

TEST(Round, ScalesNarrowFloatsWithoutOverflow) {
  const Array x = Array({10000.0f, 0.26f}).astype(tl::f16);
  const std::vector<float> rounded = tl::round(x, 1).to_vector<float>();
  EXPECT_EQ(rounded[0], 10000);
  EXPECT_NEAR(rounded[1], 0.3f, 1e-3f);
  EXPECT_EQ(type_of(tl::round(x, 1)), "f16[2]");
}

TEST(Norm, OfAMatrixKnowsTheOrdersOfItsSums) {
  const Array x({{1.0, -2.0}, {3.0, 4.0}});
  const auto of = [&](double ord) { return tl::norm(x, {.ord = ord}); };
  expect_array<double>(of(1), {}, {6});
  expect_array<double>(of(-1), {}, {4});
  expect_array<double>(of(kInf), {}, {7});
  expect_array<double>(of(-kInf), {}, {3});
  expect_array<double>(tl::norm(x, {.ord = 1, .keepdims = true}), {1, 1}, {6});
  // The axes say which are the rows.
  for (const Shape& axes : {Shape{1, 0}, Shape{-1, 0}, Shape{-1, -2}}) {
    expect_array<double>(tl::norm(x, {.ord = 1, .axes = axes}), {}, {7});
    expect_array<double>(tl::norm(x, {.ord = -1, .axes = axes}), {}, {3});
    expect_array<double>(tl::norm(x, {.ord = kInf, .axes = axes}), {}, {6});
    expect_array<double>(tl::norm(x, {.ord = -kInf, .axes = axes, .keepdims = true}), {1, 1}, {4});
  }
  expect_array<double>(tl::norm(x, {.ord = 1, .axes = {-2, -1}}), {}, {6});
  EXPECT_THROW(of(2), tl::NotImplementedError);
  EXPECT_THROW(tl::norm(scalar(1), {.ord = 1}), tl::ValueError);
  const Array slope = tl::grad([](const Array& a) { return tl::norm(a, {.ord = 1}); })(x);
  expect_array<double>(slope, {2, 2}, {0, -1, 0, 1});
}

TEST(Take, CountsBoolsAsIndices) {
  expect_array<double>(tl::take(Array({1.0, 2.0}), bools()), {3}, {2, 1, 2});
}

TEST(OneHot, OfFloatsComparesThem) {
  expect_array<float>(tl::one_hot(Array({1.0, 0.5}), 2), {2, 2}, {0, 1, 0, 0});
  EXPECT_THROW(tl::one_hot(bools(), 2), tl::TypeError);
}

TEST(AtAdd, LeavesNegativeZerosElsewhere) {
  const std::vector<double> sum = Array({-0.0, 1.0}).at(1).add(2.0).to_vector<double>();
  EXPECT_TRUE(std::signbit(sum[0]));
  EXPECT_EQ(sum[1], 3);
}

// ---- weak types --------------------------------------------------------------------------------
TEST(WeakTypes, NeverBelongToBools) {
  EXPECT_EQ(type_of(Array(true)), "bool[]");
  EXPECT_EQ(type_of(tl::where(true, Array({1, 2}), 0)), "i32[2]");
  EXPECT_EQ(type_of(Array({1, 2}) * true), "i32[2]");
  EXPECT_EQ(type_of(tl::sin(true)), "f32[]");
  EXPECT_EQ(type_of(tl::jit([](const Array& x) { return x * true; })(Array({1.0}))), "f64[1]");
}

TEST(WeakTypes, StayWithWeakOperands) {
  const Array x(3.0f), n(3);
  EXPECT_EQ(type_of(tl::floor_divide(x, 2)), "~f32[]");
  EXPECT_EQ(type_of(tl::floor_divide(n, 2)), "~i32[]");
  EXPECT_EQ(type_of(tl::remainder(n, 2)), "~i32[]");
  EXPECT_EQ(type_of(tl::fmod(x, 2)), "~f32[]");
  EXPECT_EQ(type_of(tl::logaddexp(x, 2.0f)), "~f32[]");
  EXPECT_EQ(type_of(tl::hypot(x, 2)), "~f32[]");
  EXPECT_EQ(type_of(tl::softplus(x)), "~f32[]");
  EXPECT_EQ(type_of(tl::relu(x)), "~f32[]");
  EXPECT_EQ(type_of(tl::relu(n)), "~i32[]");
  EXPECT_EQ(type_of(tl::zeros_like(x)), "~f32[]");
  EXPECT_EQ(type_of(tl::ones_like(n)), "~i32[]");
  EXPECT_EQ(type_of(tl::full_like(n, 2.5)), "~i32[]");
  EXPECT_EQ(type_of(tl::zeros_like(x, tl::f32)), "f32[]");
  EXPECT_EQ(type_of(tl::tril(tl::expand_dims(weak_vector(x), 0))), "~f32[1,2]");
  EXPECT_EQ(type_of(tl::diag(weak_vector(n))), "~i32[2,2]");
  EXPECT_EQ(type_of(tl::pad(weak_vector(n), 1)), "~i32[4]");
}

TEST(WeakTypes, EndInFunctionsThatBringATypeOfTheirOwn) {
  for (const Array& x : {Array(3.0f), weak_vector(3.0f)}) {
    const Array results[] = {
        tl::log2(x), tl::log10(x), tl::gelu(x),  tl::gelu_exact(x), tl::sum(x),      tl::prod(x),
        tl::mean(x), tl::max(x),   tl::min(x),   tl::var(x),        tl::std_(x),     tl::norm(x),
        tl::all(x),  tl::any(x),   tl::isinf(x), tl::cumsum(x),     tl::logsumexp(x)};
    for (const Array& y : results) EXPECT_FALSE(y.weak_type()) << y.aval().to_string();
    EXPECT_EQ(results[0].dtype(), tl::f32);
  }
  EXPECT_EQ(type_of(tl::power(weak_vector(3), weak_vector(3))), "i32[2]");
}

TEST(WeakTypes, AreTheSameUnderJit) {
  const auto types = tl::jit([](const Array& x) {
    return Arrays{tl::floor_divide(x, 2),
                  tl::hypot(x, 2),
                  tl::relu(x),
                  tl::zeros_like(x),
                  tl::log2(x),
                  tl::sum(x),
                  tl::var(x)};
  });
  std::string text;
  for (const Array& y : types(Array(3.0f))) text += type_of(y) + " ";
  EXPECT_EQ(text, "~f32[] ~f32[] ~f32[] ~f32[] f32[] f32[] f32[] ");
}

TEST(WeakTypes, OfTwoWidthsMeetInIsclose) {
  EXPECT_TRUE(tl::isclose(weak_vector(3.0f), Array(3)).to_vector<bool>()[0]);
}

}  // namespace
}  // namespace telamon_test
