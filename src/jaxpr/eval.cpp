// eval_jaxpr: binds one primitive after the other, so that what evaluates may itself be traced.
#include <utility>

#include "core/counted.hpp"
#include "core/trace.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/transform_site.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace {

// The variables whose value nobody reads after equation i are dying[begin[i]] .. dying[begin[i+1]].
struct LastUses {
  std::vector<int> begin;
  Vars dying;
};

LastUses last_uses(const Jaxpr& jaxpr) {
  LastUses uses;
  const auto& eqns = jaxpr.eqns();
  // Results live to the end; a variable that nobody reads dies where it is bound.
  const int end = static_cast<int>(eqns.size());
  std::vector<int> last(static_cast<std::size_t>(jaxpr.num_vars()), -1);
  for (int i = 0; i < end; ++i) {
    const Eqn& eqn = eqns[static_cast<std::size_t>(i)];
    for (const Var v : eqn.outputs) last[static_cast<std::size_t>(v)] = i;
    for (const Atom& in : eqn.inputs) {
      if (in.is_var()) last[static_cast<std::size_t>(in.var())] = i;
    }
  }
  for (const Atom& out : jaxpr.outs()) {
    if (out.is_var()) last[static_cast<std::size_t>(out.var())] = end;
  }
  uses.begin.assign(eqns.size() + 1, 0);
  for (const int i : last) {
    if (i >= 0 && i < end) ++uses.begin[static_cast<std::size_t>(i) + 1];
  }
  for (std::size_t i = 0; i < eqns.size(); ++i) uses.begin[i + 1] += uses.begin[i];
  uses.dying.resize(static_cast<std::size_t>(uses.begin.back()));
  std::vector<int> next = uses.begin;
  for (std::size_t v = 0; v < last.size(); ++v) {
    if (last[v] < 0 || last[v] >= end) continue;
    uses.dying[static_cast<std::size_t>(next[static_cast<std::size_t>(last[v])]++)] =
        static_cast<Var>(v);
  }
  return uses;
}

void check_args(const Jaxpr& jaxpr, std::span<const Array> args, SourceLocation where) {
  const detail::TransformSite site(nullptr, where);
  if (args.size() != static_cast<std::size_t>(jaxpr.num_inputs())) {
    throw TypeError("eval_jaxpr: " + detail::counted(args.size(), "operand") +
                    " cannot call jaxpr with " + detail::counted(jaxpr.num_inputs(), "input"));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].has_value()) detail::empty_operand_error("eval_jaxpr", i);
    if (args[i].aval().same_type(jaxpr.avals()[i])) continue;
    throw TypeError("eval_jaxpr: operand " + std::to_string(i) + " is " +
                    args[i].aval().to_string() + " where the jaxpr takes " +
                    jaxpr.avals()[i].to_string());
  }
}

}  // namespace

Arrays eval_jaxpr(const Jaxpr& jaxpr, std::span<const Array> args, SourceLocation where) {
  return detail::naming_lack_of_memory("eval_jaxpr", [&] {
    check_args(jaxpr, args, where);
    const auto uses = jaxpr.memo<LastUses>("last_uses", [&] { return last_uses(jaxpr); });
    Arrays env(static_cast<std::size_t>(jaxpr.num_vars()));
    std::copy(args.begin(), args.end(), env.begin());
    const auto read = [&env](const Atom& a) -> const Array& {
      return a.is_var() ? env[static_cast<std::size_t>(a.var())] : a.literal();
    };
    Arrays operands;
    for (std::size_t i = 0; i < jaxpr.eqns().size(); ++i) {
      const Eqn& eqn = jaxpr.eqns()[i];
      operands.clear();
      for (const Atom& in : eqn.inputs) operands.push_back(read(in));
      const detail::EqnSite site(eqn.where);
      Arrays results = eqn.primitive->bind_erased(eqn.params, operands);
      if (results.size() != eqn.outputs.size()) {
        throw InternalError("primitive '" + std::string(eqn.primitive->name()) + "' gave " +
                            detail::counted(results.size(), "result") +
                            " where its equation binds " + std::to_string(eqn.outputs.size()));
      }
      for (std::size_t j = 0; j < results.size(); ++j) {
        env[static_cast<std::size_t>(eqn.outputs[j])] = std::move(results[j]);
      }
      operands.clear();
      for (int k = uses->begin[i]; k < uses->begin[i + 1]; ++k) {
        env[static_cast<std::size_t>(uses->dying[static_cast<std::size_t>(k)])] = Array();
      }
    }
    Arrays outs;
    outs.reserve(jaxpr.outs().size());
    for (const Atom& out : jaxpr.outs()) outs.push_back(read(out));
    return outs;
  });
}

}  // namespace v1
}  // namespace telamon
