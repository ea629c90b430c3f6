// Loops that go together: which are joined, and that their values stay what they were.
#include <algorithm>

#include "compiler/passes/passes.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

Array number(double x) { return lax::full({}, DType::f64, x); }

// The loops of the program before and after the pass. Compiled and evaluated it gives the same values.
std::pair<int, int> loops(const Program& f, const Arrays& inputs) {
  check(f, inputs);
  const Jaxpr program = inline_calls(stage(f, inputs));
  const Jaxpr joined = compiler::join_loops(program);
  const auto count = [](const Jaxpr& jaxpr) {
    return static_cast<int>(std::count_if(jaxpr.eqns().begin(), jaxpr.eqns().end(),
                                          [](const Eqn& e) { return e.primitive == &scan_p; }));
  };
  const Arrays want = eval_jaxpr(program, inputs), got = eval_jaxpr(joined, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_equal(got[i], want[i], 0, joined.to_string());
  return {count(program), count(joined)};
}

// The states of c <- r c (1 - c), and the last.
std::pair<Array, Array> logistic(const Array& r, const Array& c0, std::int64_t length = 100,
                                 bool reverse = false) {
  return scan([&](const Array& c) { return std::pair{r * c * (1 - c), c}; }, c0, none,
              {.length = length, .reverse = reverse});
}
// Products along the rows, and all of them.
std::pair<Array, Array> products(const Array& rows, const Array& d0, bool reverse = false) {
  return scan([](const Array& d, const Array& c) { return std::pair{d * (2 - c), d * c}; }, d0,
              rows, {.reverse = reverse});
}

using Counts = std::pair<int, int>;
const Arrays kTwo{number(1.3), number(0.4)};

TEST(JoinLoops, OfWhichTheSecondReadsWhatTheFirstWrites) {
  const auto last = [](std::span<const Array> x) {
    return Arrays{products(logistic(x[0], x[1]).second, x[1]).first};
  };
  EXPECT_EQ(loops(last, kTwo), Counts(2, 1));
  // What is written down and read by others, too, stays.
  const auto all = [](std::span<const Array> x) {
    const auto [c, cs] = logistic(x[0], x[1]);
    const auto [d, ds] = products(cs, x[1]);
    return Arrays{c, cs, d, ds, max(cs)};
  };
  EXPECT_EQ(loops(all, kTwo), Counts(2, 1));
  // Three in a row, and both backwards.
  const auto three = [](std::span<const Array> x) {
    const Array cs = logistic(x[0], x[1], 100, true).second;
    const Array ds = products(cs, x[1], true).second;
    return Arrays{products(ds, x[0], true).first};
  };
  EXPECT_EQ(loops(three, kTwo), Counts(3, 1));
}

TEST(JoinLoops, WhateverStandsBetweenThem) {
  // sin(c) waits for the first loop and comes after the joined one; exp(x) is what the second waits for.
  const auto f = [](std::span<const Array> x) {
    const auto [c, cs] = logistic(x[0], x[1]);
    const Array after = sin(c), before = exp(x[0]);
    return Arrays{products(cs, before).first * after};
  };
  EXPECT_EQ(loops(f, kTwo), Counts(2, 1));
}

TEST(JoinLoops, NotWhereMoreThanRowsLeadsFromOneToTheOther) {
  const auto first_result = [](std::span<const Array> x) {
    const auto [c, cs] = logistic(x[0], x[1]);
    return Arrays{products(cs, c).first};
  };
  EXPECT_EQ(loops(first_result, kTwo), Counts(2, 2));
  const auto changed_rows = [](std::span<const Array> x) {
    const auto [c, cs] = logistic(x[0], x[1]);
    return Arrays{products(cs, sum(cs)).first};
  };
  EXPECT_EQ(loops(changed_rows, kTwo), Counts(2, 2));
  const auto other_way = [](std::span<const Array> x) {
    return Arrays{products(logistic(x[0], x[1]).second, x[1], true).first};
  };
  EXPECT_EQ(loops(other_way, kTwo), Counts(2, 2));
  const auto rows_as_a_whole = [](std::span<const Array> x) {
    const Array cs = logistic(x[0], x[1]).second;
    return Arrays{
        scan([&](const Array& d, const Array& c) { return std::pair{d + sum(cs) * c, none}; }, x[0],
             cs)
            .first};
  };
  EXPECT_EQ(loops(rows_as_a_whole, kTwo), Counts(2, 2));
}

TEST(JoinLoops, NotWhereTheStateIsLarge) {
  const Arrays inputs{uniform({40, 40}, DType::f64, 0, 0.1), uniform({40, 40}, DType::f64)};
  const auto f = [](std::span<const Array> x) {
    const auto [c, cs] =
        scan([&](const Array& c) { return std::pair{matmul(c, c), c}; }, x[1], none, {.length = 3});
    return Arrays{products(cs, x[0]).first};
  };
  EXPECT_EQ(loops(f, inputs), Counts(2, 2));
}

// A row of loops whose state no registers could hold together becomes a few.
TEST(JoinLoops, InGroupsOfWhatFits) {
  const auto row = [](int length, int operations) {
    return [=](std::span<const Array> x) {
      Array rows = x[1];
      for (int k = 0; k < length; ++k) {
        rows = scan(
                   [&](const Array& c, const Array& r) {
                     Array t = c + r;
                     for (int i = 0; i < operations; ++i) t = i % 2 == 0 ? t - r : t * x[0];
                     return std::pair{t, t + c};
                   },
                   x[0], rows)
                   .second;
      }
      return Arrays{rows};
    };
  };
  const Arrays inputs{number(0.3), uniform({5}, DType::f64)};
  EXPECT_EQ(loops(row(9, 4), inputs), Counts(9, 1));
  const auto [before, joined] = loops(row(24, 300), inputs);
  EXPECT_EQ(before, 24);
  EXPECT_GT(joined, 1);
  EXPECT_LT(joined, 24);
}

TEST(JoinLoops, InsideOthersAndOfBatches) {
  const auto nested = [](std::span<const Array> x) {
    return Arrays{fori_loop(
        0, 3,
        [&](const Array&, const Array& d) {
          return products(logistic(x[0], x[1]).second, d).first * 0.5;
        },
        x[1])};
  };
  const Jaxpr joined = compiler::join_loops(inline_calls(stage(nested, kTwo)));
  const std::string text = joined.to_string();
  std::size_t scans = 0;
  for (std::size_t at = text.find("= scan"); at != std::string::npos;
       at = text.find("= scan", at + 1))
    ++scans;
  EXPECT_EQ(scans, 2u) << text;
  check(nested, kTwo);

  const auto batch = [](std::span<const Array> x) {
    return Arrays{
        vmap([&](const Array& c) { return products(logistic(x[0], c).second, c).first; })(x[1])};
  };
  EXPECT_EQ(loops(batch, {number(1.3), uniform({70}, DType::f64, 0, 0.5)}), Counts(2, 1));
}

}  // namespace
}  // namespace telamon::testing
