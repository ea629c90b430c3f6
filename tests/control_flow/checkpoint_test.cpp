// checkpoint: same values and derivatives as without, fewer residuals, and what is computed twice
// stays computed twice.
#include "telamon/checkpoint.hpp"

#include <gmock/gmock.h>

#include "support/backends.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

using ::testing::HasSubstr;
using tl::count_eqns;
namespace policies = tl::checkpoint_policies;

Array sin_sin(const Array& x) { return tl::sin(tl::sin(x)); }
double slope(double x) { return std::cos(std::sin(x)) * std::cos(x); }

const auto kAllPolicies = {policies::nothing_saveable(),
                           policies::everything_saveable(),
                           policies::dots_saveable(),
                           policies::dots_with_no_batch_dims_saveable(),
                           policies::save_only_these_names({"a"}),
                           policies::save_anything_except_these_names({"a"}),
                           policies::saves_where([](const tl::Eqn&) { return true; })};

TEST(Checkpoint, ChangesNoValueAndNoDerivative) {
  for (const tl::CheckpointPolicy& policy : kAllPolicies) {
    SCOPED_TRACE(policy.to_string());
    const auto f = tl::checkpoint(sin_sin, {.policy = policy});
    const double x = 0.4, y = std::sin(std::sin(x));
    EXPECT_NEAR(value(f(x)), y, 1e-15);
    EXPECT_NEAR(value(tl::jit(f)(x)), y, 1e-15);
    expect_near(tl::vmap(f)(Array({x, x})), {y, y});
    EXPECT_NEAR(value(tl::jvp(f, std::tuple{x}, std::tuple{2.0}).second), 2 * slope(x), 1e-15);
    EXPECT_NEAR(value(tl::linearize(f, x).second(2.0)), 2 * slope(x), 1e-15);
    EXPECT_NEAR(value(tl::grad(f)(x)), slope(x), 1e-15);
    EXPECT_NEAR(value(tl::jit(tl::grad(f))(x)), slope(x), 1e-15);
    EXPECT_NEAR(value(tl::grad(tl::jit(f))(x)), slope(x), 1e-15);
    expect_near(tl::vmap(tl::grad(f))(Array({x, 1.0})), {slope(x), slope(1.0)});
    expect_near(
        tl::jit(tl::grad([&](Array v) { return tl::sum(tl::vmap(f)(v)); }))(Array({x, 1.0})),
        {slope(x), slope(1.0)});
    const double second = value(tl::grad(tl::grad(sin_sin))(x));
    EXPECT_NEAR(value(tl::grad(tl::grad(f))(x)), second, 1e-15);
    EXPECT_NEAR(value(tl::hessian(f)(x)), second, 1e-15);
    EXPECT_NEAR(value(tl::jit(tl::hessian(tl::jit(f)))(x)), second, 1e-15);
    EXPECT_NEAR(value(tl::jacrev(tl::jacfwd(f))(x)), second, 1e-15);
  }
}

// jax: the linear function of remat(sin . sin) computes sin once and cos twice.
TEST(Checkpoint, LinearFunctionComputesSinOnceAndCosTwice) {
  const auto f_lin = tl::linearize(tl::checkpoint(sin_sin), Array({3.0})).second;
  EXPECT_EQ(count_eqns(f_lin.jaxpr(), "sin"), 1) << f_lin.jaxpr();
  EXPECT_EQ(count_eqns(f_lin.jaxpr(), "cos"), 2);
  EXPECT_EQ(f_lin.jaxpr().num_inputs(), 2);  // one residual, the argument
  const auto plain = tl::linearize(sin_sin, Array({3.0})).second;
  EXPECT_EQ(count_eqns(plain.jaxpr(), "sin") + count_eqns(plain.jaxpr(), "cos"), 0);
}

TEST(Checkpoint, EverySavingPolicySavesAsWithoutCheckpoint) {
  const auto f = tl::checkpoint(sin_sin, {.policy = policies::everything_saveable()});
  EXPECT_EQ(count_eqns(tl::linearize(f, 3.0).second.jaxpr(), "cos"), 0);
}

struct Params {
  Array w1, w2;
};
Array net(const Params& p, const Array& x) {
  const Array h = tl::checkpoint_name(tl::tanh(tl::matmul(x, p.w1)), "hidden");
  return tl::sum(tl::square(tl::sin(tl::matmul(h, p.w2))));
}
const Params kParams{Array({{0.1, 0.2}, {0.3, 0.4}, {0.5, -0.6}}),
                     Array({{1.0, 2.0}, {-1.0, 0.5}})};
const Array kData({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {0.5, 0.1, 0.2}, {0.0, 1.0, 0.0}});

TEST(Checkpoint, PoliciesDecideWhatIsSaved) {
  const auto saved = [](const tl::CheckpointPolicy& policy) {
    return tl::saved_residuals(tl::checkpoint(net, {.policy = policy}), kParams, kData).to_string();
  };
  const std::string arguments =
      "f64[4,3] from the argument args[1]\n"
      "f64[3,2] from the argument args[0].w1\n"
      "f64[2,2] from the argument args[0].w2\n";
  const auto sorted = [](std::string text) {
    std::vector<std::string> lines;
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
      lines.push_back(text.substr(0, std::min(end, text.find(" from /"))));
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(sorted(saved(policies::nothing_saveable())), sorted(arguments));
  const std::string named = saved(policies::save_only_these_names({"hidden"}));
  EXPECT_THAT(named, HasSubstr("f64[4,2] named 'hidden' from checkpoint_test.cpp:"));
  EXPECT_THAT(named, ::testing::Not(HasSubstr("output of")));
  const std::string dots = saved(policies::dots_saveable());
  EXPECT_THAT(dots, HasSubstr("f64[4,2] output of dot_general"));
  EXPECT_THAT(dots, ::testing::Not(HasSubstr("tanh")));
  const auto plain = tl::saved_residuals(net, kParams, kData);
  const auto least = tl::saved_residuals(tl::checkpoint(net), kParams, kData);
  EXPECT_LT(least.bytes(), plain.bytes()) << plain;
}

TEST(SavedResiduals, TellTheLineOfALoop) {
  const auto scanned = [](Array x) {
    return tl::scan([](Array c) { return std::pair{tl::sin(c), tl::none}; }, x, tl::none,
                    {.length = 4})
        .first;
  };
  const int line = __LINE__ - 4;
  const std::string at = " from checkpoint_test.cpp:" + std::to_string(line);
  EXPECT_THAT(tl::saved_residuals(scanned, 0.5).to_string(),
              HasSubstr("f64[4] output of scan" + at));
  EXPECT_THAT(tl::saved_residuals(tl::checkpoint(scanned), 0.5).to_string(),
              HasSubstr("f64[] from the argument"));
  const auto loop = [](const tl::WhileOptions& options) {
    return [=](Array x) {
      return tl::while_loop([](Array c) { return c < 3.0; },
                            [&](Array c) { return c + tl::sin(x); }, x, options);
    };
  };
  const std::string unbounded = tl::saved_residuals(loop({}), 0.5).to_string();
  EXPECT_THAT(unbounded, HasSubstr(", and a row for each step of the while_loop without max_steps "
                                   "from checkpoint_test.cpp:"));
  EXPECT_THAT(tl::saved_residuals(loop({.max_steps = 7}), 0.5).to_string(),
              ::testing::Not(HasSubstr("without max_steps")));
}

TEST(Checkpoint, GradientsOfTreesAgreeUnderEveryPolicy) {
  const Params plain = tl::grad(net)(kParams, kData);
  for (const tl::CheckpointPolicy& policy : kAllPolicies) {
    const auto f = tl::checkpoint(net, {.policy = policy});
    for (const Params& g :
         {tl::grad(f)(kParams, kData), tl::jit(tl::grad(f))(kParams, kData),
          tl::grad(tl::jit(f))(kParams, kData), tl::grad(tl::checkpoint(f))(kParams, kData)}) {
      expect_near(g.w1, values(plain.w1));
      expect_near(g.w2, values(plain.w2));
    }
  }
}

TEST(Checkpoint, PolicyReachesThroughJit) {
  const auto inner = tl::jit([](Array x, Array w) { return tl::tanh(tl::matmul(x, w)); });
  const auto f = tl::checkpoint([&](Array x, Array w) { return tl::sum(inner(inner(x, w), w)); },
                                {.policy = policies::dots_saveable()});
  const Array x({{1.0, 2.0}, {3.0, 4.0}});
  const std::string report = tl::saved_residuals(f, x, x).to_string();
  EXPECT_THAT(report, HasSubstr("output of dot_general"));
  EXPECT_THAT(report, ::testing::Not(HasSubstr("output of tanh")));
  const auto plain = [&](Array a, Array w) { return tl::sum(inner(inner(a, w), w)); };
  expect_near(tl::grad<1>(f)(x, x), values(tl::grad<1>(plain)(x, x)));
}

TEST(Checkpoint, SecondComputationSurvivesTheCompiler) {
  const auto f = tl::checkpoint(sin_sin);
  const auto program = tl::make_jaxpr(tl::value_and_grad(f))(Array(0.5));
  EXPECT_EQ(count_eqns(tl::eliminate_common_subexpressions(program.jaxpr), "sin"), 3) << program;
  const auto g = tl::jit(tl::value_and_grad(f));
  const auto [y, dy] = g(0.5);
  EXPECT_NEAR(value(y), std::sin(std::sin(0.5)), 1e-15);
  EXPECT_NEAR(value(dy), slope(0.5), 1e-15);
}

// A chain of blocks: each keeps its input only. Compiled, the arena is what it costs.
TEST(Checkpoint, LowersTheMemoryOfACompiledGradient) {
  TELAMON_TEST_NEEDS_COMPILER();
  constexpr int kBlocks = 8, kSteps = 8;
  const auto block = [](Array x, Array w) {
    for (int i = 0; i < kSteps; ++i) x = tl::sin(tl::matmul(x, w));
    return x;
  };
  const auto chain = [&](const auto& f) {
    return [f](Array x, Array w) {
      for (int i = 0; i < kBlocks; ++i) x = f(x, w);
      return tl::sum(x);
    };
  };
  std::vector<double> entries(64 * 64);
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = std::sin(double(i)) / 8;
  const Array x(entries, {64, 64}), w(entries, {64, 64});
  const auto arena = [&](const auto& f, Array& gradient) {
    gradient = tl::jit(tl::grad(chain(f)), {.backend = "llvm"})(x, w);
    return tl::last_executable().arena_bytes;
  };
  Array plain, cheap;
  const std::size_t all = arena(block, plain);
  const std::size_t some = arena(tl::checkpoint(block), cheap);
  expect_near(cheap, values(plain), 1e-12);
  EXPECT_LT(3 * some, all) << some << " bytes against " << all;
}

TEST(Checkpoint, TakesTracersThatItsFunctionCaptured) {
  const auto outer = [](Array x) {
    return tl::checkpoint([x](Array y) { return tl::sin(x) * tl::sin(y); })(2.0);
  };
  EXPECT_NEAR(value(tl::grad(outer)(0.5)), std::cos(0.5) * std::sin(2.0), 1e-15);
  EXPECT_NEAR(value(tl::jit(tl::grad(outer))(0.5)), std::cos(0.5) * std::sin(2.0), 1e-15);
  expect_near(tl::vmap(outer)(Array({0.5})), {std::sin(0.5) * std::sin(2.0)});
  EXPECT_EQ(tl::saved_residuals(outer, 0.5).to_string(), "~f64[] from the argument args[0]\n");
}

TEST(Checkpoint, OfCustomDerivativesUsesTheirRules) {
  const auto by_jvp = tl::custom_jvp(
      [](Array x) { return tl::sin(x); },
      [](Array x, Array dx) { return std::pair{tl::sin(x), 3.0 * tl::cos(x) * dx}; });
  const auto by_vjp = tl::custom_vjp(
      [](Array x) { return tl::sin(x); }, [](Array x) { return std::pair{tl::sin(x), x}; },
      [](Array x, Array ct) { return std::tuple{3.0 * tl::cos(x) * ct}; });
  const double want = 3 * std::cos(0.5);
  EXPECT_NEAR(value(tl::grad(tl::checkpoint(by_jvp))(0.5)), want, 1e-15);
  EXPECT_NEAR(value(tl::grad(tl::checkpoint(by_vjp))(0.5)), want, 1e-15);
  EXPECT_NEAR(value(tl::jit(tl::grad(tl::checkpoint(by_vjp)))(0.5)), want, 1e-15);
  EXPECT_NEAR(value(tl::grad(tl::jit(tl::checkpoint(by_vjp)))(0.5)), want, 1e-15);
}

TEST(Checkpoint, CallsPrintParseAndTypecheck) {
  for (const tl::CheckpointPolicy& policy : kAllPolicies) {
    const auto g = tl::grad(tl::checkpoint(sin_sin, {.policy = policy, .name = "g"}));
    const tl::ClosedJaxpr traced = tl::make_jaxpr(g)(Array(0.5));
    tl::typecheck_jaxpr(traced.jaxpr);
    EXPECT_THAT(traced.to_string(), HasSubstr("differentiated=True")) << traced;
    EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr) << traced;
  }
  EXPECT_ERROR(ParseError, tl::CheckpointPolicy::from_text("other_saveable"), "other_saveable");
}

TEST(Checkpoint, PoliciesOfAnyNamesComeBackFromTheirText) {
  for (const tl::CheckpointPolicy& policy :
       {policies::save_only_these_names({"a, b"}), policies::save_only_these_names({"a", "b"}),
        policies::save_only_these_names({"f(x)", "(", ")", "),", ","}),
        policies::save_only_these_names({""}), policies::save_only_these_names({}),
        policies::save_only_these_names({"\\", "\\e", "e", "'", "a\n, b"}),
        policies::save_anything_except_these_names({"", "a,b", "c\\, d"})}) {
    SCOPED_TRACE(policy.to_string());
    const auto g = tl::grad(tl::checkpoint(sin_sin, {.policy = policy}));
    const tl::ClosedJaxpr traced = tl::make_jaxpr(g)(Array(0.5));
    EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr) << traced;
  }
  // Such a policy saves by its names, also when it has been parsed.
  const auto named = [](Array x) {
    return tl::sin(tl::checkpoint_name(tl::sin(x), "a, (b)") * tl::checkpoint_name(x, "b"));
  };
  const auto f = tl::checkpoint(named, {.policy = policies::save_only_these_names({"a, (b)"})});
  EXPECT_THAT(tl::saved_residuals(f, 0.5).to_string(), HasSubstr("named 'a, (b)'"));
}

TEST(Checkpoint, ValuesAreNotKnownInside) {
  const auto f = tl::checkpoint([](Array x) { return x > 0.0 ? x : -x; }, {.name = "bent"});
  EXPECT_EQ(value(f(-2.0)), 2.0);
  EXPECT_ERROR(ConcretizationError, tl::grad(f)(-2.0), "checkpoint(bent)");
}

TEST(OptimizationBarrier, IsTheIdentityUnderEveryTransformation) {
  const auto f = [](Array x, Array y) {
    const auto [a, b] = tl::optimization_barrier(std::pair{x, y});
    return a * a * b;
  };
  EXPECT_EQ(value(f(3.0, 5.0)), 45.0);
  EXPECT_EQ(value(tl::jit(f)(3.0, 5.0)), 45.0);
  EXPECT_EQ(value(tl::grad(f)(3.0, 5.0)), 30.0);
  EXPECT_EQ(value(tl::jit(tl::grad(tl::jit(f)))(3.0, 5.0)), 30.0);
  expect_near(tl::vmap(f, {.in_axes = {0, tl::none}})(Array({1.0, 2.0}), 3.0), {3, 12});
  EXPECT_EQ(value(tl::jvp(f, std::tuple{3.0, 5.0}, std::tuple{1.0, 0.0}).second), 30.0);
  EXPECT_EQ(value(tl::hessian(f)(3.0, 5.0)), 10.0);
}

TEST(OptimizationBarrier, StopsPassesButCostsNoCopy) {
  TELAMON_TEST_NEEDS_COMPILER();
  const auto f = [](Array x) {
    const Array y = tl::optimization_barrier(x);
    return std::pair{tl::sin(x), tl::sin(y)};
  };
  const Array x({0.1, 0.2, 0.3});
  const auto traced = tl::make_jaxpr(f)(x);
  EXPECT_EQ(count_eqns(tl::eliminate_common_subexpressions(traced.jaxpr), "sin"), 2);
  const auto g = tl::jit(f, {.backend = "llvm"});
  const auto [a, b] = g(x);
  expect_near(a, values(b), 0);
  const auto info = tl::last_executable();
  EXPECT_EQ(info.library_calls, 0);
  EXPECT_EQ(info.arena_bytes, 0u);
}

TEST(OptimizationBarrier, PassesLiteralsArgumentsAndResults) {
  TELAMON_TEST_NEEDS_COMPILER();
  const auto f = [](Array x) {
    const Array s = tl::sin(x);
    const auto t = tl::optimization_barrier(std::vector<Array>{x, s, Array(2.5)});
    return std::tuple{t[0], t[1], t[2], s, t[1] * t[2]};
  };
  const auto [a, b, c, d, e] = tl::jit(f, {.backend = "llvm"})(Array({0.5, 1.0}));
  expect_near(a, {0.5, 1.0});
  expect_near(b, {std::sin(0.5), std::sin(1.0)});
  EXPECT_EQ(value(c), 2.5);
  expect_near(d, values(b));
  expect_near(e, {2.5 * std::sin(0.5), 2.5 * std::sin(1.0)});
}

TEST(OptimizationBarrier, CallsPrintParseAndLoseWhatNobodyUses) {
  const auto f = [](Array x, Array y) {
    return tl::optimization_barrier(std::pair{x, tl::sin(y)}).first;
  };
  const auto traced = tl::make_jaxpr(f)(Array(1.0), Array(2.0));
  EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr);
  EXPECT_EQ(count_eqns(tl::eliminate_dead_code(traced.jaxpr), "sin"), 0);
}

TEST(CheckpointName, IsAnIdentityThatStaysInThePrimalProgram) {
  const auto f = [](Array x) { return tl::checkpoint_name(std::pair{x * x, x}, "pair").first; };
  EXPECT_EQ(value(tl::grad(f)(3.0)), 6.0);
  EXPECT_EQ(value(tl::jit(tl::grad(f))(3.0)), 6.0);
  expect_near(tl::vmap(f)(Array({1.0, 2.0})), {1, 4});
  const auto traced = tl::make_jaxpr(f)(Array(3.0));
  EXPECT_THAT(traced.to_string(), HasSubstr("name [ name=pair ]")) << traced;
  EXPECT_EQ(tl::parse_jaxpr(traced.to_string()), traced.jaxpr);
}

}  // namespace
}  // namespace telamon_test
