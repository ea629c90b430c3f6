// A primitive of the user's with each form of lowering: all its rules agree, compiled or not.
#include <gtest/gtest.h>

#include "telamon/families.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

const Array kX = Array({{0.5, -1.25, 2.0}, {1.5, 0.25, -0.75}});

/// A function of other primitives; the rules but `lower` follow from it.
Rules<> rules_of(Arrays (*f)(const NoParams&, std::span<const Array>), Lowering lower) {
  Rules<> rules{.lower = ops<NoParams>(f)};
  const Primitive<> like("test_like", [rules] { return rules; });
  const detail::RuleTable& derived = like.rules();
  const auto untyped = [](auto rule) {
    return [rule](const NoParams&, auto&&... args) {
      return rule(Params::of(NoParams{}), std::forward<decltype(args)>(args)...);
    };
  };
  return {.impl = untyped(derived.impl),
          .abstract_eval = untyped(derived.abstract_eval),
          .jvp = untyped(derived.jvp),
          .batch = untyped(derived.batch),
          .lower = std::move(lower)};
}

void expect_sound(const Primitive<>& p, std::initializer_list<Array> args) {
  EXPECT_NO_THROW(check_primitive(p, {}, args, {.native_rtol = 1e-15}));
}

TEST(Lowerings, ElementByElementWithOneResultOrTwo) {
  const Primitive<> one{
      "test_element", [] {
        return rules_of(
            [](const NoParams&, std::span<const Array> x) {
              return Arrays{lax::mul(x[0], lax::add(x[0], x[1]))};
            },
            element([](Emitter& e, Scalar a, Scalar b) { return e.mul(a, e.add(a, b)); }));
      }};
  expect_sound(one, {kX, lax::exp(kX)});
  const Primitive<> two{
      "test_elements", [] {
        return rules_of(
            [](const NoParams&, std::span<const Array> x) {
              return Arrays{lax::neg(x[0]), lax::mul(x[0], x[0])};
            },
            elements<NoParams>([](Emitter& e, const NoParams&, std::span<const Scalar> x) {
              return Scalars{e.neg(x[0]), e.mul(x[0], x[0])};
            }));
      }};
  expect_sound(two, {kX});
}

// What a rule captured is the rule's: a view is read as one, and what becomes of the array later changes
// no program.
TEST(Lowerings, CaptureArrays) {
  const Array x({1., 2., 3.});
  const auto plus = [](const char* name, const Array& table) {
    return Primitive<>(name, [table] {
      return Rules<>{.lower = ops<NoParams>([table](const NoParams&, std::span<const Array> in) {
                       return Arrays{lax::add(in[0], table)};
                     })};
    });
  };
  const Primitive<> view = plus("test_view", lax::full({3}, DType::f64, 5));
  const auto of_view = jit([&](const Array& a) { return view.bind1({}, {a}); });
  EXPECT_EQ(of_view(x).to_vector<double>(), (std::vector<double>{6, 7, 8}));

  Array table({10., 20., 30.});
  const Primitive<> given = plus("test_given", table);
  const auto of_given = jit([&](const Array& a) { return given.bind1({}, {a}); });
  EXPECT_EQ(of_given(x).to_vector<double>(), (std::vector<double>{11, 22, 33}));
  const auto next = jit([](const Array& a) { return a + 1; }, {.donate = {0}});
  static_cast<void>(next(table));
  EXPECT_EQ(of_given(x).to_vector<double>(), (std::vector<double>{11, 22, 33}));
}

TEST(Lowerings, AtAnIndex) {
  const Primitive<> p{
      "test_at_index", [] {
        return rules_of(
            [](const NoParams&, std::span<const Array> x) {
              return Arrays{lax::transpose(x[0], {1, 0})};
            },
            at_index<NoParams>([](Emitter&, const NoParams&, std::span<const Source> x,
                                  const Index& i) { return x[0]({i[1], i[0]}); }));
      }};
  expect_sound(p, {kX});
}

TEST(Lowerings, AsAKernelOverBuffers) {
  const Primitive<> p{
      "test_kernel", [] {
        return rules_of(
            [](const NoParams&, std::span<const Array> x) { return Arrays{lax::rev(x[0], {0})}; },
            kernel<NoParams>([](Emitter& e, const NoParams&, std::span<const Buffer> in,
                                std::span<const Buffer> out) {
              const Scalar last = e.index(in[0].shape()[0] - 1);
              e.loop(e.index(0), e.index(in[0].shape()[0]),
                     [&](Scalar i) { e.store(out[0], {e.sub(last, i)}, e.load(in[0], {i})); });
            }));
      }};
  expect_sound(p, {Array({0.5, -1.25, 2.0, 3.0})});
}

TEST(Lowerings, AsACallOfAFunction) {
  const Primitive<> p{
      "test_call", [] {
        return rules_of(
            [](const NoParams&, std::span<const Array> x) { return Arrays{lax::add(x[0], x[0])}; },
            call<NoParams>([](const NoParams&, std::span<const BufferView> in,
                              std::span<const MutableBufferView> out) {
              for (std::int64_t i = 0; i < in[0].size(); ++i)
                out[0].as<double>()[i] = 2 * in[0].as<double>()[i];
            }));
      }};
  expect_sound(p, {kX});
}

TEST(Lowerings, OfAComparisonByItsFamily) {
  static const Primitive<> p{
      "test_far", [] {
        return families::comparison(
            p, {.impl =
                    [](const NoParams&, const Aval&, std::span<const Array> x) {
                      return lax::gt(lax::abs(lax::sub(x[0], x[1])), lax::ones_like(x[0]));
                    },
                .lower = element([](Emitter& e, Scalar a, Scalar b) {
                  return e.compare(Compare::gt, e.abs(e.sub(a, b)), e.constant(a.dtype(), 1));
                })});
      }};
  const Array far = p({}, {kX, lax::neg(kX)})[0];
  EXPECT_EQ(far.to_vector<int>(), (std::vector<int>{0, 1, 1, 1, 0, 1}));
  expect_sound(p, {kX, lax::neg(kX)});
}

}  // namespace
}  // namespace telamon
