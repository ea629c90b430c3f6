// expect: odeint: f(y, t, ...) must return the derivative of y, of the type of y
#include <utility>

#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  const auto f = [](const std::pair<tl::Array, tl::Array>& y, tl::Array) { return y.first; };
  return tl::ode::odeint(f, std::pair{tl::Array(1.0), tl::Array(2.0)}, tl::Array({0.0, 1.0}));
}
