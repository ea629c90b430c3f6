// Special functions and functions of the bits, with their primitives.
//
// The functions convert integers to the default float where a float is needed; those of the bits
// take what they name. Differentiable unless noted.
#pragma once

#include "telamon/array.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// 1 - erf(x), exact for large x.
TELAMON_API Array erfc(const Operand& x);
/// log |gamma(x)|: log((x - 1)!) for whole x. Infinite at 0, -1, -2, ...
TELAMON_API Array lgamma(const Operand& x);
/// The derivative of lgamma. NaN at 0, -1, -2, ...
TELAMON_API Array digamma(const Operand& x);

/// The float next to x towards y. No derivative. Operands of one shape, both f32 or both f64.
TELAMON_API Array nextafter(const Operand& x, const Operand& y);
/// The number of one bits of an integer.
TELAMON_API Array population_count(const Operand& x);
/// The number of zero bits above the highest one bit of an integer; its width for 0.
TELAMON_API Array clz(const Operand& x);
/// x rounded, to nearest even, to a float of so many exponent and mantissa bits.
TELAMON_API Array reduce_precision(const Operand& x, int exponent_bits, int mantissa_bits);

extern TELAMON_API const Primitive<> erfc_p, lgamma_p, digamma_p, nextafter_p, population_count_p,
    clz_p;
struct ReducePrecisionParams {
  int exponent_bits = 8, mantissa_bits = 23;
};
extern TELAMON_API const Primitive<ReducePrecisionParams> reduce_precision_p;

}  // namespace v1
}  // namespace telamon
