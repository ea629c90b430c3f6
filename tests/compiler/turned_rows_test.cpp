// Batches of loops, whose rows vmap transposes: they are read and written where the batch has them.
#include <cstdint>
#include <string>

#include "compiler/support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

bool moves_nothing(const Compiled& e) {
  const std::string plan = e->text("plan");
  return e->info().kernels == 1 && plan.find("kernel cells") != std::string::npos;
}

/// Of each member: a loop over its rows of numbers, which are mixed, and what each trip made.
Program loops_over_rows(bool reverse, std::int64_t unroll) {
  return [=](std::span<const Array> x) {
    const auto member = [&](const Array& start, const Array& rows) {
      const auto step = [](const Array& c, const Array& row) {
        const Array next = lax::rev(c, {0}) - row;
        return std::pair{next, std::pair{lax::max(next, row), c}};
      };
      return scan(step, start, rows, {.reverse = reverse, .unroll = unroll});
    };
    const auto [last, rows] = vmap(member)(x[0], x[1]);
    return Arrays{last, rows.first, rows.second};
  };
}

TEST(TurnedRows, OfAFewNumbersLieByMembers) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::i16, DType::i64}) {
    for (const std::int64_t k : {2, 3, 4, 5, 8, 13}) {
      for (const std::int64_t members : {20, 64, 133}) {
        for (const std::int64_t trips : {2, 3, 7, 50}) {
          const Arrays inputs = {uniform({members, k}, dtype, 0, 9),
                                 uniform({members, trips, k}, dtype, 0, 9, 2)};
          const bool reverse = (trips + k) % 2 == 0;
          const Compiled e = check(loops_over_rows(reverse, trips == 7 ? 2 : 1), inputs);
          EXPECT_TRUE(moves_nothing(e)) << e->text("plan");
        }
      }
    }
  }
}

TEST(TurnedRows, OfBatchesOfBatchesLieByMembers) {
  const Program f = [](std::span<const Array> x) {
    const auto member = [](const Array& start, const Array& rows) {
      const auto step = [](const Array& c, const Array& row) {
        const Array next = lax::rev(c, {0}) * 0.5 + row;
        return std::pair{next, next};
      };
      return scan(step, start, rows).second;
    };
    return Arrays{vmap(vmap(member))(x[0], x[1])};
  };
  for (const std::int64_t n : {7, 40})
    EXPECT_TRUE(moves_nothing(
        check(f, {uniform({n, 21, 3}, DType::f32), uniform({n, 21, 11, 3}, DType::f32)}, -1, 4)));
}

/// Of each member, rows of which each number goes through the trips for itself.
Program smoothed(bool reverse) {
  return [reverse](std::span<const Array> x) {
    const auto member = [&](const Array& start, const Array& rows) {
      const auto step = [](const Array& c, const Array& row) {
        const Array next = c * 0.5f + row;
        return std::pair{next, next};
      };
      return scan(step, start, rows, {.reverse = reverse});
    };
    const auto [last, rows] = vmap(member)(x[0], x[1]);
    return Arrays{last, rows};
  };
}

// Lanes run along the row.
TEST(TurnedRows, OfManyNumbersLieByMembersToo) {
  const Program f = smoothed(true);
  for (const std::int64_t k : {16, 21, 64, 300}) {
    for (const std::int64_t members : {2, 17}) {
      const Compiled e = check(
          f, {uniform({members, k}, DType::f32), uniform({members, 13, k}, DType::f32)}, -1, 4);
      EXPECT_TRUE(moves_nothing(e)) << e->text("plan");
    }
  }
}

// A row of up to 15 numbers is what a cell has, rather than cells whose lanes lie apart.
TEST(TurnedRows, ThatAreShortAreUnrolled) {
  for (const std::int64_t k : {5, 11, 15}) {
    const Program f = [](std::span<const Array> x) {
      const auto step = [](const Array& c, const Array& row) {
        const Array next = tanh(c) + row;
        return std::pair{next, next};
      };
      const auto [last, rows] = scan(step, x[0], x[1]);
      return Arrays{last, rows};
    };
    const Compiled e =
        check(f, {uniform({70, k}, DType::f32), uniform({9, 70, k}, DType::f32)}, -1, 4);
    EXPECT_NE(e->text("plan").find("cells scan (70,)"), std::string::npos) << e->text("plan");
  }
}

// Of many such rows, cells have one number each.
TEST(TurnedRows, ThatAreTooManyAreNotUnrolled) {
  const Program f = [](std::span<const Array> x) {
    const auto step = [](const Arrays& c) {
      Arrays next(c.begin() + 1, c.end());
      next.push_back(c[0] * 0.5f + c[1]);
      return std::pair{next, none};
    };
    return scan(step, Arrays(x.begin(), x.end()), none, {.length = 9}).first;
  };
  const Arrays inputs(6, uniform({40, 12}, DType::f32));
  const Compiled e = check(f, inputs, -1, 4);
  EXPECT_NE(e->text("plan").find("cells scan (12, 40)"), std::string::npos) << e->text("plan");
}

// Large arrays of single numbers, if they are read as well.
TEST(TurnedRows, OfSingleNumbersAreThoseOfLargeArrays) {
  const auto of = [&](std::int64_t members, std::int64_t trips, bool reverse) {
    const Compiled e =
        check(smoothed(reverse),
              {uniform({members}, DType::f32), uniform({members, trips}, DType::f32)}, -1, 4);
    expect_same_for_any_number_of_threads(
        e, {uniform({members}, DType::f32), uniform({members, trips}, DType::f32)});
    return moves_nothing(e);
  };
  EXPECT_FALSE(of(100, 40, false));
  for (const bool reverse : {false, true}) {
    EXPECT_TRUE(of(5003, 40, reverse));
    EXPECT_TRUE(of(4097, 47, reverse));
  }
}

TEST(TurnedRows, ThatOthersReadStayAsTheyWere) {
  const Array start = uniform({30, 3}, DType::f32),
              rows = uniform({30, 6, 3}, DType::f32, -1, 1, 2);
  const auto loop = [](const Array& c, const Array& xs) {
    const auto step = [](const Array& a, const Array& row) {
      const Array next = lax::rev(a, {1}) - row;
      return std::pair{next, next};
    };
    return scan(step, c, xs).second;
  };
  const Shape to_trips = {1, 0, 2};
  const Program both = [&](std::span<const Array> x) {
    const Array xs = lax::transpose(x[1], to_trips), ys = loop(x[0], xs);
    return Arrays{xs, lax::transpose(ys, to_trips), ys};
  };
  check(both, {start, rows});
  // What the loop reads is overwritten in part after the transposition, and must not be before the loop.
  const Program updated = [&](std::span<const Array> x) {
    const Array made = x[1] * 2.0f, xs = lax::transpose(made, to_trips);
    const Array later = made.at(slice(), 0).set(x[0]);
    const Array ys = lax::transpose(loop(x[0], xs), to_trips);
    return Arrays{later, ys, ys.at(slice(), 2).set(x[0]) + later};
  };
  check(updated, {start, rows});
  // Other orders: numbers apart from each other, or trips last.
  for (const Shape& order : {Shape{1, 2, 0}, Shape{2, 1, 0}, Shape{2, 0, 1}, Shape{0, 2, 1}}) {
    const Program moved = [&](std::span<const Array> x) {
      return Arrays{lax::transpose(loop(x[0], lax::transpose(x[1], to_trips)), order)};
    };
    check(moved, {start, rows});
  }
}

// What a loop around the loop, or a branch in that, writes over where it lies.
TEST(TurnedRows, AreReadBeforeALoopUpdatesThem) {
  using Pair = std::pair<Array, Array>;
  const auto in_place = [](const Array& some) {
    return [some](const Array& all, const Array& start) {
      const Array rows = lax::transpose(all, {1, 0, 2});
      const Array later = all.at(slice(), slice({}, 2)).set(some);
      const auto step = [](const Array& a, const Array& row) {
        return std::pair{lax::rev(a, {1}) + row, none};
      };
      return Pair{later, scan(step, start + later(slice(), 0), rows).first};
    };
  };
  for (const bool branches : {false, true}) {
    const Program f = [&](std::span<const Array> x) {
      const auto update = in_place(x[2]);
      const auto step = [&](const Array& i, const Pair& c) {
        if (!branches) return update(c.first, c.second);
        return cond(
            i > 0, update, [](const Array& a, const Array& b) { return Pair{a, b}; }, c.first,
            c.second);
      };
      const Pair last = fori_loop(0, 3, step, Pair{x[0], x[1]});
      return Arrays{last.first, last.second};
    };
    check(f, {uniform({40, 20, 3}, DType::f32), uniform({40, 3}, DType::f32),
              uniform({40, 2, 3}, DType::f32)});
  }
}

// One transposition between two loops is that of one of them.
TEST(TurnedRows, OfOneLoopMayBeThoseOfAnother) {
  const auto loop = [](const Array& start, const Array& rows) {
    const auto step = [](const Array& a, const Array& row) {
      const Array next = lax::rev(a, {1}) * 0.5f - row;
      return std::pair{next, next};
    };
    return scan(step, start, rows).second;
  };
  const Program f = [&](std::span<const Array> x) {
    const Array first = loop(x[0], x[1]), turned = lax::transpose(first, {1, 0, 2});
    return Arrays{loop(x[0], turned)};
  };
  check(f, {uniform({20, 3}, DType::f32), uniform({20, 20, 3}, DType::f32)}, -1, 4);
  const Program around = [&](std::span<const Array> x) {
    const auto step = [&](const Array& c, const Array&) {
      return std::pair{lax::transpose(loop(x[0], lax::transpose(c, {1, 0, 2})), {1, 0, 2}), none};
    };
    return Arrays{scan(step, x[1], x[2], {.unroll = 2}).first};
  };
  check(around,
        {uniform({20, 3}, DType::f32), uniform({20, 7, 3}, DType::f32), uniform({5}, DType::f32)},
        -1, 4);
}

// Their axes are one for the transposition.
TEST(TurnedRows, OfMatricesLieByMembers) {
  const Program f = [](std::span<const Array> x) {
    const auto member = [](const Array& start, const Array& rows) {
      const auto step = [](const Array& c, const Array& row) {
        const Array next = matmul(c, row) * 0.5f + row;
        return std::pair{next, next};
      };
      return scan(step, start, rows).second;
    };
    return Arrays{vmap(member)(x[0], x[1])};
  };
  for (const std::int64_t members : {20, 65}) {
    const Compiled e =
        check(f, {uniform({members, 3, 3}, DType::f32), uniform({members, 9, 3, 3}, DType::f32)},
              -1, 1e3);
    EXPECT_TRUE(moves_nothing(e)) << e->text("plan");
  }
}

// Without a state, or of what all members share.
TEST(TurnedRows, ThatAreTheSameForAllMembers) {
  const Program f = [](std::span<const Array> x) {
    const auto step = [&](const Array& c, const Array& row) {
      const Array next = lax::rev(c, {1}) + row;
      return std::pair{next, std::pair{next * 0.0f + 1.0f, row}};
    };
    const auto [last, rows] = scan(step, x[0], lax::transpose(x[1], {1, 0, 2}));
    return Arrays{last, lax::transpose(rows.first, {1, 0, 2}),
                  lax::transpose(rows.second, {1, 0, 2})};
  };
  check(f, {uniform({19, 3}, DType::f32), uniform({19, 7, 3}, DType::f32)});
  check(f, {uniform({1, 3}, DType::f32), uniform({1, 7, 3}, DType::f32)});
  check(f, {uniform({0, 3}, DType::f32), uniform({0, 7, 3}, DType::f32)});
  check(f, {uniform({5, 3}, DType::f32), uniform({5, 0, 3}, DType::f32)});
}

TEST(TurnedRows, AreTheSameForAnyNumberOfThreads) {
  const Arrays inputs = {uniform({5003, 3}, DType::f32), uniform({5003, 20, 3}, DType::f32)};
  const Compiled e = check(loops_over_rows(false, 1), inputs);
  EXPECT_TRUE(moves_nothing(e));
  expect_same_for_any_number_of_threads(e, inputs);
}

}  // namespace
}  // namespace telamon::testing
