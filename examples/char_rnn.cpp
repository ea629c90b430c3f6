// A recurrent network reads the licence of this project, letter by letter, and learns to say what comes
// next. Gradients go back through a scan over the letters; training is one compiled step.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <telamon/telamon.hpp>
#include <utility>

namespace tl = telamon;
using tl::Array;

constexpr std::int64_t kHidden = 64, kBatch = 16, kLength = 32;
constexpr int kSteps = 500;

struct Network {
  tl::nn::Gru cell;  // of letters as rows of zeros with a one
  Array w, b;        // from its state to the scores of the next letter
};

Network make_network(const Array& key, std::int64_t letters) {
  const Array keys = tl::random::split(key);
  const double bound = 1 / std::sqrt(static_cast<double>(kHidden));
  return {tl::nn::gru_init(keys(0), letters, kHidden),
          tl::random::uniform(keys(1), {kHidden, letters}, tl::none, -bound, bound),
          tl::zeros({letters})};
}

// The next state, and scores of the letter that follows.
std::pair<Array, Array> read_letter(const Network& n, const Array& state, const Array& letter) {
  const Array next = tl::nn::gru(n.cell, state, tl::one_hot(letter, n.b.shape(0)));
  return {next, tl::matmul(next, n.w) + n.b};
}

// The mean cross-entropy of each letter but the first: texts is i32[kBatch, length].
Array loss(const Network& n, const Array& texts) {
  const auto step = [&](const Array& state, const std::pair<Array, Array>& letters) {
    const auto [next, scores] = read_letter(n, state, letters.first);
    const Array wanted = tl::one_hot(letters.second, n.b.shape(0));
    return std::pair{next, tl::mean(tl::sum(wanted * tl::log_softmax(scores), -1))};
  };
  const Array in_time = tl::transpose(texts);
  const std::pair rows{in_time(tl::slice(tl::none, -1)), in_time(tl::slice(1, tl::none))};
  return -tl::mean(tl::scan(step, tl::nn::gru_start(n.cell, {texts.shape(0)}), rows).second);
}

struct Training {
  Network network;
  tl::optim::AdamState<Network> adam;
};

// A step on random places of the text.
std::pair<Training, Array> train_step(const Training& t, const Array& text, const Array& key) {
  const Array from = tl::random::randint(key, {kBatch, 1}, 0, text.size() - kLength);
  const Array texts = text(from + tl::arange(kLength));
  const auto [value, gradient] = tl::value_and_grad(loss)(t.network, texts);
  auto [network, adam] = tl::optim::adam_step(t.network, gradient, t.adam, 0.02);
  return {Training{std::move(network), std::move(adam)}, value};
}

// What the network writes after a beginning: the likeliest letters, or random ones by probability.
std::string continued(const Network& n, const std::string& beginning, int count,
                      const std::string& alphabet, const Array& key = {}) {
  static const auto step = tl::jit(read_letter);
  Array state = tl::nn::gru_start(n.cell);
  std::string text = beginning;
  for (std::size_t i = 0; i < beginning.size() + static_cast<std::size_t>(count) - 1; ++i) {
    const auto letter = static_cast<int>(alphabet.find(text[i]));
    auto [next, scores] = step(n, state, tl::asarray(letter, tl::i32));
    state = next;
    if (i + 1 < beginning.size()) continue;
    const Array best = key.has_value()
                           ? tl::random::categorical(tl::random::fold_in(key, i), scores / 0.7)
                           : tl::argmax(scores);
    text += alphabet[best.item<std::size_t>()];
  }
  return text;
}

int main() {
  std::ifstream file(TELAMON_EXAMPLE_DIR "/../LICENSE");
  const std::string licence{std::istreambuf_iterator<char>(file), {}};
  std::string alphabet = licence;
  std::sort(alphabet.begin(), alphabet.end());
  alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
  std::vector<int> numbers;
  for (const char c : licence) numbers.push_back(static_cast<int>(alphabet.find(c)));
  const Array text(numbers);
  std::cout << licence.size() << " letters, " << alphabet.size() << " different ones\n";

  const Network start =
      make_network(tl::random::key(0), static_cast<std::int64_t>(alphabet.size()));
  Training training{start, tl::optim::adam_init(start)};
  const auto step = tl::jit(train_step, {.donate = {0}, .name = "train_step"});
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  double average = 0;
  for (int i = 0; i < kSteps; ++i) {
    auto [next, value] = step(training, text, tl::random::key(static_cast<std::uint64_t>(i)));
    training = std::move(next);
    average = i == 0 ? value.item<double>() : 0.95 * average + 0.05 * value.item<double>();
    if (i == 0) std::printf("loss at first %.1f: the logarithm of their number\n", average);
    if (terminal && i % 50 == 49) std::printf("step %d, loss %.2f\n", i + 1, average);
  }
  std::printf("after %d steps it is below 1.5: %s\n", kSteps, average < 1.5 ? "yes" : "no");
  for (const char* beginning : {"the Lic", "Derivative W"})
    std::cout << "\"" << beginning << "\" -> \""
              << continued(training.network, beginning, 4, alphabet) << "\"\n";
  if (terminal)  // too random for a test
    std::cout << continued(training.network, "You ", 300, alphabet, tl::random::key(3)) << "\n";
}
