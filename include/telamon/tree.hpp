// Pytrees: nested C++ values with Arrays at the leaves. Any aggregate is one, and tuples, pairs,
// arrays, vectors, maps by string and optionals of pytrees; see Tree<T> for other classes.
//
//   struct Linear { Array w, b; };
//   struct Mlp { std::vector<Linear> layers; double dropout = 0; };
//   Mlp half = tl::tree_map([](Array x) { return 0.5 * x; }, mlp);
//
// C++ types decide what is traced: Arrays are; numbers, bools, enums and strings (and containers of
// nothing else) are static. They belong to the structure, which is part of cache keys.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/detail/function.hpp"
#include "telamon/detail/key.hpp"
#include "telamon/detail/located.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/tree_restore.hpp"
#include "telamon/detail/tree_walk.hpp"
#include "telamon/error.hpp"
#include "telamon/treedef.hpp"

namespace telamon {
inline namespace v1 {

/// A type that can be flattened into Arrays and rebuilt from them.
template <class T>
concept Pytree = detail::is_pytree<std::remove_cvref_t<T>>();

/// The structure of `t`, static values included.
template <class T>
TreeDef tree_structure(const T& t) {
  detail::TreeDefVisitor visitor;
  detail::walk_tree(t, visitor);
  return visitor.out.finish();
}

namespace detail {

/// Appends the leaves of `t`. A TypeError, which names the key path, when one is an empty handle; that
/// begins with the name of the tree, where it has one.
template <class T, class Out>
void flatten_into(const T& t, Out& out, std::string_view operation = "tree_flatten",
                  TreeName name = {}) {
  const std::size_t begin = out.size();
  FlattenVisitor visitor(out);
  walk_tree(t, visitor);
  if (visitor.complete) return;
  std::size_t leaf = 0;
  while (out[begin + leaf].has_value()) ++leaf;
  empty_leaf(operation, tree_structure(t), leaf, name);
}

/// The same TypeError of a tree whose leaves are not needed one after the other.
template <class T>
void check_no_empty_leaf(const T& t, std::string_view operation, TreeName name = {}) {
  CountVisitor visitor;
  walk_tree(t, visitor);
  if (visitor.first_empty < visitor.leaves)
    empty_leaf(operation, tree_structure(t), visitor.first_empty, name);
}

/// Appends what the type of `t` does not say of its structure: container sizes, keys, which
/// optionals are engaged, static values. Two values of one type have equal treedefs exactly when
/// these bytes are equal; for a has_fixed_structure<T> there are none.
template <class T>
void hash_static(const T& t, KeyBuilder& key) {
  if constexpr (!has_fixed_structure<T>) {
    KeyVisitor visitor(key);
    walk_tree(t, visitor);
  }
}

/// A TypeError naming the key path unless both trees have one structure. Their types may differ
/// where their treedefs do not (a pair and a tuple).
template <class A, class B>
void check_same_structure(std::string_view operation, const A& a, const B& b) {
  if constexpr (std::is_same_v<A, B>) {
    if constexpr (has_fixed_structure<A>) return;
    KeyBuilder key_a, key_b;
    hash_static(a, key_a);
    hash_static(b, key_b);
    if (key_a == key_b) return;
  }
  const TreeDef def_a = tree_structure(a), def_b = tree_structure(b);
  if (!(def_a == def_b)) structures_differ(operation, def_a, def_b);
}

template <class Outer>
auto transpose_tree(const Outer& t);

struct TreeMap {
  template <class F, class T, class... Rest>
  static T call(SourceLocation where, F f, const T& t, const Rest&... rest) {
    return in_function("tree_map", where, [&] {
      if (is_null_function(f)) null_function_error();
      (check_same_structure("tree_map", t, rest), ...);
      Arrays leaves[1 + sizeof...(Rest)];
      Arrays* next_tree = leaves;
      std::size_t number = 0;
      const auto flatten = [&](const auto& tree) {
        flatten_into(tree, *next_tree++, "tree_map", sizeof...(Rest) ? TreeName(number++) : "");
      };
      flatten(t);
      (flatten(rest), ...);
      const std::size_t n = leaves[0].size();
      for (std::size_t i = 0; i < n; ++i) {
        leaves[0][i] = [&]<std::size_t... K>(std::index_sequence<K...>) -> Array {
          return f(std::as_const(leaves[0][i]), std::as_const(leaves[K + 1][i])...);
        }(std::make_index_sequence<sizeof...(Rest)>{});
      }
      T result = t;
      AssignVisitor visitor(leaves[0].data());
      walk_tree(result, visitor);
      check_no_empty_leaf(result, "the function of tree_map");
      return result;
    });
  }
};

/// Whether dtype, shape and every element are equal (so a nan equals nothing).
TELAMON_API bool arrays_equal(const Array& a, const Array& b);

}  // namespace detail

/// The Arrays of `t` in order: members and elements as they stand, maps by key.
template <class T>
Arrays tree_leaves(const T& t, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_leaves", where, [&] {
    Arrays leaves;
    detail::flatten_into(t, leaves, "tree_leaves");
    return leaves;
  });
}

/// The Arrays and the structure of `t`.
template <class T>
std::pair<Arrays, TreeDef> tree_flatten(const T& t,
                                        SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_flatten", where, [&]() -> std::pair<Arrays, TreeDef> {
    Arrays leaves;
    detail::flatten_into(t, leaves);
    return {std::move(leaves), tree_structure(t)};
  });
}

/// A tree like `prototype` (sizes, static values) with these leaves.
template <class T>
  requires(!std::is_same_v<T, TreeDef>)
T tree_unflatten(const T& prototype, std::span<const Array> leaves,
                 SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_unflatten", where, [&] {
    T result = prototype;
    detail::CountVisitor count;
    detail::walk_tree(prototype, count);
    if (count.leaves != leaves.size())
      detail::wrong_leaf_count("tree_unflatten", tree_structure(prototype), leaves.size());
    detail::AssignVisitor visitor(leaves.data());
    detail::walk_tree(result, visitor);
    return result;
  });
}

/// The T that a structure describes, with these leaves. A TypeError when it describes no T.
template <class T>
T tree_unflatten(const TreeDef& structure, std::span<const Array> leaves,
                 SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_unflatten", where, [&] {
    static_assert(std::is_default_constructible_v<T>,
                  "tree_unflatten from a TreeDef needs a default-constructible type: give a "
                  "prototype instead");
    if (structure.num_leaves() != leaves.size())
      detail::wrong_leaf_count("tree_unflatten", structure, leaves.size());
    T result{};
    const Array* next = leaves.data();
    detail::TreeRestorer{structure, next}.restore(result, structure);
    return result;
  });
}

/// Applies f(leaf, leaf of each of `rest`...) to all leaves; the result has the type of `t`, its
/// sizes and its static values. All trees must have one structure. A TypeError where f gives an empty Array.
inline constexpr detail::Located<detail::TreeMap> tree_map{};

/// tree_map with f(path, leaf); the path is a KeyPath, which converts to std::string.
template <class F, class T>
T tree_map_with_path(F&& f, const T& t, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_map_with_path", where, [&] {
    if (detail::is_null_function(f)) detail::null_function_error();
    detail::check_no_empty_leaf(t, "tree_map_with_path");
    T result = t;
    detail::PathVisitor<F> visitor(f);
    detail::walk_tree(result, visitor);
    detail::check_no_empty_leaf(result, "the function of tree_map_with_path");
    return result;
  });
}

/// f(... f(f(init, leaf 0), leaf 1) ..., last leaf).
template <class F, class T, class Init>
Init tree_reduce(F&& f, const T& t, Init init, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_reduce", where, [&] {
    if (detail::is_null_function(f)) detail::null_function_error();
    Arrays leaves;
    detail::flatten_into(t, leaves, "tree_reduce");
    for (const Array& leaf : leaves) init = f(std::move(init), std::as_const(leaf));
    return Init(std::move(init));
  });
}

/// The same, starting with the first leaf. A ValueError when there is none.
template <class F, class T>
Array tree_reduce(F&& f, const T& t, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_reduce", where, [&] {
    if (detail::is_null_function(f)) detail::null_function_error();
    Arrays leaves;
    detail::flatten_into(t, leaves, "tree_reduce");
    if (leaves.empty())
      throw ValueError("tree_reduce: a tree without leaves needs an initial value");
    Array result = leaves[0];
    for (std::size_t i = 1; i < leaves.size(); ++i)
      result = f(std::as_const(result), std::as_const(leaves[i]));
    return result;
  });
}

/// Whether both trees have one structure and all leaves the same dtype, shape and elements.
template <class A, class B>
bool tree_equal(const A& a, const B& b, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_equal", where, [&] {
    Arrays leaves_a, leaves_b;
    detail::flatten_into(a, leaves_a, "tree_equal", 0u);
    detail::flatten_into(b, leaves_b, "tree_equal", 1u);
    if (!(tree_structure(a) == tree_structure(b))) return false;
    for (std::size_t i = 0; i < leaves_a.size(); ++i)
      if (!detail::arrays_equal(leaves_a[i], leaves_b[i])) return false;
    return true;
  });
}

/// Turns a container of equal trees inside out: a vector of pairs becomes a pair of vectors, a
/// tuple of maps a map of tuples. `t` is a tuple, pair, std::array or std::vector of one tree type
/// each. The inner tree may be built of tuples, arrays, vectors, maps and optionals, and of
/// aggregate templates over their leaf type (`template <class A> struct Linear { A w, b; }`),
/// because its leaf type changes. A TypeError when the inner structures differ.
template <class Outer>
auto tree_transpose(const Outer& t, SourceLocation where = SourceLocation::current()) {
  return detail::in_function("tree_transpose", where, [&] {
    return detail::transpose_tree(t);  // in detail/tree_transpose.hpp, included below
  });
}

/// The same for flat leaves, as in jax.tree.transpose: from outer-major to inner-major order.
TELAMON_API Arrays tree_transpose(const TreeDef& outer, const TreeDef& inner,
                                  std::span<const Array> leaves,
                                  SourceLocation where = SourceLocation::current());

}  // namespace v1
}  // namespace telamon

#include "telamon/detail/tree_transpose.hpp"
