// B07: one block of a transformer, causal, with normalisation before each part.
#include <cmath>

#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kWidth = 256, kHeads = 8;

struct Block {
  Array w_qkv, w_o, w1, w2, g1, g2, b;
};
Block block_params() {
  constexpr std::int64_t d = kWidth;
  return {.05 * z(1, {d, 3 * d}), .05 * z(2, {d, d}), .05 * z(3, {d, 4 * d}),
          .05 * z(4, {4 * d, d}), ones({d}, f32),     ones({d}, f32),
          zeros({d}, f32)};
}
Array block(const Block& p, const Array& x) {
  const std::int64_t batch = x.shape(0), steps = x.shape(1), d = x.shape(2);
  const Array h = layernorm_rows(x, p.g1, p.b);
  const Array qkv = transpose(reshape(matmul(h, p.w_qkv), {batch, steps, 3, kHeads, d / kHeads}),
                              {2, 0, 3, 1, 4});
  const Array q = qkv(0), k = qkv(1), v = qkv(2);
  const std::int64_t width = d / kHeads;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  Array s = matmul(q, swapaxes(k, -1, -2)) * scale;
  s = where(tril(ones({steps, steps}, boolean)), s, -1e9);
  const Array attended =
      reshape(transpose(matmul(softmax(s, -1), v), {0, 2, 1, 3}), {batch, steps, d});
  const Array y = x + matmul(attended, p.w_o);
  return y + matmul(gelu(matmul(layernorm_rows(y, p.g2, p.b), p.w1)), p.w2);
}

const Register forward("B07.block_fwd", "ms", [] {
  Case c = go(compiled(block), block_params(), z(9, {4, 128, kWidth}));
  c.flops = 872e6;
  return c;
});
Array loss(const Block& p, const Array& x) { return mean(square(block(p, x))); }
const Register backward("B07.block_fwdbwd", "ms", [] {
  Case c = go(compiled(grad<0, 1>(loss)), block_params(), z(9, {4, 128, kWidth}));
  c.flops = 2.6e9;
  return c;
});
/// Heads turned by the places of their steps: the first half of each with the second.
Array rope(const Array& x, const Array& c, const Array& s) {
  const Arrays halves = split(x, 2, -1);
  const Array &a = halves[0], &b = halves[1];
  return concatenate({a * c - b * s, b * c + a * s}, -1);
}
const Register turned("B07.rope", "us", [] {
  return moving(8. * 4 * 512 * 8 * 64,
                go(compiled(rope), u(1, {4, 512, 8, 64}), u(2, {512, 1, 32}), u(3, {512, 1, 32})));
});
const Register memory("MEM.block_fwdbwd", "MB", [] {
  return memory_of(grad<0, 1>(loss), block_params(), z(9, {4, 128, kWidth}));
});

}  // namespace
}  // namespace bench
