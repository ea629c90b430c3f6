// B12: gradients, Hessian-vector products, Hessians and Jacobians.
#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

// ---- logistic regression: 569 examples of 30 features --------------------------------------------
Array logreg(const Array& w, const Array& X, const Array& y) {
  return mean(logaddexp(0.0, -y * matmul(X, w))) + .5e-3 * dot(w, w);
}
Array weights() { return .1 * z(1, {30}); }
Array features() { return z(2, {569, 30}); }
Array labels() { return where(u(3, {569}) > .5, ones({569}, DType::f32), -1); }

const Register gradient("B12.grad", "us", [] {
  return go(compiled(grad(logreg)), weights(), features(), labels());
});
const Register hvp("B12.hvp", "us", [] {
  const auto f = [](const Array& w, const Array& v, const Array& X, const Array& y) {
    return jvp([&](const Array& p) { return grad(logreg)(p, X, y); }, std::tuple{w}, std::tuple{v})
        .second;
  };
  return go(compiled(f), weights(), z(9, {30}), features(), labels());
});
const Register hessian30("B12.hessian30", "us", [] {
  return go(compiled(hessian(logreg)), weights(), features(), labels());
});

// ---- a small network -----------------------------------------------------------------------------
struct Layer {
  Array w, b;
};
using Network = std::vector<Layer>;

Array network_loss(const Network& p, Array x, const Array& y) {
  for (std::size_t i = 0; i + 1 < p.size(); ++i) x = tanh(matmul(x, p[i].w) + p[i].b);
  const Array out = matmul(x, p.back().w) + p.back().b;
  const Array log_p = out - logsumexp(out, {.axes = 1, .keepdims = true});
  return -mean(sum(log_p * y, 1));
}
Network network(const std::vector<std::int64_t>& sizes) {
  Network p;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    p.push_back({.05 * z(10 + static_cast<unsigned>(i), {sizes[i], sizes[i + 1]}),
                 zeros({sizes[i + 1]}, DType::f32)});
  }
  return p;
}
Array one_hot_labels(unsigned seed, std::int64_t n, std::int64_t k) {
  const Array labels = (u(seed, {n}) * static_cast<double>(k)).astype(DType::i32);
  return (labels(slice(), newaxis) == arange(k)).astype(DType::f32);
}
const Register hvp_mlp("B12.hvp_mlp", "us", [] {
  const auto f = [](const Network& p, const Network& v, const Array& x, const Array& y) {
    const auto g = [&](const Network& q) { return grad(network_loss)(q, x, y); };
    return jvp(g, std::tuple{p}, std::tuple{v}).second;
  };
  const Network p = network({64, 128, 10});
  const Network v = tree_map([](const Array& a) { return ones_like(a); }, p);
  return go(compiled(f), p, v, u(1, {64, 64}), one_hot_labels(2, 64, 10));
});

// ---- bundle adjustment: blocks of 2 x (11 + 3 + 1), f64 ------------------------------------------
Array reprojection(const Array& cam, const Array& X, const Array& w, const Array& feature) {
  const Array r = cam(slice(0, 3)), C = cam(slice(3, 6)), f = cam(6), uv = cam(slice(7, 9)),
              k = cam(slice(9, 11));
  const Array th2 = dot(r, r), th = sqrt(th2), axis = r / th, D = X - C, c = cos(th);
  const Array Y = D * c + cross(axis, D) * sin(th) + axis * dot(axis, D) * (1 - c);
  const Array p = Y(slice(0, 2)) / Y(2), s = dot(p, p);
  return w * (f * p * (1 + k(0) * s + k(1) * s * s) + uv - feature);
}
const Register ba_block("B12.ba_block", "ns", [] {
  constexpr std::int64_t p = 31843;
  // All three arguments as one tree, so that one pass of reverse mode gives all blocks.
  const auto blocks = [](const Array& cam, const Array& X, const Array& w, const Array& feature) {
    const auto f = [&](const std::tuple<Array, Array, Array>& a) {
      return reprojection(std::get<0>(a), std::get<1>(a), std::get<2>(a), feature);
    };
    return jacrev(f)(std::tuple{cam, X, w});
  };
  const Array X = u64(2, {p, 3}) + Array(std::vector<double>{0, 0, 5}, {3});
  return per(p, go(compiled(vmap(blocks)), u64(1, {p, 11}), X, u64(3, {p}), u64(4, {p, 2})),
             "per 2 x 15 block, f64");
});

// ---- Jacobians of three layers of 64 -------------------------------------------------------------
Array tanh3(Array x, const Array& W) {
  for (int i = 0; i < 3; ++i) x = tanh(matmul(W(i), x));
  return x;
}
const Register by_forward("B12.jacfwd_mlp64", "us", [] {
  return go(compiled(jacfwd(tanh3)), z(1, {64}), .1 * z(2, {3, 64, 64}));
});
const Register by_reverse("B12.jacrev_mlp64", "us", [] {
  return go(compiled(jacrev(tanh3)), z(1, {64}), .1 * z(2, {3, 64, 64}));
});

}  // namespace
}  // namespace bench
