// expect nothing but: a transformed function must return its result
// A traced function has no use for side effects.
#include "telamon/telamon.hpp"

namespace tl = telamon;

void wrong() {
  tl::vmap([](tl::Array) {})(tl::Array({1.0, 2.0}));
}
