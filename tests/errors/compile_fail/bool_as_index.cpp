// expect: a bool is no index: write 0 or 1, or tl::newaxis for a new axis
#include "telamon/telamon.hpp"

telamon::Array wrong(const telamon::Array& x) { return x(true); }
