// Values of the elementwise primitives against the standard library's functions.
#include <cmath>
#include <cstdint>
#include <limits>

#include "support.hpp"

namespace telamon_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct UnaryCase {
  const Primitive<>* primitive;
  double (*reference)(double);
  std::vector<double> inputs;
};

std::vector<UnaryCase> unary_cases() {
  const std::vector<double> any{-3.5, -1.25, -0.5, -0.0, 0.0, 0.3, 1.0, 2.75, 4.0};
  const std::vector<double> positive{1e-3, 0.25, 1.0, 2.5, 40.0, 1e6};
  const std::vector<double> inside{-0.99, -0.5, 0.0, 0.125, 0.75, 0.999};
  return {
      {&neg_p, [](double x) { return -x; }, any},
      {&sign_p, [](double x) { return x > 0   ? 1.0
                                      : x < 0 ? -1.0
                                              : x; }, any},
      {&abs_p, [](double x) { return std::fabs(x); }, any},
      {&floor_p, [](double x) { return std::floor(x); }, any},
      {&ceil_p, [](double x) { return std::ceil(x); }, any},
      {&exp_p, [](double x) { return std::exp(x); }, any},
      {&exp2_p, [](double x) { return std::exp2(x); }, any},
      {&expm1_p, [](double x) { return std::expm1(x); }, any},
      {&log_p, [](double x) { return std::log(x); }, positive},
      {&log1p_p, [](double x) { return std::log1p(x); }, positive},
      {&sin_p, [](double x) { return std::sin(x); }, any},
      {&cos_p, [](double x) { return std::cos(x); }, any},
      {&tan_p, [](double x) { return std::tan(x); }, any},
      {&asin_p, [](double x) { return std::asin(x); }, inside},
      {&acos_p, [](double x) { return std::acos(x); }, inside},
      {&atan_p, [](double x) { return std::atan(x); }, any},
      {&sinh_p, [](double x) { return std::sinh(x); }, any},
      {&cosh_p, [](double x) { return std::cosh(x); }, any},
      {&tanh_p, [](double x) { return std::tanh(x); }, any},
      {&asinh_p, [](double x) { return std::asinh(x); }, any},
      {&acosh_p, [](double x) { return std::acosh(x); }, {1.0, 1.5, 3.0, 100.0}},
      {&atanh_p, [](double x) { return std::atanh(x); }, inside},
      {&logistic_p, [](double x) { return 1 / (1 + std::exp(-x)); }, any},
      {&sqrt_p, [](double x) { return std::sqrt(x); }, positive},
      {&rsqrt_p, [](double x) { return 1 / std::sqrt(x); }, positive},
      {&cbrt_p, [](double x) { return std::cbrt(x); }, any},
      {&square_p, [](double x) { return x * x; }, any},
      {&erf_p, [](double x) { return std::erf(x); }, any},
      {&stop_gradient_p, [](double x) { return x; }, any},
      {&copy_p, [](double x) { return x; }, any},
  };
}

// Within some units in the last place of the narrower dtype.
void expect_near(double got, double want, double epsilon, std::string_view name, double x) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << name << "(" << x << ") = " << got;
  } else {
    EXPECT_NEAR(got, want, 16 * epsilon * std::max(1e-30, std::fabs(want)))
        << name << "(" << x << ")";
  }
}

TEST(ElementwiseValues, OfOneOperandAgreeWithTheStandardLibraryInDoublePrecision) {
  for (const UnaryCase& c : unary_cases()) {
    const auto y = c.primitive->bind1({}, {Array(c.inputs)}).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      expect_near(y[i], c.reference(c.inputs[i]), 0x1p-52, c.primitive->name(), c.inputs[i]);
    }
  }
}

TEST(ElementwiseValues, OfOneOperandAgreeWithTheStandardLibraryInSinglePrecision) {
  for (const UnaryCase& c : unary_cases()) {
    const Array x = lax::convert_element_type(Array(c.inputs), f32);
    const Array y = c.primitive->bind1({}, {x});
    EXPECT_EQ(y.dtype(), f32);
    const auto inputs = x.to_vector<double>(), values = y.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      expect_near(values[i], c.reference(inputs[i]), 0x1p-23, c.primitive->name(), inputs[i]);
    }
  }
}

TEST(ElementwiseValues, OfHalfPrecisionAreRoundedFromSinglePrecision) {
  for (const DType dtype : {f16, bf16}) {
    const double epsilon = dtype == f16 ? 0x1p-10 : 0x1p-7;
    for (const UnaryCase& c : unary_cases()) {
      if (c.primitive == &log_p || c.primitive == &sqrt_p || c.primitive == &rsqrt_p ||
          c.primitive == &log1p_p)
        continue;
      const Array x = lax::convert_element_type(Array(c.inputs), dtype);
      const Array y = c.primitive->bind1({}, {x});
      EXPECT_EQ(y.dtype(), dtype);
      const auto inputs = x.to_vector<double>(), values = y.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double want = c.reference(inputs[i]);
        if (values[i] == want) continue;
        EXPECT_NEAR(values[i], want, 2 * epsilon * std::max(0.0625, std::fabs(want)))
            << c.primitive->name() << "(" << inputs[i] << ")";
      }
    }
  }
}

TEST(ElementwiseValues, AreTheSameAlongAViewAsInMemory) {
  const Array scalar(2.5);
  const Array view = lax::broadcast_in_dim(lax::convert_element_type(scalar, f64), {3, 4}, {});
  EXPECT_EQ(lax::exp(view).to_vector<double>(),
            std::vector<double>(12, lax::exp(scalar).item<double>()));
  const Array rows = lax::broadcast_in_dim(Array({1.0, 2.0, 3.0}), {2, 3}, {1});
  EXPECT_EQ(lax::add(rows, rows).to_vector<double>(), (std::vector<double>{2, 4, 6, 2, 4, 6}));
}

TEST(ElementwiseValues, ErfInvUndoesErf) {
  const std::vector<double> x{-2.5, -0.75, 0.0, 0.1, 1.5};
  const auto y = lax::erf_inv(lax::erf(Array(x))).to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-12);
  EXPECT_EQ(lax::erf_inv(Array({1.0, -1.0})).to_vector<double>(),
            (std::vector<double>{kInf, -kInf}));
}

TEST(ElementwiseValues, RoundGoesAwayFromZeroOrToEven) {
  const Array x({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6});
  EXPECT_EQ(lax::round(x).to_vector<double>(), (std::vector<double>{-3, -2, -1, 1, 2, 3, 2, -3}));
  EXPECT_EQ(lax::round(x, RoundingMethod::to_nearest_even).to_vector<double>(),
            (std::vector<double>{-2, -2, -0.0, 0, 2, 2, 2, -3}));
}

TEST(ElementwiseValues, OfTwoOperandsAgreeWithTheStandardLibrary) {
  const std::vector<double> x{-3.5, -1.0, 0.5, 2.0, 7.25, 9.0}, y{2.0, -1.5, 0.25, 3.0, -2.5, 0.75};
  struct Case {
    const Primitive<>* primitive;
    double (*reference)(double, double);
  };
  const Case cases[] = {{&add_p, [](double a, double b) { return a + b; }},
                        {&sub_p, [](double a, double b) { return a - b; }},
                        {&mul_p, [](double a, double b) { return a * b; }},
                        {&div_p, [](double a, double b) { return a / b; }},
                        {&rem_p, [](double a, double b) { return std::fmod(a, b); }},
                        {&max_p, [](double a, double b) { return std::max(a, b); }},
                        {&min_p, [](double a, double b) { return std::min(a, b); }},
                        {&pow_p, [](double a, double b) { return std::pow(a, b); }},
                        {&atan2_p, [](double a, double b) { return std::atan2(a, b); }}};
  for (const Case& c : cases) {
    const auto z = c.primitive->bind1({}, {Array(x), Array(y)}).to_vector<double>();
    for (std::size_t i = 0; i < z.size(); ++i)
      expect_near(z[i], c.reference(x[i], y[i]), 0x1p-52, c.primitive->name(), x[i]);
  }
}

TEST(ElementwiseValues, MaxAndMinPropagateNan) {
  const Array x({kNan, 1.0, -kInf}), y({1.0, kNan, kInf});
  const auto larger = lax::max(x, y).to_vector<double>(),
             smaller = lax::min(x, y).to_vector<double>();
  EXPECT_TRUE(std::isnan(larger[0]) && std::isnan(larger[1]) && std::isnan(smaller[0]) &&
              std::isnan(smaller[1]));
  EXPECT_EQ(larger[2], kInf);
  EXPECT_EQ(smaller[2], -kInf);
}

TEST(ElementwiseValues, IntegerArithmeticWrapsAndTruncates) {
  const auto i32_vector = [](std::vector<std::int32_t> v) { return Array(v); };
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min(),
                     highest = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(lax::add(i32_vector({highest}), i32_vector({1})).to_vector<std::int32_t>()[0], lowest);
  EXPECT_EQ(lax::mul(i32_vector({highest}), i32_vector({2})).to_vector<std::int32_t>()[0], -2);
  EXPECT_EQ(lax::div(i32_vector({7, -7, 7, 5, lowest}), i32_vector({2, 2, -2, 0, -1}))
                .to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{3, -3, -3, -1, lowest}));
  EXPECT_EQ(lax::rem(i32_vector({7, -7, 7, 5, lowest}), i32_vector({2, 2, -2, 0, -1}))
                .to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, -1, 1, 5, 0}));
  EXPECT_EQ(lax::neg(Array(std::vector<std::uint8_t>{1, 0, 255})).to_vector<int>(),
            (std::vector<int>{255, 0, 1}));
}

TEST(ElementwiseValues, ShiftsByTheWidthOrMoreClearEverythingButTheSign) {
  const Array x(std::vector<std::int32_t>{-8, 8, 1, -1}),
      n(std::vector<std::int32_t>{1, 2, 32, 40});
  EXPECT_EQ(lax::shift_left(x, n).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-16, 32, 0, 0}));
  EXPECT_EQ(lax::shift_right_arithmetic(x, n).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-4, 2, 0, -1}));
  EXPECT_EQ(lax::shift_right_logical(x, n).to_vector<std::uint32_t>(),
            (std::vector<std::uint32_t>{0x7ffffffc, 2, 0, 0}));
}

TEST(ElementwiseValues, LogicIsBitwiseOnIntegersAndLogicalOnBool) {
  const Array a(std::vector<bool>{false, false, true, true}),
      b(std::vector<bool>{false, true, false, true});
  EXPECT_EQ(lax::bitwise_and(a, b).to_vector<int>(), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(lax::bitwise_or(a, b).to_vector<int>(), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(lax::bitwise_xor(a, b).to_vector<int>(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(lax::bitwise_not(a).to_vector<int>(), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(lax::bitwise_not(Array(std::vector<std::uint8_t>{0x0f})).to_vector<int>()[0], 0xf0);
}

TEST(ElementwiseValues, ComparisonsWithNanAreFalseButForNe) {
  const Array x({1.0, 2.0, kNan, -0.0}), y({2.0, 2.0, kNan, 0.0});
  EXPECT_EQ(lax::eq(x, y).to_vector<int>(), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(lax::ne(x, y).to_vector<int>(), (std::vector<int>{1, 0, 1, 0}));
  EXPECT_EQ(lax::lt(x, y).to_vector<int>(), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_EQ(lax::le(x, y).to_vector<int>(), (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(lax::gt(x, y).to_vector<int>(), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(lax::ge(x, y).to_vector<int>(), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(lax::is_finite(Array({1.0, kInf, kNan})).to_vector<int>(), (std::vector<int>{1, 0, 0}));
}

TEST(ElementwiseValues, IntegerPowMultipliesOutAndTakesReciprocals) {
  const Array x({2.0, -3.0, 0.5});
  EXPECT_EQ(lax::integer_pow(x, 0).to_vector<double>(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(lax::integer_pow(x, 3).to_vector<double>(), (std::vector<double>{8, -27, 0.125}));
  EXPECT_EQ(lax::integer_pow(x, -2).to_vector<double>(), (std::vector<double>{0.25, 1.0 / 9, 4}));
  EXPECT_EQ(lax::integer_pow(Array(std::vector<std::int64_t>{3, -2}), 5).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{243, -32}));
}

TEST(ElementwiseValues, PowTakesIntegerExponents) {
  const Array z = lax::pow(Array({2.0, 0.0, -1.5}), Array(std::vector<std::int32_t>{-1, 0, 3}));
  EXPECT_EQ(z.dtype(), f64);
  EXPECT_EQ(z.to_vector<double>(), (std::vector<double>{0.5, 1, -3.375}));
}

TEST(ElementwiseValues, OfComplexNumbersAgreeWithTheStandardLibrary) {
  using C = std::complex<double>;
  const Array x = sample(c128, {9}), y = sample(c128, {9}, 5);
  const std::vector<C> a = complex_values(x), b = complex_values(y);
  const struct {
    Array got;
    C (*want)(C a, C b);
  } cases[] = {
      {lax::neg(x), [](C a, C) { return -a; }},
      {lax::add(x, y), [](C a, C b) { return a + b; }},
      {lax::sub(x, y), [](C a, C b) { return a - b; }},
      {lax::mul(x, y), [](C a, C b) { return a * b; }},
      {lax::div(x, y), [](C a, C b) { return a / b; }},
      {lax::square(x), [](C a, C) { return a * a; }},
      {lax::integer_pow(x, 3), [](C a, C) { return a * a * a; }},
      {lax::integer_pow(x, -2), [](C a, C) { return 1.0 / (a * a); }},
      {lax::integer_pow(x, 0), [](C, C) { return C(1); }},
  };
  for (const auto& c : cases) {
    const std::vector<C> got = complex_values(c.got);
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_LT(std::abs(got[i] - c.want(a[i], b[i])), 1e-14 * std::abs(c.want(a[i], b[i])));
  }
  EXPECT_EQ(values(lax::eq(x, x)), std::vector<double>(9, 1));
  EXPECT_EQ(values(lax::eq(x, lax::convert_element_type(x, f64).astype(c128))),
            std::vector<double>(9, 0));
  EXPECT_EQ(values(lax::ne(x, y)), std::vector<double>(9, 1));
}

// Their squares would overflow, or vanish. By 0 they are infinite.
TEST(ElementwiseValues, OfQuotientsOfLargeAndSmallComplexNumbers) {
  for (const double size : {1e300, 1e-300}) {
    const double parts[] = {size, size, -size, 0, 0, 2 * size};
    const Array x = Array::from_data(parts, c128, {3});
    const std::vector<std::complex<double>> ones = complex_values(lax::div(x, x));
    for (const auto& one : ones) EXPECT_EQ(one, 1.0) << size;
  }
  const Array x = sample(c128, {3});
  for (const auto& q : complex_values(lax::div(x, lax::zeros_like(x))))
    EXPECT_TRUE(std::isinf(q.real()) && std::isinf(q.imag())) << q;
}

TEST(ElementwiseValues, OfEmptyArraysAreEmpty) {
  const Array empty(std::vector<double>{}, {0, 3});
  EXPECT_EQ(lax::exp(empty).shape(), (Shape{0, 3}));
  EXPECT_EQ(lax::add(empty, empty).size(), 0);
  EXPECT_EQ(lax::convert_element_type(empty, i32).dtype(), i32);
}

}  // namespace
}  // namespace telamon_test
