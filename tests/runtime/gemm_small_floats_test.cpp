// Matrices of 16-bit floats times vectors, bit by bit: the product of f32 rounded, whatever the layout and the threads; and
// products of bf16 whose terms are taken in pairs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/cpu.hpp"
#include "runtime/kernels/bf16_words.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/gemm.hpp"
#include "support/threads.hpp"

namespace {

using namespace telamon;
using kernels::contiguous_view;
using kernels::View;
using telamon_test::WithThreads;

enum class Layout { rows, columns, strided };
constexpr Layout kLayouts[] = {Layout::rows, Layout::columns, Layout::strided};

template <class T>
struct Matrices {
  std::vector<T> memory;
  View view;

  Matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns, Layout layout,
           unsigned seed)
      : memory(static_cast<std::size_t>(2 * batch * rows * columns)) {
    std::vector<float> numbers(memory.size());
    for (float& x : numbers) {
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<float>(static_cast<int>(seed >> 16) % 4096 - 2048) / 512;
    }
    if (!numbers.empty()) {
      numbers[numbers.size() / 3] = 0x1p-20f;  // denormal in f16
      numbers[numbers.size() / 5] = -0.0f;
    }
    const Shape all{static_cast<std::int64_t>(memory.size())};
    kernels::run_convert(contiguous_view(numbers.data(), DType::f32, all),
                         contiguous_view(memory.data(), dtype_of<T>, all));
    const std::int64_t step = layout == Layout::strided ? 2 : 1;
    const Shape strides = layout == Layout::columns
                              ? Shape{rows * columns, 1, rows}
                              : Shape{rows * columns * step, columns * step, step};
    const auto size = static_cast<std::int64_t>(sizeof(T));
    view = {reinterpret_cast<char*>(memory.data()),
            dtype_of<T>,
            {batch, rows, columns},
            {strides[0] * size, strides[1] * size, strides[2] * size}};
  }
};

/// The same numbers in f32: by columns if they are, else by rows.
struct Wide {
  std::vector<float> numbers;
  View view;

  Wide(const View& small, bool by_columns)
      : numbers(static_cast<std::size_t>(small.shape.num_elements())) {
    const auto flipped = [&](const View& v) { return by_columns ? kernels::transposed(v) : v; };
    const View from = flipped(small);
    const View dense = contiguous_view(numbers.data(), DType::f32, from.shape);
    kernels::run_convert(from, dense);
    view = flipped(dense);
  }
};

template <class T>
class SmallFloatMatmul : public ::testing::Test {};
using SmallFloats = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SmallFloatMatmul, SmallFloats);

template <class T>
void expect_rounded_product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
                            Layout of_a, Layout of_b, bool with_nan) {
  Matrices<T> a(batch, m, k, of_a, 1), b(batch, k, n, of_b, 2);
  if (with_nan && !a.memory.empty()) a.memory[0].bits = 0x7fff;
  const Shape shape{batch, m, n};
  const auto results = static_cast<std::size_t>(shape.num_elements());
  // Without AVX2 they are widened beforehand, to rows.
  const bool as_they_lie = runtime::host_isa() != runtime::Isa::generic;
  const Wide wide_a(a.view, as_they_lie && of_a == Layout::columns);
  const Wide wide_b(b.view, as_they_lie && of_b == Layout::columns);
  std::vector<float> wide(results);
  kernels::run_matmul(wide_a.view, wide_b.view, contiguous_view(wide.data(), DType::f32, shape));
  std::vector<T> want(results);
  kernels::run_convert(contiguous_view(wide.data(), DType::f32, shape),
                       contiguous_view(want.data(), dtype_of<T>, shape));
  for (const int threads : {1, 3}) {
    const WithThreads scope(threads);
    std::vector<T> got(results);
    kernels::run_matmul(a.view, b.view, contiguous_view(got.data(), dtype_of<T>, shape));
    for (std::size_t i = 0; i < results; ++i) {
      ASSERT_EQ(got[i].bits, want[i].bits)
          << batch << " x " << m << " x " << k << " x " << n << ", layouts "
          << static_cast<int>(of_a) << " and " << static_cast<int>(of_b) << ", at " << i;
    }
  }
}

TYPED_TEST(SmallFloatMatmul, RoundsTheProductsWithVectors) {
  constexpr std::int64_t kSizes[][3] = {
      {1, 1, 1},    {1, 5, 1},     {1, 7, 70},     {1, 1, 40},      {3, 2, 33},     {2, 301, 65},
      {1, 700, 64}, {1, 64, 700},  {1, 3, 40'000}, {1, 1, 100'000}, {1, 40, 9'000}, {2, 4, 0},
      {1, 0, 4},    {1, 1100, 16}, {1, 16, 1100},  {1, 2, 1}};
  for (const auto& [batch, length, k] : kSizes) {
    for (const Layout of_a : kLayouts) {
      for (const Layout of_b : kLayouts) {
        for (const bool with_nan : {false, true}) {
          expect_rounded_product<TypeParam>(batch, length, 1, k, of_a, of_b, with_nan);
          expect_rounded_product<TypeParam>(batch, 1, length, k, of_a, of_b, with_nan);
        }
      }
    }
  }
}

TYPED_TEST(SmallFloatMatmul, RoundsOtherProducts) {
  for (const Layout of_a : kLayouts)
    for (const Layout of_b : kLayouts)
      expect_rounded_product<TypeParam>(2, 17, 9, 40, of_a, of_b, false);
}

// ---- pairs of terms
float wide_at(const View& v, std::int64_t l, std::int64_t i, std::int64_t j) {
  const char* const at = v.data + l * v.strides[0] + i * v.strides[1] + j * v.strides[2];
  return std::bit_cast<float>(std::uint32_t{reinterpret_cast<const BFloat16*>(at)->bits} << 16);
}

/// The products are sums from the first term to the last; of two bf16, a product of f32 is exact.
std::vector<float> sums_in_order(const View& a, const View& b) {
  std::vector<float> sums;
  for (std::int64_t l = 0; l < a.shape[0]; ++l) {
    for (std::int64_t i = 0; i < a.shape[1]; ++i) {
      for (std::int64_t j = 0; j < b.shape[2]; ++j) {
        float sum = 0;
        for (std::int64_t t = 0; t < a.shape[2]; ++t)
          sum += wide_at(a, l, i, t) * wide_at(b, l, t, j);
        sums.push_back(sum);
      }
    }
  }
  return sums;
}
void expect_sums_in_order(const View& a, const View& b) {
  const kernels::ProductSize size{a.shape[0], a.shape[1], b.shape[2], a.shape[2]};
  ASSERT_TRUE(kernels::multiplies_by_pairs(runtime::host_isa(), size));
  const std::vector<float> want = sums_in_order(a, b);
  for (const int threads : {1, 3}) {
    const WithThreads scope(threads);
    std::vector<float> got(want.size());
    kernels::run_matmul(a, b,
                        contiguous_view(got.data(), DType::f32, {size.batch, size.m, size.n}));
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
          << got[i] << " is not " << want[i] << " at " << i << " of " << a.shape.to_string()
          << " x " << b.shape.to_string() << " with " << threads << " threads";
    }
  }
}

class PairsOfBf16 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::multiplies_bf16_pairs(runtime::host_isa()))
      GTEST_SKIP() << "this processor, as it is used, does not multiply pairs of bf16";
  }
};
using Numbers = Matrices<BFloat16>;

TEST_F(PairsOfBf16, AreAddedInOrderWhateverTheLayout) {
  constexpr std::int64_t kSizes[][4] = {{1, 64, 64, 64},   {2, 70, 45, 33},   {1, 50, 190, 7},
                                        {3, 49, 51, 2},    {1, 130, 67, 301}, {1, 33, 600, 40},
                                        {1, 200, 48, 511}, {1, 1030, 50, 300}};
  for (const auto& [batch, m, n, k] : kSizes) {
    for (const Layout of_a : kLayouts) {
      for (const Layout of_b : kLayouts) {
        const Numbers a(batch, m, k, of_a, 1), b(batch, k, n, of_b, 2);
        expect_sums_in_order(a.view, b.view);
      }
    }
  }
}

TEST_F(PairsOfBf16, OfOneMatrixForAllProductsAreTakenOnce) {
  const Numbers a(3, 60, 31, Layout::rows, 1);
  Numbers b(1, 31, 70, Layout::rows, 2);
  b.view.shape[0] = 3;
  b.view.strides[0] = 0;
  expect_sums_in_order(a.view, b.view);
  b.view.strides = {0, 0, 2};  // all rows are one, too
  expect_sums_in_order(a.view, b.view);
}

// A processor takes them for zeros where it multiplies pairs, and makes zeros of sums that are: then nothing is left to it.
TEST_F(PairsOfBf16, AreNumbersWhereDenormalOnesMatter) {
  constexpr std::uint16_t kDenormal = 0x0041, kLarge = 0x7300, kSmall = 0x0123, kUnit = 0x3f80;
  constexpr std::uint16_t kPairs[][2] = {
      {kDenormal, kLarge}, {kLarge, kDenormal}, {kDenormal, kUnit},
      {kSmall, kUnit},     {kSmall, 0x2000},    {0x8001, 0x7f80},
      {0x7fc0, kUnit},     {0xff80, 0x0000},    {0x8000, 0x8000}};
  for (const auto& [of_a, of_b] : kPairs) {
    Numbers a(1, 64, 50, Layout::rows, 1), b(1, 50, 64, Layout::columns, 2);
    for (std::size_t i = 0; i < 50; ++i) {
      a.memory[i * 7].bits = of_a;
      b.memory[i * 5].bits = of_b;
    }
    expect_sums_in_order(a.view, b.view);
  }
}

// As many parts, with the same terms.
TEST_F(PairsOfBf16, HaveTheSumsOfNumbersInParts) {
  constexpr std::uint16_t kDenormal = 1;
  constexpr std::int64_t kTerms = 4099;
  for (const Layout layout : {Layout::rows, Layout::columns}) {
    Numbers a(1, 64, kTerms, layout, 1), b(1, kTerms, 64, layout, 2);
    const Shape shape{1, 64, 64};
    std::vector<float> pairs(64 * 64), numbers(64 * 64);
    a.memory[5].bits = 0;
    kernels::run_matmul(a.view, b.view, contiguous_view(pairs.data(), DType::f32, shape));
    a.memory[5].bits = kDenormal;
    kernels::run_matmul(a.view, b.view, contiguous_view(numbers.data(), DType::f32, shape));
    EXPECT_EQ(std::memcmp(pairs.data(), numbers.data(), pairs.size() * sizeof(float)), 0);
  }
}

TEST(Bf16Words, HoldTwoTermsAndTheLeastMagnitude) {
  for (const std::int64_t k : {1, 2, 7, 64, 129}) {
    for (const std::int64_t rows : {1, 3, 40, 1024}) {
      for (const Layout layout : {Layout::rows, Layout::columns}) {
        Numbers x(2, rows, k, layout, 3);
        const std::int64_t smallest = 2 * rows * k / 3;
        for (BFloat16& number : x.memory) {
          if ((number.bits & 0x7fff) < 0x100) number.bits = 0;
        }
        x.memory[static_cast<std::size_t>(smallest)].bits = 0x80f1;
        const auto words = kernels::bf16_words(x.view, 2);
        ASSERT_TRUE(words);
        EXPECT_EQ(words->least, 0xf0);
        const View& v = words->view;
        ASSERT_EQ(v.shape, (Shape{2, rows, (k + 1) / 2}));
        for (std::int64_t at = 0; at < v.shape.num_elements(); ++at) {
          const std::int64_t pairs = v.shape[2], l = at / (rows * pairs), i = at / pairs % rows,
                             j = at % pairs;
          std::uint32_t word = 0;
          std::memcpy(&word, v.data + l * v.strides[0] + i * v.strides[1] + j * v.strides[2], 4);
          EXPECT_EQ(std::bit_cast<float>(word & 0xffff0000u), wide_at(x.view, l, i, 2 * j));
          const float second = 2 * j + 1 < k ? wide_at(x.view, l, i, 2 * j + 1) : 0;
          EXPECT_EQ(std::bit_cast<float>(word << 16), second);
        }
      }
    }
  }
  Numbers zeros(1, 3, 5, Layout::rows, 1);
  for (BFloat16& number : zeros.memory) number.bits = 0x8000;
  EXPECT_EQ(kernels::bf16_words(zeros.view, 1)->least, 0xffff);
  EXPECT_FALSE(kernels::bf16_words(Numbers(1, 3, 5, Layout::strided, 1).view, 1));
}

TEST(Bf16Words, HaveNormalSumsWhereNoProductIsBelowTheLeastNumber) {
  const auto of = [](int exponent, int mantissa = 0) {  // 2^exponent and more
    return static_cast<std::uint16_t>(((exponent + 127) << 7) + mantissa - 1);
  };
  EXPECT_TRUE(kernels::has_normal_sums(of(0), of(0)));
  EXPECT_TRUE(kernels::has_normal_sums(of(-56), of(-56, 5)));
  EXPECT_FALSE(kernels::has_normal_sums(of(-57, 127), of(-56, 5)));
  EXPECT_FALSE(kernels::has_normal_sums(of(-127, 3), of(20)));  // denormal
  EXPECT_TRUE(kernels::has_normal_sums(0xffff, of(-112)));      // zeros
}

}  // namespace
