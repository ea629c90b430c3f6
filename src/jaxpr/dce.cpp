// Dead code elimination: equations without effect whose results nobody uses go. Primitives that carry
// jaxprs have a `dce` rule, which drops unused results and operands inside and out.
#include <algorithm>
#include <optional>

#include "core/counted.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

namespace detail {

Remainder remainder_of(const Eqn& eqn, const std::vector<bool>& used) {
  Remainder r;
  for (const Var v : eqn.outputs) r.used_out.push_back(used[static_cast<std::size_t>(v)]);
  r.live = eqn.effect != Effect::none ||
           std::find(r.used_out.begin(), r.used_out.end(), true) != r.used_out.end();
  if (!r.live) return r;
  if (const auto& rule = eqn.primitive->rules().dce) {
    DceResult result = rule(eqn.params, r.used_out);
    r.params = std::move(result.params);
    r.used_in = std::move(result.used_in);
    if (!result.kept_out.empty()) r.used_out = std::move(result.kept_out);
  } else {
    r.params = eqn.params;
    r.used_in.assign(eqn.inputs.size(), true);
    r.used_out.assign(eqn.outputs.size(), true);
  }
  return r;
}

}  // namespace detail

namespace {

struct Liveness {
  std::vector<detail::Remainder> eqns;
  std::vector<bool> used;  // by variable
  bool changed = false;
};

bool all(const std::vector<bool>& mask) {
  return std::find(mask.begin(), mask.end(), false) == mask.end();
}

// Backwards from the results that are used.
Liveness analyse(const Jaxpr& jaxpr, const std::vector<bool>& used_out) {
  Liveness live;
  live.used.assign(static_cast<std::size_t>(jaxpr.num_vars()), false);
  live.eqns.resize(jaxpr.eqns().size());
  const auto use = [&](const Atom& a) {
    if (a.is_var()) live.used[static_cast<std::size_t>(a.var())] = true;
  };
  for (std::size_t i = 0; i < used_out.size(); ++i) {
    if (used_out[i]) use(jaxpr.outs()[i]);
  }
  for (std::size_t i = jaxpr.eqns().size(); i-- > 0;) {
    const Eqn& eqn = jaxpr.eqns()[i];
    detail::Remainder& r = live.eqns[i] = detail::remainder_of(eqn, live.used);
    live.changed |= !r.live || !all(r.used_in) || !all(r.used_out) || !(r.params == eqn.params);
    if (!r.live) continue;
    for (std::size_t j = 0; j < eqn.inputs.size(); ++j) {
      if (r.used_in[j]) use(eqn.inputs[j]);
    }
  }
  return live;
}

// Writes what is left, over the inputs in `used_in`.
Jaxpr rebuild(const Jaxpr& jaxpr, const Liveness& live, const std::vector<bool>& used_in,
              const std::vector<bool>& used_out) {
  detail::JaxprBuilder builder;
  detail::Renaming rename(jaxpr);
  const Atom gone = Atom::var(0);  // of variables that nobody reads any more
  for (Var v = 0; v < jaxpr.num_inputs(); ++v) {
    rename.push(used_in[static_cast<std::size_t>(v)] ? Atom::var(builder.add_input(jaxpr.aval(v)))
                                                     : gone);
  }
  for (std::size_t i = 0; i < jaxpr.eqns().size(); ++i) {
    const Eqn& eqn = jaxpr.eqns()[i];
    const detail::Remainder& r = live.eqns[i];
    Vars outputs;
    if (r.live) {
      outputs =
          builder.add_eqn(*eqn.primitive, r.params, detail::select(rename(eqn.inputs), r.used_in),
                          detail::select(rename.out_avals(eqn), r.used_out), eqn.effect, eqn.where);
    }
    std::size_t next = 0;
    for (std::size_t j = 0; j < eqn.outputs.size(); ++j) {
      rename.push(r.live && r.used_out[j] ? Atom::var(outputs[next++]) : gone);
    }
  }
  return builder
      .build(rename(detail::select(jaxpr.outs(), used_out)), detail::JaxprBuilder::DeadCode::keep)
      .jaxpr;
}

// A memo must not refer to the jaxpr that owns it, so "unchanged" is no jaxpr at all.
struct DceMemo {
  std::optional<Jaxpr> jaxpr;
  std::vector<bool> used_in;
};

DceMemo compute_dce(const Jaxpr& jaxpr, const std::vector<bool>& used_out) {
  const Liveness live = analyse(jaxpr, used_out);
  DceMemo memo;
  memo.used_in.assign(live.used.begin(), live.used.begin() + jaxpr.num_inputs());
  if (live.changed || !all(memo.used_in) || !all(used_out))
    memo.jaxpr = rebuild(jaxpr, live, memo.used_in, used_out);
  return memo;
}

}  // namespace

DceJaxpr dce_jaxpr(const Jaxpr& jaxpr, const std::vector<bool>& used_out) {
  return detail::naming_lack_of_memory("dce_jaxpr", [&]() -> DceJaxpr {
    if (used_out.size() != jaxpr.outs().size()) {
      throw ValueError("dce_jaxpr: used_out must have one mark for each of " +
                       detail::counted(jaxpr.num_outputs(), "result") + ", but has " +
                       std::to_string(used_out.size()));
    }
    std::string key = "dce ";
    for (const bool used : used_out) key += used ? '1' : '0';
    const auto memo = jaxpr.memo<DceMemo>(key, [&] { return compute_dce(jaxpr, used_out); });
    return {memo->jaxpr.value_or(jaxpr), memo->used_in};
  });
}

Jaxpr eliminate_dead_code(const Jaxpr& jaxpr) {
  return detail::naming_lack_of_memory("eliminate_dead_code", [&] {
    const std::vector<bool> used_out(jaxpr.outs().size(), true);
    const Liveness live = analyse(jaxpr, used_out);
    if (!live.changed) return jaxpr;
    return rebuild(jaxpr, live,
                   std::vector<bool>(static_cast<std::size_t>(jaxpr.num_inputs()), true), used_out);
  });
}

}  // namespace v1
}  // namespace telamon
