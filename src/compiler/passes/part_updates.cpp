// Windows of carries that count from trip to trip, and what of the body follows from the number of the trip.
#include "compiler/passes/part_updates.hpp"

#include <algorithm>
#include <utility>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/element.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLeastTrips = 4;
constexpr std::size_t kMostUpdates = 64;      // of one loop: they may all become one kernel
constexpr std::int64_t kMostTwice = 4 << 20;  // bytes that are held beside what they are written to
constexpr int kExpensive = 4;                 // is not computed both in the loop and beside it
constexpr std::int64_t kFewElements = 16;     // that may be computed for an update of one

Atom literal(std::int64_t number) { return Atom::literal(Array(number)); }

// Whether windows do not lie side by side.
bool has_gaps(const Place& place, const Shape& window) {
  return std::abs(place.along.step) != window[*place.axis];
}

void want(std::vector<bool>& needed, const Atom& a) {
  if (a.is_var()) needed[static_cast<std::size_t>(a.var())] = true;
}

}  // namespace

PartUpdates::PartUpdates(const Eqn& scan, Avals out_avals, TripNumbers numbers)
    : p_(scan.params.as<ScanParams>()),
      body_(p_.jaxpr),
      out_avals_(std::move(out_avals)),
      num_consts_(static_cast<std::size_t>(p_.num_consts)),
      num_carry_(static_cast<std::size_t>(p_.num_carry)),
      producer_(detail::producers(body_)),
      uses_(detail::use_counts(body_)),
      numbers_(std::move(numbers)),
      kinds_(static_cast<std::size_t>(body_.num_vars()), Kind::varies) {
  find();
}

void PartUpdates::find() {
  if (p_.length < kLeastTrips) return;
  for (const Eqn& e : body_.eqns()) {
    if (e.primitive == &dynamic_slice_p && e.inputs[0].is_var())
      slices_[e.inputs[0].var()].push_back(&e);
  }
  for (std::size_t c = 0; c < num_carry_; ++c) {
    if (auto update = update_of(c)) updates_.emplace(c, std::move(*update));
  }
  if (updates_.size() > kMostUpdates) updates_.clear();
  if (updates_.empty()) return;
  find_kinds();
  std::erase_if(updates_, [&](const auto& u) { return !begins_at_known(u.second); });
  for (auto& [c, u] : updates_) u.ahead = kind(u.update) != Kind::varies && fits_beside(u);
  leave_to_loop();
  if (is_worth_it()) return;
  for (auto& [c, u] : updates_) u.ahead = false;
  leave_to_loop();
}

const Eqn* PartUpdates::made_by(const Atom& a) const {
  const int e = a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
  return e < 0 ? nullptr : &body_.eqns()[static_cast<std::size_t>(e)];
}

// ---- what is written ---------------------------------------------------------------------------
// Nothing where it does not count along one axis alone, in bounds.
std::optional<Place> PartUpdates::place_of(const Shape& of, const Shape& window,
                                           const Starts& starts) const {
  Place place;
  for (std::size_t d = 0; d < of.size(); ++d) {
    place.starts.push_back(literal(0));
    if (window[d] == of[d]) continue;
    const std::int64_t most = of[d] - window[d];
    const auto& number = starts[d].number;
    if (!number || (number->step == 0 && number->slack != 0)) {
      place.starts[d] = starts[d].atom;
    } else if (number->step == 0) {
      place.starts[d] = literal(std::clamp<std::int64_t>(number->first, 0, most));
    } else {
      if (place.axis || number->slack != 0 || numbers_.least(*number) < 0 ||
          numbers_.most(*number) > most)
        return std::nullopt;
      place.axis = d;
      place.along = *number;
    }
  }
  return place.axis ? std::optional(place) : std::nullopt;
}

// From this operand on they are those of a dynamic slice, or of an update.
PartUpdates::Starts PartUpdates::starts_from(const Eqn& e, std::size_t first) const {
  Starts starts;
  for (std::size_t i = first; i < e.inputs.size(); ++i)
    starts.push_back({numbers_.one(e.inputs[i]), e.inputs[i]});
  return starts;
}

// Of the only window of a scatter. Nothing where it could be outside, where it is not written.
std::optional<PartUpdates::Starts> PartUpdates::starts_of_scatter(const Eqn& e,
                                                                  const Shape& window) const {
  const auto& p = e.params.as<ScatterParams>();
  const Shape& of = body_.aval(e.inputs[0]).shape;
  const auto numbers = numbers_.all(e.inputs[1]);
  if (!numbers || body_.aval(e.inputs[1]).ndim() != 1 || p.wraps) return std::nullopt;
  Starts starts(of.size(), Start{Counting{}, literal(0)});
  const Atoms parts = columns_of(e.inputs[1]);
  for (std::size_t k = 0; k < numbers->size(); ++k) {
    const auto d = static_cast<std::size_t>(p.dimension_numbers.scatter_dims_to_operand_dims[k]);
    const Counting& number = (*numbers)[k];
    if (numbers_.least(number) < 0 || numbers_.most(number) > of[d] - window[d])
      return std::nullopt;
    starts[d].number = number;
    if (k < parts.size()) starts[d].atom = parts[k];
    else if (number.slack != 0) return std::nullopt;
  }
  return starts;
}

// What an index vector is put together of, number by number; nothing where that is not known.
Atoms PartUpdates::columns_of(const Atom& a) const {
  if (body_.aval(a).size() == 1) return {a};
  const Eqn* e = made_by(a);
  if (e == nullptr || e->primitive != &concatenate_p ||
      std::ssize(e->inputs) != body_.aval(a).size())
    return {};
  return e->inputs;
}

std::optional<PartUpdate> PartUpdates::update_of(std::size_t c) const {
  const Atom& out = body_.outs()[c];
  const Eqn* e = made_by(out);
  const Aval& aval = body_.aval(carry_in(c));
  if (e == nullptr || !one_of(*e, {&dynamic_update_slice_p, &scatter_p, &scatter_add_p}) ||
      aval.weak_type || !(e->inputs[0] == Atom::var(carry_in(c))) || !(out_avals_[c] == aval) ||
      uses_[static_cast<std::size_t>(out.var())] != 1)
    return std::nullopt;
  PartUpdate u{.carry = c};
  std::optional<Starts> starts;
  if (e->primitive == &dynamic_update_slice_p) {
    u.update = e->inputs[1];
    u.window = body_.aval(u.update).shape;
    starts = starts_from(*e, 2);
  } else {
    u.update = e->inputs[2];
    u.window = windows_of(e->params.as<ScatterParams>(), aval.shape, body_.aval(u.update).shape)
                   .slice_sizes;
    u.adds = e->primitive == &scatter_add_p;
    starts = starts_of_scatter(*e, u.window);
  }
  const auto place = starts ? place_of(aval.shape, u.window, *starts) : std::nullopt;
  // Sums of 16-bit floats would be calls here, where those are widened already.
  const bool can_add =
      (is_float(aval.dtype) && !detail::is_small_float(aval.dtype)) || is_integer(aval.dtype);
  if (!place || (u.adds && !can_add)) return std::nullopt;
  u.place = *place;
  return !has_gaps(u.place, u.window) && alone_in(u) ? std::optional(u) : std::nullopt;
}

// Whether whatever else reads the carry reads what is about to be written.
bool PartUpdates::alone_in(const PartUpdate& u) const {
  const Atom carry = Atom::var(carry_in(u.carry));
  const auto slices = slices_.find(carry.var());
  if (slices == slices_.end()) return uses_[static_cast<std::size_t>(carry.var())] == 1;
  return uses_[static_cast<std::size_t>(carry.var())] == 1 + std::ssize(slices->second) &&
         std::all_of(slices->second.begin(), slices->second.end(), [&](const Eqn* e) {
           return window(*e) == u.window && place_of_window(*e) == u.place;
         });
}

std::optional<Place> PartUpdates::place_of_window(const Eqn& slice) const {
  return place_of(body_.aval(slice.inputs[0]).shape, window(slice), starts_from(slice, 1));
}

// ---- what can be computed ahead ------------------------------------------------------------------
void PartUpdates::find_kinds() {
  for (Var v = 0; v < body_.num_inputs(); ++v) {
    Kind& kind = kinds_[static_cast<std::size_t>(v)];
    const std::size_t c = carry_of(v);
    if (v < static_cast<Var>(num_consts_)) kind = Kind::fixed;
    else if (c == num_carry_ || counts(v)) kind = Kind::by_trip;
    else if (body_.outs()[c] == Atom::var(v)) kind = Kind::fixed;
  }
  for (const Eqn& e : body_.eqns()) {
    for (const Var v : e.outputs) kinds_[static_cast<std::size_t>(v)] = kind_of(e);
  }
}

bool PartUpdates::counts(Var v) const {
  const auto number = numbers_.one(Atom::var(v));
  return number && number->slack == 0;
}

PartUpdates::Kind PartUpdates::kind_of(const Eqn& e) const {
  if (e.effect != Effect::none) return Kind::varies;
  if (is_window(e)) return Kind::window;
  const auto is = [&](const auto& holds) {
    return std::all_of(e.inputs.begin(), e.inputs.end(),
                       [&](const Atom& a) { return holds(kind(a)); });
  };
  const bool ahead = is_fusible(form_of(body_, e)) && can_be_evaluated(*e.primitive) &&
                     e.outputs.size() == 1 && is([](Kind k) { return k != Kind::varies; });
  if (!ahead) return Kind::varies;
  if (is([](Kind k) { return k == Kind::fixed; })) return Kind::fixed;
  return e.primitive->rules().batch ? Kind::by_trip : Kind::varies;
}

// A row or column of what does not change, or of what is about to be written, or several that lie side by side.
bool PartUpdates::is_window(const Eqn& e) const {
  if (e.primitive != &dynamic_slice_p || !e.inputs[0].is_var()) return false;
  const auto place = place_of_window(e);
  if (!place || (window(e)[*place->axis] != 1 && has_gaps(*place, window(e)))) return false;
  const auto is_fixed = [&](const Atom& a) { return kind(a) == Kind::fixed; };
  return std::all_of(place->starts.begin(), place->starts.end(), is_fixed) &&
         (is_fixed(e.inputs[0]) || updates_.contains(carry_of(e.inputs[0].var())));
}

std::size_t PartUpdates::carry_of(Var v) const {
  const auto c = static_cast<std::size_t>(v) - num_consts_;
  return v < static_cast<Var>(num_consts_) || c >= num_carry_ ? num_carry_ : c;
}

bool PartUpdates::begins_at_known(const PartUpdate& u) const {
  const auto& starts = u.place.starts;
  return std::all_of(starts.begin(), starts.end(),
                     [&](const Atom& a) { return kind(a) == Kind::fixed; });
}

// What covers the array, or is computed of what was there, is written where it comes to lie; else it is held twice.
bool PartUpdates::fits_beside(const PartUpdate& u) const {
  const Aval& of = body_.aval(carry_in(u.carry));
  const std::int64_t all = u.window.num_elements() * rows();
  return all == of.size() || u.adds || slices_.contains(carry_in(u.carry)) ||
         all * static_cast<std::int64_t>(size_of(of.dtype)) <= kMostTwice;
}

// Of what the loop computes: whether it is better listed, row by row, and written after it. Rows that are all of the
// array need nothing more, and leave a loop whose state may stay in registers. Columns are there twice.
bool PartUpdates::is_better_listed(const PartUpdate& u) const {
  constexpr std::int64_t kLine = 64;       // bytes
  constexpr std::int64_t kLeastLines = 8;  // that a trip would meet
  const Aval& of = body_.aval(carry_in(u.carry));
  const std::size_t k = *u.place.axis;
  const auto size = static_cast<std::int64_t>(size_of(of.dtype));
  const std::int64_t all = u.window.num_elements() * rows();
  if (u.adds) return false;
  if (k == 0) return all == of.size();
  std::int64_t before = 1;
  for (std::size_t d = 0; d < k; ++d) before *= u.window[d];
  return before >= kLeastLines && u.window.num_elements() / before * size < kLine &&
         all * size <= kMostTwice;
}

// Updates that are not computed ahead are listed or stay.
void PartUpdates::leave_to_loop() {
  std::erase_if(updates_,
                [&](const auto& u) { return !u.second.ahead && !is_better_listed(u.second); });
  find_needed();
}

// ---- what that takes, and what is left -----------------------------------------------------------
bool PartUpdates::is_needed(const std::vector<bool>& needed, const Eqn& e) {
  return std::any_of(e.outputs.begin(), e.outputs.end(),
                     [&](Var v) { return needed[static_cast<std::size_t>(v)]; });
}

void PartUpdates::find_needed() {
  ahead_.assign(static_cast<std::size_t>(body_.num_vars()), false);
  left_ = ahead_;
  for (const auto& [c, u] : updates_) {
    want(u.ahead ? ahead_ : left_, u.update);
    for (const Atom& a : u.place.starts) want(ahead_, a);
  }
  for (std::size_t r = 0; r < body_.outs().size(); ++r) {
    if (!updates_.contains(r)) want(left_, body_.outs()[r]);
  }
  for (auto e = body_.eqns().rbegin(); e != body_.eqns().rend(); ++e) {
    if (is_needed(ahead_, *e)) {
      // What counts is known.
      const std::optional<Place> place =
          kind(Atom::var(e->outputs[0])) == Kind::window ? place_of_window(*e) : std::nullopt;
      for (const Atom& a : place ? place->starts : e->inputs) want(ahead_, a);
      if (place) want(ahead_, e->inputs[0]);
    }
    if (is_needed(left_, *e) || e->effect != Effect::none) {
      for (const Atom& a : e->inputs) want(left_, a);
    }
  }
}

// Nothing that takes long is computed twice, nor much that is not written.
bool PartUpdates::is_worth_it() const {
  std::int64_t most = kFewElements;
  for (const auto& [c, u] : updates_) most = std::max(most, u.window.num_elements());
  return std::all_of(body_.eqns().begin(), body_.eqns().end(), [&](const Eqn& e) {
    if (!is_needed(ahead_, e)) return true;
    if (is_needed(left_, e) && element_cost(e) >= kExpensive) return false;
    const Var v = e.outputs[0];
    return kinds_[static_cast<std::size_t>(v)] != Kind::by_trip || body_.aval(v).size() <= most;
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
