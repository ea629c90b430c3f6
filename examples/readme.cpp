// A linear model: its loss compiled with its gradient, gradients of single rows, and a program.
#include <iostream>
#include <telamon/telamon.hpp>
namespace tl = telamon;
using tl::Array;

// Any aggregate struct is a tree of arrays.
struct Linear {
  Array w, b;
};

Array loss(const Linear& m, const Array& x, const Array& y) {
  return tl::mean(tl::square(tl::matmul(x, m.w) + m.b - y));
}

int main() {
  Linear model{Array({1.0, -1.0}), Array({0.5})};
  Array x({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}), y({1.0, 2.0, 3.0});
  auto step = tl::jit(tl::value_and_grad(loss));  // compiled on its first call
  auto [value, gradient] = step(model, x, y);     // gradient is a Linear
  std::cout << value << " " << gradient.w << " " << gradient.b << "\n";
  auto per_example = tl::vmap(tl::grad(loss), {.in_axes = {tl::none, 0, 0}});
  std::cout << per_example(model, x, y).w << "\n";  // one gradient per row of x
  std::cout << tl::make_jaxpr(tl::grad([](Array a) { return tl::sin(a * a); }))(y(0)) << "\n";
}
