// `telamon check`: what it makes of cases that JAX refuses, that are damaged, or that cannot be read yet.
#include <functional>
#include <random>

#include "command/cases.hpp"
#include "command/command.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, CheckSkipsWhatIsMissingAndSaysHowOften) {
  const Json rule = step_case({{"tangents", {scalar(1), scalar(0)}}, {"outputs", {scalar(1)}}});
  const std::string cases =
      file("cases.jsonl", lines({kCase, case_of("frobnicate"), case_of("transmogrify"),
                                 case_of("frobnicate"), case_of("sin", "c64"), rule}));
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
