// What checkify looks for in equations: NaNs, divisions by zero, indices out of bounds.
#include <algorithm>
#include <array>

#include "primitives/window_indexing.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/lax.hpp"
#include "transforms/checkify.hpp"

namespace telamon {
inline namespace v1 {
namespace checkify_detail {
namespace {

// Whether any element is true.
Array any(const Array& x) {
  Shape axes;
  for (int d = 0; d < x.ndim(); ++d) axes.insert(axes.size(), d);
  return axes.empty() ? x : lax::reduce_or(x, axes);
}

detail::ErrorSite site_of(const Eqn& eqn, std::string message) {
  detail::ErrorSite site;
  site.message = std::move(message);
  site.where = eqn.where.to_string();
  return site;
}

// They only move data, so a NaN that they give was given to them.
bool only_moves(const PrimitiveBase* p) {
  static const std::array<const PrimitiveBase*, 24> kMoves = {&reshape_p,
                                                              &transpose_p,
                                                              &broadcast_in_dim_p,
                                                              &squeeze_p,
                                                              &expand_dims_p,
                                                              &rev_p,
                                                              &concatenate_p,
                                                              &split_p,
                                                              &stack_p,
                                                              &unstack_p,
                                                              &pad_p,
                                                              &slice_p,
                                                              &dynamic_slice_p,
                                                              &gather_p,
                                                              &scatter_p,
                                                              &dynamic_update_slice_p,
                                                              &select_n_p,
                                                              &stop_gradient_p,
                                                              &copy_p,
                                                              &sort_p,
                                                              &bitcast_convert_type_p,
                                                              &optimization_barrier_p,
                                                              &name_p,
                                                              &iota_p};
  return std::find(kMoves.begin(), kMoves.end(), p) != kMoves.end();
}

// ---- indices -------------------------------------------------------------------------------------

// Index vectors, which lie along the last dimension of `indices`: component k moves along axes[k],
// where it may be from 0 to last[k].
struct Indexing {
  Array indices;
  std::vector<std::int64_t> axes, last;
};

Indexing of_starts(const Shape& shape, const Shape& sizes, std::span<const Array> starts) {
  Indexing x;
  Arrays parts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    x.axes.push_back(static_cast<std::int64_t>(d));
    x.last.push_back(shape[d] - sizes[d]);
    parts.push_back(lax::reshape(lax::convert_element_type(starts[d], DType::i64), {1}));
  }
  if (!parts.empty()) x.indices = lax::concatenate(parts, 0);
  return x;
}

std::optional<Indexing> indexing_of(const Eqn& eqn, std::span<const Array> args) {
  if (args.empty()) return std::nullopt;  // iota
  const Shape& shape = args[0].shape();
  if (eqn.primitive == &dynamic_slice_p)
    return of_starts(shape, eqn.params.as<DynamicSliceParams>().slice_sizes, args.subspan(1));
  if (eqn.primitive == &dynamic_update_slice_p)
    return of_starts(shape, args[1].shape(), args.subspan(2));
  Indexing x;
  if (eqn.primitive == &gather_p) {
    const auto& p = eqn.params.as<GatherParams>();
    for (const std::int64_t axis : p.dimension_numbers.start_index_map) {
      const auto d = static_cast<std::size_t>(axis);
      x.axes.push_back(axis);
      x.last.push_back(shape[d] - p.slice_sizes[d]);
    }
  } else if (eqn.primitive == &scatter_p || eqn.primitive == &scatter_add_p) {
    const auto& p = eqn.params.as<ScatterParams>();
    const detail::WindowIndexing w = detail::window_indexing(p, shape, args[2].shape());
    for (const std::int64_t axis : w.numbers.start_index_map) {
      const auto d = static_cast<std::size_t>(axis);
      x.axes.push_back(axis);
      x.last.push_back(shape[d] - w.window[d]);
    }
    x.indices = lax::convert_element_type(detail::wrapped(args[1], p, shape), DType::i64);
    return x;
  } else {
    return std::nullopt;
  }
  x.indices = lax::convert_element_type(args[1], DType::i64);
  return x;
}

void check_indices(const Eqn& eqn, std::span<const Array> args, ErrorState& state) {
  const std::optional<Indexing> x = indexing_of(eqn, args);
  if (!x || x->axes.empty() || x->indices.size() == 0) return;
  const auto n = static_cast<std::int64_t>(x->axes.size());
  const std::int64_t total = x->indices.size();
  const Array flat = lax::reshape(x->indices, {total / n, n});
  Arrays bounds;  // of scalars: an array would be captured
  for (const std::int64_t bound : x->last)
    bounds.push_back(lax::full({1}, DType::i64, static_cast<double>(bound)));
  const Array last = lax::broadcast_in_dim(lax::concatenate(bounds, 0), {total / n, n}, {1});
  const Array outside = lax::reshape(
      or_p.bind1({}, {lax::lt(flat, lax::zeros_like(flat)), lax::gt(flat, last)}), {total});
  const Array place = lax::argmax(lax::convert_element_type(outside, DType::i32), 0, DType::i32);
  const Array index =
      lax::reshape(lax::dynamic_slice_in_dim(lax::reshape(flat, {total}), place, 1), Shape());
  detail::ErrorSite site =
      site_of(eqn, "out-of-bounds indexing for array of shape " + args[0].shape().to_string() +
                       ": index {} is out of bounds for axis {} with size {}");
  site.axes = x->axes;
  site.bounds.assign(args[0].shape().begin(), args[0].shape().end());
  state.record(std::move(site), any(outside), {place, index});
}

}  // namespace

void check_operands(const Eqn& eqn, std::span<const Array> args, ErrorState& state, Checks checks) {
  const bool integer_rem = eqn.primitive == &rem_p && is_integer(args[0].dtype());
  if (contains(checks, div_checks) && (eqn.primitive == &div_p || integer_rem)) {
    state.record(site_of(eqn, "division by zero"), any(lax::eq(args[1], lax::zeros_like(args[1]))),
                 {});
  }
  if (contains(checks, index_checks)) check_indices(eqn, args, state);
}

void check_results(const Eqn& eqn, std::span<const Array> results, ErrorState& state,
                   Checks checks) {
  if (!contains(checks, nan_checks) || only_moves(eqn.primitive)) return;
  std::optional<Array> failed;
  for (const Array& y : results) {
    if (!is_inexact(y.dtype()) || is_complex(y.dtype())) continue;  // nothing compares complex ones
    const Array nan = any(lax::ne(y, y));
    failed = failed ? or_p.bind1({}, {*failed, nan}) : nan;
  }
  if (!failed) return;
  state.record(site_of(eqn, "nan generated by primitive: " + std::string(eqn.primitive->name())),
               *failed, {});
}

}  // namespace checkify_detail
}  // namespace v1
}  // namespace telamon
