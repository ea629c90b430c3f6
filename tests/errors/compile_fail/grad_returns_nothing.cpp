// expect nothing but: a transformed function must return its result
// There is nothing to differentiate.
#include "telamon/telamon.hpp"

namespace tl = telamon;

void wrong() {
  tl::grad([](tl::Array) {})(tl::Array(2.0));
}
