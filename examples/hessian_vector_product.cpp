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

// Solves H p = r by the method of conjugate gradients: all it needs of H are products.
Array solve(const Array& x, const Array& r0) {
  static const auto product = tl::jit(hvp);
  Array p = tl::zeros_like(r0), r = r0, d = r0;
  for (int i = 0; i < 2 * static_cast<int>(x.size()); ++i) {
    const Array rr = tl::dot(r, r);
    if (rr.item<double>() < 1e-24) break;
    const Array hd = product(x, d);
    const Array alpha = rr / tl::dot(d, hd);
    p = p + alpha * d;
    r = r - alpha * hd;
    d = r + (tl::dot(r, r) / rr) * d;
  }
  return p;
}

int main() {
  Array x({1.2, 1.3, 1.6, 2.5});
  const Array v({1.0, 0.0, -1.0, 2.0});

  std::cout << "H v by jvp of grad:      " << hvp(x, v) << "\n";
  std::cout << "H v by the full Hessian: " << tl::matmul(tl::hessian(rosenbrock)(x), v) << "\n";

  std::cout << "\nNewton's method with conjugate gradients\n";
  for (int i = 0; i < 8; ++i) {
    std::cout << "f = " << tl::round(rosenbrock(x), 6) << " at " << tl::round(x, 4) << "\n";
    x = x - solve(x, tl::grad(rosenbrock)(x));
  }
}
