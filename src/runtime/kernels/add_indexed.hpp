// Sums at places along one dimension: what histograms and deposits spend their time in.
#pragma once

#include <cstdint>

#include "runtime/kernels/window_loops.hpp"
#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// For i from 0 to n: operand[start i * step] += slice i. Strides and the step in bytes.
using AddIndexed = void (*)(std::int64_t n, const char* indices, std::int64_t stride,
                            const Starts& starts, std::int64_t step, char* operand,
                            const char* slices, std::int64_t slice_stride);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon

#define TELAMON_DECLARE_LOOP(isa)                                               \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::AddIndexed \
      telamon_##isa##_add_indexed(telamon::DType index_dtype, telamon::DType dtype);
TELAMON_DECLARE_LOOP(generic)
TELAMON_DECLARE_LOOP(avx2)
TELAMON_DECLARE_LOOP(avx512)
#undef TELAMON_DECLARE_LOOP
