// expect: custom_vjp: bwd must return a std::tuple with one cotangent for each argument
// Also the only cotangent comes in a tuple.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::custom_vjp([](tl::Array x) { return tl::sin(x); },
                        [](tl::Array x) { return std::pair{tl::sin(x), x}; },
                        [](tl::Array x, tl::Array ct) { return tl::cos(x) * ct; });
}
