// Threefry-2x32 over contiguous runs, for one instruction set: sixteen ciphers at a time in AVX-512.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

TELAMON_INLINE std::uint32_t rotate_left(std::uint32_t x, int by) {
  return (x << by) | (x >> (32 - by));
}

// Twenty rounds, a key injection after every four (Salmon et al. 2011, figure 3 and table 2).
template <int R0, int R1, int R2, int R3>
TELAMON_INLINE void four_rounds(std::uint32_t& x0, std::uint32_t& x1) {
  x0 += x1;
  x1 = rotate_left(x1, R0) ^ x0;
  x0 += x1;
  x1 = rotate_left(x1, R1) ^ x0;
  x0 += x1;
  x1 = rotate_left(x1, R2) ^ x0;
  x0 += x1;
  x1 = rotate_left(x1, R3) ^ x0;
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" void TELAMON_ISA_SYMBOL(threefry2x32)(std::int64_t n, const std::uint32_t* const* in,
                                                 std::uint32_t* out0, std::uint32_t* out1) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  const std::uint32_t *k0 = in[0], *k1 = in[1], *c0 = in[2], *c1 = in[3];
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t a = k0[i], b = k1[i], c = a ^ b ^ 0x1bd11bdau;
    std::uint32_t x0 = c0[i] + a, x1 = c1[i] + b;
    four_rounds<13, 15, 26, 6>(x0, x1);
    x0 += b;
    x1 += c + 1;
    four_rounds<17, 29, 16, 24>(x0, x1);
    x0 += c;
    x1 += a + 2;
    four_rounds<13, 15, 26, 6>(x0, x1);
    x0 += a;
    x1 += b + 3;
    four_rounds<17, 29, 16, 24>(x0, x1);
    x0 += b;
    x1 += c + 4;
    four_rounds<13, 15, 26, 6>(x0, x1);
    out0[i] = x0 + c;
    out1[i] = x1 + a + 5;
  }
}
