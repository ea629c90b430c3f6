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
