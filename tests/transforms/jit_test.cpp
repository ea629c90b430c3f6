// jit: one trace per signature, few compilations, compositions, donation, threads, errors. (Leaks: leaks_test.cpp.)
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <new>
#include <optional>
#include <thread>

#include "core/sanitizers.hpp"
#include "runtime/allocator.hpp"
#include "runtime/backend.hpp"
#include "support/backends.hpp"
#include "support/processes.hpp"
#include "telamon/history.hpp"
#include "telamon/memory.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

TEST(Jit, ResultsAreReadyAndSayThatTheyAre) {
  const Array x({1.0, 2.0});
  const Array y = tl::jit([](Array v) { return v * 2.0; })(x).block_until_ready();
  EXPECT_EQ(values(y), (std::vector<double>{2, 4}));
  EXPECT_EQ(&y.block_until_ready(), &y);
}

TEST(Jit, TracesOncePerSignature) {
  int traces = 0;
  const auto g = tl::jit([&traces](Array x, Array y) {
    ++traces;
    return tl::sin(x) * tl::cos(y);
  });
  EXPECT_NEAR(value(g(3.0, 4.0)), -0.09224219304455371, 1e-15);
  EXPECT_NEAR(value(g(4.0, 5.0)), -0.21467624978307004, 1e-15);
  EXPECT_EQ(traces, 1);
  g(Array({1.0, 2.0}), Array({1.0, 2.0}));
  EXPECT_EQ(traces, 2);
  g(1.0f, 2.0f);
  EXPECT_EQ(traces, 3);
  EXPECT_EQ(g.cache_size(), 3u);
}

TEST(Jit, IsRememberedInTheHistoryOfExecutables) {
  tl::clear_history();
  EXPECT_TRUE(tl::history().empty());
  tl::jit([](Array x) { return tl::sin(x) * 31.0; }, {.name = "wave"})(Array({1.0, 2.0}));
  ASSERT_EQ(tl::history().size(), 1u);
  const tl::ExecutableInfo info = tl::history()[0];
  EXPECT_EQ(info.name, "wave");
  EXPECT_GE(info.microseconds(), 0.0);
  EXPECT_EQ(tl::last_executable().name, "wave");
}

TEST(Jit, StaticValuesArePartOfTheSignature) {
  int traces = 0;
  const auto power = tl::jit([&traces](Array x, int n) {
    ++traces;
    Array y = x;
    for (int i = 1; i < n; ++i) y = y * x;
    return y;
  });
  EXPECT_EQ(value(power(2.0, 3)), 8.0);
  EXPECT_EQ(value(power(3.0, 3)), 27.0);
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(value(power(2.0, 4)), 16.0);
  EXPECT_EQ(traces, 2);
}

TEST(Jit, StaticArgnumsMakeArraysConstants) {
  int traces = 0;
  const auto g = tl::jit(
      [&traces](Array x, Array n) {
        ++traces;
        return n.item<double>() > 2.0 ? x * n : x;  // the value is known: n is no tracer
      },
      {.static_argnums = {1}});
  EXPECT_EQ(value(g(2.0, Array(3.0))), 6.0);
  EXPECT_EQ(value(g(4.0, Array(3.0))), 12.0);
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(value(g(2.0, Array(1.0))), 2.0);
  EXPECT_EQ(traces, 2);
}

TEST(Jit, RefusesStaticArraysThatAreTraced) {
  const auto g = tl::jit([](Array x, Array n) { return x * n; }, {.static_argnums = {1}});
  const auto of_n = [&](Array n) { return g(3.0, n); };
  const auto expect_refused = [&] {
    const auto refused = [](const auto& call, const std::string& by) {
      const std::string text = error_of<tl::ConcretizationError>([&] { call(); });
      EXPECT_THAT(text, ::testing::HasSubstr("jit: argument 1 is static"));
      EXPECT_THAT(text, ::testing::HasSubstr("is traced by " + by));
      EXPECT_THAT(text, ::testing::HasSubstr("Take argument 1 out of static_argnums"));
    };
    refused([&] { return tl::grad(of_n)(2.0); }, "grad");
    refused([&] { return tl::grad<1>(g)(3.0, 2.0); }, "grad");
    refused([&] { return tl::jvp(of_n, std::tuple{2.0}, std::tuple{1.0}); }, "jvp");
    refused([&] { return tl::linearize(of_n, 2.0); }, "linearize");
    refused([&] { return tl::hessian(of_n)(2.0); }, "jac");
    refused([&] { return tl::vmap(of_n)(Array({2.0, 2.0})); }, "vmap");
    refused([&] { return tl::jit(of_n)(2.0); }, "jit");
  };
  expect_refused();
  EXPECT_EQ(value(g(3.0, 2.0)), 6.0);
  expect_refused();  // also when there is a program for this value
  EXPECT_EQ(value(tl::grad<0>(g)(3.0, 2.0)), 2.0);
}

TEST(Jit, CountsNegativeArgumentNumbersFromTheEnd) {
  const auto g = [](Array x, Array n) { return n.item<double>() > 2.0 ? x * n : x; };
  EXPECT_EQ(value(tl::jit(g, {.static_argnums = {-1}})(2.0, Array(3.0))), 6.0);
  const auto step = tl::jit([](Array y, Array x) { return x * 2.0 + y; }, {.donate = {-1}});
  Array x = tl::ones({1000}) + 0.0;
  tl::reset_counters();
  EXPECT_EQ(values(step(tl::ones({1000}), x))[0], 3.0);
  if (tl::last_executable().backend == "llvm") { EXPECT_EQ(tl::counters().donations, 1); }
  EXPECT_ERROR(ValueError, tl::jit(g, {.static_argnums = {2}})(2.0, 3.0),
               "static_argnums has argument number 2, but the call has 2 arguments");
  EXPECT_ERROR(ValueError, tl::jit(g, {.donate = {-3}, .name = "g"})(2.0, 3.0),
               "jit(g): donate has argument number -3");
}

// As in JAX, where static_argnums and donate_argnums may not intersect.
TEST(Jit, RefusesToDonateWhatHasNoBuffer) {
  const auto g = [](Array x, Array n) { return x * n; };
  EXPECT_ERROR(ValueError,
               tl::jit(g, {.donate = {-1}, .name = "g", .static_argnums = {1}})(2.0, Array(3.0)),
               "jit(g): argument 1 is both in static_argnums and in donate");
  const auto shifted = [](Array x, int n) { return x + double(n); };
  EXPECT_ERROR(ValueError, tl::jit(shifted, {.donate = {0, 1}, .name = "shifted"})(2.0, 3),
               "jit(shifted): donate has argument 1, whose type holds no arrays");
  // What may hold arrays, and just now has none, is no error.
  const auto last = [](std::vector<Array> xs, Array x) { return xs.empty() ? x + 1.0 : xs.back(); };
  EXPECT_EQ(value(tl::jit(last, {.donate = {0, 1}})(std::vector<Array>{}, 2.0)), 3.0);
}

TEST(Jit, OfJitOfJitTracesEachOnce) {
  int inner_traces = 0, outer_traces = 0;
  const auto inner = tl::jit([&](Array x) {
    ++inner_traces;
    return tl::sin(x);
  });
  const auto outer = tl::jit([&](Array x) {
    ++outer_traces;
    for (int i = 0; i < 10; ++i) x = inner(x);
    return x;
  });
  const double want = [] {
    double x = 0.5;
    for (int i = 0; i < 10; ++i) x = std::sin(x);
    return x;
  }();
  EXPECT_NEAR(value(outer(0.5)), want, 1e-14);
  EXPECT_NEAR(value(outer(0.5)), want, 1e-14);
  EXPECT_EQ(inner_traces, 1);
  EXPECT_EQ(outer_traces, 1);
}

TEST(Jit, UnderGradCompilesOneForwardAndOneBackwardProgram) {
  const auto g = tl::grad(tl::jit([k = Array(2.0)](Array x) { return tl::sin(x) * k; }));
  tl::reset_counters();
  EXPECT_NEAR(value(g(3.0)), 2 * std::cos(3.0), 1e-15);
  EXPECT_EQ(tl::counters().compiles, 2);
  EXPECT_EQ(tl::counters().traces, 1);
  EXPECT_NEAR(value(g(4.0)), 2 * std::cos(4.0), 1e-15);
  EXPECT_EQ(tl::counters().compiles, 2);
  EXPECT_EQ(tl::counters().traces, 1);
}

TEST(Jit, OfGradAndGradOfJitTraceOnce) {
  int traces = 0;
  const auto square = [&traces](Array x) {
    ++traces;
    return x * x;
  };
  const auto a = tl::jit(tl::grad(square));
  EXPECT_EQ(value(a(1.0)), 2.0);
  EXPECT_EQ(value(a(2.0)), 4.0);
  EXPECT_EQ(traces, 1);
  const auto b = tl::grad(tl::jit(square));
  EXPECT_EQ(value(b(1.0)), 2.0);
  EXPECT_EQ(value(b(2.0)), 4.0);
  EXPECT_EQ(traces, 2);
}

TEST(Jit, OfHessianAddsNoLoweringAfterTheFirstCall) {
  const auto h = tl::hessian(tl::jit([](Array x) { return tl::sum(x * x * x); }));
  const Array x({1.0, 2.0});
  h(x);
  const auto lowerings = tl::counters().lowerings;
  for (int i = 0; i < 5; ++i) h(x);
  EXPECT_EQ(tl::counters().lowerings, lowerings);
}

TEST(Jit, StagesWhatDoesNotDependOnArguments) {  // omnistaging
  const auto program = tl::make_jaxpr([] { return tl::lax::mul(Array(2.0), Array(2.0)); })();
  EXPECT_EQ(program.jaxpr.eqns().size(), 1u);
  EXPECT_EQ(program.to_string(),
            "{ lambda  .\n  let a:~f64[] = mul 2.0:~f64 2.0:~f64\n  in ( a ) }");
}

TEST(Jit, HoistsACapturedArrayOnce) {
  const Array c({1.0, 2.0, 3.0});
  const auto program = tl::make_jaxpr([c](Array x) { return x * c + c; })(Array({1.0, 1.0, 1.0}));
  EXPECT_EQ(program.num_consts(), 1);
  EXPECT_EQ(program.jaxpr.num_inputs(), 2);
  // The compiled program has it once too, also where its parts are compiled functions of their own.
  const auto scaled = tl::jit([c](Array x) { return x * c; });
  const auto both = [&](Array x) { return scaled(x) + c + scaled(-x) * c; };
  const auto compiled = tl::make_jaxpr(both)(c);
  EXPECT_EQ(compiled.num_consts(), 1) << compiled;
  const auto executable = telamon::runtime::find_backend().compile(compiled.jaxpr, {});
  if (executable->info().backend == "llvm") {
    const std::string plan = executable->text("plan");
    EXPECT_THAT(plan, ::testing::ContainsRegex("reads 0:f64\\[3\\]@arg0 1:f64\\[3\\]@arg1 writes"));
    EXPECT_THAT(executable->info().steps, ::testing::SizeIs(1)) << plan;
  }
  const auto literal = tl::make_jaxpr([](Array x) { return x + 2.0; })(1.0);
  EXPECT_EQ(literal.num_consts(), 0);
}

const tl::Primitive<> not_compiled_p{
    "jit_test_not_compiled", [] {
      return tl::Rules<>{
          .impl = [](const tl::NoParams&, std::span<const Array> x) { return Arrays{x[0]}; },
          .abstract_eval = [](const tl::NoParams&,
                              std::span<const tl::Aval> x) { return tl::AbstractResult(x[0]); }};
    }};

TEST(Jit, TellsLineAndTransformationsOfWhatItCannotDo) {
  const int line = __LINE__ + 1;
  const auto g = tl::jit([](Array x) { return not_compiled_p.bind1({}, {x}); });
  EXPECT_THAT(error_of([&] { g(Array()); }),
              ::testing::HasSubstr("\n  at jit_test.cpp:" + std::to_string(line)))
      << "an empty handle";
  if (telamon::runtime::find_backend().name() != "llvm") return;
  EXPECT_THAT(error_of([&] { g(1.0); }), tells(line, "jit[(]f[)]")) << "no lowering";
}

TEST(Jit, LetsGoOfWhatTheFunctionHolds) {  // a defect of the tutorial: its caches keep functions
  auto held = std::make_shared<double>(2.0);
  const std::weak_ptr<double> watch = held;
  {
    const auto g = tl::jit([k = std::move(held)](Array x) { return x * *k; });
    EXPECT_EQ(value(g(3.0)), 6.0);
    EXPECT_EQ(value(tl::grad(g)(3.0)), 2.0);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Jit, TakesNoEquationsForConversionsThatChangeNothing) {
  const auto program = tl::make_jaxpr([](Array x) {
    Array y = x;
    for (int i = 0; i < 3; ++i) y = tl::lax::convert_element_type(y, tl::f64);
    return tl::lax::broadcast(y, {});
  })(Array({1.0, 2.0}));
  EXPECT_EQ(program.jaxpr.eqns().size(), 0u) << program;
}

TEST(EvalShape, GivesTheStructureAndTypesOfTheResultAndComputesNothing) {
  const auto program = [](Array x) {
    return std::pair{tl::matmul(x, x), Arrays{tl::sum(x) > 0.0}};
  };
  tl::reset_counters();
  const auto [product, rest] = tl::eval_shape(program, tl::zeros({100, 100}));
  EXPECT_EQ(product.shape(), (tl::Shape{100, 100}));
  EXPECT_EQ(product.dtype(), tl::f32);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].shape(), tl::Shape{});
  EXPECT_EQ(rest[0].dtype(), tl::boolean);
  EXPECT_EQ(tl::counters().compiles, 0);
  EXPECT_ERROR(TypeError, tl::eval_shape(program, tl::zeros({2, 3})), "jit_test.cpp");
}

TEST(Jit, PrunesUnusedArgumentsUnlessAskedNotTo) {
  const auto g = [](Array x, Array) { return x * 2.0; };
  for (const bool keep : {false, true}) {
    const auto jitted = tl::jit(g, {.keep_unused = keep});
    EXPECT_EQ(value(jitted(3.0, 5.0)), 6.0);
    const tl::Jaxpr program = tl::make_jaxpr(jitted)(3.0, 5.0).jaxpr;
    ASSERT_EQ(program.eqns().size(), 1u) << program;
    const tl::Eqn& call = program.eqns()[0];
    EXPECT_EQ(call.primitive, &tl::jit_p);
    EXPECT_EQ(call.inputs.size(), keep ? 2u : 1u) << program;
    EXPECT_EQ(call.params.as<tl::JitParams>().jaxpr.num_inputs(), keep ? 2 : 1) << program;
  }
}

TEST(Jit, RunsZeroSizedAndScalarAndTupleResults) {
  const auto g =
      tl::jit([](Array x) { return std::tuple{x * 2.0, std::vector<Array>{x, x + 1.0}, 3}; });
  const auto [twice, list, n] = g(Array({1.0, 2.0}));
  expect_near(twice, {2, 4});
  expect_near(list[1], {2, 3});
  EXPECT_EQ(n, 3);
  const auto empty = tl::jit([](Array x) { return tl::sin(x); })(tl::zeros({0, 3}));
  EXPECT_EQ(empty.shape(), (tl::Shape{0, 3}));
}

TEST(Jit, KeepsNanTimesZero) {
  const auto g = [](Array x) { return 1.0 + x * 0.0; };
  EXPECT_TRUE(std::isnan(value(g(NAN))));
  EXPECT_TRUE(std::isnan(value(tl::jit(g)(NAN))));
  EXPECT_TRUE(std::isnan(value(tl::jit(g)(INFINITY))));
}

TEST(Jit, SharesItsCacheAmongEqualClosures) {
  tl::reset_counters();
  for (int i = 0; i < 3; ++i) {
    const auto g = tl::jit(tl::grad([](Array x) { return x * x * 7.0; }));
    EXPECT_EQ(value(g(1.0)), 14.0);
  }
  EXPECT_EQ(tl::counters().traces, 1);
}

TEST(Jit, ThatCapturedATracerFindsItsCodeAgain) {
  const Array x({3.0, 4.0});
  const auto loss = [&](Array w) {
    return tl::sum(tl::jit([w](Array y) { return tl::tanh(y * w); })(x));
  };
  const auto g = tl::grad(loss);
  const Array first = g(Array({1.0, 2.0}));
  tl::reset_counters();
  const Array second = g(Array({0.5, 0.25}));
  EXPECT_EQ(tl::counters().compiles, 0);
  EXPECT_NE(first.to_vector<double>(), second.to_vector<double>());
  for (int i = 0; i < 2; ++i) {
    const double w = i == 0 ? 0.5 : 0.25, y = i == 0 ? 3.0 : 4.0, t = std::tanh(w * y);
    EXPECT_NEAR(second.to_vector<double>()[static_cast<std::size_t>(i)], y * (1 - t * t), 1e-12);
  }
}

TEST(Jit, NeverCachesATraceThatCapturedATracer) {
  const auto outer = [](Array x) {
    const auto inner = tl::jit([x](Array y) { return x * y; });
    return inner(1.0) + inner(2.0);
  };
  EXPECT_EQ(value(tl::grad(outer)(5.0)), 3.0);
  EXPECT_EQ(value(tl::jit(outer)(5.0)), 15.0);
}

TEST(Jit, WorksWithMoveOnlyCallables) {
  auto owned = std::make_unique<double>(3.0);
  const auto g = tl::jit([k = std::move(owned)](Array x) { return x * *k; });
  EXPECT_EQ(value(g(2.0)), 6.0);
}

TEST(Jit, RefusesToBranchOnATracedValue) {
  const auto g = tl::jit([](Array x) { return x > 0.0 ? x : -x; });
  const std::string text = error_of<tl::ConcretizationError>([&] { g(1.0); });
  EXPECT_THAT(text, ::testing::HasSubstr("bool()"));
  EXPECT_THAT(text, ::testing::HasSubstr("cond"));
  EXPECT_THAT(text, ::testing::HasSubstr("while tracing jit"));
  EXPECT_ERROR(ConcretizationError, tl::jit([](Array x) { return Array(x.item<double>()); })(1.0),
               "item()");
}

TEST(Jit, NamesTheTransformationThatHidesAValue) {
  const auto reads = [](Array x) { return x * x.item<double>(); };
  const auto copies = [](Array x) { return x * x.to_vector<double>()[0]; };
  const auto expect_hidden = [&](const std::string& by, const auto& call) {
    EXPECT_ERROR(ConcretizationError, call(reads), "known under " + by + ";");
    EXPECT_ERROR(ConcretizationError, call(copies), "known under " + by + ";");
  };
  const Array row({1.0, 2.0});
  expect_hidden("jit(f)", [](auto g) { return tl::jit(g)(1.0); });
  expect_hidden("vmap", [&](auto g) { return tl::vmap(g)(row); });
  expect_hidden("jit(f)", [](auto g) { return tl::jit(tl::grad(g))(1.0); });
  expect_hidden("vmap", [&](auto g) { return tl::vmap(tl::grad(g))(row); });
  expect_hidden("vmap", [&](auto g) { return tl::vmap(tl::jacfwd(g))(row); });
  expect_hidden("vmap", [&](auto g) { return tl::jit(tl::vmap(tl::grad(g)))(row); });
  expect_hidden("jit(f)", [](auto g) { return tl::grad(tl::jit(g))(1.0); });
}

TEST(Jit, ErrorsShowTheUsersLineAndTheTransforms) {
  const auto g = tl::jit([](Array x, Array y) { return x + y; }, {.name = "loss"});
  const std::string text = error_of([&] { g(tl::ones({3}), tl::ones({4})); });
  EXPECT_THAT(text, ::testing::HasSubstr("jit_test.cpp:"));
  EXPECT_THAT(text, ::testing::HasSubstr("f32[3]"));
  EXPECT_THAT(text, ::testing::HasSubstr("f32[4]"));
  EXPECT_THAT(text, ::testing::HasSubstr("jit(loss)"));
  const auto misuse = [] { tl::jit(f, {.donate = {2}})(1.0); };
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_THAT(error_of(misuse), ::testing::HasSubstr("\n  at jit_test.cpp:" + line + " in "));
  EXPECT_EQ(value(tl::jit(f)(0.0)), 0.0) << "the stack must be as it was";
}

TEST(Jit, LeavesTheStackIntactWhenUserCodeThrows) {
  const auto thrower = tl::vmap(tl::jit([](Array) -> Array { throw std::runtime_error("user"); }));
  EXPECT_THROW(tl::grad([&](Array x) { return tl::sum(thrower(x)); })(Array({1.0})),
               std::runtime_error);
  EXPECT_DOUBLE_EQ(value(tl::grad(f)(3.0)), 2.979984993200891);
}

TEST(Jit, DonatesBuffersAndNamesLaterUse) {
  const auto step =
      tl::jit([](Array x, Array y) { return x * 2.0 + y; }, {.donate = {0}, .name = "step"});
  Array x = tl::ones({1000}) + 0.0;
  const Array y = tl::ones({1000}) * 3.0;
  tl::reset_counters();
  const Array z = step(x, y);
  EXPECT_EQ(values(z)[0], 5.0);
  if (tl::last_executable().backend == "llvm") {  // the interpreter writes new buffers
    EXPECT_EQ(tl::counters().donations, 1);
    EXPECT_ERROR(DonatedBufferError, (void)x.to_vector<float>(), "step");
  }
  const Array w = tl::ones({10}) * 2.0;
  tl::reset_counters();
  expect_near(step(w, w), std::vector<double>(10, 6.0));  // passed twice: not donated
  EXPECT_EQ(values(w)[0], 2.0);
  EXPECT_EQ(tl::counters().donations_skipped, 1);
}

#if !defined(TELAMON_ASAN) && !defined(TELAMON_TSAN)  // whose shadow is address space too
/// All small blocks that there still are, but some of the smallest ones and so many for nodes, and no more
/// from the system.
std::vector<std::pair<void*, std::size_t>> all_blocks_but(int nodes) {
  constexpr std::size_t kSmallest = 64, kNode = 128, kLargest = 32 << 10;
  std::vector<std::pair<void*, std::size_t>> blocks;
  blocks.reserve(std::size_t{1} << 20);
  std::vector<void*> spared;
  for (int i = 0; i < 100; ++i) spared.push_back(telamon::runtime::allocate(kSmallest));
  std::vector<void*> spared_nodes;
  for (int i = 0; i < nodes; ++i) spared_nodes.push_back(telamon::runtime::allocate(kNode));
  const rlimit limit{1, 1};
  setrlimit(RLIMIT_AS, &limit);
  for (const bool again : {false, true}) {  // what is left of a chunk becomes blocks of small sizes
    for (std::size_t bytes = again ? 4 * kSmallest : kLargest; bytes >= kSmallest;
         bytes -= kSmallest) {
      if (telamon::runtime::allocation_size(bytes) != bytes) continue;
      try {
        while (true) blocks.emplace_back(telamon::runtime::allocate(bytes), bytes);
      } catch (const tl::Error&) {}  // there is no more of this size
    }
  }
  for (void* block : spared) telamon::runtime::deallocate(block, kSmallest);
  for (void* block : spared_nodes) telamon::runtime::deallocate(block, kNode);
  return blocks;
}

// Donated arrays whose memory would have moved, but for whose nodes there is not enough.
TEST(Jit, LosesNothingWhereMemoryRunsOutInADonation) {
  const auto step = tl::jit([](Array x) { return x * 2.0; }, {.donate = {0}});
  const auto warm = step(tl::ones({1000}) + 0.0);
  Array x = tl::ones({1000}) + 0.0;
  for (const int nodes : {0, 1, 2, 3}) {
    telamon::testing::expect_success_in_processes(1, [&](int) {
      const auto blocks = all_blocks_but(nodes);
      const auto free_all = [&] {
        for (const auto& [block, bytes] : blocks) telamon::runtime::deallocate(block, bytes);
      };
      const std::size_t before = tl::memory_stats().in_use;
      std::optional<Array> result;
      try {
        result = step(x);
      } catch (const tl::Error&) {}
      if (result) {
        free_all();
        return nodes > 0 && values(*result)[999] == 2.0 ? 0 : 1;
      }
      if (tl::memory_stats().in_use != before) return 2;
      free_all();
      return values(step(x))[999] == 2.0 ? 0 : 3;
    });
  }
}
#endif

TEST(Jit, WritesAViewOutAtItsFirstCallOnly) {
  const auto f = tl::jit([](Array x) { return tl::sum(x); });
  const auto allocations = [&](const Array& x) {
    const auto before = tl::memory_stats().allocations;
    EXPECT_EQ(value(f(x)), 40'000);
    return tl::memory_stats().allocations - before;
  };
  const Array view = tl::ones({200, 200}), dense = f(view) * 0.0 + tl::ones({200, 200});
  const auto first = allocations(view), second = allocations(view);
  EXPECT_EQ(second, allocations(dense));
  EXPECT_EQ(first, second) << "f has seen the view already";
  EXPECT_GT(allocations(tl::ones({200, 200})), second);
}

TEST(Jit, DoesNotReadWhatItKeptOfAViewWhoseBufferIsGone) {
  Array x = Array(2.0f) * 1.0f;
  const Array view = tl::broadcast_to(x, {8});
  const auto f = tl::jit([](Array v) { return v + 1.0f; });
  const auto take = tl::jit([](Array v) { return v * 2.0f; }, {.donate = {0}, .name = "take"});
  expect_near(f(view), std::vector<double>(8, 3.0));
  (void)take(x);  // the view holds the buffer: it is not donated
  expect_near(f(view), std::vector<double>(8, 3.0));
}

// Nodes of small arrays lie in the blocks of their buffers, which others may hold longer.
TEST(Jit, GivesTheMemoryOfResultsBackInWhateverOrderTheyGo) {
  const auto next = tl::jit([](Array x) { return x + 1.0; });
  const auto take = tl::jit([](Array x) { return x * 2.0; }, {.donate = {0}});
  for (const std::int64_t n : {1, 2, 8, 119, 120, 121, 1000}) {
    const Array x = tl::ones({n}), zero = x * 0.0;
    const auto run = [&] {
      Array one = next(zero), reshaped = one.reshape({1, n}), wide = tl::broadcast_to(one, {2, n});
      one = Array();
      EXPECT_EQ(value(tl::sum(reshaped)), static_cast<double>(n));
      reshaped = Array();
      EXPECT_EQ(value(tl::sum(wide)), static_cast<double>(2 * n));
      Array given = next(zero), taken = take(given);
      if (n % 2 == 0) given = Array();
      EXPECT_EQ(value(tl::sum(taken)), static_cast<double>(2 * n));
      taken = Array();
    };
    run();  // which compiles
    const auto before = tl::memory_stats().in_use;
    for (int i = 0; i < 10; ++i) run();
    EXPECT_EQ(tl::memory_stats().in_use, before) << n;
  }
}

TEST(Jit, ReturnsSmallAndLargeResultsInTurn) {
  const std::int64_t sizes[] = {1, 8, 100, 5000, 2, 2, 300'000, 3, 119, 120, 121, 2, 50'000, 1};
  const auto next = tl::jit([](std::vector<Array> x) {
    for (Array& one : x) one = one + 1.0;
    return x;
  });
  std::vector<Array> zeros;
  for (int times = 0; times < 20; ++times) {
    for (const std::int64_t n : sizes) zeros.push_back(tl::zeros({n}) + 0.0);
  }
  auto x = next(zeros);  // which compiles
  const auto before = tl::memory_stats();
  for (int round = 1; round < 4; ++round) {
    const auto y = next(x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i].shape(), zeros[i].shape());
      EXPECT_EQ(value(tl::sum(y[i])), static_cast<double>((round + 1) * y[i].size()));
    }
    x = y;
  }
  EXPECT_EQ(tl::memory_stats().in_use, before.in_use);
}

TEST(Jit, ReturnsMoreResultsThanLieOnTheStack) {
  const auto next = tl::jit([](std::vector<Array> x) {
    for (Array& one : x) one = one + 1.0;
    return x;
  });
  for (const std::size_t n : {1u, 15u, 16u, 17u, 47u, 48u, 49u, 1000u}) {
    std::vector<Array> x;
    for (std::size_t i = 0; i < n; ++i) x.push_back(tl::full({}, static_cast<double>(i)) * 1.0);
    for (int round = 0; round < 2; ++round) x = next(x);
    ASSERT_EQ(x.size(), n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(value(x[i]), static_cast<double>(i + 2));
  }
}

TEST(Jit, DonatesAnyNumberOfLeaves) {
  const auto doubled = [](std::vector<Array> x) {
    for (Array& leaf : x) leaf = leaf * 2.0;
    return x;
  };
  const std::vector<Array> x = [] {
    std::vector<Array> leaves;
    for (int i = 0; i < 100; ++i) leaves.push_back(tl::arange(16.0) + i);
    return leaves;
  }();
  const auto step = tl::jit(doubled, {.donate = {0}});
  tl::reset_counters();
  const std::vector<Array> y = step(x);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values(y[static_cast<std::size_t>(i)])[3], 2 * (3.0 + i));
  const bool native = tl::last_executable().backend == "llvm";
  EXPECT_EQ(tl::counters().donations, native ? 100 : 0);
  EXPECT_EQ(tl::counters().donations_skipped, native ? 0 : 100);
  for (const Array& leaf : x) {
    if (native) EXPECT_THROW((void)values(leaf), tl::DonatedBufferError);
    else EXPECT_EQ(values(leaf).size(), 16u);
  }
}

TEST(Jit, CountsDonationsThatAreSkipped) {
  const auto expect_skipped = [](int skipped, const auto& call, const Array& argument) {
    const std::vector<double> before = values(argument);
    tl::reset_counters();
    call(argument);
    EXPECT_EQ(tl::counters().donations, 0);
    EXPECT_EQ(tl::counters().donations_skipped, skipped);
    EXPECT_EQ(values(argument), before);  // can still be read
  };
  const auto twice = [](Array x) { return x * 2.0; };
  const Array x = tl::arange(10.0) + 1.0;
  const auto sum = tl::jit([](Array a) { return tl::sum(a); }, {.donate = {0}});
  expect_skipped(1, sum, x);                                           // no result has its size
  expect_skipped(1, tl::jit(twice, {.donate = {0}}), tl::ones({10}));  // a view of one number
  expect_skipped(1, tl::jit(twice, {.backend = "interpret", .donate = {0}}), x);
  const auto unused = tl::jit([](Array, Array b) { return b * 2.0; }, {.donate = {0, 1}});
  expect_skipped(2, [&](Array a) { return unused(a, tl::ones({10})); }, x);
  const auto product = tl::jit([](Array a, Array b) { return a * b; }, {.donate = {0, 1}});
  expect_skipped(2, [&](Array a) { return product(a, a); }, x);
}

TEST(Jit, AgreesWithEagerAndItselfFromManyThreads) {
  const auto g = tl::jit([](Array x) { return tl::sum(tl::tanh(x) * tl::exp(-x)); });
  const auto dg = tl::jit(tl::grad([](Array x) { return tl::sum(tl::tanh(x) * tl::exp(-x)); }));
  std::vector<std::thread> threads;
  std::vector<double> results(8), slopes(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Array x = tl::linspace(0.0, 1.0, 10 + i % 3);
        results[static_cast<std::size_t>(t)] = value(g(x));
        slopes[static_cast<std::size_t>(t)] = values(dg(x))[0];
      }
    });
  }
  for (auto& t : threads) t.join();
  for (int t = 1; t < 8; ++t) {
    EXPECT_EQ(results[static_cast<std::size_t>(t)], results[0]);
    EXPECT_EQ(slopes[static_cast<std::size_t>(t)], slopes[0]);
  }
  EXPECT_EQ(g.cache_size(), 3u);
}

TEST(Jit, SurvivesTheNestedCallStressTest) {
  const auto fun = [](Array x) {
    const auto bar = tl::jit([](Array y) {
      const auto baz = tl::jit([](Array w) {
        const Array q = tl::jit([](Array x_) { return x_ * 2.5; })(w);
        return w * q;
      });
      return tl::jit(baz)(y * 3.0) + tl::sin(y);
    });
    return tl::cos(bar(x)) + bar(x);
  };
  const Array x(0.7);
  const double want = value(fun(x));
  const double slope = value(tl::jvp(fun, std::tuple{x}, std::tuple{Array(1.0)}).second);
  EXPECT_NEAR(value(tl::jit(fun)(x)), want, 1e-14);
  EXPECT_NEAR(value(tl::jvp(tl::jit(fun), std::tuple{x}, std::tuple{Array(1.0)}).second), slope,
              1e-13);
  EXPECT_NEAR(value(tl::grad(fun)(x)), slope, 1e-13);
  EXPECT_NEAR(value(tl::grad(tl::jit(fun))(x)), slope, 1e-13);
  EXPECT_NEAR(value(tl::jit(tl::grad(tl::jit(fun)))(x)), slope, 1e-13);
  const double second = value(tl::grad(tl::grad(fun))(x));
  const double others[] = {value(tl::jacfwd(tl::grad(fun))(x)),
                           value(tl::jit(tl::grad(tl::jit(tl::grad(fun))))(x)),
                           value(tl::grad(tl::jit(tl::grad(tl::jit(fun))))(x)),
                           value(tl::jacrev(tl::jacfwd(tl::jit(fun)))(x))};
  for (const double other : others) EXPECT_NEAR(other, second, 1e-11);
}

Array calls_itself(const Array& x) { return tl::jit(calls_itself)(x) + 1.0; }
Array maps_itself(const Array& x) { return tl::vmap(maps_itself, {.in_axes = 0})(x); }
Array differentiates_itself(const Array& x) { return tl::grad(differentiates_itself)(x); }

TEST(Recursion, OfATransformedFunctionIsAnErrorAndNotTheEndOfTheStack) {
  const std::string text = error_of<tl::RecursionError>([] { return calls_itself(1.0); });
  EXPECT_THAT(text, ::testing::HasSubstr("jit(f) is within 200 others"));
  EXPECT_THAT(text, ::testing::HasSubstr("Loop with fori_loop, while_loop or scan"));
  EXPECT_THAT(text, ::testing::HasSubstr("and 188 more"));
  EXPECT_ERROR(RecursionError, differentiates_itself(1.0), "a function that calls itself");
  EXPECT_ERROR(ValueError, maps_itself(tl::ones({2, 2})), "rank 0");
  // The stack is as it was.
  EXPECT_NEAR(value(tl::jit(f)(0.5)), value(f(0.5)), 1e-14);
  EXPECT_ERROR(RecursionError, calls_itself(1.0), "a function that calls itself");
}

Array tower(const Array& x, int height) {
  if (height == 0) return x;
  return tl::jit([height](const Array& y) { return tower(y, height - 1) + 1.0; })(x);
}

TEST(Recursion, OfOneHundredLevelsIsFine) { EXPECT_EQ(value(tower(0.0, 100)), 100); }

TEST(Jit, ForgetsTheSignatureThatWasCalledLongestAgo) {
  int traces = 0;
  const auto f = tl::jit(
      [&](const Array& x) {
        ++traces;
        return tl::sum(x) * 2.0;
      },
      {.max_signatures = 3});
  const auto call = [&](int n) { return value(f(tl::ones({n}))); };
  tl::reset_counters();
  for (const int n : {1, 2, 3, 1, 1, 2}) EXPECT_EQ(call(n), 2.0 * n);
  EXPECT_EQ(traces, 3);
  EXPECT_EQ(call(4), 8.0);  // in place of 3
  EXPECT_EQ(f.cache_size(), 3u);
  EXPECT_EQ(tl::counters().evictions, 1);
  for (const int n : {1, 2, 4}) EXPECT_EQ(call(n), 2.0 * n);
  EXPECT_EQ(traces, 4) << "these were remembered";
  EXPECT_EQ(call(3), 6.0);
  EXPECT_EQ(traces, 5);
  EXPECT_EQ(f.cache_size(), 3u);
}

TEST(Jit, WithOnePlaceAlternatesBetweenSignatures) {
  const auto f = tl::jit([](const Array& x) { return tl::sum(x); }, {.max_signatures = 1});
  for (const int n : {1, 2, 1, 1, 2, 2}) EXPECT_EQ(value(f(tl::ones({n}))), n);
  EXPECT_EQ(f.cache_size(), 1u);
  EXPECT_ERROR(ValueError, tl::jit([](const Array& x) { return x; }, {.max_signatures = 0}),
               "max_signatures must be at least 1, got 0");
}

// The structure of results and the arrays in them arrive whole, for few leaves and many.
TEST(Jit, GivesAsManyResultsAsTheFunctionReturns) {
  for (const std::size_t n : {0, 1, 5, 6, 7, 40}) {
    const auto f = tl::jit([](const Arrays& xs) {
      Arrays outs;
      for (const Array& x : xs) outs.push_back(x * 2.0);
      return outs;
    });
    Arrays xs;
    for (std::size_t i = 0; i < n; ++i) xs.push_back(Array(static_cast<double>(i)));
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Arrays got = f(xs);
      ASSERT_EQ(got.size(), n);
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(value(got[i]), 2.0 * static_cast<double>(i));
    }
  }
}

// The call looks at its arguments without a reference to them: functions of the user's that run in the
// program may let go of them.
TEST(Jit, KeepsArgumentsThatTheUsersCodeLetsGoOf) {
  TELAMON_TEST_NEEDS_COMPILER();
  static Array held, other;
  static const tl::Primitive<> letting_go_p("letting_go", [] {
    return tl::Rules<>{
        .abstract_eval = [](const tl::NoParams&, std::span<const tl::Aval> x) { return x[0]; },
        .lower = tl::call<tl::NoParams>([](const tl::NoParams&, std::span<const tl::BufferView> in,
                                           std::span<const tl::MutableBufferView> out) {
          held = Array();
          other = tl::zeros({1000}) + 5.0;  // would lie where the argument lay
          for (std::int64_t i = 0; i < in[0].size(); ++i)
            out[0].as<double>()[i] = in[0].as<double>()[i];
        })};
  });
  const auto f = tl::jit([](const Array& x) { return tl::sum(letting_go_p.bind1({}, {x}) + x); });
  for (int i = 0; i < 2; ++i) {
    held = Array(std::vector<double>(1000, 3.0));
    EXPECT_EQ(value(f(held)), 6000.0);
    EXPECT_FALSE(held.has_value());
  }
  other = Array();
}

// Only what the library itself lacks memory for is its OutOfMemoryError.
TEST(Jit, LetsTheUsersOwnExceptionsPass) {
  struct PoolIsEmpty : std::bad_alloc {};
  const auto f = tl::jit([](Array) -> Array { throw PoolIsEmpty(); });
  EXPECT_THROW(f(1.0), PoolIsEmpty);
  EXPECT_THROW(f.lower(1.0), PoolIsEmpty);
  const auto g = tl::jit([](Array) -> Array { throw std::bad_alloc(); });
  EXPECT_THROW(g(1.0), tl::OutOfMemoryError);
}

}  // namespace
}  // namespace telamon_test
