// How many threads computations use.
#pragma once

#include "telamon/config.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {

/// The threads that share the work of one computation, the caller's included. At first as many as the
/// process may use processors, or the environment variable TELAMON_NUM_THREADS. Results do not depend
/// on it.
TELAMON_API int num_threads();

/// Sets that number, for all threads of the program; ValueError unless it is between 1 and 1024. Threads
/// beyond it end now, or with the loop over data that is under way; the loops that follow have it.
TELAMON_API void set_num_threads(int threads, SourceLocation where = SourceLocation::current());

}  // namespace v1
}  // namespace telamon
