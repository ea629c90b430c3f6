// Which sanitizer this is compiled with: TELAMON_ASAN, TELAMON_TSAN, or neither.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TELAMON_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TELAMON_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TELAMON_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TELAMON_TSAN 1
#endif
#endif
#if defined(TELAMON_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whoever touches this part of a block is told, under the address sanitizer, until the block is freed.
inline void forbid([[maybe_unused]] const std::byte* begin, [[maybe_unused]] const std::byte* end) {
#if defined(TELAMON_ASAN)
  ASAN_POISON_MEMORY_REGION(begin, static_cast<std::size_t>(end - begin));
#endif
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
