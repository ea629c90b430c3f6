// Arrays and jitted functions at namespace scope: used before main, and after it, while static
// objects are destroyed. An answer that is wrong after main ends the process with a failure.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "telamon/telamon.hpp"

namespace telamon_test {
namespace {

namespace tl = telamon;
using tl::Array;

struct CheckedAtExit {
  ~CheckedAtExit();
};
// Destroyed last of all objects here, so it runs when the others are gone.
const CheckedAtExit at_exit;

const Array base({1.0, 2.0, 3.0});
const auto jitted = tl::jit([](Array x) { return tl::sum(x * x); });
const auto slope = tl::jit(tl::grad([](Array x) { return tl::sum(tl::sin(x)); }));
const Array before_main = jitted(base);
const Array slope_before_main = slope(tl::zeros({2}, tl::f64));

CheckedAtExit::~CheckedAtExit() {
  const Array x({3.0, 4.0});
  const double value = tl::jit([](Array y) { return tl::sum(y * y); })(x).item<double>();
  const double gradient = tl::grad([](Array y) { return y * y; })(3.0).item<double>();
  if (value != 25.0 || gradient != 6.0) {
    std::fputs("arrays give wrong answers after main\n", stderr);
    std::_Exit(3);
  }
}

TEST(StaticObjects, WorkBeforeMain) {
  EXPECT_EQ(before_main.item<double>(), 14.0);
  EXPECT_EQ(slope_before_main.to_vector<double>(), (std::vector<double>{1.0, 1.0}));
}

TEST(StaticObjects, WorkDuringMain) { EXPECT_EQ(jitted(base * 2.0).item<double>(), 56.0); }

}  // namespace
}  // namespace telamon_test
