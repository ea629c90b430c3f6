// Running sums, products and extremes against a plain loop, bit by bit: lengths around those of registers and blocks, and
// numbers that are none, infinite, or zeros with signs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "folds.hpp"
#include "telamon/profile.hpp"

namespace {

using namespace telamon_test;

template <class T>
std::uint64_t bits_of(T x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& want, const Shape& shape,
                      int axis) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(bits_of(got[i]), bits_of(want[i]))
        << short_name(dtype_of<T>) << " " << shape.to_string() << " axis " << axis << " at " << i;
  }
}

// ---- extremes of floats

/// The first NaN, and of equals, which may be zeros with different signs, the later.
template <class T>
T extreme(ReduceOp op, T before, T x) {
  if (before != before) return before;
  return (op == ReduceOp::max ? before > x : before < x) ? before : x;
}

template <class T>
void expect_extremes(const std::vector<T>& x, const Shape& shape, int axis) {
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    for (const Direction direction : kDirections) {
      const auto want = plain_scan(x, shape, axis, direction,
                                   [op](T before, T now) { return extreme(op, before, now); });
      expect_same_bits(scan(op, x, shape, axis, direction), want, shape, axis);
    }
  }
}

/// Zeros of both signs, then rising and falling whole numbers, and infinities late in both directions.
template <class T>
std::vector<T> numbers_and_zeros(std::int64_t n) {
  std::vector<T> x(static_cast<std::size_t>(n));
  constexpr double kZeros[] = {-0.0, 0.0, 0.0, -0.0, -0.0};
  for (std::int64_t i = 0; i < n; ++i) {
    const double number = i % 3 == 0 ? kZeros[i % 5] : static_cast<double>(i * 31 % 64 - 32) / 64;
    x[static_cast<std::size_t>(i)] = static_cast<T>(number);
  }
  for (const std::int64_t i : {n / 2, n / 2 + 1}) {
    if (i < n)
      x[static_cast<std::size_t>(i)] = (i % 2 == 0 ? -1 : 1) * std::numeric_limits<T>::infinity();
  }
  return x;
}

template <class T>
class ScanOfFloats : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ScanOfFloats, Floats);

TYPED_TEST(ScanOfFloats, FindsExtremesOfLinesOfAnyLength) {
  for (const std::int64_t n :
       {1,   2,   7,   8,   9,   15,  16,  17,   31,   32,   33,   63,   64,   65,   127, 128,
        255, 256, 257, 511, 512, 513, 527, 1023, 1024, 1025, 1040, 2047, 2048, 2049, 5000}) {
    const auto x = numbers_and_zeros<TypeParam>(3 * n);
    expect_extremes(x, {n, 3}, 0);
    expect_extremes(x, {3, n}, 1);
    expect_extremes(std::vector(x.begin(), x.begin() + n), {n}, 0);
  }
}

TYPED_TEST(ScanOfFloats, KeepsTheFirstNanWhereverItIs) {
  using T = TypeParam;
  // Blocks of 64 registers, of 2 to 16 numbers.
  for (const std::int64_t n : {5, 40, 64, 70, 128, 256, 300, 512, 600, 1024, 1100, 2100}) {
    const auto numbers = numbers_and_zeros<T>(2 * n);
    for (const std::int64_t border : {0, 1, 16, 64, 128, 256, 512, 1024, 2048}) {
      for (const std::int64_t place : {border - 1, border, border + 1, n - border}) {
        if (place < 0 || place >= n) continue;
        auto x = numbers;
        x[static_cast<std::size_t>(place)] = std::numeric_limits<T>::quiet_NaN();
        x[static_cast<std::size_t>(n - 1)] = -std::numeric_limits<T>::quiet_NaN();
        expect_extremes(x, {2, n}, 1);
        expect_extremes(x, {n, 2}, 0);
      }
    }
  }
}

TYPED_TEST(ScanOfFloats, GivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shape{300, 1100};  // columns that threads share, too
  const auto x = numbers_and_zeros<TypeParam>(shape.num_elements());
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    for (const int axis : {0, 1}) {
      for (const Direction direction : kDirections) {
        std::vector<TypeParam> one, four;
        for (auto [threads, y] : {std::pair{1, &one}, {4, &four}}) {
          const WithThreads scope(threads);
          *y = scan(op, x, shape, axis, direction);
        }
        expect_same_bits(four, one, shape, axis);
      }
    }
  }
}

// Where parts of short rows meet, threads would wait for each other's lines.
TEST(Scan, SharesColumnsOnlyOfLongRows) {
  const WithThreads scope(2);
  const auto is_shared = [](auto element) {
    const Shape shape{1000, 1000};
    const std::vector<decltype(element)> x(static_cast<std::size_t>(shape.num_elements()), element);
    Profile profile;
    scan(ReduceOp::max, x, shape, 0, Direction::forward);
    const ProfileReport& report = profile.stop();
    return std::any_of(report.entries.begin(), report.entries.end(),
                       [](const ProfileEntry& e) { return e.category == "threads"; });
  };
  EXPECT_TRUE(is_shared(1.0F));
  EXPECT_FALSE(is_shared(std::uint8_t{1}));
}

// ---- integers

template <class T>
class ScanOfIntegers : public ::testing::Test {};
using Integers = ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                                  std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(ScanOfIntegers, Integers);

TYPED_TEST(ScanOfIntegers, WrapsAroundInLinesOfAnyLength) {
  using T = TypeParam;
  for (const std::int64_t n :
       {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 200, 1000}) {
    std::vector<T> x(static_cast<std::size_t>(3 * n));
    std::uint64_t random = 5;
    for (T& v : x) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<T>(static_cast<T>(random >> 33) | 1);  // odd: products are never all zeros
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
      const auto each = [op](T a, T b) { return fold(op, a, b); };
      for (const Direction direction : kDirections) {
        for (const auto& [shape, axis] :
             {std::pair<Shape, int>{{3, n}, 1}, {{n, 3}, 0}, {{3 * n}, 0}}) {
          expect_same_bits(scan(op, x, shape, axis, direction),
                           plain_scan(x, shape, axis, direction, each), shape, axis);
        }
      }
    }
  }
}

// ---- 16-bit floats

template <class T>
class ScanOfSmallFloats : public ::testing::Test {};
using SmallFloats = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(ScanOfSmallFloats, SmallFloats);

template <class To, class From>
std::vector<To> converted(std::vector<From> x) {
  std::vector<To> y(x.size());
  const Shape shape{static_cast<std::int64_t>(x.size())};
  kernels::run_convert(contiguous_view(x.data(), dtype_of<From>, shape),
                       contiguous_view(y.data(), dtype_of<To>, shape));
  return y;
}

TYPED_TEST(ScanOfSmallFloats, IsTheOneOfF32Rounded) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{40}, Shape{64}, Shape{2100}, Shape{3, 16},
                             Shape{20, 33}, Shape{5, 64}, Shape{3, 1030}, Shape{1030, 3},
                             Shape{40, 1100}, Shape{3, 5, 7}, Shape{0, 3}, Shape{3, 0}}) {
    const auto n = static_cast<std::size_t>(shape.num_elements());
    for (const bool strange : {false, true}) {
      std::vector<float> numbers = numbers_and_zeros<float>(shape.num_elements());
      for (std::size_t i = 0; i < n && !strange; ++i) {
        if (std::isinf(numbers[i])) numbers[i] = 0x1p-20f;  // denormal in f16
      }
      if (strange && n > 2) numbers[n / 3] = -std::numeric_limits<float>::quiet_NaN();
      const auto x = converted<T>(numbers);
      for (int axis = 0; axis < shape.ndim(); ++axis) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
          for (const Direction direction : kDirections) {
            const auto want = converted<T>(scan(op, converted<float>(x), shape, axis, direction));
            expect_same_bits(scan(op, x, shape, axis, direction), want, shape, axis);
          }
        }
      }
    }
  }
}

TYPED_TEST(ScanOfSmallFloats, TakesTransposedOperands) {
  auto x = converted<TypeParam>(numbers_and_zeros<float>(35));
  std::vector<TypeParam> turned(35), got(35);
  const auto size = static_cast<std::int64_t>(sizeof(TypeParam));
  const View view{reinterpret_cast<char*>(x.data()), dtype_of<TypeParam>, {5, 7}, {size, 5 * size}};
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 7; ++j) turned[i * 7 + j] = x[j * 5 + i];
  }
  kernels::run_cumulative(ReduceOp::sum, view, 1, Direction::forward,
                          contiguous_view(got.data(), dtype_of<TypeParam>, {5, 7}));
  expect_same_bits(got, scan(ReduceOp::sum, turned, {5, 7}, 1, Direction::forward), {5, 7}, 1);
}

}  // namespace
