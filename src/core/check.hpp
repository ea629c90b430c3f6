// TELAMON_CHECK: for programming errors of ours. Says which invariant broke.
#pragma once

#include "telamon/error.hpp"

#define TELAMON_CHECK(condition, message)                                                       \
  do {                                                                                          \
    if (!(condition)) ::telamon::detail::check_failed(#condition, __FILE__, __LINE__, message); \
  } while (false)
