// The random number generator's block cipher.
#pragma once

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
/// 2, 3; 2011): the two words of the cipher of the counter (x0, x1) under the key (k0, k1). All u32;
/// operands are scalars or of the results' shape; results are contiguous.
TELAMON_API void run_threefry2x32(const View& k0, const View& k1, const View& x0, const View& x1,
                                  const View& out0, const View& out1);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
