// dot_general: sums of products over contracting dimensions, for each index of the batch dimensions.
// Result dimensions: batch, free lhs, free rhs, each in order.
#include <algorithm>
#include <numeric>

#include "core/element.hpp"
#include "core/result_place.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/gemm.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "dot_general";

// ---- types -------------------------------------------------------------------------------------
Shape free_axes(const Shape& batch, const Shape& contracting, int ndim) {
  return other_axes(concatenated(batch, contracting), ndim);
}

void check_pairs(std::span<const Aval> avals, const char* what, const Shape& lhs,
                 const Shape& rhs) {
  if (lhs.size() != rhs.size() || taken(avals[0].shape, lhs) != taken(avals[1].shape, rhs)) {
    shape_error(kName, avals,
                std::string(what) + " dimensions " + lhs.to_string() + " and " + rhs.to_string() +
                    " must have equal sizes");
  }
}

Aval result_aval(const DotGeneralParams& p, std::span<const Aval> avals) {
  const DotDimensionNumbers& d = p.dimension_numbers;
  check_arity(kName, avals, 2);
  check_same_dtype(kName, avals);
  const Shape lhs_used = concatenated(d.lhs_batch, d.lhs_contracting),
              rhs_used = concatenated(d.rhs_batch, d.rhs_contracting);
  check_axes(kName, avals, "lhs dimension", lhs_used, avals[0].ndim());
  check_axes(kName, avals, "rhs dimension", rhs_used, avals[1].ndim());
  check_pairs(avals, "contracting", d.lhs_contracting, d.rhs_contracting);
  check_pairs(avals, "batch", d.lhs_batch, d.rhs_batch);
  const Shape free = concatenated(taken(avals[0].shape, other_axes(lhs_used, avals[0].ndim())),
                                  taken(avals[1].shape, other_axes(rhs_used, avals[1].ndim())));
  return {concatenated(taken(avals[0].shape, d.lhs_batch), free),
          p.preferred_element_type.value_or(avals[0].dtype), all_weak(avals)};
}

// ---- evaluation --------------------------------------------------------------------------------
/// Consecutive dimensions of a view as one, if its strides allow that: appended to `to`.
bool merge_into(const View& from, const Shape& axes, View& to) {
  std::int64_t size = 1, stride = 0;
  bool first = true, mergeable = true;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(axes[i]);
    if (from.shape[d] == 1) continue;
    if (first) stride = from.strides[d];
    mergeable = mergeable && (first || from.strides[d] == stride * size);
    size *= from.shape[d];
    first = false;
  }
  to.shape.push_back(size);
  to.strides.push_back(stride);
  return mergeable;
}

/// An operand as matrices: a view of rank 3 of its own memory or, where its dimensions do not merge, of
/// a copy.
struct Matrices {
  Array memory;
  View view;
};
Matrices as_matrices(const Array& x, const Shape& batch, const Shape& rows, const Shape& columns) {
  View from = view_of(x), view{from.data, from.dtype, {}, {}};
  const bool batches = merge_into(from, batch, view), merged_rows = merge_into(from, rows, view);
  if (merge_into(from, columns, view) && batches && merged_rows) return {x, view};
  const Shape order = concatenated(concatenated(batch, rows), columns);
  from.shape = taken(from.shape, order);
  from.strides = taken(from.strides, order);
  const Array dense = copy_to_dense({from.shape, x.dtype(), false}, from);
  return {dense, kernels::contiguous_view(view_of(dense).data, x.dtype(), view.shape)};
}

Arrays evaluate(const DotGeneralParams& p, std::span<const Array> x) {
  const Aval aval = result_aval(p, avals_of(x));
  const DotDimensionNumbers& d = p.dimension_numbers;
  const Shape lhs_free = free_axes(d.lhs_batch, d.lhs_contracting, x[0].ndim());
  const Shape rhs_free = free_axes(d.rhs_batch, d.rhs_contracting, x[1].ndim());
  // Products of small floats are of f32 anyway.
  const bool sums_small = is_small_float(x[0].dtype()) && aval.dtype == DType::f32;
  const auto operand = [&](const Array& a) {
    return sums_small ? a : lax::convert_element_type(a, aval.dtype);
  };
  const Matrices lhs = as_matrices(operand(x[0]), d.lhs_batch, lhs_free, d.lhs_contracting);
  const Matrices rhs = as_matrices(operand(x[1]), d.rhs_batch, d.rhs_contracting, rhs_free);
  Array out = make_result(aval);
  const Shape shape{lhs.view.shape[0], lhs.view.shape[1], rhs.view.shape[2]};
  kernels::run_matmul(lhs.view, rhs.view,
                      kernels::contiguous_view(view_of(out).data, aval.dtype, shape));
  return {out};
}

// ---- derivatives -------------------------------------------------------------------------------
/// d(a b) = da b + a db
JvpResult jvp(const DotGeneralParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  std::vector<Array> terms;
  if (!dx[0].is_zero()) terms.push_back(dot_general_p.bind1(p, {dx[0].array(), x[1]}));
  if (!dx[1].is_zero()) terms.push_back(dot_general_p.bind1(p, {x[0], dx[1].array()}));
  return {dot_general_p.bind(p, x), {terms.size() == 2 ? lax::add(terms[0], terms[1]) : terms[0]}};
}

/// One operand of the product, by its dimensions.
struct Side {
  Shape contracting, batch, free;
};

/// The cotangent of operand `x`, given the other operand's value y:
///   ct(x)[batch, free x, contracted] = sum over free y of ct[batch, free x, free y] y
/// then its dimensions are put in x's order. In ct the batch dimensions come first, then the free
/// ones of lhs, then those of rhs: `x_is_lhs` tells which.
Array pull_back(const Array& ct, const Array& y, const Side& of_x, const Side& of_y, const Aval& x,
                bool x_is_lhs) {
  const auto batches = static_cast<std::int64_t>(of_x.batch.size());
  const auto x_free = static_cast<std::int64_t>(of_x.free.size()),
             y_free = static_cast<std::int64_t>(of_y.free.size());
  const std::int64_t y_start = x_is_lhs ? batches + x_free : batches;
  const Array product = lax::dot_general(
      ct, lax::convert_element_type(y, ct.dtype()),
      {range(y_start, y_start + y_free), of_y.free, range(0, batches), of_y.batch});
  // What is left of y, its contracted dimensions, comes out in y's order.
  Shape by_y(of_y.contracting.size(), 0);
  std::iota(by_y.begin(), by_y.end(), 0);
  std::sort(by_y.begin(), by_y.end(), [&](std::int64_t i, std::int64_t j) {
    return of_y.contracting[static_cast<std::size_t>(i)] <
           of_y.contracting[static_cast<std::size_t>(j)];
  });
  const Shape order =
      concatenated(concatenated(of_x.batch, of_x.free), taken(of_x.contracting, by_y));
  return lax::convert_element_type(lax::transpose(product, inverse_permutation(order)), x.dtype);
}

std::vector<Tangent> transpose(const DotGeneralParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const DotDimensionNumbers& d = p.dimension_numbers;
  const Side lhs{d.lhs_contracting, d.lhs_batch,
                 free_axes(d.lhs_batch, d.lhs_contracting, x[0].aval().ndim())};
  const Side rhs{d.rhs_contracting, d.rhs_batch,
                 free_axes(d.rhs_batch, d.rhs_contracting, x[1].aval().ndim())};
  const Array& ct = cts[0].array();
  if (x[0].is_linear()) {
    out[0] = pull_back(ct, x[1].array(), lhs, rhs, x[0].aval(), true);
  } else {
    out[1] = pull_back(ct, x[0].array(), rhs, lhs, x[1].aval(), false);
  }
  return out;
}

// ---- batching ----------------------------------------------------------------------------------
/// Mapped on both sides, the batch axes become a batch dimension; mapped on one side, the batch axis
/// becomes a free dimension. Neither needs a transpose.
BatchResult batch(const DotGeneralParams& p, const AxisInfo&, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  DotGeneralParams batched = p;
  DotDimensionNumbers& d = batched.dimension_numbers;
  if (axes[0]) {
    d.lhs_contracting = shifted(d.lhs_contracting, *axes[0]);
    d.lhs_batch = shifted(d.lhs_batch, *axes[0]);
  }
  if (axes[1]) {
    d.rhs_contracting = shifted(d.rhs_contracting, *axes[1]);
    d.rhs_batch = shifted(d.rhs_batch, *axes[1]);
  }
  const Shape lhs_free = free_axes(d.lhs_batch, d.lhs_contracting, x[0].ndim());
  std::int64_t axis = 0;
  if (axes[0] && axes[1]) {
    d.lhs_batch = inserted(d.lhs_batch, 0, *axes[0]);
    d.rhs_batch = inserted(d.rhs_batch, 0, *axes[1]);
  } else if (axes[0]) {
    axis = d.lhs_batch.ndim() + count_below(lhs_free, *axes[0]);
  } else {
    const Shape rhs_free = free_axes(d.rhs_batch, d.rhs_contracting, x[1].ndim());
    axis = d.lhs_batch.ndim() + lhs_free.ndim() + count_below(rhs_free, *axes[1]);
  }
  return {dot_general_p.bind(batched, x), {static_cast<int>(axis)}};
}

}  // namespace
}  // namespace detail

const Primitive<DotGeneralParams> dot_general_p{
    detail::kName, [] {
      using namespace detail;
      return Rules<DotGeneralParams>{
          .impl = evaluate,
          .abstract_eval = result_aval,
          .jvp = jvp,
          .transpose = transpose,
          .batch = batch,
          .exempt = {{"lower",
                      "the compiler chooses between loops of its own and the runtime's product"}},
      };
    }};

}  // namespace v1
}  // namespace telamon
