// sort against std::stable_sort of tuples, and every rule.
#include <cmath>
#include <limits>

#include "support.hpp"

namespace telamon_test {
namespace {

TEST(Sort, OrdersLinesAlongItsDimension) {
  for (const Shape& shape : {Shape{17}, Shape{5, 3}, Shape{2, 4, 3}, Shape{0}, Shape{3, 1}}) {
    for (int dimension = 0; dimension < shape.ndim(); ++dimension) {
      SCOPED_TRACE(shape.to_string() + " along " + std::to_string(dimension));
      const Example a = example(sort_p, {dimension, true, 1},
                                [&](int k) { return Arrays{f64_sample(shape, k)}; });
      const Reader x(a.args()[0]);
      const auto d = static_cast<std::size_t>(dimension);
      expect_elements(a.eval(a.args())[0], shape, [&](Shape i) {
        std::vector<double> line;
        const auto place = static_cast<std::size_t>(i[d]);
        for (i[d] = 0; i[d] < shape[d]; ++i[d]) line.push_back(x(i));
        std::sort(line.begin(), line.end());
        return line[place];
      });
      check_rules(a);
    }
  }
}

TEST(Sort, CarriesPayloadsAndKeepsTheOrderOfEquals) {
  const Array k1 = make(DType::i32, {8}, {2, 1, 2, 0, 1, 2, 0, 1}),
              k2 = make(DType::u8, {8}, {5, 5, 3, 9, 1, 3, 9, 0});
  const Array v({0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0});
  const Arrays one = sort_p.bind({0, true, 1}, {k1, v});
  EXPECT_EQ(one[1].to_vector<int>(), (std::vector<int>{3, 6, 1, 4, 7, 0, 2, 5}));
  const Arrays two = sort_p.bind({0, true, 2}, {k1, k2, v});
  EXPECT_EQ(two[2].to_vector<int>(), (std::vector<int>{3, 6, 7, 4, 1, 2, 5, 0}));
  EXPECT_EQ(two[1].dtype(), DType::u8);
}

TEST(Sort, PutsNansLastAndTakesZerosAsEqual) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> y = values(sort_p.bind1(
      {0, true, 1}, {Array({1.0, kNan, -0.0, 0.0, -kInfinity, kInfinity, -1.0, -kNan})}));
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 6),
            (std::vector<double>{-kInfinity, -1, 0, 0, 1, kInfinity}));
  EXPECT_TRUE(std::signbit(y[2]) && !std::signbit(y[3]));
  EXPECT_TRUE(std::isnan(y[6]) && std::isnan(y[7]));
}

TEST(Sort, HasEveryRuleWithSeveralOperands) {
  for (const int num_keys : {1, 2}) {
    const Example a = example(sort_p, {1, true, num_keys}, [](int k) {
      return Arrays{f64_sample({2, 5}, k), f64_sample({2, 5}, k + 5), f64_sample({2, 5}, k + 9)};
    });
    check_rules(a);
  }
  for (const DType d : {DType::bool_, DType::i8, DType::i64, DType::u8, DType::u64, DType::f32}) {
    const Array y = sort_p.bind1({0, true, 1}, {sample(d, {11})});
    const std::vector<double> v = values(y);
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end())) << short_name(d);
  }
}

TEST(Sort, RefusesOperandsThatDoNotFit) {
  EXPECT_THAT(
      message_of<ShapeError>([] { sort_p.bind({0, true, 1}, {f64_sample({3}), f64_sample({4})}); }),
      HasSubstr("sort of f64[3], f64[4]: operands must have one shape"));
  EXPECT_THAT(message_of<ValueError>([] { sort_p.bind({0, true, 2}, {f64_sample({3})}); }),
              HasSubstr("num_keys must be from 1"));
  EXPECT_THAT(message_of<IndexError>([] { sort_p.bind({1, true, 1}, {f64_sample({3})}); }),
              HasSubstr("dimension 1 is out of range"));
}

TEST(OrderStatistic, RejectsRanksThatNoOperandHasAndNoOperands) {
  for (const std::int64_t rank : {-1, 2}) {
    EXPECT_THAT(message_of<ValueError>(
                    [&] { order_statistic_p.bind({rank}, {f64_sample({3}), f64_sample({3})}); }),
                HasSubstr("order_statistic: rank " + std::to_string(rank) +
                          " of 2 operands of type f64[3]; ranks go from 0, the lowest, to 1"));
  }
  EXPECT_THAT(message_of<ValueError>([] { order_statistic_p.bind({0}, {}); }),
              HasSubstr("order_statistic takes the operands that it orders"));
}

const RuleExamples kSortExamples([] {
  std::vector<Example> all;
  for (const int num_keys : {1, 2}) {
    all.push_back(example(sort_p, {0, true, num_keys}, [](int k) {
      return Arrays{f64_sample({4, 2}, k), f64_sample({4, 2}, k + 5)};
    }));
  }
  for (const DType key : {boolean, i8, i64, u8, u64, f32}) {
    all.push_back(example(sort_p, {0, true, 1}, {sample(key, {11}), f64_sample({11})},
                          {.grads = {.order = 1}}));
  }
  return all;
});

}  // namespace
}  // namespace telamon_test
