// Sorts of short lines, which are comparisons of neighbours; longer ones, and those by several keys, are calls.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "compiler/support.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Numbers of which many are equal; of floats also zeros of both signs, infinities and NaN.
Array numbers(const Shape& shape, DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> some = {0, 1, 2, 2, 5, 7, 1, 3, 100};
  if (is_float(dtype)) some = {0., -0., inf, -inf, inf - inf, -(inf - inf), 2., 2., -1.};
  std::vector<double> all;
  for (std::int64_t i = 0; i < shape.num_elements(); ++i)
    all.push_back(some[static_cast<std::size_t>(i * i + i / 7) % some.size()]);
  return Array(all, shape).astype(dtype);
}

TEST(CompiledSort, OfShortLinesComparesNeighbours) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::u8, DType::i64, DType::bool_}) {
    for (const std::int64_t n : {2, 3, 9, 16}) {
      for (const int axis : {0, 1, 2}) {
        Shape shape{14, 13, 15};
        shape[static_cast<std::size_t>(axis)] = n;
        const auto f = [axis, n](std::span<const Array> a) {
          const Array down = sort(lax::rev(a[0], {axis}), axis);
          return Arrays{down, take(down, Array(static_cast<int>(n / 2)), axis)};
        };
        EXPECT_THAT(check(f, {numbers(shape, dtype)}, -1, 0)->text("jaxpr"),
                    Not(HasSubstr("sort")));
      }
    }
  }
}

TEST(CompiledSort, OfShortLinesTakesOtherOperandsAlong) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (const std::int64_t n : {2, 5, 16}) {
      const auto f = [](std::span<const Array> a) {
        Arrays sorted = lax::sort(Arrays{a[0], a[1], a[0]}, 1);
        sorted.push_back(argsort(a[0], 1));
        return sorted;
      };
      const Arrays inputs = {numbers({300, n}, dtype), uniform({300, n}, DType::f64)};
      EXPECT_THAT(check(f, inputs, -1, 0)->text("jaxpr"), Not(HasSubstr("sort")));
    }
  }
}

TEST(CompiledSort, OfOtherLinesAreCalls) {
  const auto is_call = [](const Shape& shape, DType dtype, int keys) {
    const auto f = [keys](std::span<const Array> a) {
      return lax::sort(Arrays{a[0], a[0] * a[0]}, 1, keys);
    };
    EXPECT_THAT(check(f, {numbers(shape, dtype)}, -1, 0)->text("jaxpr"), HasSubstr("sort"));
  };
  is_call({400, 17}, DType::f32, 1);  // too long
  is_call({50, 9}, DType::f32, 1);    // too few
  is_call({400, 5}, DType::f32, 2);   // by two keys
  is_call({400, 5}, DType::bf16, 1);
}

// What many of them would take to compile is bounded.
TEST(CompiledSort, OfManyIsComparedForSomeOnly) {
  const auto f = [](std::span<const Array> a) {
    Array x = a[0];
    for (int i = 0; i < 40; ++i) x = sort(lax::rev(x, {1}) * a[1], 1);
    return Arrays{x};
  };
  const Arrays inputs = {uniform({200, 16}, DType::f32), uniform({200, 16}, DType::f32)};
  const std::string jaxpr = check(f, inputs)->text("jaxpr");
  EXPECT_THAT(jaxpr, HasSubstr("sort"));
  EXPECT_THAT(jaxpr, HasSubstr("select_n"));
}

}  // namespace
}  // namespace telamon::testing
