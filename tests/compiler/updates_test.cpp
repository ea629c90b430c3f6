// Carries that are overwritten in part, in branches and loops of the body: made in place, and right
// where that cannot be.
#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

constexpr std::int64_t kLarge = 20'000;
constexpr std::size_t kLargeBytes = 8 * kLarge;

using Two = std::pair<Array, Array>;
using Body = std::function<Array(Array i, Array y)>;
Array fori(std::int64_t trips, const Body& body, const Array& y) {
  return fori_loop(0, trips, body, y);
}
const Array& large() {
  static const auto* x = new Array(uniform({kLarge}, DType::f64));
  return *x;
}

/// No memory but the result's, no copy but the first. What needs no loop is left to one.
void expect_in_place(const std::function<Array(Array)>& f) {
  const auto executable = check([&](std::span<const Array> x) { return Arrays{f(x[0])}; },
                                {large()}, -1, 0, {.disabled = {"update_loops"}});
  const auto& info = executable->info();
  const std::string what = executable->text("jaxpr") + executable->text("plan");
  EXPECT_LT(info.arena_bytes, kLargeBytes / 2) << what;
  EXPECT_LE(std::count(info.steps.begin(), info.steps.end(), "copy"), 1) << what;
  const std::string plan = executable->text("plan");
  const std::size_t loop = plan.find("loop reads");
  ASSERT_NE(loop, std::string::npos) << what;
  EXPECT_EQ(plan.find("copy reads", loop), std::string::npos) << what;
  for (const std::string& step : info.steps) {  // nothing goes through the whole array
    if (step.find("(" + std::to_string(kLarge) + ",)") == std::string::npos) continue;
    EXPECT_TRUE(step.starts_with("kernel scatter") ||
                step.starts_with("kernel dynamic_update_slice"))
        << step << "\n"
        << what;
  }
}

/// The same of a loop whose body makes the next y from the argument x, the trip i and y.
using Step = std::function<Array(Array x, Array i, Array y)>;
void expect_in_place(std::int64_t trips, const Step& step) {
  expect_in_place(
      [&](Array x) { return fori(trips, [&](Array i, Array y) { return step(x, i, y); }, x); });
}
const auto itself = [](Array y) { return y; };

// ---- in place ------------------------------------------------------------------------------------
TEST(UpdatesInPlace, InABranch) {
  expect_in_place(9, [](Array x, Array i, Array y) {
    return cond(x(i) > 0.5, [&](Array z) { return z.at(i).set(x(i) * 2.0); }, itself, y);
  });
  // Each in its own way, reading before and after.
  expect_in_place(9, [](Array, Array i, Array y) {
    return cond(
        y(i + 1) > 0.5, [&](Array z) { return z.at(i).set(z(i + 3) * 2.0).at(i + 3).set(z(i)); },
        [&](Array z) {
          return lax::dynamic_update_slice(z, lax::dynamic_slice(z, Arrays{i * 5}, {7}),
                                           Arrays{i + 4});
        },
        y);
  });
}

TEST(UpdatesInPlace, InOneOfMany) {
  expect_in_place(9, [](Array, Array i, Array y) {
    const auto add = [&](Array z) { return z.at(i).add(1.5); };
    const auto set_and_add = [&](Array z) { return z.at(i).set(0.25).at(2 * i).add(3.0); };
    return switch_(i % 3, std::tuple(add, itself, set_and_add), y);
  });
}

TEST(UpdatesInPlace, InLoopsOfEveryDepth) {
  expect_in_place(5, [](Array x, Array i, Array y) {
    return fori(3, [&](Array k, Array z) { return z.at(3 * i + k).set(z(k) + x(i)); }, y);
  });
  expect_in_place(3, [](Array, Array i, Array y) {
    const auto inner = [&](Array j, Array z) {
      const auto innermost = [&](Array k, Array w) { return w.at(i + j + 7 * k).add(1.25); };
      return fori(4, innermost, z.at(i).set(0.5));
    };
    return fori(2, inner, y).at(3 * i + 1).add(2.0);
  });
}

TEST(UpdatesInPlace, InAWhileLoopThatReadsThem) {
  expect_in_place(6, [](Array, Array i, Array y) {
    return while_loop([&](Array z) { return z(i) < 4.0; },
                      [&](Array z) { return z.at(i).set(z(i) * 1.5 + 3.0); }, y);
  });
}

TEST(UpdatesInPlace, InBranchesOfLoopsInBranches) {
  expect_in_place(6, [](Array x, Array i, Array y) {
    const auto inner = [&](Array k, Array z) {
      return cond(
          z(k) > 0.0, [&](Array w) { return w.at(i + k).set(w(k) - 1.0); },
          [&](Array w) { return w.at(k).set(-w(i)); }, z);
    };
    return cond(x(i) < 1.0, [&](Array z) { return fori(4, inner, z); }, itself, y);
  });
}

TEST(UpdatesInPlace, WhereTheyAreSelected) {
  for (const bool updated_first : {false, true}) {
    const auto either = [&](const Array& p, const Array& updated, const Array& old) {
      return updated_first ? where(p, updated, old) : where(!p, old, updated);
    };
    expect_in_place(
        9, [&](Array x, Array i, Array y) { return either(x(i) > 0.5, y.at(i).set(1.0), y); });
    expect_in_place(
        9, [&](Array x, Array i, Array y) { return either(x(i) > 0.5, y.at(i).add(x(i)), y); });
    // A window at an end, where starts are clamped; several updates in a row.
    expect_in_place(9, [&](Array x, Array i, Array y) {
      const Array row = lax::dynamic_slice(x, Arrays{i}, {5});
      const Array once = lax::dynamic_update_slice(y, row, Arrays{kLarge - 7 + i});
      const Array twice = lax::dynamic_update_slice(once, -row, Arrays{-i});
      const Array all = twice.at(kLarge + i).set(7.0).at(stack({i, i})).add(once(i));
      return either(x(i) > 0.5, all, y);
    });
  }
}

// ---- backwards -----------------------------------------------------------------------------------
Array steps_of(std::int64_t trips, const std::function<Array(Array, Array)>& f) {
  return fori_loop(0, trips, f, Array(1.0));
}
/// Functions of an array, of which each step of a loop reads or writes a small part.
std::map<std::string, std::function<Array(Array)>> of_parts() {
  const auto written = [](const Array& x, const Body& body) { return sum(sin(fori(9, body, x))); };
  return {
      {"one is read",
       [](Array x) { return steps_of(9, [&](Array i, Array c) { return sin(c) * x(i); }); }},
      {"a row is read",
       [](Array x) {
         return steps_of(
             9, [&](Array i, Array c) { return sum(c * lax::dynamic_slice(x, Arrays{i}, {4})); });
       }},
      {"several are read, and meet",
       [](Array x) {
         return steps_of(9, [&](Array i, Array c) { return c * x(i) + x(3) * x(2 * i) - x(i); });
       }},
      {"places are looked up",
       [](Array x) {
         return steps_of(
             9, [&](Array i, Array c) { return c * sum(x.at(stack({i, 2 * i, i})).get()); });
       }},
      {"one is read in a branch",
       [](Array x) {
         return steps_of(9, [&](Array i, Array c) {
           return cond(
               i % 2 == 0, [&](Array c) { return c * x(i); }, [](Array c) { return c * 0.5; }, c);
         });
       }},
      {"each branch reads its own",
       [](Array x) {
         return steps_of(9, [&](Array i, Array c) {
           return x(11) * cond(
                              i % 2 == 0, [&](Array c) { return c * x(i) + x(i + 1); },
                              [&](Array c) { return c - x(7); }, c);
         });
       }},
      {"an inner loop reads",
       [](Array x) {
         return steps_of(5, [&](Array i, Array c) {
           return x(i) * fori(3, [&](Array k, Array c) { return sin(c) * x(i + k); }, c);
         });
       }},
      {"a branch of an inner loop reads",
       [](Array x) {
         return steps_of(5, [&](Array i, Array c) {
           return fori(
               3,
               [&](Array k, Array c) {
                 return cond(
                     k == 1, [&](Array c) { return sin(c) * x(i + k); }, [](Array c) { return c; },
                     c);
               },
               c);
         });
       }},
      {"a bounded loop reads",
       [](Array x) {
         return while_loop([](Two s) { return s.first < 5; },
                           [&](Two s) { return Two{s.first + 1, s.second * x(s.first)}; },
                           Two{Array(0), Array(1.5)}, {.max_steps = 7})
             .second;
       }},
      {"one is written",
       [=](Array x) {
         return written(0.0 * x, [&](Array i, Array y) { return y.at(i).set(cos(x(i)) * 2.0); });
       }},
      {"one is read and written",
       [=](Array x) {
         return written(x, [](Array i, Array y) { return y.at(i + 1).set(cos(y(i)) * 2.0); });
       }},
      {"one is added to",
       [=](Array x) {
         return written(x, [](Array i, Array y) { return y.at(i + 1).add(cos(y(i)) * 2.0); });
       }},
      {"one is written in a branch",
       [=](Array x) {
         return written(x, [&](Array i, Array y) {
           return cond(
               x(i) > 0.0, [&](Array y) { return y.at(i + 1).set(cos(y(i)) * x(i)); },
               [](Array y) { return y; }, y);
         });
       }},
  };
}

TEST(UpdatesInPlace, OfCotangents) {
  for (const auto& [what, f] : of_parts()) {
    SCOPED_TRACE(what);
    const auto executable = check(
        [&f = f](std::span<const Array> x) { return Arrays{grad(f)(x[0])}; }, {large()}, -1, 64);
    std::istringstream plan(executable->text("plan"));
    int steps = 0;
    for (std::string line; std::getline(plan, line);) {
      const bool within = line.starts_with(" ");
      const std::size_t step = line.find_first_not_of(' ');
      const bool copy = line.compare(step, 10, "copy reads") == 0 &&
                        line.find("f64[" + std::to_string(kLarge) + "]") != std::string::npos;
      const bool whole = line.find("(" + std::to_string(kLarge) + ",)") != std::string::npos;
      steps += within;
      if (!within || !(whole || copy)) continue;
      EXPECT_TRUE(line.compare(step, 16, "kernel emitted s") == 0 ||
                  line.compare(step, 13, "kernel update") == 0)
          << line << "\nof\n"
          << executable->text("jaxpr") << executable->text("plan");
    }
    EXPECT_GT(steps, 0);
  }
}

TEST(UpdatesInPlace, OfCotangentsAreTheSums) {
  for (const auto& [what, f] : of_parts()) {
    SCOPED_TRACE(what);
    for (const bool compiled : {false, true}) {
      const Array x = uniform({100}, DType::f64);
      const auto g = grad(f);
      const Array got = compiled ? jit(g)(x) : g(x);
      const auto want = jacfwd(f)(x).to_vector<double>();
      const auto values = got.to_vector<double>();
      ASSERT_EQ(values.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 1e-12) << i;
      const Array batch = uniform({3, 100}, DType::f64, -2, 2, 5);
      const Array all = compiled ? jit(vmap(g))(batch) : vmap(g)(batch);
      for (int row = 0; row < 3; ++row) {
        const auto mine = all(row).to_vector<double>(), alone = g(batch(row)).to_vector<double>();
        for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(mine[i], alone[i], 1e-12) << i;
      }
    }
  }
}

// ---- right in any case -----------------------------------------------------------------------------
const Arrays& small() {
  static const auto* x = new Arrays{uniform({12}, DType::f64), uniform({12}, DType::f64, -1, 1, 2)};
  return *x;
}
void expect_right(const std::function<Two(Array, Array)>& f) {
  for (const char* left_out : {"", "in_place", "simplify", "cells", "fuse"}) {
    check(
        [&](std::span<const Array> x) {
          const Two out = f(x[0], x[1]);
          return Arrays{out.first, out.second};
        },
        small(), -1, 0, {.contract = false, .disabled = {left_out}});
  }
}
Two both(std::int64_t trips, const std::function<Two(Array, Two)>& body, Two init) {
  return fori_loop(0, trips, body, init);
}

TEST(UpdatesInPlace, WaitForThoseThatReadTheOldContents) {
  // After the region in the program, and before it in time.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  const Array y = cond(
                      w(i) > 0.0, [&](Array y) { return y.at(i).set(9.0); },
                      [](Array y) { return y; }, s.first);
                  return Two{y, s.second.at(i).set(sum(s.first * 2.0))};
                },
                {x, w});
  });
  // Together with the new ones: not in place.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  const Array y = cond(
                      w(i) > 0.0, [&](Array y) { return y.at(i).set(9.0); },
                      [](Array y) { return y; }, s.first);
                  return Two{y, s.second + s.first * y};
                },
                {x, w});
  });
  // In a branch.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  return cond(
                      w(i) > 0.0,
                      [&](Array y, Array v) {
                        const Array z = y.at(i).set(9.0);
                        return Two{z.at(i + 1).set(sum(y)), v + z * y};
                      },
                      [](Array y, Array v) { return Two{y, v}; }, s.first, s.second);
                },
                {x, w});
  });
  // Through a barrier, whose result is the same memory.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  const Array same = optimization_barrier(s.first);
                  const Array y = s.first.at(i).set(9.0);
                  return Two{y, s.second * y(0) + same};
                },
                {x, w});
  });
}

TEST(UpdatesInPlace, OfTwoCarriesThatReadEachOther) {
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  return cond(
                      w(i) > 0.0,
                      [&](Array y, Array v) {
                        return Two{y.at(i).set(v(i + 1)), v.at(i + 1).set(y(i) * 2.0)};
                      },
                      [&](Array y, Array v) { return Two{y.at(3).set(v(i)), v}; }, s.first,
                      s.second);
                },
                {x, w});
  });
  // Swapped in one branch, in all branches, in the body.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  return cond(
                      w(i) > 0.0, [&](Array y, Array v) { return Two{v, y.at(i).set(3.0)}; },
                      [](Array y, Array v) { return Two{y, v}; }, s.first, s.second);
                },
                {x, w});
  });
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  const Two t = cond(
                      w(i) > 0.0, [&](Array y, Array v) { return Two{v, y.at(i).set(3.0)}; },
                      [&](Array y, Array v) { return Two{v.at(i).set(2.0), y}; }, s.first,
                      s.second);
                  return Two{t.second, t.first};
                },
                {x, w});
  });
  // The same operand twice; the same result twice.
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  return cond(
                      w(i) > 0.0,
                      [&](Array y, Array v) { return Two{y.at(i).set(v(0)), v.at(0).set(y(i))}; },
                      [](Array y, Array v) { return Two{y, v}; }, s.first, s.first);
                },
                {x, w});
  });
  expect_right([](Array x, Array w) {
    return both(5,
                [&](Array i, Two s) {
                  return cond(
                      w(i) > 0.0,
                      [&](Array y, Array) {
                        const Array z = y.at(i).set(4.0);
                        return Two{z, z};
                      },
                      [](Array y, Array v) { return Two{y, v}; }, s.first, s.second);
                },
                {x, w});
  });
}

TEST(UpdatesInPlace, OfWhatIsCapturedToo) {
  expect_right([](Array x, Array w) {
    const Array z = x * w;
    const Array y = fori(
        5,
        [&](Array i, Array y) {
          return fori(2, [&](Array k, Array y) { return y.at(i + k).set(z(11 - i) + y(k)); }, y);
        },
        z);
    return Two{y, z};
  });
  // The inner loop goes through the rows of what it carries.
  expect_right([](Array x, Array w) {
    const Array y = fori(
        3,
        [&](Array i, Array y) {
          return scan([&](Array c,
                          Array row) { return std::pair{c.at(i + 1).add(row), row * c(i)}; },
                      y, y)
              .first;
        },
        x);
    return Two{y, w};
  });
}

TEST(UpdatesInPlace, InLoopsWithoutTrips) {
  expect_right([](Array x, Array w) {
    const auto never = [](Array, Array z) { return z.at(0).set(5.0); };
    const Array y = fori(4, [&](Array i, Array y) { return fori(0, never, y).at(i).add(2.0); }, x);
    const Array z = fori(0, [&](Array, Array y) { return fori(3, never, y); }, w);
    return Two{y, z};
  });
  expect_right([](Array x, Array w) {
    const Array y = fori(
        4,
        [&](Array i, Array y) {
          return while_loop([&](Array z) { return z(i) > 100.0; },
                            [&](Array z) { return z.at(i).set(0.0); }, y);
        },
        x);
    return Two{y, w};
  });
}

TEST(UpdatesInPlace, InBatches) {
  // The predicate, the place or the trips differ from row to row.
  const auto rows = [](const std::function<Array(Array, Array)>& f) {
    check([&](std::span<const Array> x) { return Arrays{vmap(f)(x[0], x[1])}; },
          {uniform({4, 40}, DType::f64), uniform({4, 40}, DType::f64, -1, 1, 2)});
  };
  rows([](Array x, Array w) {
    return fori(
        5,
        [&](Array i, Array y) {
          return cond(
              w(i) > 0.0, [&](Array y) { return y.at(i).set(9.0).at(i + 2).add(1.0); },
              [&](Array y) { return y.at(0).set(y(i)); }, y);
        },
        x);
  });
  rows([](Array x, Array w) {
    return fori(
        5,
        [&](Array i, Array y) {
          const Array at = (w(i) * 50.0).astype(DType::i32);  // also out of bounds
          return where(w(i) > 0.0, y.at(at).set(9.0), y);
        },
        x);
  });
  rows([](Array x, Array w) {
    return while_loop([](Two s) { return s.first < 3.0; },
                      [&](Two s) {
                        const Array i = s.first.astype(DType::i32);
                        return Two{s.first + 1.0, s.second.at(i).set(w(i + 1))};
                      },
                      Two{w(0), x})
        .second;
  });
}

// What a loop writes row by row is taken over by another loop, or handed on through it and then overwritten:
// its memory is in use from the first row on.
TEST(UpdatesInPlace, OfRowsThatALoopHasWritten) {
  const auto handed_on = [](std::span<const Array> x) {
    const auto [c, rows] =
        scan([](Array c, Array r) { return Two{c.at(6).set(r), r * 2.0}; }, x[0], x[1]);
    const auto body = [](Array, Two s) {
      return Two{s.first.at(slice(2, 4)).set(s.first(slice(3, 5))), s.second};
    };
    const Two s = fori_loop(0, 1, body, Two{c, rows});
    return Arrays{s.second.at(2).set(s.first(3))};
  };
  check(handed_on, {uniform({8}, DType::f64), uniform({5}, DType::f64, 0, 1, 2)});
  const auto taken_over = [](std::span<const Array> x) {
    const auto loop = [](const Array& z) {
      return fori(40, [](Array i, Array c) { return c.at(i).set(c(i + 1) * 2.0); }, z);
    };
    const Array& v = x[1];
    return Arrays{loop(map([&](Array r) { return sort(r * 0.5 - v); }, loop(x[0] + 1.0))) + x[0]};
  };
  check(taken_over, {uniform({640, 8}, DType::f64), uniform({8}, DType::f64, 0, 1, 2)});
}

TEST(UpdatesInPlace, OfLanesThatStopOnTheirOwn) {
  const auto executable = check(
      [](std::span<const Array> x) {
        return Arrays{vmap([](Array start, Array x) {
          return while_loop([](Two s) { return s.first < 40.0; },
                            [](Two s) {
                              const Array i = s.first.astype(DType::i32);
                              return Two{s.first + 1.0, s.second.at(i).set(s.second(i + 1) * 0.5)};
                            },
                            Two{start, x})
              .second;
        })(x[0], x[1])};
      },
      {uniform({5}, DType::f64, 0, 40), uniform({5, 4000}, DType::f64)});
  EXPECT_LT(executable->info().arena_bytes, 5u * 4000 * 8) << executable->text("plan");
}

// One number for all places, which is read once; and what is one number only at first.
// Of two reshapes, one of the other, the second is another name for what is updated, though the first has no memory.
TEST(UpdatesInPlace, WaitForWhoReadsAnotherName) {
  const Jaxpr program = parse_jaxpr(R"({ lambda x:f32[1000,64], u:f32[2,64], i:i32[] . let
      a:f32[1000,64] = sin x
      z0:f32[1000,64] q:f32[3,500] = scan [ length=3 num_carry=1 num_consts=2 reverse=False unroll=1 ] u i a
        { lambda u:f32[2,64], i:i32[], x:f32[1000,64] . let
        r:f32[64000] = reshape [ new_sizes=(64000,) ] x
        s:f32[500,128] = reshape [ new_sizes=(500,128) ] r
        z:f32[1000,64] = dynamic_update_slice x u i 0:i32
        w:f32[64] = reduce_max [ axes=(0,) ] z
        v:f32[2,64] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(2,64) ] w
        t:f32[128] = reshape [ new_sizes=(128,) ] v
        y:f32[500] = dot_general [ dimension_numbers={lhs_contracting=(1,), rhs_contracting=(0,), lhs_batch=(), rhs_batch=()} ] s t
        in ( z, y ) }
      in ( z0, q ) })");
  const Arrays in = {uniform({1000, 64}, DType::f32), uniform({2, 64}, DType::f32, 5, 6, 2),
                     Array(std::int32_t{17})};
  const Arrays want = eval_jaxpr(program, in);
  for (const char* left_out : {"", "simplify"}) {
    runtime::CompileOptions options;
    if (*left_out != '\0') options.disabled = {left_out};
    const Arrays got = execute(compile(program, options), in);
    for (std::size_t o = 0; o < got.size(); ++o)
      EXPECT_TRUE(allclose(got[o], want[o], {.rtol = 1e-4})) << left_out;
  }
}

TEST(UpdatesWithOneNumber, ReadItOnce) {
  const Array i = lax::convert_element_type(uniform({50'000}, DType::f32, -8, 8), DType::i32);
  // The bytes from index to index and from number to number, and places 0 to 15 of four bytes.
  const auto reads_one = [](const Compiled& e) {
    const std::string ir = e->text("ir");
    const bool all = ir.find("i64 4, i64 4, i64 0, i64 0, i64 4, i64 15,") != std::string::npos;
    const bool first = ir.find("i64 4, i64 0, i64 0, i64 0, i64 4, i64 15,") != std::string::npos;
    EXPECT_NE(all, first);
    return first;
  };
  const auto one = [](std::span<const Array> x) {
    return Arrays{telamon::zeros({16}, DType::i32).at(x[0] + 8).add(1)};
  };
  const auto begun = [](std::span<const Array> x) {
    const Array ones = telamon::ones({50'000}, DType::i32)
                           .at(telamon::slice(7, 30'000))
                           .set(x[0](telamon::slice(7, 30'000)));
    return Arrays{telamon::zeros({16}, DType::i32).at(x[0] + 8).add(ones)};
  };
  const auto looped = [](std::span<const Array> x) {
    const auto step = [&](Array, Array sum) { return sum.at(x[0] + 8).add(1); };
    const Array sum = fori_loop(0, 3, step, telamon::zeros({16}, DType::i32));
    const auto grow = [&](Array, Array weights) {
      return weights + telamon::sum(telamon::zeros({16}, DType::i32).at(x[0] + 8).add(weights)) % 7;
    };
    const auto row = [&](Array k, Array rows) {
      return rows.at(k).set(x[0](telamon::slice(0, 12'500)) + k);
    };
    const Array rows = fori_loop(0, 4, row, telamon::ones({4, 12'500}, DType::i32));
    const Array by_rows = telamon::zeros({4, 16}, DType::i32)
                              .at(telamon::arange(4)(telamon::slice(), telamon::newaxis),
                                  telamon::reshape(x[0] + 8, {4, 12'500}))
                              .add(rows);
    return Arrays{sum, by_rows, fori_loop(0, 3, grow, telamon::ones({50'000}, DType::i32))};
  };
  EXPECT_TRUE(reads_one(check(one, {i})));
  EXPECT_FALSE(reads_one(check(begun, {i})));
  check(looped, {i});
}

}  // namespace
}  // namespace telamon::testing
