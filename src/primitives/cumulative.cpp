// Cumulative sum, product, maximum and minimum along an axis: result i combines the elements 0..i (with
// `reverse`: i..n-1).
#include "core/result_place.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/reduce.hpp"
#include "runtime/native_forms.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using Scan = kernels::ReduceOp;
constexpr const char* kNames[] = {"cumsum", "cumprod", "cummax", "cummin"};
template <Scan kScan>
constexpr const char* kName = kNames[static_cast<int>(kScan)];

template <Scan kScan>
AbstractResult result_aval(const CumulativeParams& p, std::span<const Aval> avals) {
  check_arity(kName<kScan>, avals, 1);
  const bool order = kScan == Scan::max || kScan == Scan::min;
  if (avals[0].dtype == DType::bool_ || (order && is_complex(avals[0].dtype))) {
    dtype_error(kName<kScan>, avals, order ? "takes real numbers" : "takes numbers");
  }
  check_axis(kName<kScan>, avals, "axis", p.axis, avals[0].ndim());
  return avals[0];
}

template <Scan kScan>
Arrays evaluate(const CumulativeParams& p, std::span<const Array> x) {
  Array out = make_result(result_aval<kScan>(p, avals_of(x)).avals[0]);
  const auto direction = p.reverse ? kernels::Direction::reverse : kernels::Direction::forward;
  kernels::run_cumulative(kScan, view_of(x[0]), static_cast<int>(p.axis), direction, view_of(out));
  return {out};
}

template <Scan kScan>
const Primitive<CumulativeParams>& primitive() {
  if constexpr (kScan == Scan::sum) return cumsum_p;
  if constexpr (kScan == Scan::prod) return cumprod_p;
  if constexpr (kScan == Scan::max) return cummax_p;
  if constexpr (kScan == Scan::min) return cummin_p;
}

template <Scan kScan>
Array combine_arrays(const Array& a, const Array& b) {
  if constexpr (kScan == Scan::prod) return lax::mul(a, b);
  if constexpr (kScan == Scan::max) return lax::max(a, b);
  if constexpr (kScan == Scan::min) return lax::min(a, b);
}

/// even[0], odd[0], even[1], odd[1], ...: each padded with zeros in between, and added.
Array interleave(const Array& even, const Array& odd, std::int64_t axis) {
  std::vector<std::array<std::int64_t, 3>> config(even.shape().size(), {0, 0, 0});
  const auto d = static_cast<std::size_t>(axis);
  const Array zero = lax::scalar(0.0, even.dtype());
  config[d] = {0, even.shape()[d] == odd.shape()[d] ? 1 : 0, 1};
  const Array spread_even = lax::pad(even, zero, config);
  config[d] = {1, even.shape()[d] == odd.shape()[d] ? 0 : 1, 1};
  return lax::add(spread_even, lax::pad(odd, zero, config));
}

/// The scan as a tree of O(log n) differentiable steps (Blelloch 1990): combine neighbours, scan those,
/// and fill in the even places. Which of two equal elements a derivative goes to follows this tree.
template <Scan kScan>
Array associative_scan(const Array& x, std::int64_t axis) {
  const std::int64_t n = x.shape()[static_cast<std::size_t>(axis)];
  if (n < 2) return x;
  const Array pairs = combine_arrays<kScan>(lax::slice_in_dim(x, 0, n - 1, 2, axis),
                                            lax::slice_in_dim(x, 1, n, 2, axis));
  const Array odd = associative_scan<kScan>(pairs, axis);
  const Array first = lax::slice_in_dim(x, 0, 1, 1, axis);
  if (n == 2) return interleave(first, odd, axis);
  const Array before = n % 2 == 0 ? lax::slice_in_dim(odd, 0, n / 2 - 1, 1, axis) : odd;
  const Array rest = combine_arrays<kScan>(before, lax::slice_in_dim(x, 2, n, 2, axis));
  return interleave(lax::concatenate(Arrays{first, rest}, axis), odd, axis);
}

template <Scan kScan>
JvpResult tree_jvp(const CumulativeParams& p, std::span<const Array> x,
                   std::span<const Tangent> dx) {
  const auto scan = [&p](std::span<const Array> args) {
    const Shape flipped = p.reverse ? Shape{p.axis} : Shape{};
    const Array forward = p.reverse ? lax::rev(args[0], flipped) : args[0];
    const Array y = associative_scan<kScan>(forward, p.axis);
    return Arrays{p.reverse ? lax::rev(y, flipped) : y};
  };
  JvpResult result = jvp_flat(scan, x, dx);
  return {primitive<kScan>().bind(p, x), std::move(result.tangents)};
}

std::int64_t shift_axis(CumulativeParams& p, const Array&, int axis) {
  p.axis = shifted(p.axis, axis);
  return axis;
}

template <Scan kScan>
Scalar combine_scalars(Emitter& e, Scalar a, Scalar b) {
  switch (kScan) {
    case Scan::sum: return e.add(a, b);
    case Scan::prod: return e.mul(a, b);
    case Scan::max: return e.max(a, b);
    default: return e.min(a, b);
  }
}

/// out[..., 0, ...] = x[..., 0, ...]; out[..., i, ...] = out[..., i - 1, ...] op x[..., i, ...].
template <Scan kScan>
void emit(Emitter& e, const CumulativeParams& p, std::span<const Buffer> in,
          std::span<const Buffer> out) {
  const auto d = static_cast<std::size_t>(p.axis);
  const std::int64_t n = in[0].shape()[d];
  if (in[0].shape().num_elements() == 0) return;
  const Shape outer = taken(in[0].shape(), range(0, p.axis));
  const Shape inner = taken(in[0].shape(), range(p.axis + 1, in[0].shape().ndim()));
  const auto place = [&](Index before, Scalar i, const Index& after) {
    before.push_back(p.reverse ? e.sub(e.index(n - 1), i) : i);
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  loop_nest(e, outer, [&](const Index& o) {
    loop_nest(e, inner, [&](const Index& k) {
      const Index first = place(o, e.index(0), k);
      e.store(out[0], first, e.load(in[0], first));
    });
    e.loop(e.index(1), e.index(n), [&](Scalar i) {
      loop_nest(e, inner, [&](const Index& k) {
        const Index here = place(o, i, k);
        const Scalar before = e.load(out[0], place(o, e.sub(i, e.index(1)), k));
        e.store(out[0], here, combine_scalars<kScan>(e, before, e.load(in[0], here)));
      });
    });
  });
}

/// The runtime's kernel in generated code: the same sums, several lines at a time.
template <Scan kScan>
runtime::NativeForm native_form() {
  return {kName<kScan>,
          {"telamon_native_cumulative", kernels::run_dense_cumulative},
          [](const Params& params,
             std::span<const runtime::NativeOperand> x) -> std::optional<runtime::NativeCall> {
            constexpr std::int64_t kWorthwhile = 64;  // elements
            const auto& p = params.as<CumulativeParams>();
            const Aval& aval = x[0].aval;
            const Shape& shape = aval.shape;
            if (!kernels::has_cumulative(aval.dtype) || aval.size() < kWorthwhile)
              return std::nullopt;
            const std::int64_t outer = taken(shape, range(0, p.axis)).num_elements();
            const std::int64_t inner = taken(shape, range(p.axis + 1, shape.ndim())).num_elements();
            return runtime::NativeCall{
                {static_cast<std::int64_t>(kScan), static_cast<std::int64_t>(aval.dtype), outer,
                 shape[static_cast<std::size_t>(p.axis)], inner, p.reverse ? 1 : 0},
                {0, runtime::NativeCall::kResult}};
          }};
}
const runtime::NativeForm kNativeForms[] = {native_form<Scan::sum>(), native_form<Scan::prod>(),
                                            native_form<Scan::max>(), native_form<Scan::min>()};

template <Scan kScan>
Rules<CumulativeParams> cumulative() {
  return {
      .impl = evaluate<kScan>,
      .abstract_eval = result_aval<kScan>,
      .batch = batch_in_place(primitive<kScan>(), shift_axis),
      .lower = kernel<CumulativeParams>(emit<kScan>),
      .exempt = {{"transpose", "not linear"}},
  };
}
template <Scan kScan>
Rules<CumulativeParams> cumulative_by_tree() {
  Rules<CumulativeParams> rules = cumulative<kScan>();
  rules.jvp = tree_jvp<kScan>;
  return rules;
}

}  // namespace
}  // namespace detail

// d cumsum(x) = cumsum(dx); transposed: cumsum from the other end.
const Primitive<CumulativeParams> cumsum_p{
    "cumsum", [] {
      using namespace detail;
      Rules<CumulativeParams> rules = cumulative<Scan::sum>();
      rules.jvp = linear_jvp(cumsum_p);
      rules.transpose = linear_transpose<CumulativeParams>(
          [](const CumulativeParams& p, const Array& ct, const Aval&) {
            return lax::cumsum(ct, p.axis, !p.reverse);
          });
      rules.exempt = {};
      return rules;
    }};

// The others are differentiated through the tree of their scan.
const Primitive<CumulativeParams> cumprod_p{
    "cumprod", [] { return detail::cumulative_by_tree<detail::Scan::prod>(); }};
const Primitive<CumulativeParams> cummax_p{
    "cummax", [] { return detail::cumulative_by_tree<detail::Scan::max>(); }};
const Primitive<CumulativeParams> cummin_p{
    "cummin", [] { return detail::cumulative_by_tree<detail::Scan::min>(); }};

}  // namespace v1
}  // namespace telamon
