// Arrays and jitted functions at namespace scope work before main begins and after it has ended.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

double slope_of_a_new_jit() {
  const auto cubes = [](Array x) { return tl::sum(x * x * x); };
  return value(tl::jit(tl::grad(cubes))(Array(2.0)));
}

// Checks when it is destroyed, after main: gtest has its verdict by then, so it ends the process.
struct CheckAtExit {
  const char* what;
  double (*compute)();
  double want;
  ~CheckAtExit() {
    double got = 0;
    try {
      got = compute();
    } catch (const std::exception& e) { std::fprintf(stderr, "%s\n", e.what()); }
    if (got == want) return;
    std::fprintf(stderr, "%s, after main: got %g, expected %g\n", what, got, want);
    std::_Exit(1);
  }
};

// Destroyed after everything below.
const CheckAtExit after_all{"a new jit", slope_of_a_new_jit, 12.0};

const Array weights({1.0, 2.0, 3.0});
const auto weighted = tl::jit([](Array x) { return tl::sum(tl::sin(x * 0.0) + x * weights); });
const double before_main = value(weighted(Array({1.0, 1.0, 1.0})));
const double slope_before_main = slope_of_a_new_jit();
const auto first_called_after_main = tl::jit([](Array x) { return tl::exp(x) + 1.0; });

const CheckAtExit after_some{"a jit of namespace scope",
                             [] {
                               return value(weighted(Array({1.0, 1.0, 2.0}))) +
                                      value(first_called_after_main(Array(0.0)));
                             },
                             11.0};

TEST(NamespaceScope, ArraysAndJittedFunctionsWorkBeforeMain) {
  EXPECT_EQ(before_main, 6.0);
  EXPECT_EQ(slope_before_main, 12.0);
  EXPECT_EQ(value(weighted(Array({0.0, 0.0, 1.0}))), 3.0);
  EXPECT_EQ(weighted.cache_size(), 1u);
}

}  // namespace
}  // namespace telamon_test
