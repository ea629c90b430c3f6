// Cases made for what `telamon check` says about them.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "command/command.hpp"

namespace telamon_test {

inline Json scalar(double value) {
  return {{"dtype", "f64"}, {"shape", Json::array()}, {"data", {value}}};
}
inline Json vector_of(const std::vector<double>& values) {
  return {{"dtype", "f64"}, {"shape", {values.size()}}, {"data", values}};
}
inline Json variable(int id, const std::string& dtype = "f64", const Json& shape = Json::array()) {
  return {{"id", id}, {"aval", {{"dtype", dtype}, {"shape", shape}, {"weak_type", false}}}};
}
inline Json equation(const std::string& primitive, const std::vector<int>& in, const Json& out,
                     const Json& params = Json::object()) {
  Json inputs = Json::array();
  for (const int v : in) inputs.push_back({{"var", v}});
  return {{"primitive", primitive}, {"inputs", inputs}, {"outputs", {out}}, {"params", params}};
}
inline Json program(const std::vector<Json>& inputs, const std::vector<Json>& eqns,
                    const std::vector<int>& results) {
  Json outs = Json::array();
  for (const int v : results) outs.push_back({{"var", v}});
  return {{"jaxpr",
           {{"invars", inputs}, {"constvars", Json::array()}, {"eqns", eqns}, {"outvars", outs}}},
          {"consts", Json::array()}};
}
inline Json new_case(const std::string& name, const Json& program, const std::vector<Json>& inputs,
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
inline Json case_of(const std::string& primitive, const std::string& dtype = "f64",
                    const Json& params = Json::object()) {
  return new_case(
      primitive,
      program({variable(0, dtype)}, {equation(primitive, {0}, variable(1, dtype), params)}, {1}),
      {scalar(0.5)}, scalar(0));
}
/// Steps from 0.5 to its neighbour. There is no derivative of it.
inline Json step_case(const Json& jvp) {
  return new_case(
      "step",
      program({variable(0), variable(1)}, {equation("nextafter", {0, 1}, variable(2))}, {2}),
      {scalar(0.5), scalar(1)}, scalar(0.5), {{"jvp", jvp}});
}
/// f(x) = sin(x) with the derivative cos(x), or with 1 instead.
inline Json sine_case(const std::string& name, bool right, const Json& checks) {
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
inline std::string lines(const std::vector<Json>& cases) {
  std::string text;
  for (const Json& test : cases) text += test.dump() + "\n";
  return text;
}

}  // namespace telamon_test
