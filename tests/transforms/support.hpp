// What the tests of transformations share: readable comparisons, and errors as text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "telamon/telamon.hpp"

namespace telamon_test {

namespace tl = telamon;
using tl::Array;
using tl::Arrays;

inline double value(const Array& x) { return x.item<double>(); }
inline std::vector<double> values(const Array& x) { return x.to_vector<double>(); }

inline void expect_near(const Array& got, const std::vector<double>& want,
                        double tolerance = 1e-12) {
  const auto g = values(got);
  ASSERT_EQ(g.size(), want.size());
  for (std::size_t i = 0; i < g.size(); ++i)
    EXPECT_NEAR(g[i], want[i], tolerance) << "element " << i;
}

/// The function of the Autodidax tutorial: -(2 sin x) + x.
inline Array f(const Array& x) { return -(tl::sin(x) * 2.0) + x; }

/// An error text that ends with the user's line, in the file of the test, and the transformations
/// under way, innermost first.
inline auto tells(int line, const std::string& transforms) {
  return ::testing::ContainsRegex("\n  at [a-z_]+_test[.]cpp:" + std::to_string(line) +
                                  " in [^\n]+\n  while tracing " + transforms + "$");
}

}  // namespace telamon_test

#define EXPECT_ERROR(Type, statement, part) \
  EXPECT_THAT(telamon_test::error_of<telamon::Type>([&] { statement; }), ::testing::HasSubstr(part))
