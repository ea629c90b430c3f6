// Gathers and scatters that threads share: the same bits with any number of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/element.hpp"
#include "runtime/window_loops.hpp"
#include "support/threads.hpp"

namespace {

using namespace telamon;
using namespace telamon_test;

TEST(Windows, AddedByAnyNumberOfThreadsGiveTheSameBits) {
  const std::int64_t rows = 500, width = 64, n = 40000;
  const auto index = some_indices(static_cast<std::size_t>(n), 0, 500);
  std::vector<float> updates(static_cast<std::size_t>(n * width));
  for (std::size_t i = 0; i < updates.size(); ++i)
    updates[i] = 1.0f / static_cast<float>(i % 977 + 1);
  const auto numbers = rows_of_table(WindowOp::add, rows, width, n, false).numbers();
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    const WithThreads scope(threads);
    std::vector<float> sums(static_cast<std::size_t>(rows * width));
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(sums.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(updates.data()), nullptr);
    if (threads == 1) first = sums;
    EXPECT_EQ(sums, first) << threads << " threads";
  }
}

// Each thread has a part of the places: rows that no loop is for, that have one for their size, and long ones, wherever
// indices lead and however they follow each other.
template <class T, class Index>
void update_by_threads(WindowOp op, std::int64_t rows, std::int64_t width,
                       const std::vector<std::int32_t>& places, bool clips, std::int64_t wrap,
                       std::int64_t index_step = 1) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const auto n = static_cast<std::int64_t>(places.size());
  const std::int64_t step = width + width % 3;  // in elements
  std::vector<Index> index(static_cast<std::size_t>(n * index_step), Index(1));
  for (std::int64_t i = 0; i < n; ++i)
    index[static_cast<std::size_t>(i * index_step)] =
        static_cast<Index>(places[static_cast<std::size_t>(i)]);
  WindowLoop loop = rows_of_table(op, rows, width, n, clips);
  loop.dtype = dtype_of<T>;
  loop.index_dtype = dtype_of<Index>;
  loop.operand_bytes = rows * step * kSize;
  loop.counts = {{n, index_step * static_cast<std::int64_t>(sizeof(Index)), width * kSize, 0}};
  loop.components = {{0, step * kSize, rows - 1, wrap}};
  loop.window = {{width, kSize, kSize}};
  loop.disjoint = true;
  std::vector<T> updates(static_cast<std::size_t>(n * width));
  for (std::size_t i = 0; i < updates.size(); ++i)
    updates[i] = static_cast<T>(T(120) / static_cast<T>(i % 97 + 1));
  const std::vector<T> start(static_cast<std::size_t>(rows * step + 5), T(3));
  std::vector<T> want = start;
  update_one_by_one(loop, index, updates, want);
  const auto numbers = loop.numbers();
  for (const int threads : {1, 2, 5}) {
    const WithThreads scope(threads);
    std::vector<T> got = start;
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(got.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(updates.data()), nullptr);
    EXPECT_TRUE(got == want) << threads << " threads, " << rows << " rows of " << width << " "
                             << short_name(loop.dtype) << " by " << short_name(loop.index_dtype)
                             << ", clips " << clips << ", wrap " << wrap;
  }
}
TEST(Windows, AreSharedOutAmongThreadsByWhereTheyGo) {
  constexpr std::int64_t kBytes = 3 << 20;  // worth several threads
  for (const std::int64_t width : {1, 3, 8, 15, 16, 17, 33, 100}) {
    const auto n = static_cast<std::size_t>(kBytes / (4 * width) + 5);
    for (const int rows : {3, 100, 3001}) {
      const auto any = some_indices(n, 0, rows);
      auto sorted = any;
      std::sort(sorted.begin(), sorted.end());
      const auto half = half_outside(static_cast<std::int64_t>(n), rows);
      const auto from_the_end = some_indices(n, -rows, rows);
      for (const auto& places : {any, sorted, in_runs(any, 50), half, from_the_end}) {
        for (const WindowOp op : {WindowOp::replace, WindowOp::add}) {
          update_by_threads<float, std::int32_t>(op, rows, width, places, false, rows);
          update_by_threads<std::int32_t, std::int64_t>(op, rows, width, places, true, 0);
        }
      }
      update_by_threads<double, std::uint32_t>(WindowOp::add, rows, width, any, false, 0);
      update_by_threads<std::int16_t, std::int32_t>(WindowOp::add, rows, width, half, false, 0);
      update_by_threads<std::int16_t, std::int32_t>(WindowOp::replace, rows, width, half, true, 0);
      update_by_threads<std::uint8_t, std::int64_t>(WindowOp::replace, rows, 4 * width + 1,
                                                    from_the_end, false, rows);
      update_by_threads<float, std::int32_t>(WindowOp::add, rows, width, half, false, 0, 2);
    }
  }
}

/// Of windows that are no rows at places of one dimension each thread has a part of the operand's bytes.
template <class Index>
void expect_alike_by_threads(WindowLoop loop, const std::vector<std::int32_t>& places,
                             std::size_t elements, const std::string& what) {
  const std::vector<Index> index(places.begin(), places.end());
  loop.index_dtype = dtype_of<Index>;
  loop.operand_bytes = static_cast<std::int64_t>(elements * sizeof(float));
  loop.disjoint = true;
  std::size_t updates = 1;
  for (const auto& c : loop.counts) updates *= static_cast<std::size_t>(c.size);
  for (const auto& e : loop.window) updates *= static_cast<std::size_t>(e.size);
  ASSERT_GT(updates * sizeof(float), 1U << 20) << "one thread is enough for them";
  std::vector<float> slices(updates);
  for (std::size_t i = 0; i < updates; ++i) slices[i] = 1.0f / static_cast<float>(i % 977 + 1);
  for (const WindowOp op : {WindowOp::replace, WindowOp::add}) {
    loop.op = op;
    const auto numbers = loop.numbers();
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      const WithThreads scope(threads);
      std::vector<float> got(elements, 2.0f);
      kernels::run_windows(numbers.data(), reinterpret_cast<char*>(got.data()),
                           reinterpret_cast<const char*>(index.data()),
                           reinterpret_cast<char*>(slices.data()), nullptr);
      if (threads == 1) first = got;
      EXPECT_EQ(std::count(got.begin(), got.end(), 2.0f) == std::ssize(got), false) << what;
      EXPECT_EQ(got, first) << what << ", " << threads << " threads";
    }
  }
}
TEST(Windows, OfOtherKindsAreSharedOutByWhereTheyBegin) {
  const std::int64_t width = 20, row = width * 4, n = 20000, rows = 300;
  const auto places = some_indices(2 * static_cast<std::size_t>(n), -20, 320);
  WindowLoop loop;
  loop.window = {{width, 4, 4}};
  loop.counts = {{4, n, n / 4 * row, rows * row}, {n / 4, 4, row, 0}};
  loop.components = {{0, row, rows - 1, rows}};
  expect_alike_by_threads<std::int32_t>(loop, places, 4 * rows * width, "a batch");
  loop.counts = {{n, 8, row, 0}};
  loop.components = {{0, 30 * row, 39, 0}, {4, row, 29, 30}};
  auto pairs = places;
  for (auto& x : pairs) x = std::abs(x) % 33;
  expect_alike_by_threads<std::int32_t>(loop, pairs, 40 * 30 * width, "pairs of indices");
  loop.counts = {{n, 1, row, 0}};
  loop.components = {{0, row, 99, 0}};
  auto bytes = places;
  for (auto& x : bytes) x = x % 120;
  expect_alike_by_threads<std::int8_t>(loop, bytes, 100 * width, "indices of 8 bits");
  loop.counts = {{n, 4, row, 0}};
  loop.components = {{0, 4, rows - 1, 0}};
  loop.window = {{width, rows * 4, 4}};
  expect_alike_by_threads<std::int32_t>(loop, places, rows * width, "columns");
}

// out[b, p[b, i]] += u[b, i]: each of a batch has a row, in which places repeat themselves.
TEST(Windows, OfABatchAreAddedAlikeByAnyNumberOfThreads) {
  for (const auto& [batch, n] :
       {std::pair<std::int64_t, std::int64_t>{3, 20000}, {500, 100}, {20000, 5}}) {
    const std::int64_t width = 70;
    const auto index = some_indices(static_cast<std::size_t>(batch * n), -80, 75);
    std::vector<float> updates(index.size());
    for (std::size_t i = 0; i < updates.size(); ++i)
      updates[i] = 1.0f / static_cast<float>(i % 977 + 1);
    WindowLoop loop;
    loop.op = WindowOp::add;
    loop.operand_bytes = batch * width * 4;
    loop.counts = {{batch, n * 4, n * 4, width * 4}, {n, 4, 4, 0}};
    loop.components = {{0, 4, width - 1, width}};
    const auto numbers = loop.numbers();
    std::vector<float> want(static_cast<std::size_t>(batch * width));
    for (std::int64_t k = 0; k < batch * n; ++k) {
      std::int64_t at = index[static_cast<std::size_t>(k)];
      if (at < 0) at += width;
      if (at >= 0 && at < width)
        want[static_cast<std::size_t>(k / n * width + at)] += updates[static_cast<std::size_t>(k)];
    }
    for (const int threads : {1, 2, 5}) {
      const WithThreads scope(threads);
      std::vector<float> sums(want.size());
      kernels::run_windows(numbers.data(), reinterpret_cast<char*>(sums.data()),
                           reinterpret_cast<const char*>(index.data()),
                           reinterpret_cast<char*>(updates.data()), nullptr);
      EXPECT_EQ(sums, want) << threads << " threads";
    }
  }
}

TEST(Windows, ThatAreUniqueAreSharedOutAmongThreads) {
  const std::int64_t n = 300'007;
  std::vector<std::int32_t> index(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    index[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 7919 % n - 100);
  for (const WindowOp op : {WindowOp::add, WindowOp::replace}) {
    for (const std::int64_t width : {1, 3}) {
      WindowLoop loop = rows_of_table(op, n, width, n, false);
      loop.unique = true;
      const auto numbers = loop.numbers();
      std::vector<float> updates(static_cast<std::size_t>(n * width)), want(updates.size(), 1.0f);
      for (std::size_t i = 0; i < updates.size(); ++i) {
        updates[i] = 1.0f / static_cast<float>(i % 977 + 1);
        const auto columns = static_cast<std::size_t>(width);
        if (index[i / columns] < 0) continue;
        float& x = want[static_cast<std::size_t>(index[i / columns]) * columns + i % columns];
        x = op == WindowOp::add ? x + updates[i] : updates[i];
      }
      for (const int threads : {1, 2, 5}) {
        const WithThreads scope(threads);
        std::vector<float> got(want.size(), 1.0f);
        kernels::run_windows(numbers.data(), reinterpret_cast<char*>(got.data()),
                             reinterpret_cast<const char*>(index.data()),
                             reinterpret_cast<char*>(updates.data()), nullptr);
        EXPECT_EQ(got, want) << threads << " threads";
      }
    }
  }
}

TEST(Windows, ThatAreUniqueButForThoseDroppedAreAddedOnce) {
  constexpr std::int64_t kPlaces = 1000, kN = 400'000;  // tables of integers where they are dense
  std::vector<std::int32_t> index(kN, -1), updates(kN, 3);
  for (std::size_t i = 0; i < kPlaces; ++i) index[i * 389] = static_cast<std::int32_t>(i);
  WindowLoop loop;
  loop.op = WindowOp::add;
  loop.dtype = DType::i32;
  loop.unique = true;
  loop.operand_bytes =
      4 * kN;  // a dimension that no index leads along makes it larger than the places
  loop.counts = {{kN, 4, 4, 0}};
  loop.components = {{0, 4, kPlaces - 1}};
  const auto numbers = loop.numbers();
  for (const int threads : {1, 2, 5}) {
    const WithThreads scope(threads);
    for (int again = 0; again < 20; ++again) {
      std::vector<std::int32_t> got(kPlaces, 1);
      kernels::run_windows(numbers.data(), reinterpret_cast<char*>(got.data()),
                           reinterpret_cast<const char*>(index.data()),
                           reinterpret_cast<char*>(updates.data()), nullptr);
      ASSERT_EQ(got, std::vector<std::int32_t>(kPlaces, 4)) << threads << " threads";
    }
  }
}

}  // namespace
