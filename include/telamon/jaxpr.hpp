// The jaxpr: a typed, functional, first-order program in A-normal form, immutable and shared.
//
//   { lambda a:f64[] .
//     let b:f64[] = sin a
//         c:f64[] = mul b 2.0
//     in ( c ) }
//
// Vars are numbered densely in order of appearance: first the inputs, then the results of each
// equation. So an environment is a vector, and two jaxprs that differ only in names are equal
// field by field. A jaxpr is closed: what a traced function captured became its leading inputs
// (`ClosedJaxpr::consts`).
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/detail/inline_vector.hpp"
#include "telamon/params.hpp"

namespace telamon {
inline namespace v1 {

class PrimitiveBase;
class Jaxpr;

/// What an equation does besides computing its results. DCE keeps effects, CSE never merges them,
/// ordered ones never move past each other.
enum class Effect : std::uint8_t { none, unordered, ordered };
inline Effect join(Effect a, Effect b) { return a < b ? b : a; }

using Var = int;  ///< a variable: its number in its jaxpr

/// An operand of an equation: a variable or a scalar literal.
class Atom {
 public:
  static Atom var(Var v) { return Atom(v, {}); }
  static Atom literal(Array scalar) { return Atom(-1, std::move(scalar)); }
  bool is_var() const { return var_ >= 0; }
  bool is_literal() const { return var_ < 0; }
  Var var() const { return var_; }
  const Array& literal() const { return literal_; }
  /// Same variable, or literals of equal aval and equal bits.
  TELAMON_API bool operator==(const Atom& o) const;
  TELAMON_API std::size_t hash() const;

 private:
  Atom(Var v, Array literal) : var_(v), literal_(std::move(literal)) {}
  Var var_;
  Array literal_;
};

/// The operands and the results of an equation; most have one or two, which lie in the equation itself.
using Atoms = detail::InlineVector<Atom, 2>;
using Vars = detail::InlineVector<Var, 2>;

/// One application of a primitive: outputs = primitive[params] inputs.
struct Eqn {
  const PrimitiveBase* primitive;
  Params params;
  Atoms inputs;
  Vars outputs;
  Effect effect = Effect::none;
  SourceLocation where;
};

namespace detail {
struct JaxprNode;
}

/// A handle to an immutable program. Copying is cheap; `same_as` is identity.
class TELAMON_API Jaxpr {
 public:
  Jaxpr();  ///< the empty program: no inputs, no results
  /// `avals[v]` is the aval of variable v; inputs are the variables 0..num_inputs-1 and the
  /// equations' outputs follow in order. Checked in debug builds.
  Jaxpr(int num_inputs, std::vector<Aval> avals, std::vector<Eqn> eqns, Atoms outs);

  int num_inputs() const;
  int num_vars() const;
  int num_outputs() const { return static_cast<int>(outs().size()); }
  const std::vector<Aval>& avals() const;  ///< of every variable
  const std::vector<Eqn>& eqns() const;
  const Atoms& outs() const;
  const Aval& aval(Var v) const { return avals()[static_cast<std::size_t>(v)]; }
  const Aval& aval(const Atom& a) const { return a.is_var() ? aval(a.var()) : a.literal().aval(); }
  std::span<const Aval> in_avals() const {
    return {avals().data(), static_cast<std::size_t>(num_inputs())};
  }
  std::vector<Aval> out_avals() const;
  Effect effect() const;  ///< the join of the equations' effects

  bool same_as(const Jaxpr& o) const { return node_ == o.node_; }
  /// The same program as an object of its own, with memos of its own: what a memo of this one may keep.
  Jaxpr detached() const;
  /// Identity, then equality up to names (params and literals included; locations are not).
  bool operator==(const Jaxpr& o) const;
  std::size_t hash() const;       ///< structural, cached
  std::string to_string() const;  ///< the text of the header comment

  /// Derived programs and executables are memos owned by the source jaxpr, the ones used last. `key`
  /// names the derivation with all its arguments. Whoever computes first publishes, and none is
  /// replaced. The result must not refer back to this jaxpr by handle (a cycle never dies).
  template <class T, class Compute>
  std::shared_ptr<const T> memo(std::string_view key, Compute&& compute) const {
    if (auto found = memo_find(key, typeid(T))) return std::static_pointer_cast<const T>(found);
    return std::static_pointer_cast<const T>(
        memo_publish(key, typeid(T), std::make_shared<const T>(std::forward<Compute>(compute)())));
  }
  std::shared_ptr<const void> memo_find(std::string_view key, std::type_index type) const;
  std::shared_ptr<const void> memo_publish(std::string_view key, std::type_index type,
                                           std::shared_ptr<const void> value) const;

 private:
  explicit Jaxpr(std::shared_ptr<const detail::JaxprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const detail::JaxprNode> node_;
};

/// A jaxpr with the values of its leading inputs (what the traced function captured).
struct ClosedJaxpr {
  Jaxpr jaxpr;
  Arrays consts;
  int num_consts() const { return static_cast<int>(consts.size()); }
  std::string to_string() const { return jaxpr.to_string(); }
};

TELAMON_API std::ostream& operator<<(std::ostream& os, const Jaxpr& jaxpr);
TELAMON_API std::ostream& operator<<(std::ostream& os, const ClosedJaxpr& jaxpr);

/// Reads the text that `to_string` writes. ParseError with line and column; TypeError, with the equation, for operands that a
/// primitive does not take, as their number, and for results that it does not give.
TELAMON_API Jaxpr parse_jaxpr(std::string_view text,
                              SourceLocation where = SourceLocation::current());

/// Applies the program to arrays or tracers, binding one primitive after the other.
TELAMON_API Arrays eval_jaxpr(const Jaxpr& jaxpr, std::span<const Array> args,
                              SourceLocation where = SourceLocation::current());

/// "(f64[], f64[]) -> (f64[])"
struct JaxprType {
  std::vector<Aval> in, out;
  TELAMON_API std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const JaxprType& type);
/// Checks binding and types of every equation against the primitives' abstract_eval rules.
/// TypeError "variable 'b' is unbound", "Value for variable 'b' inconsistently typed as f32[] for
/// let-binder of type i32[]" with the offending equation, ...
TELAMON_API JaxprType typecheck_jaxpr(const Jaxpr& jaxpr,
                                      SourceLocation where = SourceLocation::current());

/// Removes equations without effect whose results nobody uses.
TELAMON_API Jaxpr eliminate_dead_code(const Jaxpr& jaxpr);
/// Keeps the results marked in `used_out` and the inputs they need, and says which. ValueError: not one mark for each.
struct DceJaxpr {
  Jaxpr jaxpr;
  std::vector<bool> used_in;
};
TELAMON_API DceJaxpr dce_jaxpr(const Jaxpr& jaxpr, const std::vector<bool>& used_out);
/// Merges equations that compute the same value; effects are never merged.
TELAMON_API Jaxpr eliminate_common_subexpressions(const Jaxpr& jaxpr);
/// Replaces every jit equation by its body.
TELAMON_API Jaxpr inline_calls(const Jaxpr& jaxpr);
/// Replaces leading inputs by literals or reorders, drops and repeats inputs: `map[i]` is the atom
/// that input i becomes, over `num_inputs` new inputs of the given avals.
TELAMON_API Jaxpr substitute_inputs(const Jaxpr& jaxpr, const std::vector<Aval>& new_inputs,
                                    const Atoms& map);
/// The number of equations, nested jaxprs included, of the named primitive ("" counts all).
TELAMON_API int count_eqns(const Jaxpr& jaxpr, std::string_view primitive = "");

}  // namespace v1
}  // namespace telamon
