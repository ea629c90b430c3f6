// Plans: memory, donation, regions made by hand, host functions and their exceptions, concurrency.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "compiler/compile.hpp"
#include "support.hpp"
#include "telamon/families.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon::testing {
namespace {

using namespace compiler;

// ---- memory --------------------------------------------------------------------------------------
TEST(Arena, IsReusedAlongAChainOfKernels) {
  // Every product is a step of its own: twenty intermediates, two alive at a time.
  const Program f = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_contracting = {1};
    dn.rhs_contracting = {0};
    Array y = x[0];
    for (int i = 0; i < 20; ++i) y = lax::dot_general(y, x[1], dn);
    return Arrays{y};
  };
  const Arrays x = {uniform({8, 8}, DType::f64, -0.5, 0.5),
                    uniform({8, 8}, DType::f64, -0.5, 0.5, 2)};
  const auto executable = check(f, x, 20, 1e6);
  EXPECT_EQ(executable->info().arena_bytes, 2u * 8 * 8 * 8);
  const auto wasteful =
      check(f, x, 20, 1e6, {.contract = false, .name = {}, .disabled = {"reuse_memory"}});
  EXPECT_EQ(wasteful->info().arena_bytes, 19u * 8 * 8 * 8);
}

// e^(x - max) is where its quotients will be; and over the argument where that is given away.
TEST(Arena, HoldsNothingThatAResultIsWrittenOver) {
  const Program f = [](std::span<const Array> x) {
    const Shape& shape = x[0].shape();
    const auto spread = [&](const Array& y) { return lax::broadcast_in_dim(y, shape, {1}); };
    const Array e = lax::exp(lax::sub(x[0], spread(lax::reduce_max(x[0], {0}))));
    return Arrays{lax::div(e, spread(lax::reduce_sum(e, {0})))};
  };
  const auto fresh = [] { return Arrays{uniform({500, 100}, DType::f32)}; };
  const Compiled e = check(f, fresh(), -1, 4);
  EXPECT_LT(e->info().arena_bytes, 500 * 100 * sizeof(float));
  const Arrays want = execute(e, fresh()), got = execute(e, fresh(), {true});
  expect_equal(got[0], want[0], 0, "donated");
  // Both results are of e, which is needed until the last one.
  check(
      [&](std::span<const Array> x) {
        const Array y = f(x)[0];
        return Arrays{y, lax::mul(y, x[0])};
      },
      fresh(), -1, 4);
}

// ---- regions -------------------------------------------------------------------------------------
struct ByHand {
  std::unique_ptr<Plan> plan = std::make_unique<Plan>();
  int argument(const Aval& aval) {
    plan->values.push_back({aval, {Location::Kind::argument, plan->num_inputs++}});
    return static_cast<int>(plan->values.size()) - 1;
  }
  int result(const Aval& aval) {
    plan->values.push_back({aval, {Location::Kind::result, plan->num_outputs++}});
    return static_cast<int>(plan->values.size()) - 1;
  }
  int temporary(const Aval& aval) {
    plan->values.push_back({aval, {}});
    return static_cast<int>(plan->values.size()) - 1;
  }
  std::vector<Step> body(const Jaxpr& jaxpr, const std::vector<int>& in,
                         const std::vector<int>& out) {
    return splice(*plan, *plan_kernels(jaxpr, {}), in, out);
  }
  static Step copy(int from, int to) {
    Step s;
    s.kind = Step::Kind::copy;
    s.reads = {from};
    s.writes = {to};
    return s;
  }
};

TEST(Regions, LoopsRunTheirBodyAndKeepWhatIsUsedOnTheNextTrip) {
  const Aval vector{{5}, DType::f64, false}, count{{}, DType::i32, false};
  ByHand p;
  const int x = p.argument(vector), scale = p.argument(vector), trips = p.argument(count),
            out = p.result(vector);
  const int next = p.temporary(vector), twice = p.temporary(vector), trip = p.temporary(count);
  // twice = 2 scale is written before the loop and read on every trip.
  p.plan->steps = p.body(parse_jaxpr("{ lambda a:f64[5] . let b:f64[5] = add a a in ( b ) }"),
                         {scale}, {twice});
  p.plan->steps.push_back(ByHand::copy(x, out));
  Step loop;
  loop.kind = Step::Kind::loop;
  loop.reads = {trips};
  loop.writes = {trip};
  auto body = p.body(
      parse_jaxpr("{ lambda a:f64[5], b:f64[5], c:i32[] .\n"
                  "  let d:f64[5] = mul a b\n"
                  "      e:f64[] = convert_element_type [ new_dtype=f64 weak_type=false ] c\n"
                  "      f:f64[5] = broadcast_in_dim [ broadcast_dimensions=() shape=(5,) ] e\n"
                  "      g:f64[5] = add d f\n"
                  "  in ( g ) }"),
      {out, twice, trip}, {next});
  body.push_back(ByHand::copy(next, out));
  loop.bodies = {body};
  p.plan->steps.push_back(loop);
  const Jaxpr signature = parse_jaxpr("{ lambda a:f64[5], b:f64[5], c:i32[] . let  in ( a ) }");
  const auto executable = compile_plan(std::move(p.plan), signature, {});
  std::vector<double> state = {1, 2, 3, 4, 5};
  const std::vector<double> s = {0.1, 0.2, 0.3, 0.4, 0.5};
  for (const int n : {0, 1, 7}) {
    std::vector<double> want = state;
    for (int i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < 5; ++j) want[j] = want[j] * (2 * s[j]) + i;
    }
    const auto got = execute(executable, {Array(state), Array(s), lax::full({}, DType::i32, n)})[0]
                         .to_vector<double>();
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_NEAR(got[j], want[j], 1e-12 * std::abs(want[j])) << n;
  }
}

TEST(Regions, BranchesRunTheSelectedBody) {
  const Aval vector{{5}, DType::f64, false}, which{{}, DType::i32, false};
  ByHand p;
  const int x = p.argument(vector), selector = p.argument(which), out = p.result(vector);
  Step branch;
  branch.kind = Step::Kind::branch;
  branch.reads = {selector};
  branch.bodies = {
      p.body(parse_jaxpr("{ lambda a:f64[5] . let b:f64[5] = neg a in ( b ) }"), {x}, {out}),
      p.body(parse_jaxpr("{ lambda a:f64[5] .\n  let b:f64[5] = exp a\n      c:f64[5] = add b a\n  "
                         "in ( c ) }"),
             {x}, {out}),
      {ByHand::copy(x, out)}};
  p.plan->steps = {branch};
  const auto executable = compile_plan(
      std::move(p.plan), parse_jaxpr("{ lambda a:f64[5], b:i32[] . let  in ( a ) }"), {});
  const Array v = uniform({5}, DType::f64);
  const auto run = [&](int i) { return execute(executable, {v, lax::full({}, DType::i32, i)})[0]; };
  expect_equal(run(0), lax::neg(v), 0, "first");
  expect_equal(run(-5), lax::neg(v), 0, "clamped below");
  expect_equal(run(1), lax::add(lax::exp(v), v), 0, "second");
  expect_equal(run(2), v, 0, "third");
  expect_equal(run(9), v, 0, "clamped above");
}

// out[i] = sum of the powers 1...40 of c = sin(x[i]) + i / 1000; every trip writes its own element.
// Trips with c over `limit` throw.
Compiled row_by_row(std::int64_t rows, std::int64_t grain, double limit, int nesting = 1,
                    CompileOptions options = {}) {
  const std::string n = std::to_string(rows);
  const Aval all{{rows}, DType::f64, false}, one{{}, DType::f64, false};
  const Aval row{{40}, DType::f64, false}, count{{}, DType::i32, false};
  ByHand p;
  const int x = p.argument(all), out = p.result(all);
  const int trip = p.temporary(count), c = p.temporary(one), powers = p.temporary(row),
            sum = p.temporary(one), before = p.temporary(all);
  // Written before the region and read by every chunk.
  p.plan->steps =
      p.body(parse_jaxpr("{ lambda a:f64[" + n + "] . let b:f64[" + n + "] = sin a in ( b ) }"),
             {x}, {before});
  Step loop;
  loop.kind = Step::Kind::loop;
  loop.trips = rows;
  loop.grain = grain;
  loop.writes = {trip};
  std::vector<Step> body = p.body(
      parse_jaxpr("{ lambda a:f64[" + n +
                  "], b:i32[] .\n"
                  "  let c:f64[1] = dynamic_slice [ slice_sizes=(1,) ] a b\n"
                  "      d:f64[] = reshape [ new_sizes=() ] c\n"
                  "      e:f64[] = convert_element_type [ new_dtype=f64 weak_type=false ] b\n"
                  "      f:f64[] = mul e 1e-3\n"
                  "      g:f64[] = add d f\n"
                  "  in ( g ) }"),
      {before, trip}, {c});
  const auto append = [&](const char* text, const std::vector<int>& in,
                          const std::vector<int>& to) {
    const std::vector<Step> more = p.body(parse_jaxpr(text), in, to);
    body.insert(body.end(), more.begin(), more.end());
  };
  append(
      "{ lambda a:f64[] .\n"
      "  let b:f64[40] = broadcast_in_dim [ broadcast_dimensions=() shape=(40,) ] a\n"
      "      c:f64[40] = cumprod [ axis=0 reverse=false ] b\n"
      "  in ( c ) }",
      {c}, {powers});
  append("{ lambda a:f64[40] . let b:f64[] = reduce_sum [ axes=(0,) ] a in ( b ) }", {powers},
         {sum});
  Step put;
  put.kind = Step::Kind::host;
  put.name = "put";
  put.reads = {c, sum, trip};
  put.writes = {out};
  put.host = [limit](std::span<const void* const> in, std::span<void* const> to) {
    const double value = *static_cast<const double*>(in[0]);
    if (value > limit) throw std::runtime_error("c is over the limit");
    static_cast<double*>(to[0])[*static_cast<const int*>(in[2])] =
        *static_cast<const double*>(in[1]);
  };
  body.push_back(put);
  loop.bodies = {body};
  for (; nesting > 1; --nesting) {  // once around, in a chunk of its own
    Step around;
    around.kind = Step::Kind::loop;
    around.trips = 1;
    around.grain = 1;
    around.bodies = {{loop}};
    loop = around;
  }
  p.plan->steps.push_back(loop);
  return compile_plan(std::move(p.plan), parse_jaxpr("{ lambda a:f64[" + n + "] . let  in ( a ) }"),
                      options);
}

std::vector<double> sums_of_powers(const std::vector<double>& x) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double c = std::sin(x[i]) + 1e-3 * static_cast<double>(i);
    double power = 1, sum = 0;
    for (int k = 0; k < 40; ++k) sum += power *= c;
    sums.push_back(sum);
  }
  return sums;
}

TEST(Regions, RunInChunksThatEachHaveTheirOwnMemory) {
  const Array x = uniform({1000}, DType::f64, -2, 0);
  const std::vector<double> want = sums_of_powers(x.to_vector<double>());
  const auto check_against = [&](const Compiled& executable) {
    for (const int threads : {1, 4}) {
      const WithThreads n(threads);
      for (int i = 0; i < 20; ++i) {
        const auto got = execute(executable, {x})[0].to_vector<double>();
        for (std::size_t j = 0; j < want.size(); ++j)
          ASSERT_NEAR(got[j], want[j], 1e-9 * std::abs(want[j]) + 1e-12) << j;
      }
    }
  };
  const auto serial = row_by_row(1000, 0, 1e9), chunks = row_by_row(1000, 7, 1e9);
  check_against(serial);
  check_against(chunks);
  check_against(row_by_row(1000, 1, 1e9));
  check_against(row_by_row(1000, 5000, 1e9));
  check_against(row_by_row(1000, 7, 1e9, 2));  // inside another: serially
  check_against(
      row_by_row(1000, 7, 1e9, 1, {.contract = false, .name = {}, .disabled = {"parallel"}}));
  // A slice per chunk, at most 64 of them, of one value to three, and 256 to 511 bytes of nothing between them.
  const std::int64_t value = 40 * 8,
                     slices = chunks->info().arena_bytes - serial->info().arena_bytes;
  EXPECT_GT(slices, 63 * (value + 256));
  EXPECT_LT(slices, 64 * (3 * value + 512));
  EXPECT_NE(chunks->text("plan").find("in chunks of 7"), std::string::npos);
}

TEST(Regions, StopWhenAHostCallInAChunkThrows) {
  const Array x = uniform({1000}, DType::f64, -2, 0);
  const auto executable = row_by_row(1000, 7, 0.5);
  const auto fine = row_by_row(1000, 7, 1e9);
  for (const int threads : {1, 4}) {
    const WithThreads n(threads);
    for (int i = 0; i < 20; ++i) {
      EXPECT_THROW(execute(executable, {x}), std::runtime_error);
      EXPECT_NO_THROW(execute(fine, {x}));
    }
  }
}

// ---- host functions ------------------------------------------------------------------------------
struct HostParams {
  double limit = 0;
};
const Primitive<HostParams> checked_double_p{
    "checked_double", [] {
      return Rules<HostParams>{
          .abstract_eval = [](const HostParams&,
                              std::span<const Aval> x) { return AbstractResult(x[0]); },
          .lower = call<HostParams>([](const HostParams& p, std::span<const BufferView> in,
                                       std::span<const MutableBufferView> out) {
            for (std::int64_t i = 0; i < in[0].size(); ++i) {
              const double v = in[0].as<double>()[i];
              if (v > p.limit) throw std::runtime_error("value over the limit");
              out[0].as<double>()[i] = 2 * v;
            }
          }),
      };
    }};

TEST(HostCalls, RunInOrderAndTheirExceptionsReachTheCaller) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::neg(checked_double_p.bind1({10}, {lax::add(x[0], x[0])}))};
  };
  const Array small({1.0, 2.0}), large({1.0, 6.0});
  const auto executable = compile(stage(f, {small}));
  EXPECT_EQ(executable->info().library_calls, 1);
  EXPECT_EQ(execute(executable, {small})[0].to_vector<double>(), (std::vector<double>{-4, -8}));
  EXPECT_THROW(execute(executable, {large}), std::runtime_error);
  EXPECT_EQ(execute(executable, {small})[0].to_vector<double>(), (std::vector<double>{-4, -8}));
}

const Primitive<> without_lowering_p{
    "without_lowering", [] {
      return Rules<>{.abstract_eval = [](const NoParams&, std::span<const Aval> x) {
        return AbstractResult(x[0]);
      }};
    }};

TEST(Lowering, OfAPrimitiveWithoutARuleIsAnErrorThatNamesIt) {
  const Jaxpr jaxpr = stage(
      [](std::span<const Array> x) { return without_lowering_p.bind({}, {x[0]}); }, {Array({1.0})});
  try {
    compile(jaxpr);
    FAIL();
  } catch (const NotImplementedError& e) {
    EXPECT_EQ(e.message(),
              "Lowering rule for primitive 'without_lowering' not found for platform cpu");
  }
}

struct AxpbyParams {
  double alpha = 2, beta = 3;
};
const Primitive<AxpbyParams> axpby_p{
    "test_axpby", [] {
      return Rules<AxpbyParams>{
          .lower = ops<AxpbyParams>([](const AxpbyParams& p, std::span<const Array> x) {
            return Arrays{lax::add(lax::mul(x[0], lax::full_like(x[0], p.alpha)),
                                   lax::mul(x[1], lax::full_like(x[1], p.beta)))};
          })};
    }};

TEST(Lowering, CompositesFuseWithWhatIsAroundThem) {
  check(
      [](std::span<const Array> x) {
        return Arrays{lax::neg(axpby_p.bind1({}, {lax::exp(x[0]), x[1]}))};
      },
      {uniform({50}, DType::f64), uniform({50}, DType::f64, -2, 2, 2)}, 1);
}

// A value that is read in two ways is computed again where that is cheap, and else stored.
TEST(Lowering, TellsWhatItCosts) {
  static const Primitive<> light_p{
      "test_light", [] {
        return families::unary(light_p,
                               {.impl = [](const NoParams&, const Aval&,
                                           std::span<const Array> x) { return lax::neg(x[0]); },
                                .lower = element([](Emitter& e, Scalar x) { return e.neg(x); })});
      }};
  static const Primitive<> heavy_p{
      "test_heavy", [] {
        return families::unary(
            heavy_p,
            {.impl = [](const NoParams&, const Aval&,
                        std::span<const Array> x) { return lax::neg(x[0]); },
             .lower = element([](Emitter& e, Scalar x) { return e.neg(x); }).with_cost(50)});
      }};
  const auto twice = [](const Primitive<>& p) {
    return [&p](std::span<const Array> x) {
      const Array y = p.bind1({}, {x[0]});
      return Arrays{lax::add(y, lax::rev(y, {0}))};
    };
  };
  check(twice(light_p), {uniform({50}, DType::f64)}, 1);
  check(twice(heavy_p), {uniform({50}, DType::f64)}, 2);
}

// Single elements are computed again too, but a chain of them is not computed again by each of the
// kernels into which a long program falls: its code would grow with the square.
TEST(Fusion, OfLongChainsComputesFewValuesTwice) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    Arrays kept;
    for (int i = 0; i < 400; ++i) {
      y = lax::sin(y);
      kept.push_back(y);
      y = lax::mul(y, lax::full({}, DType::f64, 1.5));
    }
    return kept;
  };
  const Arrays x = {Array::from_data(std::vector<double>{0.7}.data(), DType::f64, {})};
  const auto executable = check(f, x, -1, 16);
  EXPECT_LE(executable->info().kernels, 16);
  const std::string ir = executable->text("ir");
  std::size_t sines = 0;
  for (auto at = ir.find(" call "); at != std::string::npos; at = ir.find(" call ", at + 1))
    ++sines;
  EXPECT_LT(sines, 500u);
}

// Few elements are rather computed again than that a kernel is added for them; but where one has them at hand, it
// gives them to the others.
TEST(Fusion, ComputesAFunctionOfFewElementsOnce) {
  const Program f = [](std::span<const Array> x) {
    const Array y = lax::log(x[0]);
    return Arrays{lax::reduce_sum(lax::mul(y, x[0]), {0}), lax::add(y, x[0])};
  };
  for (const std::int64_t n : {2, 16, 32, 33}) {
    const auto executable = check(f, {uniform({n}, DType::f32, 1, 2)}, 2, 1);
    const std::string text = executable->text("fuse");
    const auto first = text.find(" = log ");
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find(" = log ", first + 1), std::string::npos) << text;
  }
}

TEST(Fusion, DoesNotRepeatDivisionsForManyRows) {
  const auto kernels = [](std::int64_t rows, Array (*change)(const Array&)) {
    const Program f = [change](std::span<const Array> x) {
      return Arrays{x[1] - expand_dims(change(x[0]), 0)};
    };
    const Arrays x{uniform({8192}, DType::f32), uniform({rows, 8192}, DType::f32)};
    return check(f, x, -1, 1)->info().kernels;
  };
  const auto divided = [](const Array& x) { return x / 7; };
  EXPECT_EQ(kernels(7, divided), 2);
  EXPECT_EQ(kernels(3, divided), 1);
  EXPECT_EQ(kernels(7, [](const Array& x) { return x * 7; }), 1);
}

// Live ranges of every kind: many values that overlap in part. None lies where another lives.
TEST(Arena, HoldsManyValuesOfManySizes) {
  const Program f = [](std::span<const Array> x) {
    Arrays alive;
    Array sum = lax::full({}, DType::f64, 0);
    for (int i = 1; i <= 60; ++i) {
      const Array part = lax::slice(x[0], {0}, {(i * 37) % 90 + 1});
      alive.push_back(lax::cumsum(lax::sin(part)));
      if (alive.size() > 5) {
        sum = lax::add(sum, lax::reduce_sum(alive[static_cast<std::size_t>(i) % 5], {0}));
        alive.erase(alive.begin() + i % 5);
      }
    }
    for (const Array& a : alive) sum = lax::add(sum, lax::reduce_sum(a, {0}));
    return Arrays{sum};
  };
  const Arrays x = {uniform({100}, DType::f64)};
  const auto executable = check(f, x, -1, 1e3);
  const auto wasteful =
      check(f, x, -1, 1e3, {.contract = false, .name = {}, .disabled = {"reuse_memory"}});
  EXPECT_LT(2 * executable->info().arena_bytes, wasteful->info().arena_bytes);
}

// ---- many threads --------------------------------------------------------------------------------
TEST(Execution, FromEightThreadsAtOnceIsRight) {
  const Program f = [](std::span<const Array> x) {
    const Array e = lax::exp(x[0]);
    return Arrays{lax::div(e, lax::broadcast_in_dim(lax::reduce_sum(e, {1}), e.shape(), {0}))};
  };
  const Array x = uniform({16, 33}, DType::f32);
  const auto executable = compile(stage(f, {x}));
  const auto want = execute(executable, {x})[0].to_vector<float>();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (execute(executable, {x})[0].to_vector<float>() != want) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Execution, DoesNotDependOnTheNumberOfThreads) {
  const Program f = [](std::span<const Array> x) {
    const Array e = lax::exp(x[1]);
    return Arrays{lax::tanh(lax::exp(x[0])),
                  lax::reduce_sum(x[0], {1}),
                  lax::reduce_sum(x[0], {0}),
                  lax::reduce_sum(lax::sin(x[0]), {0, 1}),
                  lax::reduce_sum(e, {0}),               // tall and narrow
                  lax::reduce_max(lax::neg(e), {0, 1}),  // everything
                  lax::reduce_sum(lax::transpose(e, {1, 0}), {0, 1}),
                  lax::mul(e, lax::broadcast_in_dim(lax::reduce_sum(x[1], {0}), e.shape(), {1}))};
  };
  const Arrays x = {uniform({500, 1003}, DType::f32), uniform({70001, 5}, DType::f32, -2, 2, 2)};
  const auto executable = compile(stage(f, x));
  const auto with = [&](int threads) {
    const WithThreads n(threads);
    return execute(executable, x);
  };
  const Arrays one = with(1), four = with(4), want = f(x);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].to_vector<float>(), four[i].to_vector<float>()) << i;
    expect_equal(four[i], want[i], 20'000, std::to_string(i));  // sums near zero
  }
  // The order of combination is a matter of the shape, whether or not there are chunks.
  const auto serial =
      compile(stage(f, x), {.contract = false, .name = {}, .disabled = {"parallel"}});
  const Arrays same = execute(serial, x);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(one[i].to_vector<float>(), same[i].to_vector<float>()) << i;
}

// ---- history -------------------------------------------------------------------------------------
TEST(History, KnowsPassesKernelsAndCounts) {
  const Counters before = counters();
  const Program f = [](std::span<const Array> x) { return Arrays{lax::sin(x[0])}; };
  const auto executable =
      compile(stage(f, {Array({1.0})}), {.contract = false, .name = "my_sine", .disabled = {}});
  execute(executable, {Array({1.0})});
  const Counters after = counters();
  EXPECT_EQ(after.compiles - before.compiles, 1);
  EXPECT_EQ(after.kernels - before.kernels, 1);
  EXPECT_EQ(after.executions - before.executions, 1);
  EXPECT_EQ(last_executable().name, "my_sine");
  EXPECT_EQ(last_executable().backend, "llvm");
  std::string names;
  for (const PassTime& p : last_executable().passes) names += p.name + " ";
  EXPECT_EQ(
      names,
      "lower fold_constants simplify cse dce batch_members reorder short_axes merge_axes fuse "
      "buffers emit codegen link ");
  EXPECT_NE(executable->text("ir").find("define"), std::string::npos);
  EXPECT_NE(executable->text("asm").find(".text"), std::string::npos);
}

}  // namespace
}  // namespace telamon::testing
