// Arrays of short vectors, in the midst of computations over all pairs, become one array per component.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "compiler/support.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// r[i, j, :] = x[i, :] - x[j, :]
Array differences(const Array& x) { return x(slice(), newaxis) - x(newaxis); }
Array energy(const Array& x, const Array& m) {
  const Array r = differences(x);
  return sum(m(slice(), newaxis) * m * lax::rsqrt(sum(r * r, -1) + .5));
}
Array force(const Array& x, const Array& m) {
  return grad([&](const Array& y) { return energy(y, m); })(x);
}
std::string cubes(std::int64_t n, std::int64_t k) {
  const std::string s = std::to_string(n);
  return "[" + s + "," + s + "," + std::to_string(k) + "]";
}

TEST(ShortAxes, OfAllLengthsAreTakenApart) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t k : {2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 32}) {
      for (const std::int64_t n : {37, 90}) {
        const bool apart = k <= 8 || n >= 90;  // else too few for so many equations
        const Array x = uniform({n, k}, dtype), m = uniform({n}, dtype, .5, 1.5);
        const Compiled e = check(
            [](std::span<const Array> a) { return Arrays{energy(a[0], a[1]), force(a[0], a[1])}; },
            {x, m}, -1, 2e4);
        const std::string jaxpr = e->text("jaxpr");
        EXPECT_EQ(jaxpr.find(cubes(n, k)) == std::string::npos, apart) << jaxpr;
        if (apart) EXPECT_THAT(e->text("plan"), Not(HasSubstr(cubes(n, k))));
      }
    }
  }
}

TEST(ShortAxes, BeyondThirtyTwoStayWhole) {
  const Array x = uniform({90, 33}, DType::f64);
  const Compiled e = check(
      [](std::span<const Array> a) {
        const Array r = differences(a[0]);
        return Arrays{sum(r * r, -1)};
      },
      {x}, -1, 1e3);
  EXPECT_THAT(e->text("jaxpr"), HasSubstr(cubes(90, 33)));
}

TEST(ShortAxes, OfComplexNumbersStayWhole) {
  for (const DType dtype : {DType::c64, DType::c128}) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{sum(a[0], 1), sum(lax::full_like(a[0], 1), 1)};
        },
        {uniform({3000, 3}, DType::f64).astype(dtype)});
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("slice")));
  }
}

TEST(ShortAxes, OfElementwiseProgramsAndOfLongSumsStayWhole) {
  const Array x = uniform({4096, 3}, DType::f64),
              y = uniform({4096, 7}, DType::f64);  // f32 is shorter
  const Compiled e =
      check([](std::span<const Array> a) { return Arrays{a[0] * a[0] + 1, sum(a[1] * a[1], -1)}; },
            {x, y}, -1, 1e3);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("slice")));
}

// Columns are taken apart and put together in registers: rows of all lengths, and vectors of rows that
// are cut off at the end.
TEST(ShortAxes, OfRowsThatAreNormalisedTakeOneKernel) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (std::int64_t k = 2; k <= 8; ++k) {
      for (const std::int64_t n : {2048, 2049, 2055, 4111}) {
        SCOPED_TRACE(std::to_string(n) + " rows of " + std::to_string(k));
        const Compiled e = check(
            [](std::span<const Array> a) {
              return Arrays{a[0] / lax::sqrt(sum(a[0] * a[0], {.axes = -1, .keepdims = true})),
                            softmax(a[0], 1)};
            },
            {uniform({n, k}, dtype)}, -1, 1e3);
        EXPECT_LE(e->info().kernels, 2) << e->text("plan");
        EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather")));
        EXPECT_THAT(e->text("ir"), Not(HasSubstr("scatter")));
      }
    }
  }
}

TEST(ShortAxes, OfIntegersAndOfMoreDimensionsAreWovenToo) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::i16}) {
    for (const std::int64_t k : {2, 3, 4}) {
      check(
          [](std::span<const Array> a) {
            return Arrays{a[0] - sum(a[0], {.axes = -1, .keepdims = true}), max(a[0], -1),
                          a[0](slice(1, 50), slice(), 1) + a[0](slice(0, 49), slice(), 0)};
          },
          {uniform({50, 83, k}, dtype, 0, 4)}, -1, 0);
    }
  }
}

// Planes of an image become the components of its points, what lies side by side becomes one row: columns that are put
// together in registers, whatever their number, and rows of vectors that are cut off at the end.
TEST(ShortAxes, OfPlanesAndOfPartsSideBySideAreWoven) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (std::int64_t k = 2; k <= 8; ++k) {
      for (const std::int64_t n : {512, 1001}) {
        SCOPED_TRACE(std::to_string(n) + " rows of " + std::to_string(k));
        const std::int64_t left = k / 2;
        const Compiled planes = check(
            [](std::span<const Array> a) {
              return Arrays{transpose(a[0]) + 1, transpose(a[1], {1, 2, 0})};
            },
            {uniform({k, n}, dtype, 0, 9), uniform({k, 7, 93}, dtype, 0, 9, 2)}, -1, 0);
        const Compiled parts = check(
            [](std::span<const Array> a) {
              const Array row = lax::concatenate(a, 1);
              return Arrays{row, row + row(slice(), slice(0, 1)), row(slice(), slice(1, none)) + 1};
            },
            {uniform({n, left}, dtype, 0, 9), uniform({n, k - left}, dtype, 0, 9, 2)}, -1, 0);
        if (dtype == DType::u8 && k > 4) continue;  // too many shuffles
        for (const Compiled& e : {planes, parts}) {
          EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather"))) << e->text("plan");
          EXPECT_THAT(e->text("ir"), Not(HasSubstr("scatter"))) << e->text("plan");
        }
      }
    }
  }
}

// Numbers that are stacked for each row, up to sixteen of them.
TEST(ShortAxes, OfStackedNumbersAreWrittenByOneKernel) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (std::int64_t k = 2; k <= 17; ++k) {
      for (const std::int64_t n : {61, 512}) {
        SCOPED_TRACE(std::to_string(n) + " rows of " + std::to_string(k));
        const Compiled e = check(
            [k](std::span<const Array> a) {
              std::vector<Array> columns;
              for (std::int64_t i = 0; i < k; ++i) columns.push_back(a[0] * i + a[i % 2]);
              return Arrays{stack(columns, 1)};
            },
            {uniform({n}, dtype, 0, 9), uniform({n}, dtype, 0, 9, 2)}, -1, 0);
        EXPECT_EQ(e->info().kernels, 1) << e->text("plan");
      }
    }
  }
}

// So are truth values, of as many columns as there are: written one by one they took LLVM seconds.
TEST(ShortAxes, OfStackedTruthValuesArePutTogetherInRegisters) {
  for (const std::int64_t k : {2, 3, 5, 8, 15, 16, 23, 40}) {
    SCOPED_TRACE(std::to_string(k) + " columns");
    const Compiled e = check(
        [k](std::span<const Array> a) {
          Arrays columns;
          for (std::int64_t i = 0; i < k; ++i) {
            const Array c = a[0](slice(), slice((i * 7) % k, (i * 7) % k + 1));
            columns.push_back(i % 2 == 0 ? lax::bitwise_not(c) : lax::bitwise_and(c, a[1]));
          }
          return Arrays{lax::concatenate(columns, 1)};
        },
        {uniform({517, k}, DType::bool_, 0, 2), uniform({517, 1}, DType::bool_, 0, 2, 2)});
    EXPECT_THAT(e->text("ir"), Not(HasSubstr("masked.scatter")));
  }
}

// Large ones are written past the caches.
TEST(ShortAxes, OfManyStackedNumbersAreStreamed) {
  const std::int64_t n = (std::int64_t{1} << 20) + 37;
  const Array x = uniform({n}, DType::f32), y = uniform({n}, DType::f32);
  for (const std::size_t k : {3, 5, 8, 9, 16}) {
    SCOPED_TRACE(std::to_string(k));
    const Compiled e = check(
        [k](std::span<const Array> a) {
          std::vector<Array> columns;
          for (std::size_t i = 0; i < k; ++i) columns.push_back(a[0] * i + a[1]);
          return Arrays{stack(columns, 1)};
        },
        {x, y}, -1, 0);
    EXPECT_NE(e->text("ir").find("!nontemporal"), std::string::npos);
  }
}

// Matrices for each row, written as rows of rows: all of their numbers are computed by one kernel, and written once.
TEST(ShortAxes, OfStackedMatricesAreWrittenByOneKernel) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (std::int64_t rows = 1; rows <= 4; ++rows) {
      for (std::int64_t columns = 2; columns <= 5; ++columns) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        const auto matrices = [=](const Array& x, const Array& y) {
          std::vector<Array> all;
          for (std::int64_t i = 0; i < rows; ++i) {
            std::vector<Array> row;
            for (std::int64_t j = 0; j < columns; ++j) row.push_back(x * (i + 1) + y * j);
            all.push_back(stack(row, -1));
          }
          return stack(all, -2);
        };
        const Compiled e = check(
            [&](std::span<const Array> a) {
              const Array m = matrices(a[0], a[1]);
              return Arrays{m, sum(m, 0), m(slice(), 0), vmap(matrices)(a[1], a[0])};
            },
            {uniform({7, 83}, dtype, 0, 9), uniform({7, 83}, dtype, 0, 9, 2)}, -1, 1e2);
        const bool woven = rows * columns <= 16;
        const std::string whole = "[7,83," + std::to_string(rows * columns) + "]";
        if (rows > 1 && woven) EXPECT_THAT(e->text("plan"), HasSubstr(whole));
      }
    }
  }
}

// Numbers of matrices are taken from vectors of whole rows, or of parts of rows.
TEST(ShortAxes, OfMatricesAreReadByColumns) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (std::int64_t rows = 1; rows <= 4; ++rows) {
      for (std::int64_t columns = 1; columns <= 5; ++columns) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
        const Compiled e = check(
            [=](std::span<const Array> a) {
              Array all = zeros_like(a[0](slice(), 0, 0)), some = all;
              for (std::int64_t i = 0; i < rows; ++i) {
                for (std::int64_t j = 0; j < columns; ++j)
                  all = all * 3 + a[0](slice(), i, j) + a[1](slice(), i * columns + j);
              }
              some = a[0](slice(3, 90), rows - 1, 0) - a[0](slice(2, 89), 0, columns - 1);
              return Arrays{all, some, a[0](4, slice(), columns - 1) * 2, a[0](slice(), 0) * 2};
            },
            {uniform({91, rows, columns}, dtype, 0, 9),
             uniform({91, rows * columns}, dtype, 0, 9, 2)},
            -1, 1e3);
        if (rows * columns <= 16)
          EXPECT_EQ(e->text("ir").find("gather"), std::string::npos) << e->text("plan");
      }
    }
  }
}

// A point turned by a quaternion: cross products, of which each is put together of columns and taken apart again.
TEST(ShortAxes, OfRotatedPointsTakeOneKernel) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        const Array &q = a[0], &v = a[1];
        const Array axis = q(slice(), slice(1, 4));
        const auto cross = [](const Array& x, const Array& y) {
          const auto at = [&](int i, int j) { return x(slice(), i) * y(slice(), j); };
          return stack({at(1, 2) - at(2, 1), at(2, 0) - at(0, 2), at(0, 1) - at(1, 0)}, -1);
        };
        return Arrays{v + 2. * cross(axis, cross(axis, v) + q(slice(), slice(0, 1)) * v)};
      },
      {uniform({2000, 4}, DType::f32), uniform({2000, 3}, DType::f32)}, 1, 0);
  EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather")));
}

// What derivatives of columns add up: pads of one column each, of rows and of columns, with zeros or something else
// beside them and between them.
TEST(ShortAxes, OfPaddedColumnsAreWoven) {
  const auto padded = [](const Array& x, const Array& value, std::int64_t low, std::int64_t high,
                         std::int64_t between) {
    return lax::pad(x, value, {{0, 0, 0}, {low, high, between}});
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Compiled e = check(
        [&](std::span<const Array> a) {
          const Array &x = a[0], &y = a[1], &value = a[2];
          const Array zero = lax::convert_element_type(Array(0), value.dtype());
          return Arrays{padded(x, value, 1, 2, 0), padded(y, zero, 0, 1, 2) + 1,
                        padded(x, zero, 0, 1, 0) + padded(x, zero, 1, 0, 0)};
        },
        {uniform({700, 1}, dtype, 0, 9), uniform({700, 2}, dtype, 0, 9), uniform({}, dtype, 0, 9)},
        -1, 0);
    EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather"))) << e->text("plan");
    EXPECT_THAT(e->text("ir"), Not(HasSubstr("scatter"))) << e->text("plan");
  }
  // Rows that are padded too, columns that are taken away, and padding of nothing stay.
  check(
      [&](std::span<const Array> a) {
        const Array zero = lax::convert_element_type(Array(0), DType::f32);
        return Arrays{lax::pad(a[0], zero, {{1, 0, 0}, {0, 1, 0}}), padded(a[0], zero, -1, 3, 0),
                      lax::pad(a[1], zero, {{0, 0, 0}, {1, 2, 0}})};
      },
      {uniform({700, 2}, DType::f32), zeros({700, 0}, DType::f32)}, -1, 0);
}

TEST(ShortAxes, OfDerivativesOfCrossProductsTakeOneKernel) {
  const auto squares = [](const Array& x, const Array& y) {
    const auto at = [&](int i, int j) { return x(slice(), i) * y(slice(), j); };
    const auto cross = stack({at(1, 2) - at(2, 1), at(2, 0) - at(0, 2), at(0, 1) - at(1, 0)}, 0);
    return sum(cross * cross);
  };
  const Compiled e = check(
      [&](std::span<const Array> a) {
        return Arrays{grad<0>(squares)(a[0], a[1]), grad<1>(squares)(a[0], a[1])};
      },
      {uniform({2000, 3}, DType::f32), uniform({2000, 3}, DType::f32, 0, 1, 2)}, 1, 0);
  EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather")));
}

// Points that lie side by side: what moves whole rows goes on with columns of them.
TEST(ShortAxes, OfNeighboursAreTakenApart) {
  const auto length = [](const Array& d) { return lax::sqrt(sum(d * d, -1) + .01); };
  const auto rope = [&](const Array& p) {
    return sum(length(p(slice(1, {})) - p(slice({}, -1))) * .5);
  };
  const auto cloth = [&](const Array& p) {
    const Array a = p(slice(1, {})) - p(slice({}, -1));
    const Array b = p(slice(), slice(1, {})) - p(slice(), slice({}, -1));
    return sum(length(a)) + sum(length(b)) + sum(length(a(slice(), slice(1, {}))));
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t k : {2, 3, 4}) {
      const Compiled e = check(
          [&](std::span<const Array> a) {
            return Arrays{rope(a[0]), grad(rope)(a[0]), cloth(a[1]), grad(cloth)(a[1])};
          },
          {uniform({3001, k}, dtype), uniform({53, 61, k}, dtype)}, -1, 2e4);
      const std::string row = "," + std::to_string(k) + "] = ";
      for (const char* op : {"sub", "mul", "add", "pad"})
        EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(row + op))) << e->text("jaxpr");
    }
  }
}

TEST(ShortAxes, OfRowsThatAreMovedAreTakenApart) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Array x = uniform({3001, 3}, dtype, 0, 9);
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array& p = a[0];
          const Array value = lax::convert_element_type(Array(2), p.dtype());
          const auto folded = [](const Array& d) { return max(d * d, -1); };
          return Arrays{
              folded(lax::rev(p, {0}) - p),
              folded(lax::pad(p, value, {{2, -3, 0}, {0, 0, 0}}) * 2),
              folded(lax::pad(p, value, {{0, 1, 1}, {0, 0, 0}}) + 1),
              folded(lax::concatenate(Arrays{p(slice(0, 7)) * 2, p, p(slice({}, {}, 5)) + 1}, 0)),
              folded(lax::dynamic_slice(p, Arrays{a[1], a[1]}, {2900, 3}) + 1),
              folded(lax::dynamic_slice(p, Arrays{a[1], a[1]}, {1400, 3}) + 1)};
        },
        {x, Array(50)}, -1, 0);
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(",3] = mul"))) << e->text("jaxpr");
  }
}

// A number for each row, repeated along rows of which a vector holds no whole number.
TEST(ShortAxes, OfRowsTimesNumbersAreWoven) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i16}) {
    for (const std::int64_t k : {2, 3, 4, 5, 7}) {
      const Compiled e = check(
          [](std::span<const Array> a) { return Arrays{a[0] * a[1] + a[0], a[1] * a[1] * a[2]}; },
          {uniform({2001, k}, dtype, 0, 9), uniform({2001, 1}, dtype, 0, 9, 2),
           uniform({1, k}, dtype, 0, 9, 3)},
          1, 0);
      const std::size_t lanes = runtime::target_vector_bytes() / size_of(dtype);
      if (static_cast<std::size_t>(k) >= lanes) continue;  // a vector is of one row
      EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather"))) << e->text("plan");
    }
  }
}

// Rows that are repeated side by side, and numbers that are repeated along longer rows: put together in
// registers, with what is done with all of them.
TEST(ShortAxes, OfRowsThatAreRepeatedAreWoven) {
  const auto wider = [](const Array& x, std::int64_t times) { return repeat(x, times, -1); };
  for (const DType dtype : {DType::f32, DType::f64, DType::i16}) {
    for (const std::int64_t k : {2, 3, 7}) {
      const Array x = uniform({2001, k}, dtype, 0, 9), image = uniform({31, 37}, dtype, 0, 9, 2);
      const Compiled e = check(
          [&](std::span<const Array> a) {
            return Arrays{repeat(a[0], 2, 1) * 2, tile(a[0], {1, 3}) + 1, abs(wider(a[1], k)) - 3,
                          wider(repeat(a[1], 2, 0), k) * 2, wider(a[1], k) * wider(a[1] + 1, k)};
          },
          {x, image}, -1, 0);
      EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("," + std::to_string(37 * k) + "] = mul")));
    }
  }
  // Bytes, of which rows of six would take too many shuffles.
  check([](std::span<const Array> a) { return Arrays{tile(a[0], {1, 2}), repeat(a[0], 2, 1)}; },
        {uniform({2001, 3}, DType::u8, 0, 200)}, -1, 0);
}

// An argument is there as a whole in any case, whoever else reads it so.
TEST(ShortAxes, OfPicturesTwiceAsLargeTakeOneKernel) {
  for (const Shape& shape : {Shape{70, 90}, Shape{40, 70, 3}, Shape{40, 70, 2}}) {
    check([](std::span<const Array> a) { return Arrays{repeat(repeat(a[0] * 2, 2, 0), 2, 1)}; },
          {uniform(shape, DType::f32)}, runtime::target_vector_bytes() > 16 ? 1 : -1);
    // Others read what is repeated.
    check(
        [](std::span<const Array> a) {
          const Array tall = repeat(a[0], 2, 0);
          return Arrays{repeat(tall, 2, 1), tall, tall(slice(), slice(1, 3))};
        },
        {uniform(shape, DType::f32)});
  }
}

TEST(ShortAxes, OfArgumentsThatOthersReadWholeAreWoven) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        return Arrays{exp(a[0] * a[1](ellipsis, newaxis)), sort(a[0], 0)};
      },
      {uniform({3001, 2}, DType::f32, 0, 1), uniform({3001}, DType::f32, 0, 1, 2)}, -1, 4);
  if (runtime::target_vector_bytes() > 16)
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32[3001,2] = exp")));
}

// Rows that are scaled, and products of two vectors for each of many: what is repeated is no column.
TEST(ShortAxes, AlongWhichNumbersAreRepeatedStay) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8, DType::i16}) {
    for (const std::int64_t k : {2, 5, 7, 12}) {
      SCOPED_TRACE(k);
      const Program f = [](std::span<const Array> a) {
        return Arrays{a[0](ellipsis, newaxis) * a[1](slice(), newaxis)};
      };
      const Arrays in = {lax::convert_element_type(uniform({1001, k}, DType::f32, 0, 9), dtype),
                         lax::convert_element_type(uniform({1001, k}, DType::f32, 0, 9, 2), dtype)};
      EXPECT_EQ(check(f, in, 1, 0)->text("jaxpr"),
                check(f, in, 1, 0, {.disabled = {"short_axes"}})->text("jaxpr"));
    }
  }
}

// Rows times a small matrix, which lies by rows or by columns, or a vector: sums of their columns times numbers.
TEST(ShortAxes, OfRowsTimesASmallMatrixAreWoven) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / size_of(dtype));
    for (const Shape& rows : {Shape{4099}, Shape{5, 100}}) {
      for (std::int64_t k = 2; k <= 8; ++k) {
        Shape shape = rows;
        shape.push_back(k);
        const Array x = uniform(shape, dtype, 0, 1);
        const auto apart = [&](std::int64_t columns) {
          const bool many = x.size() >= 2048;
          if (columns == 1) return many && k < 8;
          return many && columns < lanes &&
                 k * columns * static_cast<std::int64_t>(size_of(dtype)) <= 72;
        };
        for (std::int64_t m = 2; m <= 8; ++m) {
          const Array by = uniform({k, m}, dtype, 0, 1, 2);
          const auto product = [](std::span<const Array> a) { return Arrays{matmul(a[0], a[1])}; };
          const auto transposed = [](std::span<const Array> a) {
            return Arrays{matmul(a[0], lax::transpose(a[1], {1, 0})) + 1};
          };
          for (const Compiled& e :
               {check(product, {x, by}, apart(m) ? 1 : -1, 8),
                check(transposed, {x, lax::transpose(by, {1, 0}) * 1}, apart(m) ? 1 : -1, 8)})
            EXPECT_EQ(e->text("jaxpr").find("dot_general") == std::string::npos, apart(m));
        }
        const Compiled e =
            check([](std::span<const Array> a) { return Arrays{exp(matmul(a[0], a[1]))}; },
                  {x, uniform({k}, dtype, 0, 1, 2)}, -1, 16);
        EXPECT_EQ(e->text("jaxpr").find("dot_general") == std::string::npos, apart(1));
      }
    }
  }
}
TEST(ShortAxes, OfRowsTimesASmallMatrixTakeOneKernelWithWhatIsAround) {
  const auto turned = [](const Array& x, const Array& turn, const Array& by) {
    const Array y = matmul(x * 2, turn) + by;
    return y / sqrt(sum(y * y, {.axes = {-1}, .keepdims = true}));
  };
  const Arrays inputs = {uniform({3000, 3}, DType::f32, 0, 1), uniform({3, 3}, DType::f32, 0, 1, 2),
                         uniform({3}, DType::f32, 1, 2, 3)};
  check([&](std::span<const Array> a) { return Arrays{turned(a[0], a[1], a[2])}; }, inputs, 1, 16);
  check(
      [&](std::span<const Array> a) {
        return Arrays{
            grad([&](const Array& x) { return sum(square(matmul(x, a[1]) + a[2])); })(a[0])};
      },
      inputs, 1, 16);
}
// A matrix times each of many points, as vmap, einsum and transposes write it.
TEST(ShortAxes, OfASmallMatrixTimesRowsAreWoven) {
  const Arrays inputs = {uniform({3, 3}, DType::f32, 0, 1), uniform({3000, 3}, DType::f32, 0, 1, 2),
                         uniform({3}, DType::f32, 0, 1, 3)};
  const auto turned = [](std::span<const Array> a) {
    return vmap([&](const Array& x) { return matmul(a[0], x) + a[2]; })(a[1]);
  };
  check([&](std::span<const Array> a) { return Arrays{turned(a)}; }, inputs, 1, 16);
  check([&](std::span<const Array> a) { return Arrays{sum(turned(a), 1)}; }, inputs, 1, 16);
  check([](std::span<const Array> a) { return Arrays{einsum("ij,nj->ni", a[0], a[1])}; }, inputs, 1,
        16);
  check([](std::span<const Array> a) { return Arrays{matmul(a[2], lax::transpose(a[1], {1, 0}))}; },
        inputs, 1, 16);
}
// What is wanted as planes, and rows that others make, are products as they were.
TEST(ShortAxes, OfASmallMatrixTimesRowsStayWhereNothingIsGained) {
  const Arrays inputs = {uniform({3, 3}, DType::f32, 0, 1),
                         uniform({3000, 3}, DType::f32, 0, 1, 2)};
  const auto stays = [&](const Program& f) {
    const Compiled e = check(f, inputs, -1, 16);
    EXPECT_THAT(e->text("jaxpr"), HasSubstr("dot_general"));
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32[3000,3] = dot_general")));
  };
  stays([](std::span<const Array> a) { return Arrays{einsum("ij,nj->in", a[0], a[1])}; });
  stays([](std::span<const Array> a) {
    return Arrays{matmul(a[0], lax::transpose(sort(a[1], 0), {1, 0}))};
  });
  const Program after_sort = [](std::span<const Array> a) {
    Array y = sort(a[1], 0);
    for (int i = 0; i < 20; ++i) y = matmul(y, a[0]) * .5f;
    return Arrays{y};
  };
  EXPECT_THAT(check(after_sort, inputs, -1, 64)->text("jaxpr"), HasSubstr("dot_general"));
}
// A sum of products begins with 0, so that it is 0, not -0, for -0 and -0; what is not a number stays in its row.
TEST(ShortAxes, OfRowsTimesASmallMatrixLeaveZerosAndNaNs) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> some = {-0.0, 0.0, 1, inf, std::nan(""), -inf, -2, 0.0, -0.0};
  std::vector<double> x(3 * 4000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 30 < 12 ? some[i % 7] : some[i % 3];
  const Array by(std::vector<double>{-1, 1, -0.0, 2, -0.0, -3}, {3, 2});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto of = [&](const Array& a) { return lax::convert_element_type(a, dtype); };
    const Compiled e = check([](std::span<const Array> a) { return Arrays{matmul(a[0], a[1])}; },
                             {of(Array(x, {4000, 3})), of(by)}, -1, 0);
    if (runtime::target_vector_bytes() > 2 * size_of(dtype))
      EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("dot_general")));
  }
}

// What is as long as one row alone may be made and read whole.
TEST(ShortAxes, OfRowsTimesARowThatIsMadeWholeTakeOneKernel) {
  check(
      [](std::span<const Array> a) {
        const Array length = sqrt(sum(a[0] * a[0], {.axes = {-1}, .keepdims = true}));
        return Arrays{a[0] / length * arange(3, DType::f32)};
      },
      {uniform({5000, 3}, DType::f32, 1, 2)}, 1, 4);
}

TEST(ShortAxes, OfWhatIsSmallOrInAnotherOrderStay) {
  const auto jaxpr = [](const Shape& shape, const Shape& order, DType dtype) {
    const auto f = [&](std::span<const Array> a) { return Arrays{transpose(a[0], order)}; };
    return check(f, {uniform(shape, dtype, 0, 9)}, -1, 0)->text("jaxpr");
  };
  EXPECT_THAT(jaxpr({3, 100}, {1, 0}, DType::f32), HasSubstr("transpose"));
  EXPECT_THAT(jaxpr({3, 1000}, {1, 0}, DType::f32), Not(HasSubstr("transpose")));
  EXPECT_THAT(jaxpr({3, 1000}, {1, 0}, DType::f16), Not(HasSubstr("transpose")));
  EXPECT_THAT(jaxpr({3, 1000}, {1, 0}, DType::bool_), Not(HasSubstr("transpose")));
  EXPECT_THAT(jaxpr({3, 40, 50}, {2, 1, 0}, DType::f32), HasSubstr("transpose"));
  EXPECT_THAT(jaxpr({15, 1000}, {1, 0}, DType::f32), Not(HasSubstr("transpose")));
  EXPECT_THAT(jaxpr({16, 1000}, {1, 0}, DType::f32), HasSubstr("transpose"));
}

TEST(ShortAxes, OfWhatOthersReadAreStoredOnce) {
  const Array x = uniform({3000, 4}, DType::f64);
  check(
      [](std::span<const Array> a) {
        const Array y = a[0] - mean(a[0], {.axes = -1, .keepdims = true});
        return Arrays{y, sum(y, 0), transpose(y), y(slice(), 2), exp(y) + y(slice(5, 6))};
      },
      {x}, -1, 1e4);
}

TEST(ShortAxes, AreFoldedByEveryReduction) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (const std::int64_t k : {2, 3, 5, 7, 8}) {
      const Array x = uniform({33, k}, dtype, 0, 4);
      const Compiled e = check(
          [](std::span<const Array> a) {
            const Array r = differences(a[0]);
            return Arrays{sum(r, -1),
                          max(r, -1),
                          min(r, -1),
                          prod(r, -1),
                          sum(r, {.axes = {0, 2}}),
                          max(r, {.axes = {0, 1, 2}}),
                          sum(r, 0)};
          },
          {x}, -1, 1e6);
      EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(cubes(33, k) + " = sub")));
    }
  }
}

// Nothing lies between memory and the fold, which goes by columns of whole vectors of rows all the same.
TEST(ShortAxes, OfMemoryAreFoldedByColumns) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::bf16}) {
    for (std::int64_t k = 2; k <= 9; ++k) {
      const Array x = uniform({6007, k}, dtype, 1, 4);
      const auto text = [&](const Program& f) { return check(f, {x}, -1, 1e6)->text("jaxpr"); };
      const bool computed_as_f32 = dtype == DType::f32 || dtype == DType::bf16;
      const std::string folds = text([](std::span<const Array> a) {
        return Arrays{max(a[0], -1), min(a[0], -1), sum(a[0], -1), prod(a[0], -1)};
      });
      const bool bytes = dtype == DType::u8 && k == 8;
      EXPECT_EQ(folds.find("reduce_") == std::string::npos, k <= (computed_as_f32 ? 8 : 6) || bytes)
          << folds;
      const std::string tests = text(
          [](std::span<const Array> a) { return Arrays{any(a[0] > 2, -1), all(a[0] > 2, -1)}; });
      EXPECT_EQ(tests.find("reduce_") == std::string::npos, k <= 6 || k == 8) << tests;
    }
  }
  for (std::int64_t k = 2; k <= 9; ++k) {  // booleans that lie in memory
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{any(a[0], -1), all(a[0], -1), sum(a[0], -1)};
        },
        {uniform({5003, k}, DType::f32, -0.1, 1) > 0.0});
    const std::string jaxpr = e->text("jaxpr");
    EXPECT_EQ(jaxpr.find("reduce_") == std::string::npos, k <= 6 || k == 8) << jaxpr;
  }
  // Blocks, whose other axis is folded, too; but not what is a row of both.
  const auto blocks = [](const Shape& axes) {
    return [axes](std::span<const Array> a) {
      const Array x = lax::reshape(a[0], {40, 3, 50, 2});
      return Arrays{max(x, {.axes = axes}), sum(x, {.axes = axes})};
    };
  };
  const Array x = uniform({120, 100}, DType::f32, 1, 4);
  EXPECT_THAT(check(blocks({1, 3}), {x}, -1, 1e3)->text("jaxpr"), HasSubstr("slice"));
  EXPECT_THAT(check(blocks({2, 3}), {x}, -1, 1e3)->text("jaxpr"), Not(HasSubstr("slice")));
  const auto pairs = [](std::span<const Array> a) {
    return Arrays{max(lax::reshape(a[0], {5000, 2, 1, 5}), {.axes = {1, 3}})};
  };
  EXPECT_THAT(check(pairs, {uniform({10000, 5}, DType::f32)})->text("jaxpr"),
              Not(HasSubstr("slice")));
}

// The first of equals, and the first NaN before all others.
TEST(ShortAxes, TellWhereTheirExtremesAre) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (std::int64_t k = 2; k <= 8; ++k) {
      const Array few = lax::convert_element_type(uniform({3001, k}, DType::f32, 0, 4), DType::i32);
      Array x = lax::convert_element_type(few, dtype);
      if (is_float(dtype)) x = where(x == 3, x * std::numeric_limits<double>::quiet_NaN(), x);
      for (const DType index : {DType::i64, DType::i32, DType::u8}) {
        const Compiled e = check(
            [=](std::span<const Array> a) {
              return Arrays{lax::argmax(a[0], 1, index), lax::argmin(a[0], 1, index)};
            },
            {x}, 1, 0);
        const std::string rows = "[3001," + std::to_string(k) + "]";
        EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(rows + " = iota"))) << e->text("jaxpr");
      }
    }
  }
}

TEST(ShortAxes, OfResultsArePutTogetherAgain) {
  const Array x = uniform({48, 3}, DType::f64);
  const Compiled e = check(
      [](std::span<const Array> a) {
        const Array r = differences(a[0]);
        const Array near = lax::select(r > 0, r, -2 * r);
        return Arrays{sum(near, 0), sum(transpose(near, {1, 0, 2}), 0) + a[0],
                      max(lax::reshape(near, {48 * 48, 3}), 0)};
      },
      {x}, -1, 1e4);
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("concatenate"));
}

TEST(ShortAxes, WithinLoopsAreTakenApartToo) {
  const Array x = uniform({40, 3}, DType::f64), m = uniform({40}, DType::f64, .5, 1.5);
  const Compiled e = check(
      [](std::span<const Array> a) {
        return Arrays{fori_loop(
            0, 3, [m = a[1]](const Array&, const Array& y) { return y - .1 * force(y, m); }, a[0])};
      },
      {x, m}, -1, 1e4);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(cubes(40, 3))));
}

TEST(ShortAxes, OfPairsOfNothingStay) {
  const Array x = uniform({0, 3}, DType::f64);
  check(
      [](std::span<const Array> a) {
        const Array r = differences(a[0]);
        return Arrays{sum(r * r, -1), sum(r, 0)};
      },
      {x}, -1, 0);
}

}  // namespace
}  // namespace telamon::testing
