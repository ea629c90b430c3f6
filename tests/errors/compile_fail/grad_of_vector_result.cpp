// expect: grad needs a function that returns one scalar Array
// A gradient is that of one number: for several results there is jacrev.
#include <utility>

#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::grad([](tl::Array x) { return std::pair{x, x}; })(tl::Array(2.0));
}
