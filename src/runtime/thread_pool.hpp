// The thread pool: loops over chunks.
//
// A loop is cut into chunks by the shape of the work, so results are bitwise the same for any number of
// threads. Only where no result depends on the cuts (tiles of products, parts of scatters) may these count
// the threads. The caller works too and returns when all chunks are done.
// Workers watch for the next loop for about 50 us before they sleep: loops that follow closely start
// in under a microsecond. To wake them costs tens of microseconds, so that is done for loops that took
// long the last time, and for short ones that follow each other closely; a short loop that comes alone
// is run by the caller. A loop inside a chunk runs serially, as does one started while another thread's
// loop has the pool, or where there is no memory for workers. A child after fork() makes its own pool.
// There are never more workers than the number of threads asks for: they start with the first loop that
// needs them, and leave when the number falls or, if a loop is under way, when that has ended.
#pragma once

#include <cstdint>
#include <type_traits>

#include "telamon/config.hpp"
#include "telamon/threads.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// Calls body(context, i) for 0 <= i < chunks, in any order, on several threads. The first exception
/// stops chunks that have not begun and is rethrown here after all others have ended. `work` tells
/// loops of one body apart whose chunks take different times.
TELAMON_API void parallel_for(std::int64_t chunks, void (*body)(void* context, std::int64_t chunk),
                              void* context, const void* work = nullptr);

/// The same for any callable: parallel_for(n, [&](std::int64_t chunk) { ... }).
template <class Body>
void parallel_for(std::int64_t chunks, Body&& body, const void* work = nullptr) {
  using Callable = std::remove_reference_t<Body>;
  parallel_for(
      chunks, [](void* context, std::int64_t chunk) { (*static_cast<Callable*>(context))(chunk); },
      const_cast<void*>(static_cast<const void*>(&body)), work);
}

using v1::num_threads;
using v1::set_num_threads;

/// Whether this thread is inside a chunk, where further loops run serially.
TELAMON_API bool in_parallel_region();

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
