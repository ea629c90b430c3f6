// Small programs that exercise closures, fan-out, calls in calls and trees, each under every
// transformation: itself, jvp, jit, jit of jit, and linearize used as jvp. Each of these agrees with
// its jitted form and has the derivatives that finite differences give.
#include <gmock/gmock.h>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

template <class G, class... Args>
void expect_sound(const std::string& what, const G& g, const Args&... args) {
  SCOPED_TRACE(what);
  const Arrays eager = tl::tree_leaves(g(args...)), compiled = tl::tree_leaves(tl::jit(g)(args...));
  ASSERT_EQ(compiled.size(), eager.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_EQ(compiled[i].aval().strong().to_string(), eager[i].aval().strong().to_string());
    expect_near(compiled[i], values(eager[i]));
  }
  EXPECT_NO_THROW(tl::check_grads(g, std::make_tuple(args...), {.order = 2}));
}

/// f, a function of one tree, at x and along t.
template <class F, class X>
void check_under_every_transformation(const F& f, const X& x, const X& t) {
  const auto own = [f](const X& at) { return f(at); };
  const auto forward = [f](const X& at, const X& along) {
    return tl::jvp(f, std::make_tuple(at), std::make_tuple(along));
  };
  const auto linearized = [f](const X& at, const X& along) {
    const auto [y, map] = tl::linearize(f, at);
    return std::pair{y, map(along)};
  };
  expect_sound("itself", own, x);
  expect_sound("jit", tl::jit(own), x);
  expect_sound("jit of jit", tl::jit(tl::jit(own)), x);
  expect_sound("jvp", forward, x, t);
  expect_sound("linearize as jvp", linearized, x, t);
  expect_sound(
      "jvp of jit",
      [own](const X& at, const X& along) {
        return tl::jvp(tl::jit(own), std::make_tuple(at), std::make_tuple(along));
      },
      x, t);
}

using Two = std::pair<Array, Array>;
const Array kA({{0.3, -0.8}, {1.1, 0.5}, {-0.4, 0.2}}), kB({{0.9, 0.2}, {-0.4, 0.6}, {0.1, -1.2}});

TEST(CorePrograms, AProductInASine) {
  check_under_every_transformation([](const Two& v) { return tl::sin(v.first * v.second); },
                                   Two{kA, kB}, Two{kB, kA});
}

TEST(CorePrograms, AnInputUsedTwice) {
  check_under_every_transformation(
      [](const Two& v) { return tl::sin(v.first * v.second) * v.first; }, Two{kA, kB}, Two{kB, kA});
}

TEST(CorePrograms, TreesInAndOut) {
  using In = std::pair<std::map<std::string, Array>, std::pair<Array, Two>>;
  const auto f = [](const In& in) {
    const auto& [x, y] = in;
    return std::pair{tl::sin(x.at("a") + y.second.first),
                     std::vector<Two>{{x.at("b"), y.first}, {y.second.second, x.at("b")}}};
  };
  const In x{{{"a", kA}, {"b", kB}}, {kA, {kB, kA}}}, t{{{"a", kB}, {"b", kA}}, {kB, {kA, kB}}};
  check_under_every_transformation(f, x, t);
}

TEST(CorePrograms, ACall) {
  check_under_every_transformation(
      [](const Array& x) { return tl::jit([](const Array& y) { return tl::sin(y); })(x); }, kA, kB);
}

TEST(CorePrograms, TwoCalls) {
  check_under_every_transformation(
      [](const Array& x) {
        return tl::jit([](const Array& y) { return tl::sin(y); })(x) +
               tl::jit([](const Array& y) { return tl::cos(y); })(x);
      },
      kA, kB);
}

TEST(CorePrograms, ACallOfAClosure) {
  check_under_every_transformation(
      [](const Array& x) {
        const auto foo = [x](const Array& y, const Array& z) { return x * x * tl::sin(y * z); };
        return tl::jit(foo)(x, tl::cos(x)) + x;
      },
      kA, kB);
}

TEST(CorePrograms, ACallOfAJittedClosure) {
  check_under_every_transformation(
      [](const Array& x) {
        const auto g = tl::jit([x](const Array& z) { return x * z; });
        return tl::jit([g](const Array& z) { return g(z); })(x);
      },
      kA, kB);
}

TEST(CorePrograms, NestedCalls) {
  check_under_every_transformation(
      [](const Array& x) {
        const auto f = [x](const Array& y) {
          const Array y2 = tl::sin(y) + 1.0 + 2.0 * x;
          const auto g = tl::jit([=](const Array& z) { return y2 * z * x + x * y; });
          return tl::jit([g](const Array& z) { return g(z); })(y);
        };
        return tl::jit(f)(x);
      },
      kA, kB);
}

TEST(CorePrograms, NestedCallsAroundADerivative) {
  check_under_every_transformation(
      [](const Array& x) {
        const auto bar = [x](const Array& y) {
          const auto baz = [x, y](const Array& w) {
            Array q = tl::jit([y](const Array&) { return y; })(x);
            q = q + tl::jit([y] { return y; })();
            q = q + tl::jit([w](const Array& z) { return w + z; })(y);
            return tl::jit([x, y](const Array&) {
                     return tl::jit([](const Array& z) { return tl::sin(z); })(x) * y;
                   })(Array(1.0)) +
                   q;
          };
          const auto [p, t] = tl::jvp(baz, std::tuple{x + 1.0}, std::tuple{y});
          return t + x * p;
        };
        return tl::jit(bar)(x);
      },
      kA, kB);
}

}  // namespace
}  // namespace telamon_test
