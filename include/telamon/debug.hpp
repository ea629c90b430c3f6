// Switches that find mistakes in programs that use the library. They cost time and are off unless
// their environment variable is "1".
#pragma once

#include "telamon/config.hpp"
#include "telamon/error.hpp"

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

/// TELAMON_EXPLAIN_CACHE_MISSES: each time that jit has to trace a function, standard error says which
/// one and what differs from the signatures that were known: shapes, dtypes, static values, structure.
TELAMON_API bool explain_cache_misses();
TELAMON_API void set_explain_cache_misses(bool on);

/// TELAMON_DEBUG_NANS: an operation that gives a NaN is a FloatingPointError, which names it and the
/// line of the program. A compiled program with a NaN among its results runs once more, operation by
/// operation, to find where it came from.
TELAMON_API bool debug_nans();
TELAMON_API void set_debug_nans(bool on);

/// The same for a scope, in whichever thread.
class TELAMON_API DebugNans {
 public:
  explicit DebugNans(bool on = true) : before_(debug_nans()) { set_debug_nans(on); }
  ~DebugNans() { set_debug_nans(before_); }
  DebugNans(const DebugNans&) = delete;
  DebugNans& operator=(const DebugNans&) = delete;

 private:
  bool before_;
};

/// An operation gave a NaN, and `debug_nans` is on.
class TELAMON_API FloatingPointError : public Error {
 public:
  using Error::Error;
};

}  // namespace v1
}  // namespace telamon
