// Special functions and functions of the bits: values, and their rules against each other.
#include "telamon/special.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "support.hpp"

namespace telamon_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<double> kArguments{0.1, 0.5,  0.9,   1.0,  1.5,  2.0,
                                     3.7, 11.0, 150.5, -0.5, -1.3, -7.75};

TEST(Special, LgammaAgreesWithTheStandardLibrary) {
  const auto y = lgamma(Array(kArguments)).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double want = std::lgamma(kArguments[i]);
    EXPECT_NEAR(y[i], want, 1e-13 * std::max(1.0, std::fabs(want))) << kArguments[i];
  }
  EXPECT_EQ(lgamma(Array({0.0, -1.0, -3.0, kInf, -kInf})).to_vector<double>(),
            (std::vector<double>{kInf, kInf, kInf, kInf, kInf}));
  EXPECT_NEAR(lgamma(Array({7.5f})).item<float>(), std::lgamma(7.5), 1e-5);
}

TEST(Special, LgammaOfIntegersTakesTheDefaultFloat) {
  const Array y = lgamma(Array(std::vector<std::int32_t>{5}));
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_NEAR(y.item<float>(), std::log(24.0), 1e-5);
}

TEST(Special, DigammaHasItsKnownValues) {
  const auto y = digamma(Array({1.0, 0.5, 2.0, 0.25})).to_vector<double>();
  const double half_pi = std::numbers::pi / 2;
  EXPECT_NEAR(y[0], -std::numbers::egamma, 1e-14);
  EXPECT_NEAR(y[1], -std::numbers::egamma - 2 * std::numbers::ln2, 1e-14);
  EXPECT_NEAR(y[2], 1 - std::numbers::egamma, 1e-14);
  EXPECT_NEAR(y[3], -std::numbers::egamma - half_pi - 3 * std::numbers::ln2, 1e-13);
  for (const double pole : digamma(Array({0.0, -1.0, -4.0})).to_vector<double>())
    EXPECT_TRUE(std::isnan(pole));
}

TEST(Special, DerivativeOfDigammaHasItsKnownValues) {
  const auto y = pushed(function_of(digamma_p), {Array({1.0, 0.5, -0.5})}, 0);
  const double pi2 = std::numbers::pi * std::numbers::pi;
  EXPECT_NEAR(y[0], pi2 / 6, 1e-14);
  EXPECT_NEAR(y[1], pi2 / 2, 1e-14);
  EXPECT_NEAR(y[2], pi2 / 2 + 4, 1e-12);
}

TEST(Special, ErfcStaysExactInTheTail) {
  EXPECT_NEAR(erfc(Array({10.0})).item<double>(), std::erfc(10.0), 1e-13 * std::erfc(10.0));
}

const RuleExamples kSpecial([] {
  const Array x({0.7, 1.4, 2.3, 0.6, 3.1, -0.4}), narrow = lax::convert_element_type(x, f16);
  // Native code adds in the order of the composition, but may not keep every rounding of its own.
  const CheckPrimitiveOptions close{.native_rtol = 1e-12}, no_derivative{.differentiate = false};
  return std::vector{example(erfc_p, {}, {x}), example(lgamma_p, {}, {x}, close),
                     example(digamma_p, {}, {x}, close),
                     example(lgamma_p, {}, {narrow}, no_derivative),
                     example(reduce_precision_p, {8, 7}, {x}, no_derivative)};
});

const RuleExamples kBits([] {
  std::vector<Example> all;
  for (const DType dtype : {i8, i16, i32, i64, u8, u16, u32, u64}) {
    const Array x = make(i32, {2, 3}, {0, 1, -1, 100, 77, 64});
    for (const auto* p : {&population_count_p, &clz_p})
      all.push_back(example(*p, {}, {lax::convert_element_type(x, dtype)}));
  }
  for (const DType dtype : {f32, f64}) {
    all.push_back(
        example(nextafter_p, {},
                {make(dtype, {2, 2}, {1, 0, -2, 5}), make(dtype, {2, 2}, {2, -1, 0.5, 5})}));
  }
  return all;
});

TEST(Bits, PopulationCountAndClzAgreeWithTheStandardLibrary) {
  const std::vector<std::uint32_t> x{0u, 1u, 0x80000000u, 0xffffffffu, 0x00f0f00fu, 1234567u};
  const auto ones = population_count(Array(x)).to_vector<std::uint32_t>();
  const auto zeros = clz(Array(x)).to_vector<std::uint32_t>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(ones[i], static_cast<std::uint32_t>(std::popcount(x[i])));
    EXPECT_EQ(zeros[i], static_cast<std::uint32_t>(std::countl_zero(x[i])));
  }
}

TEST(Bits, NextafterStepsThroughTheRepresentation) {
  const std::vector<double> x{1.0, 1.0, 0.0, -0.0, 2.0, kInf, -1.0, 5.0},
      y{2.0, 0.0, 1.0, -1.0, 2.0, 0.0, -2.0, kInf};
  const Array z = nextafter(Array(x), Array(y));
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(z.to_vector<double>()[i], std::nextafter(x[i], y[i])) << x[i] << " to " << y[i];
  }
}

TEST(Bits, ReducePrecisionRoundsAsTheNarrowDtypesDo) {
  const Array x({1.0f, 1.001f, -3.14159f, 65504.0f, 1e6f, 1e-3f, 0.0f, std::nanf("")});
  const auto through = [&](DType narrow) {
    return lax::convert_element_type(lax::convert_element_type(x, narrow), f32).to_vector<float>();
  };
  const auto as_f16 = reduce_precision(x, 5, 10).to_vector<float>(),
             as_bf16 = reduce_precision(x, 8, 7).to_vector<float>();
  for (std::size_t i = 0; i + 1 < as_f16.size(); ++i) {
    EXPECT_EQ(as_f16[i], through(f16)[i]);
    EXPECT_EQ(as_bf16[i], through(bf16)[i]);
  }
  EXPECT_TRUE(std::isnan(as_f16.back()));
  EXPECT_EQ(reduce_precision(Array({1e-6f}), 5, 10).item<float>(), 0.0f);
  EXPECT_THAT(message_of<ValueError>([&] { reduce_precision(x, 0, 3); }),
              HasSubstr("exponent_bits >= 1"));
}

TEST(Bits, DerivativeOfReducePrecisionIsItself) {
  EXPECT_EQ(pushed(function_of(reduce_precision_p, {5, 3}), {Array({1.7, 3.3})}, 0),
            (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace telamon_test
