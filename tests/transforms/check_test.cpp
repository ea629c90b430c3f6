// The checkers find faults, and only faults.
#include "telamon/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "telamon/families.hpp"
#include "telamon/lax.hpp"

namespace telamon {
namespace {

using testing::HasSubstr;

std::string failure_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const CheckFailure& e) { return e.message(); }
  return "";
}

const Array kX({0.5, 1.5, -0.75});

TEST(CheckGrads, AcceptsRightDerivativesOfAnyOrder) {
  const auto f = [](Array x, Array y) { return std::pair{lax::mul(lax::sin(x), y), lax::exp(y)}; };
  EXPECT_NO_THROW(check_grads(f, std::tuple{kX, Array({1.0, 2.0, 3.0})}, {.order = 3}));
}

TEST(CheckGrads, AcceptsNarrowDtypes) {
  const auto f = [](Array x) { return lax::tanh(x); };
  EXPECT_NO_THROW(check_grads(f, std::tuple{lax::convert_element_type(kX, f32)}, {.order = 2}));
  EXPECT_NO_THROW(check_grads(f, std::tuple{lax::convert_element_type(kX, f16)}, {.order = 1}));
}

TEST(CheckGrads, LeavesIntegersFixed) {
  const auto f = [](Array x, Array n) { return lax::pow(x, n); };
  EXPECT_NO_THROW(
      check_grads(f, std::tuple{Array({1.0, 2.0, 3.0}), Array(std::vector<std::int32_t>{1, 2, 3})},
                  {.order = 2}));
}

// x^2 with a derivative that is wrong by a factor, and one whose transpose alone is wrong.
const Primitive<> test_wrong_jvp_p{
    "test_wrong_jvp", [] {
      return families::unary(test_wrong_jvp_p,
                             {.impl = [](const NoParams&, const Aval&,
                                         std::span<const Array> x) { return lax::square(x[0]); },
                              .jvp = [](Array dx, Array, Array x) { return lax::mul(dx, x); },
                              .lower = element([](Emitter& e, Scalar x) { return e.mul(x, x); })});
    }};
const Primitive<> test_wrong_transpose_p{
    "test_wrong_transpose", [] {
      return families::unary(
          test_wrong_transpose_p,
          {.impl = [](const NoParams&, const Aval&,
                      std::span<const Array> x) { return lax::add(x[0], x[0]); },
           .jvp = [](Array dx, Array, Array) { return test_wrong_transpose_p.bind1({}, {dx}); },
           .transpose = [](Array ct) { return ct; },
           .lower = element([](Emitter& e, Scalar x) { return e.add(x, x); })});
    }};
// Ignores where the batch axis is.
const Primitive<> test_wrong_batch_p{
    "test_wrong_batch", [] {
      auto rules = families::unary(
          test_wrong_batch_p, {.impl = [](const NoParams&, const Aval&,
                                          std::span<const Array> x) { return lax::neg(x[0]); },
                               .jvp = [](Array dx, Array, Array) { return lax::neg(dx); },
                               .lower = element([](Emitter& e, Scalar x) { return e.neg(x); })});
      rules.batch = [](const NoParams&, const AxisInfo&, std::span<const Array> x,
                       std::span<const BatchAxis>) {
        return BatchResult{test_wrong_batch_p.bind({}, x), {0}};
      };
      return rules;
    }};

TEST(CheckGrads, FindsAWrongJvpRule) {
  const auto f = [](Array x) { return test_wrong_jvp_p.bind1({}, {x}); };
  EXPECT_THAT(failure_of([&] { check_grads(f, std::tuple{kX}); }),
              HasSubstr("JVP tangent f64[3]: got"));
}

TEST(CheckGrads, FindsAWrongTransposeRule) {
  const auto f = [](Array x) { return test_wrong_transpose_p.bind1({}, {x}); };
  EXPECT_NO_THROW(check_grads(f, std::tuple{kX}, {.modes = GradMode::forward}));
  EXPECT_THAT(failure_of([&] { check_grads(f, std::tuple{kX}); }),
              HasSubstr("VJP cotangent projection"));
}

TEST(CheckGrads, FindsAWrongSecondDerivative) {
  // x^3 whose first derivative, 3 x^2, is hidden from differentiation.
  const auto f = [](Array x) {
    const Array slope = lax::stop_gradient(lax::mul(lax::full_like(x, 3.0), lax::square(x)));
    const Array zero = lax::sub(x, lax::stop_gradient(x));
    return lax::add(lax::stop_gradient(lax::integer_pow(x, 3)), lax::mul(slope, zero));
  };
  EXPECT_NO_THROW(check_grads(f, std::tuple{kX}));
  EXPECT_NE(failure_of([&] { check_grads(f, std::tuple{kX}, {.order = 2}); }), "");
}

TEST(CheckPrimitive, FindsAWrongBatchRule) {
  const Array x({0.5, 1.5, -0.75});
  EXPECT_THAT(failure_of([&] { check_primitive(test_wrong_batch_p, {}, {x}); }),
              HasSubstr("test_wrong_batch, vmap, in_axes (1)"));
}

TEST(CheckPrimitive, FindsAnAbstractEvalThatPromisesSomethingElse) {
  const Primitive<> p{
      "test_wrong_aval", [] {
        return Rules<>{
            .impl = [](const NoParams&, std::span<const Array> x) { return Arrays{x[0]}; },
            .abstract_eval =
                [](const NoParams&, std::span<const Aval> x) {
                  return AbstractResult(x[0].with_dtype(f32));
                }};
      }};
  EXPECT_THAT(failure_of([&] { check_primitive(p, {}, {kX}); }),
              HasSubstr("abstract_eval promises f32[3], impl gives f64[3]"));
}

}  // namespace
}  // namespace telamon
