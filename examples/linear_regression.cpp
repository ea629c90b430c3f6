// Linear regression by gradient descent: a model is any aggregate struct, its gradient is a struct of
// the same type, and a training step is one compiled function.
#include <iostream>
#include <telamon/telamon.hpp>
#include <utility>

namespace tl = telamon;
using tl::Array;

struct Linear {
  Array w, b;
};

Array predict(const Linear& model, const Array& x) { return tl::matmul(x, model.w) + model.b; }

Array loss(const Linear& model, const Array& x, const Array& y) {
  return tl::mean(tl::square(predict(model, x) - y));
}

int main() {
  // y = 2 x0 - 3 x1 + 1, without noise: the answer is known.
  const Array x({{0.0, 1.0}, {1.0, 0.5}, {2.0, -1.0}, {-1.0, 2.0}, {0.5, 0.5}, {-2.0, -1.5}});
  const Array y = tl::matmul(x, Array({2.0, -3.0})) + 1.0;

  const auto step = tl::jit([](const Linear& model, const Array& x, const Array& y, Array rate) {
    auto [value, gradient] = tl::value_and_grad(loss)(model, x, y);
    auto descend = [&](Array p, Array dp) { return p - rate * dp; };
    return std::pair{value, tl::tree_map(descend, model, gradient)};
  });

  Linear model{tl::zeros({2}, tl::f64), tl::zeros({}, tl::f64)};
  for (int i = 0; i <= 100; ++i) {
    auto [value, next] = step(model, x, y, 0.1);
    if (i % 20 == 0) std::cout << "step " << i << ": loss " << tl::round(value, 6) << "\n";
    model = std::move(next);
  }
  std::cout << "w = " << tl::round(model.w, 6) << ", b = " << tl::round(model.b, 6) << "\n";
}
