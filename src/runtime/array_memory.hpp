// Memory for what kernels read and write: elements of arrays, arenas and temporaries.
//
// It is the allocator's, but in a library built with TELAMON_GUARD_PAGES, which is for checks alone: there each block
// ends at a page that nobody may touch, or begins behind one, and a kernel that goes too far ends the program.
#pragma once

#include <cstddef>

#include "runtime/allocator.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

#ifdef TELAMON_GUARD_PAGES
inline constexpr bool kGuardsArrays = true;
/// As `allocate`. The block ends at the forbidden page, as nearly as it may be aligned, and what is left
/// between must be the same when it is given back; with TELAMON_GUARD=before it begins there.
void* allocate_array(std::size_t bytes);
void deallocate_array(void* block, std::size_t bytes) noexcept;
#else
inline constexpr bool kGuardsArrays = false;
inline void* allocate_array(std::size_t bytes) { return allocate(bytes); }
inline void deallocate_array(void* block, std::size_t bytes) noexcept { deallocate(block, bytes); }
#endif

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
