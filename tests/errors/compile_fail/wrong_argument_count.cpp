// expect: wrong number of arguments for the transformed function
#include "telamon/signature.hpp"

telamon::Array f(telamon::Array x, telamon::Array y) { return x.size() ? x : y; }

int main() { (void)telamon::bind_args<decltype(f)>(telamon::Array(1.0)); }
