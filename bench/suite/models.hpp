// Functions that several workloads of Telamon share, with the inputs that go with them.
#pragma once

#include <utility>
#include <vector>

#include "ours.hpp"

namespace bench {

/// mul sin add neg exp mul tanh add log mul
inline Array chain10(const Array& x) {
  Array y = telamon::sin(x * x) + x;
  y = telamon::tanh(telamon::exp(-y) * .5) + 1;
  return telamon::log(y) * x;
}

inline Array layernorm(const Array& x, const Array& w, const Array& b, std::int64_t axis) {
  const Array m = telamon::mean(x, {.axes = axis, .keepdims = true});
  const Array v = telamon::var(x, {.axes = axis, .keepdims = true});
  return (x - m) * telamon::rsqrt(v + 1e-5) * w + b;
}
/// Of rows.
inline constexpr auto layernorm_rows = [](const Array& x, const Array& w, const Array& b) {
  return layernorm(x, w, b, -1);
};

/// A perceptron with tanh layers, log-probabilities at its end, and its negative log-likelihood.
struct Layer {
  Array w, b;
};
using Mlp = std::vector<Layer>;
inline Mlp mlp_params(const std::vector<std::int64_t>& sizes) {
  Mlp layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const Array w = .05 * z(10 + static_cast<unsigned>(i), {sizes[i], sizes[i + 1]});
    layers.push_back({w, telamon::zeros({sizes[i + 1]}, telamon::f32)});
  }
  return layers;
}
inline Array mlp_predict(const Mlp& p, Array x) {
  for (std::size_t i = 0; i + 1 < p.size(); ++i) {
    x = telamon::tanh(telamon::matmul(x, p[i].w) + p[i].b);
  }
  const Array y = telamon::matmul(x, p.back().w) + p.back().b;
  return y - telamon::logsumexp(y, {.axes = 1, .keepdims = true});
}
inline Array mlp_loss(const Mlp& p, const Array& x, const Array& y) {
  return -telamon::mean(telamon::sum(mlp_predict(p, x) * y, 1));
}
/// n rows of k numbers, all zero but for a one at a random place.
inline Array one_hot_rows(unsigned seed, std::int64_t n, int k) {
  std::vector<float> rows(static_cast<std::size_t>(n * k));
  std::size_t row = 0;
  for (const float x : to_floats(uniform(seed, static_cast<std::size_t>(n)))) {
    rows[row + static_cast<std::size_t>(x * static_cast<float>(k))] = 1;
    row += static_cast<std::size_t>(k);
  }
  return Array(rows, {n, k});
}

}  // namespace bench
