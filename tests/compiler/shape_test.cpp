// Fusion of shape primitives: they only rewrite indices.
#include "support.hpp"
#include "telamon/grad.hpp"

namespace telamon::testing {
namespace {

TEST(CompiledShapes, BroadcastsFuseIntoTheirConsumers) {
  const Program f = [](std::span<const Array> x) {
    const Array bias = lax::broadcast_in_dim(x[1], x[0].shape(), {1}),
                scale = lax::broadcast_in_dim(x[2], x[0].shape(), {0});
    return Arrays{lax::mul(lax::add(x[0], bias), scale)};
  };
  for (const Shape& shape : {Shape{3, 40}, Shape{7, 16}, Shape{1, 5}, Shape{5, 1}, Shape{33, 3}}) {
    check(f,
          {uniform(shape, DType::f32), uniform({shape[1]}, DType::f32),
           uniform({shape[0]}, DType::f32)},
          1);
  }
}

TEST(CompiledShapes, TransposesSlicesReversalsAndPadsFuse) {
  const Program f = [](std::span<const Array> x) {
    const Array t = lax::transpose(x[0], {1, 0});             // 21 x 34
    const Array s = lax::slice(t, {1, 2}, {21, 34}, {2, 1});  // 10 x 32
    const Array r = lax::rev(s, {1});
    const Array p = lax::pad(lax::neg(r), Array(1.5f), {{{1, 2, 0}, {-1, 0, 1}}});
    return Arrays{lax::mul(lax::add(s, r), s), p};
  };
  check(f, {uniform({34, 21}, DType::f32)});
  check(f, {uniform({34, 21}, DType::f64)});
}

// Whole vectors are read where elements lie two to four apart, and nothing beyond the last one.
TEST(CompiledShapes, ElementsThatLieApartAreReadFromAnyStartToTheEnd) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i16, DType::u8, DType::bool_}) {
    for (const std::int64_t step : {2, 3, 4, 5, 19}) {
      for (const std::int64_t n : {5, 64, 67, 1000}) {
        for (const std::int64_t start : {0, 1}) {
          const std::int64_t end = start + (n - 1) * step + 1;
          const Compiled e = check(
              [&](std::span<const Array> a) {
                const auto every = [&](const Array& x) {
                  return lax::slice(x, {0, start}, {3, end}, {1, step});
                };
                return Arrays{every(a[0]), lax::eq(every(a[0]), every(a[1]))};
              },
              {uniform({3, end}, dtype, 0, 9), uniform({3, end}, dtype, 0, 9, 2)});
          if (n == 64 && step <= 4 && dtype == DType::f32)
            EXPECT_EQ(e->text("ir").find("masked.gather"), std::string::npos) << e->text("ir");
        }
      }
    }
  }
}

// Two megabytes are a mapping of their own, after which there is nothing.
TEST(CompiledShapes, NothingIsReadBeyondTheLastOfEveryFewElements) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8}) {
    const auto size = static_cast<std::int64_t>((std::size_t{2} << 20) / size_of(dtype));
    const Array x = lax::convert_element_type(lax::iota(DType::i32, {size}), dtype);
    for (const std::int64_t step : {2, 3, 4}) {
      for (std::int64_t n = 1; n <= 40; ++n) {
        check(
            [&](std::span<const Array> a) {
              return Arrays{
                  lax::neg(lax::slice(a[0], {size - 1 - step * (n - 1)}, {size}, {step}))};
            },
            {x});
      }
    }
  }
}

TEST(CompiledShapes, ReshapesOfMemoryCostNothing) {
  const auto executable = check(
      [](std::span<const Array> x) { return Arrays{lax::exp(lax::reshape(x[0], {6, 5, 4}))}; },
      {uniform({10, 12}, DType::f64)}, 1);
  EXPECT_EQ(executable->info().arena_bytes, 0u);
}

TEST(CompiledShapes, ReshapesOfComputedValuesAreRight) {
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::transpose(lax::reshape(lax::exp(x[0]), {12, 10}), {1, 0})};
      },
      {uniform({10, 12}, DType::f64)});
  check(
      [](std::span<const Array> x) {
        const Array t = lax::transpose(x[0], {1, 0});
        return Arrays{lax::add(lax::reshape(t, {8, 15}), x[1]),
                      lax::reshape(lax::mul(t, t), {120})};
      },
      {uniform({10, 12}, DType::f32), uniform({8, 15}, DType::f32)});
  check(
      [](std::span<const Array> x) {
        const Array wide = lax::expand_dims(lax::neg(x[0]), {1});  // 10 x 1 x 12
        return Arrays{lax::squeeze(lax::add(wide, wide), {1}),
                      lax::broadcast_in_dim(wide, {10, 3, 12}, {0, 1, 2})};
      },
      {uniform({10, 12}, DType::f32)});
}

TEST(CompiledShapes, IotasAndScalarsBroadcastWithoutMemory) {
  const auto executable = check(
      [](std::span<const Array> x) {
        const Array rows = lax::iota(DType::i32, {5, 37}, 0),
                    columns = lax::iota(DType::i32, {5, 37}, 1);
        const Array lower = lax::ge(rows, columns);
        return Arrays{lax::select(lower, x[0], lax::full_like(x[0], 0)),
                      lax::iota(DType::f32, {19}), lax::iota(DType::i64, {3, 4}, 1)};
      },
      {uniform({5, 37}, DType::f32)});
  EXPECT_EQ(executable->info().arena_bytes, 0u);
}

TEST(CompiledShapes, ConcatenationsAndSplitsWork) {
  check(
      [](std::span<const Array> x) {
        const Arrays pieces = {lax::exp(x[0]), x[1], lax::neg(x[0])};
        const Array joined = lax::concatenate(pieces, 1),
                    rows = lax::concatenate(Arrays{x[0], x[0]}, 0);
        const Arrays parts = lax::split(joined, {3, 20}, 1);
        return Arrays{joined, rows, parts[0], parts[1], lax::stack(Arrays{x[0], x[0]}, 1)};
      },
      {uniform({4, 9}, DType::f32), uniform({4, 5}, DType::f32)});
}

// Not all of as many parts as the result has columns need to be columns.
TEST(CompiledShapes, PartsOfAnyWidthAreJoined) {
  for (const Shape& widths : {Shape{0, 2}, Shape{2, 0}, Shape{0, 0, 3}, Shape{2, 1, 0},
                              Shape{1, 0, 2}, Shape{0, 1, 2}, Shape{1, 1, 1}, Shape{3, 0, 1, 0}}) {
    Arrays parts;
    for (const std::int64_t width : widths)
      parts.push_back(
          uniform({3, width}, DType::f64, -1, 1, static_cast<unsigned>(parts.size() + 1)));
    check(
        [](std::span<const Array> x) {
          Arrays computed;
          for (const Array& part : x) computed.push_back(lax::mul(part, part));
          return Arrays{lax::concatenate(computed, 1),
                        lax::add(lax::concatenate(Arrays(x.begin(), x.end()), 1),
                                 lax::full_like(lax::concatenate(computed, 1), 1))};
        },
        parts);
  }
}

TEST(CompiledShapes, ResultsThatAreInputsOrLiteralsAreCopied) {
  check(
      [](std::span<const Array> x) {
        return Arrays{x[0],
                      x[0],
                      lax::full({}, DType::f32, 2.5),
                      lax::full({3, 2}, DType::i32, 7),
                      lax::neg(x[0]),
                      lax::neg(x[0])};
      },
      {uniform({11}, DType::f32)});
  check([](std::span<const Array>) { return Arrays{lax::full({5}, DType::bool_, 1)}; }, {});
}

// Each transpose below a reshape has to be stored, which is seen of one after the other: beyond a few, of all at once.
TEST(CompiledShapes, LongChainsOfTransposesAndReshapesAreStoredInBetween) {
  constexpr int kSteps = 40;
  const Program turned = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < kSteps; ++i) y = lax::sin(lax::transpose(lax::reshape(y, {5, 7}), {1, 0}));
    return Arrays{y};
  };
  const Program gradient = [&](std::span<const Array> x) {
    return Arrays{
        grad([&](const Array& y) { return lax::reduce_sum(turned(Arrays{y})[0], {0, 1}); })(x[0])};
  };
  check(turned, {uniform({7, 5}, DType::f32)}, kSteps);
  check(gradient, {uniform({7, 5}, DType::f32)}, 2 * kSteps - 2, 0, {.disabled = {"moves"}});
  check(gradient, {uniform({7, 5}, DType::f32)}, 1);  // which needs none of them
}

TEST(CompiledShapes, DynamicSlicesWork) {
  const Program f = [](std::span<const Array> x) {
    const Array from = lax::dynamic_slice(x[0], Arrays{x[1], x[2]}, {2, 7});
    return Arrays{lax::mul(from, from),
                  lax::dynamic_update_slice(x[0], lax::neg(from), Arrays{x[2], x[1]})};
  };
  for (const int start : {-3, 0, 2, 100}) {
    check(f, {uniform({6, 20}, DType::f32), lax::full({}, DType::i32, start),
              lax::full({}, DType::i32, 1)});
  }
}

// Lanes that begin anywhere would each look for the part they are in. Where the place is known, or the rows lie in one
// part, or little of much is read, nobody has to.
TEST(CompiledShapes, JoinPartsBeforeTheyAreReadFromAnywhereOn) {
  const Array x = uniform({30, 50}, DType::f32), i = Array(std::int32_t{17});
  const auto read = [](const Array& joined, const Array& at, int axis, const Shape& sizes) {
    Arrays starts(2, Array(std::int32_t{0}));
    starts[static_cast<std::size_t>(axis)] = at;
    return Arrays{lax::neg(lax::dynamic_slice(joined, starts, sizes))};
  };
  const auto kernels = [&](int count, const Program& f) { check(f, {x, i}, count); };
  const auto twice = [](const Array& a, int axis) { return lax::concatenate(Arrays{a, a}, axis); };
  const auto padded = [](const Array& a) { return lax::pad(a, 1.0f, {{3, 3, 0}, {3, 3, 0}}); };
  using Inputs = std::span<const Array>;
  kernels(2, [&](Inputs a) { return read(twice(a[0], 1), a[1], 1, {30, 50}); });
  kernels(2, [&](Inputs a) { return read(padded(a[0]), a[1], 1, {30, 30}); });
  kernels(1, [&](Inputs a) { return read(twice(a[0], 0), a[1], 0, {30, 50}); });
  kernels(1, [&](Inputs a) { return read(twice(a[0], 1), Array(std::int32_t{17}), 1, {30, 50}); });
  kernels(1, [&](Inputs a) { return read(twice(a[0], 1), a[1], 1, {1, 50}); });
}

}  // namespace
}  // namespace telamon::testing
