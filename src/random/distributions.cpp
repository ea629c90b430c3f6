// Distributions: what the random words are turned into. Every step is JAX's, so that the numbers are.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "core/trace.hpp"
#include "random/keys.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/random.hpp"

namespace telamon {
inline namespace v1 {
namespace random {

namespace {

/// How the floats of a dtype are made from bits.
struct FloatFormat {
  DType dtype;
  DType bits;              ///< unsigned, of the same size
  int mantissa;            ///< bits of the fraction
  std::uint64_t one;       ///< the bits of 1.0
  double below_minus_one;  ///< the number after -1 toward 0
  double tiny;             ///< the smallest normal number
};
constexpr FloatFormat kFormats[] = {
    {DType::f32, DType::u32, 23, 0x3f800000u, -1 + 0x1p-24, 0x1p-126},
    {DType::f64, DType::u64, 52, 0x3ff0000000000000u, -1 + 0x1p-53, 0x1p-1022},
};

const FloatFormat& float_format(const char* name, DType dtype) {
  for (const FloatFormat& f : kFormats) {
    if (f.dtype == dtype) return f;
  }
  throw TypeError(std::string("random::") + name + " needs dtype f32 or f64, got " +
                  std::string(short_name(dtype)));
}

/// Whether it is known that high - low is a number of the dtype.
bool have_distance(const Array& low, const Array& high, DType dtype) {
  const auto value = [](const Array& x) -> std::optional<double> {
    const std::optional<Array> known = detail::known_value(x);
    if (!known || known->ndim() != 0 || is_complex(known->dtype())) return std::nullopt;
    return known->item<double>();
  };
  const std::optional<double> from = value(low), to = value(high);
  if (!from || !to) return false;
  // Half: what the bounds and their difference lose by rounding does not matter then.
  const double most =
      dtype == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  return std::abs(*to - *from) <= most / 2;
}

/// A bound of a distribution, in its dtype and shape.
Array bound(const Array& value, DType dtype, const Shape& shape) {
  return broadcast_to(value.astype(dtype), shape);
}

}  // namespace

// The fraction gets random bits, the exponent that of 1: numbers u in [1, 2), less 1. Then, as in JAX,
// u (high - low) + low, and where the difference overflows, low (1 - u) + high u.
Array uniform(const Operand& key, const Shape& shape, std::optional<DType> dtype,
              const Operand& minval, const Operand& maxval) {
  return detail::in_call("random::uniform", {&key, &minval, &maxval}, [&] {
    const FloatFormat& format = float_format("uniform", dtype.value_or(default_float()));
    check_key("uniform", key.array);
    detail::check_dense("random::uniform", {shape, format.dtype});
    const Array words = bits(key, shape, format.bits);
    const int shift = 8 * static_cast<int>(size_of(format.bits)) - format.mantissa;
    const Array fraction = lax::shift_right_logical(words, lax::full_like(words, shift));
    const Array exponent = lax::broadcast(lax::scalar(format.one, format.bits), shape);
    const Array in_1_2 =
        lax::bitcast_convert_type(lax::bitwise_or(fraction, exponent), format.dtype);
    const Array one = lax::ones_like(in_1_2), in_0_1 = lax::sub(in_1_2, one);
    const Array low = bound(minval.array, format.dtype, shape),
                high = bound(maxval.array, format.dtype, shape);
    const Array distance = lax::sub(high, low);
    Array between = lax::add(lax::mul(in_0_1, distance), low);
    if (!have_distance(minval.array, maxval.array, format.dtype)) {
      const Array mean = lax::add(lax::mul(low, lax::sub(one, in_0_1)), lax::mul(high, in_0_1));
      between = lax::select(lax::is_finite(distance), between, mean);
    }
    // Rounding may bring the sum below the lower bound, hence the maximum.
    return lax::max(low, between);
  });
}

// sqrt(2) erf_inv(u), u uniform in (-1, 1).
Array normal(const Operand& key, const Shape& shape, std::optional<DType> dtype) {
  return detail::in_call("random::normal", {&key}, [&] {
    check_key("normal", key.array);
    const FloatFormat& format = float_format("normal", dtype.value_or(default_float()));
    detail::check_dense("random::normal", {shape, format.dtype});
    const Array u = uniform(key, shape, format.dtype, format.below_minus_one, 1.0);
    return lax::mul(lax::full_like(u, std::sqrt(2.0)), lax::erf_inv(u));
  });
}

namespace {

/// The largest and the smallest number of an integer dtype, as a scalar of it.
Array limit_of(DType dtype, bool largest) {
  const unsigned width = 8 * static_cast<unsigned>(size_of(dtype));
  if (is_unsigned_integer(dtype)) {
    const std::uint64_t all_ones = ~std::uint64_t{0} >> (64 - width);
    return lax::scalar(largest ? all_ones : std::uint64_t{0}, dtype);
  }
  const auto most = static_cast<std::int64_t>(~std::uint64_t{0} >> (65 - width));
  return lax::scalar(largest ? most : -most - 1, dtype);
}

/// x in another integer dtype, at that dtype's nearest limit where it does not fit.
Array convert_and_clip(const Array& x, DType dtype) {
  const bool unsigned_from = is_unsigned_integer(x.dtype()),
             unsigned_to = is_unsigned_integer(dtype);
  // Whether dtype reaches as far up (down) as x's own: then nothing is to be clipped there.
  const bool reaches_up = size_of(dtype) > size_of(x.dtype()) ||
                          (size_of(dtype) == size_of(x.dtype()) && (unsigned_to || !unsigned_from));
  const bool reaches_down = unsigned_from || (!unsigned_to && size_of(dtype) >= size_of(x.dtype()));
  Array out = x;
  if (!reaches_up) out = minimum(out, lax::convert_element_type(limit_of(dtype, true), x.dtype()));
  if (!reaches_down)
    out = maximum(out, lax::convert_element_type(limit_of(dtype, false), x.dtype()));
  return lax::convert_element_type(out, dtype);
}

Array integer_bound(const Array& x) {
  if (!is_integer(x.dtype()))
    throw TypeError("random::randint needs integer bounds, got " + x.aval().to_string());
  return asarray(x);
}

/// ValueError when a bound, as far as it is known, is no number of the dtype; `beyond` is 1 where the
/// one after the largest is fine too. (Traced bounds are clipped, as in JAX.)
void check_in_range(const char* what, const Array& bound, DType dtype, int beyond) {
  const std::optional<Array> value = detail::known_value(bound);
  if (!value || value->size() == 0) return;
  // Exact: the limits of a dtype of at most 32 bits, and the halves of 64-bit numbers, are doubles.
  const int width = 8 * static_cast<int>(size_of(dtype)) - (is_unsigned_integer(dtype) ? 0 : 1);
  const double largest = std::ldexp(1.0, width) - 1 + beyond;
  const double smallest = is_unsigned_integer(dtype) ? 0 : -std::ldexp(1.0, width);
  for (const double v : value->to_vector<double>()) {
    if (v >= smallest && v <= largest) continue;
    throw ValueError("random::randint: " + std::string(what) + " is out of the range of " +
                     std::string(short_name(dtype)) + ", got " + value->to_string() +
                     "; pass a wider dtype");
  }
}

/// randint in a dtype of 32 or 64 bits. It draws twice the bits of the dtype, modulo the size of the
/// range: the bias is below size / 2^bits.
Array wide_randint(const Array& key, const Shape& shape, const Array& minval, const Array& maxval,
                   DType d) {
  const Array beyond =
      broadcast_to(maxval > convert_and_clip(limit_of(d, true), maxval.dtype()), shape);
  const Array low = broadcast_to(convert_and_clip(minval, d), shape);
  const Array high = broadcast_to(convert_and_clip(maxval, d), shape);
  const DType word = size_of(d) == 8 ? DType::u64 : DType::u32;
  const Array keys = split(key);
  const Array higher = bits(lax::index_in_dim(keys, 0), shape, word);
  const Array lower = bits(lax::index_in_dim(keys, 1), shape, word);

  // An empty range always gives minval. A range that includes the largest number of the dtype has
  // one element more than max - min; the full range wraps to a size of 0, and rem(x, 0) == x.
  const Array empty = lax::le(high, low);
  const Array one = lax::full(shape, word, 1);
  Array span = lax::select(empty, one, lax::convert_element_type(lax::sub(high, low), word));
  const Array widen = lax::bitwise_and(beyond, lax::bitwise_not(empty));
  span = lax::select(widen, lax::add(span, one), span);

  // (higher * 2^bits + lower) mod span, with 2^bits = (2^(bits/2))^2.
  const Array half = lax::full(shape, word, word == DType::u64 ? 0x1p32 : 0x1p16);
  Array multiplier = lax::rem(half, span);
  multiplier = lax::rem(lax::mul(multiplier, multiplier), span);
  const Array offset =
      lax::add(lax::mul(lax::rem(higher, span), multiplier), lax::rem(lower, span));
  return lax::add(low, lax::convert_element_type(lax::rem(offset, span), d));
}

}  // namespace

Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              std::optional<DType> dtype) {
  return detail::in_call("random::randint", {&key, &minval, &maxval}, [&] {
    const DType d = dtype.value_or(default_int());
    if (!is_integer(d))
      throw TypeError("random::randint needs an integer dtype, got " + std::string(short_name(d)));
    check_key("randint", key.array);
    detail::check_dense("random::randint", {shape, d});
    const Array low = integer_bound(minval.array), high = integer_bound(maxval.array);
    check_in_range("minval", low, d, 0);
    check_in_range("maxval", high, d, 1);
    if (size_of(d) >= 4) return wide_randint(key.array, shape, low, high, d);
    // Narrow integers are drawn as i32, against the bias.
    const Array smallest = lax::convert_element_type(limit_of(d, false), DType::i32);
    const Array largest = lax::convert_element_type(limit_of(d, true), DType::i32);
    const Array from = clip(convert_and_clip(low, DType::i32), smallest, largest);
    const Array to = clip(convert_and_clip(high, DType::i32), smallest, largest + 1);
    return lax::convert_element_type(wide_randint(key.array, shape, from, to, DType::i32), d);
  });
}

Array bernoulli(const Operand& key, const Operand& p, const std::optional<Shape>& shape) {
  return detail::in_call("random::bernoulli", {&key, &p}, [&] {
    check_key("bernoulli", key.array);
    const DType own = p.array.dtype();
    const DType dtype = is_float(own) && !p.array.weak_type() ? own : default_float();
    const Shape s = shape.value_or(p.array.shape());
    detail::check_dense("random::bernoulli", {s, dtype});
    return lax::lt(uniform(key, s, dtype), bound(p.array, dtype, s));
  });
}

Array gumbel(const Operand& key, const Shape& shape, std::optional<DType> dtype) {
  return detail::in_call("random::gumbel", {&key}, [&] {
    check_key("gumbel", key.array);
    const FloatFormat& format = float_format("gumbel", dtype.value_or(default_float()));
    detail::check_dense("random::gumbel", {shape, format.dtype});
    const Array u = uniform(key, shape, format.dtype, format.tiny, 1.0);
    return lax::neg(lax::log(lax::neg(lax::log(u))));
  });
}

// The largest of logits + Gumbel noise falls on i with probability softmax(logits)[i].
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis,
                  const std::optional<Shape>& shape) {
  return detail::in_call("random::categorical", {&key, &logits}, [&] {
    const Array& x = logits.array;
    check_key("categorical", key.array);
    float_format("categorical", x.dtype());
    if (x.ndim() == 0 || axis < -x.ndim() || axis >= x.ndim()) {
      throw IndexError("random::categorical: axis " + std::to_string(axis) +
                       " is out of bounds for " + x.aval().to_string());
    }
    const auto from_left = static_cast<std::size_t>(axis < 0 ? axis + x.ndim() : axis);
    Shape rest = x.shape();
    rest.erase(from_left);
    Shape noise = shape.value_or(rest);
    const int leading = noise.ndim() - rest.ndim();
    if (leading < 0 || !std::equal(rest.begin(), rest.end(), noise.begin() + leading)) {
      throw ValueError("random::categorical: the shape " + noise.to_string() +
                       " must end with that of the logits less their axis, " + rest.to_string());
    }
    if (x.shape()[from_left] == 0) {
      throw ValueError("random::categorical: there is nothing to choose from along axis " +
                       std::to_string(axis) + " of " + x.aval().to_string());
    }
    noise.insert(static_cast<std::size_t>(leading) + from_left, x.shape()[from_left]);
    return argmax(gumbel(key, noise, x.dtype()) + x,
                  leading + static_cast<std::int64_t>(from_left));
  });
}

namespace {

// Rounds of a stable sort by random words. Words may be equal; after r rounds two elements have
// equal words in all of them with probability 2^-32r, so r = ceil(3 log(n) / log(2^32)) suffices.
Array shuffle(const Array& key, const Array& x) {
  const auto n = static_cast<double>(std::max<std::int64_t>(1, x.size()));
  const double rounds =
      std::ceil(3 * std::log(n) / std::log(std::numeric_limits<std::uint32_t>::max()));
  Array current = key, out = x;
  for (int i = 0; i < static_cast<int>(rounds); ++i) {
    const Array keys = split(current);
    current = lax::index_in_dim(keys, 0);
    const Array pair[] = {bits(lax::index_in_dim(keys, 1), x.shape()), out};
    out = lax::sort(pair, 0, 1)[1];
  }
  return out;
}

}  // namespace

Array permutation(const Operand& key, const Operand& x, Axis axis) {
  return detail::in_call("random::permutation", {&key, &x}, [&] {
    check_key("permutation", key.array);
    const Array& a = x.array;
    if (a.ndim() == 0) {
      if (!is_integer(a.dtype())) {
        throw TypeError("random::permutation needs an integer or an array, got " +
                        a.aval().to_string());
      }
      const std::optional<Array> n = detail::known_value(a);
      if (n && is_signed_integer(n->dtype()) && n->item<std::int64_t>() < 0)
        throw ValueError("random::permutation: a number of elements must not be negative, got " +
                         n->to_string());
      return shuffle(key.array, arange(a, default_int()));
    }
    if (axis < -a.ndim() || axis >= a.ndim()) {
      throw IndexError("random::permutation: axis " + std::to_string(axis) +
                       " is out of bounds for " + a.aval().to_string());
    }
    if (a.ndim() == 1) return shuffle(key.array, asarray(a));
    return take(a, shuffle(key.array, arange(a.shape(axis), default_int())), axis);
  });
}

}  // namespace random
}  // namespace v1
}  // namespace telamon
