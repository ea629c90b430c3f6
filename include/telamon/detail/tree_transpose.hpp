// tree_transpose on C++ types: the leaf type of the inner tree becomes the outer container.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/tree.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The outer container with its elements replaced by Arrays, and their type.
template <class Outer>
struct OuterType;
template <class T, class A>
struct OuterType<std::vector<T, A>> {
  using inner = T;
  using arrays = std::vector<Array>;
};
template <class T, std::size_t N>
struct OuterType<std::array<T, N>> {
  using inner = T;
  using arrays = std::array<Array, N>;
};
template <class First, class... Rest>
struct OuterType<std::tuple<First, Rest...>> {
  static_assert((std::is_same_v<First, Rest> && ...), "tree_transpose needs elements of one type");
  template <class>
  using ArrayFor = Array;
  using inner = First;
  using arrays = std::tuple<Array, ArrayFor<Rest>...>;
};
template <class T>
struct OuterType<std::pair<T, T>> {
  using inner = T;
  using arrays = std::pair<Array, Array>;
};

/// T with Leaf in the place of Array.
template <class T, class Leaf>
struct ReplaceLeaf;
template <class T, class Leaf>
using WithLeaf =
    std::conditional_t<holds_array<T>(), ReplaceLeaf<T, Leaf>, std::type_identity<T>>::type;
template <class T, class Leaf>
struct ReplaceLeaf {
  static_assert(kUnsupported<T>,
                "tree_transpose cannot give the members of this struct another type: use a tuple "
                "or map, or make the struct a template over its leaf type");
};
template <class Leaf>
struct ReplaceLeaf<Array, Leaf> {
  using type = Leaf;
};
template <template <class...> class P, class... Args, class Leaf>
  requires(!is_vector<P<Args...>> && !is_string_map<P<Args...>>)
struct ReplaceLeaf<P<Args...>, Leaf> {
  using type = P<WithLeaf<Args, Leaf>...>;
};
template <class T, class Leaf>
  requires is_vector<T>
struct ReplaceLeaf<T, Leaf> {
  using type = std::vector<WithLeaf<typename T::value_type, Leaf>>;
};
template <class T, class Leaf>
  requires is_string_map<T>
struct ReplaceLeaf<T, Leaf> {
  using type = std::map<std::string, WithLeaf<typename T::mapped_type, Leaf>>;
};
template <class T, std::size_t N, class Leaf>
struct ReplaceLeaf<std::array<T, N>, Leaf> {
  using type = std::array<WithLeaf<T, Leaf>, N>;
};

/// Copies the structure of `from` to `to`, which has other leaves; leaf(x) sets each in turn.
template <class From, class To, class Leaf>
void copy_structure(const From& from, To& to, Leaf& leaf) {
  constexpr TreeKind kind = tree_kind<From>();
  if constexpr (kind == TreeKind::leaf) {
    leaf(to);
  } else if constexpr (kind == TreeKind::value) {
    to = from;
  } else if constexpr (kind == TreeKind::list) {
    if constexpr (is_vector<To>) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) copy_structure(from[i], to[i], leaf);
  } else if constexpr (kind == TreeKind::dict) {
    for (const auto& [name, child] : from) copy_structure(child, to[name], leaf);
  } else if constexpr (kind == TreeKind::optional) {
    if (from) copy_structure(*from, to.emplace(), leaf);
  } else {
    const auto parts = [](auto& t) {
      if constexpr (kind == TreeKind::structure) return tie_fields(t);
      else return std::apply([](auto&... x) { return std::tie(x...); }, t);
    };
    auto from_parts = parts(from);
    auto to_parts = parts(to);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (copy_structure(std::get<I>(from_parts), std::get<I>(to_parts), leaf), ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(from_parts)>>{});
  }
}

template <class Outer>
auto transpose_tree(const Outer& t) {
  using Inner = typename OuterType<Outer>::inner;
  using Column = typename OuterType<Outer>::arrays;
  check_no_empty_leaf(t, "tree_transpose");
  WithLeaf<Inner, Column> result{};
  std::vector<Arrays> rows;
  const Inner* first = nullptr;
  const auto add_row = [&](const Inner& inner) {
    if (first) check_same_structure("tree_transpose", *first, inner);
    else first = &inner;
    rows.push_back(tree_leaves(inner, {}));
  };
  if constexpr (is_tuple<Outer>) std::apply([&](const auto&... x) { (add_row(x), ...); }, t);
  else
    for (const Inner& inner : t) add_row(inner);
  if (!first) {
    if constexpr (is_vector<Outer>)
      throw ValueError(
          "tree_transpose: an empty vector does not tell the structure of its elements");
    return result;
  }
  std::size_t column = 0;
  auto set_leaf = [&](Column& out) {
    if constexpr (is_vector<Column>) {
      for (const Arrays& row : rows) out.push_back(row[column]);
    } else {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((std::get<I>(out) = rows[I][column]), ...);
      }(std::make_index_sequence<std::tuple_size_v<Column>>{});
    }
    ++column;
  };
  copy_structure(*first, result, set_leaf);
  return result;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
