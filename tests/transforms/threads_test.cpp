// Threads that trace at the same moment: barriers inside the traced functions see to that.
#include <atomic>
#include <barrier>
#include <bit>
#include <functional>
#include <thread>

#include "support/backends.hpp"
#include "support/disk_cache.hpp"
#include "support/threads.hpp"
#include "telamon/history.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

constexpr int kThreads = 8;

/// Runs f(0), ..., f(7) on a thread each; the first exception is the test's failure.
template <class F>
void on_all_threads(const F& f) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        f(t);
      } catch (const std::exception& e) {
        if (failures++ == 0) { ADD_FAILURE() << "thread " << t << ": " << e.what(); }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Threads, TraceOneFunctionForTheFirstTimeTogether) {
  // Nobody leaves the function before all are in it, so each thread traces; one program is kept.
  std::barrier all_inside(kThreads);
  std::atomic<int> traces = 0;
  std::atomic<bool> meet = true;
  const auto g = tl::jit([&](Array x) {
    ++traces;
    if (meet) all_inside.arrive_and_wait();
    return tl::sum(tl::tanh(x) * tl::exp(-x));
  });
  const Array x = tl::linspace(0.0, 1.0, 100);
  tl::reset_counters();
  std::vector<double> results(kThreads);
  on_all_threads([&](int t) { results[static_cast<std::size_t>(t)] = value(g(x)); });
  EXPECT_EQ(traces, kThreads);
  EXPECT_EQ(g.cache_size(), 1u);
  EXPECT_EQ(tl::counters().compiles, 1);
  meet = false;
  for (const double y : results) EXPECT_EQ(y, value(g(x)));
  EXPECT_EQ(traces, kThreads) << "the kept program serves later calls";
}

TEST(Threads, DifferentiateOneJittedFunctionForTheFirstTimeTogether) {
  std::barrier all_inside(kThreads);
  std::atomic<bool> meet = true;
  const auto g = tl::jit([&](Array x) {
    if (meet) all_inside.arrive_and_wait();
    return tl::sum(x * tl::sin(x));
  });
  const Array x({0.5, 1.5, -2.0});
  std::vector<std::vector<double>> slopes(kThreads);
  on_all_threads([&](int t) { slopes[static_cast<std::size_t>(t)] = values(tl::grad(g)(x)); });
  meet = false;
  for (const auto& slope : slopes) EXPECT_EQ(slope, values(tl::grad(g)(x)));
  expect_near(tl::grad(g)(x), values(tl::sin(x) + x * tl::cos(x)));
}

/// A nest of transformations, another one for each k; `inside` is called in its innermost function.
template <class Inside>
Array nested(int k, const Array& x, const Inside& inside) {
  const auto wave = tl::jit([k, &inside](Array v) {
    inside();
    return tl::sin(v * static_cast<double>(k + 1)) * v;
  });
  const auto total = [wave](Array v) { return tl::sum(wave(v)); };
  switch (k % 4) {
    case 0: return tl::jit(tl::grad(total))(x);
    case 1: return tl::vmap(tl::grad(tl::jit([wave](Array v) { return wave(v); })))(x);
    case 2: return tl::jvp(tl::grad(tl::jit(total)), std::tuple{x}, std::tuple{tl::cos(x)}).second;
    default: return tl::sum(tl::jit(tl::hessian(total))(x), 0);
  }
}

TEST(Threads, TraceDifferentNestsOfTransformationsTogether) {
  const Array x({0.3, -0.7, 1.9, 0.4});
  std::vector<std::vector<double>> want;
  for (int k = 0; k < kThreads; ++k) want.push_back(values(nested(k, x, [] {})));
  std::barrier all_inside(kThreads);
  std::vector<std::vector<double>> got(kThreads);
  on_all_threads([&](int k) {
    bool first = true;
    for (int repeat = 0; repeat < 5; ++repeat) {
      got[static_cast<std::size_t>(k)] = values(nested(k, x, [&] {
        if (std::exchange(first, false)) all_inside.arrive_and_wait();
      }));
    }
  });
  for (std::size_t k = 0; k < want.size(); ++k) EXPECT_EQ(got[k], want[k]) << "nest " << k;
}

// Compiling, calling what others compile, eager work and derivatives, all at once.
TEST(Threads, CompileAndCallProgramsTogether) {
  const auto shared = tl::jit([](const Array& x) { return tl::sum(tl::sin(x) * x); });
  const auto slope = tl::grad(shared);
  std::vector<Array> inputs;
  std::vector<double> want;
  std::vector<std::vector<double>> want_slope;
  for (int n = 1; n <= 5; ++n) {  // a signature each
    inputs.push_back(tl::linspace(0.1, 2.0, n));
    want.push_back(value(tl::sum(tl::sin(inputs.back()) * inputs.back())));
    want_slope.push_back(values(tl::sin(inputs.back()) + inputs.back() * tl::cos(inputs.back())));
  }
  on_all_threads([&](int t) {
    for (int round = 0; round < 10; ++round) {
      const double c = 100 * t + round;
      const auto own = tl::jit([c](const Array& x) { return x * c + 1.0; });
      ASSERT_EQ(values(own(Array({1.0, 2.0}))), (std::vector<double>{c + 1, 2 * c + 1}));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t k = (i + static_cast<std::size_t>(t)) % inputs.size();
        ASSERT_NEAR(value(shared(inputs[k])), want[k], 1e-5 * (1 + std::abs(want[k])));
        expect_near(slope(inputs[k]), want_slope[k], 1e-5);
        ASSERT_EQ(values(inputs[k] + 1.0).size(), k + 1);
      }
    }
  });
  EXPECT_EQ(shared.cache_size(), inputs.size());
}

/// Of an f32 array.
std::vector<std::uint32_t> bits(const Array& x) {
  std::vector<std::uint32_t> all;
  for (const float number : x.to_vector<float>())
    all.push_back(std::bit_cast<std::uint32_t>(number));
  return all;
}

/// Work that the pool cuts into chunks, of which its threads take some each.
struct LargeWork {
  std::function<Array(const Array&)> f;
  Array x;
  std::vector<std::uint32_t> want = {};  ///< the bits that one thread computes alone
};
std::vector<LargeWork> large_work() {
  const auto noise = [](const tl::Shape& shape) {
    const Array places = tl::arange(shape.num_elements(), tl::DType::f32);
    return tl::reshape(tl::sin(places * places * 12.9898f), shape);
  };
  const Array matrix = noise({200, 200}), line = noise({100'000});
  std::vector<LargeWork> all;
  for (const double scale : {0.5, 1.5, 2.5, 3.5}) {
    all.push_back({[scale](const Array& x) { return tl::matmul(x, x) * scale; }, matrix});
    all.push_back({[scale](const Array& x) { return tl::softmax(x * scale); }, line});
    all.push_back({[scale](const Array& x) { return tl::sort(x * scale); }, line});
  }
  const WithThreads alone(1);
  for (LargeWork& w : all) w.want = bits(tl::jit(w.f)(w.x));
  return all;
}

constexpr int kRounds = 2;
/// Each thread compiles all of it in each round, and calls it: some at the same moment as another, some later. While
/// one computes, others compile, or compute without the pool.
void expect_bits_of_work_alone(const std::vector<LargeWork>& all) {
  const WithThreads pool(4);
  std::barrier begin(kThreads);
  on_all_threads([&](int t) {
    begin.arrive_and_wait();
    for (std::size_t i = 0; i < kRounds * all.size(); ++i) {
      const std::size_t k = (i + static_cast<std::size_t>(t / 2)) % all.size();
      const auto f = tl::jit(all[k].f);
      for (int call = 0; call < 2; ++call)
        EXPECT_TRUE(bits(f(all[k].x)) == all[k].want) << "work " << k << " of thread " << t;
    }
  });
}

TEST(Threads, ShareThePoolWhileTheyCompile) { expect_bits_of_work_alone(large_work()); }

TEST(Threads, FillAndReadOneDiskCache) {
  TELAMON_TEST_NEEDS_COMPILER();
  const std::vector<LargeWork> all = large_work();
  const tl::testing::CacheFolder folder;
  const tl::testing::CacheChanges changes;
  expect_bits_of_work_alone(all);
  const auto programs = static_cast<std::int64_t>(all.size()), reads = kThreads * programs;
  EXPECT_EQ(changes().hits + changes().misses, kRounds * reads);
  EXPECT_GE(changes().hits, (kRounds - 1) * reads) << "all are there after a round";
  EXPECT_GE(changes().stores, programs);
  EXPECT_LE(changes().stores, changes().misses);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_EQ(tl::disk_cache_contents().files, programs);
}

// More signatures than a function remembers: programs are forgotten while other threads call them.
TEST(Threads, CallProgramsWhileOthersAreForgotten) {
  const auto f = tl::jit([](const Array& x) { return tl::sum(x) + 1.0; },
                         {.backend = "interpret", .max_signatures = 2});
  on_all_threads([&](int t) {
    for (int i = 0; i < 60; ++i) {
      const int n = 1 + (i * (t + 1)) % 5;
      ASSERT_EQ(value(f(tl::ones({n}))), n + 1.0);
    }
  });
  EXPECT_LE(f.cache_size(), 2u);
}

// One Array is referred to, and let go, by all at once.
TEST(Threads, ShareArraysWithoutALock) {
  const auto f = tl::jit([](const Array& x, const Array& y) { return x + y; });
  const Array x({1.0, 2.0}), y({3.0, 4.0});
  const std::vector<double> want{4, 6};
  on_all_threads([&](int) {
    Array mine = x;
    for (int i = 0; i < 500; ++i) {
      const Array copy = i % 2 ? x : mine;
      mine = copy;
      ASSERT_EQ(values(f(mine, y)), want);
    }
  });
  EXPECT_EQ(x.node()->use_count(), 1);
  EXPECT_EQ(y.node()->use_count(), 1);
}

}  // namespace
}  // namespace telamon_test
