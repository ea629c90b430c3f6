// Eager calls on a few numbers take a short way: it gives what binding the primitive gives.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>

#include "support/backends.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);
const std::pair<const Primitive<>*, Unary> kUnary[] = {{&neg_p, lax::neg},
                                                       {&sign_p, lax::sign},
                                                       {&floor_p, lax::floor},
                                                       {&ceil_p, lax::ceil},
                                                       {&exp_p, lax::exp},
                                                       {&exp2_p, lax::exp2},
                                                       {&log_p, lax::log},
                                                       {&expm1_p, lax::expm1},
                                                       {&log1p_p, lax::log1p},
                                                       {&sin_p, lax::sin},
                                                       {&cos_p, lax::cos},
                                                       {&tan_p, lax::tan},
                                                       {&asin_p, lax::asin},
                                                       {&acos_p, lax::acos},
                                                       {&atan_p, lax::atan},
                                                       {&sinh_p, lax::sinh},
                                                       {&cosh_p, lax::cosh},
                                                       {&tanh_p, lax::tanh},
                                                       {&asinh_p, lax::asinh},
                                                       {&acosh_p, lax::acosh},
                                                       {&atanh_p, lax::atanh},
                                                       {&sqrt_p, lax::sqrt},
                                                       {&logistic_p, lax::logistic},
                                                       {&rsqrt_p, lax::rsqrt},
                                                       {&cbrt_p, lax::cbrt},
                                                       {&square_p, lax::square},
                                                       {&abs_p, lax::abs},
                                                       {&erf_p, lax::erf},
                                                       {&is_finite_p, lax::is_finite},
                                                       {&erf_inv_p, lax::erf_inv}};
const std::pair<const Primitive<>*, Binary> kBinary[] = {
    {&add_p, lax::add}, {&sub_p, lax::sub}, {&mul_p, lax::mul}, {&div_p, lax::div},
    {&rem_p, lax::rem}, {&max_p, lax::max}, {&min_p, lax::min}, {&atan2_p, lax::atan2},
    {&eq_p, lax::eq},   {&ne_p, lax::ne},   {&lt_p, lax::lt},   {&le_p, lax::le},
    {&gt_p, lax::gt},   {&ge_p, lax::ge},   {&pow_p, lax::pow}, {&and_p, lax::bitwise_and}};

constexpr DType kDTypes[] = {DType::bool_, DType::i8,   DType::i32, DType::i64, DType::u32,
                             DType::f16,   DType::bf16, DType::f32, DType::f64, DType::c64};
const Shape kShapes[] = {{}, {0}, {1}, {3}, {2, 3}, {1500}};

Array values(const Shape& shape, DType dtype, double from) {
  return (arange(shape.num_elements()) * .375 + from).astype(dtype).reshape(shape);
}

/// The type and the elements of what f gives, or the text of its error.
std::string outcome(const std::function<Array()>& f) {
  try {
    const Array y = f();
    std::string text = y.aval().to_string();
    if (is_complex(y.dtype())) return text;
    for (const double v : y.to_vector<double>())
      text += (std::signbit(v) ? " -" : " ") + std::to_string(std::bit_cast<std::uint64_t>(v));
    return text;
  } catch (const Error& e) { return e.message(); }
}

TEST(Direct, FunctionsOfOneArrayGiveWhatTheirPrimitivesGive) {
  int succeeded = 0;
  for (const auto& [primitive, f] : kUnary) {
    for (const DType dtype : kDTypes) {
      for (const Shape& shape : kShapes) {
        const Array x = values(shape, dtype, -1.25);
        const std::string expected = outcome([&, p = primitive] { return p->bind1({}, {x}); });
        EXPECT_EQ(outcome([&, g = f] { return g(x); }), expected) << primitive->name();
        succeeded += expected.find(" does not accept ") == std::string::npos;
      }
    }
  }
  EXPECT_GT(succeeded, 700);
}

TEST(Direct, FunctionsOfTwoArraysGiveWhatTheirPrimitivesGive) {
  int succeeded = 0;
  for (const auto& [primitive, f] : kBinary) {
    for (const DType dtype : kDTypes) {
      for (const Shape& shape : kShapes) {
        const Array x = values(shape, dtype, -1.25), y = values(shape, dtype, .5);
        const std::string expected = outcome([&, p = primitive] { return p->bind1({}, {x, y}); });
        EXPECT_EQ(outcome([&, g = f] { return g(x, y); }), expected) << primitive->name();
        succeeded += expected.find(" does not accept ") == std::string::npos;
      }
    }
  }
  EXPECT_GT(succeeded, 500);
}

TEST(Direct, ScalarsTakeTheShapeOfTheArrayBesideThem) {
  for (const auto& [primitive, f] : kBinary) {
    for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
      const Array x = values({3, 5}, dtype, -1.25);
      const Array two = lax::full({3, 5}, dtype, 2);
      EXPECT_EQ(outcome([&, g = f] { return g(x, 2); }),
                outcome([&, p = primitive] { return p->bind1({}, {x, two}); }));
      EXPECT_EQ(outcome([&, g = f] { return g(2, x); }),
                outcome([&, p = primitive] { return p->bind1({}, {two, x}); }));
    }
  }
}

TEST(Direct, OperatorsPromoteAsTheyDoUnderJit) {
  const std::pair<const char*, Array (*)(const Operand&, const Operand&)> functions[] = {
      {"add", add}, {"multiply", multiply}, {"divide", divide}, {"maximum", maximum}};
  const Array scalars[] = {2,
                           2.5,
                           -3,
                           1e300,
                           true,
                           2.5f,
                           values({}, DType::f32, 1.5),
                           values({}, DType::f64, 1.5),
                           values({}, DType::i32, 7)};
  for (const auto& [name, f] : functions) {
    for (const DType dtype : kDTypes) {
      for (const Shape& shape : {Shape{}, Shape{3}}) {
        const Array x = values(shape, dtype, 1.25);
        for (const Array& c : scalars) {
          // Traced, c would be no constant any more: it is captured.
          const auto once = [&, g = f](bool first) {
            return jit([&](const Array& v) { return first ? g(c, v) : g(v, c); })(x);
          };
          for (const bool first : {false, true}) {
            EXPECT_EQ(outcome([&, g = f] { return first ? g(c, x) : g(x, c); }),
                      outcome([&] { return once(first); }))
                << name << " of " << x.aval().to_string() << ", " << c.aval().to_string();
          }
        }
      }
    }
  }
}

TEST(Direct, WeakOperandsGiveWeakResults) {
  EXPECT_EQ((Array(2.0) * Array(3.0)).aval().to_string(), "~f64[]");
  EXPECT_EQ((Array(2.0) * values({2}, DType::f32, 0)).aval().to_string(), "f32[2]");
  EXPECT_EQ((Array(2.0) < Array(3.0)).aval(), lax::lt(Array(2.0), Array(3.0)).aval());
  const Array weak = broadcast_to(Array(2.0), {4});
  ASSERT_TRUE(weak.weak_type());
  EXPECT_TRUE((weak + weak).weak_type());
  EXPECT_TRUE((weak + 1.0).weak_type());
}

TEST(Direct, DonatedOperandsAreRefused) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Array x = values({8}, DType::f32, 0);
  const auto f = jit([](const Array& v) { return v + 1; }, {.donate = {0}});
  static_cast<void>(f(x));
  EXPECT_THROW(static_cast<void>(x + x), DonatedBufferError);
  EXPECT_THROW(static_cast<void>(-x), DonatedBufferError);
}

TEST(Direct, TracedValuesAreStaged) {
  const Array x = values({4}, DType::f32, 0);
  const auto program = make_jaxpr([&](const Array& v) { return v * (x + x); })(x);
  EXPECT_EQ(program.jaxpr.eqns().size(), 2u);  // x + x is staged as well
}

TEST(Direct, SmallResultsOutliveTheHandlesThatTheirBufferCameWith) {
  Array view;
  {
    const Array y = values({16}, DType::f32, 0) + 1;
    view = y.reshape({4, 4});
  }
  EXPECT_EQ(view.to_vector<float>()[15], 15 * .375f + 1);
}

}  // namespace
}  // namespace telamon
