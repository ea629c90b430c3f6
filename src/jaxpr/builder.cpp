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

const Vars& JaxprBuilder::add_eqn(const PrimitiveBase& primitive, Params params,
                                              Atoms inputs,
                                              std::span<const Aval> out_avals, Effect effect,
                                              SourceLocation where) {
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
  std::vector<Aval> out_avals;
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

// Which equations stay; `used` gets the variables that they and the results read.
std::vector<bool> JaxprBuilder::mark_live(const Atoms& outs, DeadCode dead_code,
                                          std::vector<bool>& used) {
  const auto use = [&](std::span<const Atom> atoms) {
    for (const Atom& a : atoms) {
      if (a.is_var()) used[static_cast<std::size_t>(a.var())] = true;
    }
  };
  std::vector<bool> live(eqns_.size(), dead_code == DeadCode::keep);
  use(outs);
  for (std::size_t i = eqns_.size(); i-- > 0;) {
    Eqn& eqn = eqns_[i];
    if (eqn.effect != Effect::none) live[i] = true;
    for (const Var v : eqn.outputs) live[i] = live[i] || used[static_cast<std::size_t>(v)];
    if (!live[i]) continue;
    if (dead_code == DeadCode::remove) drop_unused(eqn, used);
    use(eqn.inputs);
  }
  return live;
}

// Whether `build` would give every variable the number that it has: nothing is left out, nothing was
// captured, and the inputs came first.
static bool is_dense(const Vars& inputs, const ChunkedList<Eqn>& eqns,
                     const std::vector<bool>& live, std::size_t num_vars) {
  std::size_t next = 0;
  for (const Var v : inputs) {
    if (v != static_cast<Var>(next++)) return false;
  }
  for (std::size_t i = 0; i < eqns.size(); ++i) {
    if (!live[i]) return false;
    next += eqns[i].outputs.size();  // in ascending order, but perhaps not all that there were
  }
  return next == num_vars;
}

ClosedJaxpr JaxprBuilder::build(Atoms outs, DeadCode dead_code) {
  std::vector<bool> used(avals_.size(), false);
  const std::vector<bool> live = mark_live(outs, dead_code, used);
  if (is_dense(inputs_, eqns_, live, avals_.size())) {
    const int num_inputs = static_cast<int>(inputs_.size());
    ClosedJaxpr closed{Jaxpr(num_inputs, avals_.take(), eqns_.take(), std::move(outs)), {}};
    *this = JaxprBuilder();
    return closed;
  }

  // Constants in the order of their first use, then the inputs, then the results.
  Vars number(avals_.size(), -1);
  std::vector<int> const_index(avals_.size(), -1);
  for (std::size_t i = 0; i < const_vars_.size(); ++i)
    const_index[static_cast<std::size_t>(const_vars_[i])] = static_cast<int>(i);
  std::vector<Aval> avals;
  avals.reserve(avals_.size());
  const auto assign = [&](Var v) {
    number[static_cast<std::size_t>(v)] = static_cast<Var>(avals.size());
    avals.push_back(std::move(avals_[static_cast<std::size_t>(v)]));
  };
  Arrays consts;
  const auto visit_consts = [&](std::span<const Atom> atoms) {
    for (const Atom& a : atoms) {
      if (!a.is_var()) continue;
      const auto v = static_cast<std::size_t>(a.var());
      if (const_index[v] < 0 || number[v] >= 0) continue;
      consts.push_back(consts_[static_cast<std::size_t>(const_index[v])]);
      assign(a.var());
    }
  };
  if (!const_vars_.empty()) {
    for (std::size_t i = 0; i < eqns_.size(); ++i) {
      if (live[i]) visit_consts(eqns_[i].inputs);
    }
    visit_consts(outs);
  }
  for (const Var v : inputs_) assign(v);

  const auto rename = [&](Atoms& atoms) {
    for (Atom& a : atoms) {
      if (a.is_var()) a = Atom::var(number[static_cast<std::size_t>(a.var())]);
    }
  };
  std::vector<Eqn> eqns;
  eqns.reserve(static_cast<std::size_t>(std::count(live.begin(), live.end(), true)));
  for (std::size_t i = 0; i < eqns_.size(); ++i) {
    if (!live[i]) continue;
    Eqn& eqn = eqns.emplace_back(std::move(eqns_[i]));
    rename(eqn.inputs);
    for (Var& v : eqn.outputs) {
      assign(v);
      v = number[static_cast<std::size_t>(v)];
    }
  }
  rename(outs);

  const int num_inputs = static_cast<int>(consts.size() + inputs_.size());
  ClosedJaxpr closed{Jaxpr(num_inputs, std::move(avals), std::move(eqns), std::move(outs)),
                     std::move(consts)};
  *this = JaxprBuilder();
  return closed;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
