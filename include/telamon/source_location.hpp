// SourceLocation: the line of the user's program that an equation or an error comes from.
#pragma once

#include <string>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// A call site. Captured as a default argument, so that it works for operators too.
struct SourceLocation {
  const char* file = nullptr;
  int line = 0;
  const char* function = nullptr;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE(),
                                          const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
  explicit operator bool() const { return file != nullptr; }
  /// "train.cpp:31 in loss", or "" when unknown. The folder is left out.
  TELAMON_API std::string to_string() const;
};

}  // namespace v1
}  // namespace telamon
