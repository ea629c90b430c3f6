// B11: random numbers by counter, an Asian option by Monte Carlo and its sensitivities.
#include <cmath>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kPaths = 65536, kSteps = 64;

struct Market {
  Array spot, volatility, rate;
};

Array asian(const Market& m, const Array& key) {
  constexpr double dt = 1.0 / kSteps;
  const auto& [S0, s, r] = m;
  const Array zz = random::normal(key, {kPaths, kSteps});
  const Array S = S0 * exp(cumsum((r - .5 * s * s) * dt + s * std::sqrt(dt) * zz, 1));
  return exp(-r) * mean(maximum(mean(S, 1) - 100, 0));
}

Market market() { return {number(100), number(.2f), number(.05f)}; }
Array key() { return Array(std::vector<std::uint32_t>{0, 0}, {2}); }
// Instructions for one number, each in the place of a multiply-add. Threefry makes two words of 20 rounds of adding,
// rotating and xor and 5 keys; a normal takes a logarithm and a polynomial of degree 8 more; a step of the path an
// exponential, what is in it, and two sums; backwards again the sums, and what three parameters collect.
constexpr double kWord = (20 * 3 + 5 * 3) / 2., kNormal = kWord + kFunction + 12,
                 kStep = kNormal + kFunction + 4, kBack = 8;

Case per_step(double work, Case c) {
  c = per(kPaths * kSteps, std::move(c), "per path and step");
  c.flops = 2 * work * kPaths * kSteps;
  c.tolerance = 2e-3;
  return c;
}

const Register normals("B11.normals", "ns", [] {
  const auto f = [](const Array& k) { return random::normal(k, {kPaths, kSteps}); };
  Case c = computing(2 * kNormal * kPaths * kSteps, go(compiled(f), key()));
  return per(kPaths * kSteps, std::move(c), "threefry, per number");
});
const Register price("B11.asian_price", "ns",
                     [] { return per_step(kStep, go(compiled(asian), market(), key())); });
const Register greeks("B11.asian_greeks", "ns", [] {
  return per_step(kStep + kBack, go(compiled(value_and_grad(asian)), market(), key()));
});

}  // namespace
}  // namespace bench
