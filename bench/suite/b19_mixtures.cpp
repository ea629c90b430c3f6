// GMM and KMEANS, as gradbench defines them: the posterior of a mixture of Gaussians, and k-means.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kPoints = 1000;

/// log of pi^(d (d - 1) / 4) prod_j gamma(a + (1 - j) / 2)
double log_multivariate_gamma(double a, std::int64_t d) {
  double sum = static_cast<double>(d * (d - 1)) / 4 * std::log(pi);
  for (std::int64_t j = 0; j < d; ++j) sum += std::lgamma(a - static_cast<double>(j) / 2);
  return sum;
}

struct Mixture {
  Array alpha, mu, q, l;
};

/// Q_k is lower triangular: exp(q_k) on the diagonal, l_k below it, column by column.
Array triangles(const Array& q, const Array& l) {
  const std::int64_t k = q.shape(0), d = q.shape(1);
  std::vector<std::int32_t> rows, columns, diagonal(static_cast<std::size_t>(d));
  for (std::int32_t j = 0; j < d; ++j) {
    for (std::int32_t i = j + 1; i < d; ++i) rows.push_back(i), columns.push_back(j);
  }
  std::iota(diagonal.begin(), diagonal.end(), 0);
  const Array below = zeros({k, d, d}, q.dtype()).at(slice(), Array(rows), Array(columns)).set(l);
  return below.at(slice(), Array(diagonal), Array(diagonal)).set(exp(q));
}

/// With a Wishart prior (gamma 1, m 0).
Array posterior(const Mixture& mixture, const Array& x) {
  const auto& [alpha, mu, q, l] = mixture;
  const std::int64_t k = mu.shape(0), d = mu.shape(1), n = x.shape(0), nu = d + 1;
  const Array Q = triangles(q, l);
  const Array distance = sum(square(einsum("kij,nkj->nki", Q, x(slice(), newaxis) - mu)), -1);
  const Array likelihood = sum(logsumexp(alpha + sum(q, 1) - .5 * distance, 1));
  const double dd = static_cast<double>(d), dnu = static_cast<double>(nu);
  const double constant = static_cast<double>(k) * (dnu * dd * std::log(1 / std::sqrt(2.)) -
                                                    log_multivariate_gamma(dnu / 2, d));
  const Array norm = dd / 2 * std::log(2 * pi) + logsumexp(alpha);
  return static_cast<double>(-n) * norm + likelihood + (constant - .5 * sum(square(Q)));
}

Mixture mixture(std::int64_t d, std::int64_t k) {
  return {z64(2, {k}), u64(3, {k, d}), z64(4, {k, d}), z64(5, {k, d * (d - 1) / 2})};
}
template <class F>
Case mixture_case(F f, std::int64_t d, std::int64_t k, double flops) {
  Case c = go(compiled(std::move(f)), mixture(d, k), z64(1, {kPoints, d}));
  c.flops = flops * static_cast<double>(kPoints * k * d * d);
  c.note = "n = 1000, f64";
  return c;
}
const bool sizes = [] {
  for (const auto& [d, k] : {std::pair{10, 25}, {32, 50}, {64, 100}}) {
    const std::string size = "_" + std::to_string(d) + "_" + std::to_string(k);
    Register("GMM.objective" + size, "ms", [=] { return mixture_case(posterior, d, k, 2); });
    Register("GMM.gradient" + size, "ms", [=] { return mixture_case(grad(posterior), d, k, 6); });
    Register("MEM.gmm_gradient" + size, "MB",
             [=] { return memory_of(grad(posterior), mixture(d, k), z64(1, {kPoints, d})); });
  }
  return true;
}();

// ---- k-means: centres among 10,000 points ---------------------------------------------------------
/// With |c - p|^2 = |c|^2 - 2 c p + |p|^2: among many centres half the time of the differences.
Array cost(const Array& centres, const Array& points) {
  const Array nearest = min(sum(square(centres), 1) - 2 * matmul(points, centres.T()), 1);
  return sum(nearest + sum(square(points), 1));
}
/// Newton's step: the Hessian is diagonal, so a product with ones is all of it.
Array direction(const Array& centres, const Array& points) {
  const auto gradient = [&](const Array& c) { return grad(cost)(c, points); };
  const auto [g, diagonal] = jvp(gradient, std::tuple{centres}, std::tuple{ones_like(centres)});
  return g / diagonal;
}
/// For each pair of a point and a centre: the product of a matrix with another, the centre's square, a minimum.
template <class F>
Case clusters(F f, std::int64_t k, std::int64_t d) {
  constexpr std::int64_t n = 10'000;
  const Array points = u64(1, {n, d});
  Case c = go(compiled(f), points(slice(-k, none)), points);
  c.items = static_cast<double>(k * n);
  c.flops = static_cast<double>(2 * d + 2) * c.items;
  c.note = fmt::format("k = {}, n = {}, d = {}, f64", k, n, d);
  return c;
}
struct KMeansRows {
  KMeansRows(const std::string& size, std::int64_t k, std::int64_t d) {
    Register("KMEANS.cost" + size, "ms", [=] { return clusters(cost, k, d); });
    Register("KMEANS.dir" + size, "ms", [=] { return clusters(direction, k, d); });
  }
};
const KMeansRows kmeans[]{{"", 100, 8}, {"_10_16", 10, 16}, {"_1000_16", 1000, 16}};

}  // namespace
}  // namespace bench
