// Sorting of runs of unsigned integers: what sort.cpp and the instruction sets share.
#pragma once

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace kernels {

/// What keys are written as: some of their bits the other way round, which depends on their highest bit.
struct KeyBits {
  std::uint64_t if_set = 0, if_clear = 0;
};

/// n keys, which are destroyed, to be written in ascending order to `out`. `scratch` has room for n
/// keys too; none of the three overlap.
struct SortRun {
  void* keys;
  void* scratch;
  void* out;
  std::int64_t n;
  KeyBits turned = {};
};

/// A tile, of which sorting needs one, has this many rows of one register each.
inline constexpr int kSortTileRows = 1024;
inline constexpr int kSortTileBytes = kSortTileRows * 64;

/// Sorts several runs; bytes: of a key, 4 or 8. The tile is aligned to 64 bytes.
using SortRuns = void (*)(int key_bytes, const SortRun* runs, std::int64_t count, void* tile);

/// Of entries: some words differ from that of the first element; some elements do not come back from their
/// keys as they were.
inline constexpr unsigned kEntriesDiffer = 1, kEntriesSpecial = 2;

/// Elements of one dtype as unsigned integers of the same order.
struct SortKeys {
  int bytes;       ///< of a key, 4 or 8; 0: the dtype has none
  KeyBits turned;  ///< by which keys as large as elements become these again
  /// Keys of n adjacent elements; true if some of them do not come back as they were.
  bool (*encode)(const char* from, std::int64_t n, void* keys);
  void (*decode)(const void* keys, std::int64_t n, char* to);
  /// Writes the zeros and NaNs of a sorted line again, in the order of the operand.
  void (*restore)(const char* from, std::int64_t n, char* to);
  /// entries[i] = (word of the key of element order[i], i), for first <= i < last; word 0 is the lowest
  /// 32 bits. `order` may be null: 0, 1, ... Returns what it has found.
  unsigned (*entries)(const char* line, std::int64_t stride, const std::uint32_t* order,
                      std::int64_t first, std::int64_t last, int word, std::uint64_t* entries);
};

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
