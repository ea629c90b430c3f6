// The texts of failed checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The message with its {} replaced; {{ and }} are braces.
std::string format_message(std::string_view message, const std::vector<std::string>& values);
/// "at mapped index 1, 0: "
std::string lane_text(std::int64_t lane, const std::vector<std::int64_t>& shape);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
