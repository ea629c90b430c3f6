// Loops of which each trip writes another part of an array that they carry, and none asks what others wrote there:
//
//   m = scan[length=n](j, m -> dynamic_update_slice m f(j) (0, j))
//   ->  m = dynamic_update_slice m (transpose (f of 0, 1, ..., n - 1)) (0, 0)
//
// What all trips write is computed at once, and written once. As columns, one after the other, it is written element by
// element, and each line of memory is met again and again; all of them are squares that are turned in registers. As rows
// it is one kernel, whose lanes and threads do not end where a trip does.
//
// A trip may read what it is about to write, which no other trip has written: as in sums, and in derivatives.
//
// Only what is computed element by element, or moved, is taken out of a loop: the results have the same bits, and no more
// memory is needed than for what is written. What hangs together from trip to trip stays there, but it is listed, row by row,
// and columns are written after the loop:
//
//   c, m = scan(j, c, m -> f(c), dynamic_update_slice m c (0, j))
//   ->  c, rows = scan(c -> f(c), c), m = dynamic_update_slice m (transpose rows) (0, 0)
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/passes/trip_numbers.hpp"
#include "core/element.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr std::int64_t kLeastTrips = 4;
constexpr std::size_t kMostUpdates = 64;      // of one loop: they may all become one kernel
constexpr std::int64_t kMostTwice = 4 << 20;  // bytes that are held beside what they are written to
constexpr int kExpensive = 4;                 // is not computed both in the loop and beside it
constexpr std::int64_t kFewElements = 16;     // that may be computed for an update of one

/// Where along each axis a window begins: a literal, what does not change from trip to trip, or, along one axis, what counts.
struct Place {
  Atoms starts;
  std::optional<std::size_t> axis = {};
  Counting along = {};
  bool operator==(const Place& o) const {
    return starts == o.starts && axis == o.axis && along == o.along;
  }
};

/// What a trip writes over a carry.
struct PartUpdate {
  std::size_t carry;  ///< counted from the first
  Atom update = Atom::var(0);
  Shape window = {};
  Place place = {};
  bool adds = false;   ///< to what is there
  bool ahead = false;  ///< computed for all trips at once; else the loop lists what trips write
};

class UpdateLoop {
 public:
  /// `operands` of the scan, what is known of the numbers of its body, and where to write what becomes of it.
  UpdateLoop(JaxprBuilder& b, const Eqn& scan, const Atoms& operands, Avals out_avals,
             TripNumbers numbers)
      : b_(b),
        scan_(scan),
        p_(scan.params.as<ScanParams>()),
        body_(p_.jaxpr),
        operands_(operands),
        out_avals_(std::move(out_avals)),
        num_consts_(static_cast<std::size_t>(p_.num_consts)),
        num_carry_(static_cast<std::size_t>(p_.num_carry)),
        producer_(detail::producers(body_)),
        uses_(detail::use_counts(body_)),
        numbers_(std::move(numbers)),
        kinds_(static_cast<std::size_t>(body_.num_vars()), Kind::varies) {}

  /// The results of the scan; nothing where the loop stays as it is.
  std::optional<Atoms> run() {
    if (p_.length < kLeastTrips) return std::nullopt;
    for (const Eqn& e : body_.eqns()) {
      if (e.primitive == &dynamic_slice_p && e.inputs[0].is_var())
        slices_[e.inputs[0].var()].push_back(&e);
    }
    for (std::size_t c = 0; c < num_carry_; ++c) {
      if (auto update = update_of(c)) updates_.emplace(c, std::move(*update));
    }
    if (updates_.empty() || updates_.size() > kMostUpdates) return std::nullopt;
    find_kinds();
    std::erase_if(updates_, [&](const auto& u) { return !begins_at_known(u.second); });
    for (auto& [c, u] : updates_) u.ahead = kind(u.update) != Kind::varies && fits_beside(u);
    leave_to_loop();
    if (!is_worth_it()) {
      for (auto& [c, u] : updates_) u.ahead = false;
      leave_to_loop();
    }
    if (updates_.empty()) return std::nullopt;
    return rewritten();
  }

 private:
  enum class Kind : std::uint8_t {
    varies,   // with what trips before have made
    by_trip,  // follows from the number of the trip, and from rows that the loop reads
    window,   // a part of what does not change, which counts: rows, too
    fixed     // the same in all trips
  };
  Kind kind(const Atom& a) const {
    return a.is_literal() ? Kind::fixed : kinds_[static_cast<std::size_t>(a.var())];
  }
  const Eqn* made_by(const Atom& a) const {
    const int e = a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
    return e < 0 ? nullptr : &body_.eqns()[static_cast<std::size_t>(e)];
  }
  Var carry_in(std::size_t c) const { return static_cast<Var>(num_consts_ + c); }
  std::int64_t rows() const { return p_.length; }

  // ---- what is written ---------------------------------------------------------------------------
  /// Where a window begins along an axis: what counts, or what else the program says.
  struct Start {
    std::optional<Counting> number;
    Atom atom;
  };
  using Starts = std::vector<Start>;
  static Atom literal(std::int64_t number) { return Atom::literal(Array(number)); }

  // Nothing where it does not count along one axis alone, in bounds.
  std::optional<Place> place_of(const Shape& of, const Shape& window, const Starts& starts) const {
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
  /// From this operand on they are those of a dynamic slice, or of an update.
  Starts starts_from(const Eqn& e, std::size_t first) const {
    Starts starts;
    for (std::size_t i = first; i < e.inputs.size(); ++i)
      starts.push_back({numbers_.one(e.inputs[i]), e.inputs[i]});
    return starts;
  }
  /// Of the only window of a scatter. Nothing where it could be outside, where it is not written.
  std::optional<Starts> starts_of_scatter(const Eqn& e, const Shape& window) const {
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
  Atoms columns_of(const Atom& a) const {
    if (body_.aval(a).size() == 1) return {a};
    const Eqn* e = made_by(a);
    if (e == nullptr || e->primitive != &concatenate_p ||
        std::ssize(e->inputs) != body_.aval(a).size())
      return {};
    return e->inputs;
  }

  std::optional<PartUpdate> update_of(std::size_t c) const {
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
  // Whether windows do not lie side by side.
  static bool has_gaps(const Place& place, const Shape& window) {
    return std::abs(place.along.step) != window[*place.axis];
  }
  // Whether whatever else reads the carry reads what is about to be written.
  bool alone_in(const PartUpdate& u) const {
    const Atom carry = Atom::var(carry_in(u.carry));
    const auto slices = slices_.find(carry.var());
    if (slices == slices_.end()) return uses_[static_cast<std::size_t>(carry.var())] == 1;
    return uses_[static_cast<std::size_t>(carry.var())] == 1 + std::ssize(slices->second) &&
           std::all_of(slices->second.begin(), slices->second.end(), [&](const Eqn* e) {
             return window(*e) == u.window && place_of_window(*e) == u.place;
           });
  }
  static const Shape& window(const Eqn& slice) {
    return slice.params.as<DynamicSliceParams>().slice_sizes;
  }
  std::optional<Place> place_of_window(const Eqn& slice) const {
    return place_of(body_.aval(slice.inputs[0]).shape, window(slice), starts_from(slice, 1));
  }

  // ---- what can be computed ahead ------------------------------------------------------------------
  void find_kinds() {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      Kind& kind = kinds_[i];
      const std::size_t c = i - num_consts_;
      const bool carried = i >= num_consts_ && c < num_carry_;
      if (i < num_consts_) kind = Kind::fixed;
      else if (!carried || counts(static_cast<Var>(i))) kind = Kind::by_trip;
      else if (body_.outs()[c] == Atom::var(static_cast<Var>(i))) kind = Kind::fixed;
    }
    for (const Eqn& e : body_.eqns()) {
      for (const Var v : e.outputs) kinds_[static_cast<std::size_t>(v)] = kind_of(e);
    }
  }
  bool counts(Var v) const {
    const auto number = numbers_.one(Atom::var(v));
    return number && number->slack == 0;
  }
  Kind kind_of(const Eqn& e) const {
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
  /// A row or column of what does not change, or of what is about to be written, or several that lie side by side.
  bool is_window(const Eqn& e) const {
    if (e.primitive != &dynamic_slice_p || !e.inputs[0].is_var()) return false;
    const auto place = place_of_window(e);
    if (!place || (window(e)[*place->axis] != 1 && has_gaps(*place, window(e)))) return false;
    const auto is_fixed = [&](const Atom& a) { return kind(a) == Kind::fixed; };
    return std::all_of(place->starts.begin(), place->starts.end(), is_fixed) &&
           (is_fixed(e.inputs[0]) || updates_.contains(carry_of(e.inputs[0].var())));
  }
  std::size_t carry_of(Var v) const {
    const auto c = static_cast<std::size_t>(v) - num_consts_;
    return v < static_cast<Var>(num_consts_) || c >= num_carry_ ? num_carry_ : c;
  }
  bool begins_at_known(const PartUpdate& u) const {
    const auto& starts = u.place.starts;
    return std::all_of(starts.begin(), starts.end(),
                       [&](const Atom& a) { return kind(a) == Kind::fixed; });
  }
  // What covers the array, or is computed of what was there, is written where it comes to lie; else it is held twice.
  bool fits_beside(const PartUpdate& u) const {
    const Aval& of = body_.aval(carry_in(u.carry));
    const std::int64_t all = u.window.num_elements() * rows();
    return all == of.size() || u.adds || slices_.contains(carry_in(u.carry)) ||
           all * static_cast<std::int64_t>(size_of(of.dtype)) <= kMostTwice;
  }
  // Of what the loop computes: whether it is better listed, row by row, and written after it. Rows that are all of the
  // array need nothing more, and leave a loop whose state may stay in registers. Columns are there twice.
  bool is_better_listed(const PartUpdate& u) const {
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
  void leave_to_loop() {
    std::erase_if(updates_,
                  [&](const auto& u) { return !u.second.ahead && !is_better_listed(u.second); });
    find_needed();
  }

  // ---- what that takes, and what is left -----------------------------------------------------------
  static void want(std::vector<bool>& needed, const Atom& a) {
    if (a.is_var()) needed[static_cast<std::size_t>(a.var())] = true;
  }
  bool is_needed(const std::vector<bool>& needed, const Eqn& e) const {
    return std::any_of(e.outputs.begin(), e.outputs.end(),
                       [&](Var v) { return needed[static_cast<std::size_t>(v)]; });
  }
  void find_needed() {
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
  bool is_worth_it() const {
    std::int64_t most = kFewElements;
    for (const auto& [c, u] : updates_) most = std::max(most, u.window.num_elements());
    return std::all_of(body_.eqns().begin(), body_.eqns().end(), [&](const Eqn& e) {
      if (!is_needed(ahead_, e)) return true;
      if (is_needed(left_, e) && element_cost(e) >= kExpensive) return false;
      const Var v = e.outputs[0];
      return kinds_[static_cast<std::size_t>(v)] != Kind::by_trip || body_.aval(v).size() <= most;
    });
  }

  // ---- the new program -----------------------------------------------------------------------------
  std::optional<Atoms> rewritten() {
    const auto ahead = computed_ahead();
    if (!ahead) return std::nullopt;
    Atoms results = remaining_loop();
    // What it lists comes last.
    std::size_t next_ahead = 0, next_listed = body_.outs().size();
    for (const auto& [c, u] : updates_)
      results[c] = written(u, u.ahead ? (*ahead)[next_ahead++] : results[next_listed++]);
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(body_.outs().size()),
                  results.end());
    return results;
  }

  Atom add(const PrimitiveBase& p, Params params, Atoms inputs, const Aval& out) {
    return Atom::var(
        b_.add_eqn1(p, std::move(params), std::move(inputs), out, Effect::none, scan_.where));
  }
  Atom reshaped(const Atom& x, const Shape& shape) {
    const Aval aval = b_.aval(x).with_shape(shape);
    return aval == b_.aval(x) ? x : add(reshape_p, Params::of(ReshapeParams{shape}), {x}, aval);
  }
  // Windows that come from the last to the first, turned around.
  Atom in_order(const Atom& x, std::int64_t step, std::size_t axis) {
    if (step > 0) return x;
    const Aval aval = b_.aval(x);
    const DimensionsParams p{{static_cast<std::int64_t>(axis)}};
    return add(rev_p, Params::of(p), {x}, aval);
  }

  /// What an atom that is the same in all trips is outside of the loop.
  Atom outside(const Atom& a) const {
    if (a.is_literal()) return a;
    const auto found = fixed_.find(a.var());
    return found != fixed_.end() ? found->second : operands_[static_cast<std::size_t>(a.var())];
  }
  // All rows of a number that counts.
  Atom counted(Var v) {
    const auto [first, step, slack] = *numbers_.one(Atom::var(v));
    const Aval aval = body_.aval(v).with_shape({rows()}).strong();
    const Atom from = filled(b_, Array(first), aval);
    Atom x = add(iota_p, Params::of(IotaParams{aval.dtype, aval.shape, 0}), {}, aval);
    if (std::abs(step) != 1)
      x = add(mul_p, Params(), {x, filled(b_, Array(std::abs(step)), aval)}, aval);
    return add(step < 0 ? sub_p : add_p, Params(), {from, x}, aval);
  }
  // All windows of an array, along the axis.
  Atom windows(const Atom& x, const Shape& window, const Place& place) {
    const std::size_t k = *place.axis;
    const std::int64_t step = std::abs(place.along.step);
    Shape part = window;
    part[k] += step * (rows() - 1);
    Atoms inputs{x};
    for (const Atom& a : place.starts) inputs.push_back(reshaped(outside(a), {}));
    inputs[1 + k] = literal(numbers_.least(place.along));
    const Aval aval = b_.aval(x);
    Atom cut = add(dynamic_slice_p, Params::of(DynamicSliceParams{part}), std::move(inputs),
                   aval.with_shape(part));
    if (step != window[k]) {
      SliceParams every{Shape(part.size(), 0), part, Shape(part.size(), 1)};
      every.strides[k] = step;
      part[k] = rows();
      cut = add(slice_p, Params::of(every), {cut}, aval.with_shape(part));
    }
    part[k] = rows();
    part.insert(k + 1, window[k]);
    return in_order(reshaped(cut, part), place.along.step, k);
  }

  /// What each trip writes, of all trips, for each update that is computed ahead: rows of one array.
  std::optional<Atoms> computed_ahead() {
    JaxprBuilder inside;
    Atoms args;
    std::vector<BatchAxis> axes;
    std::map<Var, Atom> known;
    const auto take = [&](const Atom& from, const Aval& aval, BatchAxis axis) {
      args.push_back(from);
      axes.push_back(axis);
      return Atom::var(inside.add_input(aval));
    };
    const auto atom = [&](const Atom& a) -> Atom {
      if (a.is_literal()) return a;
      const auto [at, is_new] = known.try_emplace(a.var(), a);
      if (!is_new) return at->second;
      const auto i = static_cast<std::size_t>(a.var());
      const Aval& aval = body_.aval(a);
      if (kind(a) == Kind::fixed) at->second = take(outside(a), aval, std::nullopt);
      else if (i < num_consts_ + num_carry_) {
        Shape all = aval.shape;
        all.insert(0, rows());
        at->second = take(reshaped(counted(a.var()), all), aval.strong(), 0);
      } else at->second = take(operands_[i], aval, 0);
      return at->second;
    };
    for (const Eqn& e : body_.eqns()) {
      if (!is_needed(ahead_, e)) continue;
      const Var v = e.outputs[0];
      const Kind kind = kinds_[static_cast<std::size_t>(v)];
      const Aval& aval = body_.aval(v);
      if (kind == Kind::window) {
        const Place place = *place_of_window(e);
        known.emplace(v, take(windows(outside(e.inputs[0]), window(e), place), aval,
                              static_cast<int>(*place.axis)));
        continue;
      }
      Atoms inputs;
      for (const Atom& a : e.inputs) inputs.push_back(kind == Kind::fixed ? outside(a) : atom(a));
      JaxprBuilder& to = kind == Kind::fixed ? b_ : inside;
      const Atom made = Atom::var(
          to.add_eqn1(*e.primitive, e.params, std::move(inputs), aval, Effect::none, e.where));
      (kind == Kind::fixed ? fixed_ : known).emplace(v, made);
    }
    Atoms outs;
    for (const auto& [c, u] : updates_) {
      if (!u.ahead) continue;
      outs.push_back(atom(u.update));
      if (!u.adds) continue;
      const Aval aval = inside.aval(outs.back()).strong();
      const Atom before = take(windows(operands_[num_consts_ + c], u.window, u.place),
                               aval.with_shape(u.window), static_cast<int>(*u.place.axis));
      const Atom shaped = Atom::var(
          inside.add_eqn1(reshape_p, Params::of(ReshapeParams{aval.shape}), {before}, aval));
      outs.back() = Atom::var(inside.add_eqn1(add_p, Params(), {shaped, outs.back()}, aval));
    }
    if (outs.empty()) return outs;
    const std::vector<bool> all(outs.size(), true);
    const Jaxpr one = inside.build(std::move(outs)).jaxpr;
    const auto batched = detail::batch_jaxpr(one, {rows(), {}}, axes, all);
    const ClosedJaxpr lowered = lower(batched->jaxpr);
    if (!lowered.consts.empty()) return std::nullopt;
    return b_.inline_jaxpr(lowered.jaxpr, std::move(args));
  }

  /// The carry with all windows written over it, of which there is one in each row of x.
  Atom written(const PartUpdate& u, Atom x) {
    const std::size_t k = *u.place.axis;
    const Aval aval = b_.aval(x);
    // Axes of one element would stand in the way of squares that are turned.
    const bool single = u.window[k] == 1;
    Shape turned = u.window;
    if (single) turned[k] = rows();
    else turned.insert(k, rows());
    Shape by_rows = turned;
    by_rows.erase(k);
    by_rows.insert(0, rows());
    x = in_order(reshaped(x, by_rows), u.place.along.step, 0);
    if (k > 0) {
      TransposeParams turn;
      for (std::size_t d = 1; d < turned.size(); ++d)
        turn.permutation.push_back(static_cast<std::int64_t>(d));
      turn.permutation.insert(k, 0);
      x = add(transpose_p, Params::of(turn), {x}, aval.with_shape(turned));
    }
    Shape side_by_side = u.window;
    side_by_side[k] *= rows();
    Atoms inputs{operands_[num_consts_ + u.carry], reshaped(x, side_by_side)};
    for (const Atom& a : u.place.starts) inputs.push_back(reshaped(outside(a), {}));
    inputs[2 + k] = literal(numbers_.least(u.place.along));
    return add(dynamic_update_slice_p, Params(), std::move(inputs), out_avals_[u.carry]);
  }

  /// The loop without these carries. What it reads of them is as it was before the loop.
  Atoms remaining_loop() {
    JaxprBuilder b;
    ScanParams p = p_;
    Atoms inputs;
    Avals avals;
    std::map<std::size_t, Atom> read;
    for (const auto& [c, u] : updates_) {
      const std::size_t i = num_consts_ + c;
      if (!left_[i]) continue;
      inputs.push_back(operands_[i]);
      read.emplace(i, Atom::var(b.add_input(body_.aval(carry_in(c)))));
      ++p.num_consts;
    }
    const auto gone = [&](std::size_t i) {
      return i >= num_consts_ && updates_.contains(i - num_consts_);
    };
    Renaming renamed(body_);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (gone(i)) {
        renamed.push(read.contains(i) ? read.at(i) : Atom::var(0));
        --p.num_carry;
        continue;
      }
      inputs.push_back(operands_[i]);
      renamed.push(Atom::var(b.add_input(body_.aval(static_cast<Var>(i)))));
    }
    for (const Eqn& e : body_.eqns()) {
      if (is_needed(left_, e) || e.effect != Effect::none) renamed.push_eqn(b, e);
      else renamed.push(Atoms(e.outputs.size(), Atom::var(0)));
    }
    Atoms outs;
    for (std::size_t r = 0; r < body_.outs().size(); ++r) {
      if (updates_.contains(r)) continue;
      outs.push_back(renamed(body_.outs()[r]));
      avals.push_back(out_avals_[r]);
    }
    for (const auto& [c, u] : updates_) {
      if (u.ahead) continue;
      outs.push_back(renamed(u.update));
      Aval listed = body_.aval(u.update);
      listed.shape.insert(0, rows());
      avals.push_back(listed);
    }
    p.jaxpr = b.build(std::move(outs)).jaxpr;
    Atoms results;
    const Vars made = b_.add_eqn(scan_p, Params::of(std::move(p)), std::move(inputs), avals,
                                 scan_.effect, scan_.where);
    std::size_t next = 0;
    for (std::size_t r = 0; r < body_.outs().size(); ++r)
      results.push_back(Atom::var(updates_.contains(r) ? 0 : made[next++]));
    while (next < made.size()) results.push_back(Atom::var(made[next++]));
    return results;
  }

  JaxprBuilder& b_;
  const Eqn& scan_;
  const ScanParams& p_;
  const Jaxpr& body_;
  const Atoms& operands_;
  const Avals out_avals_;
  const std::size_t num_consts_, num_carry_;
  const std::vector<int> producer_, uses_;         // of variables of the body
  std::map<Var, std::vector<const Eqn*>> slices_;  // of a variable of the body
  TripNumbers numbers_;
  std::vector<Kind> kinds_;                    // of variables
  std::map<std::size_t, PartUpdate> updates_;  // by carry
  std::vector<bool> ahead_, left_;  // of variables: needed for the updates, and for all else
  std::map<Var, Atom> fixed_;       // what does not change and has been computed outside
};

/// The program with the loops in it rewritten, of whose numbers this is known, from the inmost on.
Jaxpr rewrite_loops(const Jaxpr& jaxpr, TripNumbers numbers) {
  if (!detail::has_regions(jaxpr)) return jaxpr;
  numbers.look_at_all();
  JaxprBuilder b;
  Renaming renamed(jaxpr);
  renamed.push_inputs(b);
  bool changed = false;
  for (Eqn e : jaxpr.eqns()) {
    const bool is_loop = e.primitive == &scan_p;
    e.params = detail::map_jaxprs(
        e.params,
        [&](const Jaxpr& body) {
          return rewrite_loops(body, is_loop ? numbers.of_body(e) : TripNumbers(body, 1));
        },
        changed);
    if (is_loop) {
      TripNumbers inside = numbers.of_body(e);
      inside.look_at_all();
      const Atoms operands = renamed(e.inputs);
      if (const auto results =
              UpdateLoop(b, e, operands, renamed.out_avals(e), std::move(inside)).run()) {
        changed = true;
        renamed.push(*results);
        continue;
      }
    }
    renamed.push_eqn(b, e);
  }
  return changed ? b.build(renamed(jaxpr.outs())).jaxpr : jaxpr;
}

}  // namespace

Jaxpr write_at_once(const Jaxpr& jaxpr) { return rewrite_loops(jaxpr, TripNumbers(jaxpr, 1)); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
