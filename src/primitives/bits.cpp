// Functions of the bits of a number: population_count, clz, nextafter, reduce_precision.
#include <cstdint>
#include <string>

#include "primitives/elementwise.hpp"
#include "telamon/special.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

namespace {

int width_of(DType d) { return 8 * static_cast<int>(size_of(d)); }

// Floats of one sign are ordered as their bits: one step away from zero adds 1, one towards it
// subtracts 1. From zero the step is to the smallest number of y's sign.
Scalar emit_nextafter(Emitter& e, Scalar x, Scalar y) {
  const DType d = unsigned_of(x.dtype());
  const Scalar one = e.constant_int(d, 1), zero = e.constant(x.dtype(), 0);
  const Scalar sign = e.shift_left(one, e.constant_int(d, width_of(d) - 1));
  const Scalar bits = e.bitcast(x, d);
  const Scalar positive = e.compare(Compare::eq, e.and_(bits, sign), e.constant_int(d, 0));
  const Scalar away = e.not_(e.xor_(e.compare(Compare::lt, x, y), positive));
  const Scalar stepped = e.select(away, e.add(bits, one), e.sub(bits, one));
  const Scalar from_zero = e.or_(e.and_(e.bitcast(y, d), sign), one);
  const Scalar moved = e.select(e.compare(Compare::eq, x, zero), from_zero, stepped);
  const Scalar result = e.select(e.compare(Compare::eq, x, y), y, e.bitcast(moved, x.dtype()));
  const Scalar is_nan = e.or_(e.compare(Compare::ne, x, x), e.compare(Compare::ne, y, y));
  return e.select(is_nan, e.add(x, y), result);
}

// ---- reduce_precision --------------------------------------------------------------------------
struct FloatFormat {
  int exponent_bits, mantissa_bits;
};
FloatFormat format_of(DType d) {
  switch (d) {
    case DType::f16: return {5, 10};
    case DType::bf16: return {8, 7};
    case DType::f32: return {8, 23};
    default: return {11, 52};
  }
}

void check_reduced(const ReducePrecisionParams& p) {
  if (p.exponent_bits >= 1 && p.mantissa_bits >= 0) return;
  throw ValueError("reduce_precision needs exponent_bits >= 1 and mantissa_bits >= 0, got " +
                   std::to_string(p.exponent_bits) + " and " + std::to_string(p.mantissa_bits));
}

Array constant(const Array& like, std::uint64_t bits) {
  return lax::broadcast(lax::scalar(Array(bits), like.dtype()), like.shape());
}

// Rounds the mantissa to nearest even by an integer addition, then sends exponents beyond the range
// to infinity and those below it to zero.
Array reduced(const ReducePrecisionParams& p, const Array& x) {
  check_reduced(p);
  const FloatFormat format = format_of(x.dtype());
  const DType d = unsigned_of(x.dtype());
  const Array original = lax::bitcast_convert_type(x, d);
  Array bits = original;
  if (p.mantissa_bits < format.mantissa_bits) {
    const int dropped = format.mantissa_bits - p.mantissa_bits;
    const std::uint64_t last = std::uint64_t{1} << dropped;
    const Array places = constant(bits, static_cast<std::uint64_t>(dropped));
    const Array odd = lax::bitwise_and(lax::shift_right_logical(bits, places), constant(bits, 1));
    bits = lax::add(bits, lax::add(odd, constant(bits, (last >> 1) - 1)));
    bits = lax::bitwise_and(bits, lax::bitwise_not(constant(bits, last - 1)));
  }
  if (p.exponent_bits < format.exponent_bits) {
    const std::uint64_t one = 1, bias = (one << (format.exponent_bits - 1)) - 1,
                        reach = (one << (p.exponent_bits - 1)) - 1;
    const std::uint64_t infinity = ((one << format.exponent_bits) - 1) << format.mantissa_bits;
    const Array exponent = lax::bitwise_and(bits, constant(bits, infinity));
    const Array sign = lax::bitwise_and(bits, constant(bits, one << (width_of(d) - 1)));
    const Array above = lax::gt(exponent, constant(bits, (bias + reach) << format.mantissa_bits));
    const Array below = lax::le(exponent, constant(bits, (bias - reach) << format.mantissa_bits));
    bits = lax::select(above, lax::bitwise_or(sign, constant(bits, infinity)), bits);
    bits = lax::select(below, sign, bits);
  }
  const Array rounded = lax::bitcast_convert_type(bits, x.dtype());
  return lax::convert_element_type(lax::select(lax::ne(x, x), x, rounded), x.dtype(),
                                   x.weak_type());
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// population_count(x): the number of one bits
const Primitive<> population_count_p{"population_count", [] { return unary(population_count_p, {
    .accepts = kInts,
    .impl = eager(Op::population_count),
    .lower = element([](Emitter& e, Scalar x) { return e.math("population_count", x); })}); }};

/// clz(x): the number of zero bits above the highest one bit; the width for 0
const Primitive<> clz_p{"clz", [] { return unary(clz_p, {
    .accepts = kInts,
    .impl = eager(Op::clz),
    .lower = element([](Emitter& e, Scalar x) { return e.math("clz", x); })}); }};

/// nextafter(x, y): the float next to x towards y; y if they are equal
const Primitive<> nextafter_p{"nextafter", [] { return binary(nextafter_p, {
    .impl = eager(Op::nextafter),
    .lower = element(emit_nextafter),
    .exempt = {{"jvp", "a step of the representation, not a function of real numbers"}}}); }};

/// reduce_precision[exponent_bits, mantissa_bits](x): x rounded to a float of that format.
/// d reduce_precision(x) = reduce_precision(dx)
const Primitive<ReducePrecisionParams> reduce_precision_p{"reduce_precision", [] {
  return unary(reduce_precision_p, {
      .jvp = [](const ReducePrecisionParams& p, Array dx, Array, Array) {
        return reduce_precision_p.bind1(p, {dx});
      },
      .transpose = [](const ReducePrecisionParams& p, Array ct) {
        return reduce_precision_p.bind1(p, {ct});
      },
      .lower = ops<ReducePrecisionParams>(
          [](const ReducePrecisionParams& p, std::span<const Array> x) {
            return Arrays{reduced(p, x[0])};
          }),
  });
}};
// clang-format on

}  // namespace v1
}  // namespace telamon
