// expect nothing but: a transformed function must return its result
// A carry is returned, not changed in place.
#include "telamon/telamon.hpp"

namespace tl = telamon;

void wrong() {
  tl::fori_loop(0, 3, [](tl::Array, tl::Array) {}, tl::Array(2.0));
}
