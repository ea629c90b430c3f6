// Transposition of blocks for one instruction set: squares of as many elements as a register has, of 4 and of 8 bytes.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/transpose_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class V>
void transpose_block(std::int64_t rows, std::int64_t columns, const char* from,
                     std::int64_t from_stride, char* to, std::int64_t to_stride) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount, kSize = sizeof(V) / kLanes;
  const std::int64_t whole_rows = rows / kLanes * kLanes, whole = columns / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole_rows; i += kLanes) {
    for (std::int64_t j = 0; j < whole; j += kLanes) {
      V block[kLanes];
      const char* x = from + j * from_stride + i * kSize;
#pragma GCC unroll 16
      for (std::int64_t k = 0; k < kLanes; ++k)
        __builtin_memcpy(&block[k], x + k * from_stride, sizeof(V));
      transpose(block);
      char* y = to + i * to_stride + j * kSize;
#pragma GCC unroll 16
      for (std::int64_t k = 0; k < kLanes; ++k)
        __builtin_memcpy(y + k * to_stride, &block[k], sizeof(V));
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole : 0; j < columns; ++j)
      __builtin_memcpy(to + i * to_stride + j * kSize, from + j * from_stride + i * kSize, kSize);
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::TransposeLoop TELAMON_ISA_SYMBOL(transpose_loop)(int size) {
  using namespace telamon::loops;
  return size == 4   ? transpose_block<telamon::simd::F32>
         : size == 8 ? transpose_block<telamon::simd::F64>
                     : nullptr;
}
