// expect: custom_jvp: the rule must be callable as rule(primals, tangents)
// A rule of a function of two arguments takes two tuples.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::custom_jvp([](tl::Array x, tl::Array y) { return x * y; },
                        [](tl::Array x, tl::Array dx) { return std::pair{x, dx}; });
}
