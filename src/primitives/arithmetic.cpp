// Arithmetic: signs, rounding, sums, products, quotients, extrema.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

// clang-format off: a primitive is a paragraph
/// neg(x) = -x; unsigned integers wrap.   d neg(x) = -dx
const Primitive<> neg_p{"neg", [] { return unary(neg_p, {
    .accepts = kNumbers,
    .impl = eager(Op::neg),
    .jvp = [](Array dx, Array, Array) { return -dx; },
    .transpose = [](Array ct) { return -ct; },
    .lower = emit(&Emitter::neg),
}); }};

/// sign(x) = -1, 0 or 1; zeros keep their sign, NaN gives NaN.   d sign(x) = 0
const Primitive<> sign_p{"sign", [] { return unary(sign_p, {
    .accepts = kReals,
    .impl = eager(Op::sign),
    .zero_derivative = "piecewise constant",
    .lower = emit(&Emitter::sign),
}); }};

/// abs(x) = |x|.   d abs(x) = sign(x) dx
const Primitive<> abs_p{"abs", [] { return unary(abs_p, {
    .accepts = kSignedInts | kFloats,
    .impl = eager(Op::abs),
    .jvp = [](Array dx, Array, Array x) { return dx * lax::sign(x); },
    .lower = emit(&Emitter::abs),
}); }};

/// floor(x): the greatest integer not above x.   d floor(x) = 0
const Primitive<> floor_p{"floor", [] { return unary(floor_p, {
    .impl = eager(Op::floor),
    .zero_derivative = "piecewise constant",
    .lower = emit(&Emitter::floor),
}); }};

/// ceil(x): the least integer not below x.   d ceil(x) = 0
const Primitive<> ceil_p{"ceil", [] { return unary(ceil_p, {
    .impl = eager(Op::ceil),
    .zero_derivative = "piecewise constant",
    .lower = emit(&Emitter::ceil),
}); }};
// clang-format on

std::string_view to_string(RoundingMethod method) {
  return method == RoundingMethod::away_from_zero ? "away_from_zero" : "to_nearest_even";
}
bool enum_from_string(std::string_view text, RoundingMethod& method) {
  for (const auto m : {RoundingMethod::away_from_zero, RoundingMethod::to_nearest_even}) {
    if (text != to_string(m)) continue;
    method = m;
    return true;
  }
  return false;
}

// clang-format off: a primitive is a paragraph
/// round[rounding_method](x): the nearest integer, halves away from zero or to even.
/// d round(x) = 0
const Primitive<RoundParams> round_p{"round", [] { return unary(round_p, {
    .impl = [](const RoundParams& p, const Aval& out, std::span<const Array> x) {
      const bool away = p.rounding_method == RoundingMethod::away_from_zero;
      return run_kernel(away ? Op::round_away : Op::round_even, out.dtype, out, x);
    },
    .zero_derivative = "piecewise constant",
    .lower = element<RoundParams>([](Emitter& e, const RoundParams& p, std::span<const Scalar> x) {
      const bool away = p.rounding_method == RoundingMethod::away_from_zero;
      return away ? e.round_away(x[0]) : e.round_even(x[0]);
    }),
}); }};

/// add(x, y) = x + y; integers wrap.   d add(x, y) = dx + dy
const Primitive<> add_p{"add", [] { return binary(add_p, {
    .accepts = kNumbers,
    .impl = eager(Op::add),
    .jvp_x = [](Array dx, Array, Array, Array) { return dx; },
    .jvp_y = [](Array dy, Array, Array, Array) { return dy; },
    .transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput> x) {
      return cotangents(x, ct[0], ct[0]);
    },
    .lower = emit(&Emitter::add),
}); }};

/// sub(x, y) = x - y; integers wrap.   d sub(x, y) = dx - dy
const Primitive<> sub_p{"sub", [] {
  auto rules = binary(sub_p, {
      .accepts = kNumbers,
      .impl = eager(Op::sub),
      .jvp_x = [](Array dx, Array, Array, Array) { return dx; },
      .jvp_y = [](Array dy, Array, Array, Array) { return -dy; },
      .transpose = [](const NoParams&, std::span<const Tangent> ct,
                      std::span<const LinearInput> x) {
        const bool negate = x[1].is_linear() && !ct[0].is_zero();
        return cotangents(x, ct[0], negate ? Tangent(-ct[0].array()) : ct[0]);
      },
      .lower = emit(&Emitter::sub),
  });
  // Two tangents take one subtraction, not a negation and a sum.
  rules.jvp = [general = rules.jvp](const NoParams& p, std::span<const Array> x,
                                    std::span<const Tangent> t) {
    if (t[0].is_zero() || t[1].is_zero()) return general(p, x, t);
    return JvpResult{{x[0] - x[1]}, {t[0].array() - t[1].array()}};
  };
  return rules;
}};

/// mul(x, y) = x y; integers wrap.   d mul(x, y) = dx y + x dy
const Primitive<> mul_p{"mul", [] { return binary(mul_p, {
    .accepts = kNumbers,
    .impl = eager(Op::mul),
    .jvp_x = [](Array dx, Array, Array, Array y) { return dx * y; },
    .jvp_y = [](Array dy, Array, Array x, Array) { return x * dy; },
    .transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput> x) {
      if (x[0].is_linear() == x[1].is_linear()) refuse_nonlinear("mul", x);
      if (ct[0].is_zero()) return cotangents(x, ct[0], ct[0]);
      const Array& g = ct[0].array();
      if (x[0].is_linear()) return cotangents(x, g * x[1].array(), {});
      return cotangents(x, {}, x[0].array() * g);
    },
    .lower = emit(&Emitter::mul),
}); }};

/// div(x, y) = x / y; integers truncate, x / 0 has all bits set.
/// d div(x, y) = dx / y - x dy / y^2
const Primitive<> div_p{"div", [] { return binary(div_p, {
    .accepts = kNumbers,
    .impl = eager(Op::div),
    .jvp_x = [](Array dx, Array, Array, Array y) { return dx / y; },
    .jvp_y = [](Array dy, Array, Array x, Array y) { return dy * (-x * lax::integer_pow(y, -2)); },
    .transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput> x) {
      if (x[1].is_linear()) refuse_nonlinear("div", x);
      return cotangents(x, ct[0].is_zero() ? ct[0] : Tangent(ct[0].array() / x[1].array()), {});
    },
    .lower = emit(&Emitter::div).with_cost(5),
}); }};

/// rem(x, y) = x - y trunc(x / y), of x's sign; rem(x, 0) = x for integers.
/// d rem(x, y) = dx - trunc(x / y) dy
const Primitive<> rem_p{"rem", [] { return binary(rem_p, {
    .accepts = kReals,
    .impl = eager(Op::rem),
    .jvp_x = [](Array dx, Array, Array, Array) { return dx; },
    .jvp_y = [](Array dy, Array, Array x, Array y) {
      const Array quotient = x / y;
      return dy * -(lax::sign(quotient) * lax::floor(lax::abs(quotient)));
    },
    .lower = emit(&Emitter::rem).with_cost(30),
}); }};
// clang-format on

namespace {

// The tangent of the extremum z of x and y: that of the one it is, or half of each. Long chains of maxima
// are full of this: it takes as few equations, and as few constants, as it can.
JvpResult jvp_of_extremum(const Array& z, std::span<const Array> x, std::span<const Tangent> t) {
  const Array is_z[] = {lax::eq(x[0], z), lax::eq(x[1], z)};
  const Array both = lax::bitwise_and(is_z[0], is_z[1]), half = lax::full_like(z, 0.5);
  Tangent terms[] = {Zero{}, Zero{}};
  for (std::size_t i = 0; i < 2; ++i) {
    if (t[i].is_zero()) continue;
    const Array all = lax::convert_element_type(is_z[i], z.dtype(), z.weak_type());
    terms[i] = t[i].array() * lax::select(both, half, all);
  }
  return {{z}, {families::sum_tangents(z.aval(), terms)}};
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// max(x, y); NaN if either is.   d max(x, y) is the tangent of the greater; equals share it.
const Primitive<> max_p{"max", [] {
  auto rules = binary(max_p, {
      .accepts = kOrdered,
      .impl = eager(Op::max),
      .jvp_x = {},
      .lower = emit(&Emitter::max),
  });
  rules.jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
    return jvp_of_extremum(lax::max(x[0], x[1]), x, t);
  };
  return rules;
}};

/// min(x, y); NaN if either is.   d min(x, y) is the tangent of the lesser; equals share it.
const Primitive<> min_p{"min", [] {
  auto rules = binary(min_p, {
      .accepts = kOrdered,
      .impl = eager(Op::min),
      .jvp_x = {},
      .lower = emit(&Emitter::min),
  });
  rules.jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
    return jvp_of_extremum(lax::min(x[0], x[1]), x, t);
  };
  return rules;
}};
// clang-format on

}  // namespace v1
}  // namespace telamon
