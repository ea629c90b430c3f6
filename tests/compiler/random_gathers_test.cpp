// Random gathers and scatter-adds whose places count along their dimensions, up, down, in steps and by several at once,
// inside and outside: what they become (slices, windows, sums of padded parts) gives the same numbers.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

class RandomGather {
 public:
  explicit RandomGather(unsigned seed) : random_(seed) {
    const std::int64_t rank = 1 + below(3);
    for (std::int64_t a = 0; a < rank; ++a) operand.push_back(pick({3, 5, 12, 40}));
    const std::int64_t dims = 1 + below(4);
    for (std::int64_t d = 0; d < dims; ++d) places_.push_back(pick({1, 2, 3, 8, 9, 17}));
    choose_axes();
    choose_windows();
    constexpr DType kTypes[] = {DType::i8,  DType::u8,  DType::i16, DType::i32,
                                DType::u32, DType::i64, DType::u64};
    index_type_ = kTypes[below(7)];
  }

  Shape operand;
  /// What is looked up, what it is added to, and both with numbers that depend on the call.
  Arrays operator()(std::span<const Array> x) {
    const Array indices = vectors();
    const Array found = lax::gather(x[0], indices, params_);
    const GatherDimensionNumbers& d = params_.dimension_numbers;
    ScatterParams scatter;
    scatter.dimension_numbers = {d.offset_dims, d.collapsed_slice_dims, d.start_index_map, {}, {}};
    scatter.mode = params_.mode;
    const Array added = lax::scatter_add(x[0], indices, found + 1, scatter);
    const Array zeros = lax::zeros_like(x[0]);
    return {found, found * 2 + lax::convert_element_type(x[1], x[0].dtype()), added,
            lax::scatter_add(zeros, indices, found * 3, scatter)};
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t pick(std::initializer_list<std::int64_t> all) {
    return all.begin()[below(static_cast<std::int64_t>(all.size()))];
  }

  // Which components there are, of which axes, and how each counts along the dimensions of the places.
  void choose_axes() {
    std::vector<std::int64_t> axes;
    for (std::int64_t a = 0; a < operand.ndim(); ++a) axes.push_back(a);
    std::shuffle(axes.begin(), axes.end(), random_);
    const auto count = static_cast<std::size_t>(1 + below(operand.ndim()));
    for (std::size_t k = 0; k < count; ++k) {
      params_.dimension_numbers.start_index_map.push_back(axes[k]);
      std::vector<std::int64_t> steps(places_.size(), 0);
      // Mostly a dimension each, as programs have it; now and then whatever.
      const std::int64_t own = below(places_.ndim());
      for (std::size_t d = 0; d < steps.size(); ++d)
        if (d == static_cast<std::size_t>(own) || below(3) == 0)
          steps[d] = pick({1, 1, 1, -1, 2, 0});
      steps_.push_back(steps);
    }
  }
  void choose_windows() {
    GatherDimensionNumbers& d = params_.dimension_numbers;
    std::vector<std::int64_t> result_dims;
    for (std::int64_t a = 0; a < operand.ndim(); ++a) {
      const std::int64_t size = operand[static_cast<std::size_t>(a)];
      const bool collapses = d.start_index_map.contains(a) ? below(4) > 0 : below(3) == 0;
      params_.slice_sizes.push_back(collapses ? 1 : below(2) == 0 ? size : 1 + below(size));
      if (collapses) d.collapsed_slice_dims.push_back(a);
    }
    const auto windows = static_cast<std::int64_t>(operand.size() - d.collapsed_slice_dims.size());
    for (std::int64_t k = 0; k < places_.ndim() + windows; ++k) result_dims.push_back(k);
    std::shuffle(result_dims.begin(), result_dims.end(), random_);
    if (below(2) == 0) std::sort(result_dims.begin(), result_dims.end(), std::greater<>());
    result_dims.resize(static_cast<std::size_t>(windows));
    std::sort(result_dims.begin(), result_dims.end());
    for (const std::int64_t k : result_dims) d.offset_dims.push_back(k);
    params_.mode = std::vector{GatherScatterMode::clip, GatherScatterMode::fill_or_drop,
                               GatherScatterMode::promise_in_bounds}[below(3)];
    is_inside_ = params_.mode == GatherScatterMode::promise_in_bounds || below(4) > 0;
  }

  // Components start so that all windows are inside, if there is such a place.
  Array vectors() {
    Arrays columns;
    Shape shape = places_;
    shape.push_back(1);
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const auto axis = static_cast<std::size_t>(params_.dimension_numbers.start_index_map[k]);
      std::int64_t least = 0, most = 0;
      Array sum = lax::full(shape, DType::i32, 0);
      for (std::size_t d = 0; d < places_.size(); ++d) {
        const std::int64_t step = steps_[k][d];
        (step < 0 ? least : most) += step * (places_[d] - 1);
        if (step == 0) continue;
        const Array counted = lax::iota(DType::i32, shape, static_cast<std::int64_t>(d));
        sum = sum + counted * static_cast<int>(step);
      }
      const std::int64_t room = operand[axis] - params_.slice_sizes[axis];
      std::int64_t first =
          is_inside_ ? -least + std::max<std::int64_t>(room - (most - least), 0) / 2 : below(8) - 3;
      // Places that promise to be inside are.
      if (params_.mode == GatherScatterMode::promise_in_bounds && most - least > room) {
        sum = lax::full(shape, DType::i32, 0);
        first = room / 2;
      }
      columns.push_back(lax::convert_element_type(sum + static_cast<int>(first), index_type_));
    }
    return columns.size() == 1 ? columns[0] : lax::concatenate(columns, places_.ndim());
  }

  std::mt19937 random_;
  Shape places_;
  std::vector<std::vector<std::int64_t>> steps_;  ///< of each component
  GatherParams params_;
  bool is_inside_ = true;
  DType index_type_ = DType::i32;
};

void check_gathers(unsigned first, unsigned last) {
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    const RandomGather gather(seed);
    const DType dtype = seed % 4 == 0 ? DType::bf16 : seed % 4 == 1 ? DType::i8 : DType::f32;
    const Array numbers = uniform(gather.operand, DType::f32) * 100;
    const Arrays x = {lax::convert_element_type(numbers, dtype), Array(3.0F)};
    check([&](std::span<const Array> in) { return RandomGather(gather)(in); }, x);
    if (::testing::Test::HasFailure()) return;
  }
}

// Index vectors that are put together of others, one vector after the other, have no columns.
TEST(RandomGathers, OfPlacesPutTogetherOfVectors) {
  GatherParams elements;
  elements.dimension_numbers = {{}, {0, 1}, {0, 1}, {}, {}};
  elements.slice_sizes = {1, 1};
  elements.mode = GatherScatterMode::clip;
  check(
      [=](std::span<const Array> x) {
        const Array places = lax::concatenate(
            Arrays{lax::iota(DType::i32, {2, 2}, 0), lax::full({2, 2}, DType::i32, 2)}, 0);
        return Arrays{lax::gather(x[0], places, elements)};
      },
      {uniform({8, 8}, DType::f32)});
}
// Two numbers always count, by steps that their type need not hold.
TEST(RandomGathers, OfCapturedPlacesFarApart) {
  const Array x = uniform({400}, DType::f32);
  GatherParams pairs;
  pairs.dimension_numbers = {{1}, {}, {0}, {}, {}};
  pairs.slice_sizes = {2};
  for (const Array& places :
       {lax::convert_element_type(Array{-100, 100}, DType::i8), Array{200, 3},
        lax::convert_element_type(Array{200, 3}, DType::u8), Array{INT32_MIN, INT32_MAX}}) {
    const auto f = [=](const Array& y) {
      return lax::gather(y, lax::reshape(places, {2, 1}), pairs);
    };
    expect_equal(jit(f)(x), f(x), 0, places.aval().to_string());
  }
}
TEST(RandomGathers, AreCompiledRight) { check_gathers(0, 150); }
TEST(RandomGathers, LONG_AreCompiledRight) { check_gathers(150, 5000); }

}  // namespace
}  // namespace telamon::testing
