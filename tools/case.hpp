// Conformance cases: a program, inputs, and what real JAX answers for it in each mode.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interop/json_program.hpp"
#include "telamon/telamon.hpp"

namespace telamon_tool {

using telamon::Array;
using telamon::Arrays;
using telamon::interop::Json;

/// One way of running a case: "eval", "jvp", "vjp", "hvp" or "vmap", plain or compiled.
struct Mode {
  std::string name;   ///< "jit(vjp)"
  std::string check;  ///< "vjp"
  bool jitted = false;
};
const std::vector<Mode>& all_modes();

struct Verdict {
  enum class Kind { passed, failed, skipped } kind = Kind::passed;
  /// What differed; the missing primitive, rule or dtype; why the golden was corrected.
  std::string reason;
};

struct Case {
  std::string name;
  Json json;
  std::map<std::string, std::string> corrected;  ///< why, by check, where the golden was wrong
  /// Whether the case holds data for this check.
  bool has(const std::string& check) const;
};

/// The case in line `number` of a file. ParseError names the file, the line and what is wrong.
Case parse_case(const std::string& line, const std::string& path, std::size_t number);
/// Runs one mode. Never throws: what the library throws becomes a verdict.
Verdict run_mode(const Case& test, const Mode& mode);
/// A dtype that some value of the program has, and that nothing is computed with.
std::optional<std::string> missing_dtype(const Json& program);
/// Inputs of a case, or of the check's own inputs (vmap).
Arrays arrays_from(const Json& list);

}  // namespace telamon_tool
