// Inside the pass `simplify`: the program under construction, and the rules that the table in
// simplify.cpp lists. A rule looks at an equation whose operands are simplified already; it gives the
// atom that takes the place of the result, or nothing. A new one is a function declared here, a line of the table and
// an example in tests/compiler/simplify_rules_test.cpp, without which a test fails.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "jaxpr/builder.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

class Simplifier;
using RuleFunction = std::optional<Atom>(Simplifier& s, const Eqn& e, const Aval& out);
/// A rule for the equations of these primitives; of all where none is named.
struct Rule {
  std::string_view name;
  RuleFunction* rewrite;
  std::vector<const PrimitiveBase*> primitives = {};
};
/// The table, in the order in which rules are tried.
TELAMON_API std::span<const Rule> rules();
/// For tests: what becomes of a program without one of them.
TELAMON_API Jaxpr simplify_without(const Rule& left_out, const Jaxpr& jaxpr);

/// The program under construction, with what is known of its variables.
class Simplifier {
 public:
  /// `left_out` of the table is not applied.
  explicit Simplifier(const Rule* left_out = nullptr) : left_out_(left_out) {}
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
  /// The same of the result of the equation that is being rewritten, or whether it could be made transposed.
  bool result_taken_up() const { return result_taken_up_; }
  /// Whether rows of the result of that equation are folded later on: see rows_folded.
  bool result_folded() const { return result_folded_; }
  /// Whether it needs no memory: see values_in_passing.
  bool result_in_passing() const { return result_in_passing_; }
  /// Whether few places are all that is wanted of it, a sort: see sorts_selected.
  bool result_selected() const { return result_selected_; }
  /// Whether small slices are all that is wanted of the atom: see values_cut.
  bool cut(const Atom& a) const { return !a.is_literal() && cut_.contains(a.var()); }
  /// Whether the atom is a small array for each row that is put together of columns, or computed of such ones element by
  /// element.
  bool of_columns(const Atom& a) const { return !a.is_literal() && of_columns_.contains(a.var()); }
  /// The equations that there are so far.
  std::size_t num_equations() const { return builder_.eqns().size(); }
  /// Whether the program has arrays of f64.
  bool has_f64() const { return has_f64_; }
  /// The scalar that all elements of the atom are.
  const Array* splat(const Atom& a) const;
  /// The integer that all elements are, or the largest of 64 bits if it is larger, as where an index is read.
  std::optional<std::int64_t> whole_number(const Atom& a) const;
  /// Whether all elements, as doubles, are this number; -0 is not 0.
  bool is(const Atom& a, double value) const;
  /// Whether all elements of an integer array are this one, however large.
  bool is_whole(const Atom& a, std::int64_t value) const;

  template <class P>
  Atom make(const Primitive<P>& p, const P& params, Atoms inputs, const Aval& out) {
    return make(p, Params::of(params), std::move(inputs), out);
  }
  /// The number in the dtype and the shape of `aval`.
  Atom filled(const Array& number, const Aval& aval);
  /// The equation, simplified. Its result is for one reader.
  Atom make(const PrimitiveBase& p, Params params, Atoms inputs, const Aval& out);

 private:
  /// The equations of a program, simplified; its results.
  Atoms append(const Jaxpr& jaxpr, const Atoms& inputs);
  /// What a scan gives that makes no trip.
  Atoms before_trips(const Eqn& scan, const Avals& avals);
  Vars emit(const PrimitiveBase& p, const Params& params, Atoms inputs, const Avals& avals,
            Effect effect, SourceLocation where);
  std::optional<Atom> rewrite(const Eqn& eqn, const Aval& out);
  std::optional<Atoms> sorted_together(const Eqn& sort);
  bool makes_columns(const Eqn& e) const;

  const Rule* left_out_;
  detail::JaxprBuilder builder_;
  std::vector<int> definitions_;  ///< of each variable: its equation, -1 for inputs
  std::set<Var> used_once_, taken_up_, cut_, of_columns_;
  bool has_f64_ = false, result_taken_up_ = false, result_folded_ = false,
       result_in_passing_ = false, result_selected_ = false;
  int depth_ = 0;  ///< of equations that rules make for rules
};

/// Whether the equation works element by element, on one result. Of equations that a rule is asked about, results are not
/// known yet.
bool is_elementwise(const Eqn& e);

// simplify_slices.cpp
/// Whether a slice takes all there is along the first `dimensions` of an array.
bool leaves_dimensions(const Shape& from, const SliceParams& params, std::size_t dimensions);

// simplify_updates.cpp
/// The gather that reads the windows which a scatter writes to; 0 where it drops the update.
GatherParams windows_of(const ScatterParams& p, const Shape& operand, const Shape& updates);

// simplify_places.cpp
/// The dimension along which a gather takes single elements, and all there is along the others, each where it was.
std::optional<std::size_t> gathered_axis(const Aval& of, const Aval& out, const GatherParams& p);

// short_axis_roles.cpp
/// Whether split_short_axes makes sums of columns of a product, unless others make its rows: of many short rows with one
/// small matrix, or vector.
bool multiplies_rows(const Aval& x, const Aval& by, const Aval& out,
                     const DotGeneralParams& params);

// simplify_numbers.cpp
RuleFunction add_zero, add_plus_zero, add_negated, sub_zero, sub_negated, mul_one, mul_zero,
    by_minus_one, signs_cancel, sign_unseen, as_it_is, div_constant, power_one, twice, identity,
    with_itself, from_itself, compared_with_itself, with_zero_bits, absorbing_bits, and_ones,
    xor_ones, beyond_all, select_known, select_same, select_of_not, select_of_select, select_truth,
    convert_same, convert_chain, converted_sum, truth_of_number, compare_positions, mul_position,
    fold_of_truths, compare_known, beyond_bounds;
// simplify_places.cpp
RuleFunction gather_of_slices, scatter_to_slices;
// simplify_windows.cpp
/// Of each variable, whether something folds its last axis, or that of what is computed of it element by element.
std::vector<bool> rows_folded(const Jaxpr& jaxpr);
RuleFunction gather_along_range, gather_of_windows, gather_in_one_row, scatter_to_windows;
// simplify_choices.cpp
/// Of each variable, whether all who read it work element by element, or fold it, and it is no result of the program: it
/// needs no memory of its own. Of programs without scatters nobody asks.
std::vector<bool> values_in_passing(const Jaxpr& jaxpr);
RuleFunction scatter_to_choices;
// simplify_divisions.cpp
RuleFunction negative_remainder, floored_by_power_of_two, byte_over_number;
// simplify_shapes.cpp
RuleFunction same_shape, reshape_chain, reshape_of_repeated_rows, slice_of_repeats,
    concatenation_of_repeats, transpose_chain, transpose_of_columns, broadcast_chain,
    order_of_splat, rev_chain, pad_nothing, update_of_all, iota_of_one, fold_of_one, fold_of_stack,
    place_in_stack, reduction_of_repeated, reduction_of_broadcast, concatenate_one,
    concatenation_of_nothing, element_of_broadcasts;
// simplify_matrices.cpp
RuleFunction concatenation_of_rows, transpose_of_planes, element_of_matrices, slice_of_matrices,
    dot_of_matrices;
// simplify_transposes.cpp
/// For each variable, whether it is a transpose, or computed element by element of such, of which
/// everything that follows can do without the transposition: folds, other transposes, broadcasts.
std::vector<bool> transposes_taken_up(const Jaxpr& jaxpr);
RuleFunction element_of_transposes, reduction_of_transpose, dot_of_single_terms, dot_of_transpose,
    dot_of_broadcasts, dot_by_columns, dot_of_few_columns, dot_of_rows, transpose_of_dot;
// simplify_slices.cpp
/// For each variable, whether all who read it want a few small parts of it, by slices or by what can as well be
/// computed of slices.
std::vector<bool> values_cut(const Jaxpr& jaxpr);
RuleFunction slice_chain, slice_of_broadcast, slice_of_element, slice_of_transpose,
    slice_of_concatenation, slice_from_known, concatenation_of_neighbours,
    concatenation_of_concatenations;
// simplify_rolls.cpp
RuleFunction concatenation_of_parts, sum_of_pads;
// simplify_sorts.cpp
/// For each variable, whether it is the result of a sort of one operand along short lines, of which slices take up to a
/// quarter of the places, and nothing else is read.
std::vector<bool> sorts_selected(const Jaxpr& jaxpr);
/// The results of a sort of short lines by its first operand, of however many; none of another.
std::optional<Atoms> sort_of_few_together(Simplifier& s, const Eqn& e);
RuleFunction sort_of_few;
// simplify_updates.cpp
RuleFunction select_update, scatter_at_known;

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
