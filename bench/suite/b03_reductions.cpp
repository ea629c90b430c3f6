// B03: reductions, normalisations and what scans along rows.
#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

const Register sum_all("B03.sum_all", "us", [] {
  return moving(4. * 10 * 1024 * 128,
                go(compiled([](const Array& x) { return sum(x); }), u(1, {10, 1024, 128})));
});
const Register sum_ax0("B03.sum_ax0", "us", [] {
  return moving(4 << 20,
                go(compiled([](const Array& x) { return sum(x, 0); }), u(1, {1024, 1024})));
});
const Register sum_ax1("B03.sum_ax1", "us", [] {
  return moving(4 << 20,
                go(compiled([](const Array& x) { return sum(x, 1); }), u(1, {1024, 1024})));
});
const Register total_variation("B03.total_variation", "us", [] {
  const auto f = [](const Array& x) {
    return sum(sqrt(square(x - roll(x, 1, 1)) + square(x - roll(x, 1, 0)) + 1e-3));
  };
  return moving(4 << 20, go(compiled(f), u(1, {1024, 1024})));
});
/// The largest of 2 x 2 numbers of a picture.
const Register max_pool("B03.max_pool", "us", [] {
  const auto f = [](const Array& x) { return max(x.reshape({512, 2, 512, 2}), {.axes = {1, 3}}); };
  return moving(5 << 20, go(compiled(f), u(1, {1024, 1024})));
});
/// The least of a pixel and its eight neighbours.
const Register erosion("B03.erosion", "us", [] {
  const auto f = [](const Array& x) {
    std::vector<Array> shifted;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) shifted.push_back(x(slice(i, 1022 + i), slice(j, 1022 + j)));
    return min(stack(shifted, 0), 0);
  };
  return moving(8 << 20, go(compiled(f), u(1, {1024, 1024})));
});
const Register softmax_rows("B03.softmax", "us", [] {
  return moving(8. * 32 * 16 * 1024,
                go(compiled([](const Array& x) { return softmax(x, 2); }), z(1, {32, 16, 1024})));
});
const Register logsumexp_rows("B03.logsumexp", "us", [] {
  return moving(4 << 20,
                go(compiled([](const Array& x) { return logsumexp(x, 1); }), z(1, {1024, 1024})));
});
const Register layernorm_of_rows("B03.layernorm", "us", [] {
  return moving(8. * 4096000,
                go(compiled(layernorm_rows), z(1, {1000, 4096}), u(2, {4096}), u(3, {4096})));
});
const Register layernorm_vjp("B03.layernorm_vjp", "us", [] {
  const auto f = [](const Array& x, const Array& w, const Array& b, const Array& g) {
    return vjp(layernorm_rows, x, w, b).second(g);
  };
  return moving(12. * 4096000, go(compiled(f), z(1, {1000, 4096}), u(2, {4096}), u(3, {4096}),
                                  z(4, {1000, 4096})));
});
const Register cumsum_rows("B03.cumsum", "us", [] {
  return moving(8 << 20,
                go(compiled([](const Array& x) { return cumsum(x, 1); }), u(1, {1024, 1024})));
});
/// Running maxima: of each row, and of bytes along columns.
const Register cummax_rows("B03.cummax", "us", [] {
  return moving(8e6, go(compiled([](const Array& x) { return cummax(x, 1); }), u(1, {1000, 1000})));
});
const Register cummax_columns("B03.cummax_u8_ax0", "us", [] {
  return moving(2e6, go(compiled([](const Array& x) { return cummax(x, 0); }),
                        (whole_numbers(1, {1000, 1000}, i32) + 128).astype(u8)));
});
const Register argmax_rows("B03.argmax", "us", [] {
  return moving(4 << 20,
                go(compiled([](const Array& x) { return argmax(x, 1); }), u(1, {1024, 1024})));
});

Array lse(const Array& x) { return max(x) + log(sum(exp(x - max(x)))); }
const Register lse_f64("B03.lse_f64_1280k", "us", [] {
  return moving(8. * 1280000, go(compiled(lse), u64(31337, {1280000})));
});
const Register lse_grad_f64("B03.lse_grad_f64_1280k", "us", [] {
  return moving(16. * 1280000, go(compiled(grad(lse)), u64(31337, {1280000})));
});

}  // namespace
}  // namespace bench
