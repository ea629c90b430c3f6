// Loops and branches in compiled code: each form against eager evaluation, and what they cost in memory.
#include <chrono>

#include "support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon::testing {
namespace {

Jaxpr body(const Program& f, const std::vector<Aval>& avals) {
  Arrays inputs;
  for (const Aval& a : avals) inputs.push_back(lax::full(a.shape, a.dtype, 1));
  return stage(f, inputs);
}

Shape rest(const Shape& shape) {
  Shape out;
  for (std::size_t d = 1; d < shape.size(); ++d) out.push_back(shape[d]);
  return out;
}

struct ScanOf {
  std::int64_t length = 0;
  int num_consts = 0, num_carry = 0;
  bool reverse = false;
};
Arrays scan(const ScanOf& s, const Program& f, const Arrays& args) {
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < args.size(); ++i) {
    Aval a = args[i].aval().strong();
    if (static_cast<int>(i) >= s.num_consts + s.num_carry) a.shape = rest(a.shape);
    avals.push_back(a);
  }
  ScanParams p;
  p.jaxpr = body(f, avals);
  p.length = s.length;
  p.num_consts = s.num_consts;
  p.num_carry = s.num_carry;
  p.reverse = s.reverse;
  return scan_p.bind(p, args);
}
Arrays repeat(const Program& condition, const Program& f, const Arrays& carry) {
  std::vector<Aval> avals;
  for (const Array& a : carry) avals.push_back(a.aval().strong());
  WhileParams p;
  p.cond_jaxpr = body(condition, avals);
  p.body_jaxpr = body(f, avals);
  return while_p.bind(p, carry);
}
Arrays branch(const Array& index, const std::vector<Program>& branches, const Arrays& args) {
  std::vector<Aval> avals;
  for (const Array& a : args) avals.push_back(a.aval().strong());
  CondParams p;
  for (const Program& f : branches) p.branches.push_back(body(f, avals));
  Arrays operands{index};
  operands.insert(operands.end(), args.begin(), args.end());
  return cond_p.bind(p, operands);
}
Array product(const Array& a, const Array& b) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = {1};
  dn.rhs_contracting = {0};
  return lax::dot_general(a, b, dn);
}
Array constant_like(const Array& x, double v) { return lax::full_like(x, v); }

// ---- scan ----------------------------------------------------------------------------------------
TEST(CompiledScan, CarriesAndRowsOfEveryLengthAndDirection) {
  for (const std::int64_t length : {0, 1, 2, 3, 10}) {
    for (const bool reverse : {false, true}) {
      for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 40}}) {
        Shape rows = shape;
        rows.insert(0, length);
        check(
            [&](std::span<const Array> x) {
              return scan({length, 1, 1, reverse},
                          [](std::span<const Array> v) {
                            const Array next = lax::add(lax::mul(v[1], v[0]), v[2]);
                            return Arrays{next, lax::sub(next, v[1]), v[1]};
                          },
                          {x[0], x[1], x[2]});
            },
            {uniform(shape, DType::f64), uniform(shape, DType::f64, -1, 1, 2),
             uniform(rows, DType::f64, -1, 1, 3)},
            -1, 4);
      }
    }
  }
}

TEST(CompiledScan, CarriesThatAreSwappedUnchangedOrReturnedTwice) {
  for (const std::int64_t length : {0, 1, 2, 5}) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{100}}) {
      check(
          [&](std::span<const Array> x) {
            return scan({length, 0, 4},
                        [](std::span<const Array> v) {
                          const Array sum = lax::add(v[0], v[1]);
                          return Arrays{v[1], v[0], v[2], lax::add(v[3], sum),
                                        v[0], v[2], sum,  sum};
                        },
                        {x[0], x[1], x[0], x[1]});
          },
          {uniform(shape, DType::f64), uniform(shape, DType::f64, -1, 1, 2)}, -1, 4);
    }
  }
}

TEST(CompiledScan, IntegerCarriesCountAndSelect) {
  check(
      [](std::span<const Array> x) {
        return scan({9, 0, 2},
                    [](std::span<const Array> v) {
                      const Array even =
                          lax::eq(lax::rem(v[0], constant_like(v[0], 2)), constant_like(v[0], 0));
                      return Arrays{lax::add(v[0], constant_like(v[0], 1)),
                                    lax::select_n(even, Arrays{v[1], lax::add(v[1], v[2])}), even,
                                    v[0]};
                    },
                    {x[0], x[1], x[2]});
      },
      {lax::full({}, DType::i32, 3), lax::full({}, DType::i64, 1),
       uniform({9}, DType::i64, -50, 50)});
}

TEST(CompiledScan, BodiesMayBeOfAnyForm) {
  // A product, a reduction over everything, a reversal, a concatenation.
  check(
      [](std::span<const Array> x) {
        return scan({6, 1, 2},
                    [](std::span<const Array> v) {
                      DotDimensionNumbers dn;
                      dn.lhs_contracting = {1};
                      dn.rhs_contracting = {0};
                      const Array y = lax::tanh(lax::add(lax::dot_general(v[0], v[1], dn), v[3]));
                      const Array total = lax::reduce_sum(y, {0});
                      const Array turned = lax::rev(lax::slice(y, {1}, {8}), {0});
                      return Arrays{
                          y, lax::add(v[2], total),
                          lax::concatenate(Arrays{turned, lax::slice(v[1], {0}, {3})}, 0)};
                    },
                    {x[0], x[1], x[2], x[3]});
      },
      {uniform({8, 8}, DType::f64, -0.5, 0.5), uniform({8}, DType::f64, -1, 1, 2),
       lax::full({}, DType::f64, 0), uniform({6, 8}, DType::f64, -1, 1, 3)},
      -1, 1e4);
}

TEST(CompiledScan, NestsAndUsesWhatIsAround) {
  check(
      [](std::span<const Array> x) {
        const Array around = lax::exp(x[0]);
        return scan({4, 1, 1},
                    [](std::span<const Array> v) {
                      const Arrays inner =
                          scan({3, 1, 1},
                               [](std::span<const Array> w) {
                                 return Arrays{lax::add(lax::mul(w[1], w[0]), w[2]), w[1]};
                               },
                               {lax::sin(v[0]), v[1], v[2]});
                      return Arrays{inner[0], inner[1]};
                    },
                    {around, x[1], x[2]});
      },
      {uniform({6}, DType::f64), uniform({6}, DType::f64, -1, 1, 2),
       uniform({4, 3, 6}, DType::f64, -1, 1, 3)},
      -1, 1e3);
}

TEST(CompiledScan, UpdatesOfACarryAreMadeInPlace) {
  // y[i + 1] = y[i] * x[i] + n; the whole carry is 8 MB.
  const Program f = [](std::span<const Array> x) {
    return scan({1000, 0, 2},
                [](std::span<const Array> v) {
                  const Array at = lax::dynamic_slice(v[1], Arrays{v[0]}, {1});
                  const Array next = lax::add(lax::mul(at, v[2]), constant_like(at, 0.5));
                  const Array i = lax::add(v[0], constant_like(v[0], 1));
                  return Arrays{i, lax::dynamic_update_slice(v[1], next, Arrays{i}), at};
                },
                {x[0], x[1], x[2]});
  };
  const Arrays x = {lax::full({}, DType::i32, 0), uniform({1'000'000}, DType::f64),
                    uniform({1000, 1}, DType::f64, -1, 1, 2)};
  const auto executable = check(f, x, -1, 4);
  EXPECT_LT(executable->info().arena_bytes, 10'000u);
  const auto start = std::chrono::steady_clock::now();
  execute(executable, x);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

// The bytes of the arena of a scan of two carries of 80 KB, compiled and compared with what is evaluated eagerly.
std::size_t arena_of_two_carries(
    const std::function<Arrays(const Array&, const Array&, const Array&)>& step) {
  const std::int64_t n = 10'000;
  const Program f = [&](std::span<const Array> x) {
    return scan({7, 0, 2}, [&](std::span<const Array> v) { return step(v[0], v[1], v[2]); },
                {lax::neg(x[0]), lax::neg(x[1]), x[2]});
  };
  return check(f,
               {uniform({n}, DType::f64, -1, 1), uniform({n}, DType::f64, -1, 1, 2),
                uniform({7}, DType::f64, -1, 1, 3)},
               -1, 1e3)
      ->info()
      .arena_bytes;
}

TEST(CompiledScan, ReplacesCarriesWhereTheyLie) {
  constexpr std::size_t kOne = 80'000;
  // Element by element; a sum of the old ones comes before.
  EXPECT_LT(arena_of_two_carries([](const Array& a, const Array& b, const Array& x) {
              const Array s = lax::mul(lax::reduce_sum(a, {0}), constant_like(x, 1e-4));
              const Array t = lax::broadcast_in_dim(lax::add(s, x), a.shape(), {});
              return Arrays{lax::mul(a, t), lax::sub(lax::mul(b, a), t), s};
            }),
            kOne);
  // One in the place of the other, each read at the same index by one kernel; and after the old ones.
  EXPECT_LT(arena_of_two_carries([](const Array& a, const Array& b, const Array& x) {
              return Arrays{lax::sub(b, a), lax::add(a, b), lax::mul(x, lax::reduce_max(b, {0}))};
            }),
            kOne);
  // Read at other places, by the kernel itself or after it: both have memory twice.
  EXPECT_GE(arena_of_two_carries([](const Array& a, const Array& b, const Array& x) {
              return Arrays{lax::add(lax::rev(a, {0}), b), lax::sub(a, lax::rev(b, {0})), x};
            }),
            kOne);
  EXPECT_GE(arena_of_two_carries([](const Array& a, const Array& b, const Array&) {
              const Array next = lax::sin(a);
              return Arrays{next, lax::mul(b, lax::rev(lax::cumsum(next, 0), {0})),
                            lax::reduce_sum(lax::mul(a, lax::rev(next, {0})), {0})};
            }),
            kOne);
  // Exchanged, handed on, and returned as it was.
  arena_of_two_carries(
      [](const Array& a, const Array& b, const Array& x) { return Arrays{b, a, x}; });
  arena_of_two_carries([](const Array& a, const Array& b, const Array&) {
    return Arrays{lax::cos(a), a, lax::reduce_sum(b, {0})};
  });
  arena_of_two_carries([](const Array& a, const Array& b, const Array& x) {
    const Array next = lax::mul(a, lax::broadcast_in_dim(x, a.shape(), {}));
    return Arrays{next, next, lax::reduce_max(b, {0})};
  });
}

// Waves: each of two or three large arrays is computed once, in the place of the oldest.
TEST(CompiledScan, TurnsCarriesThatChangePlaces) {
  const auto around = [](const Array& x) {
    const std::int64_t n = x.shape()[0];
    return lax::concatenate(Arrays{lax::slice(x, {1}, {n}), lax::slice(x, {0}, {1})}, 0);
  };
  for (const std::int64_t n : {9, 40'000}) {
    for (const std::int64_t length : {0, 1, 2, 3, 4, 7}) {
      const Program f = [&](std::span<const Array> x) {
        Arrays two = scan({length, 0, 2},
                          [&](std::span<const Array> v) {
                            return Arrays{v[1], lax::sub(around(v[1]), v[0]),
                                          lax::reduce_sum(v[0], {0}), v[2]};
                          },
                          {lax::neg(x[0]), lax::sin(x[0]), x[1]});
        const Arrays three =
            scan({length, 0, 3},
                 [&](std::span<const Array> v) {
                   return Arrays{v[1], v[2], lax::sub(lax::mul(around(v[1]), v[2]), v[0])};
                 },
                 {x[0], lax::cos(x[0]), lax::neg(x[0])});
        two.insert(two.end(), three.begin(), three.end());
        return two;
      };
      const auto executable =
          check(f, {uniform({n}, DType::f64, -1, 1), uniform({length, 2}, DType::f64)}, -1, 1e4);
      if (n < 1000 || length != 4) continue;
      const std::string plan = executable->text("plan");
      const std::size_t first = plan.find("trips 2");
      ASSERT_NE(first, std::string::npos) << plan;
      EXPECT_EQ(plan.substr(first, plan.find("trips", first + 9) - first).find("copy reads 4"),
                std::string::npos)
          << plan;
    }
  }
}

// Of which more than three quarters are new: one pass over each, and nothing is written down beside it.
TEST(CompiledScan, ComputesMostOfACarryWhereItLies) {
  const std::int64_t n = 200;
  const auto rows = [&](const Array& x, std::int64_t first, std::int64_t last) {
    return lax::slice(x, {first, 0}, {last, n});
  };
  const Program f = [&](std::span<const Array> x) {
    return scan({5, 0, 2},
                [&](std::span<const Array> v) {
                  const Array zero = lax::full({}, DType::i32, 0);
                  const Array slope = lax::sub(rows(v[0], 1, n), rows(v[0], 0, n - 1));
                  const Array h = lax::dynamic_update_slice(
                      v[1], lax::sub(rows(v[1], 0, n - 1), slope), Arrays{zero, zero});
                  const Array one = lax::full({}, DType::i32, 1);
                  const Array bend = lax::sub(rows(h, 1, n), rows(h, 0, n - 1));
                  return Arrays{lax::dynamic_update_slice(v[0], lax::add(rows(v[0], 1, n), bend),
                                                          Arrays{one, zero}),
                                h};
                },
                {lax::neg(x[0]), lax::neg(x[1])});
  };
  const auto executable = check(
      f, {uniform({n, n}, DType::f64, -1, 1), uniform({n, n}, DType::f64, -1, 1, 2)}, -1, 1e4);
  EXPECT_LT(executable->info().arena_bytes, static_cast<std::size_t>(8 * n * n))
      << executable->text("plan");
}

// Arguments stay as they are: the first trip reads them, the others what the one before left.
TEST(CompiledScan, ReplacesCarriesThatBeginAsArguments) {
  const Program f = [](std::span<const Array> x) {
    Arrays out = scan({5, 0, 2},
                      [](std::span<const Array> v) {
                        const Array n = lax::add(v[1], constant_like(v[1], 1));
                        return Arrays{lax::sub(lax::mul(v[0], v[0]), constant_like(v[0], 0.5)), n};
                      },
                      {x[0], x[1]});
    const Arrays small = repeat(
        [](std::span<const Array> v) { return Arrays{lax::lt(v[1], constant_like(v[1], 6))}; },
        [](std::span<const Array> v) {
          return Arrays{lax::sin(v[0]), lax::add(v[1], constant_like(v[1], 1))};
        },
        {x[0], out[1]});
    out.insert(out.end(), small.begin(), small.end());
    out.push_back(lax::add(x[0], out[0]));
    return out;
  };
  check(f, {uniform({9'000}, DType::f64, -1, 1), lax::full({}, DType::i32, 3)}, -1, 1e3);
  check(f, {uniform({9}, DType::f64, -1, 1), lax::full({}, DType::i32, 0)}, -1, 1e3);
}

TEST(CompiledScan, UpdatesThatAreReadBeforeAndAfterAreRight) {
  // Reads of the old contents come before, of the new ones after; two updates in a row.
  check(
      [](std::span<const Array> x) {
        return scan({5, 0, 1},
                    [](std::span<const Array> v) {
                      const Array i = lax::reshape(lax::slice(v[1], {0}, {1}), {});
                      const Array old = lax::reduce_sum(v[0], {0, 1});
                      const Array row = lax::slice(v[0], {1, 0}, {2, 8});
                      const Array once = lax::dynamic_update_slice(v[0], row, Arrays{i, i});
                      const Array more = lax::mul(row, constant_like(row, 2));
                      const Array twice = lax::dynamic_update_slice(
                          once, more,
                          Arrays{lax::add(i, constant_like(i, 1)), constant_like(i, -3)});
                      return Arrays{twice, old, lax::reduce_sum(twice, {0})};
                    },
                    {x[0], x[1]});
      },
      {uniform({9, 8}, DType::f64), uniform({5, 1}, DType::i32, 0, 9, 2)}, -1, 1e4);
  // The old contents are wanted too: no update in place.
  check(
      [](std::span<const Array> x) {
        return scan({5, 0, 2},
                    [](std::span<const Array> v) {
                      const Array next = lax::dynamic_update_slice(v[0], v[2], Arrays{v[1]});
                      const Array mixed = lax::reduce_sum(lax::mul(next, v[0]), {0});
                      return Arrays{next, lax::add(v[1], constant_like(v[1], 1)), v[0], mixed};
                    },
                    {x[0], x[1], x[2]});
      },
      {uniform({8}, DType::f64), lax::full({}, DType::i32, 0), uniform({5, 2}, DType::f64)}, -1,
      1e3);
}

// x with y added to element 0. `updates` says that it may be done in x's own memory.
Rules<> add_to_first(bool updates) {
  return {.impl =
              [](const NoParams&, std::span<const Array> x) {
                return Arrays{lax::pad(lax::slice(x[0], {1}, {x[0].shape(0)}),
                                       lax::add(lax::index_in_dim(x[0], 0), x[1]), {{1, 0, 0}})};
              },
          .abstract_eval = [](const NoParams&, std::span<const Aval> x) { return x[0]; },
          .lower = kernel<NoParams>([](Emitter& e, const NoParams&, std::span<const Buffer> in,
                                       std::span<const Buffer> out) {
            e.copy(in[0], out[0]);
            const Index first = {e.index(0)};
            e.store(out[0], first, e.add(e.load(out[0], first), e.load(in[1], {})));
          }),
          .updates_operand = updates};
}
const Primitive<> add_in_place_p{"test_add_in_place", [] { return add_to_first(true); }};
const Primitive<> add_to_copy_p{"test_add_to_copy", [] { return add_to_first(false); }};

TEST(CompiledScan, LetsAUsersPrimitiveUpdateACarryInPlace) {
  const auto arena = [](const Primitive<>& p) {
    return check(
               [&p](std::span<const Array> x) {
                 return scan(
                     {7, 0, 1},
                     [&p](std::span<const Array> v) { return Arrays{p.bind1({}, {v[0], v[1]})}; },
                     {x[0], x[1]});
               },
               {uniform({100}, DType::f64), uniform({7}, DType::f64, -2, 2, 2)})
        ->info()
        .arena_bytes;
  };
  EXPECT_LT(arena(add_in_place_p) + 99 * 8, arena(add_to_copy_p));
}

TEST(CompiledScan, ScattersIntoACarry) {
  check(
      [](std::span<const Array> x) {
        return scan({7, 0, 1},
                    [](std::span<const Array> v) {
                      ScatterParams p;
                      p.dimension_numbers.inserted_window_dims = {0};
                      p.dimension_numbers.scatter_dims_to_operand_dims = {0};
                      return Arrays{lax::scatter_add(v[0], v[1], v[2], p)};
                    },
                    {x[0], x[1], x[2]});
      },
      {uniform({10}, DType::f64), uniform({7, 4, 1}, DType::i32, 0, 10, 2),
       uniform({7, 4}, DType::f64, -1, 1, 3)},
      -1, 16);
}

TEST(CompiledScan, WhatDoesNotChangeIsComputedOnce) {
  const Program f = [](std::span<const Array> x) {
    return scan({10, 1, 1},
                [](std::span<const Array> v) {
                  return Arrays{lax::add(v[1], lax::reduce_sum(lax::exp(v[0]), {1}))};
                },
                {x[0], x[1]});
  };
  const auto executable =
      check(f, {uniform({50, 60}, DType::f64), uniform({50}, DType::f64)}, -1, 64);
  const std::string text = executable->text("jaxpr");
  EXPECT_LT(text.find("exp"), text.find("scan")) << text;
}

// A product reads it from memory, however little it takes; what kernels compute themselves is left to them.
TEST(CompiledScan, FactorsThatDoNotChangeAreComputedOnce) {
  const Program f = [](std::span<const Array> x) {
    return scan({10, 2, 1},
                [](std::span<const Array> v) {
                  const Array by = lax::mul(v[0], constant_like(v[0], 0.01));
                  const Array kept = lax::neg(v[1]);
                  return Arrays{lax::sub(lax::add(v[2], kept), product(by, lax::tanh(v[2])))};
                },
                {x[0], x[1], x[2]});
  };
  const auto executable = check(
      f,
      {uniform({40, 40}, DType::f32), uniform({40, 30}, DType::f32), uniform({40, 30}, DType::f32)},
      -1, 64);
  const std::string text = executable->text("jaxpr");
  EXPECT_LT(text.find("mul"), text.find("scan")) << text;
  EXPECT_GT(text.find("neg"), text.find("scan")) << text;
}

// ---- while ---------------------------------------------------------------------------------------
Program below(double limit) {
  return [limit](std::span<const Array> v) {
    return Arrays{lax::lt(v[0], constant_like(v[0], limit))};
  };
}

// A row of a matrix, times another again and again: trips of the outer loop hand each other nothing.
Arrays powers(std::int64_t rows, std::int64_t times, const Array& x, const Array& m) {
  return scan({rows, 1, 0},
              [&](std::span<const Array> v) {
                Arrays all{v[0], v[1]};
                all.push_back(lax::full({times}, DType::i32, 0));
                return scan(
                    {times, 1, 1},
                    [](std::span<const Array> w) {
                      const Array y = lax::sin(product(w[1], w[0]));
                      return Arrays{y, lax::reduce_sum(y, {0, 1})};
                    },
                    all);
              },
              {m, x});
}

TEST(CompiledScan, SharesTripsThatHoldLoops) {
  // Many trips, of which each alone has nothing for threads to share; few, whose products they share.
  for (const auto& [trips, times, size, is_shared] :
       {std::tuple{40, 5, 40, true}, {40, 1, 40, true}, {9, 30, 64, true}, {3, 4, 300, false}}) {
    const Program f = [&](std::span<const Array> x) { return powers(trips, times, x[0], x[1]); };
    const Arrays inputs{uniform({trips, size, size}, DType::f64, -1, 1),
                        uniform({size, size}, DType::f64, -.1, .1, 2)};
    const Compiled compiled = compile(stage(f, inputs));
    EXPECT_EQ(compiled->text("plan").find(" in chunks of") != std::string::npos, is_shared)
        << compiled->text("plan");
    const Arrays want = f(inputs);
    Arrays first;
    for (const int threads : {1, 2, 3, 8}) {
      const WithThreads scope(threads);
      for (int i = 0; i < 3; ++i) {
        const Arrays got = execute(compiled, inputs);
        if (first.empty()) first = got;
        for (std::size_t j = 0; j < got.size(); ++j) {
          expect_equal(got[j], first[j], 0, "threads");
          expect_equal(got[j], want[j], 1e4, "eager");
        }
      }
    }
  }
}

TEST(CompiledScan, SharesTripsThatHoldBranches) {
  const Program f = [](std::span<const Array> x) {
    return scan({40, 1, 0},
                [](std::span<const Array> v) {
                  const auto twice = [](const Array& a, const Array& b) { return product(a, b); };
                  const auto replaced = [](const Array& a, const Array& b) {
                    return a.at(slice(2, 6)).set(b(slice(3, 7)));
                  };
                  const Array y = product(v[1], v[0]);
                  return Arrays{cond(sum(y(0)) > 0, twice, replaced, y, v[0])};
                },
                {x[0], x[1]});
  };
  const Arrays inputs{uniform({40, 40}, DType::f64, -.1, .1, 2),
                      uniform({40, 40, 40}, DType::f64, -1, 1)};
  const Compiled compiled = compile(stage(f, inputs));
  EXPECT_NE(compiled->text("plan").find(" in chunks of"), std::string::npos)
      << compiled->text("plan");
  const Arrays want = f(inputs);
  for (const int threads : {1, 2, 3, 8}) {
    const WithThreads scope(threads);
    for (int i = 0; i < 3; ++i) expect_equal(execute(compiled, inputs)[0], want[0], 1e4, "eager");
  }
}

TEST(CompiledWhile, RunsAnyNumberOfTrips) {
  for (const double start : {0.0, 4.5, 5.0, 100.0}) {
    for (const Shape& shape : {Shape{}, Shape{9}}) {
      check(
          [](std::span<const Array> x) {
            return repeat(below(5),
                          [](std::span<const Array> v) {
                            return Arrays{lax::add(v[0], constant_like(v[0], 1)), v[2],
                                          lax::mul(v[1], constant_like(v[1], 1.5))};
                          },
                          {x[0], x[1], x[2]});
          },
          {lax::full({}, DType::f64, start), uniform(shape, DType::f64),
           uniform(shape, DType::f64, -1, 1, 2)});
    }
  }
}

TEST(CompiledWhile, LanesStopOnTheirOwn) {
  for (const Shape& lanes : {Shape{}, Shape{1}, Shape{7}, Shape{37}, Shape{3, 5}}) {
    Shape wide = lanes;
    wide.push_back(2);
    check(
        [](std::span<const Array> x) {
          return repeat(below(50),
                        [](std::span<const Array> v) {
                          return Arrays{lax::add(lax::mul(v[0], constant_like(v[0], 1.25)),
                                                 constant_like(v[0], 0.5)),
                                        lax::add(v[1], constant_like(v[1], 1)),
                                        lax::mul(v[2], constant_like(v[2], 0.5))};
                        },
                        {x[0], x[1], x[2]});
        },
        {uniform(lanes, DType::f64, -1, 60), uniform(lanes, DType::i32, 0, 0.5),
         uniform(wide, DType::f32)});
  }
}

TEST(CompiledWhile, WithAnUpdateInPlace) {
  check(
      [](std::span<const Array> x) {
        return repeat(below(6),
                      [](std::span<const Array> v) {
                        const Array i = lax::convert_element_type(v[0], DType::i32);
                        return Arrays{lax::add(v[0], constant_like(v[0], 1)),
                                      lax::dynamic_update_slice(
                                          v[1], lax::reshape(lax::sin(v[0]), {1}), Arrays{i})};
                      },
                      {x[0], x[1]});
      },
      {lax::full({}, DType::f64, 0), uniform({9}, DType::f64)}, -1, 2);
}

// ---- cond ----------------------------------------------------------------------------------------
TEST(CompiledCond, RunsOneBranch) {
  for (const Shape& shape : {Shape{}, Shape{11}}) {
    for (const int which : {0, 1, 2}) {
      check(
          [](std::span<const Array> x) {
            return branch(x[0],
                          {[](std::span<const Array> v) { return Arrays{lax::neg(v[0]), v[1]}; },
                           [](std::span<const Array> v) {
                             return Arrays{lax::exp(lax::add(v[0], v[1])), lax::sin(v[0])};
                           },
                           [](std::span<const Array> v) { return Arrays{v[1], v[1]}; }},
                          {lax::cos(x[1]), x[2]});
          },
          {lax::full({}, DType::i32, which), uniform(shape, DType::f64),
           uniform(shape, DType::f64, -1, 1, 2)},
          -1, 4);
    }
  }
}

TEST(CompiledCond, InsideAScanInsideAWhile) {
  for (const Shape& shape : {Shape{}, Shape{5}}) {
    check(
        [](std::span<const Array> x) {
          return repeat(
              below(3),
              [](std::span<const Array> v) {
                const Arrays inner = scan(
                    {4, 0, 2},
                    [](std::span<const Array> w) {
                      const Array odd = lax::rem(w[0], constant_like(w[0], 3));
                      const Arrays chosen =
                          branch(odd,
                                 {[](std::span<const Array> u) {
                                    return Arrays{lax::add(u[0], constant_like(u[0], 1))};
                                  },
                                  [](std::span<const Array> u) {
                                    return Arrays{lax::mul(u[0], constant_like(u[0], 0.75))};
                                  },
                                  [](std::span<const Array> u) { return Arrays{lax::sin(u[0])}; }},
                                 {w[1]});
                      return Arrays{lax::add(w[0], constant_like(w[0], 1)), chosen[0], chosen[0]};
                    },
                    {v[1], v[2]});
                return Arrays{lax::add(v[0], constant_like(v[0], 1)), inner[0], inner[1]};
              },
              {x[0], x[1], x[2]});
        },
        {lax::full({}, DType::f32, 0), lax::full({}, DType::i32, 0), uniform(shape, DType::f64)},
        -1, 16);
  }
}

// ---- switches ------------------------------------------------------------------------------------
TEST(CompiledLoops, AreRightWithEveryOptimisationLeftOut) {
  const Program f = [](std::span<const Array> x) {
    return scan({5, 1, 2},
                [](std::span<const Array> v) {
                  const Array e = lax::exp(v[0]);
                  const Array next = lax::add(lax::mul(v[1], e), constant_like(v[1], 1));
                  const Array i = lax::add(v[2], constant_like(v[2], 1));
                  return Arrays{
                      lax::dynamic_update_slice(next, lax::slice(v[0], {0}, {1}), Arrays{i}), i,
                      lax::reduce_sum(next, {0})};
                },
                {x[0], x[1], x[2]});
  };
  const Arrays x = {uniform({8}, DType::f64), uniform({8}, DType::f64, -1, 1, 2),
                    lax::full({}, DType::i32, 0)};
  for (const char* pass : {"simplify", "cse", "dce", "loops", "fuse", "in_place", "reuse_memory",
                           "matmul", "parallel", "cells", "residuals"}) {
    check(f, x, -1, 64, {.contract = false, .name = pass, .disabled = {pass}});
  }
}

}  // namespace
}  // namespace telamon::testing
