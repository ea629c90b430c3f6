// fori_loop between known bounds that are far apart or of different integer types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "support/errors.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::message_of;
using testing::HasSubstr;

constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();

Array number(std::int64_t value) { return Array(std::vector<std::int64_t>{value}).reshape({}); }
Array number(std::uint64_t value) { return Array(std::vector<std::uint64_t>{value}).reshape({}); }

std::int64_t steps(const Array& lower, const Array& upper) {
  const auto count = [](Array, Array n) { return n + 1; };
  return fori_loop(lower, upper, count, Array(std::int64_t{0})).item<std::int64_t>();
}

TEST(ForiLoop, CountsBetweenBoundsOfEverySize) {
  EXPECT_EQ(steps(number(kHigh - 3), number(kHigh)), 3);
  EXPECT_EQ(steps(number(kLow), number(kLow + 2)), 2);
  EXPECT_EQ(steps(number(kHigh), number(kLow)), 0);
  EXPECT_EQ(steps(number(std::int64_t{-2}), number(std::int64_t{2})), 4);
  const std::uint64_t big = ~std::uint64_t{0};
  EXPECT_EQ(steps(number(big - 2), number(big)), 2);
  EXPECT_EQ(steps(number(big), number(std::uint64_t{0})), 0);
}

TEST(ForiLoop, CountsInTheTypeThatHoldsItsBounds) {
  const auto last = [](auto lower, auto upper) {
    return fori_loop(lower, upper, [](Array i, Array) { return i; }, Array(0));
  };
  EXPECT_EQ(last(0, 3).dtype(), default_int());
  const Array end = last(3'000'000'000 - 2, 3'000'000'000);
  EXPECT_EQ(end.dtype(), DType::i64);
  EXPECT_EQ(end.item<std::int64_t>(), 2'999'999'999);
  EXPECT_EQ(jit([&] { return last(-3'000'000'000, -2'999'999'998); })().item<std::int64_t>(),
            -2'999'999'999);
}

TEST(ForiLoop, CountsToATracedBoundInItsType) {
  const auto last = [](Array n) {
    return fori_loop(0, n, [](Array i, Array) { return i.astype(i64); }, full({}, 0, i64));
  };
  const std::int64_t far = 2'147'483'650;
  const auto near_the_end = [&](Array n) {
    return fori_loop(far - 2, n, [](Array i, Array) { return i; }, full({}, 0, i64));
  };
  EXPECT_EQ(jit(last)(5).item<std::int64_t>(), 4);
  EXPECT_EQ(jit(near_the_end)(far).item<std::int64_t>(), far - 1);
}

// 0.5 is a weak f64, and an index times or plus it a weak default float.
TEST(ForiLoop, GivesANumberInTheCarryTheTypeOfTheBody) {
  const auto sum = [] { return fori_loop(0, 3, [](Array i, Array c) { return c + i; }, 0.5); };
  EXPECT_EQ(sum().item<double>(), 3.5);
  EXPECT_EQ(sum().dtype(), default_float());
  EXPECT_EQ(jit(sum)().item<double>(), 3.5);
}

TEST(ForiLoop, BeyondAllCountsIsAnError) {
  const auto says = HasSubstr("more than 2^63 - 1 steps");
  EXPECT_THAT(message_of<ValueError>([] { steps(number(kLow), number(kHigh)); }), says);
  EXPECT_THAT(message_of<ValueError>([] { steps(number(std::int64_t{-1}), number(kHigh)); }), says);
  EXPECT_THAT(
      message_of<ValueError>([] { steps(number(std::uint64_t{0}), number(~std::uint64_t{0})); }),
      says);
}

TEST(ForiLoop, OfBoundsWithoutACommonIntegerTypeIsAnError) {
  EXPECT_THAT(
      message_of<TypeError>([] { steps(number(std::int64_t{0}), number(std::uint64_t{3})); }),
      HasSubstr("no integer dtype holds both bounds, i64[] and u64[]"));
}

}  // namespace
}  // namespace telamon
