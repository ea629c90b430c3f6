// expect: wrong number of arguments for the transformed function
// vjp is told two arguments for a function of one.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::vjp([](tl::Array x) { return tl::sin(x); }, tl::Array(1.0), tl::Array(2.0));
}
