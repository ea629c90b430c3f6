// expect: cannot differentiate with respect to a number
// A double parameter is static: the message says to declare it as Array.
#include "telamon/signature.hpp"

telamon::Array f(double x) { return x; }

int main() {
  using Bound = telamon::bound_arguments<decltype(f), double>;
  telamon::detail::check_differentiable<0, Bound>();
}
