// Environment variables that hold lists of words, separated by commas.
#include "core/environment.hpp"

#include <cstdlib>

namespace telamon {
inline namespace v1 {
namespace detail {

bool environment_lists(const char* variable, std::string_view word) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
