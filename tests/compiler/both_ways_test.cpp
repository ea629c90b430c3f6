// Folds along rows and over columns of one space share a pass over it.
#include <gtest/gtest.h>

#include "compiler/support.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jvp.hpp"
#include "telamon/numpy.hpp"
#include "telamon/threads.hpp"

namespace telamon::testing {
namespace {

Arrays row_and_column_sums(std::span<const Array> a) {
  const Array y = a[0] * a[0] + 1;
  const Shape leading = a[0].ndim() == 2 ? Shape{0} : Shape{0, 1};
  return {lax::reduce_sum(y, {static_cast<std::int64_t>(a[0].ndim()) - 1}),
          lax::reduce_sum(y, leading)};
}

TEST(BothWays, OneKernelFoldsRowsAndColumns) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::i64}) {
    for (const Shape& shape :
         {Shape{128, 32}, Shape{16, 256}, Shape{131, 67}, Shape{64, 1000}, Shape{1024, 33},
          Shape{5000, 40}, Shape{17, 4097}, Shape{7, 9, 100}, Shape{40, 3, 65}, Shape{1, 64, 64}}) {
      SCOPED_TRACE(shape.to_string());
      check(row_and_column_sums, {uniform(shape, dtype, 0, 3)}, 1, 2e3);
    }
  }
}

TEST(BothWays, SmallSpacesAndShortRowsAreFoldedApart) {
  for (const Shape& shape :
       {Shape{8, 32}, Shape{4096, 8}, Shape{4, 4096}, Shape{0, 64}, Shape{64, 0}})
    check(row_and_column_sums, {uniform(shape, DType::f64, 0, 3)}, -1, 1e3);
}

TEST(BothWays, WhatFollowsTheRowsIsDoneInThePass) {
  const Array x = uniform({100, 77}, DType::f64), w = uniform({77}, DType::f64);
  check(
      [](std::span<const Array> a) {
        const Array y = a[0] * a[1];
        return Arrays{lax::exp(lax::reduce_sum(y, {1}) / 77), max(y, 0), prod(y / 4 + 1, 0),
                      y * 3 + 1};
      },
      {x, w}, -1, 1e3);
}

// Sums of columns that need the rows' sums wait for them.
TEST(BothWays, SumsThatNeedEachOtherAreFoldedApart) {
  const Array x = uniform({100, 64}, DType::f64, 0, 1);
  check(
      [](std::span<const Array> a) {
        const Array p = a[0] / sum(a[0], {.axes = 1, .keepdims = true});
        const Array q = a[0] / sum(a[0], {.axes = 0, .keepdims = true});
        return Arrays{sum(p, 0), sum(q, 1), sum(p, 1)};
      },
      {x}, -1, 1e3);
}

// Each kernel folds what it computes: of two programs side by side none keeps arrays for the other.
TEST(BothWays, FoldsOfDifferentWorkHaveKernelsOfTheirOwn) {
  const auto f = [](std::span<const Array> a) {
    Arrays out;
    for (const std::size_t i : {0, 2}) {
      const Array d = a[i](slice(), newaxis) - a[i + 1];
      const Array r = lax::exp(lax::rsqrt(d * d + 1.0));
      for (const Array& y : {r, r * d, r / (d + 3.0)}) {
        out.push_back(sum(y, 0));
        out.push_back(sum(y, 1));
      }
    }
    return out;
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    Arrays in;
    for (unsigned i = 0; i < 4; ++i)
      in.push_back(uniform({i % 2 == 0 ? 131 : 77}, dtype, 0, 1, i + 1));
    check(f, in, 2, 1e3);
  }
}

// Arrays beyond the caches are made anew where that takes little, from operands that are in them.
TEST(BothWays, LargeArraysOfSmallOnesAreRecomputed) {
  const auto distances = [](std::span<const Array> a) {
    const Array d = a[0](slice(), newaxis) - a[1];
    return lax::rsqrt(d * d + 1.0);
  };
  const auto cheap = [&](std::span<const Array> a) {
    const Array r = distances(a);
    return Arrays{sum(r / sum(r, {.axes = 1, .keepdims = true}), 0)};
  };
  const auto dear = [&](std::span<const Array> a) {
    const Array r = lax::exp(lax::sin(distances(a)));
    return Arrays{sum(r / sum(r, {.axes = 1, .keepdims = true}), 0)};
  };
  const auto arena = [](const Compiled& e) { return e->info().arena_bytes; };
  const Arrays in = {uniform({1030}, DType::f64), uniform({701}, DType::f64, 0, 1, 2)};
  EXPECT_LT(arena(check(cheap, in, -1, 1e3)), 1 << 20);
  EXPECT_GT(arena(check(dear, in, -1, 1e3)), 1030 * 701 * 8);
  const Arrays small = {uniform({103}, DType::f64), uniform({701}, DType::f64, 0, 1, 2)};
  EXPECT_GT(arena(check(cheap, small, -1, 1e3)), 103 * 701 * 8);
}

TEST(BothWays, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const Shape& shape : {Shape{1000, 300}, Shape{37, 5000}, Shape{3, 50, 2000}}) {
    const Array x = uniform(shape, DType::f32);
    expect_same_for_any_number_of_threads(compile(stage(row_and_column_sums, {x})), {x});
  }
}

TEST(BothWays, GradientsOfANormalisationTakeOnePassForAllSums) {
  const Array x = uniform({60, 200}, DType::f64), w = uniform({200}, DType::f64),
              b = uniform({200}, DType::f64), g = uniform({60, 200}, DType::f64);
  const auto norm = [](const Array& x, const Array& w, const Array& b) {
    return (x - mean(x, {.axes = -1, .keepdims = true})) *
               lax::rsqrt(var(x, {.axes = -1, .keepdims = true}) + 1e-5) * w +
           b;
  };
  check(
      [&](std::span<const Array> a) {
        auto [y, back] = vjp(norm, a[0], a[1], a[2]);
        auto [dx, dw, db] = back(a[3]);
        return Arrays{y, dx, dw, db};
      },
      {x, w, b, g}, -1, 1e5);
}

}  // namespace
}  // namespace telamon::testing
