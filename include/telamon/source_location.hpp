// SourceLocation: the line of the user's program that an equation or an error comes from.
#pragma once

#include <iosfwd>
#include <string>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// A call site. Captured as a default argument, so that it works for operators too.
struct SourceLocation {
  const char* file = nullptr;
  int line = 0;
  const char* function = nullptr;
  const char* call = nullptr;  ///< the public function that was called there, where it is known

  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE(),
                                          const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
  explicit operator bool() const { return file != nullptr; }
  /// "train.cpp:31 in loss", or "" when unknown. The folder is left out.
  TELAMON_API std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const SourceLocation& where);

namespace detail {

/// Remembers the outermost public call's location and name while it is in scope: that is the line that
/// equations keep and errors show. `call` must live forever, since equations keep it too.
class TELAMON_API CallSite {
 public:
  explicit CallSite(SourceLocation where, const char* call = nullptr);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

 private:
  bool outermost_;
};

/// A SourceLocation that braces cannot make. Where braces hold numbers, as in Array{{1, 2}, {0, 0}},
/// the last of them must not be taken for a place.
class Caller {
 public:
  static constexpr Caller current(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                                  const char* function = __builtin_FUNCTION()) {
    return Caller(SourceLocation{file, line, function});
  }
  constexpr operator SourceLocation() const { return where_; }

 private:
  explicit constexpr Caller(SourceLocation where) : where_(where) {}
  SourceLocation where_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
