// Kernels of the runtime within compiled programs: the same bits as eager evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "telamon/telamon.hpp"

namespace {

using namespace telamon;
namespace tl = telamon;

Array numbers(const Shape& shape, DType dtype, int seed = 1) {
  std::vector<double> x(static_cast<std::size_t>(shape.num_elements()));
  unsigned state = static_cast<unsigned>(seed);
  for (double& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<double>(state >> 16) / 4096 - 8;
  }
  return lax::convert_element_type(Array(x, shape), dtype);
}
void expect_same(const Array& got, const Array& want) {
  ASSERT_EQ(got.aval(), want.aval());
  EXPECT_EQ(got.to_vector<double>(), want.to_vector<double>());
}

TEST(NativeScan, AlongEveryAxisAndBothWaysIsTheEagerOne) {
  for (const DType dtype : {f32, f64, i32, i64, u8, f16}) {
    for (const Shape& shape :
         {Shape{37, 5, 19}, Shape{2, 100, 1}, Shape{1, 1, 333}, Shape{16, 4, 16}}) {
      const Array x = numbers(shape, dtype);
      for (int axis = 0; axis < 3; ++axis) {
        for (const bool reverse : {false, true}) {
          const auto scans = [=](Array a) {
            return Arrays{lax::cumsum(a, axis, reverse), lax::cummax(a, axis, reverse),
                          lax::cummin(a, axis, reverse), lax::cumprod(a, axis, reverse)};
          };
          const Arrays want = scans(x), got = jit(scans)(x);
          for (std::size_t i = 0; i < want.size(); ++i) expect_same(got[i], want[i]);
        }
      }
    }
  }
}

TEST(NativeScan, IsTheSumOneAfterTheOther) {
  const Array x = numbers({3, 50}, f32);
  const auto v = x.to_vector<float>(),
             y = jit([](Array a) { return lax::cumsum(a, 1); })(x).to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    float sum = v[50 * i];
    for (std::size_t j = 1; j < 50; ++j) {
      sum += v[50 * i + j];
      EXPECT_EQ(y[50 * i + j], sum);
    }
  }
}

// Lines of 64 elements and more are summed a register at a time.
TEST(NativeScan, OfLongLinesIsCloseAndTheSameForEachLineAlone) {
  for (const std::int64_t n : {64, 65, 79, 1000, 4099}) {
    const Array x = random::uniform(random::key(1), {5, n}) - 0.5f;
    const auto v = x.to_vector<double>();
    for (const bool reverse : {false, true}) {
      const auto scan = [reverse](Array a) { return lax::cumsum(a, a.ndim() - 1, reverse); };
      const auto y = jit(scan)(x).to_vector<float>();
      for (std::int64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(scan(x(i)).to_vector<float>(),
                  std::vector<float>(y.begin() + i * n, y.begin() + (i + 1) * n));
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<std::size_t>(i * n + (reverse ? n - 1 - j : j));
          sum += v[at];
          ASSERT_NEAR(y[at], sum, 2e-6 * static_cast<double>(j + 1)) << n << " " << i << " " << j;
        }
      }
    }
  }
}

TEST(NativeScan, OfLongLinesKeepsTheSignOfZeroAndSpreadsNan) {
  std::vector<float> zeros(200, -0.0f);
  for (const float y : lax::cumsum(Array(zeros, {200}), 0).to_vector<float>())
    ASSERT_TRUE(y == 0 && std::signbit(y));
  std::vector<float> x(200, 1);
  x[100] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& scan : {lax::cumsum(Array(x, {200}), 0), lax::cummax(Array(x, {200}), 0),
                           lax::cummin(Array(x, {200}), 0)}) {
    const auto y = scan.to_vector<float>();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i >= 100) << i;
  }
}

TEST(NativeScatter, OfRowsAndElementsIsTheEagerOne) {
  const Array rows(std::vector<std::int32_t>{3, 0, 3, 99, 5, 1, 3, 2, -1, 4, 3, 0}, {12});
  const Array t = numbers({6, 10}, f32), updates = numbers({12, 10}, f32, 2);
  const auto f = [](Array t, Array i, Array u) {
    return Arrays{t.at(i).add(u), t.at(i).set(u), t(i) * 2.0};
  };
  const Arrays want = f(t, rows, updates), got = jit(f)(t, rows, updates);
  for (std::size_t k = 0; k < want.size(); ++k) expect_same(got[k], want[k]);

  const Array places = lax::convert_element_type(numbers({1000}, f32), i32);
  const auto histogram = [](Array i, Array w) {
    return Arrays{tl::zeros({16}).at(i + 8).add(w), tl::zeros({16}, i32).at(i + 8).add(1)};
  };
  const Array weights = numbers({1000}, f32, 5);
  const Arrays counts = histogram(places, weights), compiled = jit(histogram)(places, weights);
  for (std::size_t k = 0; k < counts.size(); ++k) expect_same(compiled[k], counts[k]);
}

TEST(NativeScatter, OfManyWholeNumbersCountsThemAll) {
  const std::size_t n = 20003;
  std::vector<std::int32_t> bins(n), want(7);
  for (std::size_t i = 0; i < n; ++i) {
    bins[i] = static_cast<std::int32_t>(i * 7919 % 11) - 2;  // -2 and -1 count from the end
    const std::int32_t at = bins[i] < 0 ? bins[i] + 7 : bins[i];
    if (at < 7) ++want[static_cast<std::size_t>(at)];
  }
  const auto count = [](Array i) { return tl::zeros({7}, i32).at(i).add(1); };
  const Array i(bins, {static_cast<std::int64_t>(n)});
  EXPECT_EQ(jit(count)(i).to_vector<std::int32_t>(), want);
  EXPECT_EQ(count(i).to_vector<std::int32_t>(), want);
}

TEST(NativeScatter, InPlaceLeavesWhatOthersReadAsItWas) {
  const Array i(std::vector<std::int32_t>(80, 3), {80}), u = numbers({80}, f32);
  const auto f = [](Array x, Array i, Array u) {
    const Array base = x * 3.0;            // read twice: not overwritten
    const Array once = base.at(i).add(u);  // read twice, too
    const Array twice = once.at(i + 1).add(u);
    const Array chain = tl::zeros({9}).at(i).add(u).at(i + 2).add(u);
    return Arrays{base, once, twice, chain, x.at(i).set(u)};
  };
  const Array x = numbers({9}, f32, 4);
  const Arrays want = f(x, i, u), got = jit(f)(x, i, u);
  for (std::size_t k = 0; k < want.size(); ++k) expect_same(got[k], want[k]);
  expect_same(x, numbers({9}, f32, 4));
}

TEST(NativeScatter, WithinLoopsAndBatchesIsTheEagerOne) {
  const Array i = lax::convert_element_type(numbers({4, 100}, f32), i32),
              u = numbers({4, 100}, f32, 3);
  const auto one = [](Array i, Array u) { return tl::zeros({16}).at(i + 8).add(u); };
  const auto batched = vmap(one);
  expect_same(jit(batched)(i, u), batched(i, u));
  const auto looped = [&](Array i, Array u) {
    Array sum = tl::zeros({16});
    return fori_loop(0, 4, [&](Array k, Array sum) { return sum.at(i(k) + 8).add(u(k)); }, sum);
  };
  expect_same(jit(looped)(i, u), looped(i, u));
}

// By all threads where it is large, and not at all where it is given away.
TEST(NativeScatter, CopiesWhatItWritesOver) {
  const auto f = [](const Array& x, const Array& i, const Array& u) { return x.at(i).set(u); };
  const Array i = lax::convert_element_type(numbers({50}, f32), i32);
  for (const std::int64_t rows : {20, 30'000}) {
    const Array x = numbers({rows, 16}, f32, 2), u = numbers({50, 16}, f32, 3);
    const Array want = f(x, i, u);
    const std::string ir = jit(f).lower(x, i, u).compile().text("ir");
    EXPECT_EQ(ir.find("telamon_jit_copy") != std::string::npos, rows > 20);
    expect_same(jit(f)(x, i, u), want);
    expect_same(x, numbers({rows, 16}, f32, 2));
    expect_same(jit(f, {.donate = {0}})(numbers({rows, 16}, f32, 2), i, u), want);
  }
}

}  // namespace
