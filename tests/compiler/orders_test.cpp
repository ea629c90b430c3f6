// Derivatives column by column: the identity, moved and multiplied, is computed in the order and at the
// places where it is wanted.
#include <gmock/gmock.h>

#include <limits>

#include "compiler/support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Array rosenbrock(const Array& x) {
  const Array next = x(slice(1, none)), here = x(slice(none, -1));
  return sum(100 * square(next - square(here)) + square(1 - here));
}
Array lorenz96(const Array& x) { return (roll(x, -1) - roll(x, 2)) * roll(x, 1) - x + 8; }
Program of(const std::function<Array(const Array&)>& f) {
  return [f](std::span<const Array> x) { return Arrays{f(x[0])}; };
}
/// With numbers for which a zero times them, or a sum with them, is no zero.
Array special(const Shape& shape, DType dtype) {
  std::vector<double> x = uniform(shape, DType::f64).to_vector<double>();
  x[1] = -0.0;
  x[x.size() / 2] = std::numeric_limits<double>::infinity();
  x[x.size() - 2] = std::numeric_limits<double>::quiet_NaN();
  return Array(x, shape).astype(dtype);
}

TEST(Orders, HessiansTransposeNothing) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {2, 3, 10, 17, 30}) {
      const Compiled e = check(of(hessian(rosenbrock)), {uniform({n}, dtype)});
      EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("transpose")));
      check(of(hessian(rosenbrock)), {special({n + 2}, dtype)});
    }
  }
}

TEST(Orders, JacobiansMoveNothingButPositions) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t n : {4, 5, 8, 16, 40}) {
      for (const Array& x : {uniform({n}, dtype), special({n}, dtype)}) {
        const Compiled forward = check(of(jacfwd(lorenz96)), {x});
        EXPECT_THAT(forward->text("jaxpr"), Not(HasSubstr("transpose")));
        const Compiled reverse = check(of(jacrev(lorenz96)), {x});
        EXPECT_THAT(reverse->text("jaxpr"), Not(HasSubstr("pad")));
        EXPECT_LE(forward->info().kernels, 3);
        EXPECT_LE(reverse->info().kernels, 4);
      }
    }
  }
}

TEST(Orders, OfAllThatMovesElementsAreChanged) {
  const auto made = [](const Array& x) {  // [12, 4], from a vector of 4
    const Array rows = broadcast_to(x, {6, 4}) * lax::iota(DType::f32, {6, 4}, 0);
    const Array parts = lax::concatenate(Arrays{rows, -rows(slice(1, 4))}, 0);
    const Array padded = lax::pad(parts, 0.5f, {{{1, 2, 0}}, {{0, 0, 0}}});
    return lax::select(lax::gt(padded, lax::zeros_like(padded)), padded, lax::exp(padded));
  };
  const Compiled e = check(of([&](const Array& x) { return lax::transpose(made(x), {1, 0}); }),
                           {uniform({4}, DType::f32)});
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("transpose")));
  const Compiled cube = check(of([&](const Array& x) {
                                const Array y = made(x).reshape({12, 1, 4});
                                return lax::transpose(y, {2, 1, 0});
                              }),
                              {uniform({4}, DType::f32)});
  EXPECT_THAT(cube->text("jaxpr"), Not(HasSubstr("transpose")));
}

TEST(Orders, WhatOthersReadStaysAsItIs) {
  const Compiled e = check(
      [&](std::span<const Array> x) {
        const Array y = broadcast_to(x[0], {16, 8}) * x[1](slice(), newaxis) + 1.f;
        return Arrays{y, lax::transpose(y, {1, 0})};
      },
      {uniform({8}, DType::f32), uniform({16}, DType::f32)});
  EXPECT_THAT(e->text("jaxpr"), HasSubstr("transpose"));
  check(of([&](const Array& x) {
          const Array y = lax::exp(broadcast_to(x, {8, 8}));
          return lax::add(y, lax::transpose(y, {1, 0}));
        }),
        {uniform({8}, DType::f32)});
  // An argument has to be moved in any case.
  const Compiled moved =
      check(of([](const Array& x) { return lax::transpose(lax::exp(x), {1, 0}); }),
            {uniform({9, 7}, DType::f32)});
  EXPECT_THAT(moved->text("jaxpr"), HasSubstr("transpose"));
}

TEST(Orders, SeveralTransposesShareWhatTheyAreMadeOf) {
  const Compiled e = check(
      [](std::span<const Array> x) {
        const Array y = broadcast_to(x[0], {40, 5}) * lax::iota(DType::f32, {40, 5}, 0);
        return Arrays{lax::transpose(lax::exp(y), {1, 0}), lax::transpose(lax::sin(y), {1, 0})};
      },
      {uniform({5}, DType::f32)});
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("transpose")));
}

TEST(Orders, WithinLoopsToo) {
  const auto columns = [](const Array& x) { return jacfwd(lorenz96)(x); };
  const Compiled e = check(
      of([&](const Array& x) {
        return fori_loop(
            0, 3, [&](const Array&, const Array& y) { return y + sum(columns(y), 1) * .01f; }, x);
      }),
      {uniform({8}, DType::f32)}, -1, 64);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("transpose")));
}

}  // namespace
}  // namespace telamon::testing
