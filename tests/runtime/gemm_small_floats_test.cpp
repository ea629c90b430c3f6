// Matrices of 16-bit floats times vectors, bit by bit: the product of f32 rounded, whatever the layout and the threads.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "runtime/cpu.hpp"
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

}  // namespace
