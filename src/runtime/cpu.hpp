// The host's instruction set: which of the builds of the numeric kernels this process runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The instruction sets that kernels are compiled for. `generic` is the baseline of the platform
/// (SSE2 on x86-64), `avx2` includes FMA, `avx512` means F, BW, CD, DQ and VL.
enum class Isa : std::uint8_t { generic, avx2, avx512 };
inline constexpr int kNumIsas = 3;

/// What the processor and the operating system support, whatever the environment says.
TELAMON_API Isa supported_isa();

/// The instruction set in use, found once: `supported_isa()`, or a lower one named by the
/// environment variable TELAMON_ISA (generic, avx2, avx512). Others are ignored, which is said once.
TELAMON_API Isa host_isa();

/// Bytes in a full vector register: 16, 32, 64.
constexpr std::size_t vector_bytes(Isa isa) { return std::size_t{16} << static_cast<int>(isa); }
inline std::size_t vector_bytes() { return vector_bytes(host_isa()); }

/// Whether pairs of bf16 are multiplied and added to a sum at once, with AVX-512 (vdpbf16ps). The operation takes denormal
/// numbers for zeros, and makes zeros of those that come out.
TELAMON_API bool multiplies_bf16_pairs(Isa isa);

/// How many vector registers there are: twice as many with AVX-512 as before it, and on AArch64.
constexpr int vector_registers(Isa isa) {
#ifdef __aarch64__
  constexpr bool many = true;
#else
  constexpr bool many = false;
#endif
  return many || isa == Isa::avx512 ? 32 : 16;
}

/// Bytes of the cache for data of level 1, 2, ... that the first processor has or shares; 0 where there is none,
/// or the system does not say.
TELAMON_API std::int64_t data_cache_bytes(int level);
/// Of the last level.
TELAMON_API std::int64_t last_cache_bytes();

TELAMON_API std::string_view isa_name(Isa isa);  ///< "generic", "avx2", "avx512"

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
