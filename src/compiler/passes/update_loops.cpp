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
#include <map>
#include <optional>

#include "compiler/passes/numbers.hpp"
#include "compiler/passes/part_updates.hpp"
#include "compiler/passes/passes.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

/// Writes what becomes of a loop.
class UpdateLoop {
 public:
  /// `operands` and results of the scan, and what is taken out of it.
  UpdateLoop(JaxprBuilder& b, const Eqn& scan, const Atoms& operands, const Avals& out_avals,
             const PartUpdates& updates)
      : b_(b),
        scan_(scan),
        p_(scan.params.as<ScanParams>()),
        body_(p_.jaxpr),
        operands_(operands),
        out_avals_(out_avals),
        num_consts_(static_cast<std::size_t>(p_.num_consts)),
        num_carry_(static_cast<std::size_t>(p_.num_carry)),
        updates_(updates) {}

  /// The results of the scan; nothing where the loop stays as it is.
  std::optional<Atoms> run() {
    const auto ahead = computed_ahead();
    if (!ahead) return std::nullopt;
    Atoms results = remaining_loop();
    // What it lists comes last.
    std::size_t next_ahead = 0, next_listed = body_.outs().size();
    for (const auto& [c, u] : updates_.all())
      results[c] = written(u, u.ahead ? (*ahead)[next_ahead++] : results[next_listed++]);
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(body_.outs().size()),
                  results.end());
    return results;
  }

 private:
  using Kind = PartUpdates::Kind;

  std::int64_t rows() const { return p_.length; }
  Atom least(const Counting& c) const { return Atom::literal(Array(updates_.numbers().least(c))); }
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
    const auto [first, step, slack] = *updates_.numbers().one(Atom::var(v));
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
    inputs[1 + k] = least(place.along);
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
      if (updates_.kind(a) == Kind::fixed) at->second = take(outside(a), aval, std::nullopt);
      else if (i < num_consts_ + num_carry_) {
        Shape all = aval.shape;
        all.insert(0, rows());
        at->second = take(reshaped(counted(a.var()), all), aval.strong(), 0);
      } else at->second = take(operands_[i], aval, 0);
      return at->second;
    };
    for (const Eqn& e : body_.eqns()) {
      if (!updates_.is_ahead(e)) continue;
      const Var v = e.outputs[0];
      const Kind kind = updates_.kind(Atom::var(v));
      const Aval& aval = body_.aval(v);
      if (kind == Kind::window) {
        const Place place = *updates_.place_of_window(e);
        known.emplace(v, take(windows(outside(e.inputs[0]), PartUpdates::window(e), place), aval,
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
    for (const auto& [c, u] : updates_.all()) {
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
    inputs[2 + k] = least(u.place.along);
    return add(dynamic_update_slice_p, Params(), std::move(inputs), out_avals_[u.carry]);
  }

  /// The loop without these carries. What it reads of them is as it was before the loop.
  Atoms remaining_loop() {
    JaxprBuilder b;
    ScanParams p = p_;
    Atoms inputs;
    Avals avals;
    std::map<std::size_t, Atom> read;
    for (const auto& [c, u] : updates_.all()) {
      const std::size_t i = num_consts_ + c;
      const auto v = static_cast<Var>(i);
      if (!updates_.is_left(v)) continue;
      inputs.push_back(operands_[i]);
      read.emplace(i, Atom::var(b.add_input(body_.aval(v))));
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
      if (updates_.is_left(e)) renamed.push_eqn(b, e);
      else renamed.push(Atoms(e.outputs.size(), Atom::var(0)));
    }
    Atoms outs;
    for (std::size_t r = 0; r < body_.outs().size(); ++r) {
      if (updates_.contains(r)) continue;
      outs.push_back(renamed(body_.outs()[r]));
      avals.push_back(out_avals_[r]);
    }
    for (const auto& [c, u] : updates_.all()) {
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
  const Avals& out_avals_;
  const std::size_t num_consts_, num_carry_;
  const PartUpdates& updates_;
  std::map<Var, Atom> fixed_;  // what does not change and has been computed outside
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
      const Avals out_avals = renamed.out_avals(e);
      const PartUpdates updates(e, out_avals, std::move(inside));
      const Atoms operands = renamed(e.inputs);
      const auto results = updates.all().empty()
                               ? std::nullopt
                               : UpdateLoop(b, e, operands, out_avals, updates).run();
      if (results) {
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
