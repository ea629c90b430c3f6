// The report of what a backward pass keeps in memory.
#include <algorithm>
#include <ostream>

#include "interpreters/interpreters.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using Describe = std::function<std::string(std::size_t input)>;

// Where a value of a program comes from; inputs by `input`.
std::string describe(const Jaxpr& jaxpr, const Atom& value, const Describe& input) {
  if (value.is_literal()) return "a literal";
  if (value.var() < jaxpr.num_inputs()) return input(static_cast<std::size_t>(value.var()));
  for (const Eqn& eqn : jaxpr.eqns()) {
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      if (eqn.outputs[i] != value.var()) continue;
      if (eqn.primitive == &checkpoint_p || eqn.primitive == &jit_p) {
        const Jaxpr body = eqn.params.jaxprs()[0];
        return describe(body, body.outs()[i], [&](std::size_t operand) {
          return describe(jaxpr, eqn.inputs[operand], input);
        });
      }
      const std::string where = eqn.where ? " from " + eqn.where.to_string() : std::string();
      if (eqn.primitive == &name_p)
        return "named '" + eqn.params.as<NameParams>().name + "'" + where;
      return "output of " + std::string(eqn.primitive->name()) + where;
    }
  }
  return "unknown";
}

bool holds_while(const Eqn& eqn) {
  if (eqn.primitive == &while_p) return true;
  const auto programs = eqn.params.jaxprs();
  return std::any_of(programs.begin(), programs.end(), [](const Jaxpr& program) {
    return std::any_of(program.eqns().begin(), program.eqns().end(), holds_while);
  });
}

// A loop that waits, whole: the number of its steps is not known before it runs, so what they keep
// cannot be reported.
std::string unbounded_loop(const Jaxpr& staged, std::size_t residual) {
  for (const Eqn& eqn : staged.eqns()) {
    if (!holds_while(eqn)) continue;
    for (const Atom& in : eqn.inputs) {
      if (in.is_var() && in.var() == static_cast<Var>(residual))
        return ", and a row for each step of the while_loop without max_steps" +
               (eqn.where ? " from " + eqn.where.to_string() : std::string());
    }
  }
  return {};
}

}  // namespace

std::size_t SavedResiduals::bytes() const {
  std::size_t sum = 0;
  for (const SavedResidual& r : *this)
    sum += static_cast<std::size_t>(r.aval.size()) * size_of(r.aval.dtype);
  return sum;
}

std::string SavedResiduals::to_string() const {
  std::string text;
  for (const SavedResidual& r : *this) text += r.aval.to_string() + " " + r.description + "\n";
  return text;
}

std::ostream& operator<<(std::ostream& os, const SavedResiduals& residuals) {
  return os << residuals.to_string();
}

namespace detail {

SavedResiduals saved_residuals_arrays(const FlatFunction& f, std::span<const Array> args,
                                      const LeafName& leaf_name) {
  const std::vector<Aval> avals = avals_of(args);
  const ClosedJaxpr staged = stage_flat(f, avals, "saved_residuals");
  const Jaxpr program = inline_calls(staged.jaxpr);
  const auto num_consts = static_cast<std::size_t>(staged.num_consts());
  std::vector<bool> nonzero(num_consts, false);
  for (const Aval& aval : avals) nonzero.push_back(is_inexact(aval.dtype));
  const auto num_out = static_cast<std::size_t>(program.num_outputs());
  const auto derived = jvp_jaxpr(program, nonzero, std::vector<bool>(num_out, false));
  std::vector<bool> unknown(nonzero.size(), false);
  unknown.resize(static_cast<std::size_t>(derived->jaxpr.num_inputs()), true);
  const auto halves = partial_eval_jaxpr(
      derived->jaxpr, unknown,
      std::vector<bool>(static_cast<std::size_t>(derived->jaxpr.num_outputs()), false));
  const auto input = [&](std::size_t i) {
    if (i < num_consts) return std::string("from a captured constant");
    return "from the argument " + leaf_name(i - num_consts);
  };
  const auto num_known =
      static_cast<std::size_t>(halves->known.num_outputs()) - halves->fresh_avals.size();
  SavedResiduals report;
  for (const Residual& r : halves->residuals) {
    const auto i = static_cast<std::size_t>(r.index);
    const Atom value = r.kind == Residual::Kind::input    ? Atom::var(r.index)
                       : r.kind == Residual::Kind::output ? halves->known.outs()[i]
                                                          : halves->known.outs()[num_known + i];
    report.push_back(
        {halves->known.aval(value),
         describe(halves->known, value, input) + unbounded_loop(halves->staged, report.size())});
  }
  return report;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
