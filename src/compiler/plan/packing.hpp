// Blocks of memory by live range, in one arena of as few bytes as can be found quickly. The least is
// NP-hard (dynamic storage allocation; Garey and Johnson, 1979, SR2).
#pragma once

#include <cstdint>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// `bytes`, if a machine can have as many (2^56; sums of such sizes do not overflow); else an
/// OutOfMemoryError.
std::int64_t possible(std::int64_t bytes);

constexpr std::int64_t kAlignment = 64;  ///< of blocks

struct LiveRange {
  int first = -1, last = -1;  // steps
  bool apart(const LiveRange& o) const { return last < o.first || o.last < first; }
  bool contains(const LiveRange& o) const { return first <= o.first && o.last <= last; }
};

/// Sizes are multiples of kAlignment.
struct Block {
  LiveRange range;
  std::int64_t size = 0;    ///< with what keeps the next one apart
  std::int64_t needed = 0;  ///< without it
  std::int64_t offset = 0;
  std::int64_t end() const { return offset + size; }
};

/// Blocks that are added in the order in which they begin.
class TELAMON_API Packing {
 public:
  /// The number of a new block.
  std::int64_t add(const LiveRange& range, std::int64_t size);
  /// The block lives on, under another name.
  void extend(std::int64_t block, int last) { at(block).range.last = last; }
  std::int64_t offset(std::int64_t block) { return at(block).offset; }
  const std::vector<Block>& blocks() const { return blocks_; }

  std::int64_t bytes = 0;
  std::int64_t most_alive = 0;  ///< bytes that living blocks need
  /// Once all are there.
  void pack(bool reuse);

 private:
  Block& at(std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  std::vector<Block> blocks_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
