// expect: minimize needs a function that returns one scalar Array
#include <utility>

#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::optim::minimize([](tl::Array x) { return std::pair{x, x}; }, tl::Array(2.0));
}
