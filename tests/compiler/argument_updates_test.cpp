// Donated arguments that are overwritten in part stay where they are; nothing changes where they are held by
// others, still read, or not donated.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <random>

#include "core/concrete.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSize = 5000;

/// x, a few values, and places for them: as x[0], x[1] and x[2] of a program.
Arrays fresh(DType dtype = DType::f32, const Shape& shape = {kSize}) {
  const Array places(std::vector<std::int32_t>{7, 4, 7, 11});
  const auto values = [&](Shape of, unsigned seed) {
    if (!is_complex(dtype))
      return lax::convert_element_type(uniform(of, DType::f64, -9, 9, seed), dtype);
    const Shape shape = of;
    of.push_back(2);
    const DType part = dtype == DType::c64 ? DType::f32 : DType::f64;
    const Array parts = lax::convert_element_type(uniform(of, DType::f64, -9, 9, seed), part);
    return Array::from_data(detail::known_concrete_node(parts).buffer().data(), dtype, shape);
  };
  return {values(shape, 1), values({4}, 2), places};
}
const detail::DeviceBuffer& buffer_of(const Array& x) {
  return detail::known_concrete_node(x).buffer();
}
const void* memory_of(const Array& x) { return buffer_of(x).data(); }
bool was_taken(const Array& x) { return buffer_of(x).donated(); }
Compiled compiled(const Program& f, const Arrays& inputs, std::vector<bool> donated) {
  return compile(stage(f, inputs), {.donated = std::move(donated)});
}
void expect_same(const Array& got, const Array& want, const std::string& what) {
  if (!is_complex(got.dtype())) return expect_equal(got, want, 0, what);
  const auto bytes = static_cast<std::size_t>(got.size()) * size_of(got.dtype());
  EXPECT_EQ(std::memcmp(memory_of(got), memory_of(want), bytes), 0) << what;
}

/// What f gives, whether x is donated or not; where it is, x stays where it was and nothing passes over it.
void expect_in_place(const std::string& name, const Program& f, DType dtype = DType::f32,
                     const Shape& shape = {kSize}) {
  SCOPED_TRACE(name);
  const Arrays want = f(fresh(dtype, shape)), args = fresh(dtype, shape);
  const Compiled e = compiled(f, args, {true, false, false});
  const std::string what = name + "\n" + e->text("jaxpr") + "\n" + e->text("plan");
  const Arrays kept = execute(e, args);
  EXPECT_FALSE(was_taken(args[0])) << what;
  const void* const place = memory_of(args[0]);
  const Arrays got = execute(e, args, {true, false, false});
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_same(got[i], want[i], "donated " + what);
    expect_same(kept[i], want[i], "kept " + what);
  }
  EXPECT_TRUE(was_taken(args[0])) << what;
  EXPECT_EQ(memory_of(got[0]), place) << what;
  const double bytes =
      static_cast<double>(shape.num_elements()) * static_cast<double>(size_of(dtype));
  EXPECT_LT(e->cost_analysis().bytes_accessed, bytes / 2) << what;
  EXPECT_LT(static_cast<double>(e->info().arena_bytes), bytes / 2) << what;
}
using Update = std::function<Array(const Array& x, const Array& v, const Array& p)>;
Program program(const Update& f) {
  return [f](std::span<const Array> x) { return Arrays{f(x[0], x[1], x[2])}; };
}
void expect_in_place(const std::map<std::string, Update>& updates) {
  for (const auto& [name, f] : updates) expect_in_place(name, program(f));
}
Array places(std::vector<std::int32_t> at) { return Array(std::move(at)); }

// ---- in place ------------------------------------------------------------------------------------
TEST(ArgumentUpdates, AtPlacesThatAreKnown) {
  expect_in_place({
      {"set", [](auto& x, auto& v, auto&) { return x.at(3).set(v(0)); }},
      {"range", [](auto& x, auto& v, auto&) { return x.at(slice(3, 7)).set(v); }},
      {"from the end", [](auto& x, auto& v, auto&) { return x.at(-1).set(v(0)); }},
      {"backwards", [](auto& x, auto& v, auto&) { return x.at(slice(7, 3, -1)).set(v); }},
      {"add", [](auto& x, auto& v, auto&) { return x.at(3).add(v(0)); }},
      {"add to a range", [](auto& x, auto& v, auto&) { return x.at(slice(3, 7)).add(v); }},
      {"subtract", [](auto& x, auto& v, auto&) { return x.at(slice(3, 7)).subtract(v); }},
      {"multiply", [](auto& x, auto& v, auto&) { return x.at(3).multiply(v(0)); }},
      {"max", [](auto& x, auto& v, auto&) { return x.at(slice(0, 4)).max(v); }},
  });
}

TEST(ArgumentUpdates, AtPlacesThatAreComputed) {
  expect_in_place({
      {"set", [](auto& x, auto& v, auto& p) { return x.at(p(1)).set(v(0)); }},
      {"add", [](auto& x, auto& v, auto& p) { return x.at(p(1)).add(v(0)); }},
      {"set at several",
       [](auto& x, auto& v, auto& p) { return x.at(p(slice(1, 4))).set(v(slice(1, 4))); }},
      {"add at several", [](auto& x, auto& v, auto& p) { return x.at(p).add(v); }},
      {"divide at several",
       [](auto& x, auto& v, auto& p) { return x.at(p(slice(1, 4))).divide(v(3)); }},
      {"below zero", [](auto& x, auto& v, auto& p) { return x.at(-p).add(v); }},
      {"out of range", [](auto& x, auto& v, auto& p) { return x.at(p * 700).set(v(0)); }},
      {"a window",
       [](auto& x, auto& v, auto& p) { return lax::dynamic_update_slice(x, v, Arrays{p(0)}); }},
      {"a window past the end",
       [](auto& x, auto& v, auto& p) {
         return lax::dynamic_update_slice(x, v, Arrays{p(0) * kSize});
       }},
  });
}

TEST(ArgumentUpdates, InEveryModeOfScatters) {
  for (const auto mode : {GatherScatterMode::fill_or_drop, GatherScatterMode::clip,
                          GatherScatterMode::promise_in_bounds}) {
    for (const bool adds : {false, true}) {
      const bool inside = mode == GatherScatterMode::promise_in_bounds;
      expect_in_place(adds ? "add" : "set", program([=](auto& x, auto& v, auto& p) {
                        ScatterParams params;
                        params.dimension_numbers = {.inserted_window_dims = {0},
                                                    .scatter_dims_to_operand_dims = {0}};
                        params.mode = mode;
                        const Array at = lax::reshape(inside ? p : p * 600 - 3000, {4, 1});
                        return adds ? lax::scatter_add(x, at, v, params)
                                    : lax::scatter(x, at, lax::broadcast(v(0), {4}), params);
                      }));
    }
  }
}

TEST(ArgumentUpdates, OneAfterTheOther) {
  expect_in_place({
      {"all kinds",
       [](auto& x, auto& v, auto& p) {
         return x.at(1).set(v(0)).at(p).add(v).at(slice(2, 6)).add(v).at(p(2)).multiply(v(3));
       }},
      {"the same place",
       [](auto& x, auto& v, auto&) { return x.at(1).set(v(0)).at(1).add(v(1)).at(1).set(v(2)); }},
      {"of what was there between",
       [](auto& x, auto& v, auto& p) {
         const Array y = x.at(p(0)).set(v(0));
         const Array z = y.at(p(1)).set(y(p(0)) + x(p(0)));
         return z.at(slice(0, 2)).set(z(slice(1, 3)) - y(slice(4, 6)));
       }},
  });
}

TEST(ArgumentUpdates, OfWhatTheyReadThemselves) {
  expect_in_place({
      {"one", [](auto& x, auto&, auto& p) { return x.at(p(0)).set(x(p(1))); }},
      {"the next", [](auto& x, auto&, auto&) { return x.at(3).set(x(4)); }},
      {"overlapping",
       [](auto& x, auto&, auto& p) {
         return lax::dynamic_update_slice(x, lax::dynamic_slice(x, Arrays{p(0)}, {9}),
                                          Arrays{p(0) + 2});
       }},
      {"overlapping, the other way",
       [](auto& x, auto&, auto&) { return x.at(slice(10, 40)).set(x(slice(17, 47))); }},
      {"turned round",
       [](auto& x, auto&, auto&) { return x.at(slice(10, 40)).set(x(slice(39, 9, -1))); }},
      {"looked up", [](auto& x, auto& v, auto& p) { return x.at(p).add(x(p + 1) * v); }},
      {"exchanged",
       [](auto& x, auto&, auto& p) { return x.at(p(0)).set(x(p(1))).at(p(1)).set(x(p(0))); }},
  });
}

TEST(ArgumentUpdates, InLoopsAndBranches) {
  expect_in_place({
      {"loop",
       [](auto& x, auto& v, auto&) {
         return fori_loop(0, 4, [&](Array i, Array y) { return y.at(3 * i).set(v(i) + y(i)); }, x);
       }},
      {"loop, updated before and after",
       [](auto& x, auto& v, auto& p) {
         return fori_loop(
                    0, 7, [&](Array i, Array y) { return y.at(i + 2).add(v(0)); }, x.at(p).add(v))
             .at(1)
             .set(v(2));
       }},
      {"while",
       [](auto& x, auto& v, auto&) {
         using Two = std::pair<Array, Array>;
         return while_loop([](Two s) { return s.first < 5; },
                           [&](Two s) { return Two{s.first + 1, s.second.at(s.first).add(v(1))}; },
                           Two{Array(0), x})
             .second;
       }},
      {"branch",
       [](auto& x, auto& v, auto&) {
         return cond(
             v(0) > v(1), [&](Array y) { return y.at(1).set(v(1)); },
             [&](Array y) { return y.at(2).add(v(0)); }, x);
       }},
      {"branch that does nothing",
       [](auto& x, auto& v, auto&) {
         return cond(
             v(0) > v(1), [&](Array y) { return y.at(1).set(v(1)); }, [](Array y) { return y; }, x);
       }},
      {"sums in a loop",
       [](auto& x, auto& v, auto&) {
         return fori_loop(0, 5, [&](Array i, Array y) { return y.at(3).add(v(0) * i); }, x);
       }},
      {"sums in a branch in a while loop",
       [](auto& x, auto& v, auto&) {
         return while_loop([](Array y) { return y(3) < 20.0f; },
                           [&](Array y) {
                             return cond(
                                 y(4) > 0.0f, [](Array z) { return z.at(slice(2, 6)).add(7.0f); },
                                 [&](Array z) { return z.at(3).add(abs(v(0)) + 1.0f); }, y);
                           },
                           x.at(0).add(v(0)));
       }},
      {"branch in a loop",
       [](auto& x, auto& v, auto&) {
         return fori_loop(
             0, 5,
             [&](Array i, Array y) {
               return cond(
                   i % 2 == 0, [&](Array z) { return z.at(i).set(v(0)); },
                   [](Array z) { return z; }, y);
             },
             x);
       }},
  });
}

TEST(ArgumentUpdates, OfEveryType) {
  for (const DType dtype : {DType::f64, DType::i32, DType::u8, DType::i64, DType::f32}) {
    expect_in_place("set", program([](auto& x, auto& v, auto&) { return x.at(3).set(v(0)); }),
                    dtype);
    expect_in_place("add", program([](auto& x, auto& v, auto&) { return x.at(3).add(v(0)); }),
                    dtype);
    expect_in_place("at places", program([](auto& x, auto& v, auto& p) {
                      return x.at(p).add(v).at(p(0)).set(v(1));
                    }),
                    dtype);
  }
  expect_in_place("bool", program([](auto& x, auto& v, auto&) { return x.at(3).set(v(0)); }),
                  DType::bool_);
}

TEST(ArgumentUpdates, OfRowsOfMatrices) {
  const Shape shape{50, 100};
  const auto rows = [&](const char* name, const Update& f) {
    expect_in_place(name, program(f), DType::f32, shape);
  };
  rows("row", [](auto& x, auto&, auto&) { return x.at(3).set(x(5)); });
  rows("element", [](auto& x, auto& v, auto& p) { return x.at(p(0), 4).add(v(0)); });
  rows("part of a column", [](auto& x, auto& v, auto&) { return x.at(slice(5, 9), 4).set(v); });
  rows("rows", [](auto& x, auto& v, auto& p) { return x.at(p(slice(0, 2))).add(v(0)); });
  rows("at places of a row",
       [](auto& x, auto& v, auto& p) { return x.at(2, p).add(v).at(slice(1, 3)).add(v(0)); });
}

// Types that generated code does not hold.
TEST(ArgumentUpdates, OfOtherTypesAreRight) {
  for (const DType dtype : {DType::c64, DType::c128, DType::bf16, DType::f16}) {
    const Program f = [](std::span<const Array> x) {
      const Array y = x[0].at(3).set(x[1](0)).at(x[2](1)).set(x[1](1)).at(x[2]).set(x[1](2));
      if (is_complex(y.dtype())) return Arrays{y.at(x[2]).add(x[1])};
      return Arrays{y.at(slice(1, 3)).add(x[1](1)).at(x[2]).add(x[1])};
    };
    const Arrays want = f(fresh(dtype));
    const Compiled e = compiled(f, fresh(dtype), {true, false, false});
    for (const bool donated : {false, true}) {
      const Array got = execute(e, fresh(dtype), {donated, false, false})[0];
      expect_same(got, want[0], e->text("plan"));
    }
    expect_in_place(
        "sums at places of " + std::string(short_name(dtype)),
        [](std::span<const Array> x) { return Arrays{x[0].at(x[2]).add(x[1])}; }, dtype);
  }
}

TEST(ArgumentUpdates, OfNothing) {
  const std::map<std::string, Update> updates = {
      {"range", [](auto& x, auto& v, auto&) { return x.at(slice(3, 3)).set(v(slice(0, 0))); }},
      {"places",
       [](auto& x, auto& v, auto& p) { return x.at(p(slice(0, 0))).add(v(slice(0, 0))); }},
      {"window",
       [](auto& x, auto& v, auto& p) {
         return lax::dynamic_update_slice(x, v(slice(0, 0)), Arrays{p(0)});
       }},
  };
  for (const auto& [name, update] : updates) {
    for (const std::int64_t size : {0, 1, 30}) {
      if (size == 0 && name == "places") continue;
      const Program f = program(update);
      const auto args = [&] { return fresh(DType::f32, {std::max<std::int64_t>(size, 12)}); };
      const Compiled e = compiled(f, args(), {true, false, false});
      for (const bool donated : {false, true})
        expect_equal(execute(e, args(), {donated, false, false})[0], f(args())[0], 0, name);
    }
  }
}

// ---- and where that cannot be --------------------------------------------------------------------
/// The same results whatever is donated; arguments that were not taken over are as before.
Compiled expect_right(const Program& f, const std::function<Arrays()>& inputs,
                      const std::vector<bool>& donated, const std::string& what = "") {
  const Arrays want = f(inputs());
  const Compiled e = compiled(f, inputs(), donated);
  for (const bool gives : {false, true}) {
    const Arrays args = inputs(), before = inputs();
    const Arrays got = execute(e, args, gives ? donated : std::vector<bool>(donated.size(), false));
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_equal(got[i], want[i], 0,
                   what + " result " + std::to_string(i) + (gives ? " donated " : " kept ") +
                       e->text("jaxpr") + e->text("plan"));
    for (std::size_t a = 0; a < args.size(); ++a) {
      EXPECT_FALSE(was_taken(args[a]) && !(gives && donated[a])) << what;
      if (!was_taken(args[a])) expect_equal(args[a], before[a], 0, what + " argument");
    }
  }
  return e;
}
const std::function<Arrays()> kFresh = [] { return fresh(); };
const std::vector<bool> kFirst = {true, false, false};

TEST(ArgumentUpdates, OfWhatIsReadElsewhereComeAfterThat) {
  const Compiled e = expect_right(
      [](std::span<const Array> x) {
        return Arrays{x[0].at(3).set(x[1](0)), max(x[0] * 2.0f), x[0](x[2]), lax::rev(x[0], {0})};
      },
      kFresh, kFirst);
  EXPECT_THAT(e->text("plan"), HasSubstr("kernel update dynamic_update_slice"));
}

TEST(ArgumentUpdates, OfWhatIsReturnedAreNotInPlace) {
  expect_right([](std::span<const Array> x) { return Arrays{x[0].at(3).set(x[1](0)), x[0]}; },
               kFresh, kFirst);
  expect_right([](std::span<const Array> x) { return Arrays{x[0], x[0].at(x[2]).add(x[1]), x[0]}; },
               kFresh, kFirst);
  expect_right(
      [](std::span<const Array> x) {
        const Array y = x[0].at(3).set(x[1](0));
        return Arrays{y, y.at(4).set(x[1](1)), y};
      },
      kFresh, kFirst);
}

TEST(ArgumentUpdates, OfOneArgumentForSeveralResults) {
  expect_right(
      [](std::span<const Array> x) {
        return Arrays{x[0].at(3).set(x[1](0)), x[0].at(3).set(x[1](1)), x[0].at(x[2]).add(x[1])};
      },
      kFresh, kFirst);
  expect_right(
      [](std::span<const Array> x) {
        const Array y = x[0].at(x[2]).add(x[1]);
        return Arrays{y.at(3).set(x[1](0)), y.at(4).set(x[1](1)), max(y)};
      },
      kFresh, kFirst);
}

TEST(ArgumentUpdates, EachOfItsOwnArgument) {
  const auto inputs = [] {
    return Arrays{fresh()[0], fresh()[0] * 2.0f, fresh()[0] * 3.0f, fresh()[1], fresh()[2]};
  };
  const Program f = [](std::span<const Array> x) {
    return Arrays{x[2].at(1).set(x[3](0)), lax::sort(x[0] + x[1](3), 0), x[1].at(x[4]).add(x[3])};
  };
  expect_right(f, inputs, {true, true, true, false, false});
  const Compiled e = compiled(f, inputs(), {true, true, true, false, false});
  const Arrays args = inputs();
  const std::vector<const void*> at = {memory_of(args[2]), memory_of(args[0]), memory_of(args[1])};
  const Arrays got = execute(e, args, {true, true, true, false, false});
  EXPECT_EQ(memory_of(got[0]), at[0]);
  EXPECT_EQ(memory_of(got[2]), at[2]);
}

TEST(ArgumentUpdates, OfArraysThatOthersHoldAreMadeInACopy) {
  const auto f = jit([](Array x, Array v) { return x.at(slice(3, 7)).set(v); }, {.donate = {0}});
  const auto both = jit([](Array x, Array y) { return x.at(3).set(y(4)); }, {.donate = {0, 1}});
  const Array x = fresh()[0], v = fresh()[1], before = x * 1.0f;
  const Array same = lax::reshape(x, {kSize / 2, 2});  // the same memory
  const Array got = f(x, v);
  expect_equal(x, before, 0, "held");
  expect_equal(got, before.at(slice(3, 7)).set(v), 0, "held");
  const Array y = before * 1.0f;
  expect_equal(both(y, y), before.at(3).set(before(4)), 0, "given twice");
  expect_equal(y, before, 0, "given twice");
  const Array z = before * 1.0f;
  const void* const place = memory_of(z);
  const Array taken = f(z, v);
  expect_equal(taken, got, 0, "donated");
  EXPECT_EQ(memory_of(taken), place);
  EXPECT_TRUE(was_taken(z));
}

TEST(ArgumentUpdates, CopyNothingThatIsReturnedAsItIs) {
  const Program f = [](std::span<const Array> x) { return Arrays{x[0], x[1] + 1.0f}; };
  const Compiled e = expect_right(f, kFresh, kFirst);
  const Arrays args = fresh();
  const void* const place = memory_of(args[0]);
  EXPECT_EQ(memory_of(execute(e, args, kFirst)[0]), place);
}

// ---- when it is worth it -------------------------------------------------------------------------
// Starts beyond the last one are the last one, of 64 bits without sign, too.
TEST(ArgumentUpdates, AtPlacesOfEveryIntegerType) {
  const auto at = [](const Array& x, const Array& u, const Array& start) {
    return lax::dynamic_update_slice(x, u, Arrays{start, lax::scalar(1.0, start.dtype())});
  };
  const Program f = [&](std::span<const Array> x) {
    return Arrays{
        fori_loop(0, 2, [&](const Array&, const Array& y) { return at(y, x[1], x[2]); }, x[0])};
  };
  const Arrays inputs = {uniform({40, 30}, DType::f32), uniform({3, 7}, DType::f32)};
  for (const DType t : {DType::i8, DType::i32, DType::i64, DType::u8, DType::u32, DType::u64}) {
    for (const Array& start : {lax::full({}, t, 5), ~lax::full({}, t, 0), ~lax::full({}, t, 9)})
      check(f, {inputs[0], inputs[1], start});
  }
}

// Each number is made of those that were written before: in a copy, or in what was computed, rather than by a pass over
// the array for each.
TEST(ArgumentUpdates, ThatReadWhatWasWrittenAreMadeInACopy) {
  const auto recurrence = [](int n, bool computed, bool named) -> Program {
    return [=](std::span<const Array> x) {
      const Array first = computed ? x[0] * x[0] : x[0];
      Array y = first;
      for (int i = 1; i <= n; ++i) y = y.at(i).set(y(i - 1) * 0.5 + y(-i));
      if (named) y = y.at(0).set(max(lax::reshape(first, {2, first.size() / 2}) * 2.0));
      return Arrays{y};
    };
  };
  const Arrays inputs = {uniform({5000}, DType::f64)};
  for (const int n : {1, 3, 20}) {
    for (const bool computed : {false, true}) {
      const std::string plan = check(recurrence(n, computed, false), inputs)->text("plan");
      EXPECT_EQ(plan.find("copy reads") != std::string::npos, n > 1 && !computed) << plan;
      EXPECT_EQ(plan.find("kernel update") != std::string::npos, n > 1) << plan;
      check(recurrence(n, computed, true), inputs);
      check(recurrence(n, computed, true), {uniform({50}, DType::f64)});
      const auto read_on = [&](std::span<const Array> x) {
        const Array y = recurrence(n, computed, false)(x)[0];
        return Arrays{sin(y), max(y * y)};
      };
      EXPECT_EQ(check(read_on, inputs)->text("plan").find("kernel update") != std::string::npos,
                n > 1);
    }
  }
}

// What others read first is written over where it was computed; what they read later, or what is returned, is not.
TEST(ArgumentUpdates, OfWhatOthersHaveReadAreInPlace) {
  enum class Reads { before, after, returned };
  for (const Reads reads : {Reads::before, Reads::after, Reads::returned}) {
    const auto f = [reads](std::span<const Array> x) {
      const Array y = x[0] * x[1];
      const Array column = y(slice(), 3), next = y.at(slice(), x[2]).set(column * 0.5);
      if (reads == Reads::before) return Arrays{next};
      return reads == Reads::after ? Arrays{next, max(y + next)} : Arrays{next, y};
    };
    const Arrays inputs = {uniform({300, 200}, DType::f32), uniform({300, 1}, DType::f32),
                           Array(7)};
    const Compiled e = check(f, inputs);
    const std::int64_t bytes = 300 * 200 * 4;
    const auto arena = static_cast<std::int64_t>(e->info().arena_bytes);
    EXPECT_EQ(arena < bytes, reads != Reads::after) << e->text("plan");
  }
}

TEST(ArgumentUpdates, OfMostOfAnArrayAreMadeInOnePass) {
  const Compiled e = expect_right(
      [](std::span<const Array> x) {
        return Arrays{x[0].at(slice(0, kSize - 1)).set(x[0](slice(1, kSize)) * x[1](0))};
      },
      kFresh, kFirst);
  EXPECT_EQ(e->info().kernels, 1);
}

TEST(ArgumentUpdates, OfSmallArraysAreMadeInOnePass) {
  const Compiled e = expect_right(
      [](std::span<const Array> x) { return Arrays{x[0].at(3).set(x[1](0)).at(7).add(x[1](1))}; },
      [] { return fresh(DType::f32, {100}); }, kFirst);
  EXPECT_EQ(e->info().kernels, 1);
}

TEST(ArgumentUpdates, AreForThoseWhoSayWhatTheyDonate) {
  const Jaxpr jaxpr = stage(
      [](std::span<const Array> x) { return Arrays{x[0].at(3).set(x[1](0)).at(4).add(x[1](1))}; },
      fresh());
  for (const CompileOptions& options :
       {CompileOptions{},
        {.donated = std::vector<bool>()},
        {.donated = {{false, true, false}}},
        {.disabled = {"update_in_place"}, .donated = {{true, false, false}}}}) {
    const std::string plan = compile(jaxpr, options)->text("plan");
    EXPECT_THAT(plan, Not(HasSubstr("kernel update")));
    EXPECT_THAT(plan, Not(HasSubstr("copy reads")));
  }
  const Compiled e =
      compile(jaxpr, {.disabled = {"padded_sums"}, .donated = {{true, false, false}}});
  EXPECT_THAT(e->text("plan"), Not(HasSubstr("kernel update")));
}

// Branches within branches: whoever looked at each of them twice would never come to an end.
TEST(ArgumentUpdates, InBranchesNestedDeep) {
  std::function<Array(int, const Array&, const Array&)> nested = [&](int depth, const Array& x,
                                                                     const Array& v) -> Array {
    if (depth == 0) return x + lax::pad(v, -0.0F, {{3, kSize - 7, 0}});
    return cond(
        v(0) > static_cast<float>(depth),
        [&](const Array& a, const Array& b) { return nested(depth - 1, a, b - 1); },
        [](const Array& a, const Array&) { return a; }, x, v);
  };
  for (const int depth : {1, 3, 60}) {
    const Program f = program(
        [&](const Array& x, const Array& v, const Array&) { return nested(depth, x, v + 100); });
    const Compiled e = compiled(f, fresh(), {true, false, false});
    const Array got = execute(e, fresh(), {true, false, false})[0];
    expect_same(got, f(fresh())[0], std::to_string(depth));
    EXPECT_THAT(e->text("jaxpr"), HasSubstr("dynamic_update_slice")) << depth;
  }
}

// ---- calls that throw ----------------------------------------------------------------------------
TEST(ArgumentUpdates, AreUndoneWhereTheCallThrowsBefore) {
  for (const bool late : {false, true}) {
    const auto f = jit(
        [late](Array x, Array v) {
          if (!late) check(v(0) > 0.0f, "got {}", v(0));
          const Array y = x.at(3).set(v(0)).at(places({1, 2})).add(v(1));
          if (late) check(y(3) > 0.0f, "got {}", y(3));
          return y;
        },
        {.donate = {0}, .name = "step"});
    const Array x = ones({kSize}) * 5.0f;
    EXPECT_THROW(f(x, ones({4}) * -1.0f), CheckError);
    if (late) EXPECT_THROW((void)x.to_vector<float>(), DonatedBufferError);
    else EXPECT_TRUE(all(x == 5.0f).item<bool>());
    const Array fine = ones({kSize}) * 5.0f;
    EXPECT_EQ(f(fine, ones({4}))(3).item<float>(), 1.0f);
  }
}

// ---- random programs -----------------------------------------------------------------------------
/// Updates of two arrays in any order, of what was read of any of them at any time.
class RandomUpdates {
 public:
  RandomUpdates(unsigned seed, std::int64_t n) : seed_(seed), n_(n) {}

  Arrays inputs() const {
    return {uniform({n_}, DType::f32, -1, 1, seed_), uniform({n_}, DType::f32, -1, 1, seed_ + 1),
            uniform({4}, DType::f32, -1, 1, seed_ + 2),
            lax::convert_element_type(
                uniform({4}, DType::f64, -static_cast<double>(n_), static_cast<double>(n_), seed_),
                DType::i32)};
  }
  Arrays operator()(std::span<const Array> in) {
    random_.seed(seed_);
    Arrays now(in.begin(), in.begin() + 2), olds = now, others;
    const Array &v = in[2], &p = in[3];
    for (std::size_t steps = 1 + below(6); steps > 0; --steps) {
      Array& x = now[below(2)];
      const Array from = below(2) == 0 ? x : olds[below(olds.size())];
      x = step(x, from, v, p);
      if (below(3) == 0) olds.push_back(x);
      if (below(4) == 0) others.push_back(other(olds[below(olds.size())]));
      if (below(9) == 0) check(x(static_cast<std::int64_t>(below(4))) < 0.9f, "too much");
    }
    Arrays out = {now[0]};
    if (below(3) > 0) out.push_back(now[1]);
    if (below(6) == 0) out.push_back(olds[below(olds.size())]);
    out.insert(out.end(), others.begin(), others.end());
    std::shuffle(out.begin(), out.end(), random_);
    return out;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Array other(const Array& x) {
    switch (below(4)) {
      case 0: return max(x);
      case 1: return x * 0.5f;
      case 2: return lax::rev(x, {0});
      default: return x(static_cast<std::int64_t>(below(4)));
    }
  }
  Array step(const Array& x, const Array& from, const Array& v, const Array& p) {
    const auto a = static_cast<std::int64_t>(below(6)), b = static_cast<std::int64_t>(below(6));
    const auto part = slice(a, a + 4);
    switch (below(15)) {
      case 0: return x.at(a).set(v(0));
      case 1: return x.at(a).add(from(b));
      case 2: return x.at(part).set(from(slice(b, b + 4)));
      case 3: return x.at(part).add(v);
      case 4: return x.at(p(0)).set(from(b));
      case 5: return x.at(p).add(v);
      case 6: return x.at(p).add(from(p));
      case 7: return x.at(p(1)).multiply(0.5f);
      case 8:
        return lax::dynamic_update_slice(x, lax::dynamic_slice(from, Arrays{p(2)}, {5}),
                                         Arrays{p(2) + 1});
      case 9:
        return fori_loop(
            0, 3 + a, [&](Array i, Array y) { return y.at(i + 1).set(y(i) * 0.5f + v(1)); }, x);
      case 10:
        return cond(
            from(b) > 0.0f, [&](Array y) { return y.at(a).set(v(2)); }, [](Array y) { return y; },
            x);
      case 11:
        return cond(
            from(a) > 0.0f, [&](Array y) { return y.at(p).add(v); },
            [&](Array y) { return y.at(a).add(y(b)); }, x);
      case 12: return x.at(slice(0, n_ - 1)).set(from(slice(1, n_)));
      case 13: return fori_loop(0, 2, [&](Array i, Array y) { return y.at(p(i)).add(v(i)); }, x);
      default: return x + 0.25f * from;
    }
  }

  unsigned seed_;
  std::int64_t n_;
  std::mt19937 random_;
};

std::optional<Arrays> unless_it_throws(const std::function<Arrays()>& f) {
  try {
    return f();
  } catch (const CheckError&) { return std::nullopt; }
}

void expect_random_updates_right(unsigned first, unsigned last) {
  int taken = 0, thrown = 0;
  for (unsigned seed = first; seed < last; ++seed) {
    RandomUpdates f(seed, seed % 4 == 0 ? 12 : seed % 4 == 1 ? 5000 : 1100);
    const auto want = unless_it_throws([&] { return f(f.inputs()); });
    for (const std::vector<bool>& may : {std::vector{true, false, false, false},
                                         {false, true, false, false},
                                         {true, true, false, false}}) {
      const Compiled e = compiled([&](std::span<const Array> x) { return f(x); }, f.inputs(), may);
      for (const std::vector<bool>& donated : {may, std::vector<bool>(4, false)}) {
        const Arrays args = f.inputs();
        const auto got = unless_it_throws([&] { return execute(e, args, donated); });
        const std::string what =
            "seed " + std::to_string(seed) + "\n" + e->text("jaxpr") + e->text("plan");
        ASSERT_EQ(got.has_value(), want.has_value()) << what;
        for (std::size_t i = 0; want && i < want->size(); ++i)
          expect_equal((*got)[i], (*want)[i], 0, "result " + std::to_string(i) + " of " + what);
        for (std::size_t a = 0; a < args.size(); ++a) {
          if (was_taken(args[a])) ASSERT_TRUE(donated[a]) << what;
          else expect_equal(args[a], f.inputs()[a], 0, "argument of " + what);
          taken += was_taken(args[a]) ? 1 : 0;
        }
        thrown += got ? 0 : 1;
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(taken, static_cast<int>(last - first) / 2);
  EXPECT_GT(thrown, 0);
}

TEST(ArgumentUpdates, OfRandomProgramsChangeNothing) { expect_random_updates_right(0, 100); }
TEST(ArgumentUpdates, LONG_OfRandomProgramsChangeNothing) {
  expect_random_updates_right(1000, 5000);
}

}  // namespace
}  // namespace telamon::testing
