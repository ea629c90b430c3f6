// Blocks between pages that nobody may touch, each in pages of its own.
#include "runtime/array_memory.hpp"

#ifdef TELAMON_GUARD_PAGES
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/environment.hpp"
#include "core/size_errors.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kFill = 0xcb;

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Where a block of so many bytes lies in its pages, the first and the last of which are forbidden.
struct Layout {
  explicit Layout(std::size_t bytes) {
    static const bool before = detail::environment_word("TELAMON_GUARD") == "before";
    // Small arrays are aligned as their size asks for (DeviceBuffer::data_behind).
    const std::size_t align = std::clamp<std::size_t>(std::bit_ceil(bytes), 8, 64);
    const std::size_t size = rounded(bytes, align), inner = rounded(size, kPage);
    mapped = inner + 2 * kPage;
    block = before ? kPage : kPage + inner - size;
    left = before ? inner - bytes : size - bytes;
  }
  std::size_t mapped, block;
  std::size_t left;  // behind the block, before the forbidden page
};

}  // namespace

void* allocate_array(std::size_t bytes) {
  void* mapped = MAP_FAILED;
  if (bytes <= memory_limit()) {
    const Layout at(bytes);
    mapped =
        mmap(nullptr, at.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* const begin = static_cast<char*>(mapped);
    if (mapped != MAP_FAILED &&
        mprotect(begin + kPage, at.mapped - 2 * kPage, PROT_READ | PROT_WRITE) == 0) {
      std::memset(begin + at.block + bytes, kFill, at.left);
      return begin + at.block;
    }
    if (mapped != MAP_FAILED) munmap(mapped, at.mapped);
  }
  throw detail::UnnamedOutOfMemoryError("out of memory: " + std::to_string(bytes) +
                                        " bytes are wanted, between pages of their own");
}

void deallocate_array(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const Layout at(bytes);
  char* const end = static_cast<char*>(block) + bytes;
  if (!std::all_of(end, end + at.left, [](char c) { return c == static_cast<char>(kFill); })) {
    std::fprintf(stderr, "telamon: something was written behind a block of %zu bytes\n", bytes);
    std::abort();
  }
  munmap(static_cast<char*>(block) - at.block, at.mapped);
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
#endif
