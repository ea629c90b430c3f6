// Export macro and version: the only macros of the public headers.
#pragma once

#if defined(TELAMON_STATIC)
#define TELAMON_API
#else
#define TELAMON_API __attribute__((visibility("default")))
#endif

#define TELAMON_VERSION_MAJOR 0
#define TELAMON_VERSION_MINOR 1
#define TELAMON_VERSION_PATCH 0
