// SourceLocation: printing.
#include "telamon/source_location.hpp"

#include <ostream>
#include <string_view>

namespace telamon {
inline namespace v1 {

std::string SourceLocation::to_string() const {
  if (!file) return "";
  std::string_view name = file;
  name.remove_prefix(name.find_last_of('/') + 1);  // npos + 1 == 0: a name without a folder
  std::string text = std::string(name) + ":" + std::to_string(line);
  if (function && *function) text.append(" in ").append(function);
  return text;
}

std::ostream& operator<<(std::ostream& os, const SourceLocation& where) {
  return os << where.to_string();
}

}  // namespace v1
}  // namespace telamon
