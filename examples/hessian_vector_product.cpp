// Hessian-vector products without the Hessian: the derivative of the gradient in one direction is
// jvp of grad ("forward over reverse"), at the cost of a few evaluations of the function.
#include <iostream>
#include <telamon/telamon.hpp>
#include <tuple>

namespace tl = telamon;
using tl::Array;

// Rosenbrock's function of n variables; its minimum is at (1, ..., 1).
Array rosenbrock(const Array& x) {
  const Array head = x(tl::slice(tl::none, -1)), tail = x(tl::slice(1, tl::none));
  return tl::sum(100.0 * tl::square(tail - tl::square(head)) + tl::square(1.0 - head));
}

Array hvp(const Array& x, const Array& v) {
  return tl::jvp(tl::grad(rosenbrock), std::tuple{x}, std::tuple{v}).second;
}

// Solves H p = gradient by the method of conjugate gradients: all it needs of H are products.
Array newton_step(const Array& x) {
  const auto product = [&](const Array& v) { return hvp(x, v); };
  return tl::cg(product, tl::grad(rosenbrock)(x), {.tol = 1e-12}).x;
}

int main() {
  Array x({1.2, 1.3, 1.6, 2.5});
  const Array v({1.0, 0.0, -1.0, 2.0});

  std::cout << "H v by jvp of grad:      " << hvp(x, v) << "\n";
  std::cout << "H v by the full Hessian: " << tl::matmul(tl::hessian(rosenbrock)(x), v) << "\n";

  std::cout << "\nNewton's method with conjugate gradients\n";
  const auto step = tl::jit(newton_step);
  for (int i = 0; i < 8; ++i) {
    std::cout << "f = " << tl::round(rosenbrock(x), 6) << " at " << tl::round(x, 4) << "\n";
    x = x - step(x);
  }
}
