// Transposes: tiles in registers, borders, several dimensions, with work before, after and beside.
#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/cpu.hpp"
#include "support.hpp"
#include "telamon/control_flow.hpp"

namespace telamon::testing {
namespace {

Program transposed(const Shape& order) {
  return [order](std::span<const Array> x) { return Arrays{lax::transpose(x[0], order)}; };
}

TEST(CompiledTranspose, MovesEveryElementWhateverTheShape) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::bool_}) {
    for (const Shape& shape : {Shape{16, 16}, Shape{64, 32}, Shape{37, 53}, Shape{8, 200},
                               Shape{200, 3}, Shape{1, 40}, Shape{33, 1}, Shape{500, 301}}) {
      check(transposed({1, 0}), {uniform(shape, dtype, 0, 100)}, 1);
    }
    for (const Shape& order :
         {Shape{0, 2, 1}, Shape{1, 0, 2}, Shape{1, 2, 0}, Shape{2, 0, 1}, Shape{2, 1, 0}}) {
      check(transposed(order), {uniform({18, 35, 20}, dtype, 0, 100)});
      check(transposed(order), {uniform({1, 35, 20}, dtype, 0, 100)});
    }
  }
}

// Joined and padded rows are read part by part, without a choice for each lane, wherever chunks end.
TEST(CompiledTranspose, OfJoinedRowsGoesPartByPart) {
  const auto joined = [](std::span<const Array> x) {
    return Arrays{lax::transpose(lax::neg(lax::concatenate(Arrays{x[0], x[1], x[0]}, 1)), {1, 0})};
  };
  const auto padded = [](std::span<const Array> x) {
    const Array all = lax::pad(x[0], lax::full({}, x[0].dtype(), 7), {{0, 0, 0}, {21, 5, 0}});
    return Arrays{lax::transpose(all, {1, 0}), lax::transpose(all, {1, 0})};
  };
  const auto in_batches = [](std::span<const Array> x) {
    return Arrays{lax::transpose(lax::concatenate(Arrays{x[0], x[1]}, 2), {0, 2, 1})};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i8}) {
    for (const std::int64_t rows : {9, 1003}) {
      for (const std::int64_t n : {5, 31, 128}) {
        const Arrays x{uniform({rows, n}, dtype, 0, 100), uniform({rows, 40}, dtype, 0, 100)};
        for (const Program& f : {Program(joined), Program(padded)}) {
          const Compiled code = check(f, x);
          if (rows == 1003) expect_same_for_any_number_of_threads(code, x);
        }
        check(in_batches, {uniform({3, rows, n}, dtype), uniform({3, rows, 2 * n}, dtype)});
      }
    }
  }
  const Arrays wide{uniform({9, 70'001}, DType::f32), uniform({9, 40'000}, DType::f32)};
  expect_same_for_any_number_of_threads(check(joined, wide), wide);
  const Compiled code =
      check(joined, {uniform({50, 31}, DType::f32), uniform({50, 40}, DType::f32)});
  EXPECT_EQ(code->text("ir").find("select <"), std::string::npos);
}

// Rows that are turned around are squares whose columns come from the last to the first: nothing is turned in registers.
TEST(CompiledTranspose, OfReversedRowsTakesColumnsFromTheLastToTheFirst) {
  const auto shuffles = [](const Program& f, const Arrays& x) {
    const std::string code = check(f, x, 1)->text("asm");
    std::size_t found = 0;
    for (const std::string name : {"vperm", "vpshufb"})
      for (std::size_t at = 0; (at = code.find(name, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  const auto reversed = [](std::span<const Array> x) {
    return Arrays{lax::transpose(lax::rev(x[0], {1}), {1, 0})};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::bool_}) {
    for (const Shape& shape : {Shape{300, 45}, Shape{64, 64}, Shape{40, 9}}) {
      const Arrays x{uniform(shape, dtype, 0, 100)};
      const std::size_t of_turned = shuffles(reversed, x);
      if (dtype == DType::f32) { EXPECT_LE(of_turned, shuffles(transposed({1, 0}), x) + 4); }
    }
  }
}

// Short rows are read as columns of whole vectors, whatever vectors leave over, in batches and seen as other shapes, too.
TEST(CompiledTranspose, OfShortRowsReadsThemAsColumns) {
  const auto twice = [](std::span<const Array> x) {
    const Array t = lax::transpose(x[0], {1, 0});
    return Arrays{lax::add(t, lax::transpose(x[1], {1, 0})), t,
                  lax::transpose(lax::reshape(x[0], {1, x[0].shape(0), x[0].shape(1)}), {0, 2, 1})};
  };
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i64, DType::u8, DType::bf16, DType::bool_}) {
    for (std::int64_t k = 2; k <= 9; ++k) {
      for (const std::int64_t n : {5, 64, 83, 600}) {
        const Array x = uniform({n, k}, dtype, 0, 100);
        check(transposed({1, 0}), {x});
        check(transposed({0, 2, 1}), {uniform({3, n, k}, dtype, 0, 100)});
        check(transposed({2, 0, 1}), {uniform({3, n, k}, dtype, 0, 100)});
        if (dtype != DType::bool_) check(twice, {x, uniform({n, k}, dtype, 0, 100)});
      }
    }
  }
  check(transposed({1, 0}), {uniform({300'001, 5}, DType::f32)});
  check(transposed({1, 0}), {uniform({1'200'000, 3}, DType::f64)});  // past the caches
  check(transposed({0, 2, 1}), {uniform({70, 1003, 6}, DType::f32)});
}

TEST(CompiledTranspose, TakesWorkBeforeBesideAndAfterIntoItsKernel) {
  check(
      [](std::span<const Array> x) {
        const Array t = lax::transpose(lax::mul(x[0], x[0]), {1, 0});
        return Arrays{lax::add(lax::mul(t, x[1]), t), lax::sub(t, x[1])};
      },
      {uniform({70, 45}, DType::f32), uniform({45, 70}, DType::f32)});
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::add(lax::transpose(x[0], {1, 0}), lax::transpose(x[1], {1, 0}))};
      },
      {uniform({70, 45}, DType::f64), uniform({70, 45}, DType::f64)}, 1);
  check(  // a symmetric part: the same operand both ways
      [](std::span<const Array> x) { return Arrays{lax::add(x[0], lax::transpose(x[0], {1, 0}))}; },
      {uniform({100, 100}, DType::f32)}, 1);
}

TEST(CompiledTranspose, IsTheSameInChunks) {
  check(transposed({1, 0}), {uniform({1003, 2001}, DType::f32)}, 1);
  check(transposed({2, 1, 0}), {uniform({70, 90, 110}, DType::f64)}, 1);
  check(transposed({1, 0}), {uniform({50'001, 30}, DType::f32)}, 1);
  // A few long rows are cut along them, wherever their last tile ends.
  for (const DType dtype : {DType::u8, DType::i16, DType::f32, DType::f64}) {
    for (const std::int64_t k : {3, 5, 11, 31}) {
      for (const std::int64_t n : {100'000, 100'003, 65'600})
        check(transposed({1, 0}), {uniform({n, k}, dtype, 0, 100)}, 1);
    }
  }
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::exp(lax::add(lax::transpose(x[0], {1, 0}), x[1]))};
      },
      {uniform({70'001, 3}, DType::f32), uniform({3, 70'001}, DType::f32)}, 1, 4);
}

// Large results of one thread are written past the caches, some lines of each row after the other: rows of an odd number
// of lines, and what is left of the rows, are there too.
TEST(CompiledTranspose, GoesAroundTheCaches) {
  const Program with_work = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::transpose(lax::mul(x[0], x[0]), {1, 0}), lax::exp(x[1]))};
  };
  const Program beside = [](std::span<const Array> x) {
    return Arrays{lax::sub(lax::transpose(x[0], {1, 0}), x[1])};
  };
  const telamon_test::WithThreads scope(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::i32})
    check(transposed({1, 0}), {uniform({1040, 1030}, dtype, 0, 100)}, 1);
  check(transposed({1, 0}), {uniform({2064, 2050}, DType::u8, 0, 100)}, 1);
  // The last line of a row is begun.
  check(transposed({1, 0}), {uniform({1048, 2101}, DType::f32)}, 1);
  check(transposed({1, 0}), {uniform({1044, 2101}, DType::f64)}, 1);
  check(transposed({2, 1, 0}), {uniform({1040, 5, 230}, DType::f32)}, 1);
  check(transposed({0, 2, 1}), {uniform({3, 1040, 401}, DType::f32)}, 1);
  for (const Program& f : {with_work, beside})
    check(f, {uniform({1040, 2101}, DType::f32), uniform({2101, 1040}, DType::f32)});
  // What takes more than half of the last cache.
  const auto rows = [](std::int64_t columns, std::int64_t arrays) {
    return (runtime::last_cache_bytes() / 2 / (4 * arrays * columns) / 16 + 1) * 16;
  };
  const Arrays x{uniform({std::max<std::int64_t>(1040, rows(1030, 2)), 1030}, DType::f32)};
  EXPECT_NE(compile(stage(transposed({1, 0}), x))->text("ir").find("nontemporal"),
            std::string::npos);
  // Lines of several vectors do not where as much is read beside.
  const std::int64_t n = std::max<std::int64_t>(1040, rows(2101, 3));
  const Arrays both{uniform({n, 2101}, DType::f32), uniform({2101, n}, DType::f32)};
  const bool around =
      compile(stage(beside, both))->text("ir").find("nontemporal") != std::string::npos;
  EXPECT_EQ(around, runtime::host_isa() == runtime::Isa::avx512);
}

// So do chunks of several threads where all of it is more than the last cache holds, up to a size that tests can afford.
TEST(CompiledTranspose, GoesAroundTheCachesInChunks) {
  const std::int64_t columns = 2064,
                     most = std::min<std::int64_t>(runtime::last_cache_bytes(), 64 << 20),
                     rows = most * 5 / 8 / 4 / columns + 35;
  check(transposed({1, 0}), {uniform({columns, rows}, DType::f32)}, 1);
}

// Across its rows, or along them where they are few.
TEST(CompiledTranspose, IsCutIntoChunksHoweverFewItsRowsAre) {
  for (const std::int64_t rows : {2, 7, 20, 30, 500}) {
    const Arrays x{uniform({100'000, rows}, DType::f32)};
    EXPECT_THAT(compile(stage(transposed({1, 0}), x))->text("ir"),
                ::testing::HasSubstr("telamon_jit_parallel"))
        << rows;
  }
}

// Matrices of a batch, however few, are not rows of a tile.
TEST(CompiledTranspose, OfAFewMatricesIsCutBetweenThem) {
  for (const std::int64_t matrices : {2, 5}) {
    const Arrays x{uniform({matrices, 64, 48, 40}, DType::f32)};
    for (const Shape& order : {Shape{0, 3, 1, 2}, Shape{0, 2, 3, 1}, Shape{0, 2, 1, 3}}) {
      const Compiled e = check(transposed(order), x, 1);
      EXPECT_THAT(e->text("ir"), ::testing::HasSubstr("telamon_jit_parallel"))
          << matrices << " " << order.to_string();
    }
  }
}

// Rows that follow each other where they come from are moved in blocks, of which the last may be shorter, as may be those of a
// chunk.
TEST(CompiledTranspose, OfShortRowsGoesByNeighbours) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::i16}) {
    for (const std::int64_t row : {1, 2, 3, 4, 7, 15, 16, 33}) {
      for (const std::int64_t n : {1, 5, 16, 43}) {
        const auto f = [](std::span<const Array> x) {
          return Arrays{lax::transpose(x[0], {1, 0, 2}), lax::transpose(x[1], {2, 0, 1, 3}),
                        lax::mul(lax::transpose(x[0], {1, 0, 2}),
                                 lax::transpose(lax::add(x[0], x[0]), {1, 0, 2}))};
        };
        check(f, {uniform({21, n, row}, dtype), uniform({3, 4, n, row}, dtype)}, -1, 0);
      }
    }
  }
  const auto large = [](std::span<const Array> x) {
    return Arrays{lax::transpose(x[0], {1, 0, 2})};
  };
  check(large, {uniform({50, 4001, 3}, DType::f32)}, -1, 0);
}

// In memory, the last axes are one where they stay side by side.
TEST(CompiledTranspose, OfAxesThatStayTogetherTurnsSquares) {
  const Array x = uniform({9, 5, 40}, DType::f32), y = uniform({6, 7, 8, 9}, DType::f64);
  for (const Shape& order : {Shape{2, 0, 1}, {1, 2, 0}, {0, 2, 1}, {2, 1, 0}})
    check([&](std::span<const Array> a) { return Arrays{lax::transpose(a[0], order)}; }, {x}, -1,
          0);
  for (const Shape& order :
       {Shape{2, 3, 0, 1}, {3, 0, 1, 2}, {1, 0, 2, 3}, {0, 2, 3, 1}, {3, 2, 0, 1}})
    check([&](std::span<const Array> a) { return Arrays{lax::transpose(a[0], order)}; }, {y}, -1,
          0);
  const auto f = [](std::span<const Array> a) {
    const auto step = [](const Array& c, const Array& row) {
      return std::pair{lax::tanh(lax::add(c, row)), lax::mul(lax::rev(c, {0}), row)};
    };
    const Array start = lax::full({5, 40}, DType::f32, 0.5);
    const Array rows = scan(step, start, a[0]).second;
    const Array turned = lax::transpose(a[0], {2, 0, 1});
    return Arrays{lax::transpose(rows, {2, 0, 1}), lax::add(turned, turned)};
  };
  const Compiled e = check(f, {x}, -1, 8);
  EXPECT_NE(e->text("jaxpr").find("f32[40,45] = transpose"), std::string::npos) << e->text("jaxpr");
}

// What kernels that are too large for tiles transpose is stored before, with what it takes to compute it.
TEST(CompiledTranspose, LargeKernelsReadWhatWasTransposed) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8}) {
    for (const Shape& shape : {Shape{70, 45}, Shape{300, 64}, Shape{9, 200}, Shape{16, 16}}) {
      const Program f = [](std::span<const Array> x) {
        Array y = lax::transpose(x[0], {1, 0}) + x[1];
        for (int i = 0; i < 5; ++i) y = y * x[1] + lax::full_like(y, 1 + i);
        Array z = x[0] + x[0];
        for (int i = 0; i < 5; ++i) z = z * x[0] - lax::full_like(z, 1 + i);
        return Arrays{y, lax::transpose(z, {1, 0}), lax::transpose(z, {1, 0}) * y};
      };
      const Shape turned{shape[1], shape[0]};
      const Compiled c =
          check(f, {uniform(shape, dtype, 0, 9), uniform(turned, dtype, 0, 9)}, -1, 0);
      if (shape.num_elements() >= 4096)
        EXPECT_EQ(c->text("plan").find("transpose_add_mul"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace telamon::testing
