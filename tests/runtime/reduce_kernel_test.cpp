// Reductions, scans and index reductions against index loops, for every dtype, axes and layout.
#include "runtime/kernels/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "folds.hpp"

namespace {

using namespace telamon_test;

/// Whole numbers of which sums and short products are exact in every dtype that does not wrap.
template <class T>
std::vector<T> numbers(std::int64_t n) {
  std::vector<T> x(static_cast<std::size_t>(n));
  unsigned random = 5;
  for (auto& v : x) {
    random = random * 1664525u + 1013904223u;
    v = static_cast<T>(static_cast<int>((random >> 20) % 5) - (std::is_signed_v<T> ? 2 : 0));
  }
  return x;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a == b || (std::isnan(a) && std::isnan(b));
  else return a == b;
}

template <class T>
void check_reduce(ReduceOp op, const View& in, const Shape& axes) {
  Shape kept;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (!axes.contains(static_cast<std::int64_t>(d))) kept.push_back(in.shape[d]);
  }
  const auto out_size = static_cast<std::size_t>(kept.num_elements());
  std::vector<T> got(out_size), want(out_size);
  std::vector<bool> begun(out_size, false);
  kernels::run_reduce(op, in, axes, contiguous_view(got.data(), dtype_of<T>, kept));
  for (std::int64_t i = 0; i < in.shape.num_elements(); ++i) {
    std::int64_t rest = i, offset = 0, stride = 1;
    std::size_t place = 0;
    for (std::size_t d = in.shape.size(); d-- > 0;) {
      const std::int64_t index = rest % in.shape[d];
      offset += index * in.strides[d];
      rest /= in.shape[d];
      if (!axes.contains(static_cast<std::int64_t>(d))) {
        place += static_cast<std::size_t>(index * stride);
        stride *= in.shape[d];
      }
    }
    const T x = *reinterpret_cast<const T*>(in.data + offset);
    want[place] = begun[place] ? fold(op, want[place], x) : x;
    begun[place] = true;
  }
  for (std::size_t i = 0; i < out_size; ++i) {
    ASSERT_TRUE(same(got[i], want[i]))
        << int(op) << " of " << in.shape.to_string() << " over " << axes.to_string() << " at " << i
        << ": " << +got[i] << ", want " << +want[i];
  }
}

template <class T>
std::vector<ReduceOp> ops() {
  std::vector<ReduceOp> all = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};
  if constexpr (std::is_integral_v<T>)
    all.insert(all.end(), {ReduceOp::prod, ReduceOp::and_, ReduceOp::or_, ReduceOp::xor_});
  return all;
}

template <class T>
class Reduce : public ::testing::Test {};
using Types = ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                               std::uint16_t, std::uint32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(Reduce, Types);

TYPED_TEST(Reduce, AgreesWithAnIndexLoopForAllAxes) {
  using T = TypeParam;
  for (const Shape& shape :
       {Shape{1}, Shape{7}, Shape{1000}, Shape{3, 5}, Shape{2, 300}, Shape{300, 2}, Shape{70, 90},
        Shape{4, 1, 9}, Shape{5, 6, 7}, Shape{3, 40, 2, 5}, Shape{2, 3, 4, 3, 2}}) {
    auto x = numbers<T>(shape.num_elements());
    const View in = contiguous_view(x.data(), dtype_of<T>, shape);
    for (unsigned mask = 0; mask < (1u << shape.size()); ++mask) {
      Shape axes;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if ((mask >> d) & 1) axes.push_back(static_cast<std::int64_t>(d));
      }
      for (ReduceOp op : ops<T>()) check_reduce<T>(op, in, axes);
    }
  }
}

TYPED_TEST(Reduce, AgreesForTransposedSteppedAndRepeatedOperands) {
  using T = TypeParam;
  auto x = numbers<T>(60 * 80);
  const auto size = static_cast<std::int64_t>(sizeof(T));
  char* data = reinterpret_cast<char*>(x.data());
  for (const View& in : {View{data, dtype_of<T>, {60, 80}, {size, 60 * size}},
                         View{data, dtype_of<T>, {30, 40}, {160 * size, 2 * size}},
                         View{data, dtype_of<T>, {5, 60}, {0, size}},
                         View{data + 4799 * size, dtype_of<T>, {60, 80}, {-80 * size, -size}}}) {
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{0, 1}}) {
      for (ReduceOp op : ops<T>()) check_reduce<T>(op, in, axes);
    }
  }
}

TYPED_TEST(Reduce, OfNothingIsTheIdentity) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  T none = 0;
  const View in = contiguous_view(&none, dtype_of<T>, Shape{0, 2});
  const T lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  std::map<ReduceOp, T> want = {
      {ReduceOp::sum, 0}, {ReduceOp::prod, 1}, {ReduceOp::max, lowest}, {ReduceOp::min, highest}};
  if constexpr (std::is_integral_v<T>)
    want.insert({{ReduceOp::and_, static_cast<T>(~T(0))}, {ReduceOp::or_, 0}, {ReduceOp::xor_, 0}});
  for (const auto& [op, value] : want) {
    std::vector<T> got(2, T(55));
    kernels::run_reduce(op, in, Shape{0}, contiguous_view(got.data(), dtype_of<T>, Shape{2}));
    EXPECT_EQ(got, (std::vector<T>{value, value})) << int(op);
  }
}

TEST(ReduceFloat, PropagatesNanFromEveryPlace) {
  for (std::size_t n : {1u, 5u, 16u, 70u, 500u, 9000u}) {
    for (std::size_t at = 0; at < n; at += n / 7 + 1) {
      std::vector<float> x(n, 1.0f);
      x[at] = NAN;
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) {
        float y = 0;
        const View in = contiguous_view(x.data(), f32, Shape{static_cast<std::int64_t>(n)});
        kernels::run_reduce(op, in, Shape{0}, contiguous_view(&y, f32, {}));
        EXPECT_TRUE(std::isnan(y)) << int(op) << " " << n << " " << at;
        float z[2];
        View twice = in;
        twice.shape = {static_cast<std::int64_t>(n), 2};
        twice.strides = {4, 0};
        kernels::run_reduce(op, twice, Shape{0}, contiguous_view(z, f32, Shape{2}));
        EXPECT_TRUE(std::isnan(z[0]) && std::isnan(z[1]));
      }
    }
  }
}

TEST(ReduceFloat, SumsTenMillionNumbersToWithinAFewRoundings) {
  const std::int64_t n = 10'000'000;
  std::vector<float> x(static_cast<std::size_t>(n), 0.1f);
  const double want = static_cast<double>(0.1f) * static_cast<double>(n);
  for (const auto& [shape, axes] : {std::pair{Shape{n}, Shape{0}},
                                    {Shape{n / 10, 10}, Shape{0}},
                                    {Shape{10, n / 10}, Shape{1}},
                                    {Shape{n / 2000, 2000}, Shape{0}}}) {
    std::vector<float> y(2000);
    Shape kept;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!axes.contains(static_cast<std::int64_t>(d))) kept.push_back(shape[d]);
    }
    kernels::run_reduce(ReduceOp::sum, contiguous_view(x.data(), f32, shape), axes,
                        contiguous_view(y.data(), f32, kept));
    const auto results = static_cast<double>(kept.num_elements());
    for (std::int64_t i = 0; i < kept.num_elements(); ++i) {
      ASSERT_NEAR(y[static_cast<std::size_t>(i)] * results / want, 1, 1e-6) << shape.to_string();
    }
  }
}

TEST(ReduceFloat, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> x(3'000'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 1e3f;
  for (const auto& [shape, axes] : {std::pair{Shape{3'000'000}, Shape{0}},
                                    {Shape{3000, 1000}, Shape{0}},
                                    {Shape{3000, 1000}, Shape{1}}}) {
    std::vector<float> one(3000), four(3000);
    const Shape kept = shape.size() == 1 ? Shape{} : Shape{axes[0] == 0 ? 1000 : 3000};
    for (auto [threads, y] : {std::pair{1, &one}, {4, &four}}) {
      const WithThreads scope(threads);
      kernels::run_reduce(ReduceOp::sum, contiguous_view(x.data(), f32, shape), axes,
                          contiguous_view(y->data(), f32, kept));
    }
    EXPECT_EQ(one, four);
  }
}

TEST(ReduceBool, IsLogical) {
  bool x[] = {false, true, true, true, false, false};
  const View in = contiguous_view(x, boolean, Shape{2, 3});
  const std::map<ReduceOp, std::vector<int>> want = {{ReduceOp::or_, {1, 1}},
                                                     {ReduceOp::and_, {0, 0}},
                                                     {ReduceOp::xor_, {0, 1}},
                                                     {ReduceOp::max, {1, 1}},
                                                     {ReduceOp::min, {0, 0}}};
  for (const auto& [op, values] : want) {
    bool y[2];
    kernels::run_reduce(op, in, Shape{1}, contiguous_view(y, boolean, Shape{2}));
    EXPECT_EQ((std::vector<int>{y[0], y[1]}), values) << int(op);
  }
  bool empty_and = false;
  kernels::run_reduce(ReduceOp::and_, contiguous_view(x, boolean, Shape{0}), Shape{0},
                      contiguous_view(&empty_and, boolean, {}));
  EXPECT_TRUE(empty_and);
}

TEST(ReduceSmallFloat, AccumulatesInF32) {
  std::vector<std::uint16_t> ones(5000, 0x3c00);  // f16 1.0; 2048 + 1 would be lost in f16
  std::uint16_t sum;
  kernels::run_reduce(ReduceOp::sum, contiguous_view(ones.data(), f16, Shape{5000}), Shape{0},
                      contiguous_view(&sum, f16, {}));
  EXPECT_EQ(sum, 0x6ce2);  // 5000
}

template <class T>
class ReduceComplex : public ::testing::Test {};
using ComplexTypes = ::testing::Types<Complex64, Complex128>;
TYPED_TEST_SUITE(ReduceComplex, ComplexTypes);

/// Whole numbers as the parts of n complex ones, and their views, dense and not.
template <class T>
struct ComplexNumbers {
  using Part = decltype(T{}.re);
  std::vector<Part> parts;
  explicit ComplexNumbers(std::int64_t n) : parts(numbers<Part>(2 * n)) {}
  View view(const Shape& shape) { return contiguous_view(parts.data(), dtype_of<T>, shape); }
};
/// One of the parts of complex numbers, as an array of its own.
template <class T>
View part_of(View z, int part) {
  if (z.data != nullptr) z.data += part * static_cast<int>(sizeof(T) / 2);
  z.dtype = dtype_of<typename ComplexNumbers<T>::Part>;
  return z;
}

template <class T>
void check_complex_sum(const View& in, const Shape& axes) {
  using Part = typename ComplexNumbers<T>::Part;
  Shape kept;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (!axes.contains(static_cast<std::int64_t>(d))) kept.push_back(in.shape[d]);
  }
  std::vector<T> got(static_cast<std::size_t>(kept.num_elements()));
  kernels::run_reduce(ReduceOp::sum, in, axes, contiguous_view(got.data(), dtype_of<T>, kept));
  for (const int part : {0, 1}) {
    const View x = part_of<T>(in, part);
    check_reduce<Part>(ReduceOp::sum, x, axes);
    std::vector<Part> want(got.size());
    kernels::run_reduce(ReduceOp::sum, x, axes, contiguous_view(want.data(), x.dtype, kept));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(part == 0 ? got[i].re : got[i].im, want[i])
          << in.shape.to_string() << " over " << axes.to_string() << " at " << i;
    }
  }
}

TYPED_TEST(ReduceComplex, SumsThePartsOverAnyAxes) {
  for (const Shape& shape : {Shape{1}, Shape{7}, Shape{1000}, Shape{5001}, Shape{3, 5},
                             Shape{50, 2}, Shape{50, 3}, Shape{9, 8}, Shape{9, 33}, Shape{2, 300},
                             Shape{300, 2}, Shape{5, 6, 7}, Shape{2, 3, 4, 3}}) {
    ComplexNumbers<TypeParam> z(shape.num_elements());
    for (unsigned mask = 0; mask < (1u << shape.size()); ++mask) {
      Shape axes;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if ((mask >> d) & 1) axes.push_back(static_cast<std::int64_t>(d));
      }
      check_complex_sum<TypeParam>(z.view(shape), axes);
    }
  }
}

TYPED_TEST(ReduceComplex, SumsTransposedSteppedAndRepeatedOperands) {
  constexpr std::int64_t kSize = sizeof(TypeParam);
  ComplexNumbers<TypeParam> z(60 * 80);
  const View all = z.view(Shape{60, 80});
  for (const View& in :
       {View{all.data, all.dtype, {80, 60}, {kSize, 80 * kSize}},
        View{all.data, all.dtype, {30, 40}, {160 * kSize, 2 * kSize}},
        View{all.data, all.dtype, {5, 60}, {0, kSize}},
        View{all.data + 4799 * kSize, all.dtype, {60, 80}, {-80 * kSize, -kSize}}}) {
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{0, 1}})
      check_complex_sum<TypeParam>(in, axes);
  }
}

// Of equal numbers, of which each product is rounded as a single one is.
TYPED_TEST(ReduceComplex, RoundsEachProduct) {
  using Part = typename ComplexNumbers<TypeParam>::Part;
  const auto product = [](TypeParam x, TypeParam y) {
    const volatile Part rr = x.re * y.re, ii = x.im * y.im, ri = x.re * y.im, ir = x.im * y.re;
    return TypeParam{rr - ii, ri + ir};
  };
  constexpr int kParts = 4;  // side by side, then one after the other
  const TypeParam z{Part(0.7), Part(0.6)};
  for (int n = 1; n < 60; ++n) {
    std::vector<TypeParam> all(static_cast<std::size_t>(n), z);
    TypeParam got{}, parts[kParts];
    kernels::run_reduce(ReduceOp::prod, contiguous_view(all.data(), dtype_of<TypeParam>, Shape{n}),
                        Shape{0}, contiguous_view(&got, dtype_of<TypeParam>, Shape{}));
    for (int i = 0; i < n; ++i) parts[i % kParts] = i < kParts ? z : product(parts[i % kParts], z);
    for (int j = 1; j < std::min(n, kParts); ++j) parts[0] = product(parts[0], parts[j]);
    ASSERT_TRUE(same(got.re, parts[0].re) && same(got.im, parts[0].im)) << n;
  }
}

TYPED_TEST(ReduceComplex, SumsOfZerosArePositive) {
  std::vector<TypeParam> z(6, TypeParam{-0.0, -0.0}), sums(2);
  kernels::run_reduce(ReduceOp::sum, contiguous_view(z.data(), dtype_of<TypeParam>, Shape{2, 3}),
                      Shape{1}, contiguous_view(sums.data(), dtype_of<TypeParam>, Shape{2}));
  for (const TypeParam& sum : sums) EXPECT_FALSE(std::signbit(sum.re) || std::signbit(sum.im));
}

TYPED_TEST(ReduceComplex, GivesTheSameBitsForAnyNumberOfThreads) {
  using Part = typename ComplexNumbers<TypeParam>::Part;
  ComplexNumbers<TypeParam> z(1'200'000);
  for (std::size_t i = 0; i < z.parts.size(); ++i)
    z.parts[i] = std::sin(static_cast<Part>(i)) * Part(1e3);
  for (const Shape& shape : {Shape{1, 1'200'000}, Shape{400'000, 3}, Shape{1200, 1000}}) {
    for (const std::int64_t axis : {0, 1}) {
      const Shape kept{shape[axis == 0 ? 1 : 0]};
      std::vector<Part> one(static_cast<std::size_t>(2 * kept[0])), four(one);
      for (auto [threads, y] : {std::pair{1, &one}, {4, &four}}) {
        const WithThreads scope(threads);
        kernels::run_reduce(ReduceOp::sum, z.view(shape), Shape{axis},
                            contiguous_view(y->data(), dtype_of<TypeParam>, kept));
      }
      EXPECT_EQ(one, four) << shape.to_string();
    }
  }
}

TYPED_TEST(ReduceComplex, ScansThePartsAlongAnyAxis) {
  using Part = typename ComplexNumbers<TypeParam>::Part;
  for (const Shape& shape :
       {Shape{1}, Shape{17}, Shape{4, 9}, Shape{3, 5, 2}, Shape{2, 3000}, Shape{0, 3}}) {
    ComplexNumbers<TypeParam> z(shape.num_elements());
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      for (const Direction direction : kDirections) {
        ComplexNumbers<TypeParam> got(shape.num_elements());
        kernels::run_cumulative(ReduceOp::sum, z.view(shape), axis, direction, got.view(shape));
        for (const int part : {0, 1}) {
          const View x = part_of<TypeParam>(z.view(shape), part);
          std::vector<Part> want(z.parts.size() / 2);
          kernels::run_cumulative(ReduceOp::sum, x, axis, direction,
                                  contiguous_view(want.data(), x.dtype, shape));
          for (std::size_t i = 0; i < want.size(); ++i) {
            ASSERT_EQ(got.parts[2 * i + static_cast<std::size_t>(part)], want[i])
                << shape.to_string() << " axis " << axis << " at " << i;
          }
        }
      }
    }
  }
}

TYPED_TEST(Reduce, ScansAlongAnyAxisInBothDirections) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{4, 9}, Shape{3, 5, 2}, Shape{2, 3000},
                             Shape{30, 1500}, Shape{0, 3}}) {
    auto x = numbers<T>(shape.num_elements());
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        for (const Direction direction : kDirections) {
          const auto got = scan(op, x, shape, axis, direction);
          const auto want = plain_scan(x, shape, axis, direction,
                                       [op](T before, T now) { return fold(op, before, now); });
          for (std::size_t i = 0; i < want.size(); ++i) {
            ASSERT_TRUE(same(got[i], want[i]))
                << shape.to_string() << " axis " << axis << " at " << i;
          }
        }
      }
    }
  }
}

TYPED_TEST(Reduce, FindsTheFirstExtremeAlongAnyAxis) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{4, 9}, Shape{3, 5, 2}, Shape{2, 3000},
                             Shape{30, 1500}, Shape{5, 0}}) {
    auto x = numbers<T>(shape.num_elements());
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t i = 0; i < x.size(); i += 11) x[i] = std::numeric_limits<T>::quiet_NaN();
    }
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      if (shape[static_cast<std::size_t>(axis)] == 0) continue;
      Shape kept = shape;
      kept.erase(static_cast<std::size_t>(axis));
      std::int64_t inner = 1;
      for (int d = axis + 1; d < shape.ndim(); ++d) inner *= shape[static_cast<std::size_t>(d)];
      const std::int64_t length = shape[static_cast<std::size_t>(axis)];
      for (bool largest : {true, false}) {
        std::vector<std::int32_t> got(static_cast<std::size_t>(kept.num_elements()));
        const View in = contiguous_view(x.data(), dtype_of<T>, shape),
                   out = contiguous_view(got.data(), i32, kept);
        largest ? kernels::run_argmax(in, axis, out) : kernels::run_argmin(in, axis, out);
        for (std::int64_t i = 0; i < kept.num_elements(); ++i) {
          const auto at = [&](std::int64_t k) {
            return x[static_cast<std::size_t>((i / inner * length + k) * inner + i % inner)];
          };
          std::int64_t best = 0;
          for (std::int64_t k = 1; k < length && at(best) == at(best); ++k) {
            if (at(k) != at(k) || (largest ? at(k) > at(best) : at(k) < at(best))) best = k;
          }
          ASSERT_EQ(got[static_cast<std::size_t>(i)], best)
              << shape.to_string() << " axis " << axis;
        }
      }
    }
  }
}

}  // namespace
