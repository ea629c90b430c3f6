// Accuracy of the vector math functions, for every instruction set of this machine: against double
// (for f32) and long double (for f64) at samples of all bit patterns and at special operands. The
// long tests take every f32.
#include "runtime/math/vector_math.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "runtime/thread_pool.hpp"

namespace {

using namespace telamon;
using runtime::Isa;

using Wide = long double;

Wide erf_inv_reference(Wide x) {
  if (!(std::fabs(x) <= 1)) return NAN;
  if (std::fabs(x) == 1) return std::copysign(Wide(INFINITY), x);
  if (x == 0) return x;
  // Newton with Halley's correction on erfc(y) = 1 - |x|, from the first term of each expansion.
  const Wide q = 1 - std::fabs(x), pi = 3.14159265358979323846264338327950288L;
  Wide y = q > 0.3L ? std::fabs(x) * std::sqrt(pi) / 2 : std::sqrt(-std::log(q * (2 - q)));
  for (int i = 0; i < 40; ++i) {
    const Wide error = q > 0.5L ? std::fabs(x) - std::erf(y) : std::erfc(y) - q;
    const Wide step = error * std::sqrt(pi) / 2 * std::exp(y * y);
    y += step / (1 - y * step);
  }
  return std::copysign(y, x);
}

/// The functions of one operand that the C++ library has, in a type of its floats.
template <class T>
const std::map<std::string, T (*)(T)>& library_functions() {
  static const std::map<std::string, T (*)(T)> functions = {
#define ONE(f) {#f, [](T a) -> T { return std::f(a); }}
      ONE(acos),
      ONE(acosh),
      ONE(asin),
      ONE(asinh),
      ONE(atan),
      ONE(atanh),
      ONE(cbrt),
      ONE(cos),
      ONE(cosh),
      ONE(erf),
      ONE(erfc),
      ONE(exp),
      ONE(exp2),
      ONE(expm1),
      ONE(log),
      ONE(log1p),
      ONE(sin),
      ONE(sinh),
      ONE(tan),
      ONE(tanh),
#undef ONE
      {"logistic", [](T a) -> T { return 1 / (1 + std::exp(-a)); }},
  };
  return functions;
}

Wide reference(const std::string& name, Wide x, Wide y) {
  if (name == "rem") return std::fmod(x, y);
  if (name == "atan2") return std::atan2(x, y);
  if (name == "pow") return std::pow(x, y);
  return name == "erf_inv" ? erf_inv_reference(x) : library_functions<Wide>().at(name)(x);
}

/// The distance of neighbours around x: a unit in the last place.
template <class T>
Wide ulp_at(T x) {
  x = std::fabs(x);
  if (x == std::numeric_limits<T>::max()) x = std::nextafter(x, T(0));
  return Wide(std::nextafter(x, std::numeric_limits<T>::infinity())) - Wide(x);
}

/// |got - want| in ULPs; 0 if both are the same special value, huge if only one is.
template <class T>
double error_in_ulps(T got, Wide want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(got) || std::isnan(rounded)) {
    return std::isnan(got) && std::isnan(rounded) ? 0 : 1e30;
  }
  if (std::isinf(got) || std::isinf(rounded)) {
    // The largest finite number is within a rounding of infinity.
    if (got == rounded) return 0;
    const T limit = std::numeric_limits<T>::max();
    return std::fabs(got) >= limit && std::fabs(rounded) >= limit &&
                   std::signbit(got) == std::signbit(rounded)
               ? 1
               : 1e30;
  }
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : 1e30;
  return static_cast<double>(std::fabs(Wide(got) - want) / ulp_at(rounded));
}

template <class T> using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// `count` bit patterns at equal distances, then the neighbourhoods of numbers that matter.
template <class T>
std::vector<T> samples(int count) {
  std::vector<T> xs;
  const BitsOf<T> step = std::numeric_limits<BitsOf<T>>::max() / static_cast<BitsOf<T>>(count) | 1;
  for (int i = 0; i < count; ++i) xs.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(step * i)));
  std::mt19937_64 random(7);
  for (double range : {1.0, 2.0, 10.0, 100.0, 750.0}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < count / 2; ++i) xs.push_back(static_cast<T>(uniform(random)));
  }
  const double corners[] = {0.5,       1,          2,         88.722839,  87.336544,  103.97208,
                            709.78271, 708.39642,  745.13322, 128,        126,        150,
                            149,       1024,       1022,      1075,       1074,       9.01,
                            19.06,     0.34657359, 1.0397208, 0.70710678, 1.41421356, 1e-4,
                            1e-8,      3.9,        5.9,       0.41421356, 2.41421356, 1.57079633};
  for (double corner : corners) {
    T up = static_cast<T>(corner), down = up;
    for (int i = 0; i < 40; ++i) {
      for (T x : {up, -up, down, -down}) xs.push_back(x);
      up = std::nextafter(up, std::numeric_limits<T>::infinity());
      down = std::nextafter(down, T(0));
    }
  }
  using Limits = std::numeric_limits<T>;
  for (T x : {T(0), Limits::infinity(), Limits::quiet_NaN(), Limits::min(), Limits::max(),
              Limits::denorm_min(), Limits::min() / 2, Limits::epsilon()}) {
    xs.push_back(x);
    xs.push_back(-x);
  }
  return xs;
}

template <class T>
void check_accuracy(const math::MathFunction& function, Isa isa, int count) {
  std::vector<T> xs = samples<T>(count), ys(xs.size());
  if (function.arity == 2) {
    // Every operand with a random other one, half of them of moderate size, and all pairs of special
    // operands.
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal(0, 20);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ys[i] = i % 2 ? static_cast<T>(normal(random)) : xs[random() % xs.size()];
      if (i % 4 == 1) xs[i] = static_cast<T>(std::exp(normal(random) / 10));
    }
    const T special[] = {0,
                         T(-0.0),
                         1,
                         -1,
                         2,
                         -2,
                         3,
                         -3,
                         T(0.5),
                         T(-0.5),
                         INFINITY,
                         -INFINITY,
                         NAN,
                         std::numeric_limits<T>::max(),
                         std::numeric_limits<T>::denorm_min(),
                         -std::numeric_limits<T>::denorm_min()};
    for (T x : special) {
      for (T y : special) {
        xs.push_back(x);
        ys.push_back(y);
      }
    }
  }
  std::vector<T> got(xs.size());
  math::run(function, dtype_of<T>, isa, static_cast<std::int64_t>(xs.size()), xs.data(), ys.data(),
            got.data());
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double error = error_in_ulps(got[i], reference(function.name, xs[i], ys[i]));
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  const double bound = sizeof(T) == 4 ? function.ulp_f32 : function.ulp_f64;
  const std::string label = std::string(function.name) + "_" +
                            std::string(short_name(dtype_of<T>)) + "_" +
                            std::string(runtime::isa_name(isa));
  ::testing::Test::RecordProperty(label, std::to_string(worst));
  EXPECT_LE(worst, bound) << label << "(" << xs[at] << ", " << ys[at] << ") = " << got[at]
                          << ", want " << reference(function.name, xs[at], ys[at]);
}

template <class Body>
void for_each_isa(const Body& body) {
  for (int i = 0; i <= static_cast<int>(runtime::supported_isa()); ++i) body(static_cast<Isa>(i));
}

class VectorMath : public ::testing::TestWithParam<const char*> {};

TEST_P(VectorMath, IsWithinItsBoundAtEvenlySpacedF32AndCorners) {
  const auto* function = math::find_math_function(GetParam());
  ASSERT_NE(function, nullptr);
  for_each_isa([&](Isa isa) { check_accuracy<float>(*function, isa, 1 << 16); });
}

TEST_P(VectorMath, IsWithinItsBoundAtEvenlySpacedF64AndCorners) {
  const auto* function = math::find_math_function(GetParam());
  ASSERT_NE(function, nullptr);
  for_each_isa([&](Isa isa) { check_accuracy<double>(*function, isa, 1 << 15); });
}

template <class T>
void expect_same_alone(const math::MathFunction& function, Isa isa) {
  const std::vector<T> xs = samples<T>(512);
  const DType dtype = dtype_of<T>;
  std::vector<T> together(xs.size());
  math::run(function, dtype, isa, static_cast<std::int64_t>(xs.size()), xs.data(), xs.data(),
            together.data());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    T alone;
    math::run(function, dtype, isa, 1, &xs[i], &xs[i], &alone);
    if (std::isnan(alone) && std::isnan(together[i])) continue;
    ASSERT_EQ(std::bit_cast<BitsOf<T>>(alone), std::bit_cast<BitsOf<T>>(together[i]))
        << function.name << " of " << xs[i] << " in " << short_name(dtype);
  }
}
TEST_P(VectorMath, GivesALaneTheSameResultInAnyCompany) {
  const auto& function = *math::find_math_function(GetParam());
  for_each_isa([&](Isa isa) {
    expect_same_alone<float>(function, isa);
    expect_same_alone<double>(function, isa);
  });
}

/// For each row of the table of 1 / pi, that is, for every 32 exponents, the angle next to a multiple of pi / 2.
constexpr double kNextToMultiples[] = {
    0x1.7512069b7430dp47,  0x1.782b7a20df6d4p67,  0x1.ae04fdb542be8p113, 0x1.504cac51f1eafp131,
    0x1.0539b48d14c55p182, 0x1.e7e44a78ac18cp197, 0x1.b2196364d750bp253, 0x1.0809c95f020f7p276,
    0x1.c45cd11154dfdp295, 0x1.979b4570b7a0ep341, 0x1.8c091fdf23d65p363, 0x1.e3ca9b6c655cbp408,
    0x1.6dd6b29edc33ap421, 0x1.ac593e47e035bp458, 0x1.b88cbb4e32576p487, 0x1.1fab41ebe9846p535,
    0x1.8b28676cdcc5bp555, 0x1.4c96c11134d36p577, 0x1.83009e2e9e2ebp614, 0x1.41c5fceb2921dp661,
    0x1.db41f3cb71d7bp680, 0x1.8c50c5644903fp725, 0x1.d5c8d09f26ebfp759, 0x1.6e8d778c94d66p794,
    0x1.15652b043fd63p813, 0x1.6ac5b262ca1ffp849, 0x1.a5de46db774e4p872, 0x1.fce36f3ebfe43p928,
    0x1.4117573397d42p939, 0x1.e009c53148be1p991, 0x1.61a3db8c8d129p1021};

/// Angles of all sizes, half of them as close to a multiple of pi / 2 as long double says, and those that are known to
/// be the closest (Muller, Elementary Functions, 11.3.2).
std::vector<double> angles() {
  std::vector<double> xs{6381956970095103 * 0x1p797,
                         5319372648326541 * 0x1p-33,
                         0x1.6ac5b262ca1ffp+849,
                         0x1.ce7ab8ba9a3p+33,
                         0x1p40,
                         0x1.0000000000001p40,
                         0x1.fffffffffffffp1023,
                         0x1.921fb54442d18p+1};
  xs.insert(xs.end(), std::begin(kNextToMultiples), std::end(kNextToMultiples));
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  for (int i = 0; i < 20'000; ++i) {
    xs.push_back(std::ldexp(mantissa(random), static_cast<int>(random() % 1023)));
    const Wide turns = static_cast<Wide>(random() >> (random() % 64));
    xs.push_back(static_cast<double>(turns * (std::numbers::pi_v<Wide> / 2)));
  }
  return xs;
}
template <class T>
void expect_angles_are_reduced(const std::vector<T>& xs) {
  std::vector<T> got(xs.size());
  for (const char* name : {"sin", "cos", "tan"}) {
    const auto& function = *math::find_math_function(name);
    const double bound = sizeof(T) == 4 ? function.ulp_f32 : function.ulp_f64;
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > runtime::supported_isa()) continue;
      math::run(function, dtype_of<T>, isa, static_cast<std::int64_t>(xs.size()), xs.data(),
                xs.data(), got.data());
      for (std::size_t i = 0; i < xs.size(); ++i)
        ASSERT_LE(error_in_ulps(got[i], reference(name, xs[i], 0)), bound)
            << name << " of " << std::hexfloat << xs[i] << " by " << runtime::isa_name(isa);
    }
  }
}
TEST(Angles, AreReducedWhateverTheirSize) {
  expect_angles_are_reduced(angles());
  // In f32, those next to multiples of pi / 2 on both sides of where the way of reduction changes.
  std::vector<float> singles;
  for (int turns = 1 << 14; turns < 1 << 18; ++turns)
    singles.push_back(static_cast<float>(turns * (std::numbers::pi / 2)));
  for (const double x : angles()) singles.push_back(static_cast<float>(std::fmod(x, 3e38)));
  expect_angles_are_reduced(singles);
}

/// Pairs whose quotients are of every size; a few bits of the divisor make many of them whole or nearly so.
template <class T>
void expect_remainders_as_in_library() {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> mantissa(1, 2);
  constexpr int kLeast = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                kMost = std::numeric_limits<T>::max_exponent - 1;
  std::uniform_int_distribution<int> exponent(kLeast, kMost), distance(-3, 60);
  std::vector<T> xs, ys;
  for (int i = 0; i < 200'000; ++i) {
    const int e = exponent(random);
    const int f = i % 2 == 0 ? exponent(random) : std::max(e - distance(random), kLeast);
    const int bits = static_cast<int>(random() % 12);
    T y = static_cast<T>(std::ldexp(mantissa(random), f));
    if (i % 3 == 0) y = static_cast<T>(std::ldexp(std::ldexp(1, bits) + 1, f - bits));
    T x = static_cast<T>(std::ldexp(mantissa(random), e));
    if (i % 5 == 0) x = static_cast<T>(static_cast<double>(random() % 1000) * y);
    if (i % 7 == 0) x = std::nextafter(x, T(0));
    xs.push_back(random() % 2 == 0 ? x : -x);
    ys.push_back(random() % 2 == 0 ? y : -y);
  }
  for_each_isa([&](Isa isa) {
    std::vector<T> got(xs.size());
    math::run(*math::find_math_function("rem"), dtype_of<T>, isa,
              static_cast<std::int64_t>(xs.size()), xs.data(), ys.data(), got.data());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const T want = std::fmod(xs[i], ys[i]);
      if (std::isnan(want) && std::isnan(got[i])) continue;
      ASSERT_EQ(std::bit_cast<BitsOf<T>>(got[i]), std::bit_cast<BitsOf<T>>(want))
          << std::hexfloat << "rem(" << xs[i] << ", " << ys[i] << ") = " << got[i] << ", want "
          << want << " by " << runtime::isa_name(isa);
    }
  });
}
TEST(Remainders, AreExactWhateverTheQuotient) {
  expect_remainders_as_in_library<float>();
  expect_remainders_as_in_library<double>();
}

template <class T>
void expect_power_as_in_library(T x, T y) {
  const auto& pow = *math::find_math_function("pow");
  for_each_isa([&](Isa isa) {
    T got;
    math::run(pow, dtype_of<T>, isa, 1, &x, &y, &got);
    const double bound = sizeof(T) == 4 ? pow.ulp_f32 : pow.ulp_f64;
    EXPECT_LE(error_in_ulps(got, std::pow(Wide(x), Wide(y))), bound)
        << "pow(" << x << ", " << y << ") = " << got << " by " << runtime::isa_name(isa);
  });
}
template <class T>
void expect_sign_of_exponents_next_to(T even) {
  for (const T base : {T(-1), T(-2), T(-0.999), T(-0.0), -std::numeric_limits<T>::infinity()}) {
    for (const T step : {T(-1), T(-0.5), T(0), T(1), T(2)}) {
      expect_power_as_in_library<T>(base, even + step);
      expect_power_as_in_library<T>(base, -(even + step));
    }
  }
}
TEST(Powers, OfNegativeNumbersKnowOddExponentsFromEvenOnesAndFractions) {
  for (const int bits : {1, 2, 10, 22, 23, 24, 25}) {
    const double even = std::ldexp(1, bits);
    expect_sign_of_exponents_next_to<float>(static_cast<float>(even));
    expect_sign_of_exponents_next_to<double>(even);
  }
  for (const int bits : {51, 52, 53, 54}) expect_sign_of_exponents_next_to(std::ldexp(1., bits));
}
TEST(Powers, KeepTheirDigitsWhereTheExponentIsLarge) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 20'000; ++i) {
    // The power spreads over all numbers, whatever the base: next to 1 in half of the cases.
    const double near = 1 + (uniform(random) - .5) * std::exp2(-50 * uniform(random));
    const double base = i % 2 ? near : std::exp2(200 * (uniform(random) - .5));
    if (base == 1) continue;
    const double exponent = (uniform(random) - .5) / std::log2(base);
    expect_power_as_in_library(base, 2100 * exponent);
    if (std::fabs(base - 1) > 1e-6)
      expect_power_as_in_library(static_cast<float>(base), static_cast<float>(280 * exponent));
  }
}

/// Scaled by an instruction where there is one, else by hand: into denormal numbers, to zero, to infinity.
template <class T>
void expect_same_bits_with_fma(const char* name, double from, double to) {
  constexpr std::int64_t kCount = 1 << 18;
  const auto& function = *math::find_math_function(name);
  std::vector<T> x{0, -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()};
  for (std::int64_t i = 0; i <= kCount; ++i)
    x.push_back(static_cast<T>(from + (to - from) * static_cast<double>(i) / kCount));
  std::vector<T> avx2(x.size()), avx512(x.size());
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const auto n = static_cast<std::int64_t>(x.size());
  math::run(function, dtype, Isa::avx2, n, x.data(), x.data(), avx2.data());
  math::run(function, dtype, Isa::avx512, n, x.data(), x.data(), avx512.data());
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(avx2[i], avx512[i]) << name << " of " << x[i];
}

TEST(Exponentials, AreTheSameHoweverTheyAreScaled) {
  if (runtime::supported_isa() < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  expect_same_bits_with_fma<float>("exp", -110, 95);
  expect_same_bits_with_fma<float>("exp", -104.1, -103.9);
  expect_same_bits_with_fma<float>("exp2", -155, 130);
  expect_same_bits_with_fma<double>("exp", -760, 720);
  expect_same_bits_with_fma<double>("exp", -745.2, -745.1);
  expect_same_bits_with_fma<double>("exp2", -1080, 1030);
}

// Where a function is its operand, halving it on the way would lose a bit of denormal numbers.
template <class T> void expect_itself_of_denormals(const char* name) {
  const auto& function = *math::find_math_function(name);
  std::vector<T> x;
  for (int n = 1; n < 40; ++n)
    x.push_back(static_cast<T>(n % 2 == 0 ? n : -n) * std::numeric_limits<T>::denorm_min());
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  for_each_isa([&](Isa isa) {
    std::vector<T> y(x.size());
    math::run(function, dtype, isa, static_cast<std::int64_t>(x.size()), x.data(), x.data(),
              y.data());
    EXPECT_EQ(x, y) << name;
  });
}
TEST(VectorMathOfDenormals, LosesNoBitOfThem) {
  for (const char* name :
       {"asinh", "atanh", "expm1", "log1p", "sin", "sinh", "tan", "asin", "atan", "tanh"}) {
    expect_itself_of_denormals<float>(name);
    expect_itself_of_denormals<double>(name);
  }
}

// ---- every f32 -----------------------------------------------------------------------------------
/// f(x) for f32 x, with the error of a double: half a billionth of what is measured.
double (*reference_in_double(const std::string& name))(double) {
  if (name != "erf_inv") return library_functions<double>().at(name);
  // A step of Newton's method from our own f64 function, which leaves nothing of its error.
  return [](double a) {
    double y = 0;
    math::run(*math::find_math_function("erf_inv"), DType::f64, Isa::generic, 1, &a, &a, &y);
    if (!std::isfinite(y) || y == 0) return y;
    const double u = std::fabs(y), slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-u * u);
    const double error = u < 0.5 ? std::erf(u) - std::fabs(a) : (1 - std::fabs(a)) - std::erfc(u);
    return std::copysign(u - error / slope, y);
  };
}

struct Worst {
  double ulps = 0;
  float x = 0, got = 0;
  void take(const Worst& other) {
    if (other.ulps > ulps) *this = other;
  }
};
constexpr int kBlockBits = 16;
using WorstOfIsas = std::array<Worst, runtime::kNumIsas>;

/// The block of f32 with these upper bits.
WorstOfIsas worst_of_block(const math::MathFunction& function, std::uint32_t block) {
  constexpr std::size_t kSize = std::size_t{1} << kBlockBits;
  static thread_local std::vector<float> xs(kSize), got(kSize);
  static thread_local std::vector<double> want(kSize);
  double (*const reference)(double) = reference_in_double(function.name);
  for (std::uint32_t i = 0; i < kSize; ++i) {
    xs[i] = std::bit_cast<float>(block << kBlockBits | i);
    want[i] = reference(xs[i]);
  }
  WorstOfIsas worst;
  for_each_isa([&](Isa isa) {
    math::run(function, DType::f32, isa, kSize, xs.data(), xs.data(), got.data());
    Worst& w = worst[static_cast<std::size_t>(isa)];
    for (std::size_t i = 0; i < kSize; ++i) {
      const auto rounded = static_cast<float>(want[i]);
      // Most results are the nearest float, which needs no arithmetic.
      const bool nearest =
          std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(rounded);
      w.take({nearest ? 0.5 : error_in_ulps(got[i], want[i]), xs[i], got[i]});
    }
  });
  return worst;
}

class UnaryVectorMath : public ::testing::TestWithParam<const char*> {};

TEST_P(UnaryVectorMath, LONG_IsWithinItsBoundAtEveryF32) {
  const auto& function = *math::find_math_function(GetParam());
  std::vector<WorstOfIsas> blocks(std::size_t{1} << (32 - kBlockBits));
  runtime::parallel_for(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t block) {
    blocks[static_cast<std::size_t>(block)] =
        worst_of_block(function, static_cast<std::uint32_t>(block));
  });
  for_each_isa([&](Isa isa) {
    Worst worst;
    for (const WorstOfIsas& block : blocks) worst.take(block[static_cast<std::size_t>(isa)]);
    const std::string name =
        std::string(function.name) + " f32 " + std::string(runtime::isa_name(isa));
    std::printf("%-20s %.4f ulp at %a\n", name.c_str(), worst.ulps, static_cast<double>(worst.x));
    RecordProperty(name, std::to_string(worst.ulps));
    EXPECT_LE(worst.ulps, function.ulp_f32)
        << name << "(" << worst.x << ") = " << worst.got << ", want "
        << reference_in_double(function.name)(worst.x);
  });
}

std::vector<const char*> names(int least_arity, int most_arity) {
  std::vector<const char*> all;
  for (const auto& function : math::math_functions()) {
    if (least_arity <= function.arity && function.arity <= most_arity) all.push_back(function.name);
  }
  return all;
}
const auto name_of_function = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Functions, VectorMath, ::testing::ValuesIn(names(1, 2)), name_of_function);
INSTANTIATE_TEST_SUITE_P(Functions, UnaryVectorMath, ::testing::ValuesIn(names(1, 1)),
                         name_of_function);

TEST(VectorMathTable, FindsFunctionsByNameAndHasEveryBuildOfThisMachine) {
  EXPECT_EQ(math::math_functions().size(), 25u);
  EXPECT_EQ(math::find_math_function("lgamma"), nullptr);
  EXPECT_EQ(math::find_math("exp", DType::i32, Isa::generic).address, nullptr);
  for (const auto& function : math::math_functions()) {
    for_each_isa([&](Isa isa) {
      for (DType dtype : {DType::f32, DType::f64}) {
        const auto entry = math::find_math(function.name, dtype, isa);
        EXPECT_NE(entry.address, nullptr) << function.name;
        EXPECT_NE(std::strstr(entry.symbol, function.name), nullptr) << entry.symbol;
      }
    });
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/// What AVX-512 functions keep: zmm16 to zmm31, k4 to k7, and rsi.
struct Registers512 {
  static constexpr Isa kIsa = Isa::avx512;
  char vectors[16][64];
  std::uint64_t masks[4];
  std::uint64_t rsi;
};
/// What AVX2 functions keep: ymm8 to ymm15.
struct Registers256 {
  static constexpr Isa kIsa = Isa::avx2;
  char vectors[8][32];
};
#define TELAMON_CALLED_REGISTERS                                                                \
  "memory", "cc", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0",   \
      "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12", "xmm13", "xmm14", "xmm15"
// The stack is aligned for calls, below what a function may use under its own.
#define TELAMON_CALL_BETWEEN(given, taken)              \
  "movq %%rsp, %%rbx\n\t"                               \
  "subq $128, %%rsp\n\t"                                \
  "andq $-64, %%rsp\n\t" given "\n\tcall *%2\n\t" taken \
  "\n\tmovq %%rbx, %%rsp\n\t"                           \
  "vzeroupper"

/// Calls f(x) with these registers, and says what they are afterwards.
Registers512 after_call(void* f, const void* x, const Registers512& before) {
  Registers512 after = before;
  asm volatile(TELAMON_CALL_BETWEEN(".irp i, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
                                    "vmovups 64*\\i-1024(%0), %%zmm\\i\n\t"
                                    ".endr\n\t"
                                    ".irp i, 4,5,6,7\n\t"
                                    "kmovq 8*\\i+992(%0), %%k\\i\n\t"
                                    ".endr\n\t"
                                    "movq 1056(%0), %%rsi\n\t"
                                    "vmovups (%1), %%zmm0",
                                    ".irp i, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
                                    "vmovups %%zmm\\i, 64*\\i-1024(%0)\n\t"
                                    ".endr\n\t"
                                    ".irp i, 4,5,6,7\n\t"
                                    "kmovq %%k\\i, 8*\\i+992(%0)\n\t"
                                    ".endr\n\t"
                                    "movq %%rsi, 1056(%0)")
               :
               : "r"(std::launder(&after)), "r"(x), "r"(f)
               : TELAMON_CALLED_REGISTERS);
  return after;
}
Registers256 after_call(void* f, const void* x, const Registers256& before) {
  Registers256 after = before;
  asm volatile(TELAMON_CALL_BETWEEN(".irp i, 8,9,10,11,12,13,14,15\n\t"
                                    "vmovups 32*\\i-256(%0), %%ymm\\i\n\t"
                                    ".endr\n\t"
                                    "vmovups (%1), %%ymm0",
                                    ".irp i, 8,9,10,11,12,13,14,15\n\t"
                                    "vmovups %%ymm\\i, 32*\\i-256(%0)\n\t"
                                    ".endr")
               :
               : "r"(std::launder(&after)), "r"(x), "r"(f)
               : TELAMON_CALLED_REGISTERS);
  return after;
}

template <class Registers>
void expect_registers_kept() {
  if (runtime::supported_isa() < Registers::kIsa)
    GTEST_SKIP() << "needs " << runtime::isa_name(Registers::kIsa);
  Registers before;
  std::mt19937_64 random(7);
  for (std::size_t i = 0; i < sizeof before; i += 8) {
    const std::uint64_t bits = random();
    std::memcpy(reinterpret_cast<char*>(&before) + i, &bits, 8);
  }
  int checked = 0;
  const auto check = [&]<class T>(const math::MathFunction& function, T) {
    const auto entry =
        (sizeof(T) == 4 ? function.f32 : function.f64)[static_cast<int>(Registers::kIsa)];
    if (!entry.keeps_registers) return;
    for (const T special : {T(0.25), T(1e6), T(1e30), T(INFINITY), T(NAN), T(-3), T(1e-40), T(0)}) {
      T x[64 / sizeof(T)];
      for (T& lane : x) lane = T(0.5);
      x[3] = special;
      const Registers after = after_call(entry.address, x, before);
      EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0)
          << entry.symbol << " of " << special;
      ++checked;
    }
  };
  for (const auto& function : math::math_functions()) {
    check(function, float());
    check(function, double());
  }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_EQ(checked, 0);  // calls that these insert keep nothing
#else
  EXPECT_GT(checked, 100);
#endif
}
TEST(VectorMathRegisters, AreLeftAloneByAvx512FunctionsThatSayThat) {
  expect_registers_kept<Registers512>();
}
TEST(VectorMathRegisters, AreLeftAloneByAvx2FunctionsThatSayThat) {
  expect_registers_kept<Registers256>();
}
#endif

}  // namespace
