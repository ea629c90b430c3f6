// What a matrix product loop works on.
#pragma once

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace kernels {

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
  void* workspace;          ///< gemm_workspace bytes
  std::int64_t depth, far;  ///< of GemmBlocks
};

constexpr std::int64_t kGemmDepth = 512;  // at most
/// Bytes for a strip of b, 256 bytes wide, and for m rows of a, of elements of 4 or 8 bytes.
constexpr std::int64_t gemm_workspace(std::int64_t m, std::int64_t size) {
  return kGemmDepth * (256 + m * size);
}
/// Of so many rows, at most, all of b is read where it lies, once.
constexpr std::int64_t kFewRows = 4;
/// Rows of a matrix whose products with a vector are taken side by side.
constexpr std::int64_t kDotRows = 6;
using GemmLoop = void (*)(const GemmTile& tile);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
