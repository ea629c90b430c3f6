// Parsing of the text that value.hpp writes, typed by the C++ type to be filled.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "telamon/detail/value.hpp"

namespace telamon {
inline namespace v1 {

/// Reads a jaxpr-valued member from its text, brackets included.
using JaxprReader = std::function<void(std::string_view text, Jaxpr& out)>;

namespace detail {

template <class E>
concept HasEnumParser = requires(std::string_view s, E& e) {
  { enum_from_string(s, e) } -> std::convertible_to<bool>;
};

template <class T>
void read_value(TextReader& in, T& out, const JaxprReader& read_jaxpr);

/// By `enum_from_string(text, E&)` where there is one, else by the texts of the enumerators, else as
/// a number.
template <class E>
void read_enum(TextReader& in, E& out) {
  if constexpr (std::is_same_v<E, DType>) {
    const std::string name = in.read_string();
    const auto dtype = dtype_from_name(name);
    if (!dtype) in.fail("'" + name + "' is not a dtype");
    out = *dtype;
  } else if constexpr (HasEnumParser<E>) {
    const std::string name = in.read_string();
    if (!enum_from_string(std::string_view(name), out)) in.fail("unknown name '" + name + "'");
  } else {
    const std::string name = in.accept('-') ? "-" + in.read_string() : in.read_string();
    std::string text;
    for (std::size_t i = 0; i < enum_names<E>.size(); ++i, text.clear()) {
      append_enum(text, static_cast<E>(i));
      if (text != name) continue;
      out = static_cast<E>(i);
      return;
    }
    TextReader number(name);
    if (name.find_first_not_of("-0123456789") != std::string::npos)
      in.fail("unknown name '" + name + "'");
    out = static_cast<E>(number.read_signed(std::numeric_limits<std::int64_t>::min(),
                                            std::numeric_limits<std::int64_t>::max()));
  }
}

template <class T>
void read_sequence(TextReader& in, T& out, const JaxprReader& read_jaxpr) {
  const char close = in.open_sequence();
  std::size_t n = 0;
  if constexpr (is_array<T>) {
    for (; in.next_element(close, n == 0); ++n) {
      if (n == out.size()) in.fail("too many elements");
      read_value(in, out[n], read_jaxpr);
    }
    if (n != out.size()) in.fail("too few elements");
  } else {
    out = T{};
    for (; in.next_element(close, n == 0); ++n) {
      typename T::value_type element{};
      read_value(in, element, read_jaxpr);
      out.push_back(std::move(element));
    }
  }
}

/// {name=value, ...}, {"name": value, ...}, or the members in order as a sequence.
template <class T>
void read_parts(TextReader& in, T& out, const JaxprReader& read_jaxpr) {
  if constexpr (value_kind<T>() == ValueKind::aggregate) {
    if (in.next_is('{')) {
      in.expect('{');
      for (bool first = true; in.next_element('}', first); first = false) {
        const std::string name = in.read_string();
        if (!in.accept('=')) in.expect(':');
        bool found = false;
        for_each_field(out, [&](std::string_view field, auto& member) {
          if (field != name) return;
          found = true;
          read_value(in, member, read_jaxpr);
        });
        if (!found) in.fail("unknown member '" + name + "'");
      }
      return;
    }
  }
  const char close = in.open_sequence();
  bool first = true;
  with_parts(out, [&](auto&... part) {
    auto read_one = [&](auto& p) {
      if (!in.next_element(close, std::exchange(first, false))) in.fail("too few elements");
      read_value(in, p, read_jaxpr);
    };
    (read_one(part), ...);
  });
  if (in.next_element(close, first)) in.fail("too many elements");
}

template <class T>
void read_value(TextReader& in, T& out, const JaxprReader& read_jaxpr) {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (std::is_same_v<T, Jaxpr>) {
    if (!read_jaxpr) in.fail("a jaxpr cannot be read here");
    read_jaxpr(in.read_balanced(), out);
  } else if constexpr (std::is_same_v<T, Shape>) {
    read_sequence(in, out, read_jaxpr);
  } else if constexpr (kind == ValueKind::boolean) {
    out = in.read_bool();
  } else if constexpr (kind == ValueKind::integer) {
    if constexpr (std::is_signed_v<T>)
      out = static_cast<T>(
          in.read_signed(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    else out = static_cast<T>(in.read_unsigned(std::numeric_limits<T>::max()));
  } else if constexpr (std::is_same_v<T, float>) {
    out = in.read_floating<float>();
  } else if constexpr (kind == ValueKind::floating) {
    out = in.read_floating<double>();
  } else if constexpr (kind == ValueKind::enumeration) {
    read_enum(in, out);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = in.read_string();
  } else if constexpr (kind == ValueKind::optional) {
    if (in.accept_none()) {
      out.reset();
    } else {
      out.emplace();
      read_value(in, *out, read_jaxpr);
    }
  } else if constexpr (kind == ValueKind::sequence) {
    read_sequence(in, out, read_jaxpr);
  } else if constexpr (kind == ValueKind::map) {
    in.expect('{');
    out.clear();
    for (bool first = true; in.next_element('}', first); first = false) {
      const std::string key = in.read_string();
      in.expect(':');
      read_value(in, out[key], read_jaxpr);
    }
  } else if constexpr (kind == ValueKind::tuple || kind == ValueKind::aggregate) {
    read_parts(in, out, read_jaxpr);
  } else if constexpr (HasTextReader<T>) {
    out = in.accept_none() ? T{} : T::from_text(in.read_string());
  } else {
    if (!in.accept_none())
      in.fail("values of type " + type_name(typeid(T).name()) + " have no text form");
    out = T{};
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
