// sort: the lines of all operands along `dimension` are permuted alike, so that the first `num_keys`
// of them, compared one after the other, ascend. -0 equals 0, all NaNs are equal and come last. The
// order of equals is kept whether or not `is_stable` asks for it.
#include "runtime/kernels/sort.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "sort";

AbstractResult result_avals(const SortParams& p, std::span<const Aval> avals) {
  if (avals.empty()) value_error(kName, avals, "needs at least one operand");
  check_axis(kName, avals, "dimension", p.dimension, avals[0].ndim());
  if (p.num_keys < 1 || static_cast<std::size_t>(p.num_keys) > avals.size()) {
    value_error(
        kName, avals,
        "num_keys must be from 1 to the number of operands, but is " + std::to_string(p.num_keys));
  }
  for (const Aval& a : avals) {
    if (a.shape != avals[0].shape) shape_error(kName, avals, "operands must have one shape");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.num_keys); ++i) {
    if (is_complex(avals[i].dtype)) dtype_error(kName, avals, "keys must be real");
  }
  return std::vector<Aval>(avals.begin(), avals.end());
}

// ---- evaluation --------------------------------------------------------------------------------
Arrays evaluate(const SortParams& p, std::span<const Array> x) {
  Arrays sorted;
  std::vector<View> in, out;
  for (const Aval& aval : result_avals(p, avals_of(x)).avals) {
    in.push_back(view_of(x[sorted.size()]));
    sorted.push_back(make_uninitialized(aval));
    out.push_back(view_of(sorted.back()));
  }
  kernels::run_sort(in, static_cast<int>(p.dimension), p.num_keys, out);
  return sorted;
}

/// The same on the buffers of a compiled program.
void sort_buffers(const SortParams& p, std::span<const BufferView> in,
                  std::span<const MutableBufferView> out) {
  std::vector<View> from, to;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Shape shape(in[i].shape);
    // Nothing is written through the view of an operand.
    from.push_back(kernels::contiguous_view(const_cast<void*>(in[i].data), in[i].dtype, shape));
    to.push_back(kernels::contiguous_view(out[i].data, out[i].dtype, shape));
  }
  kernels::run_sort(from, static_cast<int>(p.dimension), p.num_keys, to);
}

// ---- derivatives and batching ------------------------------------------------------------------
/// x with each line permuted: out[..., i, ...] = x[..., order[..., i, ...], ...].
Array permute_lines(const Array& x, const Array& order, std::int64_t dimension) {
  GatherParams p;
  const Shape others = other_axes({dimension}, x.ndim());
  p.dimension_numbers = {{}, {dimension}, {dimension}, others, others};
  p.slice_sizes = Shape(x.shape().size(), 1);
  p.mode = GatherScatterMode::promise_in_bounds;
  p.unique_indices = true;
  return lax::gather(x, lax::expand_dims(order, {x.ndim()}), p);
}

/// Numbers of the elements are sorted along; the tangents follow them.
JvpResult jvp(const SortParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  Arrays operands(x.begin(), x.end());
  const std::int64_t n = x[0].shape()[static_cast<std::size_t>(p.dimension)];
  operands.push_back(
      lax::iota(n < (std::int64_t{1} << 31) ? DType::i32 : DType::i64, x[0].shape(), p.dimension));
  Arrays sorted = sort_p.bind(p, operands);
  const Array order = sorted.back();
  sorted.pop_back();
  std::vector<Tangent> tangents;
  for (const Tangent& t : dx) {
    // Nothing to permute in an empty array, nor anything that a gather could read.
    tangents.push_back(t.is_zero() || t.aval().size() == 0
                           ? t
                           : Tangent(permute_lines(t.array(), order, p.dimension)));
  }
  return {std::move(sorted), std::move(tangents)};
}

BatchResult batch(const SortParams& p, const AxisInfo& info, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  const int axis = first_mapped(axes);
  Arrays operands;
  for (std::size_t i = 0; i < x.size(); ++i)
    operands.push_back(batch_at(x[i], axes[i], info.size, axis));
  SortParams batched = p;
  batched.dimension = shifted(p.dimension, axis);
  return {sort_p.bind(batched, operands), std::vector<BatchAxis>(x.size(), axis)};
}

}  // namespace
}  // namespace detail

const Primitive<SortParams> sort_p{
    detail::kName, [] {
      using namespace detail;
      return Rules<SortParams>{
          .impl = evaluate,
          .abstract_eval = result_avals,
          .jvp = jvp,
          .batch = batch,
          .lower = call<SortParams>(sort_buffers, "telamon.sort"),
          .exempt = {{"transpose", "not linear: its tangents go through a gather"}},
      };
    }};

}  // namespace v1
}  // namespace telamon
