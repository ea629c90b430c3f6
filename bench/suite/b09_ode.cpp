// B09: 4096 trajectories of the Lorenz system, and derivatives by its parameters.
#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kTrajectories = 4096;

// Operations of a step: 4 fields of 8, and 39 to combine them. In a direction products are two and the field has 13;
// backwards each of the 8 is passed to what it is made of, and three parameters collect from four fields.
constexpr double kStep = 4 * 8 + 39, kTangent = 4 * 13 + 39, kBack = 4 * (13 + 6) + 39;

Array field(const Array& y, const Array& p) {
  return stack({p(0) * (y(1) - y(0)), y(0) * (p(1) - y(2)) - y(1), y(0) * y(1) - p(2) * y(2)});
}
Array rk4(const Array& s, const Array& p) {
  const Array k1 = field(s, p), k2 = field(s + .005 * k1, p), k3 = field(s + .005 * k2, p),
              k4 = field(s + .01 * k3, p);
  return s + .01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
}
Array lorenz(const Array& y, const Array& p, std::int64_t steps) {
  const auto step = [&](const Array& s) { return std::pair{rk4(s, p), none}; };
  return scan(step, y, none, {.length = steps}).first;
}
/// The states after all steps: [steps, 3].
Array lorenz_states(const Array& y, const Array& p, std::int64_t steps) {
  const auto step = [&](const Array& s) {
    const Array next = rk4(s, p);
    return std::pair{next, next};
  };
  return scan(step, y, none, {.length = steps}).second;
}
Array lorenz_mean(const Array& p, const Array& y) {
  const Array last = vmap([&](const Array& y0) { return lorenz(y0, p, 200); })(y);
  return mean(sum(square(last), 1));
}

Array start() { return Array(std::vector<float>{1, 1, 20}, {3}) + z(1, {kTrajectories, 3}); }
Array parameters() { return Array(std::vector<float>{10, 28, 8.f / 3}, {3}); }

template <class F>
Case of_mean(double flops, F f) {
  Case c = per(kTrajectories * 200, go(compiled(std::move(f)), parameters(), start()),
               "per trajectory and step");
  c.flops = flops * kTrajectories * 200;
  c.tolerance = 2e-2;  // sensitive, not yet chaotic
  return c;
}

const Register vmap_ode("B09.vmap_ode", "ns", [] {
  const auto make = [](long steps) {
    const auto f = vmap([steps](const Array& y, const Array& p) { return lorenz(y, p, steps); },
                        {.in_axes = {0, none}});
    return go(compiled(f), start(), parameters());
  };
  Case c = per(kTrajectories * 1000, chaotic(make, 1000, 200), "per trajectory and step");
  c.flops = kStep * kTrajectories * 1000;
  c.tolerance = 2e-3;
  return c;
});
const Register states("B09.states_T100", "ns", [] {
  const auto f = vmap([](const Array& y, const Array& p) { return lorenz_states(y, p, 100); },
                      {.in_axes = {0, none}});
  Case c = per(kTrajectories * 100, go(compiled(f), start(), parameters()),
               "per trajectory and step, all of which are results");
  c.flops = kStep * kTrajectories * 100;
  c.tolerance = 2e-3;
  return c;
});
const Register primal("B09.primal_T200", "ns", [] { return of_mean(kStep, lorenz_mean); });
const Register forward("B09.jacfwd_T200", "ns",
                       [] { return of_mean(kStep + 3 * kTangent, jacfwd(lorenz_mean)); });
const Register reverse("B09.grad_T200", "ns",
                       [] { return of_mean(kStep + kBack, grad(lorenz_mean)); });

}  // namespace
}  // namespace bench
