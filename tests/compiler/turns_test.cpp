// Loops that take several trips in a turn: the same bits, fewer turns.
#include <algorithm>
#include <map>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

constexpr std::int64_t kWidth = 40;
using Two = std::pair<Array, Array>;
using Step = std::function<std::pair<Two, Array>(Two, Array)>;
std::map<std::string, Step> steps() {
  const auto weights = [] {
    return lax::reshape(lax::iota(DType::f64, {kWidth * kWidth}), {kWidth, kWidth}) * 0.001 - 0.8;
  };
  return {
      {"element by element",
       [](Two c, Array x) {
         return std::pair{Two{c.first * 0.5 + x, c.second - c.first}, x * c.second};
       }},
      {"swapped", [](Two c, Array x) { return std::pair{Two{c.second, c.first + x}, c.first}; }},
      {"mixed",
       [=](Two c, Array x) {
         return std::pair{Two{matmul(weights() + x(0), c.first) * 0.2, c.second + sum(c.first)},
                          c.first(1) * x};
       }},
      {"overwritten in part",
       [](Two c, Array x) {
         const Array i = (c.second(0) * 2.0).astype(DType::i32);
         return std::pair{Two{c.first.at(i % 6).set(x(2)).at(3).add(c.first(1)), c.second + 0.75},
                          x * 2.0};
       }},
      {"with loops and branches in it",
       [](Two c, Array x) {
         const Array y = fori_loop(0, 3,
                                   [&](Array k, Array y) {
                                     return cond(
                                         x(k) > 0.0, [&](Array y) { return y.at(k).set(x(k)); },
                                         [](Array y) { return y; }, y);
                                   },
                                   c.first, {.unroll = 2});
         return std::pair{Two{y, c.second * 0.5 + y}, y - x};
       }},
  };
}

std::function<Arrays(std::span<const Array>)> looped(const Step& step, const ScanOptions& options) {
  return [=](std::span<const Array> x) {
    const auto [last, ys] = scan(step, Two{x[0], x[1]}, x[2], options);
    return Arrays{last.first, last.second, ys};
  };
}
Arrays inputs(std::int64_t length) {
  return {uniform({kWidth}, DType::f64), uniform({kWidth}, DType::f64, -1, 1, 2),
          uniform({length, kWidth}, DType::f64, -1, 1, 3)};
}

TEST(Turns, OfAnyNumberOfTripsGiveTheSameBits) {
  for (const auto& [what, step] : steps()) {
    const std::pair<int, int> cases[] = {{0, 2}, {1, 3}, {2, 2}, {7, 2}, {7, 3}, {8, 4}, {5, 7}};
    for (const auto& [length, unroll] : cases) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(what + ", " + std::to_string(length) + " trips, " + std::to_string(unroll) +
                     (reverse ? " backwards" : ""));
        const Arrays x = inputs(length);
        const auto once = compile(stage(looped(step, {.reverse = reverse}), x));
        const auto executable =
            check(looped(step, {.reverse = reverse, .unroll = unroll}), x, -1, 1e3);
        const Arrays want = execute(once, x), got = execute(executable, x);
        for (std::size_t i = 0; i < want.size(); ++i)
          expect_equal(got[i], want[i], 0, executable->text("plan"));
      }
    }
  }
}

std::int64_t count(const std::string& text, const std::string& word) {
  std::int64_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Turns, TakeSeveralTripsOfALoopOverArrays) {
  const Arrays x = inputs(10);
  const auto plan_of = [&](std::int64_t unroll) {
    return check(looped(steps().at("mixed"), {.unroll = unroll}), x, -1, 1e3)->text("plan");
  };
  const std::string once = plan_of(1), four = plan_of(4), five = plan_of(5);
  EXPECT_EQ(count(once, "trips 10"), 1) << once;
  EXPECT_EQ(count(four, "trips 2"), 1) << four;
  EXPECT_EQ(count(four, "trips 1 "), 1) << four;  // the two that are left over
  EXPECT_EQ(count(five, "trips 2"), 1) << five;
  EXPECT_EQ(count(five, "loop reads"), 1) << five;
  EXPECT_EQ(count(five, "kernel dot") + count(five, "call "),
            5 * (count(once, "kernel dot") + count(once, "call ")))
      << five;
  EXPECT_NE(five.find("from 4 by 5"), std::string::npos) << five;
}

TEST(Turns, OfAllTripsAreNoLoop) {
  for (const std::int64_t unroll : {10, 11}) {
    const auto executable =
        check(looped(steps().at("mixed"), {.unroll = unroll}), inputs(10), -1, 1e3);
    EXPECT_EQ(executable->text("jaxpr").find("scan"), std::string::npos)
        << executable->text("jaxpr");
    EXPECT_EQ(executable->text("plan").find("loop reads"), std::string::npos)
        << executable->text("plan");
  }
}

TEST(Turns, OfLoopsInRegistersAreCopiesOfTheirCode) {
  const auto code = [&](std::int64_t unroll, std::int64_t length = 1000) {
    const auto executable = check(
        [=](std::span<const Array> x) {
          const auto step = [](Array c) { return std::pair{sqrt(c) * 0.5 + 1.0, none}; };
          return Arrays{scan(step, x[0], none, {.length = length, .unroll = unroll}).first};
        },
        {uniform({}, DType::f64, 1, 2)});
    EXPECT_NE(executable->text("plan").find("kernel cells"), std::string::npos);
    return count(executable->text("ir"), "call double @llvm.sqrt");
  };
  const std::int64_t once = code(1);
  EXPECT_EQ(once, 1);
  EXPECT_EQ(code(4), 4 * once);
  EXPECT_EQ(code(7), 7 * once + 1000 % 7);
  EXPECT_LT(code(100'000, 100'000), 2000);  // no more than pay for being compiled
}

TEST(Turns, UpdateCarriesInPlace) {
  const std::int64_t n = 20'000;
  for (const std::int64_t unroll : {1, 2, 3, 4, 8}) {
    const auto executable = check(
        [=](std::span<const Array> x) {
          return Arrays{fori_loop(
              0, 8,
              [&](Array i, Array y) {
                const Array z =
                    fori_loop(0, 5, [&](Array k, Array y) { return y.at(i * k).set(y(k) + 1.0); },
                              y, {.unroll = unroll == 8 ? 3 : 2});
                return z.at(i).set(z(i + 1) * 2.0);
              },
              x[0], {.unroll = unroll})};
        },
        {uniform({n}, DType::f64)});
    EXPECT_LT(executable->info().arena_bytes, 4u * n) << executable->text("plan");
    const auto& all = executable->info().steps;
    EXPECT_LE(std::count(all.begin(), all.end(), "copy"), 1) << executable->text("plan");
  }
}

TEST(Turns, NeedBoundsThatAreKnown) {
  const auto f = jit([](Array n) {
    return fori_loop(0, n, [](Array, Array c) { return c * 2.0; }, Array(1.0), {.unroll = 2});
  });
  EXPECT_THROW(f(3), ValueError);
}

}  // namespace
}  // namespace telamon::testing
