// Roots and powers.
#include <limits>

#include "primitives/elementwise.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// sqrt(x).   d sqrt(x) = dx / (2 sqrt(x))
const Primitive<> sqrt_p{"sqrt", [] { return unary(sqrt_p, {
    .impl = eager(Op::sqrt),
    .jvp = [](Array dx, Array y, Array) { return dx * (0.5 / y); },
    .lower = emit(&Emitter::sqrt).with_cost(5),
}); }};

/// rsqrt(x) = 1 / sqrt(x).   d rsqrt(x) = -rsqrt(x)^3 / 2 dx. Two products take a fraction of the time of a division, and
/// leave the range of the type only where their result does.
const Primitive<> rsqrt_p{"rsqrt", [] { return unary(rsqrt_p, {
    .impl = eager(Op::rsqrt),
    .jvp = [](Array dx, Array y, Array) { return dx * (-0.5 * (y * y * y)); },
    .lower = element([](Emitter& e, Scalar x) {
      return e.div(e.constant(x.dtype(), 1), e.sqrt(x));
    }).with_cost(6),
}); }};

/// cbrt(x), the real cube root.   d cbrt(x) = cbrt(x)^-2 / 3 dx
const Primitive<> cbrt_p{"cbrt", [] { return unary(cbrt_p, {
    .impl = eager(Op::cbrt),
    .jvp = [](Array dx, Array y, Array) { return dx * (1.0 / 3 * lax::integer_pow(y, -2)); },
    .lower = math("cbrt", 25),
}); }};

/// square(x) = x x.   d square(x) = 2 x dx
const Primitive<> square_p{"square", [] { return unary(square_p, {
    .accepts = kNumbers,
    .impl = eager(Op::square),
    .jvp = [](Array dx, Array, Array x) { return dx * (2 * x); },
    .lower = element([](Emitter& e, Scalar x) { return e.mul(x, x); }),
}); }};
// clang-format on

// ---- integer_pow -------------------------------------------------------------------------------
namespace {

// x^|y| by repeated squaring, low bits of y first; negative exponents take the reciprocal last. The
// eager kernel multiplies in the same order, so both give the same bits.
Scalar multiply_out(Emitter& e, const IntegerPowParams& p, std::span<const Scalar> operands) {
  const Scalar x = operands[0];
  auto n = static_cast<unsigned>(p.y < 0 ? -static_cast<std::int64_t>(p.y) : p.y);
  std::optional<Scalar> power;
  for (Scalar square = x; n != 0; n >>= 1) {
    if (n & 1) power = power ? e.mul(*power, square) : square;
    if (n > 1) square = e.mul(square, square);
  }
  const auto one = [&] {
    return is_float(x.dtype()) ? e.constant(x.dtype(), 1) : e.constant_int(x.dtype(), 1);
  };
  if (!power) return one();
  return p.y < 0 ? e.div(one(), *power) : *power;
}

void check_exponent(const IntegerPowParams& p, const Aval& x) {
  if (p.y < 0 && !is_inexact(x.dtype)) {
    throw TypeError("Integers cannot be raised to negative powers, got integer_pow(" +
                    x.to_string() + ", " + std::to_string(p.y) +
                    "); convert the operand to a float first.");
  }
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// integer_pow[y](x) = x^y, x^0 = 1.   d integer_pow[y](x) = y x^(y-1) dx
const Primitive<IntegerPowParams> integer_pow_p{"integer_pow", [] {
  auto rules = unary(integer_pow_p, {
      .accepts = kNumbers,
      .impl = [](const IntegerPowParams& p, const Aval& out, std::span<const Array> x) {
        check_exponent(p, out);
        return run_kernel(Op::integer_pow, out.dtype, out, x, &p.y);
      },
      .jvp = [](const IntegerPowParams& p, Array dx, Array, Array x) {
        if (p.y == 1) return dx;
        if (p.y == 2) return dx * (2 * x);
        return dx * (p.y * lax::integer_pow(x, p.y - 1));
      },
      .lower = element<IntegerPowParams>(multiply_out),
  });
  rules.abstract_eval = [checked = rules.abstract_eval](const IntegerPowParams& p,
                                                        std::span<const Aval> x) {
    AbstractResult result = checked(p, x);
    check_exponent(p, result.avals[0]);
    return result;
  };
  rules.jvp = [general = rules.jvp](const IntegerPowParams& p, std::span<const Array> x,
                                    std::span<const Tangent> dx) {
    if (p.y != 0) return general(p, x, dx);
    return JvpResult{{integer_pow_p.bind1(p, {x[0]})}, {Zero{x[0].aval().tangent()}}};
  };
  return rules;
}};
// clang-format on

// ---- pow ---------------------------------------------------------------------------------------
namespace {

/// x and y are floats of one dtype, or y is an integer: then it is converted to x's dtype.
Aval pow_aval(std::span<const Aval> operands) {
  detail::check_arity("pow", operands, 2);
  const Aval &x = operands[0], &y = operands[1];
  static constexpr ElementwiseTypes kBase{"pow", kFloats};
  if (!is_integer(y.dtype) || !kFloats.contains(x.dtype)) {
    if (kFloats.contains(x.dtype) && kFloats.contains(y.dtype) && x.dtype != y.dtype) {
      throw TypeError(
          "the first argument to pow must have a float dtype, and the second argument must have a "
          "float or integer dtype, and two float dtypes must match, but got " +
          std::string(short_name(x.dtype)) + " and " + std::string(short_name(y.dtype)) +
          " respectively.");
    }
    return kBase(operands);
  }
  const Aval same_dtype[] = {x, {y.shape, x.dtype, y.weak_type}};
  return kBase(std::span<const Aval>(same_dtype));
}

Array replace_zero(const Array& x) {
  return lax::select(lax::eq(x, lax::zeros_like(x)), lax::ones_like(x), x);
}

// d/dx x^y = y x^(y-1). For an integer exponent 0 the factor is chosen to be 0, because 0 * 0^-1 is
// NaN. For a float exponent it is not: the second derivative along y at y = 0 needs x^-1.
Array pow_slope_x(const Array& x, const Array& exponent) {
  const Array y = lax::convert_element_type(exponent, x.dtype());
  if (is_float(exponent.dtype())) return y * lax::pow(x, y - 1);
  return lax::select(lax::eq(y, lax::zeros_like(y)), lax::zeros_like(y),
                     replace_zero(y) * lax::pow(x, y - 1));
}

// d/dy x^y = log(x) x^y, with log(0) taken as 0: 0^y is constant for y > 0.
Array pow_slope_y(const Array& x, const Array& z) { return lax::log(replace_zero(x)) * z; }

}  // namespace

// clang-format off: a primitive is a paragraph
/// pow(x, y) = x^y; y may be an integer.   d pow(x, y) = y x^(y-1) dx + log(x) x^y dy
const Primitive<> pow_p{"pow", [] {
  return Rules<>{
      .impl = [](const NoParams&, std::span<const Array> x) {
        const Aval avals[] = {x[0].aval(), x[1].aval()};
        const Array xs[] = {x[0], lax::convert_element_type(x[1], x[0].dtype())};
        return Arrays{run_kernel(Op::pow, x[0].dtype(), pow_aval(avals), xs)};
      },
      .abstract_eval = [](const NoParams&, std::span<const Aval> x) {
        return AbstractResult(pow_aval(x));
      },
      .jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
        const Array z = pow_p.bind1({}, {x[0], x[1]});
        std::vector<Tangent> terms;
        if (!t[0].is_zero()) terms.push_back(t[0].array() * pow_slope_x(x[0], x[1]));
        if (!t[1].is_zero()) terms.push_back(t[1].array() * pow_slope_y(x[0], z));
        return JvpResult{{z}, {sum_tangents(z.aval(), terms)}};
      },
      .batch = elementwise_batch(pow_p),
      .lower = element([](Emitter& e, Scalar x, Scalar y) {
        const Scalar args[] = {x, e.convert(y, x.dtype())};
        return e.math("pow", args);
      }).with_cost(40),
      .exempt = {{"transpose", "never linear in its operands"}},
  };
}};
// clang-format on

}  // namespace v1
}  // namespace telamon
