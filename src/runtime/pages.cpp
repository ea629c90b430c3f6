// Pages from mmap.
#include "runtime/pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace runtime {

std::optional<Pages> Pages::take(std::size_t bytes) {
#if defined(MAP_POPULATE)
  constexpr int kAtOnce = MAP_POPULATE;
#else
  constexpr int kAtOnce = 0;
#endif
  void* const begin = ::mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | kAtOnce, -1, 0);
  if (begin == MAP_FAILED) return std::nullopt;
  return Pages(static_cast<char*>(begin), bytes);
}

bool can_take(std::size_t bytes) {
#if defined(MAP_NORESERVE)
  constexpr int kUntouched = MAP_NORESERVE;
#else
  constexpr int kUntouched = 0;
#endif
  void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | kUntouched, -1, 0);
  if (begin == MAP_FAILED) return false;
  ::munmap(begin, bytes);
  return true;
}

Pages::Pages(Pages&& o) noexcept
    : begin_(std::exchange(o.begin_, nullptr)), size_(std::exchange(o.size_, 0)) {}

Pages& Pages::operator=(Pages&& o) noexcept {
  std::swap(begin_, o.begin_);
  std::swap(size_, o.size_);
  return *this;
}

Pages::~Pages() {
  if (begin_ != nullptr) ::munmap(begin_, std::max<std::size_t>(size_, 1));
}

bool Pages::make_executable() {
  if (::mprotect(begin_, std::max<std::size_t>(size_, 1), PROT_READ | PROT_EXEC) != 0) return false;
  __builtin___clear_cache(begin_, begin_ + size_);
  return true;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
