// How strong is gravity where this pendulum swings? Its angle was read at 15 times; length and damping
// are unknown too. A differential equation with parameters is fitted to the readings: the gradient of
// the misfit goes through the solver.
//
// The readings are exact: those of a pendulum without friction, by Jacobi's elliptic functions.
#include <cmath>
#include <iomanip>
#include <iostream>
#include <telamon/telamon.hpp>
#include <vector>

namespace tl = telamon;
using tl::Array;

// sn(u | k^2), by the arithmetic-geometric mean (Abramowitz and Stegun, 16.4).
double sn(double u, double k) {
  std::vector<double> a{1}, c{k};
  double b = std::sqrt(1 - k * k);
  while (c.back() > 1e-15) {
    const double mean = (a.back() + b) / 2;
    c.push_back((a.back() - b) / 2);
    b = std::sqrt(a.back() * b);
    a.push_back(mean);
  }
  double phi = std::ldexp(a.back() * u, static_cast<int>(a.size()) - 1);
  for (std::size_t i = a.size() - 1; i > 0; --i)
    phi = (phi + std::asin(c[i] / a[i] * std::sin(phi))) / 2;
  return std::sin(phi);
}

// K(k), by the same mean.
double quarter_period(double k) {
  double a = 1, b = std::sqrt(1 - k * k);
  while (a - b > 1e-14) {
    const double mean = (a + b) / 2;
    b = std::sqrt(a * b);
    a = mean;
  }
  return tl::pi / (2 * a);
}

struct Pendulum {
  Array frequency;  // sqrt(g / length), 1/s
  Array damping;    // 1/s
  Array angle;      // at time 0
};
struct Motion {
  Array angle, speed;
};

Motion motion(const Pendulum& p, const Array& times) {
  const auto field = [](const Motion& m, const Array&, const Pendulum& q) {
    return Motion{m.speed, -tl::square(q.frequency) * tl::sin(m.angle) - q.damping * m.speed};
  };
  return tl::ode::odeint(field, Motion{p.angle, 0.0}, times, p, {.rtol = 1e-9, .atol = 1e-9});
}

int main() {
  // Swings from 2 rad: sin(angle / 2) = k sn(w t + K, k), k = sin(1); a quarter of the period is K.
  constexpr double kFrequency = 3.5, kStart = 2.0;
  const double k = std::sin(kStart / 2);
  const double quarter = quarter_period(k);
  std::vector<double> angles;
  const Array times = tl::linspace(0.0, 7.0, 15, {.dtype = tl::f64});
  for (const double t : times.to_vector<double>())
    angles.push_back(2 * std::asin(k * sn(kFrequency * t + quarter, k)));
  const Array readings(angles);

  const auto misfit = [&](const Pendulum& p) {
    return tl::mean(tl::square(motion(p, times).angle - readings));
  };
  const auto fit = tl::jit([&](const Pendulum& p) {
    return tl::optim::minimize(misfit, p, {.gtol = 1e-8, .max_iterations = 60});
  });
  const Pendulum guess{3.3, 0.1, 1.8};
  const auto result = fit(guess);

  const auto show = [&](const char* what, const Array& guessed, const Array& found) {
    std::cout << std::left << std::setw(12) << what << std::fixed << std::setprecision(4)
              << guessed.item<double>() << " -> " << std::abs(found.item<double>()) << "\n";
  };
  show("frequency", guess.frequency, result.x.frequency);
  show("damping", guess.damping, result.x.damping);
  show("angle", guess.angle, result.x.angle);
  show("misfit", misfit(guess), result.value);
  std::cout << result.message() << "\n";
  std::cout << "a pendulum of 0.8 m: g = " << std::setprecision(3)
            << 0.8 * std::pow(result.x.frequency.item<double>(), 2) << " m/s^2\n";
  std::cout << "period " << 4 * quarter / kFrequency << " s, of small swings "
            << 2 * tl::pi / kFrequency << " s\n";
}
