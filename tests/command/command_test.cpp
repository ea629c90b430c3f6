// What the command says of itself, its words and its options.
#include <regex>

#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, WithoutAWordOrWithAWrongOneListsWhatThereIs) {
  EXPECT_THAT(telamon_command("").text,
              AllOf(HasSubstr("bench"), HasSubstr("Usage: telamon [OPTIONS] SUBCOMMAND")));
  EXPECT_EQ(telamon_command("").code, 2);
  const Answer wrong = telamon_command("shwo x.json");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("unknown command 'shwo'; did you mean 'show'?"));
  EXPECT_THAT(wrong.text, HasSubstr("check, run, show, bench, bisect, info"));
  EXPECT_THAT(telamon_command("foo").text, Not(HasSubstr("did you mean")));
  EXPECT_EQ(telamon_command("--help").code, 0);
  EXPECT_EQ(telamon_command("show").code, 2);
  EXPECT_THAT(telamon_command("show").text, StartsWith("telamon: file is required"));
  EXPECT_THAT(telamon_command("run x.json --transfrom jit").text,
              StartsWith("telamon: The following arguments were not expected: --transfrom jit\n"));
  const Answer part = telamon_command("cache clera");
  EXPECT_EQ(part.code, 2);
  EXPECT_THAT(part.text, HasSubstr("unknown command 'cache clera'; did you mean 'clear'?"));
  EXPECT_THAT(part.text, HasSubstr("commands: info, clear; telamon help cache COMMAND"));
  EXPECT_EQ(telamon_command("cache").code, 2);
  EXPECT_THAT(telamon_command("cache").text,
              HasSubstr("telamon: cache needs one of its commands\ncommands: info, clear"));
}

TEST_F(Command, KnowsItsVersion) {
  const Answer version = telamon_command("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(std::regex_match(version.text, std::regex("telamon \\d+\\.\\d+\\.\\d+\n")))
      << version.text;
}

TEST_F(Command, HelpOfACommandSaysWhatItTakes) {
  for (const std::string command : {"run", "show", "bench", "bisect"}) {
    const Answer help = telamon_command("help " + command);
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.text, telamon_command(command + " --help").text);
    for (const char* form : {".jaxpr", ".json of jax_export.py", ".jsonl.gz"})
      EXPECT_THAT(help.text, HasSubstr(form));
  }
  EXPECT_THAT(telamon_command("help cache clear").text, HasSubstr("removes them all"));
  EXPECT_EQ(telamon_command("help").text, telamon_command("--help").text);
  EXPECT_THAT(telamon_command("help shwo").text, HasSubstr("did you mean 'show'?"));
}

// A short answer waits in the buffer until the end, and a long one does not.
TEST_F(Command, FailsWhereItsAnswerCannotBeWritten) {
  const std::string program = file("product.jaxpr", kProduct),
                    cases = file("cases.jsonl", kCase.dump() + "\n");
  std::string many;
  for (int i = 0; i < 100; ++i) many += kCase.dump() + "\n";
  for (const std::string& words :
       {"show " + program, "run " + cases, "check " + cases, std::string("info"),
        "show --all " + file("many.jsonl", many), std::string("--version"), std::string("help")}) {
    const Answer lost = telamon_command(words + " 2>&1 >/dev/full )", "( ");
    EXPECT_EQ(lost.code, 2) << words;
    EXPECT_EQ(lost.text, "telamon: cannot write to standard output\n") << words;
  }
  if (!kCompiles) return;
  for (const std::string words : {"show --asm ", "show --pass all ", "show --timings ",
                                  "bench --json --seconds 0 ", "bench --seconds 0 ", "bisect "})
    EXPECT_EQ(telamon_command(words + program + " >/dev/full").code, 2) << words;
}

TEST_F(Command, OptionsSayWhichNumbersTheyTake) {
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  for (const char* batch : {"0", "-1", "1.5", "two"}) {
    const Answer refused = telamon_command("bench " + cases + " --batch " + batch);
    EXPECT_EQ(refused.code, 2) << batch;
    EXPECT_THAT(refused.text,
                HasSubstr("'" + std::string(batch) + "' is no whole number of at least 1"));
  }
  for (const char* seconds : {"nan", "inf", "-1"}) {
    const Answer refused = telamon_command("bench " + cases + " --seconds " + seconds);
    EXPECT_EQ(refused.code, 2) << seconds;
    EXPECT_THAT(refused.text, HasSubstr("is no number of seconds from 0 on"));
  }
}

}  // namespace
}  // namespace telamon
