// B04 by the libraries that a careful person calls: OpenBLAS, oneDNN and, of small matrices, LIBXSMM where the
// machine has them, whichever is fastest here.
#ifdef HAND_LIBXSMM
#include <libxsmm.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>

#include "hand.hpp"
#include "libraries.hpp"
#include "onednn.hpp"
#include "ways.hpp"

namespace bench {
namespace {

/// c = a b, row-major, of an `a` or a `b` that may lie transposed.
struct Product {
  std::size_t rows, columns, depth, batch = 1;
  bool transposed_a = false, transposed_b = false;

  std::size_t row_of_a() const { return transposed_a ? rows : depth; }
  std::size_t row_of_b() const { return transposed_b ? depth : columns; }
};
template <class T>
struct Matrices {
  Product p;
  std::vector<T> a, b, c;
};
/// A way of computing all products of the batch.
template <class T>
using Way = WayOf<Matrices<T>>;

/// multiply(p, a, b, c) for the products from `first` on, up to `end`, one after the other.
template <class T, class Multiply>
void one_by_one(Matrices<T>& m, std::size_t first, std::size_t end, Multiply multiply) {
  const Product& p = m.p;
  for (std::size_t i = first; i < end; ++i) {
    multiply(p, &m.a[i * p.rows * p.depth], &m.b[i * p.depth * p.columns],
             &m.c[i * p.rows * p.columns]);
  }
}

/// Threads that share a call. They look for the next one for a while before they sleep, since waking takes as long as
/// a thousand small products.
class Crew {
 public:
  explicit Crew(int size) : size_(size) {
    for (int k = 1; k < size; ++k) std::thread([this, k] { serve(k); }).detach();
  }
  /// part(k, size) for each k below the size, the first by the caller.
  void run(std::function<void(int, int)> part) {
    part_ = std::move(part);
    busy_ = size_ - 1;
    ++calls_;
    calls_.notify_all();
    part_(0, size_);
    while (busy_ > 0) std::this_thread::yield();
  }

 private:
  void serve(int k) {
    for (int seen = 0;; ++seen) {
      for (int i = 0; i < 1000 && calls_ == seen; ++i) std::this_thread::yield();
      calls_.wait(seen);
      part_(k, size_);
      --busy_;
    }
  }
  int size_;
  std::function<void(int, int)> part_;
  std::atomic<int> calls_{0}, busy_{0};
};

/// Products one after the other, those of a batch in as many parts as there are threads.
template <class T, class Multiply>
Way<T> in_parts(Multiply multiply) {
  return [multiply](Matrices<T>& m) {
    if (m.p.batch == 1 || threads() == 1) return one_by_one(m, 0, m.p.batch, multiply);
    static Crew& crew = *new Crew(threads());  // never ends
    crew.run([&m, multiply](int k, int parts) {
      const auto edge = [&](int i) {
        return m.p.batch * static_cast<std::size_t>(i) / static_cast<std::size_t>(parts);
      };
      one_by_one(m, edge(k), edge(k + 1), multiply);
    });
  };
}
template <class T>
Way<T> openblas(Matrices<T>& x) {
  using Gemm = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
  static const Gemm gemm =
      symbol<Gemm>(library("libopenblas.so.0"), sizeof(T) == 4 ? "cblas_sgemm" : "cblas_dgemm");
  static const auto share =
      symbol<void (*)(int)>(library("libopenblas.so.0"), "openblas_set_num_threads");
  if (gemm == nullptr || share == nullptr) return nullptr;
  share(x.p.batch == 1 ? threads() : 1);  // a batch is shared here
  return in_parts<T>([](const Product& p, const T* a, const T* b, T* c) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    const int m = static_cast<int>(p.rows), n = static_cast<int>(p.columns);
    gemm(kRowMajor, p.transposed_a ? kTrans : kNoTrans, p.transposed_b ? kTrans : kNoTrans, m, n,
         static_cast<int>(p.depth), 1, a, static_cast<int>(p.row_of_a()), b,
         static_cast<int>(p.row_of_b()), 0, c, n);
  });
}
/// Its functions for a matrix and a vector, and for two vectors.
Way<float> openblas_of_vectors(Matrices<float>& x) {
  using Gemv =
      void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using Dot = float (*)(int, const float*, int, const float*, int);
  static const auto gemv = symbol<Gemv>(library("libopenblas.so.0"), "cblas_sgemv");
  static const auto dot = symbol<Dot>(library("libopenblas.so.0"), "cblas_sdot");
  const bool row = x.p.rows == 1, column = x.p.columns == 1;
  const bool plain = x.p.batch == 1 && !x.p.transposed_a && !x.p.transposed_b;
  if (!openblas(x) || gemv == nullptr || dot == nullptr || !plain || (!row && !column))
    return nullptr;
  return [row, column](Matrices<float>& m) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    const int depth = static_cast<int>(m.p.depth);
    const int rows = static_cast<int>(m.p.rows), columns = static_cast<int>(m.p.columns);
    if (row && column) m.c[0] = dot(depth, m.a.data(), 1, m.b.data(), 1);
    else if (column)
      gemv(kRowMajor, kNoTrans, rows, depth, 1, m.a.data(), depth, m.b.data(), 1, 0, m.c.data(), 1);
    else
      gemv(kRowMajor, kTrans, depth, columns, 1, m.b.data(), columns, m.a.data(), 1, 0, m.c.data(),
           1);
  };
}
Way<float> onednn(Matrices<float>&) {
  using Gemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                       std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  static const Gemm gemm = [] {
    for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
      if (const auto found = symbol<Gemm>(library(name), "dnnl_sgemm")) return found;
    }
    return Gemm();
  }();
  if (gemm == nullptr) return nullptr;
  const auto multiply = [](const Product& p, const float* a, const float* b, float* c) {
    const auto m = static_cast<std::int64_t>(p.rows), n = static_cast<std::int64_t>(p.columns);
    gemm(p.transposed_a ? 'T' : 'N', p.transposed_b ? 'T' : 'N', m, n,
         static_cast<std::int64_t>(p.depth), 1, a, static_cast<std::int64_t>(p.row_of_a()), b,
         static_cast<std::int64_t>(p.row_of_b()), 0, c, n);
  };
  return [multiply](Matrices<float>& x) { one_by_one(x, 0, x.p.batch, multiply); };
}

Way<float> onednn_matmul(Matrices<float>& x) {
  const auto m = static_cast<std::int64_t>(x.p.rows), n = static_cast<std::int64_t>(x.p.columns);
  const auto k = static_cast<std::int64_t>(x.p.depth);
  const auto batch = static_cast<std::int64_t>(x.p.batch);
  using Sizes = Matmul::Sizes;
  const auto run = Matmul::prepared({x.a.data(),
                                     Matmul::kF32,
                                     {batch, m, k},
                                     x.p.transposed_a ? Sizes{m * k, 1, m} : Sizes{m * k, k, 1}},
                                    {x.b.data(),
                                     Matmul::kF32,
                                     {batch, k, n},
                                     x.p.transposed_b ? Sizes{k * n, 1, k} : Sizes{k * n, n, 1}},
                                    {x.c.data(), Matmul::kF32, {batch, m, n}, {m * n, n, 1}});
  if (!run) return nullptr;
  return [run](Matrices<float>&) { run(); };
}

/// Code that LIBXSMM generates for these sizes, once, before anything is timed. Its matrices lie column by column: so
/// it is told of c^T = b^T a^T.
template <class T>
Way<T> libxsmm([[maybe_unused]] Matrices<T>& x) {
#ifdef HAND_LIBXSMM
  constexpr std::size_t kMost = 64;  // what it is made for
  const Product& p = x.p;
  if (std::max({p.rows, p.columns, p.depth}) > kMost || p.transposed_a || p.transposed_b)
    return nullptr;
  const auto m = static_cast<libxsmm_blasint>(p.columns), n = static_cast<libxsmm_blasint>(p.rows),
             k = static_cast<libxsmm_blasint>(p.depth);
  const T one = 1, zero = 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  const auto multiply = [&] {
    if constexpr (sizeof(T) == 4)
      return libxsmm_smmdispatch(m, n, k, &m, &k, &m, &one, &zero, &flags, &prefetch);
    else return libxsmm_dmmdispatch(m, n, k, &m, &k, &m, &one, &zero, &flags, &prefetch);
  }();
  if (multiply == nullptr) return nullptr;
  return in_parts<T>(
      [multiply](const Product&, const T* a, const T* b, T* c) { multiply(b, a, c); });
#else
  return nullptr;
#endif
}

template <class T>
Best<Matrices<T>> best_way(Matrices<T>& m) {
  if constexpr (sizeof(T) == 4) {
    return best_of(m, {{"OpenBLAS", openblas(m)},
                       {"OpenBLAS, of vectors", openblas_of_vectors(m)},
                       {"oneDNN", onednn(m)},
                       {"oneDNN's matmul", onednn_matmul(m)},
                       {"LIBXSMM", libxsmm(m)}});
  } else return best_of(m, {{"OpenBLAS", openblas(m)}, {"LIBXSMM", libxsmm(m)}});
}

template <class T>
Case product(const Product& p, std::vector<T> (*input)(unsigned, std::size_t)) {
  Matrices<T> m{p, input(1, p.batch * p.rows * p.depth), input(2, p.batch * p.depth * p.columns),
                std::vector<T>(p.batch * p.rows * p.columns)};
  const auto [note, best] = best_way(m);
  Case c =
      by_hand(std::move(m), best, [](const Matrices<T>& x) { return std::vector{output(x.c)}; });
  c.flops = 2. * static_cast<double>(p.batch * p.rows * p.columns * p.depth);
  c.threads = 0;  // the libraries have threads, too
  c.note = note;
  return c;
}

template <class T>
void products(const std::string& id, std::vector<T> (*input)(unsigned, std::size_t),
              std::size_t batch, std::initializer_list<std::size_t> sizes) {
  for (const std::size_t n : sizes) {
    Register(id + std::to_string(n), "us",
             [n, batch, input] { return product<T>({n, n, n, batch}, input); });
  }
}
const bool squares = [] {
  products("B04.matmul_", uf, 1, {4, 8, 16, 32, 47, 64, 128, 256, 333, 512, 1024, 2048});
  products("B04.matmul_f64_", uniform, 1, {16, 32, 64, 128, 256, 512, 1024});
  products("B04.batch_small_", uf, 1024, {8, 16, 32, 64});
  products("B04.batch_small_f64_", uniform, 1024, {8});
  return true;
}();
const Register square_2("B01.jit_matmul_2", "ns", [] { return product({2, 2, 2}, uf); });
const Register square_100("B01.jit_matmul_100", "us", [] { return product({100, 100, 100}, uf); });
const Register batch("B04.batch_16x768", "ms",
                     [] { return product({768, 768, 768, 16, false, true}, uf); });
const Register matvec("B04.matvec_4096", "us", [] { return product({4096, 1, 4096}, uf); });
const Register inner("B04.inner_8M", "us", [] { return product({1, 1, 1 << 23}, uf); });
const Register tall("B04.tall_100000x64", "ms",
                    [] { return product({64, 64, 100'000, 1, true}, uf); });
const Register tall_10("B04.tall_100000x10", "us",
                       [] { return product({10, 10, 100'000, 1, true}, uf); });
const Register wide_3("B04.wide_3x100000", "us",
                      [] { return product({3, 3, 100'000, 1, false, true}, uf); });
const Register layer_8("B04.layer_8x512", "us",
                       [] { return product({8, 1000, 512, 1, false, true}, uf); });
const Register narrow_3("B04.narrow_1000x300x3", "us", [] { return product({1000, 3, 300}, uf); });

// ---- a layer: x w + b, and what follows, in one loop over the product ------------------------------
struct Layer {
  Matrices<float> m;
  Floats bias;
};
void relu(const float* __restrict, const float* __restrict b, float* __restrict y, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) y[j] = std::max(y[j] + b[j], 0.f);
}
void tangent(const float* __restrict, const float* __restrict b, float* __restrict y,
             std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) y[j] = std::tanh(y[j] + b[j]);
}
void residual(const float* __restrict x, const float* __restrict b, float* __restrict y,
              std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) y[j] = y[j] + b[j] + x[j];
}
using Rest = void (*)(const float*, const float*, float*, std::size_t);  // of a row

void layer(const std::string& id, Rest rest, std::initializer_list<std::size_t> sizes) {
  for (const std::size_t n : sizes) {
    Register(id + std::to_string(n), "us", [rest, n] {
      Layer layer{{{n, n, n}, zf(1, n * n), zf(2, n * n), Floats(n * n)}, zf(3, n)};
      for (float& w : layer.m.b) w *= .05f;
      const auto [note, best] = best_way(layer.m);
      Case c = by_hand(
          std::move(layer),
          [rest, way = best](Layer& l) {
            way(l.m);
            const std::size_t columns = l.m.p.columns;
            for (std::size_t i = 0; i < l.m.p.rows; ++i) {
              rest(&l.m.a[i * columns], l.bias.data(), &l.m.c[i * columns], columns);
            }
          },
          [](const Layer& l) { return std::vector{output(l.m.c)}; });
      c.threads = 0;  // of the product; the loop has one
      c.note = note + ", then a loop";
      return c;
    });
  }
}
const bool layers = [] {
  layer("B04.bias_relu_", relu, {32, 256, 1024});
  layer("B04.bias_tanh_", tangent, {256});
  layer("B04.residual_", residual, {256});
  return true;
}();

/// A row times a matrix: sums of its rows, eight at a time.
const Register gemv("B04.gemv_4096", "us", [] {
  constexpr std::size_t n = 4096;
  Case c = by_hand(
      Matrices<float>{{1, n, n}, uf(1, n), uf(2, n * n), Floats(n)},
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
