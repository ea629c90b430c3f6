// argmax, argmin: where the largest or smallest value lies along one dimension; the first of equals,
// and the first NaN before everything else.
#include <limits>

#include "primitives/eager.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/reduce.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

enum class Pick : std::uint8_t { largest, smallest };
const char* name_of(Pick pick) { return pick == Pick::largest ? "argmax" : "argmin"; }

/// The highest index that `dtype` can hold.
std::int64_t highest_index(DType dtype) {
  const std::size_t bits = size_of(dtype) * 8 - (is_signed_integer(dtype) ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
}

template <Pick kPick>
AbstractResult result_aval(const ArgReduceParams& p, std::span<const Aval> avals) {
  const char* name = name_of(kPick);
  check_arity(name, avals, 1);
  if (is_complex(avals[0].dtype)) dtype_error(name, avals, "takes real values");
  if (!is_integer(p.index_dtype)) {
    dtype_error(
        name, avals,
        "index_dtype must be an integer type, but is " + std::string(short_name(p.index_dtype)));
  }
  if (p.axes.size() != 1)
    value_error(name, avals, "takes exactly one axis, but got " + p.axes.to_string());
  check_axes(name, avals, "axis", p.axes, avals[0].ndim());
  const std::int64_t n = avals[0].shape[static_cast<std::size_t>(p.axes[0])];
  if (n == 0) value_error(name, avals, "axis " + std::to_string(p.axes[0]) + " must not be empty");
  if (n - 1 > highest_index(p.index_dtype)) {
    value_error(
        name, avals,
        "index_dtype " + std::string(short_name(p.index_dtype)) + " cannot hold the indices");
  }
  Shape shape = avals[0].shape;
  shape.erase(static_cast<std::size_t>(p.axes[0]));
  return Aval{shape, p.index_dtype, false};
}

template <Pick kPick>
Arrays evaluate(const ArgReduceParams& p, std::span<const Array> x) {
  Array out = make_uninitialized(result_aval<kPick>(p, avals_of(x)).avals[0]);
  const auto run = kPick == Pick::largest ? kernels::run_argmax : kernels::run_argmin;
  run(view_of(x[0]), static_cast<int>(p.axes[0]), view_of(out));
  return {out};
}

/// Integers have no tangents.
template <Pick kPick>
JvpResult jvp(const ArgReduceParams& p, std::span<const Array> x, std::span<const Tangent>) {
  const Primitive<ArgReduceParams>& primitive = kPick == Pick::largest ? argmax_p : argmin_p;
  Array index = primitive.bind(p, x)[0];
  const Aval zero = index.aval().tangent();
  return {{std::move(index)}, {Zero{zero}}};
}

std::int64_t shift_axis(ArgReduceParams& p, const Array&, int axis) {
  p.axes = shifted(p.axes, axis);
  return axis - count_below(p.axes, axis);
}

/// The first index whose element equals the extremum or is NaN, itself a reduction: min over
/// (x = best or x != x ? i : n - 1), in numbers no wider than the indices need: of those a vector holds more.
template <Pick kPick>
Arrays lower(const ArgReduceParams& p, std::span<const Array> operands) {
  const Array& x = operands[0];
  if (x.dtype() == DType::bool_) {  // kernels compare bytes
    const Array bytes = lax::convert_element_type(x, DType::u8);
    return {kPick == Pick::largest ? lax::argmax(bytes, p.axes[0], p.index_dtype)
                                   : lax::argmin(bytes, p.axes[0], p.index_dtype)};
  }
  const auto d = static_cast<std::size_t>(p.axes[0]);
  const Array best =
      kPick == Pick::largest ? lax::reduce_max(x, p.axes) : lax::reduce_min(x, p.axes);
  Array found = lax::eq(x, lax::broadcast_in_dim(best, x.shape(), other_axes(p.axes, x.ndim())));
  if (is_float(x.dtype())) found = lax::bitwise_or(found, lax::ne(x, x));
  const std::int64_t highest = x.shape()[d] - 1;
  const bool narrow =
      size_of(p.index_dtype) > size_of(DType::i32) && highest <= highest_index(DType::i32);
  const DType counted = narrow ? DType::i32 : p.index_dtype;
  const Array last = lax::full(x.shape(), counted, static_cast<double>(highest));
  const Array place =
      lax::reduce_min(lax::select(found, lax::iota(counted, x.shape(), p.axes[0]), last), p.axes);
  return {lax::convert_element_type(place, p.index_dtype)};
}

template <Pick kPick>
Rules<ArgReduceParams> arg_reduction(const Primitive<ArgReduceParams>& primitive) {
  return {
      .impl = evaluate<kPick>,
      .abstract_eval = result_aval<kPick>,
      .jvp = jvp<kPick>,
      .batch = batch_in_place(primitive, shift_axis),
      .lower = ops<ArgReduceParams>(lower<kPick>),
      .exempt = {{"transpose", "not linear"}},
  };
}

}  // namespace
}  // namespace detail

const Primitive<ArgReduceParams> argmax_p{
    "argmax", [] { return detail::arg_reduction<detail::Pick::largest>(argmax_p); }};
const Primitive<ArgReduceParams> argmin_p{
    "argmin", [] { return detail::arg_reduction<detail::Pick::smallest>(argmin_p); }};

}  // namespace v1
}  // namespace telamon
