// Conversions by value and by bits, and the block cipher, at values that are easy to get wrong.
#include <cstdint>
#include <limits>

#include "support.hpp"

namespace telamon_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Convert, OfFloatsToIntegersTruncatesAndSaturates) {
  const Array x({2.75, -2.75, 1e30, -1e30, kInf, -kInf, kNan});
  EXPECT_EQ(lax::convert_element_type(x, i8).to_vector<int>(),
            (std::vector<int>{2, -2, 127, -128, 127, -128, 0}));
  EXPECT_EQ(lax::convert_element_type(x, u8).to_vector<int>(),
            (std::vector<int>{2, 0, 255, 0, 255, 0, 0}));
  EXPECT_EQ(lax::convert_element_type(x, i64).to_vector<std::int64_t>()[2],
            std::numeric_limits<std::int64_t>::max());
}

TEST(Convert, OfIntegersWraps) {
  const Array x(std::vector<std::int32_t>{300, -1, 128});
  EXPECT_EQ(lax::convert_element_type(x, u8).to_vector<int>(), (std::vector<int>{44, 255, 128}));
  EXPECT_EQ(lax::convert_element_type(x, i8).to_vector<int>(), (std::vector<int>{44, -1, -128}));
}

TEST(Convert, ToBoolAsksWhetherTheValueIsNotZero) {
  EXPECT_EQ(lax::convert_element_type(Array({0.0, -0.0, 0.25, kNan}), boolean).to_vector<int>(),
            (std::vector<int>{0, 0, 1, 1}));
}

TEST(Convert, SetsTheWeakFlagAsAsked) {
  const Array x = convert_element_type_p.bind1({f32, true}, {Array({1.0f})});
  EXPECT_TRUE(x.weak_type());
  EXPECT_FALSE(convert_element_type_p.bind1({f32, false}, {x}).weak_type());
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>{1.0f});
}

TEST(Convert, OfHalfPrecisionRoundsToNearestEven) {
  const Array x({1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 65520.0f});
  EXPECT_EQ(lax::convert_element_type(x, f16).to_vector<double>(),
            (std::vector<double>{1.0, 1.0 + 0x1p-9, kInf}));
}

TEST(Bitcast, KeepsTheBitsLittleEndian) {
  const Array x(std::vector<std::uint32_t>{0x3f800000u, 0x01020304u});
  EXPECT_EQ(lax::bitcast_convert_type(x, f32).to_vector<float>()[0], 1.0f);
  EXPECT_EQ(lax::bitcast_convert_type(x, u8).to_vector<int>(),
            (std::vector<int>{0, 0, 0x80, 0x3f, 4, 3, 2, 1}));
  EXPECT_EQ(lax::bitcast_convert_type(x, u64).to_vector<std::uint64_t>(),
            (std::vector<std::uint64_t>{0x010203043f800000u}));
}

TEST(Threefry, GivesTheVectorsOfThePaper) {
  const auto words = [](std::uint32_t k0, std::uint32_t k1, std::uint32_t x0, std::uint32_t x1) {
    const auto one = [](std::uint32_t v) { return Array(std::vector<std::uint32_t>{v}); };
    const Arrays out = lax::threefry2x32(one(k0), one(k1), one(x0), one(x1));
    return std::pair{out[0].to_vector<std::uint32_t>()[0], out[1].to_vector<std::uint32_t>()[0]};
  };
  EXPECT_EQ(words(0, 0, 0, 0), (std::pair{0x6b200159u, 0x99ba4efeu}));
  EXPECT_EQ(words(0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu),
            (std::pair{0x1cb996fcu, 0xbb002be7u}));
  EXPECT_EQ(words(0x13198a2eu, 0x03707344u, 0x243f6a88u, 0x85a308d3u),
            (std::pair{0xc4923a9cu, 0x483df7a0u}));
}

TEST(Copy, HasABufferOfItsOwn) {
  const Array x({1.0, 2.0});
  const Array y = lax::copy(x);
  EXPECT_FALSE(y.is_same(x));
  EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
  EXPECT_TRUE(lax::stop_gradient(x).is_same(x));
}

}  // namespace
}  // namespace telamon_test
