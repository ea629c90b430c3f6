// Reflection of aggregates: counting, tying and naming members of every kind that a user may have.
#include "telamon/reflect.hpp"

#include <gtest/gtest.h>

#include <any>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace tl = telamon;

namespace {

struct Empty {};
struct Point {
  int x;
  double y;
};
struct Nested {
  Point point;
  std::array<int, 3> indices;
  int z = 3;
};
struct ManyKinds {
  std::vector<int> vector;
  std::optional<int> optional;
  std::string string;
  std::map<std::string, int> map;
  std::function<int(int)> function;
  std::any any;
  std::variant<int, double> variant;
  std::tuple<int> tuple_of_one;
  std::pair<int, int> pair;
  std::unique_ptr<int> pointer;
  std::optional<std::vector<int>> optional_vector;
  std::array<std::vector<int>, 2> array_of_vectors;
  std::vector<Nested> structs;
  std::tuple<std::vector<int>> tuple_of_vector;
  std::array<Point, 1> array_of_one;
};
// Constructible from nearly anything, as an array class is.
struct Greedy {
  Greedy() = default;
  template <class T>
  Greedy(const T&) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Greedy(std::initializer_list<T>) {}
  template <class T>
  Greedy(const std::vector<T>&) {}
};
struct HoldsGreedy {
  Greedy a, b;
  std::vector<Greedy> list;
  std::optional<Greedy> maybe;
  std::array<Greedy, 2> two;
};
struct NoDefault {
  explicit NoDefault(int) {}
};
struct HoldsNoDefault {
  int before;
  NoDefault value;
  int after;
};
struct Recursive {
  std::vector<Recursive> children;
  int value = 0;
};
struct OneMember {
  Point point;
};
struct HoldsEmpty {
  Empty empty;
  int x;
};
template <class T>
struct Generic {
  T first_;
  std::vector<T> second2;
};
struct Members32 {
  int m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20,
      m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31;
};

enum class Color { red, green, blue };
enum class Gaps { one = 1, zero = 0, five = 5 };
enum Unscoped { first, second };

template <class T>
std::vector<std::string> names() {
  constexpr auto array = tl::field_names<T>();
  return {array.begin(), array.end()};
}
using Names = std::vector<std::string>;

}  // namespace

TEST(Reflect, CountsMembersAndNotTheMembersOfMembers) {
  EXPECT_EQ(tl::field_count<Empty>(), 0u);
  EXPECT_EQ(tl::field_count<Point>(), 2u);
  EXPECT_EQ(tl::field_count<Nested>(), 3u);
  EXPECT_EQ(tl::field_count<OneMember>(), 1u);
  EXPECT_EQ(tl::field_count<HoldsEmpty>(), 2u);
  EXPECT_EQ(tl::field_count<ManyKinds>(), 15u);
  EXPECT_EQ(tl::field_count<Members32>(), 32u);
  EXPECT_EQ(tl::field_count<const Point>(), 2u);
}

TEST(Reflect, CountsMembersThatConvertFromAnythingOrHaveNoDefault) {
  EXPECT_EQ(tl::field_count<HoldsGreedy>(), 5u);
  EXPECT_EQ(tl::field_count<HoldsNoDefault>(), 3u);
  EXPECT_EQ(tl::field_count<Recursive>(), 2u);
}

TEST(Reflect, NamesMembersAlsoOfTemplatesAndLocalTypes) {
  struct Local {
    int first;
    std::string second;
  };
  EXPECT_EQ(names<Local>(), (Names{"first", "second"}));
  EXPECT_EQ(names<Nested>(), (Names{"point", "indices", "z"}));
  EXPECT_EQ(names<Generic<Point>>(), (Names{"first_", "second2"}));
  EXPECT_EQ(names<Generic<Recursive>>(), (Names{"first_", "second2"}));
  EXPECT_EQ(names<Empty>(), Names{});
  EXPECT_EQ(names<Members32>().back(), "m31");
}

TEST(Reflect, TiesReferencesThatWriteThrough) {
  Nested n{{1, 2.0}, {3, 4, 5}};
  auto [point, indices, z] = tl::tie_fields(n);
  static_assert(
      std::is_same_v<decltype(tl::tie_fields(n)), std::tuple<Point&, std::array<int, 3>&, int&>>);
  static_assert(std::is_same_v<decltype(tl::tie_fields(std::as_const(n))),
                               std::tuple<const Point&, const std::array<int, 3>&, const int&>>);
  point.x = 7;
  z = 8;
  EXPECT_EQ(n.point.x, 7);
  EXPECT_EQ(n.z, 8);
  EXPECT_EQ(indices[2], 5);
}

TEST(Reflect, VisitsMembersInOrderWithTheirNames) {
  Point p{1, 2.5};
  std::string seen;
  tl::for_each_field(p, [&](std::string_view name, auto& value) {
    seen += std::string(name) + ":" + std::to_string(static_cast<int>(value)) + " ";
    value = 0;
  });
  EXPECT_EQ(seen, "x:1 y:2 ");
  EXPECT_EQ(p.x, 0);
}

TEST(Reflect, NamesEnumeratorsThatCountFromZero) {
  enum class Local : signed char { here, there };
  static_assert(tl::enum_names<Color>.size() == 3 && tl::enum_names<Gaps>.size() == 2);
  static_assert(tl::enum_names<Unscoped>.empty());
  EXPECT_EQ(tl::enum_names<Color>[2], "blue");
  EXPECT_EQ(tl::enum_names<Gaps>[0], "zero");
  EXPECT_EQ(tl::enum_names<Local>[1], "there");
}
