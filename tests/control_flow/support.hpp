// What the tests of control flow share.
#pragma once

#include <gmock/gmock.h>

#include "transforms/support.hpp"

namespace telamon_test {

/// Real rows that are not special: sin(1), sin(2), ...
inline Array rows(tl::Shape shape, double phase = 0) {
  std::vector<double> data;
  for (std::int64_t i = 0; i < shape.num_elements(); ++i)
    data.push_back(0.8 * std::sin(1.0 + phase + static_cast<double>(i)));
  return Array(data, shape);
}

/// Whether the program prints, parses back to itself and type-checks, at every depth.
inline void expect_sound(const tl::Jaxpr& jaxpr) {
  EXPECT_NO_THROW(tl::typecheck_jaxpr(jaxpr)) << jaxpr.to_string();
  const tl::Jaxpr again = tl::parse_jaxpr(jaxpr.to_string());
  EXPECT_TRUE(again == jaxpr) << jaxpr.to_string() << "\nbecame\n" << again.to_string();
}

inline void expect_equal(const Array& got, const Array& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.shape(), want.shape());
  expect_near(got, values(want), tolerance);
}

}  // namespace telamon_test
