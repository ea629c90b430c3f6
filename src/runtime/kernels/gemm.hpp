// Matrix products of strided matrices.
#pragma once

#include <utility>

#include "runtime/cpu.hpp"
#include "runtime/kernels/elementwise.hpp"
#include "runtime/kernels/gemm_tile.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]. All of one dtype and rank 3, with any
/// strides (so transposes cost no copy); integers wrap, bool is or of ands; f16 and bf16 accumulate in
/// f32, and the result of these may be of f32. `out` is contiguous.
/// Results do not depend on the number of threads: few results of many terms are summed in parts, which are a matter
/// of the shapes.
TELAMON_API void run_matmul(const View& lhs, const View& rhs, const View& out);

/// For elements of `size` bytes, with so many bytes in the first and the second cache (0: not known); deep ones for
/// many rows.
TELAMON_API GemmBlocks gemm_blocks(runtime::Isa isa, std::int64_t size, std::int64_t first,
                                   std::int64_t second, bool deep);
/// The same as run_matmul, in other blocks than this machine's.
TELAMON_API void run_matmul_in(const GemmBlocks& blocks, const View& lhs, const View& rhs,
                               const View& out);

/// A batch of matrices transposed, where they lie.
inline View transposed(View v) {
  std::swap(v.shape[1], v.shape[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}
/// The same as run_matmul of complex numbers, by products of real ones; null: in this machine's blocks.
void run_complex_matmul(const GemmBlocks* blocks, const View& lhs, const View& rhs,
                        const View& out);

/// Of products whose right operand lies by rows the compiler makes loops up to so many multiplications, which add in order.
inline constexpr std::int64_t kMostInLoops = 64 * 64 * 64;
/// From so many rows on, how a row is summed does not depend on how many there are, but for what has so many terms, and so
/// few results, that the terms are cut into parts.
inline constexpr std::int64_t kLeastOfRows = 64;

/// `batch` products of m x k by k x n elements.
struct ProductSize {
  std::int64_t batch, m, n, k;
};
/// Whether products of bf16 are taken by pairs of terms, as they lie in memory, by a processor of this set: where it can,
/// for what is not small.
TELAMON_API bool multiplies_by_pairs(runtime::Isa isa, const ProductSize& size);
/// The fewest rows of a block of the left operand, which lies by rows, that are summed as they are in the whole product of
/// f32 or f64: in tiles or as inner products.
TELAMON_API std::int64_t least_rows_of_block(DType dtype, const ProductSize& size,
                                             bool b_by_columns);
/// The bytes that products of floats take for themselves, at most, with so many threads.
TELAMON_API std::int64_t matmul_scratch(DType dtype, const ProductSize& size, int threads);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
