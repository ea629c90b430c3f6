// Files by key, shared with other processes: the store below telamon/disk_cache.hpp.
//
// A file is a header with a checksum and the bytes. It is written without a name, or under a temporary
// one, so a reader meets whole files only, whoever is killed when. Nothing here throws: what does not work
// is counted, logged with TELAMON_LOG=cache, and as good as absent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/pages.hpp"
#include "telamon/disk_cache.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace disk_cache {

using Key = std::array<std::uint8_t, 32>;

/// The folder, from the environment, read anew at each call; empty when the cache is switched off.
TELAMON_API std::string folder();

/// The bytes stored under the key, at the begin of pages of their own. Counts a hit or a miss, and damage
/// as an error besides.
TELAMON_API std::optional<Pages> load(const Key& key);

/// Stores the bytes; removes the files that were not used for longest where the bound is exceeded.
TELAMON_API void store(const Key& key, std::string_view bytes);

/// What was loaded under the key cannot be used after all: the hit becomes a miss and an error, and
/// the file goes.
TELAMON_API void reject(const Key& key, std::string_view why);

/// Removes temporary files left by processes that were killed, and what exceeds the bound.
TELAMON_API void trim();

/// Why the folder is not used; empty where it is, or is not there yet.
TELAMON_API std::string refusal();

struct Cleared {
  std::int64_t removed = 0;  ///< programs
  std::string failure;       ///< the refusal of the folder, or of the first file that stays
};
/// Removes all files.
TELAMON_API Cleared clear();

}  // namespace disk_cache
}  // namespace runtime
}  // namespace v1
}  // namespace telamon
