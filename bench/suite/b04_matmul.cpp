// B04: products of matrices.
#include <fmt/format.h>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

/// 1024 products of small squares: flops say how many operations one call has.
const bool small_squares = [] {
  for (const std::int64_t n : {8, 16, 32}) {
    Register(fmt::format("B04.batch_small_{}", n), "us", [n] {
      const auto f = [](const Array& a, const Array& b) { return matmul(a, b); };
      return computing(2048. * static_cast<double>(n * n * n),
                       go(compiled(f), u(1, {1024, n, n}), u(2, {1024, n, n})));
    });
  }
  return true;
}();
const bool squares = [] {
  for (const std::int64_t n : {4, 8, 16, 32, 47, 64, 128, 256, 512, 1024}) {
    Register(fmt::format("B04.matmul_{}", n), "us", [n] {
      return computing(2. * static_cast<double>(n * n * n),
                       go(compiled(dot), u(1, {n, n}), u(2, {n, n})));
    });
  }
  return true;
}();
const Register f64_512("B04.matmul_f64_512", "us", [] {
  return computing(2. * 512 * 512 * 512, go(compiled(dot), u64(1, {512, 512}), u64(2, {512, 512})));
});
const Register gemv("B04.gemv_4096", "us", [] {
  Case c = go(compiled(dot), u(1, {1, 4096}), u(2, {4096, 4096}));
  c.bytes = 64 << 20;
  return c;
});
const Register matvec("B04.matvec_4096", "us", [] {
  Case c = go(compiled(dot), u(1, {4096, 4096}), u(2, {4096}));
  c.bytes = 64 << 20;
  return c;
});
const Register inner("B04.inner_8M", "us", [] {
  Case c = go(compiled(dot), u(1, {1 << 23}), u(2, {1 << 23}));
  c.bytes = 64 << 20;
  return c;
});
/// Few results of many terms, as gradients by weights have them.
const Register tall("B04.tall_100000x64", "ms", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(transpose(a), b); };
  return computing(2. * 100'000 * 64 * 64,
                   go(compiled(f), u(1, {100'000, 64}), u(2, {100'000, 64})));
});
const Register batch("B04.batch_16x768", "ms", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(a, swapaxes(b, 1, 2)); };
  return computing(32. * 768 * 768 * 768,
                   go(compiled(f), u(1, {16, 768, 768}), u(2, {16, 768, 768})));
});

}  // namespace
}  // namespace bench
