// Programs like those that the side-by-side (bench/) measures: each is exactly one kernel.
#include "support.hpp"
#include "telamon/control_flow.hpp"
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

// A step of heat: what is added to the interior is computed there, and nothing around it; so is what replaces the interior.
TEST(OneKernel, IsAStepWithABorder) {
  for (const bool adds : {true, false}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const Shape& shape : {Shape{256, 256}, Shape{97, 131}}) {
        const Program step = [&](std::span<const Array> x) {
          const Array& u = x[0];
          const auto from = [&](int i, int j) {
            return u(slice(1 + i, u.shape(0) - 1 + i), slice(1 + j, u.shape(1) - 1 + j));
          };
          const Array flow = from(1, 0) + from(-1, 0) + from(0, 1) + from(0, -1) - 4 * from(0, 0);
          const auto interior = u.at(slice(1, -1), slice(1, -1));
          const Array next = lax::div(flow, lax::exp(from(0, 0)));
          return Arrays{adds ? interior.add(next) : interior.set(next)};
        };
        expect_one_kernel(step, {uniform(shape, dtype)});
      }
    }
  }
}

// Columns that wrap around are read where they lie: stored first they would be a pass over a line of each row.
TEST(OneKernel, IsAStepThatWrapsAround) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i8}) {
    for (const Shape& shape : {Shape{256, 256}, Shape{97, 131}, Shape{3, 50, 64}}) {
      const Program step = [&](std::span<const Array> x) {
        const auto from = [&](int by, int axis) { return roll(x[0], by, axis); };
        return Arrays{from(1, -1) + from(-1, -1) + from(1, -2) + from(-1, -2) - 4 * x[0],
                      from(1, -1) - x[0]};
      };
      expect_one_kernel(step, {uniform(shape, dtype, -9, 9)});
    }
  }
}

// Where what is carried along has come from: four look-ups at places that all compute, and nobody stores.
TEST(OneKernel, IsAStepOfAdvection) {
  const Program step = [](std::span<const Array> x) {
    const Array &q = x[0], &shape = x[0];
    const auto coordinate = [&](int d) {
      const Array at = lax::sub(lax::iota(DType::f32, shape.shape(), d), x[1 + d]);
      return clip(at, 0, static_cast<float>(shape.shape(d)) - 1.001f);
    };
    const Array y = coordinate(0), x1 = coordinate(1);
    const Array i = lax::convert_element_type(lax::floor(y), DType::i32),
                j = lax::convert_element_type(lax::floor(x1), DType::i32);
    const Array v = y - i.astype(DType::f32), u = x1 - j.astype(DType::f32);
    const auto along = [&](const Array& row) { return q(row, j) * (1 - u) + q(row, j + 1) * u; };
    return Arrays{along(i) * (1 - v) + along(i + 1) * v};
  };
  const Shape shape{600, 1000};
  expect_one_kernel(step, {uniform(shape, DType::f32), uniform(shape, DType::f32, -2, 2, 2),
                           uniform(shape, DType::f32, -2, 2, 3)});
}

TEST(OneKernel, IsAJittedScalarFunction) {
  const auto f = jit([](const Array& x) { return lax::mul(lax::sin(x), x); });
  f(1.5);
  EXPECT_EQ(last_executable().kernels, 1);
}

// Parts that have much in common are stored where they will lie, by the kernel that computes it once.
TEST(OneKernel, StacksPartsThatHaveMuchInCommon) {
  const auto f = [](std::span<const Array> x) {
    const Array s = tanh(x[0] * x[1]) + x[0], t = sin(s) * x[1] - s;
    return Arrays{lax::concatenate(Arrays{s + t, s * t, lax::max(s, t) * t}, 0)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape :
         {Shape{1, 300}, Shape{1, 9, 37}, Shape{1, 1, 1037}, Shape{1, 90, 500}})
      check(f, {uniform(shape, dtype), uniform(shape, dtype, -1, 1, 2)}, 1);
  }
  const auto in_order = [](std::span<const Array> x) { return Arrays{lax::sort(x[0], 0)}; };
  for (const std::int64_t lines : {3, 8, 16}) {
    check(in_order, {uniform({lines, 40, 25}, DType::i32, -99, 99)}, lines > 3 ? 1 : -1);
    check(in_order, {uniform({lines, 40, 25}, DType::f32)}, lines == 8 ? 1 : -1);
  }
}

// Large ones go around the caches where all parts begin with a line, and only there.
TEST(OneKernel, StacksLargePartsWhereverTheyBegin) {
  const auto f = [](std::span<const Array> x) {
    const Array t = sin(x[0]) * x[1];
    return Arrays{lax::concatenate(Arrays{t, t + x[0]}, 0)};
  };
  for (const std::int64_t n : {2'500'003, 2'500'032})
    check(f, {uniform({1, n}, DType::f32), uniform({1, n}, DType::f32, -1, 1, 2)}, 1);
}

// What others read of them at other places is in memory when they do, and what is written over is not what is read.
TEST(OneKernel, StacksNothingOverWhatIsReadOfParts) {
  const auto step = [](std::span<const Array> x) {
    const Array &a = x[0], up = lax::slice(a, {0, 0}, {1, 999}),
                down = lax::slice(a, {1, 1}, {2, 1000});
    const Array s = tanh(up * down) + up, t = sin(s) * down;
    const Array both = lax::concatenate(Arrays{s + t, s * t}, 0);
    const Array all = lax::pad(both, lax::full({}, a.dtype(), 0), {{0, 0, 0}, {0, 1, 0}});
    return Arrays{all + a, lax::reduce_sum(both, {0}), lax::transpose(both, {1, 0})};
  };
  check(step, {uniform({2, 1000}, DType::f64)});
  const auto looped = [&](std::span<const Array> x) {
    return Arrays{
        fori_loop(0, 5, [&](const Array&, const Array& a) { return step(Arrays{a})[0]; }, x[0])};
  };
  check(looped, {uniform({2, 1000}, DType::f64)}, -1, 1 << 8);
}

}  // namespace
}  // namespace telamon::testing
