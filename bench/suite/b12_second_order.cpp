// B12: gradients, Hessian-vector products, Hessians and Jacobians.
#include <cmath>

#include "models.hpp"

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

/// So many operations for each feature of each example, and a sigmoid for each example.
Case examples(double flops, Case c) {
  return computing(569 * (30 * flops + 2 * kFunction), std::move(c));
}

const Register gradient("B12.grad", "us", [] {
  return examples(4, go(compiled(grad(logreg)), weights(), features(), labels()));
});
const Register hvp("B12.hvp", "us", [] {
  const auto f = [](const Array& w, const Array& v, const Array& X, const Array& y) {
    return jvp([&](const Array& p) { return grad(logreg)(p, X, y); }, std::tuple{w}, std::tuple{v})
        .second;
  };
  return examples(6, go(compiled(f), weights(), z(9, {30}), features(), labels()));
});
const Register hessian30("B12.hessian30", "us", [] {
  // Half of a symmetric product.
  return examples(2 + 1 + 31, go(compiled(hessian(logreg)), weights(), features(), labels()));
});

// ---- a small network -----------------------------------------------------------------------------
const Register hvp_mlp("B12.hvp_mlp", "us", [] {
  const auto f = [](const Mlp& p, const Mlp& v, const Array& x, const Array& y) {
    const auto g = [&](const Mlp& q) { return grad(mlp_loss)(q, x, y); };
    return jvp(g, std::tuple{p}, std::tuple{v}).second;
  };
  const Mlp p = mlp_params({64, 128, 10});
  const Mlp v = tree_map([](const Array& a) { return ones_like(a); }, p);
  // Products of the size of each layer: those of the gradient but for its last, and one or two tangents of each.
  constexpr double kFirst = 2. * 64 * 64 * 128, kSecond = 2. * 64 * 128 * 10;
  return computing(3 * kFirst + 8 * kSecond,
                   go(compiled(f), p, v, u(1, {64, 64}), one_hot_rows(2, 64, 10)));
});

// ---- bundle adjustment: blocks of 2 x (11 + 3 + 1), f64 ------------------------------------------
struct Observed {
  Array camera, point, weight;
};
Array reprojection(const Observed& o, const Array& feature) {
  const auto& [cam, X, w] = o;
  const Array r = cam(slice(0, 3)), C = cam(slice(3, 6)), f = cam(6), uv = cam(slice(7, 9)),
              k = cam(slice(9, 11));
  const Array th2 = dot(r, r), th = sqrt(th2), axis = r / th, D = X - C, c = cos(th);
  const Array Y = D * c + cross(axis, D) * sin(th) + axis * dot(axis, D) * (1 - c);
  const Array p = Y(slice(0, 2)) / Y(2), s = dot(p, p);
  return w * (f * p * (1 + k(0) * s + k(1) * s * s) + uv - feature);
}
const Register ba_block("B12.ba_block", "ns", [] {
  constexpr std::int64_t p = 31843;
  const Array X = u64(2, {p, 3}) + Array(std::vector<double>{0, 0, 5}, {3});
  Case c = go(compiled(vmap(jacrev(reprojection))), Observed{u64(1, {p, 11}), X, u64(3, {p})},
              u64(4, {p, 2}));
  c.bytes = 8. * p * (2 * 15 + 11 + 3 + 1 + 2);
  c.flops = 600. * p;
  return per(p, std::move(c), "per 2 x 15 block, f64");
});

// ---- arms of six joints, and elements of an elastic solid, f64 -----------------------------------
/// Lengths, twists and offsets of the joints (Denavit and Hartenberg).
constexpr double kJoints[6][3] = {{.1, 1.57, .3}, {.4, 0, 0},   {.05, 1.57, 0},
                                  {0, -1.57, .4}, {0, 1.57, 0}, {0, 0, .1}};
/// Where an arm ends.
Array hand_of(const Array& angles) {
  Array turn = eye(4, 4, 0, DType::f64);
  for (int i = 0; i < 6; ++i) {
    const auto& [length, twist, offset] = kJoints[i];
    const Array c = cos(angles(i)), s = sin(angles(i)), none = zeros_like(c);
    const double ct = std::cos(twist), st = std::sin(twist);
    const Arrays rows = {stack(Arrays{c, -s * ct, s * st, length * c}),
                         stack(Arrays{s, c * ct, -c * st, length * s}),
                         stack(Arrays{none, none + st, none + ct, none + offset}),
                         stack(Arrays{none, none, none, none + 1.})};
    turn = matmul(turn, stack(rows));
  }
  return turn(slice(0, 3), 3);
}
const Register arm_jacobian("B12.arm_jacobian", "ns", [] {
  constexpr std::int64_t n = 20000;
  Case c = go(compiled(vmap(jacfwd(hand_of))), u64(1, {n, 6}));
  c.bytes = 8. * n * (6 + 18);
  c.flops = 500. * n;
  return per(n, std::move(c), "per 3 x 6 Jacobian, f64");
});

/// The energy of a tetrahedron (neo-Hookean), by its corners and the inverse of its edges at rest.
Array elastic_energy(const Array& x, const Array& inverse) {
  const Array f = matmul(transpose(x(slice(1, 4)) - x(0)), inverse);
  const Array volume = log(dot(f(0), cross(f(1), f(2))));
  return .5 * (sum(f * f) - 3) - volume + .5 * volume * volume;
}
const Register element_hessian("B12.element_hessian", "ns", [] {
  constexpr std::int64_t n = 4000;
  const Array corners = Array(std::vector<double>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}, {4, 3});
  Case c = go(compiled(vmap(hessian(elastic_energy))), corners + .2 * u64(1, {n, 4, 3}),
              eye(3, 3, 0, DType::f64) + .1 * u64(2, {n, 3, 3}));
  c.bytes = 8. * n * (12 + 9 + 144);
  c.flops = 1500. * n;
  return per(n, std::move(c), "per 12 x 12 Hessian, f64");
});

// ---- Jacobians of three layers of 64 -------------------------------------------------------------
Array tanh3(Array x, const Array& W) {
  for (int i = 0; i < 3; ++i) x = tanh(matmul(W(i), x));
  return x;
}
/// The three layers, and two products of their Jacobians.
constexpr double kJacobian = 3 * 2. * 64 * 64 + 2 * 2. * 64 * 64 * 64;
const Register by_forward("B12.jacfwd_mlp64", "us", [] {
  return computing(kJacobian, go(compiled(jacfwd(tanh3)), z(1, {64}), .1 * z(2, {3, 64, 64})));
});
const Register by_reverse("B12.jacrev_mlp64", "us", [] {
  return computing(kJacobian, go(compiled(jacrev(tanh3)), z(1, {64}), .1 * z(2, {3, 64, 64})));
});

}  // namespace
}  // namespace bench
