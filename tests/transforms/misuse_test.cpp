// Misuse that used to end the process: functions that were moved from, null functions, rules whose
// results are not what abstract_eval says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jaxpr/parse.hpp"
#include "support/errors.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::error_of;
using telamon_test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const auto kSquare = [](Array x) { return x * x; };
const auto kProduct = [](Array x, Array y) { return x * y; };

// ---- moved from --------------------------------------------------------------------------------
TEST(MovedFrom, JittedFunctionStaysValid) {
  const double two = 2;
  auto f = jit([two](Array x) { return two * x; });
  const auto g = std::move(f);
  EXPECT_EQ(f(Array(3.0)).item<double>(), 6);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(g(Array(4.0)).item<double>(), 8);
  EXPECT_EQ(f.cache_size(), 1u);
}

TEST(MovedFrom, FunctionWithARuleOfItsOwnStaysValid) {
  auto f = custom_jvp(kSquare, [](Array x, Array dx) { return std::pair{x * x, 7 * dx}; });
  const auto g = std::move(f);
  EXPECT_EQ(grad(f)(Array(3.0)).item<double>(), 7);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(g(Array(3.0)).item<double>(), 9);
  auto h = custom_vjp(
      kSquare, [](Array x) { return std::pair{x * x, x}; },
      [](Array, Array ct) { return std::tuple{5 * ct}; });
  const auto k = std::move(h);
  EXPECT_EQ(grad(h)(Array(3.0)).item<double>(), 5);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(k(Array(3.0)).item<double>(), 9);
}

TEST(MovedFrom, LinearMapsStayValid) {
  const auto f = [](const std::vector<Array>& x) { return x[0] * x[1]; };
  const std::vector<Array> x{Array(2.0), Array(3.0)};
  auto [y, push] = linearize(f, x);
  auto other_push = std::move(push);
  EXPECT_EQ(push(x).item<double>(), 12);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(other_push(x).item<double>(), 12);
  auto [z, pull] = vjp(f, x);
  auto other_pull = std::move(pull);
  EXPECT_EQ(std::get<0>(pull(Array(1.0)))[0].item<double>(), 3);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(std::get<0>(other_pull(Array(1.0)))[1].item<double>(), 2);
}

// ---- null functions ----------------------------------------------------------------------------
TEST(NullFunction, IsNamedByEveryTransformation) {
  Array (*const f)(Array) = nullptr;
  std::pair<Array, Array> (*const step)(Array, Array) = nullptr;
  const auto rule = [](Array y, Array dy) { return std::pair{y, dy}; };
  const Array x(2.0), row({1.0, 2.0});
  const auto null = HasSubstr("the function to transform is null");
  EXPECT_THAT(message_of<ValueError>([&] { (void)jit(f)(x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)grad(f)(x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)vmap(f)(row); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)jacfwd(f)(x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)jvp(f, std::tuple{x}, std::tuple{x}); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)vjp(f, x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)make_jaxpr(f)(x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)checkpoint(f)(x); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)custom_jvp(f, rule); }), null);
  EXPECT_THAT(message_of<ValueError>([&] { (void)scan(step, x, row); }), null);
}

TEST(NullFunction, IsNamedByTreeFunctionsAndSolvers) {
  const std::function<Array(Array)> f;
  const std::function<Array(Array, Array)> two;
  const std::function<Array(const KeyPath&, Array)> with_path;
  const Array x(2.0), row({1.0, 2.0});
  const std::vector<Array> rows{row, row};
  const auto expect_null = [](const char* what, const std::function<void()>& call) {
    SCOPED_TRACE(what);
    EXPECT_THAT(error_of<ValueError>(call), AllOf(HasSubstr("the function to transform is null"),
                                                  HasSubstr("misuse_test.cpp")));
  };
  expect_null("tree_map", [&] { (void)tree_map(f, rows); });
  expect_null("tree_map of two", [&] { (void)tree_map(two, rows, rows); });
  expect_null("tree_map_with_path", [&] { (void)tree_map_with_path(with_path, rows); });
  expect_null("tree_reduce", [&] { (void)tree_reduce(two, rows); });
  expect_null("tree_reduce from a value", [&] { (void)tree_reduce(two, rows, x); });
  expect_null("cg", [&] { (void)cg(f, row); });
  expect_null("bicgstab", [&] { (void)bicgstab(f, row); });
  expect_null("newton", [&] { (void)root::newton(f, x); });
  expect_null("fixed_point", [&] { (void)root::fixed_point(f, x); });
  expect_null("bisection", [&] { (void)root::bisection(f, 0.0, 1.0); });
  expect_null("map", [&] { (void)map(f, row); });
  expect_null("linear_call", [&] { (void)linear_call(two, kProduct, x, x); });
  expect_null("linear_call's transpose", [&] { (void)linear_call(kProduct, two, x, x); });
}

TEST(NullFunction, IsAStdFunctionThatWasMovedFrom) {
  std::function<Array(Array)> f = kSquare;
  const auto g = std::move(f);
  EXPECT_EQ(grad(g)(Array(3.0)).item<double>(), 6);
  EXPECT_THAT(telamon_test::error_of<ValueError>([&] { (void)grad(f)(Array(3.0)); }),  // NOLINT
              AllOf(HasSubstr("moved from"), HasSubstr("misuse_test.cpp")));
}

// ---- names -------------------------------------------------------------------------------------
TEST(PrimitiveNames, AreUsedOnce) {
  const auto twice = [](const NoParams&, std::span<const Array> x) { return Arrays{x[0] * 2.0}; };
  const Primitive<> mine{"sin", [&] { return Rules<>{.lower = ops<NoParams>(twice)}; }};
  const auto expected = AllOf(HasSubstr("two primitives are called 'sin'; give yours another name"),
                              HasSubstr("misuse_test.cpp:"));
  EXPECT_THAT(telamon_test::error_of<ValueError>([&] { (void)mine({}, {1.0}); }), expected);
  EXPECT_THAT(telamon_test::error_of<ValueError>(
                  [&] { (void)make_jaxpr([&](Array x) { return mine({}, {x})[0]; })(1.0); }),
              expected);
  EXPECT_EQ(PrimitiveBase::find("sin"), &sin_p);
  const Jaxpr program = make_jaxpr([](Array x) { return sin(x); })(1.0).jaxpr;
  EXPECT_EQ(parse_jaxpr(program.to_string()), program);
}

TEST(PrimitiveNames, AreFreeAgainWhenTheirPrimitiveIsGone) {
  for (const double scale : {2.0, 3.0}) {
    const Primitive<> p{
        "test_scale", [&] {
          return Rules<>{.lower = ops<NoParams>([=](const NoParams&, std::span<const Array> x) {
                           return Arrays{x[0] * scale};
                         })};
        }};
    EXPECT_EQ(p({}, {4.0})[0].item<double>(), 4.0 * scale);
  }
}

// ---- results of rules --------------------------------------------------------------------------
const auto kOne = [](const NoParams&, std::span<const Aval> x) { return AbstractResult(x[0]); };

TEST(RuleResults, OfImplAreAsManyAsAbstractEvalSays) {
  const Primitive<> p{"p"};
  p.def_abstract_eval(kOne).def_impl(
      [](const NoParams&, std::span<const Array>) { return Arrays{}; });
  EXPECT_THAT(message_of<TypeError>([&] { (void)p.bind({}, {Array(1.0)}); }),
              HasSubstr("the impl rule of 'p' gave 0 results, abstract_eval says 1"));
  p.def_impl([](const NoParams&, std::span<const Array>) { return Arrays{Array()}; });
  EXPECT_THAT(
      message_of<TypeError>([&] { (void)p.bind({}, {Array(1.0)}); }),
      HasSubstr("the impl rule of 'p' gave an empty Array as result 0, abstract_eval says"));
}

TEST(RuleResults, OfImplMayBeNone) {
  const Primitive<> p{"p"};
  p.def_abstract_eval([](const NoParams&, std::span<const Aval>) {
     return AbstractResult(std::vector<Aval>{});
   }).def_impl([](const NoParams&, std::span<const Array>) { return Arrays{}; });
  EXPECT_EQ(p.bind({}, {Array(1.0)}).size(), 0u);
}

TEST(RuleResults, OfJvpAreComparedToo) {
  const Primitive<> p{"p"};
  p.def_abstract_eval(kOne)
      .def_impl([](const NoParams&, std::span<const Array> x) { return Arrays{x[0]}; })
      .def_jvp([](const NoParams&, std::span<const Array>, std::span<const Tangent>) {
        return JvpResult{};
      });
  const auto slope = [&] { (void)grad([&](Array x) { return p.bind1({}, {x}); })(Array(2.0)); };
  EXPECT_THAT(message_of<TypeError>(slope),
              HasSubstr("the jvp rule of 'p' gave 0 results, abstract_eval says 1"));
  p.def_jvp([](const NoParams&, std::span<const Array> x, std::span<const Tangent>) {
    return JvpResult{{x[0]}, {}};
  });
  EXPECT_THAT(message_of<TypeError>(slope),
              HasSubstr("the jvp rule of 'p' gave 1 result and 0 tangents"));
  p.def_jvp([](const NoParams&, std::span<const Array> x, std::span<const Tangent> dx) {
    return JvpResult{{x[0]}, {dx[0].array().astype(f32)}};
  });
  EXPECT_THAT(message_of<TypeError>(slope),
              HasSubstr("gave a tangent of type f32[] with result 0 of type"));
}

TEST(RuleResults, OfBatchAreComparedToo) {
  const Primitive<> p{"p"};
  p.def_abstract_eval(kOne)
      .def_impl([](const NoParams&, std::span<const Array> x) { return Arrays{x[0]}; })
      .def_batch([](const NoParams&, const AxisInfo&, std::span<const Array>,
                    std::span<const BatchAxis>) { return BatchResult{}; });
  const auto mapped = [&] {
    (void)vmap([&](Array x) { return p.bind1({}, {x}); })(Array({1.0, 2.0}));
  };
  EXPECT_THAT(message_of<TypeError>(mapped),
              HasSubstr("the batch rule of 'p' gave 0 results, abstract_eval says 1"));
  p.def_batch([](const NoParams&, const AxisInfo&, std::span<const Array> x,
                 std::span<const BatchAxis>) { return BatchResult{{x[0]}, {3}}; });
  EXPECT_THAT(message_of<TypeError>(mapped),
              HasSubstr("the batch rule of 'p' gave batch axis 3 for result 0 of type f64[2]"));
}

// ---- advice ------------------------------------------------------------------------------------
TEST(Advice, SaysWhatToDoInstead) {
  const auto doubled = [](Array x) { return x * 2.0; };
  EXPECT_THAT(message_of<TypeError>([&] { (void)grad(doubled)(Array({1.0, 2.0})); }),
              AllOf(HasSubstr("tl::sum"), HasSubstr("tl::jacrev")));
  EXPECT_THAT(message_of<TypeError>([] { (void)random::normal(zeros({3}), {2}); }),
              HasSubstr("random::normal needs a key"));
  EXPECT_THAT(message_of<TypeError>([] { (void)random::bernoulli(zeros({3}), 0.5, Shape{2}); }),
              HasSubstr("random::bernoulli needs a key"));
}

// ---- places ------------------------------------------------------------------------------------
TEST(ErrorPlaces, AreThoseOfReadsAndConstructors) {
  const auto here = HasSubstr("at misuse_test.cpp:");
  const Array empty, row({1.0, 2.0});
  const auto text = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const Error& e) { return e.what(); }
    return "no error";
  };
  EXPECT_THAT(text([&] { (void)row.item<double>(); }), here);
  EXPECT_THAT(text([&] { (void)row.shape(4); }), here);
  EXPECT_THAT(text([&] { (void)empty.shape(); }), here);
  EXPECT_THAT(text([&] { (void)empty.dtype(); }), here);
  EXPECT_THAT(text([&] { (void)empty.to_vector<double>(); }), here);
  EXPECT_THAT(text([&] { (void)lax::reshape(empty, {2}); }), here);
  EXPECT_THAT(text([&] { (void)(empty >> row); }), here);
  EXPECT_THAT(text([&] { (void)optim::adam_init(empty); }), here);
  EXPECT_THAT(text([&] { (void)optimization_barrier(empty); }), here);
  EXPECT_THAT(text([&] { (void)stop_gradient(empty); }), here);
  EXPECT_THAT(
      text([&] { (void)tree_map_with_path([](const KeyPath&, Array x) { return x; }, empty); }),
      here);
  EXPECT_THAT(text([&] { (void)checkify(kSquare)(empty); }), here);
  EXPECT_THAT(text([&] { (void)checkpoint(kSquare)(empty); }), here);
  EXPECT_THAT(text([&] { (void)nn::gru_start({}); }), here);
  EXPECT_THAT(text([&] { (void)nn::lstm_start({}); }), here);
  EXPECT_THAT(text([&] { (void)optim::Result<Array>{}.message(); }), here);
  EXPECT_THAT(text([&] { (void)Array(std::vector<double>{1, 2}, {3}); }), here);
  EXPECT_THAT(text([&] { (void)Array({{1.0, 2.0}, {3.0}}); }), here);
  EXPECT_THAT(text([&] { (void)Array::from_data(nullptr, f32, {3}); }), here);
  EXPECT_THAT(text([&] { (void)row(5); }), here);
  EXPECT_THAT(text([&] { (void)row.at(5).set(1.0); }), here);
  EXPECT_THAT(text([&] { check_grads([](Array x) { return stop_gradient(x); }, std::tuple{row}); }),
              here);
}

TEST(ErrorPlaces, AreThoseOfJitBeforeItsFirstCall) {
  EXPECT_THAT(telamon_test::error_of<ValueError>([] { (void)jit(kSquare, {.max_signatures = 0}); }),
              HasSubstr("at misuse_test.cpp:"));
}

// What is wrong is often found by a function that the called one is made of.
TEST(ErrorTexts, BeginWithTheFunctionThatWasCalledWhereTheMessageDoesNotNameIt) {
  const Array v({1.0, 2.0, 3.0}), m({{1.0, 2.0}, {3.0, 4.0}}), key = random::key(0);
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"add: the integer 300 does not fit dtype u8", [&] { (void)(ones({2}, u8) + 300); }},
      {"trace: diagonal: axis 1", [&] { (void)trace(v); }},
      {"softmax: max: axis 1", [&] { (void)softmax(v, 1); }},
      {"clip: maximum got", [&] { (void)clip(v, m); }},
      {"x.at(...).set: broadcast_to: ", [&] { (void)v.at(0).set(m); }},
      {"matmul: dot_general of", [&] { (void)matmul(ones({kMany, 1}), ones({1, kMany})); }},
      {"take: ", [&] { (void)take(v, zeros({kMany}, i32)); }},
      {"random::randint: broadcast_to: ",
       [&] { (void)random::randint(key, {3}, zeros({2}, i32), 5); }},
      {"nn::gru_init: random::split needs a key", [&] { (void)nn::gru_init(v, 3, 3); }},
      {"nn::lstm_init: random::uniform: ",
       [&] { (void)nn::lstm_init(key, 3, std::int64_t{1} << 60); }},
      {"scan: add got",
       [&] { (void)scan([&](Array c, Array x) { return std::pair{c + m, x}; }, v, v); }},
      {"indexing: too many indices", [&] { (void)v(0, 0); }},
      {"sort: axis 1", [&] { (void)sort(v, 1); }},  // once is enough
      {"stack needs arrays of one shape", [&] { (void)stack({v, m}); }},
  };
  for (const auto& [text, call] : calls)
    EXPECT_THAT(telamon_test::error_of<Error>(call),
                AllOf(StartsWith(text), HasSubstr("at misuse_test.cpp:")));
}

TEST(ErrorTexts, OfEquationsBeginWithTheFunctionThatMadeThem) {
  const auto f = [](const Array& x) {
    return sum(while_loop([](const Array& y) { return sum(y) < 9; },
                          [](const Array& y) { return y * 2; }, x));
  };
  EXPECT_THAT(telamon_test::error_of<ValueError>([&] { (void)jit(grad(f))(Array({1.0, 2.0})); }),
              AllOf(StartsWith("Reverse-mode"), HasSubstr("while_loop")));
  EXPECT_THAT(telamon_test::error_of<ValueError>([&] {
                (void)jit(grad([&](const Array& x) { return cond(sum(x) > 0, f, f, x); }))(
                    Array({1.0, 2.0}));
              }),
              StartsWith("cond: Reverse-mode"));
}

TEST(ErrorTexts, NameACallByWholeWords) {
  const auto message_in = [](const char* call, const char* message) {
    const detail::CallSite site(SourceLocation::current(), call);
    return std::string(ValueError(message).what());
  };
  EXPECT_THAT(message_in("max", "softmax: no"), StartsWith("max: softmax: no"));
  EXPECT_THAT(message_in("max", "max_pool, then max"), StartsWith("max_pool, then max\n"));
  EXPECT_THAT(message_in("max", "no; use max"), StartsWith("max: no; use max\n"));
  EXPECT_THAT(message_in("max", ""), StartsWith("max: \n"));
  const detail::CallSite site(SourceLocation::current(), "max");
  EXPECT_EQ(ValueError("no").message(), "no");
}

// These take no place: rather none than one within the library.
TEST(ErrorPlaces, AreNoneOfNotAndBool) {
  const Array empty;
  EXPECT_EQ(telamon_test::error_of<TypeError>([&] { (void)!empty; }),
            "logical_not: operand 0 is an empty Array (default-constructed or moved from)");
  EXPECT_EQ(telamon_test::error_of<TypeError>([&] { (void)bool(empty); }),
            "bool(): operand 0 is an empty Array (default-constructed or moved from)");
}

TEST(EmptyArray, IsToldByTheFunctionAndItsPlace) {
  struct Pair {
    Array w, b;
  };
  const Array empty, x({1.0, 2.0});
  const auto product = [](Array a, Array b) { return sum(a * b); };
  const auto loss = [](Pair p, Array a) { return sum(a * p.w + p.b); };
  const JitOptions interpreted{.backend = "interpret", .name = "f"};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"add: operand 1", [&] { (void)(x + empty); }},
      {"multiply: operand 0", [&] { (void)(empty * x); }},
      {"equal: operand 1", [&] { (void)(x == empty); }},
      {"sin: operand 0", [&] { (void)sin(empty); }},
      {"floor: operand 0", [&] { (void)floor(empty); }},
      {"log2: operand 0", [&] { (void)log2(empty); }},
      {"matmul: operand 1", [&] { (void)matmul(x, empty); }},
      {"where: operand 2", [&] { (void)where(x > 0, x, empty); }},
      {"sum: operand 0", [&] { (void)sum(empty); }},
      {"argmax: operand 0", [&] { (void)argmax(empty); }},
      {"reshape: operand 0", [&] { (void)empty.reshape({2}); }},
      {"astype: operand 0", [&] { (void)empty.astype(DType::f32); }},
      {"concatenate: operand 1", [&] { (void)concatenate({x, empty, x}); }},
      {"stack: operand 0", [&] { (void)stack({empty, x}); }},
      {"einsum: operand 1", [&] { (void)einsum("i,i", x, empty); }},
      {"indexing: operand 0", [&] { (void)empty(0); }},
      {"indexing: operand 1", [&] { (void)x(empty); }},
      {"x.at(...).set: operand 2", [&] { (void)x.at(0).set(empty); }},
      {"random::normal: operand 0", [&] { (void)random::normal(empty, {3}); }},
      {"add: operand 0", [&] { (void)lax::add(empty, x); }},
      {"sin: operand 0", [&] { (void)sin_p({}, {empty}); }},
      {"eval_jaxpr: operand 1",
       [&] { (void)eval_jaxpr(make_jaxpr(product)(x, x).jaxpr, Arrays{x, empty}); }},
      {"jit(f): the Array at args[1]", [&] { (void)jit(product, interpreted)(x, empty); }},
      {"jit(f): the Array at args[0].b", [&] { (void)jit(loss, interpreted)(Pair{x, empty}, x); }},
      {"grad: the Array at args[0]", [&] { (void)grad(product)(empty, x); }},
      {"grad: the Array at args[1]", [&] { (void)grad(product)(x, empty); }},
      {"value_and_grad: the Array at args[0]", [&] { (void)value_and_grad(product)(empty, x); }},
      {"jacfwd: the Array at args[0]", [&] { (void)jacfwd(kSquare)(empty); }},
      {"jacrev: the Array at args[1]", [&] { (void)jacrev(product)(x, empty); }},
      {"hessian: the Array at args[0]", [&] { (void)hessian(product)(empty, x); }},
      {"jit(f): the Array at args[0]",
       [&] { (void)jit(kSquare, {.name = "f", .static_argnums = {0}})(empty); }},
      {"vmap: the Array at args[1]", [&] { (void)vmap(product)(x, empty); }},
      {"linear_transpose: the Array at args[0]", [&] { (void)linear_transpose(kSquare, empty); }},
      {"item(): operand 0", [&] { (void)empty.item<double>(); }},
      {"to_vector(): operand 0", [&] { (void)empty.to_vector<bool>(); }},
      {"shape(): operand 0", [&] { (void)empty.shape(); }},
      {"shape(): operand 0", [&] { (void)empty.shape(0); }},
      {"ndim(): operand 0", [&] { (void)empty.ndim(); }},
      {"size(): operand 0", [&] { (void)empty.size(); }},
      {"dtype(): operand 0", [&] { (void)empty.dtype(); }},
      {"aval(): operand 0", [&] { (void)empty.aval(); }},
      {"weak_type(): operand 0", [&] { (void)empty.weak_type(); }},
      {"is_tracer(): operand 0", [&] { (void)empty.is_tracer(); }},
      {"T(): operand 0", [&] { (void)empty.T(); }},
      {"bool(): operand 0", [&] { (void)static_cast<bool>(empty); }},
      {"zeros_like: operand 0", [&] { (void)zeros_like(empty); }},
      {"slice_in_dim: operand 0", [&] { (void)lax::slice_in_dim(empty, 0, 1, 1, 0); }},
      {"dynamic_slice: operand 1", [&] { (void)lax::dynamic_slice(x, Arrays{empty}, {1}); }},
      {"check: operand 0", [&] { check(empty, "never"); }},
      {"check: operand 2", [&] { check(true, "never {}", empty); }},
      {"positive: operand 0", [&] { (void)+empty; }},
      {"right_shift: operand 1", [&] { (void)(1 >> empty); }},
      {"mod: operand 1", [&] { (void)mod(x, empty); }},
      {"asarray: operand 0", [&] { (void)asarray(empty); }},
      {"sigmoid: operand 0", [&] { (void)sigmoid(empty); }},
      {"softplus: operand 0", [&] { (void)softplus(empty); }},
      {"sin: operand 0", [&] { (void)sin_p.bind({}, {empty}); }},
      {"check_primitive of sin: operand 0", [&] { check_primitive(sin_p, {}, {empty}); }},
  };
  for (const auto& [what, call] : calls) {
    EXPECT_THAT(message_of<TypeError>(call),
                AllOf(StartsWith(std::string(what) + " is "), HasSubstr("empty")));
  }
  EXPECT_THAT(message_of<TypeError>([&] { (void)grad([](Array) { return Array(); })(x); }),
              HasSubstr("grad: the function returned an empty Array"));
}

// Functions that have nothing to do here look at their operands too.
TEST(EmptyArray, IsToldByStrictFunctions) {
  const Array empty, x({1.0, 2.0});
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"convert_element_type", [&] { (void)lax::convert_element_type(empty, f32); }},
      {"bitcast_convert_type", [&] { (void)lax::bitcast_convert_type(empty, f32); }},
      {"broadcast_in_dim", [&] { (void)lax::broadcast_in_dim(empty, {2}, {0}); }},
      {"broadcast", [&] { (void)lax::broadcast(empty, {2}); }},
      {"broadcast", [&] { (void)lax::broadcast(empty, {}); }},
      {"reshape", [&] { (void)lax::reshape(empty, {2}); }},
      {"transpose", [&] { (void)lax::transpose(empty, {0}); }},
      {"squeeze", [&] { (void)lax::squeeze(empty, {}); }},
      {"expand_dims", [&] { (void)lax::expand_dims(empty, {}); }},
      {"rev", [&] { (void)lax::rev(empty, {}); }},
      {"concatenate", [&] { (void)lax::concatenate(Arrays{empty}, 0); }},
      {"split", [&] { (void)lax::split(empty, {2}); }},
      {"pad", [&] { (void)lax::pad(empty, 0.0, {{0, 0, 0}}); }},
      {"slice", [&] { (void)lax::slice(empty, {0}, {2}); }},
      {"reduce_sum", [&] { (void)lax::reduce_sum(empty, {}); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_THAT(message_of<TypeError>(call),
                StartsWith(std::string(name) + ": operand 0 is an empty Array"));
  }
  EXPECT_THAT(message_of<TypeError>([&] { (void)lax::select_n(true, Arrays{x, empty}); }),
              StartsWith("select_n: operand 2 is an empty Array"));
}

TEST(EmptyArray, IsToldByFunctionsOfFunctionsAndOfTrees) {
  const Array empty, x({1.0, 2.0}), one(1.0), matrix = ones({2, 2}, f64);
  const auto same = [](Array a) { return a; };
  const auto sum_of = [](Array a, Array b) { return a + b; };
  const auto step = [](Array c, Array row) { return std::pair{c + row, c}; };
  const auto nothing = [&](Array) { return empty; };
  const auto adam = optim::adam_init(x);
  const nn::Gru gru = nn::gru_init(random::key(0), 2, 2);
  const Array h = nn::gru_start(gru);
  const auto falling = [](Array y, Array) { return -y; };
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"scan: the Array at init", [&] { (void)scan(step, empty, x); }},
      {"scan: the Array at xs", [&] { (void)scan(step, one, empty); }},
      {"while_loop: the Array at init",
       [&] { (void)while_loop([](Array c) { return c < 1; }, same, empty); }},
      {"fori_loop: the Array at init",
       [&] { (void)fori_loop(0, 2, [](Array, Array c) { return c; }, empty); }},
      {"map: the Array at xs", [&] { (void)map(same, empty); }},
      {"map: the Array at xs", [&] { (void)map(same, empty, {.batch_size = 2}); }},
      {"the function of map: the Array", [&] { (void)map(nothing, x); }},
      {"associative_scan: the Array at elems", [&] { (void)associative_scan(sum_of, empty); }},
      {"optimization_barrier: the Array", [&] { (void)optimization_barrier(empty); }},
      {"checkpoint_name: the Array", [&] { (void)checkpoint_name(empty, "a"); }},
      {"cg: the Array at A", [&] { (void)cg(empty, x); }},
      {"cg: the Array at b", [&] { (void)cg(matrix, empty); }},
      {"cg: the Array at x0", [&] { (void)cg(matrix, x, {.x0 = empty}); }},
      {"cg: A and b: the Array", [&] { (void)cg(nothing, x); }},
      {"bicgstab: the Array at A", [&] { (void)bicgstab(empty, x); }},
      {"newton: the Array at x0", [&] { (void)root::newton(same, empty); }},
      {"newton: f and x0: the Array", [&] { (void)root::newton(nothing, one); }},
      {"fixed_point: f and x0: the Array", [&] { (void)root::fixed_point(nothing, one); }},
      {"bisection: the Array at low", [&] { (void)root::bisection(same, empty, one); }},
      {"bisection: the Array at high", [&] { (void)root::bisection(same, one, empty); }},
      {"sgd_step: the Array at gradient", [&] { (void)optim::sgd_step(x, empty, 0.1); }},
      {"sgd_step: the Array at rate", [&] { (void)optim::sgd_step(x, x, empty); }},
      {"adam_init: the Array at params", [&] { (void)optim::adam_init(empty); }},
      {"adam_step: the Array at state.mean",
       [&] { (void)optim::adam_step(x, x, {empty, adam.square, adam.step}, 0.1); }},
      {"nn::gru: the Array at cell.b_n",
       [&] { (void)nn::gru({gru.w_x, gru.w_h, gru.b, empty}, h, x); }},
      {"nn::gru: the Array at x", [&] { (void)nn::gru(gru, h, empty); }},
      {"nn::lstm_start: the Array at cell.w_x", [] { (void)nn::lstm_start({}); }},
      {"nn::gru_start: the Array at cell.w_x", [] { (void)nn::gru_start({}); }},
      {"minimize: the Array at x0[1]",
       [&] {
         const auto first = [](const std::vector<Array>& v) { return sum(v[0]); };
         (void)optim::minimize(first, std::vector{x, empty});
       }},
      {"odeint: the Array at y0", [&] { (void)ode::odeint(falling, empty, x); }},
      {"odeint: the Array at ts", [&] { (void)ode::odeint(falling, one, empty); }},
      {"cond: the Array at operands[0]", [&] { (void)cond(true, same, same, empty); }},
      {"message(): the Array at status", [] { (void)optim::Result<Array>{}.message(); }},
      {"checkify: the Array at args[0]", [&] { (void)checkify(same)(empty); }},
      {"checkpoint: the Array at args[0]", [&] { (void)checkpoint(same)(empty); }},
      {"stop_gradient: the Array at [\"b\"]",
       [&] { (void)stop_gradient(std::map<std::string, Array>{{"a", x}, {"b", empty}}); }},
      {"tree_map: the Array at args[1][0]",
       [&] { (void)tree_map(sum_of, std::vector{x}, std::vector{empty}); }},
      {"the function of tree_map: the Array at [\"a\"]",
       [&] { (void)tree_map(nothing, std::map<std::string, Array>{{"a", x}}); }},
      {"the function of tree_map_with_path: the Array at [1]",
       [&] {
         const auto first_only = [&](const KeyPath& path, Array a) {
           return path.to_string() == "[0]" ? a : empty;
         };
         (void)tree_map_with_path(first_only, std::pair{x, x});
       }},
      {"tree_reduce: the Array at [1]", [&] { (void)tree_reduce(sum_of, std::pair{x, empty}); }},
      {"tree_reduce: the Array at [1]",
       [&] { (void)tree_reduce(sum_of, std::pair{x, empty}, Array(0.0)); }},
      {"tree_equal: the Array at args[1]", [&] { (void)tree_equal(x, empty); }},
      {"tree_transpose: the Array at [0][1]",
       [&] { (void)tree_transpose(std::vector{std::pair{x, empty}}); }},
      {"tree_map_with_path: the Array",
       [&] { (void)tree_map_with_path([](const KeyPath&, Array a) { return a; }, empty); }},
      {"check_grads: the Array at args[0]", [&] { check_grads(same, std::tuple{empty}); }},
  };
  for (const auto& [what, call] : calls) {
    const std::string text = message_of<TypeError>(call);
    EXPECT_THAT(text, AllOf(StartsWith(what), HasSubstr(" is empty (default-constructed")));
  }
}

// ---- where and what ------------------------------------------------------------------------------

int line_of(const char* text, const std::string& in) {
  const auto at = in.find(text);
  return at == std::string::npos ? 0 : std::stoi(in.substr(at + std::string(text).size()));
}

// A conversion takes no place: the line is that of the condition's operands.
TEST(Misplaced, ConditionsOfTracersSayWhereTheyWereComputed) {
  int line = 0;
  const auto chooses = [&](Array x) {
    line = __LINE__ + 1;
    const Array positive = x > 0;
    return bool(positive) ? x : -x;
  };
  const std::string text = error_of<ConcretizationError>([&] { (void)jit(chooses)(1.0); });
  EXPECT_THAT(text, StartsWith("bool() needs the value of a tracer ~bool[], created at "));
  EXPECT_EQ(line_of("created at misuse_test.cpp:", text), line);
  const auto negates = [&](Array x) {
    line = __LINE__ + 1;
    const Array positive = x > 0;
    return !positive;
  };
  const Jaxpr program = make_jaxpr(negates)(1.0).jaxpr;
  EXPECT_EQ(program.eqns().back().where.line, line);
  // What is asked on the line of the value says it once.
  const auto asks = [](Array x) { return x * (x + 1).item<double>(); };
  EXPECT_THAT(error_of<ConcretizationError>([&] { (void)jit(asks)(1.0); }),
              Not(HasSubstr("created at")));
}

TEST(Misplaced, TextsOfProgramsSayWhoParsesThem) {
  const int line = __LINE__ + 1;
  const std::string text = error_of<ParseError>([] { (void)parse_jaxpr("{ lambda a:f32[] . "); });
  EXPECT_THAT(text, StartsWith("parse_jaxpr: jaxpr text, 1:20: "));
  EXPECT_EQ(line_of("\n  at misuse_test.cpp:", text), line);
  const Jaxpr wrong =
      detail::parse_untyped_jaxpr("{ lambda a:f32[] . let b:f64[] = sin a in ( b ) }");
  const auto check = [&] { (void)typecheck_jaxpr(wrong); };
  EXPECT_EQ(line_of("\n  at misuse_test.cpp:", error_of(check)), __LINE__ - 1);
}

TEST(Misused, ArraysThatWereDonatedAfterAFunctionCapturedThem) {
  Array w = zeros({1000}) + 1.0;
  const int line = __LINE__ + 1;
  const auto loss = jit([w](Array x) { return sum(x * w); }, {.name = "loss"});
  const auto copied = jit([c = lax::copy(w)](Array x) { return sum(x * c); });
  const auto step = jit([](Array v) { return 2.0 * v; }, {.donate = {0}, .name = "step"});
  const Array x = ones({1000});
  (void)step(w);
  if (counters().donations == 0) GTEST_SKIP() << "nothing takes over donated memory";
  const std::function<void()> calls[] = {[&] { (void)loss(x); }, [&] { (void)grad(loss)(x); },
                                         [&] { (void)loss(ones({2, 1000})); }};
  for (const auto& call : calls) {
    const std::string text = error_of<DonatedBufferError>(call);
    EXPECT_THAT(text, StartsWith("jit(loss) captured the array f32[1000], whose buffer was then "
                                 "donated to step: "));
    EXPECT_THAT(text, HasSubstr("capture tl::lax::copy(x)"));
    EXPECT_EQ(line_of("\n  at misuse_test.cpp:", text), line);
  }
  EXPECT_EQ(copied(x).item<float>(), 1000);
  // An argument is none that was captured.
  EXPECT_THAT(error_of<DonatedBufferError>([&] { (void)copied(w); }), Not(HasSubstr("captured")));
}

TEST(Misused, ExtremaOfNothing) {
  EXPECT_EQ(message_of<ValueError>([] { (void)argmax(zeros({0, 3}), 0); }),
            "attempt to get argmax of an empty sequence: axis 0 of f32[0,3] has no elements, so "
            "there is no index to give; look at x.size() first");
  EXPECT_THAT(message_of<ValueError>([] { (void)argmin(zeros({2, 0})); }),
              StartsWith("attempt to get argmin of an empty sequence: f32[2,0] has no elements"));
  EXPECT_THAT(
      message_of<ValueError>([] { (void)max(zeros({2, 0}), 1); }),
      StartsWith("max of no elements: axis 1 of f32[2,0] is empty, and max has no identity"));
}

TEST(Misused, TheMessageOfMappedResults) {
  const auto lowest = [](Array start) {
    return optim::minimize([](Array x) { return square(x); }, start);
  };
  const auto results = vmap(lowest)(Array({1.0, 2.0, 3.0}));
  EXPECT_THAT(error_of<TypeError>([&] { (void)results.message(); }),
              StartsWith("message() is of one problem, and this result is of 3, with the status "
                         "i32[3]; take one out of it: tl::tree_map("));
  const auto second = tree_map([](Array a) { return a(1); }, results);
  EXPECT_EQ(second.message(), "converged: the gradient is below gtol");
}

}  // namespace
}  // namespace telamon
