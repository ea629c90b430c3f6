// vmap: maps a function over axes of its arguments; the body sees one example.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/none.hpp"

namespace telamon {
inline namespace v1 {

/// Which axis of each argument is mapped: an int (negative counts from the end), `tl::none`, or a
/// list of these, one per argument; nested lists follow the structure of an argument as far as they
/// go, and what they end with applies to the whole subtree: {0, tl::none, {0, 1}}.
class Axes {
 public:
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Axes(T axis, SourceLocation where = SourceLocation::current())
      : value_(checked(detail::signed_integer(axis, "axis", where), where)) {}
  Axes(std::nullopt_t) : value_(std::nullopt) {}
  Axes(std::initializer_list<Axes> children) : value_(std::vector<Axes>(children)) {}
  explicit Axes(std::vector<Axes> children) : value_(std::move(children)) {}
  bool is_list() const { return value_.index() == 2; }
  BatchAxis axis() const {
    return value_.index() == 0 ? BatchAxis(std::get<0>(value_)) : std::nullopt;
  }
  const std::vector<Axes>& children() const { return std::get<2>(value_); }
  TELAMON_API std::string to_string() const;

 private:
  // IndexError beyond the range of int.
  static TELAMON_API int checked(std::int64_t axis, SourceLocation where);
  std::variant<int, std::nullopt_t, std::vector<Axes>> value_;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const Axes& axes);

struct VmapOptions {
  Axes in_axes = 0;
  Axes out_axes = 0;
  std::string axis_name = {};
  std::optional<std::int64_t> axis_size = {};
};

namespace detail {

/// One axis per leaf of `tree`; `what` names the option in errors ("in_axes").
TELAMON_API std::vector<BatchAxis> expand_axes(const Axes& axes, const TreeDef& tree,
                                               const char* what);

template <class F>
class Vmapped {
 public:
  Vmapped(F f, VmapOptions options, SourceLocation where)
      : f_(std::move(f)), options_(std::move(options)), where_(where) {}
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add_string(options_.in_axes.to_string());
    key.add_string(options_.out_axes.to_string());
    key.add_string(options_.axis_name);
    key.add(options_.axis_size.has_value());
    key.add(options_.axis_size.value_or(0));
    return code_identity(*f_, key);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return in_transform("vmap", where_, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "vmap", "args");
      TreeCall call(*f_, args);
      const VmapSpec spec{expand_axes(options_.in_axes, tree_structure(args), "in_axes"),
                          [&](std::size_t) {
                            return expand_axes(options_.out_axes, tree_structure(call.prototype()),
                                               "out_axes");
                          },
                          options_.axis_size, options_.axis_name};
      const Arrays outs = vmap_arrays(call.flat(), leaves, spec, leaf_names(args), "vmap");
      return call.result(outs);
    });
  }

 private:
  Callee<F> f_;
  VmapOptions options_;
  SourceLocation where_;  // where the mapping was asked for
};

}  // namespace detail

/// Maps f over `in_axes`; batch axes of the results are at `out_axes` (0 unless said).
///   auto per_example = tl::vmap(tl::grad(loss), {.in_axes = {tl::none, 0, 0}});
/// ValueError when axes are out of range, sizes disagree, nothing is mapped and no axis_size is
/// given, or a mapped result has out axis none.
template <class F>
auto vmap(F f, VmapOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::Vmapped<F>(std::move(f), std::move(options), where);
}

}  // namespace v1
}  // namespace telamon
