// A network of two layers, its loss, and training by the Adam method.
#pragma once

#include <telamon/telamon.hpp>
#include <utility>

namespace digits {

using telamon::Array;

/// y = x w + b
struct Layer {
  Array w, b;
};

/// 64 pixels -> hidden units -> 10 scores.
struct Network {
  Layer hidden, output;
};

/// What training carries from step to step.
struct State {
  Network network;
  telamon::optim::AdamState<Network> adam;
};

Layer make_layer(const Array& key, std::int64_t inputs, std::int64_t outputs);
State make_state(const Array& key, std::int64_t hidden);

Array apply(const Layer& layer, const Array& x);
/// Scores, one row per image (or a single row for a single image).
Array scores(const Network& network, const Array& images);
/// The mean cross-entropy of the labels under softmax of the scores.
Array cross_entropy(const Array& scores, const Array& labels);
Array loss(const Network& network, const Array& images, const Array& labels);
/// The fraction of images whose highest score is at their label.
Array accuracy(const Network& network, const Array& images, const Array& labels);

/// One step of Adam (Kingma and Ba, 2015): the next state and the loss.
std::pair<State, Array> train_step(const State& state, const Array& images, const Array& labels,
                                   Array rate);

}  // namespace digits
