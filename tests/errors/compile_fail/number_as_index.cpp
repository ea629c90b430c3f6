// expect: a floating-point number is no index: convert it to an integer
#include "telamon/telamon.hpp"

telamon::Array wrong(const telamon::Array& x) { return x.at(1.0).get(); }
