// JaxprBuilder: how interpreters and passes write a jaxpr.
//
//   JaxprBuilder b;
//   const Atom x = Atom::var(b.add_input(aval));
//   const Atom c = b.capture(array);                    // a literal, or a variable for the constant
//   const Var y = b.add_eqn1(mul_p, Params(), {x, c}, aval);
//   ClosedJaxpr closed = b.build({Atom::var(y)});
//
// Captured values are found while tracing but come first in a jaxpr, so the variables that a builder
// hands out are provisional; `build` numbers those that are left densely.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "jaxpr/chunked_list.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The variables of captured arrays, by identity: a table with open addressing, since gradients capture an
/// array in every other equation.
class CapturedVars {
 public:
  /// The variable of this node: `next` where it is new.
  Var find_or_add(const ArrayNode* node, Var next);

 private:
  struct Slot {
    const ArrayNode* node = nullptr;
    Var var = 0;
  };
  Slot& slot_of(const ArrayNode* node);  // its own, or the free one that it would get
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::size_t size_ = 0;
};

class TELAMON_API JaxprBuilder {
 public:
  enum class DeadCode : std::uint8_t { remove, keep };

  Var add_input(Aval aval);
  /// The atom of a value that the traced function captured: a literal for a concrete scalar, else a
  /// constant. The same array (by identity) gives the same variable.
  Atom capture(const Array& value);
  /// The same, but never a literal.
  Var add_const(const Array& value);
  /// Adds an equation; gives the variables of its results, until the next one is added. Operands are
  /// provisional atoms.
  const Vars& add_eqn(const PrimitiveBase& primitive, Params params, Atoms inputs,
                      const Avals& out_avals, Effect effect = Effect::none,
                      SourceLocation where = {});
  Var add_eqn1(const PrimitiveBase& primitive, Params params, Atoms inputs, const Aval& out_aval,
               Effect effect = Effect::none, SourceLocation where = {}) {
    return add_eqn(primitive, std::move(params), std::move(inputs), {out_aval}, effect, where)[0];
  }
  /// Appends the equations of `jaxpr` with its inputs replaced by `args`; gives its results.
  Atoms inline_jaxpr(const Jaxpr& jaxpr, Atoms args);

  const Aval& aval(Var v) const { return avals_[static_cast<std::size_t>(v)]; }
  const Aval& aval(const Atom& a) const { return a.is_var() ? aval(a.var()) : a.literal().aval(); }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const ChunkedList<Eqn>& eqns() const { return eqns_; }

  /// The program and its constants, which become its leading inputs in the order of their first use.
  /// Drops equations without effect whose results nobody uses, what of others nobody uses (by their
  /// `dce` rule), and unused constants; inputs stay.
  /// Empties the builder.
  ClosedJaxpr build(Atoms outs, DeadCode dead_code = DeadCode::remove);

 private:
  struct Live;
  Live mark_live(const Atoms& outs, DeadCode dead_code);

  ChunkedList<Aval> avals_;  // of all provisional variables
  Vars inputs_;
  Vars const_vars_;
  Arrays consts_;
  CapturedVars const_of_;
  ChunkedList<Eqn> eqns_;
};

/// A literal's value: concrete, dense and of rank 0.
bool is_literal_value(const Array& value);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
