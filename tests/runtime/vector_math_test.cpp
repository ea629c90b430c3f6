// Accuracy of the vector math functions, for every instruction set of this machine: against double
// (for f32) and long double (for f64) over samples of all bit patterns, and at special operands.
#include "runtime/math/vector_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

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

Wide reference(const std::string& name, Wide x, Wide y) {
  static const std::map<std::string, Wide (*)(Wide, Wide)> functions = {
#define ONE(f) {#f, [](Wide a, Wide) -> Wide { return std::f(a); }}
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
      {"atan2", [](Wide a, Wide b) -> Wide { return std::atan2(a, b); }},
      {"pow", [](Wide a, Wide b) -> Wide { return std::pow(a, b); }},
      {"erf_inv", [](Wide a, Wide) -> Wide { return erf_inv_reference(a); }},
      {"logistic", [](Wide a, Wide) -> Wide { return 1 / (1 + std::exp(-a)); }},
  };
  return functions.at(name)(x, y);
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

/// All bit patterns at equal distances, then the neighbourhoods of numbers that matter.
template <class T>
std::vector<T> samples(int count) {
  std::vector<T> xs;
  const BitsOf<T> step = std::numeric_limits<BitsOf<T>>::max() / static_cast<BitsOf<T>>(count) | 1;
  for (int i = 0; i < count; ++i) xs.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(step * i)));
  std::mt19937_64 random(7);
  for (double range : {1.0, 10.0, 100.0, 750.0}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < count / 8; ++i) xs.push_back(static_cast<T>(uniform(random)));
  }
  const double corners[] = {0.5,       1,          2,         88.722839,  87.336544,  103.97208,
                            709.78271, 708.39642,  745.13322, 128,        126,        150,
                            149,       1024,       1022,      1075,       1074,       9.01,
                            19.06,     0.34657359, 1.0397208, 0.70710678, 1.41421356, 1e-4,
                            1e-8,      3.9,        5.9};
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

TEST_P(VectorMath, IsWithinItsBoundOverAllBitPatternsOfF32) {
  const auto* function = math::find_math_function(GetParam());
  ASSERT_NE(function, nullptr);
  for_each_isa([&](Isa isa) { check_accuracy<float>(*function, isa, 1 << 16); });
}

TEST_P(VectorMath, IsWithinItsBoundOverAllBitPatternsOfF64) {
  const auto* function = math::find_math_function(GetParam());
  ASSERT_NE(function, nullptr);
  for_each_isa([&](Isa isa) { check_accuracy<double>(*function, isa, 1 << 15); });
}

TEST_P(VectorMath, GivesALaneTheSameResultInAnyCompany) {
  const auto& function = *math::find_math_function(GetParam());
  const std::vector<float> xs = samples<float>(512);
  for_each_isa([&](Isa isa) {
    std::vector<float> together(xs.size());
    math::run(function, DType::f32, isa, static_cast<std::int64_t>(xs.size()), xs.data(), xs.data(),
              together.data());
    for (std::size_t i = 0; i < xs.size(); ++i) {
      float alone;
      math::run(function, DType::f32, isa, 1, &xs[i], &xs[i], &alone);
      if (std::isnan(alone) && std::isnan(together[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(alone), std::bit_cast<std::uint32_t>(together[i]))
          << function.name << " of " << xs[i];
    }
  });
}

std::vector<const char*> names() {
  std::vector<const char*> all;
  for (const auto& function : math::math_functions()) all.push_back(function.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Functions, VectorMath, ::testing::ValuesIn(names()),
                         [](const auto& info) { return std::string(info.param); });

TEST(VectorMathTable, FindsFunctionsByNameAndHasEveryBuildOfThisMachine) {
  EXPECT_EQ(math::math_functions().size(), 24u);
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

}  // namespace
