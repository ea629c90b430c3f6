// Shape and SourceLocation: value semantics, printing, hashing.
#include "telamon/shape.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <sstream>
#include <utility>

#include "telamon/families.hpp"
#include "telamon/primitives.hpp"
#include "telamon/telamon.hpp"

namespace tl = telamon;
using tl::Shape;

TEST(Shapes, PrintAsPythonTuples) {
  EXPECT_EQ(Shape{}.to_string(), "()");
  EXPECT_EQ(Shape{3}.to_string(), "(3,)");
  EXPECT_EQ((Shape{2, -1, 4}).to_string(), "(2, -1, 4)");
}

template <class T>
std::string streamed(const T& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST(SmallTypes, CanBeStreamed) {
  EXPECT_EQ(streamed(Shape{2, 3}), "(2, 3)");
  EXPECT_EQ(streamed(tl::DType::bf16) + streamed(tl::f32), "bf16f32");
  EXPECT_EQ(streamed(tl::ShapedArray{{2}, tl::f32, true}), "~f32[2]");
  EXPECT_EQ(streamed(tl::SourceLocation{"a/train.cpp", 31, "loss"}), "train.cpp:31 in loss");
  EXPECT_EQ(streamed(tl::Half{0x3c00}) + streamed(tl::BFloat16{0x4049}), "1.03.14");
  EXPECT_EQ(streamed(tl::Complex64{1, 2}) + streamed(tl::Complex128{0, -2}), "(1+2j)-2j");
  const auto pair = tl::tree_structure(std::pair{tl::Array(1), tl::Array(2)});
  EXPECT_EQ(streamed(pair) + streamed(pair.leaf_paths()[1]), "(*, *)[1]");
  EXPECT_EQ(streamed(tl::Axes{0, tl::none}), "{0, none}");
  EXPECT_EQ(streamed(tl::checkpoint_policies::nothing_saveable()), "nothing_saveable");
  EXPECT_EQ(streamed(tl::JaxprType{{{{}, tl::f32, false}}, {}}), "(f32[]) -> ()");
  EXPECT_EQ(streamed(tl::Params::of(tl::IntegerPowParams{3})), "y=3");
  EXPECT_EQ(streamed(tl::families::kFloats), "floating");
}

TEST(Shapes, OfScalarsHaveOneElement) {
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ((Shape{2, 3}).num_elements(), 6);
  EXPECT_EQ((Shape{2, 0}).num_elements(), 0);
}

TEST(Shapes, OfMoreElementsThanNumbersAreErrors) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THROW((Shape{kHuge, 8}).num_elements(), tl::ShapeError);
  EXPECT_THROW((Shape{kHuge, -8}).num_elements(), tl::ShapeError);
  EXPECT_EQ((Shape{kHuge, 8, 0}).num_elements(), 0);
  EXPECT_EQ((Shape{0, kHuge, 8}).num_elements(), 0);
  EXPECT_EQ((Shape{kHuge, 1}).num_elements(), kHuge);
}

RC_GTEST_PROP(Shapes, BehaveAsVectorsUnderInsertAndErase, (std::vector<std::int64_t> dims)) {
  const auto at = *rc::gen::inRange<std::size_t>(0, dims.size() + 1);
  Shape shape(dims);
  shape.insert(at, 7);
  auto expected = dims;
  expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(at), 7);
  RC_ASSERT(shape.to_vector() == expected);
  shape.erase(at);
  RC_ASSERT(shape.to_vector() == dims);
}

RC_GTEST_PROP(Shapes, SurviveCopyMoveAndAssignment,
              (std::vector<std::int64_t> a, std::vector<std::int64_t> b)) {
  Shape first(a);
  Shape second(b);
  const Shape copy = first;
  RC_ASSERT(copy == first && copy.hash() == first.hash());
  first = second;
  RC_ASSERT(first.to_vector() == b);
  second = copy;
  RC_ASSERT(second.to_vector() == a);
  const Shape moved = std::move(first);
  RC_ASSERT(moved.to_vector() == b);
}

TEST(Shapes, OfSmallSizesHashApart) {
  std::set<std::size_t> hashes;
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 20; ++j) hashes.insert(Shape{i, j}.hash());
    hashes.insert(Shape{i}.hash());
  }
  EXPECT_EQ(hashes.size(), 420u);
}

TEST(SourceLocations, PrintFileLineAndFunctionWithoutTheFolder) {
  EXPECT_EQ((tl::SourceLocation{"/a/b/train.cpp", 31, "loss"}).to_string(), "train.cpp:31 in loss");
  EXPECT_EQ((tl::SourceLocation{"train.cpp", 31, nullptr}).to_string(), "train.cpp:31");
  EXPECT_EQ(tl::SourceLocation{}.to_string(), "");
}

TEST(SourceLocations, AreThoseOfTheCaller) {
  const auto here = [](tl::SourceLocation at = tl::SourceLocation::current()) { return at; };
  const int line = __LINE__ + 1;
  const tl::SourceLocation at = here();
  EXPECT_EQ(at.line, line);
  EXPECT_EQ(at.to_string().substr(0, 15), "shape_test.cpp:");
}
