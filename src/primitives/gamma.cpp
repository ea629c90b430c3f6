// The logarithm of the gamma function and its derivative.
//
// Lanczos (1964): for x >= 1/2 and z = x - 1,
//   log gamma(x) = (z + 1/2) log t - t + log sqrt(2 pi) + log s,   t = z + g + 1/2
//   s = c0 + sum_k c_k / (z + k)
// with g = 7 and nine coefficients (Godfrey's): about 15 digits. Smaller x by reflection:
//   log gamma(x) = log pi - log |sin(pi x)| - log gamma(1 - x).
#include <array>
#include <cmath>
#include <numbers>

#include "primitives/elementwise.hpp"
#include "telamon/special.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

namespace {

constexpr double kG = 7;
constexpr double kBase = 0.99999999999980993227684700473478;
constexpr std::array<double, 8> kCoefficients = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};

/// 16-bit floats are computed in f32. The result is weakly typed when x is.
template <class F>
Array in_enough_precision(const Array& x, const F& f) {
  const DType wide = size_of(x.dtype()) > 2 ? x.dtype() : DType::f32;
  return lax::convert_element_type(f(lax::convert_element_type(x, wide)), x.dtype(), x.weak_type());
}

Array where(const Array& condition, const Array& x, const Array& y) {
  return lax::select(condition, x, y);
}
Array less(const Array& x, double bound) { return lax::lt(x, lax::full_like(x, bound)); }

/// log t, accurate for small z.
Array log_of_t(const Array& z) {
  return std::log(kG + 0.5) + lax::log1p(lax::full_like(z, 1 / (kG + 0.5)) * z);
}

/// |x| to the nearest integer, in [0, 1/2]: |sin(pi x)| = sin(pi distance).
Array distance_to_integer(const Array& x) {
  const Array fraction = lax::abs(x) - lax::floor(lax::abs(x));
  return where(less(fraction, 0.5), fraction, 1 - fraction);
}

Array log_gamma(const Array& x) {
  const Array reflect = less(x, 0.5);
  const Array z = where(reflect, -x, x - 1);
  Array s = lax::full_like(x, kBase);
  for (std::size_t k = 0; k < kCoefficients.size(); ++k) {
    s = s + kCoefficients[k] / (z + static_cast<double>(k + 1));
  }
  const Array log_t = log_of_t(z), t = z + (kG + 0.5);
  // (z + 1/2 - t / log t) log t rather than (z + 1/2) log t - t: no overflow before the result.
  const Array y =
      (z + 0.5 - t / log_t) * log_t + 0.5 * std::log(2 * std::numbers::pi) + lax::log(s);
  const Array log_sine = lax::log(lax::sin(std::numbers::pi * distance_to_integer(x)));
  const Array reflected =  // at the poles the sine is 0
      where(lax::is_finite(log_sine), std::log(std::numbers::pi) - log_sine - y, -log_sine);
  const Array result = where(reflect, reflected, y);
  const Array infinite = lax::eq(lax::abs(x), lax::full_like(x, INFINITY));
  return where(infinite, lax::full_like(x, INFINITY), result);
}

// The derivative of the above, term by term; pi cot(pi x) for the reflection.
Array psi(const Array& x) {
  const Array reflect = less(x, 0.5);
  const Array z = where(reflect, -x, x - 1);
  Array numerator = lax::zeros_like(x), denominator = lax::full_like(x, kBase);
  for (std::size_t k = 0; k < kCoefficients.size(); ++k) {
    const Array shifted = z + static_cast<double>(k + 1);
    numerator = numerator - kCoefficients[k] / lax::square(shifted);
    denominator = denominator + kCoefficients[k] / shifted;
  }
  const Array y = log_of_t(z) + numerator / denominator - kG / (z + (kG + 0.5));
  const Array angle = std::numbers::pi * (x + lax::abs(lax::floor(x + 0.5)));
  const Array reflected = y - std::numbers::pi * lax::cos(angle) / lax::sin(angle);
  const Array pole = lax::bitwise_and(lax::le(x, lax::zeros_like(x)), lax::eq(x, lax::floor(x)));
  return where(pole, lax::full_like(x, NAN), where(reflect, reflected, y));
}

// psi'(x): upwards by psi'(x) = 1/x^2 + psi'(x + 1), then the asymptotic series in 1/x with the
// Bernoulli numbers; pi^2 / sin^2(pi x) - psi'(1 - x) below 1/2 (Abramowitz, Stegun 6.4).
Array psi_slope(const Array& x) {
  constexpr int kSteps = 10;
  constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6};
  const Array reflect = less(x, 0.5);
  Array y = where(reflect, 1 - x, x);
  Array sum = lax::zeros_like(x);
  for (int i = 0; i < kSteps; ++i) {
    sum = sum + lax::integer_pow(y, -2);
    y = y + 1;
  }
  const Array inverse = 1 / y, square = lax::square(inverse);
  Array series = lax::zeros_like(x);
  for (std::size_t k = std::size(kBernoulli); k-- > 0;) series = (series + kBernoulli[k]) * square;
  const Array above = sum + inverse * (1 + 0.5 * inverse + series);
  const Array sine = lax::sin(std::numbers::pi * (x + lax::abs(lax::floor(x + 0.5))));
  const Array below = std::numbers::pi * std::numbers::pi / lax::square(sine) - above;
  return where(reflect, below, above);
}

Array trigamma(const Array& x) {
  return lax::convert_element_type(in_enough_precision(x, psi_slope), x.dtype());
}

Lowering composed(Array (*f)(const Array&)) {
  return ops<NoParams>([f](const NoParams&, std::span<const Array> x) {
    return Arrays{in_enough_precision(x[0], f)};
  });
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// lgamma(x) = log |gamma(x)|.   d lgamma(x) = digamma(x) dx
const Primitive<> lgamma_p{"lgamma", [] { return unary(lgamma_p, {
    .jvp = [](Array dx, Array, Array x) { return dx * digamma_p.bind1({}, {x}); },
    .lower = composed(log_gamma),
}); }};

/// digamma(x) = d log gamma(x) / dx; NaN at 0, -1, -2, ...   d digamma(x) = trigamma(x) dx
const Primitive<> digamma_p{"digamma", [] { return unary(digamma_p, {
    .jvp = [](Array dx, Array, Array x) { return dx * trigamma(x); },
    .lower = composed(psi),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
