// expect: cannot take a parameter by non-const reference
// Transforms call with traced copies, so an output parameter would be lost.
#include "telamon/signature.hpp"

telamon::Array f(telamon::Array& x) { return x; }

int main() { (void)telamon::bind_args<decltype(f)>(telamon::Array(1.0)); }
