// The `telamon` command as its users meet it: what each option prints, and what is said to wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "core/sanitizers.hpp"
#include "support/backends.hpp"
#include "telamon/interop.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::kCompiles;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

struct Answer {
  int code = -1;  ///< the exit status; 128 + n after signal n
  std::string text;
};

/// What the command prints, on both of its streams; `before` is for the shell to do first.
Answer telamon_command(const std::string& arguments, const std::string& before = "") {
  Answer answer;
  FILE* pipe = popen((before + "'" TELAMON_COMMAND "' " + arguments + " 2>&1").c_str(), "r");
  if (!pipe) return answer;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    answer.text.append(buffer, n);
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

/// A folder of files that goes with the test.
class Command : public testing::Test {
 protected:
  Command()
      : folder_(std::filesystem::temp_directory_path() /
                ("telamon_command_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Command() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }
  std::string array(const std::string& name, const Array& x) const {
    interop::save_npy(path(name), x);
    return path(name);
  }

  std::filesystem::path folder_;
};

// wave(x, w) = sin(x) w, with inputs and what JAX answers.
const Json kCase =
    Json::parse(R"({"format": "telamon-case/1", "name": "wave", "program": {"jaxpr": {
    "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": [], "weak_type": false}},
               {"id": 1, "aval": {"dtype": "f64", "shape": [], "weak_type": false}}],
    "constvars": [],
    "eqns": [{"primitive": "sin", "inputs": [{"var": 0}], "params": {},
              "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": [], "weak_type": false}}]},
             {"primitive": "mul", "inputs": [{"var": 2}, {"var": 1}], "params": {},
              "outputs": [{"id": 3, "aval": {"dtype": "f64", "shape": [], "weak_type": false}}]}],
    "outvars": [{"var": 3}]}, "consts": []},
  "inputs": [{"dtype": "f64", "shape": [], "data": [0.5]}, {"dtype": "f64", "shape": [], "data": [3.0]}],
  "outputs": [{"dtype": "f64", "shape": [], "data": [1.438276615812609]}],
  "tolerance": {"rtol": 1e-12, "atol": 1e-12},
  "checks": {
    "jvp": {"tangents": [{"dtype": "f64", "shape": [], "data": [1.0]}, {"dtype": "f64", "shape": [], "data": [0.0]}],
            "outputs": [{"dtype": "f64", "shape": [], "data": [2.6327476856711183]}]},
    "vjp": {"cotangents": [{"dtype": "f64", "shape": [], "data": [1.0]}],
            "outputs": [{"dtype": "f64", "shape": [], "data": [2.6327476856711183]},
                        {"dtype": "f64", "shape": [], "data": [0.479425538604203]}]}}})");

Json program_of(const Json& test) {
  return {{"format", "telamon-jaxpr/1"},
          {"name", "wave"},
          {"input_paths", {"[0]", "[1]"}},
          {"program", test["program"]}};
}

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
              AllOf(StartsWith("telamon: "), HasSubstr("--transfrom")));
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

TEST_F(Command, CheckRunsEveryModeThatACaseHas) {
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  const Answer all = telamon_command("check " + cases);
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.text, HasSubstr("6 passed, 0 failed, 0 skipped"));
  EXPECT_THAT(telamon_command("check --modes jvp " + cases).text, HasSubstr("2 passed"));
  EXPECT_THAT(telamon_command("check --modes eval --isolate " + cases).text, HasSubstr("1 passed"));
  EXPECT_THAT(telamon_command("check --modes evil " + cases).text,
              HasSubstr("unknown mode 'evil': use eval,jit"));
  const std::string report = path("report.jsonl");
  telamon_command("check --json " + report + " " + cases);
  std::ifstream lines(report);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(Json::parse(line)["verdict"], "passed");
  EXPECT_EQ(count, 6);
}

// loop(go) = while go: go, which a true `go` never leaves.
const char* const kEndless =
    R"({"format": "telamon-case/1", "name": "endless", "program": {"jaxpr": {
    "invars": [{"id": 0, "aval": {"dtype": "bool", "shape": [], "weak_type": false}}],
    "constvars": [],
    "eqns": [{"primitive": "while", "inputs": [{"var": 0}],
              "params": {"cond_nconsts": 0, "cond_jaxpr": SAME, "body_nconsts": 0, "body_jaxpr": SAME},
              "outputs": [{"id": 1, "aval": {"dtype": "bool", "shape": [], "weak_type": false}}]}],
    "outvars": [{"var": 1}]}, "consts": []},
  "inputs": [{"dtype": "bool", "shape": [], "data": [true]}],
  "outputs": [{"dtype": "bool", "shape": [], "data": [true]}],
  "tolerance": {"rtol": 0, "atol": 0}})";
const char* const kSame = R"({"jaxpr": {
    "invars": [{"id": 0, "aval": {"dtype": "bool", "shape": [], "weak_type": false}}],
    "constvars": [], "eqns": [], "outvars": [{"var": 0}]}, "consts": []})";

const char* const kProduct =
    "{ lambda a:f32[5], b:f32[5] .\n  let c:f32[5] = mul a b\n      d:f32[5] = add c a\n"
    "  in ( d ) }";

// The limit is of each process: the case that never ends is killed, those around it are not.
TEST_F(Command, CheckOutlivesACaseThatDiesAlone) {
  const Json endless =
      Json::parse(std::regex_replace(std::string(kEndless), std::regex("SAME"), kSame));
  Json after = kCase;
  after["name"] = "after";
  const std::string cases =
      file("cases.jsonl", kCase.dump() + "\n" + endless.dump() + "\n" + after.dump() + "\n");
  const std::string report = path("report.jsonl");
  const Answer answer =
      telamon_command("check --modes eval --isolate --json " + report + " " + cases,
                      "ulimit -S -c 0; ulimit -S -t 1; ");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("FAIL endless process: the process died: signal " +
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

TEST_F(Command, CheckFailsWhereAnswersDiffer) {
  Json wrong = kCase;
  wrong["outputs"][0]["data"][0] = 1.5;
  const Answer answer = telamon_command("check " + file("cases.jsonl", wrong.dump()));
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("FAIL wave eval: result 0 differs at element 0"));
  EXPECT_THAT(answer.text, HasSubstr("4 passed, 2 failed"));
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

TEST_F(Command, RunComposesTransformationsInOrder) {
  const std::string cases = file("cases.jsonl", kCase.dump());
  EXPECT_THAT(telamon_command("run " + cases).text, StartsWith("f64[]\n1.43827661581260"));
  for (const char* order : {"grad", "jit,grad", "grad,jit", "jit,grad,jit", " jit , grad "}) {
    EXPECT_THAT(
        telamon_command("run " + cases + " --transform '" + order + "'").text,
        AllOf(StartsWith("f64[]\n2.63274768567111"), HasSubstr("\nf64[]\n0.47942553860420")))
        << order;
  }
  // Inputs of the case are repeated for vmap, unless arrays are given.
  for (const char* order : {"vmap,grad", "jit,vmap,grad", "vmap,jit,grad", "vmap,grad,jit"}) {
    EXPECT_THAT(telamon_command("run " + cases + " --batch 2 --transform " + order).text,
                HasSubstr("f64[2]\n[2.63274769 2.63274769]"))
        << order;
  }
  const std::string inputs =
      array("x.npy", Array({0.0, 0.5})) + "," + array("w.npy", Array({1.0, 3.0}));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap,grad --input " + inputs).text,
              HasSubstr("f64[2]\n[1.         2.63274769]"));
  const std::string short_one =
      array("x.npy", Array({0.0, 0.5})) + "," + array("three.npy", Array({1.0, 2.0, 3.0}));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap --input " + short_one).text,
              AllOf(HasSubstr("input 1, '"),
                    HasSubstr("three.npy', is f64[3], but vmap(wave) takes f64[N], and axis 0 of "
                              "input 0, '"),
                    HasSubstr("x.npy', counts 2 examples: give as many of each")));
  const std::string scalar = array("x.npy", Array({0.0, 0.5})) + "," + array("one.npy", Array(1.0));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,vmap --input " + scalar).text,
              HasSubstr("one.npy', is f64[], but jit(vmap(wave)) takes f64[N]: each vmap adds a "
                        "leading axis, which counts the examples. Give as many of f64[] along it"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap,vmap --input " + inputs).text,
              HasSubstr("x.npy', is f64[2], but vmap(vmap(wave)) takes f64[N0,N1]: each vmap"));
  EXPECT_THAT(
      telamon_command("run " + cases + " --input " + inputs).text,
      AllOf(HasSubstr("x.npy', is f64[2], but wave takes f64[]"), Not(HasSubstr("leading axis"))));
  EXPECT_THAT(telamon_command("run " + cases + " --input " + array("x.npy", Array(1.0))).text,
              HasSubstr("--input has 1 file, but 'wave' takes 2 arrays, one file for each: f64[]"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,jvp").text,
              HasSubstr("3.112173224"));  // 3 cos 0.5 + sin 0.5
  EXPECT_THAT(telamon_command("run " + cases + " --transform vjp,jit").text,
              HasSubstr("f64[]\n0.47942553860420"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,gard").text,
              HasSubstr("unknown transform 'gard': use jit, vmap, grad, jvp, vjp"));
  const Answer comma = telamon_command("run " + cases + " --transform jit,");
  EXPECT_EQ(comma.code, 2);
  EXPECT_THAT(comma.text, HasSubstr("--transform 'jit,' has a comma with nothing beside it"));
  EXPECT_THAT(comma.text, Not(HasSubstr("program_file.cpp")));
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

TEST_F(Command, RunAsksForTheInputsThatAProgramHasNot) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  const Answer refused = telamon_command("run " + program);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("needs inputs, and its file has none"));
  EXPECT_THAT(refused.text, HasSubstr("f64[] ([0]), f64[] ([1])"));
  const std::string x = array("x.npy", Array(0.5)), w = array("w.npy", Array(3.0));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + "," + w).text,
              StartsWith("f64[]\n1.43827661581260"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x).text,
              HasSubstr("takes 2 arrays"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + ",/no/such.npy").text,
              HasSubstr("cannot open '/no/such.npy'"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + ",").text,
              HasSubstr("x.npy,' has a comma with nothing beside it"));
}

TEST_F(Command, BenchTakesTheInputsThatRunTakes) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  const std::string x = array("x.npy", Array({0.5, 1.0})), w = array("w.npy", Array({3.0, 1.0}));
  const std::string bench = "bench " + program + " --seconds 0 ";
  EXPECT_THAT(telamon_command(bench).text, HasSubstr("has no inputs on file: all are ones"));
  const Answer timed = telamon_command(bench + "--transform vmap --input " + x + "," + w);
  EXPECT_EQ(timed.code, 0) << timed.text;
  EXPECT_THAT(timed.text, AllOf(StartsWith("vmap(wave)\n"), Not(HasSubstr("all are ones"))));
  EXPECT_THAT(telamon_command(bench + "--input " + x).text, HasSubstr("takes 2 arrays"));
  EXPECT_THAT(telamon_command(bench + "--input " + x + "," + w).text,
              HasSubstr("x.npy', is f64[2], but wave takes f64[]"));
  // In the same words.
  const auto input_help = [](const std::string& command) {
    const std::string text = telamon_command(command + " --help").text;
    const std::size_t begin = text.find("--input");
    return begin == std::string::npos ? "none"
                                      : text.substr(begin, text.find("--", begin + 2) - begin);
  };
  EXPECT_EQ(input_help("bench"), input_help("run"));
}

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

#endif

TEST_F(Command, ShowPrintsTheProgramAndWhatBecomesOfIt) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  EXPECT_THAT(telamon_command("show " + program).text, HasSubstr("d:f64[] = mul c b"));
  EXPECT_THAT(telamon_command("show " + program + " --transform jit,grad").text,
              HasSubstr("= jit [ name="));
  EXPECT_THAT(telamon_command("show " + program + " --transform vmap --batch 7").text,
              HasSubstr("f64[7]"));
  const Answer timings = telamon_command("show " + program + " --timings");
  EXPECT_EQ(timings.code, 0);
  if (timings.text.find("codegen") == std::string::npos) return;  // built without LLVM
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
  EXPECT_THAT(after("cse_again"), HasSubstr("'cse_again' did not run: short_axes and reorder"));
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
  const Json endless =
      Json::parse(std::regex_replace(std::string(kEndless), std::regex("SAME"), kSame));
  const std::string cases = file("cases.jsonl", endless.dump() + "\n" + kCase.dump() + "\n");
  const Answer answer = telamon_command("bisect --all " + cases, "ulimit -S -t 1; ");
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text,
              HasSubstr("endless: there is nothing to compare with: interpreted, the process "
                        "ends with signal " +
                        std::to_string(SIGXCPU) + " ("));
  EXPECT_THAT(answer.text, HasSubstr("wave: compiled and interpreted results agree\n"));
}

TEST_F(Command, LogsAndProfilesTheProcessWhenAsked) {
  const std::string program = file("wave.jsonl", kCase.dump() + "\n");
  const Answer logged =
      telamon_command("run --transform jit " + program, "TELAMON_LOG=jit,compile ");
  EXPECT_THAT(logged.text, HasSubstr(" jit] jit("));
  if (kCompiles) { EXPECT_THAT(logged.text, HasSubstr(" compile] ")); }
  const std::string trace = path("trace.json");
  EXPECT_EQ(
      telamon_command("run --transform jit " + program, "TELAMON_PROFILE='" + trace + "' ").code,
      0);
  const Json events = Json::parse(std::ifstream(trace)).at("traceEvents");
  EXPECT_EQ(std::any_of(events.begin(), events.end(),
                        [](const Json& e) { return e.value("cat", "") == "kernel"; }),
            kCompiles);
  const Answer refused = telamon_command("run " + program, "TELAMON_PROFILE=/proc/none/t.json ");
  EXPECT_EQ(refused.code, 0);
  EXPECT_THAT(refused.text, HasSubstr("TELAMON_PROFILE=/proc/none/t.json is ignored: "));
  // Pipes are no files to be replaced.
  EXPECT_THAT(telamon_command("run " + program, "TELAMON_PROFILE=/dev/stderr ").text,
              HasSubstr("traceEvents"));
}

TEST_F(Command, GoesOnWhereThereMayBeNoFilesBesideItsWork) {
  const std::string run = "run --transform jit " + file("wave.jsonl", kCase.dump() + "\n");
  const std::string limit = "ulimit -f 0; ";
  const Answer unlimited = telamon_command(run);
  const auto traces = path("traces");
  std::filesystem::create_directories(traces);
  const Answer profiled = telamon_command(run, limit + "TELAMON_PROFILE='" + traces + "/t.json' ");
  EXPECT_EQ(profiled.code, 0);
  EXPECT_THAT(profiled.text, HasSubstr("t.json' could not be written: File too large"));
  EXPECT_THAT(profiled.text, HasSubstr(unlimited.text));
  EXPECT_TRUE(std::filesystem::is_empty(traces));
  if (!kCompiles) return;
  const Answer named = telamon_command(run, limit + "TELAMON_PERF_MAP=1 ");
  EXPECT_EQ(named.code, 0);
  EXPECT_THAT(named.text, HasSubstr(".map cannot be written: File too large"));
  const Answer dumped = telamon_command(run, limit + "TELAMON_DUMP='" + traces + "' ");
  EXPECT_EQ(dumped.code, 2);
  EXPECT_THAT(dumped.text, HasSubstr("cannot write there: File too large"));
  EXPECT_TRUE(std::filesystem::is_empty(traces));
}

TEST_F(Command, BenchSaysThatItFoundTheProgramInTheDiskCache) {
  const std::string bench = "bench --seconds 0 " + file("cases.jsonl", kCase.dump());
  const std::string folder = "TELAMON_CACHE_DIR='" + path("cache") + "' ";
  const Answer first = telamon_command(bench, folder);
  EXPECT_EQ(first.code, 0);
  EXPECT_THAT(first.text, Not(HasSubstr("disk cache")));
  if (telamon_command("info").text.find("default backend: llvm") == std::string::npos) return;
  EXPECT_THAT(
      telamon_command(bench, folder).text,
      HasSubstr(" us (found in the disk cache; TELAMON_CACHE_DIR=none compiles it), first call"));
  EXPECT_THAT(telamon_command(bench + " --json", folder).text,
              HasSubstr(R"("from_disk_cache":true)"));
}

TEST_F(Command, CacheTellsWhatItTakesOfTheDisk) {
  const std::string folder = "TELAMON_CACHE_DIR='" + path("cache") + "' ";
  EXPECT_THAT(telamon_command("cache info", folder).text,
              HasSubstr("programs: 0, 0 bytes of at most 512 MiB of the disk\n"));
  telamon_command("run --transform jit " + file("cases.jsonl", kCase.dump()), folder);
  if (telamon_command("info").text.find("default backend: llvm") == std::string::npos) return;
  EXPECT_THAT(
      telamon_command("cache info", folder + "TELAMON_CACHE_SIZE=2048 ").text,
      testing::ContainsRegex("programs: 1, [0-9.]+ (KiB|MiB) of at most 2 GiB of the disk\n"));
  EXPECT_EQ(telamon_command("cache clear", folder).text, "removed 1 program\n");
}

TEST_F(Command, BenchMeasuresAndWritesJson) {
  const std::string cases = file("cases.jsonl", kCase.dump());
  const Answer text = telamon_command("bench " + cases + " --seconds 0 --transform vmap,grad");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.text, HasSubstr("vmap(grad(wave))"));
  EXPECT_THAT(text.text, HasSubstr("median"));
  const Answer json = telamon_command("bench " + cases + " --seconds 0 --threads 2 --json");
  const Json line = Json::parse(json.text);
  for (const char* key : {"name", "transform", "threads", "trace_us", "compile_us", "first_call_us",
                          "min_ns", "median_ns", "runs"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["threads"], 2);
  EXPECT_GE(line["median_ns"], line["min_ns"]);
  EXPECT_EQ(line["from_disk_cache"], false);
  EXPECT_THAT(text.text, Not(HasSubstr("disk cache")));
  EXPECT_EQ(telamon_command("bench " + cases + " --threads 0").code, 2);
  EXPECT_EQ(telamon_command("bench " + cases + " --seconds -1").code, 2);
}

TEST_F(Command, InfoTellsVersionAndMachine) {
  const Answer info = telamon_command("info");
  EXPECT_EQ(info.code, 0);
  for (const char* word :
       {"telamon ", "instruction set: ", "threads: ", "default backend: ", "zlib: ", "caches"})
    EXPECT_THAT(info.text, HasSubstr(word));
  const Answer disabled = telamon_command("info", "TELAMON_DISABLE=' fuze,wraps, cse' ");
  EXPECT_EQ(disabled.code, 0);
  EXPECT_THAT(disabled.text, HasSubstr("telamon: TELAMON_DISABLE: there is no 'fuze'; it knows "));
  EXPECT_THAT(disabled.text, HasSubstr("; left out: cse wraps\n"));
}

// ---- cases made for what check says about them -----------------------------------------------------
Json scalar(double value) {
  return {{"dtype", "f64"}, {"shape", Json::array()}, {"data", {value}}};
}
Json vector_of(const std::vector<double>& values) {
  return {{"dtype", "f64"}, {"shape", {values.size()}}, {"data", values}};
}
Json variable(int id, const std::string& dtype = "f64", const Json& shape = Json::array()) {
  return {{"id", id}, {"aval", {{"dtype", dtype}, {"shape", shape}, {"weak_type", false}}}};
}
Json equation(const std::string& primitive, const std::vector<int>& in, const Json& out,
              const Json& params = Json::object()) {
  Json inputs = Json::array();
  for (const int v : in) inputs.push_back({{"var", v}});
  return {{"primitive", primitive}, {"inputs", inputs}, {"outputs", {out}}, {"params", params}};
}
Json program(const std::vector<Json>& inputs, const std::vector<Json>& eqns,
             const std::vector<int>& results) {
  Json outs = Json::array();
  for (const int v : results) outs.push_back({{"var", v}});
  return {{"jaxpr",
           {{"invars", inputs}, {"constvars", Json::array()}, {"eqns", eqns}, {"outvars", outs}}},
          {"consts", Json::array()}};
}
Json new_case(const std::string& name, const Json& program, const std::vector<Json>& inputs,
              const Json& output, const Json& checks = Json::object()) {
  return {{"format", "telamon-case/1"},
          {"name", name},
          {"program", program},
          {"inputs", inputs},
          {"outputs", {output}},
          {"tolerance", {{"rtol", 1e-12}, {"atol", 1e-12}}},
          {"checks", checks}};
}
/// name(x) = primitive(x), which nobody evaluates.
Json case_of(const std::string& primitive, const std::string& dtype = "f64",
             const Json& params = Json::object()) {
  return new_case(
      primitive,
      program({variable(0, dtype)}, {equation(primitive, {0}, variable(1, dtype), params)}, {1}),
      {scalar(0.5)}, scalar(0));
}
/// Steps from 0.5 to its neighbour. There is no derivative of it.
Json step_case(const Json& jvp) {
  return new_case(
      "step",
      program({variable(0), variable(1)}, {equation("nextafter", {0, 1}, variable(2))}, {2}),
      {scalar(0.5), scalar(1)}, scalar(0.5), {{"jvp", jvp}});
}
/// f(x) = sin(x) with the derivative cos(x), or with 1 instead.
Json sine_case(const std::string& name, bool right, const Json& checks) {
  const Json rule =
      right ? program({variable(0), variable(1)},
                      {equation("sin", {0}, variable(2)), equation("cos", {0}, variable(3)),
                       equation("mul", {3, 1}, variable(4))},
                      {2, 4})
            : program({variable(0), variable(1)}, {equation("sin", {0}, variable(2))}, {2, 1});
  const Json params = {
      {"call_jaxpr", program({variable(0)}, {equation("sin", {0}, variable(1))}, {1})},
      {"jvp_jaxpr", rule}};
  return new_case(
      name, program({variable(0)}, {equation("custom_jvp_call", {0}, variable(1), params)}, {1}),
      {scalar(0.5)}, scalar(std::sin(0.5)), checks);
}
std::string lines(const std::vector<Json>& cases) {
  std::string text;
  for (const Json& test : cases) text += test.dump() + "\n";
  return text;
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

TEST_F(Command, CheckSkipsWhatIsMissingAndSaysHowOften) {
  const Json rule = step_case({{"tangents", {scalar(1), scalar(0)}}, {"outputs", {scalar(1)}}});
  const std::string cases =
      file("cases.jsonl", lines({kCase, case_of("frobnicate"), case_of("transmogrify"),
                                 case_of("frobnicate"), case_of("neg", "c64"), rule}));
  const Answer answer = telamon_command("check " + cases);
  EXPECT_EQ(answer.code, 0);
  const std::string skipped =
      "skipped 2: dtype c64\n"
      "skipped 4: primitive frobnicate\n"
      "skipped 2: primitive transmogrify\n"
      "skipped 2: rule: Differentiation rule for 'nextafter' not implemented\n";
  EXPECT_EQ(answer.text, skipped + "8 passed, 0 failed, 10 skipped\n");
  EXPECT_EQ(telamon_command("check --list-missing " + cases).text, skipped);
}

// A reader that has lost a call would pass for a primitive that does not exist yet.
TEST_F(Command, CheckFailsAPrimitiveThatExistsAndCannotBeRead) {
  const std::string cases =
      file("cases.jsonl", lines({case_of("checkpoint"), case_of("frobnicate")}));
  const std::string why =
      "FAIL checkpoint eval: primitive 'checkpoint' is registered, yet programs with it cannot be "
      "read";
  const Answer answer = telamon_command("check --modes eval " + cases);
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, AllOf(HasSubstr(why), HasSubstr("0 passed, 1 failed, 1 skipped")));
  EXPECT_EQ(telamon_command("check --list-missing " + cases).code, 1);
}

// What JAX refuses may be refused, or be right.
TEST_F(Command, CheckDecidesByDifferencesWhatJaxRefuses) {
  const Json refused = {{"error", "TypeError"}, {"message", "no"}};
  const Json all = {{"jvp", refused}, {"vjp", refused}, {"hvp", refused}};
  const Answer raised =
      telamon_command("check --modes jvp " + file("raised.jsonl", lines({step_case(refused)})));
  EXPECT_EQ(raised.text, "2 passed, 0 failed, 0 skipped\n");
  const Answer agrees =
      telamon_command("check " + file("agrees.jsonl", lines({sine_case("right", true, all)})));
  EXPECT_EQ(agrees.text, "8 passed, 0 failed, 0 skipped\n");
  const Answer wrong =
      telamon_command("check " + file("wrong.jsonl", lines({sine_case("wrong", false, all)})));
  EXPECT_EQ(wrong.code, 1);
  for (const char* mode : {"jvp", "jit(jvp)", "vjp", "jit(vjp)"}) {
    EXPECT_THAT(wrong.text, HasSubstr("FAIL wrong " + std::string(mode) +
                                      ": JAX refuses this, and finite differences disagree: "));
  }
  // The derivative 1 of the wrong rule has the derivative 0, as it should.
  EXPECT_THAT(wrong.text, HasSubstr("4 passed, 4 failed"));
  // Refusing a batch goes by a loop over the examples.
  Json batched = sine_case("batched", true, {});
  batched["checks"]["vmap"] = {
      {{"in_axes", {0}}, {"inputs", {vector_of({0.1, 0.2, 0.3})}}, {"error", "TypeError"}}};
  EXPECT_EQ(telamon_command("check --modes vmap " + file("batched.jsonl", lines({batched}))).text,
            "2 passed, 0 failed, 0 skipped\n");
}

TEST_F(Command, CheckDoesNotLetNarrowFloatsPassUnchecked) {
  for (const bool right : {true, false}) {
    const Json refused = {{"error", "TypeError"}, {"message", "no"}};
    std::string text = sine_case("narrow", right, {{"jvp", refused}, {"vjp", refused}}).dump();
    for (std::size_t at = 0; (at = text.find("f64", at)) != std::string::npos;)
      text.replace(at, 3, "f16");
    const Answer answer = telamon_command("check --modes jvp,vjp " + file("narrow.jsonl", text));
    EXPECT_THAT(answer.text, HasSubstr(right ? "4 passed, 0 failed" : "0 passed, 4 failed"));
  }
}

// The name is that of a golden which corrections.cpp knows to be wrong; the program is x * x, whose
// second derivative along half the right values is these values.
TEST_F(Command, CheckTellsWhichGoldensItCorrects) {
  const std::vector<double> right = {-91309.5218362083, 295250.6141505184, 246286.79584409125,
                                     113148.66461494291};
  std::vector<double> half = right, ones(4, 1.0), wrong(4, 0.0);
  for (double& v : half) v /= 2;
  const Json type = Json::array({4});
  const Json square =
      program({variable(0, "f64", type)}, {equation("mul", {0, 0}, variable(1, "f64", type))}, {1});
  const Json hvp = {{"tangents", {vector_of(half)}},
                    {"cotangents", {vector_of(ones)}},
                    {"outputs", {vector_of(wrong)}}};
  Json test = new_case("control_flow/custom_jvp/in_scan", square, {vector_of(ones)},
                       vector_of(ones), {{"hvp", hvp}});
  const Answer corrected =
      telamon_command("check --modes hvp " + file("known.jsonl", lines({test})));
  EXPECT_EQ(corrected.code, 0);
  for (const char* mode : {"hvp", "jit(hvp)"}) {
    EXPECT_THAT(corrected.text, HasSubstr("golden corrected: control_flow/custom_jvp/in_scan " +
                                          std::string(mode) + ": JAX 0.10.2 forgets a function's"));
  }
  EXPECT_THAT(corrected.text, HasSubstr("\n2 passed, 0 failed, 0 skipped\n"));
  test["name"] = "another";
  EXPECT_THAT(telamon_command("check --modes hvp " + file("other.jsonl", lines({test}))).text,
              AllOf(HasSubstr("0 passed, 2 failed"), Not(HasSubstr("golden corrected"))));
}

TEST_F(Command, SaysWhichEnvironmentVariablesItIgnores) {
  const Answer info =
      telamon_command("info", "TELAMON_ISA=avx3 TELAMON_NUM_THREADS=abc TELAMON_CHECK_LEAKS=yes ");
  EXPECT_EQ(info.code, 0);
  for (const char* line :
       {"telamon: TELAMON_ISA: there is no 'avx3'; it knows generic, avx2, avx512\n",
        "telamon: TELAMON_NUM_THREADS=abc is ignored: it takes a whole number from 1 to 1024\n"}) {
    EXPECT_THAT(info.text, HasSubstr(line));
    EXPECT_EQ(info.text.find(line), info.text.rfind(line));
  }
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=0 ").text,
              HasSubstr("TELAMON_NUM_THREADS=0 is ignored"));
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=1025 ").text,
              HasSubstr("TELAMON_NUM_THREADS=1025 is ignored"));
  EXPECT_THAT(telamon_command("info", "TELAMON_CACHE_MIB=0 ").text, Not(HasSubstr("ignored")));
#if !defined(TELAMON_ASAN)  // under which nothing is kept, and nobody asks how much
  EXPECT_THAT(
      telamon_command("info", "TELAMON_CACHE_MIB=3000000000 ").text,
      HasSubstr("TELAMON_CACHE_MIB=3000000000 is ignored: it takes a whole number from 0 to "
                "2147483647\n"));
#endif
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=3 TELAMON_ISA=generic ").text,
              AllOf(HasSubstr("threads: 3 of"), HasSubstr("instruction set: generic"),
                    Not(HasSubstr("telamon: "))));
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  EXPECT_THAT(telamon_command("check " + cases, "TELAMON_DISABLE=lower ").text,
              HasSubstr("6 passed, 0 failed, 0 skipped"));
  EXPECT_THAT(telamon_command("check --modes jit " + cases, "TELAMON_BACKEND=gpu ").text,
              HasSubstr("Unknown backend 'gpu' in the environment's TELAMON_BACKEND"));
}

// A case with any of its parts dropped or replaced is a failure of that case, not of the process.
TEST_F(Command, CheckSurvivesEveryDamagedCase) {
  const std::vector<Json> strange = {
      nullptr, -1, 2, "x", Json::array(), Json::object(), Json::array({1, 2, 3})};
  std::mt19937 random(3);
  std::string lines;
  constexpr int kCases = 400;
  for (int i = 0; i < kCases; ++i) {
    Json test = kCase;
    std::vector<Json*> all;
    const std::function<void(Json&)> collect = [&](Json& json) {
      all.push_back(&json);
      if (json.is_structured())
        for (Json& inner : json) collect(inner);
    };
    for (const auto& [key, value] : test.items()) {
      if (key != "program") collect(test[key]);  // programs have a test of their own
    }
    Json& victim = *all[random() % all.size()];
    if (victim.is_structured() && !victim.empty() && random() % 2 == 0)
      victim.erase(victim.begin());
    else victim = strange[random() % strange.size()];
    lines += test.dump() + "\n";
  }
  const Answer answer = telamon_command("check " + file("damaged.jsonl", lines));
  EXPECT_EQ(answer.code, 1) << answer.text.substr(0, 2000);
  EXPECT_THAT(answer.text, HasSubstr(" failed, 0 skipped"));
  EXPECT_THAT(answer.text, Not(HasSubstr("json.exception")));
}

}  // namespace
}  // namespace telamon
