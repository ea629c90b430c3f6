// Memory of its own pages: what is read or linked there can be run where it lies.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// Written to first, then run. Given back when it is destroyed.
class TELAMON_API Pages {
 public:
  /// None when the system has no memory. The pages come at once: a fault for each of them would take as
  /// long as everything else that is done with them.
  static std::optional<Pages> take(std::size_t bytes);
  Pages(Pages&& o) noexcept;
  Pages& operator=(Pages&& o) noexcept;
  ~Pages();

  char* begin() const { return begin_; }
  std::string_view bytes() const { return {begin_, size_}; }
  /// From now on it can be run, and no longer be written to; false if the system does not let it.
  bool make_executable();

 private:
  Pages(char* begin, std::size_t size) : begin_(begin), size_(size) {}
  char* begin_ = nullptr;
  std::size_t size_ = 0;  // as asked for
};

/// Whether the limits of the process (ulimit -v, ulimit -d) leave room for so many more bytes now.
TELAMON_API bool can_take(std::size_t bytes);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
