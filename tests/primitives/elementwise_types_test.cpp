// Types of the elementwise primitives: what they accept, what they give, how they refuse.
#include "support.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const Array kF32({1.0f, 2.0f, 3.0f});
const Array kI32(std::vector<std::int32_t>{1, 2, 3});

TEST(ElementwiseTypes, DifferentDtypesAreRefusedWithTheOperandsAndTheRemedy) {
  const std::string text = message_of<TypeError>([] { add_p({}, {kF32, kI32}); });
  EXPECT_THAT(text, StartsWith("add requires arguments to have the same dtypes, got f32, i32."));
  EXPECT_THAT(text, HasSubstr("add(f32[3], i32[3])"));
  EXPECT_THAT(text, HasSubstr("astype"));
}

TEST(ElementwiseTypes, IncompatibleShapesAreRefused) {
  const std::string text =
      message_of<ShapeError>([] { add_p({}, {kF32, Array({1.0f, 2.0f, 3.0f, 4.0f})}); });
  EXPECT_THAT(text, StartsWith("add got incompatible shapes for broadcasting: (3,), (4,)."));
  EXPECT_THAT(text, HasSubstr("add(f32[3], f32[4])"));
}

TEST(ElementwiseTypes, ShapesThatWouldHaveToBeBroadcastAreRefused) {
  const std::string text = message_of<ShapeError>([] { mul_p({}, {kF32, Array({1.0f})}); });
  EXPECT_THAT(text, StartsWith("mul requires arguments to have the same shape, got (3,), (1,)."));
  EXPECT_THAT(text, HasSubstr("broadcast_to"));
}

TEST(ElementwiseTypes, DtypesOutsideThePrimitivesSetAreRefused) {
  EXPECT_THAT(
      message_of<TypeError>([] { lax::sin(kI32); }),
      StartsWith("sin does not accept dtype i32. Accepted dtypes are subtypes of floating."));
  EXPECT_THAT(message_of<TypeError>([] { lax::bitwise_and(kF32, kF32); }),
              StartsWith("and does not accept dtype f32 at position 0. Accepted dtypes at position "
                         "0 are subtypes of "
                         "integer, bool."));
  EXPECT_THAT(message_of<TypeError>(
                  [] { lax::add(Array(std::vector<bool>{true}), Array(std::vector<bool>{true})); }),
              StartsWith("add does not accept dtype bool at position 0."));
  EXPECT_THAT(message_of<TypeError>([] { lax::abs(Array(std::vector<std::uint32_t>{1u})); }),
              HasSubstr("subtypes of signedinteger, floating"));
}

TEST(ElementwiseTypes, AreCheckedWhenStagedToo) {
  const Function mismatch = [](std::span<const Array> x) { return add_p.bind({}, {x[0], x[1]}); };
  const Arrays args{kF32, kI32};
  EXPECT_THAT(message_of<TypeError>([&] { detail::stage_arrays(mismatch, args, "f"); }),
              StartsWith("add requires arguments to have the same dtypes, got f32, i32."));
}

TEST(ElementwiseTypes, ResultsAreWeakOnlyWhenAllOperandsAre) {
  const Array weak(2.0), strong = lax::convert_element_type(weak, f64);
  EXPECT_TRUE(lax::sin(weak).weak_type());
  EXPECT_TRUE(add_p.bind1({}, {weak, weak}).weak_type());
  EXPECT_FALSE(add_p.bind1({}, {weak, strong}).weak_type());
  EXPECT_TRUE(lt_p.bind1({}, {weak, weak}).weak_type());
  EXPECT_EQ(lt_p.bind1({}, {weak, weak}).dtype(), boolean);
}

TEST(ElementwiseTypes, SelectSaysWhichOperandIsWrong) {
  const Array three(std::vector<bool>{true, false, true}), two({1.0, 2.0});
  EXPECT_THAT(message_of<ShapeError>([&] { select_n_p({}, {three, two, two}); }),
              StartsWith("select `which` must be scalar or have the same shape as cases, got "
                         "`which` shape (3,) but case "
                         "shape (2,)."));
  EXPECT_THAT(message_of<ShapeError>([&] { select_n_p({}, {three, two, Array({1.0, 2.0, 3.0})}); }),
              StartsWith("select cases must have the same shapes, got [(2,), (3,)]."));
  EXPECT_THAT(message_of<TypeError>([&] { select_n_p({}, {two, two, two}); }),
              StartsWith("select `which` must be boolean or integer type, got f64."));
  EXPECT_THAT(message_of<TypeError>([&] { select_n_p({}, {Array(true), two, two, two}); }),
              StartsWith("select with boolean `which` cannot have > 2 cases"));
}

TEST(ElementwiseTypes, ClampSaysWhichBoundIsWrong) {
  const Array two({1.0, 2.0}), three({1.0, 2.0, 3.0}),
      one = lax::convert_element_type(Array(1.0), f64);
  EXPECT_THAT(
      message_of<ShapeError>([&] { clamp_p({}, {two, three, one}); }),
      StartsWith(
          "clamp requires min.shape == operand.shape or min.shape == (), got min.shape=(2,), "
          "operand.shape=(3,)."));
  EXPECT_THAT(message_of<ShapeError>([&] { clamp_p({}, {one, three, two}); }),
              HasSubstr("got max.shape=(2,)"));
}

TEST(ElementwiseTypes, PowRefusesTwoFloatDtypes) {
  EXPECT_THAT(message_of<TypeError>([] { pow_p({}, {kF32, Array({1.0, 2.0, 3.0})}); }),
              HasSubstr("two float dtypes must match, but got f32 and f64"));
  EXPECT_THAT(message_of<TypeError>([] { pow_p({}, {kI32, kI32}); }),
              HasSubstr("pow does not accept dtype i32"));
}

TEST(ElementwiseTypes, IntegerPowRefusesNegativePowersOfIntegers) {
  EXPECT_THAT(
      message_of<TypeError>([] { lax::integer_pow(kI32, -1); }),
      StartsWith("Integers cannot be raised to negative powers, got integer_pow(i32[3], -1)"));
}

TEST(ElementwiseTypes, BitcastChangesTheLastDimensionWithTheWidth) {
  EXPECT_EQ(lax::bitcast_convert_type(kF32, u8).shape(), (Shape{3, 4}));
  EXPECT_EQ(lax::bitcast_convert_type(lax::bitcast_convert_type(kF32, u8), f32).to_vector<float>(),
            kF32.to_vector<float>());
  EXPECT_THAT(message_of<ShapeError>([] { lax::bitcast_convert_type(kF32, f64); }),
              StartsWith("Attempting to convert array of shape (3,) from f32 of size 32 bits to "
                         "f64 of size 64 bits, but "
                         "3 * 32 != 64."));
  EXPECT_THAT(message_of<TypeError>([] { lax::bitcast_convert_type(kF32, boolean); }),
              StartsWith("bitcast_convert_type does not support bool or complex values"));
}

}  // namespace
}  // namespace telamon_test
