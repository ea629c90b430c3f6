// RuleHandle: a C++ function as a parameter of an equation. Rules of user-defined derivatives travel
// through programs in this way: they are traced when a transformation asks for them.
//
// A handle is found again by a key that says which function it is and at which structure of
// arguments, so calls of equal code have equal parameters. Its text is a name that is never given
// twice in a process; parsing it finds the function again for as long as something refers to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>

#include "telamon/config.hpp"
#include "telamon/detail/function.hpp"
#include "telamon/detail/hash.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct RuleNode {
  std::string text, key;
  std::uint64_t identity;
  std::type_index type;
  std::shared_ptr<const void> function;
};
using RulePointer = std::shared_ptr<const RuleNode>;
/// The living rule of this type and key, else a new one whose text starts with `name`.
TELAMON_API RulePointer intern_rule(std::type_index type, std::string_view name, std::string key,
                                    const Function<std::shared_ptr<const void>()>& make);
/// The living rule of this text; a ParseError when there is none.
TELAMON_API RulePointer find_rule(std::type_index type, std::string_view text);

template <class F>
class RuleHandle {
 public:
  RuleHandle() = default;
  static RuleHandle make(std::string_view name, std::string key, const Function<F()>& make) {
    return RuleHandle(intern_rule(typeid(F), name, std::move(key),
                                  [&] { return std::make_shared<const F>(make()); }));
  }
  static RuleHandle from_text(std::string_view text) {
    return RuleHandle(find_rule(typeid(F), text));
  }
  explicit operator bool() const { return node_ != nullptr; }
  const F& operator*() const { return *static_cast<const F*>(node_->function.get()); }
  const std::string& key() const { return node_->key; }
  bool operator==(const RuleHandle& o) const { return node_ == o.node_; }
  std::size_t hash() const { return node_ ? mix_bits(node_->identity) : 0; }
  std::string to_string() const { return node_ ? node_->text : "None"; }
  /// Does not keep the rule alive: for rules that call themselves.
  std::weak_ptr<const RuleNode> weak() const { return node_; }
  explicit RuleHandle(RulePointer node) : node_(std::move(node)) {}

 private:
  RulePointer node_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
