// TreeDef: nodes, equality, text, and the errors about structures that differ.
#include "telamon/treedef.hpp"

#include <optional>
#include <ostream>

#include "core/counted.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/detail/tree_walk.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct TreeNode {
  TreeKind kind = TreeKind::leaf;
  const std::type_info* type = nullptr;
  std::vector<TreeDef> children = {};
  std::vector<std::string> keys = {};
  std::shared_ptr<const StaticValue> value = {};
  std::size_t num_leaves = 1;
  std::size_t hash = 0;
};

StaticValue::~StaticValue() = default;

namespace {

bool same_type(const std::type_info* a, const std::type_info* b) {
  return a == b || (a && b && *a == *b);
}

std::size_t hash_of(const TreeNode& n) {
  std::size_t h = static_cast<std::size_t>(n.kind) + 1;
  if (n.type) h = combine_hash(h, n.type->hash_code());
  if (n.value) h = combine_hash(h, n.value->hash());
  for (const std::string& key : n.keys) h = combine_hash(h, hash_bytes(key));
  for (const TreeDef& child : n.children) h = combine_hash(h, child.hash());
  return h;
}

std::shared_ptr<const TreeNode> make_node(TreeNode n) {
  if (n.kind != TreeKind::leaf) {
    n.num_leaves = 0;
    for (const TreeDef& child : n.children) n.num_leaves += child.num_leaves();
  }
  n.hash = hash_of(n);
  return std::make_shared<const TreeNode>(std::move(n));
}

const std::shared_ptr<const TreeNode>& leaf_node() {
  static const auto* const node = new std::shared_ptr<const TreeNode>(make_node({}));
  return *node;
}

// The name without namespaces and enclosing functions: "Linear" of "(anonymous namespace)::Linear".
std::string short_type_name(const std::type_info& type) {
  const std::string name = type_name(type.name());
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth == 0 && c == ':' && name[i + 1] == ':') begin = i + 2;
  }
  return name.substr(begin);
}

void append_text(std::string& out, const TreeDef& tree);

void append_children(std::string& out, const TreeDef& tree, char open, char close) {
  out += open;
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    if (i) out += ", ";
    if (!tree.keys().empty()) {
      const bool dict = tree.kind() == TreeKind::dict;
      out += dict ? "\"" + tree.keys()[i] + "\": " : tree.keys()[i] + "=";
    }
    append_text(out, tree.children()[i]);
  }
  if (tree.kind() == TreeKind::tuple && tree.children().size() == 1) out += ',';
  out += close;
}

void append_text(std::string& out, const TreeDef& tree) {
  switch (tree.kind()) {
    case TreeKind::leaf: out += '*'; return;
    case TreeKind::value: out += tree.value()->text(); return;
    case TreeKind::tuple: append_children(out, tree, '(', ')'); return;
    case TreeKind::list: append_children(out, tree, '[', ']'); return;
    case TreeKind::dict: append_children(out, tree, '{', '}'); return;
    case TreeKind::optional:
      if (tree.children().empty()) out += "None";
      else append_text(out, tree.children()[0]);
      return;
    case TreeKind::structure:
    case TreeKind::custom:
      out += short_type_name(*tree.type());
      append_children(out, tree, '{', '}');
      return;
  }
}

void collect_paths(const TreeDef& tree, KeyPath& path, std::vector<KeyPath>& out) {
  if (tree.kind() == TreeKind::leaf) out.push_back(path);
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    const std::size_t depth = path.entries().size();
    push_child(path, tree, i);
    collect_paths(tree.children()[i], path, out);
    if (path.entries().size() > depth) path.pop();
  }
}

/// The deepest pair of nodes that still explains why the trees differ.
struct Difference {
  KeyPath path;
  TreeDef a, b;
};

Difference first_difference(TreeDef a, TreeDef b) {
  KeyPath path;
  while (a.kind() == b.kind() && same_type(a.type(), b.type()) && a.keys() == b.keys() &&
         a.children().size() == b.children().size()) {
    std::optional<std::size_t> differing;
    for (std::size_t i = 0; i < a.children().size() && !differing; ++i)
      if (!(a.children()[i] == b.children()[i])) differing = i;
    if (!differing) break;  // the nodes themselves: static values
    push_child(path, a, *differing);
    TreeDef next_a = a.children()[*differing], next_b = b.children()[*differing];
    a = std::move(next_a);
    b = std::move(next_b);
  }
  return {std::move(path), std::move(a), std::move(b)};
}

}  // namespace

TreeDefBuilder::TreeDefBuilder() = default;
TreeDefBuilder::~TreeDefBuilder() = default;

void TreeDefBuilder::add(TreeDef node) {
  (open_.empty() ? done_ : open_.back().children).push_back(std::move(node));
}
void TreeDefBuilder::leaf() { add(TreeDef()); }
void TreeDefBuilder::value(std::shared_ptr<const StaticValue> value) {
  add(TreeDef(make_node({.kind = TreeKind::value, .value = std::move(value)})));
}
void TreeDefBuilder::open(TreeKind kind, const std::type_info* type) {
  open_.push_back({.kind = kind, .type = type});
}
void TreeDefBuilder::key(std::string_view name) { open_.back().keys.emplace_back(name); }
void TreeDefBuilder::close() {
  TreeDef node(make_node(std::move(open_.back())));
  open_.pop_back();
  add(std::move(node));
}
TreeDef TreeDefBuilder::finish() { return std::move(done_.at(0)); }

void push_child(KeyPath& path, const TreeDef& parent, std::size_t child) {
  if (parent.kind() == TreeKind::optional) return;
  if (parent.kind() == TreeKind::dict) path.push_key(parent.keys()[child]);
  else if (!parent.keys().empty()) path.push_member(parent.keys()[child]);
  else path.push_index(child);
}

std::string describe_difference(const TreeDef& a, const TreeDef& b) {
  const Difference d = first_difference(a, b);
  std::string text;
  if (!d.path.empty()) text += " at " + d.path.to_string();
  text += ": " + d.a.to_string() + " vs " + d.b.to_string();
  if (!d.path.empty()) text += "\n  first:  " + a.to_string() + "\n  second: " + b.to_string();
  return text;
}

void tree_too_deep(const std::type_info& type) {
  throw RecursionError("a tree holds more than " + std::to_string(kMaxTreeDepth) + " " +
                       short_type_name(type) +
                       ", one within the other, for which threads have too little stack: hold them "
                       "in a std::vector, one beside the other");
}

void structures_differ(std::string_view operation, const TreeDef& a, const TreeDef& b) {
  throw TypeError(std::string(operation) + ": tree structures differ" + describe_difference(a, b));
}

void wrong_leaf_count(std::string_view operation, const TreeDef& tree, std::size_t given) {
  throw TypeError(std::string(operation) + ": the structure " + tree.to_string() + " has " +
                  counted(tree.num_leaves(), "leaf", "leaves") + ", not the " +
                  std::to_string(given) + " given");
}

void empty_leaf(std::string_view operation, const TreeDef& tree, std::size_t leaf, TreeName name) {
  const std::string path = tree.leaf_paths().at(leaf).to_string(name.to_string());
  throw TypeError(std::string(operation) + ": the Array" + (path.empty() ? "" : " at " + path) +
                  " is empty (default-constructed or moved from); the structure is " +
                  tree.to_string());
}

void wrong_treedef(const TreeDef& tree, const TreeDef& part, std::string_view wanted) {
  throw TypeError("tree_unflatten: the structure " + tree.to_string() + " has " + part.to_string() +
                  " where the C++ type has " + std::string(wanted));
}

}  // namespace detail

TreeDef::TreeDef() : node_(detail::leaf_node()) {}
TreeKind TreeDef::kind() const { return node_->kind; }
std::size_t TreeDef::num_leaves() const { return node_->num_leaves; }
const std::vector<TreeDef>& TreeDef::children() const { return node_->children; }
const std::vector<std::string>& TreeDef::keys() const { return node_->keys; }
const detail::StaticValue* TreeDef::value() const { return node_->value.get(); }
const std::type_info* TreeDef::type() const { return node_->type; }
std::size_t TreeDef::hash() const { return node_->hash; }

bool TreeDef::operator==(const TreeDef& o) const {
  const detail::TreeNode &a = *node_, &b = *o.node_;
  if (&a == &b) return true;
  if (a.hash != b.hash || a.kind != b.kind || !detail::same_type(a.type, b.type)) return false;
  if (a.value && !a.value->equals(*b.value)) return false;
  return a.keys == b.keys && a.children == b.children;
}

std::string TreeDef::to_string() const {
  std::string out;
  detail::append_text(out, *this);
  return out;
}

std::vector<KeyPath> TreeDef::leaf_paths() const {
  KeyPath path;
  std::vector<KeyPath> out;
  detail::collect_paths(*this, path, out);
  return out;
}

std::string KeyPath::to_string(std::string_view root) const {
  std::string out(root);
  for (const Entry& e : entries_) {
    switch (e.kind) {
      case Kind::index: out += "[" + std::to_string(e.index) + "]"; break;
      case Kind::key: out += "[\"" + e.name + "\"]"; break;
      case Kind::member:
        if (!out.empty()) out += '.';
        out += e.name;
        break;
    }
  }
  return out;
}

std::ostream& operator<<(std::ostream& os, const TreeDef& tree) { return os << tree.to_string(); }
std::ostream& operator<<(std::ostream& os, const KeyPath& path) { return os << path.to_string(); }

}  // namespace v1
}  // namespace telamon
