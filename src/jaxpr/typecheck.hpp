// The part of type checking that looks at names only.
#pragma once

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether every variable is bound once, in the order of its number, before it is used, and has a
/// type. TypeError if not: typecheck_jaxpr begins with it, and so does every jaxpr of debug builds.
/// Nested jaxprs are not looked into.
void check_binding(const Jaxpr& jaxpr);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
