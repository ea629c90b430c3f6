// expect: tl::none is no index: write tl::newaxis for a new axis (NumPy's None), or tl::slice() for the whole axis
// NumPy's None among indices is tl::newaxis here.
#include "telamon/telamon.hpp"

telamon::Array wrong(const telamon::Array& x) { return x(telamon::none, 0); }
