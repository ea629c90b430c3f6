// Operators: values, broadcasting, special cases, errors with the caller's line.
#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;

TEST(Operators, ComputeElementwise) {
  const Array x({1.0, 2.0, 3.0}), y({4.0, 5.0, 8.0});
  expect_array<double>(x + y, {3}, {5, 7, 11});
  expect_array<double>(x - y, {3}, {-3, -3, -5});
  expect_array<double>(x * y, {3}, {4, 10, 24});
  expect_array<double>(y / x, {3}, {4, 2.5, 8.0 / 3.0});
  expect_array<double>(-x, {3}, {-1, -2, -3});
  expect_array<double>(2.0 - x, {3}, {1, 0, -1});
}

TEST(Operators, BroadcastFromTheRight) {
  const Array column({{1}, {2}}), row({10, 20, 30});
  expect_array<int>(column + row, {2, 3}, {11, 21, 31, 12, 22, 32});
  expect_array<int>(row * column, {2, 3}, {10, 20, 30, 20, 40, 60});
  EXPECT_EQ((tl::zeros({4, 1, 3}) + tl::zeros({5, 1})).shape(), (Shape{4, 5, 3}));
}

TEST(Operators, IncompatibleShapesAreNamedWithTheCallersLine) {
  const Array x = tl::zeros({3}), y = tl::zeros({4});
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::ShapeError>([&] { return x + y; });
  EXPECT_THAT(text, HasSubstr("add got incompatible shapes for broadcasting: f32[3], f32[4]"));
  EXPECT_THAT(text, HasSubstr("operators_test.cpp:" + std::to_string(line)));
}

TEST(Operators, CompositeFunctionsNameTheUsersLineToo) {
  const Array x = tl::zeros({3}), y = tl::zeros({4});
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::ShapeError>([&] { return tl::logaddexp(x, y); });
  EXPECT_THAT(text, HasSubstr("operators_test.cpp:" + std::to_string(line)));
}

TEST(Operators, RemainderHasTheDivisorsSign) {
  expect_array<int>(Array({7, -7, 7, -7}) % Array({3, 3, -3, -3}), {4}, {1, 2, -2, -1});
  expect_array<double>(Array({7.5, -7.5}) % 2.0, {2}, {1.5, 0.5});
  expect_array<int>(tl::fmod(Array({7, -7}), 3), {2}, {1, -1});
  expect_array<std::uint32_t>(Array({7u, 8u}) % 3, {2}, {1u, 2u});
}

TEST(Operators, FloorDivisionRoundsDown) {
  expect_array<int>(tl::floor_divide(Array({7, -7, 7, -7}), Array({3, 3, -3, -3})), {4},
                    {2, -3, -3, 2});
  expect_array<double>(tl::floor_divide(Array({7.5, -7.5}), 2.0), {2}, {3, -4});
}

TEST(Operators, OnBoolsAreLogical) {
  const Array t({true, true, false}), u({true, false, false});
  expect_array<bool>(t + u, {3}, {true, true, false});
  expect_array<bool>(t * u, {3}, {true, false, false});
  expect_array<bool>(t ^ u, {3}, {false, true, false});
  expect_array<bool>(!t, {3}, {false, false, true});
  expect_array<bool>(~t, {3}, {false, false, true});
  EXPECT_THROW(t - u, tl::TypeError);
  EXPECT_THROW(-t, tl::TypeError);
}

TEST(Operators, OnBitsTakeIntegers) {
  const Array x({12, 10});
  expect_array<int>(x & 6, {2}, {4, 2});
  expect_array<int>(x | 1, {2}, {13, 11});
  expect_array<int>(x ^ 3, {2}, {15, 9});
  expect_array<int>(~x, {2}, {-13, -11});
  expect_array<int>(x << 2, {2}, {48, 40});
  expect_array<int>(Array({-8, 8}) >> 1, {2}, {-4, 4});
  expect_array<std::uint32_t>(Array({0x80000000u}) >> 31, {1}, {1u});
  EXPECT_THAT(error_of<tl::TypeError>([] { return Array({1.0}) & 1; }),
              HasSubstr("integers or bools"));
}

TEST(Operators, CompoundAssignmentReplacesTheHandle) {
  Array x({1.0, 2.0});
  const Array before = x;
  x += 1;
  x *= 2.0;
  expect_array<double>(x, {2}, {4, 6});
  expect_array<double>(before, {2}, {1, 2});
  Array n({7, 8});
  n %= 4;
  n |= 4;
  expect_array<int>(n, {2}, {7, 4});
}

TEST(Operators, CountdownWithABoolOfAnArray) {
  Array n(3);
  int steps = 0;
  while (n > 0) {
    n -= 1;
    ++steps;
  }
  EXPECT_EQ(steps, 3);
}

}  // namespace
}  // namespace telamon_test
