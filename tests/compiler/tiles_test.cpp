// Kernels over the rows or columns of large arrays run tile by tile, and nothing but time changes by that.
#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The same bits with and without tiles, for one to four threads. Gives the plan with them.
std::string same_either_way(const Program& f, const Arrays& inputs) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled with = compile(jaxpr);
  const Arrays want = execute(
      compile(jaxpr, {.contract = false, .name = "without", .disabled = {"tiles"}}), inputs);
  for (int threads = 1; threads <= 4; ++threads) {
    const WithThreads scope(threads);
    const Arrays got = execute(with, inputs);
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_equal(got[i], want[i], 0, with->text("plan") + std::to_string(threads));
  }
  return with->text("plan");
}

Array numbers(Shape shape, DType dtype) { return uniform(std::move(shape), dtype, -1, 1); }

/// (x - mean) / deviation, along an axis.
Array normalised(const Array& x, std::int64_t axis = 0) {
  const Array m = mean(x, {.axes = axis, .keepdims = true});
  return (x - m) * lax::rsqrt(var(x, {.axes = axis, .keepdims = true}) + 1e-5);
}

TEST(Tiles, HoldColumnsThatAreNormalised) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [rows, columns] : {std::pair{7, 149796}, {64, 16384}, {33, 32801}}) {
      const std::string plan = same_either_way(
          [](std::span<const Array> x) { return Arrays{normalised(x[0]) * x[1] + x[2]}; },
          {numbers({rows, columns}, dtype), numbers({rows, 1}, dtype), numbers({columns}, dtype)});
      EXPECT_THAT(plan, HasSubstr("tiles ")) << rows;
      EXPECT_THAT(plan, HasSubstr("of 1024 columns"));
    }
  }
}

// One thread writes these past the caches, several do not: both are in the code.
TEST(Tiles, HoldRowsOfArraysOfAnySize) {
  const Program f = [](std::span<const Array> x) { return Arrays{normalised(x[0], 1) * x[1]}; };
  const Arrays inputs{numbers({2200, 1024}, DType::f32), numbers({1024}, DType::f32)};
  const std::string plan = same_either_way(f, inputs);
  EXPECT_THAT(plan, HasSubstr("tiles "));
  EXPECT_THAT(plan, HasSubstr(" rows"));
  const Arrays larger{numbers({4400, 1024}, DType::f32), numbers({1024}, DType::f32)};
  EXPECT_THAT(same_either_way(f, larger), HasSubstr("tiles "));
  EXPECT_THAT(compile(stage(f, larger))->text("ir"), HasSubstr("!nontemporal"));
}

TEST(Tiles, HoldWhatTheirKernelsLeaveEachOther) {
  for (const auto& [rows, columns] : {std::pair{7, 149796}, {40, 8209}}) {
    const std::string plan = same_either_way(
        [](std::span<const Array> x) {
          const Array y = softmax(x[0], 0);
          return Arrays{y, lax::reduce_max(y, {0}), argmax(x[0], 0)};
        },
        {numbers({rows, columns}, DType::f32)});
    EXPECT_THAT(plan, HasSubstr("tiles ")) << rows;
  }
}

TEST(Tiles, HoldColumnsOfSeveralDimensions) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array m = mean(x[0], {.axes = {0, 1}, .keepdims = true});
        return Arrays{lax::exp(x[0] - m), lax::reduce_sum(lax::abs(x[0] - m), {0, 1})};
      },
      {numbers({3, 5, 30011}, DType::f32)});
  EXPECT_THAT(plan, HasSubstr("tiles "));
}

TEST(Tiles, HoldWholeNumbersAndTruthValues) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array least = expand_dims(lax::reduce_min(x[0], {0}), 0), y = x[0] - least;
        return Arrays{y, y > 1000, (y + x[1]).astype(u8), lax::reduce_sum(y, {0})};
      },
      {uniform({17, 1 << 16}, DType::i32, -1000, 1000), uniform({1 << 16}, DType::i64, 0, 9)});
  EXPECT_THAT(plan, HasSubstr("tiles "));
}

TEST(Tiles, LeaveAloneWhatReadsOtherColumns) {
  const Arrays square{numbers({1 << 14}, DType::f32), numbers({64, 1 << 14}, DType::f32)};
  const auto plan_of = [&](const std::function<Array(const Array& sums)>& moved) {
    return same_either_way(
        [&](std::span<const Array> x) {
          return Arrays{x[1] * x[0] + moved(lax::reduce_sum(x[1], {0}))};
        },
        square);
  };
  EXPECT_THAT(plan_of([](const Array& s) { return s; }), HasSubstr("tiles "));
  EXPECT_THAT(plan_of([](const Array& s) { return lax::rev(s, {0}); }), Not(HasSubstr("tiles ")));
  EXPECT_THAT(plan_of([](const Array& s) { return roll(s, 1); }), Not(HasSubstr("tiles ")));
  EXPECT_THAT(plan_of([](const Array& s) { return expand_dims(lax::slice(s, {0}, {64}), 1); }),
              Not(HasSubstr("tiles ")));
}

TEST(Tiles, HoldRowsThatAreNormalised) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [rows, columns] : {std::pair{1048, 1000}, {257, 2051}, {149796, 7}}) {
      const std::string plan = same_either_way(
          [](std::span<const Array> x) { return Arrays{normalised(x[0], 1) * x[1] + x[2]}; },
          {numbers({rows, columns}, dtype), numbers({columns}, dtype), numbers({rows, 1}, dtype)});
      if (columns > 8) EXPECT_THAT(plan, HasSubstr(" rows")) << rows;
    }
  }
}

/// The derivatives of sum(g * h * w + g * b), h the normalised rows of x.
Arrays gradients_of_normalised(std::span<const Array> in) {
  const Array &x = in[0], &w = in[1], &g = in[2];
  const auto mean_of_rows = [](const Array& a) { return mean(a, {.axes = 1, .keepdims = true}); };
  const Array away = x - mean_of_rows(x), scale = lax::rsqrt(mean_of_rows(away * away) + 1e-5);
  const Array h = away * scale, y = g * w;
  return {scale * (y - mean_of_rows(y) - h * mean_of_rows(y * h)), lax::reduce_sum(g * h, {0}),
          lax::reduce_sum(g, {0})};
}

// Sums over columns are in parts of 16 rows and their multiples, and tiles are parts of these.
TEST(Tiles, HoldFoldsOfRowsAndColumns) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [rows, columns] :
         {std::pair{1000, 1024}, {517, 2051}, {2100, 700}, {900, 900}}) {
      const std::string plan = same_either_way(
          gradients_of_normalised, {numbers({rows, columns}, dtype), numbers({columns}, dtype),
                                    numbers({rows, columns}, dtype)});
      EXPECT_THAT(plan, HasSubstr(" rows")) << rows;
      EXPECT_THAT(plan.substr(plan.rfind("tiles ")), HasSubstr("  kernel loop")) << plan;
    }
  }
}

TEST(Tiles, LeaveAloneWhatReadsSumsOverAllRows) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array y = x[0] * x[0] + 1;
        const Array rows = lax::reduce_sum(y, {1}), columns = lax::reduce_sum(y, {0});
        // By the index of a row, too: there are as many.
        return Arrays{rows, y + expand_dims(columns, 0), y - expand_dims(columns, 1)};
      },
      {numbers({1024, 1024}, DType::f32)});
  EXPECT_THAT(plan, Not(HasSubstr("tiles ")));
}

TEST(Tiles, WriteSumsOfColumnsOverDonatedArguments) {
  const auto f = [](const Array& x, const Array& w, const Array& g) {
    return gradients_of_normalised(Arrays{x, w, g});
  };
  const Arrays x = {numbers({1000, 1024}, DType::f32), numbers({1024}, DType::f32),
                    numbers({1000, 1024}, DType::f32)};
  const Arrays want = jit(f)(x[0], x[1], x[2]);
  const Arrays got = jit(f, {.donate = {0, 1, 2}})(x[0] + 0.0f, x[1] + 0.0f, x[2] + 0.0f);
  for (std::size_t i = 0; i < want.size(); ++i) expect_equal(got[i], want[i], 0, "donated");
}

TEST(Tiles, HoldRowsOfSeveralDimensions) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array y = x[0] - expand_dims(lax::reduce_max(x[0], {2}), 2);
        return Arrays{y, lax::reduce_sum(y, {1}), lax::reduce_sum(y, {2}), argmax(x[0], 2)};
      },
      {numbers({150, 11, 301}, DType::f32)});
  EXPECT_THAT(plan, HasSubstr(" rows"));
}

TEST(Tiles, AreSingleRowsThatAreLong) {
  for (const auto& [rows, columns] : {std::pair{16, 65536}, {19, 32768}, {13, 1 << 17}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::string plan =
          same_either_way([](std::span<const Array> x) { return Arrays{normalised(x[0], 1)}; },
                          {numbers({rows, columns}, dtype)});
      if (columns == 65536) { EXPECT_THAT(plan, HasSubstr(" of 1 rows")); }
    }
  }
  // Lanes would not begin where rows do.
  EXPECT_THAT(same_either_way([](std::span<const Array> x) { return Arrays{normalised(x[0], 1)}; },
                              {numbers({16, 65537}, DType::f32)}),
              Not(HasSubstr("tiles ")));
}

// Lanes run over short rows that are folded: of one row of a tile there may be any number of them.
TEST(Tiles, FoldShortRowsOfLongOnes) {
  const Program f = [](std::span<const Array> x) {
    const Array y = x[0] + expand_dims(lax::reduce_sum(x[0], {2}), 2);
    return Arrays{y, lax::reduce_min(lax::reduce_max(y, {1}), {0})};
  };
  for (const Shape& shape : {Shape{528, 133, 32}, {80, 517, 32}, {300, 515, 16}, {100, 1030, 24}})
    EXPECT_THAT(same_either_way(f, {numbers(shape, DType::f32)}), HasSubstr(" rows"));
}

// Slices, pads and concatenations along rows, and down columns, of what stays in memory in between.
TEST(Tiles, HoldWhatIsMovedWithinThem) {
  const auto moved = [](const Array& y, std::int64_t axis) {
    const std::int64_t n = y.shape(axis);
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return lax::slice_in_dim(y, from, to, 1, axis);
    };
    std::vector<std::array<std::int64_t, 3>> padding(2, {0, 0, 0});
    padding[static_cast<std::size_t>(axis)] = {2, 0, 0};
    const Array zero = lax::convert_element_type(Array(0), y.dtype());
    return lax::concatenate(Arrays{part(n - 3, n), part(0, n - 3)}, axis) * y +
           lax::pad(part(2, n), zero, padding);
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [rows, columns, axis] :
         {std::tuple{1000, 1024, 1}, {600, 1037, 1}, {64, 16384, 0}, {33, 32801, 0}}) {
      const Program f = [&, along = axis](std::span<const Array> x) {
        // It is stored, being read at several places.
        const Array y = lax::exp(x[0]) * lax::sin(x[0]), z = moved(y, along);
        return Arrays{z - expand_dims(lax::reduce_max(z, {along}), along)};
      };
      const Array x = numbers({rows, columns}, dtype);
      const std::string plan = same_either_way(f, {x});
      if (axis == 0 && dtype == DType::f32) { EXPECT_THAT(plan, HasSubstr("tiles ")) << rows; }
      const Arrays want = execute(compile(stage(f, {x})), {x});
      const auto g = [&](const Array& a) { return f(Arrays{a})[0]; };
      expect_equal(jit(g, {.donate = {0}})(x + 0.0f), want[0], 0, "donated");
    }
  }
  const Program blurred = [&](std::span<const Array> x) {
    const Array y = x[0](slice(2, {})) + 2 * x[0](slice(1, -1)) + x[0](slice({}, -2));
    return Arrays{moved(y, 1)};
  };
  EXPECT_THAT(same_either_way(blurred, {numbers({512, 1536}, DType::f32)}), HasSubstr("tiles "));
  // Rows that come from above, however many there are.
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array y = lax::exp(x[0]) * lax::sin(x[0]);
        const Array zero = lax::convert_element_type(Array(0), y.dtype());
        return Arrays{y, lax::pad(y, zero, {{1, -1, 0}, {0, 0, 0}}) * y};
      },
      {numbers({1000, 1024}, DType::f32)});
  EXPECT_THAT(plan, Not(HasSubstr(" rows")));
}

TEST(Tiles, LeaveAloneWhatReadsOtherRows) {
  const auto plan_of = [](const std::function<Array(const Array& sums)>& moved) {
    return same_either_way(
        [&](std::span<const Array> x) {
          return Arrays{x[0] + expand_dims(moved(lax::reduce_sum(x[0], {1})), 1)};
        },
        {numbers({1024, 1024}, DType::f32)});
  };
  EXPECT_THAT(plan_of([](const Array& s) { return s; }), HasSubstr(" rows"));
  EXPECT_THAT(plan_of([](const Array& s) { return lax::rev(s, {0}); }), Not(HasSubstr("tiles ")));
  EXPECT_THAT(same_either_way(
                  [](std::span<const Array> x) {
                    return Arrays{x[0] + expand_dims(lax::reduce_sum(x[0], {1}), 0)};
                  },
                  {numbers({1024, 1024}, DType::f32)}),
              Not(HasSubstr("tiles ")));
}

TEST(Tiles, LeaveAloneWhatFits) {
  for (const std::int64_t axis : {0, 1}) {
    const auto f = [=](std::span<const Array> x) { return Arrays{normalised(x[0], axis)}; };
    EXPECT_THAT(same_either_way(f, {numbers({8, 9000}, DType::f32)}), Not(HasSubstr("tiles ")));
    EXPECT_THAT(same_either_way(f, {numbers({3000, 80}, DType::f32)}), Not(HasSubstr("tiles ")));
  }
}

TEST(Tiles, WriteOverDonatedColumns) {
  const auto f = [](const Array& x) { return normalised(x); };
  const Array x = numbers({7, 149796}, DType::f32), again = x + 0.0f;
  const Array want = jit(f)(x);
  expect_equal(jit(f, {.donate = {0}})(again), want, 0, "donated");
  EXPECT_THROW((void)again.to_vector<float>(), DonatedBufferError);
  // Columns of narrower numbers lie elsewhere.
  const auto h = [](const Array& x, const Array& y) {
    const Array away = y - expand_dims(lax::reduce_max(x, {0}).astype(f32), 0);
    return away * lax::reduce_sum(lax::square(away), {0});
  };
  const Array narrow = uniform({128, 1 << 14}, DType::i16, -100, 100);
  const Array y = numbers({64, 1 << 14}, DType::f32), wide = jit(h)(narrow, y);
  expect_equal(jit(h, {.donate = {0}})(lax::neg(lax::neg(narrow)), y), wide, 0, "narrow");
  // What is read at other columns may not be written over before.
  const auto g = [](const Array& x) { return normalised(x) + lax::rev(x, {1}); };
  const Array other = x + 0.0f, expected = jit(g)(x);
  expect_equal(jit(g, {.donate = {0}})(other), expected, 0, "reversed");
}

}  // namespace
}  // namespace telamon::testing
