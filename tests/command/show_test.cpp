// `telamon show`: programs, passes, plans, costs and machine code.
#include <algorithm>
#include <sstream>

#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

#if defined(__x86_64__)

// Code that this processor perhaps cannot run is made and looked at all the same: the registers it uses, as
// wide as the instruction set has them and no wider, and the functions it calls.
TEST_F(Command, ShowMakesCodeForEveryInstructionSet) {
  if (!kCompiles) GTEST_SKIP() << "built without LLVM";
  const std::vector<std::pair<std::string, std::string>> programs = {
      {"elementwise", "let c:f32[1000,512] = mul a b\n d:f32[1000,512] = exp c in ( d )"},
      {"rows", "let c:f32[1000] = reduce_sum [ axes=(1,) ] a in ( c )"},
      {"columns", "let c:f32[512] = reduce_max [ axes=(0,) ] a in ( c )"},
      {"transposed",
       "let c:f32[512,1000] = transpose [ permutation=(1, 0) ] a\n"
       " d:f32[512,1000] = exp c in ( d )"},
  };
  const std::vector<std::string> widths = {"%xmm", "%ymm", "%zmm"},
                                 names = {"generic", "avx2", "avx512"};
  for (const auto& [name, body] : programs) {
    const std::string program =
        file(name + ".jaxpr", "{ lambda a:f32[1000,512], b:f32[1000,512] .\n" + body + " }");
    for (std::size_t isa = 0; isa < names.size(); ++isa) {
      const Answer answer = telamon_command("show " + program + " --asm --isa " + names[isa]);
      ASSERT_EQ(answer.code, 0) << answer.text;
      EXPECT_THAT(answer.text, HasSubstr(widths[isa])) << name;
      for (std::size_t wider = isa + 1; wider < widths.size(); ++wider)
        EXPECT_THAT(answer.text, Not(HasSubstr(widths[wider]))) << name << " for " << names[isa];
      if (name == "elementwise") EXPECT_THAT(answer.text, HasSubstr("telamon_" + names[isa]));
    }
  }
  EXPECT_NE(telamon_command("show " + path("rows.jaxpr") + " --asm --isa sse9").code, 0);
}

// Of a polynomial, the same operation of four vectors one after the other: with AVX2, its constants do not fit
// into the registers beside them.
TEST_F(Command, ShowsPolynomialsOfSeveralVectorsSideBySide) {
  if (!kCompiles) GTEST_SKIP() << "built without LLVM";
  std::string program = "{ lambda x:f32[100000] .\nlet y0:f32[100000] = mul x x\n";
  for (int i = 1; i <= 14; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    program += " c" + n +
               ":f32[100000] = broadcast_in_dim [ broadcast_dimensions=() shape=(100000,) ] " +
               std::to_string(0.5 + 0.01 * i) + ":f32\n t" + n + ":f32[100000] = mul y" + before +
               " x\n y" + n + ":f32[100000] = add t" + n + " c" + n + "\n";
  }
  const std::string path = file("polynomial.jaxpr", program + " in ( y14 ) }");
  for (const char* isa : {"avx2", "avx512"}) {
    const std::string code = telamon_command("show " + path + " --asm --isa " + isa).text;
    int together = 0, most = 0;
    std::string last, line;
    for (std::istringstream lines(code); std::getline(lines, line);) {
      const std::string name = line.substr(0, line.find('\t', 1));
      together = name == last ? together + 1 : 1;
      last = name;
      if (name == "\tvaddps" || name == "\tvmulps") most = std::max(most, together);
    }
    EXPECT_GE(most, 4) << isa << code;
  }
}

#endif

TEST_F(Command, ShowPrintsTheProgramAndWhatBecomesOfIt) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  EXPECT_THAT(telamon_command("show " + program).text, HasSubstr("d:f64[] = mul c b"));
  EXPECT_THAT(telamon_command("show " + program + " --transform jit,grad").text,
              HasSubstr("= jit [ name="));
  EXPECT_THAT(telamon_command("show " + program + " --transform vmap --batch 7").text,
              HasSubstr("f64[7]"));
  const Answer timings = telamon_command("show " + program + " --timings");
  if (!kCompiles) {
    EXPECT_NE(timings.code, 0);
    EXPECT_THAT(timings.text, HasSubstr("has no passes"));
    return;
  }
  EXPECT_EQ(timings.code, 0);
  EXPECT_THAT(telamon_command("show " + program + " --ir").text, HasSubstr("define"));
  EXPECT_THAT(telamon_command("show " + program + " --asm").text, HasSubstr(".text"));
  for (const char* pass : {"lower", "fold_constants", "simplify", "cse", "dce"}) {
    EXPECT_THAT(timings.text, HasSubstr(pass));
    EXPECT_THAT(telamon_command("show " + program + " --pass " + pass).text, HasSubstr("{ lambda"))
        << pass;
  }
  // What the later passes make is no program: each shows something else.
  const auto after = [&](const std::string& pass) {
    return telamon_command("show " + program + " --pass " + pass).text;
  };
  EXPECT_THAT(after("fuse"), AllOf(StartsWith("kernel loop"), HasSubstr("= sin a"),
                                   HasSubstr("= mul c b"), Not(HasSubstr("@"))));
  EXPECT_THAT(after("buffers"), AllOf(StartsWith("arena 0 bytes"), HasSubstr("\nresult 0 "),
                                      Not(HasSubstr("kernel"))));
  EXPECT_THAT(after("emit"), HasSubstr("define"));
  EXPECT_THAT(after("codegen"), HasSubstr(".text"));
  EXPECT_THAT(after("link"), AllOf(StartsWith("image of "), HasSubstr("\n  entry, the entry: "),
                                   ::testing::ContainsRegex("\n  calls .*sin")));
  const Answer unknown = telamon_command("show " + program + " --pass fuss");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.text,
              HasSubstr("has no 'fuss' to show; its passes are lower, fold_constants, simplify"));
  EXPECT_THAT(after("cse"), HasSubstr("(cse leaves this program as it was)\n"));
  EXPECT_THAT(
      after("join_loops"),
      HasSubstr("'join_loops' did not run: the program has no loops, branches or calls; its "
                "passes are lower, fold_constants, simplify"));
  EXPECT_THAT(after("cse_again"), HasSubstr("'cse_again' did not run: the passes since then "
                                            "change nothing that it could follow"));
  EXPECT_THAT(after("epilogues"), HasSubstr("it is no pass of its own, but part of others"));
  EXPECT_THAT(telamon_command("show " + program + " --pass cse", "TELAMON_DISABLE=cse ").text,
              HasSubstr("'cse' did not run: TELAMON_DISABLE leaves it out"));
}

TEST_F(Command, ShowPrintsEveryPassThePlanAndTheCosts) {
  TELAMON_TEST_NEEDS_COMPILER();
  const std::string program = file("wave.jsonl", kCase.dump() + "\n");
  const Answer all = telamon_command("show --pass all " + program);
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.text, AllOf(HasSubstr("== lower\n{ lambda"), HasSubstr("== simplify: the same\n"),
                              HasSubstr("== fuse\nkernel loop"), HasSubstr("== buffers\narena"),
                              Not(HasSubstr("== emit"))));
  EXPECT_THAT(telamon_command("show --plan " + program).text, HasSubstr("sin_mul"));
  const std::string text = file("text.jaxpr", kProduct);
  EXPECT_THAT(telamon_command("show --ir " + text).text, Not(HasSubstr("contract")));
  EXPECT_THAT(telamon_command("show --ir --contract " + text).text, HasSubstr("fmul contract"));
  EXPECT_THAT(telamon_command("show --cost " + text).text, HasSubstr("aliased                 0"));
  EXPECT_THAT(telamon_command("show --cost --donate 0,-1 " + text).text,
              HasSubstr("aliased                20 bytes of results in donated arguments"));
  const Answer cost = telamon_command("show --cost " + program);
  EXPECT_THAT(cost.text, AllOf(HasSubstr("flops                         1\n"),
                               HasSubstr("transcendentals               1\n"),
                               HasSubstr("arguments              16 bytes")));
}

TEST_F(Command, ShowSaysOfABackendWithoutPassesThatItHasNone) {
  const std::string program = file("product.jaxpr", kProduct);
  for (const std::string option : {"--pass all", "--timings"}) {
    const Answer answer =
        telamon_command("show " + program + " " + option, "TELAMON_BACKEND=interpret ");
    EXPECT_EQ(answer.code, 2);
    EXPECT_EQ(answer.text,
              "telamon: the backend interpret has no passes for " + option + " to show\n");
  }
}

TEST_F(Command, ShowRefusesOptionsThatNothingUses) {
  const std::string program = file("product.jaxpr", kProduct);
  std::vector<std::string> options = {"--donate 0", "--contract"};
#if defined(__x86_64__)
  options.emplace_back("--isa avx2");
#endif
  for (const std::string& option : options) {
    const Answer answer = telamon_command("show " + option + " " + program);
    EXPECT_EQ(answer.code, 2) << option;
    const std::string name = option.substr(0, option.find(' '));
    EXPECT_THAT(answer.text, StartsWith("telamon: " + name + " says how to compile"));
  }
  const Answer batch = telamon_command("show --batch 5 --transform grad " + program);
  EXPECT_EQ(batch.code, 2);
  EXPECT_THAT(batch.text, HasSubstr("--batch is for vmap"));
  const Answer pass = telamon_command("show --pass '' " + program);
  EXPECT_EQ(pass.code, 2);
  EXPECT_THAT(pass.text, HasSubstr("--pass: no pass is named"));
  EXPECT_THAT(telamon_command("show " + program + " --batch").text,
              StartsWith("telamon: --batch needs a value\n"));
  const Answer option = telamon_command("show " + program + " --pass --ir");
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.text, StartsWith("telamon: --pass: needs a value, and not '--ir'"));
}

}  // namespace
}  // namespace telamon
