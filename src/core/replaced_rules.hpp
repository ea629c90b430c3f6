// What the disk cache and calls of rules ask of a primitive: whether its code may be a user's.
#pragma once

#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether the primitive got rules after it was made.
bool has_replaced_rules(const PrimitiveBase& primitive);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
