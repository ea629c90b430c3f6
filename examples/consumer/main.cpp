// A program outside of Telamon's own build: a gradient, evaluated and compiled.
#include <cstdio>

#include "telamon/telamon.hpp"

namespace tl = telamon;

int main() {
  const auto cube = [](tl::Array x) { return x * x * x; };
  const auto slope = tl::grad(cube);
  const double eager = slope(tl::Array(2.0)).item<double>();
  const double compiled = tl::jit(slope)(tl::Array(2.0)).item<double>();
  std::printf("Telamon %d.%d: d/dx x^3 at 2 is %g, compiled %g\n", TELAMON_VERSION_MAJOR,
              TELAMON_VERSION_MINOR, eager, compiled);
  return eager == 12 && compiled == 12 ? 0 : 1;
}
