// Partial evaluation: what is known is computed now, what is not is recorded for later. Values that
// the recorded part needs of the known part are its residuals.
//
// At trace time a known tracer is just its value, at a lower level; unknown ones are variables of
// the jaxpr under construction. partial_eval_jaxpr splits a program in the same way.
#include <algorithm>
#include <map>

#include "core/check.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

class PartialEvalTracer final : public Tracer {
 public:
  PartialEvalTracer(std::shared_ptr<MainTrace> main, Array known)
      : Tracer(std::move(main), known.aval()), known_(std::move(known)), atom_(Atom::var(0)) {}
  PartialEvalTracer(std::shared_ptr<MainTrace> main, Aval aval, Atom atom)
      : Tracer(std::move(main), std::move(aval)), atom_(std::move(atom)) {}
  bool is_known() const { return known_.has_value(); }
  const Array& known() const { return known_; }
  const Atom& atom() const { return atom_; }
  Array full_lower(const Array& self) const override {
    return is_known() ? detail::full_lower(known_) : self;
  }
  std::optional<Array> known_value() const override {
    return is_known() ? detail::known_value(known_) : std::nullopt;
  }

 private:
  Array known_;
  Atom atom_;
};

// The equation alone in a jaxpr, as rules for higher-order primitives want to see it.
Jaxpr jaxpr_of_equation(const PrimitiveBase& primitive, const Params& params,
                        std::vector<Aval> in_avals, const AbstractResult& result) {
  const int n = static_cast<int>(in_avals.size());
  Eqn eqn{&primitive, params, {}, {}, result.effect, current_call_site()};
  std::vector<Atom> outs;
  for (int i = 0; i < n; ++i) eqn.inputs.push_back(Atom::var(i));
  for (std::size_t i = 0; i < result.avals.size(); ++i) {
    eqn.outputs.push_back(n + static_cast<int>(i));
    outs.push_back(Atom::var(eqn.outputs.back()));
  }
  in_avals.insert(in_avals.end(), result.avals.begin(), result.avals.end());
  return Jaxpr(n, std::move(in_avals), {std::move(eqn)}, std::move(outs));
}

class PartialEvalTrace final : public Trace {
 public:
  explicit PartialEvalTrace(std::string name) : name_(std::move(name)) {}
  std::string describe() const override { return name_; }
  JaxprBuilder& builder() { return builder_; }

  Array add_input(const Aval& aval) { return unknown(aval, Atom::var(builder_.add_input(aval))); }
  Array pure(const Array& x) override { return Array(new PartialEvalTracer(main_ptr(), x)); }
  Array lift(const Array& x) override { return pure(x); }

  /// The variable (or literal) that stands for a tracer in the jaxpr; a known value becomes a const.
  Atom instantiate(const Array& x) {
    const auto& t = tracer_cast<PartialEvalTracer>(x);
    return t.is_known() ? builder_.capture(detail::full_lower(t.known())) : t.atom();
  }

  Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                           std::span<const Array> tracers) override {
    const auto is_known = [](const Array& x) {
      return tracer_cast<PartialEvalTracer>(x).is_known();
    };
    if (std::all_of(tracers.begin(), tracers.end(), is_known)) {
      Arrays values;
      for (const Array& x : tracers) values.push_back(tracer_cast<PartialEvalTracer>(x).known());
      return primitive.bind_erased(params, values);
    }
    if (const auto closed = close_call(primitive, params, tracers)) {
      return process_primitive(primitive, closed->params,
                               closed_operands(main(), closed->consts, tracers));
    }
    if (std::any_of(tracers.begin(), tracers.end(), is_known)) {
      if (auto outs = process_split(primitive, params, tracers)) return std::move(*outs);
    }
    std::vector<Atom> inputs;
    std::vector<Aval> avals;
    for (const Array& x : tracers) {
      inputs.push_back(instantiate(x));
      avals.push_back(x.aval());
    }
    const AbstractResult result = abstract_eval(primitive, params, avals);
    return record(primitive, params, std::move(inputs), result);
  }

 private:
  Array unknown(const Aval& aval, Atom atom) {
    return Array(new PartialEvalTracer(main_ptr(), aval, std::move(atom)));
  }

  Arrays record(const PrimitiveBase& primitive, const Params& params, std::vector<Atom> inputs,
                const AbstractResult& result) {
    const std::vector<Var> outputs = builder_.add_eqn(
        primitive, params, std::move(inputs), result.avals, result.effect, current_call_site());
    Arrays outs;
    outs.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outs.push_back(unknown(result.avals[i], Atom::var(outputs[i])));
    return outs;
  }

  Arrays record(const Jaxpr& program, std::vector<Atom> inputs) {
    const std::vector<Atom> results = builder_.inline_jaxpr(program, std::move(inputs));
    Arrays outs;
    outs.reserve(results.size());
    for (const Atom& a : results) outs.push_back(unknown(builder_.aval(a), a));
    return outs;
  }

  // Lets a rule of the primitive split the equation: its known half is bound below, at once.
  std::optional<Arrays> process_split(const PrimitiveBase& primitive, const Params& params,
                                      std::span<const Array> tracers) {
    const RuleTable& rules = primitive.rules();
    if (!rules.partial_eval && !rules.partial_eval_values) return std::nullopt;
    std::vector<bool> unknown_in;
    std::vector<std::optional<Array>> values;
    std::vector<Aval> avals;
    Arrays known_in;
    for (const Array& x : tracers) {
      const auto& t = tracer_cast<PartialEvalTracer>(x);
      unknown_in.push_back(!t.is_known());
      values.push_back(t.is_known() ? std::optional(t.known()) : std::nullopt);
      avals.push_back(x.aval());
      if (t.is_known()) known_in.push_back(t.known());
    }
    std::optional<PartialEvalResult> split;
    if (rules.partial_eval_values) split = rules.partial_eval_values(params, values);
    if (!split) {
      if (!rules.partial_eval) return std::nullopt;
      const AbstractResult result = abstract_eval(primitive, params, avals);
      const Jaxpr around = jaxpr_of_equation(primitive, params, avals, result);
      split = rules.partial_eval(params, around, around.eqns()[0], unknown_in,
                                 std::vector<bool>(result.avals.size(), false), {});
    }
    const auto num_known_out = static_cast<std::size_t>(
        std::count(split->unknown_out.begin(), split->unknown_out.end(), false));
    const Arrays known_out = split->known_values    ? *split->known_values
                             : split->known_program ? eval_jaxpr(*split->known_program, known_in)
                                                    : primitive.bind_erased(split->known, known_in);

    std::vector<Atom> inputs;
    std::vector<Aval> staged_avals;
    for (const Residual& r : split->residuals) {
      const auto i = static_cast<std::size_t>(r.index);
      const Array& value = r.kind == Residual::Kind::input    ? known_in[i]
                           : r.kind == Residual::Kind::output ? known_out[i]
                                                              : known_out[num_known_out + i];
      inputs.push_back(builder_.capture(detail::full_lower(value)));
      staged_avals.push_back(value.aval());
    }
    for (std::size_t i = 0; i < tracers.size(); ++i) {
      if (!unknown_in[i]) continue;
      inputs.push_back(tracer_cast<PartialEvalTracer>(tracers[i]).atom());
      staged_avals.push_back(avals[i]);
    }
    Arrays unknown_out;
    if (split->staged_program) {
      unknown_out = record(*split->staged_program, std::move(inputs));
    } else {
      const AbstractResult staged = abstract_eval(primitive, split->staged, staged_avals);
      if (!staged.avals.empty() || staged.effect != Effect::none)
        unknown_out = record(primitive, split->staged, std::move(inputs), staged);
    }
    Arrays outs;
    std::size_t k = 0, u = 0;
    for (const bool is_unknown : split->unknown_out)
      outs.push_back(is_unknown ? unknown_out[u++] : known_out[k++]);
    return outs;
  }

  std::string name_;
  JaxprBuilder builder_;
};

struct PartialEvaluated {
  std::vector<std::optional<Array>> known_out;  // nullopt: result of the jaxpr, in order
  Jaxpr jaxpr;
  Arrays consts;
};
struct PartialInput {
  Array known;  // empty when unknown
  Aval aval;
};

// f applied to known arrays and unknown avals: known results, and a jaxpr (consts, then unknown
// inputs) -> unknown results, and those known ones that `instantiate_out` asks for.
PartialEvaluated partial_eval(const FlatFunction& f, std::span<const PartialInput> inputs,
                              std::string name,
                              const std::function<bool(std::size_t)>& instantiate_out) {
  const NewMain scope(std::make_unique<PartialEvalTrace>(std::move(name)));
  auto& trace = scope.trace<PartialEvalTrace>();
  Arrays args;
  args.reserve(inputs.size());
  for (const PartialInput& in : inputs)
    args.push_back(in.known.has_value() ? in.known : trace.add_input(in.aval));
  PartialEvaluated result;
  std::vector<Atom> outs;
  const Arrays results = f(args);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Array raised = full_raise(*scope.main(), results[i]);
    const auto& t = tracer_cast<PartialEvalTracer>(raised);
    if (t.is_known() && !instantiate_out(i)) {
      result.known_out.emplace_back(t.known());
    } else {
      result.known_out.emplace_back(std::nullopt);
      outs.push_back(trace.instantiate(raised));
    }
  }
  ClosedJaxpr closed = trace.builder().build(std::move(outs));
  result.jaxpr = std::move(closed.jaxpr);
  result.consts = std::move(closed.consts);
  return result;
}

}  // namespace

Linearized linearize_flat(const FlatFunction& f, std::span<const Array> primals, std::string name) {
  std::vector<PartialInput> inputs;
  for (const Array& x : primals) inputs.push_back({x, x.aval()});
  for (const Array& x : primals) {
    if (is_inexact(x.dtype())) inputs.push_back({{}, x.aval().tangent()});
  }
  Linearized result;
  const std::size_t n = primals.size();
  std::size_t num_out = 0;
  PartialEvaluated split = partial_eval(
      [&](std::span<const Array> args) {
        std::vector<Tangent> tangents;
        std::size_t next = n;
        for (std::size_t i = 0; i < n; ++i) {
          if (is_inexact(args[i].dtype())) tangents.emplace_back(args[next++]);
          else tangents.emplace_back(Zero{args[i].aval().tangent()});
        }
        JvpResult out = jvp_flat(f, args.first(n), tangents);
        num_out = out.primals.size();
        Arrays outs = std::move(out.primals);
        for (const Tangent& t : out.tangents) {
          result.nonzero_out.push_back(!t.is_zero());
          if (!t.is_zero()) outs.push_back(t.array());
        }
        return outs;
      },
      inputs, std::move(name), [&](std::size_t i) { return i >= num_out; });
  for (std::size_t i = 0; i < num_out; ++i) {
    if (!split.known_out[i]) {
      throw TypeError(
          "a result of a linearized function depends on its tangents: the rule of a custom_jvp "
          "function must compute its results from the primals alone");
    }
    result.primals_out.push_back(*split.known_out[i]);
  }
  result.jaxpr = std::move(split.jaxpr);
  result.consts = std::move(split.consts);
  return result;
}

namespace {

// Splits the equations of one jaxpr. Variables of the source keep their numbers in `known` and
// `staged` while the two programs are collected; JaxprBuilder renumbers them.
class Splitter {
 public:
  Splitter(const Jaxpr& jaxpr, const std::vector<bool>& unknown_in, const Policy& policy,
           bool effects_wait = false)
      : jaxpr_(jaxpr),
        policy_(policy),
        effects_wait_(effects_wait),
        unknown_(static_cast<std::size_t>(jaxpr.num_vars()), false) {
    for (std::size_t i = 0; i < unknown_in.size(); ++i) unknown_[i] = unknown_in[i];
    avals_ = jaxpr.avals();
    atoms_.reserve(avals_.size());
    for (Var v = 0; v < jaxpr.num_vars(); ++v) atoms_.push_back(Atom::var(v));
  }

  PartialEvalJaxpr split(const std::vector<bool>& instantiate_out) {
    for (const Eqn& eqn : jaxpr_.eqns()) split_equation(eqn);
    PartialEvalJaxpr result;
    std::vector<Atom> known_outs, staged_outs;
    for (std::size_t i = 0; i < jaxpr_.outs().size(); ++i) {
      const Atom out = renamed(jaxpr_.outs()[i]);
      const bool unknown = is_unknown(out) || instantiate_out[i];
      result.unknown_out.push_back(unknown);
      (unknown ? staged_outs : known_outs).push_back(out);
    }
    keep_live(staged_, staged_outs);
    recompute(staged_outs);
    find_residuals(staged_outs, known_outs, result);
    result.known = build_known(known_outs, result);
    result.staged = build_staged(staged_outs);
    return result;
  }

 private:
  bool is_unknown(const Atom& a) const {
    return a.is_var() && unknown_[static_cast<std::size_t>(a.var())];
  }
  Var fresh(const Aval& aval, bool unknown) {
    avals_.push_back(aval);
    unknown_.push_back(unknown);
    return static_cast<Var>(avals_.size()) - 1;
  }

  // A result of an inlined program may be any atom.
  Atom renamed(const Atom& a) const {
    return a.is_var() ? atoms_[static_cast<std::size_t>(a.var())] : a;
  }
  Eqn renamed(Eqn eqn) const {
    for (Atom& a : eqn.inputs) a = renamed(a);
    return eqn;
  }

  // Appends the equations of a program; gives its results.
  std::vector<Atom> inline_program(const Jaxpr& program, std::vector<Atom> env, bool unknown,
                                   std::vector<Eqn>& into) {
    const auto read = [&env](const Atom& a) {
      return a.is_var() ? env[static_cast<std::size_t>(a.var())] : a;
    };
    for (const Eqn& source : program.eqns()) {
      Eqn eqn = source;
      for (Atom& a : eqn.inputs) a = read(a);
      for (Var& v : eqn.outputs) {
        v = fresh(program.aval(v), unknown);
        env.push_back(Atom::var(v));
      }
      into.push_back(std::move(eqn));
    }
    std::vector<Atom> outs;
    for (const Atom& a : program.outs()) outs.push_back(read(a));
    return outs;
  }

  void split_equation(const Eqn& source) {
    const Eqn eqn = renamed(source);
    const auto unknown_input = [&](const Atom& a) { return is_unknown(a); };
    const bool any = std::any_of(eqn.inputs.begin(), eqn.inputs.end(), unknown_input);
    const bool all = std::all_of(eqn.inputs.begin(), eqn.inputs.end(), unknown_input);
    const bool waits = effects_wait_ && eqn.effect != Effect::none;
    if (!any && !waits) {
      known_.push_back(eqn);
    } else if (!all && !waits && eqn.primitive->rules().partial_eval) {
      split_call(source, eqn);
    } else {
      for (const Var v : eqn.outputs) unknown_[static_cast<std::size_t>(v)] = true;
      staged_.push_back(eqn);
    }
  }

  // The rule sees the equation as it stands in the source.
  void split_call(const Eqn& source, const Eqn& eqn) {
    std::vector<bool> unknown_in;
    for (const Atom& a : eqn.inputs) unknown_in.push_back(is_unknown(a));
    const PartialEvalResult r =
        eqn.primitive->rules().partial_eval(eqn.params, jaxpr_, source, unknown_in,
                                            std::vector<bool>(eqn.outputs.size(), false), policy_);
    std::vector<Atom> known_in, staged_in;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      if (!unknown_in[i]) known_in.push_back(eqn.inputs[i]);
    }
    const std::vector<Atom> known_out = known_half(eqn, r, known_in);
    const auto num_known_out = known_out.size() - r.fresh_avals.size();
    for (const Residual& residual : r.residuals) {
      const auto i = static_cast<std::size_t>(residual.index);
      switch (residual.kind) {
        case Residual::Kind::input: staged_in.push_back(known_in[i]); break;
        case Residual::Kind::output: staged_in.push_back(known_out[i]); break;
        default: staged_in.push_back(known_out[num_known_out + i]); break;
      }
    }
    for (const Atom& a : eqn.inputs) {
      if (is_unknown(a)) staged_in.push_back(a);
    }
    const std::vector<Atom> staged_out = staged_half(eqn, r, std::move(staged_in));
    std::size_t k = 0, u = 0;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i)
      atoms_[static_cast<std::size_t>(eqn.outputs[i])] =
          r.unknown_out[i] ? staged_out[u++] : known_out[k++];
  }

  // Of half an equation: that of the programs it carries. Each effect is in one of the halves.
  static Effect effect_of(const Params& half) {
    Effect effect = Effect::none;
    for (const Jaxpr& jaxpr : half.jaxprs()) effect = join(effect, jaxpr.effect());
    return effect;
  }

  // The known results of the equation, then its fresh residuals.
  std::vector<Atom> known_half(const Eqn& eqn, const PartialEvalResult& r,
                               const std::vector<Atom>& inputs) {
    if (r.known_program) return inline_program(*r.known_program, inputs, false, known_);
    Eqn known{eqn.primitive, r.known, inputs, {}, effect_of(r.known), eqn.where};
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      if (!r.unknown_out[i]) known.outputs.push_back(eqn.outputs[i]);
    }
    for (const Aval& aval : r.fresh_avals) known.outputs.push_back(fresh(aval, false));
    std::vector<Atom> outs;
    for (const Var v : known.outputs) outs.push_back(Atom::var(v));
    known_.push_back(std::move(known));
    return outs;
  }

  std::vector<Atom> staged_half(const Eqn& eqn, const PartialEvalResult& r,
                                std::vector<Atom> inputs) {
    if (r.staged_program)
      return inline_program(*r.staged_program, std::move(inputs), true, staged_);
    Eqn staged{eqn.primitive, r.staged, std::move(inputs), {}, effect_of(r.staged), eqn.where};
    std::vector<Atom> outs;
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      if (!r.unknown_out[i]) continue;
      unknown_[static_cast<std::size_t>(eqn.outputs[i])] = true;
      staged.outputs.push_back(eqn.outputs[i]);
      outs.push_back(Atom::var(eqn.outputs[i]));
    }
    if (!staged.outputs.empty() || staged.effect != Effect::none)
      staged_.push_back(std::move(staged));
    return outs;
  }

  // Drops staged equations whose results nobody needs, so that they ask for no residuals.
  void keep_live(std::vector<Eqn>& eqns, const std::vector<Atom>& outs) const {
    std::vector<bool> live(avals_.size(), false);
    const auto mark = [&](const Atom& a) {
      if (a.is_var()) live[static_cast<std::size_t>(a.var())] = true;
    };
    for (const Atom& a : outs) mark(a);
    std::vector<Eqn> kept;
    for (auto it = eqns.rbegin(); it != eqns.rend(); ++it) {
      const bool used = std::any_of(it->outputs.begin(), it->outputs.end(),
                                    [&](Var v) { return live[static_cast<std::size_t>(v)]; });
      if (!used && it->effect == Effect::none) continue;
      for (const Atom& a : it->inputs) mark(a);
      kept.push_back(std::move(*it));
    }
    std::reverse(kept.begin(), kept.end());
    eqns = std::move(kept);
  }

  // What is cheaper to compute again than to keep: constants, and what is larger than its operand.
  bool may_save(const Eqn& eqn) const {
    if (policy_) return policy_(eqn);
    const auto is_literal = [](const Atom& a) { return a.is_literal(); };
    return eqn.primitive != &broadcast_in_dim_p && eqn.primitive != &iota_p &&
           (eqn.params.has_jaxprs() ||
            !std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_literal));
  }

  // Known equations whose results the policy does not let us save are computed again, in front of
  // the staged ones that need them.
  void recompute(const std::vector<Atom>& staged_outs) {
    std::vector<bool> needed(avals_.size(), false);
    const auto need = [&](const Atom& a) {
      if (a.is_var()) needed[static_cast<std::size_t>(a.var())] = true;
    };
    for (const Eqn& eqn : staged_) std::for_each(eqn.inputs.begin(), eqn.inputs.end(), need);
    std::for_each(staged_outs.begin(), staged_outs.end(), need);
    std::vector<Eqn> again;
    for (auto it = known_.rbegin(); it != known_.rend(); ++it) {
      const bool used = std::any_of(it->outputs.begin(), it->outputs.end(),
                                    [&](Var v) { return needed[static_cast<std::size_t>(v)]; });
      if (!used || it->effect != Effect::none || may_save(*it)) continue;
      std::for_each(it->inputs.begin(), it->inputs.end(), need);
      again.push_back(*it);
    }
    std::reverse(again.begin(), again.end());
    staged_.insert(staged_.begin(), again.begin(), again.end());
  }

  // Residuals in order of first use by the staged program.
  void find_residuals(const std::vector<Atom>& staged_outs, const std::vector<Atom>& known_outs,
                      PartialEvalJaxpr& result) {
    std::vector<bool> defined(avals_.size(), false);
    for (int i = 0; i < jaxpr_.num_inputs(); ++i)
      defined[static_cast<std::size_t>(i)] = unknown_[static_cast<std::size_t>(i)];
    std::vector<int> known_input(avals_.size(), -1);
    for (int i = 0, k = 0; i < jaxpr_.num_inputs(); ++i) {
      if (!unknown_[static_cast<std::size_t>(i)]) known_input[static_cast<std::size_t>(i)] = k++;
    }
    const auto use = [&](const Atom& a) {
      if (!a.is_var()) return;
      const auto v = static_cast<std::size_t>(a.var());
      if (defined[v]) return;
      defined[v] = true;
      residual_vars_.push_back(a.var());
      if (known_input[v] >= 0) {
        result.residuals.push_back({Residual::Kind::input, known_input[v]});
        return;
      }
      const auto out = std::find_if(known_outs.begin(), known_outs.end(), [&](const Atom& o) {
        return o.is_var() && o.var() == a.var();
      });
      if (out != known_outs.end()) {
        result.residuals.push_back(
            {Residual::Kind::output, static_cast<int>(out - known_outs.begin())});
        return;
      }
      result.residuals.push_back(
          {Residual::Kind::fresh, static_cast<int>(result.fresh_avals.size())});
      result.fresh_avals.push_back(avals_[v]);
      fresh_vars_.push_back(a.var());
    };
    for (const Eqn& eqn : staged_) {
      std::for_each(eqn.inputs.begin(), eqn.inputs.end(), use);
      for (const Var v : eqn.outputs) defined[static_cast<std::size_t>(v)] = true;
    }
    std::for_each(staged_outs.begin(), staged_outs.end(), use);
  }

  Jaxpr build(const std::vector<Var>& inputs, const std::vector<Eqn>& eqns,
              const std::vector<Atom>& outs) const {
    JaxprBuilder builder;
    std::map<Var, Atom> env;
    for (const Var v : inputs)
      env.emplace(v, Atom::var(builder.add_input(avals_[static_cast<std::size_t>(v)])));
    const auto read = [&](const Atom& a) { return a.is_var() ? env.at(a.var()) : a; };
    for (const Eqn& eqn : eqns) {
      std::vector<Atom> args;
      std::vector<Aval> out_avals;
      for (const Atom& a : eqn.inputs) args.push_back(read(a));
      for (const Var v : eqn.outputs) out_avals.push_back(avals_[static_cast<std::size_t>(v)]);
      const auto results = builder.add_eqn(*eqn.primitive, eqn.params, std::move(args), out_avals,
                                           eqn.effect, eqn.where);
      for (std::size_t i = 0; i < results.size(); ++i)
        env.insert_or_assign(eqn.outputs[i], Atom::var(results[i]));
    }
    std::vector<Atom> results;
    for (const Atom& a : outs) results.push_back(read(a));
    return builder.build(std::move(results)).jaxpr;
  }

  Jaxpr build_known(std::vector<Atom> outs, const PartialEvalJaxpr&) const {
    std::vector<Var> inputs;
    for (int i = 0; i < jaxpr_.num_inputs(); ++i) {
      if (!unknown_[static_cast<std::size_t>(i)]) inputs.push_back(i);
    }
    for (const Var v : fresh_vars_) outs.push_back(Atom::var(v));
    return build(inputs, known_, outs);
  }

  Jaxpr build_staged(const std::vector<Atom>& outs) const {
    std::vector<Var> inputs = residual_vars_;
    for (int i = 0; i < jaxpr_.num_inputs(); ++i) {
      if (unknown_[static_cast<std::size_t>(i)]) inputs.push_back(i);
    }
    return build(inputs, staged_, outs);
  }

  const Jaxpr& jaxpr_;
  const Policy policy_;
  const bool effects_wait_;    // equations with effects are staged
  std::vector<bool> unknown_;  // by variable
  std::vector<Aval> avals_;    // of the source's variables, then of new ones
  std::vector<Atom> atoms_;    // what the source's variables have become
  std::vector<Eqn> known_, staged_;
  std::vector<Var> residual_vars_, fresh_vars_;
};

}  // namespace

std::shared_ptr<const PartialEvalJaxpr> split_jaxpr(const Jaxpr& jaxpr,
                                                    const std::vector<bool>& unknown_in,
                                                    const std::vector<bool>& instantiate_out,
                                                    const Policy& policy) {
  return std::make_shared<const PartialEvalJaxpr>(
      Splitter(jaxpr, unknown_in, policy).split(instantiate_out));
}

std::shared_ptr<const PartialEvalJaxpr> partial_eval_jaxpr(
    const Jaxpr& jaxpr, const std::vector<bool>& unknown_in,
    const std::vector<bool>& instantiate_out) {
  const std::string key = "peval:" + mask_text(unknown_in) + ":" + mask_text(instantiate_out);
  return jaxpr.memo<PartialEvalJaxpr>(
      key, [&] { return Splitter(jaxpr, unknown_in, {}).split(instantiate_out); });
}

std::shared_ptr<const PartialEvalJaxpr> hoist_jaxpr(const Jaxpr& jaxpr,
                                                    const std::vector<bool>& changes,
                                                    const std::vector<bool>& instantiate_out) {
  const std::string key = "hoist:" + mask_text(changes) + ":" + mask_text(instantiate_out);
  return jaxpr.memo<PartialEvalJaxpr>(
      key, [&] { return Splitter(jaxpr, changes, {}, true).split(instantiate_out); });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
