// The Nile at Aswan: how much of what was measured each year is the river, how much is noise? A Kalman
// filter gives the probability of the measurements, and its gradient finds the two variances.
//
// Data: annual flow in 10^8 m^3, 1871 to 1970 (G. Balfour; in Durbin and Koopman, "Time Series Analysis
// by State Space Methods", 2001). Their answer: variances 15099 and 1469.1.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <telamon/telamon.hpp>
#include <utility>

namespace tl = telamon;
using tl::Array;

const Array& flow() {
  static const Array y(
      {1120., 1160., 963.,  1210., 1160., 1160., 813.,  1230., 1370., 1140., 995.,  935.,  1110.,
       994.,  1020., 960.,  1180., 799.,  958.,  1140., 1100., 1210., 1150., 1250., 1260., 1220.,
       1030., 1100., 774.,  840.,  874.,  694.,  940.,  833.,  701.,  916.,  692.,  1020., 1050.,
       969.,  831.,  726.,  456.,  824.,  702.,  1120., 1100., 832.,  764.,  821.,  768.,  845.,
       864.,  862.,  698.,  845.,  744.,  796.,  1040., 759.,  781.,  865.,  845.,  944.,  984.,
       897.,  822.,  1010., 771.,  676.,  649.,  846.,  812.,  742.,  801.,  1040., 860.,  874.,
       848.,  890.,  744.,  749.,  838.,  1050., 918.,  986.,  797.,  923.,  975.,  815.,  1020.,
       906.,  901.,  1170., 912.,  746.,  919.,  718.,  714.,  740.});
  return y;
}

// Level: x' = x + N(0, level). Measured: y = x + N(0, noise). Logarithms keep variances positive.
struct Model {
  Array log_noise, log_level;
};
struct Belief {
  Array mean, variance;  // of the level, given the measurements so far
};
struct Filtered {
  Array log_likelihood;
  Belief beliefs;  // one row for each year but the first
};

Filtered filter(const Model& model, const Array& y) {
  const Array noise = tl::exp(model.log_noise), level = tl::exp(model.log_level);
  const auto step = [&](const Belief& before, const Array& measured) {
    const Array variance = before.variance + level;  // a year later
    const Array surprise = measured - before.mean, expected = variance + noise;
    const Array gain = variance / expected;
    const Belief after{before.mean + gain * surprise, (1.0 - gain) * variance};
    const Array log_density =
        -0.5 * (tl::log(2 * tl::pi * expected) + tl::square(surprise) / expected);
    return std::pair{after, std::pair{log_density, after}};
  };
  // Nothing is known before the first year: then the level is what was measured.
  const Belief first{y(0), noise};
  const auto [log_densities, beliefs] = tl::scan(step, first, y(tl::slice(1, tl::none))).second;
  return {tl::sum(log_densities), beliefs};
}

int main() {
  const auto learn = tl::jit([](const Model& start) {
    const auto loss = [](const Model& m) { return -filter(m, flow()).log_likelihood; };
    return tl::optim::minimize(loss, start, {.gtol = 1e-6});
  });
  const Model guess{std::log(10000.0), std::log(10000.0)};
  const auto result = learn(guess);
  std::cout << "log-likelihood: " << tl::round(filter(guess, flow()).log_likelihood, 2)
            << " at the guess, " << tl::round(-result.value, 2) << " in the end\n";
  std::printf("variance of the noise %.0f, of the yearly change %.0f\n",
              std::exp(result.x.log_noise.item<double>()),
              std::exp(result.x.log_level.item<double>()));

  // How well the data determine them: the inverse of the Hessian is their covariance.
  const auto hessian = tl::hessian([](const Array& v) {
    return -filter({v(0), v(1)}, flow()).log_likelihood;
  })(tl::stack({result.x.log_noise, result.x.log_level}));
  const Array determinant = hessian(0, 0) * hessian(1, 1) - hessian(0, 1) * hessian(1, 0);
  std::cout << "standard errors of their logarithms: "
            << tl::round(tl::sqrt(hessian(1, 1) / determinant), 2) << " and "
            << tl::round(tl::sqrt(hessian(0, 0) / determinant), 2) << "\n\n";

  std::cout << "year  measured  level\n";
  const Belief beliefs = filter(result.x, flow()).beliefs;
  for (int year = 1880; year <= 1970; year += 10) {
    std::printf("%d  %6.0f    %5.0f +- %.0f\n", year, flow()(year - 1871).item<double>(),
                beliefs.mean(year - 1872).item<double>(),
                std::sqrt(beliefs.variance(year - 1872).item<double>()));
  }
  std::cout << "(a dam was begun at Aswan in 1898)\n";
}
