// Rebuilding a C++ value from a TreeDef: container sizes, keys and static values come from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "telamon/detail/tree_walk.hpp"
#include "telamon/treedef.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct CountVisitor : TreeVisitor {
  void leaf(const Array& a) {
    if (first_empty == leaves && a.has_value()) ++first_empty;
    ++leaves;
  }
  std::size_t leaves = 0;
  std::size_t first_empty = 0;  // leaf without a value; `leaves` where all have one
};

struct TreeRestorer {
  const TreeDef& whole;
  const Array*& next;

  void expect(bool fits, const TreeDef& def, std::string_view wanted) const {
    if (!fits) wrong_treedef(whole, def, wanted);
  }

  template <class T>
  void restore_value(T& t, const TreeDef& def) const {
    if constexpr (is_static_wrapper<T>) {
      restore_value(t.value, def);
    } else {
      using Held = std::conditional_t<std::is_same_v<T, std::string_view>, std::string, T>;
      const auto* held = dynamic_cast<const StaticHolder<Held>*>(def.value());
      expect(held != nullptr, def, "a static value of type " + type_name(typeid(T).name()));
      t = held->value;
    }
  }

  template <class T>
  void restore(T& t, const TreeDef& def) const {
    constexpr TreeKind kind = tree_kind<T>();
    if constexpr (kind == TreeKind::leaf) {
      expect(def.kind() == kind, def, "an Array");
      t = *next++;
    } else if constexpr (kind == TreeKind::value) {
      restore_value(t, def);
    } else if constexpr (kind == TreeKind::list) {
      if constexpr (is_vector<T>) {
        expect(def.kind() == kind, def, "a list");
        t.resize(def.children().size());
      } else {
        expect(def.kind() == kind && def.children().size() == t.size(), def,
               "a list of " + std::to_string(t.size()));
      }
      for (std::size_t i = 0; i < t.size(); ++i) restore(t[i], def.children()[i]);
    } else if constexpr (kind == TreeKind::dict) {
      expect(def.kind() == kind, def, "a map");
      t.clear();
      for (std::size_t i = 0; i < def.keys().size(); ++i)
        restore(t[def.keys()[i]], def.children()[i]);
    } else if constexpr (kind == TreeKind::optional) {
      expect(def.kind() == kind, def, "an optional");
      t.reset();
      if (!def.children().empty()) restore(t.emplace(), def.children()[0]);
    } else {
      restore_parts(t, def);
    }
  }

  template <class T>
  void restore_parts(T& t, const TreeDef& def) const {
    constexpr TreeKind kind = tree_kind<T>();
    std::size_t i = 0;
    const auto each = [&](auto&... parts) {
      expect(def.kind() == kind && def.children().size() == sizeof...(parts), def,
             kind == TreeKind::tuple ? "a tuple of " + std::to_string(sizeof...(parts))
                                     : type_name(typeid(T).name()));
      (restore(parts, def.children()[i++]), ...);
    };
    if constexpr (kind == TreeKind::structure) with_fields(t, each);
    else if constexpr (HasTie<T>) std::apply(each, Tree<T>::tie(t));
    else std::apply(each, t);
  }
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
