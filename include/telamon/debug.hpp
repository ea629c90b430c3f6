// Switches that find mistakes in programs that use the library. They cost time and are off unless
// their environment variable is "1".
#pragma once

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// TELAMON_CHECK_LEAKS: a transformation that ends while somebody still holds one of its tracers is a
/// LeakedTracerError at that place, and not only when the tracer is used.
TELAMON_API bool check_leaks();
TELAMON_API void set_check_leaks(bool on);

/// TELAMON_CHECK_CONSTANTS: each call of a jitted function traces it once more and compares the
/// program with the compiled one: a ValueError says that what the function captured has changed.
TELAMON_API bool check_constants();
TELAMON_API void set_check_constants(bool on);

}  // namespace v1
}  // namespace telamon
