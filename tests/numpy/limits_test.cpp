// Arguments out of their domain: the error names the function that the user called and says what to
// do. Nothing hangs, wraps around or runs out of memory. Where not said otherwise, JAX refuses too.
#include <cmath>
#include <limits>

#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tl::none;
using tl::slice;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLarge = std::int64_t{1} << 32;

Array counting(const Shape& shape) {
  return tl::arange(static_cast<int>(shape.num_elements())).reshape(shape);
}

TEST(Limits, OfRepeatedArraysAreThoseOfTheFunctionThatIsCalled) {
  const Array x({1.0, 2.0, 3.0}), ids({0, 1, 2});
  const std::int64_t many = kLarge << 8, most = std::int64_t{1} << 62;
  const auto refused = [](const char* start, const auto& f) {
    EXPECT_THAT(error_of([&] { (void)f(); }),
                AllOf(testing::StartsWith(start), HasSubstr("limits_test.cpp")));
  };
  refused("tile: an array of type f64[3298534883328]", [&] { return tl::tile(x, {many}); });
  refused("tile: an array of type", [&] { return tl::tile(x, {many, many}); });
  refused("repeat: an array of type", [&] { return tl::repeat(x, many); });
  refused("broadcast_to: an array of type", [&] { return tl::broadcast_to(x, {most, 3}); });
  refused("broadcast_to: an array of type", [&] { return tl::broadcast_to(1.0, {most, most}); });
  refused("broadcast_to: sizes must not be negative, got (-1, 3)",
          [&] { return tl::broadcast_to(x, {-1, 3}); });
  refused("segment_sum: an array of type f64[1099511627776] has",
          [&] { return tl::segment_sum(x, ids, many); });
  refused("segment_sum: an array of type", [&] { return tl::segment_sum(x, ids, most); });
  refused("segment_sum: num_segments must not be negative, got -1",
          [&] { return tl::segment_sum(x, ids, -1); });
}

TEST(Limits, OfSizesAreCheckedByTheFunctionThatIsCalled) {
  const Array wide = tl::zeros({kLarge});
  const auto expect_refused = [](const char* name, const auto& f) {
    EXPECT_THAT(error_of([&] { return f(); }),
                AllOf(HasSubstr(std::string(name) + ": "), HasSubstr("limits_test.cpp")));
  };
  for (const std::int64_t n : {std::int64_t{-1}, kMin, kMax, kLarge << 16}) {
    expect_refused("eye", [&] { return tl::eye(n); });
    expect_refused("eye", [&] { return tl::eye(2, n); });
    expect_refused("one_hot", [&] { return tl::one_hot(Array({0, 1}), n); });
    expect_refused("linspace", [&] { return tl::linspace(0, 1, n); });
  }
  for (const std::int64_t n : {std::int64_t{-1}, kMin, kMax}) {
    expect_refused("zeros", [&] { return tl::zeros({n}); });
    expect_refused("ones", [&] { return tl::ones({2, n}); });
    expect_refused("full", [&] { return tl::full({n}, 2.0); });
  }
  expect_refused("arange", [] { return tl::arange(kMax); });
  expect_refused("arange", [] { return tl::arange(kMin, kMax); });
  expect_refused("arange", [] { return tl::arange(0.0, 1e30); });
  expect_refused("arange", [] { return tl::arange(0.0, 10.0, 1e-300); });
  expect_refused("arange", [] { return tl::arange(-1e308, 1e308, 1e-3); });
  expect_refused("outer", [&] { return tl::outer(wide, wide); });
  expect_refused("diag", [] { return tl::diag(Array({1, 2}), std::numeric_limits<int>::max()); });
  expect_refused("diag", [] { return tl::diag(Array({1, 2}), std::numeric_limits<int>::min()); });
  expect_refused("diag", [] { return tl::diag(Array({1, 2}), kMin); });
  expect_refused("diag", [] { return tl::diag(Array({1, 2}), kMax); });
  expect_refused("tile", [] { return tl::tile(Array({1, 2, 3}), {kMax}); });
  expect_refused("repeat", [] { return tl::repeat(Array({1, 2, 3}), kMax); });
  expect_refused("reshape", [] { return tl::reshape(Array({1, 2}), {kMax, -1, kMax}); });
}

TEST(Limits, DiagonalsBeyondTheMatrixAreEmpty) {
  const Array x = counting({2, 3});
  for (const std::int64_t k : {kMax, kLarge, std::int64_t{3}}) {
    expect_array<float>(tl::eye(2, none, k), {2, 2}, {0, 0, 0, 0});
    expect_array<float>(tl::eye(2, none, -k), {2, 2}, {0, 0, 0, 0});
    expect_array<int>(tl::diagonal(x, k), {0}, {});
    expect_array<int>(tl::diagonal(x, -k), {0}, {});
    expect_array<int>(tl::tril(x, k), {2, 3}, {0, 1, 2, 3, 4, 5});
    expect_array<int>(tl::tril(x, -k), {2, 3}, {0, 0, 0, 0, 0, 0});
    expect_array<int>(tl::triu(x, k), {2, 3}, {0, 0, 0, 0, 0, 0});
    expect_array<int>(tl::triu(x, -k), {2, 3}, {0, 1, 2, 3, 4, 5});
  }
  expect_array<int>(tl::triu(x, kMin), {2, 3}, {0, 1, 2, 3, 4, 5});
  expect_array<int>(tl::diag(x, kMin), {0}, {});
}

TEST(Limits, OfAxesAreNotNarrowed) {
  const Array x = counting({2, 3});
  EXPECT_THAT(message_of<tl::IndexError>([&] { return tl::sum(x, kLarge); }),
              HasSubstr("sum: axis 4294967296 is out of bounds for i32[2,3]"));
  EXPECT_THROW(tl::mean(x, {.axes = kLarge}), tl::IndexError);
  EXPECT_THROW(tl::max(x, std::numeric_limits<std::uint64_t>::max()), tl::IndexError);
  EXPECT_THROW(tl::cumsum(x, kLarge), tl::IndexError);
  EXPECT_THROW(tl::argmax(x, kLarge), tl::IndexError);
  EXPECT_THROW(tl::sort(x, kLarge), tl::IndexError);
  EXPECT_THROW(tl::concatenate({x, x}, kLarge), tl::IndexError);
  EXPECT_THROW(tl::stack({x, x}, kLarge), tl::IndexError);
  EXPECT_THROW(tl::swapaxes(x, 0, kLarge), tl::IndexError);
  EXPECT_THROW(tl::softmax(x, kLarge), tl::IndexError);
  EXPECT_THROW(tl::roll(x, 1, kLarge), tl::IndexError);
  EXPECT_THROW(tl::take(x, Array({0}), kLarge), tl::IndexError);
  EXPECT_THROW(tl::expand_dims(x, kLarge), tl::IndexError);
}

TEST(Limits, OfPermutationsAreChecked) {
  const Array x = counting({1, 5});
  EXPECT_THAT(message_of<tl::IndexError>([&] { return tl::transpose(x, {0, 2}); }),
              HasSubstr("transpose: axis 2 is out of bounds for i32[1,5]"));
  EXPECT_THROW(tl::transpose(x, {0, kLarge}), tl::IndexError);
  EXPECT_THROW(tl::transpose(x, {0}), tl::ValueError);
  EXPECT_THROW(tl::transpose(Array({1, 2}), kLarge), tl::IndexError);
  EXPECT_THROW(tl::lax::transpose(x, {0, 2}), tl::IndexError);
  EXPECT_THROW(tl::lax::transpose(x, {0, -1}), tl::IndexError);
  EXPECT_EQ(tl::transpose(x, {-1, 0}).shape(), (Shape{5, 1}));
}

TEST(Limits, AxesThatWouldWrapAroundAreRefused) {
  const Array x = counting({2, 3});
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const auto expect_refused = [](int line, const auto& f) {
    EXPECT_THAT(error_of<tl::IndexError>([&] { f(); }),
                AllOf(HasSubstr("axis 18446744073709551615 is out of bounds"),
                      HasSubstr("at limits_test.cpp:" + std::to_string(line) + " in ")));
  };
  expect_refused(__LINE__, [&] { return tl::cumsum(x, kNone); });
  expect_refused(__LINE__, [&] { return tl::argmax(x, kNone); });
  expect_refused(__LINE__, [&] { return tl::sort(x, kNone); });
  expect_refused(__LINE__, [&] { return tl::concatenate({x, x}, kNone); });
  expect_refused(__LINE__, [&] { return tl::swapaxes(x, 0, kNone); });
  expect_refused(__LINE__, [&] { return tl::diagonal(x, 0, kNone); });
  expect_refused(__LINE__, [&] { return tl::roll(x, 1, kNone); });
  expect_refused(__LINE__, [&] { return tl::lax::cumsum(x, kNone); });
  expect_refused(__LINE__, [&] { return tl::lax::iota(tl::DType::i32, {2}, kNone); });
  expect_refused(__LINE__, [&] { return tl::vmap([](Array y) { return y; }, {.in_axes = kNone}); });
  expect_refused(__LINE__, [&] { return Array(x.shape(kNone)); });
  EXPECT_THAT(error_of<tl::IndexError>([&] { tl::sum(x, kNone); }), HasSubstr("out of bounds"));
  // Unsigned numbers that are axes, and numbers that no array has.
  expect_array<int>(tl::cumsum(x, std::size_t{1}), {2, 3}, {0, 1, 3, 3, 7, 12});
  EXPECT_THAT(error_of<tl::IndexError>([&] { tl::cumsum(x, kMin); }),
              HasSubstr("cumsum: axis -9223372036854775808 is out of bounds for i32[2,3]"));
}

TEST(Limits, OfTheNumberOfResults) {
  const Array nothing = tl::zeros({0}), rows = tl::zeros({std::int64_t{1} << 31, 0});
  EXPECT_EQ(tl::split(nothing, 3).size(), 3u);
  EXPECT_THAT(
      error_of<tl::ValueError>([&] { tl::split(nothing, std::numeric_limits<int>::max()); }),
      AllOf(HasSubstr("split of f32[0] into 2147483647 arrays: the most is 1048576"),
            HasSubstr("limits_test.cpp")));
  EXPECT_THAT(error_of<tl::ValueError>([&] { tl::split(rows, 1 << 30); }), HasSubstr("the most"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { tl::unstack(rows); }),
              HasSubstr("unstack of f32[2147483648,0] into 2147483648 arrays"));
}

TEST(Limits, OfSplitIndicesAreThoseOfTheAxis) {
  const Array x = counting({5});
  for (const Shape& indices : {Shape{3, 2}, Shape{2, 9}, Shape{-2}, Shape{6}, Shape{kMin},
                               Shape{kMax}, Shape{1, kMax, 2}}) {
    EXPECT_THAT(message_of<tl::ValueError>([&] { return tl::split(x, indices); }),
                AllOf(HasSubstr("split: the indices " + indices.to_string()),
                      HasSubstr("must not decrease, and lie between 0 and 5")));
  }
  const auto parts = tl::split(x, Shape{0, 2, 2, 5});
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[1].shape(), Shape{2});
  EXPECT_EQ(parts[2].shape(), Shape{0});
  EXPECT_THROW(tl::split(x, kLarge), tl::ValueError);
  EXPECT_THROW(tl::lax::split(x, {kMax, kMax, 7}), tl::ShapeError);
}

TEST(Limits, OfRangesAreFinite) {
  const double nan = std::nan("");
  EXPECT_THAT(message_of<tl::ValueError>([] { return tl::arange(tl::inf); }),
              HasSubstr("arange: start, stop and step must be finite, got inf"));
  EXPECT_THROW(tl::arange(nan), tl::ValueError);
  EXPECT_THROW(tl::arange(0.0, 1.0, nan), tl::ValueError);
  EXPECT_THROW(tl::arange(-tl::inf, 1.0), tl::ValueError);
  EXPECT_THROW(tl::arange(0.0, 1.0, tl::inf), tl::ValueError);  // JAX: an empty array
  EXPECT_THROW(tl::arange(std::numeric_limits<std::uint64_t>::max()), tl::ValueError);
  expect_array<std::int64_t>(tl::arange(kMin, kMax, kMax, tl::i64), {3}, {kMin, -1, kMax - 1});
}

TEST(Limits, OfIndicesDoNotWrapAround) {
  const Array x = counting({5});
  EXPECT_THAT(
      message_of<tl::IndexError>([&] { return x(std::numeric_limits<std::uint64_t>::max()); }),
      HasSubstr("index 18446744073709551615 is out of bounds"));
  EXPECT_THROW(x(kMax), tl::IndexError);
  EXPECT_THROW(x(kMin), tl::IndexError);
  EXPECT_THROW(tl::lax::index_in_dim(x, kMax), tl::IndexError);
  EXPECT_THROW(tl::lax::index_in_dim(x, 0, 1), tl::IndexError);
  EXPECT_THROW(tl::lax::slice_in_dim(x, 0, 1, 1, -1), tl::IndexError);
  expect_array<int>(tl::roll(x, kMax), {5}, {3, 4, 0, 1, 2});
  expect_array<int>(tl::roll(x, kMin), {5}, {3, 4, 0, 1, 2});
}

TEST(Limits, OfSlicesAreClampedAsInPython) {
  const Array x = counting({5});
  expect_array<int>(x(slice(kMin, kMax)), {5}, {0, 1, 2, 3, 4});
  expect_array<int>(x(slice(kMax, kMin)), {0}, {});
  expect_array<int>(x(slice(none, none, kMax)), {1}, {0});
  expect_array<int>(x(slice(1, none, kMax)), {1}, {1});
  expect_array<int>(x(slice(none, none, kMin)), {1}, {4});
  expect_array<int>(x(slice(kMax, kMin, -2)), {3}, {4, 2, 0});
  expect_array<int>(x.at(slice(none, none, kMax)).set(9), {5}, {9, 1, 2, 3, 4});
  expect_array<int>(x.at(slice(3, none, kMin)).add(9), {5}, {0, 1, 2, 12, 4});
  const auto first = [](const Array& y) { return tl::sum(y(slice(none, none, kMax))); };
  expect_array<float>(tl::grad(first)(tl::arange(3.f)), {3}, {1, 0, 0});
  expect_array<float>(tl::jit(first)(tl::arange(1.f, 4.f)), {}, {1});
}

// JAX truncates such values and warns that it will refuse them.
TEST(Limits, OfUpdatesAreTheArraysKindOfNumber) {
  const Array x = counting({3});
  EXPECT_THAT(error_of<tl::TypeError>([&] { return x.at(1).set(2.7); }),
              AllOf(HasSubstr("x.at(...).set got values of type ~f64[] for an array x of type "
                              "i32[3]"),
                    HasSubstr("convert the values with astype(i32), or x with astype(f64)"),
                    HasSubstr("limits_test.cpp")));
  EXPECT_THROW((void)x.at(Array({0, 1})).add(Array({0.5f, 1.5f})), tl::TypeError);
  EXPECT_THROW((void)x.at(1).subtract(0.5), tl::TypeError);
  EXPECT_THROW((void)x.at(x > 1).multiply(0.5), tl::TypeError);
  EXPECT_THROW((void)(x > 1).at(0).set(2), tl::TypeError);
  expect_array<int>(x.at(1).set(Array(2.7).astype(tl::i32)), {3}, {0, 2, 2});
  expect_array<int>(x.at(1).set(true), {3}, {0, 1, 2});
  expect_array<float>(tl::zeros({2}).at(1).set(3), {2}, {0, 3});
  expect_array<float>(tl::zeros({2}).at(1).set(Array(2.5)), {2}, {0, 2.5f});
}

}  // namespace
}  // namespace telamon_test
