// Index vectors that are put together of columns are one place each: the same bits in all modes, in parts and in blocks.
#include <gmock/gmock.h>

#include <string>

#include "compiler/support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Whole numbers from `low` to `high` - 1, in a column.
Array column(std::int64_t n, int low, int high, unsigned seed, DType dtype = DType::i32) {
  return lax::convert_element_type(lax::floor(uniform({n, 1}, DType::f64, low, high, seed)), dtype);
}

/// A scatter at columns of indices for the first dimensions of x, in this order: of single elements, or of rows.
Program scatter_at(const Shape& dimensions, GatherScatterMode mode, bool adds) {
  return [=](std::span<const Array> x) {
    ScatterParams p{{.inserted_window_dims = {}, .scatter_dims_to_operand_dims = dimensions},
                    false,
                    false,
                    mode};
    for (std::int64_t d = 0; d < std::ssize(dimensions); ++d)
      p.dimension_numbers.inserted_window_dims.push_back(d);
    for (std::int64_t d = 1; d < x[1].ndim(); ++d)
      p.dimension_numbers.update_window_dims.push_back(d);
    const Array indices = lax::concatenate(x.subspan(2), 1);
    return Arrays{adds ? lax::scatter_add(x[0], indices, x[1], p)
                       : lax::scatter(x[0], indices, x[1], p)};
  };
}

void expect_flat(const Program& f, const Arrays& x) {
  const std::string vectors = std::to_string(x[2].shape()[0]) + "," + std::to_string(x.size() - 2);
  const Compiled whole = check(f, x);
  EXPECT_THAT(whole->text("plan"), Not(HasSubstr("[" + vectors + "]")));
  const Arrays want = execute(whole, x);
  for (const int threads : {2, 3}) {
    const WithThreads scope(threads);
    expect_equal(execute(whole, x)[0], want[0], 0, std::to_string(threads) + " threads");
  }
}

// In blocks, where results are many, and in parts where they are few.
TEST(FlatPlaces, AreThoseOfTheirColumns) {
  constexpr std::int64_t kMany = 65'536;
  for (const std::int64_t height : {11, 500}) {
    for (const auto mode : {GatherScatterMode::fill_or_drop, GatherScatterMode::clip}) {
      for (const bool adds : {true, false}) {
        const int h = static_cast<int>(height);
        const Array x = uniform({height, 37}, DType::f32), u = uniform({kMany}, DType::f32);
        const Array i = column(kMany, -2, h + 2, 2), j = column(kMany, -1, 38, 3);
        expect_flat(scatter_at({0, 1}, mode, adds), {x, u, i, j});
        expect_flat(scatter_at({1, 0}, mode, adds), {x, u, j, i});
      }
    }
  }
}

TEST(FlatPlaces, AreInThreeDimensionsAndOfRows) {
  constexpr std::int64_t kMany = 40'960;
  for (const DType index : {DType::i32, DType::i64}) {
    const Array a = column(kMany, 0, 9, 2, index), b = column(kMany, -1, 20, 3, index),
                c = column(kMany, 0, 31, 4, index);
    const auto mode = GatherScatterMode::fill_or_drop;
    const Shape table{9, 20, 30}, rows{9, 20, 30, 3};
    for (const bool adds : {true, false}) {
      const Program f = scatter_at({0, 1, 2}, mode, adds);
      expect_flat(f, {uniform(table, DType::f64), uniform({kMany}, DType::f64), a, b, c});
      expect_flat(f, {uniform(rows, DType::f32), uniform({kMany, 3}, DType::f32), a, b, c});
    }
    // In parts.
    const Program f = scatter_at({1, 0}, GatherScatterMode::clip, true);
    const Array x = uniform({20, 9, 2}, DType::f32), u = uniform({4 * kMany, 2}, DType::f32);
    expect_flat(f, {x, u, column(4 * kMany, 0, 9, 5, index), column(4 * kMany, -1, 21, 6, index)});
  }
}

// As from at(i, j).add: negative indices count from the end, whatever computes them.
TEST(FlatPlaces, OfIndicesThatWrapAndAreComputed) {
  const Program f = [](std::span<const Array> x) {
    const Array i = (x[1] * 50).astype(DType::i32), j = (x[2] * 90).astype(DType::i32);
    return Arrays{x[0].at(i, j).add(x[3]), x[0].at(j, i).set(x[3])};
  };
  constexpr std::int64_t kMany = 40'960;
  const auto numbers = [](unsigned seed) { return uniform({kMany}, DType::f32, -1, 1, seed); };
  const Compiled e = check(f, {uniform({60, 70}, DType::f32), numbers(2), numbers(3), numbers(4)});
  EXPECT_THAT(e->text("plan"), Not(HasSubstr(",2]")));
}

TEST(FlatPlaces, OfGradientsOfLookUps) {
  const Program f = [](std::span<const Array> x) {
    const auto loss = [&](const Array& a) { return sum(a.at(x[1], x[2], x[3]).get() * x[4]); };
    return Arrays{grad(loss)(x[0])};
  };
  constexpr std::int64_t kMany = 40'960;
  const auto places = [](int high, unsigned seed) {
    return lax::reshape(column(kMany, 0, high, seed), {kMany});
  };
  const Compiled e = check(f, {uniform({8, 9, 100}, DType::f32), places(8, 2), places(9, 3),
                               places(100, 4), uniform({kMany}, DType::f32)});
  EXPECT_THAT(e->text("plan"), Not(HasSubstr(",3]")));
}

}  // namespace
}  // namespace telamon::testing
