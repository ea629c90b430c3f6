// Files that cannot be read: the file, the line and the place are named.
#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, NamesFileLineAndPlaceOfWhatItCannotRead) {
  const std::string cut = file("cut.jsonl", kCase.dump() + "\n" + kCase.dump().substr(0, 100));
  const Answer check = telamon_command("check " + cut);
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.text, HasSubstr("'" + cut + "', line 2, column 100: not valid JSON"));
  EXPECT_THAT(check.text, HasSubstr("6 passed, 1 failed"));
  const std::string text = file("text.json", "{\n\"name\" 3}");
  EXPECT_THAT(telamon_command("show " + text).text,
              HasSubstr("'" + text + "', line 2, column 8: not valid JSON"));
  for (const char* command : {"show ", "run ", "bench ", "check "}) {
    EXPECT_THAT(telamon_command(command + folder_.string()).text, HasSubstr("is a directory"));
    EXPECT_THAT(telamon_command(std::string(command) + "/no/such.jsonl").text,
                HasSubstr("cannot open '/no/such.jsonl': No such file"));
    for (const std::string& damaged : {text, cut})
      EXPECT_THAT(telamon_command(command + damaged).text, Not(HasSubstr("json.exception")));
  }
  Json wrong = kCase;
  wrong["program"]["jaxpr"]["eqns"][1]["inputs"] = Json::array();
  const std::string arity = file("arity.jsonl", wrong.dump());
  const Answer show = telamon_command("show " + arity);
  EXPECT_EQ(show.code, 2);
  EXPECT_THAT(show.text,
              HasSubstr("line 1, case 'wave': equation 2 ('mul'): mul takes 2 operands"));
}

TEST_F(Command, NamesFileAndLineOfTheEquationThatIsWrong) {
  const std::string begin = "{ lambda a:f32[3], b:f32[4] .\n  let c:f32[3] = ";
  const std::string unknown = file("unknown.jaxpr", begin + "sinn a\n  in ( c ) }");
  const std::string types =
      file("types.jaxpr", begin + "sin a\n      d:f32[3] = add c b\n  in ( d ) }");
  const std::string inner =
      file("inner.jaxpr",
           begin +
               "jit [ name=f\n  num_consts=0 ] a\n    { lambda a:f32[3] .\n"
               "      let b:f32[3] = sin a\n          c:f32[4] = cos b\n      in ( c ) }\n"
               "  in ( c ) }");
  const std::string names = file("names.jaxpr",
                                 "{ lambda weights:f32[3] .\n  let hidden:f32[3] = sin weights\n"
                                 "      out:f32[4] =\n        cos hidden\n  in ( out ) }");
  for (const char* command : {"show ", "run ", "bench ", "bisect "}) {
    const auto said = [&](const std::string& path) {
      const Answer answer = telamon_command(command + path);
      EXPECT_EQ(answer.code, 2);
      return answer.text;
    };
    EXPECT_EQ(said(names), "telamon: '" + names +
                               "', 3:7: Value for variable 'out' inconsistently typed as "
                               "f32[3] for let-binder of type f32[4]\nin the equation\n"
                               "  out:f32[4] =\n        cos hidden\n  at names.jaxpr:3\n");
    EXPECT_THAT(said(unknown), HasSubstr("'" + unknown + "', 2:18: unknown primitive 'sinn'"));
    EXPECT_THAT(said(types),
                AllOf(HasSubstr("add got incompatible shapes"), HasSubstr("d:f32[3] = add c b\n"),
                      HasSubstr("\n  at types.jaxpr:3\n")));
    EXPECT_THAT(said(inner), AllOf(HasSubstr("'c' inconsistently typed as f32[3]"),
                                   HasSubstr("\n  at inner.jaxpr:6\n")));
  }
  // What goes wrong later has the line too.
  const std::string nan =
      file("nan.jaxpr",
           "{ lambda .\n  let a:f32[] = log 0.0:f32\n      b:f32[] = mul a 0.0:f32\n  in ( b ) }");
  EXPECT_THAT(telamon_command("run " + nan, "TELAMON_DEBUG_NANS=1 ").text,
              HasSubstr("\n  at nan.jaxpr:3\n"));
}

TEST_F(Command, RefusesToNameACaseWhereThereIsOneProgram) {
  const std::string program =
      file("sine.jaxpr", "{ lambda a:f32[3] .\n  let b:f32[3] = sin a\n  in ( b ) }");
  for (const char* command : {"show ", "run ", "bench ", "bisect "}) {
    const Answer answer = telamon_command(command + program + " --case sine");
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.text, HasSubstr("'" + program +
                                       "' is the text of one program: there is no case "
                                       "'sine' in it; leave out --case"));
  }
}

TEST_F(Command, SaysOfTheTextOfAJaxprHowItsFileIsNamed) {
  for (const char* name : {"text.txt", "text.json", "text"}) {
    const std::string text = file(name, kProduct);
    const Answer answer = telamon_command("show " + text);
    EXPECT_EQ(answer.code, 2);
    EXPECT_EQ(answer.text, "telamon: '" + text +
                               "' holds the text of a jaxpr, which is read from a "
                               "file whose name ends in .jaxpr\n");
  }
}

TEST_F(Command, SaysWhichOfSeveralCasesItTakes) {
  Json tide = kCase;
  tide["name"] = "tide";
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n" + tide.dump() + "\n");
  const std::string hint = "(the first of 2 cases; --case NAME or --all for others)\n";
  EXPECT_THAT(telamon_command("show " + cases).text, StartsWith(hint + "{ lambda"));
  EXPECT_EQ(telamon_command("show " + cases + " 2>/dev/null | cat").text,
            telamon_command("show --case wave " + cases).text);
  EXPECT_THAT(telamon_command("run --case tide " + cases).text, Not(HasSubstr("first of")));
  for (const std::string command : {"show", "run", "bench --seconds 0", "bisect"}) {
    EXPECT_THAT(telamon_command(command + " --help").text,
                HasSubstr("the first one without --case"));
    if (command == "bisect" && !kCompiles) continue;
    const Answer all = telamon_command(command + " --transform grad --all " + cases);
    EXPECT_EQ(all.code, 0);
    EXPECT_THAT(all.text, AllOf(HasSubstr("grad(wave)"), HasSubstr("grad(tide)"),
                                Not(HasSubstr("first of"))));
  }
  EXPECT_EQ(telamon_command("show --all --case tide " + cases).code, 2);
}

TEST_F(Command, ReadsFilesThatBeginWithAByteOrderMark) {
  const std::string program = "{ lambda a:f32[3] .\n  let b:f32[3] = sin a\n  in ( b ) }";
  EXPECT_EQ(telamon_command("show " + file("mark.jaxpr", "\xef\xbb\xbf" + program)).text,
            program + "\n");
}

TEST_F(Command, RefusesOtherVersionsOfItsFormats) {
  Json next = program_of(kCase);
  next["format"] = "telamon-jaxpr/2";
  const std::string program = file("next.json", next.dump());
  for (const char* command : {"show ", "run ", "bench "}) {
    const Answer answer = telamon_command(command + program);
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.text, HasSubstr("the format is 'telamon-jaxpr/2', but 'telamon-jaxpr/1'"));
  }
  Json other = kCase;
  other["format"] = "telamon-case/2";
  const Answer check = telamon_command("check " + file("next.jsonl", other.dump()));
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.text, HasSubstr("the format is 'telamon-case/2'"));
  EXPECT_THAT(telamon_command("check " + file("program.json", program_of(kCase).dump())).text,
              HasSubstr("this is a program without inputs and answers, not a case"));
}

}  // namespace
}  // namespace telamon
