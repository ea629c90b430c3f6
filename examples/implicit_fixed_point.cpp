// A fixed point and its derivatives: Kepler's equation E = M + e sin(E) tells where a planet stands
// on its orbit at a time. It is solved by repeating it, and differentiated without looking at a
// single step: at the solution,
//   dE = dM + de sin(E) + e cos(E) dE
#include <cmath>
#include <iostream>
#include <telamon/telamon.hpp>
#include <tuple>
#include <utility>

namespace tl = telamon;
using tl::Array;

// The eccentric anomaly E, of the mean anomaly M (the time, as an angle) and the eccentricity.
Array anomaly(const Array& mean, const Array& eccentricity) {
  return tl::root::fixed_point([&](Array E) { return mean + eccentricity * tl::sin(E); }, mean).x;
}

// Where the planet stands; the half axis of the orbit is 1.
std::pair<Array, Array> position(const Array& mean, const Array& eccentricity) {
  const Array E = anomaly(mean, eccentricity);
  return {tl::cos(E) - eccentricity, tl::sqrt(1.0 - eccentricity * eccentricity) * tl::sin(E)};
}

int main() {
  const double mercury = 0.20563;  // its eccentricity, the largest of the planets
  const Array E = anomaly(1.0, mercury);
  std::cout << "E = " << E << ", and E - e sin(E) = " << E - mercury * tl::sin(E) << "\n";

  // First and second derivative, beside what the equation says of them.
  const double cosine = std::cos(E.item<double>()), sine = std::sin(E.item<double>());
  const double slope = 1 / (1 - mercury * cosine);
  std::cout << "dE/dM = " << tl::grad(anomaly)(1.0, mercury) << ", exactly " << slope << "\n";
  std::cout << "d2E/dM2 = " << tl::grad(tl::grad(anomaly))(1.0, mercury) << ", exactly "
            << -mercury * sine * slope * slope * slope << "\n";

  // Half a year at once, compiled: every time is an equation that ends on its own.
  const Array times({0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0});
  const auto orbit = tl::jit(tl::vmap(position, {.in_axes = {0, tl::none}}));
  const auto [x, y] = orbit(times, mercury);
  std::cout << "x = " << x << "\ny = " << y << "\n";

  // Which orbit was seen? Gauss-Newton in the eccentricity, starting from a circle.
  const auto seen = [&](Array e) { return orbit(times, e); };
  Array guess = 0.0;
  for (int step = 1; step <= 5; ++step) {
    const auto [now, slopes] = tl::jvp(seen, std::tuple{guess}, std::tuple{Array(1.0)});
    const Array along = tl::sum((x - now.first) * slopes.first + (y - now.second) * slopes.second);
    const Array curvature = tl::sum(tl::square(slopes.first) + tl::square(slopes.second));
    guess = guess + along / curvature;
    std::cout << "e = " << guess << "\n";
  }
}
