// Images: bytes and back, and code that is run where it was read.
#include "compiler/executable/native_image.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "compiler/executable/native_loader.hpp"
#include "telamon/error.hpp"

namespace {

using namespace telamon;
using compiler::ImageFixup;
using compiler::NativeImage;
using testing::HasSubstr;

NativeImage example(std::string_view code) {
  NativeImage image;
  image.code = code;
  image.entry = 3;
  image.fixups = {{.at = 8, .kind = ImageFixup::Kind::base, .symbol = 0},
                  {.at = 16, .kind = ImageFixup::Kind::function, .symbol = 1},
                  {.at = 28, .kind = ImageFixup::Kind::call, .symbol = 0}};
  image.symbols = {"telamon_jit_host_call", "telamon_jit_parallel"};
  image.functions = {{.name = "f", .at = 3, .bytes = 5}, {.name = "g", .at = 8, .bytes = 2}};
  image.frames = "frames";
  return image;
}

const std::string kCode(32, '\1');

std::string refusal(const std::string& bytes) {
  try {
    (void)compiler::load_image(bytes, "program");
    return "loaded";
  } catch (const InternalError& e) { return e.what(); }
}

TEST(NativeImage, IsWhatItsBytesSay) {
  const std::string bytes = to_bytes(example(kCode));
  EXPECT_EQ(bytes.substr(0, kCode.size()), kCode) << "code is run where it was read";
  const NativeImage read = compiler::image_of(bytes);
  EXPECT_EQ(read.code, kCode);
  EXPECT_EQ(read.entry, 3);
  EXPECT_THAT(read.symbols, testing::ElementsAre("telamon_jit_host_call", "telamon_jit_parallel"));
  ASSERT_EQ(read.fixups.size(), 3u);
  EXPECT_EQ(read.fixups[2].at, 28u);
  EXPECT_EQ(read.fixups[2].kind, ImageFixup::Kind::call);
  EXPECT_EQ(read.fixups[1].symbol, 1);
  ASSERT_EQ(read.functions.size(), 2u);
  EXPECT_EQ(read.functions[0].name, "f");
  EXPECT_EQ(read.functions[0].bytes, 5);
  EXPECT_EQ(read.frames, "frames");
}

TEST(NativeImage, NamesItsFunctionsAfterTheProgram) {
  EXPECT_THAT(names_of_functions(example(kCode), "two words"),
              testing::ElementsAre("telamon:two_words", "telamon:two_words:g"));
}

TEST(NativeImage, RefusesBytesThatAreNoImage) {
  const std::string bytes = to_bytes(example(kCode));
  EXPECT_EQ(refusal(bytes), "loaded");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(refusal(bytes.substr(0, size)), HasSubstr("cannot read generated code")) << size;
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("cannot read generated code"));
}

TEST(NativeImage, RefusesWhatLiesOutsideOfIt) {
  const auto with = [](auto&& change) {
    NativeImage image = example(kCode);
    change(image);
    return to_bytes(image);
  };
  for (const std::string& bytes :
       {with([](NativeImage& i) { i.entry = 32; }), with([](NativeImage& i) { i.entry = -1; }),
        with([](NativeImage& i) { i.fixups[0].at = 25; }),
        with([](NativeImage& i) { i.fixups[2].at = 29; }),
        with([](NativeImage& i) { i.fixups[0].at = 0xffffffffu; }),
        with([](NativeImage& i) { i.fixups[1].symbol = 2; }),
        with([](NativeImage& i) { i.fixups[1].kind = static_cast<ImageFixup::Kind>(3); })})
    EXPECT_THAT(refusal(bytes), HasSubstr("cannot read generated code"));
}

TEST(NativeImage, NamesTheFunctionThatIsMissing) {
  NativeImage image = example(kCode);
  image.symbols[1] = "telamon_no_such_function";
  EXPECT_THAT(refusal(to_bytes(image)), HasSubstr("there is no function telamon_no_such_function"));
}

TEST(NativeImage, SaysWhereItAndItsFunctionsLie) {
  const NativeImage image = example(kCode);
  std::string code = kCode;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(code.data()),
                       function = 0x123456789;
  apply_fixups(code.data(), image, {begin, function});
  const auto at = [&](std::size_t place) {
    std::uint64_t n = 0;
    std::memcpy(&n, code.data() + place, sizeof n);
    return n;
  };
  EXPECT_EQ(at(8), 0x0101010101010101u + begin);
  EXPECT_EQ(at(16), function);
  EXPECT_EQ(code.substr(0, 8), kCode.substr(0, 8)) << "nothing else is changed";
  EXPECT_EQ(code.substr(24, 4), kCode.substr(24, 4));
}

// A call leads to the function itself where that is near, else to the table's jump to it.
TEST(NativeImage, CallsWhatIsNearDirectly) {
  const auto distance_to = [](std::ptrdiff_t distance) {
    NativeImage image;
    std::string code = kCode;
    image.code = kCode;
    image.fixups = {{.at = 8, .kind = ImageFixup::Kind::call, .symbol = 0}};
    const auto end = reinterpret_cast<std::uintptr_t>(code.data() + 12);
    apply_fixups(code.data(), image, {end + static_cast<std::uintptr_t>(distance)});
    std::int32_t found = 0;
    std::memcpy(&found, code.data() + 8, sizeof found);
    return found;
  };
  constexpr std::int32_t kUnchanged = 0x01010101;
  EXPECT_EQ(distance_to(100), 100);
  EXPECT_EQ(distance_to(-100), -100);
  EXPECT_EQ(distance_to(INT32_MAX), INT32_MAX);
  EXPECT_EQ(distance_to(INT32_MIN), INT32_MIN);
  EXPECT_EQ(distance_to(std::ptrdiff_t{INT32_MAX} + 1), kUnchanged);
  EXPECT_EQ(distance_to(std::ptrdiff_t{INT32_MIN} - 1), kUnchanged);
}

}  // namespace
