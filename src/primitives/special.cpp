// The logistic function and the error functions.
#include <numbers>

#include "primitives/elementwise.hpp"
#include "telamon/special.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// logistic(x) = 1 / (1 + e^-x).   d logistic(x) = y (1 - y) dx, y = logistic(x)
const Primitive<> logistic_p{"logistic", [] { return unary(logistic_p, {
    .impl = eager(Op::logistic),
    .jvp = [](Array dx, Array y, Array) { return dx * (y * (1 - y)); },
    .lower = math("logistic", 20),
}); }};

/// erf(x) = 2 / sqrt(pi) int_0^x e^(-t^2) dt.   d erf(x) = 2 / sqrt(pi) e^(-x^2) dx
const Primitive<> erf_p{"erf", [] { return unary(erf_p, {
    .impl = eager(Op::erf),
    .jvp = [](Array dx, Array, Array x) {
      return dx * (2 * std::numbers::inv_sqrtpi * lax::exp(-lax::square(x)));
    },
    .lower = math("erf", 25),
}); }};

/// erfc(x) = 1 - erf(x), exact where erf(x) is near 1.   d erfc(x) = -2 / sqrt(pi) e^(-x^2) dx
const Primitive<> erfc_p{"erfc", [] { return unary(erfc_p, {
    .impl = eager(Op::erfc),
    .jvp = [](Array dx, Array, Array x) {
      return dx * (-2 * std::numbers::inv_sqrtpi * lax::exp(-lax::square(x)));
    },
    .lower = math("erfc", 25),
}); }};

/// erf_inv(erf(x)) = x.   d erf_inv(x) = sqrt(pi) / 2 e^(y^2) dx, y = erf_inv(x)
const Primitive<> erf_inv_p{"erf_inv", [] { return unary(erf_inv_p, {
    .impl = eager(Op::erf_inv),
    .jvp = [](Array dx, Array y, Array) {
      return dx * (0.5 / std::numbers::inv_sqrtpi * lax::exp(lax::square(y)));
    },
    .lower = math("erf_inv", 40),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
