// Reading jaxprs from files.
#pragma once

#include <string>
#include <string_view>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// parse_jaxpr for the text of this file: errors name it, and the equations know their lines in it, so
/// that whatever is wrong with one of them later, typecheck_jaxpr included, is "at sum.jaxpr:3".
TELAMON_API Jaxpr parse_jaxpr_of_file(std::string_view text, const std::string& path);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
