// Updates in place. A carry of which a trip only overwrites a part stays where it is, however deep in
// loops and branches of the body the part is overwritten:
//
//   fori(y -> cond(p, y, y -> dynamic_update_slice y u i))
//
// The equation `cond` hands its operand y on, with parts overwritten in one of its branches, so it is
// an update like the one within. Whether an update can be made in place is for fusion to say: every
// other reader of the old contents must be able to come before.
#include "compiler/plan/updates.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/fusion/fuse.hpp"
#include "compiler/plan/cells.hpp"
#include "compiler/plan/turns.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Of each result of a region, the operand that it is with parts overwritten; -1 if there is none.
std::vector<int> operands_handed_on(const Jaxpr& jaxpr, const Eqn& eqn,
                                    const PlanOptions& options) {
  std::vector<int> operands(eqn.outputs.size(), -1);
  if (options.cells && cell_loop(jaxpr, eqn)) return operands;
  // Of the first results, which are carried by the body: -1 where it gives a new value.
  const auto carried = [&](const Jaxpr& body, int body_first, int num_carry, int first) {
    const auto updates = carried_updates(body, static_cast<std::size_t>(body_first),
                                         static_cast<std::size_t>(num_carry), options);
    for (int r = 0; r < num_carry; ++r) {
      const auto i = static_cast<std::size_t>(r);
      operands[i] = updates.chain_of[i] < 0 ? -1 : first + r;
    }
  };
  if (eqn.primitive == &scan_p) {
    const auto& p = eqn.params.as<ScanParams>();
    const Turns turns = turns_of(p);
    std::vector<bool> refused(operands.size(), false);
    for (const std::int64_t copies : {turns.copies, turns.rest}) {
      if (copies == 0) continue;
      carried(repeated_body(p, copies), p.num_consts, p.num_carry, p.num_consts);
      for (std::size_t r = 0; r < operands.size(); ++r) refused[r] = refused[r] || operands[r] < 0;
    }
    for (std::size_t r = 0; r < operands.size(); ++r)
      if (refused[r]) operands[r] = -1;
  } else if (eqn.primitive == &while_p) {
    const auto& p = eqn.params.as<WhileParams>();
    carried(p.body_jaxpr, p.body_nconsts, static_cast<int>(eqn.outputs.size()),
            p.cond_nconsts + p.body_nconsts);
  } else {
    operands = branch_updates(eqn.params.as<CondParams>(), options).operand_of;
    for (int& operand : operands)
      if (operand >= 0) ++operand;  // the index comes first
  }
  return operands;
}

/// What the regions of one program hand on, found once for all that ask.
class HandedOn {
 public:
  HandedOn(const Jaxpr& jaxpr, const PlanOptions& options) : jaxpr_(jaxpr), options_(options) {}
  int operator()(int e, std::size_t result) {
    const auto [at, is_new] = operands_.try_emplace(e);
    if (is_new)
      at->second = operands_handed_on(jaxpr_, jaxpr_.eqns()[static_cast<std::size_t>(e)], options_);
    return at->second[result];
  }

 private:
  const Jaxpr& jaxpr_;
  const PlanOptions& options_;
  std::map<int, std::vector<int>> operands_;  // by equation
};

struct Traced {
  UpdateChain chain;
  Var root;  ///< what the first equation writes over
};
/// The equations through which a result is an input of the program, or what is computed, with parts overwritten.
std::optional<Traced> trace(const Jaxpr& jaxpr, const std::vector<int>& producer, const Atom& out,
                            HandedOn& handed_on) {
  Traced t{};
  Atom at = out;
  while (at.is_var() && producer[static_cast<std::size_t>(at.var())] >= 0) {
    const int e = producer[static_cast<std::size_t>(at.var())];
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(e)];
    Update update{e, -1, 0};
    while (eqn.outputs[static_cast<std::size_t>(update.result)] != at.var()) ++update.result;
    if (is_region(*eqn.primitive))
      update.operand = handed_on(e, static_cast<std::size_t>(update.result));
    else if (overwrites(eqn) && form_of(jaxpr, eqn) != Form::host) update.operand = 0;
    if (update.operand < 0) break;
    t.chain.insert(t.chain.begin(), update);
    at = eqn.inputs[static_cast<std::size_t>(update.operand)];
  }
  if (!at.is_var()) return std::nullopt;
  t.root = at.var();
  return t;
}

/// Whether what the chain writes over, or its result, is another result of the program too. `result` is the number of the
/// chain's own, or beyond all of them.
bool returned_otherwise(const Jaxpr& jaxpr, const UpdateChain& chain, std::size_t result) {
  for (std::size_t o = 0; o < jaxpr.outs().size(); ++o) {
    const Atom& out = jaxpr.outs()[o];
    for (const Update& u : chain) {
      const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(u.eqn)];
      if (out == eqn.inputs[static_cast<std::size_t>(u.operand)]) return true;
      if (o < result && out == Atom::var(eqn.outputs[static_cast<std::size_t>(u.result)]))
        return true;
    }
  }
  return false;
}

/// Results of updates of updates that no other update writes over, and that the program does not return: they are read on.
std::vector<Atom> read_on(const Jaxpr& jaxpr, const std::vector<int>& producer) {
  constexpr std::size_t kMost = 32;  // each is followed to where it begins
  std::set<Var> goes_on;
  const auto note = [&](const Atom& a) {
    if (a.is_var()) goes_on.insert(a.var());
  };
  const auto is_updated = [&](const Atom& a) {
    const int p = a.is_var() ? producer[static_cast<std::size_t>(a.var())] : -1;
    return p >= 0 && overwrites(jaxpr.eqns()[static_cast<std::size_t>(p)]);
  };
  for (const Atom& out : jaxpr.outs()) note(out);
  for (const Eqn& eqn : jaxpr.eqns())
    if (overwrites(eqn)) note(eqn.inputs[0]);
  std::vector<Atom> ends;
  for (const Eqn& eqn : jaxpr.eqns()) {
    if (overwrites(eqn) && is_updated(eqn.inputs[0]) && !goes_on.contains(eqn.outputs[0]) &&
        ends.size() < kMost)
      ends.push_back(Atom::var(eqn.outputs[0]));
  }
  return ends;
}

/// The small values that are read off what the chain writes over. Computed together with what comes
/// after the update they would keep it from being made in place.
void add_readers(const Jaxpr& jaxpr, const UpdateChain& chain, std::set<int>& readers) {
  for (const Update& u : chain) {
    const Atom& old =
        jaxpr.eqns()[static_cast<std::size_t>(u.eqn)].inputs[static_cast<std::size_t>(u.operand)];
    for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr.eqns()[e];
      if (static_cast<int>(e) == u.eqn || !is_fusible(form_of(jaxpr, eqn)) ||
          2 * jaxpr.aval(eqn.outputs[0]).size() > jaxpr.aval(old).size())
        continue;
      if (std::find(eqn.inputs.begin(), eqn.inputs.end(), old) != eqn.inputs.end())
        readers.insert(static_cast<int>(e));
    }
  }
}

/// Strikes those of `chains` out that cannot be made in place beside the others; true if it did. Else
/// `alone` says which equations have kernels of their own then.
bool refuse(const Jaxpr& jaxpr, std::vector<UpdateChain>& chains, std::set<int>& alone,
            const PlanOptions& options) {
  PlanOptions asking = options;
  asking.updates.clear();
  asking.alone.clear();
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].empty()) continue;
    asked.push_back(i);
    asking.updates.push_back(chains[i]);
  }
  alone.clear();
  if (asked.empty()) return false;
  const auto granted = [&] { return fuse(jaxpr, asking).updates_in_place; };
  std::vector<bool> in_place = granted();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!in_place[i]) add_readers(jaxpr, chains[asked[i]], asking.alone);
  }
  if (!asking.alone.empty()) in_place = granted();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!in_place[i]) chains[asked[i]].clear();
  }
  alone = asking.alone;
  return std::find(in_place.begin(), in_place.end(), false) != in_place.end();
}

// What is computed for most of an array is better computed where it is wanted, in one pass over the array,
// than written down and copied there; and so is anything for a small array.
bool is_worth_it(const Jaxpr& jaxpr, const std::vector<int>& producer, const UpdateChain& chain) {
  return std::all_of(chain.begin(), chain.end(), [&](const Update& u) {
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(u.eqn)];
    if (eqn.primitive != &dynamic_update_slice_p) return true;
    if (weight_of(jaxpr.aval(eqn.outputs[0])) < kLeastUpdated) return false;
    const int p =
        eqn.inputs[1].is_var() ? producer[static_cast<std::size_t>(eqn.inputs[1].var())] : -1;
    return p < 0 || !is_fusible(form_of(jaxpr, jaxpr.eqns()[static_cast<std::size_t>(p)])) ||
           jaxpr.aval(eqn.inputs[1]).size() <= jaxpr.aval(eqn.inputs[0]).size() / 2;
  });
}

// Carries of which most is computed anew at a place that is known are computed as a whole: where nobody else wants the old
// ones, they are written over as they are read.
bool computes_most(const Jaxpr& jaxpr, const std::vector<int>& producer, const UpdateChain& chain) {
  return std::all_of(chain.begin(), chain.end(), [&](const Update& u) {
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(u.eqn)];
    if (eqn.primitive != &dynamic_update_slice_p || looks_for_window(jaxpr, eqn)) return false;
    const int p =
        eqn.inputs[1].is_var() ? producer[static_cast<std::size_t>(eqn.inputs[1].var())] : -1;
    return p >= 0 && is_fusible(form_of(jaxpr, jaxpr.eqns()[static_cast<std::size_t>(p)])) &&
           jaxpr.aval(eqn.inputs[1]).size() > jaxpr.aval(eqn.inputs[0]).size() / 4 * 3;
  });
}

}  // namespace

bool overwrites(const Eqn& eqn) {
  return eqn.primitive == &dynamic_update_slice_p || eqn.primitive->rules().updates_operand;
}

CarriedUpdates carried_updates(const Jaxpr& body, std::size_t first, std::size_t num_carry,
                               const PlanOptions& options) {
  CarriedUpdates out;
  out.chain_of.assign(num_carry, -1);
  if (!options.update_in_place) return out;
  const std::vector<int> producer = producers(body);
  HandedOn handed_on(body, options);
  std::vector<UpdateChain> chains(num_carry);
  for (std::size_t i = 0; i < num_carry; ++i) {
    const auto traced = trace(body, producer, body.outs()[i], handed_on);
    if (!traced || traced->root != static_cast<Var>(first + i)) continue;
    if (traced->chain.empty()) out.chain_of[i] = CarriedUpdates::kUnchanged;
    else if (!returned_otherwise(body, traced->chain, i) &&
             !computes_most(body, producer, traced->chain))
      chains[i] = traced->chain;
  }
  while (refuse(body, chains, out.alone, options)) {}
  for (std::size_t i = 0; i < num_carry; ++i) {
    if (chains[i].empty()) continue;
    out.chain_of[i] = static_cast<int>(out.chains.size());
    out.chains.push_back(std::move(chains[i]));
  }
  return out;
}

ArgumentUpdates argument_updates(const Jaxpr& jaxpr, const std::vector<bool>& donated,
                                 const PlanOptions& options) {
  ArgumentUpdates out;
  if (!options.update_in_place) return out;
  const auto is_donated = [&](Var v) {
    return v < jaxpr.num_inputs() && donated[static_cast<std::size_t>(v)];
  };
  std::set<std::pair<DType, std::vector<std::int64_t>>> types;  // of donated arguments
  const auto type_of = [&](const Aval& a) {
    return std::pair(a.dtype, std::vector<std::int64_t>(a.shape.begin(), a.shape.end()));
  };
  const auto& eqns = jaxpr.eqns();
  const std::vector<int> uses = detail::use_counts(jaxpr);
  // What others read between two updates would be a pass over the array each time.
  const auto is_read_between = [&](const Eqn& e) {
    return e.primitive == &dynamic_update_slice_p && e.inputs[0].is_var() &&
           e.inputs[0].var() >= jaxpr.num_inputs() &&
           uses[static_cast<std::size_t>(e.inputs[0].var())] > 1;
  };
  constexpr std::ptrdiff_t kManyPasses = 2;
  const auto is_searched = [&](const Eqn& e) { return looks_for_window(jaxpr, e); };
  const auto count = [&](const UpdateChain& chain, const auto& is_it) {
    return std::count_if(chain.begin(), chain.end(), [&](const Update& u) {
      return is_it(eqns[static_cast<std::size_t>(u.eqn)]);
    });
  };
  const auto is_read_often = [&](const UpdateChain& chain) {
    return count(chain, is_read_between) >= kManyPasses;
  };
  // What is computed is made where its result will be where only a window is looked for (Fuser).
  const auto is_copied = [&](const Traced& t) {
    return (t.root < jaxpr.num_inputs() && count(t.chain, is_searched) > 0) ||
           is_read_often(t.chain);
  };
  const bool any_read_often =
      std::count_if(eqns.begin(), eqns.end(), is_read_between) >= kManyPasses;
  const bool copies = any_read_often || std::any_of(eqns.begin(), eqns.end(), is_searched);
  for (Var v = 0; v < jaxpr.num_inputs(); ++v)
    if (is_donated(v)) types.insert(type_of(jaxpr.aval(v)));
  if (types.empty() && !copies) return out;
  const std::vector<int> producer = producers(jaxpr);
  HandedOn handed_on(jaxpr, options);
  std::vector<Atom> ends(jaxpr.outs().begin(), jaxpr.outs().end());
  if (any_read_often) {
    const std::vector<Atom> others = read_on(jaxpr, producer);
    ends.insert(ends.end(), others.begin(), others.end());
  }
  std::vector<UpdateChain> chains(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!copies && !types.contains(type_of(jaxpr.aval(ends[i])))) continue;
    auto traced = trace(jaxpr, producer, ends[i], handed_on);
    if (!traced) continue;
    const bool is_result = i < jaxpr.outs().size();
    const bool is_wanted = is_result
                               ? is_donated(traced->root) || is_copied(*traced)
                               : is_read_often(traced->chain);  // else one pass, with who reads it
    if (is_wanted && is_worth_it(jaxpr, producer, traced->chain) &&
        !returned_otherwise(jaxpr, traced->chain, i))
      chains[i] = std::move(traced->chain);
  }
  while (refuse(jaxpr, chains, out.alone, options)) {}
  for (UpdateChain& chain : chains)
    if (!chain.empty()) out.chains.push_back(std::move(chain));
  return out;
}

namespace {

/// Whether a step, or one within it, uses memory that `is_it` knows by its value.
template <class IsIt>
bool touches(const Plan& plan, const Step& s, std::vector<int> Step::* used, const IsIt& is_it) {
  const auto lies_there = [&](int v) {
    const std::vector<int>& bases = plan.values[static_cast<std::size_t>(v)].bases;
    return is_it(v) || std::any_of(bases.begin(), bases.end(), is_it);
  };
  if (std::any_of((s.*used).begin(), (s.*used).end(), lies_there)) return true;
  return std::any_of(s.bodies.begin(), s.bodies.end(), [&](const std::vector<Step>& body) {
    return std::any_of(body.begin(), body.end(),
                       [&](const Step& inner) { return touches(plan, inner, used, is_it); });
  });
}

/// Whether a kernel overwrites a part of what it takes for an array of another shape, or gives it out as one.
bool updates_through_reshape(const Plan& plan, const Step& s) {
  const Jaxpr& jaxpr = plan.scopes[static_cast<std::size_t>(s.scope)].jaxpr;
  const std::vector<int> producer = producers(jaxpr);
  const auto is_update = [&](int e) {
    return e >= 0 && overwrites(jaxpr.eqns()[static_cast<std::size_t>(e)]);
  };
  const auto made_by = [&](const Atom& a) {
    return a.is_var() ? producer[static_cast<std::size_t>(a.var())] : -1;
  };
  std::set<int> eqns = s.kernel.members;
  eqns.insert(s.kernel.eqn);
  return std::any_of(eqns.begin(), eqns.end(), [&](int e) {
    if (e < 0) return false;
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(e)];
    if (eqn.primitive == &reshape_p) return is_update(made_by(eqn.inputs[0]));
    const int before = overwrites(eqn) ? made_by(eqn.inputs[0]) : -1;
    return before >= 0 && jaxpr.eqns()[static_cast<std::size_t>(before)].primitive == &reshape_p;
  });
}

}  // namespace

std::string why_kept(const Plan& plan, int argument) {
  const Value& arg = plan.values[static_cast<std::size_t>(argument)];
  const auto is_argument = [&](int v) { return v == argument; };
  const auto is_result = [&](int v) {
    const Value& value = plan.values[static_cast<std::size_t>(v)];
    return value.location.kind == Location::Kind::result && value.bytes() == arg.bytes();
  };
  const auto reads = [&](const Step& s) { return touches(plan, s, &Step::reads, is_argument); };
  const auto writes = [&](const Step& s) { return touches(plan, s, &Step::writes, is_result); };
  const std::vector<Step>* steps = &plan.steps;
  while (true) {
    // The step that reads it last, and the one within that.
    const auto last = std::find_if(steps->rbegin(), steps->rend(), reads);
    if (last == steps->rend() || !writes(*last)) return {};
    const Step& s = *last;
    if (!s.bodies.empty()) {
      if (s.bodies.size() != 1) return {};
      steps = &s.bodies[0];
      continue;
    }
    if (s.kind == Step::Kind::host) {
      if (!is_native(arg.aval.dtype))
        return std::string(short_name(arg.aval.dtype)) +
               " goes through calls, which write new memory";
      return "the call of " + s.name + " reads it and writes a result of its size";
    }
    if (s.kind != Step::Kind::kernel || s.kernel.in_place.contains(argument)) return {};
    if (updates_through_reshape(plan, s))
      return "it is reshaped before or after a part of it is overwritten";
    const bool element_by_element = s.kernel.kind == Kernel::Kind::loop;
    return std::string("the loop that writes a result of its size still reads it") +
           (element_by_element ? ", at other places" : "");
  }
}

BranchUpdates branch_updates(const CondParams& p, const PlanOptions& options) {
  const std::size_t num_results = p.branches[0].outs().size();
  BranchUpdates out;
  out.operand_of.assign(num_results, -1);
  out.chains.resize(p.branches.size());
  out.alone.resize(p.branches.size());
  if (!options.update_in_place) return out;
  std::vector<std::vector<UpdateChain>> chains(p.branches.size());
  for (auto& of_branch : chains) of_branch.resize(num_results);
  std::vector<std::vector<int>> producer;
  std::vector<HandedOn> handed_on;
  for (const Jaxpr& j : p.branches) {
    producer.push_back(producers(j));
    handed_on.emplace_back(j, options);
  }
  const auto operand_of = [&](std::size_t r) {
    int operand = -1;
    for (std::size_t b = 0; b < p.branches.size(); ++b) {
      auto traced = trace(p.branches[b], producer[b], p.branches[b].outs()[r], handed_on[b]);
      if (!traced || traced->root >= p.branches[b].num_inputs() ||
          (operand >= 0 && traced->root != operand))
        return -1;
      if (returned_otherwise(p.branches[b], traced->chain, r)) return -1;
      operand = traced->root;
      chains[b][r] = std::move(traced->chain);
    }
    return operand;
  };
  const auto give_up = [&](std::size_t r) {
    out.operand_of[r] = -1;
    for (auto& of_branch : chains) of_branch[r].clear();
  };
  for (std::size_t r = 0; r < num_results; ++r) {
    const int operand = operand_of(r);
    const bool taken =
        std::find(out.operand_of.begin(), out.operand_of.end(), operand) != out.operand_of.end();
    if (operand < 0 || taken) give_up(r);
    else out.operand_of[r] = operand;
  }
  // What one branch cannot do is left in all of them.
  for (bool stable = false; !stable;) {
    stable = true;
    for (std::size_t b = 0; b < p.branches.size(); ++b) {
      const std::vector<UpdateChain> before = chains[b];
      if (!refuse(p.branches[b], chains[b], out.alone[b], options)) continue;
      stable = false;
      for (std::size_t r = 0; r < num_results; ++r) {
        if (chains[b][r].empty() && !before[r].empty()) give_up(r);
      }
    }
  }
  for (std::size_t b = 0; b < p.branches.size(); ++b) {
    for (UpdateChain& chain : chains[b]) {
      if (!chain.empty()) out.chains[b].push_back(std::move(chain));
    }
  }
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
