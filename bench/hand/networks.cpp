// B05, PEG and B12 by hand: a perceptron with layers of tanh and log-probabilities at its end. Its SGD step, its
// gradients of each example, and its Hessian times a vector. Derivatives are written out: backpropagation, and the
// tangent of it.
#include <algorithm>
#include <cmath>

#include "dense.hpp"

namespace bench {
namespace {

using Sixteen = Vector<float>;
constexpr int kClasses = 10, kPadded = 16;  ///< logits lie in rows of 16
/// The bias of a class that is none: its probability is 0.
constexpr float kNever = -1e30f;

constexpr std::size_t size(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}
Floats weights(unsigned layer, int in, int out) {
  Floats w = zf(10 + layer, size(in, out));
  for (float& x : w) x *= .05f;
  return w;
}

/// h = tanh(h + b), row by row.
void activate(float* h, const float* b, int rows, int n) {
  for (int i = 0; i < rows; ++i, h += n) {
    for (int j = 0; j < n; j += kWide) store(h + j, tanh_of(load(h + j) + load(b + j)));
  }
}
/// d *= 1 - h^2, and the sums of its columns.
void back_through_tanh(float* __restrict d, const float* __restrict h, float* __restrict sums,
                       int rows, int n) {
  std::fill_n(sums, n, 0.f);
  for (int i = 0; i < rows; ++i, d += n, h += n) {
    for (int j = 0; j < n; ++j) {
      d[j] *= 1 - h[j] * h[j];
      sums[j] += d[j];
    }
  }
}
/// The probabilities of the classes of a row.
Sixteen softmax(Sixteen y) {
  const float most = across<float>(y, [](float a, float b) { return a > b ? a : b; });
  const Sixteen e = exp_of(y - most);
  return e * (1 / across<float>(e, [](float a, float b) { return a + b; }));
}
void put(float* to, Sixteen v) { *reinterpret_cast<Sixteen*>(to) = v; }

/// The examples' labels: `rows` of 16 numbers, a one in each.
Floats labels(int rows) {
  Floats y(size(rows, kPadded));
  std::size_t at = 0;
  for (const float x : uf(2, static_cast<std::size_t>(rows))) {
    y[at + static_cast<std::size_t>(x * kClasses)] = 1;
    at += kPadded;
  }
  return y;
}

// ---- the network ---------------------------------------------------------------------------------
struct Layer {
  int in, out, row;  ///< the values of an example lie in rows of `row`
  Floats w, b;
  Floats value, error,
      sums;  ///< of each example; errors are derivatives by what the layer's function is of
  Dense forward, back, gradient;

  Layer(unsigned index, int batch, int inputs, int outputs)
      : in(inputs),
        out(outputs),
        row(outputs == kClasses ? kPadded : outputs),
        w(weights(index, in, out)),
        b(static_cast<std::size_t>(row)),
        value(size(batch, row)),
        error(size(batch, row)),
        sums(static_cast<std::size_t>(row)),
        forward({.m = batch, .n = out, .k = in, .row_of_c = row}),
        back({.m = batch, .n = in, .k = out, .transposed_b = true, .row_of_a = row}),
        gradient({.m = in, .n = out, .k = batch, .transposed_a = true, .row_of_b = row}) {
    std::fill(b.begin() + out, b.end(), kNever);
  }
};
struct Network {
  int batch;
  Floats x, y;
  std::vector<Layer> layers;

  Network(const std::vector<int>& sizes, int examples)
      : batch(examples), x(uf(1, size(examples, sizes.front()))), y(labels(examples)) {
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      layers.emplace_back(static_cast<unsigned>(i), batch, sizes[i], sizes[i + 1]);
  }
  const float* input_of(std::size_t layer) const {
    return layer == 0 ? x.data() : layers[layer - 1].value.data();
  }

  void forward() {
    for (std::size_t l = 0; l < layers.size(); ++l) {
      Layer& layer = layers[l];
      layer.forward(input_of(l), layer.w.data(), layer.value.data());
      if (l + 1 < layers.size()) activate(layer.value.data(), layer.b.data(), batch, layer.out);
    }
  }
  /// The errors of the last layer: of the loss, times `scale`, by the logits.
  void compare(float scale) {
    Layer& last = layers.back();
    Sixteen sums{};
    const Sixteen b = vector_at(last.b.data());
    for (std::size_t at = 0; at < last.value.size(); at += kPadded) {
      const Sixteen p = softmax(vector_at(&last.value[at]) + b);
      const Sixteen error = (p - vector_at(&y[at])) * scale;
      put(&last.error[at], error);
      sums += error;
    }
    put(last.sums.data(), sums);
  }
  /// From the errors of a layer to those of the one before.
  void back(std::size_t l) {
    Layer &layer = layers[l], &before = layers[l - 1];
    layer.back(layer.error.data(), layer.w.data(), before.error.data());
    back_through_tanh(before.error.data(), before.value.data(), before.sums.data(), batch,
                      before.out);
  }

  /// The product that has the gradient of the weights takes it from them.
  void step() {
    constexpr float kRate = 1e-3f;
    forward();
    compare(1.f / static_cast<float>(batch));
    for (std::size_t l = layers.size(); l-- > 0;) {
      Layer& layer = layers[l];
      if (l > 0) back(l);
      layer.gradient(input_of(l), layer.error.data(), layer.w.data(), 1, -kRate);
      for (std::size_t j = 0; j < layer.b.size(); ++j) layer.b[j] -= kRate * layer.sums[j];
    }
  }
};

Case training(const std::vector<int>& sizes, int batch, double flops) {
  const Network start(sizes, batch);
  const auto results = [](const Network& n) {
    std::vector<Output> out;
    for (const Layer& l : n.layers) {
      out.push_back(output(l.w));
      out.push_back(output(std::span(l.b).first(static_cast<std::size_t>(l.out))));
    }
    return out;
  };
  Case c = by_hand(start, [](Network& n) { n.step(); }, results);
  c.outputs = [start, results] {  // after one step
    Network n = start;
    n.step();
    return results(n);
  };
  c.flops = flops;
  c.threads = 0;  // of the products; the loops have one
  c.note = "SGD step, in place";
  return c;
}
const Register step("B05.mlp_step", "ms",
                    [] { return training({784, 1024, 1024, 10}, 128, 1.224e9); });
const Register digits_step("B05.mlp_digits_step", "us", [] {
  return training({64, 128, 10}, 64, 2. * 64 * (2 * 64 * 128 + 3 * 128 * 10));
});

const Register epoch_step("B05.mlp_step_100k", "ms", [] {
  return training({32, 64, 10}, 100'000, 2. * 100'000 * (2 * 32 * 64 + 3 * 64 * 10));
});

// ---- a regression: each example is read once -----------------------------------------------------
constexpr int kExamples = 100'000, kFeatures = 32;

void logistic_gradient(const Floats& w, const Floats& x, const Floats& y, Floats& gradient) {
  constexpr std::size_t kVectors = kFeatures / kWide, kAtOnce = kWide;
  Sixteen weights[kVectors], sums[kVectors] = {};
  for (std::size_t v = 0; v < kVectors; ++v) weights[v] = load(&w[v * kWide]);
  for (std::size_t first = 0; first < kExamples; first += kAtOnce) {
    alignas(64) float products[kAtOnce];
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const float* row = &x[(first + i) * kFeatures];
      Sixteen sum = weights[0] * load(row);
      for (std::size_t v = 1; v < kVectors; ++v) sum += weights[v] * load(row + v * kWide);
      products[i] = across<float>(sum, [](float a, float b) { return a + b; });
    }
    alignas(64) float errors[kAtOnce];
    put(errors, 1 / (1 + exp_of(-load(products))) - load(&y[first]));
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      const float* row = &x[(first + i) * kFeatures];
      for (std::size_t v = 0; v < kVectors; ++v) sums[v] += errors[i] * load(row + v * kWide);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v)
    put(&gradient[v * kWide], sums[v] / static_cast<float>(kExamples));
}
const Register logistic("B05.logistic_grad", "us", [] {
  struct Regression {
    Floats w = zf(1, kFeatures), x = zf(2, kExamples* kFeatures), y = uf(3, kExamples),
           gradient = Floats(kFeatures);
  };
  Case c = by_hand(
      Regression(), [](Regression& r) { logistic_gradient(r.w, r.x, r.y, r.gradient); },
      [](const Regression& r) { return std::vector{output(r.gradient)}; });
  c.bytes = 4. * static_cast<double>(kExamples * (kFeatures + 1));
  return c;
});

// Block by block, products by libraries or tiles; the logits of an example lie in one vector.
const Register labels_of_examples("B05.labels_grad", "us", [] {
  constexpr int kBlock = 250;
  struct Classifier {
    Floats w = zf(1, size(kFeatures, kClasses)), x = zf(2, size(kExamples, kFeatures));
    Ints labels = indices(3, kExamples, kClasses);
    Floats logits = Floats(size(kBlock, kPadded)), gradient = Floats(w.size());
    Dense forward{{.m = kBlock, .n = kClasses, .k = kFeatures, .row_of_c = kPadded}},
        back{{.m = kFeatures,
              .n = kClasses,
              .k = kBlock,
              .transposed_a = true,
              .row_of_b = kPadded}};

    void work() {
      Sixteen never{};
      for (int k = kClasses; k < kPadded; ++k) never[k] = kNever;
      std::fill(gradient.begin(), gradient.end(), 0.f);
      for (int first = 0; first < kExamples; first += kBlock) {
        const float* const rows = &x[size(first, kFeatures)];
        const std::int32_t* const of_rows = &labels[static_cast<std::size_t>(first)];
        forward(rows, w.data(), logits.data());
        for (int i = 0; i < kBlock; ++i) {
          float* const y = &logits[size(i, kPadded)];
          put(y, softmax(vector_at(y) + never) * (1.f / kExamples));
          y[of_rows[i]] -= 1.f / kExamples;
        }
        back(rows, logits.data(), gradient.data(), 1, 1);
      }
    }
  };
  Case c = by_hand(
      Classifier(), [](Classifier& r) { r.work(); },
      [](const Classifier& r) { return std::vector{output(r.gradient)}; });
  c.threads = 0;  // of the products; the loops have one
  c.flops = 4. * kExamples * kFeatures * kClasses;
  c.bytes = 4. * kExamples * (kFeatures + 1);
  return c;
});

// ---- gradients of each example -------------------------------------------------------------------
constexpr int kBatch = 64, kInputs = 64, kHidden = 128;

struct PerExample {
  Network network{{kInputs, kHidden, kClasses}, kBatch};
  Floats dw1 = Floats(size(kBatch, kInputs* kHidden)),
         dw2 = Floats(size(kBatch, kHidden* kClasses) + kPadded), db2 = Floats(kBatch * kClasses);

  void gradients() {
    network.forward();
    network.compare(1);
    network.back(1);
    const Layer &first = network.layers[0], &last = network.layers[1];
    for (std::size_t e = 0; e < kBatch; ++e) {
      const float *x = &network.x[e * kInputs], *h = &first.value[e * kHidden];
      const float* __restrict error = &first.error[e * kHidden];
      float* __restrict to = &dw1[e * kInputs * kHidden];
      for (int i = 0; i < kInputs; ++i, to += kHidden) {
        for (int j = 0; j < kHidden; ++j) to[j] = x[i] * error[j];
      }
      // Rows of 10 are written as rows of 16, whose ends the next row replaces.
      const Sixteen up = vector_at(&last.error[e * kPadded]);
      to = &dw2[e * kHidden * kClasses];
      for (int i = 0; i < kHidden; ++i, to += kClasses) put(to, h[i] * up);
      std::copy_n(&last.error[e * kPadded], kClasses, &db2[e * kClasses]);
    }
  }
};
const Register per_example("PEG.mlp_digits", "us", [] {
  Case c = by_hand(
      PerExample(), [](PerExample& p) { p.gradients(); },
      [](const PerExample& p) {
        return std::vector{output(p.dw1), output(p.network.layers[0].error),
                           output(std::span(p.dw2).first(size(kBatch, kHidden * kClasses))),
                           output(p.db2)};
      });
  c.bytes = 4. * kBatch * (kInputs * kHidden + kHidden + kHidden * kClasses + kClasses);
  c.note = "of each of 64 examples";
  return c;
});

// ---- the Hessian times a vector of ones ----------------------------------------------------------
/// The gradient is differentiated along the vector: each value has a tangent beside it.
struct SecondOrder {
  Network network{{kInputs, kHidden, kClasses}, kBatch};
  Floats v1 = Floats(kInputs * kHidden, 1.f), c1 = Floats(kHidden, 1.f),
         v2 = Floats(kHidden * kClasses, 1.f), c2 = Floats(kPadded, 1.f);
  Floats hidden = Floats(kBatch * kHidden), logits = Floats(kBatch * kPadded),
         hidden_error = Floats(kBatch * kHidden);  ///< tangents
  Floats w1 = Floats(kInputs * kHidden), b1 = Floats(kHidden), w2 = Floats(kHidden * kClasses),
         b2 = Floats(kPadded);  ///< results

  void product() {
    Layer &first = network.layers[0], &last = network.layers[1];
    const float* const x = network.x.data();
    network.forward();
    first.forward(x, v1.data(), hidden.data());
    for (std::size_t at = 0; at < hidden.size(); at += kHidden) {
      const float* __restrict h = &first.value[at];
      float* __restrict t = &hidden[at];
      for (std::size_t j = 0; j < kHidden; ++j) t[j] = (t[j] + c1[j]) * (1 - h[j] * h[j]);
    }
    last.forward(hidden.data(), last.w.data(), logits.data());
    last.forward(first.value.data(), v2.data(), logits.data(), 1);
    errors();

    last.back(last.error.data(), last.w.data(), first.error.data());
    last.back(logits.data(), last.w.data(), hidden_error.data());
    last.back(last.error.data(), v2.data(), hidden_error.data(), 1);
    last.gradient(hidden.data(), last.error.data(), w2.data());
    last.gradient(first.value.data(), logits.data(), w2.data(), 1);
    std::fill(b1.begin(), b1.end(), 0.f);
    for (std::size_t at = 0; at < hidden.size(); at += kHidden) {
      const float *__restrict h = &first.value[at], *__restrict t = &hidden[at],
                              *__restrict d = &first.error[at];
      float* __restrict e = &hidden_error[at], * __restrict sums = b1.data();
      for (std::size_t j = 0; j < kHidden; ++j) {
        e[j] = e[j] * (1 - h[j] * h[j]) - 2 * d[j] * h[j] * t[j];
        sums[j] += e[j];
      }
    }
    first.gradient(x, hidden_error.data(), w1.data());
  }
  /// The errors of the last layer, and their tangents in place of those of the logits.
  void errors() {
    constexpr float kScale = 1.f / kBatch;
    Layer& last = network.layers[1];
    const auto plus = [](float a, float b) { return a + b; };
    const Sixteen b = vector_at(last.b.data()), c = vector_at(c2.data());
    Sixteen sums{};
    for (std::size_t at = 0; at < logits.size(); at += kPadded) {
      const Sixteen p = softmax(vector_at(&last.value[at]) + b), t = vector_at(&logits[at]) + c;
      const Sixteen tangent = p * (t - across<float>(p * t, plus)) * kScale;
      put(&last.error[at], (p - vector_at(&network.y[at])) * kScale);
      put(&logits[at], tangent);
      sums += tangent;
    }
    put(b2.data(), sums);
  }
};
const Register hvp("B12.hvp_mlp", "us", [] {
  constexpr double kFirst = 2. * kBatch * kInputs * kHidden,
                   kSecond = 2. * kBatch * kHidden * kClasses;
  return computing(3 * kFirst + 8 * kSecond, by_hand(
                                                 SecondOrder(), [](SecondOrder& s) { s.product(); },
                                                 [](const SecondOrder& s) {
                                                   return std::vector{
                                                       output(s.w1), output(s.b1), output(s.w2),
                                                       output(std::span(s.b2).first(kClasses))};
                                                 }));
});

}  // namespace
}  // namespace bench
