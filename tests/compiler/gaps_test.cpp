// Arrays with gaps between their elements: padding from within, as gradients of strided slices have it.
#include <array>

#include "compiler/support.hpp"
#include "telamon/grad.hpp"
#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using Config = std::vector<std::array<std::int64_t, 3>>;

Program padded(const Config& config) {
  return [config](std::span<const Array> x) {
    return Arrays{lax::pad(x[0], lax::scalar(7, x[0].dtype()), config)};
  };
}
// Whether it is asked of each element whether it lies in a gap.
bool asks(const Compiled& e) { return e->text("ir").find("select <") != std::string::npos; }

TEST(Gaps, AreWovenIntoRows) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::i16, DType::bf16}) {
    for (const std::int64_t interior : {1, 2, 4, 7, 8}) {
      for (const std::int64_t n : {16, 70, 333}) {
        const Array x = uniform({n}, dtype, 1, 100);
        const Compiled e = check(padded({{0, interior, interior}}), {x}, 1);
        if (n >= 70) EXPECT_EQ(asks(e), interior > 7) << e->text("ir");
        check(padded({{3, 0, interior}}), {x}, 1);
        check(padded({{0, 2, interior}}), {x}, 1);
        check(padded({{40, 77, interior}}), {x}, 1);
        check(padded({{-3, -9, interior}}), {x}, 1);
        check(padded({{-5, 21, interior}}), {x}, 1);
      }
    }
  }
}

TEST(Gaps, LieBetweenRowsToo) {
  const Array x = uniform({9, 131}, DType::f32), y = uniform({3, 5, 67, 1}, DType::i32, 1, 100);
  for (const Config& config :
       {Config{{0, 1, 1}, {0, 1, 1}}, Config{{1, 2, 1}, {0, 1, 2}}, Config{{-1, -3, 2}, {-2, 5, 3}},
        Config{{3, 0, 0}, {5, 5, 1}}, Config{{0, 0, 4}, {0, 0, 0}}})
    check(padded(config), {x}, 1);
  check(padded({{1, 0, 1}, {0, 2, 0}, {1, 1, 1}, {0, 0, 0}}), {y}, 1);
  check(padded({{0, 0, 0}, {0, 0, 0}, {0, 0, 1}, {1, 1, 0}}), {y}, 1);
  check(padded({{1, 1, 1}, {0, 0, 0}}), {uniform({6, 200}, DType::f32) > 0.0}, 1);
}

// Rows of one array, or of some, that others are read beside.
TEST(Gaps, OfOneRowAreOfThatRow) {
  for (const Shape& rows : {Shape{1}, Shape{1, 1}}) {
    Shape shape = rows, more = rows;
    shape.push_back(100);
    more[0] = 4;
    more.push_back(100);
    const Array x = uniform(shape, DType::f32), all = uniform(more, DType::f32);
    Config config(rows.size(), {0, 0, 0});
    config.push_back({0, 1, 1});
    check(padded(config), {x}, 1);
    for (const std::array<std::int64_t, 3>& row :
         {std::array<std::int64_t, 3>{-2, -1, 0}, {4, -7, 0}}) {
      config[0] = row;
      check(padded(config), {all}, 1);
    }
    config[0] = {1, -1, 0};
    check(padded(config), {x}, 1);
    config[0] = {0, 0, 0};
    const Program beside = [&](std::span<const Array> v) {
      const Array wide = lax::pad(v[0], lax::scalar(0, DType::f32), config);
      return Arrays{wide + v[1](slice(2, 3)) * 0.5f};
    };
    more[rows.size()] = 200;
    check(beside, {x, uniform(more, DType::f32)});
  }
}

TEST(Gaps, OfSeveralPaddingsFillEachOther) {
  const auto energy = [](const Array& x) {
    const Array a = x(slice(0, none, 2)), b = x(slice(1, none, 2));
    return sum((a + b) * (a + b)) + sum((a - b) * b * b);
  };
  const Program f = [&](std::span<const Array> x) { return Arrays{grad(energy)(x[0])}; };
  for (const std::int64_t n : {64, 1000, 3002}) {
    const Compiled e = check(f, {uniform({n}, DType::f64)});
    EXPECT_FALSE(asks(e)) << e->text("ir");
  }
  // Those of other widths, and what is read beside them.
  const Program other = [](std::span<const Array> x) {
    const Array zero = lax::scalar(0, x[0].dtype());
    return Arrays{
        lax::pad(x[0], zero, {{0, 1, 1}}) + lax::pad(x[1], zero, {{1, 1, 2}}),
        lax::pad(x[0], zero, {{1, 0, 1}}) * lax::rev(lax::pad(x[0], zero, {{1, 0, 1}}), {0})};
  };
  check(other, {uniform({300}, DType::f32), uniform({200}, DType::f32)});
}

TEST(Gaps, OfOneRowAreSharedByThreads) {
  const Array x = uniform({400'001}, DType::f32), to = uniform({1'200'011}, DType::f32);
  for (const Config& config :
       {Config{{5, 5, 2}}, Config{{777, -767, 2}}, Config{{0, 700'012, 2}}}) {
    const Program f = [&](std::span<const Array> v) {
      const Array some = v[0](slice(0, config[0][1] > 1000 ? 166'667 : 400'001));
      return Arrays{v[1] + lax::pad(some, lax::scalar(0, DType::f32), config)};
    };
    const Compiled e = check(f, {x, to}, 1);
    expect_same_for_any_number_of_threads(e, {x, to});
    const WithThreads scope(3);
    const Arrays want = f(std::vector{x, to});
    expect_equal(execute(e, {x, to + 0.0}, {false, true})[0], want[0], 0, "in place");
  }
}

}  // namespace
}  // namespace telamon::testing
