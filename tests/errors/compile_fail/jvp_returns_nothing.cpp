// expect nothing but: a transformed function must return its result
// Nor to push forward.
#include "telamon/telamon.hpp"

namespace tl = telamon;

void wrong() {
  tl::jvp([](tl::Array) {}, std::tuple{tl::Array(2.0)}, std::tuple{tl::Array(1.0)});
}
