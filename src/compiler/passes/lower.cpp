// Lowering to core operations.
#include <algorithm>

#include "compiler/by_primitive.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/regions.hpp"
#include "compiler/permutations.hpp"
#include "compiler/plan/dot.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

class Lowerer {
 public:
  explicit Lowerer(bool fold_places) : fold_places_(fold_places) {}

  ClosedJaxpr run(const Jaxpr& source) {
    if (is_low(source)) return {source, {}};
    const Jaxpr jaxpr = inline_calls(source);
    if (!jaxpr.same_as(source) && is_low(jaxpr)) return {jaxpr, {}};
    Atoms inputs;
    for (const Aval& aval : jaxpr.in_avals()) inputs.push_back(Atom::var(builder_.add_input(aval)));
    return builder_.build(expand(jaxpr, inputs));
  }

 private:
  // Whether nothing is to be inlined or lowered, as in most long programs: they stay as they are.
  bool is_low(const Jaxpr& jaxpr) const {
    ByPrimitive<const PrimitiveBase*> low;  // with whatever parameters
    return std::all_of(jaxpr.eqns().begin(), jaxpr.eqns().end(), [&](const Eqn& eqn) {
      const PrimitiveBase*& met = low[eqn.primitive];
      if (met == eqn.primitive) return true;
      if (eqn.params.has_jaxprs() || is_region(*eqn.primitive)) return false;
      const auto operand = [&](std::size_t i) { return jaxpr.aval(eqn.inputs[i]); };
      if (eqn.primitive == &dot_general_p) {
        const auto& params = eqn.params.as<DotGeneralParams>();
        return matrix_product(operand(0), operand(1), params).has_value();
      }
      const Lowering* lowering = eqn.primitive->rules().lowering();
      if (lowering == nullptr) return false;  // which is an error
      if (std::holds_alternative<Lowering::Ops>(lowering->form))
        return finds_place(eqn) && stays(eqn, operand(0));
      met = eqn.primitive;
      return true;
    });
  }

  // Appends the equations of `jaxpr`, lowered.
  Atoms expand(const Jaxpr& jaxpr, const Atoms& args) {
    if (++depth_ > 100)
      throw InternalError("lowering does not end: an `ops` rule uses its own primitive");
    Renaming renamed(jaxpr);
    renamed.push(args);
    for (const Eqn& eqn : jaxpr.eqns()) {
      const detail::EqnSite site(eqn.where);  // for the error that there is no lowering
      const Atoms operands = renamed(eqn.inputs);
      if (const auto* dot =
              eqn.primitive == &dot_general_p ? &eqn.params.as<DotGeneralParams>() : nullptr) {
        renamed.push(lower_dot(eqn, *dot, operands, jaxpr.aval(eqn.outputs[0])));
        continue;
      }
      if (is_region(*eqn.primitive)) {
        renamed.push(lower_region(eqn, operands, renamed.out_avals(eqn)));
        continue;
      }
      const auto* ops = finds_place(eqn) && stays(eqn, builder_.aval(operands[0]))
                            ? nullptr
                            : std::get_if<Lowering::Ops>(&lowering_of(*eqn.primitive).form);
      if (ops == nullptr) {
        renamed.push_eqn(builder_, eqn);
        continue;
      }
      renamed.push(expand_ops(*ops, eqn.params, operands));
    }
    --depth_;
    return renamed(jaxpr.outs());
  }

  // Of argmax and argmin.
  bool stays(const Eqn& eqn, const Aval& operand) const {
    return fold_places_ && folds_place(eqn.params, operand);
  }

  Atoms expand_ops(const Lowering::Ops& ops, const Params& params, const Atoms& operands) {
    const ClosedJaxpr body =
        detail::stage_flat([&](std::span<const Array> x) { return ops.f(params, x); },
                           detail::avals_of(builder_, operands));
    Atoms args = captured(body);
    args.insert(args.end(), operands.begin(), operands.end());
    return expand(inline_calls(body.jaxpr), args);
  }
  Atoms captured(const ClosedJaxpr& closed) {
    Atoms atoms;
    for (const Array& x : closed.consts) atoms.push_back(Atom::var(builder_.add_const(x)));
    return atoms;
  }

  // The programs of a loop or branch are lowered for themselves; what that captured is handed to them
  // as further constants.
  Vars lower_region(const Eqn& eqn, Atoms operands, const Avals& out_avals) {
    std::vector<Jaxpr> programs;
    std::vector<Atoms> constants;
    for (const Region& region : regions_of(eqn)) {
      const ClosedJaxpr lowered = Lowerer(fold_places_).run(*region.jaxpr);
      programs.push_back(lowered.jaxpr);
      constants.push_back(captured(lowered));
    }
    Params params = with_constants(eqn, programs, constants, operands);
    return builder_.add_eqn(*eqn.primitive, std::move(params), std::move(operands), out_avals,
                            eqn.effect, eqn.where);
  }

  // A matrix product needs the dimensions of each group side by side: a transpose sees to it.
  Atom lower_dot(const Eqn& eqn, DotGeneralParams params, Atoms operands, const Aval& out) {
    if (!matrix_product(builder_.aval(operands[0]), builder_.aval(operands[1]), params)) {
      DotDimensionNumbers& dn = params.dimension_numbers;
      operands[0] = grouped(operands[0], dn.lhs_batch, dn.lhs_contracting);
      operands[1] = grouped(operands[1], dn.rhs_batch, dn.rhs_contracting);
    }
    return Atom::var(
        builder_.add_eqn1(dot_general_p, Params::of(params), operands, out, eqn.effect, eqn.where));
  }

  Atom grouped(const Atom& x, Shape& batch, Shape& contracting) {
    const Aval& aval = builder_.aval(x);
    const Shape order = grouped_order(aval.ndim(), batch, contracting);
    const Aval to = aval.with_shape(permuted(order, aval.shape));
    const std::int64_t last = aval.ndim() - static_cast<std::int64_t>(contracting.size());
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i < contracting.size(); ++i)
      contracting[i] = last + static_cast<std::int64_t>(i);
    return Atom::var(builder_.add_eqn1(transpose_p, Params::of(TransposeParams{order}), {x}, to));
  }

  bool fold_places_;
  JaxprBuilder builder_;
  int depth_ = 0;
};

}  // namespace

ClosedJaxpr lower(const Jaxpr& jaxpr, bool fold_places) { return Lowerer(fold_places).run(jaxpr); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
