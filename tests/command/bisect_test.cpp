// `telamon bisect`: compiled and interpreted results, compared.
#include <csignal>

#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

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
                      array("p.npy", product) + " " +
                      file("rest.jaxpr",
                           "{ lambda a:f32[2], p:f32[2] .\n  let b:f32[2] = mul a a\n"
                           "      c:f32[2] = sub b p\n  in ( c ) }"))
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

}  // namespace
}  // namespace telamon
