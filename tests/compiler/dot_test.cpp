// dot_general: every layout, batches, vectors, integers; the runtime's product when large, loops when small.
#include "support.hpp"

namespace telamon::testing {
namespace {

// The contraction of the last axis of a with axis `k` of b, in double.
void check_product(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype, bool transpose_a,
                   bool transpose_b, CompileOptions options = {}) {
  const Array a = uniform(transpose_a ? Shape{k, m} : Shape{m, k}, dtype, -3, 3, 1);
  const Array b = uniform(transpose_b ? Shape{n, k} : Shape{k, n}, dtype, -3, 3, 2);
  DotDimensionNumbers dn;
  dn.lhs_contracting = {transpose_a ? 0 : 1};
  dn.rhs_contracting = {transpose_b ? 1 : 0};
  const Program f = [dn](std::span<const Array> x) {
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  const auto executable = compile(stage(f, {a, b}), options);
  const auto got = execute(executable, {a, b})[0].to_vector<double>();
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  ASSERT_EQ(got.size(), static_cast<std::size_t>(m * n));
  const double tolerance =
      is_float(dtype) ? static_cast<double>(k + 1) * (dtype == DType::f64 ? 1e-14 : 1e-5) : 0;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += x[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)] *
               y[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)];
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, tolerance)
          << m << 'x' << k << 'x' << n << ' ' << short_name(dtype) << transpose_a << transpose_b
          << " at " << i << ',' << j;
    }
  }
}

TEST(CompiledDot, ProductsOfEverySmallShapeAndLayoutAreRight) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const std::int64_t m : {1, 2, 7, 13}) {
          for (const std::int64_t k : {1, 3, 16, 35}) {
            for (const std::int64_t n : {1, 5, 16, 53}) check_product(m, k, n, dtype, ta, tb);
          }
        }
      }
    }
  }
}

// A row of a small matrix is a vector of its own, of which no lanes are masked.
TEST(CompiledDot, RowsOfFourAndEightNeedNoMask) {
  for (const std::int64_t n : {4, 8, 7}) {
    const Array a = uniform({n, n}, DType::f32);
    DotDimensionNumbers dn;
    dn.lhs_contracting = {1};
    dn.rhs_contracting = {0};
    const Jaxpr jaxpr = stage(
        [&](std::span<const Array> x) { return Arrays{lax::dot_general(x[0], x[0], dn)}; }, {a});
    EXPECT_EQ(compile(jaxpr)->text("ir").find("masked") != std::string::npos, n == 7);
  }
}

TEST(CompiledDot, EmptyContractionsGiveZeros) {
  check_product(3, 0, 5, DType::f32, false, false);
  check_product(0, 3, 5, DType::f32, false, false);
}

TEST(CompiledDot, LargeProductsGoToTheLibraryAndAgreeWithLoops) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    check_product(64, 80, 72, dtype, false, false);
    check_product(64, 80, 72, dtype, true, true);
    check_product(64, 80, 72, dtype, false, true,
                  {.contract = false, .name = "loops", .disabled = {"matmul"}});
    check_product(70, 65, 90, dtype, true, false,
                  {.contract = false, .name = "loops", .disabled = {"matmul"}});
  }
  const Program f = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_contracting = {1};
    dn.rhs_contracting = {0};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  EXPECT_EQ(compile(stage(f, {uniform({64, 64}, DType::f32), uniform({64, 64}, DType::f32)}))
                ->info()
                .library_calls,
            1);
  EXPECT_EQ(compile(stage(f, {uniform({32, 32}, DType::f32), uniform({32, 32}, DType::f32)}))
                ->info()
                .kernels,
            1);
}

TEST(CompiledDot, BatchesAndScatteredDimensionsAreRight) {
  const Program batched = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_batch = {0};
    dn.rhs_batch = {1};
    dn.lhs_contracting = {2};
    dn.rhs_contracting = {0};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  check(batched, {uniform({5, 3, 4}, DType::f64), uniform({4, 5, 19}, DType::f64)}, -1, 1e4);
  const Program scattered = [](std::span<const Array> x) {  // free, contracting, batch, contracting
    DotDimensionNumbers dn;
    dn.lhs_batch = {2};
    dn.rhs_batch = {0};
    dn.lhs_contracting = {1, 3};
    dn.rhs_contracting = {3, 1};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  check(scattered, {uniform({6, 3, 2, 5}, DType::f64), uniform({2, 5, 7, 3}, DType::f64)}, -1, 1e4);
}

TEST(CompiledDot, ProducersAndConsumersOfProductsWork) {
  check(
      [](std::span<const Array> x) {
        DotDimensionNumbers dn;
        dn.lhs_contracting = {1};
        dn.rhs_contracting = {0};
        const Array y = lax::dot_general(lax::tanh(x[0]), lax::transpose(x[1], {1, 0}), dn);
        return Arrays{lax::tanh(lax::add(y, lax::broadcast_in_dim(x[2], y.shape(), {1})))};
      },
      {uniform({9, 20}, DType::f64), uniform({11, 20}, DType::f64), uniform({11}, DType::f64)}, -1,
      1e5);
}

}  // namespace
}  // namespace telamon::testing
