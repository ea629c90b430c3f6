// Linear bodies as partial derivatives times tangents, and loops of one number that run forwards.
#include "control_flow/preaccumulate.hpp"

#include "control_flow/support.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {
namespace {

using telamon::control_flow::preaccumulated;

tl::Jaxpr staged(const std::function<Arrays(std::span<const Array>)>& f, std::size_t n,
                 const tl::Shape& shape = {}) {
  const Arrays inputs(n, tl::lax::full(shape, tl::DType::f64, 1));
  return tl::detail::stage_arrays(f, inputs, "body").jaxpr;
}

std::size_t count(const tl::Jaxpr& jaxpr, const tl::PrimitiveBase& primitive) {
  return static_cast<std::size_t>(
      std::count_if(jaxpr.eqns().begin(), jaxpr.eqns().end(),
                    [&](const tl::Eqn& e) { return e.primitive == &primitive; }));
}

// The last input is what they are linear in, but where said otherwise.
TEST(Preaccumulated, BodiesKeepTheirValues) {
  struct Case {
    const char* name;
    std::function<Arrays(std::span<const Array>)> body;
    std::size_t inputs, products;  // of what it becomes
  };
  const std::vector<Case> cases = {
      {"logistic",
       [](std::span<const Array> x) {
         const Array u = x[0] * x[1], v = 1.0 - x[1], du = x[0] * x[2];
         return Arrays{du * v + u * -x[2]};
       },
       3, 3},
      {"quotients and signs",
       [](std::span<const Array> x) { return Arrays{-(x[1] / x[0]) - x[1] * x[0] - x[1]}; }, 2, 1},
      {"a sum with itself", [](std::span<const Array> x) { return Arrays{x[1] - x[0] * x[1]}; }, 2,
       1},
      {"itself", [](std::span<const Array> x) { return Arrays{x[1], -x[1], x[0]}; }, 2, 0},
  };
  for (const tl::Shape& shape : {tl::Shape{}, tl::Shape{3}}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      const tl::Jaxpr body = staged(c.body, c.inputs, shape);
      std::vector<bool> linear(c.inputs, false);
      linear.back() = true;
      const tl::Jaxpr got = preaccumulated(body, linear);
      expect_sound(got);
      EXPECT_LE(got.eqns().size(), body.eqns().size());
      EXPECT_EQ(count(got, tl::mul_p), c.products) << got.to_string();
      Arrays at;
      for (std::size_t i = 0; i < c.inputs; ++i) at.push_back(rows(shape, static_cast<double>(i)));
      const Arrays want = tl::eval_jaxpr(body, at), values = tl::eval_jaxpr(got, at);
      ASSERT_EQ(want.size(), values.size());
      for (std::size_t i = 0; i < want.size(); ++i) expect_equal(values[i], want[i], 1e-14);
    }
  }
}

TEST(Preaccumulated, BodiesOfOtherKindsStay) {
  const auto stays = [](const std::function<Arrays(std::span<const Array>)>& f, std::size_t inputs,
                        std::vector<bool> linear) {
    const tl::Jaxpr body = staged(f, inputs);
    return preaccumulated(body, linear).same_as(body);
  };
  // Operations that do not go element by element.
  EXPECT_TRUE(stays([](auto x) { return Arrays{tl::where(x[0] > 0.0, x[1] * x[0], x[1])}; }, 2,
                    {false, true}));
  EXPECT_TRUE(stays([](auto x) { return Arrays{tl::broadcast_to(x[1] * x[0], {2}) * 2.0}; }, 2,
                    {false, true}));
  // Two columns through a chain would be more operations than the chain.
  EXPECT_TRUE(stays(
      [](auto x) { return Arrays{((x[2] + x[3]) * x[0] * x[1] * x[0] + x[2]) * x[1] * x[0]}; }, 4,
      {false, false, true, true}));
}

// c <- r c (1 - c) + i: last state, and the sum of the squares of all.
struct Loop {
  Array operator()(const Array& r, const Array& c0, bool is_loop) const {
    const auto step = [&](const Array& i, const Array& c) { return r * c * (1.0 - c) + 0.01 * i; };
    if (!is_loop) {
      Array c = c0, squares = 0.0;
      for (int i = 0; i < 6; ++i) {
        squares = squares + c * c;
        c = step(tl::Array(static_cast<double>(i)), c);
      }
      return c * 2.0 + squares;
    }
    struct State {
      Array i, c;
    };
    const auto [last, squares] = tl::scan(
        [&](const State& s) {
          return std::pair{State{s.i + 1, step(s.i.astype(tl::DType::f64), s.c)}, s.c * s.c};
        },
        State{Array(0), c0}, tl::none, {.length = 6});
    return last.c * 2.0 + tl::sum(squares);
  }
};

// Along either number, or a number that is both.
TEST(LoopsOfOneNumber, HaveTheDerivativesOfTheLoop) {
  const Array at = Array({0.7})(0), other = Array({0.4})(0);
  const auto along = [&](int which, bool is_loop) {
    return [=](const Array& x) {
      return Loop{}(which == 1 ? other : x, which == 0 ? other : x, is_loop);
    };
  };
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    const auto f = along(which, true), want = along(which, false);
    expect_equal(f(at), want(at));
    expect_equal(tl::grad(f)(at), tl::grad(want)(at));
    expect_equal(tl::jit(tl::grad(f))(at), tl::grad(want)(at));
    expect_equal(tl::grad(tl::jit(f))(at), tl::grad(want)(at));
    expect_equal(tl::grad(tl::grad(f))(at), tl::grad(tl::grad(want))(at), 1e-10);
    expect_equal(tl::jit(tl::hessian(f))(at), tl::hessian(want)(at), 1e-10);
    const Array many = rows({4});
    expect_equal(tl::vmap(tl::grad(f))(many), tl::vmap(tl::grad(want))(many));
    expect_equal(tl::jit(tl::vmap(tl::grad(f)))(many), tl::vmap(tl::grad(want))(many));
    tl::check_grads(f, std::tuple{at}, {.order = 2});
  }
}

// The loop's number is an f64, what it gives an f32: that of the counter and a C++ number, or one converted.
TEST(LoopsOfOneNumber, GiveCotangentsOfItsDtype) {
  const auto steps = [](auto step) {
    return [step](const Array& a) {
      return tl::fori_loop(0, 2, [&](Array i, Array c) { return step(a, i, c); }, Array(1.0));
    };
  };
  const auto weak = steps([](const Array& a, const Array& i, const Array& c) { return c * a + i; });
  const auto narrow = steps([](const Array& a, const Array&, const Array& c) {
    return (c.astype(tl::DType::f64) * a).astype(tl::DType::f32);
  });
  EXPECT_EQ(tl::grad(weak)(2.0).item<double>(), 4);  // a^2 + 1
  EXPECT_EQ(tl::grad(tl::grad(weak))(2.0).item<double>(), 2);
  EXPECT_EQ(tl::jit(tl::jacfwd(tl::grad(weak)))(2.0).item<double>(), 2);
  const Array three = Array({3.0})(0);
  EXPECT_EQ(tl::grad(narrow)(three).item<double>(), 6);  // a^2
  EXPECT_EQ(tl::grad(narrow)(three).dtype(), tl::DType::f64);
  EXPECT_EQ(tl::jit(tl::grad(tl::grad(narrow)))(three).item<double>(), 2);
}

TEST(LoopsOfOneNumber, RunForwards) {
  const auto runs_backwards = [](const auto& f, const auto&... x) {
    return tl::make_jaxpr(f)(x...).jaxpr.to_string().find("reverse=True") != std::string::npos;
  };
  const auto f = [](const Array& r, const Array& c) { return Loop{}(r, c, true); };
  const Array r(1.3), c(0.4);
  EXPECT_FALSE(runs_backwards(tl::grad<0>(f), r, c));
  EXPECT_FALSE(runs_backwards(tl::grad<1>(f), r, c));
  EXPECT_TRUE(runs_backwards(tl::grad<0, 1>(f), r, c));
  // A state that is more than numbers goes backwards: its cotangents may be fewer.
  const auto wide = [](const Array& x) {
    return tl::sum(tl::fori_loop(0, 3, [&](Array, Array v) { return v * x; }, rows({5})));
  };
  EXPECT_TRUE(runs_backwards(tl::grad(wide), r));
}

}  // namespace
}  // namespace telamon_test
