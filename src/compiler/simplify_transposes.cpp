// Rules that move transposes outwards until something takes them up: another transpose, a fold, a
// matrix product.
#include <algorithm>

#include "compiler/dot.hpp"
#include "compiler/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

// ---- transposes move outwards, until something takes them up --------------------------------------
Shape permuted(const Shape& dims, const Shape& permutation) {
  Shape out;
  for (const std::int64_t d : dims) out.push_back(permutation[static_cast<std::size_t>(d)]);
  return out;
}
namespace {

/// The operand of a transpose that nothing else reads, if `a` is one of this permutation (or of any,
/// which becomes the permutation).
const Atom* transposed(Simplifier& s, const Atom& a, const Shape*& permutation) {
  const Eqn* inner = s.used_once(a) ? s.defined_by(a, transpose_p) : nullptr;
  if (inner == nullptr) return nullptr;
  const Shape& this_one = inner->params.as<TransposeParams>().permutation;
  if (permutation != nullptr && *permutation != this_one) return nullptr;
  permutation = &this_one;
  return &inner->inputs[0];
}
}  // namespace

// f(transpose(x), transpose(y)) = transpose(f(x, y)), element by element.
std::optional<Atom> element_of_transposes(Simplifier& s, const Eqn& e, const Aval& out) {
  const Lowering* lowering = e.primitive->rules().lowering();
  if (lowering == nullptr || !std::holds_alternative<Lowering::Element>(lowering->form))
    return std::nullopt;
  const Shape* permutation = nullptr;
  std::vector<Atom> inputs;
  for (const Atom& a : e.inputs) {
    const Atom* x = s.aval(a).shape.empty() ? &a : transposed(s, a, permutation);
    if (x == nullptr && s.splat(a) == nullptr) return std::nullopt;
    inputs.push_back(x == nullptr ? a : *x);
  }
  if (permutation == nullptr) return std::nullopt;
  const TransposeParams outer{*permutation};
  Shape shape(outer.permutation.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d)
    shape[static_cast<std::size_t>(outer.permutation[d])] = out.shape[d];
  for (Atom& x : inputs) {
    const Array* all = s.splat(x);
    if (all == nullptr || s.aval(x).shape.empty() || s.aval(x).shape == shape) continue;
    x = s.make(broadcast_in_dim_p, BroadcastInDimParams{shape, {}}, {Atom::literal(*all)},
               s.aval(x).with_shape(shape));
  }
  const Atom inner = s.make(*e.primitive, e.params, std::move(inputs), out.with_shape(shape));
  return s.make(transpose_p, outer, {inner}, out);
}
// A fold of transpose(x) is one of x over other axes; what is left of the transpose comes after it.
std::optional<Atom> reduction_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape* permutation = nullptr;
  const Atom* x = transposed(s, e.inputs[0], permutation);
  if (x == nullptr) return std::nullopt;
  const Shape axes = e.params.as<AxesParams>().axes;
  Shape from = permuted(axes, *permutation);
  std::sort(from.begin(), from.end());
  const auto before = [&](const Shape& dims, std::int64_t d) {
    return std::count_if(dims.begin(), dims.end(), [d](std::int64_t x) { return x < d; });
  };
  Shape shape, order;
  for (std::int64_t d = 0; d < permutation->ndim(); ++d) {
    if (!from.contains(d)) shape.push_back(s.aval(*x).shape[static_cast<std::size_t>(d)]);
    if (axes.contains(d)) continue;
    const std::int64_t source = (*permutation)[static_cast<std::size_t>(d)];
    order.push_back(source - before(from, source));
  }
  const Atom inner =
      s.make(*e.primitive, Params::of(AxesParams{from}), {*x}, out.with_shape(shape));
  return s.make(transpose_p, TransposeParams{order}, {inner}, out);
}

// ---- matrix products -----------------------------------------------------------------------------
// dot(transpose(x), y) reads x as it lies: the dimensions get other numbers. The free dimensions of x
// must come in the same order, and each group must lie side by side in memory.
std::optional<Atom> dot_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t side : {0, 1}) {
    const Eqn* inner = s.defined_by(e.inputs[side], transpose_p);
    if (inner == nullptr) continue;
    const Shape& permutation = inner->params.as<TransposeParams>().permutation;
    DotGeneralParams params = e.params.as<DotGeneralParams>();
    DotDimensionNumbers& dn = params.dimension_numbers;
    Shape& batch = side == 0 ? dn.lhs_batch : dn.rhs_batch;
    Shape& contracting = side == 0 ? dn.lhs_contracting : dn.rhs_contracting;
    const Shape free = permuted(free_dims(permutation.ndim(), batch, contracting), permutation);
    if (!std::is_sorted(free.begin(), free.end())) continue;
    batch = permuted(batch, permutation);
    contracting = permuted(contracting, permutation);
    std::vector<Atom> inputs = e.inputs;
    inputs[side] = inner->inputs[0];
    if (!matrix_product(s.aval(inputs[0]), s.aval(inputs[1]), params)) continue;
    return s.make(dot_general_p, params, std::move(inputs), out);
  }
  return std::nullopt;
}
// transpose(dot(x, y)) = dot(y, x) where it exchanges the free dimensions of x and y. Products and
// their sums are the same numbers.
std::optional<Atom> transpose_of_dot(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* dot = s.defined_by(e.inputs[0], dot_general_p);
  if (dot == nullptr || !s.used_once(e.inputs[0])) return std::nullopt;
  const Shape& permutation = e.params.as<TransposeParams>().permutation;
  DotGeneralParams params = dot->params.as<DotGeneralParams>();
  DotDimensionNumbers& dn = params.dimension_numbers;
  const std::int64_t batch = dn.lhs_batch.ndim();
  const std::int64_t rows = s.aval(dot->inputs[0]).ndim() - batch - dn.lhs_contracting.ndim();
  Shape exchanged;
  for (std::int64_t d = 0; d < batch; ++d) exchanged.push_back(d);
  for (std::int64_t d = batch + rows; d < permutation.ndim(); ++d) exchanged.push_back(d);
  for (std::int64_t d = batch; d < batch + rows; ++d) exchanged.push_back(d);
  if (permutation != exchanged) return std::nullopt;
  std::swap(dn.lhs_batch, dn.rhs_batch);
  std::swap(dn.lhs_contracting, dn.rhs_contracting);
  return s.make(dot_general_p, params, {dot->inputs[1], dot->inputs[0]}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
