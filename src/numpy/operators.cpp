// The operators, and the named functions that they share: arithmetic, comparison, bits.
#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "core/trace.hpp"
#include "numpy/promote.hpp"
#include "primitives/direct.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using kernels::Op;

bool both_bool(const Array& x, const Array& y) {
  return x.dtype() == DType::bool_ && y.dtype() == DType::bool_;
}

/// Whether promotion leaves both as they are.
bool agree(const Array& x, const Array& y) { return x.aval() == y.aval(); }

/// Promotes, then applies `primitive`, which `op` evaluates; on two bools `on_bool` instead (null: a
/// TypeError).
Array arithmetic(const char* name, const Primitive<>& primitive, Op op, const Primitive<>* on_bool,
                 const Operand& x, const Operand& y) {
  if (Array z = detail::apply_direct(op, x.array, y.array); z.has_value()) return z;
  return detail::in_call(name, {&x, &y}, [&] {
    if (both_bool(x.array, y.array) && !on_bool)
      detail::type_error(name, "numbers (use ^ or logical_xor)", x.array);
    const bool bools = x.array.dtype() == DType::bool_;
    if (agree(x.array, y.array) && !bools)
      return detail::bind_held(primitive, {}, x.array, y.array);
    const auto [a, b] = detail::promote(name, x.array, y.array);
    return detail::bind_held(a.dtype() == DType::bool_ && on_bool ? *on_bool : primitive, {}, a, b);
  });
}

Array comparison(const char* name, const Primitive<>& primitive, Op op, const Operand& x,
                 const Operand& y) {
  if (Array z = detail::apply_direct(op, x.array, y.array); z.has_value()) return z;
  return detail::in_call(name, {&x, &y}, [&] {
    if (agree(x.array, y.array)) return detail::bind_held(primitive, {}, x.array, y.array);
    const auto [a, b] = detail::promote(name, x.array, y.array);
    return detail::bind_held(primitive, {}, a, b);
  });
}

void check_bits(const char* name, const Operand& x, const Operand& y) {
  for (const Array* a : {&x.array, &y.array}) {
    if (is_inexact(a->dtype())) detail::type_error(name, "integers or bools", *a);
  }
}

/// Bitwise functions take integers and bools.
Array bitwise(const char* name, const Primitive<>& primitive, const Operand& x, const Operand& y) {
  return detail::in_call(name, {&x, &y}, [&] {
    check_bits(name, x, y);
    const auto [a, b] = detail::promote(name, x.array, y.array);
    return primitive.bind1({}, {a, b});
  });
}

/// Both in one type of numbers (two bools in the default int) and in one shape.
std::pair<Array, Array> promote_numeric(const char* name, const Array& x, const Array& y) {
  const auto [a, b] = detail::promote(name, x, y);
  return {detail::numeric(a), detail::numeric(b)};
}

/// Shifts take bools as numbers.
Array shift(const char* name, const Primitive<>& primitive, const Operand& x, const Operand& y) {
  return detail::in_call(name, {&x, &y}, [&] {
    check_bits(name, x, y);
    const auto [a, b] = promote_numeric(name, x.array, y.array);
    return primitive.bind1({}, {a, b});
  });
}

}  // namespace

// On bools + is or, * is and, as in NumPy; - is a TypeError.
Array add(const Operand& x, const Operand& y) {
  return arithmetic("add", add_p, Op::add, &or_p, x, y);
}
Array subtract(const Operand& x, const Operand& y) {
  return arithmetic("subtract", sub_p, Op::sub, nullptr, x, y);
}
Array multiply(const Operand& x, const Operand& y) {
  return arithmetic("multiply", mul_p, Op::mul, &and_p, x, y);
}
Array maximum(const Operand& x, const Operand& y) {
  return arithmetic("maximum", max_p, Op::max, &or_p, x, y);
}
Array minimum(const Operand& x, const Operand& y) {
  return arithmetic("minimum", min_p, Op::min, &and_p, x, y);
}

Array divide(const Operand& x, const Operand& y) {
  if (x.array.has_value() && y.array.has_value() &&
      (is_inexact(x.array.dtype()) || is_inexact(y.array.dtype()))) {
    if (Array z = detail::apply_direct(Op::div, x.array, y.array); z.has_value()) return z;
  }
  return detail::in_call("divide", {&x, &y}, [&] {
    const auto [a, b] = detail::promote_inexact("divide", x.array, y.array);
    return lax::div(a, b);
  });
}

Array negative(const Operand& x) {
  if (Array y = detail::apply_direct(Op::neg, x.array); y.has_value()) return y;
  return detail::in_call("negative", {&x}, [&] {
    if (x.array.dtype() == DType::bool_)
      detail::type_error("negative", "numbers (use ~ or !)", x.array);
    return lax::neg(x.array);
  });
}

namespace {
/// rem(x, y), and 0 where an integer y is 0, as in JAX. The result has the sign of x.
Array remainder_of(const Array& x, const Array& y) {
  if (!is_integer(y.dtype())) return lax::rem(x, y);
  return lax::rem(x, lax::select(lax::eq(y, lax::zeros_like(y)), lax::ones_like(y), y));
}
}  // namespace

// r = rem(x, y) has the sign of x; where that differs from the sign of y, the result is r + y.
Array remainder(const Operand& x, const Operand& y) {
  return detail::in_call("remainder", {&x, &y}, [&] {
    const auto [a, b] = promote_numeric("remainder", x.array, y.array);
    const Array r = remainder_of(a, b);
    if (is_unsigned_integer(a.dtype())) return r;
    const Array zero = lax::zeros_like(r);
    const Array signs_differ = lax::ne(lax::lt(r, zero), lax::lt(b, zero));
    return lax::select(lax::bitwise_and(signs_differ, lax::ne(r, zero)), lax::add(r, b), r);
  });
}

Array mod(const Operand& x, const Operand& y) {
  return detail::in_call("mod", {&x, &y}, [&] { return remainder(x, y); });
}

Array fmod(const Operand& x, const Operand& y) {
  return detail::in_call("fmod", {&x, &y}, [&] {
    const auto [a, b] = promote_numeric("fmod", x.array, y.array);
    return remainder_of(a, b);
  });
}

namespace {
// Integers: the quotient rounded toward zero, less 1 where the signs differ and there is a remainder.
Array floor_divide_integers(const Array& a, const Array& b) {
  const Array q = lax::div(a, b);
  if (is_unsigned_integer(a.dtype())) return q;
  const Array inexact = lax::ne(lax::rem(a, b), lax::zeros_like(a));
  const Array signs_differ = lax::ne(lax::sign(a), lax::sign(b));
  return lax::select(lax::bitwise_and(signs_differ, inexact), lax::sub(q, lax::ones_like(q)), q);
}

// Floats: as CPython's float_divmod, so that x == y * floor_divide(x, y) + remainder(x, y) holds. By
// 0 the quotient is x / 0.
Array floor_divide_floats(const Array& a, const Array& b) {
  const Array r = lax::rem(a, b);
  const Array by_zero = lax::eq(b, lax::zeros_like(b));
  const Array q = lax::div(lax::select(by_zero, a, lax::sub(a, r)), b);
  const Array signs_differ = lax::ne(lax::sign(b), lax::sign(r));
  const Array too_large = lax::bitwise_and(lax::ne(r, lax::zeros_like(r)), signs_differ);
  return lax::round(lax::select(too_large, lax::sub(q, lax::ones_like(q)), q));
}
}  // namespace

Array floor_divide(const Operand& x, const Operand& y) {
  return detail::in_call("floor_divide", {&x, &y}, [&] {
    const auto [a, b] = promote_numeric("floor_divide", x.array, y.array);
    return is_integer(a.dtype()) ? floor_divide_integers(a, b) : floor_divide_floats(a, b);
  });
}

Array operator+(const Operand& x) {
  detail::check_operands("positive", {&x});
  return x.array;
}
Array operator-(const Operand& x) { return negative(x); }
Array operator!(const Array& x) {
  // Its line is not known: an operator takes no other arguments. The one here would be none of the user's.
  if (!x.has_value()) detail::empty_operand_error("logical_not", 0);
  return logical_not({x, detail::place_of(x)});
}
Array operator+(const Operand& x, const Operand& y) { return add(x, y); }
Array operator-(const Operand& x, const Operand& y) { return subtract(x, y); }
Array operator*(const Operand& x, const Operand& y) { return multiply(x, y); }
Array operator/(const Operand& x, const Operand& y) { return divide(x, y); }
Array operator%(const Operand& x, const Operand& y) { return remainder(x, y); }

Array operator~(const Operand& x) {
  return detail::in_call("bitwise_not", {&x}, [&] {
    if (is_inexact(x.array.dtype()))
      detail::type_error("bitwise_not", "integers or bools", x.array);
    return lax::bitwise_not(x.array);
  });
}
Array operator&(const Operand& x, const Operand& y) { return bitwise("bitwise_and", and_p, x, y); }
Array operator|(const Operand& x, const Operand& y) { return bitwise("bitwise_or", or_p, x, y); }
Array operator^(const Operand& x, const Operand& y) { return bitwise("bitwise_xor", xor_p, x, y); }
Array operator<<(const Operand& x, const Operand& y) {
  return shift("left_shift", shift_left_p, x, y);
}
Array operator>>(const Operand& x, const Operand& y) {
  detail::check_operands("right_shift", {&x, &y});
  const TypeInfo type = promote_types(detail::type_of(x.array), detail::type_of(y.array));
  const bool logical = is_unsigned_integer(type.dtype);
  return shift("right_shift", logical ? shift_right_logical_p : shift_right_arithmetic_p, x, y);
}

Array operator==(const Operand& x, const Operand& y) {
  return comparison("equal", eq_p, Op::eq, x, y);
}
Array operator!=(const Operand& x, const Operand& y) {
  return comparison("not_equal", ne_p, Op::ne, x, y);
}
Array operator<(const Operand& x, const Operand& y) {
  return comparison("less", lt_p, Op::lt, x, y);
}
Array operator<=(const Operand& x, const Operand& y) {
  return comparison("less_equal", le_p, Op::le, x, y);
}
Array operator>(const Operand& x, const Operand& y) {
  return comparison("greater", gt_p, Op::gt, x, y);
}
Array operator>=(const Operand& x, const Operand& y) {
  return comparison("greater_equal", ge_p, Op::ge, x, y);
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
