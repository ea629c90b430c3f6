// Sums at places that are taken in parts: the order that runtime/scatter_parts.hpp speaks of, eagerly and
// compiled, in every way to compile them and with any number of threads.
#include "runtime/scatter_parts.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <utility>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMany = 100'000;

const ScatterParams kElements{{.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}},
                              false,
                              false,
                              GatherScatterMode::fill_or_drop};

Array add_at(const Array& x, const Array& places, const Array& updates,
             const ScatterParams& params = kElements) {
  Shape vectors = places.shape();
  vectors.push_back(1);
  return lax::scatter_add(x, lax::reshape(places, vectors), updates, params);
}

/// Numbers from `low` to `high` - 1.
Array places(const Shape& shape, int low, int high, DType dtype = DType::i32) {
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, low, high)), dtype);
}

/// The same bits eagerly and compiled, with all passes and without those that matter, for 1, 2, 3 and 8 threads.
/// Returns the plan.
std::string same_in_any_way(const Program& f, const Arrays& x) {
  const Arrays want = [&] {
    const WithThreads scope(1);
    return f(x);
  }();
  const Jaxpr jaxpr = stage(f, x);
  std::vector<Compiled> all;
  for (const std::set<std::string, std::less<>>& disabled : {std::set<std::string, std::less<>>{},
                                                             {"row_updates"},
                                                             {"native_kernels"},
                                                             {"update_in_place"},
                                                             {"parallel"}})
    all.push_back(compile(jaxpr, {.contract = false, .name = "parts", .disabled = disabled}));
  for (const int threads : {1, 2, 3, 8}) {
    const WithThreads scope(threads);
    const std::string what = std::to_string(threads) + " threads";
    const Arrays again = f(x);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_equal(again[i], want[i], 0, "eagerly, " + what);
    for (const Compiled& compiled : all) {
      const Arrays got = execute(compiled, x);
      for (std::size_t i = 0; i < want.size(); ++i)
        expect_equal(got[i], want[i], 0, what + compiled->text("jaxpr"));
    }
  }
  return all[0]->text("plan");
}

bool in_parts(const Array& x, const Array& places, const Array& updates) {
  Shape vectors = places.shape();
  vectors.push_back(1);
  return runtime::rows_of_part(kElements, x.aval(), vectors, updates.shape()) < vectors[0];
}

TEST(ScatterParts, AreSummedApartAndAddedInOrder) {
  for (const std::int64_t n : {kMany, kMany + 3}) {
    for (const std::int64_t table : {7, 300, 5000}) {
      const Array x = uniform({table}, DType::f32), u = uniform({n}, DType::f32, -1, 1),
                  i = places({n}, 0, static_cast<int>(table));
      const auto to = i.to_vector<std::int32_t>();
      const auto by = u.to_vector<float>();
      std::vector<float> want = x.to_vector<float>();
      const std::int64_t rows = runtime::rows_of_part(kElements, x.aval(), {n, 1}, {n});
      ASSERT_LT(rows, n);
      const auto add = [&](std::vector<float>& sums, std::int64_t first, std::int64_t last) {
        for (auto k = static_cast<std::size_t>(first); k < static_cast<std::size_t>(last); ++k)
          sums[static_cast<std::size_t>(to[k])] += by[k];
      };
      for (std::int64_t part = 0; part < n / rows; ++part) {
        std::vector<float> sums(want.size(), -0.0F);
        add(sums, part * rows, (part + 1) * rows);
        for (std::size_t k = 0; k < sums.size(); ++k) want[k] += sums[k];
      }
      add(want, n / rows * rows, n);
      EXPECT_EQ(add_at(x, i, u).to_vector<float>(), want) << n << ' ' << table;
    }
  }
}

TEST(ScatterParts, AreThereWhereTheyCostLittle) {
  const auto rows = [](std::int64_t n, std::int64_t table) {
    return runtime::rows_of_part(kElements, {{table}, DType::f32, false}, {n, 1}, {n});
  };
  EXPECT_EQ(rows(10'000, 4), 10'000);              // too few updates
  EXPECT_EQ(rows(1'000'000, 200'000), 1'000'000);  // too many results
  EXPECT_EQ(rows(1'000'000, 90'000), 1'000'000);
  EXPECT_EQ(rows(1'000'000, 82'000), 500'000);
  EXPECT_EQ(rows(1'000'000, 16'384), 250'000);
  EXPECT_EQ(rows(1'000'000, 256), 20'000);
  // Windows of a cache line, which threads share in another way, and index vectors of a batch.
  ScatterParams windows{
      {.update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}},
      false,
      false,
      GatherScatterMode::clip};
  const auto of_windows = [&](std::int64_t width) {
    return runtime::rows_of_part(windows, {{10, width}, DType::f32, false}, {kMany, 1},
                                 {kMany, width});
  };
  EXPECT_EQ(of_windows(16), kMany);
  EXPECT_LT(of_windows(3), kMany);
  const auto times_13 = [&](std::int64_t width) {
    return runtime::rows_of_part(windows, {{10'000, width}, DType::f32, false}, {130'000, 1},
                                 {130'000, width});
  };
  EXPECT_EQ(times_13(4), 65'000);
  EXPECT_EQ(times_13(5), 130'000);
}

TEST(ScatterParts, OfEveryDtypeAndModeAreTheSameInAnyWay) {
  const Array u = uniform({kMany}, DType::f64, -30, 30);
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::i8, DType::f16, DType::bf16}) {
    for (const std::int64_t n : {kMany, kMany - 1}) {
      const Array x = lax::convert_element_type(uniform({500}, DType::f64, 0, 9), dtype);
      const Array v = lax::convert_element_type(lax::slice(u, {0}, {n}), dtype);
      for (const GatherScatterMode mode :
           {GatherScatterMode::fill_or_drop, GatherScatterMode::clip}) {
        ScatterParams params = kElements;
        params.mode = mode;
        const Array i = places({n}, -700, 700);  // out of bounds, and below 0
        ASSERT_TRUE(in_parts(x, i, v));
        const std::string plan = same_in_any_way(
            [&](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2], params)}; },
            {x, i, v});
        if (dtype != DType::f16) EXPECT_THAT(plan, HasSubstr("in chunks of"));
        params.wraps = true;
        expect_equal(jit([&](const Array& a, const Array& b, const Array& c) {
                       return add_at(a, b, c, params);
                     })(x, i, v),
                     add_at(x, i, v, params), 0, "from the end");
      }
    }
  }
}

TEST(ScatterParts, LeaveZerosAsTheyAreAndPassOnWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::int64_t table = 300;
  std::vector<float> x(static_cast<std::size_t>(table), -0.0F),
      u(static_cast<std::size_t>(kMany), -0.0F);
  x[5] = 0.0F;
  u[70'000] = 1;
  u[70'001] = infinity;
  u[70'002] = -infinity;
  u[70'003] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::int32_t> i(static_cast<std::size_t>(kMany));
  for (std::size_t k = 0; k < i.size(); ++k) i[k] = static_cast<std::int32_t>(k % 200);
  for (std::size_t k = 0; k < 4; ++k) i[70'000 + k] = static_cast<std::int32_t>(10 + k);
  i[80'000] = 11;
  const Arrays args = {Array(x, {table}), Array(i, {kMany}), Array(u, {kMany})};
  same_in_any_way([](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2])}; }, args);
  const auto got = add_at(args[0], args[1], args[2]).to_vector<float>();
  EXPECT_FALSE(std::signbit(got[5]));
  for (const std::size_t k : {0, 6, 250}) EXPECT_TRUE(got[k] == 0 && std::signbit(got[k])) << k;
  EXPECT_EQ(got[10], 1);
  EXPECT_EQ(got[11], infinity);
  EXPECT_EQ(got[12], -infinity);
  EXPECT_TRUE(std::isnan(got[13]));
}

// What places and updates are computed from is never more than a part.
TEST(ScatterParts, OfPlacesThatAreComputed) {
  for (const std::int64_t n : {kMany, kMany + 7}) {
    for (const std::int64_t bins : {64, 3000}) {
      const auto bin = [=](const Array& x) {
        return lax::convert_element_type(lax::mul(x, lax::full_like(x, static_cast<double>(bins))),
                                         DType::i32);
      };
      const std::string plan = same_in_any_way(
          [&](std::span<const Array> a) {
            const Array ones = lax::full({n}, DType::f32, 1), twice = lax::add(a[2], a[2]);
            return Arrays{add_at(a[0], bin(a[1]), ones), add_at(a[0], bin(a[2]), twice)};
          },
          {uniform({bins}, DType::f32), uniform({n}, DType::f32, -0.1, 1.1),
           uniform({n}, DType::f32)});
      EXPECT_THAT(plan, Not(HasSubstr("[" + std::to_string(n) + ",1]@")));
    }
  }
  // Of the array that is updated, and of others in more than one way.
  same_in_any_way(
      [](std::span<const Array> a) {
        const Array i = lax::convert_element_type(a[1], DType::i32);
        return Arrays{add_at(a[0], i, lax::add(a[1], lax::rev(a[1], {0}))), i};
      },
      {uniform({100}, DType::f32), uniform({kMany}, DType::f32, 0, 100)});
}

// Each of two scatters makes a number that both compare with for itself.
TEST(ScatterParts, OfPlacesThatAreComputedWithOneNumber) {
  const std::string plan = same_in_any_way(
      [](std::span<const Array> a) {
        const Array two = lax::full_like(a[1], 2), one = lax::full_like(a[3], 1);
        const Array other = lax::max(lax::abs(a[1]), two);
        return Arrays{add_at(a[0], lax::max(a[1], two), a[3]), add_at(a[2], other, one),
                      lax::add(one, a[3])};
      },
      {uniform({40}, DType::f32), places({kMany}, -30, 40), uniform({40}, DType::f32),
       uniform({kMany}, DType::f32)});
  EXPECT_THAT(plan, Not(::testing::ContainsRegex("i32\\[[0-9]+,[0-9][0-9]+\\]@")));
}

// To find places of two indices takes many steps, but less time than to add there: threads share the parts.
TEST(ScatterParts, OfPlacesInTwoDimensionsAreSharedByThreads) {
  const std::string plan = same_in_any_way(
      [](std::span<const Array> a) { return Arrays{a[0].at(a[1], a[2]).add(a[3])}; },
      {uniform({50, 40}, DType::f32), places({kMany}, -60, 60), places({kMany}, -50, 50),
       uniform({kMany}, DType::f32)});
  EXPECT_THAT(plan, HasSubstr("in chunks of"));
}

TEST(ScatterParts, OfSmallWindowsAndSeveralIndexDimensions) {
  const ScatterParams windows{
      {.update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}},
      false,
      false,
      GatherScatterMode::fill_or_drop};
  same_in_any_way(
      [&](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2], windows)}; },
      {uniform({50, 3}, DType::f32), places({kMany}, -3, 55), uniform({kMany, 3}, DType::f32)});
  const Arrays image = {uniform({60}, DType::f64), places({500, 300}, -3, 65),
                        uniform({500, 300}, DType::f64)};
  ASSERT_TRUE(in_parts(image[0], image[1], image[2]));
  same_in_any_way([](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2])}; }, image);
}

TEST(ScatterParts, WithinLoopsBranchesAndBatches) {
  const Array i = places({2, kMany}, 0, 100), u = uniform({2, kMany}, DType::f32);
  same_in_any_way(
      [](std::span<const Array> a) {
        return Arrays{fori_loop(
            0, 3, [&](Array k, Array sum) { return add_at(sum, a[1](k % 2), a[2](k % 2) * 0.5F); },
            a[0])};
      },
      {uniform({100}, DType::f32), i, u});
  same_in_any_way(
      [](std::span<const Array> a) {
        return Arrays{cond(
            a[0](0) > 0.0F, [&](Array x) { return add_at(x, a[1](0), a[2](0)); },
            [&](Array x) { return add_at(x, a[1](1), a[2](1)); }, a[0])};
      },
      {uniform({100}, DType::f32), i, u});
  const auto one = [](Array x, Array p, Array v) { return add_at(x, p, v); };
  same_in_any_way([&](std::span<const Array> a) { return Arrays{vmap(one)(a[0], a[1], a[2])}; },
                  {uniform({2, 100}, DType::f32), i, u});
  // The places of all are the same: a window of the batch.
  same_in_any_way(
      [&](std::span<const Array> a) {
        return Arrays{vmap([&](Array x, Array v) { return add_at(x, a[1], v); })(a[0], a[2])};
      },
      {uniform({2, 100}, DType::f32), places({kMany}, 0, 100), u});
}

TEST(ScatterParts, InGradients) {
  same_in_any_way(
      [](std::span<const Array> a) {
        const auto loss = [&](Array t) { return sum(sin(t(a[1])) * a[2]); };
        return Arrays{grad(loss)(a[0])};
      },
      {uniform({100}, DType::f64), places({kMany}, -100, 100), uniform({kMany}, DType::f64)});
  same_in_any_way(
      [](std::span<const Array> a) {
        const auto total = [&](Array u) { return add_at(a[0], a[1], u); };
        const auto [y, dy] = jvp(total, std::tuple(a[2]), std::tuple(a[2] * 2.0));
        return Arrays{y, dy};
      },
      {uniform({100}, DType::f64), places({kMany}, -100, 100), uniform({kMany}, DType::f64)});
}

TEST(ScatterParts, OfDonatedArgumentsAndWeakTypes) {
  const Program f = [](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2])}; };
  const Arrays x = {uniform({100}, DType::f32), places({kMany}, 0, 100),
                    uniform({kMany}, DType::f32)};
  const Array want = f(x)[0];
  const Compiled compiled = compile(stage(f, x), {.donated = std::vector{true, false, false}});
  const Array copy = lax::add(x[0], lax::full({100}, DType::f32, -0.0));
  copy.block_until_ready();
  expect_equal(execute(compiled, {copy, x[1], x[2]}, {true, false, false})[0], want, 0, "donated");

  const auto counts = [](Array i) { return full({100}, 0.5).at(i).add(1.0); };
  EXPECT_EQ(jit(counts)(x[1]).to_vector<float>(), counts(x[1]).to_vector<float>());
  EXPECT_EQ(jit(counts)(x[1]).aval(), counts(x[1]).aval());
}

TEST(ScatterParts, HaveTablesThatMemoryAnalysisCounts) {
  const Program f = [](std::span<const Array> a) { return Arrays{add_at(a[0], a[1], a[2])}; };
  const std::int64_t table = 10'000, n = 1'000'000;
  const Compiled compiled = compile(
      stage(f, {uniform({table}, DType::f32), places({n}, 0, 100), uniform({n}, DType::f32)}));
  const std::int64_t parts =
      n / runtime::rows_of_part(kElements, {{table}, DType::f32, false}, {n, 1}, {n});
  const std::int64_t arena = compiled->memory_analysis({}).arena;
  EXPECT_GE(arena, parts * table * 4);
  EXPECT_LT(arena, (parts + 1) * table * 4);
}

}  // namespace
}  // namespace telamon::testing
