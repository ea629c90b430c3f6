// sort: the lines of all operands along `dimension` are permuted alike, so that the first `num_keys`
// of them, compared one after the other, ascend. -0 equals 0, all NaNs are equal and come last. The
// order of equals is kept whether or not `is_stable` asks for it.
#include <algorithm>
#include <numeric>

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

// ---- evaluation, also of compiled programs -----------------------------------------------------
template <class T>
bool less(T a, T b) {
  return a < b || (b != b && a == a);
}

/// Whether element i of a line comes before element j (< 0), after it (> 0), or is its equal.
using CompareElements = int (*)(const std::byte* key, std::int64_t i, std::int64_t j);
template <class T>
int compare_elements(const std::byte* key, std::int64_t i, std::int64_t j) {
  const T a = reinterpret_cast<const T*>(key)[i], b = reinterpret_cast<const T*>(key)[j];
  return less(a, b) ? -1 : less(b, a) ? 1 : 0;
}
CompareElements compare_elements_of(DType dtype) {
  CompareElements f = nullptr;
  with_type(dtype, kName, [&]<class T>(std::type_identity<T>) { f = compare_elements<T>; });
  return f;
}

void sort_buffers(const SortParams& p, std::span<const BufferView> in,
                  std::span<const MutableBufferView> out) {
  const Shape shape(in[0].shape);
  const auto d = static_cast<std::size_t>(p.dimension);
  const std::int64_t n = shape[d];
  if (shape.num_elements() == 0) return;
  const std::int64_t inner = taken(shape, range(p.dimension + 1, shape.ndim())).num_elements();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::vector<CompareElements> compare;
  for (int k = 0; k < p.num_keys; ++k)
    compare.push_back(compare_elements_of(in[static_cast<std::size_t>(k)].dtype));
  for (std::int64_t line = 0; line < shape.num_elements() / n; ++line) {
    const std::int64_t first = line / inner * n * inner + line % inner;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      for (std::size_t k = 0; k < static_cast<std::size_t>(p.num_keys); ++k) {
        const int c = compare[k](in[k].as<std::byte>(), first + i * inner, first + j * inner);
        if (c != 0) return c < 0;
      }
      return i < j;
    });
    for (std::size_t k = 0; k < in.size(); ++k) {
      const std::size_t size = size_of(in[k].dtype);
      const auto step = static_cast<std::int64_t>(size);
      const std::byte* from = in[k].as<std::byte>() + first * step;
      std::byte* to = out[k].as<std::byte>() + first * step;
      for (std::int64_t i = 0; i < n; ++i) {
        std::copy_n(from + order[static_cast<std::size_t>(i)] * inner * step, size,
                    to + i * inner * step);
      }
    }
  }
}

Arrays evaluate(const SortParams& p, std::span<const Array> x) {
  const std::vector<Aval> avals = result_avals(p, avals_of(x)).avals;
  Arrays dense, sorted;
  std::vector<BufferView> in;
  std::vector<MutableBufferView> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    dense.push_back(contiguous(x[i]));
    sorted.push_back(make_uninitialized(avals[i]));
    in.push_back({concrete_node(dense[i]).data(), avals[i].dtype, avals[i].shape});
    out.push_back({concrete_node(sorted[i]).data(), avals[i].dtype, avals[i].shape});
  }
  sort_buffers(p, in, out);
  return sorted;
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
