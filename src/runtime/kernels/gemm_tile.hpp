// What a matrix product loop works on.
#pragma once

#include <cstdint>
#include <limits>

namespace telamon {
inline namespace v1 {
namespace kernels {

/// How much of a product of floats is kept in the caches. The results are the same for all of these.
struct GemmBlocks {
  std::int64_t depth = 512;  ///< elements of the summed dimension at a time, at most
  std::int64_t rows =
      512;  ///< of a, which meet one strip of b after the other: so many of the whole depth; 6 at least
  std::int64_t columns = 0;   ///< of b, packed for all rows of a tile; one strip at least
  std::int64_t height = 512;  ///< rows of a tile, at most
  /// Rows of a that lie so many bytes apart, or more, are packed: with few sets of the first cache for all of them
  /// they would drive each other out.
  std::int64_t far = std::numeric_limits<std::int64_t>::max();
};

/// c (m, n) = a (m, k) b (k, n). Strides count elements; columns of c are adjacent.
struct GemmTile {
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row, a_column;
  const void* b;
  std::int64_t b_row, b_column;
  void* c;
  std::int64_t c_row;
  // Of products of floats:
  void* workspace;  ///< gemm_workspace bytes
  GemmBlocks blocks;
};

/// Bytes for the packed columns of b and rows of a in a product of m rows, n columns and k terms, of elements of 4 or 8 bytes.
/// No strip of b is wider than 256 bytes, and where all rows are one block there is one strip at a time.
constexpr std::int64_t gemm_workspace(const GemmBlocks& blocks, std::int64_t m, std::int64_t n,
                                      std::int64_t k, std::int64_t size) {
  const std::int64_t strip = 256 / size, all = (n + strip - 1) / strip * strip;
  const std::int64_t depth = k < 1 ? 1 : k < blocks.depth ? k : blocks.depth;
  const std::int64_t rows = blocks.rows * blocks.depth / depth;
  const bool one = m <= rows || blocks.columns < strip;
  const std::int64_t columns = one ? strip : blocks.columns < all ? blocks.columns : all;
  return depth * size * (columns + (m < rows ? m : rows));
}
/// Of so many rows, at most, all of b is read where it lies, once.
constexpr std::int64_t kFewRows = 4;
/// Rows of a matrix whose products with a vector are taken side by side.
constexpr std::int64_t kDotRows = 6;
/// Rows and columns of a tile of inner products.
constexpr std::int64_t kThinRows = 4, kThinColumns = 3;
using GemmLoop = void (*)(const GemmTile& tile);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
