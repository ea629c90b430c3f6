// Signs of zeros: known where they matter, and sums of several -0.0 that are 0.0 where somebody can tell.
#include "compiler/passes/zero_signs.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "support.hpp"
#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Whether the sign of the operand's zeros matters to f(operand).
bool matters(const std::function<Array(const Array&)>& f) {
  const Jaxpr jaxpr = stage([&](std::span<const Array> x) { return Arrays{f(x[0])}; },
                            {uniform({40, 3}, DType::f32)});
  return compiler::zero_signs_that_matter(jaxpr)[0];
}

TEST(ZeroSigns, MatterWhereResultsShowThem) {
  EXPECT_TRUE(matters([](const Array& x) { return x; }));
  EXPECT_TRUE(matters([](const Array& x) { return 1 / x; }));
  EXPECT_TRUE(matters([](const Array& x) { return lax::neg(x) * x; }));
  EXPECT_TRUE(matters([](const Array& x) { return sum(lax::rsqrt(x)); }));
  EXPECT_TRUE(matters([](const Array& x) { return sum(1 / (x * x)); }));
  EXPECT_TRUE(matters([](const Array& x) { return sum(lax::integer_pow(x, -1)); }));
  EXPECT_TRUE(
      matters([](const Array& x) { return lax::reduce_sum(lax::reshape(x, {1, 120}), {0}); }));
  EXPECT_TRUE(matters([](const Array& x) { return sum(lax::atan2(x, x)); }));
  EXPECT_TRUE(matters([](const Array& x) { return lax::square(x.astype(DType::c64)); }));
}

TEST(ZeroSigns, AreLostInSquaresSumsAndComparisons) {
  EXPECT_FALSE(matters([](const Array& x) { return sum(x); }));
  EXPECT_FALSE(matters([](const Array& x) { return sum(x, 1); }));
  EXPECT_FALSE(matters([](const Array& x) { return 1 / lax::square(x); }));
  EXPECT_FALSE(matters([](const Array& x) { return lax::lt(x, lax::full_like(x, 0)); }));
  EXPECT_FALSE(matters([](const Array& x) { return sum(-x * 3.0f + x(slice(), slice(0, 1)), 0); }));
  EXPECT_FALSE(matters([](const Array& x) { return sum(x / (1 + lax::abs(x)), 0); }));
  EXPECT_FALSE(matters([](const Array& x) { return sum(lax::integer_pow(x, 3), 0); }));
}

// All pairs of -0.0 and the like: what is summed over the last axis is -0.0.
Array pairs(std::span<const Array> x) { return x[0](slice(), newaxis) * x[1](newaxis, slice()); }

TEST(ZeroSigns, OfShortSumsAreThoseOfSumsThatBeginWithZero) {
  const Array x(std::vector<float>(240, 0), {80, 3}), y(std::vector<float>(240, -1), {80, 3});
  const Program shown = [](std::span<const Array> a) {
    return Arrays{1 / sum(pairs(a), -1), sum(pairs(a), {.axes = {1, 2}})};
  };
  const Compiled e = check(shown, {x, y});
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("0.0:f32"));
  const Arrays got = execute(e, {x, y});
  EXPECT_EQ(got[0].to_vector<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_FALSE(std::signbit(got[1].to_vector<float>()[0]));
}

TEST(ZeroSigns, ThatNobodyCanTellCostNothing) {
  const Program lost = [](std::span<const Array> a) {
    const Array dot = sum(pairs(a), -1);
    return Arrays{sum(dot * 2.0f, 0), sum(lax::square(dot), 1)};
  };
  const Compiled e =
      check(lost, {uniform({80, 3}, DType::f32), uniform({80, 3}, DType::f32)}, -1, 1e5);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("0.0:f32")));
}

}  // namespace
}  // namespace telamon::testing
