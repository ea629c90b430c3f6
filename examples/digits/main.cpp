// Trains a network of two layers on handwritten digits, and looks inside while doing so.
//
//   digits [FILE]     FILE: a table as digits.csv.gz, which is the default
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <telamon/check.hpp>
#include <telamon/random.hpp>
#include <telamon/telamon.hpp>
#include <vector>

#include "data.hpp"
#include "network.hpp"

namespace tl = telamon;
using tl::Array;
using namespace digits;

namespace {

constexpr std::int64_t kHidden = 64, kBatch = 64;
constexpr int kEpochs = 30;
constexpr double kRate = 2e-3;
constexpr double kWanted = 0.96;

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void heading(const char* title) { std::printf("\n%s\n\n", title); }

/// One line that is overwritten in a terminal, and written now and then otherwise.
void progress(int epoch, double mean_loss, double test_accuracy) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (!terminal && epoch % 5 != 0) return;
  const int done = 30 * epoch / kEpochs;
  std::printf("%sepoch %2d/%d [%s%s] loss %.4f, test accuracy %.4f%s", terminal ? "\r" : "", epoch,
              kEpochs, std::string(static_cast<std::size_t>(done), '#').c_str(),
              std::string(static_cast<std::size_t>(30 - done), '.').c_str(), mean_loss,
              test_accuracy, terminal && epoch < kEpochs ? "" : "\n");
  std::fflush(stdout);
}

struct Times {
  double compile = 0, step = 0;  // milliseconds; of all steps the median
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Trains `state` in place.
Times train(State& state, const Dataset& training, const Dataset& test, Array key) {
  const auto step = tl::jit(train_step, {.donate = {0}, .name = "train_step"});
  const auto evaluate = tl::jit(accuracy, {.name = "accuracy"});
  const auto batches = training.labels.shape(0) / kBatch;
  std::vector<double> times;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    // Mini-batches are consecutive rows of the training set in a new random order.
    key = tl::random::fold_in(key, epoch);
    const Array order = tl::random::permutation(key, static_cast<int>(training.labels.shape(0)));
    double total = 0;
    for (std::int64_t b = 0; b < batches; ++b) {
      const Array chosen = order(tl::slice(b * kBatch, (b + 1) * kBatch));
      const Array images = training.images(chosen), labels = training.labels(chosen);
      const auto start = Clock::now();
      auto [next, value] = step(state, images, labels, kRate);
      state = std::move(next);
      total += value.item<double>();
      times.push_back(milliseconds_since(start));
    }
    progress(epoch, total / static_cast<double>(batches),
             evaluate(state.network, test.images, test.labels).item<double>());
  }
  return {times.front(), median({times.begin() + 1, times.end()})};
}

void show_predictions(const Network& network, const Dataset& test) {
  heading("Some digits of the test set, and what the network takes them for");
  const auto predicted = tl::argmax(scores(network, test.images), -1).to_vector<int>();
  const auto labels = test.labels.to_vector<int>();
  std::vector<int> picked{0, 1, 2, 3};
  for (std::size_t i = 4; i < labels.size(); ++i) {
    if (predicted[i] == labels[i]) continue;
    picked[3] = static_cast<int>(i);  // one mistake, when there is any
    break;
  }
  std::vector<std::string> captions;
  for (const int i : picked) {
    const auto image = static_cast<std::size_t>(i);
    const int guess = predicted[image], label = labels[image];
    captions.push_back(std::to_string(guess) +
                       (guess == label ? " (right)" : " (it is a " + std::to_string(label) + ")"));
  }
  std::cout << draw(test.images(Array(picked)), captions);
}

void show_program(const Network& network, const Dataset& data) {
  heading("The loss of one layer, as the program that was recorded of it");
  const auto layer_loss = [](const Layer& layer, const Array& x, const Array& labels) {
    return cross_entropy(apply(layer, x), labels);
  };
  const Array x = tl::relu(apply(network.hidden, rows(data, 0, 5).images));
  std::cout << tl::make_jaxpr(layer_loss)(network.output, x, rows(data, 0, 5).labels) << "\n";
}

void check_gradient(const Dataset& data) {
  heading("Gradient check");
  const auto widen = [](Array p) { return p.astype(tl::f64); };
  const Network small = tl::tree_map(widen, make_state(tl::random::key(7), 8).network);
  const Dataset few = rows(data, 0, 16);
  tl::check_grads(loss, std::tuple{small, few.images.astype(tl::f64), few.labels});
  std::cout << "jvp and vjp of the loss agree with finite differences (float64, 16 images)\n";
}

void show_per_example_gradients(const Network& network, const Dataset& data) {
  heading("Per-example gradients by vmap(grad(loss))");
  const Dataset few = rows(data, 0, 8);
  const auto per_example = tl::jit(tl::vmap(tl::grad(loss), {.in_axes = {tl::none, 0, 0}}));
  const Network gradients = per_example(network, few.images, few.labels);
  std::cout << "gradient of the output weights: " << gradients.output.w.aval().to_string()
            << ", one per image\n";
  Array squares = tl::zeros({8});
  for (const Array& g : tl::tree_leaves(gradients))
    squares = squares + tl::sum(tl::square(g.reshape({8, -1})), 1);
  std::cout << "their norms: " << tl::sqrt(squares) << "\n";
  const Network batch = tl::grad(loss)(network, few.images, few.labels);
  const auto error = [](Array one, Array all) { return tl::max(tl::abs(tl::mean(one, 0) - all)); };
  const Array worst = tl::tree_reduce([](Array a, Array b) { return tl::maximum(a, b); },
                                      tl::tree_map(error, gradients, batch));
  std::printf("their mean differs from the gradient of the batch by at most %.1e\n",
              worst.item<double>());
}

void show_times(const Times& times, const State& state, const Dataset& training) {
  heading("Times");
  const Dataset batch = rows(training, 0, kBatch);
  auto start = Clock::now();
  const auto program = tl::make_jaxpr(train_step)(state, batch.images, batch.labels, kRate);
  const double trace = milliseconds_since(start);
  std::vector<double> steps;
  for (int i = 0; i < 50; ++i) {
    start = Clock::now();
    train_step(state, batch.images, batch.labels, kRate);
    steps.push_back(milliseconds_since(start));
  }
  const double eager = median(std::move(steps));
  std::printf("tracing a training step        %9.3f ms, %d equations\n", trace,
              tl::count_eqns(program.jaxpr));
  std::printf("first call (trace and compile) %9.3f ms\n", times.compile);
  std::printf("a step with jit                %9.3f ms (medians)\n", times.step);
  std::printf("a step without jit             %9.3f ms (jit runs at %.1f times its speed)\n", eager,
              eager / times.step);
}

int run(const std::string& path) {
  const auto start = Clock::now();
  const Dataset all = read_digits(path);
  const Array keys = tl::random::split(tl::random::key(0), 3);
  const auto n = all.labels.shape(0);
  const Array order = tl::random::permutation(keys(0), static_cast<int>(n));
  const auto shuffled = tl::tree_map([&](Array x) { return x(order); }, all);
  const std::int64_t cut = n * 8 / 10;
  const Dataset training = rows(shuffled, 0, cut), test = rows(shuffled, cut, n);
  std::printf("%lld digits to learn from, %lld to be tested on; 64 -> %lld -> 10, Adam\n",
              static_cast<long long>(cut), static_cast<long long>(n - cut),
              static_cast<long long>(kHidden));

  State state = make_state(keys(1), kHidden);
  const Times times = train(state, training, test, keys(2));
  show_predictions(state.network, test);
  show_program(state.network, test);
  check_gradient(training);
  show_per_example_gradients(state.network, test);
  show_times(times, state, training);

  const double reached = accuracy(state.network, test.images, test.labels).item<double>();
  std::printf("\n%.1f%% of the test digits are recognised, after %.1f s.\n", 100 * reached,
              milliseconds_since(start) / 1000);
  if (reached >= kWanted) return 0;
  std::printf("That is less than the %.0f%% this network reaches: something is wrong.\n",
              100 * kWanted);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "--help" || word == "-h") {
    std::printf(
        "digits [FILE]: learns to read the digits of FILE, gzipped rows of 64 pixels and a "
        "label\n(default: %s)\n",
        TELAMON_EXAMPLE_DIR "/digits.csv.gz");
    return 0;
  }
  try {
    return run(argc > 1 ? word : TELAMON_EXAMPLE_DIR "/digits.csv.gz");
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
