// The rules of the simplifier, one by one: what is left of a program, and that it gives the same values.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "compiler/passes/passes.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

Array numbers(const Shape& shape, DType dtype = DType::f32) {
  return lax::convert_element_type(lax::sub(uniform(shape, DType::f32, 0, 8), 4), dtype);
}

/// The primitives of the simplified program, in order; evaluated and compiled it gives what f gives.
std::string left(const Program& f, const Arrays& inputs, double tolerance = 0) {
  check(f, inputs, -1, tolerance);
  const Jaxpr program = inline_calls(compiler::lower(stage(f, inputs)).jaxpr);
  const Jaxpr simple = eliminate_dead_code(compiler::simplify(program));
  const Arrays want = f(inputs), got = eval_jaxpr(simple, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_equal(got[i], want[i], tolerance, simple.to_string());
  }
  std::string names;
  for (const Eqn& e : simple.eqns()) {
    names += (names.empty() ? "" : " ") + std::string(e.primitive->name());
  }
  return names;
}
std::string left(const std::function<Array(const Array&)>& f, const Array& x,
                 double tolerance = 0) {
  return left([&](std::span<const Array> in) { return Arrays{f(in[0])}; }, {x}, tolerance);
}

TEST(Simplify, ArithmeticThatChangesNothingGoes) {
  const Array x = numbers({5});
  EXPECT_EQ(left([](const Array& a) { return lax::mul(a, 1.f); }, x), "");
  EXPECT_EQ(left([](const Array& a) { return lax::sub(a, 0.f); }, x), "");
  EXPECT_EQ(left([](const Array& a) { return lax::add(a, -0.f); }, x), "");
  EXPECT_EQ(left([](const Array& a) { return lax::neg(lax::neg(a)); }, x), "");
  EXPECT_EQ(left([](const Array& a) { return lax::integer_pow(a, 1); }, x), "");
  EXPECT_NE(left([](const Array& a) { return lax::add(a, 0.f); }, x), "");  // -0 + 0 is 0
}

TEST(Simplify, DivisionByAPowerOfTwoIsMultiplication) {
  const auto halves = [](double by) {
    return left([by](const Array& a) { return a / by; }, numbers({5}));
  };
  EXPECT_THAT(halves(4), ::testing::HasSubstr("mul"));
  EXPECT_THAT(halves(3), ::testing::HasSubstr("div"));
}

TEST(Simplify, SlicesOfNothingBehindTheLastElementStayWithinTheOperand) {
  const auto nothing = [](const Array& a) {
    return lax::slice(lax::slice(a, {7}, {9}, {3}), {1}, {1}, {1});
  };
  EXPECT_EQ(left(nothing, numbers({9})), "slice");
}

TEST(Simplify, KnownSelectorsAreClampedWhateverTheirType) {
  const Arrays cases = {numbers({3}), numbers({3}) + 1.0f};
  const auto selected = [&](const std::string& selector, const std::string& type) {
    const Jaxpr program =
        parse_jaxpr("{ lambda a:f32[3], b:f32[3] . let s:" + type +
                    "[3] = broadcast_in_dim [ broadcast_dimensions=() shape=(3,) ] " + selector +
                    ":" + type + "\nc:f32[3] = select_n s a b in ( c ) }");
    const Array got = execute(compile(program), cases)[0];
    expect_equal(got, eval_jaxpr(program, cases)[0], 0, program.to_string());
    return got.to_vector<float>() == cases[1].to_vector<float>();
  };
  EXPECT_TRUE(selected("18446744073709551615", "u64"));
  EXPECT_TRUE(selected("True", "bool"));
  EXPECT_TRUE(selected("7", "i32"));
  EXPECT_FALSE(selected("-7", "i32"));
  EXPECT_FALSE(selected("False", "bool"));
}

// Every number of 8 bits by every number of 8 bits but zero.
TEST(Simplify, QuotientsRoundDownAndRemaindersHaveTheSignOfTheDivisor) {
  const Array all =
      lax::convert_element_type(lax::sub(lax::iota(DType::i32, {256}), 128), DType::i8);
  for (int c = -128; c < 128; ++c) {
    if (c == 0) continue;
    const Array by = lax::convert_element_type(Array(c), DType::i8);
    const Arrays both = jit([&](const Array& x) {
      return Arrays{telamon::floor_divide(x, by), telamon::remainder(x, by)};
    })(all);
    std::vector<std::int8_t> quotients, remainders;
    for (int x = -128; x < 128; ++x) {
      const int q = static_cast<int>(std::floor(static_cast<double>(x) / c));
      quotients.push_back(static_cast<std::int8_t>(q));
      remainders.push_back(static_cast<std::int8_t>(x - q * c));
    }
    ASSERT_EQ(both[0].to_vector<std::int8_t>(), quotients) << "by " << c;
    ASSERT_EQ(both[1].to_vector<std::int8_t>(), remainders) << "by " << c;
  }
  const auto of_eight = [](const Array& x) { return telamon::floor_divide(x, 8); };
  EXPECT_EQ(left(of_eight, numbers({5}, DType::i32)), "broadcast_in_dim shift_right_arithmetic");
  EXPECT_EQ(left(of_eight, numbers({5}, DType::i64)), "broadcast_in_dim shift_right_arithmetic");
}

// As doubles, 2^54 and what is added here are the same.
TEST(Simplify, RemaindersByPowersOfTwoAreOnesWhereExactlyThatIsAdded) {
  constexpr std::int64_t kDivisor = std::int64_t{1} << 54;
  const auto remainder_with = [](std::int64_t added) -> Program {
    return [added](std::span<const Array> in) -> Arrays {
      const auto all = [&](std::int64_t x) { return lax::broadcast_in_dim(Array(x), {4}, {}); };
      const Array r = lax::rem(in[0], all(kDivisor));
      return {lax::select(lax::lt(r, all(0)), lax::add(r, all(added)), r)};
    };
  };
  const Array x(std::vector<std::int64_t>{-5, 5, -kDivisor, kDivisor + 7});
  check(remainder_with(kDivisor + 1), {x});
  EXPECT_THAT(check(remainder_with(kDivisor), {x})->text("jaxpr"), ::testing::HasSubstr("and"));
}

TEST(Simplify, ArraysOfOneNumberAreComputedOnce) {
  const auto of_two = [](const Array& a) {
    const Array two = lax::full_like(a, 2);
    return lax::add(a, lax::select(lax::gt(two, lax::sin(two)), lax::exp(two), two));
  };
  EXPECT_EQ(left(of_two, numbers({5})), "broadcast_in_dim add");
}

TEST(Simplify, OneElementIsNotCounted) {
  const auto identity = [](const Array& a) {
    const Array i = lax::iota(DType::i32, {1, 1}, 0), j = lax::iota(DType::i32, {1, 1}, 1);
    return lax::mul(a, lax::convert_element_type(lax::eq(i, j), a.dtype()));
  };
  EXPECT_EQ(left(identity, numbers({1, 1})), "");
}

TEST(Simplify, SelectionsThatAreKnownGo) {
  const Array x = numbers({5});
  const auto below = [](const Array& a) { return lax::lt(a, zeros_like(a)); };
  EXPECT_EQ(left([&](const Array& a) { return lax::select(below(a), a, a); }, x), "");
  const std::string swapped = left(
      [&](const Array& a) { return lax::select(lax::bitwise_not(below(a)), a, lax::neg(a)); }, x);
  EXPECT_EQ(swapped.find("not"), std::string::npos) << swapped;
}

TEST(Simplify, ConversionsThatLoseNothingOnTheWayAreOne) {
  const auto through = [](DType from, DType by, DType to) {
    return left(
        [=](const Array& a) {
          return lax::convert_element_type(lax::convert_element_type(a, by), to);
        },
        numbers({5}, from));
  };
  EXPECT_EQ(through(DType::f32, DType::f64, DType::f32), "");
  EXPECT_EQ(through(DType::i16, DType::i64, DType::i16), "");
  EXPECT_EQ(through(DType::i16, DType::f32, DType::i16), "");
  EXPECT_EQ(through(DType::i8, DType::i32, DType::f64), "convert_element_type");
  // Values are lost here: large i32 in f32, fractions in i32, signs in u32.
  EXPECT_EQ(through(DType::i32, DType::f32, DType::i32),
            "convert_element_type convert_element_type");
  EXPECT_EQ(through(DType::f32, DType::i32, DType::f32),
            "convert_element_type convert_element_type");
  EXPECT_EQ(through(DType::f64, DType::f32, DType::f64),
            "convert_element_type convert_element_type");
  // Integers wrap, floats saturate.
  EXPECT_EQ(through(DType::i32, DType::f64, DType::u8),
            "convert_element_type convert_element_type");
  EXPECT_EQ(through(DType::u8, DType::f32, DType::i32), "convert_element_type");
}

// Every three types, with numbers at the ends of what they hold.
TEST(Simplify, ConversionsGiveWhatTheyGaveOnTheirWay) {
  const Array values(std::vector<std::int64_t>{
      -1, -73, 0, 5, 127, 128, 255, 256, -129, 70'000, -70'000, 2'147'483'647, -2'147'483'648,
      1ll << 24, (1ll << 24) + 1, 5'000'000'000, -5'000'000'000, INT64_MIN, INT64_MAX});
  const auto first = static_cast<int>(DType::bool_), last = static_cast<int>(DType::f64);
  for (int from = first; from <= last; ++from) {
    const Array x = lax::convert_element_type(values, static_cast<DType>(from));
    for (int by = first; by <= last; ++by) {
      for (int to = first; to <= last; ++to) {
        const Program f = [&](std::span<const Array> a) {
          return Arrays{lax::convert_element_type(
              lax::convert_element_type(a[0], static_cast<DType>(by)), static_cast<DType>(to))};
        };
        const Arrays inputs = {x};
        const Jaxpr simple = compiler::simplify(compiler::lower(stage(f, inputs)).jaxpr);
        expect_equal(eval_jaxpr(simple, inputs)[0], f(inputs)[0], 0, simple.to_string());
      }
    }
  }
}

TEST(Simplify, ChangesOfShapeCancel) {
  const Array x = numbers({3, 4});
  EXPECT_EQ(left([](const Array& a) { return lax::reshape(lax::reshape(a, {12}), {3, 4}); }, x),
            "");
  EXPECT_EQ(
      left([](const Array& a) { return lax::transpose(lax::transpose(a, {1, 0}), {1, 0}); }, x),
      "");
  EXPECT_EQ(left(
                [](const Array& a) {
                  const Array once = lax::broadcast_in_dim(a, {2, 3, 4}, {1, 2});
                  return lax::broadcast_in_dim(once, {5, 2, 3, 4}, {1, 2, 3});
                },
                x),
            "broadcast_in_dim");
}

TEST(Simplify, DimensionsOfOneElementAreAddedAndDroppedByOneReshape) {
  EXPECT_EQ(left([](const Array& a) { return reshape(expand_dims(a, 1), {2, 3}); }, numbers({6})),
            "reshape");
  EXPECT_EQ(left([](const Array& a) { return reshape(expand_dims(a, 0), {6}); }, numbers({6})), "");
}

TEST(Simplify, SlicesOfSlicesAreOne) {
  EXPECT_EQ(left(
                [](const Array& a) {
                  return lax::slice(lax::slice(a, {1, 0}, {9, 7}, {2, 3}), {1, 1}, {4, 3}, {2, 1});
                },
                numbers({10, 8})),
            "slice");
}

TEST(Simplify, SlicesOfConcatenationsAreSlicesOfAPart) {
  const auto part = [](std::int64_t from, std::int64_t to) {
    return left(
        [=](const Array& a) {
          const Arrays parts = {a, lax::neg(a)};
          return lax::slice(lax::concatenate(parts, 0), {from}, {to});
        },
        numbers({6}));
  };
  EXPECT_EQ(part(0, 6), "");
  EXPECT_EQ(part(1, 5), "slice");
  EXPECT_EQ(part(7, 10), "neg slice");
  EXPECT_EQ(part(4, 8), "neg concatenate slice");
}

// All of it is wanted, but every part is computed of one operand; not so where a part lies in two of them, or where
// others want all of it.
TEST(Simplify, PartsOfWhatIsComputedOfConcatenationsAreComputedOfTheirOperands) {
  const Arrays x{numbers({200}), numbers({300})};
  const auto parts = [&](std::int64_t seam, bool all) {
    return left(
        [&](std::span<const Array> a) {
          const Array e = lax::exp(lax::mul(lax::concatenate(a, 0), 2.f));
          Arrays out{e(slice(0, seam)), e(slice(seam, 500))};
          if (all) out.push_back(e);
          return out;
        },
        x);
  };
  EXPECT_EQ(parts(200, false), "broadcast_in_dim mul exp broadcast_in_dim mul exp");
  EXPECT_EQ(parts(201, false), "concatenate broadcast_in_dim mul exp slice slice");
  EXPECT_EQ(parts(200, true), "concatenate broadcast_in_dim mul exp slice slice");
  // Read often by itself: no part is computed more than once.
  Program doubled = [](std::span<const Array> a) {
    Array e = lax::concatenate(a, 0);
    for (int i = 0; i < 70; ++i) e = lax::mul(e, e);
    return Arrays{e(slice(0, 200)), e(slice(200, 500))};
  };
  EXPECT_LT(left(doubled, x).size(), 1000u);
}

TEST(Simplify, StartsThatAreKnownMakeASlice) {
  for (const int start : {-3, 2, 100}) {  // clamped
    EXPECT_EQ(left(
                  [start](const Array& a) {
                    const Arrays starts = {Array(start)};
                    return lax::dynamic_slice(a, starts, {3});
                  },
                  numbers({6})),
              "slice");
  }
}

// Too many for the memory of most machines, but programs of them are compiled.
TEST(Simplify, PositionsBeyondThirtyOneBitsAreNotRolled) {
  const Jaxpr rolled = parse_jaxpr(
      "{ lambda a:i32[] . let\n"
      "b:i32[3000000000,2] = iota [ dimension=0 dtype=i32 shape=(3000000000, 2) ]\n"
      "c:i32[3000000000,2] = broadcast_in_dim [ broadcast_dimensions=() shape=(3000000000, 2) ] a\n"
      "d:bool[3000000000,2] = eq b c\n"
      "e:bool[2999999990,2] = slice [ limit_indices=(3000000000, 2) start_indices=(10, 0) "
      "strides=() ] d\n"
      "f:bool[10,2] = slice [ limit_indices=(10, 2) start_indices=(0, 0) strides=() ] d\n"
      "g:bool[3000000000,2] = concatenate [ dimension=0 ] e f in ( g ) }");
  EXPECT_TRUE(eliminate_dead_code(compiler::simplify(rolled)) == rolled);
}

// Whatever type they have: they are numbers above the end.
TEST(Simplify, StartsThatAreKnownBeyondSixtyThreeBitsAreClamped) {
  EXPECT_EQ(left(
                [](const Array& a) {
                  const Arrays starts = {lax::convert_element_type(Array(-4), DType::u64)};
                  return lax::dynamic_slice(a, starts, {3});
                },
                numbers({6})),
            "slice");
}

TEST(Simplify, GatheringARangeIsASlice) {
  const auto rows = [](std::int64_t n, int from, int axis) {
    return left(
        [=](const Array& a) {
          return take(a, lax::add(lax::iota(DType::i32, {n}, 0), from), axis);
        },
        numbers({6, 7}));
  };
  EXPECT_EQ(rows(6, 0, 0), "");
  EXPECT_EQ(rows(3, 2, 0), "slice");
  EXPECT_EQ(rows(4, 3, 1), "slice");
  EXPECT_THAT(rows(6, 2, 0), ::testing::HasSubstr("gather"));  // beyond the end
}

// In types that are narrower than an index, and at the ends of those that are not.
TEST(Simplify, IndicesThatWrapAroundAreNoRange) {
  using Moved = std::function<Array(const Array&, const Array&)>;
  const auto taken = [](DType dtype, std::int64_t n, std::int64_t by, const Moved& moved) {
    return left(
        [&](const Array& a) {
          const Array c = lax::convert_element_type(Array(by), dtype);
          return take(a, moved(lax::iota(dtype, {n}, 0), lax::broadcast_in_dim(c, {n}, {})));
        },
        numbers({70'000}));
  };
  const Moved sum = [](const Array& i, const Array& c) { return lax::add(i, c); };
  const Moved product = [](const Array& i, const Array& c) { return lax::mul(i, c); };
  const auto gathers = ::testing::HasSubstr("gather");
  for (const auto& [dtype, most] : {std::pair{DType::i8, 127}, std::pair{DType::u8, 255},
                                    std::pair{DType::i16, 32'767}, std::pair{DType::u16, 65'535}}) {
    SCOPED_TRACE(short_name(dtype));
    EXPECT_EQ(taken(dtype, 10, most - 9, sum), "slice");
    EXPECT_THAT(taken(dtype, 10, most - 8, sum), gathers);
    EXPECT_EQ(taken(dtype, most / 5 + 1, 5, product), "slice");
    EXPECT_THAT(taken(dtype, most / 5 + 2, 5, product), gathers);
    EXPECT_EQ(taken(dtype, most + 1, 0, sum), "slice");
    EXPECT_THAT(taken(dtype, most + 2, 0, sum), gathers);
  }
  // In 64 bits what has wrapped around in 32 does not come back.
  const Moved back = [](const Array& i, const Array& c) {
    const auto wide = [](const Array& x) { return lax::convert_element_type(x, DType::i64); };
    return lax::add(wide(lax::add(i, c)), lax::neg(wide(c)));
  };
  for (const auto& [dtype, most] :
       {std::pair{DType::i32, (1ll << 31) - 1}, std::pair{DType::u32, (1ll << 32) - 1}}) {
    SCOPED_TRACE(short_name(dtype));
    EXPECT_EQ(taken(dtype, 10, 100, back), "slice");
    EXPECT_THAT(taken(dtype, 10, most - 8, back), gathers);
  }
}

TEST(Simplify, TheLargestOfRepeatedNumbersIsTheNumber) {
  const auto folded = [](const Shape& axes) {
    return left(
        [&](const Array& a) {
          return lax::reduce_max(lax::broadcast_in_dim(a, {2, 4, 3}, {1}), axes);
        },
        numbers({4}));
  };
  EXPECT_EQ(folded({0, 2}), "");
  EXPECT_EQ(folded({0}), "broadcast_in_dim");
  EXPECT_EQ(folded({1}), "reduce_max broadcast_in_dim");
}

TEST(Simplify, LoopsOfNoTripsGiveWhatTheyBeganWith) {
  const auto looped = [](std::span<const Array> x) {
    const auto step = [](Array c, Array r) { return std::pair(c * 2 + r, c); };
    const auto [last, rows] = scan(step, x[0], x[1]);
    return Arrays{last, rows};
  };
  EXPECT_EQ(left(looped, {numbers({4}), lax::full({0, 4}, DType::f32, 0)}), "broadcast_in_dim");
}

// Each slice moves up the chain by one rule within another; that of 8,000 operations took more stack than there is.
TEST(Simplify, SlicesOfVeryLongChainsEndSomewhere) {
  const auto parts = [](const Array& x) {
    Array y = x;
    for (int i = 0; i < 8000; ++i) y = i % 2 == 0 ? lax::neg(y) : lax::mul(y, x);
    return lax::add(lax::slice(y, {0}, {10}), lax::slice(y, {100}, {110}));
  };
  const Array ones(std::vector<float>(1000, 1));
  left(parts, ones);
}

TEST(Simplify, FoldsOfTransposedArraysRunOverOtherAxes) {
  const auto folded = [](const Shape& axes) {
    return left(
        [&](const Array& a) {
          return lax::reduce_sum(lax::exp(lax::transpose(a, {2, 0, 1})) * 2.f, axes);
        },
        numbers({3, 4, 5}), 1e3);
  };
  EXPECT_EQ(folded({2}).find("reduce_sum transpose") != std::string::npos, true) << folded({2});
  EXPECT_EQ(folded({0, 1, 2}).find("transpose"), std::string::npos);
  EXPECT_EQ(folded({0}).find("transpose"), std::string::npos);
}

// Sums along one axis have the order that they had; several axes are folded as they lie.
TEST(Simplify, SumsOfTransposedArraysChangeOnlyTheOrderAmongAxes) {
  const Array x = uniform({7, 9, 11}, DType::f32, 1, 2);
  for (const Shape& order : {Shape{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    for (const Shape& axes : {Shape{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}) {
      const Array want = lax::reduce_sum(lax::transpose(x, order), axes);
      const Jaxpr program = stage(
          [&](std::span<const Array> a) {
            return Arrays{lax::reduce_sum(lax::transpose(a[0], order), axes)};
          },
          {x});
      const Jaxpr simple = eliminate_dead_code(compiler::simplify(program));
      EXPECT_EQ(simple.eqns()[0].primitive, &reduce_sum_p) << simple.to_string();
      expect_equal(eval_jaxpr(simple, Arrays{x})[0], want, axes.size() == 1 ? 0 : 16,
                   simple.to_string());
    }
  }
}

TEST(Simplify, ElementsOfArraysTransposedAlikeAreTransposedOnce) {
  const std::string names = left(
      [](std::span<const Array> x) {
        return Arrays{lax::add(lax::transpose(x[0], {1, 0}), lax::transpose(x[1], {1, 0}))};
      },
      {numbers({3, 4}), numbers({3, 4})});
  EXPECT_EQ(names, "add transpose");
}

TEST(Simplify, ProductsReadTransposedOperandsAsTheyLie) {
  const auto product = [](bool left_one, bool right_one, bool result) {
    return left(
        [=](std::span<const Array> x) {
          const Array a = left_one ? lax::transpose(x[0], {1, 0}) : x[0];
          const Array b = right_one ? lax::transpose(x[1], {1, 0}) : x[1];
          DotDimensionNumbers dn;
          dn.lhs_contracting = {1};
          dn.rhs_contracting = {0};
          const Array c = lax::dot_general(a, b, dn);
          return Arrays{result ? lax::transpose(c, {1, 0}) : c};
        },
        {numbers(left_one ? Shape{5, 3} : Shape{3, 5}),
         numbers(right_one ? Shape{4, 5} : Shape{5, 4})},
        1e3);
  };
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const bool c : {false, true}) EXPECT_EQ(product(a, b, c), "dot_general") << a << b << c;
    }
  }
}

TEST(Simplify, ReadersOfATransposedProductTakeItAsItLies) {
  const auto names = [](const Program& f) {
    return left(f, {numbers({6, 9, 4}), numbers({7, 6, 4}), numbers({7, 6})}, 1e5);
  };
  const auto product = [](std::span<const Array> x) {  // (7, 6, 9) of what lies as (6, 9, 7)
    return lax::transpose(
        lax::dot_general(
            x[0], x[1],
            {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {1}}),
        {2, 0, 1});
  };
  // Two readers, one of them beside a broadcast: only the small arrays change their order.
  const std::string found = names([&](std::span<const Array> x) {
    const Array t = product(x), w = lax::broadcast_in_dim(x[2], {7, 6, 9}, {0, 1});
    return Arrays{lax::reduce_sum(lax::square(t), {0, 2}),
                  lax::reduce_sum(lax::mul(lax::mul(t, 2.0f), w), {0, 1, 2})};
  });
  EXPECT_EQ(found,
            "dot_general square reduce_sum broadcast_in_dim mul transpose broadcast_in_dim mul "
            "reduce_sum");
}

// What has few columns is copied so that these lie side by side, but not where it is that large.
TEST(Simplify, OfHugeMatricesFewColumnsAreReadAsTheyLie) {
  const auto simple = [](std::int64_t terms) {
    const std::string k = std::to_string(terms);
    const Jaxpr program = parse_jaxpr(
        "{ lambda a:i8[16," + k + "], b:i8[" + k +
        ",2] . let c:i32[16,2] = dot_general "
        "[ dimension_numbers={lhs_contracting=(1,), rhs_contracting=(0,), lhs_batch=(), "
        "rhs_batch=()} preferred_element_type=i32 ] a b in ( c ) }");
    return compiler::simplify(program).to_string();
  };
  EXPECT_THAT(simple(1 << 21), ::testing::HasSubstr("i8[2,2097152] = transpose"));
  EXPECT_THAT(simple((1 << 21) + 1), ::testing::Not(::testing::HasSubstr("transpose")));
}

TEST(Simplify, MatricesOfABatchAreMadeSideBySide) {
  const auto differences = [](std::span<const Array> x) {
    const Shape shape{20, 10, 12};
    const Array d = lax::sub(lax::broadcast_in_dim(x[0], shape, {0, 2}),
                             lax::broadcast_in_dim(x[1], shape, {1, 2}));
    return Arrays{lax::dot_general(
        x[2], d,
        {.lhs_contracting = {2}, .rhs_contracting = {2}, .lhs_batch = {0}, .rhs_batch = {1}})};
  };
  const Arrays x = {numbers({20, 12}), numbers({10, 12}), numbers({10, 3, 12})};
  const std::string text = check(differences, x, -1, 1e6)->text("jaxpr");
  // On the right of a product rows lie side by side: what is small is transposed for that.
  EXPECT_NE(text.find("[10,12,20] = sub"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[12,20] = transpose"), std::string::npos) << text;
  EXPECT_EQ(text.find("transpose"), text.rfind("transpose")) << text;
}

TEST(Simplify, FoldsTakeUpATransposeThatSeveralRead) {
  // logsumexp of a transpose reads it twice, and needs it neither time.
  const auto logsumexp = [](std::span<const Array> x) {
    const Array t = lax::transpose(lax::mul(x[0], x[0]), {1, 0});
    const Array most = lax::reduce_max(t, {1});
    const Array e = lax::exp(lax::sub(t, lax::broadcast_in_dim(most, t.shape(), {0})));
    return Arrays{lax::add(lax::log(lax::reduce_sum(e, {1})), most)};
  };
  const std::string text = check(logsumexp, {numbers({40, 50})}, -1, 100)->text("jaxpr");
  EXPECT_EQ(text.find("transpose"), std::string::npos) << text;
  // What somebody needs stays.
  const auto weights = [](std::span<const Array> x) {
    const Array t = lax::transpose(x[0], {1, 0});
    const Array most = lax::reduce_max(t, {1});
    return Arrays{lax::exp(lax::sub(t, lax::broadcast_in_dim(most, t.shape(), {0})))};
  };
  const std::string kept = check(weights, {numbers({40, 50})}, -1, 4)->text("jaxpr");
  EXPECT_NE(kept.find("transpose"), std::string::npos) << kept;
}

TEST(Simplify, AProductThatIsReadTwiceIsNotTakenTwice) {
  const std::string names = left(
      [](std::span<const Array> x) {
        DotDimensionNumbers dn;
        dn.lhs_contracting = {1};
        dn.rhs_contracting = {0};
        const Array c = lax::dot_general(x[0], x[1], dn);
        return Arrays{c, lax::transpose(c, {1, 0})};
      },
      {numbers({3, 5}), numbers({5, 4})}, 1e3);
  EXPECT_EQ(names, "dot_general transpose");
}

// The program as the simplifier alone leaves it.
std::string simplified(const std::function<Array(const Array&)>& f, const Array& x) {
  const Jaxpr program = stage([&](std::span<const Array> a) { return Arrays{f(a[0])}; }, {x});
  return eliminate_dead_code(compiler::simplify(inline_calls(program))).to_string();
}

TEST(Simplify, PositionsAreComparedInThirtyTwoBits) {
  const auto identity = [](const Array& x) {
    const Array i = lax::iota(DType::i64, {6, 6}, 0), j = lax::iota(DType::i64, {6, 6}, 1);
    return lax::select(lax::eq(i, j), x, lax::select(lax::lt(i, lax::full_like(i, 3)), x, -x));
  };
  const Array x = numbers({6, 6});
  left(identity, x);
  EXPECT_THAT(simplified(identity, x), ::testing::Not(::testing::HasSubstr("i64")));
}

TEST(Simplify, PositionsBesideNumbersOfSixtyFourBitsAreAsWide) {
  const auto identity = [](const Array& x) {
    const Array i = lax::iota(DType::i64, {6, 6}, 0), j = lax::iota(DType::i64, {6, 6}, 1);
    return lax::select(lax::eq(i, j), x, -x);
  };
  const Array x = numbers({6, 6}, DType::f64);
  left(identity, x);
  EXPECT_THAT(simplified(identity, x), ::testing::Not(::testing::HasSubstr("i32")));
}

// Rows of the identity meet infinities, NaN and zeros of both signs; 30 columns are written out, 530 are a loop.
TEST(Simplify, JacobiansHaveTheNumbersOfEagerOnes) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto f = [](const Array& x) {
    const Array y = (roll(x, -1) - roll(x, 2)) * roll(x, 1) - x;
    return y + pad(x(slice(1, none)) * y(slice(none, -1)), {{1, 0}});
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int n : {30, 530}) {
      std::vector<double> values(static_cast<std::size_t>(n), 1.5);
      values[3] = inf, values[9] = -inf, values[14] = std::nan(""), values[20] = -0.0,
      values[26] = 0;
      const Array x = lax::convert_element_type(Array(values), dtype);
      expect_equal(jit(jacfwd(f))(x), jacfwd(f)(x), 0, "jacfwd");
      expect_equal(jit(jacrev(f))(x), jacrev(f)(x), 0, "jacrev");
    }
  }
}

TEST(Simplify, ComparesWithNumbersBeyondThirtyTwoBits) {
  const Array x = numbers({6});
  for (const double number : {5e9, -5e9}) {
    const auto f = [number](const Array& a) {
      const Array i = lax::iota(DType::i64, {6}, 0);
      return lax::select(lax::lt(i, lax::full_like(i, number)), a, -a);
    };
    EXPECT_EQ(left(f, x), number > 0 ? "" : "neg");
  }
}

TEST(Simplify, PadsThatFillEachOthersZerosAreOneArray) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool first : {false, true}) {
      const auto f = [&](std::span<const Array> in) {
        const Array &p = in[0], &x = in[1];
        const Array zero = lax::full({}, dtype, 0);
        const Array left =
            lax::pad(lax::slice(x, {0, 2}, {3, 7}), zero, {{{0, 0, 0}}, {{0, 2, 0}}});
        const Array right =
            lax::pad(lax::slice(x, {0, 0}, {3, 2}), zero, {{{0, 0, 0}}, {{5, 0, 0}}});
        return Arrays{first ? lax::add(left, right) : lax::add(lax::add(p, left), right)};
      };
      const Array signs = lax::mul(numbers({3, 7}, dtype), lax::full({3, 7}, dtype, -0.0));
      for (const Array& p : {numbers({3, 7}, dtype), signs}) {
        for (const Array& x : {numbers({3, 7}, dtype), signs, lax::neg(p)})
          EXPECT_THAT(left(f, {p, x}), ::testing::Not(::testing::HasSubstr("pad")));
      }
    }
  }
}

TEST(Simplify, ColumnsOfShortRowsAreJoinedWhereTheyAreOneArrayAlone) {
  const auto column = [](const Array& x, std::int64_t k) {
    return lax::slice(x, {0, k}, {x.shape()[0], k + 1});
  };
  const auto side_by_side = [](const Arrays& columns) { return lax::concatenate(columns, 1); };
  const Program f = [&](std::span<const Array> in) {
    const Array &a = in[0], &b = in[1];
    return Arrays{
        side_by_side({column(a, 0), column(a, 1), column(a, 2)}),
        side_by_side({column(a, 0), column(a, 1), column(b, 0), column(b, 1)}),
    };
  };
  const std::string program = left(f, {numbers({5, 3}), numbers({5, 2})});
  EXPECT_EQ(program, "slice slice slice slice concatenate");
}

TEST(Simplify, PadsThatLeaveAGapOrOverlapStay) {
  const Array zero = lax::full({}, DType::f32, 0), x = numbers({7});
  const auto f = [&](std::int64_t cut) {
    return [=](const Array& a) {
      return lax::add(lax::pad(lax::slice(a, {cut}, {7}), zero, {{{0, cut, 0}}}),
                      lax::pad(lax::slice(a, {0}, {3}), zero, {{{4, 0, 0}}}));
    };
  };
  EXPECT_THAT(left(f(2), x), ::testing::HasSubstr("pad"));
  EXPECT_THAT(left(f(4), x), ::testing::HasSubstr("pad"));
  EXPECT_THAT(left(f(3), x), ::testing::Not(::testing::HasSubstr("pad")));
}

// Each index counts along some dimension of the places, or is looked up; those that are not inside are dropped.
TEST(Simplify, PlacesThatCountAlongADimensionAreABatch) {
  struct Looked {
    std::vector<int> along;  // of each axis: the dimension of the places, or -1
    bool batched;
  };
  const Shape places{6, 4};
  for (const auto& [along, batched] : std::vector<Looked>{{{0, -1, 1}, true},
                                                          {{1, 0, -1}, true},
                                                          {{-1, 1, 0}, true},
                                                          {{-1, -1, 0}, true},
                                                          {{0, 0, -1}, true},
                                                          {{-1, -1, -1}, false},
                                                          {{0, 1, 0}, true}}) {
    for (const bool exact : {true, false}) {
      Shape shape;
      for (const int d : along)
        shape.push_back(d < 0 ? 5 : places[static_cast<std::size_t>(d)] + (exact ? 0 : 1));
      GatherParams p;
      p.dimension_numbers = {.offset_dims = {2}, .collapsed_slice_dims = {0, 1, 2}};
      p.dimension_numbers.start_index_map = {0, 1, 2};
      p.slice_sizes = {1, 1, 1, 3};
      shape.push_back(3);
      const Compiled e = check(
          [&](std::span<const Array> a) {
            Arrays columns;
            for (std::size_t k = 0; k < 3; ++k) {
              const Array i = along[k] < 0 ? a[1] + static_cast<int>(k)
                                           : lax::iota(DType::i32, places, along[k]);
              columns.push_back(lax::reshape(i, {6, 4, 1}));
            }
            return Arrays{lax::gather(a[0], lax::concatenate(columns, 2), p)};
          },
          {uniform(shape, DType::f32),
           lax::convert_element_type(uniform(places, DType::f32, -2, 7), DType::i32)});
      const bool as_batch = e->text("jaxpr").find("operand_batching_dims=()") == std::string::npos;
      EXPECT_EQ(as_batch, batched && exact) << e->text("jaxpr");
    }
  }
}

// Numbers that wrap around or are rounded on their way count nothing.
TEST(Simplify, PlacesOfNarrowTypesAreLookedUp) {
  const std::pair<std::vector<DType>, bool> ways[] = {{{DType::i32}, true},
                                                      {{DType::i64, DType::i32}, true},
                                                      {{DType::u16, DType::i64}, true},
                                                      {{DType::i8, DType::i32}, false},
                                                      {{DType::u8}, false},
                                                      {{DType::bf16, DType::i32}, false},
                                                      {{DType::i32, DType::f16, DType::i32}, false},
                                                      {{DType::i32, DType::i8, DType::i32}, false}};
  for (const auto& [types, batched] : ways) {
    const Compiled e = check(
        [&, &types = types](std::span<const Array> a) {
          Array rows = lax::iota(types[0], {300, 4}, 0);
          for (const DType type : types) rows = lax::convert_element_type(rows, type);
          const Array columns = lax::convert_element_type(a[1], types.back());
          GatherParams p;
          p.dimension_numbers = {.collapsed_slice_dims = {0, 1}, .start_index_map = {0, 1}};
          p.slice_sizes = {1, 1};
          return Arrays{lax::gather(
              a[0],
              lax::concatenate(
                  Arrays{lax::reshape(rows, {300, 4, 1}), lax::reshape(columns, {300, 4, 1})}, 2),
              p)};
        },
        {uniform({300, 7}, DType::f32),
         lax::convert_element_type(uniform({300, 4}, DType::f32, 0, 7), DType::i32)});
    const bool as_batch = e->text("jaxpr").find("operand_batching_dims=()") == std::string::npos;
    EXPECT_EQ(as_batch, batched) << e->text("jaxpr");
  }
}

TEST(Simplify, LeavesFoldsOfStackedComplexNumbers) {
  const Array x = lax::convert_element_type(uniform({5}, DType::f32), DType::c64);
  const auto f = [](const Array& y) { return sum(stack({y, y, y}), 0); };
  EXPECT_EQ(lax::convert_element_type(jit(f)(x), DType::f32).to_vector<float>(),
            lax::convert_element_type(f(x), DType::f32).to_vector<float>());
}

}  // namespace
}  // namespace telamon::testing
