// Reductions: rows, columns, everything; with producers and epilogues fused.
#include <bit>
#include <limits>
#include <regex>
#include <set>

#include "runtime/target_isa.hpp"
#include "support.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/threads.hpp"

namespace telamon::testing {
namespace {

Program sum(const Shape& axes) {
  return [axes](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], axes)}; };
}

// The sum of values in [-1, 1] is checked within n * eps.
void check_sum(const Shape& shape, const Shape& axes, DType dtype) {
  const Array x = uniform(shape, dtype, -1, 1);
  const auto executable = compile(stage(sum(axes), {x}));
  const auto got = execute(executable, {x})[0];
  const auto values = x.to_vector<double>();
  Shape reduced;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!axes.contains(d)) reduced.push_back(shape[static_cast<std::size_t>(d)]);
  }
  ASSERT_EQ(got.shape(), reduced);
  std::vector<double> want(static_cast<std::size_t>(reduced.num_elements()), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), to = 0, stride = 1;
    for (int d = shape.ndim() - 1; d >= 0; --d) {
      const std::int64_t n = shape[static_cast<std::size_t>(d)], at = rest % n;
      rest /= n;
      if (axes.contains(d)) continue;
      to += at * stride;
      stride *= n;
    }
    want[static_cast<std::size_t>(to)] += values[i];
  }
  const double eps =
      (dtype == DType::f64 ? 1e-15 : 1e-6) * static_cast<double>(shape.num_elements() + 1);
  const auto sums = got.to_vector<double>();
  for (std::size_t i = 0; i < sums.size(); ++i)
    ASSERT_NEAR(sums[i], want[i], eps) << shape.to_string() << axes.to_string() << i;
}

TEST(CompiledReduction, SumsOverAnyAxesAreRight) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& axes :
         {Shape{0}, Shape{1}, Shape{2}, Shape{0, 1}, Shape{1, 2}, Shape{0, 2}, Shape{0, 1, 2}}) {
      for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 17, 33}, Shape{5, 1, 70}, Shape{1, 1, 1},
                                 Shape{4, 3, 0}, Shape{70, 2, 1}}) {
        check_sum(shape, axes, dtype);
      }
    }
    for (std::int64_t n = 0; n <= 140; ++n) check_sum({n}, {0}, dtype);
    for (std::int64_t n = 1; n <= 40; ++n) {
      check_sum({3, n}, {0}, dtype);
      check_sum({n, 3}, {1}, dtype);
    }
    check_sum({100'000}, {0}, dtype);
    check_sum({300, 700}, {0}, dtype);
    check_sum({300, 700}, {1}, dtype);
  }
}

// Of equal elements, lanes hold one number: it counts as often as there are lanes.
TEST(CompiledReduction, FoldsOfEqualElementsHaveThemAll) {
  const Program f = [](std::span<const Array> x) {
    Arrays out;
    for (const std::int64_t n : {2, 3, 4, 8, 16, 17, 32, 40, 70}) {
      const auto all = [&](const Array& a) { return lax::broadcast_in_dim(a, {n}, {}); };
      const Array wide = lax::convert_element_type(all(x[0]), DType::i64),
                  product = lax::mul(all(x[1]), all(x[2]));
      out.push_back(lax::reduce_sum(wide, {0}));
      out.push_back(lax::reduce_sum(product, {0}));
      out.push_back(lax::reduce_prod(product, {0}));
      out.push_back(lax::reduce_xor(product, {0}));
      out.push_back(lax::reduce_max(product, {0}));
    }
    return out;
  };
  const auto number = [](DType dtype, double x) {
    return lax::convert_element_type(Array(x), dtype);
  };
  for (const DType dtype : {DType::i64, DType::i32, DType::u8})
    check(f, {number(DType::u32, 7), number(dtype, 3), number(dtype, 5)});
}

// Lanes run along dimensions of several elements only: along others a vector would be stored where there is
// room for a number.
TEST(CompiledReduction, DimensionsOfOneElementHaveNoLanes) {
  const auto pairs = [](std::int64_t axis) -> Program {
    return [axis](std::span<const Array> x) {
      const auto spread = [&](const Array& a, std::int64_t at) {
        Shape shape = a.shape(), dims;
        shape.insert(static_cast<std::size_t>(at), x[at == 0 ? 0 : 1].shape()[0]);
        for (std::int64_t d = 0; d < shape.ndim(); ++d) {
          if (d != at) dims.push_back(d);
        }
        return lax::broadcast_in_dim(a, shape, dims);
      };
      const Array d = lax::sub(spread(x[0], 1), spread(x[1], 0));
      return Arrays{lax::reduce_sum(d, {axis}), lax::reduce_max(lax::mul(d, d), {axis})};
    };
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    for (const Shape& rest : {Shape{1}, Shape{1, 1}, Shape{3, 1}, Shape{1, 3}, Shape{1, 20, 1}}) {
      for (const std::int64_t n : {1, 2, 16, 37}) {
        Shape left{n}, right{5};
        for (const std::int64_t d : rest) {
          left.push_back(d);
          right.push_back(d);
        }
        for (std::int64_t axis = 0; axis <= left.ndim(); ++axis)
          check(pairs(axis), {uniform(left, dtype, -9, 9), uniform(right, dtype, -9, 9, 2)}, -1,
                1e4);
      }
    }
  }
}

TEST(CompiledReduction, LargeFoldsOverDimensionsOfOneElementAreRight) {
  for (const Shape& shape :
       {Shape{1, 100'001}, Shape{100'001, 1}, Shape{1, 300, 300}, Shape{300, 300, 1},
        Shape{5, 1, 60'000}, Shape{1, 60'000, 1}, Shape{3, 1, 40'000, 1}}) {
    for (std::int64_t axis = 0; axis < shape.ndim(); ++axis) {
      check_sum(shape, {axis}, DType::f32);
      // With what is fused before and after, at all indices.
      check(
          [axis](std::span<const Array> x) {
            Shape dims;
            for (std::int64_t d = 0; d < x[0].ndim(); ++d) {
              if (d != axis) dims.push_back(d);
            }
            const Array most = lax::reduce_max(x[0], {axis});
            const Array rest = lax::sub(x[0], lax::broadcast_in_dim(most, x[0].shape(), dims));
            return Arrays{lax::reduce_sum(lax::mul(rest, x[0]), {axis}),
                          lax::argmax(x[0], axis, DType::i32)};
          },
          {uniform(shape, DType::f64)}, -1, 1e9);
    }
  }
}

// Vectors are compared as numbers, and NaNs found by their bits: of either sign, in any lane and vector, in what is left
// over and in parts of a long row.
TEST(CompiledReduction, ExtremesOfRowsThatHaveNaNs) {
  const Program f = [](std::span<const Array> x) {
    const Shape last{x[0].ndim() - 1};
    return Arrays{lax::reduce_max(x[0], last), lax::reduce_min(x[0], last),
                  lax::reduce_sum(lax::abs(x[0]), last)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {33, 64, 100, 131, 1000}) {
      // One row for each place of a NaN, and two without, one of them with an infinity.
      std::vector<double> x;
      for (std::int64_t row = 0; row < n + 2; ++row) {
        for (std::int64_t i = 0; i < n; ++i) {
          const double number = static_cast<double>((i * 37 + row * 11) % 23 - 11);
          x.push_back(i == row             ? std::copysign(std::nan(""), i % 2 == 0 ? 1 : -1)
                      : row == n && i == 5 ? HUGE_VAL
                                           : number);
        }
      }
      const Array rows = lax::convert_element_type(Array(x, {n + 2, n}), dtype);
      const std::string ir = check(f, {rows}, 1, 64)->text("ir");
      if (dtype == DType::f32 && n == 1000 && runtime::target_isa() != runtime::Isa::generic)
        EXPECT_NE(ir.find("llvm.umax"), std::string::npos) << ir;
      check(
          [&](std::span<const Array> v) {
            return Arrays{lax::reduce_max(lax::neg(v[0]), {1}), lax::reduce_min(v[0], {0, 1})};
          },
          {rows});
    }
    std::vector<double> row(1 << 20, -1);
    row[777'777] = std::nan("");
    check([](std::span<const Array> v) { return Arrays{lax::reduce_max(v[0], {0})}; },
          {lax::convert_element_type(Array(row, {1 << 20}), dtype)});
  }
}

TEST(CompiledReduction, LargeFoldsWithFewResultsAreCutIntoParts) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [shape, axes] : {std::pair{Shape{1'000'003}, Shape{0}},
                                      {Shape{300'001, 3}, Shape{0}},
                                      {Shape{100'003, 11}, Shape{0}},
                                      {Shape{9000, 100}, Shape{0}},
                                      {Shape{3, 300'007}, Shape{1}},
                                      {Shape{2, 70'001, 5}, Shape{1}},
                                      {Shape{1003, 1001}, Shape{0, 1}},
                                      {Shape{70'001, 2, 5}, Shape{0, 2}},
                                      {Shape{7, 3, 50'001}, Shape{0, 2}}}) {
      check_sum(shape, axes, dtype);
    }
  }
  // With what is fused before, along the way and after.
  const auto executable = check(
      [](std::span<const Array> x) {
        const Array y = lax::mul(x[0], x[0]);
        const Array n = lax::full_like(lax::reduce_sum(y, {0}), 200'003);
        return Arrays{lax::div(lax::reduce_sum(y, {0}), n), lax::reduce_max(y, {0}), y};
      },
      {lax::round(uniform({200'003, 3}, DType::f64, -9, 9))}, 1);
  EXPECT_GT(executable->info().arena_bytes, 10u * 3 * 8);
}

TEST(CompiledReduction, NarrowColumnsAreReadAsOneStream) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (std::int64_t columns = 2; columns <= 24; ++columns) check_sum({1003, columns}, {0}, dtype);
    for (const std::int64_t rows : {62, 63, 64, 65, 127, 128}) check_sum({rows, 10}, {0}, dtype);
    check_sum({3, 700, 10}, {1}, dtype);
    check_sum({200'001, 6}, {0}, dtype);
  }
  check(  // several folds at once, of what is computed on the way and stored
      [](std::span<const Array> x) {
        const Array y = lax::mul(x[0], x[0]);
        return Arrays{lax::reduce_max(y, {0}), lax::reduce_min(y, {0}), y};
      },
      {uniform({1001, 12}, DType::f32)}, 1);
  check([](std::span<const Array> x) { return Arrays{lax::reduce_xor(x[0], {0})}; },
        {uniform({1001, 5}, DType::u8, 0, 200)}, 1);
}

TEST(CompiledReduction, PartsOfManyColumnsAreFoldedByTiles) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    check_sum({3001, 300}, {0}, dtype);
    check_sum({157, 9001}, {0}, dtype);
  }
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::reduce_max(x[0], {0}), lax::reduce_min(lax::mul(x[0], x[0]), {0})};
      },
      {uniform({3001, 333}, DType::f32)}, 1);
}

TEST(CompiledReduction, AllFoldsAgreeWithEagerOnes) {
  using Fold = Array (*)(const Operand&, const Shape&);
  for (const DType dtype : {DType::i32, DType::u64, DType::u8, DType::f32}) {
    for (const Fold f : {Fold(lax::reduce_max), Fold(lax::reduce_min), Fold(lax::reduce_prod)}) {
      for (const Shape& axes : {Shape{0}, Shape{1}, Shape{0, 1}}) {
        check([&](std::span<const Array> x) { return Arrays{f(x[0], axes)}; },
              {uniform({5, 37}, dtype, 1, 3)}, 1, 64);
      }
    }
  }
  for (const Fold f : {Fold(lax::reduce_and), Fold(lax::reduce_or), Fold(lax::reduce_xor)}) {
    check(
        [&](std::span<const Array> x) {
          return Arrays{f(lax::gt(x[0], lax::full_like(x[0], 1.9)), {1})};
        },
        {uniform({6, 37}, DType::f32)}, 1);
    check([&](std::span<const Array> x) { return Arrays{f(x[0], {0})}; },
          {uniform({6, 37}, DType::i32, 0, 100)}, 1);
  }
}

TEST(CompiledReduction, NanWinsInMaxAndMin) {
  const Array x({1.0f, NAN, 3.0f, -INFINITY});
  check(
      [](std::span<const Array> v) {
        return Arrays{lax::reduce_max(v[0], {0}), lax::reduce_min(v[0], {0})};
      },
      {x}, 1);
}

TEST(CompiledReduction, ProducersAndEpiloguesAreOneKernel) {
  check(
      [](std::span<const Array> x) {
        const Array total = lax::reduce_sum(lax::mul(x[0], x[0]), {0, 1});
        return Arrays{lax::sqrt(lax::div(total, lax::full_like(total, 777)))};
      },
      {uniform({21, 37}, DType::f64)}, 1, 8);
  check(
      [](std::span<const Array> x) {
        const Array mean = lax::div(lax::reduce_sum(x[0], {1}), lax::full({21}, DType::f64, 37));
        return Arrays{lax::exp(mean), mean};
      },
      {uniform({21, 37}, DType::f64)}, 1, 1e6);
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::sqrt(lax::reduce_sum(lax::exp(x[0]), {0})), lax::reduce_max(x[0], {0})};
      },
      {uniform({21, 37}, DType::f64)}, 1, 8);
}

TEST(CompiledReduction, ShortRowsAndColumnTilesKeepProducersStoresAndEpilogues) {
  for (const int axis : {0, 1}) {
    const Program f = [axis](std::span<const Array> x) {
      const Array e = lax::exp(x[0]);
      const Array total = lax::reduce_sum(e, {axis}), high = lax::reduce_max(x[0], {axis});
      return Arrays{e, lax::sqrt(total), lax::add(high, total)};
    };
    for (const Shape& shape :
         {Shape{40, 5}, Shape{100, 20}, Shape{17, 32}, Shape{1, 300}, Shape{7, 300}, Shape{8, 300},
          Shape{9, 333}, Shape{25, 1000}, Shape{3, 9000}}) {
      check(f, {uniform(shape, DType::f64)}, -1, 64);
      check(f, {uniform(shape, DType::f32)}, -1, 64);
    }
  }
}

TEST(CompiledReduction, ResultsBeyondTheCachesAreStoredRight) {
  const std::int64_t n = 4'200'003;
  const Array x = uniform({n}, DType::f32);
  check([](std::span<const Array> v) { return Arrays{lax::add(v[0], v[0])}; }, {x}, 1);
}

TEST(CompiledReduction, SoftmaxStoresItsExponentialsWhileItSumsThem) {
  const Program softmax = [](std::span<const Array> x) {
    const Shape& shape = x[0].shape();
    const Array high = lax::broadcast_in_dim(lax::reduce_max(x[0], {1}), shape, {0});
    const Array e = lax::exp(lax::sub(x[0], high));
    return Arrays{lax::div(e, lax::broadcast_in_dim(lax::reduce_sum(e, {1}), shape, {0}))};
  };
  const auto executable = check(softmax, {uniform({13, 100}, DType::f32)}, 3, 16);
  // The exponentials lie in the result or in one temporary, never in two.
  EXPECT_LE(executable->info().arena_bytes, 13u * 100 * 4 + 4096);
  const Array huge =
      lax::mul(uniform({4, 16}, DType::f32), lax::full({4, 16}, DType::f32, 2147483648.0 / 3));
  for (const double v :
       execute(executable->info().kernels == 3 ? compile(stage(softmax, {huge})) : executable,
               {huge})[0]
           .to_vector<double>()) {
    EXPECT_TRUE(std::isfinite(v));
  }
}

// The sum times h is stored at its own index, and read at one that the program computes.
TEST(CompiledReduction, ReadAtAnotherIndexToo) {
  const Program f = [](std::span<const Array> x) {
    const Array product = lax::mul(lax::reduce_sum(x[0], {1}), x[1]);
    const Array wide = lax::broadcast_in_dim(product, {2, 5}, {0});
    const Array column =
        lax::dynamic_slice(wide, Arrays{lax::full({}, DType::i32, 0), x[2]}, {2, 1});
    return Arrays{product, lax::squeeze(column, {1})};
  };
  check(f, {uniform({2, 5}, DType::f64), uniform({2}, DType::f64, 0, 1, 2),
            lax::full({}, DType::i32, 3)});
}

TEST(CompiledReduction, BroadcastOperandsFuse) {
  check(
      [](std::span<const Array> x) {
        const Array centred = lax::sub(x[0], lax::broadcast_in_dim(x[1], {8, 50}, {0}));
        return Arrays{lax::reduce_sum(lax::mul(centred, centred), {1}),
                      lax::reduce_sum(centred, {0})};
      },
      {uniform({8, 50}, DType::f64), uniform({8}, DType::f64)}, 2, 1e5);
}

// Lanes beyond the end of a row divide 0 by 0.
TEST(CompiledReduction, LeavesOutWhatLanesBeyondARowCompute) {
  const Program f = [](std::span<const Array> x) {
    const auto spread = [&](const Array& a) { return lax::broadcast_in_dim(a, x[0].shape(), {1}); };
    return Arrays{lax::reduce_sum(lax::mul(x[0], spread(lax::div(x[1], x[2]))), {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t rows : {3, 4, 9, 17}) {
      for (const std::int64_t n : {1, 2, 3, 5, 6, 7, 9, 13, 18, 31}) {
        const Array numbers = uniform({n}, dtype, 1, 2);
        check(f, {uniform({rows, n}, dtype, 1, 2), numbers, numbers}, -1, 8);
      }
    }
  }
}

// Rows of what lies in memory by columns are folded in squares, whatever is left over of them, by any number of threads.
TEST(CompiledReduction, RowsOfTransposesBesideOthersAreTurnedInRegisters) {
  const auto folds = [](const Shape& order, const Shape& axes) -> Program {
    return [order, axes](std::span<const Array> x) {
      const Array product = lax::mul(lax::transpose(x[0], order), x[1]);
      return Arrays{lax::reduce_sum(product, axes), lax::reduce_max(product, axes),
                    lax::neg(lax::reduce_min(product, axes))};
    };
  };
  const Program place = [](std::span<const Array> x) {
    return Arrays{lax::argmax(lax::add(lax::transpose(x[0], {1, 0}), x[1]), 1, DType::i32)};
  };
  const auto both = [](const Shape& shape, const Shape& order, DType dtype) {
    Shape turned;
    for (const std::int64_t d : order) turned.push_back(shape[static_cast<std::size_t>(d)]);
    return Arrays{uniform(shape, dtype, 0, 100), uniform(turned, dtype, 0, 100)};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::i16}) {
    for (const Shape& shape :
         {Shape{70, 45}, Shape{1600, 96}, Shape{3, 50'000}, Shape{50'000, 3}, Shape{1003, 301}}) {
      const Arrays x = both(shape, {1, 0}, dtype);
      expect_same_for_any_number_of_threads(check(folds({1, 0}, {1}), x, -1, 1e4), x);
      check(place, x);
    }
    for (const Shape& order : {Shape{0, 2, 1}, Shape{2, 0, 1}, Shape{2, 1, 0}}) {
      const Arrays x = both({65, 80, 37}, order, dtype);
      expect_same_for_any_number_of_threads(check(folds(order, {2}), x, -1, 1e4), x);
    }
    const Arrays x = both({50, 60, 70}, {2, 1, 0}, dtype);
    check(folds({2, 1, 0}, {1, 2}), x, -1, 1e4);
    const Arrays few = both({60'001, 21}, {1, 0}, dtype);  // in parts
    expect_same_for_any_number_of_threads(check(folds({1, 0}, {1}), few, -1, 1e5), few);
  }
  const Arrays x = both({520, 480}, {1, 0}, DType::f32);
  const auto ir = [&](const CompileOptions& options) {
    return compile(stage(folds({1, 0}, {1}), x), options)->text("ir");
  };
  EXPECT_NE(ir({}), ir({.disabled = {"transpose_tiles"}}));
}

// What else is done in the same pass may change the order of a sum, but the threads that share it do not.
TEST(CompiledReduction, SumsFusedWithOtherWorkAreTheSameForAnyNumberOfThreads) {
  const auto sums = [](std::span<const Array> x) {
    const Shape axes = x[0].ndim() == 1 ? Shape{0} : Shape{0, 1};
    const Array dear = sin(x[0]) * x[0] + exp(x[0]);
    return Arrays{lax::reduce_sum(x[0], axes), lax::reduce_sum(dear, axes),
                  lax::reduce_sum(dear, Shape{0}),
                  lax::reduce_sum(x[0].astype(DType::f64) * 2.0, axes)};
  };
  for (const Shape& shape : {Shape{1'000'003}, Shape{1000, 1003}, Shape{100'000, 8}}) {
    const Array x = uniform(shape, DType::f32);
    expect_same_for_any_number_of_threads(compile(stage(sums, {x})), {x});
  }
}

// Scores of attention: the mask, which all matrices share, keeps the rows of these apart.
TEST(CompiledReduction, OfShortRowsOfAFewMatricesAreCutIntoChunks) {
  const auto largest = [](std::span<const Array> x) {
    const Array mask = lax::broadcast_in_dim(x[1], x[0].shape(), {2, 3});
    return Arrays{lax::reduce_max(lax::select(mask, x[0], lax::neg(x[0])), {3})};
  };
  for (const std::int64_t columns : {16, 100, 128}) {
    const Shape rows{128, columns};
    const Arrays inputs = {uniform({4, 8, 128, columns}, DType::f32),
                           lax::gt(uniform(rows, DType::f32), uniform(rows, DType::f32, -2, 2, 2))};
    const auto executable = check(largest, inputs, 1);
    EXPECT_NE(executable->text("ir").find("telamon_jit_parallel"), std::string::npos) << columns;
    expect_same_for_any_number_of_threads(executable, inputs);
  }
}

// Threads have equal shares of a power of two.
TEST(CompiledReduction, PartsAreAPowerOfTwo) {
  const std::regex partials(R"(:f64\[(\d+),3\]@)");
  std::set<int> seen;
  for (std::int64_t rows = 20'000; rows < 400'000; rows += 30'000) {
    const Array x = uniform({rows, 3}, DType::f64);
    const std::string plan = compile(stage(sum({0}), {x}))->text("plan");
    for (std::sregex_iterator m(plan.begin(), plan.end(), partials), end; m != end; ++m) {
      const int parts = std::stoi((*m)[1]);
      if (parts == rows) continue;  // the operand
      EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(parts))) << parts << "\n" << plan;
      seen.insert(parts);
    }
  }
  EXPECT_GE(seen.size(), 2u);
}

// What is folded around the axis that is cut counts for its parts, too.
TEST(CompiledReduction, OfSeveralAxesBesideAVectorIsFoldedInParts) {
  const auto variance = [](std::span<const Array> x) {
    const Array d = x[0] - lax::broadcast_in_dim(x[1], x[0].shape(), {3});
    return Arrays{lax::reduce_sum(d * d, {0, 1, 2})};
  };
  const Arrays inputs{uniform({8, 32, 32, 64}, DType::f32), uniform({64}, DType::f32, 0, 1, 2)};
  const auto executable = check(variance, inputs, -1, 1 << 12);
  EXPECT_TRUE(std::regex_search(executable->text("plan"), std::regex(R"(:f32\[\d+,64\]@)")))
      << executable->text("plan");
  expect_same_for_any_number_of_threads(executable, inputs);
}

// So are few chunks even in number, where vectors leave the choice.
TEST(CompiledReduction, FewChunksAreEvenInNumber) {
  const std::regex call(
      R"(@telamon_jit_parallel\([^)]*, i64 (\d+), i64 (\d+), i64 0, i64 0, i64 0\))");
  int found = 0;
  for (std::int64_t rows = 300; rows < 3000; rows += 100) {
    const Program row_sums = [](std::span<const Array> x) {
      return Arrays{lax::reduce_sum(lax::exp(x[0]), {1})};
    };
    const std::string ir = compile(stage(row_sums, {uniform({rows, 300}, DType::f64)}))->text("ir");
    std::smatch m;
    if (!std::regex_search(ir, m, call)) continue;
    const std::int64_t trips = std::stoll(m[1]), grain = std::stoll(m[2]);
    const std::int64_t chunks = (trips + grain - 1) / grain;
    EXPECT_EQ(trips, rows);
    EXPECT_TRUE(chunks > 16 || chunks % 2 == 0) << chunks << " of " << grain;
    ++found;
  }
  EXPECT_GT(found, 20);
}

// What follows a fold may add dimensions, or none, by a broadcast that nothing has simplified.
TEST(CompiledReduction, EpiloguesMayBroadcastToTheSameSize) {
  const auto centered = [](std::span<const Array> x) {
    const Array most = lax::reduce_max(x[0], {1});
    const Array same = lax::broadcast_in_dim(most, {64}, {0});
    const Array wider = lax::broadcast_in_dim(most, {64, 1}, {0});
    return Arrays{lax::exp(lax::sub(x[1], same)), lax::exp(lax::sub(x[2], wider))};
  };
  for (const std::int64_t n : {9, 200}) {
    check(centered,
          {uniform({64, n}, DType::f32), uniform({64}, DType::f32), uniform({64, 1}, DType::f32)},
          -1, 0, {.disabled = {"simplify"}});
  }
}

// A fold that reads parts of what lies in memory knows its results by dimensions, and who reads the only one by its number.
TEST(CompiledReduction, TheOnlyResultOfAFoldIsFoundByWhateverReadsIt) {
  const auto below_most = [](std::span<const Array> x) {
    const Array part = lax::slice(x[0], {0, 0, 0}, {x[0].shape(0), 17, 1});
    const Array most = lax::broadcast_in_dim(lax::reduce_max(part, {0, 1, 2}), {1}, {});
    return Arrays{lax::reduce_sum(lax::sub(x[1], most), {0})};
  };
  for (const std::int64_t rows : {1, 40})
    check(below_most, {uniform({rows, 17, 2}, DType::f64), uniform({1}, DType::f64)});
}

// Rolled rows, padded ones and two side by side: only in the blocks that a seam runs through does a lane have to choose what
// it reads.
TEST(CompiledReduction, RowsThatArePutTogetherAreFoldedPartByPart) {
  const auto rolled = [](const Array& x, std::int64_t by) {
    const std::int64_t n = x.shape(1);
    return lax::concatenate(
        Arrays{lax::slice_in_dim(x, n - by, n, 1, 1), lax::slice_in_dim(x, 0, n - by, 1, 1)}, 1);
  };
  const auto folded = [&](std::span<const Array> x) {
    const Array step = lax::sub(x[0], rolled(x[0], 3));
    const Array padded = lax::pad(x[0], lax::full({}, x[0].dtype(), 1), {{{0, 0, 0}, {2, 1, 0}}});
    return Arrays{
        lax::reduce_sum(lax::mul(step, step), {1}), lax::reduce_min(padded, {1}),
        lax::reduce_sum(lax::concatenate(Arrays{x[0], lax::neg(rolled(x[0], 1))}, 1), {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::bf16}) {
    for (const auto& [rows, columns] :
         {std::pair{5, 4}, {300, 9}, {70, 20}, {3, 64}, {40, 100}, {1, 777}, {2, 5000}}) {
      const Array whole = lax::floor(uniform({rows, columns}, DType::f64, -3, 4));
      check(folded, {lax::convert_element_type(whole, dtype)});
    }
  }
  const Program energies = [&](std::span<const Array> x) {
    const Array step = lax::sub(x[0], rolled(x[0], 2));
    return Arrays{lax::reduce_sum(lax::mul(step, step), {1})};
  };
  const Compiled of_rows = check(energies, {uniform({40, 100}, DType::f32)}, -1, 1e4);
  EXPECT_EQ(of_rows->text("ir").find("masked.gather"), std::string::npos);
  const Arrays long_row = {uniform({1, 1'000'003}, DType::f64)};
  expect_same_for_any_number_of_threads(check(energies, long_row, -1, 1e4), long_row);
}

// The same of their columns, by tiles and in parts, and of both in one pass.
TEST(CompiledReduction, ColumnsOfWhatIsPutTogetherAreFoldedPartByPart) {
  const auto rolled = [](const Array& x, std::int64_t by) {
    const std::int64_t n = x.shape(1);
    return lax::concatenate(
        Arrays{lax::slice_in_dim(x, n - by, n, 1, 1), lax::slice_in_dim(x, 0, n - by, 1, 1)}, 1);
  };
  const auto squares = [&](const Array& x) {
    const Array step = lax::sub(x, rolled(x, 3));
    return lax::mul(step, step);
  };
  const Program folded = [&](std::span<const Array> x) {
    const Array padded = lax::pad(x[0], lax::full({}, x[0].dtype(), 1), {{{0, 0, 0}, {2, 1, 0}}});
    const Array beside = lax::concatenate(Arrays{x[0], lax::neg(rolled(x[0], 1))}, 1);
    return Arrays{lax::reduce_sum(squares(x[0]), {0}), lax::reduce_min(padded, {0}),
                  lax::reduce_sum(beside, {0}), lax::argmax(beside, 0, DType::i32)};
  };
  const Program both = [&](std::span<const Array> x) {
    const Array s = squares(x[0]);
    return Arrays{lax::reduce_sum(s, {0}), lax::reduce_sum(s, {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::bf16}) {
    for (const auto& [rows, columns] : {std::pair{5, 4},
                                        {300, 9},
                                        {70, 20},
                                        {3, 64},
                                        {40, 100},
                                        {1, 777},
                                        {19, 1501},
                                        {1000, 130}}) {
      const Array whole = lax::floor(uniform({rows, columns}, DType::f64, -3, 4));
      for (const Program& p : {folded, both}) check(p, {lax::convert_element_type(whole, dtype)});
    }
  }
  const Program columns = [&](std::span<const Array> x) {
    return Arrays{lax::reduce_sum(squares(x[0]), {0})};
  };
  for (const Program& p : {columns, both}) {
    const Arrays wide = {uniform({300, 3001}, DType::f64)};
    const Compiled executable = check(p, wide, -1, 1e4);
    EXPECT_EQ(executable->text("ir").find("masked.gather"), std::string::npos);
    expect_same_for_any_number_of_threads(executable, wide);
  }
}

// A mixture's densities: 25 rows are too few to be folded in parts, of which the second would have one.
TEST(CompiledReduction, OfAFewDearRowsAreCutByColumns) {
  const auto log_sum = [](std::span<const Array> x) {
    const Array most = lax::broadcast_in_dim(x[1], x[0].shape(), {1});
    return Arrays{lax::reduce_sum(lax::exp(lax::sub(x[0], most)), {0})};
  };
  for (const std::int64_t columns : {1000, 1500}) {
    const Arrays inputs = {uniform({25, columns}, DType::f64), uniform({columns}, DType::f64)};
    const auto executable = compile(stage(log_sum, inputs));
    EXPECT_NE(executable->text("ir").find("telamon_jit_parallel"), std::string::npos) << columns;
    EXPECT_EQ(executable->info().arena_bytes, 0u) << columns << ": no partial results";
    expect_same_for_any_number_of_threads(executable, inputs);
  }
}

// A fold, arithmetic and two reshapes: its place is known by a number, and by indices.
TEST(CompiledReduction, IsSeenInOneShapeAfterTheOther) {
  const auto padded = [](const Array& a) {
    return pad(swapaxes(a, 2, 0), {{0, 0}, {0, 0}, {1, 2}});
  };
  const auto loss = [&](Array a, Array b) {
    b = b + 3;
    a = where(a < b, b, a + 1);
    const Array m = max(padded(a), 1).reshape({2060}), n = -max(padded(b), 1).reshape({2060});
    return telamon::sum(where(m < n, n, m) * arange(2060.)) + telamon::sum(n);
  };
  check(
      [&](std::span<const Array> x) {
        return Arrays{grad([&](const Array& a) { return loss(a, x[1]); })(x[0]),
                      grad([&](const Array& b) { return loss(x[0], b); })(x[1])};
      },
      {uniform({100, 7, 20}, DType::f64, 1, 2), uniform({100, 7, 20}, DType::f64, 1, 2, 2)}, -1,
      16);
}

// Of arrays that are stacked: the first of equals, zeros of either sign among them, and the first NaN before all others.
TEST(CompiledReduction, PlacesInStacksAreFoundOneWithTheOther) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype :
       {DType::f32, DType::f64, DType::i32, DType::u8, DType::bf16, DType::bool_}) {
    std::vector<double> numbers;
    for (int i = 0; i < 5 * 7 * 31; ++i) {
      const int k = (i * 7919) % 11;
      numbers.push_back(is_float(dtype) ? (k == 0 ? kNaN : k == 1 ? -0.0 : (k - 2) % 3) : k % 3);
    }
    const Array x = lax::convert_element_type(lax::reshape(Array(numbers), {5, 7, 31}), dtype);
    for (const int axis : {0, 1, 2}) {
      const Program f = [&](std::span<const Array> a) {
        Arrays parts;
        for (std::int64_t k = 0; k < 5; ++k)
          parts.push_back(lax::expand_dims(lax::index_in_dim(a[0], k, 0), {axis}));
        const Array all = lax::concatenate(parts, axis);
        return Arrays{lax::argmax(all, axis, DType::i32), lax::argmin(all, axis, DType::i64)};
      };
      const Program one = [&](std::span<const Array> a) { return Arrays{f(a)[0]}; };
      check(f, {x}, -1, 0);
      check(one, {x}, -1, 0);
    }
  }
}

}  // namespace
}  // namespace telamon::testing
