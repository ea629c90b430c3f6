// The parameters of equations: compared, hashed, printed and parsed member by member.
#include "telamon/params.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "support/errors.hpp"
#include "telamon/jaxpr.hpp"

namespace tl = telamon;
using ::testing::HasSubstr;
using tl::DType;
using tl::Params;
using tl::ParamsText;
using tl::ParamText;
using tl::Shape;

namespace {

enum class Mode { fill, clip };
std::string_view to_string(Mode mode) { return mode == Mode::fill ? "fill" : "clip"; }

enum class Padding : std::uint8_t { same, valid };
enum Plain { plain_zero, plain_one };  // no fixed type: printed as a number
struct Enums {
  Padding padding = Padding::valid;
  Plain plain = plain_one;
  Padding unnamed = static_cast<Padding>(9);
};
struct Dimensions {
  Shape lhs_contracting, rhs_contracting;
};
struct Sample {
  bool flag = true;
  int count = -3;
  std::uint8_t byte = 7;
  double scale = 0.1;
  float narrow = 0.1f;
  Mode mode = Mode::clip;
  DType dtype = tl::f32;
  Shape shape{2, 1};
  std::string text = "it's";
  std::vector<int> one{1};
  std::vector<bool> bits{true, false};
  std::pair<int, double> pair{1, 2};
  std::tuple<int> tuple{3};
  std::array<int, 2> array{4, 5};
  std::optional<int> absent;
  std::optional<double> zero = -0.0;
  Dimensions dims{{1}, {0}};
  std::vector<Dimensions> list{{{1}, {2}}};
  std::map<std::string, int> map{{"k", 1}};
};
struct Branches {
  tl::Jaxpr body;
  int n = 0;
  std::vector<tl::Jaxpr> branches;
};
struct Callbacks {
  std::function<int()> plain;
  tl::Opaque<std::function<int()>> opaque;
  std::shared_ptr<int> state;
};
struct Floats {
  double d = 0;
  float f = 0;
};
struct Axes {
  std::vector<std::int64_t> axes;
  std::optional<std::string> name;
};

/// The default Sample with one change.
template <class Change>
Params sample(Change change) {
  Sample s;
  change(s);
  return Params::of(std::move(s));
}

std::string parse_failure(std::vector<ParamText> fields) {
  return telamon_test::message_of<tl::ParseError>(
      [&] { Params::parse<Sample>({.fields = std::move(fields)}); });
}

}  // namespace

TEST(ParamsText, IsSortedByNameInPythonNotation) {
  EXPECT_EQ(
      Params::of(Sample{}).to_string(),
      "absent=None array=(4, 5) bits=(True, False) byte=7 count=-3 "
      "dims={lhs_contracting=(1,), rhs_contracting=(0,)} dtype=f32 flag=True "
      "list=({lhs_contracting=(1,), rhs_contracting=(2,)},) map={'k': 1} mode=clip narrow=0.1 "
      "one=(1,) pair=(1, 2.0) scale=0.1 shape=(2, 1) text='it\\'s' tuple=(3,) zero=-0.0");
  EXPECT_EQ(Params().to_string(), "");
}

TEST(ParamsText, WritesFloatsShortestAndSpecialValuesByName) {
  EXPECT_EQ(Params::of(Floats{1e300, 1e-7f}).to_string(), "d=1e+300 f=1e-07");
  EXPECT_EQ(Params::of(Floats{1.0 / 3, 1.0f / 3}).to_string(), "d=0.3333333333333333 f=0.33333334");
  EXPECT_EQ(Params::of(Floats{HUGE_VAL, -HUGE_VALF}).to_string(), "d=inf f=-inf");
  EXPECT_EQ(Params::of(Floats{NAN, 100.0f}).to_string(), "d=nan f=100.0");
}

TEST(ParamsText, NamesEnumeratorsWithoutHelp) {
  const Params p = Params::of(Enums{});
  EXPECT_EQ(p.to_string(), "padding=valid plain=1 unnamed=9");
  EXPECT_EQ(Params::parse<Enums>({.fields = p.fields()}), p);
  const ParamsText same{.fields = {{"padding", "\"same\""}}};
  EXPECT_EQ(Params::parse<Enums>(same).as<Enums>().padding, Padding::same);
  EXPECT_THROW((void)Params::parse<Enums>({.fields = {{"padding", "full"}}}), tl::ParseError);
}

TEST(ParamsText, ReadsBackWhatItWrites) {
  const Params p = sample([](Sample& s) { s.text = "a\n\t\\\x01 \"q\" 'é'"; });
  const Params q = Params::parse<Sample>({.fields = p.fields()});
  EXPECT_EQ(q, p);
  EXPECT_EQ(q.hash(), p.hash());
  EXPECT_EQ(q.to_string(), p.to_string());
}

RC_GTEST_PROP(ParamsText, RoundTripsAnyNumbersAndStrings,
              (double d, float f, std::vector<std::int64_t> axes, std::string name)) {
  const Params a = Params::of(Floats{d, f});
  RC_ASSERT(Params::parse<Floats>({.fields = a.fields()}) == a);
  const Params b = Params::of(Axes{axes, name});
  RC_ASSERT(Params::parse<Axes>({.fields = b.fields()}) == b);
}

TEST(ParamsText, IsAlsoReadInJsonNotation) {
  const ParamsText json{.fields = {{"shape", "[2, 1]"},
                                   {"dtype", "\"float32\""},
                                   {"absent", "null"},
                                   {"flag", "true"},
                                   {"mode", "\"clip\""},
                                   {"scale", "1e-1"},
                                   {"dims", R"({"rhs_contracting": [0], "lhs_contracting": [1]})"},
                                   {"list", "[[[1], [2]]]"},
                                   {"zero", "\"-0.0\""}}};
  EXPECT_EQ(Params::parse<Sample>(json), Params::of(Sample{}));
}

TEST(ParamsText, KeepsDefaultsOfMissingMembersAndRefusesUnknownOnes) {
  EXPECT_EQ(Params::parse<Sample>({}), Params::of(Sample{}));
  EXPECT_THAT(parse_failure({{"axis", "1"}}),
              HasSubstr("unknown parameter 'axis'; the parameters are flag, count, byte"));
  const ParamsText ignoring{.fields = {{"axis", "1"}, {"count", "4"}}, .ignored = {"axis"}};
  EXPECT_EQ(Params::parse<Sample>(ignoring).as<Sample>().count, 4);
  EXPECT_THROW(Params::parse<tl::NoParams>({.fields = {{"x", "1"}}}), tl::ParseError);
}

TEST(ParamsText, ErrorsNameTheParameterAndTheFault) {
  EXPECT_THAT(parse_failure({{"count", "3.5"}}),
              HasSubstr("cannot read parameter 'count' from `3.5`: expected an integer"));
  EXPECT_THAT(parse_failure({{"count", "99999999999"}}), HasSubstr("integer out of range"));
  EXPECT_THAT(parse_failure({{"byte", "256"}}), HasSubstr("integer out of range"));
  EXPECT_THAT(parse_failure({{"byte", "-1"}}), HasSubstr("non-negative"));
  EXPECT_THAT(parse_failure({{"count", "3 4"}}), HasSubstr("unexpected text after the value"));
  EXPECT_THAT(parse_failure({{"array", "(1,)"}}), HasSubstr("too few elements"));
  EXPECT_THAT(parse_failure({{"array", "(1, 2, 3)"}}), HasSubstr("too many elements"));
  EXPECT_THAT(parse_failure({{"shape", "(1, 2"}}), HasSubstr("expected ',' or ')'"));
  EXPECT_THAT(parse_failure({{"shape", "(1 2)"}}), HasSubstr("expected ',' or ')'"));
  EXPECT_THAT(parse_failure({{"mode", "wrap"}}), HasSubstr("unknown name 'wrap'"));
  EXPECT_THAT(parse_failure({{"dtype", "f31"}}), HasSubstr("'f31' is not a dtype"));
  EXPECT_THAT(parse_failure({{"dims", "{axis=1}"}}), HasSubstr("unknown member 'axis'"));
  EXPECT_THAT(parse_failure({{"text", "'open"}}), HasSubstr("unterminated string"));
  EXPECT_THAT(parse_failure({{"flag", "maybe"}}), HasSubstr("expected True or False"));
}

TEST(ParamsEquality, ComparesFloatsByTheirBits) {
  EXPECT_EQ(Params::of(Floats{NAN, 0}), Params::of(Floats{NAN, 0}));
  EXPECT_EQ(Params::of(Floats{NAN, 0}).hash(), Params::of(Floats{NAN, 0}).hash());
  EXPECT_FALSE(Params::of(Floats{0.0, 0}) == Params::of(Floats{-0.0, 0}));
  EXPECT_NE(Params::of(Floats{0.0, 0}).hash(), Params::of(Floats{-0.0, 0}).hash());
}

TEST(ParamsEquality, SeesEveryMemberAndTheType) {
  struct SameMembers {
    double d = 0;
    float f = 0;
  };
  EXPECT_FALSE(Params::of(Floats{}) == Params::of(SameMembers{}));
  const Params base = Params::of(Sample{});
  EXPECT_FALSE(base == sample([](Sample& s) { s.shape = {1, 2}; }));
  EXPECT_FALSE(base == sample([](Sample& s) { s.absent = 0; }));
  EXPECT_FALSE(base == sample([](Sample& s) { s.dims = {{1}, {1}}; }));
  EXPECT_FALSE(base == sample([](Sample& s) { s.map = {{"j", 1}}; }));
  EXPECT_FALSE(base == sample([](Sample& s) { s.bits = {true, true}; }));
  EXPECT_EQ(Params::of(tl::NoParams{}), Params());
}

TEST(ParamsEquality, CountsFunctionsByIdentity) {
  const Params empty = Params::of(Callbacks{});
  EXPECT_EQ(empty, Params::of(Callbacks{}));
  const Callbacks with_plain{.plain = [] { return 1; }, .opaque = {}, .state = {}};
  const Params plain = Params::of(with_plain);
  EXPECT_EQ(plain, Params(plain));
  EXPECT_FALSE(plain == Params::of(with_plain));
  const Callbacks with_opaque{
      .plain = {}, .opaque = std::function<int()>([] { return 1; }), .state = {}};
  EXPECT_EQ(Params::of(with_opaque), Params::of(with_opaque));
  EXPECT_EQ(Params::of(with_opaque).hash(), Params::of(with_opaque).hash());
  EXPECT_FALSE(Params::of(with_opaque) == empty);
  EXPECT_EQ(plain.to_string(), "opaque=None plain=<function> state=None");
  EXPECT_EQ(Params::of(with_opaque).as<Callbacks>().opaque->operator()(), 1);
}

TEST(ParamsHandle, ChecksTheTypeItIsReadAs) {
  const Params p = Params::of(Floats{});
  EXPECT_TRUE(p.holds<Floats>());
  EXPECT_EQ(p.type(), std::type_index(typeid(Floats)));
  try {
    (void)p.as<Axes>();
    FAIL();
  } catch (const tl::InternalError& e) {
    EXPECT_THAT(e.message(), HasSubstr("Floats were read as"));
  }
}

TEST(ParamsHandle, SharesItsValueAndOutlivesMoves) {
  Params p = Params::of(Sample{});
  const Params copy = p;
  EXPECT_EQ(&copy.as<Sample>(), &p.as<Sample>());
  const Params moved = std::move(p);
  EXPECT_EQ(&moved.as<Sample>(), &copy.as<Sample>());
  p = copy;
  EXPECT_EQ(&p.as<Sample>(), &copy.as<Sample>());
}

TEST(ParamsHandle, MayBeSharedBetweenThreads) {
  const Params shared = Params::of(Sample{});
  std::vector<std::thread> threads;
  std::vector<std::size_t> hashes(4);
  for (std::size_t t = 0; t < hashes.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        std::vector<Params> mine(1, shared);
        hashes[t] = mine.back().hash();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t h : hashes) EXPECT_EQ(h, shared.hash());
}

TEST(ParamsJaxprs, AreFoundAndReplacedInMemberOrder) {
  const auto identity = [](int n) {
    return tl::Jaxpr(n, std::vector<tl::Aval>(static_cast<std::size_t>(n)), {}, {});
  };
  const Params p = Params::of(Branches{identity(1), 5, {identity(2), identity(3)}});
  ASSERT_TRUE(p.has_jaxprs());
  const auto found = p.jaxprs();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].num_inputs(), 3);
  const Params q = p.with_jaxprs({identity(4), found[1], found[2]});
  EXPECT_EQ(q.as<Branches>().body.num_inputs(), 4);
  EXPECT_EQ(q.as<Branches>().n, 5);
  EXPECT_FALSE(q == p);
  EXPECT_EQ(q.with_jaxprs(found), p);
  EXPECT_THROW((void)p.with_jaxprs({identity(1)}), tl::InternalError);
  EXPECT_FALSE(Params::of(Sample{}).has_jaxprs());
  EXPECT_TRUE(Params::of(Sample{}).jaxprs().empty());
  EXPECT_THROW((void)Params::of(Sample{}).with_jaxprs({identity(1)}), tl::InternalError);
}

TEST(ParamsJaxprs, AreParsedByTheCallersReader) {
  const ParamsText text{.fields = {{"body", "{ lambda a:f64[] . let  in ( ) }"},
                                   {"branches", "({ one }, { two { '}' } })"}},
                        .read_jaxpr = [seen = std::vector<std::string>{}](std::string_view t,
                                                                          tl::Jaxpr& out) mutable {
                          seen.emplace_back(t);
                          out = tl::Jaxpr(static_cast<int>(t.size()),
                                          std::vector<tl::Aval>(t.size()), {}, {});
                        }};
  const Params p = Params::parse<Branches>(text);
  EXPECT_EQ(p.as<Branches>().body.num_inputs(), 32);
  ASSERT_EQ(p.as<Branches>().branches.size(), 2u);
  EXPECT_EQ(p.as<Branches>().branches[1].num_inputs(), 15);
  EXPECT_THROW((void)Params::parse<Branches>({.fields = {{"body", "{ }"}}}), tl::ParseError);
}
