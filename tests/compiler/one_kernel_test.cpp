// Programs like those that the side-by-side (bench/) measures: each is exactly one kernel.
#include "support.hpp"
#include "telamon/history.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

void expect_one_kernel(const Program& f, const Arrays& inputs) {
  check(f, inputs, 1, 1e3);
  EXPECT_EQ(last_executable().kernels, 1);
  EXPECT_EQ(last_executable().library_calls, 0);
}

Arrays chain(std::span<const Array> x) {
  const Array &a = x[0], &b = x[1];
  Array y = lax::mul(lax::add(a, b), a);
  y = lax::max(lax::sub(y, b), a);
  y = lax::add(lax::mul(y, y), b);
  y = lax::mul(lax::min(y, lax::full_like(y, 2)), a);
  return {lax::mul(lax::sub(y, a), b)};
}

TEST(OneKernel, IsAChainOfTenOperations) {
  for (const std::int64_t n : {4096, 1'000'000})
    expect_one_kernel(chain, {uniform({n}, DType::f32), uniform({n}, DType::f32, -2, 2, 2)});
}

TEST(OneKernel, IsAChainWithExpAndTanh) {
  const Program f = [](std::span<const Array> x) {
    const Array e = lax::exp(lax::mul(x[0], x[1]));
    return Arrays{lax::add(lax::tanh(lax::sub(e, x[1])), e)};
  };
  expect_one_kernel(f, {uniform({4096}, DType::f32), uniform({4096}, DType::f32)});
}

TEST(OneKernel, AreSumsOfRowsAndOfColumns) {
  for (const Shape& shape : {Shape{1000, 1000}, Shape{10, 100'000}, Shape{100'000, 10}}) {
    for (const std::int64_t axis : {0, 1}) {
      const Program f = [&](std::span<const Array> x) {
        return Arrays{lax::reduce_sum(x[0], {axis})};
      };
      // Whole numbers: the sums are exact in any order.
      expect_one_kernel(f, {lax::round(uniform(shape, DType::f32, -9, 9))});
    }
  }
}

// A step of heat: what is added to the interior is computed there, and nothing around it.
TEST(OneKernel, IsAStepWithABorder) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{256, 256}, Shape{97, 131}}) {
      const Program step = [](std::span<const Array> x) {
        const Array& u = x[0];
        const auto from = [&](int i, int j) {
          return u(slice(1 + i, u.shape(0) - 1 + i), slice(1 + j, u.shape(1) - 1 + j));
        };
        const Array flow = from(1, 0) + from(-1, 0) + from(0, 1) + from(0, -1) - 4 * from(0, 0);
        return Arrays{u.at(slice(1, -1), slice(1, -1)).add(lax::div(flow, lax::exp(from(0, 0))))};
      };
      expect_one_kernel(step, {uniform(shape, dtype)});
    }
  }
}

TEST(OneKernel, IsAJittedScalarFunction) {
  const auto f = jit([](const Array& x) { return lax::mul(lax::sin(x), x); });
  f(1.5);
  EXPECT_EQ(last_executable().kernels, 1);
}

}  // namespace
}  // namespace telamon::testing
