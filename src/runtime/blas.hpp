// BLAS, loaded on first use: OpenBLAS if the machine has it.
#pragma once

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The Fortran interface with 32-bit integers: everything by reference, matrices in column-major order.
using Sgemm = void (*)(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);
using Dgemm = void (*)(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const double* alpha, const double* a, const int* lda,
                       const double* b, const int* ldb, const double* beta, double* c,
                       const int* ldc);

struct Blas {
  Sgemm sgemm = nullptr;  ///< null if no library was found
  Dgemm dgemm = nullptr;
  explicit operator bool() const { return sgemm != nullptr && dgemm != nullptr; }
};

/// The library that the environment variable TELAMON_BLAS names ("none": no library), else
/// libopenblas. It is told to use one thread: work is shared out by our own pool.
TELAMON_API const Blas& blas();

/// Any other symbol of the library, such as "dgetrf_"; null if it or the library is absent.
TELAMON_API void* blas_symbol(const char* name);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
