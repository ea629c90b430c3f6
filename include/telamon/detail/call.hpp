// From functions over trees to functions over flat lists of arrays, and back: what all
// transformations share.
#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include "telamon/detail/flat.hpp"
#include "telamon/detail/identity.hpp"
#include "telamon/signature.hpp"
#include "telamon/tree.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The tree without its arrays: keeps sizes and static values, drops references to data.
template <class T>
T without_leaves(T tree) {
  CountVisitor count;
  walk_tree(tree, count);
  const Arrays empty(count.leaves);
  AssignVisitor visitor(empty.data());
  walk_tree(tree, visitor);
  return tree;
}

template <class T>
T with_leaves(T prototype, std::span<const Array> leaves) {
  AssignVisitor visitor(leaves.data());
  walk_tree(prototype, visitor);
  return prototype;
}

/// The leaves of a tree, empty handles included (tangents of integers may be absent).
template <class T>
Arrays leaves_or_empty(const T& tree) {
  Arrays leaves;
  FlattenVisitor visitor(leaves);
  walk_tree(tree, visitor);
  return leaves;
}

/// The path of leaf i in the arguments, for errors: "args[0].w"; or in a tree of another name.
template <class Args>
LeafName leaf_names(const Args& args, const char* name = "args") {
  return [&args, name](std::size_t leaf) {
    return tree_structure(args).leaf_paths()[leaf].to_string(name);
  };
}

/// f of the arguments in a tuple. Of one that returns nothing the compiler says so, and no more: for what follows
/// it returns an Array.
template <class F, class Args>
auto returned_by(F& f, Args& args) {
  constexpr bool returns_something = !std::is_void_v<decltype(std::apply(f, args))>;
  static_assert(returns_something, "a transformed function must return its result");
  if constexpr (returns_something) return std::apply(f, args);
  else return Array();
}
template <class F, class Args>
using ReturnedBy = decltype(returned_by(std::declval<F&>(), std::declval<Args&>()));

/// f applied to trees whose leaves arrive flat. Remembers the structure of the result.
template <class F, class Args>
class TreeCall {
 public:
  using Result = ReturnedBy<F, Args>;
  static_assert(Pytree<Result>,
                "a transformed function must return a pytree: an Array, a container of these, or "
                "an aggregate struct");

  TreeCall(F& f, const Args& args) : f_(f), args_(args) {
    if (is_null_function(f)) null_function_error();
  }
  Arrays operator()(std::span<const Array> leaves) {
    Args args = with_leaves(args_, leaves);
    Result result = returned_by(f_, args);
    Arrays outs;
    flatten_into(result, outs, "the result of a transformed function");
    prototype_.emplace(without_leaves(std::move(result)));
    return outs;
  }
  FlatFunction flat() {
    return [this](std::span<const Array> leaves) { return (*this)(leaves); };
  }
  /// The result with the given leaves; after a call.
  Result result(std::span<const Array> leaves) const { return with_leaves(*prototype_, leaves); }
  const Result& prototype() const { return *prototype_; }

 private:
  F& f_;
  const Args& args_;
  std::optional<Result> prototype_;
};

/// The position of argument Argnum, which may count from the end.
template <class Args, int Argnum>
consteval std::size_t argument_index() {
  constexpr int n = static_cast<int>(std::tuple_size_v<Args>);
  static_assert(Argnum < n && Argnum >= -n, "there is no argument of that number");
  return static_cast<std::size_t>(Argnum < 0 ? Argnum + n : Argnum);
}

/// Transforms keep the callable they were given, and call it as an lvalue whatever its constness.
/// ValueError where there is nothing to call.
template <class F>
class Callee {
 public:
  explicit Callee(F f) : f_(std::move(f)) {}
  F& operator*() const {
    if (is_null_function(f_)) null_function_error();
    return f_;
  }

 private:
  mutable F f_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
