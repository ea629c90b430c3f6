// Environment variables that hold lists of words.
#pragma once

#include <string_view>

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether the variable holds the word: TELAMON_LOG=compile,jit holds "jit". Read anew at each call.
bool environment_lists(const char* variable, std::string_view word);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
