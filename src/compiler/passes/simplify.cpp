// Algebraic simplification as a table of rules, and constant folding.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// A scalar computed from literals only is a literal; an array whose elements are all computed from the
// same literals is one of them, spread.
std::optional<Atom> known_number(Simplifier& s, const Eqn& e, const Aval& out) {
  if (e.inputs.empty() || e.params.has_jaxprs() || !can_be_evaluated(*e.primitive))
    return std::nullopt;
  const bool scalar = out.shape.empty();
  if (!scalar && !works_by_element(*e.primitive)) return std::nullopt;
  Arrays x;
  for (const Atom& a : e.inputs) {
    const Array* known = scalar && !a.is_literal() ? nullptr : s.splat(a);
    if (known == nullptr) return std::nullopt;
    x.push_back(*known);
  }
  const auto y = evaluated(*e.primitive, e.params, x);
  if (!y) return std::nullopt;
  const Array number = detail::contiguous(y->at(0));
  if (scalar) return Atom::literal(number);
  if (y->size() != 1 || !number.shape().empty() || number.dtype() != out.dtype) return std::nullopt;
  return s.filled(number, out);
}

/// The rules that may rewrite equations of a primitive, in order.
std::span<const Rule* const> rules_of(const PrimitiveBase* primitive) {
  using Table = std::unordered_map<const PrimitiveBase*, std::vector<const Rule*>>;
  static const auto* table = [] {
    auto* all = new Table{{nullptr, {}}};  // null: those that no rule names
    for (const Rule& rule : rules())
      for (const PrimitiveBase* p : rule.primitives) all->try_emplace(p);
    for (auto& [named, of_named] : *all) {
      for (const Rule& rule : rules()) {
        const auto& of = rule.primitives;
        if (of.empty() || std::find(of.begin(), of.end(), named) != of.end())
          of_named.push_back(&rule);
      }
    }
    return all;
  }();
  const auto found = table->find(primitive);
  return found != table->end() ? found->second : table->at(nullptr);
}

}  // namespace

std::span<const Rule> rules() {
  static const auto* const table = new std::vector<Rule>{
      {"known_number", known_number},
      // numbers
      {"add_zero", add_zero, {&add_p}},
      {"add_plus_zero", add_plus_zero, {&add_p}},
      {"add_negated", add_negated, {&add_p}},
      {"sum_of_pads", sum_of_pads, {&add_p}},
      {"sub_zero", sub_zero, {&sub_p}},
      {"sub_negated", sub_negated, {&sub_p}},
      {"mul_one", mul_one, {&mul_p}},
      {"mul_zero", mul_zero, {&mul_p}},
      {"mul_position", mul_position, {&mul_p}},
      {"by_minus_one", by_minus_one, {&mul_p}},
      {"signs_cancel", signs_cancel, {&mul_p, &div_p}},
      {"sign_unseen", sign_unseen, {&abs_p, &square_p, &integer_pow_p}},
      {"as_it_is", as_it_is, {&abs_p}},
      {"div_constant", div_constant, {&div_p}},
      {"byte_over_number", byte_over_number, {&div_p}},
      {"power_one", power_one, {&integer_pow_p}},
      {"twice", twice, {&neg_p, &not_p}},
      {"identity", identity, {&copy_p, &stop_gradient_p}},
      {"with_itself", with_itself, {&max_p, &min_p, &and_p, &or_p}},
      {"from_itself", from_itself, {&sub_p, &xor_p}},
      {"compared_with_itself", compared_with_itself, {&eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}},
      {"with_zero_bits",
       with_zero_bits,
       {&or_p, &xor_p, &shift_left_p, &shift_right_logical_p, &shift_right_arithmetic_p}},
      {"absorbing_bits", absorbing_bits, {&and_p, &or_p}},
      {"and_ones", and_ones, {&and_p}},
      {"xor_ones", xor_ones, {&xor_p}},
      {"beyond_all", beyond_all, {&max_p, &min_p}},
      {"select_known", select_known, {&select_n_p}},
      {"select_same", select_same, {&select_n_p}},
      {"select_of_not", select_of_not, {&select_n_p}},
      {"select_of_select", select_of_select, {&select_n_p}},
      {"select_truth", select_truth, {&select_n_p}},
      {"select_update", select_update, {&select_n_p}},
      {"scatter_to_slices", scatter_to_slices, {&scatter_add_p}},
      {"scatter_to_windows", scatter_to_windows, {&scatter_p, &scatter_add_p}},
      {"scatter_to_choices", scatter_to_choices, {&scatter_p, &scatter_add_p}},
      {"scatter_at_known", scatter_at_known, {&scatter_p, &scatter_add_p}},
      {"convert_same", convert_same, {&convert_element_type_p}},
      {"convert_chain", convert_chain, {&convert_element_type_p}},
      {"converted_sum", converted_sum, {&convert_element_type_p}},
      {"truth_of_number", truth_of_number, {&eq_p, &ne_p}},
      {"compare_known", compare_known, {&eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}},
      {"beyond_bounds", beyond_bounds, {&max_p, &min_p}},
      {"compare_positions", compare_positions, {&eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p}},
      {"negative_remainder", negative_remainder, {&and_p}},
      {"floored_by_power_of_two", floored_by_power_of_two, {&select_n_p}},
      // shapes
      {"reshape_chain", reshape_chain, {&reshape_p}},
      {"reshape_of_repeated_rows", reshape_of_repeated_rows, {&reshape_p}},
      {"transpose_chain", transpose_chain, {&transpose_p}},
      {"transpose_of_columns", transpose_of_columns, {&transpose_p}},
      {"transpose_of_planes", transpose_of_planes, {&transpose_p}},
      {"order_of_splat", order_of_splat, {&transpose_p, &rev_p}},
      {"transpose_of_dot", transpose_of_dot, {&transpose_p}},
      {"broadcast_chain", broadcast_chain, {&broadcast_in_dim_p}},
      {"rev_chain", rev_chain, {&rev_p}},
      {"pad_nothing", pad_nothing, {&pad_p}},
      {"update_of_all", update_of_all, {&dynamic_update_slice_p}},
      {"iota_of_one", iota_of_one, {&iota_p}},
      {"same_shape", same_shape, {&slice_p}},
      {"slice_chain", slice_chain, {&slice_p}},
      {"slice_of_broadcast", slice_of_broadcast, {&slice_p}},
      {"slice_of_repeats", slice_of_repeats, {&slice_p}},
      {"slice_of_concatenation", slice_of_concatenation, {&slice_p}},
      {"slice_of_element", slice_of_element, {&slice_p}},
      {"slice_of_transpose", slice_of_transpose, {&slice_p}},
      {"slice_of_matrices", slice_of_matrices, {&slice_p}},
      {"slice_from_known", slice_from_known, {&dynamic_slice_p}},
      {"gather_of_slices", gather_of_slices, {&gather_p}},
      {"gather_along_range", gather_along_range, {&gather_p}},
      {"gather_of_windows", gather_of_windows, {&gather_p}},
      {"gather_in_one_row", gather_in_one_row, {&gather_p}},
      {"concatenate_one", concatenate_one, {&concatenate_p}},
      {"concatenation_of_nothing", concatenation_of_nothing, {&concatenate_p}},
      {"concatenation_of_repeats", concatenation_of_repeats, {&concatenate_p}},
      {"concatenation_of_rows", concatenation_of_rows, {&concatenate_p}},
      {"concatenation_of_concatenations", concatenation_of_concatenations, {&concatenate_p}},
      {"concatenation_of_neighbours", concatenation_of_neighbours, {&concatenate_p}},
      {"concatenation_of_parts", concatenation_of_parts, {&concatenate_p}},
      {"sort_of_few", sort_of_few, {&sort_p}},
      // products and folds
      {"dot_of_single_terms", dot_of_single_terms, {&dot_general_p}},
      {"dot_of_transpose", dot_of_transpose, {&dot_general_p}},
      {"dot_of_broadcasts", dot_of_broadcasts, {&dot_general_p}},
      {"dot_of_rows", dot_of_rows, {&dot_general_p}},
      {"dot_of_matrices", dot_of_matrices, {&dot_general_p}},
      {"dot_by_columns", dot_by_columns, {&dot_general_p}},
      {"dot_of_few_columns", dot_of_few_columns, {&dot_general_p}},
      {"fold_of_one",
       fold_of_one,
       {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_prod_p, &reduce_and_p, &reduce_or_p}},
      {"fold_of_stack",
       fold_of_stack,
       {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_prod_p, &reduce_and_p, &reduce_or_p}},
      {"place_in_stack", place_in_stack, {&argmax_p, &argmin_p}},
      {"reduction_of_repeated",
       reduction_of_repeated,
       {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_and_p, &reduce_or_p}},
      {"reduction_of_broadcast",
       reduction_of_broadcast,
       {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_prod_p, &reduce_and_p, &reduce_or_p}},
      {"reduction_of_transpose",
       reduction_of_transpose,
       {&reduce_sum_p, &reduce_max_p, &reduce_min_p, &reduce_prod_p}},
      {"fold_of_truths", fold_of_truths, {&reduce_and_p, &reduce_or_p, &reduce_xor_p}},
      {"element_of_broadcasts", element_of_broadcasts},
      {"element_of_transposes", element_of_transposes},
      {"element_of_matrices", element_of_matrices},
  };
  return *table;
}

bool is_elementwise(const Eqn& e) {
  return e.outputs.size() == 1 && e.effect == Effect::none && works_by_element(*e.primitive);
}

namespace {
/// The branch that is taken each time, if that is known.
const Jaxpr* known_branch(const Eqn& e) {
  if (e.primitive != &cond_p || !e.inputs[0].is_literal()) return nullptr;
  const auto& branches = e.params.as<CondParams>().branches;
  const auto last = static_cast<std::int64_t>(branches.size()) - 1;
  const auto index =
      std::clamp(e.inputs[0].literal().item<double>(), 0., static_cast<double>(last));
  return &branches[static_cast<std::size_t>(index)];
}

bool has_no_trips(const Eqn& e) {
  return e.primitive == &scan_p && e.effect == Effect::none &&
         e.params.as<ScanParams>().length == 0;
}

bool has_arrays_of(DType dtype, const Jaxpr& jaxpr) {
  const std::vector<Eqn>& eqns = jaxpr.eqns();
  return std::any_of(eqns.begin(), eqns.end(), [&](const Eqn& e) {
    return std::any_of(e.outputs.begin(), e.outputs.end(), [&](Var v) {
      return jaxpr.aval(v).dtype == dtype && !jaxpr.aval(v).shape.empty();
    });
  });
}
}  // namespace

Jaxpr Simplifier::run(const Jaxpr& jaxpr) {
  has_f64_ = has_arrays_of(DType::f64, jaxpr);
  Atoms inputs;
  for (const Aval& aval : jaxpr.in_avals()) {
    inputs.push_back(Atom::var(builder_.add_input(aval)));
    definitions_.push_back(-1);
  }
  // What the rules made superfluous is for the next passes: equal equations are merged first.
  return builder_.build(append(jaxpr, inputs), detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

Atoms Simplifier::append(const Jaxpr& jaxpr, const Atoms& inputs) {
  detail::Renaming renamed(jaxpr);
  const std::vector<int> uses = detail::use_counts(jaxpr);
  const std::vector<bool> taken_up = transposes_taken_up(jaxpr), cut = values_cut(jaxpr),
                          folded = rows_folded(jaxpr), passing = values_in_passing(jaxpr),
                          selected = sorts_selected(jaxpr);
  // What took the place of a variable may have been there before, and others may want more of it.
  const auto replace = [&](Var v, const Atom& atom, std::size_t known_before) {
    const auto i = static_cast<std::size_t>(v);
    renamed.push(atom);
    if (atom.is_literal()) return;
    if (uses[i] != 1) used_once_.erase(atom.var());
    if (taken_up[i]) taken_up_.insert(atom.var());
    if (!cut[i]) cut_.erase(atom.var());
    else if (static_cast<std::size_t>(atom.var()) >= known_before) cut_.insert(atom.var());
  };
  for (const Atom& a : inputs) {
    const Var v = static_cast<Var>(&a - inputs.data());
    renamed.push(a);
    if (a.is_var() && uses[static_cast<std::size_t>(v)] != 1) used_once_.erase(a.var());
  }
  for (const Eqn& eqn : jaxpr.eqns()) {
    Eqn e = eqn;
    e.inputs = renamed(eqn.inputs);
    const std::size_t before = definitions_.size();
    const Jaxpr* branch = known_branch(e);
    if (branch != nullptr || has_no_trips(e)) {
      const Atoms results = branch != nullptr
                                ? append(*branch, Atoms(e.inputs.begin() + 1, e.inputs.end()))
                                : before_trips(e, renamed.out_avals(eqn));
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (results[i].is_var()) taken_up_.erase(results[i].var());
        replace(eqn.outputs[i], results[i], before);
      }
      continue;
    }
    if (const auto sorted = sorted_together(e)) {
      for (std::size_t i = 0; i < sorted->size(); ++i)
        replace(eqn.outputs[i], (*sorted)[i], before);
      continue;
    }
    bool changed = false;
    e.params = detail::map_jaxprs(eqn.params, simplify, changed);
    const Avals avals = renamed.out_avals(eqn);
    if (eqn.effect == Effect::none && eqn.outputs.size() == 1) {
      result_taken_up_ = taken_up[static_cast<std::size_t>(eqn.outputs[0])];
      result_folded_ = folded[static_cast<std::size_t>(eqn.outputs[0])];
      result_in_passing_ = passing[static_cast<std::size_t>(eqn.outputs[0])];
      result_selected_ = selected[static_cast<std::size_t>(eqn.outputs[0])];
      const auto atom = rewrite(e, avals[0]);
      result_taken_up_ = result_folded_ = result_in_passing_ = result_selected_ = false;
      if (atom) {
        replace(eqn.outputs[0], *atom, before);
        continue;
      }
    }
    const auto results = emit(*e.primitive, e.params, e.inputs, avals, e.effect, e.where);
    if (results.size() == 1 && uses[static_cast<std::size_t>(eqn.outputs[0])] == 1) {
      used_once_.insert(results[0]);
    }
    if (results.size() == 1 && taken_up[static_cast<std::size_t>(eqn.outputs[0])])
      taken_up_.insert(results[0]);
    if (results.size() == 1 && cut[static_cast<std::size_t>(eqn.outputs[0])])
      cut_.insert(results[0]);
    renamed.push(results);
  }
  return renamed(jaxpr.outs());
}

// Rules are for single results; of several operands that are sorted each has one.
std::optional<Atoms> Simplifier::sorted_together(const Eqn& e) {
  if (e.primitive != &sort_p || e.inputs.size() == 1) return std::nullopt;
  if (left_out_ != nullptr && left_out_->rewrite == sort_of_few) return std::nullopt;
  return sort_of_few_together(*this, e);
}

Atoms Simplifier::before_trips(const Eqn& scan, const Avals& avals) {
  const auto& p = scan.params.as<ScanParams>();
  Atoms results(scan.inputs.begin() + p.num_consts,
                scan.inputs.begin() + p.num_consts + p.num_carry);
  while (results.size() < avals.size()) results.push_back(filled(0, avals[results.size()]));
  return results;
}

const Eqn* Simplifier::definition(const Atom& a) const {
  if (a.is_literal()) return nullptr;
  const int e = definitions_[static_cast<std::size_t>(a.var())];
  return e < 0 ? nullptr : &builder_.eqns()[static_cast<std::size_t>(e)];
}

const Eqn* Simplifier::defined_by(const Atom& a, const PrimitiveBase& p) const {
  const Eqn* eqn = definition(a);
  return eqn != nullptr && eqn->primitive == &p ? eqn : nullptr;
}

const Array* Simplifier::splat(const Atom& a) const {
  if (a.is_literal()) return &a.literal();
  const Eqn* b = defined_by(a, broadcast_in_dim_p);
  return b != nullptr && b->inputs[0].is_literal() ? &b->inputs[0].literal() : nullptr;
}

std::optional<std::int64_t> Simplifier::whole_number(const Atom& a) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Array* x = splat(a);
  if (x == nullptr || !is_integer(x->dtype())) return std::nullopt;
  if (x->dtype() == DType::u64 && x->item<std::uint64_t>() > kMost) return kMost;
  return x->item<std::int64_t>();
}

bool Simplifier::is(const Atom& a, double value) const {
  const Array* s = splat(a);
  if (s == nullptr || is_complex(s->dtype())) return false;
  const double v = s->item<double>();
  return v == value && std::signbit(v) == std::signbit(value);
}

bool Simplifier::is_whole(const Atom& a, std::int64_t value) const {
  const Array* x = splat(a);
  if (x == nullptr || !is_integer(x->dtype())) return false;
  if (x->dtype() == DType::u64) return std::cmp_equal(x->item<std::uint64_t>(), value);
  return x->item<std::int64_t>() == value;
}

Atom Simplifier::filled(const Array& number, const Aval& aval) {
  const Atom literal = literal_of(number, aval.dtype);
  if (aval.shape.empty()) return literal;
  return make(broadcast_in_dim_p, BroadcastInDimParams{aval.shape, {}}, {literal}, aval.strong());
}

Atom Simplifier::make(const PrimitiveBase& p, Params params, Atoms inputs, const Aval& out) {
  // What a rule makes goes through the rules, too. Deeper than this the stack would end, as it would where they go round in
  // circles: what is left is right.
  constexpr int kDeepest = 1000;
  Eqn e{&p, std::move(params), std::move(inputs), {}, Effect::none, {}};
  if (depth_ < kDeepest) {
    ++depth_;
    const auto atom = rewrite(e, out);
    --depth_;
    if (atom) return *atom;
  }
  const Var made = emit(p, e.params, e.inputs, {out}, Effect::none, {})[0];
  used_once_.insert(made);
  return Atom::var(made);
}

Vars Simplifier::emit(const PrimitiveBase& p, const Params& params, Atoms inputs,
                      const Avals& avals, Effect effect, SourceLocation where) {
  const auto vars = builder_.add_eqn(p, params, std::move(inputs), avals, effect, where);
  const int e = static_cast<int>(builder_.eqns().size()) - 1;
  for (const Var v : vars) {
    if (definitions_.size() <= static_cast<std::size_t>(v))
      definitions_.resize(static_cast<std::size_t>(v) + 1, -1);
    definitions_[static_cast<std::size_t>(v)] = e;
  }
  const Eqn& made = builder_.eqns()[static_cast<std::size_t>(e)];
  if (made.primitive == &reshape_p && aval(made.inputs[0]).size() != avals[0].size())
    throw InternalError("a rule of simplify would reshape " + aval(made.inputs[0]).to_string() +
                        " to " + avals[0].to_string());
  if (makes_columns(made)) of_columns_.insert(vars[0]);
  return vars;
}

bool Simplifier::makes_columns(const Eqn& e) const {
  if (e.outputs.size() != 1) return false;
  const Aval& out = builder_.aval(Atom::var(e.outputs[0]));
  if (out.ndim() < 2 || out.shape.back() > kSmallMatrix) return false;
  if (e.primitive == &concatenate_p)
    return weaves(e.params, detail::avals_of(*this, e.inputs), out);
  return is_elementwise(e) && std::any_of(e.inputs.begin(), e.inputs.end(), [&](const Atom& a) {
           return of_columns(a) && aval(a).shape == out.shape;
         });
}

std::optional<Atom> Simplifier::rewrite(const Eqn& eqn, const Aval& out) {
  for (const Rule* const rule : rules_of(eqn.primitive)) {
    if (rule == left_out_) continue;
    auto atom = rule->rewrite(*this, eqn, out);
    // A literal operand may be a scalar where the result is not: then the rule does not fit.
    if (atom && aval(*atom).shape == out.shape && aval(*atom).dtype == out.dtype) return atom;
  }
  return std::nullopt;
}

Jaxpr simplify(const Jaxpr& jaxpr) { return Simplifier().run(jaxpr); }
Jaxpr simplify_without(const Rule& left_out, const Jaxpr& jaxpr) {
  return Simplifier(&left_out).run(jaxpr);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
