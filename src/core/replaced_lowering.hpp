// What the disk cache asks of a primitive: whether its code may be a user's.
#pragma once

#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether the primitive got a lowering after it was made.
bool has_replaced_lowering(const PrimitiveBase& primitive);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
