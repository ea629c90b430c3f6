// scatter, scatter_add: windows of the operand, at the places that the indices name
// (window_indexing.hpp), are replaced by or increased by the updates. Index vectors are processed in
// row-major order, so the last of several updates of one place wins, and sums have that order, but for those of
// many updates, which are taken in parts (runtime/scatter_parts.hpp). Out of bounds, mode `clip` moves
// the window inside; the others drop the update.
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "primitives/window_indexing.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/scatter_parts.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

enum class Update : std::uint8_t { replace, add };
constexpr const char* name_of(Update u) { return u == Update::replace ? "scatter" : "scatter_add"; }
template <Update kUpdate>
const Primitive<ScatterParams>& primitive() {
  return kUpdate == Update::replace ? scatter_p : scatter_add_p;
}

template <Update kUpdate>
AbstractResult result_aval(const ScatterParams& p, std::span<const Aval> avals) {
  const char* name = name_of(kUpdate);
  check_arity(name, avals, 3);
  if (avals[0].dtype != avals[2].dtype)
    dtype_error(name, avals, "operand and updates must have one dtype");
  if (kUpdate == Update::add && avals[0].dtype == DType::bool_)
    dtype_error(name, avals, "takes numbers");
  const Shape updates =
      check_indexing(name, avals, window_indexing(p, avals[0].shape, avals[2].shape));
  if (updates != avals[2].shape) {
    shape_error(name, avals, "the updates must have shape " + updates.to_string());
  }
  return Aval{avals[0].shape, avals[0].dtype, avals[0].weak_type && avals[2].weak_type};
}

template <Update kUpdate>
constexpr kernels::WindowOp kOp =
    kUpdate == Update::replace ? kernels::WindowOp::replace : kernels::WindowOp::add;

/// Sums of complex numbers are those of their parts.
template <Update kUpdate>
bool has_kernel(DType dtype) {
  return kUpdate == Update::replace || is_complex(dtype) ||
         kernels::find_kernel(kernels::Op::add, dtype);
}

/// Some rows of a scatter, of indices and of updates, in their order.
template <Update kUpdate>
class RowScatter {
 public:
  RowScatter(const ScatterParams& p, const View& operand, View indices, View updates,
             std::int64_t rows)
      : indices_(indices.data),
        updates_(updates.data),
        index_step_(indices.strides[0]),
        update_step_(updates.strides.empty() ? 0 : updates.strides[0]) {
    const WindowIndexing w = window_indexing(p, operand.shape, updates.shape);
    if (rows < indices.shape[0]) indices.shape[0] = updates.shape[0] = rows;
    numbers_ = window_loop(kOp<kUpdate>, w, operand, indices, updates).numbers();
  }
  void run(std::int64_t first_row, char* operand) const {
    kernels::run_windows(numbers_.data(), operand, indices_ + first_row * index_step_,
                         updates_ + first_row * update_step_, nullptr);
  }

 private:
  char *indices_, *updates_;
  std::int64_t index_step_, update_step_;
  std::vector<std::int64_t> numbers_;
};

/// out += table after table, each of the shape of `out`.
void add_tables(const View& out, const View& tables) {
  constexpr std::int64_t kGrain = 1 << 15;  // elements
  const kernels::Kernel add = kernels::find_kernel(kernels::Op::add, out.dtype);
  const auto size = static_cast<std::int64_t>(size_of(out.dtype));
  const std::int64_t all = out.shape.num_elements();
  runtime::parallel_for((all + kGrain - 1) / kGrain, [&](std::int64_t chunk) {
    const std::int64_t n = std::min(kGrain, all - chunk * kGrain);
    char* const to = out.data + chunk * kGrain * size;
    for (std::int64_t t = 0; t < tables.shape[0]; ++t) {
      const char* const operands[] = {to, tables.data + (t * all + chunk * kGrain) * size};
      const std::int64_t strides[] = {size, size};
      add(n, operands, strides, to, size, nullptr);
    }
  });
}

/// A sum in parts of so many rows, added to `out`.
void add_parts(const ScatterParams& p, const View& out, const View& indices, const View& updates,
               std::int64_t rows) {
  const std::int64_t parts = indices.shape[0] / rows, rest = indices.shape[0] % rows;
  const auto bytes = out.shape.num_elements() * static_cast<std::int64_t>(size_of(out.dtype));
  const kernels::Temporary tables(inserted(out.shape, 0, parts), out.dtype);
  const Array zero = convert_scalar(Array(-0.0), out.dtype);
  const RowScatter<Update::add> part(p, out, indices, updates, rows);
  runtime::parallel_for(parts, [&](std::int64_t i) {
    char* const table = tables.data() + i * bytes;
    kernels::run_fill(view_of(zero).data, kernels::contiguous_view(table, out.dtype, out.shape));
    part.run(i * rows, table);
  });
  add_tables(out, tables.view());
  if (rest > 0) RowScatter<Update::add>(p, out, indices, updates, rest).run(parts * rows, out.data);
}

template <Update kUpdate>
Arrays evaluate(const ScatterParams& p, std::span<const Array> x) {
  const Aval aval = result_aval<kUpdate>(p, avals_of(x)).avals[0];
  Array out = copy_to_dense(aval, view_of(x[0]));
  if (x[2].size() == 0) return {out};
  if (!has_kernel<kUpdate>(aval.dtype)) missing_rule(scatter_add_p, "impl");
  const View operand = view_of(out), indices = view_of(x[1]), updates = view_of(x[2]);
  const std::int64_t rows = indices.shape[0];
  if (kUpdate == Update::add) {
    const std::int64_t part = runtime::rows_of_part(p, aval, indices.shape, updates.shape);
    if (part < rows) {
      add_parts(p, operand, indices, updates, part);
      return {out};
    }
  }
  RowScatter<kUpdate>(p, operand, indices, updates, rows).run(0, operand.data);
  return {out};
}

/// The same in a compiled program, on a copy of the operand that generated code has made.
template <Update kUpdate>
std::optional<runtime::NativeCall> native_call(const ScatterParams& p,
                                               std::span<const runtime::NativeOperand> x) {
  const Aval &operand = x[0].aval, &updates = x[2].aval;
  if (!has_kernel<kUpdate>(operand.dtype)) return std::nullopt;
  auto call = native_windows(kOp<kUpdate>, window_indexing(p, operand.shape, updates.shape),
                             operand, x[1].aval, x[2]);
  if (call) call->buffers = {runtime::NativeCall::kResult, 1, 2};
  return call;
}

// ---- derivatives -------------------------------------------------------------------------------
/// For given indices both are linear in operand and updates, also where updates meet: the tangents are
/// scattered in the same order as the values.
template <Update kUpdate>
JvpResult jvp(const ScatterParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  const auto& scatter = primitive<kUpdate>();
  return {scatter.bind(p, x), {scatter.bind1(p, {dx[0].instantiate(), x[1], dx[2].instantiate()})}};
}

/// The windows that a scatter with these parameters wrote to; zero where it dropped the update.
Array gather_back(const Array& x, const Array& indices, const ScatterParams& p,
                  const Shape& updates) {
  const WindowIndexing w = window_indexing(p, x.shape(), updates);
  const auto mode = p.mode == GatherScatterMode::clip ? p.mode : GatherScatterMode::fill_or_drop;
  return lax::gather(x, wrapped(indices, p, x.shape()),
                     {w.numbers, w.window, mode, 0.0, p.unique_indices, p.indices_are_sorted});
}

/// Whether there is one index vector, or one for each row of a batch: then all updates survive that were
/// in bounds.
bool one_each(const ScatterParams& p, const Shape& updates) {
  const Shape axes = batch_axes(as_gather(p.dimension_numbers), updates.ndim());
  const Shape& rows = p.dimension_numbers.scatter_indices_batching_dims;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool row =
        std::find(rows.begin(), rows.end(), static_cast<std::int64_t>(k)) != rows.end();
    if (!row && updates[static_cast<std::size_t>(axes[k])] > 1) return false;
  }
  return true;
}

/// Where update elements survived: scatter a number for each index vector and look which is left.
Array survived(const Array& indices, const ScatterParams& p, const Shape& operand,
               const Shape& updates) {
  const Shape axes = batch_axes(as_gather(p.dimension_numbers), updates.ndim());
  const Shape counts = taken(updates, axes);
  const DType dtype = counts.num_elements() < (std::int64_t{1} << 31) ? DType::i32 : DType::i64;
  const Array one = lax::full({counts.num_elements()}, dtype, 1);
  const Array numbers =
      lax::reshape(lax::add(lax::iota(dtype, {counts.num_elements()}), one), counts);
  const Array wanted = lax::broadcast_in_dim(numbers, updates, axes);
  const Array left = lax::scatter(lax::full(operand, dtype, 0), indices, wanted, p);
  return lax::eq(gather_back(left, indices, p, updates), wanted);
}

/// ct(x): zeros where an update was written; ct(updates): what lies there, for those that survived.
std::vector<Tangent> replace_transpose(const ScatterParams& p, std::span<const Tangent> cts,
                                       std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array& ct = cts[0].array();
  const Array& indices = x[1].array();
  const Shape& updates = x[2].aval().shape;
  if (x[0].is_linear()) out[0] = lax::scatter(ct, indices, lax::full(updates, ct.dtype(), 0), p);
  if (x[2].is_linear()) {
    const Array there = gather_back(ct, indices, p, updates);
    out[2] = p.unique_indices || one_each(p, updates)
                 ? there
                 : lax::select(survived(indices, p, ct.shape(), updates), there,
                               lax::full(updates, ct.dtype(), 0));
  }
  return out;
}

/// ct(x) = ct; ct(updates): what lies where they were added.
std::vector<Tangent> add_transpose(const ScatterParams& p, std::span<const Tangent> cts,
                                   std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array& ct = cts[0].array();
  if (x[0].is_linear()) out[0] = ct;
  if (x[2].is_linear()) out[2] = gather_back(ct, x[1].array(), p, x[2].aval().shape);
  return out;
}

// ---- batching ----------------------------------------------------------------------------------
/// The operand is mapped in any case, since the result is.
template <Update kUpdate>
BatchResult batch(const ScatterParams& p, const AxisInfo& info, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  const int axis = axes[0].value_or(0);
  const Array operand = batch_at(x[0], axes[0], info.size, axis);
  const Array indices = axes[1] ? move_axis(x[1], *axes[1], 0) : x[1];
  Shape single = x[2].shape(), single_operand = operand.shape();
  if (axes[2]) single.erase(static_cast<std::size_t>(*axes[2]));
  single_operand.erase(static_cast<std::size_t>(axis));
  const BatchedIndexing b = batch_indexing(window_indexing(p, single_operand, single), axis,
                                           axes[1].has_value(), info.size);
  ScatterParams batched = p;
  batched.dimension_numbers = as_scatter(b.indexing.numbers);
  if (axes[1]) batched.indices_are_sorted = false;
  const Array updates = batch_at(x[2], axes[2], info.size, b.slices_axis);
  return {{primitive<kUpdate>().bind1(batched, {operand, indices, updates})}, {axis}};
}

// ---- generated code ----------------------------------------------------------------------------
/// A copy of the operand, then a loop over the index vectors, each with a loop over its window.
template <Update kUpdate>
void emit(Emitter& e, const ScatterParams& p, std::span<const Buffer> in,
          std::span<const Buffer> out) {
  e.copy(in[0], out[0]);
  const Shape& operand = in[0].shape();
  const Shape& updates = in[2].shape();
  if (updates.num_elements() == 0) return;
  const WindowIndexing w = window_indexing(p, operand, updates);
  const Shape counted = batch_axes(w.numbers, updates.ndim()),
              axes = window_axes(w.numbers, operand.ndim());
  loop_nest(e, taken(updates, counted), [&](const Index& batch) {
    const WindowStart at = emit_start(e, w, operand, batch, [&](std::int64_t k) {
      Index vector = batch;
      vector.push_back(e.index(k));
      return e.load(in[1], vector);
    });
    const auto write_window = [&] {
      loop_nest(e, taken(w.window, axes), [&](const Index& offset) {
        Index to = at.start, from(updates.size());
        for (std::size_t i = 0; i < counted.size(); ++i)
          from[static_cast<std::size_t>(counted[i])] = batch[i];
        for (std::size_t i = 0; i < axes.size(); ++i) {
          const auto axis = static_cast<std::size_t>(axes[i]);
          to[axis] = e.add(to[axis], offset[i]);
          from[static_cast<std::size_t>(w.numbers.offset_dims[i])] = offset[i];
        }
        const Scalar update = e.load(in[2], from);
        e.store(out[0], to,
                kUpdate == Update::replace ? update : e.add(e.load(out[0], to), update));
      });
    };
    at.in_bounds ? e.if_then(*at.in_bounds, write_window) : write_window();
  });
}

template <Update kUpdate>
Rules<ScatterParams> scatter_rules() {
  return {
      .impl = evaluate<kUpdate>,
      .abstract_eval = result_aval<kUpdate>,
      .jvp = jvp<kUpdate>,
      .transpose = kUpdate == Update::replace ? replace_transpose : add_transpose,
      .batch = batch<kUpdate>,
      .lower = kernel<ScatterParams>(emit<kUpdate>),
      .updates_operand = true,
  };
}

}  // namespace
}  // namespace detail

namespace {
const runtime::NativeForm kNativeForms[] = {
    {"scatter", detail::kNativeWindows,
     [](const Params& p, std::span<const runtime::NativeOperand> x) {
       return detail::native_call<detail::Update::replace>(p.as<ScatterParams>(), x);
     }},
    {"scatter_add", detail::kNativeWindows,
     [](const Params& p, std::span<const runtime::NativeOperand> x) {
       return detail::native_call<detail::Update::add>(p.as<ScatterParams>(), x);
     }}};
}  // namespace

const Primitive<ScatterParams> scatter_p{
    "scatter", [] { return detail::scatter_rules<detail::Update::replace>(); }};
const Primitive<ScatterParams> scatter_add_p{
    "scatter_add", [] { return detail::scatter_rules<detail::Update::add>(); }};

}  // namespace v1
}  // namespace telamon
