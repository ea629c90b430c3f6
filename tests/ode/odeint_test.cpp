// Solutions of differential equations against exact ones, against JAX and SciPy, and their gradients in
// both ways against finite differences and each other.
#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

namespace ode = tl::ode;
using ode::Gradient;
using ode::Method;
using ode::odeint;
using testing::HasSubstr;

constexpr ode::Options kTight{.rtol = 1e-10, .atol = 1e-10};

/// Predators and prey; the comments at literals give the expressions in Python.
Array lotka_volterra(const Array& y, const Array&, const std::vector<Array>& p) {
  const Array prey = y(0), predators = y(1);
  return tl::stack(
      {p[0] * prey - p[1] * prey * predators, p[3] * prey * predators - p[2] * predators});
}
const std::vector<Array>& lotka_volterra_rates() {
  static const std::vector<Array> rates{1.5, 1.0, 3.0, 1.0};
  return rates;
}
Array ones_of(int n) { return tl::ones({n}, tl::f64); }

// ---- values ------------------------------------------------------------------------------------

TEST(Odeint, SolvesTheExponentialAtRequestedTimes) {
  const auto decay = [](const Array& y, const Array&) { return -y; };
  const Array ts({0.0, 0.1, 0.7, 0.7, 3.0});  // two are equal
  for (const Method method : {Method::dopri5, Method::rk4}) {
    const Array ys =
        odeint(decay, 2.0, ts, {.method = method, .rtol = 1e-10, .atol = 1e-10, .steps = 200});
    expect_near(ys, values(2.0 * tl::exp(-ts)), 1e-8);
  }
}

TEST(Odeint, AgreesWithJax) {
  // odeint(lv, [1., 1.], [0, 1, 2.5, 4], (1.5, 1., 3., 1.), rtol=1e-10, atol=1e-10)
  const std::vector<double> jax{1.0,
                                1.0,
                                2.7728509018478906,
                                0.25871087820307825,
                                2.178345174584865,
                                4.3692322770912435,
                                1.88437269105735,
                                0.3234785567187673};
  const Array ts({0.0, 1.0, 2.5, 4.0});
  expect_near(odeint(lotka_volterra, ones_of(2), ts, lotka_volterra_rates(), kTight), jax, 2e-8);
  const auto compiled = tl::jit([](const Array& y0, const Array& times) {
    return odeint(lotka_volterra, y0, times, lotka_volterra_rates(), kTight);
  });
  expect_near(compiled(ones_of(2), ts), jax, 2e-8);
}

TEST(Odeint, AgreesWithSciPyWhereStepsMustChange) {
  struct State {
    Array x, v;
  };
  const auto van_der_pol = [](const State& s, const Array&) {
    return State{s.v, 2.0 * (1 - tl::square(s.x)) * s.v - s.x};
  };
  const State path =
      odeint(van_der_pol, State{2.0, 0.0}, tl::linspace(0.0, 6.0, 5, {.dtype = tl::f64}),
             {.rtol = 1e-11, .atol = 1e-11});
  // solve_ivp(vdp, (0, 6), [2, 0], rtol=1e-12, atol=1e-12, method='DOP853')
  expect_near(
      path.x,
      {2.0, 1.4701072949343204, -0.39366731836020397, -1.8198567652054733, -1.0212667705425582},
      1e-7);
  expect_near(
      path.v,
      {0.0, -0.512904193555883, -3.336634037363842, 0.36480391427174136, 0.8694066425089281}, 1e-7);
}

TEST(Odeint, FollowsDecreasingTimes) {
  const auto oscillator = [](const std::pair<Array, Array>& s, const Array& t) {
    return std::pair{s.second + 0 * t, -s.first};
  };
  const Array ts({1.0, 0.5, -2.0});
  for (const Method method : {Method::dopri5, Method::rk4}) {
    const auto [x, v] = odeint(oscillator, std::pair{tl::sin(1.0), tl::cos(1.0)}, ts,
                               {.method = method, .rtol = 1e-10, .atol = 1e-10, .steps = 200});
    expect_near(x, values(tl::sin(ts)), 1e-8);
    expect_near(v, values(tl::cos(ts)), 1e-8);
  }
}

TEST(Odeint, KeepsTheDtypeOfEveryLeaf) {
  struct State {
    Array a, b;
  };
  const auto f = [](const State& s, const Array& t) {
    return State{-s.a * t.astype(tl::f32), tl::cos(t) * tl::ones({2}, tl::f64)};
  };
  for (const Method method : {Method::dopri5, Method::rk4}) {
    const State ys = odeint(f, State{tl::ones({}, tl::f32), tl::zeros({2}, tl::f64)},
                            Array({0.0, 1.0, 2.0}), {.method = method, .rtol = 1e-6, .steps = 20});
    EXPECT_EQ(ys.a.aval().to_string(), "f32[3]");
    EXPECT_EQ(ys.b.aval().to_string(), "f64[3,2]");
    EXPECT_NEAR(value(ys.a(2)), std::exp(-2.0), 1e-5);
    EXPECT_NEAR(value(ys.b(2, 1)), std::sin(2.0), 1e-5);
  }
}

TEST(Odeint, OfOneTimeIsTheInitialState) {
  const auto f = [](const Array& y, const Array&) { return y; };
  const Array ys = odeint(f, Array({3.0, 4.0}), Array({0.5}));
  EXPECT_EQ(ys.aval().to_string(), "f64[1,2]");
  expect_near(ys, {3.0, 4.0});
}

TEST(Odeint, MapsOverStatesAndArguments) {
  // Oscillators whose steps differ: cos(w t).
  const auto end = [](const Array& x0, const Array& w) {
    const auto f = [](const Array& s, const Array&, const Array& k) {
      return tl::stack({s(1), -k * k * s(0)});
    };
    const Array start = tl::stack({x0, tl::zeros_like(x0)});
    return odeint(f, start, Array({0.0, 2.0}), w, kTight)(1, 0);
  };
  const Array x0({1.0, 2.0, -1.0}), w({1.0, 3.0, 20.0});
  const Array want = x0 * tl::cos(2.0 * w);
  expect_near(tl::vmap(end)(x0, w), values(want), 1e-7);
  expect_near(tl::jit(tl::vmap(end))(x0, w), values(want), 1e-7);
}

// ---- order of convergence ----------------------------------------------------------------------

/// The error at t = 2 of a nonlinear equation with an exact solution: y' = -2 t y^2, y = 1 / (1 + t^2).
double error_of_rk4(int steps) {
  const auto f = [](const Array& y, const Array& t) { return -2.0 * t * y * y; };
  const Array y = odeint(f, 1.0, Array({0.0, 2.0}), {.method = Method::rk4, .steps = steps});
  return std::abs(value(y(1)) - 0.2);
}

TEST(Rk4, ErrsWithTheFourthPowerOfTheStep) {
  for (const int steps : {10, 20, 40}) {
    const double order = std::log2(error_of_rk4(steps) / error_of_rk4(2 * steps));
    EXPECT_NEAR(order, 4, 0.4) << steps << " steps";
  }
}

TEST(Dopri5, ErrsLittleMoreThanItsTolerance) {
  const auto f = [](const Array& y, const Array& t) { return -2.0 * t * y * y; };
  const Array ts = tl::linspace(0.0, 2.0, 33, {.dtype = tl::f64});
  double last = 1;
  for (const double tolerance : {1e-4, 1e-6, 1e-8, 1e-10}) {
    const Array ys = odeint(f, 1.0, ts, {.rtol = tolerance, .atol = tolerance});
    const double error = value(tl::max(tl::abs(ys - 1 / (1 + ts * ts))));
    EXPECT_LT(error, 20 * tolerance) << "also between the steps";
    EXPECT_LT(error, last);
    last = error;
  }
}

TEST(Dopri5, IntegratesPolynomialsOfDegreeFourExactlyAlsoBetweenSteps) {
  const auto f = [](const Array&, const Array& t) { return 5.0 * tl::power(t, 4); };
  const Array ts = tl::linspace(0.0, 2.0, 17, {.dtype = tl::f64});
  const auto cubic = [](const Array&, const Array& t) { return 4.0 * tl::power(t, 3); };
  expect_near(odeint(cubic, 0.0, ts, {.rtol = 1e-3, .atol = 1e-3}), values(tl::power(ts, 4)),
              1e-12);
  // Of degree 5 the ends of steps are exact, and so is the last time.
  EXPECT_NEAR(value(odeint(f, 0.0, Array({0.0, 2.0}), {.rtol = 1e-3, .atol = 1e-3})(1)), 32, 1e-11);
}

TEST(Dopri5, NeverEvaluatesBeyondTheLastTime) {
  // sqrt(1 - t) is NaN beyond 1.
  const auto f = [](const Array&, const Array& t) { return -0.5 / tl::sqrt(1.0 - t + 1e-12); };
  const Array ys = odeint(f, 1.0, Array({0.0, 0.5, 1.0 - 1e-6}), {.rtol = 1e-6, .atol = 1e-6});
  expect_near(ys, {1.0, std::sqrt(0.5), 1e-3}, 1e-4);
}

// ---- gradients ---------------------------------------------------------------------------------

struct Way {
  Method method;
  Gradient gradient;
};
const Way kWays[] = {{Method::dopri5, Gradient::adjoint},
                     {Method::dopri5, Gradient::discrete},
                     {Method::rk4, Gradient::adjoint},
                     {Method::rk4, Gradient::discrete}};
ode::Options options_of(const Way& way) {
  return {.method = way.method,
          .rtol = 1e-10,
          .atol = 1e-10,
          .max_steps = 200,
          .steps = 100,
          .gradient = way.gradient};
}
std::string name_of(const Way& way) {
  return std::string(way.method == Method::dopri5 ? "dopri5" : "rk4") +
         (way.gradient == Gradient::adjoint ? ", adjoint" : ", discrete");
}

TEST(GradientOfOdeint, IsThatOfJaxInStateTimesAndArguments) {
  // jax.grad(lambda y0, ts, p: jnp.sum(w * odeint(lv, y0, ts, p, rtol=1e-10, atol=1e-10)), (0, 1, 2))
  const std::vector<double> y0_bar{4.3225536460915235, -2.810406143763444};
  const std::vector<double> ts_bar{-7.2320891124057995, 1.7150782361476882, 2.9391244863627666,
                                   2.577886389895345};
  const std::vector<double> p_bar{10.242621322795385, -4.060491587311603, 1.9314658276752201,
                                  2.2765971280433335};
  const Array w({{0.3, -0.2}, {0.5, 0.1}, {-0.7, 0.4}, {1.0, -1.0}});
  for (const Way& way : kWays) {
    SCOPED_TRACE(name_of(way));
    const auto loss = [&](const Array& y0, const Array& ts, const std::vector<Array>& p) {
      return tl::sum(w * odeint(lotka_volterra, y0, ts, p, options_of(way)));
    };
    const Array ts({0.0, 1.0, 2.5, 4.0});
    const auto [y0_got, ts_got, p_got] =
        tl::jit(tl::grad<0, 1, 2>(loss))(ones_of(2), ts, lotka_volterra_rates());
    expect_near(y0_got, y0_bar, 2e-6);
    expect_near(ts_got, ts_bar, 2e-6);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(value(p_got[i]), p_bar[i], 2e-6);
  }
}

TEST(GradientOfOdeint, IsTheSlopeAtTimesThatCoincide) {
  // y(t) = exp(t0 - t), and the loss is the sum over the times.
  const auto decay = [](const Array& y, const Array&) { return -y; };
  const double e = std::exp(-1.0);
  const std::pair<Array, std::vector<double>> cases[] = {
      {Array({0.0, 0.0, 1.0}), {1 + e, -1, -e}},
      {Array({0.0, 0.0, 0.0, 1.0}), {2 + e, -1, -1, -e}},
      {Array({0.0, 1.0, 1.0}), {2 * e, -e, -e}},
      {Array({0.5, 0.5}), {1, -1}},
      {Array({1.0, 1.0, 0.0}), {1 + 1 / e, -1, -1 / e}}};
  for (const Way& way : kWays) {
    SCOPED_TRACE(name_of(way));
    const auto loss = [&](const Array& ts) {
      return tl::sum(odeint(decay, 1.0, ts, options_of(way)));
    };
    for (const auto& [ts, expected] : cases) {
      expect_near(tl::grad(loss)(ts), expected, 1e-7);
      expect_near(tl::jit(tl::grad(loss))(ts), expected, 1e-7);
    }
  }
  // The second derivative of y at t0, too: y(t1) = y.
  const auto loss = [&](const Array& ts) {
    return odeint(
        decay, 1.0, ts,
        {.rtol = 1e-10, .atol = 1e-10, .max_steps = 50, .gradient = Gradient::discrete})(1);
  };
  const auto second = [&](const Array& ts) {
    return tl::grad([&](const Array& at) { return tl::grad(loss)(at)(1); })(ts)(1);
  };
  EXPECT_NEAR(value(tl::jit(second)(Array({0.0, 0.0, 1.0}))), 1, 1e-4);
}

TEST(GradientOfOdeint, WorksWithoutJitAndInPytrees) {
  struct Params {
    Array mass, stiffness;
  };
  struct State {
    Array x, v;
  };
  const auto f = [](const State& s, const Array& t, const Params& p) {
    return State{s.v, (tl::sin(t) - p.stiffness * s.x) / p.mass};
  };
  for (const Way& way : kWays) {
    SCOPED_TRACE(name_of(way));
    const auto loss = [&](const State& s, const Params& p) {
      const State path = odeint(f, s, Array({0.0, 0.5, 1.5}), p, options_of(way));
      return tl::sum(tl::square(path.x)) + path.v(2);
    };
    tl::check_grads(loss, std::tuple{State{0.4, -0.3}, Params{1.3, 2.0}},
                    {.modes = tl::GradMode::reverse, .atol = 1e-5, .rtol = 1e-5});
  }
}

TEST(GradientOfOdeint, FlowsToWhatTheFieldCaptured) {
  const auto loss = [](const Array& rate, const Gradient& gradient) {
    const auto f = [&](const Array& y, const Array&) { return rate * y; };
    return odeint(f, 1.0, Array({0.0, 2.0}),
                  {.rtol = 1e-10, .atol = 1e-10, .max_steps = 200, .gradient = gradient})(1);
  };
  // d/dr exp(2 r) = 2 exp(2 r)
  for (const Gradient gradient : {Gradient::adjoint, Gradient::discrete}) {
    const auto of_rate = [&](const Array& rate) { return loss(rate, gradient); };
    EXPECT_NEAR(value(tl::grad(of_rate)(0.3)), 2 * std::exp(0.6), 1e-7);
    EXPECT_NEAR(value(tl::jit(tl::grad(of_rate))(0.3)), 2 * std::exp(0.6), 1e-7);
  }
}

TEST(GradientOfOdeint, IsMappedOverExamples) {
  for (const Gradient gradient : {Gradient::adjoint, Gradient::discrete}) {
    const auto end = [&](const Array& y0, const Array& rate) {
      const auto f = [](const Array& y, const Array& t, const Array& r) {
        return -r * y + tl::cos(t);
      };
      return odeint(f, y0, Array({0.0, 1.0}), rate,
                    {.rtol = 1e-9, .atol = 1e-9, .max_steps = 100, .gradient = gradient})(1);
    };
    const auto gradients = tl::grad<0, 1>(end);
    const Array y0({1.0, 2.0, 0.5}), rate({0.5, 4.0, 12.0});
    const auto [of_y0, of_rate] = tl::jit(tl::vmap(gradients))(y0, rate);
    expect_near(of_y0, values(tl::exp(-rate)), 1e-6);
    for (int i = 0; i < 3; ++i) {
      const auto [one_y0, one_rate] = gradients(y0(i), rate(i));
      EXPECT_NEAR(value(of_rate(i)), value(one_rate), 1e-6);
    }
  }
}

TEST(GradientOfOdeint, HasSecondOrder) {
  // y = y0 exp(r t): d^2 y / dr^2 = t^2 y.
  for (const Gradient gradient : {Gradient::adjoint, Gradient::discrete}) {
    const auto end = [&](const Array& rate) {
      const auto f = [](const Array& y, const Array&, const Array& r) { return r * y; };
      return odeint(f, 1.0, Array({0.0, 1.5}), rate,
                    {.rtol = 1e-9, .atol = 1e-9, .max_steps = 60, .gradient = gradient})(1);
    };
    EXPECT_NEAR(value(tl::jit(tl::grad(tl::grad(end)))(0.4)), 2.25 * std::exp(0.6), 1e-5);
  }
}

TEST(GradientOfOdeint, KeepsNothingOfTheSteps) {
  // Only what holds at the requested times: the discrete way makes the steps of dopri5 again.
  const auto kept = [](Gradient gradient, std::int64_t max_steps) {
    const auto loss = [&](const Array& y0) {
      const auto f = [](const Array& y, const Array& t) { return tl::sin(y) * t; };
      return tl::sum(
          odeint(f, y0, Array({0.0, 1.0, 2.0}), {.max_steps = max_steps, .gradient = gradient}));
    };
    return tl::saved_residuals(loss, tl::ones({50}, tl::f64)).bytes();
  };
  for (const Gradient gradient : {Gradient::adjoint, Gradient::discrete})
    EXPECT_EQ(kept(gradient, 100), kept(gradient, 1000));
  EXPECT_LT(kept(Gradient::discrete, 1000), 20 * 50 * sizeof(double));
}

TEST(GradientOfOdeint, ForwardModeIsForTheDiscreteOne) {
  const auto end = [](const Array& y0, Gradient gradient) {
    const auto f = [](const Array& y, const Array&) { return -y; };
    return odeint(f, y0, Array({0.0, 1.0}), {.max_steps = 100, .gradient = gradient})(1);
  };
  const auto pushed = [&](Gradient gradient) {
    return tl::jvp([&](const Array& y0) { return end(y0, gradient); }, std::tuple{Array(1.0)},
                   std::tuple{Array(1.0)});
  };
  EXPECT_NEAR(value(pushed(Gradient::discrete).second), std::exp(-1.0), 1e-6);
  EXPECT_ERROR(TypeError, pushed(Gradient::adjoint), "odeint");
}

// ---- errors ------------------------------------------------------------------------------------

TEST(OdeintErrors, NameTheIntervalWhereStepsRanOut) {
  const auto fast = [](const Array& y, const Array& t) { return tl::cos(1000.0 * t) * y; };
  const Array ts({0.0, 0.01, 5.0});
  EXPECT_ERROR(ValueError, odeint(fast, 1.0, ts, {.max_steps = 100}),
               "odeint: no end after 100 steps between t = 0.01 and t = 5.0");
  // Where values are not known, the time that was not reached has no value.
  const auto compiled =
      tl::jit([&](const Array& y0) { return odeint(fast, y0, ts, {.max_steps = 100}); });
  const Array ys = compiled(1.0);
  EXPECT_FALSE(std::isnan(value(ys(1))));
  EXPECT_TRUE(std::isnan(value(ys(2))));
}

TEST(OdeintErrors, NameASolutionThatEnds) {
  const auto explodes = [](const Array& y, const Array&) { return y * y; };  // 1 / (1 - t)
  EXPECT_ERROR(ValueError, odeint(explodes, 1.0, Array({0.0, 0.5, 2.0})),
               "between t = 0.5 and t = 2.0");
}

TEST(OdeintErrors, NameWrongArguments) {
  const auto f = [](const Array& y, const Array&) { return y; };
  const Array ts({0.0, 1.0});
  EXPECT_ERROR(TypeError, odeint(f, Array({1, 2}), ts),
               "the state must be of floating-point dtypes");
  EXPECT_ERROR(TypeError, odeint(f, 1.0, 2.0), "the times must be a vector");
  EXPECT_ERROR(TypeError, odeint(f, 1.0, tl::ones({0})), "the time of y0 at least, got f32[0]");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, Array({0.0, 2.0, 1.0})), "must increase or decrease");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, Array({0.0, std::nan("")})), "the times must be finite");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, Array({0.0, tl::inf})), "the times must be finite");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, ts, {.max_steps = 0}), "max_steps must be positive");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, ts, {.rtol = -1}), "must not be negative");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, ts, {.method = ode::Method(7)}),
               "odeint: there is no method of number 7");
  EXPECT_ERROR(ValueError, odeint(f, 1.0, ts, {.gradient = ode::Gradient(7)}),
               "odeint: there is no gradient of number 7");
  const auto slope = [&](const Array& y) { return tl::sum(odeint(f, y, ts)); };
  EXPECT_ERROR(TypeError, tl::jacfwd(slope)(1.0), "odeint with the adjoint gradient cannot be");
  EXPECT_ERROR(TypeError, tl::hessian(slope)(1.0), "{.gradient = tl::ode::Gradient::discrete}");
  const auto wrong = [](const Array& y, const Array&) { return tl::stack({y, y}); };
  EXPECT_ERROR(TypeError, odeint(wrong, 1.0, ts), "the derivative of y is f64[2]");
  const auto vectors = [](const std::vector<Array>&, const Array&) { return std::vector<Array>{}; };
  EXPECT_ERROR(TypeError, odeint(vectors, std::vector<Array>{1.0}, ts),
               "the derivative and the state");
  EXPECT_THAT(error_of([&] { odeint(f, 1.0, 2.0); }), HasSubstr("odeint_test.cpp"));
}

}  // namespace
}  // namespace telamon_test
