// expect: odeint: the time parameter of f(y, t, ...) must be a tl::Array
// Times are traced; a number would be static.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::ode::odeint([](tl::Array y, double) { return y; }, 1.0, tl::Array({0.0, 1.0}));
}
