// B04: products of matrices.
#include <fmt/format.h>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

/// Numbers of this type: whose products are named so.
Array numbers(DType dtype, unsigned seed, const Shape& shape) {
  return dtype == f64 ? u64(seed, shape) : u(seed, shape);
}
const char* prefix(DType dtype) { return dtype == f64 ? "f64_" : ""; }

/// 1024 products of small squares: flops say how many operations one call has.
void small_squares(DType dtype, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t n : sizes) {
    Register(fmt::format("B04.batch_small_{}{}", prefix(dtype), n), "us", [dtype, n] {
      const auto f = [](const Array& a, const Array& b) { return matmul(a, b); };
      const Shape shape{1024, n, n};
      return computing(2048. * static_cast<double>(n * n * n),
                       go(compiled(f), numbers(dtype, 1, shape), numbers(dtype, 2, shape)));
    });
  }
}
void squares(DType dtype, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t n : sizes) {
    Register(fmt::format("B04.matmul_{}{}", prefix(dtype), n), "us", [dtype, n] {
      return computing(2. * static_cast<double>(n * n * n),
                       go(compiled(dot), numbers(dtype, 1, {n, n}), numbers(dtype, 2, {n, n})));
    });
  }
}
const bool products = [] {
  squares(f32, {4, 8, 16, 32, 47, 64, 128, 256, 333, 512, 1024, 2048});
  squares(f64, {16, 32, 64, 128, 256, 512, 1024});
  small_squares(f32, {8, 16, 32, 64});
  small_squares(f64, {8});
  return true;
}();
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
/// As least squares with ten unknowns and covariances of three numbers have them.
const Register tall_10("B04.tall_100000x10", "us", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(transpose(a), b); };
  return computing(2. * 100'000 * 10 * 10,
                   go(compiled(f), u(1, {100'000, 10}), u(2, {100'000, 10})));
});
const Register wide_3("B04.wide_3x100000", "us", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(a, transpose(b)); };
  return computing(2. * 100'000 * 3 * 3, go(compiled(f), u(1, {3, 100'000}), u(2, {3, 100'000})));
});
/// A layer whose weights lie by outputs, of a few inputs; and a few outputs of many.
const Register layer_8("B04.layer_8x512", "us", [] {
  const auto f = [](const Array& x, const Array& w) { return matmul(x, transpose(w)); };
  return computing(2. * 8 * 512 * 1000, go(compiled(f), u(1, {8, 512}), u(2, {1000, 512})));
});
const Register narrow_3("B04.narrow_1000x300x3", "us", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(a, b); };
  return computing(2. * 1000 * 300 * 3, go(compiled(f), u(1, {1000, 300}), u(2, {300, 3})));
});
const Register batch("B04.batch_16x768", "ms", [] {
  const auto f = [](const Array& a, const Array& b) { return matmul(a, swapaxes(b, 1, 2)); };
  return computing(32. * 768 * 768 * 768,
                   go(compiled(f), u(1, {16, 768, 768}), u(2, {16, 768, 768})));
});
/// Scores of attention: for each head, which lies in the middle, how well each place of a goes with each of b.
const Register heads("B04.heads_4x128x8x32", "us", [] {
  const auto f = [](const Array& a, const Array& b) { return einsum("bqhd,bkhd->bhqk", a, b); };
  const Shape shape{4, 128, 8, 32};
  return computing(2. * 4 * 8 * 128 * 128 * 32, go(compiled(f), u(1, shape), u(2, shape)));
});

// Other types than f32 and f64. Sums of bytes are i32, those of other integers wrap around in their own type.
Array sums_of_integers(const Array& a, const Array& b) {
  return lax::dot_general(a, b, {.lhs_contracting = {1}, .rhs_contracting = {0}},
                          a.dtype() == i8 ? i32 : a.dtype());
}
void integers(const char* name, DType dtype) {
  const auto size = static_cast<double>(size_of(dtype));
  const auto product = [dtype](const Shape& a, const Shape& b) {
    return go(compiled(sums_of_integers), whole_numbers(1, a, dtype), whole_numbers(2, b, dtype));
  };
  Register(fmt::format("B04.matmul_{}_256", name), "us",
           [product] { return unlimited("type", product({256, 256}, {256, 256})); });
  Register(fmt::format("B04.narrow_{}_1000x1000x8", name), "us",
           [product, size] { return moving(1e6 * size, product({1000, 1000}, {1000, 8})); });
  Register(fmt::format("B04.gemv_{}_4096", name), "us",
           [product, size] { return moving(0x1p24 * size, product({1, 4096}, {4096, 4096})); });
}
const bool products_of_integers = [] {
  integers("i8", i8);
  integers("i16", i16);
  integers("i32", i32);
  return true;
}();
/// Numbers that have 8 bits more or less: the results differ by so much.
Case roughly(Case c) {
  c.tolerance = 1e-2;
  return c;
}
void sixteen_bits(const char* name, DType dtype) {
  Register(fmt::format("B04.matvec_{}_4096", name), "us", [dtype] {
    return roughly(moving(
        32 << 20, go(compiled(dot), u(1, {4096, 4096}).astype(dtype), u(2, {4096}).astype(dtype))));
  });
}
const bool products_of_sixteen_bits = [] {
  sixteen_bits("bf16", bf16);
  sixteen_bits("f16", f16);
  return true;
}();
const Register matmul_bf16("B04.matmul_bf16_512", "us", [] {
  return roughly(unlimited(
      "type", go(compiled(dot), u(1, {512, 512}).astype(bf16), u(2, {512, 512}).astype(bf16))));
});
const Register matvec_c64("B04.matvec_c64_2048", "us", [] {
  return moving(32 << 20, go(compiled(dot), c64_numbers(1, {2048, 2048}), c64_numbers(3, {2048})));
});

// What follows a product where layers have it: a bias, then a function of each number or what the layer took.
Array bias_relu(const Array& x, const Array& w, const Array& b) { return relu(matmul(x, w) + b); }
Array bias_tanh(const Array& x, const Array& w, const Array& b) { return tanh(matmul(x, w) + b); }
Array residual(const Array& x, const Array& w, const Array& b) { return matmul(x, w) + b + x; }

void layer(const char* name, Array (*f)(const Array&, const Array&, const Array&),
           std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t n : sizes) {
    Register(fmt::format("B04.{}_{}", name, n), "us", [f, n] {
      return computing(2. * static_cast<double>(n * n * n),
                       go(compiled(f), z(1, {n, n}), .05 * z(2, {n, n}), z(3, {n})));
    });
  }
}
const bool layers = [] {
  layer("bias_relu", bias_relu, {32, 256, 1024});
  layer("bias_tanh", bias_tanh, {256});
  layer("residual", residual, {256});
  return true;
}();

}  // namespace
}  // namespace bench
