// The programs of docs/guide/how_it_works.md, in its order.
#include <iostream>
#include <telamon/telamon.hpp>
#include <tuple>

namespace tl = telamon;
using tl::Array;

namespace {

Array f(Array x) { return -(tl::sin(x) * 2.0) + x; }

}  // namespace

int main() {
  const Array x = tl::asarray(3.0), dx = tl::asarray(1.0);
  std::cout << f(x) << "\n\n";

  // A function that looks at its argument.
  auto look = [](Array x) {
    std::cout << x << "\n";
    return tl::sin(x);
  };
  look(x);
  tl::jvp(look, std::tuple{x}, std::tuple{dx});
  tl::vmap(look)(Array({1.0, 2.0}));
  tl::make_jaxpr(look)(x);

  // The program of f, of its jvp, and of what linearize leaves of that.
  std::cout << "\n" << tl::make_jaxpr(f)(x) << "\n\n";
  auto pushed = [](Array x, Array dx) { return tl::jvp(f, std::tuple{x}, std::tuple{dx}); };
  std::cout << tl::make_jaxpr(pushed)(x, dx) << "\n\n";
  auto [y, f_lin] = tl::linearize(f, x);
  std::cout << f_lin.jaxpr() << "\n\n";

  // Transposed: the gradient.
  auto [same, pullback] = tl::vjp(f, x);
  std::cout << std::get<0>(pullback(1.0)) << "\n\n";
  std::cout << tl::make_jaxpr(tl::grad(f))(x) << "\n\n";

  // jit is a primitive that carries a program.
  auto jitted = tl::jit(f, {.name = "f"});
  std::cout << tl::make_jaxpr(jitted)(x) << "\n\n";
  std::cout << tl::make_jaxpr(tl::grad(jitted))(x) << "\n\n";
  std::cout << tl::make_jaxpr(tl::vmap(jitted))(Array({1.0, 2.0})) << "\n";
}
