// gather: windows of the operand at the places that the indices name (window_indexing.hpp). Out of
// bounds, mode `fill_or_drop` gives the fill value; the others move the window inside.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "core/result_place.hpp"
#include "primitives/window_indexing.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "gather";

Aval result_aval(const GatherParams& p, std::span<const Aval> avals) {
  check_arity(kName, avals, 2);
  return avals[0].with_shape(check_indexing(kName, avals, window_indexing(p)));
}

/// Whole numbers wrap around, as in JAX; what no integer of 64 bits is becomes the nearest one, NaN 0.
std::int64_t fill_bits(double value) {
  constexpr double kSigned = 9223372036854775808.0;
  if (std::isnan(value)) return 0;
  if (value < -kSigned) return std::numeric_limits<std::int64_t>::min();
  if (value < kSigned) return static_cast<std::int64_t>(value);
  if (value < 2 * kSigned) return static_cast<std::int64_t>(static_cast<std::uint64_t>(value));
  return -1;
}
/// What integers are filled with, as its bits: the lowest signed and the highest unsigned one where nothing is said.
std::int64_t integer_fill(const GatherParams& p, DType dtype) {
  const int unused = 64 - static_cast<int>(size_of(dtype)) * 8;
  if (is_unsigned_integer(dtype)) {
    const auto bits = static_cast<std::uint64_t>(p.fill_value ? fill_bits(*p.fill_value) : -1);
    return static_cast<std::int64_t>(bits << unused >> unused);
  }
  if (!p.fill_value) return std::numeric_limits<std::int64_t>::min() >> unused;
  const auto bits = static_cast<std::uint64_t>(fill_bits(*p.fill_value)) << unused;
  return static_cast<std::int64_t>(bits) >> unused;
}

/// NaN for floats where nothing is said, true.
Array fill_scalar(const GatherParams& p, DType dtype) {
  if (is_integer(dtype)) {
    Array fill = make_uninitialized({{}, dtype, false});
    store_element(concrete_node(fill).data(), dtype,
                  {.form = Element::Form::signed_int, .i = integer_fill(p, dtype)});
    return fill;
  }
  if (p.fill_value) return lax::scalar(*p.fill_value, dtype);
  if (is_inexact(dtype)) return lax::scalar(std::numeric_limits<double>::quiet_NaN(), dtype);
  return lax::scalar(true, dtype);
}

Arrays evaluate(const GatherParams& p, std::span<const Array> x) {
  const Aval aval = result_aval(p, avals_of(x));
  Array out = make_result(aval);
  if (aval.size() == 0) return {out};
  const Array fill = fill_scalar(p, aval.dtype);
  const View operand = view_of(x[0]), indices = view_of(x[1]), slices = view_of(out);
  if (std::any_of(operand.strides.begin(), operand.strides.end(),
                  [](std::int64_t stride) { return stride < 0; })) {
    return evaluate(p, Arrays{copy_to_dense(x[0].aval(), operand), x[1]});
  }
  const auto numbers =
      window_loop(kernels::WindowOp::gather, window_indexing(p), operand, indices, slices)
          .numbers();
  kernels::run_windows(numbers.data(), operand.data, indices.data, slices.data, view_of(fill).data);
  return {out};
}

/// The tangent where the window is out of bounds is zero.
JvpResult jvp(const GatherParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  GatherParams of_tangent = p;
  of_tangent.fill_value = 0.0;
  return {gather_p.bind(p, x), {lax::gather(dx[0].array(), x[1], of_tangent)}};
}

/// Each element of the cotangent is added where it came from.
std::vector<Tangent> transpose(const GatherParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array zeros = lax::full(x[0].aval().shape, cts[0].aval().dtype, 0);
  out[0] = lax::scatter_add(
      zeros, x[1].array(), cts[0].array(),
      {as_scatter(p.dimension_numbers), p.indices_are_sorted, p.unique_indices, p.mode});
  return out;
}

BatchResult batch(const GatherParams& p, const AxisInfo& info, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  const Array indices = axes[1] ? move_axis(x[1], *axes[1], 0) : x[1];
  BatchedIndexing b = batch_indexing(window_indexing(p), axes[0], axes[1].has_value(), info.size);
  GatherParams batched = p;
  batched.dimension_numbers = std::move(b.indexing.numbers);
  batched.slice_sizes = std::move(b.indexing.window);
  if (axes[1]) batched.indices_are_sorted = false;
  return {{lax::gather(x[0], indices, batched)}, {b.slices_axis}};
}

Scalar emit_fill(Emitter& e, const GatherParams& p, DType dtype) {
  if (is_integer(dtype)) return e.constant_int(dtype, integer_fill(p, dtype));
  if (p.fill_value) return e.constant(dtype, *p.fill_value);
  if (is_inexact(dtype)) return e.constant(dtype, std::numeric_limits<double>::quiet_NaN());
  return e.constant_int(dtype, 1);
}

/// The element of the clamped window, or the fill value.
Scalar read(Emitter& e, const GatherParams& p, std::span<const Source> x, const Index& index) {
  const WindowIndexing w = window_indexing(p);
  const Shape& operand = x[0].shape();
  Index batch;
  for (const std::int64_t d : batch_axes(w.numbers, static_cast<int>(index.size()))) {
    batch.push_back(index[static_cast<std::size_t>(d)]);
  }
  WindowStart at = emit_start(e, w, operand, batch, [&](std::int64_t k) {
    Index vector = batch;
    vector.push_back(e.index(k));
    return x[1](vector);
  });
  const Shape axes = window_axes(w.numbers, operand.ndim());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const Scalar offset = index[static_cast<std::size_t>(w.numbers.offset_dims[i])];
    at.start[axis] = w.window[axis] == operand[axis] ? offset : e.add(at.start[axis], offset);
  }
  const Scalar element = x[0](at.start);
  return at.in_bounds ? e.select(*at.in_bounds, element, emit_fill(e, p, x[0].dtype())) : element;
}

}  // namespace
}  // namespace detail

const Primitive<GatherParams> gather_p{detail::kName, [] {
                                         using namespace detail;
                                         return Rules<GatherParams>{
                                             .impl = evaluate,
                                             .abstract_eval = result_aval,
                                             .jvp = jvp,
                                             .transpose = transpose,
                                             .batch = batch,
                                             .lower = at_index<GatherParams>(read).with_cost(8),
                                         };
                                       }};

}  // namespace v1
}  // namespace telamon
