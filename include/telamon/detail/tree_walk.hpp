// What the nodes of a pytree are, by C++ type, and the one walk over them that flattening, mapping,
// cache keys and treedefs share.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "telamon/array.hpp"
#include "telamon/detail/key.hpp"
#include "telamon/detail/value.hpp"
#include "telamon/reflect.hpp"
#include "telamon/treedef.hpp"

namespace telamon {
inline namespace v1 {

/// Makes a class that is not an aggregate a pytree:
///   template <> struct tl::Tree<Dense> {
///     static auto tie(auto& d) { return std::tie(d.weights(), d.bias()); }  // Dense& or const
///     Dense& static constexpr std::array names{"weights", "bias"};                 // optional
///   };
template <class T>
struct Tree {};

/// One value that stays static where numbers would be traced: `f(x, tl::static_(3))`.
template <class T>
struct Static {
  T value;
  operator const T&() const { return value; }
};
template <class T>
Static<std::decay_t<T>> static_(T&& value) {
  return {std::forward<T>(value)};
}

namespace detail {

template <class T>
inline constexpr bool is_static_wrapper = false;
template <class T>
inline constexpr bool is_static_wrapper<Static<T>> = true;
template <class T>
concept HasTie = requires(T& t) { Tree<T>::tie(t); };
template <class T>
concept HasTreeNames = requires { Tree<T>::names; };
template <class T>
inline constexpr bool is_function_pointer =
    std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>;

/// How a node of type T is written, before asking whether it holds Arrays. `valid` is false for
/// types that are no pytrees.
struct NodeType {
  TreeKind kind;
  bool valid = true;
};

template <class T>
consteval NodeType node_type() {
  if constexpr (std::is_same_v<T, Array>) return {TreeKind::leaf};
  else if constexpr (HasTie<T>) return {TreeKind::custom};
  else if constexpr (is_static_wrapper<T>) return {TreeKind::value};
  else if constexpr (is_tuple<T>) return {TreeKind::tuple};
  else if constexpr (is_vector<T> || is_array<T>) return {TreeKind::list};
  else if constexpr (is_string_map<T>) return {TreeKind::dict};
  else if constexpr (is_optional<T>) return {TreeKind::optional};
  else if constexpr (std::is_integral_v<T> || std::is_same_v<T, float> ||
                     std::is_same_v<T, double> || std::is_enum_v<T> || IsString<T> ||
                     is_function_pointer<T> || HasIdentity<T>)
    return {TreeKind::value};
  else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) return {TreeKind::structure};
  else return {TreeKind::value, false};
}

template <class T>
using Bare = std::remove_cvref_t<T>;

/// The children's types of a tuple, structure or custom node.
template <class T>
struct PartTypes {
  using type = decltype(tie_fields(std::declval<T&>()));
};
template <HasTie T>
struct PartTypes<T> {
  using type = decltype(Tree<T>::tie(std::declval<T&>()));
};
template <class... T>
struct PartTypes<std::tuple<T...>> {
  using type = std::tuple<T...>;
};
template <class A, class B>
struct PartTypes<std::pair<A, B>> {
  using type = std::tuple<A, B>;
};

/// Whether `ask` holds for some (`Any`) or all types of the children.
template <bool Any, class Ask, class... T>
consteval bool over_parts(std::type_identity<std::tuple<T...>>, Ask ask) {
  if constexpr (Any) return (ask(std::type_identity<Bare<T>>{}) || ...);
  else return (ask(std::type_identity<Bare<T>>{}) && ...);
}

/// Whether a T can hold an Array. `Seen` are the types under way: a struct may hold vectors of
/// itself.
template <class T, class... Seen>
consteval bool holds_array() {
  constexpr TreeKind kind = node_type<T>().kind;
  if constexpr ((std::is_same_v<T, Seen> || ...)) return false;
  else if constexpr (kind == TreeKind::leaf || kind == TreeKind::custom) return true;
  else if constexpr (kind == TreeKind::value) return false;
  else if constexpr (kind == TreeKind::list || kind == TreeKind::optional)
    return holds_array<typename T::value_type, T, Seen...>();
  else if constexpr (kind == TreeKind::dict)
    return holds_array<typename T::mapped_type, T, Seen...>();
  else
    return over_parts<true>(
        std::type_identity<typename PartTypes<T>::type>{},
        []<class U>(std::type_identity<U>) { return holds_array<U, T, Seen...>(); });
}

/// Whether every node of T is of a supported type.
template <class T, class... Seen>
consteval bool is_pytree() {
  constexpr NodeType node = node_type<T>();
  if constexpr ((std::is_same_v<T, Seen> || ...)) return true;
  else if constexpr (!node.valid) return false;
  else if constexpr (node.kind == TreeKind::leaf || node.kind == TreeKind::value) return true;
  else if constexpr (node.kind == TreeKind::list || node.kind == TreeKind::optional)
    return is_pytree<typename T::value_type, T, Seen...>();
  else if constexpr (node.kind == TreeKind::dict)
    return is_pytree<typename T::mapped_type, T, Seen...>();
  else
    return over_parts<false>(
        std::type_identity<typename PartTypes<T>::type>{},
        []<class U>(std::type_identity<U>) { return is_pytree<U, T, Seen...>(); });
}

/// The kind of node that values of type T are. A container or struct that cannot hold an Array is
/// one static value as a whole.
template <class T>
consteval TreeKind tree_kind() {
  constexpr NodeType node = node_type<T>();
  static_assert(node.valid,
                "not a pytree: use Array, a static value, a container of these, or an aggregate "
                "struct (tl::Opaque<T> makes anything a static value, by identity)");
  if constexpr (!node.valid || !holds_array<T>()) return TreeKind::value;
  else return node.kind;
}

/// Whether all values of type T have the same structure: then cache keys need no bytes of it.
template <class T>
consteval bool has_fixed_structure_of() {
  constexpr TreeKind kind = tree_kind<T>();
  if constexpr (kind == TreeKind::leaf) return true;
  else if constexpr (kind == TreeKind::value) return std::is_empty_v<T>;
  else if constexpr (kind == TreeKind::dict || kind == TreeKind::optional || is_vector<T>)
    return false;
  else if constexpr (is_array<T>) return has_fixed_structure_of<typename T::value_type>();
  else
    return over_parts<false>(
        std::type_identity<typename PartTypes<T>::type>{},
        []<class U>(std::type_identity<U>) { return has_fixed_structure_of<U>(); });
}
template <class T>
inline constexpr bool has_fixed_structure = has_fixed_structure_of<Bare<T>>();

/// Whether a value of type U may hold one of type T: a struct may hold vectors of itself.
template <class T, class U, class... Seen>
consteval bool may_hold() {
  constexpr TreeKind kind = node_type<U>().kind;
  const auto is_or_holds = []<class C>(std::type_identity<C>) {
    return std::is_same_v<T, C> || may_hold<T, C, U, Seen...>();
  };
  if constexpr ((std::is_same_v<U, Seen> || ...)) return false;
  else if constexpr (kind == TreeKind::leaf || kind == TreeKind::value) return false;
  else if constexpr (kind == TreeKind::list || kind == TreeKind::optional)
    return is_or_holds(std::type_identity<Bare<typename U::value_type>>{});
  else if constexpr (kind == TreeKind::dict)
    return is_or_holds(std::type_identity<Bare<typename U::mapped_type>>{});
  else return over_parts<true>(std::type_identity<typename PartTypes<U>::type>{}, is_or_holds);
}

/// Values of such types are as deep as they were made at run time.
template <class T>
inline constexpr bool nests_in_itself = may_hold<T, T>();

/// Each level takes some hundred bytes of the stack, for each of the functions that walk over a tree.
inline constexpr int kMaxTreeDepth = 1000;
/// RecursionError.
[[noreturn]] TELAMON_API void tree_too_deep(const std::type_info& type);

/// The hooks of a walk; a visitor hides those it needs.
struct TreeVisitor {
  int depth = 0;  // of structs within structs of the same type
  void leaf(const Array&) {}
  template <class T>
  void value(const T&) {}
  template <class T>
  void open(T&) {}                  // a container, before its children
  void close() {}                   // and after them
  void index(std::size_t) {}        // before a child of a tuple, list or unnamed custom node
  void key(std::string_view) {}     // before a child of a dict
  void member(std::string_view) {}  // before a child of a structure or named custom node
  void leave() {}                   // after such a child
};

template <class T, class V>
void walk_tree(T& t, V& v);

template <class T, class V>
void walk_parts(T& t, V& v) {
  using U = std::remove_const_t<T>;
  std::size_t i = 0;
  if constexpr (tree_kind<U>() == TreeKind::structure) {
    constexpr auto& names = field_names_of<U>;
    with_fields(t, [&](auto&... x) { ((v.member(names[i++]), walk_tree(x, v), v.leave()), ...); });
  } else if constexpr (HasTreeNames<U>) {
    std::apply(
        [&](auto&&... x) { ((v.member(Tree<U>::names[i++]), walk_tree(x, v), v.leave()), ...); },
        Tree<U>::tie(t));
  } else if constexpr (HasTie<U>) {
    std::apply([&](auto&&... x) { ((v.index(i++), walk_tree(x, v), v.leave()), ...); },
               Tree<U>::tie(t));
  } else {
    std::apply([&](auto&... x) { ((v.index(i++), walk_tree(x, v), v.leave()), ...); }, t);
  }
}

/// Visits all nodes of `t`, children in order: members and elements as they stand, maps by key.
template <class T, class V>
void walk_tree(T& t, V& v) {
  using U = std::remove_const_t<T>;
  constexpr TreeKind kind = tree_kind<U>();
  if constexpr (kind == TreeKind::leaf) {
    v.leaf(t);
  } else if constexpr (kind == TreeKind::value) {
    v.value(t);
  } else {
    v.open(t);
    if constexpr (kind == TreeKind::list) {
      for (std::size_t i = 0; i < t.size(); ++i) {
        v.index(i);
        walk_tree(t[i], v);
        v.leave();
      }
    } else if constexpr (kind == TreeKind::dict) {
      for (auto& [name, child] : t) {
        v.key(name);
        walk_tree(child, v);
        v.leave();
      }
    } else if constexpr (kind == TreeKind::optional) {
      if (t) walk_tree(*t, v);
    } else if constexpr (nests_in_itself<U>) {
      if (++v.depth > kMaxTreeDepth) tree_too_deep(typeid(U));
      walk_parts(t, v);
      --v.depth;
    } else {
      walk_parts(t, v);
    }
    v.close();
  }
}

template <class Out>
struct FlattenVisitor : TreeVisitor {
  explicit FlattenVisitor(Out& o) : out(o) {}
  template <class T>
  void open(const T& t) {
    if constexpr (std::is_same_v<T, Arrays> && requires { out.make_room(1); })
      out.make_room(t.size());
  }
  void leaf(const Array& a) {
    if (!a.has_value()) [[unlikely]]
      complete = false;
    out.push_back(a);
  }
  Out& out;
  bool complete = true;  // no empty handle so far
};

struct KeyVisitor : TreeVisitor {
  explicit KeyVisitor(KeyBuilder& k) : out(k) {}
  template <class T>
  void value(const T& v) {
    if constexpr (is_static_wrapper<T>) add_value(out, v.value);
    else add_value(out, v);
  }
  template <class T>
  void open(const T& t) {
    constexpr TreeKind kind = tree_kind<T>();
    if constexpr (kind == TreeKind::dict || is_vector<T>) out.add(t.size());
    else if constexpr (kind == TreeKind::optional) out.add(t.has_value());
  }
  void key(std::string_view name) { out.add_string(name); }
  KeyBuilder& out;
};

/// Static values are stored by value: views become strings, wrappers what they wrap.
template <class T>
std::shared_ptr<const StaticValue> hold_static(const T& v) {
  if constexpr (is_static_wrapper<T>) return hold_static(v.value);
  else if constexpr (std::is_same_v<T, std::string_view>)
    return std::make_shared<StaticHolder<std::string>>(std::string(v));
  else return std::make_shared<StaticHolder<T>>(v);
}

struct TreeDefVisitor : TreeVisitor {
  void leaf(const Array&) { out.leaf(); }
  template <class T>
  void value(const T& v) {
    out.value(hold_static(v));
  }
  template <class T>
  void open(const T&) {
    constexpr TreeKind kind = tree_kind<T>();
    constexpr bool typed = kind == TreeKind::structure || kind == TreeKind::custom;
    out.open(kind, typed ? &typeid(T) : nullptr);
  }
  void close() { out.close(); }
  void key(std::string_view name) { out.key(name); }
  void member(std::string_view name) { out.key(name); }
  TreeDefBuilder out;
};

struct AssignVisitor : TreeVisitor {
  explicit AssignVisitor(const Array* n) : next(n) {}
  void leaf(Array& a) { a = *next++; }
  const Array* next;
};

/// Moves the leaves in; those that were there are left in their places.
struct TakeVisitor : TreeVisitor {
  explicit TakeVisitor(Array* n) : next(n) {}
  void leaf(Array& a) { a.swap(*next++); }
  Array* next;
};

template <class F>
struct MapVisitor : TreeVisitor {
  explicit MapVisitor(F& g) : f(g) {}
  void leaf(Array& a) { a = f(std::as_const(a)); }
  F& f;
};

template <class F>
struct PathVisitor : TreeVisitor {
  explicit PathVisitor(F& g) : f(g) {}
  void leaf(Array& a) { a = f(std::as_const(path), std::as_const(a)); }
  // An optional adds nothing to the path, all others push before a child and pop after it.
  void index(std::size_t i) { path.push_index(i); }
  void key(std::string_view name) { path.push_key(name); }
  void member(std::string_view name) { path.push_member(name); }
  void leave() { path.pop(); }
  F& f;
  KeyPath path;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
