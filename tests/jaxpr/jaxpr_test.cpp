// Jaxprs as values: construction by the builder, equality up to renaming, hashes, memos, evaluation.
#include "telamon/jaxpr.hpp"
#include "jaxpr/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/concrete.hpp"
#include "jaxpr/builder.hpp"
#include "jaxpr/memos.hpp"
#include "support/errors.hpp"
#include "telamon/history.hpp"
#include "telamon/make_jaxpr.hpp"
#include "telamon/memory.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"
#include "test_primitives.hpp"

namespace {

Atom var(tl::Var v) { return Atom::var(v); }

}  // namespace

// ---- Builder -------------------------------------------------------------------------------------

TEST(ChunkedList, GrowsWithoutMovingAndGivesEverythingInOrder) {
  using Counted = std::shared_ptr<int>;
  const Counted counted = std::make_shared<int>(0);
  {
    tl::detail::ChunkedList<std::pair<int, Counted>> list;
    list.push_back({0, counted});
    const auto* first = &list[0];
    for (int i = 1; i < 1000; ++i) list.push_back({i, counted});
    EXPECT_EQ(&list[0], first);
    EXPECT_EQ(list.back().first, 999);
    const auto& left = list;
    auto moved = std::move(list);
    EXPECT_EQ(left.size(), 0u);
    const auto all = moved.take();
    ASSERT_EQ(all.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)].first, i);
    EXPECT_EQ(moved.size(), 0u);
    moved.push_back({7, counted});
    EXPECT_EQ(counted.use_count(), 1002);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(ChunkedList, EndsEachElementOnceItIsDrained) {
  using Counted = std::shared_ptr<int>;
  const Counted counted = std::make_shared<int>(0);
  constexpr std::size_t kElements = 300;
  tl::detail::ChunkedList<Counted> list;
  for (std::size_t i = 0; i < kElements; ++i) list.push_back(counted);
  std::size_t next = 0;
  list.drain([&](Counted&& x, std::size_t i) {
    EXPECT_EQ(i, next++);
    EXPECT_EQ(x.use_count(), static_cast<long>(kElements - i + 1));
  });
  EXPECT_EQ(next, kElements);
  EXPECT_EQ(list.size(), 0u);
  EXPECT_EQ(counted.use_count(), 1);
}

// What a trace needs while it lasts, it takes from blocks that are kept: the next one finds them.
TEST(JaxprBuilder, TakesBlocksThatAreKept) {
  const auto blocks = [](std::int64_t operations) {
    const auto f = [operations](tl::Array x) {
      for (std::int64_t i = 0; i < operations; ++i) x = x * x;
      return x;
    };
    const std::int64_t before = tl::memory_stats().allocations;
    EXPECT_EQ(tl::make_jaxpr(f)(Array(2.0)).jaxpr.eqns().size(),
              static_cast<std::size_t>(operations));
    return tl::memory_stats().allocations - before;
  };
  // A tracer for each result, and a block for many equations.
  const std::int64_t few = blocks(10), many = blocks(1010);
  EXPECT_GE(many - few, 1000);
  EXPECT_LE(many - few, 1100);
}

TEST(JaxprBuilder, MakesCapturedArraysLeadingInputsInOrderOfUse) {
  const Array c({1.0, 2.0, 3.0}), d({4.0, 5.0, 6.0}), unused({7.0, 8.0, 9.0});
  JaxprBuilder b;
  const Atom x = var(b.add_input(kVector));
  b.capture(unused);
  const Atom of_d = b.capture(d), of_c = b.capture(c);
  EXPECT_TRUE(b.capture(Array(c)) == of_c);
  const Atom y = var(b.add_eqn1(tl::mul_p, {}, {of_c, x}, kVector));
  const Atom z = var(b.add_eqn1(tl::add_p, {}, {y, of_d}, kVector));
  const tl::ClosedJaxpr closed = b.build({z, of_c});
  EXPECT_EQ(closed.to_string(),
            "{ lambda a:f64[3], b:f64[3], c:f64[3] .\n"
            "  let d:f64[3] = mul a c\n"
            "      e:f64[3] = add d b\n"
            "  in ( e, a ) }");
  ASSERT_EQ(closed.num_consts(), 2);
  EXPECT_TRUE(closed.consts[0].is_same(c));
  EXPECT_TRUE(closed.consts[1].is_same(d));
}

TEST(JaxprBuilder, InlinesScalarsAsLiterals) {
  JaxprBuilder b;
  const double two = 2.0;
  const Atom c = b.capture(Array::from_data(&two, DType::f64, {}));
  EXPECT_TRUE(c.is_literal());
  const tl::ClosedJaxpr closed = b.build({c});
  EXPECT_EQ(closed.num_consts(), 0);
  EXPECT_EQ(closed.jaxpr.num_inputs(), 0);
}

TEST(JaxprBuilder, DropsDeadEquationsButNoInputsAndNoEffects) {
  JaxprBuilder b;
  const Atom x = var(b.add_input(kF64));
  b.add_input(kF64);
  const Atom dead = var(b.add_eqn1(tl::sin_p, {}, {x}, kF64));
  b.add_eqn1(tl::cos_p, {}, {dead}, kF64);
  const Atom needed = var(b.add_eqn1(tl::exp_p, {}, {x}, kF64));
  b.add_eqn1(test::print_p, {}, {needed}, kF64, tl::Effect::ordered);
  EXPECT_EQ(b.build({x}).to_string(),
            "{ lambda a:f64[], b:f64[] .\n"
            "  let c:f64[] = exp a\n"
            "      d:f64[] = test_print{ordered} c\n"
            "  in ( a ) }");
}

TEST(JaxprBuilder, DropsWhatNobodyUsesOfACallAndTheConstantsOnlyThatNeeds) {
  const tl::JitParams call{
      .jaxpr = parse_jaxpr("{ lambda a:f64[3], b:f64[3] . let c:f64[3] = sin a\n"
                           " d:f64[3] = cos b in ( c, d ) }"),
      .name = "f"};
  JaxprBuilder b;
  const Atom x = var(b.add_input(kVector)), c = b.capture(Array({1.0, 2.0, 3.0}));
  const auto outs = b.add_eqn(tl::jit_p, tl::Params::of(call), {c, x}, {kVector, kVector});
  const tl::ClosedJaxpr closed = b.build({var(outs[1])});
  EXPECT_EQ(closed.num_consts(), 0);
  EXPECT_EQ(closed.jaxpr.eqns()[0].inputs.size(), 1u);
  EXPECT_EQ(count_eqns(closed.jaxpr, "sin"), 0);
  EXPECT_EQ(count_eqns(closed.jaxpr, "cos"), 1);
}

TEST(JaxprBuilder, KeepsDeadEquationsWhenAsked) {
  JaxprBuilder b;
  const Atom x = var(b.add_input(kF64));
  b.add_eqn1(tl::sin_p, {}, {x}, kF64);
  EXPECT_EQ(b.build({x}, JaxprBuilder::DeadCode::keep).jaxpr.eqns().size(), 1u);
}

TEST(JaxprBuilder, InlinesWholePrograms) {
  const Jaxpr body =
      parse_jaxpr("{ lambda a:f64[], b:f64[] . let c:f64[] = mul a b in ( c, a, 1.0 ) }");
  JaxprBuilder b;
  const Atom x = var(b.add_input(kF64));
  const tl::Atoms outs = b.inline_jaxpr(body, {x, x});
  EXPECT_EQ(b.build(outs).to_string(),
            "{ lambda a:f64[] .\n  let b:f64[] = mul a a\n  in ( b, a, 1.0 ) }");
}

// ---- Identity, equality, hashes ------------------------------------------------------------------

TEST(JaxprEquality, IsUpToNames) {
  const Jaxpr a = parse_jaxpr("{ lambda x:f64[] . let y:f64[] = mul x 2.0 in ( y ) }");
  const Jaxpr b = parse_jaxpr("{ lambda u:f64[] . let v:f64[] = mul u 2.0 in ( v ) }");
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a.same_as(b));
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_TRUE(Jaxpr(a).same_as(a));
}

TEST(JaxprEquality, SeesEveryDifferenceOfMeaning) {
  const std::vector<std::string> texts = {
      "{ lambda x:f64[] . let y:f64[] = mul x 2.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x 3.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul 2.0 x in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = add x 2.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x 2.0 in ( x ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x 2.0 in ( y, y ) }",
      "{ lambda x:f32[] . let y:f64[] = mul x 2.0 in ( y ) }",
      "{ lambda x:~f64[] . let y:f64[] = mul x 2.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x 2.0:~f64 in ( y ) }",
      "{ lambda x:f64[], z:f64[] . let y:f64[] = mul x 2.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul{unordered} x 2.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x 0.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = mul x -0.0 in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = reduce_sum [ axes=(0,) ] x in ( y ) }",
      "{ lambda x:f64[] . let y:f64[] = reduce_sum [ axes=(1,) ] x in ( y ) }",
      ("{ lambda x:f64[] . let y:f64[] = jit [ name=f ] x\n { lambda a:f64[] . let in ( a ) }\n in "
       "( y ) }"),
      ("{ lambda x:f64[] . let y:f64[] = jit [ name=f ] x\n { lambda a:f64[] . let in ( 1.0 ) }\n "
       "in ( y ) }"),
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < texts.size(); ++j) {
      EXPECT_EQ(
          tl::detail::parse_untyped_jaxpr(texts[i]) == tl::detail::parse_untyped_jaxpr(texts[j]),
          i == j)
          << texts[i] << "\n"
          << texts[j];
    }
  }
}

TEST(JaxprEquality, TakesNanForItself) {
  const std::string text = "{ lambda . let in ( nan, nan:f32 ) }";
  EXPECT_TRUE(parse_jaxpr(text) == parse_jaxpr(text));
}

TEST(Jaxprs, JoinTheEffectsOfTheirEquations) {
  EXPECT_EQ(parse_jaxpr("{ lambda x:f64[] . let in ( x ) }").effect(), tl::Effect::none);
  EXPECT_EQ(
      parse_jaxpr("{ lambda x:f64[] . let y:f64[] = test_count{unordered} x in ( x ) }").effect(),
      tl::Effect::unordered);
}

TEST(Jaxprs, CountEquationsInsideToo) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[] . let y:f64[] = sin x\n z:f64[] = jit [ name=f ] x\n"
      " { lambda a:f64[] . let b:f64[] = sin a\n c:f64[] = cos b in ( c ) }\n in ( y, z ) }");
  EXPECT_EQ(count_eqns(jaxpr), 4);
  EXPECT_EQ(count_eqns(jaxpr, "sin"), 2);
  EXPECT_EQ(count_eqns(jaxpr, "tan"), 0);
}

// ---- Memos ---------------------------------------------------------------------------------------

TEST(JaxprMemo, ComputesOncePerKeyAndType) {
  const Jaxpr jaxpr = parse_jaxpr("{ lambda . let in (  ) }");
  int computed = 0;
  const auto make = [&] { return ++computed; };
  const auto first = jaxpr.memo<int>("key", make);
  EXPECT_EQ(jaxpr.memo<int>("key", make), first);
  EXPECT_EQ(Jaxpr(jaxpr).memo<int>("key", make), first);
  EXPECT_EQ(computed, 1);
  EXPECT_NE(jaxpr.memo<int>("other", make), first);
  EXPECT_EQ(*jaxpr.memo<double>("key", [] { return 0.5; }), 0.5);
  EXPECT_EQ(computed, 2);
}

TEST(JaxprMemo, MayKeepTheProgramDetachedWithoutKeepingItAlive) {
  auto jaxpr =
      std::make_unique<Jaxpr>(parse_jaxpr("{ lambda a:f32[3] . let b:f32[3] = sin a in ( b ) }"));
  const Jaxpr detached = jaxpr->detached();
  EXPECT_EQ(detached, *jaxpr);
  EXPECT_FALSE(detached.same_as(*jaxpr));
  EXPECT_EQ(detached.eqns().data(), jaxpr->eqns().data()) << "it is no copy";
  const std::weak_ptr<const Jaxpr> memo =
      jaxpr->memo<Jaxpr>("key", [&] { return jaxpr->detached(); });
  EXPECT_EQ(detached.memo_find("key", typeid(Jaxpr)), nullptr) << "it has memos of its own";
  jaxpr.reset();
  EXPECT_TRUE(memo.expired());
  EXPECT_EQ(count_eqns(detached, "sin"), 1);
}

TEST(JaxprMemo, KeepsTheFirstOfSeveralThreads) {
  for (int round = 0; round < 20; ++round) {
    const Jaxpr jaxpr = parse_jaxpr("{ lambda . let in (  ) }");
    std::vector<std::shared_ptr<const int>> found(8);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        ++ready;
        while (ready < 8) std::this_thread::yield();
        found[static_cast<std::size_t>(t)] = jaxpr.memo<int>("key", [t] { return t; });
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& value : found) EXPECT_EQ(value, found[0]);
  }
}

TEST(JaxprMemo, ForgetsTheOneThatWasAskedForLongestAgo) {
  const Jaxpr jaxpr = parse_jaxpr("{ lambda . let in (  ) }");
  const auto memo = [&](std::size_t i) {
    return jaxpr.memo<std::size_t>(std::to_string(i), [&] { return i; });
  };
  const auto remembers = [&](std::size_t i) {
    return jaxpr.memo_find(std::to_string(i), typeid(std::size_t)) != nullptr;
  };
  tl::reset_counters();
  const std::shared_ptr<const std::size_t> used = memo(1);
  std::weak_ptr<const std::size_t> unused = memo(2);
  for (std::size_t i = 0; i < tl::detail::kMaxMemos; ++i) memo(i);
  EXPECT_EQ(tl::counters().memo_evictions, 0);
  memo(0);
  memo(tl::detail::kMaxMemos);  // in place of 1
  memo(1);                      // in place of 2
  EXPECT_EQ(tl::counters().memo_evictions, 2);
  EXPECT_EQ(*used, 1u) << "who has a handle keeps it";
  EXPECT_NE(memo(1), used) << "derived again";
  EXPECT_TRUE(unused.expired());
  EXPECT_FALSE(remembers(2));
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, tl::detail::kMaxMemos})
    EXPECT_TRUE(remembers(i)) << i;
}

// Threads that forget each other's memos all the time: each gets its own values, as many as there are
// places remain.
TEST(JaxprMemo, MayBeForgottenByAnotherThreadAtAnyTime) {
  const Jaxpr jaxpr = parse_jaxpr("{ lambda . let in (  ) }");
  constexpr std::size_t kThreads = 4, kEach = 2 * tl::detail::kMaxMemos;
  std::atomic<std::size_t> wrong{0}, derived{0};
  tl::reset_counters();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kEach; ++i) {
        const std::size_t key = (i * (2 * t + 1)) % kEach;  // all in an order of their own
        const auto got = jaxpr.memo<std::size_t>(std::to_string(key), [&] { return key; });
        wrong += *got != key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  for (std::size_t key = 0; key < kEach; ++key)
    derived += jaxpr.memo_find(std::to_string(key), typeid(std::size_t)) != nullptr;
  EXPECT_EQ(derived, tl::detail::kMaxMemos);
  EXPECT_GE(tl::counters().memo_evictions, static_cast<std::int64_t>(tl::detail::kMaxMemos));
}

TEST(JaxprMemo, OfAFailedComputationIsEmpty) {
  const Jaxpr jaxpr = parse_jaxpr("{ lambda . let in (  ) }");
  EXPECT_THROW(jaxpr.memo<int>("key", []() -> int { throw tl::ValueError("no"); }), tl::ValueError);
  EXPECT_EQ(*jaxpr.memo<int>("key", [] { return 3; }), 3);
}

// ---- Evaluation ----------------------------------------------------------------------------------

TEST(EvalJaxpr, AppliesTheProgram) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda a:f64[] . let b:f64[] = sin a\n c:f64[] = mul b 2.0\n d:f64[] = neg c\n e:f64[] = "
      "add d a in ( e, a, 1:i32 ) }");
  const Array x(3.0);
  const Arrays out = eval_jaxpr(jaxpr, std::vector<Array>{x});
  EXPECT_DOUBLE_EQ(out[0].item<double>(), 2.7177599838802657);
  EXPECT_TRUE(out[1].is_same(x));
  EXPECT_EQ(out[2].item<int>(), 1);
}

TEST(EvalJaxpr, ChecksItsOperands) {
  const Jaxpr jaxpr = parse_jaxpr("{ lambda a:f64[], b:f64[] . let in ( a ) }");
  EXPECT_THROW(eval_jaxpr(jaxpr, Arrays{Array(1.0)}), tl::TypeError);
  EXPECT_THROW(eval_jaxpr(jaxpr, Arrays{Array(1.0), Array(1.0f)}), tl::TypeError);
  const int line = __LINE__ + 1;
  const auto misuse = [&] { eval_jaxpr(jaxpr, Arrays{Array(1.0)}); };
  EXPECT_THAT(telamon_test::error_of(misuse),
              testing::HasSubstr("jaxpr_test.cpp:" + std::to_string(line) + " in "));
}

namespace {

// How many handles there were of the operand's value when the equation was evaluated.
int operand_use_count = 0;
const tl::Primitive<> observe_p{"test_observe", [] {
                                  tl::Rules<> rules;
                                  rules.impl = [](const tl::NoParams&, std::span<const Array> x) {
                                    operand_use_count = x[0].node()->use_count();
                                    return Arrays{x[0]};
                                  };
                                  return rules;
                                }};
const tl::Primitive<> copy_of_p{"test_copy_of", [] {
                                  tl::Rules<> rules;
                                  rules.impl = [](const tl::NoParams&, std::span<const Array> x) {
                                    return Arrays{Array(x[0].to_vector<double>())};
                                  };
                                  return rules;
                                }};

}  // namespace

TEST(EvalJaxpr, LetsGoOfValuesAfterTheirLastUse) {
  const Jaxpr jaxpr = tl::detail::parse_untyped_jaxpr(
      "{ lambda a:f64[3] . let b:f64[3] = test_copy_of a\n c:f64[3] = test_observe b\n d:f64[3] = "
      "test_copy_of c\n"
      " e:f64[3] = test_observe d in ( e ) }");
  const Array x({1.0, 2.0, 3.0});
  const Arrays out = eval_jaxpr(jaxpr, Arrays{x});
  EXPECT_EQ(x.node()->use_count(), 1);
  EXPECT_EQ(operand_use_count, 2);  // the environment and the operand list
  EXPECT_EQ(out[0].node()->use_count(), 1);
}

TEST(EvalJaxpr, ReportsTheLineOfTheEquation) {
  JaxprBuilder b;
  const Atom x = var(b.add_input(kF64));
  static const tl::Primitive<> no_impl_p{"test_no_impl"};
  const tl::SourceLocation where{"model.cpp", 42, "loss"};
  const Atom y = var(b.add_eqn1(no_impl_p, {}, {x}, kF64, tl::Effect::none, where));
  try {
    eval_jaxpr(b.build({y}).jaxpr, Arrays{Array(1.0)});
    FAIL() << "no error";
  } catch (const tl::NotImplementedError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("model.cpp:42 in loss"));
  }
}
