// Axes: prefix trees of batch axes, expanded over the structure of arguments and results.
#include <limits>
#include <ostream>

#include "telamon/primitive.hpp"
#include "telamon/vmap.hpp"

namespace telamon {
inline namespace v1 {

std::string Axes::to_string() const {
  if (!is_list()) return axis() ? std::to_string(*axis()) : "none";
  std::string text = "{";
  for (std::size_t i = 0; i < children().size(); ++i)
    text += (i ? ", " : "") + children()[i].to_string();
  return text + "}";
}

std::ostream& operator<<(std::ostream& os, const Axes& axes) { return os << axes.to_string(); }

int Axes::checked(std::int64_t axis, SourceLocation where) {
  const detail::CallSite site(where);
  if (axis < std::numeric_limits<int>::min() || axis > std::numeric_limits<int>::max())
    throw IndexError("vmap: axis " + std::to_string(axis) + " is out of bounds: no array has it");
  return static_cast<int>(axis);
}

namespace detail {
namespace {

void expand(const Axes& axes, const TreeDef& tree, const char* what, const Axes& all,
            const TreeDef& root, std::vector<BatchAxis>& out) {
  if (!axes.is_list()) {
    out.insert(out.end(), tree.num_leaves(), axes.axis());
    return;
  }
  const auto& parts = tree.children();
  // A list of one may stand for a single result or argument that is no container.
  if (tree.kind() == TreeKind::leaf && axes.children().size() == 1) {
    return expand(axes.children()[0], tree, what, all, root, out);
  }
  if (tree.kind() == TreeKind::leaf || parts.size() != axes.children().size()) {
    throw ValueError(std::string("vmap: ") + what +
                     " must be an int, none, or a list with one entry per child of the value: " +
                     all.to_string() + " does not fit " + root.to_string());
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    expand(axes.children()[i], parts[i], what, all, root, out);
}

}  // namespace

std::vector<BatchAxis> expand_axes(const Axes& axes, const TreeDef& tree, const char* what) {
  std::vector<BatchAxis> out;
  expand(axes, tree, what, axes, tree, out);
  return out;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
