// What is taken at places that captured arrays hold is made of slices.
#include "compiler/passes/passes.hpp"

#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "support/disk_cache.hpp"
#include "telamon/emitter.hpp"
#include "telamon/families.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// x + 1, as compiled code has it: what evaluates it is missing, or an error.
Rules<> rules_of_next() {
  return {
      .abstract_eval = [](const NoParams&,
                          std::span<const Aval> x) { return AbstractResult({x[0]}); },
      .lower = element([](Emitter& e, Scalar x) { return e.add(x, e.constant(x.dtype(), 1)); })};
}
const Primitive<> next_without_impl_p{"test_next_without_impl", rules_of_next};
const Primitive<> next_that_throws_p{"test_next_that_throws", [] {
                                       Rules<> rules = rules_of_next();
                                       rules.impl = [](const NoParams&,
                                                       std::span<const Array>) -> Arrays {
                                         throw ValueError("is not to be evaluated");
                                       };
                                       return rules;
                                     }};

/// What is left of a program that takes its argument at these places; it gives the bits that it gives eagerly.
std::string left(const Array& places, int axis, const Shape& shape = {300, 7}) {
  const Array x = uniform(shape, DType::f32);
  const auto f = [=](const Array& y) { return take(y, places, axis) * 2; };
  const auto jitted = jit(f);
  expect_equal(jitted(x), f(x), 0, "call");
  return jitted.lower(x).compile().text("jaxpr");
}

TEST(KnownPlaces, OfColumnsAndRowsAreSlices) {
  const Array some{2, 0, 1, 1, 6}, turned{6, 5, 4, 3, 2, 1, 0}, each_second{0, 2, 4};
  for (const int axis : {0, 1}) {
    for (const Array& places : {some, turned, each_second}) {
      EXPECT_THAT(left(places, axis),
                  AllOf(Not(HasSubstr("gather")), AnyOf(HasSubstr("slice"), HasSubstr("rev"))));
    }
    // One run, however long, and from the end.
    EXPECT_THAT(left(arange(3, 6), axis), Not(HasSubstr("concatenate")));
    EXPECT_THAT(left(Array{-1, -2}, axis), Not(HasSubstr("gather")));
  }
  EXPECT_THAT(left(arange(200, 0, -2), 0), Not(HasSubstr("gather")));
}

TEST(KnownPlaces, OfArraysOfOneAndOfThreeDimensions) {
  EXPECT_THAT(left(Array{5, 6, 2}, 0, {300}), Not(HasSubstr("gather")));
  for (const int axis : {0, 1, 2})
    EXPECT_THAT(left(Array{3, 0}, axis, {20, 4, 30}), Not(HasSubstr("gather")));
}

// Windows of a signal: few that are long are looked up as they are, and of many short ones each element is a slice.
TEST(KnownPlaces, ThatCountAlongSeveralDimensionsAreWindows) {
  const auto windows = [](int count, int step, int length) {
    return lax::reshape(arange(count) * step, {count, 1}) + arange(length);
  };
  const Array frames = windows(5, 50, 20), neighbours = windows(100, 2, 3);
  EXPECT_THAT(left(frames, 0, {300}), HasSubstr("slice_sizes=(20,)"));
  EXPECT_THAT(left(299 - frames, 0, {300}),
              AllOf(HasSubstr("slice_sizes=(20,)"), HasSubstr("rev")));
  EXPECT_THAT(left(neighbours, 0, {300}), Not(HasSubstr("gather")));
  EXPECT_THAT(left(neighbours, 1, {20, 300}), Not(HasSubstr("gather")));
  EXPECT_THAT(left(frames * frames, 0, {90'000}), HasSubstr("slice_sizes=(1,)"));
}
// Neighbours of what repeats itself are two slices, by indices of any type.
TEST(KnownPlaces, ThatAreComputedOfNumbersOfTheProgramAreSlices) {
  for (const DType dtype : {DType::i16, DType::u32, DType::i32, DType::i64}) {
    const auto f = [=](const Array& x) {
      const Array i = lax::iota(dtype, {300}, 0);
      return take(x, (i + 1) % 300, 0) - take(x, (i + 299) % 300, 0);
    };
    const Array x = uniform({300}, DType::f32);
    const auto jitted = jit(f);
    expect_equal(jitted(x), f(x), 0, "call");
    EXPECT_THAT(jitted.lower(x).compile().text("jaxpr"), Not(HasSubstr("gather")));
  }
}
// Neither where its operand is a literal nor where it is an iota.
TEST(KnownPlaces, ThatUsersComputeAreLeftToTheProgram) {
  const Array x = uniform({300}, DType::f32);
  const auto check_with = [&](const Primitive<>& next) {
    const auto f = [&](const Array& y) {
      const Array i = lax::iota(DType::i32, {200}, 0);
      return take(y, next.bind1({}, {i}) + next.bind1({}, {Array(2)}), 0);
    };
    expect_equal(jit(f)(x), take(x, arange(200) + 4, 0), 0, std::string(next.name()));
  };
  check_with(next_without_impl_p);
  check_with(next_that_throws_p);
}
TEST(KnownPlaces, ThatCountAreAddedToBySlices) {
  const Array places = lax::reshape(arange(100) + 2, {100, 1}) + arange(3);
  const auto f = [=](const Array& x, const Array& y) { return x.at(places).add(y); };
  const Array x = uniform({300}, DType::f32), y = uniform({100, 3}, DType::f32);
  const auto jitted = jit(f);
  expect_equal(jitted(x, y), f(x, y), 0, "call");
  EXPECT_THAT(jitted.lower(x, y).compile().text("jaxpr"), Not(HasSubstr("scatter")));
}

TEST(KnownPlaces, ThatAreManyStay) {
  EXPECT_THAT(left(arange(300) * 7 % 300, 0), HasSubstr("gather"));
}

// What is outside is not a number, or the nearest one, as the program says.
TEST(KnownPlaces, ThatAreOutsideStay) {
  EXPECT_THAT(left(Array{1, 7}, 1), HasSubstr("gather"));
  EXPECT_THAT(left(Array{0, -8}, 1), HasSubstr("gather"));
}

TEST(KnownPlaces, OfArgumentsStay) {
  const std::string text =
      check([](std::span<const Array> a) { return Arrays{take(a[0], a[1], 1)}; },
            {uniform({300, 7}, DType::f32), Array{1, 2}}, -1, 0)
          ->text("jaxpr");
  EXPECT_THAT(text, HasSubstr("gather"));
}

// What they hold is in the program, and in its key: none is found on disk for another.
TEST(KnownPlaces, AreThoseOfEachProgram) {
  const CacheFolder folder;
  for (int times = 0; times < 2; ++times) {
    for (const Array& places : {Array{0, 2}, Array{2, 0}, Array{1, 1}}) left(places, 1);
  }
  EXPECT_EQ(folder.files().size(), 3U);
}

}  // namespace
}  // namespace telamon::testing
