// The network and Adam, as formulas over arrays: derivatives, batching and native code come from
// the transformations applied in main.cpp.
#include "network.hpp"

#include <cmath>
#include <telamon/random.hpp>

namespace tl = telamon;

namespace digits {

// Normal weights of variance 2 / inputs keep the size of what passes a relu (He et al., 2015).
Layer make_layer(const Array& key, std::int64_t inputs, std::int64_t outputs) {
  const double scale = std::sqrt(2.0 / static_cast<double>(inputs));
  return {scale * tl::random::normal(key, {inputs, outputs}), tl::zeros({outputs})};
}

State make_state(const Array& key, std::int64_t hidden) {
  const Array keys = tl::random::split(key);
  const Network network{make_layer(keys(0), 64, hidden), make_layer(keys(1), hidden, 10)};
  const Network zeros = tl::tree_map([](Array p) { return tl::zeros_like(p); }, network);
  return {network, zeros, zeros, tl::zeros({})};
}

Array apply(const Layer& layer, const Array& x) { return tl::matmul(x, layer.w) + layer.b; }

Array scores(const Network& network, const Array& images) {
  return apply(network.output, tl::relu(apply(network.hidden, images)));
}

Array cross_entropy(const Array& scores, const Array& labels) {
  const Array chosen = tl::one_hot(labels, 10, scores.dtype());
  return -tl::mean(tl::sum(chosen * tl::log_softmax(scores), -1));
}

Array loss(const Network& network, const Array& images, const Array& labels) {
  return cross_entropy(scores(network, images), labels);
}

Array accuracy(const Network& network, const Array& images, const Array& labels) {
  return tl::mean(tl::argmax(scores(network, images), -1) == labels);
}

std::pair<State, Array> train_step(const State& state, const Array& images, const Array& labels,
                                   Array rate) {
  constexpr double kMeanDecay = 0.9, kSquareDecay = 0.999, kEpsilon = 1e-8;
  const auto [value, gradient] = tl::value_and_grad(loss)(state.network, images, labels);
  const Array step = state.step + 1.0;
  const auto mean = tl::tree_map(
      [](Array m, Array g) { return kMeanDecay * m + (1 - kMeanDecay) * g; }, state.mean, gradient);
  const auto square = tl::tree_map(
      [](Array v, Array g) { return kSquareDecay * v + (1 - kSquareDecay) * tl::square(g); },
      state.square, gradient);
  // The averages start at zero; dividing by 1 - decay^step makes up for it.
  const Array mean_scale = 1.0 / (1.0 - tl::power(kMeanDecay, step));
  const Array square_scale = 1.0 / (1.0 - tl::power(kSquareDecay, step));
  const auto descend = [&](Array p, Array m, Array v) {
    return p - rate * (m * mean_scale) / (tl::sqrt(v * square_scale) + kEpsilon);
  };
  const auto network = tl::tree_map(descend, state.network, mean, square);
  return {State{network, mean, square, step}, value};
}

}  // namespace digits
