// Code identity: when two callables are known to be the same code, so that they may share traces.
#pragma once

#include <type_traits>

#include "telamon/detail/key.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// One address per type: types of anonymous namespaces differ too.
template <class... T>
inline constexpr char type_tag = 0;

/// Appends what tells apart callables of type F that are known by more than their address, and
/// returns true: nothing for closures without captures (the type is the code), the address of a
/// function, and for our transforms their options and the identity of what they transform. Returns
/// false where only the object itself is the code, as for closures with captures.
template <class F>
bool code_identity(const F& f, KeyBuilder& key) {
  if constexpr (requires { f.identity(key); }) {
    return f.identity(key);
  } else if constexpr (std::is_pointer_v<F>) {
    key.add(f);
    return true;
  } else {
    return std::is_empty_v<F>;
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
