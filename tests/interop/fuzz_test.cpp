// Damaged programs: whatever is dropped, altered or cut off in a file, reading it gives a program or
// an Error, and a program that was read can be evaluated or refuses to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "interop/json_program.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using interop::Json;
using testing::HasSubstr;

// Loops, branches, calls with rules and ordinary equations, each small.
const char* const kPrograms[] = {
    // x, w -> clamp(0, x w, 1) + constant
    R"({"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f32", "shape": [2], "weak_type": false}},
                             {"id": 1, "aval": {"dtype": "f32", "shape": [], "weak_type": false}}],
         "constvars": [{"id": 2, "aval": {"dtype": "f32", "shape": [2], "weak_type": false}}],
         "eqns": [{"primitive": "mul", "inputs": [{"var": 0}, {"var": 1}], "params": {},
                   "outputs": [{"id": 3, "aval": {"dtype": "f32", "shape": [2]}}]},
                  {"primitive": "clamp", "params": {},
                   "inputs": [{"literal": 0.0, "aval": {"dtype": "f32", "shape": []}}, {"var": 3},
                              {"literal": 1.0, "aval": {"dtype": "f32", "shape": []}}],
                   "outputs": [{"id": 4, "aval": {"dtype": "f32", "shape": [2]}}]},
                  {"primitive": "add_any", "inputs": [{"var": 4}, {"var": 2}], "params": {},
                   "outputs": [{"id": 5, "aval": {"dtype": "f32", "shape": [2]}}]},
                  {"primitive": "reshape", "inputs": [{"var": 5}],
                   "params": {"new_sizes": [1, 2], "dimensions": [0]},
                   "outputs": [{"id": 6, "aval": {"dtype": "f32", "shape": [1, 2]}}]},
                  {"primitive": "dot_general", "inputs": [{"var": 6}, {"var": 0}],
                   "params": {"dimension_numbers": {"lhs_contracting": [1], "rhs_contracting": [0],
                                                    "lhs_batch": [], "rhs_batch": []},
                              "preferred_element_type": "f32", "precision": null},
                   "outputs": [{"id": 7, "aval": {"dtype": "f32", "shape": [1]}}]},
                  {"primitive": "platform_index", "inputs": [], "params": {"platforms": [["cpu"], null]},
                   "outputs": [{"id": 8, "aval": {"dtype": "i32", "shape": []}}]},
                  {"primitive": "select_n", "inputs": [{"var": 8}, {"var": 5}, {"var": 3}],
                   "params": {}, "outputs": [{"id": 9, "aval": {"dtype": "f32", "shape": [2]}}]}],
         "outvars": [{"var": 9}, {"var": 7}]},
        "consts": [{"dtype": "f32", "shape": [2], "data": [1.5, "nan"]}]})",
    // c, n, xs -> scan, while and cond over them, through a call
    R"({"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f32", "shape": []}},
                             {"id": 1, "aval": {"dtype": "i32", "shape": []}},
                             {"id": 2, "aval": {"dtype": "f32", "shape": [3]}}],
         "constvars": [],
         "eqns": [{"primitive": "scan", "inputs": [{"var": 0}, {"var": 2}],
                   "params": {"num_consts": 0, "num_carry": 1, "length": 3, "reverse": false, "unroll": 1,
                     "jaxpr": {"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f32", "shape": []}},
                                                    {"id": 1, "aval": {"dtype": "f32", "shape": []}}],
                       "constvars": [],
                       "eqns": [{"primitive": "add", "inputs": [{"var": 0}, {"var": 1}], "params": {},
                                 "outputs": [{"id": 2, "aval": {"dtype": "f32", "shape": []}}]}],
                       "outvars": [{"var": 2}, {"var": 0}]}, "consts": []}},
                   "outputs": [{"id": 3, "aval": {"dtype": "f32", "shape": []}},
                               {"id": 4, "aval": {"dtype": "f32", "shape": [3]}}]},
                  {"primitive": "while", "inputs": [{"var": 1}],
                   "params": {"cond_nconsts": 0, "body_nconsts": 0,
                     "cond_jaxpr": {"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "i32", "shape": []}}],
                       "constvars": [],
                       "eqns": [{"primitive": "lt", "params": {}, "inputs": [{"var": 0},
                                   {"literal": 3, "aval": {"dtype": "i32", "shape": []}}],
                                 "outputs": [{"id": 1, "aval": {"dtype": "bool", "shape": []}}]}],
                       "outvars": [{"var": 1}]}, "consts": []},
                     "body_jaxpr": {"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "i32", "shape": []}}],
                       "constvars": [],
                       "eqns": [{"primitive": "add", "params": {}, "inputs": [{"var": 0},
                                   {"literal": 1, "aval": {"dtype": "i32", "shape": []}}],
                                 "outputs": [{"id": 1, "aval": {"dtype": "i32", "shape": []}}]}],
                       "outvars": [{"var": 1}]}, "consts": []}},
                   "outputs": [{"id": 5, "aval": {"dtype": "i32", "shape": []}}]},
                  {"primitive": "cond", "inputs": [{"var": 1}, {"var": 3}],
                   "params": {"branches": [
                     {"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f32", "shape": []}}],
                       "constvars": [], "eqns": [], "outvars": [{"var": 0}]}, "consts": []},
                     {"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f32", "shape": []}}],
                       "constvars": [],
                       "eqns": [{"primitive": "jit", "inputs": [{"var": 0}],
                         "params": {"name": "g", "jaxpr": {"jaxpr": {
                           "invars": [{"id": 0, "aval": {"dtype": "f32", "shape": []}}], "constvars": [],
                           "eqns": [{"primitive": "sin", "inputs": [{"var": 0}], "params": {},
                                     "outputs": [{"id": 1, "aval": {"dtype": "f32", "shape": []}}]}],
                           "outvars": [{"var": 1}]}, "consts": []}},
                         "outputs": [{"id": 1, "aval": {"dtype": "f32", "shape": []}}]}],
                       "outvars": [{"var": 1}]}, "consts": []}]},
                   "outputs": [{"id": 6, "aval": {"dtype": "f32", "shape": []}}]}],
         "outvars": [{"var": 6}, {"var": 4}, {"var": 5}]}, "consts": []})",
    // x -> f(f(x)): a function with a jvp rule that calls it, then one with a vjp rule
    R"({"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
         "eqns": [{"primitive": "custom_jvp_call", "inputs": [{"var": 0}],
                   "params": {"name": "f", "call_jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [{"primitive": "sin", "inputs": [{"var": 0}], "params": {},
                                 "outputs": [{"id": 1, "aval": {"dtype": "f64", "shape": []}}]}],
                       "outvars": [{"var": 1}]}, "consts": []},
                     "jvp_jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                  {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [{"primitive": "custom_jvp_call", "inputs": [{"var": 0}],
                                 "params": {"name": "f", "same_rules_as": 0, "call_jaxpr": {"jaxpr": {
                                   "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}],
                                   "constvars": [], "eqns": [], "outvars": [{"var": 0}]},
                                   "consts": []}},
                                 "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]},
                                {"primitive": "mul", "inputs": [{"var": 1}, {"var": 2}], "params": {},
                                 "outputs": [{"id": 3, "aval": {"dtype": "f64", "shape": []}}]}],
                       "outvars": [{"var": 2}, {"var": 3}]}, "consts": []}},
                   "outputs": [{"id": 1, "aval": {"dtype": "f64", "shape": []}}]},
                  {"primitive": "custom_vjp_call", "inputs": [{"var": 1}],
                   "params": {"name": "g", "call_jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [], "outvars": [{"var": 0}]}, "consts": []},
                     "fwd_jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [], "outvars": [{"var": 0}, {"var": 0}]}, "consts": []},
                     "bwd_jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                  {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [{"primitive": "mul", "inputs": [{"var": 0}, {"var": 1}], "params": {},
                                 "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
                       "outvars": [{"var": 2}]}, "consts": []}},
                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]},
                  {"primitive": "remat2", "inputs": [{"var": 2}],
                   "params": {"jaxpr": {"jaxpr": {
                       "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                       "eqns": [], "outvars": [{"var": 0}]}, "consts": []}},
                   "outputs": [{"id": 3, "aval": {"dtype": "f64", "shape": []}}]}],
         "outvars": [{"var": 3}]}, "consts": []})",
    // a, b -> x with a x = b
    R"({"jaxpr": {"invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                             {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
         "eqns": [{"primitive": "custom_linear_solve",
                   "inputs": [{"var": 0}, {"var": 0}, {"var": 0}, {"var": 0}, {"var": 1}],
                   "params": {"const_lengths": {"matvec": 1, "vecmat": 1, "solve": 1, "transpose_solve": 1},
                     "jaxprs": {"matvec": {"jaxpr": {
                         "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                    {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                         "eqns": [{"primitive": "mul", "inputs": [{"var": 0}, {"var": 1}], "params": {},
                                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
                         "outvars": [{"var": 2}]}, "consts": []},
                       "vecmat": {"jaxpr": {
                         "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                    {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                         "eqns": [{"primitive": "mul", "inputs": [{"var": 0}, {"var": 1}], "params": {},
                                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
                         "outvars": [{"var": 2}]}, "consts": []},
                       "solve": {"jaxpr": {
                         "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                    {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                         "eqns": [{"primitive": "div", "inputs": [{"var": 1}, {"var": 0}], "params": {},
                                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
                         "outvars": [{"var": 2}]}, "consts": []},
                       "transpose_solve": {"jaxpr": {
                         "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": []}},
                                    {"id": 1, "aval": {"dtype": "f64", "shape": []}}], "constvars": [],
                         "eqns": [{"primitive": "div", "inputs": [{"var": 1}, {"var": 0}], "params": {},
                                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
                         "outvars": [{"var": 2}]}, "consts": []}}},
                   "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": []}}]}],
         "outvars": [{"var": 2}]}, "consts": []})"};

/// Every value inside a document, itself included.
void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inner : json) collect(inner, all);
}

// One change somewhere: a value replaced, dropped, doubled or put in another's place.
void damage(Json& program, std::mt19937& random) {
  static const std::vector<Json> strange = {nullptr,
                                            true,
                                            -1,
                                            0,
                                            1,
                                            2,
                                            7,
                                            100000,
                                            4611686018427387904,
                                            1e300,
                                            "nan",
                                            "f32",
                                            "i32",
                                            "bool",
                                            "c64",
                                            "mul",
                                            "add",
                                            "scan",
                                            "",
                                            Json::array(),
                                            Json::object(),
                                            Json::array({2}),
                                            Json::array({-3}),
                                            Json::array({4294967296, 4294967296, 4294967296})};
  std::vector<Json*> all;
  collect(program, all);
  const auto pick = [&](std::size_t n) { return random() % n; };
  Json& victim = *all[pick(all.size())];
  switch (pick(4)) {
    case 0: victim = strange[pick(strange.size())]; break;
    case 1:
      if (victim.is_structured() && !victim.empty()) {
        auto at = victim.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(pick(victim.size())));
        victim.erase(at);
      }
      break;
    case 2:
      if (victim.is_array() && !victim.empty()) victim.push_back(Json(victim[0]));
      break;
    default: victim = Json(*all[pick(all.size())]);
  }
}

// What was read can also be differentiated, or refuses to be, and run, unless it may run for ever.
void use(const Json& json) {
  const interop::Program program("damaged", interop::program_from_json(json));
  Arrays x;
  for (const Aval& aval : program.in_avals()) {
    if (aval.size() > 100) return;
    x.push_back(lax::full(aval.shape, aval.dtype, 1));
  }
  const auto f = [&](const Arrays& in) { return program(in); };
  (void)make_jaxpr([&](const Arrays& in) { return vjp(f, in).first; })(x);
  const bool long_scan = json.dump().find("0000") != std::string::npos;
  if (count_eqns(program.jaxpr().jaxpr, "while") == 0 && !long_scan) (void)f(x);
}

TEST(LoadJaxpr, ReadsTheUndamagedProgramsOfTheFuzzTest) {
  for (const char* text : kPrograms) EXPECT_NO_THROW(use(Json::parse(text)));
}

TEST(LoadJaxpr, SurvivesAnyDamage) {
  std::mt19937 random(7);
  int refused = 0, accepted = 0;
  for (const char* text : kPrograms) {
    const Json whole = Json::parse(text);
    for (int i = 0; i < 400; ++i) {
      Json program = whole;
      for (auto n = 1 + random() % 2; n-- > 0;) damage(program, random);
      try {
        use(program);
        ++accepted;
      } catch (const InternalError& e) {
        ADD_FAILURE() << e.what() << "\n" << program.dump();
      } catch (const Error& e) {
        ++refused;
        EXPECT_NE(e.message(), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << "not an Error: " << e.what() << "\n" << program.dump();
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(accepted, 50);
}

TEST(LoadJaxpr, SurvivesBeingCutOff) {
  for (const std::string text : kPrograms) {
    for (std::size_t length = 0; length < text.size() - 1; length += 13) {
      EXPECT_THROW((void)interop::parse_json(text.substr(0, length), "cut.json"), ParseError)
          << length;
    }
  }
  EXPECT_THROW((void)interop::parse_json(std::string(100000, '['), "deep.json"), ParseError);
}

/// The message of reading a program with one equation, altered.
std::string message_of_eqn(const std::string& key, const Json& value) {
  Json program = Json::parse(kPrograms[0]);
  program["jaxpr"]["eqns"][0][key] = value;
  try {
    (void)interop::program_from_json(program);
  } catch (const Error& e) { return e.message(); }
  return "accepted";
}

TEST(LoadJaxpr, ChecksTheOperandsOfEveryEquation) {
  EXPECT_EQ(message_of_eqn("inputs", Json::array()),
            "equation 1 ('mul'): mul takes 2 operands, but got 0");
  EXPECT_THAT(message_of_eqn("inputs", Json::array({{{"var", 99}}})),
              HasSubstr("variable 99 is used before it is defined"));
  EXPECT_THAT(message_of_eqn("inputs", "x"), HasSubstr("'inputs' must be a list, found \"x\""));
  EXPECT_THAT(message_of_eqn("primitive", "clamp"),
              HasSubstr("equation 1 ('clamp'): takes 3 operands, but has 2"));
}

TEST(LoadJaxpr, ChecksTheTypesOfResults) {
  const Json wrong = {{{"id", 3}, {"aval", {{"dtype", "f64"}, {"shape", {2}}}}}};
  EXPECT_EQ(message_of_eqn("outputs", wrong),
            "equation 1 ('mul'): result 0 is f32[2], but variable 3 is declared f64[2]");
  EXPECT_THAT(message_of_eqn("outputs", Json::array()), HasSubstr("equation 1 ('mul'): "));
  const Json negative = {{{"id", 3}, {"aval", {{"dtype", "f32"}, {"shape", {-2}}}}}};
  EXPECT_THAT(message_of_eqn("outputs", negative), HasSubstr("must not be negative, found -2"));
  const Json again = {{{"id", 0}, {"aval", {{"dtype", "f32"}, {"shape", {2}}}}}};
  EXPECT_THAT(message_of_eqn("outputs", again), HasSubstr("variable 0 is bound twice"));
}

}  // namespace
}  // namespace telamon
