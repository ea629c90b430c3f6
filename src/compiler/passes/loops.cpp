// Loops, prepared for the planner: what does not change from trip to trip is computed before them, and
// a batch of loops becomes one loop with one condition.
#include <algorithm>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/regions.hpp"
#include "compiler/passes/sums.hpp"
#include "compiler/plan/cells.hpp"
#include "compiler/plan/turns.hpp"
#include "compiler/plan/updates.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr int kExpensive =
    4;  // cheaper equations are computed again where they are used, but for products

/// A body cut in two.
struct Hoisted {
  Jaxpr before;  ///< the body's constants -> what is worth keeping
  Jaxpr body;    ///< that, then the body's inputs -> its results
};

/// What products of matrices read, from memory.
std::vector<bool> factors(const Jaxpr& body) {
  std::vector<bool> read(static_cast<std::size_t>(body.num_vars()), false);
  for (const Eqn& eqn : body.eqns()) {
    if (eqn.primitive != &dot_general_p) continue;
    for (const Atom& a : eqn.inputs) {
      if (a.is_var()) read[static_cast<std::size_t>(a.var())] = true;
    }
  }
  return read;
}

/// Cuts off what depends on the first `num_consts` inputs alone. `always`: the body runs at least once.
std::optional<Hoisted> hoist(const Jaxpr& body, int num_consts, bool always) {
  std::vector<bool> invariant(static_cast<std::size_t>(body.num_vars()), false);
  std::fill_n(invariant.begin(), num_consts, true);
  const std::vector<bool> is_factor = factors(body);
  Vars kept;
  for (const Eqn& eqn : body.eqns()) {
    const bool fixed = eqn.effect == Effect::none &&
                       std::all_of(eqn.inputs.begin(), eqn.inputs.end(), [&](auto& a) {
                         return a.is_literal() || invariant[static_cast<std::size_t>(a.var())];
                       });
    if (!fixed) continue;
    const Form form = form_of(body, eqn);
    // These may throw or never end, which a loop without a trip must not.
    if (!always && (form == Form::host || form == Form::region)) continue;
    for (const Var v : eqn.outputs) invariant[static_cast<std::size_t>(v)] = true;
    const bool for_product =
        form == Form::element && is_factor[static_cast<std::size_t>(eqn.outputs[0])];
    if (is_barrier(form) || form == Form::reduction || element_cost(eqn) >= kExpensive ||
        for_product)
      kept.insert(kept.end(), eqn.outputs.begin(), eqn.outputs.end());
  }
  if (kept.empty()) return std::nullopt;

  Hoisted out;
  {
    JaxprBuilder b;
    Renaming renamed(body);
    for (int i = 0; i < body.num_inputs(); ++i)
      renamed.push(Atom::var(i < num_consts ? b.add_input(body.aval(i)) : 0));
    for (const Eqn& eqn : body.eqns()) {
      if (!eqn.outputs.empty() && invariant[static_cast<std::size_t>(eqn.outputs[0])]) {
        renamed.push_eqn(b, eqn);
      } else {
        for (std::size_t i = 0; i < eqn.outputs.size(); ++i) renamed.push(Atom::var(0));
      }
    }
    Atoms outs;
    for (const Var v : kept) outs.push_back(renamed(Atom::var(v)));
    out.before = b.build(std::move(outs)).jaxpr;
  }
  JaxprBuilder b;
  Renaming renamed(body);
  Atoms values;
  for (const Var v : kept) values.push_back(Atom::var(b.add_input(body.aval(v))));
  renamed.push_inputs(b);
  std::size_t next = 0;
  for (const Eqn& eqn : body.eqns()) {
    if (next < kept.size() && !eqn.outputs.empty() && kept[next] == eqn.outputs[0]) {
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) renamed.push(values[next++]);
    } else {
      renamed.push_eqn(b, eqn);
    }
  }
  out.body = b.build(renamed(body.outs())).jaxpr;
  return out;
}

class Preparer {
 public:
  explicit Preparer(const LoopOptions& options) : options_(options) {}
  Jaxpr run(const Jaxpr& jaxpr) {
    Renaming renamed(jaxpr);
    renamed.push_inputs(builder_);
    for (const Eqn& eqn : jaxpr.eqns()) {
      Eqn e = eqn;
      bool changed = false;
      e.params = detail::map_jaxprs(
          eqn.params, [&](const Jaxpr& j) { return prepare_loops(j, options_); }, changed);
      e.inputs = renamed(eqn.inputs);
      const Avals avals = renamed.out_avals(eqn);
      if (options_.hoist && (e.primitive == &scan_p || e.primitive == &while_p)) hoist_from(e);
      if (e.primitive == &scan_p && no_loop(e) && !(options_.cells && cellular(e, avals))) {
        renamed.push(trip_by_trip(e));
        continue;
      }
      if (e.primitive == &scan_p && options_.cells && options_.defer_sums) {
        if (const auto atoms = with_deferred_sums(e, avals)) {
          renamed.push(*atoms);
          continue;
        }
      }
      if (e.primitive == &while_p) {
        const bool batch = !e.params.as<WhileParams>().cond_jaxpr.out_avals()[0].shape.empty();
        if (batch && !(options_.cells && cellular(e, avals))) {
          renamed.push(one_condition(e, avals));
          continue;
        }
      }
      renamed.push(builder_.add_eqn(*e.primitive, e.params, e.inputs, avals, e.effect, e.where));
    }
    return builder_.build(renamed(jaxpr.outs())).jaxpr;
  }

 private:
  // Whether the loop, as it now is, will run with its state in registers.
  bool cellular(const Eqn& e, const Avals& avals) const {
    return is_cellular(e, detail::avals_of(builder_, e.inputs), avals);
  }

  // Whether all trips are to be one turn. A loop that overwrites parts of its carry stays one: it does
  // so in place.
  static bool no_loop(const Eqn& e) {
    const auto& p = e.params.as<ScanParams>();
    return p.length > 0 && p.unroll > 1 && trips_of_turn(p) == p.length &&
           carried_updates(p.jaxpr, static_cast<std::size_t>(p.num_consts),
                           static_cast<std::size_t>(p.num_carry), {})
               .chains.empty();
  }
  Atoms trip_by_trip(const Eqn& e) {
    const auto& p = e.params.as<ScanParams>();
    const auto num_carry = static_cast<std::size_t>(p.num_carry);
    const auto carry = e.inputs.begin() + p.num_consts, xs = carry + p.num_carry;
    const std::vector<Aval> avals = p.jaxpr.out_avals();
    Atoms state(carry, xs);
    std::vector<Atoms> ys(avals.size() - num_carry,
                          Atoms(static_cast<std::size_t>(p.length), Atom::var(0)));
    for (std::int64_t trip = 0; trip < p.length; ++trip) {
      const std::int64_t row = p.reverse ? p.length - 1 - trip : trip;
      Atoms args(e.inputs.begin(), carry);
      args.insert(args.end(), state.begin(), state.end());
      for (auto x = xs; x != e.inputs.end(); ++x) args.push_back(row_of(*x, row));
      const Atoms outs = builder_.inline_jaxpr(p.jaxpr, args);
      std::copy_n(outs.begin(), num_carry, state.begin());
      for (std::size_t i = 0; i < ys.size(); ++i)
        ys[i][static_cast<std::size_t>(row)] = as_row(outs[num_carry + i]);
    }
    for (std::size_t i = 0; i < ys.size(); ++i) {
      Aval all = avals[num_carry + i];
      all.shape.insert(0, p.length);
      state.push_back(Atom::var(builder_.add_eqn1(
          concatenate_p, Params::of(ConcatenateParams{.dimension = 0}), ys[i], all.strong())));
    }
    return state;
  }
  Atom row_of(const Atom& x, std::int64_t row) {
    const Aval& all = builder_.aval(x);
    SliceParams p;
    p.start_indices.push_back(row);
    p.limit_indices.push_back(row + 1);
    Shape shape;
    for (std::size_t d = 1; d < all.shape.size(); ++d) {
      p.start_indices.push_back(0);
      p.limit_indices.push_back(all.shape[d]);
      shape.push_back(all.shape[d]);
    }
    Shape one = shape;
    one.insert(0, 1);
    const Aval aval = all;
    const Atom slice =
        Atom::var(builder_.add_eqn1(slice_p, Params::of(std::move(p)), {x}, aval.with_shape(one)));
    return Atom::var(builder_.add_eqn1(reshape_p, Params::of(ReshapeParams{shape}), {slice},
                                       aval.with_shape(shape)));
  }
  Atom as_row(const Atom& x) {
    const Aval aval = builder_.aval(x).strong();
    Shape shape = aval.shape;
    shape.insert(0, 1);
    return Atom::var(builder_.add_eqn1(reshape_p, Params::of(ReshapeParams{shape}), {x},
                                       aval.with_shape(shape)));
  }

  // The same loop with sums over a batch taken after it, if that is what keeps it from being cellular.
  std::optional<Atoms> with_deferred_sums(const Eqn& e, const Avals& avals) {
    if (e.effect != Effect::none || cellular(e, avals)) return std::nullopt;
    auto deferred = defer_sums(e.params.as<ScanParams>());
    if (!deferred) return std::nullopt;
    const auto num_consts = static_cast<std::size_t>(deferred->params.num_consts);
    Eqn wide = e;
    Avals wide_avals = avals;
    for (const int k : deferred->carries) {
      Aval& aval = wide_avals[static_cast<std::size_t>(k)];
      aval.shape.insert(0, deferred->batch);
      aval = aval.strong();
      wide.inputs[num_consts + static_cast<std::size_t>(k)] = filled(builder_, 0, aval);
    }
    wide.params = Params::of(deferred->params);
    if (!cellular(wide, wide_avals)) return std::nullopt;
    const Vars vars =
        builder_.add_eqn(scan_p, wide.params, wide.inputs, wide_avals, wide.effect, wide.where);
    Atoms out;
    for (const Var v : vars) out.push_back(Atom::var(v));
    for (const int k : deferred->carries) {
      const auto i = static_cast<std::size_t>(k);
      const Atom sum = Atom::var(
          builder_.add_eqn1(reduce_sum_p, Params::of(AxesParams{{0}}), {out[i]}, avals[i]));
      const Atom& first = e.inputs[num_consts + static_cast<std::size_t>(k)];
      out[i] = Atom::var(builder_.add_eqn1(add_p, Params(), {first, sum}, avals[i]));
    }
    return out;
  }

  // What does not change is computed here, and is a constant of the loop.
  void hoist_from(Eqn& e) {
    const std::vector<Region> regions = regions_of(e);
    std::vector<Jaxpr> programs = e.params.jaxprs();
    std::vector<Atoms> kept(regions.size());
    for (std::size_t k = regions.size(); k-- > 0;) {
      // A condition is evaluated once at least.
      const bool always = e.primitive == &scan_p ? e.params.as<ScanParams>().length > 0 : k == 0;
      const auto cut = hoist(programs[k], regions[k].num_consts, always);
      if (!cut) continue;
      const auto begin = e.inputs.begin() + static_cast<std::ptrdiff_t>(regions[k].operand);
      kept[k] = builder_.inline_jaxpr(cut->before, Atoms(begin, begin + regions[k].num_consts));
      programs[k] = cut->body;
    }
    e.params = with_constants(e, programs, kept, e.inputs);
  }

  // while any(p): (p, c) = let n = select(p, body(c), c) in (cond(n), n)
  Atoms one_condition(const Eqn& e, const Avals& avals) {
    const auto& p = e.params.as<WhileParams>();
    const auto carry_begin = e.inputs.begin() + p.cond_nconsts + p.body_nconsts;
    Atoms for_cond(e.inputs.begin(), e.inputs.begin() + p.cond_nconsts);
    for_cond.insert(for_cond.end(), carry_begin, e.inputs.end());
    const Atom first = builder_.inline_jaxpr(p.cond_jaxpr, for_cond)[0];
    const Aval lanes = p.cond_jaxpr.out_avals()[0];

    WhileParams out;
    out.body_nconsts = p.cond_nconsts + p.body_nconsts;
    {
      JaxprBuilder b;
      const Atom holds = Atom::var(b.add_input(lanes));
      for (const Aval& aval : avals) b.add_input(aval);
      Shape axes;
      for (int d = 0; d < lanes.ndim(); ++d) axes.push_back(d);
      out.cond_jaxpr = b.build({Atom::var(b.add_eqn1(reduce_or_p, Params::of(AxesParams{axes}),
                                                     {holds}, lanes.with_shape({})))})
                           .jaxpr;
    }
    JaxprBuilder b;
    Atoms cond_args, body_args, old;
    for (int i = 0; i < p.cond_nconsts; ++i)
      cond_args.push_back(Atom::var(b.add_input(p.cond_jaxpr.aval(i))));
    for (int i = 0; i < p.body_nconsts; ++i)
      body_args.push_back(Atom::var(b.add_input(p.body_jaxpr.aval(i))));
    const Atom holds = Atom::var(b.add_input(lanes));
    for (const Aval& aval : avals) old.push_back(Atom::var(b.add_input(aval)));
    body_args.insert(body_args.end(), old.begin(), old.end());
    Atoms next = b.inline_jaxpr(p.body_jaxpr, body_args);
    for (std::size_t i = 0; i < next.size(); ++i) {
      Atom which = holds;
      if (!(avals[i].shape == lanes.shape)) {
        BroadcastInDimParams to;
        to.shape = avals[i].shape;
        for (int d = 0; d < lanes.ndim(); ++d) to.broadcast_dimensions.push_back(d);
        which = Atom::var(b.add_eqn1(broadcast_in_dim_p, Params::of(std::move(to)), {holds},
                                     lanes.with_shape(avals[i].shape)));
      }
      next[i] = Atom::var(b.add_eqn1(select_n_p, Params(), {which, old[i], next[i]}, avals[i]));
    }
    cond_args.insert(cond_args.end(), next.begin(), next.end());
    next.insert(next.begin(), b.inline_jaxpr(p.cond_jaxpr, cond_args)[0]);
    out.body_jaxpr = b.build(next).jaxpr;
    if (options_.simplify) out.body_jaxpr = simplify(out.body_jaxpr);

    Atoms operands(e.inputs.begin(), carry_begin);
    operands.push_back(first);
    operands.insert(operands.end(), carry_begin, e.inputs.end());
    Avals results = avals;
    results.insert(results.begin(), lanes);
    const Vars vars =
        builder_.add_eqn(while_p, Params::of(std::move(out)), operands, results, e.effect, e.where);
    Atoms atoms;
    for (std::size_t i = 1; i < vars.size(); ++i) atoms.push_back(Atom::var(vars[i]));
    return atoms;
  }

  const LoopOptions options_;
  JaxprBuilder builder_;
};

}  // namespace

Jaxpr prepare_loops(const Jaxpr& jaxpr, const LoopOptions& options) {
  return detail::has_regions(jaxpr) ? Preparer(options).run(jaxpr) : jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
