// Conversions between dtypes: by value and by bits.
#include <algorithm>

#include "core/result_place.hpp"
#include "interpreters/interpreters.hpp"
#include "primitives/elementwise.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/copy.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

// ---- convert_element_type ----------------------------------------------------------------------
namespace {

Array convert_impl(const Array& x, const Aval& out) {
  if (x.dtype() == out.dtype) return x.weak_type() == out.weak_type ? x : detail::with_aval(x, out);
  Array result = detail::make_result(out);
  kernels::run_convert(view_of(x), view_of(result));
  return result;
}

Aval convert_aval(const ConvertParams& p, const Aval& x) {
  if (!kAny.contains(x.dtype) || !kAny.contains(p.new_dtype)) {
    throw TypeError("convert_element_type cannot convert " + x.to_string() + " to dtype " +
                    std::string(short_name(p.new_dtype)) + ": float0 holds no data.");
  }
  return {x.shape, p.new_dtype, p.weak_type};
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// convert_element_type[new_dtype, weak_type](x): floats to integers truncate and saturate, NaN
/// gives 0; integers wrap; to bool is x != 0; complex to real takes the real part.
/// d convert(x) = convert(dx), or 0 if the result has no tangent
const Primitive<ConvertParams> convert_element_type_p{"convert_element_type", [] {
  return Rules<ConvertParams>{
    .impl = [](const ConvertParams& p, std::span<const Array> x) {
      return Arrays{convert_impl(x[0], convert_aval(p, x[0].aval()))};
    },
    .abstract_eval = [](const ConvertParams& p, std::span<const Aval> x) {
      detail::check_arity("convert_element_type", x, 1);
      return AbstractResult(convert_aval(p, x[0]));
    },
    .jvp = [](const ConvertParams& p, std::span<const Array> x, std::span<const Tangent> t) {
      Array y = convert_element_type_p.bind1(p, {x[0]});
      Tangent dy = Zero{y.aval().tangent()};
      if (is_inexact(p.new_dtype) && !t[0].is_zero())
        dy = lax::convert_element_type(t[0].array(), p.new_dtype, p.weak_type);
      return JvpResult{{std::move(y)}, {std::move(dy)}};
    },
    .transpose = [](const ConvertParams&, std::span<const Tangent> ct,
                    std::span<const LinearInput> x) {
      const Aval aval = x[0].aval().tangent();
      if (ct[0].is_zero() || aval.dtype == DType::float0) return std::vector<Tangent>{Zero{aval}};
      return std::vector<Tangent>{
          lax::convert_element_type(ct[0].array(), aval.dtype, aval.weak_type)};
    },
    .batch = elementwise_batch(convert_element_type_p),
    .lower = element<ConvertParams>(
        [](Emitter& e, const ConvertParams& p, std::span<const Scalar> x) {
          return x[0].dtype() == p.new_dtype ? x[0] : e.convert(x[0], p.new_dtype);
        }),
}; }};
// clang-format on

// ---- bitcast_convert_type ----------------------------------------------------------------------
namespace {

Aval bitcast_aval(const BitcastParams& p, const Aval& x) {
  const auto refused = [](DType d) {
    return d == DType::bool_ || is_complex(d) || d == DType::float0;
  };
  if (x.dtype != p.new_dtype && (refused(x.dtype) || refused(p.new_dtype))) {
    throw TypeError(
        "bitcast_convert_type does not support bool or complex values unless the operand and "
        "destination types match. Got operand " +
        x.to_string() + ", new_dtype=" + std::string(short_name(p.new_dtype)) + ".");
  }
  const auto from = static_cast<std::int64_t>(size_of(x.dtype)),
             to = static_cast<std::int64_t>(size_of(p.new_dtype));
  Shape shape = x.shape;
  if (from > to) shape.push_back(from / to);
  if (from < to) {
    const std::int64_t last = shape.empty() ? 1 : shape.back();
    if (last * from != to) {
      const auto bits = [](std::int64_t bytes) { return std::to_string(bytes * 8); };
      throw ShapeError("Attempting to convert array of shape " + x.shape.to_string() + " from " +
                       std::string(short_name(x.dtype)) + " of size " + bits(from) + " bits to " +
                       std::string(short_name(p.new_dtype)) + " of size " + bits(to) +
                       " bits, but " + std::to_string(last) + " * " + bits(from) +
                       " != " + bits(to) + ".");
    }
    shape.pop_back();
  }
  return {shape, p.new_dtype, false};
}

// Part k of a wider element holds its bits from k * width on (little-endian), in both directions.
Scalar emit_bitcast(Emitter& e, const BitcastParams& p, std::span<const Source> x, const Index& i) {
  const DType from = x[0].dtype(), to = p.new_dtype;
  const DType from_bits = unsigned_of(from), to_bits = unsigned_of(to);
  const auto width = static_cast<std::int64_t>(8 * std::min(size_of(from), size_of(to)));
  if (size_of(from) == size_of(to)) return as_dtype(e, x[0](i), to);
  if (size_of(from) > size_of(to)) {
    const Scalar part = e.convert(i.back(), from_bits);
    const Scalar shift = e.mul(part, e.constant_int(from_bits, width));
    const Scalar whole = as_dtype(e, x[0](Index(i.begin(), i.end() - 1)), from_bits);
    return as_dtype(e, e.convert(e.shift_right_logical(whole, shift), to_bits), to);
  }
  Scalar whole = e.constant_int(to_bits, 0);
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(size_of(to) / size_of(from)); ++k) {
    Index j = i;
    j.push_back(e.index(k));
    const Scalar part = e.convert(as_dtype(e, x[0](j), from_bits), to_bits);
    whole = e.or_(whole, e.shift_left(part, e.constant_int(to_bits, k * width)));
  }
  return as_dtype(e, whole, to);
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// bitcast_convert_type[new_dtype](x): the same bits. To a narrower dtype a trailing dimension is
/// added, from a narrower one it is removed.   d bitcast_convert_type(x) = 0
const Primitive<BitcastParams> bitcast_convert_type_p{"bitcast_convert_type", [] {
  return Rules<BitcastParams>{
    .impl = [](const BitcastParams& p, std::span<const Array> x) {
      return Arrays{detail::with_aval(detail::contiguous(x[0]), bitcast_aval(p, x[0].aval()))};
    },
    .abstract_eval = [](const BitcastParams& p, std::span<const Aval> x) {
      detail::check_arity("bitcast_convert_type", x, 1);
      return AbstractResult(bitcast_aval(p, x[0]));
    },
    .jvp = [](const BitcastParams& p, std::span<const Array> x, std::span<const Tangent>) {
      Array y = bitcast_convert_type_p.bind1(p, {x[0]});
      Tangent zero = Zero{y.aval().tangent()};
      return JvpResult{{std::move(y)}, {std::move(zero)}};
    },
    .batch = [](const BitcastParams& p, const AxisInfo&, std::span<const Array> x,
                std::span<const BatchAxis> axes) {
      // The last dimension may be consumed, so the batch axis must not be there.
      const bool last = *axes[0] == x[0].ndim() - 1;
      const Array batch = last ? detail::move_axis(x[0], *axes[0], 0) : x[0];
      return BatchResult{bitcast_convert_type_p.bind(p, {batch}), {last ? 0 : *axes[0]}};
    },
    .lower = at_index<BitcastParams>(emit_bitcast),
    .exempt = {{"transpose", "its derivative is zero"}},
}; }};
// clang-format on

}  // namespace v1
}  // namespace telamon
