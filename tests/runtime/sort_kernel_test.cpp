// Stable sorts of one and several operands against std::sort of positions.
#include "runtime/kernels/sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/kernels/copy.hpp"
#include "support/threads.hpp"
#include "telamon/error.hpp"

namespace {

// NaN equals itself here, and -0 differs from 0.
template <class T>
bool same_bits(T a, T b) {
  unsigned char x[sizeof(T)], y[sizeof(T)];
  std::memcpy(x, &a, sizeof(T));
  std::memcpy(y, &b, sizeof(T));
  return std::memcmp(x, y, sizeof(T)) == 0;
}

using namespace telamon;
using kernels::contiguous_view;
using kernels::View;
using telamon_test::WithThreads;

/// Numbers with many ties, and the extremes.
template <class T>
std::vector<T> keys(std::size_t n, unsigned seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const auto r = static_cast<int>(seed >> 24);
    x[i] = r < 8    ? Limits::max()
           : r < 16 ? Limits::lowest()
                    : static_cast<T>(r % 40 - (std::is_signed_v<T> ? 20 : 0));
    if constexpr (std::is_floating_point_v<T>) {
      if (r % 10 == 3) x[i] = r % 20 == 3 ? Limits::quiet_NaN() : -Limits::infinity();
      if (r % 10 == 4) x[i] = r % 20 == 4 ? T(-0.0) : Limits::infinity();
    }
  }
  return x;
}
template <class T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

template <class T>
class Sort : public ::testing::Test {};
using Types = ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                               std::uint16_t, std::uint32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(Sort, Types);

TYPED_TEST(Sort, OrdersTwoKeysAndCarriesAPayloadStably) {
  using T = TypeParam;
  for (std::size_t n : {0u, 1u, 2u, 10u, 40u, 41u, 1000u, 5000u}) {
    auto a = keys<T>(n, 1), b = keys<T>(n, 2);
    std::vector<std::int32_t> payload(n);
    std::iota(payload.begin(), payload.end(), 0);
    std::vector<T> a_sorted(n), b_sorted(n);
    std::vector<std::int32_t> order(n);
    const Shape shape{static_cast<std::int64_t>(n)};
    const View in[] = {contiguous_view(a.data(), dtype_of<T>, shape),
                       contiguous_view(b.data(), dtype_of<T>, shape),
                       contiguous_view(payload.data(), i32, shape)};
    const View out[] = {contiguous_view(a_sorted.data(), dtype_of<T>, shape),
                        contiguous_view(b_sorted.data(), dtype_of<T>, shape),
                        contiguous_view(order.data(), i32, shape)};
    for (int num_keys : {1, 2}) {
      kernels::run_sort(in, 0, num_keys, out);
      std::vector<std::int32_t> want = payload;
      std::sort(want.begin(), want.end(), [&](std::int32_t i, std::int32_t j) {
        const auto p = static_cast<std::size_t>(i), q = static_cast<std::size_t>(j);
        if (before(a[p], a[q])) return true;
        if (before(a[q], a[p])) return false;
        if (num_keys == 2 && (before(b[p], b[q]) || before(b[q], b[p]))) return before(b[p], b[q]);
        return i < j;
      });
      ASSERT_EQ(order, want) << n << " elements, " << num_keys << " keys";
      for (std::size_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(order[i]);
        ASSERT_TRUE(same_bits(a_sorted[i], a[at]));
        ASSERT_TRUE(same_bits(b_sorted[i], b[at]));
      }
    }
  }
}

// One operand is sorted by another way than several: bit by bit what a stable sort of positions gives.
TYPED_TEST(Sort, OfOneOperandKeepsTheBitsOfEqualElementsInOrder) {
  using T = TypeParam;
  for (const auto& [lines, n] : {std::pair<std::int64_t, std::int64_t>{1, 0},
                                 {1, 1},
                                 {5, 3},
                                 {40, 17},
                                 {33, 64},
                                 {1, 1024},
                                 {17, 1025},
                                 {3, 5000},
                                 {1, 300001}}) {
    const auto x = keys<T>(static_cast<std::size_t>(lines * n), 3);
    std::vector<T> want, got(x.size());
    for (std::int64_t i = 0; i < lines; ++i) {
      std::vector<std::size_t> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), static_cast<std::size_t>(i * n));
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return before(x[a], x[b]) || (!before(x[b], x[a]) && a < b);
      });
      for (const std::size_t at : order) want.push_back(x[at]);
    }
    const Shape shape{lines, n};
    const View in = contiguous_view(const_cast<T*>(x.data()), dtype_of<T>, shape);
    const View out = contiguous_view(got.data(), dtype_of<T>, shape);
    kernels::run_sort({&in, 1}, 1, 1, {&out, 1});
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same_bits(got[i], want[i])) << lines << " lines of " << n << ", element " << i;
  }
}

/// One after the other, and what was before at last.
template <class Body>
void with_threads(std::initializer_list<int> numbers, const Body& body) {
  for (const int threads : numbers) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    const WithThreads scope(threads);
    body();
  }
}

// Of ascending places. std::stable_sort in libstdc++ 12 uses what is deprecated since.
template <class Before>
void sort_stably(std::vector<std::size_t>::iterator first, std::vector<std::size_t>::iterator last,
                 const Before& before) {
  std::sort(first, last,
            [&](std::size_t i, std::size_t j) { return before(i, j) || (!before(j, i) && i < j); });
}

// Long lines are cut among the threads.
template <class T>
void expect_long_lines_in_order(const std::vector<T>& x, std::int64_t lines) {
  const std::int64_t n = static_cast<std::int64_t>(x.size()) / lines;
  std::vector<std::int32_t> numbers(x.size());
  std::vector<std::int64_t> nearly(x.size());  // numbers but for the last of each line
  for (std::int64_t i = 0; i < lines * n; ++i) {
    numbers[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % n);
    nearly[static_cast<std::size_t>(i)] = i % n == n - 1 ? -1 : i % n;
  }
  std::vector<std::size_t> want(x.size());
  std::iota(want.begin(), want.end(), std::size_t{0});
  for (auto line = want.begin(); line != want.end(); line += n) {
    sort_stably(line, line + n, [&](std::size_t i, std::size_t j) { return before(x[i], x[j]); });
  }
  const Shape shape{lines, n};
  const auto view = [&shape](auto& v) {
    using E = typename std::decay_t<decltype(v)>::value_type;
    return contiguous_view(const_cast<E*>(v.data()), dtype_of<E>, shape);
  };
  with_threads({1, 2, 3, 8}, [&] {
    std::vector<T> keys(x.size()), alone(x.size());
    std::vector<std::int32_t> order(x.size());
    std::vector<std::int64_t> carried(x.size());
    const View in[] = {view(x), view(numbers), view(nearly)},
               out[] = {view(keys), view(order), view(carried)}, one = view(alone);
    kernels::run_sort(in, 1, 1, out);
    kernels::run_sort({in, 1}, 1, 1, {&one, 1});
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same_bits(keys[i], x[want[i]])) << i;
      ASSERT_TRUE(same_bits(alone[i], x[want[i]])) << i;
      ASSERT_EQ(order[i], numbers[want[i]]) << i;
      ASSERT_EQ(carried[i], nearly[want[i]]) << i;
    }
  });
}

/// Of all bit patterns: NaNs, infinities and denormal numbers among them.
template <class T, class Bits>
std::vector<T> any_bits(std::size_t n) {
  std::vector<T> x(n);
  std::uint64_t state = 1;
  for (T& e : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    e = std::bit_cast<T>(static_cast<Bits>((state ^ state >> 31) >> (64 - 8 * sizeof(Bits))));
  }
  return x;
}

TEST(SortLongLines, OfAnyBitsAreTheSameForAnyNumberOfThreads) {
  for (const std::size_t n : {32767u, 32768u, 65535u, 131073u, 270001u}) {
    SCOPED_TRACE(std::to_string(n) + " elements");
    expect_long_lines_in_order(any_bits<float, std::uint32_t>(n), 1);
    expect_long_lines_in_order(any_bits<double, std::uint64_t>(n), 1);
    expect_long_lines_in_order(any_bits<std::int16_t, std::uint16_t>(n), 1);
  }
  expect_long_lines_in_order(any_bits<float, std::uint32_t>(5 * 40000), 5);
  expect_long_lines_in_order(any_bits<std::int64_t, std::uint64_t>(3 * 70000), 3);
}

TEST(SortLongLines, OfEqualKeysKeepTheirOrder) {
  for (const std::size_t n : {40000u, 270001u}) {
    expect_long_lines_in_order(keys<float>(n, 5), 1);  // many zeros of both signs, and NaNs
    expect_long_lines_in_order(keys<double>(n, 6), 1);
    expect_long_lines_in_order(std::vector<float>(n, 1.5f), 1);
    expect_long_lines_in_order(std::vector<float>(n, std::nanf("")), 1);
    std::vector<std::int32_t> falling(n), fifths(n);
    for (std::size_t i = 0; i < n; ++i) {
      falling[i] = static_cast<std::int32_t>(n - i);
      fifths[i] = static_cast<std::int32_t>(i % 5) << 28;
    }
    expect_long_lines_in_order(falling, 1);
    expect_long_lines_in_order(fifths, 1);
    // More than any thread's share are the least that there is, or the greatest.
    for (const std::uint32_t many : {0u, ~0u}) {
      auto most = any_bits<std::uint32_t, std::uint32_t>(n);
      for (std::size_t i = 0; i < n; ++i) most[i] = i % 5 == 0 ? most[i] : many;
      expect_long_lines_in_order(most, 1);
    }
  }
}

TEST(SortLongLines, OfSeveralKeysCompareTheFirstFirst) {
  constexpr std::size_t kN = 270001;
  const Shape shape{static_cast<std::int64_t>(kN)};
  auto a = keys<float>(kN, 7), b = keys<float>(kN, 8);
  auto c = any_bits<std::int64_t, std::uint64_t>(kN);
  for (std::int64_t& x : c) x %= 1000000007;
  std::vector<std::size_t> want(kN);
  std::iota(want.begin(), want.end(), std::size_t{0});
  sort_stably(want.begin(), want.end(), [&](std::size_t i, std::size_t j) {
    if (before(a[i], a[j]) || before(a[j], a[i])) return before(a[i], a[j]);
    if (before(b[i], b[j]) || before(b[j], b[i])) return before(b[i], b[j]);
    return c[i] < c[j];
  });
  with_threads({1, 2, 3, 8}, [&] {
    std::vector<float> x(kN), y(kN);
    std::vector<std::int64_t> z(kN);
    const View in[] = {contiguous_view(a.data(), f32, shape), contiguous_view(b.data(), f32, shape),
                       contiguous_view(c.data(), i64, shape)},
               out[] = {contiguous_view(x.data(), f32, shape),
                        contiguous_view(y.data(), f32, shape),
                        contiguous_view(z.data(), i64, shape)};
    kernels::run_sort(in, 0, 3, out);
    for (std::size_t i = 0; i < kN; ++i) {
      ASSERT_TRUE(same_bits(x[i], a[want[i]])) << i;
      ASSERT_TRUE(same_bits(y[i], b[want[i]])) << i;
      ASSERT_EQ(z[i], c[want[i]]) << i;
    }
  });
}

TEST(SortLongLines, OfComplexNumbersCompareRealThenImaginaryParts) {
  constexpr std::size_t kN = 70001;
  const Shape shape{static_cast<std::int64_t>(kN)};
  const auto re = keys<float>(kN, 9), im = keys<float>(kN, 10);
  std::vector<Complex64> x(kN);
  for (std::size_t i = 0; i < kN; ++i) x[i] = {re[i], im[i]};
  std::vector<std::size_t> want(kN);
  std::iota(want.begin(), want.end(), std::size_t{0});
  sort_stably(want.begin(), want.end(), [&](std::size_t i, std::size_t j) {
    if (before(re[i], re[j]) || before(re[j], re[i])) return before(re[i], re[j]);
    return before(im[i], im[j]);
  });
  with_threads({1, 3}, [&] {
    std::vector<Complex64> y(kN);
    const View in = contiguous_view(x.data(), c64, shape),
               out = contiguous_view(y.data(), c64, shape);
    kernels::run_sort({&in, 1}, 0, 1, {&out, 1});
    for (std::size_t i = 0; i < kN; ++i) ASSERT_TRUE(same_bits(y[i], x[want[i]])) << i;
  });
}

TEST(SortLines, OfDistinctAscendingDescendingAndEqualKeysAreSorted) {
  const std::int64_t n = 100000;
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<std::int64_t> x(static_cast<std::size_t>(n)), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      x[i] = kind == 0 ? at : kind == 1 ? -at : kind == 2 ? 7 : (at * 7919) % n << (at % 40);
    }
    std::vector<std::int64_t> want = x;
    std::sort(want.begin(), want.end());
    const View in = contiguous_view(x.data(), i64, Shape{n});
    const View out = contiguous_view(y.data(), i64, Shape{n});
    kernels::run_sort({&in, 1}, 0, 1, {&out, 1});
    EXPECT_EQ(y, want) << kind;
  }
}

TEST(SortAxes, SortsEveryLineAlongAnyAxisOfAnyLayout) {
  std::vector<float> x(3 * 50 * 4), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 601);
  const Shape shape{3, 50, 4};
  const View transposed{reinterpret_cast<char*>(x.data()), f32, shape, Shape{4, 12, 600}};
  for (int axis = 0; axis < 3; ++axis) {
    const View out = contiguous_view(y.data(), f32, shape);
    kernels::run_sort({&transposed, 1}, axis, 1, {&out, 1});
    const auto d = static_cast<std::size_t>(axis);
    double in_sum = 0, out_sum = 0;
    for (std::int64_t i = 0; i < 600; ++i) {
      const std::int64_t index[] = {i / 200, i / 4 % 50, i % 4};
      out_sum += y[static_cast<std::size_t>(i)];
      in_sum += x[static_cast<std::size_t>(i)];
      if (index[axis] + 1 < shape[d]) {
        const std::int64_t next = i + out.strides[d] / 4;
        ASSERT_LE(y[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(next)])
            << axis << " " << i;
      }
    }
    EXPECT_EQ(in_sum, out_sum);
  }
}

TEST(SortLines, OfMoreElementsThanWordsCountAreRefused) {
  const View huge = contiguous_view(nullptr, DType::f32, {2, std::int64_t{1} << 32});
  try {
    kernels::run_sort({&huge, 1}, 1, 1, {&huge, 1});
    FAIL() << "sorted";
  } catch (const NotImplementedError& e) {
    EXPECT_EQ(e.message(),
              "sort of f32[2,4294967296] along axis 1: lines of 2^32 elements and more are not "
              "sorted");
  }
}

TEST(SortTypes, OrdersBoolHalvesAndComplexNumbers) {
  bool b[] = {true, false, true, false}, sorted[4];
  View in = contiguous_view(b, boolean, Shape{4}), out = contiguous_view(sorted, boolean, Shape{4});
  kernels::run_sort({&in, 1}, 0, 1, {&out, 1});
  EXPECT_EQ((std::vector<bool>(sorted, sorted + 4)), (std::vector<bool>{false, false, true, true}));

  std::vector<std::uint16_t> h = {0x3c00, 0xbc00, 0x7e00, 0x0000, 0xfc00},
                             hs(5);  // 1, -1, nan, 0, -inf
  in = contiguous_view(h.data(), f16, Shape{5});
  out = contiguous_view(hs.data(), f16, Shape{5});
  kernels::run_sort({&in, 1}, 0, 1, {&out, 1});
  EXPECT_EQ(hs, (std::vector<std::uint16_t>{0xfc00, 0xbc00, 0x0000, 0x3c00, 0x7e00}));

  std::vector<Complex64> z = {{1, 2}, {0, 5}, {1, -2}}, zs(3);
  in = contiguous_view(z.data(), c64, Shape{3});
  out = contiguous_view(zs.data(), c64, Shape{3});
  kernels::run_sort({&in, 1}, 0, 1, {&out, 1});
  EXPECT_EQ(zs[0].im, 5.0f);
  EXPECT_EQ(zs[1].im, -2.0f);
  EXPECT_EQ(zs[2].im, 2.0f);
}

}  // namespace
