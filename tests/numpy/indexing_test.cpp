// Reading and updating by index. The expected results are NumPy's (and JAX's where indices are out
// of range).
#include <type_traits>

#include "numpy/expect.hpp"
#include "telamon/check.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
using tl::ellipsis;
using tl::newaxis;
using tl::none;
using tl::slice;

Array counting(const Shape& shape) {
  return tl::arange(static_cast<int>(shape.num_elements())).reshape(shape);
}

// x(0) = 9.0 would change a copy.
static_assert(!std::is_assignable_v<Array, double> && !std::is_assignable_v<Array, Array>);
static_assert(std::is_assignable_v<Array&, double> && std::is_assignable_v<Array&, const Array&>);

TEST(Indexing, ByIntegersDropsAxes) {
  const Array x = counting({2, 3});
  expect_array<int>(x(1), {3}, {3, 4, 5});
  expect_array<int>(x(-1, -2), {}, {4});
  expect_array<int>(x(0, 0), {}, {0});
}

TEST(Indexing, BySlicesAsInPython) {
  const Array x = counting({6});
  expect_array<int>(x(slice(1, 5)), {4}, {1, 2, 3, 4});
  expect_array<int>(x(slice(none, none, 2)), {3}, {0, 2, 4});
  expect_array<int>(x(slice(none, -2)), {4}, {0, 1, 2, 3});
  expect_array<int>(x(slice(none, none, -1)), {6}, {5, 4, 3, 2, 1, 0});
  expect_array<int>(x(slice(4, 0, -2)), {2}, {4, 2});
  expect_array<int>(x(slice(-100, 100)), {6}, {0, 1, 2, 3, 4, 5});
  expect_array<int>(x(slice(4, 2)), {0}, {});
  expect_array<int>(x(slice()), {6}, {0, 1, 2, 3, 4, 5});
  EXPECT_THROW(x(slice(0, 1, 0)), tl::ValueError);
}

TEST(Indexing, ByEllipsisAndNewAxis) {
  const Array x = counting({2, 3, 4});
  EXPECT_EQ(x(ellipsis, 0).shape(), (Shape{2, 3}));
  EXPECT_EQ(x(0, ellipsis, slice(1, 3)).shape(), (Shape{3, 2}));
  EXPECT_EQ(x(newaxis, 0).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(x(ellipsis, newaxis).shape(), (Shape{2, 3, 4, 1}));
  expect_array<int>(x(1, newaxis, slice(0, 2), 3), {1, 2}, {15, 19});
}

TEST(Indexing, OutOfRangeIsAnErrorWithTheCallersLine) {
  const Array x = counting({2, 3});
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::IndexError>([&] { return x(0, 3); });
  EXPECT_THAT(text, HasSubstr("index 3 is out of bounds for axis 1 of i32[2,3]"));
  EXPECT_THAT(text, HasSubstr("indexing_test.cpp:" + std::to_string(line)));
  EXPECT_THAT(error_of<tl::IndexError>([&] { return x(0, 0, 0); }),
              HasSubstr("too many indices: 3 for i32[2,3]"));
  EXPECT_THROW(x(ellipsis, ellipsis), tl::IndexError);
  EXPECT_THROW(x(Array({0.5})), tl::TypeError);
}

TEST(Indexing, ByOneIndexArray) {
  const Array x = counting({3, 2});
  expect_array<int>(x(Array({2, 0})), {2, 2}, {4, 5, 0, 1});
  expect_array<int>(x(slice(), Array({1, 1, 0})), {3, 3}, {1, 1, 0, 3, 3, 2, 5, 5, 4});
  expect_array<int>(x(Array({{0, 1}, {2, -1}})), {2, 2, 2}, {0, 1, 2, 3, 4, 5, 4, 5});
}

TEST(Indexing, BySeveralIndexArraysBroadcasts) {
  const Array x = counting({3, 4});
  expect_array<int>(x(Array({0, 2}), Array({1, 3})), {2}, {1, 11});
  expect_array<int>(x(Array({{0}, {2}}), Array({1, 3})), {2, 2}, {1, 3, 9, 11});
  expect_array<int>(x(1, Array({1, 3})), {2}, {5, 7});
}

TEST(Indexing, ArraysThatAreApartPutTheirAxesFirst) {
  const Array x = counting({2, 3, 4});
  EXPECT_EQ(x(slice(), Array({0, 1}), Array({0, 1})).shape(), (Shape{2, 2}));
  EXPECT_EQ(x(Array({0, 1, 0}), slice(), Array({0, 1, 2})).shape(), (Shape{3, 3}));
  EXPECT_EQ(x(0, slice(), Array({0, 1})).shape(), (Shape{2, 3}));
  expect_array<int>(x(0, slice(), Array({0, 1})), {2, 3}, {0, 4, 8, 1, 5, 9});
  EXPECT_EQ(x(slice(), newaxis, Array({0, 1, 2, 0, 1})).shape(), (Shape{2, 1, 5, 4}));
  EXPECT_EQ(x(Array({0, 1}), newaxis, Array({0, 1})).shape(), (Shape{2, 1, 4}));
  // An ellipsis that stands for no axis is between them, too.
  EXPECT_EQ(x(slice(), Array({0, 1, 2}), ellipsis, -1).shape(), (Shape{3, 2}));
  EXPECT_EQ(x(slice(), 0, ellipsis, Array({0, 1, 3})).shape(), (Shape{3, 2}));
  EXPECT_EQ(x(ellipsis, slice(), Array({0, 1, 2}), -1).shape(), (Shape{2, 3}));
  EXPECT_EQ(x(slice(), Array({0, 1, 2}), -1, ellipsis).shape(), (Shape{2, 3}));
  const Array set = tl::zeros({2, 2, 2})
                        .at(slice(), Array({0, 1}), ellipsis, 0)
                        .set(Array({{1.0, 2.0}, {3.0, 4.0}}));
  expect_array<float>(set(slice(), slice(), 0), {2, 2}, {1, 3, 2, 4});
  expect_array<int>(x(slice(1, 2), slice(none, none, -1), Array({3, 0})), {1, 3, 2},
                    {23, 20, 19, 16, 15, 12});
}

TEST(Indexing, ArraysAreClampedWhenReading) {
  const Array x({10, 20, 30});
  expect_array<int>(x(Array({5, -7, -1})), {3}, {30, 10, 30});
  expect_array<int>(x(Array({std::uint8_t{200}, std::uint8_t{1}})), {2}, {30, 20});
}

TEST(Indexing, ByBoolArraysSelects) {
  const Array x = counting({2, 3});
  expect_array<int>(x(x > 2), {3}, {3, 4, 5});
  expect_array<int>(x(Array({false, true})), {1, 3}, {3, 4, 5});
  expect_array<int>(x(slice(), Array({true, false, true})), {2, 2}, {0, 2, 3, 5});
  EXPECT_THROW(x(Array({true, false, true})), tl::IndexError);
  const std::string text = error_of<tl::ConcretizationError>(
      [&] { return tl::jit([](const Array& a) { return a(a > 2); })(x); });
  EXPECT_THAT(text, HasSubstr("bool index arrays must be concrete"));
}

TEST(Indexing, ByTracedScalars) {
  const Array x = counting({4, 3});
  const auto row = tl::jit([](const Array& a, const Array& i) { return a(i); });
  expect_array<int>(row(x, Array(2)), {3}, {6, 7, 8});
  expect_array<int>(row(x, Array(-1)), {3}, {9, 10, 11});
  expect_array<int>(row(x, Array(9)), {3}, {9, 10, 11});
  const auto element =
      tl::vmap([](const Array& i, const Array& j) { return counting({4, 3})(i, j); });
  expect_array<int>(element(Array({0, 3}), Array({2, -3})), {2}, {2, 9});
}

TEST(Indexing, HasGradientsThatAddUpRepeatedReads) {
  const auto f = [](const Array& x) {
    return tl::sum(x(Array({0, 2, 0})) * Array({1.0, 10.0, 100.0}));
  };
  expect_array<double>(tl::grad(f)(Array({1.0, 2.0, 3.0})), {3}, {101, 0, 10});
  tl::check_grads([](const Array& x) { return tl::square(x(slice(none, none, -2), 1)); },
                  std::tuple{tl::arange(12, tl::f64).reshape({4, 3}) / 9}, {});
}

TEST(Updates, ByBasicIndices) {
  const Array x = tl::zeros({4}, tl::i32);
  expect_array<int>(x.at(1).set(5), {4}, {0, 5, 0, 0});
  expect_array<int>(x.at(slice(1, 3)).set(Array({7, 8})), {4}, {0, 7, 8, 0});
  expect_array<int>(x.at(slice(none, none, 2)).set(1), {4}, {1, 0, 1, 0});
  expect_array<int>(x.at(slice(none, none, -1)).set(Array({1, 2, 3, 4})), {4}, {4, 3, 2, 1});
  expect_array<int>(x.at(slice(3, none, -2)).add(Array({1, 2})), {4}, {0, 2, 0, 1});
  expect_array<int>(x.at(slice(2, 1)).set(9), {4}, {0, 0, 0, 0});
  expect_array<int>(x.at(ellipsis).add(1), {4}, {1, 1, 1, 1});
  expect_array<int>(tl::zeros({2, 2}, tl::i32).at(slice(), 1).set(Array({1, 2})), {2, 2},
                    {0, 1, 0, 2});
  expect_array<int>(tl::zeros({2, 2}, tl::i32).at(0, newaxis).set(Array({{1, 2}})), {2, 2},
                    {1, 2, 0, 0});
}

TEST(Updates, OfEveryKind) {
  const Array x({1, 2, 3, 4});
  expect_array<int>(x.at(slice(0, 2)).add(10), {4}, {11, 12, 3, 4});
  expect_array<int>(x.at(slice(0, 2)).subtract(10), {4}, {-9, -8, 3, 4});
  expect_array<int>(x.at(Array({0, 3})).multiply(3), {4}, {3, 2, 3, 12});
  expect_array<int>(x.at(slice()).min(2), {4}, {1, 2, 2, 2});
  expect_array<int>(x.at(Array({0, 1})).max(2), {4}, {2, 2, 3, 4});
  expect_array<double>(Array({1.0, 2.0}).at(1).divide(4), {2}, {1, 0.5});
  expect_array<int>(x.at(slice(1, 3)).get(), {2}, {2, 3});
}

TEST(Updates, ByIndexArrays) {
  const Array x = tl::zeros({3, 2}, tl::i32);
  expect_array<int>(x.at(Array({2, 0})).set(Array({{1, 2}, {3, 4}})), {3, 2}, {3, 4, 0, 0, 1, 2});
  expect_array<int>(x.at(Array({0, 1}), Array({1, 0})).set(Array({5, 6})), {3, 2},
                    {0, 5, 6, 0, 0, 0});
  expect_array<int>(x.at(slice(), Array({1})).set(9), {3, 2}, {0, 9, 0, 9, 0, 9});
  expect_array<int>(x.at(slice(1, none), Array({1})).set(9), {3, 2}, {0, 0, 0, 9, 0, 9});
}

TEST(Updates, RepeatedIndicesAddUpAndTheLastOneIsSet) {
  const Array x = tl::zeros({3}, tl::i32);
  expect_array<int>(x.at(Array({1, 1, 2})).add(Array({1, 2, 4})), {3}, {0, 3, 4});
  expect_array<int>(x.at(Array({1, 1, 2})).set(Array({1, 2, 4})), {3}, {0, 2, 4});
}

TEST(Updates, OutOfRangeAreDropped) {
  const Array x({1, 2, 3});
  expect_array<int>(x.at(Array({3, -1, -4})).set(9), {3}, {1, 2, 9});
  expect_array<int>(x.at(Array({7})).add(9), {3}, {1, 2, 3});
}

TEST(Updates, ByMasksTakeScalarsUnderJitToo) {
  const auto f = [](const Array& x) { return x.at(x < 0.0).set(0.0); };
  expect_array<double>(f(Array({-1.0, 2.0})), {2}, {0, 2});
  expect_array<double>(tl::jit(f)(Array({-1.0, 2.0})), {2}, {0, 2});
  expect_array<double>(Array({-1.0, 2.0}).at(Array({true, true})).set(Array({7.0, 8.0})), {2},
                       {7, 8});
}

TEST(Updates, ConvertTheValueToTheArraysDtype) {
  EXPECT_EQ(type_of(tl::zeros({2}).at(0).set(Array({1.0}))), "f32[2]");
  EXPECT_THROW((void)tl::zeros({2}, tl::u8).at(0).set(300), tl::TypeError);
  EXPECT_THROW((void)tl::zeros({2}).at(slice()).set(Array({1.0, 2.0, 3.0})), tl::ShapeError);
}

TEST(Updates, HaveGradients) {
  const Array x = tl::arange(6, tl::f64).reshape({3, 2}) / 5, v({0.3, 0.7});
  const auto set = [](const Array& a, const Array& b) {
    return tl::square(a.at(Array({0, 2}), 1).set(b));
  };
  const auto add = [](const Array& a, const Array& b) {
    return tl::square(a.at(Array({1, 1}), 0).add(b));
  };
  const auto strided = [](const Array& a, const Array& b) {
    return tl::square(a.at(slice(none, none, 2), 0).set(b));
  };
  tl::check_grads(set, std::tuple{x, v}, {});
  tl::check_grads(add, std::tuple{x, v}, {});
  tl::check_grads(strided, std::tuple{x, v}, {});
}

}  // namespace
}  // namespace telamon_test
