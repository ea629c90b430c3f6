// What functions with rules of their own have in common: options, identity, arguments that are not
// differentiated.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/custom_calls.hpp"

namespace telamon {
inline namespace v1 {

struct CustomOptions {
  /// What printed programs and errors call the function.
  std::string name = "f";
  /// Tangents and cotangents known to be zero are empty Arrays (`has_value()` is false) instead of
  /// arrays of zeros.
  bool symbolic_zeros = false;
};

namespace detail {

/// Which rule this is, with which options: by the code where that is known, else by the object.
template <class... F>
std::string rule_key(const CustomOptions& options, const void* object, const F&... f) {
  KeyBuilder key;
  KeyBuilder code;
  if ((code_identity(f, code) && ...)) {
    key.add(static_cast<const void*>(&type_tag<F...>));
    key.add_string(code.view());
  } else {
    key.add(object);
    key.add(next_identity());
  }
  key.add_string(options.name);
  key.add(options.symbolic_zeros);
  return std::string(key.view());
}

/// A function and its rules, shared by all copies of a callable, with the text that tells them apart.
template <class F, class... Rules>
struct CustomState {
  CustomState(CustomOptions given, F function, Rules... its_rules)
      : f(std::move(function)), rules(std::move(its_rules)...), options(std::move(given)) {
    key = std::apply([&](const auto&... r) { return rule_key(options, this, *f, *r...); }, rules);
  }
  bool identity(KeyBuilder& builder) const {
    builder.add_string(key);
    KeyBuilder unused;
    return code_identity(*f, unused) &&
           std::apply([&](const auto&... r) { return (code_identity(*r, unused) && ...); }, rules);
  }

  Callee<F> f;
  std::tuple<Callee<Rules>...> rules;
  CustomOptions options;
  std::string key;
};

/// Whether argument I is among those that are not differentiated.
template <class Args, int... Nondiff>
consteval bool is_nondiff([[maybe_unused]] std::size_t i) {
  return ((argument_index<Args, Nondiff>() == i) || ...);
}

/// Of each leaf of the arguments, whether it may be differentiated: those of arguments named in
/// Nondiff may not.
template <int... Nondiff, class Args>
std::vector<bool> differentiable_leaves(const Args& args) {
  std::vector<bool> mask;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto add = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
      CountVisitor count;
      walk_tree(std::get<K>(args), count);
      mask.insert(mask.end(), count.leaves, !is_nondiff<Args, Nondiff...>(K));
    };
    (add(std::integral_constant<std::size_t, I>{}), ...);
  }(std::make_index_sequence<std::tuple_size_v<Args>>());
  return mask;
}

template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

/// Text that tells the structures of arguments apart, static values included.
template <class Args>
std::string structure_key(const Args& args) {
  KeyBuilder key;
  hash_static(args, key);
  return std::string(key.view());
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
