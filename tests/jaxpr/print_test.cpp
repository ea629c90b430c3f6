// The text of jaxprs: the seeds' grammar.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "jaxpr/builder.hpp"
#include "telamon/primitives.hpp"
#include "test_primitives.hpp"

namespace {

Atom strong(double v) { return Atom::literal(Array::from_data(&v, DType::f64, {})); }
template <class T>
Atom literal(T v) {
  return Atom::literal(Array::from_data(&v, tl::dtype_of<T>, {}));
}

std::string text_of_literal(const Atom& a) {
  const std::string text = Jaxpr(0, {}, {}, {a}).to_string();
  const std::string before = "{ lambda  .\n  let \n  in ( ", after = " ) }";
  EXPECT_TRUE(text.starts_with(before) && text.ends_with(after)) << text;
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

}  // namespace

TEST(JaxprText, OfTheSeedsFirstFunctionIsTheirs) {  // f(x) = -(sin(x) * 2) + x
  JaxprBuilder b;
  const Atom x = Atom::var(b.add_input(kF64));
  const Var sin = b.add_eqn1(tl::sin_p, {}, {x}, kF64);
  const Var twice = b.add_eqn1(tl::mul_p, {}, {Atom::var(sin), strong(2.0)}, kF64);
  const Var minus = b.add_eqn1(tl::neg_p, {}, {Atom::var(twice)}, kF64);
  const Var sum = b.add_eqn1(tl::add_p, {}, {Atom::var(minus), x}, kF64);
  const Jaxpr jaxpr = b.build({Atom::var(sum)}).jaxpr;
  const std::string expected =
      "{ lambda a:f64[] .\n"
      "  let b:f64[] = sin a\n"
      "      c:f64[] = mul b 2.0\n"
      "      d:f64[] = neg c\n"
      "      e:f64[] = add d a\n"
      "  in ( e ) }";
  EXPECT_EQ(jaxpr.to_string(), expected);
  std::ostringstream out;
  out << jaxpr;
  EXPECT_EQ(out.str(), expected);
  EXPECT_EQ(typecheck_jaxpr(jaxpr).to_string(), "(f64[]) -> (f64[])");
}

TEST(JaxprText, OfAProgramWithoutInputsOrEquationsKeepsTheFrame) {
  EXPECT_EQ(Jaxpr(0, {}, {}, {strong(4.0)}).to_string(), "{ lambda  .\n  let \n  in ( 4.0 ) }");
  EXPECT_EQ(Jaxpr(1, {kF64}, {}, {Atom::var(0)}).to_string(),
            "{ lambda a:f64[] .\n  let \n  in ( a ) }");
  EXPECT_EQ(Jaxpr().to_string(), "{ lambda  .\n  let \n  in (  ) }");
}

TEST(JaxprText, PutsParametersOnAlignedLines) {
  JaxprBuilder b;
  const Atom x = Atom::var(b.add_input(kVector));
  const Var sum = b.add_eqn1(tl::reduce_sum_p, Params::of(tl::AxesParams{{0}}), {x}, kF64);
  const Var wide =
      b.add_eqn1(tl::broadcast_in_dim_p, Params::of(tl::BroadcastInDimParams{{2, 3}, {}}),
                 {Atom::var(sum)}, {{2, 3}, DType::f64, false});
  EXPECT_EQ(b.build({Atom::var(wide)}).to_string(),
            "{ lambda a:f64[3] .\n"
            "  let b:f64[] = reduce_sum [ axes=(0,) ] a\n"
            "      c:f64[2,3] = broadcast_in_dim [ broadcast_dimensions=()\n"
            "                                      shape=(2, 3) ] b\n"
            "  in ( c ) }");
}

TEST(JaxprText, PutsNestedProgramsBelowTheirEquation) {
  JaxprBuilder inner;
  const Atom a = Atom::var(inner.add_input(kF64)), b = Atom::var(inner.add_input(kF64));
  const Atom c = Atom::var(inner.add_eqn1(tl::sin_p, {}, {a}, kF64));
  const Atom d = Atom::var(inner.add_eqn1(tl::mul_p, {}, {c, b}, kF64));
  const Jaxpr body = inner.build({c, d}).jaxpr;
  JaxprBuilder outer;
  const Atom x = Atom::var(outer.add_input(kF64)), y = Atom::var(outer.add_input(kF64));
  const auto outs = outer.add_eqn(tl::jit_p, Params::of(tl::JitParams{.jaxpr = body, .name = "f"}),
                                  {x, y}, {kF64, kF64});
  const auto again =
      outer.add_eqn(tl::jit_p, Params::of(tl::JitParams{.jaxpr = body, .name = "<lambda>"}),
                    {Atom::var(outs[0]), y}, {kF64, kF64});
  EXPECT_EQ(outer.build({Atom::var(outs[1]), Atom::var(again[0]), Atom::var(again[1])}).to_string(),
            "{ lambda a:f64[], b:f64[] .\n"
            "  let c:f64[] d:f64[] = jit [ name=f num_consts=0 ] a b\n"
            "        { lambda a:f64[], b:f64[] .\n"
            "          let c:f64[] = sin a\n"
            "              d:f64[] = mul c b\n"
            "          in ( c, d ) }\n"
            "      e:f64[] f:f64[] = jit [ name='<lambda>' num_consts=0 ] c b\n"
            "        { lambda a:f64[], b:f64[] .\n"
            "          let c:f64[] = sin a\n"
            "              d:f64[] = mul c b\n"
            "          in ( c, d ) }\n"
            "  in ( d, e, f ) }");
}

TEST(JaxprText, LeavesNestedProgramsOutOfTheParameters) {
  JaxprBuilder b;
  const Atom x = Atom::var(b.add_input(kF64));
  const Jaxpr identity(1, {kF64}, {}, {Atom::var(0)});
  const Jaxpr two(1, {kF64}, {}, {strong(2.0)});
  const Var y =
      b.add_eqn1(test::branches_p, Params::of(test::BranchesParams{{identity, two}}), {x}, kF64);
  const Var z = b.add_eqn1(test::loop_p, Params::of(test::LoopParams{identity, two, identity, 4}),
                           {Atom::var(y)}, kF64);
  EXPECT_EQ(b.build({Atom::var(z)}).to_string(),
            "{ lambda a:f64[] .\n"
            "  let b:f64[] = test_branches a\n"
            "        { lambda a:f64[] .\n          let \n          in ( a ) }\n"
            "        { lambda a:f64[] .\n          let \n          in ( 2.0 ) }\n"
            "      c:f64[] = test_loop [ epilogue=jaxpr unroll=4 ] b\n"
            "        { lambda a:f64[] .\n          let \n          in ( a ) }\n"
            "        { lambda a:f64[] .\n          let \n          in ( 2.0 ) }\n"
            "        { lambda a:f64[] .\n          let \n          in ( a ) }\n"
            "  in ( c ) }");
}

TEST(JaxprText, ShowsEffects) {
  JaxprBuilder b;
  const Atom x = Atom::var(b.add_input(kF64));
  const Atom y = Atom::var(b.add_eqn1(test::print_p, {}, {x}, kF64, tl::Effect::ordered));
  b.add_eqn1(test::count_p, {}, {y}, kF64, tl::Effect::unordered);
  b.add_eqn(test::send_p, {}, {y}, {}, tl::Effect::ordered);
  EXPECT_EQ(b.build({y}).to_string(),
            "{ lambda a:f64[] .\n"
            "  let b:f64[] = test_print{ordered} a\n"
            "      c:f64[] = test_count{unordered} b\n"
            "      test_send{ordered} b\n"
            "  in ( b ) }");
}

TEST(JaxprText, DecoratesAllLiteralsButDoublesLongsAndBools) {
  EXPECT_EQ(text_of_literal(literal(2.0)), "2.0");
  EXPECT_EQ(text_of_literal(literal(1e100)), "1e+100");
  EXPECT_EQ(text_of_literal(literal(std::int64_t{-7})), "-7");
  EXPECT_EQ(text_of_literal(literal(true)), "True");
  EXPECT_EQ(text_of_literal(literal(0.1f)), "0.1:f32");
  EXPECT_EQ(text_of_literal(literal(std::int32_t{3})), "3:i32");
  EXPECT_EQ(text_of_literal(literal(std::uint8_t{255})), "255:u8");
  EXPECT_EQ(text_of_literal(literal(tl::Complex64{1, -2.5f})), "(1.0-2.5j):c64");
  EXPECT_EQ(text_of_literal(Atom::literal(Array(2.0))), "2.0:~f64");
  EXPECT_EQ(text_of_literal(Atom::literal(Array(2.0f))), "2.0:~f32");
  EXPECT_EQ(text_of_literal(Atom::literal(Array(3))), "3:~i32");
}

TEST(JaxprText, SpellsNotANumbersInfinitiesAndNegativeZero) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(text_of_literal(literal(Limits::quiet_NaN())), "nan");
  EXPECT_EQ(text_of_literal(literal(Limits::infinity())), "inf");
  EXPECT_EQ(text_of_literal(literal(-Limits::infinity())), "-inf");
  EXPECT_EQ(text_of_literal(literal(-0.0)), "-0.0");
  EXPECT_EQ(text_of_literal(literal(-std::numeric_limits<float>::quiet_NaN())),
            "nan(0xffc00000):f32");
}

TEST(JaxprText, NamesTheTwentySeventhVariableAa) {
  JaxprBuilder b;
  Atom x = Atom::var(b.add_input(kF64));
  for (int i = 0; i < 27; ++i) x = Atom::var(b.add_eqn1(tl::sin_p, {}, {x}, kF64));
  const std::string text = b.build({x}).to_string();
  EXPECT_NE(text.find("z:f64[] = sin y\n      aa:f64[] = sin z\n      ab:f64[] = sin aa\n"),
            std::string::npos)
      << text;
}
