// Loops whose state lies in registers: alone, in batches of any size, nested, differentiated.
#include <string>

#include "compiler/passes/passes.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

Array numbers(const Shape& shape, unsigned seed = 1, double low = -1, double high = 1) {
  return uniform(shape, DType::f64, low, high, seed);
}

/// How many of the plan's lines say that.
int lines_with(const Compiled& executable, const std::string& words) {
  const std::string plan = executable->text("plan");
  int n = 0;
  for (std::size_t at = plan.find(words); at != std::string::npos; at = plan.find(words, at + 1))
    ++n;
  return n;
}

void expect_one_cell_loop(const Compiled& executable) {
  EXPECT_EQ(lines_with(executable, "kernel cells"), 1) << executable->text("plan");
  EXPECT_EQ(lines_with(executable, "\nloop") + lines_with(executable, "\nrepeat"), 0)
      << executable->text("plan");
}

Array damped(const Array& x, const Array& k) {
  return scan([&](Array c) { return std::pair{c * k - c * c * c, none}; }, x, none, {.length = 9})
      .first;
}

TEST(CellLoops, OfSingleNumbersNeedNoMemory) {
  const auto executable = check(
      [](std::span<const Array> x) {
        const auto [last, rows] = scan(
            [&](const std::pair<Array, Array>& c, const Array& row) {
              const auto& [a, b] = c;
              return std::pair{std::pair{b, a * x[1] + row}, a - b};
            },
            std::pair{x[0], x[0] + 1.0}, x[2]);
        return Arrays{last.first, last.second, rows};
      },
      {numbers({}), numbers({}, 2), numbers({1000}, 3)}, -1, 4);
  expect_one_cell_loop(executable);
  EXPECT_LE(executable->info().arena_bytes, 256u);
}

TEST(CellLoops, OfAMillionTripsAllocateNothingPerTrip) {
  const auto executable = check(
      [](std::span<const Array> x) {
        return Arrays{fori_loop(
            0, 1'000'000, [](const Array&, const Array& c) { return c * 0.999 + 0.5; }, x[0])};
      },
      {numbers({})});
  expect_one_cell_loop(executable);
  EXPECT_LE(executable->info().arena_bytes, 256u);
}

TEST(CellLoops, InBatchesOfAnySizeHaveLanes) {
  for (const std::int64_t n : {1, 2, 7, 8, 15, 16, 17, 64, 100, 129, 1000}) {
    const auto executable = check(
        [](std::span<const Array> x) {
          return Arrays{vmap([&](const Array& c) { return damped(c, x[1]); })(x[0])};
        },
        {numbers({n}), numbers({}, 2, 0, 1)}, -1, 4);
    expect_one_cell_loop(executable);
  }
}

TEST(CellLoops, OfSmallVectorsInBatchesUnrollThem) {
  // The Lorenz system: f64[n, 3].
  const auto lorenz = [](const Array& y) {
    return stack({10.0 * (y(1) - y(0)), y(0) * (28.0 - y(2)) - y(1), y(0) * y(1) - 2.5 * y(2)});
  };
  const auto run = [&](const Array& y0) {
    return scan(
        [&](const Array& y) {
          const Array half = y + 0.005 * lorenz(y);
          return std::pair{y + 0.01 * lorenz(half), sum(y)};
        },
        y0, none, {.length = 5});
  };
  for (const std::int64_t n : {3, 20, 33}) {
    const auto executable = check(
        [&](std::span<const Array> x) {
          const auto [last, sums] = vmap(run)(x[0]);
          return Arrays{last, sums};
        },
        {numbers({n, 3})}, -1, 64);
    expect_one_cell_loop(executable);
  }
}

TEST(CellLoops, OverTwoBatchAxes) {
  for (const Shape& shape : {Shape{3, 5}, Shape{40, 3}, Shape{2, 70}, Shape{1, 1}, Shape{0, 4}}) {
    check(
        [](std::span<const Array> x) {
          const auto one = [&](const Array& c) {
            const auto [last, ys] = scan(
                [](const Array& a, const Array& row) { return std::pair{a * 0.5 + row, a - row}; },
                c, x[1], {.reverse = true});
            return std::pair{last, ys};
          };
          const auto [last, ys] = vmap(vmap(one))(x[0]);
          return Arrays{last, ys};
        },
        {numbers(shape), numbers({6}, 2)}, -1, 4);
  }
}

TEST(CellLoops, InLargeBatchesRunInChunks) {
  const auto f = [](std::span<const Array> x) {
    const auto one = [&](const Array& c) {
      const auto step = [&](const Array& a, const Array& row) {
        return std::pair{a * 0.5 + row * row - a * row, none};
      };
      return scan(step, c, x[1]).first;
    };
    return Arrays{vmap(one)(x[0]), vmap(vmap(one))(x[2])};
  };
  check(f, {numbers({5003}), numbers({200}, 2), numbers({37, 129}, 3)}, -1, 1e4);
}

// What a state begins with, and what trips and all cells share, need not be written down as arrays of one number.
TEST(CellLoops, OfRepeatedNumbersReadTheNumbers) {
  const Shape many = {5003};
  const auto f = [&](std::span<const Array> x) {
    const Array share = broadcast_to(x[1], many), rows = broadcast_to(x[2], {7, 5003});
    const auto step = [&](const std::pair<Array, Array>& c, const Array& row) {
      const auto& [a, b] = c;
      return std::pair{std::pair{a * x[0] + row, b - a * share}, none};
    };
    const auto [a, b] = scan(step, std::pair{zeros(many, DType::f64), share}, rows).first;
    return Arrays{a, b};
  };
  const auto grow = [&](std::span<const Array> x) {
    const auto [n, z] =
        while_loop([](const std::pair<Array, Array>& c) { return c.first < 40; },
                   [&](const std::pair<Array, Array>& c) {
                     return std::pair{c.first + 1, c.second * c.second * 0.5 + x[0]};
                   },
                   std::pair{Array(0), zeros(many, DType::f64)});
    return Arrays{z, lax::add(z, broadcast_to(x[1], many))};
  };
  const Arrays x = {numbers(many), numbers({}, 2), numbers({}, 3)};
  // Numbers that are computed, too, one by one or by a fold.
  const auto computed = [&](std::span<const Array> y) {
    return f(Arrays{y[0], y[1] * y[2] + 0.25, sum(y[0]) * 1e-4});
  };
  // Arrays of one element that are seen as numbers.
  const auto seen = [&](std::span<const Array> y) {
    const Array product =
        matmul(reshape(y[0](slice(none, 8)), {1, 8}), reshape(y[0](slice(none, 8)), {8, 1}));
    return f(Arrays{y[0], reshape(y[1], {}), reshape(product, {})});
  };
  check(seen, {x[0], numbers({1}, 2)}, -1, 100);
  const auto inside = [&](std::span<const Array> y) {
    const Array number = reshape(y[1], {});
    return Arrays{fori_loop(
        0, 3,
        [&](const Array&, const Array& c) {
          const auto step = [&](const Array& a, const Array&) {
            return std::pair{a * 0.5 + number, none};
          };
          return cumsum(scan(step, broadcast_to(number, many), zeros({7})).first) * 1e-3 + c;
        },
        y[0])};
  };
  check(inside, {x[0], numbers({1}, 2)}, -1, 1e4);
  for (const Compiled& executable : {check(f, x, -1, 4), check(computed, x, -1, 100),
                                     check(grow, {numbers(many, 1, -0.5, 0.2), x[1]}, -1, 4)}) {
    EXPECT_EQ(lines_with(executable, "kernel cells"), 1) << executable->text("plan");
    EXPECT_LE(executable->info().arena_bytes, 5003u * 8 + 512) << executable->text("plan");
  }
}

// There is no condition to go by.
TEST(CellLoops, OfEmptyBatchesAreNone) {
  const auto doubled = [](Array x) {
    return while_loop([x](Array y) { return y < x; }, [](Array y) { return y * 2.0; }, Array(1.0));
  };
  const auto counted = [](Array x) {
    return fori_loop(0, x.astype(DType::i32), [](Array, Array y) { return y + 1.0; }, x);
  };
  const auto root = [](Array x) {
    return grad([](Array y) { return fori_loop(0, 3, [](Array, Array z) { return sin(z); }, y); })(
        x);
  };
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 2}}) {
    const auto expect_empty = [&](auto f) {
      const auto batched = [f, &shape](Array x) {
        return shape.ndim() == 1 ? vmap(f)(x) : vmap(vmap(f))(x);
      };
      EXPECT_EQ(jit(batched)(zeros(shape)).shape(), shape);
    };
    expect_empty(doubled);
    expect_empty(counted);
    expect_empty(root);
  }
}

TEST(CellLoops, OfLengthZeroAndOne) {
  for (const std::int64_t length : {0, 1}) {
    for (const std::int64_t n : {0, 1, 20}) {
      check(
          [&](std::span<const Array> x) {
            const auto one = [&](const Array& c) {
              return scan(
                  [](const Array& a, const Array& row) { return std::pair{a * row, a + row}; }, c,
                  x[1]);
            };
            const auto [last, ys] = vmap(one)(x[0]);
            return Arrays{last, ys};
          },
          {numbers({n}), numbers({length}, 2)}, -1, 4);
    }
  }
}

TEST(CellLoops, WhoseLanesStopApartLeaveWhenAllHave) {
  // Newton's iteration for a square root; integers count the trips of each.
  const auto root = [](const Array& a) {
    using State = std::pair<Array, Array>;
    const auto more = [&](const State& s) { return abs(s.first * s.first - a) > 1e-12 * a; };
    const auto step = [&](const State& s) {
      return State{0.5 * (s.first + a / s.first), s.second + 1};
    };
    return while_loop(more, step, State{a, zeros({}, DType::i32)});
  };
  for (const std::int64_t n : {1, 5, 16, 37, 300}) {
    const auto executable = check(
        [&](std::span<const Array> x) {
          const auto [y, trips] = vmap(root)(x[0]);
          return Arrays{y, trips};
        },
        {numbers({n}, 1, 1e-3, 1e6)});
    expect_one_cell_loop(executable);
  }
}

TEST(CellLoops, WithLoopsAndBranchesInside) {
  // scan of (cond of while), the predicate of the cond shared by all, of the while by none.
  const auto body = [](const Array& c, const Array& row) {
    const Array next = cond(
        row > 0,
        [](const Array& v) {
          return while_loop([](const Array& w) { return w < 3.0; },
                            [](const Array& w) { return 1.5 * w + 0.25; }, abs(v));
        },
        [](const Array& v) { return -0.5 * v; }, c);
    return std::pair{next, next + row};
  };
  for (const std::int64_t n : {1, 9, 50}) {
    check(
        [&](std::span<const Array> x) {
          const auto [last, ys] = vmap([&](const Array& c) { return scan(body, c, x[1]); })(x[0]);
          return Arrays{last, ys};
        },
        {numbers({n}), numbers({7}, 2)}, -1, 4);
  }
  check(
      [&](std::span<const Array> x) {
        const auto [last, ys] = scan(body, x[0], x[1]);
        return Arrays{last, ys};
      },
      {numbers({}), numbers({7}, 2)}, -1, 4);
}

TEST(CellLoops, MixIntegersBoolsAndWidths) {
  check(
      [](std::span<const Array> x) {
        const auto one = [](const Array& f, const Array& i, const Array& b) {
          using State = std::tuple<Array, Array, Array>;
          const auto step = [](const State& s) {
            const auto& [u, n, odd] = s;
            const Array next = where(odd, u * 0.5f, u + 1.0f);
            return std::pair{State{next, n * 3 + 1, (n % 2) == 0}, where(odd, n, -n)};
          };
          return scan(step, State{f, i, b}, none, {.length = 11});
        };
        const auto [last, ys] = vmap(one)(x[0], x[1], x[2]);
        return Arrays{std::get<0>(last), std::get<1>(last), std::get<2>(last), ys};
      },
      {uniform({21}, DType::f32), uniform({21}, DType::i64, -50, 50), uniform({21}, DType::bool_)},
      -1, 4);
}

TEST(CellLoops, AreDifferentiatedInBothModes) {
  const auto f = [](const Array& x) { return damped(x, 0.75 * x); };
  for (const std::int64_t n : {1, 13, 40}) {
    check(
        [&](std::span<const Array> x) {
          return Arrays{vmap(grad(f))(x[0]), vmap(jacfwd(f))(x[0]), vmap(grad(grad(f)))(x[0])};
        },
        {numbers({n})}, -1, 1e4);
  }
}

TEST(CellLoops, MultiplySmallMatrices) {
  const auto executable = check(
      [](std::span<const Array> x) {
        const auto step = [&](const Array& p, const Array& row) {
          const Array q = matmul(matmul(x[0], p), transpose(x[0])) + x[2];
          return std::pair{q * 0.5, sum(q * row)};
        };
        const auto [last, ys] = scan(step, x[1], x[3]);
        return Arrays{last, ys};
      },
      {numbers({3, 3}), numbers({3, 3}, 2), numbers({3, 3}, 3), numbers({10, 3}, 4)}, -1, 1e4);
  expect_one_cell_loop(executable);
}

// A trip without equations hands on and writes down, which is work as well: many are not code one after the other.
TEST(CellLoops, WithoutEquationsAreLoopsStill) {
  const Compiled e = check(
      [](std::span<const Array> x) {
        const auto [last, rows] =
            scan([](const Array& c, const Array&) { return std::pair{c, c}; }, x[0], x[1]);
        return Arrays{last, rows};
      },
      {numbers({64, 4}), numbers({64, 4})});
  expect_one_cell_loop(e);
  EXPECT_LT(e->text("ir").size(), 60'000U);
}

// So much code for each element that this took 16 s to compile.
TEST(CellLoops, AreNoneWhereLanesLieApartForManyValues) {
  const auto turned = [](const Shape& shape) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{
              fori_loop(0, 3, [](const Array&, const Array& y) { return lax::rev(y, {0}); }, a[0])};
        },
        {uniform(shape, DType::f32)});
    return e->text("plan").find("cells") != std::string::npos;
  };
  EXPECT_TRUE(turned({4, 32, 5}));
  EXPECT_FALSE(turned({64, 32, 5}));
  EXPECT_TRUE(turned({64, 160}));
}

// What each cell would compute for itself, and products that kernels have lanes for, stay kernels: networks, and filters
// whose covariance all of a batch share.
TEST(CellLoops, AreNoneWhereKernelsAreFaster) {
  const auto network = [](const Array& w, const Array& rows) {
    const Array zero = lax::full({w.shape()[0]}, DType::f64, 0);
    const auto step = [&](const Array& c, const Array& row) {
      return std::pair{tanh(matmul(w, c) + row), none};
    };
    return sum(scan(step, zero, rows).first);
  };
  const auto cells = [&](std::int64_t n) {
    const auto f = [&](std::span<const Array> x) {
      return Arrays{network(x[0], x[1]),
                    grad([&](const Array& w) { return network(w, x[1]); })(x[0])};
    };
    return lines_with(check(f, {numbers({n, n}, 1, -.3, .3), numbers({20, n}, 2)}, -1, 1e5),
                      "kernel cells");
  };
  EXPECT_GE(cells(3), 1);
  EXPECT_EQ(cells(16), 0);
  EXPECT_EQ(cells(40), 0);
}

TEST(CellLoops, AreNoneWhereRegistersDoNotHoldWhatAMatrixMultiplies) {
  const auto cells = [](std::int64_t states) {
    const auto f = [](std::span<const Array> x) {
      const auto run = [&](const Array& start) {
        const auto step = [&](const Array& c) { return std::pair{tanh(matmul(x[0], c)), c}; };
        return scan(step, start, none, {.length = 7});
      };
      const auto [last, rows] = vmap(run)(x[1]);
      return Arrays{last, rows};
    };
    const Arrays operands{numbers({states, states}, 1, -.3, .3), numbers({50, states}, 2)};
    return lines_with(check(f, operands, -1, 1e3), "kernel cells");
  };
  EXPECT_EQ(cells(4), 1);
  EXPECT_EQ(cells(24), 0);
}

// Numbers of a cell that lie one after the other: constants, states, rows that are read and written.
TEST(CellLoops, LoadAndStoreTheNumbersOfACellTogether) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::i64}) {
    for (const std::int64_t k : {2, 3, 5, 6, 8, 11, 16}) {
      for (const std::int64_t cells : {1, 7, 8, 33}) {
        const auto f = [&](std::span<const Array> x) {
          const auto step = [&](const Array& c, const Array& row) {
            const Array next = lax::rev(c, {1}) * x[1] + row;
            return std::pair{next, next - c};
          };
          const auto [last, rows] = scan(step, x[0], x[2]);
          return Arrays{last, rows};
        };
        const auto some = [&](const Shape& shape, unsigned seed) {
          return uniform(shape, dtype, -1, 1, seed);
        };
        const Compiled e =
            check(f, {some({cells, k}, 1), some({cells, k}, 2), some({40, cells, k}, 3)}, -1, 8);
        expect_one_cell_loop(e);
        EXPECT_EQ(e->text("ir").find("masked.scatter"), std::string::npos);
        if (k > 4) EXPECT_EQ(e->text("ir").find("masked.gather"), std::string::npos);
      }
    }
  }
}

// Of long rows, where a trip reads few numbers of each; and of constants and states of many numbers.
TEST(CellLoops, LoadFewNumbersOfManyByThemselves) {
  const auto loads_columns = [](const Program& f, const Arrays& inputs) {
    const Compiled e = check(f, inputs, -1, 8);
    expect_one_cell_loop(e);
    return e->text("ir").find("columns_of_") != std::string::npos;
  };
  const Array start = uniform({50, 2}, DType::f32),
              rows = uniform({6, 50, 48}, DType::f32, -1, 1, 2),
              constants = uniform({50, 48}, DType::f32, -1, 1, 3);
  const auto of_rows = [](std::int64_t numbers) -> Program {
    return [numbers](std::span<const Array> x) {
      const auto step = [&](const Array& c, const Array& row) {
        const Array some = row(slice(), slice({}, numbers));
        const Array next = lax::rev(c, {1}) * .5 + lax::reduce_max(some, {1})(slice(), newaxis);
        return std::pair{next, none};
      };
      return Arrays{scan(step, x[0], x[1]).first};
    };
  };
  EXPECT_FALSE(loads_columns(of_rows(2), {start, rows}));
  EXPECT_TRUE(loads_columns(of_rows(48), {start, rows}));
  const auto of_constants = [](std::span<const Array> x) {
    const auto step = [&](const Array& c) {
      const Array largest = lax::reduce_max(x[1] * c(slice(), slice({}, 1)), {1});
      return std::pair{tanh(lax::rev(c, {1}) + largest(slice(), newaxis)), none};
    };
    return Arrays{scan(step, x[0], none, {.length = 6}).first};
  };
  EXPECT_FALSE(loads_columns(of_constants, {start, constants}));
}

// ---- sums over the batch -------------------------------------------------------------------------
TEST(DeferredSums, OfGradientsOfWhatABatchSharesKeepLanesApart) {
  // d/dp of the mean over trajectories: both loops are cellular, whatever form p is used in.
  const auto loss = [](const Array& p, const Array& q, const Array& ys) {
    const auto one = [&](const Array& y0) {
      const auto step = [&](const Array& y) {
        return std::pair{y * p(0) - q * sin(y) + p(1) * p(2), none};
      };
      return scan(step, y0, none, {.length = 12}).first;
    };
    const Array last = vmap(one)(ys);
    return mean(last * last);
  };
  for (const std::int64_t n : {16, 50, 1000}) {
    const auto executable = check(
        [&](std::span<const Array> x) {
          const auto g = grad<0, 1, 2>(loss)(x[0], x[1], x[2]);
          return Arrays{std::get<0>(g), std::get<1>(g), std::get<2>(g)};
        },
        {numbers({3}, 1, 0.1, 0.9), numbers({}, 2), numbers({n}, 3)}, -1, 1e6);
    EXPECT_EQ(lines_with(executable, "kernel cells"), 2) << executable->text("plan");
    EXPECT_EQ(lines_with(executable, "\nloop"), 0) << executable->text("plan");
  }
}

// Each of them reads the one before twice: there are 2^64 ways back to the first.
TEST(DeferredSums, AreLookedAtOnce) {
  const Program f = [](std::span<const Array> x) {
    using State = std::pair<Array, Array>;
    const auto step = [&](const State& s) {
      Array term = sum(s.second);
      for (int i = 0; i < 64; ++i) term = term + term * x[2];
      return std::pair{State{s.first + term, sin(s.second)}, none};
    };
    const auto [total, y] = scan(step, State{x[0], x[1]}, none, {.length = 6}).first;
    return Arrays{total, y};
  };
  const auto executable =
      check(f, {numbers({}), numbers({64}, 2), numbers({}, 3, -.1, .1)}, -1, 1e6);
  EXPECT_EQ(lines_with(executable, "kernel cells"), 1) << executable->text("plan");
}

TEST(DeferredSums, LeaveAloneWhatTheLoopLooksAt) {
  // The running sum is read by the body, or written down: it must be right at each trip.
  for (const bool read : {false, true}) {
    check(
        [&](std::span<const Array> x) {
          using State = std::pair<Array, Array>;
          const auto step = [&](const State& s) {
            const auto& [total, y] = s;
            const Array next = read ? y * 0.5 + total * 0.01 : y * 0.5;
            return std::pair{State{total + sum(y), next}, total};
          };
          const auto [last, ys] = scan(step, State{x[0], x[1]}, none, {.length = 6});
          return Arrays{last.first, last.second, ys};
        },
        {numbers({}), numbers({40}, 2)}, -1, 1e5);
  }
}

// ---- what the backward pass reads ----------------------------------------------------------------
std::size_t arena_of(const Program& f, const Arrays& x, const char* without) {
  CompileOptions options;
  if (without != nullptr) options.disabled = {without};
  return check(f, x, -1, 1e5, options)->info().arena_bytes;
}

TEST(Residuals, ThatAreCheapAreComputedAgain) {
  // Of c <- r c (1 - c), c alone is written down; of the Lorenz system, its state.
  const Program logistic = [](std::span<const Array> x) {
    const auto last = [](const Array& r, const Array& c0) {
      return scan([&](const Array& c) { return std::pair{r * c * (1 - c), none}; }, c0, none,
                  {.length = 20'000})
          .first;
    };
    const auto [r, c0] = grad<0, 1>(last)(x[0], x[1]);
    return Arrays{r, c0};
  };
  const Arrays numbers_of_one = {numbers({}, 1, 1.2, 1.5), numbers({}, 2, 0.4, 0.5)};
  EXPECT_LE(arena_of(logistic, numbers_of_one, nullptr), 8u * 20'000 + 8192);
  EXPECT_GT(arena_of(logistic, numbers_of_one, "residuals"), 8u * 40'000);

  const Program lorenz = [](std::span<const Array> x) {
    const auto field = [](const Array& y, const Array& p) {
      return stack({p(0) * (y(1) - y(0)), y(0) * (p(1) - y(2)) - y(1), y(0) * y(1) - p(2) * y(2)});
    };
    const auto last = [&](const Array& p, const Array& y0) {
      const auto step = [&](const Array& y) {
        return std::pair{y + 0.01 * field(y + 0.005 * field(y, p), p), none};
      };
      return sum(scan(step, y0, none, {.length = 50}).first);
    };
    const auto all = [&](const Array& p, const Array& ys) {
      return sum(vmap([&](const Array& y) { return last(p, y); })(ys));
    };
    return Arrays{grad(all)(x[0], x[1])};
  };
  const Arrays batch = {numbers({3}, 1, 1, 2), numbers({200, 3}, 2)};
  const std::size_t least = 8u * 50 * 200 * 3;
  EXPECT_LE(arena_of(lorenz, batch, nullptr), least + least / 4);
  EXPECT_GT(arena_of(lorenz, batch, "residuals"), 2 * least);
}

// The columns y(0), y(1), y(2) of a batch, and the parameters p: their cotangents are sums of zeros but
// for one column. The loop backwards keeps them in registers like the loop forwards.
TEST(CellLoops, AreTheGradientsOfBatchesOfSmallVectors) {
  const Program f = [](std::span<const Array> x) {
    const auto last = [](const Array& p, const Array& y0) {
      const auto step = [&](const Array& y) {
        const Array slope =
            stack({p(0) * (y(1) - y(0)), y(0) * (p(1) - y(2)) - y(1), y(0) * y(1) - p(2) * y(2)});
        return std::pair{y + 0.01 * slope, none};
      };
      return scan(step, y0, none, {.length = 20}).first;
    };
    const auto average = [&](const Array& p, const Array& ys) {
      const Array end = vmap([&](const Array& y) { return last(p, y); })(ys);
      return mean(sum(end * end, {.axes = 1}));
    };
    return Arrays{grad(average)(x[0], x[1])};
  };
  const auto executable = check(f, {numbers({3}, 1, 1, 2), numbers({200, 3}, 2)}, -1, 1e5);
  const std::string plan = executable->text("plan");
  EXPECT_EQ(plan.find("loop reads"), std::string::npos) << plan;
  const std::size_t forwards = plan.find("kernel cells");
  ASSERT_NE(forwards, std::string::npos) << plan;
  EXPECT_NE(plan.find("kernel cells", forwards + 1), std::string::npos) << plan;
}

TEST(Residuals, ThatAreExpensiveAreKeptAndSharedRowsToo) {
  check(
      [](std::span<const Array> x) {
        const auto loss = [&](const Array& w) {
          const auto step = [&](const Array& h, const Array& row) {
            const Array a = tanh(w * h + row), b = a * a + row * 2.0;
            return std::pair{a * b, b * h};
          };
          const auto [last, ys] = scan(step, x[1], x[2], {.reverse = true});
          return last + sum(ys * ys);
        };
        const auto [value, g] = value_and_grad(loss)(x[0]);
        return Arrays{value, g, grad(grad(loss))(x[0])};
      },
      {numbers({}), numbers({}, 2), numbers({10'000}, 3)}, -1, 1e7);
}

// What would be computed again is far too much: that takes one look at each operation to find out.
TEST(Residuals, MayBeMadeByManyOperations) {
  std::string text =
      "{ lambda a:f32[8192], b:f32[64,8192] . let\n"
      "c:f32[8192] y:f32[64,8192] = scan [ length=64 num_carry=1 num_consts=0 reverse=False "
      "unroll=1 ] a b { lambda d:f32[8192], e:f32[8192] . let\nv0:f32[8192] = add d e\n";
  constexpr int kMany = 100'000;
  for (int i = 0; i < kMany; ++i)
    text += "v" + std::to_string(i + 1) + ":f32[8192] = mul v" + std::to_string(i) + " e\n";
  text += "w:f32[8192] = mul d e in ( w, v" + std::to_string(kMany) +
          " ) }\n"
          "g:f32[8192] h:f32[64,8192] = scan [ length=64 num_carry=1 num_consts=0 reverse=True "
          "unroll=1 ] a y { lambda k:f32[8192], l:f32[8192] . let m:f32[8192] = mul k l "
          "in ( m, m ) } in ( c, g, h ) }";
  const Jaxpr program = parse_jaxpr(text);
  EXPECT_TRUE(compiler::recompute_residuals(program) == program);
}

// Of one operation, but for each cell of 48 numbers: all trips of such a loop in a row took LLVM seconds.
TEST(CellLoops, ThatWriteManyNumbersDownStayLoops) {
  const auto repeated = [](std::span<const Array> x) {
    const auto row = [](Array carry, Array r) {
      const Array many = lax::broadcast_in_dim(r, {3, 17, 16}, {0, 1});
      return std::pair(carry, lax::transpose(many, {0, 2, 1}));
    };
    return Arrays{scan(row, lax::full({}, DType::f64, 0), x[0]).second};
  };
  const Compiled executable = check(repeated, {numbers({33, 3, 17})});
  EXPECT_NE(executable->text("plan").find("kernel cells"), std::string::npos);
  const std::string ir = executable->text("ir");
  std::size_t stores = 0;
  for (std::size_t at = ir.find(" store "); at != std::string::npos;
       at = ir.find(" store ", at + 1))
    ++stores;
  EXPECT_LT(stores, 200u);
}

// ---- concatenations and paddings along the lanes -------------------------------------------------
TEST(Seams, BetweenOperandsAreRightWhereverTheyLie) {
  for (const std::int64_t n : {1, 2, 8, 9, 31, 64, 100}) {
    for (const std::int64_t m : {1, 3, 16, 40}) {
      check(
          [&](std::span<const Array> x) {
            const Array both = lax::concatenate(Arrays{x[0], x[1], x[0]}, 0);
            const Array turned = lax::concatenate(Arrays{x[1], lax::rev(x[0], {0})}, 0);
            const Array padded = lax::pad(x[0], x[2], {{{m, 2, 0}}});
            return Arrays{lax::mul(both, both), lax::sin(turned), lax::neg(padded),
                          lax::pad(x[0], x[2], {{{-1 + n / 2, m, 1}}})};
          },
          {numbers({n}), numbers({m}, 2), numbers({}, 3)}, -1, 4);
    }
  }
}

TEST(Seams, OfManyPartsAreToldApartWhereThereIsLittleElse) {
  const Compiled joined = check(
      [](std::span<const Array> x) {
        Arrays parts;
        for (std::int64_t i = 0; i < 12; ++i)
          parts.push_back(lax::slice_in_dim(x[0], 5 * i, 5 * i + 100, 1, 1));
        return Arrays{lax::concatenate(parts, 1)};
      },
      {numbers({40, 170})}, 1);
  EXPECT_EQ(joined->text("ir").find("masked.gather"), std::string::npos);
}

// Slices of what is padded or put together, as of stencils, and of slices of these.
TEST(Seams, BehindSlicesAreFollowed) {
  const auto padded = [](const Array& x, std::int64_t low, std::int64_t high) {
    return lax::pad(x, lax::convert_element_type(Array(1), x.dtype()), {{0, 0, 0}, {low, high, 0}});
  };
  const auto part = [](const Array& x, std::int64_t from, std::int64_t n) {
    return lax::slice_in_dim(x, from, from + n, 1, 1);
  };
  for (const std::int64_t n : {20, 100, 1001}) {
    const Program f = [&](std::span<const Array> a) {
      const Array &x = a[0], p = padded(x, 3, 2);
      const Array beside = lax::concatenate(Arrays{part(x, n - 5, 5), p * 2, part(x, 0, 4)}, 1);
      const Array inner = part(part(beside, 2, n + 9) + 1, 1, n);
      return Arrays{part(p, 0, n) - 2 * part(p, 1, n) + part(p, 5, n), inner * part(beside, 7, n),
                    lax::reduce_sum(part(p, 5, n) * part(beside, 1, n), {1}),
                    lax::reduce_sum(part(p, 2, n) * inner, {0}),
                    lax::slice_in_dim(p, 0, n + 5, 2, 1) * 3};
    };
    for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
      const Array x =
          lax::convert_element_type(lax::floor(uniform({30, n}, DType::f64, -9, 9)), dtype);
      check(f, {x}, -1, 0);
    }
  }
  const Program stencil = [&](std::span<const Array> a) {
    const Array p = padded(a[0], 1, 1);
    return Arrays{part(p, 0, 400) - 2 * a[0] + part(p, 2, 400)};
  };
  EXPECT_EQ(
      check(stencil, {uniform({30, 400}, DType::f32)}, -1, 0)->text("ir").find("masked.gather"),
      std::string::npos);
}

TEST(Seams, InRowsAndInChunks) {
  check(
      [&](std::span<const Array> x) {
        const Array both = lax::concatenate(Arrays{x[0], x[1]}, 1);
        const Array shifted =
            lax::pad(lax::slice(both, {0, 1}, {7, 50}), x[2], {{{0, 0, 0}, {0, 1, 0}}});
        return Arrays{lax::sub(both, shifted), lax::concatenate(Arrays{x[0], x[0]}, 0)};
      },
      {numbers({7, 37}), numbers({7, 13}, 2), numbers({}, 3)});
  check(
      [&](std::span<const Array> x) {
        const Array shifted = lax::concatenate(Arrays{x[1], lax::slice(x[0], {0}, {999'999})}, 0);
        return Arrays{lax::sub(x[0], shifted)};
      },
      {numbers({1'000'000}), numbers({1}, 2)});
}

}  // namespace
}  // namespace telamon::testing
