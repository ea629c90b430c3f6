// B04 of other types than f32 and f64, and of heads: loops by hand, or OpenBLAS and oneDNN where they are faster here.
#include <bit>
#include <complex>

#include "hand.hpp"
#include "libraries.hpp"
#include "onednn.hpp"
#include "ways.hpp"

namespace bench {
namespace {

/// c = a b, row-major.
template <class T, class S>
struct Product {
  std::size_t rows, columns, depth;
  std::vector<T> a, b;
  std::vector<S> c;
};
template <class T, class S>
using Way = WayOf<Product<T, S>>;

/// By oneDNN, where it has such a product.
template <class T, class S>
Way<T, S> onednn(Product<T, S>& p, int type, int type_of_result) {
  const auto m = static_cast<std::int64_t>(p.rows), n = static_cast<std::int64_t>(p.columns),
             k = static_cast<std::int64_t>(p.depth);
  const auto run = Matmul::prepared({p.a.data(), type, {1, m, k}, {m * k, k, 1}},
                                    {p.b.data(), type, {1, k, n}, {k * n, n, 1}},
                                    {p.c.data(), type_of_result, {1, m, n}, {m * n, n, 1}});
  if (!run) return nullptr;
  return [run](Product<T, S>&) { run(); };
}
template <class T, class S, class Results>
Case fastest(Product<T, S> p, const Best<Product<T, S>>& best, double bytes, Results results) {
  Case c = by_hand(std::move(p), best.way,
                   [results](const Product<T, S>& x) { return std::vector{results(x.c)}; });
  c.bytes = bytes;
  if (bytes == 0) c.no_limit = "type";
  c.note = best.name;
  if (best.name != "a loop") c.threads = 0;  // the libraries have threads, too
  return c;
}

// ---- integers: sums are unsigned, which wrap around -------------------------------------------------
template <class T, int kWidth>
using Numbers [[gnu::vector_size(kWidth * sizeof(T)), gnu::aligned(sizeof(T)), gnu::may_alias]] = T;

/// Tiles of so many rows, and columns in so many vectors, stay in registers.
template <int kRows, int kVectors, int kWidth, class T, class S>
void tiles(Product<T, S>& p) {
  for (std::size_t j = 0; j < p.columns; j += kVectors * kWidth) {
    for (std::size_t i = 0; i < p.rows; i += kRows) {
      Numbers<S, kWidth> sums[kRows][kVectors] = {};
      for (std::size_t k = 0; k < p.depth; ++k) {
#pragma GCC unroll 4
        for (std::size_t v = 0; v < kVectors; ++v) {
          const T* b = &p.b[k * p.columns + j + v * kWidth];
          const auto factors = __builtin_convertvector(
              *reinterpret_cast<const Numbers<T, kWidth>*>(b), Numbers<S, kWidth>);
#pragma GCC unroll 8
          for (std::size_t r = 0; r < kRows; ++r) {
            sums[r][v] += static_cast<S>(p.a[(i + r) * p.depth + k]) * factors;
          }
        }
      }
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t v = 0; v < kVectors; ++v) {
          *reinterpret_cast<Numbers<S, kWidth>*>(&p.c[(i + r) * p.columns + j + v * kWidth]) =
              sums[r][v];
        }
      }
    }
  }
}
/// A row times a matrix: sums of its rows, eight at a time.
template <class T, class S>
void sum_of_rows(Product<T, S>& p) {
  constexpr std::size_t kRows = 8;
  S* __restrict out = p.c.data();
  for (std::size_t j = 0; j < p.columns; ++j) out[j] = 0;
  for (std::size_t i = 0; i < p.depth; i += kRows) {
    const T *a = &p.a[i], *b = &p.b[i * p.columns];
    for (std::size_t j = 0; j < p.columns; ++j) {
      S sum = out[j];
      for (std::size_t r = 0; r < kRows; ++r) {
        sum += static_cast<S>(static_cast<S>(a[r]) * static_cast<S>(b[r * p.columns + j]));
      }
      out[j] = sum;
    }
  }
}

template <class T, class S>
Case of_integers(std::size_t rows, std::size_t columns, std::size_t depth, double bytes,
                 void (*loop)(Product<T, S>&)) {
  Product<T, S> p{rows,
                  columns,
                  depth,
                  whole<T>(1, rows * depth),
                  whole<T>(2, depth * columns),
                  std::vector<S>(rows * columns)};
  const bool bytes_to_i32 = sizeof(T) == 1;
  const auto best = best_of(
      p, {{"a loop", loop},
          {"oneDNN's matmul", bytes_to_i32 ? onednn(p, Matmul::kI8, Matmul::kI32) : Way<T, S>()}});
  return fastest(std::move(p), best, bytes, [](const std::vector<S>& c) {
    Ints out;
    for (const S x : c) out.push_back(static_cast<std::make_signed_t<S>>(x));
    return output(out);
  });
}
/// The products of integers of this type, sums in S.
template <class T, class S>
void integers(const std::string& name) {
  constexpr int kWidth = 64 / sizeof(S);
  constexpr auto kSize = static_cast<double>(sizeof(T));
  Register("B04.matmul_" + name + "_256", "us",
           [] { return of_integers<T, S>(256, 256, 256, 0, tiles<4, 4, kWidth>); });
  Register("B04.narrow_" + name + "_1000x1000x8", "us",
           [] { return of_integers<T, S>(1000, 8, 1000, 1e6 * kSize, tiles<8, 1, 8>); });
  Register("B04.gemv_" + name + "_4096", "us",
           [] { return of_integers<T, S>(1, 4096, 4096, 0x1p24 * kSize, sum_of_rows); });
}
const bool products_of_integers = [] {
  integers<std::int8_t, std::uint32_t>("i8");
  integers<std::int16_t, std::uint16_t>("i16");
  integers<std::int32_t, std::uint32_t>("i32");
  return true;
}();

// ---- floats of 16 bits ------------------------------------------------------------------------------
struct Bf16 {
  std::uint16_t bits;
};
/// To the nearest, of two as near the even one; none of them is NaN.
Bf16 rounded(float x, Bf16) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
float widened(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
using F16 = _Float16;
F16 rounded(float x, F16) { return static_cast<F16>(x); }
float widened(F16 x) { return static_cast<float>(x); }

template <class T>
std::vector<T> narrowed(const Floats& x) {
  std::vector<T> out;
  for (const float v : x) out.push_back(rounded(v, T{}));
  return out;
}
template <class T>
Output widened_output(const std::vector<T>& x) {
  Floats out;
  for (const T v : x) out.push_back(widened(v));
  return output(out);
}
/// The vector is widened once; rows are summed in lanes.
template <class T>
void rows_times_vector(Product<T, T>& p) {
  constexpr std::size_t kParts = 64;
  Floats b(p.depth);
  for (std::size_t k = 0; k < p.depth; ++k) b[k] = widened(p.b[k]);
  for (std::size_t i = 0; i < p.rows; ++i) {
    const T* a = &p.a[i * p.depth];
    float sums[kParts] = {};
    for (std::size_t k = 0; k < p.depth; k += kParts) {
      for (std::size_t l = 0; l < kParts; ++l) sums[l] += widened(a[k + l]) * b[k + l];
    }
    p.c[i] = rounded(lane_sum(sums, kParts), T{});
  }
}
template <class T>
Case matvec(int type) {
  constexpr std::size_t n = 4096;
  Product<T, T> p{n, 1, n, narrowed<T>(uf(1, n * n)), narrowed<T>(uf(2, n)), std::vector<T>(n)};
  const auto best =
      best_of(p, {{"a loop", rows_times_vector<T>}, {"oneDNN's matmul", onednn(p, type, type)}});
  Case c = fastest(std::move(p), best, 32 << 20, widened_output<T>);
  c.tolerance = 1e-2;
  return c;
}
const Register matvec_bf16("B04.matvec_bf16_4096", "us",
                           [] { return matvec<Bf16>(Matmul::kBf16); });
const Register matvec_f16("B04.matvec_f16_4096", "us", [] { return matvec<F16>(Matmul::kF16); });
const Register matmul_bf16("B04.matmul_bf16_512", "us", [] {
  constexpr std::size_t n = 512;
  Product<Bf16, Bf16> p{n,
                        n,
                        n,
                        narrowed<Bf16>(uf(1, n * n)),
                        narrowed<Bf16>(uf(2, n * n)),
                        std::vector<Bf16>(n * n)};
  const auto best = best_of(p, {{"oneDNN's matmul", onednn(p, Matmul::kBf16, Matmul::kBf16)}});
  Case c = fastest(std::move(p), best, 0, widened_output<Bf16>);
  c.tolerance = 1e-2;
  return c;
});

// ---- complex numbers --------------------------------------------------------------------------------
using Complex = std::complex<float>;
const Register matvec_c64("B04.matvec_c64_2048", "us", [] {
  using Gemv = void (*)(int, int, int, int, const Complex*, const Complex*, int, const Complex*,
                        int, const Complex*, Complex*, int);
  static const auto gemv = symbol<Gemv>(library("libopenblas.so.0"), "cblas_cgemv");
  constexpr int n = 2048;
  Product<Complex, Complex> p{
      n, 1, n, complex_numbers(1, n * n), complex_numbers(3, n), std::vector<Complex>(n)};
  const Way<Complex, Complex> openblas = [](Product<Complex, Complex>& x) {
    constexpr int kRowMajor = 101, kNoTrans = 111;
    const Complex one = 1, zero = 0;
    gemv(kRowMajor, kNoTrans, n, n, &one, x.a.data(), n, x.b.data(), 1, &zero, x.c.data(), 1);
  };
  const auto best = best_of(p, {{"OpenBLAS", gemv == nullptr ? nullptr : openblas}});
  return fastest(std::move(p), best, 32 << 20,
                 [](const std::vector<Complex>& c) { return output(c); });
});

// ---- heads: products of matrices whose rows lie apart -----------------------------------------------
const Register heads("B04.heads_4x128x8x32", "us", [] {
  using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                        float, float*, int);
  static const auto gemm = symbol<Gemm>(library("libopenblas.so.0"), "cblas_sgemm");
  constexpr std::size_t kBatch = 4, kPlaces = 128, kHeads = 8, kDepth = 32;
  constexpr std::size_t kRow = kHeads * kDepth, kSize = kBatch * kPlaces * kRow;
  Product<float, float> p{kPlaces,      kPlaces,      kDepth,
                          uf(1, kSize), uf(2, kSize), Floats(kBatch * kHeads * kPlaces * kPlaces)};
  const Way<float, float> openblas = [](Product<float, float>& x) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    constexpr int n = kPlaces, k = kDepth, row = kRow;
    for (std::size_t i = 0; i < kBatch * kHeads; ++i) {
      const std::size_t at = i / kHeads * kPlaces * kRow + i % kHeads * kDepth;
      float* to = &x.c[i * kPlaces * kPlaces];
      gemm(kRowMajor, kNoTrans, kTrans, n, n, k, 1, &x.a[at], row, &x.b[at], row, 0, to, n);
    }
  };
  const auto best = best_of(p, {{"OpenBLAS", gemm == nullptr ? nullptr : openblas}});
  Case c = fastest(std::move(p), best, 0, [](const Floats& x) { return output(x); });
  c.no_limit.clear();
  c.flops = 2. * kBatch * kHeads * kPlaces * kPlaces * kDepth;
  return c;
});

}  // namespace
}  // namespace bench
