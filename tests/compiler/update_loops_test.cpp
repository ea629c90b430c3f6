// Loops that write an array part by part: which of them are written at once, and that every bit is what it was.
#include <gmock/gmock.h>

#include <random>

#include "compiler/passes/passes.hpp"
#include "in_place.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// Compiled and evaluated, also in place and by several threads, the program gives the same bits; how many loops are
/// left.
int loops_left(const Program& f, const Arrays& inputs) {
  const Compiled compiled = check(f, inputs);
  expect_same_for_any_number_of_threads(compiled, inputs);
  const Arrays want = f(inputs);
  expect_same_in_place(f, inputs, want);
  const std::string text = compiled->text("jaxpr");
  int scans = 0;
  for (std::size_t at = text.find("= scan"); at != std::string::npos;
       at = text.find("= scan", at + 1))
    ++scans;
  return scans;
}
template <class Body> Program loop(std::int64_t trips, const Body& body) {
  return [=](std::span<const Array> x) {
    return Arrays{
        fori_loop(0, trips, [&](const Array& j, const Array& m) { return body(m, j, x); }, x[0])};
  };
}

const auto kColumns = [](const Array& m, const Array& j, std::span<const Array> x) {
  return m.at(slice(), j).set(x[1](j));
};

TEST(UpdateLoops, OfColumnsThatAreRows) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i8, DType::u16, DType::i64,
                            DType::bool_, DType::c64}) {
    const int left =
        loops_left(loop(37, kColumns), {some({50, 37}, dtype), some({37, 50}, dtype, 2)});
    EXPECT_EQ(left, is_complex(dtype) ? 1 : 0) << short_name(dtype);
  }
  // Of 400 columns, in squares.
  const Arrays large{some({400, 400}, DType::f32), some({400, 400}, DType::f32, 2)};
  EXPECT_EQ(loops_left(loop(400, kColumns), large), 0);
}

TEST(UpdateLoops, OfSomeOfTheColumns) {
  const Arrays x{some({20, 40}, DType::f32), some({40, 20}, DType::f32, 2)};
  const auto columns = [&](std::int64_t trips, const auto& place) {
    return loops_left(loop(trips,
                           [=](const Array& m, const Array& j, std::span<const Array> x) {
                             return m.at(slice(), place(j)).set(x[1](j) * 2.0f);
                           }),
                      x);
  };
  EXPECT_EQ(columns(11, [](const Array& j) { return j; }), 0);
  EXPECT_EQ(columns(11, [](const Array& j) { return j + 5; }), 0);
  EXPECT_EQ(columns(11, [](const Array& j) { return 39 - j; }), 0);
  EXPECT_EQ(columns(11, [](const Array& j) { return -1 - j; }), 0);  // from the end
  EXPECT_EQ(columns(11, [](const Array& j) { return 2 * j - j; }), 0);
  // Gaps, places outside, and places that come again.
  EXPECT_EQ(columns(11, [](const Array& j) { return 3 * j; }), 1);
  EXPECT_EQ(columns(11, [](const Array& j) { return j + 35; }), 1);
  EXPECT_EQ(columns(11, [](const Array& j) { return j - 5; }), 1);
  EXPECT_EQ(columns(11, [](const Array& j) { return (j * j) % 40; }), 1);
}

// What would need much memory beside the array stays a loop, which may write in place.
TEST(UpdateLoops, HoldLittleBesideTheArray) {
  const Arrays x{some({60'000, 12}, DType::f64), some({12, 60'000}, DType::f64, 2)};
  EXPECT_EQ(loops_left(loop(10, kColumns), x), 1);
  EXPECT_EQ(loops_left(loop(12, kColumns), x), 0);
}

// Sums of 16-bit floats, which are widened before, would be calls.
TEST(UpdateLoops, AddNoShortFloats) {
  const auto add = [](const Array& m, const Array& j, std::span<const Array> x) {
    return m.at(slice(), j).add(x[1](j));
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Arrays x{some({23, 17}, dtype), some({17, 23}, dtype, 2)};
    EXPECT_EQ(loops_left(loop(17, add), x), dtype == DType::f32 ? 0 : 1);
  }
}

TEST(UpdateLoops, OfRowsElementsAndPlanes) {
  EXPECT_EQ(loops_left(loop(30,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              return m.at(j).set(sin(x[1](slice(), j)) + 1);
                            }),
                       {some({30, 21}, DType::f64), some({21, 30}, DType::f64)}),
            0);
  EXPECT_EQ(loops_left(loop(100,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              return m.at(j).set(x[1](99 - j) * j.astype(DType::f32));
                            }),
                       {some({100}, DType::f32), some({100}, DType::f32)}),
            0);
  EXPECT_EQ(loops_left(loop(8,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              const Arrays at{lax::scalar(0, DType::i32), j,
                                              lax::scalar(2, DType::i32)};
                              return lax::dynamic_update_slice(m, expand_dims(x[1](j), 1), at);
                            }),
                       {some({6, 8, 9}, DType::f32), some({8, 6, 3}, DType::f32)}),
            0);
  // Two columns at a time.
  EXPECT_EQ(loops_left(loop(9,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              const Arrays at{lax::scalar(0, DType::i32), j * 2};
                              return lax::dynamic_update_slice(
                                  m, lax::dynamic_slice(x[1], at, {7, 2}), at);
                            }),
                       {some({7, 20}, DType::f32), some({7, 20}, DType::f32)}),
            0);
}

TEST(UpdateLoops, ThatReadWhatTheyWriteOver) {
  const Arrays x{some({23, 17}, DType::f32), some({17, 23}, DType::f32, 2)};
  EXPECT_EQ(
      loops_left(loop(17, [](const Array& m, const Array& j,
                             std::span<const Array> x) { return m.at(slice(), j).add(x[1](j)); }),
                 x),
      0);
  EXPECT_EQ(loops_left(loop(17,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              return m.at(slice(), j).multiply(x[1](j));
                            }),
                       x),
            0);
  // What another trip has written is not there yet.
  EXPECT_EQ(loops_left(loop(16,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              return m.at(slice(), j + 1).set(x[1](j) + m(slice(), j));
                            }),
                       x),
            1);
  EXPECT_EQ(loops_left(loop(16,
                            [](const Array& m, const Array& j, std::span<const Array> x) {
                              return m.at(slice(), j + 1).set(x[1](j) + max(m));
                            }),
                       x),
            1);
}

TEST(UpdateLoops, InLoops) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{fori_loop(
        0, 12,
        [&](const Array& i, const Array& m) {
          return fori_loop(
              0, 15,
              [&](const Array& j, const Array& t) {
                return t.at(i, j).set(x[1](j, i) - i.astype(DType::f32) * x[2](j));
              },
              m);
        },
        x[0])};
  };
  EXPECT_EQ(loops_left(f, {some({12, 15}, DType::f32), some({15, 12}, DType::f32, 2),
                           some({15}, DType::f32, 3)}),
            0);
}

// What else the loop does goes on in it.
TEST(UpdateLoops, WithOtherCarries) {
  const Program f = [](std::span<const Array> x) {
    const auto both = fori_loop(
        0, 17,
        [&](const Array& j, std::pair<Array, Array> c) {
          c.first = c.first.at(slice(), j).set(x[1](j) + 1);
          c.second = c.second * 0.25f + x[1](j);
          return c;
        },
        std::pair{x[0], x[2]});
    return Arrays{both.first, both.second};
  };
  EXPECT_EQ(loops_left(f, {some({23, 17}, DType::f32), some({17, 23}, DType::f32, 2),
                           some({23}, DType::f32, 3)}),
            1);
}

TEST(UpdateLoops, AndTheirDerivatives) {
  const Program f = [](std::span<const Array> x) {
    const auto loss = [&](const Array& a) {
      const Array m = fori_loop(
          0, 17, [&](const Array& j, const Array& m) { return m.at(slice(), j).set(sin(a(j))); },
          x[0]);
      return sum(m * m);
    };
    return Arrays{grad(loss)(x[1])};
  };
  check(f, {some({23, 17}, DType::f64), some({17, 23}, DType::f64, 2)}, -1, 4);
}

// Backwards, over rows that the loop takes in turn, at places that it counts or takes.
TEST(UpdateLoops, OverRows) {
  for (const bool reverse : {false, true}) {
    const Program f = [=](std::span<const Array> x) {
      const auto step = [](const std::pair<Array, Array>& c, const Array& row) {
        return std::pair{std::pair{c.first.at(slice(), c.second).set(row), c.second + 1}, none};
      };
      const auto places = [](const Array& m, const std::pair<Array, Array>& row) {
        return std::pair{m.at(slice(), row.second).set(row.first), none};
      };
      const Array m =
          scan(step, std::pair{x[0], lax::scalar(3, DType::i32)}, x[1], {.reverse = reverse})
              .first.first;
      return Arrays{scan(places, m, std::pair{x[2], arange(10)}, {.reverse = reverse}).first};
    };
    EXPECT_EQ(loops_left(f, {some({23, 20}, DType::f32), some({17, 23}, DType::f32, 2),
                             some({10, 23}, DType::f32, 3)}),
              0);
  }
}

/// Whether the loop of a program still writes parts of an array.
bool updates_in_loop(const Program& f, const Arrays& inputs) {
  EXPECT_EQ(loops_left(f, inputs), 1);
  const std::string text = compile(stage(f, inputs))->text("jaxpr");
  const std::size_t body = text.find("= scan");
  const std::size_t last = text.find("dynamic_update_slice", body);
  return text.find("scatter", body) != std::string::npos ||
         (last != std::string::npos && last < text.find("}\n", body));
}
/// Columns or rows of a number that goes from trip to trip.
Program states(std::int64_t trips, bool columns) {
  return [=](std::span<const Array> x) {
    const auto c = fori_loop(
        0, trips,
        [&](const Array& j, std::pair<Array, Array> c) {
          c.second = c.second * 0.5f + x[1](j);
          c.first = (columns ? c.first.at(slice(), j) : c.first.at(j)).set(c.second);
          return c;
        },
        std::pair{x[0], x[1](0)});
    return Arrays{c.first};
  };
}

// What hangs together from trip to trip is listed in the loop, and written after it.
TEST(UpdateLoops, ListWhatHangsTogether) {
  const auto x = [](const Shape& m, const Shape& rows) {
    return Arrays{some(m, DType::f32), some(rows, DType::f32, 2)};
  };
  EXPECT_FALSE(updates_in_loop(states(17, true), x({23, 17}, {17, 23})));
  EXPECT_FALSE(updates_in_loop(states(15, true), x({23, 17}, {17, 23})));
  EXPECT_FALSE(updates_in_loop(states(17, false), x({17, 23}, {17, 23})));
  // Rows that are not all there are; few lines; more memory than that is worth.
  EXPECT_TRUE(updates_in_loop(states(15, false), x({17, 23}, {17, 23})));
  EXPECT_TRUE(updates_in_loop(states(17, true), x({7, 17}, {17, 7})));
  EXPECT_TRUE(updates_in_loop(states(8, true), x({150'000, 8}, {8, 150'000})));
}

// What both a state and the columns need, and takes long, is computed once.
TEST(UpdateLoops, ComputeNothingTwice) {
  const Program shared = [](std::span<const Array> x) {
    const auto c = fori_loop(
        0, 17,
        [&](const Array& j, std::pair<Array, Array> c) {
          const Array e = exp(x[1](j));
          c.first = c.first.at(slice(), j).set(e);
          c.second = c.second * 0.5f + e;
          return c;
        },
        std::pair{x[0], x[1](0)});
    return Arrays{c.first, c.second};
  };
  const Arrays x{some({23, 17}, DType::f32), some({17, 23}, DType::f32, 2)};
  EXPECT_FALSE(updates_in_loop(shared, x));
  const std::string text = compile(stage(shared, x))->text("jaxpr");
  EXPECT_EQ(text.find("= exp"), text.rfind("= exp")) << text;
}

/// Writes bodies of loops over rows, columns and parts of them, at random.
class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}
  std::int64_t pick(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  // A number that counts, may count, or does not.
  Array place(const Array& j, const Array& k) {
    switch (pick(8)) {
      case 0: return j + pick(5);
      case 1: return pick(30) - j;
      case 2: return -1 - j;
      case 3: return j * (1 + pick(2)) - pick(3);
      case 4: return k + pick(3);
      case 5: return (j * 3 + pick(4)) % 7;
      case 6: return maximum(j - pick(2), 0);
      default: return j;
    }
  }
  Array value(const Array& row, const Array& column, const Array& j) {
    switch (pick(5)) {
      case 0: return row + column;
      case 1: return row;
      case 2: return column * j.astype(column.dtype());
      case 3: return where(row == column, row, column);
      default: return flip(column);
    }
  }

 private:
  std::mt19937 random_;
};

// Whatever trips write, wherever, and whatever they read of what was there.
TEST(UpdateLoops, OfAnyKind) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Writer w(seed);
    const DType dtype = std::vector{DType::f32, DType::f64, DType::i8, DType::u32,
                                    DType::i64}[static_cast<std::size_t>(w.pick(5))];
    const std::int64_t n = 5 + w.pick(25), trips = 1 + w.pick(n + 3);
    const bool reverse = w.pick(2) == 0, nested = w.pick(3) == 0;
    const Program f = [=](std::span<const Array> x) {
      const auto change = [&, seed](Array m, const Array& j, const Array& k, const Array& row,
                                    const Array& state) {
        Writer here(seed + 1000);
        const Array at = here.place(j, k), from = here.place(j, k);
        const bool columns = here.pick(2) == 0;
        const Array read = here.pick(2) == 0 ? x[1](from) : x[1](slice(), from);
        Array v = here.value(row, read, j);
        if (here.pick(3) == 0) v = v - state;
        const auto part = columns ? m.at(slice(), at) : m.at(at);
        switch (here.pick(6)) {
          case 0: return part.add(v);
          case 1: return part.set(v + (columns ? m(slice(), at) : m(at)));
          case 2: return part.set(v + (columns ? m(slice(), from) : m(from)));
          case 3: return m.at(at, here.place(k, j)).set(v(0));
          default: return part.set(v);
        }
      };
      struct Carry {
        Array m, state, j;
      };
      const auto step = [&](const Carry& c, const Array& row) {
        const Array state = row - c.state;
        if (!nested) {
          const Array first = c.m(0);
          return std::pair{Carry{change(c.m, c.j, c.j, row, state), state, c.j + 1}, first};
        }
        const Array m = fori_loop(
            0, 6, [&](const Array& k, const Array& t) { return change(t, k, c.j, row, state); },
            c.m);
        return std::pair{Carry{m, state, c.j + 1}, c.j * 2};
      };
      const auto plain = [&](const Carry& c, const Array& row) {
        return std::pair{step(c, row).first, none};
      };
      const Carry first{x[0], x[2](0), lax::scalar(seed % 3, DType::i32)};
      if (seed % 2 == 0) {
        const Carry c = scan(plain, first, x[2], {.reverse = reverse}).first;
        return Arrays{c.m, c.state};
      }
      const auto [c, rows] = scan(step, first, x[2], {.reverse = reverse});
      return Arrays{c.m, c.state, c.j, rows};
    };
    SCOPED_TRACE(seed);
    loops_left(f, {some({n, n}, dtype), some({n, n}, dtype, 2), some({trips, n}, dtype, 3)});
  }
}

}  // namespace
}  // namespace telamon::testing
