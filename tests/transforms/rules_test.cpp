// A primitive that gains its rules one at a time: each transformation fails with its own text until
// it has its rule, and the system stays usable in between.
#include <gmock/gmock.h>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

const tl::Primitive<> multiply_add_p{"test_multiply_add"};

Array multiply_add(const Array& x, const Array& y, const Array& z) {
  return multiply_add_p({}, {x, y, z})[0];
}
Array square_add(const Array& a, const Array& b) { return multiply_add(a, a, b); }

TEST(Rules, AreAskedForStageByStage) {
  const auto jitted = [](double a, double b) {
    return tl::jit([](Array x, Array y) { return square_add(x, y); })(a, b);
  };
  EXPECT_ERROR(NotImplementedError, square_add(2.0, 10.0),
               "Evaluation rule for 'test_multiply_add' not implemented");
  multiply_add_p.def_impl([](const tl::NoParams&, std::span<const Array> x) {
    return Arrays{Array(value(x[0]) * value(x[1]) + value(x[2]))};
  });
  EXPECT_EQ(value(square_add(2.0, 10.0)), 14.0);

  EXPECT_ERROR(NotImplementedError, jitted(2.0, 10.0),
               "Abstract evaluation for 'test_multiply_add' not implemented");
  multiply_add_p.def_abstract_eval([](const tl::NoParams&, std::span<const tl::Aval> x) {
    return tl::AbstractResult(x[0].strong());
  });
  if (tl::jit([](Array x) { return x + 1.0; }, {.name = "probe"})(1.0),
      tl::last_executable().backend == "llvm") {
    EXPECT_ERROR(NotImplementedError, jitted(2.0, 10.0),
                 "Lowering rule for primitive 'test_multiply_add' not found for platform cpu");
  }
  multiply_add_p.def_lower(tl::element<tl::NoParams>(
      [](tl::Emitter& e, const tl::NoParams&, std::span<const tl::Scalar> x) {
        return e.add(e.mul(x[0], x[1]), x[2]);
      }));
  EXPECT_EQ(value(jitted(2.0, 10.0)), 14.0);

  const auto pushed = [] {
    return tl::jvp(square_add, std::tuple{2.0, 10.0}, std::tuple{1.0, 1.0});
  };
  EXPECT_ERROR(NotImplementedError, pushed(),
               "Differentiation rule for 'test_multiply_add' not implemented");
  multiply_add_p.def_jvp(
      [](const tl::NoParams&, std::span<const Array> x, std::span<const tl::Tangent> t) {
        const Array zero(0.0);
        const Array dx = t[0].instantiate(), dy = t[1].instantiate(), dz = t[2].instantiate();
        return tl::JvpResult{{multiply_add(x[0], x[1], x[2])},
                             {multiply_add(x[0], dy, multiply_add(dx, x[1], dz))}};
      });
  EXPECT_EQ(value(pushed().first), 14.0);
  EXPECT_EQ(value(pushed().second), 5.0);

  EXPECT_ERROR(
      NotImplementedError, tl::grad(square_add)(2.0, 10.0),
      "Transpose rule (for reverse-mode differentiation) for 'test_multiply_add' not implemented");
  multiply_add_p.def_transpose([](const tl::NoParams&, std::span<const tl::Tangent> ct,
                                  std::span<const tl::LinearInput> x) {
    const Array c = ct[0].array();
    const auto zero = [](const tl::LinearInput& in) { return tl::Tangent(tl::Zero{in.aval()}); };
    const tl::Tangent dz = x[2].is_linear() ? tl::Tangent(c) : zero(x[2]);
    if (!x[0].is_linear())
      return std::vector<tl::Tangent>{zero(x[0]), multiply_add(c, x[0].array(), 0.0), dz};
    return std::vector<tl::Tangent>{multiply_add(c, x[1].array(), 0.0), zero(x[1]), dz};
  });
  EXPECT_EQ(value(tl::grad(square_add)(2.0, 10.0)), 4.0);
  EXPECT_EQ(value(tl::jit(tl::grad([](Array a, Array b) { return square_add(a, b); }))(2.0, 10.0)),
            4.0);

  const auto batched = [] { return tl::vmap(square_add)(Array({2.0, 3.0}), Array({10.0, 20.0})); };
  EXPECT_ERROR(NotImplementedError, batched(),
               "Batching rule for 'test_multiply_add' not implemented");
  multiply_add_p.def_batch(
      [](const tl::NoParams&, const tl::AxisInfo&, std::span<const Array> x,
         std::span<const tl::BatchAxis>) { return tl::BatchResult{{x[0] * x[1] + x[2]}, {0}}; });
  expect_near(batched(), {14, 29});
}

TEST(Rules, FollowFromAnOpsLowering) {
  struct Axpby {
    double alpha = 1, beta = 1;
  };
  static const tl::Primitive<Axpby> axpby_p{
      "test_axpby", [] {
        return tl::Rules<Axpby>{.lower =
                                    tl::ops<Axpby>([](const Axpby& p, std::span<const Array> x) {
                                      return Arrays{p.alpha * x[0] + p.beta * x[1]};
                                    })};
      }};
  const auto axpby = [](Array x, Array y) { return axpby_p({2.0, 3.0}, {x, y})[0]; };
  const Array x({1.0, 2.0}), y({3.0, 4.0});
  expect_near(axpby(x, y), {11, 16});
  expect_near(tl::jit(axpby)(x, y), {11, 16});
  expect_near(tl::jvp(axpby, std::tuple{x, y}, std::tuple{x, y}).second, {11, 16});
  expect_near(tl::grad([&](Array u) { return tl::sum(axpby(u, y)); })(x), {2, 2});
  expect_near(tl::vmap(axpby, {.in_axes = {0, tl::none}})(x, Array(1.0)), {5, 7});
  tl::check_primitive(axpby_p, Axpby{2.0, 3.0}, {x, y});
}

// Compiled programs call rules for complex numbers: with operands of their own, where the rule is a user's.
TEST(Rules, ThatReplaceOthersMayKeepWhatTheyAreGiven) {
  static Arrays kept;
  static const auto before = tl::neg_p.rules().impl;
  tl::neg_p.def_impl([](const tl::NoParams& p, std::span<const Array> x) {
    kept.assign(x.begin(), x.end());
    return before(tl::Params::of(p), x);
  });
  const auto f = tl::jit([](const Array& a) { return -(a * a) * a; });
  const Array x = tl::lax::iota(tl::DType::f32, {3000}).astype(tl::DType::c64);
  static_cast<void>(f(x));
  tl::neg_p.mutable_rules().impl = before;
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(value(kept[0](2999).astype(tl::DType::f64)), 2999.0 * 2999.0);
  kept.clear();
}

}  // namespace
}  // namespace telamon_test
