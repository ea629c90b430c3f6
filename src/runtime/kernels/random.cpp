// Threefry over views: operands pass through buffers, a block at a time.
#include "runtime/kernels/random.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "runtime/kernels/cursor.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kChunk = 64 * kBlock;

void run_block(const View (&in)[4], std::int64_t begin, std::int64_t count, std::uint32_t* out0,
               std::uint32_t* out1) {
  constexpr decltype(&telamon_generic_threefry2x32) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(threefry2x32);
  std::uint32_t buffers[4][kBlock];
  const std::uint32_t* at[4];
  for (int i = 0; i < 4; ++i) {
    Cursor cursor(in[i]);
    cursor.seek(begin);
    if (cursor.is_contiguous()) {
      at[i] = reinterpret_cast<const std::uint32_t*>(cursor.at());
    } else {
      cursor.gather(reinterpret_cast<char*>(buffers[i]), count);
      at[i] = buffers[i];
    }
  }
  kLoops[static_cast<int>(runtime::host_isa())](count, at, out0, out1);
}

}  // namespace

void run_threefry2x32(const View& k0, const View& k1, const View& x0, const View& x1,
                      const View& out0, const View& out1) {
  TELAMON_CHECK(is_contiguous(out0) && is_contiguous(out1), "threefry2x32 writes dense results");
  const View in[4] = {broadcast_view(k0, out0.shape), broadcast_view(k1, out0.shape),
                      broadcast_view(x0, out0.shape), broadcast_view(x1, out0.shape)};
  auto* to0 = reinterpret_cast<std::uint32_t*>(out0.data);
  auto* to1 = reinterpret_cast<std::uint32_t*>(out1.data);
  const std::int64_t n = out0.shape.num_elements();
  runtime::parallel_for((n + kChunk - 1) / kChunk, [&](std::int64_t chunk) {
    const std::int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (std::int64_t i = chunk * kChunk; i < end; i += kBlock) {
      run_block(in, i, std::min(kBlock, end - i), to0 + i, to1 + i);
    }
  });
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
