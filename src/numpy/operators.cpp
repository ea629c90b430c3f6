// The operators, and the named functions that they share: arithmetic, comparison, bits.
#include "core/concrete.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using detail::CallSite;

bool both_bool(const Array& x, const Array& y) {
  return x.dtype() == DType::bool_ && y.dtype() == DType::bool_;
}

/// Promotes, then applies `primitive`; on two bools `on_bool` instead (null: a TypeError).
Array arithmetic(const char* name, const Primitive<>& primitive, const Primitive<>* on_bool,
                 const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  if (both_bool(x.array, y.array) && !on_bool)
    detail::type_error(name, "numbers (use ^ or logical_xor)", x.array);
  const auto [a, b] = detail::promote(name, x.array, y.array);
  return (a.dtype() == DType::bool_ && on_bool ? *on_bool : primitive).bind1({}, {a, b});
}

Array comparison(const char* name, const Primitive<>& primitive, const Operand& x,
                 const Operand& y) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote(name, x.array, y.array);
  return primitive.bind1({}, {a, b});
}

/// Bitwise functions take integers and bools.
Array bitwise(const char* name, const Primitive<>& primitive, const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  for (const Array* a : {&x.array, &y.array}) {
    if (is_inexact(a->dtype())) detail::type_error(name, "integers or bools", *a);
  }
  const auto [a, b] = detail::promote(name, x.array, y.array);
  return primitive.bind1({}, {a, b});
}

}  // namespace

// On bools + is or, * is and, as in NumPy; - is a TypeError.
Array add(const Operand& x, const Operand& y) { return arithmetic("add", add_p, &or_p, x, y); }
Array subtract(const Operand& x, const Operand& y) {
  return arithmetic("subtract", sub_p, nullptr, x, y);
}
Array multiply(const Operand& x, const Operand& y) {
  return arithmetic("multiply", mul_p, &and_p, x, y);
}
Array maximum(const Operand& x, const Operand& y) {
  return arithmetic("maximum", max_p, &or_p, x, y);
}
Array minimum(const Operand& x, const Operand& y) {
  return arithmetic("minimum", min_p, &and_p, x, y);
}

Array divide(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  const auto [a, b] = detail::promote_inexact("divide", x.array, y.array);
  return lax::div(a, b);
}

Array negative(const Operand& x) {
  const CallSite site(x.where);
  if (x.array.dtype() == DType::bool_)
    detail::type_error("negative", "numbers (use ~ or !)", x.array);
  return lax::neg(x.array);
}

// r = rem(x, y) has the sign of x; where that differs from the sign of y, the result is r + y.
Array remainder(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  if (both_bool(x.array, y.array)) detail::type_error("remainder", "numbers", x.array);
  const auto [a, b] = detail::promote("remainder", x.array, y.array);
  const Array r = lax::rem(a, b);
  if (is_unsigned_integer(a.dtype())) return r;
  const Array zero = lax::zeros_like(r);
  const Array signs_differ = lax::ne(lax::lt(r, zero), lax::lt(b, zero));
  return lax::select(lax::bitwise_and(signs_differ, lax::ne(r, zero)), lax::add(r, b), r);
}

Array mod(const Operand& x, const Operand& y) { return remainder(x, y); }

Array fmod(const Operand& x, const Operand& y) { return arithmetic("fmod", rem_p, nullptr, x, y); }

namespace {
// Integers: the quotient rounded toward zero, less 1 where the signs differ and there is a remainder.
Array floor_divide_integers(const Array& a, const Array& b) {
  const Array q = lax::div(a, b);
  if (is_unsigned_integer(a.dtype())) return q;
  const Array inexact = lax::ne(lax::rem(a, b), lax::zeros_like(a));
  const Array signs_differ = lax::ne(lax::sign(a), lax::sign(b));
  return lax::select(lax::bitwise_and(signs_differ, inexact), lax::sub(q, lax::ones_like(q)), q);
}

// Floats: as CPython's float_divmod, so that x == y * floor_divide(x, y) + remainder(x, y) holds.
Array floor_divide_floats(const Array& a, const Array& b) {
  const Array r = lax::rem(a, b);
  const Array q = lax::div(lax::sub(a, r), b);
  const Array signs_differ = lax::ne(lax::sign(b), lax::sign(r));
  const Array too_large = lax::bitwise_and(lax::ne(r, lax::zeros_like(r)), signs_differ);
  return lax::round(lax::select(too_large, lax::sub(q, lax::ones_like(q)), q));
}
}  // namespace

Array floor_divide(const Operand& x, const Operand& y) {
  const CallSite site(x.where);
  if (both_bool(x.array, y.array)) detail::type_error("floor_divide", "numbers", x.array);
  const auto [a, b] = detail::promote("floor_divide", x.array, y.array);
  return is_integer(a.dtype()) ? floor_divide_integers(a, b) : floor_divide_floats(a, b);
}

Array operator+(const Operand& x) { return x.array; }
Array operator-(const Operand& x) { return negative(x); }
Array operator!(const Array& x) { return logical_not(x); }
Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }

Array operator~(const Operand& x) {
  const CallSite site(x.where);
  if (is_inexact(x.array.dtype())) detail::type_error("bitwise_not", "integers or bools", x.array);
  return lax::bitwise_not(x.array);
}
Array operator&(const Operand& x, const Operand& y) { return bitwise("bitwise_and", and_p, x, y); }
Array operator|(const Operand& x, const Operand& y) { return bitwise("bitwise_or", or_p, x, y); }
Array operator^(const Operand& x, const Operand& y) { return bitwise("bitwise_xor", xor_p, x, y); }
Array operator<<(const Operand& x, const Operand& y) {
  return bitwise("left_shift", shift_left_p, x, y);
}
Array operator>>(const Operand& x, const Operand& y) {
  const TypeInfo type = promote_types(detail::type_of(x.array), detail::type_of(y.array));
  const bool logical = is_unsigned_integer(type.dtype);
  return bitwise("right_shift", logical ? shift_right_logical_p : shift_right_arithmetic_p, x, y);
}

Array operator==(const Operand& x, const Operand& y) { return comparison("equal", eq_p, x, y); }
Array operator!=(const Operand& x, const Operand& y) { return comparison("not_equal", ne_p, x, y); }
Array operator<(const Operand& x, const Operand& y) { return comparison("less", lt_p, x, y); }
Array operator<=(const Operand& x, const Operand& y) {
  return comparison("less_equal", le_p, x, y);
}
Array operator>(const Operand& x, const Operand& y) { return comparison("greater", gt_p, x, y); }
Array operator>=(const Operand& x, const Operand& y) {
  return comparison("greater_equal", ge_p, x, y);
}

Array& operator+=(Array& x, const Operand& y) { return x = add({x, y.where}, y); }
Array& operator-=(Array& x, const Operand& y) { return x = subtract({x, y.where}, y); }
Array& operator*=(Array& x, const Operand& y) { return x = multiply({x, y.where}, y); }
Array& operator/=(Array& x, const Operand& y) { return x = divide({x, y.where}, y); }
Array& operator%=(Array& x, const Operand& y) { return x = remainder({x, y.where}, y); }
Array& operator&=(Array& x, const Operand& y) {
  return x = bitwise("bitwise_and", and_p, {x, y.where}, y);
}
Array& operator|=(Array& x, const Operand& y) {
  return x = bitwise("bitwise_or", or_p, {x, y.where}, y);
}
Array& operator^=(Array& x, const Operand& y) {
  return x = bitwise("bitwise_xor", xor_p, {x, y.where}, y);
}

}  // namespace v1
}  // namespace telamon
