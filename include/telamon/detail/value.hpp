// Equality, hashing, text and parsing of plain values by reflection, member by member. Parameters
// of primitives and static leaves of pytrees are such values. Floating-point numbers compare by
// their bits, so nan equals itself and 0.0 differs from -0.0.
//
// A value is: bool, number, enum, DType, string; vector, array, pair, tuple, optional, map of
// values; an aggregate of values; an Array, a pointer or Opaque (by identity); or a class that
// brings `==` and `hash()`, `to_string()` for its text and a static `from_text` to read it back.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "telamon/detail/hash.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/dtype.hpp"
#include "telamon/reflect.hpp"
#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {

class Jaxpr;

namespace detail {
TELAMON_API std::uint64_t next_identity();  // never the same twice in a process, and never 0
}

/// A value that takes part in comparisons by identity: functions, handles, anything without `==`.
/// Copies of an Opaque are equal, separately made ones are not, also after the first has died.
template <class T>
class Opaque {
 public:
  Opaque() = default;
  Opaque(T value)
      : value_(std::make_shared<const T>(std::move(value))), identity_(detail::next_identity()) {}
  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  bool operator==(const Opaque& o) const { return identity_ == o.identity_; }
  std::uint64_t identity() const { return identity_; }
  std::size_t hash() const { return static_cast<std::size_t>(detail::mix_bits(identity_)); }
  std::string to_string() const { return value_ ? "<opaque>" : "None"; }

 private:
  std::shared_ptr<const T> value_;
  std::uint64_t identity_ = 0;
};

namespace detail {

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_string_map = false;
template <class T, class C, class A>
inline constexpr bool is_string_map<std::map<std::string, T, C, A>> = true;
template <class T>
inline constexpr bool is_shared_ptr = false;
template <class T>
inline constexpr bool is_shared_ptr<std::shared_ptr<T>> = true;
template <class T>
inline constexpr bool is_function = false;
template <class S>
inline constexpr bool is_function<std::function<S>> = true;

template <class T>
concept IsString = std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>;
template <class T>
concept HasIdentity = std::is_class_v<T> && requires(const T& a) {
  { a.hash() } -> std::convertible_to<std::size_t>;
  { a == a } -> std::convertible_to<bool>;
};
template <class T>
concept HasTextReader = requires(std::string_view text) {
  { T::from_text(text) } -> std::same_as<T>;
};
template <class T>
concept IsHandle = requires(const T& a) {  // an Array, without needing its definition here
  { a.is_same(a) } -> std::same_as<bool>;
  { a.node_or_null() };
};
template <class T>
concept HasTextMember = requires(const T& a) {
  { a.to_string() } -> std::convertible_to<std::string_view>;
};
template <class T>
concept HasTextFunction = (std::is_class_v<T> || std::is_enum_v<T>) && requires(const T& a) {
  { to_string(a) } -> std::convertible_to<std::string_view>;
};
enum class ValueKind {
  boolean,
  integer,
  floating,
  enumeration,
  string,
  identity,
  handle,
  pointer,
  function,
  optional,
  sequence,
  map,
  tuple,
  aggregate
};

template <class>
inline constexpr bool kUnsupported = false;

/// How values of type T are treated; the only place that lists the supported types.
template <class T>
consteval ValueKind value_kind() {
  if constexpr (std::is_same_v<T, bool>) return ValueKind::boolean;
  else if constexpr (std::is_integral_v<T>) return ValueKind::integer;
  else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return ValueKind::floating;
  else if constexpr (std::is_enum_v<T>) return ValueKind::enumeration;
  else if constexpr (IsString<T>) return ValueKind::string;
  else if constexpr (IsHandle<T>) return ValueKind::handle;
  else if constexpr (HasIdentity<T>) return ValueKind::identity;
  else if constexpr (std::is_pointer_v<T> || is_shared_ptr<T>) return ValueKind::pointer;
  else if constexpr (is_function<T>) return ValueKind::function;
  else if constexpr (is_optional<T>) return ValueKind::optional;
  else if constexpr (is_vector<T> || is_array<T>) return ValueKind::sequence;
  else if constexpr (is_string_map<T>) return ValueKind::map;
  else if constexpr (is_tuple<T>) return ValueKind::tuple;
  else if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) return ValueKind::aggregate;
  else {
    static_assert(kUnsupported<T>,
                  "not a parameter or static value: use numbers, bools, enums, strings, Shape, "
                  "Jaxpr, a vector, array, pair, tuple, optional or map of these, an aggregate "
                  "struct, tl::Opaque<T>, or a class with operator== and hash()");
    return ValueKind::identity;
  }
}

/// f(element...) with the elements of a tuple or the members of an aggregate.
template <class T, class F>
constexpr decltype(auto) with_parts(T& value, F&& f) {
  if constexpr (value_kind<std::remove_const_t<T>>() == ValueKind::tuple)
    return std::apply(std::forward<F>(f), value);
  else return with_fields(value, std::forward<F>(f));
}

template <class F>
using BitsOf = std::conditional_t<sizeof(F) == 4, std::uint32_t, std::uint64_t>;

template <class T>
bool value_equal(const T& a, const T& b) {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (kind == ValueKind::floating) {
    return std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
  } else if constexpr (kind == ValueKind::handle) {
    return a.is_same(b);
  } else if constexpr (kind == ValueKind::function) {
    return !a && !b;  // two functions cannot be compared; equal parameters share their node
  } else if constexpr (kind == ValueKind::optional) {
    return a.has_value() == b.has_value() && (!a || value_equal(*a, *b));
  } else if constexpr (kind == ValueKind::sequence) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!value_equal<typename T::value_type>(a[i], b[i])) return false;
    return true;
  } else if constexpr (kind == ValueKind::map) {
    if (a.size() != b.size()) return false;
    for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j)
      if (i->first != j->first || !value_equal(i->second, j->second)) return false;
    return true;
  } else if constexpr (kind == ValueKind::tuple || kind == ValueKind::aggregate) {
    return with_parts(a, [&](const auto&... x) {
      return with_parts(b, [&](const auto&... y) { return (value_equal(x, y) && ...); });
    });
  } else {
    return a == b;
  }
}

template <class T>
std::size_t value_hash(const T& v) {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (kind == ValueKind::floating) {
    return mix_bits(std::bit_cast<BitsOf<T>>(v));
  } else if constexpr (kind == ValueKind::boolean || kind == ValueKind::integer ||
                       kind == ValueKind::enumeration) {
    return mix_bits(static_cast<std::uint64_t>(v));
  } else if constexpr (kind == ValueKind::string) {
    return hash_bytes(v);
  } else if constexpr (kind == ValueKind::identity) {
    return v.hash();
  } else if constexpr (kind == ValueKind::handle) {
    return std::hash<const void*>{}(v.node_or_null());
  } else if constexpr (kind == ValueKind::pointer) {
    return std::hash<T>{}(v);
  } else if constexpr (kind == ValueKind::function) {
    return v ? 1 : 0;
  } else if constexpr (kind == ValueKind::optional) {
    return v ? combine_hash(1, value_hash(*v)) : 0;
  } else if constexpr (kind == ValueKind::sequence) {
    std::size_t h = v.size();
    for (std::size_t i = 0; i < v.size(); ++i)
      h = combine_hash(h, value_hash<typename T::value_type>(v[i]));
    return h;
  } else if constexpr (kind == ValueKind::map) {
    std::size_t h = v.size();
    for (const auto& [key, x] : v)
      h = combine_hash(combine_hash(h, hash_bytes(key)), value_hash(x));
    return h;
  } else {
    std::size_t h = 0;
    with_parts(v, [&](const auto&... x) { ((h = combine_hash(h, value_hash(x))), ...); });
    return h;
  }
}

template <class T>
void append_value(std::string& out, const T& v);

/// "(a, b)", and "(a,)" for one element, as Python writes tuples.
template <class Each>
void append_sequence(std::string& out, std::size_t size, Each&& each) {
  out += '(';
  for (std::size_t i = 0; i < size; ++i) {
    if (i) out += ", ";
    each(i);
  }
  out += size == 1 ? ",)" : ")";
}

/// By `to_string(E)` where there is one, else by the enumerator's name, else as a number.
template <class E>
void append_enum(std::string& out, E v) {
  if constexpr (std::is_same_v<E, DType>) {
    out += short_name(v);
  } else if constexpr (HasTextFunction<E>) {
    out += to_string(v);
  } else {
    const auto i = static_cast<std::int64_t>(v);
    constexpr auto& names = enum_names<E>;
    if (i >= 0 && static_cast<std::size_t>(i) < names.size())
      out += names[static_cast<std::size_t>(i)];
    else append_integer(out, i);
  }
}

template <class T>
void append_identity(std::string& out, const T& v) {
  if constexpr (HasTextMember<T>) out += v.to_string();
  else if constexpr (HasTextFunction<T>) out += to_string(v);
  else out += "<" + type_name(typeid(T).name()) + ">";
}

template <class T>
void append_value(std::string& out, const T& v) {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (kind == ValueKind::boolean) {
    out += v ? "True" : "False";
  } else if constexpr (kind == ValueKind::integer) {
    if constexpr (std::is_signed_v<T>) append_integer(out, static_cast<std::int64_t>(v));
    else append_integer(out, static_cast<std::uint64_t>(v));
  } else if constexpr (kind == ValueKind::floating) {
    append_float(out, v);
  } else if constexpr (kind == ValueKind::enumeration) {
    append_enum(out, v);
  } else if constexpr (kind == ValueKind::string) {
    append_quoted(out, v);
  } else if constexpr (kind == ValueKind::identity) {
    append_identity(out, v);
  } else if constexpr (kind == ValueKind::handle) {
    out += v.node_or_null() ? v.aval().to_string() : std::string("None");
  } else if constexpr (kind == ValueKind::pointer) {
    out += v ? "<opaque>" : "None";
  } else if constexpr (kind == ValueKind::function) {
    out += v ? "<function>" : "None";
  } else if constexpr (kind == ValueKind::optional) {
    if (v) append_value(out, *v);
    else out += "None";
  } else if constexpr (kind == ValueKind::sequence) {
    append_sequence(out, v.size(),
                    [&](std::size_t i) { append_value<typename T::value_type>(out, v[i]); });
  } else if constexpr (kind == ValueKind::map) {
    const char* separator = "{";
    for (const auto& [key, x] : v) {
      out += std::exchange(separator, ", ");
      append_quoted(out, key);
      out += ": ";
      append_value(out, x);
    }
    out += v.empty() ? "{}" : "}";
  } else if constexpr (kind == ValueKind::tuple) {
    std::apply(
        [&](const auto&... x) {
          std::size_t i = 0;
          out += '(';
          ((out += i++ ? ", " : "", append_value(out, x)), ...);
          out += sizeof...(x) == 1 ? ",)" : ")";
        },
        v);
  } else {
    const char* separator = "";
    out += '{';
    for_each_field(v, [&](std::string_view name, const auto& x) {
      out += std::exchange(separator, ", ");
      out += name;
      out += '=';
      append_value(out, x);
    });
    out += '}';
  }
}

/// Whether a value of type T can hold a Jaxpr.
template <class T>
consteval bool holds_jaxpr() {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (std::is_same_v<T, Jaxpr>) return true;
  else if constexpr (kind == ValueKind::optional || kind == ValueKind::sequence)
    return holds_jaxpr<typename T::value_type>();
  else if constexpr (kind == ValueKind::map) return holds_jaxpr<typename T::mapped_type>();
  else if constexpr (kind == ValueKind::tuple)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_jaxpr<std::tuple_element_t<I, T>>() || ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  else if constexpr (kind == ValueKind::aggregate)
    return []<class... M>(std::type_identity<std::tuple<M&...>>) {
      return (holds_jaxpr<std::remove_const_t<M>>() || ...);
    }(std::type_identity<decltype(tie_fields(std::declval<T&>()))>{});
  else return false;
}

/// f(jaxpr) for every Jaxpr in `v`, in member order. `v` may be const.
template <class T, class F>
void visit_jaxprs(T& v, F&& f) {
  using U = std::remove_const_t<T>;
  constexpr ValueKind kind = value_kind<U>();
  if constexpr (std::is_same_v<U, Jaxpr>) f(v);
  else if constexpr (!holds_jaxpr<U>()) return;
  else if constexpr (kind == ValueKind::optional) {
    if (v) visit_jaxprs(*v, f);
  } else if constexpr (kind == ValueKind::sequence) {
    for (auto& x : v) visit_jaxprs(x, f);
  } else if constexpr (kind == ValueKind::map) {
    for (auto& entry : v) visit_jaxprs(entry.second, f);
  } else with_parts(v, [&](auto&... x) { (visit_jaxprs(x, f), ...); });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
