// Partial evaluation at jaxpr time: one program becomes two, of which the known one computes what
// depends on known inputs only and the residuals that the staged one needs of it.
#include <algorithm>
#include <map>

#include "interpreters/interpreters.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
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
    Atoms known_outs, staged_outs;
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

  // Appends the equations of a program, which stands for an equation at `where`; gives its results.
  Atoms inline_program(const Jaxpr& program, const SourceLocation& where, Atoms env, bool unknown,
                       std::vector<Eqn>& into) {
    const auto read = [&env](const Atom& a) {
      return a.is_var() ? env[static_cast<std::size_t>(a.var())] : a;
    };
    for (const Eqn& source : program.eqns()) {
      Eqn eqn = source;
      if (!eqn.where) eqn.where = where;
      for (Atom& a : eqn.inputs) a = read(a);
      for (Var& v : eqn.outputs) {
        v = fresh(program.aval(v), unknown);
        env.push_back(Atom::var(v));
      }
      into.push_back(std::move(eqn));
    }
    Atoms outs;
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
    Atoms known_in, staged_in;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      if (!unknown_in[i]) known_in.push_back(eqn.inputs[i]);
    }
    const Atoms known_out = known_half(eqn, r, known_in);
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
    const Atoms staged_out = staged_half(eqn, r, std::move(staged_in));
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
  Atoms known_half(const Eqn& eqn, const PartialEvalResult& r, const Atoms& inputs) {
    if (r.known_program) return inline_program(*r.known_program, eqn.where, inputs, false, known_);
    Eqn known{eqn.primitive, r.known, inputs, {}, effect_of(r.known), eqn.where};
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      if (!r.unknown_out[i]) known.outputs.push_back(eqn.outputs[i]);
    }
    for (const Aval& aval : r.fresh_avals) known.outputs.push_back(fresh(aval, false));
    Atoms outs;
    for (const Var v : known.outputs) outs.push_back(Atom::var(v));
    known_.push_back(std::move(known));
    return outs;
  }

  Atoms staged_half(const Eqn& eqn, const PartialEvalResult& r, Atoms inputs) {
    if (r.staged_program)
      return inline_program(*r.staged_program, eqn.where, std::move(inputs), true, staged_);
    Eqn staged{eqn.primitive, r.staged, std::move(inputs), {}, effect_of(r.staged), eqn.where};
    Atoms outs;
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
  void keep_live(std::vector<Eqn>& eqns, const Atoms& outs) const {
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

  // Costs nothing to compute, and its result is larger than its operands together: a broadcast.
  bool is_repetition(const Eqn& eqn) const {
    const Lowering* lowering = eqn.primitive->rules().lowering();
    if (lowering == nullptr || lowering->cost.cycles + lowering->cost.per_operand > 0) return false;
    std::int64_t in = 0, out = 0;
    for (const Atom& a : eqn.inputs)
      in += a.is_literal() ? 1 : avals_[static_cast<std::size_t>(a.var())].size();
    for (const Var v : eqn.outputs) out += avals_[static_cast<std::size_t>(v)].size();
    return out > in;
  }

  // What is cheaper to compute again than to keep: constants, and what is larger than its operand.
  bool may_save(const Eqn& eqn) const {
    if (policy_) return policy_(eqn);
    const auto is_literal = [](const Atom& a) { return a.is_literal(); };
    if (eqn.params.has_jaxprs()) return true;
    return !std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_literal) && !is_repetition(eqn);
  }

  // Known equations whose results the policy does not let us save are computed again, in front of
  // the staged ones that need them.
  void recompute(const Atoms& staged_outs) {
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
  void find_residuals(const Atoms& staged_outs, const Atoms& known_outs, PartialEvalJaxpr& result) {
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

  Jaxpr build(const Vars& inputs, const std::vector<Eqn>& eqns, const Atoms& outs) const {
    JaxprBuilder builder;
    std::map<Var, Atom> env;
    for (const Var v : inputs)
      env.emplace(v, Atom::var(builder.add_input(avals_[static_cast<std::size_t>(v)])));
    const auto read = [&](const Atom& a) { return a.is_var() ? env.at(a.var()) : a; };
    for (const Eqn& eqn : eqns) {
      Atoms args;
      std::vector<Aval> out_avals;
      for (const Atom& a : eqn.inputs) args.push_back(read(a));
      for (const Var v : eqn.outputs) out_avals.push_back(avals_[static_cast<std::size_t>(v)]);
      const auto results = builder.add_eqn(*eqn.primitive, eqn.params, std::move(args), out_avals,
                                           eqn.effect, eqn.where);
      for (std::size_t i = 0; i < results.size(); ++i)
        env.insert_or_assign(eqn.outputs[i], Atom::var(results[i]));
    }
    Atoms results;
    for (const Atom& a : outs) results.push_back(read(a));
    return builder.build(std::move(results)).jaxpr;
  }

  Jaxpr build_known(Atoms outs, const PartialEvalJaxpr&) const {
    Vars inputs;
    for (int i = 0; i < jaxpr_.num_inputs(); ++i) {
      if (!unknown_[static_cast<std::size_t>(i)]) inputs.push_back(i);
    }
    for (const Var v : fresh_vars_) outs.push_back(Atom::var(v));
    return build(inputs, known_, outs);
  }

  Jaxpr build_staged(const Atoms& outs) const {
    Vars inputs = residual_vars_;
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
  Atoms atoms_;                // what the source's variables have become
  std::vector<Eqn> known_, staged_;
  Vars residual_vars_, fresh_vars_;
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
