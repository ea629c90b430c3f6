// Elementwise programs: every primitive, tails of every length, one kernel for a fused chain.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "core/concrete.hpp"
#include "runtime/cpu.hpp"
#include "runtime/target_isa.hpp"
#include "support.hpp"
#include "telamon/indexing.hpp"
#include "telamon/memory.hpp"
#include "telamon/numpy.hpp"
#include "telamon/random.hpp"
#include "telamon/special.hpp"

namespace telamon::testing {
namespace {

using Unary = Array (*)(const Operand&);
using Binary = Array (*)(const Operand&, const Operand&);

Program unary(Unary f) {
  return [f](std::span<const Array> x) { return Arrays{f(x[0])}; };
}
Program binary(Binary f) {
  return [f](std::span<const Array> x) { return Arrays{f(x[0], x[1])}; };
}

const std::vector<double> kFloatEdges = {0.0,       -0.0, 1.0,   -1.0,   0.5,   -0.5,  1.5,
                                         2.5,       -2.5, 1e-40, -1e-40, 1e30,  -1e30, INFINITY,
                                         -INFINITY, NAN,  3.7,   -3.7,   1e-10, 100.0};

TEST(CompiledElementwise, FloatFunctionsOfOneOperandAgreeBitForBitWithEagerOnes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Array x = lax::convert_element_type(Array(kFloatEdges), dtype);
    for (const Unary f :
         {Unary(lax::neg),   Unary(lax::sign),     Unary(lax::floor), Unary(lax::ceil),
          Unary(lax::exp),   Unary(lax::exp2),     Unary(lax::log),   Unary(lax::expm1),
          Unary(lax::log1p), Unary(lax::sin),      Unary(lax::cos),   Unary(lax::tan),
          Unary(lax::asin),  Unary(lax::acos),     Unary(lax::atan),  Unary(lax::sinh),
          Unary(lax::cosh),  Unary(lax::tanh),     Unary(lax::asinh), Unary(lax::acosh),
          Unary(lax::atanh), Unary(lax::logistic), Unary(lax::sqrt),  Unary(lax::rsqrt),
          Unary(lax::cbrt),  Unary(lax::square),   Unary(lax::abs),   Unary(lax::is_finite),
          Unary(lax::erf),   Unary(lax::erf_inv)}) {
      check(unary(f), {x}, 1);
    }
    check(
        [](std::span<const Array> v) {
          return Arrays{lax::round(v[0]), lax::round(v[0], RoundingMethod::to_nearest_even)};
        },
        {x}, 1);
  }
}

Arrays all_pairs(const std::vector<double>& values, DType dtype) {
  std::vector<double> a, b;
  for (const double x : values) {
    for (const double y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  return {lax::convert_element_type(Array(a), dtype), lax::convert_element_type(Array(b), dtype)};
}

TEST(CompiledElementwise, FloatFunctionsOfTwoOperandsAgreeBitForBitWithEagerOnes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Binary f :
         {Binary(lax::add), Binary(lax::sub), Binary(lax::mul), Binary(lax::div), Binary(lax::rem),
          Binary(lax::max), Binary(lax::min), Binary(lax::pow), Binary(lax::atan2), Binary(lax::eq),
          Binary(lax::ne), Binary(lax::lt), Binary(lax::le), Binary(lax::gt), Binary(lax::ge)}) {
      check(binary(f), all_pairs(kFloatEdges, dtype), 1);
    }
  }
}

// Several are compared first, and then looked at for NaN: all combinations of six edges, zeros of both signs among them.
TEST(CompiledElementwise, ExtremesOfSeveralAreThoseOfTwoAtATime) {
  const std::vector<double> edges = {std::nan(""), -INFINITY, -0.0, 0.0, 1.5, INFINITY};
  std::vector<std::vector<double>> columns(5);
  for (int n = 0; n < 6 * 6 * 6 * 6 * 6; ++n) {
    for (int i = 0, rest = n; i < 5; ++i, rest /= 6)
      columns[static_cast<std::size_t>(i)].push_back(edges[static_cast<std::size_t>(rest % 6)]);
  }
  const Program f = [](std::span<const Array> x) {
    const Array least = lax::min(lax::min(lax::min(x[0], x[1]), x[2]), x[3]);
    return Arrays{lax::min(least, x[4]),
                  lax::max(x[4], lax::max(x[3], lax::max(x[2], x[0]))),
                  lax::max(lax::max(x[0], x[1]), lax::max(x[2], x[3])),
                  lax::max(lax::max(least, x[4]), x[0]),
                  lax::min(lax::max(lax::max(x[0], 1.0f), x[1]), lax::min(x[2], x[0])),
                  least};
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    Arrays inputs;
    for (const auto& column : columns)
      inputs.push_back(lax::convert_element_type(Array(column), dtype));
    check(f, inputs, 1);
  }
}

// The ends of every range with what lies next to them, NaN, and what is far beyond; of whole vectors and of some lanes.
TEST(CompiledElementwise, ConversionsToIntegersSaturate) {
  std::vector<double> edges = kFloatEdges;
  for (const int bits : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (const double sign : {1.0, -1.0}) {
      const double end = sign * std::ldexp(1.0, bits);
      for (const double x : {end, end - 1, end + 1, end - 0.5, end + 0.5,
                             static_cast<double>(std::nextafter(static_cast<float>(end), 0.0f)),
                             std::nextafter(end, 0.0), std::nextafter(end, 2 * end), 3 * end})
        edges.push_back(x);
    }
  }
  for (const DType from : {DType::f32, DType::f64}) {
    const Array x = lax::convert_element_type(Array(edges), from);
    for (const DType to : {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                           DType::u32, DType::u64}) {
      SCOPED_TRACE(std::string(short_name(from)) + " to " + std::string(short_name(to)));
      check([to](std::span<const Array> v) { return Arrays{lax::convert_element_type(v[0], to)}; },
            {x}, 1);
    }
  }
}

TEST(CompiledElementwise, IntegerFunctionsAgreeWithEagerOnes) {
  for (const DType dtype :
       {DType::i32, DType::i64, DType::u8, DType::u32, DType::u64, DType::i8, DType::u16}) {
    std::vector<double> edges = {0, 1, 2, 3, 7, 31, 32, 100};
    if (is_signed_integer(dtype)) {
      const double low = -std::ldexp(1, static_cast<int>(size_of(dtype)) * 8 - 1);
      for (const double v : {-1.0, -2.0, -7.0, low, low / 2, -(low + 1)}) edges.push_back(v);
    } else {
      edges.push_back(200);
    }
    for (const Binary f :
         {Binary(lax::add), Binary(lax::sub), Binary(lax::mul), Binary(lax::div), Binary(lax::rem),
          Binary(lax::max), Binary(lax::min), Binary(lax::bitwise_and), Binary(lax::bitwise_or),
          Binary(lax::bitwise_xor), Binary(lax::shift_left), Binary(lax::shift_right_logical),
          Binary(lax::shift_right_arithmetic), Binary(lax::eq), Binary(lax::lt), Binary(lax::ge)}) {
      check(binary(f), all_pairs(edges, dtype), 1);
    }
    const Array x = all_pairs(edges, dtype)[0];
    check(unary(lax::bitwise_not), {x}, 1);
    check(unary(lax::sign), {x}, 1);
    if (is_signed_integer(dtype)) check(unary(lax::abs), {x}, 1);
    check(unary(lax::neg), {x}, 1);
  }
}

// Vectors of these are divided as floating point.
TEST(CompiledElementwise, BitsAreCountedByInstructions) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{population_count(x[0]), clz(x[0])};
  };
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u32, DType::i64}) {
    const Array places = lax::iota(DType::i64, {83}, 0),
                x = lax::mul(places, lax::mul(places, places));
    const Array in = lax::convert_element_type(x - 37, dtype);
    const std::string ir = check(f, {in}, 1)->text("ir");
    for (const char* name : {"@llvm.ctpop", "@llvm.ctlz"})
      EXPECT_NE(ir.find(name), std::string::npos);
  }
}

// By products of halves, where there is no product of which the upper half is wanted.
TEST(CompiledElementwise, ConstantsDivideWholeVectors) {
  const std::vector<std::int64_t> divisors = {
      3,         5,          7,         10,         14,         -3, -7,        641,
      998244353, -998244353, INT32_MAX, 4294967297, 1000000007, 6,  INT64_MAX, INT64_MIN + 1};
  const Array bits = random::bits(random::key(3), {2'003}, DType::u64);
  const Array some = bits >> (bits % lax::full({2'003}, DType::u64, 64));
  for (const DType dtype : {DType::i64, DType::u64}) {
    for (const std::int64_t divisor : divisors) {
      const auto by = [&] {
        const bool wraps = dtype == DType::u64;  // those below 0 are large
        const Array d = wraps ? Array(static_cast<std::uint64_t>(divisor)) : Array(divisor);
        return full({2'003}, d.astype(dtype));
      };
      const Program f = [&](std::span<const Array> x) {
        return Arrays{lax::div(x[0], by()), lax::rem(x[0], by())};
      };
      const Array any = some.astype(dtype), whole = lax::mul(lax::div(any, by()), by());
      const Array one = lax::full({2'003}, dtype, 1);
      for (const Array& x : {any, -any, whole, whole - one, whole + one}) {
        const std::string ir = check(f, {x}, 1)->text("ir");
        if (runtime::target_isa() == runtime::Isa::generic) continue;  // of two elements
        for (const char* name : {"div <", "rem <"})
          EXPECT_EQ(ir.find(name), std::string::npos) << dtype << " by " << divisor;
      }
    }
  }
}

TEST(CompiledElementwise, IntegerDivisionIsExactForAllBytesAndNearWholeQuotients) {
  const auto divide = [](std::span<const Array> x) {
    return Arrays{lax::div(x[0], x[1]), lax::rem(x[0], x[1])};
  };
  for (const DType dtype : {DType::i8, DType::u8}) {
    const Array all = arange(256).astype(dtype);
    check(divide, {reshape(broadcast_to(all, {256, 256}), {65536}), repeat(all, 256)});
  }
  // Products of divisors and their neighbours, up to the ends of the range.
  for (const DType dtype : {DType::i16, DType::u16, DType::i32, DType::u32}) {
    const int bits = 8 * static_cast<int>(size_of(dtype));
    const Array some = random::bits(random::key(1), {20'003}, DType::u32);
    const Array divisors = (some >> (some % Array(32u))).astype(dtype);
    const Array quotients = random::bits(random::key(2), {20'003}, DType::u32).astype(dtype);
    const Array products = lax::mul(lax::div(quotients, divisors), divisors);
    const Array one = Array(1).astype(dtype),
                top = lax::shift_left(one, Array(bits - 1).astype(dtype));
    for (const Array& x : {products - one, products, products + one}) check(divide, {x, divisors});
    std::vector<Array> ends;
    for (const Array& a : {one - one, one, one + one, top - one, top, top + one, one - one - one})
      ends.push_back(a);
    const Array edge = stack(ends);
    check(divide, {repeat(edge, 7), tile(edge, Shape{7})});
  }
}

// Folds divide for the trip after, unless a quotient takes several registers.
TEST(CompiledElementwise, FoldsOfIntegerQuotientsAreRight) {
  for (const DType dtype : {DType::i8, DType::u16, DType::i32, DType::u32, DType::i64}) {
    const auto folds = [](std::span<const Array> x) {
      const Array q = lax::div(x[0], x[1]), r = lax::rem(x[0], x[1]);
      return Arrays{sum(q), max(r), any(lax::gt(q, lax::zeros_like(q)))};
    };
    check(folds, {uniform({4030}, dtype, 0, 100, 1), uniform({4030}, dtype, 1, 20, 2)});
    check([&](std::span<const Array> x) { return Arrays{folds(x)[0]}; },
          {uniform({4030}, dtype, 0, 100, 1), uniform({4030}, dtype, 1, 20, 2)});
  }
}

// Places of elements, as far as they are known to fit into 32 bits: of the remainders and quotients of others, too.
TEST(CompiledElementwise, IndicesAreDividedInFewBits) {
  const auto f = [](std::span<const Array> x) {
    return Arrays{
        lax::transpose(lax::reshape(lax::transpose(x[0], {1, 0}), {7, 11, 13, 9}), {3, 1, 0, 2})};
  };
  const Compiled e = check(f, {uniform({63, 143}, DType::f32)});
  EXPECT_THAT(e->text("ir"), Not(::testing::ContainsRegex("(sdiv|srem) <[0-9]+ x i64>")));
  const auto padded = [](std::span<const Array> x) {
    return Arrays{lax::pad(x[0], Array(0.0f), {{1, 2, 1}, {0, 1, 9}})};  // too long to be woven
  };
  const std::string ir = check(padded, {uniform({50, 70}, DType::f32)})->text("ir");
  EXPECT_THAT(ir, Not(::testing::ContainsRegex("(sdiv|srem) <[0-9]+ x i64>"))) << ir;
  EXPECT_THAT(ir, ::testing::ContainsRegex("(sdiv|srem) <[0-9]+ x i32>")) << ir;
}

TEST(CompiledElementwise, ConversionsBetweenAllTypesAgreeWithEagerOnes) {
  const std::vector<DType> types = {DType::bool_, DType::i8,  DType::i32, DType::i64, DType::u8,
                                    DType::u32,   DType::u64, DType::f32, DType::f64};
  for (const DType from : types) {
    const Array x =
        lax::convert_element_type(Array(std::vector<double>{0, 1, -1, 2.7, -2.7, 300, 1e10, -1e10,
                                                            1e25, NAN, INFINITY, -INFINITY}),
                                  from);
    for (const DType to : types) {
      check([to](std::span<const Array> v) { return Arrays{lax::convert_element_type(v[0], to)}; },
            {x});
    }
  }
}

TEST(CompiledElementwise, TailsOfEveryLengthAreRight) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::mul(x[0], x[1]), lax::exp(x[0])), lax::gt(x[0], x[1])};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (std::int64_t n = 0; n <= 70; ++n)
      check(f, {uniform({n}, dtype), uniform({n}, dtype, -2, 2, 2)});
  }
}

TEST(CompiledElementwise, ScalarsAndTinyShapesWork) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::sin(x[0]), lax::mul(x[0], x[0]))};
  };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}, Shape{3}, Shape{2, 3}, Shape{3, 1, 2},
                             Shape{0}, Shape{2, 0, 3}}) {
    check(f, {uniform(shape, DType::f32)});
    check(f, {uniform(shape, DType::f64)});
  }
}

TEST(CompiledElementwise, AChainIsOneKernelWithoutIntermediateMemory) {
  const auto executable = check(
      [](std::span<const Array> x) {
        Array y = x[0];
        for (int i = 0; i < 10; ++i) y = lax::add(lax::mul(y, x[1]), x[0]);
        return Arrays{y};
      },
      {uniform({1000}, DType::f32), uniform({1000}, DType::f32, -1, 1, 2)}, 1);
  EXPECT_EQ(executable->info().arena_bytes, 0u);
}

TEST(CompiledElementwise, ResultsOfOneShapeShareAKernel) {
  check(
      [](std::span<const Array> x) {
        const Array e = lax::exp(x[0]);
        return Arrays{lax::add(e, x[0]), lax::sub(e, x[0]), e};
      },
      {uniform({33, 5}, DType::f64)}, 1);
}

// Every n-th element from places side by side, as filters that leave samples out read them: up to the last element there is,
// without some of the places, and of rows.
TEST(CompiledElementwise, SlicesWithStepsAreReadTogether) {
  for (const DType dtype : {DType::f32, DType::f64, DType::u8, DType::bf16, DType::i64}) {
    for (const std::int64_t step : {2, 3, 4, 5, 8, 17}) {
      for (const std::int64_t n : {5, 37, 100}) {
        const std::int64_t starts = 2 * step + 3, size = starts - 1 + step * (n - 1) + 1;
        const auto filtered = [&](const Array& x, std::int64_t row) {
          std::optional<Array> sum;
          for (std::int64_t k = 0; k < starts; ++k) {
            if (k == step) continue;
            const Array y = row == 0
                                ? lax::slice(x, {k}, {k + step * (n - 1) + 1}, {step})
                                : lax::slice(x, {1, k}, {row, k + step * (n - 1) + 1}, {2, step});
            sum = sum ? *sum + y : y;
          }
          return *sum;
        };
        const Program f = [&](std::span<const Array> x) {
          return Arrays{filtered(x[0], 0), filtered(x[1], 6)};
        };
        const auto whole = [&](const Shape& shape) {
          return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, 0, 9)), dtype);
        };
        const Arrays inputs = {whole({size}), whole({7, size})};
        check(f, inputs, -1, 0);
        const Arrays want = f(inputs);
        const Arrays apart =
            execute(compile(stage(f, inputs), {.disabled = {"load_columns"}}), inputs);
        for (std::size_t i = 0; i < want.size(); ++i) expect_equal(apart[i], want[i], 0, "apart");
      }
    }
  }
}

TEST(CompiledElementwise, SelectClampAndMixedTypesWork) {
  check(
      [](std::span<const Array> x) {
        const Array positive = lax::gt(x[0], lax::zeros_like(x[0]));
        const Array as_double = lax::convert_element_type(x[0], DType::f64);
        return Arrays{lax::select(positive, x[0], lax::neg(x[0])), lax::exp(as_double),
                      lax::clamp(lax::full_like(x[0], -1), x[0], lax::full_like(x[0], 1)),
                      lax::convert_element_type(positive, DType::i32)};
      },
      {uniform({77}, DType::f32)});
}

TEST(CompiledElementwise, ContractionChangesOnlyRounding) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::mul(x[0], x[1]), x[2])};
  };
  const Arrays x = {uniform({200}, DType::f32), uniform({200}, DType::f32, -2, 2, 2),
                    uniform({200}, DType::f32, -2, 2, 3)};
  const Jaxpr jaxpr = stage(f, x);
  const auto plain = compile(jaxpr),
             contracted = compile(jaxpr, {.contract = true, .name = "contracted", .disabled = {}});
  EXPECT_EQ(plain->text("asm").find("fmadd"), std::string::npos);
  if (contracted->text("asm").find("ymm") != std::string::npos ||
      contracted->text("asm").find("zmm") != std::string::npos) {
    EXPECT_NE(contracted->text("asm").find("vfm"), std::string::npos);
  }
  const auto a = execute(plain, x)[0].to_vector<double>(),
             b = execute(contracted, x)[0].to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST(CompiledElementwise, LongStraightLineProgramsCompileInPieces) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 500; ++i) y = lax::sub(lax::mul(y, x[1]), x[0]);
    return Arrays{y};
  };
  check(f, {uniform({}, DType::f64), uniform({}, DType::f64, -0.5, 0.5, 2)});
  check(f, {uniform({100}, DType::f32), uniform({100}, DType::f32, -0.5, 0.5, 2)});
}

// A derivative of the kind that Jacobians of small functions are made of: rows of an identity, padded.
TEST(CompiledElementwise, SmallKernelsWriteTheirRowsOut) {
  const auto columns = static_cast<std::int64_t>(runtime::vector_bytes() / 8) + 1;
  const Shape shape{7, columns};
  const Program f = [shape](std::span<const Array> x) {
    const auto column = lax::iota(DType::i32, shape, 1), row = lax::iota(DType::i32, shape, 0);
    const Array identity = lax::convert_element_type(lax::eq(column, row), DType::f64);
    const Array scaled = lax::mul(identity, lax::broadcast_in_dim(x[0], shape, {0}));
    return Arrays{lax::add(lax::pad(scaled, 0.0, {{0, 1, 0}, {0, 0, 0}}),
                           lax::pad(x[1], 0.0, {{1, 0, 0}, {0, 0, 0}}))};
  };
  const Arrays inputs = {uniform({7}, DType::f64), uniform(shape, DType::f64)};
  const Compiled loops =
      check(f, inputs, -1, 0, {.contract = false, .name = "loops", .disabled = {"inline_kernels"}});
  EXPECT_NE(loops->text("ir").find("loop:"), std::string::npos);
  const Compiled rows = check(f, inputs);
  EXPECT_EQ(rows->text("ir").find("loop:"), std::string::npos) << rows->text("plan");
}

TEST(CompiledElementwise, RowsOfAFewVectorsAreNoLoops) {
  const auto lanes = static_cast<std::int64_t>(runtime::vector_bytes() / 4);
  for (const std::int64_t vectors : {1, 4, 5}) {
    for (const std::int64_t more : {0, 1}) {
      const Program rows = [](std::span<const Array> x) { return Arrays{x[0](x[1])}; };
      const Shape shape{50, vectors * lanes + more};
      const Array places = uniform({3000}, DType::f64, -50, 50).astype(DType::i32);
      const Compiled e = check(rows, {uniform(shape, DType::f32), places});
      const bool inner = e->text("ir").find("loop1:") != std::string::npos;
      EXPECT_EQ(inner, vectors == 5) << vectors << '\n' << e->text("ir");
    }
  }
}

// Rows one after the other, so that whatever is stored behind the end of one is seen in the next. Only AVX-512 has
// masks for all types, and stores that take no longer with them.
TEST(CompiledElementwise, TailsAreStoredInPiecesWhereMasksAreDear) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i16, DType::u8, DType::bool_}) {
    for (std::int64_t n = 9; n <= 40; ++n) {
      const auto f = [n](std::span<const Array> x) {
        return Arrays{lax::slice(x[0], {1, 1}, {6, n}), lax::concatenate(x, 1)};
      };
      const Compiled e = check(f, {uniform({7, n}, dtype, 0, 9), uniform({7, 3}, dtype, 0, 9, 2)});
      if (runtime::target_isa() != runtime::Isa::avx512)
        EXPECT_THAT(e->text("ir"), ::testing::Not(::testing::HasSubstr("masked.store")));
    }
  }
}

TEST(CompiledElementwise, TailsOfHalfAVectorNeedNoMask) {
  const auto lanes = static_cast<std::int64_t>(runtime::vector_bytes() / 8);
  const auto masks = [](std::int64_t n) {
    const Compiled e =
        check([](std::span<const Array> x) { return Arrays{lax::sin(lax::mul(x[0], x[0]))}; },
              {uniform({n}, DType::f64)});
    return e->text("ir").find("masked") != std::string::npos;
  };
  EXPECT_FALSE(masks(2 * lanes + lanes / 2));
  if (lanes > 2) { EXPECT_TRUE(masks(3 * lanes - 1)); }
}

// Complex numbers, whose arithmetic is not compiled, are results where they are known.
TEST(CompiledElementwise, KnownComplexNumbersAreResults) {
  const auto number = [](DType dtype, auto part) {
    const Array z = Array(1.5).astype(dtype);
    const auto* node = static_cast<const detail::ConcreteNode*>(z.node_or_null());
    auto* const parts = reinterpret_cast<decltype(part)*>(node->buffer().data());
    EXPECT_EQ(parts[0], 1.5);
    parts[1] = part;
    return z;
  };
  const Array small = number(DType::c64, -2.0f), large = number(DType::c128, 0.1);
  const Array x = uniform({3}, DType::f32);
  check([&](std::span<const Array> a) { return Arrays{small, a[0] + 1, large}; }, {x});
}

// The library's own operations on them, which are called, read operands and write results without a copy.
TEST(CompiledElementwise, ComplexNumbersAreReadAndWrittenWhereTheyLie) {
  constexpr std::size_t kBytes = 8 * 200 * 305;
  const Array x = lax::convert_element_type(uniform({200, 305}, DType::f32), DType::c64);
  for (const Program& f : {unary([](const Operand& z) { return lax::transpose(z, {1, 0}); }),
                           unary([](const Operand& z) { return lax::mul(z, z); }),
                           unary([](const Operand& z) { return lax::cumsum(z, 1); }),
                           unary([](const Operand& z) { return lax::rev(z, {0}); })}) {
    const Compiled e = compile(stage(f, {x}));
    reset_peak_memory();
    const std::size_t before = memory_stats().peak;
    const Array got = execute(e, {x})[0];
    EXPECT_LE(memory_stats().peak - before, 3 * kBytes / 2);  // the result alone
    const Array want = f(std::vector{x})[0];
    EXPECT_EQ(std::memcmp(detail::dense_data(got), detail::dense_data(want), kBytes), 0);
  }
  const Array none = lax::convert_element_type(uniform({0, 3}, DType::f32), DType::c64);
  const Compiled e =
      compile(stage(unary([](const Operand& z) { return lax::transpose(z, {1, 0}); }), {none}));
  EXPECT_EQ(execute(e, {none})[0].shape(), (Shape{3, 0}));
}

// Stores go around the caches, unless the result takes the place of what was just read.
TEST(CompiledElementwise, LargeResultsAreWrittenAnywhere) {
  const auto f = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::mul(x[0], x[1]), x[0])};
  };
  // Three arrays that take more than half of the last cache.
  const std::int64_t n = std::max<std::int64_t>(1 << 20, runtime::last_cache_bytes() / 24) + 5;
  const auto fresh = [=] {
    return Arrays{uniform({n}, DType::f32), uniform({n}, DType::f32, 0, 1, 2)};
  };
  const Compiled e = check(f, fresh(), 1);
  EXPECT_NE(e->text("ir").find("!nontemporal"), std::string::npos);
  Arrays in = fresh(), got;
  e->execute(in, {true, false}, got, "test");
  expect_equal(got[0], f(fresh())[0], 0, "in place");
}

TEST(CompiledElementwise, LargeResultsOfWholeRowsAreWrittenAnywhere) {
  const auto f = [](std::span<const Array> x) {
    return Arrays{lax::add(lax::mul(x[0], x[0]), lax::broadcast_in_dim(x[1], x[0].shape(), {1}))};
  };
  const auto fresh = [](std::int64_t columns) {
    return Arrays{uniform({2100, columns}, DType::f32), uniform({columns}, DType::f32, 0, 1, 2)};
  };
  const auto is_streamed = [](const Compiled& e) {
    return e->text("ir").find("!nontemporal") != std::string::npos;
  };
  const Compiled e = check(f, fresh(1024), 1);
  EXPECT_TRUE(is_streamed(e));
  EXPECT_FALSE(is_streamed(check(f, fresh(1025), 1)));  // rows begin anywhere
  // By one thread: parts that several threads do are written through the cache that holds all of it.
  const auto writes_through = [](const Compiled& e) {
    std::istringstream ir(e->text("ir"));
    bool through = false;
    for (std::string line; std::getline(ir, line);)
      through |= line.find("store <") != std::string::npos &&
                 line.find("!nontemporal") == std::string::npos;
    return through;
  };
  constexpr std::int64_t kTraffic = 2LL * 2100 * 1024 * 4;
  if (runtime::last_cache_bytes() > 2 * kTraffic) { EXPECT_TRUE(writes_through(e)); }
  const auto rows = static_cast<std::int64_t>(runtime::last_cache_bytes() / 4096) + 2100;
  const auto narrow = [](std::span<const Array> x) {
    return Arrays{lax::convert_element_type(x[0], DType::f32)};
  };
  const Compiled beyond = compile(stage(narrow, {zeros({rows, 1024}, DType::f64)}));
  EXPECT_TRUE(is_streamed(beyond));
  EXPECT_FALSE(writes_through(beyond));
  Arrays in = fresh(1024), got;
  e->execute(in, {true, false}, got, "test");
  expect_equal(got[0], f(fresh(1024))[0], 0, "in place");
#if defined(__x86_64__)
  EXPECT_NE(e->text("ir").find("call void @llvm.x86.sse.sfence"), std::string::npos);
#endif
  // Over what was just read, which is in the caches: exp(x) lies where the result comes to lie.
  const auto over = [](std::span<const Array> x) {
    const Array e = lax::exp(x[0]), sums = lax::reduce_sum(e, {0});
    return Arrays{lax::div(e, lax::broadcast_in_dim(sums, e.shape(), {1}))};
  };
  EXPECT_FALSE(is_streamed(check(over, {uniform({2100, 1024}, DType::f32)}, 2, 64)));
}

// No masks are made of truth values that are read and written, nor of what is computed of them by bits alone.
TEST(CompiledElementwise, TruthValuesThatAreReadStayBytes) {
  const Program logic = [](std::span<const Array> x) {
    const Array y = lax::bitwise_or(lax::bitwise_and(x[0], x[1]), lax::bitwise_not(x[2]));
    return Arrays{y, lax::bitwise_xor(y, x[0]), lax::convert_element_type(x[1], DType::i32),
                  lax::rev(x[2], {0})};
  };
  for (const std::int64_t n : {1, 3, 16, 37, 1000}) {
    const auto truths = [&](unsigned seed) { return uniform({n}, DType::bool_, 0, 2, seed); };
    const Compiled e = check(logic, {truths(1), truths(2), truths(3)});
    if (n < 1000) continue;
    for (const char* const mask : {"vptestm", "vptestnm", "pcmpeqb"})
      EXPECT_EQ(e->text("asm").find(mask), std::string::npos) << e->text("asm");
  }
  // Others become bytes where they are written.
  const Program mixed = [](std::span<const Array> x) {
    const Array above = lax::gt(x[0], lax::full_like(x[0], 0.5));
    return Arrays{lax::bitwise_and(above, x[1]), lax::bitwise_xor(lax::bitwise_not(x[1]), above),
                  lax::select(x[1], x[0], lax::neg(x[0]))};
  };
  check(mixed, {uniform({517}, DType::f32), uniform({517}, DType::bool_, 0, 2)});
}

}  // namespace
}  // namespace telamon::testing
