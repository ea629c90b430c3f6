// The strict functions that do more than bind, and those of several operands: values by name.
#include <cmath>
#include <functional>

#include "support.hpp"
#include "telamon/jit.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const Array kX = make(f64, {2, 3}, {1, 2, 3, 4, 5, 6});

TEST(LaxSlices, InOneDimension) {
  const Array columns = lax::slice_in_dim(kX, 0, 3, 2, 1);
  EXPECT_EQ(columns.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(columns), (std::vector<double>{1, 3, 4, 6}));
  EXPECT_EQ(values(lax::slice_in_dim(kX, 1, 2)), (std::vector<double>{4, 5, 6}));
  const Array column = lax::index_in_dim(kX, 1, 1);
  EXPECT_EQ(column.shape(), Shape{2});
  EXPECT_EQ(values(column), (std::vector<double>{2, 5}));
}

// Where nothing changes, the operand comes back; not where the arguments are wrong.
TEST(LaxSlices, AreRefusedWithoutAnEntryForEachDimension) {
  const Array x({1.0, 2.0, 3.0});
  EXPECT_THAT(message_of([&] { (void)lax::slice(x, {0, 0}, {3}); }), StartsWith("slice of f64[3]"));
  EXPECT_THAT(message_of([&] { (void)lax::slice(x, {0}, {3}, {1, 1}); }),
              StartsWith("slice of f64[3]"));
  EXPECT_THAT(message_of([&] { (void)lax::pad(x, 0.0, {}); }), StartsWith("pad of f64[3]"));
  EXPECT_THAT(message_of([&] { (void)lax::scalar(x, f32); }),
              StartsWith("scalar: the value must be a scalar, got f64[3]"));
  EXPECT_TRUE(lax::slice(x, {0}, {3}, {1}).is_same(x));
}

TEST(LaxSlices, AtAStartThatIsAnArray) {
  const Array window = lax::dynamic_slice_in_dim(kX, make(i32, {}, {5}), 2, 1);
  EXPECT_EQ(window.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(window), (std::vector<double>{2, 3, 5, 6})) << "the start is clamped";
  const Array row = lax::dynamic_index_in_dim(kX, make(i64, {}, {1}));
  EXPECT_EQ(row.shape(), Shape{3});
  EXPECT_EQ(values(row), (std::vector<double>{4, 5, 6}));
  const Array updated =
      lax::dynamic_update_slice_in_dim(kX, make(f64, {2, 1}, {-1, -2}), make(i32, {}, {1}), 1);
  EXPECT_EQ(values(updated), (std::vector<double>{1, -1, 3, 4, -2, 6}));
}

TEST(LaxIndexing, ByDimensionNumbers) {
  const Array rows = make(i32, {2, 1}, {1, 0});
  const GatherParams read{
      {{1}, {0}, {0}, {}, {}}, {1, 3}, GatherScatterMode::clip, {}, false, false};
  EXPECT_EQ(values(lax::gather(kX, rows, read)), (std::vector<double>{4, 5, 6, 1, 2, 3}));
  const ScatterParams write{{{1}, {0}, {0}, {}, {}}, false, false, GatherScatterMode::clip};
  const Array updates = make(f64, {2, 3}, {10, 20, 30, 40, 50, 60});
  EXPECT_EQ(values(lax::scatter(kX, rows, updates, write)),
            (std::vector<double>{40, 50, 60, 10, 20, 30}));
  EXPECT_EQ(values(lax::scatter_add(kX, rows, updates, write)),
            (std::vector<double>{41, 52, 63, 14, 25, 36}));
}

TEST(LaxChoices, OfOneOfSeveral) {
  const Arrays cases{kX, lax::neg(kX), lax::zeros_like(kX)};
  const Array which = make(i32, {2, 3}, {0, 1, 2, 2, 1, 0});
  EXPECT_EQ(values(lax::select_n(which, cases)), (std::vector<double>{1, -2, 0, 0, -5, 6}));
  EXPECT_EQ(values(lax::sign(lax::neg(kX))), std::vector<double>(6, -1));
}

TEST(LaxConstants, CountAndAreRangeChecked) {
  const Arrays words = lax::iota_2x32_shape({2, 2});
  EXPECT_EQ(words[0].to_vector<int>(), std::vector<int>(4, 0));
  EXPECT_EQ(words[1].to_vector<int>(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(lax::scalar(Array(7), u8).aval().to_string(), "u8[]");
  EXPECT_NE(message_of([] { lax::scalar(Array(300), u8); }), "");
}

// A number beside an array has its dtype; where that would be another number it is refused, with jit and without.
TEST(LaxConstants, KeepTheirValueInTheDtypeBesideThem) {
  const Array i({1, 2, 3}), b({true, false, true}), u = make(DType::u8, {3}, {1, 2, 3});
  EXPECT_EQ(values(lax::mul(i, 2.0)), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(values(lax::bitwise_and(b, 1)), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(values(lax::bitwise_and(b, true)), (std::vector<double>{1, 0, 1}));
  const std::pair<const char*, std::function<Array(const Array&)>> refused[] = {
      {"mul", [](const Array& x) { return lax::mul(x, 0.5); }},
      {"lt", [](const Array& x) { return lax::lt(0.5, x); }},
      {"max", [](const Array& x) { return lax::max(x, std::nan("")); }},
      {"max", [](const Array& x) { return lax::max(x, 1e30); }},
      {"select", [](const Array& x) { return lax::select(lax::eq(x, x), x, 0.5); }},
      {"clamp", [](const Array& x) { return lax::clamp(0.5, x, 2.5); }},
      {"pad", [](const Array& x) { return lax::pad(x, 0.5, {{1, 1, 0}}); }}};
  for (const auto& [name, f] : refused) {
    const auto jitted = jit(f);
    for (const std::string& message :
         {message_of([&, g = f] { (void)g(i); }), message_of([&] { (void)jitted(i); })}) {
      EXPECT_THAT(message, HasSubstr("the number")) << name;
      EXPECT_THAT(message, HasSubstr(name));
      EXPECT_THAT(message, HasSubstr("i32[3]"));
    }
  }
  EXPECT_THAT(error_of([&] { (void)lax::mul(i, 0.5); }), HasSubstr("lax_test.cpp"));
  EXPECT_THROW((void)lax::max(u, -1.0), TypeError);
  EXPECT_THROW((void)lax::lt(make(DType::i64, {2}, {1, 2}), 9223372036854775808.0), TypeError);
  EXPECT_THROW((void)lax::bitwise_and(b, 2), TypeError);
  // An array of one bool is no number, and a number beside it takes its dtype.
  const Array one(true);
  const auto with_floats = [](const Array& x, const Array& t) { return lax::max(x, t); };
  EXPECT_THROW((void)with_floats(kX, one), TypeError);
  EXPECT_THROW((void)jit(with_floats)(kX, one), TypeError);
  const auto with_number = [](const Array& t) { return lax::bitwise_and(t, 1); };
  EXPECT_TRUE(with_number(one).item<bool>());
  EXPECT_TRUE(jit(with_number)(one).item<bool>());
}

TEST(LaxReductions, FoldAndRun) {
  const Array bits = make(i32, {3}, {12, 10, 14});
  EXPECT_EQ(lax::reduce_and(bits, {0}).item<int>(), 12 & 10 & 14);
  EXPECT_EQ(lax::reduce_or(bits, {0}).item<int>(), 12 | 10 | 14);
  EXPECT_EQ(lax::reduce_xor(bits, {0}).item<int>(), 12 ^ 10 ^ 14);
  EXPECT_EQ(lax::argmax(kX, 1, i32).to_vector<int>(), (std::vector<int>{2, 2}));
  EXPECT_EQ(lax::argmin(kX, 0, i64).dtype(), i64);
  EXPECT_EQ(values(lax::cumsum(kX, 1, true)), (std::vector<double>{6, 5, 3, 15, 11, 6}));
  EXPECT_EQ(values(lax::cummax(Array({1.0, 3.0, 2.0}))), (std::vector<double>{1, 3, 3}));
  EXPECT_EQ(values(lax::cummin(Array({3.0, 1.0, 2.0}))), (std::vector<double>{3, 1, 1}));
}

TEST(LaxSort, OrdersOneArrayOrSeveralByTheFirst) {
  EXPECT_EQ(values(lax::sort(Array({3.0, 1.0, 2.0}), 0)), (std::vector<double>{1, 2, 3}));
  const Arrays both = lax::sort(Arrays{Array({3.0, 1.0, 2.0}), Array({1, 2, 3})}, 0);
  EXPECT_EQ(both[1].to_vector<int>(), (std::vector<int>{2, 3, 1}));
  const Arrays rows = lax::unstack(kX);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(values(rows[1]), (std::vector<double>{4, 5, 6}));
}

TEST(Enums, AreReadFromTheirNames) {
  GatherScatterMode mode{};
  EXPECT_TRUE(enum_from_string(to_string(GatherScatterMode::clip), mode));
  EXPECT_EQ(mode, GatherScatterMode::clip);
  EXPECT_FALSE(enum_from_string("no such mode", mode));
  RoundingMethod method{};
  EXPECT_TRUE(enum_from_string(to_string(RoundingMethod::to_nearest_even), method));
  EXPECT_EQ(method, RoundingMethod::to_nearest_even);
}

}  // namespace
}  // namespace telamon_test
