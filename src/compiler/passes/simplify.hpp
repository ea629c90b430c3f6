// Inside the pass `simplify`: the program under construction, and the rules that the table in
// simplify.cpp lists. A rule looks at an equation whose operands are simplified already; it gives the
// atom that takes the place of the result, or nothing.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "jaxpr/builder.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The program under construction, with what is known of its variables.
class Simplifier {
 public:
  Jaxpr run(const Jaxpr& jaxpr);

  const Aval& aval(const Atom& a) const { return builder_.aval(a); }
  /// The equation that defines an atom, if it is of this primitive.
  const Eqn* defined_by(const Atom& a, const PrimitiveBase& p) const;
  /// The equation that defines an atom; null for inputs and literals.
  const Eqn* definition(const Atom& a) const;
  /// Whether nothing but the equation being rewritten reads the atom: then what defines it goes away.
  bool used_once(const Atom& a) const { return !a.is_literal() && used_once_.contains(a.var()); }
  /// Whether the atom is a transpose that none of its readers needs: see transposes_taken_up.
  bool taken_up(const Atom& a) const { return !a.is_literal() && taken_up_.contains(a.var()); }
  /// The scalar that all elements of the atom are.
  const Array* splat(const Atom& a) const;
  /// Whether all elements are this number; -0 is not 0.
  bool is(const Atom& a, double value) const;

  template <class P>
  Atom make(const Primitive<P>& p, const P& params, Atoms inputs, const Aval& out) {
    return make(p, Params::of(params), std::move(inputs), out);
  }
  /// The equation, simplified. Its result is for one reader.
  Atom make(const PrimitiveBase& p, Params params, Atoms inputs, const Aval& out);

 private:
  Vars emit(const PrimitiveBase& p, const Params& params, Atoms inputs, const Avals& avals,
            Effect effect, SourceLocation where);
  std::optional<Atom> rewrite(const Eqn& eqn, const Aval& out);
  std::optional<Atom> fold(const Eqn& eqn, const Aval& out);

  detail::JaxprBuilder builder_;
  std::vector<int> definitions_;  ///< of each variable: its equation, -1 for inputs
  std::set<Var> used_once_, taken_up_;
};

using Rule = std::optional<Atom> (*)(Simplifier&, const Eqn&, const Aval& out);

/// permutation[d] for each of the dimensions.
Shape permuted(const Shape& dims, const Shape& permutation);

// simplify_transposes.cpp
/// For each variable, whether it is a transpose, or computed element by element of such, of which
/// everything that follows can do without the transposition: folds, other transposes, broadcasts.
std::vector<bool> transposes_taken_up(const Jaxpr& jaxpr);
std::optional<Atom> element_of_transposes(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> reduction_of_transpose(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> dot_of_transpose(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> dot_of_broadcasts(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> transpose_of_dot(Simplifier& s, const Eqn& e, const Aval& out);
// simplify_slices.cpp
std::optional<Atom> slice_chain(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> slice_of_splat(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> slice_of_concatenation(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> slice_from_known(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> gather_of_range(Simplifier& s, const Eqn& e, const Aval& out);
// simplify_rolls.cpp
std::optional<Atom> concatenation_of_parts(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> sum_of_pads(Simplifier& s, const Eqn& e, const Aval& out);
// simplify_updates.cpp
std::optional<Atom> select_update(Simplifier& s, const Eqn& e, const Aval& out);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
