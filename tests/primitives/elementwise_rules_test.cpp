// Every rule of every elementwise primitive against the others: check_primitive.
#include "primitives/support.hpp"

namespace telamon_test {
namespace {

// 2x3 examples inside the domain of a function.
const std::vector<double> kAny{-1.7, 0.4, 2.3, -0.6, 1.1, 0.9};
const std::vector<double> kOther{0.8, -1.3, 0.7, 2.1, -0.5, 1.6};
const std::vector<double> kPositive{0.3, 1.4, 2.3, 0.6, 1.1, 0.9};
const std::vector<double> kInside{-0.7, 0.4, 0.3, -0.6, 0.1, 0.5};
const std::vector<double> kAboveOne{1.3, 1.4, 2.3, 1.6, 3.1, 1.9};

Array matrix(const std::vector<double>& values, DType dtype) {
  return lax::convert_element_type(Array(values, {2, 3}), dtype);
}

struct Smooth {
  const Primitive<>* primitive;
  std::vector<std::vector<double>> operands;
};

std::vector<Smooth> smooth_primitives() {
  std::vector<Smooth> all;
  for (const auto* p :
       {&neg_p, &exp_p, &exp2_p, &expm1_p, &sin_p, &cos_p, &tan_p, &atan_p, &sinh_p, &cosh_p,
        &tanh_p, &asinh_p, &logistic_p, &square_p, &erf_p, &abs_p, &cbrt_p, &copy_p}) {
    all.push_back({p, {kAny}});
  }
  for (const auto* p : {&log_p, &log1p_p, &sqrt_p, &rsqrt_p}) all.push_back({p, {kPositive}});
  for (const auto* p : {&asin_p, &acos_p, &atanh_p, &erf_inv_p}) all.push_back({p, {kInside}});
  all.push_back({&acosh_p, {kAboveOne}});
  for (const auto* p : {&add_p, &sub_p, &mul_p, &div_p, &max_p, &min_p, &atan2_p, &rem_p})
    all.push_back({p, {kAny, kOther}});
  all.push_back({&pow_p, {kPositive, kOther}});
  return all;
}

void check_all(DType dtype, int order) {
  for (const Smooth& s : smooth_primitives()) {
    SCOPED_TRACE(s.primitive->name());
    Arrays args;
    for (const auto& values : s.operands) args.push_back(matrix(values, dtype));
    EXPECT_NO_THROW(
        detail::check_primitive_erased(*s.primitive, {}, args, {.grads = {.order = order}}));
  }
}

TEST(ElementwiseRules, AgreeWithEachOtherInDoublePrecision) { check_all(f64, 2); }
TEST(ElementwiseRules, AgreeWithEachOtherInSinglePrecision) { check_all(f32, 1); }

TEST(ElementwiseRules, OfPiecewiseConstantFunctionsGiveZeroDerivatives) {
  for (const DType dtype : {f32, f64}) {
    const Array x = matrix(kAny, dtype), y = matrix(kOther, dtype);
    for (const auto* p : {&sign_p, &floor_p, &ceil_p, &is_finite_p})
      EXPECT_NO_THROW(check_primitive(*p, {}, {x})) << p->name();
    for (const auto* p : {&eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p})
      EXPECT_NO_THROW(check_primitive(*p, {}, {x, y})) << p->name();
    for (const auto method : {RoundingMethod::away_from_zero, RoundingMethod::to_nearest_even}) {
      EXPECT_NO_THROW(check_primitive(round_p, RoundParams{method}, {x}));
    }
  }
}

TEST(ElementwiseRules, AgreeOnIntegers) {
  for (const DType dtype : {i8, i16, i32, i64, u8, u16, u32, u64}) {
    const Array x = lax::convert_element_type(
        Array(std::vector<std::int32_t>{1, 7, 0, 100, 42, 3}, {2, 3}), dtype);
    const Array y = lax::convert_element_type(
        Array(std::vector<std::int32_t>{3, 0, 5, 1, 9, 3}, {2, 3}), dtype);
    for (const auto* p : {&neg_p, &sign_p, &square_p, &not_p, &copy_p})
      EXPECT_NO_THROW(check_primitive(*p, {}, {x})) << p->name();
    for (const auto* p : {&add_p, &sub_p, &mul_p, &div_p, &rem_p, &max_p, &min_p, &and_p, &or_p,
                          &xor_p, &shift_left_p, &shift_right_logical_p, &shift_right_arithmetic_p,
                          &eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}) {
      EXPECT_NO_THROW(check_primitive(*p, {}, {x, y})) << p->name() << " " << short_name(dtype);
    }
    EXPECT_NO_THROW(check_primitive(integer_pow_p, {3}, {x}));
    EXPECT_NO_THROW(check_primitive(clamp_p, {}, {y, x, x}));
  }
  EXPECT_NO_THROW(check_primitive(abs_p, {}, {Array(std::vector<std::int32_t>{-3, 0, 4})}));
}

TEST(ElementwiseRules, AgreeOnBool) {
  const Array a(std::vector<bool>{false, false, true, true}, {2, 2}),
      b(std::vector<bool>{false, true, false, true}, {2, 2});
  for (const auto* p : {&not_p, &copy_p, &stop_gradient_p})
    EXPECT_NO_THROW(check_primitive(*p, {}, {a})) << p->name();
  for (const auto* p :
       {&and_p, &or_p, &xor_p, &max_p, &min_p, &eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}) {
    EXPECT_NO_THROW(check_primitive(*p, {}, {a, b})) << p->name();
  }
}

TEST(ElementwiseRules, OfIntegerPowAgreeForEveryExponent) {
  for (const int y : {-5, -2, -1, 0, 1, 2, 3, 7, 10}) {
    EXPECT_NO_THROW(check_primitive(integer_pow_p, {y}, {matrix(kPositive, f64)})) << y;
    EXPECT_NO_THROW(
        check_primitive(integer_pow_p, {y}, {matrix(kPositive, f32)}, {.grads = {.order = 1}}))
        << y;
  }
}

TEST(ElementwiseRules, OfPowAgreeForIntegerExponents) {
  const Array y(std::vector<std::int32_t>{0, 1, 2, -1, 3, 5}, {2, 3});
  EXPECT_NO_THROW(check_primitive(pow_p, {}, {matrix(kPositive, f64), y}));
}

TEST(ElementwiseRules, OfSelectAgreeForScalarAndFullChoices) {
  const Array x = matrix(kAny, f64), y = matrix(kOther, f64), z = matrix(kPositive, f64);
  const Array mask(std::vector<bool>{true, false, true, false, false, true}, {2, 3});
  const Array which(std::vector<std::int32_t>{0, 1, 2, 2, 1, 0}, {2, 3});
  const Array index = lax::convert_element_type(Array(1), i32);
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {mask, x, y}));
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {Array(true), x, y}));
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {which, x, y, z}));
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {index, x, y, z}));
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {index, x}));
  const Array scalar = lax::convert_element_type(Array(0.5), f64);
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {Array(false), scalar, scalar}));
  EXPECT_NO_THROW(check_primitive(select_n_p, {}, {mask, which, which}));
}

TEST(ElementwiseRules, OfClampAgreeForScalarAndFullBounds) {
  const Array x = matrix(kAny, f64), low = matrix({-1, -1, -1, 0, 0, 0}, f64),
              high = matrix({1, 1, 1, 2, 1.05, 2}, f64);
  const Array zero = lax::full({}, f64, 0.0), one = lax::full({}, f64, 1.0);
  EXPECT_NO_THROW(check_primitive(clamp_p, {}, {low, x, high}));
  EXPECT_NO_THROW(check_primitive(clamp_p, {}, {zero, x, one}));
  EXPECT_NO_THROW(check_primitive(clamp_p, {}, {zero, x, high}));
  EXPECT_NO_THROW(check_primitive(clamp_p, {}, {low, x, one}));
  EXPECT_NO_THROW(check_primitive(clamp_p, {}, {zero, lax::full({}, f64, 0.5), one}));
}

TEST(ElementwiseRules, OfConversionsAgreeForEveryPairOfDtypes) {
  const Array values({0.0, 1.0, 2.75, -1.5, 100.25, 7.0}),
      small({0.25, 0.5, -0.75, 1.0, 0.125, -0.25});
  const DType dtypes[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      const bool smooth = is_float(from) && is_float(to);
      const Array x = lax::convert_element_type(smooth ? small : values, from);
      EXPECT_NO_THROW(check_primitive(convert_element_type_p, {to, false}, {x},
                                      {.grads = {.order = 1}, .differentiate = smooth}))
          << short_name(from) << " to " << short_name(to);
    }
  }
}

TEST(ElementwiseRules, OfBitcastsAgreeForEveryWidth) {
  const Array x = lax::reshape(vector_of<double>(kAny, f32), {3, 2});
  for (const DType to : {i32, u8, f16, f64, u64})
    EXPECT_NO_THROW(check_primitive(bitcast_convert_type_p, {to}, {x}, {.differentiate = false}))
        << short_name(to);
}

TEST(ElementwiseRules, OfThreefryAgree) {
  const Array k(std::vector<std::uint32_t>{1, 2, 3}),
      x(std::vector<std::uint32_t>{7, 0, 0xffffffffu});
  EXPECT_NO_THROW(check_primitive(threefry2x32_p, {}, {k, x, x, k}));
}

}  // namespace
}  // namespace telamon_test
