// Sorts of short lines, which are comparisons of neighbours; longer ones, and those by several keys, are calls.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "compiler/codegen/sorting_network.hpp"
#include "compiler/support.hpp"
#include "telamon/indexing.hpp"
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

/// The bits of the elements of each line from `first` up to `last`.
Array places(const Array& sorted, int axis, std::int64_t first, std::int64_t last) {
  const Array some = lax::slice_in_dim(sorted, first, last, 1, axis);
  return is_float(some.dtype())
             ? lax::bitcast_convert_type(some, size_of(some.dtype()) == 4 ? DType::i32 : DType::i64)
             : some;
}

TEST(CompiledSort, OfWhichFewPlacesAreReadMakesThoseAlone) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::i8, DType::u64, DType::bool_}) {
    for (const std::int64_t n : {2, 3, 7, 9, 16, 32}) {
      for (const int axis : {0, 2}) {
        Shape shape{23, 14, 23};
        shape[static_cast<std::size_t>(axis)] = n;
        for (const std::int64_t k : std::set<std::int64_t>{0, n / 2, n - 1}) {
          const auto f = [axis, k](std::span<const Array> a) {
            return Arrays{places(sort(a[0], axis), axis, k, k + 1)};
          };
          const std::string jaxpr = check(f, {numbers(shape, dtype)}, -1, 0)->text("jaxpr");
          EXPECT_EQ(jaxpr.find("order_statistic") != std::string::npos, n > 3) << jaxpr;
          EXPECT_THAT(jaxpr, Not(HasSubstr("sort")));
        }
      }
    }
  }
}

TEST(CompiledSort, OfWhichAQuarterIsReadMakesThatAlone) {
  const auto f = [](std::span<const Array> a) {
    const Array sorted = sort(a[0], 1);
    return Arrays{places(sorted, 1, 3, 5), places(sorted, 1, 6, 7),
                  lax::slice_in_dim(sorted, 5, 7, 1, 1) * 2};
  };
  for (const DType dtype : {DType::f32, DType::i32}) {
    const std::string jaxpr = check(f, {numbers({700, 16}, dtype)}, -1, 0)->text("jaxpr");
    EXPECT_THAT(jaxpr, HasSubstr("order_statistic"));
    EXPECT_THAT(jaxpr, Not(HasSubstr("sort")));
  }
}

TEST(CompiledSort, OfWhichMoreIsReadMakesAllPlaces) {
  const auto f = [](std::span<const Array> a) {
    const Array sorted = sort(a[0], 1);
    return Arrays{places(sorted, 1, 3, 4), sum(sorted, 0)};
  };
  EXPECT_THAT(check(f, {numbers({700, 8}, DType::f32)}, -1, 1e6)->text("jaxpr"),
              Not(HasSubstr("order_statistic")));
}

TEST(CompiledSort, OfStackedNeighboursIsOneKernel) {
  const auto medians = [](std::span<const Array> a) {
    std::vector<Array> around;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) around.push_back(a[0](slice(i, i + 40), slice(j, j + 37)));
    }
    return Arrays{sort(stack(around, -1), -1)(ellipsis, 4)};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::u8}) {
    EXPECT_THAT(check(medians, {numbers({42, 39}, dtype)}, 1, 0)->text("jaxpr"),
                HasSubstr("order_statistic"));
    check(medians, {uniform({42, 39}, DType::f32, -9, 9).astype(dtype)}, 1, 0);
  }
}

/// Programs of sorts along short axes of what is computed, and of which a few places go on.
TEST(CompiledSort, OfRandomProgramsIsThatOfEagerOnes) {
  std::mt19937 engine(7);
  const auto draw = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 60; ++trial) {
    const DType dtype = std::array{DType::f32, DType::f64, DType::i32,
                                   DType::i8}[static_cast<std::size_t>(draw(4))];
    const int axis = draw(2), n = 2 + draw(11), other = 150 + draw(70), first = draw(n),
              last = first + 1 + draw(std::min(3, n - first)), how = draw(4);
    const Shape shape = axis == 0 ? Shape{n, other} : Shape{other, n};
    const auto f = [=](std::span<const Array> a) {
      const Array x = how == 1 ? a[0] * a[1] : how == 2 ? lax::neg(a[0]) : a[0];
      const Array some = lax::slice_in_dim(sort(x, axis), first, last, 1, axis);
      return Arrays{how == 3 ? lax::rev(some, {axis}) : some * some, lax::neg(some)};
    };
    SCOPED_TRACE(std::to_string(trial));
    check(f, {numbers(shape, dtype), lax::rev(numbers(shape, dtype), {axis})}, -1, 0);
  }
}

TEST(SortingNetwork, SortsAnyNumbers) {
  // It does if it sorts all of zeros and ones (Knuth, The Art of Computer Programming 5.3.4, theorem Z).
  for (std::size_t n = 1; n <= 13; ++n) {
    const compiler::Network network = compiler::sorting_network(n);
    for (unsigned bits = 0; bits < 1u << n; ++bits) {
      unsigned x = bits;
      for (const compiler::Comparison& c : network) {
        const unsigned a = x >> c.low & 1, b = x >> c.high & 1;
        if (a > b) x ^= 1u << c.low | 1u << c.high;
      }
      // Zeros first: none above a one.
      EXPECT_EQ(x | (x - 1), x == 0 ? ~0u : (~0u >> (32 - n))) << n << " of " << bits;
    }
  }
}

TEST(SortingNetwork, LeavesOutWhatNobodyWants) {
  const auto cost = [](std::size_t n, std::size_t rank) {
    int halves = 0;
    for (const compiler::Comparison& c : compiler::selecting_network(n, rank))
      halves += (c.wants_low ? 1 : 0) + (c.wants_high ? 1 : 0);
    return halves;
  };
  EXPECT_EQ(cost(9, 4), 30);
  for (const std::size_t n : {2u, 5u, 8u, 16u}) {
    EXPECT_EQ(cost(n, 0), static_cast<int>(n) - 1);
    EXPECT_EQ(cost(n, n - 1), static_cast<int>(n) - 1);
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
