// Derivatives where they are a matter of convention: kinks, ties, zeros. The answers are JAX's.
#include <cmath>

#include "support.hpp"
#include "telamon/jvp.hpp"
#include "telamon/make_jaxpr.hpp"

namespace telamon_test {
namespace {

using Values = std::vector<double>;

TEST(ElementwiseDerivatives, OfAbsIsTheSign) {
  EXPECT_EQ(pushed(function_of(abs_p), {Array({-2.0, 0.0, 3.0})}, 0), (Values{-1, 0, 1}));
}

TEST(ElementwiseDerivatives, OfMaxAndMinAreSharedAtTies) {
  const Arrays args{Array({1.0, 2.0, 3.0}), Array({2.0, 2.0, 2.0})};
  EXPECT_EQ(pulled(function_of(max_p), args, 0), (Values{0, 0.5, 1}));
  EXPECT_EQ(pulled(function_of(max_p), args, 1), (Values{1, 0.5, 0}));
  EXPECT_EQ(pulled(function_of(min_p), args, 0), (Values{1, 0.5, 0}));
  EXPECT_EQ(pulled(function_of(min_p), args, 1), (Values{0, 0.5, 1}));
}

TEST(ElementwiseDerivatives, OfRsqrtAreProductsAndKeepTheRangeOfTheirResult) {
  const Arrays at{Array({1e-200, 1e-100, 0.25, 4.0, 1e100, 1e200})};
  const Function slope = [](std::span<const Array> x) {
    const Arrays tangents{lax::ones_like(x[0])};
    return Arrays{detail::jvp_arrays(function_of(rsqrt_p), x, tangents, {}).tangents[0]};
  };
  EXPECT_EQ(count_eqns(detail::stage_arrays(slope, at, "f").jaxpr, "div"), 0);
  const Values x = at[0].to_vector<double>(), slopes = slope(at)[0].to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(slopes[i] / (-0.5 / std::sqrt(x[i]) / x[i]), 1, 2e-15) << x[i];
}

TEST(ElementwiseDerivatives, OfMaxAtNanIsZero) {
  const Arrays args{Array({std::nan(""), 1.0}), Array({1.0, std::nan("")})};
  EXPECT_EQ(pulled(function_of(max_p), args, 0), (Values{0, 0}));
  EXPECT_EQ(pulled(function_of(max_p), args, 1), (Values{0, 0}));
}

// Long chains of maxima are full of it: one constant, which ties need, and no comparison twice.
TEST(ElementwiseDerivatives, OfMaxTakesFewEquations) {
  const Array x({1.0, 2.0});
  const Jaxpr jaxpr =
      make_jaxpr([](const Array& a, const Array& b, const Array& da, const Array& db) {
        return jvp([](Array p, Array q) { return lax::max(p, q); }, std::tuple{a, b},
                   std::tuple{da, db});
      })(x, x, x, x)
          .jaxpr;
  EXPECT_EQ(count_eqns(jaxpr, "broadcast_in_dim"), 1);
  EXPECT_EQ(count_eqns(jaxpr, "eq"), 2);
  EXPECT_EQ(count_eqns(jaxpr), 12) << jaxpr;
}

TEST(ElementwiseDerivatives, OfRemAlongTheDivisorIsMinusTheQuotient) {
  const Arrays args{Array({7.5, -7.5}), Array({2.0, 2.0})};
  EXPECT_EQ(pushed(function_of(rem_p), args, 0), (Values{1, 1}));
  EXPECT_EQ(pushed(function_of(rem_p), args, 1), (Values{-3, 3}));
}

TEST(ElementwiseDerivatives, OfPowAtZeroBase) {
  const Arrays args{Array({0.0, 0.0, 0.0}), Array({1.0, 2.0, 3.0})};
  EXPECT_EQ(pushed(function_of(pow_p), args, 0), (Values{1, 0, 0}));
  EXPECT_EQ(pushed(function_of(pow_p), args, 1), (Values{0, 0, 0}));
}

TEST(ElementwiseDerivatives, OfPowWithIntegerExponentZeroIsZeroEvenAtZero) {
  const Arrays args{Array({0.0, 2.0}), Array(std::vector<std::int32_t>{0, 3})};
  EXPECT_EQ(pushed(function_of(pow_p), args, 0), (Values{0, 12}));
}

TEST(ElementwiseDerivatives, OfSecondOrderOfPowAtExponentZero) {
  // d2/dxdy x^y at (4, 0) is 1/x.
  const Function slope_y = [](std::span<const Array> x) {
    return Arrays{tangent_along(function_of(pow_p), x, 1)};
  };
  const Arrays at{Array({4.0}), Array({0.0})};
  EXPECT_NEAR(pushed(slope_y, at, 0)[0], 0.25, 1e-15);
  EXPECT_NEAR(pushed(slope_y, at, 1)[0], std::log(4.0) * std::log(4.0), 1e-14);
}

TEST(ElementwiseDerivatives, OfClampAreThoseOfTheOperandThatShows) {
  const Arrays args{Array({0.0, 0.0, 0.0, 0.0, 3.0}), Array({-1.0, 0.5, 2.0, 0.0, 2.0}),
                    Array({1.0, 1.0, 1.0, 1.0, 1.0})};
  EXPECT_EQ(pulled(function_of(clamp_p), args, 0), (Values{1, 0, 0, 0, 0}));
  EXPECT_EQ(pulled(function_of(clamp_p), args, 1), (Values{0, 1, 0, 0, 0}));
  EXPECT_EQ(pulled(function_of(clamp_p), args, 2), (Values{0, 0, 1, 0, 1}));
}

TEST(ElementwiseDerivatives, OfStopGradientAreZero) {
  const Function f = [](std::span<const Array> x) {
    return Arrays{lax::mul(x[0], lax::stop_gradient(x[0]))};
  };
  EXPECT_EQ(pulled(f, {Array({3.0, -2.0})}, 0), (Values{3, -2}));
}

TEST(ElementwiseDerivatives, StopAtIntegersAndGoThroughOtherFloats) {
  const Function rounded = [](std::span<const Array> x) {
    return Arrays{
        lax::mul(x[0], lax::convert_element_type(lax::convert_element_type(x[0], i32), f64))};
  };
  EXPECT_EQ(pulled(rounded, {Array({2.5, -3.5})}, 0), (Values{2, -3}));
  const Function narrow = [](std::span<const Array> x) {
    return Arrays{lax::square(lax::convert_element_type(x[0], f32))};
  };
  const Arrays at{Array({2.5})};
  EXPECT_EQ(pulled(narrow, at, 0), (Values{5}));
  EXPECT_EQ(
      detail::linearize_arrays(narrow, at, "f").map.transpose(Arrays{Array({1.0f})})[0].dtype(),
      f64);
}

TEST(ElementwiseDerivatives, OfTheReciprocalAreExactToTheSixthOrder) {
  Function f = [](std::span<const Array> x) {
    return Arrays{lax::div(lax::ones_like(x[0]), x[0])};
  };
  for (int order = 0; order < 6; ++order) {
    f = [f](std::span<const Array> x) {
      const Arrays tangents{lax::ones_like(x[0])};
      return Arrays{detail::jvp_arrays(f, x, tangents, {}).tangents[0]};
    };
  }
  const Arrays at{Array({4.0f})};
  EXPECT_EQ(f(at)[0].item<float>(), 0.0439453125f);
}

TEST(ElementwiseDerivatives, TakeNoEquationsForOperandsWithoutTangents) {
  const Function f = [](std::span<const Array> x) {
    return Arrays{tangent_along(function_of(mul_p), x, 0)};
  };
  const Arrays args{Array({1.0}), Array({2.0})};
  const Jaxpr jaxpr = eliminate_dead_code(detail::stage_arrays(f, args, "f").jaxpr);
  EXPECT_EQ(count_eqns(jaxpr, "add"), 0);
  EXPECT_EQ(count_eqns(jaxpr, "mul"), 1) << jaxpr;
}

TEST(ElementwiseDerivatives, OfIntegerPowZeroLeaveNothingToDifferentiate) {
  const Function f = [](std::span<const Array> x) { return Arrays{lax::integer_pow(x[0], 0)}; };
  const Arrays args{Array({1.0, 0.0})};
  EXPECT_EQ(detail::linearize_arrays(f, args, "f").map.jaxpr().eqns().size(), 0u);
  EXPECT_EQ(pushed(f, args, 0), (Values{0, 0}));
}

}  // namespace
}  // namespace telamon_test
