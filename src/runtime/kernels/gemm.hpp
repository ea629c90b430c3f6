// Matrix products of strided matrices.
#pragma once

#include <limits>

#include "runtime/cpu.hpp"
#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]. All of one dtype and rank 3, with any
/// strides (so transposes cost no copy); integers wrap, bool is or of ands; f16 and bf16 accumulate in
/// f32. `out` is contiguous.
/// Results do not depend on the number of threads: few results of many terms are summed in parts, which are a matter
/// of the shapes.
TELAMON_API void run_matmul(const View& lhs, const View& rhs, const View& out);

/// How much of a product of floats is kept in the caches: so many elements of the summed dimension at a time, of so
/// many rows, at most 512 of both. Rows that lie so many bytes apart, or more, are packed: with few sets of the
/// first cache for all of them they would drive each other out. The results are the same for all of these.
struct GemmBlocks {
  std::int64_t depth = 512, rows = 512, far = std::numeric_limits<std::int64_t>::max();
};
/// For elements of `size` bytes, with so many bytes in the first and the second cache (0: not known).
TELAMON_API GemmBlocks gemm_blocks(runtime::Isa isa, std::int64_t size, std::int64_t first,
                                   std::int64_t second);
/// The same as run_matmul, in other blocks than this machine's.
TELAMON_API void run_matmul_in(const GemmBlocks& blocks, const View& lhs, const View& rhs,
                               const View& out);

/// `batch` products of m x k by k x n elements.
struct ProductSize {
  std::int64_t batch, m, n, k;
};
/// The bytes that such products of f32 or f64 take for themselves, at most, with so many threads.
TELAMON_API std::int64_t matmul_scratch(DType dtype, const ProductSize& size, int threads);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
