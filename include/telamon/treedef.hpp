// TreeDef and KeyPath: the structure of a pytree as a value, and the place of a leaf in it.
//
//   struct Linear { Array w, b; };
//   tree_structure(std::pair{Linear{w, b}, std::vector{x, y}}).to_string()
//       == "(Linear{w=*, b=*}, [*, *])"
//
// `*` stands for an Array leaf. Static values (numbers, strings, ...) are part of the structure and
// print as themselves.
#pragma once

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/detail/value.hpp"

namespace telamon {
inline namespace v1 {

/// Where a leaf is: "layers[2].w", "[0][\"bias\"]".
class TELAMON_API KeyPath {
 public:
  enum class Kind : std::uint8_t { index, key, member };
  struct Entry {
    Kind kind;
    std::size_t index = 0;  ///< into a tuple, array or vector
    std::string name = {};  ///< the key of a map or the name of a member
    bool operator==(const Entry&) const = default;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const KeyPath&) const = default;
  /// The path behind the name of its root: to_string("params") == "params.layers[2].w".
  std::string to_string(std::string_view root = {}) const;
  operator std::string() const { return to_string(); }

  void push_index(std::size_t index) { entries_.push_back({Kind::index, index}); }
  void push_key(std::string_view key) { entries_.push_back({Kind::key, 0, std::string(key)}); }
  void push_member(std::string_view name) {
    entries_.push_back({Kind::member, 0, std::string(name)});
  }
  void pop() { entries_.pop_back(); }

 private:
  std::vector<Entry> entries_;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const KeyPath& path);

enum class TreeKind : std::uint8_t {
  leaf,       ///< an Array
  value,      ///< a static value, containers without Arrays included
  tuple,      ///< std::tuple, std::pair
  list,       ///< std::vector, std::array
  dict,       ///< std::map<std::string, T>
  optional,   ///< std::optional: no child or one
  structure,  ///< an aggregate
  custom      ///< a class with a Tree<T>
};

namespace detail {

/// A static value in a TreeDef, erased.
class TELAMON_API StaticValue {
 public:
  virtual ~StaticValue();
  virtual const std::type_info& type() const = 0;
  virtual bool equals(const StaticValue& o) const = 0;
  virtual std::size_t hash() const = 0;
  virtual std::string text() const = 0;
};

template <class T>
class StaticHolder final : public StaticValue {
 public:
  explicit StaticHolder(T v) : value(std::move(v)) {}
  const std::type_info& type() const override { return typeid(T); }
  bool equals(const StaticValue& o) const override {
    return o.type() == typeid(T) && value_equal(value, static_cast<const StaticHolder&>(o).value);
  }
  std::size_t hash() const override { return value_hash(value); }
  std::string text() const override {
    std::string out;
    append_value(out, value);
    return out;
  }
  const T value;
};

struct TreeNode;
class TreeDefBuilder;

}  // namespace detail

/// The structure of a pytree: an immutable value, cheap to copy.
class TELAMON_API TreeDef {
 public:
  TreeDef();  ///< a single leaf
  TreeKind kind() const;
  std::size_t num_leaves() const;
  const std::vector<TreeDef>& children() const;
  const std::vector<std::string>& keys() const;  ///< map keys or member names, one per child
  const detail::StaticValue* value() const;      ///< of TreeKind::value
  const std::type_info* type() const;            ///< of structures and custom nodes

  bool operator==(const TreeDef& o) const;
  std::size_t hash() const;
  std::string to_string() const;
  /// The paths of all leaves, in order.
  std::vector<KeyPath> leaf_paths() const;

 private:
  friend class detail::TreeDefBuilder;
  explicit TreeDef(std::shared_ptr<const detail::TreeNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const detail::TreeNode> node_;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const TreeDef& tree);

namespace detail {

/// Builds a TreeDef in the order of a walk: open, then for each child its key and its node, close.
class TELAMON_API TreeDefBuilder {
 public:
  TreeDefBuilder();
  ~TreeDefBuilder();
  void leaf();
  void value(std::shared_ptr<const StaticValue> value);
  void open(TreeKind kind, const std::type_info* type);  ///< type: of structures and custom nodes
  void key(std::string_view name);  ///< of the next child; only dicts, structures, named customs
  void close();
  TreeDef finish();

 private:
  void add(TreeDef node);
  std::vector<TreeNode> open_;
  std::vector<TreeDef> done_;
};

/// Appends `entry`-th child's key of `parent` to the path.
TELAMON_API void push_child(KeyPath& path, const TreeDef& parent, std::size_t child);

/// "at layers[1].b: * vs None", naming the first place where two structures differ, and both.
TELAMON_API std::string describe_difference(const TreeDef& a, const TreeDef& b);
[[noreturn]] TELAMON_API void structures_differ(std::string_view operation, const TreeDef& a,
                                                const TreeDef& b);
[[noreturn]] TELAMON_API void wrong_leaf_count(std::string_view operation, const TreeDef& tree,
                                               std::size_t given);
/// What a tree is to the function that was given it, for errors: the argument of a number, or of a name
/// ("" where there is no other).
struct TreeName {
  TreeName(const char* its_name = "") : name(its_name) {}
  template <std::unsigned_integral N>
  TreeName(N its_number) : number(its_number) {}
  std::string to_string() const {
    return number ? "args[" + std::to_string(*number) + "]" : std::string(name);
  }
  const char* name = "";
  std::optional<std::size_t> number = {};
};
/// TypeError of an empty handle in a tree.
[[noreturn]] TELAMON_API void empty_leaf(std::string_view operation, const TreeDef& tree,
                                         std::size_t leaf, TreeName name);
[[noreturn]] TELAMON_API void wrong_treedef(const TreeDef& tree, const TreeDef& part,
                                            std::string_view wanted);

}  // namespace detail

}  // namespace v1
}  // namespace telamon
