// Reading jaxprs back: nothing is lost, and errors say where and what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <bit>
#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "jaxpr/builder.hpp"
#include "jaxpr/parse.hpp"
#include "support/errors.hpp"
#include "telamon/primitives.hpp"
#include "test_primitives.hpp"

namespace {

void expect_round_trip(const std::string& text) {
  const Jaxpr jaxpr = parse_jaxpr(text);
  EXPECT_EQ(jaxpr.to_string(), text);
  EXPECT_TRUE(parse_jaxpr(jaxpr.to_string()) == jaxpr);
}

std::string error_of(const std::string& text) {
  return telamon_test::message_of<tl::ParseError>([&] { parse_jaxpr(text); });
}
// Without the lines of the text.
std::string fault_of(const std::string& text) {
  const std::string error = error_of(text);
  return error.substr(0, error.find('\n'));
}

// A locale in which 1.5 is written 1,5: one of the system, or else one that is made.
class DecimalCommas {
 public:
  DecimalCommas() : before_(std::setlocale(LC_NUMERIC, nullptr)) {
    for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8"}) {
      if (!found_) found_ = std::setlocale(LC_NUMERIC, name) != nullptr;
    }
    if (found_) return;
    folder_ =
        std::filesystem::temp_directory_path() / ("telamon_locale_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    const std::string make =
        "localedef -i de_DE -f UTF-8 '" + (folder_ / "de_DE.UTF-8").string() + "' 2>/dev/null";
    if (std::system(make.c_str()) != 0) return;  // NOLINT(cert-env33-c): no input goes there
    setenv("LOCPATH", folder_.c_str(), 1);
    found_ = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
    unsetenv("LOCPATH");
  }
  ~DecimalCommas() {
    std::setlocale(LC_NUMERIC, before_.c_str());
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  DecimalCommas(const DecimalCommas&) = delete;
  DecimalCommas& operator=(const DecimalCommas&) = delete;
  bool found() const { return found_; }

 private:
  std::string before_;
  std::filesystem::path folder_;
  bool found_ = false;
};

}  // namespace

TEST(JaxprParser, ReadsWhatThePrinterWrites) {
  expect_round_trip("{ lambda  .\n  let \n  in (  ) }");
  expect_round_trip("{ lambda a:f64[], b:~f32[2,3] .\n  let \n  in ( a, b, a, 2.0, 3:i32 ) }");
  expect_round_trip(
      "{ lambda a:f64[] .\n"
      "  let b:f64[] = sin a\n"
      "      c:f64[] = mul b 2.0\n"
      "  in ( c ) }");
  expect_round_trip(
      "{ lambda a:f64[3] .\n"
      "  let b:f64[] = reduce_sum [ axes=(0,) ] a\n"
      "      c:f64[2,3] = broadcast_in_dim [ broadcast_dimensions=()\n"
      "                                      shape=(2, 3) ] b\n"
      "  in ( c ) }");
  expect_round_trip(
      "{ lambda a:f64[], b:f64[] .\n"
      "  let c:f64[] d:f64[] = jit [ name='a b' num_consts=1 ] a b\n"
      "        { lambda a:f64[], b:f64[] .\n"
      "          let c:f64[] = jit [ name=g num_consts=0 ] a\n"
      "                { lambda a:f64[] .\n"
      "                  let b:f64[] = sin a\n"
      "                  in ( b ) }\n"
      "          in ( c, b ) }\n"
      "  in ( d ) }");
}

TEST(JaxprParser, ReadsEffectsAndEquationsWithoutResults) {
  expect_round_trip(
      "{ lambda a:f64[] .\n"
      "  let b:f64[] = test_print{ordered} a\n"
      "      c:f64[] = test_count{unordered} b\n"
      "      test_send{ordered} b\n"
      "      d:f64[] = 'test-quoted name' c\n"
      "  in ( d ) }");
}

TEST(JaxprParser, PutsNestedProgramsIntoTheMembersThatHoldThem) {
  const std::string text =
      "{ lambda a:f64[] .\n"
      "  let b:f64[] = test_branches a\n"
      "        { lambda a:f64[] .\n          let \n          in ( a ) }\n"
      "        { lambda a:f64[] .\n          let \n          in ( 2.0 ) }\n"
      "      c:f64[] = test_loop [ unroll=4 ] b\n"
      "        { lambda a:f64[] .\n          let \n          in ( a ) }\n"
      "        { lambda a:f64[] .\n          let \n          in ( 2.0 ) }\n"
      "  in ( c ) }";
  expect_round_trip(text);
  const Jaxpr jaxpr = parse_jaxpr(text);
  EXPECT_EQ(jaxpr.eqns()[0].params.as<test::BranchesParams>().branches.size(), 2u);
  const auto& loop = jaxpr.eqns()[1].params.as<test::LoopParams>();
  EXPECT_TRUE(loop.cond_jaxpr.outs()[0].is_var());
  EXPECT_TRUE(loop.body_jaxpr.outs()[0].is_literal());
  EXPECT_EQ(loop.unroll, 4);
}

TEST(JaxprParser, KeepsEveryKindOfParameter) {
  tl::detail::JaxprBuilder b;
  const Aval aval{{}, DType::f64, false};
  const Atom x = Atom::var(b.add_input(aval));
  const test::ManyParams params{.label = "it's ] a \"test\"\n{",
                                .scale = -0.0,
                                .ratio = 0.1f,
                                .flag = false,
                                .axes = {3, -1},
                                .dtype = DType::bf16,
                                .names = {"a b", "None", ""}};
  const Atom y = Atom::var(b.add_eqn1(test::many_p, Params::of(params), {x}, aval));
  const Atom z = Atom::var(b.add_eqn1(test::many_p, Params::of(test::ManyParams{}), {y}, aval));
  const Jaxpr jaxpr = b.build({z}).jaxpr;
  EXPECT_TRUE(parse_jaxpr(jaxpr.to_string()) == jaxpr) << jaxpr.to_string();
}

TEST(JaxprParser, TakesAnyNamesAndSpaces) {
  const Jaxpr jaxpr = parse_jaxpr("{lambda x:f64[],y : f64[ ].let z:f64[]=mul x y\n in(z)}");
  EXPECT_EQ(jaxpr.to_string(),
            "{ lambda a:f64[], b:f64[] .\n  let c:f64[] = mul a b\n  in ( c ) }");
}

// Each just above the middle of two numbers, which a first rounding to f32 would give.
TEST(JaxprParser, RoundsNumbersOfShortTypesOnce) {
  const Jaxpr jaxpr =
      parse_jaxpr("{ lambda . let in ( 1.003906250000001:bf16, 1.000488281250001:f16 ) }");
  EXPECT_EQ(jaxpr.to_string(), "{ lambda  .\n  let \n  in ( 1.0078125:bf16, 1.0009766:f16 ) }");
}

// What is out of range of its type is read in another way than the rest.
TEST(JaxprParser, ReadsNumbersOutOfRangeAlsoWithDecimalCommas) {
  const DecimalCommas commas;
  if (!commas.found()) GTEST_SKIP() << "there is no locale with decimal commas here";
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda a:f32[] . let b:f32[] = mul a 1.5e-60:f32\n c:f64[] = mul 1.5e-400 1.5e400\n"
      "  in ( b, c ) }");
  EXPECT_EQ(jaxpr.to_string(),
            "{ lambda a:f32[] .\n  let b:f32[] = mul a 0.0:f32\n      c:f64[] = mul 0.0 inf\n"
            "  in ( b, c ) }");
}

TEST(JaxprParser, SaysWhereAndWhatItExpected) {
  EXPECT_EQ(fault_of(""), "jaxpr text, 1:1: expected '{', found the end of the text");
  EXPECT_EQ(fault_of("{ lambda a f64[] . let in ( a ) }"),
            "jaxpr text, 1:12: expected ':', found 'f64'");
  EXPECT_EQ(fault_of("{ lambda a:f46[] .\n let in ( a ) }"),
            "jaxpr text, 1:12: expected a dtype, found 'f46'");
  EXPECT_EQ(fault_of("{ lambda a:f64[-1] .\n let in ( a ) }"),
            "jaxpr text, 1:16: expected a size, found '-1'");
  EXPECT_EQ(fault_of("{ lambda a:f64[] .\n  let b:f64[] = frobnicate a\n  in ( b ) }"),
            "jaxpr text, 2:17: unknown primitive 'frobnicate'");
  EXPECT_EQ(fault_of("{ lambda a:f64[] .\n  let b:f64[] = sin c\n  in ( b ) }"),
            "jaxpr text, 2:21: variable 'c' is unbound");
  EXPECT_EQ(fault_of("{ lambda a:f64[] .\n  let b:f64[] = sin b\n  in ( b ) }"),
            "jaxpr text, 2:21: variable 'b' is unbound");
  EXPECT_EQ(fault_of("{ lambda a:f64[] .\n  let a:f64[] = sin a\n  in ( a ) }"),
            "jaxpr text, 2:7: variable 'a' is bound twice");
  EXPECT_EQ(fault_of("{ lambda a:f64[] .\n  let b:f64[] = sin a\n  in ( b ) } }"),
            "jaxpr text, 3:14: expected the end of the text, found '}'");
  EXPECT_EQ(fault_of("{ lambda .\n let in ( 300:u8 ) }"),
            "jaxpr text, 2:11: '300' is not a literal of dtype u8");
  EXPECT_EQ(fault_of("{ lambda .\n let in ( 1.5:i32 ) }"),
            "jaxpr text, 2:11: '1.5' is not a literal of dtype i32");
}

TEST(JaxprParser, ShowsTheLineOfAnErrorAndMissesCommas) {
  EXPECT_EQ(error_of("{ lambda a:f64[] b:f64[] .\n  let \n  in ( a ) }"),
            "jaxpr text, 1:18: expected ',' or '.', found 'b'\n"
            "  { lambda a:f64[] b:f64[] .\n"
            "                   ^");
  EXPECT_EQ(error_of("{ lambda a:f64[], b:f64[] .\n  let \n  in ( a b ) }"),
            "jaxpr text, 3:10: expected ',' or ')', found 'b'\n"
            "    in ( a b ) }\n"
            "           ^");
  EXPECT_EQ(error_of("{ lambda a:f64[2 3] .\n  let \n  in ( a ) }"),
            "jaxpr text, 1:18: expected ',' or ']', found '3'\n"
            "  { lambda a:f64[2 3] .\n"
            "                   ^");
  EXPECT_EQ(
      fault_of("{ lambda a:f64[2,3] .\n  let b:f64[] = reduce_sum [ axes=(0 1) ] a\n  in ( b ) }"),
      "jaxpr text, 2:17: cannot read parameter 'axes' from `(0 1)`: expected ',' or ')' (at "
      "character 3)");
  // Of long lines a part, of control characters their escapes.
  const std::string many =
      "{ lambda " + std::string(500, 'a') + ":f64[]\t ?" + std::string(500, 'b');
  EXPECT_EQ(error_of(many),
            "jaxpr text, 1:518: expected ',' or '.', found '?'\n"
            "  " +
                std::string(52, 'a') + ":f64[]\\t ?" + std::string(39, 'b') + "\n  " +
                std::string(61, ' ') + "^");
}

TEST(JaxprParser, RejectsParametersThatDoNotFit) {
  const auto with = [](const std::string& eqn) {
    return fault_of("{ lambda a:f64[3] .\n  let b:f64[] = " + eqn + "\n  in ( b ) }");
  };
  EXPECT_NE(with("reduce_sum [ axis=(0,) ] a").find("jaxpr text, 2:17: unknown parameter 'axis'"),
            std::string::npos);
  EXPECT_NE(with("reduce_sum [ axes=x ] a").find("jaxpr text, 2:17: "), std::string::npos);
  EXPECT_NE(with("reduce_sum [ axes (0,) ] a").find("expected '=', found '('"), std::string::npos);
  EXPECT_EQ(with("sin a { lambda .\n let in (  ) }"),
            "jaxpr text, 2:17: 'sin' takes 0 jaxprs, found 1");
  EXPECT_EQ(with("test_loop a { lambda .\n let in (  ) }"),
            "jaxpr text, 2:17: 'test_loop' takes 2 jaxprs, found 1");
}

TEST(JaxprParser, SurvivesNonsense) {
  for (const char* text :
       {"{", "{ lambda", "{ lambda a:f64[", "{ lambda a:f64[] . let b:f64[] = sin [ x=(", "((((",
        "'", "{ lambda . let in ( - ) }", "{ lambda . let in ( nan(0x1) ) }",
        "{ lambda . let in ( (1.0 ) }", "{ lambda . let in ( nan(0x7f800001):i32 ) }"}) {
    EXPECT_THROW(parse_jaxpr(text), tl::ParseError) << text;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{ lambda . let test_send{ordered} ";
  EXPECT_THROW(parse_jaxpr(deep), tl::ParseError);
}

// ---- Any literal, any program --------------------------------------------------------------------

RC_GTEST_PROP(JaxprParser, KeepsTheBitsOfEveryLiteral, (std::uint64_t low, std::uint64_t high)) {
  const std::vector<DType> dtypes = {DType::bool_, DType::i8,  DType::i16, DType::i32, DType::i64,
                                     DType::u8,    DType::u16, DType::u32, DType::u64, DType::f16,
                                     DType::bf16,  DType::f32, DType::f64, DType::c64, DType::c128};
  const DType dtype = *rc::gen::elementOf(dtypes);
  std::uint64_t bits[2] = {low * 0x9e3779b97f4a7c15u, high * 0x9e3779b97f4a7c15u};
  if (*rc::gen::inRange(0, 4) == 0) bits[0] = bits[1] = ~std::uint64_t{0};  // nan, everywhere
  if (dtype == DType::bool_) bits[0] &= 1;
  const Array value = Array::from_data(bits, dtype, {});
  const Jaxpr jaxpr(0, {}, {}, {Atom::literal(value)});
  RC_ASSERT(parse_jaxpr(jaxpr.to_string()) == jaxpr);
}

namespace {

Jaxpr random_program(int depth) {
  const std::vector<Aval> avals = {
      {{}, DType::f64, false}, {{2, 3}, DType::f32, false}, {{4}, DType::i32, true}};
  tl::detail::JaxprBuilder b;
  tl::Atoms atoms;
  const int num_inputs = *rc::gen::inRange(0, 4);
  for (int i = 0; i < num_inputs; ++i)
    atoms.push_back(Atom::var(b.add_input(*rc::gen::elementOf(avals))));
  atoms.push_back(Atom::literal(Array(*rc::gen::arbitrary<double>())));
  const auto pick = [&] { return atoms[*rc::gen::inRange<std::size_t>(0, atoms.size())]; };
  const int num_eqns = *rc::gen::inRange(0, 8);
  for (int i = 0; i < num_eqns; ++i) {
    const Aval aval = *rc::gen::elementOf(avals);
    tl::Vars outs;
    switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
      case 0: outs = b.add_eqn(tl::add_p, {}, {pick(), pick()}, {aval}); break;
      case 1:
        outs = b.add_eqn(tl::reduce_sum_p, Params::of(tl::AxesParams{{0, 1}}), {pick()}, {aval});
        break;
      case 2: outs = b.add_eqn(test::send_p, {}, {pick()}, {}, tl::Effect::ordered); break;
      case 3: {
        const test::ManyParams p{.label = *rc::gen::arbitrary<std::string>(),
                                 .scale = *rc::gen::arbitrary<double>()};
        outs =
            b.add_eqn(test::many_p, Params::of(p), {pick()}, {aval, aval}, tl::Effect::unordered);
        break;
      }
      case 4:
        outs = b.add_eqn(tl::convert_element_type_p,
                         Params::of(tl::ConvertParams{DType::bf16, true}), {pick()}, {aval});
        break;
      case 5:
        outs = b.add_eqn(tl::jit_p,
                         Params::of(tl::JitParams{.jaxpr = random_program(depth - 1), .name = "f"}),
                         {pick(), pick()}, {aval});
        break;
      default: {
        test::BranchesParams p;
        for (int j = *rc::gen::inRange(0, 3); j >= 0; --j)
          p.branches.push_back(random_program(depth - 1));
        outs = b.add_eqn(test::branches_p, Params::of(p), {pick()}, {aval, aval});
      }
    }
    for (const tl::Var v : outs) atoms.push_back(Atom::var(v));
  }
  tl::Atoms outs;
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) outs.push_back(pick());
  return b.build(outs, tl::detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

}  // namespace

TEST(JaxprParser, ChecksWhatEquationsTakeAndGive) {
  const auto refused = [](const std::string& eqn) {
    return telamon_test::message_of<tl::TypeError>([&] {
      (void)parse_jaxpr("{ lambda a:f32[3] . let\n b:f32[3] = " + eqn + "\n in ( b ) }");
    });
  };
  for (const char* const eqn :
       {"clamp a", "pow a", "add a", "sin a a", "pad [ padding_config=((0,0,0),) ] a"})
    EXPECT_THAT(refused(eqn), ::testing::HasSubstr(eqn));
  EXPECT_THAT(refused("sign 1.0"), ::testing::HasSubstr("let-binder of type f32[3]"));
}

RC_GTEST_PROP(JaxprParser, ReadsBackRandomPrograms, ()) {
  const Jaxpr jaxpr = random_program(2);
  const Jaxpr back = tl::detail::parse_untyped_jaxpr(jaxpr.to_string());
  RC_ASSERT(back == jaxpr);
  RC_ASSERT(back.hash() == jaxpr.hash());
  RC_ASSERT(back.to_string() == jaxpr.to_string());
}

RC_GTEST_PROP(JaxprParser, TakesDamagedTextOrSaysWhere, ()) {
  std::string text = random_program(1).to_string();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text.erase(at, 1); break;
      case 1: text[at] = *rc::gen::elementOf(std::string("{}[]()=:,.ab01- \n'\"~_j")); break;
      default: text.insert(at, text.substr(at, 5));
    }
  }
  try {
    const Jaxpr jaxpr = tl::detail::parse_untyped_jaxpr(text);
    RC_ASSERT(tl::detail::parse_untyped_jaxpr(jaxpr.to_string()) == jaxpr);
  } catch (const tl::ParseError& error) { RC_ASSERT(error.message().starts_with("jaxpr text, ")); }
}
