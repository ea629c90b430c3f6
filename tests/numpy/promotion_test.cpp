// Result dtypes: arrays with arrays, arrays with C++ scalars, scalars alone.
#include <limits>

#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;

Array of(tl::DType dtype) { return tl::zeros({2}, dtype); }

TEST(Promotion, OfTwoArraysFollowsJaxLattice) {
  EXPECT_EQ(type_of(of(tl::i32) + of(tl::i64)), "i64[2]");
  EXPECT_EQ(type_of(of(tl::i32) + of(tl::f32)), "f32[2]");
  EXPECT_EQ(type_of(of(tl::i64) + of(tl::f32)), "f32[2]");
  EXPECT_EQ(type_of(of(tl::f32) + of(tl::f64)), "f64[2]");
  EXPECT_EQ(type_of(of(tl::u32) + of(tl::i32)), "i64[2]");
  EXPECT_EQ(type_of(of(tl::u8) + of(tl::i64)), "i64[2]");
  EXPECT_EQ(type_of(of(tl::boolean) + of(tl::i32)), "i32[2]");
  EXPECT_EQ(type_of(of(tl::boolean) * of(tl::f32)), "f32[2]");
}

TEST(Promotion, ScalarsTakeTheWidthOfTheArray) {
  EXPECT_EQ(type_of(of(tl::f32) * 2.0), "f32[2]");
  EXPECT_EQ(type_of(2.0f * of(tl::f64)), "f64[2]");
  EXPECT_EQ(type_of(of(tl::f32) + 1), "f32[2]");
  EXPECT_EQ(type_of(of(tl::i32) + 1), "i32[2]");
  EXPECT_EQ(type_of(of(tl::u8) + 1), "u8[2]");
  EXPECT_EQ(type_of(of(tl::i32) + std::int64_t{1}), "i32[2]");
  EXPECT_EQ(type_of(of(tl::i64) * true), "i64[2]");
}

TEST(Promotion, FloatScalarWithIntegersGivesTheDefaultFloat) {
  // Weakly: as in JAX, neither operand has asked for a width.
  EXPECT_EQ(type_of(of(tl::i32) * 0.5), "~f32[2]");
  EXPECT_EQ(type_of(of(tl::i64) * 0.5), "~f32[2]");
  EXPECT_EQ(type_of(of(tl::boolean) * 0.5), "~f32[2]");
}

TEST(Promotion, DoubleScalarKeepsItsPrecisionForDoubleArrays) {
  const Array x = tl::ones({1}, tl::f64) * 0.1;
  expect_array<double>(x, {1}, {0.1});
}

TEST(Promotion, ScalarsAloneStayWeakAndWiden) {
  EXPECT_EQ(type_of(Array(2.0) * Array(3.0)), "~f64[]");
  EXPECT_EQ(type_of(Array(2) * Array(3)), "~i32[]");
  EXPECT_EQ(type_of(Array(2.0f) * Array(3)), "~f32[]");
  EXPECT_EQ((Array(2.5) * Array(2)).item<double>(), 5.0);
  EXPECT_EQ(type_of(tl::ones({}, tl::f32) * Array(3.0)), "f32[]");
}

TEST(Promotion, IntegerScalarThatDoesNotFitIsAnError) {
  const Array x = of(tl::i32);
  EXPECT_THROW(x + std::int64_t{3'000'000'000}, tl::TypeError);
  EXPECT_THAT(
      message_of<tl::TypeError>([&] { (void)(of(tl::u8) + 256); }),
      HasSubstr("the integer 256 does not fit dtype u8, which holds 0 to 255; use a number"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { (void)(of(tl::u32) + -1); }),
              HasSubstr("the integer -1 does not fit dtype u32"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { (void)(of(tl::i8) + -129); }),
              HasSubstr("does not fit dtype i8, which holds -128 to 127"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { (void)(of(tl::i64) + (std::uint64_t{1} << 63)); }),
              HasSubstr("which holds -9223372036854775808 to 9223372036854775807"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { (void)(of(tl::u64) + -1); }),
              HasSubstr("which holds 0 to 18446744073709551615"));
}

TEST(Promotion, IntegersOfANewArrayMustFitItsDtype) {
  const auto refused = [](const char* call, int number, const auto& f) {
    EXPECT_THAT(error_of<tl::TypeError>(f),
                testing::AllOf(
                    HasSubstr(std::string(call) + ": the integer " + std::to_string(number) + " "),
                    HasSubstr("promotion_test.cpp")));
  };
  refused("array", 300, [] { (void)tl::array({1, 300}, tl::u8); });
  refused("array", -1, [] { (void)tl::array(std::vector<int>{-1}, tl::u64); });
  refused("arange", 299, [] { (void)tl::arange(300, tl::u8); });
  refused("arange", -130, [] { (void)tl::arange(0, -131, -2, tl::i8); });
  refused("full", 300, [] { (void)tl::full({2}, 300, tl::u8); });
  refused("add", 300, [] { (void)(tl::ones({2}, tl::u8) + 300); });
  refused("random::fold_in", -1, [] { (void)tl::random::fold_in(tl::random::key(0), -1); });
  expect_array<std::uint8_t>(tl::array({0, 255}, tl::u8), {2}, {0, 255});
  expect_array<std::int8_t>(tl::array({-128, 127}, tl::i8), {2}, {-128, 127});
  EXPECT_EQ(tl::arange(256, tl::u8)(-1).item<int>(), 255);
}

TEST(Promotion, IntegerScalarsAtTheEndsOfADtypeFit) {
  for (const int end : {-128, 127}) EXPECT_EQ((end * tl::ones({}, tl::i8)).item<int>(), end);
  EXPECT_EQ((255 * tl::ones({}, tl::u8)).item<int>(), 255);
  const auto lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ((Array(lowest) * tl::ones({}, tl::i64)).item<std::int64_t>(), lowest);
  const auto highest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ((Array(highest) * tl::ones({}, tl::u64)).item<std::uint64_t>(), highest);
}

TEST(Promotion, DivisionOfIntegersIsInTheDefaultFloat) {
  expect_array<float>(Array({1, 2, 3}) / Array({2, 2, 2}), {3}, {0.5f, 1.0f, 1.5f});
  expect_array<float>(Array({1, 2, 3}) / 2, {3}, {0.5f, 1.0f, 1.5f});
}

TEST(Promotion, FunctionsOfFloatsTurnIntegersIntoTheDefaultFloat) {
  EXPECT_EQ(type_of(tl::sin(of(tl::i64))), "f32[2]");
  EXPECT_EQ(type_of(tl::exp(of(tl::boolean))), "f32[2]");
  EXPECT_EQ(type_of(tl::sqrt(4)), "~f32[]");
  EXPECT_EQ(type_of(tl::mean(of(tl::i32))), "f32[]");
  EXPECT_EQ(type_of(tl::sin(of(tl::f64))), "f64[2]");
}

TEST(Promotion, ComparisonsPromoteAndGiveBools) {
  expect_array<bool>(Array({1, 2, 3}) < 2.5, {3}, {true, true, false});
  expect_array<bool>(Array({1.0f, 2.0f}) == Array({1.0, 3.0}), {2}, {true, false});
  expect_array<bool>(2 <= Array({1, 2, 3}), {3}, {false, true, true});
  expect_array<bool>(Array({1, 2}) != 1, {2}, {false, true});
}

TEST(Promotion, DefaultDtypesAreSettable) {
  tl::set_default_float(tl::f64);
  tl::set_default_int(tl::i64);
  EXPECT_EQ(type_of(tl::zeros({1})), "f64[1]");
  EXPECT_EQ(type_of(of(tl::i32) * 0.5), "~f64[2]");
  EXPECT_EQ(type_of(tl::argmax(of(tl::f32))), "i64[]");
  EXPECT_EQ(type_of(tl::sum(of(tl::boolean))), "i64[]");
  tl::set_default_float(tl::f32);
  tl::set_default_int(tl::i32);
  EXPECT_EQ(type_of(tl::zeros({1})), "f32[1]");
}

}  // namespace
}  // namespace telamon_test
