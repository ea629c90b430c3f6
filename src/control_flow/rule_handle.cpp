// The registry behind rule handles: it refers to rules weakly, by key and by text.
#include "telamon/detail/rule_handle.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "telamon/detail/value.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using RuleName = std::pair<std::type_index, std::string_view>;  // a key or a text
struct Before {
  using is_transparent = void;  // looking for a name makes no string
  bool operator()(const RuleName& a, const RuleName& b) const { return a < b; }
};

struct Rules {
  std::mutex mutex;
  std::map<std::pair<std::type_index, std::string>, std::weak_ptr<const RuleNode>, Before> by_key,
      by_text;
  std::map<std::string, int, std::less<>> uses_of_name;
};
Rules& rules() {
  static auto* const leaked = new Rules;
  return *leaked;
}

// The last step of a rule. Takes no memory: where that has run out rules are dropped too.
void forget(const RuleNode* node) {
  {
    Rules& all = rules();
    const std::lock_guard lock(all.mutex);
    const auto erase = [&](auto& table, const std::string& name) {
      const auto at = table.find(RuleName(node->type, name));
      if (at != table.end() && at->second.expired()) table.erase(at);
    };
    erase(all.by_key, node->key);
    erase(all.by_text, node->text);
  }
  delete node;
}

// A name that reads back as one word.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    text += letter || (digit && !text.empty()) ? c : '_';
  }
  return text;
}

}  // namespace

RulePointer intern_rule(std::type_index type, std::string_view name, std::string key,
                        const Function<std::shared_ptr<const void>()>& make) {
  Rules& r = rules();
  {
    const std::lock_guard lock(r.mutex);
    const auto found = r.by_key.find(RuleName(type, key));
    if (found != r.by_key.end()) {
      if (auto rule = found->second.lock()) return rule;
    }
  }
  // Outside the lock: `make` may copy what users wrote, and a rule takes the lock when it is dropped, as this
  // one is where another thread was faster or memory runs out below. It outlives the lock.
  auto* const node = new RuleNode{plain(name), key, next_identity(), type, make()};
  const RulePointer rule(node, forget);
  const std::lock_guard lock(r.mutex);
  auto& entry = r.by_key[{type, key}];
  if (auto known = entry.lock()) return known;
  const int use = ++r.uses_of_name[node->text];
  if (use > 1) node->text += "_" + std::to_string(use);
  r.by_text[{type, node->text}] = rule;
  entry = rule;
  return rule;
}

RulePointer find_rule(std::type_index type, std::string_view text) {
  Rules& r = rules();
  const std::lock_guard lock(r.mutex);
  const auto found = r.by_text.find(RuleName(type, text));
  if (found != r.by_text.end()) {
    if (auto rule = found->second.lock()) return rule;
  }
  throw ParseError(
      "'" + std::string(text) +
      "' names a C++ function, a rule of a user-defined derivative, that does not live "
      "in this process: a program with such a rule is read back only while it lives");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
