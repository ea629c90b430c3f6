// pad: (low, high, interior) per dimension; low and high may be negative (they crop), interior
// elements go between neighbours. Operands: x, scalar value.
#include "core/indices.hpp"
#include "core/result_place.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

#include <algorithm>
#include <optional>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "pad";

/// Sums of a few such numbers do not overflow, and no array is as long.
constexpr std::int64_t kMost = std::int64_t{1} << 60;

/// low + high + n + (n - 1) interior elements; an empty dimension has none of the latter. Nothing
/// when that is too long.
std::optional<std::int64_t> padded_size(std::int64_t n, const std::array<std::int64_t, 3>& config) {
  std::int64_t between = 0;
  if (n > 1 && __builtin_mul_overflow(n - 1, config[2], &between)) return std::nullopt;
  for (const std::int64_t part : {n, between, config[0], config[1], config[2]}) {
    if (part > kMost || part < -kMost) return std::nullopt;
  }
  return config[0] + config[1] + n + between;
}

Aval result_aval(const PadParams& p, std::span<const Aval> avals) {
  check_arity(kName, avals, 2);
  check_same_dtype(kName, avals);
  if (avals[1].ndim() != 0) shape_error(kName, avals, "the padding value must be a scalar");
  if (p.padding_config.size() != avals[0].shape.size()) {
    shape_error(kName, avals,
                "padding_config must have one entry per dimension, but has " +
                    std::to_string(p.padding_config.size()));
  }
  Shape shape;
  for (std::size_t i = 0; i < p.padding_config.size(); ++i) {
    if (p.padding_config[i][2] < 0) {
      value_error(kName, avals,
                  "interior padding must not be negative, but is " +
                      std::to_string(p.padding_config[i][2]) + " for dimension " +
                      std::to_string(i));
    }
    const auto size = padded_size(avals[0].shape[i], p.padding_config[i]);
    if (!size) {
      const auto [low, high, interior] = p.padding_config[i];
      value_error(kName, avals,
                  "the padding (" + std::to_string(low) + ", " + std::to_string(high) + ", " +
                      std::to_string(interior) + ") of dimension " + std::to_string(i) +
                      " is too large: at most 2^60 elements");
    }
    shape.push_back(*size);
    if (shape.back() < 0) {
      shape_error(kName, avals,
                  "dimension " + std::to_string(i) + " would get the negative size " +
                      std::to_string(shape.back()));
    }
  }
  return {shape, avals[0].dtype, all_weak(avals)};
}

/// Fills with the value, then copies the elements that survive: in each dimension those i with
/// 0 <= low + i (interior + 1) < size.
Arrays evaluate(const PadParams& p, std::span<const Array> x) {
  const Aval out_aval = result_aval(p, avals_of(x));
  Array out = make_result(out_aval);
  View source = view_of(x[0]), target = view_of(out);
  kernels::run_fill(view_of(x[1]).data, target);
  for (std::size_t i = 0; i < p.padding_config.size(); ++i) {
    const auto [low, high, interior] = p.padding_config[i];
    const std::int64_t step = interior + 1;
    const std::int64_t first = low < 0 ? (-low + step - 1) / step : 0;
    const std::int64_t room = out_aval.shape[i] - (low + first * step);
    const std::int64_t n = std::min(x[0].shape()[i] - first, (room + step - 1) / step);
    if (n <= 0) return {out};
    source.shape[i] = target.shape[i] = n;
    source.data += first * source.strides[i];
    target.data += (low + first * step) * target.strides[i];
    if (n > 1) target.strides[i] *= step;
  }
  kernels::run_copy(source, target);
  return {out};
}

/// ct(x) = the elements at x's places: crop by padding with -low and -high, then stride over the
/// interior; ct(value) = the sum of all others.
std::vector<Tangent> transpose(const PadParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const Array& ct = cts[0].array();
  PadParams crop = p;
  Shape strides;
  for (auto& [low, high, interior] : crop.padding_config) {
    low = -low;
    high = -high;
    strides.push_back(std::exchange(interior, 0) + 1);
  }
  const Array cropped = lax::pad(ct, lax::scalar(0.0, ct.dtype()), crop.padding_config);
  const Array at_x = lax::slice(cropped, Shape(strides.size(), 0), cropped.shape(), strides);
  if (x[0].is_linear()) out[0] = at_x;
  if (x[1].is_linear()) {
    const Shape all = range(0, ct.ndim());
    out[1] = lax::sub(lax::reduce_sum(ct, all), lax::reduce_sum(at_x, all));
  }
  return out;
}

/// With one value for the whole batch the batch axis is just not padded. With a value each, x is
/// padded with zeros and the values are put in where a padded mask of x's shape says so.
BatchResult batch(const PadParams& p, const AxisInfo& info, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  if (!axes[1]) {
    PadParams batched = p;
    batched.padding_config.insert(batched.padding_config.begin() + *axes[0], {0, 0, 0});
    return {pad_p.bind(batched, x), {axes[0]}};
  }
  const Array front = batch_at(x[0], axes[0], info.size, 0);
  PadParams batched = p;
  batched.padding_config.insert(batched.padding_config.begin(), {0, 0, 0});
  const Array padded = lax::pad(front, lax::scalar(0, x[0].dtype()), batched.padding_config);
  const Array is_x = lax::pad(lax::full(front.shape(), DType::bool_, 1),
                              lax::scalar(false, DType::bool_), batched.padding_config);
  return {{lax::select(is_x, padded, lax::broadcast_in_dim(x[1], padded.shape(), {0}))}, {0}};
}

Scalar read(Emitter& e, const PadParams& p, std::span<const Source> x, const Index& index) {
  const Scalar value = x[1](Index{});
  if (x[0].shape().num_elements() == 0) return value;
  Index from;
  std::optional<Scalar> inside;
  const auto require = [&](Scalar condition) {
    inside = inside ? e.and_(*inside, condition) : condition;
  };
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto [low, high, interior] = p.padding_config[i];
    const std::int64_t n = x[0].shape()[i], extent = n + (n - 1) * interior;
    const Scalar offset = low == 0 ? index[i] : e.sub(index[i], e.index(low));
    Scalar at = offset;
    if (low > 0) require(e.compare(Compare::ge, offset, e.index(0)));
    if (high > 0) require(e.compare(Compare::lt, offset, e.index(extent)));
    if (low > 0 || high > 0) at = clamp(e, offset, 0, extent - 1);
    if (interior > 0) {
      require(e.compare(Compare::eq, e.rem(at, e.index(interior + 1)), e.index(0)));
      at = e.div(at, e.index(interior + 1));
    }
    from.push_back(at);
  }
  const Scalar element = x[0](from);
  return inside ? e.select(*inside, element, value) : element;
}

}  // namespace
}  // namespace detail

// Linear in both operands: d pad(x, v) = pad(dx, dv).
const Primitive<PadParams> pad_p{detail::kName, [] {
                                   using namespace detail;
                                   return Rules<PadParams>{
                                       .impl = evaluate,
                                       .abstract_eval = result_aval,
                                       .jvp = linear_jvp(pad_p),
                                       .transpose = transpose,
                                       .batch = batch,
                                       .lower = at_index<PadParams>(read).with_cost(4),
                                   };
                                 }};

}  // namespace v1
}  // namespace telamon
