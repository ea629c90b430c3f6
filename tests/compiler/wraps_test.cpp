// Scatters that count indices below 0 from the end themselves, and programs whose scatters cannot.
#include <gmock/gmock.h>

#include <limits>

#include "support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Whole numbers in [low, high).
Array places(const Shape& shape, double low, double high, DType dtype = DType::i32) {
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, low, high)), dtype);
}

/// Compiled, with the pass and without, by several threads: the bits of eager evaluation. The program
/// that was compiled.
std::string same_as_eager(const Program& f, const Arrays& inputs) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled with = compile(jaxpr), without = compile(jaxpr, {.disabled = {"wraps"}});
  const Arrays want = f(inputs);
  for (const int threads : {1, 3}) {
    const WithThreads scope(threads);
    for (const Compiled& c : {with, without}) {
      const Arrays got = execute(c, inputs);
      for (std::size_t i = 0; i < want.size(); ++i)
        expect_equal(got[i], want[i], 0, c->text("jaxpr") + std::to_string(threads));
    }
  }
  EXPECT_THAT(without->text("jaxpr"), Not(HasSubstr("wraps"))) << "switched off";
  return with->text("jaxpr");
}

void expect_wraps(const std::string& program) {
  EXPECT_THAT(program, HasSubstr("wraps=True"));
  EXPECT_THAT(program, Not(HasSubstr("select_n")));
}

// Of a few elements, which generated code loops over, and of many; in bounds, from the end, outside.
TEST(Wraps, TakeIndicesAsTheyAre) {
  for (const std::int64_t n : {20, 5000}) {
    for (const DType index : {DType::i8, DType::i32, DType::i64}) {
      for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::c64}) {
        const Array x = places({50}, -9, 9, dtype), w = places({n}, -9, 9, dtype);
        for (const double low : {0., -50., -70.}) {
          const Array i = places({n}, low, low < -50 ? 70 : 50, index);
          expect_wraps(same_as_eager(
              [](std::span<const Array> a) { return Arrays{a[0].at(a[1]).add(a[2])}; }, {x, i, w}));
          expect_wraps(same_as_eager(
              [](std::span<const Array> a) { return Arrays{a[0].at(a[1]).set(a[2])}; }, {x, i, w}));
        }
      }
    }
  }
}

TEST(Wraps, TakeTheEndsOfTheirType) {
  for (const DType index : {DType::i32, DType::i64}) {
    const bool wide = index == DType::i64;
    const std::int64_t low =
        wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
    const std::int64_t high = ~low;
    std::vector<std::int64_t> all(640, 3);
    for (const std::size_t at : {0, 70, 639}) all[at] = low;
    for (const std::size_t at : {1, 40, 638}) all[at] = high;
    const Array i = lax::convert_element_type(Array(all), index);
    expect_wraps(
        same_as_eager([](std::span<const Array> a) { return Arrays{a[0].at(a[1]).add(a[2])}; },
                      {uniform({100}, DType::f32), i, uniform({640}, DType::f32)}));
  }
}

// Whole rows; two components, of which one may be a number; batches; the body of a loop.
TEST(Wraps, TakeEveryComponent) {
  const Array x = uniform({60, 40}, DType::f32), i = places({300}, -70, 70),
              j = places({300}, -50, 50);
  expect_wraps(
      same_as_eager([](std::span<const Array> a) { return Arrays{a[0].at(a[1]).add(a[2])}; },
                    {x, i, uniform({300, 40}, DType::f32)}));
  const Array w = uniform({300}, DType::f32);
  expect_wraps(
      same_as_eager([](std::span<const Array> a) { return Arrays{a[0].at(a[1], a[2]).add(a[3])}; },
                    {x, i, j, w}));
  expect_wraps(same_as_eager(
      [](std::span<const Array> a) { return Arrays{a[0].at(7, a[1]).add(a[2])}; }, {x, j, w}));
  const auto add = [](const Array& to, const Array& at, const Array& by) {
    return to.at(at).add(by);
  };
  expect_wraps(
      same_as_eager([&](std::span<const Array> a) { return Arrays{vmap(add)(a[0], a[1], a[2])}; },
                    {x, places({60, 100}, -50, 50), uniform({60, 100}, DType::f32)}));
  expect_wraps(same_as_eager(
      [&](std::span<const Array> a) {
        const auto step = [&](const Array& to, const Array& at) {
          return std::pair(add(to, at, a[2]), Array(0));
        };
        return Arrays{scan(step, a[0], a[1]).first};
      },
      {uniform({40}, DType::f32), places({60, 100}, -50, 50), uniform({100}, DType::f32)}));
}

// What is updated may be the index, too.
TEST(Wraps, TakeTheArrayThatIsUpdated) {
  const Program f = [](std::span<const Array> a) { return Arrays{a[0].at(a[0]).add(a[1])}; };
  const Arrays x = {places({500}, -600, 600), places({500}, -9, 9)};
  expect_wraps(same_as_eager(f, x));
  const Compiled compiled = compile(stage(f, x));
  const Array copy = lax::add(x[0], lax::full_like(x[0], 0));
  copy.block_until_ready();
  expect_equal(execute(compiled, {copy, x[1]}, {true, false})[0], f(x)[0], 0, "donated");
  expect_wraps(same_as_eager(
      [](std::span<const Array> a) {
        const auto step = [](const Array& y, const Array& by) {
          return std::pair(y.at(y).add(by), Array(0));
        };
        return Arrays{scan(step, a[0], a[1]).first};
      },
      {places({300}, -300, 300), places({7, 300}, -9, 9)}));
}

// Indices that are computed, and then read by the scatter alone.
TEST(Wraps, TakeIndicesThatAreComputed) {
  expect_wraps(same_as_eager(
      [](std::span<const Array> a) {
        const Array bins = lax::convert_element_type(a[1] * 300, DType::i32);
        return Arrays{a[0].at(bins).add(1)};
      },
      {places({256}, 0, 9), uniform({100'000}, DType::f32, -1, 1)}));
}

// Vectors of one index, or of two, as programs from JAX make them.
TEST(Wraps, TakeIndicesThatAreBroadcast) {
  const Array x = uniform({60, 40}, DType::f32), i = places({300}, -70, 70),
              j = places({300}, -50, 50);
  const auto column = [](const Array& index, std::int64_t size) {
    return lax::broadcast_in_dim(where(index < 0, index + size, index), {300, 1}, {0});
  };
  expect_wraps(same_as_eager(
      [&](std::span<const Array> a) {
        ScatterParams p;
        p.dimension_numbers = {.update_window_dims = {1},
                               .inserted_window_dims = {0},
                               .scatter_dims_to_operand_dims = {0}};
        return Arrays{lax::scatter_add(a[0], column(a[1], 60), a[2], p)};
      },
      {x, i, uniform({300, 40}, DType::f32)}));
  expect_wraps(same_as_eager(
      [&](std::span<const Array> a) {
        ScatterParams p;
        p.dimension_numbers = {.inserted_window_dims = {0, 1},
                               .scatter_dims_to_operand_dims = {0, 1}};
        const Array both = concatenate(Arrays{column(a[1], 60), column(a[2], 40)}, 1);
        return Arrays{lax::scatter_add(a[0], both, a[3], p)};
      },
      {x, i, j, uniform({300}, DType::f32)}));
}

// Vectors of one number each need no memory of their own, unless others read them, too.
TEST(Wraps, ReadVectorsOfOneNumberAsTheyLie) {
  const Arrays x = {uniform({50}, DType::f32), places({300}, -9, 60), uniform({300}, DType::f32)};
  ScatterParams p;
  p.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
  for (const bool returned : {false, true}) {
    const Program f = [&](std::span<const Array> a) {
      const Array vectors = lax::broadcast_in_dim(a[1], {300, 1}, {0});
      Arrays out{lax::scatter_add(a[0], vectors, a[2], p)};
      if (returned) out.push_back(vectors);
      return out;
    };
    const Jaxpr jaxpr = stage(f, x);
    const Compiled with = compile(jaxpr), without = compile(jaxpr, {.disabled = {"wraps"}});
    const Arrays got = execute(with, x), want = f(x);
    for (std::size_t i = 0; i < want.size(); ++i) expect_equal(got[i], want[i], 0, "result");
    EXPECT_EQ(with->info().kernels + (returned ? 0 : 1), without->info().kernels)
        << with->text("plan");
  }
}

// Wrapped indices that others read are there in any case; and what only looks like wrapping is none.
TEST(Wraps, LeaveWhatWouldSaveNothingOrDiffers) {
  const Array x = uniform({50}, DType::f32), w = uniform({200}, DType::f32);
  const auto leaves = [&](const std::function<Array(const Array&)>& index, bool returned) {
    const std::string program = same_as_eager(
        [&](std::span<const Array> a) {
          const Array i = index(lax::convert_element_type(a[1], DType::i32));
          ScatterParams p;
          p.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
          Arrays out{lax::scatter_add(a[0], lax::reshape(i, {200, 1}), a[2], p)};
          if (returned) out.push_back(i);
          return out;
        },
        {x, uniform({200}, DType::f32, -60, 60), w});
    EXPECT_THAT(program, Not(HasSubstr("wraps")));
  };
  leaves([](const Array& i) { return where(i < 0, i + 50, i); }, true);
  leaves([](const Array& i) { return where(i < 0, i + 49, i); }, false);
  leaves([](const Array& i) { return where(i < 1, i + 50, i); }, false);
  leaves([](const Array& i) { return where(i < 0, i, i + 50); }, false);
  leaves([](const Array& i) { return where(i + 1 < 0, i + 50, i); }, false);
  // A gather reads the index vectors of both components, too: they are there anyway.
  const std::string both = same_as_eager(
      [](std::span<const Array> a) {
        const Array i = lax::convert_element_type(a[1], DType::i32);
        return Arrays{a[0].at(i, i + 1).multiply(a[2])};
      },
      {uniform({50, 60}, DType::f32), uniform({200}, DType::f32, -50, 49), w});
  EXPECT_THAT(both, Not(HasSubstr("wraps")));
}

}  // namespace
}  // namespace telamon::testing
