// The network and a step of its training, as formulas over arrays: derivatives, batching and native
// code come from the transformations applied in main.cpp.
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
  return {network, tl::optim::adam_init(network)};
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
  const auto [value, gradient] = tl::value_and_grad(loss)(state.network, images, labels);
  auto [network, adam] = tl::optim::adam_step(state.network, gradient, state.adam, rate);
  return {State{std::move(network), std::move(adam)}, value};
}

}  // namespace digits
