// dynamic_slice, dynamic_update_slice: a window at a start that is known at run time, read or
// replaced. Starts are clamped so that the window fits.
#include <algorithm>

#include "core/indices.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kSlice = "dynamic_slice";
constexpr const char* kUpdate = "dynamic_update_slice";

// ---- types -------------------------------------------------------------------------------------
void check_starts(const char* name, std::span<const Aval> avals, std::span<const Aval> starts) {
  if (starts.size() != avals[0].shape.size()) {
    shape_error(name, avals,
                "needs one start per dimension, but got " + std::to_string(starts.size()));
  }
  for (const Aval& s : starts) {
    if (s.ndim() != 0 || !is_integer(s.dtype))
      dtype_error(name, avals, "starts must be integer scalars");
  }
}

void check_window(const char* name, std::span<const Aval> avals, const Shape& window) {
  const Shape& shape = avals[0].shape;
  bool fits = window.size() == shape.size();
  for (std::size_t i = 0; fits && i < window.size(); ++i)
    fits = window[i] >= 0 && window[i] <= shape[i];
  if (!fits)
    shape_error(name, avals,
                "a window of shape " + window.to_string() + " does not fit into the operand");
}

AbstractResult slice_aval(const DynamicSliceParams& p, std::span<const Aval> avals) {
  if (avals.empty()) check_arity(kSlice, avals, 1);
  check_window(kSlice, avals, p.slice_sizes);
  check_starts(kSlice, avals, avals.subspan(1));
  return avals[0].with_shape(p.slice_sizes);
}

AbstractResult update_aval(const NoParams&, std::span<const Aval> avals) {
  if (avals.size() < 2) check_arity(kUpdate, avals, 2);
  check_same_dtype(kUpdate, avals.first(2));
  check_window(kUpdate, avals, avals[1].shape);
  check_starts(kUpdate, avals, avals.subspan(2));
  return Aval{avals[0].shape, avals[0].dtype, all_weak(avals.first(2))};
}

// ---- evaluation --------------------------------------------------------------------------------
/// The clamped window.
View window_of(const Array& x, std::span<const Array> starts, const Shape& window) {
  Shape start;
  for (std::size_t i = 0; i < window.size(); ++i) {
    start.push_back(std::clamp<std::int64_t>(read_index(starts[i]), 0, x.shape()[i] - window[i]));
  }
  return part_of(view_of(x), start, window);
}

Arrays slice_impl(const DynamicSliceParams& p, std::span<const Array> x) {
  const Aval aval = slice_aval(p, avals_of(x)).avals[0];
  return {copy_to_dense(aval, window_of(x[0], x.subspan(1), p.slice_sizes))};
}

Arrays update_impl(const NoParams& p, std::span<const Array> x) {
  const Aval aval = update_aval(p, avals_of(x)).avals[0];
  Array out = copy_to_dense(aval, view_of(x[0]));
  kernels::run_copy(view_of(x[1]), window_of(out, x.subspan(2), x[1].shape()));
  return {out};
}

// ---- derivatives: linear in the operand and the update, for given starts -----------------------
Arrays starts_of(std::span<const LinearInput> x) {
  Arrays starts;
  for (const LinearInput& s : x) starts.push_back(s.array());
  return starts;
}

JvpResult slice_jvp(const DynamicSliceParams& p, std::span<const Array> x,
                    std::span<const Tangent> dx) {
  return {dynamic_slice_p.bind(p, x),
          {lax::dynamic_slice(dx[0].array(), x.subspan(1), p.slice_sizes)}};
}

/// The cotangent, put back into zeros.
std::vector<Tangent> slice_transpose(const DynamicSliceParams&, std::span<const Tangent> cts,
                                     std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array zeros = lax::full(x[0].aval().shape, cts[0].aval().dtype, 0);
  out[0] = lax::dynamic_update_slice(zeros, cts[0].array(), starts_of(x.subspan(1)));
  return out;
}

JvpResult update_jvp(const NoParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  return {dynamic_update_slice_p.bind(p, x),
          {lax::dynamic_update_slice(dx[0].instantiate(), dx[1].instantiate(), x.subspan(2))}};
}

/// ct(x) has zeros in the window, ct(update) is the window.
std::vector<Tangent> update_transpose(const NoParams&, std::span<const Tangent> cts,
                                      std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array& ct = cts[0].array();
  const Arrays starts = starts_of(x.subspan(2));
  const Shape& window = x[1].aval().shape;
  if (x[0].is_linear())
    out[0] = lax::dynamic_update_slice(ct, lax::full(window, ct.dtype(), 0), starts);
  if (x[1].is_linear()) out[1] = lax::dynamic_slice(ct, starts, window);
  return out;
}

// ---- batching ----------------------------------------------------------------------------------
/// One row of starts per batch element: (batch, dimensions), in one dtype.
Array index_rows(const AxisInfo& info, std::span<const Array> starts,
                 std::span<const BatchAxis> axes) {
  DType dtype = starts[0].dtype();
  for (const Array& s : starts) {
    if (s.dtype() != dtype) dtype = DType::i64;
  }
  Arrays columns;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    columns.push_back(batch_at(lax::convert_element_type(starts[i], dtype), axes[i], info.size, 0));
  }
  return lax::stack(columns, 1);
}

/// The starts with one more, 0, for the batch dimension.
Arrays with_start_zero(std::span<const Array> starts, int axis) {
  Arrays out(starts.begin(), starts.end());
  const DType dtype = starts.empty() ? DType::i32 : starts[0].dtype();
  out.insert(out.begin() + axis, lax::scalar(0, dtype));
  return out;
}

/// A window as large as the batch, or, where starts are mapped, a gather with one window per row.
BatchResult slice_batch(const DynamicSliceParams& p, const AxisInfo& info, std::span<const Array> x,
                        std::span<const BatchAxis> axes) {
  const std::span<const Array> starts = x.subspan(1);
  const std::span<const BatchAxis> start_axes = axes.subspan(1);
  const bool starts_mapped =
      std::any_of(start_axes.begin(), start_axes.end(), [](BatchAxis a) { return a.has_value(); });
  if (!starts_mapped) {
    const int axis = *axes[0];
    return {{lax::dynamic_slice(x[0], with_start_zero(starts, axis),
                                inserted(p.slice_sizes, axis, info.size))},
            {axis}};
  }
  GatherParams gather;
  gather.slice_sizes = p.slice_sizes;
  gather.mode = GatherScatterMode::clip;
  GatherDimensionNumbers& d = gather.dimension_numbers;
  d.offset_dims = range(1, p.slice_sizes.ndim() + 1);
  d.start_index_map = range(0, p.slice_sizes.ndim());
  if (axes[0]) {
    d.operand_batching_dims = {*axes[0]};
    d.start_indices_batching_dims = {0};
    d.start_index_map = shifted(d.start_index_map, *axes[0]);
    gather.slice_sizes = inserted(gather.slice_sizes, *axes[0], 1);
  }
  return {{lax::gather(x[0], index_rows(info, starts, start_axes), gather)}, {0}};
}

BatchResult update_batch(const NoParams&, const AxisInfo& info, std::span<const Array> x,
                         std::span<const BatchAxis> axes) {
  const std::span<const Array> starts = x.subspan(2);
  const std::span<const BatchAxis> start_axes = axes.subspan(2);
  const bool starts_mapped =
      std::any_of(start_axes.begin(), start_axes.end(), [](BatchAxis a) { return a.has_value(); });
  if (!starts_mapped) {
    const int axis = first_mapped(axes);
    const Array operand = batch_at(x[0], axes[0], info.size, axis),
                update = batch_at(x[1], axes[1], info.size, axis);
    return {{lax::dynamic_update_slice(operand, update, with_start_zero(starts, axis))}, {axis}};
  }
  const int axis = axes[0].value_or(0);
  const int ndim = x[1].ndim() - (axes[1] ? 1 : 0);
  ScatterParams scatter;
  scatter.mode = GatherScatterMode::clip;
  scatter.unique_indices = true;
  ScatterDimensionNumbers& d = scatter.dimension_numbers;
  d.update_window_dims = range(1, ndim + 1);
  d.scatter_dims_to_operand_dims = shifted(range(0, ndim), axis);
  d.operand_batching_dims = {axis};
  d.scatter_indices_batching_dims = {0};
  return {
      {lax::scatter(batch_at(x[0], axes[0], info.size, axis), index_rows(info, starts, start_axes),
                    batch_at(x[1], axes[1], info.size, 0), scatter)},
      {axis}};
}

// ---- generated code ----------------------------------------------------------------------------
/// The clamped starts of a window.
Index read_starts(Emitter& e, std::span<const Source> starts, const Shape& shape,
                  const Shape& window) {
  Index out;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    out.push_back(clamp(e, signed_index(e, starts[i](Index{})), 0, shape[i] - window[i]));
  }
  return out;
}

Scalar slice_read(Emitter& e, const DynamicSliceParams& p, std::span<const Source> x,
                  const Index& index) {
  Index from = read_starts(e, x.subspan(1), x[0].shape(), p.slice_sizes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = e.add(from[i], index[i]);
  return x[0](from);
}

/// The update inside the window, the operand elsewhere.
Scalar update_read(Emitter& e, const NoParams&, std::span<const Source> x, const Index& index) {
  const Shape& window = x[1].shape();
  const Scalar old = x[0](index);
  if (window.num_elements() == 0) return old;
  const Index starts = read_starts(e, x.subspan(2), x[0].shape(), window);
  std::optional<Scalar> inside;
  Index from;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const Scalar offset = e.sub(index[i], starts[i]);
    from.push_back(clamp(e, offset, 0, window[i] - 1));
    if (window[i] == x[0].shape()[i]) continue;
    const Scalar here = e.compare(Compare::eq, offset, from.back());
    inside = inside ? e.and_(*inside, here) : here;
  }
  const Scalar update = x[1](from);
  return inside ? e.select(*inside, update, old) : update;
}

}  // namespace
}  // namespace detail

const Primitive<DynamicSliceParams> dynamic_slice_p{
    detail::kSlice, [] {
      using namespace detail;
      return Rules<DynamicSliceParams>{
          .impl = slice_impl,
          .abstract_eval = slice_aval,
          .jvp = slice_jvp,
          .transpose = slice_transpose,
          .batch = slice_batch,
          .lower = at_index<DynamicSliceParams>(slice_read).with_cost(2),
      };
    }};

const Primitive<> dynamic_update_slice_p{
    detail::kUpdate, [] {
      using namespace detail;
      return Rules<>{
          .impl = update_impl,
          .abstract_eval = update_aval,
          .jvp = update_jvp,
          .transpose = update_transpose,
          .batch = update_batch,
          .lower = at_index(std::function<Scalar(Emitter&, const NoParams&, std::span<const Source>,
                                                 const Index&)>(update_read))
                       .with_cost(6),
      };
    }};

}  // namespace v1
}  // namespace telamon
