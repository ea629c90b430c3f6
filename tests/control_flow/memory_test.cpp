// How much memory loops and their derivatives take at once, by the allocator's count of large blocks.
#include "telamon/memory.hpp"
#include "control_flow/support.hpp"
#include "support/backends.hpp"

namespace telamon_test {
namespace {

/// The interpreter runs a million steps one by one, in a new buffer each.
class Memory : public testing::Test {
 protected:
  void SetUp() override { TELAMON_TEST_NEEDS_COMPILER(); }
};

/// The most bytes that f(x) had allocated at once beyond what was there before. Called once before,
/// so that what is compiled and remembered does not count.
template <class F, class... X>
std::size_t peak_of(F f, const X&... x) {
  { const auto first = f(x...); }
  const std::size_t before = tl::memory_stats().in_use;
  tl::reset_peak_memory();
  const std::size_t large = tl::memory_stats().peak;
  { const auto again = f(x...); }
  EXPECT_LE(tl::memory_stats().in_use, before + 4096);  // nothing stays
  return tl::memory_stats().peak - large;
}

constexpr std::int64_t kSteps = 1'000'000;
constexpr std::size_t kRow = kSteps * sizeof(double);  // one number per step
constexpr std::size_t kLittle = kRow / 16;
/// Blocks are at most a quarter larger than what they hold.
std::size_t at_most(double rows_of_numbers) {
  return static_cast<std::size_t>(1.25 * rows_of_numbers * static_cast<double>(kRow)) + kLittle;
}

template <class Step>
auto repeated(Step step) {
  return [step](Array x) {
    return tl::scan([&](Array c) { return std::pair{step(c), tl::none}; }, x, tl::none,
                    {.length = kSteps})
        .first;
  };
}
const auto kSines = repeated([](Array c) { return tl::sin(c) + 0.5; });
const auto kHalves = repeated([](Array c) { return 0.5 * c + 1.0; });

TEST_F(Memory, OfAScanDoesNotGrowWithItsStepsInForwardMode) {
  EXPECT_LT(peak_of(tl::jit(kSines), 0.5), kLittle);
  const auto forward = [](Array x, Array dx) {
    return tl::jvp(kSines, std::tuple{x}, std::tuple{dx}).second;
  };
  EXPECT_LT(peak_of(tl::jit(forward), 0.5, 1.0), kLittle);
  EXPECT_LT(peak_of(tl::jit(tl::jacfwd(kSines)), 0.5), kLittle);
  const auto counted = [](Array x) {
    return tl::fori_loop(0, kSteps, [](Array, Array c) { return tl::sin(c) + 0.5; }, x);
  };
  EXPECT_LT(peak_of(tl::jit(counted), 0.5), kLittle);
}

TEST_F(Memory, OfTheBackwardPassIsWhatItReads) {
  // A linear step leaves nothing to remember, a sine its cosine, a product with itself one factor.
  EXPECT_LT(peak_of(tl::jit(tl::grad(kHalves)), 0.5), kLittle);
  EXPECT_LE(peak_of(tl::jit(tl::grad(kSines)), 0.5), at_most(1));
  const auto squares = repeated([](Array c) { return 1.0 - c * c; });
  EXPECT_LE(peak_of(tl::jit(tl::grad(squares)), 0.5), at_most(1));
  // Rows that are there already are not stored again, nor is what does not change.
  const Array xs(std::vector<double>(kSteps, 0.5));
  const auto weighted = [](Array w, Array rows) {
    return tl::scan([&](Array c, Array x) { return std::pair{c + tl::sin(w) * x, tl::none}; },
                    Array(0.0), rows)
        .first;
  };
  EXPECT_LT(peak_of(tl::jit(tl::grad(weighted)), 0.5, xs), kLittle);
}

// Six sines in every step.
Array deep(Array x) {
  for (int i = 0; i < 6; ++i) x = tl::sin(x) + 0.1;
  return x;
}
constexpr std::int64_t kWidth = 20'000;

TEST_F(Memory, IsLessWithACheckpointedStep) {
  const auto loss = [](auto step) {
    return tl::grad([step](Array x) {
      return tl::sum(tl::scan([&](Array c) { return std::pair{step(c), tl::none}; }, x, tl::none,
                              {.length = 50})
                         .first);
    });
  };
  const auto plain = loss(deep);
  const auto kept = loss(tl::checkpoint(deep));
  const Array x = tl::linspace(0.1, 1.0, kWidth).astype(tl::f64);
  const std::size_t row = kWidth * sizeof(double);
  const std::size_t all = peak_of(tl::jit(plain), x), few = peak_of(tl::jit(kept), x);
  EXPECT_GE(all, 250 * row);  // six cosines in each of 50 steps, less a few
  EXPECT_LE(few, 90 * row);   // one carry in each, and the six of one step
  expect_equal(tl::jit(kept)(x), tl::jit(plain)(x));
}

// Products keep their neighbours from becoming one loop that needs no memory.
Array layers(Array x) {
  for (int i = 0; i < 6; ++i) x = tl::tanh(tl::matmul(x, x) * 0.01);
  return x;
}

TEST_F(Memory, IsLessWithACheckpointedFunctionUnderJit) {
  const auto chain = [](auto step) {
    return tl::grad([step](Array x) {
      for (int i = 0; i < 8; ++i) x = step(x);
      return tl::sum(x);
    });
  };
  const auto plain = chain(layers);
  const auto kept = chain(tl::checkpoint(layers));
  constexpr std::int64_t kSide = 150;
  const Array x = rows({kSide, kSide});
  const std::size_t row = kSide * kSide * sizeof(double);
  const std::size_t all = peak_of(tl::jit(plain), x), few = peak_of(tl::jit(kept), x);
  EXPECT_LE(2 * few, all) << few / row << " matrices instead of " << all / row;
  expect_equal(tl::jit(kept)(x), tl::jit(plain)(x));
  const auto jitted_inside = chain(tl::checkpoint(tl::jit(layers)));
  EXPECT_LE(2 * peak_of(tl::jit(jitted_inside), x), all);
}

constexpr std::int64_t kMost = 4096, kSize = 1000;

TEST_F(Memory, IsLessWithACheckpointedWhile) {
  const auto loss = [](bool checkpoint) {
    return tl::grad([=](Array x) {
      return tl::sum(tl::while_loop([](std::pair<Array, Array> s) { return s.first < 3000; },
                                    [](std::pair<Array, Array> s) {
                                      return std::pair{s.first + 1, tl::sin(s.second) + 0.5};
                                    },
                                    std::pair{Array(0), x},
                                    {.max_steps = kMost, .checkpoint = checkpoint})
                         .second);
    });
  };
  const Array x = tl::linspace(0.1, 1.0, kSize).astype(tl::f64);
  const std::size_t row = kSize * sizeof(double);
  const Array want = tl::jit(loss(false))(x);
  const std::size_t all = peak_of(tl::jit(loss(false)), x);
  EXPECT_GE(all, kMost * row);
  EXPECT_LE(peak_of(tl::jit(loss(true)), x), 400 * row);  // 64 carries, 64 residuals, some
  expect_equal(tl::jit(loss(true))(x), want);
  expect_equal(loss(true)(x), want);
}

}  // namespace
}  // namespace telamon_test
