// custom_linear_solve: solutions and their derivatives, whatever the solver is made of.
#include "control_flow/support.hpp"
#include "telamon/detail/solves.hpp"

namespace telamon_test {
namespace {

const Array kMatrix({{4.0, 1.0, 0.5}, {-1.0, 3.0, 0.25}, {0.75, -0.5, 5.0}});
const Array kRhs({1.0, -2.0, 3.0});

// Jacobi's iteration until it stands still: a loop that reverse mode cannot pass.
const auto kJacobi = [](const auto& A, Array b) {
  const Array diagonal = Array({4.0, 3.0, 5.0});
  return tl::while_loop([&](Array x) { return tl::max(tl::abs(b - A(x))) > 1e-14; },
                        [&](Array x) { return x + (b - A(x)) / diagonal; }, tl::zeros_like(b));
};

Array solve(const Array& a, const Array& b) {
  return tl::custom_linear_solve([&](Array x) { return tl::matmul(a, x); }, b, kJacobi, kJacobi);
}
Array energy(const Array& a, const Array& b) { return tl::sum(tl::sin(solve(a, b))); }

TEST(CustomLinearSolve, SolvesTheSystem) {
  const Array x = solve(kMatrix, kRhs);
  expect_near(tl::matmul(kMatrix, x), {1, -2, 3});
  expect_equal(tl::jit(solve)(kMatrix, kRhs), x);
}

TEST(CustomLinearSolve, HasTheDerivativesOfTheSystem) {
  const auto args = std::tuple{kMatrix, kRhs};
  tl::check_grads(energy, args, {.order = 2});
  tl::check_grads(tl::jit(energy), args, {.order = 2});
  // b' = A'^-1 x', A' = -b' x
  const auto [da, db] =
      tl::grad<0, 1>([](Array a, Array b) { return tl::sum(solve(a, b)); })(kMatrix, kRhs);
  expect_near(tl::matmul(tl::transpose(kMatrix), db), {1, 1, 1});
  expect_equal(da, -tl::outer(db, solve(kMatrix, kRhs)));
}

TEST(CustomLinearSolve, AgreesUnderNestsOfTransformations) {
  const Array gradient = tl::grad<1>(energy)(kMatrix, kRhs);
  expect_equal(tl::jit(tl::grad<1>(energy))(kMatrix, kRhs), gradient);
  expect_equal(tl::grad<1>(tl::jit(energy))(kMatrix, kRhs), gradient);
  const Array forward = tl::jacfwd<1>(tl::grad<1>(energy))(kMatrix, kRhs);
  expect_equal(tl::jacrev<1>(tl::grad<1>(energy))(kMatrix, kRhs), forward, 1e-11);
  expect_equal(tl::jit(tl::jacfwd<1>(tl::grad<1>(tl::jit(energy))))(kMatrix, kRhs), forward, 1e-11);
}

TEST(CustomLinearSolve, MapsOverMatrixAndRightHandSide) {
  const Array matrices = tl::stack({kMatrix, kMatrix + 0.25, kMatrix * 1.5});
  const Array sides = tl::stack({kRhs, kRhs * 2.0, kRhs - 1.0});
  const auto gradient = tl::grad<1>(energy);
  for (int mask = 1; mask < 4; ++mask) {
    const bool a = mask & 1, b = mask & 2;
    const tl::VmapOptions axes{
        .in_axes = {a ? tl::Axes(0) : tl::Axes(tl::none), b ? tl::Axes(0) : tl::Axes(tl::none)}};
    const Array& as = a ? matrices : kMatrix;
    const Array& bs = b ? sides : kRhs;
    const Array got = tl::vmap(solve, axes)(as, bs);
    const Array slopes = tl::vmap(gradient, axes)(as, bs);
    const Array jitted = tl::jit(tl::vmap(tl::grad<1>(tl::jit(energy)), axes))(as, bs);
    const Array outside = tl::grad<1>(
        [&](Array m, Array r) { return tl::sum(tl::vmap(energy, axes)(m, r)); })(as, bs);
    Array total = tl::zeros({3}, tl::f64);
    for (int i = 0; i < 3; ++i) {
      const Array ai = a ? matrices(i) : kMatrix, bi = b ? sides(i) : kRhs;
      expect_equal(got(i), solve(ai, bi));
      expect_equal(slopes(i), gradient(ai, bi));
      expect_equal(jitted(i), gradient(ai, bi));
      if (b) expect_equal(outside(i), gradient(ai, bi));
      total += gradient(ai, bi);
    }
    if (!b) expect_equal(outside, total);
  }
}

TEST(CustomLinearSolve, LeavesUnmappedComponentsUnmapped) {
  // Two systems that know nothing of each other: the batch is that of the first.
  const auto f = [](Array scale, Array u, Array v) {
    using Both = std::pair<Array, Array>;
    const auto divide = [](const auto& A, Both b) {
      const Both ones{tl::ones_like(b.first), tl::ones_like(b.second)};
      const Both a = A(ones);
      return Both{b.first / a.first, b.second / a.second};
    };
    return tl::custom_linear_solve([&](Both x) { return Both{scale * x.first, 3.0 * x.second}; },
                                   Both{u, v}, divide, divide);
  };
  const auto mapped =
      tl::vmap([&](Array scale, Array u) { return f(scale, u, Array({6.0, 9.0})).first; },
               {.in_axes = {0, tl::none}});
  expect_near(mapped(Array({1.0, 2.0}), Array({4.0, 8.0})), {4, 8, 2, 4});
  const auto other = tl::make_jaxpr(
      tl::vmap([&](Array scale, Array u) { return f(scale, u, Array({6.0, 9.0})); },
               {.in_axes = {0, tl::none}, .out_axes = 0}))(Array({1.0, 2.0}), Array({4.0, 8.0}));
  const auto& eqns = other.jaxpr.eqns();
  const auto solve_eqn = std::find_if(eqns.begin(), eqns.end(), [](const tl::Eqn& e) {
    return e.primitive == &tl::custom_linear_solve_p;
  });
  ASSERT_NE(solve_eqn, eqns.end());
  EXPECT_EQ(other.jaxpr.aval(solve_eqn->outputs[0]).shape, tl::Shape({2, 2}));
  EXPECT_EQ(other.jaxpr.aval(solve_eqn->outputs[1]).shape, tl::Shape({2}));
}

TEST(CustomLinearSolve, OfASymmetricMapNeedsNoTransposedSolver) {
  const Array a = kMatrix + tl::transpose(kMatrix);
  const auto f = [](Array scale, Array b) {
    const auto conjugate_gradients = [](const auto& A, Array y) {
      return tl::cg(A, y, {.tol = 1e-14}).x;
    };
    const auto map = [&](Array x) {
      return scale * tl::matmul(kMatrix + tl::transpose(kMatrix), x);
    };
    return tl::sum(tl::custom_linear_solve(map, b, conjugate_gradients, {.symmetric = true}));
  };
  tl::check_grads(f, std::tuple{Array(1.5), kRhs}, {.order = 2});
  expect_near(tl::matmul(a, tl::grad<1>(f)(1.0, kRhs)), {1, 1, 1}, 1e-11);
}

TEST(CustomLinearSolve, GivesAuxiliaryResultsBesideTheSolution) {
  const auto counted = [](const auto& A, Array b) {
    auto [x, steps] = tl::while_loop(
        [&](std::pair<Array, Array> s) { return tl::max(tl::abs(b - A(s.first))) > 1e-12; },
        [&](std::pair<Array, Array> s) {
          return std::pair{s.first + (b - A(s.first)) / 4.0, s.second + 1};
        },
        std::pair{tl::zeros_like(b), Array(0)});
    return std::pair{x, std::map<std::string, Array>{{"steps", steps}}};
  };
  const auto f = [&](Array b) {
    return tl::custom_linear_solve([](Array x) { return tl::matmul(kMatrix, x); }, b, counted,
                                   counted);
  };
  const auto [x, aux] = f(kRhs);
  expect_equal(x, solve(kMatrix, kRhs), 1e-11);
  EXPECT_GT(aux.at("steps").item<int>(), 5);
  const auto [jitted, jitted_aux] = tl::jit(f)(kRhs);
  expect_equal(jitted, x);
  EXPECT_EQ(jitted_aux.at("steps").item<int>(), aux.at("steps").item<int>());
  const auto [slope, aux_again] = tl::grad_aux([&](Array b) {
    auto [y, info] = f(b);
    return std::pair{tl::sum(y), info};
  })(kRhs);
  expect_near(tl::matmul(tl::transpose(kMatrix), slope), {1, 1, 1}, 1e-11);
  EXPECT_EQ(aux_again.at("steps").item<int>(), aux.at("steps").item<int>());
  // Nobody asks for them: they are no longer computed.
  const auto pruned = tl::dce_jaxpr(tl::make_jaxpr(f)(kRhs).jaxpr, {true, false});
  EXPECT_EQ(pruned.jaxpr.eqns().back().outputs.size(), 1u);
}

struct Field {
  Array u;
  std::vector<Array> rest;
};

TEST(CustomLinearSolve, TakesTreesAsVectors) {
  const auto f = [](Array k, Field b) {
    const auto halve = [](const auto& A, Field y) {
      const Field ones = tl::tree_map([](Array x) { return tl::ones_like(x); }, y);
      return tl::tree_map([](Array x, Array a) { return x / a; }, y, A(ones));
    };
    return tl::custom_linear_solve(
        [&](Field x) { return tl::tree_map([&](Array leaf) { return k * leaf; }, x); }, b, halve,
        halve);
  };
  const Field b{Array({1.0, 2.0}), {Array(3.0), Array({{4.0}})}};
  const Field x = tl::jit(f)(2.0, b);
  expect_near(x.u, {0.5, 1});
  expect_near(x.rest[1], {2});
  const auto total = [&](Array k) {
    const Field y = f(k, b);
    return tl::sum(y.u) + y.rest[0] + tl::sum(y.rest[1]);
  };
  EXPECT_NEAR(value(tl::grad(total)(2.0)), -10.0 / 4, 1e-12);
}

TEST(CustomLinearSolve, PrintsParsesAndTypechecks) {
  expect_sound(tl::make_jaxpr(solve)(kMatrix, kRhs).jaxpr);
  expect_sound(tl::make_jaxpr(tl::grad<0, 1>(energy))(kMatrix, kRhs).jaxpr);
  expect_sound(tl::make_jaxpr(tl::vmap(tl::grad<1>(energy), {.in_axes = {tl::none, 0}}))(
                   kMatrix, tl::stack({kRhs, kRhs}))
                   .jaxpr);
}

TEST(CustomLinearSolve, LivesInLoopsAndBranches) {
  // A linear system in every step of a scan, as in implicit time stepping.
  const auto f = [](Array a, Array y) {
    return tl::sum(tl::scan(
                       [&](Array state) {
                         const Array next = tl::cond(
                             tl::sum(state) > -100.0, [&](Array s) { return solve(a, s); },
                             [](Array s) { return s; }, state);
                         return std::pair{next, tl::sum(next)};
                       },
                       y, tl::none, {.length = 3})
                       .second);
  };
  tl::check_grads(f, std::tuple{kMatrix, kRhs}, {.order = 1});
  const auto jitted = tl::jit(tl::grad<0, 1>(f))(kMatrix, kRhs);
  const auto eager = tl::grad<0, 1>(f)(kMatrix, kRhs);
  expect_equal(std::get<0>(jitted), std::get<0>(eager));
  expect_equal(std::get<1>(jitted), std::get<1>(eager));
}

TEST(CustomLinearSolve, SaysWhatIsMissingOrWrong) {
  const auto without = [](Array b) {
    return tl::sum(tl::custom_linear_solve([](Array x) { return 2.0 * x; }, b,
                                           [](const auto&, Array y) { return y / 2.0; }));
  };
  EXPECT_EQ(value(tl::jit(without)(kRhs)), 1);
  EXPECT_EQ(value(tl::jvp(without, std::tuple{kRhs}, std::tuple{kRhs}).second), 1);
  EXPECT_ERROR(TypeError, tl::grad(without)(kRhs),
               "transpose_solve required for backwards mode automatic differentiation of "
               "custom_linear_solve");
  const auto shapes = [](Array b) {
    return tl::custom_linear_solve([](Array x) { return tl::sum(x); }, b,
                                   [](const auto& map, Array y) { return map(y) * y; });
  };
  const auto* const kUnlike =
      "matvec() output shapes and dtypes must match b: custom_linear_solve got (f64[]) and "
      "(f64[3])";
  EXPECT_ERROR(ValueError, tl::jit(shapes)(kRhs), kUnlike);
  EXPECT_ERROR(ValueError, shapes(kRhs), kUnlike);
  const auto solution = [](Array b) {
    return tl::custom_linear_solve([](Array x) { return x; }, b,
                                   [](const auto&, Array y) { return tl::sum(y); });
  };
  EXPECT_ERROR(ValueError, tl::jit(solution)(kRhs), "solve() output shapes and dtypes must match");
  EXPECT_ERROR(ValueError, solution(kRhs), "solve() output shapes and dtypes must match");
}

}  // namespace
}  // namespace telamon_test
