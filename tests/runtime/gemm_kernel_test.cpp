// Matrix products against triple loops, for every dtype, layout and size around the tiles.
#include "runtime/kernels/gemm.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "runtime/cpu.hpp"
#include "runtime/kernels/copy.hpp"
#include "support/threads.hpp"

namespace {

using namespace telamon;
using kernels::contiguous_view;
using kernels::View;
using telamon_test::WithThreads;

/// rows x columns matrices in memory in the given order of dimensions ("by columns" = transposed).
enum class Layout { rows, columns, padded, strided, repeated };

template <class T>
struct Matrix {
  std::vector<T> memory;
  View view;
  Matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns, Layout layout,
         unsigned seed) {
    const std::int64_t step = layout == Layout::strided ? 2 : 1,
                       pad = layout == Layout::padded ? 3 : 0;
    Shape strides;
    if (layout == Layout::columns) strides = {rows * columns, 1, rows};
    else strides = {rows * (columns + pad) * step, (columns + pad) * step, step};
    if (layout == Layout::repeated) strides[0] = 0;
    memory.resize(static_cast<std::size_t>(batch * rows * (columns + pad) * step + 1));
    for (auto& x : memory) {
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<T>(static_cast<int>(seed >> 20) % 17 - (std::is_signed_v<T> ? 8 : 0));
    }
    for (auto& s : strides) s *= static_cast<std::int64_t>(sizeof(T));
    view = {reinterpret_cast<char*>(memory.data()), dtype_of<T>, Shape{batch, rows, columns},
            strides};
  }
  T at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return *reinterpret_cast<const T*>(view.data + b * view.strides[0] + i * view.strides[1] +
                                       j * view.strides[2]);
  }
};

template <class T>
void check(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Layout of_a,
           Layout of_b) {
  const Matrix<T> a(batch, m, k, of_a, 1), b(batch, k, n, of_b, 2);
  std::vector<T> c(static_cast<std::size_t>(batch * m * n), T(99));
  kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), dtype_of<T>, Shape{batch, m, n}));
  for (std::int64_t l = 0; l < batch; ++l) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        // Small whole numbers: every order of summation is exact in floats.
        std::uint64_t integer = 0;
        double real = 0;
        for (std::int64_t q = 0; q < k; ++q) {
          real += static_cast<double>(a.at(l, i, q)) * static_cast<double>(b.at(l, q, j));
          if constexpr (std::is_integral_v<T>)
            integer += static_cast<std::uint64_t>(a.at(l, i, q)) *
                       static_cast<std::uint64_t>(b.at(l, q, j));
        }
        const T want = std::is_integral_v<T> ? static_cast<T>(integer) : static_cast<T>(real);
        ASSERT_EQ(c[static_cast<std::size_t>((l * m + i) * n + j)], want)
            << batch << "x" << m << "x" << k << "x" << n << " layouts " << int(of_a) << int(of_b);
      }
    }
  }
}

template <class T>
class Matmul : public ::testing::Test {};
using Types = ::testing::Types<std::int8_t, std::int32_t, std::int64_t, std::uint8_t, std::uint32_t,
                               float, double>;
TYPED_TEST_SUITE(Matmul, Types);

TYPED_TEST(Matmul, AgreesWithTripleLoops) {
  for (std::int64_t m : {1, 2, 3, 5, 17, 40}) {
    for (std::int64_t n : {1, 2, 7, 16, 33, 70}) {
      for (std::int64_t k : {0, 1, 3, 64, 100})
        check<TypeParam>(2, m, n, k, Layout::rows, Layout::rows);
    }
  }
}

TYPED_TEST(Matmul, TakesEveryLayout) {
  const Layout all[] = {Layout::rows, Layout::columns, Layout::padded, Layout::strided,
                        Layout::repeated};
  for (Layout a : all) {
    for (Layout b : all) {
      check<TypeParam>(3, 5, 9, 4, a, b);
      check<TypeParam>(2, 40, 50, 60, a, b);
      check<TypeParam>(2, 1, 50, 60, a, b);
      check<TypeParam>(2, 40, 1, 60, a, b);
      check<TypeParam>(1, 1, 1, 70, a, b);
      check<TypeParam>(2, 3, 4, 1, a, b);
    }
  }
}

TEST(MatmulTiles, CoverProductsLargerThanATile) {
  check<float>(1, 600, 530, 20, Layout::rows, Layout::columns);
  check<double>(1, 530, 700, 20, Layout::columns, Layout::rows);
  check<std::int32_t>(1, 520, 530, 5, Layout::rows, Layout::rows);
}

// Batch, rows, columns and terms of products whose sums are cut into parts: inner products, a matrix times a vector,
// a few rows times a matrix, tiles.
constexpr std::array<std::int64_t, 4> kInParts[] = {
    {1, 1, 1, 70'001},   {2, 7, 1, 40'003},  {1, 1, 9, 40'000},  {2, 3, 50, 4'001},
    {1, 1, 9'000, 200},  {1, 4, 300, 1'000}, {1, 64, 64, 2'500}, {2, 70, 33, 2'200},
    {1, 10, 11, 30'000}, {1, 90, 3, 5'001},  {2, 50, 20, 2'200}, {1, 4, 2, 100'000},
    {1, 16, 32, 2'048}};

TEST(MatmulParts, AgreeWithTripleLoops) {
  const Layout all[] = {Layout::rows, Layout::columns, Layout::padded, Layout::strided,
                        Layout::repeated};
  for (const auto& [batch, m, n, k] : kInParts) {
    for (const Layout layout : all) {
      check<double>(batch, m, n, k, Layout::rows, layout);
      check<float>(batch, m, n, k, layout, layout);
    }
  }
}

template <class T>
void expect_the_same_bits_of_parts() {
  for (const auto& [batch, m, n, k] : kInParts) {
    Matrix<T> a(batch, m, k, Layout::rows, 1), b(batch, k, n, Layout::columns, 2);
    for (std::size_t i = 0; i < a.memory.size(); ++i)
      a.memory[i] = static_cast<T>(std::sin(static_cast<double>(i)));
    std::vector<T> first;
    for (const int threads : {1, 2, 5, 16}) {
      const WithThreads scope(threads);
      std::vector<T> c(static_cast<std::size_t>(batch * m * n));
      kernels::run_matmul(a.view, b.view,
                          contiguous_view(c.data(), dtype_of<T>, Shape{batch, m, n}));
      if (threads == 1) first = c;
      EXPECT_EQ(c, first) << threads << " threads, " << batch << " x " << m << " x " << k << " x "
                          << n;
    }
  }
}
TEST(MatmulParts, GiveTheSameBitsForAnyNumberOfThreads) {
  expect_the_same_bits_of_parts<float>();
  expect_the_same_bits_of_parts<double>();
}

// Every number of rows side by side, and every remainder of the terms.
TEST(MatmulVectors, AgreeWithTripleLoops) {
  for (std::int64_t m = 1; m <= 20; ++m) {
    for (std::int64_t k = 1; k <= 40; ++k) {
      check<float>(1, m, 1, k, Layout::padded, Layout::rows);
      check<double>(2, m, 1, k, Layout::rows, Layout::rows);
      check<float>(1, 1, m, k, Layout::rows, Layout::columns);
    }
  }
}

// Few rows times many columns and the other way round, by rows and by columns: every rest of a tile, more rows and columns
// than a part has. Most are inner products summed by lanes.
TEST(MatmulThin, AgreesWithTripleLoopsWhereOneSideIsLong) {
  for (const std::int64_t few : {2, 3, 4, 5, 6, 7, 8, 9, 13}) {
    for (const std::int64_t many : {900, 1000, 1001}) {
      for (const std::int64_t k : {150, 317, 512}) {
        check<float>(1, few, many, k, Layout::rows, Layout::columns);
        check<double>(1, many, few, k, Layout::padded, Layout::columns);
        check<float>(1, many, few, k, Layout::rows, Layout::rows);
        check<double>(2, many, few, k, Layout::rows, Layout::padded);
        check<float>(2, many, few, k, Layout::rows, Layout::repeated);
      }
    }
  }
}

// Few inner products of many terms: every rest of a tile and of a vector.
TEST(MatmulThin, AgreesWithTripleLoops) {
  for (const std::int64_t m : {2, 3, 4, 5, 7, 20, 48}) {
    for (const std::int64_t n : {2, 3, 4, 5, 6, 48}) {
      for (std::int64_t k = 1024; k < 1033; ++k)
        check<float>(1, m, n, k, Layout::padded, Layout::columns);
      check<double>(2, m, n, 4'501, Layout::rows, Layout::columns);
      check<float>(3, m, n, 1'500, Layout::repeated, Layout::columns);
    }
  }
}

/// Memory for `bytes` that end where a page does which nobody may touch.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes) : size_((bytes + kPage - 1) / kPage * kPage + kPage) {
    void* const all =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<char*>(all);
    if (mprotect(all_ + size_ - kPage, kPage, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = all_ + size_ - kPage - bytes;
  }
  ~Fenced() { munmap(all_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  char* data() const { return data_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::size_t size_;
  char *all_ = nullptr, *data_ = nullptr;
};

// Vectors that are not full read and write the elements that exist.
template <class T>
void expect_nothing_beyond(std::int64_t m, std::int64_t n, std::int64_t k, Layout of_b) {
  const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(T); };
  const Matrix<T> a(1, m, k, Layout::rows, 1), b(1, k, n, of_b, 2);
  const Fenced x(bytes(m * k)), y(bytes(k * n)), z(bytes(m * n));
  std::memcpy(x.data(), a.memory.data(), bytes(m * k));
  std::memcpy(y.data(), b.memory.data(), bytes(k * n));
  View of_x = a.view, of_y = b.view;
  of_x.data = x.data();
  of_y.data = y.data();
  const Shape shape{1, m, n};
  kernels::run_matmul(of_x, of_y, contiguous_view(z.data(), dtype_of<T>, shape));
  std::vector<T> c(static_cast<std::size_t>(m * n));
  kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), dtype_of<T>, shape));
  ASSERT_EQ(std::memcmp(c.data(), z.data(), bytes(m * n)), 0) << m << "x" << k << "x" << n;
}
template <class T>
void expect_nothing_beyond() {
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 25}) {
    for (std::int64_t n = 1; n <= 40; n += n < 20 ? 1 : 7) {
      for (const std::int64_t k : {1, 2, 3, 5, 7, 11, 15, 18, 33, 130})
        expect_nothing_beyond<T>(m, n, k, Layout::rows);
      for (const std::int64_t k : {1024, 1027}) expect_nothing_beyond<T>(m, n, k, Layout::columns);
    }
  }
}
TEST(MatmulTiles, ReadAndWriteNothingBeyondTheirMatrices) {
  expect_nothing_beyond<float>();
  expect_nothing_beyond<double>();
}

// Few columns of a matrix that lies by columns are computed as the transpose.
template <class T>
void expect_the_same_bits_of_columns() {
  for (const std::int64_t n : {2, 3, 4, 5, 16, 24, 25, 64, 65}) {
    for (const auto& [batch, m, k] : {std::array<std::int64_t, 3>{1, 130, 7},
                                      {3, 133, 100},
                                      {1, 2 * n - 1, 70},
                                      {2, 2 * n, 3'001},
                                      {1, 2 * n, 80'001}}) {
      Matrix<T> a(batch, m, k, Layout::columns, 1), rows(batch, m, k, Layout::rows, 1);
      // Rows are summed by lanes then, and columns not.
      if (kernels::least_rows_of_block(dtype_of<T>, {batch, m, n, k}, false) > 1) continue;
      const Matrix<T> b(batch, k, n, n > 64 ? Layout::columns : Layout::rows, 2);
      for (std::size_t i = 0; i < a.memory.size(); ++i)
        a.memory[i] = static_cast<T>(std::sin(static_cast<double>(i)));
      kernels::run_copy(a.view, rows.view);
      std::vector<T> c(static_cast<std::size_t>(batch * m * n), T(99)), of_rows(c.size(), T(98));
      const Shape shape{batch, m, n};
      kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), dtype_of<T>, shape));
      kernels::run_matmul(rows.view, b.view, contiguous_view(of_rows.data(), dtype_of<T>, shape));
      EXPECT_EQ(c, of_rows) << batch << " x " << m << " x " << k << " x " << n;
    }
  }
}
TEST(MatmulColumns, GiveTheSameBitsAsRows) {
  expect_the_same_bits_of_columns<float>();
  expect_the_same_bits_of_columns<double>();
}

TEST(MatmulScratch, HoldsTheTransposeOfNarrowProducts) {
  const auto scratch = [](std::int64_t batch, std::int64_t m, std::int64_t n, int threads) {
    return kernels::matmul_scratch(f32, {batch, m, n, 8}, threads);
  };
  // One for each thread, but not more than products, or one that threads share.
  const std::int64_t one = scratch(1, 4096, 8, 1), large = scratch(1, 100'000, 8, 1);
  EXPECT_EQ(scratch(3, 4096, 8, 1), one);
  EXPECT_EQ(scratch(3, 4096, 8, 2), 2 * one);
  EXPECT_EQ(scratch(3, 4096, 8, 4), 4 * one - 4096 * 8 * 4);
  EXPECT_EQ(scratch(3, 100'000, 8, 2), 2 * large - 100'000 * 8 * 4);
  EXPECT_EQ(scratch(3, 1024, 128, 1), scratch(1, 1024, 128, 1));
}

TEST(Matmul, GivesEachNarrowProductOfABatchAlone) {
  constexpr std::int64_t kBatch = 3, kTerms = 300, kColumns = 8;
  for (const std::int64_t rows : {500, 40'000}) {
    std::vector<double> a(kBatch * kTerms * rows), b(kBatch * kTerms * kColumns),
        want(kBatch * rows * kColumns), got(want.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<double>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<double>(i));
    const auto multiply = [&](std::int64_t first, std::int64_t count, std::vector<double>& c) {
      View lhs =
          contiguous_view(a.data() + first * kTerms * rows, DType::f64, Shape{count, kTerms, rows});
      std::swap(lhs.shape[1], lhs.shape[2]);
      std::swap(lhs.strides[1], lhs.strides[2]);
      kernels::run_matmul(lhs,
                          contiguous_view(b.data() + first * kTerms * kColumns, DType::f64,
                                          Shape{count, kTerms, kColumns}),
                          contiguous_view(c.data() + first * rows * kColumns, DType::f64,
                                          Shape{count, rows, kColumns}));
    };
    for (std::int64_t i = 0; i < kBatch; ++i) multiply(i, 1, want);
    for (const int threads : {1, 2, 4}) {
      const WithThreads scope(threads);
      multiply(0, kBatch, got);
      EXPECT_EQ(got, want) << rows << ' ' << threads;
    }
    double sum = 0;
    for (std::size_t k = 0; k < kTerms; ++k)
      sum += a[static_cast<std::size_t>(2 * kTerms + static_cast<std::int64_t>(k)) *
                   static_cast<std::size_t>(rows) +
               7] *
             b[(2 * kTerms + k) * kColumns + 5];
    EXPECT_NEAR(want[static_cast<std::size_t>((2 * rows + 7) * kColumns + 5)], sum, 1e-10);
  }
}

// The right operand of a product of few columns that leave lanes idle.
TEST(MatmulScratch, HoldsTheOperandThatIsTurned) {
  const auto scratch = [](std::int64_t batch) {
    return kernels::matmul_scratch(f32, {batch, 1024, 3, 300}, 1);
  };
  const bool is_turned = kernels::least_rows_of_block(f32, {1, 1024, 3, 300}, false) > 1;
  EXPECT_EQ(is_turned, runtime::host_isa() != runtime::Isa::generic);
  EXPECT_EQ(scratch(3) - scratch(1), is_turned ? 2 * 3 * 300 * 4 : 0);
}

// Left operands by rows and by columns have blocks of their own.
TEST(MatmulScratch, HoldsTheBlocksOfEitherLayout) {
  for (const DType dtype : {f32, DType::f64}) {
    for (const std::int64_t n : {16, 80, 128, 2000}) {
      for (const bool deep : {false, true}) {
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        const kernels::GemmBlocks blocks =
            kernels::gemm_blocks(runtime::host_isa(), size, runtime::data_cache_bytes(1),
                                 runtime::data_cache_bytes(2), deep);
        EXPECT_GE(kernels::matmul_scratch(dtype, {1, 300, n, 64}, 1),
                  kernels::gemm_workspace(blocks, 300, n, 64, size))
            << short_name(dtype) << ' ' << n << (deep ? " deep" : "");
      }
    }
  }
}

TEST(MatmulScratch, HoldsThePartsOfSums) {
  const auto scratch = [](std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
    return kernels::matmul_scratch(f32, {batch, m, n, k}, 1);
  };
  // 32 parts of 64 x 64 results of 4 bytes.
  EXPECT_EQ(scratch(1, 64, 64, 100'000) - scratch(1, 64, 64, 512), 32 * 64 * 64 * 4);
  // A million multiplications are worth two, a million and a half not three.
  for (const std::int64_t k : {2048, 3072})
    EXPECT_EQ(scratch(1, 16, 32, k) - scratch(1, 16, 32, 512), 2 * 16 * 32 * 4) << k;
  EXPECT_EQ(scratch(1, 1024, 1024, 4096), scratch(1, 1024, 1024, 1024));
  // Inner products of a few rows, and a matrix by columns times a vector, which is a row times its rows.
  EXPECT_GE(scratch(1, 40, 40, 100'000) - scratch(1, 40, 40, 64), 32 * 40 * 40 * 4);
  EXPECT_GE(scratch(1, 500, 1, 100'000) - scratch(1, 500, 1, 64), 32 * 500 * 4);
}

TEST(MatmulTiles, GiveTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> a(700 * 300), b(300 * 900), c1(700 * 900), c4(700 * 900);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
  const auto multiply = [&](int threads, std::vector<float>& c) {
    const WithThreads scope(threads);
    kernels::run_matmul(contiguous_view(a.data(), f32, Shape{1, 700, 300}),
                        contiguous_view(b.data(), f32, Shape{1, 300, 900}),
                        contiguous_view(c.data(), f32, Shape{1, 700, 900}));
  };
  multiply(1, c1);
  multiply(4, c4);
  EXPECT_EQ(c1, c4);
  double want = 0;
  for (std::size_t k = 0; k < 300; ++k)
    want += static_cast<double>(a[5 * 300 + k]) * b[k * 900 + 7];
  EXPECT_NEAR(c1[5 * 900 + 7], want, 1e-4);
}

// 768 columns are no tile of 512 and one of 256, 1500 are no three tiles for two threads, 100 rows no two of 64.
TEST(MatmulTiles, OfAnySizesGiveTheSameBitsForAnyNumberOfThreads) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{512, 40, 768},
                                {300, 40, 1500},
                                {1500, 40, 65},
                                {5, 300, 1100},
                                {513, 130, 513},
                                {100, 100, 100},
                                {131, 90, 301}}) {
    Matrix<float> a(1, m, k, Layout::rows, 1), b(1, k, n, Layout::rows, 2);
    for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < b.memory.size(); ++i) b.memory[i] = std::cos(static_cast<float>(i));
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 8}) {
      const WithThreads scope(threads);
      std::vector<float> c(static_cast<std::size_t>(m * n));
      kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), f32, Shape{1, m, n}));
      if (threads == 1) first = c;
      EXPECT_EQ(c, first) << threads << " threads, " << m << " x " << k << " x " << n;
      double want = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        want += static_cast<double>(a.memory[static_cast<std::size_t>((m - 1) * k + i)]) *
                b.memory[static_cast<std::size_t>(i * n + n - 1)];
      }
      EXPECT_NEAR(c.back(), want, 1e-4);
    }
  }
}

// Results whose rows lie pages apart, or nearly so: whole pages of them, and what is left.
TEST(MatmulTiles, OfAFewRowsAgreeWithTripleLoops) {
  for (std::int64_t m = 1; m <= 4; ++m) {
    for (const std::int64_t n : {1000, 1024, 2064, 2048, 3068}) {
      for (const std::int64_t k : {127, 128, 131}) {
        check<float>(1, m, n, k, Layout::rows, Layout::rows);
        check<double>(2, m, n, k, Layout::padded, Layout::rows);
      }
    }
  }
}

TEST(MatmulTiles, OfAFewRowsGiveTheSameBitsForAnyNumberOfThreads) {
  for (const std::int64_t m : {1, 3}) {
    Matrix<float> a(1, m, 301, Layout::rows, 1), b(1, 301, 5003, Layout::rows, 2);
    for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = std::sin(static_cast<float>(i));
    std::vector<float> first;
    for (const int threads : {1, 2, 5, 16}) {
      const WithThreads scope(threads);
      std::vector<float> c(static_cast<std::size_t>(m * 5003));
      kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), f32, Shape{1, m, 5003}));
      if (threads == 1) first = c;
      EXPECT_EQ(c, first) << threads << " threads";
    }
  }
}

template <class T>
std::vector<T> product_in(const kernels::GemmBlocks& blocks, const Matrix<T>& a,
                          const Matrix<T>& b) {
  const Shape shape{a.view.shape[0], a.view.shape[1], b.view.shape[2]};
  std::vector<T> c(static_cast<std::size_t>(shape.num_elements()), T(99));
  kernels::run_matmul_in(blocks, a.view, b.view, contiguous_view(c.data(), dtype_of<T>, shape));
  return c;
}
template <class T>
void expect_the_same_bits_in_all_blocks(Layout of_a, Layout of_b) {
  Matrix<T> a(1, 211, 301, of_a, 1), b(1, 301, 1100, of_b, 2);
  for (std::size_t i = 0; i < a.memory.size(); ++i)
    a.memory[i] = static_cast<T>(std::sin(static_cast<double>(i)));
  const std::vector<T> whole = product_in(kernels::GemmBlocks{}, a, b);
  for (const std::int64_t depth : {128, 200, 512}) {
    for (const std::int64_t rows : {24, 100, 512}) {
      for (const std::int64_t columns : {0, 100, 256, 1024}) {
        for (const std::int64_t far : {0, 1 << 20}) {
          const kernels::GemmBlocks blocks{depth, rows, columns, 512, far};
          EXPECT_EQ(product_in(blocks, a, b), whole)
              << depth << " deep, " << rows << " rows, " << columns << " columns, " << far;
        }
      }
    }
  }
}
TEST(MatmulTiles, GiveTheSameBitsInAllBlocks) {
  for (const Layout of_a : {Layout::rows, Layout::columns}) {
    for (const Layout of_b : {Layout::rows, Layout::columns}) {
      expect_the_same_bits_in_all_blocks<float>(of_a, of_b);
      expect_the_same_bits_in_all_blocks<double>(of_a, of_b);
    }
  }
}

TEST(MatmulTiles, FillTheCachesOfTheProcessor) {
  using runtime::Isa;
  constexpr std::int64_t K = 1024;
  const auto expect = [](const kernels::GemmBlocks& blocks, std::int64_t depth, std::int64_t rows,
                         std::int64_t columns) {
    EXPECT_EQ(blocks.depth, depth);
    EXPECT_EQ(blocks.rows, rows);
    EXPECT_EQ(blocks.columns, columns);
  };
  expect(kernels::gemm_blocks(Isa::avx2, 4, 32 * K, 512 * K, true), 512, 128, 1024);  // Zen 3
  expect(kernels::gemm_blocks(Isa::avx2, 8, 32 * K, 512 * K, true), 512, 64, 512);
  expect(kernels::gemm_blocks(Isa::avx2, 4, 32 * K, 512 * K, false), 256, 256, 1024);
  expect(kernels::gemm_blocks(Isa::avx2, 8, 32 * K, 512 * K, false), 256, 256, 512);
  expect(kernels::gemm_blocks(Isa::avx2, 4, 32 * K, 256 * K, true), 512, 64, 1024);  // Skylake
  expect(kernels::gemm_blocks(Isa::generic, 8, 32 * K, 256 * K, true), 512, 32, 512);
  expect(kernels::gemm_blocks(Isa::avx2, 4, 48 * K, 2048 * K, true), 512, 512, 0);
  expect(kernels::gemm_blocks(Isa::avx512, 4, 32 * K, 512 * K, true), 512, 512, 0);
  expect(kernels::gemm_blocks(Isa::avx2, 4, 0, 0, true), 512, 512, 0);  // not known
}

/// Each element is one sum from the first product to the last, fused where the instruction set can:
/// whatever the shape, the layout, the tile.
template <class T>
void expect_sums_in_order(std::int64_t m, std::int64_t n, std::int64_t k, Layout of_a,
                          Layout of_b) {
  Matrix<T> a(1, m, k, of_a, 1), b(1, k, n, of_b, 2);
  for (std::size_t i = 0; i < a.memory.size(); ++i)
    a.memory[i] = static_cast<T>(std::sin(static_cast<double>(i)));
  for (std::size_t i = 0; i < b.memory.size(); ++i)
    b.memory[i] = static_cast<T>(std::cos(static_cast<double>(i)));
  std::vector<T> c(static_cast<std::size_t>(m * n), T(99));
  kernels::run_matmul(a.view, b.view, contiguous_view(c.data(), dtype_of<T>, Shape{1, m, n}));
  const bool fused = runtime::host_isa() != runtime::Isa::generic;
  for (std::int64_t i = 0; i < m; i += 1 + i % 3) {
    for (std::int64_t j = 0; j < n; j += 1 + j % 5) {
      T want = 0;
      for (std::int64_t q = 0; q < k; ++q) {
        const T x = a.at(0, i, q), y = b.at(0, q, j);
        const T product = x * y;
        want = fused ? std::fma(x, y, want) : want + product;
      }
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], want)
          << m << "x" << k << "x" << n << " layouts " << int(of_a) << int(of_b) << " at " << i
          << ", " << j;
    }
  }
}

// Blocks of rows may be multiplied one by one, where loops are not generated for a block and its terms not cut.
template <class T>
void expect_rows_of_the_same_bits(std::int64_t n, std::int64_t k, Layout of_b) {
  const std::int64_t few = std::max(kernels::kLeastOfRows, kernels::kMostInLoops / (n * k) + 1),
                     all = 3 * few + 5;
  Matrix<T> a(1, all, k, Layout::rows, 1), b(1, k, n, of_b, 2);
  for (Matrix<T>* const x : {&a, &b}) {
    for (std::size_t i = 0; i < x->memory.size(); ++i)
      x->memory[i] = static_cast<T>(std::sin(static_cast<double>(i)));
  }
  View block = a.view;
  block.shape[1] = few;
  std::vector<T> of_block(static_cast<std::size_t>(few * n)),
      of_all(static_cast<std::size_t>(all * n));
  kernels::run_matmul(block, b.view,
                      contiguous_view(of_block.data(), dtype_of<T>, Shape{1, few, n}));
  kernels::run_matmul(a.view, b.view,
                      contiguous_view(of_all.data(), dtype_of<T>, Shape{1, all, n}));
  of_all.resize(of_block.size());
  EXPECT_EQ(of_block, of_all) << few << "x" << k << "x" << n << " layout " << int(of_b);
}
TEST(MatmulTiles, GiveRowsTheSameBitsHoweverManyThereAre) {
  for (const Layout of_b : {Layout::rows, Layout::columns}) {
    for (const std::int64_t n : {2, 3, 5, 8, 20, 47, 64, 70, 300}) {
      for (const std::int64_t k : {24, 300, 900}) {
        expect_rows_of_the_same_bits<float>(n, k, of_b);
        expect_rows_of_the_same_bits<double>(n, k, of_b);
      }
    }
  }
}

TEST(MatmulTiles, AddInOrderWhateverTheTile) {
  for (const Layout of_a : {Layout::rows, Layout::columns, Layout::strided}) {
    for (const Layout of_b : {Layout::rows, Layout::columns, Layout::padded}) {
      // Few rows that lie as the columns do are inner products, summed by lanes.
      if (of_a == Layout::rows && of_b == Layout::columns) {
        expect_sums_in_order<float>(70, 130, 400, of_a, of_b);
        expect_sums_in_order<double>(131, 66, 400, of_a, of_b);
        continue;
      }
      for (const std::int64_t m : {2, 23, 70}) {
        for (const std::int64_t n : {3, 47, 130}) {
          expect_sums_in_order<float>(m, n, 400, of_a, of_b);
          expect_sums_in_order<double>(m, n, 400, of_a, of_b);
        }
      }
      // Of a few rows, by rows of b; one row times a matrix that lies by columns are folds.
      for (const std::int64_t m : {1, 2, 3, 4}) {
        if (m == 1 && of_b == Layout::columns) continue;
        expect_sums_in_order<float>(m, 531, 71, of_a, of_b);
        expect_sums_in_order<double>(m, 272, 3, of_a, of_b);
      }
      // Rows that lie pages apart.
      expect_sums_in_order<float>(35, 24, 1024, of_a, of_b);
      expect_sums_in_order<double>(27, 15, 512, of_a, of_b);
      expect_sums_in_order<float>(33, 300, 900, of_a, of_b);
      expect_sums_in_order<double>(3, 2100, 70, of_a, of_b);
    }
  }
}

// Small ones by their formula, larger ones as products of real matrices: whole numbers are exact in both.
template <class C, DType kType>
void expect_complex_products() {
  for (const auto& [batch, m, n, k] : {std::array<std::int64_t, 4>{1, 3, 4, 5},
                                       {2, 16, 15, 17},
                                       {1, 1, 64, 64},
                                       {3, 20, 30, 10},
                                       {1, 70, 1, 70},
                                       {2, 9, 8, 64},
                                       {2, 1, 300, 41},
                                       {2, 300, 1, 41},
                                       {1, 500, 3, 4},
                                       {1, 3, 500, 4},
                                       {1, 90, 80, 1},
                                       {1, 8, 2, 20'000}}) {
    for (const bool turned : {false, true}) {
      std::vector<C> a(static_cast<std::size_t>(batch * m * k)),
          b(static_cast<std::size_t>(batch * k * n)), c(static_cast<std::size_t>(batch * m * n));
      unsigned seed = 7;
      for (std::vector<C>* x : {&a, &b}) {
        for (C& z : *x) {
          seed = seed * 1664525u + 1013904223u;
          z = {static_cast<decltype(z.re)>(static_cast<int>(seed >> 24) % 9 - 4),
               static_cast<decltype(z.re)>(static_cast<int>(seed >> 16) % 9 - 4)};
        }
      }
      // Rows beside each other, or columns.
      const auto size = static_cast<std::int64_t>(sizeof(C));
      const auto view = [&](std::vector<C>& x, std::int64_t rows, std::int64_t columns) {
        const std::int64_t row = turned ? 1 : columns, column = turned ? rows : 1;
        return View{reinterpret_cast<char*>(x.data()), kType, Shape{batch, rows, columns},
                    Shape{rows * columns * size, row * size, column * size}};
      };
      kernels::run_matmul(view(a, m, k), view(b, k, n),
                          contiguous_view(c.data(), kType, Shape{batch, m, n}));
      for (std::int64_t l = 0; l < batch; ++l) {
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            C want{};
            for (std::int64_t q = 0; q < k; ++q) {
              const C x = a[static_cast<std::size_t>(l * m * k + (turned ? q * m + i : i * k + q))];
              const C y = b[static_cast<std::size_t>(l * k * n + (turned ? j * k + q : q * n + j))];
              want.re += x.re * y.re - x.im * y.im;
              want.im += x.re * y.im + x.im * y.re;
            }
            const C got = c[static_cast<std::size_t>((l * m + i) * n + j)];
            ASSERT_EQ(got.re, want.re) << batch << "x" << m << "x" << k << "x" << n;
            ASSERT_EQ(got.im, want.im) << batch << "x" << m << "x" << k << "x" << n;
          }
        }
      }
    }
  }
}
TEST(MatmulTypes, MultiplyComplexMatricesOfAnySizeAndLayout) {
  expect_complex_products<Complex64, c64>();
  expect_complex_products<Complex128, c128>();
}

TEST(MatmulTypes, MultiplyComplexVectorsThatLieApart) {
  constexpr std::int64_t kTerms = 5000, kSize = sizeof(Complex64);
  std::vector<Complex64> a(2 * kTerms, {1, 2}), b(3 * kTerms, {3, -1});
  Complex64 sum{};
  kernels::run_matmul(
      View{reinterpret_cast<char*>(a.data()), c64, {1, 1, kTerms}, {0, kSize, 2 * kSize}},
      View{reinterpret_cast<char*>(b.data()), c64, {1, kTerms, 1}, {0, 3 * kSize, kSize}},
      contiguous_view(&sum, c64, Shape{1, 1, 1}));
  EXPECT_EQ(sum.re, 5.0F * kTerms);
  EXPECT_EQ(sum.im, 5.0F * kTerms);
}

TEST(MatmulTypes, KnowBoolSmallFloatsAndComplex) {
  bool p[] = {true, false, true, true}, q[] = {false, true, false, true}, r[4];
  kernels::run_matmul(contiguous_view(p, boolean, Shape{1, 2, 2}),
                      contiguous_view(q, boolean, Shape{1, 2, 2}),
                      contiguous_view(r, boolean, Shape{1, 2, 2}));
  EXPECT_EQ((std::vector<bool>(r, r + 4)), (std::vector<bool>{false, true, false, true}));

  Complex64 x[] = {{1, 2}, {0, 1}}, y[] = {{3, -1}, {2, 0}}, z;
  kernels::run_matmul(contiguous_view(x, c64, Shape{1, 1, 2}),
                      contiguous_view(y, c64, Shape{1, 2, 1}),
                      contiguous_view(&z, c64, Shape{1, 1, 1}));
  EXPECT_EQ(z.re, 5.0f);
  EXPECT_EQ(z.im, 7.0f);

  std::vector<float> f = {1, 2, 3, 4}, g(4);
  std::vector<std::uint16_t> h(4), product(4);
  kernels::run_convert(contiguous_view(f.data(), f32, Shape{4}),
                       contiguous_view(h.data(), bf16, Shape{4}));
  const View matrix = contiguous_view(h.data(), bf16, Shape{1, 2, 2});
  kernels::run_matmul(matrix, matrix, contiguous_view(product.data(), bf16, Shape{1, 2, 2}));
  kernels::run_convert(contiguous_view(product.data(), bf16, Shape{4}),
                       contiguous_view(g.data(), f32, Shape{4}));
  EXPECT_EQ(g, (std::vector<float>{7, 10, 15, 22}));
}

}  // namespace
