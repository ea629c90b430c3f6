// B05: training steps of a multi-layer perceptron, and gradients of single examples of one.
#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

Mlp sgd(const Mlp& p, const Array& x, const Array& y) {
  const auto descend = [](const Array& a, const Array& g) { return a - 1e-3 * g; };
  return tree_map(descend, p, grad(mlp_loss)(p, x, y));
}

/// The parameters are donated; what is compared is the loss after one step.
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
  c.note = "SGD step, donated; check = loss after one step";
  c.call = [s, step] { s->model = step(s->model, s->x, s->y); };
  c.outputs = [s, step, sizes] {
    const Mlp next = step(mlp_params(sizes), s->x, s->y);
    return std::vector{output_of(mlp_loss(next, s->x, s->y))};
  };
  return c;
}
const Register step("B05.mlp_step", "ms",
                    [] { return training({784, 1024, 1024, 10}, 128, 1.224e9); });
const Register digits_step("B05.mlp_digits_step", "us", [] {
  return training({64, 128, 10}, 64, 3. * 2 * 64 * (64 * 128 + 128 * 10));
});

}  // namespace
}  // namespace bench
