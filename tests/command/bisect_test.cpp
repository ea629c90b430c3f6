// `telamon bisect`: compiled and interpreted results, compared.
#include <csignal>

#include "command/cases.hpp"
#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

/// rest(a, p) = a a - p, which is 0 for p = a a unless it is contracted.
const char* const kRest =
    "{ lambda a:f32[2], p:f32[2] .\n  let b:f32[2] = mul a a\n"
    "      c:f32[2] = sub b p\n  in ( c ) }";

TEST_F(Command, BisectComparesWithTheInterpreter) {
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  const Answer plain = telamon_command("bisect " + cases);
  if (!kCompiles) {
    EXPECT_EQ(plain.code, 2);
    EXPECT_THAT(plain.text, HasSubstr("bisect: this build is without the compiler"));
    return;
  }
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.text, "wave: compiled and interpreted results agree\n");
  EXPECT_EQ(telamon_command("bisect --transform vmap,grad --case wave " + cases).text,
            "vmap(grad(wave)): compiled and interpreted results agree\n");
  const std::string text =
      file("double.jaxpr",
           "{ lambda a:f32[5] .\n  let b:f32[5] = exp a\n      c:f32[5] = add b b\n  in ( c ) }");
  EXPECT_EQ(telamon_command("bisect " + text).text,
            "double: compiled and interpreted results agree\n");
  EXPECT_EQ(telamon_command("bisect " + path("none.jaxpr")).code, 2);
  const Answer unknown = telamon_command("bisect " + text, "TELAMON_BACKEND=gpu ");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.text,
              HasSubstr("Unknown backend 'gpu' in the environment's TELAMON_BACKEND"));
  // Which with ones for integers would tell nothing.
  const std::string branches =
      file("branches.jaxpr",
           "{ lambda a:i32[4], b:bool[4], c:u8[4], d:c64[4] .\n  let e:i32[4] = select_n b a a\n"
           "  in ( e, c, d ) }");
  EXPECT_EQ(telamon_command("bisect " + branches).text,
            "branches: compiled and interpreted results agree\n");
}

TEST_F(Command, BisectTakesTheOptionsOfJit) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Array third = Array({1.0f, 2.0f}) / 3.0, product = third * third;
  const std::string contracted =
      telamon_command("bisect --contract --input " + array("a.npy", third) + "," +
                      array("p.npy", product) + " " + file("rest.jaxpr", kRest))
          .text;
  EXPECT_THAT(contracted, StartsWith("rest: right without --contract: a * b + c as one operation"));
  EXPECT_THAT(telamon_command("bisect --help").text, HasSubstr("contraction is the cause"));
  const std::string program = file("product.jaxpr", kProduct);
  EXPECT_EQ(telamon_command("bisect --contract --donate 0,-1 " + program).text,
            "product: compiled and interpreted results agree\n");
  for (const std::string number : {"2", "-3"}) {
    const Answer none = telamon_command("bisect --donate " + number + " " + program);
    EXPECT_EQ(none.code, 2);
    EXPECT_EQ(none.text,
              "telamon: --donate has input number " + number + ", but the program has 2 inputs\n");
  }
  for (const std::string numbers : {"a", "0,a", "0,", ",", "99999999999"}) {
    const Answer no_number = telamon_command("bisect --donate " + numbers + " " + program);
    EXPECT_EQ(no_number.code, 2);
    EXPECT_THAT(no_number.text, HasSubstr("' is no number of an input"));
  }
}

// The limit is of each process: that of the command itself goes on to the next case.
TEST_F(Command, BisectOutlivesACaseThatEndsItsProcess) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Json endless = endless_case();
  const std::string cases = file("cases.jsonl", endless.dump() + "\n" + kCase.dump() + "\n");
  const Answer answer = telamon_command("bisect --all " + cases, "ulimit -S -t 1; ");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text,
              HasSubstr("endless: there is nothing to compare with: interpreted, the process "
                        "ends with signal " +
                        std::to_string(SIGXCPU) + " ("));
  EXPECT_THAT(answer.text, HasSubstr("wave: compiled and interpreted results agree\n"));
}

TEST_F(Command, BisectGivesUpOnAStepThatTakesTooLong) {
  TELAMON_TEST_NEEDS_COMPILER();
  const std::string cases = file("cases.jsonl", endless_case().dump() + "\n" + kCase.dump() + "\n");
  const Answer answer = telamon_command("bisect --all --limit 5 " + cases);
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.text,
            "endless: there is nothing to compare with: interpreted, the process does not end "
            "within 5 s\nwave: compiled and interpreted results agree\n");
}

TEST_F(Command, BisectOfAllCasesGoesOnAfterOneThatItCannotHandle) {
  TELAMON_TEST_NEEDS_COMPILER();
  const std::string cases =
      file("cases.jsonl", lines({case_of("fluffle"), case_of("sin", "c64"), step_case({}), kCase}));
  const std::string missing =
      "fluffle: skipped, the program uses primitives that do not exist here: 'fluffle'\n"
      "sin: skipped, equation 1 ('sin'): sin does not accept dtype c64.";
  const Answer plain = telamon_command("bisect --all " + cases);
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.text,
              AllOf(StartsWith(missing), HasSubstr("step: compiled and interpreted results agree\n"
                                                   "wave: compiled and interpreted results agree\n"
                                                   "skipped 2 of 4 cases\n")));
  const Answer grad = telamon_command("bisect --transform grad --all " + cases);
  EXPECT_EQ(grad.code, 0);
  EXPECT_THAT(grad.text, AllOf(StartsWith(missing), HasSubstr("step: skipped, "),
                               HasSubstr("grad(wave): compiled and interpreted results agree\n"
                                         "skipped 3 of 4 cases\n")));
  // Alone, it has its line.
  EXPECT_THAT(telamon_command("bisect " + cases).text,
              HasSubstr("telamon: '" + cases + "', line 1, case 'fluffle': the program uses"));
  // Nothing was compared: that is no success.
  const Answer none =
      telamon_command("bisect --all " + file("no.jsonl", lines({case_of("fluffle")})));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("skipped 1 of 1 case\n"));
  const Answer damaged = telamon_command("bisect --all " + file("d.jsonl", "{ x\n" + kCase.dump()));
  EXPECT_EQ(damaged.code, 2);
  EXPECT_THAT(damaged.text, AllOf(StartsWith(path("d.jsonl") + ":1: skipped, "),
                                  HasSubstr("wave: compiled and interpreted results agree\n")));
  // What is wrong with the options is said once.
  EXPECT_EQ(telamon_command("bisect --all --transform gard " + cases).text,
            "telamon: unknown transform 'gard': use jit, vmap, grad, jvp, vjp\n");
}

TEST_F(Command, BisectSaysOnceWhatIsWrongWithTheEnvironment) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Answer answer =
      telamon_command("bisect " + file("product.jaxpr", kProduct), "TELAMON_DISABLE=nosuch ");
  EXPECT_EQ(answer.code, 0);
  const std::string said = "'nosuch' is ignored";
  EXPECT_THAT(answer.text, HasSubstr(said));
  EXPECT_EQ(answer.text.find(said), answer.text.rfind(said));
}

TEST_F(Command, BisectDumpsEveryAttemptUnderItsOwnName) {
  TELAMON_TEST_NEEDS_COMPILER();
  Json tide = kCase;
  tide["name"] = "north/tide";
  const std::string before = "TELAMON_DUMP='" + path("dump") + "' ";
  telamon_command("bisect --all " + file("cases.jsonl", lines({kCase, tide})), before);
  const Array third = Array({1.0f, 2.0f}) / 3.0;
  telamon_command("bisect --contract --input " + array("a.npy", third) + "," +
                      array("p.npy", third * third) + " " + file("rest.jaxpr", kRest),
                  before);
  telamon_command("bisect " + file("product.jaxpr", kProduct), before);
  for (const char* name :
       {"0000-attempt_1_of_wave", "0000-attempt_1_of_north_tide", "0000-attempt_1_of_rest",
        "0000-attempt_2_of_rest", "0000-attempt_1_of_positive_numbers__product",
        "0000-attempt_1_of_zeros__product"})
    EXPECT_TRUE(std::filesystem::exists(path("dump/" + std::string(name) + ".0-source.jaxpr")))
        << name;
}

TEST_F(Command, BisectBlamesNoPassForDumpsThatCannotBeWritten) {
  TELAMON_TEST_NEEDS_COMPILER();
  const std::string program = file("product.jaxpr", kProduct);
  const Answer nowhere = telamon_command("bisect " + program, "TELAMON_DUMP=/dev/null ");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.text, StartsWith("telamon: TELAMON_DUMP='/dev/null': cannot write there: "));
  // Nor where it is the numbers tried second that find no room.
  std::filesystem::create_directories(
      path("dump/0000-attempt_1_of_others__product.0-source.jaxpr/x"));
  const Answer later = telamon_command("bisect " + program, "TELAMON_DUMP='" + path("dump") + "' ");
  EXPECT_EQ(later.code, 2);
  EXPECT_THAT(later.text, HasSubstr("cannot write there: "));
  const Answer all = telamon_command("bisect --all " + file("cases.jsonl", kCase.dump() + "\n"),
                                     "TELAMON_DUMP=/dev/null ");
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.text, AllOf(StartsWith("wave: skipped, TELAMON_DUMP="),
                              HasSubstr("skipped 1 of 1 case\n")));
}

TEST_F(Command, BisectNamesTheInputThatIsTooLarge) {
  TELAMON_TEST_NEEDS_COMPILER();
  const Answer answer = telamon_command(
      "bisect " + file("huge.jaxpr",
                       "{ lambda a:f32[3], b:f32[1000000000000] .\n  let c:f32[] = reduce_sum [ "
                       "axes=(0,) ] b\n  in ( c ) }"));
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.text,
            "telamon: there is not enough memory to make values for input 1, f32[1000000000000]\n");
}

}  // namespace
}  // namespace telamon
