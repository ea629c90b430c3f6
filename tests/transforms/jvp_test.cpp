// jvp and linearize: values of the Autodidax tutorial, no perturbation confusion, clear errors.
#include <gmock/gmock.h>

#include "support/backends.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

template <class F>
auto deriv(F g) {
  return [g](Array x) { return tl::jvp(g, std::tuple{x}, std::tuple{Array(1.0)}).second; };
}

TEST(Jvp, GivesTheValuesOfTheTutorial) {
  const auto [y, dy] = tl::jvp(f, std::tuple{3.0}, std::tuple{1.0});
  EXPECT_DOUBLE_EQ(value(y), 2.7177599838802657);
  EXPECT_DOUBLE_EQ(value(dy), 2.979984993200891);
  EXPECT_DOUBLE_EQ(value(tl::jvp(tl::sin, std::tuple{3.0}, std::tuple{1.0}).second),
                   -0.9899924966004454);
}

TEST(Jvp, NestsToAnyOrder) {
  const auto sin = [](Array x) { return tl::sin(x); };
  EXPECT_DOUBLE_EQ(value(deriv(sin)(Array(3.0))), -0.9899924966004454);
  EXPECT_DOUBLE_EQ(value(deriv(deriv(sin))(Array(3.0))), -0.1411200080598672);
  EXPECT_DOUBLE_EQ(value(deriv(deriv(deriv(sin)))(Array(3.0))), 0.9899924966004454);
  EXPECT_DOUBLE_EQ(value(deriv(deriv(deriv(deriv(sin))))(Array(3.0))), 0.1411200080598672);
  // At zero: 0 -> 1, 0, -1.
  EXPECT_EQ(value(deriv(deriv(sin))(Array(0.0))), 0.0);
  EXPECT_EQ(value(deriv(deriv(deriv(sin)))(Array(0.0))), -1.0);
}

TEST(Jvp, FollowsControlFlowOnValues) {
  const auto g = [](Array x) {
    if (x > 0.0) return 2.0 * x;
    return Array(x);
  };
  EXPECT_EQ(value(deriv(g)(Array(3.0))), 2.0);
  EXPECT_EQ(value(deriv(g)(Array(-3.0))), 1.0);
}

TEST(Jvp, DoesNotConfusePerturbations) {
  // d/dx [x * d/dy (x * y)] = d/dx x^2
  const auto outer = [](Array x) {
    return tl::jvp([x](Array y) { return x * y; }, std::tuple{3.0}, std::tuple{1.0}).second;
  };
  const auto [y, dy] = tl::jvp(outer, std::tuple{1.0}, std::tuple{2.0});
  EXPECT_EQ(value(y), 1.0);
  EXPECT_EQ(value(dy), 2.0);
  // d/dx [x * d/dy x] = 0
  const auto confusing = [](Array x) { return x * deriv([x](Array) { return x; })(Array(5.0)); };
  EXPECT_EQ(value(deriv(confusing)(Array(0.0))), 0.0);
}

TEST(Jvp, OfJittedClosureSeesTheOuterTracer) {
  const auto g = [](Array x) { return tl::jit([x](Array y) { return x + y; })(0.0); };
  const auto [y, dy] = tl::jvp(g, std::tuple{1.0}, std::tuple{2.0});
  EXPECT_EQ(value(y), 1.0);
  EXPECT_EQ(value(dy), 2.0);
}

TEST(Jvp, KeepsTheStructureOfResults) {
  struct Out {
    Array hi;
    std::vector<Array> there;
  };
  const auto g = [](Array x) {
    const Array y = tl::sin(x) * 2.0;
    return Out{-y + x, {x, y}};
  };
  const auto [y, dy] = tl::jvp(g, std::tuple{3.0}, std::tuple{1.0});
  EXPECT_DOUBLE_EQ(value(y.hi), 2.7177599838802657);
  EXPECT_EQ(value(y.there[0]), 3.0);
  EXPECT_DOUBLE_EQ(value(y.there[1]), 0.2822400161197344);
  EXPECT_DOUBLE_EQ(value(dy.hi), 2.979984993200891);
  EXPECT_DOUBLE_EQ(value(dy.there[1]), -1.9799849932008908);
}

TEST(Jvp, OfIntegersHasFloat0Tangents) {
  const auto g = [](Array x, Array n) { return std::pair{x * 2.0, n + 1}; };
  const auto [y, dy] =
      tl::jvp(g, std::tuple{Array(2.0), Array({1, 2})}, std::tuple{Array(1.0), Array()});
  EXPECT_EQ(value(dy.first), 2.0);
  EXPECT_EQ(dy.second.dtype(), tl::DType::float0);
  EXPECT_EQ(dy.second.shape(), (tl::Shape{2}));
}

TEST(Jvp, RefusesTangentsOfAnotherType) {
  EXPECT_ERROR(TypeError,
               tl::jvp(f, std::tuple{Array({1.0, 2.0})}, std::tuple{Array({1.0, 2.0, 3.0})}),
               "args[0]");
  EXPECT_ERROR(TypeError, tl::jvp(f, std::tuple{Array({1.0})}, std::tuple{Array({1.0f})}),
               "expected f64[1]");
  const auto tree = [](const std::vector<Array>& x) { return x[0]; };
  EXPECT_ERROR(TypeError, tl::jvp(tree, std::tuple{Arrays{1.0}}, std::tuple{Arrays{1.0, 2.0}}),
               "jvp");
  const auto misfit = [] { tl::jvp(f, std::tuple{1.0}, std::tuple{Array({1.0})}); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "jvp"));
}

// They would be zeros: those of a variable that was never set.
TEST(Jvp, RefusesEmptyTangentsAndCotangentsOfFloats) {
  const Array none, x({1.0, 2.0});
  const auto empty = ::testing::HasSubstr(
      "expected f64[2] (the tangent type of f64[2]) but got an empty Array (default-constructed or "
      "moved from)");
  const auto refused = [&](const char* which, const auto& call) {
    EXPECT_THAT(error_of<tl::TypeError>(call), AllOf(::testing::HasSubstr(which), empty));
  };
  refused("jvp: primal and tangent of args[0]",
          [&] { (void)tl::jvp(f, std::tuple{x}, std::tuple{none}); });
  const auto lin = tl::linearize(f, x).second;
  refused("tangent 0", [&] { (void)lin(none); });
  const auto pull = tl::vjp(f, x).second;
  refused("VJP function, result 0", [&] { (void)pull(none); });
  const auto both = tl::vjp([](Array z) { return std::pair{f(z), z}; }, x).second;
  refused("VJP function, result 0", [&] { (void)both(std::pair{none, x}); });
  refused("VJP function, result 1", [&] { (void)both(std::pair{x, none}); });
  refused("pass zeros, as tl::zeros_like gives", [&] { (void)both(std::pair{none, none}); });
  const auto transposed = tl::linear_transpose([](Array z) { return std::pair{2.0 * z, z}; }, x);
  refused("linear_transpose: cotangent type does not match, result 1",
          [&] { (void)transposed(std::pair{x, none}); });
}

TEST(Jvp, NeedsNoCotangentsOfIntegersAndOfAux) {
  const Array none, x({1.0, 2.0});
  const auto floats_and_ints = [](Array z) { return std::pair{3.0 * z, tl::argmax(z)}; };
  expect_near(std::get<0>(tl::vjp(floats_and_ints, x).second(std::pair{x, none})), {3, 6});
  const auto with_aux = [](Array z) { return std::pair{3.0 * z, std::pair{z, z}}; };
  expect_near(std::get<0>(tl::vjp_aux(with_aux, x).second(x)), {3, 6});
}

TEST(Jvp, MakesNoZerosOfConstantTangents) {
  // d(2 sin x) = 2 cos x dx: the constant's zero tangent must not appear as a multiplication.
  const auto program = tl::make_jaxpr(
      [](Array x, Array dx) { return tl::jvp(f, std::tuple{x}, std::tuple{dx}).second; })(3.0, 1.0);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "mul"), 2) << program;
  EXPECT_EQ(program.to_string().find(" 0.0"), std::string::npos) << program;
}

TEST(Jvp, OfJitMakesNoZerosOfConstantTangentsEither) {  // a defect of the tutorial: inf * 0.0
  const auto g = tl::jit([](Array x, Array c) { return x * c; });
  const auto along_x = [&](Array x, Array dx, Array c) {
    return tl::jvp([&](Array z) { return g(z, c); }, std::tuple{x}, std::tuple{dx}).second;
  };
  EXPECT_EQ(value(along_x(0.0, 1.0, INFINITY)), INFINITY);
  const auto program = tl::make_jaxpr(along_x)(3.0, 1.0, 2.0);
  EXPECT_EQ(program.to_string().find(" 0.0"), std::string::npos) << program;
  EXPECT_LE(tl::count_eqns(program.jaxpr, "mul"), 1) << program;
}

TEST(Jvp, PassesAuxThrough) {
  const auto g = [](Array x) { return std::pair{x * x, std::vector<Array>{x + 1.0}}; };
  const auto [y, dy, aux] = tl::jvp_aux(g, std::tuple{3.0}, std::tuple{1.0});
  EXPECT_EQ(value(y), 9.0);
  EXPECT_EQ(value(dy), 6.0);
  EXPECT_EQ(value(aux[0]), 4.0);
}

TEST(Linearize, GivesValueAndReusableTangentMap) {
  const auto [y, lin] = tl::linearize(f, 3.0);
  EXPECT_DOUBLE_EQ(value(y), 2.7177599838802657);
  EXPECT_DOUBLE_EQ(value(lin(1.0)), 2.979984993200891);
  EXPECT_DOUBLE_EQ(value(lin(2.0)), 2 * 2.979984993200891);
  const auto [s, sin_lin] = tl::linearize(tl::sin, 3.0);
  EXPECT_DOUBLE_EQ(value(s), 0.1411200080598672);
  EXPECT_DOUBLE_EQ(value(sin_lin(1.0)), -0.9899924966004454);
}

TEST(Linearize, SharesAConstantThatIsUsedTwice) {  // a defect of the tutorial
  const Array c({2.0, 3.0});
  const auto [y, lin] = tl::linearize([c](Array x) { return c * x + c * x; }, Array({1.0, 1.0}));
  expect_near(lin(Array({1.0, 1.0})), {4.0, 6.0});
}

TEST(Linearize, OfJitRunsTheKnownHalfAtOnce) {
  const auto [y, lin] = tl::linearize(tl::jit(f), 3.0);
  EXPECT_DOUBLE_EQ(value(y), 2.7177599838802657);
  EXPECT_DOUBLE_EQ(value(lin(1.0)), 2.979984993200891);
  EXPECT_EQ(tl::count_eqns(lin.jaxpr(), "sin"), 0);
  EXPECT_EQ(tl::count_eqns(lin.jaxpr(), "cos"), 0);
}

TEST(Linearize, ForwardsInputsAsResiduals) {
  // d/db (a . b) needs a, which is an input: nothing is saved, and the known call has one result.
  const Array a({{1.0, 2.0}, {3.0, 4.0}});
  const auto dot = tl::jit([](Array x, Array y) { return tl::matmul(x, y); });
  const auto program = tl::make_jaxpr(
      [&](Array b) { return tl::linearize([&](Array y) { return dot(a, y); }, b).first; })(a);
  ASSERT_GE(program.jaxpr.eqns().size(), 1u);
  EXPECT_EQ(program.jaxpr.eqns()[0].outputs.size(), 1u) << program;
}

TEST(Linearize, ForwardsAResultThatIsAResidual) {
  TELAMON_TEST_NEEDS_COMPILER();
  // d exp(x) = exp(x) dx: the tangent map wants the result, which is computed once and in memory once.
  const auto g = tl::jit([](Array x) { return tl::exp(x); });
  const Array x({1.0, 2.0});
  const auto program = tl::make_jaxpr([&](Array a) {
    const auto [y, lin] = tl::linearize(g, a);
    return std::pair{y, lin(a)};
  })(x);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "exp"), 1) << program;
  EXPECT_EQ(program.jaxpr.eqns().at(0).outputs.size(), 1u) << program;
  const std::size_t before = tl::history().size();
  const auto [y, lin] = tl::linearize(g, x);
  ASSERT_EQ(tl::history().size(), before + 1);
  EXPECT_THAT(tl::last_executable().steps, ::testing::ElementsAre("kernel exp (2,)"));
  expect_near(lin(Array({1.0, 1.0})), values(y));
}

TEST(Linearize, LeavesNoPowersInTheTangentMap) {
  for (const int n : {2, 3, 7}) {
    const auto power = [n](Array x) { return tl::lax::integer_pow(x, n); };
    const auto [y, map] = tl::linearize(power, 4.0);
    EXPECT_EQ(tl::count_eqns(map.jaxpr(), "integer_pow"), 0) << map.jaxpr();
    EXPECT_EQ(tl::count_eqns(map.jaxpr()), 1) << map.jaxpr();
    EXPECT_EQ(value(map(1.0)), n * std::pow(4.0, n - 1));
  }
}

TEST(Linearize, RefusesTangentsThatDoNotFit) {
  const auto [y, lin] = tl::linearize(f, Array({1.0, 2.0}));
  EXPECT_ERROR(TypeError, (void)lin(Array({1.0f, 2.0f})),
               "inconsistent with the original primal values");
  EXPECT_ERROR(TypeError, (void)lin(Array({1.0})), "inconsistent with the original primal values");
  const auto misfit = [&] { (void)lin(Array({1.0})); };
  EXPECT_THAT(error_of(misfit), tells(__LINE__ - 1, "linearize"));
}

TEST(Linearize, GivesATangentMapThatIsAFunctionLikeAnother) {
  const auto [y, lin] = tl::linearize([](Array x, Array z) { return x * z; }, 3.0, 4.0);
  expect_near(tl::vmap(lin)(Array({1.0, 2.0}), Array({0.0, 1.0})), {4, 11});
  EXPECT_EQ(value(tl::jit(lin)(1.0, 1.0)), 7.0);
}

TEST(VariadicTransformations, SayWhereTheyWereCalled) {
  const auto f = [](Array x, Array y) { return x * y; };
  const Array none;
  const auto vjp = [&] { (void)tl::vjp(f, 1.0, none); };
  EXPECT_THAT(error_of(vjp), tells(__LINE__ - 1, "vjp"));
  const auto pair = [](Array x) { return std::pair{x, x}; };
  const auto vjp_aux = [&] { (void)tl::vjp_aux(pair, none); };
  EXPECT_THAT(error_of(vjp_aux), tells(__LINE__ - 1, "vjp"));
  const auto linearize = [&] { (void)tl::linearize(f, none, 1.0); };
  EXPECT_THAT(error_of(linearize), tells(__LINE__ - 1, "linearize"));
  const auto transpose = [&] { (void)tl::linear_transpose([](Array x) { return x; }, none); };
  EXPECT_THAT(error_of(transpose), tells(__LINE__ - 1, "linear_transpose"));
  const auto shape = [&] { (void)tl::eval_shape(f, 1.0, none); };
  EXPECT_THAT(error_of(shape), tells(__LINE__ - 1, "eval_shape"));
  const auto residuals = [&] { (void)tl::saved_residuals(f, 1.0, none); };
  EXPECT_THAT(error_of(residuals), tells(__LINE__ - 1, "saved_residuals"));
  const auto convert = [&] { (void)tl::closure_convert(f, 1.0, none); };
  EXPECT_THAT(error_of(convert), tells(__LINE__ - 1, "closure_convert"));
  const auto linear = [&] {
    const auto scale = [](Array r, Array x) { return r * x; };
    (void)tl::linear_call(scale, scale, none, Array(1.0));
  };
  EXPECT_THAT(error_of(linear), tells(__LINE__ - 2, "linear_call"));
  const auto throws = [&] {
    (void)tl::vjp([](Array) -> Array { throw tl::ValueError("no"); }, 1.0);
  };
  EXPECT_THAT(error_of(throws), tells(__LINE__ - 2, "vjp"));
}

TEST(VariadicTransformations, TakeAnyNumberOfArguments) {
  EXPECT_EQ(tl::eval_shape([] { return tl::ones({2}); }).shape(), tl::Shape{2});
  const auto sum = [](auto... x) { return (x + ... + Array(0.0)); };
  const auto check = [&](auto... x) {
    const auto [y, pull] =
        tl::vjp([&](std::type_identity_t<decltype(x)>... z) { return sum(z...); }, x...);
    EXPECT_EQ(value(y), static_cast<double>(sizeof...(x)));
    std::apply([](auto... ct) { EXPECT_EQ((value(ct) + ...), 2.0 * sizeof...(ct)); }, pull(2.0));
  };
  const Array one(1.0);
  check(one, one, one);
  check(one, one, one, one, one, one, one, one);
  check(one, one, one, one, one, one, one, one, one, one, one);
  // A wrapper hands its caller's line on.
  const auto none = [&](tl::SourceLocation where) {
    (void)tl::vjp([](Array x) { return x; }, Array(), where);
  };
  const auto call = [&] { none(tl::SourceLocation::current()); };
  EXPECT_THAT(error_of(call), tells(__LINE__ - 1, "vjp"));
}

// As in JAX 0.10: tangents and gradients of weakly typed values are weakly typed.
TEST(Jvp, TangentsAreAsWeakAsTheirPrimals) {
  const auto types = [](const auto& g, const Array& x, const Array& dx) {
    const auto [y, dy] = g(x, dx);
    return y.aval().to_string() + " " + dy.aval().to_string();
  };
  const auto expect_types = [&](const auto& g, const Array& x, const std::string& want) {
    const auto jvp_of = [](const auto& h) {
      return [h](Array at, Array along) {
        return tl::jvp(h, std::tuple{std::move(at)}, std::tuple{std::move(along)});
      };
    };
    for (const Array& dx : {Array(1.0), Array(1.0).astype(tl::f64)}) {
      EXPECT_EQ(types(jvp_of(g), x, dx), want);
      EXPECT_EQ(types(jvp_of(tl::jit(g)), x, dx), want);
      EXPECT_EQ(types(tl::jit(jvp_of(g)), x, dx), want);
    }
    const std::string type = x.aval().to_string();
    EXPECT_EQ(tl::grad(g)(x).aval().to_string(), type);
    EXPECT_EQ(tl::grad(tl::jit(g))(x).aval().to_string(), type);
    EXPECT_EQ(tl::jit(tl::grad(g))(x).aval().to_string(), type);
  };
  const Array weak(0.5), strong = weak.astype(tl::f64);
  ASSERT_TRUE(weak.weak_type() && !strong.weak_type());
  const auto sine = [](Array x) { return tl::sin(x); };
  const auto twice = [](Array x) { return x * 2.0; };
  const auto square = [](Array x) { return x * x; };
  const auto converted = [](Array x) { return x.astype(tl::f32); };
  for (const Array& x : {weak, strong}) {
    const std::string type = x.aval().to_string();
    expect_types(sine, x, type + " " + type);
    expect_types(twice, x, type + " " + type);
    expect_types(square, x, type + " " + type);
    expect_types(converted, x, "f32[] f32[]");
  }
}

}  // namespace
}  // namespace telamon_test
