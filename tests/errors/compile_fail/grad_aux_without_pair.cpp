// expect: the aux form of grad needs a function that returns std::pair{Array, aux}
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::grad_aux([](tl::Array x) { return std::tuple{x, x, x}; })(tl::Array(2.0));
}
