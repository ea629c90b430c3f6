// Reductions, argmax and argmin, cumulative operations: values against loops, every rule.
#include <cmath>
#include <limits>
#include <numeric>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class P>
Example on(const Primitive<P>& primitive, const P& params, const Shape& shape,
           DType dtype = DType::f64, std::vector<std::vector<int>> linear = {}) {
  // Products of nothing and maxima of nothing have no finite differences.
  return example(primitive, params, [&](int seed) { return Arrays{sample(dtype, shape, seed)}; },
                 {.differentiate = shape.num_elements() > 0,
                  .native_rtol = 1e-14,
                  .linear = std::move(linear)});
}

TEST(ReduceSum, OfNegativeZerosIsZeroUnlessThereIsOne) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    for (const std::int64_t n : {1, 2, 3, 7, 16, 1000}) {
      const Array x = full({n, 3}, -0.0, dtype), zero = full({}, -0.0, dtype);
      const auto columns = [](Array v) { return sum(v, {.axes = {0}}); };
      const auto rows = [](Array v) { return sum(transpose(v), {.axes = {1}}); };
      const auto repeated = [n](Array v) { return sum(broadcast_to(v, {n})); };
      for (const Array& y : {columns(x), jit(columns)(x), rows(x), jit(rows)(x), repeated(zero),
                             jit(repeated)(zero)}) {
        for (const double v : y.astype(DType::f64).reshape({-1}).to_vector<double>()) {
          EXPECT_EQ(v, 0);
          EXPECT_EQ(std::signbit(v), n == 1) << n << " " << y.aval().to_string();
        }
      }
    }
  }
}

// Rows of a few elements are folded by themselves, and so are those of a loop's state.
TEST(ReduceSum, OfNegativeZerosInShortRowsAndLoops) {
  for (const std::int64_t n : {2, 3, 4, 8}) {
    const auto rows = [](Array v) { return sum(v * 2, {.axes = {1}}); };
    const auto in_loop = [](Array v) {
      return scan([](Array last, Array row) { return std::pair{last, sum(row * 2)}; }, 0.0, v)
          .second;
    };
    const Array many = full({8192, n}, -0.0, DType::f32), few = full({3, n}, -0.0, DType::f32);
    for (const Array& y : {rows(many), jit(rows)(many), in_loop(few), jit(in_loop)(few)}) {
      for (const float v : y.to_vector<float>()) ASSERT_FALSE(v != 0 || std::signbit(v)) << n;
    }
  }
}

std::vector<double> magnitudes(const Array& z) {
  std::vector<double> all;
  for (const auto& v : complex_values(z)) all.push_back(std::abs(v));
  return all;
}

struct Folding {
  const Primitive<AxesParams>* primitive;
  double start;
  double (*combine)(double, double);
};
const Folding kFoldings[] = {
    {&reduce_sum_p, 0, [](double a, double b) { return a + b; }},
    {&reduce_prod_p, 1, [](double a, double b) { return a * b; }},
    {&reduce_max_p, -kInfinity, [](double a, double b) { return std::fmax(a, b); }},
    {&reduce_min_p, kInfinity, [](double a, double b) { return std::fmin(a, b); }},
};
const struct {
  Shape shape, axes;
} kReductions[] = {{{17}, {0}},         {{3, 5}, {1}},    {{3, 5}, {0}}, {{2, 3, 4}, {0, 2}},
                   {{2, 3, 4}, {2, 0}}, {{2, 3, 4}, {1}}, {{2, 3}, {}},  {{3, 1}, {1}},
                   {{2, 3}, {0, 1}},    {{0, 3}, {0}},    {{2, 0}, {0}}, {{}, {}}};

Array naive_fold(const Folding& f, const Array& x, const Shape& axes) {
  Shape kept;
  for (int d = 0; d < x.ndim(); ++d) {
    if (!axes.contains(d)) kept.push_back(x.shape(d));
  }
  std::vector<double> out(static_cast<std::size_t>(kept.num_elements()), f.start);
  const Reader read(x);
  for_all(x.shape(), [&](const Shape& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!axes.contains(static_cast<std::int64_t>(d))) at = at * x.shape()[d] + index[d];
    }
    double& place = out[static_cast<std::size_t>(at)];
    place = f.combine(place, read(index));
  });
  return make(x.dtype(), kept, out);
}

TEST(Reduce, FoldsItsAxes) {
  for (const Folding& f : kFoldings) {
    for (const auto& c : kReductions) {
      SCOPED_TRACE(std::string(f.primitive->name()) + " of " + c.shape.to_string() + " over " +
                   c.axes.to_string());
      const Example a = on(*f.primitive, {c.axes}, c.shape);
      expect_close(a.eval(a.args())[0], naive_fold(f, a.args()[0], c.axes), 1e-12, "value");
      check_rules(a);
    }
  }
}

TEST(Reduce, OfLargeArraysInEveryLayout) {
  for (const Folding& f : {kFoldings[0], kFoldings[2]}) {
    for (const Shape& axes :
         {Shape{0}, Shape{1}, Shape{2}, Shape{0, 1}, Shape{1, 2}, Shape{0, 2}}) {
      const Array x = f64_sample({19, 37, 23});
      expect_close(f.primitive->bind1({axes}, {x}), naive_fold(f, x, axes), 1e-12,
                   axes.to_string());
    }
  }
}

TEST(Reduce, OfIntegersWraps) {
  const Array x = make(DType::u8, {4}, {200, 100, 7, 3});
  EXPECT_EQ(reduce_sum_p.bind1({{0}}, {x}).item<int>(), (200 + 100 + 7 + 3) % 256);
  EXPECT_EQ(reduce_prod_p.bind1({{0}}, {x}).item<int>(), (200 * 100 * 7 * 3) % 256);
  for (const DType d : {DType::i8, DType::i32, DType::i64, DType::u8, DType::u32, DType::u64}) {
    for (const Folding& f : kFoldings) {
      const Example a = on(*f.primitive, {{0}}, {6, 2}, d);
      check_rules(a);
    }
  }
}

TEST(Reduce, BitwiseOverBoolAndIntegers) {
  const Array x = make(DType::i32, {2, 3}, {12, 10, 7, 9, 6, 15});
  EXPECT_EQ(reduce_and_p.bind1({{1}}, {x}).to_vector<int>(),
            (std::vector<int>{12 & 10 & 7, 9 & 6 & 15}));
  EXPECT_EQ(reduce_or_p.bind1({{1}}, {x}).to_vector<int>(),
            (std::vector<int>{12 | 10 | 7, 9 | 6 | 15}));
  EXPECT_EQ(reduce_xor_p.bind1({{0}}, {x}).to_vector<int>(),
            (std::vector<int>{12 ^ 9, 10 ^ 6, 7 ^ 15}));
  for (const auto* p : {&reduce_and_p, &reduce_or_p, &reduce_xor_p}) {
    for (const DType d : {DType::bool_, DType::i32, DType::u8}) {
      check_rules(on(*p, {{1}}, {5, 3}, d));
      check_rules(on(*p, {{0}}, {0, 2}, d));
    }
  }
  EXPECT_THAT(message_of<TypeError>([] { reduce_and_p.bind({{0}}, {f64_sample({3})}); }),
              HasSubstr("reduce_and of f64[3]: takes bool or integers"));
}

TEST(Reduce, OverNothingGivesTheIdentity) {
  const auto of = [](const Primitive<AxesParams>& p, DType d) {
    return p.bind1({{0}}, {make(d, {0}, {})});
  };
  EXPECT_EQ(of(reduce_max_p, DType::f64).item<double>(), -kInfinity);
  EXPECT_EQ(of(reduce_min_p, DType::i8).item<int>(), 127);
  EXPECT_EQ(of(reduce_max_p, DType::i64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(of(reduce_and_p, DType::bool_).item<bool>());
  EXPECT_EQ(of(reduce_and_p, DType::u16).item<int>(), 65535);
}

TEST(Reduce, MaxAndMinPropagateNan) {
  const Array x = make(DType::f64, {3, 2}, {1, kNan, kInfinity, -kInfinity, 0, 2});
  for (const auto* p : {&reduce_max_p, &reduce_min_p}) {
    const std::vector<double> y = values(p->bind1({{0}}, {x}));
    EXPECT_FALSE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[1]));
  }
}

TEST(Reduce, ReadsBroadcastOperands) {
  const Array x = broadcast_in_dim_p.bind1({{3, 4}, {0}}, {Array({1.0, 2.0, 3.0})});
  EXPECT_EQ(values(reduce_sum_p.bind1({{1}}, {x})), (std::vector<double>{4, 8, 12}));
  EXPECT_EQ(values(reduce_sum_p.bind1({{0}}, {x})), (std::vector<double>{6, 6, 6, 6}));
}

TEST(ReduceMax, SharesTheDerivativeAmongTies) {
  const Array x({2.0, 5.0, 5.0, 2.0}), dx({1.0, 10.0, 20.0, 3.0});
  const std::vector<Tangent> t = {dx};
  const Params p = Params::of(AxesParams{{0}});
  EXPECT_DOUBLE_EQ(reduce_max_p.rules().jvp(p, Arrays{x}, t).tangents[0].array().item<double>(),
                   15);
  EXPECT_DOUBLE_EQ(reduce_min_p.rules().jvp(p, Arrays{x}, t).tangents[0].array().item<double>(), 2);
}

TEST(ReduceProd, IsDifferentiatedAtZeros) {
  const Array dx({1.0, 2.0, 3.0});
  const auto tangent = [&](const Array& x) {
    return reduce_prod_p.rules()
        .jvp(Params::of(AxesParams{{0}}), Arrays{x}, std::vector<Tangent>{dx})
        .tangents[0]
        .array()
        .item<double>();
  };
  EXPECT_DOUBLE_EQ(tangent(Array({2.0, 0.0, 5.0})), 2 * 2 * 5);
  EXPECT_DOUBLE_EQ(tangent(Array({0.0, 0.0, 5.0})), 0);
}

TEST(ReduceSum, TransposesToBroadcast) {
  for (const auto& c : kReductions) check_rules(on(reduce_sum_p, {c.axes}, c.shape, f64, {{0}}));
  EXPECT_THAT(message_of<IndexError>([] { reduce_sum_p.bind({{2}}, {f64_sample({2, 3})}); }),
              HasSubstr("reduce_sum of f64[2,3]: axis 2 is out of range for rank 2"));
  EXPECT_THAT(message_of<ValueError>([] { reduce_sum_p.bind({{0, 0}}, {f64_sample({2, 3})}); }),
              HasSubstr("names one dimension twice"));
  EXPECT_THAT(message_of<TypeError>([] { reduce_sum_p.bind({{0}}, {sample(DType::bool_, {2})}); }),
              HasSubstr("takes numbers"));
}

TEST(ArgMax, TakesTheFirstOfEqualsAndNanFirst) {
  const Array x = make(DType::f64, {4, 5},
                       {1, 3, 3, 2, 0, 1, 1, 1, 1, 1, kNan, 9, kNan, 0, 1, 5, 4, kNan, 2, kNan});
  EXPECT_EQ(argmax_p.bind1({{1}, DType::i32}, {x}).to_vector<int>(),
            (std::vector<int>{1, 0, 0, 2}));
  EXPECT_EQ(argmin_p.bind1({{1}, DType::i64}, {x}).to_vector<int>(),
            (std::vector<int>{4, 0, 0, 2}));
  EXPECT_EQ(argmin_p.bind1({{1}, DType::u8}, {x}).dtype(), DType::u8);
  check_rules(example(argmax_p, {{1}, DType::i32}, {x}, {.differentiate = false}));
  check_rules(example(argmin_p, {{1}, DType::i32}, {x}, {.differentiate = false}));
}

TEST(ArgMax, HasEveryRule) {
  for (const auto* p : {&argmax_p, &argmin_p}) {
    for (const std::int64_t axis : {0, 1, 2}) {
      const Example a = on(*p, {{axis}, DType::i32}, {3, 4, 2});
      check_rules(a);
    }
    check_rules(on(*p, {{0}, DType::i64}, {7}, DType::u32));
  }
  EXPECT_THAT(
      message_of<ValueError>([] { argmax_p.bind({{0}, DType::i32}, {f64_sample({0, 2})}); }),
      HasSubstr("argmax of f64[0,2]: axis 0 must not be empty"));
  EXPECT_THAT(
      message_of<ValueError>([] { argmax_p.bind({{0, 1}, DType::i32}, {f64_sample({2, 2})}); }),
      HasSubstr("exactly one axis"));
  EXPECT_THAT(message_of<TypeError>([] { argmin_p.bind({{0}, DType::f32}, {f64_sample({2})}); }),
              HasSubstr("index_dtype must be an integer"));
  EXPECT_THAT(message_of<ValueError>([] { argmin_p.bind({{0}, DType::u8}, {f64_sample({300})}); }),
              HasSubstr("cannot hold the indices"));
}

struct Running {
  const Primitive<CumulativeParams>* primitive;
  double (*combine)(double, double);
};
const Running kRunning[] = {{&cumsum_p, kFoldings[0].combine},
                            {&cumprod_p, kFoldings[1].combine},
                            {&cummax_p, kFoldings[2].combine},
                            {&cummin_p, kFoldings[3].combine}};

TEST(Cumulative, CombinesAllBefore) {
  const struct {
    Shape shape;
    std::int64_t axis;
  } cases[] = {{{17}, 0},   {{3, 5}, 0},    {{3, 5}, 1}, {{2, 1}, 1},
               {{0, 2}, 0}, {{2, 4, 3}, 1}, {{2}, 0},    {{8}, 0}};
  for (const Running& r : kRunning) {
    for (const auto& c : cases) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(std::string(r.primitive->name()) + " of " + c.shape.to_string() +
                     (reverse ? " reverse" : ""));
        const bool linear = r.primitive == &cumsum_p;
        const Example a =
            on(*r.primitive, {c.axis, reverse}, c.shape, f64,
               linear ? std::vector<std::vector<int>>{{0}} : std::vector<std::vector<int>>{});
        const Reader x(a.args()[0]);
        const auto d = static_cast<std::size_t>(c.axis);
        expect_elements(a.eval(a.args())[0], c.shape, [&](Shape index) {
          const std::int64_t last = index[d], step = reverse ? -1 : 1;
          index[d] = reverse ? c.shape[d] - 1 : 0;
          double y = x(index);
          while (index[d] != last) {
            index[d] += step;
            y = r.combine(y, x(index));
          }
          return y;
        });
        check_rules(a);
      }
    }
    check_rules(on(*r.primitive, {0, false}, {9}, DType::i32));
    check_rules(on(*r.primitive, {0, true}, {9}, DType::u8));
  }
  EXPECT_THAT(message_of<IndexError>([] { cumsum_p.bind({1, false}, {f64_sample({3})}); }),
              HasSubstr("cumsum of f64[3]: axis 1 is out of range for rank 1"));
  EXPECT_THAT(message_of<TypeError>([] { cummax_p.bind({0, false}, {sample(DType::bool_, {3})}); }),
              HasSubstr("takes real numbers"));
}

/// What JAX 0.10 gives for these tangents: its scan is the same tree.
TEST(Cumulative, SharesDerivativesAmongTiesAsJaxDoes) {
  const Array x({2.0, 5.0, 5.0, 2.0, 5.0, 5.0, 1.0}), dx({1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6});
  const auto tangent = [&](const Primitive<CumulativeParams>& p, bool reverse) {
    const Params params = Params::of(CumulativeParams{0, reverse});
    const std::vector<Tangent> t = {dx};
    return values(p.rules().jvp(params, Arrays{x}, t).tangents[0].array());
  };
  EXPECT_EQ(tangent(cummax_p, false),
            (std::vector<double>{1, 10, 55, 55, 5027.5, 27527.5, 27527.5}));
  EXPECT_EQ(tangent(cummax_p, true),
            (std::vector<double>{27527.5, 27527.5, 27550, 55000, 55000, 1e5, 1e6}));
  EXPECT_EQ(tangent(cummin_p, false), (std::vector<double>{1, 1, 1, 500.5, 500.5, 500.5, 1e6}));
}

TEST(Cumulative, ProductIsDifferentiatedAtZeros) {
  const Array x({2.0, 0.0, 3.0, 0.0, 5.0}), dx({1.0, 1.0, 1.0, 1.0, 1.0});
  const auto t =
      cumprod_p.rules()
          .jvp(Params::of(CumulativeParams{0, false}), Arrays{x}, std::vector<Tangent>{dx})
          .tangents[0]
          .array();
  EXPECT_EQ(values(t), (std::vector<double>{1, 2, 6, 0, 0}));
}

TEST(Products, HaveSecondDerivativesAtZeros) {
  const Array x({0.0, 2.0, 0.0, 3.0});
  const auto product = [](const Array& v) { return lax::reduce_prod(v, {0}); };
  const auto running = [](const Array& v) { return lax::reduce_sum(lax::cumprod(v), {0}); };
  EXPECT_EQ(values(hessian(product)(x)),
            (std::vector<double>{0, 0, 6, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(values(hessian(running)(x)),
            (std::vector<double>{0, 1, 8, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0}));
}

// Along rows and columns, of a few numbers and of many.
TEST(Products, OfComplexNumbersAreThoseOfTheStandardLibrary) {
  for (const DType dtype : {c64, c128}) {
    const double tolerance = dtype == c64 ? 1e-4 : 1e-12;
    for (const auto& [rows, n] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 3}, {4, 67}, {70, 5}}) {
      // Of magnitudes about 1, so that no product leaves the range.
      const Array z = sample(dtype, {rows, n});
      const Array x =
          lax::div(z, lax::convert_element_type(Array(magnitudes(z), z.shape()), dtype));
      const auto numbers = complex_values(x);
      const auto expect = [&](const Array& y, bool reverse, bool total, const std::string& what) {
        const auto got = complex_values(y);
        for (std::int64_t r = 0; r < rows; ++r) {
          std::complex<double> product = 1;
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t at = r * n + (reverse ? n - 1 - i : i);
            product *= numbers[static_cast<std::size_t>(at)];
            if (!total || i == n - 1) {
              const auto place = static_cast<std::size_t>(total ? r : at);
              EXPECT_LT(std::abs(got[place] - product), tolerance) << what << " " << place;
            }
          }
        }
      };
      const Array turned = lax::transpose(x, {1, 0});
      expect(lax::reduce_prod(x, {1}), false, true, "rows");
      expect(lax::reduce_prod(turned, {0}), false, true, "columns");
      for (const bool reverse : {false, true}) {
        expect(lax::cumprod(x, 1, reverse), reverse, false, "running rows");
        expect(lax::transpose(lax::cumprod(turned, 0, reverse), {1, 0}), reverse, false,
               "running columns");
      }
    }
  }
  EXPECT_EQ(complex_values(lax::reduce_prod(lax::full({0}, c64, 2), {0}))[0], 1.0);
}

const RuleExamples kReduceExamples([] {
  std::vector<Example> all;
  for (const auto* p : {&reduce_max_p, &reduce_min_p, &reduce_prod_p})
    all.push_back(on(*p, {{1}}, {2, 3}));
  all.push_back(on(reduce_sum_p, {{1}}, {2, 3}, f64, {{0}}));
  for (const auto* p : {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_prod_p}) {
    for (const DType dtype : {f32, i8, i32, i64, u8, u32, u64}) {
      all.push_back(on(*p, {{0}}, {6, 2}, dtype));
      all.back().options.grads.order = 1;
    }
  }
  for (const auto* p : {&reduce_and_p, &reduce_or_p, &reduce_xor_p}) {
    for (const DType dtype : {boolean, i32, u8}) all.push_back(on(*p, {{1}}, {2, 3}, dtype));
  }
  for (const auto* p : {&argmax_p, &argmin_p}) {
    all.push_back(on(*p, {{1}, i32}, {2, 3}));
    all.push_back(on(*p, {{0}, i64}, {7}, u32));
  }
  for (const DType dtype : {c64, c128}) {
    all.push_back(on(reduce_prod_p, {{1}}, {2, 3}, dtype));
    if (dtype == c64) all.back().options.grads.order = 1;
    all.push_back(on(cumprod_p, {0, dtype == c64}, {5, 2}, dtype));
    if (dtype == c64) all.back().options.grads.order = 1;
  }
  for (const bool reverse : {false, true}) {
    for (const auto* p : {&cumprod_p, &cummax_p, &cummin_p})
      all.push_back(on(*p, {1, reverse}, {2, 5}));
    all.push_back(on(cumsum_p, {1, reverse}, {2, 5}, f64, {{0}}));
    for (const auto* p : {&cumsum_p, &cumprod_p, &cummax_p, &cummin_p})
      all.push_back(on(*p, {0, reverse}, {9}, i32));
  }
  return all;
});

}  // namespace
}  // namespace telamon_test
