// Rules that move transposes outwards until something takes them up: another transpose, a fold, a
// matrix product.
#include <algorithm>

#include "compiler/codegen/codegen.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/permutations.hpp"
#include "compiler/plan/dot.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

// ---- transposes move outwards, until something takes them up --------------------------------------
namespace {

constexpr std::int64_t kMuchSmaller = 8;

/// The operand of a transpose that nothing else reads, or that all readers take up, if `a` is one of this
/// permutation (or of any, which becomes the permutation). Of a matrix product, which lies in memory as it comes, everybody
/// may read the transpose.
const Atom* transposed(Simplifier& s, const Atom& a, const Shape*& permutation) {
  const Eqn* inner = s.defined_by(a, transpose_p);
  if (inner == nullptr) return nullptr;
  if (!s.used_once(a) && !s.taken_up(a) && s.defined_by(inner->inputs[0], dot_general_p) == nullptr)
    return nullptr;
  const Shape& this_one = inner->params.as<TransposeParams>().permutation;
  if (permutation != nullptr && *permutation != this_one) return nullptr;
  permutation = &this_one;
  return &inner->inputs[0];
}

/// transpose(b) for a broadcast of something much smaller: dimension d of the result is
/// permutation[d] of b.
std::optional<Atom> broadcast_in_order(Simplifier& s, const Eqn& b, const Aval& aval,
                                       const Shape& permutation) {
  Atom x = b.inputs[0];
  const Aval small = s.aval(x);
  if (small.size() * kMuchSmaller > aval.size()) return std::nullopt;
  const Shape place = inverse(permutation);
  Shape dims, shape;  // of x without dimensions of 1: where they go
  for (std::size_t d = 0; d < small.shape.size(); ++d) {
    if (small.shape[d] == 1) continue;
    shape.push_back(small.shape[d]);
    dims.push_back(place[static_cast<std::size_t>(
        b.params.as<BroadcastInDimParams>().broadcast_dimensions[d])]);
  }
  if (shape.size() != small.shape.size())
    x = s.make(reshape_p, ReshapeParams{shape}, {x}, small.with_shape(shape));
  if (!std::is_sorted(dims.begin(), dims.end())) {
    const Shape order = sorting(dims);
    x = s.make(transpose_p, TransposeParams{order}, {x}, small.with_shape(permuted(order, shape)));
    std::sort(dims.begin(), dims.end());
  }
  const Shape to = permuted(permutation, aval.shape);
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{to, dims}, {x}, aval.with_shape(to));
}

/// transpose(a), where that takes no transposition: a few operations on broadcasts.
std::optional<Atom> made_in_order(Simplifier& s, const Atom& a, const Shape& permutation,
                                  int depth = 3) {
  const Aval aval = s.aval(a);
  if (aval.shape.empty()) return a;
  if (const Eqn* b = s.defined_by(a, broadcast_in_dim_p)) {
    const Eqn copy = *b;
    return broadcast_in_order(s, copy, aval, permutation);
  }
  const Eqn* e = depth > 0 ? s.definition(a) : nullptr;
  if (e == nullptr || !works_by_element(*e->primitive) || element_cost(*e) > 1) return std::nullopt;
  const Eqn copy = *e;
  Atoms inputs;
  for (const Atom& x : copy.inputs) {
    auto in_order = made_in_order(s, x, permutation, depth - 1);
    if (!in_order) return std::nullopt;
    inputs.push_back(*in_order);
  }
  return s.make(*copy.primitive, copy.params, std::move(inputs),
                aval.with_shape(permuted(permutation, aval.shape)));
}

}  // namespace

// f(transpose(x), transpose(y)) = transpose(f(x, y)), element by element; broadcasts of something
// small are made as they are needed.
std::optional<Atom> element_of_transposes(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!works_by_element(*e.primitive)) return std::nullopt;
  const Shape* permutation = nullptr;
  for (const Atom& a : e.inputs) {
    if (!s.aval(a).shape.empty() && transposed(s, a, permutation) == nullptr &&
        s.defined_by(a, broadcast_in_dim_p) == nullptr)
      return std::nullopt;
  }
  if (permutation == nullptr) return std::nullopt;
  const TransposeParams outer{*permutation};
  const Shape order = inverse(outer.permutation);
  Atoms inputs;
  for (const Atom& a : e.inputs) {
    const Shape* same = &outer.permutation;
    const Atom* x = s.aval(a).shape.empty() ? &a : transposed(s, a, same);
    const std::optional<Atom> in_order = x != nullptr ? *x : made_in_order(s, a, order, 0);
    if (!in_order) return std::nullopt;
    inputs.push_back(*in_order);
  }
  const Shape shape = permuted(order, out.shape);
  const Atom inner = s.make(*e.primitive, e.params, std::move(inputs), out.with_shape(shape));
  return s.make(transpose_p, outer, {inner}, out);
}

namespace {

/// A fold of transpose(x) over `axes`: the axes of x, and the permutation of what is left of x.
std::pair<Shape, Shape> folded_order(const Shape& permutation, const Shape& axes) {
  Shape from = permuted(axes, permutation), order;
  std::sort(from.begin(), from.end());
  for (std::int64_t d = 0; d < permutation.ndim(); ++d) {
    if (axes.contains(d)) continue;
    const std::int64_t source = permutation[static_cast<std::size_t>(d)];
    order.push_back(source - std::count_if(from.begin(), from.end(),
                                           [source](std::int64_t x) { return x < source; }));
  }
  return {from, order};
}

bool folds(const Eqn& e) {
  return e.primitive == &reduce_sum_p || e.primitive == &reduce_max_p ||
         e.primitive == &reduce_min_p || e.primitive == &reduce_prod_p;
}

/// The product in which short rows, which are on the right so far, are on the left; see dot_of_rows.
std::optional<DotGeneralParams> with_rows_first(const Aval& lhs, const Aval& rhs, const Aval& out,
                                                DotGeneralParams params) {
  DotDimensionNumbers& dn = params.dimension_numbers;
  if (lhs.ndim() > 2 || rhs.ndim() != 2 || !dn.lhs_batch.empty() || out.ndim() != lhs.ndim())
    return std::nullopt;
  std::swap(dn.lhs_contracting, dn.rhs_contracting);
  Shape turned = out.shape;
  std::reverse(turned.begin(), turned.end());
  if (!multiplies_rows(rhs, lhs, out.with_shape(std::move(turned)), params)) return std::nullopt;
  return params;
}

}  // namespace

std::vector<bool> transposes_taken_up(const Jaxpr& jaxpr) {
  const auto n = static_cast<std::size_t>(jaxpr.num_vars());
  const auto at = [](Var v) { return static_cast<std::size_t>(v); };
  // What is a transpose, or computed of transposes by this permutation and of small broadcasts.
  std::vector<Shape> order(n);  // empty: neither
  std::vector<bool> spread(n, false);
  for (const Eqn& e : jaxpr.eqns()) {
    if (e.outputs.size() != 1) continue;
    const Aval& out = jaxpr.aval(e.outputs[0]);
    if (e.primitive == &transpose_p)
      order[at(e.outputs[0])] = e.params.as<TransposeParams>().permutation;
    if (e.primitive == &dot_general_p && out.ndim() == 2 &&
        with_rows_first(jaxpr.aval(e.inputs[0]), jaxpr.aval(e.inputs[1]), out,
                        e.params.as<DotGeneralParams>()))
      order[at(e.outputs[0])] = {1, 0};
    if (e.primitive == &broadcast_in_dim_p)
      spread[at(e.outputs[0])] = jaxpr.aval(e.inputs[0]).size() * kMuchSmaller <= out.size();
    if (folds(e) && e.inputs[0].is_var() && !order[at(e.inputs[0].var())].empty()) {
      Shape left =
          folded_order(order[at(e.inputs[0].var())], e.params.as<AxesParams>().axes).second;
      if (!std::is_sorted(left.begin(), left.end())) order[at(e.outputs[0])] = std::move(left);
    }
    if (!is_elementwise(e)) continue;
    Shape same;
    bool fits = true;
    for (const Atom& a : e.inputs) {
      if (jaxpr.aval(a).shape.empty() || (a.is_var() && spread[at(a.var())])) continue;
      const Shape of = a.is_var() ? order[at(a.var())] : Shape();
      fits = fits && !of.empty() && (same.empty() || same == of);
      same = of;
    }
    if (fits) order[at(e.outputs[0])] = same;
  }
  std::vector<bool> taken_up(n, true), read(n, false);
  for (const Atom& a : jaxpr.outs()) {
    if (a.is_var()) taken_up[at(a.var())] = false;
  }
  for (std::size_t i = jaxpr.eqns().size(); i-- > 0;) {
    const Eqn& e = jaxpr.eqns()[i];
    const bool passes =
        e.outputs.size() == 1 && !order[at(e.outputs[0])].empty() && taken_up[at(e.outputs[0])];
    // What is spread is made in the order in which that is needed.
    const bool takes = folds(e) || e.primitive == &transpose_p || (is_elementwise(e) && passes) ||
                       (e.outputs.size() == 1 && spread[at(e.outputs[0])]);
    for (const Atom& a : e.inputs) {
      if (!a.is_var()) continue;
      read[at(a.var())] = true;
      if (!takes) taken_up[at(a.var())] = false;
    }
  }
  for (std::size_t v = 0; v < n; ++v) taken_up[v] = taken_up[v] && read[v] && !order[v].empty();
  return taken_up;
}

// A fold of transpose(x) is one of x over other axes; what is left of the transpose comes after it. Several axes are
// folded in the order in which they lie: sums in that of the program took 30 and 170 times as long (64 x 256 x 256,
// 256 x 512 x 64).
std::optional<Atom> reduction_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape* permutation = nullptr;
  const Atom* x = transposed(s, e.inputs[0], permutation);
  if (x == nullptr) return std::nullopt;
  const auto [from, order] = folded_order(*permutation, e.params.as<AxesParams>().axes);
  Shape shape;
  for (std::int64_t d = 0; d < permutation->ndim(); ++d) {
    if (!from.contains(d)) shape.push_back(s.aval(*x).shape[static_cast<std::size_t>(d)]);
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
    Atoms inputs = e.inputs;
    inputs[side] = inner->inputs[0];
    const auto product = matrix_product(s.aval(inputs[0]), s.aval(inputs[1]), params);
    if (!product) continue;
    // What dot_by_columns and dot_of_few_columns have made, or would make again.
    const bool to_rows = wants_transpose(*product, out.dtype),
               to_columns = wants_columns(*product, out.dtype);
    if (side == 1 && (to_rows || to_columns)) {
      const auto now =
          matrix_product(s.aval(e.inputs[0]), s.aval(e.inputs[1]), e.params.as<DotGeneralParams>());
      if (now && (to_rows ? now->rhs.column : now->rhs.row) == 1) continue;
    }
    return s.make(dot_general_p, params, std::move(inputs), out);
  }
  return std::nullopt;
}
// An operand of a product without sums, for each element of the result, of which its free dimensions begin at `first`.
static Atom spread_operand(Simplifier& s, const Atom& x, const Shape& batch,
                           const Shape& contracting, std::int64_t first, const Aval& out) {
  const Aval& aval = s.aval(x);
  Shape order = batch, to, kept;
  for (const std::int64_t d : free_dims(aval.ndim(), batch, contracting)) order.push_back(d);
  for (std::int64_t i = 0; i < order.ndim(); ++i)
    to.push_back(i < batch.ndim() ? i : first + i - batch.ndim());
  for (std::int64_t d = 0; d < aval.ndim(); ++d)
    if (!contracting.contains(d)) kept.push_back(aval.shape[static_cast<std::size_t>(d)]);
  for (std::int64_t& d : order)
    d -= std::count_if(contracting.begin(), contracting.end(),
                       [&](std::int64_t c) { return c < d; });
  const Aval whole = aval.with_shape(kept).strong();
  Atom small = s.make(reshape_p, ReshapeParams{kept}, {x}, whole);
  small =
      s.make(transpose_p, TransposeParams{order}, {small}, whole.with_shape(permuted(order, kept)));
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, to}, {small}, out.strong());
}
// Products of which each is one multiplication, as of columns with rows, are no sums, and join what others compute element by
// element. Like sums they begin with 0: there is no -0 among them.
std::optional<Atom> dot_of_single_terms(Simplifier& s, const Eqn& e, const Aval& out) {
  const DotDimensionNumbers& dn = e.params.as<DotGeneralParams>().dimension_numbers;
  const Aval lhs = s.aval(e.inputs[0]);
  const bool sums =
      std::any_of(dn.lhs_contracting.begin(), dn.lhs_contracting.end(),
                  [&](std::int64_t d) { return lhs.shape[static_cast<std::size_t>(d)] != 1; });
  if (sums || !is_native(out.dtype) || out.dtype == DType::bool_ || lhs.dtype != out.dtype ||
      s.aval(e.inputs[1]).dtype != out.dtype)
    return std::nullopt;
  const std::int64_t batch = dn.lhs_batch.ndim(), rows = lhs.ndim() - dn.lhs_contracting.ndim();
  const Atom product =
      s.make(mul_p, NoParams{},
             {spread_operand(s, e.inputs[0], dn.lhs_batch, dn.lhs_contracting, batch, out),
              spread_operand(s, e.inputs[1], dn.rhs_batch, dn.rhs_contracting, rows, out)},
             out);
  if (!is_float(out.dtype)) return product;
  return s.make(add_p, NoParams{}, {product, s.filled(0, out)}, out);
}
// The order of dimensions in which a matrix product would rather read an operand; empty where any will do.
static Shape wanted_order(const Aval& x, std::size_t side, const DotGeneralParams& params) {
  constexpr std::int64_t kLeast = 8;  // rows of the other one, columns of this one
  const DotDimensionNumbers& dn = params.dimension_numbers;
  const Shape& batch = side == 0 ? dn.lhs_batch : dn.rhs_batch;
  const Shape& contracting = side == 0 ? dn.lhs_contracting : dn.rhs_contracting;
  const Shape free = free_dims(x.ndim(), batch, contracting);
  Shape order = batch;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (!batch.contains(d)) order.push_back(d);
  }
  // Lanes run along the columns of the result: they are to lie side by side on the right.
  std::int64_t columns = 1, work = x.size();
  for (const std::int64_t d : free)
    columns = detail::wrapping_mul(columns, x.shape[static_cast<std::size_t>(d)]);
  const auto last = [&](const Shape& dims) {  // but for those of one element, which lie anywhere
    std::int64_t found = -1;
    for (const std::int64_t d : dims) {
      if (x.shape[static_cast<std::size_t>(d)] != 1) found = d;
    }
    return found;
  };
  if (side == 1 && columns >= kLeast && work > 0 && last(contracting) > last(free)) {
    order = batch;
    for (const std::int64_t d : contracting) order.push_back(d);
    for (const std::int64_t d : free) order.push_back(d);
  }
  return is_identity(order) ? Shape() : order;
}
// The same product of an operand whose dimensions have been put in that order.
static DotGeneralParams with_order(DotGeneralParams params, std::size_t side, const Shape& order) {
  DotDimensionNumbers& dn = params.dimension_numbers;
  Shape& batch = side == 0 ? dn.lhs_batch : dn.rhs_batch;
  Shape& contracting = side == 0 ? dn.lhs_contracting : dn.rhs_contracting;
  const Shape place = inverse(order);
  batch = permuted(batch, place);
  contracting = permuted(contracting, place);
  return params;
}
// An operand that is a few operations on broadcasts is made in the order in which it is wanted: with the
// matrices of a batch side by side, and on the right their rows.
std::optional<Atom> dot_of_broadcasts(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t side : {0, 1}) {
    const auto& params = e.params.as<DotGeneralParams>();
    const Shape permutation = wanted_order(s.aval(e.inputs[side]), side, params);
    const auto product = matrix_product(s.aval(e.inputs[0]), s.aval(e.inputs[1]), params);
    if (permutation.empty() || (side == 1 && product && has_few_columns(*product, out.dtype)))
      continue;
    const auto in_order = made_in_order(s, e.inputs[side], permutation);
    if (!in_order) continue;
    Atoms inputs = e.inputs;
    inputs[side] = *in_order;
    return s.make(dot_general_p, with_order(params, side, permutation), std::move(inputs), out);
  }
  return std::nullopt;
}
static Atom with_right_transposed(Simplifier& s, const Eqn& e, const Aval& out,
                                  const Shape& order) {
  const Aval& rhs = s.aval(e.inputs[1]);
  const Atom transposed = s.make(transpose_p, TransposeParams{order}, {e.inputs[1]},
                                 rhs.with_shape(permuted(order, rhs.shape)));
  return s.make(dot_general_p, with_order(e.params.as<DotGeneralParams>(), 1, order),
                {e.inputs[0], transposed}, out);
}
// The right operand of a small product that lies by columns is transposed once, rather than each result summed over
// lanes. (dot_of_transpose leaves it so.)
std::optional<Atom> dot_by_columns(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& params = e.params.as<DotGeneralParams>();
  const Aval& rhs = s.aval(e.inputs[1]);
  const auto product = matrix_product(s.aval(e.inputs[0]), rhs, params);
  if (!product || !wants_transpose(*product, out.dtype)) return std::nullopt;
  const Shape order = wanted_order(rhs, 1, params);
  return order.empty() ? std::nullopt : std::optional(with_right_transposed(s, e, out, order));
}
// The other way round where columns are few.
std::optional<Atom> dot_of_few_columns(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& params = e.params.as<DotGeneralParams>();
  const DotDimensionNumbers& dn = params.dimension_numbers;
  const Aval& rhs = s.aval(e.inputs[1]);
  const auto product = matrix_product(s.aval(e.inputs[0]), rhs, params);
  if (!product || !wants_columns(*product, out.dtype)) return std::nullopt;
  return with_right_transposed(s, e, out,
                               grouped_order(rhs.ndim(), dn.rhs_batch, dn.rhs_contracting));
}
// Short rows come first: a small matrix times many points, as vmap writes it, is the transpose of the points times that,
// where the transposition goes away.
std::optional<Atom> dot_of_rows(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto params = with_rows_first(s.aval(e.inputs[0]), s.aval(e.inputs[1]), out,
                                      e.params.as<DotGeneralParams>());
  if (!params || e.inputs[0].is_literal() || e.inputs[1].is_literal() ||
      (out.ndim() == 2 && !s.result_taken_up()))
    return std::nullopt;
  Atoms turned{e.inputs[1], e.inputs[0]};
  if (out.ndim() == 1) return s.make(dot_general_p, *params, std::move(turned), out);
  const Aval rows = out.with_shape(permuted({1, 0}, out.shape)).strong();
  const Atom product = s.make(dot_general_p, *params, std::move(turned), rows);
  return s.make(transpose_p, TransposeParams{{1, 0}}, {product}, out);
}
// transpose(dot(x, y)) = dot(y, x) where it exchanges the free dimensions of x and y. Products and
// their sums are the same numbers.
std::optional<Atom> transpose_of_dot(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* dot = s.defined_by(e.inputs[0], dot_general_p);
  if (dot == nullptr || !s.used_once(e.inputs[0]) ||
      multiplies_rows(s.aval(dot->inputs[0]), s.aval(dot->inputs[1]), s.aval(e.inputs[0]),
                      dot->params.as<DotGeneralParams>()))
    return std::nullopt;
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
