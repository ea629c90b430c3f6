// Indexing into axes without elements, and more dimensions than arrays have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::error_of;
using telamon_test::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST(EmptyAxis, IsIndexedByNoIndex) {
  const Array x = zeros({0, 2}), no_index = zeros({0}, i32);
  EXPECT_EQ(x(no_index).shape(), Shape({0, 2}));
  EXPECT_EQ(x(zeros({3, 0}, i32)).shape(), Shape({3, 0, 2}));
  EXPECT_EQ(zeros({2, 0})(ellipsis, no_index).shape(), Shape({2, 0}));
  EXPECT_EQ(x(zeros({0}, bool_)).shape(), Shape({0, 2}));
  EXPECT_EQ(x(zeros({0, 2}, bool_)).shape(), Shape({0}));
  EXPECT_EQ(x(no_index, no_index).shape(), Shape({0}));
  EXPECT_EQ(take(x, no_index, 0).shape(), Shape({0, 2}));
  EXPECT_EQ(take(zeros({2, 0}, i32), zeros({4, 0}, i32), 1).shape(), Shape({2, 4, 0}));
  EXPECT_EQ(take(zeros({2, 0}, i32), no_index, 1).dtype(), i32);
  EXPECT_EQ(take_along_axis(x, zeros({0, 2}, i32), 0).shape(), Shape({0, 2}));
}

TEST(EmptyAxis, IsUpdatedByNoValue) {
  const Array x = zeros({0, 2}), no_index = zeros({0}, i32);
  EXPECT_EQ(x.at(no_index).set(1.0).shape(), Shape({0, 2}));
  EXPECT_EQ(x.at(no_index).add(1.0).shape(), Shape({0, 2}));
  EXPECT_EQ(x.at(no_index).multiply(ones({0, 2})).shape(), Shape({0, 2}));
  EXPECT_EQ(x.at(zeros({0}, bool_)).set(1.0).shape(), Shape({0, 2}));
}

// Nothing is in bounds there: reading is an error, as is one index; updates at several are dropped.
TEST(EmptyAxis, HasNoElementToRead) {
  const Array x = zeros({0, 2}), rows = Array{0, 1}, i = Array(0);
  const auto axis_0 = HasSubstr("every index is out of bounds for axis 0");
  EXPECT_THAT(error_of<IndexError>([&] { (void)x(rows); }),
              AllOf(HasSubstr("indexing: every index is out of bounds for axis 0 of f32[0,2]"),
                    HasSubstr("empty_axes_test.cpp:")));
  EXPECT_THAT(error_of<IndexError>([&] { (void)x(i); }), axis_0);
  EXPECT_THAT(error_of<IndexError>([&] { (void)zeros({0, 0})(rows); }), axis_0);
  EXPECT_THAT(error_of<IndexError>([&] { (void)zeros({2, 0})(i, rows); }),
              HasSubstr("axis 1 of f32[2,0], which has no elements"));
  EXPECT_THAT(error_of<IndexError>([&] { (void)jit([](Array a, Array k) { return a(k); })(x, i); }),
              axis_0);
  EXPECT_THAT(error_of<IndexError>([&] { (void)take(x, rows, 0); }),
              AllOf(HasSubstr("take: every index is out of bounds for axis 0 of f32[0,2]"),
                    HasSubstr("empty_axes_test.cpp:")));
  const Array nothing = take_along_axis(x, zeros({3, 2}, i32), 0);
  EXPECT_EQ(nothing.shape(), Shape({3, 2}));
  EXPECT_TRUE(all(isnan(nothing)).item<bool>());
}

TEST(EmptyAxis, DropsUpdates) {
  const Array x = zeros({0, 2}), rows = Array{0, 1};
  EXPECT_EQ(x.at(rows).set(1.0).shape(), Shape({0, 2}));
  EXPECT_EQ(x.at(rows).min(ones({2, 2})).shape(), Shape({0, 2}));
  EXPECT_EQ(zeros({2, 0}).at(rows, rows).add(ones({2})).shape(), Shape({2, 0}));
  const auto f = [&](Array a, Array v) { return a.at(rows).add(v).at(rows).multiply(v); };
  EXPECT_EQ(jit(f)(x, ones({2})).shape(), Shape({0, 2}));
  EXPECT_EQ(grad([&](Array a) { return sum(f(a, ones({2}))); })(x).shape(), Shape({0, 2}));
  EXPECT_THAT(error_of<IndexError>([&] { (void)x.at(Array(0)).set(1.0); }),
              AllOf(HasSubstr("x.at(...).set: every index is out of bounds for axis 0 of f32[0,2]"),
                    HasSubstr("empty_axes_test.cpp:")));
  EXPECT_THROW((void)x.at(rows).set(ones({5})),
               ShapeError);  // what is dropped is to fit all the same
}

TEST(EmptyAxis, IsIndexedUnderTransformations) {
  const Array x = zeros({0, 2}), no_index = zeros({0}, i32);
  const auto f = [](Array a, Array i) { return a(i).at(i).add(2.0) + take(a, i, 0); };
  EXPECT_EQ(jit(f)(x, no_index).shape(), Shape({0, 2}));
  EXPECT_EQ(grad([&](Array a) { return sum(f(a, no_index)); })(x).shape(), Shape({0, 2}));
  EXPECT_EQ(vmap(f, {.in_axes = {0, telamon::none}})(zeros({3, 0, 2}), no_index).shape(),
            Shape({3, 0, 2}));
}

// Each element of an empty batch would be indexed at a place of its own.
TEST(EmptyBatch, IsIndexedAndUpdatedByOne) {
  using Body = Array (*)(Array, Array);
  const Array x = zeros({0, 3}), i = zeros({0}, i32);
  const std::pair<Body, Shape> cases[] = {
      {[](Array a, Array k) { return a(k); }, {0}},
      {[](Array a, Array k) { return a.at(k).set(5.0); }, {0, 3}},
      {[](Array a, Array k) { return a.at(k).add(a(1)); }, {0, 3}},
      {[](Array a, Array k) { return take(a, stack({k, k}), 0); }, {0, 2}},
      {[](Array a, Array k) { return lax::dynamic_slice(a, Arrays{k}, {2}); }, {0, 2}},
      {[](Array a, Array k) { return lax::dynamic_update_slice(a, a(slice(0, 2)), Arrays{k}); },
       {0, 3}},
      {[](Array a, Array k) {
         return fori_loop(0, 3, [&](Array, Array c) { return c + a(k); }, a(0));
       },
       {0}}};
  for (const auto& [body, shape] : cases) {
    const auto gradient = grad([f = body](Array a, Array k) { return sum(f(a, k)); });
    EXPECT_EQ(vmap(body)(x, i).shape(), shape);
    EXPECT_EQ(jit(vmap(body))(x, i).shape(), shape);
    EXPECT_EQ(vmap(gradient)(x, i).shape(), x.shape());
    EXPECT_EQ(jit(vmap(gradient))(x, i).shape(), x.shape());
  }
}

TEST(EmptyAxis, IsPermuted) {
  const Array key = random::key(0);
  EXPECT_EQ(random::permutation(key, zeros({0, 2})).shape(), Shape({0, 2}));
  EXPECT_EQ(random::permutation(key, zeros({0})).shape(), Shape({0}));
}

TEST(Permutation, OfAVectorRefusesABadAxis) {
  const Array key = random::key(0);
  EXPECT_THAT(message_of<IndexError>([&] { (void)random::permutation(key, zeros({3}), 1); }),
              HasSubstr("random::permutation: axis 1 is out of bounds"));
  EXPECT_EQ(random::permutation(key, zeros({3}), -1).shape(), Shape({3}));
}

TEST(Dimensions, AreAtMostThirtyTwo) {
  const Shape most(kMaxDimensions, 1), more(kMaxDimensions + 1, 1);
  const Array x = ones({1}).reshape(most);
  EXPECT_EQ(sum(x + transpose(x)).item<double>(), 2);
  EXPECT_EQ(jit([](Array a) { return sum(a + transpose(a)); })(x).item<double>(), 2);
  const auto limit = HasSubstr("arrays have at most 32 dimensions");
  EXPECT_THAT(message_of<ShapeError>([&] { (void)zeros(more); }), limit);
  EXPECT_THAT(message_of<ShapeError>([&] { (void)ones({1}).reshape(more); }), limit);
  EXPECT_THAT(message_of<ShapeError>([&] { (void)broadcast_to(Array(1.0), more); }), limit);
  EXPECT_THAT(message_of<ShapeError>(
                  [&] { (void)jit([&](Array a) { return a.reshape(more); })(ones({1})); }),
              limit);
}

TEST(Dimensions, OfTwoEachAreReversed) {
  const Shape shape(18, 2);  // more than half of the limit, none of which merge when reversed
  const Array x = arange(1 << 18).reshape(shape);
  EXPECT_EQ(transpose(x).reshape({1 << 18})(1).item<int>(), 1 << 17);
}

TEST(DTypes, OutOfRangeAreNamed) {
  const auto unknown = static_cast<DType>(99);
  EXPECT_THAT(message_of<ValueError>([&] { (void)zeros({2}, unknown); }),
              HasSubstr("no such dtype: number 99"));
  EXPECT_THAT(message_of<ValueError>([&] { (void)Array(1.0).astype(unknown); }),
              HasSubstr("no such dtype"));
  const double data = 1;
  EXPECT_THAT(message_of<ValueError>([&] { (void)Array::from_data(&data, unknown, {1}); }),
              HasSubstr("no such dtype"));
}

}  // namespace
}  // namespace telamon
