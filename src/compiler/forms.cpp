// Forms and costs of equations.
#include "compiler/forms.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/codegen.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

struct Cost {
  std::string_view name;
  int cycles;
};
// Sorted. What is absent costs 1.
constexpr std::array kCosts = {
    Cost{"acos", 25},
    Cost{"acosh", 40},
    Cost{"asin", 25},
    Cost{"asinh", 40},
    Cost{"atan", 25},
    Cost{"atan2", 30},
    Cost{"atanh", 30},
    Cost{"broadcast_in_dim", 0},
    Cost{"cbrt", 25},
    Cost{"concatenate", 6},
    Cost{"convert_element_type", 1},
    Cost{"cos", 20},
    Cost{"cosh", 25},
    Cost{"div", 5},
    Cost{"dynamic_slice", 2},
    Cost{"dynamic_update_slice", 6},
    Cost{"erf", 25},
    Cost{"erf_inv", 40},
    Cost{"exp", 15},
    Cost{"exp2", 15},
    Cost{"expm1", 20},
    Cost{"gather", 8},
    Cost{"log", 15},
    Cost{"log1p", 20},
    Cost{"logistic", 20},
    Cost{"pad", 4},
    Cost{"pow", 40},
    Cost{"rem", 30},
    Cost{"reshape", 0},
    Cost{"rsqrt", 6},
    Cost{"sin", 20},
    Cost{"sinh", 25},
    Cost{"sqrt", 5},
    Cost{"squeeze", 0},
    Cost{"tan", 25},
    Cost{"tanh", 20},
    Cost{"threefry2x32", 100},
    Cost{"transpose", 1},
};

bool native_everywhere(const Jaxpr& jaxpr, const Eqn& eqn) {
  const auto native = [](const Aval& a) { return is_native(a.dtype); };
  return std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                     [&](const Atom& a) { return native(jaxpr.aval(a)); }) &&
         std::all_of(eqn.outputs.begin(), eqn.outputs.end(),
                     [&](Var v) { return native(jaxpr.aval(v)); });
}

// Each operand has the result's shape or is a scalar.
bool pointwise_shapes(const Jaxpr& jaxpr, const Eqn& eqn) {
  const Shape& shape = jaxpr.aval(eqn.outputs[0]).shape;
  return std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                     [&](const Atom& a) {
                       return jaxpr.aval(a).shape == shape || jaxpr.aval(a).shape.empty();
                     }) &&
         std::all_of(eqn.outputs.begin(), eqn.outputs.end(),
                     [&](Var v) { return jaxpr.aval(v).shape == shape; });
}

}  // namespace

const Lowering& lowering_of(const PrimitiveBase& primitive) {
  const auto& table = primitive.rules().lower;
  const auto found = table.find("cpu");
  if (found == table.end() || !found->second) {
    throw NotImplementedError("Lowering rule for primitive '" + std::string(primitive.name()) +
                              "' not found for platform cpu");
  }
  return found->second;
}

bool is_region(const PrimitiveBase& p) { return &p == &scan_p || &p == &while_p || &p == &cond_p; }

Form form_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (is_region(*eqn.primitive)) return Form::region;
  if (eqn.primitive == &optimization_barrier_p) return Form::barrier;
  const bool native = native_everywhere(jaxpr, eqn);
  if (eqn.primitive == &dot_general_p) return native ? Form::dot : Form::host;
  const Lowering& lowering = lowering_of(*eqn.primitive);
  if (std::holds_alternative<Lowering::Ops>(lowering.form)) return Form::ops;
  if (std::holds_alternative<Lowering::Call>(lowering.form)) return Form::host;
  // What does not live in generated code yet is served by the eager kernels.
  if (!native) return Form::host;
  if (std::holds_alternative<Lowering::Kernel>(lowering.form)) return Form::kernel;
  if (std::holds_alternative<Lowering::Reduction>(lowering.form)) return Form::reduction;
  if (std::holds_alternative<Lowering::Element>(lowering.form)) {
    return pointwise_shapes(jaxpr, eqn) ? Form::element : Form::host;
  }
  const PrimitiveBase* p = eqn.primitive;
  if (p == &reshape_p || p == &squeeze_p || p == &expand_dims_p) return Form::reshape;
  return Form::index;
}

Shape reduction_axes(const Eqn& eqn) {
  return std::get<Lowering::Reduction>(lowering_of(*eqn.primitive).form).axes(eqn.params);
}

int element_cost(const Eqn& eqn) {
  const auto found =
      std::lower_bound(kCosts.begin(), kCosts.end(), eqn.primitive->name(),
                       [](const Cost& c, std::string_view name) { return c.name < name; });
  if (found != kCosts.end() && found->name == eqn.primitive->name()) {
    if (eqn.primitive == &concatenate_p) return 3 * static_cast<int>(eqn.inputs.size());
    return found->cycles;
  }
  return 1;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
