// cg and bicgstab: values (those of SciPy's algorithms), convergence, derivatives, batches.
#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

// -u'' + u on a grid with u = 0 at both ends: symmetric positive definite.
Array stencil(const Array& u) {
  const Array left = tl::pad(u(tl::slice(0, -1)), tl::PadWidths(1, 0));
  const Array right = tl::pad(u(tl::slice(1, tl::none)), tl::PadWidths(0, 1));
  return 3.0 * u - left - right;
}
// With transport: no longer symmetric.
Array transported(const Array& u, const Array& speed) {
  const Array left = tl::pad(u(tl::slice(0, -1)), tl::PadWidths(1, 0));
  return stencil(u) + speed * (u - left);
}

bool all_nan(const Array& x) { return bool(tl::all(tl::isnan(x))); }

TEST(Cg, SolvesBelowTheTolerance) {
  const Array b = rows({40});
  const auto [x, info] = tl::cg(stencil, b, {.tol = 1e-12});
  EXPECT_EQ(info.item<int>(), 0);
  expect_equal(stencil(x), b, 1e-11);
  const auto [y, same] = tl::jit([](Array r) { return tl::cg(stencil, r, {.tol = 1e-12}); })(b);
  EXPECT_EQ(same.item<int>(), 0);
  expect_equal(y, x);
  // The tolerance is relative to b, or absolute.
  const auto residual = [&](const Array& z) { return value(tl::norm(stencil(z) - b)); };
  const double scale = value(tl::norm(b));
  const Array coarse = tl::cg(stencil, b, {.tol = 1e-2}).x;
  EXPECT_LE(residual(coarse), 1e-2 * scale);
  EXPECT_GT(residual(coarse), 1e-6 * scale);
  const Array absolute = tl::cg(stencil, b, {.tol = 0, .atol = 1e-3}).x;
  EXPECT_LE(residual(absolute), 1e-3);
  EXPECT_GT(residual(absolute), 1e-8);
}

// The iterates are those of the textbook: exact after as many steps as there are unknowns.
TEST(Cg, FollowsTheIterationOfHestenesAndStiefel) {
  const Array a({{4.0, 1.0}, {1.0, 3.0}}), b({1.0, 2.0}), x0({2.0, 1.0});
  const auto [first, info] = tl::cg(a, b, {.maxiter = 1, .x0 = x0});
  expect_near(first, {0.23564955, 0.33836858}, 1e-8);  // Wikipedia's example
  EXPECT_EQ(info.item<int>(), 1);
  const auto [second, done] = tl::cg(a, b, {.tol = 1e-12, .maxiter = 2, .x0 = x0});
  expect_near(second, {1.0 / 11, 7.0 / 11});
  EXPECT_EQ(done.item<int>(), 0);
}

TEST(Cg, CountsTheIterationsThatDidNotSuffice) {
  EXPECT_EQ(tl::cg(stencil, rows({40}), {.tol = 1e-12, .maxiter = 3}).info.item<int>(), 3);
  EXPECT_EQ(tl::cg(stencil, tl::zeros({4}, tl::f64)).info.item<int>(), 0);  // nothing to do
  const Array start = tl::cg(stencil, rows({40}), {.tol = 1e-13}).x;
  EXPECT_EQ(tl::cg(stencil, rows({40}), {.tol = 1e-12, .maxiter = 0, .x0 = start}).info.item<int>(),
            0);
  // No iterations, and none was enough.
  EXPECT_EQ(tl::cg(stencil, rows({40}), {.maxiter = 0}).info.item<int>(), 1);
  EXPECT_EQ(tl::bicgstab(stencil, rows({40}), {.maxiter = 0}).info.item<int>(), 1);
}

TEST(LinearSolvers, RefuseLimitsThatAreNone) {
  const Array b = rows({4});
  EXPECT_ERROR(ValueError, tl::cg(stencil, b, {.tol = -1}), "cg: tol must not be negative, got -1");
  EXPECT_ERROR(ValueError, tl::cg(stencil, b, {.tol = -1e-9}), "got -1e-09");
  EXPECT_ERROR(ValueError, tl::cg(stencil, b, {.tol = NAN}),
               "cg: tol must not be negative, got nan");
  EXPECT_ERROR(ValueError, tl::bicgstab(stencil, b, {.atol = -1}),
               "bicgstab: atol must not be negative, got -1");
  EXPECT_ERROR(ValueError, tl::bicgstab(stencil, b, {.maxiter = -1}),
               "bicgstab: maxiter must not be negative, got -1");
}

TEST(Cg, ConvergesFasterWithAPreconditioner) {
  // A badly scaled diagonal, and its inverse as preconditioner.
  const Array scales = tl::exp(tl::linspace(0.0, 9.0, 30));
  const auto A = [&](Array x) { return scales * x + 0.01 * tl::sum(x); };
  const Array b = rows({30});
  const int slow = tl::cg(A, b, {.tol = 1e-10, .maxiter = 12}).info.item<int>();
  const auto [x, info] =
      tl::cg(A, b, {.tol = 1e-10, .maxiter = 12, .M = [&](Array r) { return r / scales; }});
  EXPECT_EQ(slow, 12);
  EXPECT_EQ(info.item<int>(), 0);
  expect_equal(A(x), b, 1e-8);
}

TEST(Cg, IsDifferentiatedAsTheSystem) {
  const auto f = [](Array k, Array b) {
    const auto A = [&](Array x) { return stencil(x) + k * x; };
    return tl::sum(tl::sin(tl::cg(A, b, {.tol = 1e-14}).x));
  };
  const auto args = std::tuple{Array(0.5), rows({6})};
  tl::check_grads(f, args, {.order = 2});
  tl::check_grads(tl::jit(f), args, {.order = 1});
  const Array gradient = tl::grad<1>(f)(0.5, rows({6}));
  expect_equal(tl::jit(tl::grad<1>(tl::jit(f)))(0.5, rows({6})), gradient);
}

TEST(Cg, MapsOverSystemsThatEndApart) {
  const Array ks({0.0, 1.0, 50.0});
  const auto f = [](Array k, Array b) {
    const auto [x, info] = tl::cg([&](Array v) { return stencil(v) + k * v; }, b, {.tol = 1e-12});
    return std::pair{x, info};
  };
  const auto slope = tl::grad([&](Array k, Array b) { return tl::sum(f(k, b).first); });
  const Array b = rows({8});
  const tl::VmapOptions axes{.in_axes = {0, tl::none}};
  const auto [x, info] = tl::jit(tl::vmap(f, axes))(ks, b);
  const Array slopes = tl::jit(tl::vmap(slope, axes))(ks, b);
  EXPECT_EQ(info.to_vector<int>(), (std::vector<int>{0, 0, 0}));
  for (int i = 0; i < 3; ++i) {
    expect_equal(x(i), f(ks(i), b).first);
    EXPECT_NEAR(value(slopes(i)), value(slope(ks(i), b)), 1e-12);
  }
}

struct Field {
  Array u, v;
};

TEST(Cg, TakesTreesAndMixedPrecision) {
  const auto A = [](Field x) { return Field{2.0 * x.u, stencil(x.v)}; };
  const Field b{Array({1.0f, 2.0f}), rows({5})};
  const auto [x, info] = tl::cg(A, b, {.tol = 1e-6});
  EXPECT_EQ(info.item<int>(), 0);
  EXPECT_EQ(x.u.dtype(), tl::f32);
  EXPECT_EQ(x.v.dtype(), tl::f64);
  expect_near(x.u, {0.5, 1}, 1e-5);
  expect_equal(stencil(x.v), b.v, 1e-5);
}

TEST(Cg, SaysWhatIsWrong) {
  EXPECT_ERROR(ValueError, tl::cg(tl::ones({2, 3}), Array({1.0, 2.0})),
               "cg: linear operator must be a square matrix, but has shape: (2, 3)");
  EXPECT_ERROR(ValueError, tl::cg(stencil, rows({4}), {.x0 = rows({3})}),
               "cg: arrays in x0 and b must have matching shapes: f64[3] and f64[4]");
  EXPECT_ERROR(TypeError, tl::cg([](Array x) { return x; }, Array({1, 2})),
               "cg: b must be of floats, but holds i32[2]");
  const auto longer = [](Array) { return tl::ones({4}, tl::f64); };
  EXPECT_ERROR(ValueError, tl::cg(longer, rows({3})),
               "cg: A must give the shapes and dtypes of b, but gives f64[4] where b holds f64[3]");
  EXPECT_ERROR(ValueError, tl::bicgstab(stencil, rows({3}), {.M = longer}),
               "bicgstab: M must give the shapes and dtypes of b, but gives f64[4]");
  EXPECT_ERROR(ValueError, tl::cg(tl::ones({4, 4}, tl::f64), rows({3})),
               "cg: A has shape (4, 4), but b, whose rows it is for, has (3,)");
  EXPECT_ERROR(ValueError, tl::bicgstab(tl::ones({4, 4}, tl::f64), rows({2, 3, 1})),
               "has (2, 3, 1)");
  EXPECT_ERROR(ValueError, tl::bicgstab(tl::ones({1, 1}, tl::f64), Array(1.0)), "has ()");
  const auto narrower = [](Array x) { return x.astype(tl::f32); };
  EXPECT_ERROR(ValueError, tl::cg(narrower, rows({3})), "but gives f32[3] where b holds f64[3]");
}

TEST(Bicgstab, SolvesSystemsThatAreNotSymmetric) {
  const Array b = rows({30});
  const auto f = [](Array speed, Array rhs) {
    return tl::bicgstab([&](Array u) { return transported(u, speed); }, rhs, {.tol = 1e-12});
  };
  const auto [x, info] = f(2.0, b);
  EXPECT_EQ(info.item<int>(), 0);
  expect_equal(transported(x, 2.0), b, 1e-10);
  const auto [y, same] = tl::jit(f)(2.0, b);
  EXPECT_EQ(same.item<int>(), 0);
  expect_equal(y, x, 1e-11);
}

TEST(Bicgstab, IsDifferentiatedAsTheSystemAndItsTranspose) {
  const auto f = [](Array speed, Array b) {
    const auto A = [&](Array u) { return transported(u, speed); };
    return tl::sum(tl::sin(tl::bicgstab(A, b, {.tol = 1e-14}).x));
  };
  tl::check_grads(f, std::tuple{Array(2.0), rows({6})}, {.order = 2});
  const Array gradient = tl::grad<1>(f)(2.0, rows({6}));
  expect_equal(tl::jit(tl::grad<1>(f))(2.0, rows({6})), gradient, 1e-11);
  const Array mapped = tl::vmap(tl::grad<1>(f), {.in_axes = {tl::none, 0}})(
      2.0, tl::stack({rows({6}), rows({6}, 1)}));
  expect_equal(mapped(0), gradient, 1e-11);
}

TEST(Bicgstab, TellsABreakdown) {
  // A rotation by a right angle: r' A r = 0.
  const Array rotation({{0.0, -1.0}, {1.0, 0.0}});
  const Array b({1.0, 0.0});
  const auto [x, info] = tl::bicgstab(rotation, b, {.maxiter = 5});
  EXPECT_EQ(info.item<int>(), -11);  // as SciPy says
  EXPECT_TRUE(all_nan(x));
  const auto from = [&](const Array& start) { return tl::bicgstab(rotation, b, {.x0 = start}); };
  EXPECT_TRUE(all_nan(from(Array({3.0, 4.0})).x));
  // Each of a batch by itself: the second starts at the solution.
  const auto both = tl::jit(tl::vmap(from))(Array({{3.0, 4.0}, {0.0, -1.0}}));
  EXPECT_TRUE(all_nan(both.x(0)));
  expect_near(both.x(1), {0, -1});
  EXPECT_EQ(both.info.to_vector<int>(), (std::vector<int>{-11, 0}));
  // A sends the first half of the step to 0.
  const Array singular({{1.0, 0.0}, {0.0, 0.0}});
  const auto [y, stuck] = tl::bicgstab(singular, Array({1.0, 1.0}));
  EXPECT_EQ(stuck.item<int>(), -11);
  EXPECT_TRUE(all_nan(y));
  // A residual of 0 is a solution though no step leads on from it.
  const auto [z, done] = tl::bicgstab(Array({{2.0, 0.0, 0.0}, {0.0, 2.0, 0.0}, {0.0, 0.0, 2.0}}),
                                      Array({1.0, 2.0, 3.0}), {.tol = 0});
  EXPECT_EQ(done.item<int>(), 0);
  expect_near(z, {0.5, 1, 1.5});
}

// r' A r is 0 of the right-hand side (1, 1), and of no other here: a derivative of 0 would be a lie.
TEST(Bicgstab, GivesNoDerivativeWhoseSystemBreaksDown) {
  const Array a({{1.0, -2.0}, {3.0, -2.0}}), b({1.0, 0.0});
  const auto solve = [&](Array rhs) { return tl::bicgstab(a, rhs).x; };
  expect_near(solve(b), {-0.5, -0.75});
  EXPECT_TRUE(all_nan(tl::grad([&](Array rhs) { return tl::sum(solve(rhs)); })(b)));
  EXPECT_TRUE(all_nan(tl::jvp(solve, std::tuple{b}, std::tuple{Array({1.0, 1.0})}).second));
  expect_near(tl::grad([&](Array rhs) { return solve(rhs)(0); })(b), {-0.5, 0.5});
}

// The same where it is the system of the solution that breaks down: NaN is what depends on x. The derivative by b
// does not: it is a row of the inverse.
TEST(Bicgstab, HasNoDerivativeOfASolutionThatItDoesNotFind) {
  const Array a({{1.0, -2.0}, {3.0, -2.0}}), b({1.0, 1.0}), found({1.0, 0.0});
  const auto first = [](Array m, Array rhs) { return tl::bicgstab(m, rhs).x(0); };
  const auto squared = [&](Array rhs) { return tl::square(first(a, rhs)); };
  EXPECT_LT(tl::bicgstab(a, b).info.item<int>(), 0);
  const auto both = tl::stack({b, found});
  const auto [values, grads] = tl::jit(tl::vmap(tl::value_and_grad(squared)))(both);
  EXPECT_TRUE(all_nan(values(0)));
  EXPECT_TRUE(all_nan(grads(0)));
  expect_near(values(1), {0.25});
  expect_near(grads(1), {0.5, -0.5});
  EXPECT_TRUE(all_nan(tl::grad(squared)(b)));
  EXPECT_TRUE(all_nan(tl::jvp(squared, std::tuple{b}, std::tuple{found}).second));
  EXPECT_TRUE(all_nan(tl::grad(first)(a, b)));
  expect_near(tl::grad<1>(first)(a, b), {-0.5, 0.5});
  expect_near(tl::jit(tl::hessian(squared))(b), {0.5, -0.5, -0.5, 0.5});
}

// A solution may be a step of another's derivative, that of a root: reverse mode transposes it.
TEST(LinearSolvers, GiveSolutionsThatAreTransposed) {
  const Array a({{4.0, 1.0, 0.0}, {1.0, 3.0, -1.0}, {0.0, -1.0, 5.0}}), theta({1.0, -2.0, 0.5});
  const auto check = [&](auto solve) {
    const auto root = [&](Array t, Array factor) {
      const auto f = [&](Array x) { return tl::matmul(a, x) - t * t; };
      const auto linear = [&](const auto& g, Array y) { return solve(g, factor * y); };
      return tl::custom_root(
          f, tl::zeros_like(t), [&](const auto&, Array) { return solve(a, t * t); }, linear);
    };
    const auto total = [&](Array t, Array factor) { return tl::sum(root(t, factor)); };
    const Array want = 2.0 * theta * solve(a, tl::ones_like(theta)), one(1.0);
    const auto gradient = tl::grad(total);
    expect_equal(gradient(theta, one), want, 1e-12);
    expect_equal(tl::jit(gradient)(theta, one), want, 1e-12);
    const Array tangent =
        tl::jvp([&](Array t) { return total(t, 1.0); }, std::tuple{theta}, std::tuple{theta})
            .second;
    expect_equal(tangent, tl::sum(want * theta), 1e-12);
    EXPECT_TRUE(all_nan(gradient(theta, Array(NAN))));
  };
  check([](const auto& A, Array y) { return tl::cg(A, y, {.tol = 1e-14}).x; });
  check([](const auto& A, Array y) { return tl::bicgstab(A, y, {.tol = 1e-14}).x; });
}

// A cotangent or tangent that is not finite, or whose square is not, leaves nothing to iterate on. One of 0 does.
TEST(LinearSolvers, HaveNoDerivativeAlongWhatIsNotFinite) {
  const Array b = rows({4}), both = tl::stack({b, b}), one(1.0);
  const auto check = [&](auto solve) {
    const auto gradient = [&](Array rhs, Array factor) {
      return tl::grad([&](Array r) { return tl::sum(factor * solve(r)); })(rhs);
    };
    const auto tangent = [&](Array rhs, Array factor) {
      return tl::jvp(solve, std::tuple{rhs}, std::tuple{factor * rhs}).second;
    };
    const auto curvature = [&](Array rhs, Array factor) {
      return tl::hessian([&](Array r) { return factor * tl::sum(tl::square(solve(r))); })(rhs);
    };
    for (const double lost : {double(NAN), double(INFINITY), -1e200}) {
      EXPECT_TRUE(all_nan(gradient(b, lost)));
      EXPECT_TRUE(all_nan(tangent(b, lost)));
      EXPECT_TRUE(all_nan(curvature(b, lost)));
      EXPECT_TRUE(all_nan(tl::jit(gradient)(b, lost)));
      EXPECT_TRUE(all_nan(tl::jit(tangent)(b, lost)));
      const Array mapped = tl::jit(tl::vmap(gradient))(both, Array({lost, 1.0}));
      EXPECT_TRUE(all_nan(mapped(0)));
      expect_equal(mapped(1), gradient(b, one), 1e-12);
      const Array outside = tl::vmap(tl::jit(tangent))(both, Array({1.0, lost}));
      EXPECT_TRUE(all_nan(outside(1)));
      expect_equal(outside(0), tangent(b, one), 1e-12);
    }
    EXPECT_EQ(values(gradient(b, Array(0.0))), std::vector<double>(4, 0.0));
    EXPECT_EQ(values(tangent(b, Array(0.0))), std::vector<double>(4, 0.0));
    EXPECT_TRUE(all_nan(solve(b * NAN)));  // as info says
  };
  check([](Array r) { return tl::cg(stencil, r, {.tol = 1e-14}).x; });
  check([](Array r) { return tl::bicgstab(stencil, r, {.tol = 1e-14}).x; });
}

// The residual is no number before the first iteration, or from some iteration on, or its square is infinite.
TEST(LinearSolvers, HaveNotConvergedWhereTheResidualIsNotFinite) {
  const Array b = rows({4}), nan = tl::full_like(b, NAN), huge = tl::full_like(b, 1e200);
  const auto lost = [](const Array& u) { return u * NAN; };
  const auto overflows = [](const Array& u) { return tl::where(u == 0, 0.0, INFINITY); };
  const auto infos = [&](auto solve) {
    return std::vector<int>{solve(stencil, nan), solve(lost, b), solve(overflows, b),
                            solve(stencil, huge), solve(stencil, b)};
  };
  const std::vector<int> want = {-1, -1, -1, -1, 0};
  EXPECT_EQ(
      infos([](auto A, const Array& rhs) { return tl::cg(A, rhs).info.template item<int>(); }),
      want);
  EXPECT_EQ(infos([](auto A, const Array& rhs) {
              return tl::bicgstab(A, rhs).info.template item<int>();
            }),
            want);
  EXPECT_EQ(
      infos([](auto A, const Array& rhs) {
        return tl::jit([A](const Array& r) { return tl::cg(A, r).info; })(rhs).template item<int>();
      }),
      want);
}

}  // namespace
}  // namespace telamon_test
