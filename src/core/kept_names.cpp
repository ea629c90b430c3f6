// Names are few, and nobody knows when the last buffer or equation that has one is gone.
#include "core/kept_names.hpp"

#include <mutex>
#include <set>

namespace telamon {
inline namespace v1 {
namespace detail {

const char* kept_name(const std::string& name) {
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
