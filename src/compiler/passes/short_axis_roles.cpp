// Roles of equations, by primitive.
#include "compiler/passes/short_axis_roles.hpp"

#include <algorithm>

#include "compiler/codegen/codegen.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/element.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kShortest = 2;
constexpr std::int64_t kLongestMoved = 5;  // rows that are moved as a whole in between
constexpr std::size_t kMostFactors = 72;   // bytes of a matrix that rows are multiplied by

// Complex numbers go through calls, of which there would be one for each column.
bool has_axis_of(const Aval& a, std::int64_t longest) {
  return !is_complex(a.dtype) && a.ndim() >= 1 && a.shape.back() >= kShortest &&
         a.shape.back() <= longest && a.size() > 0;
}
bool has_short_axis(const Aval& a) { return has_axis_of(a, kLongestRow); }

/// Whether transposes turn squares of as many vectors as there are rows (emit_transpose.cpp), which is faster.
bool by_squares(const Aval& out) {
  if (size_of(out.dtype) == 1)  // of 32 bytes
    return out.shape.back() == 4 && runtime::target_vector_bytes() < 64;
  const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / size_of(out.dtype));
  return out.shape.back() % lanes == 0;
}

/// Whether a slice leaves all axes but the last as they are.
bool cuts_last_axis(const Shape& from, const SliceParams& p) {
  return leaves_dimensions(from, p, from.size() - 1);
}

/// Whether nothing is put before, behind or between the elements of the axes but the last, and nothing is taken away.
bool pads_last_axis(const Aval& from, const PadParams& p) {
  const auto& [low, high, interior] = p.padding_config.back();
  return from.size() > 0 && low >= 0 && high >= 0 && interior >= 0 &&
         std::all_of(p.padding_config.begin(), p.padding_config.end() - 1, pads_nothing);
}

/// Whether a transpose moves an axis to the end, and leaves the others in their order.
bool brings_to_end(const Shape& order) {
  for (std::size_t d = 0; d + 2 < order.size(); ++d) {
    if (order[d] > order[d + 1]) return false;
  }
  return order.back() + 1 != order.ndim();
}

bool is_product_of_rows(const Jaxpr& jaxpr, const Eqn& eqn) {
  return eqn.primitive == &dot_general_p && eqn.inputs[0].is_var() && eqn.inputs[1].is_var() &&
         multiplies_rows(jaxpr.aval(eqn.inputs[0]), jaxpr.aval(eqn.inputs[1]),
                         jaxpr.aval(eqn.outputs[0]), eqn.params.as<DotGeneralParams>());
}

/// Whether a slice is one component of its operand.
bool takes_column(const Jaxpr& jaxpr, const Eqn& eqn) {
  return eqn.primitive == &slice_p && eqn.inputs[0].is_var() &&
         may_be_apart(jaxpr.aval(eqn.inputs[0])) && jaxpr.aval(eqn.outputs[0]).shape.back() == 1 &&
         cuts_last_axis(jaxpr.aval(eqn.inputs[0]).shape, eqn.params.as<SliceParams>());
}

// Longer rows are taken apart only where they are stacked of single columns.
AxisRole joined_role(const Jaxpr& jaxpr, const Eqn& eqn) {
  const bool is_short = has_short_axis(jaxpr.aval(eqn.outputs[0]));
  return is_short || weaves(jaxpr, eqn) ? AxisRole::joined : AxisRole::none;
}

}  // namespace

bool may_be_apart(const Aval& a) { return has_axis_of(a, kLongestOfPairs); }

bool by_columns(const Aval& a) {
  constexpr std::int64_t kOfBytes = 4;
  return (is_native(a.dtype) || detail::is_small_float(a.dtype)) && a.ndim() >= 2 &&
         (size_of(a.dtype) > 1 || a.shape.back() <= kOfBytes);
}

bool leaves_last_axis(const Jaxpr& jaxpr, const Eqn& eqn) {
  const PrimitiveBase* p = eqn.primitive;
  const Shape& to = jaxpr.aval(eqn.outputs[0]).shape;
  const auto last = static_cast<std::int64_t>(to.size()) - 1;
  if (to.back() > kLongestMoved) return false;
  const auto apart = [&](const Atom& a) { return a.is_var() && may_be_apart(jaxpr.aval(a)); };
  if (p == &concatenate_p) {
    return eqn.params.as<ConcatenateParams>().dimension != last &&
           std::all_of(eqn.inputs.begin(), eqn.inputs.end(), apart);
  }
  if (eqn.inputs.empty() || !apart(eqn.inputs[0])) return false;
  const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
  if (p == &slice_p) return takes_whole_axis(eqn.params.as<SliceParams>(), from, from.size() - 1);
  if (p == &dynamic_slice_p)
    return eqn.params.as<DynamicSliceParams>().slice_sizes.back() == from.back();
  if (p == &pad_p) return pads_nothing(eqn.params.as<PadParams>().padding_config.back());
  return p == &rev_p && !eqn.params.as<DimensionsParams>().dimensions.contains(last);
}

AxisRole role_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.effect != Effect::none || eqn.outputs.size() != 1) return AxisRole::none;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const PrimitiveBase* p = eqn.primitive;
  const bool is_short = has_short_axis(out);
  if (combination(p) != nullptr) {
    if (!eqn.inputs[0].is_var() || !may_be_apart(jaxpr.aval(eqn.inputs[0]))) return AxisRole::none;
    const auto last = static_cast<std::int64_t>(jaxpr.aval(eqn.inputs[0]).ndim()) - 1;
    const Shape axes = reduction_axes(eqn);
    if (axes.contains(last)) return AxisRole::folded;
    return may_be_apart(out) && out.shape.back() == jaxpr.aval(eqn.inputs[0]).shape.back()
               ? AxisRole::through
               : AxisRole::none;
  }
  if (is_product_of_rows(jaxpr, eqn)) return AxisRole::product;
  if (takes_column(jaxpr, eqn)) return AxisRole::column;
  if (!may_be_apart(out)) return AxisRole::none;
  if (p == &broadcast_in_dim_p) {
    const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
    const auto last = static_cast<std::int64_t>(out.ndim()) - 1;
    if (dims.empty() || dims.back() != last) return AxisRole::spread;
    const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
    if (from.back() == 1) return AxisRole::spread;
    return AxisRole::through;
  }
  if (p == &reshape_p) {
    if (!eqn.inputs[0].is_var()) return AxisRole::none;
    const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
    return from.ndim() >= 1 && from.back() == out.shape.back() ? AxisRole::through : AxisRole::none;
  }
  if (form_of(jaxpr, eqn) == Form::element || leaves_last_axis(jaxpr, eqn))
    return AxisRole::through;
  if (p == &concatenate_p) {
    const bool last = eqn.params.as<ConcatenateParams>().dimension + 1 == out.ndim();
    return by_columns(out) && last ? joined_role(jaxpr, eqn) : AxisRole::none;
  }
  if (!is_short) return AxisRole::none;
  if (p == &iota_p) {
    const auto last = static_cast<std::int64_t>(out.ndim()) - 1;
    return eqn.params.as<IotaParams>().dimension == last ? AxisRole::counted : AxisRole::none;
  }
  if (p == &transpose_p) {
    const Shape& order = eqn.params.as<TransposeParams>().permutation;
    if (order.back() + 1 == order.ndim()) return AxisRole::through;
    return by_columns(out) && !by_squares(out) && brings_to_end(order) ? AxisRole::planes
                                                                       : AxisRole::none;
  }
  if (p == &slice_p) {
    const Aval& from = jaxpr.aval(eqn.inputs[0]);
    return by_columns(out) && has_short_axis(from) &&
                   cuts_last_axis(from.shape, eqn.params.as<SliceParams>())
               ? AxisRole::part
               : AxisRole::none;
  }
  if (p == &rev_p) {
    // Vectors hold whole rows of 8, as fast. Columns of what is turned along other axes, too, are read one by one.
    const bool last = eqn.params.as<DimensionsParams>().dimensions ==
                      Shape{static_cast<std::int64_t>(out.ndim()) - 1};
    return by_columns(out) && last && out.shape.back() < kShortRow ? AxisRole::turned
                                                                   : AxisRole::none;
  }
  if (p == &pad_p) {
    return by_columns(out) && pads_last_axis(jaxpr.aval(eqn.inputs[0]), eqn.params.as<PadParams>())
               ? AxisRole::padded
               : AxisRole::none;
  }
  return AxisRole::none;
}

bool multiplies_rows(const Aval& x, const Aval& by, const Aval& out, const DotGeneralParams& p) {
  const DotDimensionNumbers& dn = p.dimension_numbers;
  const bool native = x.dtype == DType::f32 || x.dtype == DType::f64;
  if (!native || by.dtype != x.dtype || out.dtype != x.dtype || !dn.lhs_batch.empty() ||
      dn.lhs_contracting != Shape{x.ndim() - 1} || dn.rhs_contracting.size() != 1)
    return false;
  const std::size_t size = size_of(x.dtype);
  if (!has_short_axis(x) || x.size() < kLeastSize || by.ndim() > 2 ||
      static_cast<std::size_t>(by.size()) * size > kMostFactors)
    return false;
  // Where the columns of the result fill a vector, or rows of 8 are summed, products with lanes along these are
  // faster, as they are for larger matrices: on Zen 3 rows of 8 by 1 take 0.86 of the time, of 4 by 4 x 8 0.7. For 3 x 3
  // columns take 0.43 of it, and their kernel goes on with the results, for which 4 x 4 is worth it, too.
  if (by.ndim() == 1) return x.shape.back() != kShortRow;
  return has_short_axis(out) && by_columns(out) &&
         static_cast<std::size_t>(out.shape.back()) * size < runtime::target_vector_bytes();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
