// while_loop and fori_loop: values, forward and reverse mode, batches, errors.
#include "control_flow/support.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {
namespace {

// Newton's iteration for sqrt(a), until it is good.
Array newton(const Array& a, tl::WhileOptions options = {}) {
  return tl::while_loop([&](Array x) { return tl::abs(x * x - a) > 1e-13; },
                        [&](Array x) { return 0.5 * (x + a / x); }, a, options);
}
// A power by repeated multiplication: the number of steps depends on n alone.
Array power(const Array& x, const Array& n, tl::WhileOptions options = {}) {
  return tl::while_loop([&](std::pair<Array, Array> s) { return s.first < n; },
                        [&](std::pair<Array, Array> s) {
                          return std::pair{s.first + 1, tl::sin(s.second) * x};
                        },
                        std::pair{Array(0), x}, options)
      .second;
}
double power_of(double x, int n) {
  double y = x;
  for (int i = 0; i < n; ++i) y = std::sin(y) * x;
  return y;
}
double slope_of(double x, int n) { return (power_of(x + 1e-6, n) - power_of(x - 1e-6, n)) / 2e-6; }

TEST(While, LoopsUntilTheConditionFails) {
  EXPECT_NEAR(value(newton(2.0)), std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(value(tl::jit([](Array a) { return newton(a); })(2.0)), std::sqrt(2.0), 1e-12);
  EXPECT_EQ(
      value(tl::while_loop([](Array x) { return x < 0; }, [](Array x) { return x + 1; }, 3.0)), 3);
}

TEST(While, HasForwardDerivatives) {
  const auto f = [](Array x) { return power(x, 3); };
  tl::check_grads(f, std::tuple{Array(0.75)}, {.order = 2, .modes = tl::GradMode::forward});
  const auto g = tl::jit([](Array x, Array n) { return power(x, n); });
  const auto h = [&](Array x) { return g(x, 3); };
  tl::check_grads(h, std::tuple{Array(0.75)}, {.order = 2, .modes = tl::GradMode::forward});
}

TEST(While, LinearizesUnderJitToo) {
  const auto f = tl::jit([](Array x, Array n) { return power(x, n); });
  const auto [y, push] = tl::linearize([&](Array x) { return f(x, 4); }, 0.75);
  EXPECT_NEAR(value(y), power_of(0.75, 4), 1e-12);
  EXPECT_NEAR(value(push(1.0)), slope_of(0.75, 4), 1e-8);
}

TEST(While, HasGradientsWhereTheNumberOfStepsIsKnown) {
  for (const int n : {0, 1, 2, 3, 5, 8}) {
    EXPECT_NEAR(value(tl::grad([&](Array x) { return power(x, n); })(0.75)), slope_of(0.75, n),
                1e-8)
        << n;
  }
  tl::check_grads([](Array x) { return power(x, 5); }, std::tuple{Array(0.75)}, {.order = 2});
  tl::check_grads([](Array a) { return newton(a); }, std::tuple{Array(2.0)},
                  {.order = 1, .rtol = 1e-4});
}

// The length of the one scan of a linear function.
std::int64_t staged_steps(const tl::Jaxpr& linear) {
  EXPECT_EQ(tl::count_eqns(linear, "scan"), 1) << linear;
  for (const tl::Eqn& eqn : linear.eqns())
    if (eqn.primitive == &tl::scan_p) return eqn.params.as<tl::ScanParams>().length;
  return -1;
}

TEST(While, StagesAsManyStepsAsItTook) {
  for (const int n : {0, 1, 3, 9, 16, 33}) {
    const auto linear = tl::linearize([&](Array x) { return power(x, n); }, 0.75).second;
    EXPECT_EQ(staged_steps(linear.jaxpr()), n) << linear.jaxpr();
    for (const tl::Aval& kept : linear.jaxpr().in_avals())
      EXPECT_LE(kept.size(), std::max(n, 1)) << linear.jaxpr();  // no mask, no padding
    EXPECT_EQ(tl::count_eqns(linear.jaxpr(), "cond"), 0) << linear.jaxpr();
    EXPECT_NEAR(value(linear(1.0)), slope_of(0.75, n), 1e-8);
  }
  // A batch: until the last example is done.
  const auto batch = [](Array x) {
    return tl::vmap([](Array a, Array n) { return power(a, n); })(x, Array({3, 9}));
  };
  const auto linear = tl::linearize(batch, Array({0.75, 0.5})).second;
  EXPECT_EQ(staged_steps(linear.jaxpr()), 9) << linear.jaxpr();
  expect_near(linear(Array({1.0, 1.0})), {slope_of(0.75, 3), slope_of(0.5, 9)}, 1e-8);
}

TEST(While, CompilesOnceForAllNumbersOfSteps) {
  using Three = std::tuple<Array, Array, Array>;
  const auto f = [](Array x, Array n) {
    return std::get<2>(
        tl::while_loop([](const Three& s) { return std::get<0>(s) < std::get<1>(s); },
                       [&](const Three& s) {
                         const auto& [i, m, y] = s;
                         return Three{i + 1, m, tl::sin(y) * x};
                       },
                       Three{Array(0).astype(tl::i32), n.astype(tl::i32), x}));
  };
  const auto slope = [&](int n) { return value(tl::grad(f)(0.75, n)); };
  EXPECT_NEAR(slope(3), slope_of(0.75, 3), 1e-8);
  const auto before = tl::counters().lowerings;
  for (int n = 4; n < 40; ++n) EXPECT_NEAR(slope(n), slope_of(0.75, n), 1e-8);
  EXPECT_EQ(tl::counters().lowerings, before);
}

TEST(While, StagesOneScanOverTheStepsThatItTook) {
  const auto linear = tl::linearize([](Array x) { return power(x, 5); }, 0.75).second;
  EXPECT_EQ(tl::count_eqns(linear.jaxpr(), "scan"), 1) << linear.jaxpr();
  EXPECT_EQ(tl::count_eqns(linear.jaxpr(), "while"), 0);
  for (const char* again : {"sin", "cos", "lt"})
    EXPECT_EQ(tl::count_eqns(linear.jaxpr(), again), 0) << linear.jaxpr();
  expect_sound(linear.jaxpr());
}

TEST(While, HasGradientsUnderJitWithMaxSteps) {
  for (const int n : {0, 1, 4, 7, 10}) {
    const auto f = tl::jit([](Array x, Array m) { return power(x, m, {.max_steps = 10}); });
    EXPECT_NEAR(value(f(0.75, n)), power_of(0.75, n), 1e-12);
    EXPECT_NEAR(value(tl::grad(f)(0.75, n)), slope_of(0.75, n), 1e-8) << n;
    EXPECT_NEAR(value(tl::jit(tl::grad(f))(0.75, n)), slope_of(0.75, n), 1e-8) << n;
  }
  tl::check_grads(tl::jit([](Array x) { return power(x, 5, {.max_steps = 7}); }),
                  std::tuple{Array(0.75)}, {.order = 2});
}

TEST(While, HasTheSameGradientsWithCheckpoints) {
  for (const int n : {0, 1, 5, 8, 17, 40}) {
    const tl::WhileOptions options{.max_steps = 40, .checkpoint = true};
    const auto f = [&](Array x, Array m) { return power(x, m, options); };
    const double want = slope_of(0.75, n);
    EXPECT_NEAR(value(tl::jit(f)(0.75, n)), power_of(0.75, n), 1e-12);
    EXPECT_NEAR(value(tl::jit(tl::grad(f))(0.75, n)), want, 1e-8) << n;
    EXPECT_NEAR(value(tl::grad(tl::jit(f))(0.75, n)), want, 1e-8) << n;
    EXPECT_NEAR(value(tl::grad(f)(0.75, n)), want, 1e-8) << n;
  }
  const auto bounded = [](Array x, Array m) {
    return power(x, m, {.max_steps = 12, .checkpoint = true});
  };
  tl::check_grads(tl::jit([&](Array x) { return bounded(x, 10); }), std::tuple{Array(0.75)},
                  {.order = 2});
  // Examples that end apart.
  const Array ms({3, 12, 0, 9}), xs({0.5, 0.75, 1.0, 1.25});
  const Array mapped = tl::jit(tl::vmap(tl::grad(bounded)))(xs, ms);
  const Array outside =
      tl::jit(tl::grad([&](Array x) { return tl::sum(tl::vmap(bounded)(x, ms)); }))(xs);
  for (int i = 0; i < 4; ++i) {
    const double want = slope_of(value(xs(i)), ms(i).item<int>());
    EXPECT_NEAR(value(mapped(i)), want, 1e-8);
    EXPECT_NEAR(value(outside(i)), want, 1e-8);
  }
  expect_sound(tl::make_jaxpr(tl::grad(bounded))(0.75, 10).jaxpr);
  EXPECT_ERROR(ValueError, power(0.75, 3, {.checkpoint = true}),
               "while_loop: checkpoint needs max_steps");
}

TEST(While, EndsAfterMaxSteps) {
  const auto f = [](Array x) {
    return tl::while_loop([](Array) { return Array(true); }, [](Array y) { return y + 1; }, x,
                          {.max_steps = 6});
  };
  EXPECT_EQ(value(f(1.0)), 7);
  EXPECT_EQ(value(tl::jit(f)(1.0)), 7);
  // Each example of a batch counts for itself.
  const auto g = [](Array x) {
    return tl::while_loop([](Array y) { return y < 10; }, [](Array y) { return y + 1; }, x,
                          {.max_steps = 3});
  };
  expect_near(tl::vmap(g)(Array({0.0, 8.0, 9.0, 12.0, 7.0})), {3, 10, 10, 12, 10});
}

TEST(While, FreezesExamplesThatAreDone) {
  const auto f = [](Array x) {
    return tl::while_loop([](Array y) { return y < 3; }, [](Array y) { return y + 2; }, x);
  };
  EXPECT_EQ(tl::vmap(f)(Array({0, 1, 2, 3})).to_vector<int>(), (std::vector<int>{4, 3, 4, 3}));
  EXPECT_EQ(tl::jit(tl::vmap(f))(Array({0, 1, 2, 3})).to_vector<int>(),
            (std::vector<int>{4, 3, 4, 3}));
}

TEST(While, MapsOverConstsOfConditionAndBody) {
  const auto f = [](Array limit, Array stride, Array x) {
    return tl::while_loop([&](Array y) { return y < limit; }, [&](Array y) { return y + stride; },
                          x);
  };
  const auto want = [](double limit, double stride, double x) {
    while (x < limit) x += stride;
    return x;
  };
  const Array limits({1.0, 5.0, 9.0}), strides({1.0, 2.0, 3.0}), xs({0.0, 1.0, 8.0});
  for (int mask = 1; mask < 8; ++mask) {
    const auto axis = [&](int bit) { return mask & bit ? tl::Axes(0) : tl::Axes(tl::none); };
    const auto pick = [&](int bit, const Array& a) { return mask & bit ? a : a(1); };
    const Array got = tl::vmap(f, {.in_axes = {axis(1), axis(2), axis(4)}})(
        pick(1, limits), pick(2, strides), pick(4, xs));
    std::vector<double> expected;
    for (int i = 0; i < 3; ++i) {
      const auto at = [&](int bit, const Array& a) {
        return values(a)[mask & bit ? static_cast<std::size_t>(i) : 1];
      };
      expected.push_back(want(at(1, limits), at(2, strides), at(4, xs)));
    }
    expect_near(got, expected);
  }
}

TEST(While, MapsTwice) {
  const auto f = [](Array limit, Array x) {
    return tl::while_loop([&](Array y) { return tl::sum(y) < limit; },
                          [&](Array y) { return y * 2.0; }, x * tl::ones({2}));
  };
  const Array limits({1.0, 5.0, 100.0}), xs({0.5, 1.0});
  const auto inner = tl::vmap(f, {.in_axes = {tl::none, 0}});
  const Array got = tl::vmap(inner, {.in_axes = {0, tl::none}})(limits, xs);
  const Array other = tl::vmap(tl::vmap(f, {.in_axes = {0, tl::none}}),
                               {.in_axes = {tl::none, 0}, .out_axes = 1})(limits, xs);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      expect_equal(got(i, j), f(limits(i), xs(j)));
      expect_equal(other(i, j), f(limits(i), xs(j)));
    }
  }
  // Lanes of the inner loop, and a second axis on the carry alone.
  const auto lanes = [&](Array scale) {
    return tl::vmap([&](Array limit) {
      return tl::while_loop([&](std::pair<Array, Array> s) { return s.first < limit; },
                            [&](std::pair<Array, Array> s) {
                              return std::pair{s.first + 1, s.second * scale};
                            },
                            std::pair{Array(0.0), Array(1.0)})
          .second;
    })(limits);
  };
  const Array powers = tl::vmap(lanes)(Array({2.0, 3.0}));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j)
      EXPECT_DOUBLE_EQ(value(powers(i, j)),
                       std::pow(2.0 + i, values(limits)[static_cast<std::size_t>(j)]));
  }
}

TEST(While, HasGradientsOfBatches) {
  const Array n({3, 0, 5, 1}), x({0.75, 0.5, 1.25, -0.5});
  std::vector<double> want;
  for (std::size_t i = 0; i < 4; ++i) want.push_back(slope_of(values(x)[i], n.to_vector<int>()[i]));
  const auto total = [&](Array a) {
    return tl::sum(tl::vmap([](Array y, Array m) { return power(y, m); })(a, n));
  };
  expect_near(tl::grad(total)(x), want, 1e-8);  // the steps of all lanes are known
  const auto bounded = [](Array y, Array m) { return power(y, m, {.max_steps = 6}); };
  expect_near(tl::vmap(tl::grad(bounded))(x, n), want, 1e-8);
  expect_near(tl::jit(tl::vmap(tl::grad(bounded)))(x, n), want, 1e-8);
  expect_near(tl::jit(tl::grad([&](Array a) { return tl::sum(tl::vmap(bounded)(a, n)); }))(x), want,
              1e-8);
}

TEST(While, KeepsNanOfFinishedLanesOutOfGradients) {
  // At 0 the derivative of sqrt is infinite. A lane that has arrived there waits for the others.
  const auto f = [](Array x) {
    return tl::while_loop([](Array y) { return y > 0.0; },
                          [](Array y) { return tl::sqrt(y) - 1.0; }, x, {.max_steps = 5});
  };
  const Array x({1.0, 4.0, 16.0});
  const Array got = tl::grad([&](Array a) { return tl::sum(tl::vmap(f)(a)); })(x);
  const Array jitted = tl::jit(tl::vmap(tl::grad(f)))(x);
  for (int i = 0; i < 3; ++i) {
    const Array want = tl::grad(f)(x(i));
    expect_equal(got(i), want);
    expect_equal(jitted(i), want);
    EXPECT_TRUE(std::isfinite(value(want)));
  }
}

TEST(While, RefusesReverseModeWithoutABound) {
  const auto f = tl::jit([](Array x) { return newton(x); });
  const std::string message = error_of<tl::ValueError>([&] { tl::grad(f)(2.0); });
  EXPECT_THAT(message, testing::HasSubstr(
                           "Reverse-mode differentiation does not work for tl::while_loop or "
                           "tl::fori_loop with dynamic start/stop values. Try using tl::scan, or "
                           "using fori_loop with static start/stop."));
  EXPECT_THAT(message, testing::HasSubstr(".max_steps"));
  EXPECT_THAT(message, testing::HasSubstr("not within jit, checkpoint, scan or another loop, nor "
                                          "under a vmap of the derivative"));
}

TEST(While, HasGradientsInTheBranchThatIsTaken) {
  const auto f = [](Array p, Array x) {
    return tl::cond(
        p,
        [](Array a) {
          const Array y = tl::sin(a);
          return std::pair{tl::cos(power(y, 5)) * y, Array(1.0) * 2.0};
        },
        [](Array a) { return std::pair{a * a, Array(1.0) * 3.0}; }, x);
  };
  const auto first = [&](Array x) { return f(true, x).first; };
  const auto want = [](double x) { return std::cos(power_of(std::sin(x), 5)) * std::sin(x); };
  const double slope = (want(0.8 + 1e-6) - want(0.8 - 1e-6)) / 2e-6;
  EXPECT_NEAR(value(tl::grad(first)(0.8)), slope, 1e-8);
  EXPECT_NEAR(value(tl::grad([&](Array x) { return f(false, x).first; })(0.8)), 1.6, 1e-12);
  EXPECT_EQ(value(tl::grad([&](Array x) { return f(true, x).second; })(0.8)), 0);
  tl::check_grads(first, std::tuple{Array(0.8)}, {.order = 2});
  // Branches in branches, and a batch of loops in one.
  const auto nested = [&](Array x) {
    return tl::cond(
        true, [&](Array a) { return tl::cond(false, [](Array b) { return b; }, first, a); },
        [](Array a) { return a; }, x);
  };
  EXPECT_NEAR(value(tl::grad(nested)(0.8)), slope, 1e-8);
  const auto batch = [](Array xs) {
    return tl::cond(
        true,
        [](Array a) {
          return tl::sum(tl::vmap([](Array b, Array n) { return power(b, n); })(a, Array({2, 5})));
        },
        [](Array a) { return tl::sum(a); }, xs);
  };
  expect_near(tl::grad(batch)(Array({0.7, 0.9})), {slope_of(0.7, 2), slope_of(0.9, 5)}, 1e-8);
  // Only the predicate's value is known there.
  EXPECT_ERROR(ValueError, tl::grad(tl::jit([&](Array x) { return first(x); }))(0.8),
               "not within jit, checkpoint, scan or another loop");
  EXPECT_ERROR(ValueError, tl::jit(tl::grad(first))(0.8), "not within jit");
}

TEST(While, LosesDeadCarry) {
  const auto program = tl::make_jaxpr([](Array x) {
    return tl::while_loop([](std::pair<Array, Array> s) { return s.first < 3.0; },
                          [](std::pair<Array, Array> s) {
                            return std::pair{s.first + 1.0, tl::exp(s.second)};
                          },
                          std::pair{x, x})
        .first;
  })(1.0);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "exp"), 0) << program.to_string();
  expect_sound(program.jaxpr);
}

TEST(WhileErrors, NameTheLeaf) {
  const auto less = [](std::pair<Array, Array> s) { return s.first < 3.0; };
  EXPECT_ERROR(
      TypeError,
      tl::while_loop(
          less, [](std::pair<Array, Array> s) { return std::pair{s.first, tl::ones({3})}; },
          std::pair{Array({1.0})(0), Array({1.0})(0)}),
      "while_loop: the body's carry input and carry output must have equal types, but "
      "they differ:\n\nThe input carry component carry[1] has type f64[] but the "
      "corresponding output carry component has type");
  EXPECT_ERROR(TypeError, tl::while_loop([](Array x) { return x; }, [](Array x) { return x; }, 1.0),
               "while_loop: the condition must return a boolean scalar, but got output type");
  EXPECT_ERROR(
      TypeError,
      tl::while_loop([](Array x) { return x > tl::ones({2}); }, [](Array x) { return x; }, 1.0),
      "while_loop: the condition must return a boolean scalar, but got output type");
}

// ---- fori_loop -----------------------------------------------------------------------------------

TEST(Fori, IsAScanWithKnownBounds) {
  const auto f = [](Array x) {
    return tl::fori_loop(
        2, 6, [](Array i, Array c) { return c * i.astype(tl::DType::f64) + 1.0; }, x);
  };
  double want = 0.5;
  for (int i = 2; i < 6; ++i) want = want * i + 1;
  EXPECT_DOUBLE_EQ(value(f(0.5)), want);
  const auto program = tl::make_jaxpr(f)(0.5);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "scan"), 1);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "while"), 0);
  EXPECT_DOUBLE_EQ(value(tl::grad(f)(0.5)), 2 * 3 * 4 * 5);
  EXPECT_DOUBLE_EQ(value(tl::jit(tl::grad(f))(0.5)), 2 * 3 * 4 * 5);
  EXPECT_EQ(value(tl::fori_loop(5, 2, [](Array, Array c) { return c + 1.0; }, 1.0)), 1);
}

TEST(Fori, IsAWhileLoopWithTracedBounds) {
  const auto f = tl::jit([](Array n, Array x) {
    return tl::fori_loop(
        0, n, [&](Array i, Array c) { return c + x * i.astype(tl::DType::f64); }, x);
  });
  EXPECT_DOUBLE_EQ(value(f(4, 2.0)), 2 + 2 * 6);
  EXPECT_DOUBLE_EQ(value(f(0, 2.0)), 2);
  EXPECT_EQ(tl::count_eqns(tl::make_jaxpr(f)(4, 2.0).jaxpr, "while"), 1);
  expect_near(tl::vmap(f)(Array({1, 4}), Array({2.0, 3.0})), {2, 21});
}

// As in JAX.
TEST(Fori, OfTracedBoundsRefusesToUnroll) {
  const auto f = [](Array n, std::int64_t unroll) {
    return tl::fori_loop(0, n, [](Array, Array c) { return c + 1.0; }, 0.5, {.unroll = unroll});
  };
  EXPECT_DOUBLE_EQ(value(f(4, 2)), 4.5);
  EXPECT_DOUBLE_EQ(value(tl::jit([&](Array n) { return f(n, 1); })(4)), 4.5);
  EXPECT_ERROR(ValueError, tl::jit([&](Array n) { return f(n, 2); })(4),
               "Can only use `unroll` in `fori_loop` if the loop bounds are statically known; of "
               "~i32[] and ~i32[] one is traced");
}

TEST(Fori, IndexesArrays) {
  const auto f = [](Array x) {
    return tl::fori_loop(0, 4, [&](Array i, Array c) { return c * x(i); }, 1.0);
  };
  expect_near(tl::grad(f)(Array({1.0, 2.0, 3.0, 4.0})), {24, 12, 8, 6});
  EXPECT_ERROR(TypeError,
               tl::fori_loop(
                   0, 1.5, [](Array, Array c) { return c; }, 1.0),
               "fori_loop: bounds must be integer scalars");
}

}  // namespace
}  // namespace telamon_test
