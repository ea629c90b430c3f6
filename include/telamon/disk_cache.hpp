// The disk cache: machine code that one process has compiled and the next one finds. A program is
// known by a hash of its operations, of the compiler's switches, the processor and this build of the
// library; loading it takes a fraction of a millisecond.
//
// It lies in TELAMON_CACHE_DIR, by default ${XDG_CACHE_HOME:-~/.cache}/telamon; TELAMON_CACHE_DIR=none
// switches it off. TELAMON_CACHE_SIZE bounds what it takes of the disk, in mebibytes: 512 if not set. What is damaged, foreign
// or cannot be written is left aside, and the program compiled as if there were no cache.
#pragma once

#include <cstdint>
#include <string>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// What this process has had of the disk cache.
struct DiskCacheCounters {
  std::int64_t hits = 0;       ///< programs loaded instead of compiled
  std::int64_t misses = 0;     ///< programs looked for in vain
  std::int64_t stores = 0;     ///< programs written
  std::int64_t evictions = 0;  ///< files removed to keep within the bound
  std::int64_t errors = 0;     ///< damaged files, folders that cannot be used, failed writes
};
TELAMON_API DiskCacheCounters disk_cache_counters();

/// What lies in the folder now, from whatever process.
struct DiskCacheContents {
  std::string folder;      ///< empty: the cache is switched off
  std::int64_t files = 0;  ///< programs
  std::int64_t bytes = 0;  ///< that all files take of the disk, in whole blocks
  std::int64_t bound = 0;  ///< in bytes
};
TELAMON_API DiskCacheContents disk_cache_contents();

/// Removes all programs; says how many it has removed.
TELAMON_API std::int64_t clear_disk_cache();

}  // namespace v1
}  // namespace telamon
