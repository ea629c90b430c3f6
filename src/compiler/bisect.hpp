// Bisection: which pass or optimisation makes a program compute something else than it says.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dump_error.hpp"
#include "runtime/backend.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

struct Finding {
  enum class Kind : std::uint8_t {
    agrees,        ///< compiled and interpreted results are the same
    interpreter,   ///< what compiled results are compared with ends its process
    pass,          ///< the program that this pass left behind, interpreted, gives other results
    optimisation,  ///< it is right without this one, by the name that TELAMON_DISABLE knows
    combination,   ///< right without these, and with any one of them alone switched off it is not
    generation,    ///< wrong whatever is switched off: planning, code generation, LLVM
    contraction  ///< right where a * b + c is two operations: allowed, where `contract` is asked for
  };
  Kind kind = Kind::agrees;
  std::vector<std::string> names;  ///< the pass; the optimisations, each of which does it
  std::string difference;     ///< which result differs, by how much and where; how the process ends
  std::string before, after;  ///< the program on both sides of the pass
};

struct BisectOptions {
  /// As of jit: a * b + c may be one operation. Only code generation makes it one, so what is wrong
  /// without it too is looked for without it, and the rest is contraction.
  bool contract = false;
  /// Inputs that callers give away, if any; those beyond the end are not.
  std::vector<bool> donated = {};
  /// What logs and dumps call the program, after the number of the attempt: "attempt 3 of f".
  std::string name = "program";
  /// Where what is looked at is compiled and run: in children, a process that ends is a finding too.
  enum class Runs : std::uint8_t { here, in_children } runs = Runs::here;
  /// How long a step of what children do may take: a pass, an interpretation, code generation, a run. One that
  /// takes longer is as one that crashes.
  std::optional<std::chrono::seconds> limit = {};
  /// Relative to the number and the largest of its array; by default by the narrowest dtype that
  /// the program computes with: 1e-9 for f64, 1e-4 for f32, 1e-2 for narrower ones. What is not finite has to be the same;
  /// with 0 all has to, down to the signs of zeros.
  std::optional<double> rtol = {};
  /// How programs are compiled, where not by the backend llvm: tests break a pass there.
  std::function<std::shared_ptr<const runtime::Executable>(const Jaxpr&,
                                                           const runtime::CompileOptions&)>
      compile = {};
};

/// Compiles the program and compares what comes of it, on these inputs, with what the interpreter
/// makes of it: after each pass over jaxprs, and at the end with each optimisation switched off.
/// OutOfMemoryError where memory runs out, and DumpError where dumps cannot be written, which are no faults of what
/// was looked at then.
TELAMON_API Finding bisect(const Jaxpr& program, const Arrays& inputs, BisectOptions options = {});

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
