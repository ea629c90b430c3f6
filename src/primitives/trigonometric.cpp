// Trigonometric functions and their inverses.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// sin(x).   d sin(x) = cos(x) dx
const Primitive<> sin_p{"sin", [] { return unary(sin_p, {
    .impl = eager(Op::sin),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::cos(x); },
    .lower = math("sin", 20),
}); }};

/// cos(x).   d cos(x) = -sin(x) dx
const Primitive<> cos_p{"cos", [] { return unary(cos_p, {
    .impl = eager(Op::cos),
    .jvp = [](Array dx, Array, Array x) { return dx * -lax::sin(x); },
    .lower = math("cos", 20),
}); }};

/// tan(x) = sin(x) / cos(x).   d tan(x) = (1 + tan(x)^2) dx
const Primitive<> tan_p{"tan", [] { return unary(tan_p, {
    .impl = eager(Op::tan),
    .jvp = [](Array dx, Array y, Array) { return dx * (1 + lax::square(y)); },
    .lower = math("tan", 25),
}); }};

/// asin(x), in [-pi/2, pi/2].   d asin(x) = dx / sqrt(1 - x^2)
const Primitive<> asin_p{"asin", [] { return unary(asin_p, {
    .impl = eager(Op::asin),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::rsqrt(1 - lax::square(x)); },
    .lower = math("asin", 25),
}); }};

/// acos(x), in [0, pi].   d acos(x) = -dx / sqrt(1 - x^2)
const Primitive<> acos_p{"acos", [] { return unary(acos_p, {
    .impl = eager(Op::acos),
    .jvp = [](Array dx, Array, Array x) { return dx * -lax::rsqrt(1 - lax::square(x)); },
    .lower = math("acos", 25),
}); }};

/// atan(x), in (-pi/2, pi/2).   d atan(x) = dx / (1 + x^2)
const Primitive<> atan_p{"atan", [] { return unary(atan_p, {
    .impl = eager(Op::atan),
    .jvp = [](Array dx, Array, Array x) { return dx / (1 + lax::square(x)); },
    .lower = math("atan", 25),
}); }};

/// atan2(x, y): the angle of the point (y, x), in [-pi, pi].
/// d atan2(x, y) = (y dx - x dy) / (x^2 + y^2)
const Primitive<> atan2_p{"atan2", [] { return binary(atan2_p, {
    .impl = eager(Op::atan2),
    .jvp_x = [](Array dx, Array, Array x, Array y) {
      return dx * (y / (lax::square(x) + lax::square(y)));
    },
    .jvp_y = [](Array dy, Array, Array x, Array y) {
      return dy * (-x / (lax::square(x) + lax::square(y)));
    },
    .lower = math("atan2", 30),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
