// The `telamon` command as its users call it, and the programs that its tests give it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "telamon/interop.hpp"
#include "telamon/telamon.hpp"

namespace telamon_test {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Answer {
  int code = -1;  ///< the exit status; 128 + n after signal n
  std::string text;
};

/// What the command prints, on both of its streams; `before` is for the shell to do first.
inline Answer telamon_command(const std::string& arguments, const std::string& before = "") {
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
  std::string array(const std::string& name, const telamon::Array& x) const {
    telamon::interop::save_npy(path(name), x);
    return path(name);
  }

  std::filesystem::path folder_;
};

/// wave(x, w) = sin(x) w, with inputs and what JAX answers.
inline const Json kCase =
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

/// The program of a case, as a file of its own.
inline Json program_of(const Json& test) {
  return {{"format", "telamon-jaxpr/1"},
          {"name", "wave"},
          {"input_paths", {"[0]", "[1]"}},
          {"program", test["program"]}};
}

/// loop(go) = while go: go, which a true `go` never leaves.
inline Json endless_case() {
  const std::string text =
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
  return Json::parse(std::regex_replace(text, std::regex("SAME"), kSame));
}

/// product(a, b) = a b + a.
inline const char* const kProduct =
    "{ lambda a:f32[5], b:f32[5] .\n  let c:f32[5] = mul a b\n      d:f32[5] = add c a\n"
    "  in ( d ) }";

}  // namespace telamon_test
