// Matrix products of strided matrices.
#pragma once

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]. All of one dtype and rank 3, with any
/// strides (so transposes cost no copy); integers wrap, bool is or of ands; f16 and bf16 accumulate in
/// f32. `out` is contiguous.
/// Results do not depend on the number of threads.
TELAMON_API void run_matmul(const View& lhs, const View& rhs, const View& out);

/// The bytes that products of f32 or f64 with so many rows take for themselves, at most, with so many
/// threads.
TELAMON_API std::int64_t matmul_scratch(DType dtype, std::int64_t rows, int threads);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
