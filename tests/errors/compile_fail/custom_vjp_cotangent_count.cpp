// expect: custom_vjp: bwd must return a std::tuple with one cotangent, of the argument's type
// Two arguments, one cotangent.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::custom_vjp([](tl::Array x, tl::Array y) { return x * y; },
                        [](tl::Array x, tl::Array y) { return std::pair{x * y, x}; },
                        [](tl::Array, tl::Array ct) { return std::tuple{ct}; });
}
