// map and associative_scan; the errors of scan; everything nested in everything.
#include "control_flow/support.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {
namespace {

TEST(Map, AppliesToEachRow) {
  const auto f = [](Array x) { return tl::sum(x) * tl::sin(x); };
  const Array xs = rows({7, 3}), want = tl::vmap(f)(xs);
  expect_equal(tl::map(f, xs), want);
  for (const std::int64_t size : {1, 2, 3, 7, 9})
    expect_equal(tl::map(f, xs, {.batch_size = size}), want);
  expect_equal(tl::jit([&](Array x) { return tl::map(f, x, {.batch_size = 3}); })(xs), want);
  const auto [a, b] =
      tl::map([](std::pair<Array, Array> x) { return std::pair{x.second, x.first}; },
              std::pair{xs, xs(tl::slice(), 0)});
  expect_equal(b, xs);
  expect_equal(a, xs(tl::slice(), 0));
  EXPECT_ERROR(ValueError, tl::map(f, xs, {.batch_size = 0}), "batch_size");
  EXPECT_ERROR(ValueError, tl::map(f, 1.0),
               "map: there is no leading axis to go along in a scalar");
  const auto loss = [&](Array x) { return tl::sum(tl::map(f, x, {.batch_size = 3})); };
  expect_equal(tl::grad(loss)(xs), tl::grad([&](Array x) { return tl::sum(tl::vmap(f)(x)); })(xs));
}

TEST(AssociativeScan, GivesPrefixes) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 8, 13}) {
    const Array x = rows({n});
    expect_equal(tl::associative_scan(tl::add, x), tl::cumsum(x));
    expect_equal(tl::associative_scan(tl::maximum, x), tl::lax::cummax(x));
    expect_equal(tl::associative_scan(tl::add, x, {.reverse = true}), tl::lax::cumsum(x, 0, true));
  }
  const Array m = rows({3, 5});
  expect_equal(tl::associative_scan(tl::add, m, {.axis = 1}), tl::lax::cumsum(m, 1));
  expect_equal(tl::associative_scan(tl::add, m, {.axis = -1}), tl::lax::cumsum(m, 1));
}

TEST(AssociativeScan, SolvesLinearRecurrences) {
  // h[i] = a[i] h[i - 1] + b[i], by composing affine maps.
  const auto compose = [](std::pair<Array, Array> f, std::pair<Array, Array> g) {
    return std::pair{g.first * f.first, g.first * f.second + g.second};
  };
  const Array a = rows({9}), b = rows({9}, 4.0);
  const auto [slopes, h] = tl::associative_scan(compose, std::pair{a, b});
  double want = 0;
  for (int i = 0; i < 9; ++i) {
    want = value(a(i)) * want + value(b(i));
    EXPECT_NEAR(value(h(i)), want, 1e-12);
  }
  tl::check_grads(
      [&](Array x, Array y) { return tl::associative_scan(compose, std::pair{x, y}).second; },
      std::tuple{a, b}, {.order = 2});
  EXPECT_ERROR(ValueError, tl::associative_scan(compose, std::pair{rows({3}), rows({4})}),
               "Array inputs to associative_scan must have the same first dimension. (saw: ");
}

// ---- errors of scan --------------------------------------------------------------------------------

TEST(ScanErrors, SpeakOfLengths) {
  const auto f = [](Array c, Array x) { return std::pair{c, x}; };
  const Array xs = tl::arange(10);
  EXPECT_ERROR(ValueError, tl::scan(f, 0.0, xs, {.length = 5}),
               "scan got `length` argument of 5 which disagrees with leading axis sizes [10].");
  EXPECT_ERROR(ValueError, tl::scan([](Array c) { return std::pair{c, c}; }, 0.0, tl::none),
               "scan got no values to scan over and `length` not provided.");
  const auto g = [](Array c, std::pair<Array, Array> x) { return std::pair{c, x.first}; };
  EXPECT_ERROR(ValueError, tl::scan(g, 0.0, std::pair{tl::ones({3}), tl::ones({4})}),
               "scan got values with different leading axis sizes: 3, 4.");
  EXPECT_ERROR(ValueError, tl::scan(f, 0.0, tl::ones({})), "no leading axis");
  EXPECT_ERROR(ValueError, tl::scan(f, 0.0, xs, {.unroll = 0}), "unroll");
}

TEST(ScanErrors, NameTheComponentOfTheCarry) {
  using Two = std::pair<Array, Array>;
  const Two init{Array({0.0})(0), Array({1.0})(0)};
  const Array xs = rows({4});
  EXPECT_ERROR(
      TypeError,
      tl::scan([](Two c,
                  Array x) { return std::pair{Two{c.first, c.second.astype(tl::DType::f32)}, x}; },
               init, xs),
      "scan: the body's carry input and carry output must have equal types, but they "
      "differ:\n\nThe input carry component carry[1] has type f64[] but the corresponding output "
      "carry component has type f32[], so the dtypes do not match.\n\nRevise the function so that "
      "all output types match the corresponding input types.");
  EXPECT_ERROR(
      TypeError,
      tl::scan([](Two c, Array x) { return std::pair{Two{c.first, tl::ones({3})}, x}; }, init, xs),
      "so the shapes and the dtypes do not match");
  EXPECT_ERROR(TypeError,
               tl::scan(
                   [](std::vector<Array> c, Array x) {
                     c.push_back(x);
                     return std::pair{c, x};
                   },
                   std::vector<Array>{init.first}, xs),
               "scan: the body's carry input and carry output must have the same pytree structure");
}

// ---- nesting ---------------------------------------------------------------------------------------

// A scan of a cond of a while.
Array nested(const Array& x, const Array& ys) {
  return tl::scan(
             [](Array c, Array y) {
               const Array next = tl::cond(
                   y > 0.0,
                   [&](Array a) {
                     return tl::while_loop([&](Array b) { return b < 1.0; },
                                           [&](Array b) { return b * 1.5 + y; }, tl::abs(a) + 0.1,
                                           {.max_steps = 20});
                   },
                   [&](Array a) { return tl::sin(a) + y * a; }, c);
               return std::pair{next, next * y};
             },
             x, ys)
      .first;
}
double nested_of(double c, const std::vector<double>& ys) {
  for (const double y : ys) {
    if (y > 0) {
      c = std::abs(c) + 0.1;
      while (c < 1) c = c * 1.5 + y;
    } else {
      c = std::sin(c) + y * c;
    }
  }
  return c;
}

TEST(Nesting, OfScanCondWhileUnderVmapGradJit) {
  const Array xs({0.3, -0.7, 1.4}), ys({0.25, -0.5, 0.125, -0.25, 0.75});
  const auto slope = [&](double x) {
    return (nested_of(x + 1e-6, values(ys)) - nested_of(x - 1e-6, values(ys))) / 2e-6;
  };
  std::vector<double> want, slopes;
  for (const double x : values(xs)) {
    want.push_back(nested_of(x, values(ys)));
    slopes.push_back(slope(x));
  }
  const auto jitted = tl::jit(nested);
  const tl::VmapOptions first{.in_axes = {0, tl::none}};
  expect_near(tl::vmap(nested, first)(xs, ys), want);
  expect_near(tl::vmap(jitted, first)(xs, ys), want);
  expect_near(tl::jit(tl::vmap(jitted, first))(xs, ys), want);
  expect_near(tl::vmap(tl::grad(jitted), first)(xs, ys), slopes, 1e-7);
  expect_near(tl::jit(tl::vmap(tl::grad(nested), first))(xs, ys), slopes, 1e-7);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(value(tl::grad(nested)(values(xs)[i], ys)), slopes[i], 1e-7);
    EXPECT_NEAR(value(tl::jit(tl::grad(jitted))(values(xs)[i], ys)), slopes[i], 1e-7);
  }
  expect_sound(tl::make_jaxpr(tl::vmap(tl::grad(nested), first))(xs, ys).jaxpr);
  expect_sound(tl::make_jaxpr(tl::grad(tl::grad(nested)))(0.3, ys).jaxpr);
}

TEST(Nesting, OfScansInScans) {
  // A matrix of products, row by row.
  const auto f = [](Array a, Array b) {
    return tl::scan(
               [&](Array total, Array x) {
                 const auto [sum, row] = tl::scan(
                     [&](Array s, Array y) { return std::pair{s + tl::sin(x * y), x * y * total}; },
                     total, b);
                 return std::pair{sum, row};
               },
               0.0 * tl::sum(a), a)
        .second;
  };
  const auto plain = [](const Array& a, const Array& b) {
    Arrays out;
    Array total = 0.0;
    for (int i = 0; i < a.shape(0); ++i) {
      out.push_back(a(i) * b * total);
      total = total + tl::sum(tl::sin(a(i) * b));
    }
    return tl::stack(out);
  };
  const Array a = rows({3}), b = rows({4}, 1.0);
  expect_equal(f(a, b), plain(a, b));
  const auto loss = [](auto g) {
    return [g](Array x, Array y) { return tl::sum(tl::cos(g(x, y))); };
  };
  const auto [da, db] = tl::jit(tl::grad<0, 1>(loss(f)))(a, b);
  const auto [want_a, want_b] = tl::grad<0, 1>(loss(plain))(a, b);
  expect_equal(da, want_a);
  expect_equal(db, want_b);
  tl::check_grads(loss(f), std::tuple{a, b}, {.order = 2});
  const Array many = rows({2, 3}, 0.2);
  const auto mapped = tl::vmap(tl::grad(loss(f)), {.in_axes = {0, tl::none}})(many, b);
  for (int i = 0; i < 2; ++i) expect_equal(mapped(i), tl::grad(loss(plain))(many(i), b));
}

TEST(Nesting, OfJitInBodies) {
  const auto inner = tl::jit([](Array x) { return tl::sin(x) * 2.0; });
  const auto f = [&](Array x) {
    return tl::fori_loop(
        0, 3,
        [&](Array, Array c) { return tl::cond(c > 0.0, inner, [](Array a) { return -a; }, c); }, x);
  };
  double want = -0.5;
  for (int i = 0; i < 3; ++i) want = want > 0 ? std::sin(want) * 2 : -want;
  EXPECT_NEAR(value(f(-0.5)), want, 1e-14);
  EXPECT_NEAR(value(tl::jit(f)(-0.5)), want, 1e-14);
  tl::check_grads(f, std::tuple{Array(-0.5)}, {.order = 2});
}

TEST(Nesting, OfJvpAndGradInsideBodies) {
  // Gradient descent within a scan.
  const auto objective = [](Array x) { return tl::sum(tl::square(x * x - 2.0)); };
  const auto descend = [&](Array x) {
    return tl::scan(
               [&](Array y) {
                 const auto [l, g] = tl::value_and_grad(objective)(y);
                 return std::pair{y - 0.02 * g, l};
               },
               x, tl::none, {.length = 200})
        .first;
  };
  expect_near(descend(Array({1.0, 3.0})), {std::sqrt(2.0), std::sqrt(2.0)}, 1e-6);
  const Array jacobian = tl::jit(tl::jacrev(descend))(Array({1.0, 1.2}));
  EXPECT_EQ(jacobian.shape(), (tl::Shape{2, 2}));
  expect_equal(jacobian, tl::jacfwd(descend)(Array({1.0, 1.2})), 1e-10);
}

}  // namespace
}  // namespace telamon_test
