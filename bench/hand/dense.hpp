// What networks by hand are made of: products of one shape by OpenBLAS, oneDNN or tiles of our own, whichever is
// faster here, and exp and tanh of vectors, since the exact build has none of the compiler's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "hand.hpp"
#include "libraries.hpp"

namespace bench {

// ---- functions -----------------------------------------------------------------------------------

/// Within 2 units in the last place, of numbers from -87 to 88; of others, that of the bound.
template <class V>
inline V exp_of(V x) {
  using I = decltype(x < x);
  const V zero{}, least = zero - 87.f, most = zero + 88.f;
  x = x < least ? least : x;
  x = x > most ? most : x;
  // x = n ln 2 + r. Rounded by a conversion: fast math drops a constant that is added and taken away.
  const V t = x * 1.44269504f;
  const I n = __builtin_convertvector(t + (t < zero ? zero - .5f : zero + .5f), I);
  const V f = __builtin_convertvector(n, V);
  const V r = (x - f * .693359375f) + f * 2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  const I bits = (n + 127) << 23;
  V power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return p * power;
}
/// A quotient of polynomials, within a few units in the last place.
template <class V>
inline V tanh_of(V x) {
  const V zero{}, bound = zero + 7.90531110763549805f;
  x = x > bound ? bound : x;
  x = x < -bound ? -bound : x;
  const V s = x * x;
  V p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  V q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  return x * p / q;
}

// ---- products ------------------------------------------------------------------------------------

/// c = alpha a b + beta c, row-major: of m rows, n columns and k terms, an `a` or a `b` that may lie transposed, and
/// rows that lie so many numbers apart (0: as many as they have).
struct Shape {
  int m, n, k;
  bool transposed_a = false, transposed_b = false;
  int row_of_a = 0, row_of_b = 0, row_of_c = 0;

  Shape filled() const {
    Shape s = *this;
    if (s.row_of_a == 0) s.row_of_a = transposed_a ? m : k;
    if (s.row_of_b == 0) s.row_of_b = transposed_b ? k : n;
    if (s.row_of_c == 0) s.row_of_c = n;
    return s;
  }
};
using Gemm = void (*)(const Shape&, float alpha, const float* a, const float* b, float beta,
                      float* c);

inline Gemm openblas_gemm() {
  using Function = void (*)(int, int, int, int, int, int, float, const float*, int, const float*,
                            int, float, float*, int);
  static const auto gemm = symbol<Function>(library("libopenblas.so.0"), "cblas_sgemm");
  static const auto share =
      symbol<void (*)(int)>(library("libopenblas.so.0"), "openblas_set_num_threads");
  if (gemm == nullptr || share == nullptr) return nullptr;
  share(threads());
  return [](const Shape& s, float alpha, const float* a, const float* b, float beta, float* c) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    gemm(kRowMajor, s.transposed_a ? kTrans : kNoTrans, s.transposed_b ? kTrans : kNoTrans, s.m,
         s.n, s.k, alpha, a, s.row_of_a, b, s.row_of_b, beta, c, s.row_of_c);
  };
}
inline Gemm onednn_gemm() {
  using Function =
      int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
              std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  static const Function gemm = [] {
    for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
      if (const auto found = symbol<Function>(library(name), "dnnl_sgemm")) return found;
    }
    return Function();
  }();
  if (gemm == nullptr) return nullptr;
  return [](const Shape& s, float alpha, const float* a, const float* b, float beta, float* c) {
    gemm(s.transposed_a ? 'T' : 'N', s.transposed_b ? 'T' : 'N', s.m, s.n, s.k, alpha, a,
         s.row_of_a, b, s.row_of_b, beta, c, s.row_of_c);
  };
}

/// A tile of so many rows and two vectors, whose sums stay in registers; `b` has two vectors in each row. At the edge
/// of the result, `columns` of them are written.
template <int Rows>
inline void product_tile(const Shape& s, float alpha, const float* a, const float* b, int row_of_b,
                         float beta, float* c, int columns) {
  constexpr int kVectors = 2;
  const std::ptrdiff_t down = s.transposed_a ? 1 : s.row_of_a,
                       along = s.transposed_a ? s.row_of_a : 1;
  FloatVector sum[Rows][kVectors] = {};
  for (int k = 0; k < s.k; ++k) {
    const FloatVector x = load(b), y = load(b + kWide);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      sum[r][0] += a[r * down] * x;
      sum[r][1] += a[r * down] * y;
    }
    a += along;
    b += row_of_b;
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    float edge[kVectors * kWide];
    float* const row = c + static_cast<std::ptrdiff_t>(r) * s.row_of_c;
    const bool whole = columns == kVectors * kWide;
    if (!whole) std::copy_n(row, columns, edge);
    float* const to = whole ? row : edge;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const FloatVector value = alpha * sum[r][v];
      store(to + v * kWide, beta == 0 ? value : value + beta * load(to + v * kWide));
    }
    if (!whole) std::copy_n(edge, columns, row);
  }
}
/// For small shapes, where a library's packing takes long.
inline void gemm_in_tiles(const Shape& s, float alpha, const float* a, const float* b, float beta,
                          float* c) {
  constexpr int kColumns = 2 * kWide, kRows = 6;
  static Floats packed;
  packed.resize(static_cast<std::size_t>(s.k) * kColumns);
  for (int j = 0; j < s.n; j += kColumns) {
    const int columns = std::min(kColumns, s.n - j);
    const float* panel = b + j;
    int row = s.row_of_b;
    if (s.transposed_b || columns < kColumns) {
      for (int k = 0; k < s.k; ++k) {
        float* const to = &packed[static_cast<std::size_t>(k) * kColumns];
        for (int l = 0; l < kColumns; ++l) {
          to[l] = l >= columns     ? 0
                  : s.transposed_b ? b[(j + l) * s.row_of_b + k]
                                   : b[k * s.row_of_b + j + l];
        }
      }
      panel = packed.data();
      row = kColumns;
    }
    int i = 0;
    const auto from = [&] { return a + (s.transposed_a ? i : i * s.row_of_a); };
    const auto to = [&] { return c + i * s.row_of_c + j; };
    for (; i + kRows <= s.m; i += kRows)
      product_tile<kRows>(s, alpha, from(), panel, row, beta, to(), columns);
    for (; i + 2 <= s.m; i += 2) product_tile<2>(s, alpha, from(), panel, row, beta, to(), columns);
    for (; i < s.m; ++i) product_tile<1>(s, alpha, from(), panel, row, beta, to(), columns);
  }
}

/// The fastest way of a shape, tried when it is made.
class Dense {
 public:
  explicit Dense(const Shape& shape) : s_(shape.filled()) {
    const auto room = [](int rows, int columns) {
      return Floats(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), .5f);
    };
    const Floats a = room(s_.transposed_a ? s_.k : s_.m, s_.row_of_a),
                 b = room(s_.transposed_b ? s_.n : s_.k, s_.row_of_b);
    Floats c = room(s_.m, s_.row_of_c);
    const Gemm libraries[] = {openblas_gemm(), onednn_gemm()};
    if (libraries[0] == nullptr && libraries[1] == nullptr)
      throw std::runtime_error("none of its libraries is here");
    double least = 1e30;
    for (const Gemm way : {libraries[0], libraries[1], Gemm(gemm_in_tiles)}) {
      const double seconds = way == nullptr ? 1e30 : probe(way, a.data(), b.data(), c.data());
      if (seconds < least) least = seconds, way_ = way;
    }
  }
  void operator()(const float* a, const float* b, float* c, float beta = 0, float alpha = 1) const {
    way_(s_, alpha, a, b, beta, c);
  }

 private:
  /// Seconds of the best of several runs, as many as take little time.
  double probe(Gemm way, const float* a, const float* b, float* c) const {
    using Clock = std::chrono::steady_clock;
    double least = 1e30;
    const auto end = Clock::now() + std::chrono::milliseconds(10);
    way(s_, 1, a, b, 0, c);
    for (int i = 0; i < 3 || Clock::now() < end; ++i) {
      const auto start = Clock::now();
      for (int j = 0; j < 2; ++j) way(s_, 1, a, b, 0, c);
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return least;
  }
  Shape s_;
  Gemm way_ = nullptr;
};

}  // namespace bench
