// Which sanitizer this is compiled with: TELAMON_ASAN, TELAMON_TSAN, or neither.
#pragma once

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
