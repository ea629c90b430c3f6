// Sizes that no array has, and memory that no machine has: errors with the operation's name, by
// evaluation and by tracing alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "support/errors.hpp"
#include "telamon/telamon.hpp"

namespace telamon_test {
namespace {

namespace tl = telamon;
using testing::AllOf;
using testing::HasSubstr;
using tl::Array;
using tl::Shape;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;
constexpr std::int64_t kLarge = std::int64_t{1} << 33;

TEST(Sizes, ThatOverflowAreErrorsThatNameTheFunction) {
  EXPECT_THAT(message_of<tl::ShapeError>([] { return tl::zeros({kHuge, 8}); }),
              AllOf(HasSubstr("zeros: "), HasSubstr("f32[4611686018427387904,8]"),
                    HasSubstr("more than 2^63 - 1 bytes; use smaller sizes")));
  EXPECT_THAT(error_of<tl::ShapeError>([] { return tl::broadcast_to(1.f, {kLarge, kLarge}); }),
              AllOf(HasSubstr("broadcast_to: "), HasSubstr("sizes_test.cpp")));
  const Array column = tl::broadcast_to(1.f, {kLarge, 1}), row = tl::broadcast_to(1.f, {kLarge});
  EXPECT_THAT(message_of<tl::ShapeError>([&] { return column + row; }),
              AllOf(HasSubstr("broadcast_in_dim of ~f32[8589934592,1]: "),
                    HasSubstr("f32[8589934592,8589934592]")));
}

TEST(Sizes, AreCheckedWhereNothingIsComputed) {
  const auto f = [](const Array& x) { return tl::sum(tl::broadcast_to(x, {kLarge, kLarge})); };
  const std::string text = error_of<tl::ShapeError>([&] { return tl::make_jaxpr(f)(1.f); });
  EXPECT_THAT(text, AllOf(HasSubstr("more than 2^63 - 1 bytes"), HasSubstr("sizes_test.cpp"),
                          HasSubstr("while tracing")));
  EXPECT_THROW(tl::jit(f)(1.f), tl::ShapeError);
  EXPECT_THROW(tl::vmap(f)(tl::zeros({2})), tl::ShapeError);
  EXPECT_THROW(tl::grad(f)(1.f), tl::ShapeError);
}

TEST(Sizes, CountBytesAndNotElements) {
  EXPECT_EQ(tl::zeros({kHuge}, tl::u8).size(), kHuge);
  EXPECT_THROW(tl::zeros({kHuge}, tl::f64), tl::ShapeError);
  EXPECT_THROW(tl::zeros({kHuge}, tl::u8).astype(tl::f64), tl::Error);
}

TEST(Sizes, OfArraysWithoutElementsAreFree) {
  const Array x = tl::zeros({0, kHuge, 8});
  EXPECT_EQ(x.size(), 0);
  EXPECT_EQ((x + 1).shape(), (Shape{0, kHuge, 8}));
  EXPECT_EQ(tl::sum(x).item<float>(), 0);
  EXPECT_EQ(tl::transpose(x).shape(), (Shape{8, kHuge, 0}));
  EXPECT_EQ(tl::reshape(x, {kHuge, 0, 16}).shape(), (Shape{kHuge, 0, 16}));
  EXPECT_EQ(tl::jit([](const Array& y) { return y * 2; })(x).size(), 0);
  EXPECT_TRUE(x.to_vector<float>().empty());
}

TEST(Sizes, NegativeOnesAreErrorsInEveryConstructor) {
  const float data[] = {1, 2, 3, 4};
  EXPECT_THAT(message_of<tl::ShapeError>([&] { Array::from_data(data, tl::f32, {-2, -2}); }),
              AllOf(HasSubstr("Array::from_data"), HasSubstr("negative")));
  EXPECT_THROW(Array(std::vector<float>{1, 2, 3, 4}, Shape{-2, -2}), tl::ShapeError);
  EXPECT_THROW(Array(std::vector<float>{1}, Shape{-kHuge, -8}), tl::ShapeError);
  EXPECT_THROW(tl::ones({-1}), tl::ShapeError);
  EXPECT_THROW(tl::full({3, -1}, 2), tl::ShapeError);
  EXPECT_THROW(tl::lax::iota(tl::i32, {-3}), tl::ShapeError);
  EXPECT_THROW(tl::make_jaxpr([] { return tl::lax::iota(tl::i32, {-3}); })(), tl::ShapeError);
}

TEST(Memory, ThatTheMachineLacksIsAnErrorThatSaysHowMuch) {
  const Array x = tl::zeros({kHuge}, tl::u8);  // one element, seen many times
  EXPECT_THAT(error_of<tl::OutOfMemoryError>([&] { return x + std::uint8_t{1}; }),
              AllOf(HasSubstr("add of u8[4611686018427387904], "),
                    HasSubstr("out of memory: 4611686018427387904 bytes are wanted, but the "
                              "machine has "),
                    HasSubstr("use smaller sizes"), HasSubstr("sizes_test.cpp")));
  EXPECT_THAT(error_of<tl::OutOfMemoryError>([&] { return x.to_vector<std::uint8_t>(); }),
              HasSubstr("to_vector() of u8[4611686018427387904]: out of memory"));
  EXPECT_THROW(x.to_vector<double>(), tl::OutOfMemoryError);
  EXPECT_EQ(x(kHuge - 1).item<int>(), 0);
}

TEST(Memory, ForIntermediateValuesOfAProgramIsCheckedToo) {
  const auto f = [](const Array& x) {
    const Array y = tl::sort(tl::broadcast_to(x, {kHuge}));
    return tl::sort(y + tl::sort(y * y));
  };
  EXPECT_THROW(tl::jit(f, {.name = "f"})(Array(std::uint8_t{1})), tl::OutOfMemoryError);
}

TEST(FromData, WithoutDataNamesTheTypeThatNeedsIt) {
  EXPECT_THAT(
      message_of<tl::ValueError>([] { Array::from_data(nullptr, tl::f32, {2, 3}); }),
      HasSubstr("Array::from_data: the data is a null pointer, but f32[2,3] needs 24 bytes"));
  EXPECT_EQ(Array::from_data(nullptr, tl::f32, {0, 3}).size(), 0);
}

TEST(ShapeOfAnArray, ByAxisChecksTheAxis) {
  const Array x = tl::zeros({2, 3});
  EXPECT_EQ(x.shape(-2), 2);
  for (const std::int64_t axis : {std::int64_t{2}, std::int64_t{7}, std::int64_t{-3},
                                  std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::min()})
    EXPECT_THROW(x.shape(axis), tl::IndexError) << axis;
  EXPECT_THAT(message_of<tl::IndexError>([&] { return x.shape(7); }),
              HasSubstr("shape: axis 7 is out of bounds for f32[2,3], which has 2 dimensions"));
}

}  // namespace
}  // namespace telamon_test
