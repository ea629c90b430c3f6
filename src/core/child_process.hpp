// Work in a process of its own: what would end this one ends that one, and is an answer.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct ChildResult {
  std::string told;                                  ///< what it told, up to its end
  int status = 0;                                    ///< as waitpid gives it
  std::optional<std::chrono::seconds> silence = {};  ///< for which it was killed
  bool well() const { return status == 0; }
  /// "ends with signal 11 (Segmentation fault)", "ends with exit code 3", "does not end within 60 s"
  TELAMON_API std::string end() const;
};

/// Calls body(tell) in a child, which ends after it, or with this process, and leaves no core behind. What
/// tell is given is there even if the child ends at the next instruction. A child that neither tells nor
/// ends for as long as `limit` is killed. InternalError when the system grants no process.
TELAMON_API ChildResult
run_in_child(const std::function<void(const std::function<void(std::string_view)>& tell)>& body,
             std::optional<std::chrono::seconds> limit = {});

}  // namespace detail
}  // namespace v1
}  // namespace telamon
