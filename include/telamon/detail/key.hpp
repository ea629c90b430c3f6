// KeyBuilder: a byte string that tells static values apart, for cache keys on hot paths. Two values
// of one C++ type give the same bytes exactly when value_equal holds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "telamon/detail/hash.hpp"
#include "telamon/detail/value.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

class KeyBuilder {
 public:
  void add_bytes(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void add(T value) {
    add_bytes(&value, sizeof value);
  }
  void add_string(std::string_view text) {
    add(text.size());
    add_bytes(text.data(), text.size());
  }
  std::string_view view() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  void clear() { bytes_.clear(); }
  std::size_t hash() const { return hash_bytes(bytes_); }
  bool operator==(const KeyBuilder&) const = default;

 private:
  std::string bytes_;
};

template <class T>
void add_identity(KeyBuilder& key, const T& v) {
  if constexpr (std::is_same_v<T, Shape>) {
    key.add(v.size());
    key.add_bytes(v.data(), v.size() * sizeof(std::int64_t));
  } else if constexpr (requires { v.identity(); }) {
    key.add(v.identity());
  } else {
    static_assert(
        HasTextMember<T> || HasTextFunction<T>,
        "a static value of a class of its own needs to_string(), which tells values apart");
    std::string text;
    append_identity(text, v);
    key.add_string(text);
  }
}

template <class T>
void add_value(KeyBuilder& key, const T& v) {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (std::is_empty_v<T>) {
    return;
  } else if constexpr (kind == ValueKind::boolean || kind == ValueKind::integer ||
                       kind == ValueKind::floating || kind == ValueKind::enumeration) {
    key.add(v);
  } else if constexpr (kind == ValueKind::string) {
    key.add_string(v);
  } else if constexpr (kind == ValueKind::identity) {
    add_identity(key, v);
  } else if constexpr (kind == ValueKind::handle) {
    key.add(static_cast<const void*>(v.node_or_null()));
  } else if constexpr (is_shared_ptr<T>) {
    key.add(static_cast<const void*>(v.get()));
  } else if constexpr (kind == ValueKind::pointer) {
    key.add(v);
  } else if constexpr (kind == ValueKind::optional) {
    key.add(v.has_value());
    if (v) add_value(key, *v);
  } else if constexpr (kind == ValueKind::sequence) {
    if constexpr (is_vector<T>) key.add(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) add_value<typename T::value_type>(key, v[i]);
  } else if constexpr (kind == ValueKind::map) {
    key.add(v.size());
    for (const auto& [name, x] : v) {
      key.add_string(name);
      add_value(key, x);
    }
  } else if constexpr (kind == ValueKind::tuple || kind == ValueKind::aggregate) {
    with_parts(v, [&](const auto&... x) { (add_value(key, x), ...); });
  } else {
    static_assert(kUnsupported<T>, "a std::function cannot be compared: wrap it in tl::Opaque");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
