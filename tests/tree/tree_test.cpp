// Pytrees by reflection: what is a leaf, what is static, flattening and back, mapping, errors.
#include "telamon/tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/errors.hpp"

namespace tl = telamon;
using telamon::Array;
using telamon::Arrays;
using telamon::TreeDef;
using ::telamon_test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

struct Linear {
  Array w, b;
};
enum class Activation { relu, tanh };
struct Layer {
  Array w, b;
  Activation activation = Activation::relu;
};
struct Mlp {
  std::vector<Layer> layers;
  std::map<std::string, Array> buffers;
  double dropout = 0.0;
  std::optional<Linear> head;
  std::array<Array, 2> pair;
  std::vector<int> sizes{1, 2};
};
struct Branching {
  Array value;
  std::vector<Branching> children;
};
template <class A>
struct Generic {
  A w, b;
  int n = 3;
};
struct Statics {
  bool flag = true;
  int count = 2;
  float ratio = 0.5f;
  std::string name = "x";
  tl::Shape shape{2, 3};
  tl::DType dtype = tl::f32;
  Array leaf;
};

// A class with private members that opts in.
class Dense {
 public:
  Dense() = default;
  Dense(Array w, Array b) : w_(std::move(w)), b_(std::move(b)) {}
  auto parts() { return std::tie(w_, b_); }
  auto parts() const { return std::tie(w_, b_); }

 private:
  Array w_, b_;
};
class Unnamed {
 public:
  Array a, b;
  explicit Unnamed(int) {}
};

Mlp make_mlp() {
  return {.layers = {{1.0, 2.0}, {3.0, 4.0, Activation::tanh}},
          .buffers = {{"mean", 5.0}, {"deviation", 6.0}},
          .dropout = 0.1,
          .head = Linear{7.0, 8.0},
          .pair = {9.0, 10.0}};
}

std::vector<double> values(const Arrays& leaves) {
  std::vector<double> out;
  for (const Array& a : leaves) out.push_back(a.item<double>());
  return out;
}

template <class T>
std::string static_bytes(const T& t) {
  tl::detail::KeyBuilder key;
  tl::detail::hash_static(t, key);
  return std::string(key.view());
}

}  // namespace

namespace telamon {
template <>
struct Tree<Dense> {
  static auto tie(auto& d) { return d.parts(); }
  static constexpr std::array<std::string_view, 2> names{"weights", "bias"};
};
template <>
struct Tree<Unnamed> {
  static auto tie(auto& u) { return std::tie(u.a, u.b); }
};
}  // namespace telamon

TEST(TreeConcept, HoldsForArraysStaticsContainersAndAggregates) {
  class Private {
   public:
    int get() const { return x_; }

   private:
    int x_ = 0;
  };
  static_assert(tl::Pytree<Array> && tl::Pytree<double> && tl::Pytree<std::string>);
  static_assert(tl::Pytree<Mlp> && tl::Pytree<const Mlp&> && tl::Pytree<Branching>);
  static_assert(tl::Pytree<std::tuple<Array, std::pair<int, Linear>>>);
  static_assert(tl::Pytree<std::map<std::string, std::optional<Array>>>);
  static_assert(tl::Pytree<Dense> && tl::Pytree<std::vector<Dense>>);
  static_assert(!tl::Pytree<Private> && !tl::Pytree<std::vector<Private>> && !tl::Pytree<Array*>);
  static_assert(!tl::Pytree<std::map<int, Array>> && !tl::Pytree<const char*>);
  EXPECT_EQ(Private().get(), 0);
}

TEST(TreeFlatten, GivesArraysInMemberOrderAndMapsByKey) {
  EXPECT_THAT(values(tl::tree_leaves(make_mlp())), ElementsAre(1, 2, 3, 4, 6, 5, 7, 8, 9, 10));
  EXPECT_THAT(values(tl::tree_leaves(Array(3))), ElementsAre(3));
  EXPECT_TRUE(tl::tree_leaves(std::tuple{1, 2.5, std::string("x")}).empty());
  const Branching tree{0, {{1, {}}, {2, {{3, {}}}}}};
  EXPECT_THAT(values(tl::tree_leaves(tree)), ElementsAre(0, 1, 2, 3));
}

TEST(TreeFlatten, IsUndoneByUnflattenFromPrototypeOrStructure) {
  const Mlp mlp = make_mlp();
  const auto [leaves, structure] = tl::tree_flatten(mlp);
  Arrays negated;
  for (const Array& a : leaves) negated.push_back(Array(-a.item<double>()));

  const Mlp by_prototype = tl::tree_unflatten(mlp, negated);
  EXPECT_EQ(by_prototype.buffers.at("mean").item<double>(), -5);
  EXPECT_EQ(by_prototype.layers[1].activation, Activation::tanh);

  const auto by_structure = tl::tree_unflatten<Mlp>(structure, negated);
  EXPECT_EQ(tl::tree_structure(by_structure), structure);
  EXPECT_EQ(values(tl::tree_leaves(by_structure)), values(negated));
  EXPECT_EQ(by_structure.dropout, 0.1);
  EXPECT_EQ(by_structure.sizes, mlp.sizes);
  ASSERT_TRUE(by_structure.head.has_value());
}

TEST(TreeFlatten, RestoresStaticsOfEveryKind) {
  const Statics s{.leaf = 1.0};
  const auto [leaves, structure] = tl::tree_flatten(s);
  Statics changed = tl::tree_unflatten<Statics>(structure, leaves);
  EXPECT_EQ(tl::tree_structure(changed), structure);
  EXPECT_EQ(changed.shape, (tl::Shape{2, 3}));
  changed.dtype = tl::f64;
  EXPECT_FALSE(tl::tree_structure(changed) == structure);
}

TEST(TreeFlatten, NamesTheEmptyHandle) {
  Mlp mlp = make_mlp();
  mlp.layers[1].b = Array();
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_flatten(mlp); }),
              HasSubstr("tree_flatten: the Array at layers[1].b is empty"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_leaves(Array()); }),
              HasSubstr("tree_leaves: the Array is empty"));
}

TEST(TreeFlatten, RefusesAWrongNumberOfLeavesOrAnotherStructure) {
  const Linear linear{1.0, 2.0};
  const Arrays three(3, Array(0.0));
  const auto structure = tl::tree_structure(linear);
  EXPECT_EQ(message_of<tl::TypeError>([&] { tl::tree_unflatten(linear, three); }),
            "tree_unflatten: the structure Linear{w=*, b=*} has 2 leaves, not the 3 given");
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_unflatten<Linear>(structure, three); }),
              HasSubstr("has 2 leaves, not the 3 given"));
  const Arrays two(2, Array(0.0));
  EXPECT_THAT(
      message_of<tl::TypeError>([&] { (tl::tree_unflatten<std::vector<Array>>(structure, two)); }),
      HasSubstr("the structure Linear{w=*, b=*} has Linear{w=*, b=*} where the C++ type has "
                "a list"));
  EXPECT_THAT(message_of<tl::TypeError>([&] {
                (tl::tree_unflatten<std::tuple<Array, int>>(
                    tl::tree_structure(std::tuple{Array(1), 2.5}), {two.data(), 1}));
              }),
              HasSubstr("has 2.5 where the C++ type has a static value of type int"));
}

TEST(TreeStructure, PrintsReadably) {
  EXPECT_EQ(tl::tree_structure(Linear{1, 2}).to_string(), "Linear{w=*, b=*}");
  EXPECT_EQ(tl::tree_structure(std::tuple{Array(1), std::vector<Array>{2, 3}}).to_string(),
            "(*, [*, *])");
  EXPECT_EQ(tl::tree_structure(std::tuple{Array(1)}).to_string(), "(*,)");
  EXPECT_EQ(tl::tree_structure(std::map<std::string, Array>{{"a", 1}}).to_string(), "{\"a\": *}");
  EXPECT_EQ(
      tl::tree_structure(std::pair{std::optional<Array>{}, std::optional<Array>{1}}).to_string(),
      "(None, *)");
  EXPECT_EQ(tl::tree_structure(std::tuple{Array(1), 3, 0.5, std::string("s")}).to_string(),
            "(*, 3, 0.5, 's')");
  EXPECT_EQ(tl::tree_structure(Layer{1, 2}).to_string(), "Layer{w=*, b=*, activation=relu}");
  EXPECT_EQ(tl::tree_structure(Dense(1, 2)).to_string(), "Dense{weights=*, bias=*}");
  EXPECT_EQ(tl::tree_structure(std::vector<int>{1, 2}).to_string(), "(1, 2)");
  EXPECT_EQ(TreeDef().to_string(), "*");
}

TEST(TreeStructure, ComparesAndHashesWithStaticsByBits) {
  const auto of = [](double x) { return tl::tree_structure(std::tuple{Array(1), x}); };
  EXPECT_EQ(of(1.0), of(1.0));
  EXPECT_EQ(of(1.0).hash(), of(1.0).hash());
  EXPECT_EQ(of(NAN), of(NAN));
  EXPECT_FALSE(of(0.0) == of(-0.0));
  EXPECT_FALSE(tl::tree_structure(std::tuple{Array(1), 1}) ==
               tl::tree_structure(std::tuple{Array(1), 1L}));
  EXPECT_FALSE(tl::tree_structure(Linear{1, 2}) == tl::tree_structure(Generic<Array>{1, 2}));
  EXPECT_EQ(tl::tree_structure(std::pair{Array(1), Array(2)}),
            tl::tree_structure(std::tuple{Array(3), Array(4)}));
}

TEST(TreeStructure, KnowsThePathsOfItsLeaves) {
  std::vector<std::string> paths;
  for (const auto& path : tl::tree_structure(make_mlp()).leaf_paths())
    paths.push_back(path.to_string("params"));
  EXPECT_THAT(paths, ElementsAre("params.layers[0].w", "params.layers[0].b", "params.layers[1].w",
                                 "params.layers[1].b", "params.buffers[\"deviation\"]",
                                 "params.buffers[\"mean\"]", "params.head.w", "params.head.b",
                                 "params.pair[0]", "params.pair[1]"));
  const auto unnamed = tl::tree_structure(std::tuple{std::map<std::string, Dense>{{"d", {1, 2}}}});
  EXPECT_EQ(unnamed.leaf_paths()[1].to_string(), "[0][\"d\"].bias");
}

TEST(TreeKey, HasNoBytesForFixedStructures) {
  static_assert(tl::detail::has_fixed_structure<Linear>);
  static_assert(tl::detail::has_fixed_structure<std::tuple<Linear, std::array<Array, 2>>>);
  static_assert(tl::detail::has_fixed_structure<Dense>);
  static_assert(!tl::detail::has_fixed_structure<Layer>);
  static_assert(!tl::detail::has_fixed_structure<std::vector<Array>>);
  static_assert(!tl::detail::has_fixed_structure<std::tuple<Array, int>>);
  EXPECT_EQ(static_bytes(std::tuple{Linear{1, 2}, Array(3)}), "");
}

TEST(TreeKey, IsEqualExactlyWhenTheStructuresAre) {
  std::vector<Mlp> variants(10, make_mlp());
  variants[1].layers.pop_back();
  variants[2].layers[0].activation = Activation::tanh;
  variants[3].buffers.erase("mean");
  variants[4].buffers = {{"mean", 5.0}, {"devi", 6.0}};
  variants[5].dropout = -0.0;
  variants[6].head.reset();
  variants[7].sizes = {1};
  variants[8].sizes = {1, 3};
  variants[9].layers[0].w = Array(100.0);  // a leaf: same structure as variant 0
  for (const Mlp& a : variants) {
    for (const Mlp& b : variants) {
      EXPECT_EQ(static_bytes(a) == static_bytes(b), tl::tree_structure(a) == tl::tree_structure(b))
          << tl::tree_structure(a).to_string() << "\n"
          << tl::tree_structure(b).to_string();
    }
  }
  EXPECT_EQ(static_bytes(variants[0]), static_bytes(variants[9]));
  EXPECT_NE(static_bytes(variants[0]), static_bytes(variants[5]));
}

TEST(TreeMap, KeepsTypeSizesAndStatics) {
  const Mlp mlp = make_mlp();
  const Mlp sum = tl::tree_map(
      [](Array a, Array b, Array c) {
        return Array(a.item<double>() + 10 * b.item<double>() + 100 * c.item<double>());
      },
      mlp, mlp, mlp);
  EXPECT_EQ(sum.head->b.item<double>(), 888);
  EXPECT_EQ(sum.dropout, 0.1);
  const auto pair = tl::tree_map([](const Array& a) { return a; }, std::pair{Array(1), 2});
  static_assert(std::is_same_v<decltype(pair), const std::pair<Array, int>>);
  EXPECT_EQ(pair.second, 2);
}

TEST(Tree, ErrorsShowTheUsersLine) {
  const Mlp mlp = make_mlp();
  const Arrays three{1, 2, 3};
  const std::vector<std::pair<Array, Array>> none;
  const auto add = [](Array a, Array b) { return a.item<double>() + b.item<double>(); };
  const auto line_of = [](const auto& f) {
    return telamon_test::error_of<tl::Error>([&] { (void)f(); });
  };
  const auto here = [](int line) { return HasSubstr("tree_test.cpp:" + std::to_string(line)); };
  EXPECT_THAT(line_of([&] { return tl::tree_map(add, mlp, three); }), here(__LINE__));
  EXPECT_THAT(line_of([&] { return tl::tree_unflatten(mlp, three); }), here(__LINE__));
  const auto wrong = [&] { return tl::tree_unflatten<Linear>(tl::tree_structure(mlp), three); };
  EXPECT_THAT(line_of(wrong), here(__LINE__ - 1));
  EXPECT_THAT(line_of([&] { return tl::tree_reduce(add, none); }), here(__LINE__));
  EXPECT_THAT(line_of([&] { return tl::tree_reduce(add, Array(), Array(1)); }), here(__LINE__));
  EXPECT_THAT(line_of([&] { return tl::tree_transpose(none); }), here(__LINE__));
  const tl::TreeDef list = tl::tree_structure(three);
  EXPECT_THAT(line_of([&] { return tl::tree_transpose(list, list, three); }), here(__LINE__));
  EXPECT_THAT(line_of([&] { return tl::tree_leaves(Array()); }), here(__LINE__));
  EXPECT_THAT(line_of([&] { return tl::tree_flatten(Array()); }), here(__LINE__));
}

TEST(TreeMap, NamesTheFirstPlaceWhereStructuresDiffer) {
  const auto first = [](Array a, Array) { return a; };
  Mlp a = make_mlp(), b = make_mlp();
  b.layers[1].activation = Activation::relu;
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_map(first, a, b); }),
              HasSubstr("tree_map: tree structures differ at layers[1].activation: tanh vs relu"));
  b = make_mlp();
  b.layers.pop_back();
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_map(first, a, b); }),
              HasSubstr("differ at layers: [Layer{w=*, b=*, activation=relu}, "
                        "Layer{w=*, b=*, activation=tanh}] vs [Layer{w=*, b=*, activation=relu}]"));
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_map(first, a, b); }),
              HasSubstr("\n  second: Mlp{layers=["));
  EXPECT_THAT(
      message_of<tl::TypeError>([&] { tl::tree_map(first, Array(1), std::tuple{Array(1)}); }),
      HasSubstr("tree structures differ: * vs (*,)"));
}

TEST(TreeMapWithPath, PassesPathsThatConvertToStrings) {
  std::vector<std::string> seen;
  const auto same = tl::tree_map_with_path(
      [&](const std::string& path, Array a) {
        seen.push_back(path);
        return a;
      },
      std::pair{Linear{1, 2}, std::map<std::string, Array>{{"k", 3}}});
  EXPECT_THAT(seen, ElementsAre("[0].w", "[0].b", "[1][\"k\"]"));
  EXPECT_EQ(same.second.at("k").item<int>(), 3);
}

TEST(TreeReduce, FoldsLeavesInOrder) {
  const auto digits = [](int acc, const Array& a) { return 10 * acc + a.item<int>(); };
  EXPECT_EQ(tl::tree_reduce(digits, std::tuple{Array(1), Linear{2, 3}}, 0), 123);
  const auto last = [](const Array&, const Array& b) { return b; };
  EXPECT_EQ(tl::tree_reduce(last, Linear{2, 3}).item<int>(), 3);
  EXPECT_THROW(tl::tree_reduce(last, std::tuple{1}), tl::ValueError);
}

TEST(TreeTranspose, TurnsContainersInsideOut) {
  const auto pair =
      tl::tree_transpose(std::vector{std::pair{Array(1), Array(2)}, std::pair{Array(3), Array(4)}});
  static_assert(std::is_same_v<decltype(pair), const std::pair<Arrays, Arrays>>);
  EXPECT_THAT(values(pair.first), ElementsAre(1, 3));
  EXPECT_THAT(values(pair.second), ElementsAre(2, 4));

  const auto back = tl::tree_transpose(pair);
  static_assert(std::is_same_v<decltype(back), const std::vector<std::pair<Array, Array>>>);
  EXPECT_EQ(back[1].first.item<int>(), 3);

  using Map = std::map<std::string, std::optional<Array>>;
  const auto map =
      tl::tree_transpose(std::array{Map{{"a", 1}, {"b", {}}}, Map{{"a", 2}, {"b", {}}}});
  EXPECT_EQ((*map.at("a"))[1].item<int>(), 2);
  EXPECT_FALSE(map.at("b").has_value());
}

TEST(TreeTranspose, GivesStructTemplatesAnotherLeafType) {
  const auto t = tl::tree_transpose(std::tuple{Generic<Array>{1, 2}, Generic<Array>{3, 4}});
  static_assert(std::is_same_v<decltype(t), const Generic<std::tuple<Array, Array>>>);
  EXPECT_EQ(std::get<1>(t.w).item<int>(), 3);
  EXPECT_EQ(t.n, 3);
}

TEST(TreeTranspose, NeedsEqualInnerStructures) {
  const std::vector<std::vector<Array>> ragged{{1, 2}, {3}};
  EXPECT_THAT(message_of<tl::TypeError>([&] { tl::tree_transpose(ragged); }),
              HasSubstr("[*, *] vs [*]"));
  EXPECT_THROW(tl::tree_transpose(std::vector<std::pair<Array, Array>>{}), tl::ValueError);
}

TEST(TreeTranspose, OfFlatLeavesFollowsTheTreedefs) {
  const auto outer = tl::tree_structure(std::vector<Array>{1, 2, 3});
  const auto inner = tl::tree_structure(Linear{1, 2});
  const Arrays leaves{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(values(tl::tree_transpose(outer, inner, leaves)), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THROW(tl::tree_transpose(inner, inner, leaves), tl::TypeError);
}

TEST(TreeEqual, ComparesStructureTypesAndValues) {
  EXPECT_TRUE(tl::tree_equal(make_mlp(), make_mlp()));
  EXPECT_FALSE(tl::tree_equal(Linear{1.0, 2.0}, Linear{1.0, 3.0}));
  EXPECT_FALSE(tl::tree_equal(Linear{1.0, 2.0}, Linear{1.0f, 2.0}));
  EXPECT_FALSE(tl::tree_equal(std::tuple{Array(1), 2}, std::tuple{Array(1), 3}));
  EXPECT_TRUE(tl::tree_equal(Array({1, 2}), Array({1, 2})));
  EXPECT_FALSE(tl::tree_equal(Array({1, 2}), Array(std::vector<int>{1, 2}, {1, 2})));
  EXPECT_FALSE(tl::tree_equal(Array(NAN), Array(NAN)));
  EXPECT_TRUE(tl::tree_equal(Array({true, false}), Array({true, false})));
}

TEST(TreeStatic, WrapperKeepsOneValueStatic) {
  const auto wrapped = tl::tree_structure(std::tuple{Array(1), tl::static_(3)});
  EXPECT_EQ(wrapped.to_string(), "(*, 3)");
  EXPECT_EQ(wrapped, tl::tree_structure(std::tuple{Array(1), 3}));
  EXPECT_EQ(static_cast<int>(tl::static_(3)), 3);
}

TEST(TreeStatic, OpaqueValuesCountByIdentity) {
  using Callback = tl::Opaque<std::function<int()>>;
  static_assert(!tl::Pytree<std::function<int()>> && !tl::Pytree<std::shared_ptr<int>>);
  static_assert(tl::Pytree<Callback> && tl::Pytree<Array (*)(Array)>);
  const Callback one = std::function<int()>([] { return 1; });
  const Callback other = std::function<int()>([] { return 1; });
  const auto tree = [](const Callback& c) { return std::tuple{Array(1), c}; };
  EXPECT_EQ(static_bytes(tree(one)), static_bytes(tree(one)));
  EXPECT_NE(static_bytes(tree(one)), static_bytes(tree(other)));
  EXPECT_EQ(tl::tree_structure(tree(one)), tl::tree_structure(tree(one)));
  EXPECT_FALSE(tl::tree_structure(tree(one)) == tl::tree_structure(tree(other)));
  EXPECT_EQ(tl::tree_structure(tree(one)).to_string(), "(*, <opaque>)");
}

TEST(TreeOptIn, TiesClassesWithPrivateMembersOrWithoutDefault) {
  const Dense d = tl::tree_map([](Array a) { return Array(-a.item<double>()); }, Dense(1, 2));
  EXPECT_THAT(values(tl::tree_leaves(d)), ElementsAre(-1, -2));
  Unnamed u(0);
  u.a = 1;
  u.b = 2;
  EXPECT_THAT(values(tl::tree_leaves(tl::tree_unflatten(u, Arrays{3, 4}))), ElementsAre(3, 4));
  EXPECT_EQ(tl::tree_structure(u).leaf_paths()[1].to_string("u"), "u[1]");
}

// ---- depth -------------------------------------------------------------------------------------
Branching nested(int depth) {
  Branching tree{Array(0.0), {}};
  for (int i = 1; i < depth; ++i) {
    Branching outer{Array(static_cast<double>(i)), {}};
    outer.children.push_back(std::move(tree));
    tree = std::move(outer);
  }
  return tree;
}

/// f on a thread with so little stack.
void with_stack(std::size_t bytes, std::function<void()> f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* function) -> void* {
    (*static_cast<std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &f), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(TreeDepth, IsThatOfTheStack) {
  static constexpr int kDepth = tl::detail::kMaxTreeDepth;
  with_stack(std::size_t{1} << 20, [] {
    const Branching tree = nested(kDepth);
    const auto [leaves, structure] = tl::tree_flatten(tree);
    EXPECT_EQ(leaves.size(), static_cast<std::size_t>(kDepth));
    EXPECT_EQ(structure.leaf_paths().size(), leaves.size());
    EXPECT_GT(structure.to_string().size(), leaves.size());
    EXPECT_TRUE(structure == tl::tree_structure(tl::tree_unflatten<Branching>(structure, leaves)));
    const Branching more =
        tl::tree_map([](const Array& x) { return Array(x.item<double>() + 1); }, tree);
    EXPECT_EQ(more.value.item<double>(), kDepth);
  });
}

TEST(TreeDepth, BeyondThatIsAnError) {
  const Branching tree = nested(tl::detail::kMaxTreeDepth + 1);
  const std::vector<std::function<void()>> calls = {
      [&] { (void)tl::tree_leaves(tree); }, [&] { (void)tl::tree_structure(tree); },
      [&] { (void)tl::tree_map([](const Array& x) { return x; }, tree); }};
  for (const auto& call : calls) {
    EXPECT_THAT(message_of<tl::RecursionError>(call),
                HasSubstr("a tree holds more than 1000 Branching, one within the other"));
  }
  // Beside each other there may be as many as there are.
  Branching wide{Array(0.0), std::vector<Branching>(3000, {Array(1.0), {}})};
  EXPECT_EQ(tl::tree_leaves(wide).size(), 3001u);
}
