// So many threads for a while.
#pragma once

#include "telamon/threads.hpp"

namespace telamon_test {

/// While it lives, programs use so many threads; then as many as before.
class WithThreads {
 public:
  explicit WithThreads(int threads) { telamon::set_num_threads(threads); }
  ~WithThreads() { telamon::set_num_threads(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  const int before_ = telamon::num_threads();
};

}  // namespace telamon_test
