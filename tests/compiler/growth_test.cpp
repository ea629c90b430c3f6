// Programs of many operands, kernels or results: what is made of one that is four times as long is at most about
// four times as much. Counted in instructions, kernels and steps, not in time.
#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

Arrays many(int n, const Shape& shape, DType dtype = DType::f32) {
  Arrays out;
  for (int i = 0; i < n; ++i)
    out.push_back(uniform(shape, dtype, -1, 1, static_cast<unsigned>(i + 1)));
  return out;
}

std::int64_t lines(const Compiled& f, const char* stage) {
  const std::string text = f->text(stage);
  return std::count(text.begin(), text.end(), '\n');
}

CompileOptions without(const char* word) {
  return {.contract = false, .name = word, .disabled = {word}};
}

// ---- many parts ------------------------------------------------------------------------------------

Program joined(std::int64_t axis) {
  return [=](std::span<const Array> x) { return Arrays{lax::concatenate(x, axis)}; };
}

TEST(Growth, ManyPartsAreCopiedByACall) {
  const Compiled few = check(joined(0), many(100, {3}), 0),
                 more = check(joined(0), many(400, {3}), 0);
  EXPECT_EQ(few->info().library_calls, 1);
  EXPECT_EQ(lines(few, "ir"), lines(more, "ir"));
  const Compiled code = check(joined(0), many(100, {3}), 1, 0, without("join_parts"));
  EXPECT_GT(lines(code, "ir"), 3 * lines(few, "ir"));
}

TEST(Growth, PartsHaveAnyShapeAndType) {
  for (const DType dtype : {DType::f64, DType::i32, DType::u8, DType::bool_}) {
    check(joined(0), many(40, {3, 2}, dtype), 0);
    check(joined(1), many(40, {3, 2}, dtype), 0);
    check(joined(1), many(40, {4, 3, 2}, dtype), 0);
  }
  Arrays unequal;
  for (std::int64_t i = 0; i < 50; ++i) unequal.push_back(uniform({2, i % 4}, DType::f32));
  check(joined(1), unequal, 0);
  check(joined(0), many(40, {0, 2}), -1);
  check(joined(0), many(40, {3, 0}), -1);
  check(joined(1), many(40, {300, 50}), 0);  // by several threads
}

TEST(Growth, SingleElementsAreCopiedWhereTheyAreMore) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{stack(Arrays(x.begin(), x.end()))};
  };
  EXPECT_EQ(check(f, many(60, {}), 1)->info().library_calls, 0);
  EXPECT_EQ(check(f, many(200, {}), 0)->info().library_calls, 1);
}

TEST(Growth, PartsAreComputedBefore) {
  const Program f = [](std::span<const Array> x) {
    Arrays parts;
    for (const Array& a : x) parts.push_back(lax::sin(a));
    parts.push_back(lax::full({8}, DType::f32, 0.5));
    parts.push_back(parts.front());
    const Array all = lax::concatenate(parts, 0);
    return Arrays{lax::exp(all), lax::reduce_max(all, {0}), all};
  };
  check(f, many(60, {8}));
}

TEST(Growth, PartsMayComeFromWithinALoop) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{fori_loop(
        0, 5,
        [](const Array& i, const Array& c) {
          Arrays parts;
          for (int k = 0; k < 48; ++k) parts.push_back(c(slice(2 * k, 2 * k + 2)) * (1 + i));
          std::reverse(parts.begin(), parts.end());
          return concatenate(parts) * 0.5f;
        },
        x[0])};
  };
  check(f, {uniform({96}, DType::f32)});
}

TEST(Growth, PartsHaveDerivatives) {
  const Program f = [](std::span<const Array> x) {
    const auto total = [](const Arrays& parts) { return sum(sin(concatenate(parts))); };
    return grad(total)(Arrays(x.begin(), x.end()));
  };
  check(f, many(64, {5}), -1, 2);
}

// ---- many operands ---------------------------------------------------------------------------------

// Of the functions in a program's IR.
std::int64_t longest_function(const Compiled& f) {
  std::istringstream text(f->text("ir"));
  std::int64_t longest = 0, length = 0;
  for (std::string line; std::getline(text, line); ++length) {
    if (line.starts_with("define")) length = 0;
    if (line == "}") longest = std::max(longest, length);
  }
  return longest;
}

/// Each operation takes one more operand; some of them are conditions, integers, or in memory of the program.
Arrays mixed(std::span<const Array> x) {
  Array y = lax::sin(x[0]);
  for (std::size_t i = 1; i < x.size(); ++i) {
    const Array& a = x[i];
    if (a.dtype() == DType::bool_) y = lax::select_n(a, Arrays{y, lax::neg(y)});
    else if (a.dtype() == DType::i32) y = lax::add(y, lax::convert_element_type(a, y.dtype()));
    else if (i % 3 == 0) y = lax::mul(y, lax::sin(a));
    else y = lax::sub(a, y);
  }
  return {y};
}
Arrays mixed_operands(int n, const Shape& shape) {
  Arrays out = many(n, shape);
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (i % 5 == 1) out[i] = lax::gt(out[i], lax::full_like(out[i], 0));
    if (i % 5 == 2)
      out[i] = lax::convert_element_type(lax::mul(out[i], lax::full_like(out[i], 9)), DType::i32);
  }
  return out;
}

TEST(Growth, ManyOperandsAreReadInALoop) {
  const Program sum = [](std::span<const Array> x) {
    Array y = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) y = lax::add(y, x[i]);
    return Arrays{y};
  };
  for (const Shape& shape : {Shape{}, Shape{64}}) {
    const Compiled few = check(sum, many(320, shape), 1), more = check(sum, many(960, shape), 1);
    EXPECT_LT(longest_function(more), longest_function(few) * 5 / 4);
  }
}

TEST(Growth, ManyOperandsAreOfAnyKind) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 21}, Shape{1000}, Shape{50'003}})
    check(mixed, mixed_operands(300, shape), 1);
}

TEST(Growth, ManyNumbersAreReadInALoop) {
  const auto program = [](DType dtype) -> Program {
    return [=](std::span<const Array> x) {
      Array y = x[0];
      for (std::size_t i = 1; i < x.size(); ++i) {
        const Array number = lax::convert_element_type(x[i], dtype);
        y = lax::add(lax::sin(y), lax::broadcast_in_dim(number, y.shape(), {}));
      }
      return Arrays{y};
    };
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto inputs = [&](int n) {
      Arrays out = many(n, {}, DType::f32);
      out[0] = uniform({200}, dtype);
      return out;
    };
    const Compiled few = check(program(dtype), inputs(161)),
                   more = check(program(dtype), inputs(241));
    if (dtype == DType::f32) EXPECT_LT(longest_function(more), longest_function(few) * 5 / 4);
  }
}

TEST(Growth, ManyOperandsMayBeIntermediateValues) {
  const Program f = [](std::span<const Array> x) {
    Arrays sorted;
    for (const Array& a : x) sorted.push_back(lax::sort(a, 0));
    return mixed(sorted);
  };
  check(f, many(150, {37}));
  // Within a loop they are views of rows, and its chunks have slices of memory.
  const Program rows = [](std::span<const Array> x) {
    const auto row = [](const Arrays& a) {
      Arrays all;
      for (std::size_t i = 0; i < a.size(); ++i)
        all.push_back(i % 2 == 0 ? lax::sort(a[i], 0) : a[i]);
      return mixed(all)[0];
    };
    return Arrays{map(row, Arrays(x.begin(), x.end()))};
  };
  check(rows, many(60, {100, 40}));
  check(rows, many(60, {3, 40}));
}

TEST(Growth, KernelsOfLongChainsAreFoundInTime) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 1000; ++i) y = sin(y) * 0.5f + sum(y) * 0.01f;
    return Arrays{y};
  };
  check(f, {uniform({16}, DType::f32)}, 1001, 1e3);
}

// So many that to ask each what it is made of, one within the other, would take more than the stack.
TEST(Growth, NumbersOfVeryLongChainsFollowAFold) {
  const Program f = [](std::span<const Array> x) {
    Array y = lax::reduce_sum(lax::sin(x[0]), {0});
    for (int i = 0; i < 15'000; ++i) y = lax::add(lax::mul(y, x[1]), x[1]);
    return Arrays{y};
  };
  check(f, {uniform({4096}, DType::f32), uniform({}, DType::f32)});
}

// Columns that are all kept in registers are followed by what is computed of them, vector by vector: not where that is much.
TEST(Growth, WhatFollowsFoldsOfColumnsIsWrittenOnce) {
  const auto followed = [](int steps) {
    return [=](std::span<const Array> x) {
      Array y = lax::reduce_max(lax::mul(x[0], x[0]), {0});
      for (int i = 0; i < steps; ++i) y = lax::add(lax::mul(y, x[1]), x[2]);
      return Arrays{y};
    };
  };
  const auto code = [&](int steps, std::int64_t columns) {
    const Arrays inputs{uniform({64, columns}, DType::f32, -1, 1),
                        uniform({columns}, DType::f32, -1, 1),
                        uniform({columns}, DType::f32, -1, 1)};
    return lines(check(followed(steps), inputs), "ir");
  };
  for (const std::int64_t columns : {20, 60, 100, 128}) {
    for (const int steps : {1, 2, 5, 12}) code(steps, columns);
    EXPECT_LT(code(200, columns), 3 * code(200, 400)) << columns;
  }
}

// Short rows are written out, but not where numbers are looked up one by one many times.
TEST(Growth, ManyLookUpsInRowsAreALoop) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 30; ++i) y = take(y, x[1]) + 1.0f;
    return Arrays{y};
  };
  const auto code = [&](std::int64_t n) {
    return lines(check(f, {uniform({n}, DType::f32), uniform({n}, DType::i32, 0, 9)}, 1), "ir");
  };
  EXPECT_LT(code(64), 2 * code(16));
}

// Rows of nine columns each: a kernel puts a few of them together.
TEST(Growth, ManyColumnsArePutTogetherByKernelsOfAFew) {
  const auto program = [](std::int64_t n) -> Program {
    return [n](std::span<const Array> x) {
      Arrays all;
      for (std::int64_t i = 0; i < n; ++i) {
        const Array t = x[0](slice(), i), c = cos(t), s = sin(t);
        all.push_back(stack({c, -s, t, s, c, s, c, c, t}, 1));
      }
      return all;
    };
  };
  const auto code = [&](std::int64_t n) {
    return longest_function(check(program(n), {uniform({50, 40}, DType::f32)}, -1, 1));
  };
  EXPECT_LT(code(40), code(5) * 5 / 4);
}

// Chains that leave most values in memory, with updates of what only they read: planning asks for each of them
// who else does.
TEST(Growth, ProgramsOfManyStepsAreFunctionsOfFew) {
  const auto program = [](int n) -> Program {
    return [n](std::span<const Array> x) {
      Array y = x[0];
      for (int i = 0; i < n; ++i) {
        y = y.at(i % 16).set(lax::sin(y(i % 7)));
        if (i % 50 == 0) y = y * tanh(matmul(y, x[1]));
        if (i % 50 == 25)
          y = fori_loop(0, i % 3, [](const Array&, const Array& c) { return sort(c); }, y);
      }
      return Arrays{y, y(0) + y(1)};
    };
  };
  const Arrays x{uniform({64}, DType::f64), uniform({64, 64}, DType::f64, -.1, .1)};
  const Compiled some = check(program(400), x, -1, 1e3), many = check(program(1600), x, -1, 1e3);
  EXPECT_LT(longest_function(many), longest_function(some) * 5 / 4);
}

// Each of the transposes has most of the program before it.
TEST(Growth, ManyTransposesAreEachLookedAtForAWhile) {
  const Program f = [](std::span<const Array> x) {
    Array y = lax::sin(x[0]), sum = lax::transpose(y, {1, 0});
    for (int i = 0; i < 1500; ++i) {
      y = lax::neg(lax::add(y, x[0]));
      sum = lax::sub(lax::transpose(y, {1, 0}), sum);
    }
    return Arrays{sum};
  };
  check(f, {uniform({3, 4}, DType::f64)});
}

// What each step chooses depends on the one before.
TEST(Growth, ManyExtremesAreFoundInOneWalk) {
  const auto program = [](int steps) -> Program {
    return [steps](std::span<const Array> x) {
      Array c = x[0];
      for (int i = 0; i < steps; ++i) {
        const auto reach = [&](const Array& y) { return sum(max(matmul(x[1], y.T()), 1)); };
        c = c - 0.01 * grad(reach)(c);
      }
      return Arrays{c};
    };
  };
  const Arrays x{uniform({40, 4}, DType::f64), uniform({200, 4}, DType::f64)};
  const auto length = [&](int steps) {
    return lines(compile(stage(program(steps), x), {.keep_programs = true}), "chosen_sums");
  };
  const std::int64_t few = length(50);
  EXPECT_GT(few, 50 * 40);
  EXPECT_LT(length(400), 8 * few * 5 / 4);
}

// ---- many values that loops carry, and that branches compute -------------------------------------------

// What is left of `all` for the next trip: each needs a step of its own, and half of them two buffers.
Arrays next_of(const Arrays& all) {
  Arrays out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Array& other = all[(i + 1) % all.size()];
    out.push_back(i % 2 == 0 ? lax::sort(lax::neg(other), 0)
                             : lax::add(all[i], lax::cumsum(other, 0)));
  }
  return out;
}
Program while_program(int most) {
  return [most](std::span<const Array> x) {
    const auto [count, all] =
        while_loop([most](const std::tuple<Array, Arrays>& s) { return std::get<0>(s) < most; },
                   [](const std::tuple<Array, Arrays>& s) {
                     return std::tuple(std::get<0>(s) + 1, next_of(std::get<1>(s)));
                   },
                   std::tuple(Array(0), Arrays(x.begin(), x.end())));
    return all;
  };
}
Program fori_program(int trips) {
  return [trips](std::span<const Array> x) {
    return fori_loop(
        0, trips, [](const Array&, const Arrays& all) { return next_of(all); },
        Arrays(x.begin(), x.end()));
  };
}
// The number of trips is known only when the program runs.
Program counted_program() {
  return [](std::span<const Array> x) {
    const Array trips = lax::convert_element_type(lax::reduce_max(x[0], {0}), DType::i32);
    return fori_loop(
        0, trips, [](const Array&, const Arrays& all) { return next_of(all); },
        Arrays(x.begin(), x.end()));
  };
}
Program branch_program() {
  return [](std::span<const Array> x) {
    return cond(
        x[0](0) > 0, [](const Arrays& all) { return next_of(all); },
        [](const Arrays& all) { return next_of(next_of(all)); }, Arrays(x.begin(), x.end()));
  };
}
Program scan_program() {
  return [](std::span<const Array> x) {
    const Arrays rows(x.begin(), x.end());
    Arrays first;
    for (const Array& r : rows) first.push_back(r(0));
    const auto [last, all] = scan(
        [](const Arrays& carry, const Arrays& row) {
          Arrays sums;
          for (std::size_t i = 0; i < carry.size(); ++i) sums.push_back(carry[i] * row[i]);
          const Arrays next = next_of(carry);
          return std::tuple(next, sums);
        },
        first, rows);
    Arrays out = last;
    out.insert(out.end(), all.begin(), all.end());
    return out;
  };
}

struct Carrying {
  std::string name;
  Program program;
  Shape shape = {3};
};
std::vector<Carrying> carrying() {
  return {{"while", while_program(3)},       {"while_even", while_program(4)},
          {"while_never", while_program(0)}, {"fori_odd", fori_program(3)},
          {"fori_even", fori_program(4)},    {"counted", counted_program()},
          {"branch", branch_program()},      {"scan", scan_program(), {4, 3}}};
}

TEST(Growth, LoopsAndBranchesOfManyValuesAreFunctionsOfFew) {
  for (const Carrying& c : carrying()) {
    SCOPED_TRACE(c.name);
    Arrays few, more;
    for (unsigned i = 0; i < 300; ++i) few.push_back(uniform(c.shape, DType::f64, -1, 3, i + 1));
    more = few;
    for (unsigned i = 300; i < 600; ++i) more.push_back(uniform(c.shape, DType::f64, -1, 3, i + 1));
    const Arrays some_of(few.begin(), few.begin() + 210);
    const Compiled some = check(c.program, few), many = check(c.program, more);
    EXPECT_LT(longest_function(many), longest_function(some) * 5 / 4);
    for (const char* word : {"entry_parts", "carry_tables"})
      check(c.program, some_of, -1, 1, without(word));
  }
}

TEST(Growth, LoopsOfManyValuesNest) {
  const Program f = [](std::span<const Array> x) {
    return fori_loop(
        0, 2,
        [](const Array& i, const Arrays& all) {
          return fori_loop(
              0, i + 1, [](const Array&, const Arrays& inner) { return next_of(inner); }, all);
        },
        Arrays(x.begin(), x.end()));
  };
  check(f, many(250, {3}, DType::f64));
}

// Chunks of the batch have slices of memory of their own.
TEST(Growth, LoopsOfManyValuesRunWithinChunks) {
  const Program f = [](std::span<const Array> x) {
    const auto row = [](const Arrays& all) {
      return while_loop([](const Arrays& s) { return sum(abs(s[0])) < 50; },
                        [](const Arrays& s) { return next_of(s); }, all);
    };
    return map(row, Arrays(x.begin(), x.end()));
  };
  Arrays x;
  for (unsigned i = 0; i < 250; ++i) x.push_back(uniform({64, 16}, DType::f64, 1, 2, i + 1));
  check(f, x, -1, 1e3);
}

const Primitive<> no_positives_p{
    "no_positives", [] {
      return Rules<>{
          .abstract_eval = [](const NoParams&,
                              std::span<const Aval> x) { return AbstractResult(x[0]); },
          .lower = call<NoParams>([](const NoParams&, std::span<const BufferView> in,
                                     std::span<const MutableBufferView> out) {
            for (std::int64_t i = 0; i < in[0].size(); ++i) {
              if (in[0].as<double>()[i] > 0) throw std::runtime_error("a positive number");
              out[0].as<double>()[i] = in[0].as<double>()[i];
            }
          }),
      };
    }};

TEST(Growth, WhatAStepThrowsEndsAllParts) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 500; ++i) y = i == 250 ? no_positives_p.bind1({}, {y}) : lax::sort(y, 0);
    return Arrays{y};
  };
  const Array well({-1.0, -2.0});
  const Compiled compiled = compile(stage(f, {well}));
  EXPECT_THROW(execute(compiled, {Array({-1.0, 2.0})}), std::runtime_error);
  EXPECT_EQ(execute(compiled, {well})[0].to_vector<double>(), (std::vector<double>{-2, -1}));
}

TEST(Growth, WhatAStepThrowsEndsTheLoopThatCarriesMuch) {
  const Program f = [](std::span<const Array> x) {
    return while_loop([](const Arrays& s) { return s[0](0) < 5; },
                      [](const Arrays& s) {
                        Arrays next = next_of(s);
                        next[0] = s[0] + 1;
                        next[250] = no_positives_p.bind1({}, {lax::sub(s[0], s[1])});
                        return next;
                      },
                      Arrays(x.begin(), x.end()));
  };
  Arrays x = many(300, {2}, DType::f64);
  x[0] = Array({-1.0, -1.0});
  x[1] = Array({100.0, 100.0});
  const Compiled compiled = compile(stage(f, x));
  Arrays bad = x;
  bad[1] = Array({0.0, 0.0});
  EXPECT_THROW(execute(compiled, bad), std::runtime_error);
  EXPECT_EQ(execute(compiled, x)[0].to_vector<double>(), (std::vector<double>{5, 5}));
}

// Kernels that do the same, in several functions each.
TEST(Growth, EqualSegmentsAreOneFunction) {
  const auto program = [](int n) -> Program {
    return [n](std::span<const Array> x) {
      Array y = x[0];
      for (int i = 0; i < n; ++i) {
        for (int k = 0; k < 150; ++k) y = lax::mul(lax::sin(y), k % 3 == 0 ? x[0] : y);
        y = lax::sort(y, 0);
      }
      return Arrays{y};
    };
  };
  const Arrays x{uniform({500}, DType::f32)};
  const Compiled few = check(program(2), x, -1, 1e3), more = check(program(8), x, -1, 1e3);
  EXPECT_LT(lines(more, "ir"), lines(few, "ir") * 5 / 4);
}

TEST(Growth, EqualCallsOfNativeKernelsAreOneFunction) {
  const auto sums = [](int n) -> Program {
    return [n](std::span<const Array> x) {
      Array y = x[0];
      for (int i = 0; i < n; ++i) y = lax::sin(lax::cumsum(y, 0));
      return Arrays{y};
    };
  };
  const Arrays x{uniform({300}, DType::f32)};
  const auto functions = [](const Compiled& f) {
    const std::string text = f->text("ir");
    std::int64_t n = 0;
    for (std::size_t at = text.find("define "); at != std::string::npos;
         at = text.find("define ", at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(functions(check(sums(50), x, -1, 1e3)), functions(check(sums(95), x, -1, 1e3)));
}

}  // namespace
}  // namespace telamon::testing
