// `telamon check`: which modes and cases run, and what fails.
#include <algorithm>
#include <csignal>
#include <fstream>

#include "command/cases.hpp"
#include "command/command.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, CheckRunsEveryModeThatACaseHas) {
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  const Answer all = telamon_command("check " + cases);
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.text, HasSubstr("6 passed, 0 failed, 0 skipped"));
  EXPECT_THAT(telamon_command("check --modes jvp " + cases).text, HasSubstr("2 passed"));
  EXPECT_THAT(telamon_command("check --modes eval --isolate " + cases).text, HasSubstr("1 passed"));
  EXPECT_THAT(telamon_command("check --modes evil " + cases).text,
              HasSubstr("unknown mode 'evil': use eval,jit"));
  for (const char* list : {"eval,", ",eval", "eval,,jvp", "''"}) {
    EXPECT_THAT(telamon_command(std::string("check --modes ") + list + " " + cases).text,
                HasSubstr("unknown mode '': use eval,jit"));
  }
  const std::string report = path("report.jsonl");
  telamon_command("check --json " + report + " " + cases);
  std::ifstream lines(report);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(Json::parse(line)["verdict"], "passed");
  EXPECT_EQ(count, 6);
  const Answer lost = telamon_command("check --json /dev/full " + cases);
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.text, HasSubstr("telamon: cannot write '/dev/full'\n"));
}

// The limit is of each process: the case that never ends is killed, those around it are not.
TEST_F(Command, CheckOutlivesACaseThatDiesAlone) {
  const Json endless = endless_case();
  Json after = kCase;
  after["name"] = "after";
  const std::string cases =
      file("cases.jsonl", kCase.dump() + "\n" + endless.dump() + "\n" + after.dump() + "\n");
  const std::string report = path("report.jsonl");
  const Answer answer =
      telamon_command("check --modes eval --isolate --json " + report + " " + cases,
                      "ulimit -S -c 0; ulimit -S -t 1; ");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("FAIL endless process: the process ends with signal " +
                                     std::to_string(SIGXCPU) + " ("));
  EXPECT_THAT(answer.text, HasSubstr("2 passed, 1 failed, 0 skipped"));
  std::vector<std::string> verdicts;
  std::ifstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    const Json outcome = Json::parse(line);
    verdicts.push_back(outcome["case"].get<std::string>() + " " +
                       outcome["verdict"].get<std::string>());
  }
  EXPECT_THAT(verdicts, testing::ElementsAre("wave passed", "endless failed", "after passed"));
}

TEST_F(Command, CheckGivesUpOnACaseThatTakesTooLong) {
  const std::string cases = file("cases.jsonl", lines({endless_case(), kCase}));
  const Answer answer = telamon_command("check --modes eval --isolate --limit 3 " + cases);
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.text,
            "FAIL endless process: the process does not end within 3 s\n"
            "1 passed, 1 failed, 0 skipped\n");
  // Alone, a case is part of this process.
  EXPECT_EQ(telamon_command("check --limit 1 " + cases).code, 2);
}

TEST_F(Command, CheckFailsWhereAnswersDiffer) {
  Json wrong = kCase;
  wrong["outputs"][0]["data"][0] = 1.5;
  const Answer answer = telamon_command("check " + file("cases.jsonl", wrong.dump()));
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("FAIL wave eval: result 0 differs at element 0"));
  EXPECT_THAT(answer.text, HasSubstr("4 passed, 2 failed"));
}

TEST_F(Command, CheckNamesIntegersThatDiffer) {
  Json negated = Json::parse(R"({"format": "telamon-case/1", "name": "negated", "program": {
    "consts": [], "jaxpr": {"constvars": [],
      "invars": [{"id": 0, "aval": {"dtype": "i32", "shape": [4], "weak_type": false}}],
      "eqns": [{"primitive": "neg", "inputs": [{"var": 0}], "params": {},
        "outputs": [{"id": 1, "aval": {"dtype": "i32", "shape": [4], "weak_type": false}}]}],
      "outvars": [{"var": 1}]}},
    "inputs": [{"dtype": "i32", "shape": [4], "data": [1, 2, 3, 4]}],
    "outputs": [{"dtype": "i32", "shape": [4], "data": [-1, -2, 3, 4]}],
    "tolerance": {"rtol": 0, "atol": 0}})");
  const Answer answer = telamon_command("check " + file("cases.jsonl", negated.dump()));
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text,
              HasSubstr("FAIL negated eval: result 0 differs at element 2: got -3, expected 3 "
                        "(2 of 4 differ)\n"));
}

TEST_F(Command, CheckOfNothingIsAnError) {
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n"), none = file("none.jsonl", "");
  EXPECT_EQ(telamon_command("check " + none).code, 2);
  EXPECT_THAT(telamon_command("check " + none).text, HasSubstr("there are no cases in '" + none));
  const Answer unmatched = telamon_command("check --only tide " + cases);
  EXPECT_EQ(unmatched.code, 2);
  EXPECT_THAT(unmatched.text, HasSubstr("no case has a name that matches --only 'tide'"));
  EXPECT_EQ(telamon_command("check --modes hvp " + cases).code, 2);
  EXPECT_THAT(telamon_command("check --only '(' " + cases).text,
              HasSubstr("'(' is not a regular expression"));
}

TEST_F(Command, CheckOfAFileOfSomethingElseIsOneError) {
  for (const std::string& other :
       {file("program.jaxpr", "{ lambda a:f32[] .\n  let b:f32[] = sin a\n  in ( b ) }\n"),
        file("pretty.json", "{\n\"a\": 1\n}\n"), file("list.jsonl", "[1, 2]\n\n[3]\n")}) {
    for (const char* isolate : {"", "--isolate "}) {
      const Answer answer = telamon_command("check " + std::string(isolate) + other);
      EXPECT_EQ(answer.code, 2);
      EXPECT_THAT(answer.text, StartsWith("telamon: '" + other + "' is no file of cases"));
      EXPECT_THAT(answer.text, HasSubstr("', line 1"));
      EXPECT_EQ(std::count(answer.text.begin(), answer.text.end(), '\n'), 1);
    }
  }
  // A damaged line among cases is one of them, the first too.
  const Answer mixed = telamon_command("check " + file("m.jsonl", "{ x\n" + kCase.dump() + "\n"));
  EXPECT_EQ(mixed.code, 1);
  EXPECT_THAT(mixed.text, HasSubstr("6 passed, 1 failed"));
}

TEST_F(Command, CheckRunsOnlyTheCasesThatAreAskedFor) {
  Json tide = kCase;
  tide["name"] = "north/tide";
  tide["outputs"][0]["data"][0] = 7;
  const std::string cases = file("cases.jsonl", lines({kCase, tide}));
  EXPECT_EQ(telamon_command("check " + cases).code, 1);
  const Answer wave = telamon_command("check --only 'wa.e' " + cases);
  EXPECT_EQ(wave.code, 0);
  EXPECT_EQ(wave.text, "6 passed, 0 failed, 0 skipped\n");
  EXPECT_THAT(telamon_command("check --only '^north/' " + cases).text,
              AllOf(HasSubstr("FAIL north/tide eval: "), HasSubstr("4 passed, 2 failed")));
}

}  // namespace
}  // namespace telamon
