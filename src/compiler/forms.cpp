// Forms and costs of equations.
#include "compiler/forms.hpp"

#include <algorithm>

#include "compiler/codegen/codegen.hpp"
#include "compiler/executable/program_store.hpp"
#include "core/element.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/native_forms.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

bool native_everywhere(const Jaxpr& jaxpr, const Eqn& eqn) {
  const auto native = [&](const Aval& a) {
    return is_native(a.dtype) || (detail::is_small_float(a.dtype) && moves_elements(eqn));
  };
  return std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                     [&](const Atom& a) { return native(jaxpr.aval(a)); }) &&
         std::all_of(eqn.outputs.begin(), eqn.outputs.end(),
                     [&](Var v) { return native(jaxpr.aval(v)); });
}

/// Whether an equation converts to or from a 16-bit float, by way of an f32 that is exact. Whole numbers that f32 rounds
/// are infinite as f16 in any case.
bool converts_small_floats(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &convert_element_type_p) return false;
  const DType from = jaxpr.aval(eqn.inputs[0]).dtype, to = jaxpr.aval(eqn.outputs[0]).dtype;
  if (is_converted(from)) return is_native(to) || is_converted(to);
  const bool exact = from == DType::f32 || from == DType::bool_ ||
                     (is_integer(from) && (size_of(from) <= 2 || to == DType::f16));
  return exact && is_converted(to);
}

/// Whether generated code can call a kernel of the runtime on numbers that it has no loops for itself.
bool is_native_call(const Jaxpr& jaxpr, const Eqn& eqn, const Lowering& lowering) {
  if (!std::holds_alternative<Lowering::Kernel>(lowering.form) || !is_own_operation(*eqn.primitive))
    return false;
  std::vector<runtime::NativeOperand> operands;
  for (const Atom& a : eqn.inputs) operands.push_back({jaxpr.aval(a)});
  if (operands[0].aval.dtype == DType::float0) return false;  // which has no bytes
  return runtime::native_call(eqn.primitive->name(), eqn.params, operands).has_value();
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
  if (const Lowering* found = primitive.rules().lowering()) return *found;
  throw NotImplementedError("Lowering rule for primitive '" + std::string(primitive.name()) +
                            "' not found for platform cpu");
}

bool works_by_element(const PrimitiveBase& p) {
  const Lowering* lowering = p.rules().lowering();
  return lowering != nullptr && std::holds_alternative<Lowering::Element>(lowering->form);
}

bool moves_elements(const Eqn& eqn) {
  const Lowering* lowering = eqn.primitive->rules().lowering();
  return is_own_operation(*eqn.primitive) && eqn.primitive != &iota_p && lowering != nullptr &&
         std::holds_alternative<Lowering::AtIndex>(lowering->form);
}

bool is_region(const PrimitiveBase& p) { return &p == &scan_p || &p == &while_p || &p == &cond_p; }

Form form_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (is_region(*eqn.primitive)) return Form::region;
  if (eqn.primitive == &optimization_barrier_p) return Form::barrier;
  const bool native = native_everywhere(jaxpr, eqn) || converts_small_floats(jaxpr, eqn);
  if (eqn.primitive == &dot_general_p) return native ? Form::dot : Form::host;
  if (finds_place(eqn)) return native ? Form::reduction : Form::host;
  const Lowering& lowering = lowering_of(*eqn.primitive);
  if (std::holds_alternative<Lowering::Ops>(lowering.form)) return Form::ops;
  if (std::holds_alternative<Lowering::Call>(lowering.form)) return Form::host;
  // What does not live in generated code yet is served by the eager kernels.
  if (!native) return is_native_call(jaxpr, eqn, lowering) ? Form::kernel : Form::host;
  if (std::holds_alternative<Lowering::Kernel>(lowering.form)) return Form::kernel;
  if (std::holds_alternative<Lowering::Reduction>(lowering.form)) return Form::reduction;
  if (std::holds_alternative<Lowering::Element>(lowering.form)) {
    return pointwise_shapes(jaxpr, eqn) ? Form::element : Form::host;
  }
  // The same bits, element by element, unless it changes their number.
  if (eqn.primitive == &bitcast_convert_type_p &&
      size_of(jaxpr.aval(eqn.inputs[0]).dtype) == size_of(jaxpr.aval(eqn.outputs[0]).dtype))
    return Form::element;
  return eqn.primitive == &reshape_p ? Form::reshape : Form::index;
}

bool finds_place(const Eqn& eqn) {
  return eqn.primitive == &argmax_p || eqn.primitive == &argmin_p;
}

bool folds_place(const Params& params, const Aval& operand) {
  // Below, folding the lanes of each row costs more than a second pass.
  constexpr std::int64_t kLeastRow = 128, kLeastColumns = 64;
  const auto& p = params.as<ArgReduceParams>();
  const bool rows = p.axes[0] + 1 == static_cast<std::int64_t>(operand.shape.size());
  return is_native(operand.dtype) && is_native(p.index_dtype) && operand.dtype != DType::bool_ &&
         operand.shape[static_cast<std::size_t>(p.axes[0])] > kShortRow &&
         operand.shape.back() >= (rows ? kLeastRow : kLeastColumns);
}

DType place_type(const Aval& operand) {
  return size_of(operand.dtype) <= 4 && operand.size() <= INT32_MAX ? DType::i32 : DType::i64;
}

Shape reduction_axes(const Eqn& eqn) {
  if (finds_place(eqn)) return eqn.params.as<ArgReduceParams>().axes;
  return std::get<Lowering::Reduction>(lowering_of(*eqn.primitive).form).axes(eqn.params);
}

bool weaves(const Params& params, const Avals& parts, const Aval& out) {
  // There may be as many parts as columns where some parts are empty, and others wider.
  const auto is_column = [&](const Aval& a) { return a.shape.back() == 1; };
  return parts.size() >= 2 && parts.size() <= kMostWoven &&
         params.as<ConcatenateParams>().dimension + 1 == static_cast<std::int64_t>(out.ndim()) &&
         out.ndim() > 1 && std::all_of(parts.begin(), parts.end(), is_column) &&
         (is_native(out.dtype) || detail::is_small_float(out.dtype));
}
bool weaves(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &concatenate_p || eqn.inputs.size() > kMostWoven) return false;
  return weaves(eqn.params, detail::avals_of(jaxpr, eqn.inputs), jaxpr.aval(eqn.outputs[0]));
}

bool stacks(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &concatenate_p || weaves(jaxpr, eqn)) return false;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const Shape& part = jaxpr.aval(eqn.inputs[0]).shape;
  for (std::int64_t d = 0; d < eqn.params.as<ConcatenateParams>().dimension; ++d) {
    if (out.shape[static_cast<std::size_t>(d)] != 1) return false;
  }
  return is_native(out.dtype) &&
         std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                     [&](const Atom& a) { return a.is_var() && jaxpr.aval(a).shape == part; });
}

bool joins_parts(const Jaxpr& jaxpr, const Eqn& eqn) {
  // Single elements side by side are soon chosen among: stacked numbers within a loop, say.
  constexpr std::size_t kFew = 32, kFewSingle = 128;
  if (eqn.primitive != &concatenate_p || eqn.inputs.size() <= kFew || weaves(jaxpr, eqn))
    return false;
  const auto d = static_cast<std::size_t>(eqn.params.as<ConcatenateParams>().dimension);
  const bool single = std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                                  [&](const Atom& a) { return jaxpr.aval(a).shape[d] == 1; });
  return eqn.inputs.size() > (single ? kFewSingle : kFew) && form_of(jaxpr, eqn) == Form::index;
}

bool reads_window(const Eqn& eqn) {
  return eqn.primitive == &dynamic_slice_p || eqn.primitive == &gather_p;
}

const Shape& window_of(const Eqn& eqn) {
  return eqn.primitive == &gather_p ? eqn.params.as<GatherParams>().slice_sizes
                                    : eqn.params.as<DynamicSliceParams>().slice_sizes;
}

std::size_t contiguous_dim(const Jaxpr& jaxpr, const Eqn& transpose) {
  const Shape& from = jaxpr.aval(transpose.inputs[0]).shape;
  std::size_t last = from.size() - 1;
  while (last > 0 && from[last] == 1) --last;
  const Shape& order = transpose.params.as<TransposeParams>().permutation;
  return static_cast<std::size_t>(
      std::find(order.begin(), order.end(), static_cast<std::int64_t>(last)) - order.begin());
}

std::int64_t row_at_place(const Jaxpr& jaxpr, const Eqn& gather) {
  const Shape& of_window = gather.params.as<GatherParams>().dimension_numbers.offset_dims;
  const Shape& out = jaxpr.aval(gather.outputs[0]).shape;
  std::int64_t row = 1;
  for (auto d = static_cast<std::int64_t>(out.size()) - 1; d >= 0 && of_window.contains(d); --d)
    row *= out[static_cast<std::size_t>(d)];
  return row;
}

bool looks_up_short_rows(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &gather_p || !eqn.inputs[0].is_var()) return false;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const Shape& window = window_of(eqn);
  const Shape& offset = eqn.params.as<GatherParams>().dimension_numbers.offset_dims;
  if (out.ndim() == 0 || window.empty() || is_complex(out.dtype)) return false;
  const std::int64_t k = window.back();
  return k >= 2 && k <= kShortRow && window.num_elements() == k &&
         jaxpr.aval(eqn.inputs[0]).shape.back() == k && offset.size() == 1 &&
         offset[0] + 1 == out.ndim();
}

bool begins_anywhere(const Eqn& eqn, std::size_t axis) {
  if (eqn.primitive == &dynamic_slice_p) return eqn.inputs[1 + axis].is_var();
  const Shape& map = eqn.params.as<GatherParams>().dimension_numbers.start_index_map;
  return map.contains(static_cast<std::int64_t>(axis));
}

bool looks_for_window(const Jaxpr& jaxpr, const Eqn& eqn) {
  constexpr std::int64_t kFewLanes = 16;
  if (eqn.primitive != &dynamic_update_slice_p) return false;
  const Shape &shape = jaxpr.aval(eqn.outputs[0]).shape, &window = jaxpr.aval(eqn.inputs[1]).shape;
  std::size_t d = shape.size();
  std::int64_t behind = 1;
  while (d > 0 && window[d - 1] == shape[d - 1] && behind < kFewLanes) behind *= shape[--d];
  return d > 0 && behind < kFewLanes && window[d - 1] * behind > 1 &&
         window[d - 1] < shape[d - 1] && eqn.inputs[1 + d].is_var();
}

bool has_large_values(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    return std::any_of(j.avals().begin(), j.avals().end(), is_large);
  });
}

int element_cost(const Eqn& eqn) {
  const Lowering* lowering = eqn.primitive->rules().lowering();
  const Lowering::Cost cost = lowering ? lowering->cost : Lowering::Cost{};
  return cost.cycles + cost.per_operand * static_cast<int>(eqn.inputs.size());
}

bool can_be_evaluated(const PrimitiveBase& primitive) {
  return is_own_operation(primitive) && primitive.rules().impl != nullptr;
}
std::optional<Arrays> evaluated(const PrimitiveBase& primitive, const Params& params,
                                const Arrays& operands) {
  if (!can_be_evaluated(primitive)) return std::nullopt;
  const detail::EvalScope scope;
  try {
    return primitive.rules().impl(params, operands);
  } catch (const OutOfMemoryError&) { throw; } catch (const Error&) {
    return std::nullopt;
  }
}

const Primitive<>* combination(const PrimitiveBase* reduction) {
  if (reduction == &reduce_sum_p) return &add_p;
  if (reduction == &reduce_max_p) return &max_p;
  if (reduction == &reduce_min_p) return &min_p;
  if (reduction == &reduce_prod_p) return &mul_p;
  if (reduction == &reduce_or_p) return &or_p;
  if (reduction == &reduce_and_p) return &and_p;
  return nullptr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
