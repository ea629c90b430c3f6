// Elementwise functions beside the operators: promotion to floats, special cases, where and clip.
#include <array>
#include <cmath>

#include "core/concrete.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using detail::CallSite;

/// A function of floats: integers and bools become the default float.
Array of_float(const Primitive<>& primitive, const Operand& x) {
  const CallSite site(x.where);
  return primitive.bind1({}, {detail::inexact(x.array)});
}

/// A function of numbers: a bool is a TypeError.
Array of_number(const char* name, const Primitive<>& primitive, const Operand& x) {
  const CallSite site(x.where);
  if (x.array.dtype() == DType::bool_) detail::type_error(name, "numbers", x.array);
  return primitive.bind1({}, {x.array});
}

/// A rounding: integers are what they are.
Array rounding(const Primitive<>& primitive, const Operand& x) {
  if (!is_inexact(x.array.dtype())) return x.array;
  const CallSite site(x.where);
  return primitive.bind1({}, {x.array});
}

/// x to a constant power.
Array integer_power(const Array& x, int y) {
  if (y == 0) return lax::ones_like(x);
  if (y == 1) return x;
  return y == 2 ? lax::square(x) : lax::integer_pow(x, y);
}

Array logical(const char* name, const Primitive<>& primitive, const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote(name, detail::truth(x.array), detail::truth(y.array));
  return primitive.bind1({}, {a, b});
}

}  // namespace

Array sin(const Operand& x) { return of_float(sin_p, x); }
Array cos(const Operand& x) { return of_float(cos_p, x); }
Array tan(const Operand& x) { return of_float(tan_p, x); }
Array asin(const Operand& x) { return of_float(asin_p, x); }
Array acos(const Operand& x) { return of_float(acos_p, x); }
Array atan(const Operand& x) { return of_float(atan_p, x); }
Array sinh(const Operand& x) { return of_float(sinh_p, x); }
Array cosh(const Operand& x) { return of_float(cosh_p, x); }
Array tanh(const Operand& x) { return of_float(tanh_p, x); }
Array asinh(const Operand& x) { return of_float(asinh_p, x); }
Array acosh(const Operand& x) { return of_float(acosh_p, x); }
Array atanh(const Operand& x) { return of_float(atanh_p, x); }
Array exp(const Operand& x) { return of_float(exp_p, x); }
Array exp2(const Operand& x) { return of_float(exp2_p, x); }
Array expm1(const Operand& x) { return of_float(expm1_p, x); }
Array log(const Operand& x) { return of_float(log_p, x); }
Array log1p(const Operand& x) { return of_float(log1p_p, x); }
Array sqrt(const Operand& x) { return of_float(sqrt_p, x); }
Array rsqrt(const Operand& x) { return of_float(rsqrt_p, x); }
Array cbrt(const Operand& x) { return of_float(cbrt_p, x); }
Array erf(const Operand& x) { return of_float(erf_p, x); }
Array erf_inv(const Operand& x) { return of_float(erf_inv_p, x); }
Array sigmoid(const Operand& x) { return of_float(logistic_p, x); }
Array square(const Operand& x) { return of_number("square", square_p, x); }
Array abs(const Operand& x) {
  return x.array.dtype() == DType::bool_ ? x.array : of_number("abs", abs_p, x);
}
Array sign(const Operand& x) { return of_number("sign", sign_p, x); }
Array floor(const Operand& x) { return rounding(floor_p, x); }
Array ceil(const Operand& x) { return rounding(ceil_p, x); }

Array log2(const Operand& x) {
  const CallSite site(x.where);
  return divide(log(x), std::log(2.0));
}

Array log10(const Operand& x) {
  const CallSite site(x.where);
  return divide(log(x), std::log(10.0));
}

Array reciprocal(const Operand& x) {
  const CallSite site(x.where);
  return integer_power(detail::inexact(x.array), -1);
}

Array round(const Operand& x, int decimals) {
  const CallSite site(x.where);
  if (!is_inexact(x.array.dtype())) {
    if (decimals >= 0) return x.array;
    throw NotImplementedError("round: negative decimals of integers");
  }
  if (decimals == 0) return lax::round(x.array, RoundingMethod::to_nearest_even);
  const double factor = std::pow(10.0, decimals);
  return divide(lax::round(multiply(x, factor), RoundingMethod::to_nearest_even), factor);
}

Array isnan(const Operand& x) {
  const CallSite site(x.where);
  return lax::ne(x.array, x.array);
}

Array isinf(const Operand& x) {
  const CallSite site(x.where);
  if (!is_inexact(x.array.dtype())) return full(x.array.shape(), false, DType::bool_);
  return lax::eq(lax::abs(x.array), lax::full_like(x.array, inf));
}

Array isfinite(const Operand& x) {
  const CallSite site(x.where);
  if (!is_inexact(x.array.dtype())) return full(x.array.shape(), true, DType::bool_);
  return lax::is_finite(x.array);
}

Array logical_not(const Operand& x) {
  const CallSite site(x.where);
  return lax::bitwise_not(detail::truth(x.array));
}

Array logical_and(const Operand& x, const Operand& y) {
  return logical("logical_and", and_p, x, y);
}
Array logical_or(const Operand& x, const Operand& y) { return logical("logical_or", or_p, x, y); }
Array logical_xor(const Operand& x, const Operand& y) {
  return logical("logical_xor", xor_p, x, y);
}

namespace {
// x^y for integer arrays by repeated squaring: bit k of y multiplies by x^(2^k). Six bits reach
// every exponent below 64; for larger ones only -1, 0 and 1 have a power that fits 64 bits, and
// those come out right by parity. Negative exponents give no meaningful result.
Array power_of_integers(const Array& x, const Array& y) {
  const Array zero = lax::zeros_like(y), one = lax::ones_like(y);
  Array result = lax::ones_like(x), base = x, rest = y;
  for (int bit = 0; bit < 6; ++bit) {
    const Array odd = lax::ne(lax::bitwise_and(rest, one), zero);
    result = lax::select(odd, lax::mul(result, base), result);
    if (bit == 5) break;
    base = lax::mul(base, base);
    rest = lax::shift_right_logical(rest, one);
  }
  return result;
}
}  // namespace

Array power(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  const bool small_constant = detail::is_weak_constant(y.array) && is_integer(y.array.dtype());
  if (small_constant && x.array.dtype() != DType::bool_) {
    const auto exponent = y.array.item<std::int64_t>();
    const bool fits = exponent >= (is_integer(x.array.dtype()) ? 0 : -4096) && exponent <= 4096;
    if (fits) return integer_power(x.array, static_cast<int>(exponent));
  }
  const auto [a, b] = detail::promote("power", x.array, y.array);
  if (is_integer(a.dtype())) return power_of_integers(a, b);
  if (a.dtype() == DType::bool_) detail::type_error("power", "numbers", a);
  return lax::pow(a, b);
}

Array arctan2(const Operand& y, const Operand& x) {
  const CallSite site(y.where);
  const auto [a, b] = detail::promote_inexact("arctan2", y.array, x.array);
  return lax::atan2(a, b);
}

// sqrt(x^2 + y^2) = m sqrt(1 + (n/m)^2), m the larger: the squares do not overflow.
Array hypot(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote_inexact("hypot", abs(x), abs(y));
  const Array m = lax::max(a, b), n = lax::min(a, b);
  const Array is_zero = lax::eq(m, lax::zeros_like(m));
  const Array divisor = lax::select(is_zero, lax::ones_like(m), m);
  const Array ratio = lax::div(n, divisor);
  const Array general = lax::mul(m, lax::sqrt(lax::add(lax::ones_like(m), lax::square(ratio))));
  const Array infinite = lax::eq(m, lax::full_like(m, inf));
  return lax::select(lax::bitwise_or(is_zero, infinite), m, general);
}

// max(x, y) + log1p(exp(-|x - y|)). Where both are the same infinity the difference is NaN: there
// the result is x + y, and the other branch is computed from a difference of 0, so that no NaN gets
// into derivatives.
Array logaddexp(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote_inexact("logaddexp", x.array, y.array);
  const Array difference = lax::sub(a, b);
  const Array undefined = lax::ne(difference, difference);
  const Array d = lax::select(undefined, lax::zeros_like(a), difference);
  const Array regular = lax::add(lax::max(a, b), lax::log1p(lax::exp(lax::neg(lax::abs(d)))));
  return lax::select(undefined, lax::add(a, b), regular);
}

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  const CallSite site(condition.where);
  const TypeInfo type = promote_types(detail::type_of(x.array), detail::type_of(y.array));
  const Array all_three[] = {detail::truth(condition.array), x.array, y.array};
  const Shape shape = detail::broadcast_shapes("where", all_three);
  const Array pred =
      all_three[0].ndim() == 0 ? all_three[0] : detail::broadcast_array(all_three[0], shape);
  return lax::select(pred, detail::broadcast_array(detail::to_type(x.array, type), shape),
                     detail::broadcast_array(detail::to_type(y.array, type), shape));
}

Array clip(const Operand& x, const std::optional<Operand>& low,
           const std::optional<Operand>& high) {
  const CallSite site(x.where);
  Array out = x.array;
  if (low) out = maximum(out, low->array);
  if (high) out = minimum(out, high->array);
  return out;
}

Array isclose(const Operand& x, const Operand& y, const Tolerance& tolerance) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote_inexact("isclose", x.array, y.array);
  const Array bound = add(multiply(abs(b), tolerance.rtol), tolerance.atol);
  const Array both_finite = lax::bitwise_and(lax::is_finite(a), lax::is_finite(b));
  Array close = lax::bitwise_and(both_finite, lax::le(lax::abs(lax::sub(a, b)), bound));
  close = lax::bitwise_or(close, lax::eq(a, b));
  if (tolerance.equal_nan) close = lax::bitwise_or(close, lax::bitwise_and(isnan(a), isnan(b)));
  return close;
}

bool allclose(const Operand& x, const Operand& y, const Tolerance& tolerance) {
  const CallSite site(x.where);
  return all(isclose(x, y, tolerance)).item<bool>();
}

bool array_equal(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  return x.array.shape() == y.array.shape() && all(x == y).item<bool>();
}

}  // namespace v1
}  // namespace telamon
