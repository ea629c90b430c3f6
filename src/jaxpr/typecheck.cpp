// typecheck_jaxpr: every equation against the abstract_eval rule of its primitive.
#include <algorithm>
#include <ostream>

#include "core/counted.hpp"
#include "core/trace.hpp"
#include "jaxpr/print.hpp"
#include "jaxpr/typecheck.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace {

constexpr std::size_t kWindow = 5;  // equations shown before and after the offending one

// The equation, and its neighbours by their first lines: a message stays readable however long the
// program is.
std::string context(const Jaxpr& jaxpr, std::size_t index) {
  const auto& eqns = jaxpr.eqns();
  std::string text =
      "\nin the equation\n  " +
      detail::indent(detail::first_lines(detail::eqn_text(jaxpr, eqns[index]), detail::kMaxLines),
                     2);
  const std::size_t begin = index > kWindow ? index - kWindow : 0;
  const std::size_t end = std::min(index + kWindow + 1, eqns.size());
  text += "\nwhich is number " + std::to_string(index + 1) + " of " + std::to_string(eqns.size()) +
          " in\n  { lambda ";
  for (Var v = 0; v < jaxpr.num_inputs(); ++v) {
    if (v > 0) text += ", ";
    if (v == 20) {
      text += "...";
      break;
    }
    text += detail::var_name(v) + ":" + jaxpr.aval(v).to_string();
  }
  text += " .";
  if (begin > 0) text += "\n    ...";
  for (std::size_t i = begin; i < end; ++i) {
    text += "\n    " + detail::indent(detail::first_lines(detail::eqn_text(jaxpr, eqns[i]), 1), 4);
  }
  if (end < eqns.size()) text += "\n    ...";
  return text;
}

void check_bound(const Atoms& atoms, Var next) {
  for (const Atom& a : atoms) {
    if (a.is_var() && a.var() >= next)
      throw TypeError("variable '" + detail::var_name(a.var()) + "' is unbound");
    if (a.is_var()) continue;
    if (!a.literal().has_value() || a.literal().is_tracer() || a.literal().ndim() != 0)
      throw TypeError("a literal must be a scalar with a value");
  }
}

void check_binders(const Jaxpr& jaxpr, const Vars& binders, Var& next) {
  for (const Var v : binders) {
    if (v < next) throw TypeError("variable '" + detail::var_name(v) + "' is bound twice");
    if (v != next) {
      throw TypeError("variable '" + detail::var_name(v) + "' is out of order: '" +
                      detail::var_name(next) + "' comes next");
    }
    if (v >= jaxpr.num_vars())
      throw TypeError("variable '" + detail::var_name(v) + "' has no type");
    ++next;
  }
}

void check_eqn(const Jaxpr& jaxpr, const Eqn& eqn) {
  for (const Jaxpr& nested : eqn.params.jaxprs()) typecheck_jaxpr(nested, {});
  std::vector<Aval> avals;
  avals.reserve(eqn.inputs.size());
  for (const Atom& in : eqn.inputs) avals.push_back(jaxpr.aval(in));
  std::vector<Aval> binders;
  binders.reserve(eqn.outputs.size());
  for (const Var v : eqn.outputs) binders.push_back(jaxpr.aval(v));
  detail::check_results(*eqn.primitive, detail::abstract_eval(*eqn.primitive, eqn.params, avals),
                        binders, eqn.effect,
                        [&](std::size_t i) { return detail::var_name(eqn.outputs[i]); });
}

/// check(equation) for each; its errors show the equation.
template <class Check>
void for_each_eqn(const Jaxpr& jaxpr, Check&& check) {
  for (std::size_t i = 0; i < jaxpr.eqns().size(); ++i) {
    const Eqn& eqn = jaxpr.eqns()[i];
    const detail::EqnSite site(eqn.where);
    try {
      check(eqn);
    } catch (const TypeError& error) {
      const detail::EqnSite innermost(error.where());
      throw TypeError(detail::first_lines(error.message(), 2 * detail::kMaxLines) +
                      context(jaxpr, i));
    }
  }
}

std::string aval_list(const std::vector<Aval>& avals) {
  std::string text = "(";
  for (const Aval& aval : avals) {
    if (text.size() > 1) text += ", ";
    text += aval.to_string();
  }
  return text + ")";
}

}  // namespace

namespace detail {

void check_binding(const Jaxpr& jaxpr) {
  Var next = jaxpr.num_inputs();
  if (next < 0 || next > jaxpr.num_vars()) {
    throw TypeError("a jaxpr of " + counted(next, "input") + " with types of " +
                    counted(jaxpr.num_vars(), "variable"));
  }
  for (const Eqn& eqn : jaxpr.eqns()) {
    if (eqn.primitive == nullptr) throw TypeError("an equation has no primitive");
  }
  for_each_eqn(jaxpr, [&](const Eqn& eqn) {
    check_bound(eqn.inputs, next);
    check_binders(jaxpr, eqn.outputs, next);
  });
  check_bound(jaxpr.outs(), next);
  if (next < jaxpr.num_vars()) {
    throw TypeError("variable '" + var_name(next) + "' has a type and is not bound");
  }
}

void check_results(const PrimitiveBase& primitive, const AbstractResult& result,
                   std::span<const Aval> binders, Effect effect,
                   const std::function<std::string(std::size_t)>& name) {
  if (result.avals.size() != binders.size()) {
    throw TypeError("primitive '" + std::string(primitive.name()) + "' has " +
                    counted(result.avals.size(), "result") + ", but its equation binds " +
                    std::to_string(binders.size()));
  }
  for (std::size_t i = 0; i < binders.size(); ++i) {
    if (binders[i].same_type(result.avals[i])) continue;
    throw TypeError("Value for variable '" + name(i) + "' inconsistently typed as " +
                    result.avals[i].to_string() + " for let-binder of type " +
                    binders[i].to_string());
  }
  if (result.effect > effect) {
    throw TypeError("the equation does not carry the effect of primitive '" +
                    std::string(primitive.name()) + "'");
  }
}

}  // namespace detail

std::string JaxprType::to_string() const { return aval_list(in) + " -> " + aval_list(out); }

std::ostream& operator<<(std::ostream& os, const JaxprType& type) { return os << type.to_string(); }

JaxprType typecheck_jaxpr(const Jaxpr& jaxpr, SourceLocation where) {
  return detail::in_call("typecheck_jaxpr", where, [&]() -> JaxprType {
    detail::check_binding(jaxpr);
    for_each_eqn(jaxpr, [&](const Eqn& eqn) { check_eqn(jaxpr, eqn); });
    const std::span<const Aval> in = jaxpr.in_avals();
    return {{in.begin(), in.end()}, jaxpr.out_avals()};
  });
}

}  // namespace v1
}  // namespace telamon
