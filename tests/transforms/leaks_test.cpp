// Tracers that outlive their trace or are another's, and arrays that a jitted function captured: what is said of them.
#include <gmock/gmock.h>

#include <thread>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

TEST(Leaks, ALeakedTracerIsNamedAfterTheTransformationThatTheUserAskedFor) {
  Array leaked;
  const auto leaks = [&](Array x) { return leaked = x * 2.0; };
  tl::grad(leaks)(1.0);
  EXPECT_ERROR(LeakedTracerError, (void)(leaked + 1.0), " by grad");
  tl::jvp(leaks, std::tuple{Array(1.0)}, std::tuple{Array(1.0)});
  EXPECT_ERROR(LeakedTracerError, (void)(leaked + 1.0), " by jvp:");
  tl::vmap(leaks)(tl::ones({2}));
  EXPECT_ERROR(LeakedTracerError, (void)(leaked + 1.0), " by vmap:");
}

TEST(Leaks, NamesALeakedTracer) {
  Array leaked;
  tl::jit([&](Array x) {
    leaked = tl::sin(x);
    return x;
  })(1.0);
  EXPECT_ERROR(LeakedTracerError, (void)(leaked + 1.0), "encountered an unexpected tracer");
  EXPECT_ERROR(LeakedTracerError, (void)leaked.item<double>(), "leaks_test.cpp");
  tl::grad([&](Array x) {
    leaked = x * x;
    return x;
  })(1.0);
  EXPECT_ERROR(LeakedTracerError, (void)tl::sin(leaked), "unexpected tracer");
  tl::vmap([&](Array x) {
    leaked = x;
    return x;
  })(Array({1.0}));
  EXPECT_ERROR(LeakedTracerError, (void)tl::jit(f)(leaked), "unexpected tracer");
}

TEST(Leaks, NamesAnEscapedTracerWhereverItIsUsed) {
  Array leaked;
  const auto save = [&](Array x) {
    leaked = tl::sin(x);
    return x;
  };
  const auto use = [&](Array x) { return x * leaked; };
  const auto expect_named = [&](const char* how) {
    SCOPED_TRACE(how);
    EXPECT_ERROR(LeakedTracerError, (void)use(1.0), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, tl::jit(use)(1.0), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, tl::make_jaxpr(use)(1.0), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, tl::vmap(use)(Array({1.0})), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, tl::grad(use)(1.0), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, tl::jit(tl::vmap(use))(Array({1.0})), "unexpected tracer");
    EXPECT_ERROR(LeakedTracerError, (void)bool(leaked), "leaks_test.cpp");
  };
  tl::jit(save)(1.0);
  expect_named("saved by jit");
  tl::vmap(save)(Array({1.0}));
  expect_named("saved by vmap");
  tl::grad(save)(1.0);
  expect_named("saved by grad");
  tl::make_jaxpr(save)(1.0);
  expect_named("saved by make_jaxpr");
  // Saved by an inner transformation, used in the outer one when the inner one has ended.
  EXPECT_ERROR(LeakedTracerError, tl::jit([&](Array x) {
                 tl::jit(save)(x);
                 return use(x);
               })(1.0),
               "unexpected tracer");
  EXPECT_ERROR(LeakedTracerError, tl::grad([&](Array x) {
                 tl::grad(save)(x);
                 return use(x);
               })(1.0),
               "unexpected tracer");
  // Returned in a closure: the second function holds a tracer of the first.
  std::function<Array(Array)> closure;
  tl::jit([&](Array x) {
    closure = [x](Array y) { return x + y; };
    return x;
  })(1.0);
  EXPECT_ERROR(LeakedTracerError, (void)tl::jit(closure)(2.0), "unexpected tracer");
}

/// A switch of debugging that is on in a scope.
class Switched {
 public:
  explicit Switched(void (*set)(bool)) : set_(set) { set_(true); }
  ~Switched() { set_(false); }

 private:
  void (*set_)(bool);
};

TEST(Leaks, ReportsALeakWhenItHappensOnRequest) {
  const Switched on(tl::set_check_leaks);
  Array leaked;
  const auto leak = [&](Array x) {
    leaked = tl::sin(x);
    return x;
  };
  EXPECT_ERROR(LeakedTracerError, tl::jit(leak)(1.0), "1 tracer of jit(f) outlives it");
  EXPECT_ERROR(LeakedTracerError, tl::grad(leak)(1.0), "leaks_test.cpp");
  EXPECT_ERROR(LeakedTracerError, tl::jvp(leak, std::tuple{1.0}, std::tuple{1.0}), "of jvp");
  EXPECT_ERROR(LeakedTracerError, tl::vmap(leak)(Array({1.0})), "of vmap");
  EXPECT_ERROR(LeakedTracerError, tl::make_jaxpr(leak)(1.0), "outlive");
  leaked = Array();
  EXPECT_EQ(value(tl::jit(f)(0.0)), 0.0) << "the stack must be as it was";
  EXPECT_DOUBLE_EQ(value(tl::grad(tl::jit(f))(3.0)), 2.979984993200891);
  EXPECT_DOUBLE_EQ(value(tl::jit(tl::grad(tl::jit(f)))(3.0)), 2.979984993200891);
  EXPECT_EQ(tl::hessian([](Array x) { return tl::sum(x * x); })(Array({1.0, 2.0})).size(), 4);
  EXPECT_THROW(tl::jit([&](Array x) -> Array {
                 leaked = x;
                 throw std::runtime_error("user");
               })(1.0),
               std::runtime_error);
}

// What derivatives of loops make for themselves is none of the user's.
TEST(Leaks, ReportsNoLeakOfDerivativesOfLoops) {
  const auto squares = [](Array x) {
    return tl::scan([](Array sum, Array v) { return std::pair{sum + v * v, tl::none}; }, Array(0.0),
                    x)
        .first;
  };
  const auto doubled = [](Array x) {
    return tl::while_loop([](Array c) { return c < 100.0; }, [](Array c) { return c * 2.0; }, x);
  };
  const Switched on(tl::set_check_leaks);
  const Array x({1.0, 2.0});
  expect_near(tl::grad(squares)(x), {2, 4});
  expect_near(tl::jit(tl::grad(squares))(x), {2, 4});
  EXPECT_EQ(value(tl::grad(doubled)(1.0)), 128.0);
}

TEST(Leaks, ComparesWhatItCapturedOnRequest) {
  Array w({1.0, 2.0, 3.0});
  double scale = 2.0;
  const auto g = tl::jit([&](Array x) { return x * w * scale; }, {.name = "model"});
  const Array x({1.0, 1.0, 1.0});
  expect_near(g(x), {2, 4, 6});
  w = Array({5.0, 5.0, 5.0});
  expect_near(g(x), {2, 4, 6});  // frozen
  const Switched on(tl::set_check_constants);
  EXPECT_ERROR(ValueError, g(x), "jit(model) captured an array f64[3] that has changed");
  w = Array({1.0, 2.0, 3.0});
  expect_near(g(x), {2, 4, 6});
  scale = 3.0;
  EXPECT_ERROR(ValueError, g(x), "jit(model) captured a value that has changed");
}

TEST(Leaks, NamesATracerOfAnotherThread) {
  std::string text;
  tl::jit([&](Array x) {
    std::thread([&] { text = error_of<tl::LeakedTracerError>([&] { (void)(x + 1.0); }); }).join();
    return x;
  })(1.0);
  EXPECT_THAT(text, ::testing::HasSubstr("another thread"));
}

}  // namespace
}  // namespace telamon_test
