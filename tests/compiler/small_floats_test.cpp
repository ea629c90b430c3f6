// Programs of 16-bit floats: one kernel, and the bits of eager evaluation.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "compiler/support.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/special.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr DType kSmall[] = {DType::f16, DType::bf16};

/// Whether kernels have them: where the processor has no instructions for f16, calls do.
bool in_kernels(DType dtype) {
  return dtype == DType::bf16 || runtime::target_isa() != runtime::Isa::generic;
}
void expect_kernels_alone(const Compiled& e, DType dtype) {
  if (in_kernels(dtype)) { EXPECT_THAT(e->text("plan"), Not(HasSubstr("call"))); }
}

/// Every 16-bit pattern: NaNs, infinities, denormal numbers, zeros of both signs.
Array all_numbers(DType dtype) {
  const Array bits = lax::convert_element_type(lax::iota(DType::i32, {1 << 16}), DType::u16);
  return lax::bitcast_convert_type(bits, dtype);
}

TEST(SmallFloats, OfEveryBitPatternAreComputedAsTheyAreEagerly) {
  for (const DType dtype : kSmall) {
    const Array x = all_numbers(dtype), y = lax::rev(x, {0});
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array &x = a[0], &y = a[1];
          return Arrays{x + y,
                        x - y,
                        x * y,
                        x / y,
                        -x,
                        abs(x),
                        lax::max(x, y),
                        sqrt(x),
                        lax::lt(x, y),
                        lax::is_finite(x),
                        lax::select(lax::lt(x, y), x, y),
                        lax::floor(x),
                        lax::sign(x),
                        lax::integer_pow(x, 2)};
        },
        {x, y});
    expect_kernels_alone(e, dtype);
  }
}

TEST(SmallFloats, AreConvertedFromAndToEveryType) {
  for (const DType dtype : kSmall) {
    for (const DType other :
         {DType::f16, DType::bf16, DType::f32, DType::f64, DType::bool_, DType::i8, DType::u8,
          DType::i16, DType::u16, DType::i32, DType::u32, DType::i64}) {
      const auto to = [](const Array& x, DType d) { return lax::convert_element_type(x, d); };
      check([&](std::span<const Array> a) { return Arrays{to(a[0], other)}; },
            {all_numbers(dtype)});
      check([&](std::span<const Array> a) { return Arrays{to(a[0], dtype)}; },
            {to(lax::iota(DType::i32, {1 << 16}) * 3 - (1 << 16), other)});
    }
    // Whole numbers about the largest f16, beyond those that f32 has, and the largest.
    for (const DType wide : {DType::i32, DType::u32, DType::i64, DType::u64}) {
      for (const std::int64_t least : {65500, (1 << 24) - 20, 0x7fffffff - 50}) {
        const Array few =
            lax::convert_element_type(lax::iota(DType::i32, {50}), DType::i64) + Array(least);
        for (const Array& x : {few, few * -1, few * 0x7fff})
          check(
              [&](std::span<const Array> a) {
                return Arrays{lax::convert_element_type(a[0], dtype)};
              },
              {lax::convert_element_type(x, wide)});
      }
    }
    // What lies between two numbers, and just beside the middle, goes to the even or the nearer one.
    const Array x = lax::convert_element_type(all_numbers(dtype), DType::f32);
    const Array bits = lax::bitcast_convert_type(x, DType::u32);
    const unsigned half = dtype == DType::f16 ? 1u << 12 : 1u << 15;
    for (const unsigned beside : {half - 1, half, half + 1}) {
      const Array near = lax::bitcast_convert_type(bits + Array(beside), DType::f32);
      check(
          [&](std::span<const Array> a) { return Arrays{lax::convert_element_type(a[0], dtype)}; },
          {near});
    }
  }
}

/// Whole numbers that a number between two of bf16, or one beside it, becomes by a rounding to fewer digits first.
Array hard_to_round(DType from) {
  const int bits = static_cast<int>(8 * size_of(from)) - (is_unsigned_integer(from) ? 0 : 1);
  std::vector<std::uint64_t> all;
  for (int last = 9; last < bits; ++last) {
    for (const std::uint64_t significand : {0x101u, 0x103u, 0x17du, 0x1ffu}) {
      const std::uint64_t middle = (significand << (last - 8));
      for (int beside = 0; beside < last - 8; ++beside) {
        for (const std::uint64_t x :
             {middle, middle - (std::uint64_t{1} << beside), middle + (std::uint64_t{1} << beside)})
          all.push_back(x);
      }
    }
  }
  const Array x = array(all);
  const Array whole = lax::convert_element_type(x, from);
  return is_unsigned_integer(from) ? whole : concatenate({whole, -whole});
}

/// The bits of the bf16 that is nearest to a whole number, by long arithmetic.
std::uint16_t nearest_bf16(bool negative, std::uint64_t magnitude) {
  int below = 0;  // digits beyond eight
  while ((magnitude >> below) > 0xff) ++below;
  std::uint64_t digits = magnitude >> below;
  const std::uint64_t rest = magnitude - (digits << below);
  const std::uint64_t half = below == 0 ? 1 : std::uint64_t{1} << (below - 1);
  if (rest > half || (rest == half && digits % 2 == 1)) ++digits;
  const double value = std::ldexp(static_cast<double>(digits), below);
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(negative ? -value : value));
  return static_cast<std::uint16_t>(bits >> 16);
}

TEST(SmallFloats, AreTheNearestToWholeNumbersOfEverySize) {
  // Within an operation's own code; otherwise kernels of the runtime convert these.
  static const Primitive<NoParams> bits_p{"small_floats_bits"};
  bits_p.def_abstract_eval(
      [](const NoParams&, std::span<const Aval> x) { return x[0].with_dtype(DType::u16); });
  bits_p.def_lower(element<NoParams>([](Emitter& e, const NoParams&, std::span<const Scalar> x) {
    return e.bitcast(e.convert(x[0], DType::bf16), DType::u16);
  }));
  for (const DType from : {DType::i32, DType::u32, DType::i64, DType::u64}) {
    const Array x = hard_to_round(from);
    std::vector<std::uint16_t> want;
    if (is_unsigned_integer(from)) {
      for (const auto n : x.to_vector<std::uint64_t>()) want.push_back(nearest_bf16(false, n));
    } else {
      for (const auto n : x.to_vector<std::int64_t>())
        want.push_back(nearest_bf16(n < 0, static_cast<std::uint64_t>(n < 0 ? -n : n)));
    }
    const auto bits = [](const Array& y) { return lax::bitcast_convert_type(y, DType::u16); };
    const Program f = [&](std::span<const Array> a) {
      return Arrays{bits(lax::convert_element_type(a[0], DType::bf16))};
    };
    EXPECT_EQ(f(Arrays{x})[0].to_vector<std::uint16_t>(), want) << from;
    const Program own = [](std::span<const Array> a) { return Arrays{bits_p.bind1({}, {a[0]})}; };
    for (const Program& program : {f, own}) {
      const Array got = execute(compile(stage(program, {x})), {x})[0];
      EXPECT_EQ(got.to_vector<std::uint16_t>(), want) << from;
    }
    if (from != DType::i64) continue;
    const Array zero = zeros({}, DType::bf16);
    const auto numbers = x.to_vector<std::int64_t>();  // weak constants below
    for (std::size_t i = 0; i < want.size(); i += 7)
      EXPECT_EQ(bits(zero + Array(numbers[i])).item<std::uint16_t>(), want[i]) << numbers[i];
  }
}

// A number of the program's text, a weak constant, and an element of an array.
TEST(SmallFloats, AreTheNearestToNumbersInDoubleWhereverTheseStand) {
  const double above = 1 + 0x1p-8, beside = above + 0x1p-40;
  for (const auto& [x, want] : {std::pair{above, 1.0}, std::pair{beside, 1 + 0x1p-7},
                                std::pair{-beside, -1 - 0x1p-7}, std::pair{3.4e38, 3.4e38}}) {
    const Array nearest = lax::convert_element_type(Array(want), DType::bf16);
    const double expected = nearest.item<double>();
    const Array element = lax::convert_element_type(array({x}), DType::bf16);
    EXPECT_EQ(element.item<double>(), expected);
    EXPECT_EQ(full({}, x, DType::bf16).item<double>(), expected);
    EXPECT_EQ((zeros({}, DType::bf16) + x).item<double>(), expected);
  }
}

// Which the small type may not have: 257 is even in bf16, as 2,049 is in f16.
TEST(SmallFloats, AreTakenToWholePowersThatTheirTypeHas) {
  const Program power = [](std::span<const Array> a) {
    return Arrays{pow_p.bind1({}, {a[0], a[1]})};
  };
  const Array k = Array({257, 2049, 32'767, -32'767, 3, -2, 0});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const double x : {-1.0, -0.0, 0.0, 1.0078125, -std::numeric_limits<double>::infinity()}) {
      const Array base = lax::convert_element_type(lax::full({7}, DType::f64, x), dtype);
      for (const DType whole : {DType::i16, DType::i32, DType::i64, DType::u16}) {
        if (whole == DType::u16)
          check(power, {base, lax::convert_element_type(lax::abs(k), whole)});
        else check(power, {base, lax::convert_element_type(k, whole)});
      }
      check([](std::span<const Array> a) { return Arrays{pow_p.bind1({}, {a[0], Array(2049)})}; },
            {lax::reshape(lax::slice_in_dim(base, 0, 1), {})});
    }
  }
}

TEST(SmallFloats, RoundAfterEveryOperation) {
  for (const DType dtype : kSmall) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{((a[0] * a[1] + a[0]) * a[1] - a[0]) / (a[0] * a[0] + 1) + exp(a[1])};
        },
        {uniform({1000}, dtype), uniform({1000}, dtype, -2, 2, 2)}, in_kernels(dtype) ? 1 : -1);
    expect_kernels_alone(e, dtype);
  }
}

TEST(SmallFloats, AreMovedAndFoldedWithinKernels) {
  for (const DType dtype : kSmall) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array row = max(a[0], 1), y = transpose(a[0] * 2) + a[1];
          return Arrays{row, lax::reshape(y, {20, 35}), lax::argmax(a[0] + 1, 1, DType::i32),
                        lax::concatenate(Arrays{row, row * row}, 0),
                        lax::slice(a[0] + a[0], {1, 2}, {5, 30})};
        },
        {uniform({20, 35}, dtype), uniform({20}, dtype)});
    expect_kernels_alone(e, dtype);
    // Sums are taken in f32: the order matters, though hardly ever after rounding.
    check([](std::span<const Array> a) { return Arrays{sum(a[0], 1), sum(a[0] * a[0])}; },
          {uniform({7, 1000}, dtype)}, -1, dtype == DType::f16 ? 1 << 13 : 1 << 16);
  }
}

// What only moves them, and what reads few of many, converts nothing.
TEST(SmallFloats, ThatNobodyComputesWithStayWhatTheyAre) {
  for (const DType dtype : kSmall) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{transpose(a[0]), take(a[0], a[1], 0),
                        lax::concatenate(Arrays{a[0], a[0]}, 0)};
        },
        {uniform({50, 16}, dtype), lax::iota(DType::i32, {9})});
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32"))) << e->text("jaxpr");
  }
}

// Moves are of bits, for which no processor needs instructions: no call, no conversion, and NaNs that stay what they are.
TEST(SmallFloats, AreMovedByKernelsWhateverTheirBits) {
  for (const DType dtype : kSmall) {
    const Array all = all_numbers(dtype);
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array rows = lax::reshape(a[0], {16384, 4}), points = rows(slice(), slice(0, 3));
          return Arrays{
              transpose(rows),
              transpose(points, {1, 0}),
              lax::rev(points, {1}),
              stack(Arrays{rows(slice(), 1), rows(slice(), 3)}, 1),
              roll(a[0], 77),
              pad(rows, {{1, 2}, {0, 3}}),
              repeat(points, 2, 1),
              broadcast_to(rows(slice(), slice(1, 2)), {16384, 5}),
              lax::concatenate(Arrays{rows, points}, 1),
              take(rows, a[1], 0),
              take(points, a[2], 1),
              rows(slice(none, none, 3), slice(none, none, 2)),
              lax::dynamic_slice(rows, Arrays{a[1](0), a[1](3)}, {9, 2}),
              lax::dynamic_update_slice(rows, points(slice(0, 2)), Arrays{a[1](1), a[1](3)})};
        },
        {all, array({7, 300, 16383, 0}), array({2, 0, 1})});
    EXPECT_THAT(e->text("plan"), Not(HasSubstr("call"))) << e->text("plan");
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32"))) << e->text("jaxpr");
  }
}

// What lies between two that compute stays as wide as they are; rounded once, as if it had been stored.
TEST(SmallFloats, AreMovedAsWideAsTheyAreBetweenTwoThatCompute) {
  for (const DType dtype : kSmall) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          const Array d = a[0](slice(1, none)) * a[0](slice(none, -1));
          return Arrays{pad(d, {{1, 0}}) - pad(d, {{0, 1}}), pad(d, {{2, 2}})};
        },
        {uniform({1000}, dtype)});
    expect_kernels_alone(e, dtype);
    if (!in_kernels(dtype)) continue;
    const std::string padded = std::string(short_name(dtype)) + "[1003] = pad";
    EXPECT_THAT(e->text("jaxpr"), HasSubstr(padded)) << e->text("jaxpr");
    EXPECT_THAT(e->text("jaxpr"), HasSubstr("f32[1000] = pad")) << e->text("jaxpr");
  }
}

TEST(SmallFloats, InLoopsBranchesProductsAndGradients) {
  for (const DType dtype : kSmall) {
    check(
        [](std::span<const Array> a) {
          const auto step = [&](const Array& c, const Array& row) {
            const Array next = c * 0.5 + row;
            return std::pair{next, next * c};
          };
          const auto [last, rows] = scan(step, a[1], a[0]);
          return Arrays{last, rows,
                        cond(
                            sum(a[1]) > 0, [](Array y) { return y * 2 + 1; },
                            [](Array y) { return -y; }, a[1])};
        },
        {uniform({6, 40}, dtype), uniform({40}, dtype)});
    const Program f = [](std::span<const Array> a) {
      const auto loss = [&](const Array& w) { return sum(lax::max(matmul(a[0], w), 0) * a[2]); };
      return Arrays{matmul(a[0], a[1]), grad(loss)(a[1])};
    };
    check(f, {uniform({8, 5}, dtype), uniform({5, 3}, dtype), uniform({8, 3}, dtype)}, -1,
          dtype == DType::f16 ? 1 << 14 : 1 << 17);
  }
}

// Large products with vectors read each number of the matrix once: as it is, from either side.
TEST(SmallFloats, OfMatricesTimesVectorsStayAsMemoryHoldsThem) {
  for (const DType dtype : kSmall) {
    const Compiled e = check(
        [](std::span<const Array> a) {
          return Arrays{matmul(a[0], a[3]) + 1, matmul(a[4], a[1]), matmul(a[2].T(), a[4])};
        },
        {uniform({400, 300}, dtype), uniform({400, 300}, dtype, -1, 1, 2),
         uniform({400, 300}, dtype, -1, 1, 3), uniform({300}, dtype), uniform({400}, dtype)});
    if (runtime::target_isa() == runtime::Isa::generic) continue;
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32[400,300]"))) << e->text("jaxpr");
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f32[300,400]"))) << e->text("jaxpr");
  }
}

// A processor that multiplies pairs of bf16 takes them from memory, two to a word.
TEST(SmallFloats, OfLargeProductsAreTakenInPairsWhereTheyLie) {
  const Program f = [](std::span<const Array> a) {
    const auto loss = [&](const Array& w) {
      return sum(lax::max(matmul(a[0], w) + a[2], 0) * a[3]);
    };
    const Shape contracting{1}, rows{0};
    return Arrays{
        matmul(a[0], a[1].T()), lax::dot_general(a[0], a[0], {rows, rows, {}, {}}, DType::f32),
        vmap([&](const Array& x) { return matmul(x, x.T()); })(a[4]), grad(loss)(a[1].T())};
  };
  const DType bf16 = DType::bf16;
  const Arrays inputs{uniform({90, 70}, bf16), uniform({80, 70}, bf16, -1, 1, 2),
                      uniform({80}, bf16, -1, 1, 3), uniform({90, 80}, bf16, -1, 1, 4),
                      uniform({3, 64, 50}, bf16, -1, 1, 5)};
  const Compiled e = check(f, inputs, -1, 1 << 17);
  const auto is_widened = [&](const char* type) {
    return e->text("jaxpr").find(type) != std::string::npos;
  };
  if (!runtime::multiplies_bf16_pairs(runtime::target_isa())) {
    EXPECT_TRUE(is_widened("f32[90,70]")) << e->text("jaxpr");
    return;
  }
  for (const char* const type : {"f32[90,70]", "f32[80,70]", "f32[70,80]", "f32[3,64,50]"})
    EXPECT_FALSE(is_widened(type)) << type << "\n" << e->text("jaxpr");
  EXPECT_GT(e->memory_analysis({}).scratch, 4 * 90 * (70 + 80));
}

// One operation of the user's, of which the library does not know what it does within: here it rounds twice.
TEST(SmallFloats, LeaveOperationsOfUsersToThemselves) {
  static const Primitive<NoParams> own_p{"small_floats_own"};
  own_p.def_abstract_eval([](const NoParams&, std::span<const Aval> x) { return x[0]; });
  own_p.def_impl(
      [](const NoParams&, std::span<const Array> x) { return Arrays{x[0] * x[0] + 0.1}; });
  own_p.def_lower(element<NoParams>([](Emitter& e, const NoParams&, std::span<const Scalar> x) {
    return e.add(e.mul(x[0], x[0]), e.constant(x[0].dtype(), 0.1));
  }));
  for (const DType dtype : kSmall)
    check([](std::span<const Array> a) { return Arrays{own_p.bind1({}, {a[0]}) + a[0]}; },
          {uniform({1000}, dtype)});
}

// One number of a kernel, which all lanes store: rounded by itself, and then repeated.
TEST(SmallFloats, OfOneNumberAreRepeated) {
  for (const DType dtype : kSmall) {
    check(
        [dtype](std::span<const Array> a) {
          const auto along = [](const Array& x) { return lax::broadcast_in_dim(x, {6, 64}, {0}); };
          const Array z = matmul(a[2], a[2].T()), t = tanh(z);
          return Arrays{lax::broadcast_in_dim(a[0] * a[0], {64}, {}),
                        along(a[1] * a[1]),
                        along(lax::reduce_max(a[2] + a[2], {1})),
                        lax::convert_element_type(along(a[3]), dtype),
                        lax::round(lax::integer_pow(a[2], 0)),
                        z,
                        1 - t * t};
        },
        {uniform({}, dtype), uniform({6}, dtype), uniform({6, 64}, dtype),
         uniform({6}, DType::f32)});
  }
}

TEST(SmallFloats, OfOneElementAndOfNone) {
  for (const DType dtype : kSmall) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{3, 0}}) {
      check([](std::span<const Array> a) { return Arrays{a[0] * a[0] + 0.3, exp(a[0])}; },
            {uniform(shape, dtype)});
    }
  }
}

// Sums at places are of 16 bits each time: what is added to a large number one by one is lost, and all at once would
// not be. Rows of every kind of loop: one element, a few, many; few updates and many.
TEST(SmallFloats, AreAddedAtPlacesOneAfterTheOther) {
  for (const DType dtype : kSmall) {
    const double large = dtype == DType::f16 ? 2048 : 256;
    for (const std::int64_t width : {1, 3, 70}) {
      for (const std::int64_t n : {3, 20000}) {  // more than 2 MB, which threads share
        // Dense, as programs take them.
        const auto numbers = [dtype](const Shape& shape, double value) {
          const auto size = static_cast<std::size_t>(shape.num_elements());
          return reshape(Array(std::vector<double>(size, value)), shape).astype(dtype);
        };
        const Array x = numbers({3, width}, large), u = numbers({n, width}, 1), at = arange(n) % 2;
        const Compiled e = check(
            [](std::span<const Array> a) {
              return Arrays{a[0].at(a[1]).add(a[2]), a[0].at(a[1]).set(a[2])};
            },
            {x, at, u});
        expect_same_for_any_number_of_threads(e, {x, at, u});
        EXPECT_TRUE(array_equal(x.at(at).add(u), x)) << width << " x " << n;
        EXPECT_THAT(e->text("plan"), Not(HasSubstr("call scatter")));
        // There is no other loop for them.
        const Jaxpr sum = stage(
            [](std::span<const Array> a) { return Arrays{a[0].at(a[1]).add(a[2])}; }, {x, at, u});
        const Compiled without = compile(sum, {.disabled = {"native_kernels"}});
        expect_equal(execute(without, {x, at, u})[0], x, 0, "without native_kernels");
        const Array sums = zeros({3, width}, dtype).at(at).add(u);
        const std::int64_t there = (n + 1) / 2;
        const double most = std::min(large, static_cast<double>(there));
        EXPECT_EQ(sums.at(0, width - 1).get().astype(DType::f64).item<double>(), most);
      }
    }
  }
}

}  // namespace
}  // namespace telamon::testing
