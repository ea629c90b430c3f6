// The caching allocator behind array buffers, arenas and temporaries.
//
// Fresh pages are the largest cost of array programs, so memory that is given back is kept for the
// next request of its size class: four classes to a doubling, thread-local lists up to 32 KiB, a
// shared list beyond. Blocks are aligned to 64 bytes, from 2 KiB on to 512, at different places of their pages,
// and from 2 MiB on lie in huge pages where the system grants them. The allocator is never destroyed: it may be used before
// main, while static and thread-local objects are destroyed, and after; and in a child after fork().
#pragma once

#include <cstddef>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// At least `bytes` bytes (0 is allowed), not initialised. OutOfMemoryError says how many were wanted.
TELAMON_API void* allocate(std::size_t bytes);
/// Gives back a block with the size it was asked for. Null is ignored.
TELAMON_API void deallocate(void* block, std::size_t bytes) noexcept;

/// No block can be larger: the machine's memory, with its swap space.
TELAMON_API std::size_t memory_limit();

/// The size of the block that a request for `bytes` gets.
TELAMON_API std::size_t allocation_size(std::size_t bytes);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
