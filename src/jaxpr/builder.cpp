// JaxprBuilder: provisional variables, and their dense numbering at the end.
#include "jaxpr/builder.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "jaxpr/rewrite.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

bool is_literal_value(const Array& value) { return !value.is_tracer() && value.ndim() == 0; }

CapturedVars::Slot& CapturedVars::slot_of(const ArrayNode* node) {
  std::size_t i = mix_bits(reinterpret_cast<std::uintptr_t>(node));
  for (;; ++i) {
    Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.node == node || slot.node == nullptr) return slot;
  }
}

void CapturedVars::grow() {
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 16 : 4 * slots_.size()));
  for (const Slot& slot : old) {
    if (slot.node != nullptr) slot_of(slot.node) = slot;
  }
}

Var CapturedVars::find_or_add(const ArrayNode* node, Var next) {
  if (2 * size_ >= slots_.size()) grow();
  Slot& slot = slot_of(node);
  if (slot.node == nullptr) {
    slot = {node, next};
    ++size_;
  }
  return slot.var;
}

Var JaxprBuilder::add_input(Aval aval) {
  const Var v = static_cast<Var>(avals_.size());
  avals_.push_back(std::move(aval));
  inputs_.push_back(v);
  return v;
}

Atom JaxprBuilder::capture(const Array& value) {
  return is_literal_value(value) ? Atom::literal(value) : Atom::var(add_const(value));
}

Var JaxprBuilder::add_const(const Array& value) {
  const Var next = static_cast<Var>(avals_.size());
  const Var var = const_of_.find_or_add(value.node(), next);
  if (var == next) {
    avals_.push_back(value.aval());
    const_vars_.push_back(next);
    consts_.push_back(value);  // keeps the node alive, so its address stays its identity
  }
  return var;
}

const Vars& JaxprBuilder::add_eqn(const PrimitiveBase& primitive, Params params, Atoms inputs,
                                  const Avals& out_avals, Effect effect, SourceLocation where) {
  Vars outputs;
  outputs.reserve(out_avals.size());
  for (const Aval& aval : out_avals) {
    outputs.push_back(static_cast<Var>(avals_.size()));
    avals_.push_back(aval);
  }
  eqns_.push_back(
      {&primitive, std::move(params), std::move(inputs), std::move(outputs), effect, where});
  return eqns_.back().outputs;
}

Atoms JaxprBuilder::inline_jaxpr(const Jaxpr& jaxpr, Atoms env) {
  env.reserve(static_cast<std::size_t>(jaxpr.num_vars()));
  const auto read = [&](std::span<const Atom> atoms) {
    Atoms out;
    out.reserve(atoms.size());
    for (const Atom& a : atoms)
      out.push_back(a.is_var() ? env[static_cast<std::size_t>(a.var())] : a);
    return out;
  };
  Avals out_avals;
  for (const Eqn& eqn : jaxpr.eqns()) {
    out_avals.clear();
    for (const Var v : eqn.outputs) out_avals.push_back(jaxpr.aval(v));
    for (const Var v :
         add_eqn(*eqn.primitive, eqn.params, read(eqn.inputs), out_avals, eqn.effect, eqn.where)) {
      env.push_back(Atom::var(v));
    }
  }
  return read(jaxpr.outs());
}

namespace {

// A call may compute more than is used of it: its `dce` rule knows what it can leave out.
void drop_unused(Eqn& eqn, const std::vector<bool>& used) {
  const auto is_used = [&](Var v) { return used[static_cast<std::size_t>(v)]; };
  if (std::all_of(eqn.outputs.begin(), eqn.outputs.end(), is_used)) return;
  if (!eqn.primitive->rules().dce) return;
  Remainder rest = remainder_of(eqn, used);
  eqn.params = std::move(rest.params);
  eqn.inputs = select(eqn.inputs, rest.used_in);
  eqn.outputs = select(eqn.outputs, rest.used_out);
}

}  // namespace

// What `build` has to know of the equations, found in one look at them.
struct JaxprBuilder::Live {
  std::vector<bool> eqns;                     // which stay
  std::size_t num_eqns = 0, num_results = 0;  // of those
  Vars
      consts;  // captured variables that they and the results of the program read: a use each, backwards
};

JaxprBuilder::Live JaxprBuilder::mark_live(const Atoms& outs, DeadCode dead_code) {
  Live live;
  live.eqns.assign(eqns_.size(), false);
  std::vector<bool> used(avals_.size(), false), captured;
  if (!const_vars_.empty()) captured.assign(avals_.size(), false);
  for (const Var v : const_vars_) captured[static_cast<std::size_t>(v)] = true;
  const auto use = [&](const Atoms& atoms) {
    for (std::size_t i = atoms.size(); i-- > 0;) {
      if (atoms[i].is_literal()) continue;
      const auto v = static_cast<std::size_t>(atoms[i].var());
      used[v] = true;
      if (!captured.empty() && captured[v]) live.consts.push_back(atoms[i].var());
    }
  };
  use(outs);
  for (std::size_t i = eqns_.size(); i-- > 0;) {
    Eqn& eqn = eqns_[i];
    const bool stays = dead_code == DeadCode::keep || eqn.effect != Effect::none ||
                       std::any_of(eqn.outputs.begin(), eqn.outputs.end(),
                                   [&](Var v) { return used[static_cast<std::size_t>(v)]; });
    if (!stays) continue;
    if (dead_code == DeadCode::remove) drop_unused(eqn, used);
    use(eqn.inputs);
    live.eqns[i] = true;
    ++live.num_eqns;
    live.num_results += eqn.outputs.size();
  }
  return live;
}

ClosedJaxpr JaxprBuilder::build(Atoms outs, DeadCode dead_code) {
  const Live live = mark_live(outs, dead_code);
  // Where nothing is left out, nothing was captured and the inputs came first, every variable has its
  // number already.
  const int num_inputs = static_cast<int>(inputs_.size());
  const bool inputs_first = inputs_.empty() || inputs_.back() == num_inputs - 1;
  if (inputs_first && live.num_eqns == eqns_.size() &&
      inputs_.size() + live.num_results == avals_.size()) {
    ClosedJaxpr closed{Jaxpr(num_inputs, avals_.take(), eqns_.take(), std::move(outs)), {}};
    *this = JaxprBuilder();
    return closed;
  }

  // Constants in the order of their first use, then the inputs, then the results.
  Vars number(avals_.size(), -1);
  std::vector<Aval> avals;
  avals.reserve(avals_.size());
  const auto lead = [&](Var v) {
    number[static_cast<std::size_t>(v)] = static_cast<Var>(avals.size());
    avals.push_back(std::move(avals_[static_cast<std::size_t>(v)]));
  };
  Arrays consts;
  for (std::size_t i = live.consts.size(); i-- > 0;) {
    const Var v = live.consts[i];
    if (number[static_cast<std::size_t>(v)] >= 0) continue;
    const auto place = std::lower_bound(const_vars_.begin(), const_vars_.end(), v);
    consts.push_back(std::move(consts_[static_cast<std::size_t>(place - const_vars_.begin())]));
    lead(v);
  }
  for (const Var v : inputs_) lead(v);
  const Var num_leading = static_cast<Var>(avals.size());

  const auto rename = [&](Atoms& atoms) {
    for (Atom& a : atoms) {
      if (a.is_var()) a = Atom::var(number[static_cast<std::size_t>(a.var())]);
    }
  };
  std::vector<Eqn> eqns;
  eqns.reserve(live.num_eqns);
  Var next = num_leading;
  eqns_.drain([&](Eqn&& old, std::size_t i) {
    if (!live.eqns[i]) return;
    Eqn& eqn = eqns.emplace_back(std::move(old));
    rename(eqn.inputs);
    for (Var& v : eqn.outputs) v = number[static_cast<std::size_t>(v)] = next++;
  });
  avals_.drain([&](Aval&& aval, std::size_t v) {
    if (number[v] >= num_leading) avals.push_back(std::move(aval));
  });
  rename(outs);

  ClosedJaxpr closed{Jaxpr(num_leading, std::move(avals), std::move(eqns), std::move(outs)),
                     std::move(consts)};
  *this = JaxprBuilder();
  return closed;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
