// Eager elementwise kernels against scalar references written another way, for every dtype,
// instruction set and layout.
#include "runtime/kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "telamon/error.hpp"

namespace {

using namespace telamon;
using kernels::Kernel;
using kernels::Op;
using kernels::View;
using runtime::Isa;
__extension__ typedef __int128 Wide;

template <class T>
std::vector<T> interesting(int count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> xs = {T(0),         T(1), T(2), T(3), T(7), Limits::max(), Limits::lowest(),
                       Limits::min()};
  if constexpr (std::is_signed_v<T>)
    xs.insert(xs.end(), {T(-1), T(-2), T(-7), T(Limits::lowest() + 1)});
  if constexpr (std::is_floating_point_v<T>) {
    xs.insert(xs.end(), {T(-0.0), T(0.5), T(-0.5), T(1.5), T(2.5), T(-2.5), T(0.49999997),
                         Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                         Limits::denorm_min(), T(1e9), T(8388609.0)});
  } else {
    xs.insert(xs.end(), {T(8 * sizeof(T)), T(8 * sizeof(T) - 1), T(5), T(100)});
  }
  std::mt19937_64 random(3);
  while (static_cast<int>(xs.size()) < count) {
    if constexpr (std::is_floating_point_v<T>)
      xs.push_back(std::normal_distribution<T>(0, 5)(random));
    else xs.push_back(random() % 2 ? static_cast<T>(random()) : static_cast<T>(random() % 9));
  }
  return xs;
}

template <class T> T wrap(Wide x) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x));
}
/// Only the last bits matter: in the ring of 64-bit integers.
template <class T> T wrapped_product(T a, T b) {
  return wrap<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
template <class T> constexpr int kBits = static_cast<int>(8 * sizeof(T));

template <class T>
T float_max(T a, T b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : a > b ? a : b;
}
template <class T>
T integer_power(T a, T b) {
  std::uint64_t result = 1;
  if (std::is_signed_v<T> && b < 0) return a == 1 ? 1 : a == T(-1) ? (b % 2 == 0 ? 1 : -1) : 0;
  // Only the last bits matter: multiply in the ring.
  for (T i = 0; i < b && i < T(70); ++i) result *= static_cast<std::uint64_t>(a);
  return wrap<T>(result);
}

/// What each operation should give, in words of a wider type.
template <class T>
std::map<Op, std::function<T(T, T)>> references() {
  std::map<Op, std::function<T(T, T)>> r;
  if constexpr (std::is_floating_point_v<T>) {
    r[Op::neg] = [](T a, T) { return -a; };
    r[Op::sign] = [](T a, T) { return std::isnan(a) || a == 0 ? a : std::copysign(T(1), a); };
    r[Op::abs] = [](T a, T) { return std::fabs(a); };
    r[Op::square] = [](T a, T) { return a * a; };
    r[Op::floor] = [](T a, T) { return std::floor(a); };
    r[Op::ceil] = [](T a, T) { return std::ceil(a); };
    r[Op::round_even] = [](T a, T) { return std::nearbyint(a); };
    r[Op::round_away] = [](T a, T) { return std::round(a); };
    r[Op::sqrt] = [](T a, T) { return std::sqrt(a); };
    r[Op::rsqrt] = [](T a, T) { return 1 / std::sqrt(a); };
    r[Op::add] = [](T a, T b) { return a + b; };
    r[Op::sub] = [](T a, T b) { return a - b; };
    r[Op::mul] = [](T a, T b) { return a * b; };
    r[Op::div] = [](T a, T b) { return a / b; };
    r[Op::rem] = [](T a, T b) { return std::fmod(a, b); };
    r[Op::max] = [](T a, T b) { return float_max(a, b); };
    r[Op::min] = [](T a, T b) { return -float_max(-a, -b); };
    r[Op::nextafter] = [](T a, T b) { return std::nextafter(a, b); };
  } else {
    using U = std::make_unsigned_t<T>;
    r[Op::neg] = [](T a, T) { return wrap<T>(-Wide(a)); };
    r[Op::sign] = [](T a, T) { return T((a > 0) - (a < 0)); };
    r[Op::abs] = [](T a, T) { return wrap<T>(a < 0 ? -Wide(a) : Wide(a)); };
    r[Op::square] = [](T a, T) { return wrapped_product(a, a); };
    r[Op::not_] = [](T a, T) { return wrap<T>(-Wide(a) - 1); };
    r[Op::population_count] = [](T a, T) { return T(std::popcount(U(a))); };
    r[Op::clz] = [](T a, T) { return T(std::countl_zero(U(a))); };
    r[Op::add] = [](T a, T b) { return wrap<T>(Wide(a) + Wide(b)); };
    r[Op::sub] = [](T a, T b) { return wrap<T>(Wide(a) - Wide(b)); };
    r[Op::mul] = [](T a, T b) { return wrapped_product(a, b); };
    r[Op::div] = [](T a, T b) { return b == 0 ? wrap<T>(-1) : wrap<T>(Wide(a) / Wide(b)); };
    r[Op::rem] = [](T a, T b) { return b == 0 ? a : wrap<T>(Wide(a) % Wide(b)); };
    r[Op::max] = [](T a, T b) { return std::max(a, b); };
    r[Op::min] = [](T a, T b) { return std::min(a, b); };
    r[Op::and_] = [](T a, T b) { return T(a & b); };
    r[Op::or_] = [](T a, T b) { return T(a | b); };
    r[Op::xor_] = [](T a, T b) { return T(a ^ b); };
    r[Op::shift_left] = [](T a, T b) {
      return U(b) >= kBits<T> ? T(0) : wrap<T>(Wide(U(a)) << U(b));
    };
    r[Op::shift_right_logical] = [](T a, T b) { return U(b) >= kBits<T> ? T(0) : T(U(a) >> U(b)); };
    r[Op::shift_right_arithmetic] = [](T a, T b) {
      const auto s = static_cast<std::make_signed_t<T>>(a);
      return U(b) >= kBits<T> ? wrap<T>(s < 0 ? -1 : 0) : wrap<T>(Wide(s) >> U(b));
    };
    r[Op::pow] = [](T a, T b) { return b > 64 ? T(0) : integer_power(a, b); };
  }
  return r;
}
template <class T>
std::map<Op, std::function<bool(T, T)>> comparisons() {
  std::map<Op, std::function<bool(T, T)>> r;
  r[Op::eq] = [](T a, T b) { return a == b; };
  r[Op::ne] = [](T a, T b) { return a != b; };
  r[Op::lt] = [](T a, T b) { return a < b; };
  r[Op::le] = [](T a, T b) { return a <= b; };
  r[Op::gt] = [](T a, T b) { return a > b; };
  r[Op::ge] = [](T a, T b) { return a >= b; };
  r[Op::is_finite] = [](T a, T) {
    if constexpr (std::is_floating_point_v<T>) return std::isfinite(a);
    else return true;
  };
  if constexpr (std::is_floating_point_v<T>) {
    r[Op::lt_to] = [](T a, T b) { return !std::isnan(a) && (std::strong_order(a, b) < 0); };
    r[Op::eq_to] = [](T a, T b) { return std::strong_order(a, b) == 0; };
  } else {
    r[Op::lt_to] = [](T a, T b) { return a < b; };
    r[Op::le_to] = [](T a, T b) { return a <= b; };
  }
  return r;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return std::signbit(a) == std::signbit(b) && a == b;
  } else {
    return a == b;
  }
}

template <class Body>
void for_each_isa(const Body& body) {
  for (int i = 0; i <= static_cast<int>(runtime::supported_isa()); ++i) body(static_cast<Isa>(i));
}

template <class T>
class ElementwiseKernel : public ::testing::Test {};
using Types = ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                               std::uint16_t, std::uint32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(ElementwiseKernel, Types);

template <class T, class R, class Reference>
void check(Op op, const Reference& reference) {
  const auto values = interesting<T>(40);
  std::vector<T> a, b;
  for (T x : values) {
    for (T y : values) {
      // Powers beyond 64 are not checked: the reference multiplies one by one.
      if (op == Op::pow && !(y <= T(64))) y = T(5);
      a.push_back(x);
      b.push_back(y);
    }
  }
  for_each_isa([&](Isa isa) {
    const Kernel kernel = kernels::find_kernel(op, dtype_of<T>, isa);
    ASSERT_TRUE(kernel) << op_name(op);
    std::vector<R> got(a.size());
    const char* in[] = {reinterpret_cast<char*>(a.data()), reinterpret_cast<char*>(b.data())};
    kernel.loop(static_cast<std::int64_t>(a.size()), in, reinterpret_cast<char*>(got.data()),
                kernel.bound);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const R want = reference(a[i], b[i]);
      ASSERT_TRUE(same(got[i], want))
          << op_name(op) << "(" << +a[i] << ", " << +b[i] << ") = " << +got[i] << ", want " << +want
          << " on " << isa_name(isa);
    }
  });
}

TYPED_TEST(ElementwiseKernel, AgreesWithTheScalarReferenceOnPairsOfSpecialValues) {
  for (const auto& [op, reference] : references<TypeParam>())
    check<TypeParam, TypeParam>(op, reference);
  for (const auto& [op, reference] : comparisons<TypeParam>()) {
    check<TypeParam, std::uint8_t>(
        op, [&](TypeParam a, TypeParam b) { return std::uint8_t(reference(a, b)); });
  }
}

TYPED_TEST(ElementwiseKernel, RaisesToIntegerPowers) {
  using T = TypeParam;
  const auto xs = interesting<T>(300);
  for (int y : {0, 1, 2, 3, 5, 10, 31, -1, -2, -3}) {
    std::vector<T> got(xs.size());
    const View in = kernels::contiguous_view(const_cast<T*>(xs.data()), dtype_of<T>, Shape{300});
    kernels::run_elementwise(Op::integer_pow, dtype_of<T>, {&in, 1},
                             kernels::contiguous_view(got.data(), dtype_of<T>, Shape{300}), &y);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        const T want = std::pow(xs[i], T(y));
        // Rounding only: overflow and underflow in between are allowed at the extremes.
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(got[i]));
        } else if (std::isfinite(want) && std::fabs(want) > 1e-30) {
          EXPECT_NEAR(got[i] / want, 1, 1e-5);
        }
      } else {
        const T power = integer_power(xs[i], T(y < 0 ? -y : y));
        const T want = y >= 0 ? power : references<T>()[Op::div](T(1), power);
        EXPECT_EQ(got[i], want) << +xs[i] << "^" << y;
      }
    }
  }
}

TYPED_TEST(ElementwiseKernel, ClampsAndSelects) {
  using T = TypeParam;
  const std::vector<T> xs = {T(0), T(1), T(5), T(9), T(3)};
  const T low = 2, high = 6;
  std::vector<T> got(5);
  const View in[] = {{reinterpret_cast<char*>(const_cast<T*>(&low)), dtype_of<T>, {}, {}},
                     kernels::contiguous_view(const_cast<T*>(xs.data()), dtype_of<T>, Shape{5}),
                     {reinterpret_cast<char*>(const_cast<T*>(&high)), dtype_of<T>, {}, {}}};
  const View out = kernels::contiguous_view(got.data(), dtype_of<T>, Shape{5});
  kernels::run_elementwise(Op::clamp, dtype_of<T>, in, out);
  EXPECT_EQ(got, (std::vector<T>{2, 2, 5, 6, 3}));

  bool which[] = {true, false, true, false, false};
  const View cases[] = {kernels::contiguous_view(which, DType::bool_, Shape{5}), in[0], in[1]};
  kernels::run_elementwise(Op::select, dtype_of<T>, cases, out);
  EXPECT_EQ(got, (std::vector<T>{0, 2, 5, 2, 2}));
}

/// Lays `count` elements out with a stride of `step` elements and gives the view of them.
template <class T>
View laid_out(std::vector<T>& memory, const std::vector<T>& values, std::int64_t step) {
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t apart = step < 0 ? -step : step;
  memory.assign(static_cast<std::size_t>(n * std::max<std::int64_t>(apart, 1) + 1), T(77));
  T* first = memory.data() + (step < 0 ? (n - 1) * apart : 0);
  for (std::int64_t i = 0; i < n; ++i) first[i * step] = values[static_cast<std::size_t>(i)];
  return {reinterpret_cast<char*>(first), dtype_of<T>, Shape{n},
          Shape{step * static_cast<std::int64_t>(sizeof(T))}};
}

TYPED_TEST(ElementwiseKernel, GivesTheSameForEveryLayoutAndLength) {
  using T = TypeParam;
  for (std::int64_t n : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 127, 129, 511, 513, 1500}) {
    std::vector<T> a, b, want(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      a.push_back(static_cast<T>(i % 50 + 1));
      b.push_back(static_cast<T>(i % 7 + 1));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      want[static_cast<std::size_t>(i)] =
          static_cast<T>(a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t a_step : {1, 2, -1, 3}) {
      for (std::int64_t b_step : {1, -2}) {
        for (std::int64_t out_step : {1, 2, -1}) {
          std::vector<T> a_memory, b_memory, out_memory;
          const View in[] = {laid_out(a_memory, a, a_step), laid_out(b_memory, b, b_step)};
          const View out = laid_out(out_memory, std::vector<T>(a.size(), T(0)), out_step);
          kernels::run_elementwise(Op::sub, dtype_of<T>, in, out);
          for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(*reinterpret_cast<T*>(out.data + i * out.strides[0]),
                      want[static_cast<std::size_t>(i)]);
          }
          ASSERT_EQ(out_memory.back(), T(77)) << "wrote past the end";
        }
      }
    }
  }
}

TEST(ElementwiseKernelNd, BroadcastsRowsColumnsAndScalarsOfAnyShape) {
  // Every shape with broadcast operands, against an index loop; long and short rows.
  for (const Shape& shape : {Shape{3, 5}, Shape{1000, 3}, Shape{3, 1000}, Shape{2, 3, 4},
                             Shape{300, 200}, Shape{2, 1, 3, 5}, Shape{0, 4}, Shape{}}) {
    const std::size_t rank = shape.size();
    for (unsigned mask = 0; mask < (1u << rank); ++mask) {
      Shape a_shape = shape, b_shape = shape;
      for (std::size_t d = 0; d < rank; ++d) {
        if ((mask >> d) & 1) a_shape[d] = 1;
        else if (d + 1 == rank) b_shape[d] = 1;
      }
      std::vector<double> a(static_cast<std::size_t>(a_shape.num_elements())),
          b(static_cast<std::size_t>(b_shape.num_elements())),
          got(static_cast<std::size_t>(shape.num_elements()));
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i) * 1e-4;
      const View in[] = {kernels::contiguous_view(a.data(), f64, a_shape),
                         kernels::contiguous_view(b.data(), f64, b_shape)};
      kernels::run_elementwise(Op::add, f64, in, kernels::contiguous_view(got.data(), f64, shape));
      for (std::size_t i = 0; i < got.size(); ++i) {
        std::size_t rest = i, a_at = 0, b_at = 0, a_stride = 1, b_stride = 1;
        for (std::size_t d = rank; d-- > 0;) {
          const auto size = static_cast<std::size_t>(shape[d]);
          if (a_shape[d] != 1) a_at += rest % size * a_stride;
          if (b_shape[d] != 1) b_at += rest % size * b_stride;
          a_stride *= static_cast<std::size_t>(a_shape[d]);
          b_stride *= static_cast<std::size_t>(b_shape[d]);
          rest /= size;
        }
        ASSERT_EQ(got[i], a[a_at] + b[b_at])
            << shape.to_string() << " at " << i << " mask " << mask;
      }
    }
  }
}

TEST(ElementwiseKernelNd, MayWriteOverAnOperand) {
  std::vector<float> x(5000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const View view = kernels::contiguous_view(x.data(), f32, Shape{5000});
  const View in[] = {view, view};
  kernels::run_elementwise(Op::add, f32, in, view);
  kernels::run_elementwise(Op::neg, f32, {&view, 1}, view);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], -2 * static_cast<float>(i));
}

TEST(ElementwiseKernelNd, ComputesLargeArraysOnSeveralThreads) {
  const std::int64_t n = 3'000'001;
  std::vector<float> x(static_cast<std::size_t>(n), 2.0f), y(x.size());
  x.back() = 9;
  const View in = kernels::contiguous_view(x.data(), f32, Shape{n});
  kernels::run_elementwise(Op::sqrt, f32, {&in, 1},
                           kernels::contiguous_view(y.data(), f32, Shape{n}));
  EXPECT_EQ(y.back(), 3.0f);
  for (std::size_t i = 0; i + 1 < y.size(); ++i) ASSERT_EQ(y[i], std::sqrt(2.0f));
}

TEST(ElementwiseKernelBool, KnowsLogic) {
  bool a[] = {false, false, true, true}, b[] = {false, true, false, true};
  const View in[] = {kernels::contiguous_view(a, boolean, Shape{4}),
                     kernels::contiguous_view(b, boolean, Shape{4})};
  const std::map<Op, std::vector<int>> want = {
      {Op::and_, {0, 0, 0, 1}}, {Op::or_, {0, 1, 1, 1}}, {Op::xor_, {0, 1, 1, 0}},
      {Op::add, {0, 1, 1, 1}},  {Op::mul, {0, 0, 0, 1}}, {Op::max, {0, 1, 1, 1}},
      {Op::min, {0, 0, 0, 1}},  {Op::eq, {1, 0, 0, 1}},  {Op::ne, {0, 1, 1, 0}},
      {Op::lt, {0, 1, 0, 0}},   {Op::ge, {1, 0, 1, 1}}};
  for (const auto& [op, values] : want) {
    bool got[4];
    kernels::run_elementwise(op, boolean, in, kernels::contiguous_view(got, boolean, Shape{4}));
    EXPECT_EQ(std::vector<int>(got, got + 4), values) << op_name(op);
  }
  bool got[4];
  kernels::run_elementwise(Op::not_, boolean, {in, 1},
                           kernels::contiguous_view(got, boolean, Shape{4}));
  EXPECT_EQ(std::vector<int>(got, got + 4), (std::vector<int>{1, 1, 0, 0}));
}

template <class T>
void expect_sums_of_parts() {
  using Part = decltype(T{}.re);
  constexpr DType kType = dtype_of<T>;
  constexpr std::int64_t kSize = sizeof(T);
  const std::vector<Part> numbers = interesting<Part>(600);
  std::vector<T> a, b;
  for (std::size_t i = 0; i < 300; ++i) {
    a.push_back({numbers[2 * i], numbers[2 * i + 1]});
    b.push_back({numbers[599 - i], numbers[i]});
  }
  const auto same = [](Part x, Part y) {
    return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
  };
  const auto view = [&](std::vector<T>& x, const Shape& shape, Shape steps) {
    for (auto& s : steps) s *= kSize;
    return View{reinterpret_cast<char*>(x.data()), kType, shape, steps};
  };
  for (const std::int64_t n : {1, 2, 3, 7, 16, 33, 99}) {
    const Shape shape{n, 3};
    for (const auto& [x_steps, y_steps] : {std::pair{Shape{3, 1}, Shape{3, 1}},
                                           {Shape{3, 1}, Shape{0, 1}},
                                           {Shape{1, n}, Shape{1, 0}},
                                           {Shape{3, 1}, Shape{0, 0}},
                                           {Shape{2, 1}, Shape{1, 2}}}) {
      for (const Op op : {Op::neg, Op::add, Op::sub}) {
        std::vector<T> got(static_cast<std::size_t>(3 * n));
        const View in[] = {view(a, shape, x_steps), view(b, shape, y_steps)};
        kernels::run_elementwise(op, kType, {in, op == Op::neg ? 1u : 2u},
                                 kernels::contiguous_view(got.data(), kType, shape));
        for (std::int64_t i = 0; i < 3 * n; ++i) {
          const T x = a[static_cast<std::size_t>(i / 3 * x_steps[0] + i % 3 * x_steps[1])];
          const T y = b[static_cast<std::size_t>(i / 3 * y_steps[0] + i % 3 * y_steps[1])];
          const T want = op == Op::neg   ? T{-x.re, -x.im}
                         : op == Op::add ? T{x.re + y.re, x.im + y.im}
                                         : T{x.re - y.re, x.im - y.im};
          const T z = got[static_cast<std::size_t>(i)];
          ASSERT_TRUE(same(z.re, want.re) && same(z.im, want.im))
              << op_name(op) << " at " << i << " of " << shape.to_string();
        }
      }
    }
  }
}
TEST(ElementwiseKernelComplex, TakesThePartsOfSumsByThemselves) {
  expect_sums_of_parts<Complex64>();
  expect_sums_of_parts<Complex128>();
}

// Each product is rounded, and each sum of two, wherever in an array it stands: vectors do what is done with what is left
// after them.
template <class T>
void expect_products_of_parts() {
  using Part = decltype(T{}.re);
  constexpr Part kInfinity = std::numeric_limits<Part>::infinity(),
                 kLarge = std::numeric_limits<Part>::max();
  const auto product = [](T x, T y) {
    const volatile Part rr = x.re * y.re, ii = x.im * y.im, ri = x.re * y.im, ir = x.im * y.re;
    return T{rr - ii, ri + ir};
  };
  const auto expect_all = [](const std::vector<T>& got, T want, Op op, Isa isa) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(same(got[i].re, want.re) && same(got[i].im, want.im))
          << op_name(op) << " at " << i << " of " << got.size() << " on " << isa_name(isa) << ": "
          << got[i].re << ", " << got[i].im << ", not " << want.re << ", " << want.im;
    }
  };
  for (const auto& [x, y] : {std::pair{T{Part(88.9), 3.25}, T{100.5, Part(-7.75)}},
                             {T{Part(0.1), Part(0.3)}, T{Part(0.7), Part(-0.9)}},
                             {T{kLarge, kInfinity}, T{0.5, -7.75}},
                             {T{kLarge, 2}, T{kLarge, kLarge}},
                             {T{0, Part(-0.0)}, T{Part(-0.0), 0}}}) {
    for (std::size_t n = 1; n < 40; ++n) {
      const std::vector<T> a(n, x), b(n, y);
      const char* in[] = {reinterpret_cast<const char*>(a.data()),
                          reinterpret_cast<const char*>(b.data())};
      for_each_isa([&](Isa isa) {
        std::vector<T> got(n);
        const auto run = [&](Op op, const void* params) {
          const Kernel kernel = kernels::find_kernel(op, dtype_of<T>, isa);
          kernel.loop(static_cast<std::int64_t>(n), in, reinterpret_cast<char*>(got.data()),
                      params != nullptr ? params : kernel.bound);
        };
        run(Op::mul, nullptr);
        expect_all(got, product(x, y), Op::mul, isa);
        const int two = 2;
        run(Op::integer_pow, &two);
        expect_all(got, product(x, x), Op::integer_pow, isa);
      });
    }
  }
}
TEST(ElementwiseKernelComplex, RoundsProductsOfPartsWhereverTheyStand) {
  expect_products_of_parts<Complex64>();
  expect_products_of_parts<Complex128>();
}

TEST(ElementwiseKernelSmallFloat, ComputesInF32AndRoundsOnce) {
  // 1 + 2^-11 is a tie in f16 and rounds to even; 3 * (1/3) in bf16.
  std::vector<std::uint16_t> a(700, 0x3c00), b(700, 0x1000), got(700);  // 1.0, 2^-11
  const View in[] = {kernels::contiguous_view(a.data(), f16, Shape{700}),
                     kernels::contiguous_view(b.data(), f16, Shape{700})};
  kernels::run_elementwise(Op::add, f16, in, kernels::contiguous_view(got.data(), f16, Shape{700}));
  for (auto x : got) ASSERT_EQ(x, 0x3c00);
  kernels::run_elementwise(Op::exp, f16, {in, 1},
                           kernels::contiguous_view(got.data(), f16, Shape{700}));
  for (auto x : got) ASSERT_EQ(x, 0x4170);  // 2.71875
  std::vector<std::uint8_t> less(700);
  kernels::run_elementwise(Op::lt, f16, in,
                           kernels::contiguous_view(less.data(), boolean, Shape{700}));
  for (auto x : less) ASSERT_EQ(x, 0);
}

TEST(ElementwiseKernelErrors, NamesTheOperationAndTheDtype) {
  float x = 1;
  const View view = kernels::contiguous_view(&x, f32, Shape{1});
  try {
    kernels::run_elementwise(Op::population_count, f32, {&view, 1}, view);
    FAIL();
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("population_count has no evaluation rule for dtype f32"),
              std::string::npos);
  }
}

TEST(ElementwiseKernelMath, CallsTheVectorMathFunctions) {
  std::vector<double> x(1000), y(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.01 * static_cast<double>(i);
  for (const auto& [op, f] : std::map<Op, double (*)(double)>{{Op::exp, std::exp},
                                                              {Op::sin, std::sin},
                                                              {Op::erf, std::erf},
                                                              {Op::log1p, std::log1p}}) {
    View in = kernels::contiguous_view(x.data(), f64, Shape{1000});
    kernels::run_elementwise(op, f64, {&in, 1},
                             kernels::contiguous_view(y.data(), f64, Shape{1000}));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(y[i], f(x[i]), 1e-14 * std::fabs(f(x[i]))) << op_name(op);
    in = {reinterpret_cast<char*>(x.data()), f64, Shape{500}, Shape{16}};
    kernels::run_elementwise(op, f64, {&in, 1},
                             kernels::contiguous_view(y.data(), f64, Shape{500}));
    for (std::size_t i = 0; i < 500; ++i)
      ASSERT_NEAR(y[i], f(x[2 * i]), 1e-14 * std::fabs(f(x[2 * i]))) << op_name(op);
  }
}

}  // namespace
