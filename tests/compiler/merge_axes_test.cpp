// Axes that nobody tells apart become one.
#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string row(std::int64_t k) { return "," + std::to_string(k) + "] = "; }
Array along(const Array& x, Axis axis) {
  const std::int64_t n = x.shape(axis);
  return lax::slice_in_dim(x, 2, n, 1, axis) - 2 * lax::slice_in_dim(x, 1, n - 1, 1, axis) +
         lax::slice_in_dim(x, 0, n - 2, 1, axis);
}
Array whole(const Shape& shape, DType dtype, unsigned seed = 1) {
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, -9, 10, seed)), dtype);
}
Array zero_of(const Array& x) { return lax::convert_element_type(Array(0), x.dtype()); }

TEST(MergeAxes, OfRowsThatAreMoved) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::bf16}) {
    for (const std::int64_t k : {2, 3, 5, 8, 31}) {
      const Compiled e = check(
          [](std::span<const Array> a) {
            const Array& x = a[0];
            const Array two = zero_of(x) + 2;
            return Arrays{along(x, 0),
                          along(x, 1) * x(slice(), slice(1, -1)),
                          lax::pad(x, two, {{1, 2, 1}, {2, -1, 0}, {0, 0, 0}}) + 1,
                          lax::concatenate(Arrays{x, x(slice(0, 3)) * 2}, 0),
                          lax::concatenate(Arrays{x, x(slice(), slice(0, 2)) * 2, x}, 1),
                          lax::rev(x, {0}) - x,
                          x(slice({}, {}, 2)) * 2};
          },
          {whole({23, 37, k}, dtype)}, -1, 0);
      const std::string text = e->text("jaxpr");
      for (const char* op : {"slice", "sub", "mul", "pad", "concatenate", "rev"})
        EXPECT_THAT(text, Not(HasSubstr(row(k) + op))) << text;
    }
  }
}

TEST(MergeAxes, OfWhatIsRepeatedCountedAndFoldedBesideThem) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array& x = a[0];
          const Array d = x(slice(1, {})) - x(slice({}, -1));
          const Array many = lax::broadcast_in_dim(d, {4, 40, 30, 3}, {1, 2, 3});
          const Array by_row = lax::broadcast_in_dim(a[1], {4, 40, 30, 3}, {0});
          const Array count = lax::iota(x.dtype(), {4, 40, 30, 3}, 1);
          return Arrays{sum(d * d),
                        max(d, {.axes = {0, 1, 2}}),
                        sum(d * d, 0),
                        lax::argmax(d, 0, DType::i32),
                        many * by_row + count,
                        lax::transpose(many - by_row, {1, 0, 2, 3}),
                        sum(many * count, {.axes = {0, 2, 3}})};
        },
        {whole({41, 30, 3}, dtype), whole({4}, dtype, 2)}, -1, 0);
    const std::string text = e->text("jaxpr");
    for (const char* op : {"slice", "sub", "mul", "add", "iota", "broadcast_in_dim"})
      EXPECT_THAT(text, Not(HasSubstr(row(3) + op))) << text;
  }
}

// What is left of four axes are two.
TEST(MergeAxes, OfMoreThanTwo) {
  const Compiled e =
      check([](std::span<const Array> a) { return Arrays{along(a[0], 0), sum(along(a[0], 0))}; },
            {whole({19, 20, 4, 3}, DType::f32)}, -1, 0);
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("f32[17,240] = sub"));
}

// Two sets of arrays whose axes are merged, one of which is made of the other: what is repeated keeps its axes, and
// so does what a fold leaves.
TEST(MergeAxes, OfSeveralSets) {
  check(
      [](std::span<const Array> a) {
        const Array& x = a[0];
        const Shape large{9, 5, 20, 4, 20};
        const Array y = lax::broadcast_in_dim(lax::rev(x, {0}) * 2, large, {0, 1, 2});
        const Array q = lax::broadcast_in_dim(x * x, large, {0, 1, 2});
        return Arrays{lax::concatenate(
            Arrays{y + lax::iota(DType::f32, large, 2), q, lax::rev(y - q, {1})}, 0)};
      },
      {whole({9, 5, 20}, DType::f32)}, -1, 0);
  for (const Shape& folded : {Shape{3, 4}, {1, 3, 4}}) {
    check(
        [&](std::span<const Array> a) {
          const Array d = a[0](slice(1, {})) - a[0](slice({}, -1));
          const Array s = lax::reduce_sum(d, folded);
          return Arrays{s(slice(1, {})) - s(slice({}, -1)), lax::reduce_max(d, folded)};
        },
        {whole({19, 12, 9, 10, 9}, DType::f32)}, -1, 0);
  }
}

// Where somebody sees rows under another shape, they stay; reshapes of reshapes are one.
TEST(MergeAxes, OfReshapes) {
  const Compiled rows = check(
      [](std::span<const Array> a) {
        const Array d = along(a[0], 0);
        const Array sums = sum(reshape(d * d, {18 * 30, 20}), 1);
        return Arrays{d + reshape(sums, {18, 30, 1})};
      },
      {whole({20, 30, 20}, DType::f32)}, -1, 0);
  EXPECT_THAT(rows->text("jaxpr"), HasSubstr("f32[18,30,20] = sub"));
  const Compiled places = check(
      [](std::span<const Array> a) {
        const Array place = lax::argmin(reshape(a[0], {3, 50, 2}), 0, DType::i32);
        return Arrays{reshape(lax::convert_element_type(place, DType::f32), {100}) * 2};
      },
      {whole({3, 100}, DType::f32)}, -1, 0);
  EXPECT_THAT(places->text("jaxpr"), Not(HasSubstr("[50,2]")));
  check(
      [](std::span<const Array> a) {
        const Array place = lax::argmax(cumsum(a[0], 2), 1, DType::i32);
        return Arrays{max(expand_dims(place, 1), 1), reshape(place, {25, 5})};
      },
      {whole({25, 3, 1, 5}, DType::f32)}, -1, 0);
}

TEST(MergeAxes, OfDerivativesAndBatches) {
  const auto roughness = [](const Array& x) {
    const Array a = along(x, 0), b = along(x, 1);
    return sum(a * a) + sum(b * b);
  };
  const Compiled e = check(
      [&](std::span<const Array> a) {
        return Arrays{grad(roughness)(a[0]),
                      vmap([&](const Array& x) { return along(x, 0); })(a[1])};
      },
      {whole({30, 40, 3}, DType::f64), whole({5, 30, 40, 3}, DType::f32)}, -1, 0);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(row(3) + "pad")));
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr(row(3) + "sub")));
}

TEST(MergeAxes, WithinLoops) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        const auto step = [](const Array&, const Array& u) {
          const Array left = lax::concatenate(Arrays{u(slice(1, {})), u(slice(0, 1))}, 0);
          return left - u;
        };
        return Arrays{fori_loop(0, 3, step, a[0])};
      },
      {whole({500, 3}, DType::f32)}, -1, 0);
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("f32[1500] = sub"));
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32[500,3] = sub")));
}

// A filter for each of many states keeps the axes that its cells are along.
TEST(MergeAxes, OfStatesOfCellsStay) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        const auto step = [](const Array&, const Array& s) {
          const Array up = lax::concatenate(Arrays{s(slice(1, {})), s(slice(0, 1))}, 0);
          return s - up * 2;
        };
        return Arrays{fori_loop(0, 3, step, a[0])};
      },
      {whole({2, 64, 5}, DType::f32)}, -1, 0);
  EXPECT_THAT(e->text("plan"), HasSubstr("kernel cells")) << e->text("plan");
}

// Starts far outside, which are multiplied.
TEST(MergeAxes, OfSlicesThatBeginAnywhere) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u32, DType::u64, DType::i8}) {
    for (const DType of : {DType::f32, DType::u8, DType::bf16}) {
      for (const int start : {-2'000'000'000, -1, 0, 7, 30, 2'000'000'000}) {
        const Array at = lax::convert_element_type(Array(std::vector<int>{start}), dtype);
        const Compiled e = check(
            [](std::span<const Array> a) {
              const Array i = reshape(a[1], {}), zero = zero_of(i);
              const Array part = lax::dynamic_slice(a[0], Arrays{i, i, zero}, {9, 20, 3});
              const Array rows = lax::dynamic_slice(a[0], Arrays{zero, i, i}, {40, 25, 3});
              return Arrays{part + part, rows + rows};
            },
            {whole({40, 30, 3}, of), at}, -1, 0);
        const std::string text = e->text("jaxpr");
        if (dtype == DType::i8) EXPECT_THAT(text, HasSubstr("[9,20,3] = dynamic_slice")) << text;
        else EXPECT_THAT(text, HasSubstr("[9,60] = dynamic_slice")) << text;
      }
    }
  }
}

TEST(MergeAxes, OfWindowsThatAreLookedUp) {
  struct Looked {
    Shape map, window, collapsed, offsets;
    std::string text;  // in the program, where the numbers may say nothing or are dropped
  };
  const Looked cases[] = {{{0, 1, 2}, {8, 10, 3}, {}, {1, 2, 3}, "[50,8,30] = gather"},
                          {{0, 1}, {1, 10, 3}, {0}, {1, 2}, "[50,30] = gather"},
                          {{1}, {40, 10, 3}, {}, {1, 2, 3}, "[50,40,30] = gather"},
                          {{1, 0}, {8, 10, 3}, {}, {1, 2, 3}, "[50,8,30] = gather"},
                          {{0, 2}, {8, 30, 3}, {}, {1, 2, 3}, "[50,8,90] = gather"},
                          {{2}, {40, 30, 3}, {}, {1, 2, 3}, "[50,40,90] = gather"},
                          {{2, 1}, {8, 10, 3}, {}, {1, 2, 3}, "[50,8,10,3] = gather"},
                          {{0, 1, 2}, {8, 10, 2}, {}, {1, 2, 3}, "[50,8,10,2] = gather"},
                          {{0, 1}, {8, 1, 3}, {1}, {1, 2}, "[50,8,3] = gather"},
                          {{0, 1}, {8, 10, 3}, {}, {0, 1, 3}, "[8,10,50,3] = gather"}};
  for (const DType dtype : {DType::i32, DType::u32, DType::i64, DType::u8}) {
    for (const GatherScatterMode mode :
         {GatherScatterMode::clip, GatherScatterMode::fill_or_drop}) {
      for (const Looked& c : cases) {
        const Shape shape{50, static_cast<std::int64_t>(c.map.size())};
        // Every third is outside, on either side; large ones would wrap around.
        const Array near = lax::rem(whole(shape, DType::i32, 3) * 5, Array(41));
        const Array far = where(whole(shape, DType::i32, 4) > 7, 800'000'000, near);
        const Array places = dtype == DType::u8 ? lax::convert_element_type(abs(near), dtype)
                                                : lax::convert_element_type(far, dtype);
        GatherParams p;
        p.dimension_numbers = {.offset_dims = c.offsets,
                               .collapsed_slice_dims = c.collapsed,
                               .start_index_map = c.map};
        p.slice_sizes = c.window;
        p.mode = mode;
        const Compiled e = check(
            [&](std::span<const Array> a) {
              const Array w = lax::gather(a[0], a[1], p);
              return Arrays{w + w};
            },
            {whole({40, 30, 3}, DType::f32), places}, -1, 0);
        const bool of_row = c.map.contains(2), scaled = c.map.contains(1);
        const bool stays =
            (mode == GatherScatterMode::fill_or_drop && of_row) || (dtype == DType::u8 && scaled);
        if (!stays) EXPECT_THAT(e->text("jaxpr"), HasSubstr(c.text)) << e->text("jaxpr");
      }
    }
  }
}

// Rows of pixels are looked up whole, though pixels are looked up in them then.
TEST(MergeAxes, OfTablesThatAreLookedUp) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        const Array rows = a[0](a[1]);
        return Arrays{rows(slice(), a[2]) + rows(slice(), a[2] + 1)};
      },
      {whole({40, 30, 3}, DType::f32), whole({80}, DType::i32), whole({70}, DType::i32)}, -1, 0);
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("f32[80,90] = gather"));
}

TEST(MergeAxes, OfWindowsOfABatch) {
  check(
      [](std::span<const Array> a) {
        const auto crop = [](const Array& x, const Array& at) {
          const Array zero = zero_of(at(0));
          const Array padded = lax::pad(x, 0.0f, {{4, 4, 0}, {4, 4, 0}, {0, 0, 0}});
          return 2 * lax::dynamic_slice(padded, Arrays{at(0), at(1), zero}, {20, 16, 3});
        };
        return Arrays{vmap(crop)(a[0], a[1]), vmap(crop, {.in_axes = {none, 0}})(a[0](0), a[1])};
      },
      {whole({30, 20, 16, 3}, DType::f32), whole({30, 2}, DType::i32)}, -1, 0);
}

TEST(MergeAxes, OfLongRowsSmallMatricesAndThoseThatSomebodyTellsApartStay) {
  const auto stays = [](const Program& f, const Arrays& in, const std::string& text) {
    EXPECT_THAT(check(f, in, -1, 0)->text("jaxpr"), HasSubstr(text));
  };
  const Program moved = [](std::span<const Array> a) { return Arrays{along(a[0], 0)}; };
  stays(moved, {whole({20, 20, 32}, DType::f32)}, "f32[18,20,32] = sub");
  stays(moved, {whole({6, 3, 3}, DType::f32)}, "f32[4,3,3] = sub");
  stays(moved, {whole({20, 0, 3}, DType::f32)}, "f32[18,0,3]");
  stays([](std::span<const Array> a) { return Arrays{along(a[0], 0) * a[1]}; },
        {whole({20, 20, 9}, DType::f32), whole({9}, DType::f32)}, "f32[18,20,9] = sub");
  stays([](std::span<const Array> a) { return Arrays{lax::rev(along(a[0], 0), {1})}; },
        {whole({20, 20, 9}, DType::f32)}, "f32[18,20,9] = sub");
  stays([](std::span<const Array> a) { return Arrays{cumsum(along(a[0], 0), 2)}; },
        {whole({20, 20, 9}, DType::f64)}, "f64[18,180] = sub");  // it is stored before
  stays([](std::span<const Array> a) { return Arrays{sum(along(a[0], 0), 2)}; },
        {whole({20, 20, 9}, DType::f32)}, "f32[18,20,9] = sub");
  stays(
      [](std::span<const Array> a) {
        return Arrays{along(a[0], 0)(slice(), slice(), slice(0, 4))};
      },
      {whole({20, 20, 9}, DType::f32)}, "f32[18,20,4] = sub");
  // Windows side by side, each of which is a small part of them.
  const Program windows = [](std::span<const Array> a) {
    Arrays parts;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j)
        parts.push_back(a[0](slice(), newaxis, slice(i, i + 30), slice(j, j + 30)));
    return Arrays{lax::concatenate(parts, 1)};
  };
  EXPECT_EQ(check(windows, {whole({8, 32, 32}, DType::f32)}, 1, 0)->info().arena_bytes, 0);
}

}  // namespace
}  // namespace telamon::testing
