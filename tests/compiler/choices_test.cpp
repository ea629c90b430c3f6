// What is added to zeros, or written there, at one place in every row is a comparison: with the same bits as a scatter, at
// places of all types, inside and outside, in all modes.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

#include "compiler/support.hpp"
#include "telamon/indexing.hpp"
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
  const std::int64_t rows = c.size <= 8 ? 2100 : 70;  // of short ones more, which are taken apart
  ScatterParams p;
  p.dimension_numbers = {{}, {1}, {1}, {0}, {0}};
  p.mode = c.mode;
  const auto f = [&](std::span<const Array> x) {
    const Array zeros = full({rows, c.size}, Array(c.before).astype(c.dtype));
    const auto& primitive = c.adds ? scatter_add_p : scatter_p;
    return Arrays{max(abs(primitive.bind1(p, {zeros, x[0], x[1]})) + x[2], 1),
                  c.size <= 32 ? primitive.bind1(p, {zeros, x[0], x[1]}) : x[2]};
  };
  const std::int64_t last =
      size_of(c.places) == 1 ? std::min<std::int64_t>(c.size + 9, 127) : c.size + 9;
  const Array drawn = random::randint(random::key(7), {rows, 1}, -9, static_cast<int>(last));
  const Array far = where(arange(rows).reshape({rows, 1}) < 2, Array(std::int64_t{1} << 40),
                          drawn.astype(DType::i64));
  const Array at = size_of(c.places) == 8        ? far.astype(c.places)
                   : is_signed_integer(c.places) ? drawn.astype(c.places)
                                                 : abs(drawn).astype(c.places);
  const Array some = uniform({rows}, c.dtype, -1, 1);
  const Array y = where(arange(rows) % 3 == 0, -zeros_like(some), some);
  const Arrays inputs{at, y, uniform({rows, c.size}, c.dtype, -1, 1)};
  return check(f, inputs)->text("jaxpr");
}

TEST(Choices, AreWhatAScatterGives) {
  using enum GatherScatterMode;
  for (const DType places : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32,
                             DType::i64, DType::u64}) {
    for (const GatherScatterMode mode : {clip, fill_or_drop, promise_in_bounds}) {
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

// Rows along any axes: a batch, in the order of the places or another, or counted by an index of their own, maybe along a
// dimension of which another axis is counted too; some of the windows of one element.
TEST(Choices, OfRowsAlongAnyAxes) {
  std::mt19937 drawn(1);
  const auto draw = [&](std::int64_t n) {
    return static_cast<std::int64_t>(drawn() % static_cast<unsigned>(n));
  };
  int comparisons = 0, run = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::int64_t rank = 2 + draw(2), chosen = draw(rank);
    const Shape places = rank == 2 ? Shape{3} : Shape{3, 1 + draw(4)};
    Shape column = places, of;
    column.push_back(1);
    ScatterParams p;
    ScatterDimensionNumbers& d = p.dimension_numbers;
    p.mode = draw(2) == 0 ? GatherScatterMode::clip : GatherScatterMode::fill_or_drop;
    std::vector<std::int64_t> counted;  // of each column: along which dimension; -1: free places
    std::int64_t next = draw(2) == 0 ? 0 : places.ndim() - 1;
    const std::int64_t step = next == 0 ? 1 : -1;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      const std::int64_t along =
          draw(8) == 0 ? draw(places.ndim()) : std::clamp<std::int64_t>(next, 0, places.ndim() - 1);
      of.push_back(axis == chosen ? 1 + draw(6) : places[static_cast<std::size_t>(along)]);
      if (axis != chosen) next += step;
      if (axis != chosen && draw(2) == 0) {
        d.operand_batching_dims.push_back(axis);
        d.scatter_indices_batching_dims.push_back(along);
        continue;
      }
      d.scatter_dims_to_operand_dims.push_back(axis);
      counted.push_back(axis == chosen ? -1 : along);
      d.inserted_window_dims.push_back(axis);
    }
    Shape updates = places;
    if (draw(3) == 0) {  // the last of the inserted ones is a window of one element
      d.inserted_window_dims.pop_back();
      d.update_window_dims = {updates.ndim()};
      updates.push_back(1);
    }
    const auto f = [&](std::span<const Array> x) {
      Arrays columns;
      for (const std::int64_t along : counted) {
        const IotaParams iota{DType::i32, column, along};
        columns.push_back(along < 0 ? x[0] : iota_p.bind1(iota, {}));
      }
      const Array at = columns.size() == 1 ? columns[0] : concatenate(columns, -1);
      return Arrays{scatter_add_p.bind1(p, {zeros(of, DType::f32), at, x[1]})};
    };
    const Arrays inputs{random::randint(random::key(trial), column, -2, 8, DType::i32),
                        uniform(updates, DType::f32, -1, 1)};
    try {
      (void)stage(f, inputs);
    } catch (const Error&) { continue; }  // two axes of one batch
    ++run;
    if (check(f, inputs)->text("jaxpr").find("scatter") == std::string::npos) ++comparisons;
  }
  EXPECT_GT(run, 200);
  EXPECT_GT(comparisons, 50);
}

// Comparisons of 64-bit positions become narrow, while what wraps them stays wide.
TEST(Choices, OfRowsThatAreCountedInWideIntegers) {
  const auto f = [](std::span<const Array> x) {
    const Array rows = arange(50).astype(DType::i64);
    return Arrays{zeros({50, 9}, DType::f32).at(rows, x[0]).add(x[1])};
  };
  const std::string text =
      compile(stage(f, {random::randint(random::key(1), {50}, -9, 9, DType::i64),
                        uniform({50}, DType::f32, -1, 1)}))
          ->text("jaxpr");
  EXPECT_THAT(text, Not(HasSubstr("scatter"))) << text;
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
