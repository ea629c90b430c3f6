// Lowering to core operations.
#include "compiler/dot.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes.hpp"
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
  ClosedJaxpr run(const Jaxpr& source) {
    const Jaxpr jaxpr = inline_calls(source);
    std::vector<Atom> inputs;
    for (const Aval& aval : jaxpr.in_avals()) inputs.push_back(Atom::var(builder_.add_input(aval)));
    return builder_.build(expand(jaxpr, inputs));
  }

 private:
  // Appends the equations of `jaxpr`, lowered.
  std::vector<Atom> expand(const Jaxpr& jaxpr, const std::vector<Atom>& args) {
    if (++depth_ > 100)
      throw InternalError("lowering does not end: an `ops` rule uses its own primitive");
    Renaming renamed(jaxpr);
    for (const Atom& a : args) renamed.push(a);
    for (const Eqn& eqn : jaxpr.eqns()) {
      const detail::EqnSite site(eqn.where);  // for the error that there is no lowering
      const std::vector<Atom> operands = renamed(eqn.inputs);
      if (const auto* dot =
              eqn.primitive == &dot_general_p ? &eqn.params.as<DotGeneralParams>() : nullptr) {
        renamed.push(lower_dot(eqn, *dot, operands, jaxpr.aval(eqn.outputs[0])));
        continue;
      }
      const auto* ops = std::get_if<Lowering::Ops>(&lowering_of(*eqn.primitive).form);
      if (ops == nullptr) {
        renamed.push(builder_.add_eqn(*eqn.primitive, eqn.params, operands, renamed.out_avals(eqn),
                                      eqn.effect, eqn.where));
        continue;
      }
      for (const Atom& result : expand_ops(*ops, eqn.params, operands)) renamed.push(result);
    }
    --depth_;
    return renamed(jaxpr.outs());
  }

  std::vector<Atom> expand_ops(const Lowering::Ops& ops, const Params& params,
                               const std::vector<Atom>& operands) {
    std::vector<Aval> avals;
    for (const Atom& a : operands) avals.push_back(builder_.aval(a));
    const ClosedJaxpr body =
        detail::stage_flat([&](std::span<const Array> x) { return ops.f(params, x); }, avals);
    std::vector<Atom> args;
    for (const Array& c : body.consts) args.push_back(Atom::var(builder_.add_const(c)));
    args.insert(args.end(), operands.begin(), operands.end());
    return expand(inline_calls(body.jaxpr), args);
  }

  // A matrix product needs the dimensions of each group side by side: a transpose sees to it.
  Atom lower_dot(const Eqn& eqn, DotGeneralParams params, std::vector<Atom> operands,
                 const Aval& out) {
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
    Shape shape;
    for (const std::int64_t d : order) shape.push_back(aval.shape[static_cast<std::size_t>(d)]);
    const Aval to = aval.with_shape(shape);
    const std::int64_t last = aval.ndim() - static_cast<std::int64_t>(contracting.size());
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i < contracting.size(); ++i)
      contracting[i] = last + static_cast<std::int64_t>(i);
    return Atom::var(builder_.add_eqn1(transpose_p, Params::of(TransposeParams{order}), {x}, to));
  }

  JaxprBuilder builder_;
  int depth_ = 0;
};

}  // namespace

ClosedJaxpr lower(const Jaxpr& jaxpr) { return Lowerer().run(jaxpr); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
