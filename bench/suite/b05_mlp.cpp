// B05: training steps of a multi-layer perceptron, gradients by what many examples share, and of single examples.
#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

Mlp sgd(const Mlp& p, const Array& x, const Array& y) {
  const auto descend = [](const Array& a, const Array& g) { return a - 1e-3 * g; };
  return tree_map(descend, p, grad(mlp_loss)(p, x, y));
}

/// The parameters are donated; what is compared is those after one step.
Case training(const std::vector<std::int64_t>& sizes, std::int64_t batch, double flops) {
  struct State {
    Mlp model;
    Array x, y;
  };
  const auto s = std::make_shared<State>(mlp_params(sizes), u(1, {batch, sizes.front()}),
                                         one_hot_rows(2, batch, static_cast<int>(sizes.back())));
  const auto step = compiled(sgd, {.donate = {0}});
  Case c;
  c.flops = flops;
  c.note = "SGD step, donated";
  c.call = [s, step] { s->model = step(s->model, s->x, s->y); };
  c.outputs = [s, step, sizes] {
    std::vector<Output> out;
    for (const Array& p : tree_leaves(step(mlp_params(sizes), s->x, s->y))) {
      out.push_back(output_of(p));
    }
    return out;
  };
  return c;
}
const Register step("B05.mlp_step", "ms",
                    [] { return training({784, 1024, 1024, 10}, 128, 1.224e9); });
const Register digits_step("B05.mlp_digits_step", "us", [] {
  // The first layer has no gradient by its input.
  return training({64, 128, 10}, 64, 2. * 64 * (2 * 64 * 128 + 3 * 128 * 10));
});

const Register epoch_step("B05.mlp_step_100k", "ms", [] {
  return training({32, 64, 10}, 100'000, 2. * 100'000 * (2 * 32 * 64 + 3 * 64 * 10));
});

Array bf16_loss(const Array& w1, const Array& w2, const Array& x, const Array& y) {
  return mean(square((matmul(relu(matmul(x, w1)), w2) - y).astype(DType::f32)));
}
const Register bf16_grad("B05.mlp_bf16_grad", "us", [] {
  const auto bf16 = [](const Array& x) { return x.astype(DType::bf16); };
  Case c = unlimited(
      "type", go(compiled(grad<0, 1>(bf16_loss)), bf16(.05 * z(1, {512, 1024})),
                 bf16(.05 * z(2, {1024, 256})), bf16(z(3, {128, 512})), bf16(z(4, {128, 256}))));
  c.tolerance = 2e-2;
  return c;
});

/// -log of the probability of the label, which is 0 or 1.
Array logistic_loss(const Array& w, const Array& x, const Array& y) {
  const Array z = matmul(x, w);
  return mean(logaddexp(0., z) - y * z);
}
const Register logistic("B05.logistic_grad", "us", [] {
  constexpr std::int64_t kRows = 100'000, kColumns = 32;
  Case c =
      go(compiled(grad(logistic_loss)), z(1, {kColumns}), z(2, {kRows, kColumns}), u(3, {kRows}));
  c.bytes = 4. * kRows * (kColumns + 1);
  return c;
});

/// -log of the probability of each example's label.
Array label_loss(const Array& w, const Array& x, const Array& labels) {
  return -mean(take_along_axis(log_softmax(matmul(x, w)), labels, 1));
}
const Register labels("B05.labels_grad", "us", [] {
  constexpr std::int64_t kRows = 100'000, kColumns = 32, kLabels = 10;
  const Array label(indices(3, static_cast<std::size_t>(kRows), static_cast<int>(kLabels)));
  Case c = go(compiled(grad(label_loss)), z(1, {kColumns, kLabels}), z(2, {kRows, kColumns}),
              label.reshape({kRows, 1}));
  c.flops = 4. * kRows * kColumns * kLabels;
  c.bytes = 4. * kRows * (kColumns + 1);
  return c;
});

const Register step_memory("MEM.mlp_step", "MB", [] {
  const std::vector<std::int64_t> sizes = {784, 1024, 1024, 10};
  return memory_of(sgd, mlp_params(sizes), u(1, {128, 784}), one_hot_rows(2, 128, 10));
});

const Register per_example("PEG.mlp_digits", "us", [] {
  const auto gradient = [](const Mlp& p, const Array& x, const Array& y) {
    return grad(mlp_loss)(p, x(newaxis), y(newaxis));
  };
  Case c = go(compiled(vmap(gradient, {.in_axes = {none, 0, 0}})), mlp_params({64, 128, 10}),
              u(1, {64, 64}), one_hot_rows(2, 64, 10));
  c.bytes = 4. * 64 * (64 * 128 + 128 + 128 * 10 + 10);
  c.note = "of each of 64 examples";
  return c;
});

}  // namespace
}  // namespace bench
