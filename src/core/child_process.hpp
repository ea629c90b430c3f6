// Work in a process of its own: what would end this one ends that one, and is an answer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct ChildResult {
  std::string told;  ///< what it told, up to its end
  int status = 0;    ///< as waitpid gives it
  bool well() const { return status == 0; }
  /// "signal 11 (Segmentation fault)", "exit code 3"
  TELAMON_API std::string end() const;
};

/// Calls body(tell) in a child, which ends after it, and leaves no core behind. What tell is given is there
/// even if the child ends at the next instruction. InternalError when the system grants no process.
TELAMON_API ChildResult
run_in_child(const std::function<void(const std::function<void(std::string_view)>& tell)>& body);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
