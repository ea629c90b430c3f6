// Rows that vectors tear apart, with what each has of its columns alone: as many of them at a time as are whole vectors.
#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Numbers of which sums are exact.
Array whole(const Shape& shape, DType dtype, unsigned seed = 1) {
  const double least = is_unsigned_integer(dtype) ? 0 : -9;
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, least, 10, seed)), dtype);
}
Array rows_of(const Array& row, const Array& like) {
  return lax::broadcast_in_dim(row, like.shape(), {like.ndim() - 1});
}

TEST(ShortRows, WithARowForAllOfThem) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::bf16}) {
    for (const std::int64_t k : {2, 3, 4, 5, 6, 7, 8, 12, 17, 31}) {
      // Of fewer rows than are taken at a time, as many, and a few more.
      for (const std::int64_t n : {3, 64, 131}) {
        check(
            [](std::span<const Array> a) {
              const Array by = rows_of(a[1], a[0]), more = rows_of(a[2], a[0]);
              return Arrays{a[0] * by + more,
                            lax::convert_element_type(a[0], DType::f32) +
                                rows_of(lax::iota(DType::f32, a[1].shape(), 0), a[0])};
            },
            {whole({n, k}, dtype, 1), whole({k}, dtype, 2), whole({k}, dtype, 3)}, -1, 0);
      }
    }
  }
}

TEST(ShortRows, OfMoreDimensions) {
  for (const Shape& shape : {Shape{7, 50, 3}, Shape{5, 4, 11, 5}, Shape{1, 200, 6},
                             Shape{300, 1, 7}, Shape{100, 3, 1}, Shape{2, 3, 7, 2}}) {
    const Shape row{shape.back() == 1 ? shape[1] : shape.back()};
    const std::int64_t along = shape.back() == 1 ? 1 : shape.ndim() - 1;
    check(
        [&](std::span<const Array> a) {
          const Array by = lax::broadcast_in_dim(a[1], a[0].shape(), {along});
          // The other dimensions are told apart here, where rows are not taken together.
          return Arrays{lax::max(a[0], by), lax::reshape(a[0] - by, {shape.num_elements()}),
                        a[0] * by + lax::iota(DType::f32, a[0].shape(), 0)};
        },
        {whole(shape, DType::f32), whole(row, DType::f32, 2)}, -1, 0);
  }
}

// Several rows are a trip of the loop, wherever they come from, and those that are left trips of their own.
TEST(ShortRows, ThatAreLookedUp) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::bf16}) {
    for (const std::int64_t k : {2, 3, 4, 7, 15}) {
      for (const std::int64_t n : {7, 8, 131}) {
        const Array i = lax::convert_element_type(uniform({n}, DType::f32, -9, 60), DType::i32);
        check(
            [](std::span<const Array> a) {
              const Array rows = take(a[0], a[1], 0), columns = take(take(a[2], a[1], 0), a[1], 1);
              return Arrays{rows, columns, rows + a[3], lax::rev(columns, {0})};
            },
            {whole({50, k}, dtype, 1), i, whole({50, 50, k}, dtype, 2), whole({n, k}, dtype, 3)},
            -1, 0);
      }
    }
  }
}

// Large results go around the caches, rows that are left of the groups do not.
TEST(ShortRows, OfLargeArraysBeginWhereTheyMay) {
  for (const auto& [shape, dtype] : {std::pair{Shape{250'003, 28}, DType::f32},
                                     {Shape{300'002, 10}, DType::f64},
                                     {Shape{900'014, 7}, DType::f32},
                                     {Shape{3, 90'003, 20}, DType::f32}}) {
    check([](std::span<const Array> a) { return Arrays{a[0] * rows_of(a[1], a[0])}; },
          {whole(shape, dtype), whole({shape.back()}, dtype, 2)});
    const Shape rows{shape[shape.size() - 2], shape.back()};
    check(
        [&](std::span<const Array> a) {
          const Array others =
              lax::broadcast_in_dim(a[2], a[0].shape(), {a[0].ndim() - 2, a[0].ndim() - 1});
          return Arrays{a[0] * rows_of(a[1], a[0]) + others};
        },
        {whole(shape, dtype), whole({shape.back()}, dtype, 2), whole(rows, dtype, 3)});
  }
}

TEST(ShortRows, BesideOthersOfFewerDimensions) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    for (const std::int64_t k : {2, 3, 5, 7, 8, 12, 20, 24, 40}) {
      for (const std::int64_t n : {9, 40, 133}) {
        const Shape all{4, n, k};
        check(
            [&](std::span<const Array> a) {
              const auto spread = [&](const Array& x, const Shape& dims) {
                return lax::broadcast_in_dim(x, all, dims);
              };
              const Array row = spread(a[1], {2}), rows = spread(a[2], {1, 2});
              const Array one = spread(a[3], {1}), first = spread(a[4], {0, 2});
              const Array next = lax::slice(a[0], {0, 1, 0}, {4, n, k});
              const Array last = lax::slice(a[0], {0, 0, 0}, {4, n - 1, k});
              const Array cut = lax::broadcast_in_dim(a[1], next.shape(), {2});
              return Arrays{
                  a[0] * row + rows,
                  a[0] * one + row,
                  first * rows - row,
                  (next - last) * cut,
                  lax::max(a[0], first),
                  spread(a[3], {1}) + lax::iota(dtype, all, 1) * row,
                  lax::slice(a[0], {0, 0, 0}, {4, n, k - 1}) *
                      lax::broadcast_in_dim(lax::slice(a[1], {1}, {k}), {4, n, k - 1}, {2})};
            },
            {whole(all, dtype, 1), whole({k}, dtype, 2), whole({n, k}, dtype, 3),
             whole({n}, dtype, 4), whole({4, k}, dtype, 5)},
            -1, 0);
      }
    }
  }
}

// What is left of longer rows, every other or third of them, and all in the opposite order: vectors of them are in a few
// others, from which they are taken at once.
TEST(ShortRows, NearEachOther) {
  const bool vectors_of_bytes = runtime::target_vector_bytes() >= 32;
  for (const DType dtype : {DType::f32, DType::f64, DType::i16, DType::u8, DType::bool_}) {
    for (const std::int64_t k : {2, 3, 7, 12}) {
      const std::int64_t n = 133;
      const auto times = [&](const Array& x) { return dtype == DType::bool_ ? x : x * x; };
      const Compiled e = check(
          [&](std::span<const Array> a) {
            const Array& x = a[0];
            return Arrays{
                times(lax::slice(x, {0, 0, 0}, {3, 2 * n, k}, {1, 2, 1})),
                times(lax::slice(x, {0, 1, 0}, {3, 3 * n - 1, k}, {1, 3, 1})),
                times(lax::slice(x, {0, 0, 1}, {3, 3 * n, k})),
                times(lax::slice(x, {0, 0, 0}, {3, 3 * n, k}, {1, 1, 2})),
                times(lax::rev(x, {1})),
                times(lax::rev(x, {2})),
                times(lax::rev(lax::slice(x, {0, 3, 0}, {3, 3 * n, k}, {2, 2, 1}), {0, 1}))};
          },
          {lax::convert_element_type(whole({3, 3 * n, k}, DType::i32), dtype)}, -1, 0);
      if (size_of(dtype) < 4 && !vectors_of_bytes) continue;
      EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather"))) << e->text("plan");
    }
  }
}

// Pixels of a picture that is mirrored.
TEST(ShortRows, InTheOppositeOrder) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::u8, DType::i16, DType::bf16, DType::bool_}) {
    for (const std::int64_t k : {2, 3, 4, 5, 7, 8}) {
      for (const std::int64_t n : {1, 7, 50, 129}) {
        const Array x = lax::convert_element_type(uniform({6, n, k}, DType::f32, 0, 99), dtype);
        check(
            [](std::span<const Array> a) {
              const Array& x = a[0];
              const Array turned = lax::rev(x, {1});
              const Array chosen =
                  lax::select_n(lax::broadcast_in_dim(a[1], x.shape(), {0}), Arrays{x, turned});
              return Arrays{turned,
                            lax::rev(x, {0, 1}),
                            chosen,
                            lax::rev(x, {0}),
                            lax::transpose(turned, {1, 0, 2}),
                            lax::rev(x, {0, 1, 2})};
            },
            {x, Array(std::vector<bool>{true, false, false, true, true, false})});
      }
    }
  }
}

// Pixels that are repeated, of which too few follow each other to be taken together but in several dimensions.
TEST(ShortRows, OfSeveralDimensionsAreLongerRows) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i16, DType::u8}) {
    for (const std::int64_t k : {3, 5, 6}) {
      for (const std::int64_t times : {2, 3}) {
        const std::vector<Array> inputs{whole({9, 70, k}, dtype), whole({k}, dtype, 2)};
        const Compiled e = check(
            [&](std::span<const Array> a) {
              const Array wide = lax::broadcast_in_dim(a[0], {9, 70, times, k}, {0, 1, 3});
              return Arrays{wide, wide * rows_of(a[1], wide)};
            },
            inputs, -1, 0);
        check(
            [&](std::span<const Array> a) {
              const Array high = lax::broadcast_in_dim(lax::reshape(a[0], {9, 70 * k}),
                                                       {9, times, 70 * k}, {0, 2});
              return Arrays{repeat(lax::reshape(high, {9 * times, 70, k}), times, 1)};
            },
            inputs, -1, 0);
        // Rows of three alone are less than a vector.
        if (k != 3 || times != 2 || size_of(dtype) > 4) continue;
        const std::string vector = "store <" + std::to_string(runtime::target_vector_bytes() / 4);
        EXPECT_THAT(e->text("ir"), HasSubstr(vector + " x ")) << e->text("plan");
      }
    }
  }
}

TEST(ShortRows, AreFoldedDownTheirColumns) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::bf16}) {
    for (const std::int64_t k : {2, 3, 5, 7, 8, 13}) {
      for (const std::int64_t n : {2, 67, 1000, 20'000}) {
        check(
            [](std::span<const Array> a) {
              const Array d = a[0] - rows_of(a[1], a[0]);
              return Arrays{lax::reduce_max(d, {0}), lax::reduce_min(d * rows_of(a[1], d), {0})};
            },
            {whole({n, k}, dtype, 1), whole({k}, dtype, 2)}, -1, 0);
      }
    }
  }
}

TEST(ShortRows, GiveGradientsOfWhatIsTheSameForAll) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    check(
        [](std::span<const Array> a) {
          const auto loss = [&](const Array& scale, const Array& shift) {
            return sum(square(tanh(a[0] * scale + shift)));
          };
          const auto [by_scale, by_shift] = grad<0, 1>(loss)(a[1], a[2]);
          return Arrays{by_scale, by_shift};
        },
        {uniform({3001, 3}, dtype, -1, 1, 1), uniform({3}, dtype, 0, 1, 2),
         uniform({3}, dtype, 0, 1, 3)},
        -1, 300);
  }
}

}  // namespace
}  // namespace telamon::testing
