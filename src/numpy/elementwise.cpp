// Elementwise functions beside the operators: promotion to floats, special cases, where and clip.
#include <array>
#include <cmath>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "numpy/promote.hpp"
#include "primitives/direct.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using kernels::Op;

/// A function of floats: integers and bools become the default float.
Array of_float(const char* name, const Primitive<>& primitive, Op op, const Operand& x) {
  if (Array y = detail::apply_direct(op, x.array); y.has_value()) return y;
  return detail::in_call(name, {&x},
                         [&] { return primitive.bind1({}, {detail::inexact(x.array)}); });
}
Array of_float(const Primitive<>& primitive, Op op, const Operand& x) {
  return of_float(primitive.name().data(), primitive, op, x);
}

/// A function of numbers: a bool is a TypeError.
Array of_number(const char* name, const Primitive<>& primitive, const Operand& x) {
  return detail::in_call(name, {&x}, [&] {
    if (x.array.dtype() == DType::bool_) detail::type_error(name, "numbers", x.array);
    return primitive.bind1({}, {x.array});
  });
}

/// A rounding: integers are what they are.
Array rounding(const Primitive<>& primitive, const Operand& x) {
  return detail::in_call(primitive.name().data(), {&x}, [&] {
    return is_inexact(x.array.dtype()) ? primitive.bind1({}, {x.array}) : x.array;
  });
}

/// x to a constant power.
Array integer_power(const Array& x, int y) {
  if (y == 0) return lax::ones_like(x);
  if (y == 1) return x;
  return y == 2 ? lax::square(x) : lax::integer_pow(x, y);
}

Array logical(const char* name, const Primitive<>& primitive, const Operand& x, const Operand& y) {
  return detail::in_call(name, {&x, &y}, [&] {
    const auto [a, b] = detail::promote(name, detail::truth(x.array), detail::truth(y.array));
    return primitive.bind1({}, {a, b});
  });
}

}  // namespace

Array sin(const Operand& x) { return of_float(sin_p, Op::sin, x); }
Array cos(const Operand& x) { return of_float(cos_p, Op::cos, x); }
Array tan(const Operand& x) { return of_float(tan_p, Op::tan, x); }
Array asin(const Operand& x) { return of_float(asin_p, Op::asin, x); }
Array acos(const Operand& x) { return of_float(acos_p, Op::acos, x); }
Array atan(const Operand& x) { return of_float(atan_p, Op::atan, x); }
Array sinh(const Operand& x) { return of_float(sinh_p, Op::sinh, x); }
Array cosh(const Operand& x) { return of_float(cosh_p, Op::cosh, x); }
Array tanh(const Operand& x) { return of_float(tanh_p, Op::tanh, x); }
Array asinh(const Operand& x) { return of_float(asinh_p, Op::asinh, x); }
Array acosh(const Operand& x) { return of_float(acosh_p, Op::acosh, x); }
Array atanh(const Operand& x) { return of_float(atanh_p, Op::atanh, x); }
Array exp(const Operand& x) { return of_float(exp_p, Op::exp, x); }
Array exp2(const Operand& x) { return of_float(exp2_p, Op::exp2, x); }
Array expm1(const Operand& x) { return of_float(expm1_p, Op::expm1, x); }
Array log(const Operand& x) { return of_float(log_p, Op::log, x); }
Array log1p(const Operand& x) { return of_float(log1p_p, Op::log1p, x); }
Array sqrt(const Operand& x) { return of_float(sqrt_p, Op::sqrt, x); }
Array rsqrt(const Operand& x) { return of_float(rsqrt_p, Op::rsqrt, x); }
Array cbrt(const Operand& x) { return of_float(cbrt_p, Op::cbrt, x); }
Array erf(const Operand& x) { return of_float(erf_p, Op::erf, x); }
Array erf_inv(const Operand& x) { return of_float(erf_inv_p, Op::erf_inv, x); }
Array sigmoid(const Operand& x) { return of_float("sigmoid", logistic_p, Op::logistic, x); }
Array square(const Operand& x) {
  return detail::in_call("square", {&x}, [&] { return lax::square(detail::numeric(x.array)); });
}
Array abs(const Operand& x) {
  return detail::in_call("abs", {&x}, [&] {
    const DType d = x.array.dtype();
    return d == DType::bool_ || is_unsigned_integer(d) ? x.array : lax::abs(x.array);
  });
}
Array sign(const Operand& x) { return of_number("sign", sign_p, x); }
Array floor(const Operand& x) { return rounding(floor_p, x); }
Array ceil(const Operand& x) { return rounding(ceil_p, x); }

namespace {
/// log(x) / log(base). Strong, as in JAX: the constant has a dtype of its own.
Array logarithm(const char* name, const Operand& x, double base) {
  return detail::in_call(name, {&x}, [&] {
    const Array y = detail::strong(lax::log(detail::inexact(x.array)));
    return lax::div(y, lax::full_like(y, std::log(base)));
  });
}
}  // namespace

Array log2(const Operand& x) { return logarithm("log2", x, 2); }
Array log10(const Operand& x) { return logarithm("log10", x, 10); }

Array reciprocal(const Operand& x) {
  return detail::in_call("reciprocal", {&x},
                         [&] { return integer_power(detail::inexact(x.array), -1); });
}

Array round(const Operand& x, int decimals) {
  return detail::in_call("round", {&x}, [&] {
    if (!is_inexact(x.array.dtype())) {
      if (decimals >= 0) return x.array;
      throw NotImplementedError("round: of integers, decimals must be 0 or more, got " +
                                std::to_string(decimals) + " for " + x.array.aval().to_string() +
                                "; convert them to a float first");
    }
    if (decimals == 0) return lax::round(x.array, RoundingMethod::to_nearest_even);
    const DType d = x.array.dtype();  // 16-bit floats are scaled in f32, where they do not overflow
    const Array a = x.array.ndim() == 0 && x.array.weak_type() ? x.array : detail::strong(x.array);
    const Array wide = size_of(d) == 2 ? lax::convert_element_type(a, DType::f32) : a;
    const double factor = std::pow(10.0, decimals);
    const Array scaled = lax::round(multiply(wide, factor), RoundingMethod::to_nearest_even);
    return detail::to_type(divide(scaled, factor), detail::type_of(a));
  });
}

Array isnan(const Operand& x) {
  return detail::in_call("isnan", {&x}, [&] { return lax::ne(x.array, x.array); });
}

Array isinf(const Operand& x) {
  return detail::in_call("isinf", {&x}, [&] {
    if (!is_inexact(x.array.dtype())) return full(x.array.shape(), false, DType::bool_);
    const Array a = detail::strong(x.array);
    return lax::eq(lax::abs(a), lax::full_like(a, inf));
  });
}

Array isfinite(const Operand& x) {
  return detail::in_call("isfinite", {&x}, [&] {
    if (!is_inexact(x.array.dtype())) return full(x.array.shape(), true, DType::bool_);
    return lax::is_finite(x.array);
  });
}

Array logical_not(const Operand& x) {
  return detail::in_call("logical_not", {&x},
                         [&] { return lax::bitwise_not(detail::truth(x.array)); });
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
/// Whether floats of the dtype skip n and are even there, as all are from 2^digits on.
bool is_odd_beyond(std::int64_t n, DType dtype) {
  const int digits = dtype == DType::bf16  ? 8
                     : dtype == DType::f16 ? 11
                     : dtype == DType::f32 ? 24
                                           : 53;
  const std::int64_t end = std::int64_t{1} << digits;
  return is_float(dtype) && n % 2 != 0 && (n > end || n < -end);
}
bool is_two(const Array& exponent) {
  return detail::is_weak_constant(exponent) && is_float(exponent.dtype()) &&
         exponent.item<double>() == 2;
}

}  // namespace

// As in JAX: a C++ integer as exponent is integer_pow, which refuses to raise integers to a negative
// power; integers to powers that are only known at run time multiply; a float keeps an integer
// exponent as it is, so that the derivative at 0 is right. Unlike there, 2.0 is as good as 2: x * x is rounded once.
Array power(const Operand& x, const Operand& y) {
  return detail::in_call("power", {&x, &y}, [&] {
    if (detail::is_weak_constant(y.array) && is_integer(y.array.dtype())) {
      const auto exponent = y.array.item<std::int64_t>();
      const Array base = detail::numeric(x.array);
      if (exponent < 0 && is_integer(base.dtype())) {
        throw TypeError("power: integers cannot be raised to negative powers, got power(" +
                        x.array.aval().to_string() + ", " + std::to_string(exponent) +
                        "); convert the base to a float first (or use a float exponent)");
      }
      if (exponent >= -4096 && exponent <= 4096)
        return integer_power(base, static_cast<int>(exponent));
      // As a float the exponent would be even, and the sign lost.
      if (is_odd_beyond(exponent, base.dtype()))
        return exponent > 0 ? multiply(power(base, exponent - 1), base)
                            : divide(power(base, exponent + 1), base);
    }
    const auto [a, b] = detail::promote("power", x.array, y.array);
    if (is_inexact(a.dtype()) && is_two(y.array)) return lax::square(a);
    if (!is_inexact(a.dtype()))
      return detail::strong(power_of_integers(detail::numeric(a), detail::numeric(b)));
    const bool keeps_exponent = is_inexact(x.array.dtype()) && is_integer(y.array.dtype());
    if (!keeps_exponent) return lax::pow(a, b);
    return pow_p.bind1({}, {a, detail::broadcast_array(y.array, a.shape())});
  });
}

Array arctan2(const Operand& y, const Operand& x) {
  return detail::in_call("arctan2", {&y, &x}, [&] {
    const auto [a, b] = detail::promote_inexact("arctan2", y.array, x.array);
    return lax::atan2(a, b);
  });
}

namespace {
/// |x| with the derivative 1 at 0. (-0 + 0 is 0.)
Array magnitude(const Array& x) {
  const Array zero = lax::zeros_like(x);
  return lax::select(lax::lt(x, zero), lax::neg(x), lax::add(x, zero));
}
}  // namespace

// sqrt(x^2 + y^2) = m sqrt(1 + (n/m)^2), m the larger: the squares do not overflow. Infinite when
// either is, whatever the other one.
Array hypot(const Operand& x, const Operand& y) {
  return detail::in_call("hypot", {&x, &y}, [&] {
    const auto [p, q] = detail::promote_inexact("hypot", x.array, y.array);
    const Array a = magnitude(p), b = magnitude(q), infinity = lax::full_like(a, inf);
    const Array infinite = lax::bitwise_or(lax::eq(a, infinity), lax::eq(b, infinity));
    const Array m = lax::max(a, b), n = lax::min(a, b);
    const Array is_zero = lax::eq(m, lax::zeros_like(m));
    const Array divisor = lax::select(is_zero, lax::ones_like(m), m);
    const Array ratio = lax::div(n, divisor);
    const Array general = lax::mul(m, lax::sqrt(lax::add(lax::ones_like(m), lax::square(ratio))));
    return lax::select(infinite, infinity, lax::select(is_zero, m, general));
  });
}

// max(x, y) + log1p(exp(-|x - y|)). Where both are the same infinity the difference is NaN: there
// the result is x + y, and the other branch is computed from a difference of 0, so that no NaN gets
// into derivatives.
Array logaddexp(const Operand& x, const Operand& y) {
  return detail::in_call("logaddexp", {&x, &y}, [&] {
    const auto [a, b] = detail::promote_inexact("logaddexp", x.array, y.array);
    // max(a, b) + log1p(exp(-|a - b|)), with a choice instead of max and |.|, whose second derivatives
    // at a == b are not those of the sum.
    const Array a_is_larger = lax::ge(a, b);
    const Array larger = lax::select(a_is_larger, a, b), smaller = lax::select(a_is_larger, b, a);
    const Array difference = lax::sub(smaller, larger);
    const Array undefined = lax::ne(difference, difference);
    const Array d = lax::select(undefined, lax::zeros_like(a), difference);
    const Array regular = lax::add(larger, lax::log1p(lax::exp(d)));
    return lax::select(undefined, lax::add(a, b), regular);
  });
}

Array where(const Operand& condition, const Operand& x, const Operand& y) {
  return detail::in_call("where", {&condition, &x, &y}, [&] {
    const TypeInfo type = promote_types(detail::type_of(x.array), detail::type_of(y.array));
    const Array all_three[] = {detail::truth(condition.array), x.array, y.array};
    const Shape shape = detail::broadcast_shapes("where", all_three);
    const Array pred =
        all_three[0].ndim() == 0 ? all_three[0] : detail::broadcast_array(all_three[0], shape);
    return lax::select(pred, detail::broadcast_array(detail::to_type(x.array, type), shape),
                       detail::broadcast_array(detail::to_type(y.array, type), shape));
  });
}

namespace {
/// A bound of clip. A C++ integer that an integer dtype cannot hold lies beyond all its values: it
/// becomes the nearest of them. (JAX wraps it around: clip(u8, -1, 1) is 1 everywhere there.)
Array bound(const Array& value, DType dtype) {
  const bool out_of_place =
      detail::is_weak_constant(value) && is_signed_integer(value.dtype()) && is_integer(dtype);
  if (!out_of_place) return value;
  const auto v = value.item<std::int64_t>();
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const bool is_signed = is_signed_integer(dtype);
  if (!is_signed && v < 0) return Array(0);
  if (bits == 64) return value;
  const std::int64_t highest = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  const std::int64_t lowest = is_signed ? -highest - 1 : 0;
  return v < lowest ? Array(lowest) : v > highest ? Array(highest) : value;
}
}  // namespace

Array clip(const Operand& x, const std::optional<Operand>& low,
           const std::optional<Operand>& high) {
  return detail::in_call("clip", {&x}, [&] {
    for (const auto* bound : {&low, &high}) {
      if (*bound && !(*bound)->array.has_value())
        detail::empty_operand_error("clip", bound == &low ? 1 : 2);
    }
    Array out = x.array;
    if (low) out = maximum(out, bound(low->array, out.dtype()));
    if (high) out = minimum(out, bound(high->array, out.dtype()));
    return out;
  });
}

Array isclose(const Operand& x, const Operand& y, const Tolerance& tolerance) {
  return detail::in_call("isclose", {&x, &y}, [&] {
    const auto [p, q] = detail::promote_inexact("isclose", x.array, y.array);
    const Array a = detail::strong(p), b = detail::strong(q);
    const Array bound = add(multiply(abs(b), tolerance.rtol), tolerance.atol);
    const Array both_finite = lax::bitwise_and(lax::is_finite(a), lax::is_finite(b));
    Array close = lax::bitwise_and(both_finite, lax::le(lax::abs(lax::sub(a, b)), bound));
    close = lax::bitwise_or(close, lax::eq(a, b));
    if (tolerance.equal_nan) close = lax::bitwise_or(close, lax::bitwise_and(isnan(a), isnan(b)));
    return close;
  });
}

bool allclose(const Operand& x, const Operand& y, const Tolerance& tolerance) {
  return detail::in_call("allclose", {&x, &y},
                         [&] { return all(isclose(x, y, tolerance)).item<bool>(); });
}

bool array_equal(const Operand& x, const Operand& y) {
  return detail::in_call("array_equal", {&x, &y}, [&] {
    return x.array.shape() == y.array.shape() && all(x == y).item<bool>();
  });
}

}  // namespace v1
}  // namespace telamon
