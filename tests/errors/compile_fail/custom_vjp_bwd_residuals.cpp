// expect: custom_vjp: bwd must be callable as bwd(residuals, cotangent)
// bwd takes another type of residuals than fwd gives.
#include "telamon/telamon.hpp"

namespace tl = telamon;

auto wrong() {
  return tl::custom_vjp([](tl::Array x) { return tl::sin(x); },
                        [](tl::Array x) { return std::pair{tl::sin(x), std::pair{x, x}}; },
                        [](std::vector<tl::Array>, tl::Array ct) { return std::tuple{ct}; });
}
