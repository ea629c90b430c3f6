// The checkers find faults, and only faults.
#include "telamon/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "telamon/families.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jvp.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
namespace {

using telamon_test::message_of;
using testing::HasSubstr;

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
TEST(CheckGrads, FindsAWrongJvpRule) {
  const auto f = [](Array x) { return test_wrong_jvp_p.bind1({}, {x}); };
  EXPECT_THAT(message_of<CheckFailure>([&] { check_grads(f, std::tuple{kX}); }),
              HasSubstr("JVP tangent f64[3]: got"));
}

TEST(CheckGrads, FindsAWrongTransposeRule) {
  const auto f = [](Array x) { return test_wrong_transpose_p.bind1({}, {x}); };
  EXPECT_NO_THROW(check_grads(f, std::tuple{kX}, {.modes = GradMode::forward}));
  EXPECT_THAT(message_of<CheckFailure>([&] { check_grads(f, std::tuple{kX}); }),
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
  EXPECT_NE(message_of<CheckFailure>([&] { check_grads(f, std::tuple{kX}, {.order = 2}); }), "");
}

// ---- complex numbers ----------------------------------------------------------------------------
using Numbers = std::vector<std::complex<double>>;

Array complex_array(const Numbers& values, Shape shape) {
  return Array::from_data(values.data(), c128, std::move(shape));
}
/// Im z is Re(-i z).
Numbers numbers_of(const Array& x) {
  const Array turned = matmul(x.reshape({x.size(), 1}), complex_array({{0.0, -1.0}}, {1, 1}));
  const auto re = x.to_vector<double>(), im = turned.to_vector<double>();
  Numbers values;
  for (std::size_t i = 0; i < re.size(); ++i) values.emplace_back(re[i], im[i]);
  return values;
}

const Array kZ = complex_array({{0.5, -1.0}, {1.5, 0.25}, {-0.75, 2.0}, {0.0, 1.0}}, {2, 2});

/// z -> factor z or, as `conjugate` says, factor conj(z); and its derivative, with another factor.
Rules<> rotation(std::complex<double> factor, std::complex<double> slope, bool conjugate) {
  const auto turned = [](std::complex<double> by, bool conjugated) {
    return [=](const NoParams&, std::span<const Array> x) {
      Numbers values = numbers_of(x[0]);
      for (auto& v : values) v = by * (conjugated ? std::conj(v) : v);
      return Arrays{complex_array(values, x[0].shape())};
    };
  };
  Rules<> rules;
  rules.impl = turned(factor, conjugate);
  rules.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
    return AbstractResult(x[0].strong());
  };
  rules.jvp = [=](const NoParams& p, std::span<const Array> x, std::span<const Tangent> t) {
    const Array dx = t[0].instantiate();
    return JvpResult{turned(factor, conjugate)(p, x),
                     {Tangent(turned(slope, conjugate)(p, {&dx, 1})[0])}};
  };
  return rules;
}
std::string rotation_failure(const Rules<>& rules) {
  const Primitive<> p{"test_rotation", [&] { return rules; }};
  return message_of<CheckFailure>([&] {
    check_grads([&](Array z) { return p.bind1({}, {z}); }, std::tuple{kZ},
                {.modes = GradMode::forward});
  });
}

TEST(CheckGrads, MovesComplexArgumentsInTheWholePlane) {
  using namespace std::complex_literals;
  EXPECT_EQ(rotation_failure(rotation(2.0 + 1i, 2.0 + 1i, false)), "");
  EXPECT_EQ(rotation_failure(rotation(2.0 + 1i, 2.0 + 1i, true)), "");
  EXPECT_THAT(rotation_failure(rotation(2.0 + 1i, 2.0 - 1i, false)),
              HasSubstr("JVP tangent c128[2,2]: got ("));
  // Right along the real axis.
  EXPECT_NE(rotation_failure(rotation(1.0, 1i, true)), "");
}

TEST(CheckGrads, AcceptsRightDerivativesOfComplexFunctions) {
  const auto linear = [](Array z) { return sum(z.T().reshape({4})); };
  EXPECT_NO_THROW(check_grads(linear, std::tuple{kZ}, {.order = 2}));
  const auto product = [](Array z) { return matmul(kZ, z); };
  EXPECT_NO_THROW(check_grads(product, std::tuple{kZ.T()}, {.order = 2}));
  const auto real_part = [](Array z) { return z.astype(f64) * 3.0; };
  EXPECT_NO_THROW(check_grads(real_part, std::tuple{kZ}, {.order = 2}));
  const auto embedded = [](Array x) { return x.astype(c128); };
  EXPECT_NO_THROW(check_grads(embedded, std::tuple{kX}, {.order = 2}));
  const auto narrow = [](Array z) { return cumsum(z.astype(c64)); };
  EXPECT_NO_THROW(check_grads(narrow, std::tuple{kZ(0)}, {.order = 1}));
}

/// What check_grads says of z -> (2 + i) z, whose transpose is multiplication by `factor`.
std::string transpose_failure(const char* name, std::complex<double> factor) {
  using namespace std::complex_literals;
  const Primitive<> p{
      name, [&] {
        Rules<> rules = rotation(2.0 + 1i, 0.0, false);
        rules.jvp = [&p, impl = rules.impl](const NoParams& none, std::span<const Array> x,
                                            std::span<const Tangent> t) {
          return JvpResult{impl(none, x), {Tangent(p.bind1({}, {t[0].instantiate()}))}};
        };
        rules.transpose = [by = rotation(factor, 0.0, false).impl](const NoParams& none,
                                                                   std::span<const Tangent> ct,
                                                                   std::span<const LinearInput>) {
          const Array c = ct[0].instantiate();
          return std::vector<Tangent>{by(none, {&c, 1})[0]};
        };
        return rules;
      }};
  return message_of<CheckFailure>([&] {
    check_grads([&](Array z) { return p.bind1({}, {z}); }, std::tuple{kZ},
                {.modes = GradMode::reverse});
  });
}

TEST(CheckGrads, FindsAWrongTransposeInTheImaginaryPart) {
  using namespace std::complex_literals;
  EXPECT_EQ(transpose_failure("test_times", 2.0 + 1i), "");
  EXPECT_THAT(transpose_failure("test_times_conjugate", 2.0 - 1i),
              HasSubstr("VJP cotangent projection"));
}

TEST(CheckPrimitive, TakesComplexOperands) {
  EXPECT_NO_THROW(check_primitive(transpose_p, {{1, 0}}, {kZ}, {.linear = {{0}}}));
  EXPECT_NO_THROW(check_primitive(cumsum_p, {0, false}, {kZ}, {.linear = {{0}}}));
}

// ---- comparison --------------------------------------------------------------------------------
TEST(CheckClose, IsStrictAboutWhatIsNotFinite) {
  const auto close = [](const Array& got, const Array& want) {
    return message_of<CheckFailure>([&] { detail::check_close(got, want, 1.0, 1.0, "x"); }) == "";
  };
  const std::complex<double> infinite(1.0, inf);
  EXPECT_TRUE(close(Array(1.5), Array(1.0)));
  EXPECT_TRUE(close(Array(nan), Array(nan)));
  EXPECT_TRUE(close(Array(-inf), Array(-inf)));
  EXPECT_FALSE(close(Array(nan), Array(1.0)));
  EXPECT_FALSE(close(Array(1.0), Array(nan)));
  EXPECT_FALSE(close(Array(inf), Array(1.0)));
  EXPECT_FALSE(close(Array(1.0), Array(inf)));
  EXPECT_FALSE(close(Array(-inf), Array(inf)));
  EXPECT_FALSE(close(Array(inf), Array(nan)));
  EXPECT_FALSE(close(Array(1.0), Array(1.0f)));
  EXPECT_FALSE(close(Array({1.0}), Array(1.0)));
  EXPECT_TRUE(close(complex_array({infinite}, {}), complex_array({infinite}, {})));
  EXPECT_FALSE(close(complex_array({infinite}, {}), complex_array({{1.0, 1.0}}, {})));
  EXPECT_FALSE(close(complex_array({{1.0, 1.0}}, {}), complex_array({infinite}, {})));
  EXPECT_FALSE(close(complex_array({{1.0, 4.0}}, {}), complex_array({{1.0, 0.0}}, {})));
}

// ---- one rule of sub(x, 2 y) is wrong at a time -------------------------------------------------
using SubRules = Rules<>;

/// A batch of matrices with its batch axis in front.
Array at_front(const Array& x, BatchAxis axis, std::int64_t size) {
  if (!axis) return lax::broadcast(x, {size});
  if (*axis == 0) return x;
  return lax::transpose(x, *axis == 1 ? Shape{1, 0, 2} : Shape{2, 0, 1});
}

/// What the checker says of x - 2 y with right rules, of which `spoil` replaces one.
std::string failure_with(const std::function<void(SubRules&)>& spoil,
                         const CheckPrimitiveOptions& options = {.linear = {{0}, {1}, {0, 1}}}) {
  const auto f = [](const Array& x, const Array& y) {
    return lax::sub(x, lax::mul(lax::full_like(y, 2.0), y));
  };
  SubRules rules;
  rules.impl = [f](const NoParams&, std::span<const Array> x) { return Arrays{f(x[0], x[1])}; };
  rules.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
    return AbstractResult(x[0].strong());
  };
  rules.jvp = [f](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
    return JvpResult{{f(x[0], x[1])}, {Tangent(f(t[0].instantiate(), t[1].instantiate()))}};
  };
  rules.transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput>) {
    const Array c = ct[0].instantiate();
    return std::vector<Tangent>{c, lax::mul(lax::full_like(c, -2.0), c)};
  };
  rules.batch = [f](const NoParams&, const AxisInfo& axis, std::span<const Array> x,
                    std::span<const BatchAxis> axes) {
    return BatchResult{{f(at_front(x[0], axes[0], axis.size), at_front(x[1], axes[1], axis.size))},
                       {0}};
  };
  rules.lower = element(
      [](Emitter& e, Scalar x, Scalar y) { return e.sub(x, e.mul(e.constant(y.dtype(), 2), y)); });
  spoil(rules);
  const Primitive<> p{"test_sub_twice", [&] { return rules; }};
  const std::vector<double> u{0.5, 1.5, -0.75, 2.0, -1.0, 0.25, 3.0, 1.0, -2.0},
      v{1.25, -0.5, 3.0, 0.75, 0.125, -2.0, 0.0, 4.0, 1.5};
  const Array x(u, {3, 3}), y(v, {3, 3});
  return message_of<CheckFailure>([&] { check_primitive(p, {}, {x, y}, options); });
}

TEST(CheckPrimitive, AcceptsRightRules) {
  EXPECT_EQ(failure_with([](SubRules&) {}), "");
}

TEST(CheckPrimitive, FindsAWrongType) {
  EXPECT_EQ(failure_with([](SubRules& r) {
              r.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
                return AbstractResult(x[0].with_dtype(f32));
              };
            }),
            "test_sub_twice: abstract_eval promises f32[3,3], impl gives f64[3,3]");
  EXPECT_EQ(failure_with([](SubRules& r) {
              r.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
                return AbstractResult(std::vector<Aval>{x[0], x[1]});
              };
            }),
            "test_sub_twice: abstract_eval promises 2 results, impl gives 1");
}

TEST(CheckPrimitive, FindsAWrongLowering) {
  const std::string failure = failure_with([](SubRules& r) {
    r.lower = element([](Emitter& e, Scalar x, Scalar y) { return e.sub(x, e.add(y, x)); });
  });
#if TELAMON_WITH_LLVM
  EXPECT_THAT(failure, HasSubstr("test_sub_twice, native jit against eager f64[3,3]: got"));
#else
  EXPECT_EQ(failure, "");  // lowerings are not used
#endif
}

TEST(CheckPrimitive, FindsAWrongJvpRule) {
  EXPECT_THAT(failure_with([](SubRules& r) {
                r.jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
                  return JvpResult{{lax::sub(x[0], lax::add(x[1], x[1]))},
                                   {lax::sub(t[0].instantiate(), t[1].instantiate())}};
                };
              }),
              HasSubstr("test_sub_twice, JVP tangent f64[3,3]: got"));
}

TEST(CheckPrimitive, FindsAJvpRuleThatForgetsSymbolicZeros) {
  // Right when both tangents are there; without the second it takes the wrong one.
  EXPECT_THAT(failure_with([](SubRules& r) {
                r.jvp = [jvp = r.jvp](const NoParams& p, std::span<const Array> x,
                                      std::span<const Tangent> t) {
                  JvpResult y = jvp(p, x, t);
                  if (t[1].is_zero()) y.tangents[0] = Zero{x[0].aval()};
                  return y;
                };
              }),
              HasSubstr("test_sub_twice, jvp in operand 0 alone against zeros for the others"));
}

TEST(CheckPrimitive, FindsAWrongTransposeRule) {
  const auto forgets_the_factor = [](SubRules& r) {
    r.transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput>) {
      return std::vector<Tangent>{ct[0], lax::neg(ct[0].instantiate())};
    };
  };
  EXPECT_THAT(failure_with(forgets_the_factor),
              HasSubstr("test_sub_twice, <v, transpose(w)> against <f(v), w> in operands 1 "));
  const auto has_another_shape = [](SubRules& r) {
    r.transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput>) {
      const Array sum = lax::reduce_sum(ct[0].instantiate(), {0});
      return std::vector<Tangent>{sum, sum};
    };
  };
  EXPECT_THAT(failure_with(has_another_shape),
              HasSubstr("test_sub_twice, transpose in operands 0: the cotangent of operand 0 is "
                        "f64[3], not f64[3,3]"));
}

TEST(CheckPrimitive, FindsAWrongBatchRule) {
  // Right for batches along axis 0 alone.
  EXPECT_THAT(failure_with([](SubRules& r) {
                r.batch = [impl = r.impl](const NoParams& p, const AxisInfo& axis,
                                          std::span<const Array> x,
                                          std::span<const BatchAxis> axes) {
                  Arrays full;
                  for (std::size_t i = 0; i < 2; ++i)
                    full.push_back(axes[i] ? x[i] : at_front(x[i], axes[i], axis.size));
                  return BatchResult{impl(p, full), {0}};
                };
              }),
              HasSubstr("test_sub_twice, vmap, in_axes (1, None)"));
  EXPECT_THAT(failure_with([](SubRules& r) {
                r.batch = [batch = r.batch](const NoParams& p, const AxisInfo& axis,
                                            std::span<const Array> x,
                                            std::span<const BatchAxis> axes) {
                  BatchResult y = batch(p, axis, x, axes);
                  y.axes[0] = 1;
                  return y;
                };
              }),
              HasSubstr("test_sub_twice"));
}

TEST(CheckPrimitive, FindsAWrongSecondDerivative) {
  const Primitive<> cube{
      "test_cube_without_second_derivative", [] {
        Rules<> r;
        r.impl = [](const NoParams&, std::span<const Array> x) {
          return Arrays{lax::integer_pow(x[0], 3)};
        };
        r.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
          return AbstractResult(x[0].strong());
        };
        r.jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
          const Array slope = lax::mul(lax::full_like(x[0], 3.0), lax::square(x[0]));
          return JvpResult{{lax::integer_pow(x[0], 3)},
                           {lax::mul(lax::stop_gradient(slope), t[0].instantiate())}};
        };
        r.lower = element([](Emitter& e, Scalar x) { return e.mul(x, e.mul(x, x)); });
        return r;
      }};
  const Array x({0.5, 1.5, -0.75});
  EXPECT_NO_THROW(check_primitive(cube, {}, {x}, {.grads = {.order = 1}, .native_rtol = 1e-15}));
  EXPECT_THAT(
      message_of<CheckFailure>([&] { check_primitive(cube, {}, {x}, {.native_rtol = 1e-15}); }),
      HasSubstr("test_cube_without_second_derivative, JVP of JVP tangent"));
}

}  // namespace
}  // namespace telamon
