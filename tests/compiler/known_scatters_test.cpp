// Scatters of one window whose place is known, as programs from JAX have them for x.at[1:-1].add(y): sums with what is
// padded, or updates of a part.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "support.hpp"
#include "telamon/control_flow.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// x with y put at a place along the first dimensions, or added to what is there.
struct AtKnown {
  bool adds;
  std::vector<std::int32_t> place;
  GatherScatterMode mode = GatherScatterMode::fill_or_drop;
  Shape left_out = {};  ///< dimensions of x that y does not have
  DType index = DType::i32;
  bool wraps = false, backwards = false;  ///< the last dimension comes first

  Array operator()(const Array& x, const Array& y) const {
    ScatterParams p;
    p.mode = mode;
    p.wraps = wraps;
    ScatterDimensionNumbers& d = p.dimension_numbers;
    for (int k = 0; k < y.ndim(); ++k) d.update_window_dims.push_back(k);
    d.inserted_window_dims = left_out;
    Arrays parts;
    for (std::size_t k = 0; k < place.size(); ++k) {
      d.scatter_dims_to_operand_dims.push_back(static_cast<std::int64_t>(k));
      parts.push_back(lax::full({1}, index, place[k]));
    }
    if (backwards) {
      std::reverse(parts.begin(), parts.end());
      std::reverse(d.scatter_dims_to_operand_dims.begin(), d.scatter_dims_to_operand_dims.end());
    }
    if (parts.empty()) parts.push_back(lax::full({0}, index, 0));
    const Array indices = parts.size() == 1 ? parts[0] : lax::concatenate(parts, 0);
    return adds ? lax::scatter_add(x, indices, y, p) : lax::scatter(x, indices, y, p);
  }
};

/// Compiled, the bits of eager evaluation, with donated arguments as well; the program that was compiled.
std::string same_as_eager(const Program& f, const Arrays& inputs) {
  const Compiled compiled = compile(stage(f, inputs));
  const Array want = f(inputs)[0];
  expect_equal(execute(compiled, inputs)[0], want, 0, compiled->text("jaxpr"));
  Arrays copies = inputs;
  copies[0] = lax::copy(inputs[0]);
  copies[0].block_until_ready();
  std::vector<bool> donated(inputs.size(), false);
  donated[0] = true;
  const Compiled in_place = compile(stage(f, inputs), {.donated = donated});
  expect_equal(execute(in_place, copies, donated)[0], want, 0, "donated");
  return compiled->text("jaxpr");
}
std::string same_as_eager(const AtKnown& at, const Array& x, const Array& y) {
  return same_as_eager([at](std::span<const Array> a) { return Arrays{at(a[0], a[1])}; }, {x, y});
}

Array some(const Shape& shape, DType dtype) {
  return lax::convert_element_type(uniform(shape, DType::f64, -9, 9), dtype);
}

TEST(KnownScatters, AreUpdatesOfAPart) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::u8, DType::bool_, DType::c64}) {
    const Array x = some({30, 40}, dtype);
    const std::string put = same_as_eager(AtKnown{false, {3, 5}}, x, some({7, 20}, dtype));
    EXPECT_THAT(put, HasSubstr("dynamic_update_slice"));
    EXPECT_THAT(put, Not(HasSubstr("scatter")));
    if (dtype == DType::bool_) continue;  // cannot be added
    const Array all_but_one = some({29, 39}, dtype), row = some({40}, dtype);
    const std::string most = same_as_eager(AtKnown{true, {1, 0}}, x, all_but_one);
    const std::string few =
        same_as_eager(AtKnown{.adds = true, .place = {29}, .left_out = {0}}, x, row);
    const bool sums = !is_complex(dtype);  // of those, two calls in the place of one
    EXPECT_THAT(most, HasSubstr(sums ? "= pad" : "= scatter_add")) << short_name(dtype);
    EXPECT_THAT(few, HasSubstr(sums ? "= dynamic_update_slice" : "= scatter_add"));
  }
}

// Zeros keep their signs where nothing is added, and where zeros are.
TEST(KnownScatters, LeaveZerosAsTheyAre) {
  const Array x(std::vector<float>(100, -0.0F)), y(std::vector<float>(80, -0.0F));
  const std::string program = same_as_eager(AtKnown{true, {7}}, x, y);
  EXPECT_THAT(program, HasSubstr("pad"));
  const Arrays got = execute(
      compile(stage([](std::span<const Array> a) { return Arrays{AtKnown{true, {7}}(a[0], a[1])}; },
                    {x, y})),
      {x, y});
  for (const float z : got[0].to_vector<float>()) EXPECT_TRUE(z == 0 && std::signbit(z));
}

TEST(KnownScatters, StayWhatTheyAreOutOfBounds) {
  const Array x = some({30, 40}, DType::f32), y = some({7, 20}, DType::f32);
  for (const bool adds : {false, true}) {
    for (const auto mode : {GatherScatterMode::clip, GatherScatterMode::fill_or_drop}) {
      for (const std::vector<std::int32_t>& place :
           {std::vector<std::int32_t>{24, 5}, {3, 21}, {-1, 0}}) {
        EXPECT_THAT(same_as_eager(AtKnown{adds, place, mode}, x, y), HasSubstr("scatter"));
      }
      EXPECT_THAT(same_as_eager(AtKnown{adds, {23, 20}, mode}, x, y), Not(HasSubstr("scatter")));
    }
  }
}

// Whatever type the indices have, in whatever order they come, from the end, or where there are none.
TEST(KnownScatters, AtPlacesOfAnyKind) {
  const Array x = some({30, 40}, DType::f32), y = some({7, 20}, DType::f32);
  const auto is_update = [](const std::string& program) {
    EXPECT_THAT(program, Not(HasSubstr("scatter")));
  };
  for (const bool adds : {false, true}) {
    for (const DType index : {DType::i8, DType::u8, DType::i64, DType::u64}) {
      AtKnown at{adds, {3, 5}};
      at.index = index;
      is_update(same_as_eager(at, x, y));
      at.backwards = true;
      is_update(same_as_eager(at, x, y));
    }
    AtKnown from_the_end{adds, {-7, -20}};
    from_the_end.wraps = true;
    is_update(same_as_eager(from_the_end, x, y));
    from_the_end.place = {-6, -20};
    EXPECT_THAT(same_as_eager(from_the_end, x, y), HasSubstr("scatter")) << "out of bounds";
    is_update(same_as_eager(AtKnown{adds, {}}, x, y));
    same_as_eager(AtKnown{adds, {3, 5}}, x, some({0, 20}, DType::f32));
  }
}

// A loop does small ones in place.
TEST(KnownScatters, InLoops) {
  const Array x = some({5000}, DType::f32), y = some({50, 10}, DType::f32);
  const Program f = [](std::span<const Array> a) {
    const auto step = [](const Array& z, const Array& by) {
      return std::pair(AtKnown{true, {7}}(z, by), Array(0));
    };
    return Arrays{scan(step, a[0], a[1]).first};
  };
  EXPECT_THAT(same_as_eager(f, {x, y}), Not(HasSubstr("scatter")));
  EXPECT_THAT(compile(stage(f, {x, y}))->text("plan"),
              HasSubstr("kernel update dynamic_update_slice (5000,)"));
}

}  // namespace
}  // namespace telamon::testing
