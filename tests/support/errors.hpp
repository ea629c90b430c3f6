// The errors that functions throw, as text.
#pragma once

#include <string>

#include "telamon/error.hpp"

namespace telamon_test {

/// The text of the error of type E that f throws, with the user's line and the transformations under
/// way; "" when it throws none. Any other exception passes through and fails the test.
template <class E = telamon::Error, class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); }
  return "";
}

/// The same, but the message alone.
template <class E = telamon::Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& e) { return e.message(); }
  return "";
}

}  // namespace telamon_test
