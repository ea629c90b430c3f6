// Reading jaxprs from files.
#pragma once

#include <string>
#include <string_view>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// parse_jaxpr and typecheck_jaxpr for the text of this file: errors name it, and show equations as they are
/// written there. The equations know their lines, so that whatever is wrong with one of them later is "at
/// sum.jaxpr:3". TypeError for types that do not fit.
TELAMON_API Jaxpr parse_jaxpr_of_file(std::string_view text, const std::string& path);

/// parse_jaxpr for what may be ill-typed, which typecheck_jaxpr is to say.
TELAMON_API Jaxpr parse_untyped_jaxpr(std::string_view text);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
