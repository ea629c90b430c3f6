// expect: custom_vmap: the rule must return std::pair{result, whether it is mapped along axis 0}
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::custom_vmap([](tl::Array x) { return x; },
                         [](std::int64_t, std::array<bool, 1>, tl::Array x) { return x; })(1.0);
}
