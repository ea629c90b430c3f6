// Hamiltonian Monte Carlo: samples of a probability density of which only the logarithm is written
// down. Its gradient drives a particle over the landscape; where it stops is the next sample. A chain
// is a scan, and it is mapped over many.
//
// Data: the effects of coaching in eight schools (Rubin, "Estimation in Parallel Randomized
// Experiments", 1981). The exact answers were found by numerical integration over tau.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <telamon/telamon.hpp>
#include <utility>

namespace tl = telamon;
using tl::Array;

constexpr int kChains = 64, kWarmUp = 200, kSamples = 800, kSteps = 12;
constexpr double kStepSize = 0.3;

// effect_j ~ N(school_j, error_j), school_j = mu + tau z_j, z_j ~ N(0, 1), mu ~ N(0, 5),
// tau ~ half-Cauchy(5).
struct Parameters {
  Array mu, log_tau, z;
};
Array schools(const Parameters& p) { return p.mu + tl::exp(p.log_tau) * p.z; }

Array log_density(const Parameters& p) {
  const Array effects({28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0});
  const Array errors({15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0});
  const auto normal = [](const Array& x) { return -0.5 * tl::sum(tl::square(x)); };
  const Array log_prior_of_tau = -tl::log1p(tl::square(tl::exp(p.log_tau) / 5.0)) + p.log_tau;
  return normal((effects - schools(p)) / errors) + normal(p.z) + normal(p.mu / 5.0) +
         log_prior_of_tau;
}

Parameters moved(const Parameters& x, const Array& by, const Parameters& direction) {
  return tl::tree_map([&](const Array& a, const Array& d) { return a + by * d; }, x, direction);
}
Parameters random_speed(const Array& key) {
  const Array v = tl::random::normal(key, {10}, tl::f64);
  return {v(0), v(1), v(tl::slice(2, tl::none))};
}
Array kinetic_energy(const Parameters& v) {
  return 0.5 * (tl::square(v.mu) + tl::square(v.log_tau) + tl::sum(tl::square(v.z)));
}

// One sample after another: a random push, a flight by the leapfrog method, and the test of Metropolis
// that corrects its errors.
std::pair<Parameters, Array> chain(const Array& key) {
  struct Flight {
    Parameters x, v;
  };
  const auto slope = tl::grad(log_density);
  const auto transition = [&](const Parameters& x, const Array& step_key) {
    const Array keys = tl::random::split(step_key, 3);
    const Parameters push = random_speed(keys(0));
    // Flights of different lengths, lest they come back to where they started.
    const Array h = kStepSize * tl::random::uniform(keys(1), {}, tl::f64, 0.5, 1.0);
    const auto leap = [&](const Array&, const Flight& f) {
      const Parameters half = moved(f.v, 0.5 * h, slope(f.x));
      const Parameters there = moved(f.x, h, half);
      return Flight{there, moved(half, 0.5 * h, slope(there))};
    };
    const Flight end = tl::fori_loop(0, kSteps, leap, Flight{x, push});
    const Array gain =
        (log_density(end.x) - kinetic_energy(end.v)) - (log_density(x) - kinetic_energy(push));
    const Array accept = tl::log(tl::random::uniform(keys(2), {}, tl::f64)) < gain;
    const Parameters next = tl::tree_map(
        [&](const Array& a, const Array& b) { return tl::where(accept, a, b); }, end.x, x);
    return std::pair{next, std::pair{next, accept}};
  };
  const Array first_key = tl::random::fold_in(key, 0);
  const Parameters start = random_speed(first_key);
  const Array keys = tl::random::split(tl::random::fold_in(key, 1), kWarmUp + kSamples);
  const auto [samples, accepted] = tl::scan(transition, start, keys).second;
  const auto after_warm_up = [](const Array& x) { return x(tl::slice(kWarmUp, tl::none)); };
  return {tl::tree_map(after_warm_up, samples), tl::mean(accepted.astype(tl::f64))};
}

void compare(const char* what, const Array& sampled, double exact) {
  const double mean = sampled.item<double>();
  std::printf("%-28s %5.2f   ", what, exact);
  if (std::abs(mean - exact) < 0.25) std::puts("agrees");
  else std::printf("%.2f\n", mean);
}

int main() {
  const auto sample = tl::jit(tl::vmap(chain), {.name = "chains"});
  const auto [samples, accepted] = sample(tl::random::split(tl::random::key(1), kChains));
  const Array by_school = tl::vmap(tl::vmap(schools))(samples);
  std::cout << "samples " << by_school.aval().to_string() << ", "
            << (tl::mean(accepted).item<double>() > 0.7 ? "most" : "few")
            << " flights accepted\n\n";
  std::cout << "mean of                      exact   sampled\n";
  compare("mu, the effect of coaching", tl::mean(samples.mu), 4.40);
  compare("tau, how schools differ", tl::mean(tl::exp(samples.log_tau)), 3.60);
  const double exact[] = {6.21, 4.94, 3.93, 4.76, 3.62, 4.04, 6.30, 4.85};
  for (int j = 0; j < 8; ++j) {
    const std::string name = std::string("school ") + static_cast<char>('A' + j);
    compare(name.c_str(), tl::mean(by_school(tl::ellipsis, j)), exact[j]);
  }
  compare("deviation of mu", tl::std_(samples.mu), 3.32);
}
