// Names that outlive whoever made them.
#pragma once

#include <string>

namespace telamon {
inline namespace v1 {
namespace detail {

/// The name, which lives forever: for donated buffers, which say what call took them, and equations, which say
/// what file they come from. Equal names are one.
const char* kept_name(const std::string& name);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
