// Hyperbolic functions and their inverses.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// sinh(x) = (e^x - e^-x) / 2.   d sinh(x) = cosh(x) dx
const Primitive<> sinh_p{"sinh", [] { return unary(sinh_p, {
    .impl = eager(Op::sinh),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::cosh(x); },
    .lower = math("sinh", 25),
}); }};

/// cosh(x) = (e^x + e^-x) / 2.   d cosh(x) = sinh(x) dx
const Primitive<> cosh_p{"cosh", [] { return unary(cosh_p, {
    .impl = eager(Op::cosh),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::sinh(x); },
    .lower = math("cosh", 25),
}); }};

/// tanh(x) = (e^x - e^-x) / (e^x + e^-x).   d tanh(x) = (1 - tanh(x)^2) dx
/// Written as (1 + y) (1 - y), which is exact where y is near 1.
const Primitive<> tanh_p{"tanh", [] { return unary(tanh_p, {
    .impl = eager(Op::tanh),
    .jvp = [](Array dx, Array y, Array) { return dx * ((1 + y) * (1 - y)); },
    .lower = math("tanh", 20),
}); }};

/// asinh(x) = log(x + sqrt(x^2 + 1)).   d asinh(x) = dx / sqrt(x^2 + 1)
const Primitive<> asinh_p{"asinh", [] { return unary(asinh_p, {
    .impl = eager(Op::asinh),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::rsqrt(lax::square(x) + 1); },
    .lower = math("asinh", 40),
}); }};

/// acosh(x) = log(x + sqrt(x^2 - 1)), x >= 1.   d acosh(x) = dx / sqrt(x^2 - 1)
const Primitive<> acosh_p{"acosh", [] { return unary(acosh_p, {
    .impl = eager(Op::acosh),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::rsqrt(lax::square(x) - 1); },
    .lower = math("acosh", 40),
}); }};

/// atanh(x) = log((1 + x) / (1 - x)) / 2.   d atanh(x) = dx / ((1 + x) (1 - x))
const Primitive<> atanh_p{"atanh", [] { return unary(atanh_p, {
    .impl = eager(Op::atanh),
    .jvp = [](Array dx, Array, Array x) { return dx / ((1 + x) * (1 - x)); },
    .lower = math("atanh", 30),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
