// expect nothing but: a transformed function must return its result
// What a program computes, it returns.
#include "telamon/telamon.hpp"

namespace tl = telamon;

void wrong() {
  tl::jit([](tl::Array) {})(tl::Array({1.0, 2.0}));
}
