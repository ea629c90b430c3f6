// What depends on nothing that a call brings is computed while compiling.
#include <gmock/gmock.h>

#include "compiler/passes/passes.hpp"
#include "compiler/support.hpp"
#include "support/disk_cache.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/debug.hpp"
#include "telamon/jit.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Array column(DType dtype = DType::f32, unsigned seed = 1) {
  return uniform({100}, dtype, -2, 2, seed);
}

/// What is left of f, jitted with what it has captured; called twice it gives the bits that it gives eagerly.
template <class F> std::string left(const F& f, const Array& x) {
  const auto jitted = jit(f);
  for (int call = 0; call < 2; ++call) expect_equal(jitted(x), f(x), 0, "call");
  return jitted.lower(x).compile().text("jaxpr");
}

TEST(FoldConstants, CapturedArraysAreWorkedOnOnce) {
  const Array c = column(), d = column(DType::f32, 2);
  const std::string text = left(
      [=](const Array& x) { return x * exp(c) + sum(sin(d) * c) + lax::sort(d, 0); }, column());
  for (const char* gone : {"exp", "sin", "reduce_sum", "sort"})
    EXPECT_THAT(text, Not(HasSubstr(gone)));
  EXPECT_THAT(left([=](const Array& x) { return x + (c * 2.0f - d); }, column()),
              Not(HasSubstr("sub")));
}

TEST(FoldConstants, WhatIsAsSoonComputedAsReadStays) {
  const auto mask = [](const Array& x) {
    const Array i = lax::iota(DType::i32, x.shape(), 0);
    return lax::select(lax::lt(i * 2, lax::full_like(i, 30)), x, -x);
  };
  EXPECT_THAT(left(mask, column()), HasSubstr("iota"));
  // Rows are repeated where they are read.
  const Array c = column();
  const std::string text =
      left([=](const Array& x) { return x + broadcast_to(exp(c), {20, 100}) * 2.0f; }, column());
  EXPECT_THAT(text, AllOf(Not(HasSubstr("exp")), HasSubstr("broadcast_in_dim")));
}

TEST(FoldConstants, NumbersOfTheProgramAreLiterals) {
  const Jaxpr program = parse_jaxpr(
      "{ lambda a:f32[] . let b:f32[6] = iota [ dimension=0 dtype=f32 shape=(6,) ]\n"
      "c:f32[6] = exp b\n d:f32[] = reduce_sum [ axes=(0,) ] c\n e:f32[] = add a d in ( e ) }");
  const auto [folded, values] = compiler::fold_constants(program, {}, 0);
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(folded.eqns().size(), 1u);
  const Arrays x = {lax::full({}, DType::f32, 0.5)};
  expect_equal(eval_jaxpr(folded, x)[0], eval_jaxpr(program, x)[0], 0, folded.to_string());
}

TEST(FoldConstants, ConstantsComeAmongTheInputs) {
  const Jaxpr program = parse_jaxpr(
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = exp a\n d:f32[3] = add b c in ( d, c ) }");
  const Arrays x = {uniform({3}, DType::f32), uniform({3}, DType::f32, -1, 1, 2)};
  const auto [folded, values] = compiler::fold_constants(program, {x[0]}, 0);
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(folded.num_inputs(), 3);
  EXPECT_EQ(folded.eqns().size(), 1u);
  const Arrays got = eval_jaxpr(folded, Arrays{values[0], x[0], x[1]}),
               want = eval_jaxpr(program, x);
  for (std::size_t i = 0; i < want.size(); ++i) expect_equal(got[i], want[i], 0, "result");
}

TEST(FoldConstants, MuchWorkAndLargeArraysStay) {
  const auto compiled = [](const auto& f) {
    return jit(f).lower(column()).compile().text("jaxpr");
  };
  const Array large = uniform({1 << 15}, DType::f32), matrix = uniform({120, 120}, DType::f32);
  EXPECT_THAT(compiled([=](const Array& x) { return x + sum(exp(large)); }), HasSubstr("exp"));
  const auto products = [=](int count) {
    return [=](const Array& x) {
      Array y = matrix;
      for (int i = 0; i < count; ++i) y = matmul(matrix, y);
      return x + sum(y);
    };
  };
  EXPECT_THAT(compiled(products(1)), Not(HasSubstr("dot_general")));
  EXPECT_THAT(compiled(products(5)), HasSubstr("dot_general"));
}

TEST(FoldConstants, BarriersKeepWhatIsBehindThem) {
  const Array c = column();
  EXPECT_THAT(left([=](const Array& x) { return x + exp(optimization_barrier(c)); }, column()),
              HasSubstr("exp"));
}

TEST(FoldConstants, OfRandomBitsAreTheSameBits) {
  const auto noisy = [](const Array& x) {
    return x + random::uniform(random::key(7), x.shape(), DType::f32);
  };
  EXPECT_THAT(left(noisy, column()), Not(HasSubstr("threefry")));
}

TEST(FoldConstants, NansAreFoundWhereTheyAppear) {
  const Array c = column();
  const auto f = jit([=](const Array& x) { return x + log(c); });
  f(column());
  const DebugNans on;
  try {
    f(column());
    ADD_FAILURE() << "no error";
  } catch (const FloatingPointError& e) { EXPECT_THAT(e.what(), HasSubstr("log")); }
}

// The same program, of which only what is captured differs, is found on disk: each has its own constants.
TEST(FoldConstants, AreNoPartOfWhatIsStored) {
  const CacheFolder folder;
  const CacheChanges changes;
  for (const unsigned seed : {1, 2, 3}) {
    const Array c = column(DType::f32, seed);
    const auto f = [=](const Array& x) { return x * exp(c) + sum(sin(c)); };
    expect_equal(jit(f)(column()), f(column()), 0, "result");
  }
  EXPECT_EQ(changes().stores, 1);
  EXPECT_EQ(changes().hits, 2);
}

TEST(FoldConstants, LeaveDonatedArgumentsInTheirPlace) {
  const Array c = column();
  const auto f = [=](const Array& x) { return x * exp(c); };
  JitOptions options;
  options.donate = {0};
  const auto donating = jit(f, options);
  const Array want = f(column());
  expect_equal(donating(column()), want, 0, "result");
}

/// The equations of the programs within a program.
std::size_t equations_within(const Jaxpr& jaxpr) {
  std::size_t n = 0;
  for (const Eqn& e : jaxpr.eqns()) {
    for (const Jaxpr& body : e.params.jaxprs()) n += body.eqns().size() + equations_within(body);
  }
  return n;
}
/// f(x) where c is known: how many equations are left within loops and branches. The results stay what they are.
template <class F> std::size_t left_within(const F& f, const Array& c, const Array& x) {
  const Jaxpr program = compiler::lower(make_jaxpr(f)(c, x).jaxpr).jaxpr;
  const auto [folded, values] = compiler::fold_constants(program, {c}, 0);
  Arrays inputs = values;
  inputs.insert(inputs.end(), {c, x});
  const Arrays got = eval_jaxpr(folded, inputs), want = eval_jaxpr(program, Arrays{c, x});
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_equal(got[i], want[i], 0, folded.to_string());
  const auto jitted = jit([&](const Array& x) { return f(c, x); });
  expect_equal(jitted(x), f(c, x), 0, "jitted");
  return equations_within(folded);
}

// What an exporter leaves of a choice between platforms: the branch that is taken, and nothing of the others.
TEST(Simplify, TakesTheBranchOfAKnownIndex) {
  for (const int index : {-3, 0, 1, 2, 7}) {
    const auto f = [index](const Array& x) {
      const Array y =
          switch_(Array(index),
                  std::tuple{[](Array a) { return sin(a); }, [](Array a) { return cos(a); },
                             [](Array a) { return exp(a) * a; }},
                  x);
      return y * y - y;
    };
    const auto jitted = jit(f);
    const std::string program = jitted.lower(column()).compile().text("jaxpr");
    EXPECT_EQ(program.find("cond"), std::string::npos) << program;
    EXPECT_EQ(program.find(index <= 0   ? "sin"
                           : index == 1 ? "cos"
                                        : "exp") != std::string::npos,
              true)
        << program;
    expect_equal(jitted(column()), f(column()), 0, "result");
  }
}

TEST(FoldConstants, WithinLoops) {
  const auto trips = [](const Array& c, const Array& x) {
    const auto step = [&](const Array& y, const Array& row) {
      const Array next = (y + exp(sin(c))) * row;
      return std::pair{next, next};
    };
    return scan(step, x, arange(1.0f, 4.0f)).first;
  };
  EXPECT_EQ(left_within(trips, column(), column()), 3u);  // add, broadcast_in_dim, mul
  const auto until = [](const Array& c, const Array& x) {
    return while_loop([&](const Array& y) { return sum(y * cos(c)) < 100.0f; },
                      [&](const Array& y) { return y + abs(sin(c)) + 1.0f; }, x);
  };
  EXPECT_EQ(left_within(until, column(), column()), 3u + 3u);
}

TEST(FoldConstants, WithinBranchesThatHaveConstantsOfTheirOwn) {
  const auto either = [](const Array& c, const Array& x) {
    return cond(
        sum(x) > 0.0f, [&](const Array& y) { return y * exp(c) + sin(c); },
        [&](const Array& y) { return y - cos(c); }, x);
  };
  EXPECT_EQ(left_within(either, column(), column()), 3u);
  EXPECT_EQ(left_within(either, column(), -column()), 3u);
}

TEST(FoldConstants, WithinLoopsWithinLoops) {
  const auto nested = [](const Array& c, const Array& x) {
    const auto inner = [&](const Array&, const Array& y) { return y * exp(c); };
    const auto outer = [&](const Array&, const Array& y) {
      return fori_loop(0, 2, inner, y) + sin(c);
    };
    return fori_loop(0, 3, outer, x);
  };
  EXPECT_EQ(left_within(nested, column(), column()), 3u);  // scan, add; mul
}

TEST(FoldConstants, WithinLoopsOfNoTripsAndBranchesThatAreNotTaken) {
  const auto never = [](const Array& c, const Array& x) {
    const Array y = fori_loop(0, 0, [&](const Array&, const Array& y) { return y / log(c); }, x);
    return cond(
        sum(y) > 1e9f, [&](const Array& y) { return y + log(c); }, [](const Array& y) { return y; },
        y);
  };
  left_within(never, column(), column());
}

TEST(FoldConstants, MuchWorkWithinLoopsStays) {
  const Array matrix = uniform({120, 120}, DType::f32);
  const auto products = [](int count) {
    return [count](const Array& c, const Array& x) {
      return fori_loop(
          0, 2,
          [&](const Array&, const Array& y) {
            Array z = c;
            for (int i = 0; i < count; ++i) z = matmul(c, z);
            return y + z;
          },
          x);
    };
  };
  const auto left_of = [&](int count) {
    return equations_within(
        compiler::fold_constants(
            compiler::lower(make_jaxpr(products(count))(matrix, matrix).jaxpr).jaxpr, {matrix}, 0)
            .jaxpr);
  };
  EXPECT_EQ(left_of(1), 1u);
  EXPECT_EQ(left_of(5), 4u);  // two products are within the budget
}

TEST(FoldConstants, WithinDerivativesAndBatches) {
  const Array c = column();
  const auto f = [=](const Array& x) { return sum(sin(x * exp(c))); };
  const auto jitted = jit(f);
  jitted(column());
  expect_equal(jit(grad(jitted))(column()), grad(f)(column()), 4, "gradient");
  const Array rows = uniform({3, 100}, DType::f32);
  expect_equal(jit(vmap(jitted))(rows), vmap(f)(rows), 64, "batch");
}

}  // namespace
}  // namespace telamon::testing
