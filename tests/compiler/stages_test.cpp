// Loops in stages: chains of function calls, taken apart so that the calls of several trips overlap.
#include "runtime/cpu.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/target_isa.hpp"
#include "support.hpp"
#include "telamon/random.hpp"

namespace telamon::testing {
namespace {

Array chain(const Array& x) {
  const Array y = lax::add(lax::sin(lax::mul(x, x)), x);
  const Array e = lax::exp(lax::neg(y));
  return lax::mul(lax::log(lax::add(lax::tanh(e), e)), x);
}
bool has_stages(const Compiled& e) { return e->text("ir").find("last_stage") != std::string::npos; }

TEST(LoopStages, GiveTheBitsOfEagerFunctionsWhateverTheLength) {
  const auto f = [](std::span<const Array> x) { return Arrays{chain(x[0])}; };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {1, 15, 64, 127, 255, 256, 1000, 1024, 4096, 5001}) {
      SCOPED_TRACE(n);
      const Compiled e = check(f, {uniform({n}, dtype)}, 1);
      if (n >= 4096) { EXPECT_TRUE(has_stages(e)); }
    }
    EXPECT_TRUE(has_stages(check(f, {uniform({9, 2048}, dtype)}, 1)));
    // In chunks, by several threads.
    EXPECT_TRUE(has_stages(check(f, {uniform({70'001}, dtype)}, 1)));
  }
}

TEST(LoopStages, HaveRegistersAcrossCallsOfFunctionsThatLeaveThem) {
  const auto f = [](std::span<const Array> x) { return Arrays{chain(x[0])}; };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Compiled e = check(f, {uniform({4096}, dtype)}, 1);
    EXPECT_EQ(e->text("ir").find("intel_ocl_bicc") != std::string::npos,
              math::find_math("exp", dtype).keeps_registers);
  }
}

// Sines of such numbers are the library's, which keeps no register: what the loop carries must stay.
TEST(LoopStages, OfSinesOfLargeNumbers) {
  const auto f = [](std::span<const Array> x) {
    Array y = x[0], sum = lax::mul(x[1], x[1]);
    for (int i = 0; i < 4; ++i) {
      y = lax::sin(lax::mul(y, x[1]));
      sum = lax::add(sum, lax::mul(lax::cos(y), lax::exp(y)));
    }
    return Arrays{y, sum};
  };
  const Arrays x = {uniform({6000}, DType::f32, -2e4, 2e4),
                    uniform({6000}, DType::f32, -2e4, 2e4, 2)};
  EXPECT_TRUE(has_stages(check(f, x, 1)));
}

TEST(LoopStages, OfSpecialOperands) {
  std::vector<double> values;
  for (int i = 0; i < 600; ++i) {
    for (const double x : {0.0, -0.0, 1e-40, -1.0, 88.0, 1e30, -1e30, double(INFINITY),
                           -double(INFINITY), double(NAN), 0.5 + i})
      values.push_back(x);
  }
  const auto f = [](std::span<const Array> x) {
    return Arrays{lax::log(lax::exp(lax::tanh(lax::log(x[0]))))};
  };
  for (const DType dtype : {DType::f32, DType::f64})
    EXPECT_TRUE(has_stages(check(f, {lax::convert_element_type(Array(values), dtype)}, 1)));
}

TEST(LoopStages, KeepConditionsIntegersAndSeveralResultsApart) {
  const auto f = [](std::span<const Array> x) {
    const Array e = lax::exp(x[0]), c = lax::gt(x[0], x[1]);
    const Array t = lax::tanh(lax::select(c, e, x[1]));
    const Array l = lax::log(lax::add(lax::select(c, t, e), x[0]));
    const Array n = lax::convert_element_type(x[1], DType::i32);
    return Arrays{l, e, c, lax::add(n, lax::convert_element_type(lax::exp(t), DType::i32))};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Arrays x = {uniform({3000}, dtype, 0.5, 2), uniform({3000}, dtype, 0.5, 2, 2)};
    EXPECT_TRUE(has_stages(check(f, x, 1)));
  }
}

// More than registers hold, for one trip and for two, of two types; and where the stages are side by side.
TEST(LoopStages, KeepManyValuesInMemory) {
  const auto is_ring = [](const Compiled& e) {
    return e->text("ir").find("%ring = alloca") != std::string::npos;
  };
  const auto keeps = [](int count, bool random) {
    return [=](std::span<const Array> x) {
      Arrays early;
      for (int i = 0; i < count; ++i)
        early.push_back(lax::mul(lax::add(x[0], 0.01 * i), lax::add(x[1], 0.01 * i)));
      Array y = lax::log(lax::add(x[0], x[1]));
      if (random) y = lax::add(y, telamon::random::normal(x[2], y.shape(), y.dtype()));
      const Array n = lax::convert_element_type(lax::mul(y, 1000.0), DType::i32);
      y = lax::tanh(y);
      Array sum = y;
      for (const Array& e : early) sum = lax::add(sum, lax::mul(e, y));
      const Array m = lax::convert_element_type(sum, DType::i32);
      return Arrays{lax::mul(sum, early[0]), lax::mul(n, m)};
    };
  };
  const Array key(std::vector<std::uint32_t>{3, 5}, {2});
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {40'001, 200'003}) {
      const Arrays x = {uniform({n}, dtype, 0.5, 2), uniform({n}, dtype, 0.5, 2, 2), key};
      for (const bool random : {false, true}) {
        const Compiled many = check(keeps(random ? 12 : 15, random), x, 1);
        EXPECT_TRUE(has_stages(many) && is_ring(many));
      }
      const Compiled few = check(keeps(2, false), x, 1);
      EXPECT_TRUE(has_stages(few) && !is_ring(few));
    }
  }
}

// Whatever the addresses of LLVM's objects: with a ring and without one.
TEST(LoopStages, AreTheSameCodeEachTime) {
  for (const int count : {4, 15}) {
    const Program f = [count](std::span<const Array> x) {
      Arrays early;
      for (int i = 0; i < count; ++i) early.push_back(lax::mul(lax::add(x[0], 0.1 * i), x[0]));
      Array sum = lax::tanh(lax::log(x[0]));
      for (const Array& e : early) sum = lax::add(lax::mul(sum, e), e);
      return Arrays{sum};
    };
    const Jaxpr program = stage(f, {uniform({40'001}, DType::f32, 0.5, 2)});
    const auto code = [&program] { return compile(program)->text("ir"); };
    ASSERT_TRUE(has_stages(compile(program)));
    const std::string first = code();
    std::vector<std::string> kept;  // memory that stays taken, so that addresses are others
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(code(), first) << count;
      kept.emplace_back(997 * (i + 1), 'x');
    }
  }
}

TEST(LoopStages, WriteOverWhatTheyRead) {
  const auto f = [](std::span<const Array> x) { return Arrays{chain(x[0]), lax::exp(x[1])}; };
  const auto fresh = [] {
    return Arrays{uniform({5000}, DType::f32), uniform({5000}, DType::f32, 0, 1, 2)};
  };
  const Compiled e = compile(stage(f, fresh()));
  EXPECT_TRUE(has_stages(e));
  const Arrays want = f(fresh());
  Arrays donated = fresh();
  Arrays got;
  e->execute(donated, {true, true}, got, "test");
  for (std::size_t i = 0; i < 2; ++i) expect_equal(got[i], want[i], 0, "in place");
}

// What the last stage reads besides, it reads before it stores, whichever of the results lies over that.
TEST(LoopStages, ReadBeforeTheyWriteOver) {
  const auto f = [](std::span<const Array> x) {
    return Arrays{lax::gt(x[0], x[1]), lax::tanh(lax::tanh(lax::div(x[3], x[2])))};
  };
  for (const std::int64_t n : {441, 20'000}) {
    const auto fresh = [&] {
      Arrays x;
      for (unsigned seed = 1; seed <= 4; ++seed) x.push_back(uniform({n}, DType::f32, -2, 2, seed));
      return x;
    };
    const std::vector<bool> donated = {true, false, false, false};
    const Compiled e = compile(stage(f, fresh()), {.donated = donated});
    const Arrays want = f(fresh());
    Arrays got;
    e->execute(fresh(), donated, got, "test");
    for (std::size_t i = 0; i < 2; ++i) expect_equal(got[i], want[i], 0, "in place");
  }
}

// Forty columns, which functions put together: these cannot store nowhere at the ends.
TEST(LoopStages, OfColumnsThatFunctionsStore) {
  const auto f = [](std::span<const Array> x) {
    Arrays columns;
    for (std::int64_t c = 0; c < 40; ++c) {
      const std::int64_t from = (17 * c + 3) % x[0].shape()[1];
      columns.push_back(lax::slice(x[0], {0, from}, {x[0].shape()[0], from + 1}));
    }
    columns[0] = lax::tanh(lax::exp(columns[0]));
    return Arrays{lax::concatenate(columns, 1)};
  };
  for (const std::int64_t n : {129, 500, 1001}) {
    const bool stages = has_stages(check(f, {uniform({n, 129}, DType::f32)}, 1));
    if (n >= 500 && runtime::target_isa() == runtime::Isa::avx512) { EXPECT_TRUE(stages) << n; }
  }
}

// Long chains of integer arithmetic, whose halves are side by side.
TEST(LoopStages, OfRandomNumbers) {
  const Arrays key = {Array(std::vector<std::uint32_t>{3, 5}, {2})};
  for (const Shape& shape : {Shape{5000}, Shape{9, 2047}, Shape{70'001}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto f = [&](std::span<const Array> k) {
        return Arrays{telamon::random::normal(k[0], shape, dtype)};
      };
      EXPECT_TRUE(has_stages(check(f, key, 1)));
    }
  }
}

// Forces between pairs: sums of rows and of columns of what follows a quotient.
TEST(LoopStages, FoldsDivideATripAhead) {
  const auto f = [](std::span<const Array> x) {
    const std::int64_t n = x[0].size();
    const Array a = lax::broadcast_in_dim(x[0], {n, n}, {0});
    const Array d = lax::sub(a, lax::broadcast_in_dim(x[0], {n, n}, {1}));
    const Array q = lax::div(lax::sqrt(lax::add(lax::square(d), lax::square(a))), lax::add(d, a));
    Array s = q;
    for (int i = 0; i < 12; ++i) s = lax::add(lax::mul(s, q), lax::mul(d, s));
    return Arrays{lax::reduce_sum(s, {0}), lax::reduce_sum(s, {1}), lax::reduce_max(s, {1})};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {1, 15, 100, 256, 1000, 1027}) {
      SCOPED_TRACE(n);
      const Arrays x = {uniform({n}, dtype, 0.5, 1)};
      const Jaxpr jaxpr = stage(f, x);
      const Compiled with = compile(jaxpr);
      const Compiled without =
          compile(jaxpr, {.contract = false, .name = "without", .disabled = {"divide_ahead"}});
      const Arrays got = execute(with, x), want = execute(without, x);
      for (std::size_t i = 0; i < got.size(); ++i) expect_equal(got[i], want[i], 0, "ahead");
      if (n >= 1000 && runtime::host_isa() == runtime::Isa::avx512) {
        EXPECT_NE(with->text("ir").find("%ahead"), std::string::npos);
        EXPECT_EQ(without->text("ir").find("%ahead"), std::string::npos);
      }
    }
  }
}

// The gradient of gelu: one call in a chain of arithmetic.
TEST(LoopStages, AreMadeOfACallAndTheArithmeticAroundIt) {
  const auto f = [](std::span<const Array> xs) {
    const Array& x = xs[0];
    const Array square = lax::mul(x, x);
    const Array t =
        lax::tanh(lax::mul(lax::add(x, lax::mul(lax::mul(square, x), 0.044715)), 0.7978845608));
    const Array slope = lax::mul(lax::add(lax::mul(square, 0.134145), 1.0), 0.7978845608);
    const Array inner = lax::mul(lax::mul(x, slope), lax::sub(1.0, lax::mul(t, t)));
    return Arrays{lax::mul(lax::add(lax::add(t, 1.0), inner), 0.5)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {1, 17, 1000, 4096, 5001}) {
      const Compiled e = check(f, {uniform({n}, dtype, -6, 6)}, 1);
      if (n >= 4096) { EXPECT_TRUE(has_stages(e)) << n; }
    }
  }
}

TEST(LoopStages, AreNotMadeOfSingleCallsNorOfShortLoops) {
  const auto one = [](std::span<const Array> x) { return Arrays{lax::exp(lax::neg(x[0]))}; };
  EXPECT_FALSE(has_stages(check(one, {uniform({4096}, DType::f32)}, 1)));
  const auto several = [](std::span<const Array> x) { return Arrays{chain(x[0])}; };
  EXPECT_FALSE(has_stages(check(several, {uniform({16}, DType::f64)}, 1)));
}

}  // namespace
}  // namespace telamon::testing
