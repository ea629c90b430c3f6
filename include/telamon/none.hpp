// tl::none: "no value" for every optional argument, as Python's None: an axis that is not mapped,
// the open end of a slice.
#pragma once

#include <optional>

namespace telamon {
inline namespace v1 {

inline constexpr std::nullopt_t none = std::nullopt;

}  // namespace v1
}  // namespace telamon
