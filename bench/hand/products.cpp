// B04 by the libraries that a careful person calls: OpenBLAS and oneDNN where the machine has them,
// whichever is faster here.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "hand.hpp"

namespace bench {
namespace {

/// c = a b, or a b transposed, row-major.
struct Product {
  std::size_t rows, columns, depth, batch;
  bool transposed;
};
template <class T>
struct Matrices {
  Product p;
  std::vector<T> a, b, c;
};
template <class T>
using Multiply = void (*)(const Product&, const T* a, const T* b, T* c);

void* library(const char* name) {
  setenv("OMP_NUM_THREADS", std::to_string(threads()).c_str(), 0);
  setenv("OPENBLAS_NUM_THREADS", std::to_string(threads()).c_str(), 0);
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
template <class Function>
Function symbol(void* from, const char* name) {
  return from == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(from, name));
}

template <class T>
void openblas(const Product& p, const T* a, const T* b, T* c) {
  using Gemm = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
  static const Gemm gemm =
      symbol<Gemm>(library("libopenblas.so.0"), sizeof(T) == 4 ? "cblas_sgemm" : "cblas_dgemm");
  if (gemm == nullptr) throw std::runtime_error("there is no OpenBLAS");
  constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
  const int m = static_cast<int>(p.rows), n = static_cast<int>(p.columns);
  const int k = static_cast<int>(p.depth);
  gemm(kRowMajor, kNoTrans, p.transposed ? kTrans : kNoTrans, m, n, k, 1, a, k, b,
       p.transposed ? k : n, 0, c, n);
}
void onednn(const Product& p, const float* a, const float* b, float* c) {
  using Gemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                       std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  static const Gemm gemm = [] {
    for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
      if (const auto found = symbol<Gemm>(library(name), "dnnl_sgemm")) return found;
    }
    throw std::runtime_error("there is no oneDNN");
  }();
  const auto m = static_cast<std::int64_t>(p.rows), n = static_cast<std::int64_t>(p.columns);
  const auto k = static_cast<std::int64_t>(p.depth);
  gemm('N', p.transposed ? 'T' : 'N', m, n, k, 1, a, k, b, p.transposed ? k : n, 0, c, n);
}

template <class T>
void run(Matrices<T>& m, Multiply<T> multiply) {
  const Product& p = m.p;
  for (std::size_t i = 0; i < p.batch; ++i) {
    multiply(p, &m.a[i * p.rows * p.depth], &m.b[i * p.depth * p.columns],
             &m.c[i * p.rows * p.columns]);
  }
}
/// Seconds of the best of several runs; infinite when the library is not there.
template <class T>
double probe(Matrices<T>& m, Multiply<T> multiply) {
  using Clock = std::chrono::steady_clock;
  double least = 1e30;
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  try {
    run(m, multiply);
    for (int i = 0; i < 3 || Clock::now() < end; ++i) {
      const auto start = Clock::now();
      run(m, multiply);
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    }
  } catch (const std::runtime_error&) {}
  return least;
}

template <class T>
Case product(const Product& p, std::vector<T> (*input)(unsigned, std::size_t)) {
  Matrices<T> m{p, input(1, p.batch * p.rows * p.depth), input(2, p.batch * p.depth * p.columns),
                std::vector<T>(p.batch * p.rows * p.columns)};
  Multiply<T> multiply = openblas<T>;
  const double blas = probe(m, multiply);
  std::string note = "OpenBLAS";
  if constexpr (sizeof(T) == 4) {
    const double dnn = probe<T>(m, onednn);
    if (dnn < blas) multiply = onednn, note = "oneDNN";
    if (std::min(blas, dnn) > 1e29) throw std::runtime_error("neither OpenBLAS nor oneDNN here");
  } else if (blas > 1e29) {
    throw std::runtime_error("no OpenBLAS here");
  }
  Case c = by_hand(
      std::move(m), [multiply](Matrices<T>& x) { run(x, multiply); },
      [](const Matrices<T>& x) { return std::vector{output(x.c)}; });
  c.flops = 2. * static_cast<double>(p.batch * p.rows * p.columns * p.depth);
  c.threads = 0;  // the libraries have threads of their own
  c.note = note;
  return c;
}

const bool products = [] {
  for (const std::size_t n : {4, 8, 16, 32, 47, 64, 128, 256, 512, 1024}) {
    Register("B04.matmul_" + std::to_string(n), "us",
             [n] { return product({n, n, n, 1, false}, uf); });
  }
  Register("B01.jit_matmul_2", "ns", [] { return product({2, 2, 2, 1, false}, uf); });
  Register("B01.jit_matmul_100", "us", [] { return product({100, 100, 100, 1, false}, uf); });
  Register("B04.matmul_f64_512", "us", [] { return product({512, 512, 512, 1, false}, uniform); });
  for (const std::size_t n : {8, 16, 32}) {
    Register("B04.batch_small_" + std::to_string(n), "us",
             [n] { return product({n, n, n, 1024, false}, uf); });
  }
  Register("B04.batch_16x768", "ms", [] { return product({768, 768, 768, 16, true}, uf); });
  return true;
}();

/// A row times a matrix: sums of its rows, eight at a time.
const Register gemv("B04.gemv_4096", "us", [] {
  constexpr std::size_t n = 4096;
  Case c = by_hand(
      Matrices<float>{{1, n, n, 1, false}, uf(1, n), uf(2, n * n), Floats(n)},
      [](Matrices<float>& m) {
        constexpr std::size_t kRows = 8;
        float* __restrict out = m.c.data();
        for (std::size_t j = 0; j < n; ++j) out[j] = 0;
        for (std::size_t i = 0; i < n; i += kRows) {
          const float *a = &m.a[i], *b = &m.b[i * n];
          for (std::size_t j = 0; j < n; ++j) {
            float sum = out[j];
            for (std::size_t r = 0; r < kRows; ++r) sum += a[r] * b[r * n + j];
            out[j] = sum;
          }
        }
      },
      [](const Matrices<float>& m) { return std::vector{output(m.c)}; });
  c.bytes = 64 << 20;
  return c;
});

}  // namespace
}  // namespace bench
