// Jaxprs in the neutral JSON form: scopes, variables, literals, and the checks of every equation.
#include "interop/program_reader.hpp"

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

constexpr int kMaxDepth = 100;  // of nested jaxprs: the reader is recursive

void bind(Scope& scope, const Json& var, Atom atom) {
  const std::int64_t id = integer_member(var, "id");
  if (!scope.env.emplace(id, std::move(atom)).second)
    throw ParseError("variable " + std::to_string(id) + " is bound twice");
}

// What goes wrong inside becomes an error of this equation, or stays the absence of a rule.
template <class Read>
void located(const std::string& where, const Read& read) {
  try {
    read();
  } catch (const NotImplementedError& e) {
    throw NotImplementedError(where + ": " + e.message());
  } catch (const InternalError&) { throw; } catch (const Error& e) {
    throw ParseError(where + ": " + e.message());
  } catch (const Json::exception& e) { throw ParseError(where + ": " + plain_message(e)); }
}

}  // namespace

void FileEqn::needs(std::size_t operands) const {
  if (inputs.size() >= operands) return;
  throw ParseError("takes " + detail::counted(operands, "operand") + ", but has " +
                   std::to_string(inputs.size()));
}

const Aval& FileEqn::out_aval() const {
  if (out_avals.empty()) throw ParseError("'outputs' is empty, but there is a result");
  return out_avals[0];
}

ClosedJaxpr ProgramReader::read(const Json& closed) {
  ClosedJaxpr program = read_closed(closed);
  if (!missing_.empty()) throw MissingPrimitiveError({missing_.begin(), missing_.end()});
  return program;
}

ClosedJaxpr ProgramReader::read_closed(const Json& closed) {
  if (++depth_ > kMaxDepth) throw ParseError("jaxprs are nested too deeply");
  const Json& jaxpr = member(closed, "jaxpr");
  Scope scope;
  for (const Json& v : list_member(jaxpr, "invars"))
    bind(scope, v, Atom::var(scope.builder.add_input(aval_from_json(member(v, "aval")))));
  const Json& constvars = list_member(jaxpr, "constvars");
  const Json& consts = list_member(closed, "consts");
  if (constvars.size() != consts.size())
    throw ParseError("a program has constvars and consts of different number");
  for (std::size_t i = 0; i < consts.size(); ++i) {
    const Array value = array_from_json(consts[i]);
    const Aval expected = aval_from_json(member(constvars[i], "aval"));
    if (!value.aval().same_type(expected)) {
      throw ParseError("constant " + std::to_string(i) + " is " + value.aval().to_string() +
                       ", but its variable is " + expected.to_string());
    }
    bind(scope, constvars[i], scope.builder.capture(value));
  }
  std::size_t number = 0;
  for (const Json& eqn : list_member(jaxpr, "eqns")) {
    std::string where = "equation " + std::to_string(++number);
    if (eqn.is_object() && eqn.contains("primitive") && eqn.at("primitive").is_string())
      where += " ('" + eqn.at("primitive").get<std::string>().substr(0, 40) + "')";
    located(where, [&] { read_equation(scope, eqn); });
  }
  Atoms outs;
  located("'outvars'", [&] {
    for (const Json& out : list_member(jaxpr, "outvars")) outs.push_back(atom(scope, out));
  });
  --depth_;
  return scope.builder.build(std::move(outs));
}

Atom ProgramReader::atom(Scope& scope, const Json& j) const {
  if (j.is_object() && j.contains("var")) {
    const std::int64_t id = integer_member(j, "var");
    const auto found = scope.env.find(id);
    if (found == scope.env.end())
      throw ParseError("variable " + std::to_string(id) + " is used before it is defined");
    return found->second;
  }
  const Json& literal = member(j, "literal");
  const Aval aval = aval_from_json(member(j, "aval"));
  const bool flat = literal.is_array() && !(is_complex(aval.dtype) && aval.shape.empty());
  return scope.builder.capture(
      array_from_json({{"dtype", short_name(aval.dtype)},
                       {"shape", aval.shape.to_vector()},
                       {"data", flat ? literal : Json::array({literal})}}));
}

void ProgramReader::read_equation(Scope& scope, const Json& json) {
  FileEqn eqn{text_member(json, "primitive"), member(json, "params"), {}, {}};
  if (!eqn.params.is_object())
    throw ParseError("'params' must be an object, found " + found_text(eqn.params));
  for (const Json& in : list_member(json, "inputs")) eqn.inputs.push_back(atom(scope, in));
  const Json& vars = list_member(json, "outputs");
  for (const Json& out : vars) eqn.out_avals.push_back(aval_from_json(member(out, "aval")));
  const std::vector<Aval> declared = eqn.out_avals;

  const auto call = call_readers().find(eqn.name);
  const Atoms outputs = call == call_readers().end() ? read_primitive(*this, scope, std::move(eqn))
                                                     : call->second(*this, scope, std::move(eqn));
  if (outputs.size() != declared.size()) {
    throw ParseError("has " + detail::counted(outputs.size(), "result") + ", but " +
                     detail::counted(declared.size(), "variable") + " in 'outputs'");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Aval& aval = scope.builder.aval(outputs[i]);
    if (!aval.same_type(declared[i])) {
      throw ParseError("result " + std::to_string(i) + " is " + aval.to_string() +
                       ", but variable " + found_text(member(vars[i], "id")) + " is declared " +
                       declared[i].to_string());
    }
    bind(scope, vars[i], outputs[i]);
  }
}

Atoms ProgramReader::add(Scope& scope, const PrimitiveBase& primitive, Params params,
                         Atoms inputs) const {
  std::vector<Aval> in_avals, out_avals;
  for (const Atom& in : inputs) in_avals.push_back(scope.builder.aval(in));
  const AbstractResult type = detail::abstract_eval(primitive, params, in_avals);
  for (const Aval& aval : type.avals) out_avals.push_back(aval.strong());
  Atoms outs;
  for (const Var v : scope.builder.add_eqn(primitive, std::move(params), std::move(inputs),
                                           out_avals, type.effect)) {
    outs.push_back(Atom::var(v));
  }
  return outs;
}

Atoms ProgramReader::missing(Scope& scope, const std::string& name,
                             const std::vector<Aval>& out_avals) {
  missing_.insert(name);
  Atoms outs;
  for (const Aval& aval : out_avals)
    outs.push_back(scope.builder.capture(detail::full_of(aval, 0)));
  return outs;
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
