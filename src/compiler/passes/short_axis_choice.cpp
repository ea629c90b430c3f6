// Which sets gain from being taken apart, by what their equations do.
#include "compiler/passes/short_axis_choice.hpp"

#include <algorithm>

#include "compiler/forms.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongestStacked = kSmallMatrix;  // rows that are put together of columns
// Elements of what is computed in between, of rows of more than kShortRow, which become as many equations.
constexpr std::int64_t kLeastOfLongerRows = 1 << 16;
constexpr std::int64_t kLeastGain = 4;  // how many times larger that is than what lies around it
constexpr std::int64_t kLeastMade = 1 << 9;    // of what is put together of columns
constexpr std::int64_t kLeastRows = 1 << 12;   // elements of arrays whose rows are folded
constexpr std::int64_t kLongestFolded = 6;     // rows that nothing else tells apart than a fold
constexpr std::int64_t kLongestF32Folded = 8;  // the same of f32
// Equations: a factor is cut out, a number, repeated, multiplied by and added.
constexpr std::size_t kOfFactor = 5;

/// Whether what is repeated along each row is found sooner by columns: pairs of one number each, which are woven of it, and
/// matrices of three rows and columns, of which vectors hold no whole number. (Else vectors are shuffled for it, or, of pairs
/// of pairs, read twice.)
bool tears_vectors(const Aval& a) {
  constexpr std::int64_t kFewLanes = 8, kFew = 3;
  if (!by_columns(a)) return false;
  const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / size_of(a.dtype));
  const bool in_matrices = a.ndim() > 1 && a.shape[static_cast<std::size_t>(a.ndim()) - 2] <= kFew;
  const std::int64_t row = a.shape.back();
  return in_matrices ? row == kFew && size_of(a.dtype) <= 4 : row == 2 && lanes >= kFewLanes;
}

// Whether a fold alone is faster by columns of whole vectors than row by row. Rows of four bytes or of four 16 bits, which
// lie within pieces of a register, are not where registers have 32 bytes.
bool gains_from_columns(const Aval& rows) {
  const std::int64_t k = rows.shape.back();
  if (k == 4 && size_of(rows.dtype) < 4 && runtime::target_vector_bytes() < 64) return false;
  return k <= (rows.dtype == DType::f32 ? kLongestF32Folded : kLongestFolded);
}

}  // namespace

ShortAxisChoice::ShortAxisChoice(const Jaxpr& jaxpr)
    : jaxpr_(jaxpr),
      producers_(detail::producers(jaxpr)),
      sets_(static_cast<std::size_t>(jaxpr.num_vars())),
      sizes_(static_cast<std::size_t>(jaxpr.num_vars())),
      needed_whole_(static_cast<std::size_t>(jaxpr.num_vars()), false) {
  std::size_t equations = jaxpr.eqns().size();
  for (const Eqn& eqn : jaxpr.eqns()) {
    roles_.push_back(role_of(jaxpr, eqn));
    if (roles_.back() == AxisRole::product) {
      equations += kOfFactor * static_cast<std::size_t>(jaxpr.aval(eqn.inputs[1]).size());
      if (equations > kMostEquations) roles_.back() = AxisRole::none;
    }
    if (roles_.back() != AxisRole::through) continue;
    for (const Atom& a : eqn.inputs) {
      if (a.is_var() && may_be_apart(jaxpr.aval(a))) sets_.join(a.var(), eqn.outputs[0]);
    }
  }
  note_folds_and_needs();
  leave_products();
  weigh();
  for (const Sizes& of : sizes_) chosen_.push_back(is_worth_it(of));
  any_ = std::find(chosen_.begin(), chosen_.end(), true) != chosen_.end();
}

void ShortAxisChoice::note(std::int64_t Sizes::* what, Var v) {
  if (!may_be_apart(jaxpr_.aval(v))) return;
  std::int64_t& most = sizes(v).*what;
  most = std::max(most, jaxpr_.aval(v).size());
}

void ShortAxisChoice::note_folds_and_needs() {
  const auto need = [&](const Atom& a) {
    if (a.is_var()) needed_whole_[static_cast<std::size_t>(a.var())] = true;
  };
  for (const Atom& a : jaxpr_.outs()) need(a);
  for (std::size_t e = 0; e < roles_.size(); ++e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (roles_[e] == AxisRole::none) std::for_each(eqn.inputs.begin(), eqn.inputs.end(), need);
    if (roles_[e] == AxisRole::folded) note_role(eqn, roles_[e]);
    if (roles_[e] == AxisRole::through && form_of(jaxpr_, eqn) == Form::reduction)
      note(&Sizes::folded_across, eqn.inputs[0].var());
  }
}

// Rows that all but fill a register are as good as columns are.
bool ShortAxisChoice::gains_where_looked_up(const Eqn& eqn) const {
  constexpr std::size_t kLeast = 4;  // bytes of what numbers are computed as
  if (!looks_up_short_rows(jaxpr_, eqn)) return false;
  const Aval& out = jaxpr_.aval(eqn.outputs[0]);
  const auto row =
      std::max(size_of(out.dtype), kLeast) * static_cast<std::size_t>(out.shape.back());
  const std::size_t bytes = runtime::target_vector_bytes();
  return may_be_apart(out) && row < bytes - bytes / 8;
}

// What equations make whole, and what they read so, but for inputs, which lie in memory in any case, in whatever shape. So do
// rows that are looked up, for whoever takes their columns, unless others need the rows, or more is folded along other axes.
void ShortAxisChoice::note_whole(std::size_t e) {
  const Eqn& eqn = jaxpr_.eqns()[e];
  const auto is_input = [&](const Atom& a) { return a.is_var() && a.var() < jaxpr_.num_inputs(); };
  const bool reshapes = eqn.primitive == &reshape_p;
  for (const Var v : eqn.outputs) {
    if (gains_where_looked_up(eqn) && !needed_whole_[static_cast<std::size_t>(v)] &&
        sizes(v).folded_across <= sizes(v).folded)
      continue;
    note(reshapes && is_input(eqn.inputs[0]) ? &Sizes::seen_whole : &Sizes::made_whole, v);
  }
  for (const Atom& a : eqn.inputs) {
    if (a.is_var() && !is_input(a)) note(reshapes ? &Sizes::reshaped : &Sizes::read_whole, a.var());
  }
}

// Products of what others make stay products, as do those of matrices whose products are needed as a whole, by
// products of batches most often. So it goes on from one to the next, forwards and backwards.
void ShortAxisChoice::leave_products() {
  std::vector<std::size_t> products;
  for (std::size_t e = 0; e < roles_.size(); ++e) {
    if (roles_[e] == AxisRole::none) note_whole(e);
    if (roles_[e] == AxisRole::product) products.push_back(e);
  }
  for (bool any = true; any; std::reverse(products.begin(), products.end())) {
    any = false;
    for (const std::size_t e : products) {
      if (roles_[e] != AxisRole::product || !stays(jaxpr_.eqns()[e])) continue;
      roles_[e] = AxisRole::none;
      note_whole(e);
      any = true;
    }
  }
}

bool ShortAxisChoice::stays(const Eqn& product) {
  const Var x = product.inputs[0].var();
  const bool of_matrices = jaxpr_.aval(x).ndim() > 2;
  const Sizes &rows = sizes(x), &out = sizes(product.outputs[0]);
  return rows.made_whole > 0 || rows.seen_whole > 0 ||
         (of_matrices && (out.read_whole > 0 || out.reshaped > 0));
}

// Whether one axis is not as good as both.
bool ShortAxisChoice::tells_rows_apart(std::size_t e) const {
  const Eqn& eqn = jaxpr_.eqns()[e];
  if (roles_[e] == AxisRole::none || roles_[e] == AxisRole::folded || eqn.primitive == &reshape_p)
    return false;
  if (roles_[e] == AxisRole::spread) return jaxpr_.aval(eqn.inputs[0]).size() > 1;
  return roles_[e] != AxisRole::through ||
         !(form_of(jaxpr_, eqn) == Form::element || leaves_last_axis(jaxpr_, eqn));
}

// Whether a fold of the last axis is one of the axis before, too: it asks for no rows then (merge_axes.cpp), and
// for what is taken apart only where others do.
bool ShortAxisChoice::folds_before_last(const Eqn& eqn) const {
  const Shape& shape = jaxpr_.aval(eqn.inputs[0]).shape;
  auto d = static_cast<std::int64_t>(shape.size()) - 2;
  while (d >= 0 && shape[static_cast<std::size_t>(d)] == 1) --d;
  return reduction_axes(eqn).contains(d);
}

// Whether what an equation folds gains from columns, which may be converted from bytes: rows of eight of these, or four, are taken apart in
// registers of 16 (codegen_columns.cpp).
bool ShortAxisChoice::folds_by_columns(const Atom& a) const {
  const int e = producers_[static_cast<std::size_t>(a.var())];
  const auto* made = e < 0 ? nullptr : &jaxpr_.eqns()[static_cast<std::size_t>(e)];
  const bool converts = made != nullptr && made->primitive == &convert_element_type_p;
  const Aval& rows = jaxpr_.aval(converts && made->inputs[0].is_var() ? made->inputs[0] : a);
  const std::int64_t k = rows.shape.back();
  const bool gains = k == kShortRow || (k == 4 && runtime::target_vector_bytes() >= 32);
  return (gains && size_of(rows.dtype) == 1) || gains_from_columns(jaxpr_.aval(a));
}

void ShortAxisChoice::weigh() {
  const auto note_atom = [&](std::int64_t Sizes::* what, const Atom& a) {
    if (a.is_var()) note(what, a.var());
  };
  for (Var v = 0; v < jaxpr_.num_inputs(); ++v) note(&Sizes::around, v);
  for (const Atom& a : jaxpr_.outs()) note_atom(&Sizes::around, a);
  for (std::size_t e = 0; e < roles_.size(); ++e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (roles_[e] == AxisRole::none) {
      for (const Atom& a : eqn.inputs) {
        note_atom(&Sizes::around, a);
        if (form_of(jaxpr_, eqn) == Form::reduction) note_atom(&Sizes::folded_whole, a);
      }
      for (const Var v : eqn.outputs) note(&Sizes::around, v);
      continue;
    }
    const Var out = eqn.outputs[0];
    note(&Sizes::between, out);
    if (may_be_apart(jaxpr_.aval(out))) ++sizes(out).equations;
    if (tells_rows_apart(e)) note(&Sizes::told, out);
    if (roles_[e] != AxisRole::folded) note_role(eqn, roles_[e]);
  }
  for (Var v = 0; v < jaxpr_.num_vars(); ++v) {
    if (may_be_apart(jaxpr_.aval(v))) sizes(v).longest = jaxpr_.aval(v).shape.back();
  }
}

void ShortAxisChoice::note_role(const Eqn& eqn, AxisRole role) {
  const Var out = eqn.outputs[0];
  switch (role) {
    case AxisRole::spread:
      if (jaxpr_.aval(eqn.inputs[0]).size() == 1) return;
      note(&Sizes::spread, out);
      if (tears_vectors(jaxpr_.aval(out))) note(&Sizes::torn, out);
      return;
    case AxisRole::folded: {
      const Atom& x = eqn.inputs[0];
      const bool both = folds_before_last(eqn);
      note(both ? &Sizes::folded_both : &Sizes::folded, x.var());
      if (!both && folds_by_columns(x)) note(&Sizes::alone, x.var());
      return;
    }
    case AxisRole::product: note(&Sizes::made, eqn.inputs[0].var()); [[fallthrough]];
    case AxisRole::planes:
    case AxisRole::joined:
    case AxisRole::padded: return note(&Sizes::made, out);
    case AxisRole::through:
    case AxisRole::turned:
    case AxisRole::none:
    case AxisRole::part:
    case AxisRole::counted:
    case AxisRole::column: return;
  }
}

bool ShortAxisChoice::is_worth_it(const Sizes& of) {
  const bool larger = of.between >= kLeastGain * of.around;
  const std::int64_t made_or_read = std::max(of.made_whole, of.read_whole);
  const std::int64_t whole = std::max(made_or_read, of.seen_whole);
  // Rows that are folded and whose results their elements need, all in one pass: lanes run over rows.
  const std::int64_t folded = of.told > 0 ? std::max(of.folded, of.folded_both) : of.folded;
  const bool rows = kLeastGain * whole <= folded && folded >= kLeastRows &&
                    (of.spread >= kLeastRows || of.longest <= kLongestFolded);
  const bool folds = kLeastGain * made_or_read <= of.alone && of.alone >= kLeastRows;
  const bool repeated = kLeastGain * whole <= of.torn && of.torn >= kLeastRows;
  const bool is_beyond_rows = of.longest > kLongestRow;
  const bool few = of.equations * of.longest <= static_cast<std::int64_t>(kMostEquations);
  const bool stacked = of.made >= kLeastMade && few && of.longest <= kLongestStacked &&
                       !(is_beyond_rows && std::max({of.folded_whole, folded, of.folded_both}) > 0);
  const bool large = of.between >= (of.longest > kShortRow ? kLeastOfLongerRows : kLeastSize);
  return stacked || folds ||
         (large && ((larger && (few || of.longest <= kShortRow)) ||
                    (!is_beyond_rows && (rows || repeated))));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
