// Which build of the library this is.
#pragma once

#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// A hash of all sources and of the settings they were compiled with (cmake/BuildId.cmake).
std::string_view build_id();

}  // namespace detail
}  // namespace v1
}  // namespace telamon
