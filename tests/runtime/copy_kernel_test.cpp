// Conversions between dtypes, strided copies, fill and iota.
#include "runtime/kernels/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using namespace telamon;
using kernels::contiguous_view;
using kernels::View;

template <class To, class From>
std::vector<To> converted(std::vector<From> x, DType from = dtype_of<From>,
                          DType to = dtype_of<To>) {
  std::vector<To> y(x.size());
  const Shape shape{static_cast<std::int64_t>(x.size())};
  kernels::run_convert(contiguous_view(x.data(), from, shape),
                       contiguous_view(y.data(), to, shape));
  return y;
}
template <class T> using V = std::vector<T>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Convert, FloatToIntegerTruncatesAndSaturates) {
  const V<double> x = {1.9, -1.9, 1e30, -1e30, kInf, -kInf, kNan,         127,
                       128, -128, -129, 255,   256,  -0.5,  2147483647.5, 9223372036854775807.0};
  EXPECT_EQ((converted<std::int8_t>(x)), (V<std::int8_t>{1, -1, 127, -128, 127, -128, 0, 127, 127,
                                                         -128, -128, 127, 127, 0, 127, 127}));
  EXPECT_EQ((converted<std::uint8_t>(x)),
            (V<std::uint8_t>{1, 0, 255, 0, 255, 0, 0, 127, 128, 0, 0, 255, 255, 0, 255, 255}));
  const std::int32_t max = INT32_MAX, min = INT32_MIN;
  EXPECT_EQ((converted<std::int32_t>(x)), (V<std::int32_t>{1, -1, max, min, max, min, 0, 127, 128,
                                                           -128, -129, 255, 256, 0, max, max}));
  EXPECT_EQ((converted<std::int64_t>(x))[15], INT64_MAX);
  EXPECT_EQ((converted<std::uint64_t>(x))[15], std::uint64_t{1} << 63);
  EXPECT_EQ((converted<std::uint64_t>(x))[4], UINT64_MAX);
  EXPECT_EQ((converted<std::int32_t>(V<float>{2147483648.0f, -2147483648.0f, 16777217.0f})),
            (V<std::int32_t>{max, min, 16777216}));
}

TEST(Convert, IntegersWrapAndWiden) {
  EXPECT_EQ((converted<std::int8_t>(V<std::int32_t>{300, -1, 128})),
            (V<std::int8_t>{44, -1, -128}));
  EXPECT_EQ((converted<std::uint64_t>(V<std::int32_t>{-1})), (V<std::uint64_t>{UINT64_MAX}));
  EXPECT_EQ((converted<float>(V<std::uint64_t>{UINT64_MAX, 3})),
            (V<float>{18446744073709551616.0f, 3}));
  EXPECT_EQ((converted<double>(V<std::int64_t>{-5, 1LL << 60})), (V<double>{-5, 0x1p60}));
}

TEST(Convert, ToBoolAsksWhetherNotZero) {
  EXPECT_EQ(
      (converted<std::uint8_t>(V<float>{0, -0.0f, 0.1f, static_cast<float>(kNan)}, f32, boolean)),
      (V<std::uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ((converted<std::uint8_t>(V<std::int64_t>{0, 1LL << 40, -1}, i64, boolean)),
            (V<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ((converted<float>(V<std::uint8_t>{0, 1}, boolean, f32)), (V<float>{0, 1}));
}

TEST(Convert, ComplexKeepsOrDropsTheImaginaryPart) {
  const V<Complex64> z = {{1, 2}, {0, 3}, {-4, 0}};
  const auto wide = converted<Complex128>(z);
  EXPECT_EQ(wide[0].im, 2.0);
  EXPECT_EQ((converted<double>(z)), (V<double>{1, 0, -4}));
  EXPECT_EQ((converted<std::uint8_t>(z, c64, boolean)), (V<std::uint8_t>{1, 1, 1}));
  EXPECT_EQ((converted<Complex64>(V<std::int32_t>{7}))[0].re, 7.0f);
  EXPECT_EQ((converted<Complex64>(V<std::int32_t>{7}))[0].im, 0.0f);
}

/// The value of an f16 or bf16 by its definition.
double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1, full = (1 << exponent_bits) - 1;
  const int exponent = (bits >> mantissa_bits) & full, mantissa = bits & ((1 << mantissa_bits) - 1);
  if (exponent == full) return mantissa == 0 ? sign * kInf : kNan;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

class ConvertSmallFloat : public ::testing::TestWithParam<std::tuple<DType, int, int>> {};

TEST_P(ConvertSmallFloat, WidensEveryPatternExactlyAndNarrowsItBack) {
  const auto [dtype, exponent_bits, mantissa_bits] = GetParam();
  V<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), 0);
  const auto wide = converted<float>(all, dtype, f32);
  const auto wider = converted<double>(all, dtype, f64);
  const auto back = converted<std::uint16_t>(wide, f32, dtype);
  const auto back_from_double = converted<std::uint16_t>(wider, f64, dtype);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double want = value_of(all[i], exponent_bits, mantissa_bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide[i]) &&
                  std::isnan(value_of(back[i], exponent_bits, mantissa_bits)));
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide[i]), want);
    ASSERT_EQ(std::signbit(wide[i]), std::signbit(want));
    ASSERT_EQ(wider[i], want);
    ASSERT_EQ(back[i], all[i]);
    ASSERT_EQ(back_from_double[i], all[i]);
  }
}

TEST_P(ConvertSmallFloat, RoundsToNearestEven) {
  // Between neighbours: just below the middle, the middle, just above, from f64 so that a first
  // rounding to f32 would show.
  const auto [dtype, exponent_bits, mantissa_bits] = GetParam();
  V<double> x;
  V<std::uint16_t> want;
  const auto last = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  for (std::uint16_t low = 0; low < last; ++low) {
    const double a = value_of(low, exponent_bits, mantissa_bits);
    double b = value_of(static_cast<std::uint16_t>(low + 1), exponent_bits, mantissa_bits);
    if (std::isinf(b)) b = std::ldexp(1, 1 << (exponent_bits - 1));
    const double middle = a + (b - a) / 2;
    const auto high = static_cast<std::uint16_t>(low + 1);
    for (const auto& [value, result] :
         {std::pair{std::nextafter(middle, a), low}, std::pair{middle, low % 2 == 0 ? low : high},
          std::pair{std::nextafter(middle, b), high}}) {
      x.push_back(value);
      want.push_back(result);
      x.push_back(-value);
      want.push_back(static_cast<std::uint16_t>(result | 0x8000));
    }
  }
  EXPECT_EQ(converted<std::uint16_t>(x, f64, dtype), want);
}

INSTANTIATE_TEST_SUITE_P(DTypes, ConvertSmallFloat,
                         ::testing::Values(std::tuple{f16, 5, 10}, std::tuple{bf16, 8, 7}));

/// Element by element, as an index loop.
template <class T>
void check_copy(const View& in, const Shape& shape, const V<T>& got) {
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += rest % shape[d] * in.strides[d];
      rest /= shape[d];
    }
    ASSERT_EQ(got[static_cast<std::size_t>(i)], *reinterpret_cast<const T*>(in.data + offset))
        << shape.to_string() << " at " << i;
  }
}

template <class T>
class Copy : public ::testing::Test {};
using Sizes = ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, double>;
TYPED_TEST_SUITE(Copy, Sizes);

TYPED_TEST(Copy, TransposesInEveryOrder) {
  using T = TypeParam;
  for (const Shape& shape :
       {Shape{3, 5}, Shape{65, 130}, Shape{4, 33, 70}, Shape{40, 3, 50}, Shape{5, 4, 3, 2},
        Shape{700, 900}, Shape{33, 35, 37}, Shape{3, 130, 140, 7}}) {
    V<T> x(static_cast<std::size_t>(shape.num_elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 7 % 65521);
    const View source = contiguous_view(x.data(), dtype_of<T>, shape);
    V<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0u);
    do {
      View in{source.data, source.dtype, Shape(shape.size(), 0), Shape(shape.size(), 0)};
      for (std::size_t d = 0; d < order.size(); ++d) {
        in.shape[d] = shape[order[d]];
        in.strides[d] = source.strides[order[d]];
      }
      V<T> y(x.size());
      kernels::run_copy(in, contiguous_view(y.data(), dtype_of<T>, in.shape));
      check_copy(in, in.shape, y);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TYPED_TEST(Copy, ReversesStepsAndBroadcasts) {
  using T = TypeParam;
  V<T> x(600);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 251);
  const auto size = static_cast<std::int64_t>(sizeof(T));
  const auto check = [&](std::int64_t offset, Shape shape, Shape steps) {
    View in{reinterpret_cast<char*>(x.data() + offset), dtype_of<T>, shape, steps};
    for (auto& s : in.strides) s *= size;
    V<T> y(static_cast<std::size_t>(shape.num_elements()));
    kernels::run_copy(in, contiguous_view(y.data(), dtype_of<T>, shape));
    check_copy(in, shape, y);
  };
  check(599, {20, 30}, {-30, -1});
  check(29, {20, 30}, {30, -1});
  check(570, {20, 30}, {-30, 1});
  check(0, {10, 15}, {60, 2});
  check(0, {50, 20, 30}, {0, 30, 1});
  check(0, {20, 4, 30}, {30, 0, 1});
  check(0, {600, 40}, {1, 0});
  for (const std::int64_t n : {1, 130, 4096, 4097, 10'000}) check(7, {n}, {0});
  check(0, {3, 5000}, {1, 0});
  for (const std::int64_t n : {2, 3, 8, 9}) {  // short rows
    check(0, {300, n}, {1, 0});
    check(0, {300, n}, {0, 1});
    check(n - 1, {600 / n, n}, {n, -1});
    check(0, {150 / n, 2, n}, {4 * n, n, 1});
    check(0, {600 / (n + 1), n}, {n + 1, 1});
  }
  check(5, {}, {});
  check(0, {0, 3}, {3, 1});
}

TEST(Copy, PlacesASliceIntoAResult) {
  V<float> x = {1, 2, 3, 4, 5, 6}, y(20, 0.0f);
  const View out{reinterpret_cast<char*>(y.data() + 6), f32, Shape{2, 3}, Shape{20, 4}};
  kernels::run_copy(contiguous_view(x.data(), f32, Shape{2, 3}), out);
  EXPECT_EQ(y, (V<float>{0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0}));
}

TEST(Fill, RepeatsAValueOfAnySize) {
  V<Complex128> y(100);
  const Complex128 z{1, -2};
  kernels::run_fill(&z, contiguous_view(y.data(), c128, Shape{10, 10}));
  for (const auto& v : y) ASSERT_TRUE(v.re == 1 && v.im == -2);
  V<std::uint16_t> h(3);
  const std::uint16_t one = 0x3c00;
  kernels::run_fill(&one, contiguous_view(h.data(), f16, Shape{3}));
  EXPECT_EQ(h, (V<std::uint16_t>{one, one, one}));
}

TEST(Iota, CountsAlongItsDimension) {
  V<std::int32_t> y(2 * 3 * 4);
  for (int dimension = 0; dimension < 3; ++dimension) {
    kernels::run_iota(contiguous_view(y.data(), i32, Shape{2, 3, 4}), dimension);
    for (int i = 0; i < 24; ++i) {
      const int index[] = {i / 12, i / 4 % 3, i % 4};
      ASSERT_EQ(y[static_cast<std::size_t>(i)], index[dimension]) << dimension;
    }
  }
  V<float> line(3000);
  kernels::run_iota(contiguous_view(line.data(), f32, Shape{3000}), 0);
  for (std::size_t i = 0; i < line.size(); ++i) ASSERT_EQ(line[i], static_cast<float>(i));
  V<std::uint8_t> bytes(300);
  kernels::run_iota(contiguous_view(bytes.data(), u8, Shape{300}), 0);
  EXPECT_EQ(bytes[299], 299 - 256);
}

}  // namespace
