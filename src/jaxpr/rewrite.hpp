// What passes over jaxprs share.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "jaxpr/builder.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The types of these variables or atoms, of a program or of one that is being written.
template <class Program, class List>
Avals avals_of(const Program& program, const List& list) {
  Avals avals;
  avals.reserve(list.size());
  for (const auto& a : list) avals.push_back(program.aval(a));
  return avals;
}

/// The old program's variables as atoms of the new one. Inputs and results map one by one.
class Renaming {
 public:
  Renaming(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {
    atoms_.reserve(static_cast<std::size_t>(jaxpr.num_vars()));
  }
  /// Variables are set in order of their number.
  void push(Atom atom) { atoms_.push_back(std::move(atom)); }
  void push(const Vars& vars) {
    for (const Var v : vars) push(Atom::var(v));
  }
  void push(const Atoms& atoms) {
    for (const Atom& a : atoms) push(a);
  }
  /// All inputs, as inputs of the new program.
  void push_inputs(JaxprBuilder& b) {
    for (const Aval& aval : jaxpr_.in_avals()) push(Atom::var(b.add_input(aval)));
  }
  /// The results of an equation, which becomes one of the new program.
  void push_eqn(JaxprBuilder& b, const Eqn& eqn) { push_eqn(b, eqn, eqn.params); }
  void push_eqn(JaxprBuilder& b, const Eqn& eqn, Params params) {
    push(b.add_eqn(*eqn.primitive, std::move(params), (*this)(eqn.inputs), out_avals(eqn),
                   eqn.effect, eqn.where));
  }
  Atom operator()(const Atom& a) const {
    return a.is_var() ? atoms_[static_cast<std::size_t>(a.var())] : a;
  }
  Atoms operator()(std::span<const Atom> atoms) const {
    Atoms out;
    out.reserve(atoms.size());
    for (const Atom& a : atoms) out.push_back((*this)(a));
    return out;
  }
  Avals out_avals(const Eqn& eqn) const { return avals_of(jaxpr_, eqn.outputs); }

 private:
  const Jaxpr& jaxpr_;
  Atoms atoms_;
};

/// The parameters with `pass` applied to their jaxprs; the same ones when none of them changes.
inline Params map_jaxprs(const Params& params, const std::function<Jaxpr(const Jaxpr&)>& pass,
                         bool& changed) {
  if (!params.has_jaxprs()) return params;
  std::vector<Jaxpr> jaxprs = params.jaxprs();
  bool any = false;
  for (Jaxpr& jaxpr : jaxprs) {
    Jaxpr mapped = pass(jaxpr);
    any |= !mapped.same_as(jaxpr);
    jaxpr = std::move(mapped);
  }
  changed |= any;
  return any ? params.with_jaxprs(jaxprs) : params;
}

/// The program with `pass` applied to the loops and branches of its equations.
inline Jaxpr map_regions(const Jaxpr& jaxpr, const std::function<Jaxpr(const Jaxpr&)>& pass) {
  bool changed = false;
  std::vector<Eqn> eqns = jaxpr.eqns();
  for (Eqn& e : eqns) e.params = map_jaxprs(e.params, pass, changed);
  return changed ? Jaxpr(jaxpr.num_inputs(), jaxpr.avals(), std::move(eqns), jaxpr.outs()) : jaxpr;
}

/// Whether an equation has programs of its own: loops and branches, most often.
inline bool has_regions(const Jaxpr& jaxpr) {
  return std::any_of(jaxpr.eqns().begin(), jaxpr.eqns().end(),
                     [](const Eqn& e) { return e.params.has_jaxprs(); });
}
/// Whether that holds for the program, or for one of those within it.
template <class Holds> bool any_program(const Jaxpr& jaxpr, const Holds& holds) {
  if (holds(jaxpr)) return true;
  for (const Eqn& e : jaxpr.eqns()) {
    for (const Jaxpr& inside : e.params.jaxprs())
      if (any_program(inside, holds)) return true;
  }
  return false;
}

/// What is left of an equation of whose results only some are used.
struct Remainder {
  bool live = false;  ///< it has an effect or a result that is used
  Params params;
  std::vector<bool> used_in, used_out;
};
/// By the primitive's `dce` rule; without one all operands and results stay. `used` is by variable.
Remainder remainder_of(const Eqn& eqn, const std::vector<bool>& used);

/// The equation that computes each variable; -1 for inputs.
inline std::vector<int> producers(const Jaxpr& jaxpr) {
  std::vector<int> out(static_cast<std::size_t>(jaxpr.num_vars()), -1);
  for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) {
    for (const Var v : jaxpr.eqns()[e].outputs)
      out[static_cast<std::size_t>(v)] = static_cast<int>(e);
  }
  return out;
}

/// How often each variable is an operand or a result of the program.
inline std::vector<int> use_counts(const Jaxpr& jaxpr) {
  std::vector<int> out(static_cast<std::size_t>(jaxpr.num_vars()), 0);
  const auto count = [&](const Atom& a) {
    if (a.is_var()) ++out[static_cast<std::size_t>(a.var())];
  };
  for (const Eqn& eqn : jaxpr.eqns())
    for (const Atom& a : eqn.inputs) count(a);
  for (const Atom& a : jaxpr.outs()) count(a);
  return out;
}

/// The elements that are marked.
template <class List> List select(const List& from, const std::vector<bool>& mask) {
  List out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (mask[i]) out.push_back(from[i]);
  }
  return out;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
