// The memory of arrays: how much there is, and how to give it back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// What array buffers, arenas of compiled programs and temporaries take. Freed blocks are kept for
/// the next array of about their size, since fresh memory is the largest cost of many programs.
struct MemoryStats {
  std::size_t in_use = 0;  ///< bytes in blocks that are allocated, rounded up to their classes
  std::size_t cached = 0;  ///< bytes kept for reuse
  std::size_t peak = 0;    ///< most bytes in blocks over 32 KiB at once, since the last reset
  std::int64_t allocations = 0;  ///< blocks given out since the start of the process
  std::int64_t reused = 0;       ///< those of them that a kept block served
};
/// Other threads go on meanwhile: what they take or give back at the moment may count as in use.
TELAMON_API MemoryStats memory_stats();
/// From now on `peak` is that of what follows.
TELAMON_API void reset_peak_memory();

/// Returns the large blocks that are kept (those over 32 KiB) to the system, and says how many bytes
/// they had. Later arrays of their sizes start with fresh memory again.
TELAMON_API std::size_t trim_memory();

/// The most bytes that are kept in large blocks: what is freed beyond goes to the system at once. At
/// first a quarter of the machine's memory, or the environment variable TELAMON_CACHE_MIB.
TELAMON_API std::size_t memory_cache_limit();
TELAMON_API void set_memory_cache_limit(std::size_t bytes);

}  // namespace v1
}  // namespace telamon
