// Small matrices, one for each row of an array, are computed number by number where they are put together of columns.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

/// Matrices whose numbers are those of x and y, taken in turn, as rows below each other, or as columns side by side.
Array stacked(const Array& x, const Array& y, int rows, int columns, bool by_columns = false) {
  const int outer = by_columns ? columns : rows, inner = by_columns ? rows : columns;
  std::vector<Array> all;
  for (int i = 0; i < outer; ++i) {
    std::vector<Array> one;
    for (int j = 0; j < inner; ++j) {
      const int place = by_columns ? j * columns + i : i * columns + j;
      one.push_back(place % 2 == 0 ? x + place : y - place);
    }
    all.push_back(stack(one, -1));
  }
  return stack(all, by_columns ? -1 : -2);
}

Array points(std::int64_t n, DType dtype, std::uint64_t seed) {
  return lax::round(uniform({n}, dtype, -5, 5, seed));
}
Array points(const Shape& shape, DType dtype, std::uint64_t seed) {
  return lax::round(uniform(shape, dtype, -5, 5, seed));
}

// All sums are of small integers, and so the same in any order.
TEST(SmallMatrices, OfAllShapesAreMultipliedByColumns) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (int r = 1; r <= 4; ++r) {
      for (int k = 2; k <= 4; ++k) {
        for (int c = 1; c <= 4; ++c) {
          SCOPED_TRACE(std::to_string(r) + " x " + std::to_string(k) + " x " + std::to_string(c));
          const Compiled e = check(
              [=](std::span<const Array> a) {
                const Array x = stacked(a[0], a[1], r, k), y = stacked(a[1], a[0], k, c),
                            z = stacked(a[0], a[1], c, k);
                return Arrays{matmul(x, y),
                              matmul(x, a[2]),
                              einsum("nik,njk->nij", {x, z}),
                              einsum("nki,nkj->nij", {a[3], y}),
                              einsum("nik,nk->ni", {x, a[4]}),
                              einsum("nk,nkj->nj", {a[4], y})};
              },
              {points(83, dtype, 1), points(83, dtype, 2), points({83, k, c}, dtype, 3),
               points({83, k, r}, dtype, 4), points({83, k}, dtype, 5)},
              -1, 0);
          // Of a single column, y is no matrix that rows are put together for.
          if (c > 1) EXPECT_EQ(e->text("jaxpr").find("dot_general"), std::string::npos);
        }
      }
    }
  }
}

TEST(SmallMatrices, MayHaveRowsThatAreTheSameForAll) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto transform = [dtype](const Array& t, const Array& d) {
      const Array s = sin(t), c = cos(t), zero = zeros({}, dtype), one = ones({}, dtype);
      return stack({stack({c, -s, zero * t, d}), stack({s, c, zero * t, d * d}),
                    stack({zero, zero, one, one}), stack({zero, zero, zero, one})});
    };
    const Compiled e = check(
        [&](std::span<const Array> a) {
          const Array m = vmap(transform)(a[0], a[1]), n = vmap(transform)(a[1], a[0]);
          return Arrays{m, matmul(m, n)(slice(), slice(0, 3), 3)};
        },
        {uniform({131}, dtype), uniform({131}, dtype, -1, 1, 2)}, -1, 16);
    EXPECT_EQ(e->info().kernels, 1) << e->text("plan");
  }
}

// f(m, number of each, one for all): inverses, say, as what belongs to the determinants.
TEST(SmallMatrices, AreComputedElementByElementInOneKernel) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool by_columns : {false, true}) {
      const Compiled e = check(
          [=](std::span<const Array> a) {
            const Array m = stacked(a[0], a[1], 3, 3, by_columns);
            const Array scale = (a[0] * a[0] + 1)(slice(), newaxis, newaxis);
            return Arrays{exp(m / scale) + a[2], lax::select(m > 0, m, -m) * a[2]};
          },
          {uniform({211}, dtype), uniform({211}, dtype, -1, 1, 2), uniform({3, 3}, dtype)}, -1, 0);
      if (!by_columns) EXPECT_EQ(e->info().kernels, 1) << e->text("plan");
    }
  }
}

TEST(SmallMatrices, OfMoreDimensionsOrFewMatricesAreRight) {
  for (const Shape& shape : {Shape{1}, Shape{3}, Shape{64}, Shape{5, 17}, Shape{2, 3, 19}}) {
    check(
        [](std::span<const Array> a) {
          const Array m = stacked(a[0], a[1], 2, 3), n = stacked(a[1], a[0], 3, 2);
          const Array p = matmul(m, n), q = p * a[0](ellipsis, newaxis, newaxis) - p;
          return Arrays{
              p,         q,          q(ellipsis, 1, slice()),      q(ellipsis, slice(), 0),
              sum(p, 0), sum(q, -1), matmul(q, p)(ellipsis, 0, 1), matmul(p, p) + q};
        },
        {points(shape, DType::f64, 1), points(shape, DType::f64, 2)}, -1, 0);
  }
}

// Few are multiplied as any others, many by columns: the same but for roundings, which are those of sums of four numbers above 0.
TEST(SmallMatrices, OfAnyNumberHaveTheSameProductsButForRoundings) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {1, 7, 63, 64, 65, 500}) {
      check(
          [](std::span<const Array> a) {
            const Array m = stacked(exp(a[0]), 20 + a[1], 3, 4);
            return Arrays{matmul(m, a[2]), einsum("nij,nik->njk", {m, m}),
                          einsum("ni,nij,nj->n", {a[3], abs(a[2]), a[3]})};
          },
          {uniform({n}, dtype), uniform({n}, dtype, -1, 1, 2), uniform({n, 4, 4}, dtype, 1, 2, 3),
           uniform({n, 4}, dtype, 1, 2, 4)},
          -1, 64);
    }
  }
}

// As of products, from +0 on.
TEST(SmallMatrices, OfZerosAndNaNsHaveTheProductsOfOthers) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> some = {-0.0, 0.0, 1, inf, std::nan(""), -inf, -2};
  std::vector<double> x(90), y(90);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = some[i % 7];
    y[i] = i < 30 ? -0.0 : some[i % 5];
  }
  check(
      [](std::span<const Array> a) {
        const Array m = stack({stack({a[0], a[1]}, -1), stack({a[1], a[0]}, -1)}, -2);
        return Arrays{matmul(m, m), einsum("nik,nk->ni", {m, stack({a[1], a[1]}, -1)})};
      },
      {Array(x, {90}), Array(y, {90})}, -1, 0);
}

// Every second of the matrices, or of the rows of points, is not every one.
TEST(SmallMatrices, AndRowsAreCutWithSteps) {
  for (const std::int64_t n : {70, 1025}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      check(
          [n](std::span<const Array> a) {
            const Array m = stacked(a[0], a[1], 2, 2), row = stack({a[0], a[1], a[0] + 1}, -1),
                        wide = stacked(a[0], a[1], 1, 12);
            return Arrays{m,
                          m(slice(none, none, 2), 0, 1),
                          m(slice(1, none, 3)) + 1,
                          lax::slice(m, {0, 0, 1}, {n, 2, 2}, {3, 1, 1}),
                          row,
                          row(slice(none, none, 2), 1),
                          row(slice(none, none, 2), slice(1, 3)) + 1,
                          lax::slice(row, {0, 1}, {n - 1, 2}, {2, 1}),
                          wide(slice(none, none, 2), 0, slice(none, none, 5))};
          },
          {points(n, dtype, 1), points(n, dtype, 2)}, -1, 0);
    }
  }
}

// As many operands as there are columns, but not one each.
TEST(SmallMatrices, AreNotTakenToBeMadeOfColumnsByTheirNumber) {
  check(
      [](std::span<const Array> a) {
        const Array none_at_all = zeros({70, 0}, DType::f32);
        const Array x = concatenate({a[0], none_at_all}, 1),
                    y = concatenate({none_at_all, a[0]}, 1);
        const Array planes = stack({transpose(x), transpose(y)}, 0);
        return Arrays{stack({x, y}, 1), transpose(planes, {2, 0, 1})};
      },
      {points({70, 2}, DType::f32, 1)}, -1, 0);
}

// Rows of many numbers under another shape, or of what lies in memory, stay what they are.
TEST(SmallMatrices, OfManyNumbersOrOfMemoryStay) {
  const auto count = [](const std::string& text, std::string_view word) {
    int n = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  };
  const Compiled cut = check(
      [](std::span<const Array> a) {
        const Array h = lax::reshape(exp(a[0]) * a[1], {32, 16, 16});
        return Arrays{h(slice(), slice(1, 15), slice(1, 15))};
      },
      {uniform({32, 256}, DType::f32), uniform({32, 256}, DType::f32)}, 1, 0);
  EXPECT_EQ(count(cut->text("jaxpr"), "= slice"), 1) << cut->text("jaxpr");
  const Compiled product = check(
      [](std::span<const Array> a) {
        return Arrays{matmul(lax::reshape(a[0] + 1, {80, 4, 4}), a[1])};
      },
      {points({80, 16}, DType::f32, 1), points({80, 4, 4}, DType::f32, 2)}, -1, 0);
  EXPECT_EQ(count(product->text("jaxpr"), "dot_general"), 1) << product->text("jaxpr");
}

// Rows of more than fifteen that are stacked are not folded by columns.
TEST(SmallMatrices, AndLongRowsAreFoldedAsAWhole) {
  for (const int k : {8, 9, 15, 16}) {
    for (const bool simplified : {true, false}) {
      CompileOptions options{.disabled = {"batch_members"}};  // which takes all of it apart
      if (!simplified) options.disabled.insert("simplify");
      const Compiled e = check(
          [k](std::span<const Array> a) {
            std::vector<Array> columns;
            for (int i = 0; i < k; ++i) columns.push_back(a[static_cast<std::size_t>(i % 2)] * i);
            return Arrays{softmax(stack(columns, -1), -1)};
          },
          {uniform({600}, DType::f32), uniform({600}, DType::f32, -1, 1, 2)}, -1, 1e3, options);
      EXPECT_LE(e->info().kernels, 5) << e->text("plan");
      if (k > 15) EXPECT_NE(e->text("jaxpr").find("reduce_sum"), std::string::npos);
    }
  }
}

TEST(SmallMatrices, HaveTheGradientsOfProducts) {
  const auto turned = [](const Array& t, const Array& p) {
    const Array c = cos(t), s = sin(t);
    const Array r = stack({stack({c, -s}, -1), stack({s, c}, -1)}, -2);
    return sum(square(einsum("nij,nj->ni", {matmul(r, r), p})) * p);
  };
  const Compiled e = check(
      [&](std::span<const Array> a) {
        return Arrays{grad([&](const Array& t) { return turned(t, a[1]); })(a[0]),
                      grad([&](const Array& p) { return turned(a[0], p); })(a[1])};
      },
      {uniform({77}, DType::f64), uniform({77, 2}, DType::f64)}, -1, 4e3);
  EXPECT_EQ(e->text("jaxpr").find("dot_general"), std::string::npos) << e->text("jaxpr");
}

}  // namespace
}  // namespace telamon::testing
