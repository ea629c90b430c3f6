// argmax and argmin: the extreme and its place are folded together, as vectors, over any axis.
#include <limits>

#include "support.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Program places(int axis, DType index = DType::i32) {
  return [=](std::span<const Array> x) {
    return Arrays{lax::argmax(x[0], axis, index), lax::argmin(x[0], axis, index)};
  };
}

// Compiled, with one pass and with two, and eager: all as a loop over the elements finds it.
void expect_first(const Array& x, int axis, DType index = DType::i32) {
  const std::string what = x.aval().to_string() + " along " + std::to_string(axis);
  const auto values = x.to_vector<double>();
  const auto d = static_cast<std::size_t>(axis);
  std::int64_t inner = 1;
  for (std::size_t i = d + 1; i < x.shape().size(); ++i) inner *= x.shape()[i];
  const std::int64_t n = x.shape()[d], outer = x.size() / n / inner;
  const auto seek = [&](const std::function<bool(double, double)>& beats) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < outer * inner; ++i) {
      const auto at = [&](std::int64_t k) {
        return values[static_cast<std::size_t>((i / inner * n + k) * inner + i % inner)];
      };
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < n; ++k) {
        if (!std::isnan(at(best)) && (std::isnan(at(k)) || beats(at(k), at(best)))) best = k;
      }
      out.push_back(best);
    }
    return out;
  };
  const std::vector<std::vector<std::int64_t>> want = {seek(std::greater<>()), seek(std::less<>())};
  const Program f = places(axis, index);
  const Jaxpr jaxpr = stage(f, {x});
  CompileOptions apart;
  apart.disabled = {"fold_places"};
  const Arrays eager = f(std::vector{x}), once = execute(compile(jaxpr), {x}),
               twice = execute(compile(jaxpr, apart), {x});
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(eager[i].to_vector<std::int64_t>(), want[i]) << "eager " << i << what;
    EXPECT_EQ(once[i].to_vector<std::int64_t>(), want[i]) << "one pass " << i << what;
    EXPECT_EQ(twice[i].to_vector<std::int64_t>(), want[i]) << "two passes " << i << what;
    EXPECT_EQ(once[i].dtype(), index);
  }
}

// Few different values: many are equal.
Array coarse(const Shape& shape, DType dtype, unsigned seed = 1) {
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, 0, 20, seed)), dtype);
}

TEST(CompiledPlaces, AreTheFirstOfEqualsOverEveryAxisAndType) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64,
                            DType::i8, DType::u8, DType::i16, DType::bf16, DType::bool_}) {
    expect_first(coarse({9, 300}, dtype), 1);
    expect_first(coarse({5, 1300}, dtype), 1);  // several accumulators in all types
    expect_first(coarse({300, 70}, dtype), 0);
    expect_first(coarse({5, 40, 130}, dtype), 1);
    expect_first(coarse({3, 40, 130}, dtype), 2);
    expect_first(coarse({20, 3, 70}, dtype), 0);
    expect_first(coarse({3000}, dtype), 0);
  }
}

TEST(CompiledPlaces, OfRowsOfEveryLengthAreRight) {
  for (std::int64_t n = 1; n < 300; ++n) expect_first(coarse({3, n}, DType::f32), 1);
  for (const std::int64_t n : {511, 512, 513, 527, 1023, 1025, 4095})
    expect_first(uniform({2, n}, DType::f64), 1);
}

TEST(CompiledPlaces, PutTheFirstNanBeforeAllAndTheInfinitiesInOrder) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int axis : {0, 1}) {
      for (unsigned seed = 1; seed < 20; ++seed) {
        auto values = uniform({160, 160}, DType::f64, 0, 1, seed).to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double x = values[i];
          values[i] = x < 1e-2    ? kNan
                      : x < 2e-2  ? -kNan
                      : x < 0.3   ? -kInfinity
                      : x > 0.9   ? kInfinity
                      : x > 0.899 ? -0.0
                                  : 0.0;
        }
        expect_first(Array(values, {160, 160}).astype(dtype), axis);
      }
      for (const double same : {-kInfinity, kInfinity, kNan})
        expect_first(Array(std::vector<double>(130 * 200, same), {130, 200}).astype(dtype), axis);
    }
  }
  for (const std::int64_t x :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
    expect_first(Array(std::vector<std::int64_t>(130 * 200, x), {130, 200}), 1);
}

TEST(CompiledPlaces, OfLargeArraysAreFoldedInParts) {
  expect_first(uniform({400'000}, DType::f32), 0);
  expect_first(uniform({4, 200'003}, DType::f64), 1);
  expect_first(coarse({3000, 200}, DType::f32), 0);
  expect_first(coarse({40, 20'000}, DType::f32), 0);
  expect_first(coarse({2, 9000, 70}, DType::f32), 1);
}

TEST(CompiledPlaces, AreCountedInTheTypeAskedFor) {
  const Array x = uniform({100, 200}, DType::f32);
  for (const DType index : {DType::i64, DType::u8, DType::i16, DType::u32}) {
    expect_first(x, 1, index);
    expect_first(x, 0, index);
  }
}

TEST(CompiledPlaces, ShareAKernelWithWhatIsComputedBeforeAndAfter) {
  const Array x = uniform({64, 500}, DType::f32);
  for (const int axis : {0, 1}) {
    check(
        [axis](std::span<const Array> x) {
          const Array y = x[0] * 2.0f - lax::abs(x[0]);
          return Arrays{argmax(y, axis) * 2 + 1, max(y, axis)};
        },
        {x}, 1);
  }
}

}  // namespace
}  // namespace telamon::testing
