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
Case per_step(Case c) {
  c = per(kPaths * kSteps, std::move(c), "per path and step");
  c.tolerance = 2e-3;
  return c;
}

const Register normals("B11.normals", "ns", [] {
  const auto f = [](const Array& k) { return random::normal(k, {kPaths, kSteps}); };
  return per(kPaths * kSteps, go(compiled(f), key()), "threefry, per number");
});
const Register price("B11.asian_price", "ns",
                     [] { return per_step(go(compiled(asian), market(), key())); });
const Register greeks("B11.asian_greeks", "ns", [] {
  return per_step(go(compiled(value_and_grad(asian)), market(), key()));
});

}  // namespace
}  // namespace bench
