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

/// The slope of a function of numbers, by every order of transformations that reverse mode allows.
template <class F>
void expect_slope_in_every_order(F f, const std::vector<double>& points,
                                 const std::vector<double>& slopes) {
  const Array xs(points), matrix = xs.reshape({xs.size(), 1});
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double x = points[i];
    EXPECT_NEAR(value(tl::grad(f)(x)), slopes[i], 1e-15);
    EXPECT_NEAR(value(std::get<0>(tl::vjp(f, x).second(1.0))), slopes[i], 1e-15);
    EXPECT_NEAR(value(tl::jit(tl::grad(f))(x)), slopes[i], 1e-15);
    EXPECT_NEAR(value(tl::grad(tl::jit(f))(x)), slopes[i], 1e-15);
    EXPECT_NEAR(value(tl::grad(tl::jit(tl::jit(f)))(x)), slopes[i], 1e-15);
  }
  const auto sum = [f](Array x) { return tl::sum(tl::vmap(f)(x)); };
  expect_near(tl::vmap(tl::grad(f))(xs), slopes);
  expect_near(tl::grad(sum)(xs), slopes);
  expect_near(tl::jit(tl::vmap(tl::grad(f)))(xs), slopes);
  expect_near(tl::vmap(tl::jit(tl::grad(f)))(xs), slopes);
  expect_near(tl::vmap(tl::grad(tl::jit(f)))(xs), slopes);
  expect_near(tl::vmap(tl::jit(tl::grad(tl::jit(f))))(xs), slopes);
  expect_near(tl::grad(tl::jit(sum))(xs), slopes);
  expect_near(tl::jit(tl::grad(sum))(xs), slopes);
  expect_near(tl::grad([f](Array x) { return tl::sum(tl::vmap(tl::vmap(f))(x)); })(matrix), slopes);
  expect_near(tl::grad([f](Array x) { return tl::sum(tl::vmap(tl::jit(tl::vmap(f)))(x)); })(matrix),
              slopes);
}

}  // namespace telamon_test
