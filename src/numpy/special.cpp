// The special functions: promotion, then one primitive each.
#include "telamon/special.hpp"
#include "core/in_call.hpp"

#include "numpy/promote.hpp"

namespace telamon {
inline namespace v1 {
namespace {

Array of_float(const Primitive<>& primitive, const Operand& x) {
  return detail::in_call(primitive.name().data(), {&x},
                         [&] { return primitive.bind1({}, {detail::inexact(x.array)}); });
}

}  // namespace

Array erfc(const Operand& x) { return of_float(erfc_p, x); }
Array lgamma(const Operand& x) { return of_float(lgamma_p, x); }
Array digamma(const Operand& x) { return of_float(digamma_p, x); }

Array nextafter(const Operand& x, const Operand& y) {
  return detail::in_call("nextafter", {&x, &y},
                         [&] { return nextafter_p.bind1({}, {x.array, y.array}); });
}
Array population_count(const Operand& x) {
  return detail::in_call("population_count", {&x},
                         [&] { return population_count_p.bind1({}, {x.array}); });
}
Array clz(const Operand& x) {
  return detail::in_call("clz", {&x}, [&] { return clz_p.bind1({}, {x.array}); });
}
Array reduce_precision(const Operand& x, int exponent_bits, int mantissa_bits) {
  return detail::in_call("reduce_precision", {&x}, [&] {
    return reduce_precision_p.bind1({exponent_bits, mantissa_bits}, {detail::inexact(x.array)});
  });
}

}  // namespace v1
}  // namespace telamon
