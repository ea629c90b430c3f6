// The part of type checking that looks at names only.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether every variable is bound once, in the order of its number, before it is used, and has a
/// type. TypeError if not: typecheck_jaxpr begins with it, and so does every jaxpr of debug builds.
/// Nested jaxprs are not looked into.
void check_binding(const Jaxpr& jaxpr);

/// TypeError unless variables of these types may be bound to what the primitive's abstract_eval rule gives,
/// by an equation of this effect. `name` says what a binder is called.
void check_results(const PrimitiveBase& primitive, const AbstractResult& result,
                   std::span<const Aval> binders, Effect effect,
                   const std::function<std::string(std::size_t)>& name);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
