// The smallest program outside of Telamon's own build: promotion of two element types.
#include <cstdio>
#include <string>

#include "telamon/dtype.hpp"

namespace tl = telamon;

int main() {
  const tl::TypeInfo sum = tl::promote_types({tl::i32, false}, {tl::f32, false});
  std::printf("Telamon %d.%d: i32 + f32 -> %s\n", TELAMON_VERSION_MAJOR, TELAMON_VERSION_MINOR,
              std::string(tl::long_name(sum.dtype)).c_str());
  return sum.dtype == tl::f32 ? 0 : 1;
}
