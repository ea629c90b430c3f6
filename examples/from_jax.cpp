// A function written in JAX, differentiated and compiled here: docs/how-to/jax.md tells the story.
// from_jax/ holds the function, what exports it, and the exported program.
#include <iostream>
#include <telamon/interop.hpp>
#include <telamon/telamon.hpp>
#include <vector>

namespace tl = telamon;
using tl::Array;

int main() {
  auto loss = tl::interop::load_jaxpr(TELAMON_EXAMPLE_DIR "/from_jax/loss.json");
  for (const std::string& path : loss.input_paths()) std::cout << path << " ";
  std::cout << "\n" << loss.jaxpr() << "\n";

  // Flat inputs, in JAX's order: b, w, x, y.
  std::vector<Array> inputs{tl::full({}, 0.1), tl::linspace(-0.5, 0.5, 3),
                            tl::linspace(-1.0, 1.0, 24).reshape({8, 3}), tl::linspace(0, 1, 8)};
  auto f = [&](const std::vector<Array>& inputs) { return loss(inputs)[0]; };
  auto [value, gradient] = tl::jit(tl::value_and_grad(f))(inputs);
  std::cout << "loss " << value << "\n";
  std::cout << "d loss / d b = " << gradient[0] << "\n";
  std::cout << "d loss / d w = " << gradient[1] << "\n";
}
