// ProgramReader: makes jaxprs of JAX programs in the neutral JSON form. Every equation is checked
// against the type rule of its primitive when it is added, and against the types in the file.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "interop/custom_rules.hpp"
#include "interop/json_fields.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

/// One jaxpr being read: variables by their number in the file.
struct Scope {
  detail::JaxprBuilder builder;
  std::map<std::int64_t, Atom> env;
};

/// An equation of the file whose operands have been found.
struct FileEqn {
  std::string name;
  const Json& params;
  Atoms inputs;
  std::vector<Aval> out_avals;  ///< as the file has them

  /// ParseError unless there are that many operands at least.
  void needs(std::size_t operands) const;
  /// The shape and dtype that the file gives the first result.
  const Aval& out_aval() const;
};

/// A call whose rules are being read: calls inside may refer to it.
struct CallUnderWay {
  int number = -1;  ///< of its rules
  bool forward = false;
  std::vector<Aval> in_avals, out_avals;
};

class ProgramReader {
 public:
  /// The whole program. MissingPrimitiveError when some primitives do not exist here.
  ClosedJaxpr read(const Json& closed);

  // ---- for the readers of equations
  ClosedJaxpr read_closed(const Json& closed);
  /// Adds an equation and gives its results, typed by the primitive's own rule.
  Atoms add(Scope& scope, const PrimitiveBase& primitive, Params params, Atoms inputs) const;
  /// Goes on with made-up results, so that one pass finds everything that is missing.
  Atoms missing(Scope& scope, const std::string& name, const std::vector<Aval>& out_avals);
  RuleSet& rules() { return *rules_; }
  std::vector<CallUnderWay>& calls_under_way() { return calls_under_way_; }

 private:
  void read_equation(Scope& scope, const Json& eqn);
  Atom atom(Scope& scope, const Json& j) const;

  int depth_ = 0;
  std::set<std::string> missing_;
  std::shared_ptr<RuleSet> rules_ = std::make_shared<RuleSet>();
  std::vector<CallUnderWay> calls_under_way_;  // outermost first
};

/// What becomes of an equation: its results.
using EquationReader = Atoms (*)(ProgramReader&, Scope&, FileEqn);
/// By name: equations that call programs. All others are read by read_primitive.
const std::map<std::string, EquationReader, std::less<>>& call_readers();
Atoms read_primitive(ProgramReader& reader, Scope& scope, FileEqn eqn);

}  // namespace interop
}  // namespace v1
}  // namespace telamon
