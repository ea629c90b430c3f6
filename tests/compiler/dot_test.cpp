// dot_general: every layout, batches, vectors, integers; the runtime's product when large, loops when small.
#include <gmock/gmock.h>

#include <limits>
#include <regex>
#include <string>

#include "runtime/target_isa.hpp"
#include "support.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

/// Whole numbers, among which are the least ones of 16 bits.
Array with_least(const Shape& shape, DType dtype) {
  const Array all = lax::iota(DType::i64, shape, 0) * 77 + lax::iota(DType::i64, shape, 1);
  const Array some = where(lax::bitwise_and(all, 4) == 0, all * 31, -32768);
  return lax::convert_element_type(some, dtype);
}
/// Rows times columns, with sums of this type.
Program product_summed_in(DType sum) {
  return [sum](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_contracting = {1};
    dn.rhs_contracting = {0};
    return Arrays{lax::dot_general(x[0], x[1], dn, sum)};
  };
}

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

// Lanes along the contraction, the sums of up to four rows and as many columns at a time; the last terms are fewer than
// there are lanes. As many terms as these are not worth a transpose.
TEST(CompiledDot, TilesOfSumsAlongTheContractionAreRight) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
      for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9})
        check_product(m, 151, n, dtype, false, true);
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

// Two terms at a time; of the least numbers, whose sums wrap around, too.
TEST(CompiledDot, ProductsOfShortIntegersAreAddedInPairs) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u16}) {
    for (const DType sum : {DType::i32, DType::u32}) {
      for (const std::int64_t k : {1, 2, 35, 64}) {
        const Program f = product_summed_in(sum);
        for (const std::int64_t n : {3, 16, 53}) {
          const Compiled e = check(f, {with_least({13, k}, dtype), with_least({k, n}, dtype)});
#if defined(__x86_64__)
          const std::string& ir = e->text("ir");
          const bool pairs = ir.find(".pmadd") != std::string::npos,
                     quads = ir.find(".vpdpbusd") != std::string::npos;
          EXPECT_EQ(pairs || quads, dtype != DType::u16 && k > 1) << ir;
#endif
        }
      }
    }
  }
}

// Four terms of bytes at a time where the processor has an instruction for it, which takes one side without a sign: of the
// least and greatest numbers, too, and where the terms are no multiple of four, or of whole vectors of them.
TEST(CompiledDot, ProductsOfBytesAreAddedInFours) {
  for (const DType dtype : {DType::i8, DType::u8}) {
    for (const DType sum : {DType::i32, dtype}) {
      for (const std::int64_t k : {8, 9, 63, 64, 67, 131, 200}) {
        const auto numbers = [dtype](const Shape& shape) {
          const Array all = lax::iota(DType::i64, shape, 0) * 77 + lax::iota(DType::i64, shape, 1);
          const Array some = where(lax::bitwise_and(all, 4) == 0, all * 31,
                                   where(lax::bitwise_and(all, 8) == 0, -128, 127));
          return lax::convert_element_type(some, dtype);
        };
        const Program f = product_summed_in(sum);
        for (const std::int64_t n : {3, 8, 16, 53, 128}) {
          for (const std::int64_t m : {3, 13}) {
            const Compiled e = check(f, {numbers({m, k}), numbers({k, n})});
#if defined(__x86_64__)
            if (n >= 16 && runtime::target_isa() == runtime::Isa::avx512 &&
                __builtin_cpu_supports("avx512vnni")) {
              EXPECT_NE(e->text("ir").find(".vpdpbusd"), std::string::npos) << e->text("ir");
            }
#endif
          }
        }
      }
    }
  }
}

// The same along the contraction, where the right operand is transposed for it, and the rest one by one.
TEST(CompiledDot, FewColumnsOfIntegersAreSumsOverLanes) {
  const std::vector<std::pair<DType, DType>> types{
      {DType::i8, DType::i32},  {DType::u8, DType::u32},  {DType::i16, DType::i32},
      {DType::u16, DType::u32}, {DType::i32, DType::i32}, {DType::i64, DType::i64},
      {DType::i8, DType::i8},   {DType::i16, DType::i64}};
  for (const auto& [dtype, sum] : types) {
    for (const std::int64_t k :
         {127, 128, 191, 257, 1024}) {  // rows of 1,024 lie in the same places
      for (const std::int64_t n : {2, 3, 8, 12, 16, 17}) {
        const Program f = product_summed_in(sum);
        const Compiled e = check(f, {with_least({13, k}, dtype), with_least({k, n}, dtype)});
        const bool transposed = e->text("jaxpr").find("transpose") != std::string::npos;
        if (n == 2 && runtime::target_vector_bytes() > 16) EXPECT_EQ(transposed, k >= 128) << k;
#if defined(__x86_64__)
        // Four bytes at a time are worth as much either way, and sums over lanes are not.
        if (n == 12 && dtype == DType::i8 && sum == DType::i32 &&
            runtime::target_isa() == runtime::Isa::avx512)
          EXPECT_EQ(transposed, k >= 128 && !__builtin_cpu_supports("avx512vnni")) << k;
#endif
      }
    }
  }
}

// One row of integers times a matrix that is large, by its rows from end to end; and the transpose of that.
TEST(CompiledDot, RowsOfLargeMatricesOfIntegersAreFollowed) {
  const std::vector<std::pair<DType, DType>> types{
      {DType::i8, DType::i32},  {DType::u8, DType::u8},   {DType::i8, DType::i16},
      {DType::i16, DType::i16}, {DType::u16, DType::u16}, {DType::i8, DType::bool_},
      {DType::u32, DType::u32}, {DType::i64, DType::i64}};
  for (const auto& [dtype, sum] : types) {
    for (const auto& [k, n] : {std::pair{605, 2011}, {1021, 1040}}) {
      const auto numbers = [dtype](const Shape& shape, std::int64_t step) {
        const Array all = lax::iota(DType::i64, shape, 0) * step + lax::iota(DType::i64, shape, 1);
        return lax::convert_element_type(all * 31, dtype);
      };
      for (const bool turned : {false, true}) {
        DotDimensionNumbers dn;
        dn.lhs_contracting = {turned ? 0 : 1};
        dn.rhs_contracting = {0};
        const Program f = [&](std::span<const Array> x) {
          return Arrays{lax::dot_general(x[turned ? 1 : 0], x[turned ? 0 : 1], dn, sum)};
        };
        const Compiled e =
            check(f, {numbers({turned ? k : 1, turned ? 1 : k}, 77), numbers({k, n}, 131)});
#if defined(__x86_64__)
        // Sums of 16 bits need no pairs.
        EXPECT_EQ(e->text("ir").find(".pmadd") != std::string::npos, sum == DType::i32);
#endif
      }
    }
  }
}

// In tiles of whole vectors with AVX2: of 16 columns, which the least numbers and their sums wrap around in, too.
TEST(CompiledDot, SumsOfSixteenBitsWrapAround) {
  const std::vector<std::pair<DType, DType>> types{
      {DType::i8, DType::i8},  {DType::u8, DType::u8},   {DType::i8, DType::i16},
      {DType::u8, DType::u16}, {DType::i16, DType::i16}, {DType::u16, DType::u16},
      {DType::i16, DType::u8}, {DType::i16, DType::i32}};
  for (const auto& [dtype, sum] : types) {
    for (const std::int64_t n : {16, 24, 64, 160}) {
      for (const std::int64_t k : {1, 2, 35}) {
        const Program f = product_summed_in(sum);
        for (const std::int64_t m : {1, 2, 13}) {
          const Compiled e = check(f, {with_least({m, k}, dtype), with_least({k, n}, dtype)});
#if defined(__x86_64__)
          if (k > 1 && dtype != DType::u16 && runtime::target_isa() == runtime::Isa::avx2) {
            const bool pairs = e->text("ir").find(".pmadd") != std::string::npos;
            EXPECT_EQ(pairs, sum == DType::i32 || n % 16 != 0) << n;
          }
#endif
        }
      }
    }
  }
}

// Batches that come last: the terms of each product lie apart, which are no pairs. Nor are those that become truth values.
TEST(CompiledDot, TermsThatLieApartAreMultipliedOneByOne) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16}) {
    for (const std::int64_t k : {64, 300}) {
      const Array x = uniform({k, 3}, dtype, -99, 99, 1), y = uniform({k, 3}, dtype, -99, 99, 2),
                  z = uniform({3, k}, dtype, -99, 99, 3);
      DotDimensionNumbers last, mixed;
      last.lhs_contracting = last.rhs_contracting = {0};
      last.lhs_batch = last.rhs_batch = {1};
      mixed = last;
      mixed.rhs_contracting = {1};
      mixed.rhs_batch = {0};
      check(
          [&](std::span<const Array> a) {
            return Arrays{lax::dot_general(a[0], a[1], last, DType::i32),
                          lax::dot_general(a[0], a[1], last, dtype),
                          lax::dot_general(a[0], a[2], mixed, DType::i32)};
          },
          {x, y, z});
    }
  }
  DotDimensionNumbers dn;
  dn.lhs_contracting = {1};
  dn.rhs_contracting = {0};
  check(
      [&](std::span<const Array> a) {
        return Arrays{lax::dot_general(a[0], a[1], dn, DType::bool_)};
      },
      {uniform({50, 300}, DType::i8, -2, 2, 1), uniform({300, 70}, DType::i8, -2, 2, 2)});
}

TEST(CompiledDot, EmptyContractionsGiveZeros) {
  check_product(3, 0, 5, DType::f32, false, false);
  check_product(0, 3, 5, DType::f32, false, false);
}

Arrays product_of_rows(std::span<const Array> x) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = {1};
  dn.rhs_contracting = {0};
  return {lax::dot_general(x[0], x[1], dn)};
}

// Tiles of registers of one size or of two that differ by one, each way, the last strip of columns with all its
// lanes or with some: every element is the sum that the runtime's product gives, bit for bit.
TEST(CompiledDot, TilesOfEverySizeGiveTheBitsOfTheRuntime) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t m : {1, 3, 24, 37}) {
      for (const std::int64_t n : {2, 17, 47, 64, 131}) {
        for (const std::int64_t k : {1, 31}) {
          const Array a = uniform({m, k}, dtype, -3, 3, 1), b = uniform({k, n}, dtype, -3, 3, 2);
          const Compiled compiled = compile(stage(product_of_rows, {a, b}),
                                            {.name = "loops", .disabled = {"matmul", "simplify"}});
          const std::vector<double> loops = execute(compiled, {a, b})[0].to_vector<double>();
          ASSERT_EQ(loops, product_of_rows(Arrays{a, b})[0].to_vector<double>())
              << m << 'x' << k << 'x' << n << ' ' << short_name(dtype);
        }
      }
    }
  }
}

// Products of which each is one multiplication are no sums; others stay what they are.
TEST(CompiledDot, WithoutSumsAreMultiplications) {
  struct Case {
    Shape lhs, rhs;
    DotDimensionNumbers dn;
    bool multiplies = true;
  };
  const std::vector<Case> cases = {
      {{40}, {30}, {}},
      {{40, 1}, {1, 30}, {{1}, {0}, {}, {}}},
      {{1, 7, 1, 5}, {1, 6, 1}, {{0, 2}, {2, 0}, {}, {}}},
      {{3, 4, 5}, {5, 6, 3}, {{}, {}, {2, 0}, {0, 2}}},
      {{3, 1, 4, 5}, {5, 6, 1, 3}, {{1}, {2}, {3, 0}, {0, 3}}},
      {{0, 1}, {1, 30}, {{1}, {0}, {}, {}}},
      {{40, 0}, {0, 30}, {{1}, {0}, {}, {}}, false},
      {{40, 2}, {2, 30}, {{1}, {0}, {}, {}}, false},
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::f16, DType::bool_}) {
    for (const Case& c : cases) {
      const auto f = [&](std::span<const Array> x) {
        return Arrays{lax::dot_general(x[0], x[1], c.dn)};
      };
      const Array a = uniform(c.lhs, dtype, -2, 2, 1), b = uniform(c.rhs, dtype, -2, 2, 2);
      const Compiled e = check(f, {a, b});
      if (dtype == DType::f16) continue;  // may be f32 by then
      const bool multiplies = c.multiplies && dtype != DType::bool_;
      EXPECT_EQ(e->text("jaxpr").find("dot_general") == std::string::npos, multiplies)
          << e->text("jaxpr");
    }
  }
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
}

// In tiles of registers loops are as fast up to 64 x 64 x 64; else the call pays earlier.
TEST(CompiledDot, LoopsDoWhatTheyAreFastFor) {
  const auto library_calls = [](std::int64_t m, std::int64_t k, std::int64_t n, bool transposed) {
    const Program f = [transposed](std::span<const Array> x) {
      DotDimensionNumbers dn;
      dn.lhs_contracting = {1};
      dn.rhs_contracting = {transposed ? 1 : 0};
      return Arrays{lax::dot_general(x[0], x[1], dn)};
    };
    const Array a = uniform({m, k}, DType::f32),
                b = uniform(transposed ? Shape{n, k} : Shape{k, n}, DType::f32);
    return compile(stage(f, {a, b}))->info().library_calls;
  };
  EXPECT_EQ(library_calls(32, 32, 32, false), 0);
  EXPECT_EQ(library_calls(64, 64, 64, false), 0);
  EXPECT_EQ(library_calls(65, 64, 64, false), 1);
  EXPECT_EQ(library_calls(32, 32, 32, true), 0);
  EXPECT_EQ(library_calls(64, 64, 64, true), 1);
  EXPECT_EQ(library_calls(2, 300, 300, false), 1);
  // Of up to 16 terms, more: to pack them would be most of the work.
  for (const bool transposed : {false, true}) {
    EXPECT_EQ(library_calls(400, 16, 600, transposed), 0);
    EXPECT_EQ(library_calls(400, 16, 700, transposed), 1);
    EXPECT_EQ(library_calls(400, 17, 50, transposed), 1);
  }
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

// Behind the terms lies an axis of one element, which says nothing about where the columns lie.
TEST(CompiledDot, ColumnsWithAnAxisOfOneElementBehindThemAreTransposedOnce) {
  const auto product = [](std::span<const Array> x) {
    return Arrays{lax::dot_general(x[0], x[0], {{2}, {2}, {1}, {1}})};
  };
  const Compiled executable = check(product, {uniform({33, 2, 12, 1}, DType::f64)}, 2, 1e4);
  EXPECT_NE(executable->text("plan").find("kernel loop transpose (2, 12, 33, 1)"),
            std::string::npos)
      << executable->text("plan");
}

// Small matrices are at their ends before a processor sees how they go on: each product asks for the next one's.
TEST(CompiledDot, LargeBatchesAskForWhatTheNextProductReads) {
  const Program batched = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_batch = dn.rhs_batch = {0};
    dn.lhs_contracting = {2};
    dn.rhs_contracting = {1};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  const auto asks = [&](std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n) {
    const Arrays inputs = {uniform({batch, m, k}, DType::f32),
                           uniform({batch, k, n}, DType::f32, -1, 1, 2)};
    const auto executable = check(batched, inputs, 1, 1e4);
    return executable->text("ir").find("call void @llvm.prefetch") != std::string::npos;
  };
  EXPECT_TRUE(asks(70, 64, 64, 64));
  EXPECT_TRUE(asks(130, 17, 64, 63));
  EXPECT_FALSE(asks(30, 64, 64, 64));     // they stay in the caches
  EXPECT_FALSE(asks(1'000, 16, 16, 16));  // a quarter of a page each
  // With the widest vectors there is no time to ask in.
  const bool widest = runtime::target_vector_bytes() == 64;
  EXPECT_EQ(asks(130, 2, 64, 64), !widest);
  EXPECT_EQ(asks(60, 256, 4, 64), !widest);
}

// What they read counts: the products of three numbers are little work.
TEST(CompiledDot, BatchesOfShortVectorsAreSharedByThreads) {
  const Program inner = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_batch = dn.rhs_batch = {0};
    dn.lhs_contracting = dn.rhs_contracting = {1};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  const Shape vectors{30'000, 4};
  const Arrays inputs = {uniform(vectors, DType::f64), uniform(vectors, DType::f64, -1, 1, 2)};
  const auto executable = check(inner, inputs, 1, 16);
  EXPECT_NE(executable->text("ir").find("telamon_jit_parallel"), std::string::npos);
  expect_same_for_any_number_of_threads(executable, inputs);
}

// Of one product threads share pieces of the rows or, where there are more of them, of the columns.
TEST(CompiledDot, PiecesOfOneProductAreSharedByThreads) {
  struct Case {
    std::int64_t m, k, n;
    bool by_columns;  ///< the right operand
  };
  for (const Case& c : {Case{301, 200, 200, false},
                        {3, 500, 3001, false},
                        {5, 2000, 701, true},
                        {1, 605, 4011, false},
                        {4001, 64, 1, true}}) {
    const Arrays inputs = {
        uniform({c.m, c.k}, DType::i32, -99, 99, 1),
        uniform(c.by_columns ? Shape{c.n, c.k} : Shape{c.k, c.n}, DType::i32, -99, 99, 2)};
    const Program f = [&](std::span<const Array> x) {
      DotDimensionNumbers dn;
      dn.lhs_contracting = {1};
      dn.rhs_contracting = {c.by_columns ? 1 : 0};
      return Arrays{lax::dot_general(x[0], x[1], dn)};
    };
    const auto executable = check(f, inputs);
    EXPECT_NE(executable->text("ir").find("telamon_jit_parallel("), std::string::npos) << c.m;
    expect_same_for_any_number_of_threads(executable, inputs);
  }
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

// ---- what follows a product ------------------------------------------------------------------------

Array times(const Array& a, const Array& b, Shape lhs = {1}, Shape rhs = {0}, Shape batch = {}) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = std::move(lhs);
  dn.rhs_contracting = std::move(rhs);
  dn.lhs_batch = batch;
  dn.rhs_batch = std::move(batch);
  return lax::dot_general(a, b, dn);
}
Array along(const Array& row, const Array& like) {
  return lax::broadcast_in_dim(row, like.shape(), {static_cast<std::int64_t>(like.ndim()) - 1});
}
Array relu(const Array& x) { return lax::max(x, lax::full_like(x, 0)); }

/// With the same bits, or but for so many ulps where sums take another order, whether what follows the product is done on its
/// tiles or in a kernel of its own.
void check_epilogue(const Program& f, const Arrays& inputs, int kernels, double ulps = 0) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled joined = compile(jaxpr);
  const Compiled apart = compile(jaxpr, {.name = "apart", .disabled = {"epilogues"}});
  const std::string what = jaxpr.to_string() + joined->text("plan");
  EXPECT_EQ(joined->info().kernels, kernels) << what;
  const Arrays got = execute(joined, inputs), want = execute(apart, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) expect_equal(got[i], want[i], ulps, what);
}

TEST(CompiledDot, CheapArithmeticOnItsResultsIsDoneOnTheTiles) {
  const Program layer = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return Arrays{relu(lax::add(y, along(x[2], y)))};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (const std::int64_t m : {2, 6, 13}) {
      for (const std::int64_t k : {2, 7, 32}) {
        for (const std::int64_t n : {5, 16, 37}) {
          check_epilogue(layer,
                         {uniform({m, k}, dtype, -3, 3, 1), uniform({k, n}, dtype, -3, 3, 2),
                          uniform({n}, dtype, -3, 3, 3)},
                         1);
        }
      }
    }
  }
}

TEST(CompiledDot, EpiloguesKnowTheirPlaceInBatchesAndAmongSeveralDimensionsOfRows) {
  const Program batched = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1], {2}, {1}, {0});
    return Arrays{lax::add(lax::mul(y, along(x[2], y)), x[3])};
  };
  check_epilogue(batched,
                 {uniform({5, 3, 4}, DType::f64), uniform({5, 4, 19}, DType::f64),
                  uniform({19}, DType::f64, -1, 1, 3), uniform({5, 3, 19}, DType::f64)},
                 1);
  // Rows of two dimensions, each of which has a number of its own.
  const Program rows = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1], {2}, {0});
    return Arrays{lax::sub(y, lax::broadcast_in_dim(x[2], y.shape(), {0, 1})),
                  lax::mul(y, lax::broadcast_in_dim(x[3], y.shape(), {1}))};
  };
  check_epilogue(rows,
                 {uniform({3, 7, 4}, DType::f32), uniform({4, 18}, DType::f32),
                  uniform({3, 7}, DType::f32, -1, 1, 3), uniform({7}, DType::f32, -1, 1, 4)},
                 1);
  // A matrix, read by columns, and a vector: lanes along its rows.
  const Program column = [](std::span<const Array> x) {
    return Arrays{relu(lax::sub(times(x[0], x[1], {0}, {0}), x[2]))};
  };
  check_epilogue(column,
                 {uniform({9, 35}, DType::f32), uniform({9}, DType::f32, -1, 1, 2),
                  uniform({35}, DType::f32, -1, 1, 3)},
                 1);
}

TEST(CompiledDot, AResidualThatIsAnOperandTooIsNotOverwritten) {
  const Program f = [](std::span<const Array> x) {
    Array y = lax::sin(x[0]);
    for (int i = 1; i < 5; ++i) y = lax::add(y, times(y, x[static_cast<std::size_t>(i)]));
    return Arrays{y};
  };
  Arrays inputs = {uniform({12, 12}, DType::f32)};
  for (unsigned i = 1; i < 5; ++i) inputs.push_back(uniform({12, 12}, DType::f32, -1, 1, i + 1));
  check_epilogue(f, inputs, 5);
  // One that is needed here only may be.
  const Program g = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::sin(x[0]), times(x[0], x[1]))};
  };
  check_epilogue(g, {inputs[0], inputs[1]}, 2);
}

TEST(CompiledDot, WhatIsDearOrNeededElsewhereStaysAKernelOfItsOwn) {
  const Arrays small = {uniform({8, 8}, DType::f32), uniform({8, 8}, DType::f32, -1, 1, 2)};
  // Functions, which would be called for each vector of a tile.
  check_epilogue([](std::span<const Array> x) { return Arrays{lax::tanh(times(x[0], x[1]))}; },
                 small, 2);
  // A product that is itself a result, or that is read at other places.
  check_epilogue(
      [](std::span<const Array> x) {
        const Array y = times(x[0], x[1]);
        return Arrays{y, relu(y)};
      },
      small, 2);
  check_epilogue(
      [](std::span<const Array> x) {
        const Array y = times(x[0], x[1]);
        return Arrays{lax::add(y, lax::transpose(y, {1, 0}))};
      },
      small, 2);
  // Inner products, which come one by one.
  check_epilogue([](std::span<const Array> x) { return Arrays{relu(times(x[0], x[1], {1}, {1}))}; },
                 {uniform({8, 40}, DType::f32), uniform({8, 40}, DType::f32, -1, 1, 2)}, 2);
  // Large products, which are the runtime's.
  check_epilogue([](std::span<const Array> x) { return Arrays{relu(times(x[0], x[1]))}; },
                 {uniform({64, 64}, DType::f32), uniform({64, 64}, DType::f32)}, 1);
}

TEST(CompiledDot, FoldsOfItsRowsAreDoneOnTheTiles) {
  // The distances of points to their nearest centres.
  const Program nearest = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return Arrays{lax::reduce_min(lax::sub(along(x[2], y), lax::add(y, y)), {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i8}) {
    for (const std::int64_t m : {1, 13}) {
      for (const std::int64_t k : {2, 33}) {
        for (const std::int64_t n : {70, 100}) {
          check_epilogue(nearest,
                         {uniform({m, k}, dtype, -3, 3, 1), uniform({k, n}, dtype, -3, 3, 2),
                          uniform({n}, dtype, -3, 3, 3)},
                         1);
        }
      }
    }
  }
  // Sums beside extremes.
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Program rows = [](std::span<const Array> x) {
      const Array y = times(x[0], x[1]);
      const Array z = lax::add(y, along(x[2], y));
      return Arrays{lax::reduce_max(z, {1}), lax::neg(lax::reduce_sum(z, {1}))};
    };
    check_epilogue(rows,
                   {uniform({19, 7}, dtype, 1, 3, 1), uniform({7, 45}, dtype, 1, 3, 2),
                    uniform({45}, dtype, 1, 3, 3)},
                   1, is_float(dtype) ? 16 : 0);
  }
}

TEST(CompiledDot, FoldsOnTilesSeeNoColumnsThatAreNotThereAndAllThatAre) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Program f = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return Arrays{lax::reduce_max(y, {1}), lax::reduce_min(y, {1}),
                  lax::reduce_and(lax::lt(y, lax::full_like(y, 0)), {1})};
  };
  for (const std::int64_t n : {9, 21, 100}) {
    // Numbers below 0 alone: the zeros beside the last columns would be the largest.
    check_epilogue(
        f, {uniform({11, 4}, DType::f64, 1, 2, 1), uniform({4, n}, DType::f64, -2, -1, 2)}, 1);
    // In one row NaN, in one each infinity, in one both.
    std::vector<double> a(44, 1);
    a[4 * 2] = std::numeric_limits<double>::quiet_NaN();
    a[4 * 5] = kInfinity;
    a[4 * 7] = -kInfinity;
    a[4 * 9] = kInfinity;
    a[4 * 9 + 1] = -kInfinity;
    check_epilogue(f, {Array(a).reshape({11, 4}), uniform({4, n}, DType::f64, 1, 2, 2)}, 1);
  }
}

TEST(CompiledDot, FoldsOnTilesKnowTheirPlaceInBatchesAndAmongSeveralDimensionsOfRows) {
  const Program batched = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1], {2}, {1}, {0});
    return Arrays{lax::add(lax::reduce_max(lax::mul(y, x[2]), {2}), x[3])};
  };
  check_epilogue(batched,
                 {uniform({5, 3, 4}, DType::f64), uniform({5, 4, 19}, DType::f64),
                  uniform({5, 3, 19}, DType::f64), uniform({5, 3}, DType::f64)},
                 1);
  const Program rows = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1], {2}, {0});
    return Arrays{
        lax::reduce_min(lax::sub(y, lax::broadcast_in_dim(x[2], y.shape(), {0, 1})), {2})};
  };
  check_epilogue(rows,
                 {uniform({3, 7, 4}, DType::f32), uniform({4, 18}, DType::f32),
                  uniform({3, 7}, DType::f32, -1, 1, 3)},
                 1);
}

TEST(CompiledDot, AProductThatOthersReadIsStoredOnTheWayToAFold) {
  const Arrays inputs = {uniform({9, 8}, DType::f64), uniform({8, 21}, DType::f64, -1, 1, 2)};
  check_epilogue(
      [](std::span<const Array> x) {
        const Array y = times(x[0], x[1]);
        return Arrays{y, lax::reduce_min(y, {1})};
      },
      inputs, 1);
  // What needs the fold comes after it.
  check_epilogue(
      [](std::span<const Array> x) {
        const Array y = times(x[0], x[1]);
        const Array least = lax::broadcast_in_dim(lax::reduce_min(y, {1}), y.shape(), {0});
        return Arrays{lax::reduce_sum(lax::exp(lax::sub(least, y)), {1})};
      },
      inputs, 2);
  // Rows of one vector are better folded many at a time.
  check_epilogue(
      [](std::span<const Array> x) { return Arrays{lax::reduce_min(times(x[0], x[1]), {1})}; },
      {inputs[0], uniform({8, 8}, DType::f64)}, 2);
  // Another fold of the columns, and one that finds places, are kernels of their own.
  check_epilogue(
      [](std::span<const Array> x) { return Arrays{lax::reduce_min(times(x[0], x[1]), {0})}; },
      inputs, 2);
  check_epilogue(
      [](std::span<const Array> x) {
        return Arrays{lax::argmin(times(x[0], x[1]), 1, DType::i32)};
      },
      inputs, 2);
}

// Blocks of rows, whose products are nowhere as a whole, have them nowhere at all.
TEST(CompiledDot, BlocksOfRowsAreFoldedOnTheTilesOfTheirProducts) {
  const Program f = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return Arrays{lax::reduce_min(lax::sub(along(x[2], y), y), {1})};
  };
  const Arrays inputs = {uniform({10'000, 8}, DType::f64), uniform({8, 100}, DType::f64, -1, 1, 2),
                         uniform({100}, DType::f64, -1, 1, 3)};
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled joined = compile(jaxpr);
  const Compiled apart = compile(jaxpr, {.name = "apart", .disabled = {"epilogues"}});
  EXPECT_LT(joined->info().arena_bytes, 64U << 10) << joined->text("plan");
  EXPECT_GT(apart->info().arena_bytes, 64U << 10);
  expect_equal(execute(joined, inputs)[0], execute(apart, inputs)[0], 0, joined->text("plan"));
}

// Threads share the rows of one product, with folds of them and what follows it.
TEST(CompiledDot, ThreadsShareTheRowsOfOneProduct) {
  const Program f = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return Arrays{lax::add(y, along(x[2], y)), lax::reduce_min(y, {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t m : {5000, 10'007}) {
      const Arrays inputs = {uniform({m, 16}, dtype), uniform({16, 21}, dtype, -1, 1, 2),
                             uniform({21}, dtype, -1, 1, 3)};
      const Compiled compiled = compile(stage(f, inputs));
      EXPECT_EQ(compiled->info().library_calls, 0);
      EXPECT_THAT(compiled->text("ir"), ::testing::HasSubstr("telamon_jit_parallel("));
      const Arrays want = f(inputs);
      for (int threads = 1; threads <= 4; ++threads) {
        const WithThreads scope(threads);
        const Arrays got = execute(compiled, inputs);
        for (std::size_t i = 0; i < got.size(); ++i)
          expect_equal(got[i], want[i], 0, std::to_string(threads));
      }
    }
  }
}

/// The least of each row of x, how many elements are that, and the sum of what stands in `row` at their places.
Arrays counts_and_places(const Array& x, const Array& row) {
  const Array least = lax::reduce_min(x, {1});
  const Array mask = lax::eq(x, lax::broadcast_in_dim(least, x.shape(), {0}));
  const Array places = lax::select_n(mask, Arrays{lax::full_like(x, 0), along(row, x)});
  return {least, lax::reduce_sum(lax::convert_element_type(mask, x.dtype()), {1}),
          lax::reduce_sum(places, {1})};
}

TEST(CompiledDot, WhatStandsAtExtremesIsSummedOnTheTilesAsTheseAreFound) {
  const Program f = [](std::span<const Array> x) {
    const Array y = times(x[0], x[1]);
    return counts_and_places(lax::sub(along(x[2], y), lax::add(y, y)), x[3]);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i8}) {
    for (const std::int64_t m : {1, 13, 50}) {
      for (const std::int64_t n : {70, 100}) {
        // Whole numbers: many are as small.
        const auto whole = [&](const Shape& shape, int seed) {
          return lax::convert_element_type(
              lax::round(uniform(shape, DType::f64, -2, 2, static_cast<unsigned>(seed))), dtype);
        };
        check_epilogue(f, {whole({m, 3}, 1), whole({3, n}, 2), whole({n}, 3), whole({n}, 4)}, 1);
        check_epilogue(f,
                       {uniform({m, 3}, dtype, -9, 9, 1), uniform({3, n}, dtype, -9, 9, 2),
                        uniform({n}, dtype, -9, 9, 3), uniform({n}, dtype, -9, 9, 4)},
                       1);
      }
    }
  }
}

TEST(CompiledDot, ProductsOfWhichOnlyExtremesAreWantedAreNotStored) {
  const Program f = [](std::span<const Array> x) {
    return counts_and_places(times(x[0], x[1]), x[2]);
  };
  const Compiled e = check(f,
                           {uniform({50, 6}, DType::f32), uniform({6, 67}, DType::f32, -1, 1, 2),
                            uniform({67}, DType::f32, -1, 1, 3)},
                           1, 16);
  EXPECT_EQ(e->info().arena_bytes, 0U) << e->text("plan");
}

TEST(CompiledDot, NothingStandsAtExtremesThatAreNaN) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  const Program f = [](std::span<const Array> x) {
    return counts_and_places(times(x[0], x[1]), x[2]);
  };
  for (const std::int64_t n : {9, 21, 100}) {
    std::vector<double> a(44, 1), b(static_cast<std::size_t>(4 * n), 1);
    const Array row = lax::round(uniform({n}, DType::f64, -9, 9));
    a[4 * 2] = kNaN;  // all of a row
    a[4 * 5] = kInfinity;
    a[4 * 7] = -kInfinity;
    a[4 * 8] = -0.0;
    check_epilogue(f, {Array(a).reshape({11, 4}), Array(b).reshape({4, n}), row}, 1);
    b[static_cast<std::size_t>(n / 2)] = kNaN;  // one in each row
    check_epilogue(f, {Array(a).reshape({11, 4}), Array(b).reshape({4, n}), row}, 1);
    b[static_cast<std::size_t>(n / 2)] = kInfinity;
    b[static_cast<std::size_t>(n - 1)] = -kInfinity;
    check_epilogue(f, {Array(a).reshape({11, 4}), Array(b).reshape({4, n}), row}, 1);
  }
}

TEST(CompiledDot, WhatNeedsExtremesOtherwiseIsNotSummedWithThem) {
  const Arrays inputs = {uniform({9, 8}, DType::f64), uniform({8, 21}, DType::f64, -1, 1, 2)};
  // What is summed there depends on the extreme.
  check_epilogue(
      [](std::span<const Array> x) {
        const Array y = times(x[0], x[1]);
        const Array least = lax::broadcast_in_dim(lax::reduce_min(y, {1}), y.shape(), {0});
        return Arrays{lax::reduce_sum(
            lax::select_n(lax::eq(y, least), Arrays{lax::full_like(y, 0), lax::mul(least, y)}),
            {1})};
      },
      inputs, 2, 4);
  // It is no sum of zeros else; or the extreme is that of something else.
  for (const bool of_other : {false, true}) {
    check_epilogue(
        [of_other](std::span<const Array> x) {
          const Array y = times(x[0], x[1]), compared = of_other ? lax::neg(y) : y;
          const Array least = lax::broadcast_in_dim(lax::reduce_min(y, {1}), y.shape(), {0});
          const Array chosen = lax::select_n(lax::eq(compared, least),
                                             Arrays{lax::full_like(y, of_other ? 0 : 1), y});
          return Arrays{lax::reduce_sum(chosen, {1})};
        },
        inputs, 2, 4);
  }
}

// One row times a matrix: threads go through long pieces of all rows of that.
TEST(CompiledDot, SharesLongPiecesOfTheRowsOfAMatrix) {
  const std::regex call(
      R"(@telamon_jit_parallel\([^)]*, i64 (\d+), i64 (\d+), i64 0, i64 0, i64 0\))");
  for (const DType dtype : {DType::i8, DType::i16, DType::i32}) {
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    for (const std::int64_t n : {500 / bytes, 2100 / bytes, 3000 / bytes, std::int64_t{16384}}) {
      const std::int64_t k = (2 << 20) / (n * bytes);
      const Arrays inputs{with_least({1, k}, dtype), with_least({k, n}, dtype)};
      const auto executable = compile(stage(product_summed_in(dtype), inputs));
      const std::string ir = executable->text("ir");
      std::smatch m;
      const bool is_shared = std::regex_search(ir, m, call);
      EXPECT_EQ(is_shared, n * bytes >= 2048) << n;
      if (is_shared) {
        const std::int64_t extent = std::stoll(m[1]), grain = std::stoll(m[2]);
        EXPECT_GE(n * bytes * grain / extent, 1000) << n;
      }
      expect_same_for_any_number_of_threads(executable, inputs);
    }
  }
}

}  // namespace
}  // namespace telamon::testing
