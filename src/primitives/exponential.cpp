// Exponentials and logarithms.
#include <numbers>

#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// exp(x) = e^x.   d exp(x) = exp(x) dx
const Primitive<> exp_p{"exp", [] { return unary(exp_p, {
    .impl = eager(Op::exp),
    .jvp = [](Array dx, Array y, Array) { return dx * y; },
    .lower = math("exp", 15),
}); }};

/// exp2(x) = 2^x.   d exp2(x) = log(2) exp2(x) dx
const Primitive<> exp2_p{"exp2", [] { return unary(exp2_p, {
    .impl = eager(Op::exp2),
    .jvp = [](Array dx, Array y, Array) { return dx * (std::numbers::ln2 * y); },
    .lower = math("exp2", 15),
}); }};

/// expm1(x) = e^x - 1, exact for small x.   d expm1(x) = (expm1(x) + 1) dx
const Primitive<> expm1_p{"expm1", [] { return unary(expm1_p, {
    .impl = eager(Op::expm1),
    .jvp = [](Array dx, Array y, Array) { return dx * (y + 1); },
    .lower = math("expm1", 20),
}); }};

/// log(x), the natural logarithm.   d log(x) = dx / x
const Primitive<> log_p{"log", [] { return unary(log_p, {
    .impl = eager(Op::log),
    .jvp = [](Array dx, Array, Array x) { return dx / x; },
    .lower = math("log", 15),
}); }};

/// log1p(x) = log(1 + x), exact for small x.   d log1p(x) = dx / (1 + x)
const Primitive<> log1p_p{"log1p", [] { return unary(log1p_p, {
    .impl = eager(Op::log1p),
    .jvp = [](Array dx, Array, Array x) { return dx / (x + 1); },
    .lower = math("log1p", 20),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
