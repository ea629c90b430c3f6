// expect: an argument does not convert to the parameter's type
// A number is static; an Array cannot become one.
#include "telamon/signature.hpp"

telamon::Array f(telamon::Array x, int steps) { return steps ? x : 0; }

int main() { (void)telamon::bind_args<decltype(f)>(telamon::Array(1.0), telamon::Array(2)); }
