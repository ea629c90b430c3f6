// Which backends this build has: without LLVM there is no compiler, but all else is tested.
#pragma once

#include <gtest/gtest.h>

#include <vector>

namespace telamon_test {

inline constexpr bool kCompiles = TELAMON_WITH_LLVM != 0;

inline std::vector<const char*> backends() {
  return kCompiles ? std::vector{"interpret", "llvm"} : std::vector{"interpret"};
}

}  // namespace telamon_test

/// Ends a test whose rest is about compiled programs.
#define TELAMON_TEST_NEEDS_COMPILER() \
  if (!telamon_test::kCompiles) GTEST_SKIP() << "built without LLVM: there is no compiler"
