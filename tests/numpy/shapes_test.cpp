// Functions that move, join, cut, repeat and create elements.
#include <complex>

#include "numpy/expect.hpp"
#include "support/errors.hpp"
#include "telamon/check.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
using namespace std::complex_literals;

Array counting(const Shape& shape) {
  return tl::arange(static_cast<int>(shape.num_elements())).reshape(shape);
}

TEST(Reshape, InfersOneSize) {
  EXPECT_EQ(tl::reshape(counting({6}), {2, -1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(counting({2, 3}).reshape({-1}).shape(), Shape{6});
  EXPECT_EQ(tl::reshape(tl::zeros({0, 3}), {0, 4}).shape(), (Shape{0, 4}));
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::ShapeError>([] { return counting({6}).reshape({4, -1}); });
  EXPECT_THAT(text, HasSubstr("cannot reshape i32[6] (6 elements) into shape (4, -1)"));
  EXPECT_THAT(text, HasSubstr("shapes_test.cpp:" + std::to_string(line)));
  EXPECT_THROW(tl::reshape(counting({6}), {-1, -1}), tl::ShapeError);
}

TEST(Ravel, IsTheRowMajorVector) {
  expect_array<int>(tl::ravel(Array({{1, 2}, {3, 4}})), {4}, {1, 2, 3, 4});
  expect_array<int>(tl::ravel(tl::transpose(Array({{1, 2}, {3, 4}}))), {4}, {1, 3, 2, 4});
  EXPECT_EQ(tl::ravel(Array(5)).shape(), Shape{1});
}

TEST(Transpose, ReversesOrPermutes) {
  const Array x = counting({2, 3});
  expect_array<int>(tl::transpose(x), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_array<int>(x.T(), {3, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(tl::transpose(counting({2, 3, 4}), {1, -1, 0}).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(tl::swapaxes(counting({2, 3, 4}), 0, -1).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(tl::moveaxis(counting({2, 3, 4}), 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(tl::moveaxis(counting({2, 3, 4}), -1, 0).shape(), (Shape{4, 2, 3}));
  EXPECT_THROW(tl::transpose(x, {0, 0}), tl::ValueError);
}

TEST(ExpandDims, InsertsAtPositionsOfTheResult) {
  EXPECT_EQ(tl::expand_dims(counting({2, 3}), 0).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(tl::expand_dims(counting({2, 3}), -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(tl::expand_dims(counting({2, 3}), {0, 2}).shape(), (Shape{1, 2, 1, 3}));
  EXPECT_EQ(tl::squeeze(tl::zeros({1, 2, 1})).shape(), Shape{2});
  EXPECT_EQ(tl::squeeze(tl::zeros({1, 2, 1}), -1).shape(), (Shape{1, 2}));
  EXPECT_THAT(error_of<tl::ValueError>([] { return tl::squeeze(tl::zeros({1, 2}), 1); }),
              HasSubstr("does not have size 1"));
}

TEST(Broadcasting, RepeatsWithoutCopiesInTheResult) {
  expect_array<int>(tl::broadcast_to(counting({3}), {2, 3}), {2, 3}, {0, 1, 2, 0, 1, 2});
  EXPECT_THROW(tl::broadcast_to(counting({3}), {3, 2}), tl::ShapeError);
  const Arrays pair = tl::broadcast_arrays({counting({3, 1}), counting({2})});
  EXPECT_EQ(pair[1].shape(), (Shape{3, 2}));
}

TEST(Joining, PromotesAndChecksShapes) {
  expect_array<double>(tl::concatenate({Array({1, 2}), Array({0.5})}), {3}, {1, 2, 0.5});
  expect_array<int>(tl::concatenate({counting({2, 1}), counting({2, 2})}, -1), {2, 3},
                    {0, 0, 1, 1, 2, 3});
  expect_array<int>(tl::stack({Array({1, 2}), Array({3, 4})}), {2, 2}, {1, 2, 3, 4});
  expect_array<int>(tl::stack({Array({1, 2}), Array({3, 4})}, -1), {2, 2}, {1, 3, 2, 4});
  expect_array<double>(tl::stack({1.0, 2.0}) + tl::zeros({2}, tl::f64), {2}, {1, 2});
  EXPECT_THAT(error_of<tl::ShapeError>([] { return tl::stack({counting({2}), counting({3})}); }),
              HasSubstr("i32[2] and i32[3]"));
  EXPECT_THROW(tl::concatenate({}), tl::ValueError);
  const Arrays rows = tl::unstack(counting({2, 3}));
  ASSERT_EQ(rows.size(), 2u);
  expect_array<int>(rows[1], {3}, {3, 4, 5});
}

TEST(Splitting, IntoEqualPartsOrAtIndices) {
  const Arrays halves = tl::split(counting({6}), 2);
  ASSERT_EQ(halves.size(), 2u);
  expect_array<int>(halves[1], {3}, {3, 4, 5});
  const Arrays parts = tl::split(counting({6}), {1, 4});
  ASSERT_EQ(parts.size(), 3u);
  expect_array<int>(parts[1], {3}, {1, 2, 3});
  EXPECT_THROW(tl::split(counting({6}), 4), tl::ValueError);
}

TEST(Repeating, TilesRepeatsRollsAndFlips) {
  expect_array<int>(tl::tile(Array({1, 2}), {2, 2}), {2, 4}, {1, 2, 1, 2, 1, 2, 1, 2});
  expect_array<int>(tl::tile(counting({2, 1}), {2}), {2, 2}, {0, 0, 1, 1});
  expect_array<int>(tl::repeat(Array({1, 2}), 2), {4}, {1, 1, 2, 2});
  expect_array<int>(tl::repeat(counting({2, 2}), 2, 1), {2, 4}, {0, 0, 1, 1, 2, 2, 3, 3});
  expect_array<int>(tl::roll(counting({5}), 2), {5}, {3, 4, 0, 1, 2});
  expect_array<int>(tl::roll(counting({5}), -1), {5}, {1, 2, 3, 4, 0});
  expect_array<int>(tl::roll(counting({2, 3}), 1, 1), {2, 3}, {2, 0, 1, 5, 3, 4});
  expect_array<int>(tl::roll(counting({2, 3}), 1), {2, 3}, {5, 0, 1, 2, 3, 4});
  expect_array<int>(tl::flip(counting({2, 3}), 1), {2, 3}, {2, 1, 0, 5, 4, 3});
  expect_array<int>(tl::flip(counting({3})), {3}, {2, 1, 0});
  expect_array<int>(tl::pad(counting({2}), {{1, 2}}, 9), {5}, {9, 0, 1, 9, 9});
}

TEST(Triangles, AreCutAtTheKthDiagonal) {
  const Array x = tl::ones({3, 3}, tl::i32);
  expect_array<int>(tl::tril(x), {3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1});
  expect_array<int>(tl::tril(x, -1), {3, 3}, {0, 0, 0, 1, 0, 0, 1, 1, 0});
  expect_array<int>(tl::triu(x), {3, 3}, {1, 1, 1, 0, 1, 1, 0, 0, 1});
  expect_array<int>(tl::triu(x, 1), {3, 3}, {0, 1, 1, 0, 0, 1, 0, 0, 0});
  EXPECT_EQ(tl::tril(tl::ones({2, 3, 4})).shape(), (Shape{2, 3, 4}));
  EXPECT_THROW(tl::tril(tl::ones({3})), tl::TypeError);
}

TEST(Diagonals, AreReadAndBuilt) {
  const Array x = counting({3, 4});
  expect_array<int>(tl::diagonal(x), {3}, {0, 5, 10});
  expect_array<int>(tl::diagonal(x, 1), {3}, {1, 6, 11});
  expect_array<int>(tl::diagonal(x, -2), {1}, {8});
  expect_array<int>(tl::diagonal(x, 7), {0}, {});
  expect_array<int>(tl::diagonal(counting({2, 3, 3}), 0, 1, 2), {2, 3}, {0, 4, 8, 9, 13, 17});
  expect_array<int>(tl::diag(Array({1, 2})), {2, 2}, {1, 0, 0, 2});
  expect_array<int>(tl::diag(Array({1, 2}), 1), {3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
  expect_array<int>(tl::diag(Array({1, 2}), -1), {3, 3}, {0, 0, 0, 1, 0, 0, 0, 2, 0});
  expect_array<int>(tl::trace(x), {}, {15});
}

TEST(Creation, HasTheDefaultDtypes) {
  EXPECT_EQ(type_of(tl::zeros({2, 3})), "f32[2,3]");
  EXPECT_EQ(type_of(tl::ones({2}, tl::f64)), "f64[2]");
  EXPECT_EQ(type_of(tl::full({2}, 3.0)), "f32[2]");
  EXPECT_EQ(type_of(tl::full({2}, 3)), "i32[2]");
  EXPECT_EQ(type_of(tl::full({2}, true)), "bool[2]");
  EXPECT_EQ(type_of(tl::full({2}, Array({1.0}))), "f64[2]");
  EXPECT_EQ(type_of(tl::full_like(tl::zeros({2}, tl::f64), 3)), "f64[2]");
  EXPECT_EQ(type_of(tl::zeros_like(counting({2}))), "i32[2]");
  EXPECT_EQ(type_of(tl::asarray(2.0)), "f64[]");
  EXPECT_EQ(type_of(tl::asarray(2, tl::f32)), "f32[]");
  EXPECT_EQ(type_of(tl::array({1.0, 2.0})), "f64[2]");
  expect_array<float>(tl::array({1, 2}, tl::f32), {2}, {1, 2});
  expect_array<double>(tl::ones({2}, tl::f64), {2}, {1, 1});
  expect_array<int>(tl::array(std::vector<int>{4, 5}), {2}, {4, 5});
}

TEST(Creation, TakesNumbersOfEveryElementType) {
  using C = std::complex<float>;
  const Array z = tl::array({C(1, 2), C(3, -1)});
  EXPECT_EQ(z.aval().to_string(), "c64[2]");
  EXPECT_EQ(z.to_vector<C>(), (std::vector<C>{{1, 2}, {3, -1}}));
  EXPECT_EQ(tl::prod(z).item<C>(), C(5, 5));
  EXPECT_EQ(tl::array({C(1, 2)}, tl::c128).item<std::complex<double>>(), 1.0 + 2.0i);
  EXPECT_EQ(tl::array(std::vector{1.0 + 2.0i}).dtype(), tl::c128);
  EXPECT_EQ(Array({{C(1), C(2)}, {C(3), C(4)}}).aval().to_string(), "c64[2,2]");
  EXPECT_EQ(Array(std::vector<C>(6), {3, 2}).aval().to_string(), "c64[3,2]");
  EXPECT_EQ(Array({tl::Complex64{1, 2}}).item<C>(), C(1, 2));
  EXPECT_EQ(Array({tl::Half{0x3c00}, tl::Half{0x4000}}).to_vector<double>(),
            (std::vector<double>{1, 2}));
}

TEST(Creation, OfTheLikenessOfAnArray) {
  expect_array<double>(tl::ones_like(Array({{2.0, 3.0}})), {1, 2}, {1, 1});
  expect_array<int>(tl::ones_like(Array({2.0, 3.0}), tl::i32), {2}, {1, 1});
}

TEST(Creation, RefusesNegativeSizesWithTheCallersLine) {
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::ShapeError>([] { return tl::zeros({2, -1}); });
  EXPECT_THAT(text, HasSubstr("sizes must not be negative, got (2, -1)"));
  EXPECT_THAT(text, HasSubstr("shapes_test.cpp:" + std::to_string(line)));
  EXPECT_THROW(tl::full({-1}, 2.0), tl::ShapeError);
}

TEST(Creation, EyeTakesColumnsAndDiagonal) {
  expect_array<float>(tl::eye(2), {2, 2}, {1, 0, 0, 1});
  expect_array<int>(tl::eye(2, 3, 1, tl::i32), {2, 3}, {0, 1, 0, 0, 0, 1});
}

TEST(Creation, ArangeCountsUpAndDown) {
  expect_array<int>(tl::arange(4), {4}, {0, 1, 2, 3});
  expect_array<int>(tl::arange(2, 5), {3}, {2, 3, 4});
  expect_array<int>(tl::arange(5, 0, -2), {3}, {5, 3, 1});
  expect_array<int>(tl::arange(3, 3), {0}, {});
  expect_array<int>(tl::arange(3, 1), {0}, {});
  expect_array<float>(tl::arange(0, 1, 0.25), {4}, {0, 0.25f, 0.5f, 0.75f});
  expect_array<double>(tl::arange(3, tl::f64), {3}, {0, 1, 2});
  EXPECT_EQ(type_of(tl::arange(2.0)), "f32[2]");
  EXPECT_THROW(tl::arange(0, 1, 0), tl::ValueError);
}

TEST(Creation, LinspaceHitsBothEnds) {
  expect_array<float>(tl::linspace(0, 1, 5), {5}, {0, 0.25f, 0.5f, 0.75f, 1});
  expect_array<double>(tl::linspace(0.0, 1.0, 4, {.endpoint = false, .dtype = tl::f64}), {4},
                       {0, 0.25, 0.5, 0.75});
  const Array x = tl::linspace(Array({0.1}), Array({0.7}), 7);
  EXPECT_EQ(type_of(x), "f64[7,1]");
  EXPECT_EQ(x(0, 0).item<double>(), 0.1);
  EXPECT_EQ(x(-1, 0).item<double>(), 0.7);
  EXPECT_EQ(tl::linspace(0, 1, 1).item<float>(), 0.0f);
}

TEST(Creation, MeshgridHasBothIndexings) {
  const Arrays xy = tl::meshgrid({counting({3}), counting({2})});
  expect_array<int>(xy[0], {2, 3}, {0, 1, 2, 0, 1, 2});
  expect_array<int>(xy[1], {2, 3}, {0, 0, 0, 1, 1, 1});
  const Arrays ij = tl::meshgrid({counting({3}), counting({2})}, true);
  expect_array<int>(ij[0], {3, 2}, {0, 0, 1, 1, 2, 2});
}

TEST(Creation, UnderJitStagesBroadcastsOfScalars) {
  const auto f = [](const Array& x) { return x + tl::ones({1000}, tl::f64); };
  const tl::ClosedJaxpr program = tl::make_jaxpr(f)(tl::zeros({1000}, tl::f64));
  EXPECT_TRUE(program.consts.empty()) << program;
}

TEST(Astype, ConvertsAndDropsWeakness) {
  expect_array<int>(Array({1.7, -1.7}).astype(tl::i32), {2}, {1, -1});
  EXPECT_EQ(type_of(Array(2.0).astype(tl::f64)), "f64[]");
  expect_array<bool>(Array({0, 3}).astype(tl::boolean), {2}, {false, true});
}

TEST(Sorting, IsStableAndPutsNanLast) {
  const double nan = std::nan("");
  expect_array<double>(tl::sort(Array({3.0, nan, 1.0})), {3}, {1, 3, nan});
  expect_array<int>(tl::argsort(Array({3, 1, 3, 1})), {4}, {1, 3, 0, 2});
  expect_array<int>(tl::sort(Array({{3, 1}, {2, 4}}), 0), {2, 2}, {2, 1, 3, 4});
  expect_array<int>(tl::sort(Array({{3, 1}, {2, 4}}), tl::none), {4}, {1, 2, 3, 4});
}

TEST(Take, SelectsAlongAnAxisAndFillsOutOfRange) {
  const Array x = counting({3, 2});
  expect_array<int>(tl::take(x, Array({2, 0}), 0), {2, 2}, {4, 5, 0, 1});
  expect_array<int>(tl::take(x, Array({{1, 0}, {0, 1}}), 1), {3, 2, 2},
                    {1, 0, 0, 1, 3, 2, 2, 3, 5, 4, 4, 5});
  expect_array<int>(tl::take(x, Array({-1, 5})), {2}, {5, 5});
  expect_array<int>(tl::take(x, 4), {}, {4});
  const Array filled = tl::take(Array({1.0, 2.0}), Array({0, 2}));
  EXPECT_EQ(filled(0).item<double>(), 1);
  EXPECT_TRUE(std::isnan(filled(1).item<double>()));
  expect_array<int>(tl::take_along_axis(Array({{3, 1}, {2, 4}}), Array({{1}, {0}}), 1), {2, 1},
                    {1, 2});
  expect_array<int>(tl::take_along_axis(x, Array({{1, 0, 1}}), 1), {3, 3},
                    {1, 0, 1, 3, 2, 3, 5, 4, 5});  // for all rows
  expect_array<int>(tl::take_along_axis(Array({{7, 8}}), Array({{1}, {0}, {-1}}), 1), {3, 1},
                    {8, 7, 8});
  EXPECT_THAT(
      telamon_test::error_of<tl::ShapeError>(
          [&] { (void)tl::take_along_axis(x, Array({{0}, {1}}), 1); }),
      testing::AllOf(testing::HasSubstr("take_along_axis: indices i32[2,1] do not fit i32[3,2]"),
                     testing::HasSubstr("shapes_test.cpp:")));
  EXPECT_THAT(telamon_test::error_of<tl::TypeError>(
                  [&] { (void)tl::take_along_axis(x, tl::zeros({3, 1}, tl::bool_), 1); }),
              testing::AllOf(testing::HasSubstr("take_along_axis"), testing::HasSubstr("bool[3,1]"),
                             testing::HasSubstr("shapes_test.cpp:")));
  EXPECT_THROW(tl::take(x, Array({1.0})), tl::TypeError);
}

TEST(SegmentSum, AddsRowsOfOneId) {
  const Array data({1.0, 2.0, 3.0, 4.0}), ids({0, 2, 0, 7});
  expect_array<double>(tl::segment_sum(data, ids, 3), {3}, {4, 0, 2});
  expect_array<int>(tl::segment_sum(counting({3, 2}), Array({1, 0, 1}), 2), {2, 2}, {2, 3, 4, 6});
  EXPECT_THROW(tl::segment_sum(data, Array({0, 1}), 2), tl::ShapeError);
  tl::check_grads([&](const Array& x) { return tl::square(tl::segment_sum(x, ids, 3)); },
                  std::tuple{data}, {});
}

}  // namespace
}  // namespace telamon_test
