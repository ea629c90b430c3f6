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

struct Rules {
  std::mutex mutex;
  std::map<std::pair<std::type_index, std::string>, std::weak_ptr<const RuleNode>> by_key, by_text;
  std::map<std::string, int, std::less<>> uses_of_name;
};
Rules& rules() {
  static auto* const leaked = new Rules;
  return *leaked;
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
    const auto found = r.by_key.find({type, key});
    if (found != r.by_key.end()) {
      if (auto rule = found->second.lock()) return rule;
    }
  }
  auto function = make();  // outside the lock: it may copy what users wrote
  const std::lock_guard lock(r.mutex);
  auto& entry = r.by_key[{type, key}];
  if (auto rule = entry.lock()) return rule;  // another thread was faster
  std::string text = plain(name);
  const int use = ++r.uses_of_name[text];
  if (use > 1) text += "_" + std::to_string(use);
  const auto forget = [](const RuleNode* node) {
    {
      Rules& all = rules();
      const std::lock_guard guard(all.mutex);
      const auto erase = [&](auto& table, const std::string& name_of) {
        const auto at = table.find({node->type, name_of});
        if (at != table.end() && at->second.expired()) table.erase(at);
      };
      erase(all.by_key, node->key);
      erase(all.by_text, node->text);
    }
    delete node;
  };
  RulePointer rule(new RuleNode{text, std::move(key), next_identity(), type, std::move(function)},
                   forget);
  entry = rule;
  r.by_text[{type, text}] = rule;
  return rule;
}

RulePointer find_rule(std::type_index type, std::string_view text) {
  Rules& r = rules();
  const std::lock_guard lock(r.mutex);
  const auto found = r.by_text.find({type, std::string(text)});
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
