// The table of wrong goldens. Each is JAX's answer to a program for which JAX gives another answer
// when the same mathematics is written differently; the values here are JAX's own for that other form.
#include "corrections.hpp"

#include <vector>

namespace telamon_tool {
namespace {

struct Correction {
  const char* test;
  const char* check;
  int output;
  std::vector<double> data;
  const char* why;
};

const std::vector<Correction>& corrections() {
  static const std::vector<Correction> table = {
      {"control_flow/custom_jvp/in_scan",
       "hvp",
       0,
       {-91309.5218362083, 295250.6141505184, 246286.79584409125, 113148.66461494291},
       "JAX 0.10.2 forgets a function's custom rule in second derivatives of a scan, and keeps it "
       "in those of the same steps written out, under jit, cond and checkpoint; compared with "
       "the steps written out"},
  };
  return table;
}

}  // namespace

std::string correct_golden(telamon::interop::Json& test, const std::string& check) {
  for (const Correction& c : corrections()) {
    if (test.at("name") != c.test || check != c.check) continue;
    test.at("checks").at(check).at("outputs").at(static_cast<std::size_t>(c.output)).at("data") =
        c.data;
    return c.why;
  }
  return "";
}

}  // namespace telamon_tool
