// Examples of the elementwise primitives: smooth functions in both precisions, integers of every
// width, bool.
#include "support.hpp"

namespace telamon_test {
namespace {

// 2x3 examples inside the domain of a function.
const std::vector<double> kAny{-1.7, 0.4, 2.3, -0.6, 1.1, 0.9};
const std::vector<double> kOther{0.8, -1.3, 0.7, 2.1, -0.5, 1.6};
const std::vector<double> kPositive{0.3, 1.4, 2.3, 0.6, 1.1, 0.9};
const std::vector<double> kInside{-0.7, 0.4, 0.3, -0.6, 0.1, 0.5};
const std::vector<double> kAboveOne{1.3, 1.4, 2.3, 1.6, 3.1, 1.9};

const Array kMask(std::vector<bool>{true, false, true, false, false, true}, {2, 3});

Array matrix(const std::vector<double>& values, DType dtype) {
  return lax::convert_element_type(Array(values, {2, 3}), dtype);
}

using Examples = std::vector<Example>;

Examples smooth() {
  Examples all;
  // Second derivatives in single precision would compare rounding errors.
  for (const auto& [dtype, order] : {std::pair{f64, 2}, std::pair{f32, 1}}) {
    const CheckPrimitiveOptions options{.grads = {.order = order}};
    const Array any = matrix(kAny, dtype), other = matrix(kOther, dtype),
                positive = matrix(kPositive, dtype), inside = matrix(kInside, dtype);
    for (const auto* p :
         {&neg_p, &exp_p, &exp2_p, &expm1_p, &sin_p, &cos_p, &tan_p, &atan_p, &sinh_p, &cosh_p,
          &tanh_p, &asinh_p, &logistic_p, &square_p, &erf_p, &abs_p, &cbrt_p, &copy_p}) {
      all.push_back(example(*p, {}, {any}, options));
    }
    for (const auto* p : {&log_p, &log1p_p, &sqrt_p, &rsqrt_p})
      all.push_back(example(*p, {}, {positive}, options));
    for (const auto* p : {&asin_p, &acos_p, &atanh_p, &erf_inv_p})
      all.push_back(example(*p, {}, {inside}, options));
    all.push_back(example(acosh_p, {}, {matrix(kAboveOne, dtype)}, options));
    for (const auto* p : {&add_p, &sub_p, &mul_p, &div_p, &max_p, &min_p, &atan2_p, &rem_p})
      all.push_back(example(*p, {}, {any, other}, options));
    all.push_back(example(pow_p, {}, {positive, other}, options));
    for (const int y : {-5, -2, -1, 0, 1, 2, 3, 7, 10})
      all.push_back(example(integer_pow_p, {y}, {positive}, options));
  }
  const Array integers(std::vector<std::int32_t>{0, 1, 2, -1, 3, 5}, {2, 3});
  all.push_back(example(pow_p, {}, {matrix(kPositive, f64), integers}));
  return all;
}
const RuleExamples kSmooth(smooth);

/// Linear in the operands of these sets.
Examples linear() {
  const Array x = matrix(kAny, f64), y = matrix(kOther, f64);
  return {
      example(neg_p, {}, {x}, {.linear = {{0}}}),
      example(copy_p, {}, {x}, {.linear = {{0}}}),
      example(add_p, {}, {x, y}, {.linear = {{0}, {1}, {0, 1}}}),
      example(sub_p, {}, {x, y}, {.linear = {{0}, {1}, {0, 1}}}),
      example(mul_p, {}, {x, y}, {.linear = {{0}, {1}}}),
      example(div_p, {}, {x, y}, {.linear = {{0}}}),
      example(convert_element_type_p, {f32, false}, {x}, {.grads = {.order = 1}, .linear = {{0}}}),
      example(select_n_p, {}, {kMask, x, y}, {.linear = {{1}, {2}, {1, 2}}})};
}
const RuleExamples kLinear(linear);

Examples complex_numbers() {
  Examples all;
  for (const auto& [dtype, order] : {std::pair{c128, 2}, std::pair{c64, 1}}) {
    const CheckPrimitiveOptions options{.grads = {.order = order}};
    const auto with = [&](std::vector<std::vector<int>> linear) {
      return CheckPrimitiveOptions{.grads = options.grads, .linear = std::move(linear)};
    };
    const Array x = sample(dtype, {2, 3}), y = sample(dtype, {2, 3}, 1);
    all.push_back(example(neg_p, {}, {x}, with({{0}})));
    all.push_back(example(add_p, {}, {x, y}, with({{0}, {1}, {0, 1}})));
    all.push_back(example(sub_p, {}, {x, y}, with({{0}, {1}, {0, 1}})));
    all.push_back(example(mul_p, {}, {x, y}, with({{0}, {1}})));
    all.push_back(example(div_p, {}, {x, y}, with({{0}})));
    all.push_back(example(square_p, {}, {x}, options));
    for (const int n : {-2, 0, 1, 3}) all.push_back(example(integer_pow_p, {n}, {x}, options));
    for (const auto* p : {&eq_p, &ne_p}) all.push_back(example(*p, {}, {x, y}));
  }
  return all;
}
const RuleExamples kComplexNumbers(complex_numbers);

Examples piecewise_constant() {
  Examples all;
  for (const DType dtype : {f32, f64}) {
    const Array x = matrix(kAny, dtype), y = matrix(kOther, dtype);
    for (const auto* p : {&sign_p, &floor_p, &ceil_p, &is_finite_p})
      all.push_back(example(*p, {}, {x}));
    // Constant to differentiation, which finite differences do not know.
    all.push_back(example(stop_gradient_p, {}, {x}, {.differentiate = false}));
    for (const auto* p : {&eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p})
      all.push_back(example(*p, {}, {x, y}));
    for (const auto method : {RoundingMethod::away_from_zero, RoundingMethod::to_nearest_even})
      all.push_back(example(round_p, {method}, {x}));
  }
  return all;
}
const RuleExamples kPiecewiseConstant(piecewise_constant);

Examples integers() {
  Examples all;
  for (const DType dtype : {i8, i16, i32, i64, u8, u16, u32, u64}) {
    const Array x = make(dtype, {2, 3}, {1, 7, 0, 100, 42, 3}),
                y = make(dtype, {2, 3}, {3, 0, 5, 1, 9, 3});
    for (const auto* p : {&neg_p, &sign_p, &square_p, &not_p, &copy_p})
      all.push_back(example(*p, {}, {x}));
    for (const auto* p : {&add_p, &sub_p, &mul_p, &div_p, &rem_p, &max_p, &min_p, &and_p, &or_p,
                          &xor_p, &shift_left_p, &shift_right_logical_p, &shift_right_arithmetic_p,
                          &eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}) {
      all.push_back(example(*p, {}, {x, y}));
    }
    all.push_back(example(integer_pow_p, {3}, {x}));
    all.push_back(example(clamp_p, {}, {y, x, x}));
    if (!is_unsigned_integer(dtype))
      all.push_back(example(abs_p, {}, {make(dtype, {3}, {-3, 0, 4})}));
  }
  return all;
}
const RuleExamples kIntegers(integers);

Examples bools() {
  const Array a = make(boolean, {2, 2}, {0, 0, 1, 1}), b = make(boolean, {2, 2}, {0, 1, 0, 1});
  Examples all;
  for (const auto* p : {&not_p, &copy_p, &stop_gradient_p}) all.push_back(example(*p, {}, {a}));
  for (const auto* p :
       {&and_p, &or_p, &xor_p, &max_p, &min_p, &eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}) {
    all.push_back(example(*p, {}, {a, b}));
  }
  return all;
}
const RuleExamples kBools(bools);

Examples choices() {
  const Array x = matrix(kAny, f64), y = matrix(kOther, f64), z = matrix(kPositive, f64);
  const Array which = make(i32, {2, 3}, {0, 1, 2, 2, 1, 0}), index = make(i32, {}, {1});
  const Array low = matrix({-1, -1, -1, 0, 0, 0}, f64), high = matrix({1, 1, 1, 2, 1.05, 2}, f64);
  const Array zero = lax::full({}, f64, 0.0), half = lax::full({}, f64, 0.5),
              one = lax::full({}, f64, 1.0);
  return {example(select_n_p, {}, {kMask, x, y}),
          example(select_n_p, {}, {Array(true), x, y}),
          example(select_n_p, {}, {which, x, y, z}),
          example(select_n_p, {}, {index, x, y, z}),
          example(select_n_p, {}, {index, x}),
          example(select_n_p, {}, {Array(false), half, half}),
          example(select_n_p, {}, {kMask, which, which}),
          example(clamp_p, {}, {low, x, high}),
          example(clamp_p, {}, {zero, x, one}),
          example(clamp_p, {}, {zero, x, high}),
          example(clamp_p, {}, {low, x, one}),
          example(clamp_p, {}, {zero, half, one})};
}
const RuleExamples kChoices(choices);

Examples conversions() {
  const Array values({0.0, 1.0, 2.75, -1.5, 100.25, 7.0}),
      small({0.25, 0.5, -0.75, 1.0, 0.125, -0.25});
  const DType dtypes[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64};
  Examples all;
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      const bool smooth = is_float(from) && is_float(to);
      all.push_back(example(convert_element_type_p, {to, false},
                            {lax::convert_element_type(smooth ? small : values, from)},
                            {.grads = {.order = 1}, .differentiate = smooth}));
    }
  }
  for (const DType to : {i32, u8, f16, f64, u64}) {
    all.push_back(
        example(bitcast_convert_type_p, {to}, {make(f32, {3, 2}, kAny)}, {.differentiate = false}));
  }
  return all;
}
const RuleExamples kConversions(conversions);

const RuleExamples kOrderStatistics([] {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array x(std::vector<double>{3, -0., nan, 2}), y(std::vector<double>{1, 0, 5, 2}),
      z(std::vector<double>{2, -0., nan, 7});
  Examples all;
  for (const std::int64_t rank : {0, 1, 2}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      all.push_back(
          example(order_statistic_p, {rank},
                  {lax::convert_element_type(x, dtype), lax::convert_element_type(y, dtype),
                   lax::convert_element_type(z, dtype)},
                  {.differentiate = false}));
  }
  for (const std::int64_t rank : {0, 1, 3})  // apart from each other, so that none changes places
    all.push_back(
        example(order_statistic_p, {rank},
                {Array(std::vector<double>{3, -1, 8}), Array(std::vector<double>{1, 2, 5}),
                 Array(std::vector<double>{2, 7, 4}), Array(std::vector<double>{9, 0, 6})}));
  const Array whole(std::vector<std::int32_t>{3, -7, 5}),
      none(std::vector<bool>{true, false, true});
  all.push_back(example(order_statistic_p, {1}, {whole, whole, whole, whole}));
  all.push_back(example(order_statistic_p, {0}, {none, none}));
  return all;
});

const RuleExamples kThreefry([] {
  const Array k(std::vector<std::uint32_t>{1, 2, 3}),
      x(std::vector<std::uint32_t>{7, 0, 0xffffffffu});
  return Examples{example(threefry2x32_p, {}, {k, x, x, k})};
});

}  // namespace
}  // namespace telamon_test
