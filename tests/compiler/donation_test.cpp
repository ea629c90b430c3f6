// Donated arguments: results take over their memory, and are what they are without.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "support.hpp"
#include "telamon/checkify.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;

TEST(Donation, GivesTheArgumentsMemoryToAResult) {
  const Program f = [](std::span<const Array> x) { return Arrays{lax::add(x[0], x[1])}; };
  const Arrays kept = {uniform({100}, DType::f32), uniform({100}, DType::f32, -2, 2, 2)};
  const auto executable = compile(stage(f, kept));
  const Array donated =
      lax::convert_element_type(uniform({100}, DType::f64), DType::f32);  // a fresh buffer
  const Array want = lax::add(donated, kept[1]);
  const Arrays got = execute(executable, {donated, kept[1]}, {true, false});
  expect_equal(got[0], want, 0, "sum in place");
  EXPECT_THROW(donated.to_vector<float>(), DonatedBufferError);  // its memory is the result's now
}

TEST(Donation, OfWhatAnotherResultReadsWaitsForThat) {
  const auto step = [](std::span<const Array> x) { return lax::sub(x[0], lax::mul(x[1], x[1])); };
  const auto loss = [](std::span<const Array> x) {
    return lax::reduce_sum(lax::mul(x[0], x[1]), {0});
  };
  const Program programs[] = {[&](std::span<const Array> x) { return Arrays{step(x), loss(x)}; },
                              [&](std::span<const Array> x) { return Arrays{loss(x), step(x)}; }};
  for (const Program& f : programs) {
    const Array g = uniform({1000}, DType::f32);
    const auto fresh = [] {
      return lax::convert_element_type(uniform({1000}, DType::f64, -2, 2, 2), DType::f32);
    };
    const auto executable = compile(stage(f, {fresh(), g}));
    const Arrays want = execute(executable, {fresh(), g});
    const Array w = fresh();
    const Arrays got = execute(executable, {w, g}, {true, false});
    for (std::size_t i = 0; i < want.size(); ++i) expect_equal(got[i], want[i], 0, "donated");
    EXPECT_THROW(w.to_vector<float>(), DonatedBufferError);
  }
}

TEST(Donation, IsNotUsedWhereTheArgumentIsStillRead) {
  // The reversal reads the argument at other places than it writes.
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::add(x[0], lax::rev(x[0], {0}))};
  };
  const Array x = uniform({100}, DType::f32);
  const auto executable = compile(stage(f, {x}));
  const Array want = f(Arrays{x})[0];
  expect_equal(execute(executable, {x}, {true})[0], want, 0, "reversal");
}

// The intermediate sum may be written over b, but lies where sort(a) lay while b was still to be read.
TEST(Donation, WaitsForAllThatLiesInTheResultsMemory) {
  const Program f = [](std::span<const Array> x) {
    const Array s = lax::sort(x[0], 1) + x[1];
    return Arrays{lax::sort(s, 1) * s};
  };
  const auto fresh = [] {
    return Arrays{uniform({2, 4}, DType::f32), uniform({2, 4}, DType::f32, -2, 2, 2)};
  };
  const Compiled e = check(f, fresh());
  expect_equal(execute(e, fresh(), {false, true})[0], execute(e, fresh())[0], 0, "donated");
}

// As in a training step: gradients are not put where the weights will be.
TEST(Donation, OfWeightsComesBeforeThePlacesOfGradients) {
  const auto w = [](unsigned seed) { return uniform({16, 16}, DType::f32, -1, 1, seed); };
  const auto loss = [](const Array& v, const Array& u, const Array& x) {
    return sum(square(matmul(tanh(matmul(x, v)), u)));
  };
  const Program step = [&](std::span<const Array> x) {
    const auto [dv, du] = grad<0, 1>(loss)(x[0], x[1], x[2]);
    return Arrays{x[0] - 0.1f * dv, x[1] - 0.1f * du};
  };
  const auto fresh = [&] { return Arrays{w(1), w(2), w(3)}; };
  const Compiled e = check(step, fresh(), -1, 1e4);
  const Arrays want = execute(e, fresh()), given = fresh(), got = execute(e, given, {true, true});
  for (std::size_t i = 0; i < 2; ++i) {
    expect_equal(got[i], want[i], 0, "weights");
    EXPECT_THROW(given[i].to_vector<float>(), DonatedBufferError) << i;
  }
}

// A result makes way for the sum that takes over an argument; where nobody donates that one, what the sum adds
// to it lies in the result's memory.
TEST(Donation, IsWaitedForWhereItWasAskedFor) {
  const auto scaled = [](const Array& x, const Array& c) { return exp(x) * sum(exp(x)) + c; };
  const Array x = uniform({40, 40}, DType::f64), c = uniform({40, 40}, DType::f64, -1, 1, 2);
  const auto captures = jit([&](const Array& a) { return scaled(a, c); });
  const auto arena = [](const auto& f, const auto&... args) {
    return f.lower(args...).compile().memory_analysis().arena;
  };
  constexpr std::int64_t kBytes = 40 * 40 * 8;
  EXPECT_LT(arena(captures, x), kBytes);
  EXPECT_LT(arena(jit(scaled), x, c), kBytes);
  EXPECT_GE(arena(jit(scaled, {.donate = {1}}), x, c), kBytes);
  const Array want = jit(scaled)(x, c);
  expect_equal(captures(x), want, 0, "captured");
  expect_equal(jit(scaled, {.donate = {1}})(x, c), want, 0, "donated");
}

// Chains over square matrices, of what reads its operands where it writes and of what does not.
class RandomChains {
 public:
  RandomChains(unsigned seed, std::int64_t n) : seed_(seed), n_(n) {}

  Arrays inputs() const {
    Arrays out;
    for (unsigned i = 0; i < 3; ++i)
      out.push_back(uniform({n_, n_}, DType::f32, -1, 1, 3 * seed_ + i));
    return out;
  }
  /// The same steps each time.
  Arrays operator()(std::span<const Array> in) {
    random_.seed(seed_);
    Arrays values(in.begin(), in.end());
    for (std::size_t i = 3 + below(6); i > 0; --i) values.push_back(step(values));
    const auto results = static_cast<std::ptrdiff_t>(1 + below(2));
    return {values.end() - results, values.end()};
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Array step(const Arrays& values) {
    const Array& x = values[values.size() - 1 - below(3)];
    const Array& y = values[below(values.size())];
    const Array place(static_cast<std::int32_t>(n_ / 2));
    switch (below(12)) {
      case 0: return x + y;
      case 1: return x - y;
      case 2: return x * y;
      case 3: return tanh(x);
      case 4: return matmul(x, y);
      case 5: return lax::sort(x, 1);
      case 6: return cumsum(x, 1);
      case 7: return x.at(place).set(y(place));
      case 8: return x.at(place).add(1.0f);
      case 9: return lax::rev(x, {0}) + y;
      case 10: return transpose(x) * y;
      default: return x - max(x, {.axes = {1}, .keepdims = true});
    }
  }

  unsigned seed_;
  std::int64_t n_;
  std::mt19937 random_;
};

bool was_taken(const Array& x) {
  try {
    (void)x.to_vector<float>();
    return false;
  } catch (const DonatedBufferError&) { return true; }
}

// Where nothing is donated, values lie in the memory of results before these are written.
const CompileOptions kNothingIsDonated = {.donated = std::vector<bool>{}};

bool lends_results(const Compiled& e) {
  return e->text("buffers").find(", before it") != std::string::npos;
}

TEST(Donation, OfAnyArgumentsOfRandomChainsChangesNothing) {
  int taken_over = 0, lent = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomChains chains(seed, seed % 2 == 0 ? 5 : 40);
    const Jaxpr program =
        stage([&](std::span<const Array> x) { return chains(x); }, chains.inputs());
    const Compiled e = compile(program), lends = compile(program, kNothingIsDonated);
    const Arrays want = execute(e, chains.inputs()), others = execute(lends, chains.inputs());
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_equal(others[i], want[i], 0,
                   "seed " + std::to_string(seed) + "\n" + lends->text("plan"));
    lent += lends_results(lends) ? 1 : 0;
    for (const std::vector<bool>& donated : {std::vector{true, false, false},
                                             {false, true, false},
                                             {false, false, true},
                                             {true, true, true}}) {
      const Arrays given = chains.inputs(), got = execute(e, given, donated);
      for (std::size_t i = 0; i < want.size(); ++i)
        expect_equal(got[i], want[i], 0, "seed " + std::to_string(seed) + "\n" + e->text("plan"));
      for (const Array& x : given) taken_over += was_taken(x) ? 1 : 0;
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(taken_over, 200);
  EXPECT_GT(lent, 20);
}

// Arrays of the sizes from which on kernels are shared out to threads and cut into tiles and groups of rows,
// and stores go around the caches.
class LargeChains {
 public:
  LargeChains(unsigned seed, Shape shape) : seed_(seed), shape_(std::move(shape)) {}

  Arrays inputs() const {
    const std::int64_t size = shape_.num_elements();
    const Array places = lax::convert_element_type(lax::iota(DType::i32, {size}), DType::f32);
    Arrays out;
    for (int i = 1; i <= 2; ++i)
      out.push_back(lax::reshape(sin(places * (0.37f * static_cast<float>(i))), shape_));
    return out;
  }
  /// The same steps each time.
  Arrays operator()(std::span<const Array> in) {
    random_.seed(seed_);
    Arrays values(in.begin(), in.end());
    for (std::size_t i = 3 + below(4); i > 0; --i)
      values.push_back(lax::reshape(step(values), shape_));
    const auto results = static_cast<std::ptrdiff_t>(1 + below(2));
    return {values.end() - results, values.end()};
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  // Values stay about as large as they are.
  Array step(const Arrays& values) {
    const Shape rows = shape_.size() == 2 ? shape_ : Shape{1024, 2048};
    const auto matrix = [&](const Array& a) { return lax::reshape(a, rows); };
    const Array x = matrix(values[values.size() - 1 - below(2)]);
    const Array y = matrix(values[below(values.size())]);
    const bool product = rows[0] >= rows[1];
    switch (below(12)) {
      case 0: return (x + y) * 0.5f;
      case 1: return x - x * y;
      case 2: return tanh(x) + y;
      case 3: return x - max(x, {.axes = {1}, .keepdims = true});
      case 4: return x - mean(x, {.axes = {0}, .keepdims = true});
      case 5: return x / (1.0f + sum(square(y), {.axes = {1}, .keepdims = true}));
      case 6: return x * y(slice(0, 1)) + max(abs(x), {.axes = {0}, .keepdims = true});
      case 7: return transpose(lax::reshape(x, {rows[1], rows[0]})) - y;
      case 8: return x.at(3).set(y(5));
      case 9: return x + sum(y) * 1e-6f;
      case 10: return lax::rev(x, {0}) - y;
      default:
        return product ? matmul(x, y(slice(0, rows[1]))) * (1.0f / static_cast<float>(rows[1])) : x;
    }
  }

  unsigned seed_;
  Shape shape_;
  std::mt19937 random_;
};

std::string bytes_of(const Array& x) {
  const auto values = x.to_vector<float>();
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

double largest_difference(const Array& a, const Array& b) {
  return max(abs(a - b)).item<float>() / std::max(max(abs(b)).item<float>(), 1e-30f);
}

TEST(Donation, OfArgumentsOfLargeRandomChainsChangesNothing) {
  const Shape shapes[] = {{2048, 1024}, {1 << 21}, {1 << 15, 64}, {64, 1 << 15}};
  int taken_over = 0;
  std::map<std::string, int> met;
  for (unsigned seed = 0; seed < 16; ++seed) {
    LargeChains chains(seed, shapes[seed % std::size(shapes)]);
    const Arrays inputs = chains.inputs();
    const auto fresh = [&] { return Arrays{lax::neg(inputs[0]), lax::neg(inputs[1])}; };
    const Jaxpr program = stage([&](std::span<const Array> x) { return chains(x); }, inputs);
    const Compiled e = compile(program), lends = compile(program, kNothingIsDonated);
    met["before it"] += lends_results(lends) ? 1 : 0;
    for (const auto& [stage, word] : {std::pair{"plan", "tiles "},
                                      {"plan", "loop "},
                                      {"ir", "telamon_jit_parallel"},
                                      {"ir", "!nontemporal"}})
      met[word] += e->text(stage).find(word) != std::string::npos ? 1 : 0;
    const Arrays eager = chains(fresh());
    std::vector<std::string> want;
    const std::pair<int, std::vector<bool>> runs[] = {
        {1, {}}, {1, {true, true}}, {2, {}}, {2, {true, false}}, {2, {false, true}}};
    for (const auto& [n, donated] : runs) {
      const WithThreads scope(n);
      const Arrays given = fresh(), got = execute(e, given, donated);
      for (std::size_t i = want.size(); i < got.size(); ++i) {
        want.push_back(bytes_of(got[i]));
        EXPECT_LT(largest_difference(got[i], eager[i]), 1e-4) << "seed " << seed;
      }
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(bytes_of(got[i]) == want[i]) << "seed " << seed << ", threads " << n << "\n"
                                                 << e->text("plan");
      for (const Array& x : given) taken_over += was_taken(x) ? 1 : 0;
      if (!donated.empty()) continue;
      const Arrays others = execute(lends, fresh());
      for (std::size_t i = 0; i < others.size(); ++i)
        EXPECT_TRUE(bytes_of(others[i]) == want[i]) << "seed " << seed << ", threads " << n << "\n"
                                                    << lends->text("plan");
    }
  }
  EXPECT_GT(taken_over, 15);
  for (const auto& [word, times] : met) EXPECT_GT(times, 2) << word;
}

TEST(Donation, OfReturnedArgumentsCopiesMuchMemoryInChunks) {
  const Program f = [](std::span<const Array> x) { return Arrays{x[0], x[0]}; };
  for (const auto& [dtype, n] : {std::pair<DType, std::int64_t>{DType::f32, 131'071},
                                 {DType::f32, 131'072},
                                 {DType::f32, 1'000'003},
                                 {DType::f16, 300'001},
                                 {DType::u8, 600'001},
                                 {DType::i64, 70'001}}) {
    SCOPED_TRACE(std::string(short_name(dtype)) + " " + std::to_string(n));
    const Array x = uniform({n}, dtype, 0, 100);
    const auto executable = compile(stage(f, {x}));
    const bool much = n * static_cast<std::int64_t>(size_of(dtype)) >= 512 * 1024;
    EXPECT_EQ(executable->text("ir").find("telamon_jit_parallel") != std::string::npos, much);
    for (const int threads : {1, 2, 3}) {
      const WithThreads scope(threads);
      const Array given = lax::add(x, lax::zeros_like(x));
      for (const std::vector<bool>& donated : {std::vector<bool>{}, std::vector<bool>{true}})
        for (const Array& y : execute(executable, {given}, donated)) expect_equal(y, x, 0, "copy");
    }
  }
}

// As the weights of a large network, and as results that any of them can make way for: each result lists a
// few arguments, and all are taken over.
TEST(Donation, OfHundredsOfEqualArguments) {
  constexpr std::size_t kMany = 1000;
  const auto fresh = [] {
    Arrays out;
    for (std::size_t i = 0; i < kMany; ++i)
      out.push_back(lax::full({16}, DType::f32, static_cast<double>(i)));
    for (Array& x : out) x = x + 1.0f;
    return out;
  };
  const Program written_over = [](std::span<const Array> x) {
    Arrays out;
    for (const Array& w : x) out.push_back(w - w * w);
    return out;
  };
  const Program after_all = [](std::span<const Array> x) {
    const Array all = lax::sort(stack(Arrays(x.begin(), x.end())), 0);
    Arrays out;
    for (std::size_t i = 0; i < x.size(); ++i) out.push_back(lax::sort(all(i), 0));
    return out;
  };
  for (const Program& f : {written_over, after_all}) {
    const Compiled e = compile(stage(f, fresh()));
    const std::string text = e->text("buffers");
    std::size_t listed = 0;
    for (std::size_t at = text.find(" arg"); at != std::string::npos;
         at = text.find(" arg", at + 1))
      ++listed;
    EXPECT_LE(listed, 8 * kMany);
    const Arrays want = execute(e, fresh());
    for (const std::size_t every : {1, 3}) {
      std::vector<bool> donated(kMany, false);
      for (std::size_t i = 0; i < kMany; i += every) donated[i] = true;
      const Arrays given = fresh(), got = execute(e, given, donated);
      for (std::size_t i = 0; i < kMany; ++i) {
        expect_equal(got[i], want[i], 0, "result " + std::to_string(i));
        EXPECT_EQ(was_taken(given[i]), donated[i]) << i;
      }
    }
  }
}

// What throws before anything is written over an argument leaves it as it was.
TEST(Donation, IsUndoneWhereTheCallThrowsBeforeItWrites) {
  for (const std::int64_t size : {3, 100'000}) {
    const auto step = jit(
        [](Array w, Array g) {
          check(all(g < 2.0f), "a gradient of {}", max(g));
          return w - g;
        },
        {.donate = {0}, .name = "step"});
    Array w = ones({size}) * 5.0f;
    const Array held = w;
    EXPECT_THROW(step(w, ones({size}) * 3.0f), CheckError);
    EXPECT_TRUE(all(held == 5.0f).item<bool>());
    w = step(w, ones({size}));  // and may be donated again
    EXPECT_TRUE(all(w == 4.0f).item<bool>());
    EXPECT_THROW(held.to_vector<float>(), DonatedBufferError);
  }
}

TEST(Donation, ToACallThatThrowsLaterSaysSo) {
  const auto step = jit(
      [](Array w, Array g) {
        const Array next = w - g;
        check(next(3) > 0.0f, "a weight of {}", next(3));
        return next;
      },
      {.donate = {0}, .name = "step"});
  const Array w = ones({1000}) * 5.0f;
  EXPECT_THROW(step(w, ones({1000}) * 9.0f), CheckError);
  try {
    w.to_vector<float>();
    ADD_FAILURE() << "the argument can be read";
  } catch (const DonatedBufferError& e) {
    EXPECT_EQ(e.message(),
              "the array f32[1000] was donated to step, which threw when it had begun to write its "
              "results there, and its buffer no longer holds its value; use the result of that "
              "call, if it gave one, or do not donate the argument");
  }
}

// The steps of a loop come again and again: what one trip writes is there when the next one throws.
struct LoopThatThrows {
  Array argument = ones({1000}) * 5.0f;

  explicit LoopThatThrows(const std::function<Array(const Array&)>& begin) {
    const auto run = jit(
        [begin](Array w) {
          return fori_loop(
              0, 5,
              [](const Array& i, const Array& c) {
                check(i < 3, "trip {}", i);
                return c + 1.0f;
              },
              begin(w));
        },
        {.donate = {0}, .name = "run"});
    EXPECT_THROW(run(argument), CheckError);
  }
};

TEST(Donation, OfWhatALoopBeginsWithIsUndone) {
  // The first trip reads the argument: nothing is written over it.
  const LoopThatThrows loop([](const Array& w) { return w; });
  EXPECT_TRUE(all(loop.argument == 5.0f).item<bool>());
}

TEST(Donation, OfWhatALoopWritesOverIsNotUndone) {
  const LoopThatThrows loop([](const Array& w) { return w * 2.0f; });
  try {
    loop.argument.to_vector<float>();
    ADD_FAILURE() << "the argument can be read";
  } catch (const DonatedBufferError& e) { EXPECT_THAT(e.message(), HasSubstr("which threw")); }
}

}  // namespace
}  // namespace telamon::testing
