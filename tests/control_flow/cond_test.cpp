// cond and switch_: values, derivatives, batches, errors.
#include "control_flow/support.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {
namespace {

Array branch(const Array& pred, const Array& x, const Array& w) {
  return tl::cond(pred, [&](Array a) { return tl::sin(a) * w; }, [](Array a) { return a * a; }, x);
}

TEST(Cond, AppliesOneBranch) {
  EXPECT_DOUBLE_EQ(value(branch(true, 0.5, 2.0)), std::sin(0.5) * 2);
  EXPECT_DOUBLE_EQ(value(branch(false, 0.5, 2.0)), 0.25);
  const auto f = tl::jit(branch);
  EXPECT_DOUBLE_EQ(value(f(true, 0.5, 2.0)), std::sin(0.5) * 2);
  EXPECT_DOUBLE_EQ(value(f(false, 0.5, 2.0)), 0.25);
}

TEST(Cond, TakesNumbersAsPredicates) {
  const auto f = [](Array p) {
    return tl::cond(p, [] { return Array(1); }, [] { return Array(2); });
  };
  EXPECT_EQ(f(3).item<int>(), 1);
  EXPECT_EQ(f(0.0).item<int>(), 2);
  EXPECT_EQ(tl::jit(f)(-0.5).item<int>(), 1);
}

TEST(Cond, DifferentiatesTheBranchThatIsTaken) {
  for (const bool pred : {true, false}) {
    const auto f = [&](Array x, Array w) { return branch(pred, x, w); };
    const auto under_jit = tl::jit([](Array p, Array x, Array w) { return branch(p, x, w); });
    const auto g = [&](Array x, Array w) { return under_jit(Array(pred), x, w); };
    tl::check_grads(f, std::tuple{Array(0.5), Array(2.0)}, {.order = 2});
    tl::check_grads(g, std::tuple{Array(0.5), Array(2.0)}, {.order = 2});
    const auto all = tl::jit([](Array p, Array x, Array w) {
      return tl::grad<1, 2>([](Array q, Array y, Array v) { return branch(q, y, v); })(p, x, w);
    });
    const auto [dx, dw] = all(pred, 0.5, 2.0);
    EXPECT_DOUBLE_EQ(value(dx), pred ? 2 * std::cos(0.5) : 1.0);
    EXPECT_DOUBLE_EQ(value(dw), pred ? std::sin(0.5) : 0.0);
  }
}

TEST(Cond, LeaksNoNanFromTheOtherBranch) {
  // d/dx sqrt(x) is infinite at 0; the branch that is taken is constant.
  const auto f = [](Array x) {
    return tl::cond(
        x < 1e-6, [](Array a) { return 0.0 * a + 1e-6; }, [](Array a) { return tl::sqrt(a); }, x);
  };
  EXPECT_EQ(value(tl::grad(f)(0.0)), 0);
  EXPECT_EQ(value(tl::jit(tl::grad(f))(0.0)), 0);
  expect_near(tl::grad([&](Array x) { return tl::sum(tl::vmap(f)(x)); })(Array({0.0, 4.0})),
              {0, 0.25});
  expect_near(tl::jit(tl::vmap(tl::grad(f)))(Array({0.0, 4.0})), {0, 0.25});
  expect_near(
      tl::grad([&](Array x) { return tl::sum(tl::vmap(tl::jit(f))(x)); })(Array({0.0, 4.0})),
      {0, 0.25});
}

TEST(Cond, MapsOverThePredicate) {
  const Array preds({true, false, true}), x({0.5, 1.5, 2.5});
  const auto f = tl::vmap([](Array p, Array a) { return branch(p, a, 2.0); });
  const std::vector<double> want{2 * std::sin(0.5), 2.25, 2 * std::sin(2.5)};
  expect_near(f(preds, x), want);
  expect_near(tl::jit(f)(preds, x), want);
  expect_near(tl::vmap([](Array p, Array a) { return branch(p, a, 2.0); },
                       {.in_axes = {0, tl::none}})(preds, 1.5),
              {2 * std::sin(1.5), 2.25, 2 * std::sin(1.5)});
  // An unmapped predicate stays a branch.
  const auto mapped = tl::make_jaxpr(tl::vmap([](Array p, Array a) { return branch(p, a, 2.0); },
                                              {.in_axes = {tl::none, 0}}))(true, x);
  EXPECT_EQ(tl::count_eqns(mapped.jaxpr, "cond"), 1) << mapped.to_string();
  EXPECT_EQ(tl::count_eqns(tl::make_jaxpr(f)(preds, x).jaxpr, "cond"), 0);
}

TEST(Cond, GivesTreesAndTakesOperands) {
  const auto f = [](Array p, std::pair<Array, Array> xy) {
    return tl::cond(
        p, [](std::pair<Array, Array> v) { return std::map<std::string, Array>{{"a", v.first}}; },
        [](std::pair<Array, Array> v) { return std::map<std::string, Array>{{"a", v.second}}; },
        xy);
  };
  EXPECT_EQ(value(f(true, {1.0, 2.0}).at("a")), 1);
  EXPECT_EQ(value(f(false, {1.0, 2.0}).at("a")), 2);
}

TEST(Cond, GivesWeakResultsTheTypeOfTheOtherBranch) {
  const Array x = Array({2.0f})(0);
  const Array y = tl::cond(true, [](Array a) { return a; }, [](Array) { return Array(0.0); }, x);
  EXPECT_EQ(y.dtype(), tl::DType::f32);
  EXPECT_EQ(value(y), 2);
}

// The type of a result does not depend on which branch was taken.
TEST(Cond, GivesOneTypeWhicheverBranchIsTaken) {
  const auto scaled = [](Array p, Array x) {
    return tl::cond(p, [] { return Array(2.0); }, [] { return tl::asarray(3.0); }) * x;
  };
  const auto chosen = [](Array i, Array x) {
    return tl::switch_(i, std::tuple{[] { return Array(2); }, [] { return tl::asarray(3); }}) * x;
  };
  const Array x({1.0f, 2.0f}), whole = x.astype(tl::i32);
  for (const bool taken : {true, false}) {
    EXPECT_EQ(scaled(taken, x).dtype(), tl::f64);
    EXPECT_EQ(tl::jit(scaled)(taken, x).dtype(), tl::f64);
    EXPECT_EQ(tl::jit(scaled, {.backend = "interpret"})(taken, x).dtype(), tl::f64);
    const auto known = [&](Array y) { return scaled(taken, y); };
    EXPECT_EQ(tl::vjp(known, x).first.dtype(), tl::f64);
    EXPECT_EQ(tl::vmap(known)(x).dtype(), tl::f64);
    const Array index(taken ? 0 : 1);
    EXPECT_EQ(chosen(index, whole).dtype(), tl::jit(chosen)(index, whole).dtype());
  }
}

TEST(Cond, ConvertsThePredicateAndPutsTheFalseBranchFirst) {
  const auto program = tl::make_jaxpr([](Array x, Array p) {
    return tl::cond(p, [&](Array y) { return y * x; }, [&](Array y) { return y + x; }, x);
  })(1.0, true);
  EXPECT_EQ(program.jaxpr.eqns()[0].primitive->name(), "convert_element_type");
  const tl::Eqn& eqn = program.jaxpr.eqns()[1];
  ASSERT_EQ(eqn.primitive, &tl::cond_p) << program.to_string();
  EXPECT_EQ(eqn.inputs.size(), 3u);  // index, what was captured, the operand
  const auto& p = eqn.params.as<tl::CondParams>();
  EXPECT_EQ(tl::count_eqns(p.branches[0], "add"), 1);
  EXPECT_EQ(tl::count_eqns(p.branches[1], "mul"), 1);
  expect_sound(program.jaxpr);
}

TEST(Cond, CompilesItsBranchesOnce) {
  const auto f = [](Array x) { return tl::sin(x) * 3.0; };
  const auto g = [](Array x) { return tl::cos(x) * 3.0; };
  const Array x = rows({3});
  tl::cond(true, f, g, x);
  const auto before = tl::counters().lowerings;
  for (int i = 0; i < 10; ++i) tl::cond(i % 2 == 0, f, g, x);
  EXPECT_LE(tl::counters().lowerings - before, 2u);
}

TEST(Switch, ClampsTheIndex) {
  const auto f = [](Array i, Array x) {
    return tl::switch_(i,
                       std::tuple{[](Array a) { return a; }, [](Array a) { return 2.0 * a; },
                                  [](Array a) { return a * a; }},
                       x);
  };
  for (const auto& [i, want] :
       std::vector<std::pair<int, double>>{{-7, 3}, {0, 3}, {1, 6}, {2, 9}, {3, 9}, {100, 9}}) {
    EXPECT_EQ(value(f(i, 3.0)), want);
    EXPECT_EQ(value(tl::jit(f)(i, 3.0)), want);
  }
  expect_near(tl::vmap(f, {.in_axes = {0, tl::none}})(Array({-1, 0, 1, 2, 9}), 3.0),
              {3, 3, 6, 9, 9});
  const auto d = tl::vmap(tl::grad<1>(f), {.in_axes = {0, tl::none}})(Array({-1, 0, 1, 2, 9}), 3.0);
  expect_near(d, {1, 1, 2, 6, 6});
}

TEST(Switch, OfOneBranchIsThatBranch) {
  const auto twice = [](Array x) { return x * 2.0; };
  EXPECT_EQ(value(tl::switch_(Array(7), std::tuple{twice}, 1.5)), 3.0);
  EXPECT_EQ(
      value(tl::grad([&](Array x) { return tl::switch_(Array(0), std::tuple{twice}, x); })(1.5)),
      2.0);
}

TEST(Switch, TakesAVectorOfFunctions) {
  std::vector<std::function<Array(Array)>> f;
  for (int i = 0; i < 4; ++i) f.emplace_back([i](Array x) { return x + i; });
  EXPECT_EQ(value(tl::switch_(2, f, 1.0)), 3);
  EXPECT_EQ(value(tl::switch_(0, std::vector{f[3]}, 1.0)), 4);  // one branch is a call
}

TEST(Switch, DifferentiatesManyBranchesWithSharedResiduals) {
  const auto f = [](Array i, Array x, Array w) {
    return tl::switch_(i,
                       std::tuple{[](Array a, Array b) { return tl::sum(tl::sin(a) * b); },
                                  [](Array a, Array b) { return tl::sum(tl::exp(a) * tl::cos(b)); },
                                  [](Array a, Array) { return tl::sum(a); }},
                       x, w);
  };
  for (int i = 0; i < 3; ++i) {
    const Array x = rows({3}), w = rows({3}, 1.0);
    const auto g = tl::jit([&](Array a, Array b) { return f(Array({i})(0) * 1, a, b); });
    tl::check_grads([&](Array a, Array b) { return f(i, a, b); }, std::tuple{x, w}, {.order = 2});
    tl::check_grads(g, std::tuple{x, w}, {.order = 2});
  }
  const auto program = tl::make_jaxpr(tl::grad<1, 2>(f))(1, rows({3}), rows({3}));
  expect_sound(program.jaxpr);
}

// ---- errors --------------------------------------------------------------------------------------

TEST(CondErrors, ShowBothSidesAndThePath) {
  const auto id = [](Array x) { return x; };
  EXPECT_ERROR(TypeError,
               tl::cond(
                   true, id, [](Array x) { return x.astype(tl::DType::i32); }, Array({1.0})(0)),
               "cond branches must have equal output types but they differ.\n\nThe output of "
               "the true branch has type f64[] but the corresponding output of the false branch "
               "has type i32[], "
               "so the dtypes do not match.");
  const auto tree = [](Array x) { return std::pair{x, std::map<std::string, Array>{{"a", x}}}; };
  const auto other = [](Array x) {
    return std::pair{x, std::map<std::string, Array>{{"a", tl::ones({3})}}};
  };
  EXPECT_ERROR(
      TypeError, tl::cond(true, tree, other, Array({1.0})(0)),
      "The output of the true branch at path [1][\"a\"] has type f64[] but the corresponding "
      "output of the false branch has type");
  const auto more = [](Array x) { return std::pair{x, std::map<std::string, Array>{{"b", x}}}; };
  EXPECT_ERROR(TypeError, tl::cond(true, tree, more, 1.0),
               "cond branch outputs must have the same pytree structure, but they differ");
  const auto deep = [](Array x) { return std::vector{std::vector{x}, std::vector{x, x}}; };
  const auto flat = [](Array x) { return std::vector{std::vector{x}, std::vector{x}}; };
  EXPECT_ERROR(TypeError, tl::cond(true, deep, flat, 1.0), " at [1]: ");
  EXPECT_ERROR(
      TypeError,
      tl::switch_(0, std::tuple{id, [](Array x) { return x.astype(tl::DType::i32); }}, 1.0),
      "The output of branch 0 has type");
}

TEST(CondErrors, RefuseWhatIsNoPredicateOrIndex) {
  const auto id = [](Array x) { return x; };
  EXPECT_ERROR(TypeError, tl::cond(tl::ones({2}), id, id, 1.0),
               "cond: the predicate must be a scalar");
  EXPECT_ERROR(TypeError, tl::switch_(1.5, std::tuple{id, id}, 1.0),
               "switch_: the branch index must be an integer");
  EXPECT_ERROR(TypeError, tl::switch_(Array({1, 1}), std::tuple{id, id}, 1.0),
               "switch_: the branch index must be a scalar");
  EXPECT_ERROR(ValueError, tl::switch_(0, std::vector<std::function<Array(Array)>>(), 1.0),
               "switch_: there are no branches");
}

}  // namespace
}  // namespace telamon_test
