// The Sun and the outer planets. Only the energy is written down: the forces are its gradient. Steps
// that treat speeds and positions by turns keep the energy within bounds; the method of Runge and
// Kutta is more accurate, but loses it slowly.
//
// Data: positions (astronomical units) and speeds (per day) as in the n-body program of the Computer
// Language Benchmarks Game, which prints the energies -0.169075164 and, 1000 steps later,
// -0.169087605.
#include <cstdio>
#include <telamon/telamon.hpp>
#include <utility>

namespace tl = telamon;
using tl::Array;

constexpr double kYear = 365.24;

struct Bodies {
  Array position, speed;  // [5, 3]
};

// In units of the Sun's mass / 4 pi^2: Sun, Jupiter, Saturn, Uranus, Neptune.
const Array& masses() {
  static const Array m = 4 * tl::pi * tl::pi *
                         Array({1.0, 9.54791938424326609e-04, 2.85885980666130812e-04,
                                4.36624404335156298e-05, 5.15138902046611451e-05});
  return m;
}

Bodies solar_system() {
  const Array position(
      {{0.0, 0.0, 0.0},
       {4.84143144246472090e+00, -1.16032004402742839e+00, -1.03622044471123109e-01},
       {8.34336671824457987e+00, 4.12479856412430479e+00, -4.03523417114321381e-01},
       {1.28943695621391310e+01, -1.51111514016986312e+01, -2.23307578892655734e-01},
       {1.53796971148509165e+01, -2.59193146099879641e+01, 1.79258772950371181e-01}});
  const Array speed({{0.0, 0.0, 0.0},
                     {1.66007664274403694e-03, 7.69901118419740425e-03, -6.90460016972063023e-05},
                     {-2.76742510726411899e-03, 4.99852801234917238e-03, 2.30417297573763929e-05},
                     {2.96460137564761618e-03, 2.37847173959480950e-03, -2.96589568540237556e-05},
                     {2.68067772490389322e-03, 1.62824170038242295e-03, -9.51592254519715870e-05}});
  // The Sun moves so that the centre of mass rests.
  const Array momentum = tl::matmul(masses(), kYear * speed);
  return {position, (kYear * speed).at(0).set(-momentum / masses()(0))};
}

// The sum over all pairs of -m_i m_j / |x_i - x_j|.
Array potential(const Array& x) {
  const Array difference = tl::expand_dims(x, 0) - tl::expand_dims(x, 1);
  const Array square = tl::sum(difference * difference, -1) + tl::eye(5, tl::none, 0, tl::f64);
  return -tl::sum(tl::triu(tl::outer(masses(), masses()), 1) / tl::sqrt(square));
}
Array energy(const Bodies& b) {
  return 0.5 * tl::sum(tl::expand_dims(masses(), 1) * b.speed * b.speed) + potential(b.position);
}
Array acceleration(const Array& position) {
  return -tl::grad(potential)(position) / tl::expand_dims(masses(), 1);
}

// `count` steps, and the energy after each.
std::pair<Bodies, Array> by_turns(const Bodies& start, const Array& h, int count) {
  const auto step = [&](const Bodies& b) {
    const Array speed = b.speed + h * acceleration(b.position);
    const Bodies next{b.position + h * speed, speed};
    return std::pair{next, energy(next)};
  };
  return tl::scan(step, start, tl::none, {.length = count});
}
Bodies by_runge_kutta(const Bodies& start, const Array& times) {
  const auto field = [](const Bodies& b, const Array&) {
    return Bodies{b.speed, acceleration(b.position)};
  };
  return tl::ode::odeint(field, start, times, {.method = tl::ode::Method::rk4});
}

int main() {
  const Bodies start = solar_system();
  const auto simulate = tl::jit(by_turns);
  std::printf("energy at the start       %.9f\n", energy(start).item<double>());
  const auto [later, energies] = simulate(start, 0.01, 1000);
  std::printf("after 1000 steps of 0.01  %.9f\n", energy(later).item<double>());

  // 10,000 years: 100,000 steps of the one, 25,000 (of four evaluations) of the other.
  const Array turns = simulate(start, 0.1, 100000).second;
  const Bodies path =
      tl::jit(by_runge_kutta)(start, tl::linspace(0.0, 10000.0, 25001, {.dtype = tl::f64}));
  const Array rk4 = tl::jit(tl::vmap(energy))(path);
  std::puts("\nlargest change of the energy, in thousandths\nyears     by turns   Runge-Kutta");
  const auto change_until = [&](const Array& energies, std::int64_t steps) {
    const Array change = tl::abs(energies(tl::slice(0, steps)) / energy(start) - 1.0);
    return 1e3 * tl::max(change).item<double>();
  };
  for (const int years : {100, 1000, 10000}) {
    std::printf("%5d   %10.1f    %10.1f\n", years, change_until(turns, 10 * years),
                change_until(rk4, 5 * years / 2));
  }
}
