// Comparisons of arrays with literals, for the tests of the libraries.
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
using tl::Shape;

/// Dtype (that of T), shape and every element.
template <class T>
void expect_array(const Array& x, const Shape& shape, const std::vector<T>& values) {
  EXPECT_EQ(tl::short_name(x.dtype()), tl::short_name(tl::dtype_of<T>));
  ASSERT_EQ(x.shape().to_string(), shape.to_string());
  const std::vector<T> actual = x.to_vector<T>();
  ASSERT_EQ(actual.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(values[i])) {
        EXPECT_TRUE(std::isnan(actual[i])) << "element " << i << " of " << x;
        continue;
      }
    }
    EXPECT_EQ(actual[i], values[i]) << "element " << i << " of " << x;
  }
}

/// Dtype, shape, and elements within a relative tolerance (absolute below 1).
template <class T>
void expect_near(const Array& x, const Shape& shape, const std::vector<T>& values,
                 double tolerance) {
  EXPECT_EQ(tl::short_name(x.dtype()), tl::short_name(tl::dtype_of<T>));
  ASSERT_EQ(x.shape().to_string(), shape.to_string());
  const std::vector<T> actual = x.to_vector<T>();
  ASSERT_EQ(actual.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = std::max(1.0, std::abs(static_cast<double>(values[i])));
    EXPECT_NEAR(actual[i], values[i], tolerance * scale) << "element " << i << " of " << x;
  }
}

/// "f32[2,3]", "~f32[]".
inline std::string type_of(const Array& x) { return x.aval().to_string(); }

}  // namespace telamon_test
