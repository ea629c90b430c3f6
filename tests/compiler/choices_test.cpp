// What is added to zeros, or written there, at one place in every row is a comparison: with the same bits as a scatter, at
// places of all types, inside and outside, in all modes.
#include <gmock/gmock.h>

#include "compiler/support.hpp"
#include "telamon/numpy.hpp"
#include "telamon/random.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Places of rows along the last axis of [rows, size]; some of the updates are -0.
struct Case {
  DType dtype;
  DType places;
  std::int64_t size;
  GatherScatterMode mode;
  bool adds;
  double before;
};

std::string check_case(const Case& c) {
  constexpr std::int64_t kRows = 70;
  ScatterParams p;
  p.dimension_numbers = {{}, {1}, {1}, {0}, {0}};
  p.mode = c.mode;
  const auto f = [&](std::span<const Array> x) {
    const Array zeros = full({kRows, c.size}, Array(c.before).astype(c.dtype));
    const auto& primitive = c.adds ? scatter_add_p : scatter_p;
    return Arrays{max(abs(primitive.bind1(p, {zeros, x[0], x[1]})) + x[2], 1),
                  c.size <= 32 ? primitive.bind1(p, {zeros, x[0], x[1]}) : x[2]};
  };
  const std::int64_t last = std::min<std::int64_t>(c.size + 9, 127);
  const Array drawn = random::randint(random::key(7), {kRows, 1}, -9, static_cast<int>(last));
  const Array far = where(arange(kRows).reshape({kRows, 1}) < 2, Array(std::int64_t{1} << 40),
                          drawn.astype(DType::i64));
  const Array at = size_of(c.places) == 8        ? far.astype(c.places)
                   : is_signed_integer(c.places) ? drawn.astype(c.places)
                                                 : abs(drawn).astype(c.places);
  const Array some = uniform({kRows}, c.dtype, -1, 1);
  const Array y = where(arange(kRows) % 3 == 0, -zeros_like(some), some);
  const Arrays inputs{at, y, uniform({kRows, c.size}, c.dtype, -1, 1)};
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled with = compile(jaxpr);
  const Compiled without =
      compile(jaxpr, {.contract = false, .name = "without", .disabled = {"simplify"}});
  const Arrays want = execute(without, inputs), got = execute(with, inputs);
  for (std::size_t i = 0; i < got.size(); ++i)
    expect_equal(got[i], want[i], 0, with->text("jaxpr"));
  return with->text("jaxpr");
}

TEST(Choices, AreWhatAScatterGives) {
  using enum GatherScatterMode;
  for (const DType places :
       {DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    for (const GatherScatterMode mode : {clip, fill_or_drop}) {
      for (const std::int64_t size : {2, 7, 33, 300}) {
        const DType dtype = size == 7 || size == 33 ? DType::f64 : DType::f32;
        for (const bool adds : {false, true}) {
          const std::string text = check_case({dtype, places, size, mode, adds, adds ? 0. : 2.});
          EXPECT_THAT(text, Not(HasSubstr("scatter"))) << text;
        }
      }
    }
  }
}

TEST(Choices, AreLeftAloneInLongRowsAndOfSmallFloats) {
  for (const auto& [dtype, size] :
       {std::pair{DType::f32, 5000}, {DType::bf16, 10}, {DType::f16, 100}}) {
    const std::string text =
        check_case({dtype, DType::i32, size, GatherScatterMode::fill_or_drop, true, 0.});
    EXPECT_THAT(text, HasSubstr("scatter_add")) << text;
  }
}

}  // namespace
}  // namespace telamon::testing
