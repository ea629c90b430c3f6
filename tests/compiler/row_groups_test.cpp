// Chains of kernels over the rows of large arrays become loops over blocks of rows, and nothing but memory
// and time changes by that.
#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/random.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Array numbers(Shape shape, DType dtype = DType::f64) { return uniform(shape, dtype, -1, 1); }

Array batch_of_products(const Array& a, const Array& b) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = {2};
  dn.rhs_contracting = {1};
  dn.lhs_batch = dn.rhs_batch = {0};
  return lax::dot_general(a, b, dn);
}
Array product(const Array& a, const Array& b) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = {a.ndim() - 1};
  dn.rhs_contracting = {0};
  return lax::dot_general(a, b, dn);
}
/// exp(x - max x) / sum, along the last dimension.
Array weights(const Array& x) {
  const Shape& shape = x.shape();
  Shape dims;
  for (std::int64_t d = 0; d + 1 < shape.ndim(); ++d) dims.push_back(d);
  const auto spread = [&](const Array& y) { return lax::broadcast_in_dim(y, shape, dims); };
  const Array e = lax::exp(lax::sub(x, spread(lax::reduce_max(x, {shape.ndim() - 1}))));
  return lax::div(e, spread(lax::reduce_sum(e, {shape.ndim() - 1})));
}

/// The same bits with and without groups, for one to four threads. Gives the plan with them.
std::string same_either_way(const Program& f, const Arrays& inputs) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled with = compile(jaxpr);
  const Compiled without = compile(
      jaxpr, {.contract = false, .name = "without", .disabled = {"row_groups", "row_updates"}});
  const Arrays want = execute(without, inputs);
  for (int threads = 1; threads <= 4; ++threads) {
    const WithThreads scope(threads);
    const Arrays got = execute(with, inputs);
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_equal(got[i], want[i], 0, with->text("jaxpr") + std::to_string(threads));
  }
  return with->text("plan");
}

TEST(RowGroups, TakeProductsOfABatchAndWhatFollows) {
  for (const auto& [batch, m, k, n] :
       {std::tuple{32, 8, 16, 1000}, {17, 33, 31, 517}, {60, 10, 10, 1000}, {64, 5, 3, 999}}) {
    const std::string plan = same_either_way(
        [](std::span<const Array> x) {
          const Array y = batch_of_products(x[0], x[1]);
          return Arrays{lax::reduce_sum(lax::square(y), {1})};
        },
        {numbers({batch, m, k}), numbers({batch, k, n})});
    EXPECT_THAT(plan, HasSubstr("loop")) << batch;
    EXPECT_THAT(plan, HasSubstr("@chunk")) << batch;
  }
}

TEST(RowGroups, TakeWeightsOfLongRows) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string plan = same_either_way(
        [](std::span<const Array> x) {
          return Arrays{product(weights(product(x[0], x[1])), x[2])};
        },
        {numbers({1024, 24}, dtype), numbers({24, 900}, dtype), numbers({900, 20}, dtype)});
    EXPECT_THAT(plan, HasSubstr(" trips ")) << plan;
  }
}

// A call as a whole, loops in blocks, and the same bits: of few terms, which are added in order.
TEST(RowGroups, TakeProductsOfFewTerms) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [n, k, d] : {std::tuple{12'000, 100, 4}, {30'000, 64, 3}}) {
      const std::string plan = same_either_way(
          [](std::span<const Array> x) {
            return Arrays{lax::reduce_min(product(x[0], lax::transpose(x[1], {1, 0})), {1})};
          },
          {numbers({n, d}, dtype), numbers({k, d}, dtype)});
      EXPECT_THAT(plan, HasSubstr(" trips ")) << plan;
      EXPECT_THAT(plan, HasSubstr("kernel dot")) << plan;
      EXPECT_THAT(plan, Not(HasSubstr("call matmul"))) << plan;
    }
  }
}

// The other operand lies by columns: it is turned before the loop.
TEST(RowGroups, TurnWhatAllBlocksTakeByRowsOnce) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        return Arrays{lax::reduce_min(product(x[0], lax::transpose(x[1], {1, 0})), {1})};
      },
      {numbers({3000, 16}, DType::f64), numbers({500, 16}, DType::f64)});
  const std::size_t turned = plan.find("kernel loop transpose"), loop = plan.find(" trips ");
  EXPECT_LT(turned, loop) << plan;
  EXPECT_NE(loop, std::string::npos) << plan;
  EXPECT_EQ(plan.find("transpose", loop), std::string::npos) << plan;
}

double largest(const Array& x) {
  return max(abs(lax::convert_element_type(x, DType::f64))).item<double>();
}
/// Nearly the same with and without groups, and the same bits for one to four threads. Gives the plan with them.
std::string nearly_the_same(const Program& f, const Arrays& inputs, double tolerance = 1e-12) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled with = compile(jaxpr);
  const Compiled without = compile(
      jaxpr, {.contract = false, .name = "without", .disabled = {"row_groups", "row_updates"}});
  const Arrays want = execute(without, inputs);
  Arrays first;
  for (int threads = 1; threads <= 4; ++threads) {
    const WithThreads scope(threads);
    const Arrays got = execute(with, inputs);
    if (threads == 1) first = got;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(largest(got[i] - want[i]), tolerance * (1 + largest(want[i])));
      expect_equal(got[i], first[i], 0, std::to_string(threads));
    }
  }
  return with->text("plan");
}
/// Loops inside loops: sums in parts, of blocks.
::testing::Matcher<std::string> sums_in_parts() {
  return ::testing::ContainsRegex("loop reads.* in chunks.*\n  (.*\n  )*loop reads");
}

TEST(RowGroups, TakeSumsOverRows) {
  const std::string plan = nearly_the_same(
      [](std::span<const Array> x) {
        const Array y = batch_of_products(x[0], x[1]);
        const Array z = lax::exp(lax::neg(y));
        return Arrays{lax::reduce_sum(lax::mul(z, z), {0}), lax::reduce_sum(z, {2})};
      },
      {numbers({40, 9, 16}), numbers({40, 16, 700})});
  EXPECT_THAT(plan, sums_in_parts()) << plan;
}

TEST(RowGroups, TakeGradientsByWhatAllRowsShare) {
  const Program logistic = [](std::span<const Array> x) {
    const auto loss = [&](const Array& w) {
      const Array z = matmul(x[1], w);
      return sum(logaddexp(0., z) - x[2] * z);
    };
    return Arrays{grad(loss)(x[0])};
  };
  for (const std::int64_t rows : {20'000, 60'000}) {
    const std::string plan =
        nearly_the_same(logistic, {numbers({40}), numbers({rows, 40}), numbers({rows})});
    EXPECT_THAT(plan, sums_in_parts()) << plan;
  }
  // The sums are read by an epilogue, and rows are read from outside, too.
  const Program network = [](std::span<const Array> x) {
    const auto loss = [&](const Array& w, const Array& b, const Array& v) {
      const Array hidden = tanh(matmul(x[3], w) + b);
      return sum(square(matmul(hidden, v) - x[4]));
    };
    const auto [w, b, v] = grad<0, 1, 2>(loss)(x[0], x[1], x[2]);
    return Arrays{x[0] - .1 * w, b, v / (1. + abs(v)), tanh(matmul(x[3], x[0]) + x[1])};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string plan =
        nearly_the_same(network,
                        {numbers({24, 40}, dtype), numbers({40}, dtype), numbers({40}, dtype),
                         numbers({12'000, 24}, dtype), numbers({12'000}, dtype)},
                        dtype == DType::f32 ? 1e-4 : 1e-11);
    EXPECT_THAT(plan, sums_in_parts()) << plan;
  }
}

// Of each example the log-probability of its label, at places of any kind: what comes before and after stays in blocks.
TEST(RowGroups, TakeLossesOfClassifiers) {
  const std::int64_t rows = 12'000, width = 24, hidden = 40, classes = 10;
  const Program network = [](std::span<const Array> x) {
    const auto loss = [&](const Array& w, const Array& v) {
      const Array y = log_softmax(matmul(tanh(matmul(x[2], w)), v));
      return -mean(take_along_axis(y, expand_dims(x[3], 1), 1));
    };
    const auto [value, slopes] = value_and_grad<0, 1>(loss)(x[0], x[1]);
    const auto& [w, v] = slopes;
    return Arrays{value, w, v};
  };
  for (const DType dtype : {DType::u8, DType::i32, DType::i64}) {
    const Array labels = random::randint(random::key(3), {rows}, 0, classes, dtype);
    const std::string plan = nearly_the_same(
        network,
        {numbers({width, hidden}), numbers({hidden, classes}), numbers({rows, width}), labels});
    EXPECT_THAT(plan, sums_in_parts()) << plan;
    EXPECT_THAT(plan, Not(HasSubstr("scatter"))) << plan;
    EXPECT_THAT(plan, Not(HasSubstr("f64[12000,"))) << plan;  // no such rows outside
  }
}

TEST(RowGroups, LookUpRowsOfATableThatAllShare) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array found = x[0](x[1]);
        return Arrays{weights(product(tanh(found), x[2]))};
      },
      {numbers({100, 64}), random::randint(random::key(3), {6'000}, -100, 100, DType::i32),
       numbers({64, 50})});
  EXPECT_THAT(plan, HasSubstr("loop reads")) << plan;
}

TEST(RowGroups, TakeSumsThatSomeRowsWaitForApart) {
  // What is computed of rows and of their sum waits for all of them.
  const std::string plan = nearly_the_same(
      [](std::span<const Array> x) {
        const Array y = matmul(x[0], x[1]);
        const Array z = matmul(exp(y - mean(y, 0)), x[2]);
        return Arrays{sum(square(z), 0), z};
      },
      {numbers({8'000, 24}), numbers({24, 60}), numbers({60, 20})});
  EXPECT_THAT(plan, HasSubstr("loop reads")) << plan;
}

TEST(RowGroups, LookAtWhatIsComputedOfSumsOnce) {
  // Each of these reads the one before twice.
  nearly_the_same(
      [](std::span<const Array> x) {
        Array y = sum(tanh(matmul(x[0], x[1])), 0);
        for (int i = 0; i < 60; ++i) y = lax::sub(lax::mul(y, y), lax::mul(y, y + 1.));
        return Arrays{y};
      },
      {numbers({8'000, 24}), numbers({24, 60})}, 1e-9);
}

TEST(RowGroups, LeaveSumsOfHalvesOutside) {
  const std::string plan = nearly_the_same(
      [](std::span<const Array> x) {
        const Array y = lax::convert_element_type(tanh(matmul(x[0], x[1])), DType::bf16);
        return Arrays{sum(y, 0)};
      },
      {numbers({8'000, 24}, DType::f32), numbers({24, 60}, DType::f32)}, 0.02);
  EXPECT_THAT(plan, Not(HasSubstr("carry"))) << plan;
}

TEST(RowGroups, LeaveAloneWhatFits) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        return Arrays{lax::reduce_sum(lax::square(batch_of_products(x[0], x[1])), {1})};
      },
      {numbers({8, 8, 16}), numbers({8, 16, 100})});
  EXPECT_THAT(plan, Not(HasSubstr("loop reads"))) << plan;
}

TEST(RowGroups, LeaveAloneRowsThatCannotBeShared) {
  // A prime number of short rows.
  same_either_way(
      [](std::span<const Array> x) { return Arrays{product(weights(product(x[0], x[1])), x[2])}; },
      {numbers({1021, 24}), numbers({24, 300}), numbers({300, 20})});
}

TEST(RowGroups, ReadRowsAndTheWholeOfOneArray) {
  // x by rows on the left, all of it on the right.
  same_either_way(
      [](std::span<const Array> x) {
        const Array y = product(x[0], lax::transpose(x[0], {1, 0}));
        return Arrays{lax::reduce_max(lax::tanh(lax::mul(y, y)), {1}), weights(y)};
      },
      {numbers({720, 16})});
}

// What blocks make of pictures is reshaped when they are put together, and again: no copy is made for that.
TEST(RowGroups, AreResultsOfAnotherShape) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const auto loss = [](const Array& x) {
          return sum(square(max(reshape(x, {64, 8, 14, 2, 14, 2}), {.axes = {3, 5}})));
        };
        return Arrays{grad(loss)(x[0])};
      },
      {numbers({64, 8, 28, 28}, DType::f32)});
  EXPECT_THAT(plan, HasSubstr("loop reads"));
  EXPECT_THAT(plan, Not(HasSubstr("copy")));
}

// Each of two groups would wait for what the other gives, through sums down the columns: one of them stays
// apart.
TEST(RowGroups, DoNotWaitForOneAnother) {
  const std::string plan = same_either_way(
      [](std::span<const Array> x) {
        const Array a = weights(x[0]), b = weights(x[1]);
        const Array first = lax::cumsum(lax::slice_in_dim(a, 0, 2048, 1, 0), 0);
        const Array second = lax::cumsum(lax::concatenate(Arrays{b, b}, 0), 0);
        return Arrays{weights(lax::mul(a, second)), weights(lax::mul(b, first))};
      },
      {numbers({4096, 128}), numbers({2048, 128})});
  EXPECT_THAT(plan, HasSubstr("loop"));
}

TEST(RowGroups, KeepWhatOthersNeed) {
  // The products are results, too, and one that depends on them is needed by the last kernel.
  same_either_way(
      [](std::span<const Array> x) {
        const Array y = batch_of_products(x[0], x[1]);
        const Array total = lax::reduce_sum(y, {0, 1, 2});
        const Array z = lax::sub(y, lax::broadcast_in_dim(total, y.shape(), {}));
        const Array t = batch_of_products(x[0], lax::exp(lax::mul(z, z)));
        return Arrays{y, lax::reduce_sum(t, {2}), lax::reduce_max(z, {1})};
      },
      {numbers({24, 16, 16}), numbers({24, 16, 800})});
}

TEST(RowGroups, InLoopsAndBranches) {
  const auto step = [](const Array& a, const Array& b) {
    const Array y = batch_of_products(a, b);
    const Array s = lax::reduce_sum(lax::tanh(y), {1});
    return lax::sub(b, lax::broadcast_in_dim(s, b.shape(), {0, 2}));
  };
  const Arrays inputs = {numbers({24, 16, 16}), numbers({24, 16, 800}),
                         lax::full({}, DType::i32, 1)};
  same_either_way(
      [&](std::span<const Array> x) {
        return Arrays{fori_loop(
            0, 3, [&, a = x[0]](const Array&, const Array& b) { return step(a, b); }, x[1])};
      },
      inputs);
  same_either_way(
      [&](std::span<const Array> x) {
        return Arrays{cond(
            lax::gt(x[2], lax::full({}, DType::i32, 0)),
            [&](const Array& a, const Array& b) { return step(a, b); },
            [](const Array&, const Array& b) { return b; }, x[0], x[1])};
      },
      inputs);
}

TEST(RowGroups, OfGradientsAndBatches) {
  const auto loss = [](const Array& a, const Array& b) {
    const Array y = batch_of_products(a, b);
    return lax::reduce_sum(lax::log(lax::reduce_sum(lax::exp(y), {1})), {0, 1});
  };
  same_either_way(
      [&](std::span<const Array> x) {
        const auto [a, b] = grad<0, 1>(loss)(x[0], x[1]);
        return Arrays{a, b};
      },
      {numbers({30, 12, 16}), numbers({30, 16, 700})});
  same_either_way([&](std::span<const Array> x) { return Arrays{vmap(loss)(x[0], x[1])}; },
                  {numbers({40, 3, 12, 16}), numbers({40, 3, 16, 200})});
}

// What is computed for a scatter of single elements is never more than a block of it.
TEST(RowGroups, ComputePlacesOfUpdatesBlockByBlock) {
  const auto scatter = [](const Array& x, const Array& places, const Array& updates) {
    ScatterParams params;
    params.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
    return lax::scatter_add(x, lax::reshape(places, {places.size(), 1}), updates, params);
  };
  const std::int64_t n = 100'000, bins = 200;
  const auto places = [&](const Array& x) {
    return lax::convert_element_type(lax::mul(x, lax::full_like(x, bins * 1.01)), DType::i32);
  };
  for (const DType dtype : {DType::i32, DType::f32}) {
    const Array to = lax::convert_element_type(numbers({bins}, DType::f32), dtype);
    const Arrays x = {to, uniform({n}, DType::f32, -0.1, 1), uniform({n}, DType::f32)};
    // Of computed numbers, and of ones, which are written down once.
    const std::string plan = same_either_way(
        [&](std::span<const Array> x) {
          const Array by = lax::convert_element_type(lax::add(x[2], x[2]), dtype);
          const Array ones = lax::full({n}, dtype, 1);
          return Arrays{scatter(x[0], places(x[1]), by), scatter(x[0], places(x[2]), ones)};
        },
        x);
    EXPECT_THAT(plan, HasSubstr("loop reads"));
    EXPECT_THAT(plan, Not(HasSubstr("[100000,1]@")));
  }
  // What others read, too, is not computed twice.
  EXPECT_THAT(same_either_way(
                  [&](std::span<const Array> x) {
                    const Array at = places(x[1]);
                    return Arrays{at, scatter(x[0], at, x[1])};
                  },
                  {numbers({bins}, DType::f32), uniform({n}, DType::f32)}),
              HasSubstr("convert_element_type (100000,)"));
}

// The array that is updated may be one of those that updates and places are computed from.
TEST(RowGroups, UpdateWhatTheUpdatesAreComputedFrom) {
  const std::int64_t n = 100'000;
  ScatterParams params;
  params.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
  const auto scatter = [&](const Array& x, const Array& places, const Array& updates) {
    return lax::scatter_add(x, lax::reshape(places, {n, 1}), updates, params);
  };
  const auto places = [&](const Array& x) {
    return lax::convert_element_type(lax::mul(x, lax::full_like(x, n)), DType::i32);
  };
  const Arrays x = {numbers({n}, DType::f32), uniform({n}, DType::f32, 0, 1)};
  same_either_way(
      [&](std::span<const Array> x) {
        const Array v = lax::mul(x[0], lax::full_like(x[0], 2));
        return Arrays{scatter(v, places(x[1]), v)};
      },
      x);
  same_either_way(
      [&](std::span<const Array> x) {
        const Array v = lax::mul(x[0], lax::full_like(x[0], 2));
        return Arrays{scatter(v, places(x[1]), lax::add(v, x[1]))};
      },
      x);
  same_either_way(
      [&](std::span<const Array> x) {
        const Array v = places(x[1]);
        return Arrays{scatter(v, lax::sub(v, lax::full_like(v, 1)), lax::add(v, v))};
      },
      x);
}

TEST(RowGroups, WriteOverDonatedArguments) {
  const Program f = [](std::span<const Array> x) {
    const Array y = batch_of_products(x[0], x[1]);
    const Array s = lax::reduce_sum(lax::square(y), {1});
    return Arrays{lax::sub(x[1], lax::broadcast_in_dim(s, x[1].shape(), {0, 2}))};
  };
  const Array a = numbers({24, 16, 16}), b = numbers({24, 16, 800});
  const Arrays want = f(std::vector{a, b});
  const Compiled compiled = compile(stage(f, {a, b}));
  const Array copy = lax::add(b, lax::full(b.shape(), DType::f64, 0));
  copy.block_until_ready();
  expect_equal(execute(compiled, {a, copy}, {false, true})[0], want[0], 1e4, "donated");
}

TEST(RowGroups, ShowTheirKernelsInProfilesAndCounts) {
  const Jaxpr jaxpr = stage(
      [](std::span<const Array> x) {
        return Arrays{lax::reduce_sum(lax::square(batch_of_products(x[0], x[1])), {1})};
      },
      {numbers({64, 32, 20}), numbers({64, 20, 1000})});
  const Compiled with = compile(jaxpr);
  const Compiled without =
      compile(jaxpr, {.contract = false, .name = "without", .disabled = {"row_groups"}});
  const auto& steps = with->info().steps;
  EXPECT_THAT(steps, ::testing::Contains(HasSubstr("matmul 32x20x1000")));
  EXPECT_THAT(steps, ::testing::Contains(HasSubstr("square_reduce_sum")));
  EXPECT_DOUBLE_EQ(with->cost_analysis().flops, without->cost_analysis().flops);
  EXPECT_LT(with->memory_analysis({}).arena, without->memory_analysis({}).arena);
}

}  // namespace
}  // namespace telamon::testing
