// Gathers and scatters over memory against loops over their definition.
#include "runtime/kernels/windows.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/element.hpp"
#include "runtime/window_loops.hpp"
#include "support/threads.hpp"

namespace {

using namespace telamon;
using namespace telamon_test;

float* row(std::vector<float>& x, std::int64_t i, std::int64_t width) {
  return x.data() + i * width;
}

TEST(Windows, OfRowsAreGatheredFilledReplacedAndAdded) {
  for (const std::int64_t width : {1, 3, 8, 64, 200}) {
    for (const std::int64_t n : {0, 1, 5, 700, 3000}) {
      for (const bool clips : {false, true}) {
        const std::int64_t rows = 97;
        const auto index = some_indices(static_cast<std::size_t>(n), -5, 105);
        std::vector<float> table(static_cast<std::size_t>(rows * width));
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 1013);
        std::vector<float> slices(static_cast<std::size_t>(n * width));
        const float fill = -1;
        const auto run = [&](WindowOp op, std::vector<float>& operand, std::vector<float>& s) {
          const auto numbers = rows_of_table(op, rows, width, n, clips).numbers();
          kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand.data()),
                               reinterpret_cast<const char*>(index.data()),
                               reinterpret_cast<char*>(s.data()),
                               reinterpret_cast<const char*>(&fill));
        };
        run(WindowOp::gather, table, slices);
        std::vector<float> updates(slices.size());
        for (std::size_t i = 0; i < updates.size(); ++i)
          updates[i] = 0.1f * static_cast<float>(i % 311);
        std::vector<float> replaced = table, added = table, want_replaced = table,
                           want_added = table;
        run(WindowOp::replace, replaced, updates);
        run(WindowOp::add, added, updates);
        for (std::int64_t k = 0; k < n; ++k) {
          std::int64_t at = index[static_cast<std::size_t>(k)];
          const bool inside = at >= 0 && at < rows;
          if (clips) at = at < 0 ? 0 : at >= rows ? rows - 1 : at;
          for (std::int64_t j = 0; j < width; ++j) {
            const bool taken = inside || clips;
            ASSERT_EQ(row(slices, k, width)[j], taken ? row(table, at, width)[j] : fill);
            if (!taken) continue;
            row(want_replaced, at, width)[j] = row(updates, k, width)[j];
            row(want_added, at, width)[j] += row(updates, k, width)[j];
          }
        }
        EXPECT_EQ(replaced, want_replaced) << width << " x " << n;
        EXPECT_EQ(added, want_added) << width << " x " << n;
      }
    }
  }
}

// Rows of any number of bytes, and nothing beside them.
TEST(Windows, AreCopiedWhateverTheirLength) {
  const std::int64_t rows = 40, n = 700;
  const auto index = half_outside(n, rows);
  for (std::int64_t width = 1; width <= 70; ++width) {
    WindowLoop loop = rows_of_table(WindowOp::gather, rows, width, n, false);
    loop.dtype = DType::u8;
    loop.operand_bytes = rows * width;
    loop.counts = {{n, 4, width, 0}};
    loop.components = {{0, width, rows - 1}};
    loop.window = {{width, 1, 1}};
    using Bytes = std::vector<std::uint8_t>;
    Bytes table(static_cast<std::size_t>(rows * width)), got(static_cast<std::size_t>(n * width));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i % 251);
    Bytes want(got.size(), 255), copy(table.size(), 7), want_copy = copy;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t row = index[static_cast<std::size_t>(k)];
      if (row < 0 || row >= rows) continue;
      std::copy_n(table.begin() + row * width, width, want.begin() + k * width);
      std::copy_n(table.begin() + row * width, width, want_copy.begin() + row * width);
    }
    const std::uint8_t fill = 255;
    const auto run = [&](WindowOp op, Bytes& operand) {
      loop.op = op;
      const auto numbers = loop.numbers();
      kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand.data()),
                           reinterpret_cast<const char*>(index.data()),
                           reinterpret_cast<char*>(got.data()),
                           reinterpret_cast<const char*>(&fill));
    };
    run(WindowOp::gather, table);
    ASSERT_EQ(got, want) << width;
    run(WindowOp::replace, copy);
    ASSERT_EQ(copy, want_copy) << width;
  }
}

/// A 16-bit float that is computed with as f32.
template <class T>
struct Small {
  T x;

  Small() = default;
  explicit Small(float v) {
    if constexpr (std::is_same_v<T, Half>) x = detail::half_from_double(v);
    else x = detail::bfloat_from_double(v);
  }
  Small& operator=(float v) { return *this = Small(v); }
  operator float() const {
    if constexpr (std::is_same_v<T, Half>) return detail::half_to_float(x);
    else return detail::bfloat_to_float(x);
  }
};

// Whole vectors, halves of them and single elements, and nothing beside them; rows that begin `apart` elements after
// each other (0: one after the other); in runs, which change where `run` is 0.
template <class T>
void add_rows_of_every_length(DType dtype, std::size_t run, std::int64_t apart = 0) {
  const std::int64_t rows = 40, n = 1300, size = sizeof(T);
  const auto some = half_outside(n, rows);
  const auto index = run == 0 ? in_changing_runs(some) : in_runs(some, run);
  for (std::int64_t width = 1; width <= 70; ++width) {
    const std::int64_t step = apart == 0 ? width : apart;
    WindowLoop loop = rows_of_table(WindowOp::add, rows, width, n, false);
    loop.dtype = dtype;
    loop.disjoint = apart == 0;
    const std::int64_t elements = (rows - 1) * step + width;
    loop.operand_bytes = elements * size;
    loop.counts = {{n, 4, width * size, 0}};
    loop.components = {{0, step * size, rows - 1}};
    loop.window = {{width, size, size}};
    std::vector<T> table(static_cast<std::size_t>(elements), T(3));
    std::vector<T> slices(static_cast<std::size_t>(n * width)), want = table;
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i] = static_cast<T>(i % 11) / T(3);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = index[static_cast<std::size_t>(i)];
      if (row < 0 || row >= rows) continue;
      for (std::int64_t k = 0; k < width; ++k) {
        T& sum = want[static_cast<std::size_t>(row * step + k)];
        sum = static_cast<T>(sum + slices[static_cast<std::size_t>(i * width + k)]);
      }
    }
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(table.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(slices.data()), nullptr);
    ASSERT_EQ(table, want) << width << " of " << short_name(dtype) << ", runs of " << run << ", "
                           << apart;
  }
}
TEST(Windows, AreAddedWhateverTheirLengthAndType) {
  for (const std::size_t run : {0, 1, 3, 20, 600}) {
    add_rows_of_every_length<float>(DType::f32, run);
    add_rows_of_every_length<double>(DType::f64, run);
    add_rows_of_every_length<std::int8_t>(DType::i8, run);
    add_rows_of_every_length<std::uint16_t>(DType::u16, run);
    add_rows_of_every_length<std::int32_t>(DType::i32, run);
    add_rows_of_every_length<std::uint64_t>(DType::u64, run);
    add_rows_of_every_length<Small<Half>>(DType::f16, run);
    add_rows_of_every_length<Small<BFloat16>>(DType::bf16, run);
  }
}
TEST(Windows, ThatOverlapAreAddedInOrder) {
  for (const std::size_t run : {1, 20}) {
    for (const std::int64_t apart : {1, 2, 5}) {
      add_rows_of_every_length<float>(DType::f32, run, apart);
      add_rows_of_every_length<double>(DType::f64, run, apart);
      add_rows_of_every_length<std::int32_t>(DType::i32, run, apart);
    }
  }
}

// out[i, b] = x[b, p[i, b] .. + 2, q[i, b]]: two components, a batch, a window with strides.
TEST(Windows, WithBatchesAndTwoComponentsFollowAllStrides) {
  const std::int64_t n = 600, batch = 3, height = 11, width = 7;
  const auto index = some_indices(static_cast<std::size_t>(n * batch * 2), -3, 12);
  std::vector<double> x(static_cast<std::size_t>(batch * height * width));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  std::vector<double> out(static_cast<std::size_t>(n * batch * 2)), sums = x, want = x;
  WindowLoop loop;
  loop.dtype = DType::f64;
  loop.disjoint = false;
  loop.operand_bytes = static_cast<std::int64_t>(x.size()) * 8;
  loop.counts = {{n, batch * 8, batch * 16, 0}, {batch, 8, 16, height * width * 8}};
  loop.components = {{0, width * 8, height - 2}, {4, 8, width - 1}};
  loop.window = {{2, width * 8, 8}};
  const double fill = -1;
  const auto run = [&](WindowOp op, std::vector<double>& operand) {
    loop.op = op;
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(out.data()), reinterpret_cast<const char*>(&fill));
  };
  run(WindowOp::gather, x);
  for (std::int64_t k = 0; k < n * batch; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const std::int64_t p = index[2 * at], q = index[2 * at + 1];
    const bool inside = p >= 0 && p + 2 <= height && q >= 0 && q < width;
    for (std::size_t j = 0; j < 2; ++j) {
      const auto place = static_cast<std::size_t>((k % batch * height + p) * width + q) +
                         j * static_cast<std::size_t>(width);
      ASSERT_EQ(out[2 * at + j], inside ? x[place] : fill) << k;
      if (inside) want[place] += out[2 * at + j];
    }
  }
  run(WindowOp::add, sums);
  EXPECT_EQ(sums, want);
}

// Rows of a few words at places of two numbers that lie side by side: all of a block inside, or some that wrap, are moved
// or dropped; in runs of the same place, or not; of few places or of many.
struct AtPairs {
  std::int64_t height, width;
  WindowOp op;
  bool clips, wraps, rows_first;
  std::int64_t words;
  std::size_t run;
};
template <class Index>
void at_pairs(DType index_dtype, const AtPairs& p) {
  const std::int64_t n = 1'111, height = p.height, width = p.width, words = p.words;
  auto i = in_runs(half_outside(n, height), p.run), j = in_runs(half_outside(n, width), p.run);
  std::rotate(j.begin() + n / 2, j.begin() + n * 2 / 3, j.end());
  i[700] = j[701] = i[702] = j[702] = std::numeric_limits<std::int32_t>::min();
  i[703] = j[704] = i[705] = j[705] = std::numeric_limits<std::int32_t>::max();
  std::vector<Index> index;
  for (std::size_t k = 0; k < i.size(); ++k) {
    index.push_back(static_cast<Index>(p.rows_first ? i[k] : j[k]));
    index.push_back(static_cast<Index>(p.rows_first ? j[k] : i[k]));
  }
  WindowLoop loop;
  loop.op = p.op;
  loop.clips = p.clips;
  loop.index_dtype = index_dtype;
  loop.operand_bytes = height * width * words * 4;
  loop.counts = {{n, 2 * sizeof(Index), words * 4, 0}};
  const std::int64_t size = sizeof(Index);
  loop.components = {{p.rows_first ? 0 : size, width * words * 4, height - 1, p.wraps ? height : 0},
                     {p.rows_first ? size : 0, words * 4, width - 1, p.wraps ? width : 0}};
  loop.window = {{words, 4, 4}};
  std::vector<float> table(static_cast<std::size_t>(height * width * words)),
      slices(static_cast<std::size_t>(n * words));
  for (std::size_t k = 0; k < table.size(); ++k) table[k] = static_cast<float>(k);
  for (std::size_t k = 0; k < slices.size(); ++k) slices[k] = 0.1f * static_cast<float>(k);
  std::vector<float> want_table = table, want_slices = slices;
  for (std::size_t k = 0; k < i.size(); ++k) {
    const auto start = [&](std::size_t component, std::int64_t length) {
      auto place = static_cast<std::int64_t>(index[2 * k + component]);
      if (place < 0 && p.wraps) place += length;
      return p.clips ? std::clamp<std::int64_t>(place, 0, length - 1) : place;
    };
    const std::int64_t line = start(p.rows_first ? 0 : 1, height),
                       column = start(p.rows_first ? 1 : 0, width);
    const bool inside = line >= 0 && line < height && column >= 0 && column < width;
    for (std::int64_t w = 0; w < words; ++w) {
      float& slice = row(want_slices, static_cast<std::int64_t>(k), words)[w];
      if (p.op == WindowOp::gather && !inside) slice = -1;
      if (!inside) continue;
      float& x = row(want_table, line * width + column, words)[w];
      if (p.op == WindowOp::gather) slice = x;
      else x = p.op == WindowOp::add ? x + slice : slice;
    }
  }
  const float fill = -1;
  const auto numbers = loop.numbers();
  kernels::run_windows(numbers.data(), reinterpret_cast<char*>(table.data()),
                       reinterpret_cast<const char*>(index.data()),
                       reinterpret_cast<char*>(slices.data()),
                       reinterpret_cast<const char*>(&fill));
  const auto which = ::testing::Message()
                     << short_name(index_dtype) << ", clips " << p.clips << ", wraps " << p.wraps
                     << ", rows first " << p.rows_first << ", " << p.words << " words, runs of "
                     << p.run;
  EXPECT_EQ(table, want_table) << which;
  EXPECT_EQ(slices, want_slices) << which;
}
TEST(Windows, AtPairsOfNumbers) {
  for (const WindowOp op : {WindowOp::gather, WindowOp::replace, WindowOp::add}) {
    for (const bool clips : {false, true}) {
      for (const bool wraps : {false, true}) {
        for (const bool rows_first : {true, false}) {
          for (const std::int64_t words : {1, 2, 3, 4, 5, 17}) {
            for (const std::size_t run : {1, 50}) {
              for (const std::int64_t height : {11, 110}) {
                const AtPairs p{height, 13, op, clips, wraps, rows_first, words, run};
                at_pairs<std::int32_t>(DType::i32, p);
                at_pairs<std::uint32_t>(DType::u32, p);
                at_pairs<std::int64_t>(DType::i64, p);
              }
            }
          }
        }
      }
    }
  }
}

// x[i, j, k, ..]: so many numbers of each place lie side by side.
template <class Index>
void at_vectors_of(std::int64_t components, bool clips, bool wraps) {
  const std::int64_t n = 1'300, size = 7;
  const std::vector<std::int32_t> some = some_indices(
      static_cast<std::size_t>(n * components), wraps || clips ? -3 : 0, static_cast<int>(size));
  std::vector<Index> index(some.begin(), some.end());
  for (const std::size_t k : {1000, 1001, 3000}) index[k] = std::numeric_limits<Index>::max();
  WindowLoop loop;
  loop.dtype = DType::f32;
  loop.index_dtype = dtype_of<Index>;
  loop.clips = clips;
  loop.counts = {{n, components * static_cast<std::int64_t>(sizeof(Index)), 4, 0}};
  std::int64_t all = 1;
  for (std::int64_t k = components; k-- > 0; all *= size) {
    loop.components.push_back(
        {k * static_cast<std::int64_t>(sizeof(Index)), 4 * all, size - 1, wraps ? size : 0});
  }
  loop.operand_bytes = 4 * all;
  std::vector<float> x(static_cast<std::size_t>(all)), slices(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<float> want_slices = slices, sums = x, want_sums = x;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t place = 0;
    bool inside = true;
    for (std::int64_t k = 0; k < components; ++k) {
      const Index number = index[static_cast<std::size_t>(i * components + k)];
      const bool is_far = number > Index(size);
      std::int64_t start = is_far ? size : static_cast<std::int64_t>(number);
      if (start < 0 && wraps) start += size;
      if (clips) start = std::clamp<std::int64_t>(start, 0, size - 1);
      inside = inside && start >= 0 && start < size;
      place = place * size + start;
    }
    want_slices[static_cast<std::size_t>(i)] = inside ? x[static_cast<std::size_t>(place)] : -1;
    if (inside)
      want_sums[static_cast<std::size_t>(place)] += want_slices[static_cast<std::size_t>(i)];
  }
  const float fill = -1;
  const auto run = [&](WindowOp op, std::vector<float>& operand) {
    loop.op = op;
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(slices.data()),
                         reinterpret_cast<const char*>(&fill));
  };
  const auto which = ::testing::Message()
                     << components << " numbers of " << short_name(loop.index_dtype) << ", clips "
                     << clips << ", wraps " << wraps;
  run(WindowOp::gather, x);
  EXPECT_EQ(slices, want_slices) << which;
  run(WindowOp::add, sums);
  EXPECT_EQ(sums, want_sums) << which;
}
TEST(Windows, AtVectorsOfSeveralNumbers) {
  for (const std::int64_t components : {3, 4, 5}) {
    for (const bool clips : {false, true}) {
      for (const bool wraps : {false, true}) {
        at_vectors_of<std::int8_t>(components, clips, wraps);
        at_vectors_of<std::int32_t>(components, clips, wraps);
        at_vectors_of<std::int64_t>(components, clips, wraps);
      }
      at_vectors_of<std::uint8_t>(components, clips, false);
      at_vectors_of<std::uint32_t>(components, clips, false);
      at_vectors_of<std::uint64_t>(components, clips, false);
    }
  }
}

// Places that are farther than 32 bits of bytes tell. Only pages that are touched exist.
TEST(Windows, AtPairsThatAreFarApart) {
  constexpr std::int64_t kLines = 60'000, kWidth = 50'000;
  constexpr std::size_t kBytes = 4 * kLines * kWidth;
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space for an array of 12 GB";
  float* const operand = static_cast<float*>(mapped);
  std::vector<std::int32_t> index;
  for (int k = 0; k < 64; ++k) {
    index.push_back(k % 2 == 0 ? 3 : kLines - 2);
    index.push_back(kWidth - 1);
  }
  std::vector<float> updates(64, 1.0f);
  WindowLoop loop;
  loop.op = WindowOp::add;
  loop.operand_bytes = static_cast<std::int64_t>(kBytes);
  loop.counts = {{64, 8, 4, 0}};
  loop.components = {{0, 4 * kWidth, kLines - 1}, {4, 4, kWidth - 1}};
  const auto numbers = loop.numbers();
  kernels::run_windows(numbers.data(), static_cast<char*>(mapped),
                       reinterpret_cast<const char*>(index.data()),
                       reinterpret_cast<char*>(updates.data()), nullptr);
  EXPECT_EQ(operand[4 * kWidth - 1], 32.0f);
  EXPECT_EQ(operand[(kLines - 1) * kWidth - 1], 32.0f);
  munmap(mapped, kBytes);
}

// Windows are columns: `deep` elements of each of `height` rows, of `rows` that there are. Where that is all of
// them, what happens in one row has nothing to do with the others, and of many windows it is done row by row.
void columns_that_meet_or_do_not(std::int64_t deep) {
  for (const std::int64_t n : {1, 2, 23, 24, 700}) {
    for (const auto& [rows, height] : {std::pair<std::int64_t, std::int64_t>{9, 9}, {9, 3}}) {
      for (const std::int64_t width : {20, 300}) {
        const auto many = static_cast<std::size_t>(n);
        const auto column = some_indices(many, -5, static_cast<int>(width) + 5);
        const auto first = some_indices(700 + many, 0, static_cast<int>(rows - height) + 1);
        std::vector<std::int32_t> index;
        for (std::size_t k = 0; k < many; ++k) {
          index.push_back(first[k + 700]);
          index.push_back(column[k]);
        }
        std::vector<float> table(static_cast<std::size_t>(rows * width * deep)),
            updates(static_cast<std::size_t>(height * n * deep)), slices(updates.size());
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 1013);
        for (std::size_t i = 0; i < updates.size(); ++i)
          updates[i] = 0.1f * static_cast<float>(i % 311);
        const float fill = -1;
        const auto run = [&](WindowOp op, std::vector<float>& operand, std::vector<float>& s) {
          WindowLoop loop;
          loop.op = op;
          loop.clips = false;
          loop.operand_bytes = rows * width * deep * 4;
          loop.counts = {{n, 8, deep * 4, 0}};
          loop.components = {{0, width * deep * 4, rows - height}, {4, deep * 4, width - 1}};
          loop.window = {{height, width * deep * 4, n * deep * 4}, {deep, 4, 4}};
          const auto numbers = loop.numbers();
          kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand.data()),
                               reinterpret_cast<const char*>(index.data()),
                               reinterpret_cast<char*>(s.data()),
                               reinterpret_cast<const char*>(&fill));
        };
        std::vector<float> replaced = table, added = table, want_replaced = table,
                           want_added = table;
        run(WindowOp::gather, table, slices);
        run(WindowOp::replace, replaced, updates);
        run(WindowOp::add, added, updates);
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t top = index[static_cast<std::size_t>(2 * k)],
                             at = index[static_cast<std::size_t>(2 * k + 1)];
          const bool inside = at >= 0 && at < width;
          for (std::int64_t h = 0; h < height * deep; ++h) {
            const std::int64_t line = h / deep, d = h % deep;
            const auto from = static_cast<std::size_t>((line * n + k) * deep + d),
                       to = static_cast<std::size_t>(((top + line) * width + at) * deep + d);
            ASSERT_EQ(slices[from], inside ? table[to] : fill);
            if (!inside) continue;
            want_replaced[to] = updates[from];
            want_added[to] += updates[from];
          }
        }
        EXPECT_EQ(replaced, want_replaced)
            << n << ' ' << rows << ' ' << height << ' ' << width << ' ' << deep;
        EXPECT_EQ(added, want_added)
            << n << ' ' << rows << ' ' << height << ' ' << width << ' ' << deep;
      }
    }
  }
}
TEST(Windows, OfColumnsThatMeetOrDoNot) {
  for (const std::int64_t deep : {1, 2, 3, 17}) columns_that_meet_or_do_not(deep);
}

// Single elements, dense and strided; blocks that are all in bounds, and others; whole numbers in tables of
// few bins.
template <class T, class Index>
void add_from_the_end(std::int64_t rows, std::int64_t n, std::int64_t step, int low, int high,
                      std::size_t run) {
  for (const bool clips : {false, true}) {
    const auto places = in_runs(some_indices(static_cast<std::size_t>(n), low, high), run);
    std::vector<Index> index;
    for (const std::int32_t place : places)  // signs come in runs, too
      index.push_back(static_cast<Index>(index.size() / 100 % 2 == 0 ? std::abs(place) : place));
    std::vector<T> updates(static_cast<std::size_t>(n * step));
    for (std::size_t i = 0; i < updates.size(); ++i) updates[i] = static_cast<T>(i % 311) / T(3);
    WindowLoop loop;
    loop.op = WindowOp::add;
    loop.dtype = dtype_of<T>;
    loop.index_dtype = dtype_of<Index>;
    loop.clips = clips;
    loop.operand_bytes = rows * static_cast<std::int64_t>(sizeof(T));
    loop.counts = {{n, sizeof(Index), step * static_cast<std::int64_t>(sizeof(T)), 0}};
    loop.components = {{0, sizeof(T), rows - 1, rows}};
    const auto numbers = loop.numbers();
    std::vector<T> got(static_cast<std::size_t>(rows), T(1)), want = got;
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(got.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(updates.data()), nullptr);
    for (std::int64_t k = 0; k < n; ++k) {
      std::int64_t at = index[static_cast<std::size_t>(k)];
      if (at < 0) at += rows;
      if (clips) at = std::clamp<std::int64_t>(at, 0, rows - 1);
      if (at < 0 || at >= rows) continue;
      want[static_cast<std::size_t>(at)] += updates[static_cast<std::size_t>(k * step)];
    }
    EXPECT_EQ(got, want) << rows << ' ' << n << ' ' << step << ' ' << low;
  }
}
TEST(Windows, OfSingleElementsCountFromTheEnd) {
  for (const std::int64_t n : {3, 32, 100, 5000}) {
    for (const std::int64_t step : {1, 2}) {
      for (const auto& [low, run] :
           {std::pair<int, std::size_t>{0, 1}, {-200, 1}, {-300, 1}, {0, 40}, {-300, 7}}) {
        add_from_the_end<float, std::int32_t>(200, n, step, low, 200, run);
        add_from_the_end<double, std::int64_t>(200, n, step, low, 250, run);
        add_from_the_end<std::int32_t, std::int32_t>(200, n, step, low, 200, run);
        add_from_the_end<std::int64_t, std::int64_t>(200, n, step, low, 250, run);
        add_from_the_end<std::int8_t, std::int16_t>(200, n, step, low, 250, run);
      }
    }
  }
}

// Rows of up to seventeen words replaced and added, at indices of each type, side by side or not, of which some are
// outside, or all are inside; the rows of the operand may be longer.
template <class Index>
void update_short_rows(DType index_dtype, WindowOp op, bool clips, std::int64_t wrap,
                       std::int64_t index_step) {
  const std::int64_t rows = 40, n = 170;
  const auto some = half_outside(n, rows);
  std::vector<Index> index(static_cast<std::size_t>(n * index_step), Index(77));
  for (std::int64_t i = 0; i < n; ++i)
    index[static_cast<std::size_t>(i * index_step)] =
        static_cast<Index>(some[static_cast<std::size_t>(i)]);
  for (std::int64_t width = 1; width <= 17; ++width) {
    const std::int64_t step = width + width % 2;
    WindowLoop loop = rows_of_table(op, rows, width, n, clips);
    loop.index_dtype = index_dtype;
    loop.operand_bytes = rows * step * 4;
    loop.counts = {{n, index_step * static_cast<std::int64_t>(sizeof(Index)), width * 4, 0}};
    loop.components = {{0, step * 4, rows - 1, wrap}};
    std::vector<float> table(static_cast<std::size_t>(rows * step), 0.5f), want = table;
    std::vector<float> slices(static_cast<std::size_t>(n * width));
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i] = 0.1f * static_cast<float>(i % 311);
    update_one_by_one(loop, index, slices, want);
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(table.data()),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(slices.data()), nullptr);
    ASSERT_EQ(table, want) << width << " words, by " << short_name(index_dtype) << ", clips "
                           << clips << ", wrap " << wrap << ", step " << index_step;
  }
}
TEST(Windows, OfShortRowsAreUpdatedAtIndicesOfAnyKind) {
  for (const WindowOp op : {WindowOp::replace, WindowOp::add}) {
    for (const bool clips : {false, true}) {
      for (const std::int64_t wrap : {0, 40}) {
        for (const std::int64_t step : {1, 2}) {
          update_short_rows<std::int32_t>(DType::i32, op, clips, wrap, step);
          update_short_rows<std::int64_t>(DType::i64, op, clips, wrap, step);
          update_short_rows<std::uint32_t>(DType::u32, op, clips, wrap, step);
          update_short_rows<std::int8_t>(DType::i8, op, clips, wrap, step);
        }
      }
    }
  }
}

// Rows of three to seven numbers at many places or few, which seldom come again, or at once, or in runs: what lies behind
// a row stays as it is.
template <class T, class Index>
void add_rows_at(std::int64_t rows, std::int64_t width, std::size_t run) {
  const std::int64_t n = 2000;
  const auto places =
      in_runs(some_indices(static_cast<std::size_t>(n), 0, static_cast<int>(rows)), run);
  std::vector<Index> index(places.begin(), places.end());
  index[0] = index[1500] = static_cast<Index>(rows - 1);
  WindowLoop loop = rows_of_table(WindowOp::add, rows, width, n, false);
  const auto size = static_cast<std::int64_t>(sizeof(T));
  loop.dtype = dtype_of<T>;
  loop.index_dtype = dtype_of<Index>;
  loop.operand_bytes = rows * width * size;
  loop.counts = {{n, sizeof(Index), width * size, 0}};
  loop.components = {{0, width * size, rows - 1, 0}};
  loop.window = {{width, size, size}};
  std::vector<T> table(static_cast<std::size_t>(rows * width + 8), T(0.5)), want = table;
  std::vector<T> slices(static_cast<std::size_t>(n * width));
  for (std::size_t i = 0; i < slices.size(); ++i) slices[i] = T(0.1) * static_cast<T>(i % 311);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < width; ++k) {
      const auto to = static_cast<std::int64_t>(index[static_cast<std::size_t>(i)]) * width + k;
      want[static_cast<std::size_t>(to)] += slices[static_cast<std::size_t>(i * width + k)];
    }
  }
  const auto numbers = loop.numbers();
  kernels::run_windows(numbers.data(), reinterpret_cast<char*>(table.data()),
                       reinterpret_cast<const char*>(index.data()),
                       reinterpret_cast<char*>(slices.data()), nullptr);
  EXPECT_EQ(table, want) << rows << " rows of " << width << ", runs of " << run;
}
TEST(Windows, OfShortRowsAreAddedInOrder) {
  for (const std::int64_t rows : {5, 100, 3000}) {
    for (std::int64_t width = 2; width <= 8; ++width) {
      for (const std::size_t run : {1, 2, 3, 40}) {
        add_rows_at<float, std::int32_t>(rows, width, run);
        add_rows_at<float, std::int64_t>(rows, width, run);
        add_rows_at<double, std::int32_t>(rows, width, run);
      }
    }
  }
}

// More places than the type of the indices has numbers from 0 on. Only pages that are touched exist.
TEST(Windows, OfLongDimensionsTakeIndicesForWhatTheyAre) {
  constexpr std::size_t kRows = 3'000'000'000, kBytes = sizeof(float) * kRows;
  constexpr std::int32_t kLow = -2'000'000'000;  // as an unsigned number, it would be in bounds
  void* const mapped = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space for an array of 12 GB";
  float* const operand = static_cast<float*>(mapped) + kRows;
  for (const std::int64_t wrap : {std::int64_t{0}, std::int64_t{kRows}}) {
    std::vector<std::int32_t> index(64, 5);
    index[3] = kLow;
    std::vector<float> updates(64, 1.0f);
    WindowLoop loop;
    loop.op = WindowOp::add;
    loop.operand_bytes = static_cast<std::int64_t>(kBytes);
    loop.counts = {{64, 4, 4, 0}};
    loop.components = {{0, 4, static_cast<std::int64_t>(kRows) - 1, wrap}};
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand),
                         reinterpret_cast<const char*>(index.data()),
                         reinterpret_cast<char*>(updates.data()), nullptr);
    EXPECT_EQ(operand[kLow], 0.0f) << "before the operand";
    EXPECT_EQ(operand[static_cast<std::int64_t>(kRows) + kLow], wrap == 0 ? 0.0f : 1.0f);
    EXPECT_EQ(operand[5], wrap == 0 ? 63.0f : 126.0f);
  }
  munmap(mapped, 2 * kBytes);
}

// Neither are places beyond what an index counts to listed as others, nor is the highest of 32 bits left out.
TEST(Windows, OfLongDimensionsAreNotTakenForOthersByAnyThread) {
  constexpr std::size_t kRows = 6'000'000'000;
  void* const mapped = mmap(nullptr, kRows, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space for an array of 6 GB";
  auto* const operand = static_cast<std::uint8_t*>(mapped);
  const auto run = [&]<class Index>(const std::vector<Index>& index) {
    WindowLoop loop;
    loop.op = WindowOp::add;
    loop.disjoint = true;
    loop.dtype = DType::u8;
    loop.index_dtype = dtype_of<Index>;
    const auto n = static_cast<std::int64_t>(index.size());
    loop.operand_bytes = static_cast<std::int64_t>(kRows);
    loop.counts = {{n, sizeof(Index), 0, 0}};  // one over and over
    loop.components = {
        {0, 1, static_cast<std::int64_t>(kRows) - 1, static_cast<std::int64_t>(kRows)}};
    loop.window = {{1, 1, 1}};
    std::uint8_t one = 1;
    const auto numbers = loop.numbers();
    kernels::run_windows(numbers.data(), reinterpret_cast<char*>(operand),
                         reinterpret_cast<const char*>(index.data()), reinterpret_cast<char*>(&one),
                         nullptr);
  };
  const WithThreads scope(2);
  std::vector<std::int32_t> low(1 << 21, 5);
  low[3] = INT32_MAX;
  low[9] = -1;
  run(low);
  EXPECT_EQ(operand[5], static_cast<std::uint8_t>((1 << 21) - 2));
  EXPECT_EQ(operand[kRows - 1], 1);
  EXPECT_EQ(operand[INT32_MAX], 1);
  EXPECT_EQ(operand[5 + (std::size_t{1} << 32)], 0);
  std::vector<std::uint32_t> high(1 << 21, UINT32_MAX);
  high[7] = 6;
  run(high);
  EXPECT_EQ(operand[UINT32_MAX], static_cast<std::uint8_t>((1 << 21) - 1));
  EXPECT_EQ(operand[6], 1);
  munmap(mapped, kRows);
}

}  // namespace
