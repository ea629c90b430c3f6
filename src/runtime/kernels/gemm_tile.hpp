// What a matrix product loop works on.
#pragma once

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace kernels {

/// c (m, n) = a (m, k) b (k, n). Strides count elements; columns of b and c are adjacent.
struct GemmTile {
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row, a_column;
  const void* b;
  std::int64_t b_row;
  void* c;
  std::int64_t c_row;
};
using GemmLoop = void (*)(const GemmTile& tile);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
