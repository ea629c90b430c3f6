// Compile-time reflection of aggregates: how many members, references to them, their names.
// Pytrees, the parameters of primitives and their printing all stand on it, so a struct needs no
// macro and no registration.
//
// Limits: aggregates only (no private members, no user constructors), no base classes, no C arrays
// (use std::array), no references, at most 32 members. Each limit is a static_assert that says so.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "telamon/detail/members.hpp"

// `fake` below is named in unevaluated places only, never defined.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

namespace telamon {
inline namespace v1 {
namespace detail {

/// Converts to whatever type a member has, but never to T itself (that would be a copy of T), so
/// `T{Init<T>{}, Init<T>{}}` is valid when T has at least two members. A member that is an
/// aggregate takes one Init by this conversion, hence no brace elision into its own members. `const
/// volatile` ranks it below a member's converting constructor that takes anything by reference; the
/// two would be ambiguous otherwise.
template <class T>
struct Init {
  template <class U>
    requires(!std::is_same_v<std::remove_cv_t<U>, T>)
  operator U() const volatile {
    __builtin_unreachable();  // defined only because types without linkage ask for it
  }
};

/// Converts to base classes of T only: `T{BaseInit<T>{}}` is valid when T has a base.
template <class T>
struct BaseInit {
  template <class U>
    requires(std::is_base_of_v<U, T> && !std::is_same_v<std::remove_cv_t<U>, T>)
  operator U() const;
};

template <class T, std::size_t>
using InitAt = Init<T>;

template <class T, std::size_t... I>
consteval bool takes_n(std::index_sequence<I...>) {
  return requires { T{InitAt<T, I>{}...}; };
}
template <class T, std::size_t N>
inline constexpr bool takes = takes_n<T>(std::make_index_sequence<N>{});

/// The largest N for which T{Init x N} is valid. Small N may be invalid (a member without default),
/// so the search first goes up to a valid N, then on to the last one.
template <class T, std::size_t N = 0, bool Found = false>
consteval std::size_t count_initializers() {
  if constexpr (N > kMaxFields + 1) return N;
  else if constexpr (takes<T, N>) return count_initializers<T, N + 1, true>();
  else if constexpr (Found) return N - 1;
  else return count_initializers<T, N + 1, false>();
}

/// T{Init x Before, {}, Init x After}
template <class T, std::size_t... Before, std::size_t... After>
consteval bool takes_braces(std::index_sequence<Before...>, std::index_sequence<After...>) {
  return requires { T{InitAt<T, Before>{}..., {}, InitAt<T, After>{}...}; };
}

/// Whether some member uses up several of the N initializers: only a C array does, by brace
/// elision.
/// `{}` initializes it whole, so that the other initializers are then too many.
template <class T, std::size_t N, std::size_t At = 0>
consteval bool has_c_array() {
  if constexpr (At + 1 >= N) return false;
  else if constexpr (takes_braces<T>(std::make_index_sequence<At>{}, std::index_sequence<>{}) &&
                     !takes_braces<T>(std::make_index_sequence<At>{},
                                      std::make_index_sequence<N - At - 1>{}))
    return true;
  else return has_c_array<T, N, At + 1>();
}

/// Converts to nothing: what accepts it converts from anything, and says nothing about bases.
struct NoInit {};
template <class T>
concept HasBase = requires { T{BaseInit<T>{}}; } && !requires { T{NoInit{}}; };

template <class T>
consteval std::size_t checked_field_count() {
  static_assert(std::is_class_v<T> && std::is_aggregate_v<T>,
                "not an aggregate: a reflected struct has public members only and no constructors");
  if constexpr (std::is_empty_v<T>) {
    return 0;
  } else {
    static_assert(!HasBase<T>, "a reflected struct cannot have base classes: use a member instead");
    constexpr std::size_t n = count_initializers<T>();
    static_assert(n <= kMaxFields,
                  "a reflected struct has at most 32 members, none of them a reference or a large "
                  "C array: group some of them in a struct of their own, use std::array");
    if constexpr (n <= kMaxFields) {
      static_assert(!has_c_array<T, n>(),
                    "a reflected struct cannot have C array members: use std::array");
    }
    return n;
  }
}

// The name of a member is read from the compiler's spelling of a pointer to that member of an
// object that is never defined nor used: `...fake<S>.value.name]` (clang), `...value.S::name)]`
// (gcc).
template <class T>
struct Holder {
  T value;
};
template <class T>
extern const Holder<T> fake;

template <auto Pointer>
consteval auto spelled() {
  return std::string_view(__PRETTY_FUNCTION__);
}

consteval bool is_identifier_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

consteval std::string_view last_identifier(std::string_view s) {
  std::size_t end = s.size();
  while (end > 0 && !is_identifier_char(s[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_identifier_char(s[begin - 1])) --begin;
  return s.substr(begin, end - begin);
}

struct TieMembers {
  template <class... M>
  constexpr std::tuple<M&...> operator()(M&... members) const {
    return std::tuple<M&...>(members...);
  }
};

template <class T, std::size_t N, std::size_t... I>
consteval auto spell_fields(std::index_sequence<I...>) {
  return std::array<std::string_view, N>{last_identifier(
      spelled<std::addressof(std::get<I>(apply_to_members<N>(fake<T>.value, TieMembers{})))>())...};
}

template <class T>
inline constexpr auto field_names_of =
    spell_fields<T, checked_field_count<T>()>(std::make_index_sequence<checked_field_count<T>()>{});

/// Enumerator V is spelled by name, other values by a cast: `Mode::clip` but `(Mode)7`.
template <class E, std::size_t N = 0>
consteval std::size_t count_enumerators() {
  constexpr std::string_view name = last_identifier(spelled<static_cast<E>(N)>());
  if constexpr (name.empty() || (name[0] >= '0' && name[0] <= '9')) return N;
  else return count_enumerators<E, N + 1>();
}

template <class E>
consteval auto enum_names_of() {
  if constexpr (requires { E{0}; }) {  // only enums of a fixed type may take any value
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<std::string_view, sizeof...(I)>{
          last_identifier(spelled<static_cast<E>(I)>())...};
    }(std::make_index_sequence<count_enumerators<E>()>{});
  } else {
    return std::array<std::string_view, 0>{};
  }
}

}  // namespace detail

/// The names of the enumerators 0, 1, 2, ... up to the first number that has none.
template <class E>
inline constexpr auto enum_names = detail::enum_names_of<E>();

/// The number of members of the aggregate T.
template <class T>
consteval std::size_t field_count() {
  return detail::checked_field_count<std::remove_cv_t<T>>();
}

/// f(member...) with lvalues of all members, const where `t` is const.
template <class T, class F>
constexpr decltype(auto) with_fields(T& t, F&& f) {
  return detail::apply_to_members<field_count<T>()>(t, std::forward<F>(f));
}

/// A tuple of references to the members.
template <class T>
constexpr auto tie_fields(T& t) {
  return with_fields(t, detail::TieMembers{});
}

/// The names of the members, in declaration order.
template <class T>
consteval auto field_names() {
  return detail::field_names_of<std::remove_cv_t<T>>;
}

/// f(name, member) for each member, in declaration order.
template <class T, class F>
constexpr void for_each_field(T& t, F&& f) {
  constexpr auto& names = detail::field_names_of<std::remove_cv_t<T>>;
  with_fields(t, [&](auto&... m) {
    [[maybe_unused]] std::size_t i = 0;
    (f(names[i++], m), ...);
  });
}

}  // namespace v1
}  // namespace telamon

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
