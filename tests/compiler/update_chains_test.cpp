// Columns that are written one after the other: which are written together, and that every bit is what it was.
#include <gmock/gmock.h>

#include <random>

#include "compiler/passes/passes.hpp"
#include "in_place.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// How many updates are left of a program, which gives the same bits before and after, compiled, in place and by several
/// threads.
int updates_left(const Program& f, const Arrays& inputs) {
  const Compiled compiled = check(f, inputs);
  expect_same_for_any_number_of_threads(compiled, inputs);
  const Jaxpr program = compiler::simplify(inline_calls(stage(f, inputs)));
  const Jaxpr together = compiler::write_together(program);
  const Arrays want = eval_jaxpr(program, inputs), got = eval_jaxpr(together, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_equal(got[i], want[i], 0, together.to_string());
  expect_same_in_place(f, inputs, want);
  return static_cast<int>(
      std::count_if(together.eqns().begin(), together.eqns().end(),
                    [](const Eqn& e) { return e.primitive == &dynamic_update_slice_p; }));
}
/// The columns of these numbers, in this order, each computed of a vector of its own.
Program columns(const std::vector<std::int64_t>& places) {
  return [=](std::span<const Array> x) {
    Array m = x[0];
    for (std::size_t i = 0; i < places.size(); ++i)
      m = m.at(slice(), places[i]).set(x[1](static_cast<std::int64_t>(i)));
    return Arrays{m};
  };
}
std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < n; ++i) places.push_back(i);
  return places;
}

TEST(UpdateChains, OfColumnsSideBySide) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i8, DType::bool_, DType::c64}) {
    SCOPED_TRACE(short_name(dtype));
    const Arrays x{some({50, 9}, dtype), some({9, 50}, dtype, 2)};
    EXPECT_EQ(updates_left(columns(counted(9)), x), 1);
    EXPECT_EQ(updates_left(columns({3, 4, 5}), x), 1);
    EXPECT_EQ(updates_left(columns({5, 3, 4}), x), 1);
    EXPECT_EQ(updates_left(columns({1, 2, 6, 7}), x), 2);
  }
}

TEST(UpdateChains, OfManyColumnsInGroups) {
  const Arrays x{some({60, 100}, DType::f32), some({100, 60}, DType::f32, 2)};
  EXPECT_EQ(updates_left(columns(counted(100)), x), 1);
}

TEST(UpdateChains, OfWhichTheLastOneCounts) {
  const Arrays x{some({50, 9}, DType::f32), some({9, 50}, DType::f32, 2)};
  EXPECT_EQ(updates_left(columns({3, 3}), x), 1);
  EXPECT_EQ(updates_left(columns({3, 4, 3, 5, 4}), x), 1);
  // Of windows, too, of which others cover a part.
  const Program windows = [](std::span<const Array> x) {
    Array m = x[0].at(slice(), slice(1, 6)).set(x[2]);
    m = m.at(slice(), 2).set(x[1](0));
    return Arrays{m.at(slice(), slice(3, 5)).set(x[2](slice(), slice(0, 2)))};
  };
  EXPECT_EQ(updates_left(windows, {x[0], x[1], some({50, 5}, DType::f32, 3)}), 1);
}

TEST(UpdateChains, NotOfWhatOthersReadOrWhatLiesApart) {
  const Arrays x{some({50, 9}, DType::f32), some({9, 50}, DType::f32, 2)};
  EXPECT_EQ(updates_left(columns({1, 3, 5}), x), 3);
  const Program read = [](std::span<const Array> x) {
    const Array m = x[0].at(slice(), 3).set(x[1](0));
    return Arrays{m.at(slice(), 4).set(x[1](1)), m * 2};
  };
  EXPECT_EQ(updates_left(read, x), 2);
  // Other rows of the columns.
  const Program parts = [](std::span<const Array> x) {
    const Array m = x[0].at(slice(0, 20), 3).set(x[1](0, slice(0, 20)));
    return Arrays{m.at(slice(1, 21), 4).set(x[1](1, slice(0, 20)))};
  };
  EXPECT_EQ(updates_left(parts, x), 2);
}

// Whatever is written in whatever order.
TEST(UpdateChains, OfAnyKind) {
  std::mt19937 random(7);
  const auto pick = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  for (int round = 0; round < 40; ++round) {
    const DType dtype = std::vector{DType::f32, DType::f64, DType::i8, DType::bool_,
                                    DType::c64}[static_cast<std::size_t>(pick(5))];
    const std::int64_t rows = 1 + pick(70), n = 2 + pick(40), planes = 1 + pick(3);
    struct One {
      std::int64_t first, width, top, height;
      int what;
    };
    std::vector<One> all;
    for (std::int64_t i = 2 + pick(30); i-- > 0;) {
      const std::int64_t first = pick(n), top = pick(4) == 0 ? pick(rows) : 0;
      all.push_back({first, 1 + pick(std::min<std::int64_t>(n - first, 4)), top,
                     top == 0 ? rows : 1 + pick(rows - top), static_cast<int>(pick(4))});
    }
    const Program f = [=](std::span<const Array> x) {
      Array m = x[0];
      Arrays outs;
      for (const One& o : all) {
        Array part = x[1](slice(), slice(0, o.height), slice(o.first, o.first + o.width));
        if (o.what == 0) part = m(slice(), slice(0, o.height), slice(o.first, o.first + o.width));
        if (o.what == 1) part = where(part == x[2](0), x[2](1), part);
        m = m.at(slice(), slice(o.top, o.top + o.height), slice(o.first, o.first + o.width))
                .set(part);
        if (o.what == 3 && outs.empty()) outs.push_back(m);
      }
      outs.push_back(m);
      return outs;
    };
    SCOPED_TRACE(round);
    updates_left(f, {some({planes, rows, n}, dtype), some({planes, rows, n}, dtype, 2),
                     some({2}, dtype, 3)});
  }
}

}  // namespace
}  // namespace telamon::testing
