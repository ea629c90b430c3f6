// expect: DTypeOf
// A class that is no element type has no dtype.
#include <string>

#include "telamon/dtype.hpp"

constexpr auto dtype = telamon::dtype_of<std::string>;
