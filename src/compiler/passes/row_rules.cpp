// The rules of rows, by primitive.
#include "compiler/passes/row_rules.hpp"

#include "compiler/forms.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {
// Bytes: a sum of rounded 16-bit sums has lost more than theirs.
constexpr std::size_t kLeastSummand = 4;
}  // namespace

std::optional<std::vector<Need>> RowRules::needs(const Eqn& e) const {
  std::vector<Need> all(e.inputs.size(), Need::block);
  if (e.effect != Effect::none) return std::nullopt;
  for (const Var v : e.outputs) {
    if (!has_rows(jaxpr_.aval(v), rows_)) return std::nullopt;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (e.inputs[i].is_literal() || shape(e, i).empty()) all[i] = Need::whole;
  }
  if (!through(e, all)) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == Need::block && !has_rows(jaxpr_.aval(e.inputs[i]), rows_)) return std::nullopt;
  }
  return all;
}

std::optional<std::vector<Need>> RowRules::sums(const Eqn& e) const {
  if (e.effect != Effect::none) return std::nullopt;
  for (const Atom& a : e.inputs) {
    if (a.is_literal() || !has_rows(jaxpr_.aval(a), rows_)) return std::nullopt;
  }
  if (size_of(jaxpr_.aval(e.outputs[0]).dtype) < kLeastSummand) return std::nullopt;
  if (e.primitive == &reduce_sum_p && reduction_axes(e).contains(0))
    return std::vector<Need>{Need::block};
  if (e.primitive != &dot_general_p) return std::nullopt;
  const DotDimensionNumbers& dn = e.params.as<DotGeneralParams>().dimension_numbers;
  for (std::size_t i = 0; i < dn.lhs_contracting.size(); ++i) {
    if (dn.lhs_contracting[i] == 0 && dn.rhs_contracting[i] == 0)
      return std::vector<Need>{Need::block, Need::block};
  }
  return std::nullopt;
}

Params RowRules::with_rows(const Eqn& e, std::int64_t rows) {
  const PrimitiveBase* p = e.primitive;
  if (p == &broadcast_in_dim_p) {
    auto params = e.params.as<BroadcastInDimParams>();
    params.shape[0] = rows;
    return Params::of(std::move(params));
  }
  if (p == &reshape_p) {
    auto params = e.params.as<ReshapeParams>();
    params.new_sizes[0] = rows;
    return Params::of(std::move(params));
  }
  if (p == &slice_p) {
    auto params = e.params.as<SliceParams>();
    params.limit_indices[0] = rows;
    return Params::of(std::move(params));
  }
  if (p == &iota_p) {
    auto params = e.params.as<IotaParams>();
    params.shape[0] = rows;
    return Params::of(std::move(params));
  }
  return e.params;
}

bool RowRules::through(const Eqn& e, std::vector<Need>& needs) const {
  const PrimitiveBase* p = e.primitive;
  if (p == &dot_general_p) return product(e, needs);
  if (p == &broadcast_in_dim_p) {
    const Shape& dims = e.params.as<BroadcastInDimParams>().broadcast_dimensions;
    if (dims.empty() || dims[0] != 0 || shape(e, 0)[0] == 1) needs[0] = Need::whole;
    return true;
  }
  if (p == &reshape_p) return true;
  if (p == &transpose_p) return e.params.as<TransposeParams>().permutation[0] == 0;
  if (p == &slice_p) return takes_whole_axis(e.params.as<SliceParams>(), shape(e, 0), 0);
  if (p == &pad_p) return pads_nothing(e.params.as<PadParams>().padding_config[0]);
  if (p == &concatenate_p) return e.params.as<ConcatenateParams>().dimension != 0;
  if (p == &rev_p) return !e.params.as<DimensionsParams>().dimensions.contains(0);
  if (p == &iota_p) return e.params.as<IotaParams>().dimension != 0;
  if (p == &gather_p) return lookup(e, needs);
  const Form form = form_of(jaxpr_, e);
  if (form == Form::reduction) return !reduction_axes(e).contains(0);
  return form == Form::element;
}

// Of a batch, or of rows with a matrix that all of them share.
bool RowRules::product(const Eqn& e, std::vector<Need>& needs) const {
  const DotDimensionNumbers& dn = e.params.as<DotGeneralParams>().dimension_numbers;
  if (e.inputs[0].is_literal() || e.inputs[1].is_literal()) return false;
  if (!dn.lhs_batch.empty()) return dn.lhs_batch[0] == 0 && dn.rhs_batch[0] == 0;
  if (dn.lhs_contracting.contains(0) || shape(e, 0).empty()) return false;
  needs[1] = Need::whole;
  return true;
}

// By index vectors in rows, of the same rows or of what all of them share.
bool RowRules::lookup(const Eqn& e, std::vector<Need>& needs) const {
  const GatherDimensionNumbers& d = e.params.as<GatherParams>().dimension_numbers;
  if (e.inputs[0].is_literal() || e.inputs[1].is_literal() || d.offset_dims.contains(0) ||
      shape(e, 1).size() < 2)
    return false;
  needs[0] = Need::whole;
  for (std::size_t i = 0; i < d.operand_batching_dims.size(); ++i) {
    if (d.start_indices_batching_dims[i] != 0) continue;
    if (d.operand_batching_dims[i] != 0) return false;
    needs[0] = Need::block;
  }
  return true;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
