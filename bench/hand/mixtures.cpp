// GMM and KMEANS by hand, in blocks of vectors as wide as the machine has them: of wider ones GCC makes slow code.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

constexpr std::size_t kDoubles = kWide / 2;
using V = double __attribute__((vector_size(kDoubles * 8)));
inline V load(const double* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(double* p, V v) { std::memcpy(p, &v, sizeof v); }

// ---- a mixture of Gaussians ----------------------------------------------------------------------
// Terms of all points are made in lanes of points. The gradient by Q_k is -Q_k S_k with the scatter
// matrix S_k = sum_i w_ik (x_i - mu_k) (x_i - mu_k)^T, so nothing is computed twice.
template <std::size_t D, std::size_t K>
struct Mixture {
  static constexpr std::size_t N = 1000, kBlock = 2 * kDoubles, kPadded = (N + 15) / 16 * 16;
  static constexpr std::size_t C = (D + 7) / 8 * 8;  // rows and columns with zeros at their ends
  static constexpr std::size_t kBelow = D * (D - 1) / 2;

  Doubles alpha = centred(2, K), mu = uniform(3, K* D), q = centred(4, K* D),
          l = centred(5, K* kBelow), x = centred(1, N* D);
  Doubles rows = Doubles(kPadded * C), columns = Doubles(C * kPadded), terms = Doubles(K * kPadded),
          Q = Doubles(K * C * C);
  double value = 0;
  Doubles dalpha = Doubles(K), dmu = Doubles(K * D), dq = Doubles(K * D), dl = Doubles(K * kBelow);

  void lay_out() {
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = 0; j < D; ++j) {
        rows[i * C + j] = columns[j * kPadded + i] = x[i * D + j];
      }
    }
    std::fill(Q.begin(), Q.end(), 0.0);
    for (std::size_t k = 0; k < K; ++k) {
      double* const Qk = &Q[k * C * C];
      const double* below = &l[k * kBelow];
      for (std::size_t j = 0; j < D; ++j) {
        Qk[j * C + j] = std::exp(q[k * D + j]);
        for (std::size_t i = j + 1; i < D; ++i) Qk[i * C + j] = *below++;
      }
    }
  }

  /// alpha_k + sum_j q_kj - |Q_k (x_i - mu_k)|^2 / 2
  void make_terms(std::size_t k) {
    const double* const Qk = &Q[k * C * C];
    double start = alpha[k];
    for (std::size_t j = 0; j < D; ++j) start += q[k * D + j];
    for (std::size_t b = 0; b < kPadded; b += kBlock) {
      V from[C][2] = {}, distance[2] = {};
      for (std::size_t j = 0; j < D; ++j) {
        from[j][0] = load(&columns[j * kPadded + b]) - mu[k * D + j];
        from[j][1] = load(&columns[j * kPadded + b + kDoubles]) - mu[k * D + j];
      }
      for (std::size_t i = 0; i < C; i += 4) {
        V y[4][2] = {};
        for (std::size_t j = 0; j < i + 4; ++j) {
          for (std::size_t r = 0; r < 4; ++r) {
            const double w = Qk[(i + r) * C + j];
            y[r][0] += w * from[j][0];
            y[r][1] += w * from[j][1];
          }
        }
        for (const auto& row : y) {
          distance[0] += row[0] * row[0];
          distance[1] += row[1] * row[1];
        }
      }
      store(&terms[k * kPadded + b], start - .5 * distance[0]);
      store(&terms[k * kPadded + b + kDoubles], start - .5 * distance[1]);
    }
  }

  /// The sum of the logarithms of the points' densities; terms become weights.
  double likelihood() {
    double total = 0;
    for (std::size_t b = 0; b < kPadded; b += kBlock) {
      double most[kBlock], sum[kBlock] = {};
      std::copy_n(&terms[b], kBlock, most);
      for (std::size_t k = 1; k < K; ++k) {
        const double* t = &terms[k * kPadded + b];
        for (std::size_t i = 0; i < kBlock; ++i) most[i] = t[i] > most[i] ? t[i] : most[i];
      }
      for (std::size_t k = 0; k < K; ++k) {
        double* t = &terms[k * kPadded + b];
        for (std::size_t i = 0; i < kBlock; ++i) sum[i] += t[i] = std::exp(t[i] - most[i]);
      }
      for (std::size_t i = 0; i < kBlock; ++i) {
        const bool real = b + i < N;
        if (real) total += most[i] + std::log(sum[i]);
        sum[i] = real ? 1 / sum[i] : 0;
      }
      for (std::size_t k = 0; k < K; ++k) {
        double* t = &terms[k * kPadded + b];
        for (std::size_t i = 0; i < kBlock; ++i) t[i] *= sum[i];
      }
    }
    return total;
  }

  double log_sum_of_alpha() const {
    const double most = *std::max_element(alpha.begin(), alpha.end());
    double sum = 0;
    for (const double a : alpha) sum += std::exp(a - most);
    return most + std::log(sum);
  }

  NOINLINE void objective() {
    lay_out();
    for (std::size_t k = 0; k < K; ++k) make_terms(k);
    constexpr double d = D, nu = D + 1;
    const double log_pi = std::log(std::acos(-1.0));
    double gamma = d * (d - 1) / 4 * log_pi, squares = 0;
    for (std::size_t j = 0; j < D; ++j) gamma += std::lgamma((nu - static_cast<double>(j)) / 2);
    for (const double w : Q) squares += w * w;
    value = -double{N} * (d / 2 * (std::log(2.) + log_pi) + log_sum_of_alpha()) + likelihood() +
            K * (nu * d * std::log(1 / std::sqrt(2.)) - gamma) - .5 * squares;
  }

  /// The sum of w, of w (x - mu), and below the diagonal of w (x - mu) (x - mu)^T.
  void scatter(std::size_t k, double& weight, double* first, double* second) {
    constexpr std::size_t kPoints = 48, kRows = 8;
    static_assert(kPadded % kPoints == 0);
    alignas(64) double from[kPoints][C], weighted[kPoints][C], shift[C] = {};
    std::copy_n(&mu[k * D], D, shift);
    for (std::size_t b = 0; b < kPadded; b += kPoints) {
      for (std::size_t p = 0; p < kPoints; ++p) {
        const double w = terms[k * kPadded + b + p];
        weight += w;
        for (std::size_t j = 0; j < C; ++j) {
          from[p][j] = rows[(b + p) * C + j] - shift[j];
          weighted[p][j] = w * from[p][j];
          first[j] += weighted[p][j];
        }
      }
      for (std::size_t i = 0; i < C; i += kRows) {
        for (std::size_t j = 0; j < i + kRows; j += kDoubles) {
          V sum[kRows];
          for (std::size_t r = 0; r < kRows; ++r) sum[r] = load(&second[(i + r) * C + j]);
          for (std::size_t p = 0; p < kPoints; ++p) {
            const V y = load(&from[p][j]);
            for (std::size_t r = 0; r < kRows; ++r) sum[r] += weighted[p][i + r] * y;
          }
          for (std::size_t r = 0; r < kRows; ++r) store(&second[(i + r) * C + j], sum[r]);
        }
      }
    }
  }

  NOINLINE void gradient() {
    objective();
    const double lse = log_sum_of_alpha();
    for (std::size_t k = 0; k < K; ++k) {
      double weight = 0, first[C] = {}, moved[C] = {};
      alignas(64) double S[C * C] = {}, dQ[C * C] = {};
      scatter(k, weight, first, S);
      for (std::size_t i = 0; i < C; ++i) {
        for (std::size_t j = 0; j < i; ++j) S[j * C + i] = S[i * C + j];
      }
      const double* const Qk = &Q[k * C * C];
      for (std::size_t i = 0; i < D; ++i) {
        for (std::size_t m = 0; m <= i; ++m) {
          const double w = Qk[i * C + m];
          for (std::size_t j = 0; j < C; ++j) dQ[i * C + j] -= w * S[m * C + j];
          moved[i] += w * first[m];
        }
      }
      dalpha[k] = weight - double{N} * std::exp(alpha[k] - lse);
      double* below = &dl[k * kBelow];
      for (std::size_t j = 0; j < D; ++j) {
        const double e = Qk[j * C + j];
        dq[k * D + j] = weight + (dQ[j * C + j] - e) * e;
        double sum = 0;
        for (std::size_t i = j; i < D; ++i) sum += Qk[i * C + j] * moved[i];
        dmu[k * D + j] = sum;
        for (std::size_t i = j + 1; i < D; ++i) *below++ = dQ[i * C + j] - Qk[i * C + j];
      }
    }
  }
};

template <std::size_t D, std::size_t K>
void mixtures() {
  using M = Mixture<D, K>;
  const std::string size = "_" + std::to_string(D) + "_" + std::to_string(K);
  const auto with_flops = [](double flops, Case c) {
    c.flops = flops * 1000 * K * D * D;
    return c;
  };
  Register("GMM.objective" + size, "ms", [=] {
    return with_flops(2,
                      by_hand(
                          M(), [](M& m) { m.objective(); },
                          [](const M& m) { return std::vector{output(std::span(&m.value, 1))}; }));
  });
  Register("GMM.gradient" + size, "ms", [=] {
    return with_flops(6, by_hand(
                             M(), [](M& m) { m.gradient(); },
                             [](const M& m) {
                               return std::vector{output(m.dalpha), output(m.dmu), output(m.dq),
                                                  output(m.dl)};
                             }));
  });
}
const bool sizes = [] {
  mixtures<10, 25>();
  mixtures<32, 50>();
  mixtures<64, 100>();
  return true;
}();

// ---- k-means -------------------------------------------------------------------------------------
template <std::size_t K, std::size_t D>
struct Clusters {
  static constexpr std::size_t N = 10'000, kBlock = 16, kVectors = kBlock / kDoubles;
  Doubles points = uniform(1, N* D), centres = Doubles(points.end() - K * D, points.end());
  double cost = 0;
  Doubles step = Doubles(K * D);

  /// What each distance takes of a centre c: |c - x|^2 = |c|^2 - 2 c x + |x|^2.
  std::array<double, K> squares{};
  Doubles twice = Doubles(K * D);
  void prepare() {
    squares = {};
    for (std::size_t i = 0; i < K * D; ++i) {
      squares[i / D] += centres[i] * centres[i];
      twice[i] = 2 * centres[i];
    }
  }

  /// The distances of a block of points to their nearest centres, and which those are.
  template <bool kWhich>
  void nearest(std::size_t b, V (&best)[kVectors], double* which) const {
    V x[D][kVectors], index[kVectors] = {};
    for (std::size_t j = 0; j < D; ++j) {
      for (std::size_t i = 0; i < kBlock; ++i)
        x[j][i / kDoubles][i % kDoubles] = points[(b + i) * D + j];
    }
    for (V& b : best) b = V{} + 1e300;
    for (std::size_t k = 0; k < K; ++k) {
      V distance[kVectors];
      for (V& d : distance) d = V{} + squares[k];
      for (std::size_t j = 0; j < D; ++j) {
        const double c = twice[k * D + j];
        for (std::size_t h = 0; h < kVectors; ++h) distance[h] -= c * x[j][h];
      }
      for (std::size_t h = 0; h < kVectors; ++h) {
        const auto nearer = distance[h] < best[h];
        best[h] = nearer ? distance[h] : best[h];
        if (kWhich) index[h] = nearer ? V{} + static_cast<double>(k) : index[h];
      }
    }
    for (std::size_t j = 0; j < D; ++j) {
      for (std::size_t h = 0; h < kVectors; ++h) best[h] += x[j][h] * x[j][h];
    }
    if (kWhich) {
      for (std::size_t h = 0; h < kVectors; ++h) store(which + h * kDoubles, index[h]);
    }
  }

  NOINLINE void compute_cost() {
    prepare();
    V sum{};
    for (std::size_t b = 0; b < N; b += kBlock) {
      V best[kVectors];
      nearest<false>(b, best, nullptr);
      for (const V& v : best) sum += v;
    }
    cost = 0;
    for (std::size_t l = 0; l < kDoubles; ++l) cost += sum[l];
  }

  /// The gradient over the diagonal of the Hessian: centre minus mean of its points.
  NOINLINE void compute_step() {
    prepare();
    double sums[K][D] = {}, count[K] = {};
    for (std::size_t b = 0; b < N; b += kBlock) {
      V best[kVectors];
      double which[kBlock];
      nearest<true>(b, best, which);
      for (std::size_t i = 0; i < kBlock; ++i) {
        const auto k = static_cast<std::size_t>(which[i]);
        count[k] += 1;
        for (std::size_t j = 0; j < D; ++j) sums[k][j] += points[(b + i) * D + j];
      }
    }
    for (std::size_t k = 0; k < K; ++k) {
      for (std::size_t j = 0; j < D; ++j)
        step[k * D + j] = centres[k * D + j] - sums[k][j] / count[k];
    }
  }
};
template <std::size_t K, std::size_t D>
void clusters(const std::string& size) {
  using C = Clusters<K, D>;
  const auto with_items = [](Case c) {
    c.items = static_cast<double>(K * C::N);
    return c;
  };
  Register("KMEANS.cost" + size, "ms", [=] {
    return with_items(by_hand(
        C(), [](C& c) { c.compute_cost(); },
        [](const C& c) { return std::vector{output(std::span(&c.cost, 1))}; }));
  });
  Register("KMEANS.dir" + size, "ms", [=] {
    return with_items(by_hand(
        C(), [](C& c) { c.compute_step(); },
        [](const C& c) { return std::vector{output(c.step)}; }));
  });
}
const bool k_means = [] {
  clusters<100, 8>("");
  clusters<10, 16>("_10_16");
  clusters<1000, 16>("_1000_16");
  return true;
}();

}  // namespace
}  // namespace bench
