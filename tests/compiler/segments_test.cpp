// Long chains of operations are one kernel, whose loop calls a function for each stretch of it.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "compiler/executable/host_calls.hpp"
#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

/// n operations, each on results of a few before it: numbers, conditions, integers, a single number.
Program chain(int n, unsigned seed = 1) {
  return [=](std::span<const Array> x) {
    std::mt19937 random(seed);
    Arrays v = {x[0]};
    Array yes = lax::gt(x[0], lax::full_like(x[0], 0));
    for (int i = 0; i < n; ++i) {
      const Array a = v.back(),
                  b = v[v.size() - 1 - std::min<std::size_t>(v.size() - 1, random() % 9)];
      switch (random() % 8) {
        case 0: v.push_back(lax::mul(lax::add(a, b), lax::full_like(a, 0.5))); break;
        case 1: v.push_back(lax::mul(a, lax::sin(b))); break;
        case 2: v.push_back(lax::sub(lax::sin(a), b)); break;
        case 3: v.push_back(lax::max(a, lax::neg(b))); break;
        case 4: yes = lax::lt(a, b); [[fallthrough]];
        case 5: v.push_back(lax::select_n(yes, Arrays{a, lax::neg(b)})); break;
        case 6: {
          const Array whole =
              lax::convert_element_type(lax::mul(a, lax::full_like(a, 8)), DType::i32);
          v.push_back(lax::add(
              a, lax::convert_element_type(lax::rem(whole, lax::full_like(whole, 5)), a.dtype())));
          break;
        }
        default:
          v.push_back(lax::sub(a, lax::broadcast_in_dim(lax::mul(x[1], x[1]), a.shape(), {})));
      }
      if (i % 50 == 7) v.push_back(lax::reshape(lax::reshape(v.back(), {a.size()}), a.shape()));
    }
    return Arrays{v.back(), v[v.size() / 2], lax::reshape(v[v.size() / 3], {x[0].size(), 1}),
                  lax::lt(v.back(), x[0])};
  };
}

Array number(DType dtype) { return lax::full({}, dtype, 0.3); }

TEST(Segments, ComputeTheBitsOfEagerEvaluation) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{64}, Shape{3, 341}, Shape{100'003}}) {
      check(chain(400), {uniform(shape, dtype), number(dtype)}, 1);
    }
  }
  for (const unsigned seed : {2u, 3u, 4u}) {
    check(chain(700, seed), {uniform({37}, DType::f32), number(DType::f32)}, 1);
  }
}

TEST(Segments, DoNotDependOnTheNumberOfThreads) {
  const Arrays inputs{uniform({100'003}, DType::f32), number(DType::f32)};
  const Compiled f = compile(stage(chain(300), inputs));
  const auto result_with = [&](int threads) {
    const WithThreads scope(threads);
    return execute(f, inputs);
  };
  const Arrays want = result_with(1);
  for (const int threads : {2, 3, 7}) {
    const Arrays got = result_with(threads);
    for (std::size_t i = 0; i < got.size(); ++i) expect_equal(got[i], want[i], 0, "result");
  }
}

Array waves(const Array& x, int n) {
  Array y = x;
  for (int i = 0; i < n; ++i) y = sin(y) * x + maximum(y, -x) * .5;
  return y;
}
Program gradient(int n) {
  return [n](std::span<const Array> x) {
    return Arrays{grad([n](const Array& a) { return sum(waves(a, n)); })(x[0])};
  };
}

TEST(Segments, MakeOneKernelOfTheGradientOfAChain) {
  for (const int n : {20, 100, 400}) check(gradient(n), {uniform({1000}, DType::f32, 0, 1)}, 1);
  check(gradient(20), {uniform({100'003}, DType::f64, 0, 1)}, 1);
}

// The lines of a text that contain all parts.
int lines_with(const std::string& text, std::initializer_list<std::string_view> parts) {
  int found = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    found += std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
      return line.find(part) != std::string::npos;
    });
  }
  return found;
}

// The way back reads what the way there computes, each value twice or more: in chains that are one loop, and in
// those that are cut. The size is one of whole vectors, so that the code is there once.
TEST(Segments, ComputeEachValueOfAGradientOnce) {
  constexpr std::int64_t kSize = 1024;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int n : {10, 25, 100, 400, 1000}) {
      const Program f = [n](std::span<const Array> x) {
        const auto chain = [n](Array y) {
          for (int i = 0; i < n; ++i) y = i % 3 == 0 ? sin(y) : i % 3 == 1 ? tanh(y) : exp(-y);
          return sum(y);
        };
        return Arrays{grad(chain)(x[0])};
      };
      const Compiled e = compile(stage(f, {uniform({kSize}, dtype, 0, 1)}));
      EXPECT_EQ(e->info().kernels, 1);
      // Of three operations: sin and its cos; tanh t and (1 - t) (1 + t); exp and two negatives; three products.
      // Of the last sin only its cos.
      const int threes = n / 3, functions = 4 * threes + 1;
      const CostAnalysis cost = e->cost_analysis();
      EXPECT_EQ(cost.transcendentals, static_cast<double>(functions * kSize));
      EXPECT_EQ(cost.flops, static_cast<double>(8 * threes * kSize));
      const std::string ir = e->text("ir");
      EXPECT_EQ(lines_with(ir, {" call ", "> @"}), functions) << n << " operations";
      EXPECT_EQ(lines_with(ir, {" = fmul "}), 4 * threes) << n << " operations";
      EXPECT_EQ(lines_with(ir, {" = fadd "}), threes) << n << " operations";
      EXPECT_EQ(lines_with(ir, {" = fsub "}), threes) << n << " operations";
      // These are made wherever they are read: sums and products take them in.
      EXPECT_LE(lines_with(ir, {" = fneg "}), 6 * threes) << n << " operations";
    }
  }
}

// What the way back needs of the way there lies in the caches: a vector of each value per thread.
TEST(Segments, KeepNoArrayInMemory) {
  const auto arena = [](std::int64_t n) {
    const Arrays inputs{uniform({n}, DType::f32, 0, 1)};
    return compile(stage(gradient(100), inputs))->info().arena_bytes;
  };
  EXPECT_EQ(arena(1 << 20), arena(1 << 22));
  EXPECT_LT(arena(1 << 20), 17u << 20);  // of the 2 GB that 500 arrays would take
}

// Conditions are bits, and what is selected by them is selected where it is read.
TEST(Segments, KeepConditionsAsBits) {
  constexpr int kConditions = 200;
  constexpr std::int64_t kSize = 64;
  const Program late = [](std::span<const Array> x) {
    Array y = x[0];
    Arrays conditions;
    for (int i = 0; i < kConditions; ++i) {
      y = lax::mul(lax::add(y, x[0]), lax::full_like(y, .5 + .001 * i));
      conditions.push_back(lax::lt(y, x[0]));
    }
    for (const Array& c : conditions) {
      const Array weight = lax::convert_element_type(c, y.dtype());
      y = lax::sub(lax::mul(y, weight), lax::neg(lax::sin(y)));
    }
    return Arrays{y};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto f = check(late, {uniform({kSize}, dtype)}, 1);
    EXPECT_LT(f->info().arena_bytes, kConditions * kSize / 2);
  }
}

#if defined(__x86_64__)
// Lines that turn bits by a mask. A register that is combined with itself is cleared.
int masks_in(const std::string& assembly) {
  int found = 0;
  std::istringstream lines(assembly);
  for (std::string line, name, first; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> name >> first;
    if (name.find("xorp") == std::string::npos && name.find("pxor") == std::string::npos) continue;
    bool clears = true;
    for (std::string other; words >> other;) {
      other.resize(std::min(other.find(','), other.size()));
      clears = clears && first == other + ",";
    }
    found += clears ? 0 : 1;
  }
  return found;
}

TEST(Segments, TakeSignsIntoSums) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 100; ++i)
      y = lax::add(lax::mul(lax::neg(lax::sin(y)), x[0]), lax::sub(x[0], lax::neg(y)));
    return Arrays{y};
  };
  const auto compiled = check(f, {uniform({100}, DType::f32)}, 1);
  EXPECT_LT(masks_in(compiled->text("asm")),
            10);  // of 200 signs; registers are cleared in many ways
  EXPECT_GT(masks_in(check([](std::span<const Array> x) { return Arrays{lax::neg(x[0])}; },
                           {uniform({100}, DType::f32)})
                         ->text("asm")),
            0);
}

#endif

// Chunks take the memory of those that have ended, which is in the caches: as much as there are threads.
TEST(Segments, SharesTapesBetweenChunks) {
  constexpr std::int64_t kSlice = 64, kFirst = 128, kTrips = 40;
  static std::array<std::atomic<int>, kTrips> used;
  for (auto& u : used) u = 0;
  compiler::HostState state;
  std::vector<std::byte> arena(kFirst + kTrips * kSlice);
  compiler::Context context{.arena = arena.data(), .host = &state};
  const auto kernel = [](compiler::Context* c, std::int64_t begin, std::int64_t end,
                         const std::int64_t*) {
    EXPECT_EQ(end, begin + 1);
    const std::int64_t slice = (c->chunk - c->arena - kFirst) / kSlice;
    const int others = used[static_cast<std::size_t>(slice)].fetch_add(1);
    EXPECT_EQ(others % 2, 0);  // nobody has it now
    std::this_thread::yield();
    used[static_cast<std::size_t>(slice)].fetch_add(1);
  };
  const WithThreads scope(3);
  EXPECT_EQ(compiler::parallel_kernel(&context, kernel, nullptr, kTrips, 1, kTrips, kFirst, kSlice),
            0);
  int all = 0;
  for (const auto& u : used) all += u / 2;
  EXPECT_EQ(all, kTrips);
  for (std::size_t i = 3; i < kTrips; ++i) EXPECT_EQ(used[i], 0) << i;
}

// The gradient of 400 waves has room for fewer tapes than there would be chunks.
TEST(Segments, BeginChunksAtWholeVectorsWhereMemoryBoundsTheirNumber) {
  const Arrays inputs{uniform({100'003}, DType::f32, 0, 1)};
  const Compiled f = compile(stage(gradient(400), inputs));
  const auto gradient_with = [&](int threads) {
    const WithThreads scope(threads);
    return execute(f, inputs)[0];
  };
  expect_equal(gradient_with(3), gradient_with(1), 0, "gradient");
}

// The tape has room for them.
TEST(Segments, TakeSeveralVectorsAtATime) {
  const auto arena = [](std::int64_t n, CompileOptions options = {}) {
    const Arrays inputs{uniform({n}, DType::f64, 0, 1)};
    return check(gradient(100), inputs, 1, 0, options)->info().arena_bytes;
  };
  const CompileOptions one{.contract = false, .name = "one", .disabled = {"overlap_segments"}};
  EXPECT_GT(arena(100), 4 * arena(100, one));
  EXPECT_EQ(arena(3), arena(3, one));  // less than two of the narrowest
}

TEST(Segments, HaveNoMoreTapesThanChunks) {
  const auto arena = [](std::int64_t n) {
    const Arrays inputs{uniform({n}, DType::f32, 0, 1)};
    return check(gradient(100), inputs, 1)->info().arena_bytes;
  };
  const std::int64_t one = arena(300);
  EXPECT_GT(arena(1500), one);  // several chunks
  EXPECT_LE(arena(1500), 8 * one);
  EXPECT_GT(arena(100'000), 8 * one);
}

TEST(Segments, HoldUnderContraction) {
  const Arrays inputs{uniform({1000}, DType::f64), number(DType::f64)};
  CompileOptions options;
  options.contract = true;
  EXPECT_EQ(compile(stage(chain(200), inputs), options)->info().kernels, 1);
  const Program cubes = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 100; ++i) y = lax::add(lax::mul(y, lax::full_like(y, .25)), x[0]);
    return Arrays{y};
  };
  check(cubes, {uniform({1000}, DType::f64)}, 1, 4, options);
}

TEST(Segments, RunInsideLoops) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{
        fori_loop(0, 3, [](const Array&, const Array& c) { return waves(c, 60) * .1; }, x[0])};
  };
  check(f, {uniform({1000}, DType::f32, 0, 1)});
  const Program rows = [](std::span<const Array> x) {
    return Arrays{map([](const Array& row) { return waves(row, 60); }, x[0])};
  };
  check(rows, {uniform({40, 1000}, DType::f32, 0, 1)});
}

TEST(Segments, MayBeDonatedTheirOperands) {
  const Program f = [](std::span<const Array> x) { return Arrays{waves(x[0], 60)}; };
  const Arrays inputs{uniform({1003}, DType::f32, 0, 1)};
  const Compiled compiled = compile(stage(f, inputs));
  const Arrays want = f(inputs);
  const Arrays own{uniform({1003}, DType::f32, 0, 1)};
  expect_equal(execute(compiled, own, {true})[0], want[0], 0, "result over its operand");
}

// One result that is an operand, one that is a literal, one that is a single number.
// Each of these conditions reads the one before it twice: whoever computed them anew for each use would not
// be done in this life.
TEST(Segments, ComputeConditionsOfNumbersOnce) {
  const Program f = [](std::span<const Array> x) {
    Array done = lax::gt(x[1], lax::full_like(x[1], 1));
    for (int i = 0; i < 60; ++i) {
      const Array hit = lax::lt(x[1], lax::full_like(x[1], 0.1 * i));
      done = lax::bitwise_or(done, lax::bitwise_and(hit, lax::bitwise_not(done)));
    }
    const Array y = waves(x[0], 60);
    return Arrays{
        lax::select_n(lax::broadcast_in_dim(done, y.shape(), {}), Arrays{y, lax::neg(y)})};
  };
  check(f, {uniform({1000}, DType::f32, 0, 1), number(DType::f32)});
}

TEST(Segments, GiveWhatTheyDoNotCompute) {
  const Program f = [](std::span<const Array> x) {
    const Array one = lax::broadcast_in_dim(lax::sin(x[1]), x[0].shape(), {});
    return Arrays{waves(x[0], 60), one, lax::full_like(x[0], 3),
                  lax::reshape(x[0], {x[0].size(), 1})};
  };
  for (const std::int64_t n : {1, 1000})
    check(f, {uniform({n}, DType::f32, 0, 1), number(DType::f32)});
}

// Rows of which a chain reads columns, of the row after next in one of them, and makes others; and what is not made of them.
TEST(Segments, ReadAndWriteRowsByColumns) {
  const Program f = [](std::span<const Array> x) {
    const std::int64_t n = x[0].shape()[0];
    const auto part = [&](const Array& of, std::int64_t first, std::int64_t last, std::int64_t c) {
      return lax::slice(of, {first, c}, {last, c + 1});
    };
    const Arrays ends = {part(x[0], 2, n, 0), part(x[0], 0, 2, 0)};
    Arrays v = {part(x[0], 0, n, 1), part(x[0], 0, n, 2), lax::concatenate(ends, 0)};
    for (std::size_t i = 0; i < 120; ++i) {
      Array& to = v[i % 3];
      const Array& other = v[(i + 1) % 3];
      to = i % 4 == 0   ? lax::mul(lax::sin(to), other)
           : i % 4 == 1 ? lax::sub(to, lax::neg(lax::sin(other)))
           : i % 4 == 2 ? lax::select_n(lax::lt(to, other), Arrays{lax::neg(to), other})
                        : lax::mul(lax::add(to, other), lax::full_like(to, .5));
    }
    const Array places = lax::convert_element_type(lax::iota(DType::i32, {n, 1}, 0), v[0].dtype());
    const Arrays rows = {v[2], lax::neg(v[0]), lax::full_like(v[0], 3), v[1], places};
    return Arrays{lax::concatenate(rows, 1), lax::lt(v[0], v[1]), lax::mul(v[1], places),
                  part(x[0], 0, n, 1)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {2, 3, 7, 8, 9, 33, 1001, 20'000}) {
      SCOPED_TRACE(n);
      const Compiled e = check(f, {uniform({n, 3}, dtype, 0, 1)});
      EXPECT_THAT(e->text("plan"), ::testing::HasSubstr("u8["));  // the tape
    }
  }
}

// Numbers that a function computes cannot be read at other indices: these go through memory.
TEST(Segments, ReadNothingThatTheyCompute) {
  const Program f = [](std::span<const Array> x) {
    const std::int64_t n = x[0].shape()[0];
    Array y = lax::slice(x[0], {0, 0}, {n, 1}), sum = lax::full_like(y, 0);
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < 30; ++k) y = lax::sub(lax::sin(y), lax::full_like(y, .01 * k));
      const Arrays turned = {lax::slice(y, {1, 0}, {n, 1}), lax::slice(y, {0, 0}, {1, 1})};
      sum = lax::add(sum, y);
      y = lax::concatenate(turned, 0);
    }
    return Arrays{lax::concatenate(Arrays{y, sum}, 1)};
  };
  for (const std::int64_t n : {2, 9, 1000}) check(f, {uniform({n, 3}, DType::f64, 0, 1)});
}

// Negatives are made again where they are read, and functions come chain by chain: both wait all the same.
TEST(Segments, TakeSeveralVectorsAtATimeWhereCallsWait) {
  const auto vectors_at_a_time = [](const Program& f, std::int64_t inputs) {
    Arrays x;
    for (std::int64_t i = 0; i < inputs; ++i) x.push_back(uniform({1000}, DType::f64, 0, 1));
    const auto arena = [&](CompileOptions options) {
      return check(f, x, 1, 0, options)->info().arena_bytes;
    };
    return arena({}) > arena({.contract = false, .name = "one", .disabled = {"overlap_segments"}});
  };
  const Program negatives = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 100; ++i) y = lax::tanh(lax::neg(lax::sub(y, lax::full_like(y, .01))));
    return Arrays{y};
  };
  EXPECT_TRUE(vectors_at_a_time(negatives, 1));
  const Program chains = [](std::span<const Array> x) {
    Arrays y(x.begin(), x.end());
    for (int i = 0; i < 10; ++i) {
      for (Array& a : y) a = lax::exp(lax::sub(a, lax::full_like(a, 1)));
    }
    return y;
  };
  EXPECT_TRUE(vectors_at_a_time(chains, 12));
  const Program products = [](std::span<const Array> x) {
    Arrays y(x.begin(), x.end());
    for (int i = 0; i < 20; ++i) {
      for (Array& a : y) a = lax::mul(lax::sub(a, lax::full_like(a, .1)), a);
    }
    return y;
  };
  EXPECT_FALSE(vectors_at_a_time(products, 24));
}

// A matrix that is moved and then read in another shape has an index per dimension, which the flat one would be divided for.
TEST(Segments, ReadNoMatricesThatAreMoved) {
  for (const int n : {1, 120}) {
    const Program f = [n](std::span<const Array> x) {
      const Array rest = lax::slice(x[0], {0, 1}, {40, 300}),
                  first = lax::slice(x[0], {0, 0}, {40, 299});
      Array y = lax::reshape(lax::sub(rest, first), {40 * 299});
      for (int i = 0; i < n; ++i) y = lax::sin(lax::mul(y, lax::full_like(y, .99)));
      return Arrays{y};
    };
    const Compiled e = check(f, {uniform({40, 300}, DType::f32)});
    EXPECT_EQ(lines_with(e->text("plan"), {"kernel loop linear", "reads 0:f32[40,300]"}), 0);
  }
}

// A chain without calls does not pay for what is read by columns, but is no function as a whole for that.
TEST(Segments, AreMadeOfLongChainsThatBeginWithAColumn) {
  const Program f = [](std::span<const Array> x) {
    Array y = lax::slice(x[0], {0, 1}, {1000, 2});
    for (int i = 0; i < 600; ++i) y = lax::mul(lax::add(y, lax::full_like(y, .01 * (i % 7))), y);
    return Arrays{y};
  };
  const Compiled e = check(f, {uniform({1000, 3}, DType::f64, 0, .1)});
  EXPECT_THAT(e->text("plan"), ::testing::HasSubstr("u8["));
}

}  // namespace
}  // namespace telamon::testing
